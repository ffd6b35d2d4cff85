"""Convolutions in balls, in written modules and at large depth: against each other and by hand."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy
from agreement import close
from combinations import COMPILER, INPUTS, ran
from sample_kernels import interpreted

from derive import Gaussian, InputError, Network, Orthogonal, activations, exact, layers, recursion
from derive.engine import Moved
from derive.gaussian import Component, GaussianAverage
from numeric import flow, write_c, write_module

SIGNAL = np.random.default_rng(7).normal(size=(3, 4)).round(2)
SQUARE = activations.polynomial([0, 0, 1])
PAIR = "sequence(convolution(2, 3), convolution(3, 3, boundary=zero))"
BLOCK = "sequence(convolution(2, 3, activations=linear), convolution(3, 3, law=gaussian))"
RESIDUAL = f"around({BLOCK}, skip=1/2, norm=rms)"
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"]


def network(layer, activation=SQUARE, weights=None, **others):
    """With Gaussian weights in layer 1."""
    given = {"C_b": "1/10", "first_weights": Gaussian("6/5"), **others}
    return Network(activation, weights or Orthogonal("3/2"), layer=layer, **given)


def numbers(table, name):
    """A tensor of a table with digits, as floats."""
    return table[name].to_numpy().astype(float)


@pytest.mark.parametrize(
    ("layer", "activation", "names"),
    [
        ("convolution(2, 3)", SQUARE, TOWER),
        ("convolution(3, 3, boundary=zero, readout=flatten)", SQUARE, ["K", "V"]),
        ("convolution(2, 3)*; convolution(3, 3, readout=mean)", SQUARE, ["K", "G1", "V"]),
        (RESIDUAL, SQUARE, ["K", "V"]),
        ("convolution(2, 3)", "relu", ["K", "G1", "V"]),
        (f"sequence({PAIR}, dropout(1/2))", SQUARE, ["K", "Theta"]),
    ],
)
def test_floats_agree_with_digits(layer: str, activation, names: list[str]) -> None:
    close(network(layer, activation), SIGNAL, 3, names, 20)


MIX = layers.mix(np.array([[1, 0.5, 0], [0, 0.25, -1]]), np.eye(3)[1:])
STRIDE = "convolution(2, 3, boundary=zero, stride=2)"
INNER = f"sequence({STRIDE}, convolution(2, 2))"


@pytest.mark.parametrize(
    ("layer", "activation", "names"),
    [
        (f"{STRIDE}; dense*", SQUARE, TOWER),
        ("pooling(3, 2, stride=1); dense*", "relu", ["K", "V", "Theta"]),
        ("pooling(3); dense*", "relu", ["K", "G1", "V", "Theta"]),
        ([MIX, layers.dense()], SQUARE, ["K", "G1", "V", "Theta"]),
        (f"around({INNER}, skip=1/2, norm=rms, projected=True); dense", SQUARE, ["K", "V"]),
        (f"around({STRIDE}, norm=rms, projected=True); dense", "tanh", ["K", "Theta"]),
    ],
)
def test_positions_that_change_have_digits(layer, activation, names: list[str]) -> None:
    close(network(layer, activation), SIGNAL, 3, names, 20)


def test_images_that_shrink_have_digits() -> None:
    layer = "dense*; convolution(2, (2, 2), boundary=zero, stride=2)"
    close(network(layer), [[SIGNAL[:2], SIGNAL[1:]]], 3, ["K", "V"], 20)


@pytest.mark.parametrize("layer", [MIX, STRIDE])
def test_digits_of_other_positions_are_exact(layer) -> None:
    """V at infinite width, in fractions, of σ = z²."""
    net = network([layer], C_b=0)
    found = flow(net, SIGNAL, 2, ["V"], precision=30).V.to_numpy()[0]
    rows = [[sympy.Rational(*float(x).as_integer_ratio()) for x in row] for row in SIGNAL]
    pairs = [*product(range(3), repeat=2)]
    kernel = {
        (p, q): sum(x * y for x, y in zip(rows[p], rows[q], strict=True)) / 4
        for p, q in pairs
        if p <= q
    }
    for at in [(0, 0, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1)]:
        (exactly,) = exact.series("V", net, 2, 0, at, kernel=kernel)
        expected = Fraction(int(exactly.p), int(exactly.q))
        assert abs(Fraction(found[at]) - expected) <= abs(expected) / 10**29


def test_analytic_averages_of_positions_have_digits() -> None:
    close(network("convolution(2, 2)", "tanh"), SIGNAL[:2], 3, ["K", "G1", "V"], 20)
    skip = "around(convolution(2, 3), norm=rms)"
    close(network(skip, "tanh"), SIGNAL, 3, ["K", "Theta"], 20)


@pytest.mark.parametrize("boundary", ["circular", "zero"])
@pytest.mark.parametrize("weights", [Gaussian, Orthogonal])
def test_a_linear_network_is_exact(boundary: str, weights) -> None:
    """V = C² Σ (K_ac K_bd + K_ad K_bc)/s² at what taps k and k' read; of orthogonal matrices k ≠ k'
    alone, as V of one such matrix is 0."""
    size, C = 2, Fraction(3, 2)
    layer = layers.convolution(size, 3, boundary=boundary)
    net = network(layer, "linear", weights(C_W="3/2"), C_b=0, first_weights=Gaussian(1))
    table = flow(net, SIGNAL, 2, ["K", "V"], precision=30)
    rows = [[Fraction(float(each)) for each in row] for row in SIGNAL]
    K = [[sum(x * y for x, y in zip(a, b, strict=True)) / 4 for b in rows] for a in rows]

    def read(p: int, k: int) -> int | None:
        return (p + k) % 3 if boundary == "circular" or p + k < 3 else None

    def inner(p: int | None, q: int | None) -> Fraction:
        return Fraction(0) if p is None or q is None else K[p][q]

    for a, b, c, d in product(range(3), repeat=4):
        total = Fraction(0)
        for k, other in product(range(size), repeat=2):
            if weights is Gaussian or k != other:
                at = read(a, k), read(b, k), read(c, other), read(d, other)
                total += inner(at[0], at[2]) * inner(at[1], at[3])
                total += inner(at[0], at[3]) * inner(at[1], at[2])
        V = Fraction(table.V.to_numpy()[1, a, b, c, d])
        exact = C * C * total / size**2
        assert abs(V - exact) <= Fraction(1, 10**28) * (1 + abs(exact))


NEXT = layers.mix(np.roll(np.eye(3), 1, axis=1))
SHIFT = layers.Layer("z[i] = b[i] + W[i,a] s(z[a])", taps=dict(NEXT.tapped))


@pytest.mark.parametrize(
    ("layer", "dense"), [(SHIFT, "dense"), (layers.around(SHIFT, 0, "layer"), "normalized(layer)")]
)
def test_a_filter_that_shifts_is_the_dense_layer_elsewhere(layer, dense: str) -> None:
    """One matrix that reads position p + 1: all tensors are the dense ones one position on."""
    close(network(layer, "relu"), SIGNAL, 3, ["K", "V", "Theta"], 20)
    found, expected = (
        flow(network(each, "relu"), SIGNAL, 3, ["K", "V"], precision=20) for each in (layer, dense)
    )
    for name in ("K", "V"):
        axes = tuple(range(expected[name].ndim - 1))
        for at in range(3):
            moved = np.roll(numbers(expected, name)[at], (-at,) * len(axes), axes)
            np.testing.assert_allclose(numbers(found, name)[at], moved, rtol=1e-15, atol=1e-25)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_constant_signal_has_the_digits_of_a_vector(activation: str) -> None:
    """A sum of s Gaussian matrices is one; all that Haar matrices add to V is divided by s."""
    x = SIGNAL[0]
    found = flow(network("convolution(2, 3)", activation), [x] * 3, 2, ["K", "V"], precision=25)
    one = [
        flow(network("dense", activation, weights), x, 2, ["K", "V"], precision=25)
        for weights in (Gaussian("3/2"), Orthogonal("3/2"))
    ]
    K, V = ([Fraction(value) for value in found[name].to_numpy()[1].flat] for name in ("K", "V"))
    K_one, V_one = ([Fraction(each[name].to_numpy()[1]) for each in one] for name in ("K", "V"))
    assert all(abs(each / K_one[0] - 1) < Fraction(1, 10**23) for each in K)
    expected = sum(V_one) / 2
    assert all(abs(each / expected - 1) < Fraction(1, 10**22) for each in V)


def test_what_has_no_digits() -> None:
    net = network("around(convolution(2, 3), norm=rms)")
    with pytest.raises(InputError, match=r"precision.*sequences of several inputs"):
        flow(net, SIGNAL, 2, ["V"], precision=20)


def made(layer, names=("K", "V", "Theta"), *, single=False):
    found = [recursion(name, Orthogonal(), layer=layer) for name in names]
    return [each.single_input() if single else each for each in found]


def module(layer, path, inputs, names=("K", "V", "Theta"), *, single=False):
    """What a module gives for these inputs, by the tensors' names."""
    path = write_module(made(layer, names, single=single), SQUARE, path)
    kernel = interpreted(path.read_text(), path.stem)
    numbers = {"C_W": 1.2, "C_b": 0.1}
    columns = [np.full(4, numbers.get(name, 1.0)) for name in kernel.PARAMETERS]
    K0 = inputs @ inputs.T / inputs.shape[-1]
    out = kernel.flow(K0, *columns)
    return dict(zip(kernel.TENSORS, out.T if single else out, strict=True))


def flowed(layer, inputs, activation=SQUARE, depth=4):
    net = Network(activation, Orthogonal(1.2), C_b=0.1, layer=layer)
    return flow(net, inputs, depth, ["K", "V", "Theta"])


@pytest.mark.parametrize("layer", ["convolution(2, 3)", PAIR, RESIDUAL])
def test_a_module_sums_over_taps(layer: str, tmp_path) -> None:
    found, expected = module(layer, tmp_path / "signals.py", SIGNAL), flowed(layer, SIGNAL)
    for name in ("K", "V", "Theta"):
        scale = np.abs(expected[name].values).max()
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-13 * scale)


@pytest.mark.parametrize(
    ("readout", "names", "signals"),
    [("mean", ["K", "V", "Theta"], [SIGNAL]), ("flatten", ["K"], [SIGNAL, SIGNAL[::-1] / 2])],
)
def test_a_module_reads_signals_out_in_the_last_layer(readout, names, signals, tmp_path) -> None:
    layer = f"convolution(2, 3)*; convolution(2, 3, readout={readout})"
    found = module(layer, tmp_path / "read.py", np.concatenate(signals), names)
    expected = flowed(layer, signals)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name][-1], rtol=1e-9)


@pytest.mark.parametrize(
    "layer", ["convolution(2, 3)", "convolution(3, 3, readout=mean)", RESIDUAL]
)
def test_a_module_of_one_input_has_a_constant_signal(layer: str, tmp_path) -> None:
    found = module(layer, tmp_path / "constant.py", SIGNAL[0], single=True)
    expected = flowed(layer, [SIGNAL[0]] * 3)
    for name in ("K", "V", "Theta"):
        values = expected[name].values.reshape(4, -1)[-1]
        np.testing.assert_allclose(values, found[name][-1], rtol=1e-9)


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_c_has_a_constant_signal(tmp_path) -> None:
    layer = "convolution(2, 3)"
    source, header = write_c(made(layer, single=True), "tanh", tmp_path / "kernel.c")
    library = source.with_suffix(".so")
    command = [COMPILER, "-std=c99", "-fPIC", "-shared", "-o", library, source, "-lm"]
    subprocess.run(command, check=True)
    found = ran(library, header.read_text()).reshape(3, -1)
    expected = flowed(layer, [[np.mean(INPUTS[0] ** 2) ** 0.5]] * 3, "tanh", 3)
    for k, name in enumerate(("K", "V", "Theta")):
        values = expected[name].values.reshape(3, -1)[:, 0]
        np.testing.assert_allclose(found[:, k], values, rtol=1e-9)


def test_zeros_outside_leave_no_constant_signal(tmp_path) -> None:
    with pytest.raises(InputError, match="leaves no signal the same everywhere"):
        module("convolution(2, 3, boundary=zero)", tmp_path / "no.py", SIGNAL[0], single=True)


def deep(layer, weights, **variances):
    """The leading term of V of a constant signal."""
    made = recursion("V", weights, layer=layer).single_input()
    return made.asymptotics("tanh", 1, **variances)


def test_matrices_of_taps_are_an_average_of_laws_at_large_depth() -> None:
    """V of s orthogonal matrices has 1 − 1/s of the Gaussian source at small K, where V of one
    orthogonal matrix is of higher order."""
    leading = [
        deep(layer, weights).expr
        for layer, weights in (
            (None, Gaussian()),
            ("convolution(2, 3)", Gaussian()),
            ("convolution(2, 3)", Orthogonal()),
            ("convolution(3, 3)", Orthogonal()),
            ("convolution(3, 3, readout=mean)", Orthogonal()),
        )
    ]
    assert leading[0] != 0
    shares = [sympy.simplify(each / leading[0]) for each in leading[1:]]
    assert shares == [1, sympy.Rational(1, 2), sympy.Rational(2, 3), sympy.Rational(2, 3)]


@pytest.mark.parametrize("layer", ["convolution(2, 3)", "convolution(2, 3, readout=mean)"])
def test_the_value_at_large_depth_is_met(layer: str) -> None:
    found = deep(layer, Orthogonal(), C_W=sympy.Rational(6, 5), C_b=sympy.Rational(1, 10))
    values = flowed(layer, [SIGNAL[0]] * 3, "tanh", 60).V.values[-1]
    np.testing.assert_allclose(values, float(found.expr), rtol=1e-6)


@pytest.mark.parametrize("norm", ["", ", norm=rms"])
def test_a_recursion_past_a_convolution_is_of_a_constant_signal(norm: str) -> None:
    """Gaussian matrices of all taps are one; of what Haar matrices subtract each tap has 1/s²."""
    past, plain = f"around(convolution(2, 3), skip=1/2{norm})", f"skip(1/2{norm})"
    gauss, haar = (
        [recursion("V", law, layer=each).single_input() for each in (past, plain)]
        for law in (Gaussian(), Orthogonal())
    )
    assert sympy.expand(gauss[0].expr - gauss[1].expr) == 0
    added = sympy.expand(haar[1].expr - gauss[1].expr)
    assert added != 0
    assert sympy.expand(haar[0].expr - gauss[0].expr - added / 2) == 0
    assert gauss[0].sequences == gauss[1].sequences
    zero = past.replace("3)", "3, boundary=zero)", 1)
    with pytest.raises(InputError, match="leaves no signal the same everywhere"):
        str(recursion("V", layer=zero).single_input())


def pairings(labels: tuple[int, ...], C) -> float:
    """E Π z over Gaussian z of covariance C."""
    if not labels:
        return 1.0
    first, *rest = labels
    return sum(C[first][b] * pairings((*rest[:k], *rest[k + 1 :]), C) for k, b in enumerate(rest))


def at_layer_2(expr, at, K, read) -> float:
    """A recursion at samples of a signal of three positions, behind a Gaussian layer 1.

    Arguments:
        read: the matrix of each tap, from positions to positions.
    """
    if isinstance(expr, Moved):
        blocks = [list(map(int, block.args)) for block in expr.args[1].args]
        total = 0.0
        for taps in product(read, repeat=len(blocks)):
            by = {s: A for A, block in zip(taps, blocks, strict=True) for s in block}
            for places in product(range(3), repeat=len(by)):
                to = dict(zip(by, places, strict=True))
                weight = np.prod([A[at[s], to[s]] for s, A in by.items()])
                total += weight * at_layer_2(expr.args[0], at | to, K, read) if weight else 0.0
        return total
    if isinstance(expr, Component):
        a, b, *_ = (at[int(each)] for each in expr.args[1].args)
        return K[a, b] if str(expr.args[0]) == "K" else 0.0
    if isinstance(expr, GaussianAverage):
        f, z, entries = expr.args
        values = iter([at_layer_2(each, at, K, read) for each in entries.args])
        C = np.zeros((len(z.args),) * 2)
        for a in range(len(C)):
            for b in range(a, len(C)):
                C[a, b] = C[b, a] = next(values)
        terms = sympy.Poly(f, *z.args).terms()
        own = (([k for k, n in enumerate(powers) for _ in range(n)], c) for powers, c in terms)
        return sum(float(c) * pairings(tuple(labels), C) for labels, c in own)
    parts = [at_layer_2(each, at, K, read) for each in expr.args]
    if expr.is_Add:
        return sum(parts)
    if expr.is_Mul:
        return float(np.prod(parts))
    return parts[0] ** parts[1] if expr.is_Pow else float(expr.subs({"C_W": 1.5}))


SHIFTS = [np.eye(3), np.roll(np.eye(3), 1, axis=1)]
PLACES = [np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]]), np.eye(3)]
WEIGHTED = [
    np.array([[0.5, 0, 0], [0, 0, 1], [0, -1, 0]]),
    np.array([[1, 1, 0], [0, 0, 2]] * 2)[:3],
]


@pytest.mark.parametrize(
    ("layer", "read"),
    [
        ("around(convolution(2, 3), skip=1/2)", SHIFTS),
        (layers.around(layers.mix(*PLACES), "1/2"), PLACES),
    ],
    ids=["shifts", "others"],
)
def test_a_recursion_past_a_convolution_is_what_flow_runs(layer, read) -> None:
    """Its sums over taps, by hand, of σ = z², where V and its functionals are 0 at layer 1."""
    found = flow(network(layer, C_b=0), SIGNAL, 2, ["K", "V"])
    K, made = found.K.values[0], recursion("V", Orthogonal(), layer=layer, activation=SQUARE)
    for at in [*product(range(3), repeat=4)][::7]:
        value = at_layer_2(made.expr, dict(zip(made.samples, at, strict=True)), K, read)
        assert value == pytest.approx(found.V.values[1][at], rel=1e-11)


@pytest.mark.parametrize("read", [WEIGHTED, WEIGHTED[1:]], ids=len)
def test_a_recursion_past_weighted_positions_is_exact(read) -> None:
    """Its sums, by hand and by `flow`, at infinite width."""
    net = network(layers.around(layers.mix(*read), "1/2"), C_b=0)
    table = flow(net, SIGNAL, 2, ["K", "V"])
    K = table.K.values[0]
    pairs = [*product(range(3), repeat=2)]
    kernel = {(p, q): sympy.nsimplify(K[p, q] / 1.2, rational=True) for p, q in pairs if p <= q}
    made = recursion("V", Orthogonal(), layer=net.layer, activation=SQUARE)
    for at in [(0, 0, 0, 0), (0, 1, 0, 2), (1, 2, 1, 2), (2, 1, 2, 2)]:
        value = at_layer_2(made.expr, dict(zip(made.samples, at, strict=True)), K, read)
        (exactly,) = exact.series("V", net, 2, 0, at, kernel=kernel)
        assert value == pytest.approx(float(exactly), rel=1e-11)
        assert table.V.values[1][at] == pytest.approx(float(exactly), rel=1e-11)


def test_a_norm_behind_a_convolution_is_over_the_taps() -> None:
    """K_y[1,2] is K_h[1,2] over the roots of K_h at each sample, sums over taps like it."""
    made = recursion("K", layer="sequence(convolution(2, 3), normalized(rms))")
    (kernel,) = made.kernels.values()
    sums = {str(each) for each in kernel.atoms(sympy.Expr) if type(each).__name__ == "Moved"}
    assert len(sums) == 3
