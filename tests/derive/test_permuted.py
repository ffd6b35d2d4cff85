"""Weights P W₀ Q: their moments by counting, what is derived from them, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from math import prod

import pytest
import sympy

from derive import (
    Independent,
    InputError,
    Network,
    Orthogonal,
    Permuted,
    RegularSparse,
    Uniform,
    activations,
    exact,
    recursion,
)
from derive.groups import even_partitions
from derive.weights import as_weights

KAPPA = "kappa(z,z,z,z|0123)"
NAMES = ("V", KAPPA, "Theta", "D", "F", "A", "B")
n, n_in, n_out, p = sympy.symbols("n n_in n_out p", positive=True)
PATTERNS = {
    "fourth": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "row": ((0, 0, 0, 0), (0, 0, 1, 1)),
    "column": ((0, 0, 1, 1), (0, 0, 0, 0)),
    "apart": ((0, 0, 1, 1), (0, 0, 1, 1)),
    "around": ((0, 0, 1, 1), (0, 1, 0, 1)),
}


def averaged(matrix, rows, cols):
    """E[Π (P W₀ Q)_{rows_a cols_a}] over all signed permutations P and Q, one after another."""
    above, across = len(matrix), len(matrix[0])
    total = sympy.Integer(0)
    for pi, rho in product(permutations(range(above)), permutations(range(across))):
        total += prod(matrix[pi[i]][rho[j]] for i, j in zip(rows, cols, strict=True))
    total /= sympy.factorial(above) * sympy.factorial(across)
    for index, size in ((rows, above), (cols, across)):
        signs = list(product((1, -1), repeat=size))
        total *= sympy.Rational(sum(prod(sign[i] for i in index) for sign in signs), len(signs))
    return total


def law_of(matrix):
    """P W₀ Q of a matrix W₀ whose squares have the mean 1/n_in."""
    return Permuted(**{name: averaged(matrix, *each) for name, each in PATTERNS.items()})


def by_partitions(law, rows, cols, n_in, n_out):
    """Σ_{p,q} δ_p(i) C(p,q) δ_q(j)."""
    points = range(len(rows))
    return sum(
        law.joint(p, q, n_in, n_out)
        for p in even_partitions(points)
        for q in even_partitions(points)
        if all(len({rows[a] for a in block}) == 1 for block in p)
        and all(len({cols[a] for a in block}) == 1 for block in q)
    )


SQUARE = [[1, 2, 0], [-1, 1, 1], [2, 0, 1]]
WIDE = [[1, -2, 0, 3], [2, 1, 1, 0], [0, 1, 1, -1]]


def scaled(matrix):
    squares = [sympy.Integer(w) ** 2 for row in matrix for w in row]
    scale = sympy.sqrt(sympy.Integer(len(matrix)) / sum(squares))
    return [[w * scale for w in row] for row in matrix]


@pytest.mark.parametrize("matrix", [SQUARE, WIDE], ids=["square", "wide"])
def test_moments_by_all_permutations(matrix):
    """Two and four factors at every choice of three rows and columns, up to their names."""
    matrix = scaled(matrix)
    law = law_of(matrix)
    shape = len(matrix[0]), len(matrix)
    seen = Counter()
    for count in (2, 4):
        for rows, cols in product(product(range(3), repeat=count), repeat=2):
            if (
                rows[0]
                or cols[0]
                or list(zip(rows, cols, strict=True)) != sorted(zip(rows, cols, strict=True))
            ):
                continue
            expected = averaged(matrix, rows, cols)
            assert sympy.simplify(by_partitions(law, rows, cols, *shape) - expected) == 0
            seen[expected != 0] += 1
    assert min(seen.values()) > 8


def test_a_mask_s_moments_by_all_permutations():
    """Two entries in each row of four and one in each column; two and two of three."""
    for mask in ([[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 1, 0], [0, 1, 1], [1, 0, 1]]):
        above, across = len(mask), len(mask[0])
        law = RegularSparse(sympy.Rational(sum(mask[0]), across), of=as_weights("w", "rademacher"))
        squares = [[sympy.Rational(m, sum(mask[0])) for m in row] for row in mask]
        for name, (rows, cols) in PATTERNS.items():
            found = law.moments(sympy.Integer(across), sympy.Integer(above))
            given = dict(zip(PATTERNS, found, strict=True))[name]
            if name == "around":
                assert given == 0
                continue
            pairs = sorted(set(zip(rows, cols, strict=True)))
            powers = [pair for pair in pairs for _ in range(2 // len(pairs))]
            assert given == sum(
                prod(squares[pi[i]][rho[j]] for i, j in powers)
                for pi in permutations(range(above))
                for rho in permutations(range(across))
            ) / (sympy.factorial(above) * sympy.factorial(across)), (name, mask)


@pytest.mark.parametrize("width", [3, 4])
def test_a_layer_of_four_neurons_exactly(width):
    """E[z_i² z_k²] and E[z_i⁴] over a fixed W₀'s permutations and a Gaussian first layer."""
    matrix = scaled(SQUARE if width == 3 else [*WIDE, [1, 0, -1, 2]])
    law = law_of(matrix)
    sigma = activations.polynomial([0, 1, 1])
    net = Network(sigma, law, first_weights="gaussian")
    g = sympy.Symbol("g")
    second, fourth = (
        sum(
            coefficient * sympy.factorial2(power - 1)
            for (power,), coefficient in sympy.Poly((g + g**2) ** k, g).terms()
            if power % 2 == 0
        )
        for k in (2, 4)
    )

    def moment(rows):
        total = sympy.Integer(0)
        for pattern, count in (
            ((0, 0, 0, 0), width),
            ((0, 0, 1, 1), width * (width - 1)),
            ((0, 1, 0, 1), width * (width - 1)),
            ((0, 1, 1, 0), width * (width - 1)),
        ):
            weight = fourth if len(set(pattern)) == 1 else second**2
            total += count * averaged(matrix, rows, pattern) * weight
        return total

    # rows' signs leave E[z_i² z_k²] = M_{01 23}, and E[z_i⁴] = 3 M_{01 23} + M_{0123}
    pairs, four = moment((0, 0, 1, 1)), moment((0, 0, 0, 0))
    V = exact.cumulant("V", net, 2, width=width, kernel={(1, 1): 1})
    diagonal = exact.cumulant(KAPPA, net, 2, width=width, kernel={(1, 1): 1})
    assert sympy.simplify(V - width * (pairs - second**2)) == 0
    assert sympy.simplify(diagonal - width * (four - 3 * pairs)) == 0


def haar(size, **others):
    h = 1 / (size * (size - 1) * (size + 2))
    values = {"fourth": 3 * (size - 1) * h, "row": (size - 1) * h, "column": (size - 1) * h}
    return {**values, "apart": (size + 1) * h, "around": -h, **others}


def independent(**others):
    one = 1 / n_in**2
    return {"fourth": 3 * one, "row": one, "column": one, "apart": one, "around": 0, **others}


def test_haar_s_moments_give_haar_s_recursions():
    law = Permuted(**haar(n))
    for name in NAMES:
        assert recursion(name, law).expr == recursion(name, Orthogonal()).expr, name
    assert recursion("G1", law).single_input().depends_on == ("K", "G1", "V", KAPPA)


def test_independent_entries_moments_give_their_recursions():
    law = Permuted(**independent(fourth=sympy.Rational(9, 5) / n_in**2))
    for name in (*NAMES, "G1", "Theta1", "kappa(z,z,H|0123)"):
        for square in (True, False):
            own = recursion(name, law, equal_widths=square).expr
            assert sympy.expand(own - recursion(name, Uniform(), equal_widths=square).expr) == 0, (
                name
            )


def test_what_each_moment_brings():
    """V's pairing part from `apart` and `around`, its ⟨σ⁴⟩ from `column`, the diagonal from all."""
    a, b, c, d, e = sympy.symbols("a b c d e")
    pairs = 1 / n**2 + (a + 2 * b) / n**3
    row, column = pairs + d / n**3, pairs + c / n**2
    law = Permuted(
        fourth=3 * row + 3 * column - 3 * pairs + e / n**2,
        row=row,
        column=column,
        apart=1 / n**2 + a / n**3,
        around=b / n**3,
    )
    changed = recursion("V", law).single_input().expr - recursion("V").single_input().expr
    assert str(sympy.expand(changed)) == ("C_W**2*a*⟨σ²⟩**2 + 2*C_W**2*b*⟨σ²⟩**2 + C_W**2*c*⟨σ⁴⟩")
    assert str(recursion(KAPPA, law).single_input().expr) == "C_W**2*(3*d*⟨σ²⟩**2 + e*⟨σ⁴⟩)"


def test_exactly_so_many_entries_in_each_row():
    """The variance of σ² takes the place of ⟨σ⁴⟩: where σ² is constant, so is a row's sum of it."""
    made = recursion(KAPPA, RegularSparse(p)).single_input().expr
    assert str(sympy.factor(made)) == "3*C_W**2*(p - 1)*(⟨σ²⟩**2 - ⟨σ⁴⟩)/p"
    assert recursion("V", RegularSparse(p)).expr == recursion("V").expr
    assert recursion(KAPPA, RegularSparse(1)).expr == 0


def test_names():
    assert as_weights("weights", "regular-sparse(0.25)") == RegularSparse("1/4")
    assert RegularSparse(p, C_W=2).free_symbols == {p}
    assert Permuted(**independent(fourth=p / n**2)).free_symbols == {p}
    assert "around=0" in str(Permuted(**independent()))


REFUSED = {
    "large entries": (independent(fourth=1 / n), "not Gaussian"),
    "unequal rows": (independent(row=2 / n**2), "lengths differ"),
    "a length that fluctuates": (independent(apart=2 / n**2), "fluctuates"),
    "one direction": (independent(around=p / n**2), "singular values"),
    "columns": (independent(column=1 / n), "larger order"),
    "no rational function": (independent(fourth=3 / n**2 + 1 / n ** sympy.Rational(5, 2)), "rat"),
    "numbers": (independent(apart=sympy.Rational(1, 9)), "fluctuates"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_too_large(what):
    values, reason = REFUSED[what]
    with pytest.raises(InputError, match=reason):
        recursion("V", Permuted(**values)).expr  # noqa: B018


OTHERS = {
    "the next order": lambda: recursion("V2", RegularSparse(p)).expr,
    "six weights": lambda: recursion("U6", RegularSparse(p)).expr,
    "n of two widths": lambda: recursion("V", Permuted(**haar(n)), equal_widths=False).expr,
    "no number": lambda: Permuted(**independent(row="x")),
    "a matrix that is none": lambda: Permuted(**independent(), matrix=3),
    "a part": lambda: RegularSparse(2),
    "a law": lambda: RegularSparse("1/2", of="uniform"),
    "a skewed law": lambda: RegularSparse("1/2", of=Independent({3: 1})),
    "one neuron": lambda: RegularSparse("1/2").joint(((0, 1, 2, 3),), ((0, 1, 2, 3),), 1, 4),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        OTHERS[what]()


@pytest.mark.parametrize(("part", "width"), [("1/4", 6), ("1/8", 4)])
def test_no_number_for_a_mask_that_does_not_exist(part, width):
    net = Network(activations.polynomial([0, 1]), RegularSparse(part), first_weights="gaussian")
    assert exact.cumulant("V", net, 2, width=8).is_finite is not False
    with pytest.raises(InputError, match="whole parts"):
        exact.cumulant("V", net, 2, width=width)
