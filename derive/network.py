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
        lambda_b, lambda_W: learning rates of biases and weights (eq. 6.3), likewise.
        width_ratio: n_ℓ / n for unequal widths, a number or a function of the layer.
        C_W_corrections, C_b_corrections: (c_1, c_2, …) in C + c_1/n + c_2/n² + … (eq. 5.28), each a
            number or a function of the layer.
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
        try:
            values = [sympy.sympify(each, strict=True) for each in got]
        except sympy.SympifyError:
            raise InputError(name, got, "numbers or sympy expressions") from None
        if any(value.is_number and not (value.is_real and value.is_finite) for value in values):
            raise InputError(name, got, f"real numbers at layer {layer}")
        return values

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
        try:
            value = sympy.sympify(got, strict=True)
        except sympy.SympifyError:
            raise InputError(name, got, "a number or a sympy expression") from None
        if (value.is_number and not (value.is_real and value.is_finite)) or value.is_negative:
            raise InputError(name, got, f"a real number, 0 or more, at layer {layer}")
        return value

    def __str__(self) -> str:
        first = f", first_weights={self.first_weights}" if self.first_weights else ""
        return f"Network({self.activation}, {self.weights}{first}, C_b={self.C_b})"
