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
        self.b = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        return self.b(nnx.relu(self.norm(self.a(x))))


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


class Causal(nnx.Module):
    """A block of a small GPT: tokens and positions, causal attention, and an MLP."""

    def __init__(self, rngs, n=16):
        self.tokens, self.places = nnx.Embed(10, n, rngs=rngs), nnx.Embed(3, n, rngs=rngs)
        self.first, self.second = nnx.LayerNorm(n, rngs=rngs), nnx.LayerNorm(n, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, n, n, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(n, 4 * n, rngs=rngs), nnx.Linear(4 * n, n, rngs=rngs)
        self.head = nnx.Linear(n, 2, rngs=rngs)

    def __call__(self, x):
        z = self.tokens(x) + self.places(jax.numpy.arange(x.shape[1]))
        z = z + self.attention(self.first(z), mask=nnx.make_causal_mask(x))
        z = z + self.down(nnx.gelu(self.up(self.second(z))))
        return self.head(z[:, -1])


class VisionBlock(linen.Module):
    """As in google-research/vision_transformer, `Encoder1DBlock`."""

    @linen.compact
    def __call__(self, x):
        y = linen.LayerNorm()(x)
        init = linen.initializers.xavier_uniform()
        x = x + linen.MultiHeadDotProductAttention(num_heads=4, kernel_init=init)(y, y)
        y = linen.gelu(linen.Dense(32)(linen.LayerNorm()(x)))
        return x + linen.Dense(16)(linen.Dropout(0.1)(y, deterministic=True))


class Vision(linen.Module):
    """Patches, a class token and positions, as in google-research/vision_transformer."""

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(16, (2, 2), strides=(2, 2), padding="VALID")(x)
        b, h, w, c = x.shape
        normal = linen.initializers.normal(0.02)
        token = jax.numpy.tile(self.param("cls", normal, (1, 1, c)), [b, 1, 1])
        x = jax.numpy.concatenate([token, x.reshape(b, h * w, c)], axis=1)
        x = VisionBlock()(x + self.param("positions", normal, (1, 5, c)))
        return linen.Dense(3)(linen.LayerNorm()(x)[:, 0])


class TokensOfLinen(linen.Module):
    """A table, which takes whole numbers alone."""

    @linen.compact
    def __call__(self, x):
        z = linen.Embed(10, 16)(x) * 4.0
        return linen.Dense(3)(linen.tanh(linen.Dense(16)(z)).mean(1))


class ByHand(linen.Module):
    """Attention as its formula, queries, keys and values from one matrix."""

    order: str = "keys"
    mask: bool = True

    @linen.compact
    def __call__(self, x):
        z = linen.Dense(16)(x)
        B, T, n = z.shape
        packed = jax.numpy.split(linen.Dense(3 * n, use_bias=False)(linen.RMSNorm()(z)), 3, -1)
        q, k, v = (e.reshape(B, T, 4, -1).transpose(0, 2, 1, 3) for e in packed)
        A = q @ k.swapaxes(-1, -2) / math.sqrt(n // 4)
        if self.mask:
            above = jax.numpy.tril(jax.numpy.ones((T, T))) == 0
            A = jax.numpy.where(above, -jax.numpy.inf, A)
        A = jax.nn.softmax(A, axis=-1 if self.order == "keys" else -2)
        if self.order == "queries":
            A = A.swapaxes(-1, -2)
        if self.order == "heads":
            A = jax.nn.softmax(A, axis=1)
        z = z + linen.Dense(n)((A @ v).transpose(0, 2, 1, 3).reshape(B, T, n))
        return linen.Dense(2)(z.mean(1))


class Tokens(eqx.Module):
    table: eqx.nn.Embedding
    places: jax.Array
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.table, self.norm = eqx.nn.Embedding(10, 16, key=keys[0]), eqx.nn.LayerNorm(16)
        self.places = jax.random.normal(keys[1], (3, 16))
        self.attention = eqx.nn.MultiheadAttention(4, 16, key=keys[2])
        self.head = eqx.nn.Linear(16, 2, key=keys[3])

    def __call__(self, x):
        z = jax.vmap(self.table)(x) + self.places
        y = jax.vmap(self.norm)(z)
        mask = jax.numpy.tril(jax.numpy.ones((3, 3), bool))
        return self.head((z + self.attention(y, y, y, mask=mask))[-1])


class General(nnx.Module):
    """Kernels of several axes."""

    def __init__(self, rngs):
        self.first = nnx.LinearGeneral(6, (4, 5), rngs=rngs)
        self.second = nnx.LinearGeneral((4, 5), 8, axis=(-2, -1), rngs=rngs)
        self.third = nnx.Einsum("bi,io->bo", (8, 3), (3,), rngs=rngs)

    def __call__(self, x):
        return self.third(nnx.relu(self.second(nnx.tanh(self.first(x)))))


class BatchedLinen(linen.Module):
    train: bool = True

    @linen.compact
    def __call__(self, x):
        norm = linen.BatchNorm(use_running_average=not self.train)
        return linen.Dense(3)(linen.relu(norm(linen.Dense(8)(x))))


class BatchedEquinox(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        one, other = jax.random.split(key)
        self.first, self.last = eqx.nn.Linear(6, 8, key=one), eqx.nn.Linear(8, 3, key=other)
        self.norm = eqx.nn.BatchNorm(8, "batch", mode="batch")

    def __call__(self, x, state):
        z, state = self.norm(self.first(x), state)
        return self.last(jax.nn.relu(z)), state


def with_state(key):
    return eqx.nn.make_with_state(BatchedEquinox)(key)


RANDOM = np.random.default_rng(0)
IDS, ROWS = RANDOM.integers(0, 10, (2, 3)), RANDOM.standard_normal((4, 6))
SEQUENCES, IMAGES = RANDOM.standard_normal((2, 3, 5)), RANDOM.standard_normal((2, 4, 4, 3))


def of_nnx(kind):
    return lambda seed, X: kind(nnx.Rngs(seed))(X)


def of_linen(model):
    def own(seed, X):
        variables = model.init(jax.random.PRNGKey(seed), X[:1])
        return model.apply(variables, X, mutable=["batch_stats"])[0]

    return own


def of_state(seed, X):
    model, state = with_state(jax.random.PRNGKey(seed))
    return jax.vmap(model, (0, None), (0, None), axis_name="batch")(X, state)[0]


ARCHITECTURES = {
    "gpt": (Causal, IDS, of_nnx(Causal)),
    "vit": (Vision(), IMAGES, of_linen(Vision())),
    "tokens of linen": (TokensOfLinen(), IDS, of_linen(TokensOfLinen())),
    "by hand": (ByHand(), SEQUENCES, of_linen(ByHand())),
    "equinox": (Tokens, IDS, lambda seed, X: jax.vmap(Tokens(jax.random.PRNGKey(seed)))(X)),
    "general": (General, ROWS, of_nnx(General)),
    "batch of nnx": (Batched, ROWS, of_nnx(Batched)),
    "batch of linen": (BatchedLinen(), ROWS, of_linen(BatchedLinen())),
    "batch of equinox": (with_state, ROWS, of_state),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_read_has_the_values_and_tangents_of_the_model(name):
    """Of the model itself, of its nodes, and of the network as it was read."""
    make, X, own = ARCHITECTURES[name]
    found = models.read(make, X, draws=8)
    reading, (*_, block) = found.reading, found.structure.blocks
    made, drawn, rows = reading.initialize([1, 2]), found.drawn(), found.by_positions(X)
    matrices = {path: np.asarray(each) for path, each in reading.values(made).items()}
    values = reading.propagate(made, 0, X[None].astype(float), block.node)
    expected = np.array([own(seed, jax.numpy.asarray(X)) for seed in (1, 2)])
    np.testing.assert_allclose(values.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
    read = drawn.propagate(matrices, 0, rows[None], block.node)
    np.testing.assert_allclose(read.reshape(values.shape), values, rtol=1e-4, atol=1e-5)
    tangents = reading.tangents(made, X.astype(float), [block.node])
    np.testing.assert_allclose(tangents, drawn.tangents(matrices, rows, [block.node]), rtol=1e-4)


def test_the_heads_are_those_of_the_model():
    made = models.read(Causal, IDS, draws=8)
    assert [what for what, _, _ in made.rows()] == [
        "1: matrix",
        "2: layer norm, attention, skip",
        "3: layer norm, gelu(tanh), skip",
        "4: matrix",
    ]
    assert "4 heads of 4 neurons, masked" in " ".join(made.remarks)
    with pytest.raises(InputError, match="whole ones from 0 to 9"):
        made.by_positions(IDS + 8)


def test_keys_that_are_summed_over_queries_are_told_by_the_softmax():
    """softmax over queries of qk is attention of keys to queries."""
    kernels = [models.read(ByHand(order, mask=False), SEQUENCES, draws=8).drawn().graph
               for order in ("keys", "queries")]  # fmt: skip
    weights = []
    for graph in kernels:
        (node,) = (each for each in graph.nodes if hasattr(each, "query"))
        weights.append([graph.nodes[at].weight for at in (node.query, node.key)])
    assert weights[0] == weights[1][::-1]


class NormedQueries(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(5, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, x):
        q = self.first(x).reshape(1, 3, 4, 4)
        q = q / jax.numpy.sqrt((q**2).mean(-1, keepdims=True) + 1e-6)
        return self.last(q.reshape(1, 3, 16).mean(1))


class Stopped(linen.Module):
    """Attention by its formula, part of which has no gradient, or is not of scores."""

    where: str

    @linen.compact
    def __call__(self, x):
        z = linen.Dense(16)(x)
        B, T, n = z.shape
        own = {name: linen.Dense(n)(z).reshape(B, T, 4, -1) for name in "qkv"}
        if self.where in own:
            own[self.where] = jax.lax.stop_gradient(own[self.where])
        if self.where == "one key":
            own["k"] = linen.Dense(4)(z)
        keys = "bsd" if self.where == "one key" else "bshd"
        A = jax.numpy.einsum(f"bthd,{keys}->bhts", own["q"], own["k"]) / 4
        A = jax.lax.stop_gradient(A) if self.where == "scores" else A
        if self.where == "half":
            A = jax.numpy.exp(A) * 0.5
            A = A / A.sum(-1, keepdims=True)
        else:
            A = jax.nn.softmax(A, axis=-1)
        z = z + linen.Dense(n)(jax.numpy.einsum("bhts,bshd->bthd", A, own["v"]).reshape(B, T, n))
        return linen.Dense(2)(z.mean(1))


class Sines(linen.Module):
    """Fixed positions, which are no parameter."""

    @linen.compact
    def __call__(self, x):
        angles = jax.numpy.arange(3.0)[:, None] / 10.0 ** jax.numpy.arange(8)
        return linen.Dense(2)((linen.Dense(8)(x) + jax.numpy.sin(angles)).mean(1))


class Mixer(eqx.Module):
    """MLP-Mixer, as in equinox's examples: a random matrix over the patches."""

    first: eqx.nn.Conv2d
    patches: eqx.nn.MLP
    last: eqx.nn.Linear

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.first = eqx.nn.Conv2d(3, 8, 2, stride=2, key=one)
        self.patches = eqx.nn.MLP(4, 4, 16, 1, key=two)
        self.last = eqx.nn.Linear(8, 2, key=three)

    def __call__(self, x):
        y = self.first(x).reshape(8, 4)
        return self.last((y + jax.vmap(self.patches)(y)).mean(1))


def evaluated(rngs):
    model = Batched(rngs)
    model.norm.mean[...] = jax.numpy.ones(8)
    model.eval()
    return model


@pytest.mark.parametrize(
    ("make", "inputs", "told"),
    [
        (ByHand("heads"), SEQUENCES, r"test_models_jax.py, line \d+\): .*softmax"),
        (Stopped("q"), SEQUENCES, "a value whose gradient is stopped"),
        (Stopped("v"), SEQUENCES, "a value whose gradient is stopped"),
        (Stopped("scores"), SEQUENCES, "a value whose gradient is stopped"),
        (Stopped("half"), SEQUENCES, "in another way than softmax"),
        (Stopped("one key"), SEQUENCES, "heads that share keys or values: these are read of torch"),
        (NormedQueries, SEQUENCES, r"line \d+\): neurons along several axes.*norms of queries"),
        (Mixer, IMAGES.transpose(0, 3, 1, 2), r"over an axis of positions.*means over positions"),
        (Sines(), SEQUENCES, "a fixed table that is added at the positions"),
        (Batched, None, "without a batch: inputs= gives it"),
        (evaluated, ROWS, "running statistics that are not those of all neurons"),
    ],
)
def test_what_is_refused_names_the_place_and_the_reason(make, inputs, told):
    with pytest.raises(InputError, match=told):
        models.read(make, inputs, draws=8)


def test_in_evaluation_batch_norm_is_a_factor():
    made = models.read(BatchedLinen(train=False), ROWS, draws=8)
    assert made.batch == 0
    first = made.structure.graph.nodes[made.structure.blocks[0].node]
    assert float(first.scale) == pytest.approx((1 + 1e-5) ** -0.5, rel=1e-9)


def one_matrix(width):
    return linen.Dense(4, use_bias=False)


def test_one_matrix_descends_as_theory_says():
    """As of torch: mean squares after each step are exact, at 5 standard errors of 4 numbers."""
    found = models.coordinate_check(one_matrix, [1, 2], X[:, :3], draws=60)
    rows = [row for row in found.rows if row.optimizer == "SGD"]
    assert len(rows) == 4
    for row in rows:
        assert np.isfinite(row.theory).all()
        assert (abs(row.values - row.theory) < 5 * row.errors + 1e-6).all()


class Perceptron(eqx.Module):
    """The standard parametrisation, or muP with rates of `mup_rates`."""

    first: jax.Array
    hidden: jax.Array
    head: jax.Array
    factor: float = eqx.field(static=True)

    def __init__(self, width, factor, key):
        sizes = ((width, 6), (width, width), (4, width))
        keys = jax.random.split(key, 3)
        draw = jax.random.normal
        made = (draw(k, s) / math.sqrt(s[1]) for k, s in zip(keys, sizes, strict=True))
        (self.first, self.hidden, self.head), self.factor = made, factor

    def __call__(self, x):
        h = jax.numpy.tanh(self.hidden @ jax.numpy.tanh(self.first @ x))
        return self.factor * (self.head @ h)


def mup(width):
    return lambda key: Perceptron(width, (64 / width) ** 0.5, key)


def mup_rates(kind, rate):
    """Rates of muP by optax, Yang et al. 2022, table 3, with the output's factor."""
    optax = pytest.importorskip("optax", reason="needs optax: comes with flax")

    def made(own):
        ratio = own["first"].shape[0] / 64
        powers = {"SGD": (1, 0, 0), "Adam": (0, -1, -0.5)}[kind]
        names = ("first", "hidden", "head")
        rules = {name: getattr(optax, kind.lower())(rate * ratio**p)
                 for name, p in zip(names, powers, strict=True)}  # fmt: skip
        return optax.multi_transform(rules, {name: name for name in own})

    return made


@pytest.mark.slow
def test_mup_passes_and_the_standard_parametrisation_fails():
    optimizers = {kind: mup_rates(kind, rate) for kind, rate in (("SGD", 0.05), ("Adam", 1e-3))}
    good = models.coordinate_check(mup, [64, 256], ROWS[:2], optimizers=optimizers, draws=8)
    assert good.passed, str(good)
    assert all("muP" in told for told in good.names.values())

    def standard(width):
        return lambda key: Perceptron(width, 1.0, key)

    bad = models.coordinate_check(standard, [64, 256], ROWS[:2], steps=1, draws=8)
    assert not bad.passed
    assert all("standard" in told for told in bad.names.values())


def test_steps_of_adam_are_those_of_optax():
    """The change of the only matrix, by each, after three steps, is the same."""
    optax = pytest.importorskip("optax", reason="needs optax: comes with flax")
    by = {"Adam": lambda own: optax.adam(1e-3)}
    given = {"steps": 3, "draws": 3}
    other = models.coordinate_check(one_matrix, [1, 2], X[:, :3], optimizers=by, **given)
    ours = models.coordinate_check(one_matrix, [1, 2], X[:, :3], **given)
    rows = [[row.values for row in each.rows if row.optimizer == "Adam"] for each in (ours, other)]
    np.testing.assert_allclose(*rows, rtol=1e-4)
