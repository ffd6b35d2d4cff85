"""The Gaussian averages of one layer in balls, each distinct one once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from flint import arb

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.shapes import leibniz

from . import functions, geometry, pieces, polynomial
from .geometry import Matrix, Rows
from .pieces import Group
from .recursions import Average
from .smooth import Check, Orders, Sums

Members: TypeAlias = "tuple[int, ...]"
"""The distinct inputs of an average."""


class Averages:
    """These averages at any kernel over all inputs."""

    def __init__(self, activation: Activation, wanted: Sequence[Average]) -> None:
        self._activation, self._count = activation, len(wanted)
        self._sets: dict[Members, list[tuple[int, tuple[Group, ...]]]] = {}
        for at, average in enumerate(wanted):
            members = tuple(sample for sample, _ in average)
            groups = tuple(group for _, group in average)
            self._sets.setdefault(members, []).append((at, groups))
        if not activation.is_smooth:
            pieces.check(activation)
        elif not activation.is_polynomial:
            self._sums = {
                members: Sums(activation, [_orders(groups) for _, groups in each])
                for members, each in self._sets.items()
            }
            if not all(each.is_proved for each in self._sums.values()):
                wanted_sigma = "without a precision, a σ that grows as a power of z at most"
                raise InputError("precision", f"a precision with {activation}", wanted_sigma)

    def __call__(self, K: Matrix, rows: Rows, goal: float, check: Check) -> list[arb]:
        """At a kernel of balls.

        Arguments:
            rows: how the inputs' preactivations depend on each other, as in `geometry`.
            goal: log of the inverse of the error that rules may add.
            check: is told of how many nodes a rule has, before they are summed.
        """
        found = [arb(0)] * self._count
        for members, wanted in self._sets.items():
            part = [[K[a][b] for b in members] for a in members]
            own = tuple(rows[a] for a in members)
            if self._activation.is_polynomial:
                products = [_orders(groups) for _, groups in wanted]
                values = polynomial.averages(self._activation, products, part)
            elif self._activation.is_smooth:
                values = self._sums[members](part, own, goal, check)
            else:
                values = [self._kinked(groups, part, own, goal) for _, groups in wanted]
            for (at, _), value in zip(wanted, values, strict=True):
                found[at] = value
        return found

    def _kinked(
        self, groups: tuple[Group, ...], K: Matrix, rows: Rows, goal: float
    ) -> arb:
        """Inputs that depend on each other are brought to one of them."""
        clusters: dict[int, list[tuple[int, Fraction]]] = {}
        for b in range(len(groups)):
            for a in clusters:
                ratio = geometry.proportional(rows, a, b)
                if ratio is not None:
                    clusters[a].append((b, ratio))
                    break
            else:
                clusters[b] = [(b, Fraction(1))]
        total = arb(0)
        chosen = [self._merged(groups, members) for members in clusters.values()]
        kept = list(clusters)
        part = [[K[a][b] for b in kept] for a in kept]
        for terms in product(*(each.items() for each in chosen)):
            factor = arb(1)
            for _, count in terms:
                factor *= functions.ball(count)
            total += factor * self._distinct(tuple(group for group, _ in terms), part, goal)
        return total

    def _merged(
        self, groups: Sequence[Group], members: Sequence[tuple[int, Fraction]]
    ) -> Counter[Group]:
        """The product of what stands at inputs z_b = c z, as a sum of what can stand at z."""
        if len(members) == 1:
            return Counter({groups[members[0][0]]: 1})
        total: Counter[Group] = Counter()
        expanded = [leibniz(*groups[b]).items() for b, _ in members]
        for terms in product(*expanded):
            parts = [
                (orders, c) for (orders, _), (_, c) in zip(terms, members, strict=True)
            ]
            orders, factor = pieces.merged(self._activation, parts)
            for _, count in terms:
                factor *= count
            total[orders, 0] += factor  # type: ignore[assignment]
        return total

    def _distinct(self, groups: tuple[Group, ...], K: Matrix, goal: float) -> arb:
        if any(pieces.is_zero(self._activation, group) for group in groups):
            return arb(0)
        if len(groups) == 1:
            return pieces.of_one(self._activation, groups[0], K[0][0])
        if any(K[a][a].is_zero() for a in range(len(K))):
            wanted = "without a precision, inputs of which some are zero, where σ has kinks"
            raise InputError("precision", f"a precision with {self._activation}", wanted)
        if len(groups) == 2:
            return pieces.of_two(self._activation, (groups[0], groups[1]), K, goal)
        wanted = "without a precision, three or more inputs where σ has kinks"
        raise InputError("precision", f"a precision with {self._activation}", wanted)


def _orders(groups: Sequence[Group]) -> tuple[Orders, ...]:
    """Of an analytic σ, whose derivatives are all inside."""
    return tuple(orders for orders, _ in groups)
