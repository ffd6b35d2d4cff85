"""The tower of the tangent kernel behind functions of all samples: exact cases, and ensembles."""

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal, layers, recursion
from numeric import flow

BATCH = np.random.default_rng(0).standard_normal((4, 6))
TOWER = ["Theta1", "D", "F", "A", "B"]
HIGHER = ["P", "Q", "R", "S", "T", "U"]
ONE_SAMPLE = layers.Layer(
    "y[i;s] = z[i;s] + eps*mean_s(z[i;s]^2)", "z[i;s] = b[i] + W[i,a] s(y[a;s])", eps=0
)
CENTRED = layers.Layer("y[i;s] = z[i;s] - mean_s(z[i;s])", "z[i;s] = b[i] + W[i,a] s(y[a;s])")


def projection(m):
    return np.eye(m) - 1.0 / m


def agree(found, known, names, first=0):
    for name in names:
        values, expected = (each[name].to_numpy()[first:] for each in (found, known))
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11 * abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "names"),
    [("tanh", [*TOWER, *HIGHER]), ("relu", TOWER[1:])],
    ids=["tanh", "relu"],
)
def test_a_function_of_one_sample_has_the_dense_tower(activation, names):
    found, known = (
        flow(
            Network(activation, Orthogonal(1.5), C_b=0.1, layer=layer), BATCH[:2], 3, names, width=8
        )
        for layer in (ONE_SAMPLE, layers.dense())
    )
    agree(found, known, names)


@pytest.mark.slow
def test_centred_samples_have_the_tower_of_centred_inputs():
    """σ(P z) with z = W x is σ(W P x): all derivatives are between different samples."""
    given = {"C_b": 0, "lambda_b": 0, "lambda_W": 1.3}
    net = Network("tanh", Orthogonal(1.5), layer=CENTRED, **given)
    found = flow(net, BATCH[:2], 2, [*TOWER, *HIGHER])
    dense = flow(
        Network("tanh", Orthogonal(1.5), **given), projection(2) @ BATCH[:2], 2, [*TOWER, *HIGHER]
    )
    agree(found, dense, [*TOWER, *HIGHER], first=1)


@pytest.mark.slow
def test_a_mean_that_is_taken_off_is_a_mixing_of_samples():
    """With linear σ in the middle, and fluctuations of layers below and above."""
    found, known = (
        flow(
            Network(
                ["tanh", "linear", "tanh"],
                Gaussian(1.5),
                C_b=0.1,
                layer=layers.by_depth(layers.dense(), middle, layers.dense()),
            ),
            inputs,
            4,
            TOWER,
        )
        for middle, inputs in ((CENTRED, BATCH[:3]), (layers.mix(projection(3)), BATCH[None, :3]))
    )
    agree(found, known, TOWER, first=2)


@pytest.mark.parametrize("name", ["D", "F", "A", "B"])
def test_what_a_norm_fixes_has_no_gradient(name):
    """Σ_s y_s = 0 at every neuron, so no sum over samples of H has a gradient by the weights."""
    net = Network("linear", Gaussian(1.5), layer=layers.batchnorm("1/10"), lambda_b=0)
    values = flow(net, BATCH[:2], 3, [name])[name].to_numpy()[1:]
    assert np.abs(values).max() > 0.1
    for axis in range(1, 5):
        np.testing.assert_allclose(values.sum(axis), 0.0, atol=1e-12)


def test_equal_terms_are_added_up():
    shown = str(recursion("Theta1", layer=ONE_SAMPLE))
    assert "⟨∂_p∂_q∂_r∂_u(∂_xσ₁ ∂_yσ₂)⟩*Theta[x,y]*V[p,q,r,u]/8" in shown
    assert "⟨∂_p∂_q(∂_xσ₁ ∂_yσ₂)⟩*F[p,x,q,y]" in shown


def test_second_derivatives_of_a_kink_are_refused():
    net = Network("relu", layer=layers.batchnorm("1/10"))
    with pytest.raises(InputError, match="without kinks"):
        flow(net, BATCH[:2], 2, ["P"])
