"""Tensors, with all that their recursions need: closed sets of names, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import InputError
from ...gaussian.brackets import Bracket
from ...work.progress import telling
from ..fields import Field
from ..scheme import Scheme
from ..tensors import NAMES, Name, add_name, canonical, named
from .derived import Step
from .named import through


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


def read_through(
    names: Sequence[Name], scheme: Scheme
) -> tuple[tuple[Name, ...], tuple[tuple[Name, ...], ...]]:
    """The tensors of layer ℓ that these need behind the next layer, and those behind each stage."""
    found = [tuple(names)]
    for stage in reversed(scheme.stages):
        needs = {need for name in found[0] for need in through(name, scheme, stage).needs}
        found.insert(0, tuple(sorted(needs)))
    return found[0], tuple(found[1:])


def _in_order(found: dict[str, Name]) -> tuple[Name, ...]:
    known = [name for label, name in NAMES.items() if label in found]
    others = sorted(found.keys() - NAMES.keys(), key=lambda label: (len(label), label))
    return (*known, *(found[label] for label in others))


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
