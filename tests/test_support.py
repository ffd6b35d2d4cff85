"""Every combination of a layer, a law of weights and a function: it works, or it is refused for the
reason that `tests/support/table.json` has. All in `make test-all`, a sample here.
"""

import random

import combinations
import pytest
import reasons
import seconds
import table

from derive import InputError

QUICK = (
    "recursion",
    "flow: K, Theta",
    "flow: G1, V",
    "flow: precision",
    "criticality",
    "write_module",
    "exact",
)
"""Functions of which a combination takes some 0.1 s."""
SHARE = 20


def sample():
    every = [cell for cell in table.cells() if cell.function in QUICK and not cell.is_costly]
    return random.Random(40).sample(every, len(table.cells()) // SHARE)


def differences(cells):
    found = [table.difference(cell, table.tried(cell)) for cell in cells]
    return [text for text in found if text]


@pytest.mark.parametrize("layer", combinations.LAYERS)
def test_a_sample_is_as_the_table_says(layer):
    assert not differences(cell for cell in sample() if cell.layer == layer)


@pytest.mark.slow
@pytest.mark.parametrize("layer", combinations.LAYERS)
def test_every_combination_is_as_the_table_says(layer):
    known = table.recorded()
    chosen = [cell for cell in table.cells() if cell.layer == layer]
    left = {cell for cell in chosen if cell.is_costly and known[cell] == table.WORKS}
    left |= {cell for cell in chosen if known[cell] == table.SLOW}
    assert not differences(cell for cell in chosen if cell not in left)


def test_the_table_has_every_combination_and_no_other():
    assert set(table.recorded()) == set(table.cells())


def test_the_table_is_as_it_is_written():
    text = table.FILE.read_text(encoding="utf-8")
    assert text == table.written(table.recorded(), table.messages())


def test_the_page_shows_the_table():
    assert table.PAGE.read_text(encoding="utf-8") == table.shown()


def test_every_refusal_has_one_reason():
    kinds = set(table.recorded().values()) - {table.WORKS, table.SLOW}
    assert kinds == set(table.messages()) == set(reasons.BY_NAME)
    for name, message in table.messages().items():
        argument, rest = message.split(": got ", 1)
        error = InputError(argument, None, rest.split("; wanted ")[-1])
        assert [each.name for each in reasons.REASONS if each.matches(error)] == [name]


def test_seconds_are_of_calls_that_work_and_as_they_are_written():
    found = seconds.recorded()
    works = [c for c, kind in table.recorded().items() if kind in (table.WORKS, table.SLOW)]
    assert found
    assert set(found) <= {(cell.layer, cell.law, cell.function) for cell in works}
    assert all(0 < each.warm <= seconds.LIMIT and each.cold > 0 for each in found.values())
    assert seconds.FILE.read_text(encoding="utf-8") == seconds.written(found)


def test_calls_over_a_limit_are_shown_the_longest_first():
    keys = [("dense", law, "recursion") for law in combinations.LAWS][:4]
    pairs = [(seconds.COLD, seconds.WARM), (7, seconds.WARM + 1), (seconds.COLD + 1, 1), (1, 1)]
    found = {key: seconds.Seconds(*pair) for key, pair in zip(keys, pairs, strict=True)}
    assert seconds.over(found) == [keys[2], keys[1]]
    assert seconds.largest(found, keys[1:]) == (found[keys[2]], keys[2])
    assert seconds.largest(found, [("gated", "Gaussian", "recursion")]) is None


def counting(turns):
    def call(case):
        assert (case.width, len(case.inputs(1))) == (seconds.WIDTH, seconds.INPUTS)
        sum(range(turns))

    return call


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("call", "least"), [(counting(10), 0), (counting(10**10), 1)])
def test_a_call_is_measured_in_a_process_of_its_own_and_ended_at_the_limit(
    monkeypatch, call, least
):
    monkeypatch.setitem(combinations.FUNCTIONS, "recursion", call)
    monkeypatch.setattr(seconds, "LIMIT", 1)
    found = seconds.measured(("dense", "Gaussian", "recursion"))
    assert least <= found.warm <= found.cold <= 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_call_that_fails_is_no_measurement(monkeypatch):
    failing = raising(ZeroDivisionError("1/0"))
    monkeypatch.setitem(combinations.FUNCTIONS, "recursion", failing)
    with pytest.raises(RuntimeError, match="dense × Gaussian × recursion: ZeroDivisionError: 1/0"):
        seconds.measured(("dense", "Gaussian", "recursion"))


def raising(error):
    def call(case):
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ZeroDivisionError("1/0"), ZeroDivisionError),
        (InputError("layer", 1, "a refusal of which nobody has heard"), table.UnknownRefusalError),
    ],
)
def test_what_is_no_known_refusal_fails(monkeypatch, error, told):
    monkeypatch.setitem(combinations.FUNCTIONS, "recursion", raising(error))
    with pytest.raises(told):
        table.tried(table.Cell("dense", "Gaussian", "recursion"))


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, float("nan")], [float("inf")]])
def test_numbers_that_say_nothing_fail(values):
    with pytest.raises(AssertionError):
        combinations.finite(values)


def test_a_combination_that_takes_too_long_is_slow(monkeypatch):
    def forever(case):
        while True:
            pass

    monkeypatch.setitem(combinations.FUNCTIONS, "recursion", forever)
    cell = table.Cell("dense", "Gaussian", "recursion")
    found = table.tried(cell, 0.05)
    assert found.kind == table.SLOW
    assert table.difference(cell, found)


def test_a_refusal_for_another_reason_is_a_difference():
    cell = table.Cell("dense", "Gaussian", "recursion")
    other = reasons.REASONS[0].name
    assert table.difference(cell, table.Outcome(other, "weights: …")).endswith("works")
    assert not table.difference(cell, table.Outcome(table.WORKS))
