"""⟨σσ⟩ at many kernels at once is that of the brackets of recursions, kernel by kernel."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.nait_saada_tanner import pair_averages as pairs
from derive import activations
from derive.gaussian import Bracket
from numeric.layers import averages

BOTH = Bracket(((0, 0), (1, 0)))


def kernels(seed: int) -> np.ndarray:
    """Of three inputs: general, all alike, collinear, with a vanishing one, and of many scales."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, 3, 4)) * np.geomspace(0.01, 8, 8)[:, None, None]
    X[1], X[3, 0] = X[1, 0], 0.0
    X[2] = np.outer([1.0, -1.0, 2.0], X[2, 0])
    return X @ X.transpose(0, 2, 1)


@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "softplus", "linear", "relu", "hard_tanh"])
def test_each_kernel_has_the_averages_of_the_recursions(name: str) -> None:
    activation, K = activations.by_name(name), kernels(3)
    of_one = averages.of_several(activation, [BOTH], 3)
    with np.errstate(over="ignore"):  # of the heights at which a polynomial's growth is known
        wanted = np.array([of_one(each)[0][of_one.places[BOTH][0]] for each in K])
        found = pairs.averages(activation, K)
        again = pairs.averages(activation, K[4:6])
    size = np.sqrt(np.einsum("caa,cbb->cab", wanted, wanted))
    assert (abs(found - wanted) <= 2e-14 * size).all()
    np.testing.assert_array_equal(again, found[4:6])


def test_leading_axes_stay() -> None:
    K = kernels(1).reshape(2, 4, 3, 3)
    found = pairs.averages(activations.tanh, K)
    np.testing.assert_array_equal(found[1, 2], pairs.averages(activations.tanh, K[1, 2]))


def test_what_is_no_covariance_has_no_average() -> None:
    K = np.array(
        [[[1.0, np.nan], [np.nan, 1.0]], [[1.0, 0.0], [0.0, -1.0]], [[1.0, 0.5], [0.5, 2]]]
    )
    with np.errstate(invalid="ignore"):
        found = pairs.averages(activations.tanh, K)[:, 0, 1]
    assert np.isnan(found).tolist() == [True, True, False]
