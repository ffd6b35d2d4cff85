"""Comparisons of trained networks: what was trained must be the same, and is named."""

import numpy as np
import pytest

from derive import Gaussian, Network, layers
from derive.activations import from_expr
from derive.errors import InputError
from numeric import compare
from numeric.training import flow, simulate

NET, X, Y, TEST = Network("tanh", C_b=0.1), [[1.0, 0.5], [-0.5, 1.0]], [0.7, -0.2], [0.3, 0.3]
THEORY = {"net": NET, "inputs": X, "targets": Y, "test": TEST, "depth": 2, "eta": 0.1}
STEPS = [0, 5]


@pytest.fixture(scope="module")
def sampled():
    return simulate(**THEORY, width=8, steps=STEPS, draws=20)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"eta": 0.2}, "eta 0.1"),
        ({"half": False}, "loss 'squared ½Σ'"),
        ({"targets": [0.7, -0.21]}, "targets "),
        ({"net": Network("tanh", C_b=0.2)}, "network "),
        ({"depth": 3}, "depth 2"),
        ({"test": [0.3, 0.31]}, "inputs "),
        ({"inputs": [[1.0, 0.5], [-0.5, 1.1]]}, "inputs "),
    ],
)
def test_theory_of_another_descent_is_refused(sampled, changed, named):
    with pytest.raises(InputError, match=f"^simulated: got .{named}"):
        compare(flow(**(THEORY | changed), steps=STEPS), sampled)


@pytest.mark.parametrize(
    "changed",
    [{"optimizer": "adam"}, {"batch": 1}, {"clip": 1e9}, {"patience": 3, "test_targets": 0.1}],
)
def test_ensembles_trained_otherwise_are_refused_until_that_is_said(changed):
    table = simulate(**THEORY, width=8, steps=STEPS, draws=20, **changed)
    theory = flow(**THEORY, steps=STEPS)
    with pytest.raises(InputError, match=f"^simulated: got .*{next(iter(changed))} "):
        compare(theory, table)
    told = table.assign_attrs(theory.attrs, batch=2, optimizer="tensorial", loss="squared ½Σ")
    for name in ("patience", "clip"):
        told.attrs.pop(name, None)
    assert compare(theory, told).rows


def test_steps_that_were_left_out_are_said(sampled):
    scores = compare(flow(**THEORY, steps=[0, 7]), sampled)
    assert scores.skipped == (5, 7)
    assert scores.summary.endswith("; not in every table: steps 5, 7")
    assert "not in every table" not in compare(flow(**THEORY, steps=STEPS), sampled).summary


def test_what_both_have_is_compared_where_one_has_more_test_inputs(sampled):
    alone = THEORY | {"test": None}
    least = flow(**alone, steps=STEPS)
    scores = compare(least, sampled)
    assert {row.indices for row in scores.rows if row.tensor == "prediction"} == {(0,), (1,)}
    fewer = sampled.isel(sample=slice(2), sample_1=slice(2), sample_2=slice(2))
    assert scores.rows == compare(least, fewer).rows
    assert np.isfinite([row.z for row in compare(flow(**THEORY, steps=STEPS), fewer).rows]).all()


@pytest.mark.parametrize(("readout", "places"), [(None, 2), ("mean", 1)])
def test_signals_are_compared_at_all_positions(readout, places):
    """Theory and ensemble of convolutions, also where one has more test signals than the other."""
    net = Network("tanh", C_b=0.1, layer=layers.convolution(2, 2, readout=readout))
    signals = np.random.default_rng(5).standard_normal((2, 2, 2))
    X, tests, y = signals[:1], (None, signals[1:]), np.ones((1, 2) if places > 1 else 1)
    given, drawn = {"depth": 2, "eta": 0.1, "steps": STEPS}, {"width": 8, "draws": 20}
    theory = {n: flow(net, X, y, tests[n], **given) for n in (0, 1)}
    tables = {n: simulate(net, X, y, tests[n], **given, **drawn) for n in (0, 1)}
    for n, m in ((0, 0), (0, 1), (1, 0), (1, 1)):
        samples = range((1 + min(n, m)) * places)
        rows = compare(theory[n], tables[m]).rows
        found = {row.indices for row in rows if row.tensor == "prediction"}
        assert found == {(a,) for a in samples}
        found = {tuple(sorted(row.indices)) for row in rows if row.tensor == "ntk"}
        assert found == {(a, b) for b in samples for a in samples if a <= b}


@pytest.mark.parametrize(
    ("theory", "sample", "same"),
    [
        ({"widths": (2, 8, 8, 1)}, {}, True),
        ({}, {"widths": (2, 8, 8, 1)}, True),
        ({"widths": (2, 4, 8, 1)}, {"widths": (2, 8, 16, 1)}, True),
        ({"widths": (2, 8, 16, 1)}, {}, False),
        ({"widths": (2, 8, 16, 1)}, {"widths": (2, 8, 8, 1)}, False),
        ({"C_b": "1/10"}, {"C_b": 0.1}, True),
        ({"C_b": "1/3"}, {"C_b": 1 / 3, "lambda_b": 1.0}, True),
        ({"C_b": "1/10"}, {"C_b": 0.1000001}, False),
        ({"weights": Gaussian(C_W=2)}, {"weights": Gaussian(C_W=2.0)}, True),
        ({"activation": from_expr("z - z**3/9", "s")}, {"activation": from_expr("z", "s")}, False),
    ],
)
def test_a_network_is_what_it_is_however_it_is_written(theory, sample, same):
    """Theory's table and ensembles' of networks of three layers that differ in their text."""
    own, other = (Network(**({"activation": "tanh"} | each)) for each in (theory, sample))
    given = {**THEORY, "depth": 3, "steps": STEPS, "targets": [0.7, -0.2]}
    flowed = flow(**(given | {"net": own}))
    table = simulate(**(given | {"net": other}), width=other.width or 8, draws=20, outputs=1)
    if same:
        assert compare(flowed, table).rows
    else:
        with pytest.raises(InputError, match=r"^simulated: got .(network|activation_expr) "):
            compare(flowed, table)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_clipping_is_told(clip):
    table = simulate(**THEORY, width=8, steps=STEPS, draws=20, clip=clip)
    assert table.attrs.get("clip") == clip


def test_test_inputs_are_the_first_of_others(sampled):
    more = flow(**(THEORY | {"test": [[1.0, 1.0], TEST]}), steps=STEPS)
    with pytest.raises(InputError, match="the first of its test inputs"):
        compare(more, sampled)
