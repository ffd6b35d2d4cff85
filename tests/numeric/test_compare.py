"""Comparisons: exact on made-up tables, and honest about chance."""

from __future__ import annotations

import numpy as np
import pytest
import xarray
from scipy import stats

from derive import activations
from derive.errors import InputError
from derive.network import Network
from numeric import compare
from numeric.simulations import simulate
from numeric.tables import FALSE_ALARMS, layout

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


def test_the_series_of_a_batch_is_one_in_its_size():
    """V = 1/(1 + m/n) and, at layer 3, one whose first coefficient vanishes: no polynomial of
    degree 2 at these widths, so that only a theory of another limit may be seen."""
    x = {n: 64.0 / n for n in (32, 64, 128)}
    tables = [sample(n, V=[1, 1 / (1 + x[n]), 1 / (1 + x[n] ** 3)], se=1e-3) for n in x]
    flowed = theory(V=[1, 1, 1])
    assert not compare(flowed, tables).agrees
    batch = flowed.assign_attrs(batch_size=64)
    found = compare(batch, tables)
    assert found.verdict == "weak"
    assert found.resolved == {"V": (1,)}
    assert not compare(theory(V=[2, 1, 1]).assign_attrs(batch_size=64), tables).agrees


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
    exact = sample(10, V=[1 + layout.ACCURACY, 2, 0], se=0)
    assert compare(flowed, exact).agrees
    assert not compare(flowed, sample(10, V=[1 + 100 * layout.ACCURACY, 2, 0], se=0)).agrees
    assert not compare(flowed, sample(10, V=[1, 2, 1e-13], se=0)).agrees
    cancelling = sample(10, V=[1, 2, 1e-13], se=0)
    cancelling["V_floor"] = "layer", np.full(3, layout.ACCURACY)
    assert compare(flowed, cancelling).agrees
    assert compare(flowed, [exact, sample(20, V=[1, 2, 0], se=0)]).agrees


def test_disagreement_is_found_and_said():
    found = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 4]))
    assert not found.agrees
    assert str(found).startswith("DISAGREES: 3 comparisons at n = 10; largest |z| 10.00")
    row = ["V", "3", "3", "4", "0.1", "0", "10.00", "18", "%", "18", "%"]
    assert found.table.splitlines()[3].split() == row


def test_a_resolution_is_what_would_have_been_noticed():
    """A theory that is wrong by more than the resolution disagrees, by less it does not."""
    right = compare(theory(V=[1, 2, 4]), sample(10, V=[1, 2, 4], se=0.01))
    assert [row.resolution for row in right.rows] == pytest.approx(
        [right.bound * 0.01 / size for size in (1, 2, 4)]
    )
    assert right.coarsest is right.rows[0]
    assert right.resolution == right.rows[0].resolution
    for part, agrees in ((0.9, True), (1.1, False)):
        planted = 1 + part * right.resolution
        wrong = compare(theory(V=[planted, 2, 4]), sample(10, V=[1, 2, 4], se=0.01))
        assert wrong.agrees is agrees


def test_what_would_have_agreed_with_too_much_is_weak():
    fine = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3], se=0.01))
    assert (fine.agrees, fine.weak, fine.verdict) == (True, False, "agrees")
    coarse = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 3], se=1.0))
    assert (coarse.agrees, coarse.weak, coarse.verdict) == (True, True, "weak")
    assert str(coarse).startswith("weak: 3 comparisons")
    assert "resolves 5" in coarse.summary
    assert "3 of 3 resolve worse than 20 %" in str(coarse)
    assert [row.layer for row in coarse.unresolved] == [1, 2, 3]
    assert fine.unresolved == ()
    far = compare(theory(V=[1, 2, 3]), sample(10, V=[1, 2, 30], se=1.0))
    assert (far.agrees, far.weak, far.verdict) == (False, False, "DISAGREES")


def test_a_planted_fault_is_found_where_it_is_resolved():
    """A sign, a factor 2 and a term left out of V = 5(ℓ − 1) K², at 4 %."""
    V = 5.0 * (LAYERS - 1)
    drawn = sample(10, K=[1, 1, 1], V=V, se=0.03)
    assert compare(theory(K=[1, 1, 1], V=V), drawn).resolution < 0.2
    for wrong in (-V, 2 * V, V - 1):
        assert compare(theory(K=[1, 1, 1], V=wrong), drawn).verdict == "DISAGREES"


def test_what_vanishes_is_resolved_by_its_natural_size():
    """A = 0 against Θ², V_12 against √(K_11 K_22)⁴; the first layer's V is 0."""
    flowed = theory(Theta=[2, 3, 4], A=[0, 1e-4, 8], K=[1, 1, 1], V=[0, 1, 1])
    drawn = sample(10, Theta=[2, 3, 4], A=[0, 0, 8], K=[1, 1, 1], V=[0, 1, 1], se=0.1)
    found = {(row.tensor, row.layer): row.scale for row in compare(flowed, drawn).rows}
    assert [found["A", layer] for layer in (1, 2, 3)] == [4, 9, 8]
    assert [found["V", layer] for layer in (1, 2, 3)] == [1, 1, 1]
    alone = compare(theory(V=[0, 1, 3]), sample(10, V=[0, 1, 3], K=[2, 2, 2]))
    assert [row.scale for row in alone.rows] == [4, 1, 3]  # by the sampled K


def test_the_scale_is_given_or_else_the_largest_entry():
    given = theory(gap=[0, 0, 1]).assign(gap_size=("layer", [5.0, 6.0, 7.0]))
    drawn = sample(10, gap=[0, 0, 1], se=1e-3)
    assert [row.scale for row in compare(given, drawn).rows] == [5, 6, 7]
    assert {row.tensor for row in compare(given, drawn).rows} == {"gap"}
    assert [row.scale for row in compare(theory(gap=[0, 0, 1]), drawn).rows] == [1, 1, 1]
    unknown = compare(theory(gap=[0, 0, 0]), sample(10, gap=[0, 0, 0]))
    assert unknown.weak
    assert "nothing" in unknown.summary


def of_two(tensor, values):
    """A table of a tensor of two samples in one layer, with errors of 0.01, and of its theory."""
    axes = ("layer", "sample_1", "sample_2")
    derived = xarray.Dataset({tensor: (axes, [values])}, {"layer": [1]})
    errors = {f"{tensor}_se": (axes, np.full((1, 2, 2), 0.01))}
    return derived, derived.assign(errors).assign_attrs(width=10, blocks=256)


def test_a_tensor_of_several_inputs_is_judged_by_its_largest_component():
    """K_12 = 0.1 has a column of its own, and counts as a tenth of K_11 = 1."""
    flowed, drawn = of_two("K", [[1.0, 0.1], [0.1, 0.5]])
    found = compare(flowed, drawn)
    own, share = (
        {row.name: getattr(row, at) for row in found.rows} for at in ("resolution", "share")
    )
    noticed = found.bound * 0.01
    assert own == pytest.approx({"K_11": noticed, "K_12": 10 * noticed, "K_22": 2 * noticed})
    assert share == pytest.approx(dict.fromkeys(own, noticed))
    assert (found.verdict, found.resolution) == ("agrees", pytest.approx(noticed))
    wrong = flowed.assign(K=flowed["K"] + [[0, 0.1], [0.1, 0]])  # a term in K_12 alone
    assert not compare(wrong, drawn).agrees


def test_components_that_are_one_number_are_compared_once():
    flowed, drawn = of_two("K", [[1.0, 0.1], [0.1, 0.1]])
    assert [row.name for row in compare(flowed, drawn).rows] == ["K_11", "K_12", "K_22"]
    skew = flowed.assign(K=flowed["K"] * [[1, 1], [2, 1]])
    found = compare(skew, drawn)
    assert [row.name for row in found.rows] == ["K_11", "K_12", "K_21", "K_22"]
    assert found.worst.name == "K_21"
    apart = drawn.assign(K=drawn["K"] * [[1, 1], [2, 1]])
    assert compare(flowed, apart).worst.name == "K_21"


def test_the_next_term_has_a_column():
    """Two widths and a line: 10 |c_1|/(10·20) is allowed for c_2, and joins the error."""
    tables = [sample(n, V=[1 + 3 / n, 1, 1]) for n in (10, 20)]
    first, second, _ = compare(theory(V=[1, 1, 1]), tables).rows
    assert first.next_term == pytest.approx(10 * 3 / 200)
    assert second.next_term == pytest.approx(0, abs=1e-12)
    assert first.se == pytest.approx(np.hypot(0.1 * np.sqrt(5), first.next_term))
    assert "next" in compare(theory(V=[1, 1, 1]), tables).table.splitlines()[0]


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
