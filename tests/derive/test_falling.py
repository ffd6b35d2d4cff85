"""Tensors where K falls like 1/log ℓ: against flows, and tails against the averages themselves."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import pytest
import sympy

from derivations.day_kahn_roberts.breakdown import aspect_ratio, breakdown
from derive import Gaussian, Network, Orthogonal, criticality, recursion
from derive import activations as a
from derive.depth import counterterm, logarithmic, logarithmic_kernel, together
from derive.depth.systems import label_of
from derive.errors import InputError
from derive.gaussian import Bracket, Shape
from derive.gaussian.oracle import bracket as average
from derive.layers import dropout, residual
from derive.symbols import K, ell
from numeric import flow

BENT = a.from_expr("Min(z, z/2 + 3/4)")
CURVED = a.from_expr("Max(-1, Min(1, z)) + Max(0, z - 1)**2/4", "curved")


def _flowed(activation, weights, names, depth, size):
    made = type(weights)(float(criticality(activation).critical[1]))
    net = Network(activation, made, lambda_b=lambda layer: 1 / layer)
    size *= float(logarithmic_kernel(activation).distance)
    return flow(net, [size, size], depth, ["K", *names], seconds=0)


def _held(activation, weights, names, depth):
    """Misses are within the errors told, with K of the flow, which fixes the shift, and with that
    of its law; for inputs so small that their shift is beyond the depth, with that K alone."""
    for size, matched in ((0.5, True), (0.2, False)):
        table = _flowed(activation, weights, names, depth, size)
        for name in names:
            found = recursion(name, weights).asymptotics(activation, 4)
            start = table["K"].sel(layer=depth // 20).item()
            shift = found.matched({"K": start}, depth // 20)
            for layer in (depth // 10, depth):
                kernel = table["K"].sel(layer=layer).item()
                value = table[name].sel(layer=layer).item()
                for known in (shift, shift | {K: kernel}, {K: kernel})[0 if matched else 2 :]:
                    for count in (4, 3, 2):
                        fewer = replace(found, count=count)
                        miss = abs(fewer.evaluate(layer, known) - value)
                        assert miss < fewer.error(layer, known), (name, size, layer, known, count)


def _solved(activation, weights, names):
    """One layer at K = d²/400, by brackets to 120 digits, where ℓ = n/ρ is some e^200: what the
    series misses of the recursion falls with every two terms by two factors of K or so."""
    distance = sympy.N(logarithmic_kernel(activation).distance, 130)
    averages = {}
    with mpmath.workdps(130):
        kernel = mpmath.mpf(distance) ** 2 / 400

        def exact(bracket):
            if bracket not in averages:
                orders = tuple(order for _, order in bracket.factors)
                shape = Shape(orders, (len(bracket.outer),) + (0,) * (len(orders) - 1))
                averages[bracket] = average(activation, shape, kernel, 120).value
            return averages[bracket]

        def number(value):
            return mpmath.mpmathify(sympy.N(value, 130))

        def behind(made, values):
            total = mpmath.mpf(0)
            for (mono, _), value in made.terms.items():
                part = mpmath.mpf(value.numerator) / value.denominator
                for atom, power in mono:
                    known = exact(atom) if isinstance(atom, Bracket) else values[label_of(atom)]
                    part *= known**power
                total += part
            return total

        for name in names:
            system = recursion(name, weights).asymptotics(activation, 4).system
            depth = mpmath.mpf(system.matched(float(kernel), 1)) + 1
            point = system.point
            values = {"C_W": number(point.C_W), "C_b": number(point.C_b), "K": kernel}
            values |= {"lambda_W": mpmath.mpf(1), "lambda_b": 1 / depth}

            def summed(series, layer, at, count=None):
                terms = [each.as_coeff_exponent(K) for each in series.terms.values()][:count]
                parts = (number(value) * at ** number(power) for value, power in terms)
                return layer ** number(series.power) * mpmath.fsum(parts)

            tensors = system.solve(8).tensors
            values |= {each: summed(series, depth, kernel) for each, series in tensors.items()}

            after = behind(system.recursions[0], values)
            misses = []
            for count in range(1, 6):
                values[name] = summed(tensors[name], depth, kernel, count)
                expected = summed(tensors[name], depth + 1, after, count)
                misses.append(abs(behind(system.recursions[-1], values) - expected))
            assert misses[0] > 0
            for more, less in zip(misses, misses[2:], strict=False):
                assert less < 0.4**2 * more, (name, misses)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=lambda each: each.name)
def test_hard_tanh_at_depth_3000(weights):
    _held(a.hard_tanh, weights, ["V", "G1"], 3_000)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=lambda each: each.name)
def test_series_solve_the_recursions(weights):
    _solved(a.hard_tanh, weights, ["V", "G1", "D"])


@pytest.mark.slow
def test_the_tower_at_depth_10000():
    _held(
        a.shifted_relu,
        Orthogonal(),
        ["V", "G1", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q"],
        10_000,
    )


@pytest.mark.slow
def test_the_tower_solves_its_recursions():
    """P and Q are left out: their brackets are singular at the kinks and have no such average."""
    _solved(BENT, Gaussian(), ["V", "G1", "Theta", "Theta1", "D", "F", "A", "B", "U6"])


@pytest.mark.parametrize("activation", [a.hard_tanh, BENT, CURVED], ids=str)
@pytest.mark.parametrize(
    ("orders", "outer"), [((0, 0), 0), ((1, 1), 0), ((0, 2), 0), ((0, 0, 1, 1), 2), ((0, 0), 6)]
)
def test_brackets_are_a_core_and_a_tail(activation, orders, outer):
    """At K = d²/100, where the tail is a factor of e^{−50} below: to the order of its cut."""
    places = ((1,) * outer,) if outer else ()
    bracket = Bracket(tuple((1, each) for each in orders), places[0] if places else ())
    distance = logarithmic_kernel(activation).distance
    core, (tail, cut) = (
        logarithmic.core(activation, bracket),
        logarithmic.tail(activation, bracket, distance, 6),
    )
    with mpmath.workdps(60):
        at = mpmath.mpf(sympy.N(distance, 60)) ** 2 / 100
        rho = mpmath.exp(-50) / mpmath.sqrt(2 * mpmath.pi * at)

        def value(terms):
            return mpmath.fsum(
                mpmath.mpf(sympy.N(c, 60)) * at ** mpmath.mpf(q) for q, c in terms.items()
            )

        exact = average(activation, Shape(orders, (outer,) + (0,) * (len(orders) - 1)), at, 55)
        miss = (exact.value - value(core)) / rho - value(tail)
        size = (at / mpmath.mpf(sympy.N(distance, 60)) ** 2) ** mpmath.mpf(cut)
        assert abs(miss) < 10**6 * size
        assert abs(miss) < 1e-3 * abs(value(tail))


def test_leading_terms_are_those_of_other_classes():
    """V/K² = 2ℓ/3 wherever χ_∥ = 1 − 1/ℓ; of K itself the law is printed."""
    found = recursion("V").asymptotics("hard_tanh").normalised
    assert found.terms[0].expr == 2 * ell / 3
    assert recursion("V").asymptotics("tanh").normalised.terms[0].expr.subs(ell, 1) != 0
    kernel = recursion("K").asymptotics("hard_tanh")
    assert str(kernel) == str(logarithmic_kernel("hard_tanh"))
    assert kernel.evaluate(1000) == pytest.approx(logarithmic_kernel("hard_tanh").evaluate(1000))
    assert kernel.error(1000) > 0
    assert aspect_ratio(breakdown("V", a.hard_tanh)) == 240 * K**2
    both = together([recursion("V"), recursion("G1")], a.hard_tanh)
    assert both["V"].terms == recursion("V").asymptotics("hard_tanh").terms
    assert "with K of layer ℓ" in str(both["G1"])
    assert both["G1"].latex().endswith(r"O\left(K^{2} \ell\right)")


def test_the_kernel_alone_fixes_the_shift():
    found = recursion("V").asymptotics("hard_tanh", 4)
    shift = found.matched({"K": 0.04}, 1000)
    assert found.evaluate(1000, {K: 0.04}) == found.evaluate(1000, shift | {K: 0.04})
    assert found.error(1000, {K: 0.04}) == found.error(1000, shift | {K: 0.04})
    for value in (0.0, -0.1, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"^values: .* a positive, finite K"):
            found.matched({"K": value}, 3)
    for layer in (0, True):
        with pytest.raises(InputError, match=r"^layer: .* 1 or more"):
            found.matched({"K": 0.04}, layer)
        with pytest.raises(InputError, match=r"^layer: .* 1 or more"):
            found.error(layer, {K: 0.04})


def test_errors_count_the_powers_that_cancel():
    """D with orthogonal weights is driven by parts of K², of V and Θ, whose sum begins with K³:
    what is dropped of a part is 1/K as large beside the sum."""
    dropped = recursion("D", Orthogonal()).asymptotics("hard_tanh").series.dropped
    parts = [
        recursion(each, Orthogonal()).asymptotics("hard_tanh").series for each in ("V", "Theta")
    ]
    largest = min(each.dropped.kernel for each in parts)
    assert (dropped.gap, dropped.kernel, dropped.start) == (1, largest - 1, -1)


def test_rates_and_refusals():
    faster = recursion("Theta").asymptotics("hard_tanh", 1, lambda_b=1, lambda_W=1)
    assert faster.terms[0].expr == ell
    with pytest.raises(InputError, match="the first layers"):
        recursion("Theta").asymptotics("hard_tanh", lambda_b=1 / ell, lambda_W=0).terms  # noqa: B018
    with pytest.raises(InputError, match="sums of powers"):
        recursion("Theta").asymptotics("hard_tanh", lambda_W=sympy.log(ell)).terms  # noqa: B018
    for layer, reason in ((dropout("1/2"), "C_W = 1/2 χ.*no power"), (residual(skip=1), "no sol")):
        with pytest.raises(
            InputError, match=rf"^layer: got .{layer.label[:7]}.*hard_tanh.*{reason}"
        ):
            recursion("V", layer=layer).asymptotics("hard_tanh").terms  # noqa: B018
    with pytest.raises(InputError, match="C_W1"):
        counterterm(a.hard_tanh).terms  # noqa: B018
