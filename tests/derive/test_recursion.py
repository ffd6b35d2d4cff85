"""The engine: forward equations by differentiation, recursions by averaging one layer."""

from __future__ import annotations

import cProfile
import random
import tracemalloc
from itertools import pairwise, permutations, product

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import (
    BiInvariant,
    Equation,
    Gaussian,
    LowRankGaussian,
    Orthogonal,
    activations,
    recursion,
    symbols,
)
from derive.arithmetic import add, constant, monomial, multiply
from derive.engine import (
    DDH_I,
    DDH_II,
    DH,
    NAMES,
    Field,
    H,
    Scheme,
    Z,
    closure,
    cumulants,
    forward,
    slots_of,
    spell,
    tensor,
)
from derive.engine.step.coefficients import coefficient
from derive.errors import InputError
from derive.gaussian import Average, Component
from derive.groups import pair_partitions
from derive.symbols import C_W, C_b
from derive.work.caches import clear_caches

V, G1, K = map(symbols.tensor, ("V", "G1", "K"))
ENSEMBLES = [Gaussian(), Orthogonal()]


def average(*samples: int, outer: tuple[int, ...] = ()) -> Average:
    return Average([(sample, 0) for sample in samples], outer)


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_kernel(weights):
    """Source 000, eq. (5.3), the same for both ensembles."""
    assert recursion("K", weights).expr == C_b + C_W * average(1, 2)


@pytest.mark.parametrize(("weights", "extra"), [(Gaussian(), 1), (Orthogonal(), 3)], ids=str)
def test_single_input_vertex(weights, extra):
    """(5.18), with chi_parallel = C_W ⟨(σ²)''⟩/2."""
    chi = C_W * average(1, 1, outer=(1, 1)) / 2
    expected = C_W**2 * (average(1, 1, 1, 1) - extra * average(1, 1) ** 2) + chi**2 * V
    assert sympy.expand(recursion("V", weights).single_input().expr - expected) == 0


def test_multi_input_vertex():
    """The inhomogeneous term of (5.16) has the indices of a Wick contraction."""
    expr = sympy.expand(recursion("V", Orthogonal()).expr)
    inhomogeneous = sum(term for term in expr.args if not term.has(Component))
    expected = average(1, 2, 3, 4) - sum(
        average(a, b) * average(c, d) for a, b, c, d in ((1, 2, 3, 4), (1, 3, 2, 4), (1, 4, 2, 3))
    )
    assert sympy.expand(inhomogeneous - C_W**2 * expected) == 0
    propagated = sum(
        sympy.Rational(1, 4)
        * Component("V", (*sorted((a, b)), *sorted((c, d))))
        * average(1, 2, outer=tuple(sorted((a, b))))
        * average(3, 4, outer=tuple(sorted((c, d))))
        for a in (1, 2)
        for b in (1, 2)
        for c in (3, 4)
        for d in (3, 4)
    )
    assert sympy.expand(expr - inhomogeneous - C_W**2 * propagated) == 0


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_metric_correction_knows_the_weights_through_V_alone(weights):
    expected = C_W * (
        G1 * average(1, 1, outer=(1, 1)) / 2 + V * average(1, 1, outer=(1, 1, 1, 1)) / 8
    )
    assert sympy.expand(recursion("G1", weights).single_input().expr - expected) == 0


def test_first_layer():
    """(5.17) and the text below: V^{(1)} = −(K K + K K) for orthogonal weights, 0 for Gaussian."""
    K0 = {pair: Component("K0", pair) for pair in ((1, 3), (2, 4), (1, 4), (2, 3))}
    expected = -(C_W**2) * (K0[1, 3] * K0[2, 4] + K0[1, 4] * K0[2, 3])
    assert sympy.expand(recursion("V", Orthogonal(), first_layer=True).expr - expected) == 0
    assert recursion("V", Gaussian(), first_layer=True).expr == 0
    assert recursion("G1", Orthogonal(), first_layer=True).expr == 0


def test_unequal_widths_come_with_gaussian_weights():
    """The loops of layer ℓ are counted by n_ℓ, the tensors by n: V's source is divided by r."""
    r = symbols.r_in
    expr = sympy.expand(recursion("V", Gaussian(), equal_widths=False).single_input().expr)
    source = sum(term for term in expr.args if not term.has(V))
    equal = C_W**2 * (average(1, 1, 1, 1) - average(1, 1) ** 2)
    assert sympy.expand(source - equal / r) == 0


def test_the_ntk_and_its_descendants_follow_by_differentiation():
    """Source 000, eq. (6.4): a bias term, a new-weight term, and W W σ' σ' H."""
    terms = forward(H, (0, 1), (1, 2))
    assert len(terms) == 3
    chained = [term for term in terms if term.fields]
    assert [[factor[:3] for factor in term.factors] for term in chained] == [[(0, 1, 1), (1, 2, 1)]]
    assert chained[0].fields[0].field == H
    assert [
        len(forward(field, tuple(range(field.nodes)), tuple(range(field.nodes))))
        for field in (Z, DH, DDH_I, DDH_II)
    ] == [2, 4, 11, 10]


def test_frozen_ntk():
    """PDLT's Θ: λ_b + λ_W⟨σσ⟩ + C_W⟨σ'σ'⟩Θ, from the engine that knows no tensor by name."""
    expr = recursion("Theta").single_input().expr
    lambda_W, lambda_b = symbols.lambda_W, symbols.lambda_b
    slope = Average([(1, 1), (1, 1)])
    theta = symbols.tensor("Theta")
    assert sympy.expand(expr - lambda_b - lambda_W * average(1, 1) - C_W * slope * theta) == 0


@pytest.mark.parametrize("name", ["V", "G1", "D", "F", "A", "B", "Theta1"])
@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_linear_networks_need_no_activation(name, weights):
    """With σ = z every bracket is a polynomial: what remains is rational in K and the tensors."""
    made = recursion(name, weights).single_input().specialise(activations.linear)
    assert not made.expr.atoms(Average)
    assert made.depends_on


def test_a_symbolic_slope_passes_through():
    a = sympy.Symbol("a", positive=True)
    made = recursion("K").single_input().specialise(activations.leaky_relu(a))
    K_ = symbols.K
    assert sympy.simplify(made.expr - C_b - C_W * K_ * (1 + a**2) / 2) == 0


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(4)), st.sampled_from(pair_partitions(4)))
def test_tensors_of_equal_fields_are_one(order, pairing):
    """κ(z z H) does not mind in which order its fields, or the ends of an edge, are named."""
    labels = (1, 2, 3, 4)
    fields = (Z, Z, H)
    swapped = (1, 0, 3, 2)
    moved = tuple(tuple(sorted((swapped[a], swapped[b]))) for a, b in pairing)
    again = tensor(fields, 0, tuple(sorted(moved)), tuple(labels[k] for k in swapped))
    assert again == tensor(fields, 0, pairing, labels)
    z_labels = tuple(labels[k] for k in order)
    z_pairing = tuple(sorted(tuple(sorted((order.index(a), order.index(b)))) for a, b in pairing))
    assert tensor((Z,) * 4, 0, z_pairing, z_labels) == tensor((Z,) * 4, 0, pairing, labels)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_back(name):
    entry = NAMES[name]
    labels = tuple(range(2 * len(entry.pairing)))
    assert spell(tensor(entry.fields, entry.order, entry.pairing, labels))[0] == name


def test_cumulants_are_symmetric_in_their_samples():
    cumulant = cumulants.layer_cumulant((Z,) * 4, (1, 2, 3, 4), Orthogonal(), 1)
    first = cumulant[((0, 1), (2, 3))]
    relabelled = cumulants.layer_cumulant((Z,) * 4, (1, 3, 2, 4), Orthogonal(), 1)[((0, 2), (1, 3))]
    assert first == relabelled


def test_polynomials_of_the_engine():
    x, y = monomial(["x"]), monomial(["y"])
    a = {(x, 0): 1, (y, 1): 2}
    assert multiply(a, a, 1) == {(monomial(["x", "x"]), 0): 1, (monomial(["x", "y"]), 1): 4}
    total = constant(3)
    add(total, constant(3), -1)
    assert total == {}


def test_a_field_of_ones_own():
    """κ(z, φ) of a path of five nodes is derived like any other."""
    field = Field(5, ((0, 1), (1, 2), (2, 3), (3, 4)))
    made = recursion([Z, field], pairing=((0, 1), (2, 3), (4, 5)))
    assert "K" in made.depends_on


def test_it_shows_itself():
    made = recursion("V", weights=Orthogonal()).single_input()
    assert str(made) == "V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4 - 3*⟨σ²⟩**2 + ⟨σ⁴⟩)"
    assert made.latex().startswith(r"V^{(\ell+1)} = C_{W}^{2}")
    assert made._repr_latex_().startswith(r"$\displaystyle V^{(\ell+1)}")
    assert r"V_{(\alpha_{1}\alpha_{2})(\alpha_{3}\alpha_{4})}" in recursion("V").latex()
    assert r"G^{\{1\}}" in recursion("G1").single_input().latex()
    assert recursion("V").depends_on == ("K", "V")
    closed = made.specialise(activations.relu)
    expected = C_W**2 * (3 * symbols.K**2 + V) / 4
    assert sympy.expand(closed.expr - expected) == 0


def test_an_average_without_a_closed_form_evaluates():
    made = recursion("K").single_input().specialise(activations.tanh)
    value = made.expr.subs({C_W: 1, C_b: 0, symbols.K: 1}).evalf(20)
    assert abs(value - sympy.Float("0.39429449039784101837", 20)) < 1e-15


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: recursion("W"), "tensor"),
        (lambda: recursion("V", weights="orthogonal weights"), "weights"),
        (lambda: recursion(["z"]), "fields"),
        (lambda: recursion(["q", "z"]), "fields"),
        (lambda: recursion(["z", "z", "H"]), "pairing"),
        (lambda: recursion(["z", "z"], pairing=((0, 2),)), "pairing"),
        (lambda: recursion(["z", "z"], order=-1), "order"),
        (lambda: recursion("V", pairing=((0, 1), (2, 3))), "pairing"),
        (lambda: recursion("V").specialise("tan"), "activation"),
        (lambda: Gaussian(-1), "C_W"),
        (lambda: Orthogonal(float("nan")), "C_W"),
        (lambda: Field(3, ((0, 1),)), "edges"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_all_names_of_the_tower_are_derived():
    for name in NAMES:
        made = recursion(name, Orthogonal())
        assert made.name == name
        assert len(made.samples) == 2 * len(NAMES[name].pairing)


def test_fields_are_given_in_any_order():
    """P_{α0α1α2α3} is κ(dH_{012}, z_3) with pairs (03)(12); (6.12)."""
    P = recursion(["dH", "z"], Orthogonal(), pairing=((0, 3), (1, 2)))
    assert P.name == "P"
    assert P.terms == recursion("P", Orthogonal()).terms
    assert recursion(["z", "dH"], pairing=((0, 1), (2, 3))).name == "P"
    assert recursion(["dH", "z"], pairing=((0, 1), (2, 3))).name == "Q"
    assert recursion("kappa(z,H,z|01 23)").name == "F"
    label = "kappa(z,z,z,z,H|01 24 35)"
    assert recursion(label).name == label


def test_the_engine_agrees_with_itself_on_every_pairing():
    """All pairings at once, or one at a time."""
    fields, samples = (Z, Z, H), (1, 2, 3, 4)
    every = cumulants.layer_cumulant(fields, samples, Orthogonal(), 1)
    for pairing in pair_partitions(4):
        one = cumulants.layer_cumulant(fields, samples, Orthogonal(), 1, pairing=pairing)
        assert one == {pairing: every[pairing]}


def test_variances_with_corrections():
    """(5.28): C_W + C_W1/n adds C_W1 ⟨σ²⟩ + C_b1 to G1, and nothing to V at this order."""
    C_W1, C_b1 = map(symbols.parameter, ("C_W1", "C_b1"))
    plain, corrected = (recursion("G1", Orthogonal(), corrections=k).expr for k in (0, 1))
    assert sympy.expand(corrected - plain - C_W1 * average(1, 2) - C_b1) == 0
    for name in ("V", "A", "Q"):
        assert recursion(name, corrections=1).terms == recursion(name).terms
    assert C_W1 in recursion("V2", corrections=1).expr.free_symbols
    with pytest.raises(InputError, match="corrections"):
        recursion("V", corrections=-1)


def test_large_requests_say_how_large_they_are(capsys, monkeypatch):
    monkeypatch.delenv("WICKGARTEN_QUIET")
    monkeypatch.setattr("derive.work.progress.SLOW", 0.01)
    made = recursion([Z, Z, Z, Z, H], pairing="01 23 45")
    made.terms  # noqa: B018
    err = capsys.readouterr().err
    assert f"deriving kappa(z, z, z, z, H): {made.work.averages} averages over the weights" in err
    eight, six = recursion(["z"] * 8).work, recursion("U6").work
    assert eight.terms > 300 * six.terms
    assert six.terms < 300_000 > recursion(["z"] * 8).single_input().work.terms // 10


@pytest.mark.parametrize(
    ("fields", "pairing", "order"),
    [
        ([Z, Z], "01", 3),
        ([Z, Z, Z, Z], "01 23", 1),
        ([Z, Z, H], "02 13", 1),
        ([DDH_I], "01 23", 1),
        pytest.param([H, H], "01 23", 1, marks=pytest.mark.slow),
        pytest.param([Z, Z, Z, Z, H], "01 23 45", 0, marks=pytest.mark.slow),
        pytest.param([Z] * 6, "01 23 45", 0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_time_and_memory_are_told_beforehand(fields, pairing, order):
    """To a factor of five; time as calls of functions, of which some 4·10⁶ take a second."""
    calls, (current, peak) = cProfile.Profile(), (0, 0)
    for measured in ("time", "memory"):
        clear_caches()
        made = recursion(fields, pairing=pairing, order=order)
        told = made.work
        if measured == "time":
            calls.runcall(lambda made=made: made.terms)
            continue
        tracemalloc.start()
        made.terms  # noqa: B018
        current, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert 0 < current <= peak
    assert 1 / 5 < sum(each.callcount for each in calls.getstats()) / 4e6 / told.seconds < 5
    assert 1 / 5 < peak / told.bytes < 5


def test_what_takes_too_much_memory_is_refused(monkeypatch):
    made = recursion([H, H, H], pairing="01 23 45", order=1)
    monkeypatch.setattr("derive.work.resources.memory", lambda: made.work.bytes - 1)
    with pytest.raises(InputError, match=r"would take .* [MG]iB, of .* at most"):
        made.terms  # noqa: B018


def test_representatives_are_the_least_of_all_orders_of_equal_fields():
    """Against all orders: of the z, of the H, and of the two ends of each H."""
    rng = random.Random(0)
    for _ in range(150):
        fields = [Z] * rng.choice([2, 4]) + [H] * rng.choice([1, 2])
        rng.shuffle(fields)
        slots = slots_of(fields)
        points = [slot for own in slots for slot in own]
        rng.shuffle(points)
        pairing = [points[k : k + 2] for k in range(0, len(points), 2)]
        samples = [rng.randint(1, 3) for _ in points]
        metrics = [own for own in slots if len(own) == 2]
        ends = [
            each for many in permutations(metrics) for each in product(*map(permutations, many))
        ]
        variables = [own for own in slots if len(own) == 1]
        orders = (
            [slot for own in (*front, *back) for slot in own]
            for front in permutations(variables)
            for back in ends
        )
        least = min(
            (
                tuple(sorted(tuple(sorted(map(order.index, pair))) for pair in pairing)),
                tuple(samples[slot] for slot in order),
            )
            for order in orders
        )
        blocks = tuple(sorted(tuple(sorted(pair)) for pair in pairing))
        found = tensor(tuple(fields), 1, blocks, tuple(samples))
        assert found == (tuple(sorted(fields, key=lambda field: field.nodes)), 1, *least)


def test_the_work_counts_the_orders_in_n():
    """A term more in 1/n is some ten times the work: 12 of them are out of reach."""
    counts = [recursion(["z", "z"], order=order).work.terms for order in range(2, 7)]
    assert all(5 < after / before < 20 for before, after in pairwise(counts))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: recursion(["z"] * 30), "10 at most"),
        (lambda: recursion(["z"] * 10, pairing="01 23 45 67 89").terms, "would take .* h"),
        (lambda: recursion(["z", "z"], order=10).terms, "would take .* days"),
        (lambda: recursion(["z", "z"], order=10**400), "0 to 12"),
        (lambda: recursion("K", corrections=10**30), "0 to 12"),
        (lambda: pair_partitions(10**400), "bytes"),
        (lambda: pair_partitions(40), "TiB|bytes"),
    ],
)
def test_what_takes_too_long_is_refused_at_once(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_brackets_of_too_many_factors_are_refused_before_they_are_derived():
    own = Equation("S[i,k] = 1/n delta[i,k] s[a:i] s'[a:i] s[a:k] s'[a:k]")
    scheme = Scheme(Gaussian())
    for targets, message in (
        (["U6"], "U6'; wanted .* at most 4 factors, not 6"),
        (["G2"], "G2, which needs U6"),
        (["V2"], "V2, which needs U6"),
        ([recursion([own, own], pairing="01 23").target], "not 8"),
    ):
        with pytest.raises(InputError, match=message):
            closure(targets, scheme, most_factors=4)
        assert closure(targets, Scheme(Gaussian(), single=True), most_factors=4)
    assert closure(["A", "U"], scheme, most_factors=4)


def test_closure_knows_no_names():
    """What a cumulant without a name needs is found as well."""
    made = recursion(["z"] * 4 + ["H"], pairing=((0, 1), (2, 4), (3, 5)))
    needed = [name.label for name in closure([made.target], Scheme(Gaussian()))]
    assert "K" in needed
    assert made.name in needed
    assert {"F", "V", "Theta"} <= set(needed)
    assert [name.label for name in closure(["P"], Scheme(Gaussian()))] == ["K", "Theta", "B", "P"]


def test_layer_1_has_no_width_of_its_inputs():
    """K = C_W xᵀx/n_0 + C_b, whatever n_0/n is: the sum over inputs undoes the weights' 1/n_0."""
    for square in (True, False):
        made = recursion("K", Gaussian(), first_layer=True, equal_widths=square).single_input()
        C_W, C_b, K0 = sympy.symbols("C_W C_b K0")
        found = made.expr.subs({each: sympy.Symbol(each.name) for each in made.expr.free_symbols})
        assert sympy.expand(found - C_W * K0 - C_b) == 0


@pytest.mark.parametrize("name", ["K", "G1", "V", "F"])
@pytest.mark.parametrize("weights", [*ENSEMBLES, BiInvariant()], ids=str)
def test_what_terms_share_is_put_in_front_as_sympy_does(name, weights):
    made = recursion(name, weights)
    for each in (made, made.single_input()):
        total = sum(
            sympy.Rational(value.numerator, value.denominator)
            * sympy.prod([each.symbol(atom) ** exponent for atom, exponent in mono])
            for (mono, _), value in each.terms.items()
        )
        assert each.expr == sympy.factor_terms(total)
        assert str(each.expr) == str(sympy.factor_terms(total))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_terms_that_become_alike_are_added(weights):
    """⟨σ⁴⟩ and ⟨σ²⟩² of ReLU at C_W K + C_b: a linear layer and another are a residual block's."""
    pair = "around(sequence(dense(activations=linear), dense), skip=1/2)"
    made = (recursion("V", weights, layer=each) for each in (pair, "residual(skip=1/2)"))
    one, other = (each.single_input().specialise("relu").expr for each in made)
    assert sympy.expand((one - other).subs(C_b, 0)) == 0
    spread = sympy.expand((one - one.subs(C_b, 0)) / C_W**2)
    kurtosis = sympy.Rational(5 if weights == "gaussian" else 3, 4)
    assert sympy.expand(spread - kurtosis * ((C_W * K + C_b) ** 2 - (C_W * K) ** 2)) == 0


def test_one_derivation_serves_every_variance_of_the_weights():
    first = recursion("V", LowRankGaussian("3/2", gamma="1/4"))
    assert first.weights.unit_variance == LowRankGaussian(1, gamma="1/4")
    coefficient.cache_clear()
    known = first.terms
    misses = coefficient.cache_info().misses
    other = recursion("V", LowRankGaussian("7/5", gamma="1/4"))
    assert other.terms == known
    assert coefficient.cache_info().misses == misses
    assert str(other.weights.C_W) == "7/5"


def test_the_old_name_of_an_argument_warns():
    with pytest.warns(DeprecationWarning, match="square is called equal_widths"):
        old = recursion("V", Orthogonal(), square=False)
    assert old == recursion("V", Orthogonal(), equal_widths=False)
