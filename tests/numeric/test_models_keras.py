"""Models of Keras, by their layers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from derive import InputError
from numeric import flow, models

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
reason = "needs keras on tensorflow: wickgarten[keras], make test-models"
pytest.importorskip("tensorflow", reason=reason)
keras = pytest.importorskip("keras", reason=reason)
Dense = keras.layers.Dense

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def sequential():
    he = keras.initializers.HeNormal
    return keras.Sequential([
        keras.Input((6,)), Dense(24, activation="relu", kernel_initializer=he()),
        Dense(24, activation="relu", kernel_initializer=he()), Dense(3),
    ])  # fmt: skip


def functional():
    x = keras.Input((6,))
    z = Dense(24)(x)
    y = Dense(24, activation="silu")(keras.layers.LayerNormalization()(z))
    return keras.Model(x, Dense(2)(keras.layers.Add()([z, Dense(24)(y)])))


def test_a_sequential_model():
    made = models.read(sequential())
    assert made.widths == (6, 24, 24, 3)
    kernels = [each for path, each in made.laws.items() if path.endswith("kernel")]
    assert [(each.kind, each.C) for each in kernels[:2]] == [("truncated normal", 2)] * 2
    assert kernels[2].kind == "uniform"


def test_a_functional_model():
    made = models.read(functional())
    (block,) = [each for each in made.structure.blocks if each.norm]
    assert (block.norm, block.skip, str(block.function)) == ("layer", 1, "silu")


def test_what_is_measured_is_what_the_model_computes():
    """Values, tangents and Jacobians, compiled, beside Keras's own, one initialization by one."""
    found = models.read(sequential, draws=20)
    reading, nodes = found.reading, [block.node for block in found.structure.blocks]
    X = np.random.default_rng(0).standard_normal((2, 6))
    made = reading.initialize(range(3))
    values, below = X[None], 0
    for node in nodes:
        values, below = reading.propagate(made, below, values, node), node
    tangents = reading.tangents(made, X, nodes)
    jacobians = reading.jacobian(made, X[0], nodes[-1], 0)
    between = reading.jacobian(made, X[0], nodes[1], nodes[0])
    for at in range(3):
        keras.utils.set_random_seed(at)
        model = sequential()
        rows = model(X.astype("float32")).numpy()
        np.testing.assert_allclose(values[at], rows, rtol=1e-5, atol=1e-6)
        W = [np.asarray(each.value, float) for each in model.trainable_variables][::2]
        hidden = [X @ W[0]]
        hidden.append(np.maximum(hidden[0], 0) @ W[1])
        steps = [np.diag(1.0 * (z[0] > 0)) for z in hidden]
        np.testing.assert_allclose(between[at], (steps[0] @ W[1]).T, atol=1e-5)
        slopes = (W[0] @ steps[0] @ W[1] @ steps[1] @ W[2]).T
        np.testing.assert_allclose(jacobians[at], slopes, rtol=1e-4, atol=1e-5)
        kernel = X @ X.T + 1  # of the first layer: its matrix and its bias
        np.testing.assert_allclose(tangents[at, 0], kernel, rtol=1e-5)


def with_heads(as_keys):
    x = keras.Input((6,))
    h = Dense(12, activation="tanh")(x)
    policy = Dense(3, activation="softmax", name="policy")(h)
    value = Dense(1, name="value")(h)
    return keras.Model(x, {"pi": policy, "v": value} if as_keys else [policy, value])


@pytest.mark.parametrize(("as_keys", "name"), [(True, "v"), (False, "value")])
def test_one_of_several_outputs_is_read(as_keys, name):
    made = models.read(with_heads(as_keys), draws=8, output=name)
    assert made.widths == (6, 12, 1)
    assert not any("policy" in path for path in made.laws)
    with pytest.raises(InputError, match="output: got None"):
        models.read(with_heads(as_keys))


def test_what_cannot_be_read_is_named():
    model = keras.Sequential([keras.Input((4,)), Dense(4), keras.layers.BatchNormalization()])
    with pytest.raises(InputError, match="no layer here is a BatchNormalization"):
        models.read(model)


@pytest.mark.slow
def test_a_matrix_acts_at_each_position():
    """K of the last layer is that of the model's own draws; a false alarm in 10⁶."""
    X = np.random.default_rng(1).standard_normal((1, 3, 5))

    def make():
        layers = [keras.Input((3, 5)), Dense(24, "tanh"), keras.layers.GlobalAveragePooling1D()]
        return keras.Sequential([*layers, Dense(24, use_bias=False)])

    found = models.read(make, X, draws=20)
    assert found.positions == (3,)
    made = found.reading.initialize(range(40))
    z = found.reading.propagate(made, 0, X[None], found.structure.blocks[-1].node)
    own = (z.reshape(40, -1) ** 2).mean(axis=1)
    K = flow(found.network, found.samples(X), 2, ["K"], width=24)["K"].to_numpy()[-1]
    assert abs(own.mean() - K.mean()) < 5 * own.std() / 40**0.5 + K.mean() / 24


@pytest.mark.slow
@pytest.mark.parametrize("make", [sequential, functional])
def test_measured_tensors_agree_with_theory(make):
    found = models.report(make(), draws=100)
    assert found.agrees, str(found)


@pytest.mark.slow
def test_values_side_by_side_have_columns_of_their_own():
    def beside():
        x = keras.Input((6,))
        z = Dense(8)(x)
        both = keras.layers.Concatenate()([Dense(12, activation="tanh")(z), z])
        return keras.Model(x, Dense(3)(both))

    made = models.read(beside, draws=8)
    names = [path for path in made.laws if path.endswith("]")]
    assert len(names) == 2
    drawn, last = made.reading.initialize([4]), made.structure.blocks[-1].node
    X = np.random.default_rng(0).standard_normal((2, 6))
    keras.utils.set_random_seed(4)
    own = np.asarray(beside()(X))
    np.testing.assert_allclose(made.reading.propagate(drawn, 0, X[None], last)[0], own, atol=1e-5)
