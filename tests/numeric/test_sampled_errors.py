"""Random flows beside the same to 30 digits: errors are within ten times their estimates."""

from __future__ import annotations

import numpy as np
import pytest
from sample_errors import compared, configuration, truth

from derive.errors import InputError

QUICK = [number for number in range(60) if number % 4 == 0]


def is_quick(chosen):
    return chosen.inputs.ndim == 1 and chosen.depth <= 15


def judged(number):
    """Error/estimate of each tensor, and estimate/error of each number; None if it is refused."""
    chosen = configuration(number)
    try:
        table = chosen.flow()
    except InputError:
        return None
    found = compared(table, truth(chosen, 30)).values()
    return [each.over for each in found], np.concatenate([each.under for each in found])


def check(numbers):
    found = [judged(number) for number in numbers if is_quick(configuration(number))]
    made = [each for each in found if each]
    assert len(made) >= 0.8 * len(found)
    assert max(max(over) for over, _ in made) < 10.0
    assert (np.concatenate([under for _, under in made]) < 1000.0).mean() > 0.85


def test_errors_are_within_ten_times_their_estimates():
    check(QUICK)


@pytest.mark.slow
def test_errors_of_many_flows_are_within_ten_times_their_estimates():
    check(range(60, 80))


@pytest.mark.parametrize(("first", "second"), [(3, 3), (7, 8)])
def test_a_number_is_a_configuration(first, second):
    one, other = configuration(first), configuration(second)
    assert (one.net == other.net and np.array_equal(one.inputs, other.inputs)) == (first == second)
