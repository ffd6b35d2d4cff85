"""Dropout: masks are averaged with the weights, by neuron and input."""

from __future__ import annotations

import pytest
import sympy

from derive import InputError, Orthogonal, criticality, layers, recursion
from derive.activations import relu, tanh

p = sympy.Symbol("p", positive=True)


def single(name, **given):
    return recursion(name, **given).single_input().expr


def test_factors_of_one_neuron_share_a_mask():
    """E[(μ/p)^r] = p^{1−r}: by hand for K, Θ and the parts of V, an input with itself."""
    layer = layers.dropout(p)
    C_W, C_b = sympy.symbols("C_W C_b")
    kernel, plain = single("K", layer=layer), single("K")
    named = {str(each): each for each in plain.free_symbols}
    C_b = named["C_b"]
    assert sympy.expand(kernel - C_b - (plain - C_b) / p) == 0
    vertex, dense = single("V", layer=layer), single("V")
    brackets = {str(each): each for each in dense.atoms(sympy.Expr) if str(each) == "⟨σ⁴⟩"}
    four = brackets["⟨σ⁴⟩"]
    C_W = named["C_W"]
    assert sympy.expand(vertex * p**2 - dense - C_W**2 * four * (1 / p - 1)) == 0


def test_different_inputs_have_different_masks():
    for name in ("K", "V"):
        assert recursion(name, layer=layers.dropout(p)).expr == recursion(name).expr


def test_every_neuron_kept_is_the_dense_layer():
    assert layers.dropout(1).is_dense
    dropped = {p: 1}
    for weights in (None, Orthogonal()):
        for name in ("V", "G1", "Theta1", "D", "F"):
            expr = single(name, weights=weights, layer=layers.dropout(p)).subs(dropped)
            assert sympy.expand(expr - single(name, weights=weights)) == 0, name


def test_the_kernel_is_critical_at_p_times_the_variance():
    for sigma in (relu, tanh):
        dense, dropped = criticality(sigma), criticality(sigma, layer="dropout(1/2)")
        assert dropped.critical == (dense.critical[0], dense.critical[1] / 2)


def test_its_text():
    assert str(layers.read("dropout(0.9)")) == "dropout(9/10)"
    assert layers.read("dropout(p)") == layers.dropout(p)
    assert layers.read(str(layers.dropout("1/3"))) == layers.dropout("1/3")
    assert layers.dropout("1/3") != layers.dropout("1/2")
    assert layers.dropout(0.5) == layers.dropout("1/2")
    assert layers.dropout(p).free_symbols == {p}


@pytest.mark.parametrize(
    "what",
    [
        lambda: layers.dropout(0),
        lambda: layers.dropout(1.5),
        lambda: layers.read("dropout"),
        lambda: layers.read("dropout(q)"),
        lambda: layers.Layer("z[i] = b[i] + W[i,a] z[a]", keep={"W": p}),
        lambda: layers.Layer("z[i] = b[i] + W[i,a] s(z[a])", keep={"V": p}),
        lambda: layers.Layer("z[i] = b[i] + W[i,a] s(z[a])", keep={"W": 2}),
        lambda: layers.around("dropout(1/2)"),
    ],
)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        what()
