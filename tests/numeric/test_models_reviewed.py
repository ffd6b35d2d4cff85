"""Models that were read wrong in silence when others tried the report: read right, or refused."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest

from derive import InputError, Network, propagation, weights
from numeric import flow, models
from numeric.models import advice, theory

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
nn = torch.nn

X = np.random.default_rng(3).standard_normal((2, 6))
WIDTHS = (6, 24, 24, 24, 3)


def dense(change=lambda made: None, gain=2**0.5, widths=WIDTHS, norm=None):
    """A function that makes a ReLU network of Gaussian matrices, and changes it."""

    def make():
        parts = []
        for fan_in, fan_out in pairwise(widths):
            parts.append(nn.Linear(fan_in, fan_out))
            nn.init.normal_(parts[-1].weight, std=gain / math.sqrt(fan_in))
            nn.init.zeros_(parts[-1].bias)
            parts += [norm(fan_out)] if norm else []
            parts.append(nn.ReLU() if norm is None else nn.Tanh())
        made = nn.Sequential(*parts[: -2 if norm else -1])
        with torch.no_grad():
            change(made)
        return made

    return make


class PostNorm(nn.Module):
    """norm(x + W tanh(V x)), six times."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.norm = nn.Linear(6, 16), nn.Linear(16, 2), nn.RMSNorm(16)
        self.inner, self.outer = (
            nn.ModuleList(nn.Linear(16, 16) for _ in range(6)) for _ in range(2)
        )

    def forward(self, x):
        x = self.first(x)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = self.norm(x + outer(torch.tanh(inner(x))))
        return self.last(x)


class Residual(nn.Module):
    """h += f(h) where h has another name; with a shortcut by that."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = self.first(x)
        same = h
        h += self.second(torch.relu(h))
        return self.last(torch.relu(h + same))


def hooked():
    """A hook on the whole model, which torch.fx does not see."""
    made = dense()()
    made.register_forward_hook(lambda module, given, made: 2 * made)
    return made


def centre(made):
    """Rows of mean 0."""
    made[2].weight -= made[2].weight.mean(1, keepdim=True)


def turn(made):
    """One matrix as another, transposed."""
    made[4].weight.copy_(made[2].weight.T)


def shift(made):
    """Biases that move the kinks, made from the matrix."""
    made[2].bias.copy_(-0.4 * made[2].weight.sum(1))


def share(made):
    """One vector of biases twice."""
    made[2].bias.normal_()
    made[4].bias.copy_(made[2].bias)


def move(made):
    """Each row is the first one, moved on."""
    first = torch.rand(24) - 0.5
    rows = [first.roll(k) for k in range(24)]
    made[2].weight.copy_(torch.stack(rows))


def mirror(made):
    """A symmetric matrix whose entries have one law."""
    made[2].weight.copy_(made[2].weight.triu() + made[2].weight.triu(1).T)


def replaced():
    """A forward that is no method of the class."""
    made = dense()()
    made[2].forward = lambda x: 3 * torch.nn.functional.linear(x, made[2].weight)
    return made


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (dense(shift), "2.bias, correlated with 2.weight"),
        (dense(share), "2.bias and 4.bias, correlated"),
        (dense(lambda made: made[2].bias.fill_(torch.randn(()).item())), "2.bias: unknown"),
        (dense(move), "rows or columns of one size"),
        (dense(mirror), "2.weight: unknown"),
        (replaced, "a module whose forward was replaced"),
        (Residual, r"other values than its graph .* write h = h \+"),
        (hooked, "a hook on the model"),
        (dense(centre), "orthogonal to the same vectors in all"),
        (dense(turn), "2.weight and 4.weight, correlated"),
    ],
)
def test_what_was_read_wrong_is_refused(make, why):
    with pytest.raises(InputError, match=why):
        models.read(make, X, draws=30)


class Backbone(nn.Module):
    """Features behind which no gradient goes."""

    def __init__(self):
        super().__init__()
        self.features, *rest = dense()()
        self.rest = nn.Sequential(*rest)

    def forward(self, x):
        with torch.no_grad():
            h = self.features(x)
        return self.rest(h)


def freeze(made):
    """One matrix and other biases are not trained."""
    made[2].weight.requires_grad_(False)
    made[4].bias.requires_grad_(False)


@pytest.mark.parametrize(
    ("make", "paths"),
    [(dense(freeze), {"2.weight", "4.bias"}), (Backbone, {"features.weight", "features.bias"})],
)
def test_frozen_parameters_do_not_move_outputs(make, paths):
    """Θ as measured is the sum over the model's own gradients; that of theory has rates 0."""
    found = models.read(make, X, draws=30)
    assert set(found.structure.graph.frozen) == paths
    seed, last = 7, found.structure.blocks[-1].node
    own = found.reading.tangents(found.reading.initialize([seed]), X, [last])[0, 0]
    torch.manual_seed(seed)
    made = make().double()
    trained = [each for each in made.parameters() if each.requires_grad]
    rows = [
        torch.autograd.grad(z, trained, retain_graph=True, allow_unused=True)
        for z in made(torch.from_numpy(X))[:, 0]
    ]
    flat = [torch.cat([torch.zeros(1) if g is None else g.flatten() for g in row]) for row in rows]
    plain = np.array([[float(a @ b) for b in flat] for a in flat])
    np.testing.assert_allclose(own, plain, rtol=1e-9)
    draws = found.reading.tangents(found.reading.initialize(range(200)), X, [last])[:, 0]
    error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
    Theta = theory.theory(found, X, 1).first["Theta"].to_numpy()[-1]
    assert (abs(draws.mean(axis=0) - Theta) < 5 * error).all()  # 1 in 10⁶, three numbers


def test_frozen_matrices_beside_trained_ones_withhold_the_learning_rate():
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 2)
            self.base, self.added = nn.Linear(16, 16), nn.Linear(16, 16, bias=False)
            self.base.weight.requires_grad_(False)

        def forward(self, x):
            h = torch.relu(self.first(x))
            return self.last(torch.relu(self.base(h) + self.added(h)))

    found = models.read(Adapted, X, draws=30)
    assert not found.structure.graph.frozen
    assert any("base.weight: frozen, but" in each for each in found.remarks)
    rates = theory.rates(found, X, theory.theory(found, X, 1))
    assert "base.weight is frozen" in rates.why
    assert math.isnan(rates.stable)


@pytest.mark.slow
def test_a_frozen_model_has_no_learning_rate():
    found = models.report(dense(lambda made: made.requires_grad_(False)), X[:1], draws=20)
    assert not found.table.Theta_measured.any()
    assert "nothing that is trained" in found.findings[3].answer
    assert found.agrees


def test_random_buffers_are_told_of():
    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("B", torch.randn(6, 16))
            self.net = dense(widths=(16, 24, 24, 2))()

        def forward(self, x):
            return self.net(torch.sin(x @ self.B))

    assert any("B: drawn at random" in each for each in models.read(Features, X, draws=30).remarks)


def test_what_is_done_in_training_alone_is_told_of():
    """By the line of the model; dropout by its own remark."""

    class Noisy(nn.Module):
        def __init__(self, noise):
            super().__init__()
            self.net, self.last, self.noise = dense(widths=(6, 24, 24))(), nn.Linear(24, 2), noise

        def forward(self, x):
            h = self.net(x)
            if self.training and self.noise:
                h = h + torch.randn_like(h)
            return self.last(nn.functional.dropout(torch.relu(h), 0.1, self.training))

    told = [models.read(lambda own=own: Noisy(own), X, draws=30).remarks for own in (1, 0)]
    assert any("in training mode forward computes something else (test_mod" in e for e in told[0])
    assert not any("something else" in each for each in told[1])
    assert any("dropout 0.1, off" in each for each in told[1])


@pytest.mark.slow
def test_a_sum_over_positions_in_a_function_is_no_mean():
    """The factor T goes into the matrix below, so that each layer is what the model computes."""

    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(6, 24), nn.Linear(24, 24), nn.Linear(24, 2)

        def forward(self, x):
            return self.c(torch.tanh(self.b(torch.tanh(self.a(x))).sum(1)))

    given = np.random.default_rng(4).standard_normal((1, 4, 6))
    found = models.read(Summed, given, draws=30)
    z = found.reading.propagate(
        found.reading.initialize(range(200)), 0, given[None], found.structure.blocks[1].node
    )
    own = (z.reshape(200, -1) ** 2).mean(axis=1)
    K = flow(found.network, found.samples(given), 2, ["K"], width=24)["K"].to_numpy()[-1]
    assert abs(own.mean() - K[0, 0]) < 5 * own.std() / 200**0.5 + K[0, 0] / 24  # 1 in 10⁶


def test_no_learning_rate_where_its_series_is_none():
    """2/λ_max of a deep chaotic network of 8 neurons has a 1/n term larger than its limit."""
    make = dense(gain=2.0, widths=(6, *[8] * 8, 3))
    found = models.read(make, X, draws=30)
    rates = theory.rates(found, X, theory.theory(found, X, 1))
    assert math.isnan(rates.stable)
    assert math.isnan(rates.fastest)
    assert "at order 1/n" in str(advice.is_learning(rates, []))


def test_a_larger_first_matrix_is_no_fault_of_depth():
    """Signals fall by 400 at layer 2, and nowhere else, as in a SIREN."""

    def widen(made):
        made[0].weight *= 20

    found = models.read(dense(widen, widths=(6, *[16] * 5, 2)), X, draws=30)
    derived = theory.theory(found, X, 0)._replace(
        variances=np.array([400, 1, 1, 1, 1, 1.0]), perpendicular=np.array([np.nan, 1, 1, 1, 1, 1])
    )
    stable = advice.is_stable(found, derived)
    assert stable.answer.startswith("Yes")
    assert "At layer 2 alone signals change by 0.0025" in stable.answer
    assert "norm" not in advice.to_change(found, derived, [], None).answer


def sigmoids(gain, depth=11):
    def make():
        parts = []
        for at, (fan_in, fan_out) in enumerate(pairwise([6, *[24] * (depth - 1), 3])):
            parts += [nn.Linear(fan_in, fan_out), nn.Sigmoid()]
            nn.init.normal_(parts[-2].weight, std=(gain if at else 1) / math.sqrt(fan_in))
            nn.init.zeros_(parts[-2].bias)
        return nn.Sequential(*parts[:-1])

    return make


def test_what_a_layer_does_to_lengths_is_not_lost_in_rounding():
    """χ∥ of the last of eleven layers, where some 10⁻¹⁷ of a change of the inputs arrives."""
    made = models.report(sigmoids(0.6), X, draws=100).table["chi_parallel"].to_numpy()
    net = Network("sigmoid", C_W=0.36)
    K = flow(net, X[0], 11, ["K"])["K"].to_numpy()[-1]
    assert made[-1] == pytest.approx(float(propagation.chi_parallel(net, K)), rel=0.02)
    assert made[-1] == pytest.approx(made[5], rel=0.02)


@pytest.mark.slow
def test_lengths_do_not_pass_a_norm():
    """χ∥ behind RMSNorm is of order ε, also where rounding hides the change of the inputs."""
    made = models.report(PostNorm, X, draws=100).table["chi_parallel"].to_numpy()
    assert abs(made[2:]).max() < 1e-4


@pytest.mark.slow
def test_a_gain_tells_of_the_last_layer_where_it_is_unlike_the_mean():
    """The gain at which gradients keep their size on average, as a first layer grows them."""
    told = " ".join(str(models.report(sigmoids(0.6), X, draws=100)).split())
    last = float(re.search(r"on average, × (\S+) at the last hidden one", told)[1])
    gain = float(re.search(r"to (\S+)/√fan-in", told)[1])
    net = Network("sigmoid", C_W=gain**2, first_weights="gaussian(C_W=1)")
    K = flow(net, X[0], 11, ["K"])["K"].to_numpy()[8]
    assert last == pytest.approx(float(propagation.chi(net, K, layer=2)), rel=0.02)


def test_no_gain_is_advised_in_front_of_norms():
    """Behind a norm in each layer the size of hidden matrices changes no later layer."""
    make = dense(gain=0.1, widths=(6, *[16] * 4, 2), norm=nn.LayerNorm)
    found = models.read(make, X, draws=30)
    derived = theory.theory(found, X, 0)
    assert advice._of_gain(found, X, derived) is None


def test_sparse_matrices_have_the_variance_of_all_entries():
    """torch's sparse_: C_W is the fan-in times the variance of all entries."""

    def thin(made):
        nn.init.sparse_(made[2].weight, 0.5, std=0.4)

    found = models.read(dense(thin), X, draws=30)
    law = found.network.weights_at(2)
    assert isinstance(law, type(weights.Sparse(1)))
    assert float(law.C_W) == pytest.approx(24 * 0.5 * 0.4**2, rel=0.02)
    K = flow(found.network, X, 2, ["K"])["K"].to_numpy()
    assert K[1, 0, 0] == pytest.approx(float(law.C_W) * K[0, 0, 0] / 2)


class Grown(torch.autograd.Function):
    """tanh, with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, given):
        return 0.5 * given


class Stopped(Residual):
    """A branch without gradients, of a matrix that another branch trains."""

    def forward(self, x):
        h = self.first(x)
        with torch.no_grad():
            side = torch.relu(h)
        return self.last(h + self.second(side))


class Reversed(Residual):
    def forward(self, x):
        return self.last(torch.relu(self.second(Grown.apply(self.first(x)))))


class Words(nn.Module):
    """Embeddings, with sines of the positions beside them."""

    def __init__(self, sines=0.0, pad=None):
        super().__init__()
        self.table, self.last = nn.Embedding(40, 16, padding_idx=pad), nn.Linear(16, 2)
        self.register_buffer("sines", sines * torch.arange(64.0).reshape(4, 16).sin())

    def forward(self, x):
        h = self.table(x) + self.sines if torch.any(self.sines) else self.table(x)
        return self.last(torch.tanh(h).mean(1))


BASE = torch.linspace(-0.2, 0.2, 24 * 24).reshape(24, 24).sin()


def block(made):
    """Two blocks, as of groups."""
    made[2].weight[:12, 12:] = made[2].weight[12:, :12] = 0


def load(made):
    """Weights that were trained, and noise."""
    made[2].weight += BASE


@pytest.mark.parametrize(
    ("make", "given", "why"),
    [
        (Reversed, X, "its gradients are not those of what it computes"),
        (Stopped, X, "its gradients are not those of what it computes"),
        (lambda: Words(1.0), np.ones((2, 4)), "a fixed table that is added"),
        (lambda: Words(pad=0), np.ones((2, 4)), "whose row 0 is 0: leave padding_idx out"),
        (dense(block), X, "zeros at the same places in every initialization"),
        (dense(load), X, "a part that is the same in every initialization"),
    ],
)
def test_what_no_law_or_graph_shows_is_refused(make, given, why):
    with pytest.raises(InputError, match=why):
        models.read(make, given, draws=30)


def test_inputs_that_are_not_finite_are_the_fault():
    with pytest.raises(InputError, match=r"^inputs: got 'numbers that are not finite'"):
        models.read(dense(), np.full((2, 6), np.nan), draws=8)


def test_a_weight_norm_of_hooks_is_one_of_parametrizations():
    """Of torch's two, the older holds a matrix that no copy can be made of."""

    def normed(norm):
        return lambda: nn.Sequential(norm(nn.Linear(6, 24)), nn.ReLU(), norm(nn.Linear(24, 2)))

    with pytest.warns(FutureWarning):
        old = models.read(normed(nn.utils.weight_norm), X, draws=30)
    new = models.read(normed(nn.utils.parametrizations.weight_norm), X, draws=30)
    assert old.network == new.network


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.Dropout1d, nn.Dropout])
def test_dropout_of_each_kind_is_off(kind):
    found = models.read(lambda: nn.Sequential(nn.Linear(6, 9), kind(0.2), nn.Linear(9, 2)), X)
    assert "dropout 0.2, off" in found.remarks[0]


class Scaled(nn.Module):
    """Attention whose scores have their factor where it is said, with a smaller branch."""

    def __init__(self, where, power=0.5):
        super().__init__()
        self.stem, self.packed = nn.Linear(6, 24), nn.Linear(24, 72)
        self.norm, self.out, self.last = nn.LayerNorm(24), nn.Linear(24, 24), nn.Linear(24, 2)
        self.where, self.factor = where, 6**-power

    def forward(self, x):
        h = self.stem(x)
        q, k, v = self.packed(self.norm(h)).chunk(3, -1)
        q, k, v = (each.view(-1, 3, 4, 6).transpose(1, 2) for each in (q, k, v))
        of_q = {"queries": self.factor, "both": self.factor**0.5}.get(self.where, 1.0)
        q, k = (q * of_q, k * of_q) if self.where == "both" else (q * of_q, k)
        scores = q @ k.transpose(-2, -1) * (self.factor if self.where == "scores" else 1.0)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 3, 24)
        return self.last((h + 0.5 * self.out(mixed)).mean(1))


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_factor_of_scores_is_one_wherever_it_stands(power):
    """Also beside a branch with a factor: biases of q, k and v have one variance; K is known."""
    tokens = np.random.default_rng(4).standard_normal((1, 3, 6))
    found = [
        models.read(lambda at=at: Scaled(at, power), tokens, draws=30)
        for at in ("scores", "queries", "both")
    ]
    assert found[0].network == found[1].network == found[2].network
    K = flow(found[0].network, found[0].samples(tokens), 2, ["K"], width=24)["K"].to_numpy()
    assert (K[1].diagonal() > K[0].diagonal()).all()


@pytest.mark.slow
def test_sizes_that_differ_are_allowed_for():
    """A matrix over its largest singular value: V of layer 1 is no 0, as theory of one size has."""
    x = np.random.default_rng(0).standard_normal((2, 20))

    def model():
        first = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 48), n_power_iterations=20)
        return nn.Sequential(first, nn.ReLU(), nn.Linear(48, 2))

    read = models.read(model, x)
    (law,) = (each for path, each in read.laws.items() if each.spread)
    singular = [
        np.linalg.svd(np.random.default_rng(seed).uniform(-1, 1, (48, 20)), compute_uv=False)
        for seed in range(500)
    ]
    sizes = [np.sqrt((s**2).sum()) / s[0] for s in singular]
    assert law.spread == pytest.approx(np.std(sizes) / np.mean(sizes), rel=0.25)
    assert models.report(model, x, more=True, draws=300).agrees
