"""Comparisons of one network with one width, and of tables that are not of one network."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Equation, Gaussian, Network, Orthogonal, recursion
from derive.errors import InputError
from numeric import compare, flow, simulate
from numeric.tables import layout

NET = Network("tanh", Orthogonal(), C_b=0.1)
X = [1.0, 0.5, 0.2]
TENSORS = ["K", "V"]


def sampled(net=NET, x=X, n=16, depth=3, **options):
    return simulate(net, x, n, depth, 200, **({"tensors": TENSORS} | options))


@pytest.fixture(scope="module")
def sample():
    return sampled()


@pytest.fixture(scope="module")
def theory():
    return flow(NET, X, 3, TENSORS)


def test_one_width_says_what_it_cannot_conclude(theory, sample):
    """V of layer 1 is −2K² + 4K²/n and no draw differs; theory to leading order is right."""
    assert float(sample["V_se"][0]) == 0
    found = compare(theory, sample)
    assert (found.agrees, found.verdict, found.leading) == (True, "weak", ("K", "V"))
    assert "at one width theory of K, V has no term of order 1/n" in found.summary
    assert "several widths, or a flow that has G1, V2 too" in str(found)
    first = next(row for row in found.rows if (row.tensor, row.layer) == ("V", 1))
    assert abs(first.z) < 1 < 16 * abs(first.sample / first.theory - 1)
    assert first.next_term == pytest.approx(10 * abs(first.theory) / 16)
    K = next(row for row in found.rows if (row.tensor, row.layer) == ("K", 1))
    assert (K.next_term, K.share < 1e-9) == (0, True)  # it is what theory says, to rounding


def test_one_width_resolves_as_far_as_theory_has_the_series(sample):
    full = flow(NET, X, 3, [*TENSORS, "G1", "V2"])
    found = compare(full, sample)
    assert (found.leading, found.agrees) == ((), True)
    row = next(row for row in found.rows if (row.tensor, row.layer) == ("K", 3))
    assert row.next_term == pytest.approx(10 * abs(float(full["G1"][2])) / 16**2)
    assert not compare(full.assign(K=1.5 * full["K"]), sample).agrees


def test_one_width_of_a_theory_that_is_exact_there(theory, sample):
    """degree 0, and a table that is of no network, allow for nothing."""
    assert not compare(theory, sample, degree=0).agrees
    exact = layout.table([1, 2, 3], K=sample["K"], V=sample["V"])
    found = compare(exact, sample)
    assert (found.agrees, found.leading) == (True, ())
    assert not any(row.next_term for row in found.rows)
    assert not compare(exact.assign(V=1.001 * exact["V"]), sample).agrees


def test_several_widths_need_no_allowance_for_what_theory_lacks(theory):
    found = compare(theory, [sampled(n=n) for n in (16, 32)])
    assert (found.leading, found.degree) == ((), 1)


DAMPED = Equation("D[i,k] = damping W[i,a] W[k,b] s'[a] s'[b] D[a,b]", at_inputs="identity")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"net": Network("tanh", Gaussian(), C_b=0.1)}, "network"),
        ({"net": Network("tanh", Orthogonal(), C_b=0.2)}, "network"),
        ({"net": Network("sin", Orthogonal(), C_b=0.1)}, "network"),
        ({"net": Network("tanh", Orthogonal(), C_b=0.1, layer="residual(norm=rms)")}, "network"),
        ({"x": [1.0, 0.5, 0.3]}, "inputs"),
        ({"x": [1.0, 0.5, 0.2, 0.0]}, "inputs"),
        ({"x": [X, X[::-1]]}, "inputs"),
    ],
)
def test_tables_of_something_else_are_refused_and_it_is_named(theory, sample, changed, said):
    other = sampled(**changed, n=32)
    for given in ([other], [sample, other], [other, sample]):
        with pytest.raises(InputError, match=f"^simulated: got .?{said} .*wanted .*the {said}"):
            compare(theory, given)
    with pytest.raises(InputError, match=f"^simulated: got .?{said} .*of the first sample"):
        compare(layout.table([1, 2, 3], K=theory["K"], V=theory["V"]), [sample, other])


def test_users_parameters_must_be_the_same():
    own = {"tensors": [recursion([DAMPED], pairing="01")]}
    low, high = (flow(NET, X, 2, **own, parameters={"damping": a}) for a in (0.5, 0.25))
    drawn = simulate(NET, X, 16, 2, 60, **own, parameters={"damping": 0.5})
    assert compare(low, drawn).rows
    with pytest.raises(InputError, match="parameter_damping"):
        compare(high, drawn)


def test_equal_inputs_may_be_written_otherwise(theory, sample):
    """Turned, and of twice as many numbers: x·x/n_0 is all that a dense network sees."""
    turned = sampled(x=[0.2, 1.0, 0.5])
    doubled = sampled(x=[*X, *X], n=32)
    assert compare(theory, turned).rows
    assert compare(theory, [sample, doubled]).rows


@pytest.mark.parametrize(
    ("call", "argument", "said"),
    [
        (lambda theory, sample: compare(sample, theory), "flowed", "a sample, which has K_se"),
        (lambda theory, sample: compare(sample, sample), "flowed", "a sample, which has K_se"),
        (lambda theory, sample: compare(theory, theory), "simulated", "without standard errors"),
        (lambda theory, sample: compare(theory, [sample, theory]), "simulated", "without standard"),
        (lambda theory, sample: compare(theory, [sample, sample]), "simulated", "share networks"),
    ],
)
def test_tables_in_the_wrong_place_are_told_apart(theory, sample, call, argument, said):
    with pytest.raises(InputError, match=said) as caught:
        call(theory, sample)
    assert caught.value.argument == argument


def test_one_width_with_two_seeds_are_more_draws(theory, sample):
    both = compare(theory, [sample, sampled(seed=1)], degree=0)
    rows = zip(both.rows, compare(theory, sample, degree=0).rows, strict=True)
    assert all(two.se <= one.se for two, one in rows)


@pytest.mark.parametrize(
    ("deeper", "said"), [(4, "layer 4"), (5, "layers 4, 5"), (7, "layers 4 to 7")]
)
def test_layers_that_one_table_lacks_are_said(sample, deeper, said):
    found = compare(flow(NET, X, deeper, TENSORS), sample)
    assert found.summary.endswith(f"; not in every table: {said}")
    assert {row.layer for row in found.rows} == {1, 2, 3}
    assert found.skipped == tuple(range(4, deeper + 1))


def test_components_equal_to_rounding_are_one_row():
    values = np.array([[[1.0, 1e-17], [3e-17, 1.0]]])
    drawn = layout.table([1], {"width": 8, "blocks": 9}, K=(values[:, ::-1, ::-1], 0 * values + 1))
    assert [row.name for row in compare(layout.table([1], K=values), drawn).rows] == [
        "K_11", "K_12", "K_22",
    ]  # fmt: skip


def test_the_columns_are_explained(theory, sample):
    found = compare(theory, sample)
    for told in (str(found), found._repr_html_()):
        for column in ("se", "next", "z", "resolves", "of tensor"):
            assert f"{column}: " in told
