"""Averages ⟨Π_s Π σ^{(o)}(z_s)⟩ of analytic σ over distinct samples s, in balls.

With z = B y the trapezoid rule with nodes y_j = k h_j sums over all latent variables. By
`envelopes` the product is bounded by C Π_j g_j(y_j), g_j = (1 + λ_j y²)^Q, λ_j = max_s B_sj² times
the number of latent variables, wherever |Im y_j| ≤ a_j = height / max_s |B_sj|. So the rule in y_j
errs, wherever its nodes begin, by (Trefethen and Weideman, SIAM Rev. 56 (2014), thm 5.1)

    2 C e^{a_j²/2} Π_i m_i / (e^{2π a_j/h_j} − 1),      m_i ≥ ∫ g_i φ,  Σ_k h_i g_i(k h_i) φ(k h_i),

and to leave out |y_j| > R_j by 2 C Π_{i≠j} m_i · g_j(R_j) φ(R_j) / (R_j − 2Q/R_j). Both, and where
the kernel is a ball its radius times a bound of ∂⟨…⟩/∂K (Price), are in the radius of the sum.
Samples that are independent are summed over a `lattice`, nested sums are for the others; two that
vary too far for either have `large_variance` sums, whose rule is estimated and not proved.
Exchangeable samples, z_s = √p y + √(q − p) x_s, are independent given y, so that one sum over y has
products of sums over one x.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, pairwise
from itertools import product as tuples
from typing import Any, NamedTuple, TypeAlias

from flint import acb, arb, arb_mat, ctx

from derive.activations.functions import Activation
from derive.arithmetic import balls
from derive.arithmetic.balls import Matrix
from derive.errors import InputError, Words
from derive.gaussian.shapes import leibniz
from derive.work.caches import cache

from . import envelopes, functions, large_variance, lattice
from .envelopes import Envelope
from .geometry import Factor, factorise, rank

Orders: TypeAlias = "tuple[int, ...]"
Product: TypeAlias = "tuple[Orders, ...]"
"""For each sample of a set the orders of the derivatives of σ that are multiplied."""
Widths: TypeAlias = "tuple[float, ...]"
"""Of each latent variable, what no sample's coefficient exceeds."""

_KEPT = 1024
"""Bounds, rules and errors of each set that are kept."""
_STEP = 2.0**-20
"""Steps are multiples of this, so that they are exact."""
_STEPS = 8
"""Of the width of a single latent variable, from one to its double."""
_WIDEST = 0.5
_NODE = 1e-6
"""Seconds of a product at a node, more or less."""
_INTEGRAL = 0.3
"""Seconds of a product that is integrated."""
_MANY = 100_000
"""Nodes on a side from which one latent variable is integrated piece by piece."""
_FAR = (1000, 1001, 1002)
_ROUGH = 20.0
"""log of the inverse of the error of derivatives by the kernel."""
_SPREAD = 8.0
"""Outside |y| > R the density is at most e^{−(1 − 1/8)R²/2} times that of variances of 8."""
_SLOWER = 8.0
"""How many times as long nested sums take as is said of them."""
_LONG = 10.0
"""Seconds from which proved sums over two samples may give way to `large_variance` ones."""
_BLURRED = 2.0**-30
"""The relative radius of a determinant above which balls' inverses are too wide to use."""


class Rule(NamedTuple):
    """Nodes k · step, |k| ≤ most, of a latent variable."""

    step: float
    most: int


class Sums:
    """The averages of these products over one set of samples.

    Arguments:
        activation: analytic, and no polynomial.
        products: none whose average vanishes because σ is odd.
        exchangeable: True if all samples have one variance, and any two one covariance.
    """

    def __init__(
        self, activation: Activation, products: Sequence[Product], *, exchangeable: bool = False
    ) -> None:
        self._activation, self._products = activation, list(products)
        self._exchangeable = exchangeable
        self._envelopes: dict[float, list[Envelope] | None] = {}
        self._derivatives: tuple[Sums, list[list[tuple[int, int, arb, int]]]] | None = None
        own: Any = weakref.proxy(self)  # for caches that do not hold what holds them
        self._bounds = cache(entries=_KEPT)(partial(Sums._bounds_at, own))
        self._rules = cache(entries=_KEPT)(partial(Sums._rules_for, own))
        self._errs = cache(entries=_KEPT)(partial(Sums._errs_by, own))
        self._pairs = large_variance.Sums(activation, self._products) if self._are_pairs else None
        heights = envelopes.heights(activation)
        known = bool(heights) and self._at(heights[0]) is not None
        self._heights = [h for h in heights if known and self._at(h) is not None]

    @property
    def _are_pairs(self) -> bool:
        return bool(self._products) and len(self._products[0]) == 2

    def _far(
        self, K: Matrix, rows: Sequence[Sequence[Fraction]], goal: float
    ) -> large_variance.Sums | None:
        """The sums over two samples that vary too far for a lattice."""
        if self._pairs is None or rank(rows) < 2 or not self._pairs.fits(K):
            return None
        longest = self._proved_seconds(K, rows, goal)
        return self._pairs if longest > max(_LONG, self._pairs.seconds(K, goal)) else None

    @property
    def is_proved(self) -> bool:
        """True if there is a bound of every product."""
        return bool(self._heights)

    def _at(self, height: float) -> list[Envelope] | None:
        """Each product's bound on this strip."""
        if height not in self._envelopes:
            found = [
                envelopes.of_product(self._activation, sum(each, ()), height)
                for each in self._products
            ]
            known = [each for each in found if each is not None and each.size.is_finite()]
            self._envelopes[height] = known if len(known) == len(found) else None
        return self._envelopes[height]

    def rules(self, factor: Factor, goal: float) -> tuple[tuple[Rule, ...], tuple[float, ...]]:
        """The rules for an absolute error of about e^{−goal}, and the strip's height for each."""
        return self._rules(_widths(factor), goal)

    def _rules_for(self, widths: Widths, goal: float) -> tuple[tuple[Rule, ...], tuple[float, ...]]:
        bounds = [self._bounds(widths, height) for height in self._heights]
        rules, chosen = [], []
        for j, widest in enumerate(widths):
            best, at = 0.0, self._heights[0]
            for height, bound in zip(self._heights, bounds, strict=True):
                a = height / widest if widest else 1e3
                a = min(a, 2.0 * math.sqrt(goal))
                h = 2.0 * math.pi * a / (goal + bound.log + a * a / 2.0 + 2.0)
                if h > best:
                    best, at = h, height
            step = max(_STEP, math.floor(min(best, _WIDEST) / _STEP) * _STEP)
            bound = bounds[self._heights.index(at)]
            reach = math.sqrt(2.0 * (goal + bound.log)) + step
            while not _log_tail(reach, bound.slopes[j], bound.power) + bound.log < -goal:
                reach *= 1.05
            rules.append(Rule(step, math.ceil(reach / step)))
            chosen.append(at)
        return tuple(rules), tuple(chosen)

    def _bounds_at(self, widths: Widths, height: float) -> _Bounds:
        found = self._at(height)
        assert found is not None
        power = math.ceil(max(each.degree for each in found) / 2)
        slopes = [1.001 * len(widths) * widest**2 for widest in widths]
        moments = [_moment(slope, power) for slope in slopes]
        log = max(float(each.size.log().upper()) for each in found)
        log += sum(math.log(each) for each in moments)
        return _Bounds(power, slopes, moments, log)

    def error(
        self,
        product: int,
        factor: Factor,
        rules: tuple[Rule, ...],
        at: tuple[float, ...],
        *,
        sampled: bool = True,
    ) -> arb:
        """The error of the rule in one product, or without sampling what it leaves out."""
        return self._errs(product, _widths(factor), rules, at, sampled)

    def _errs_by(
        self,
        product: int,
        widths: Widths,
        rules: tuple[Rule, ...],
        at: tuple[float, ...],
        sampled: bool,
    ) -> arb:
        total = arb(0)
        for j, (rule, height) in enumerate(zip(rules, at, strict=True)):
            bound, envelope = self._bounds(widths, height), self._at(height)
            assert envelope is not None
            a = arb(height) / arb(widths[j]) if widths[j] else arb(1000)
            h = arb(rule.step)
            a = a.min(arb(2.0 * math.pi / rule.step))  # where the bound is least
            scale = envelope[product].size
            for moment in bound.moments:
                scale *= arb(moment)
            if sampled:
                total += 2 * scale * (a * a / 2).exp() / ((2 * arb.pi() * a / h).exp() - 1)
            R, slope = h * rule.most, arb(bound.slopes[j])
            density = (-R * R / 2).exp() / (2 * arb.pi()).sqrt()
            tail = (1 + slope * R * R) ** bound.power * density / (R - 2 * bound.power / R)
            total += 2 * scale * tail
        return total.upper()

    def __call__(
        self,
        K: Matrix,
        rows: Sequence[Sequence[Fraction]],
        goal: float,
        *,
        centred: bool = True,
    ) -> list[arb]:
        """The averages at a kernel, which may be balls.

        Arguments:
            rows: which samples depend on each other, as in `geometry`.
            goal: log of the inverse of the error of the rule.
            centred: whether to sum at the middle of the kernel and add how far it is from its ends.
        """
        exact = all(each.is_exact() for row in K for each in row)
        far = self._far(K, rows, goal)
        if far is not None:
            values = far(K, goal)
            if not centred:  # a bound all over the kernel's balls: twice what it is in the middle
                return [value + arb(0, abs(value).upper()) for value in values]
            moved = [arb(0) for _ in values] if exact else self._moved(K, rows)
            return [a + arb(0, b.upper()) for a, b in zip(values, moved, strict=True)]
        factor, at_kernel = self._factor(K, rows), K
        rules, at = self.rules(factor, goal)
        broad = len(rules) == 1 and rules[0].most > _MANY and _settles(self._activation)
        centred = centred and not exact and (broad or len(K) > 1) and rank(rows) == len(K)
        if centred:
            middles = [[each.mid() for each in row] for row in K]
            middle = self._factor(middles, rows)
            centred = middle.exact
            if centred:
                factor, at_kernel = middle, middles
                rules, at = self.rules(factor, goal)
        box = self._box(at_kernel, factor, rules, goal)
        if broad:
            values = [self._integrated(each, factor, rules[0], goal) for each in self._products]
        elif box is not None:
            halved = self._activation.is_odd
            axes, products = box.axes, self._products
            values = lattice.sums(self._activation, products, at_kernel, axes, halved=halved)
        else:
            values = self._summed(factor, rules)
        moved = self._moved(K, rows) if centred else [arb(0) for _ in values]
        for place, value in enumerate(values):
            radius = self.error(place, factor, rules, at, sampled=not broad) + moved[place]
            if box is not None:
                radius += self._outside(place, factor, box)
            values[place] = value + arb(0, radius.upper())
        return values

    def _factor(self, K: Matrix, rows: Sequence[Sequence[Fraction]]) -> Factor:
        """z = B y: of exchangeable samples with what they share as the first of y."""
        if self._exchangeable and len(K) > 1 and rank(rows) == len(K):
            shared, own = K[0][1], K[0][0] - K[0][1]
            if own.lower() > 0 and (shared.lower() > 0 or shared.is_zero()):
                zero = arb(0)
                B = [
                    [shared.sqrt(), *(own.sqrt() if s == t else zero for t in range(len(K)))]
                    for s in range(len(K))
                ]
                return Factor(list(range(len(K))), B, True)
        return factorise(K, rows)

    def seconds(self, K: Matrix, rows: Sequence[Sequence[Fraction]], goal: float) -> float:
        """How long the sums take at some 50 digits, more or less."""
        far = self._far(K, rows, goal)
        if far is not None:
            return far.seconds(K, goal)
        return self._proved_seconds(K, rows, goal) or self._along_one(K, rows, goal)

    def _along_one(self, K: Matrix, rows: Sequence[Sequence[Fraction]], goal: float) -> float:
        """Seconds of sums over one latent variable, or of none."""
        rules, _ = self.rules(factorise(K, rows), goal)
        if rules and rules[0].most > _MANY and _settles(self._activation):
            return _INTEGRAL * len(self._products)
        return self._nested(rules)

    def _proved_seconds(self, K: Matrix, rows: Sequence[Sequence[Fraction]], goal: float) -> float:
        factor = self._factor(K, rows)
        rules, _ = self.rules(factor, goal)
        if len(rules) == 1:
            return 0.0
        if len(rules) > len(K):
            return self._nested(rules[:2])
        box = self._box(K, factor, rules, goal)
        return _SLOWER * self._nested(rules) if box is None else self._on_lattice(box.axes)

    def _nested(self, rules: Sequence[Rule]) -> float:
        """Seconds of the nested sums."""
        nodes = math.prod(2 * rule.most + 1 for rule in rules) / (1 + self._activation.is_odd)
        return nodes * _NODE * (3 + len(self._products))

    def _on_lattice(self, axes: Sequence[lattice.Axis]) -> float:
        """Seconds of the sums over a lattice."""
        heads = [len({each[k] for each in self._products}) for k in range(len(axes))]
        counts = [2 * each.most + 1 for each in axes]
        halved = self._activation.is_odd
        return lattice.seconds(counts, heads, len(self._products), halved=halved)

    def _box(self, K: Matrix, factor: Factor, rules: Sequence[Rule], goal: float) -> _Box | None:
        """The lattice for samples that are independent, where it is the faster way."""
        if not len(rules) == len(K) > 1 or not factor.exact:
            return None
        determinant = arb_mat(K).det()
        if not determinant.lower() > 0 or determinant.rad() > determinant.lower() * _BLURRED:
            return None
        height = self._heights[0]
        bounds = self._bounds(_widths(factor), height)
        log = bounds.log + math.log(len(K))
        log += sum(
            math.log(math.sqrt(_SPREAD) * _moment(_SPREAD * slope, bounds.power))
            for slope in bounds.slopes
        ) - sum(map(math.log, bounds.moments))
        reach = math.sqrt(2.0 * (goal + max(log, 0.0)) / (1.0 - 1.0 / _SPREAD))
        own = {
            k: (row[j], rules[j].step) for j, (k, row) in enumerate(zip(*factor[:2], strict=True))
        }
        axes = [lattice.axis(*own[k], arb(reach) * K[k][k].upper().sqrt()) for k in range(len(K))]
        box = _Box(axes, reach, height)
        return box if self._on_lattice(axes) < _SLOWER * self._nested(rules) else None

    def _outside(self, product: int, factor: Factor, box: _Box) -> arb:
        """A bound of what the lattice leaves out: where |z_s| > R √K_ss is |y| > R."""
        bounds, envelope = self._bounds(_widths(factor), box.height), self._at(box.height)
        assert envelope is not None
        total = arb(len(factor.B)) * envelope[product].size
        total *= (-(1 - 1 / arb(_SPREAD)) * arb(box.reach) ** 2 / 2).exp()
        for slope in bounds.slopes:
            total *= arb(_SPREAD).sqrt() * arb(_moment(_SPREAD * slope, bounds.power))
        return total.upper()

    def _integrated(self, product: Product, factor: Factor, rule: Rule, goal: float) -> arb:
        """The rule's sum, of one latent variable, by Arb's integration: where z is broad its
        steps are far finer than what varies there."""
        parts = [
            (functions.on_balls(self._activation, order), row[0])
            for k, row in zip(factor.order, factor.B, strict=True)
            for order in product[k]
        ]

        def function(x: acb, analytic: bool) -> acb:
            total = (-x * x / 2).exp()
            for values, slope in parts:
                total = total * values(slope * x, analytic)
            return total

        end, tolerance = arb(rule.step) * rule.most, arb(-goal).exp()
        marks = [end]
        while float(marks[-1]) * float(abs(factor.B[0][0]).upper()) > 1.0:
            marks.append((marks[-1] / 4).mid())
        marks = [arb(0), *reversed(marks)]
        sides = [list(pairwise(marks)), [(-b, -a) for a, b in pairwise(marks)]]
        odd = self._activation.is_odd
        total = acb(0)
        for left, right in sides[0] if odd else sides[0] + sides[1]:
            total += (1 + odd) * balls.integral(
                function, left, right, abs_tol=tolerance, rel_tol=tolerance,
                eval_limit=1000 * ctx.prec, depth_limit=4 * ctx.prec,
            )  # fmt: skip
        return total.real / (2 * arb.pi()).sqrt()

    def _moved(self, K: Matrix, rows: Sequence[Sequence[Fraction]]) -> list[arb]:
        """How far the averages can be from those at the middle of the kernel: the radius of each of
        its entries times the derivative by it, at all kernels within."""
        totals = [arb(0) for _ in self._products]
        if self._derivatives is None:
            self._derivatives = self._slopes()
        slopes, products = self._derivatives
        if not slopes.is_proved:
            raise InputError("precision", Words(f"a precision with {self._activation}"), WANTED)
        values = slopes(K, rows, _ROUGH, centred=False)
        for place, parts in enumerate(products):
            for a, b, count, at in parts:
                totals[place] += K[a][b].rad() * abs(values[at]).upper() * count
        return totals

    def _slopes(self) -> tuple[Sums, list[list[tuple[int, int, arb, int]]]]:
        """The averages that ∂⟨…⟩/∂K_ab = ⟨∂_a ∂_b …⟩ consists of, half of it for a = b; for each
        product a, b, how often each of them occurs, and where it is."""
        places: dict[Product, int] = {}
        found = []
        for product in self._products:
            found.append(
                [
                    (a, b, arb(count) / (1 + (a == b)), places.setdefault(raised, len(places)))
                    for a, b in combinations_with_replacement(range(len(product)), 2)
                    for raised, count in _raised(product, a, b).items()
                ]
            )
        return Sums(self._activation, list(places), exchangeable=self._exchangeable), found

    def _summed(self, factor: Factor, rules: Sequence[Rule]) -> list[arb]:
        """The rule itself."""
        if len(rules) > len(factor.order):
            return self._over_shared(factor, rules)
        if len(factor.order) == len(rules) == 1 and all(each[0] for each in self._products):
            return self._along(factor.B[0][0], rules[0])
        last = [_last(row) for row in factor.B]
        places = sorted(range(len(last)), key=lambda k: last[k])
        samples = [factor.order[k] for k in places]
        B = [factor.B[k] for k in places]
        levels = [
            [k for k, place in enumerate(places) if last[place] == j] for j in range(-1, len(rules))
        ]
        products = [tuple(each[s] for s in samples) for each in self._products]
        tree = _Tree(self._activation, products, B, levels, rules)
        found = tree.sums(-1, [arb(0)] * len(B))
        return [found[each] for each in products]

    def _over_shared(self, factor: Factor, rules: Sequence[Rule]) -> list[arb]:
        """The rule for exchangeable samples: all have the same rule given what they share."""
        shared, own, *_ = factor.B[0]
        heads = sorted({head for each in self._products for head in each})
        values = functions.products(self._activation, tuple(heads), ctx.prec)
        inner = _nodes(rules[1], ctx.prec, halved=False)
        weights = arb_mat([[weight for _, weight in inner]])
        totals = [arb(0) for _ in self._products]
        for y, weight in _nodes(rules[0], ctx.prec, halved=self._activation.is_odd):
            rows = [values(shared * y + own * x) for x, _ in inner]
            (sums,) = (weights * arb_mat(rows)).tolist()
            given = dict(zip(heads, sums, strict=True))
            for k, each in enumerate(self._products):
                totals[k] += math.prod((given[head] for head in each), start=weight)
        return totals

    def _along(self, slope: arb, rule: Rule) -> list[arb]:
        """The rule for one sample, z = slope·y."""
        products = tuple(product for (product,) in self._products)
        values = functions.products(self._activation, products, ctx.prec)
        nodes = _nodes(rule, ctx.prec, halved=self._activation.is_odd)
        rows = [values(slope * y) for y, _ in nodes]
        (totals,) = (arb_mat([[weight for _, weight in nodes]]) * arb_mat(rows)).tolist()
        return list(totals)


WANTED = "without a precision, a σ that grows as a power of z at most"


@cache(entries=256)
def _settles(activation: Activation) -> bool:
    """True if σ is straight far out, where Arb's pieces are then as wide as z is."""
    bend = functions.on_balls(activation, 2)
    return all(bend(acb(sign * at), False).abs_upper() < 0.01 for sign in (-1, 1) for at in _FAR)


def _widths(factor: Factor) -> Widths:
    """max_s |B_sj| of each latent variable, or a little more: of a single one up to the next of
    some steps, by which layers of nearly the same kernel have one rule."""
    found = tuple(max(_above(row[j]) for row in factor.B) for j in range(len(factor.B[0])))
    if len(found) != 1 or not 0.0 < found[0] < math.inf:
        return found
    return (max(found[0], 2.0 ** (math.ceil(_STEPS * math.log2(found[0])) / _STEPS)),)


def _above(x: arb) -> float:
    """A double that |x| does not exceed: `float` rounds to the nearest."""
    bound = abs(x).upper()
    found = float(bound)
    return found if arb(found) >= bound else math.nextafter(found, math.inf)


class _Box(NamedTuple):
    """A lattice's axes, one for each sample, which end at R √K_ss, and the height of the strip on
    which what is left out is bounded."""

    axes: list[lattice.Axis]
    reach: float
    height: float


class _Bounds(NamedTuple):
    """Q, λ_j, m_j, and log of C Π m_j."""

    power: int
    slopes: list[float]
    moments: list[float]
    log: float


def _last(row: Sequence[arb]) -> int:
    """The last latent variable of a sample, −1 where it is zero."""
    return max((j for j, each in enumerate(row) if not each.is_zero()), default=-1)


def _moment(slope: float, power: int) -> float:
    """m: no less than ∫ (1 + λy²)^Q φ and than its trapezoid sum, with steps of 1/2 at most.

    The sum of a function with one maximum on either side differs by h times its variation.
    """
    integral = float(_raw_moment(arb(slope), power).upper())
    y2 = max(0.0, 2.0 * power - 1.0 / slope) if slope else 0.0
    peak = (1.0 + slope * y2) ** power * math.exp(-y2 / 2.0) / math.sqrt(2.0 * math.pi)
    return 1.001 * (integral + 4.0 * _WIDEST * peak)


def _raw_moment(variance: arb, power: int) -> arb:
    """⟨(1 + z²)^power⟩ for z of this variance."""
    total, moment = arb(0), arb(1)
    for k in range(power + 1):
        total += math.comb(power, k) * moment
        moment *= (2 * k + 1) * variance
    return total


def _log_tail(reach: float, slope: float, power: int) -> float:
    fall = reach - 2.0 * power / reach
    if fall <= 0.5:
        return math.inf
    return power * math.log1p(slope * reach**2) - reach**2 / 2.0 - math.log(fall)


@cache(entries=4096)
def _raised(factors: Product, a: int, b: int) -> Counter[Product]:
    """∂_a ∂_b of a product."""
    parts = [leibniz(orders, (k == a) + (k == b)) for k, orders in enumerate(factors)]
    found: Counter[Product] = Counter()
    for terms in tuples(*(part.items() for part in parts)):
        found[tuple(orders for orders, _ in terms)] += math.prod(count for _, count in terms)
    return found


class _Tree:
    """The sum over all nodes: at each level one latent variable, and the samples that it fixes."""

    def __init__(
        self,
        activation: Activation,
        products: Sequence[Product],
        B: Matrix,
        levels: Sequence[Sequence[int]],
        rules: Sequence[Rule],
    ) -> None:
        self._B, self._levels = B, levels
        self._suffixes = [
            list(
                dict.fromkeys(
                    each[min(levels[j + 1], default=self._below(levels, j)) :] for each in products
                )
            )
            for j in range(-1, len(rules))
        ]
        self._heads = {k: list(dict.fromkeys(each[k] for each in products)) for k in range(len(B))}
        self._values = {
            k: functions.products(activation, tuple(heads), ctx.prec)
            for k, heads in self._heads.items()
        }
        self._nodes = [
            _nodes(rule, ctx.prec, halved=activation.is_odd and level == 0)
            for level, rule in enumerate(rules)
        ]

    @staticmethod
    def _below(levels: Sequence[Sequence[int]], j: int) -> int:
        """The first sample that levels after j fix."""
        return sum(len(level) for level in levels[: j + 2])

    def _at(self, k: int, z: arb) -> dict[Orders, arb]:
        """Each product of derivatives of σ that sample k has, at z."""
        return dict(zip(self._heads[k], self._values[k](z), strict=True))

    def sums(self, level: int, means: list[arb]) -> dict[Product, arb]:
        """Of what levels from this one on fix, given the means of all z so far."""
        own, suffixes = self._levels[level + 1], self._suffixes[level + 1]
        inner = level + 1 < len(self._nodes)
        deeper: dict[Product, arb] = {(): arb(1)}
        nodes = [(arb(0), arb(1))] if level < 0 else self._nodes[level]
        totals = dict.fromkeys(suffixes, arb(0))
        for y, weight in nodes:
            here = (
                means
                if level < 0
                else [m + row[level] * y for m, row in zip(means, self._B, strict=True)]
            )
            heads = [self._at(k, here[k]) for k in own]
            if inner:
                deeper = self.sums(level + 1, here)
            for suffix in suffixes:
                term = weight
                for place, head in enumerate(heads):
                    term = term * head[suffix[place]]
                totals[suffix] += term * deeper[suffix[len(own) :]]
        return totals


@cache(entries=64)
def _nodes(rule: Rule, precision: int, *, halved: bool) -> list[tuple[arb, arb]]:
    """Nodes and weights, in balls of the precision at hand; only those from 0 on where what is
    summed is even in all variables."""
    step = arb(rule.step)
    scale = step / (2 * arb.pi()).sqrt()
    right = [(k * step, scale * (-((k * step) ** 2) / 2).exp()) for k in range(1, rule.most + 1)]
    centre = (arb(0), scale)
    if halved:
        return [centre, *((y, 2 * w) for y, w in right)]
    return [*((-y, w) for y, w in reversed(right)), centre, *right]
