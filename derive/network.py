"""The network: what every derivation, kernel and ensemble starts from, and nothing else describes.

z_i^(1) = b_i + Σ_j W_ij x_j,    z_i^(ℓ+1) = b_i + Σ_j W_ij σ(z_j^(ℓ))       (000, eq. 3.1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import sympy

from .activations import Activation
from .errors import InputError
from .expressions import as_expression
from .expressions import layer as _ell
from .shown import lines_latex
from .weights import Gaussian, WeightEnsemble

PerLayer: TypeAlias = "sympy.Expr | float | Callable[[int], sympy.Expr | float]"

_PER_LAYER = ("C_b", "lambda_b", "lambda_W", "width_ratio")
_CORRECTIONS = ("C_W_corrections", "C_b_corrections")


@dataclass(frozen=True)
class Tabulated:
    """A function of the layer by its values at layers 1, 2, …: one that can be sent elsewhere."""

    values: tuple[sympy.Expr | float, ...]

    def __call__(self, layer: int) -> sympy.Expr | float:
        """The value at this layer."""
        return self.values[layer - 1]


@dataclass(frozen=True)
class Network:
    """A fully connected network and its initialization, without its inputs and its width.

    Arguments:
        activation: σ, from `derive.activations`.
        weights: the ensemble of every layer, with its C_W.
        first_weights: the ensemble of layer 1 where it differs (the *mixed* initialization).
        C_b: variance of the biases, a number or a function of the layer ℓ = 1, 2, … (eq. 3.3).
        lambda_b, lambda_W: learning rates of biases and weights (eq. 6.3), likewise: inputs, that
            nothing here chooses (`criticality` gives C_W and C_b).
        width_ratio: n_ℓ / n for unequal widths, a number or a function of the layer.
        C_W_corrections, C_b_corrections: (c_1, c_2, …) in C + c_1/n + c_2/n² + … (eq. 5.28), each a
            number or a function of the layer.

    Raises InputError for a variance, rate or ratio that is negative, not finite or not real.

    >>> from derive import Orthogonal, activations
    >>> print(Network(activations.tanh, Orthogonal(C_W=1), lambda_b=lambda layer: 1 / layer))
    Network(tanh, Orthogonal(C_W=1), C_b=0, lambda_b=1/l)
    """

    activation: Activation
    weights: WeightEnsemble = field(default_factory=Gaussian)
    first_weights: WeightEnsemble | None = None
    C_b: PerLayer = 0
    lambda_b: PerLayer = 1
    lambda_W: PerLayer = 1
    width_ratio: PerLayer = 1
    C_W_corrections: tuple[PerLayer, ...] = ()
    C_b_corrections: tuple[PerLayer, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.activation, Activation):
            raise InputError("activation", self.activation, "an activation of derive.activations")
        for name in ("weights", "first_weights"):
            value = getattr(self, name)
            if not isinstance(value, WeightEnsemble) and not (
                value is None and name == "first_weights"
            ):
                raise InputError(name, value, "a weight ensemble such as Orthogonal(C_W=1)")
        for name in _PER_LAYER:
            if not callable(getattr(self, name)):
                self._value(name, 1)
        for name in _CORRECTIONS:
            given = getattr(self, name)
            if not isinstance(given, tuple | list):
                raise InputError(name, given, "a sequence (c_1, c_2, …)")
            object.__setattr__(self, name, tuple(given))
            self._corrections(name, 1)

    def weights_at(self, layer: int, width: int | None = None) -> WeightEnsemble:
        """The ensemble of the weights that lead into this layer, at n = width with corrections."""
        first = layer == 1 and self.first_weights is not None
        weights = self.first_weights if first and self.first_weights else self.weights
        if width is None or not self.C_W_corrections:
            return weights
        return replace(weights, C_W=weights.C_W + self._sum("C_W_corrections", layer, width))

    def C_b_at(self, layer: int, width: int | None = None) -> sympy.Expr:
        """The bias variance of this layer, at n = width with its corrections."""
        leading = self._value("C_b", layer)
        if width is None:
            return leading
        total = leading + self._sum("C_b_corrections", layer, width)
        if total.is_negative:
            raise InputError("C_b_corrections", total, f"a variance of 0 or more at width {width}")
        return total

    @property
    def corrections(self) -> int:
        """How many orders in 1/n the variances have beyond the leading one."""
        return max(len(self.C_W_corrections), len(self.C_b_corrections))

    def correction_at(self, variance: str, order: int, layer: int) -> sympy.Expr:
        """c_order of "C_W" or "C_b" at this layer; 0 past those that are given."""
        found = self._corrections(f"{variance}_corrections", layer)
        return found[order - 1] if order <= len(found) else sympy.Integer(0)

    def _corrections(self, name: str, layer: int) -> list[sympy.Expr]:
        got = [each(layer) if callable(each) else each for each in getattr(self, name)]
        wanted = f"finite numbers or sympy expressions at layer {layer}"
        return [as_expression(name, each, wanted) for each in got]

    def _sum(self, name: str, layer: int, width: int) -> sympy.Expr:
        values = self._corrections(name, layer)
        return sum(value / sympy.Integer(width) ** g for g, value in enumerate(values, start=1))

    def lambda_b_at(self, layer: int) -> sympy.Expr:
        """The biases' learning rate at this layer."""
        return self._value("lambda_b", layer)

    def lambda_W_at(self, layer: int) -> sympy.Expr:
        """The weights' learning rate at this layer."""
        return self._value("lambda_W", layer)

    def width_ratio_at(self, layer: int) -> sympy.Expr:
        """n_ℓ/n of this layer; at layer 0, the inputs, this is not asked."""
        ratio = self._value("width_ratio", layer)
        if ratio.is_zero:
            raise InputError("width_ratio", ratio, "a positive ratio at every layer")
        return ratio

    def tabulated(self, depth: int) -> Network:
        """The same network to this depth, its functions of the layer replaced by their values."""

        def values(given: PerLayer) -> PerLayer:
            if not callable(given):
                return given
            return Tabulated(tuple(given(layer) for layer in range(1, depth + 1)))

        changed: dict[str, Any] = {name: values(getattr(self, name)) for name in _PER_LAYER}
        changed |= {name: tuple(map(values, getattr(self, name))) for name in _CORRECTIONS}
        return replace(self, **changed)

    def _value(self, name: str, layer: int) -> sympy.Expr:
        given = getattr(self, name)
        got = given(layer) if callable(given) else given
        wanted = f"a finite number, 0 or more, or a sympy expression, at layer {layer}"
        value = as_expression(name, got, wanted)
        if value.is_negative:
            raise InputError(name, got, wanted)
        return value

    def _shown(self, name: str) -> sympy.Expr | float | str:
        """A number, or a function of the layer: in l if that is what it is, else its first values.

        A function that branches on the layer need not be the expression it gives for a symbol.
        """
        given: Any = getattr(self, name)
        if not callable(given):
            return given
        values: list[sympy.Expr] = []
        try:
            values.extend(self._value(name, layer) for layer in (1, 2, 3))
            formula = sympy.sympify(given(_ell), strict=True)
            if all(abs(formula.subs(_ell, at) - values[at - 1]) < 1e-12 for at in (1, 2, 3)):
                return formula
        except Exception:
            pass
        texts = [f"{float(v):.6g}" if v.is_Float else str(v) for v in values]
        return f"({', '.join([*texts, '…'])})"

    def _changed(self) -> list[str]:
        """The fields after the bias variance that are not at their defaults."""
        found = [f"{name}={self._shown(name)}" for name in _PER_LAYER[1:] if self._shown(name) != 1]
        return found + [
            f"{name}={tuple(map(str, self._corrections(name, 1)))}"
            for name in _CORRECTIONS
            if getattr(self, name)
        ]

    def __str__(self) -> str:
        first = f", first_weights={self.first_weights}" if self.first_weights else ""
        rest = "".join(f", {each}" for each in self._changed())
        return f"Network({self.activation}, {self.weights}{first}, C_b={self._shown('C_b')}{rest})"

    def __repr__(self) -> str:
        widths = self._shown("width_ratio")
        lines = [
            str(self),
            f"  activation      σ(z) = {self.activation.expr}",
            f"  weights         {self.weights}, E[W_ij²] = {self.weights.C_W}/n_in",
            f"  first layer     {self.first_weights or 'the same'}",
            f"  biases          C_b = {self._shown('C_b')}",
            f"  learning rates  λ_b = {self._shown('lambda_b')}, λ_W = {self._shown('lambda_W')}",
            f"  widths          {'n at every layer' if widths == 1 else f'n_ℓ/n = {widths}'}",
        ]
        for name in _CORRECTIONS:
            if getattr(self, name):
                variance = name.removesuffix("_corrections")
                values = ", ".join(map(str, self._corrections(name, 1)))
                lines.append(f"  {variance} at 1/n, …   {values} (layer 1)")
        return "\n".join(lines)

    def latex(self) -> str:
        """The forward equation with the ensembles and variances in LaTeX."""

        def shown(name: str) -> str:
            value = self._shown(name)
            if isinstance(value, str):
                return value.replace("…", r"\ldots")
            return str(sympy.latex(value, symbol_names={_ell: r"\ell"}))

        rows = [
            r"z^{(\ell+1)} = b + W \sigma(z^{(\ell)}),\quad "
            rf"\sigma(z) = {sympy.latex(self.activation.expr)}",
            self.weights.latex(),
            rf"C_b = {shown('C_b')},\; \lambda_b = {shown('lambda_b')},\; "
            rf"\lambda_W = {shown('lambda_W')},\; n_\ell/n = {shown('width_ratio')}",
        ]
        if self.first_weights is not None:
            rows.insert(2, rf"\text{{layer 1: }} {self.first_weights.latex()}")
        return lines_latex(rows)

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"
