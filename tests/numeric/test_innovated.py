"""Ensembles with their innovations taken out: unbiased at every width, and of smaller error."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.layers.by_moments import PreNorm
from derive import Gaussian, InputError, LowRankGaussian, Network, Orthogonal
from numeric import simulate
from numeric.samplers.staged_innovations import own_squares, reduced
from numeric.verify import innovated as module
from numeric.verify.innovated import innovated

PAIR = np.array([[1.0, 0.5, -0.7], [0.3, 1.0, 0.6]])
SIGNALS = np.array([[1.0, 0.5, -0.7], [0.3, 1.0, 0.6], [-0.5, 0.2, 0.9]])
LAYERS = (
    "normalized(layer)",
    "residual(skip=1/2)",
    "gated(skip=1/2, norm=rms)",
    "convolution(2, 3)",
)


def network(layer: str, weights=None, activation: str = "tanh", C_b: float = 0.2) -> Network:
    return Network(activation, weights or Gaussian(1.5), Gaussian(1), C_b=C_b, layer=layer)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 2048)
    monkeypatch.setattr(module, "LEARNED", 1024)


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
@pytest.mark.parametrize(
    ("layer", "kind", "skip"),
    [
        ("normalized(rms)", "normalized", 0.0),
        ("residual(skip=1/2, norm=rms)", "residual", 0.5),
        ("gated(norm=rms)", "gated", 0.0),
    ],
)
@pytest.mark.usefixtures("few")
def test_what_is_exact_at_finite_width(layer: str, kind: str, skip: float, weights) -> None:
    """One input behind a norm, n = 12, layers 2 to 4: z-scores of 36 numbers in all."""
    n, x = 12, PAIR[0]
    haar = isinstance(weights, Orthogonal)
    found = innovated(network(layer, weights), x, n, 4, seed=2)
    table = found.table([found.part(0), found.part(1)])
    K = 0.2 + float(np.mean(x**2))
    square = K**2 * (1 + 2 / n)
    means, vertices = PreNorm(np.tanh, haar, kind, skip, 1.5, 0.2).run((K, square), n, 4)
    for name, exact in (("K", means), ("V", vertices)):
        values, errors = table[name].values[1:], table[f"{name}_se"].values[1:]
        assert (np.abs(values - exact[1:]) < 5 * errors + 1e-9).all()


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.usefixtures("few")
def test_innovations_have_mean_zero(layer: str, weights) -> None:
    """Each c, and each c c' − Σ f f'/n²: z-scores of less than 5 among some thousand."""
    x = SIGNALS if layer.startswith("convolution") else PAIR
    found = innovated(network(layer, weights, "gelu"), x, 8, 3, seed=3)
    *_, (_, groups) = found.sampler.followed(np.arange(1500), found.means)
    for columns in (reduced(groups), *map(own_squares, groups)):
        error = columns.std(axis=0) / np.sqrt(len(columns))
        assert (np.abs(columns.mean(axis=0)) < 5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("layer", "gain"), [("normalized(layer)", 2.0), ("residual(skip=1/2)", 2.0)]
)
@pytest.mark.usefixtures("few")
def test_errors_are_smaller(layer: str, gain: float) -> None:
    net, n = network(layer, Orthogonal(1.5)), 96
    found = innovated(net, PAIR, n, 4)
    table = found.table([found.part(0)])
    plain = simulate(net, PAIR, n, 4, 2048, tensors=["K", "V"])
    for name, least in (("K", gain), ("V", 1.5)):
        ratio = plain[f"{name}_se"].values[1:] / table[f"{name}_se"].values[1:]
        assert ratio.min() > least


@pytest.mark.usefixtures("few")
def test_controls_are_of_one_unit_for_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches change nothing: a scale of each batch's own would."""
    found = innovated(network("residual(skip=1/2)"), PAIR, 8, 3)
    whole = found.part(0)
    monkeypatch.setattr(module, "_HELD", 700)
    parted = found.part(0)
    np.testing.assert_allclose(parted.values, whole.values, rtol=1e-6, atol=1e-12)


def test_what_is_refused() -> None:
    """Other weights, and inputs that innovations cannot tell apart."""
    with pytest.raises(InputError, match="on one line"):
        innovated(network("residual(skip=1/2)"), [PAIR[0], 2 * PAIR[0]], 8, 2)
    with pytest.raises(InputError, match="orthogonal"):
        innovated(network("normalized(rms)", LowRankGaussian(gamma="1/2")), PAIR, 8, 3)
