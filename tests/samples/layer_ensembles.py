"""An ensemble of layers for one input, neuron by neuron, and the recursions' numbers beside it.

Of one input a matrix is known by what it does to one vector: a Gaussian W v has independent
components of variance C|v|²/n, and a Haar-random √C O v is uniform on the sphere of radius √C|v|.
"""

from __future__ import annotations

import numpy as np
import sympy

from derive import Gaussian, recursion
from derive.gaussian import Average
from derive.symbols import C_W, C_b, K, tensor

NODES, HERMITE = np.polynomial.hermite_e.hermegauss(120)
HERMITE = HERMITE / HERMITE.sum()


def matrix(rng, v, orthogonal, variance=1.0, out=None):
    """W v, a fresh matrix for each row of v."""
    g = rng.standard_normal((len(v), out or v.shape[1]))
    length = np.sqrt(variance * (v**2).sum(1, keepdims=True))
    if orthogonal:
        return length * g / np.sqrt((g**2).sum(1, keepdims=True))
    return length * g / np.sqrt(v.shape[1])


def normed(z, norm, eps=0.0):
    """The normalized z."""
    if norm == "layer":
        z = z - z.mean(1, keepdims=True)
    return z if norm is None else z / np.sqrt((z**2).mean(1, keepdims=True) + eps)


def moments(step, n, samples, depth, K1, seed, block=20_000):
    """n Var(q) − 2 E[q]² and n (E[q] − K1), q = Σ z²/n, with their standard errors."""
    rng = np.random.default_rng(seed)
    q = []
    for _ in range(samples // block):
        z = np.sqrt(K1) * rng.standard_normal((block, n))
        for _ in range(depth):
            z = step(rng, z)
        q.append((z**2).mean(1))
    q = np.concatenate(q)
    centred = q - q.mean()
    variance = (centred**2).mean()
    vertex = n * variance - 2 * q.mean() ** 2
    influence = n * (centred**2 - variance) - 4 * q.mean() * centred
    return (vertex, influence.std() / np.sqrt(len(q))), (
        q.mean(),
        q.std() / np.sqrt(len(q)),
    )


def bracket_value(average, sigma, kernel):
    """A bracket by quadrature; its outer derivatives by Hermite's polynomials."""
    bracket = average.bracket
    z = NODES * np.sqrt(kernel)
    value = np.ones_like(z)
    for _, order in bracket.factors:
        value = value * sigma(order)(z)
    k = len(bracket.outer)
    he = np.polynomial.hermite_e.hermeval(NODES, [0] * k + [1])
    return float((HERMITE * value * he).sum() / kernel ** (k / 2))


def derivatives(activation):
    """σ^{(k)} as functions of arrays."""
    found = {}

    def of(order):
        if order not in found:
            z = sympy.Symbol("z", real=True)
            made = sympy.lambdify(z, activation.derivative(order), "scipy")
            found[order] = lambda x: np.broadcast_to(made(x), x.shape)
        return found[order]

    return of


def predicted(layer, activation, weights=None, depth=3, K1=1.0, parameters=None):
    """K, V and G1 after so many layers, from independent Gaussians of variance K1."""
    weights = weights or Gaussian()
    sigma = derivatives(activation)
    made = {name: recursion(name, weights, layer=layer).single_input() for name in ("K", "V", "G1")}
    state = {K: K1, tensor("V"): 0.0, tensor("G1"): 0.0}
    given = {C_W: 1.0, C_b: 0.0, **(parameters or {})}
    for _ in range(depth):
        known = {**state, **given}
        state = {tensor(name): _value(each, sigma, known) for name, each in made.items()}
    return [state[tensor(name)] for name in ("K", "V", "G1")]


def _value(made, sigma, known):
    kernels = {label: float(kernel.subs(known)) for label, kernel in resolved(made, sigma, known)}
    values = {
        average: bracket_value(average, sigma, kernels[average.bracket.kernel])
        for average in made.expr.atoms(Average)
    }
    return float(made.expr.xreplace(values).subs(known))


def resolved(made, sigma, known):
    """The kernels, brackets in them by number."""
    yield "K", K
    kernels = {"K": K}
    for label, kernel in made.kernels.items():
        values = {}
        for average in kernel.atoms(Average):
            at = float(kernels[average.bracket.kernel].subs(known))
            values[average] = bracket_value(average, sigma, at)
        kernels[label] = kernel.xreplace(values)
        yield label, kernels[label]
