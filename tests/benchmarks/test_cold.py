"""First calls: new processes with an empty cache, in which every kernel is still to be compiled.

`processor` is the least of some runs' processor seconds, all threads together, of what comes after
the imports; `imports` those of the imports.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS = 2

_PROGRAM = """\
import json
import resource

def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

before = spent()
{imports}
after = spent()
{call}
print(json.dumps({{"imports": after - before, "call": spent() - after}}))
"""


def cold(imports: str, call: str, cache: Path) -> dict[str, float]:
    """Processor seconds of a new process whose cache of compiled code is this empty folder.

    Returns:
        `imports` and `call`, in turn as the process counts them itself, and `all`, as its parent
        does: with the interpreter's own start and end.
    """
    environment = os.environ | {
        "WICKGARTEN_CACHE": str(cache),
        "WICKGARTEN_QUIET": "1",
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = _PROGRAM.format(imports=imports, call=call)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, float] = json.loads(done.stdout)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found | {"all": total}


def measured(benchmark, tmp_path, imports, call):
    """The benchmark of a first call: each round a process with an empty cache of its own."""
    found: list[dict[str, float]] = []

    def run():
        cache = tmp_path / str(len(found))
        cache.mkdir()
        found.append(cold(imports, call, cache))
        assert any(cache.glob("*.py"))  # it was this cache that the process used

    benchmark.pedantic(run, rounds=ROUNDS, iterations=1)
    benchmark.extra_info["processor"] = min(each["call"] for each in found)
    benchmark.extra_info["imports"] = min(each["imports"] for each in found)
    benchmark.extra_info["all"] = min(each["all"] for each in found)


SIMULATE = """\
import numpy as np
import derive, numeric
from derive import Gaussian, Network, Orthogonal, activations
"""
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", *"ABPQRSTU"]
SIMULATED = {
    "V, orthogonal": ("Orthogonal(1)", ["V"]),
    "V, Gaussian": ("Gaussian(1)", ["V"]),
    "the tower, orthogonal": ("Orthogonal(1)", TOWER),
    "the tower, Gaussian": ("Gaussian(1)", TOWER),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_first_simulation(benchmark, tmp_path, case):
    """tanh, one input, n = 100, 10 layers, 1000 networks."""
    weights, tensors = SIMULATED[case]
    benchmark.group = f"first simulate of {case}"
    call = f"""\
x = np.random.default_rng(0).standard_normal(100)
net = Network(activations.tanh, {weights})
numeric.simulate(net, x, width=100, depth=10, draws=1000, tensors={tensors!r})
"""
    measured(benchmark, tmp_path, SIMULATE, call)
