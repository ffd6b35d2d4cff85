"""What the claims of source 003 and 004 rest on: each helper at a case known otherwise."""

import numpy as np
import pytest
import sympy

from derivations.daneshmand import activations as with_activations
from derivations.daneshmand import vanilla
from derivations.daneshmand.gradients import BLOCK, growth_of
from derivations.daneshmand.untrained import kernels
from derivations.moments.isotropic import ANY
from derivations.pdlt.correlators import closed_factor, insertions
from derive import activations, linear
from derive.symbols import n


def test_growth_of_exponents_is_the_mean_of_log_chi_squared():
    rng = np.random.default_rng(5)
    logs = np.log(rng.chisquare(5 - 2 + 1, 100_000) / 5)  # d = 5, i = 2
    derived = float(vanilla.growth(2).subs(vanilla.d, 5).evalf())
    assert abs(logs.mean() - derived) < 5 * logs.std() / np.sqrt(logs.size)
    assert abs(derived - float(vanilla.growth(3).subs(vanilla.d, 5).evalf())) > 0.1


def test_drift_of_the_mean_is_the_slope_that_is_printed():
    assert with_activations.drift_of_mean(200) == pytest.approx(1, abs=3e-3)
    assert with_activations.drift_of_mean(400) == pytest.approx(1, abs=1e-3)


def test_constants_of_a_chain_in_fewer_dimensions():
    for centered, size in ((False, 6), (True, 5)):
        found = with_activations.leading_deviation(activations.linear, 6, centered)
        assert found == pytest.approx((size - 1) * (size + 2) ** 2 / (4 * size * (size + 1)))


@pytest.mark.parametrize("m", [1, 2])
def test_insertions_make_each_pairing_once(m):
    assert insertions(m).kind == "exact"


def test_closed_factor_is_the_census_at_every_m():
    for m in range(1, 5):
        closed = sympy.gammasimp(closed_factor().subs(ANY, m))
        assert sympy.simplify(closed - linear.contraction_factor(m, n)) == 0


def test_kernels_align():
    K = kernels(np.eye(2), 20)
    cosine = K[:, 0, 1] / K[:, 0, 0]
    # the first layer keeps the inputs orthogonal, and then c' = (√(1−c²) + (π − arccos c)c)/π
    assert cosine[0] == pytest.approx(0, abs=1e-12)
    assert cosine[1] == pytest.approx(1 / np.pi)
    assert (np.diff(cosine) > 0).all()


def grown_with_matrices(draws, width, size, depth, orthogonal, rng):
    """`growth_of` tanh with every matrix built."""

    def frames(columns):
        Q, _ = np.linalg.qr(rng.standard_normal((draws, width, columns)))
        return Q * rng.choice([-1, 1], (draws, 1, columns))

    def matrix():
        normal = rng.standard_normal((draws, width, width))
        return frames(width) if orthogonal else normal / np.sqrt(width)

    def centred(x):
        return x - x.mean(axis=2, keepdims=True)

    phi, layers = np.sqrt(width) * frames(size), []
    for _ in range(depth):
        W = matrix()
        z = centred(W @ phi)
        scale = np.sqrt((z**2).mean(axis=2, keepdims=True))
        layers.append((W, z / scale, scale))
        phi = np.tanh(z / scale)
    delta = centred(rng.standard_normal(phi.shape))
    start, W = (delta**2).sum(axis=(1, 2)), matrix()
    for below, y, scale in reversed(layers):
        x = centred((W.mT @ delta) / np.cosh(y) ** 2)
        delta, W = (x - y * (x * y).mean(axis=2, keepdims=True)) / scale, below
    return np.log((delta**2).sum(axis=(1, 2)) / start)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_gradients_grow_as_with_whole_matrices(orthogonal):
    """Mean and square at 5 standard errors: two numbers each, 2e-6 of false alarms together."""
    width, size, depth, draws = 24, 7, 2, 2000
    whole = grown_with_matrices(draws, width, size, depth, orthogonal, np.random.default_rng(2))
    work = growth_of("tanh", size, width, depth, draws, 3, orthogonal)
    found = work.sums(0, draws, work.reference)
    for power in (1, 2):
        one, two = (each**power for each in (whole, found))
        error = np.hypot(one.std(), two.std()) / np.sqrt(draws)
        assert abs(one.mean() - two.mean()) < 5 * error < 0.2 * two.std()


def test_growth_does_not_depend_on_chunks():
    work = growth_of("relu", 6, 20, 2, 3 * BLOCK - 5, 4, True)
    parts = [work.sums(at, min(at + BLOCK, work.draws), work.reference) for at in (0, 32, 64)]
    assert np.array_equal(np.concatenate(parts), work.sums(0, work.draws, work.reference))
