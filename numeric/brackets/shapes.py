"""Shapes of Gaussian brackets: those of a recursion, which there are rules for, how they print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from derive.activations.functions import Activation
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step
from derive.errors import InputError, Words, as_integer
from derive.gaussian import closed_forms
from derive.gaussian.brackets import Average, Bracket
from derive.gaussian.shapes import Shape, SingleShape

MAX_INPUTS = 4
"""Of one average, none a combination of the others: it is an integral over as many dimensions."""

MAX_POSITIONS = 8
"""Of one average of a written module, each with a factor."""


def shape_of(bracket: Bracket) -> SingleShape:
    """The bracket with all of its samples equal."""
    return SingleShape(tuple(order for _, order in bracket.factors), len(bracket.outer))


def positions_of(bracket: Bracket) -> Iterable[tuple[Shape, tuple[int, ...]]]:
    """The bracket over positions that carry one factor each: ∂_sample = Σ of its positions' ∂."""
    places: dict[int, list[int]] = {}
    for place, (sample, _) in enumerate(bracket.factors):
        places.setdefault(sample, []).append(place)
    orders = tuple(order for _, order in bracket.factors)
    labels = tuple(sample for sample, _ in bracket.factors)
    for chosen in product(*(places[sample] for sample in bracket.outer)):
        outer = tuple(chosen.count(place) for place in range(len(orders)))
        ranked = sorted(range(len(orders)), key=lambda p: (orders[p], -outer[p]))
        shape = Shape(tuple(orders[p] for p in ranked), tuple(outer[p] for p in ranked))
        yield shape, tuple(labels[p] for p in ranked)


def describe(shape: SingleShape | Shape) -> str:
    """The bracket as the derivations print it."""
    if isinstance(shape, SingleShape):
        return str(Average([(0, order) for order in shape.orders], (0,) * shape.outer))
    outer = [p for p, count in enumerate(shape.outer) for _ in range(count)]
    return str(Average(list(enumerate(shape.orders)), outer))


def check(shape: SingleShape) -> None:
    """Raise InputError for counts that are not whole."""
    for k in (*shape.orders, shape.outer):
        as_integer("shape", k, 0, wanted="orders and outer derivatives that are whole, 0 or more")


def check_inputs(count: int, alike: str) -> None:
    """Raise InputError if an average has more distinct inputs than there is a rule for."""
    if count > MAX_INPUTS:
        wanted = f"tensors whose averages are over at most {MAX_INPUTS} inputs at once"
        raise InputError("inputs", Words(f"{count} of them in one average, none {alike}"), wanted)


def check_finite(tensor: str, activation: Activation, shapes: Iterable[SingleShape]) -> None:
    """Raise InputError where a bracket of this tensor is infinite for every K.

    With kinks, one input and order 1/n, that is R, S, T and U, which average σ''σ'' or σ'σ''' at
    one z; with several inputs it is their components that repeat a sample.
    """
    for shape in shapes:
        check(shape)
        try:
            closed_forms.deltas(activation, shape.orders)
        except InputError:
            wanted = f"tensors that are finite: with the kinks of {activation}, {tensor} is not"
            raise InputError("tensors", tensor, f"{wanted}, for its {describe(shape)}") from None


def check_all_finite(steps: Mapping[str, Step], sigma: Callable[[str], Activation]) -> None:
    """`check_finite` of every tensor, by its name, with all samples equal: short brackets first.

    Recursions of equal samples are derived where σ has kinks: without, every bracket is finite.

    Arguments:
        sigma: the activation at the kernel of a bracket's label.
    """
    for tensor, step in steps.items():
        kernels = {bracket.kernel for bracket in step.atoms(Bracket)}
        smooth = not any(sigma(kernel).kinks for kernel in kernels)
        if smooth or step.through.batch is not None:  # by parts, those have no derivative of σ
            continue
        equal = replace(step, samples=(1,) * len(step.samples))
        found = sorted(equal.atoms(Bracket), key=lambda each: (len(each.factors), each))
        for kernel in sorted(kernels):
            own = (shape_of(each) for each in found if each.kernel == kernel)
            check_finite(tensor, sigma(kernel), own)


def check_finite_together(step: Step, sigma: Callable[[str], Activation]) -> None:
    """Raise InputError where a bracket is infinite for every K with these of its labels equal."""
    for bracket in step.atoms(Bracket):
        activation = sigma(bracket.kernel)
        for label in {label for label, _ in bracket.factors}:
            orders = tuple(sorted(order for at, order in bracket.factors if at == label))
            try:
                closed_forms.deltas(activation, orders)
            except InputError:
                tensor = step.target.identifier
                inputs = "".join(f"[{','.join(map(str, step.samples))}]")
                wanted = (
                    f"tensors that are finite: with the kinks of {activation}, {tensor}{inputs}"
                )
                factors = describe(SingleShape(orders))
                raise InputError("tensors", tensor, f"{wanted} is not, for its {factors}") from None


def check_kinks(steps: Sequence[Sequence[Step]], scheme: Scheme, default: Activation) -> None:
    """Refuse to write kinked σ of several inputs where a mean is taken off before σ: a module has
    one polynomial for all inputs, and there labels that meet at one have another."""
    for stage, of_stage in zip(scheme.stages, steps, strict=True):
        bent = not all(sigma.is_smooth for sigma in stage.sigmas(default))
        if bent and is_merged(stage, of_stage):
            wanted = "one input, or σ without kinks, where a mean is taken off before σ"
            raise InputError("layer", str(scheme.layer), f"{wanted}; `flow` has this one")


def is_merged(stage: Stage, steps: Iterable[Step]) -> bool:
    """True if kinked σ of several inputs need a recursion for each way in which labels coincide."""
    return bool(stage.means) and any(step.atoms(Bracket) for step in steps)
