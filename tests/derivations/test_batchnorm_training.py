"""Networks with batch normalization and convolutions: exact gradients, starts and training."""

import numpy as np
import pytest

from derivations.daneshmand import descent, modules
from derivations.daneshmand.orthogonalization import orthogonality_gap
from derivations.training.data import digits
from derive.errors import InputError

IMAGES = digits().taken(slice(60))
FLAT = IMAGES.pixels / 16
SQUARE = FLAT.reshape(60, 1, 8, 8)


def network(kind, normalised, rng):
    x = FLAT[:7] if kind == "dense" else SQUARE[:7]
    return x, descent.made(x, 5, 3, 4, "xavier", normalised, rng)


@pytest.mark.parametrize("kind", ["dense", "convolutional"])
@pytest.mark.parametrize("normalised", [False, True])
def test_gradients_are_those_of_finite_differences(kind, normalised):
    """Dense, convolution, batch norm, ReLU, pooling, flattening and cross-entropy together."""
    rng, h = np.random.default_rng(2), 1e-6
    x, layers = network(kind, normalised, rng)
    x = x + 0.1 * rng.standard_normal(x.shape)  # no two pixels alike: pooling has a gradient
    for layer in layers:
        for own in layer.parameters:  # biases, too: no preactivation is 0, at a kink
            own[:] = own + 0.1 * rng.standard_normal(own.shape)
    targets = np.eye(4)[rng.integers(4, size=7)]
    _, found = modules.gradients(layers, x, targets)
    for layer, own in zip(layers, found, strict=True):
        for parameter, gradient in zip(layer.parameters, own, strict=True):
            for at in rng.integers(parameter.size, size=3):
                sides = []
                for by in (h, -h):
                    parameter.flat[at] += by
                    sides.append(modules.gradients(layers, x, targets)[0])
                    parameter.flat[at] -= by
                slope = (sides[0] - sides[1]) / (2 * h)
                assert gradient.flat[at] == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_a_convolution_is_the_sum_over_taps():
    rng = np.random.default_rng(0)
    x, W = rng.standard_normal((2, 3, 4, 4)), rng.standard_normal((5, 27))
    y, _ = modules.convolution(W).forward(x)
    taps, wide = W.reshape(5, 3, 3, 3), np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(
        np.einsum("oc,ncij->noij", taps[:, :, i, j], wide[:, :, i : i + 4, j : j + 4])
        for i in range(3)
        for j in range(3)
    )
    assert y == pytest.approx(expected)


def test_batch_norm_has_mean_0_and_variance_1_and_is_blind_to_scale():
    x = np.random.default_rng(1).standard_normal((50, 3, 2, 2)) * 3 + 5
    y, _ = modules.batch_norm(0.0).forward(x)
    assert y.mean(axis=(0, 2, 3)) == pytest.approx(0, abs=1e-12)
    assert y.var(axis=(0, 2, 3)) == pytest.approx(1)
    assert modules.batch_norm(0.0).forward(7 * x - 2)[0] == pytest.approx(y)


def test_clipping_bounds_the_gradient_of_each_matrix():
    """A step is then no longer than ηλ|W| (29), and the same where λ is large."""
    rng = np.random.default_rng(3)
    moved = {}
    for clip in (1e-3, 1e9, None):
        x, layers = network("dense", False, np.random.default_rng(3))
        targets = np.eye(4)[rng.integers(4, size=7) * 0]
        before = [layer.parameters[0].copy() for layer in layers if layer.parameters]
        descent.descend(layers, x, targets, 0.1, clip)
        after = [layer.parameters[0] for layer in layers if layer.parameters]
        moved[clip] = [np.linalg.norm(b - a) for a, b in zip(after, before, strict=True)]
        sizes = [np.linalg.norm(each) for each in before]
    assert moved[1e-3] == pytest.approx([0.1 * 1e-3 * each for each in sizes])
    assert moved[1e9] == moved[None]


@pytest.mark.parametrize("kind", ["dense", "convolutional"])
def test_iterative_orthogonalization_lowers_the_gap(kind):
    """At the last layer, of the batch that it is made for; Xavier's weights align it."""
    x = FLAT if kind == "dense" else SQUARE
    gaps = {}
    for start in ("xavier", "iterative"):
        layers = descent.made(x, 12, 8, 10, start, False, np.random.default_rng(0))
        gaps[start] = orthogonality_gap(modules.outputs(layers, x)[-2].reshape(60, -1).T)
    assert gaps["iterative"] < 0.7 * gaps["xavier"]


def test_orthogonal_starts_have_one_singular_value():
    layers = descent.made(FLAT, 64, 3, 10, "orthogonal", False, np.random.default_rng(0))
    sigma = np.linalg.svd(layers[0].parameters[0], compute_uv=False)
    assert np.ptp(sigma) < 1e-12
    assert sigma[0] == pytest.approx(8 / (3 * np.pi), rel=0.05)  # the semicircle's mean


def test_training_learns_and_repeats_to_the_bit(tmp_path):
    given = {"width": 16, "depth": 3, "batch": 20, "epochs": 4, "eta": 0.5, "seed": 1}
    table = descent.train(FLAT, IMAGES.labels, draws=3, normalised=True, **given)
    assert table["loss"].shape == (3, 5)
    assert (table["loss"][:, -1] < 0.6 * table["loss"][:, 0]).all()
    descent.train(FLAT, IMAGES.labels, draws=2, normalised=True, run=tmp_path / "run", **given)
    again = descent.train(
        FLAT, IMAGES.labels, draws=3, normalised=True, run=tmp_path / "run", **given
    )
    assert (again["loss"].to_numpy() == table["loss"].to_numpy()).all()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kind": "recurrent"}, "kind"),
        ({"kind": "convolutional"}, "images"),
        ({"start": "zero"}, "start"),
        ({"clip": 0}, "clip"),
        ({"eta": float("inf")}, "eta"),
        ({"batch": 61}, "batch"),
        ({"depth": 1}, "depth"),
        ({"labels": IMAGES.labels[1:]}, "labels"),
        ({"images": 10**400}, "images"),
        ({"images": "digits"}, "images"),
    ],
)
def test_bad_input_is_refused(wrong, named):
    given = {"images": FLAT, "labels": IMAGES.labels, "width": 4, "depth": 2, "batch": 10}
    with pytest.raises(InputError, match=named):
        descent.train(**(given | wrong))


def test_images_with_odd_sides_are_not_pooled():
    with pytest.raises(InputError, match="even sides"):
        descent.train(
            SQUARE[:, :, :6, :6], IMAGES.labels, 4, 3, kind="convolutional", batch=10, epochs=0
        )
