"""Attention: equations, recursions, and an exact evaluation that shares no code with them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derive import InputError, criticality, layers, recursion


def test_equations_of_a_session() -> None:
    """The shipped layer is a set of equations that anyone can write."""
    own = layers.Layer(
        "q[i] = WQ[i,a] z[a]",
        "k[i] = WK[i,a] z[a]",
        "v[i] = WV[i,a] z[a]",
        "c[t,s] = q[a,t:4] k[a,s:4]/n",
        "z[i] = z[i] + b[i] + WO[i,a] softmax_s(c[t,s] + B[t,s]) v[a,s]",
        tables={"B": np.where(np.tri(3) > 0, 0.0, -np.inf)},
        positions=3,
    )
    assert own.stages == layers.attention(4, 3, mask="causal").stages
    assert own.input_axes == own.output_axes == (3,)


def test_a_transformer_is_two_blocks() -> None:
    """Attention and an MLP, each behind a norm."""
    block = layers.transformer(4, 8)
    halves = layers.attention(4, 8, norm="rms"), layers.residual(norm="rms", ratio=4)
    assert block.stages == layers.sequence(*halves).stages


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"heads": 0}, "heads"),
        ({"heads": "1/2"}, "heads"),
        ({"positions": 0}, "positions"),
        ({"scores": "d"}, "scores"),
        ({"score": "nothing"}, "score"),
        ({"mask": "acausal"}, "mask"),
        ({"mask": [[True]]}, "mask"),
        ({"bias": np.zeros(3)}, "bias"),
        ({"C": (1, 1)}, "C"),
        ({"C": {1, 2, 3, 4}}, "C"),
        ({"keys": 3}, "keys"),
        ({"heads": "H", "key_norm": True}, "heads"),
        ({"weights": {"P": "uniform"}}, "weights"),
    ],
)
def test_refusals(given: dict[str, object], argument: str) -> None:
    """Sizes, texts and tables that are none name their argument."""
    with pytest.raises(InputError, match=f"^{argument}"):
        layers.attention(**({"heads": 4, "positions": 3} | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        "z[i] = WO[i,a] softmax_s(c[t,s]) v[a]",
        "z[i] = WO[i,a] softmax_s(c[s,t]) v[a,s]",
        "z[i] = WO[i,a] v[a,s]",
        "z[i] = WO[i,a] softmax_s(c[t,s] + D[t,s]) v[a,s]",
        "z[i] = WO[i,a] softmax_s(d[t,s]) v[a,s]",
        "z[i] = WO[i,a] softmax_s(c[t,s]) z[a,s]",
        "z[i] = v[i] + WO[i,a] softmax_s(c[t,s]) v[a,s]",
        "z[i] = softmax_s(c[t,s]) v[i,s]",
    ],
)
def test_equations_that_are_none(line: str) -> None:
    """Positions, tables and scores must be known, and values must have a matrix of their own."""
    made = ("q[i] = WQ[i,a] z[a]", "k[i] = WK[i,a] z[a]", "v[i] = WV[i,a] z[a]")
    with pytest.raises(InputError, match=r"^(layer|tables)"):
        layers.Layer(*made, "c[t,s] = q[a,t] k[a,s]/n", line, positions=2)


@pytest.mark.parametrize(
    "text",
    [
        "attention(4, 8, skip=1, norm=rms, mask=causal, C=(1, 1, 2, 1), keys=2)",
        "attention(H, 3, scores=1/sqrt(d), score=sigmoid, skip=0, tied=True)",
        "attention(4, (2, 3), skip=1, norm=layer)",
        "transformer(4, 8, ratio=2, norm=rms, parallel=True, mask=3, key_norm=True)",
    ],
)
def test_texts(text: str) -> None:
    """A layer is read from the text that it shows."""
    assert str(layers.read(text)) == text


@pytest.mark.parametrize("name", ["K", "G1", "V", "Theta", "Theta1", "D", "B"])
def test_equal_tokens_need_no_scores(name: str) -> None:
    """One input stands for equal tokens: two matrices behind a norm are left of attention."""
    plain = layers.Layer("v[i] = WV[i,a] z[a]", "z[i] = b[i] + WO[i,a] v[a]")
    halves = layers.around(plain, skip=1, norm="rms"), layers.residual(norm="rms", ratio=4)
    found, wanted = (
        recursion(name, layer=layer).single_input()
        for layer in (layers.transformer(4, 8, mask="causal"), layers.sequence(*halves))
    )
    assert found.expr == wanted.expr


def test_depth_of_equal_tokens() -> None:
    """Criticality and large depths are those of equal tokens."""
    layer = layers.transformer(4, 8)
    assert criticality("relu", layer=layer).points == ()
    assert "linear growth" in str(criticality("relu", layer=layer))
    with pytest.raises(InputError, match="do not sum to 1"):
        recursion("K", layer=layers.attention(4, 8, score="sigmoid")).single_input()


@pytest.mark.parametrize("heads", [2, "H"])
def test_heads_are_symbols_or_numbers(heads: object) -> None:
    """G1 is linear in H, and V does not contain it."""
    G1, V = (recursion(name, layer=layers.attention(heads, 3, skip=0)) for name in ("G1", "V"))
    H = sympy.Symbol("H", positive=True)
    general = recursion("G1", layer=layers.attention("H", 3, skip=0)).expr
    assert sympy.expand(G1.expr - general.subs(H, 2 if heads == 2 else H)) == 0
    assert sympy.Poly(general, H).degree() == 1
    assert H not in V.expr.free_symbols


def test_scores_over_the_root_are_refused() -> None:
    """With a fixed number of heads there is no limit; and tensors of order 1/n² have none."""
    with pytest.raises(InputError, match=r"^heads"):
        str(recursion("K", layer=layers.attention(2, 3, scores="1/sqrt(d)")))
    with pytest.raises(InputError, match="order 1/n"):
        str(recursion("V2", layer=layers.attention(1, 3)))
