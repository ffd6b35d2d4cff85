"""Numbers: run what was derived, simulate the same network, compare the two."""

from typing import TYPE_CHECKING

from derive.work.faces import face

if TYPE_CHECKING:
    from . import deep, init, models, spectra, training
    from .codegen.c import write_c
    from .codegen.python import write_module
    from .flows import flow
    from .simulations import simulate
    from .studies import Study, study
    from .tables.compare import Comparison, compare
    from .tables.normalise import normalise
    from .tables.plot import plot

__all__ = [
    "Comparison",
    "Study",
    "compare",
    "deep",
    "flow",
    "init",
    "models",
    "normalise",
    "plot",
    "simulate",
    "spectra",
    "study",
    "training",
    "write_c",
    "write_module",
]

_HOMES = {
    "Comparison": "tables.compare",
    "Study": "studies",
    "compare": "tables.compare",
    "flow": "flows",
    "normalise": "tables.normalise",
    "plot": "tables.plot",
    "simulate": "simulations",
    "study": "studies",
    "write_c": "codegen.c",
    "write_module": "codegen.python",
}
"""Where the public names live: each is loaded when it is asked for, with what it rests on."""


__getattr__ = face(__name__, _HOMES, set(__all__).difference(_HOMES))


def __dir__() -> list[str]:
    return sorted(__all__)
