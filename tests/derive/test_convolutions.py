"""Convolutions as layers: what is printed, what is refused, and the dense layer among them."""

import pytest
import sympy

from derive import InputError, Network, Orthogonal, layers, recursion
from derive.engine import ALONE, Taps
from derive.symbols import C_W, K
from derive.symbols import tensor as symbol

ORTHOGONAL = Orthogonal()


def test_the_covariance_is_averaged_along_its_diagonals() -> None:
    K_next = str(recursion("K", layer=layers.convolution(3, 8)))
    assert K_next == "K[1,2](ℓ+1) = C_W*Σ{k}(⟨σ₁ σ₂⟩)[1+k,2+k]/3 + C_b"
    Theta = str(recursion("Theta", layer=layers.convolution(5, 8)))
    right = "Σ{k}(C_W*⟨σ'₁ σ'₂⟩*Theta[1,2] + lambda_W*⟨σ₁ σ₂⟩)[1+k,2+k]/5"
    assert Theta == f"Theta[1,2](ℓ+1) = lambda_b + {right}"


def test_two_pairs_are_summed_over_two_taps_and_haar_matrices_correct_equal_ones() -> None:
    gaussian = str(recursion("V", layer=layers.convolution(3, 8)))
    haar = str(recursion("V", weights=ORTHOGONAL, layer=layers.convolution(3, 8)))
    assert gaussian.endswith("[1+k,2+k,3+k',4+k']/9")
    assert gaussian.count("Σ") == 1
    assert haar.count("Σ") == 2
    dropped = "-C_W**2*Σ{k}(⟨σ₁ σ₃⟩*⟨σ₂ σ₄⟩ + ⟨σ₁ σ₄⟩*⟨σ₂ σ₃⟩)[1+k,2+k,3+k,4+k]/9"
    assert dropped in " ".join(haar.split())


def test_latex_has_the_sums() -> None:
    latex = recursion("K", layer=layers.convolution(3, 8)).latex()
    assert r"\sum_{k}" in latex
    assert r"_{\alpha_{1}+k\;\alpha_{2}+k}" in latex


@pytest.mark.parametrize("tensor", ["K", "G1", "V", "Theta", "D", "F", "A", "B", "P"])
def test_one_tap_is_the_dense_layer(tensor: str) -> None:
    dense = recursion(tensor, weights=ORTHOGONAL)
    for layer in (layers.convolution(1, 8), layers.convolution(3, 8, weights="delta")):
        assert recursion(tensor, weights=ORTHOGONAL, layer=layer).expr == dense.expr


@pytest.mark.parametrize("tensor", ["G1", "V", "D", "F", "A", "U6"])
def test_a_constant_signal_meets_a_sum_of_matrices(tensor: str) -> None:
    """s^{-1/2} Σ_k W^{(k)} is Gaussian where the W^{(k)} are; of Haar matrices its free fourth
    cumulant is 1/s of theirs, and with it every term of V that they add to Gaussian ones."""
    size = 4
    layer = layers.convolution(size, 8)
    plain, haar = (recursion(tensor, weights=w).single_input().expr for w in (None, ORTHOGONAL))
    gaussian = recursion(tensor, layer=layer).single_input().expr
    assert sympy.expand(gaussian - plain) == 0
    found = recursion(tensor, weights=ORTHOGONAL, layer=layer).single_input().expr
    if tensor != "U6":
        assert sympy.expand(found - plain - (haar - plain) / size) == 0
    else:
        assert sympy.expand(found - plain) != 0


def test_relu_has_numbers_for_a_constant_signal() -> None:
    """V' = C_W² (5K² + V)/4, of Haar matrices less 2 ⟨σ²⟩² = K²/2, a third of it."""
    layer = layers.convolution(3, 8)
    made = recursion("V", ORTHOGONAL, layer=layer, activation="relu").single_input().expr
    wanted = (5 * K**2 + symbol("V")) / 4 - K**2 / 6
    assert sympy.expand(made - C_W**2 * wanted) == 0


def test_readouts_sum_over_positions() -> None:
    pooled = str(recursion("K", layer=layers.pooling(8)))
    flat = str(recursion("K", layer=layers.flattening(8)))
    assert pooled == "K[1,2](ℓ+1) = C_W*Σ{p,p'}(⟨σ₁ σ₂⟩)[1:p,2:p']/64 + C_b"
    assert flat == "K[1,2](ℓ+1) = C_W*Σ{p}(⟨σ₁ σ₂⟩)[1:p,2:p]/8 + C_b"
    for tensor in ("V", "G1", "A"):
        dense = recursion(tensor, ORTHOGONAL).single_input().expr
        made = recursion(tensor, ORTHOGONAL, layer=layers.pooling(8)).single_input().expr
        assert sympy.expand(made - dense) == 0


def test_the_positions_that_are_read() -> None:
    def taps(into: int, *reads: list[int | None]) -> Taps:
        rows = (tuple(() if p is None else ((p, 1.0),) for p in each) for each in reads)
        return Taps(tuple(rows), (into,), (into,))

    circular = [3, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 0]
    assert layers.convolution(3, 4).tapped[0][1] == taps(4, *circular)
    even = layers.convolution(2, 3, boundary="zero").tapped[0][1]
    assert even == taps(3, [0, 1, 2], [1, 2, None])


def test_taps_that_read_each_position_alone_are_none() -> None:
    text = "z[i] = b[i] + W[i,a] s(z[a])"
    alone = layers.Layer(text, taps={"W": ALONE})
    assert alone == layers.Layer(text)
    assert layers.Layer(text, taps={"W": ALONE}, positions=4).input_axes == (4,)
    (filters,) = (taps for _, taps in layers.convolution(3, 8, stride=2).tapped)
    assert (filters.shape_behind((8,)), ALONE.shape_behind((8,))) == ((4,), (8,))


def test_positions_and_their_weights_are_written_out() -> None:
    """In a sum over the positions of a mix, and over those of a skip past a mean."""
    mixed = str(recursion("K", layer=layers.mix([[1, 2], [0, 1]], [[1, 0], [1, 0]])))
    assert "Σ{k,p,p'}Ak[1,p]*Ak[2,p']*(⟨σ₁ σ₂⟩)[1:p,2:p']/2" in mixed
    halves = "around(pooling(4, 2), norm=rms, projected=True)"
    carried = recursion("K", layer=layers.read(halves))
    assert "Σ{p,p'}S[1,p]*S[2,p']*(C_W*K[1,2]" in str(carried)
    assert r"S_{\alpha_{1}\,p} S_{\alpha_{2}\,p'}" in carried.latex()
    plain = recursion("K", layer="around(dense, norm=rms, projected=True)").single_input()
    assert sympy.simplify(carried.single_input().expr - plain.expr) == 0


@pytest.mark.parametrize(
    "text",
    [
        "convolution(3, 8)",
        "convolution(4, 8, weights=delta)",
        "convolution(3, 8, boundary=zero)",
        "convolution(3, 8, boundary=zero, readout=mean)",
        "convolution(8, 8, readout=flatten)",
        "convolution((2, 3), (4, 8), boundary=zero, stride=2, padding=(0, 1), dilation=(1, 2))",
        "pooling(8)",
        "pooling((8, 8), (4, 2), stride=2)",
        "flattening(2)",
        "around(convolution(3, 8, stride=2), skip=1, norm=rms, projected=True)",
        "convolution(3, 8, readout=mean, norm=rms, law=orthogonal, activations=gelu)",
        "around(convolution(3, 8, activations=relu), skip=1/2, norm=layer, eps=1/10)",
        "sequence(convolution(3, 8), dropout(1/2), convolution(2, 8, readout=flatten))",
        "around(convolution(3, 8), skip=1, norm=rms)*; convolution(3, 8, readout=mean)",
    ],
)
def test_read_is_the_inverse_of_str(text: str) -> None:
    read = layers.read if ";" not in text else lambda text: Network("tanh", layer=text).layer
    assert str(read(text)) == text
    assert read(str(read(text))) == read(text)
    assert text in str(Network("tanh", layer=text))


def test_text_takes_names_too() -> None:
    named = layers.read("convolution(size=3, positions=8, weights=gaussian, boundary=circular)")
    assert named == layers.convolution(3, 8)
    assert named != layers.convolution(3, 9)
    assert named != layers.convolution(3, 8, boundary="zero")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 8), "size"),
        ((-1, 8), "size"),
        ((9, 8), "size"),
        ((2.0, 8), "size"),
        ((True, 8), "size"),
        (("3", 8), "size"),
        ((3, 0), "positions"),
        ((3, 8.5), "positions"),
        ((3, 8, "orthogonal"), "weights"),
        ((3, 8, 1), "weights"),
        ((3, 8, "gaussian", "reflect"), "boundary"),
        ((3, 8, "gaussian", "zero", "max"), "readout"),
        ((3, 8, "gaussian", "zero", ["mean"]), "readout"),
    ],
)
def test_what_is_no_convolution_is_refused(arguments, name) -> None:
    with pytest.raises(InputError, match=f"^{name}: "):
        layers.convolution(*arguments)


@pytest.mark.parametrize(
    "text", ["convolution(3)", "convolution(3, 2)", "convolution(3, x)", "pooling()", "pooling(0)"]
)
def test_text_that_is_no_convolution_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        layers.read(text)


def test_a_boundary_of_zeros_has_no_constant_signal() -> None:
    made = recursion("V", layer="convolution(3, 8, boundary=zero)").single_input()
    with pytest.raises(InputError, match="boundary of zeros"):
        _ = made.expr


def test_what_is_no_block_of_convolutions_is_refused() -> None:
    taps = layers.convolution(3, 8).tapped[0][1]
    lines = "h[i] = W1[i,a] z[a]", "z[i] = W2[i,a] s(h[a])"
    for given in (taps, {"W3": taps}):
        with pytest.raises(InputError, match=r"^taps: .*W1, W2"):
            layers.Layer(*lines, taps=given)
    gate = "h[i] = W1[i,a] z[a]", "g[i] = W2[i,a] z[a]", "z[i] = W3[i,a] h[a] s(g[a])"
    with pytest.raises(InputError, match=r"^taps: .*for all matrices"):
        layers.Layer(*gate, taps={"W1": taps})
    assert layers.Layer(*gate, taps={"W1": taps, "W2": taps}).input_axes == (8,)
    refused = [
        ("sequence(convolution(2, 3), convolution(2, 4))", "3 and 4 positions"),
        ("sequence(convolution(2, 3, readout=mean), dense)", "the last block alone"),
        ("around(convolution(2, 3, readout=mean))", "no readout in a skip"),
        ("sequence(pooling(3), convolution(2, 3))", "and 3 positions"),
        ("around(flattening(3))", "no skip past"),
        ("convolution(2, 3, readout=mean); convolution(2, 3)*", "the last layer alone"),
        ("convolution(2, 3); convolution(2, 4)*", "the same positions"),
    ]
    for text, wanted in refused:
        with pytest.raises(InputError, match=wanted):
            Network("tanh", layer=text)


def test_a_skip_carries_its_own_positions_past_the_taps() -> None:
    """V has terms in which one pair of its samples moves, and terms in which none does."""
    block = "around(sequence(convolution(1, 8, activations=linear), convolution(3, 8)))"
    found = str(recursion("V", layer=layers.read(block)))
    for moved in ("[1+k,2+k]", "[3+k,4+k]", "[1+k,2+k,3+k',4+k']"):
        assert moved in found
    K_next = str(recursion("K", layer="around(convolution(3, 8), skip=1/2, norm=rms)"))
    assert "K[1,2]/4" in K_next
    assert "Σ{k}(⟨σ₁ σ₂⟩_y)[1+k,2+k]/3" in K_next


def test_a_linear_activation_of_a_layer_is_none() -> None:
    made = layers.read("around(sequence(dense(activations=linear), dense), skip=1/2)")
    lines = "z_2[i] = b[i] + W1[i,a] z[a]", "z[i] = z[i]/2 + b[i] + W2[i,a] s(z_2[a])"
    assert recursion("V", layer=made).expr == recursion("V", layer=layers.Layer(*lines)).expr


def test_padding_as_text() -> None:
    for text, given in [
        ("valid", {"padding": 0}),
        ("zero", {"boundary": "zero"}),
        ("circular", {}),
    ]:
        assert layers.convolution(3, (8, 6), padding=text) == layers.convolution(3, (8, 6), **given)
    assert layers.read("convolution(3, 8, padding=valid, stride=2)").output_axes == (3,)
    with pytest.raises(InputError, match="a text alone"):
        layers.convolution(3, 8, padding="valid", boundary="zero")
    with pytest.raises(InputError, match='"valid"'):
        layers.convolution(3, 8, padding="same")
