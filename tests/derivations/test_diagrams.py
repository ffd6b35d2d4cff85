"""Diagrams: from the derivation, adding up to it, and readable without seeing them."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import sympy

from derivations.pictures.diagrams import Drawing, diagrams, draw
from derive import BiInvariant, Gaussian, InputError, Orthogonal, recursion, symbols
from derive.arithmetic import add
from derive.gaussian import Average

TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
p_1, p_2 = sympy.symbols("p_1 p_2", positive=True)
ENSEMBLES = [Gaussian(), Orthogonal(), BiInvariant(moments=(p_1, p_2))]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("weights", ENSEMBLES, ids=lambda weights: weights.name)
@pytest.mark.parametrize("name", TOWER)
def test_they_add_up(name, weights):
    """Term by term with every input apart, and as expressions with all inputs equal."""
    made = recursion(name, weights)
    found = diagrams(made)
    total = {}
    for each in found:
        assert each.terms
        add(total, each.terms)
    assert total == found[0].recursion.terms
    single = sum(each.single_input for each in found)
    assert sympy.expand(single - made.single_input().expr) == 0


@pytest.mark.parametrize("name", TOWER)
def test_gaussian_columns_follow_the_rows(name):
    """C(p, q) = δ_pq: a fork joins the slots of one arc, or those of one new weight."""
    for each in diagrams(recursion(name)):
        pairs = {tuple(sorted(pair)) for pair in each.rows}
        assert set(each.columns) <= pairs | each.new
        assert not any(len(part.deltas) for part in each.parts) or each.new


def test_the_vertex():
    """One neuron; two that V joins; two that nothing joins, −n of n(n−1); and, with orthogonal
    weights, the two ways to cross the columns."""
    V, C_W = symbols.tensor("V"), symbols.C_W
    gaussian, orthogonal = (diagrams(recursion("V", w)) for w in (Gaussian(), Orthogonal()))
    shapes = {(each.columns, each.neurons, each.tensors) for each in gaussian}
    straight = ((0, 1), (2, 3))
    assert shapes == {
        (straight, ((0, 1, 2, 3),), ()),
        (straight, straight, (("V", (0, 0, 2, 2)),)),
        (straight, straight, ()),
    }
    crossed = {each.columns for each in orthogonal} - {straight}
    assert crossed == {((0, 2), (1, 3)), ((0, 3), (1, 2))}
    assert len(orthogonal) == len(gaussian) + 2
    (joined,) = (each for each in gaussian if each.tensors)
    chi = C_W * Average([(1, 0), (1, 0)], (1, 1)) / 2
    assert sympy.expand(joined.single_input - chi**2 * V) == 0


@pytest.mark.parametrize("name", ["F", "B"])
def test_what_orthogonal_weights_add(name):
    """Crossed columns close each NTK on its mean: a Θ with both legs at one neuron."""
    straight = {each.columns for each in diagrams(recursion(name))}
    extra = [e for e in diagrams(recursion(name, Orthogonal())) if e.columns not in straight]
    assert len(extra) == 1
    assert all(tensor == "Theta" and a == b for tensor, (a, b) in extra[0].tensors)
    assert len(extra[0].tensors) == {"F": 1, "B": 2}[name]


def test_new_parameters():
    """Of dH's two edges, Q on (01)(23) has one old and one new, or both old; R may have one new;
    T, whose two outer edges can both be new, also two."""
    counts = {name: {len(each.new) for each in diagrams(recursion(name))} for name in "PQRSTU"}
    assert counts == {"P": {0}, "Q": {0, 1}, "R": {0, 1}, "S": {0, 1}, "T": {0, 1, 2}, "U": {0}}


def test_a_product_that_is_subtracted():
    """κ(z^6) = E[z^6] − E[z^4]E[z^2] − …: some of its terms are in the products as well."""
    found = diagrams(recursion("U6"))
    assert {len(each.parts) for each in found} == {1, 2}
    total = {}
    for each in found:
        add(total, each.terms)
        assert ("subtracted product" in each.words) == (len(each.parts) > 1)
    assert total == found[0].recursion.terms


def test_words_use_the_printed_subscripts():
    """Q_{0123}'s slots are those of κ(z, dH); in words and on the page they are Q[1,2,3,4]'s."""
    words = [each.words for each in diagrams(recursion("Q"))]
    assert all("rows (4 3)(1 2)" in text for text in words)
    assert (
        "C_W² Q ⟨(σ σ′)′⟩ ⟨σ′²⟩: rows (4 3)(1 2); columns (4 3)(1 2); ⟨σ'₃ σ₄⟩ at the neuron of "
        "(4 3), ⟨σ'₁ σ'₂⟩ at the neuron of (1 2); Q with 2 legs at (4 3), 2 legs at (1 2)"
    ) in words
    assert any("new parameters (1 2)" in text for text in words)


def test_the_drawing(tmp_path):
    """An SVG with a title and a description; a group, a title and as many arcs per diagram."""
    drawing = draw(recursion("A", Orthogonal()))
    assert isinstance(drawing, Drawing)
    drawing.savefig(tmp_path / "A.svg", metadata={"Date": None})
    root = ElementTree.fromstring((tmp_path / "A.svg").read_text(encoding="utf-8"))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Where the terms of A with orthogonal weights come from"
    panels = root.findall(f"{SVG}g")
    assert len(panels) == len(drawing.panels) == len(diagrams(recursion("A", Orthogonal())))
    assert root.findtext(f"{SVG}desc").count("\n") == len(panels) - 1
    for panel, diagram in zip(panels, drawing.panels, strict=True):
        assert panel.findtext(f"{SVG}title") == diagram.words
        arcs = [path for path in panel.findall(f"{SVG}path") if path.get("stroke") == "#1f5fa8"]
        assert len(arcs) == len(diagram.rows)
        assert len(panel.findall(f"{SVG}ellipse")) == len(diagram.tensors)
        dashed = [path for path in panel.findall(f"{SVG}path") if path.get("stroke-dasharray")]
        assert len(dashed) == len(diagram.new)
    assert drawing.svg() == draw(recursion("A", Orthogonal())).svg()


def test_the_same_picture_in_every_process():
    """Nothing in a drawing depends on the order of a set."""
    script = (
        "from derivations.pictures.diagrams import draw; from derive import Orthogonal, recursion;"
        "print(*(draw(recursion(name, Orthogonal())).svg() for name in 'ABT'))"
    )
    pictures = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(pictures) == 1


def test_bad_input():
    with pytest.raises(InputError, match="hidden layer"):
        diagrams(recursion("V", first_layer=True))
