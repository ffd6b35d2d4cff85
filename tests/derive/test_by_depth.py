"""Layers that differ with the depth: sequences, stem, blocks and head, functions, texts."""

import pickle

import pytest

from derive import InputError, Network, Orthogonal, criticality, layers, recursion
from derive.layers import by_depth
from derive.recursions import wanted

DENSE, BLOCK, HEAD = layers.dense(), layers.residual(norm="rms"), layers.normalized("rms")
TEXT = "dense(); residual(skip=1, norm=rms)*; normalized(rms)"


def as_layers(given):
    """What a network takes these layers as."""
    return Network("tanh", layer=given).layer


def names(given, depth):
    made = as_layers(given)
    return [str(made.at(layer, depth)).partition("(")[0] for layer in range(2, depth + 1)]


def growing(layer):
    return BLOCK if layer % 2 else "gated"


def test_a_stem_blocks_and_a_head():
    made = by_depth("dense", BLOCK, HEAD)
    assert names(made, 6) == ["dense", "residual", "residual", "residual", "normalized"]
    assert names(made, 3) == ["dense", "normalized"]
    assert by_depth(block=BLOCK) == BLOCK
    assert by_depth("dense", ["dense", DENSE], "dense") == DENSE


def test_blocks_are_taken_in_turn():
    made = by_depth(block=["gated", "residual"], head=["dense", "gated"])
    assert names(made, 8) == [*["gated", "residual"] * 2, "gated", "dense", "gated"]


def test_a_sequence_names_layers_and_no_more():
    made = as_layers(["dense", BLOCK, "gated"])
    assert names(made, 4) == ["dense", "residual", "gated"]
    assert names(made, 3) == ["dense", "residual"]
    with pytest.raises(InputError, match="4 at most"):
        names(made, 5)
    with pytest.raises(InputError, match="3 or more"):
        names(by_depth("dense", BLOCK, HEAD), 2)


@pytest.mark.parametrize(
    ("text", "depth", "found"),
    [
        ("dense; gated", 3, ["dense", "gated"]),
        ("dense; residual(norm=rms) * ; dense", 4, ["dense", "residual", "dense"]),
        ("gated*2; (residual; dense)*", 6, ["gated", "gated", "residual", "dense", "residual"]),
        ("((gated; dense) * 2; residual)*", 6, ["gated", "dense", "gated", "dense", "residual"]),
        ("gated(C=(1, 1, 2))*; dense*2", 5, ["gated", "gated", "dense", "dense"]),
        ("gated * 1", 2, ["gated"]),
        ("gated*", 5, ["gated"] * 4),
    ],
)
def test_texts_are_read_and_read_back(text, depth, found):
    made = as_layers(text)
    assert names(made, depth) == found
    assert as_layers(str(made)) == made
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert hash(again) == hash(made)


@pytest.mark.parametrize(
    "given",
    [
        "dense;",
        "",
        ";",
        "gated*; dense*",
        "(gated*)*",
        "gated**",
        "gated*0",
        "gated*99999",
        "((gated*9999)*9999)*9999",
        "(gated",
        "dense; nothing",
        "dense; " * 100,
        [],
        [2],
        None,
        3,
    ],
)
def test_what_are_no_layers(given):
    with pytest.raises(InputError, match="layer"):
        as_layers(given)


def test_a_network_has_them():
    net = Network("tanh", Orthogonal(), layer=TEXT)
    assert net.layer == by_depth("dense", BLOCK, HEAD)
    assert str(net).endswith(f"layer={TEXT})")
    assert r"\texttt{dense" in net.latex()
    assert pickle.loads(pickle.dumps(net)) == net
    assert not net.layer.is_dense
    schemes, order = net.schemes(6, 1)
    assert [scheme.layer for scheme in schemes] == [None, BLOCK, HEAD]
    assert order == (0, 1, 1, 1, 2)
    with pytest.raises(InputError, match="one layer at every depth"):
        net.scheme(6, 1)


def test_a_function_of_the_layer():
    net = Network("tanh", layer=growing)
    assert net.has_functions
    assert pickle.loads(pickle.dumps(net)) == net
    assert [str(net.layer_at(layer, 5))[:5] for layer in (2, 3, 4, 5)] == ["gated", "resid"] * 2
    assert str(net.layer).endswith("gated(); …")
    assert net.tabulated(4).layer == as_layers(["gated", BLOCK, "gated"])
    with pytest.raises(InputError, match="pickling"):
        pickle.dumps(Network("tanh", layer=lambda layer: DENSE))
    with pytest.raises(InputError, match="ZeroDivisionError"):
        Network("tanh", layer=lambda layer: 1 / 0).layer_at(2, 3)
    with pytest.raises(InputError, match="dense"):
        Network("tanh", layer=lambda layer: layer).layer_at(2, 3)


def test_what_is_repeated_is_one_layer():
    """A period is one layer to all functions, and critical whatever stands before and behind it."""
    period = by_depth(block=["residual(skip=1/2)", "dense"])
    assert layers.as_layer(period) == layers.sequence("residual(skip=1/2)", "dense")
    assert layers.as_period(f"gated; {period}; dense") == layers.as_layer(period)
    assert layers.as_period("gated; dense") == layers.sequence("gated", "dense")
    alone = criticality("tanh", layer=layers.as_layer(period))
    assert criticality("tanh", layer=f"gated; {period}; dense") == alone
    assert criticality("tanh; gelu*").activation == criticality("gelu").activation
    with pytest.raises(InputError, match="that is repeated"):
        criticality("(tanh; gelu)*")
    ends = by_depth(block="gated", head="dense")
    assert recursion("V", layer=ends).expr == recursion("V", layer="gated").expr
    with pytest.raises(InputError, match=r"one layer: that of one depth.*as_period"):
        layers.as_layer(ends)
    for given in (growing, by_depth("gated", head="dense")):
        with pytest.raises(InputError, match="a layer that is repeated"):
            layers.as_period(given)


def test_a_recursion_is_of_one_layer():
    made = recursion("V", layer=BLOCK)
    assert wanted(made, Network("tanh", layer=BLOCK), 5)
    with pytest.raises(InputError, match="the network's dense"):
        wanted(made, Network("tanh", layer=TEXT), 5)
