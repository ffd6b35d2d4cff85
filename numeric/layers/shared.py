"""Averages over exchangeable samples: given what they share they are independent.

With variances q and covariances 0 ≤ p ≤ q, z_s = √p y + √(q − p) x_s for independent normal y and
x_s, so that over any number of samples

    ⟨Π_s f_s(z_s)⟩ = ∫ Dy Π_s g_s(y),        g_s(y) = ∫ Dx f_s(√p y + √(q − p) x).

The trapezoid rule sums over y. An analytic σ has it for x too, by the steps of `several_samples`.
With kinks g_s is a sum over panels that end there; of straight lines it has a closed form. It is
entire, |g_s(y + iη)| grows as exp(η²p/2(q − p)), and with r samples a step of
π√(2/(D(1 + r p/(q − p)))) leaves e^{−D}. (Derived here.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape

from ..arrays import Array
from ..brackets.pieces import TRUNCATED, powers, table
from ..brackets.quadrature import PANELS, accuracy, panel_reach
from . import kinked, sigma
from .kinked import Kinked
from .one_sample import product
from .orthants import FREE, Moments
from .piecewise_linear import FARTHEST, Group
from .several_samples import Orders, Suffix, Sums
from .sigma import orders_of

_HELD, _MOST = 1 << 15, 1 << 24
"""Nodes that are held at a time, more or less; and the most that a plane has."""

_MOST_STRAIGHT, _MOST_PANELS = 1 << 14, 1 << 11
"""Nodes of y with kinks: samples that are more alike have another rule."""

_ONE = np.ones((1, 1))

_GROWN = 6.0
"""log of the powers of η that the bound of the step leaves out."""

Head = TypeVar("Head", bound=Hashable)
"""The factors at one sample."""


class Rule(NamedTuple, Generic[Head]):
    """The rule at one q and p.

    Attributes:
        y, weights: the nodes of what is shared.
        given: at some of them the average of each head and of absolute values, (2, nodes).
        under: nodes that `given` takes for each y.
    """

    y: Array
    weights: Array
    given: Callable[[Array], Mapping[Head, Array]]
    under: int


class SharedSums(Generic[Head]):
    """Sums for exchangeable samples.

    Arguments:
        rule: at q and p; None where there is none.
        products: for each bracket the factors at each of its samples.
        error: of the rule, in units of rounding.
    """

    def __init__(
        self,
        rule: Callable[[float, float], Rule[Head] | None],
        products: Sequence[Sequence[Head]],
        error: float = 1.0,
    ) -> None:
        self._rule, self._products, self._error = rule, products, error

    def __call__(self, q: float, p: float) -> Array | None:
        """The brackets and their sizes, (2, brackets); None where the rule has no step."""
        rule = self._rule(q, p)
        if rule is None:
            return None
        found = np.zeros((2, len(self._products)))
        step = max(1, _HELD // rule.under)
        for begin in range(0, len(rule.y), step):
            part = slice(begin, begin + step)
            given = rule.given(rule.y[part])
            each = [reduce(mul, (given[head] for head in heads)) for heads in self._products]
            found += (np.array(each) @ rule.weights[part]).T
        found[1] *= self._error
        return found


def of_analytic(activation: Activation, products: Sequence[Suffix]) -> SharedSums[Orders]:
    """The sums of an analytic σ, two samples or more in each bracket."""
    sums, digits = Sums(activation, products), accuracy(2)
    heads = sorted({head for each in products for head in each})
    most = max(map(len, products))

    def rule(q: float, p: float) -> Rule[Orders] | None:
        scale = np.sqrt([p, q - p])
        h = sums.step(scale, 2, digits)
        reach = float(sums.reach(2, scale.sum() * most, digits))
        if np.isnan(h).any() or (2.0 * reach) ** 2 / h.prod() > _MOST:
            return None
        (y, of_y), (x, of_x) = (_nodes(step, reach) for step in h.tolist())

        def given(part: Array) -> Mapping[Orders, Array]:
            return _averaged(activation, heads, scale[0] * part[:, None] + scale[1] * x, of_x)

        return Rule(y, of_y, given, len(x))

    return SharedSums(rule, products, 1.0 + math.exp(accuracy(1) - digits))


def _averaged(
    activation: Activation, heads: Sequence[Orders], z: Array, weights: Array
) -> Mapping[Orders, Array]:
    """The averages over x of each head, and those of absolute values."""
    orders = orders_of(heads)
    values = dict(zip(orders, sigma.derivatives(activation, orders)(z), strict=True))
    known: dict[Orders, Array] = {(): np.ones_like(z)}
    factors = {head: product(known, values, head) for head in heads}
    return {head: np.array([f @ weights, np.abs(f) @ weights]) for head, f in factors.items()}


def of_kinked(activation: Activation, products: Sequence[Sequence[Shape]]) -> SharedSums[Shape]:
    """The sums of a σ with kinks. A head has a position for each factor; of positions that are one,
    each derivative outside is an equal share of that of them all."""
    heads = sorted({head for each in products for head in each})
    most, straight = max(map(len, products)), table(activation)
    sigma = kinked.of_sigma(activation, tuple(heads)) if straight is None else None
    positions = max(sum(len(head.orders) for head in each) for each in products)
    degree = max(sum(powers(activation, head) for head in each) for each in products)

    def rule(q: float, p: float) -> Rule[Shape] | None:
        if not 0.0 <= p < q < math.inf:
            return None
        growth = 1.0 + most * p / (q - p)
        h = math.pi * math.sqrt(2.0 / ((accuracy(1) + _GROWN) * growth))
        reach, room = FARTHEST, _MOST_STRAIGHT
        if sigma is not None:
            far = sigma.rate * positions * (math.sqrt(p) + math.sqrt(q - p))
            reach, room = min(panel_reach(1, degree) + far, FARTHEST), _MOST_PANELS
        if room * h < 2.0 * reach:
            return None
        y, weights = _nodes(h, reach) if p else (np.zeros(1), np.ones(1))
        if straight is not None:
            return Rule(y, weights, _Straight(straight, heads, q, p), len(straight))
        assert sigma is not None
        given = _OnPanels(sigma, reach, q, p)
        return Rule(y, weights, given, given.nodes) if given.nodes * len(y) < _MOST else None

    return SharedSums(rule, products, TRUNCATED[0 if straight is not None else 1])


class _OnPanels:
    """The averages of heads given y, at one q and p, by panels that end at kinks.

    Attributes:
        nodes: of x at each y, at most.
    """

    def __init__(self, sigma: Kinked, reach: float, q: float, p: float) -> None:
        self._sigma, self._reach = sigma, reach
        self._forms = {
            head: regular if len(head.orders) == 1 else singular
            for head, (regular, singular) in sigma.forms.items()
        }
        self._shared, self._own = math.sqrt(p), math.sqrt(q - p)
        B, none = np.array([[1.0, 0.0], [self._shared, self._own]]), np.zeros((2, 0))
        self._level = kinked.Level(B, none, sigma.kinks, sigma.width, PANELS[0])
        panels = 2.0 * reach / min(PANELS[0].width, sigma.width / self._own)
        self.nodes = math.ceil(PANELS[0].nodes * (panels + len(sigma.kinks) + 1))

    def __call__(self, y: Array) -> Mapping[Shape, Array]:
        """The averages and their sizes, (2, nodes)."""
        parent, x, weights = self._level.children(y[None], self._reach)
        z = self._shared * y[parent] + self._own * x
        orders = {order for form in self._forms.values() if form for order in form.orders}
        derivative = {order: self._sigma.derivative(order, z) for order in orders}
        found = {}
        for head, form in self._forms.items():
            if form is None:
                found[head] = np.full((2, len(y)), math.nan)
                continue
            times = sum(form.outer)
            part = reduce(mul, (derivative[order] for order in form.orders), weights)
            part = part * self._sigma.outside((times,))(x[None], _ONE)
            part = part / (len(head.orders) * self._own) ** times
            each = part, np.abs(part)
            found[head] = np.array([np.bincount(parent, of, len(y)) for of in each])
        return found


class _Straight:
    """The averages of heads given y, at one q and p."""

    def __init__(self, pieces: Array, heads: Sequence[Shape], q: float, p: float) -> None:
        self._heads, self._root = heads, math.sqrt(q)
        self._shared, self._own = math.sqrt(p / q), math.sqrt((q - p) / q)
        sizes = {len(head.orders) for head in heads}
        self._groups = {d: Group(np.full((d, 1), self._root), pieces) for d in sizes}

    def __call__(self, y: Array) -> Mapping[Shape, Array]:
        """The averages and their sizes, (2, nodes)."""
        with np.errstate(all="ignore"):
            some = next(iter(self._groups.values()))
            at, mean = some.at, self._shared * y
            left = np.minimum(np.abs(at), FARTHEST) - some.side * mean
            one = np.ones((1, 1, left.size))
            moments = Moments(left.reshape(1, -1) / self._own, one, one, -one)

            def atom(e: int) -> Array:
                if e >= FREE:
                    return _power(some.side[:1] * mean, self._own, e - FREE)
                return self._own**e * moments((e,)).reshape(left.shape)

            none = np.zeros((1, len(y)))
            return {head: self._averaged(head, atom, none) for head in self._heads}

    def _averaged(self, head: Shape, atom: Callable[[int], Array], none: Array) -> Array:
        """The average of a head and its size."""
        times, d = sum(head.outer), len(head.orders)
        atoms = self._groups[d].atoms(head.orders, times)
        terms = np.concatenate([none, *(size * atom(e) for e, size in atoms)])
        return np.array([terms.sum(axis=0), np.abs(terms).sum(axis=0)]) / (d * self._root) ** times


def _power(mean: Array, deviation: float, n: int) -> Array:
    """⟨(mean + deviation x)^n⟩/n! of a normal x."""
    terms = (
        mean ** (n - 2 * k)
        / math.factorial(n - 2 * k)
        * ((0.5 * deviation**2) ** k / math.factorial(k))
        for k in range(n // 2 + 1)
    )
    return reduce(np.add, terms)


def _nodes(step: float, reach: float) -> tuple[Array, Array]:
    """The trapezoid rule of a normal variable."""
    most = math.ceil(reach / step)
    at = step * np.arange(-most, most + 1)
    weights = np.exp(-0.5 * at * at) * (step / math.sqrt(2.0 * math.pi))
    return np.asarray(at), np.asarray(weights)
