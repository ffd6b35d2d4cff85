"""`jax_initializer`: Haar's law at every dtype, kernels of any layout, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy
from sample_haar import BOUND, DTYPES, entry_scores, trace_scores

from derive import (
    Gaussian,
    Independent,
    InputError,
    LowRankGaussian,
    Orthogonal,
    Rademacher,
    Sparse,
    Truncated,
)
from numeric.init import gain, jax_initializer

jax = pytest.importorskip("jax", reason="the extra `jax` is not installed")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def drawn(shape, draws, dtype="float64", weights="orthogonal", seed=0):
    """(draws, n_out, n_in) with C_W = 1."""
    made = jax_initializer("linear", weights, batch_axis=(0,))
    kernels = made(jax.random.key(seed), (draws, shape[1], shape[0]), dtype)
    assert kernels.dtype == dtype
    return np.asarray(kernels.astype("float64")).transpose(0, 2, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_squares_are_haars(dtype):
    matrices = drawn((5, 5), 1500, dtype, seed=list(DTYPES).index(dtype))
    scores = trace_scores(matrices)
    assert max(map(abs, scores.values())) < BOUND, scores
    off = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(5)).max()
    assert 0 < off < 8 * DTYPES[dtype]


@pytest.mark.parametrize(
    "law", [Orthogonal(), Gaussian(), LowRankGaussian(gamma=0.5), Truncated(ratio=2)], ids=str
)
@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_rectangles_have_the_moments_of_the_ensemble(law, shape):
    scores = entry_scores(drawn(shape, 1500, weights=law), law, shape[1], shape[0])
    assert max(map(abs, scores.values())) < BOUND, scores


@pytest.mark.parametrize(
    "law", ["uniform", "rademacher", "truncated-normal", "student(9)", "sparse(0.3)"]
)
def test_independent_entries_have_their_kurtosis(law):
    made = jax_initializer("linear", law)
    W = np.asarray(made(jax.random.key(4), (200, 300))) * np.sqrt(200)
    for power, exact in ((2, 1.0), (4, 3 + float(made.weights.cumulant(4)))):
        values = W**power
        error = values.std() / np.sqrt(values.size) + 1e-12
        assert abs(values.mean() - exact) < BOUND * error


def test_laws_within_laws():
    sparse = jax_initializer("linear", Sparse(p=0.5, of=Rademacher()))
    kinds = np.unique(np.round(np.asarray(sparse(jax.random.key(0), (8, 50))) * np.sqrt(8), 6))
    assert kinds == pytest.approx([-np.sqrt(2), 0, np.sqrt(2)], abs=1e-5)
    with pytest.raises(InputError, match="an ensemble that JAX can draw"):
        jax_initializer("linear", Independent({4: 1}))(jax.random.key(0), (3, 3))


def test_rectangles_are_orthogonal_with_the_variance_of_the_house():
    """With jax.nn.initializers' `orthogonal` beside: the same but for √(n_out/n_in)."""
    made, key = jax_initializer("relu"), jax.random.key(0)
    narrow, wide = made(key, (64, 16), "float64"), made(key, (16, 48), "float64")
    assert jnp.allclose(narrow.T @ narrow, 2 * jnp.eye(16), atol=1e-13)
    assert jnp.allclose(wide @ wide.T, 2 * 48 / 16 * jnp.eye(16), atol=1e-13)
    theirs = jax.nn.initializers.orthogonal(2**0.5)(key, (16, 48), "float64")
    assert jnp.allclose(theirs @ theirs.T, 2 * jnp.eye(16), atol=1e-13)


def test_kernels_of_convolutions():
    made, key = jax_initializer("relu"), jax.random.key(1)
    kernel = np.asarray(made(key, (3, 4, 6, 6), "float64"))
    middle = kernel[1, 1]
    assert np.allclose(middle @ middle.T, 2 * np.eye(6), atol=1e-13)
    assert np.count_nonzero(kernel) == np.count_nonzero(middle)
    every = np.asarray(jax_initializer("relu", filters="all")(key, (3, 4, 6, 6), "float64"))
    for tap in every.reshape(12, 6, 6):
        assert np.allclose(tap @ tap.T, 2 / 12 * np.eye(6), atol=1e-13)
    assert not np.allclose(every[0, 0], every[0, 1])
    theirs = jax.nn.initializers.delta_orthogonal(2**0.5)(key, (3, 3, 6, 6), "float64")
    assert np.count_nonzero(theirs) == 36


def test_axes_are_those_of_the_layout():
    """Equinox has (out, in, …taps), JAX and Flax (…taps, in, out)."""
    made = jax_initializer("linear", in_axis=1, out_axis=0)
    kernel = np.asarray(made(jax.random.key(0), (6, 4, 3), "float64"))
    assert np.allclose(kernel[:, :, 1].T @ kernel[:, :, 1], 6 / 4 * np.eye(4), atol=1e-13)
    batched = jax_initializer("linear", in_axis=1, out_axis=2, batch_axis=(0, 3))
    kernels = np.asarray(batched(jax.random.key(0), (2, 5, 5, 3), "float64"))
    for one in kernels.transpose(0, 3, 1, 2).reshape(6, 5, 5):
        assert np.allclose(one @ one.T, np.eye(5), atol=1e-13)
    assert len({round(float(each), 9) for each in kernels[:, 0, 0].flat}) == 6


def test_it_is_traced_and_obeys_its_key():
    made = jax_initializer("gelu")
    plain = made(jax.random.key(7), (9, 9))
    assert plain.dtype == jnp.float64
    assert jnp.allclose(jax.jit(lambda key: made(key, (9, 9)))(jax.random.key(7)), plain)
    both = jax.vmap(lambda key: made(key, (9, 9)))(jax.random.split(jax.random.key(7)))
    assert not jnp.allclose(both[0], both[1])
    assert jnp.array_equal(made(jax.random.PRNGKey(7), (9, 9)), plain)
    assert jnp.array_equal(pickle.loads(pickle.dumps(made))(jax.random.key(7), (9, 9)), plain)


def test_biases():
    made, key = jax_initializer("gelu"), jax.random.key(0)
    drawn = np.asarray(made.bias(key, (4000,), "float64"))
    std = gain("gelu").std_b
    assert drawn.std() == pytest.approx(std, rel=5 / np.sqrt(8000))
    assert made.bias(key, (3,), "bfloat16").dtype == jnp.bfloat16
    assert not jax_initializer("tanh").bias(key, (3,)).any()
    assert repr(made.bias) == "biases of standard deviation 0.415839"


def test_in_flax():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    made = jax_initializer("relu")
    layer = nnx.Linear(8, 8, kernel_init=made, bias_init=made.bias, rngs=nnx.Rngs(0))
    kernel = np.asarray(layer.kernel[...])
    assert np.allclose(kernel @ kernel.T, 2 * np.eye(8), atol=1e-5)


def test_it_says_what_it_is():
    text = str(jax_initializer("relu", "gaussian"))
    assert text.splitlines()[0] == "Gaussian(C_W=2), kernels with more axes: all"
    assert "χ_∥ = χ_⊥ = 1" in text


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: jax_initializer("sigmoid"), "activation"),
        (lambda: jax_initializer("relu", "none"), "weights"),
        (lambda: jax_initializer("relu", Truncated(ratio=sympy.Symbol("r"))), "weights"),
        (lambda: jax_initializer("relu", filters="some"), "filters"),
        (lambda: jax_initializer("relu", in_axis="in"), "in_axis"),
        (lambda: jax_initializer("relu")(jax.random.key(0), (3,)), "shape"),
        (lambda: jax_initializer("relu")(jax.random.key(0), (3, -3)), "shape"),
        (lambda: jax_initializer("relu")(jax.random.key(0), (3, 3), "int32"), "dtype"),
        (lambda: jax_initializer("relu")(jax.random.key(0), (3, 3), "complex64"), "dtype"),
        (
            lambda: jax_initializer("relu", in_axis=0, out_axis=-2)(jax.random.key(0), (3, 3)),
            "in_axis, out_axis, batch_axis",
        ),
    ],
)
def test_bad_input_is_named(make, argument):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.argument == argument
