"""What the command line prints of a table: a row per layer, a column per component."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from derivations import cli
from derivations.commands import printed
from derive import Equation, Network, activations, recursion
from derive.recursions import wanted
from numeric import flow, simulate

NET = Network(activations.linear)
X = np.random.default_rng(1).uniform(size=(3, 6))


def shown_of(table, tensors, size):
    return printed.text(table, wanted(tensors), size)


def columns(text):
    """{heading: cells} of all blocks."""
    found = {}
    for block in text.split("\n\n"):
        heads, *rows = (re.split(r"\s{2,}", line.strip()) for line in block.splitlines())
        assert heads[0] == "layer"
        for place, head in enumerate(heads[1:], 1):
            assert head not in found
            found[head] = [row[place] for row in rows]
    return found


def test_a_row_per_layer_whatever_the_tensors():
    table = flow(NET, X[0], 200, "all")
    text = shown_of(table, "all", 400)
    lines = text.splitlines()
    assert len(lines) == 201
    assert lines[0].split() == ["layer", *table.wickgarten.tensors]
    for line, layer in zip(lines[1:], range(1, 201), strict=True):
        expected = [table[name].sel(layer=layer).item() for name in table.wickgarten.tensors]
        shown = [float(cell) for cell in line.split()]
        assert shown == pytest.approx([layer, *expected], rel=1e-5)


@pytest.mark.parametrize("width", [20, 60, 100, 300])
def test_what_is_too_wide_goes_on_below(width):
    """All columns once, in order, and no line beyond the width; one column always fits."""
    table = simulate(NET, X[:2], 10, 3, 50, tensors=["K", "V"])
    text = shown_of(table, ["K", "V"], width)
    assert max(map(len, text.splitlines())) <= max(width, 30)
    wide = columns(shown_of(table, ["K", "V"], 1000))
    assert list(columns(text).items()) == list(wide.items())
    assert [len(block.splitlines()) for block in text.split("\n\n")] == [4] * len(
        text.split("\n\n")
    )


def test_a_tensor_stays_in_one_block_if_it_fits():
    text = shown_of(flow(NET, X[:2], 2, ["K", "G1", "V"]), ["K", "G1", "V"], 100)
    heads = [block.split("\n")[0].split()[1:] for block in text.split("\n\n")]
    assert [{head[0] for head in each} for each in heads] == [{"K", "G"}, {"V"}]


@pytest.mark.parametrize(
    ("tensor", "classes"), [("K", 6), ("V", 21), ("D", 36), ("kappa(z,H,z|02 13)", 45)]
)
def test_components_equal_by_symmetry_are_printed_once(tensor, classes):
    """Three inputs: 6 symmetric pairs, so 21 symmetric pairs of pairs in V and 6² in D;
    F has 9 pairs (z, H), so 45 of them, in whatever order its fields are given."""
    table = flow(NET, X, 2, [tensor])
    (name,) = table.wickgarten.tensors
    found = columns(shown_of(table, [tensor], 1000))
    assert len(found) == classes
    values = table[name].to_numpy()
    for heading, cells in found.items():
        place = tuple(int(digit) - 1 for digit in heading.removeprefix(f"{name}_"))
        assert [float(cell) for cell in cells] == pytest.approx(
            values[(slice(None), *place)], rel=1e-5
        )
    shown = np.sort([float(cell) for cells in found.values() for cell in cells])
    nearest = shown[np.abs(values.ravel()[:, None] - shown).argmin(axis=1)]
    np.testing.assert_allclose(nearest, values.ravel(), rtol=1e-5)


def test_samples_have_their_errors_beside_them():
    table = simulate(NET, X[0], 10, 3, 50, tensors=["K", "V"])
    for name, cells in columns(shown_of(table, ["K", "V"], 100)).items():
        for layer, cell in enumerate(cells):
            value, error = map(float, cell.split(" ± "))
            assert value == pytest.approx(table[name][layer].item(), rel=1e-5)
            assert error == pytest.approx(table[f"{name}_se"][layer].item(), rel=0.1)


def test_ten_inputs_have_numbers_apart_and_a_field_of_ones_own_its_symmetry():
    found = columns(shown_of(flow(NET, np.eye(10), 1, "K"), "K", 2000))
    assert {"K_1,1", "K_1,10", "K_10,10"} < set(found)
    gram = Equation("J[i,k] = W[i,a] W[k,b] s'[a:i] s'[b:k] J[a:i,b:k]", at_inputs="identity")
    own = [recursion([gram])]
    assert len(columns(shown_of(flow(NET, X[:2], 1, own), own, 100))) == 3


def test_the_command_prints_rows_and_writes_the_long_format(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "90")
    options = [
        "simulate", "--activation", "linear", "--depth", "3", "--width", "8", "12",
        "--draws", "20", "--input", "random:0:4:2", "--tensors", "K,kappa(z,z|01;1)",
    ]  # fmt: skip
    assert cli.main(options) == cli.OK
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 90
    assert [line for line in out.splitlines() if line.startswith("n = ")] == ["n = 8", "n = 12"]
    assert len(out.splitlines()) == 1 + 2 * (2 + 4 + 1 + 4)
    target = tmp_path / "t.csv"
    assert cli.main([*options, "--csv", str(target)]) == cli.OK
    with target.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3 * 4
    assert rows[1] == rows[2] | {"samples": "12"}
    assert all(float(row["se"]) >= 0 for row in rows)
