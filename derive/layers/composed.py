"""Layers built from layers: several in a row as one, and a skip around any block.

Both functions join the equations of the blocks. A name that is in use gets a number: a block's W1
may become W1_2. A block's own symbols, matrices and functions keep their values, laws and
activations. A name that a block leaves open, s or a symbol without a value, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..expressions import as_expression
from ..symbols import C_W
from .assembly import Given
from .layer import Layer
from .norms import Norm
from .notation import PARAMETER

_NAME = re.compile(r"\[[^\]]*\]|[A-Za-z_]\w*")
_OF_Z = re.compile(r"\bs\s*\[([^\]]*)\]")
_LEFT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[\s*([A-Za-z_]\w*(?:\s*[;,]\s*\w+)?)\s*\])?\s*=")


_SKIP = "g"
_PROJECTED = (f"{_SKIP}[i] = Ws[i,a] z[a]",)
"""The variable that a skip with a matrix of its own carries."""


class _Equations:
    """The equations of several blocks, renamed so that no two blocks share a name."""

    def __init__(self, *blocks: Layer) -> None:
        self.lines: list[str] = []
        self.given: dict[str, dict[str, Any]] = {name: {} for name in Given._fields}
        self._taken = {"z", "n", "b"}.union(*map(_left_open, blocks))

    def start(self, lines: Sequence[str], values: Mapping[str, Any]) -> dict[str, str]:
        """Equations and symbols before all blocks, and the names that they get."""
        defined = (_left(line)[0] for line in lines)
        own = dict.fromkeys((*defined, *values, *PARAMETER.findall(" ".join(lines))))
        names = {name: self.free(name) for name in own}
        self.lines += [_renamed(line, names) for line in lines]
        self.given["values"] |= {names[name]: value for name, value in values.items()}
        return names

    def take(self, block: Layer) -> list[str]:
        """The block's equations, renamed. Its values, laws and functions are recorded."""
        names = {name: self.free(name) for name in _own(block)}
        for argument, own in block.given._asdict().items():
            self.given[argument] |= {names.get(name, name): own[name] for name in own}
        return [_renamed(line, names) for line in _lines(block)]

    def free(self, name: str) -> str:
        """Reserve and return this name, or a similar one if it is in use."""
        tries = (name, *(f"{name}_{k}" for k in range(2, len(self._taken) + 3)))
        found = next(each for each in tries if each not in self._taken)
        self._taken.add(found)
        return found

    def layer(self, label: str, readouts: Sequence[Layer] = ()) -> Layer:
        """The layer of all equations, with this readout if any."""
        given: dict[str, Any] = {
            **self.given,
            "C": dict.fromkeys(self.given["weights"], C_W) | self.given["C"],
        }
        values = given.pop("values")
        readout = next(iter(readouts), None)
        return Layer(*self.lines, readout=readout, label=label, **given, **values)


def joined(blocks: Sequence[Layer], label: str | None = None) -> Layer:
    """The layers one after another, as one layer; see `layers.sequence`."""
    *before, last = blocks
    if not before:
        return last
    made = _Equations(*blocks)
    for block in before:
        block.check_without_readout("the last block alone with a readout")
    for block in blocks:
        made.lines += made.take(block)
    readouts = [joined([*before, readout]) for readout in last.readouts]
    return made.layer(label or f"sequence({', '.join(map(str, blocks))})", readouts)


def around(
    block: Layer,
    skip: object,
    norm: str | None,
    eps: object,
    label: str | None = None,
    *,
    projected: bool = False,
) -> Layer:
    """A skip around a block; see `layers.around`."""
    given = Norm(norm, eps)
    gamma = as_expression("skip", skip, "a finite real number, or a symbol")
    if gamma != 0:
        block.check_without_readout("no readout in a skip: in a layer of its own behind it")
    made = _Equations(block)
    values = given.values if gamma == 0 else {**given.values, "gamma": gamma}
    before = (*given.lines, *_PROJECTED) if projected else given.lines
    if projected and norm is None:  # the skip has its matrix a stage before the block's
        before, given.name = ("y[i] = z[i]", *_PROJECTED), "y"
    names = made.start(before, values)
    lines = made.take(block)
    last = max(k for k, line in enumerate(lines) if _left(line)[0] == "z")
    current = names.get(given.name, given.name)
    for number, line in enumerate(lines):
        name, index = _left(line)
        right = _renamed(line.partition("=")[2].strip(), {"z": current})
        if name == "z":
            current = "z" if number == last else made.free("z")
            if number == last and gamma != 0:
                carried = names[_SKIP] if projected else "z"
                right = f"{names['gamma']} {carried}[{index}] + {right}"
        left = f"{current if name == 'z' else name}{f'[{index}]' if index else ''}"
        made.lines.append(f"{left} = {right}")
    shown = [f"skip={gamma}", *given.shown("norm="), *(["projected=True"] if projected else [])]
    readouts = [around(readout, 0, norm, eps, str(readout)) for readout in block.readouts]
    return made.layer(label or f"around({block}, {', '.join(shown)})", readouts)


def _lines(block: Layer) -> list[str]:
    """A block's equations, s[a] written out as s(z[a])."""
    return [_OF_Z.sub(r"s(z[\1])", line) for line in block.lines]


def _own(block: Layer) -> list[str]:
    """The names that a block defines, or gives a value, a law or an activation."""
    defined = [_left(line)[0] for line in block.lines]
    own = block.given
    given = (*own.values, *own.activations, *own.tables, *block.parameter_names)
    return [name for name in dict.fromkeys((*defined, *given)) if name != "z"]


def _left_open(block: Layer) -> set[str]:
    """The other names in a block's equations: of its symbols, and of functions."""
    every = {name for line in _lines(block) for name in _NAME.findall(line) if name[0] != "["}
    return every.difference(_own(block))


def _left(line: str) -> tuple[str, str | None]:
    match = _LEFT.match(line)
    assert match is not None
    return match[1], match[2]


def _renamed(line: str, names: Mapping[str, str]) -> str:
    """The equation with new names; indices in brackets do not change."""

    def new(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return _NAME.sub(new, line)
