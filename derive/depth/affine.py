"""Layers whose kernel map is affine, F = aK + s, with χ_⊥ = a + u/K: always, or at large K."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from ..activations.functions import Activation
from ..gaussian.brackets import Average
from ..layers import Layer
from ..symbols import K
from .layer_functions import LayerFunction, functions


@dataclass(frozen=True)
class Affine:
    """F = gain·K + added and χ_⊥ = gain + spread/K, at every K, or up to what falls at large K."""

    gain: sympy.Expr
    added: sympy.Expr
    spread: sympy.Expr
    like: LayerFunction
    exact: bool

    def function(self, name: str, expr: sympy.Expr) -> LayerFunction:
        """A function of this law's constants, such as `spread`/`added`."""
        return replace(self.like, name=name, bare=expr)


def affine(activation: Activation, layer: Layer) -> Affine | None:
    """The law at large K where all brackets have kernels that stay finite there."""
    move, _, perp = functions(activation, layer)
    if any(kernel.has(Average) and kernel.has(K) for _, kernel in move.kernels):
        return None
    limits = tuple((label, sympy.limit(at, K, sympy.oo)) for label, at in move.kernels)
    at = {each: move.kernel(each) for each in (*move.averages, *perp.averages)}
    ends = {each: sympy.limit(kernel, K, sympy.oo) for each, kernel in at.items()}
    if any(end.has(sympy.oo) for end in ends.values()):
        return None
    plain = {each: sympy.Dummy(positive=True) for each in at}
    back = {symbol: each for each, symbol in plain.items()}
    one, other = (each.bare.xreplace(plain) for each in (move, perp))
    gain = sympy.limit(one / K, K, sympy.oo)
    added = sympy.limit(sympy.expand(one - gain * K), K, sympy.oo)
    spread = sympy.limit(sympy.expand((other - gain) * K), K, sympy.oo)
    if not all(each.is_finite is not False for each in (gain, added, spread)):
        return None
    exact = not any(kernel.has(K) for kernel in at.values())
    exact = exact and all(
        sympy.simplify(each) == 0 for each in (one - gain * K - added, (other - gain) * K - spread)
    )
    gain, added, spread = (sympy.factor_terms(e.xreplace(back)) for e in (gain, added, spread))
    return Affine(gain, added, spread, replace(move, kernels=limits), exact)


def against_one(gain: sympy.Expr) -> int:
    """The sign of gain − 1; a symbol stands for a skip below 1."""
    if not gain.is_number:
        return -1
    return int(sympy.sign(sympy.nsimplify(gain) - 1))
