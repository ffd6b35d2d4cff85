"""Sizes of layers against width: what muP keeps, and what theory says of them."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from derive.errors import InputError
from numeric.models import coordinate_check, coordinates

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
from torch import nn  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
X = np.random.default_rng(0).standard_normal((2, 8))


@pytest.fixture(scope="module")
def mup():
    """The example's functions."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import mup  # noqa: PLC0415
    finally:
        sys.path.remove(str(EXAMPLES))
    return mup


def one_matrix(width):
    return nn.Sequential(nn.Linear(3, 4, bias=False))


def test_one_matrix_descends_as_theory_says():
    """Θ = |x|² does not fluctuate, so that the mean squares after each step are exact. Six numbers,
    two widths, at 5 standard errors."""
    found = coordinate_check(one_matrix, [1, 2], X[:, :3], draws=60)
    rows = [row for row in found.rows if row.optimizer == "SGD"]
    assert len(rows) == 4
    for row in rows:
        assert np.isfinite(row.theory).all()
        assert (abs(row.values - row.theory) < 5 * row.errors + 1e-9).all()
    assert rows[0].spread[0] == pytest.approx(rows[0].errors[0] * math.sqrt(60), rel=0.5)


def depth_two(scale):
    def made(width):
        model = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        model.append(nn.Linear(width, 2))
        for each in model[::2]:
            nn.init.normal_(each.weight, std=each.in_features**-0.5)
            nn.init.zeros_(each.bias)
        with torch.no_grad():
            model[2].weight *= (width / 16) ** scale
        return model

    return made


@pytest.mark.slow
def test_a_size_that_grows_at_initialization_fails():
    """Hidden weights that are √width too large: z grows as width^½."""
    found = coordinate_check(depth_two(0.5), [16, 64, 256], X, steps=1, draws=10)
    assert not found.passed
    worst = next(row for row in found.failures("Adam") if row.step == 0)
    assert worst.layer == "layer 2"
    assert abs(worst.slope - 0.5) < 5 * worst.error
    assert "without a name" in str(found)


@pytest.mark.slow
def test_mup_passes_and_the_standard_parametrisation_fails(mup):
    optimizers = {"SGD": mup.sgd, "Adam": mup.adam}
    good = coordinate_check(mup.mup, [64, 256], X, optimizers=optimizers, steps=2, draws=8)
    assert good.passed
    assert all("muP" in told for told in good.names.values())
    assert str(good).count("PASS") == 2
    bad = coordinate_check(mup.standard, [64, 256], X, steps=1, draws=8)
    assert not bad.passed
    assert all("standard" in told for told in bad.names.values())
    output = [row for row in bad.rows if row.optimizer == "SGD" and row.layer == "layer 3"][1]
    error = output.errors / output.values
    assert (abs(output.values / output.theory - 1) < 5 * error + 10 / np.array([64, 256])).all()
    pytest.importorskip("matplotlib")
    assert len(bad.plot().axes) == 4


def test_a_model_that_is_not_read_is_measured():
    """By its modules: max pooling has no theory."""

    def made(width):
        parts = nn.Conv1d(1, width, 3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(3 * width, 2)
        return nn.Sequential(*parts)

    found = coordinate_check(made, [4, 8], X[:, None], steps=1, draws=3)
    assert {row.layer for row in found.rows} == {"0", "3"}
    assert np.isnan(found.rows[0].theory).all()
    assert "no theory" in str(found)


def test_a_model_of_batches_is_measured():
    """Four inputs are too few for a tangent kernel behind batch normalization."""

    def made(width):
        return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 2))

    found = coordinate_check(made, [4, 8], X.reshape(4, 4), steps=1, draws=3)
    assert np.isnan(found.rows[0].theory).all()
    assert "no theory of signals or batches" in str(found)


@pytest.mark.parametrize(
    ("exponents", "name"),
    [
        ({"weights": (0, -0.5, -0.5), "rates": (0, -1, -1)}, "NTK"),
        ({"weights": (0, math.nan, -1), "rates": (1, math.nan, -1)}, "muP"),
        ({"weights": (0, 0, 0), "rates": (0, 0, 0)}, "without a name"),
        ({}, "unknown"),
    ],
)
def test_a_parametrisation_has_a_name(exponents, name):
    assert name in coordinates._named("SGD", exponents)


@pytest.mark.parametrize("widths", [[8], [8, 8], 8])
def test_one_width_is_refused(widths):
    with pytest.raises(InputError, match="widths"):
        coordinate_check(one_matrix, widths, X)
