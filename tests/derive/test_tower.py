"""The tower K, G1, V, Θ, Θ1, D, F, A, B, P, Q, R, S, T, U against recursions derived by hand.

The expected side follows PDLT (arXiv 2106.10165, chapters 4, 8, 11 and ∞), one layer by hand:
with Ω_ab = λ_W σ_a σ_b + C_W Θ_ab σ'_a σ'_b and the papers' insertions ⟨… (z^a z^b − K^ab)⟩. The
orthogonal terms come from W(p,q) = −1/n³ off the diagonal, where the columns pair the ends of every
NTK in the layer below, as they must to meet its mean.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import pytest
import sympy
from derivative_forms import derivative_form

from derive import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    activations,
    recursion,
    symbols,
)
from derive.engine import NAMES, spell, tensor
from derive.gaussian import Average, Component, HermiteAverage
from derive.symbols import C_W, C_b, lambda_b, lambda_W

TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
LEADING_IS_FROZEN = {"K", "Theta"}

Product = dict[tuple[tuple[int, int], ...], sympy.Expr]
"""Σ coefficient Π σ^{(order)}_sample, by the factors (sample, order)."""


def component(name: str, *samples: int) -> sympy.Expr:
    """T_{samples} in the literature's order of subscripts."""
    entry = NAMES[name]
    slots = dict(zip(entry.subscripts, samples, strict=True))
    labels = tuple(slots[slot] for slot in range(len(slots)))
    return Component(*spell(tensor(entry.fields, entry.order, entry.pairing, labels)))


def s(text: str) -> Product:
    """The product written as "1 2' 3''": samples with the primes of their σ."""
    factors = sorted((int(word.rstrip("'")), word.count("'")) for word in text.split())
    return {tuple(factors): sympy.S.One}


def omega(a: int, b: int) -> Product:
    """Ω_ab."""
    parts = ((lambda_W, s(f"{a} {b}")), (C_W * component("Theta", a, b), s(f"{a}' {b}'")))
    return {key: factor for factor, part in parts for key in part}


def times(left: Product, right: Product) -> Product:
    return {tuple(sorted(a + b)): x * y for (a, x), (b, y) in product(left.items(), right.items())}


def mean(given: Product | str, *z: int) -> sympy.Expr:
    """⟨… :z^a z^b …:⟩ as the papers have it."""
    terms = s(given) if isinstance(given, str) else given
    made = (
        value * (HermiteAverage(factors, z) if z else Average(factors))
        for factors, value in terms.items()
    )
    return sympy.Add(*made)


def inserted(name: str, *subscripts: int | str, **brackets: tuple[Product | str, tuple[int, ...]]):
    """Σ_{a, b, …} T_{… a … b …} Π ⟨…⟩: `brackets` gives, for letters such as "ab", the bracket that
    carries z^a z^b, and the samples these are summed over."""
    letters = "".join(brackets)
    total = sympy.S.Zero
    ranges = [samples for group, (_, samples) in brackets.items() for _ in group]
    for chosen in product(*ranges):
        value = dict(zip(letters, chosen, strict=True))
        labels = [value.get(each, each) for each in subscripts]
        term = component(name, *labels)
        for group, (inner, _) in brackets.items():
            term *= mean(inner, *(value[letter] for letter in group))
        total += term
    return total


def vertex(left: Product | str, right: Product | str) -> sympy.Expr:
    """¼ Σ V_{(ab)(cd)} ⟨left (z^a z^b − K^ab)⟩⟨right (z^c z^d − K^cd)⟩."""
    return inserted("V", *"abcd", ab=(left, (1, 2)), cd=(right, (3, 4))) / 4


def bubble(left: Product | str, right: Product | str) -> sympy.Expr:
    """⟨left right⟩ − ⟨left⟩⟨right⟩."""
    l, r = (s(each) if isinstance(each, str) else each for each in (left, right))  # noqa: E741
    return mean(times(l, r)) - mean(l) * mean(r)


def theta(*pairs: int) -> sympy.Expr:
    """Θ_ab Θ_cd … of the digits ab, cd, …"""
    return sympy.prod([component("Theta", *divmod(pair, 10)) for pair in pairs])


def expected(name: str) -> sympy.Expr:
    """The Gaussian recursion with subscripts 1234 (V, D, A, R, S), 1324 (F, B, T), 1423 (U), or
    0123 (P, Q) written 1234."""
    two = (1, 2)
    if name == "K":
        return C_b + C_W * mean("1 2")
    if name == "G1":
        return C_W * (
            inserted("G1", *"ab", ab=("1 2", two)) / 2
            + inserted("V", *"abcd", abcd=("1 2", two)) / 8
        )
    if name == "V":
        return C_W**2 * (bubble("1 2", "3 4") + vertex("1 2", "3 4"))
    if name == "Theta":
        return lambda_b + mean(omega(1, 2))
    if name == "Theta1":
        slopes = ("1' 2'", two)
        return (
            inserted("G1", *"ab", ab=(omega(1, 2), two)) / 2
            + inserted("V", *"abcd", abcd=(omega(1, 2), two)) / 8
            + C_W * component("Theta1", 1, 2) * mean("1' 2'")
            + C_W * inserted("D", "a", "b", 1, 2, ab=slopes) / 2
            + C_W * inserted("F", "a", 1, "b", 2, ab=slopes) / 2
            + C_W * inserted("F", "a", 2, "b", 1, ab=slopes) / 2
        )
    if name == "D":
        return C_W * (
            bubble("1 2", omega(3, 4))
            + vertex("1 2", omega(3, 4))
            + C_W * mean("3' 4'") * inserted("D", "a", "b", 3, 4, ab=("1 2", two)) / 2
        )
    if name == "A":
        return (
            bubble(omega(1, 2), omega(3, 4))
            + vertex(omega(1, 2), omega(3, 4))
            + C_W * mean("3' 4'") * inserted("D", "a", "b", 3, 4, ab=(omega(1, 2), two)) / 2
            + C_W * mean("1' 2'") * inserted("D", "a", "b", 1, 2, ab=(omega(3, 4), (3, 4))) / 2
            + C_W**2 * component("A", 1, 2, 3, 4) * mean("1' 2'") * mean("3' 4'")
        )
    if name == "F":
        return C_W**2 * (
            theta(34) * mean("1 2 3' 4'")
            + inserted("F", "a", 3, "b", 4, a=("1 3'", (1, 3)), b=("2 4'", (2, 4)))
        )
    if name == "B":
        return C_W**2 * (
            theta(12, 34) * mean("1' 2' 3' 4'")
            + component("B", 1, 3, 2, 4) * mean("1' 3'") * mean("2' 4'")
        )
    if name == "P":
        return C_W**2 * (
            theta(12, 13) * mean("1'' 2' 3' 4")
            + component("B", 1, 1, 2, 3) * mean("1'' 4") * mean("2' 3'")
            + inserted("P", 1, 2, 3, "a", a=("1' 4", (1, 4))) * mean("2' 3'")
        )
    if name == "Q":
        right = ("3' 4", (3, 4))
        old = (
            theta(12, 13) * mean("1'' 2' 3' 4")
            + theta(12) * inserted("F", "a", 1, "b", 3, a=("1'' 2'", two), b=right)
            + inserted("Q", 1, 2, 3, "b", b=right) * mean("1' 2'")
        )
        new = theta(13) * mean("1' 2 3' 4") + inserted(
            "F", "a", 1, "b", 3, a=("1' 2", two), b=right
        )
        return C_W**2 * old + C_W * lambda_W * new
    if name == "R":
        tail = mean("3' 4'")
        old = (
            theta(12, 13, 14) * mean("1''' 2' 3' 4'")
            + theta(12) * component("B", 1, 1, 3, 4) * mean("1''' 2'") * tail
            + theta(12) * inserted("P", 1, 3, 4, "a", a=("1'' 2'", two)) * tail
            + component("R", 1, 2, 3, 4) * mean("1' 2'") * tail
        )
        new = (
            theta(13, 14) * mean("1'' 2 3' 4'")
            + component("B", 1, 1, 3, 4) * mean("1'' 2") * tail
            + inserted("P", 1, 3, 4, "a", a=("1' 2", two)) * tail
        )
        return C_W**2 * old + C_W * lambda_W * new
    four = theta(12, 13, 24) * mean("1'' 2'' 3' 4'")
    if name == "S":
        tail, source = mean("3' 4'"), component("B", 1, 2, 3, 4)
        old = four + (theta(12) * source * mean("1'' 2''")) * tail
        old += component("S", 1, 2, 3, 4) * mean("1' 2'") * tail
        new = theta(13, 24) * mean("1' 2' 3' 4'") + source * mean("1' 2'") * tail
        return C_W**2 * old + C_W * lambda_W * new
    if name == "T":
        # z_1 with its edge to 3, and z_2 with its edge to 4: each old (C_W) or new (λ_W)
        left = {C_W: (theta(13), "1'' 3'"), lambda_W: (sympy.S.One, "1' 3")}
        right = {C_W: (theta(24), "2'' 4'"), lambda_W: (sympy.S.One, "2' 4")}
        total = C_W**2 * component("T", 1, 3, 2, 4) * mean("1' 3'") * mean("2' 4'")
        for x, (first, here) in left.items():
            total += C_W * x * first * mean("2' 4'") * inserted("Q", 2, 4, 1, "a", a=(here, (1, 3)))
            for y, (second, there) in right.items():
                chain = theta(12) * mean(times(s(here), s(there)))
                chain += inserted("F", "a", 1, "b", 2, a=(here, (1, 3)), b=(there, (2, 4)))
                total += x * y * first * second * chain
        for y, (second, there) in right.items():
            total += C_W * y * second * mean("1' 3'") * inserted(
                "Q", 1, 3, 2, "a", a=(there, (2, 4))
            )  # fmt: skip
        return total
    assert name == "U"
    return C_W**2 * (four + component("U", 1, 4, 2, 3) * mean("1' 4'") * mean("2' 3'"))


SUBSCRIPTS = {"F": (1, 3, 2, 4), "B": (1, 3, 2, 4), "T": (1, 3, 2, 4), "U": (1, 4, 2, 3)}


def derived(name, weights=None):
    """The engine's recursion with the subscripts of `expected`."""
    made = recursion(name, weights)
    order = SUBSCRIPTS.get(name, tuple(range(1, len(made.samples) + 1)))
    return replace(made, samples=order).expr


def extra(name: str) -> sympy.Expr:
    """What orthogonal weights add, by hand: the other two ways to pair columns."""
    if name == "V":
        return -(C_W**2) * (mean("1 3") * mean("2 4") + mean("1 4") * mean("2 3"))
    if name == "F":
        return -(C_W**2) * theta(34) * mean("1 2") * mean("3' 4'")
    if name == "B":
        return -(C_W**2) * theta(12, 34) * mean("1' 2'") * mean("3' 4'")
    return sympy.S.Zero


@pytest.mark.parametrize("name", TOWER)
def test_gaussian_recursion_of_several_inputs(name):
    """PDLT's, for any σ and any inputs."""
    assert sympy.expand(derived(name) - derivative_form(expected(name))) == 0


@pytest.mark.parametrize("name", TOWER)
def test_orthogonal_minus_gaussian(name):
    """(5.15) for V; F and B get the columns that close each NTK on its mean, the others nothing."""
    difference = sympy.expand(derived(name, Orthogonal()) - derived(name, Gaussian()))
    assert sympy.expand(difference - extra(name)) == 0


g = sympy.Symbol("gamma", positive=True)
p_1, p_2, p_3, p_4 = sympy.symbols("p_1:5", positive=True)
SPECTRA = {
    BiInvariant(moments=(p_1, p_2, p_3, p_4)): 1 - p_2 / p_1**2,
    LowRankOrthogonal(gamma=g): 1 - 1 / g,
    LowRankGaussian(gamma=g): -1 / g,
    Gaussian(): -1,
    Orthogonal(): 0,
}


@pytest.mark.parametrize("name", TOWER)
@pytest.mark.parametrize("weights", SPECTRA, ids=lambda weights: weights.name)
def test_the_spectrum_enters_through_its_second_moment(name, weights):
    """C_W S(x) = 1 + s_1 x + … of WᵀW, s_1 = 1 − m_2/m_1²: each tensor's recursion is Gaussian
    plus (1 + s_1) times the orthogonal extra."""
    difference = derived(name, weights) - derived(name, Gaussian())
    assert sympy.expand(difference - (1 + SPECTRA[weights]) * extra(name)) == 0


SYMMETRIES = {
    "K": [(2, 1)],
    "G1": [(2, 1)],
    "Theta": [(2, 1)],
    "Theta1": [(2, 1)],
    "V": [(2, 1, 3, 4), (3, 4, 1, 2)],
    "D": [(2, 1, 3, 4), (1, 2, 4, 3)],
    "F": [(3, 4, 1, 2)],
    "A": [(2, 1, 3, 4), (3, 4, 1, 2)],
    "B": [(3, 4, 1, 2), (2, 1, 4, 3)],
    "P": [(1, 3, 2, 4)],
    "Q": [],
    "R": [(1, 2, 4, 3)],
    "S": [(2, 1, 4, 3)],
    "T": [(3, 4, 1, 2)],
    "U": [(3, 4, 1, 2)],
}
"""Generators, as new subscripts in place of 1, 2, 3, 4: swaps of equal fields and of a tree's ends
that keep the pairing."""


def group(generators, size):
    found = {tuple(range(1, size + 1))}
    while (
        more := {
            tuple(element[k - 1] for k in generator)
            for element in found
            for generator in generators
        }
        - found
    ):
        found |= more
    return found


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=str)
@pytest.mark.parametrize("name", TOWER)
def test_symmetries(name, weights):
    """Permuting samples permutes components: the right-hand side is the same exactly where the
    tensor's own symmetries say so."""
    made = recursion(name, weights)
    size = len(made.samples)
    symmetric = group(SYMMETRIES[name], size)
    for order in permutations(range(1, size + 1)):
        moved = replace(made, samples=order)
        assert (moved.terms == made.terms) == (order in symmetric)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=str)
def test_the_first_layer(weights):
    """Its NTK is λ_b + λ_W K0, not random; z of layer 1 is Gaussian unless W is not."""
    K0 = component("K", 1, 2).func("K0", (1, 2))
    expected_first = {"K": C_b + C_W * K0, "Theta": lambda_b + lambda_W * K0}
    for name in TOWER:
        expr = recursion(name, weights, first_layer=True).expr
        if name == "V":
            assert (expr == 0) == (weights == Gaussian())
        else:
            assert sympy.expand(expr - expected_first.get(name, 0)) == 0


def flow_exactly(weights, activation, depth, values):
    """Every single-input tensor at layers 1 … depth, as sympy expressions in K0."""
    first = {
        name: recursion(name, weights, first_layer=True).single_input().expr.subs(values)
        for name in TOWER
    }
    steps = {
        name: recursion(name, weights).single_input().specialise(activation).expr.subs(values)
        for name in TOWER
    }
    layers = [first]
    for _ in range(depth - 1):
        below = {
            symbol: layers[-1][symbol.name]
            for step in steps.values()
            for symbol in step.free_symbols
            if symbol.name in layers[-1]
        }
        layers.append({name: sympy.expand(step.subs(below)) for name, step in steps.items()})
    return layers


def test_deep_linear_orthogonal_networks():
    """z = W_ℓ … W_1 x with orthogonal W_k, C_W = 1, λ_b = 0, by hand at any width:

    H = ℓ λ_W K0 1,                           so that every correlator of ΔH vanishes;
    dH_{abc} = (λ_W²K0/n) C(ℓ,2) (δ_ab z_c + δ_ac z_b),    P = 0, Q = λ_W²K0² C(ℓ,2);
    ddI ∝ (λ_W/n)³|x|² (δ_ab z_c z_d + …) is of order 1/n²,                  R = 0;
    ddII = (λ_W³/n) K0² Σ_k [(k−1)² δ_ab δ_cd + (ℓ−k)² δ_ac δ_bd] + O(1/n²), S = T, U = 0.
    """
    K0 = symbols.K0
    values = {C_W: 1, C_b: 0, lambda_b: 0}
    for layer, found in enumerate(
        flow_exactly(Orthogonal(), activations.linear, 6, values), start=1
    ):
        squares = layer * (layer - 1) * (2 * layer - 1) // 6
        by_hand = dict.fromkeys(TOWER, sympy.S.Zero) | {
            "K": K0,
            "V": -2 * K0**2,
            "Theta": layer * lambda_W * K0,
            "Q": lambda_W**2 * K0**2 * sympy.binomial(layer, 2),
            "S": lambda_W**3 * K0**2 * squares,
            "T": lambda_W**3 * K0**2 * squares,
        }
        assert {name: sympy.expand(found[name] - by_hand[name]) for name in TOWER} == dict.fromkeys(
            TOWER, 0
        )


def test_deep_linear_gaussian_networks():
    """With one bias-free input, λ_b = 0 and C_W = 1, H_ab = (λ_W/n) Σ_k |z^{k−1}|² (B_k B_kᵀ)_ab.

    E[|z^{k}|⁴] = (1 + 2/n)^k |x|⁴ and E[(B Bᵀ)_11] = 1 give V = 2(ℓ−1)K0² and Θ1 = 0.
    """
    K0 = symbols.K0
    values = {C_W: 1, C_b: 0, lambda_b: 0}
    for layer, found in enumerate(flow_exactly(Gaussian(), activations.linear, 5, values), start=1):
        assert sympy.expand(found["V"] - 2 * (layer - 1) * K0**2) == 0
        assert sympy.expand(found["Theta"] - layer * lambda_W * K0) == 0
        assert found["G1"] == found["Theta1"] == 0


@pytest.mark.parametrize("weights", SPECTRA, ids=lambda weights: weights.name)
@pytest.mark.parametrize("slope", [0, Fraction(1, 3)], ids=["relu", "leaky"])
def test_the_mean_ntk_of_scale_invariant_networks_has_no_correction(weights, slope):
    """(σ²)'' and (σ'²)'' of one input at a kernel K are what they are at any K, so that V, D and F
    have no way into G1 and Θ1, which start from nothing: both vanish at every depth."""
    activation = activations.leaky_relu(slope)
    for name in ("G1", "Theta1"):
        step = recursion(name, weights).single_input().specialise(activation).expr
        sources = {symbols.tensor(source): 0 for source in ("G1", "Theta1")}
        assert sympy.expand(step.subs(sources)) == 0
        assert step.free_symbols & sources.keys()
        assert recursion(name, weights, first_layer=True).expr == 0


def test_two_inputs_do_correct_the_mean_ntk():
    """Off the diagonal every component of D, F and V is a source of ReLU's Θ1."""
    expr = sympy.expand(recursion("Theta1").specialise(activations.relu).expr)
    kernel = dict.fromkeys([component("K", 1, 1), component("K", 2, 2)], sympy.S.One)
    kernel[component("K", 1, 2)] = sympy.Rational(1, 3)
    at = sympy.expand(expr.xreplace(kernel))
    sources = {each for each in expr.atoms(Component) if str(each.args[0]) in "DFV"}
    assert len(sources) == 3 + 4 + 6
    assert all(sympy.simplify(at.coeff(each)) != 0 for each in sources)


DEGREES = dict.fromkeys(["K", "G1", "Theta", "Theta1"], 2) | dict.fromkeys("VDFAB", 4)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=str)
@pytest.mark.parametrize("name", ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"])
def test_scale_covariance(name, weights):
    """x → c x multiplies z, H, … of a bias-free leaky-ReLU network by c to a known power, and so
    every term of the recursion."""
    c = sympy.Symbol("c", positive=True)
    made = (
        recursion(name, weights).single_input().specialise(activations.leaky_relu(Fraction(1, 3)))
    )
    expr = made.expr.subs({C_b: 0, lambda_b: 0})
    scaled = {
        symbol: c ** DEGREES[symbol.name] * symbol
        for symbol in expr.free_symbols
        if symbol.name in DEGREES
    }
    assert scaled
    assert sympy.expand(expr.subs(scaled, simultaneous=True) - c ** DEGREES[name] * expr) == 0
