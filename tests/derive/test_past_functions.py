"""Layers that carry z past a function of the same z, whose law rotations do not keep: K and Θ."""

import numpy as np
import pytest
from scipy.special import ndtr

from derive import Gaussian, InputError, Network, activations, layers, recursion
from numeric import compare, flow, simulate

LINES = "h[i] = W1[i,a] tanh(z[a])", "z[i] = z[i] + W2[i,a] s(h[a])"
LAWS = {"W1": "uniform", "W2": "orthogonal"}
X = [1.0, 0.5]
C = 1.5


def network(weights):
    return Network("gelu", Gaussian(C), C_b="1/10", layer=layers.Layer(*LINES, weights=weights))


def test_kernels_by_hand():
    """K' = K + C ⟨s²⟩ at C ⟨tanh²⟩_K, and Θ along the skip and through both matrices."""
    table = flow(network(LAWS), X, 4, ["K", "Theta"])
    K, theta = table["K"].to_numpy(), table["Theta"].to_numpy()
    for layer in range(3):
        size, slope = (float(activations.tanh.average((k, k), K[layer])) for k in (0, 1))
        inner, bent = (float(activations.gelu.average((k, k), C * size)) for k in (0, 1))
        assert K[layer + 1] == pytest.approx(K[layer] + C * inner, rel=1e-12)
        expected = theta[layer] + inner + C * bent * (size + C * slope * theta[layer])
        assert theta[layer + 1] == pytest.approx(expected, rel=1e-12)


def test_kernels_depend_on_variances_alone():
    """As those of Gaussian weights; and K of explicit uniform and orthogonal matrices, to 10 %."""
    one, other = (flow(network(each), X, 3, ["K", "Theta"]) for each in (LAWS, None))
    for name in ("K", "Theta"):
        assert np.array_equal(one[name], other[name])
    rng, found = np.random.default_rng(1), []
    for n in (32, 64):
        rows = []
        for _ in range(1000):
            z = rng.standard_normal(n) * np.sqrt(0.1 + C * np.mean(np.square(X)))
            rows.append([])
            for _ in range(2):
                W1 = rng.uniform(-1.0, 1.0, (n, n)) * np.sqrt(3 * C / n)
                Q, R = np.linalg.qr(rng.standard_normal((n, n)))
                h = W1 @ np.tanh(z)
                z = z + np.sqrt(C) * (Q * np.sign(np.diag(R))) @ (h * ndtr(h))
                rows[-1].append(np.mean(z**2))
        found.append((np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))))
    (narrow, of_narrow), (wide, of_wide) = found
    theory, error = one["K"].to_numpy()[1:], np.hypot(2 * of_wide, of_narrow)
    assert (np.abs(2 * wide - narrow - theory) < 5 * error).all()
    assert (5 * error < 0.1 * theory).all()


@pytest.mark.parametrize("laws", [None, LAWS])
def test_they_are_sampled(laws):
    net = network(laws)
    names = ["K", "Theta"]
    samples = [simulate(net, X, n, 3, 500, tensors=names, seed=1) for n in (32, 64)]
    assert compare(flow(net, X, 3, names), samples).agrees


@pytest.mark.parametrize(
    "lines",
    [
        LINES,
        ("z[i] = gamma z[i] + W[i,a] s(z[a]) z[a]",),
        ("h[i] = W1[i,a] z[a]", "z[i] = z[i] + W2[i,a] h[a] z[a]"),
    ],
)
def test_their_law_is_not_invariant(lines):
    layer = layers.Layer(*lines)
    assert "not invariant under rotations" in layer.why_not
    assert recursion("Theta", layer=layer).layer == layer
    with pytest.raises(InputError, match="only permutations keep"):
        recursion("V", layer=layer)


def test_what_has_no_closed_recursion_is_named():
    for made in (
        lambda: recursion("V", layer=layers.Layer(*LINES)),
        lambda: flow(network(None), X, 3, "V"),
    ):
        with pytest.raises(InputError):
            made()
