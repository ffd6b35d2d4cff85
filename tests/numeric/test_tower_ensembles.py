"""The NTK tower in ensembles: the fields by brute force, both samplers, exact networks, theory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product

import numba
import numpy as np
import pytest
import sympy
from scipy import stats

from derive import activations, clear_caches
from derive.arithmetic import LAMBDA_B, LAMBDA_W
from derive.engine import DDH_I, DDH_II, DH, Field, H, Z, tensor
from derive.groups import coset_type, pair_partitions
from derive.network import Network
from derive.recursions import recursion, wanted
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
)
from numeric import compare, flow, simulate
from numeric.estimators import Probes, needed, observables, spare, sums
from numeric.random import HAAR, fill_signs, steps, stream_key
from numeric.runs import Sharing
from numeric.samplers import checked_ensemble, explicit, pairs, path_averages, probing, staged
from numeric.samplers import paths as conditional
from numeric.tables import tensors as tensors_of
from numeric.tables.layout import ACCURACY

LINEAR, RELU, TANH = activations.linear, activations.relu, activations.tanh
TOWER = ["K", "V", "Theta", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
HALF = sympy.Rational(1, 2)
TREES = [Z, H, DH, DDH_I, DDH_II]


def inputs(m, n_0, seed=0):
    return np.random.default_rng(seed).standard_normal((m, n_0))


def learning(layer):
    """Learning rates that differ from layer to layer."""
    return sympy.Rational(1, layer)


class Small:
    """A network of two or three layers, its z as a function of all its parameters."""

    def __init__(self, widths, samples, seed):
        rng = np.random.default_rng(seed)
        self.shapes = list(zip(widths[1:], widths, strict=False))
        self.X = rng.standard_normal((samples, widths[0]))
        self.rates = [(0.7, 1.0), (1.3, 0.5), (0.4, 0.9)][: len(self.shapes)]
        self.W = [rng.standard_normal(shape) for shape in self.shapes]
        self.b = [rng.standard_normal(shape[0]) for shape in self.shapes]

    @property
    def parameters(self):
        return np.concatenate(
            [part.ravel() for pair in zip(self.W, self.b, strict=True) for part in pair]
        )

    @property
    def learning_rates(self):
        parts = []
        for (rows, columns), (rate_W, rate_b) in zip(self.shapes, self.rates, strict=True):
            parts += [np.full(rows * columns, rate_W / columns), np.full(rows, rate_b)]
        return np.concatenate(parts)

    def z(self, theta):
        """(…, parameters) → (…, samples, neurons)."""
        sigma, used = np.broadcast_to(self.X, (*theta.shape[:-1], *self.X.shape)), 0
        for rows, columns in self.shapes:
            W = theta[..., used : used + rows * columns].reshape(*theta.shape[:-1], rows, columns)
            used += rows * columns
            z = sigma @ np.swapaxes(W, -1, -2) + theta[..., None, used : used + rows]
            used += rows
            sigma = np.tanh(z)
        return z

    def derivative(self, order):
        """All partial derivatives of z, (parameters, …, samples, neurons), by differences."""
        theta, size = self.parameters, self.parameters.size
        total = 0.0
        for step, weight in ((0.02, -1 / 3), (0.01, 4 / 3)):
            for signs in product((-1, 1), repeat=order):
                shift = np.zeros((*(size,) * order, size))
                for axis, sign in enumerate(signs):
                    unit = np.eye(size).reshape(
                        *(size if a == axis else 1 for a in range(order)), size
                    )
                    shift += sign * step * unit
                total = (
                    total + weight * np.prod(signs) * self.z(theta + shift) / (2 * step) ** order
                )
        return total

    def field(self, tree):
        """The contraction that defines the field: (samples, …, neurons, …)."""
        degree = [sum(node in edge for edge in tree.edges) for node in range(tree.nodes)]
        operands, nodes = [], tree.nodes
        for node in range(nodes):
            edges = [2 * nodes + e for e, edge in enumerate(tree.edges) if node in edge]
            operands += [self.derivative(degree[node]), [*edges, node, nodes + node]]
        for e in range(len(tree.edges)):
            operands += [self.learning_rates, [2 * nodes + e]]
        return np.einsum(*operands, list(range(2 * nodes)), optimize="greedy")

    def recursion(self, trees):
        """The same fields by their forward equations."""
        m, widths = len(self.X), [self.shapes[0][1], *(rows for rows, _ in self.shapes)]
        fields = {t: np.zeros((1, *(m,) * t.nodes, *(widths[0],) * t.nodes)) for t in trees}
        sigma = np.zeros((1, 4, m, widths[0]))
        sigma[0, 0] = self.X
        for W, b, (rate_W, rate_b) in zip(self.W, self.b, self.rates, strict=True):
            rates = {LAMBDA_W: rate_W, LAMBDA_B: rate_b}
            fields = {
                t: explicit.forward_field(t, W[None], b[None], sigma, fields, rates) for t in trees
            }
            s = np.tanh(fields[Z])
            sigma = np.stack(
                [s, 1 - s**2, -2 * s * (1 - s**2), (6 * s**2 - 2) * (1 - s**2)], axis=1
            )
        return {tree: field[0] for tree, field in fields.items()}


@pytest.mark.parametrize(("widths", "samples"), [((1, 2, 2), 2), ((1, 1, 1, 2), 1)])
def test_fields_are_contractions_of_derivatives(widths, samples):
    """Every field of the tower against numerical derivatives by all parameters."""
    network = Small(widths, samples, 1)
    found = network.recursion(TREES)
    for tree in TREES:
        expected = network.field(tree)
        np.testing.assert_allclose(found[tree], expected, atol=3e-6 * np.abs(expected).max())


def test_jets_are_directional_derivatives():
    """A probe's covariance is Λ, so the mean over signs of products of jets is the field.

    One fixed network cannot be drawn twice; so the law of the jets of layer 1 is what is checked:
    all products of two directions, at z < 5.5, 150 comparisons.
    """
    net = Network(TANH, Gaussian(1), lambda_b=0.5, lambda_W=2)
    ensemble = checked_ensemble(net, inputs(2, 3), 3, 2, 4)
    S, Z1 = np.zeros((20_000, 6, 3)), np.zeros((20_000, 6, 3))
    S[:, :2] = ensemble.inputs
    probes = Probes((2,))
    grams = np.broadcast_to(S[:1] @ S[:1].transpose(0, 2, 1) / 3, (20_000, 6, 6)).copy()
    probing.kernels().vary(
        grams, S, Z1, np.arange(20_000), (2.0, 0.5), probes.raising, 2, (ensemble.key, 1)
    )
    flat = Z1.reshape(20_000, -1)
    kernel = 2 * ensemble.inputs @ ensemble.inputs.T / 3 + 0.5
    expected = np.kron(np.kron(np.diag([0, 1, 1]), kernel), np.eye(3))
    products = flat[:, :, None] * flat[:, None]
    error = products.std(axis=0) / np.sqrt(20_000) + 1e-12
    assert np.abs((products.mean(axis=0) - expected) / error).max() < 5.5


def test_signs_are_signs():
    out, other = np.empty(256), np.empty(256)
    fill_signs(out, stream_key(1), 2, 3, 4)
    fill_signs(other, stream_key(1), 2, 3, 5)
    assert set(out) == {-1.0, 1.0}
    assert abs(out.sum()) < 5 * 16
    assert abs(out @ other) < 5 * 16


def test_probes_are_those_that_trees_need():
    assert needed([(Z, Z)]).jets == ((),)
    assert needed([(Z, Z, H)]).jets == ((), (0,))
    assert needed([(H, H), (Z, DH)]).jets == ((), (0,), (1,), (0, 1))
    assert len(needed([(DDH_I,), (DDH_II,)]).jets) == 8
    assert needed([(H,)], 2).jets == ((), (0,), (1,), (2,))
    for trees, more in (
        ([(Z, Z)], 0),
        ([(H,), (H, H)], 8),
        ([(Z, DH), (H, H)], 1),
        ([(DDH_I,)], 0),
    ):
        assert spare(trees) == more


def test_spare_probes_have_the_same_mean_and_less_noise():
    """Θ and B of two inputs, network by network: 24 scores under 5, and the variances."""
    net = Network(TANH, Orthogonal(1), C_b=0.1)
    ensemble = checked_ensemble(net, inputs(2, 8), 8, 3, 4)
    plan = observables.Plan(wanted(["Theta", "B"]), 2)
    found = [
        staged.ProbeSampler(ensemble, plan, needed(plan.trees(), more)).statistics(np.arange(4000))
        for more in (0, 8)
    ]
    few, many = (each[:, 2] for each in found)
    error = np.sqrt((few.var(axis=0) + many.var(axis=0)) / len(few))
    assert (np.abs(few.mean(axis=0) - many.mean(axis=0)) < 5 * error).all()
    assert (many.var(axis=0) < 0.7 * few.var(axis=0)).all()


def test_assignments_use_only_jets_that_are_followed():
    probes = Probes((3, 2))
    assert list(probes.assignments((Z, DH))) == [(0, 1), (1, 0)]
    assert set(probes.assignments((H, H))) == set(permutations(range(3), 2))
    assert list(probes.assignments((DDH_I,))) == []


CASES = {
    "orthogonal": (
        Network(TANH, Orthogonal(1.3), C_b=0.1, lambda_b=learning, lambda_W=0.7),
        inputs(1, 6)[0],
        6,
        TOWER,
    ),
    "gaussian": (
        Network(activations.gelu, Gaussian(1.7), C_b=0.2, lambda_b=0.3, lambda_W=learning),
        inputs(1, 4)[0],
        5,
        TOWER,
    ),
    "mixed": (
        Network(activations.sin, Orthogonal(1.2), Gaussian(1), lambda_b=learning),
        inputs(1, 3)[0],
        5,
        TOWER,
    ),
    "low rank": (
        Network(TANH, LowRankGaussian(1.4, gamma=HALF), Gaussian(1), C_b=0.1),
        inputs(1, 3)[0],
        6,
        TOWER,
    ),
    "low rank, two inputs": (
        Network(TANH, LowRankOrthogonal(1.4, gamma=HALF), C_b=0.1, lambda_b=learning),
        inputs(2, 5),
        6,
        ["K", "Theta", "D", "F", "A", "B", "P", "Q"],
    ),
    "low rank, three inputs": (
        Network(RELU, Gaussian(2), LowRankGaussian(2, gamma=sympy.Rational(2, 3)), C_b=0.1),
        inputs(3, 4),
        6,
        ["Theta", "D", "F"],
    ),
    "truncated": (Network(TANH, Truncated(1.4, ratio=2)), inputs(1, 5)[0], 5, TOWER),
    "bi-invariant": (
        Network(TANH, BiInvariant(1.2, moments=(2, 5, 14)), Gaussian(1), C_b=0.1),
        inputs(1, 5)[0],
        6,
        ["K", "Theta", "D", "F", "A", "B", "P", "Q"],
    ),
    "unequal widths": (
        Network(
            TANH,
            Orthogonal(1.3),
            C_b=lambda layer: 0.1 / layer,
            lambda_b=learning,
            width_ratio=lambda layer: [1, 2, HALF][layer - 1],
        ),
        inputs(1, 5)[0],
        6,
        TOWER,
    ),
    "two inputs, four derivatives": (
        Network(TANH, Gaussian(1.3), C_b=0.1, lambda_b=learning, lambda_W=0.7),
        inputs(2, 3),
        3,
        ["R", "S", "T", "U"],
    ),
    "relu": (
        Network(RELU, Orthogonal(2), C_b=0.1),
        inputs(2, 4),
        4,
        ["Theta", "D", "F", "A", "B"],
    ),
    "products of four inputs": (
        Network(TANH, Gaussian(1.3), C_b=0.1, lambda_b=learning, lambda_W=0.7),
        inputs(4, 4),
        5,
        ["Theta", "A", "B"],
    ),
    "degenerate inputs": (
        Network(TANH, Orthogonal(1.3), lambda_b=learning),
        np.array([[1.0, 2, -1, 0.5], [2, 4, -2, 1], [0, 0, 0, 0], [1, 2, -1, 0.5]]),
        5,
        ["K", "Theta", "D", "F"],
    ),
    "nearly degenerate inputs": (
        Network(RELU, Truncated(2, ratio=2), C_b=0.1),
        np.array([[1.0, 2, -1, 0.5], [1, 2, -1, 0.5 + 1e-7]]),
        5,
        ["Theta", "D", "F", "A", "B"],
    ),
    "higher cumulants": (
        Network(TANH, Orthogonal(1.3), C_b=0.1),
        inputs(1, 5)[0],
        5,
        [
            recursion(["z"] * 4 + ["H"], Orthogonal(), pairing=((0, 1), (2, 3), (4, 5))),
            recursion(["H"] * 3, Orthogonal(), pairing=((0, 2), (1, 4), (3, 5))),
            recursion(["z", "H", "dH"], Orthogonal(), pairing=((0, 3), (1, 4), (2, 5))),
        ],
    ),
    "a longer tree": (
        Network(TANH, Orthogonal(1.3), C_b=0.1),
        inputs(1, 5)[0],
        5,
        [
            recursion(
                [Field(5, ((0, 1), (0, 2), (2, 3), (3, 4))), "z"],
                Orthogonal(),
                pairing=((0, 5), (1, 2), (3, 4)),
            ),
        ],
    ),
}


SLOW = {"mixed", "truncated", "bi-invariant", "higher cumulants"}
SLOW |= {"a longer tree", "two inputs, four derivatives", "products of four inputs"}
ON_PATHS = {
    case
    for case, (net, X, *_) in CASES.items()
    if case not in {"a longer tree", "two inputs, four derivatives"}
    and not isinstance(net.weights, BiInvariant)
    and not isinstance(net.first_weights, BiInvariant)
}


def agreement(first, second):
    """The largest |z| of the difference of two tables, with rounding allowed for."""
    worst = 0.0
    for name in tensors_of(first):
        error = np.hypot(first[f"{name}_se"], second[f"{name}_se"])
        floors = (float(table[f"{name}_floor"].max()) for table in (first, second))
        rounding = max(ACCURACY, *floors)
        assert first[name].dims == second[name].dims
        worst = max(worst, float(np.abs((first[name] - second[name]) / (error + rounding)).max()))
    return worst


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in CASES]
)
def test_all_samplers_estimate_the_same_tower(case):
    """Dense tensors with pairing estimators on them, probes, and averages given a path.

    Some 5000 scores in all, most equal by symmetry, under 6: false alarms below 4e-5 (Student's t
    with 255 degrees of freedom on either side).
    """
    net, X, n, tensors = CASES[case]
    built = simulate(net, X, n, 3, 400, tensors=tensors, seed=6, sampler="explicit")
    probed = simulate(net, X, n, 3, 6000, tensors=tensors, seed=5, sampler="probes")
    assert agreement(built, probed) < 6
    if case in ON_PATHS:
        averaged = simulate(net, X, n, 3, 1200, tensors=tensors, seed=4, sampler="paths")
        assert agreement(built, averaged) < 6
        assert agreement(averaged, probed) < 6


@pytest.mark.parametrize("weights", [Orthogonal(1.3), Gaussian(1.3)], ids=["haar", "gaussian"])
@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_paths_at_the_smallest_widths(weights, n):
    """Widths at which the stabiliser O(n − 1) cannot tell pairings apart; scores under 6."""
    net, x = Network(TANH, weights, C_b=0.1), inputs(1, n)[0]
    built = simulate(net, x, n, 3, 512, tensors=TOWER, seed=6, sampler="explicit")
    averaged = simulate(net, x, n, 3, 20_000, tensors=TOWER, seed=4, sampler="paths")
    assert agreement(built, averaged) < 6


def test_paths_where_every_neuron_is_dead():
    """ReLU at n = 2: σ vanishes in a quarter of the networks; scores under 6."""
    net, x, tensors = Network(RELU, Orthogonal(2), C_b=0.1), inputs(1, 2)[0], ["Theta", *"ABDF"]
    built = simulate(net, x, 2, 3, 4096, tensors=tensors, seed=6, sampler="explicit")
    averaged = simulate(net, x, 2, 3, 20_000, tensors=tensors, seed=4)
    assert averaged.attrs["sampler"] == "paths"
    assert agreement(built, averaged) < 6


@pytest.mark.parametrize(
    "weights",
    [
        Gaussian(1.3),
        Orthogonal(1.3),
        Truncated(1.3, ratio=2),
        LowRankGaussian(1.3, gamma=HALF),
        LowRankOrthogonal(1.3, gamma=HALF),
    ],
    ids=lambda weights: weights.name,
)
def test_products_of_tangent_kernels_slot_by_slot_are_the_polynomials(weights):
    """H and H H of two inputs, network by network, to rounding."""
    net = Network(TANH, weights, C_b=0.1, lambda_b=learning, lambda_W=0.7)
    ensemble = checked_ensemble(net, inputs(2, 5), 6, 4, 3)
    plan, draws = observables.Plan(wanted(["A", "B", "D"]), 2), np.array([5, 17, 0])
    sampler, ones = conditional.PathSampler(ensemble, plan), np.ones((draws.size, 2))
    tangents = pairs.Tangents(ensemble, plan, sampler.given)
    layers = tangents.layers(sampler.paths(draws, ones), sampler.orders, ones)
    own = [each for each in range(len(plan.statistics)) if each not in tangents.rest]
    found = np.stack([values[:, own] for values in layers], axis=1)
    expected = sampler.statistics(draws)[:, :, own]
    size = np.abs(expected).max(axis=0)
    assert size[1:].min() > 0.0
    assert (np.abs(found - expected) <= 1e-13 * size).all()


def test_an_input_more_leaves_what_is_known_of_the_others():
    """Twice the same input among three: A and B of it are those of the pairs of two, to rounding.

    H is then the same for both, so that a product of kernels depends on the inputs and not their
    numbers; in every network, whatever the path of the third.
    """
    X = inputs(2, 5)[[0, 1, 0]]
    net = Network(TANH, Orthogonal(1.3), C_b=0.1, lambda_W=0.7)
    ensemble = checked_ensemble(net, X, 6, 3, 3)
    plan = observables.Plan(wanted(["A", "B"]), 3)
    sampler = conditional.PathSampler(ensemble, plan)
    found = sampler.statistics(np.arange(4))
    equal = [0, 1, 0]
    groups = {}
    for place, (fields, _, pairing, samples) in enumerate(plan.statistics):
        same = tensor(fields, 0, pairing, tuple(equal[a] for a in samples))
        groups.setdefault(same, []).append(found[:, :, place])
    assert max(map(len, groups.values())) == 8
    for values in groups.values():
        np.testing.assert_allclose(values, np.array(values[:1] * len(values)), rtol=1e-9)


@pytest.mark.parametrize("m", [3, 4])
def test_products_of_tangent_kernels_have_the_same_bits_in_any_company(m):
    """Each network by itself, and among others; chunks on one thread and on two."""
    net = Network(TANH, LowRankGaussian(1.3, gamma=HALF), Gaussian(1), C_b=0.1)
    plan = observables.Plan(wanted(["A", "B", "D"]), m)
    sampler = conditional.PathSampler(checked_ensemble(net, inputs(m, 5), 12, 3, 3), plan)
    draws = np.arange(19)
    together = sampler.statistics(draws)
    for k in (0, 7, 18):
        assert np.array_equal(sampler.statistics(draws[k : k + 1]), together[k : k + 1])
    with ThreadPoolExecutor(2) as pool:
        shared = sampler.sums(0, 40, sampler.reference, Sharing(pool, 2))
    assert np.array_equal(sampler.sums(0, 40, sampler.reference), shared)


def test_averages_given_a_path_vary_less():
    """The variance of a conditional mean is no more than the variance: errors of dense tensors."""
    net, x, n, _ = CASES["orthogonal"]
    tensors = ["Theta", "B", "F", "P", "Q", "T"]
    built = simulate(net, x, n, 3, 500, tensors=tensors, sampler="explicit")
    averaged = simulate(net, x, n, 3, 500, tensors=tensors, sampler="paths")
    for name in tensors:
        assert float(averaged[f"{name}_se"][2]) < 1.2 * float(built[f"{name}_se"][2])


def test_partial_pairings_are_involutions():
    counts = [len(path_averages.partial_pairings(tuple(range(points)))) for points in range(7)]
    assert counts == [1, 1, 2, 4, 10, 26, 76]
    for partial in path_averages.partial_pairings((0, 1, 2, 3, 4)):
        points = [point for pair in partial for point in pair]
        assert len(points) == len(set(points))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    "weights",
    [
        Gaussian(1.3),
        Orthogonal(1.3),
        Truncated(1.3, ratio=2),
        LowRankGaussian(1.3, gamma=HALF),
        LowRankOrthogonal(1.3, gamma=HALF),
    ],
    ids=lambda weights: weights.name,
)
def test_averages_given_a_path_average_to_all_weights(weights, k):
    """E[E[Π W_⊥ | W ŝ]] = Σ_p C(p, q) δ_p(i) on vectors orthogonal to ŝ, exactly, C from `derive`.

    f = λh with h uniform on the sphere, E[h_{i_1} … h_{i_2t}] = Σ_p δ_p(i)/(n (n + 2) …), and λ²
    is scale² times χ²_r or r/N times a Beta variable; f itself such a vector in full rank.
    """
    n_in, n_out, points = 8, 10, tuple(range(2 * k))

    def rising(x, count):
        return np.prod([x + 2.0 * j for j in range(count)])

    (first, *frames) = steps(weights, n_in, n_out)
    law = path_averages.Law(*first[:1], *first[2:4], *((first.size, n_out) if frames else ()))
    given = path_averages.Conditioned((law,), 1)

    def power(t):
        """E λ^{2t}; of f in full rank, in the units of E[h …]."""
        haar = rising(law.big, t) if law.kind == HAAR else 1.0
        return law.scale ** (2 * t) * (rising(law.rank, t) if frames else 1.0) / haar

    for q in pair_partitions(2 * k):
        total = dict.fromkeys(pair_partitions(2 * k), 0.0)
        for fixed in path_averages.partial_pairings(points):
            rest = [a for a in points if all(a not in pair for pair in fixed)]
            pairings = [tuple((rest[a], rest[b]) for a, b in p) for p in pair_partitions(len(rest))]
            sphere = rising(n_out, len(rest) // 2) if frames else 1.0
            for extra in pairings:
                for inverse, value in given.coefficients(fixed, extra, q):
                    average = float(value[0]) * power(len(extra) - len(inverse)) / sphere
                    for p in pairings:
                        total[tuple(sorted((*fixed, *p)))] += average
        for p, found in total.items():
            expected = sums.weight_coefficient(weights, coset_type(p, q), n_in, n_out)
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-14)


def test_probes_leave_the_law_of_preactivations_alone():
    """The metric averaged over layer 3, whose law is that of |σ|²: two-sample KS, p > 1e-6."""
    net, draws = Network(TANH, Orthogonal(1.5), C_b=0.1), np.arange(1000)
    ensemble = checked_ensemble(net, inputs(1, 4), 4, 3, 9)
    plan = observables.Plan(wanted("K"), 1)
    built = explicit.ExplicitSampler(ensemble, plan).fields(draws)
    sigma = np.tanh([fields[Z] for fields in built][1])
    expected = 1.5 * np.einsum("dan,dan->d", sigma, sigma) / 4 + 0.1
    for sampler in (
        staged.ProbeSampler(ensemble, plan, Probes((2, 2))),
        conditional.PathSampler(ensemble, plan),
    ):
        assert stats.ks_2samp(expected, sampler.statistics(draws)[:, 2, 0]).pvalue > 1e-6


@pytest.mark.parametrize("sampler", ["paths", "probes", "explicit"])
def test_linear_orthogonal_networks_have_a_fixed_tangent_kernel(sampler):
    """H = δ Σ_ℓ' C_W^{ℓ−ℓ'} (λ_b + λ_W K_{ℓ'−1}) exactly, whence A = B = D = F = 0."""
    C_W, n, depth = 0.8, 5, 3
    net = Network(LINEAR, Orthogonal(sympy.Rational(4, 5)), lambda_b=learning, lambda_W=0.7)
    x = inputs(1, n)[0]
    draws = 40_000 if sampler == "probes" else 8
    table = simulate(
        net, x, n, depth, draws, tensors=["Theta", "A", "B", "D", "F"], sampler=sampler
    )
    K = C_W ** np.arange(depth) * (x @ x) / n  # of σ^(ℓ−1)
    theta, exact = 0.0, []
    for layer in range(depth):
        theta = C_W * theta + 1 / (layer + 1) + 0.7 * K[layer]
        exact.append(theta)
    rounding = 1e-11 * n * max(exact) ** 2
    for name, expected in {"Theta": exact, "A": 0, "B": 0, "D": 0, "F": 0}.items():
        error = table[f"{name}_se"].to_numpy() + rounding
        assert np.abs((table[name].to_numpy() - expected) / error).max() < 5
        if sampler != "probes":
            assert error.max() < 2 * rounding


def test_gaussian_linear_networks_at_finite_width():
    """E H and E H² of two layers, from Wick's theorem: Theta, A and B at n = 6, z < 5.

    H = λ_b + λ_W |Wx|²/n + W (λ_b + λ_W |x|²/n) Wᵀ, with W' = W^(2), |W^(1)x|²/n = C k χ²_n/n.
    """
    n, k, C, rate_b, rate_W = 6, 1.3, 1.2, 0.5, 0.8
    x = inputs(1, 4)[0]
    x *= np.sqrt(4 * k / (x @ x))
    net = Network(LINEAR, Gaussian(C), lambda_b=rate_b, lambda_W=rate_W)
    table = simulate(net, x, n, 2, 20_000, tensors=["Theta", "A", "B"], seed=3)
    h = rate_b + rate_W * k
    theta = rate_b + rate_W * C * k + C * h
    A = rate_W**2 * C**2 * k**2 * 2  # n var(|z|²/n); W' Wᵀ' adds to the pairing (13)(24) alone
    B = C**2 * h**2
    for name, expected in {"Theta": theta, "A": A, "B": B}.items():
        error = table[f"{name}_se"][1] + 1e-11 * expected  # B does not vary
        score = (table[name][1] - expected) / error
        assert abs(float(score)) < 5


@pytest.mark.parametrize(
    "net",
    [
        Network(TANH, Orthogonal(1.3), C_b=0.1, lambda_b=learning, lambda_W=0.7),
        Network(TANH, Gaussian(1.3), C_b=0.1, lambda_b=learning, lambda_W=0.7),
    ],
    ids=str,
)
def test_the_derived_tower_is_that_of_wide_networks(net):
    """Widths 16, 32, 64 extrapolated in 1/n against the flow, 39 comparisons with false alarms
    below 6e-7 in all (`compare`)."""
    x = inputs(1, 16)[0]
    tables = [simulate(net, x, n, 3, 10_000, tensors=TOWER, seed=2) for n in (16, 32, 64)]
    comparison = compare(flow(net, x, 3, TOWER), tables)
    assert comparison.agrees, str(comparison)


def test_corrections_are_measured_from_the_series():
    """Theta1 = n(Theta at this width − Theta at infinite width)."""
    net, x, n = Network(TANH, Gaussian(1)), inputs(1, 8)[0], 16
    table = simulate(net, x, n, 3, 400, tensors=["Theta", "Theta1"])
    theta = flow(net, x, 3, ["Theta"])["Theta"]
    np.testing.assert_allclose(table["Theta1"], n * (table["Theta"] - theta), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table["Theta1_se"], n * table["Theta_se"], rtol=1e-9)


def test_axes_follow_the_printed_subscripts():
    """P_{0123} of (6.12): dH's first node, its others, and z; symmetric in none but the last."""
    net, X = CASES["low rank, two inputs"][:2]
    table = simulate(net, X, 4, 2, 64, tensors=["P", "Q", "B", "S"])
    assert table["P"].dims == ("layer", *(f"sample_{k}" for k in range(1, 5)))
    P, B, S = (table[name].to_numpy() for name in ("P", "B", "S"))
    np.testing.assert_array_equal(P, P.transpose(0, 1, 3, 2, 4))
    np.testing.assert_array_equal(B, B.transpose(0, 3, 4, 1, 2))
    np.testing.assert_array_equal(B, B.transpose(0, 2, 1, 4, 3))
    np.testing.assert_array_equal(S, S.transpose(0, 2, 1, 4, 3))


@pytest.mark.parametrize("sampler", ["paths", "probes", "explicit"])
def test_same_bits_for_any_threads(sampler):
    net, x, tables = CASES["orthogonal"][0], inputs(1, 6)[0], []
    before = numba.get_num_threads()
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        try:
            tables.append(simulate(net, x, 6, 2, 1500, tensors=["A", "P"], sampler=sampler))
        finally:
            numba.set_num_threads(before)
    assert tables[0].identical(tables[1])


@pytest.mark.parametrize("draws", [1, 3, 17])
@pytest.mark.parametrize("n", [3, 16, 511, 512, 513, 1050])
def test_sums_over_neurons_are_those_of_products_in_any_company(draws, n):
    """Products above others, alone, in pairs and threes, at widths that end anywhere in a step or
    a block; each network by itself has the same bits, and what is behind it is left alone."""
    columns = np.random.default_rng(n).standard_normal((draws, 4, n))
    columns[:, 0] = 1.0
    rows = [(0,), (1,), (1, 1), (1, 1, 2), (1, 2), (1, 3), (2,), (2, 2), (2, 2, 1), (2, 2, 2)]
    rows += [(2, 2, 3), (3,), (3, 1), (3, 1, 1), (3, 1, 2)]
    place = {row: k for k, row in enumerate(rows)} | {(): -1}
    tree = np.array([place[row[:-1]] for row in rows]), np.array([row[-1] for row in rows])
    right = [columns[:, row].prod(axis=1) for row in rows]
    found, alone = np.full((draws, 2 + len(rows)), np.nan), np.full((1, 2 + len(rows)), np.nan)
    sums = conditional.kernels().sum_over_neurons
    level, block = conditional.path_kernels.levels(tree[0]), conditional.BLOCK
    given = tree, level, (np.empty((4, block)), np.empty((1 + level.max(), block)))
    sums(columns, *given, found, 1)
    size = np.abs(right).sum(axis=2).T
    assert (np.abs(found[:, 1:-1] - np.sum(right, axis=2).T) <= 1e-14 * size).all()
    assert np.isnan(found[:, [0, -1]]).all()
    for k in range(draws):
        sums(columns[k : k + 1], *given, alone, 1)
        np.testing.assert_array_equal(alone[0], found[k])


def test_averages_given_a_path_do_not_depend_on_what_was_forgotten(monkeypatch):
    """A monomial that was dropped and is met again has two numbers; here each has many."""
    net, x, n, _ = CASES["orthogonal"]

    def found():
        table = simulate(net, x, n, 3, 20, tensors=["Theta", "B", "F"], sampler="paths")
        return [float(table[name][2]) for name in ("Theta", "B", "F")]

    first = found()
    clear_caches()
    monkeypatch.setattr(path_averages, "_number", lambda _: next(path_averages._new_numbers))
    assert found() == pytest.approx(first, rel=1e-12)
