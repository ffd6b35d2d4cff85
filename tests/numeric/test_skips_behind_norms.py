"""Skips around one matrix behind a norm: several inputs and the tangent kernel."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import erf

from derive import Gaussian, Network, Orthogonal, layers, recursion
from derive.activations import as_activation
from derive.arithmetic import UNIT, Expansion, add, constant, multiply, multiply_all, power
from derive.engine import BRANCHES, MEMBERS, named, recursion_of
from derive.errors import InputError
from derive.gaussian import Bracket
from numeric import compare, flow, flows, simulate
from numeric.layers.accuracy import CAUTION
from numeric.layers.averages import of_several
from numeric.layers.skips import tangents
from numeric.layers.skips.derived import met
from numeric.layers.skips.functionals import Functionals, bent, bent_tail
from numeric.layers.skips.hermite import basis, degrees

TOWER = ["Theta1", "D", "F", "A", "B"]
WEIGHTS = [Gaussian, Orthogonal]
PAIR = np.array([[0.8, 0.6], [-0.5, 1.0]])
RATES = {"lambda_b": 0.3, "lambda_W": 0.8}


def network(sigma: str, norm: str, eps: object = "1/10", weights=Gaussian, **given) -> Network:
    """A skip of 2/3 behind a norm."""
    layer = layers.skip("2/3", norm=norm, eps=eps)
    return Network(sigma, weights(C_W=0.7), C_b=0.1, layer=layer, **(RATES | given))


@pytest.mark.parametrize(
    ("ensemble", "inputs", "names"),
    [
        (Gaussian, PAIR[0], ["K", "G1", "V", *TOWER]),
        (Orthogonal, PAIR, ["K", "G1", "V"]),
    ],
)
def test_linear_skips_keep_rotations(ensemble, inputs, names):
    """With σ = y the law is invariant, and the engine's own recursions hold."""
    equations = "q = z[a] z[a]/n", "y[i] = z[i]/sqrt(q + eps)"
    stream = "z[i] = gamma z[i] + b[i] + W[i,a] y[a]"
    known = layers.Layer(*equations, stream, gamma="2/3", eps="1/10")
    nets = [
        network("linear", "rms", weights=ensemble),
        Network("linear", ensemble(C_W=0.7), C_b=0.1, layer=known, **RATES),
    ]
    tables = [flow(net, inputs, 4, names, width=2) for net in nets]
    for name in names:
        one, other = (table[name].to_numpy() for table in tables)
        assert np.allclose(one, other, rtol=1e-11, atol=1e-12)


class Seen:
    """The functionals behind each layer, as their own recursions leave them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: list[Functionals] = []
        after = tangents._Pass.after

        def kept(own, K, given):
            found = after(own, K, given)
            copies = {kind: [each.copy() for each in v] for kind, v in found.values.items()}
            self.states.append(found._replace(values=copies))
            return found

        monkeypatch.setattr(tangents._Pass, "after", kept)

    def member(self, layer: int, kind: str, degree: int) -> float:
        """X(:z^b:) of the first input."""
        state = self.states[layer - 2]
        scale = math.sqrt(math.factorial(degree)) * float(state.bases[0].L[0, 0]) ** degree
        return float(state.values[kind][0][0].ravel()[degree]) * scale


@pytest.mark.parametrize(("sigma", "norm"), [("gelu", "layer"), ("relu", "rms")])
def test_functionals_have_the_tensors_as_members(monkeypatch, sigma, norm):
    """X(:z^b:) is a tensor: two derivations of one number, layer by layer."""
    seen = Seen(monkeypatch)
    table = flow(network(sigma, norm), PAIR[0], 5, ["G1", "V", *TOWER], width=2)
    for layer in (2, 3, 4):
        for kind, (name, degree) in MEMBERS.items():
            if kind in BRANCHES:  # of P … U, which are refused behind norms
                continue
            value = float(table[str(name)][layer - 1])
            assert seen.member(layer, kind, degree) == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("ensemble", WEIGHTS)
def test_functionals_of_an_invariant_law(monkeypatch, ensemble):
    """With σ = y four indices pair in three ways: E :z⁴: is 3V/n, n E ΔH_ii :z_i²: is D + 2F."""
    seen = Seen(monkeypatch)
    table = flow(network("linear", "rms", weights=ensemble), PAIR[0], 5, ["V", *TOWER], width=2)
    D, F, V = (table[name].to_numpy() for name in "DFV")
    for layer in (2, 3, 4):
        at = layer - 1
        assert seen.member(layer, "Own", 2) == pytest.approx(D[at] + 2.0 * F[at], rel=1e-10)
        assert seen.member(layer, "One", 4) == pytest.approx(3.0 * V[at], rel=1e-10)


def test_inputs_that_are_alike_are_one():
    """Kinks have a recursion of their own where samples meet: the labels' derivatives apart do not
    exist there."""
    net = network("relu", "rms")
    one = flow(net, PAIR[0], 3, ["G1", "V"], width=2)
    two = flow(net, [PAIR[0], PAIR[0], PAIR[1]], 3, ["G1", "V"], width=2)
    near = flow(net, [PAIR[0], PAIR[0] + [3e-2, -3e-2]], 3, ["G1", "V"], width=2)
    for name in ("G1", "V"):
        value, found = one[name].to_numpy(), two[name].to_numpy()
        for at in product(range(2), repeat=found.ndim - 1):
            assert np.allclose(found[:, *at], value, rtol=1e-9, atol=1e-11)
        other = near[name].to_numpy()
        for at in product(range(2), repeat=found.ndim - 1):
            assert np.allclose(other[:, *at], value, rtol=0.1, atol=2e-2)


NEAR = [2.6207413942e-5, 6e-6, 1e-3]
"""Distances; at the first two 1 − ρ² of a K[a, b] and of its K[b, a] differ by a rounding."""


def test_errors_hold_where_inputs_are_nearly_alike():
    """G1 against the polynomial through its value of the same input twice and those of inputs well
    apart: where fourth derivatives of averages, some 1/√(1 − ρ²), cancel."""
    layer = layers.skip("1/2", norm="layer", eps="1/10")
    net = Network("relu", Gaussian(C_W=0.9), C_b=0.1, layer=layer)

    def of_both(distance: float) -> tuple[float, float]:
        inputs = PAIR[0] + np.outer([0.0, distance], [1.0, -1.0])
        table = flow(net, inputs, 2, ["G1"])
        return tuple(float(table[name].to_numpy()[-1, 0, 1]) for name in ("G1", "G1_error"))

    apart = np.array([0.0, 0.01, 0.02, 0.035, 0.05, 0.07, 0.085, 0.1])
    reference = np.polyfit(apart, [of_both(each)[0] for each in apart], len(apart) - 1)
    compared = 0
    for distance in NEAR:
        try:
            value, error = of_both(distance)
        except InputError:  # by name, where rounding leaves too little
            continue
        compared += 1
        assert abs(value - np.polyval(reference, distance)) <= CAUTION * error + 1e-10, distance
        assert error <= 1e-6
    assert compared >= len(NEAR) - 1


def test_averages_with_kinks_are_the_same_in_either_order_of_samples():
    """⟨∂₁∂₂³ σ₁σ₂⟩ and ⟨∂₁³∂₂ σ₁σ₂⟩ of samples exchanged, whichever K[a, b] was rounded how."""
    brackets = [Bracket(((0, 0), (1, 0)), outer) for outer in ((0, 1, 1, 1), (0, 0, 0, 1))]
    sums = of_several(as_activation("relu"), brackets, 2, apart=True)
    K = np.array([[1.0, 1.0 - 1e-9], [np.nextafter(1.0 - 1e-9, 0.0), 1.0]])
    values, _ = sums(K)
    one, other = (sums.places[each] for each in brackets)
    assert abs(values[one[0, 0, 1]]) > 1e3
    assert values[one[0, 0, 1]] == values[other[0, 1, 0]]
    assert np.array_equal(values, sums(K.T)[0])


def test_inputs_whose_series_have_no_bound_are_named():
    """[x, 2x] leave an rms norm as one y: z' = z/2 + ξ with the same ξ, so z' tells z; V, which
    has no derivatives of what is summed, is finite."""
    layer = layers.skip("1/2", norm="rms")
    net = Network("tanh", Gaussian(C_W=0.9), layer=layer, **RATES)
    inputs = np.array([PAIR[0], 2 * PAIR[0]])
    with pytest.raises(InputError, match=r"inputs: got 'inputs 0 and 1.* no bound there"):
        flow(net, inputs, 3, "G1")
    moved = [PAIR[0], 2 * PAIR[0] + [0.0, 1e-4]]
    V, near = (flow(net, each, 3, "V")["V"].to_numpy() for each in (inputs, moved))
    assert np.allclose(V, near, rtol=1e-3)


def rounded_off(kinks: dict[int, int], width: float) -> str:
    """Σ height E max(0, z − kink + width ξ) of a unit Gaussian ξ."""
    terms = []
    for kink, height in kinks.items():
        x = f"(z - ({kink}))/{width}"
        parts = f"({x})*(1 + erf({x}/sqrt(2)))/2 + exp(-({x})**2/2)/sqrt(2*pi)"
        terms.append(f"({height})*{width}*({parts})")
    return "expr: " + " + ".join(terms)


@pytest.mark.slow
def test_kinks_are_the_limit_of_corners_rounded_off():
    """Averages of kinks where samples meet have odd powers of the width too: a parabola."""
    names = ["G1", "V"]
    table = flow(network("hard_tanh", "rms"), PAIR, 3, names, width=2)
    widths = [0.1, 0.075, 0.05]
    corners = [rounded_off({-1: 1, 1: -1}, width) + " - 1" for width in widths]
    smooth = [flow(network(each, "rms"), PAIR, 3, names, width=2) for each in corners]
    for name in names:
        value = table[name].to_numpy()
        rows = np.array([each[name].to_numpy().ravel() for each in smooth])
        limit = np.polyfit(widths, rows, 2)[-1]
        assert np.allclose(limit, value.ravel(), rtol=0.0, atol=1e-3 * np.abs(value).max()), name


def without_outer(terms: Expansion) -> Expansion:
    """With ⟨∂(…)⟩ as a sum of products of derivatives."""
    total: Expansion = {}
    for (mono, at), value in terms.items():
        term: Expansion = {(UNIT, at): value}
        for atom, exponent in mono:
            brackets = {(power(atom, exponent), 0): Fraction(1)}
            if isinstance(atom, Bracket):
                products = [atom.factors]
                for label in atom.outer:
                    products = [
                        tuple(sorted((*each[:k], (label, order + 1), *each[k + 1 :])))
                        for each in products
                        for k, (own, order) in enumerate(each)
                        if own == label
                    ]
                brackets = constant(0)
                for each in products:
                    add(brackets, {(power(Bracket(each, (), atom.kernel), 1), 0): Fraction(1)})
                brackets = multiply_all([brackets] * exponent, 0)
            term = multiply(term, brackets, at)
        add(total, term)
    return total


@pytest.mark.parametrize(
    ("name", "pairs"), [("G1", ((1, 2),)), ("Theta1", ((1, 2),)), ("D", ((3, 4),))]
)
def test_terms_where_samples_meet_are_those_of_equal_labels(name, pairs):
    """Two derivations: labels made equal before, and after."""
    layer = network("relu", "rms").schemes(3, 2).distinct[0]
    samples = tuple(range(1, len(named(name).subscripts) + 1))
    apart = recursion_of(named(name), layer.stages, layer.weights, samples)
    to = {b: a for a, b in pairs}
    equal = tuple(to.get(each, each) for each in samples)
    direct = recursion_of(named(name), layer.stages, layer.weights, equal)
    assert without_outer(met(apart, to)) == without_outer(direct)


def test_what_is_bent_at_a_point():
    """X(f) = f(z): X(z_a ∂_a f) is z_a times f's derivative there."""
    own, z = basis(np.array([[1.3, 0.4], [0.4, 0.9]]), (0, 1), 12), np.array([0.7, -1.1])
    x, step = own.inverse @ z, 1e-5

    def values(at: np.ndarray) -> np.ndarray:
        he = [hermite(own.degree, each) for each in at]
        return np.array([he[0][i] * he[1][j] for i, j in degrees(2, own.degree)])

    for a in (0, 1):
        towards = step * own.inverse[:, a]
        slope = (values(x + towards) - values(x - towards)) / (2.0 * step)
        assert np.allclose(bent(own, a, values(x)), z[a] * slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("lift", [0.3, 0.9])
def test_what_is_bent_beyond_the_last_degree_is_bounded(lift):
    K, rng = np.array([[1.3, 1.0], [1.0, 0.9]]), np.random.default_rng(5)
    whole, own = (basis(K, (0, 1), degree) for degree in (60, 10))
    size = len(degrees(2, 10))
    heavy = degrees(2, 60).sum(axis=1)
    values = rng.standard_normal((3, whole.size)) * lift**heavy
    beyond = np.sqrt((((heavy + 2) * values) ** 2)[:, size:].sum(axis=1))
    for a in (0, 1):
        left = np.sqrt((bent(whole, a, values)[:, size:] ** 2).sum(axis=1))
        tail = bent_tail(own, a, values[:, :size], beyond)
        assert (left <= tail).all()
        assert (tail < 100.0 * left).all()


def test_what_bends_leave_out_is_in_the_error(monkeypatch):
    """With few coefficients the departure is large, and below the error that is told."""
    net, inputs = network("hard_tanh", "rms", weights=Orthogonal), PAIR[0]
    fine = flow(net, inputs, 3, ["Theta1"], width=2)
    monkeypatch.setattr(tangents, "DEGREES", (5, 5))
    monkeypatch.setattr(flows, "_layers", flows._layers.__wrapped__)
    rough = flow(net, inputs, 3, ["Theta1"], width=2, seconds=0)  # without balls
    off = np.abs(rough["Theta1"] - fine["Theta1"]).to_numpy()
    error = rough["Theta1_error"].to_numpy()
    assert (off <= error + 1e-13).all()
    assert 1e-5 < off.max() < error.max()


@pytest.mark.parametrize(
    ("sigma", "inputs", "tensor", "says"),
    [
        ("relu", [PAIR[0], PAIR[0] + [1e-7, -1e-7]], "G1", "inputs 0 and 1, too near"),
        ("relu", [[0.8, 0.6], [1.6, 1.2]], "G1", "inputs 0 and 1, too near"),
        ("tanh", PAIR[0], "P", "with a norm"),
    ],
)
def test_what_a_norm_leaves_out(sigma, inputs, tensor, says):
    layer = layers.skip("1/2", norm="layer", eps="1/10")
    with pytest.raises(InputError, match=says):
        flow(Network(sigma, layer=layer), inputs, 3, tensor, width=2)


def test_sequences_in_print():
    text = str(recursion("Theta1", layer="skip(1/2, norm=rms)").single_input())
    assert "V_w" in text
    assert "⟨(y σ'σ'')" in text


def test_in_print():
    text = str(recursion("F", layer="skip(1/2, norm=layer)"))
    assert "F_0[1,2,4]" in text
    assert "⟨∂₁(σ₁ σ'₂)⟩_y" in text


def hermite(degree: int, x: np.ndarray) -> list[np.ndarray]:
    """he_0 … of a unit Gaussian."""
    found = [np.ones_like(x), x]
    for k in range(1, degree):
        found.append((x * found[-1] - np.sqrt(k) * found[-2]) / np.sqrt(k + 1))
    return found


def controls(variables: list[np.ndarray], degree: int, squares: int) -> np.ndarray:
    """(1/n) Σ he_β over the last axis, and products of the first, less their means: of mean 0."""
    n, own = variables[0].shape[1], [hermite(degree, each) for each in variables]
    orders = [b for b in product(range(degree + 1), repeat=len(own)) if 1 <= sum(b) <= degree]
    sums = [
        np.prod([he[k] for he, k in zip(own, b, strict=True) if k], axis=0).mean(axis=1)
        for b in orders
    ]
    low = [k for k, b in enumerate(orders) if sum(b) <= squares]
    pairs = combinations_with_replacement(low, 2)
    return np.column_stack([*sums, *(sums[i] * sums[j] - (i == j) / n for i, j in pairs)])


def adjusted(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means without what controls explain, and their errors; a fit leaves out what it is for."""
    half, found = len(values) // 2, np.empty_like(values)
    parts = slice(0, half), slice(half, None)
    for fit, use in (parts, parts[::-1]):
        rows = np.column_stack([np.ones(len(known[fit])), known[fit]])
        slopes = np.linalg.lstsq(rows, values[fit], rcond=None)[0][1:]
        found[use] = values[use] - known[use] @ slopes
    return found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))


SIGMA = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: (z > 0.0) * 1.0),
    "gelu": (
        lambda z: 0.5 * z * (1.0 + erf(z / np.sqrt(2.0))),
        lambda z: (
            0.5 * (1.0 + erf(z / np.sqrt(2.0))) + z * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        ),
    ),
}


def normed(z: np.ndarray, norm: str, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, f and z − m, of (draws, n, …)."""
    off = z - z.mean(axis=1, keepdims=True) if norm == "layer" else z
    f = 1.0 / np.sqrt((off**2).mean(axis=1, keepdims=True) + eps)
    return off * f, f, off


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "norm", "m", "depth", "draws"),
    [("relu", "layer", 1, 4, 50_000)],
)
def test_metrics_with_controls(sigma, norm, m, depth, draws):
    """n (E K − K) of widths 32 and 64, extrapolated: given z a branch has independent entries, so
    that a network is a chain of (n, m) normals. Largest |z| of up to 9 numbers."""
    x, C_W, C_b, gamma, eps = PAIR[:m], 0.7, 0.1, 2.0 / 3.0, 0.1
    table = flow(network(sigma, norm), x, depth, ["K", "G1"], width=2)
    K, theory = (table[name].to_numpy().reshape(depth, m, m) for name in ("K", "G1"))
    function, rng, found = SIGMA[sigma][0], np.random.default_rng(7), []
    for n in (32, 64):
        parts = []
        for _ in range(draws // 500):
            variables = [rng.standard_normal((500, n, m))]
            z, means = variables[0] @ np.linalg.cholesky(K[0]).T, []
            for layer in range(2, depth + 1):
                s = function(normed(z, norm, eps)[0])
                Q = C_b + C_W * np.einsum("bia,bic->bac", s, s) / n
                means.append(gamma**2 * np.einsum("bia,bic->bac", z, z) / n + Q)
                if layer < depth:
                    variables.append(rng.standard_normal((500, n, m)))
                    root = np.linalg.cholesky(Q)
                    z = gamma * z + np.einsum("bac,bic->bia", root, variables[-1])
            columns = [each[..., k] for each in variables for k in range(m)]
            flat = np.stack(means, axis=1).reshape(500, -1)
            parts.append((flat, controls(columns, 6 if m == 1 else 4, 2 if m == 1 else 1)))
        value, error = adjusted(*map(np.concatenate, zip(*parts, strict=True)))
        found.append((n * (value - K[1:].ravel()), n * error))
    (one, of_one), (other, of_other) = found
    error = np.hypot(2.0 * of_other, of_one)
    assert (np.abs(2.0 * other - one - theory[1:].ravel()) < 5.0 * error).all()
    at = theory[depth - 1].ravel()
    assert (5.0 * error.reshape(depth - 1, -1)[-1] < (0.25 if m == 1 else 0.4) * np.abs(at)).all()


@pytest.mark.slow
def test_tangents_with_controls():
    """n (E H_ii − Θ) at layers 2 and 3 of widths 10 and 30, extrapolated, of explicit matrices."""
    sigma, norm, draws = "gelu", "layer", 32_000
    C_W, C_b, gamma, eps = 0.7, 0.1, 2.0 / 3.0, 0.1
    table = flow(network(sigma, norm), PAIR[0], 3, ["K", "Theta", "Theta1"], width=2)
    limit, theory = (table[name].to_numpy().ravel()[1:] for name in ("Theta", "Theta1"))
    K1, theta = float(table["K"][0]), float(table["Theta"][0])
    (function, slope), rng, found = SIGMA[sigma], np.random.default_rng(5), []

    def moved(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """σ(y), and ∂σ(y_i)/∂z_j."""
        n = z.shape[1]
        y, f, off = normed(z, norm, eps)
        own = f[:, :, None] * (np.eye(n) - (norm == "layer") / n)
        own = own - (f**3 * off)[:, :, None] * off[:, None, :] / n
        return function(y), slope(y)[:, :, None] * own

    for n in (10, 30):
        parts = []
        for _ in range(draws // 200):
            a = rng.standard_normal((200, n))
            s, J = moved(np.sqrt(K1) * a)
            W = rng.standard_normal((200, n, n)) * np.sqrt(C_W / n)
            xi = np.einsum("bij,bj->bi", W, s) + np.sqrt(C_b) * rng.standard_normal((200, n))
            square = (s**2).mean(axis=1)
            x = xi / np.sqrt(C_b + C_W * square)[:, None]
            whole = W @ J + gamma * np.eye(n)
            H = theta * whole @ whole.transpose(0, 2, 1)
            H += (0.3 + 0.8 * square)[:, None, None] * np.eye(n)
            first = 0.3 + 0.8 * square + theta * (gamma**2 + C_W * (J**2).sum(axis=(1, 2)) / n)
            s, J = moved(gamma * np.sqrt(K1) * a + xi)
            trace = np.einsum("bii->b", H) / n
            second = 0.3 + 0.8 * (s**2).mean(axis=1) + gamma**2 * trace
            second += C_W * np.einsum("bij,bij->b", J @ H, J) / n
            parts.append((np.stack([first, second], axis=1), controls([a, x], 5, 2)))
        value, error = adjusted(*map(np.concatenate, zip(*parts, strict=True)))
        found.append((n * (value - limit), n * error))
    (one, of_one), (other, of_other) = found
    error = np.hypot(1.5 * of_other, 0.5 * of_one)
    assert (np.abs(1.5 * other - 0.5 * one - theory) < 5.0 * error).all()
    assert (5.0 * error < 0.06 * limit).all()


@pytest.mark.slow
def test_ensembles():
    """Layers 2 to 4, and D, F, A, B among them."""
    net = network("relu", "rms", weights=Gaussian)
    names = ["K", "V", "Theta", *TOWER]
    theory = flow(net, PAIR[0], 4, names, width=2)
    names.remove("Theta1")
    sampled = [simulate(net, PAIR[0], n, 4, 25_000, tensors=names, seed=n) for n in (32, 96)]
    assert compare(theory, sampled).agrees


@pytest.mark.slow
def test_two_inputs_in_ensembles():
    net = network("relu", "layer", weights=Orthogonal)
    theory = flow(net, PAIR, 4, ["K", "G1", "V"], width=2)
    sampled = [
        simulate(net, PAIR, n, 4, 25_000, tensors=["K", "G1", "V"], seed=n) for n in (32, 96)
    ]
    assert compare(theory, sampled).agrees
