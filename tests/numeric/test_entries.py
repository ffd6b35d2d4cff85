"""Networks of independent weights: what is drawn, what is estimated, and what is derived."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import sympy

from derive import (
    Gaussian,
    Independent,
    InputError,
    Network,
    Rademacher,
    Sparse,
    StudentT,
    TruncatedNormal,
    Uniform,
    activations,
    recursion,
)
from numeric import compare, flow, simulate, write_module
from numeric.random import entries, weight_matrix

KAPPA = "kappa(z,z,z,z|0123)"
TENSORS = ["K", "G1", "V", KAPPA]
LAWS = (
    Uniform(),
    Rademacher(),
    StudentT(12),
    TruncatedNormal(),
    Sparse("1/4"),
    Sparse("1/2", of=Rademacher()),
    Independent(Uniform()),
)
SKEWED = Independent(scipy.stats.bernoulli(0.05, loc=-0.05), C_W=2)
X = np.random.default_rng(0).standard_normal((2, 24))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_entries_have_the_law_s_moments(law):
    """24 comparisons of four moments in all, at 5 standard errors."""
    drawn = entries(law, 40_000, np.random.default_rng(3))
    for k in (1, 2, 3, 4):
        expected = float(law.standard_moment(k)) if k > 1 else 0.0
        powers = drawn**k
        error = powers.std() / np.sqrt(drawn.size)
        assert abs(powers.mean() - expected) <= 5 * error + 1e-12, k


def test_entries_have_the_moments_of_a_law_of_scipy():
    test_entries_have_the_law_s_moments(Independent(scipy.stats.laplace(scale=3)))


def test_entries_of_a_discrete_law_between_the_integers():
    """E[x³] = κ_3 too."""
    drawn = entries(SKEWED, 40_000, np.random.default_rng(3))
    for k in (1, 2, 3, 4):
        powers = drawn**k
        expected = float(SKEWED.standard_moment(k))
        assert abs(powers.mean() - expected) <= 5 * powers.std() / np.sqrt(drawn.size), k


def test_a_matrix_has_the_variance():
    W = weight_matrix(Uniform(C_W=3), (100, 60), np.random.default_rng(0))
    assert W.shape == (100, 60)
    assert np.abs(W).max() <= np.sqrt(9 / 60)
    assert abs((W**2).mean() * 60 - 3) < 0.2


def test_the_first_layer_s_fourth_cumulant_is_a_mean_over_the_inputs():
    net = Network("tanh", Uniform(C_W=2))
    table = flow(net, X, 1, [KAPPA, "V", "K"])
    expected = -1.2 * 4 * np.einsum("ai,bi,ci,di->abcd", X, X, X, X) / 24
    assert np.allclose(table[KAPPA][0], expected, rtol=1e-13)
    assert not np.any(table["V"][0])
    wide = flow(net, X, 1, KAPPA, width=48)[KAPPA][0]
    assert np.allclose(wide, 2 * expected)
    single = flow(net, X[0], 3, TENSORS)
    both = flow(net, X, 3, TENSORS)
    for name in TENSORS:
        entry = (slice(None), *(0,) * (both[name].ndim - 1))
        assert np.allclose(both[name].to_numpy()[entry], single[name], rtol=1e-10), name
    small = flow(net, X * 1e-3, 3, TENSORS)
    assert np.isfinite(small[KAPPA]).all()


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu"])
def test_what_is_derived_is_sampled(activation):
    net = Network(activation, Uniform(C_W=2), first_weights="gaussian", C_b=0.1)
    theory = flow(net, X[0], 4, TENSORS)
    sampled = simulate(net, X[0], 24, 4, 1500, tensors=TENSORS, seed=2)
    assert sampled.attrs["sampler"] == "explicit"
    wide = simulate(net, X[0], 48, 4, 1500, tensors=TENSORS, seed=2)
    found = compare(theory, [sampled, wide])
    assert found.agrees, str(found)
    others = flow(Network(activation, Uniform(C_W=2), C_b=0.1), X[0], 4, KAPPA, width=24)
    assert abs(others[KAPPA][0]) > 0


def test_samples_see_the_fourth_cumulant():
    """The Gaussian network's theory is refused by samples of a sparse one: G1 and the diagonal."""
    sparse = Network("tanh", Sparse("1/4", C_W=2), first_weights=Gaussian(2))
    sampled = simulate(sparse, X[0], 32, 4, 4000, tensors=["G1", "V"], seed=1)
    right = flow(sparse, X[0], 4, ["G1", "V"])
    wrong = flow(Network("tanh", Gaussian(2)), X[0], 4, ["G1", "V"])

    def z(table, layer):
        difference = sampled["G1"][layer] - table["G1"][layer]
        return abs(float(difference / sampled["G1_se"][layer]))

    assert z(wrong, 3) > 6
    assert z(right, 3) < z(wrong, 3) / 2


@pytest.mark.slow
def test_a_skewed_law_with_an_odd_activation():
    """κ_3 = 4.1 and κ_4 = 15.1: the second enters, the first does not. The law is sampled as it is;
    theory without κ_4 is refused."""
    net = Network("tanh", SKEWED, first_weights="gaussian", C_b=0.1)
    theory = flow(net, X[0], 4, TENSORS)
    samples = [simulate(net, X[0], n, 4, 1000, tensors=TENSORS, seed=2) for n in (24, 48)]
    found = compare(theory, samples)
    assert found.agrees, str(found)
    gaussian = flow(Network("tanh", Gaussian(2), C_b=0.1), X[0], 4, TENSORS)
    assert not compare(gaussian.assign_attrs(theory.attrs), samples).agrees
    even = Network("tanh", Independent({4: SKEWED.cumulant(4)}, 2), "gaussian", C_b=0.1)
    assert all(np.array_equal(theory[name], flow(even, X[0], 4, TENSORS)[name]) for name in TENSORS)


def test_what_a_skew_adds_to_K():
    """C_W^{5/2} κ_3 ⟨σ³⟩ ⟨∂³(σ²)⟩/6 n^{-1/2} for ReLU, as the refusal says; by 60 matrices."""
    n, rng, found = 100, np.random.default_rng(0), []
    for _ in range(60):
        below = np.maximum(rng.standard_normal((n, 50)), 0)
        z = weight_matrix(SKEWED, (n, n), rng) @ below
        found.append((np.maximum(z, 0) ** 2 - z**2 / 2).mean() * 2)
    half = np.sqrt(2 / np.pi)  # ⟨σ³⟩ and ⟨∂³(σ²)⟩ at K = 1, which C_W = 2 keeps
    expected = 2**2.5 * float(SKEWED.cumulant(3)) * half**2 / 6 / np.sqrt(n)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) <= 5 * error < expected / 2


@pytest.mark.parametrize("first", ["gaussian", "orthogonal", "rademacher"])
def test_the_two_samplers_agree(first):
    """The same networks: one averages each layer's weights, the other reads the layer itself."""
    net = Network("gelu", Sparse("1/2", C_W=2), first_weights=first, C_b=0.5)
    tensors = ["K", "V", KAPPA]
    runs = [
        simulate(net, X, 8, 3, 3000, tensors=tensors, seed=4, sampler=name)
        for name in ("lazy", "explicit")
    ]
    for name in tensors:
        one, other = (run[name].to_numpy() for run in runs)
        error = np.hypot(*(run[f"{name}_se"].to_numpy() for run in runs))
        assert (np.abs(one - other) <= 5.5 * error + 1e-9).all(), name


@pytest.mark.slow
def test_the_tower_is_sampled():
    """Θ's correction and its joint cumulants with z, explicitly: 5 tensors at layers 2 and 3; at
    layer 1, where they are 0, samples have what rounding leaves."""
    net = Network("tanh", Sparse("1/2", C_W=2), first_weights=Gaussian(2))
    tensors = ["Theta", "D", "F", "kappa(z,z,H|0123)", "kappa(H,H|0123)"]
    theory = flow(net, X[0], 3, tensors)
    samples = [simulate(net, X[0], n, 3, 1500, tensors=tensors, seed=5) for n in (12, 24, 48)]
    found = compare(theory.isel(layer=slice(1, None)), samples)
    assert found.agrees, str(found)
    assert samples[0].attrs["sampler"] == "explicit"


def test_probes_are_the_lazy_sampler():
    """The same bits by both names: matrices are built whole, as no rotation keeps their law."""
    net = Network("tanh", SKEWED, "gaussian")
    lazy, probes = (
        simulate(net, X[0], 8, 2, 10, seed=1, sampler=name) for name in ("lazy", "probes")
    )
    assert probes.identical(lazy)
    assert probes.attrs["sampler"] == "explicit"


@pytest.mark.parametrize(
    "what",
    [
        lambda net: simulate(net, X[0], 8, 2, 10, sampler="paths"),
        lambda net: simulate(Network("tanh"), X[0], 8, 2, 10, tensors=[KAPPA]),
        lambda net: simulate(Network("tanh", Independent({4: 1})), X[0], 8, 2, 10),
        lambda net: simulate(Network("tanh", StudentT(sympy.Symbol("nu"))), X[0], 8, 2, 10),
        lambda net: flow(Network("tanh", Independent({4: sympy.Symbol("k")})), X[0], 3, "G1"),
        lambda net: flow(Network("gelu", SKEWED, "gaussian"), X[0], 3, "K"),
        lambda net: flow(Network("tanh", SKEWED), X[0], 3, "K"),
        lambda net: flow(Network("tanh", SKEWED, SKEWED), X[0], 3, "K"),
        lambda net: flow(Network("tanh", SKEWED, "gaussian"), X[0], 3, "V2"),
    ],
)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        what(Network("tanh", Uniform()))


class norm_gen(scipy.stats.rv_continuous):  # noqa: N801  (the name of scipy's own class)
    """Uniform numbers under the name of normal ones."""

    def _pdf(self, x):
        return 0.5 + 0 * x


def test_a_law_of_one_s_own_flows_and_is_not_sampled():
    """It is not drawn as the law of scipy.stats that has its name."""
    atoms = scipy.stats.rv_discrete(values=([-1, 0, 1], [0.25, 0.5, 0.25]))
    laws = (norm_gen(a=-1, b=1, name="norm")(), -1.2), (atoms(), -1)
    for law, fourth in laws:
        weights = Independent(law)
        assert abs(float(weights.cumulant(4)) - fourth) < 1e-9
        net = Network("tanh", weights, first_weights="gaussian")
        assert flow(net, [1.0, 0.5], 3, ["V"])["V"].notnull().all()
        with pytest.raises(InputError, match="a distribution of scipy"):
            simulate(net, [1.0, 0.5], 8, 3, 10, tensors=["V"])


def test_a_module_of_hidden_layers_is_written(tmp_path):
    made = recursion(KAPPA, Uniform()).single_input()
    path = write_module(made, "tanh", tmp_path / "fourth.py", first_weights=Gaussian())
    assert "0123" in path.read_text()


def test_what_is_zero_has_a_floor():
    """H is no random number at layer 1: what is left of its cumulant is rounding, and is told."""
    name = "kappa(H,H|0123)"
    net = Network("tanh", Uniform())
    for width in (8, 16):
        table = simulate(
            net, np.linspace(-1, 1, 8), width, 2, 100, tensors=name, sampler="explicit"
        )
        found, floor = (table[each].to_numpy() for each in (name, f"{name}_floor"))
        assert 0 < floor[0] < 1e-9
        assert abs(found[0]) <= floor[0]
        assert abs(found[1]) > 1e3 * floor[1]


def test_small_biases_of_any_law_enter_by_their_variance():
    """E z⁴ behind biases of variance c/n: uniform ones have κ_4 = −6/5 (c/n)², of order n^{-2}."""
    c, K, n = Fraction(3, 10), Fraction(5, 2), Fraction(10**9)
    square = Network(activations.polynomial([0, 0, 1]), C_b_corrections=["3/10"])
    first, second = flow(square, [1.0, 2.0], 2, "G1")["G1"].to_numpy()
    assert first == float(c)
    for kurtosis in (0, Fraction(-6, 5)):
        exact = c / n + 3 * (K + c / n) ** 2 + kurtosis * (c / n) ** 2
        assert abs(float(n * (exact - 3 * K**2)) - second) < 1e-8
