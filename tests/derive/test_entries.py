"""Independent weights: their cumulants, their moments, and what they change in recursions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import mpmath
import pytest
import scipy.stats
import sympy
import sympy.stats

from derive import (
    BiInvariant,
    Gaussian,
    Independent,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Rademacher,
    RegularSparse,
    Sparse,
    StudentT,
    Truncated,
    TruncatedNormal,
    Uniform,
    activations,
    exact,
    recursion,
)
from derive.display import Label
from derive.engine import FIRST_ORDER, Z, named, pairing_classes, tensor
from derive.groups import set_partitions
from derive.weights import PermutationInvariant, as_weights

KAPPA = "kappa(z,z,z,z|0123)"
k3, k4, k6, nu, p = sympy.symbols("kappa_3 kappa_4 kappa_6 nu p", positive=True)
ANY = Independent({4: k4, 6: k6})


def density_moment(density, cut, k):
    """∫ x^k density over [−cut, cut], by quadrature."""
    return mpmath.quad(lambda x: x**k * density(x), [-cut, 0, cut])


@pytest.mark.parametrize(
    ("weights", "fourth"),
    [
        (Uniform(), sympy.Rational(-6, 5)),
        (Rademacher(), -2),
        (StudentT(nu), 6 / (nu - 4)),
        (Sparse(p), 3 / p - 3),
        (Sparse("1/2", of=Uniform()), sympy.Rational(3, 5)),
        (Independent(Uniform()), sympy.Rational(-6, 5)),
        (Independent({4: k4}), k4),
    ],
    ids=str,
)
def test_excess_kurtosis(weights, fourth):
    assert weights.cumulant(1) == 0
    assert sympy.simplify(weights.cumulant(2) - 1) == 0
    assert abs(sympy.simplify(weights.cumulant(4) - fourth).subs({nu: 7, p: 0.5, k4: 2})) < 1e-9


@pytest.mark.parametrize(
    "law", [scipy.stats.laplace(scale=3), sympy.stats.Laplace("x", 0, 2)], ids=["scipy", "sympy"]
)
def test_excess_kurtosis_of_another_package_s_law(law):
    test_excess_kurtosis(Independent(law), 3)


def _bernoulli(q):
    return scipy.stats.bernoulli(q, loc=-q), (1 - 2 * q) / (q * (1 - q)) ** 0.5


@pytest.mark.parametrize(
    ("law", "skew"),
    [
        *map(_bernoulli, (0.2, 0.41, 0.45, 0.49, 0.499, 0.501, 0.6)),
        (scipy.stats.binom(1, 0.42, loc=-0.42), _bernoulli(0.42)[1]),
        (scipy.stats.hypergeom(7, 3, 1, loc=-3 / 7), _bernoulli(3 / 7)[1]),
        (scipy.stats.betabinom(1, 0.9, 1.1, loc=-0.45), _bernoulli(0.45)[1]),
        (scipy.stats.poisson(2, loc=-2), 2**-0.5),
    ],
    ids=lambda each: f"{each.dist.name}{each.args}" if hasattr(each, "dist") else "",
)
def test_the_skew_of_two_atoms_and_more(law, skew):
    """(1 − 2q)/√(q(1 − q)) of two, also where one is likelier than every quantile looked at."""
    found = Independent(law)
    assert not found.is_symmetric
    assert abs(float(found.cumulant(3)) - skew) < 1e-9
    with pytest.raises(InputError):
        found.check_symmetric()


@pytest.mark.parametrize(
    "law",
    [
        scipy.stats.bernoulli(0.5, loc=-0.5),
        scipy.stats.binom(5, 0.5, loc=-2.5),
        scipy.stats.hypergeom(8, 4, 3, loc=-1.5),
        scipy.stats.randint(-3, 4),
        scipy.stats.dlaplace(0.8),
        scipy.stats.skellam(2, 2),
        scipy.stats.norm(0, 2),
        scipy.stats.t(9),
        scipy.stats.laplace(),
    ],
    ids=lambda each: each.dist.name,
)
def test_a_law_and_its_mirror(law):
    found = Independent(law)
    assert found.is_symmetric
    assert [found.cumulant(k) for k in (3, 5, 7)] == [0, 0, 0]


def test_moments_are_integrals_over_the_density():
    root = mpmath.sqrt(3)
    for k in (2, 4, 6):
        uniform = density_moment(lambda x: 1 / (2 * root), root, k)
        assert abs(uniform - mpmath.mpmathify(Uniform().standard_moment(k))) < 1e-12

    def normal(x):
        return mpmath.exp(-(x**2) / 2)

    whole, second = (density_moment(normal, 2, k) for k in (0, 2))
    for k in (4, 6):
        expected = density_moment(normal, 2, k) / whole / (second / whole) ** (k // 2)
        assert abs(float(TruncatedNormal().standard_moment(k)) - expected) < 1e-12


def blocks_moment(weights, rows, cols, n):
    """Σ_p δ_p(i) C(p,p) δ_p(j) over all set partitions."""
    total = sympy.Integer(0)
    for blocks in set_partitions(tuple(range(len(rows)))):
        if all(len({(rows[a], cols[a]) for a in block}) == 1 for block in blocks):
            total += weights.joint(blocks, blocks, n, n) * weights.C_W ** sympy.Rational(
                len(rows), 2
            )
    return sympy.simplify(total)


@pytest.mark.parametrize(
    "weights",
    [Uniform(2), Sparse("1/3", C_W=2), Independent({3: k3, 4: k4, 6: k6}, C_W=2)],
    ids=str,
)
def test_the_moment_formula(weights):
    n = sympy.Symbol("n", positive=True)
    for rows, cols in [
        ((1, 1), (1, 1)),
        ((1, 2), (1, 1)),
        ((1, 1, 1), (2, 2, 2)),
        ((1, 1, 1, 1), (1, 1, 1, 1)),
        ((1, 1, 1, 1), (1, 1, 2, 2)),
        ((1, 1, 2, 2, 2), (1, 1, 3, 3, 3)),
        ((1,) * 6, (1,) * 6),
    ]:
        whole = weights.moment(rows, cols, n)
        assert sympy.simplify(blocks_moment(weights, rows, cols, n) - whole) == 0, (rows, cols)
    assert weights.moment((1, 1), (1, 2), n) == 0


def test_what_kurtosis_leaves_alone_and_what_it_adds():
    """K, V, D, F, A, B are those of Gaussian weights; G1 and Theta1 have one more insertion."""
    for name in ("K", "V", "Theta", "D", "F", "A", "B", "P", "Q"):
        assert recursion(name, ANY).expr == recursion(name, Gaussian()).expr, name
    added = recursion("G1", ANY).single_input().expr - recursion("G1").single_input().expr
    fourth = recursion(KAPPA, ANY).single_input()
    assert fourth.depends_on == ("K",)
    assert str(fourth.expr) == "C_W**2*kappa_4*⟨σ⁴⟩"
    assert str(sympy.factor(added)) == f"C_W*{KAPPA}*⟨(σ²)⁽⁴⁾⟩/24"
    assert set(recursion("Theta1", ANY).depends_on) - set(recursion("Theta1").depends_on) == {
        KAPPA,
        "kappa(z,z,H|0123)",
    }


def test_the_law_of_normal_entries_is_gaussian():
    """With every cumulant beyond the second 0 the two engines' roads meet."""
    normal = Independent({4: 0, 6: 0, 8: 0})
    assert recursion(KAPPA, normal).expr == 0
    for name in ("V2", "U6"):
        assert recursion(name, normal).specialise("linear").single_input().depends_on
    six = recursion("U6", normal).single_input().expr
    dropped = {each: 0 for each in six.free_symbols if "0123" in str(each)}
    assert sympy.expand(six.subs(dropped) - recursion("U6").single_input().expr) == 0


NET = Network(
    activations.polynomial([0, 1, "1/3"]),
    Uniform(C_W="3/2"),
    first_weights="gaussian",
    C_b="1/2",
    lambda_b=2,
)


def composed(name, net, layer):
    """The recursions put into each other from the inputs on, at K0 = 1, exactly."""
    made = recursion(name, net.weights_at(layer), first_layer=layer == 1).single_input()
    if layer > 1:
        made = made.specialise(net.activation)
    hyper = {
        "C_W": net.weights_at(layer).C_W,
        "C_b": net.C_b_at(layer),
        "lambda_b": net.lambda_b_at(layer),
        "lambda_W": net.lambda_W_at(layer),
        "K0": 1,
        "r_in": 1,
    }
    expr = made.expr
    below = {
        each: composed(need, net, layer - 1)
        for need in (made.depends_on if layer > 1 else ())
        for each in expr.free_symbols
        if str(each) == need
    }
    numbers = {each: hyper[str(each)] for each in expr.free_symbols if str(each) in hyper}
    return expr.subs(below | numbers, simultaneous=True)


@pytest.mark.parametrize(
    ("name", "correction"),
    [
        ("K", "G1"),
        ("V", None),
        (KAPPA, None),
        ("Theta", "Theta1"),
        ("D", None),
        ("kappa(z,z,H|0123)", None),
    ],
)
def test_recursions_are_the_limit_of_exact_cumulants(name, correction):
    """The same tensors at finite width in closed form, at layer 3, expanded in 1/n."""
    found = exact.series(name, NET, 3, 1 if correction else 0, kernel={(1, 1): 1})
    assert sympy.simplify(found[0] - composed(name, NET, 3)) == 0
    if correction:
        value = composed(correction, NET, 3)
        assert value != 0
        assert sympy.simplify(found[1] - value) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["F", "A", "B", "kappa(H,H|0123)", "kappa(z,dH|0123)"])
def test_the_tower_is_the_limit_of_exact_cumulants(name):
    (found,) = exact.series(name, NET, 3, 0, kernel={(1, 1): 1})
    assert sympy.simplify(found - composed(name, NET, 3)) == 0


@pytest.mark.parametrize(("name", "correction"), [("V", "V2"), (KAPPA, f"{KAPPA[:-1]};1)")])
def test_the_next_order(name, correction):
    found = exact.series(name, NET, 3, 1, kernel={(1, 1): 1})
    assert found[1] != 0
    assert sympy.simplify(found[1] - composed(correction, NET, 3)) == 0


def test_a_diagonal_cumulant_of_rotation_invariant_weights_is_zero():
    assert recursion(KAPPA, Orthogonal()).expr == 0
    assert exact.cumulant(KAPPA, Network(activations.polynomial([0, 1, 1])), 2) == 0


def test_labels():
    for label in (KAPPA, "kappa(z,z,z,z,z,z|01 2345)", "kappa(z,z,H|0123;1)"):
        assert str(Label.read(label)) == label
        assert named(label).label == label
    assert named("kappa(z,z,z,z,z,z|0123 45)").label == "kappa(z,z,z,z,z,z|01 2345)"
    one = tensor((Z,) * 6, 0, ((0, 1, 2, 3), (4, 5)), (1, 2, 3, 4, 5, 6))
    other = tensor((Z,) * 6, 0, ((0, 3), (1, 2, 4, 5)), (6, 1, 2, 5, 3, 4))
    assert one == other
    assert named(KAPPA).pairs == 2
    assert "(z, z, z, z)" in named(KAPPA).meaning
    assert len(pairing_classes([Z] * 6)) == 1
    assert len(pairing_classes([Z] * 6, "B")) == 3
    assert set(FIRST_ORDER) & {KAPPA} == set()


def test_layer_one_depends_on_more_than_the_kernel():
    made = recursion(KAPPA, ANY, first_layer=True)
    assert str(made.single_input().expr) == f"C_W**2*{KAPPA}0*kappa_4"
    rectangular = recursion(KAPPA, ANY, first_layer=True, equal_widths=False).single_input().expr
    r_in = next(each for each in rectangular.free_symbols if str(each) == "r_in")
    assert sympy.simplify(rectangular * r_in - made.single_input().expr) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uniform", Uniform()),
        ("rademacher", Rademacher()),
        ("truncated-normal", TruncatedNormal()),
        ("truncated-normal(3)", TruncatedNormal(3)),
        ("sparse(0.1)", Sparse("1/10")),
        (" student( 5 )", StudentT(5)),
        ("orthogonal", Orthogonal()),
        ("Orthogonal(C_W=2)", Orthogonal(2)),
        ("sparse(0.1, C_W=2)", Sparse("1/10", C_W=2)),
        ("low-rank-gaussian(gamma=1/2)", LowRankGaussian(gamma="1/2")),
    ],
)
def test_names(text, expected):
    assert as_weights("weights", text) == expected
    assert Network("tanh", text).weights == expected


@pytest.mark.parametrize(
    "text",
    [
        *("sparse", "sparse(2)", "uniform(1)", "student(1)", "sparse(exp(1))", "cauchy", "(", ""),
        *("sparse(p=0.1, p=0.2)", "gaussian(2)", "orthogonal(gamma=2)", "uniform(", 2, None),
    ],
)
def test_what_is_no_name(text):
    with pytest.raises(InputError):
        as_weights("weights", text)


@pytest.mark.parametrize(
    "law",
    [
        Gaussian(2), Orthogonal("1/2"), Uniform(3), Rademacher(), TruncatedNormal(3, C_W=2),
        Sparse("1/10", of=Uniform()), RegularSparse("1/4"), StudentT(5), Truncated(ratio=2),
        LowRankOrthogonal(2, gamma="1/3"), BiInvariant(moments=(1, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_an_ensemble_is_read_as_it_prints(law):
    assert as_weights("weights", str(law)) == law


REFUSED = {
    "a mean": lambda: Independent(scipy.stats.norm(1)),
    "no variance": lambda: Independent(scipy.stats.cauchy()),
    "no mean of atoms": lambda: Independent(scipy.stats.zipf(1.5)),
    "no distribution": lambda: Independent("uniform"),
    "kurtosis": lambda: Independent({4: -3}),
    "kurtosis of a skew": lambda: Independent({3: 5, 4: 0}),
    "kurtosis left out": lambda: Independent({3: "3/2"}),
    "variance": lambda: Independent({2: 2}),
    "order": lambda: Independent({1: 0}),
    "a part": lambda: Sparse(0),
    "a law": lambda: Sparse("1/2", of=Gaussian()),
    "a cut": lambda: TruncatedNormal(0),
    "degrees": lambda: StudentT(2),
    "a moment": lambda: recursion(KAPPA, StudentT(3)).expr,
    "a skew": lambda: recursion("K", Independent({3: 1})).expr,
    "a skew of scipy": lambda: recursion("K", Independent(scipy.stats.expon(-1))).expr,
    "exact moments": lambda: exact.vertex(Network("relu", Uniform()), 2),
    "unequal lists": lambda: Uniform().moment([1], [1, 1], 3),
    "odd blocks": lambda: named("kappa(z,z,z,z|012 3)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        REFUSED[what]()


def test_the_least_kurtosis_of_a_skew():
    """κ_4 = κ_3² − 2 of two atoms: by q = 1/5, 3/2 and 1/4, exact and in floating point."""
    for third, fourth in (
        ("3/2", sympy.Rational(1, 4)),
        (1.5, 0.25),
        (k3, 0),
        (3 / 7**0.5, 9 / 7 - 2),
    ):
        found = Independent({3: third, 4: fourth}).cumulant(4)
        assert abs(found - fourth) < 1e-12


class _Sum(PermutationInvariant):
    """(a uniform matrix + a Gaussian one)/√2: entries are still independent."""

    def joint(self, rows, columns, n_in, n_out):
        total = sympy.Integer(0)
        for signs in product((0, 1), repeat=len(rows)):
            if any(sign and len(b) > 2 for sign, b in zip(signs, rows, strict=True)):
                continue
            total += prod(
                (Uniform().cumulant(len(b)) for s, b in zip(signs, rows, strict=True) if not s),
                start=sympy.Integer(1),
            )
        k = sum(map(len, rows)) // 2
        return total / (2 * n_in) ** k if rows == columns else sympy.Integer(0)

    def joint_expansion(self, rows, columns, order, square):
        k = sum(map(len, rows)) // 2
        value = self.joint(rows, columns, sympy.Integer(1), 1)
        return {(frozenset(), k): Fraction(str(value))} if value and k <= order else {}


def test_an_ensemble_of_one_s_own():
    """Its C(p, q) alone is given; the fourth cumulant of such a sum is a quarter of the uniform."""
    own = recursion(KAPPA, _Sum()).expr
    assert sympy.simplify(own - recursion(KAPPA, Uniform()).expr / 4) == 0
    assert recursion("V", _Sum()).expr == recursion("V").expr
