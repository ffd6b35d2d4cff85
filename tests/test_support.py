"""Every combination of a layer, a law of weights and a function: it works, or it is refused for the
reason that `tests/support/table.json` has. All in `make test-all`, a sample here.
"""

import random

import combinations
import pytest
import reasons
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
