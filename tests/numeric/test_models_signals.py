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
    ("part", "why"),
    [
        (nn.MaxPool1d(2), "largest of several positions"),
        (nn.BatchNorm1d(2), "inputs of a batch depend on each other"),
        (nn.GroupNorm(1, 2), "GroupNorm of inputs"),
        (nn.InstanceNorm1d(2), "one neuron in each group"),
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
