"""Which inputs' variables depend on each other exactly, stage after stage of a layer.

A variable is a sum; where every part of it depends on those of other inputs in the same way, it
does. So its rows (`geometry`) stand side by side: those of what is linear are those of the variable
it is linear in, and what has σ, a product or a function of collective variables in it is known to
depend on another input's where each factor is a multiple of that input's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import C_B, C_W, Parameter, Value
from derive.engine.stages import Collective, Function, Product, Stage, Variable
from derive.engine.trees import Kind
from derive.errors import InputError, Words

from .geometry import Rows, at_zero, image, proportional, rank

Known: TypeAlias = "Mapping[Kind, Rows]"
"""The rows of each variable."""


def behind(
    stage: Stage, before: Known, activation: Activation, *, biases: bool, weights: bool
) -> dict[Kind, Rows]:
    """The rows of the variables behind a stage.

    Arguments:
        before: of those before it.
        biases: whether C_b is not 0.
        weights: whether C_W is not 0.

    Raises InputError for inputs that are multiples of each other where a collective variable's
    function is no power of theirs, as with ε > 0.
    """
    found: dict[Kind, Rows] = {}
    size = stage.taps.behind(len(next(iter(before.values()))))
    for kind, equation in stage.equations:
        parts = [
            rows
            for term in equation.right
            if term.weight is None
            or _is_not_zero(stage.matrices[term.weight[0]].variance, default=weights)
            for rows in _read(stage, term, _of_product(stage, term, before, activation))
        ]
        live = _is_not_zero(equation.variance, default=biases)
        ones = [((Fraction(1),),) * size] if equation.bias and live else []
        none = ((Fraction(0),),) * size
        found[kind] = _reduced([sum(each, ()) for each in zip(none, *parts, *ones, strict=True)])
    return found


def _read(stage: Stage, term: Product, rows: Rows) -> list[Rows]:
    """A product as the matrix of each tap meets it; without a matrix as the skip reads it."""
    taps = stage.taps if term.weight else stage.taps.past
    if taps is None:
        return [rows]
    signals, columns = range(0, len(rows), taps.positions), range(len(rows[0]))

    def total(first: int, read: Mapping[int, Fraction]) -> tuple[Fraction, ...]:
        parts = ((rows[first + q], weight) for q, weight in read.items())
        taken = [[weight * row[k] for k in columns] for row, weight in parts]
        return tuple(sum((row[k] for row in taken), Fraction(0)) for k in columns)

    return [tuple(total(first, read) for first in signals for read in tap) for tap in taps.weights]


def _is_not_zero(variance: Parameter | Value, *, default: bool) -> bool:
    """True for a variance above 0; the default is the answer for the network's variance."""
    return default if variance in (C_W, C_B) else variance.expr != 0


def _of_product(stage: Stage, term: Product, before: Known, activation: Activation) -> Rows:
    (only,) = term.factors if len(term.factors) == 1 else (None,)
    if isinstance(only, Variable):
        return before[only.kind]
    size = len(next(iter(before.values())))
    rows: list[tuple[Fraction, ...]] = []
    for b in range(size):
        own = tuple(Fraction(int(a == b)) for a in range(size))
        vanishes = _vanishes(stage, term, before, activation, b)
        if vanishes:
            own = (Fraction(0),) * size
        for a in () if vanishes else range(b):
            ratio = _ratio(stage, term, before, activation, a, b)
            if ratio is not None:
                own = tuple(ratio * each for each in rows[a])
                break
        rows.append(own)
    return tuple(rows)


def _vanishes(stage: Stage, term: Product, before: Known, activation: Activation, b: int) -> bool:
    """True if a factor is 0 at input b: a variable, or σ of one where σ(0) = 0."""
    kinds = [factor.kind for factor in term.factors if isinstance(factor, Variable)]
    for factor in term.factors:
        if isinstance(factor, Function) and at_zero(stage.sigma(factor.argument, activation)) == 0:
            kinds.append(stage.argument_kinds[factor.argument])
    return not all(any(before[kind][b]) for kind in kinds)


def _ratio(
    stage: Stage, term: Product, before: Known, activation: Activation, a: int, b: int
) -> Fraction | None:
    """c with c times the product at input a for that at b, where that is so exactly.

    With dropout no two inputs have the same σ: each has masks of its own.
    """
    total = Fraction(1)
    if stage.keep is not None:
        return None
    for factor in term.factors:
        ratio: Fraction | None = None
        if isinstance(factor, Variable):
            ratio = proportional(before[factor.kind], a, b)
        elif isinstance(factor, Function):
            inside = proportional(before[stage.argument_kinds[factor.argument]], a, b)
            own = stage.sigma(factor.argument, activation)
            ratio = None if inside is None else image(own, inside)
        elif isinstance(factor, Collective):
            ratio = _of_function(stage, factor, before, a, b)
        if ratio is None:
            return None
        total *= ratio
    return total


def _of_function(
    stage: Stage, factor: Collective, before: Known, a: int, b: int
) -> Fraction | None:
    """c with c f at input a for f at b, f a function of collective variables."""
    changed: dict[sympy.Symbol, sympy.Expr] = {}
    for mean in stage.means:
        for each in mean.factors:
            ratio = proportional(before[each.kind], a, b)
            if ratio is None:
                return None
            times = sympy.Rational(ratio.numerator, ratio.denominator)
            changed[mean.symbol] = changed.get(mean.symbol, mean.symbol) * times
    value = stage.derivative(factor.function, factor.orders)
    if all(new == old for old, new in changed.items()):
        return Fraction(1)
    found = sympy.simplify(value.subs(changed, simultaneous=True) / value)
    if found.is_Rational:
        return Fraction(int(found.p), int(found.q))
    wanted = f"inputs that are no multiples of each other, or functions of them other than {value}"
    raise InputError("inputs", Words(f"two inputs of {changed}"), wanted)


def _reduced(rows: Sequence[tuple[Fraction, ...]]) -> Rows:
    """As few columns as have the rows' dependences in them."""
    kept: list[tuple[Fraction, ...]] = []
    for column in zip(*rows, strict=True):
        if rank([*kept, column]) > len(kept):
            kept.append(column)
    return tuple(zip(*kept, strict=True)) if kept else ((Fraction(0),),) * len(rows)
