"""Outer derivatives against factors :z z …: — one bracket, two forms, for any σ."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import sympy
from derivative_forms import derivative_form
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.moments.gaussian import evaluate, on_grid, variables, wick
from derive import Gaussian, InputError, Orthogonal, activations, recursion
from derive.activations import Activation, z
from derive.arithmetic.hermite import hermite, polynomial
from derive.engine import NAMES
from derive.gaussian import Average, Bracket, Component, GaussianAverage, Shape, oracle, specialise
from derive.gaussian.brackets import K
from derive.gaussian.kernel_form import (
    HermiteAverage,
    InverseKernel,
    kernel_form,
    outward,
    wick_ordered,
)

SINGLE = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]


def symbolic_kernel(samples: int) -> sympy.Matrix:
    return sympy.Matrix(
        samples, samples, lambda a, b: Component("K", (min(a, b) + 1, max(a, b) + 1))
    )


def in_numbers(expression, activation, kernel, integral, inverse=None):
    """A kernel form at a covariance, each :z z …: multiplied out; its K⁻¹ is that of the matrix."""
    names = variables(kernel.rows)
    inverse = kernel.inv() if inverse is None else inverse

    def value(average):
        raised = average.raised
        used = list(inverse * sympy.Matrix(names)) if raised else names
        matrix = inverse if raised else kernel
        sigma = [activation.derivative(m).subs(z, names[a - 1]) for a, m in average.factors]
        polynomial = sum(
            coefficient * sympy.prod([used[a - 1] for a in left])
            for left, coefficient in wick_ordered(
                average.indices, lambda a, b: matrix[a - 1, b - 1]
            )
        )
        return integral(sympy.prod(sigma) * polynomial)

    images = {average: value(average) for average in expression.atoms(HermiteAverage)}
    for entry in expression.atoms(InverseKernel):
        a, b = (int(sample) - 1 for sample in entry.args[1])
        images[entry] = inverse[a, b]
    return evaluate(expression.xreplace(images), activation, kernel, integral).subs(K, kernel[0, 0])


@pytest.mark.parametrize("outer", range(1, 6))
def test_one_sample_any_polynomial(outer):
    """⟨∂^k F⟩ = ⟨F He_k⟩/K^k for F of degree 6 with free coefficients and a free K."""
    kernel = sympy.Matrix([[K]])
    integral = wick(kernel)
    (x,) = variables(1)
    sigma = Activation("cubic", sum(c * z**k for k, c in enumerate(sympy.symbols("c_0:4"))))
    bracket = Bracket(((1, 0), (1, 0)), (1,) * outer)
    product = sympy.expand(sigma.expr.subs(z, x) ** 2)
    by_hand = integral(sympy.diff(product, x, outer))
    form = kernel_form(bracket)
    assert form.atoms(HermiteAverage)
    assert not any(average.bracket.outer for average in form.atoms(Average))
    assert sympy.expand(in_numbers(form, sigma, kernel, integral) - by_hand) == 0
    assert by_hand != 0


@pytest.mark.parametrize("outer", [(1,), (2, 2), (1, 2), (1, 1, 2), (1, 1, 2, 2)])
def test_two_samples_any_polynomial_any_kernel(outer):
    """Raised indices, sums over the samples, and sums over a larger data set agree with ∂_a ∂_b …:
    by linearity for all products of cubics, from the monomials, at a symbolic kernel."""
    kernel = symbolic_kernel(2)
    integral = wick(kernel)
    x, y = variables(2)
    inverse = kernel.adjugate() / kernel.det()
    lifted = inverse * sympy.Matrix([x, y])
    contraction = {(a, b): inverse[a - 1, b - 1] for a in (1, 2) for b in (1, 2)}
    polynomial = sum(
        coefficient * sympy.prod([lifted[a - 1] for a in left])
        for left, coefficient in wick_ordered(outer, lambda a, b: contraction[a, b])
    )
    for p, q in [(3, 3), (3, 1), (2, 2), (1, 3), (2, 3), (0, 2)]:
        function = x**p * y**q
        derived = function
        for a in outer:
            derived = sympy.diff(derived, (x, y)[a - 1])
        expected = integral(derived) if derived != 0 else 0
        found = integral(sympy.expand(function * polynomial))
        assert sympy.simplify(found - expected) == 0


@pytest.mark.parametrize("data", [None, (1, 2), (1, 2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("outer", [(1,), (1, 2), (1, 1, 2), (1, 1, 2, 2)])
def test_any_data_set(outer, data):
    """K^{aβ} of a larger data set gives the same number, exactly: what σ does not see drops out."""
    four = sympy.Matrix([[4, 1, -1, 2], [1, 3, 1, 0], [-1, 1, 5, 1], [2, 0, 1, 4]]) / 3
    kernel = four[: len(data or (1, 2)), : len(data or (1, 2))]
    sigma = activations.polynomial([0, 1, sympy.Rational(1, 2), sympy.Rational(-1, 3)])
    average = Average([(1, 0), (2, 1)], outer)
    expected = evaluate(average, sigma, kernel, wick(kernel))
    form = kernel_form(average, data)
    assert all(each.raised == (data is None) for each in form.atoms(HermiteAverage))
    assert in_numbers(form, sigma, kernel, wick(kernel)) == expected != 0


def test_an_entry_of_the_inverse_kernel():
    kernel = symbolic_kernel(3)
    numbers = {kernel[a, b]: 5 * (a == b) + a + b for a in range(3) for b in range(a, 3)}
    inverse = kernel.xreplace(numbers).inv()
    for a in range(3):
        for b in range(3):
            entry = InverseKernel((1, 2, 3), (a + 1, b + 1)).explicit()
            assert entry.xreplace(numbers) == inverse[a, b]


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=str)
@pytest.mark.parametrize("name", SINGLE)
def test_there_and_back(name, weights):
    """derivative_form inverts kernel_form, for every tensor, one input and several."""
    assert name in NAMES
    made = recursion(name, weights)
    for each in (made, made.single_input()):
        form = kernel_form(each)
        assert not any(average.bracket.outer for average in form.atoms(Average))
        assert sympy.expand(derivative_form(form) - each.expr) == 0


LAYERS = [
    "normalized(rms, eps=1/2)",
    "normalized(layer)",
    "residual(skip=1, norm=rms)",
    "gated",
]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ["G1", "V", "Theta"])
def test_there_and_back_behind_a_layer(name, layer):
    """The brackets are at kernels of their own, which are named in both forms."""
    made = recursion(name, Orthogonal(), layer=layer)
    for each in (made, made.single_input()):
        form = kernel_form(each)
        assert not any(average.bracket.outer for average in form.atoms(Average))
        assert {average.kernel for average in form.atoms(HermiteAverage)} <= set(each.kernels)
        assert sympy.expand(derivative_form(form) - each.expr) == 0


@pytest.mark.parametrize("layer", LAYERS)
def test_tanh_behind_a_layer(layer):
    """Integrals of σ and powers of z at the kernel's value, equal to those of derivatives."""
    made = recursion("V", Orthogonal(), layer=layer).single_input().specialise(activations.tanh)
    form = kernel_form(made)
    values = {symbol: sympy.Rational(7, 5) for symbol in made.expr.free_symbols | form.free_symbols}
    found, expected = (each.subs(values).evalf(20) for each in (form, made.expr))
    assert abs(found - expected) < 1e-14 * abs(expected)


def test_two_inputs_of_a_given_activation_behind_a_layer():
    """Each component of the kernel gets the value of its own two samples."""
    form = recursion("K", layer="normalized(rms)").specialise(activations.tanh).kernel_form()
    (average,) = form.atoms(GaussianAverage)
    K_11, K_12, K_22 = (Component("K", pair) for pair in ((1, 1), (1, 2), (2, 2)))
    assert average.args[2] == sympy.Tuple(1, K_12 / sympy.sqrt(K_11) / sympy.sqrt(K_22), 1)


def test_what_it_prints_behind_a_layer():
    made = recursion("V", layer="normalized(rms)")
    form = made.single_input().kernel_form()
    assert "⟨σ² (z**2 - K_y)⟩_y**2/(2*K_y**4)" in str(form)
    assert r"\left\langle \sigma^{2} (z^{2} - K_{y})\right\rangle_{K_{y}}" in sympy.latex(form)
    several = kernel_form(made)
    assert "⟨σ₁ σ₂ (z¹z² - K_y¹²)⟩_y" in str(several)
    assert r"- {K_{y}}^{\alpha_{1}\alpha_{2}}" in sympy.latex(several)


@pytest.mark.parametrize("kernel", [None, "K_h"])
def test_back_from_sums_over_the_samples(kernel):
    """Lowered z_β come back too, once K^{aβ} K_{βb} is contracted."""
    average = Average([(1, 0), (2, 0)], (1, 2), kernel)
    lowered = kernel_form(average, (1, 2))
    explicit = {entry: entry.explicit() for entry in lowered.atoms(InverseKernel)}
    assert sympy.simplify(derivative_form(lowered).xreplace(explicit) - average) == 0


@pytest.mark.parametrize("name", ["G1", "V", "F", "T"])
def test_tanh_with_two_inputs(name):
    """The two forms of the same recursion, at a kernel of two inputs, to 12 digits."""
    two = sympy.Matrix([[0.8, 0.3], [0.3, 0.6]])
    integral = on_grid(two)
    fold = {sample: sympy.Integer(2 - sample % 2) for sample in range(1, 5)}
    made = recursion(name, Orthogonal()).expr
    folded = made.xreplace(
        {
            each: Average(
                sorted((fold[sample], order) for sample, order in each.bracket.factors),
                sorted(fold[sample] for sample in each.bracket.outer),
            )
            for each in made.atoms(Average)
        }
    )
    components = sorted(folded.atoms(Component), key=str)
    tensors = {each: sympy.Float(0.7 + 0.1 * k) for k, each in enumerate(components)}
    parameters = {symbol: sympy.Float(1.3) for symbol in folded.free_symbols}
    numbers = [
        evaluate(folded, activations.tanh, two, integral),
        in_numbers(kernel_form(folded), activations.tanh, two, integral),
        in_numbers(kernel_form(folded, (1, 2)), activations.tanh, two, integral),
    ]
    first, *others = (float(each.xreplace(tensors).subs(parameters)) for each in numbers)
    assert first != 0
    assert others == pytest.approx([first] * 2, rel=1e-12)


@pytest.mark.parametrize("name", ["G1", "D", "F", "Theta1", "R"])
def test_tanh_with_one_input(name):
    """r.specialise(tanh): integrals of σ and powers of z, equal to those of its derivatives."""
    made = recursion(name).single_input().specialise(activations.tanh)
    form = kernel_form(made)
    values = {symbol: sympy.Rational(7, 5) for symbol in made.expr.free_symbols}
    values |= {symbol: sympy.Rational(7, 5) for symbol in form.free_symbols}
    found, expected = (each.subs(values).evalf(20) for each in (form, made.expr))
    assert abs(found - expected) < 1e-14 * abs(expected)


def in_polar(average: GaussianAverage, kernel: np.ndarray) -> float:
    """⟨f(z_1, z_2)⟩ for a piecewise homogeneous f with its kinks at z_1 = 0 and z_2 = 0."""
    integrand, names, _ = average.args
    function = sympy.lambdify(list(names), integrand, "numpy")
    root = np.linalg.cholesky(kernel)
    degree = round(
        float(np.log2(function(*(2 * root @ [0.6, 0.8])) / function(*(root @ [0.6, 0.8]))))
    )
    rows = [np.arctan2(-row[0], row[1]) % np.pi for row in root]
    edges = sorted({0.0, 2 * np.pi, *rows, *(edge + np.pi for edge in rows)})
    total = sum(
        scipy.integrate.quad(lambda t: function(*(root @ [np.cos(t), np.sin(t)])), *pair)[0]
        for pair in pairwise(edges)
    )
    return total / (2 * np.pi) * 2 ** (degree / 2) * float(scipy.special.gamma(degree / 2 + 1))


@pytest.mark.parametrize(
    ("orders", "outer"),
    [
        ((0, 0), (1, 1)),
        ((0, 0), (2, 0)),
        ((0, 0), (2, 2)),
        ((1, 0), (1, 0)),
        ((0, 1), (1, 0)),
        ((1, 1), (1, 1)),
        ((1, 1), (2, 0)),
        ((2, 0), (0, 0)),
        ((2, 0), (0, 1)),
    ],
)
def test_relu_with_two_inputs(orders, outer):
    """Integrals of σ and σ' alone, against the oracle that integrates the kink's δ exactly."""
    kernel = np.array([[1.3, 0.4], [0.4, 0.7]])
    derivatives = tuple(sample for sample, times in zip((1, 2), outer, strict=True)
                        for _ in range(times))  # fmt: skip
    softened = outward(Average(list(zip((1, 2), orders, strict=True)), derivatives))
    form = kernel_form(softened, (1, 2))
    expected = float(oracle.bracket(activations.relu, Shape(orders, outer), kernel, 10).value)
    inverse = np.linalg.inv(kernel)
    names = {1: sympy.Symbol("z_1"), 2: sympy.Symbol("z_2")}
    images = {}
    for each in form.atoms(HermiteAverage):
        assert max(order for _, order in each.factors) <= 1
        function = sympy.prod(
            [activations.relu.derivative(order).subs(z, names[a]) for a, order in each.factors]
        )
        images[each] = sum(
            float(coefficient)
            * in_polar(
                GaussianAverage(function * sympy.prod([names[a] for a in left]),
                                names.values(), ()),
                kernel,
            )
            for left, coefficient in wick_ordered(
                each.indices, lambda a, b: sympy.Float(kernel[a - 1, b - 1])
            )
        )  # fmt: skip
    for entry in form.atoms(InverseKernel):
        a, b = (int(sample) - 1 for sample in entry.args[1])
        images[entry] = inverse[a, b]
    assert float(form.xreplace(images)) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_relu_tensors_never_meet_a_kink():
    """With four inputs no closed form is known; what is left to integrate is σ, σ' and z."""
    for name in ("F", "P", "Q", "B", "D"):
        form = kernel_form(recursion(name).specialise(activations.relu))
        assert not form.has(sympy.DiracDelta, sympy.Derivative, sympy.nan)
        assert not any(
            order > 1 or average.bracket.outer
            for average in form.atoms(Average)
            for _, order in average.bracket.factors
        )
        assert form.atoms(GaussianAverage)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 3), st.integers(0, 2), st.integers(2, 4), st.booleans())
def test_moving_derivatives_outside(p, q, highest, other):
    """The product rule, term by term, for a polynomial σ and any kernel of two samples."""
    q = q if highest == 2 else 0
    factors = [(1, 0)] * p + [(1, 1)] * q + [(1, highest)] + [(2, 2)] * other
    average = Average(factors)
    try:
        moved = outward(average)
    except InputError:
        assert highest == 4
        assert p > 0
        return
    assert max(order for each in moved.atoms(Average) for _, order in each.bracket.factors) <= 1
    kernel = symbolic_kernel(2)
    sigma = activations.polynomial([1, 2, -1, sympy.Rational(1, 3), 1])
    integral = wick(kernel)
    before, after = (evaluate(each, sigma, kernel, integral) for each in (average, moved))
    assert sympy.expand(before - after) == 0


@pytest.mark.parametrize("q", [1, 2])
def test_a_kink_is_the_limit_of_its_smoothings(q):
    """⟨σ'^q σ''⟩ of ReLU is 1/((q+1)√(2πK)), where the smoothing σ' = Φ(z/s) tends as s → 0."""
    moved = outward(Average([(1, 1)] * q + [(1, 2)]))
    slope = activations.relu.derivative()
    images = {
        each: GaussianAverage(slope ** (q + 1) * z, (z,), (sympy.S.One,))
        for each in moved.atoms(Average)
    }
    limit = float(moved.xreplace(images).evalf(15))
    assert limit == pytest.approx(1 / ((q + 1) * np.sqrt(2 * np.pi)), rel=1e-12)

    def smoothed(s):
        return mpmath.quad(
            lambda t: mpmath.ncdf(t) ** q * mpmath.npdf(t) * mpmath.npdf(s * t), [-12, 0, 12]
        )

    errors = [abs(float(smoothed(s)) - limit) for s in (0.1, 0.05, 0.025)]
    assert errors[0] > 1.9 * errors[1] > 3.6 * errors[2] > 0


def test_what_it_prints():
    single = kernel_form(recursion("V", Orthogonal()).single_input())
    assert str(single) == ("C_W**2*(-3*⟨σ²⟩**2 + ⟨σ⁴⟩ + V*⟨σ² (z**2 - K)⟩**2/(4*K**4))")
    assert r"\left\langle \sigma^{2} (z^{2} - K)\right\rangle_{K}^{2}" in sympy.latex(single)
    assert "⟨σ₁ σ₂ (z¹z² - K¹²)⟩" in str(kernel_form(recursion("V")))
    assert "⟨σ₁ σ₂ (z₁z₂ - K₁₂)⟩" in str(kernel_form(recursion("K").expr + Average(
        [(1, 0), (2, 0)], (1, 2)), (1, 2)))  # fmt: skip
    assert r":z^{\alpha_{1}}z^{\alpha_{1}}" in sympy.latex(kernel_form(recursion("G1")))
    assert hermite(4, z, K) == z**4 - 6 * K * z**2 + 3 * K**2


@pytest.mark.parametrize("degree", range(7))
def test_hermite_is_what_remains_after_contractions(degree):
    terms = wick_ordered((1,) * degree, lambda a, b: K)
    remains = sum(value * z ** len(left) for left, value in terms)
    assert sympy.expand(remains - hermite(degree, z, K)) == 0


def test_bad_input():
    with pytest.raises(InputError, match="data"):
        kernel_form(recursion("V"), (1, 2, 3))
    with pytest.raises(InputError, match="bracket"):
        kernel_form(recursion("U").single_input().specialise(activations.relu))
    with pytest.raises(InputError, match="bracket"):
        outward(Average([(1, 2), (1, 2)]))


def test_every_pair_of_indices_is_contracted_once():
    """:z_a z_b z_c z_d: at equal samples is Hermite's; ⟨:z^a z^b: :z_c z_d:⟩ = δδ + δδ."""
    kernel = symbolic_kernel(2)
    integral = wick(kernel)
    names = variables(2)

    def polynomial(indices):
        return sum(
            value * sympy.prod([names[a] for a in left])
            for left, value in wick_ordered(indices, lambda a, b: kernel[a, b])
        )

    pairs = list(combinations_with_replacement((0, 1), 2))
    for a, b in pairs:
        for c, d in pairs:
            found = integral(sympy.expand(polynomial((a, b)) * polynomial((c, d))))
            expected = kernel[a, c] * kernel[b, d] + kernel[a, d] * kernel[b, c]
            assert sympy.expand(found - expected) == 0


def test_hermite_polynomials_of_several_variables_are_derivatives_of_the_density():
    """H_k(u, Q) e^{−x·Qx/2} = (−∂)^k e^{−x·Qx/2} at u = Qx."""
    outer = (2, 0, 1, 1)
    made, u, Q = polynomial(outer)
    x = dict(zip((0, 2, 3), sympy.symbols("x_1:4"), strict=True))

    def entry(p, q):
        return Q[min(p, q), max(p, q)]

    exponent = -sum(entry(p, q) * x[p] * x[q] for p in x for q in x) / 2
    density = derived = sympy.exp(exponent)
    for p, place in x.items():
        derived = (-1) ** outer[p] * derived.diff(place, outer[p])
    places = [sum(entry(p, q) * x[q] for q in x) for p in x]
    found = made.subs(dict(zip(u, places, strict=True)))
    assert sympy.expand(found - sympy.simplify(derived / density)) == 0


def test_a_bracket_of_two_inputs_without_a_closed_form_is_differentiated():
    found = specialise(Bracket(((1, 0), (2, 0)), (1, 2)), activations.tanh)
    integrand, places, kernel = found.args
    z1, z2 = places.args
    assert integrand == (1 - sympy.tanh(z1) ** 2) * (1 - sympy.tanh(z2) ** 2)
    assert kernel.args == tuple(Component("K", pair) for pair in ((1, 1), (1, 2), (2, 2)))


def test_what_is_averaged_over_is_no_free_symbol():
    a = sympy.Symbol("a", positive=True)
    average = GaussianAverage(sympy.tanh(a * z) ** 2, (z,), (K,))
    assert average.free_symbols == {a, K}
