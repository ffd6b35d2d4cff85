"""P(x_s > 0 for all s) of x ~ N(h, K) with up to four components, in balls.

Φ_d(h; ρ) with h and ρ in units of standard deviations is erfc for d = 1; with h = 0 it is
1/4 + asin(ρ)/2π, and 1/8 + Σ asin(ρ_ab)/4π. Elsewhere the correlations of the first component grow
from 0 with t (Plackett, Biometrika 41 (1954)),

    dΦ_d/dt = Σ_b ρ_1b φ_2(h_1, h_b; tρ_1b) Φ_{d−2}(the others, given that these two are 0),

which Arb integrates with a proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import acb, arb, ctx

from ..arithmetic import balls
from ..arithmetic.balls import Matrix
from ..errors import InputError, Words

_MOST = 4
WANTED = "without a precision, four or more distinct inputs where kinks are not at 0"


def probability(h: Sequence[arb], K: Matrix, goal: float) -> arb:
    """P(x > 0), to about e^{−goal}.

    Raises InputError for four components of which the means are not zero, and for more.
    """
    roots = [K[a][a].sqrt() for a in range(len(h))]
    heights = [x / root for x, root in zip(h, roots, strict=True)]
    rho = [
        [_correlation(K[a][b] / (roots[a] * roots[b])) if a != b else arb(1) for b in range(len(h))]
        for a in range(len(h))
    ]
    return _standard(heights, rho, goal)


def _correlation(value: arb) -> arb:
    """No farther than 1 from 0."""
    if abs(value) < 1:
        return value
    return value.max(arb(-1)).min(arb(1))


def _standard(h: Sequence[arb], rho: Matrix, goal: float) -> arb:
    d, centred = len(h), all(each.is_zero() for each in h)
    if d == 0:
        return arb(1)
    if d == 1:
        return _tail(acb(h[0])).real
    if centred and d <= 3:
        angles = sum((rho[a][b].asin() for a in range(d) for b in range(a)), start=arb(0))
        value: arb = angles / (2 ** (d - 1) * arb.pi()) + 0.5**d
        return value
    if d > _MOST or (d == _MOST and not centred):
        raise InputError("precision", Words(f"a precision and {d} distinct inputs"), WANTED)
    apart = _tail(acb(h[0])).real * _standard(h[1:], [row[1:] for row in rho[1:]], goal)

    def slope(t: acb, analytic: bool) -> acb:
        total = acb(0)
        for b in range(1, d):
            others = [c for c in range(1, d) if c != b]
            total += _with_two_at_zero(h, rho, t, b, others, analytic)
        return total

    tolerance = arb(-goal).exp()
    grown = balls.integral(
        slope, 0, 1, rel_tol=tolerance, abs_tol=tolerance,
        eval_limit=4000 * ctx.prec, depth_limit=8 * ctx.prec,
    )  # fmt: skip
    return apart + grown.real


def _with_two_at_zero(
    h: Sequence[arb], rho: Matrix, t: acb, b: int, others: Sequence[int], analytic: bool
) -> acb:
    """ρ_1b φ_2 Φ of the others, of which those that are there are as at x_1 = x_b = 0."""
    r = t * rho[0][b]
    left = 1 - r * r
    exponent = (h[0] * h[0] - 2 * r * h[0] * h[b] + h[b] * h[b]) / (2 * left)
    value = rho[0][b] * (-exponent).exp() / (2 * arb.pi() * left.sqrt(analytic=analytic))
    rows = []
    for c in others:  # x_c = h_c + α (x_1 − h_1) + β (x_b − h_b) + rest
        one, two = t * rho[0][c], acb(rho[b][c])
        rows.append(((one - r * two) / left, (two - r * one) / left, one, two))
    if not others:
        return value
    means = [
        h[c] - alpha * h[0] - beta * h[b]
        for c, (alpha, beta, _, _) in zip(others, rows, strict=True)
    ]
    variances = [1 - alpha * one - beta * two for alpha, beta, one, two in rows]
    roots = [each.sqrt(analytic=analytic) for each in variances]
    if len(others) == 1:
        return value * _tail(means[0] / roots[0])
    alpha, beta, _, _ = rows[0]
    _, _, one, two = rows[1]
    cosine = (rho[others[0]][others[1]] - alpha * one - beta * two) / (roots[0] * roots[1])
    return value * (acb(0.25) + _asin(cosine, analytic) / (2 * arb.pi()))


def _asin(x: acb, analytic: bool) -> acb:
    """Not finite where it has to be analytic and a ball meets the cuts beyond ±1."""
    if analytic and x.imag.contains(0) and not abs(x.real) < 1:
        return acb("nan")
    return x.asin()


def _tail(x: acb) -> acb:
    """P(y > −x) for a normal y."""
    return (-x / arb(2).sqrt()).erfc() / 2
