"""Ensembles of a user's fields, given by their forward equations."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
import sympy
from sample_fields import DNTK, NTK

from derive import BiInvariant, Equation, Gaussian, Network, Orthogonal, activations, exact
from derive.engine import DH, H
from derive.errors import InputError
from derive.recursions import recursion, wanted
from numeric import compare
from numeric.estimators import observables
from numeric.flows import flow
from numeric.samplers import ExplicitSampler, checked_ensemble
from numeric.simulations import make_sampler, simulate

TANH = activations.tanh
SQUARE = activations.from_expr("z + z**2/2", "square")
JACOBIAN = Equation(
    "J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b] + rate/n delta[i,k] s[x:i] s[x:k]",
    at_inputs="identity",
)
PUSHED = Equation("v[i] = b[i] + c W[i,a] s'[a] z[a]")
CUMULANTS = [
    recursion([JACOBIAN]),
    recursion([JACOBIAN, JACOBIAN], pairing=((0, 2), (1, 3))),
    recursion(["z", "z", JACOBIAN], pairing=((0, 1), (2, 3))),
]
ONE, TWO = [[0.5, -0.2, 0.6]], [[0.5, -0.2, 0.6], [0.3, 0.4, -0.1]]


def sampler(net, inputs, width, tensors, name="lazy", depth=3):
    ensemble = checked_ensemble(net, inputs, width, depth, 1)
    plan = observables.Plan(wanted(tensors), len(inputs))
    return make_sampler(ensemble, plan, name)


def exact_values(made, net, layer, inputs, n, rate):
    """`exact.cumulant` for all samples, n^{m−1} in it, by its subscripts."""
    X = np.array([[sympy.nsimplify(each) for each in row] for row in inputs])
    kernel = {
        (a, b): (X[a - 1] @ X[b - 1]) / X.shape[1]
        for a, b in product(range(1, len(X) + 1), repeat=2)
    }
    name, own = made.target, sympy.Symbol("rate", real=True)
    found = np.empty((len(X),) * (2 * len(name.pairing)))
    for samples in product(range(1, len(X) + 1), repeat=found.ndim):
        slots = dict(zip(name.subscripts, samples, strict=True))
        value = exact.cumulant(
            list(name.fields),
            net,
            layer,
            [slots[k] for k in range(found.ndim)],
            sympy.Integer(n),
            sympy.Integer(X.shape[1]),
            pairing=name.pairing,
            kernel=kernel,
        )
        found[tuple(a - 1 for a in samples)] = float(value.subs(own, rate))
    return found


@pytest.mark.parametrize("weights", [Gaussian(1.2), Orthogonal(0.8)], ids=["gaussian", "haar"])
@pytest.mark.parametrize(
    ("name", "inputs", "draws"),
    [("paths", ONE, 30_000), ("paths", TWO, 6000), ("explicit", TWO, 5000)],
)
def test_cumulants_at_finite_width_are_exact(name, inputs, draws, weights):
    """Layer 2 of a polynomial network, all samples: 150 scores in all, under 5."""
    n, rate = 3, 0.7
    net = Network(SQUARE, weights, C_b=0.1)
    table = simulate(
        net, inputs, n, 2, draws, tensors=CUMULANTS, sampler=name, parameters={"rate": rate}
    )
    assert table.attrs["sampler"] == name
    for made in CUMULANTS:
        expected = exact_values(made, net, 2, inputs, n, rate)
        value, error = (table[made.name + end].to_numpy()[1] for end in ("", "_se"))
        scale = 1e-12 * (1 + np.abs(expected))
        assert error.max() < 0.2 * (1 + np.abs(expected).max())
        assert np.abs((value - expected) / np.hypot(error, scale)).max() < 5


def test_the_tower_typed_in_is_the_tower():
    """H and dH by hand and by differentiation, network by network."""
    net = Network(TANH, Orthogonal(1.3), C_b=0.1, lambda_b=0.4, lambda_W=lambda ell: 1 / ell)
    ensemble = checked_ensemble(net, TWO, 3, 4, 2)
    typed = [recursion([NTK]), recursion([DNTK, "z"], pairing=((0, 3), (1, 2)))]
    derived = ["Theta", "P"]
    plan = observables.Plan(wanted([*typed, *derived]), 2)
    for fields in ExplicitSampler(ensemble, plan).fields(np.arange(3)):
        for own, field in ((NTK, H), (DNTK, DH)):
            np.testing.assert_allclose(fields[own], fields[field], rtol=1e-12, atol=1e-14)
        assert np.any(fields[NTK])
    assert np.any(fields[DNTK])


@pytest.mark.parametrize("weights", [Gaussian(1.1), Orthogonal(1)], ids=["gaussian", "haar"])
def test_paths_average_the_tower_typed_in(weights):
    """The statistics of N, N N, z z N and z M are those of H and dH, draw by draw."""
    net = Network(TANH, weights, C_b=0.1, lambda_b=0.4)
    pairings = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    for typed, derived in (
        ([recursion([NTK, NTK], pairing=p) for p in pairings], ["A", "B"]),
        ([recursion(["z", "z", NTK], pairing=p) for p in pairings], ["D", "F"]),
        ([recursion([DNTK, "z"], pairing=((0, 3), (1, 2)))], ["P"]),
    ):
        tables = [
            simulate(net, ONE[0], 6, 4, 300, tensors=tensors, seed=3)
            for tensors in (typed, derived)
        ]
        assert [table.attrs["sampler"] for table in tables] == ["paths", "paths"]
        for made, name in zip(typed, derived, strict=True):
            for end in ("", "_se"):
                own, expected = tables[0][made.name + end], tables[1][name + end]
                scale = float(np.abs(tables[1][name]).max())
                np.testing.assert_allclose(own, expected, rtol=1e-8, atol=1e-10 * scale)


@pytest.mark.parametrize(
    ("inputs", "weights"),
    [(np.eye(5), Orthogonal(1)), (ONE, BiInvariant(moments=(1, 2)))],
    ids=["five inputs", "bi-invariant"],
)
def test_lazy_falls_back_on_matrices(inputs, weights):
    """Where no path gives the field; the table says so, and repeats itself."""
    net, options = Network(TANH, weights, Gaussian(1)), {"parameters": {"rate": 0.5}}
    options |= {"width": 4, "depth": 2, "draws": 20, "tensors": CUMULANTS[0]}
    table = simulate(net, inputs, **options)
    assert table.attrs["sampler"] == "explicit"
    assert table.identical(simulate(net, inputs, sampler="explicit", **options))
    assert list(table["parameter_rate"]) == [0.5, 0.5]


def test_preactivations_and_biases_on_the_right():
    """κ(v, z) = C_b + c C_W E Σ_j σ σ' z/n; at layer 1 σ is the identity. 3 scores under 5."""
    net, c = Network(TANH, Gaussian(1.5), C_b=0.2), 0.6
    made = recursion([PUSHED, "z"])
    options = {"tensors": [made, "K"], "parameters": {"c": c}, "seed": 4}
    table = simulate(net, ONE, 40, 3, 3000, **options)
    assert table.attrs["sampler"] == "explicit"
    x = np.array(ONE[0])
    first = table[made.name].to_numpy()[0, 0, 0], float(table[f"{made.name}_se"][0, 0, 0])
    assert abs(first[0] - (0.2 + c * 1.5 * (x @ x) / 3)) < 5 * first[1]
    flowed = flow(net, ONE, 3, [made], parameters={"c": c})[made.name].to_numpy()[:, 0, 0]
    found, error = (table[made.name + end].to_numpy()[1:, 0, 0] for end in ("", "_se"))
    assert np.abs(found - flowed[1:]).max() < 5 * error.max() + 1 / 40  # O(1/n) on top


def test_corrections_of_an_own_field_are_measured_from_its_flow():
    """n(κ(J) − its limit), beside the tower's corrections, which have no parameter."""
    made, rate = recursion([JACOBIAN], order=1), {"rate": lambda ell: 1 / ell}
    net = Network(TANH, Orthogonal(1.1))
    table = simulate(net, ONE[0], 30, 3, 500, tensors=[made, "Theta1"], parameters=rate)
    plain = simulate(net, ONE[0], 30, 3, 500, tensors=[CUMULANTS[0]], parameters=rate)
    limit = flow(net, ONE[0], 3, [CUMULANTS[0]], width=30, parameters=rate)
    expected = 30 * (plain["kappa(J|01)"] - limit["kappa(J|01)"])
    np.testing.assert_allclose(table["kappa(J|01;1)"], expected, rtol=1e-7, atol=1e-10)


def test_a_sampler_of_own_fields_can_be_sent():
    net = Network(TANH, Orthogonal(1))
    here = sampler(net, ONE, 4, [recursion([NTK])])
    sent = pickle.loads(pickle.dumps(here))
    assert np.array_equal(here.sums(0, 20, here.reference), sent.sums(0, 20, sent.reference))


def test_a_run_of_another_equation_is_refused(tmp_path):
    net, options = Network(TANH, Orthogonal(1)), {"width": 4, "depth": 2, "draws": 10}

    def go(rate, factor=1):
        own = Equation(f"J[i,k] = {factor} rate W[i,a] W[k,b] s'[a] s'[b] J[a,b]", "identity")
        tensors = [recursion([own])]
        simulate(net, ONE, tensors=tensors, parameters={"rate": rate}, run=tmp_path, **options)

    go(0.5)
    go(0.5)
    with pytest.raises(InputError, match="its parameters is"):
        go(0.25)
    with pytest.raises(InputError, match="its equations is"):
        go(0.5, 2)


@pytest.mark.parametrize("road", [flow, simulate])
@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        (None, "numbers for rate"),
        ({}, "numbers for rate"),
        ({"rate": 1, "speed": 2}, "symbols of the equations, rate"),
        ({"rate": 1, "C_W": 2}, "symbols of the equations, rate"),
        ({"rate": float("inf")}, "finite numbers"),
        ({"rate": "1"}, "a number, or a function"),
        ({"rate": lambda ell: None}, "a number, or a function"),
        (0.5, "a mapping"),
    ],
)
def test_bad_parameters(road, parameters, wanted):
    net, made = Network(TANH), [CUMULANTS[0]]
    with pytest.raises(InputError, match=f"^parameters: .*{wanted}"):
        road(net, ONE, depth=3, tensors=made, parameters=parameters)


@pytest.mark.parametrize(
    ("change", "argument", "wanted"),
    [
        ({"sampler": "probes"}, "sampler", "for J"),
        ({"sampler": "paths", "inputs": np.eye(5)}, "sampler", "so many inputs"),
        ({"width": 20_000, "sampler": "explicit"}, "width", "narrow enough"),
        (
            {
                "net": Network(activations.relu),
                "tensors": [recursion([DNTK, "z"], pairing=((0, 3), (1, 2)))],
                "parameters": {},
            },
            "tensors",
            "kinks",
        ),
    ],
)
def test_refusals(change, argument, wanted):
    given = {"net": Network(TANH), "inputs": ONE, "width": 4, "depth": 2, "draws": 20}
    given |= {"tensors": [CUMULANTS[0]], "parameters": {"rate": 1}} | change
    with pytest.raises(InputError, match=f"^{argument}: .*{wanted}"):
        simulate(**given)


def test_symbols_may_have_any_name():
    """Also those of the emitted source's own variables."""
    names = ["a", "m", "out", "layer", "np", "own_a"]
    text = " ".join(names)
    own = Equation(f"J[i,k] = {text} W[i,p] W[k,q] s'[p] s'[q] J[p,q]", at_inputs="identity")
    plain = Equation("J[i,k] = 2 W[i,p] W[k,q] s'[p] s'[q] J[p,q]", at_inputs="identity")
    values = dict.fromkeys(names, 1.0) | {"a": 0.5, "m": 4}
    for inputs in (ONE[0], TWO):
        found, expected = (
            flow(Network(TANH), inputs, 3, [recursion([each])], parameters=given)["kappa(J|01)"]
            for each, given in ((own, values), (plain, None))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("weights", [Gaussian(1.2), Orthogonal(1.2)], ids=["gaussian", "haar"])
def test_recursions_agree_with_ensembles_of_three_widths(weights):
    """Two inputs with n_0 = n, extrapolated in 1/n: κ(J), κ(J, J) and κ(z, z, J)."""
    net, rate = Network(TANH, weights, C_b=0.1), {"rate": lambda ell: 1 / ell}
    flowed = flow(net, TWO, 3, CUMULANTS, parameters=rate)
    sampled = [
        simulate(net, np.tile(TWO, n // 3), n, 3, 1500, tensors=CUMULANTS, parameters=rate, seed=n)
        for n in (42, 84, 168)
    ]
    found = compare(flowed, sampled)
    assert found.agrees, str(found)
    orbits = {(row.tensor, row.layer, *sorted(row.indices)) for row in found.rows}
    assert len(orbits) == 3 * (3 + 5 + 5)
