"""Drift and diffusion as functions of the Gram matrix, with their sums over positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from ..engine.scores import Scores
from ..gaussian.brackets import Component

Array: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[[Array], Array]

_LETTERS = "abcdefghijklmnopqrstuvwxy"


def _weights_at_zero(scores: Scores, order: int, positions: int) -> Array:
    """A[t,s], or its derivative, where all scores are 0, as fractions."""
    values = scores.weights(np.zeros((positions, positions)), order)
    exact = [sympy.Rational(x).limit_denominator(1 << 20) for x in values.ravel().tolist()]
    return np.array(exact, object).reshape(values.shape)


def read_alone(expr: sympy.Expr, names: Mapping[str, Scores], positions: int) -> sympy.Expr:
    """The same without sums of weights A[t,s] that are 1 at s = t, and 0 elsewhere."""
    own = {
        name
        for name, scores in names.items()
        if not scores.is_tied
        and np.array_equal(scores.weights(np.zeros((positions,) * 2)), np.eye(positions))
    }
    if not own:
        return expr
    return sympy.Add(*(_read_alone(term, own) for term in sympy.Add.make_args(sympy.expand(expr))))


def _read_alone(term: sympy.Expr, own: set[str]) -> sympy.Expr:
    at: dict[int, int] = {}
    gone: dict[sympy.Expr, sympy.Expr] = {}
    for each in term.atoms(Component):
        if str(each.args[0]) in own:
            t, s = map(int, each.args[1])
            at[s] = t
            gone[each] = sympy.S.One
    moved = {
        each: Component(each.args[0], (_end(int(k), at) for k in each.args[1]))
        for each in term.atoms(Component)
    }
    return term.xreplace(moved | gone)


def _end(label: int, at: Mapping[int, int]) -> int:
    while label in at:
        label = at[label]
    return label


def function_of(
    expr: sympy.Expr, samples: int, names: Mapping[str, Scores], positions: int
) -> Function:
    """The expression as a function of K (…, m, m), with an axis of length m for each sample.

    Arguments:
        expr: in `K[a,b]`, numbers, and weights of positions that are summed over.
        samples: how many, 1, 2, …
        names: the scores behind the names of weights.
        positions: T; samples are m/T sequences.
    """
    sums, rest = [], expr
    if names:
        terms = sympy.Add.make_args(sympy.expand(expr))
        sums = [each for each in terms if each.is_polynomial(*each.atoms(Component))]
        rest = sympy.Add(*(each for each in terms if each not in sums))
    contracted = [_contraction(each, samples, names, positions) for each in sums if each != 0]
    components = sorted(rest.atoms(Component), key=str)
    symbols = [sympy.Dummy() for _ in components]
    plain = rest.xreplace(dict(zip(components, symbols, strict=True)))
    compiled = sympy.lambdify(symbols, plain, "numpy", cse=True)

    def value(K: Array) -> Array:
        entries = [_along(K, tuple(map(int, each.args[1])), samples) for each in components]
        shape = (*K.shape[:-2], *K.shape[-1:] * samples)
        found = np.broadcast_to(compiled(*entries), shape)
        return np.asarray(sum((each(K) for each in contracted), found))

    return value


def _along(K: Array, labels: tuple[int, ...], samples: int) -> Array:
    """K[a,b] with the axes a and b among those of all samples."""
    a, b = sorted(labels)
    entries = K if a != b else np.diagonal(K, axis1=-2, axis2=-1)
    axes = [K.shape[-1] if k in (a, b) else 1 for k in range(1, samples + 1)]
    return entries.reshape(*K.shape[:-2], *axes)


def _contraction(
    term: sympy.Expr, samples: int, names: Mapping[str, Scores], positions: int
) -> Function:
    """A product of entries of K and of weights, summed over positions."""
    number, factors = term.as_independent(Component, as_Add=False)
    parts = [
        base
        for each in sympy.Mul.make_args(factors)
        for base, power in [each.as_base_exp()]
        for _ in range(int(power))
    ]
    labels = sorted({int(k) for each in parts for k in each.args[1]} | set(range(1, samples + 1)))
    letter = dict(zip(labels, _LETTERS, strict=False))
    texts = ["".join(letter[int(k)] for k in each.args[1]) for each in parts]
    known = [_weights(each, names, positions) for each in parts]
    into = "".join(letter[k] for k in range(1, samples + 1))
    inputs = [t if w is not None else f"...{t}" for t, w in zip(texts, known, strict=True)]

    def value(K: Array) -> Array:
        signals = K.shape[-1] // positions
        arrays = [K if w is None else _by_signal(w, signals).astype(K.dtype) for w in known]
        exact = K.dtype == object
        scale = number if exact else float(number)
        path: Any = [f"{','.join(inputs)}->...{into}", *arrays]
        total: Array = scale * np.einsum(*path, optimize=False if exact else "greedy")
        return total

    return value


def _weights(part: Component, names: Mapping[str, Scores], positions: int) -> Array | None:
    """A at the limits of its scores; None for K."""
    name = str(part.args[0])
    if name == "K":
        return None
    order = name.count("'")
    return _weights_at_zero(names[name.rstrip("'")], order, positions)


def _by_signal(weights: Array, signals: int) -> Array:
    """The same of several sequences, 0 between them."""
    order, T = weights.ndim, len(weights)
    found = np.full((signals, T) * order, sympy.S.Zero)
    every = np.arange(signals)
    found[(every, slice(None)) * order] = weights
    return found.reshape((signals * T,) * order)
