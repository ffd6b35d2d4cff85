"""Steps by a tensor's name or its fields: through a layer, or through one of its stages."""

from __future__ import annotations

from collections.abc import Sequence

from ...activations.functions import Activation
from ...errors import InputError, as_integer, as_sequence
from ...groups.pairings import Blocks
from ...weights import Gaussian, WeightEnsemble, as_weights
from ..equations import Equation
from ..fields import AnyField, Field
from ..scheme import Layered, Scheme, group_of
from ..skips import is_skip
from ..stages import DENSE, Stage
from ..tensors import FIRST_ORDER, MOST_ORDER, NAMES, Name, canonical, fields_by_name, named, target
from ..trees import STREAM
from .derived import Step


def step(
    tensor_name: str | Name | Sequence[str | AnyField],
    weights: WeightEnsemble | str | None = None,
    *,
    pairing: Blocks | str | None = None,
    order: int = 0,
    activation: Activation | str | None = None,
    equal_widths: bool | None = None,
    corrections: int | None = None,
    layer: Layered | None = None,
    stage: Stage | None = None,
    group: str | None = None,
) -> Step:
    """Derive a recursion; `derive.recursion`, which users call, explains the arguments.

    Arguments:
        stage: the one stage to lead through, of the layer or another; by default all of the
            layer's.

    Raises:
        InputError: unknown tensor or field, an odd number of neural indices, an ambiguous pairing.
    """
    given = {"weights": weights, "equal_widths": equal_widths, "corrections": corrections}
    weights = Gaussian() if weights is None else as_weights("weights", weights)
    equal_widths = True if equal_widths is None else equal_widths
    parts = f"how many 1/n parts C_W and C_b have, 0 to {MOST_ORDER}"
    corrections = (
        0 if corrections is None else as_integer("corrections", corrections, 0, MOST_ORDER, parts)
    )
    wanted_order = f"a relative order in 1/n, 0 to {MOST_ORDER}"
    order = as_integer("order", order, 0, MOST_ORDER, wanted_order)
    chosen, inside = _chosen(tensor_name, pairing, order, layer)
    samples = tuple(range(1, len(chosen.subscripts) + 1))
    left_out = frozenset(name for name, value in given.items() if value is None)
    if layer is not None:
        _check_closed(chosen, layer)
    alone = stage or inside or (DENSE if layer is None else None)
    numbers = equal_widths, corrections, left_out
    own = group_of(weights, layer)
    group = own if own != "O" or group is None else group
    made = Step(chosen, weights, samples, None, *numbers, layer, alone, group=group)
    return made if activation is None else made.specialise(activation)


def check_alone(pairing: Blocks | str | None, order: int) -> None:
    """Raise InputError for a pairing or an order beside a tensor's name, which implies both."""
    if pairing is not None or order:
        raise InputError(
            "pairing, order", (pairing, order), "neither: the tensor's name implies both"
        )


def _chosen(
    tensor_name: str | Name | Sequence[str | AnyField],
    pairing: Blocks | str | None,
    order: int,
    layer: Layered | None,
) -> tuple[Name, Stage | None]:
    """The tensor, and of a layer's own variable the stage that makes it."""
    if not isinstance(tensor_name, str | Name):
        return target(checked_fields(tensor_name), pairing, order), None
    check_alone(pairing, order)
    if isinstance(tensor_name, Name):
        return tensor_name, None
    return _inside(tensor_name, layer) or (named(tensor_name), None)


def _check_closed(name: Name, layer: Layered) -> None:
    """Raise InputError for all but means, of a layer whose law only permutations keep."""
    if layer.is_rotation_invariant or (not name.order and len(name.pairing) <= 1):
        return
    wanted = f"K or Theta with the layer {layer}, whose law only permutations keep: "
    if str(name) in FIRST_ORDER and is_skip(layer.stages):
        wanted += "this one closes on sequences, by `recursion` and `flow` alone"
        if any(field.nodes > 2 for field in name.fields):
            wanted += ", without a norm"
    else:
        wanted += "cumulants with every power of z enter, and are not derived"
    raise InputError("tensors", str(name), wanted)


def _inside(label: str, layer: Layered | None) -> tuple[Name, Stage] | None:
    """The tensor of a layer's own variable, such as V_y, and the stage that makes it."""
    plain, _, own = label.partition("_")
    for stage in layer.stages if layer is not None and own else ():
        for kind, _ in stage.equations:
            if kind.name == own and kind != STREAM and plain in NAMES:
                name = NAMES[plain]
                trees = [each for each in name.fields if isinstance(each, Field)]
                fields = [Field(each.nodes, each.edges, (kind,) * each.nodes) for each in trees]
                return canonical(target(fields, name.pairing, name.order)), stage
    return None


def through(name: Name, scheme: Scheme, stage: Stage | None = None) -> Step:
    """The tensor's step through one stage of the scheme's layer, by default through all."""
    made = step(
        name,
        scheme.weights,
        equal_widths=scheme.equal_widths,
        corrections=scheme.corrections,
        layer=scheme.layer,
        stage=stage or next(iter(scheme.stem), None),
        group=scheme.group,
    )
    return made.single_input() if scheme.single else made


def checked_fields(given: Sequence[str | AnyField]) -> list[AnyField]:
    """Fields by their names, or as they are; InputError for anything else."""
    found: list[AnyField] = []
    wanted = 'a tensor\'s name, or a list of fields such as ["z", "z", "H"]'
    for each in as_sequence("tensor_name", given, wanted):
        if not isinstance(each, str | Field | Equation):
            raise InputError("fields", each, "a field's name, a Field, or an Equation")
        found.append(fields_by_name([each])[0] if isinstance(each, str) else each)
    return found
