"""Universal laws of JJᵀ for orthogonal weights as L → ∞ at fixed variance σ_0² (source 002, §5).

Let q*(L) solve L (μ_2/μ_1² − 1) = σ_0². Then D²/μ_1 → 1, and S_JJᵀ = (μ_1 S_{D²})^L has a limit
that knows only *how* D² leaves 1 behind. Let D² be a with probability ε = σ_0²/(L(1 − a)²), else 1:
to first order in ε

    log S_JJᵀ = −σ_0² w/(1 + b w),        b = 1 − a.

b = 1 is the paper's Bernoulli class (29), b = 0 its smooth class (36): small changes of D²,
whatever their law; between them a family of limits for leaky kinks. Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import sympy

from ..arithmetic import powerseries
from ..citations import rests_on
from ..errors import InputError
from ..expressions import parse_number
from ..symbols import sigma_0 as sigma0
from .laws import Law, w, z


class RLambert(sympy.Function):
    """W_r(x), a root of W e^W + r W = x (S52); evaluated on the branch with W ~ x/r at r → ∞."""

    nargs = 2

    def _eval_evalf(self, prec: int) -> sympy.Expr | None:
        if not all(argument.is_number for argument in self.args):
            return None
        with mpmath.workprec(prec + 20):
            r, x = (mpmath.mpmathify(sympy.N(a, mpmath.mp.dps)) for a in self.args)
            root = mpmath.findroot(lambda t: t * mpmath.exp(t) + r * t - x, x / r)
            return sympy.sympify(root)

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        """∂W/∂r = −W/(e^W(1 + W) + r), ∂W/∂x = 1/(e^W(1 + W) + r)."""
        slope = 1 / (sympy.exp(self) * (1 + self) + self.args[0])
        return -self * slope if argindex == 1 else slope


@dataclass(frozen=True, repr=False)
class Limit(Law):
    """log S = −σ_0² Σ_i p_i w/(1 + b_i w), with Σ p_i = 1 and every b_i ≤ 1.

    Attributes:
        variance: σ_0².
        jumps: the pairs (p_i, b_i); more than one where kinks of different slope are equally near.
    """

    variance: sympy.Expr
    jumps: tuple[tuple[sympy.Expr, sympy.Expr], ...]

    def exponent(self, at: sympy.Expr = w) -> sympy.Expr:
        """−log S."""
        return self.variance * sum(p * at / (1 + b * at) for p, b in self.jumps)

    def S(self, at: sympy.Expr = w) -> sympy.Expr:
        """The limiting S-transform, (29) and (36)."""
        return sympy.exp(-self.exponent(at))

    def M_inverse(self, at: sympy.Expr = w) -> sympy.Expr:
        """(1 + w)/(w S(w))."""
        return (1 + at) / at * sympy.exp(self.exponent(at))

    def log_s(self, order: int) -> list[sympy.Expr]:
        """−σ_0² Σ p (−b)^{k−1}."""
        rest = (
            -self.variance * sum(p * (-b) ** (k - 1) for p, b in self.jumps)
            for k in range(1, order + 1)
        )
        return [sympy.S.Zero, *rest]

    def moment(self, k: int) -> sympy.Expr:
        """By Lagrange's theorem; m_1 = 1, m_2 = 1 + σ_0²."""
        return sympy.expand(powerseries.ratios_from_log_s(self.log_s(k - 1))[k - 1])

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """z G − 1."""
        return self.G(at) * at - 1

    def G(self, at: sympy.Expr = z) -> sympy.Expr:
        """Through Lambert's W for b = 1, (30), and the r-Lambert function for b = 0, (S53).

        b = 1: y = w/(1 + w) has z y = e^{σ²y}, so −σ²y = W(−σ²/z) and z G = 1/(1 − y).
        b = 0: W = σ²(1 + w) has W e^W − z e^{σ²} W = −σ² z e^{σ²}.
        """
        v = self.variance
        if self.jumps == ((1, 1),):
            return v / (at * (v + sympy.LambertW(-v / at)))
        if self.jumps == ((1, 0),):
            scaled = at * sympy.exp(v)
            return RLambert(-scaled, -v * scaled) / (v * at)
        raise self._unknown("G(z)")

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """M⁻¹ = e^{σ_0² Σ p/b} (1 + (1 − σ_0² Σ p/b²)/w + …) at w → ∞: an atom, of what no layer
        has changed, while that is positive.

        There is none at 0: for b = 1 the density there is that of 1/(λ log²λ).
        """
        if any(b == 0 for _, b in self.jumps):
            return {}
        mass = sympy.simplify(1 - self.variance * sum(p / b**2 for p, b in self.jumps))
        position = sympy.exp(self.variance * sum(p / b for p, b in self.jumps))
        return {position: mass} if not mass.is_number or mass > 0 else {}

    @property
    def edges(self) -> tuple[sympy.Expr, sympy.Expr]:
        """The ends of the bulk, critical values of M⁻¹, exact with one kind of jump.

        In t = 1/w, M⁻¹ = (1 + t) e^{σ_0²/(t + b)}, critical where (t + b)² = σ_0² (1 + t). For
        b = 1 one root is t = −1, and the bulk begins at 0. Raises InputError with several kinds.
        """
        if len(self.jumps) > 1:
            raise InputError("jumps", self.jumps, "one kind of jump, for edges in closed form")
        ((_, b),) = self.jumps
        v, deviation = self.variance, sympy.sqrt(self.variance)
        ends = []
        for sign in (-1, 1):
            t = sympy.expand(v - 2 * b + sign * deviation * sympy.sqrt(v + 4 * (1 - b))) / 2
            at_zero = sympy.simplify(1 + t) == 0
            ends.append(sympy.S.Zero if at_zero else (1 + t) * sympy.exp(v / (t + b)))
        return ends[0], ends[1]

    def __str__(self) -> str:
        return f"S = {self.S()}"

    def latex(self) -> str:
        """S(w) in LaTeX."""
        return f"S(w) = {sympy.latex(self.S())}"


@rests_on("pennington2018")
def limit(
    kind: str, sigma: sympy.Expr | float = sigma0, ratio: sympy.Expr | float | None = None
) -> Limit:
    """The universal law of a class: "bernoulli", "smooth", or "leaky" with a `ratio` a ≥ 0.

    Source 002, eqs. (29) and (36); leaky kinks are derived here.

    Arguments:
        kind: the class.
        sigma: σ_0 > 0, the standard deviation of the eigenvalues, not squared; their mean is 1.
        ratio: a = (φ'(beyond the kink)/φ'(0))², which 0 makes Bernoulli's and 1 the smooth law.

    Raises InputError for another class, σ_0 or a, and for a ratio with a class that has none.

    >>> limit("bernoulli").S()
    exp(-sigma_0**2*w/(w + 1))
    >>> limit("bernoulli", "1/2").atoms
    {exp(1/4): 3/4}
    """
    deviation = parse_number("sigma0", sigma)
    if not deviation.is_positive:
        raise InputError("sigma0", sigma, "a positive standard deviation")
    if not isinstance(kind, str) or kind not in {"bernoulli", "smooth", "leaky"}:
        raise InputError("limit", kind, '"bernoulli", "smooth" or "leaky"')
    if (ratio is None) != (kind != "leaky"):
        raise InputError("ratio", ratio, 'the squared slope ratio a, with "leaky" and nothing else')
    a = {"bernoulli": sympy.S.Zero, "smooth": sympy.S.One}.get(kind)
    a = parse_number("ratio", ratio) if a is None else a
    if a.is_negative:
        raise InputError("ratio", ratio, "a squared slope, 0 or more")
    return Limit(deviation**2, ((sympy.S.One, 1 - a),))
