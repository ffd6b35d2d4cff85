"""The network: what every derivation, kernel and ensemble starts from, and nothing else describes.

z_i^(1) = b_i + Σ_j W_ij x_j,    z_i^(ℓ+1) = b_i + Σ_j W_ij σ(z_j^(ℓ))       (000, eq. 3.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import sympy

from .activations.functions import Activation, as_activation
from .depth.layered import criticality
from .display.objects import lines_latex
from .engine.scheme import Scheme
from .errors import InputError, listed, whole
from .layers import Layer, dense
from .layers.by_depth import ByDepth, Layers, OfFunction, as_layers
from .layers.per_layer import PerLayer, Tabulated, changes, check_sendable, normal, value_at
from .symbols import layer as _ell
from .weights import Gaussian, WeightEnsemble, as_weights

_PER_LAYER = ("C_b", "lambda_b", "lambda_W", "width_ratio")
_CORRECTIONS = ("C_W_corrections", "C_b_corrections")


class Schemes(NamedTuple):
    """Under what a network's recursions are derived, layer by layer.

    `distinct` are the schemes, and `order` has the number of the one of layers 2, 3, …
    """

    distinct: tuple[Scheme, ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A fully connected network and its initialization, without its inputs and its width.

    Arguments:
        activation: σ, from `derive.activations`, or its name, such as "gelu".
        weights: the ensemble of every layer, with its C_W, or its name, "gaussian", "orthogonal".
        first_weights: the ensemble of layer 1 where it differs (the *mixed* initialization).
        C_b: variance of the biases (eq. 3.3): a number, an expression in `symbols.ell`, the layer
            ℓ = 1, 2, …, a list of values at layers 1, 2, …, or a function of the layer.
        lambda_b, lambda_W: learning rates of biases and weights (eq. 6.3), likewise: inputs, that
            nothing here chooses (`criticality` gives C_W and C_b).
        width_ratio: n_ℓ / n for unequal widths, likewise.
        C_W_corrections, C_b_corrections: (c_1, c_2, …) in C + c_1/n + c_2/n² + … (eq. 5.28), each
            likewise.
        widths: n_0, n_1, …, n_L, all of them, in place of `width_ratio`: n is n_1, the width of the
            first hidden layer, n_0 the size of the inputs, and L the depth.
        layer: what layers 2, 3, … are, of `derive.layers`, or its text; or a sequence of those in
            turn, `layers.by_depth(…)`, or a function of ℓ. Layer 1 is z = b + W x.

    Raises InputError for a variance, rate or ratio that is negative, not finite or not real.

    A function of the layer that is more than arithmetic can be used, but not pickled.

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
    widths: Sequence[int] | None = None
    layer: Layers = field(default_factory=dense)

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", as_activation(self.activation))
        object.__setattr__(self, "weights", as_weights("weights", self.weights))
        if self.first_weights is not None:
            first = as_weights("first_weights", self.first_weights)
            object.__setattr__(self, "first_weights", first)
        object.__setattr__(self, "layer", as_layers(self.layer))
        self._check_groups()
        for name in _PER_LAYER:
            given = normal(name, getattr(self, name))
            object.__setattr__(self, name, given)
            if not callable(given):
                self._value(name, 1)
            elif isinstance(given, Tabulated):
                for layer in range(1, len(given.values) + 1):
                    self._value(name, layer)
        for name in _CORRECTIONS:
            given = getattr(self, name)
            if not isinstance(given, tuple | list):
                raise InputError(name, given, "a sequence (c_1, c_2, …)")
            object.__setattr__(self, name, tuple(normal(name, each) for each in given))
            self._corrections(name, 1)
        if self.widths is not None:
            object.__setattr__(self, "widths", _checked_widths(self.widths))
            if self.width_ratio != 1:
                raise InputError("width_ratio", self.width_ratio, "none, where widths are given")

    def _check_groups(self) -> None:
        """Raise InputError for weights that permutations alone keep, where the rest asks more."""
        first = self.first_weights
        if not self.layer.is_dense and not self.keeps_rotations:
            given = self.weights if first is None or self.weights.group != "O" else first
            wanted = f"weights whose law rotations keep, in the layer {self.layer}"
            raise InputError("weights", str(given), f"{wanted}: others are of the dense layer")
        if first is not None and first.group != "O" and self.weights.group == "O":
            wanted = "weights whose law rotations keep, where those of the other layers' is kept"
            raise InputError("first_weights", str(first), wanted)

    def __getstate__(self) -> dict[str, Any]:
        for name in _PER_LAYER:
            check_sendable(name, getattr(self, name))
        for name in _CORRECTIONS:
            for each in getattr(self, name):
                check_sendable(name, each)
        return dict(self.__dict__)

    @classmethod
    def critical(
        cls,
        activation: Activation | str,
        weights: WeightEnsemble | str = "gaussian",
        first_weights: WeightEnsemble | str | None = None,
        **others: Any,
    ) -> Network:
        """The network at the activation's critical (C_b, C_W) of `criticality`.

        Arguments:
            weights, first_weights: the ensembles, without a C_W: the critical one is theirs.
            others: the other arguments of a network; a C_b among them is kept.

        Raises:
            InputError: for an activation that has no critical point with the layer, for a layer
                that is critical for every C_W, and for an ensemble with another C_W.

        >>> print(Network.critical("relu", "orthogonal"))
        Network(relu, Orthogonal(C_W=2), C_b=0)
        """
        sigma = as_activation(activation)
        C_b, C_W = criticality(sigma, layer=others.get("layer")).critical

        def scaled(name: str, given: WeightEnsemble | str) -> WeightEnsemble:
            return as_weights(name, given).scaled_to(C_W, name)

        first = None if first_weights is None else scaled("first_weights", first_weights)
        return cls(sigma, scaled("weights", weights), first, **{"C_b": C_b, **others})

    @property
    def keeps_rotations(self) -> bool:
        """Whether rotations of the neurons keep the law of every layer, not only permutations."""
        return self.weights.group == self.weights_at(1).group == "O"

    @property
    def width(self) -> int | None:
        """n, the width of the first hidden layer, where the widths are given."""
        return None if self.widths is None else self.widths[1]

    @property
    def depth(self) -> int | None:
        """L, where the widths are given."""
        return None if self.widths is None else len(self.widths) - 1

    def check_inputs(self, n_0: int) -> None:
        """InputError for inputs of another size than n_0, where the widths are given."""
        if self.widths is not None and n_0 != self.widths[0]:
            wanted = f"{self.widths[0]}, the n_0 of the network's widths"
            raise InputError("inputs", f"{n_0} numbers each", wanted)

    @property
    def has_functions(self) -> bool:
        """Whether a quantity of its layers is a function or a list: what else it is stays as it is.

        A function may give something else each time, so that nothing is kept by such a network.
        """
        corrections = (each for name in _CORRECTIONS for each in getattr(self, name))
        quantities = (*(getattr(self, name) for name in _PER_LAYER), *corrections)
        return isinstance(self.layer, OfFunction) or any(map(callable, quantities))

    def changes(self, name: str) -> bool:
        """Whether "C_b", "lambda_b", "lambda_W" or "width_ratio" may differ between layers."""
        return changes(getattr(self, name))

    def weights_at(self, layer: int, width: int | None = None) -> WeightEnsemble:
        """The ensemble of the weights that lead into this layer, at n = width with corrections."""
        first = layer == 1 and self.first_weights is not None
        weights = self.first_weights if first and self.first_weights else self.weights
        if width is None or not self.C_W_corrections:
            return weights
        return replace(weights, C_W=weights.C_W + self._sum("C_W_corrections", layer, width))

    def C_b_at(self, layer: int, width: int | None = None) -> sympy.Expr:
        """The bias variance of this layer, at n = width with its corrections.

        Raises InputError where the corrections make it negative.
        """
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
        wanted = f"finite numbers or sympy expressions at layer {layer}"
        return [value_at(name, each, layer, wanted) for each in getattr(self, name)]

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
        """n_ℓ/n of this layer; at layer 0, the inputs, this is not asked.

        Raises InputError for a layer beyond the given widths, and for a ratio of 0.
        """
        if self.widths is not None:
            if layer >= len(self.widths):
                raise InputError("widths", self.widths, f"a width of layer {layer}")
            return sympy.Rational(self.widths[layer], self.widths[1])
        ratio = self._value("width_ratio", layer)
        if ratio.is_zero:
            raise InputError("width_ratio", ratio, "a positive ratio at every layer")
        return ratio

    def has_equal_widths(self, depth: int) -> bool:
        """Whether layers 1 … depth all have n neurons."""
        same = self.widths is None and not self.changes("width_ratio")
        layers = range(1, 2 if same else depth + 1)
        return all(self.width_ratio_at(layer) == 1 for layer in layers)

    def layer_at(self, layer: int, depth: int) -> Layer:
        """What layer 2, 3, … of a network of this depth is; InputError where there is none."""
        return self.layer.at(layer, depth)

    def scheme(self, depth: int, samples: int) -> Scheme:
        """Under what recursions are derived for so many inputs, to this depth.

        Raises InputError for layers that differ: `schemes` has one for each of them.
        """
        schemes = self.schemes(depth, samples).distinct
        if len(schemes) > 1:
            raise InputError("layer", str(self.layer), "one layer at every depth, here")
        return schemes[0]

    def schemes(self, depth: int, samples: int) -> Schemes:
        """Under what the recursions of each layer are derived, for so many inputs, to this depth.

        Raises InputError for a skip between unequal widths.
        """
        self.check_skips(depth)
        square = self.has_equal_widths(depth)

        def scheme(layer: Layer) -> Scheme:
            own = None if layer.is_dense else layer
            return Scheme(self.weights_at(2), square, self.corrections, samples == 1, own)

        if isinstance(self.layer, Layer):
            return Schemes((scheme(self.layer),), (0,) * (depth - 1))
        layers = [self.layer_at(layer, depth) for layer in range(2, depth + 1)] or [dense()]
        numbers = {layer: number for number, layer in enumerate(dict.fromkeys(layers))}
        order = tuple(numbers[layer] for layer in layers[: depth - 1])
        return Schemes(tuple(scheme(layer) for layer in numbers), order)

    def has_dropout(self, depth: int) -> bool:
        """Whether a layer of a network of this depth multiplies its neurons by masks."""
        return any(self.layer_at(at, depth).keep is not None for at in range(2, depth + 1))

    def check_skips(self, depth: int) -> None:
        """Raise InputError for a layer that adds z to what has another width."""
        if self.layer.is_dense or self.has_equal_widths(depth):
            return
        for at in range(2, depth + 1):
            before, behind = (self.width_ratio_at(each) for each in (at - 1, at))
            layer = self.layer_at(at, depth)
            if before != behind and layer.keeps_width:
                given = self._shown("width_ratio") if self.widths is None else self.widths
                wanted = (
                    f"equal widths of layers {at - 1} and {at}, around which {layer} has a skip"
                )
                raise InputError("widths", given, wanted)

    def tabulated(self, depth: int) -> Network:
        """The same network to this depth, its functions of the layer replaced by their values."""

        def values(name: str, given: PerLayer) -> PerLayer:
            if not callable(given):
                return given
            wanted = "a finite number or a sympy expression at layer"
            layers = range(1, depth + 1)
            return Tabulated(tuple(value_at(name, given, at, f"{wanted} {at}") for at in layers))

        if not self.has_functions:
            return self
        changed: dict[str, Any] = {name: values(name, getattr(self, name)) for name in _PER_LAYER}
        for name in _CORRECTIONS:
            changed[name] = tuple(values(name, each) for each in getattr(self, name))
        if isinstance(self.layer, OfFunction):
            layers = range(2, depth + 1)
            changed["layer"] = ByDepth(tuple(self.layer_at(at, depth) for at in layers))
        return replace(self, **changed)

    def _value(self, name: str, layer: int) -> sympy.Expr:
        wanted = f"a finite number, 0 or more, or a sympy expression, at layer {layer}"
        value = value_at(name, getattr(self, name), layer, wanted)
        if value.p < 0 if isinstance(value, sympy.Rational) else value.is_negative:
            raise InputError(name, value, wanted)
        return value

    def _shown(self, name: str) -> sympy.Expr | float | str:
        """A number, or a function of the layer: in l if that is what it is, else its first values.

        A function that branches on the layer need not be the expression it gives for a symbol.
        """
        given: Any = getattr(self, name)
        if not callable(given):
            return given
        if isinstance(given, Tabulated):
            return f"({', '.join(map(str, given.values))})"
        values: list[sympy.Expr] = []
        try:
            values.extend(self._value(name, layer) for layer in (1, 2, 3))
            formula = sympy.sympify(given(_ell), strict=True)
            if all(abs(formula.subs(_ell, at) - values[at - 1]) < 1e-12 for at in (1, 2, 3)):
                return formula
        except Exception:
            pass  # the user's function may raise anything on a symbol, and a repr must not
        texts = [f"{float(v):.6g}" if v.is_Float else str(v) for v in values]
        return f"({', '.join([*texts, '…'])})"

    def _changed(self) -> list[str]:
        """The fields after the bias variance that are not at their defaults."""
        found = [f"{name}={self._shown(name)}" for name in _PER_LAYER[1:] if self._shown(name) != 1]
        return (
            found
            + [
                f"{name}={tuple(map(str, self._corrections(name, 1)))}"
                for name in _CORRECTIONS
                if getattr(self, name)
            ]
            + ([] if self.widths is None else [f"widths={self.widths}"])
            + ([] if self.layer == dense() else [f"layer={self.layer}"])
        )

    def __str__(self) -> str:
        first = f", first_weights={self.first_weights}" if self.first_weights else ""
        rest = "".join(f", {each}" for each in self._changed())
        return f"Network({self.activation}, {self.weights}{first}, C_b={self._shown('C_b')}{rest})"

    def __repr__(self) -> str:
        ratio = self._shown("width_ratio")
        widths = "n at every layer" if ratio == 1 else f"n_ℓ/n = {ratio}"
        if self.widths is not None:
            widths = f"{', '.join(map(str, self.widths))}; n = {self.width}"
        lines = [
            str(self),
            f"  activation      σ(z) = {self.activation.expr}",
            f"  weights         {self.weights}, E[W_ij²] = {self.weights.C_W}/n_in",
            f"  first layer     {self.first_weights or 'the same'}",
            f"  biases          C_b = {self._shown('C_b')}",
            f"  learning rates  λ_b = {self._shown('lambda_b')}, λ_W = {self._shown('lambda_W')}",
            f"  widths          {widths}",
            *([] if self.layer == dense() else [f"  layer           {self.layer}"]),
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

        forward = r"z^{(\ell+1)} = b + W \sigma(z^{(\ell)})"
        if not self.layer.is_dense:
            forward = rf"\texttt{{{self.layer}}}".replace("_", r"\_")
        rows = [
            rf"{forward},\quad "
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


def dense_network(argument: str, given: object) -> Network:
    """The network, or an InputError: for what is none, and for layers other than the dense one."""
    if not isinstance(given, Network):
        raise InputError(argument, given, "a derive.Network")
    if not given.layer.is_dense:
        raise InputError(argument, str(given), "a network of dense layers, here")
    return given


def _checked_widths(given: Sequence[int]) -> tuple[int, ...]:
    wanted = "a list n_0, n_1, …, n_L of two or more widths, integers of 1 or more"
    widths = tuple(
        whole("widths", each, 1, wanted=wanted) for each in listed("widths", given, wanted)
    )
    if len(widths) < 2:
        raise InputError("widths", given, wanted)
    return widths
