"""`torch_`: Haar's law at every dtype, what is set in a module, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from sample_haar import BOUND, DTYPES, entry_scores, trace_scores

from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
)
from derive.symbols import z
from numeric import flow
from numeric.init import gain, torch_
from numeric.models.functions import TORCH, plain

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
nn, F = torch.nn, torch.nn.functional
trace = pytest.importorskip("numeric.init.graphs").trace


def drawn(shape, draws, dtype="float64", weights="orthogonal", seed=0):
    """Matrices of C_W = 1: those of the groups of one convolution."""
    sizes = (draws * shape[1], draws * shape[0])
    layer = nn.Conv1d(*sizes, 1, groups=draws, bias=False, dtype=getattr(torch, dtype))
    torch_(layer, weights=weights, generator=torch.Generator().manual_seed(seed))
    return layer.weight.detach().double().numpy().reshape(draws, *shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_squares_are_haars(dtype):
    matrices = drawn((5, 5), 1500, dtype, seed=list(DTYPES).index(dtype))
    scores = trace_scores(matrices)
    assert max(map(abs, scores.values())) < BOUND, scores
    off = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(5)).max()
    assert 0 < off < 8 * DTYPES[dtype]


def test_without_the_sign_fix_it_would_be_seen():
    rng = np.random.default_rng(0)
    unfixed = np.linalg.qr(rng.standard_normal((1500, 5, 5)))[0]
    assert abs(trace_scores(unfixed)[1,]) > 10


@pytest.mark.parametrize(
    "law",
    [
        Orthogonal(),
        Gaussian(),
        LowRankOrthogonal(gamma=0.5),
        Truncated(ratio=2),
        BiInvariant(moments=("1", "3/2")),
    ],
    ids=str,
)
def test_rectangles_have_the_moments_of_the_ensemble(law):
    shapes = [(4, 4)] if isinstance(law, BiInvariant) else [(4, 6), (6, 4)]
    for seed, (n_out, n_in) in enumerate(shapes):
        if isinstance(law, LowRankOrthogonal) and n_out > n_in:
            continue
        scores = entry_scores(drawn((n_out, n_in), 1500, weights=law, seed=seed), law, n_in, n_out)
        assert max(map(abs, scores.values())) < BOUND, scores


def test_rectangles_are_orthogonal_with_the_variance_of_the_house():
    """C_W/n_in: rows of length √C_W where it narrows, columns of √(C_W n_out/n_in) where it
    widens."""
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 48), nn.ReLU()).double()
    torch_(net)
    narrow, wide = net[0].weight.detach(), net[2].weight.detach()
    assert torch.allclose(narrow @ narrow.T, torch.eye(16).double(), atol=1e-14)
    assert torch.allclose(wide.T @ wide, 2 * 48 / 16 * torch.eye(16).double(), atol=1e-13)


def test_the_mean_square_of_relus_stays():
    """E|z|²/n is |x|²/n_0 at every layer, exactly and at every width."""
    net = nn.Sequential(nn.Linear(7, 40), nn.ReLU(), nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 9))
    x = torch.linspace(-1, 2, 7).double()
    made = torch.Generator().manual_seed(3)
    ends = []
    for _ in range(150):
        torch_(net.double(), generator=made)
        with torch.no_grad():
            ends.append(float((net(x) ** 2).mean()))
    score = (np.mean(ends) - float((x**2).mean())) / (np.std(ends, ddof=1) / math.sqrt(150))
    assert abs(score) < BOUND


def test_biases_of_a_half_stable_one_keep_the_kernel():
    """K of a torch network with GELU against `flow`, at width 300: 1/n of it is below the error."""
    parts = [nn.Linear(30, 300)]
    for _ in range(4):
        parts += [nn.GELU(), nn.Linear(300, 300)]
    net = nn.Sequential(*parts).double()
    x = 1.9 * torch.ones(30).double()
    made = torch.Generator().manual_seed(5)
    ends = []
    for _ in range(12):
        settings = torch_(net, generator=made)
        with torch.no_grad():
            ends.append(float((net(x) ** 2).mean()))
    assert settings["2.bias"].law == "N(0, 0.415839²)"
    found = gain("gelu")
    theory = Network("gelu", Orthogonal(found.C_W), C_b=found.C_b)
    # the module's first layer has gain 1 and no biases: an input that gives the same K¹
    start = np.sqrt((1.9**2 - float(found.C_b)) / float(found.C_W)) * np.ones(30)
    expected = float(flow(theory, start, 5, "K")["K"][-1])
    error = np.std(ends, ddof=1) / math.sqrt(len(ends))
    assert abs(np.mean(ends) - expected) < BOUND * error + expected / 300
    assert error < 0.05 * expected


def test_generators_decide():
    nets = [nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 6)) for _ in range(3)]
    torch.manual_seed(1)
    torch_(nets[0])
    torch.manual_seed(1)
    torch_(nets[1])
    torch_(nets[2], generator=torch.Generator().manual_seed(1))
    first, *others = (torch.cat([p.flatten() for p in net.parameters()]) for net in nets)
    assert all(torch.equal(first, other) for other in others)
    torch_(nets[1])
    assert not torch.equal(nets[1][0].weight, nets[0][0].weight)


@pytest.mark.parametrize("law", ["uniform", "rademacher", "sparse(0.5)", "truncated-normal"])
def test_independent_entries_obey_the_generator(law):
    one, other = (drawn((8, 40), 3, weights=law, seed=2) for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])
    assert (one**2).mean() * 40 == pytest.approx(1, abs=0.2)


# Convolutions


def test_delta_orthogonal_keeps_lengths():
    """At stride 1 and with circular boundaries it is an isometry, Xiao et al. 2018."""
    for make, spatial in ((nn.Conv1d, (9,)), (nn.Conv2d, (5, 6)), (nn.Conv3d, (3, 4, 3))):
        layer = make(4, 4, 3, padding="same", padding_mode="circular", dtype=torch.float64)
        torch_(layer)
        x = torch.randn(2, 4, *spatial, dtype=torch.float64)
        assert torch.allclose((layer(x) ** 2).sum(), (x**2).sum(), rtol=1e-13)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_middle_of_a_filter_reads_its_own_position(size):
    layer = nn.Conv1d(3, 3, size, padding="same", bias=False, dtype=torch.float64)
    torch_(layer)
    x = torch.zeros(1, 3, 11, dtype=torch.float64)
    x[0, :, 4] = 1
    assert torch.nonzero(layer(x).abs().sum(dim=1)[0]).flatten().tolist() == [4]


def test_every_tap_of_a_plain_filter():
    layer = nn.Conv2d(20, 30, (3, 2), dtype=torch.float64, bias=False)
    said = torch_(layer, "relu", "gaussian", generator=torch.Generator().manual_seed(0))
    variance = float((layer.weight.detach() ** 2).mean()) * 20 * 6
    assert variance == pytest.approx(2, abs=5 * 2 * math.sqrt(2 / 3600))
    assert said["weight"].law == "Gaussian(C_W=2), filters: all"
    torch_(layer, "relu", filters="all")  # each tap orthogonal, of variance C_W/s
    tap = layer.weight.detach()[:, :, 1, 1]
    assert torch.allclose(tap.T @ tap, 2 / 6 * 30 / 20 * torch.eye(20).double(), atol=1e-14)


def test_groups_have_a_matrix_each():
    layer = nn.Conv1d(8, 12, 1, groups=4, dtype=torch.float64)
    torch_(layer)
    for block in layer.weight.detach()[:, :, 0].split(3):
        assert torch.allclose(block.T @ block, 3 / 2 * torch.eye(2).double(), atol=1e-14)


# What stands before a matrix


class Block(nn.Module):
    def __init__(self, norm=True, gate=False):
        super().__init__()
        self.norm = nn.RMSNorm(6) if norm else nn.Identity()
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)
        self.gate = nn.Linear(6, 12) if gate else None

    def forward(self, x):
        y = self.norm(x)
        h = F.silu(self.up(y))
        return x + self.down(h if self.gate is None else h * self.gate(y))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(6, 6) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        x = F.leaky_relu(self.a(x), 0.2).flatten(1)
        x = self.b(x).tanh()
        return self.c(self.scale * x)


def test_functions_are_read_from_the_graph():
    net = Functional()
    said = torch_(net)
    assert said.left == ("scale",)
    assert said["b.weight"].law == f"Orthogonal(C_W={2 / (1 + sympy.Rational(1, 25))})"
    assert said["c.weight"].reason.startswith("behind tanh")
    net.scale.data[0] = 2
    with pytest.raises(InputError, match=r"σ for c, behind mul"):
        torch_(net)
    said = torch_(net, activation="leaky_relu(0.2)")
    assert said["c.weight"].law == said["b.weight"].law


class Halves(nn.Module):
    """Two halves of one matrix: a gate, for all that both come from it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 6), nn.Linear(3, 3)

    def forward(self, x):
        gate, value = self.a(x).chunk(2, dim=-1)
        return self.b(F.silu(gate) * value)


def test_halves_of_a_matrix_are_two_things():
    with pytest.raises(InputError, match=r"layer: got None.*mul, a product"):
        torch_(Halves())
    said = torch_(Halves(), layer="gated(skip=1, norm=rms)")
    assert said["a.weight"].law == said["b.weight"].law


class Flagged(nn.Module):
    """Python's control flow by arguments that have defaults; an in-place function."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, mask=None, normed=False):
        x = F.relu_(self.a(x))
        if normed:
            x = x / x.norm()
        if mask is not None:
            x = x * mask
        return self.b(x)


def test_arguments_with_defaults_are_at_these():
    assert torch_(Flagged())["b.weight"].law == "Orthogonal(C_W=2)"


def test_norms_are_seen():
    net = nn.Sequential(
        *(nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU(), nn.Dropout(0.1), nn.Linear(6, 6)),
        *(nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.RMSNorm(6), nn.Linear(6, 6)),
        nn.Linear(6, 6),
    )
    said = torch_(net)
    normalized = gain("gelu", "normalized(layer)")
    assert said["4.weight"].law == "Orthogonal(C_W=1)"
    assert said["4.bias"].law == f"N(0, {normalized.std_b:.6g}²)"
    assert said["7.weight"].law == "Orthogonal(C_W=2)"
    assert "(batch), which makes any gain do" in said["7.weight"].reason
    assert said["9.weight"].reason.startswith("behind a norm (rms)")
    assert said["10.weight"].reason.startswith("behind another matrix")
    assert (said["1.weight"].law, said["1.bias"].law) == ("1", "0")
    assert said.left == ()


@pytest.mark.parametrize("gate", [False, True])
def test_blocks_need_their_layer(gate):
    net = nn.Sequential(Block(gate=gate), Block(gate=gate))
    with pytest.raises(InputError, match="layer: got None"):
        torch_(net)
    layer = f"{'gated' if gate else 'residual'}(skip=1, norm=rms)"
    said = torch_(net, layer=layer)
    assert said["1.down.weight"].law == "Orthogonal(C_W=1)"
    assert layer in said["0.up.weight"].reason


def test_biases_of_a_block_are_behind_its_last_matrix():
    said = torch_(Block(norm=False), layer="residual(skip=1/2)")
    found = gain("silu", "residual(skip=1/2)")
    assert said["up.bias"].law == "0"
    assert said["down.bias"].law == f"N(0, {found.std_b:.6g}²)"
    assert said["up.weight"].law == said["down.weight"].law


class Snake(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        x = self.a(x)
        return self.b(x + torch.sin(x) ** 2)


def test_a_handwritten_activation_is_read():
    (own,) = trace(Snake()).activations
    assert own.expr == z + sympy.sin(z) ** 2
    said = torch_(Snake(), "expr: z/2 + sin(z)/4")
    assert said["b.weight"].law == f"Orthogonal(C_W={sympy.Rational(16, 9)})"


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))) if x.sum() > 0 else x


def test_what_is_not_traced_needs_its_activation():
    with pytest.raises(InputError, match=r"activation=σ .* torch.fx does not trace \(TraceError"):
        torch_(Branches())
    said = torch_(Branches(), "relu")
    assert said["a.weight"].law == "Orthogonal(C_W=1)"
    assert said["b.weight"].law == "Orthogonal(C_W=2)"


def test_tied_weights_want_the_same():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    net[4].weight = net[2].weight
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(InputError, match=r"2 and 4: .*behind tanh.*behind relu|2 and 4"):
        torch_(net)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))
    net[1] = nn.ReLU()
    assert torch_(net)["2.weight"].law == "Orthogonal(C_W=2)"


@pytest.mark.parametrize(
    ("module", "named", "argument"),
    [
        (None, {}, "module"),
        (torch.ones(2), {}, "module"),
        (nn.Tanh(), {}, "module"),
        (nn.LazyLinear(3), {}, "module"),
        (nn.Linear(3, 3, device="meta"), {}, "module"),
        (nn.Linear(3, 3, dtype=torch.complex64), {}, "module"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), {}, "module"),
        (nn.Sequential(nn.Linear(3, 3), nn.Softmax(1), nn.Linear(3, 3)), {}, "activation"),
        (nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 3)), {}, "activation"),
        (nn.Linear(3, 3), {"weights": "none"}, "weights"),
        (nn.Linear(3, 3), {"weights": LowRankOrthogonal(gamma=sympy.Symbol("g"))}, "weights"),
        (nn.Linear(3, 3), {"filters": "some"}, "filters"),
        (nn.Linear(3, 3), {"generator": 0}, "generator"),
        (nn.Linear(3, 3), {"layer": "normalized(rms)"}, "activation"),
        (nn.Linear(3, 3), {"activation": torch.tanh}, "activation"),
    ],
)
def test_bad_input_is_named(module, named, argument):
    with pytest.raises(InputError) as caught:
        torch_(module, **named)
    assert caught.value.argument == argument


class Between(nn.Module):
    """A function between two matrices."""

    def __init__(self, function):
        super().__init__()
        self.a, self.function, self.b = nn.Linear(2, 2), function, nn.Linear(2, 2)

    def forward(self, x):
        return self.b(self.function(self.a(x)))


def between(function):
    """The activation that is read there."""
    (feed,) = [f for m, (f,) in trace(Between(function)).feeds.items() if f.kind != "inputs"]
    return feed.activation


def is_known(name):
    return plain(name) in TORCH and name == name.lstrip("_")


NAMES = {name for room in (nn, F, torch) for name in dir(room) if is_known(name)}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_formulas_are_those_of_torch(name):
    room = next(room for room in (nn, F, torch) if hasattr(room, name))
    function = getattr(room, name)() if room is nn else getattr(room, name)
    sigma = between(function)
    grid = np.linspace(-7, 7, 57)
    formula = sympy.lambdify(z, sigma.expr, ["scipy", "numpy"])
    theirs = function(torch.from_numpy(grid.copy())).numpy()
    assert np.allclose(np.broadcast_to(formula(grid), grid.shape), theirs, rtol=1e-12, atol=1e-13)


def test_every_formula_is_tried():
    assert {plain(name) for name in NAMES} == set(TORCH)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (nn.LeakyReLU, {"negative_slope": 0.3}),
        (nn.ELU, {"alpha": 0.7}),
        (nn.CELU, {"alpha": 0.5}),
        (nn.Softplus, {"beta": 2.0}),
        (nn.Hardtanh, {"min_val": -0.5, "max_val": 2.0}),
        (nn.GELU, {"approximate": "tanh"}),
    ],
)
def test_options_are_read(function, named):
    made = function(**named)
    grid = np.linspace(-4, 4, 33)
    formula = sympy.lambdify(z, between(made).expr, ["scipy", "numpy"])
    assert np.allclose(formula(grid), made(torch.from_numpy(grid)).numpy(), rtol=1e-12, atol=1e-13)


def test_options_of_a_call():
    assert between(lambda u: F.leaky_relu(u, 0.2)) == activations.leaky_relu(0.2)
    assert between(lambda u: F.gelu(u, approximate="none")) == activations.gelu
    assert between(lambda u: F.elu(u, alpha=1.0, inplace=True)).name == "elu"
    assert between(lambda u: F.elu(u, None)) is None


def test_factors_around_an_activation_are_in_it():
    """The gain of a matrix is that of all that stands before it."""
    for function, expr in (
        (lambda u: 0.5 * torch.tanh(u), sympy.tanh(z) / 2),
        (lambda u: torch.tanh(2 * u), sympy.tanh(2 * z)),
        (lambda u: torch.tanh(u / 2) * 3, 3 * sympy.tanh(z / 2)),
    ):
        assert between(function).expr == expr
        assert [each.expr for each in trace(Between(function)).activations] == [expr]
    assert between(lambda u: F.hardtanh(u, max_val=2.0)).expr == sympy.Max(-1, sympy.Min(2, z))
