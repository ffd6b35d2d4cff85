"""Tests over seeds: their exact distributions, their power, and the verdicts that they come to."""

from itertools import permutations

import numpy as np
import pytest
import xarray
from scipy import stats

from derivations.claims import both, equal
from derivations.claims.registry import Sampling
from derivations.pictures.panels import one_panel
from derivations.report.terminal import measure
from derivations.training import descents, statements, tangent, tanh, theory, variations
from derivations.training.descents import Descent
from derivations.training.statements import Statement, alike, expected, reproduced, rising, smaller
from numeric import flow, training

RNG = np.random.default_rng(8)


def chance(statement):
    return float(statement.told.split("p ")[1])


@pytest.mark.parametrize(("m", "n"), [(3, 4), (6, 6), (2, 9)])
def test_one_stratum_is_mann_and_whitney_s_exact_test(m, n):
    a, b = RNG.standard_normal(m), RNG.standard_normal(n) + 0.5
    exact = stats.mannwhitneyu(a, b, alternative="less", method="exact").pvalue
    assert chance(smaller("a", [(a, b)])) == pytest.approx(exact, rel=0.06)  # two digits are told


def test_several_groups_are_jonckheere_s_test():
    """Against all orders of 2, 2 and 2 numbers."""
    groups = [np.array([0.1, 0.4]), np.array([0.2, 0.9]), np.array([0.5, 0.7])]

    def rises(values):
        parts = [values[:2], values[2:4], values[4:]]
        pairs = ((i, j) for i in range(3) for j in range(i + 1, 3))
        return sum((x < y) for i, j in pairs for x in parts[i] for y in parts[j])

    every = np.concatenate(groups)
    counts = [rises(each) for each in permutations(every)]
    exact = np.mean([each >= rises(every) for each in counts])
    assert chance(rising("up", groups)) == pytest.approx(exact, rel=0.06)


def test_false_alarms_are_as_rare_as_the_level_says():
    """800 times no difference: at most the level and 5 standard errors of its count."""
    found = [
        smaller("", [(x[:5], x[5:10]), (x[10:15], x[15:])]).holds
        for x in np.exp(RNG.standard_normal((800, 20)))
    ]
    level = statements.LEVEL
    assert np.mean(found) < level + 5 * np.sqrt(level / 800)


def test_what_is_called_noticeable_is_noticed():
    """Lognormal numbers, a difference as large as is told: found nine times in ten, within 8 %."""
    sizes = ((6, 6), (6, 6))
    shift = statements._shift(sizes)
    found = [
        smaller("", [(np.exp(x[:6]), np.exp(x[6:12] + shift)),
                     (np.exp(x[12:18]), np.exp(x[18:] + shift))]).holds
        for x in RNG.standard_normal((400, 24))
    ]  # fmt: skip
    assert np.mean(found) == pytest.approx(statements.POWER, abs=0.08)


def test_equal_numbers_and_what_is_never_reached_count_for_neither():
    never = np.full(5, np.inf)
    assert not smaller("", [(never, never)]).holds
    reached = smaller("", [(np.arange(5.0) + 1, never)])
    assert reached.holds
    assert reached.noticed is None


def test_likeness_needs_power_as_well_as_equal_means():
    """A wide spread does not pass for likeness, nor does a difference beyond the margin."""
    narrow, wide = 1 + 0.02 * RNG.standard_normal(8), np.exp(RNG.standard_normal(8))
    assert alike("", [(narrow, narrow[::-1].copy())], 0.25).holds
    assert str(alike("", [(wide, np.exp(RNG.standard_normal(8)))], 0.25)).startswith("NOT SHOWN: ")
    assert str(alike("", [(narrow, 1.5 * narrow)], 0.25)).startswith("NOT: ")


def test_verdicts_say_at_what_size():
    good, bad = Statement("rises", True, "9 of 9", 0.2), Statement("falls", False, "1 of 9")
    found = reproduced([good], "30 digits")
    assert (found.kind, found.holds, found.size) == ("reduced size", True, "30 digits")
    assert measure(found) == "30 digits"
    assert found.noticed == (0.2,)
    assert reproduced([good], "as printed", printed=True).kind == "reproduced"
    other = reproduced([good, bad], "30 digits")
    assert (other.kind, other.holds) == ("not reproduced", True)
    assert "NOT: falls (1 of 9)" in other.detail
    assert both(found, other).kind == "not reproduced"
    assert both(found, equal(1, 1)).size == "30 digits"
    assert both(found, equal(1, 2)).kind == "fails"


def test_epochs_until_a_loss_are_interpolated():
    losses = np.array([[1.0, 0.1, 0.01], [1.0, 0.9, 0.8], [0.05, 0.01, 0.01]])
    table = xarray.Dataset({"validation": (("network", "epoch"), losses)}, {"epoch": [0, 10, 30]})
    found = descents.until(table, 0.0316227766)
    assert found == pytest.approx([20.0, np.inf, 10 * np.log(0.05 / 0.0316227766) / np.log(5)])
    assert descents.until(table, 2.0).tolist() == [0, 0, 0]


SMALL = descents.Size((5, 4), (2, 3, 4), (30, 30, 60), (6, 4), (3, 2, 2), (2, 2, 2), (2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("full", [None, 1.0])
@pytest.mark.parametrize("module", [tanh, tangent, variations])
def test_every_figure_is_run_and_judged(module, full, monkeypatch):
    """At a size at which nothing is learnt: each comes to a verdict with its size and pictures."""
    monkeypatch.setattr(descents, "LARGER" if full else "BOOK", SMALL)
    monkeypatch.setattr(descents, "LARGER_IMAGES", SMALL.images)
    sampling = Sampling(3, 1e-9, full)
    names = [
        name for name, each in vars(module).items() if name.startswith("figure_") and callable(each)
    ]
    assert names
    for name in names:
        found = getattr(module, name)(sampling)
        assert found.kind in {"reduced size", "not reproduced"}
        assert "30 digits" in found.size
        assert found.figures


def test_full_is_larger_and_takes_its_share():
    assert descents.size(Sampling(0, 1e-9)) == descents.BOOK
    full, part = (descents.size(Sampling(0, 1e-9, share)) for share in (1.0, 0.4))
    assert (full.widths, full.draws, part.draws) == ((30, 100), (8,) * 4, (4,) * 4)
    assert full.images == (1200, 300, 297)
    other = descents.size(Sampling(0, 1e-9, 1.0, "mnist5k"))
    assert (other.images, other.data) == ((1200, 500, 500), "mnist5k")
    assert descents.size(Sampling(0, 1e-9, data="mnist:a")).data == "mnist:a"
    for size in (descents.BOOK, full):
        assert len(size.draws) == len(size.depths)
        assert set(size.pair) <= set(size.depths)


def test_what_is_not_shown_is_told_from_what_is_not_so():
    """Too few to decide, or enough that say the contrary."""
    a, b = np.arange(6.0), np.arange(6.0) + 0.5
    open_, contrary = smaller("x", [(a, b)]), smaller("x", [(a + 10, b)])
    assert str(open_).startswith("NOT SHOWN: x")
    assert str(contrary).startswith("NOT: x")
    assert str(smaller("x", [(a, b + 10)])).startswith("x (")


def test_a_mean_is_held_against_theory_with_what_it_would_notice():
    sample = 1 + 0.1 * RNG.standard_normal(100)
    assert expected("m", sample, 1.0).holds
    assert not expected("m", sample, 1.1).holds
    assert expected("m", sample, 1.0).noticed == pytest.approx(0.05, abs=0.015)


def test_theory_at_epoch_0_is_that_of_each_image():
    """Between the lengths at which it is evaluated it is a polynomial, good to eight digits."""
    images = descents.split("digits", (40, 1, 1), 0).training
    net = Descent().network("orthogonal", 3)
    K, G1 = theory.kernels(net, images, 3)
    for k in (0, 31):
        last = flow(net, images.pixels[k], 3, ["K", "G1"]).isel(layer=-1)
        assert K[k] == pytest.approx(last["K"].item(), rel=1e-8)
        assert G1[k] == pytest.approx(last["G1"].item(), rel=1e-6)
    loss = theory.untrained_loss(net, images, 3, 16)
    assert loss == pytest.approx(0.1 + (K + G1 / 16).mean())


def test_theory_s_line_is_labelled_and_at_its_loss():
    images = descents.split("digits", (40, 1, 1), 0).training
    nets = [(Descent().network("orthogonal", depth), depth) for depth in (2, 3)]
    _, panel = one_panel()
    theory.mark(panel, nets, images, 16)
    losses = [theory.untrained_loss(net, images, depth, 16) for net, depth in nets]
    assert [line.get_ydata()[0] for line in panel.lines] == losses
    assert panel.lines[0].get_label() == "theory at epoch 0, order 1/n"


@pytest.mark.slow
def test_networks_of_few_steps_are_met_by_theory_s_order():
    """Loss and spread of 60 networks: theirs at n = 16 lies within six errors of order 1/n."""
    data = descents.split("digits", (theory.TINY, 1, 0), 0)
    net = Descent().network("orthogonal", 2)
    X, Y = data.training.pixels, data.training.targets
    given = (net, X, Y, data.validation.pixels, theory.DEPTH, theory.ETA * theory.SCALE)
    expected_ = training.flow(*given, theory.STEPS, theory.OUTPUTS)
    made = theory.networks(net, data, 16, 60, 3)
    for name in theory.NAMES:
        off = made[name].to_numpy() - theory.of_theory(expected_, name, 16)
        assert (abs(off) < 6 * made[f"{name}_se"].to_numpy()).all()


def test_the_early_slope_is_that_of_small_steps():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((2, 4)), rng.standard_normal((2, 2))
    table = training.flow(Descent().network("Gaussian", 2), X, Y, None, 2, 1e-6, [0, 1])
    falls = float(table["loss"][1] - table["loss"][0])
    assert theory.early_slope(table) == pytest.approx(falls, rel=1e-4)


def test_plain_networks_are_compared_as_long_as_the_others_are_trained(monkeypatch):
    """They are trained on for Figure 4; what they reach after the others' last epoch is cut off."""
    asked = []

    def trained(how, start, width, depth, sampling, epochs, part):
        asked.append(epochs)
        at = descents.looked_at(epochs, descents.size(sampling).epochs[1])
        losses = 1 / (1 + np.array([at, at]))
        tables = dict.fromkeys(("training", "validation", "test"), (("network", "epoch"), losses))
        return xarray.Dataset(tables, {"epoch": at})

    monkeypatch.setattr(descents, "trained", trained)
    sampling = Sampling(0, 1e-3)
    longer, last = descents.size(sampling).epochs
    assert longer > last
    for how, epochs in ((Descent(), longer), (Descent("relu"), last)):
        asked.clear()
        found, shallow, deep = variations.runs(how, sampling)
        assert set(asked) == {epochs}
        assert set(found) == set(descents.STARTS)
        assert all(set(tables) == {shallow, deep} for tables in found.values())
        for table in (each for tables in found.values() for each in tables.values()):
            assert table["epoch"].to_numpy()[-1] == last
            np.testing.assert_array_equal(descents.best(table), [1 / (1 + last)] * 2)
