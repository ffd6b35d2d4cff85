"""Averages over all sets of many samples: their numbers, and the compiled sums."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from derive import InputError, Network, activations
from derive.gaussian import Bracket
from numeric import flow, flows
from numeric.layers import Sums, averages, many_inputs, program
from numeric.layers.several_samples import factorise

FOUR = Bracket(((0, 0), (1, 2), (2, 1), (3, 1)), ())
EPS = np.finfo(float).eps


def test_averages_are_numbered_by_sets():
    rng, m = np.random.default_rng(1), 4
    root = rng.standard_normal((m, m)) / 4
    K = root @ root.T + 0.1
    made = averages.of_several(activations.tanh, [FOUR], m)
    table = np.append(made(K)[0], 0.0)[made.places[FOUR]].sum(axis=0)
    for samples in product(range(m), repeat=4):
        at = {
            k: tuple(sorted(o for s, (_, o) in zip(samples, FOUR.factors, strict=True) if s == k))
            for k in sorted(set(samples))
        }
        members = list(at)
        right = Sums(activations.tanh, [tuple(at.values())])(K[np.ix_(members, members)])
        assert table[samples] == pytest.approx(right[0, 0], abs=1e-13)


def test_arrays_of_monomials_are_what_tables_are(monkeypatch):
    X = np.array([[1.0, 0.3], [0.1, 0.9], [-0.4, 0.5]])
    net, names = Network("gelu", C_b=0.1), ["V", "D"]
    right = flow(net, X, 2, names)
    monkeypatch.setattr(program, "_MANY", 2)
    monkeypatch.setattr(program, "_AT_ONCE", 30)
    flows._layers.cache_clear()
    found = flow(net, X, 2, names)
    flows._layers.cache_clear()
    for name in names:
        assert (abs(found[name] - right[name]) <= right[f"{name}_error"]).all()


@pytest.mark.parametrize("d", [2, 3, 4])
def test_sets_are_factorised_as_each_alone(d):
    """Of samples that are alike, one a multiple, one zero; of no covariance; of kernels with
    NaN."""
    bad = _kernel(6)
    bad[0, 0], bad[1, 2] = -1.0, math.nan
    sets = np.array(list(combinations(range(6), d)))
    for K in (_kernel(6), np.eye(6), bad):
        kernels = K[sets[:, :, None], sets[:, None]]
        for own, order, B, rank in zip(kernels, *many_inputs._factors(kernels), strict=True):
            right_order, right, right_rank = factorise(own)
            assert rank == right_rank
            if rank >= 0:
                assert np.array_equal(order, right_order)
                np.testing.assert_allclose(B, right, atol=1e-14)
                np.testing.assert_allclose((B @ B.T), own[np.ix_(order, order)], atol=1e-12)


PRODUCTS = {
    2: [((0, 1), (0, 1)), ((5,), (1,)), ((), (1, 1)), ((0,), (0,))],
    3: [((0, 1), (0,), (1,)), ((0,), (1, 1), (2,)), ((1,), (1,), (0, 0))],
    4: [((0,), (0,), (1,), (1,)), ((0,), (1,), (2,), (1,)), ((3,), (1,), (1,), (1,))],
}


def _kernel(m):
    """Of samples that are alike, one a multiple of another, one zero."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((m, m + 1)) / 3
    z[:, 0] += 1
    z[3], z[4] = -2 * z[2], 0
    return z @ z.T / 2


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize(
    ("d", "sigma"),
    [(2, activations.gelu), (3, activations.tanh), (4, activations.gelu)],
    ids=str,
)
def test_compiled_sums_are_those_of_single_sets(d, sigma, monkeypatch):
    monkeypatch.setattr(many_inputs, "NODES", 10**9)
    K, products = _kernel(6), PRODUCTS[d]
    sets = np.array(list(combinations(range(6), d)))
    found = many_inputs.Crowd(sigma, products)(K, sets)
    rule = Sums(sigma, products)
    right = np.array([rule(K[np.ix_(each, each)]) for each in sets]).transpose(1, 2, 0)
    assert (abs(found - right)[0] <= 64 * EPS * right[1]).all()
    short = 1e-9 if d == 2 else 2e-3  # of a table's sizes, on straight lines
    assert (found[1] >= (1 - short) * right[1]).all()
    assert (found[1] <= 1.01 * right[1]).all()


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize("sigma", [activations.tanh, activations.gelu], ids=str)
def test_few_digits_are_told(sigma, monkeypatch):
    K, products = _kernel(7), PRODUCTS[4]
    sets = np.array(list(combinations(range(7), 4)))
    crowd = many_inputs.Crowd(sigma, products)
    monkeypatch.setattr(many_inputs, "NODES", 10**9)
    right = crowd(K, sets)
    monkeypatch.setattr(many_inputs, "NODES", 0)
    monkeypatch.setattr(many_inputs, "_SOME", 12)
    found = crowd(K, sets)
    off, told = abs(found[0] - right[0]), EPS * found[1]
    assert off.max() > 1e3 * EPS * right[1].max()
    assert (off <= 2 * told).all()
    assert told.max() < 1e-3 * right[1].max()


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize("d", [3, 4])
def test_errors_of_tables_are_told(d, monkeypatch):
    monkeypatch.setattr(many_inputs, "NODES", 10**9)
    K, products = _kernel(6), PRODUCTS[d]
    sets = np.array(list(combinations(range(6), d)))
    crowd = many_inputs.Crowd(activations.tanh, products)
    right = crowd(K, sets)
    monkeypatch.setattr(crowd, "_spacing", lambda B, rule: 0.5)
    found = crowd(K, sets)
    off, told = abs(found[0] - right[0]).max(axis=1), EPS * found[1].max(axis=1)
    assert off.max() > 1e-9
    assert (off <= told).all()


@pytest.mark.slow  # it compiles
def test_sets_whose_tables_overflow_are_summed_without(monkeypatch):
    K, products = _kernel(5), PRODUCTS[3]
    sets = np.array(list(combinations(range(5), 3)))
    crowd = many_inputs.Crowd(activations.tanh, products)
    right, sums = crowd(K, sets), crowd._sums

    def overflown(factorised, rule):
        found = sums(factorised, rule)
        found[:, :, 2] = np.nan
        return found

    monkeypatch.setattr(crowd, "_sums", overflown)
    found = crowd(K, sets)
    assert (abs(found - right)[0] <= 64 * EPS * right[1]).all()


@pytest.mark.slow  # it compiles
def test_the_nodes_that_are_refused_have_tables_and_checks(monkeypatch):
    K, products = _kernel(6), PRODUCTS[4]
    sets = np.array(list(combinations(range(6), 4)))
    crowd = many_inputs.Crowd(activations.tanh, products)
    monkeypatch.setattr(many_inputs, "NODES", 0)  # the fewest digits, held to sums of all
    monkeypatch.setattr(many_inputs, "_MOST", 10**6)
    with pytest.raises(InputError, match=r"^inputs: got '6 inputs, with K up to "):
        crowd(K, sets)
    monkeypatch.setattr(many_inputs, "NODES", 10**9)
    monkeypatch.setattr(many_inputs, "_MOST", 2_160_000)  # some thousand more are in tables
    with pytest.raises(InputError, match=r"fewer than 2\.2·10\^6 nodes: here 2\.2·10\^6"):
        crowd(K, sets)


@pytest.mark.parametrize(
    ("nodes", "told"), [(4.04e9, "4.1·10^9"), (9.99e9, "1.0·10^10"), (4e11, "4.0·10^11")]
)
def test_a_refusal_tells_nodes_to_two_digits(nodes, told):
    with pytest.raises(InputError) as raised:
        many_inputs._check_cost(np.diag([1.0, 250.0]), nodes)
    assert raised.value.got == "2 inputs, with K up to 250"
    assert raised.value.wanted.endswith(f"fewer than 4.0·10^9 nodes: here {told}")


@pytest.mark.slow  # it compiles
def test_many_inputs_have_the_tensors_of_few():
    X = np.random.default_rng(3).standard_normal((9, 5)) / 2
    net, names = Network("tanh", "orthogonal", C_b=0.1), ["G1", "V", "Theta1", "A", "D", "R", "T"]
    some = [0, 3, 5, 8]
    many, few = flow(net, X, 3, names), flow(net, X[some], 3, names)
    for name in names:
        rank = few[name].ndim - 1
        place = np.ix_(range(3), *[some] * rank)
        allowed = few[f"{name}_error"].to_numpy() + many[f"{name}_error"].to_numpy()[place]
        assert (abs(few[name].to_numpy() - many[name].to_numpy()[place]) <= allowed).all(), name
        assert allowed.max() < 1e-4 * abs(few[name].to_numpy()).max()
