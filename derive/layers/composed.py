"""Layers built from layers: several in a row as one, and a skip around any block.

Both functions join the equations of the blocks. A name that is in use gets a number: a block's W1
may become W1_2. A block's own symbols, matrices and functions keep their values, laws and
activations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..expressions import as_expression
from .layer import Layer
from .norms import Norm

_NAME = re.compile(r"\[[^\]]*\]|[A-Za-z_]\w*")
_LEFT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[\s*([A-Za-z_]\w*)\s*\])?\s*=")


class _Equations:
    """The equations of several blocks, renamed so that no two blocks share a name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}
        self.variances: dict[str, object] = {}
        self.ratios: dict[str, object] = {}
        self.laws: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        self._taken: set[str] = {"z", "n", "b"}

    def start(self, lines: Sequence[str], values: Mapping[str, Any]) -> None:
        """Put equations and symbols before all blocks, without renaming them."""
        self.lines += lines
        self.values |= values
        self._taken |= {*(_left(line)[0] for line in lines), *values}

    def take(self, block: Layer) -> list[str]:
        """The block's equations, renamed. Its values, laws and functions are recorded."""
        if block.taps is not None or block.readout is not None or block.keep is not None:
            wanted = "a block without positions and without dropout, in a sequence or around"
            raise InputError("layer", str(block), wanted)
        own = [_left(line)[0] for line in block.lines]
        own += [*dict(block.values), *dict(block.functions), *block.matrix_names]
        names = {name: self.free(name) for name in dict.fromkeys(own) if name != "z"}

        def renamed(pairs: tuple[tuple[str, Any], ...]) -> Iterator[tuple[str, Any]]:
            return ((names.get(name, name), value) for name, value in pairs)

        self.values |= dict(renamed(block.values))
        self.variances |= dict(renamed(block.variances))
        self.ratios |= dict(renamed(block.ratios))
        self.laws |= dict(renamed(block.laws))
        self.functions |= dict(renamed(block.functions))
        return [_renamed(line, names) for line in block.lines]

    def free(self, name: str) -> str:
        """Reserve and return this name, or a similar one if it is in use."""
        tries = (name, *(f"{name}_{k}" for k in range(2, len(self._taken) + 3)))
        found = next(each for each in tries if each not in self._taken)
        self._taken.add(found)
        return found

    def layer(self, label: str) -> Layer:
        """The layer of all equations."""
        return Layer(
            *self.lines,
            C=self.variances,
            ratio=self.ratios,
            weights=self.laws,
            activations=self.functions,
            label=label,
            **self.values,
        )


def sequence(*blocks: Layer | str) -> Layer:
    """Several layers one after another, as one layer.

    A network counts it as one layer: all of its parts have the C_b and the learning rates of that
    layer. All widths between its parts are n.

    Arguments:
        blocks: layers, or their texts.

    By definition. Raises InputError if there are no blocks, and for convolutions and dropout, which
    work only in a network's own sequence of layers.

    >>> sequence("residual(norm=rms)", "gated(norm=rms)")
    sequence(residual(skip=1, norm=rms), gated(norm=rms))
    """
    from .shipped import as_layer  # noqa: PLC0415  (which reads texts of sequences)

    if not blocks:
        raise InputError("blocks", blocks, "one or more layers")
    made, layers = _Equations(), [as_layer(each) for each in blocks]
    for block in layers:
        made.lines += made.take(block)
    return layers[0] if len(layers) == 1 else made.layer(f"sequence({', '.join(map(str, layers))})")


def around(
    block: Layer | str,
    skip: object = 1,
    norm: str | None = None,
    eps: object = 0,
    label: str | None = None,
) -> Layer:
    """z' = γ z + block(y), y = z or the normalized z: a skip around any block.

    Arguments:
        block: a layer, or its text.
        skip: γ, a number or a symbol; 0 means no skip.
        norm, eps: as in `layers.normalized`; None means no norm.
        label: the text that `str` shows.

    By definition. Raises InputError as `layers.sequence` does.

    >>> print("; ".join(around("dense", skip="1/2").lines))
    z[i] = gamma z[i] + b[i] + W[i,a] s(z[a])
    >>> around("sequence(gated, dense)", skip="1/2", norm="rms")
    around(sequence(gated(), dense()), skip=1/2, norm=rms)
    """
    from .shipped import as_layer  # noqa: PLC0415

    inner, given = as_layer(block), Norm(norm, eps)
    gamma = as_expression("skip", skip, "a finite real number, or a symbol")
    made = _Equations()
    made.start(given.lines, given.values if gamma == 0 else {**given.values, "gamma": gamma})
    lines = made.take(inner)
    last = max(k for k, line in enumerate(lines) if _left(line)[0] == "z")
    current = given.name
    for number, line in enumerate(lines):
        name, index = _left(line)
        right = _renamed(line.partition("=")[2].strip(), {"z": current})
        if name == "z":
            current = "z" if number == last else made.free("z")
            if number == last and gamma != 0:
                right = f"gamma z[{index}] + {right}"
        left = f"{current if name == 'z' else name}{f'[{index}]' if index else ''}"
        made.lines.append(f"{left} = {right}")
    shown = [f"skip={gamma}", *given.shown("norm=")]
    return made.layer(label or f"around({inner}, {', '.join(shown)})")


def _left(line: str) -> tuple[str, str | None]:
    match = _LEFT.match(line)
    assert match is not None
    return match[1], match[2]


def _renamed(line: str, names: Mapping[str, str]) -> str:
    """The equation with new names; indices in brackets do not change."""

    def new(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return _NAME.sub(new, line)
