"""Theory of trained networks of skips around one matrix, which a dense layer reads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

from derive import Network, layers
from derive.errors import InputError
from numeric import compare
from numeric.training import flow, learning_rate, posterior, simulate

GIVEN = {"C_b": 0.1, "lambda_b": 0.5, "lambda_W": 0.8}
X, Y, TESTS = [[1.2, 0.7], [-0.5, 1.1]], [0.6, -0.4], [[0.3, 0.8]]
READ = "skip(1/2)*; dense"


def test_linear_networks_train_as_by_a_layer_that_rotations_keep():
    """With σ = z the same networks have a description without functionals: all tables agree."""
    known = layers.Layer("z[i] = gamma z[i] + b[i] + W[i,a] z[a]", gamma="1/2")
    one, other = (
        Network("linear", "orthogonal", layer=layers.by_depth(block=block, head="dense"), **GIVEN)
        for block in (layers.skip("1/2"), known)
    )
    trained, same = (
        flow(net, X[:1], Y[:1], None, 3, 0.05, [0, 1, 7, math.inf]) for net in (one, other)
    )
    seen, as_seen = (posterior(net, X, Y, TESTS, 3, 0.1) for net in (one, other))
    assert abs(same["ntk1"].sel(step=7)).max() > 1.0
    for table, expected in ((trained, same), (seen, as_seen)):
        for name in (each for each in expected if not each.endswith(("_error", "_size"))):
            scale = float(abs(expected[name]).max()) or 1.0
            assert np.allclose(table[name], expected[name], rtol=1e-9, atol=1e-11 * scale)
    rates, as_known = (learning_rate(net, X, 3) for net in (one, other))
    assert rates["layer"].to_numpy().tolist() == [1, 3]
    for name in as_known:
        if not name.endswith("_error"):
            assert np.allclose(rates[name], as_known[name].sel(layer=[1, 3]), rtol=1e-9)


def test_trained_ensembles_meet_theory():
    """tanh, four layers, coefficients of 1/n after 1 and 4 steps: 16 numbers, |z| < 6."""
    net = Network("tanh", "gaussian", layer=READ, **GIVEN)
    theta = flow(net, X[0], 0.6, None, 4, 0, 0)["ntk"].item()
    eta, steps = 1 / theta, [1, 4]
    theory = flow(net, X[0], 0.6, None, 4, eta, steps)
    measured = [simulate(net, X[0], 0.6, None, n, 4, eta, steps, draws=1500) for n in (32, 64, 128)]
    found = compare(theory, measured, degree=1)
    assert found.agrees
    kernel = [row for row in found.rows if row.tensor.startswith("ntk1")]
    assert len(kernel) == 2
    assert all(row.share < 0.5 for row in kernel)


def test_outputs_behind_a_skip_are_refused():
    """Their cumulants at one neuron are no sums over pairings."""
    net = Network("tanh", layer="skip(1/2)", **GIVEN)
    for made in (
        lambda: flow(net, X, Y, None, 3, 0.1),
        lambda: posterior(net, X, Y, None, 3),
        lambda: learning_rate(net, X, 3),
        lambda: flow(Network("tanh", layer="dense*; skip(1/2)"), X, Y, None, 3, 0.1),
    ):
        with pytest.raises(InputError, match=r"'skip\(1/2\)\*; dense'"):
            made()


def test_norms_and_kinks_are_refused_where_descent_needs_dH():
    """What needs no dH is there."""
    net = Network("tanh", layer="skip(1/2, norm=layer)*; dense", **GIVEN)
    with pytest.raises(InputError, match="norm"):
        flow(net, X, Y, None, 3, 0.1)
    with pytest.raises(InputError, match="kinks"):
        flow(Network("relu", layer=READ), X, Y, None, 3, 0.1)
    assert np.isfinite(posterior(net, X[0], 0.6, TESTS, 3)["covariance1"]).all()
    assert np.isfinite(learning_rate(net, X[0], 3)["stable_variance"]).all()


@pytest.mark.parametrize("depth", [3, np.int64(3), np.int32(3), sympy.Integer(3)], ids=repr)
@pytest.mark.parametrize("layer", ["dropout(4/5)", "skip(1/2)"])
def test_what_is_refused_does_not_depend_on_how_the_depth_is_written(layer, depth):
    """Nor on widths, of which the first few layers may be computed."""
    net = Network("tanh", layer=layer, **GIVEN)
    for made in _all(net, depth):
        with pytest.raises(InputError, match=r"^layer"):
            made()


def test_the_layer_that_is_computed_last_is_checked():
    """Layer 2 of three is a skip, and outputs are those of layer 2."""
    block = layers.skip("1/2"), layers.dense()
    stacked = Network("tanh", layer=layers.by_depth(stem=block), widths=(2, 16, 16, 16), **GIVEN)
    for made in _all(stacked, 2):
        with pytest.raises(InputError, match=r"^layer: got 'skip\(1/2\)'"):
            made()
    for made in _all(Network("tanh", layer=READ), None):
        with pytest.raises(InputError, match=r"^depth: got None; wanted a depth"):
            made()


def _all(net, depth):
    return (
        lambda: flow(net, X, Y, None, depth, 0.1, 1),
        lambda: posterior(net, X, Y, None, depth),
        lambda: learning_rate(net, X, depth),
    )
