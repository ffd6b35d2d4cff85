"""The law of nK at criticality with K* = 0, at a depth in proportion to the width.

There K' = K − aK² + …, and K falls to 0 with any input. With the source s of linear layers,

    Y = 1/(nK),    dY = (a + sY) dr − √s Y dB,    Y = 0 at r = 0,

so that Y has the law of a ∫_0^r e^{su/2 + √s B_u} du. At s = 0 it is ar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import sympy

from derive import criticality
from derive.activations import polynomial
from derive.deep import walk
from derive.errors import InputError, as_integer, instance
from derive.expressions import parse_number
from derive.layers import Layer
from derive.network import Network
from derive.symbols import z
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..checks import draws as checked_draws

_TIME = sympy.Symbol("u", nonnegative=True)


@dataclass(frozen=True)
class Falling:
    """The law of nK at L = ratio · n, in the limit n → ∞.

    Attributes:
        coefficient: a, of K' = K − aK².
        spread: s, the source of V/K² as K → 0.
        ratio: r = L/n.
    """

    coefficient: sympy.Expr
    spread: sympy.Expr
    ratio: sympy.Expr

    def inverse_moment(self, order: int = 1) -> sympy.Expr:
        """E (nK)^{−order}: d⟨Y^m⟩/dr = m a ⟨Y^{m−1}⟩ + m(m + 1)s/2 ⟨Y^m⟩, a closed system."""
        found = sympy.S.One
        for m in range(1, as_integer("order", order, 1) + 1):
            rate = m * (m + 1) * self.spread / 2
            added = sympy.expand(m * self.coefficient * found * sympy.exp(-rate * _TIME))
            end = sympy.Symbol("r", nonnegative=True)
            total = sympy.integrate(added, (_TIME, 0, end)) * sympy.exp(rate * end)
            found = sympy.expand(total).subs(end, _TIME)
        return sympy.simplify(found.subs(_TIME, self.ratio))

    def sample(self, draws: int, *, steps: int = 1024, seed: int = 0) -> Array:
        """So many nK, by the trapezoid rule for the integral, of error O(1/steps²) in the mean."""
        count, pieces = checked_draws(draws, 1), as_integer("steps", steps, 1)
        r, s = float(self.ratio), float(self.spread)
        h = r / pieces
        rng = np.random.default_rng(seed)
        logs, total, before = np.zeros(count), np.zeros(count), np.ones(count)
        for _ in range(pieces):
            logs += s * h / 2 + np.sqrt(s * h) * rng.standard_normal(count)
            after = np.exp(logs)
            total += h * (before + after) / 2
            before = after
        return 1 / (float(self.coefficient) * total)


def falling(net: Network, ratio: sympy.Expr | float | str) -> Falling:
    """The law of nK of a critical network with K* = 0, whatever its input.

    Arguments:
        net: one activation, layer and law at each layer, at the critical C_W with no biases, and
            K' = K − aK² + …, as of tanh. No positions: there the law depends on the signal.
        ratio: L/n, above 0.

    Derived here. Raises InputError for other networks, and for no positive ratio.

    >>> tanh = falling(Network("tanh"), 1)
    >>> tanh.coefficient, tanh.spread, tanh.inverse_moment()
    (2, 2, -1 + exp(2))
    >>> falling(Network("tanh", "orthogonal"), 1).inverse_moment()
    2
    """
    time = parse_number("ratio", ratio)
    if not (time.is_number and time > 0):
        raise InputError("ratio", ratio, "a number above 0")
    instance("net", net, Network, "a derive.Network")
    sigma, weights, layer = net.one_activation("this law"), net.weights, net.layer
    if not isinstance(weights, WeightEnsemble) or not isinstance(layer, Layer):
        raise InputError("net", str(net), "one layer and one law of weights at every depth")
    if layer.input_axes:
        wanted = "a layer without positions: how a signal differs between them changes its law"
        raise InputError("net", str(net), wanted)
    point = next((p for p in criticality(sigma, layer=layer).points if p.K == 0), None)
    wanted = "a critical network with K* = 0 and K' = K − aK² + …, a > 0"
    if point is None or point.exponent != 1 or not point.coefficient.is_negative:
        raise InputError("net", str(net), wanted)
    if net.changes("C_b") or (weights.C_W, net.C_b_at(1)) != (point.C_W, point.C_b):
        raise InputError("net", str(net), f"{wanted}: C_W = {point.C_W}, C_b = 0")
    slope = sympy.diff(sigma.expr, z).subs(z, 0)
    linear = replace(net, activation=polynomial([0, slope]))
    return Falling(-point.coefficient, walk(linear).spread, time)
