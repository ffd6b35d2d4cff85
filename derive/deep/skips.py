r"""The terms that a layer adds to G1/K and V/K² behind a skip around one matrix, z' = γz + Wσ(z).

A neuron's z' remembers its z, so that the steps of log K are not independent. With σ(cz) = cσ(z)
this memory, κ_b/K^{1+b/2} and G_b/K^{b/2} of `engine.functionals`, comes to rest as γ^{bℓ}. The
slopes of G1/K and V/K² there are g and s: s has the correlations of all steps in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import mpmath
import sympy

from ..activations.functions import Activation
from ..engine import functionals, skip_closure
from ..engine.factored import polynomial
from ..engine.scheme import Scheme
from ..engine.skips import gamma_of
from ..engine.stages import Stage
from ..engine.step import Step, through
from ..engine.tensors import named
from ..engine.variances import unbound
from ..errors import InputError
from ..symbols import C_W, C_b, K, tensor
from ..weights import WeightEnsemble

_Function: TypeAlias = Callable[..., mpmath.mpf]
_AVERAGE, _BELOW, _OWN, _MEMORY = sympy.symbols("A_b A_{b-2} X_b kappa_{b-2}")
_DIGITS = 30
_SMALLEST = 1e-20
_LARGEST = 0.999
"""The γ/√f to which the sum is added up, in 23 000 terms."""
_WANTED = f"a skip that carries at most {_LARGEST} of z: else a layer remembers all before it"


def growth_of(scheme: Scheme, factor: sympy.Expr, weight: sympy.Expr) -> tuple[sympy.Expr, ...]:
    """g and s, at C_W = `weight`, where K' = `factor` · K.

    Exact if σ² has no odd part, as of linear networks; else Σ_b over odd b, to 15 digits. Derived
    here. Raises InputError where γ^b falls too slowly.
    """
    sigma = scheme.stages[-1].sigma(0, scheme.sigma)
    made = through(named("K"), scheme).specialise(sigma)
    layer = _Skip(made, sigma, {C_W: weight, C_b: sympy.S.Zero, K: sympy.S.One}, factor)
    singles, pairs = layer.sums()
    metric = layer.moved("G1", singles) / factor
    return metric, layer.moved("V", pairs) / factor**2


@dataclass(frozen=True)
class _Skip:
    """The layer at K = 1 and at given variances."""

    step: Step
    sigma: Activation
    known: dict[sympy.Symbol, sympy.Expr]
    factor: sympy.Expr

    @property
    def gamma(self) -> sympy.Expr:
        """γ, the skip."""
        return polynomial(gamma_of(self.step.through), self._symbol)

    def moved(self, name: str, value: sympy.Expr) -> sympy.Expr:
        """G1 or V behind the layer, 0 before it, with this value of G1_s or V_s."""
        target = named(name)
        samples = (1,) * len(target.subscripts)
        terms = skip_closure.recursion_of(target, *self._open, samples)
        given = {tensor(f"{name}_s"): value, tensor(name): sympy.S.Zero}
        return sympy.expand(polynomial(terms, self._symbol).subs(self.known | given))

    def sums(self) -> tuple[sympy.Expr, sympy.Expr]:
        """G1_s and V_s at rest: Σ_b A_b X_b/b! over odd b, A_b = ⟨∂^b σ²⟩."""
        odd = _odd_part(self.sigma)
        if odd == 0:
            return sympy.S.Zero, sympy.S.Zero
        carried = self.gamma / sympy.sqrt(self.factor)
        if not (odd.is_number and carried.is_number):
            raise InputError("layer", str(self.step.layer), "numbers for its γ, C_W and slopes")
        gamma = abs(float(carried))
        if gamma > _LARGEST:
            raise InputError("layer", str(self.step.layer), _WANTED)
        with mpmath.workdps(_DIGITS):
            return self._added(mpmath.mpf(sympy.N(odd, _DIGITS)), gamma)

    def _added(self, odd: mpmath.mpf, gamma: float) -> tuple[sympy.Expr, sympy.Expr]:
        pair, single = self._rest("kappa"), self._rest("One")
        average, below, memory = odd, mpmath.mpf(0), mpmath.mpf(0)
        totals, factorial, b = [mpmath.mpf(0)] * 2, mpmath.mpf(1), 1
        while b == 1 or gamma**b > _SMALLEST:
            values = (single(b, average, below, memory), pair(b, average, below, memory))
            totals = [t + average * x / factorial for t, x in zip(totals, values, strict=True)]
            memory, below = values[1], average
            b += 2
            average *= 4 - b
            factorial *= b * (b - 1)
        first, second = (sympy.Float(str(t), 16) for t in totals)
        return first, second

    def _rest(self, kind: str) -> _Function:
        """X_b at rest, as a function of b, A_b, A_{b−2} and κ_{b−2}."""
        b, own = functionals.B, functionals.SEQUENCE[kind]
        terms = skip_closure.functional_of(kind, *self._open)
        member = functionals.member(terms, self.gamma, self._symbol, sympy.S.One)
        names = {
            functionals.Derivative(b, "s"): _AVERAGE,
            functionals.Derivative(b - 2, "s"): _BELOW,
            own[b]: _OWN,
            functionals.KAPPA[b - 2]: _MEMORY,
        }
        moved = sympy.expand(member.subs(self.known).xreplace(names))
        power = b / 2 + int(kind == "kappa")
        kept = moved.coeff(_OWN, 1)
        rest = moved.coeff(_OWN, 0) / (self.factor**power - kept)
        arguments = (b, _AVERAGE, _BELOW, _MEMORY)
        compiled: _Function = sympy.lambdify(arguments, sympy.N(rest, _DIGITS), "mpmath")
        return compiled

    @property
    def _open(self) -> tuple[tuple[Stage, ...], WeightEnsemble]:
        stage, law = unbound(self.step.through, self.step.weights)
        return (replace(stage, taps=stage.taps.constant),), law

    def _symbol(self, atom: object) -> sympy.Expr:
        found = functionals.symbol_of(atom, (1,))
        return self.step.symbol(atom) if found is None else found


def _odd_part(sigma: Activation) -> sympy.Expr:
    """⟨(σ²)'⟩ at K = 1, which the odd part of σ² alone has; A_3 is the same, and A_b = (4 − b)
    A_{b−2}: by parts 2(a² − c²)φ(0) he_{b−3}(0), with the slopes a and c."""
    down, up = sigma.slopes
    return sympy.simplify((up**2 - down**2) * sympy.sqrt(2 / sympy.pi))
