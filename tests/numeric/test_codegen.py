"""Emitted modules: standalone, readable, equal to the recursions they were made from."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import numba
import numpy as np
import pytest
import sympy
from sample_kernels import interpreted

from derive import Gaussian, Network, Orthogonal, activations, recursion
from derive.errors import InputError
from derive.gaussian import Shape
from numeric import flow, write_module
from numeric.brackets import quadrature
from numeric.layers import positions as roads

ONES = np.ones(4)


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("activation", [activations.tanh, activations.hard_tanh], ids=str)
def test_single_input_module_runs_the_recursion(activation, tmp_path):
    made = recursion("V", weights=Orthogonal()).single_input()
    module = imported(write_module(made, activation, tmp_path / f"v_{activation.name}.py"))
    assert module.TENSORS == ("K", "V")
    values = [{"C_W": 1.0, "C_b": 0.0, "r_big": 1.0}[name] * ONES for name in module.PARAMETERS]
    table = flow(Network(activation, Orthogonal()), np.ones(5), 4, ["K", "V"])
    out = module.flow(1.0, *values)
    np.testing.assert_allclose(out, np.stack([table["K"], table["V"]], axis=1), rtol=1e-13)


@pytest.mark.slow
def test_six_sample_indices(tmp_path):
    """U6 and what needs it, of two inputs.

    A module's averages are off by 2e^{−ACCURACY} of their size, and terms that cancel are tens of
    times it: sixty times that, beside the error that `flow` states.
    """
    activation, stated = activations.erf_unit_slope, 2.0 * np.exp(-quadrature.accuracy(2))
    made = [recursion("U6", weights=Gaussian())]
    path = write_module(made, activation, tmp_path / "six_erf.py")
    module = interpreted(path.read_text(encoding="utf-8"), "six_erf")
    inputs = np.random.default_rng(2).normal(size=(2, 7))
    table = flow(Network(activation, Gaussian(), C_b=0.05), inputs, 3, [*module.TENSORS], width=7)
    known = {"C_W": 1.0, "C_b": 0.05, "r_big": 1.0, "r_in": 1.0}
    values = [known[name] * np.ones(3) for name in module.PARAMETERS]
    for name, found in zip(
        module.TENSORS, module.flow(inputs @ inputs.T / 7, *values), strict=True
    ):
        size = np.abs(table[name]).max(table[name].dims[1:])
        errors = table[f"{name}_error"] + 60 * stated * size
        assert (np.abs(found - table[name]) <= errors).all(), name


def test_what_has_no_average_is_named(monkeypatch, tmp_path):
    """A nan never comes back from `flow`."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    module = imported(write_module(recursion("K"), activations.relu, tmp_path / "named.py"))
    K0 = np.array([[1.0, 0.5], [0.5, -1.0]])
    with pytest.raises(module.NotAveraged, match=r"K\[0, 1\] at layer 2 is nan"):
        module.flow(K0, np.ones(3), np.zeros(3))


@pytest.mark.parametrize("name", ["tanh", "relu", "elu"])
def test_modules_of_several_inputs_need_numpy_and_numba_alone(name, tmp_path):
    """They refuse an average over five inputs by themselves."""
    source = write_module(recursion("K"), name, tmp_path / "k.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE)) <= {
        *("__future__", "collections", "functools", "itertools", "math", "numba", "numpy", "typing")
    }
    module = interpreted(source, "several")
    (shape,) = re.findall(r"\(\(.*?\), \(.*?\)\),$", source, re.MULTILINE)[:1]
    assert shape == "((0, 0), (0, 0)),"
    with pytest.raises(module.NotAveraged, match="over 5 inputs"):
        module.check_inputs(5, "alike")


@pytest.mark.parametrize("factors", [4, 6])
def test_panels_reach_as_far_as_products_grow(factors):
    """Max(0, z)²/2 at two independent positions: (1·3·5…)/2^{n/2+1} each, to 2e-13; six factors at
    three positions, to 2e-10."""
    activation = activations.from_expr("Max(0, z)**2/2")
    shape = Shape((0,) * factors, (0,) * factors)
    for positions, bound in ((2, 2.2e-13), (3, 2.2e-10)):
        each, rest = divmod(factors, positions)
        if rest:
            continue
        K = np.kron(np.eye(positions), np.ones((each, each)))
        exact = (0.5 * float(sympy.factorial2(2 * each - 1)) / 2**each) ** positions
        ((value,),) = roads.averages(activation, [shape], K[None])
        assert abs(value / exact - 1) < bound


def test_averages_of_six_factors():
    """At three positions twice each: pairings for the identity; ReLU's at one z; five that are
    independent have none."""
    shape = Shape((0,) * 6, (0,) * 6)
    K = np.array([[1.0, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 2.0]])
    twice = np.repeat(np.repeat(K, 2, axis=0), 2, axis=1)
    for activation, at, expected in (
        (activations.linear, twice, wick(twice)),
        (activations.relu, np.full((6, 6), 3.0), 0.5 * wick(np.full((6, 6), 3.0))),
    ):
        assert roads.averages(activation, [shape], at[None]) == pytest.approx(expected, rel=1e-12)
        with pytest.raises(InputError, match="at most 4 inputs"):
            roads.averages(activation, [shape], np.eye(6)[None])


def wick(K):
    """⟨Π z_p⟩: a sum over pairings."""
    if not len(K):
        return 1.0
    rest = (np.delete(np.delete(K, [0, k], 0), [0, k], 1) for k in range(1, len(K)))
    return sum(each * wick(left) for each, left in zip(K[0, 1:], rest, strict=True))


def test_the_module_needs_numpy_and_numba_alone(tmp_path):
    path = write_module(
        recursion("V", weights=Orthogonal()).single_input(), activations.tanh, tmp_path / "v.py"
    )
    blocked = (
        "import sys, runpy\n"
        "for name in ('sympy', 'derive', 'numeric', 'scipy.special', 'mpmath'):\n"
        "    sys.modules[name] = None\n"
        f"runpy.run_path({str(path)!r}, run_name='__main__')\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=True
    ).stdout
    assert len(shown.splitlines()) == 11
    assert shown.splitlines()[1].split() == ["1", "1", "-2"]


def test_header_says_what_it_is(tmp_path):
    path = write_module(
        recursion("G1", weights=Orthogonal()).single_input(),
        activations.tanh,
        tmp_path / "g1.py",
        first_weights=Gaussian(),
    )
    head = path.read_text().split('"""')[1]
    assert "weights: Orthogonal; first layer: Gaussian" in head
    assert "tanh(z)" in head
    assert "V(1) = 0" in head
    assert "flow(K0, C_W, C_b" in head


def test_an_unwritable_path_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken"):
        write_module(recursion("K").single_input(), activations.tanh, tmp_path / "taken")
    assert not [file for file in tmp_path.iterdir() if file.is_file()]


@pytest.mark.parametrize(
    ("made", "activation", "match"),
    [
        ([], activations.tanh, "made"),
        ("V", activations.tanh, "made"),
        (recursion("V"), None, "activation"),
        (recursion("V", first_layer=True), activations.tanh, "made"),
        ([recursion("V"), recursion("K").single_input()], activations.tanh, "made"),
        ([recursion("V"), recursion("K", Orthogonal())], activations.tanh, "made"),
        (recursion("K").single_input(), activations.leaky_relu(sympy.Symbol("a")), "a"),
    ],
)
def test_bad_input(made, activation, match, tmp_path):
    with pytest.raises(InputError, match=match):
        write_module(made, activation, tmp_path / "x.py")


def test_first_weights_are_an_ensemble(tmp_path):
    with pytest.raises(InputError, match="first_weights"):
        write_module(recursion("V"), activations.tanh, tmp_path / "x.py", first_weights=np.array(3))


@pytest.mark.slow
def test_sources_do_not_depend_on_hashes(tmp_path):
    """What is compiled is kept by its text, which must be the same in every process."""
    code = (
        "import sys; from derive import recursion; from numeric import write_module;"
        "made = [recursion(name) for name in ('V', 'D', 'F')];"
        "write_module(made, 'linear', sys.argv[1])"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    here, there = tmp_path / "module.py", tmp_path / "there" / "module.py"
    there.parent.mkdir()
    subprocess.run(
        [sys.executable, "-c", code, str(there)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
    )
    write_module([recursion(name) for name in ("V", "D", "F")], "linear", here)
    assert here.read_text(encoding="utf-8") == there.read_text(encoding="utf-8")


def test_sources_do_not_depend_on_what_was_computed_before(monkeypatch, tmp_path):
    """sympy numbers its dummies, and sorts terms by their names as text: 999 after 1000."""
    texts = set()
    for k in range(12):
        monkeypatch.setattr(sympy.Dummy, "_count", 10 ** (20 + k) - k)
        path = write_module(recursion("K").single_input(), activations.tanh, tmp_path / "k.py")
        texts.add(path.read_text(encoding="utf-8"))
    assert len(texts) == 1


@pytest.mark.slow
def test_a_module_that_ran_as_a_script_is_not_taken_for_another(tmp_path):
    """Compiled code of two scripts must not meet under one name when both are imported."""
    ones, expected = np.ones(4), []
    for stem, activation in (("k1", activations.tanh), ("k2", activations.sin)):
        made = recursion("K", Gaussian()).single_input()
        path = write_module(made, activation, tmp_path / f"{stem}.py")
        module = interpreted(path.read_text(encoding="utf-8"), stem)
        expected.append(module.flow(1.0, ones, 0 * ones)[-1, 0])
    use = (
        "import numpy as np, k1, k2;"
        "print(*(k.flow(1.0, np.ones(4), np.zeros(4))[-1, 0] for k in (k1, k2)))"
    )

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, check=True, text=True
        ).stdout

    run("k1.py")
    run("k2.py")
    found = [float(each) for each in run("-c", use).split()]
    assert found == pytest.approx(expected, rel=1e-12)
    assert abs(found[0] - found[1]) > 1e-3
