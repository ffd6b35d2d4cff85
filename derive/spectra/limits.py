"""Universal laws of JJᵀ for orthogonal weights as L → ∞ at fixed variance σ_0² (source 002, §5).

Let q*(L) solve L (μ_2/μ_1² − 1) = σ_0². Then D²/μ_1 → 1, and S_JJᵀ = (μ_1 S_{D²})^L has a limit
that knows only *how* D² leaves 1 behind. Let D² be a with probability ε = σ_0²/(L(1 − a)²), else 1:
to first order in ε

    log S_JJᵀ = −σ_0² w/(1 + b w),        b = 1 − a.

b = 1 is the paper's Bernoulli class (29), b = 0 its smooth class (36): small changes of D²,
whatever their law; between them a family of limits for leaky kinks. Derived here; `perturbed` holds
the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import sympy
from sympy.polys.ring_series import rs_mul, rs_pow, rs_series_inversion, rs_trunc
from sympy.polys.rings import PolyElement

from ..activations.functions import Activation, as_activation
from ..arithmetic import powerseries
from ..citations import rests_on
from ..display.objects import Shown
from ..errors import InputError, instance, whole
from ..expressions import as_expression, parse_number
from ..gaussian.oracle import gaussian_average
from ..symbols import q
from ..symbols import sigma_0 as sigma0
from ..symbols import z as h
from ..work.caches import cache
from .laws import Atomic, Law, w, z
from .slopes import Slopes, slope_law

ROUGH = 6
"""Digits to which a root is bracketed, before it is found to all that are wanted."""


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


def perturbed(a: sympy.Expr | float, epsilon: sympy.Symbol) -> sympy.Expr:
    """log(μ_1 S_{D²}) to first order in ε for D² = a with probability ε, else 1. Derived here.

    M = (1 − ε)/(z − 1) + ε a/(z − a) = w at z = (1 + w)/w + ε z_1: one Newton step, then
    log(μ_1 S) = log μ_1 + log((1 + w)/(w z)).

    Arguments:
        a: the value that is rare, 0 or more; a number or an expression.
        epsilon: ε, a symbol.

    Raises InputError for an ε that is no symbol of its own.

    >>> perturbed(*sympy.symbols("a epsilon"))
    epsilon*w*(a - 1)**2/(a*w - w - 1)
    """
    a = as_expression("a", a, "a squared slope, a number or an expression")
    instance("epsilon", epsilon, sympy.Symbol, "a symbol")
    if epsilon in {w, *a.free_symbols}:
        raise InputError("epsilon", epsilon, "a symbol of its own")
    if w in a.free_symbols:
        raise InputError("a", a, f"an expression without {w}")
    start = (1 + w) / w
    shift = sympy.Dummy("shift")
    point = start + epsilon * shift
    mean = 1 - epsilon * (1 - a)
    generating = (1 - epsilon) / (point - 1) + epsilon * a / (point - a) - w
    (root,) = sympy.solve(generating.diff(epsilon).subs(epsilon, 0), shift)
    logarithm = sympy.log(mean) - sympy.log(1 + epsilon * root / start)
    return sympy.factor(epsilon * logarithm.diff(epsilon).subs(epsilon, 0))


@dataclass(frozen=True, repr=False)
class Universality(Shown):
    """What becomes of JJᵀ at large depth with orthogonal weights, q*(L) → 0 at fixed variance.

    Attributes:
        kind: "bernoulli", "smooth", "leaky", "isometric" (D² is constant: σ_0 = 0 at any depth) or
            "none".
        jumps: (p_i, b_i) of the `Limit`.
        reachable: whether criticality with C_b ≥ 0 allows q* → 0.
        reason: why there is no limit, or what decides the class.
    """

    kind: str
    jumps: tuple[tuple[sympy.Expr, sympy.Expr], ...]
    reachable: bool
    reason: str

    def limit(self, sigma: sympy.Expr | float = sigma0) -> Limit:
        """The class's law; InputError where there is none."""
        if self.kind in {"none", "isometric"}:
            raise InputError("activation", self.kind, f"one with a limit law: {self.reason}")
        return Limit(parse_number("sigma0", sigma) ** 2, self.jumps)

    def __str__(self) -> str:
        reached = "" if self.reachable else "; no critical network with C_b ≥ 0 has q* → 0"
        return f"{self.kind}: {self.reason}{reached}"

    def latex(self) -> str:
        """The class, and its limit law where there is one, in LaTeX."""
        law = "" if self.kind in {"none", "isometric"} else rf":\quad {self.limit().latex()}"
        return rf"\text{{{self.kind}}}{law}"


@rests_on("pennington2018")
def classify(activation: Activation) -> Universality:
    """The universality class, from the activation's own behaviour at and next to 0.

    * φ' changes by powers of h: smooth, whatever the first power (which settles the paper's
      footnote 1): all higher cumulants of D² vanish faster than its variance.
    * φ' is constant up to a kink at distance d: its crossings are rare, e^{−d²/2q}, and jumps of
      D² by the factor a = (φ'(beyond)/φ'(0))² make the law with b = 1 − a; at a = 1 the smooth one.

    The two classes of source 002, §5; those between and the criterion are derived here.

    >>> classify("hard_tanh")
    bernoulli: linear up to a kink at distance 1
    """
    return _classified(as_activation(activation))


@cache
def _classified(activation: Activation) -> Universality:
    law = slope_law(activation)
    inner = [
        (p.lower, p.upper, p.expr.diff(h)) for p in activation.pieces if p.lower <= 0 <= p.upper
    ]
    at_zero = [sympy.simplify(slope.subs(h, 0)) for _, _, slope in inner]
    squares = {sympy.simplify(slope**2) for slope in at_zero}
    if len(law.atoms) == 1 and isinstance(
        activation.slopes if activation.is_scale_invariant else 0, tuple
    ):
        return Universality("isometric", (), True, "φ'² is constant")
    if activation.is_scale_invariant or len(squares) > 1:
        return Universality("none", (), False, "φ'² jumps at 0, so D² stays spread as q* → 0")
    if squares == {sympy.S.Zero}:
        return Universality("none", (), False, "φ'(0) = 0")
    reachable = _reachable(activation)
    if any(_varies(slope) for _, _, slope in inner):
        reason = "φ' is not constant around 0: D² changes by powers of q*"
        return Universality("smooth", ((sympy.S.One, sympy.S.Zero),), reachable, reason)
    nearest = min((abs(kink) for kink in activation.kinks if kink != 0), default=None)
    if nearest is None:
        return Universality("isometric", (), reachable, "φ'² is constant")
    (square,) = squares
    crossings = []
    for left, right in zip(activation.pieces, activation.pieces[1:], strict=False):
        kink = right.lower
        if abs(kink) == nearest:
            beyond = right if kink > 0 else left
            slope = beyond.expr.diff(h)
            crossings.append(sympy.simplify(slope.subs(h, kink) ** 2 / square))
    b = [1 - a for a in crossings]
    total = sum(each**2 for each in b)
    if total == 0:
        reason = "φ' is continuous at the nearest kink: rare but small changes"
        return Universality("smooth", ((sympy.S.One, sympy.S.Zero),), reachable, reason)
    jumps = tuple((each**2 / total, each) for each in dict.fromkeys(b) if each != 0)
    jumps = tuple((p * b.count(each), each) for p, each in jumps)
    kind = "bernoulli" if all(each == 1 for _, each in jumps) else "leaky"
    return Universality(kind, jumps, reachable, f"linear up to a kink at distance {nearest}")


def _varies(slope: sympy.Expr) -> bool:
    """Whether φ' of one piece is not constant: two values that differ settle it, most often."""
    if not slope.has(h):
        return False
    change = sympy.N(slope.subs(h, sympy.Rational(1, 3)) - slope.subs(h, sympy.Rational(1, 7)), 30)
    if change.is_finite and abs(change) > sympy.Float("1e-20", 30):
        return True
    return bool(sympy.simplify(slope.diff(h)) != 0)


def _reachable(activation: Activation) -> bool:
    """C_b = q − ⟨φ²⟩/⟨φ'²⟩ ≥ 0 as q → 0, decided at one small q in high precision."""
    at_zero = activation.expr.subs(h, 0)
    if sympy.simplify(at_zero) != 0:
        return False
    nearest = min((abs(kink) for kink in activation.kinks if kink != 0), default=sympy.oo)
    small = sympy.Min(sympy.Rational(1, 1000), nearest**2 / 40)
    squared = gaussian_average(activation.expr**2, small, 40).value
    slope = gaussian_average(activation.derivative(1) ** 2, small, 40).value
    with mpmath.workdps(40):
        bias = mpmath.mpf(sympy.N(small, 40)) - squared / slope
        return bool(bias > -(mpmath.mpf(10) ** -36))


def double_scaling(
    activation: Activation, sigma: sympy.Expr | float, depth: int, digits: int = 20
) -> mpmath.mpf:
    """q*(L): the smallest variance with L (μ_2/μ_1² − 1) = σ_0², for orthogonal weights.

    Source 002, §5, with eq. (22) for the variance σ_0² of the eigenvalues.

    Arguments:
        activation: φ, or its name, with a limit law.
        sigma: σ_0 > 0, not squared.
        depth: L, a number: the factors D W of J, as in `jacobian`.
        digits: of the result, 1 to 100.

    Raises InputError where the activation has no limit law, or no q up to 10^4 gives so much.

    >>> mpmath.nstr(double_scaling("erf_unit_slope", "1/2", depth=16), 10)
    '0.06739668514'
    """
    activation = as_activation(activation)
    found = classify(activation)
    if found.kind in {"none", "isometric"}:
        raise InputError("activation", str(activation), f"one with a limit law: {found.reason}")
    depth, digits = whole("depth", depth, 1), whole("digits", digits, 1, 100)
    target = parse_number("sigma0", sigma) ** 2 / depth
    if not target.is_positive:
        raise InputError("sigma0", sigma, "a positive standard deviation")
    near = _excess(activation, target, ROUGH)
    low = high = mpmath.log(mpmath.mpf(10) ** -9)
    while near(high) < 0:
        low, high = high, high + 2
        if high > 10:
            wanted = f"a deviation that {activation} reaches at L = {depth}"
            raise InputError("sigma0", sigma, wanted)
    with mpmath.workdps(ROUGH + 12):
        rough = mpmath.findroot(near, (low, high), solver="anderson", tol=mpmath.mpf(10) ** -ROUGH)
    with mpmath.workdps(digits + 12):
        beside = rough + mpmath.mpf(10) ** -ROUGH
        tolerance = mpmath.mpf(10) ** (-2 * digits)
        excess = _excess(activation, target, digits)
        return mpmath.exp(mpmath.findroot(excess, (rough, beside), solver="secant", tol=tolerance))


def _excess(
    activation: Activation, target: sympy.Expr, digits: int
) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """log(μ_2/μ_1² − 1) less that of the target as a function of log q, to so many digits."""
    spread = _relative_variance(activation, digits + 12)
    goal = mpmath.log(mpmath.mpf(sympy.N(target, digits + 12)))

    def excess(log_q: mpmath.mpf) -> mpmath.mpf:
        with mpmath.workdps(digits + 12):
            value = spread(mpmath.exp(log_q))
            return mpmath.log(value) - goal if value > 0 else -abs(goal) - 100

    return excess


def _relative_variance(activation: Activation, digits: int) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """μ_2/μ_1² − 1 as a function of q, to so many digits."""
    law = slope_law(activation)
    if isinstance(law, Atomic) or (isinstance(law, Slopes) and law.exponential):
        closed: Callable[[mpmath.mpf], mpmath.mpf] = sympy.lambdify(
            q, law.moment(2) / law.moment(1) ** 2 - 1, "mpmath"
        )
        return closed
    slope = sympy.lambdify(h, activation.derivative(1), "mpmath")
    kinks = [mpmath.mpf(sympy.N(kink, digits)) for kink in activation.kinks]

    def numeric(at: mpmath.mpf) -> mpmath.mpf:
        square = cache(entries=2**16)(
            lambda x: slope(x) ** 2
        )  # both averages are over the same nodes
        second = gaussian_average(square, at, digits, kinks).value
        fourth = gaussian_average(lambda x: square(x) ** 2, at, digits, kinks).value
        return fourth / second**2 - 1

    return numeric


def finite_depth(
    activation: Activation, order: int = 3
) -> dict[int, tuple[sympy.Expr, sympy.Expr]]:
    """How S_JJᵀ of a smooth activation approaches its limit: {k: (β_k, r_k)}, k = 2 … order, with

        log S_JJᵀ = −σ_0² w + Σ_k β_k L^{−r_k} w^k (1 + o(1)),

    exactly −σ_0² in the first place, by the choice of q*(L). β_k is in terms of `sigma0`. With
    φ''(0) = 0 the first correction falls like 1/√L, from the skewness of D² ~ 1 − c h²; otherwise
    D² is nearly Gaussian and it falls like 1/L. (Bernoulli's class: exactly −L log(1 + u/L), with
    u = σ_0² w/(1 + w).) Derived here.

    Arguments:
        activation: analytic, of the smooth class, or its name.
        order: the last k.

    Raises InputError for another activation.

    >>> finite_depth("tanh", 2)
    {2: (2*sqrt(2)*sigma_0**3, 1/2)}
    """
    activation = as_activation(activation)
    found = classify(activation)
    if found.kind != "smooth" or activation.kinks:
        raise InputError("activation", str(activation), "an analytic one of the smooth class")
    for terms in (4, 8, 16):
        leading = [_leading(c) for c in _small_q(activation, order + 1, terms)[1:]]
        if all(each is not None for each in leading):
            break
    else:
        raise InputError("activation", str(activation), "nonlinear terms of low order")
    (alpha, p), *others = [each for each in leading if each is not None]
    corrections = {}
    for k, (beta, r) in enumerate(others, start=2):
        power = sympy.Rational(r - p, p)
        scale = (sigma0**2 / (-alpha)) ** power
        corrections[k] = (sympy.simplify(-(sigma0**2) * beta / alpha * scale), power)
    return corrections


def _small_q(activation: Activation, order: int, terms: int) -> list[PolyElement]:
    """c_0, c_1, … of log(μ_1 S_{D²}) as series in q through q^terms, from φ's Taylor series."""
    taylor = activation.taylor(2 * terms + 1)
    slope = [(k + 1) * c / taylor[1] for k, c in enumerate(taylor[1:])]
    domain, exact = sympy.construct_domain(slope, field=True)
    ring, x = sympy.ring("q", domain)
    squared = powerseries.multiply(exact, exact)
    moments, power = [], [domain.one] + [domain.zero] * (2 * terms)
    for _ in range(order):
        power = powerseries.multiply(power, squared)
        even = (
            power[2 * j] * domain.from_sympy(sympy.factorial2(2 * j - 1)) for j in range(terms + 1)
        )
        moments.append(sum((c * x**j for j, c in enumerate(even)), ring.zero))
    inverse = rs_series_inversion(moments[0], x, terms + 1)
    ratios = [ring.one]
    for k, moment in enumerate(moments[1:], start=2):
        ratios.append(rs_mul(moment, rs_pow(inverse, k, x, terms + 1), x, terms + 1))
    return [rs_trunc(c, x, terms + 1) for c in powerseries.log_s_from_ratios(ratios)]


def _leading(element: PolyElement) -> tuple[sympy.Expr, int] | None:
    """(coefficient, power) of the lowest power of q."""
    if not element:
        return None
    (power,), coefficient = min(element.terms())
    return element.ring.domain.to_sympy(coefficient), power
