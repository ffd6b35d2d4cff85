"""Combinations of layers that a review tried: exact reductions, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from derive import InputError, Network, layers
from numeric import deep, flow

TOKENS = np.array([[[1.0, 0.5, -0.3], [0.2, -1.0, 0.7]]])
ALONE = np.where(np.eye(2) > 0, 0.0, -np.inf)
"""A mask under which each token reads itself alone."""


def attention_with(addend: str) -> layers.Layer:
    """Heads of 4 neurons, scores over the root of 4, and another addend beside attention."""
    attended = "WO[i,a] softmax_s(c[t,s] + B[t,s]) v[a,s]"
    read = "qkvh" if "h[a]" in addend else "qkv"
    return layers.Layer(
        *(f"{x}[i] = W{x.upper()}[i,a] z[a]" for x in read),
        "c[t,s] = q[a,t:n/4] k[a,s:n/4]/sqrt(n)",
        f"z[i] = b[i] + {attended} + {addend}",
        tables={"B": ALONE},
        positions=2,
    )


@pytest.mark.parametrize("addend", ["W2[i,a] h[a]", "W2[i,a] v[a]", "WO[i,a] h[a]", "WO[i,a] z[a]"])
@pytest.mark.parametrize("name", ["K", "V"])
def test_another_matrix_beside_scores_over_the_root(addend: str, name: str) -> None:
    """V would lack what that matrix reads, and K what it shares with attention."""
    net = Network("linear", layer=attention_with(addend))
    with pytest.raises(InputError, match="beside attention"):
        flow(net, TOKENS, 2, name)


@pytest.mark.parametrize("name", ["K", "V"])
def test_queries_and_values_of_other_variables(name: str) -> None:
    """Tokens of equal length have proportional kernels before and behind a norm, but lengths
    fluctuate before it alone. V was 1.25, where networks have 0.99 ± 0.05."""
    layer = layers.Layer(
        "m = z[a]^2/n",
        "y[i] = z[i]/sqrt(m)",
        "q[i] = WQ[i,a] y[a]",
        "k[i] = WK[i,a] y[a]",
        "v[i] = WV[i,a] z[a]",
        "c[t,s] = q[a,t:n/4] k[a,s:n/4]/sqrt(n)",
        "z[i] = b[i] + WO[i,a] softmax_s(c[t,s]) v[a,s]",
        positions=2,
    )
    net = Network("linear", layer=layers.by_depth(stem="dense", block=layer))
    tokens = [[[1, 0, 0.5, 0], [0, 1, 0, 0.5]]]
    with pytest.raises(InputError, match="of other variables"):
        flow(net, tokens, 3, name)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["layer", "group(2)"])
def test_norms_before_scores_over_the_root(norm: str) -> None:
    """Tokens alone: scores of either scale do nothing."""
    found, wanted = (
        flow(Network("linear", layer=layer), TOKENS, 2, "V")["V"]
        for layer in (
            layers.attention("n/4", 2, scores="1/sqrt(d)", mask=1, norm=norm),
            layers.attention(2, 2, mask=1, norm=norm),
        )
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_biases_of_queries_keys_and_values() -> None:
    """Tokens alone: two matrices in a row, with a bias between."""
    biased = [f"{x}[i] = b{k}[i] + W{x.upper()}[i,a] z[a]" for k, x in enumerate("qkv", 1)]
    layer = layers.Layer(
        *biased,
        "c[t,s] = q[a,t:n/4] k[a,s:n/4]/sqrt(n)",
        "z[i] = b[i] + WO[i,a] softmax_s(c[t,s] + B[t,s]) v[a,s]",
        tables={"B": ALONE},
        positions=2,
    )
    nets = [
        Network("linear", layer=each, C_b=0.1)
        for each in (layer, layers.sequence(*["dense(activations=linear)"] * 2))
    ]
    found, wanted = (
        flow(net, x, 3, ["K", "V"]) for net, x in zip(nets, (TOKENS, TOKENS[0]), strict=True)
    )
    for name in ("K", "V"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_a_law_of_a_depth_with_pooling() -> None:
    net = Network("relu", C_W=2, layer="convolution(2, 3)*; pooling(3)")
    with pytest.raises(InputError, match="the same positions"):
        deep.law(net, np.ones((3, 2)), 1)
