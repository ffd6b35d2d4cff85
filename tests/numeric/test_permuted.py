"""Networks with weights P W₀ Q: what is drawn, what is estimated, and what is derived."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import sympy

from derive import Gaussian, InputError, Network, Permuted, RegularSparse, Sparse
from derive.weights import as_weights
from numeric import compare, flow, simulate
from numeric.random import check_limit, weight_matrix
from numeric.random.permuted import fixed, tails

KAPPA = "kappa(z,z,z,z|0123)"
TENSORS = ["K", "G1", "V", KAPPA]
X = np.random.default_rng(0).standard_normal((2, 24))
n, n_in = sympy.symbols("n n_in")
GROUPS = 4


def rotated_groups(n_out, n_in, rng):
    """Groups of as many neurons each, with a Haar-random matrix for each group."""
    W, size = np.zeros((n_out, n_in)), n_in // GROUPS
    for k in range(GROUPS):
        Q, R = np.linalg.qr(rng.standard_normal((size, size)))
        group = slice(k * size, (k + 1) * size)
        W[group, group] = Q * np.sign(np.diag(R))
    return W


def scaled_columns(n_out, n_in, rng):
    """Normal entries, those of a column times 1/√2 or √(3/2)."""
    c = np.sqrt(np.resize([0.5, 1.5], n_in) / n_in)
    return c * rng.standard_normal((n_out, n_in))


def groups():
    """Of O(m), m = n/4, and the chance s that a second index lies in the first one's group."""
    m, b = n / GROUPS, sympy.Integer(GROUPS)
    h, s = 1 / (m * (m - 1) * (m + 2)), (m - 1) / (n - 1)
    return Permuted(
        fourth=3 * (m - 1) * h / b,
        row=s * (m - 1) * h / b,
        column=s * (m - 1) * h / b,
        apart=(s**2 * (m + 1) * h + (1 - s) / (n - 1) / m) / b,
        around=-h * s**2 / b,
        matrix=rotated_groups,
        C_W=2,
    )


def columns():
    c4 = sympy.Rational(5, 4)
    apart = (n_in - c4) / (n_in - 1) / n_in**2
    return Permuted(
        fourth=3 * c4 / n_in**2,
        row=apart,
        column=c4 / n_in**2,
        apart=apart,
        around=0,
        matrix=scaled_columns,
        C_W=2,
    )


LAWS = {
    "groups": groups(),
    "columns": columns(),
    "regular": RegularSparse("1/4", C_W=2),
    "regular signs": RegularSparse("1/2", as_weights("of", "rademacher"), C_W=2),
}


@pytest.mark.parametrize("name", LAWS)
def test_matrices_have_the_law_s_moments(name):
    """Six averages of 3000 matrices of 8 neurons, each over all entries, at 5 standard errors."""
    law, size, rng = LAWS[name], 8, np.random.default_rng(1)
    W = np.array([weight_matrix(law, (size, size), rng) for _ in range(3000)]) / np.sqrt(2)
    S = W**2
    total, rows, cols = S.sum((1, 2)), (S.sum(2) ** 2).sum(1), (S.sum(1) ** 2).sum(1)
    fourth = (S**2).sum((1, 2))
    gram = W @ W.transpose(0, 2, 1)
    around = (gram**2).sum((1, 2)) - rows - cols + fourth
    pairs = size**2 * (size - 1)
    found = {
        "fourth": fourth / size**2,
        "row": (rows - fourth) / pairs,
        "column": (cols - fourth) / pairs,
        "apart": (total**2 - rows - cols + fourth) / (pairs * (size - 1)),
        "around": around / (pairs * (size - 1)),
    }
    expected = law.moments(sympy.Integer(size), sympy.Integer(size))
    for (what, values), exact in zip(found.items(), expected, strict=True):
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - float(exact)) <= 5 * error + 1e-12, what
    assert np.abs(W.mean(0)).max() < 5.5 * np.sqrt(S.mean(0).max() / len(W))


def test_a_regular_mask_has_so_many_entries():
    W = weight_matrix(RegularSparse("1/4"), (24, 16), np.random.default_rng(0))
    assert ((W != 0).sum(1) == 4).all()
    assert ((W != 0).sum(0) == 6).all()
    assert abs((W**2).sum() - 24) < 5 * np.sqrt(2 * 96) / 4


@pytest.mark.parametrize(
    ("name", "activation"), [("groups", "tanh"), ("columns", "gelu"), ("regular", "gelu")]
)
def test_what_is_derived_is_sampled(name, activation):
    net = Network(activation, LAWS[name], first_weights="gaussian", C_b=0.1)
    theory = flow(net, X[0], 4, TENSORS)
    samples = [simulate(net, X[0], size, 4, 1500, tensors=TENSORS, seed=2) for size in (24, 48)]
    found = compare(theory, samples)
    assert found.agrees, str(found)
    others = Sparse("1/4", C_W=2) if name == "columns" else Gaussian(2)
    wrong = flow(Network(activation, others, "gaussian", C_b=0.1), X[0], 4, TENSORS)
    assert not compare(wrong.assign_attrs(theory.attrs), samples).agrees


@pytest.mark.parametrize("name", ["groups", "columns", "regular"])
def test_the_two_samplers_agree(name):
    """One averages the last layer by C(p, q), the other reads the layer itself; at one width."""
    net = Network("gelu", LAWS[name], first_weights="gaussian", C_b=0.5)
    tensors = ["K", "V", KAPPA]
    runs = [
        simulate(net, X, 8, 3, 3000, tensors=tensors, seed=4, sampler=sampler)
        for sampler in ("lazy", "explicit")
    ]
    for each in tensors:
        one, other = (run[each].to_numpy() for run in runs)
        error = np.hypot(*(run[f"{each}_se"].to_numpy() for run in runs))
        assert (np.abs(one - other) <= 5.5 * error + 1e-9).all(), each


@pytest.mark.slow
def test_the_tower_is_sampled():
    net = Network("tanh", LAWS["columns"], first_weights="gaussian")
    tensors = ["Theta", "D", "F", "kappa(z,z,H|0123)"]
    theory = flow(net, X[0], 3, tensors)
    samples = [simulate(net, X[0], size, 3, 1500, tensors=tensors, seed=5) for size in (12, 24, 48)]
    found = compare(theory.isel(layer=slice(1, None)), samples)
    assert found.agrees, str(found)


UNDRAWN = Permuted(fourth=3 / n**2, row=1 / n**2, column=1 / n**2, apart=1 / n**2, around=0)


def other_shape(n_out, n_in, rng):
    return np.zeros((n_out, n_in + 1))


def drawing(matrix):
    law = Permuted(fourth=0, row=0, column=0, apart=0, around=0, matrix=matrix)
    return weight_matrix(law, (4, 4), np.random.default_rng(0))


class Unhashable:
    """What draws scaled columns, and has no hash."""

    __hash__ = None

    def __eq__(self, other):
        return self is other

    def __call__(self, n_out, n_in, rng):
        return scaled_columns(n_out, n_in, rng)


def test_single_precision_is_no_other_law():
    def signs(n_out, n_in, rng):
        return (rng.choice([-1.0, 1.0], (n_out, n_in)) / np.sqrt(n_in)).astype(np.float32)

    even = dict.fromkeys(("fourth", "row", "column", "apart"), 1 / n_in**2)
    law = Permuted(**even, around=0, matrix=signs)
    for width in (7, 24, 50):
        found = weight_matrix(law, (width, width), np.random.default_rng(0))
        assert np.allclose(found**2, 1 / width)
    other = replace(law, fourth=sympy.Rational(100001, 100000) / n_in**2)
    with pytest.raises(InputError, match="standard errors of 16 matrices"):
        weight_matrix(other, (7, 7), np.random.default_rng(0))


def test_a_function_without_a_hash():
    law = replace(LAWS["columns"], matrix=Unhashable())
    net, own = (Network("tanh", each, "gaussian") for each in (law, LAWS["columns"]))
    assert (flow(net, X[0], 2, ["V"])["V"] == flow(own, X[0], 2, ["V"])["V"]).all()
    one, other = (
        weight_matrix(each, (8, 8), np.random.default_rng(0)) for each in (law, LAWS["columns"])
    )
    assert (one == other).all()


def normal(n_out, n_in, rng):
    return rng.standard_normal((n_out, n_in)) / np.sqrt(n_in)


def one_row(c):
    def drawn(n_out, n_in, rng):
        squares = np.full((n_out, 1), (n_out - c) / (n_out - 1))
        squares[0] = c
        return np.sqrt(squares) * normal(n_out, n_in, rng)

    return drawn


def one_axis(n_out, n_in, rng):
    W = normal(n_out, n_in, rng)
    W[0] = np.eye(n_in)[0]
    return W


def pairs_of_rows(n_out, n_in, rng):
    W = normal(n_out, n_in, rng)
    W[1::2] = W[::2]
    return W


def independent(matrix):
    even = dict.fromkeys(("row", "column", "apart"), 1 / n_in**2)
    return Permuted(**even, fourth=3 / n_in**2, around=0, matrix=matrix, C_W=2)


def law_of_rows(c, matrix, p=1):
    """One row of squared length c, of normal entries a part p of which is there."""
    own = (c**2 + (n - c) ** 2 / (n - 1)) / n
    two = (n - own) / (n - 1)
    moments = {"fourth": 3 / sympy.sympify(p) * own, "row": own, "column": two, "apart": two}
    return Permuted(**{k: v / n**2 for k, v in moments.items()}, around=0, matrix=matrix, C_W=2)


def sparse(p, c=1):
    """Independent ones, but for a row."""

    def drawn(n_out, n_in, rng):
        return one_row(float(c))(n_out, n_in, rng) * (rng.random((n_out, n_in)) < p) / np.sqrt(p)

    return law_of_rows(c, drawn, sympy.nsimplify(p))


AXIS = replace(independent(one_axis), fourth=(4 - 3 / n) / n**2, row=(1 - 1 / n) / n**2)
PAIRS = replace(
    independent(pairs_of_rows), column=(1 + 2 / (n - 1)) / n**2, around=1 / (n - 1) / n**2
)
BEYOND = {
    "a dead row": (law_of_rows(0, one_row(0)), "rows of other lengths"),
    "a long row": (law_of_rows(10, one_row(10)), "rows of other lengths"),
    "a row that is longer by a fifth": (
        law_of_rows(sympy.Rational(6, 5), one_row(1.2)),
        "lengths, the same ones",
    ),
    "a row along an axis": (AXIS, "few large entries"),
    "rows in pairs": (PAIRS, "along each other"),
    "a dead row among sparse ones": (sparse(0.1, 0), "rows of other lengths.*cannot be told"),
    "a long row among sparse ones": (sparse(0.1, 3), "rows of other lengths"),
    "sparse rows": (sparse(0.05), r"rows of other lengths.*cannot be told.*Sparse\(p\)"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_four_moments_do_not_tell(what):
    """Each at n^{-1} of the rows or their pairs, within what the five moments allow."""
    law, reason = BEYOND[what]
    with pytest.raises(InputError, match=reason):
        flow(Network("tanh", law, "gaussian"), X[0], 3, ["G1"])
    assert flow(Network("tanh", law, "gaussian"), X[0], 3, ["K"])["K"].notnull().all()
    bare = Network("tanh", replace(law, matrix=None), "gaussian")
    assert flow(bare, X[0], 3, ["G1"])["G1"].notnull().all()


def test_what_four_moments_tell():
    """Normal entries, and heavy tails, whose x² have a mean."""

    def heavy(n_out, n_in, rng):
        return rng.standard_t(12, (n_out, n_in)) * np.sqrt(10 / 12 / n_in)

    tails_of_t = replace(independent(heavy), fourth=sympy.Rational(15, 4) / n_in**2)
    gaussian = flow(Network("tanh", Gaussian(2), "gaussian"), X[0], 3, TENSORS[:3])
    check_limit(sparse(0.1), 1.0, 1.0)
    for law in (independent(normal), tails_of_t):
        found = flow(Network("tanh", law, "gaussian"), X[0], 3, TENSORS)
        assert np.allclose(found["V"], gaussian["V"])
        assert np.allclose(found["G1"], gaussian["G1"]) == (law is not tails_of_t)


def test_rows_are_looked_at_one_by_one():
    W = np.random.default_rng(0).standard_normal((5, 7))

    def part(x):
        return x**2 / (1 + x)

    lengths = [(sum(w**2) - 1) ** 2 for w in W]
    entries = [sum(w**4) for w in W]
    pairs = [sum(W[i] * W[k]) ** 2 for i in range(5) for k in range(5) if i != k]
    for k, x in enumerate(map(np.array, (lengths, entries, pairs))):
        found = [each[k] for each in tails(W)]
        assert np.allclose(found, [np.mean(part(x)), np.mean(np.where(x > 0.5, x, 0))])


@pytest.mark.parametrize("law", ["gaussian", "sparse(1/4)", "student(9)", "regular-sparse(1/4)"])
def test_rows_of_one_law_are_not_off(law):
    """Of 20 times 16 matrices none; two rows of 64 that are off are found, in squares."""
    weights = as_weights("weights", law)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        squares = np.array([weight_matrix(weights, (64, 64), rng) ** 2 for _ in range(16)])
        assert not fixed(squares.sum(axis=2)).any()
        assert not fixed((squares**2).sum(axis=2)).any()
    lengths = np.random.default_rng(0).normal(1, 0.01, (16, 64))
    lengths[:, [3, 7]] += 0.3, -0.2
    found = fixed(lengths)
    assert np.flatnonzero(found).tolist() == [3, 7]
    assert np.allclose(found[[3, 7]], [0.09, 0.04], rtol=0.1)


def test_unequal_widths_are_looked_at():
    """Of sixteen times as many neurons at most; normal entries pass, a dead row does not."""
    for ratio in (6, sympy.Rational(1, 12)):
        net = Network("tanh", independent(normal), "gaussian", width_ratio=partial(pow, ratio))
        assert flow(net, X[0], 3, ["V"])["V"].notnull().all()
        check_limit(net.weights, 1.0, float(ratio))
        with pytest.raises(InputError, match="rows of other lengths"):
            check_limit(law_of_rows(0, one_row(0)), float(ratio), float(ratio))
    for r_in, r_out in ((1.0, 0.005), (1.0, 100.0)):
        with pytest.raises(InputError, match=r"width_ratio.*to be looked at"):
            check_limit(independent(normal), r_in, r_out)


def test_what_a_matrix_function_raises():
    """Its own errors are passed on, and NaN is called so."""

    def of(value):
        def drawn(n_out, n_in, rng):
            if isinstance(value, Exception):
                raise value
            return np.full((n_out, n_in), value)

        return independent(drawn)

    with pytest.raises(MemoryError):
        check_limit(of(MemoryError()), 1.0, 1.0)
    with pytest.raises(InputError, match=r"^matrix: got '262144 numbers that are infinite or NaN"):
        check_limit(of(np.nan), 1.0, 1.0)
    with pytest.raises(InputError, match=r"^p: got 2; wanted 1$"):
        check_limit(of(InputError("p", 2, "1")), 1.0, 1.0)
    with pytest.raises(InputError, match=r"ZeroDivisionError: .*without matrix"):
        check_limit(of(ZeroDivisionError("of none")), 1.0, 1.0)


def test_a_matrix_of_one_width_has_no_theory():
    def given(n_out, n_in, rng):
        return np.eye(24)

    with pytest.raises(InputError, match="without matrix"):
        flow(Network("tanh", independent(given), "gaussian"), X[0], 3, ["V"])


def test_moments_are_those_of_the_matrices():
    law = replace(independent(normal), column=sympy.Rational(11, 10) / n_in**2)
    with pytest.raises(InputError, match="column moment"):
        flow(Network("tanh", law, "gaussian"), X[0], 3, ["V"])


REFUSED = {
    "two arguments": lambda: drawing(lambda n_out, n_in: np.zeros((n_out, n_in))),
    "a string": lambda: drawing(lambda n_out, n_in, rng: "matrix"),
    "nothing": lambda: drawing(lambda n_out, n_in, rng: None),
    "ragged rows": lambda: drawing(lambda n_out, n_in, rng: [[1.0], [1.0, 2.0]]),
    "complex numbers": lambda: drawing(lambda n_out, n_in, rng: np.full((n_out, n_in), 0.5j)),
    "no matrix": lambda: simulate(Network("tanh", UNDRAWN, "gaussian"), X[0], 8, 2, 10),
    "a width": lambda: simulate(
        Network("tanh", RegularSparse("1/3"), "gaussian"), X[0], 8, 2, 10, tensors=["V"]
    ),
    "other moments": lambda: simulate(
        Network("tanh", replace(LAWS["columns"], column=1 / n_in**2), "gaussian"), X[0], 64, 2, 10
    ),
    "another scale": lambda: weight_matrix(
        replace(LAWS["groups"], matrix=lambda *given: 1.1 * rotated_groups(*given)),
        (8, 8),
        np.random.default_rng(0),
    ),
    "a symbol": lambda: simulate(
        Network("tanh", RegularSparse(sympy.Symbol("p")), "gaussian"), X[0], 8, 2, 10
    ),
    "another shape": lambda: weight_matrix(
        Permuted(fourth=0, row=0, column=0, apart=0, around=0, matrix=other_shape),
        (4, 4),
        np.random.default_rng(0),
    ),
    "the next order": lambda: flow(Network("tanh", LAWS["regular"], "gaussian"), X[0], 2, ["V2"]),
}


def test_layer_one_of_a_law_for_one_width():
    with pytest.raises(InputError, match="layer 1, which first_weights"):
        simulate(Network("tanh", LAWS["groups"]), X[0][:4], 8, 2, 10, tensors=["V"])


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        REFUSED[what]()


@pytest.mark.parametrize("layer", ["skip(1/2)", "skip(1/2, norm=rms)"])
def test_all_of_a_skip_says_which_there_are(layer):
    """In place of one obstacle after another."""
    net = Network("relu", layer=layer, C_b=1)
    with pytest.raises(InputError, match=r"among K, G1, V, .*, B behind .* with a"):
        flow(net, X[0], 2, "all")
