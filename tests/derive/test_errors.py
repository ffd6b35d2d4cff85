"""Integers and sizes: what is asked for is checked before any work starts."""

import numpy as np
import pytest
import sympy

from derive import Network, activations, recursion
from derive.errors import InputError, as_integer
from derive.work import check_memory, size


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), sympy.Integer(3), np.array(3)])
def test_integers_of_every_library_are_whole(value: object) -> None:
    assert as_integer("count", value, 1) == 3
    assert type(as_integer("count", value, 1)) is int


@pytest.mark.parametrize("value", [True, 3.0, "3", None, sympy.Rational(1, 2), np.array(3.0), []])
def test_what_is_no_integer_is_refused_by_name(value: object) -> None:
    with pytest.raises(InputError, match=r"^count: got .*; wanted an integer, 1 or more$"):
        as_integer("count", value, 1)


@pytest.mark.parametrize(("value", "wanted"), [(0, "1 to 5"), (6, "1 to 5")])
def test_the_range_is_said(value: int, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        as_integer("count", value, 1, 5)


def test_an_error_is_one_line_whatever_it_got() -> None:
    for got in (recursion("V"), Network(activations.tanh)):
        assert "\n" in repr(got)
        assert "\n" not in str(InputError("made", got, "something else"))
    assert "got 'a\\n  b'" in str(InputError("text", "a\n  b", "one line"))


def test_what_a_machine_does_not_hold_is_refused() -> None:
    check_memory("depth", 10, 8 * 10, "10 layers")
    with pytest.raises(InputError, match=r"depth: .*wanted less: all layers would take"):
        check_memory("depth", 10**20, 8 * 10**20, "all layers")


@pytest.mark.parametrize(
    ("count", "text"),
    [(3, "3 bytes"), (3 * 2**29, "1.5 GiB"), (2**40, "1 TiB"), (2**4000, "some 2^4000 bytes")],
)
def test_sizes_in_words(count: int, text: str) -> None:
    assert size(count) == text


def test_a_number_too_long_to_be_written_is_refused_like_any_other() -> None:
    with pytest.raises(InputError, match="cannot be shown"):
        as_integer("count", 10**5000, 1, 5)
