"""Dense networks' steps by tiles of registers, beside NumPy's products."""

import itertools

import numpy as np
import pytest

from derive.activations import as_activation
from numeric.training import optimizers


@pytest.mark.parametrize("points", [1, 7, 8, 9, 17])
@pytest.mark.parametrize(
    "widths",
    [(3, 1, 1), (1, 5, 7, 2), (9, 8, 12, 8), (2, 15, 16, 17, 1), (5, 24, 31, 9), (3, 512, 40, 11)],
)
def test_steps_are_those_of_products_at_every_width(widths, points):
    """Tiles that are whole, that overlap, and single rows; lanes that are full and that are not."""
    rng, steps = np.random.default_rng(0), 3
    shapes = list(itertools.pairwise(widths))
    layers = [
        (rng.standard_normal(shape) / np.sqrt(shape[0]), rng.standard_normal(shape[1]))
        for shape in shapes
    ]
    x, y = (rng.standard_normal((points, n)) for n in (widths[0], widths[-1]))
    own = np.concatenate([part.ravel() for layer in layers for part in layer])[None]
    rates = np.array([[1 / n for n, _ in shapes], [0.5] * len(shapes)])
    order = np.tile(rng.permutation(points), (1, steps, 1))
    rule, moments = optimizers.Optimizer("tensorial", 0.1), np.empty((0, *own.shape))
    data = widths, x, y, order, "squared", as_activation("tanh")
    optimizers.take_steps(rule, own, moments, rates, 0, *data)
    for _ in range(steps):
        entering = [x]
        for W, b in layers:
            entering.append(np.tanh(entering[-1] @ W + b))
        back = entering[-2] @ layers[-1][0] + layers[-1][1] - y
        for layer in reversed(range(len(layers))):
            (W, b), x_in = layers[layer], entering[layer]
            below = (back @ W.T) * (1 - x_in**2)
            W -= 0.1 * rates[0, layer] * (x_in.T @ back)
            b -= 0.1 * rates[1, layer] * back.sum(axis=0)
            back = below
    expected = np.concatenate([part.ravel() for layer in layers for part in layer])
    assert own[0] == pytest.approx(expected, rel=1e-11, abs=1e-12)
