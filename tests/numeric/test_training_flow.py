"""Trained networks by theory: against exact averages at finite n, and what holds at the ends."""

import math
from collections import Counter
from functools import cache, partial, reduce
from itertools import product
from math import prod

import numpy as np
import pytest
from sympy import QQ, ring

from derive import Gaussian, Network, Orthogonal, Rademacher, Sparse, activations
from derive.errors import InputError
from numeric import compare, flow
from numeric.training import flow as trained

_RING, _Z1, _Z2, _A11, _A12, _A22, _B, _I = ring("z1 z2 a11 a12 a22 b i", QQ)
"""With w_j = √n (W₂)_j and u = W₁ x: z_j = w_j·u/√n, a_jk = w_j·w_k/n, b = |u|²/n, and i = 1/n."""
_Z, _A = (_Z1, _Z2), {(0, 0): _A11, (0, 1): _A12, (1, 1): _A22}
_BOTH, _PAIRS = (0, 1), ((0, 0), (0, 1), (1, 0), (1, 1))
_C_W, _KAPPA, _ETA, _LAMBDA, _Y = QQ(3, 2), QQ(5, 8), QQ(1, 5), QQ(3, 4), (QQ(4, 5), QQ(-3, 10))


@cache
def _descended(steps):
    """z, z z and H of W₂ W₁ x after so many steps, which move z, a and b by polynomials."""
    z, a, b = list(_Z), [[_A11, _A12], [_A12, _A22]], _B
    for _ in range(steps):
        s = [_ETA * _LAMBDA * (z[j] - _Y[j]) for j in _BOTH]
        pull = [s[0] * a[j][0] + s[1] * a[j][1] for j in _BOTH]
        push, own = s[0] * z[0] + s[1] * z[1], s[0] * pull[0] + s[1] * pull[1]
        less = [[s[j] * z[k] + s[k] * z[j] - s[j] * s[k] * b for k in _BOTH] for j in _BOTH]
        z = [z[j] - s[j] * b - _KAPPA * (pull[j] - s[j] * push * _I) for j in _BOTH]
        a = [[a[j][k] - less[j][k] * _I for k in _BOTH] for j in _BOTH]
        b += _KAPPA * (_KAPPA * own - 2 * push) * _I
        z = [each.rem(_I**2) for each in z]  # all that is of order 1/n
    H = [_LAMBDA * (_KAPPA * a[j][k] + (j == k) * b) for j, k in _PAIRS]
    return z, [(z[j] * z[k]).rem(_I**2) for j, k in _PAIRS], H


def _fluctuations(kurtosis, haar):
    """Derivatives and coefficients: the joint cumulants of z, a and b at order 1/n, where w has
    independent entries of this excess kurtosis, and u normal ones, or both matrices are Haar."""
    s_w, s_u, half = _C_W, _C_W * _KAPPA, QQ(1, 2)

    def alike(*at):
        return len(set(at)) == 1

    def crossed(j, k, p, q):
        pairs = (j == p) * (k == q) + (j == q) * (k == p)
        return s_w**2 * (pairs + kurtosis * alike(j, k, p, q))

    if not haar:
        yield (_B, _B), s_u**2
        for (p, one), (q, other) in product(_A.items(), repeat=2):
            yield (one, other), half * crossed(*p, *q)
        for j, k in _PAIRS:
            yield (_Z[j], _Z[k], _B), (j == k) * s_w * s_u**2
            for p, one in _A.items():
                yield (_Z[j], _Z[k], one), half * s_u * crossed(j, k, *p)
    for j, k, p, q in product(_BOTH, repeat=4):
        pairs = (j == k) * (p == q) + (j == p) * (k == q) + (j == q) * (k == p)
        joint = -2 * pairs if haar else 2 * pairs + 3 * kurtosis * alike(j, k, p, q)
        yield (_Z[j], _Z[k], _Z[p], _Z[q]), QQ(1, 24) * (s_w * s_u) ** 2 * joint


def _orders(polynomial, fluctuations):
    """The limit and the coefficient of 1/n of an average at initialization."""

    def average(part):
        """At 1/n = 0, with normal z and with a and b at their limits."""
        total, s_u = QQ(0), _C_W * _KAPPA
        for (p, q, a11, a12, a22, b, order), value in part.terms():
            if not (p % 2 or q % 2 or a12 or order):
                odd = prod(range(1, p, 2)) * prod(range(1, q, 2))
                total += (
                    value * odd * _C_W ** ((p + q) // 2 + a11 + a22) * s_u ** ((p + q) // 2 + b)
                )
        return total

    leading = polynomial.rem(_I)
    first = average(polynomial.diff(_I))
    for by, coefficient in fluctuations.items():
        first += coefficient * average(reduce(lambda each, x: each.diff(x), by, leading))
    return np.array([average(leading), first], dtype=float)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    ("weights", "kurtosis"),
    [(Gaussian, 0), (Orthogonal, 0), (Rademacher, -2), (partial(Sparse, "1/4"), 9)],
)
def test_two_linear_layers_agree_with_exact_averages(weights, kurtosis, steps):
    """The kurtosis of W₁ brings nothing of order 1/n here; that of W₂ ties all of an output."""
    x, y = np.array([1.0, 0.5]), np.array([_Y], dtype=float)
    net = Network(activations.linear, weights(C_W="3/2"), lambda_b=0, lambda_W="3/4")
    table = trained(net, x, y, depth=2, eta=0.2, steps=steps, width=2).isel(step=0)
    cumulants = Counter()
    for by, coefficient in _fluctuations(kurtosis, weights is Orthogonal):
        cumulants[tuple(sorted(by, key=str))] += coefficient
    z, squares, kernel = (
        np.array([_orders(each, cumulants) for each in part]).T for part in _descended(steps)
    )
    leading, first = (np.multiply.outer(z[0], each).ravel() for each in z)
    first = first + np.multiply.outer(z[1], z[0]).ravel()
    exact = {"prediction": z, "covariance": squares - [leading, first], "ntk": kernel}
    for name, orders in exact.items():
        for value, ending in zip(orders, ("", "1"), strict=True):
            found, error = (
                table[f"{name}{end}"].to_numpy().ravel() for end in (ending, f"{ending}_error")
            )
            assert found == pytest.approx(value, rel=1e-11, abs=1e-13), name
            assert (abs(found - value) <= error + 1e-15).all(), name
    loss = squares[1][[0, 3]].sum() / 2 - y.ravel() @ z[1]
    assert table["loss1"].item() == pytest.approx(loss, rel=1e-11)


RNG = np.random.default_rng(21)
INPUTS, TARGETS, TESTS = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 2)), [[1, 2, 0, -1.0]]
NET = Network("tanh", "orthogonal", C_b=0.1, lambda_b=0.4)


@pytest.fixture(scope="module")
def table():
    return trained(NET, INPUTS, TARGETS, TESTS, 3, 0.3, [0, 1, 40, math.inf])


def test_before_training_it_is_what_flow_says(table):
    start = table.sel(step=0)
    given = flow(NET, np.vstack([INPUTS, TESTS]), 3, ["K", "G1", "Theta", "Theta1"]).isel(layer=-1)
    for name, tensor in (("covariance", "K"), ("ntk", "Theta")):
        for ending in ("", "1"):
            other = {"K1": "G1"}.get(tensor + ending, tensor + ending)
            found = start[name + ending].to_numpy()
            assert found[..., 0, 1] == pytest.approx(0, abs=1e-15)
            for output in range(2):
                assert found[..., output, output] == pytest.approx(
                    given[other].to_numpy(), abs=1e-13
                )
    assert start["prediction"].to_numpy() == pytest.approx(0, abs=1e-14)


def test_in_the_end_the_training_set_is_met(table):
    end = table.sel(step=math.inf)
    training = slice(3)
    assert end["prediction"].to_numpy()[training] == pytest.approx(TARGETS, abs=1e-12)
    for name in ("prediction1", "covariance", "covariance1"):
        assert end[name].to_numpy()[training] == pytest.approx(0, abs=1e-10)
    assert np.abs(end["covariance1"].to_numpy()[3, 3]).min() > 1e-3
    for name in ("loss", "loss1"):
        assert end[name].item() == pytest.approx(0, abs=1e-10)


def test_many_steps_are_near_the_limit(table):
    far = trained(NET, INPUTS, TARGETS, TESTS, 3, 0.3, [2**40])
    for name in ("prediction1", "covariance1", "ntk1"):
        limit = table[name].sel(step=math.inf).to_numpy()
        assert far[name].to_numpy()[0] == pytest.approx(limit, rel=1e-9, abs=1e-11)


def test_small_steps_are_gradient_flow():
    times = [0.7, 3.0]
    flowing = trained(NET, INPUTS, TARGETS, TESTS, 3, 0, times)
    eta = 2.0**-10
    errors = []
    for rate in (eta, eta / 2):
        small = trained(NET, INPUTS, TARGETS, TESTS, 3, rate, [round(t / rate) for t in times])
        errors.append(
            [
                np.abs(small[name].to_numpy() - flowing[name].to_numpy()).max()
                for name in ("prediction1", "covariance1", "ntk1")
            ]
        )
    ratio = np.array(errors[0]) / errors[1]
    assert np.all(np.array(errors[0]) < 0.02)
    assert ratio == pytest.approx(2, rel=0.2)  # first order in η


def test_the_order_of_the_inputs_does_not_matter(table):
    order = [2, 0, 1]
    other = trained(NET, INPUTS[order], TARGETS[order], TESTS, 3, 0.3, [40])
    where = [*order, 3]
    found = table["covariance1"].sel(step=40).to_numpy()[np.ix_(where, where)]
    assert other["covariance1"].to_numpy()[0] == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_the_whole_square_doubles_the_rate():
    half = trained(NET, INPUTS, TARGETS, depth=2, eta=0.2, steps=3)
    whole = trained(NET, INPUTS, TARGETS, depth=2, eta=0.1, steps=3, half=False)
    assert whole["prediction1"].to_numpy() == pytest.approx(half["prediction1"].to_numpy())
    assert whole["loss1"].to_numpy() == pytest.approx(2 * half["loss1"].to_numpy())


def test_nothing_moves_without_rates():
    still = Network("tanh", C_b=0.1, lambda_b=0, lambda_W=0)
    with np.errstate(divide="raise", invalid="raise"):
        table = trained(still, [1.0, 0.5], 1.0, depth=2, eta=0.3, steps=[0, 5])
    for name in ("prediction1", "covariance", "covariance1", "loss"):
        start, end = table[name].to_numpy()
        assert end == pytest.approx(start, abs=1e-14)


@pytest.mark.parametrize("eta", [0, 0.1])
def test_targets_that_overflow_are_not_blamed_on_eta(eta):
    with pytest.raises(InputError, match=r"^targets: got 1e\+200; wanted smaller"):
        trained(Network("tanh"), [1.0, 0.5], 1e200, depth=2, eta=eta, steps=3)


def test_the_bound_on_eta_is_that_of_the_loss_that_was_asked_for():
    least = {}
    for half in (True, False):
        with pytest.raises(InputError, match=r"^eta: got 50\.0; wanted below ") as raised:
            trained(NET, INPUTS, TARGETS, None, 2, 50.0, half=half)
        least[half] = float(str(raised.value).split("below ")[1].split(",")[0])
    assert least[True] == pytest.approx(2 * least[False], rel=1e-5)


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"eta": -1}, "eta"),
        ({"eta": math.nan}, "eta"),
        ({"eta": True}, "eta"),
        ({"half": "no"}, "half"),
        ({"test": np.empty((0, 4))}, "test"),
        ({"test": [[1.0, 2.0, math.nan, 0.0]]}, "test"),
        ({"eta": "fast"}, "eta"),
        ({"eta": 50.0}, "eta"),
        ({"targets": [1.0, 2.0]}, "targets"),
        ({"targets": [1.0, math.nan, 2.0]}, "targets"),
        ({"targets": [["a"], ["b"], ["c"]]}, "targets"),
        ({"steps": [1.5]}, "steps"),
        ({"steps": [-1]}, "steps"),
        ({"steps": []}, "steps"),
        ({"steps": "soon"}, "steps"),
        ({"steps": "5"}, "steps"),
        ({"steps": "inf"}, "steps"),
        ({"steps": ["5"]}, "steps"),
        ({"steps": [True]}, "steps"),
        ({"steps": np.array([True])}, "steps"),
        ({"steps": True}, "steps"),
        ({"steps": [[1, 2]]}, "steps"),
        ({"steps": [10**400]}, "steps"),
        ({"outputs": 3}, "outputs"),
        ({"test": [[1.0, 2.0]]}, "test"),
        ({"inputs": np.ones((3, 4))}, "steps"),
        ({"net": Network("relu")}, "activation"),
        ({"eta": 50.0, "steps": [10**4]}, "eta"),
        ({"net": "tanh"}, "net"),
        ({"net": Network("tanh", widths=[4, 10, 1])}, "targets"),
        ({"net": Network("tanh", widths=[4, 10, 3])}, "targets"),
    ],
)
def test_bad_arguments_are_named(changed, argument):
    given = {"net": NET, "inputs": INPUTS, "targets": TARGETS, "test": TESTS, "depth": 2}
    with pytest.raises(InputError, match=f"^{argument}: "):
        trained(**(given | {"eta": 0.1, "steps": [math.inf]} | changed))


@pytest.mark.parametrize("outputs", [1, 2])
def test_each_average_has_a_size_that_differences_are_small_against(outputs):
    """Before training the mean is 0 and its size √K; 0 and an error are resolved by that."""
    net, X = Network("tanh", Orthogonal()), np.array([[1.0, 0.5, -0.3], [0.2, -0.8, 0.4]])
    targets = np.array([[1.0, -1.0][:outputs]])
    made = trained(net, X[:1], targets, X[1:], depth=3, eta=0.3, steps=[0, 2], outputs=outputs)
    last = flow(net, X, 3, ["K", "Theta"]).isel(layer=-1)
    K, theta = (np.diag(last[name].to_numpy()) for name in ("K", "Theta"))
    sizes = {name: made[f"{name}_size"].to_numpy() for name in ("prediction", "ntk", "loss1")}
    assert all(made[f"{name}_size"].dims == made[name].dims for name in sizes)
    start, later = sizes["prediction"].reshape(2, 2, outputs)
    np.testing.assert_allclose(start, np.sqrt(K)[:, None] * np.ones(outputs), rtol=1e-12)
    np.testing.assert_allclose(later, abs(made["prediction"][1]).max(), rtol=1e-12)
    np.testing.assert_allclose(sizes["ntk"][0].max(), theta.max(), rtol=1e-9)
    sampled = made.drop_vars([each for each in made if "_" in each]).assign_attrs(width=8, draws=9)
    errors = {f"{name}_se": 0 * made[name] + 1e-3 for name in sampled}
    scores = compare(made, sampled.assign(errors), degree=0)
    coarsest = {row.tensor: row.share for row in scores.rows if row.layer == 0}
    assert coarsest["prediction"] == pytest.approx(scores.bound * 1e-3 / np.sqrt(K.min()), rel=1e-6)


def test_steps_may_be_any_iterable():
    given = NET, INPUTS, TARGETS, TESTS, 2, 0.1
    wanted = trained(*given, [0, 5, math.inf])
    for steps in ((t for t in (0, 5, math.inf)), wanted["step"], np.array([0, 5, math.inf])):
        assert trained(*given, steps).equals(wanted)
    assert trained(*given, np.array(5)).equals(trained(*given, 5))
