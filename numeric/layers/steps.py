"""The steps of a network's tensors through the stages of a layer, and the symbols in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from derive.arithmetic.parameters import Parameter, Value
from derive.engine.scheme import Scheme
from derive.engine.step import Step, through
from derive.engine.tensors import Name

from ..brackets.shapes import check_all_finite


def steps_of(
    scheme: Scheme,
    names: Sequence[Sequence[Name]],
    change: Callable[[Step], Step] | None = None,
) -> list[list[Step]]:
    """The steps through each stage of the scheme's layer.

    Arguments:
        names: the tensors behind each stage.
        change: puts another step in the place of each.

    Raises InputError where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """
    found = []
    for stage, behind in zip(scheme.stages, names, strict=True):
        made = [through(name, scheme, stage) for name in behind]
        steps = made if change is None else [change(each) for each in made]
        named = {each.target.identifier: each for each in steps}
        check_all_finite(named, partial(stage.sigma_at, default=scheme.sigma))
        found.append(steps)
    return found


def parameters_of(steps: Iterable[Step], more: Iterable[Value] = ()) -> list[str]:
    """The names of the hyperparameters in steps and in more values, and always C_W and C_b."""
    every = list(steps)
    values = set(more).union(*(each.atoms(Value) for each in every))
    found = {symbol.name for value in values for symbol in value.expr.free_symbols}
    found |= {atom.name for each in every for atom in each.atoms(Parameter)}
    return sorted({"C_W", "C_b", *found})
