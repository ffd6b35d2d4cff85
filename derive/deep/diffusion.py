r"""The Gram matrix of several inputs at depth in proportion to width, as a diffusion.

Where K' − K is of order 1/n, the kernels of a network follow, in the time r = ℓ/n,

    dK_ab = b_ab dr + dM_ab,    d⟨M_ab, M_cd⟩ = Σ_{(ab)(cd)} dr,

with the drift b = lim n(K' − K) + G1' and the diffusion Σ = V', the latter two at G1 = V = 0: what
a layer adds. For one input σ(cz) = cσ(z) is enough. For several ones σ has to become linear as n
grows, as in M. B. Li, M. Nica and D. M. Roy (2022), or the branch beside a skip small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import mpmath
import numpy as np
import sympy

from ..activations.functions import Activation, as_activation, from_expr
from ..depth.layer_functions import functions
from ..display.objects import Shown, readable
from ..engine.scores import Scores
from ..engine.step import Step
from ..engine.tensors import named
from ..errors import InputError
from ..expressions import as_expression, parse_with
from ..gaussian import closed_forms
from ..gaussian.brackets import Average, Component, GaussianAverage, with_samples
from ..layers import Layer, dense
from ..network import Network
from ..symbols import C_W, C_b, K, n, tensor, z
from .values import Array, Function, function_of, read_alone

Shape: TypeAlias = "Activation | sympy.Expr | str"
"""σ, which may have the width `symbols.n` in it."""

_EPS = sympy.Dummy("eps", positive=True)  # 1/√n
_SIDE = sympy.Dummy("x", positive=True)
_WIDTH = re.compile(r"\bn\b")
_OTHER = sympy.Integer(2)
"""The second sample of the drift."""
_SQUARE = 2
"""The highest power of C_W in a layer for which C_W is found; others take `C=` of the layer."""
_ORDER = 2
"""The power of 1/√n to which σ and C_W enter the drift."""
_SHAPE = "an activation, or an expression in z and the width n, such as 'sqrt(n)*tanh(z/sqrt(n))'"


@dataclass(frozen=True, repr=False)
class Diffusion(Shown):
    """The drift and the diffusion of K, in `K[a,b]`, per unit of r = ℓ/n.

    Attributes:
        drift: b_{12}; with one input b_{11}, in K.
        noise: Σ_{(12)(34)}; with one input Σ_{(11)(11)}.
        made: K's recursion.
        shape: σ, with the width n in it; None leaves it open, and `drift` is n(K' − K).
        variance: C_W as a series in 1/√n, or as it was given; None where σ is open.
        given: True if C_W was given, or all variances were by the layer.
    """

    drift: sympy.Expr
    noise: sympy.Expr
    made: Step
    shape: sympy.Expr | None = None
    variance: sympy.Expr | None = None
    given: bool = False

    def network(self, width: int) -> Network:
        """The network of this width, with σ at n = width.

        If C_W was not given, it is the one that keeps K = 1 of one input exactly.

        Raises InputError where σ is open.
        """
        if self.shape is None or self.variance is None:
            raise InputError("self", str(self), "a diffusion of an activation")
        sigma = from_expr(self.shape.subs(n, width))
        layer = self.made.layer or dense()
        assert isinstance(layer, Layer)
        weight = self.variance.subs(n, width)
        if not self.given:
            move = functions(sigma, layer)[0]
            root = mpmath.findroot(lambda c: move(1, sympy.Float(c, 30), 0) - 1, float(weight))
            weight = sympy.Float(root, 20)
        return Network(sigma, self.made.weights.scaled_to(weight), layer=layer)

    @property
    def symbols(self) -> set[sympy.Symbol]:
        """Symbols beside K, such as the number of heads."""
        both = sympy.Tuple(self.drift, self.noise)
        found: set[sympy.Symbol] = both.xreplace(
            dict.fromkeys(both.atoms(Component), sympy.S.One)
        ).free_symbols
        return found

    @property
    def positions(self) -> int:
        """T, the tokens that attention reads; 1 without attention."""
        return max(stage.positions for stage in self.made.layer_stages)

    def functions(self) -> tuple[Function, Function]:
        """b_{ab} and Σ_{(ab)(cd)} as functions of K (…, m, m), with axes a, b, c and d.

        With attention over T tokens the samples are m/T sequences of them, and K may be an array of
        symbols.

        >>> from derive import recursion
        >>> drift, noise = recursion(["z", "z"]).diffusion("z*(1 + 1/n)").functions()
        >>> noise(np.array([[2.0, 1.0], [1.0, 3.0]]))[0, 0, 1, 1]
        np.float64(2.0)
        """
        names = _scores(self.made)
        at_one = {
            each: Component(each.args[0], (1 if k == _OTHER else k for k in each.args[1]))
            for each in self.drift.atoms(Component)
        }
        own = sympy.simplify(self.drift.xreplace(at_one))
        length, drift, noise = (
            function_of(each, k, names, self.positions)
            for each, k in ((own, 1), (self.drift, 2), (self.noise, 4))
        )

        def with_lengths(K: Array) -> Array:
            """A quotient such as (K_11 − K_12)/√(K_11 K_22 − K_12²) has a limit where a = b."""
            with np.errstate(all="ignore"):
                found = np.array(drift(K))
            at = np.arange(K.shape[-1])
            found[..., at, at] = length(K)
            return found

        return with_lengths, noise

    def latex(self) -> str:
        """Drift and diffusion in LaTeX."""
        b, noise = (sympy.latex(readable(each)) for each in (self.drift, self.noise))
        return rf"b_{{12}} = {b},\quad \Sigma_{{(12)(34)}} = {noise}"

    def __str__(self) -> str:
        single = self.made.is_single_input
        drift, noise = (
            readable(each if single else with_samples(each)) for each in (self.drift, self.noise)
        )
        names = ("b", "Σ") if single else ("b[1,2]", "Σ[1,2,3,4]")
        return f"{names[0]} = {drift}\n{names[1]} = {noise}"


def diffusion(
    made: Step, shape: Shape | None = None, variance: sympy.Expr | float | str | None = None
) -> Diffusion:
    """The drift and diffusion of the kernel, derived from the recursions of K, G1 and V.

    Arguments:
        made: the recursion of K, for two inputs or for one.
        shape: σ, which may have the width n in it; open if left out.
        variance: C_W, which may have n in it; by default what keeps K = 1 of one input, order by
            order in 1/√n.

    Derived here; M. B. Li, M. Nica and D. M. Roy (2022) have the dense layer with Gaussian weights.
    Raises InputError for other tensors, and where K' − K is not of order 1/n.

    >>> from derive import recursion
    >>> print(diffusion(recursion("K", "orthogonal").single_input(), "relu"))
    b = 0
    Σ = 3*K**2
    """
    if getattr(made, "target", None) != named("K"):
        raise InputError("made", made, "the recursion of K, of the fields z and z")
    _check(made)
    made = replace(made, activation=None)
    if shape is None and not made.expr.has(Average):
        shape = z
    if shape is None:
        if variance is not None:
            raise InputError("C_W", variance, "none, where the activation is open")
        start = _kernel(made)
        added = _added(made, "G1")
        return Diffusion(n * (made.expr - start) + added, _added(made, "V"), made)
    return _Derivation(made, *_shaped(shape), variance).run()


def _check(made: Step) -> None:
    """Raise InputError for a layer where K of two inputs moves by order one."""
    for stage in made.layer_stages:
        wanted = {
            "without taps, which average K over positions and so move it": stage.taps.moves,
            "without a batch norm, which sets K anew": bool(stage.batch),
            "with the network's activation alone: another one moves K": bool(stage.activations),
            "without tied keys, whose scores do not vanish and move K": any(
                each.is_tied for each in stage.scores
            ),
        }
        if not made.is_single_input:
            reason = (
                "without dropout, whose masks tell equal inputs apart and so move K_12 beside K_11"
            )
            wanted[reason] = bool(stage.masks)
        for reason, applies in wanted.items():
            if applies:
                raise InputError("layer", str(made.layer), f"a layer {reason} by order one")


def _scores(made: Step) -> dict[str, Scores]:
    """The scores of a layer by the names that their weights have in expressions."""
    every = chain.from_iterable(stage.scores for stage in made.layer_stages)
    return {f"{each.name}_{each.symbol}": each for each in every}


def _at_weights(made: Step, expr: sympy.Expr) -> sympy.Expr:
    """Without the weights of attention that are 1 at the own position and 0 elsewhere."""
    return read_alone(expr, _scores(made), max(each.positions for each in made.layer_stages))


def _kernel(made: Step) -> sympy.Expr:
    return K if made.is_single_input else Component("K", (1, 2))


def _added(made: Step, name: str) -> sympy.Expr:
    """The source of G1 or V in a layer: the right-hand side where both are 0."""
    count = len(named(name).subscripts)
    samples = (1,) * count if made.is_single_input else tuple(range(1, count + 1))
    expr = replace(made, target=named(name), samples=samples).expr
    none = {each for each in expr.atoms(Component) if str(each.args[0]) in {"V", "G1"}}
    none |= {tensor("V"), tensor("G1")}
    return _at_weights(made, sympy.expand(expr.xreplace(dict.fromkeys(none, sympy.S.Zero))))


@dataclass(frozen=True)
class _Derivation:
    """One diffusion with its activation."""

    made: Step
    shape: sympy.Expr
    sigma: Activation
    variance: sympy.Expr | float | str | None

    def run(self) -> Diffusion:
        *lower, last = _orders(self._moved(self.weight) - _kernel(self.made))
        for power, each in zip(("1", "1/√n"), lower, strict=True):
            if sympy.simplify(each) != 0:
                wanted = f"K' − K of order 1/n, and not of {power}"
                wanted += ', as with score="shaped"' if _scores(self.made) else ""
                normed = any(each.means for each in self.made.layer_stages)
                wanted += ": a norm sets all lengths in one layer" if normed else ""
                raise InputError("shape", str(self.shape), wanted)
        drift = last + self._source("G1")
        weight = self.weight.subs(_EPS, 1 / sympy.sqrt(n))
        given = self.variance is not None or not self._open.has(C_W)
        noise = sympy.factor(self._source("V"))
        return Diffusion(sympy.factor(drift), noise, self.made, self.shape, weight, given)

    @cached_property
    def weight(self) -> sympy.Expr:
        """C_W as a function of 1/√n."""
        if self.variance is not None:
            return self._given.subs(n, _EPS**-2)
        if not self._open.has(C_W):
            return sympy.S.One
        start, *free = sympy.symbols("c0:3", real=True)
        one = dict.fromkeys([K, *self._open.atoms(Component)], sympy.S.One)
        flat = sympy.expand(_at_zero(self._moved(start).xreplace(one)) - 1)
        solvable = flat.is_polynomial(start) and sympy.degree(flat, start) <= _SQUARE
        roots = [c for c in sympy.solve(flat, start) if c.is_positive] if solvable else []
        if not roots:
            wanted = "a layer with a C_W > 0 that keeps K = 1, of which K' holds C_W^2 at most; "
            raise InputError("C_W", None, f"{wanted}or C_W=, such as 1/sqrt(n) beside a skip")
        series = roots[0] + sum(c * _EPS**k for k, c in enumerate(free, 1))
        _, *kept = _orders(self._moved(series).xreplace(one))
        known: dict[sympy.Symbol, sympy.Expr] = {}
        for c, each in zip(free, kept, strict=True):
            (known[c],) = sympy.solve(each.subs(known), c)
        return series.subs(known)

    @property
    def _given(self) -> sympy.Expr:
        wanted = "a variance, which may have the width n in it"
        if isinstance(self.variance, str):
            return parse_with(self.variance, {"n": n}, {}, wanted, "C_W")
        return as_expression("C_W", self.variance, wanted)

    @cached_property
    def _open(self) -> sympy.Expr:
        found = replace(self.made, activation=self.sigma).expr.subs(C_b, 0)
        found = _at_weights(self.made, found)
        if found.has(Average, GaussianAverage):
            wanted = "one whose ⟨σ₁σ₂⟩ has a closed form: powers of z on each side of 0"
            raise InputError("shape", str(self.shape), wanted)
        return found

    def _moved(self, weight: sympy.Expr) -> sympy.Expr:
        """K' with this C_W; roots lose their factors of 1/√n."""
        plain = {each: sympy.Dummy(positive=True) for each in self._open.atoms(Component)}
        back = {symbol: each for each, symbol in plain.items()}
        found = self._open.xreplace(plain).subs(C_W, weight)
        return found.replace(_is_root, lambda root: sympy.sqrt(sympy.factor(root.base))).xreplace(
            back
        )

    def _source(self, name: str) -> sympy.Expr:
        """The source of G1 or V in a layer as n → ∞."""
        start = sympy.limit(self.weight, _EPS, 0)
        limit = Activation("limit", self.sigma.expr.subs(_EPS, 0))
        if start == 0:
            return _added(self.made, name).subs({C_W: 0, C_b: 0})
        found = _added(replace(self.made, activation=limit), name).subs({C_W: start, C_b: 0})
        found = found.xreplace({each: _evaluated(each) for each in found.atoms(GaussianAverage)})
        if found.has(Average, GaussianAverage):
            raise InputError("shape", str(self.shape), "one that is linear as n → ∞")
        return sympy.expand(found)


def _is_root(expr: sympy.Basic) -> bool:
    return isinstance(expr, sympy.Pow) and expr.exp == sympy.Rational(1, 2)


def _orders(expr: sympy.Expr) -> list[sympy.Expr]:
    """The coefficients of 1, 1/√n and 1/n."""
    found = []
    for k in range(_ORDER + 1):
        found.append(sympy.expand(_at_zero(expr)) / sympy.factorial(k))
        expr = expr.diff(_EPS)
    return found


def _at_zero(expr: sympy.Expr) -> sympy.Expr:
    """The limit, which sympy writes with complex logarithms where there are arcs."""
    value = expr.subs(_EPS, 0)
    no_value = value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
    return sympy.limit(expr, _EPS, 0) if no_value else value


def _evaluated(average: GaussianAverage) -> sympy.Expr:
    """The average of a polynomial, by Wick's theorem."""
    integrand, variables, entries = average.args
    size, covariance = len(variables.args), iter(entries.args)
    matrix = sympy.zeros(size, size)
    for a in range(size):
        for b in range(a, size):
            matrix[a, b] = matrix[b, a] = next(covariance)
    value = closed_forms.expectation(integrand, tuple(variables.args), matrix)
    return average if value is None else value


def _shaped(given: Shape) -> tuple[sympy.Expr, Activation]:
    """σ as an expression in z and n, and through order 1/n: a polynomial in z on each side of 0."""
    found = _read(given)
    if not found.has(n):
        sigma = from_expr(given) if isinstance(given, sympy.Expr) else as_activation(given)
        return sigma.expr, sigma
    right, left = (_side(found, sign) for sign in (1, -1))
    terms = (
        _EPS**k * _joined(given, right.coeff(_EPS, k), left.coeff(_EPS, k))
        for k in range(_ORDER + 1)
    )
    return found, Activation("shaped", sympy.expand(sympy.Add(*terms)))


def _read(given: Shape) -> sympy.Expr:
    """σ as an expression; that of an activation's name is 0, for it has no n."""
    if isinstance(given, Activation):
        return given.expr
    if isinstance(given, sympy.Expr):
        return given
    if not isinstance(given, str):
        raise InputError("shape", given, _SHAPE)
    try:
        return parse_with(given, {"z": z, "n": n}, {}, _SHAPE, "shape")
    except InputError:
        if _WIDTH.search(given):
            raise
        return sympy.S.Zero


def _joined(given: object, right: sympy.Expr, left: sympy.Expr) -> sympy.Expr:
    """The function with these polynomials for z > 0 and z < 0."""
    if sympy.expand(right - left) == 0:
        return right
    if any(each.subs(z, 0) != 0 for each in (right, left)):
        raise InputError("shape", given, "one that does not jump at 0")
    return right.subs(z, sympy.Max(0, z)) + left.subs(z, sympy.Min(0, z))


def _side(expr: sympy.Expr, sign: int) -> sympy.Expr:
    """σ of z > 0, or of z < 0, through 1/n, as a polynomial in z."""
    side = expr.subs({z: sign * _SIDE, n: _EPS**-2}, simultaneous=True)
    try:
        series = sympy.expand(sympy.series(side, _EPS, 0, _ORDER + 1).removeO())
    except (NotImplementedError, ValueError):
        series = sympy.nan
    if not series.is_polynomial(_SIDE, _EPS):
        raise InputError(
            "shape", str(expr), "a series in 1/√n of polynomials in z, on each side of 0"
        )
    return sympy.expand(series.subs(_SIDE, sign * z))
