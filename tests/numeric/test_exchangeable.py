"""Skips around one matrix: G1 and V of `flow` against exact moments, limits and ensembles."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, factorial, prod

import numpy as np
import pytest
import sympy

from derive import (
    Gaussian,
    Independent,
    Network,
    Orthogonal,
    Rademacher,
    RegularSparse,
    Uniform,
    layers,
    recursion,
    symbols,
)
from derive.errors import InputError
from derive.groups import set_partitions
from numeric import compare, flow, flows, simulate
from numeric.layers.skips import tangents

HALF = sympy.sqrt(2) / 2
WEIGHTS = [Gaussian, Orthogonal]


def ways_of_noise(power: int, fours: int) -> int:
    """The ways to put so many factors into so many fours, and into pairs."""
    pairs = power // 2 - 2 * fours
    return factorial(power) // (24**fours * factorial(fours) * 2**pairs * factorial(pairs))


class Exact:
    """E Π_i z_i^{a_i} over distinct neurons at width n, for polynomial σ, by rational arithmetic.

    Given z below, z'_i = γ z_i + w_i, where E Π w_i^{c_i} is Q^{k/2} Π (c_i − 1)!!, over n (n + 2)
    … (n + k − 2) times n^{k/2} for a w that is uniform on a sphere, and Q^m = (C_W/n)^m Σ Π σ(z)²
    is a sum over neurons, some of them i and some alike. Entries with a κ_4 and no other cumulant
    have beside Q at each neuron κ_4 (C_W/n)² Σ σ(z)⁴; in layer 1 with the n inputs 1 for σ.
    """

    def __init__(
        self,
        n: int,
        sigma: list[Fraction],
        gamma: Fraction,
        C_W: Fraction,
        sphere: bool = False,
        kurtosis: Fraction = Fraction(0),
        of_first: Fraction = Fraction(0),
    ):
        self.n, self.gamma, self.C_W, self.sphere = n, gamma, C_W, sphere
        self.kurtosis, self.of_first = kurtosis, of_first
        terms = [
            sum(
                (sigma[i] * sigma[k - i] for i in range(k + 1) if i < len(sigma) > k - i),
                Fraction(0),
            )
            for k in range(2 * len(sigma) - 1)
        ]
        self.squared = {k: value for k, value in enumerate(terms) if value}
        self.at = cache(self._at)

    def _noise(
        self, powers: tuple[int, ...], kurtosis: Fraction, sphere: bool
    ) -> Iterator[tuple[Fraction, list[int]]]:
        """The terms of E Π w^{c}: a number, and of each sum over neurons half its power of σ."""
        total = sum(powers)
        if any(power % 2 for power in powers):
            return
        for fours in product(*(range(power // 4 + 1 if kurtosis else 1) for power in powers)):
            value = Fraction(prod(map(ways_of_noise, powers, fours))) * kurtosis ** sum(fours)
            if sphere:
                value *= Fraction(self.n) ** (total // 2)
                value /= prod(self.n + 2 * k for k in range(total // 2))
            yield value, [2] * sum(fours) + [1] * (total // 2 - 2 * sum(fours))

    def _sums(self, own: tuple[int, ...], halves: list[int], layer: int) -> Fraction:
        """E Π z_i^{a_i} Π (C_W/n)^h Σ σ^{2h}."""
        total, count = Fraction(0), len(halves)
        for blocks in set_partitions(tuple(range(count))) if count else [()]:
            sizes = [sum(halves[k] for k in block) for block in blocks]
            for places in product(range(-1, len(own)), repeat=len(sizes)):
                met = [place for place in places if place >= 0]
                if len(set(met)) < len(met):
                    continue
                fresh = places.count(-1)
                ways = prod(self.n - len(own) - k for k in range(fresh))
                for mono in product(*(self._power(size).items() for size in sizes)):
                    powers, new = list(own), []
                    for place, (degree, _) in zip(places, mono, strict=True):
                        if place >= 0:
                            powers[place] += degree
                        else:
                            new.append(degree)
                    value = prod((each for _, each in mono), start=Fraction(ways))
                    total += value * self.at(tuple(sorted(powers + new)), layer)
        return total * (self.C_W / self.n) ** sum(halves)

    def _power(self, size: int) -> dict[int, Fraction]:
        """σ^{2 size}."""
        result = {0: Fraction(1)}
        for _ in range(size):
            grown: dict[int, Fraction] = {}
            for (a, x), (b, y) in product(result.items(), self.squared.items()):
                grown[a + b] = grown.get(a + b, Fraction(0)) + x * y
            result = grown
        return result

    def _at(self, powers: tuple[int, ...], layer: int) -> Fraction:
        powers = tuple(power for power in powers if power)
        if layer == 1:  # of inputs with K0 = 1
            terms = self._noise(powers, self.of_first, False) if sum(powers) % 2 == 0 else ()
            scales = ((value, Fraction(self.n) ** (len(h) - sum(h))) for value, h in terms)
            return sum((v * s for v, s in scales), Fraction(0)) * self.C_W ** (sum(powers) // 2)
        total = Fraction(0)
        for kept in product(*(range(power + 1) for power in powers)):
            ways = prod(comb(a, k) for a, k in zip(powers, kept, strict=True))
            free = tuple(a - k for a, k in zip(powers, kept, strict=True))
            for noise, halves in self._noise(free, self.kurtosis, self.sphere):
                value = self._sums(kept, halves, layer - 1)
                total += noise * ways * self.gamma ** sum(kept) * value
        return total

    def vertex(self, layer: int) -> Fraction:
        """n Cov(z_i², z_j²)."""
        return self.n * (self.at((2, 2), layer) - self.at((2,), layer) ** 2)


LAWS = {
    "gaussian": (Gaussian(), Gaussian(), {}),
    "orthogonal": (Orthogonal(), Gaussian(), {"sphere": True}),
    "kurtosis": (Independent({4: "-6/5"}), Gaussian(), {"kurtosis": Fraction(-6, 5)}),
    "first": (Gaussian(), Independent({4: 3}), {"of_first": Fraction(3)}),
    "both": (Uniform(), Rademacher(), {"kurtosis": Fraction(-6, 5), "of_first": Fraction(-2)}),
}
"""Of an entry's cumulants those beyond κ_4 do not enter at order 1/n."""
CASES = [
    ("polynomial(0,1,1/2)", (0, 1, "1/2"), 3, ("orthogonal", "both")),
    ("polynomial(1/3,0,1/2)", ("1/3", 0, "1/2"), 3, ("orthogonal", "kurtosis", "first")),
    ("linear", (0, 1), 4, ("gaussian", "orthogonal")),
]


@pytest.mark.parametrize(
    ("sigma", "coefficients", "depth", "law"),
    [(*case, law) for *case, laws in CASES for law in laws],
)
def test_exact_moments(sigma, coefficients, depth, law):
    """At n = 10⁹ what is left of the next order is 10⁻⁹ or so; G1 is the 1/n part of E z²."""
    gamma, C_W = Fraction(3, 5), Fraction(1, 2)
    weights, first, given = LAWS[law]
    laws = weights.scaled_to(sympy.Rational(1, 2)), first.scaled_to(sympy.Rational(1, 2))
    net = Network(sigma, *laws, layer=layers.skip("3/5"))
    table = flow(net, [1.0], depth, ["K", "G1", "V"])
    n = 10**9
    exact = Exact(n, list(map(Fraction, coefficients)), gamma, C_W, **given)
    means = [exact.at((2,), layer) for layer in range(1, depth + 1)]
    kernel = [sympy.Rational(1, 2)]
    move = recursion("K", layer=layers.skip("3/5"), activation=sigma).single_input().expr
    for _ in range(depth - 1):
        found = move.subs({"C_W": sympy.Rational(1, 2), "C_b": 0, "K": kernel[-1]})
        kernel.append(sympy.nsimplify(found.doit()))
    leading = [Fraction(int(each.p), int(each.q)) for each in kernel]
    metric = [float(n * (mean - K)) for mean, K in zip(means, leading, strict=True)]
    vertex = [float(exact.vertex(layer)) for layer in range(1, depth + 1)]
    assert np.allclose(table["V"], vertex, rtol=1e-6, atol=1e-7)
    assert np.allclose(table["G1"], metric, rtol=1e-6, atol=1e-7)


TENSORS = ["G1", "V", "Theta1", "D", "F", "A", "B"]
RATES = {"C_b": 0.1, "lambda_b": 0.3, "lambda_W": 0.8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "weights", "first"),
    [
        ("dense", RegularSparse("1/2"), Uniform()),
        ("convolution(2, 2)", Uniform(), Uniform()),
    ],
)
def test_layers_before_a_skip_are_known_otherwise(block, weights, first):
    """The engine's recursions on pairings and blocks, and those on functionals, are one."""
    x = np.array([[0.7, -1.2, 0.3, 0.5], [0.4, 0.9, -0.8, 0.1]])  # two inputs, or a signal
    mixed = [block, block, layers.around(block, "1/2")]
    other, own = (Network("tanh", weights, first, layer=layer, **RATES) for layer in (block, mixed))
    names = TENSORS if block == "dense" else TENSORS[:-2]
    tables = [flow(net, x, depth, names, width=4) for net, depth in ((other, 3), (own, 4))]
    for name in names:
        one, two = (table[name].to_numpy()[:3] for table in tables)
        assert np.abs(one).max() > 0
        assert np.allclose(one, two, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_taps_divide_what_four_weights_have_beyond_pairs():
    """Of a constant signal s taps are one matrix, with the s-th part of its fourth cumulants; in
    them the tensors are linear."""
    x, names = np.array([0.7, -1.2, 0.3, 0.5]), ["G1", "V", "D"]
    laws, found = (Orthogonal(), Gaussian()), []
    for layer, inputs in (
        ("skip(1/2)", x),
        (layers.around("convolution(2, 2)", "1/2"), np.tile(x, (2, 1))),
    ):
        nets = (Network("tanh", law, "gaussian", layer=layer, **RATES) for law in laws)
        found.append([flow(net, inputs, 4, names) for net in nets])
    for name in names:
        apart, tapped = (
            np.subtract(*(each[name].to_numpy().reshape(4, -1)[:, 0] for each in pair))
            for pair in found
        )
        assert np.allclose(apart, 2 * tapped, atol=1e-12)
        assert np.abs(apart).max() > 1e-3


@pytest.mark.slow
def test_independent_entries_in_ensembles():
    """Behind a norm, G1 of matrices of ±1 less that of Gaussian ones with the same signs, by widths
    16 and 48: one number within 4 standard errors, 6 of them from 0."""
    layer, C_W, gamma = layers.skip("3/5", norm="rms", eps="1/10"), 2.0, 0.6
    nets = [Network("tanh", law(2), Gaussian(2), layer=layer) for law in (Rademacher, Gaussian)]
    known, plain = (float(flow(net, [1.0], 3, "G1")["G1"][2]) for net in nets)
    rng, found = np.random.default_rng(3), []

    def normed(z):
        return np.tanh(z / np.sqrt((z**2).mean(axis=1, keepdims=True) + 0.1))

    for n in (16, 48):
        parts = []
        for _ in range(45):
            W, z = (rng.standard_normal((300, n, k)) for k in (n, 24))  # 24 inputs of each matrix
            z = np.sqrt(C_W) * z
            x, y = (each @ normed(z) * np.sqrt(C_W / n) for each in (np.sign(W), W))
            off = [z * (x - y), x**2 - y**2, z**2 * (x**2 - y**2), normed(z) ** 2 * (x**2 - y**2)]
            change = normed(gamma * z + x) ** 2 - normed(gamma * z + y) ** 2
            parts.append(n * np.mean([C_W * change, *off], axis=(2, 3)).T)
        values, *off = np.concatenate(parts).T  # of mean 0 all but the first
        values = values - np.linalg.lstsq(np.transpose(off), values, rcond=None)[0] @ off
        found.append((values.mean(), values.std() / np.sqrt(len(values))))
    (near, of_near), (far, of_far) = found
    value, error = 1.5 * far - 0.5 * near, np.hypot(1.5 * of_far, 0.5 * of_near)
    assert abs(value - (known - plain)) < 4.0 * error
    assert abs(value) > 6.0 * error


@pytest.mark.parametrize("ensemble", WEIGHTS)
@pytest.mark.parametrize("inputs", [[0.8, 0.6], [[0.8, 0.6], [-0.5, 1.0]]])
def test_linear_skips_keep_rotations(ensemble, inputs):
    """With σ = z the law is invariant, and the engine's own recursions hold."""
    given = {"C_b": 0.1, "weights": ensemble(C_W=0.7)}
    known = layers.Layer("z[i] = gamma z[i] + b[i] + W[i,a] z[a]", gamma="2/3")
    tables = [
        flow(Network("linear", layer=each, **given), inputs, 4, ["G1", "V"], width=2)
        for each in (layers.skip("2/3"), known)
    ]
    for name in ("G1", "V"):
        one, other = (table[name].to_numpy() for table in tables)
        assert np.allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("ensemble", WEIGHTS)
def test_dense_layers_forget(ensemble):
    """Behind a dense layer rotations keep the law again: the rest follows from V and G1 there."""
    net = Network("gelu", ensemble(C_W=1.3), C_b=0.1, layer="skip(1/2); dense; dense; skip(1/3)")
    table = flow(net, [1.0, 0.5], 5, ["K", "G1", "V"], width=2)
    steps = {
        name: recursion(name, ensemble(), activation="gelu").single_input() for name in ("G1", "V")
    }
    below = {name: float(table[name][2]) for name in ("K", "G1", "V")}
    for name, step in steps.items():
        value = step.expr.subs(below | {"C_W": 1.3, "C_b": 0.1}).evalf()
        assert float(value) == pytest.approx(float(table[name][3]), rel=1e-10)


@pytest.mark.parametrize("sigma", ["relu", "tanh", "gelu"])
def test_inputs_that_are_alike_are_one(sigma):
    net = Network(sigma, Orthogonal(C_W=0.9), C_b=0.2, layer=layers.skip(HALF))
    x = np.array([0.8, 0.6])
    one = flow(net, x, 3, ["G1", "V"], width=2)
    two = flow(net, [x, x], 3, ["G1", "V"], width=2)
    for name in ("G1", "V"):
        found = two[name].to_numpy().reshape(3, -1)
        assert np.allclose(found, one[name].to_numpy()[:, None], rtol=1e-9, atol=1e-11)


def test_entries_have_their_symmetries():
    net = Network("relu", Gaussian(C_W=1.1), layer=layers.skip("3/4"))
    table = flow(net, [[1.0, 0.2], [0.3, -0.9]], 3, ["G1", "V"], width=2)
    V, G1 = table["V"].to_numpy()[-1], table["G1"].to_numpy()[-1]
    assert np.allclose(V, V.transpose(2, 3, 0, 1), rtol=1e-9)
    assert np.allclose(V, V.transpose(1, 0, 2, 3), rtol=1e-9)
    assert np.allclose(G1, G1.T, rtol=1e-9)


@pytest.mark.parametrize("inputs", [[0.8, 0.6], [[0.8, 0.6], [-0.5, 1.0]]])
def test_what_is_left_out_is_in_the_error(monkeypatch, inputs):
    """With few coefficients the departure is large, and below the error that is told."""
    net = Network("relu", Gaussian(C_W=0.4), layer=layers.skip("9/10"))
    fine = flow(net, inputs, 5, ["G1", "V"], width=2)
    monkeypatch.setattr(tangents, "DEGREES", (10, 10))
    monkeypatch.setattr(flows, "_layers", flows._layers.__wrapped__)
    rough = flow(net, inputs, 5, ["G1", "V"], width=2, seconds=0)  # without balls
    for name in ("G1", "V"):
        off = np.abs(rough[name] - fine[name]).to_numpy()
        error = rough[f"{name}_error"].to_numpy()
        assert (off <= error + 1e-14).all()
        assert 1e-7 < off.max() < error.max() < 1e5 * off.max()


@pytest.mark.parametrize(
    ("sigma", "weights", "C_b"),
    [
        ("tanh", Orthogonal(C_W="1/2"), 0),
        ("relu", Gaussian(C_W=1), 0),
        ("gelu", Gaussian(C_W=1), 0.1),
    ],
)
def test_ensembles(sigma, weights, C_b):
    net = Network(sigma, weights, C_b=C_b, layer=layers.skip(HALF))
    x = np.ones(16)
    theory = flow(net, x, 4, ["K", "V"], width=16)
    sampled = [simulate(net, x, n, 4, 20_000, tensors=["K", "V"], seed=n) for n in (16, 32, 64)]
    assert compare(theory, sampled).agrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "weights"), [("tanh", Orthogonal(C_W=1)), ("gelu", Gaussian(C_W=1))]
)
def test_two_inputs_in_ensembles(sigma, weights):
    net = Network(sigma, weights, C_b=0.1, layer=layers.skip("3/5"))
    x = np.array([[1.0] * 32, [1.2] * 16 + [-0.3] * 16])
    theory = flow(net, x, 4, width=32, tensors=["K", "G1", "V"])
    sampled = [
        simulate(net, x, n, 4, 60_000, tensors=["K", "G1", "V"], seed=n) for n in (32, 64, 128)
    ]
    assert compare(theory, sampled).agrees


def test_an_ensemble_knows_a_recursion_that_closes_on_V():
    """V_s by V alone, ½⟨(σ²)''⟩V, as if rotations kept the law, is far off at five ReLU layers."""
    net = Network("relu", Gaussian(C_W=1), layer=layers.skip(HALF))
    whole = float(flow(net, [1.0], 5, "V")["V"][-1])
    cut, step = 0.0, recursion("V", layer=layers.skip(HALF)).single_input().specialise("relu").expr
    for _ in range(4):  # K = 1, ⟨(σ²)''⟩ = 1
        cut = float(step.subs({"V": cut, "V_s": cut / 2, "K": 1, "C_W": 1}))
    assert cut / whole < 0.7


@pytest.mark.parametrize(
    ("layer", "tensor", "says"),
    [
        ("skip(1/2)", "V2", "only permutations keep"),
        ("skip(1/2, norm=rms)", "P", "with a norm"),
        ("skip(1/2); residual(skip=1)", "V", "skips around one matrix"),
        ("skip(gamma)", "V", "numbers for gamma"),
    ],
)
def test_what_is_refused(layer, tensor, says):
    with pytest.raises(InputError, match=says):
        flow(Network("tanh", layer=layer), [1.0], 3, tensor)


def test_the_kurtosis_is_in_the_sequence_of_one_neuron_alone():
    """κ_4(z_i') has C_W² κ_4 ⟨σ⁴⟩ more; of a symbol there are no numbers."""
    law = Independent({4: sympy.Symbol("kappa_4")})
    with_it, plain = (
        recursion("G1", each, layer="skip(1/2)").single_input() for each in (law, Gaussian())
    )
    assert with_it.expr == plain.expr
    pairs = zip(with_it.sequences.values(), plain.sequences.values(), strict=True)
    (more,) = {sympy.expand(one - other) for one, other in pairs} - {0}
    assert str(more) == "C_W**2*kappa_4*⟨σ⁴⟩"
    with pytest.raises(InputError, match="a number for kappa_4"):
        flow(Network("tanh", law, "gaussian", layer="skip(1/2)"), [1.0], 3, "G1")


@pytest.mark.parametrize("norm", [None, pytest.param("rms", marks=pytest.mark.slow)])
def test_a_bound_skip_is_that_of_its_activation_and_law(norm):
    """The layer's own σ, law and C_W, and the same given beside it."""
    own = {"weights": Orthogonal("3/2"), "activations": "tanh"}
    bound = recursion("V", layer=layers.skip("1/2", norm, **own)).single_input()
    opened = recursion("V", Orthogonal(), activation="tanh", layer=layers.skip("1/2", norm))
    opened = opened.single_input()
    pairs = [(each.expr, *each.sequences.values()) for each in (bound, opened)]
    to = {symbols.C_W: sympy.Rational(3, 2)}
    pairs = list(zip(*pairs, strict=True))
    assert all(sympy.expand(one - other.subs(to)) == 0 for one, other in pairs)
    assert all(pairs[k][1].has(symbols.C_W) for k in (0, -1))


def test_no_precision_of_several_inputs_and_no_unequal_widths():
    net = Network("tanh", layer="skip(1/2)")
    with pytest.raises(InputError, match="several inputs"):
        flow(net, [[1.0], [2.0]], 3, "V", precision=20)
    with pytest.raises(InputError, match="skip"):
        flow(Network("tanh", layer="skip(1/2)", widths=[2, 8, 9]), [1.0, 1.0], 2, "V")


def test_kernel_and_tangent_kernel_beside_them():
    net = Network("tanh", layer="skip(1/2, norm=rms)")
    assert set(flow(net, [1.0], 3, ["K", "Theta"]).data_vars) >= {"K", "Theta"}
    plain = Network("tanh", layer="skip(1/2)")
    together, alone = (flow(plain, [1.0], 3, each)["Theta"] for each in (["V", "Theta"], "Theta"))
    assert (together == alone).all()


@pytest.mark.slow
def test_six_relu_layers_in_ensembles():
    """V of six layers, to 4 %: of two widths by a line in 1/n five standard errors are
    less, and what is left out is of order (V/n)²."""
    net = Network("relu", Gaussian(C_W=1), layer=layers.skip(HALF))
    x = np.ones(16)
    theory = flow(net, x, 6, ["K", "V"], width=16)
    sampled = [
        simulate(net, x, n, 6, draws, tensors=["K", "V"], seed=n)
        for n, draws in ((512, 30_000), (2048, 100_000))
    ]
    one, other = (float(each["V"][-1]) for each in sampled)
    value, known = (4.0 * other - one) / 3.0, float(theory["V"][-1])
    errors = [float(each["V_se"][-1]) for each in sampled]
    error = np.hypot(4.0 * errors[1], errors[0]) / 3.0
    assert 5.0 * error < 0.04 * known
    assert abs(value - known) < 5.0 * error
