"""Universal limits: S-transforms derived, classes, double scaling, corrections at finite depth."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from derivations.pennington import universality
from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    activations,
    spectra,
    symbols,
)

sigma0 = symbols.sigma_0
a, epsilon, depth = sympy.symbols("a epsilon L", positive=True)


def test_perturbation_is_the_limit_exponent() -> None:
    rate = sigma0**2 / (1 - a) ** 2
    derived = universality.perturbed(a, epsilon).subs(epsilon, rate)
    assert sympy.simplify(derived + spectra.limit("leaky", sigma0, a).exponent()) == 0
    bernoulli, smooth = spectra.limit("bernoulli"), spectra.limit("smooth")
    assert sympy.simplify(spectra.limit("leaky", sigma0, 0).S() - bernoulli.S()) == 0
    assert sympy.simplify(spectra.limit("leaky", sigma0, 1).S() - smooth.S()) == 0


@pytest.mark.parametrize("kind", ["bernoulli", "smooth"])
def test_closed_resolvent_solves_the_equation(kind: str) -> None:
    law = spectra.limit(kind, sympy.Rational(1, 2))
    for point in (2 + 1j, 0.5 + 0.5j, 1 + 3j):
        G = complex(sympy.N(law.G(sympy.sympify(point))))
        back = complex(sympy.N(law.M_inverse(sympy.sympify(point * G - 1))))
        assert back == pytest.approx(point, rel=1e-10)
        assert G.imag < 0


def test_resolvent_has_the_moments() -> None:
    law = spectra.limit("smooth", sympy.Rational(1, 2))
    far = 60
    series = sum(law.moment(k) / sympy.Integer(far) ** k for k in range(7)) / far
    assert complex(sympy.N(law.G(far))) == pytest.approx(complex(sympy.N(series)), rel=1e-8)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hard_tanh", "bernoulli"), ("shifted_relu", "bernoulli"), ("erf_unit_slope", "smooth"),
        ("silu", "smooth"), ("gelu", "smooth"), ("tanh", "smooth"), ("sin", "smooth"),
        ("arctan", "smooth"), ("relu", "none"), ("leaky_relu(1/10)", "none"),
        ("monomial(3)", "none"), ("linear", "isometric"), ("expr: abs(z)", "isometric"),
        ("expr: max(z,-1)+0.5*min(z+1,0)", "leaky"), ("expr: z+max(z-1,0)**2", "smooth"),
        ("polynomial(0,1,0,0,1)", "smooth"),
    ],
)  # fmt: skip
def test_classes(name: str, kind: str) -> None:
    assert universality.classify(activations.by_name(name)).kind == kind


def test_a_bias_below_zero_is_told() -> None:
    assert universality.classify(activations.silu).reachable
    assert not universality.classify(activations.sigmoid).reachable
    assert not universality.classify(activations.softplus).reachable


@pytest.mark.parametrize(
    "name", ["hard_tanh", "erf_unit_slope", "tanh", "expr: max(z,-1)+0.5*min(z+1,0)"]
)
def test_finite_depth_moments_converge_to_the_limit(name: str) -> None:
    """|m_k(L) − m_k(∞)| shrinks at least like 1/√L, to the class's own law and no other."""
    activation = activations.by_name(name)
    law = universality.classify(activation).limit(sympy.Rational(1, 2))
    errors = []
    for layers in (64, 1024):
        q = universality.double_scaling(activation, sympy.Rational(1, 2), layers)
        finite = spectra.jacobian(activation, Orthogonal(), layers, sympy.Float(q, 20))
        assert float(sympy.N(finite.moment(2))) == pytest.approx(1.25, rel=1e-12)
        errors.append(float(sympy.N(finite.moment(3) - law.moment(3))))
    assert abs(errors[1]) < abs(errors[0]) / 3.3 + 1e-12


def test_double_scaling_of_hard_tanh_is_exact() -> None:
    q = universality.double_scaling(activations.hard_tanh, sympy.Rational(1, 2), 128, 25)
    exact = 1 / (2 * mpmath.erfinv(mpmath.mpf(128) / (128 + mpmath.mpf(1) / 4)) ** 2)
    assert abs(q / exact - 1) < 1e-14


@pytest.mark.parametrize(
    "weights",
    [
        Orthogonal(), Gaussian(), LowRankOrthogonal(gamma=0.5), LowRankGaussian(gamma=0.5),
        LowRankOrthogonal(gamma=1), Truncated(ratio=1.5), Truncated(ratio=1),
    ],
    ids=str,
)  # fmt: skip
def test_orthogonality_is_needed(weights) -> None:
    """s_1 = −Var/mean² ≤ 0, and it vanishes only for a law that is one point."""
    law = spectra.weight_law(weights)
    s_1 = sympy.nsimplify(law.S_series(1)[1] / law.S_series(1)[0])
    assert s_1 == sympy.nsimplify(1 - law.moment(2) / law.moment(1) ** 2)
    isometric = isinstance(weights, Orthogonal) or 1 in (
        getattr(weights, "gamma", 0), getattr(weights, "ratio", 0),
    )  # fmt: skip
    assert (s_1 == 0) == (isometric and not isinstance(weights, LowRankGaussian))
    assert s_1 <= 0


def test_no_limit_no_law() -> None:
    with pytest.raises(InputError, match="limit law"):
        universality.classify(activations.relu).limit(1)


def test_slopes_of_either_sign_are_one_slope_squared():
    """min(|z|, 1): φ' is ±1 about 0, and D² changes at the kinks at ±1 alone."""
    folded = activations.from_expr(sympy.Min(sympy.Abs(activations.z), 1))
    assert str(universality.classify(folded)) == str(universality.classify("hard_tanh"))
