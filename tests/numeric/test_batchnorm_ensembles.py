from __future__ import annotations

import numba
import numpy as np
import pytest
import sympy

from derivations.daneshmand import ensembles, large_width, moments, orthogonalization
from derivations.moments.linear_laws import lyapunov_exponents
from derive import activations, batchnorm
from derive.activations import Activation
from derive.errors import InputError

SHORT = {"width": 32, "batch": 4, "depth": 5}


def law(moment: int, n: int, d: int) -> float:
    value = batchnorm.stationary_gap(moment).subs({batchnorm.n: n, batchnorm.d: d})
    return float(value.evalf())


def test_simulate_layout() -> None:
    table = ensembles.simulate(**SHORT, draws=10, seed=3)
    assert set(table.data_vars) == {"gap", "gap_se", "gap_sq", "gap_sq_se"}
    assert table["gap"].dims == ("layer",)
    assert list(table["layer"].to_numpy()) == [1, 2, 3, 4, 5]
    assert (table["gap"] ** 2 <= table["gap_sq"] + 1e-15).all()
    squares = observed(ensembles.grams(**SHORT, draws=10, seed=3))[1]
    assert table["gap"].to_numpy() == pytest.approx(np.sqrt(squares).mean(axis=0), rel=1e-9)
    assert table["gap_sq"].to_numpy() == pytest.approx(squares.mean(axis=0), rel=1e-9)
    errors = squares.std(axis=0, ddof=1) / np.sqrt(10)
    assert table["gap_sq_se"].to_numpy() == pytest.approx(errors, rel=1e-9)


def shares(grams: np.ndarray) -> np.ndarray:
    """Gram matrices over their traces."""
    return grams / np.trace(grams, axis1=2, axis2=3)[..., None, None]


def explicit_grams(
    draws: int, seed: int, activation: Activation, inputs: np.ndarray, **options: bool
) -> np.ndarray:
    """Source 003, eq. (1), written out with every weight matrix built: (draws, depth, n, n)."""
    sigma = sympy.lambdify(activations.z, activation.expr, "scipy")
    rng, found = np.random.default_rng(seed), []
    X = np.broadcast_to(inputs.T, (draws, *inputs.T.shape))
    for _ in range(SHORT["depth"]):
        W = rng.standard_normal((draws, SHORT["width"], X.shape[1])) / np.sqrt(X.shape[1])
        Q = W @ X
        if options.get("centered"):
            Q -= Q.mean(axis=2, keepdims=True)
        if options.get("normalised", True):
            Q /= np.sqrt((Q**2).mean(axis=2, keepdims=True))
        found.append(Q.swapaxes(1, 2) @ Q)
        X = np.array(sigma(Q))
    return np.moveaxis(found, 0, 1)


def observed(grams: np.ndarray) -> list[np.ndarray]:
    """V, V² and V̂ = 1/n − σ_n² (source 003, eqs. 2 and 11) of every draw and layer."""
    C, n = shares(grams), grams.shape[-1]
    squares = ((C - np.eye(n) / n) ** 2).sum(axis=(2, 3))
    return [np.sqrt(squares), squares, 1 / n - np.linalg.eigvalsh(C)[..., 0]]


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "relu",
        "tanh",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("sin", "sigmoid")),
    ],
)
def test_gram_chain_has_the_law_of_explicit_matrices(name: str, centered: bool) -> None:
    activation = activations.by_name(name)
    options = {"activation": activation, "centered": centered}
    inputs = np.diag([10.0, 1.0, 1.0, 1.0])
    ours = ensembles.grams(**SHORT, **options, draws=1000, seed=0)
    explicit = explicit_grams(1000, 1, inputs=inputs, **options)
    for own, other in zip(observed(ours), observed(explicit), strict=True):
        error = np.sqrt((own.var(axis=0) + other.var(axis=0)) / 1000)
        z = (own.mean(axis=0) - other.mean(axis=0)) / np.maximum(error, 1e-12)
        assert np.abs(z).max() < 5.9  # 5 sigma, 150 times


def test_gram_chain_of_vanilla_networks() -> None:
    options = {"normalised": False, "activation": activations.relu}
    inputs = np.random.default_rng(0).standard_normal((4, 7))
    ours = ensembles.simulate(**SHORT, **options, inputs=inputs, draws=1500)
    explicit, _, _ = observed(explicit_grams(1500, 1, inputs=inputs, **options))
    error = np.hypot(ours["gap_se"], explicit.std(axis=0) / np.sqrt(1500))
    assert np.abs((ours["gap"] - explicit.mean(axis=0)) / error).max() < 5.4


def test_same_seed_same_bits_for_any_threads() -> None:
    before = numba.get_num_threads()
    try:
        found = []
        for threads in (1, min(2, before)):
            numba.set_num_threads(threads)
            found.append(ensembles.grams(300, 5, 4, 7, seed=11))
        assert np.array_equal(*found)
        more = ensembles.grams(300, 5, 4, 9, seed=11)
        assert np.array_equal(found[0], more[:7])
    finally:
        numba.set_num_threads(before)
    assert not np.array_equal(found[0], ensembles.grams(300, 5, 4, 7, seed=12))


def test_trace_of_normalised_rows() -> None:
    found = ensembles.grams(100, 6, 3, 4)
    assert np.trace(found, axis1=2, axis2=3) == pytest.approx(6.0, abs=1e-12)


def test_first_layer_moments() -> None:
    """E C = P(C_0) and E V² exactly, at layer 1, from the spectrum of the inputs."""
    width, draws = 20, 20_000
    inputs = np.diag(np.sqrt([0.5, 0.3, 0.2]))
    found = ensembles.grams(width, 3, 1, draws, inputs=inputs)[:, 0] / 3
    p = np.array([float(value) for value in moments.mean_spectrum(["1/2", "3/10", "1/5"])])
    fourth = np.array(moments.fourth_moments(["1/2", "3/10", "1/5"]).tolist(), float)
    variance = (fourth - np.diag(p**2)) / width
    variance[0, 0], variance[1, 1] = ((fourth[i, i] - p[i] ** 2) / width for i in (0, 1))
    z = (found.mean(axis=0) - np.diag(p)) / np.sqrt(variance / draws)
    assert np.abs(z).max() < 5.4
    squares = found[:, 0, 1] ** 2  # E C_12² = q_12/d
    error = squares.std() / np.sqrt(draws)
    assert abs(squares.mean() - fourth[0, 1] / width) < 5 * error


@pytest.mark.parametrize(("n", "d"), [(2, 60), (4, 200), (8, 400)])
def test_stationary_gap(n: int, d: int) -> None:
    """E V² and E V through next order; what is left out is (n/d)² of the value."""
    start = np.eye(n)
    found = ensembles.simulate(d, n, 30, 1500, inputs=start)
    for name, moment in (("gap_sq", 2), ("gap", 1)):
        last = float(found[name][-1])
        error = float(found[f"{name}_se"][-1])
        theory = law(moment, n, d)
        assert abs(last - theory) < 5.2 * error + theory * (n / d) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(2, 100), (10, 500)])
def test_stationary_gap_within_a_percent(n: int, d: int) -> None:
    depth = 120
    found = ensembles.simulate(d, n, depth, 16_000 // n, inputs=np.eye(n))
    for name, moment in (("gap_sq", 2), ("gap", 1)):
        late = found[name][depth // 2 :].mean().item()
        assert late == pytest.approx(law(moment, n, d), rel=0.01)


def test_next_order_is_needed_at_small_width() -> None:
    """At d = 10 n the leading order is off by many standard errors, the next one by few."""
    n, d = 6, 60
    found = ensembles.simulate(d, n, 60, 2000, inputs=np.eye(n))
    late = found["gap_sq"][30:].mean().item()
    leading = batchnorm.stationary_gap(2, 1).subs({batchnorm.n: n, batchnorm.d: d})
    assert abs(late / law(2, n, d) - 1) < 0.01
    assert late / float(leading) - 1 > 0.02


def test_centered_chain_lives_in_one_dimension_less() -> None:
    n, d = 6, 300
    found = ensembles.simulate(
        d, n, 40, 1000, centered=True, inputs=np.random.default_rng(0).random((n, n))
    )
    theory = law(2, n - 1, d) + 1 / (n - 1) - 1 / n
    error = float(found["gap_sq_se"][-1])
    assert abs(float(found["gap_sq"][-1]) - theory) < 5 * error + 1e-6


def test_transient_of_the_linear_chain() -> None:
    n, d, depth = 5, 2000, 25
    inputs = np.diag([10.0, 1, 1, 1, 1])
    found = ensembles.simulate(d, n, depth, 400, inputs=inputs)["gap_sq"].to_numpy()
    assert large_width.transient(inputs, d, depth) == pytest.approx(found, rel=0.06)


def test_mean_spectrum_in_double_precision() -> None:
    values = ["1/2", "3/10", "1/5"]
    oracle = [float(p) for p in moments.mean_spectrum(values)]
    found = large_width.mean_spectrum(np.array([0.5, 0.3, 0.2]))
    assert found == pytest.approx(oracle, abs=1e-14)
    assert large_width.mean_spectrum(np.array([1.0, 0.0])) == pytest.approx([1.0, 0.0])


def test_odd_law_of_the_linear_chain_is_the_derived_one() -> None:
    for n in (2, 3, 7):
        found = large_width.odd_law(activations.linear, n)
        rate = float(batchnorm.contraction_rate().subs(batchnorm.n, n))
        assert found.off_rate == pytest.approx(rate, abs=1e-12)
        assert found.diagonal_rate == pytest.approx(rate, abs=1e-12)
        derived = batchnorm.stationary_gap(2, 1).subs({batchnorm.n: n, batchnorm.d: 1})
        assert found.gap_sq == pytest.approx(float(derived), rel=1e-12)


@pytest.mark.parametrize("name", ["tanh", pytest.param("sin", marks=pytest.mark.slow)])
def test_odd_activations_are_stationary_at_the_derived_gap(name: str) -> None:
    n, d = 5, 500
    activation = activations.by_name(name)
    found = ensembles.simulate(d, n, 30, 800, activation=activation, inputs=np.eye(n))
    theory = large_width.odd_law(activation, n).gap_sq / d
    error = float(found["gap_sq_se"][-1])
    assert abs(float(found["gap_sq"][-1]) - theory) < 5.2 * error + 3 * theory * n / d


@pytest.mark.parametrize("name", ["relu", pytest.param("tanh", marks=pytest.mark.slow)])
def test_the_recursion_of_V_predicts_the_deviation(name: str) -> None:
    """E L² of (27), with L relative to the ensemble's mean, to 5 per cent."""
    n, d = 5, 1000
    activation = activations.by_name(name)
    found = ensembles.grams(d, n, 40, 600, activation=activation, centered=True)[:, 25:] / n
    mean = found.mean(axis=(0, 1))
    deviation = ((found - mean) ** 2).sum(axis=(2, 3)).mean()
    assert d * deviation == pytest.approx(large_width.deviation(name, n, True), rel=0.05)
    gap = np.linalg.norm(mean - np.eye(n) / n)
    assert gap == pytest.approx(np.sqrt(1 / (n - 1) - 1 / n), abs=0.01)


def test_vanilla_networks_align() -> None:
    """V → √((n−1)/n), at the rate ψ(d/2) − ψ((d−1)/2) a layer."""
    d, n = 8, 3
    depth, draws = 150, 400
    grams = ensembles.grams(d, n, depth, draws, normalised=False, inputs=np.eye(n))
    grams /= np.trace(grams, axis1=2, axis2=3)[..., None, None]
    gap = np.sqrt(((grams - np.eye(n) / n) ** 2).sum(axis=(2, 3)))
    limit = np.sqrt((n - 1) / n)
    assert np.median(gap[:, -1]) == pytest.approx(limit, abs=1e-4)
    logs = np.log(limit - gap[:, [15, 45]])  # later some differ by rounding alone
    slopes = (logs[:, 1] - logs[:, 0]) / 30
    first, second = (float(v.evalf()) for v in lyapunov_exponents(d, 2))
    error = slopes.std() / np.sqrt(draws)
    assert abs(slopes.mean() + 2 * (first - second)) < 5 * error + 0.01
    rate = sympy.digamma(sympy.Rational(d, 2)) - sympy.digamma(sympy.Rational(d - 1, 2))
    assert 2 * (first - second) == pytest.approx(float(rate.evalf()))


def test_repeated_and_collinear_inputs() -> None:
    """Rank is kept, never gained: two equal samples stay equal."""
    X = np.random.default_rng(1).standard_normal((3, 5))
    found = ensembles.grams(50, 4, 6, 3, inputs=np.vstack([X, X[0]]))
    assert found[..., 0, 3] == pytest.approx(found[..., 0, 0], abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"width": 0}, "width"),
        ({"batch": 1}, "batch"),
        ({"depth": 1.5}, "depth"),
        ({"draws": 1}, "draws"),
        ({"seed": -1}, "seed"),
        ({"activation": "rely"}, "activation"),
        ({"centered": True, "normalised": False}, "centered"),
        ({"inputs": np.zeros((4, 3))}, "inputs"),
        ({"inputs": np.eye(3)}, "inputs"),
        ({"inputs": np.full((4, 3), np.nan)}, "inputs"),
    ],
)
def test_errors_name_the_argument(changes: dict, name: str) -> None:
    with pytest.raises(InputError) as caught:
        ensembles.simulate(**{**SHORT, "draws": 4, **changes})
    assert caught.value.argument == name


def test_rows_that_vanish_are_an_error() -> None:
    """ReLU networks of one neuron die: its Gram matrix vanishes, and V with it."""
    with pytest.raises(InputError, match="vanish"):
        ensembles.simulate(1, 2, 20, 50, activation=activations.relu, normalised=False)


def test_odd_law_refuses_relu() -> None:
    with pytest.raises(InputError, match="odd"):
        large_width.odd_law(activations.relu, 4)


def batch(samples: int, features: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal((samples, features)) + 0.7


@pytest.mark.parametrize("name", ["linear", "relu", "tanh"])
@pytest.mark.parametrize(("samples", "widths"), [(60, [20, 20, 20]), (10, [20, 30, 12])])
def test_orthogonalizing_weights_reduce_the_gap(name: str, samples: int, widths) -> None:
    made = orthogonalization.orthogonalize(batch(samples, 20), widths, activations.by_name(name))
    assert [W.shape for W in made.weights] == [
        (b, a) for a, b in zip([20, *widths], widths, strict=False)
    ]
    assert (made.after < made.before).all()


def test_orthogonalizing_weights_have_the_printed_spectrum() -> None:
    """σ_i of W H is √(σ_i/Σσ), and W is V'Σ^{−1/2}Uᵀ/|Σ^{1/2}| with orthogonal V'."""
    H = batch(50, 12).T
    W = orthogonalization.orthogonalizing_weights(H, 12)
    sigma = np.linalg.svd(H, compute_uv=False)
    found = np.linalg.svd(W @ H, compute_uv=False)
    assert found == pytest.approx(np.sqrt(sigma / sigma.sum()))
    expected = np.sort(1 / np.sqrt(sigma * sigma.sum()))[::-1]
    assert np.linalg.svd(W, compute_uv=False) == pytest.approx(expected)


def test_linear_chain_of_orthogonalizing_weights_halves_the_logarithms() -> None:
    made = orthogonalization.orthogonalize(batch(50, 6), [6] * 5)
    H, spreads = batch(50, 6).T, []
    for W in made.weights:
        sigma = np.linalg.svd(H, compute_uv=False)
        spreads.append(np.log(sigma[0] / sigma[-1]))
        H = W @ H
    assert np.array(spreads[1:]) == pytest.approx(np.array(spreads[:-1]) / 2)


def test_rank_deficient_batches_are_refused() -> None:
    with pytest.raises(InputError, match="rank"):
        orthogonalization.orthogonalize(np.ones((5, 4)), [4])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_gap_from_either_gram_matrix(shape: tuple[int, int]) -> None:
    H = np.random.default_rng(9).standard_normal(shape)
    gram, n = H.T @ H, shape[1]
    direct = np.linalg.norm(gram / np.trace(gram) - np.eye(n) / n)
    assert orthogonalization.orthogonality_gap(H) == pytest.approx(direct, rel=1e-12)


def test_sums_beyond_memory_are_refused_before_they_are_made() -> None:
    with pytest.raises(InputError, match="depth, draws"):
        ensembles.simulate(6, 3, 10**9, 4)
