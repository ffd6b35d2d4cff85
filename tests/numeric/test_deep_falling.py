"""nK of networks with K* = 0 at depth in proportion to width: moments, samples, networks."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy import stats

from derive import InputError, Network
from numeric import deep

R = sympy.Rational


@pytest.mark.parametrize(("name", "a"), [("tanh", 2), ("sin", 1), ("arctan", 2)])
def test_moments_are_a_closed_system(name, a):
    """⟨Y⟩ = a/s (e^{sr} − 1), and d⟨Y²⟩/dr = 2a⟨Y⟩ + 3s⟨Y²⟩, at s = 2."""
    law = deep.falling(Network(name), R(1, 3))
    r, s = R(1, 3), law.spread
    assert (law.coefficient, s) == (a, 2)
    assert sympy.simplify(law.inverse_moment() - R(a, 2) * (sympy.exp(s * r) - 1)) == 0
    square = a**2 * (R(1, 6) - sympy.exp(2 * r) / 4 + sympy.exp(6 * r) / 12)
    assert sympy.simplify(law.inverse_moment(2) - square) == 0


def test_orthogonal_networks_are_all_alike():
    law = deep.falling(Network("tanh", "orthogonal"), 2)
    assert [law.inverse_moment(m) for m in (1, 2)] == [4, 16]
    np.testing.assert_allclose(law.sample(3), 0.25)
    samples = deep.simulate(Network("tanh", "orthogonal"), [1.0, 0.5], 2, 96, 20, seed=1)
    assert np.ptp(96 * samples.values) < 0.05
    assert (96 * samples.values).mean() == pytest.approx(0.25, rel=0.05)


def test_samples_have_the_moments():
    """⟨Y⟩ and ⟨Y²⟩ at r = 1/4: two scores of 4.5."""
    law = deep.falling(Network("tanh"), "1/4")
    inverse = 1 / law.sample(20_000, steps=128, seed=1)
    for m in (1, 2):
        error = (inverse**m).std() / len(inverse) ** 0.5
        assert abs((inverse**m).mean() - float(law.inverse_moment(m))) < 4.5 * error


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["dense", "residual(skip=1/2)", "skip(1/2)"])
def test_networks_by_quantiles(layer):
    """n = L = 128: two samples, a false alarm in 10⁵ for each layer."""
    net = Network.critical("tanh", layer=layer)
    samples = deep.simulate(net, [1.0, 0.5], 1, 128, 600, depth=128, seed=4)
    exact = deep.falling(net, 1).sample(10_000, seed=2)
    assert stats.ks_2samp(128 * samples.values, exact).pvalue > 1e-5
    wrong = deep.falling(net, "1/2").sample(10_000, seed=2)
    assert stats.ks_2samp(128 * samples.values, wrong).pvalue < 1e-10


@pytest.mark.parametrize(
    "net",
    [
        Network("tanh", C_W=2),
        Network("tanh", C_b=1),
        Network("relu", C_W=2),
        Network("gelu"),
        Network("tanh; sin*"),
        Network("tanh", layer="normalized(rms)"),
        Network("tanh", layer="convolution(3, 4)"),  # nK depends on the signal
        Network("tanh", "gaussian(C_W=3/4)", layer="skip(1/2)", C_W_corrections=[1]),
    ],
    ids=str,
)
def test_what_is_refused(net):
    with pytest.raises(InputError):
        deep.falling(net, 1)
    with pytest.raises(InputError, match="ratio"):
        deep.falling(Network("tanh"), 0)
