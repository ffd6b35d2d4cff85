"""Functionals of functions of z at one neuron, by what they are at Hermite polynomials.

X(f) for the six functionals of `derive.engine.skip_closure`, f being a function of the z of two
samples or of one: X(he_β) for |β| ≤ N in those samples' own basis (`hermite`), a number for each of
the samples that X itself is at. Behind a layer

    X'(f) = Σ scalar · X(P ∂_a … ∂_b f) ,    P f(z) = E f(γz + ξ) ,

where P he_β is Γ(γ L'⁻¹L) and a derivative raises the degree by 1. What N leaves out is bounded: of
a functional beyond N, by the lengths of what is brought there, which shrinks as ‖γ L'⁻¹L‖^N.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from derive.engine.skip_closure import MEMBERS, RANKS, member_of
from derive.engine.tensors import Name, identify, named

from ...arrays import Array
from .hermite import Basis, Contraction, basis, block, of_tensor, raised, removal
from .reading import Arguments, summed

BLOCK = named("kappa(z,z,z,z|0123)")
"""Of one neuron, beyond V of the three pairings."""
_WITHOUT_MEAN = ("kappa", "One", "Apart")
"""Those that are 0 at f = 1."""


class Functionals(NamedTuple):
    """Behind a layer.

    Arguments:
        bases: of each pair of inputs.
        values: by functional, of each pair: (copies, m, …, size), an axis for each of `RANKS`.
        beyond: the lengths beyond N of the first copy's, (m, …).
        weighted: those of |β| + 2 times the first copy's.
    """

    bases: list[Basis]
    values: dict[str, list[Array]]
    beyond: dict[str, list[Array]]
    weighted: dict[str, list[Array]]

    def with_members(self, tensors: Mapping[Name, Array], arguments: Arguments) -> Functionals:
        """With the members that are tensors, (copies, m, …) each."""
        for kind, values in self.values.items():
            if kind not in MEMBERS:
                continue
            (name, degree), rank = MEMBERS[kind], RANKS[kind]
            atom = member_of(kind, tuple(range(rank)), tuple(range(rank, rank + degree)))
            known, labels = identify(atom)
            assert known == name
            axes = np.argsort(labels)
            tensor = tensors[name].transpose(0, *(1 + axes))
            _put(values, self.bases, tensor, degree, arguments)
            for each in values if kind in _WITHOUT_MEAN else ():
                each[..., 0] = 0.0
        return self


def _put(
    values: Sequence[Array], bases: Sequence[Basis], tensor: Array, degree: int, of: Arguments
) -> None:
    """Write the members of a degree, from a tensor over the samples that it is of."""
    if len(of.sums) > of.samples:
        for axis in range(tensor.ndim - degree, tensor.ndim):
            tensor = summed(of.sums, tensor, axis)
    for own, each, pair in zip(bases, values, of.pairs, strict=True):
        each[..., block(own.rank, degree)] = of_tensor(own, _at(tensor, pair, degree), degree)


def _at(tensor: Array, pair: tuple[int, int], count: int) -> Array:
    """The last axes, so many, at the samples of a pair."""
    samples = list(dict.fromkeys(pair))
    index: tuple[Any, ...] = (..., *np.ix_(*[samples] * count))
    return np.asarray(tensor[index]) if count else tensor


def at_first(
    kinds: Sequence[str],
    K: Array,
    tensors: Mapping[Name, Array],
    arguments: Arguments,
    degree: int,
) -> Functionals:
    """At layer 1, where H is no random number.

    Arguments:
        kinds: which functionals.
        K: (m, m).
        tensors: (copies, m, …) each.
        arguments: of the functions.
        degree: N.
    """
    bases = bases_of(K, arguments, degree)
    m, copies = len(K), len(next(iter(tensors.values())))
    shapes = {kind: (m,) * RANKS[kind] for kind in kinds}
    values = {
        kind: [np.zeros((copies, *shape, each.size)) for each in bases]
        for kind, shape in shapes.items()
    }
    beyond = {kind: [np.zeros(shape)] * len(bases) for kind, shape in shapes.items()}
    found = Functionals(bases, values, beyond, beyond).with_members(tensors, arguments)
    if "One" in values:  # E :zzzz: is V of three pairings, and of a law without rotations more
        V = tensors[named("V")]
        quartic = V + V.transpose(0, 1, 3, 2, 4) + V.transpose(0, 1, 4, 3, 2)
        quartic = quartic + tensors.get(BLOCK, 0.0)
        _put(values["One"], bases, quartic, 4, arguments)
    return found


def bases_of(K: Array, arguments: Arguments, degree: int) -> list[Basis]:
    """The basis of each pair, at a kernel (m, m)."""
    if len(arguments.sums) > arguments.samples:
        K = arguments.sums @ K @ arguments.sums.T
    return [basis(K, pair, degree) for pair in arguments.pairs]


_KEPT = 1.0 - 1e-13
"""‖γ L'⁻¹L‖ from which on it is 1 but for rounding, and z a function of z'."""


class Move:
    """The action of P and of derivatives on functionals of one pair's functions.

    Arguments:
        below: the pair's basis below the layer.
        above: and behind it.
        gamma: γ; 0 without a skip, where the pair below may be any.
    """

    def __init__(self, below: Basis, above: Basis, gamma: float) -> None:
        shift = np.zeros((above.rank, below.rank))
        if gamma:
            shift = gamma * above.inverse @ below.L
        self._above, self._move = above, Contraction(shift, above.degree)
        self._lift = float(np.linalg.norm(shift, 2))
        self._scale = float(np.linalg.norm(above.inverse, 2))

    def __call__(self, by: Sequence[int], values: Array) -> Array:
        """X(P ∂…∂ f) at f = he_β, from X(he_β), (…, size); `by` are places in the basis."""
        found = self._move(values)
        for place in by:
            found = raised(self._above, place, found)
        return found

    def growth(self, count: int, *, weighted: bool = False) -> float:
        """A bound on what so many derivatives multiply the length beyond N with, or |β| + 2 times
        its; ∞ where none."""
        lift, scale = self._lift, self._scale
        if lift == 0.0 or scale == 0.0:
            return 0.0
        power = count / 2.0 + weighted
        peak = power / -math.log(lift) if lift < _KEPT else math.inf
        b = max(self._above.degree + 1.0, peak if power else 0.0)
        if b == math.inf:
            return b
        weight = (1.0 + 2.0 / (self._above.degree + 1.0)) * b if weighted else 1.0
        return float(weight * (b**0.5 * scale) ** count * lift ** (b - count))


def bent(own: Basis, a: int, values: Array) -> Array:
    """X(z_a ∂_a f) at f = he_β, from X(he_β), (…, size); a is a place in the basis' samples, and
    where these are one variable ∂ is that by it."""
    moved = np.zeros(values.shape)
    for k in range(own.rank):
        rows, places, scale = removal(own.rank, own.degree, k)
        moved[..., places] += own.L[a, k] * scale * values[..., rows]
        moved[..., rows] += own.L[a, k] * scale * values[..., places]
    return raised(own, a, moved)


def bent_tail(own: Basis, a: int, values: Array, weighted: Array) -> Array:
    """The length beyond N of what `bent` makes, from the first copy's coefficients, (…, size), and
    the weighted lengths of what was beyond N before: of degree b it is at most

        |L_a| |L⁻¹_a| (b |X_b| + b |X_{b−2}|) .
    """
    edge = values[..., slice(block(own.rank, max(own.degree - 1, 0)).start, None)]
    scale = float(np.linalg.norm(own.L[a]) * np.linalg.norm(own.inverse[:, a]))
    return np.asarray(2.0 * scale * np.hypot(weighted, (own.degree + 2) * length(edge)))


def tails(values: Array, lengths: Array, own: Basis, count: int) -> Array:
    """The length of what so many derivatives raise beyond N: of the first copy's coefficients,
    (…, size), and of what was beyond N before."""
    last = slice(block(own.rank, max(own.degree + 1 - count, 0)).start, None)
    edge = (values[..., last] ** 2).sum(axis=-1) if count else 0.0
    return np.asarray(np.sqrt(lengths**2 + edge))


def length(coefficients: Array) -> Array:
    """Of functions by their coefficients, the last axis."""
    return np.asarray(np.sqrt((coefficients**2).sum(axis=-1)))
