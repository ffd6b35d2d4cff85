"""`study`: the pieces that it is made of, put together, and what it says of them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import wickgarten
from derive import Exchangeable, InputError, Network
from numeric import compare, flow, simulate, study

NET, X = Network("relu", C_W=2), [1.0, 0.5]


@pytest.fixture(scope="module")
def found():
    return study(NET, X, 3, (8, 16, 32), 400, tensors=["K", "V"], seed=1)


def test_it_is_flow_simulate_and_compare(found):
    theory = flow(NET, X, 3, ["K", "V", "G1", "V2"], width=32)
    samples = [simulate(NET, X, n, 3, 400, tensors=["K", "V"], seed=1) for n in (8, 16, 32)]
    assert found.comparison.rows == compare(theory, samples).rows
    for own, sampled in zip(found.samples, samples, strict=True):
        assert own.equals(sampled)
    assert wickgarten.study is study


def test_finite_widths_have_the_next_order(found):
    series = flow(NET, X, 3, ["V", "V2"])
    np.testing.assert_allclose(found.at_width("V", 8), series["V"] + series["V2"] / 8)
    exact = [8 * ((1 + 5 / 8) ** power - 1) * 1.25**2 for power in range(3)]  # of ReLU, K = 5/4
    np.testing.assert_allclose(found.at_width("V", 8), exact)
    assert "V2" in found.theory
    lines = repr(found).splitlines()
    assert lines[0] == found.verdict
    assert sum(bool(re.match(r" *[KV] +(8|16|32) ", line)) for line in lines) == 6


def test_the_verdict_is_that_of_the_comparison(found):
    assert found.verdict.startswith("Theory agrees with networks of width 8, 16, 32")
    wrong = found.theory.assign(K=2 * found.theory["K"])
    disagrees = replace(found, comparison=compare(wrong, found.samples))
    assert re.match("Theory disagrees with .*: K at layer .* is off by", disagrees.verdict)


@pytest.mark.slow
def test_it_draws_and_writes(found, tmp_path):
    axes = found.figure().axes
    assert [each.get_title() for each in axes] == ["K", "V"]
    (black, *coloured) = axes[1].get_lines()
    np.testing.assert_allclose(black.get_ydata(), found.theory["V"])
    np.testing.assert_allclose(coloured[0].get_ydata(), found.at_width("V", 8))
    assert found.plot(tmp_path / "study.png").stat().st_size > 1000
    with pytest.raises(InputError, match=r"^path: .*\.svg"):
        found.plot(tmp_path / "study")


def test_draws_are_as_many_as_are_needed():
    enough = study(Network("linear"), X, 2, (8, 16), tensors="K")
    assert enough.samples[0].attrs["draws"] == 1000


@pytest.mark.slow
def test_other_networks_and_inputs():
    """Layer 1 depends on n_0/n; entries by orbits; no next order; a run of each width."""
    net, x = Network("tanh", "low-rank-orthogonal(gamma=1/2)"), np.linspace(0, 1, 6)
    low_rank = study(net, x, 3, (8, 16), 100)
    assert low_rank.comparison.agrees
    assert [table.attrs["width"] for table in low_rank.samples] == [8, 16]
    batch = study(Network("relu", layer="batchnorm"), Exchangeable(4, 1, 0), 3, (16, 32), 100)
    assert batch.comparison.agrees
    assert {axes.get_title() for axes in batch.figure().axes} >= {"K_(11)"}


def test_the_next_order_of_a_batch_is_refused():
    """V2 is made from U6, which names six samples, more than represent the batch."""
    net, batch = Network("relu", layer="batchnorm"), Exchangeable(8, 1, 0)
    with pytest.raises(InputError, match=r"^tensors: got 'V2'; wanted at most 4 exchangeable"):
        flow(net, batch, 3, ["K", "V2"])


def test_tensors_that_are_not_there(found):
    for name, width, wrong in (("Q", 8, "name"), ("V", 0, "width"), ("V", "8", "width")):
        with pytest.raises(InputError, match=f"^{wrong}: "):
            found.at_width(name, width)
    nothing = study(NET, X, 2, (8, 16), 10, tensors="G1").verdict
    assert nothing.endswith("but nothing tests G1 at layer 1, which is 0 in theory.")


def test_wrong_arguments_are_named():
    for wrong, name in (
        ({"widths": 8}, "widths"),
        ({"widths": []}, "widths"),
        ({"progres": True}, "progres"),
        ({"width": 8}, r"width: .* did you mean \"widths\""),
    ):
        with pytest.raises(InputError, match=f"^{name}"):
            study(NET, X, 2, **({"widths": (8, 16), "draws": 10} | wrong))
