"""Steps by a tensor's name or its fields, through a layer or one of its stages; closed sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...activations.functions import Activation
from ...errors import InputError, as_integer, as_sequence
from ...gaussian.brackets import Bracket
from ...groups.pairings import Blocks
from ...weights import Gaussian, WeightEnsemble, as_weights
from ...work.progress import telling
from ..equations import Equation
from ..fields import AnyField, Field
from ..scheme import Layered, Scheme, group_of
from ..skips import is_skip
from ..stages import DENSE, Stage
from ..tensors import (
    FIRST_ORDER,
    MOST_ORDER,
    NAMES,
    Name,
    add_name,
    canonical,
    fields_by_name,
    in_order,
    named,
    target,
)
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


def closure(
    targets: Iterable[str | Name], scheme: Scheme, *, most_factors: int | None = None
) -> tuple[Name, ...]:
    """These tensors and all that their recursions need, the literature's names first.

    Raises:
        InputError: where a bracket of several inputs would have more factors σ than
            `most_factors`, if given, as for the kernels of a written module.
    """
    return closures(targets, [scheme], most_factors=most_factors)[0][-1]


def closures(
    targets: Iterable[str | Name],
    schemes: Sequence[Scheme],
    *,
    most_factors: int | None = None,
) -> tuple[tuple[tuple[Name, ...], ...], ...]:
    """The tensors behind each stage of each scheme's layer that these need.

    Those behind the last stage are the tensors of all layers alike, of which the steps of each
    first stage are made. Raises InputError as `closure`.
    """
    stream: dict[str, Name] = {}
    found: list[list[dict[str, Name]]] = [
        [*({} for _ in scheme.stages[1:]), stream] for scheme in schemes
    ]
    ends = [(k, len(scheme.stages) - 1) for k, scheme in enumerate(schemes)]
    wanted = [canonical(named(t) if isinstance(t, str) else t) for t in targets]
    pending = [((0, ends[0][1]), name) for name in wanted]
    asker = {name: name for name in wanted}
    with telling("deriving the tensors that are needed"):
        while pending:
            (k, stage), name = pending.pop()
            if not add_name(found[k][stage], name):
                continue
            for at in ends if found[k][stage] is stream else [(k, stage)]:
                scheme = schemes[at[0]]
                made = through(name, scheme, scheme.stages[at[1]])
                if most_factors is not None and not scheme.single:
                    _check_factors(made, most_factors, asker[name])
                before = (at[0], at[1] - 1) if at[1] else ends[at[0]]
                pending.extend((before, need) for need in made.needs)
                for need in made.needs:
                    asker.setdefault(need, asker[name])
    return tuple(tuple(map(_in_order, part)) for part in found)


def _in_order(found: dict[str, Name]) -> tuple[Name, ...]:
    """The literature's first, then the shortest labels."""
    ranked = sorted(in_order(found), key=lambda name: len(name.label) * (name.label not in NAMES))
    return tuple(ranked)


def read_through(
    names: Sequence[Name], scheme: Scheme
) -> tuple[tuple[Name, ...], tuple[tuple[Name, ...], ...]]:
    """The tensors of layer ℓ that these need behind the next layer, and those behind each stage."""
    found = [tuple(names)]
    for stage in reversed(scheme.stages):
        needs = {need for name in found[0] for need in through(name, scheme, stage).needs}
        found.insert(0, tuple(sorted(needs)))
    return found[0], tuple(found[1:])


def _check_factors(made: Step, most: int, asker: Name) -> None:
    """Of trees there is a bracket with a factor for each node, all at one neuron: known before."""
    name = made.target
    if all(isinstance(each, Field) for each in name.fields):
        factors = sum(each.nodes for each in name.fields)
    else:
        factors = max((len(each.factors) for each in made.atoms(Bracket)), default=0)
    if factors > most:
        got = asker.label if name == asker else f"{asker.label}, which needs {name.label}"
        wanted = f"one input, or tensors whose brackets have at most {most} factors, not {factors}"
        raise InputError("tensors", got, wanted)
