"""Faults planted in `numeric.models`: each is found by the test that is named beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FACTORS, LAWS, MODELS = (
    f"tests/numeric/test_models{each}.py" for each in ("_factors", "_laws", "")
)

FAULTS = [
    ("graph.py", "bias_scale=factor * self.bias_scale", "bias_scale=self.bias_scale",
     FACTORS, "test_moving_factors and output"),
    ("factors.py", "eps=node.eps / factor**2", "eps=node.eps / factor",
     FACTORS, "test_moving_factors and norm"),
    ("drawn.py", "own = float(node.scale) ** 2 *", "own = float(node.scale) *",
     FACTORS, "test_moving_factors and function"),
    ("networks.py", "(node, laws) * square(", "(node, laws) + 0 * square(",
     FACTORS, "test_a_factor_counts and function"),
    ("laws.py", "C=by * self.C", "C=abs(factor) * self.C",
     FACTORS, "test_a_factor_is and output"),
    ("initializers.py", "2 * fan_in, out + fan_in)", "2 * fan_in, out + fan_in + 1)",
     LAWS, "test_a_named_law and Xavier"),
    ("tracing.py", "bias=bias.path, scale=factor * node.scale", "bias=bias.path",
     FACTORS, "test_a_factor_is and biases"),
    ("theory.py", 'if ending or "Theta" not in', 'if "Theta" not in',
     LAWS, "test_what_is_not_read and tanh"),
    ("theory.py", "own = [int(layer == at)", "own = [int(layer > at)",
     LAWS, "test_a_slope_behind"),
    ("theory.py", "scale:\n                changes[law] = changes.get(law, 0.0) +",
     "scale:\n                changes[law] =",
     MODELS, "test_an_error_that_matrices_share"),
]  # fmt: skip


HOST = """
import json, os, sys
import hypothesis, pytest, scipy.stats
import derivations.cli, derive, numeric, numeric.spectra.simulations, numeric.training.rates
numeric.compare, numeric.simulate, numeric.flow(derive.Network("tanh"), [1.0], 2, ["V", "Theta"])
assert not [name for name in sys.modules if name.startswith("numeric.models")]
out, sys.stdout = os.dup(1), open(os.devnull, "w")
os.dup2(sys.stdout.fileno(), 1)
for line in sys.stdin:
    tests, words = json.loads(line)
    if not (child := os.fork()):
        chosen = ["-k", words, "-m", "slow or not slow", "-p", "no:cacheprovider"]
        chosen += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        os._exit(pytest.main(["-q", "-x", *tests, *chosen]))
    os.write(out, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Imports all that the models need, once, and runs tests in a fork that imports the models."""


class Copy:
    """A copy of the source, and a process that runs tests of it."""

    def __init__(self, path):
        self.path = path
        for name in ("derive", "numeric", "derivations", "tests/samples", "tests/numeric"):
            shutil.copytree(ROOT / name, path / name)
        for name in ("pyproject.toml", "tests/conftest.py", "tests/long.txt", "tests/seconds.txt"):
            shutil.copy(ROOT / name, path / name)
        self.host = subprocess.Popen(
            [sys.executable, "-c", HOST],
            cwd=path,
            env=os.environ | {"PYTHONPATH": str(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests, words):
        """The exit code of these tests in the copy."""
        self.host.stdin.write(json.dumps([tests, words]) + "\n")
        self.host.stdin.flush()
        return int(self.host.stdout.readline())


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the source, where the tests pass."""
    made = Copy(tmp_path_factory.mktemp("copy"))
    with made.host:
        words = " or ".join(f"({each[-1]})" for each in FAULTS)
        assert made.run([FACTORS, LAWS, MODELS], words) == 0
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right", "wrong", "tests", "words"), FAULTS)
def test_a_planted_fault_is_found(name, right, wrong, tests, words, copy):
    path = copy.path / "numeric" / "models" / name
    source = path.read_text(encoding="utf-8")
    assert source.count(right) == 1
    try:
        path.write_text(source.replace(right, wrong), encoding="utf-8")
        assert copy.run([tests], words) == 1
    finally:
        path.write_text(source, encoding="utf-8")
