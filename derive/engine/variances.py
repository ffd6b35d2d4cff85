"""Stages with symbols for variances and an open σ.

Stages that differ only in their variances and in σ share one derivation; numbers are substituted
later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

import sympy

from ..activations.batches import OPEN
from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.polynomials import UNIT, Atom, Expansion, Monomial, add, of_kind, power, times
from ..weights import WeightEnsemble
from ..work.caches import constant
from .atoms import read
from .stages import Equation, Matrix, Stage

_Random = TypeVar("_Random", Equation, Matrix)


def unbound(stage: Stage, weights: WeightEnsemble) -> tuple[Stage, WeightEnsemble]:
    """The stage with an open σ, and its default law. If all laws are equal, it has no other.

    A function of all samples is open as well.
    """
    laws = {matrix.law or weights for matrix in stage.matrices}
    if len(laws) == 1:
        (weights,) = laws
        matrices = tuple(matrix._replace(law=None) for matrix in stage.matrices)
        stage = replace(stage, matrices=matrices)
    return replace(stage, activations=(), batch=stage.batch and OPEN), weights


def general(stage: Stage) -> tuple[Stage, dict[Atom, Value]]:
    """The stage with a symbol for each variance that is given, and the value of each symbol;
    nothing of the stage that this is itself."""
    own = dict.fromkeys(each.variance for each in stage.matrices)
    own |= dict.fromkeys(equation.variance for _, equation in stage.equations)
    given = list(of_kind(own, Value))
    symbols: dict[Parameter | Value, Value] = {
        each: Value(_variance(number)) for number, each in enumerate(given)
    }
    if all(each == symbol for each, symbol in symbols.items()):
        return stage, {}

    def opened(given: _Random) -> _Random:
        return given._replace(variance=symbols.get(given.variance, given.variance))

    matrices = tuple(map(opened, stage.matrices))
    equations = tuple((kind, opened(equation)) for kind, equation in stage.equations)
    changed = replace(stage, matrices=matrices, equations=equations)
    return changed, {symbols[each]: each for each in given}


def multiplied_out(expansion: Expansion, values: Mapping[Atom, Value]) -> Expansion:
    """With these in the place of atoms, and the numbers among all atoms multiplied out."""
    found: Expansion = {}
    for (mono, at), value in expansion.items():
        kept, factor = _folded(mono, values)
        add(found, {(kept, at): value * factor})
    return found


@constant("two symbols of one number would be different symbols")
def _variance(number: int) -> sympy.Dummy:
    return sympy.Dummy(f"C_{number}", positive=True)


def _folded(mono: Monomial, values: Mapping[Atom, Value]) -> tuple[Monomial, Fraction]:
    """A monomial without the numbers among its atoms, and their product."""
    kept, factor = UNIT, Fraction(1)
    for each, exponent in mono:
        atom = values.get(each, each)
        expr = read(atom, value=lambda number: number.expr, other=lambda _: sympy.nan)
        if expr.is_Rational:
            factor *= Fraction(int(expr.p), int(expr.q)) ** exponent
        else:
            kept = times(kept, power(atom, exponent))
    return kept, factor
