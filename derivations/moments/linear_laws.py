"""Deep linear networks: the law of the preactivations of one input, not only its moments.

Rotations of rows and columns leave each layer's law alone, so z is a uniform direction times |z|,
and |z|² is a product of independent factors, one a layer:

    |W x|²/|x|² = (C_W/n_in) χ²_{n_out}                                    Gaussian,
                = (C_W N/n_in) Beta(n_out/2, (n_in − n_out)/2)             orthogonal, N = max.

A χ² variable is 2·Gamma, so E|z|^{2s} = S^s Π (a)_s/Π (b)_s: the characteristic function is a
hypergeometric function and the density a Meijer G, its inverse Mellin transform. Sources: 000,
eqs. (4.18)–(4.24); Zavatone-Veth and Pehlevan (its reference 39) for Gaussian weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from derive.citations import rests_on
from derive.errors import InputError
from derive.linear.correlators import Ensembles, chain
from derive.symbols import K0, rho, u
from derive.weights import Gaussian, Orthogonal, larger


@dataclass(frozen=True)
class Law:
    """E|z|^{2s} = scale^s Π_a Γ(a+s)/Γ(a) · Π_b Γ(b)/Γ(b+s) for z in `dimension` dimensions.

    Attributes:
        dimension: n_L.
        scale: S, with K0 = |x|²/n_0 in it.
        gammas, betas: the parameters a and b, none in common.
    """

    dimension: sympy.Expr
    scale: sympy.Expr
    gammas: tuple[sympy.Expr, ...]
    betas: tuple[sympy.Expr, ...]

    def moment(self, s: sympy.Expr | int) -> sympy.Expr:
        """E|z|^{2s}, for any s that makes it finite.

        >>> law([4, 6]).moment(1)
        6*K0
        """
        power = sympy.sympify(s)
        factors = [sympy.rf(a, power) for a in self.gammas]
        factors += [1 / sympy.rf(b, power) for b in self.betas]
        return sympy.simplify(sympy.expand_func(self.scale**power * sympy.Mul(*factors)))

    def log_cumulant(self, order: int) -> sympy.Expr:
        """The cumulant of log|z|² of this order, by digamma and its derivatives.

        >>> n = sympy.Symbol("n", positive=True)
        >>> law([n, n]).log_cumulant(2)
        2*polygamma(1, n/2)
        """
        terms = [sympy.polygamma(order - 1, a) for a in self.gammas]
        terms += [-sympy.polygamma(order - 1, b) for b in self.betas]
        return sympy.Add(*terms) + (sympy.log(self.scale) if order == 1 else 0)

    def characteristic_function(self) -> sympy.Expr:
        """E e^{iu·z} by |u| = u: Σ_m (−u²/4)^m E|z|^{2m}/(m! (n_L/2)_m), summed.

        Two or more gammas left over give a series that converges nowhere; the sum is then the
        Meijer G function it is the asymptotic series of.

        >>> print(law([sympy.Symbol("n", positive=True)], Orthogonal()).characteristic_function())
        hyper((), (n/2,), -K0*n*u**2/4)
        """
        tops, bottoms = _cancelled(self.gammas, (*self.betas, self.dimension / 2))
        argument = -(u**2) * self.scale / 4
        if not tops and not bottoms:
            return sympy.exp(argument)
        if len(tops) <= len(bottoms):
            return sympy.hyper(tops, bottoms, argument)
        if len(tops) == 1 and not bottoms:
            return (1 - argument) ** -tops[0]
        constant = sympy.Mul(*map(sympy.gamma, bottoms)) / sympy.Mul(*map(sympy.gamma, tops))
        above, below = [1 - a for a in tops], [1 - b for b in bottoms]
        return constant * sympy.meijerg((above, []), ([0], below), -argument)

    def density(self) -> sympy.Expr:
        """The density of z at |z| = rho, with respect to dz.

        Raises InputError where |z| is fixed: z is uniform on a sphere, and has none.

        >>> law([2]).density()
        meijerg(((), ()), ((1,), ()), rho**2/(2*K0))/(pi*rho**2)
        """
        if not self.gammas:
            raise InputError("law", self, "a length that fluctuates; this one is fixed")
        half = self.dimension / 2
        constant = sympy.Mul(*map(sympy.gamma, self.betas)) / sympy.Mul(
            *map(sympy.gamma, self.gammas)
        )
        squared = rho**2
        mellin = sympy.meijerg(([], self.betas), (self.gammas, []), squared / self.scale)
        return sympy.gamma(half) / sympy.pi**half * constant * mellin / squared**half


@rests_on("day2025", "zavatoneveth2021")
def law(
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
) -> Law:
    """The law of z after the last layer; arguments as in `linear.correlator`.

    Raises InputError for other than Gaussian and orthogonal weights, and where two symbolic widths
    would have to be compared.
    """
    layers = chain(widths, weights, inputs)
    n_0 = layers[0][1]
    scale, tops, bottoms = n_0 * K0, [], []
    for kind, n_in, n_out in layers:
        scale *= kind.C_W / n_in
        if type(kind) is Gaussian:
            scale *= 2
            tops.append(n_out / 2)
        elif type(kind) is Orthogonal:
            scale *= larger(n_in, n_out)
            tops.append(n_out / 2)
            bottoms.append(larger(n_in, n_out) / 2)
        else:
            raise InputError("weights", str(kind), "Gaussian or Orthogonal")
    above, below = _cancelled(tops, bottoms)
    return Law(layers[-1][2], scale, above, below)


def sphere_component(dimension: sympy.Expr | int, radius: sympy.Expr) -> sympy.Expr:
    """The density of one component, at z, of a uniform point of the sphere in n dimensions.

    Γ(n/2)/(√π Γ((n−1)/2) R) (1 − z²/R²)^{(n−3)/2}, the law of one preactivation of square
    orthogonal layers at any depth, R² = n C_W^L K0.
    """
    n, z = sympy.sympify(dimension), sympy.Symbol("z", real=True)
    constant = sympy.gamma(n / 2) / (sympy.sqrt(sympy.pi) * sympy.gamma((n - 1) / 2) * radius)
    return constant * (1 - z**2 / radius**2) ** ((n - 3) / 2)


def lyapunov_exponents(
    n: sympy.Expr | int, count: int, C_W: sympy.Expr = sympy.S.One
) -> list[sympy.Expr]:
    """lim (1/L) log σ_i of the product of L square Gaussian layers, i = 1 … count, largest first.

    log σ_1 + … + log σ_k grows as log of a k-dimensional volume: by Gram–Schmidt the i-th factor is
    the root of an independent (C_W/n) χ²_{n−i+1}, so λ_i = ½[log(2C_W/n) + ψ((n−i+1)/2)]. Source
    003, eq. (19), after Newman (1986).
    """
    width = sympy.sympify(n)
    return [(sympy.log(2 * C_W / width) + sympy.digamma((width - i) / 2)) / 2 for i in range(count)]


def _cancelled(
    tops: Sequence[sympy.Expr], bottoms: Sequence[sympy.Expr]
) -> tuple[tuple[sympy.Expr, ...], tuple[sympy.Expr, ...]]:
    """Both lists without what they have in common."""
    above, below = list(tops), []
    for value in bottoms:
        if value in above:
            above.remove(value)
        else:
            below.append(value)
    return tuple(above), tuple(below)
