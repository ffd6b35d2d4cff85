"""P, Q, R, S, T and U behind a skip around one matrix."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, layers, recursion
from derive.arithmetic import UNIT, add, monomial, multiply
from derive.engine import DENSE, named, skip_closure
from derive.errors import InputError
from numeric import flow, simulate

NAMES = list("PQRSTU")


def _of_invariant_law(terms):
    """With X(F) = ⟨∂F⟩ X(z) or ⟨F⟩ X(1) for every functional X of order 1/n; E dH_{j;ii} H_ij z_i
    is of order 1/n² there."""
    reduction, total = skip_closure._Reduction((DENSE,)), {}
    for (mono, at), value in terms.items():
        term = {(UNIT, at): value}
        for atom, exponent in mono:
            found = skip_closure.functional_in(atom)
            factor = {(frozenset({(atom, exponent)}), 0): 1}
            if found and found[0] != "Mean":
                kind, of = found
                factor, degrees = {}, skip_closure.MEMBERS.get(kind, (None,))[1:]
                for labels, scale in chain(*(reduction._parts(of, each) for each in degrees)):
                    own = skip_closure.member_of(kind, skip_closure.subscripts(atom), labels)
                    add(factor, multiply(scale, {(monomial([own]), 0): 1}, 0))
            term = multiply(term, factor, 1)
        add(total, term)
    return total


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()])
def test_dense_layers_have_the_recursions_of_the_engine(name, weights):
    """Without a skip, on functionals of a law that rotations keep: term for term."""
    own = skip_closure.recursion_of(named(name), (DENSE,), weights, (1, 2, 3, 4))
    assert _of_invariant_law(own) == recursion(name, weights).terms


@pytest.mark.parametrize("inputs", [[0.8, 0.6], [[0.8, 0.6], [-0.5, 1.0]]])
@pytest.mark.parametrize("ensemble", [Orthogonal])
def test_linear_skips_keep_rotations(ensemble, inputs):
    """With σ = z the law is invariant, and the engine's own recursions hold."""
    given = {"C_b": 0.1, "weights": ensemble(C_W=0.7), "lambda_b": 0.3, "lambda_W": 0.8}
    known = layers.Layer("z[i] = gamma z[i] + b[i] + W[i,a] z[a]", gamma="2/3")
    one, other = (
        flow(Network("linear", layer=each, **given), inputs, 4, NAMES, width=2)
        for each in (layers.skip("2/3"), known)
    )
    assert np.abs(other["T"]).max() > 1.0
    for name in NAMES:
        assert np.allclose(one[name], other[name], rtol=1e-11, atol=1e-12)


def test_ensembles_meet_the_recursions():
    """To order 1/n² at layers 2, 3 and 4: 18 numbers, |z| < 5; all but T and U resolve 10 %."""
    given = {"C_b": 0.2, "lambda_b": 0.5, "lambda_W": 0.8, "layer": "skip(4/5)"}
    net, x = Network("tanh", Orthogonal(C_W=1.4), **given), [1.2, 0.7]
    theory, widths = flow(net, x, 4, NAMES), np.array([32, 64, 128])
    measured = [
        simulate(
            net, x, width=int(n), depth=4, draws=2_560_000 // int(n), tensors=NAMES, seed=int(n)
        )
        for n in widths
    ]
    design = np.stack([np.ones(3), 1 / widths], 1)
    for name in NAMES:
        for layer in (2, 3, 4):
            values, errors = (
                np.array([float(each[label].sel(layer=layer)) for each in measured])
                for label in (name, f"{name}_se")
            )
            covariance = np.linalg.inv(design.T @ (design / errors[:, None] ** 2))
            found = covariance @ (design.T @ (values / errors**2))
            error, known = covariance[0, 0] ** 0.5, float(theory[name].sel(layer=layer))
            assert abs(found[0] - known) < 5 * error
            assert 5 * error < ({"T": 0.3, "U": 0.15}.get(name, 0.1)) * abs(known)


@pytest.mark.parametrize("layer", ["skip(1/2, norm=rms)", "skip(1/2, norm=layer)"])
def test_norms_are_refused(layer):
    """They are not differentiated twice."""
    with pytest.raises(InputError, match="norm"):
        recursion("P", layer=layer)
    with pytest.raises(InputError, match="norm"):
        flow(Network("tanh", layer=layer), [1.0, 0.5], 3, ["P"])


def test_kinks_are_refused():
    """σ'' of ReLU has no Hermite series."""
    with pytest.raises(InputError, match="kinks"):
        flow(Network("relu", layer="skip(1/2)"), [1.0, 0.5], 3, ["P"])


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()])
def test_one_weight_in_dH_and_H_is_the_source_of_U(weights):
    """By hand: U has no function of z but its average, and X(f) = n E dH_{j;ii} H_ij f(z_i) is that
    of W_ji W_ji alone, for both ensembles."""
    gamma, C_W, b, K, Theta, U = sympy.symbols("gamma C_W b K Theta U")
    made = recursion("U", weights, layer="skip(gamma)").single_input()
    moved = {str(left): str(right) for left, right in made.sequences.items()}
    slope, slopes = "⟨σ'²⟩", "⟨(σ'σ'')^(b)⟩"

    def as_known(text):
        for old, new in ((slope, "s"), (slopes, "h"), ("⟨σ'² σ''²⟩", "q")):
            text = text.replace(old, new)
        for old, new in (("chi[b]", "X"), ("U0[b]", "Y"), ("U0_t", "(U*s)")):
            text = text.replace(old, new)
        names = {str(each): each for each in (gamma, C_W, b, K, Theta, U)}
        return sympy.sympify(text, names)

    s, h, q, X, Y, chi = sympy.symbols("s h q X Y chi_h")
    through = gamma**2 + C_W * s
    own = gamma ** (b + 3) * (C_W * K**b * Theta**3 * h + through * X)
    assert sympy.expand(as_known(moved["chi[b](ℓ+1)"]) - own) == 0
    assert sympy.expand(as_known(moved["U0[b](ℓ+1)"]) - gamma ** (b + 2) * through * Y) == 0
    whole = through**2 * U + 2 * C_W * through * chi + C_W**2 * Theta**3 * q
    assert sympy.expand(as_known(str(made.expr)) - whole) == 0


def test_networks_have_one_weight_in_dH_and_H():
    """n E dH_{j;ii} H_ij z_i of two layers → γ⁴C_WΘ³⟨zσ'σ''⟩, by sums over networks' own weights;
    Θ is that of the first layer. At 5 errors it is known to 13 %."""
    gamma, C_W, theta, K, draws = 0.8, 1.4, 1.3, 1.5, (12000, 6000, 2500)
    rng, found = np.random.default_rng(21), []

    def drawn(n: int, networks: int) -> np.ndarray:
        """The sum over i ≠ j, where no other parameters meet."""
        z = np.sqrt(K) * rng.standard_normal((networks, n))
        W = np.sqrt(C_W / n) * rng.standard_normal((networks, n, n))
        s, slope = np.tanh(z), 1 - np.tanh(z) ** 2
        J = gamma * np.eye(n) + W * slope[:, None]
        H = theta * J @ J.transpose(0, 2, 1)
        dH = theta**2 * (W * (-2 * s * slope)[:, None]) @ (J**2).transpose(0, 2, 1)  # [j, i]
        out = gamma * z + np.einsum("dij,dj->di", W, s)
        return np.einsum("dji,dij,di->d", dH, H, out) - np.einsum("dii,dii,di->d", dH, H, out)

    for n, networks in zip((16, 32, 64), draws, strict=True):
        each = np.concatenate([drawn(n, 500) for _ in range(networks // 500)])
        found.append((n, each.mean() / (n - 1), each.std() / np.sqrt(networks) / (n - 1)))
    widths, values, errors = np.transpose(found)
    powers = np.vander(1 / widths, 3, increasing=True) / errors[:, None]
    covariance = np.linalg.inv(powers.T @ powers)
    limit = (covariance @ powers.T @ (values / errors))[0]
    at, weights = np.polynomial.hermite_e.hermegauss(80)
    at = np.sqrt(K) * at
    mean = weights @ (at * (1 - np.tanh(at) ** 2) ** 2 * -2 * np.tanh(at)) / weights.sum()
    known, error = gamma**4 * C_W * theta**3 * mean, np.sqrt(covariance[0, 0])
    assert abs(limit - known) < 4 * error
    assert 5 * error < 0.13 * abs(known)
