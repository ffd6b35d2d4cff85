"""Independent weights in layers of several stages: blocks of four equal indices go through all."""

from fractions import Fraction
from itertools import product
from math import prod

import pytest
import sympy

from derive import (
    Gaussian,
    Independent,
    Orthogonal,
    Permuted,
    Rademacher,
    activations,
    layers,
    recursion,
)
from derive.arithmetic import C_B, C_W, UNIT
from derive.engine import Z, cumulants
from derive.groups import even_partitions, mobius, set_partitions

KAPPA_4 = sympy.Symbol("kappa_4")
ANY = Independent({4: KAPPA_4})
KAPPA = "kappa(z,z,z,z|0123)"
BLOCKS = ("normalized(layer)", "residual(skip=1/2)", "gated(skip=1/2, norm=rms)")


def sign_matrices(n):
    """All matrices of ±1."""
    for signs in product((1, -1), repeat=n * n):
        yield [signs[k * n : (k + 1) * n] for k in range(n)]


def applied(matrix, vector):
    return [sum(w * x for w, x in zip(row, vector, strict=True)) for row in matrix]


def cumulant_of(samples, places):
    """The joint cumulant of the entries at these places, all samples alike."""

    def mean(block):
        return Fraction(sum(prod(z[places[k]] for k in block) for z in samples), len(samples))

    partitions = set_partitions(tuple(range(len(places))))
    return sum(mobius(len(p)) * prod(map(mean, p)) for p in partitions)


@pytest.mark.parametrize("lines", [["z[i] = 3 z[i] + W[i,a] s(z[a])"], ["z[i] = z[i]"]])
def test_all_matrices_of_signs_behind_what_is_carried(lines):
    """Every cumulant of four z behind a stage with a carried z, by enumeration at n = 2."""
    n, inputs = 2, (1, 2)
    before = [applied(W, inputs) for W in sign_matrices(n)]
    stage = layers.Layer(*lines).stages[0]

    def below(average, whole, order):
        carried = {j for placed in whole.fields for j in placed.neurons if j < 0}
        number = {j: place for place, j in enumerate(sorted(carried))}
        total = 0
        for z in before:
            for chosen in product(range(n), repeat=len(whole.neurons)):
                at = number | dict(enumerate(chosen))
                values = [z[at[j]] for placed in whole.fields for j in placed.neurons]
                values += [z[at[j]] + z[at[j]] ** 2 for j, *_ in whole.factors]
                total += prod(values)
        return {(UNIT, 0): Fraction(total, len(before))}

    def value(blocks):
        found = cumulants.layer_cumulant(
            (Z,) * 4, (1,) * 4, Rademacher(), 12, below=below, pairing=blocks, stage=stage
        )
        terms = found[blocks].items()
        assert all({atom for atom, _ in mono} <= {C_W, C_B} for (mono, _), _ in terms)
        scales = ((dict(mono).get(C_W, 0), at, each) for (mono, at), each in terms)
        return sum(each * n**power / Fraction(n) ** at for power, at, each in scales)

    weights = list(sign_matrices(n)) if stage.matrices else [[[0, 0], [0, 0]]]
    scale = 3 if stage.matrices else 1
    behind = [
        [scale * x + y for x, y in zip(z, applied(W, [x + x * x for x in z]), strict=True)]
        for z in before
        for W in weights
    ]
    values = {blocks: value(blocks) for blocks in even_partitions(range(4))}
    assert values[(tuple(range(4)),)] != 0
    for places in product(range(n), repeat=4):
        expected = cumulant_of(behind, places)
        made = (
            each
            for blocks, each in values.items()
            if all(places[k] == places[block[0]] for block in blocks for k in block)
        )
        assert sum(made) == expected


@pytest.mark.parametrize("name", ["G1", KAPPA, "Theta1", "V2", "kappa(z,z,H|0123)"])
def test_a_stage_that_carries_only_changes_nothing(name):
    """The dense layer of σ(2 z), in one stage and in two."""
    spelled = layers.Layer("y[i] = 2 z[i]", "z[i] = b[i] + W[i,a] s(y[a])")
    assert len(spelled.stages) == 2
    sigma = activations.polynomial([0, 1, "1/2"]), activations.polynomial([0, 2, 2])
    one, other = (
        recursion(name, ANY, layer=layer).single_input().specialise(own).expr
        for layer, own in zip((spelled, layers.dense()), sigma, strict=True)
    )
    assert "kappa" in str(other)
    assert sympy.expand(one - other) == 0


def test_a_residual_block_is_the_sum_over_its_moments():
    """E z'² = γ² E z² + C E σ(h)² with h = W z of cumulants Σ z²/n and κ_4 Σ z⁴/n²."""
    a, b, gamma, C, K, t = sympy.symbols("a b gamma C K t", positive=True)
    block = layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "z[i] = gamma z[i] + W2[i,a] s(h[a])",
        gamma=gamma,
        weights={"W1": ANY},
    )
    made = recursion("G1", "orthogonal", layer=block).single_input()
    sigma = activations.polynomial([0, a, 0, b])
    found = made.specialise(sigma).expr
    values = {str(each): each for each in found.free_symbols}
    assert "V" in values
    found = found.subs({values["G1"]: 0, values["V"]: 0, values["K"]: K, values["C_W"]: C})
    squares, fourths = K**2 * (1 + 2 * t), 3 * K**2  # of Gaussian z: E (Σz²/n)², Σz⁴/n
    cubes = K**3 * (1 + 6 * t)  # E (Σz²/n)³ to order 1/n
    h4 = 3 * squares + KAPPA_4 * fourths * t
    h6 = 15 * cubes + 15 * KAPPA_4 * fourths * K * t
    expected = C * (2 * a * b * h4 + b**2 * h6)
    assert sympy.expand(found - sympy.expand(expected).coeff(t)) == 0


def test_a_norm_of_independent_neurons_by_the_delta_method():
    """E y⁴ of y = z/√q is m_4/m_2² with m_4 = 3 + X/n, less 6/n as on the sphere."""
    made = recursion("G1", ANY, layer=layers.normalized("rms")).single_input()
    found = made.specialise(activations.polynomial([0, 0, 1])).expr
    values = {str(each): each for each in found.free_symbols}
    at = {values["K"]: 2, values["C_W"]: 1}
    assert sympy.simplify(found.subs(at) - (values[KAPPA] / 4 - 6)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("text", BLOCKS)
def test_without_a_fourth_cumulant_the_law_is_gaussian(text):
    layer = layers.read(text)
    for name in ("K", "G1", "V", "Theta", "Theta1", "D", "F"):
        one, other = (
            recursion(name, law, layer=layer).single_input().expr
            for law in (Independent({4: 0}), Gaussian())
        )
        one = one.subs({each: 0 for each in one.free_symbols if "|0123" in str(each)})
        assert sympy.expand(one - other) == 0, name


@pytest.mark.parametrize("text", BLOCKS)
def test_haar_s_moments_give_haar_s_recursions(text):
    n = sympy.Symbol("n")
    scale = 1 / (n * (n - 1) * (n + 2))
    edge = (n - 1) * scale
    haar = Permuted(fourth=3 * edge, row=edge, column=edge, apart=(n + 1) * scale, around=-scale)
    for name in ("G1", "V", "Theta1"):
        one, other = (
            recursion(name, law, layer=layers.read(text)).single_input().expr
            for law in (haar, Orthogonal())
        )
        one = one.subs({each: 0 for each in one.free_symbols if "|0123" in str(each)})
        assert sympy.expand(one - other) == 0, name


@pytest.mark.parametrize("name", ["V", "G1", KAPPA, "Theta1", "A"])
def test_a_constant_signal_meets_a_matrix_of_half_the_fourth_cumulant(name):
    """Two taps of a signal that is the same everywhere are one matrix (W + W')/√2."""
    convolution = recursion(name, ANY, layer="convolution(2, 3)").single_input().expr
    dense = recursion(name, Independent({4: KAPPA_4 / 2})).single_input().expr
    assert sympy.expand(convolution - dense) == 0
