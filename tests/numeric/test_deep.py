"""Depth in proportion to width: the law of K, and networks beside it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy
from scipy import integrate, stats

from derive import InputError, Network, layers
from derive.symbols import L
from numeric import deep, flow
from numeric.deep import quantiles
from numeric.deep.pictures import picture

X = [1.0, 0.5, -0.3]
R = sympy.Rational
RELU = Network("relu", C_W=2)


@pytest.mark.slow
def test_parameters_are_rational_multiples_of_the_ratio():
    for net, s in (
        (RELU, 5),
        (Network("relu", "orthogonal", C_W=2), 3),
        (Network("relu", "uniform", C_W=2), 5),
        (Network("leaky_relu(1/2)", C_W="8/5"), R(77, 25)),
        (Network("linear"), 2),
        (Network.critical("relu", layer="residual(skip=1/2)"), R(75, 16)),
    ):
        law = deep.law(net, X, "3/7")
        assert (law.log_mean, law.log_variance) == (-s * R(3, 14), s * R(3, 7))
    assert law.start == pytest.approx(float(net.weights.C_W) * np.square(X).mean(), rel=1e-14)


def test_the_density_is_of_the_quantiles():
    law = deep.law(RELU, X, "1/4")
    edges = law.quantile([0.1, 0.6])
    mass, _ = integrate.quad(lambda q: float(law.density(q)), *edges)
    assert mass == pytest.approx(0.5, abs=1e-9)
    assert law.below(edges) == pytest.approx([0.1, 0.6])
    assert law.above(edges) == pytest.approx([0.9, 0.4])
    assert law.quantile([0, 1]).tolist() == [0, np.inf]
    assert law.density([-1.0, 0.0]).tolist() == [0, 0]
    assert law.below(0.0) == 0
    mean, _ = integrate.quad(lambda q: q * float(law.density(q)), 0, np.inf)
    assert mean == pytest.approx(law.start, rel=1e-7)  # E K is the same at every layer


def test_half_of_the_networks_are_below():
    law = deep.law(RELU, X, 1)
    ratio = law.half_below("1/100")
    assert law.at(ratio).below(law.start / 100) == pytest.approx(0.5)
    with pytest.raises(InputError, match="falls with depth"):
        deep.law(Network("linear", "orthogonal"), X, 1).half_below(0.1)


@pytest.mark.slow
def test_branches_of_variance_one_over_depth_have_a_certain_K():
    net = Network("relu", layer=layers.residual(C=(1 / L, 1)))
    law = deep.law(net, X, 1)
    assert (law.log_mean, law.is_certain) == (R(1, 2), True)
    assert law.quantile([0.01, 0.99]) == pytest.approx(law.start * np.exp(0.5))
    assert (law.below(1e9), law.above(1e9)) == (1, 0)
    depth = 65
    given = Network("relu", layer=layers.residual(C=(R(1, depth - 1), 1)))
    samples = deep.simulate(given, X, 1, 64, 100, depth=depth, seed=1)
    logs = np.log(samples.values / samples.start)
    # Var log K = 2/n + …, 100 draws: 5 scores of the mean
    assert abs(logs.mean() - 0.5) < 5 * np.sqrt(2 / 64 / 100) + 2 / 64
    assert logs.std() < 0.25


def test_what_is_refused():
    with pytest.raises(InputError, match="no limit"):
        deep.law(Network("relu"), X, 1)
    with pytest.raises(InputError, match="one input"):
        deep.law(RELU, [[1.0, 0.0], [0.0, 1.0]], 1)
    with pytest.raises(InputError, match="ratio"):
        deep.law(RELU, X, -1)
    with pytest.raises(InputError, match="no density"):
        deep.law(Network("linear", "orthogonal"), X, 1).density(1.0)
    certain = Network("linear", "orthogonal")
    samples = deep.simulate(certain, X, 1, 8, 2)
    with pytest.raises(InputError, match="quantiles"):
        deep.compare(deep.law(certain, X, 1), samples)
    with pytest.raises(InputError, match="one input"):
        deep.compare(deep.law(RELU, X, 1), [])
    with pytest.raises(InputError, match="fractions"):
        deep.law(RELU, X, 1).quantile(2)
    law = deep.law(RELU, X, 1)
    for function in (law.below, law.above, law.density, law.at(0).below, law.at(0).above):
        for wrong in ("x", float("nan"), None):
            with pytest.raises(InputError, match=r"^q: .*real numbers"):
                function(wrong)
    for layer, weight in (("dense", 2), ("skip(1/2)", R(3, 2))):  # a step would move by c/C_W n
        for name in ("C_W_corrections", "C_b_corrections"):
            with pytest.raises(InputError, match="corrections in 1/n"):
                deep.law(Network("relu", C_W=weight, layer=layer, **{name: [1]}), X, 1)


def test_one_network_has_no_variance():
    samples = deep.simulate(RELU, X, 1, 4, 1)
    assert np.isnan(deep.compare(deep.law(RELU, X, 1), samples).table["log_variance"]).all()


def test_the_tail_of_anderson_and_darling():
    """Of uniform samples, by their own ranks: 400 sets of 200, 5 standard errors."""
    rng = np.random.default_rng(0)
    squares = [quantiles.anderson_darling(np.sort(rng.random(200))) for _ in range(400)]
    for level in (1.0, 2.0):
        part = quantiles.tail(level)
        assert abs(np.mean(np.array(squares) > level) - part) < 5 * np.sqrt(part / 400)
    assert quantiles.tail(3.857) == pytest.approx(0.01, abs=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_networks_of_128_layers_and_neurons(law):
    """The mean D of 8 ensembles, 500 networks each, is below 1.5 times that of samples of the law:
    D has a spread of 0.3 of its mean, so that a true law is rejected once in 10⁵."""
    net = Network("relu", law, C_W=2)
    exact = deep.law(net, X, 1)
    samples = [deep.simulate(net, X, 1, 128, 500, seed=k) for k in range(8)]
    agreement = deep.compare(exact, samples, 1e-5)
    assert agreement.agrees
    assert float((agreement.table["ks"] / agreement.table["ks_own"]).mean()) < 1.5


@pytest.mark.slow
def test_another_law_is_rejected():
    net = Network("relu", "orthogonal", C_W=2)
    samples = deep.simulate(net, X, 1, 64, 1000, seed=3)
    assert not deep.compare(deep.law(RELU, X, 1), samples, 1e-6).agrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "width"),
    [
        (Network("relu", "uniform", C_W=2), 48),
        (Network.critical("relu", layer="residual(skip=1/2)"), 64),
        (Network.critical("relu", layer="dropout(3/4)"), 48),
        (Network("linear", "gaussian; (orthogonal; gaussian)*"), 96),
    ],
    ids=str,
)
def test_other_layers_and_laws_by_quantiles(net, width):
    """Four nets, two tests each: a false alarm in 10⁵; the limit is off by O(1/n) at finite n."""
    samples = deep.simulate(net, X, 1, width, 500, seed=5)
    assert deep.compare(deep.law(net, X, 1), samples, 1e-5 / 4).agrees


def test_first_and_last_layers_move_the_mean():
    """K is multiplied by C_W⟨σσ⟩ = 1/2 at layer 2, and by 3 at the last one."""
    laws = "gaussian(C_W=2); gaussian(C_W=1/2); gaussian(C_W=1)*; gaussian(C_W=3)"
    law = deep.law(Network("linear", laws), X, 1)
    assert law.log_mean == sympy.log(R(3, 2)) - 1
    assert law.start == pytest.approx(2 * np.square(X).mean())
    samples = deep.simulate(Network("linear", laws), X, 1, 64, 400, seed=2)
    assert deep.compare(law, samples, 1e-5).agrees
    with pytest.raises(InputError, match="inputs"):
        deep.compare(law, deep.simulate(Network("linear"), [2.0], 1, 8, 3))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_signals_that_are_the_same_everywhere(law):
    """Two taps: of two Haar matrices the cross term fluctuates, s = 3 + 1."""
    net = Network("relu", law, C_W=2, layer="convolution(2, 3)")
    signal = np.ones((3, 2)) * [1.0, 0.5]
    exact = deep.law(net, signal, 1)
    assert exact.log_variance == (5 if law == "gaussian" else 4)
    samples = deep.simulate(net, signal, 1, 32, 400, seed=1)
    assert samples.values.shape == (400,)
    assert deep.compare(exact, samples, 1e-5).agrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "layer", "depth"),
    [
        ("gaussian", "skip(1/2)", 50),
        ("orthogonal", "skip(1/2)", 50),
        ("orthogonal", "around(convolution(2, 3), skip=1/2)", 16),
    ],
)
def test_a_skip_around_one_matrix(law, layer, depth):
    """g and s are the slopes of G1/K and V/K² by `flow`, at depths where 2^{−depth} is left."""
    net = Network("leaky_relu(1/4)", f"{law}(C_W=24/17)", layer=layer)
    inputs = np.ones((3, 1)) * X if "conv" in layer else X
    walk = deep.law(net, inputs, 1).walk
    table = flow(net, inputs, depth, ["K", "G1", "V"], width=8)
    K, G1, V = (table[name].to_numpy().reshape(depth, -1)[:, 0] for name in ("K", "G1", "V"))
    close = 32 * 2.0**-depth + 1e-11
    assert np.diff(G1 / K)[-1] == pytest.approx(float(walk.drift), abs=close)
    assert np.diff(V / K**2)[-1] == pytest.approx(float(walk.spread), abs=close)


@pytest.mark.slow
def test_networks_behind_such_skips():
    """n = L = 128, as of dense layers, of two laws; and not the law without memory, s = 4.74."""
    for law in ("gaussian", "orthogonal"):
        net = Network("relu", f"{law}(C_W=3/2)", layer="skip(1/2)")
        exact = deep.law(net, X, 1)
        samples = [deep.simulate(net, X, 1, 128, 500, seed=k) for k in range(8)]
        agreement = deep.compare(exact, samples, 1e-5)
        assert agreement.agrees
        assert float((agreement.table["ks"] / agreement.table["ks_own"]).mean()) < 1.5


def test_positions_that_differ():
    """Circular taps keep the mean of K over the positions."""
    signal = np.array([[1.0, 0.5], [-0.3, 1.2], [2.0, -1.0]])
    mean = 2 * np.square(signal).mean()
    for layer in ("convolution(2, 3)", "convolution(2, 3, readout=mean)"):
        law = deep.law(Network("relu", C_W=2, layer=layer), signal, 1)
        assert (law.start, law.log_variance) == (pytest.approx(mean), 5)
    for sigma, layer in (("linear", "convolution(2, 3)"), ("relu", "convolution(1, 3)")):
        with pytest.raises(InputError, match="two slopes"):
            deep.law(Network.critical(sigma, layer=layer), signal, 1)
    pooled = Network("relu", C_W=2, layer="pooling(3, 3); dense*")
    with pytest.raises(InputError, match="two slopes"):
        deep.law(pooled, signal, 1)
    same = np.ones((3, 1)) * signal[0]
    law, samples = deep.law(pooled, same, 1), deep.simulate(pooled, same, 1, 32, 300)
    assert law.start == samples.start == pytest.approx(1.25)
    assert deep.compare(law, samples, 1e-5).agrees
    with pytest.raises(InputError, match="pools"):
        deep.simulate(pooled, signal, 1, 8, 2)


@pytest.mark.slow
def test_positions_become_alike():
    """n = 96: one test at 10⁻⁵, as of constant signals; and the ratios of K spread less."""
    signal = np.array([[1.0, 0.5], [-0.3, 1.2], [2.0, -1.0]])
    net = Network("relu", "orthogonal(C_W=2)", layer="convolution(2, 3)")
    law = deep.law(net, signal, 1)
    spreads = []
    for width in (32, 96):
        K = deep.simulate(net, signal, 1, width, 600, seed=1).values
        spreads.append(np.log(K[:, 0, 0] / K[:, 1, 1]).std())
    below = law.below(K[:, 0, 0])
    assert stats.kstest(below, "uniform").pvalue > 1e-5
    assert spreads[1] < 0.5 * spreads[0] < 0.1


def test_a_picture_counts_networks_that_are_0():
    law = deep.law(RELU, X, 8)
    axes = picture(law, [deep.simulate(RELU, X, 8, 2, 9), deep.simulate(RELU, X, 1, 4, 99)]).axes
    first, last = (each.get_text() for each in axes[0].get_legend().get_texts())
    assert re.fullmatch("n = 4, L = 5, [0-9]+ are 0", first)
    assert last == "law"
    with pytest.raises(InputError, match=r"^law: .*density"):
        picture(law.at(0))
