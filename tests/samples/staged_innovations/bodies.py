"""What a layer's inner matrices meet, σ(u) v and the like, and how it responds to what is off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from derive.activations import Activation
from derive.engine import Function, Product, Stage, Variable
from derive.engine.stages import Equation
from derive.gaussian import Shape
from derive.network import Network
from derive.weights import Gaussian
from derive.work import cache
from numeric.arrays import Array
from numeric.flows import flow
from numeric.layers import positions
from numeric.samplers import Ensemble

from .controls import products
from .noted import Fresh, Noted, Piece

Met = Sequence[tuple[Variable | Function, Fresh]]
"""The factors of what a matrix meets, each with the variable that it is a function of."""

_SHIFT = 0.05
"""Of a variable's deviation: the step of differences."""


def note_bodies(ensemble: Ensemble, stage: Stage, equation: Equation, noted: Noted) -> None:
    """Add what matrices meet, as far as it is a product of fresh variables and their σ's, all
    independent of each other: its mean is then the product of theirs."""
    for term in equation.right:
        met = _met(stage, term, noted)
        if not met:
            continue
        body, mean = np.ones(()), np.ones(())
        for factor, each in met:
            rows, average = factor_of(ensemble, factor, each.rows, each.covariance)
            body, mean = body * rows, mean * average
        group = noted.groups[met[0][1].group]
        group.add([products(body, body, mean)])
        for j, (_, each) in enumerate(met):
            for piece in each.pieces:
                made = responses(ensemble, met, j, piece, body)
                group.add([made])
                for stream in each.streams if piece.stream is None else {piece.stream}:
                    if stream in noted.off:  # a bias meets no vectors
                        noted.cross(noted.off[stream], made)
            if each.is_centred and not ensemble.net.one_activation("innovations").jumps(0):
                group.add([shifts(ensemble, met, j, body)])


def _met(stage: Stage, term: Product, noted: Noted) -> Met:
    """What a term's matrix meets; nothing where that is one variable alone, or not all of it is
    fresh, of one group and independent of each other."""
    if term.weight is None:
        return ()
    here = [
        each
        for each in term.factors
        if isinstance(each, Variable | Function) and each.at == term.weight[1]
    ]
    kinds = [
        each.kind if isinstance(each, Variable) else stage.argument_kinds[each.argument]
        for each in here
    ]
    fresh = [noted.fresh.get(kind) for kind in kinds]
    known = [each for each in fresh if each is not None]
    if len(known) < len(here) or len({each.group for each in known}) != 1:
        return ()
    if len(here) == 1 and isinstance(here[0], Variable):
        return ()
    streams = [stream for each in known for stream in each.streams]
    if len(set(streams)) < len(streams):
        return ()
    return list(zip(here, known, strict=True))


def responses(
    ensemble: Ensemble,
    met: Met,
    j: int,
    piece: Piece,
    body: Array,
) -> Array:
    """How products of what a matrix meets respond where factor j has a little of that piece
    more: of sample c, as is sample d of the piece, c times each b; centred, (draws, c d b, n).

    Differences, not derivatives: their means are those of σσ at two covariances.
    """
    rows, means = _others(ensemble, met, j)
    factor, own = met[j]
    m, found = body.shape[1], []
    for c, d in product(range(m), repeat=2):
        size = _SHIFT * np.sqrt(own.covariance[c, c] / piece.covariance[d, d])
        (plus, above), (minus, below) = (
            factor_of(ensemble, factor, *_shifted(own, piece, c, d, t)) for t in (size, -size)
        )
        mean = means[c] * (above - below)[c] / (2 * _SHIFT)
        plus, minus = ((rows * each)[:, min(c, rows.shape[1] - 1)] for each in (plus, minus))
        for b in range(m):
            other = plus + minus if b == c else body[:, b]
            found.append((plus - minus) * other / (2 * _SHIFT) - mean[b])
    return np.stack(found, axis=1)


def shifts(ensemble: Ensemble, met: Met, j: int, body: Array) -> Array:
    """How products of what a matrix meets respond where a number is added to factor j's
    variable at all neurons, as a mean that is taken off adds one: of sample c, times each b;
    centred, (draws, c b, n).

    f' times the other factors, of c, and the body of b: a product over the factors, which are
    independent, so that its mean is ⟨f'_c f_b⟩ times the others' ⟨f_c f_b⟩.
    """
    rows, means = _others(ensemble, met, j)
    factor, own = met[j]
    if isinstance(factor, Variable):
        slope, mean = np.ones((1, 1, 1)), np.zeros((1, 1))  # ⟨1 u_b⟩
    else:
        draws, m, n = own.rows.shape
        values = np.empty((draws, 2, m, n))
        at = np.ascontiguousarray(own.rows)
        ensemble.activation(1, 2).differentiate(at, values)
        slope, mean = values[:, 1], slopes_of(ensemble.activation_at(1), own.covariance)
    moved = rows * slope
    found: Array = moved[:, :, None] * body[:, None] - (means * mean)[..., None]
    return found.reshape(len(body), -1, body.shape[2])


def _others(ensemble: Ensemble, met: Met, j: int) -> tuple[Array, Array]:
    """The product of all factors but j, and the means of products of it."""
    m = len(met[j][1].covariance)
    rows, means = np.ones((1, 1, 1)), np.ones((m, m))
    for k, (factor, each) in enumerate(met):
        if k != j:
            value, mean = factor_of(ensemble, factor, each.rows, each.covariance)
            rows, means = rows * value, means * mean
    return rows, means


def factor_of(
    ensemble: Ensemble, factor: Variable | Function, rows: Array, covariance: Array
) -> tuple[Array, Array]:
    """A variable, or its σ, and the means of products of it."""
    if isinstance(factor, Variable):
        return rows, covariance
    value = np.ascontiguousarray(rows).copy()
    ensemble.activate(value, 1)
    return value, average_of(ensemble.activation_at(1), covariance)


def _shifted(own: Fresh, piece: Piece, c: int, d: int, t: float) -> tuple[Array, Array]:
    """Sample c of a variable and t times sample d of the piece, (draws, 1, n), and the covariance
    of all samples with that one so."""
    covariance = own.covariance.copy()
    covariance[c] += t * piece.covariance[d]
    covariance[:, c] += t * piece.covariance[:, d]
    covariance[c, c] += t**2 * piece.covariance[d, d]
    return own.rows[:, c : c + 1] + t * piece.rows[:, d : d + 1], covariance


def average_of(activation: Activation, K: Array) -> Array:
    """⟨σ_a σ_b⟩ at this covariance, (m, m)."""
    return _average_of(activation, K.shape[0], K.tobytes())


@cache(entries=1024)
def _average_of(activation: Activation, m: int, K: bytes) -> Array:
    covariance = np.frombuffer(K).reshape(m, m)
    inputs = np.sqrt(m) * np.linalg.cholesky(covariance)
    table = flow(Network(activation, Gaussian(1)), inputs if m > 1 else inputs[0], 2, ["K"])
    return np.asarray(table["K"].values[1], float).reshape(m, m)


def slopes_of(activation: Activation, K: Array) -> Array:
    """⟨σ'_a σ_b⟩ at this covariance, (m, m), for a continuous σ."""
    return _slopes_of(activation, K.shape[0], K.tobytes())


@cache(entries=1024)
def _slopes_of(activation: Activation, m: int, K: bytes) -> Array:
    covariance, shape = np.frombuffer(K).reshape(m, m), Shape((1, 0), (0, 0))
    pairs = np.array(list(product(range(m), repeat=2)))
    at = covariance[pairs[:, :, None], pairs[:, None, :]]
    return positions.averages(activation, [shape], at).reshape(m, m)
