"""The tangent kernel behind skips around one matrix, against exact moments, limits, ensembles."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, prod

import numpy as np
import pytest
import sympy

from derive import Gaussian, Independent, Network, Orthogonal, layers, recursion
from derive.errors import InputError
from numeric import compare, flow, flows, simulate
from numeric.layers.skips import tangents

TOWER = ["Theta1", "D", "F", "A", "B"]
WEIGHTS = [Gaussian, Orthogonal]
Polynomial = dict[int, Fraction]


def gaussian_moment(k: int) -> int:
    """E ξ^k of a unit Gaussian."""
    return 0 if k % 2 else prod(range(1, k, 2))


def times(*polynomials: Polynomial) -> Polynomial:
    """A product of polynomials in z."""
    result = {0: Fraction(1)}
    for each in polynomials:
        grown: Polynomial = {}
        for (a, x), (b, y) in product(result.items(), each.items()):
            grown[a + b] = grown.get(a + b, Fraction(0)) + x * y
        result = grown
    return result


class Exact:
    """E H_ij Π z_r^{a_r} at width n for polynomial σ, independent weights, by rational arithmetic.

    Given z and H below, z'_i = γ z_i + w_i with independent w_i of variance Q = (C_W/n) Σ σσ, and
    of H'_ij = δ_ij (λ_b + λ_W Σ σσ/n) + Σ J_ia J_jb H_ab, J = γ + W σ', each W is contracted with
    a w or with the other W. What is left are sums over neurons, some of them outside or alike.
    With a κ_4 four of one row may be alike, once: other terms of it are beyond order 1/n.
    """

    def __init__(
        self,
        n: int,
        sigma: list[Fraction],
        gamma: Fraction,
        C_W: Fraction,
        kurtosis: Fraction = Fraction(0),
    ) -> None:
        self.n, self.gamma, self.C_W, self.kurtosis = n, gamma, C_W, kurtosis
        self.rates = Fraction(1, 3), Fraction(2, 3)
        self.sigma = {k: value for k, value in enumerate(sigma) if value}
        self.slope = {k - 1: k * value for k, value in self.sigma.items() if k}
        self.at = cache(self._at)

    def _at(self, powers: tuple[int, ...], tangent: tuple[int, int] | None, layer: int) -> Fraction:
        """E H_tangent Π z^{powers}, without H for None."""
        b, w = self.rates
        if layer == 1:
            own = Fraction(prod(map(gaussian_moment, powers))) * self.C_W ** (sum(powers) // 2)
            return own * (1 if tangent is None else (b + w) * (tangent[0] == tangent[1]))
        total = Fraction(0)
        for kept in product(*(range(power + 1) for power in powers)):
            ways = prod(comb(a, k) for a, k in zip(powers, kept, strict=True))
            free = tuple(a - k for a, k in zip(powers, kept, strict=True))
            for each in self._terms(tangent, free):
                for value, left, sums, legs, squares in (each, *self._alike(each)):
                    if all(power % 2 == 0 for power in left):
                        noise = prod(map(gaussian_moment, left))
                        count = squares + sum(left) // 2
                        found = self._summed(kept, count, sums, legs, layer - 1)
                        total += ways * self.gamma ** sum(kept) * value * noise * found
        return total

    def _alike(self, term: tuple) -> Iterator[tuple]:
        """A term with four of the w that are left at one neuron alike."""
        value, left, sums, legs, squares = term
        fourth = self.kurtosis * (self.C_W / self.n) ** 2
        for k, power in enumerate(left):
            if fourth and power >= 4:
                rest = (*left[:k], power - 4, *left[k + 1 :])
                four = times(*[self.sigma] * 4)
                yield value * fourth * comb(power, 4), rest, [*sums, four], legs, squares

    def _terms(
        self, tangent: tuple[int, int] | None, free: tuple[int, ...]
    ) -> Iterator[tuple[Fraction, tuple[int, ...], list[Polynomial], object, int]]:
        """A number, the powers of w that are left, what is summed over, the neurons of H, those
        that are summed as −1 − k, and how many Q there are."""
        if tangent is None:
            yield Fraction(1), free, [], None, 0
            return
        (i, j), (b, w) = tangent, self.rates
        one, both = self.C_W / self.n, times(self.sigma, self.slope)

        def less(*places: int) -> tuple[int, ...]:
            return tuple(each - places.count(k) for k, each in enumerate(free))

        if i == j:
            yield b, free, [], None, 0
            yield w / self.C_W, free, [], None, 1
            yield one, free, [times(self.slope, self.slope)], (-1, -1), 0
            if self.kurtosis and free[i] > 1:
                number = self.kurtosis * one**2 * comb(free[i], 2)
                yield number, less(i, i), [times(both, both)], (-1, -1), 0
        yield self.gamma**2, free, [], (i, j), 0
        for k, other in ((i, (-1, j)), (j, (i, -1))):
            if free[k]:
                yield self.gamma * one * free[k], less(k), [both], other, 0
        ways = free[i] * (free[j] - (i == j))
        if ways > 0:
            yield one**2 * ways, less(i, j), [both, both], (-1, -2), 0

    def _summed(
        self,
        powers: tuple[int, ...],
        count: int,
        sums: list[Polynomial],
        legs: tuple[int, int] | None,
        layer: int,
    ) -> Fraction:
        """E Π z^{powers} Q^count Σ_k … of the layer below."""
        squared = times(self.sigma, self.sigma)
        every, total = [*sums, *[squared] * count], Fraction(0)

        def placed(
            k: int, content: tuple[Polynomial, ...], homes: tuple[int, ...]
        ) -> Iterator[tuple[tuple[Polynomial, ...], tuple[int, ...]]]:
            if k == len(every):
                yield content, homes
                return
            for at in range(len(content) + 1):
                grown = [*content, {0: Fraction(1)}] if at == len(content) else [*content]
                grown[at] = times(grown[at], every[k])
                yield from placed(k + 1, tuple(grown), (*homes, at))

        outside = len(powers)
        start = tuple({power: Fraction(1)} for power in powers)
        for content, homes in placed(0, start, ()):
            ways = prod(self.n - outside - k for k in range(len(content) - outside))
            own = legs and tuple(leg if leg >= 0 else homes[-1 - leg] for leg in legs)
            for mono in product(*(each.items() for each in content)):
                value = prod((each for _, each in mono), start=Fraction(ways))
                total += value * self.moment([degree for degree, _ in mono], own, layer)
        return total * (self.C_W / self.n) ** count

    def moment(self, powers: list[int], tangent: tuple[int, int] | None, layer: int) -> Fraction:
        """`at` with the neurons in one order: those of H, then the others that have a power."""
        own = list(dict.fromkeys(tangent or ()))
        rest = sorted(power for k, power in enumerate(powers) if k not in own and power)
        if len(own) == 2 and powers[own[0]] > powers[own[1]]:
            own.reverse()
        place = tuple(sorted(own.index(k) for k in tangent)) if tangent else None
        return self.at((*(powers[k] for k in own), *rest), place, layer)

    def tensors(self, layer: int) -> dict[str, Fraction]:
        """D and F, and the mean of H."""
        mean, square = self.moment([0], (0, 0), layer), self.moment([2], None, layer)
        D = self.n * (self.moment([0, 2], (0, 0), layer) - mean * square)
        return {"D": D, "F": self.n * self.moment([1, 1], (0, 1), layer), "mean": mean}


@pytest.mark.parametrize(
    ("sigma", "coefficients", "depth", "kurtosis"),
    [
        ("polynomial(0,1,1/2)", (0, 1, "1/2"), 3, 3),
        ("polynomial(1/3,0,1/2)", ("1/3", 0, "1/2"), 3, 0),
        ("linear", (0, 1), 4, 0),
    ],
)
def test_exact_moments(sigma, coefficients, depth, kurtosis):
    """At n = 10⁹, where the next order is 10⁻⁹ or so; Θ1 is the 1/n part of E H_ii."""
    layer, rates = layers.skip("3/5"), {"lambda_b": "1/3", "lambda_W": "2/3"}
    weights = Independent({4: kurtosis}, C_W="1/2") if kurtosis else Gaussian(C_W="1/2")
    net = Network(sigma, weights, Gaussian(C_W="1/2"), layer=layer, **rates)
    table = flow(net, [1.0], depth, ["K", "Theta", "Theta1", "D", "F"])
    given = list(map(Fraction, coefficients)), Fraction(3, 5), Fraction(1, 2)
    exact = Exact(10**9, *given, Fraction(kurtosis))
    given = {"C_W": sympy.Rational(1, 2), "C_b": 0, "lambda_b": "1/3", "lambda_W": "2/3"}
    kernel, tangent = sympy.Rational(1, 2), sympy.Integer(1)
    moves = [
        recursion(name, layer=layer, activation=sigma).single_input().expr
        for name in ("K", "Theta")
    ]
    for at in range(1, depth + 1):
        found = exact.tensors(at)
        own = (found["mean"] - Fraction(int(tangent.p), int(tangent.q))) * exact.n
        for name, value in (("D", found["D"]), ("F", found["F"]), ("Theta1", own)):
            assert float(table[name][at - 1]) == pytest.approx(float(value), rel=1e-6, abs=1e-7)
        known = given | {"K": kernel, "Theta": tangent}
        kernel, tangent = (sympy.nsimplify(each.subs(known).doit()) for each in moves)


@pytest.mark.parametrize(
    ("ensemble", "inputs"),
    [
        *((each, [0.8, 0.6]) for each in WEIGHTS),
        (Orthogonal, [[0.8, 0.6], [-0.5, 1.0]]),
    ],
)
def test_linear_skips_keep_rotations(ensemble, inputs):
    """With σ = z the law is invariant, and the engine's own recursions hold."""
    rates = {"lambda_b": 0.3, "lambda_W": 0.8}
    known = layers.Layer("z[i] = gamma z[i] + b[i] + W[i,a] z[a]", gamma="2/3")
    tables = [
        flow(
            Network("linear", ensemble(C_W=0.7), C_b=0.1, layer=each, **rates),
            inputs,
            4,
            TOWER,
            width=2,
        )
        for each in (layers.skip("2/3"), known)
    ]
    for name in TOWER:
        one, other = (table[name].to_numpy() for table in tables)
        assert np.allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("ensemble", WEIGHTS)
def test_dense_layers_forget(ensemble):
    """Behind a dense layer rotations keep the law again: all else follows from tensors there."""
    net = Network("gelu", ensemble(C_W=1.3), C_b=0.1, layer="skip(1/2); dense; dense; skip(1/3)")
    needed = ["K", "G1", "V", "Theta", *TOWER]
    table = flow(net, [1.0, 0.5], 4, needed, width=2)
    below = {name: float(table[name][2]) for name in needed}
    given = {"C_W": 1.3, "C_b": 0.1, "lambda_b": 1 / 4, "lambda_W": 1}
    for name in TOWER:
        step = recursion(name, ensemble(), activation="gelu").single_input()
        value = step.expr.subs(below | given).evalf()
        assert float(value) == pytest.approx(float(table[name][3]), rel=1e-9)


@pytest.mark.parametrize("sigma", ["relu", "tanh"])
def test_inputs_that_are_alike_are_one(sigma):
    net = Network(sigma, Orthogonal(C_W=0.9), C_b=0.2, layer=layers.skip("2/3"))
    x = np.array([0.8, 0.6])
    one = flow(net, x, 3, TOWER, width=2)
    two = flow(net, [x, x], 3, TOWER, width=2)
    for name in TOWER:
        found = two[name].to_numpy().reshape(3, -1)
        assert np.allclose(found, one[name].to_numpy()[:, None], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("ensemble", WEIGHTS)
def test_multiples_of_an_input(ensemble):
    """Without biases z(cx) = c z(x) for ReLU, and H(cx, dx) = cd H(x, x)."""
    net = Network("relu", ensemble(C_W=0.9), lambda_b=0, layer=layers.skip("2/3"))
    x, scales = np.array([0.8, 0.6]), np.array([1.0, 2.0])
    one = flow(net, x, 3, TOWER, width=2)
    two = flow(net, np.outer(scales, x), 3, TOWER, width=2)
    for name in TOWER:
        value, found = one[name].to_numpy(), two[name].to_numpy()
        by = scales
        for _ in range(found.ndim - 2):
            by = np.multiply.outer(by, scales)
        expected = value.reshape(-1, *(1,) * by.ndim) * by
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_entries_have_their_symmetries():
    """H_ij of samples a and b is H_ji of b and a."""
    net = Network("tanh", Gaussian(C_W=1.1), C_b=0.1, layer=layers.skip("3/4"))
    table = flow(net, [[1.0, 0.2], [0.3, -0.9]], 3, TOWER, width=2)
    D, F, A, B = (table[name].to_numpy()[-1] for name in "DFAB")
    for each in (D, A):
        assert np.allclose(each, each.transpose(1, 0, 2, 3), rtol=1e-10)
        assert np.allclose(each, each.transpose(0, 1, 3, 2), rtol=1e-10)
    assert np.allclose(A, A.transpose(2, 3, 0, 1), rtol=1e-10)
    assert np.allclose(F, F.transpose(2, 3, 0, 1), rtol=1e-10)
    assert np.allclose(B, B.transpose(2, 3, 0, 1), rtol=1e-10)
    assert np.allclose(B, B.transpose(1, 0, 3, 2), rtol=1e-10)
    assert not np.allclose(F, F.transpose(2, 1, 0, 3), rtol=1e-2)


def test_signs_of_skips_do_not_matter_to_odd_activations():
    """z and −z have one law, layer by layer."""
    tables = [
        flow(Network("tanh", Gaussian(C_W=0.7), C_b=0.1, layer=each), [0.8], 4, TOWER, width=1)
        for each in (layers.skip("2/3"), layers.skip("-2/3"))
    ]
    for name in TOWER:
        assert np.allclose(tables[0][name], tables[1][name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("inputs", [[0.8, 0.6], [[0.8, 0.6], [-0.5, 1.0]]])
def test_what_is_left_out_is_in_the_error(monkeypatch, inputs):
    """With few coefficients the departure is large, and below the error that is told."""
    net = Network("relu", Gaussian(C_W=0.4), layer=layers.skip("9/10"))
    fine = flow(net, inputs, 4, TOWER, width=2)
    monkeypatch.setattr(tangents, "DEGREES", (12, 12))
    monkeypatch.setattr(flows, "_layers", flows._layers.__wrapped__)
    rough = flow(net, inputs, 4, TOWER, width=2, seconds=0)  # without balls, which leave out none
    for name in TOWER:
        off = np.abs(rough[name] - fine[name]).to_numpy()
        error = rough[f"{name}_error"].to_numpy()
        assert (off <= error + 1e-13).all()
        assert 1e-8 < off.max() < error.max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "weights", "C_b"),
    [
        ("relu", Gaussian(C_W="4/5"), 0),
        ("tanh", Orthogonal(C_W="4/5"), 0.05),
        ("gelu", Gaussian(C_W="4/5"), 0.05),
    ],
)
def test_ensembles(sigma, weights, C_b):
    """Layer 3 and beyond, where a wrong closure shows; samples are read as if rotations kept the
    law, which is off by 1/n and goes when widths are extrapolated."""
    net = Network(sigma, weights, C_b=C_b, layer=layers.skip("3/5"))
    x = np.ones(8)
    tensors = ["Theta", "D", "F", "A", "B"]
    theory = flow(net, x, 4, tensors, width=8)
    sampled = [simulate(net, x, n, 4, 20_000, tensors=tensors, seed=n) for n in (24, 48, 96)]
    found = compare(theory, sampled)
    assert found.agrees


@pytest.mark.slow
def test_two_inputs_in_ensembles():
    net = Network("tanh", Orthogonal(C_W="4/5"), C_b=0.05, layer=layers.skip("3/5"))
    x = np.array([[1.0] * 8, [1.2] * 4 + [-0.3] * 4])
    tensors = ["Theta", "D", "F", "A", "B"]
    theory = flow(net, x, 4, tensors, width=8)
    sampled = [simulate(net, x, n, 4, 20_000, tensors=tensors, seed=n) for n in (16, 48)]
    found = compare(theory, sampled)
    assert found.agrees


def test_printed_with_its_sequences():
    made = recursion("B", layer="skip(gamma)").single_input()
    text = str(made)
    assert "beta[0] = B" in text
    assert "B_t = Sum(⟨(σ'²)^(b)⟩*beta[b]/factorial(b), (b, 0, oo))" in text
    assert recursion("D", layer="skip(1/2)").single_input().depends_on == ("K", "V", "Theta", "D")
    assert recursion("F", layer="skip(1/2)").sequences == {}
    assert "(\\sigma \\sigma'" in recursion("F", layer="skip(1/2)").single_input().latex()


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("sigma", ["tanh", "relu"])
def test_a_norm_puts_the_second_layer_on_a_sphere(sigma, norm):
    """The components of a y of length √n, in n dimensions or in the n − 1 across (1, …, 1), have
    the density (1 − y²/d)^{(d−3)/2}; G1 is C_W times the 1/n part of E σ²."""
    weights = Gaussian(C_W="4/5")
    net = Network(sigma, weights, layer=layers.skip("3/5", norm=norm))
    table = flow(net, [1.0, 0.5], 2, ["K", "G1"], width=2)
    y = np.linspace(-12.0, 12.0, 24_001)
    square = np.maximum(y, 0.0) ** 2 if sigma == "relu" else np.tanh(y) ** 2

    def mean(n: float) -> float:
        d = n - (norm == "layer")
        density = np.exp(0.5 * (d - 3.0) * np.log1p(-(y**2) / d))
        return float((density * square).sum() / density.sum())

    found = [n * (mean(n) - mean(1e12)) for n in (2e4, 4e4)]
    expected = 0.8 * (2.0 * found[1] - found[0])
    assert float(table["G1"][1]) == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize("ensemble", WEIGHTS)
def test_a_mean_that_is_taken_off_a_linear_skip(ensemble):
    """With σ = z the branch is Gaussian, or on a sphere, of length C_W v/(v + ε), v = q − m²: with
    ε = 0 that of the other norm. Else m² takes K/n off q, and V does not know."""
    given = {"C_b": 0.1, "weights": ensemble(C_W=0.7)}
    for eps in (0, 0.3):
        rms, layer = (
            flow(
                Network("linear", layer=layers.skip("2/3", norm=norm, eps=eps), **given),
                [0.8, 0.6],
                4,
                ["K", "G1", "V"],
                width=2,
            )
            for norm in ("rms", "layer")
        )
        K = rms["K"].to_numpy()
        off, gain = np.zeros(4), 0.7 * eps / (K + eps) ** 2
        for below in range(3):
            kept = 4 / 9 + gain[below]
            off[below + 1] = kept * off[below] - gain[below] * K[below]
        assert np.allclose(layer["V"], rms["V"], rtol=1e-11)
        assert np.allclose(layer["G1"], rms["G1"] + off, rtol=1e-11, atol=1e-12)


def test_a_mean_that_is_taken_off_in_print():
    made = recursion("V", layer="skip(1/2, norm=layer)").single_input()
    text = str(made)
    assert "kappa[1](ℓ+1)" in text
    assert "kappa[2] = V" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "weights", "C_b", "norm", "eps"),
    [
        ("tanh", Orthogonal(C_W=1), 0, "rms", 0),
        ("relu", Gaussian(C_W="6/5"), 0.1, "rms", "1/10"),
        ("relu", Gaussian(C_W="6/5"), 0.1, "layer", "1/10"),
        ("gelu", Orthogonal(C_W=1), 0, "layer", 0),
    ],
)
def test_ensembles_behind_a_norm(sigma, weights, C_b, norm, eps):
    net = Network(sigma, weights, C_b=C_b, layer=layers.skip("7/10", norm=norm, eps=eps))
    x = np.ones(16)
    theory = flow(net, x, 5, ["K", "G1", "V"], width=16)
    sampled = [
        simulate(net, x, n, 5, 60_000, tensors=["K", "G1", "V"], seed=n) for n in (24, 48, 96)
    ]
    assert compare(theory, sampled).agrees


def test_a_norm_in_print():
    made = recursion("V", Orthogonal(), layer="skip(1/2, norm=rms)").single_input()
    assert made.is_single_input
    assert "with ⟨…⟩_y at K_y = 1" in str(made)
    assert tensor_names(made) == {"V_s"}
    linear = layers.Layer(
        "q = z[a] z[a]/n", "y[i] = z[i]/sqrt(q)", "z[i] = 1/2 z[i] + b[i] + W[i,a] y[a]"
    )
    known = recursion("V", Orthogonal(), layer=linear).single_input().specialise("linear").expr
    V, K = sympy.symbols("V K", real=True)
    found = made.specialise("linear").expr  # of σ = y: V_s = V_e = V/K
    found = found.subs({each: V / K for each in found.free_symbols if "V_" in str(each)})
    at = {"V": 0.3, "K": 0.7, "C_W": 0.9, "C_b": 0.2}
    values = [
        float(each.subs({s: at[str(s)] for s in each.free_symbols})) for each in (found, known)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def tensor_names(made):
    """What stands in a recursion for functionals."""
    return {str(each) for each in made.expr.free_symbols if "V_" in str(each)}


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_inputs_without_a_length_have_no_norm(norm):
    """Refused where ε = 0, and 0 at every layer where it is not, as tanh's own kernel is."""
    with pytest.raises(InputError, match=r"by whose norm .* divides"):
        flow(Network("tanh", layer=layers.skip("1/2", norm)), np.zeros(4), 3, ["G1", "V"])
    net = Network("tanh", layer=layers.skip("1/2", norm, "1/10"))
    table = flow(net, np.zeros(4), 3, ["G1", "V"])
    assert not table["G1"].any()
    assert not table["V"].any()


NAMES = ["K", "G1", "V", "Theta", *TOWER]
PAIR = np.array([[1.0, 0.5, 0.2], [0.3, -0.4, 1.0]])


def largest(one, other, names=NAMES):
    """The largest difference, relative to the largest entry of its tensor where that is above 1."""
    pairs = [(one[name].to_numpy(), other[name].to_numpy()) for name in names]
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(a).max())) for a, b in pairs)


@pytest.mark.parametrize("inputs", [PAIR[0], PAIR], ids=["one", "two"])
def test_skips_of_their_own_sigma_and_law_are_those_of_the_network(inputs):
    gelu = {"activations": "gelu", "weights": "orthogonal"}
    bound = Network("tanh", layer=layers.skip("1/2", **gelu), C_b=0.1)
    plain = Network("gelu", "orthogonal", first_weights="gaussian", layer="skip(1/2)", C_b=0.1)
    assert largest(*(flow(net, inputs, 3, NAMES) for net in (bound, plain))) < 1e-14
    named = ["skip(1/2, activations=sin)", layers.dense(Gaussian(2), "tanh")]
    laws = [Gaussian(), Gaussian(), Gaussian(2)]
    mixed = (
        Network("relu", layer=named, C_b=0.1),
        Network("sin; tanh", laws, layer=["skip(1/2)", "dense"], C_b=0.1),
    )
    assert largest(*(flow(net, inputs, 3, NAMES) for net in mixed)) < 1e-14


@pytest.mark.parametrize("inputs", [PAIR[0], PAIR], ids=["one", "two"])
def test_a_linear_skip_below_another_sigma_is_one_around_two_matrices(inputs):
    """W of independent normal entries has the law of W₂ W₁ with an orthogonal W₁."""
    above = "dense(activations=gelu)"
    skip = Network("tanh", layer=["skip(1/2, activations=linear)", above], C_b=0.1)
    block = "residual(skip=1/2, activations=linear, weights=(W1: orthogonal(C_W=1)))"
    around = Network("tanh", layer=[block, above], C_b=0.1)
    names = ["K", "G1", "V"]
    assert largest(*(flow(net, inputs, 3, names) for net in (skip, around)), names) < 1e-14


@pytest.mark.parametrize("sigma", ["tanh", "relu"])
def test_a_linear_skip_takes_the_vertex_of_another_sigma_on(sigma):
    """z' = γz + Wz: V' = γ⁴V + (2γ²C_W + C_W²)(V + 2K²), as z_i² and the mean of z² covary."""
    named = [f"skip(1/2, activations={sigma})", "skip(1/3, activations=linear)"]
    net = Network("gelu", Gaussian(2), layer=named, C_b=0.1)
    table = flow(net, PAIR[0], 3, ["K", "V"])
    (K, V), above = (float(table[name][1]) for name in "KV"), float(table["V"][2])
    assert above == pytest.approx(V / 81 + (4 / 9 + 4) * (V + 2 * K**2), rel=1e-12)


def test_a_layer_behind_may_have_fewer_neurons():
    """Its tensors are those of equal widths: rows are alike, and nothing else asks how many."""
    x, given = [1.0, 0.5], {"layer": "dense; skip(1/2)*; dense", "C_b": 0.1, "lambda_b": 0.3}
    for law in ("gaussian", "orthogonal"):
        few, equal = (
            flow(Network("tanh", law, widths=widths, **given), x, 4, TOWER, width=16)
            for widths in ((2, 16, 16, 16, 3), None)
        )
        for name in TOWER:
            assert (few[name] == equal[name]).all()
    wide = Network("tanh", "orthogonal", widths=(2, 16, 16, 16, 17), **given)
    with pytest.raises(InputError, match="equal widths"):
        flow(wide, x, 4, "V", width=16)
