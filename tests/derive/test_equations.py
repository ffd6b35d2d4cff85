"""Fields by their forward equation: what a user adds to the engine."""

from __future__ import annotations

from contextlib import suppress

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_fields import DNTK, NTK

from derive import Equation, Gaussian, LowRankOrthogonal, Orthogonal, recursion, symbols
from derive.errors import InputError
from derive.groups import pair_partitions
from derive.recursions import wanted

ENSEMBLES = [Gaussian(), Orthogonal(), LowRankOrthogonal(gamma=sympy.Rational(1, 3))]
JACOBIAN = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")


def renamed(expr: sympy.Expr, names: dict[str, str]) -> sympy.Expr:
    """The expression with the user's tensors under the literature's names."""
    own = {
        symbol: symbols.tensor(names[symbol.name])
        for symbol in expr.free_symbols
        if symbol.name in names
    }
    return sympy.expand(expr.subs(own))


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
@pytest.mark.parametrize("first_layer", [False, True])
def test_the_kernel_typed_in_moves_as_the_derived_one(weights, first_layer):
    """(6.4), which the engine finds by differentiation, given by hand."""
    names = {
        "kappa(N|01)": "Theta",
        "kappa(N,N|01 23)": "A",
        "kappa(N,N|02 13)": "B",
        "kappa(z,z,N|01 23)": "D",
        "kappa(z,z,N|02 13)": "F",
    }
    for fields, pairing, name in (
        ([NTK], None, "Theta"),
        ([NTK, NTK], ((0, 1), (2, 3)), "A"),
        ([NTK, NTK], ((0, 2), (1, 3)), "B"),
        (["z", "z", NTK], ((0, 1), (2, 3)), "D"),
        (["z", "z", NTK], ((0, 2), (1, 3)), "F"),
    ):
        options = {"weights": weights, "first_layer": first_layer}
        own = recursion(fields, pairing=pairing, **options).single_input()
        derived = recursion(name, **options).single_input()
        assert sympy.expand(renamed(own.expr, names) - derived.expr) == 0


def test_the_differential_of_the_kernel_typed_in():
    names = {
        "kappa(N|01)": "Theta",
        "kappa(N,N|02 13)": "B",
        "kappa(z,z,N|02 13)": "F",
        "kappa(z,M|01 23)": "P",
        "kappa(z,M|02 13)": "Q",
    }
    for pairing, name in ((((0, 3), (1, 2)), "P"), (((0, 1), (2, 3)), "Q")):
        own = recursion([DNTK, "z"], Orthogonal(), pairing=pairing).single_input()
        derived = recursion(name, Orthogonal()).single_input()
        assert sympy.expand(renamed(own.expr, names) - derived.expr) == 0


def test_the_jacobian_of_a_linear_network_is_a_product_of_haar_matrices():
    """J Jᵀ of square orthogonal layers is the identity: it does not fluctuate at all."""
    for pairing in pair_partitions(4):
        made = recursion([JACOBIAN, JACOBIAN], Orthogonal(), pairing=pairing, first_layer=True)
        assert made.expr == 0
    gaussian = recursion([JACOBIAN, JACOBIAN], pairing=((0, 2), (1, 3)), first_layer=True)
    assert gaussian.expr == symbols.C_W**2 / sympy.Symbol("r_in", positive=True) ** (
        0 if gaussian.equal_widths else 1
    )


def test_symmetries_are_found():
    assert JACOBIAN.symmetries() == ((0, 1), (1, 0))
    assert DNTK.symmetries() == ((0, 1, 2), (0, 2, 1))
    assert Equation("u[i,k] = W[i,a] W[k,b] s'[a] s[b] u[a,b]").symmetries() == ((0, 1),)


def test_one_index_and_preactivations_on_the_right():
    """A copy of z: κ(y, z) moves as the kernel does."""
    copy = Equation("y[i] = b[i] + W[i,a] s[a]")
    made = recursion([copy, "z"]).single_input()
    assert made.expr == recursion("K").single_input().expr
    pushed = Equation("v[i] = W[i,a] s'[a] z[a]")
    expected = recursion([pushed, "z"]).single_input().expr
    C_W, K = symbols.C_W, sympy.Symbol("K", real=True)
    average = sympy.expand(expected / (C_W * K))
    assert "⟨(σ σ')'⟩" in str(average)  # ⟨z σ σ'⟩ = K ⟨(σσ')'⟩


def test_signs_and_numbers():
    doubled = Equation("y[i] = 2 b[i] - 1/2 W[i,a] s[a]")
    made = recursion([doubled, doubled]).single_input()
    plain = recursion("K").single_input()
    C_b = symbols.C_b
    assert sympy.expand(made.expr - 4 * C_b - (plain.expr - C_b) / 4) == 0


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "J[i,k] = W[i,a]",
        "J[i] = W[i,a] s[b]",
        "J[i] = W[i,a] q[a]",
        "J[i,i] = W[i,a] W[i,b] s[a] s[b]",
        "z[i] = W[i,a] s[a]",
        "J[i] = W[i,a] s[a]**2",
        "J[i] = W[i,a",
        "J[i] = ",
        "J[i] = __import__('os')",
        "J[i] = W[i,a] s[a] W[i,a]",
        "J[i,k] = W[i,a] W[k,a] s[a]",
        "J[i,k] = delta[i,a] W[k,b]",
        3,
    ],
)
def test_what_is_no_equation_is_refused(text):
    with pytest.raises(InputError):
        Equation(text)


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("z[i] = W[i,a] s[a] + z[i]", r"z\[i\]"),
        ("y[i] = W[i,a] s[a] + 1/2 y[i:i]", r"y\[i:i\]"),
        ("y[i] = W[i,a] s[a] + b[i] + s'[i]", r"s'\[i\]"),
        ("J[i,k] = W[i,a] W[k,b] J[a,b] + delta[i,k] + J[i,k]", r"J\[i,k\]"),
    ],
)
def test_a_skip_is_named(text, carried):
    with pytest.raises(InputError, match=rf"got \"?'?{carried}.*a skip .* not covered"):
        Equation(text)


@given(st.text(alphabet="JWszbn[],:+-*/' 0123456789=ika", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_an_equation_or_an_error(text):
    with suppress(InputError):
        assert Equation(text).nodes >= 1


def test_fields_that_do_not_scale_are_refused():
    """Σ_a σ_a² without its 1/n is of order n."""
    large = Equation("y[i,k] = delta[i,k] s[a:i] s[a:k]")
    with pytest.raises(InputError, match="order n"):
        recursion([large]).terms  # noqa: B018
    with pytest.raises(InputError, match="at_inputs"):
        Equation("y[i] = W[i,a] s[a]", at_inputs="identity")


@pytest.mark.parametrize(
    "text",
    [
        "J[i] = W'[i,a] s[a]",
        "J[i,k] = n delta[i,k]",
        "J[i,k] = K delta[i,k]",
        "J[i,k] = lambda delta[i,k]",
        "J[i,k] = 1/0 delta[i,k]",
        "J[i] = * W[i,a] s[a]",
        "J[i] = - - W[i,a] s[a]",
        "J[i] = W[i,a] s[a] +",
        "J[i] = W[i,a] H'[a,a]",
    ],
)
def test_what_the_notation_does_not_say_is_refused(text):
    with pytest.raises(InputError):
        Equation(text)


def test_fields_are_told_apart_by_their_names():
    other = Equation("J[i,k] = 3 W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
    with pytest.raises(InputError, match="names"):
        wanted([recursion([JACOBIAN]), recursion([other])])
    with pytest.raises(InputError, match="using"):
        Equation("Q[i] = W[i,a] s[a]", using=(JACOBIAN, other))
    with pytest.raises(InputError, match="using"):
        Equation("Q[i] = W[i,a] s[a]", using=JACOBIAN)
