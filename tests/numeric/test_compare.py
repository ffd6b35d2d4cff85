"""Comparisons: exact on made-up tables, and honest about chance."""

from __future__ import annotations

import numpy as np
import pytest
import xarray
from scipy import stats

from derive import activations
from derive.errors import InputError
from derive.network import Network
from numeric.simulations import simulate
from numeric.tables.compare import ACCURACY, FALSE_ALARMS, SERIES, compare

LAYERS = np.arange(1, 4)


def theory(**tensors):
    arrays = {name: ("layer", np.asarray(values, float)) for name, values in tensors.items()}
    return xarray.Dataset(arrays, {"layer": LAYERS})


def sample(width, blocks=256, se=0.1, **tensors):
    arrays = {}
    for name, values in tensors.items():
        arrays[name] = ("layer", np.asarray(values, float))
        arrays[f"{name}_se"] = ("layer", np.full(3, float(se)))
    attrs = {"width": width, "blocks": blocks, "network": "net"}
    return xarray.Dataset(arrays, {"layer": LAYERS}, attrs)


def test_a_score_is_the_difference_over_the_error():
    found = compare(theory(V=[1, 2, 3]), sample(10, V=[1.1, 2.0, 2.7]))
    assert [row.z for row in found.rows] == pytest.approx([1, 0, -3])
    assert [row.layer for row in found.rows] == [1, 2, 3]
    assert found.worst is found.rows[2]
    assert found.agrees


def test_one_width_meets_the_series_in_the_flow():
    flowed = theory(K=[1, 1, 1], G1=[2, 4, 6], G2=[10, 0, 0])
    found = compare(flowed, sample(10, K=[1.3, 1.4, 1.6], se=1e-3))
    assert [row.theory for row in found.rows] == pytest.approx([1.3, 1.4, 1.6])
    no_correction = compare(theory(K=[1, 1, 1]), sample(10, K=[1.2, 1.4, 1.6], se=1e-3))
    assert not no_correction.agrees


@pytest.mark.parametrize("widths", [(10, 20), (10, 20, 40), (10, 20, 40, 80)])
def test_extrapolation_is_exact_for_a_polynomial(widths):
    flowed = theory(V=[1, -2, 0.5], V2=[0, 0, 0])
    degree = min(len(widths) - 1, 2)
    tables = [
        sample(n, V=[1 + sum((3.0 / n) ** k for k in range(1, degree + 1)), -2, 0.5], se=1e-6)
        for n in widths
    ]
    found = compare(flowed, tables)
    assert found.degree == degree
    assert found.widths == widths
    assert [row.sample for row in found.rows] == pytest.approx([1, -2, 0.5], abs=1e-10)


def test_extrapolation_carries_the_errors_of_the_fit():
    """Two points, a line: c_0 = 2 y(20) − y(10), so its error is √(4 + 1) of theirs."""
    found = compare(theory(V=[0, 0, 0]), [sample(10, V=[0, 0, 0]), sample(20, V=[0, 0, 0])])
    assert [row.se for row in found.rows] == pytest.approx([0.1 * np.sqrt(5)] * 3)
    flat = compare(theory(V=[0, 0, 0]), [sample(n, V=[0, 0, 0]) for n in (10, 20)], degree=0)
    assert [row.se for row in flat.rows] == pytest.approx([0.1 / np.sqrt(2)] * 3)


def test_scores_of_correct_theory_stay_under_the_bound():
    """10 000 extrapolated normal samples: scores are standard normal (KS p > 1e-6)."""
    rng = np.random.default_rng(0)
    layers = np.arange(1, 10_001)
    flowed = xarray.Dataset({"V": ("layer", np.ones(layers.size))}, {"layer": layers})
    tables = []
    for n, se in ((1000, 0.3), (2000, 0.1), (4000, 0.2)):
        values = 1 + 500 / n + se * rng.standard_normal(layers.size)
        arrays = {"V": ("layer", values), "V_se": ("layer", np.full(layers.size, se))}
        tables.append(xarray.Dataset(arrays, {"layer": layers}, {"width": n}))
    found = compare(flowed, tables, degree=1)
    assert found.agrees
    assert stats.kstest([row.z for row in found.rows], "norm").pvalue > 1e-6


def test_the_first_term_left_out_is_counted():
    """−2n/(n + 2) without noise meets its limit −2, and misses another."""
    exact = [sample(n, V=[-2 * n / (n + 2)] * 3, se=0) for n in (64, 128, 256)]
    found = compare(theory(V=[-2, -2, -2]), exact)
    assert found.agrees
    assert 0 < found.worst.se < 1e-3
    assert not compare(theory(V=[-2.01, -2, -2]), exact).agrees


def test_the_bound_counts_comparisons_and_blocks():
    one = compare(theory(V=[1, 2, 3]).sel(layer=[1]), sample(10, V=[1, 2, 3]))
    three = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3]))
    few = compare(theory(V=[1, 2, 3]), sample(10, blocks=8, V=[1, 2, 3]))
    assert 2 * stats.t.sf(one.bound, 255) == pytest.approx(FALSE_ALARMS)
    assert 5 < one.bound < three.bound < 6 < few.bound


def test_entries_without_variance_are_compared_to_rounding():
    flowed = theory(V=[1, 2, 0])
    exact = sample(10, V=[1 + ACCURACY, 2, 0], se=0)
    assert compare(flowed, exact).agrees
    assert not compare(flowed, sample(10, V=[1 + 100 * ACCURACY, 2, 0], se=0)).agrees
    assert not compare(flowed, sample(10, V=[1, 2, 1e-13], se=0)).agrees
    cancelling = sample(10, V=[1, 2, 1e-13], se=0)
    cancelling["V_floor"] = "layer", np.full(3, ACCURACY)
    assert compare(flowed, cancelling).agrees
    assert compare(flowed, [exact, sample(20, V=[1, 2, 0], se=0)]).agrees


def test_disagreement_is_found_and_said():
    found = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 4]))
    assert not found.agrees
    assert str(found).startswith("DISAGREES: 3 comparisons at n = 10; largest |z| 10.00")
    assert found.table.splitlines()[3].split() == ["V", "3", "3", "4", "0.1", "10.00"]


def test_only_shared_tensors_and_layers_are_compared():
    flowed = theory(V=[1, 2, 3], K=[1, 1, 1], D=[0, 0, 0])
    found = compare(flowed, sample(10, V=[1, 2, 3], U6=[0, 0, 0]).sel(layer=[2, 3]))
    assert {(row.tensor, row.layer) for row in found.rows} == {("V", 2), ("V", 3)}


def test_a_figure_has_a_panel_for_each_tensor_and_a_line_for_each_component():
    rng = np.random.default_rng(0)
    K = rng.standard_normal((3, 2, 2))
    K = K + K.transpose(0, 2, 1)
    axes = ("layer", "sample_1", "sample_2")
    flowed = xarray.Dataset({"K": (axes, K), "V": ("layer", K[:, 0, 0])}, {"layer": LAYERS})
    sampled = flowed.assign(K_se=(axes, np.full_like(K, 0.1)), V_se=("layer", np.full(3, 0.1)))
    found = compare(flowed, sampled.assign_attrs(width=10))
    panels = found.plot().axes
    assert [panel.get_title() for panel in panels] == ["K", "V"]
    labels = [text.get_text() for text in panels[0].get_legend().get_texts()]
    assert labels == ["K_11", "K_12", "K_22"]
    np.testing.assert_array_equal(panels[0].lines[0].get_ydata(), K[:, 0, 0])


def test_a_simulated_ensemble_meets_its_closed_form():
    """Gaussian linear networks, V = 2(ℓ − 1) K² + O(1/n), extrapolated from three widths."""
    x = np.array([1.0, -1.0, 2.0])
    flowed = theory(K=[2, 2, 2], V=8 * (LAYERS - 1.0))
    tables = [
        simulate(Network(activations.linear), x, n, 3, 20_000, tensors=["K", "V"], seed=1)
        for n in (20, 40, 80)
    ]
    found = compare(flowed, tables)
    assert found.agrees, str(found)
    wrong = compare(flowed.assign(V=flowed["V"] * 1.5), tables)
    assert not wrong.agrees


@pytest.mark.parametrize(
    ("argument", "flowed", "simulated", "options"),
    [
        ("flowed", [1, 2, 3], sample(10, V=[1, 2, 3]), {}),
        ("simulated", theory(V=[1, 2, 3]), [], {}),
        ("simulated", theory(V=[1, 2, 3]), ["V"], {}),
        ("simulated", theory(V=[1, 2, 3]), theory(V=[1, 2, 3]), {}),
        ("simulated", theory(D=[1, 2, 3]), sample(10, V=[1, 2, 3]), {}),
        ("simulated", theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3]).drop_vars("V_se"), {}),
        ("simulated", theory(V=[1, 2, 3]), sample(10, V=[1, np.nan, 3]), {}),
        ("flowed", theory(V=[1, np.inf, 3]), sample(10, V=[1, 2, 3]), {}),
        ("simulated", theory(V=[1, 2, 3]).expand_dims("sample_1"), sample(10, V=[1, 2, 3]), {}),
        (
            "simulated",
            theory(V=[1, 2, 3]),
            [sample(10, V=[1, 2, 3]), sample(20, V=[1, 2, 3]).assign_attrs(network="other")],
            {},
        ),
        ("degree", theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3]), {"degree": 1}),
        ("false_alarms", theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3]), {"false_alarms": 0.0}),
    ],
)
def test_bad_tables(argument, flowed, simulated, options):
    with pytest.raises(InputError) as caught:
        compare(flowed, simulated, **options)
    assert caught.value.argument == argument


def test_series_begin_with_the_tensor_itself():
    assert all(name == series[0] for name, series in SERIES.items())
