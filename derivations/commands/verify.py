"""What `wickgarten verify` does: random networks derived and sampled; what fails is made small."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from time import monotonic
from typing import TYPE_CHECKING

from derive.errors import InputError
from derive.work.progress import SLOW, say
from derive.work.resources import duration

if TYPE_CHECKING:
    from derive.weights import WeightEnsemble
    from numeric.examples import Example
    from numeric.verify import Check

EACH = 3.0
"""Processor seconds of an example, nearly all of them to compile its activation's kernels."""

_PARAMETERS = ("gamma", "ratio", "moments")


def arguments(command: argparse.ArgumentParser) -> None:
    """The options of `wickgarten verify`."""
    command.add_argument("--examples", type=int, default=25, help="random networks")
    command.add_argument("--seed", type=int, default=0, help="of the networks and their ensembles")
    command.add_argument("--only", type=int, metavar="K", help="example K alone")
    command.add_argument(
        "--width", type=int, nargs="+", default=[24, 48, 96], help="several n, divisible by 6"
    )
    command.add_argument("--draws", type=int, default=30_000, help="networks at each width")
    command.add_argument("--jobs", type=int, help="processes; by default one for each core")
    command.add_argument("--strict", action="store_true", help="a weak example is no success")


def run(options: argparse.Namespace) -> int:
    """Print each example's worst score, and of each failure the smallest network with a command
    that shows it; 1 if any fails, or with --strict is weak, else 0."""
    from numba import get_num_threads

    from numeric.examples import drawn
    from numeric.tables.compare import FALSE_ALARMS
    from numeric.verify import verify

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
        lines = textwrap.wrap(f"{number:3d}  {check}", 118, subsequent_indent=" " * 8)
        print("\n".join(lines), flush=True)
        spent, done = monotonic() - began, 1 if options.only else number
        if done < total and spent > SLOW:
            say(f"{done} of {total} examples, about {duration(spent / done * (total - done))} left")

    found = verify(
        [drawn(options.only, options.seed)] if options.only else options.examples,
        options.seed,
        widths=options.width,
        draws=options.draws,
        # an example alone meets the bound that it meets among all
        false_alarms=FALSE_ALARMS / (options.examples if options.only else 1),
        seen=show,
        jobs=jobs,
    )
    for check in found.smallest:
        print(f"\nthe smallest network that shows it:\n{check}\n{check.comparison}\nrepeat it with")
        print(f"    {command_line(check.example, options.width, options.draws)}\n")
    print(found.summary)
    return 0 if found.agrees and not (options.strict and found.weak) else 1


def command_line(example: Example, widths: list[int], draws: int) -> str:
    """The command that compares theory and ensembles for one drawn example."""
    net = example.net
    words = ["wickgarten", "simulate", "--compare", "--activation", net.activation.name]
    words += ["--weights", net.weights.name, *_parameters(net.weights)]
    if net.first_weights is not None:
        words += ["--first-weights", net.first_weights.name]
    words += ["--C_W", str(net.weights.C_W)]
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
