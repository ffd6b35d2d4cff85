"""From derived recursions to a standalone numba module.

    write_module(recursion("V", weights=Orthogonal()), activations.tanh, "vkernel.py")

The module needs numpy and numba alone. It holds the activation's Gaussian brackets, one step of
each recursion, the first layer, and a loop over layers; run as a script it prints a table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from derive.activations.functions import Activation, z
from derive.engine.step import closures, through
from derive.engine.tensors import Name
from derive.errors import InputError, as_sequence, instance
from derive.layers.chain import Activations, GivenActivations
from derive.network import Pattern
from derive.recursions import Recursion
from derive.weights import WeightEnsemble
from derive.work.progress import telling

from ..brackets.shapes import MAX_POSITIONS, check_all_finite, check_kinks
from ..emit import outputs
from .one_input import SingleModule
from .several_inputs import MultiModule

_SHARED = "weights", "equal_widths", "is_single_input", "layer", "along"
"""The parts that the recursions of one module share."""


def write_module(
    made: Recursion | Sequence[Recursion],
    activation: GivenActivations | None = None,
    path: str | os.PathLike[str] = "kernel.py",
    first_weights: WeightEnsemble | None = None,
) -> Path:
    """Write a standalone numba module that runs these recursions, and all they depend on.

    Arguments:
        made: from `derive.recursion`; single-input ones give scalar kernels, multi-input ones
            arrays T[a, b, …] over samples.
        activation: σ or its name, where the recursion is not specialised already; or those of a
            network, "tanh; gelu*", of which some repeat.
        path: the file, written whole or not at all.
        first_weights: the ensemble of layer 1, where it is another than the recursion's.

    The module has `first_layer`, `next_layer`, `layers`, `flow`, `means` and `PARAMETERS`, and says
    in its docstring how to call them. If layers differ, as of a recursion with layer="dense;
    residual*", it has `next_layer_1`, `next_layer_2`, …, and `flow` takes each at its depth.
    `first_layer` and `flow` begin with the means of the inputs x that layer 1 depends on, which
    `means(x)` computes: K0 = x·x/n_0 for rotation-invariant weights. Other weights may need
    M4 = Σ_k x_k⁴/n_0 (of several inputs the means of all products of four entries) and, beyond
    order 1/n, M6 and so on. Means that no inputs have raise a ValueError. Returns the path. The
    equations are derived here, from source 000, eqs. (3.1)–(3.8).

    Raises:
        InputError: for recursions that do not go together, for an activation with no kernel, and
            for a path whose directory is not there, or whose name no module can have.

    >>> import tempfile
    >>> from derive import activations, recursion
    >>> made = recursion("V").single_input()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_module(made, activations.tanh, f"{folder}/vkernel.py")
    ...     "def next_layer" in path.read_text(encoding="utf-8")
    True
    """
    outputs.check_module(path)
    with telling("writing a module"):
        return outputs.write(planned(made, activation, first_weights).text(), path)


def planned(
    made: Recursion | Sequence[Recursion],
    activation: GivenActivations | None,
    first_weights: WeightEnsemble | None,
) -> SingleModule | MultiModule:
    """The module to print; arguments and errors of `write_module`."""
    single = [made] if isinstance(made, Recursion) else made
    recursions = as_sequence("made", single, "a Recursion, or several")
    if not recursions or not all(isinstance(each, Recursion) for each in recursions):
        raise InputError("made", made, "a Recursion, or several")
    head = recursions[0]
    first = head.weights if first_weights is None else first_weights
    instance(
        "first_weights", first, WeightEnsemble, "a weight ensemble such as Orthogonal(), or None"
    )
    given = Activations.given(head.activation if activation is None else activation)
    wanted = "recursions of hidden layers with the same weights, layer, inputs and widths"
    for each in recursions:
        each.check_repeats("made", each, wanted)
        if any(getattr(each, name) != getattr(head, name) for name in _SHARED):
            raise InputError("made", each, wanted)
    most = max(recursions, key=lambda each: each.corrections)
    pattern = most.pattern(given, first)
    for scheme in pattern.distinct:
        scheme.check_numbers()
        scheme.check_positions("written modules of signals")
        _check_known(scheme.sigma)
    targets = ["K", *(each.target for each in recursions)]
    closed = closures(targets, pattern.distinct, most_factors=MAX_POSITIONS)
    return _planned(closed, pattern, first)


def _check_known(activation: Activation) -> None:
    if activation.expr.free_symbols - {z}:
        raise InputError("activation", activation.name, "numbers for all of its parameters")


def _planned(
    names: Sequence[Sequence[Sequence[Name]]], pattern: Pattern, first: WeightEnsemble
) -> SingleModule | MultiModule:
    """The module of these tensors behind each stage of each distinct layer."""
    start = pattern.distinct[0].first(first)
    (at_first,), *layers = (
        [
            {name.identifier: through(name, scheme, stage) for name in behind}
            for stage, behind in zip(scheme.stages, of_layer, strict=True)
        ]
        for scheme, of_layer in ((start, names[0][-1:]), *zip(pattern.distinct, names, strict=True))
    )
    for scheme, stages in zip(pattern.distinct, layers, strict=True):
        for stage, steps in zip(scheme.stages, stages, strict=True):
            check_all_finite(steps, partial(stage.sigma_at, default=scheme.sigma))
        if not scheme.single:
            check_kinks([list(steps.values()) for steps in stages], scheme, scheme.sigma)
    emit = SingleModule if start.single else MultiModule
    return emit(layers, at_first, pattern, first)
