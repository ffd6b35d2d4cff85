r"""Critical weights of layers that keep no signal the same everywhere: modes of K over positions.

Of z'_p = s^{-1/2} Σ_k W^{(k)} Σ_q A^{(k)}_pq σ(z_q), K' = C_W M[⟨σσ⟩_K], M[S] = mean_k A S Aᵀ.

Near K = 0 a smooth σ has ⟨σσ⟩ = σ'² K + Q(K) + …, with derivatives at 0 and

    Q_pq = σ'σ'''/2 K_pq (K_pp + K_qq) + σ''²/4 (K_pp K_qq + 2 K_pq²) ,

so that all modes of M fade at C_W σ'² ρ = 1 but the one that grows most, M[E] = ρE. With
K = xE + …, where the mean of E_pp is 1, x' = x + c x², c = C_W ⟨L, M[Q(E)]⟩/⟨L, E⟩, L the mode of
M's transpose.

A scale-invariant σ has ⟨σσ⟩_pp = g K_pp, g = (a² + b²)/2. Where each filter reads one position
alone, variances move by themselves, by C_W g mean_k A_pq². Of a single A without negative weights
positions become equal but for their size, K = v vᵀ, Av = λv, which grows by C_W g λ². Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from ..activations.functions import Activation
from ..engine.taps import Taps, matrices
from ..errors import InputError
from ..layers import Layer
from ..symbols import z
from .points import CriticalPoint, Errors

Array: TypeAlias = "NDArray[np.float64]"

_STEPS, _CLOSE, _ALIKE, _DIGITS = 100_000, 1e-15, 1e-6, 13
"""Of the repeated map: steps at most, a change that is rounding, a difference that is another mode;
and the digits of the results."""


class Mode(NamedTuple):
    """The mode that grows most.

    Attributes:
        growth: ρ, at C_W = 1 and slope 1 of σ.
        variances: of the positions, of mean 1.
        coefficient: c at the critical C_W; 0 of a scale-invariant σ.
    """

    growth: float
    variances: tuple[float, ...]
    coefficient: float = 0.0


def taps_of(layer: Layer) -> Taps | None:
    """The filters of a layer that keeps no signal the same everywhere; None of any other.

    Raises InputError for one with skips or norms, and for one that changes the positions.
    """
    found = [taps for _, taps in layer.tapped if not taps.is_full]
    if not found:
        return None
    dense = Layer("z[i] = b[i] + W[i,a] s(z[a])", taps={"W": found[0]})
    if layer.equations != dense.equations:
        wanted = (
            "b + W σ(z) by itself: with a boundary of zeros, or weights of positions that do not "
            "sum to 1, no signal is the same everywhere, and K has modes over positions"
        )
        raise InputError("layer", str(layer), wanted)
    if found[0].reshapes:
        wanted = "a layer that keeps the positions, to be repeated"
        raise InputError("layer", str(layer), wanted)
    return found[0]


def critical(
    activation: Activation, layer: Layer, taps: Taps
) -> tuple[CriticalPoint, tuple[float, ...]]:
    """The critical point at which one mode is neutral, in floats, and its variances of mean 1.

    Raises InputError where no mode is alone in growing most, and for a σ that is neither smooth,
    with σ(0) = 0, nor scale-invariant.
    """
    A, zero = matrices(taps), sympy.S.Zero
    if activation.is_scale_invariant:
        left, right = activation.slopes
        mode = _of_variances(layer, A)
        C_W, error = _inverse((left**2 + right**2) / 2, mode)
        point = CriticalPoint(zero, C_W, None, zero, zero, "neutral: K does not move", error)
        return point, mode.variances
    value, slope, *others = (_at_zero(activation, layer, order) for order in range(4))
    if value != 0 or slope == 0:
        wanted = f"one with σ(0) = 0 and a slope there in {layer}, as K* = 0 alone is looked for"
        raise InputError("activation", str(activation), wanted)
    mode = _near_zero(layer, A, *map(float, (slope, *others)))
    C_W, error = _inverse(slope**2, mode)
    c = sympy.Float(mode.coefficient, _DIGITS)
    stability = "stable" if c < 0 else "unstable"
    return CriticalPoint(zero, C_W, zero, c, sympy.S.One, stability, error), mode.variances


def _inverse(gain: sympy.Expr, mode: Mode) -> tuple[sympy.Expr, Errors]:
    """1/(gain ρ), and how far it can be off."""
    found = sympy.Float(1 / (gain * sympy.Float(mode.growth, 17)), _DIGITS)
    return found, Errors(C_W=abs(found) * sympy.Float(10) ** (1 - _DIGITS))


def _at_zero(activation: Activation, layer: Layer, order: int) -> sympy.Expr:
    """A derivative of σ at 0."""
    if activation.kinks:
        wanted = f"a smooth or scale-invariant one in {layer}"
        raise InputError("activation", str(activation), wanted)
    return sympy.diff(activation.expr, z, order).subs(z, 0)


def _of_variances(layer: Layer, A: Array) -> Mode:
    """Of a scale-invariant σ."""
    if ((A != 0).sum(axis=2) <= 1).all():
        growth, mode = _perron(layer, (A**2).mean(axis=0))
        return Mode(growth, tuple(mode / mode.mean()))
    if len(A) > 1 or (A < 0).any():
        wanted = (
            "filters that read one position each, or a single A without negative weights: of "
            "others correlations of positions enter the variances"
        )
        raise InputError("layer", str(layer), wanted)
    growth, mode = _perron(layer, A[0])
    return Mode(growth**2, tuple(mode**2 / (mode**2).mean()))


def _near_zero(layer: Layer, A: Array, slope: float, second: float, third: float) -> Mode:
    """Of a smooth σ."""
    growth, E = _mode(layer, A)
    _, L = _mode(layer, A.swapaxes(1, 2))
    E = E / E.diagonal().mean()
    own = E.diagonal()
    Q = slope * third / 2 * E * (own[:, None] + own)
    Q = Q + second**2 / 4 * (own[:, None] * own + 2 * E**2)
    moved = np.mean(A @ Q @ A.swapaxes(1, 2), axis=0)
    c = float((L * moved).sum() / (L * E).sum() / (slope**2 * growth))
    return Mode(growth, tuple(own), c)


def _mode(layer: Layer, A: Array) -> tuple[float, Array]:
    """ρ and E of M[E] = ρE, from a constant signal and from independent positions alike."""
    found = []
    for start in (np.ones(A.shape[1:]), np.eye(len(A[0]))):
        found.append(_grown(layer, lambda S: np.mean(A @ S @ A.swapaxes(1, 2), axis=0), start))
    if abs(found[0][1] - found[1][1]).max() > _ALIKE:
        wanted = "one of whose modes of K over positions one grows most"
        raise InputError("layer", str(layer), wanted)
    return found[0]


def _perron(layer: Layer, A: Array) -> tuple[float, Array]:
    return _grown(layer, lambda v: A @ v, np.ones(len(A)))


def _grown(layer: Layer, move: Callable[[Array], Array], state: Array) -> tuple[float, Array]:
    """The factor and the mode of a linear map without negative numbers, by repeating it."""
    state, growth = state / np.linalg.norm(state), 0.0
    for _ in range(_STEPS):
        after = move(state)
        growth = float((state * after).sum())
        after = after + growth * state  # half of each: no mode that changes its sign stays
        size = np.linalg.norm(after)
        if not size:
            break
        after = after / size
        if abs(after - state).max() <= _CLOSE:
            return growth, after
        state = after
    raise InputError("layer", str(layer), "a layer with a mode of K over positions that grows most")
