"""One layer's maps in numbers: the engine's recursions evaluated at a kernel.

`equations` are derived, in brackets of an unspecified σ; a `Step` holds them with a network's
activation and variances, and evaluates them to as many digits as are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import mpmath
import sympy

from ..activations.functions import Activation
from ..engine.step import step
from ..errors import InputError, as_integer, as_sequence, instance
from ..expressions import as_expression
from ..gaussian.brackets import Average, Component
from ..gaussian.quadrature import double, single
from ..gaussian.shapes import SingleShape
from ..network import Network, dense_network
from ..symbols import C_W, C_b, tensor
from ..weights import Gaussian, LowRankGaussian, WeightEnsemble, as_weights
from ..work.caches import cache
from .estimates import DIGITS

MAX_DEPTH = 10**4
"""Layers that a kernel is followed through, milliseconds each."""

Kernel: TypeAlias = tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]
"""(q_11, q_12, q_22) of two inputs."""


class Equations(NamedTuple):
    """The maps as the engine derives them: brackets of an unspecified σ, with C_W and C_b.

    Attributes:
        length: q', of one input.
        covariance: q_12', of inputs 1 and 2.
        chi: χ = C_W ⟨σ'σ'⟩, of one input.
        chi_parallel: χ_∥ = dq'/dq.
        slope: ∂q_12'/∂q_12.
    """

    length: sympy.Expr
    covariance: sympy.Expr
    chi: sympy.Expr
    chi_parallel: sympy.Expr
    slope: sympy.Expr


def equations(weights: WeightEnsemble | str | None = None) -> Equations:
    """The maps of an ensemble, `Gaussian()` if none is given.

    length and covariance are the recursion of K; χ_∥ and the slope ∂q_12'/∂q_12 are what the
    recursion of K's correction G1 makes of G1 itself; χ is what that of Θ makes of Θ. Derived here;
    source 001 states them as eqs. (3), (5), (8), (9) and in A.6.

    >>> equations().covariance, equations().chi
    (C_W*⟨σ₁ σ₂⟩ + C_b, C_W*⟨σ'²⟩)
    """
    return _equations(
        Gaussian() if weights is None else as_weights("weights", weights).unit_variance
    )


@cache
def _equations(weights: WeightEnsemble) -> Equations:
    kernel, response, tangent = (step(name, weights) for name in ("K", "G1", "Theta"))

    def coefficient(expr: sympy.Expr, of: sympy.Expr) -> sympy.Expr:
        return sympy.expand(expr).coeff(of)

    return Equations(
        kernel.single_input().expr,
        kernel.expr,
        coefficient(tangent.single_input().expr, tensor("Theta")),
        coefficient(response.single_input().expr, tensor("G1")),
        coefficient(response.expr, Component("G1", (1, 2))),
    )


@dataclass(frozen=True)
class Step:
    """One layer's maps in numbers."""

    activation: Activation
    law: WeightEnsemble
    C_W: mpmath.mpf
    C_b: mpmath.mpf

    @property
    def equations(self) -> Equations:
        """The maps of its law."""
        return equations(self.law)

    def on_line(
        self, q: mpmath.mpf, *wanted: sympy.Expr, digits: int = DIGITS
    ) -> tuple[mpmath.mpf, ...]:
        """Maps of one input at the length q."""
        compiled = [_compiled(each) for each in wanted]
        averages = list(dict.fromkeys(average for each, _ in compiled for average in each))
        shapes = tuple(_line(average) for average in averages)
        found = _averages(self.activation, shapes, q, digits, mpmath.mp.prec)
        values = dict(zip(averages, found, strict=True))
        return tuple(
            function(self.C_W, self.C_b, *(values[average] for average in names))
            for names, function in compiled
        )

    def covariance(self, kernel: Kernel, digits: int = DIGITS) -> Kernel:
        """The kernel of two inputs, moved."""
        (q11,) = self.on_line(kernel[0], self.equations.length, digits=digits)
        if kernel[2] == kernel[0]:
            q22 = q11
        else:
            (q22,) = self.on_line(kernel[2], self.equations.length, digits=digits)
        return q11, self.on_plane(self.equations.covariance, kernel, digits), q22

    def slope(self, c: mpmath.mpf, q: mpmath.mpf, digits: int) -> mpmath.mpf:
        """∂q_12'/∂q_12."""
        return self.on_plane(self.equations.slope, (q, c * q, q), digits)

    def on_plane(
        self,
        expr: sympy.Expr,
        kernel: Kernel,
        digits: int,
    ) -> mpmath.mpf:
        """A map of two inputs with this kernel."""
        averages, function = _compiled(expr)
        values = (double(self.activation, _plane(each), kernel, digits) for each in averages)
        return function(self.C_W, self.C_b, *values)


@cache(entries=2**12)
def _averages(
    activation: Activation,
    shapes: tuple[SingleShape, ...],
    q: mpmath.mpf,
    digits: int,
    precision: int,
) -> list[mpmath.mpf]:
    """Averages at the length q, which networks of other C_W and C_b have at the same lengths.

    `precision` is mpmath's, in which closed forms end.
    """
    return single(activation, shapes, q, digits)


@cache
def _compiled(expr: sympy.Expr) -> tuple[tuple[Average, ...], Callable[..., mpmath.mpf]]:
    averages = tuple(sorted(expr.atoms(Average), key=str))
    names = [sympy.Dummy() for _ in averages]
    inside = expr.xreplace(dict(zip(averages, names, strict=True)))
    return averages, sympy.lambdify((C_W, C_b, *names), inside, "mpmath")


def _line(average: Average) -> SingleShape:
    factors, outer, _ = average.bracket
    return SingleShape(tuple(order for _, order in factors), len(outer))


def _plane(average: Average) -> tuple[int, int]:
    """The orders at samples 1 and 2, one factor each: derivatives outside go onto it."""
    (_, first), (_, second) = average.bracket.factors
    outer = average.bracket.outer
    return first + outer.count(1), second + outer.count(2)


def step_of(net: Network, layer: int | None = None, depth: int | None = None) -> Step:
    """The maps into this layer; without a layer, those of a network whose layers are all alike.

    Arguments:
        depth: of the network, if it is more than the layer.
    """
    instance("net", net, Network, "a derive.Network")
    if layer is None:
        if net.changes("C_b"):
            got = f"{net}, whose C_b changes"
            raise InputError("net", got, "biases that are alike at every layer")
        net.one_activation("fixed points")
        net.one_law("fixed points")
    at = 2 if layer is None else layer
    at = as_integer("layer", at, 2, wanted="a layer that another one feeds, 2 or more")
    reach = max(at, depth or 0)
    net = dense_network("net", net, reach if layer or net.is_uniform else None)
    activation, law = net.activation_at(at - 1, reach), net.weights_at(at, depth=reach)
    check_chi(activation)
    C_W, C_b = number("C_W", law.C_W), number("C_b", net.C_b_at(at))
    return Step(activation, law, C_W, C_b)


def steps_of(net: Network, depth: int, gamma: Sequence[sympy.Expr | float] | None) -> list[Step]:
    """The maps into layers 2 … depth, with their ranks."""
    depth = as_integer("depth", depth, 1, MAX_DEPTH)
    net = dense_network("net", net, depth)
    made = [step_of(net, layer, depth) for layer in range(2, depth + 1)]
    if gamma is None:
        return made
    pairs = zip(ranks_of(net, depth, gamma), ranks_of(net, depth, None), strict=True)
    factors = [given / own for given, own in pairs][1:]
    return [
        replace(step, C_W=step.C_W * factor, C_b=step.C_b * factor)
        for step, factor in zip(made, factors, strict=True)
    ]


def ranks_of(
    net: Network, depth: int, gamma: Sequence[sympy.Expr | float] | None
) -> list[mpmath.mpf]:
    """Rank over width of layers 1 … depth: as given, or the network's own."""
    if gamma is None:
        net = dense_network("net", net, depth)
        laws = (net.weights_at(layer, depth=depth) for layer in range(1, depth + 1))
        own = [getattr(law, "gamma", 1) for law in laws]
        return [number("gamma", each) for each in own]
    wanted = f"one ratio for each of the {depth} layers"
    given = as_sequence("gamma", gamma, wanted)
    if len(given) != depth:
        raise InputError("gamma", gamma, wanted)
    return [number("gamma", LowRankGaussian(gamma=each).gamma) for each in given]


def check_chi(activation: Activation) -> None:
    """Raise InputError where σ jumps."""
    if any(activation.jumps(0).values()):
        raise InputError("activation", str(activation), "one without jumps, so that χ is finite")


def number(name: str, value: object) -> mpmath.mpf:
    """A real number; the caller's working precision must hold it."""
    exact = as_expression(name, value, "a real number")
    if not exact.is_number:
        raise InputError(name, value, "a real number")
    return mpmath.mpf(exact.evalf(3 * DIGITS))


def variance(name: str, value: object) -> mpmath.mpf:
    """A number that is 0 or more."""
    found = number(name, value)
    if found < 0:
        raise InputError(name, value, "a variance, 0 or more")
    return found


def positive(name: str, value: object) -> mpmath.mpf:
    """A number above 0."""
    found = number(name, value)
    if found <= 0:
        raise InputError(name, value, "a positive variance, for correlations to exist")
    return found


def kernel_of(values: Sequence[float]) -> Kernel:
    """Three numbers that make a covariance."""
    if len(as_sequence("kernel", values, "three numbers (q_11, q_12, q_22)")) != 3:
        raise InputError("kernel", values, "three numbers (q_11, q_12, q_22)")
    q11, q12, q22 = (number("kernel", value) for value in values)
    if q11 < 0 or q22 < 0 or q12**2 > q11 * q22 * (1 + mpmath.mpf(2) ** -48):
        raise InputError("kernel", values, "a positive semidefinite kernel (q_11, q_12, q_22)")
    return q11, q12, q22
