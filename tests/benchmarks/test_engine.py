"""How long a derivation takes, cold: recursions, and a kernel from nothing to its first number."""

from __future__ import annotations

import subprocess
import sys

import pytest

from derive import Gaussian, Orthogonal, clear_caches, recursion
from derive.engine import FIRST_ORDER


@pytest.mark.parametrize("name", ["K", "G1", "V", "Theta1", "A"])
def test_recursion_multi_input(benchmark, name):
    def derive():
        return recursion(name, weights=Orthogonal()).expr

    assert benchmark.pedantic(derive, setup=clear_caches, rounds=5) != 0


def test_all_of_first_order_multi_input_both_ensembles(benchmark):
    def derive():
        made = [recursion(name, each()) for name in FIRST_ORDER for each in (Gaussian, Orthogonal)]
        return sum(len(each.terms) for each in made)

    assert benchmark.pedantic(derive, setup=clear_caches, rounds=3) > 0


@pytest.mark.parametrize("name", ["V2", "U6", "Theta2", "kappa(z,z,z,z,H|01 24 35)"])
def test_next_order_multi_input(benchmark, name):
    def derive():
        return recursion(name, weights=Orthogonal()).terms

    assert benchmark.pedantic(derive, setup=clear_caches, rounds=1)


@pytest.mark.parametrize(
    "layer",
    [
        "normalized(rms, eps=eps)",
        "normalized(layer, eps=eps)",
        "residual(skip=gamma, norm=rms, eps=eps)",
        "residual(skip=gamma, norm=layer, eps=eps)",
        "gated(norm=layer)",
        "gated(skip=gamma, norm=layer, eps=eps)",
        "skip(gamma, norm=rms)",
        "convolution(3, 8, norm=layer, eps=eps)",
    ],
)
def test_vertex_and_mean_of_a_layer(benchmark, layer):
    """V and G1 of several inputs, stage put into stage."""

    def derive():
        return [recursion(name, Orthogonal(), layer=layer).expr for name in ("V", "G1")]

    assert all(benchmark.pedantic(derive, setup=clear_caches, rounds=3))


COLD = """
from derive import Orthogonal, activations, recursion
from numeric import write_module
made = recursion("V", weights=Orthogonal()).single_input()
path = write_module(made, activations.tanh, "vkernel.py")
import runpy
runpy.run_path(str(path), run_name="__main__")
"""


def test_single_input_tanh_to_a_compiled_kernel_in_a_new_process(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.chdir(tmp_path)

    def run():
        return subprocess.run(
            [sys.executable, "-c", COLD], capture_output=True, text=True, check=True
        ).stdout

    assert "-2" in benchmark.pedantic(run, rounds=1)
