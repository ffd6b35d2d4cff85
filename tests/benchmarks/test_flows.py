"""Twelve flows that users run, warm, and three first calls, beside those of another checkout.

    python tests/benchmarks/test_flows.py ../earlier [a part of a flow's name]
    python -m pytest tests/benchmarks/test_flows.py --benchmark-only --against ../earlier

Each checkout runs in a process of its own, and the two take turns: whatever else the machine does
meets both. The least wall time and the least processor time of all turns are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS = 7
TURN = 0.3
"""Seconds of one turn, about: a short flow is called several times in it."""

METRIC = ["K", "G1", "V"]
TOWER = [*METRIC, "Theta", "D", "F", "A", "B", "Theta1"]


class Flow(NamedTuple):
    """The source of a network, the shape of its inputs, and the other arguments of `flow`."""

    net: str
    shape: tuple[int, ...]
    depth: int
    tensors: list[str]
    precision: int | None = None


FLOWS = {
    "one input, 1000 layers": Flow("Network('tanh', C_b=0.1)", (50,), 1000, METRIC),
    "four inputs, 30 layers": Flow("Network('tanh', C_b=0.1)", (4, 50), 30, METRIC),
    "tower, two inputs": Flow("Network('tanh', Orthogonal(), C_b=0.1)", (2, 50), 30, TOWER),
    "tower with ddH, two inputs": Flow("Network('gelu', C_b=0.1)", (2, 50), 30, [*"PQRSTU"]),
    "30 digits, two inputs": Flow("Network('tanh', C_b='1/10')", (2, 50), 10, METRIC, 30),
    "residual, three inputs": Flow(
        "Network('gelu', layer=layers.residual(skip=1, norm='rms'))", (3, 50), 30, METRIC
    ),
    "gated, three inputs": Flow(
        "Network('gelu', layer=layers.gated(skip=1, norm='rms'))", (3, 50), 30, METRIC
    ),
    "norm, tower, two inputs": Flow(
        "Network('tanh', Orthogonal(), layer=layers.normalized('layer'))", (2, 50), 30, TOWER
    ),
    "convolution, six positions": Flow(
        "Network('tanh', C_b=0.1, layer=layers.convolution(3, 6))", (6, 50), 8, ["K", "V"]
    ),
    "dropout and norm by depth": Flow(
        "Network('gelu', layer=layers.by_depth('dense', ('dropout(4/5)', 'normalized(rms)'), "
        "'residual(norm=rms)'))",
        (2, 50),
        30,
        METRIC,
    ),
    "skip, two inputs": Flow("Network('tanh', layer=layers.skip('1/2'))", (2, 50), 8, METRIC),
    "ReLU, eight inputs": Flow("Network('relu', Gaussian(2))", (8, 50), 20, METRIC),
}
FIRST = ["four inputs, 30 layers", "tower, two inputs", "residual, three inputs"]

_PROGRAM = """\
import json
import sys
import time

import derive
import numpy as np
from derive import Gaussian, Network, Orthogonal, layers
from numeric import flow

net = {0.net}
x = np.random.default_rng(0).standard_normal({0.shape})
print(derive.__file__, flush=True)
for line in sys.stdin:
    calls = int(line)
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(calls):
        flow(net, x, {0.depth}, {0.tensors}, precision={0.precision})
    spent = time.perf_counter() - wall, time.process_time() - processor
    print(json.dumps([each / calls for each in spent]), flush=True)
"""


class Seconds(NamedTuple):
    """Of one call: by the clock, and of the processor, all threads together."""

    wall: float
    processor: float


class Runner:
    """A process that flows with the code of one checkout, when it is told to."""

    def __init__(self, case: Flow, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(case)],
            cwd=root,
            env=os.environ
            | {"PYTHONPATH": str(root), "WICKGARTEN_QUIET": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert Path(self._line()).is_relative_to(root)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def __call__(self, calls: int = 1) -> Seconds:
        """The seconds of one of so many calls in a row."""
        assert self.process.stdin is not None
        print(calls, file=self.process.stdin, flush=True)
        return Seconds(*json.loads(self._line()))

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()


Measure = Callable[[Flow, list[Path], int], list[Seconds]]
"""The least seconds of a flow in each of these checkouts, in so many rounds."""


def least(rounds: list[list[Seconds]]) -> list[Seconds]:
    """By the clock and of the processor, of each checkout."""
    return [Seconds(*map(min, zip(*each, strict=True))) for each in zip(*rounds, strict=True)]


def warm(case: Flow, roots: list[Path], rounds: int) -> list[Seconds]:
    """Of calls after the first."""
    with ExitStack() as stack:
        runners = [stack.enter_context(Runner(case, root)) for root in roots]
        for each in runners:
            each()
        calls = ceil(TURN / max(each().wall for each in runners))
        return least([[each(calls) for each in runners] for _ in range(rounds)])


def first(case: Flow, roots: list[Path], rounds: int) -> list[Seconds]:
    """Of the first calls of new processes, after the imports."""

    def call(root: Path) -> Seconds:
        with Runner(case, root) as runner:
            return runner()

    return least([[call(root) for root in roots] for _ in range(rounds)])


CASES: dict[str, tuple[Measure, Flow]] = {
    **{name: (warm, case) for name, case in FLOWS.items()},
    **{f"first call: {name}": (first, FLOWS[name]) for name in FIRST},
}


@pytest.mark.parametrize("name", CASES)
def test_flow(benchmark, request, name):
    against = request.config.getoption("--against", default=None)
    measure, case = CASES[name]
    benchmark.group = f"flow, {name}"
    roots = [ROOT] if against is None else [ROOT, Path(against).resolve()]
    found = benchmark.pedantic(measure, (case, roots, ROUNDS), rounds=1)
    benchmark.extra_info["seconds"] = found
    if against is not None:
        benchmark.extra_info["against"] = commit(roots[1])


def commit(root: Path) -> str:
    """The commit of a checkout, in short."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(other: Path, part: str = "") -> None:
    """Print a table of both checkouts, flow by flow."""
    there = commit(other)
    head = ("flow", "here", f"at {there}", "ratio", "processor, here", f"at {there}", "ratio")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    for name, (measure, case) in CASES.items():
        if part in name:
            here, before = measure(case, [ROOT, other], ROUNDS)
            cells = [f"{a:.4f} | {b:.4f} | {a / b:.2f}" for a, b in zip(here, before, strict=True)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
