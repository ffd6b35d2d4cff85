"""What a tensor is in words: of the literature's, of nameless ones, of fields of one's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from derive import Equation, Network, activations, recursion
from derive.engine import (
    DDH_I,
    DDH_II,
    DH,
    NAMES,
    Field,
    H,
    Name,
    Tensor,
    Z,
    named,
    pairing_classes,
    slots_of,
    target,
)
from derive.groups import pair_partitions
from numeric import flow, simulate


def said(label):
    return named(label).meaning


@pytest.mark.parametrize(
    ("label", "normalisation", "meaning"),
    [
        ("K", "1", "covariance of two preactivations; equal neurons: (z, z)"),
        (
            "G1",
            "n",
            "part of relative order 1/n of the covariance of two preactivations; "
            "equal neurons: (z, z)",
        ),
        ("V", "n", "joint cumulant of four preactivations; equal neurons: (z, z)(z, z)"),
        ("U6", "n^2", "joint cumulant of six preactivations; equal neurons: (z, z)(z, z)(z, z)"),
        ("Theta", "1", "mean of the NTK; equal neurons: (H, H)"),
        ("A", "n", "covariance of two entries of the NTK; equal neurons: (H, H)(H', H')"),
        ("B", "n", "covariance of two entries of the NTK; equal neurons: (H, H')(H, H')"),
        (
            "Q",
            "n",
            "covariance of a preactivation and the first differential of the NTK; "
            "equal neurons: (z, dH end)(dH middle, dH end)",
        ),
        (
            "T",
            "n",
            "mean of the second differential of the NTK, both ends moved; equal neurons: "
            "(ddII inner, ddII end beside it)(ddII inner, ddII end beside it)",
        ),
    ],
)
def test_the_literature_in_words(label, normalisation, meaning):
    assert NAMES[label].meaning == meaning
    assert NAMES[label].normalisation == normalisation


@pytest.mark.parametrize(
    "fields",
    [(Z, Z, H, H), (Z, Z, Z, DH), (H, DH, Z), (DDH_I, H), (DDH_II, Z, Z), (DH, DH), (H, H, H)],
    ids=lambda fields: ",".join(map(str, fields)),
)
def test_tensors_that_differ_are_said_to_differ(fields):
    """One sentence for each class of pairings, and for each order."""
    classes = pairing_classes(fields)
    words = [target(fields, p, g).meaning for p in classes for g in (0, 1)]
    assert len(set(words)) == 2 * len(classes) > 2
    for text in words:
        pairs = re.findall(r"\(([^)]*), ([^)]*)\)", text.partition("; equal neurons: ")[2])
        assert len(pairs) == sum(field.nodes for field in fields) / 2


@pytest.mark.parametrize("label", NAMES)
def test_the_power_of_n_is_the_tensors(label):
    name = NAMES[label]
    power = Tensor(name.fields, name.order, name.pairing, name.subscripts).n_power
    assert name.normalisation == {0: "1", 1: "n"}.get(power, f"n^{power}")


def test_every_pairing_has_as_many_neurons_of_each_field_as_it_has():
    fields = (Z, H, DH)
    total = sum(field.nodes for field in fields)
    for pairing in pair_partitions(total):
        text = Name("", fields, 0, pairing, tuple(range(total))).meaning
        neurons = re.split(r"[(),]+\s*", text.partition("; equal neurons: ")[2])
        letters = [each.split()[0] for each in neurons if each]
        for field, slots in zip(fields, slots_of(fields), strict=True):
            assert letters.count(str(field)) == len(slots)


def test_fields_without_a_name_and_of_ones_own():
    gram = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
    product = Equation("P[i,k] = W[i,a] W[k,b] s[a:i] s'[b:k] P[a:i,b:k]")
    tree = Field(6, [(0, 1), (0, 2), (1, 3), (3, 4), (3, 5)])
    assert target([gram, gram], "02 13", 0).meaning == (
        "covariance of two entries of the field J; equal neurons: (J, J')(J, J')"
    )
    assert target([product, Z, Z], "02 13", 0).meaning.endswith("equal neurons: (z, P 1)(z, P 2)")
    words = target([tree], "02 13 45", 0).meaning
    assert words.startswith("mean of the differential 4 of the NTK, on the tree 0-1 0-2 ")
    assert "(tree end, tree end)" in words


def test_tables_carry_the_words():
    net, x = Network(activations.tanh), np.array([1.0, -0.5, 0.2])
    labels = ["K", "G1", "F", "kappa(z,z,z,z,H|01 23 45)"]
    flowed, sampled = flow(net, x, 2, labels), simulate(net, x, 8, 2, 30, tensors=labels)
    for table, twin in ((flowed, "K_error"), (sampled, "K_floor")):
        for label in labels:
            attrs, name = table[label].attrs, named(label)
            assert attrs == {
                "long_name": name.meaning,
                "cumulant": name.cumulant,
                "normalisation": name.normalisation,
            }
        assert table[twin].attrs["long_name"].endswith(" K")
    own = recursion([Equation("D[i,k] = W[i,a] W[k,b] s[a] s[b]")], pairing="01")
    table = flow(net, x, 2, [own])
    assert table["kappa(D|01)"].attrs["long_name"] == "mean of the field D; equal neurons: (D, D)"
