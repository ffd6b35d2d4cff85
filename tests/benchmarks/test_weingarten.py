"""Whole Weingarten tables and Haar moments from cold caches, beside haarpy in the same run.

Each group of timings shows the ratio. haarpy gets one round, and for moments those of its two
algorithms that end within a minute or so: neither does for the 12-cycle and the 4x4 squares.
haarpy has no traces: its row is the sum over pairs of permutations of its Weingarten functions.
"""

import subprocess
import sys
from collections import Counter
from importlib import import_module
from inspect import getsource
from itertools import permutations, product

import numpy as np
import pytest
import sympy
from sympy.combinatorics import Permutation

from derive import clear_caches, trace_moment, trace_series
from derive.groups import parse_moment, partitions

weingarten = import_module("derive.groups.weingarten")

n = sympy.Symbol("n")

MOMENTS = {
    "O11^10": "O[1,1]^10",
    "12-cycle": "*".join(f"O[{i},{i}]*O[{i},{i % 12 + 1}]" for i in range(1, 13)),
    "diagonal squares": "*".join(f"O[{i},{i}]^2" for i in range(1, 6)),
    "3x3 fourth powers": "*".join(f"O[{i},{j}]^4" for i in range(1, 4) for j in range(1, 4)),
    "4x4 squares": "*".join(f"O[{i},{j}]^2" for i in range(1, 5) for j in range(1, 5)),
}
HAARPY = [
    ("O11^10", "collins"),
    ("O11^10", "gorin"),
    ("diagonal squares", "collins"),
    ("diagonal squares", "gorin"),
    ("3x3 fourth powers", "gorin"),
]


def haarpy_caches() -> list[object]:
    """Of all functions of haarpy, wherever they are."""
    modules = [each for name, each in sys.modules.items() if name.partition(".")[0] == "haarpy"]
    found = {id(value): value for each in modules for value in vars(each).values()}
    return [value for value in found.values() if hasattr(value, "cache_clear")]


def cold() -> None:
    """Forget everything that an earlier round computed, ours and haarpy's."""
    for cached in haarpy_caches():
        cached.cache_clear()
    clear_caches()


@pytest.mark.parametrize("group", ["O", "U"])
@pytest.mark.parametrize("k", [6, 8, 12, 16])
def test_rational_functions(benchmark, k, group):
    benchmark.group = f"table of rational functions, {group}, k = {k}"
    found = benchmark.pedantic(weingarten.table, (k, group), setup=cold, rounds=10)
    assert len(found.numerators) == len(partitions(k))


TABLES = [("O", 5), ("U", 6), ("U", 8), ("U", 10)]


@pytest.mark.parametrize(("group", "k"), TABLES)
def test_sympy_table(benchmark, group, k):
    benchmark.group = f"all types in sympy, {group}, k = {k}"
    benchmark.pedantic(lambda: weingarten.table(k, group).exprs(n), setup=cold, rounds=10)


@pytest.mark.parametrize(("group", "k"), TABLES)
def test_sympy_table_haarpy(benchmark, group, k):
    benchmark.extra_info["peer"] = "haarpy"
    benchmark.group = f"all types in sympy, {group}, k = {k}"
    haarpy = import_module("haarpy")
    theirs = haarpy.weingarten_orthogonal if group == "O" else haarpy.weingarten_unitary

    def whole():
        return {mu: theirs(mu, n) for mu in partitions(k)}

    found = benchmark.pedantic(whole, setup=cold, rounds=1)
    assert haarpy_caches()
    for mu, value in found.items():
        assert value.subs(n, 20) == weingarten.weingarten(mu, 20, group)


def test_dense_symplectic_moment(benchmark):
    benchmark.group = "moment over Sp(n), 3x3 fourth powers"
    parsed = parse_moment("*".join(f"|S[{i},{j}]|^4" for i in range(1, 4) for j in range(1, 4)))
    assert benchmark.pedantic(lambda: parsed.average(n, "Sp"), setup=cold, rounds=1) != 0


@pytest.mark.parametrize("name", MOMENTS)
def test_moment(benchmark, name):
    benchmark.group = f"moment, {name}"
    parsed = parse_moment(MOMENTS[name])
    assert benchmark.pedantic(lambda: parsed.average(n), setup=cold, rounds=5) != 0


@pytest.mark.parametrize(("name", "algorithm"), HAARPY)
def test_moment_haarpy(benchmark, name, algorithm):
    benchmark.extra_info["peer"] = f"haarpy, {algorithm}"
    benchmark.group = f"moment, {name}"
    parsed = parse_moment(MOMENTS[name])
    powers = Counter(zip(parsed.rows, parsed.cols, strict=True))
    rows, cols = max(parsed.rows), max(parsed.cols)
    if algorithm == "gorin":
        matrix = tuple(tuple(powers[i, j] for j in range(1, cols + 1)) for i in range(1, rows + 1))
        arguments = {"algorithm": "gorin", "structure": "matrix"}
    else:
        matrix, arguments = (parsed.rows, parsed.cols), {}
    haarpy = import_module("haarpy")
    found = benchmark.pedantic(
        lambda: haarpy.haar_integral_orthogonal(matrix, n, **arguments), setup=cold, rounds=1
    )
    assert found.subs(n, 30) == parsed.average(30)


M, A, B = (sympy.MatrixSymbol(name, n, n) for name in "MAB")
WORDS = {
    "U": ("tr (U A U† B)", M * A * M.adjoint() * B),
    "O": ("tr (O A Oᵀ B)", M * A * M.T * B),
}
TRACES = [("U", 2), ("U", 3), ("U", 4), ("U", 5), ("U", 6), ("O", 2), ("O", 3), ("O", 4), ("O", 5)]
HAARPY_TRACES = [("U", 2), ("U", 3), ("U", 4), ("U", 5), ("O", 2), ("O", 3), ("O", 4)]
"""Those that end within ten seconds."""


def mean_of(group, k):
    return trace_moment(WORDS[group][1] ** k, M, group)


@pytest.mark.parametrize(("group", "k"), TRACES)
def test_trace(benchmark, group, k):
    benchmark.group = f"E {WORDS[group][0]}^{k}"
    assert benchmark.pedantic(mean_of, (group, k), setup=cold, rounds=5) != 0


@pytest.mark.parametrize(("group", "k"), TRACES)
def test_trace_in_a_series(benchmark, group, k):
    benchmark.group = f"E {WORDS[group][0]}^{k} through 1/n²"

    def series():
        return trace_series(mean_of(group, k), n, 2)

    assert benchmark.pedantic(series, setup=cold, rounds=3) != 0


U, A, B = (sympy.MatrixSymbol(name, n, n) for name in "UAB")
TRACES = [4, 5]


@pytest.mark.parametrize(("group", "k"), HAARPY_TRACES)
def test_trace_haarpy(benchmark, group, k):
    benchmark.extra_info["peer"] = "haarpy"
    benchmark.group = f"E {WORDS[group][0]}^{k}"
    haarpy = import_module("haarpy")
    found = benchmark.pedantic(lambda: SUMS[group](haarpy, k), setup=cold, rounds=1)
    values = np.random.default_rng(0).integers(1, 9, (2, 3, 3))

    def at_integers(expression):
        known = {
            trace: int(np.trace(sympy.lambdify((A, B), trace.arg)(*values)))
            for trace in expression.atoms(sympy.Trace)
        }
        return expression.xreplace(known).subs(n, 17)

    assert at_integers(found) == at_integers(mean_of(group, k))


def unitary_sum(haarpy, k):
    """Over pairs of permutations."""

    def traces(matrix, permutation):
        lengths = map(len, permutation.full_cyclic_form)
        return sympy.Mul(*(sympy.Trace((matrix**length).doit()) for length in lengths))

    elements = [Permutation(list(each)) for each in permutations(range(k))]
    shift = Permutation([*range(1, k), 0])
    return sympy.Add(
        *(
            haarpy.weingarten_unitary(p * ~q, n) * traces(B, p * shift) * traces(A, q)
            for p, q in product(elements, elements)
        )
    )


def orthogonal_sum(haarpy, k):
    """Over pairs of pairings, the images of {0, 1}, {2, 3}, … under permutations. A joins the
    columns of factors 2t and 2t + 1, and B the rows of factors 2t + 1 and 2t + 2."""

    def traces(matrix, shift, permutation):
        pairs = [(permutation(2 * t), permutation(2 * t + 1)) for t in range(k)]
        partner = dict([*pairs, *(pair[::-1] for pair in pairs)])
        wires = [((2 * t + shift) % (2 * k), (2 * t + shift + 1) % (2 * k)) for t in range(k)]
        across = {**{a: (b, matrix) for a, b in wires}, **{b: (a, matrix.T) for a, b in wires}}
        found = []
        while across:
            end, word = next(iter(across)), []
            while end in across:
                other, letter = across.pop(end)
                across.pop(other)
                word.append(letter)
                end = partner[other]
            found.append(sympy.Trace(sympy.MatMul(*word)))
        return sympy.Mul(*found)

    elements = list(haarpy.hyperoctahedral_transversal(2 * k))
    rows, cols = ([traces(*each, p) for p in elements] for each in ((B, 1), (A, 0)))
    return sympy.Add(
        *(
            haarpy.weingarten_orthogonal(tuple(haarpy.coset_type(p * ~q)), n) * row * col
            for (p, row), (q, col) in product(
                zip(elements, rows, strict=True), zip(elements, cols, strict=True)
            )
        )
    )


SUMS = {"U": unitary_sum, "O": orthogonal_sum}


SYMBOLS = """
import sympy
n = sympy.Symbol("n")
M, A, B = (sympy.MatrixSymbol(name, n, n) for name in "MAB")
"""
OURS = (
    SYMBOLS
    + "from derive import trace_moment\ntrace_moment((M * A * M.adjoint() * B) ** 4, M, 'U')"
)
HAARPY = f"""{SYMBOLS}
import haarpy
from itertools import permutations, product
from sympy.combinatorics import Permutation
{getsource(unitary_sum)}
unitary_sum(haarpy, 4)
"""


def in_a_new_process(benchmark, program):
    """With the imports: sympy takes most of ours."""
    benchmark.group = "E tr (U A U† B)^4, imports and first call of a new process"
    run = [sys.executable, "-c", program]
    benchmark.pedantic(subprocess.run, (run,), {"check": True}, rounds=3, warmup_rounds=1)


def test_trace_in_a_new_process(benchmark):
    in_a_new_process(benchmark, OURS)


@pytest.mark.peer("haarpy", "haarpy")
def test_trace_in_a_new_process_haarpy(benchmark):
    in_a_new_process(benchmark, HAARPY)
