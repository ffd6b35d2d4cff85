"""Models of torch: read right, or refused by the path of what cannot be read; and measured."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import sympy

from derivations import cli
from derive import InputError, symbols
from numeric import models
from numeric.models.drawn import Drawn
from numeric.models.graph import Norm

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
nn, F = torch.nn, torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

POLICY = Path(__file__).parents[2] / "docs" / "examples" / "policy.py"


def tanh_mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
        nn.Dropout(0.1), nn.Linear(256, 10),
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def residual_stack():
    return nn.Sequential(
        nn.Linear(12, 32), Residual(32), Residual(32), nn.LayerNorm(32), nn.Linear(32, 3)
    )


class SwiGLU(nn.Module):
    def __init__(self, n, hidden):
        super().__init__()
        self.norm = nn.RMSNorm(n)
        self.gate, self.up = (nn.Linear(n, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, n, bias=False)
        for each in (self.gate, self.up, self.down):
            nn.init.normal_(each.weight, std=each.in_features**-0.5)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def gated_stack():
    return nn.Sequential(nn.Linear(10, 24), SwiGLU(24, 64), nn.Linear(24, 4))


class Written(nn.Module):
    """Norm and activation spelled out, parameters of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 20, bias=False)
        self.scale = nn.Parameter(torch.ones(20))
        self.head = nn.Parameter(torch.empty(2, 20))
        nn.init.orthogonal_(self.head)
        nn.init.orthogonal_(self.b.weight, 2)

    def forward(self, x):
        z = self.a(x)
        y = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        z = self.b(y * torch.sigmoid(1.5 * y))
        return F.linear(z * torch.sigmoid(1.5 * z), self.head)


class Body(nn.Module):
    """Of an actor and a critic, its numbers of a shape taken from the inputs."""

    def __init__(self, returned):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(4, 24), nn.Linear(24, 24)])
        self.actor, self.critic = nn.Linear(24, 2), nn.Linear(24, 1)
        self.returned = returned

    def forward(self, x):
        h = x.view(x.size(0), -1)
        for layer in self.body:
            h = F.relu(layer(h), inplace=True).reshape(x.shape[0], -1)
        both = self.actor(h), self.critic(h).squeeze(-1)
        return both if self.returned is None else both[self.returned]


class Dropped(nn.Module):
    def __init__(self, **given):
        super().__init__()
        self.a, self.b, self.given = nn.Linear(4, 8), nn.Linear(8, 2), given

    def forward(self, x):
        return self.b(F.dropout(torch.tanh(self.a(x)), 0.5, **self.given))


def snake(x):
    return x + torch.sin(x) ** 2


class Snake(nn.Module):
    """An activation that is a function of one's own, and a factor before a branch."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Linear(16, 24), nn.LayerNorm(24)
        self.up, self.down, self.head = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 2)
        for each in (self.stem, self.up, self.down, self.head):
            nn.init.normal_(each.weight, std=each.in_features**-0.5)
            nn.init.zeros_(each.bias)

    def forward(self, x):
        z = self.stem(x)
        z = z + 0.5 * self.down(snake(self.up(self.norm(z))))
        return self.head(z)


def overwriting():
    """Activations that write over the preactivations which are measured."""
    return nn.Sequential(
        nn.Linear(16, 20), nn.ReLU(inplace=True), nn.Linear(20, 20), nn.ReLU(inplace=True),
        nn.Linear(20, 1),
    ).half()  # fmt: skip


def test_a_perceptron_with_torchs_own_weights():
    made = models.read(tanh_mlp)
    assert made.widths == (784, 256, 256, 10)
    assert made.network.activation.name == "tanh"
    assert str(made.network.weights) == "Uniform(C_W=1/3)"
    assert [made.network.C_b_at(k) for k in (1, 2, 3)] == [
        sympy.Rational(1, 3 * n) for n in (784, 256, 256)
    ]
    assert made.is_exact
    assert any("dropout 0.1" in each for each in made.remarks)


def test_layers_have_activations_of_their_own():
    parts = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)
    network = models.read(nn.Sequential(*parts)).network
    assert [str(network.activation_at(at, 3)) for at in (1, 2)] == ["relu", "tanh"]


def test_an_instance_is_initialized_by_its_modules():
    made = models.read(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)))
    assert "reset_parameters" in made.reading.how
    assert made.network.activation.name == "relu"


def test_an_instance_with_other_weights_than_its_modules_reset():
    policy = runpy.run_path(str(POLICY))["net"]()
    before = [each.detach().clone() for each in policy.parameters()]
    made = models.read(policy)
    assert "laws read off" in made.reading.how
    assert {each.kind for each in made.laws.values()} == {"orthogonal", "zero"}
    values = made.reading.draw(3)
    W = values["2.weight"]
    np.testing.assert_allclose(W @ W.T, 2 * np.eye(64), atol=1e-5)
    assert all(torch.equal(*pair) for pair in zip(before, policy.parameters(), strict=True))


def test_a_residual_stack():
    made = models.read(residual_stack)
    kinds = [(each.norm, each.skip, str(each.function)) for each in made.structure.blocks[1:]]
    assert kinds == [("layer", 1, "gelu")] * 2 + [("layer", 0, "None")]
    assert made.widths == (12, 32, 32, 32, 3)


def test_gates():
    made = models.read(gated_stack)
    (block,) = [each for each in made.structure.blocks if each.gated]
    assert (block.norm, block.skip, len(block.matrices)) == ("rms", 1, 3)
    assert made.laws["1.gate.weight"].C == 1
    assert made.network.lambda_b_at(2) == 0


def test_what_a_forward_spells_out():
    made = models.read(Written)
    assert made.network.activation.expr == models.read(Written).network.activation.expr
    assert [each.norm for each in made.structure.blocks] == [None, "rms", None]
    z = made.network.activation.expr.free_symbols.pop()
    assert float(made.network.activation.expr.subs(z, 1)) == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert made.laws["b.weight"].C == 4
    assert made.laws["head"].kind == "orthogonal"
    assert any("scale" in each for each in made.remarks)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.ReLU(), "relu"), (nn.LeakyReLU(0.2), "leaky_relu(1/5)"), (nn.GELU(), "gelu"),
        (nn.GELU("tanh"), "gelu(tanh)"), (nn.SiLU(), "silu"), (nn.Softplus(), "softplus"),
        (nn.ELU(), "elu"), (nn.SELU(), "selu"), (nn.Mish(), "mish"), (nn.Hardtanh(), "hard_tanh"),
        (nn.PReLU(), "leaky_relu(1/4)"), (nn.PReLU(8), "leaky_relu(1/4)"),
        (nn.Sigmoid(), "sigmoid"), (nn.Tanh(), "tanh"), (nn.Softsign(), "softsign"),
        (nn.ReLU6(), "relu6"), (nn.Identity(), "linear"),
    ],
)  # fmt: skip
def test_activations(module, name):
    made = models.read(nn.Sequential(nn.Linear(4, 8), module, nn.Linear(8, 2)), draws=4)
    assert made.network.activation.name == name
    x = torch.linspace(-3, 3, 8)
    sigma = sympy.lambdify(symbols.z, made.network.activation.expr, ["scipy", "numpy"])
    np.testing.assert_allclose(sigma(x.numpy()), module(x[None])[0].detach().numpy(), atol=2e-6)


class Grouped(nn.Module):
    """Norms of groups of neurons, as a module and as a function."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(3, 16), nn.GroupNorm(4, 16)
        self.up, self.down, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x):
        z = self.first(x)
        z = z + self.down(torch.relu(self.up(self.norm(z))))
        return self.last(torch.tanh(F.group_norm(z, 2)))


def test_norms_of_groups_are_those_of_the_model():
    made = models.read(Grouped, draws=8)
    lines = [made.network.layer_at(k, 3).lines[0] for k in (2, 3)]
    assert lines == ["m1 = z[a:4]/n", "m1 = z[a:2]/n"]
    own, x = Grouped().double(), np.random.default_rng(0).standard_normal((2, 3))
    values = {path: each.detach().numpy()[None] for path, each in own.named_parameters()}
    drawn = Drawn(made.reading.graph, made.laws)
    found = drawn.propagate(values, 0, x[None], made.structure.blocks[-1].node)
    np.testing.assert_allclose(found[0], own(torch.from_numpy(x)).detach(), rtol=1e-6)


def test_groups_of_one_neuron_are_refused():
    with pytest.raises(InputError, match="one neuron in each group"):
        models.read(nn.Sequential(nn.Linear(3, 16), nn.GroupNorm(16, 16), nn.Linear(16, 2)))


class Slopes(nn.Module):
    """x + sin²(α x)/α, α a parameter."""

    def __init__(self, slope=None):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([2.0]) if slope is None else slope)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        z = self.first(x)
        return self.last(z + torch.sin(self.slope * z) ** 2 / self.slope)


def test_a_parameter_of_an_activation_stays_what_it_is():
    made = models.read(Slopes, draws=8)
    assert made.network.activation.expr == symbols.z + sympy.sin(2 * symbols.z) ** 2 / 2
    assert any("slope" in each and "held there" in each for each in made.remarks)
    X = np.random.default_rng(0).standard_normal((2, 4))
    values = made.reading.propagate(
        made.reading.initialize([3]), 0, X[None], made.structure.blocks[-1].node
    )
    torch.manual_seed(3)
    expected = Slopes()(torch.from_numpy(X).float()).detach().numpy()
    np.testing.assert_allclose(values[0], expected, rtol=1e-4, atol=1e-6)


def test_shapes_that_change_nothing():
    made = models.read(lambda: Body(1))
    assert made.widths == (4, 24, 24, 1)
    made = models.read(Body(0))
    assert made.widths == (4, 24, 24, 2)
    assert made.network.activation.name == "relu"


class Named(nn.Module):
    """Layers and arguments with the names of what gives values another shape."""

    def __init__(self):
        super().__init__()
        self.squeeze, self.view = nn.Linear(6, 4), nn.Linear(4, 4)
        self.reshape, self.flatten = nn.Tanh(), nn.Linear(4, 1, bias=False)
        self.norm = nn.LayerNorm(4)

    def forward(self, view):
        h = torch.reshape(input=torch.flatten(input=view, start_dim=1), shape=(view.size(0), -1))
        h = self.view(self.reshape(self.squeeze(input=h)))
        return torch.squeeze(input=self.flatten(torch.tanh(input=h)), dim=-1)


class Parameters(nn.Module):
    """A matrix with such a name."""

    def __init__(self):
        super().__init__()
        self.first, self.view = nn.Linear(6, 4), nn.Parameter(torch.empty(3, 4))
        nn.init.normal_(self.view)

    def forward(self, x):
        h = self.first(x.view(x.size(dim=0), 6)).tanh()
        return F.linear(h.reshape((x.size()[0], 4)).view(-1, 4), self.view)


@pytest.mark.parametrize("make", [Named, Parameters])
def test_names_of_operations_are_no_operations(make):
    reading = models.read(make, draws=20).reading
    X = np.random.default_rng(0).standard_normal((5, 6))
    last = len(reading.graph.nodes) - 1
    values = reading.propagate(reading.initialize([3]), 0, X[None], last)
    torch.manual_seed(3)
    outputs = make().double()(torch.from_numpy(X)).detach().reshape(5, -1)
    np.testing.assert_allclose(values[0], outputs, rtol=1e-6)


class Shaped(nn.Module):
    """Rows of another number than the inputs', or what may be so."""

    def __init__(self, shape):
        super().__init__()
        self.a, self.b, self.shape = nn.Linear(6, 4), nn.Linear(4, 2), shape

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)).view(*self.shape(x, self)))


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (lambda x, own: (1, -1), "view: a layer in 1 rows"),
        (lambda x, own: (5, -1), "view: a layer in 5 rows"),
        (lambda x, own: (x.size(1), -1), "view: a layer in a number of a shape rows"),
        (lambda x, own: (own.b.weight.size(0), -1), "view: a layer in 2 rows"),
        (lambda x, own: (-1, 2), "view: a layer in another shape"),
        (lambda x, own: (-1, x.size(0)), "view: a layer in another shape"),
        (lambda x, own: (x.size(0), 2), "view: a layer in another shape"),
        (lambda x, own: (x.size(0), 2, 2), "view: a layer in another shape"),
        (lambda x, own: (x.shape[0], -1), None),
        (lambda x, own: (x.size(0), 4), None),
        (lambda x, own: (-1, 4), None),
    ],
)
def test_rows_are_the_inputs(shape, told):
    if told is None:
        assert models.read(Shaped(shape), draws=20).widths == (6, 4, 2)
        return
    with pytest.raises(InputError, match=told):
        models.read(Shaped(shape))


def test_an_instance_whose_head_is_one_row():
    """A row is g times a frame whatever its law: that of reset_parameters fits."""
    made = models.read(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).double())
    assert "reset_parameters" in made.reading.how
    assert {each.kind for each in made.laws.values()} == {"uniform"}


def test_what_is_measured_is_what_the_module_computes():
    """Values, tangents and Jacobians of many initializations at once beside torch's, one by one."""
    made = models.read(lambda: Body(1))
    reading, nodes = made.reading, [block.node for block in made.structure.blocks]
    X, seeds = np.random.default_rng(0).standard_normal((3, 4)), range(5, 9)
    kept = reading.initialize(seeds)
    values, below = X[None], 0
    for node in nodes:
        values, below = reading.propagate(kept, below, values, node), node
    tangents = reading.tangents(kept, X, nodes)
    jacobians = reading.jacobian(kept, X[0], nodes[-1], 0)
    for at, seed in enumerate(seeds):
        torch.manual_seed(seed)
        module = Body(1).double()
        x = torch.from_numpy(X).requires_grad_()
        outputs = module(x)
        np.testing.assert_allclose(values[at, :, 0], outputs.detach(), rtol=1e-6)
        own = [p for name, p in module.named_parameters() if "actor" not in name]
        rows = [torch.autograd.grad(each, own, retain_graph=True) for each in outputs]
        flat = torch.stack([torch.cat([each.ravel() for each in row]) for row in rows])
        np.testing.assert_allclose(tangents[at, -1], flat @ flat.T, rtol=1e-6)
        (slope,) = torch.autograd.grad(outputs[0], x)
        np.testing.assert_allclose(jacobians[at, 0], slope[0], rtol=1e-6)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.attend = nn.Linear(8, 8), nn.MultiheadAttention(8, 2)

    def forward(self, x):
        x = self.stem(x)
        return self.attend(x, x, x)[0]


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else x


class Scaled(nn.Module):
    """A factor that is drawn at random, and a module that forward does not call."""

    def __init__(self, factor):
        super().__init__()
        self.a, self.b, self.loss = nn.Linear(4, 8), nn.Linear(8, 2), nn.MSELoss()
        self.factor = nn.Parameter(factor())

    def forward(self, x, mask=None, power: int = 1, mode="plain"):
        h = self.factor * torch.tanh(self.a(x)) if mode == "plain" else x
        for _ in range(power):
            h = h if mask is None else h * mask
        return self.b(h)


class Overwriting(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        return self.b(F.relu(h, inplace=True)) + h


def test_arguments_and_modules_that_are_not_used():
    made = models.read(lambda: Scaled(lambda: torch.tensor(0.5)), draws=50)
    assert made.network.activation.expr == sympy.tanh(symbols.z)
    assert "b.weight: uniform, C_W = 1/3 (1/(3 fan-in), torch's default), times 0.5" in str(made)
    assert any("(factor)" in each and "held there" in each for each in made.remarks)


class Factors(nn.Module):
    """A factor of 1/4 at one place, as it may be spelled."""

    def __init__(self, place):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.d = nn.Linear(8, 8)
        self.k, self.place = nn.Parameter(torch.tensor(0.25)), place
        self.register_buffer("quarter", torch.tensor(0.25))

    def forward(self, x):
        def at(place, u, scaled):
            return scaled(u) if place == self.place else u

        h = torch.tanh(at("argument", self.a(at("input", x, lambda u: u / 4)), lambda u: 0.25 * u))
        z = self.b(at("function", h, lambda u: torch.mul(u, 0.25)))
        z = z + at("branch", self.d(torch.tanh(z)), lambda u: -u / 4)
        return at("output", self.c(z), lambda u: u * self.k * (self.quarter / 0.25))


@pytest.mark.parametrize(
    ("place", "paths"),
    [("input", "a.weight"), ("argument", "a.weight a.bias"), ("function", "b.weight"),
     ("branch", "d.weight d.bias"), ("output", "c.weight c.bias")],
)  # fmt: skip
def test_factors_in_a_module(place, paths):
    """Values and gradients of the output are the module's; the factor is told with its matrix."""
    made = models.read(lambda: Factors(place), draws=20)
    for path in (f"{name}.{kind}" for name in "abcd" for kind in ("weight", "bias")):
        line = next(each for each in str(made).split("\n") if f"{path}: " in each)
        told = line.partition(f"{path}: ")[2].partition(", " + path[0] + ".bias: ")[0]
        assert bool(re.search("times -?0.25", told)) == (path in paths.split())
    assert made.network.activation.name == "tanh"
    X, last = np.random.default_rng(0).standard_normal((2, 6)), made.structure.blocks[-1].node
    kept = made.reading.initialize([3])
    values = made.reading.propagate(kept, 0, X[None], last)
    tangents = made.reading.tangents(kept, X, [last])
    torch.manual_seed(3)
    module = Factors(place).double()
    outputs = module(torch.from_numpy(X))
    np.testing.assert_allclose(values[0], outputs.detach(), rtol=1e-6)
    own = [p for name, p in module.named_parameters() if name != "k"]
    rows = [torch.autograd.grad(each, own, retain_graph=True) for each in outputs[:, 0]]
    flat = torch.stack([torch.cat([each.ravel() for each in row]) for row in rows])
    np.testing.assert_allclose(tangents[0, 0], flat @ flat.T, rtol=1e-6)


@pytest.mark.slow
def test_a_factor_on_the_output_is_in_the_rates_and_the_jacobian():
    """At 400 initializations by torch: 4 standard errors, and 3 % for terms of order 1/n that the
    Jacobian leaves out."""

    def make():
        net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        head = Tenth(64, 2)
        for each in (net[0], net[2], head):
            nn.init.normal_(each.weight, std=each.in_features**-0.5)
            nn.init.normal_(each.bias, std=0.1)
        return nn.Sequential(net, head)

    x = np.array([1.0, -0.5, 0.3, 0.8, -1.2, 0.4])
    found = models.report(make, x, draws=20)
    rates, sizes = [], []
    for seed in range(400):
        torch.manual_seed(seed)
        module, given = make(), torch.tensor(x[None], dtype=torch.float32, requires_grad=True)
        output = module(given)[0, 0]
        own = list(module.parameters())
        *slopes, slope = torch.autograd.grad(output, [*own, given])
        rates.append(2 / float(sum((each**2).sum() for each in slopes)))
        sizes.append(float((slope**2).sum()))
    for values, known, rest in (
        (rates, found.rates.stable, 0.0), (sizes, found.jacobian.size, 0.03)
    ):  # fmt: skip
        assert abs(np.mean(values) - known) < 4 * np.std(values) / 20 + rest * known


class Tenth(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 0.1


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)

    def forward(self, x):
        return F.linear(torch.tanh(self.a(x)), self.a.weight.t())


def test_one_fault_is_told_once():
    with pytest.raises(InputError) as caught:
        models.read(Tied)
    assert caught.value.wanted.count("a.weight, which is used twice") == 1
    several = nn.Sequential(nn.Conv1d(1, 2, 3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 2))
    with pytest.raises(
        InputError, match=r"0: .* inputs= tells .*; 1: no layer .* MaxPool1d: .* average"
    ):
        models.read(several)


def test_equal_blocks_are_one_layer():
    made = models.read(lambda: nn.Sequential(nn.Linear(8, 8), Residual(8), Residual(8)), draws=50)
    assert made.network.layer_at(2, 3) == made.network.layer_at(3, 3)


def hooked():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    net[0].register_forward_hook(lambda module, given, returned: 2 * returned)
    return net


def test_keywords_of_functions_are_theirs():
    """hardtanh with its second option alone."""
    made = models.read(lambda: Between(lambda x: F.hardtanh(x, max_val=2.0)), draws=8)
    sigma = sympy.lambdify(symbols.z, made.network.activation.expr)
    assert [sigma(each) for each in (-5, 0.5, 5)] == [-1, 0.5, 2]


class Alpha(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return torch.add(self.a(x), x, alpha=2)


class Between(nn.Module):
    """A function between two matrices."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.function = nn.Linear(4, 4), nn.Linear(4, 1), function

    def forward(self, x):
        return self.b(self.function(self.a(x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.flatten(torch.tanh(x)),
        lambda x: torch.tanh(x).flatten(),
        lambda x: torch.tanh(x).flatten(0, 1),
        nn.Flatten(0),
    ],
)
def test_inputs_are_not_joined(function):
    with pytest.raises(InputError, match="flatten with start_dim=0, end_dim="):
        models.read(lambda: Between(function))
    kept = models.read(lambda: Between(lambda x: torch.tanh(x).flatten(1).float()), draws=8)
    assert kept.widths == (4, 4, 1)


def test_a_norm_has_the_same_epsilon_as_a_module_and_as_a_function():
    graphs = [
        models.read(lambda each=each: Between(each), draws=8).reading.graph
        for each in (nn.RMSNorm(4), lambda x: F.rms_norm(x, (4,)))
    ]
    one, other = ([n.eps for n in graph.nodes if isinstance(n, Norm)] for graph in graphs)
    assert one == other
    assert float(one[0]) == 2.0**-23


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Scaled(lambda: torch.randn(1)), "factor: it is another in each initialization"),
        (lambda: Scaled(lambda: torch.linspace(0, 1, 8)), "a factor of its own for each neuron"),
        (Overwriting, "relu overwrites a value that is used again"),
        (Alpha, "the operation add with such arguments"),
        (Attention, "line .* in forward: MultiheadAttention of tokens first: .* batch_first"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "1: batch .* inputs= gives it"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), "softmax"),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten()), "0: a filter .* 2 axes"),
        (Branching, r"test_models_torch.py, line \d+, in forward: torch.fx cannot trace"),
        (lambda: Body(None), "output: got None; .* meant: 0, 1"),
        (Dropped, "dropout that is on in evaluation"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2))), "1: .* Unflatten"),
        (nn.ReLU, "no matrix on every path"),
        (lambda: nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), "inputs as they are"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.RReLU(), nn.Linear(4, 4)), "RReLU"),
        (lambda: Slopes(torch.tensor([0.1, 0.2, 0.1, 0.1])), "slope, a factor of its own"),
        (lambda: Slopes(torch.zeros(1)), "quotient by slope, which is 0"),
        (hooked, "0: hooks on a module"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(make, told):
    with pytest.raises(InputError, match=told):
        models.read(make)


def test_the_model_that_a_function_returns_stays_in_its_precision():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    with pytest.raises(InputError, match="the same in every initialization"):
        models.read(lambda: model, draws=8)
    assert model[0].weight.dtype == torch.float32


class Heads(nn.Module):
    """An actor with a softmax and a spread of its own, a critic, and what comes of a state."""

    def __init__(self):
        super().__init__()
        self.body, self.mean, self.value = nn.Linear(4, 24), nn.Linear(24, 2), nn.Linear(24, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, x, state=None):
        h = torch.tanh(self.body(x))
        mean, value = self.mean(h), self.value(h).squeeze(-1)
        actor = {"mean": mean, "std": self.log_std.exp().expand_as(mean), "p": mean.softmax(-1)}
        return {"actor": actor, "value": value, "state": state}


def test_one_of_several_outputs_is_read():
    """Layers and values of the head that is chosen; what others have is not in the way."""
    alone = models.read(lambda: Body(1), draws=8)
    both = models.read(lambda: Body(None), draws=8, output=1)
    assert both.network == alone.network
    assert set(both.laws) == {path for path in alone.laws if "actor" not in path}
    assert any("the output 1" in each for each in both.remarks)
    made = models.read(Heads, draws=8, output="actor.mean")
    assert made.widths == (4, 24, 2)
    assert "value.weight" not in made.laws
    X = np.random.default_rng(0).standard_normal((3, 4))
    reading = made.reading
    values = reading.propagate(reading.initialize([7]), 0, X[None], made.structure.blocks[-1].node)
    torch.manual_seed(7)
    expected = Heads()(torch.from_numpy(X).float())["actor"]["mean"].detach().numpy()
    np.testing.assert_allclose(values[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "output", "told"),
    [
        (Heads, None, "meant: actor.mean, actor.std, actor.p, value"),
        (Heads, "policy", "got 'policy'; .* meant: actor.mean"),
        (Heads, "actor.p", "softmax"),
        (lambda: nn.Linear(4, 4), "policy", "None for a model of one output"),
    ],
)
def test_an_output_that_is_none_is_named(make, output, told):
    with pytest.raises(InputError, match=told):
        models.read(make, output=output)


def test_a_model_that_was_read_has_its_output():
    made = models.read(lambda: Body(1), draws=8)
    with pytest.raises(InputError, match="output: got 0"):
        models.report(made, output=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [tanh_mlp, residual_stack, gated_stack, Written, Snake, overwriting]
)
def test_measured_tensors_agree_with_theory(make):
    """Of each some 50 comparisons, at a rate of false alarms of 6e-7 together."""
    found = models.report(make, draws=200)
    assert found.agrees, str(found)
    size = found.jacobian
    assert abs(size.measured - size.size) < 6 * size.error + 0.2 * size.size


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    page = tmp_path / "report.html"
    options = ["--draws", "100", "--html", str(page), "--details"]
    assert cli.main(["model", f"{POLICY}:net", *options]) == 0
    shown = capsys.readouterr().out
    assert "orthogonal, C_W = 2 (gain² 2)" in shown
    assert "stable below" in shown
    assert (
        shown.index("stable with depth") < shown.index("read right") < shown.index("V/(nK²) meas")
    )
    assert "<table>" in page.read_text(encoding="utf-8")
    assert cli.main(["model", f"{POLICY}:net", "--read"]) == 0


def test_the_command_reads_the_output_that_is_meant(tmp_path, capsys):
    source = tmp_path / "two.py"
    source.write_text(
        "from torch import nn\n"
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body, self.pi, self.v = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)\n"
        "    def forward(self, x):\n"
        "        h = self.body(x).tanh()\n"
        "        return self.pi(h), self.v(h)\n",
        encoding="utf-8",
    )
    assert cli.main(["model", f"{source}:Two", "--read", "--output", "1"]) == 0
    shown = capsys.readouterr().out
    assert "v.weight" in shown
    assert "pi.weight" not in shown
    assert cli.main(["model", f"{source}:Two", "--read"]) == 2
    assert "meant: 0, 1" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["policy.py", "no.py:net", f"{POLICY}:none", f"{POLICY}:math"])
def test_the_command_refuses_in_a_line(given, capsys):
    assert cli.main(["model", given]) == 2
    assert capsys.readouterr().err.count("\n") == 1
