"""Stable and fastest learning rates: against eigenvalues of exactly sampled tangent kernels."""

import numpy as np
import pytest

from derive import Gaussian, Network, Orthogonal, Rademacher
from derive.errors import InputError
from numeric import flow as flow_of
from numeric.training import flow, learning_rate

X = np.array([[1.0, 0.3, 0.2], [-0.6, 1.2, 0.5], [0.2, -0.4, 0.3]])


def _eigenvalues(n, draws, C_W, orthogonal, seed):
    """Of the tangent kernels of two layers, tanh between them, n neurons, the values descending:
    (draws, N) each; and H itself, (draws, N, N), whose mean is Θ at any n."""
    rng = np.random.default_rng(seed)
    K = C_W * X @ X.T / X.shape[1]
    start = 1 + X @ X.T / X.shape[1]
    found = []
    for _ in range(0, draws, 2000):
        z = rng.standard_normal((2000, n, len(X))) @ np.linalg.cholesky(K).T
        s = np.tanh(z)
        w = rng.standard_normal((2000, n, 1))
        w *= np.sqrt(C_W / n if not orthogonal else C_W / (w**2).sum(axis=1, keepdims=True))
        slopes = w * (1 - s**2)
        H = 1 + s.transpose(0, 2, 1) @ s / n + slopes.transpose(0, 2, 1) @ slopes * start
        found.append(H)
    H = np.concatenate(found)
    return np.linalg.eigvalsh(H)[:, ::-1], H


@pytest.mark.parametrize("weights", [Gaussian(C_W="3/2"), Orthogonal(C_W="3/2")], ids=str)
@pytest.mark.parametrize("draws", [4000, pytest.param(50_000, marks=pytest.mark.slow, id="many")])
def test_eigenvalues_of_exactly_sampled_kernels(weights, draws):
    # the first layer's weights are Gaussian, as its inputs are fewer than its neurons at any n
    net = Network("tanh", weights, first_weights=Gaussian(C_W="3/2"))
    table = learning_rate(net, X, 2).sel(layer=2)
    functions = {  # and what they change by in a line, whose mean is known to be 0
        "eigenvalue": (lambda values: values, lambda values, change: change),
        "stable": (
            lambda values: 2 / values[..., 0],
            lambda values, change: -2 / values[0] ** 2 * change[:, 0],
        ),
        "fastest": (
            lambda values: 2 / (values[..., 0] + values[..., -1]),
            lambda values, change: (
                -2 / (values[0] + values[-1]) ** 2 * (change[:, 0] + change[:, -1])
            ),
        ),
    }
    theta = flow_of(net, X, 2, "Theta")["Theta"].to_numpy()[-1]
    limits, U = (each[..., ::-1] for each in np.linalg.eigh(theta))
    n = 48
    both = {k: _eigenvalues(k * n, draws, 1.5, isinstance(weights, Orthogonal), k) for k in (1, 2)}
    for name, (function, linear) in functions.items():
        limit = table[name].to_numpy()
        mean, error, spread, spread_error = {}, {}, {}, {}
        for k, (values, H) in both.items():
            own = function(values)
            beyond = own - limit - linear(limits, np.einsum("dab,ai,bi->di", H - theta, U, U))
            mean[k] = k * n * beyond.mean(axis=0)
            error[k] = k * n * beyond.std(axis=0) / np.sqrt(draws)
            squares = (own - own.mean(axis=0)) ** 2
            spread[k] = k * n * squares.mean(axis=0)
            spread_error[k] = k * n * squares.std(axis=0) / np.sqrt(draws)
        for theory, at, errors in (
            (f"{name}1", mean, error),
            (f"{name}_variance", spread, spread_error),
        ):
            found = 2 * at[2] - at[1]
            se = np.hypot(2 * errors[2], errors[1])
            own = table[theory].to_numpy()
            assert (abs(found - own) < 5 * se + (0.02 * abs(own) if draws > 10**4 else 0)).all()
            assert draws < 10**4 or (se < 0.1 * abs(own).max()).all()


def test_descent_diverges_above_the_stable_rate():
    net = Network("tanh", "orthogonal", C_b=0.1)
    eta = float(learning_rate(net, X, 3)["stable"].sel(layer=3))
    assert flow(net, X, [0, 1, -1], None, 3, 0.999 * eta, [np.inf])["loss"].item() < 1e-9
    with pytest.raises(InputError, match=r"^eta"):
        flow(net, X, [0, 1, -1], None, 3, 1.001 * eta, [np.inf])


def test_one_input_is_contracted_in_a_step():
    table = learning_rate(Network("tanh"), X[0], 3)
    assert table["fastest"].to_numpy() == pytest.approx(table["stable"].to_numpy() / 2)
    variance = table["fastest_variance"].to_numpy()
    assert variance == pytest.approx(table["stable_variance"].to_numpy() / 4)
    assert (variance[1:] > 0).all()
    assert variance[0] == 0


def test_the_kurtosis_of_the_weights_moves_the_tangent_kernel():
    """Of W₂ W₁ x it is 1 + |W₁x|²/n + |W₂|² (1 + |x|²/n_0)."""
    q = X[0] @ X[0] / 3
    for law, kurtosis in ((Gaussian, 0), (Rademacher, -2)):
        table = learning_rate(Network("linear", law(C_W="3/2")), X[0], 2).sel(layer=2)
        exact = 1.5**2 * (2 * q**2 + (2 + kurtosis) * (1 + q) ** 2)
        assert table["eigenvalue_variance"].item() == pytest.approx(exact, rel=1e-12)


def test_eigenvalues_that_meet_are_named():
    square = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(InputError, match=r"^inputs: got '3, for which eigenvalues of Θ meet at"):
        learning_rate(Network("tanh"), square, 2)
    with pytest.raises(InputError, match=r"^net"):
        learning_rate("tanh", square, 2)


def test_what_no_rate_moves_is_named():
    with pytest.raises(InputError, match=r"^net: got rates λ_b and λ_W without effect"):
        learning_rate(Network("tanh", lambda_b=0, lambda_W=0), X[:2], 2)
    with pytest.raises(InputError, match=r"^inputs: got 0 alone, and λ_b = 0"):
        learning_rate(Network("tanh", lambda_b=0), [0.0, 0.0], 2)


def test_no_rate_contracts_what_does_not_descend():
    """An input that is there twice has twice the eigenvalue of one, and one that stays 0."""
    net = Network("tanh", C_b=0.1)
    one, twice = (learning_rate(net, inputs, 2) for inputs in (X[0], X[[0, 0]]))
    for name in ("stable", "fastest", "fastest1"):
        assert twice[name].to_numpy() == pytest.approx(one[name].to_numpy() / 2, rel=1e-9)
