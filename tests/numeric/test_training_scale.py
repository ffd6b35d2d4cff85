"""Trained networks by theory, whatever the units of λ, η and the inputs."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import Network
from derive.engine.trees import H
from derive.errors import InputError
from derive.training import averages
from derive.training.histories import fields, residuals
from numeric import flow
from numeric.training import flow as trained
from numeric.training.averages import Descended
from numeric.training.evolution import FLOWS, evolved, met

X, Y, T = np.array([[1.0, 0.5], [-0.5, 1.0]]), np.array([[0.7], [-0.2]]), [0.3, 0.3]
THETA = np.array([0.9, 0.9, 0.37, 3e-6])
"""Two rates that meet, and a small one."""


def _exact(history, theta, steps, h):
    """The history's function by its recursion in 400 digits, times h for each sum over steps."""
    size = len(history.steps.start)
    with mpmath.workdps(400):
        h = mpmath.mpf(h)
        rates = [1 - h * mpmath.mpf(x) for x in theta]
        M = mpmath.zeros(size)
        for (i, j), entry in history.steps.entries.items():
            for labels, coefficient in entry.items():
                M[i, j] += coefficient * mpmath.fprod(rates[label] for label in labels)
        v = mpmath.matrix(history.steps.start)
        while steps:
            v = M * v if steps & 1 else v
            M, steps = M * M, steps >> 1
        return v[0] * h ** history.steps.sums[0]


HISTORIES = [*residuals(0), *residuals(1), residuals(2)[1], fields(H, 1)[0], fields(H, 2)[2]]


@pytest.mark.parametrize("h", [1e-30, 1e-17, 1e-12, 1e-6, 0.3, 2.1])
@pytest.mark.parametrize("history", HISTORIES, ids=range(len(HISTORIES)))
def test_functions_of_the_step_have_all_digits_at_any_rate(history, h):
    """The arguments are doubles, whose digits e^{−hΘt} has but for a loss of hΘt."""
    limit = 1 << math.ceil(math.log2(1e3 / (h * THETA.min())))
    steps = [t for t in (1, 5, round(0.8 / h), round(40 / h)) if t <= 2**53]
    found = evolved(history, [THETA] * history.labels, [*steps, math.inf], h)
    rng = np.random.default_rng(21)
    for _ in range(3):
        at = tuple(rng.integers(0, len(THETA), history.labels))
        for t, each in zip([*steps, limit], found, strict=True):
            exact = float(_exact(history, THETA[list(at)], t, h))
            flows = h * h * t if h < FLOWS else 0.0  # t (t − 1) is t² there
            assert each[at] == pytest.approx(exact, rel=2e-13, abs=1e-300 + flows)


@pytest.mark.parametrize("history", HISTORIES, ids=range(len(HISTORIES)))
def test_gradient_flow_is_descent_of_small_steps(history):
    times, at = [1e-20, 0.7, 33.0], (2, 0, 3, 1)[: history.labels]
    found = evolved(history, [THETA] * history.labels, times, 0.0)
    for time, each in zip(times, found, strict=True):
        exact = float(_exact(history, THETA[list(at)], round(time * 2**140), 2.0**-140))
        assert each[at] == pytest.approx(exact, rel=2e-13, abs=1e-300)


@pytest.mark.parametrize("h", [0, 1e-30, 1e-17, 1e-12, 1e-3, 0.7, 2.1])
def test_what_is_met_has_all_digits(h):
    steps = [t for t in (1, 5, round(0.8 / (h or 1))) if t <= 2**53]
    found = met(THETA, [*steps, math.inf], h)
    assert (found[-1] == 1).all()
    with mpmath.workdps(60):
        for t, row in zip(steps, found, strict=False):
            for theta, value in zip(THETA, row, strict=True):
                left = (1 - mpmath.mpf(h) * theta) ** t if h else mpmath.exp(-t * mpmath.mpf(theta))
                assert value == pytest.approx(float(1 - left), rel=1e-14)


@pytest.fixture(scope="module")
def scaled():
    """The tensors at λ, by λ: each is that at λ = 1 times a power of λ."""
    tables = [
        flow(Network("tanh", "orthogonal", C_b=0.1, lambda_b=c, lambda_W=c), [*X, T], 2, NAMES)
        for c in (1, 2)
    ]
    first, second = ({n: each.isel(layer=-1)[n].to_numpy() for n in NAMES} for each in tables)
    powers = {n: round(math.log2(abs(second[n]).max() / abs(first[n]).max())) for n in NAMES}
    assert powers == {"K": 0, "G1": 0} | POWERS
    return lambda c: {n: each * c ** powers[n] for n, each in first.items()}


NAMES = [name.label for name in averages.tensors()]
POWERS = {"Theta": 1, "Theta1": 1, "D": 1, "F": 1, "A": 2, "B": 2} | dict.fromkeys("PQ", 2)
POWERS |= dict.fromkeys("RSTU", 3)
POWERS = {name: power for name, power in POWERS.items() if name in NAMES}


def _found(tensors, eta, steps):
    made = Descended(tensors, Y, eta, steps)
    wanted = {"prediction": (averages.prediction(), 1), "ntk": (averages.ntk(), 1)}
    return [made.leading, *made.averages(wanted).values()]


def test_how_many_steps_are_asked_for_together_does_not_matter():
    """Of many steps, labels are taken in blocks."""
    rng, samples, training = np.random.default_rng(2), 12, 10
    tensors = {
        name.label: rng.normal(size=(samples,) * len(name.subscripts))
        for name in averages.tensors()
    }
    tensors["Theta"] = tensors["Theta"] @ tensors["Theta"].T / 30
    wanted = {name: (getattr(averages, name)(), 1) for name in ("prediction", "covariance", "ntk")}

    def at(steps):
        made = Descended(tensors, np.full((training, 1), 0.5), 0.3, steps)
        return made.averages(wanted)

    together, alone = at([7] * 40), at([7])
    for name in wanted:
        close = pytest.approx(alone[name][0], rel=1e-11, abs=1e-11 * abs(alone[name]).max())
        assert together[name][0] == close
        assert together[name][-1] == close


@settings(max_examples=5, deadline=None)
@given(st.floats(-30, 30), st.sampled_from([0.0, 1e-14, 1e-3, 0.4]))
def test_units_of_rates_do_not_matter(scaled, power, eta):
    """θ moves by ηλ alone: λ → cλ, H → cH where η → η/c, or τ → τ/c."""
    c = 10.0**power
    steps = [1.0, 9.0, math.inf]
    one = _found(scaled(1.0), eta, steps)
    other = _found(scaled(c), eta / c, steps if eta else [t / c for t in steps])
    for place, (value, moved) in enumerate(zip(one, other, strict=True)):
        change = abs(moved / (c if place == 2 else 1) - value).max()
        assert change <= 1e-12 * abs(value).max()


@pytest.mark.parametrize("c", [9e-13, 9e-19, 1e30])
def test_gradient_flow_does_not_know_the_units_of_rates(c):
    def table(c):
        net = Network("tanh", "orthogonal", C_b=0.1, lambda_b=c, lambda_W=c)
        return trained(net, X[:1], Y[:1], X[1:], 2, 0, [2 / c, math.inf])

    one, other = table(1.0), table(c)
    for name in ("prediction", "prediction1", "covariance1", "ntk1", "loss1"):
        unit = c if "ntk" in name else 1.0
        change = abs(other[name].to_numpy() / unit - one[name].to_numpy())
        error = other[f"{name}_error"].to_numpy() / unit + one[f"{name}_error"].to_numpy()
        assert (change <= error + 1e-15).all()
        assert error.max() < 1e-10


@pytest.mark.parametrize("eta", [1e-15, 1e-17, 1e-300])
def test_small_steps_end_where_gradient_flow_does(scaled, eta):
    pairs = zip(_found(scaled(1), eta, [math.inf]), _found(scaled(1), 0, [math.inf]), strict=True)
    for found, limit in pairs:
        assert found == pytest.approx(limit, rel=1e-12, abs=1e-13)


def test_small_inputs_are_met_as_those_of_a_linear_network():
    """σ of small inputs is linear, and what it makes of new inputs does not know their size."""
    targets = Y[:, 0]
    table = trained(Network("tanh", lambda_b=0), 1e-8 * X, targets, [3e-9, 3e-9], 2, 0.1)
    small = table["prediction"].to_numpy()[0]
    linear = np.array(T) @ np.linalg.solve(X, targets)
    assert small == pytest.approx([*targets, linear], rel=1e-9)
    assert abs(table["loss"].item()) < 1e-20


def test_numbers_whose_powers_are_no_doubles_are_refused():
    far = Network("tanh", C_b=0.1, lambda_b=1e-100, lambda_W=1e-100)
    with pytest.raises(InputError, match=r"^net: got .*falls below 1e-300"):
        trained(far, X[0], 1.0, None, 2, 0.0, [1.0])
    with pytest.raises(InputError, match=r"^steps: got 1e\+100; wanted times below"):
        trained(Network("tanh", C_b=0.1), X[0], 1.0, None, 2, 0.0, [1e100])


@pytest.mark.parametrize("eta", [1e-230, 1e-245, 1e-250])
def test_steps_whose_product_with_rates_is_no_double_are_no_times(eta):
    """2^53 steps of η are gradient flow to τ = 2^53 η, where ηΘ is subnormal or 0 as well."""
    net, steps = Network("tanh", lambda_b=0, lambda_W=1e-80), [10, 2**53]
    table = trained(net, X[0], 0.7, None, 2, eta, steps)
    times = trained(net, X[0], 0.7, None, 2, 0, [t * eta for t in steps])
    for name in ("prediction", "prediction1"):
        wanted = times[name].to_numpy()
        assert table[name].to_numpy() == pytest.approx(wanted, rel=1e-12, abs=1e-310)
    assert abs(table["prediction"]).max() < 1e-290
    assert (table["prediction"].sel(step=2**53) > 0).all()
