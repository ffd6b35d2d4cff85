"""Models of flax and equinox, by their jaxpr."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

from derive import InputError
from numeric import models

jax = pytest.importorskip("jax", reason="needs jax: wickgarten[jax], make test-models")
eqx = pytest.importorskip("equinox", reason="needs equinox: wickgarten[jax], make test-models")
flax = pytest.importorskip("flax", reason="needs flax: wickgarten[jax], make test-models")

from flax import linen, nnx  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def equinox_mlp(key):
    return eqx.nn.MLP(6, 3, 24, 2, activation=jax.nn.softplus, key=key)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.stem = nnx.Linear(6, 24, rngs=rngs)
        self.norm = nnx.RMSNorm(24, rngs=rngs)
        self.up, self.down = nnx.Linear(24, 48, rngs=rngs), nnx.Linear(48, 24, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Linear(24, 2, rngs=rngs)

    def __call__(self, x):
        z = self.stem(x)
        z = z + self.drop(self.down(nnx.gelu(self.up(self.norm(z)))))
        return self.head(z)


class Policy(linen.Module):
    @linen.compact
    def __call__(self, x):
        for _ in range(2):
            x = linen.tanh(
                linen.Dense(24, kernel_init=linen.initializers.orthogonal(math.sqrt(2)))(x)
            )
        return linen.Dense(3, kernel_init=linen.initializers.orthogonal(0.01))(x)


class Attention(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dense(8)(x)
        return linen.Dense(2)(linen.softmax(x))


X = np.random.default_rng(0).standard_normal((2, 6))


def test_equinox():
    made = models.read(equinox_mlp)
    assert (made.framework, made.widths) == ("equinox", (6, 24, 24, 3))
    assert made.network.activation.name == "softplus"
    assert str(made.network.weights) == "Uniform(C_W=1/3)"


def test_an_equinox_instance_is_drawn_by_its_own_laws():
    made = models.read(equinox_mlp(jax.random.PRNGKey(0)))
    assert "laws read off" in made.reading.how
    assert made.laws["layers.1.weight"].kind == "uniform"
    assert [str(made.laws[f"layers.{k}.bias"].C) for k in range(3)] == ["1/18", "1/72", "1/72"]
    again = made.reading.draw(1)["layers.1.weight"]
    assert again.shape == (24, 24)
    assert abs(again.var() * 24 - 1 / 3) < 0.05


def test_flax_nnx():
    made = models.read(Block)
    (block,) = [each for each in made.structure.blocks if each.norm]
    assert (block.norm, block.skip, str(block.function)) == ("rms", 1, "gelu(tanh)")
    assert made.laws["up.kernel"].kind == "truncated normal"
    assert (made.laws["up.kernel"].C, made.laws["up.kernel"].shape) == (1, (48, 24))


def test_flax_linen():
    made = models.read(Policy(), X)
    assert made.network.activation.name == "tanh"
    assert [str(each.C) for path, each in made.laws.items() if "kernel" in path] == [
        "1/2",
        "2",
        "1/10000",
    ]
    with pytest.raises(InputError, match="linen"):
        models.read(Policy())


class Twice(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __call__(self, x):
        return self.second(jax.numpy.tanh(self.first(x)))


def _bent(rule, slope):
    """tanh, with 1 − tanh² times a number for its derivative, by one of jax's rules."""

    def derivative(x):
        return slope * (1 - jax.numpy.tanh(x) ** 2)

    made = rule(jax.numpy.tanh)
    if rule is jax.custom_jvp:
        made.defjvp(lambda at, along: (made(at[0]), derivative(at[0]) * along[0]))
    else:
        made.defvjp(lambda x: (made(x), x), lambda x, change: (derivative(x) * change,))
    return made


@pytest.mark.parametrize("rule", [jax.custom_jvp, jax.custom_vjp])
def test_a_derivative_of_the_users_own_is_compared(rule):
    class Net(Twice):
        slope: float = eqx.field(static=True, default=1.0)

        def __call__(self, x):
            return self.second(_bent(rule, self.slope)(self.first(x)))

    def net(slope):
        return lambda key: Net(*unbiased(*jax.random.split(key)).__dict__.values(), slope)

    assert models.read(net(1.0), draws=8).network.activation.name == "tanh"
    for wrong in (1.01, 3.0):
        with pytest.raises(InputError, match="custom_jvp or custom_vjp"):
            models.read(net(wrong), draws=8)


def one_key(key):
    return Twice(eqx.nn.Linear(6, 6, key=key), eqx.nn.Linear(6, 6, key=key))


def unbiased(*keys):
    return Twice(*(eqx.nn.Linear(12, 12, use_bias=False, key=key) for key in keys))


def when_compiled(factor):
    """A maker of small weights that are another's under a compiler."""

    def make(key):
        scale = 1e-6 * (factor if isinstance(key, jax.core.Tracer) else 1)
        model = unbiased(*jax.random.split(key))
        return jax.tree.map(lambda leaf: scale * leaf if eqx.is_array(leaf) else leaf, model)

    return make


@pytest.mark.parametrize(("factor", "same"), [(1, True), (1.01, False)])
def test_small_weights_are_compared_by_their_size(factor, same):
    reading = models.read(when_compiled(factor), draws=8).reading
    values = reading.initialize(range(2))
    assert reading._together is same
    for got, (_, wanted) in zip(values, reading._drawn(1), strict=True):
        np.testing.assert_allclose(got[1], wanted, rtol=1e-3)


def test_one_model_of_identities_is_refused_by_their_law():
    key = jax.random.PRNGKey(0)
    one = unbiased(key, key)
    identities = jax.tree.map(lambda leaf: jax.numpy.eye(12) if eqx.is_array(leaf) else leaf, one)
    told = r"first.weight: unknown, .*entries 0, as no Haar matrix has"
    with pytest.raises(InputError, match=told) as raised:
        models.read(identities)
    assert "correlated" not in str(raised.value)
    with pytest.raises(InputError, match="correlated"):
        models.read(one)


class Batched(nnx.Module):
    def __init__(self, rngs):
        self.a, self.norm = nnx.Linear(6, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.a(x))


def batch_normalized(rngs):
    return Batched(rngs)


class Heads(eqx.Module):
    body: eqx.nn.Linear
    policy: eqx.nn.Linear
    value: eqx.nn.Linear

    def __call__(self, x):
        h = jax.numpy.tanh(self.body(x))
        policy = jax.nn.softmax(self.policy(h))
        return {"policy": policy, "logits": self.policy(h), "value": self.value(h)}


def with_heads(key):
    first, second, third = jax.random.split(key, 3)
    sizes = ((6, 12, first), (12, 3, second), (12, 1, third))
    return Heads(*(eqx.nn.Linear(a, b, key=each) for a, b, each in sizes))


def test_one_of_several_outputs_is_read():
    made = models.read(with_heads, draws=8, output="value")
    assert made.widths == (6, 12, 1)
    assert not any("policy" in path for path in made.laws)
    node = made.structure.blocks[-1].node
    values = made.reading.propagate(made.reading.initialize([3]), 0, X[None], node)
    expected = jax.vmap(with_heads(jax.random.PRNGKey(3)))(X)["value"]
    np.testing.assert_allclose(values[0], expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="meant: policy, logits, value"):
        models.read(with_heads)
    with pytest.raises(InputError, match=r"softmax|reduce_max|cannot read"):
        models.read(with_heads, output="policy")


class Square(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(x.reshape(x.shape[0], 7))


def test_inputs_that_a_model_of_linen_does_not_take():
    with pytest.raises(InputError, match=r"got '6 numbers each'; .* takes: TypeError: .*reshape"):
        models.read(Square(), X)


class Grouped(nnx.Module):
    """Groups of neurons, which jax has along an axis of their own."""

    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(6, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)
        self.norm = nnx.GroupNorm(16, 4, rngs=rngs)

    def __call__(self, x):
        return self.last(jax.nn.relu(self.norm(self.first(x))))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Grouped, "neurons along several axes, as of heads or groups"),
        (Attention, "reduce_max|softmax|cannot read"),
        (lambda: Block(nnx.Rngs(0)), "the same in every initialization"),
        (lambda width: None, "key, or rngs"),
        (one_key, "first.weight and second.weight, correlated"),
        (batch_normalized, "cannot read norm: batch normalization"),
    ],
)
def test_what_cannot_be_read_is_named(make, told):
    with pytest.raises(InputError, match=told):
        models.read(make, X)


class Dropping(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(6, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)
        self.off = nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, x):
        return self.last(self.off(jax.nn.relu(self.first(x))))


def test_dropout_is_off_and_is_told():
    """The user's own model stays as it is, in training."""
    model = Dropping(nnx.Rngs(0))
    assert "off: dropout 0.3, off as in evaluation" in models.read(model, draws=8).remarks
    assert not model.off.deterministic

    def equinox(key):
        one, other = jax.random.split(key)
        parts = [
            eqx.nn.Linear(6, 16, key=one),
            eqx.nn.Dropout(0.2),
            eqx.nn.Linear(16, 2, key=other),
        ]
        return eqx.nn.Sequential(parts)

    told = "layers.1: dropout 0.2, off as in evaluation"
    assert told in models.read(equinox, draws=40).remarks


@pytest.mark.parametrize(
    "function",
    [jax.nn.relu, jax.nn.silu, jax.nn.elu, jax.nn.leaky_relu, jax.nn.mish, jax.nn.hard_tanh,
     jax.nn.sigmoid, jax.nn.softplus, jax.nn.soft_sign, jax.numpy.tanh, jax.numpy.sin,
     lambda x: jax.nn.gelu(x, approximate=False), lambda x: x * jax.nn.sigmoid(1.7 * x)],
)  # fmt: skip
def test_activations(function):
    def make(key):
        return eqx.nn.MLP(4, 2, 8, 1, activation=function, key=key)

    sigma = models.read(make, draws=40).network.activation
    x = np.linspace(-3, 3, 13)
    ours = sympy.lambdify(sorted(sigma.expr.free_symbols, key=str), sigma.expr, ["scipy", "numpy"])(
        x
    )
    np.testing.assert_allclose(ours, function(x), atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("make", [equinox_mlp, Block, Policy()], ids=["equinox", "nnx", "linen"])
def test_measured_tensors_agree_with_theory(make):
    found = models.report(make, X, draws=200)
    assert found.agrees, str(found)


class FusedGate(eqx.Module):
    """A gate of one matrix, and what it is computed from beside it."""

    stem: eqx.nn.Linear
    both: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key):
        keys, sizes = jax.random.split(key, 3), ((6, 8), (8, 24), (20, 3))
        made = (eqx.nn.Linear(*size, key=own) for size, own in zip(sizes, keys, strict=True))
        self.stem, self.both, self.last = made

    def __call__(self, x):
        h = self.stem(x)
        z = self.both(h)
        return self.last(jax.numpy.concatenate([jax.numpy.tanh(z[:12]) * jax.nn.silu(z[12:]), h]))


@pytest.mark.slow
def test_parts_of_a_matrix_have_its_law_and_their_own_values():
    made = models.read(FusedGate, draws=8)
    assert made.laws["both.weight[12:24, 0:8]"].C == made.laws["both.weight[0:12, 0:8]"].C
    assert sympy.Rational(8, 60) == made.laws["last.weight[0:3, 12:20]"].C
    drawn, last = made.reading.initialize([4, 5]), made.structure.blocks[-1].node
    found = made.reading.propagate(drawn, 0, X[None], last)
    own = [jax.vmap(FusedGate(jax.random.PRNGKey(seed)))(jax.numpy.asarray(X)) for seed in (4, 5)]
    np.testing.assert_allclose(found, own, atol=1e-5)
    part = made.reading.values(drawn)["both.weight[12:24, 0:8]"][1]
    np.testing.assert_allclose(part, FusedGate(jax.random.PRNGKey(5)).both.weight[12:], atol=1e-6)
