"""Where the expansion in 1/n ends: a tensor's next order beside its first, at large depth."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from derive.activations.functions import Activation
from derive.depth.asymptotics import asymptotics
from derive.display.objects import Shown, printed
from derive.engine.step import Step, step
from derive.engine.tensors import Name, named
from derive.layers.per_layer import PerLayer
from derive.symbols import ell
from derive.weights import Gaussian, WeightEnsemble

__all__ = ["Breakdown", "breakdown"]


@dataclass(frozen=True, repr=False)
class Breakdown(Shown):
    """How a tensor's next order in 1/n grows beside it: T^{next}/T → `growth`, so growth/n at n.

    Attributes:
        growth: the leading term of the quotient, in `ell`.
    """

    growth: sympy.Expr

    @property
    def aspect_ratio(self) -> sympy.Expr:
        """L/n at which the next order is as large as the first, in deep networks: 1/|c| if
        growth = c ℓ.

        ∞ if the growth is slower than ℓ: the expansion is then valid at any depth if n ∝ L. 0 if
        it is faster: the expansion then fails at large depth even if n ∝ L.
        """
        per_layer = self.growth / ell
        if not per_layer.has(ell):
            return 1 / sympy.Abs(per_layer)
        return sympy.oo if sympy.limit(per_layer, ell, sympy.oo) == 0 else sympy.S.Zero

    def latex(self) -> str:
        """The growth, and the L/n at which it is as large as 1, in LaTeX."""
        at = rf",\quad L/n = {sympy.latex(self.aspect_ratio)}"
        return rf"T^{{\mathrm{{next}}}}/T \to {sympy.latex(self.growth)}{at}"

    def __str__(self) -> str:
        return f"next order / first → {printed(self.growth)}; L/n = {self.aspect_ratio}"


def breakdown(
    tensor: str,
    activation: Activation,
    weights: WeightEnsemble | None = None,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
) -> Breakdown:
    """At which depth a tensor's next order in 1/n, by the same engine, is as large as itself."""
    name = named(tensor)
    further = _next(name, Gaussian() if weights is None else weights)
    leading = []
    for each in (further, step(name, further.weights)):
        solved = asymptotics(each, activation, 1, lambda_b=lambda_b, lambda_W=lambda_W)
        leading.append(solved.terms[0].expr)
    return Breakdown(sympy.factor(leading[0] / leading[1]))


def _next(name: Name, weights: WeightEnsemble) -> Step:
    """The recursion of the same cumulant's coefficient at one more order in 1/n."""
    return step(list(name.fields), weights, pairing=name.pairing, order=name.order + 1)
