"""Convolutions of torch: read, and K by theory beside draws of the model itself."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from derive import InputError
from numeric import flow, models
from numeric.flows import flow_of_all
from numeric.models import measurement
from numeric.models.drawn import Drawn

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "resnet.py"
X = np.random.default_rng(0).standard_normal((2, 2, 6))
DRAWS, BOUND = 800, 5.0


class Net(nn.Module):
    """A strided block with a projection between convolutions, then the mean of all positions."""

    def __init__(self, mode="zeros"):
        super().__init__()
        self.a = nn.Conv1d(2, 24, 3, padding=1, padding_mode=mode, bias=False)
        self.b = nn.Conv1d(24, 32, 3, stride=2, padding=1, padding_mode=mode, bias=False)
        self.c = nn.Conv1d(32, 32, 3, padding="same", padding_mode=mode, bias=False)
        self.s, self.d = nn.Conv1d(24, 32, 1, stride=2, bias=False), nn.Linear(32, 32, bias=False)
        for each in (self.a, self.b, self.c, self.s, self.d):
            nn.init.kaiming_normal_(each.weight)

    def forward(self, x):
        z = self.a(x)
        z = self.s(z) + self.c(torch.relu(self.b(torch.relu(z))))
        return self.d(torch.relu(z).mean(-1))


class Causal(nn.Module):
    """Filters that read the past alone, by zeros in front or by cutting off what is behind."""

    def __init__(self, way):
        super().__init__()
        behind = {"padding": 2} if way == "cut" else {}
        self.a, self.b = nn.Conv1d(2, 8, 3, **behind), nn.Conv1d(8, 8, 3, dilation=2)
        self.beside, self.c = nn.CircularPad1d((4, 0)), nn.Linear(8, 4)
        self.way = way

    def forward(self, x):
        x = self.a(x)[..., :-2] if self.way == "cut" else self.a(nn.functional.pad(x, (2, 0)))
        return self.c(torch.relu(self.b(self.beside(torch.relu(x)))).mean(-1))


def images():
    """Means in the middle, and positions laid flat."""
    parts = [nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(8, 8, 2)]
    return nn.Sequential(*parts, nn.Tanh(), nn.Flatten(), nn.Linear(8 * 2, 3))


IMAGES = np.random.default_rng(1).standard_normal((2, 2, 6, 4))


def delta():
    """A filter whose taps are 0 but that in the middle."""
    made = nn.Conv1d(8, 8, 3, padding=1, bias=False)
    with torch.no_grad():
        made.weight[:, :, ::2] = 0.0
        nn.init.orthogonal_(made.weight[:, :, 1])
    head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))
    return nn.Sequential(nn.Conv1d(2, 8, 1), nn.ReLU(), made, *head)


def kernel(found):
    return flow(found.network, found.samples(X), found.depth, "K")["K"].to_numpy()[-1]


def test_k_is_that_of_draws_of_the_model():
    """By 5 standard errors and what is left out at order 1/n; zeros for circular are seen."""
    found = models.read(Net, X, draws=20)
    made, node = found.reading.initialize(range(DRAWS)), found.structure.blocks[-1].node
    z = found.reading.propagate(made, 0, X[None], node)
    draws = np.einsum("dai,dbi->dab", z, z) / z.shape[-1]
    se = draws.std(axis=0) / DRAWS**0.5
    assert (abs(draws.mean(axis=0) - kernel(found)) < BOUND * se).all()
    other = kernel(models.read(lambda: Net("circular"), X, draws=20))
    assert (abs(draws.mean(axis=0) - other) > BOUND * se).any()


def test_unchecked_tensors_are_the_same():
    """Without rounding errors K and Θ are the same numbers, of which a third is computed."""
    found, tensors = models.read(Net, X, draws=20), ["K", "Theta"]
    given = found.network, found.samples(X), found.depth, tensors
    checked, below = flow_of_all(*given)
    quick, below_quick = flow_of_all(*given, is_checked=False)
    for name in tensors:
        np.testing.assert_array_equal(quick[name], checked[name])
        assert 0 < quick[f"{name}_error"].max() < 1e-12 * checked[name].max()
        for one, other in zip(below, below_quick, strict=True):
            np.testing.assert_array_equal(one[name], other[name])


class Normed(nn.Module):
    """A norm over channels and positions in a block with a skip."""

    def __init__(self, norm):
        super().__init__()
        self.a, self.norm = nn.Conv1d(2, 32, 3, padding=1, bias=False), norm
        self.b, self.d = nn.Conv1d(32, 32, 3, padding=1, bias=False), nn.Linear(32, 32, bias=False)
        for each in (self.a, self.b, self.d):
            nn.init.kaiming_normal_(each.weight)

    def forward(self, x):
        z = self.a(x)
        return self.d(torch.relu(z / 2 + self.b(self.norm(z))).mean(-1))


def test_norms_over_positions_are_read():
    """The second half of each signal is larger, so that norms of each position give another K."""
    x = X * np.repeat([1.0, 4.0], 3)
    norms = nn.GroupNorm(4, 32), nn.LayerNorm([32, 6])
    lines = []
    for norm in norms:
        found = models.read(lambda norm=norm: Normed(norm), x, draws=20)
        lines.append(found.network.layer_at(2, 3).lines[0])
        made, node = found.reading.initialize(range(DRAWS)), found.structure.blocks[-1].node
        z = found.reading.propagate(made, 0, x[None], node)
        draws = np.einsum("dai,dbi->dab", z, z) / z.shape[-1]
        se = draws.std(axis=0) / DRAWS**0.5
        K = flow(found.network, found.samples(x), found.depth, "K")["K"].to_numpy()[-1]
        assert (abs(draws.mean(axis=0) - K) < BOUND * se).all()
    assert lines == ["m1 = z[a,p:4]/n", "m1 = z[a,p]/n"]


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (Net, X),
        (lambda: Net("circular"), X),
        (lambda: Causal("cut"), X),
        (lambda: Causal("zeros"), X),
        (images, IMAGES),
        (delta, X),
    ],
    ids=["zeros", "circular", "cut", "causal", "images", "delta"],
)
def test_what_was_read_computes_what_the_model_computes(make, inputs):
    """With the model's own matrices: values and tangent kernels at the outputs."""
    found = models.read(make, inputs, draws=8)
    reading, node = found.reading, found.structure.blocks[-1].node
    drawn = Drawn(reading.graph, found.laws)
    made = reading.initialize(range(2))
    values, X = reading.values(made), found.by_positions(inputs)
    own = reading.propagate(made, 0, inputs[None], node)
    np.testing.assert_allclose(drawn.propagate(values, 0, X[None], node), own, atol=1e-12)
    tangents = reading.tangents(made, inputs, [node])
    np.testing.assert_allclose(drawn.tangents(values, X, [node]), tangents, rtol=1e-10)


def test_theta_of_taps_that_are_0_at_the_start_is_refused():
    with pytest.raises(InputError, match="Θ has a part of theirs"):
        models.report(models.read(delta, X, draws=8), X)


def test_the_past_is_read_in_either_way():
    one, other = (models.read(lambda way=way: Causal(way), X, draws=8) for way in ("cut", "zeros"))
    np.testing.assert_array_equal(kernel(one), kernel(other))


@pytest.mark.slow
def test_the_matrix_behind_a_mean_of_positions_is_averaged_over():
    """torch has channels before positions. Otherwise the standard error is 0.75 V."""

    def made():
        parts = nn.Conv1d(2, 16, 1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1), nn.ReLU()
        return nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 2))

    read = models.read(made, X, draws=20)
    sampled = measurement.measure(read, X, measurement.Plan(60, 10, 2), 3).second
    V, se = (sampled[name].to_numpy()[-1] for name in ("V", "V_se"))
    theory = flow(read.network, read.samples(X), read.depth, ["V"], draws=4000)["V"].to_numpy()[-1]
    assert (abs(V - theory) < BOUND * se + 0.1 * theory.max()).all()  # and what 1/n² may add
    assert se.max() < 0.1 * theory.max()


@pytest.mark.slow
def test_a_report_of_signals():
    """K of all layers, means over positions, V of the outputs, and what depth does to it.

    With ReLU, He's weights and no biases K of a position is the mean of its neighbours', 0 beyond
    the boundary, and every χ a quotient of mean K.
    """

    def made(n=16):
        parts = [nn.Conv1d(2, n, 1, bias=False), nn.Conv1d(n, n, 3, padding=1, bias=False)]
        parts.append(nn.Linear(n, 8, bias=False))
        for each in parts:
            nn.init.kaiming_normal_(each.weight)
        one, two, head = parts
        pool = nn.AdaptiveAvgPool1d(1), nn.Flatten()
        return nn.Sequential(one, nn.ReLU(), two, nn.ReLU(), *pool, head)

    found = models.report(made, X[0, :, :4], draws=60)
    table, K = found.table, (X[0, :, :4] ** 2).sum(axis=0)
    below = np.convolve(K, np.ones(3) / 3, "same")
    np.testing.assert_allclose(table.K[:2], [K.mean(), below.mean()])
    for chi in (table.chi_parallel, table.chi_perp):
        np.testing.assert_allclose(chi[1], below.mean() / K.mean(), rtol=1e-3)
    np.testing.assert_allclose(table.chi_parallel[2], table.K[2] / table.K[1], rtol=1e-3)
    assert found.agrees
    assert (abs(table.K_measured - table.K) < BOUND * table.K_measured_se + 0.05 * table.K).all()
    assert np.isnan(table.ratio[:2]).all()
    assert found.depths[0].at_model == pytest.approx(float(table.ratio[2]), rel=0.15)
    assert "below" in found.details or "at depth" in found.details


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (nn.Sequential(nn.Conv1d(2, 2, 1), nn.MaxPool1d(2)), "largest of several positions"),
        (nn.GroupNorm(1, 2), "GroupNorm of inputs"),
        (nn.Sequential(nn.Conv1d(2, 2, 1), nn.InstanceNorm1d(2)), "one neuron in each group"),
        (nn.Conv1d(2, 2, 3, groups=2), "2 groups of channels"),
    ],
)
def test_what_is_refused_says_why(part, why):
    with pytest.raises(InputError, match=why):
        models.read(nn.Sequential(part, nn.Flatten(), nn.Linear(12, 2)), X)


@pytest.mark.slow
def test_the_example_of_a_resnet_agrees_with_its_draws(capsys, monkeypatch, tmp_path):
    """Of fewer and smaller draws: two z-scores, below 4 in all but one of 8000 seeds."""
    monkeypatch.setattr(sys, "argv", ["resnet.py", str(tmp_path / "resnet.svg")])
    main = runpy.run_path(str(EXAMPLE))["main"]
    small = {"BLOCKS": 2, "SIZE": 4, "DRAWS": {16: 600, 32: 600, 64: 600}}
    for name, value in small.items():
        monkeypatch.setitem(main.__globals__, name, value)
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("read: 4 layers, of which 2 are q1 = z[a] z[a]/n; ")
    scores = [float(z) for z in re.findall(r"z = (-?[\d.]+)$", "\n".join(lines), re.MULTILINE)]
    assert len(lines) == 5
    assert len(scores) == 2
    assert max(map(abs, scores)) < 4
    assert (tmp_path / "resnet.svg").is_file()
