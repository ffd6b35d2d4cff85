"""One layer's maps of lengths and covariances in Arb's balls.

With z ~ N(0, K) of two inputs (derive.propagation):

    q' = C_b + C_W ⟨σσ⟩_q,   q_12' = C_b + C_W ⟨σ_1 σ_2⟩,
    χ = C_W ⟨σ'σ'⟩_q,   χ_∥ = C_W ⟨(σσ)''⟩_q/2,   slope = C_W ⟨σ'_1 σ'_2⟩ .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from flint import acb, arb, ctx

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.work.caches import cache
from derive.work.resources import check_time

from ..layers.precise.averages import Averages
from ..layers.precise.geometry import Rows
from ..layers.precise.recursions import Average
from ..spectra.precise import Vector, solve

Kernel: TypeAlias = "tuple[arb, arb, arb]"
"""(q_11, q_12, q_22)."""

INDEPENDENT: Rows = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))
"""Of two inputs whose correlation is not ±1."""

ALONE: Rows = ((Fraction(1),),)
"""Of one input."""


class OnLine(NamedTuple):
    """q', χ and χ_∥ at a length."""

    length: arb
    chi: arb
    chi_parallel: arb


class Maps(NamedTuple):
    """One layer's maps.

    Attributes:
        activation: σ.
        C_W, C_b: the variances.
    """

    activation: Activation
    C_W: arb
    C_b: arb

    def on_line(self, q: arb, *, zero: bool = False) -> OnLine:
        """At the length q, which is known to be zero or not.

        Raises InputError for σ whose averages have no enclosure.
        """
        rows: Rows = ((Fraction(0),),) if zero else ALONE
        values = _one(self.activation)([[q]], rows, _goal(), _affordable)
        square, slopes, bends = values
        bent = bends / 2 if not self.activation.is_smooth else bends + slopes
        return OnLine(self.C_b + self.C_W * square, self.C_W * slopes, self.C_W * bent)

    def on_plane(self, kernel: Kernel, rows: Rows) -> tuple[arb, arb]:
        """q_12' and the slope at a kernel, whose inputs depend on each other as the rows do.

        Raises InputError as `on_line` does.
        """
        q11, q12, q22 = kernel
        if q12.is_zero() and self.activation.is_odd:  # the product of two averages of σ
            _, slopes = _two(self.activation)([[q11, q12], [q12, q22]], rows, _goal(), _affordable)
            return self.C_b, self.C_W * slopes
        averages = _two(self.activation)
        product, slopes = averages([[q11, q12], [q12, q22]], rows, _goal(), _affordable)
        return self.C_b + self.C_W * product, self.C_W * slopes


@cache
def _one(activation: Activation) -> Averages:
    """⟨σσ⟩, ⟨σ'σ'⟩, and ⟨σσ''⟩ or, with kinks, ⟨(σσ)''⟩."""
    bent = ((0, 2), 0) if activation.is_smooth else ((0, 0), 2)
    groups = (((0, 0), 0), ((1, 1), 0), bent)
    return Averages(activation, [((0, group),) for group in groups])


@cache
def _two(activation: Activation) -> Averages:
    wanted: list[Average] = [((0, ((n,), 0)), (1, ((n,), 0))) for n in (0, 1)]
    return Averages(activation, wanted)


def _goal() -> float:
    return ctx.prec * math.log(2.0)


def _affordable(seconds: float) -> None:
    """Refuse an average that takes longer than a day."""
    check_time("precision", ctx.prec, seconds, "a Gaussian average of two inputs")


def root(function: Callable[[arb], tuple[arb, arb]], near: arb, what: str) -> arb:
    """A ball that is proved to hold exactly one zero next to `near`.

    Arguments:
        function: of a ball, its values and its derivatives there.

    Raises InputError where there is no proof.
    """

    def system(at: Vector) -> tuple[Vector, list[Vector]]:
        value, slope = function(at[0].real)
        return [acb(value)], [[acb(slope)]]

    found = solve(system, [acb(near)], real=True)
    if found is None:
        raise InputError("net", what, "fixed points that are simple zeros, with a precision")
    return found[0].real
