"""Published models are read right, or refused with the reason; all spellings are one model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from derive import InputError, Orthogonal
from numeric import flow, models

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
from published_models import MODELS, inputs  # noqa: E402  (they need torch)

nn, F = torch.nn, torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

REFUSED = {
    "DeepONet": "a second argument of forward: .* read the network of each by itself",
    "MLP-Mixer": "a random matrix over positions",
    "ResNet without norms": r"no longer Gaussian; .* \(pre-activation\)",
    "ResNet with batch norm": "a matrix on what is a function of all samples",
    "TCN": "no longer Gaussian",
    "RealNVP coupling": "a part of the inputs: read the network that takes it by itself",
    "NeRF": r"l1.weight \(published_models.py:\d+\), l3.weight.* take them",
    "tied autoencoder": r"W, which is used twice.* \(published_models.py:\d+\)",
    "post-norm blocks": "post-norm",
}
DRAWN = [name for name in MODELS if name not in REFUSED]
DRAWS = 300


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    with pytest.raises(InputError, match=REFUSED[name]):
        models.read(MODELS[name].make, inputs(name), output=MODELS[name].output)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_K_is_that_of_the_models_own_initializations(name):
    """Of all layers and pairs of inputs; a false alarm in 10⁵ runs, and what 1/n² may add."""
    found = models.read(MODELS[name].make, inputs(name), output=MODELS[name].output)
    made, X = found.reading.initialize(range(10_000, 10_000 + DRAWS)), _raw(name)
    for layer, block in enumerate(found.structure.blocks, start=1):
        values = found.reading.propagate(made, 0, X[None], block.node)
        z = values.reshape(DRAWS, len(X), -1)
        own = np.einsum("dai,dbi->dab", z, z) / z.shape[2]
        theory, left_out = _theory(found, inputs(name), layer)
        error = own.std(axis=0, ddof=1) / math.sqrt(DRAWS)
        bound = -scipy.stats.norm.ppf(1e-6 / (3 * found.depth))
        scale = abs(theory).max()
        assert (abs(own.mean(axis=0) - theory) <= bound * error + left_out * scale).all(), layer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ViT", "NanoGPT"])
def test_a_sum_at_layer_1_is_drawn_matrix_by_matrix(name):
    """A token beside patches, and embeddings: with the model's own matrices all values are its
    own, and the tangent kernel."""
    found = models.read(MODELS[name].make, inputs(name), output=MODELS[name].output)
    drawn, nodes, X = found.drawn(), [each.node for each in found.structure.blocks], inputs(name)
    made, given = found.reading.initialize(range(2)), found.by_positions(X)
    own = {path: np.asarray(each, float) for path, each in found.reading.values(made).items()}
    assert drawn.is_known
    for node in nodes:
        values = found.reading.propagate(made, 0, X[None], node)
        np.testing.assert_allclose(drawn.propagate(own, 0, given[None], node), values, atol=1e-12)
    if name == "ViT":
        kernel = found.reading.tangents(made, X, nodes[-1:])
        np.testing.assert_allclose(drawn.tangents(own, given, nodes[-1:]), kernel, rtol=1e-11)


def _raw(name):
    given = inputs(name)
    several = given if isinstance(given, tuple) else (given,)
    if len(several) == 1:
        return several[0].astype(float)
    return np.concatenate([each.reshape(len(each), -1) for each in several], axis=1)


def _theory(found, X, layer):
    """K of a layer, means over positions, with 1/n where that is known; and what it leaves out."""
    n, given = found.widths[1], found.samples(X)
    try:
        if found.positions:
            raise InputError("inputs", "signals", "vectors: those take longer than a test may")
        table = flow(found.network, given, layer, ["K", "G1"], width=n)
        return (table["K"] + table["G1"] / n).to_numpy()[-1], 10 / n**2 + 1e-6
    except InputError:
        K = flow(found.network, given, layer, ["K"], width=n)["K"].to_numpy()[-1]
    m = len(given)
    K = np.einsum("apbp->ab", K.reshape(m, -1, m, len(K) // m)) / (len(K) // m)
    return K, 1 / n


class Spelled(nn.Module):
    """Two layers with orthogonal matrices, the second of which is spelled as given."""

    def __init__(self, second):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12, bias=False), second
        self.W = nn.Parameter(torch.empty(12, 12))
        self.V = nn.Parameter(torch.empty(3, 12))
        nn.init.orthogonal_(self.first.weight)
        nn.init.orthogonal_(self.W, 1.5)
        nn.init.orthogonal_(self.V)

    def forward(self, x):
        return F.linear(torch.tanh(self.second(torch.tanh(self.first(x)), self.W)), self.V)


SPELLINGS = {
    "@": lambda u, W: u @ W.T,
    "@ in its own order": lambda u, W: u @ W,
    "matmul": lambda u, W: torch.matmul(u, W.t()),
    "mm": lambda u, W: torch.mm(u, W.transpose(0, 1)),
    "einsum": lambda u, W: torch.einsum("bi,oi->bo", u, W),
    "einsum of a matrix first": lambda u, W: torch.einsum("oi, ...i -> ...o", W, u),
    "a factor and its inverse": lambda u, W: F.linear(2 * u, W / math.sqrt(4)),
    "a factor beside": lambda u, W: 3 * F.linear(u, W) / 3.0,
    "twice halved": lambda u, W: (u @ (0.5 * W).T) * 2,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_spellings_of_a_matrix_are_one_network(spelling):
    plain, found = (
        models.read(lambda each=each: Spelled(each), draws=8)
        for each in (F.linear, SPELLINGS[spelling])
    )
    assert found.network == plain.network
    assert found.laws["W"] == plain.laws["W"]
    X = np.random.default_rng(0).standard_normal((3, 6))
    made = found.reading.initialize([5])
    last = found.structure.blocks[-1].node
    torch.manual_seed(5)
    own = Spelled(SPELLINGS[spelling]).double()(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found.reading.propagate(made, 0, X[None], last)[0], own, atol=1e-6)


class Fused(nn.Module):
    """Branches of one matrix, and a matrix on values side by side."""

    def __init__(self):
        super().__init__()
        self.stem, self.both, self.last = nn.Linear(5, 8), nn.Linear(8, 24), nn.Linear(24, 2)

    def forward(self, x):
        one, other = torch.tanh(self.both(self.stem(x))).chunk(2, dim=-1)
        return self.last(torch.cat([other, one], dim=1))


def test_parts_of_a_matrix_have_its_law_and_their_own_values():
    found = models.read(Fused, draws=8)
    names = [f"last.weight[0:2, {a}:{b}]" for a, b in ((0, 12), (12, 24))]
    assert [str(found.laws[name].C) for name in names] == ["1/6", "1/6"]
    assert {each.kind for each in found.laws.values()} == {"uniform"}
    made = found.reading.initialize([3])
    values, whole = found.reading.values(made), found.reading.draw(3)
    np.testing.assert_array_equal(values[names[1]][0], whole["last.weight"][:, 12:])
    np.testing.assert_array_equal(values["both.bias[12:24]"][0], whole["both.bias"][12:])
    X, last = np.ones((2, 5)), found.structure.blocks[-1].node
    torch.manual_seed(3)
    own = Fused().double()(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found.reading.propagate(made, 0, X[None], last)[0], own, atol=1e-6)


class Branches(nn.Module):
    """x + W tanh(x) + 2 U tanh(x), both matrices with biases."""

    def __init__(self, n=16):
        super().__init__()
        self.stem, self.one, self.other = nn.Linear(5, n), nn.Linear(n, n), nn.Linear(n, n)
        self.head = nn.Linear(n, 2)
        for each, std in ((self.one, 0.1), (self.other, 0.05)):
            nn.init.normal_(each.bias, std=std)

    def forward(self, x):
        z = self.stem(x)
        u = torch.tanh(z)
        return self.head(z + self.one(u) + 2 * self.other(u))


def test_two_branches_with_biases():
    """K and Θ by hand: each matrix and its biases count by the square of their factor."""
    found, x = models.read(Branches, draws=400), np.ones(5)
    table = flow(found.network, x, 2, ["K", "Theta"])
    K, theta = (table[name].to_numpy() for name in ("K", "Theta"))
    at, weights = np.polynomial.hermite_e.hermegauss(90)
    u = np.tanh(at * math.sqrt(K[0]))
    square, slope = (weights @ f / math.sqrt(2 * math.pi) for f in (u**2, (1 - u**2) ** 2))
    C = {path: float(law.C) for path, law in found.laws.items()}
    C_b, C_W = (C[f"one.{each}"] + 4 * C[f"other.{each}"] for each in ("bias", "weight"))
    assert K[1] == pytest.approx(K[0] + C_b + C_W * square, rel=1e-9)
    grown = theta[0] * (1 + C_W * slope) + 5 * (1 + 16 * square)
    assert theta[1] == pytest.approx(grown, rel=1e-9)


class TwoArguments(nn.Module):
    """Inputs scaled by buffers, beside another argument."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0]))
        self.net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, y):
        return self.net(torch.cat([(x - self.mean) / 2, y.cos()], dim=-1))


class Centred(nn.Sequential):
    """Inputs less their mean over the batch."""

    def __init__(self):
        super().__init__(nn.Linear(3, 4))

    def forward(self, x):
        return super().forward(x - x.mean(0))


def test_what_is_done_to_the_inputs_is_done_to_them():
    random = np.random.default_rng(1)
    X, Y = random.standard_normal((2, 3)), random.standard_normal((2, 2))
    found = models.read(TwoArguments, (X, Y), draws=8)
    known = np.concatenate([(X - [1, 2, 3]) / 2, np.cos(Y)], axis=1)
    np.testing.assert_allclose(found.samples((X, Y)), known, rtol=1e-12)
    made, last = found.reading.initialize([2]), found.structure.blocks[-1].node
    torch.manual_seed(2)
    own = TwoArguments().double()(torch.from_numpy(X), torch.from_numpy(Y)).detach().numpy()
    both = np.concatenate([X, Y], axis=1)
    np.testing.assert_allclose(
        found.reading.propagate(made, 0, both[None], last)[0], own, atol=1e-6
    )
    with pytest.raises(InputError, match="inputs of a batch depend on each other"):
        models.read(Centred, X)
    with pytest.raises(InputError, match="as many rows of each"):
        models.read(TwoArguments, (X, Y[:1]))


class Embedded(nn.Module):
    """Tokens and patches whose first layer is a sum of matrices of several sizes."""

    def __init__(self, n=8):
        super().__init__()
        self.patches, self.head = nn.Conv1d(2, n, 2, stride=2), nn.Linear(n, 2)
        self.token = nn.Parameter(torch.randn(1, 1, n))
        self.places = nn.Parameter(0.5 * torch.randn(1, 4, n))
        for each in (self.patches.weight, self.patches.bias):
            nn.init.normal_(each, std=0.25)
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))

    def forward(self, x):
        h = 2 * self.patches(x).transpose(1, 2)
        h = torch.cat([self.token.expand(x.shape[0], -1, -1), h], dim=1) + self.places[:, :4]
        y = F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h))
        return self.head(h + self.o(y)).mean(1)


def test_embeddings_are_one_matrix_of_what_they_take():
    """K of layer 1 is the sum of their variances, exactly; its values are those of the model."""
    X = np.random.default_rng(2).standard_normal((2, 2, 6))
    found = models.read(Embedded, X, draws=100)
    u, law = found.samples(X), found.laws
    K = np.einsum("apc,bqc->apbq", u, u) * float(found.network.first_weights.C_W) / u.shape[2]
    patch = X.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(2, 3, 4)
    of = {name: float(law[name].C) for name in ("patches.weight", "patches.bias", "token")}
    known = np.zeros((2, 4, 2, 4))
    known[:, 1:, :, 1:] = np.einsum("apc,bqc->apbq", patch, patch) * 4 * of["patches.weight"] / 4
    known[:, 1:, :, 1:] += 4 * of["patches.bias"]
    known[:, 0, :, 0] = of["token"]
    known += float(law["places"].C) / 4 * np.eye(4)[:, None]
    np.testing.assert_allclose(K, known, rtol=1e-12)
    assert str(found.network.first_weights).startswith("Gaussian")
    seed, place = [3], found.structure.blocks[0].node
    z = found.reading.propagate(found.reading.initialize(seed), 0, X[None], place)
    torch.manual_seed(3)
    own = Embedded().double()
    h = 2 * own.patches(torch.from_numpy(X)).mT
    h = torch.cat([own.token.expand(2, -1, -1), h], dim=1) + own.places
    np.testing.assert_allclose(z[0], h.detach().numpy().reshape(2, -1), atol=1e-12)


def test_matrices_of_two_sizes_without_attention_are_refused():
    """Descent would change each by its own size, and Θ has one."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(5, 8), nn.Embedding(4, 8)
            self.head = nn.Linear(8, 2)
            nn.init.normal_(self.places.weight, std=0.1)

        def forward(self, ids):
            return self.head(torch.relu(self.tokens(ids) + self.places(torch.arange(4)))).mean(1)

    with pytest.raises(InputError, match="put them in one matrix"):
        models.read(Two, np.array([[0, 1, 2, 3]]), draws=30)


class LowRank(nn.Module):
    """W + c B A, put together in the forward."""

    def __init__(self, zero):
        super().__init__()
        self.W, self.A, self.B = (
            nn.Parameter(torch.randn(out, into) / into**0.5)
            for out, into in ((16, 6), (4, 6), (16, 4))
        )
        self.head = nn.Linear(16, 16, bias=False)
        nn.init.orthogonal_(self.head.weight)
        nn.init.orthogonal_(self.W)
        if zero:
            nn.init.zeros_(self.B)

    def forward(self, x):
        return self.head(torch.relu(F.linear(x, self.W + 0.5 * self.B @ self.A)))


def test_a_low_rank_matrix_that_is_zero_is_left_out():
    found = models.read(lambda: LowRank(True), draws=8)
    assert found.widths == (6, 16, 16)
    assert found.network.first_weights == Orthogonal("3/8")
    assert any("B" in each and "held" in each for each in found.remarks)
    with pytest.raises(InputError, match=r"inputs that one matrix takes; here W .*, A .* take"):
        models.read(lambda: LowRank(False), draws=8)


def test_a_gate_and_what_it_leaves_are_one_function():
    """1 − t is no function of its own beside t."""

    class Highway(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            x = self.a(x)
            t = torch.sigmoid(self.b(x))
            return self.d(t * torch.tanh(self.c(x)) + (1 - t) * x)

    found = models.read(Highway, draws=8)
    (layer,) = {str(found.network.layer_at(2, 2))}
    assert layer.count("s(h1[a])") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DenseNet MLP", "NTK-parametrized MLP"])
def test_reports_have_what_theory_has(name):
    """K and Θ of all; V where there is a theory of it."""
    found = models.report(MODELS[name].make, inputs(name), draws=60, output=MODELS[name].output)
    assert found.agrees
    assert np.isfinite(found.table.Theta).all()
    assert bool(np.isfinite(found.table.ratio).any()) == (name != "DenseNet MLP")
