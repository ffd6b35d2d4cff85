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


def test_a_law_of_a_depth_with_pooling() -> None:
    net = Network("relu", C_W=2, layer="convolution(2, 3)*; pooling(3)")
    with pytest.raises(InputError, match="the same positions"):
        deep.law(net, np.ones((3, 2)), 1)
