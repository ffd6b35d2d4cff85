"""Everything public of `derive` and `numeric` in one place, loaded when it is asked for.

>>> import wickgarten as wg
>>> wg.recursion("K", wg.Orthogonal()).single_input()
K(ℓ+1) = C_W*⟨σ²⟩ + C_b

`wg.study` derives, samples and compares in one call. `wg.verify` checks the theory against random
networks, as `wickgarten verify` does; `wg.gain` is `numeric.init.gain`, and `wg.haar` is
`haar_moment`.

Both rooms have `deep`, `spectra` and `training`. `wg.spectra` has numbers, as
`wg.numeric.spectra`; the symbols are those of `wg.derive.spectra`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from derivations.verify import verify as verify
    from derive import *  # noqa: F403
    from derive import haar_moment
    from numeric import *  # type: ignore[no-redef]  # noqa: F403 (numbers are meant)
    from numeric.init import gain as gain

    haar = haar_moment

ROOMS = ("numeric", "derive")
"""In this order: what both have is that of the first."""
OTHERS = {
    "gain": ("numeric.init", "gain"),
    "haar": ("derive", "haar_moment"),
    "verify": ("derivations.verify", "verify"),
}


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(name)
    if name in OTHERS:
        module, attribute = OTHERS[name]
        return getattr(import_module(module), attribute)
    if name == "__all__":
        return __dir__()
    if name == "__version__":
        return import_module("importlib.metadata").version("wickgarten")
    for room in () if name.startswith("_") else ROOMS:
        package = import_module(room)
        if name in package.__all__:
            return getattr(package, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    names = {name for room in ROOMS for name in import_module(room).__all__}
    return sorted(names.union(ROOMS, OTHERS, ["__version__"]))
