"""Series in L/n against the sums of the log-normal law, and what is refused."""

from __future__ import annotations

import math

import pytest

from derive import InputError, Network, recursion, symbols
from numeric import deep


@pytest.mark.parametrize(("spread", "ratio"), [(2, 0.01), (3, 0.2), (5, 0.5)])
def test_moments_of_a_log_normal_law(spread, ratio):
    """e^{m(m−1)sr/2} − 1 at m = 2 and 3 from two and four terms; the error shrinks with terms."""
    for m in (2, 3):
        rate = m * (m - 1) * spread / 2
        terms = [rate**k / math.factorial(k) for k in (1, 2, 3, 4)]
        two, four = (deep.resum(terms[:count], ratio) for count in (2, 4))
        exact = math.expm1(rate * ratio)
        assert two.value == pytest.approx(exact, rel=1e-9)
        assert four.value == pytest.approx(exact, rel=1e-9)
        assert all(abs(each - exact) <= two.error * (1 + 1e-9) for each in two.forms.values())
        if rate * ratio < 1:
            assert four.error < two.error


def test_other_sums_are_within_the_error():
    """The third cumulant, e^{3x} − 3e^x + 2, and 1/(1 − x) − 1, which Padé sums exactly."""
    for x in (0.05, 0.1, 0.3):
        cumulant = deep.resum([0, 3, 4], x)
        assert abs(cumulant.value - (math.exp(3 * x) - 3 * math.exp(x) + 2)) < cumulant.error
        geometric = deep.resum([1, 1, 1], x)
        assert geometric.forms["Padé"] == pytest.approx(x / (1 - x), rel=1e-12)
        assert abs(geometric.value - x / (1 - x)) <= geometric.error


@pytest.mark.slow
def test_tanh_at_depths_like_the_width():
    """K and its variance over K² of `falling`, in units of 1/(2ℓ), within the errors: 6 scores of
    4.5. Three terms a_k r^k are of orders 1/n and 1/n² of the recursions."""
    series = {}
    for first, second in (("G1", "G2"), ("V", "V2")):
        made = (recursion(name).asymptotics("tanh", 1).normalised for name in (first, second))
        series[first] = [each.terms[0].expr.subs(symbols.ell, 1) for each in made]
    for ratio in (0.25, 0.5, 1):
        lengths = 2 * ratio * deep.falling(Network("tanh"), ratio).sample(40000, steps=128, seed=1)
        squares = (lengths - lengths.mean()) ** 2
        for name, values in (("G1", lengths - 1), ("V", squares)):
            found = deep.resum(series[name], ratio)
            error = 4.5 * values.std() / len(values) ** 0.5
            assert abs(found.value - values.mean()) < found.error + error
            assert error < 0.2 * max(abs(found.value), found.error)


def test_a_form_with_a_pole_on_the_way_is_left_out():
    assert "Padé" not in deep.resum([1, 1], 2).forms
    assert "Borel" in deep.resum([1, -1], 2).forms
    assert deep.resum([1, -1], 0).value == 0


def test_what_is_refused():
    for given, ratio in (([1], 1), ([0, 1], 1), ([1, "x"], 1), ([1, 2], -1), ([1, 1], 1e5)):
        with pytest.raises(InputError):
            deep.resum(given, ratio)


def test_half_of_the_networks_are_dead():
    """1 − 2^{−n} a layer: exact for Gaussian and orthogonal weights."""
    depth = deep.half_dead(Network("relu", "orthogonal"), 5)
    assert (1 - 2.0**-5) ** (depth - 1) == pytest.approx(0.5)
    for net in (
        Network("tanh"),
        Network("linear"),
        Network("relu", "uniform"),
        Network("relu", C_b=1),
        Network("relu", C_b=[0, 0, 1]),
        Network("relu", C_b_corrections=[1]),
        Network("relu", width_ratio=2),
        Network("relu", widths=[2, 4, 4]),
    ):
        with pytest.raises(InputError, match=r"^net|^activation"):
            deep.half_dead(net, 5)
    with pytest.raises(InputError, match=r"^width: .*no double"):
        deep.half_dead(Network("relu"), 1001)
