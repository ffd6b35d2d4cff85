"""`derive.exact` of layers other than the dense one, against networks written out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
import pytest
import sympy
from written_networks import DENSE, Explicit, Signal, Written, plus, times

from derive import (
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Permuted,
    Rademacher,
    RegularSparse,
    Uniform,
    WeightEnsemble,
    activations,
    exact,
    layers,
    recursion,
)
from derive.groups import refining_partitions
from derive.symbols import K0, n
from numeric import flow

half = sympy.Rational(1, 2)
Sigma = Callable[[Any], Any]


def scaled(factor: Fraction | int, vector: Sequence[Any]) -> list[Any]:
    numerator, denominator = Fraction(factor).as_integer_ratio()
    return [value * numerator / denominator for value in vector]


def residual(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    return [
        plus(scaled(Fraction(1, 2), at), of["b"], times(of["W2"], map_(s, times(of["W1"], at))))
        for at in z
    ]


def gated(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    (at,) = z
    h, g = times(of["W1"], at), map_(s, times(of["W2"], at))
    return [plus(at, of["b"], times(of["W3"], [x * y for x, y in zip(h, g, strict=True)]))]


def skip(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    return [plus(scaled(2, at), of["b"], times(of["W"], map_(s, at))) for at in z]


def dropout(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    masked = [[m * s(x) for m, x in zip(of[f"mask{sample}"], at, strict=True)] for at in z]
    return [plus(of["b"], times(of["W"], at)) for at in masked]


def convolution(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    """Of two positions and two taps, k = 0, 1, and 0 outside."""
    ends = [*z, None]
    return [
        plus(
            of["b"],
            times(of["W0"], map_(s, ends[p])),
            times(of["W1"], map_(s, ends[p + 1])) if ends[p + 1] else [0 * x for x in z[p]],
        )
        for p in range(len(z))
    ]


def around(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    """A skip around two dense layers, the first one linear, at each position with another mean."""
    found = []
    for at in z:
        q = sum(x * x for x in times(of["W1"], at)) / len(at)
        h = times(of["W1"], at)
        m = sum(h) / len(h)
        found.append(plus([q * x for x in at], of["b"], times(of["W2"], [s(x - m) for x in h])))
    return found


def map_(s: Sigma, vector: Sequence[Any]) -> list[Any]:
    return [s(x) for x in vector]


ONE = {"W1": (1, 1, 1), "W2": (1, 1, 1)}
LAYERS: dict[str, tuple[Any, Written]] = {
    "dense": ("dense", DENSE),
    "residual": ("residual(skip=1/2)", Written(ONE, residual)),
    "wide": (
        "residual(skip=1/2, ratio=2)",
        Written({"W1": (1, 2, 1), "W2": (2, 1, 1)}, residual),
    ),
    "gated": ("gated(skip=1)", Written(ONE | {"W3": (1, 1, 1)}, gated)),
    "skip": ("skip(2)", Written({"W": (1, 1, 1)}, skip)),
    "dropout": ("dropout(3/4)", Written({"W": (1, 1, 1)}, dropout, Fraction(3, 4))),
    "convolution": (
        "convolution(2, 2, boundary=zero)",
        Written({"W": (1, 1, 2)}, convolution),
    ),
    "collective": (
        layers.Layer(
            "h[i] = W1[i,a] z[a]",
            "q = h[a] h[a]/n",
            "m = h[a]/n",
            "z[i] = q z[i] + b[i] + W2[i,a] s(h[a] - m)",
        ),
        Written(ONE, around),
    ),
}
LAWS: dict[str, WeightEnsemble] = {
    "Gaussian": Gaussian(2),
    "Orthogonal": Orthogonal(half),
    "Rademacher": Rademacher(half),
    "Uniform": Uniform(2),
    "LowRankOrthogonal": LowRankOrthogonal(2, gamma=half),
}


def check(
    net: Network,
    written: Written,
    inputs: tuple[Any, ...],
    fields: Sequence[str],
    neurons: Sequence[int],
    samples: Sequence[int],
    depth: int = 2,
    n: int = 2,
) -> sympy.Rational:
    """Both roads give the same rational number: this one."""
    first = inputs[0][0] if isinstance(inputs[0][0], tuple) else inputs[0]
    explicit = Explicit(net, (len(first), *[n] * depth), inputs, written)
    expected = explicit.cumulant(fields, neurons, samples)
    given = {"width": n, "inputs": len(first), "kernel": explicit.kernel}
    got = exact.component(fields, neurons, net, depth, samples, **given)
    assert got == sympy.Rational(expected.numerator, expected.denominator)
    return got


def network(name: str, law: str, coefficients: Sequence[int], **others: Any) -> Network:
    given = {"C_b": half, "lambda_b": 3, "lambda_W": 2, "layer": LAYERS[name][0]} | others
    return Network(activations.polynomial(coefficients), LAWS[law], **given)


FIELDS = {
    "K": (["z", "z"], (0, 0), (0, 1)),
    "H": (["H"], (0, 0), (0, 1)),
    "V": (["z"] * 4, (0, 0, 1, 1), (0, 1, 0, 1)),
}
SHORT = ("dense", "skip", "dropout", "convolution")


def inputs_of(name: str) -> tuple[Any, ...]:
    """Two inputs, or one with two positions."""
    return (((1,), (-2,)),) if name == "convolution" else ((1,), (-2,))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_written_out(name, law):
    """σ = z²: the two-point function and the NTK, each between two inputs or positions."""
    net = network(name, law, [0, 0, 1])
    for fields in (FIELDS["K"], FIELDS["H"]):
        check(net, LAYERS[name][1], inputs_of(name), *fields)


@pytest.mark.parametrize("law", ["Orthogonal", "Rademacher"])
@pytest.mark.parametrize("name", SHORT)
def test_four_points_written_out(name, law):
    net = network(name, law, [0, 0, 1])
    check(net, LAYERS[name][1], inputs_of(name), *FIELDS["V"])


@pytest.mark.parametrize("name", [*SHORT, "residual", "gated"])
def test_what_only_permutations_keep_written_out(name):
    """σ = 1 + 2z + z²: odd moments at different neurons, and the NTK with z."""
    net = network(name, "Uniform", [1, 2, 1], C_b=0)
    for fields, neurons in ((["z"] * 3, (0, 1, 1)), (["z", "z"], (0, 1)), (["z", "H"], (0, 1, 1))):
        check(net, LAYERS[name][1], inputs_of(name), fields, neurons, (0, 1, 1)[: len(neurons)])


TOWER = {
    "residual": (["dH", "z"], (0, 1, 1, 0)),
    "skip": (["ddI"], (0, 1, 1, 0)),
    "dropout": (["H", "H"], (0, 1, 1, 0)),
    "convolution": (["ddII"], (0, 1, 1, 0)),
}


@pytest.mark.parametrize("name", TOWER)
def test_towers_written_out(name):
    """Derivatives of every order that `derive` has names for."""
    net = network(name, "Gaussian" if name == "residual" else "Orthogonal", [0, 1, 1])
    assert check(net, LAYERS[name][1], inputs_of(name), *TOWER[name], (0, 1, 1, 0)) != 0


def pooled(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    means = [
        scaled(Fraction(1, len(z)), [sum(xs)])
        for xs in zip(*(map_(s, at) for at in z), strict=True)
    ]
    return [plus(of["b"], times(of["W"], [mean for (mean,) in means]))]


def flattened(z: Signal, s: Sigma, of: dict[str, Any], sample: int) -> Signal:
    parts = (times(of[f"W{p}"], map_(s, at)) for p, at in enumerate(z))
    return [plus(of["b"], *parts)]


READOUTS = {
    "mean": Written({"W": (1, 1, 1)}, pooled),
    "flatten": Written({"W": (1, 1, 2)}, flattened),
}


@pytest.mark.parametrize("law", ["Orthogonal", "Rademacher"])
@pytest.mark.parametrize("readout", READOUTS)
def test_readouts_written_out(readout, law):
    """Two signals of two positions, behind a layer and a readout of their positions."""
    layer = f"convolution(2, 2, boundary=zero, readout={readout})"
    net = network("dense", law, [0, 1, 1], layer=layer)
    signals = ((1,), (-2,)), ((1,), (1,))
    for what in ("K", "H"):
        check(net, READOUTS[readout], signals, *FIELDS[what])
    behind = LAYERS["convolution"][1], READOUTS[readout]
    check(net, behind, signals[:1], ["z", "z"], (0, 0), (0, 0), depth=3, n=1)


@pytest.mark.parametrize("name", ["residual", "gated", "skip", "dropout", "collective"])
def test_layers_behind_layers_written_out(name):
    """Three layers, the second of them dense, of one neuron."""
    net = network(name, "Gaussian", [0, 1, 1], layer=layers.by_depth(["dense", LAYERS[name][0]]))
    written = DENSE, LAYERS[name][1]
    check(net, written, ((1,),), ["z", "z"], (0, 0), (0, 0), depth=3, n=1)
    check(net, written, ((1,),), ["H"], (0, 0), (0, 0), depth=3, n=1)


def signed_permutations(n: int) -> list[list[list[int]]]:
    return [
        [[sign * (at == j) for j in range(n)] for sign, at in zip(signs, order, strict=True)]
        for order in permutations(range(n))
        for signs in product((1, -1), repeat=n)
    ]


@pytest.mark.parametrize("n", [2, 3])
def test_signed_permutations_enumerated(n):
    """z' = z/2 + W₂ σ(W₁ z) and W σ(z), every matrix gone through; of the last one its row 1."""
    size = sympy.Symbol("n")
    law = Permuted(fourth=1 / size, row=0, column=0, apart=1 / (size * (size - 1)), around=0)
    x = [3, 1, -2][:n]
    group = signed_permutations(n)
    identity = [[int(i == j) for j in range(n)] for i in range(n)]
    rows = [[sign * entry for entry in row] for row in identity for sign in (1, -1)]
    kernel = {(0,) * k: sympy.Rational(sum(v**k for v in x), n) for k in (2, 4)}
    for layer, matrices in (("dense", 1), ("residual(skip=1/2)", 2)):
        net = Network(activations.polynomial([0, 0, 1]), law, layer=layer)
        inner = group if matrices == 2 else [identity]
        squares = [
            (sum(w * v**2 for w, v in zip(row, times(own, z), strict=True)) + carried) ** 2
            for first, own, row in product(group, inner, rows)
            for z in (times(first, x),)
            for carried in (Fraction(z[0], 2) if matrices == 2 else 0,)
        ]
        mean = Fraction(sum(squares)) / len(squares)
        given = {"width": n, "inputs": n, "kernel": kernel, "samples": (0, 0)}
        assert exact.component(["z", "z"], (0, 0), net, 2, **given) == sympy.Rational(str(mean))


@pytest.mark.parametrize("n", [2, 3])
def test_signed_permutations_behind_a_norm_enumerated(n):
    """z' = W y² of the direction y behind RMSNorm: every W gone through, for each the moments of a
    uniform y, E Π y_i^{2k_i} = n^k Π (2k_i − 1)!!/(n (n + 2) …)."""
    size = sympy.Symbol("n")
    law = Permuted(fourth=1 / size, row=0, column=0, apart=1 / (size * (size - 1)), around=0)
    net = Network(activations.polynomial([0, 0, 1]), law, "gaussian", layer="normalized(rms)")

    def mean(places):
        """E Π over these places of y²."""
        odd = [sympy.factorial2(2 * places.count(i) - 1) for i in set(places)]
        steps = sympy.prod(n + 2 * k for k in range(len(places)))
        return sympy.prod(odd) * sympy.Integer(n) ** len(places) / steps

    def moment(neurons):
        """E Π z'_i."""
        total = sympy.Integer(0)
        for W in signed_permutations(n):
            for places in product(range(n), repeat=len(neurons)):
                weight = sympy.prod(W[i][j] for i, j in zip(neurons, places, strict=True))
                total += weight * mean(places) if weight else 0
        return total / len(signed_permutations(n))

    second = moment((0, 0))
    expected = {
        (0, 0, 0, 0): moment((0, 0, 0, 0)) - 3 * second**2,
        (0, 0, 1, 1): moment((0, 0, 1, 1)) - second * moment((1, 1)),
    }
    for neurons, value in expected.items():
        given = {"width": n, "samples": (0, 0, 0, 0)}
        assert exact.component(["z"] * 4, neurons, net, 2, **given) == value
        assert value != 0


def test_gates_of_signed_permutations_enumerated():
    """z' = W₃[(W₁ z) (W₂ z)²]: six weights, a mask with one entry in each row and column."""
    law, x = RegularSparse(half, of=Rademacher()), [3, 1]
    group = signed_permutations(2)
    total = Fraction(0)
    for first, one, two, (row, _) in product(group, repeat=4):
        z = times(first, x)
        gate = [h * g**2 for h, g in zip(times(one, z), times(two, z), strict=True)]
        total += sum(w * v for w, v in zip(row, gate, strict=True)) ** 2
    kernel = {(1,) * k: sympy.Rational(sum(v**k for v in x), 2) for k in (2, 4, 6)}
    net = Network(activations.polynomial([0, 0, 1]), law, layer="gated")
    value = exact.cumulant("K", net, 2, width=2, kernel=kernel)
    assert value == sympy.Rational(str(total / len(group) ** 4))


CELLS = ((0, 0), (0, 1), (1, 1)), ((0, 0), (1, 1), (2, 2)), ((0, 0), (0, 1), (1, 2)), ((0, 0),) * 3
MASKS = (
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]],
    [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]],
)


@pytest.mark.parametrize("cells", CELLS)
def test_six_weights_of_each_mask(cells):
    """One cycle of eight entries or two of four: averages of six weights are the same."""
    law, points = RegularSparse(half, of=Rademacher()), [cell for cell in cells for _ in range(2)]
    kernels = [
        tuple(
            tuple(k for k, point in enumerate(points) if point[side] == label)
            for label in dict.fromkeys(point[side] for point in points)
        )
        for side in (0, 1)
    ]
    made = sum(law.joint(p, q, 4, 4) for p, q in product(*map(refining_partitions, kernels)))
    orders = list(permutations(range(4)))
    for mask in MASKS:
        chances = [
            all(mask[rows[i]][columns[j]] for i, j in cells)
            for rows, columns in product(orders, repeat=2)
        ]
        assert made == sympy.Rational(sum(chances), len(chances)) / 8


SERIES = {
    "residual(skip=1/2)": Gaussian(half),
    "gated": Orthogonal(1),
    "skip(1/2)": Uniform(1),
    "dropout(3/4)": Uniform(1),
    "sequence(residual(skip=1/2), dense)": Uniform(half),
    "normalized(rms)": Orthogonal(1),
    "residual(skip=1, norm=rms)": Gaussian(1),
    "normalized(layer)": Gaussian(1),
}


@pytest.mark.parametrize("name", SERIES)
def test_expansions_are_those_of_the_recursions(name):
    """K, G1 and V of layers 1, 2, 3 as `flow` has them."""
    x = [1.5, -0.5, 2.0, 1.0]
    net = Network(activations.polynomial([0, half, half]), SERIES[name], C_b=half, layer=name)
    depth = 3 if name in ("skip(1/2)", "dropout(3/4)") else 2
    table = flow(net, np.array(x), depth, ["K", "G1", "V"])
    kernel = {(1,) * k: sum(sympy.nsimplify(v) ** k for v in x) / len(x) for k in range(2, 17, 2)}
    for layer in range(1, depth + 1):
        K, G1 = exact.series("K", net, layer, 1, kernel=kernel)
        (V,) = exact.series("V", net, layer, 0, kernel=kernel)
        found = [float(table[each].sel(layer=layer)) for each in ("K", "G1", "V")]
        assert found == pytest.approx([float(K), float(G1), float(V)], rel=1e-9)


WEIGHTED = layers.mix(np.array([[0.5, 0.25, 0.0], [0.0, -1.0, 0.5]]), np.eye(3)[1:])
STRIDED = layers.around("sequence(convolution(2, 3, stride=2, activations=linear), dense)", "1/2")


@pytest.mark.parametrize(
    ("layer", "law"),
    [
        pytest.param("convolution(2, 3)", Orthogonal(1), marks=pytest.mark.slow),
        ("convolution(2, 3)", Uniform(1)),
        (WEIGHTED, Uniform(1)),
        (STRIDED, Gaussian(1)),
        (layers.pooling(3, 2, 1), Uniform(1)),
    ],
    ids=str,
)
def test_expansions_between_positions(layer, law):
    """K, G1 and V of sums over positions, as `flow` has them at each position."""
    x = np.array([[1.5, -0.5], [2.0, 1.0], [0.5, 1.0]])
    net = Network(activations.polynomial([0, half, half]), law, C_b=half, layer=layer)
    table = flow(net, x, 2, ["K", "G1", "V"])
    kernel = {
        at: sympy.nsimplify(np.prod(x[list(at)], axis=0).mean())
        for size in (2, 4, 6, 8)
        for at in combinations_with_replacement(range(3), size)
    }
    last = table["K"].shape[-1] - 1
    for p, q in ((0, 0), (0, 1), (last, 0)):
        K, G1 = exact.series("K", net, 2, 1, (p, q), kernel=kernel)
        (V,) = exact.series("V", net, 2, 0, (p, p, q, q), kernel=kernel)
        behind = table.sel(layer=2)
        found = [float(behind[each].to_numpy()[p, q]) for each in ("K", "G1")]
        found.append(float(behind["V"].to_numpy()[p, p, q, q]))
        assert found == pytest.approx([float(K), float(G1), float(V)], rel=1e-9)


NORMED = ("normalized({})", "residual(skip=1/2{})", "gated(skip=1/2{})", "skip(1/2{})")


@pytest.mark.parametrize("text", NORMED)
def test_norms_of_what_has_the_length_already(text):
    """|z|² = n of a Haar layer of inputs with C_W K0 = 1 and no biases: a norm changes nothing."""
    plain = "dense" if text == NORMED[0] else text.format("")
    normed = text.format("rms" if text == NORMED[0] else ", norm=rms")
    for name in ("K", "V") if "gated" not in text else ("K",):
        values = [
            exact.cumulant(
                name,
                Network(activations.polynomial([0, 0, 1]), Orthogonal(2), layer=layer),
                2,
                kernel={(1, 1): half},
            )
            for layer in (plain, normed)
        ]
        assert sympy.cancel(values[0] - values[1]) == 0
        assert values[0] != 0


def test_the_direction_behind_a_norm_is_uniform():
    """Whatever the length: of Gaussian weights with biases as of orthogonal ones without."""
    sigma = activations.polynomial([0, 0, 1])
    made = [
        exact.cumulant("V", Network(sigma, Gaussian(1), first, C_b, layer="normalized(rms)"), 2)
        for first, C_b in ((Gaussian(3), 0), (Orthogonal(), 0))
    ]
    assert made[0] == made[1]


def test_a_direction_without_its_mean():
    """Behind LayerNorm n − 1 directions are left. A matrix that rotations keep sees |y|² = n."""
    net = Network(activations.polynomial([0, 0, 1]), Gaussian(), layer="normalized(layer)")
    assert sympy.cancel(exact.cumulant("K", net, 3) - 3 * (n - 1) / (n + 1)) == 0
    made = [
        exact.cumulant(name, replace(net, layer=f"residual(skip=1/2, norm={norm})"), 2, width=12)
        for name in ("K", "V")
        for norm in ("rms", "layer")
    ]
    assert made[0] == made[1]
    assert made[2] == made[3]


REFUSED = {
    "a norm with eps": ("normalized(rms, eps=1/10)", Gaussian(), {}, "no rational functions"),
    "a norm of independent weights": ("normalized(rms)", Uniform(), {}, "no rational functions"),
    "two inputs": ("normalized(rms)", Gaussian(), {"samples": (1, 2)}, "of one input"),
    "another function of the length": (
        layers.Layer("q = z[a] z[a]/n", "m = z[a]/n", "z[i] = b[i] + W[i,a] s(z[a])/sqrt(q + m m)"),
        Gaussian(),
        {},
        "roots of a mean of squares",
    ),
    "derivatives": ("normalized(rms)", Gaussian(), {"name": "Theta"}, "z alone behind a norm"),
    "eight weights": ("gated", RegularSparse(half), {"layer": 3}, "averages of four weights"),
    "a function": ("dense(activations=tanh)", Gaussian(), {}, "a polynomial"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_say_why(what):
    layer, law, given, message = REFUSED[what]
    net = Network(activations.polynomial([0, 0, 1]), law, layer=layer)
    with pytest.raises(InputError, match=message):
        exact.cumulant(**{"name": "K", "network": net, "layer": 2} | given)


def test_a_mean_beside_a_norm_is_not_taken_off_in_it():
    """y = z/√q and v = m z in one stage: by hand E y² + E v² = 1 + E m² z_1²."""
    norm = layers.Layer(
        "q = z[a] z[a]/n",
        "m = z[a]/n",
        "y[i] = z[i]/sqrt(q)",
        "v[i] = m z[i]",
        "z[i] = W1[i,a] y[a] + W2[i,a] v[a]",
    )
    net = Network("linear", Gaussian(), layer=norm)
    expected = 1 + K0**2 * (n + 2) / n**2
    assert sympy.cancel(exact.cumulant("K", net, 2) - expected) == 0


def test_an_odd_power_of_a_norm_is_refused():
    """E[z_1 y_1³] = E[√q z_1⁴/q²], for one index that occurs once."""
    net = Network(activations.polynomial([0, 1, 1]), Gaussian(), layer="skip(1, norm=rms)")
    with pytest.raises(InputError, match="an odd power of a norm"):
        exact.component(["z"] * 3, (0, 1, 1), net, 2)


def test_corrections_of_the_variances_count():
    """C_W + 3/n and C_b + 2/n, at n = 6."""
    sigma, given = activations.polynomial([0, 1, 1]), {"width": 6, "layer": 2}
    corrected = Network(
        sigma, Gaussian(1), C_b=1, C_W_corrections=(3,), C_b_corrections=(2,), layer="gated"
    )
    plain = Network(sigma, Gaussian(3 * half), C_b=sympy.Rational(4, 3), layer="gated")
    for name in ("K", "Theta"):
        assert exact.cumulant(name, corrected, **given) == exact.cumulant(name, plain, **given)
    assert exact.series("K", replace(plain, layer="dense"), 1, 1)[1] == 0
    assert exact.series("K", replace(corrected, layer="dense"), 1, 1) == (K0 + 1, 3 * K0 + 2)


@pytest.mark.parametrize("law", [RegularSparse(half), Uniform(2), Orthogonal(2)], ids=str)
def test_a_symbol_for_the_width_is_every_integer(law):
    net = Network(activations.polynomial([0, 0, 1]), law, C_b=1, layer="skip(2)")
    value = exact.cumulant("K", net, 2)
    for width in (4, 6):
        found = exact.cumulant("K", net, 2, width=width)
        assert sympy.expand(value.subs(n, width) - found) == 0


def test_layer_1_of_independent_weights():
    """The fourth mean of the inputs, under the name that the recursion gives it."""
    net = Network("linear", Uniform(2))
    pairing = ((0, 1, 2, 3),)
    made = recursion(["z"] * 4, Uniform(), pairing=pairing, first_layer=True).single_input()
    value = exact.cumulant(["z"] * 4, net, 1, pairing=pairing)
    assert value == made.expr.subs("C_W", 2)
    with pytest.raises(InputError, match=r"a value for the samples \(1, 1, 1, 1\)"):
        exact.cumulant("V", net, 2, kernel={(1, 1): 1})
