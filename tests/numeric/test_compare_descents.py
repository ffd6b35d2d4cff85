"""Comparisons of trained networks: what was trained must be the same, and is named."""

import numpy as np
import pytest

from derive import Network, layers
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
    "changed", [{"optimizer": "adam"}, {"batch": 1}, {"patience": 3, "test_targets": 0.1}]
)
def test_ensembles_trained_otherwise_are_refused_until_that_is_said(changed):
    table = simulate(**THEORY, width=8, steps=STEPS, draws=20, **changed)
    theory = flow(**THEORY, steps=STEPS)
    with pytest.raises(InputError, match=f"^simulated: got .*{next(iter(changed))} "):
        compare(theory, table)
    told = table.assign_attrs(theory.attrs, batch=2, optimizer="tensorial", loss="squared ½Σ")
    told.attrs.pop("patience", None)
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


@pytest.mark.parametrize(("readout", "places"), [(None, 3), ("mean", 1), ("flatten", 1)])
def test_signals_are_compared_at_all_positions(readout, places):
    """Theory and ensemble of convolutions, also where one has more test signals than the other."""
    net = Network("tanh", C_b=0.1, layer=layers.convolution(2, 3, readout=readout))
    signals = np.random.default_rng(5).standard_normal((4, 3, 2))
    X, tests = signals[:2], signals[2:]
    y = np.ones((2, 3) if places > 1 else 2)
    given = {"depth": 2, "eta": 0.1, "steps": STEPS}
    theory = {n: flow(net, X, y, tests[:n] if n else None, **given) for n in (0, 2)}
    for n, own in theory.items():
        for m in (0, 1, 2):
            test = tests[:m] if m else None
            table = simulate(net, X, y, test, width=8, draws=20, **given)
            rows = compare(own, table).rows
            indices = {row.indices for row in rows if row.tensor == "prediction"}
            assert indices == {(a,) for a in range((2 + min(n, m)) * places)}
    batches = simulate(net, X, y, width=8, draws=20, batch=1, **given)
    with pytest.raises(InputError, match="^simulated: got .*batch 1"):
        compare(theory[0], batches)
