"""Early stopping, against the same networks trained to the end and looked at after every step."""

import numpy as np
import pytest

from derive import Network
from derive.errors import InputError
from numeric.samplers import checked_ensemble
from numeric.training import simulate
from numeric.training.ensembles import Training
from numeric.training.optimizers import Optimizer
from numeric.training.stopping import Patience

RNG = np.random.default_rng(31)
INPUTS, TARGETS = RNG.standard_normal((3, 5)), RNG.standard_normal((3, 2))
TESTS, APART = RNG.standard_normal((2, 5)), RNG.standard_normal((2, 2))
NET = Network("tanh", "orthogonal", C_b=0.1, lambda_b=0.3)
LAST, DRAWS = 40, 12


def course(patience, rule):
    """The networks at steps 0 … LAST."""
    ensemble = checked_ensemble(NET, np.concatenate([INPUTS, TESTS]), 8, 3, 4)
    steps = tuple(range(LAST + 1))
    work = Training(ensemble, TARGETS, rule, "squared", 3, steps, False, DRAWS, patience=patience)
    return work.course(work.sums(0, DRAWS, np.empty(0))).of_sign(0)


@pytest.mark.parametrize(("kind", "eta"), [("tensorial", 0.05), ("momentum", 0.01), ("adam", 0.01)])
@pytest.mark.parametrize("patience", [1, 4])
def test_a_network_is_what_it_was_at_its_best(kind, eta, patience):
    """Before it stops it is the network that never does; then that one at its least loss."""
    rule = Optimizer(kind, eta)
    free, made = course(None, rule), course(Patience(APART, patience), rule)
    losses = ((free.outputs[:, :, 3:] - APART) ** 2).sum(axis=(2, 3))
    ends = []
    for k in range(DRAWS):
        best, step = 0, 0
        while step < LAST and step - best < patience:
            step += 1
            best = step if losses[k, step] < losses[k, best] else best
        stopped = step - best == patience
        ends.append(step if stopped else LAST + 1)
        expected = free.outputs[k].copy()
        if stopped:
            expected[step:] = expected[best]
        assert made.outputs[k] == pytest.approx(expected, abs=1e-12)
        assert (made.stopped[k] == (np.arange(LAST + 1) >= ends[-1])).all()
    assert len(set(ends)) > 2  # networks stop apart


def test_the_table_has_the_share_that_has_stopped():
    arguments = (NET, INPUTS, TARGETS, TESTS, 8, 3, 0.05, [0, 10, 300], DRAWS)
    table = simulate(*arguments, test_targets=APART, patience=2)
    shares = table["stopped"].to_numpy()
    assert shares[0] == 0
    assert 0 < shares[2] <= 1
    assert (np.diff(shares) >= 0).all()
    assert table.attrs["patience"] == 2
    never = simulate(*arguments, test_targets=APART, patience=10**6)
    plain = simulate(*arguments, clip=1e9)
    assert (never["stopped"] == 0).all()
    assert never["prediction"].to_numpy() == pytest.approx(plain["prediction"].to_numpy())


def test_networks_that_diverge_are_taken_back():
    arguments = (NET, INPUTS, TARGETS, TESTS, 8, 3, 50.0, [400], DRAWS)
    table = simulate(*arguments, optimizer="ordinary", test_targets=APART, patience=3)
    assert float(table["stopped"][0]) == 1
    assert np.isfinite(table["prediction"]).all()


def test_a_run_that_is_taken_up_again_has_the_same_bits(tmp_path):
    arguments = (NET, INPUTS, TARGETS, TESTS, 8, 3, 0.05, [20])
    patient = {"test_targets": APART, "patience": 2, "batch": 2}
    simulate(*arguments, 5, **patient, run=tmp_path / "run")
    made = simulate(*arguments, 40, **patient, run=tmp_path / "run")
    assert made.equals(simulate(*arguments, 40, **patient))


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"patience": 0}, "patience"),
        ({"patience": 2.5}, "patience"),
        ({"test_targets": None}, "patience"),
        ({"patience": None}, "patience"),
        ({"test": None}, "patience"),
        ({"test_targets": APART[:1]}, "test_targets"),
        ({"test_targets": APART[:, :1]}, "test_targets"),
        ({"test_targets": np.full((2, 2), np.nan)}, "test_targets"),
    ],
)
def test_bad_arguments_are_named(changed, argument):
    good = {"test": TESTS, "test_targets": APART, "patience": 2, "width": 8, "depth": 2, "draws": 2}
    with pytest.raises(InputError, match=f"^{argument}: "):
        simulate(NET, INPUTS, TARGETS, **{**good, **changed})
