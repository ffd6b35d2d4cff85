"""Ensembles: exactly solvable networks, the explicit sampler, reproducibility, refusals."""

from __future__ import annotations

import functools
import json
import sys
from itertools import product

import numba
import numpy as np
import pytest
import sympy
from pairing_estimator import moments_of_samples
from scipy import stats

from derivations.daneshmand import ensembles as batchnorm
from derivations.nait_saada_tanner import sampling
from derive import activations, symbols
from derive.engine import Z
from derive.errors import InputError
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from numeric.estimators import Probes, observables
from numeric.flows import flow
from numeric.samplers import ProbeSampler, base, checked_ensemble, explicit
from numeric.simulations import simulate

LINEAR, RELU, TANH = activations.linear, activations.relu, activations.tanh


def inputs(m, n_0, seed=0):
    return np.random.default_rng(seed).standard_normal((m, n_0))


def scores(table, name, expected):
    """z-scores of all entries, with 1e-12 of rounding allowed."""
    error = np.hypot(table[f"{name}_se"].to_numpy(), 1e-12 * (1 + np.abs(expected)))
    return (table[name].to_numpy() - expected) / error


@pytest.mark.parametrize(("n", "n_0"), [(3, 3), (8, 8), (30, 7), (5, 40)])
def test_orthogonal_linear_networks_are_exact_at_any_width(n, n_0):
    """(4.6), (4.16): z stays on a sphere, and nothing but the first layer's width changes."""
    net = Network(LINEAR, Orthogonal(sympy.Rational(4, 5)))
    x = inputs(1, n_0)[0]
    table = simulate(net, x, width=n, depth=4, draws=5, tensors=["K", "V", "U6"])
    K = 0.8 ** np.arange(1, 5) * (x @ x) / n_0
    size = max(n, n_0)  # n rows of a frame of this size, uniform on its sphere
    M4, M6 = size / (size + 2), size**2 / ((size + 2) * (size + 4))
    np.testing.assert_allclose(table["K"][0], K[0], rtol=1e-12)
    if n >= n_0:
        np.testing.assert_allclose(table["K"], K, rtol=1e-12)
        np.testing.assert_allclose(table["V"], n * (M4 - 1) * K**2, rtol=1e-10)
        np.testing.assert_allclose(table["U6"], n**2 * (M6 - 3 * M4 + 2) * K**3, rtol=1e-9)
        assert table["V_se"].max() < 1e-12 * n * K[0] ** 2
    np.testing.assert_allclose(table["V"][0], n * (M4 - 1) * K[0] ** 2, rtol=1e-11)
    assert table["V_se"][0] == table["U6_se"][0] == 0


def test_first_layer_vertex_for_two_samples():
    """Layer 1 has no variance: V is C(p,q)'s sum over the inputs' inner products."""
    X, n = inputs(2, 6), 6
    table = simulate(Network(TANH, Orthogonal(2)), X, width=n, depth=1, draws=3, tensors=["V"])
    S, wg = X @ X.T, {(1, 1): (n + 1) / (n * (n - 1) * (n + 2)), (2,): -1 / (n * (n - 1) * (n + 2))}
    for a, b, c, d in product(range(2), repeat=4):
        moment = wg[1, 1] * S[a, b] * S[c, d] + wg[2,] * (S[a, c] * S[b, d] + S[a, d] * S[b, c])
        expected = n * 4 * (moment - S[a, b] * S[c, d] / n**2)
        assert table["V"].to_numpy()[0, a, b, c, d] == pytest.approx(expected, rel=1e-12)
    assert not table["V_se"].any()


@pytest.mark.parametrize(("activation", "second", "fourth"), [(LINEAR, 1.0, 3.0), (RELU, 0.5, 1.5)])
def test_gaussian_scale_invariant_networks_at_finite_width(activation, second, fourth):
    """E S² ← C_W² E S² (⟨σ⁴⟩ + (n−1) ⟨σ²⟩²)/n at unit K, exact at n = 20; 12 scores under 5."""
    n, C_W, depth = 20, 1 / second, 6
    x = inputs(1, 5)[0]
    table = simulate(
        Network(activation, Gaussian(C_W)), x, n, depth, 40_000, tensors=["K", "V"], seed=1
    )
    K = C_W * (x @ x) / 5
    growth = C_W**2 * (fourth + (n - 1) * second**2) / n
    expected = n * K**2 * (growth ** np.arange(depth) - 1)
    assert np.abs(scores(table, "K", np.full(depth, K))).max() < 5
    assert np.abs(scores(table, "V", expected)).max() < 5


def test_gaussian_six_point_function_at_finite_width():
    """⟨z⁶⟩'s coefficient of a linear network is (Π_j (1 + 2j/n))^{ℓ−1} K³; scores under 5."""
    n, depth = 12, 3
    x = inputs(1, 4)[0]
    table = simulate(Network(LINEAR), x, n, depth, 100_000, tensors=["U6"], seed=2)
    K = x @ x / 4
    layer = np.arange(depth)
    M4, M6 = (1 + 2 / n) ** layer, ((1 + 2 / n) * (1 + 4 / n)) ** layer
    assert np.abs(scores(table, "U6", n**2 * K**3 * (M6 - 3 * M4 + 2))).max() < 5


CASES = {
    "orthogonal tanh": (Network(TANH, Orthogonal(1)), inputs(2, 6), 6),
    "gaussian relu with biases": (Network(RELU, Gaussian(1.5), C_b=0.2), inputs(2, 3), 5),
    "mixed": (Network(TANH, Orthogonal(1.2), Gaussian(1)), inputs(1, 4)[0], 5),
    "degenerate inputs": (
        Network(RELU, Orthogonal(2), C_b=0.1),
        np.array([[1.0, 2, -1], [1, 2, -1], [-2, -4, 2], [0, 0, 0]]),
        4,
    ),
    "unequal widths": (
        Network(
            activations.sin,
            Orthogonal(1.3),
            C_b=lambda layer: 0.1 / layer,
            width_ratio=lambda layer: [1, 2, sympy.Rational(1, 2), 1][layer - 1],
        ),
        inputs(2, 5, 3),
        6,
    ),
    "gelu": (Network(activations.gelu, Orthogonal(1.8), C_b=0.17), inputs(1, 8)[0], 8),
}


@pytest.mark.parametrize("case", CASES)
def test_both_samplers_estimate_the_same_tensors(case):
    """The explicit ensemble, through the pairing estimator on z, and the lazy one.

    Some 1500 scores in all six cases, most equal by symmetry, under 6: false alarms below 1e-5
    (Student's t with 255 degrees of freedom on either side).
    """
    net, X, n = CASES[case]
    options = {"width": n, "depth": 4, "tensors": ["K", "V"]}
    lazy = simulate(net, X, draws=20_000, seed=5, **options)
    built = simulate(net, X, draws=2000, seed=6, sampler="explicit", **options)
    for name in ("K", "V"):
        error = np.hypot(lazy[f"{name}_se"], built[f"{name}_se"])
        scale = 1e-12 * (1 + n * float(np.abs(lazy["K"]).max()) ** 2)
        assert lazy[name].dims == built[name].dims
        assert float(np.abs((lazy[name] - built[name]) / (error + scale)).max()) < 6


def test_both_samplers_have_the_same_marginals():
    """The metric read off layer 3's own z: two-sample KS, three entries, p > 1e-6."""
    net, draws = Network(TANH, Orthogonal(1.5), C_b=0.1), 1500
    ensemble = checked_ensemble(net, inputs(2, 4), 4, 4, 9)
    plan = observables.Plan(wanted("K"), 2)
    built = explicit.ExplicitSampler(ensemble, plan).fields(np.arange(draws))
    sigma = np.tanh([fields[Z] for fields in built][2])
    expected = 1.5 * np.einsum("dan,dbn->dab", sigma, sigma) / 4 + 0.1
    sampled = ProbeSampler(ensemble, plan, Probes()).statistics(np.arange(draws))[:, 3]
    for (*_, (a, b)), values in zip(plan.statistics, sampled.T, strict=True):
        assert stats.ks_2samp(expected[:, a, b], values).pvalue > 1e-6


def test_same_seed_same_bits_for_any_threads_and_chunks(monkeypatch):
    net, X = Network(TANH, Orthogonal(1), C_b=0.1), inputs(2, 10)
    tables = []
    for threads, numbers in ((1, 1 << 17), (numba.config.NUMBA_NUM_THREADS, 1 << 17), (1, 1000)):
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        monkeypatch.setattr(base, "_HELD", numbers)
        try:
            tables.append(simulate(net, X, 10, 3, 700, tensors=["K", "V"], seed=3))
        finally:
            numba.set_num_threads(before)
    assert tables[0].identical(tables[1])
    assert tables[0].identical(tables[2])


def test_absurd_sizes_and_inputs_are_refused_before_they_are_sampled():
    net = Network("relu", Gaussian(2))
    with pytest.raises(InputError, match=r"inputs: got 1e\+200; wanted .* 1e\+150 or less"):
        simulate(net, [1e200, 1.0], 10, 3, 50)
    with pytest.raises(InputError, match=r"inputs: got 3000 samples; wanted less: .* entries"):
        simulate(net, np.ones((3000, 2)), 10, 3, 50)
    with pytest.raises(InputError, match=r"smaller inputs or variances"):
        simulate(net, [1e60, 1.0], 10, 3, 50)


def test_a_long_simulation_says_beforehand_how_long_it_takes(monkeypatch):
    said = []

    def stop(what, seconds, draws):
        said.append((what, seconds))
        raise KeyboardInterrupt

    monkeypatch.setattr("numeric.runs.chunks.telling", stop)
    for count in (10**8, 10**9):
        with pytest.raises(KeyboardInterrupt):
            simulate(Network(TANH), [1.0, 2.0], 50, 3, count)
    (what, few), (_, many) = said
    assert what.startswith("simulating 100 000 000 networks")
    assert many == pytest.approx(10 * few, rel=0.01)
    assert few > 60


def test_seeds_and_widths_are_independent():
    net, x = Network(TANH), inputs(1, 10)[0]
    first, again, other = (
        simulate(net, x, 10, 2, 50, tensors=["K"], seed=seed) for seed in (0, 0, 1)
    )
    assert first.identical(again)
    assert first["K"].to_numpy()[1] != other["K"].to_numpy()[1]
    linear = [
        simulate(Network(LINEAR), x, n, 2, 50, tensors=["K"])["K"].to_numpy()[1] for n in (8, 16)
    ]
    assert linear[0] != linear[1]


def test_one_vector_and_a_row_differ_in_axes_alone():
    net, x = Network(TANH, Orthogonal(1)), inputs(1, 10)
    row = simulate(net, x, 10, 3, 50, tensors=["K", "V"])
    vector = simulate(net, x[0], 10, 3, 50, tensors=["K", "V"])
    assert vector["V"].dims == ("layer",)
    assert row["V"].dims == ("layer", "sample_1", "sample_2", "sample_3", "sample_4")
    assert row["V_se"].dims == row["V"].dims
    np.testing.assert_array_equal(row["V"].to_numpy().ravel(), vector["V"])
    assert list(row["layer"].values) == [1, 2, 3]


def test_the_table_says_how_to_repeat_it():
    x = inputs(2, 6)
    table = simulate(Network(TANH, Orthogonal(1)), x, 8, 2, 30, tensors=["V"], seed=4)
    attrs = json.loads(json.dumps(table.attrs))
    assert attrs["network"] == "Network(tanh, Orthogonal(C_W=1), C_b=0)"
    assert attrs["activation_expr"] == "tanh(z)"
    assert attrs["weights"] == "Orthogonal(C_W=1)"
    again = simulate(
        Network(TANH, Orthogonal(1)),
        table["inputs"],
        attrs["width"],
        table.sizes["layer"],
        attrs["draws"],
        tensors=["V"],
        seed=attrs["seed"],
        sampler=attrs["sampler"],
    )
    assert table.identical(again)


@pytest.mark.parametrize(
    "sample",
    [
        lambda **given: batchnorm.simulate(8, 2, 1, 3, **given),
        lambda **given: sampling.simulate(Network(TANH), np.ones(4), 4, 1, 3, **given),
    ],
)
def test_other_samplers_show_progress_alike(sample, capsys):
    silent = sample()
    assert not capsys.readouterr().err
    assert sample(progress=True).equals(silent)
    assert "3/3" in capsys.readouterr().err
    with pytest.raises(InputError, match="progress"):
        sample(progress="yes")


def test_progress_is_shown_when_asked_for(capsys):
    x = inputs(1, 4)[0]
    simulate(Network(TANH), x, 4, 2, 20, tensors=["K"])
    assert capsys.readouterr().err == ""
    simulate(Network(TANH), x, 4, 2, 20, tensors=["K"], progress=True)
    assert "20/20" in capsys.readouterr().err


def test_a_name_alone_and_repeated_names():
    x = inputs(1, 4)[0]
    assert list(simulate(Network(TANH), x, 4, 2, 20, tensors="V")) == ["V", "V_se", "V_floor"]
    assert list(simulate(Network(TANH), x, 4, 2, 20, tensors=["K", "K"])) == [
        "K",
        "K_se",
        "K_floor",
    ]


def test_next_to_leading_metric_is_measured_from_the_infinite_width_kernel():
    """G1 = n(metric − K): at layer 1 it is 0, and it is linear in the metric."""
    net, x = Network(TANH, Orthogonal(1)), inputs(1, 30)[0]
    table = simulate(net, x, 30, 3, 500, tensors=["K", "G1"])
    assert abs(table["G1"][0]) < 1e-10
    assert float(table["G1_se"][2]) == pytest.approx(30 * float(table["K_se"][2]), rel=1e-9)
    assert abs(float(table["G1"][2])) < 5


class _Unknown(WeightEnsemble):
    """An ensemble that no kernel knows."""

    def coefficient(self, coset, n_in, n_out):
        return Gaussian().coefficient(coset, n_in, n_out)

    def expansion(self, coset, order, square):
        return Gaussian().expansion(coset, order, square)


X1 = np.ones(4)


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("net", {"net": "tanh"}),
        ("inputs", {"inputs": [1.0, np.nan]}),
        ("inputs", {"inputs": [np.inf]}),
        ("inputs", {"inputs": np.ones((2, 2, 2))}),
        ("inputs", {"inputs": []}),
        ("inputs", {"inputs": 3.0}),
        ("inputs", {"inputs": ["one"]}),
        ("inputs", {"inputs": [1 + 1j]}),
        ("inputs", {"inputs": [[1.0, 2.0], [3.0]]}),
        ("width", {"width": 0}),
        ("width", {"width": 10.0}),
        ("width", {"width": 1}),
        ("width", {"width": 5, "net": Network(TANH, width_ratio=sympy.Rational(1, 2))}),
        ("width", {"net": Network(TANH, width_ratio=sympy.Symbol("r", positive=True))}),
        ("depth", {"depth": 0}),
        ("depth", {"depth": True}),
        ("draws", {"draws": 2}),
        ("draws", {"draws": 10.5}),
        ("draws", {"draws": 2**32}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": None}),
        ("sampler", {"sampler": "exact"}),
        ("tensors", {"tensors": []}),
        ("tensor", {"tensors": ["V", "W"]}),
        ("tensors", {"tensors": ["P"], "net": Network(RELU)}),
        ("C_W", {"net": Network(TANH, Gaussian(symbols.C_W))}),
        ("C_b", {"net": Network(TANH, C_b=sympy.Symbol("C_b", positive=True))}),
        ("weights", {"net": Network(TANH, _Unknown())}),
        ("net", {"net": Network(activations.monomial(3), Gaussian(1e9)), "depth": 9}),
        ("sampler", {"sampler": "paths"}),
        ("inputs", {"inputs": np.zeros(4), "net": Network(RELU), "tensors": ["Theta"]}),
        ("inputs", {"inputs": np.eye(5)[:, 1:], "net": Network(RELU), "tensors": ["Theta"]}),
    ],
)
def test_bad_arguments(argument, change):
    given = {"net": Network(TANH), "inputs": X1, "width": 4, "depth": 3, "draws": 20, **change}
    with pytest.raises(InputError) as caught:
        simulate(tensors=given.pop("tensors", ["V"]), **given)
    assert caught.value.argument == argument


def test_an_unknown_tensor_is_told_what_exists():
    with pytest.raises(InputError, match="K, G1, G2, V, V2, U6"):
        simulate(Network(TANH), X1, 4, 2, 20, tensors=["X"])


def test_estimates_from_z_agree_with_the_record():
    """The explicit sampler's statistics are the pairing estimator on z, draw by draw."""
    net = Network(TANH, Gaussian(1), C_b=0.1)
    ensemble = checked_ensemble(net, inputs(2, 4), 5, 2, 1)
    plan = observables.Plan(wanted("V"), 2)
    draws = np.arange(30)
    sampler = explicit.ExplicitSampler(ensemble, plan)
    found, z = sampler.statistics(draws)[:, 1], list(sampler.fields(draws))[1][Z]
    for (fields, _, _, samples), values in zip(plan.statistics, found.T, strict=True):
        expected = moments_of_samples(z, len(fields) // 2)[(slice(None), *samples)]
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


def test_corrections_of_the_variances_are_sampled():
    """C_W + c/n at this width: layer 1's metric is C_W K0, without noise."""
    net = Network(activations.tanh, Gaussian(1.2), C_W_corrections=(0.5,), C_b_corrections=(0.2,))
    x = [1.0, -0.5, 0.25]
    table = simulate(net, x, width=8, depth=2, draws=600, tensors=["G1"], seed=1)
    flowed = flow(net, x, 2, ["G1"])
    assert float(table["G1"][0]) == pytest.approx(float(flowed["G1"][0]), rel=1e-9)


def test_an_input_of_zeros_without_a_kink_at_0_is_one_like_others():
    """With biases, or a kink elsewhere, or none; |Θ/flow − 1| below 1/n and a hundredth."""
    zero = np.zeros(4)
    for net in (Network(RELU, C_b=0.1), Network(activations.hard_tanh), Network(TANH)):
        table = simulate(net, zero, 30, 4, 2000, tensors=["Theta"], seed=3)
        flowed = flow(net, zero, 4, ["Theta"])["Theta"].to_numpy()
        biased = 1.0 / 30  # of relative order 1/n
        assert np.abs(table["Theta"].to_numpy() / flowed - 1).max() < biased + 0.01


@pytest.mark.parametrize("sampler", ["lazy", "probes", "explicit"])
def test_without_weights_and_biases_nothing_is_left(sampler):
    net = Network(activations.linear, Gaussian(0))
    found = simulate(net, [1.0, 2.0], 6, 2, 60, tensors=["K", "V"], sampler=sampler)
    assert not found["K"].any()
    assert not found["V"].any()


def unbounded_caches():
    """How much is in each cache of this package that has no bound."""
    mine = [
        module for name, module in sys.modules.items() if name.startswith(("derive", "numeric"))
    ]
    return {
        (module.__name__, name): value.cache_info().currsize
        for module in mine
        for name, value in vars(module).items()
        if isinstance(value, functools._lru_cache_wrapper)
        and value.cache_parameters()["maxsize"] is None
    }


def test_nothing_is_kept_of_a_network_for_good():
    """So that memory is flat over a thousand calls: a cache without a bound knows no network."""

    def calls(numbers):
        for number in numbers:
            net = Network(TANH, Gaussian(1 + number / 16), C_b=number / 32)
            simulate(net, [1.0, 0.5], 8 + number, 3, 20, tensors=["V", "A"], seed=number)
            simulate(net, [1.0, 0.5], 8 + number, 3, 20, tensors=["V", "A"], sampler="probes")

    calls(range(2))
    before = unbounded_caches()
    calls(range(2, 6))
    assert unbounded_caches() == before
