"""Learning curves of networks on images: against what descent is, and run by run."""

from types import SimpleNamespace

import numpy as np
import pytest

from derivations.claims.kept import Runs, keeping
from derivations.training.curves import curves
from derivations.training.data import digits
from derive import Network
from derive.errors import InputError
from numeric.samplers import checked_ensemble
from numeric.training import losses, optimizers, simulate
from numeric.training import networks as descending

SPLIT = digits().standardised().split(40, 30, 20, seed=1)
NET = Network("tanh", "orthogonal", lambda_b=0.3)


def test_a_curve_is_the_descent_of_the_mean_loss():
    """η of the mean over inputs and outputs is η/5N of ½ Σ, and the training losses are as many
    times as large."""
    made = curves(NET, SPLIT, 6, 3, 0.7, [0, 4], draws=3, seed=2)
    x, y = SPLIT.training.pixels, SPLIT.training.targets
    other = simulate(NET, x, y, None, 6, 3, 0.7 / (5 * 40), [0, 4], 3, 2, ntk=False, clip=1e9)
    mean = made["training"].mean("network").to_numpy()
    assert mean == pytest.approx(other["loss"].to_numpy() / (5 * 40))
    assert (made["training"][:, 1] < made["training"][:, 0]).all()


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_gradients_of_each_loss_are_those_of_finite_differences(loss):
    """A small step of ordinary descent is −η times the gradient, by differences."""
    eta, h = 1e-6, 1e-6
    x, y = SPLIT.training.pixels[:4, 20:25], SPLIT.training.targets[:4, :3] + 0.2
    y = y / y.sum(axis=1, keepdims=True)
    rule = optimizers.Optimizer("ordinary", eta)
    work = SimpleNamespace(
        ensemble=checked_ensemble(Network("tanh", "gaussian", C_b=1), x, 4, 2, 0),
        targets=y, widths=(5, 4, 3), rule=rule, loss=loss, batch=4, ntk=False,
    )  # fmt: skip
    networks = descending.CompiledNetworks(work, np.arange(1))
    own = networks.parameters

    def total(at, by):
        own[0, at] += by
        z = networks.outputs(x)
        own[0, at] -= by
        return losses.per_input(z, y, loss).sum()

    places = range(own.shape[1])
    slopes = [(total(at, h) - total(at, -h)) / (2 * h) for at in places]
    before = own.copy()
    networks.descend(1)
    assert (before - own)[0] / eta == pytest.approx(np.array(slopes), rel=1e-4, abs=1e-7)


def test_sigmoids_over_their_sum_are_probabilities():
    """Far below 0 the sigmoids are e^z, and their share of the sum the softmax."""
    z = np.array([[-40.0, -41.0, -42.0]])
    y = np.array([[0.5, 0.2, 0.3]])
    both = [losses.per_input(z, y, loss)[0] for loss in losses.LOSSES[1:]]
    assert both[0] == pytest.approx(both[1], rel=1e-12)
    (even,) = losses.per_input(np.zeros((1, 10)), np.eye(10)[:1], losses.LOSSES[2])
    assert even == pytest.approx(np.log(10))


def test_the_probe_is_the_tangent_kernel():
    """Of one layer H_ij;αβ = δ_ij (λ_b + λ_W x_α·x_β/n_0) whatever the weights, and stays."""
    made = curves(NET, SPLIT, 6, 1, 0.5, [0, 3], draws=2, probe=6)
    test, own = SPLIT.test.of_class(6).pixels[0], SPLIT.training.of_class(6).pixels
    expected = 0.3 + (own @ test / 64).mean()
    assert made["ntk_class"].to_numpy() == pytest.approx(expected)
    assert made["ntk_between"].to_numpy() == pytest.approx(0, abs=1e-12)


def test_networks_that_diverge_are_told():
    made = curves(NET, SPLIT, 6, 3, 1e6, [0, 60], draws=2)
    assert np.isinf(made["training"].sel(epoch=60)).all()
    assert np.isfinite(made["training"].sel(epoch=0)).all()


def test_a_run_that_stopped_goes_on_to_the_same_bits(tmp_path):
    """What is kept of two networks is read, and the third trained, as if all were at once."""
    given = {"width": 6, "depth": 3, "eta": 1, "epochs": [0, 5], "seed": 4, "batch": 16}
    whole = curves(NET, SPLIT, draws=3, **given)
    curves(NET, SPLIT, draws=2, run=tmp_path / "run", **given)
    again = curves(NET, SPLIT, draws=3, run=tmp_path / "run", **given)
    assert (whole["test"].to_numpy() == again["test"].to_numpy()).all()
    with keeping(Runs(tmp_path / "runs")) as tally:
        for _ in range(2):
            kept = curves(NET, SPLIT, draws=3, **given)
    assert tally.drawn == 2
    assert (whole["test"].to_numpy() == kept["test"].to_numpy()).all()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"epochs": [0, 5, 5]}, "epochs"),
        ({"epochs": [float("inf")]}, "epochs"),
        ({"batch": 41}, "batch"),
        ({"loss": "absolute"}, "loss"),
        ({"probe": 10}, "probe"),
        ({"split": None}, "split"),
        ({"eta": 0}, "eta"),
    ],
)
def test_bad_input_is_refused(wrong, named):
    given = {"net": NET, "split": SPLIT, "width": 6, "depth": 2, "eta": 1, "epochs": [0]}
    with pytest.raises(InputError, match=named):
        curves(**(given | wrong))
