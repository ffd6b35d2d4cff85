"""The Gaussian averages of one layer in balls, each distinct one once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import sympy
from flint import arb

from derive.activations.functions import Activation
from derive.arithmetic.balls import Matrix, ball
from derive.errors import InputError, Words
from derive.gaussian import distributions, truncated
from derive.gaussian.distributions import Group

from ..coincident_inputs import multiples
from ..resting import at_rest
from . import geometry
from .geometry import Rows
from .recursions import Average
from .smooth import WANTED, Orders, Sums

Members: TypeAlias = "tuple[int, ...]"
"""The distinct inputs of an average."""


_PIECES, _MORE = 1e-3, 100.0
"""Seconds of an average with kinks over one input; how many times more over one more."""

Check: TypeAlias = "Callable[[float], None]"
"""Is told of seconds."""


class Averages:
    """These averages at any kernel over all inputs.

    Arguments:
        activation: σ.
        wanted: the averages.
        apart: whether derivatives at inputs that are multiples of each other are no sums that are
            symmetric in them, and so are refused.
        exchangeable: as in `Passage`.
    """

    def __init__(
        self,
        activation: Activation,
        wanted: Sequence[Average],
        *,
        apart: bool = False,
        exchangeable: bool = False,
    ) -> None:
        self._activation, self._count, self._apart = activation, len(wanted), apart
        self._sets: dict[Members, list[tuple[int, tuple[Group, ...]]]] = {}
        for at, average in enumerate(wanted):
            members = tuple(sample for sample, _ in average)
            groups = tuple(group for _, group in average)
            self._sets.setdefault(members, []).append((at, groups))
        self._sums: dict[Members, Sums] = {}
        self._truncated = truncated.is_made_of_these(activation)
        if not activation.is_smooth:
            if not self._truncated:
                raise InputError(
                    "precision", Words(f"a precision with {activation}"), truncated.WANTED
                )
        elif not self._truncated:
            self._sums = {
                members: Sums(
                    activation, [_orders(groups) for _, groups in each], exchangeable=exchangeable
                )
                for members, each in self._sets.items()
            }
            if not all(each.is_proved for each in self._sums.values()):
                raise InputError("precision", Words(f"a precision with {activation}"), WANTED)

    def __call__(self, K: Matrix, rows: Rows, goal: float, check: Check) -> list[arb]:
        """At a kernel of balls.

        Arguments:
            rows: how the inputs' preactivations depend on each other, as in `geometry`.
            goal: log of the inverse of the error that rules may add.
            check: is told how long this takes, before it starts.
        """
        check(sum(self._seconds(members, K, rows, goal) for members in self._sets))
        found = [arb(0)] * self._count
        for members, wanted in self._sets.items():
            part = [[K[a][b] for b in members] for a in members]
            own = tuple(rows[a] for a in members)
            if members in self._sums:
                values = self._sums[members](part, own, goal)
            else:
                values = [self._kinked(groups, part, own, goal) for _, groups in wanted]
            for (at, _), value in zip(wanted, values, strict=True):
                found[at] = value
        return found

    def _seconds(self, members: Members, K: Matrix, rows: Rows, goal: float) -> float:
        if members not in self._sums and self._activation.is_smooth:
            return 0.0
        if members not in self._sums:
            return _PIECES * _MORE ** (len(members) - 1) * len(self._sets[members])
        part = [[K[a][b] for b in members] for a in members]
        return self._sums[members].seconds(part, [rows[a] for a in members], goal)

    def _kinked(self, groups: tuple[Group, ...], K: Matrix, rows: Rows, goal: float) -> arb:
        """Inputs that depend on each other are brought to one of them; what is at rest is its value
        at 0 (`resting`)."""
        resting = [k for k in range(len(groups)) if K[k][k].is_zero()]
        if resting:
            orders = [_orders([groups[k]])[0] for k in resting]
            at = [at_rest(self._activation, each) for each in orders]
            if 0 in at or any(groups[k][1] for k in resting):
                return arb(0)
            if sympy.nan in at:
                return arb("nan")
            value = ball(sympy.Mul(*at))
            moving = [k for k in range(len(groups)) if k not in resting]
            if not moving:
                return value
            part = [[K[a][b] for b in moving] for a in moving]
            some = tuple(groups[k] for k in moving)
            return value * self._kinked(some, part, tuple(rows[k] for k in moving), goal)
        clusters: dict[int, list[tuple[int, Fraction]]] = {}
        for b in range(len(groups)):
            for a, members in clusters.items():
                ratio = geometry.proportional(rows, a, b)
                if ratio is not None:
                    members.append((b, ratio))
                    break
            else:
                clusters[b] = [(b, Fraction(1))]
        merged = [self._merged(groups, members) for members in clusters.values()]
        kept = list(clusters)
        part = [[K[a][b] for b in kept] for a in kept]
        conditional = not self._activation.is_smooth and len(kept) > 2
        if conditional and geometry.rank([rows[a] for a in kept]) < len(kept):
            wanted = "without a precision, inputs of which one is a combination of the others"
            raise InputError("precision", Words(f"a precision with {self._activation}"), wanted)
        value = self._distinct(tuple(group for group, _ in merged), part, goal)
        for _, factor in merged:
            value *= ball(factor)
        return value

    def _merged(
        self, groups: Sequence[Group], members: Sequence[tuple[int, Fraction]]
    ) -> tuple[Group, Fraction]:
        """The product of what stands at inputs z_b = c z as a group at z, and a factor.

        Derivatives are shared as those of labels that meet: ∂_b = (c_b/Σc²) d/dz at each position.
        """
        if len(members) == 1:
            return groups[members[0][0]], Fraction(1)
        if self._apart and any(outer for _, outer in groups):
            raise multiples()
        factors = tuple(sorted((order, c) for b, c in members for order in _orders([groups[b]])[0]))
        squares = sum((c * c for _, c in factors), Fraction(0))
        share = Fraction(1)
        for b, c in members:
            share *= (len(groups[b][0]) * c / squares) ** groups[b][1]
        outer = sum(groups[b][1] for b, _ in members)
        sigma, scale = self._activation, Fraction(1)
        for order, c in factors:  # σ^{(m)}(c z) = c^{1−m} σ^{(m)}(z), for odd σ with c = −1
            if c != 1 and not ((c > 0 and sigma.is_scale_invariant) or (c == -1 and sigma.is_odd)):
                return (factors, outer), share
            scale *= c ** (1 - order)
        return (tuple(order for order, _ in factors), outer), share * scale

    def _distinct(self, groups: tuple[Group, ...], K: Matrix, goal: float) -> arb:
        if any(distributions.is_zero(self._activation, group) for group in groups):
            return arb(0)
        return truncated.average(self._activation, groups, K, goal)


def _orders(groups: Sequence[Group]) -> tuple[Orders, ...]:
    """Where nothing is scaled."""
    return tuple(tuple(m for m in orders if isinstance(m, int)) for orders, _ in groups)
