"""Norms whose means run over positions, too: exact fluctuations, and networks.

With y = q z, q = mean_p Σ z²/n, and one matrix behind it, the covariance of z' is C_W F(S), given
the products S = Σ_a z_a z_aᵀ/n. Here n Cov(S_ab, S_cd) = V_abcd + K_ac K_bd + K_ad K_bc, with K K
times G in each of G groups of neurons. So V' and G1' follow from the derivatives of F.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from derive import InputError, Network, exact, layers, recursion
from numeric import compare, flow, simulate

P, C = 2, 1.5
INPUTS = np.array([[[1.0, 0.5], [0.3, -0.8]], [[0.2, 1.1], [-0.7, 0.4]]])
M = P * len(INPUTS)
MEAN = np.kron(np.eye(len(INPUTS)), np.full((P, P), 1 / P))


def squares(S: np.ndarray) -> np.ndarray:
    """F(S) = q_a q_b S_ab with q the mean of S_aa over the positions of a signal."""
    q = MEAN @ np.diagonal(S)
    return q[:, None] * q * S


def slopes(K: np.ndarray) -> np.ndarray:
    """F'_{ab,cd} by complex steps."""
    found = np.empty((M,) * 4)
    for c, d in product(range(M), repeat=2):
        step = np.zeros((M, M), complex)
        step[c, d] = 1e-30j
        found[:, :, c, d] = squares(K + step).imag / 1e-30
    return found


def curved(K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """F''_{ab,cdef} V_cdef. A difference of a cubic polynomial's slopes is exact at any step."""
    found = np.zeros((M, M))
    for c, d in product(range(M), repeat=2):
        step = np.zeros((M, M))
        step[c, d] = 0.5
        change = slopes(K + step) - slopes(K - step)
        found += np.einsum("abef,ef->ab", change, V[c, d])
    return found


def next_layer(K, G1, V, G, centred):
    """The tensors behind the layer."""
    both = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
    slope, q = slopes(K), MEAN @ np.diagonal(K)
    mean = np.einsum("abcd,cd->ab", slope, G1) + curved(K, V + G * both) / 2
    if centred:  # y = (q − m²)(z − m), n Cov(m, z) = mean_p K
        of_one, of_two = MEAN @ K, MEAN @ K @ MEAN
        mean += G * q[:, None] * q * (of_two - of_one - of_one.T)
        lost = np.diagonal(of_two)[:, None] * q
        mean -= G * (lost + lost.T) * K
    spread = np.einsum("abcd,cdef,ghef->abgh", slope, V + both, slope)
    return C * squares(K), C * mean, C**2 * spread


@pytest.mark.parametrize(("G", "centred"), [(1, False), (2, False), (3, True)])
def test_fluctuations(G: int, centred: bool) -> None:
    at = "a,p" if G == 1 else f"a,p:{G}"
    lines = [f"m = z[{at}]/n"] * centred + [f"q = z[{at}] z[{at}]/n"]
    lines += ["y[i] = (q - m^2) (z[i] - m)"] if centred else ["y[i] = q z[i]"]
    taps = dict(layers.mix(np.eye(P)).tapped)["W"]
    layer = layers.Layer(*lines, "z[i] = W[i,a] y[a]", taps={"W": taps})
    found = flow(Network("tanh", C_W=C, layer=layer), INPUTS, 3, ["K", "G1", "V"])
    wanted = found["K"].to_numpy()[0], np.zeros((M, M)), np.zeros((M,) * 4)
    for row in (1, 2):
        wanted = next_layer(*wanted, G, centred)
        for name, each in zip(("K", "G1", "V"), wanted, strict=True):
            assert np.allclose(found[name][row], each, rtol=1e-10, atol=1e-12), (name, row)


@pytest.mark.slow
def test_a_constant_signal_has_the_norm_of_one_position() -> None:
    one, other = (
        str(recursion("V", layer=layers.convolution(2, 3, norm=f"rms{over}")).single_input())
        for over in ("", " over positions")
    )
    assert one == other


@pytest.mark.slow
def test_signals_of_the_same_numbers_have_the_same_tensors() -> None:
    """Where labels coincide, and σ has a kink behind a mean that is taken off."""
    net = Network("relu", layer="convolution(1, 2, norm=layer over positions, eps=1/10)", C_b=0.1)
    one, two = (flow(net, [INPUTS[0]] * count, 3, ["V"])["V"].to_numpy() for count in (1, 2))
    assert np.allclose(np.tile(one, (1, 2, 2, 2, 2)), two, rtol=1e-9)


@pytest.mark.slow
def test_networks_are_normalized_over_positions() -> None:
    """In a block with a skip and built matrices. Norms of each position are refuted."""
    x, tensors = np.array([[3.0, -2.0], [0.3, 0.2]]), ["K", "V"]
    block = "sequence(convolution(2, 2, activations=linear), convolution(2, 2, boundary=zero))"
    net, apart = (
        Network("relu", layer=f"around({block}, skip=1/4, norm=group(2){over}, eps=1/10)", C_b=0.1)
        for over in (" over positions", "")
    )
    samples = [
        simulate(net, x, n, 2, draws, tensors=tensors, sampler="explicit", seed=1)
        for n, draws in ((16, 3000), (32, 3000), (64, 1500))
    ]
    theory, other = (flow(each, x, 2, tensors) for each in (net, apart))
    assert compare(theory, samples).agrees
    assert not compare(other.assign_attrs(network=theory.attrs["network"]), samples).agrees


def test_texts() -> None:
    text = "convolution(2, 3, norm=group(2) over positions)"
    assert str(layers.read(text)) == text
    assert layers.read(text).lines[0] == "m = z[a,p:2]/n"
    printed = str(recursion("K", layer=layers.convolution(2, 3, norm="rms over positions")))
    assert printed.endswith("K_y[1,2] = K[1,2]/(sqrt(K[p1,p1])*sqrt(K[p2,p2]))")


NET = Network("tanh", layer="convolution(2, 2, norm=rms over positions)*; pooling(2)")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: layers.normalized("rms over positions"), "to say how many"),
        (lambda: layers.Layer("z[i] = W[i,a] z[a,p]"), "one index"),
        (lambda: flow(NET, INPUTS[0], 3, ["K"], precision=20), "for a precision"),
        (lambda: flow(NET, INPUTS[0], 3, ["V"], draws=100), "for draws"),
        (lambda: exact.cumulant("K", replace(NET, activation="linear"), 3), "over"),
        (
            lambda: recursion("V", layer="around(convolution(2, 2), norm=rms over positions)"),
            "only permutations keep",
        ),
    ],
)
def test_refusals(make, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make()


def test_equal_samples_of_signals_that_differ_elsewhere() -> None:
    """Their means over positions differ, so that no derivative by both exists at a kink."""
    line = "z[i] = b[i] + W[i,a] s(z[a] - m)"
    layer = layers.Layer("m = z[a,p]/n", line, taps=dict(layers.convolution(2, P).tapped))
    net, signals = Network("relu", C_b=0.1, layer=layer), INPUTS.copy()
    signals[1, 0] = signals[0, 0]
    with pytest.raises(InputError, match="multiples of others"):
        flow(net, signals, 2, "V")
    one, same = (flow(net, x, 2, "V")["V"].to_numpy() for x in (signals[:1], signals[[0, 0]]))
    assert np.allclose(same, np.tile(one, (1, 2, 2, 2, 2)), rtol=1e-12)


def test_orbits_have_no_positions() -> None:
    taps = dict(layers.mix(np.eye(P)).tapped)
    layer = layers.Layer("q = z[a,p] z[a,p]/n", "y[i] = q z[i]", "z[i] = W[i,a] y[a]", taps=taps)
    with pytest.raises(InputError, match="without positions"):
        recursion("V", layer=layer).exchangeable()
