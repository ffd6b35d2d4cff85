"""Fixed points of exchangeable tokens, and how fast they become alike: fractions, and flows."""

from fractions import Fraction

import numpy as np
import pytest

from derive import Exchangeable, InputError, Network, layers
from numeric import flow
from numeric.propagation import fixed_points


@pytest.mark.parametrize(("skip", "tokens", "p"), [("1/2", 5, "1/2"), ("3/4", 2, -1)])
def test_rank_collapse_of_relu(skip, tokens, p):
    """Uniform attention moves all tokens alike, so δ' = γ² (γ² + χ/K_a) δ with χ = 1/2, where
    K_a = γ² q + 1 and q' = γ² K_a + 1/2."""
    g = float(Fraction(skip)) ** 2
    net = Network("relu", layer=layers.transformer(4, tokens, skip=skip))
    table = fixed_points(net, Exchangeable(tokens, 1, p))
    q = (g + 0.5) / (1 - g**2)
    np.testing.assert_allclose(table["K"], [q, q], rtol=1e-12)
    rate = g * (g + 0.5 / (g * q + 1))
    assert abs(table["difference_rate"] - rate) <= table["difference_rate_error"] < 1e-7
    np.testing.assert_allclose(table["kernel_rate"], sorted([rate, g**2])[::-1], atol=1e-7)


@pytest.mark.slow
def test_tokens_that_stay_apart():
    """tanh with a large C_W takes tokens apart; the flow ends at the same kernel, at this rate."""
    block = layers.transformer(8, 8, skip="1/2", C=(1, 1, 1, 1))
    net, tokens = Network("tanh", C_W=8, layer=block), Exchangeable(8, 1, "1/2")
    table = fixed_points(net, tokens)
    flowed = flow(net, tokens, 200, ["K", "V"])
    K = flowed["K"].sel(orbit=["(11)", "(12)"]).to_numpy()
    assert "difference_rate" not in table
    assert K[-1, 0] - K[-1, 1] > 1
    np.testing.assert_allclose(table["K"].sel(orbit=["(11)", "(12)"]), K[-1], rtol=1e-8)
    for orbit in ("(11)(11)", "(12)(12)", "(12)(34)"):
        limit = table.sel(orbit=orbit)
        assert 0 < limit["V_error"] < 1e-9
        np.testing.assert_allclose(limit["V"], flowed["V"].sel(orbit=orbit)[-1], rtol=1e-7)
    np.testing.assert_allclose(table["V_rate"], table["kernel_rate"][0] ** 2, rtol=1e-8)
    steps = np.diff(K[:, 1])
    np.testing.assert_allclose(table["kernel_rate"][0], steps[60] / steps[59], rtol=1e-3)


@pytest.mark.slow
def test_the_gain_of_scores_is_not_in_the_rate():
    """Scores over the root of d: the scores of tokens that are almost equal are almost equal."""
    block = layers.transformer("n/16", 2, scores="1/sqrt(d)", skip="1/2", C=(4, 1, 1, 1))
    table = fixed_points(Network("relu", layer=block), Exchangeable(2, 1, "9/10"))
    assert abs(table["difference_rate"] - 1 / 6) <= table["difference_rate_error"] < 1e-6


@pytest.mark.parametrize(
    ("skip", "inputs", "reason"),
    [
        (1, Exchangeable(2, 1, 0), "in the last layer q changed by 1.48"),
        (1, Exchangeable(3, 1, 0), "2 inputs, the tokens"),
    ],
)
def test_refusals(skip, inputs, reason):
    net = Network("relu", layer=layers.transformer(4, 2, skip=skip))
    with pytest.raises(InputError, match=reason):
        fixed_points(net, inputs)


@pytest.mark.slow
def test_a_skip_of_one_turns_the_rate_into_a_power():
    """1 − ρ falls like ℓ^{χ/g − 1}: K grows by g = C_W² (1 + ⟨σ²⟩) = 3/2 a block, and χ = 1/2.
    V/K² of such tokens falls more slowly than the 1/ℓ of equal ones."""
    net = Network("relu", layer=layers.transformer(4, 4))
    table = flow(net, Exchangeable(4, 1, 0), 201, ["K", "V"])
    q, p = (table["K"].sel(orbit=orbit).to_numpy() for orbit in ("(11)", "(12)"))
    V = table["V"].sel(orbit="(11)(11)").to_numpy()
    powers, of_V = (
        np.log2([each[2 * at] / each[at] for at in (50, 100)]) for each in (1 - p / q, V / q**2)
    )
    limit = powers[1] - (powers[1] - powers[0]) / (1 - 2 ** (1 / 3))  # corrections ℓ^{-1/3}
    assert abs(powers[1] + 2 / 3) < 0.04
    assert abs(limit + 2 / 3) < 0.015
    assert (abs(of_V + 0.72) < 0.02).all()
