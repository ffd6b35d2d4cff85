r"""Depth in proportion to width: log K as a random walk, for σ(cz) = cσ(z) and one input.

There K' = fK, V' = f²V + s(fK)² and G1' = fG1 + g fK, with numbers f, s and g of the layer. So the
steps of log K have the mean log f + (g − s/2)/n and the variance s/n, up to 1/n². At f = 1 and
L − 1 = rn of them, log(K_L/K_1) becomes normal, with the mean (g − s/2)r and the variance sr.

`growth` tells for any σ at criticality whether K fluctuates at a depth comparable with n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from ..activations import polynomial
from ..activations.functions import Activation, as_activation
from ..depth.asymptotics import asymptotics
from ..depth.criticality import Criticality, criticality
from ..display.objects import Shown
from ..engine.norms import norm_of
from ..engine.scheme import Scheme
from ..engine.skips import is_skip
from ..engine.step import step, through
from ..engine.tensors import named
from ..errors import InputError, instance
from ..layers import Layer, as_layer
from ..network import Network
from ..symbols import C_W, C_b, K, L, ell, tensor, z
from ..weights import WeightEnsemble, as_weights
from .skips import growth_of

_ROUNDING = sympy.Float("1e-15")
"""A factor of floats this close to 1 is 1."""
_V, _G1 = tensor("V"), tensor("G1")


@dataclass(frozen=True, repr=False)
class Walk(Shown):
    """The steps of log K, one for each layer of weights, averaged over the layers that repeat.

    Attributes:
        factor: f, what K is multiplied by at infinite width; of several layers the product.
        period: of how many layers.
        drift: g, n times what the mean of K'/(fK) has beyond 1, a layer.
        spread: s, n times the variance of K'/(fK), a layer: the source of V/K².
        offset: what log K gains in the first and the last layers, where those are others.

    With the symbol `symbols.L` in the layer's variances all of them depend on the depth.

    >>> from derive import Network
    >>> print(walk(Network("relu", C_W=2)))
    log K moves by -5/(2*n) a layer, with the variance 5/n
    """

    factor: sympy.Expr
    period: int
    drift: sympy.Expr
    spread: sympy.Expr
    offset: sympy.Expr = sympy.S.Zero

    @property
    def growth(self) -> sympy.Expr:
        """The limit of L log f: what log K gains at infinite width; infinite if K has no limit."""
        if self.factor.is_number and abs(sympy.N(self.factor - 1)) < _ROUNDING:
            return sympy.S.Zero
        return sympy.limit(L * sympy.log(self.factor) / self.period, L, sympy.oo)

    @property
    def deep(self) -> Walk:
        """The same with the limits L → ∞ of its spread and drift."""
        drift, spread = (sympy.limit(x, L, sympy.oo) for x in (self.drift, self.spread))
        return replace(self, drift=drift, spread=spread)

    @property
    def log_mean(self) -> sympy.Expr:
        """g − s/2, n times the mean of a step of log K at f = 1."""
        return self.drift - self.spread / 2

    def latex(self) -> str:
        """The mean and variance of a step in LaTeX."""
        mean, spread = map(sympy.latex, (self.log_mean, self.spread))
        return rf"\text{{mean }} {mean}/n,\; \text{{variance }} {spread}/n"

    def __str__(self) -> str:
        n = sympy.Symbol("n")
        moved = sympy.log(self.factor) / self.period + self.log_mean / n
        return f"log K moves by {moved} a layer, with the variance {self.spread / n}"


def walk(net: Network) -> Walk:
    """The walk of log K in a network of scale-invariant layers, derived from its recursions.

    Arguments:
        net: one activation with σ(cz) = cσ(z) at each layer, no biases, layers that rotations of
            the neurons keep, or whose law only permutations keep through independent entries.

    Derived here. Raises InputError if K' is no multiple of K, and for what else does not apply,
    with what happens instead.

    >>> walk(Network("linear")).spread, walk(Network("linear", "orthogonal")).spread
    (2, 0)
    """
    instance("net", net, Network, "a derive.Network")
    pattern = net.pattern(1)
    depth = 1 + len(pattern.once)
    if not net.has_equal_widths(net.depth or depth):
        raise InputError("net", str(net), "a network with n neurons in every layer")
    steps = [
        _step(net, pattern.distinct[number], layer, depth)
        for layer, number in enumerate(pattern.once, 2)
    ]
    stem, count = len(pattern.stem), len(pattern.block)
    block = [pattern.distinct[number] for number in pattern.once[stem : stem + count]]
    if count > 1 and any(is_skip(each.stages) for each in block):
        wanted = "a skip around one matrix that repeats alone, so that its memory comes to rest"
        raise InputError("layer", str(net.layer), wanted)
    ends = [factor for factor, *_ in (*steps[:stem], *steps[stem + count :])]
    factors, *others = zip(*steps[stem : stem + count], strict=True)
    drift, spread = (sympy.factor(sympy.Add(*each) / count) for each in others)
    offset = sympy.log(sympy.prod(ends))
    return Walk(sympy.factor(sympy.prod(factors)), count, drift, spread, offset)


def _step(
    net: Network, scheme: Scheme, layer: int, depth: int
) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """f, g and s of one layer."""
    _check(net, scheme, layer)

    def moved(name: str) -> sympy.Expr:
        made = through(named(name), scheme).specialise(scheme.sigma)
        return sympy.expand(made.expr.subs(C_b, 0))

    kernel = moved("K")
    factor = sympy.simplify(kernel / K)
    if factor.has(K) or factor == 0:
        raise InputError("net", str(net), f"layers with K' = fK, {_instead(factor, kernel)}")
    weight = {C_W: net.weights_at(layer, depth=depth).C_W}
    if is_skip(scheme.stages):
        value = factor.subs(weight)
        return value, *growth_of(scheme, value, weight[C_W])
    vertex, metric = moved("V"), moved("G1")
    spread = sympy.simplify((vertex - factor**2 * _V) / kernel**2)
    drift = sympy.simplify((metric - factor * _G1) / kernel)
    if not (spread.free_symbols | drift.free_symbols).isdisjoint({K, _V, _G1}):
        wanted = "layers whose steps of log K are independent of K and of all layers before"
        raise InputError("net", str(net), wanted)
    return factor.subs(weight), drift.subs(weight), spread.subs(weight)


def _check(net: Network, scheme: Scheme, layer: int) -> None:
    """Raise InputError for biases, corrections, and activations that know a scale."""
    if net.corrections:
        wanted = "C_W and C_b without corrections in 1/n, which move K by order one at L ~ n"
        raise InputError("net", str(net), wanted)
    if net.changes("C_b") or net.C_b_at(layer) != 0:
        wanted = "no biases: with them K tends to C_b ℓ or to K* > 0, and fluctuates by O(1/n)"
        raise InputError("net", str(net), wanted)
    sigmas = (each for stage in scheme.stages for each in stage.sigmas(scheme.sigma))
    for each in sigmas:
        if each.is_scale_invariant:
            continue
        wanted = "σ(cz) = cσ(z): at K* = 0 K falls to 0 as a power of 1/ℓ (nK has a law, "
        wanted += "numeric.deep.falling), and at K* > 0 it rests up to O(1/n)"
        raise InputError("activation", str(each), wanted)


def _instead(factor: sympy.Expr, kernel: sympy.Expr) -> str:
    """How a network behaves, in words, where K' is no multiple of K."""
    if not kernel.has(K):
        return "and not a norm, behind which K is the same at every layer, up to O(1/n)"
    if factor.is_polynomial(K):
        return f"and not K' = {kernel}, which grows or falls doubly exponentially with depth"
    if kernel.coeff(K) == 1:
        return "and not a norm with a skip, where K grows linearly and V/K² falls as 1/ℓ"
    return "and not a norm with a skip γ < 1, behind which K rests at K* > 0, up to O(1/n)"


def growth(
    activation: Activation | str,
    weights: WeightEnsemble | str = "gaussian",
    layer: Layer | str = "dense",
) -> sympy.Expr:
    """The first term of V/K² at large depth and criticality, a function of `symbols.ell`.

    A power of ℓ means that K fluctuates by order one at ℓ ~ n. A constant, or less, means that its
    fluctuations stay of order 1/n at any ratio of depth and width.

    Arguments:
        activation: σ.
        weights: the law of all matrices.
        layer: what the network repeats. Where every C_W is critical it is at C_W = 1, with the
            critical C_b, or with none if K grows linearly.

    Derived here. Raises InputError as `Recursion.asymptotics` does, and behind a skip around one
    matrix where K* > 0.

    >>> growth("relu"), growth("tanh", "orthogonal")
    (5*ell, -2)
    """
    sigma, own = as_activation(activation), as_layer(layer)
    found = criticality(sigma, layer=own)
    if is_skip(own.stages) and norm_of(own.stages) is None:
        return _remembered(sigma, weights, own, found)
    given: dict[str, sympy.Expr] = {}
    if found.line is not None or found.exponent is not None:
        given = {"C_W": sympy.S.One}
    if found.exponent is not None:
        given["C_b"] = sympy.S.Zero
    made = step("V", weights, layer=own.staged).single_input()
    return asymptotics(made, sigma, 1, **given).normalised.terms[0].expr


def _remembered(
    sigma: Activation, weights: WeightEnsemble | str, layer: Layer, found: Criticality
) -> sympy.Expr:
    """s ℓ behind a skip around one matrix; at K* = 0 a third of that of linear networks, because
    V/K² loses 2/ℓ of itself in a layer of K ~ 1/ℓ."""
    C_b, C_W = found.critical
    known = [each for each in found.points if (each.C_b, each.C_W, each.K) == (C_b, C_W, 0)]
    if sigma.is_scale_invariant:
        part, repeated = 1, sigma
    elif known and known[0].exponent == 1 and known[0].coefficient.is_negative:
        part, repeated = 3, polynomial([0, 1])
        C_W *= sympy.diff(sigma.expr, z).subs(z, 0) ** 2
    else:
        raise InputError("activation", str(sigma), "σ(cz) = cσ(z), or K* = 0 with K ~ 1/ℓ")
    law = as_weights("weights", weights).scaled_to(C_W)
    return walk(Network(repeated, law, layer=layer)).spread / part * ell
