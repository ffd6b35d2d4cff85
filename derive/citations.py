"""`cite()`: BibTeX for this library and for the papers that what was used rests on.

A public function names its sources with `@rests_on("day2025")`; calling it, directly or through
another, is what "used" means. The entries are those of `sources.bib`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from importlib.resources import files
from typing import ParamSpec, TypeVar

from .errors import InputError
from .work.caches import cache

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SOURCES = {
    "000": "day2025",
    "001": "naitsaada2023",
    "002": "pennington2018",
    "003": "daneshmand2021",
    "004": "roberts2022",
}
"""The five sources of the book, by their numbers."""

_SOFTWARE = """\
@software{{wickgarten,
  author = {{{{The Wickgarten developers}}}},
  title = {{Wickgarten: derive, compile and prove the statistics of random deep networks}},
  version = {{{version}}},
  license = {{BSD-3-Clause}},
}}"""

_used: dict[str, None] = {}


class Bibliography(str):
    """BibTeX entries, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @property
    def entries(self) -> dict[str, str]:
        """The entries by their keys."""
        found = [entry.strip() for entry in re.split(r"\n(?=@)", self)]
        return {entry.partition("{")[2].partition(",")[0]: entry for entry in found}


def rests_on(*keys: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function as resting on these entries of `sources.bib`."""

    def mark(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def marked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            note(*keys)
            return function(*args, **kwargs)

        return marked

    return mark


def note(*keys: str) -> None:
    """Count these entries among what was used."""
    _used.update(dict.fromkeys(keys))


@cache
def entries() -> dict[str, str]:
    """The entries of `sources.bib` by their keys."""
    text = files(__package__).joinpath("sources.bib").read_text(encoding="utf-8")
    return Bibliography(text).entries


def cite(*which: str) -> Bibliography:
    """BibTeX for this library and for what was used of it in this session.

    Arguments:
        which: nothing, for the papers that the functions called so far rest on; "all" of them; or
            chosen ones, by key ("collins2017") or by the number that docstrings give a source
            ("002").

    Raises InputError for a name that is neither.

    >>> print(cite("002"))  # doctest: +ELLIPSIS
    @software{wickgarten,
    ...
    @inproceedings{pennington2018,
    ...
    """
    known = entries()
    keys = [SOURCES.get(str(each), each) for each in which] if which else list(_used)
    if len(which) == 1 and isinstance(which[0], str) and which[0] == "all":
        keys = list(known)
    for key, asked in zip(keys, which, strict=False):
        if not isinstance(key, str) or key not in known:
            raise InputError("which", asked, f'"all" or among {", ".join([*SOURCES, *known])}')
    software = _SOFTWARE.format(version=version("wickgarten"))
    chosen = [entry for key, entry in known.items() if key in keys]
    return Bibliography("\n\n".join([software, *chosen]))
