"""The forward pass of one input, networks side by side: the networks of `lazy`, to rounding."""

from __future__ import annotations

from types import SimpleNamespace

import numba
import numpy as np
import pytest
import sympy

from derive import activations
from derive.network import Network
from derive.recursions import wanted
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
)
from numeric.estimators import Probes, observables
from numeric.random import philox
from numeric.samplers import ProbeSampler, base, checked_ensemble, forward
from numeric.samplers.forward_kernels import LANES, TILE, fill_normals, room_of_words
from numeric.samplers.matrix_kernels import put_lower, put_root, put_square
from numeric.samplers.wishart_kernels import length, put_lengths
from numeric.simulations import make_sampler, simulate

TANH, RELU, HALF = activations.tanh, activations.relu, sympy.Rational(1, 2)
PLAN = observables.Plan(wanted(["K", "V"]), 1)
CASES = {
    "gaussian": (Network(TANH, Gaussian(1.5)), 7),
    "haar": (Network(TANH, Orthogonal(1)), 8),
    "biases": (Network(TANH, Orthogonal(1.2), C_b=lambda ell: 0.1 * (ell % 2)), 7),
    "a kink": (Network(RELU, Gaussian(2), C_b=0.1), 5),
    "unequal widths": (
        Network(activations.sin, Truncated(ratio=2), width_ratio=lambda ell: ell),
        4,
    ),
    "low rank": (Network(TANH, LowRankGaussian(gamma=HALF), Gaussian(1), C_b=0.1), 6),
    "low-rank frames": (Network(TANH, LowRankOrthogonal(gamma=HALF), Gaussian(1)), 6),
}


@pytest.mark.parametrize("case", CASES)
def test_networks_side_by_side_are_those_one_by_one(case):
    net, width = CASES[case]
    ensemble = checked_ensemble(net, [[1.0, 0.5, -0.2]], width, 4, 3)
    sampler = make_sampler(ensemble, PLAN)
    assert sampler.side_by_side
    draws = np.arange(5, 5 + 2 * LANES + 3)
    expected = ProbeSampler(ensemble, PLAN, Probes()).statistics(draws)
    np.testing.assert_allclose(sampler.statistics(draws), expected, rtol=1e-11)
    assert np.ptp(expected[:, -1], axis=0).min() > 0


@pytest.mark.parametrize("most", [1, 20 * LANES])
@pytest.mark.parametrize("case", CASES)
def test_calls_of_compiled_code_are_short_and_leave_no_trace(case, most, monkeypatch):
    """However deep: a call ends where its neurons are spent, after one layer at the earliest."""
    net, width = CASES[case]
    ensemble = checked_ensemble(net, [[1.0, 0.5, -0.2]], width, 9, 3)
    sampler, draws = make_sampler(ensemble, PLAN), np.arange(LANES)
    expected = sampler.statistics(draws)
    compiled, spent = forward.kernels(net.activation), []

    def counted(networks, key, steps, *rest):
        spent.append((len(set(steps[:, 0])), networks.size * steps[:, 2:4].max(axis=1).sum()))
        compiled.forward(networks, key, steps, *rest)

    monkeypatch.setattr(forward, "_PIECE", most)
    monkeypatch.setattr(forward, "kernels", lambda _: SimpleNamespace(forward=counted))
    assert np.array_equal(sampler.statistics(draws), expected)
    assert sum(layers for layers, _ in spent) == 8
    assert all(layers == 1 or neurons <= most for layers, neurons in spent)
    assert len(spent) > 1


def test_one_layer_has_no_weights_to_draw():
    table = simulate(Network(TANH, Gaussian(2)), [1.0, 0.5], 5, 1, 20, tensors=["K", "V"])
    assert float(table["K"][0]) == 2 * 1.25 / 2
    assert not table["K_se"].any()


@pytest.mark.parametrize("rows", [12, 4 * TILE, 4 * TILE + 4])
def test_normals_are_those_of_the_stream(rows):
    key, out = philox.stream_key(3), np.empty(rows * LANES)
    networks = np.arange(100, 100 + LANES, dtype=np.uint64)
    fill_normals(out, rows, room_of_words(), key, networks, 5, 6)
    expected = np.stack([philox.normals(3, int(each), 5, 6, rows) for each in networks], axis=1)
    np.testing.assert_allclose(out.reshape(rows, LANES), expected, rtol=1e-14)


def test_no_network_depends_on_those_beside_it(monkeypatch):
    """The same bits in any place of a group, for any threads and batches."""
    net = Network(TANH, Orthogonal(1), C_b=0.1)
    ensemble = checked_ensemble(net, [[1.0, 0.5]], 7, 4, 3)
    sampler = make_sampler(ensemble, PLAN)
    draws = np.arange(60)
    together = sampler.statistics(draws)
    order = np.random.default_rng(0).permutation(60)
    assert np.array_equal(sampler.statistics(draws[order]), together[order])
    assert np.array_equal(sampler.statistics(draws[31:33]), together[31:33])
    tables = []
    for threads, numbers in ((1, 1 << 17), (numba.config.NUMBA_NUM_THREADS, 1 << 17), (1, 50)):
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        monkeypatch.setattr(base, "_HELD", numbers)
        try:
            tables.append(simulate(net, [1.0, 0.5], 7, 4, 2600, tensors=["V"], seed=3))
        finally:
            numba.set_num_threads(before)
    assert tables[0].identical(tables[1])
    assert tables[0].identical(tables[2])


@pytest.mark.parametrize(
    ("inputs", "width", "tensors", "weights"),
    [
        ([[1.0], [2.0]], 5, ["V"], Orthogonal(1)),
        ([[1.0]], 5, ["Theta"], Orthogonal(1)),
        ([[1.0]], forward.WIDEST + 1, ["K"], Orthogonal(1)),
        ([[1.0]], 4, ["V"], BiInvariant(moments=(1, 2))),
    ],
    ids=["two inputs", "a derivative", "a wide layer", "given moments"],
)
def test_other_ensembles_are_taken_one_by_one(inputs, width, tensors, weights):
    ensemble = checked_ensemble(Network(TANH, weights, Gaussian(1)), inputs, width, 2, 3)
    plan = observables.Plan(wanted(tensors), len(inputs))
    sampler = make_sampler(ensemble, plan)
    assert not (isinstance(sampler, ProbeSampler) and sampler.side_by_side)


@pytest.mark.parametrize("degrees", [5, 64])
def test_lengths_are_those_that_the_logarithm_accepts(degrees):
    """Of 5, 4, … normals a few in a hundred are tried again; of 1 they are |normal|."""
    key, networks, rows = philox.stream_key(3), np.arange(LANES, dtype=np.uint64), 5
    found = np.empty((rows, LANES))
    for use in range(60):
        put_lengths(found, degrees, networks, (key, 2, use), room_of_words())
        for k in range(rows):
            for s in range(LANES if degrees - k > 1 else 0):
                expected = length(degrees - k, (k, rows), networks[s], (key, 2, use))
                assert found[k, s] == pytest.approx(expected, rel=1e-13)
        if degrees == rows:
            assert (found[-1] > 0).all()


@pytest.mark.parametrize(("m", "rank"), [(1, 1), (3, 2), (5, 5), (8, 6), (9, 4)])
def test_products_and_roots_side_by_side(m, rank):
    """In no size a tile is left out or read twice; the third pivot is rounding where m > 2."""
    rng = np.random.default_rng(m)
    L, F = np.tril(rng.standard_normal((LANES, m, m))), rng.standard_normal((LANES, m, rank))

    def beside(x):
        return np.moveaxis(x, 0, -1).reshape(-1, LANES).copy()

    def apart(x, *shape):
        return np.moveaxis(x.reshape(*shape, LANES), -1, 0)

    for lower in (False, True):
        given, out = np.tril(F) if lower else F, np.full((m * rank, LANES), 0.25)
        put_lower(out, beside(L), beside(given), (m, rank), lower, True)
        np.testing.assert_allclose(apart(out, m, rank), L @ given + 0.25, atol=1e-13)
        square = np.zeros((m * m, LANES))
        put_square(square, beside(given), (m, rank), lower, False)
        expected = np.tril(given @ given.swapaxes(1, 2))
        np.testing.assert_allclose(np.tril(apart(square, m, m)), expected, atol=1e-13)
    L[:, range(m), range(m)] = 1 + abs(L[:, range(m), range(m)])
    L[:, 2:, 2:3] = 0
    root = np.full((m * m, LANES), np.nan)
    put_root(beside(L @ L.swapaxes(1, 2)), root, m, 2.0**-40)
    np.testing.assert_allclose(apart(root, m, m)[:, :, :2], L[:, :, :2], atol=1e-12)
    assert not apart(root, m, m)[:, :, 2:3].any()
    squares = apart(root, m, m) @ apart(root, m, m).swapaxes(1, 2)
    np.testing.assert_allclose(squares, L @ L.swapaxes(1, 2), atol=1e-10)
