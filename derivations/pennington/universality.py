"""Which activation has which universal law, and how fast it is reached (source 002, §5).

The laws themselves are `derive.spectra.limit`. Let q*(L) solve L (μ_2/μ_1² − 1) = σ_0². How D²
leaves 1 behind as q* → 0 decides the class; `perturbed` takes a rare jump of D² to log S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import sympy

from derive.activations.functions import Activation, as_activation
from derive.citations import rests_on
from derive.errors import InputError, as_integer
from derive.expressions import parse_number
from derive.gaussian.oracle import gaussian_average
from derive.spectra.laws import Atomic, w
from derive.spectra.limits import Limit
from derive.spectra.slopes import Slopes, slope_law
from derive.symbols import q
from derive.symbols import sigma_0 as sigma0
from derive.symbols import z as h
from derive.work.caches import cache

ROUGH = 6
"""Digits to which a root is bracketed, before it is found to all that are wanted."""


def perturbed(a: sympy.Expr | float, epsilon: sympy.Symbol) -> sympy.Expr:
    """log(μ_1 S_{D²}) to first order in ε for D² = a with probability ε, else 1. Derived here.

    M = (1 − ε)/(z − 1) + ε a/(z − a) = w at z = (1 + w)/w + ε z_1: one Newton step, then
    log(μ_1 S) = log μ_1 + log((1 + w)/(w z)).

    >>> perturbed(*sympy.symbols("a epsilon"))
    epsilon*w*(a - 1)**2/(a*w - w - 1)
    """
    start = (1 + w) / w
    shift = sympy.Dummy("shift")
    point = start + epsilon * shift
    mean = 1 - epsilon * (1 - a)
    generating = (1 - epsilon) / (point - 1) + epsilon * a / (point - a) - w
    (root,) = sympy.solve(generating.diff(epsilon).subs(epsilon, 0), shift)
    logarithm = sympy.log(mean) - sympy.log(1 + epsilon * root / start)
    return sympy.factor(epsilon * logarithm.diff(epsilon).subs(epsilon, 0))


@dataclass(frozen=True)
class Universality:
    """The limit of JJᵀ at large depth with orthogonal weights, q*(L) → 0 at fixed variance.

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


@rests_on("pennington2018")
def classify(activation: Activation) -> Universality:
    """The universality class, from the activation's own behaviour at and next to 0.

    * φ' changes by powers of h: smooth, whatever the first power (which settles the paper's
      footnote 1): all higher cumulants of D² vanish faster than its variance.
    * φ' is constant up to a kink at distance d: its crossings are rare, e^{−d²/2q}, and jumps of
      D² by the factor a = (φ'(beyond)/φ'(0))² make the law with b = 1 − a; at a = 1 the smooth one.

    The two classes of source 002, §5; those between and the criterion are derived here.

    >>> print(classify("hard_tanh"))
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
    """True if φ' of one piece is not constant: two values that differ settle it, most often."""
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

    L counts the factors D W of J, as in `jacobian`; σ_0 is not squared.

    Raises InputError where the activation has no limit law, or no q up to 10^4 gives so much.

    >>> mpmath.nstr(double_scaling("erf_unit_slope", "1/2", depth=16), 10)
    '0.06739668514'
    """
    activation = as_activation(activation)
    found = classify(activation)
    if found.kind in {"none", "isometric"}:
        raise InputError("activation", str(activation), f"one with a limit law: {found.reason}")
    depth = as_integer("depth", depth, 1)
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
