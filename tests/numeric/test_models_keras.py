"""Models of Keras, by their layers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from derive import InputError
from numeric import flow, models

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
reason = "needs keras on tensorflow: wickgarten[keras], make test-models"
tensorflow = pytest.importorskip("tensorflow", reason=reason)
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


def vision():
    """A block as in Keras's example of ViT: patches, attention and an MLP, each behind a norm."""
    layers = keras.layers
    x = keras.Input((4, 5))
    z = Dense(16)(x)
    y = layers.LayerNormalization(epsilon=1e-6)(z)
    z = layers.Add()([layers.MultiHeadAttention(4, 4, dropout=0.1)(y, y), z])
    y = layers.LayerNormalization(epsilon=1e-6)(z)
    y = layers.Dropout(0.1)(Dense(32, activation="gelu")(y))
    z = layers.Add()([Dense(16)(y), z])
    return keras.Model(x, Dense(3)(layers.GlobalAveragePooling1D()(z)))


def causal():
    x = keras.Input((4,))
    z = keras.layers.Embedding(10, 16)(x)
    y = keras.layers.LayerNormalization(epsilon=1e-6)(z)
    z = z + keras.layers.MultiHeadAttention(4, 4)(y, y, use_causal_mask=True)
    return keras.Model(x, Dense(3)(z[:, -1]))


def sums():
    """Kernels of several axes."""
    einsum = keras.layers.EinsumDense
    return keras.Sequential([
        keras.Input((4, 5)),
        einsum("abc,cd->abd", (None, 16), bias_axes="d"),
        einsum("abc,cde->abde", (None, 4, 6), bias_axes="de", activation="tanh"),
        einsum("abde,dec->abc", (None, 8), activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        Dense(2),
    ])  # fmt: skip


def batched(trainable=True):
    norm = keras.layers.BatchNormalization(trainable=trainable)
    parts = [Dense(16), norm, keras.layers.Activation("relu"), Dense(3)]
    return keras.Sequential([keras.Input((5,)), *parts])


RANDOM = np.random.default_rng(0)
SEQUENCES, IDS = RANDOM.standard_normal((3, 4, 5)), RANDOM.integers(0, 10, (2, 4))


@pytest.mark.parametrize(
    ("make", "inputs", "training"),
    [
        (vision, SEQUENCES, False),
        (causal, IDS, False),
        (sums, SEQUENCES, False),
        (batched, SEQUENCES[:, 0], True),
        (lambda: batched(trainable=False), SEQUENCES[:, 0], False),
    ],
    ids=["vision", "causal", "sums", "batched", "evaluated"],
)
def test_what_is_read_has_the_values_and_tangents_of_the_model(make, inputs, training):
    """Of the model itself, of its layers, and of the network as it was read."""
    found = models.read(make, inputs, draws=8)
    reading, node = found.reading, found.structure.blocks[-1].node
    made, drawn, rows = reading.initialize([1, 2]), found.drawn(), found.by_positions(inputs)
    matrices = {path: np.asarray(each) for path, each in reading.values(made).items()}
    values = reading.propagate(made, 0, inputs[None].astype(float), node)
    for seed, each in zip((1, 2), values, strict=True):
        keras.utils.set_random_seed(seed)
        own = make()(inputs.astype("float32"), training=training).numpy()
        np.testing.assert_allclose(each, own, rtol=1e-4, atol=1e-5)
    read = drawn.propagate(matrices, 0, rows[None], node)
    np.testing.assert_allclose(read.reshape(values.shape), values, rtol=1e-4, atol=1e-5)
    tangents = reading.tangents(made, inputs.astype(float), [node])
    np.testing.assert_allclose(tangents, drawn.tangents(matrices, rows, [node]), rtol=1e-4)
    assert found.batch == (len(inputs) if training else 0)


def test_an_instance_is_drawn_by_its_initializers():
    """Those of attention's own layers and of tables too, one unlike the next."""
    made = models.read(causal(), IDS, draws=8)
    one, other = (made.reading.draw(seed) for seed in (1, 2))
    assert all(not np.array_equal(one[path], other[path]) for path in one if "bias" not in path)
    (table,) = (law for path, law in made.laws.items() if "embeddings" in path)
    assert (table.kind, table.shape) == ("uniform", (16, 10))
    assert "4 heads of 4 neurons, masked" in " ".join(made.remarks)


def refusing(how):
    layers, x = keras.layers, keras.Input((4, 5))
    z = Dense(8)(x)
    if how == "two":
        return keras.Model(x, layers.MultiHeadAttention(2, 4)(z, Dense(8)(z)))
    if how == "masks":
        mask = np.tril(np.ones((3, 4, 4)))
        return keras.Model(x, layers.MultiHeadAttention(2, 4)(z, z, attention_mask=mask))
    if how == "sizes":
        return keras.Model(x, layers.MultiHeadAttention(2, 4, value_dim=2)(z, z))
    if how == "inputs":
        return keras.Model(x, layers.MultiHeadAttention(2, 4)(x, x))
    if how == "einsum":
        return keras.Model(x, layers.EinsumDense("abc,bd->acd", (8, 4))(z))
    if how == "padding":
        x = keras.Input((4,))
        return keras.Model(x, layers.Embedding(10, 8, mask_zero=True)(x))
    return keras.Model(x, layers.MaxPooling1D(2)(z))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("two", r"multi_head_attention\w*: attention between two values"),
        ("masks", r"multi_head_attention\w*: an attention_mask of its own for each input"),
        ("sizes", "values of 2 neurons in a head, and keys of 4"),
        ("inputs", "put a Dense in front"),
        ("einsum", "einsum_dense.*abc,bd->acd: read are sums over the last axes"),
        ("padding", "mask_zero: give inputs without padding"),
        ("pool", "largest of several positions"),
    ],
)
def test_what_is_refused_names_the_layer_and_the_way(how, told):
    with pytest.raises(InputError, match=told):
        models.read(lambda: refusing(how), IDS if how == "padding" else SEQUENCES, draws=8)


def test_batch_norm_needs_a_batch():
    with pytest.raises(InputError, match="without a batch: inputs= gives it"):
        models.read(batched, draws=8)


def test_steps_of_keras_are_refused_with_the_way():
    def made(width):
        return keras.Sequential([keras.Input((5,)), Dense(width), Dense(2)])

    with pytest.raises(InputError, match="write the same layers in one of these"):
        models.coordinate_check(made, [4, 8], SEQUENCES[:, 0])


@pytest.mark.parametrize(("held", "trained"), [((), (0, 1, 2)), ((1,), (0, 2)), ((0, 1), (2,))])
def test_frozen_layers_do_not_move_outputs(held, trained):
    """Θ is the sum of |∂z/∂W|² + |∂z/∂b|² of the layers that are trained."""
    dense = [Dense(16, "tanh"), Dense(16, "tanh"), Dense(2)]
    model = keras.Sequential([keras.Input((6,)), *dense])
    for at in held:
        dense[at].trainable = False
    found, X = models.read(model, draws=8), np.random.default_rng(0).standard_normal((2, 6))
    made, node = found.reading.initialize([1]), found.structure.blocks[-1].node
    shown, total = found.reading.tangents(made, X, [node])[0, 0], np.zeros((2, 2))
    for at in trained:
        with tensorflow.GradientTape() as tape:
            tape.watch(dense[at].kernel.value)
            tape.watch(dense[at].bias.value)
            z = model(X)[:, 0]
        for each in tape.jacobian(z, [dense[at].kernel.value, dense[at].bias.value]):
            flat = np.reshape(each, (2, -1))
            total += flat @ flat.T
    np.testing.assert_allclose(shown, total, rtol=1e-4)
    assert sum("not trained" in each for each in found.remarks) == bool(held)
    theory = float(flow(found.network, X[0], 3, "Theta")["Theta"][-1])
    drawn = [
        found.reading.tangents(found.reading.initialize([key]), X, [node])[0, 0, 0, 0]
        for key in range(2, 18)
    ]  # one of 16 neurons is up to 60 % from the mean
    assert abs(theory / np.mean(drawn) - 1) < 0.25
