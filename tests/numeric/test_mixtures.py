"""K, G1 and V of six random mixtures of activations, laws and layers, beside their networks."""

from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from mixtures import ENTRIES, ROTATIONS, applied, controls, known, limits, mixtures, sampled

from derive import Gaussian, Orthogonal, Sparse

MIXTURES = mixtures(6, seed=0)
DRAWS = 20_000, 80_000
"""At each width: of networks with independent entries, and of the others."""
RESOLUTION = {"G1": 0.03, "V": 0.05}
"""Standard errors at most, of G1 over K and of V over V."""
FALSE_ALARMS = 1e-3
BOUND = NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * 3 * len(MIXTURES)))
"""Of |z|, for all comparisons together (Bonferroni)."""


@cache
def estimates(number):
    """Of the networks of a mixture, and its theory."""
    mixture = MIXTURES[number]
    return sampled(mixture, DRAWS[number % 2], seed=number), mixture.theory()


def scores(found, theory):
    """z of K, G1 and V, and their standard errors."""
    values, errors = limits(found, theory[0])
    return (values - theory) / errors, errors


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MIXTURES)))
def test_networks_agree_with_theory(number):
    """In the limit n → ∞ by a parabola in 1/n; all 18 comparisons have one rate of false alarms."""
    found, (K, G1, V) = estimates(number)
    z, errors = scores(found, np.array([K, G1, V]))
    assert errors[1] <= RESOLUTION["G1"] * K
    assert errors[2] <= RESOLUTION["V"] * abs(V)
    assert np.abs(z).max() < BOUND, (MIXTURES[number].net, z)


def with_another_sigma(mixture):
    """The same but for the activation of its last layer."""
    *others, one = mixture.blocks
    other = "tanh" if one.sigma == "gelu" else "gelu"
    return mixture._replace(blocks=(*others, one._replace(sigma=other)))


def with_another_law(mixture):
    """The same but for the law of its last matrix, of equal variance."""
    *others, one = mixture.blocks
    *inner, last = one.laws
    kind = Gaussian if isinstance(last, Orthogonal) else Orthogonal
    changed = one._replace(laws=(*inner, kind(last.C_W)), bound=one.bound or bool(inner))
    return mixture._replace(blocks=(*others, changed))


@pytest.mark.slow
@pytest.mark.parametrize("change", [with_another_sigma, with_another_law])
def test_a_wrong_activation_or_law_is_found(change):
    """In every mixture: the last layer of the theory is not that of the networks."""
    seen = []
    for number, mixture in enumerate(MIXTURES):
        z, _ = scores(estimates(number)[0], change(mixture).theory())
        seen.append(np.abs(z).max() > BOUND)
    assert all(seen), seen


@pytest.mark.parametrize("kind", ROTATIONS + ENTRIES)
def test_controls_have_mean_zero(kind):
    """At n = 8 and vectors of any size. False alarms: 6 comparisons at 5 standard errors."""
    rng = np.random.default_rng(0)
    more = {"gamma": "1/2"} if kind in ROTATIONS[2:] else {}
    law = Sparse("1/2", C_W=2) if kind is Sparse else kind(2, **more)
    v = rng.standard_normal((20_000, 8)) * rng.random((20_000, 1))
    b = np.sqrt(0.1) * rng.standard_normal(v.shape)
    c = np.array([*controls((b + applied(law, v, rng), known(law, v).biased))])
    z = c.mean(axis=1) / c.std(axis=1) * np.sqrt(c.shape[1])
    assert np.abs(z).max() < 5
