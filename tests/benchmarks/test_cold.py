"""First calls: new processes with an empty cache, in which every kernel is still to be compiled.

`processor` is the least of some runs' processor seconds, all threads together, of what comes after
the imports; `imports` those of the imports. Beside it stand the seconds that are `wanted`, and the
`earlier` ones.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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


def measured(benchmark, tmp_path, imports, call, row):
    """The benchmark of a first call: each round a process with an empty cache of its own."""
    found: list[dict[str, float]] = []

    def run():
        cache = tmp_path / str(len(found))
        cache.mkdir()
        found.append(cold(imports, call, cache))
        assert any(cache.glob("*.py")) == row.compiles  # it was this cache that the process used

    benchmark.pedantic(run, rounds=ROUNDS, iterations=1)
    benchmark.extra_info["processor"] = min(each["call"] for each in found)
    benchmark.extra_info["imports"] = min(each["imports"] for each in found)
    benchmark.extra_info["all"] = min(each["all"] for each in found)
    benchmark.extra_info["wanted"] = row.wanted
    benchmark.extra_info["earlier"] = row.earlier


class Row(NamedTuple):
    """A first call: seconds that are wanted, those of commit 387d053 on two shared cores, if it had
    that call, and whether anything is compiled, and so kept in the cache."""

    wanted: float
    earlier: float | None
    compiles: bool = True


IMPORTS = """\
import numpy as np
import derive, numeric
from derive import Gaussian, Network, Orthogonal, activations
"""
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", *"ABPQRSTU"]
SIMULATED = {
    "V, orthogonal": ("Orthogonal(1)", ["V"], Row(2, 7.0)),
    "V, Gaussian": ("Gaussian(1)", ["V"], Row(2, 7.1)),
    "the tower, orthogonal": ("Orthogonal(1)", TOWER, Row(2, 8.3)),
    "the tower, Gaussian": ("Gaussian(1)", TOWER, Row(2, 8.7)),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_first_simulation(benchmark, tmp_path, case):
    """tanh, one input, n = 100, 10 layers, 1000 networks."""
    weights, tensors, row = SIMULATED[case]
    benchmark.group = f"first simulate of {case}"
    call = f"""\
x = np.random.default_rng(0).standard_normal(100)
net = Network(activations.tanh, {weights})
numeric.simulate(net, x, width=100, depth=10, draws=1000, tensors={tensors!r})
"""
    measured(benchmark, tmp_path, IMPORTS, call, row)


def test_first_attention(benchmark, tmp_path):
    """K of 8 tokens, 8 heads, n = 512, 10 layers, 64 networks."""
    benchmark.group = "first simulate of attention"
    call = """\
x = np.random.default_rng(0).standard_normal((8, 512))
layer = layers.attention(8, 8, scores="1/sqrt(d)", norm="rms")
net = Network("linear", Gaussian(), layer=layer)
numeric.simulate(net, x, width=512, depth=10, draws=64, tensors="K")
"""
    measured(benchmark, tmp_path, f"{IMPORTS}from derive import layers\n", call, Row(10, None))


METRIC = ["K", "G1", "V"]
FLOWED = {
    "V, one input": ("tanh", 1, ["V"], Row(1, 1.8, compiles=False)),
    "the tower, one input": ("tanh", 1, TOWER, Row(1, 3.4, compiles=False)),
    "K, G1, V, two inputs": ("tanh", 2, METRIC, Row(1, 9.0, compiles=False)),
    "K, G1, V, four inputs": ("tanh", 4, METRIC, Row(1, 9.3, compiles=False)),
    "K, G1, V, four inputs, ReLU": ("relu", 4, METRIC, Row(1, 18.7, compiles=False)),
    "the tower, two inputs": ("tanh", 2, TOWER, Row(1, 33.2, compiles=False)),
    "A, B, D, F, four inputs": ("tanh", 4, [*"ABDF"], Row(1, 18.8, compiles=False)),
}


def flowed(sigma, inputs, tensors):
    """Source of a flow down ten layers, Gaussian weights."""
    return f"""\
x = np.random.default_rng(0).standard_normal(({inputs}, 100))
net = Network(activations.{sigma}, Gaussian({2 if sigma == "relu" else 1}))
numeric.flow(net, x[0] if len(x) == 1 else x, depth=10, tensors={tensors!r})
"""


@pytest.mark.parametrize("case", FLOWED)
def test_first_flow(benchmark, tmp_path, case):
    """tanh but where it says ReLU, ten layers."""
    sigma, inputs, tensors, row = FLOWED[case]
    benchmark.group = f"first flow of {case}"
    measured(benchmark, tmp_path, IMPORTS, flowed(sigma, inputs, tensors), row)


def test_second_tensors(benchmark, tmp_path):
    """Θ, D and F of two inputs, where K, G1 and V of the same network have flowed before."""
    benchmark.group = "flow of Theta, D, F, two inputs, after K, G1, V"
    before = IMPORTS + flowed("tanh", 2, METRIC)
    call = flowed("tanh", 2, ["Theta", "D", "F"])
    measured(benchmark, tmp_path, before, call, Row(0.5, 10.9, compiles=False))


def test_import(benchmark, tmp_path):
    """Both rooms."""
    benchmark.group = "import derive; import numeric"
    call = "import derive; import numeric"
    measured(benchmark, tmp_path, "", call, Row(0.5, 1.1, compiles=False))


def test_first_report(benchmark, tmp_path):
    """Of a policy 11-256-256-3 of torch, after the import of torch."""
    pytest.importorskip("torch")
    benchmark.group = "first report of a policy 11-256-256-3"
    call = """\
sizes = [(11, 256), (256, 256), (256, 3)]
parts = [each for pair in sizes for each in (torch.nn.Linear(*pair), torch.nn.Tanh())]
x = np.random.default_rng(0).standard_normal((2, 11))
numeric.models.report(torch.nn.Sequential(*parts[:-1]), x)
"""
    imports = f"{IMPORTS}import torch\n"
    measured(benchmark, tmp_path, imports, call, Row(10, None, compiles=False))
