"""Everything public of `derive` and `numeric` in one place, loaded when it is asked for.

>>> import wickgarten as wg
>>> wg.recursion("K", wg.Orthogonal()).single_input()
K(ℓ+1) = C_W*⟨σ²⟩ + C_b

`wg.verify` checks the theory against random networks, as `wickgarten verify` does.

Both rooms have `batchnorm`, `spectra` and `training`, symbols in one and numbers in the other:
those are `wg.derive.spectra` and `wg.numeric.spectra`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from derivations.verify import verify as verify
    from derive import *  # noqa: F403
    from numeric import *  # type: ignore[no-redef]  # noqa: F403 (IN_BOTH)

ROOMS = ("derive", "numeric")
IN_BOTH = ("batchnorm", "spectra", "training")
OF_THE_BOOK = {"verify": "derivations.verify"}


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(name)
    if name in OF_THE_BOOK:
        return getattr(import_module(OF_THE_BOOK[name]), name)
    if name == "__all__":
        return __dir__()
    reason = f"module {__name__!r} has no attribute {name!r}"
    if name in IN_BOTH:
        places = " or ".join(f"{__name__}.{room}.{name}" for room in ROOMS)
        raise AttributeError(f"{reason}: it is {places}")
    for room in () if name.startswith("_") else ROOMS:
        package = import_module(room)
        if name in package.__all__:
            return getattr(package, name)
    raise AttributeError(reason)


def __dir__() -> list[str]:
    names = {name for room in ROOMS for name in import_module(room).__all__}
    return sorted(names.difference(IN_BOTH).union(ROOMS, OF_THE_BOOK))
