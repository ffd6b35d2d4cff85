"""The command `wickgarten verify`: random networks derived and sampled; failures are made small."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from derive.errors import InputError
from derive.work.progress import SLOW, say
from derive.work.resources import duration

from ..files import write_text
from . import rows

if TYPE_CHECKING:
    from derivations.verify import Check
    from derive.weights import WeightEnsemble
    from numeric.examples import Example

EACH = 2.4
"""Processor seconds of an example, nearly all of them to compile its activation's kernels."""

_HEADER = ("example", "tensor", "layer", "theory", "sample", "se", "z")
_PARAMETERS = ("gamma", "ratio", "moments")


def arguments(command: argparse.ArgumentParser) -> None:
    """The options of `wickgarten verify`."""
    command.add_argument("--examples", type=int, default=25, help="random networks")
    command.add_argument("--seed", type=int, default=0, help="of the networks and their ensembles")
    command.add_argument("--only", type=int, metavar="K", help="example K alone")
    command.add_argument(
        "--width", type=int, nargs="+", help="several n, divisible by 6; 24 48 96 by default"
    )
    command.add_argument("--draws", type=int, default=30_000, help="networks at each width")
    rows.arguments(command, json="example by example")
    command.add_argument("--jobs", type=int, help="processes; by default one for each core")
    command.add_argument("--strict", action="store_true", help="a weak example is no success")


def run(options: argparse.Namespace) -> int:
    """Print each example's worst score, and of each failure the smallest network with a command
    that shows it; 1 if any fails, or with --strict any is weak; else 0.
    """
    from numba import get_num_threads

    from derivations.verify import WIDTHS, verify
    from numeric.examples import drawn
    from numeric.tables.compare import FALSE_ALARMS

    if options.only is not None and not 1 <= options.only <= options.examples:
        raise InputError("--only", options.only, f"1 to {options.examples}, the examples")
    numbers = iter([options.only] if options.only else range(1, options.examples + 1))

    began, total = monotonic(), 1 if options.only else options.examples
    jobs = min(total, int(get_num_threads())) if options.jobs is None else options.jobs
    if total > 1 and jobs > 0:
        estimate = duration(EACH * total / min(jobs, total))
        say(f"verifying {total} examples, about {estimate} if nothing is compiled yet")

    def show(check: Check) -> None:
        number = next(numbers)
        print(textwrap.fill(f"{number:3d}  {check}", 118, subsequent_indent=" " * 8), flush=True)
        spent, done = monotonic() - began, 1 if options.only else number
        if done < total and spent > SLOW:
            say(f"{done} of {total} examples, about {duration(spent / done * (total - done))} left")

    found = verify(
        [drawn(options.only, options.seed)] if options.only else options.examples,
        options.seed,
        widths=options.width or WIDTHS,
        draws=options.draws,
        # an example alone meets the bound that it meets among all
        false_alarms=FALSE_ALARMS / (options.examples if options.only else 1),
        seen=show,
        jobs=jobs,
    )
    for check in found.smallest:
        print(f"\nthe smallest network that shows it:\n{check}\n{check.comparison}\nrepeat it with")
        print(f"    {command_line(check.example, check.comparison.widths, check.draws)}\n")
    print(found.summary)
    numbers_ = (
        (number, row.name, row.layer, row.theory, row.sample, row.se, row.z)
        for number, check in enumerate(found.checks, 1)
        for row in check.comparison.rows
    )
    rows.are_written(options, _HEADER, numbers_, ["csv"])
    if options.json is not None:
        write_text(
            json.dumps(found.as_json(), indent=1, ensure_ascii=False), options.json, "--json"
        )
    return 0 if found.agrees and not (options.strict and found.weak) else 1


def command_line(example: Example, widths: Sequence[int], draws: int) -> str:
    """The command that compares theory and ensembles for one drawn example."""
    net = example.net
    law = net.one_law("a command")
    words = ["wickgarten", "simulate", "--compare", "--activation", net.activation.name]
    words += ["--weights", law.name, *_parameters(law)]
    if net.first_weights is not None:
        words += ["--first-weights", net.first_weights.name]
    words += ["--C_W", str(law.C_W)]
    for name in ("C_b", "lambda_W", "lambda_b"):
        words += [f"--{name}", str(getattr(net, name))]
    if not net.layer.is_dense:
        words += ["--layer", str(net.layer)]
    shape = ":".join(map(str, reversed(example.inputs.shape)))
    words += ["--input", f"random:{example.seed}:{shape}", "--depth", str(example.depth)]
    words += ["--tensors", ",".join(map(str, example.tensors))]
    words += ["--width", *map(str, widths), "--draws", str(draws), "--seed", str(example.seed)]
    return shlex.join(words)


def _parameters(weights: WeightEnsemble) -> list[str]:
    """The options of an ensemble beyond C_W."""
    words = []
    for name in _PARAMETERS:
        value = getattr(weights, name, None)
        if value is not None:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words += [f"--{name}", text]
    return words
