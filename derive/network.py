"""The network: what every derivation, kernel and ensemble starts from, and nothing else describes.

z_i^(1) = b_i + Σ_j W_ij x_j,    z_i^(ℓ+1) = b_i + Σ_j W_ij σ(z_j^(ℓ))       (000, eq. 3.1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import sympy

from .activations.functions import Activation, as_activation
from .depth.criticality import criticality
from .display.objects import lines_latex, readable
from .engine.scheme import Scheme
from .engine.stages import STEM, Stage
from .errors import InputError, as_integer, as_sequence
from .expressions import as_expression, as_text
from .layers import Layer, dense
from .layers.along import Along
from .layers.by_depth import ByDepth, Given, Layers, as_layers, as_period
from .layers.chain import Activations, BoundStage, GivenActivations, GivenLaws, Laws, law_of
from .layers.per_layer import PerLayer, Tabulated, changes, check_sendable, normal, value_at
from .symbols import layer as _ell
from .weights import WeightEnsemble, as_weights

_PER_LAYER = ("C_b", "lambda_b", "lambda_W", "width_ratio")
_CORRECTIONS = ("C_W_corrections", "C_b_corrections")


class Schemes(NamedTuple):
    """Under what a network's recursions are derived, layer by layer.

    `distinct` are the schemes, and `order` has the number of the one of layers 2, 3, …
    """

    distinct: tuple[Scheme, ...]
    order: tuple[int, ...]


class Pattern(NamedTuple):
    """Under what the recursions of a network of any depth are derived.

    `distinct` are the schemes. `stem` and `head` have the numbers of those of the first layers
    (behind layer 1) and of the last, and `block` of those that repeat in between.
    """

    distinct: tuple[Scheme, ...]
    stem: tuple[int, ...]
    block: tuple[int, ...]
    head: tuple[int, ...]

    @property
    def once(self) -> tuple[int, ...]:
        """The numbers of layers 2, 3, … of the shortest network, which has the block once."""
        return (*self.stem, *self.block, *self.head)

    @property
    def ends(self) -> tuple[tuple[Scheme, ...], tuple[Scheme, ...]]:
        """The schemes of the first layers, and of the last."""
        first, last = (tuple(map(self.distinct.__getitem__, end)) for end in (self.stem, self.head))
        return first, last

    def read_out(self) -> Pattern:
        """The same with the readout of the last layer, if it has one, in its place."""
        last = self.head[-1:] or self.block
        readouts = dict.fromkeys(each for k in last for each in self.distinct[k].readouts)
        if len(readouts) > 1:
            got = ", ".join(str(self.distinct[k].layer) for k in last)
            raise InputError("layer", got, "an entry for the last layer, which is read out")
        head = (*self.head[:-1], len(self.distinct)) if readouts else self.head
        return self._replace(distinct=(*self.distinct, *readouts), head=head)


@dataclass(frozen=True, init=False)
class Network:
    """A fully connected network and its initialization, without its inputs and its width.

    Arguments:
        activation: σ, from `derive.activations`, or its name, such as "gelu"; or one for each
            layer: a sequence, text such as "tanh; gelu*; linear", or a function of ℓ. The first
            acts on z^(1).
        weights: the ensemble of every layer, with its C_W, or its name, "gaussian", "orthogonal";
            or one for each layer in the same ways, "gaussian; orthogonal*". The first is the law
            of W^(1).
        first_weights: the ensemble of layer 1 where it alone differs (the *mixed* initialization),
            another spelling of `weights=[first, others]`; by its name it has the C_W of `weights`.
        C_W: n_in E[W_ij²] of weights that are left out or given by names, 1 by default.
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

    Raises InputError for a variance, rate or ratio that is negative, not finite or not real, and
    for a C_W other than that of given weights.

    A function of the layer that is more than arithmetic can be used, but not pickled.

    >>> from derive import Orthogonal, activations
    >>> print(Network(activations.tanh, Orthogonal(C_W=1), lambda_b=lambda layer: 1 / layer))
    Network(tanh, Orthogonal(C_W=1), C_b=0, lambda_b=1/l)
    """

    activation: Activation | Activations
    weights: WeightEnsemble | Laws
    first_weights: WeightEnsemble | None
    C_b: PerLayer
    lambda_b: PerLayer
    lambda_W: PerLayer
    width_ratio: PerLayer
    C_W_corrections: tuple[PerLayer, ...]
    C_b_corrections: tuple[PerLayer, ...]
    widths: Sequence[int] | None
    layer: Layers

    def __init__(
        self,
        activation: GivenActivations,
        weights: GivenLaws = "gaussian",
        first_weights: WeightEnsemble | str | None = None,
        C_b: PerLayer = 0,
        lambda_b: PerLayer = 1,
        lambda_W: PerLayer = 1,
        width_ratio: PerLayer = 1,
        C_W_corrections: Sequence[PerLayer] = (),
        C_b_corrections: Sequence[PerLayer] = (),
        widths: Sequence[int] | None = None,
        layer: Given = "dense",
        *,
        C_W: sympy.Expr | float | str | None = None,
    ) -> None:
        first, laws = _laws(weights, first_weights, C_W)
        given = {
            "activation": Activations.given(activation),
            "weights": laws,
            "first_weights": first,
            "C_b": C_b,
            "lambda_b": lambda_b,
            "lambda_W": lambda_W,
            "width_ratio": width_ratio,
            "C_W_corrections": C_W_corrections,
            "C_b_corrections": C_b_corrections,
            "widths": widths,
            "layer": as_layers(layer),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Bring the quantities of the layers to one form; InputError for those that have none."""
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
            weights, first_weights: the ensembles, without a C_W; they get the critical one.
            others: the other arguments of a network; a C_b among them is kept. Of several layers
                those that are repeated, as in "dense; (residual; gated)*", are critical.

        Raises:
            InputError: if the activation has no critical point with the layer, if every C_W is
                critical, if no layer is repeated, and if an ensemble has another C_W.

        >>> print(Network.critical("relu", "orthogonal"))
        Network(relu, Orthogonal(C_W=2), C_b=0)
        """
        sigma = as_activation(activation)
        period = as_period(as_layers(others.get("layer", "dense")))
        C_b, C_W = criticality(sigma, layer=period).critical

        def scaled(name: str, given: WeightEnsemble | str) -> WeightEnsemble:
            return as_weights(name, given).scaled_to(C_W, name)

        first = None if first_weights is None else scaled("first_weights", first_weights)
        return cls(sigma, scaled("weights", weights), first, **{"C_b": C_b, **others})

    @property
    def keeps_rotations(self) -> bool:
        """True if rotations of the neurons keep the law of every layer, not only permutations."""
        return self.group == "O"

    @property
    def group(self) -> str:
        """The group that keeps every layer's law: rotations "O", or signed permutations "B"."""
        within = self.layer.entries if isinstance(self.layer, ByDepth) else (self.layer,)
        own = [law for layer in within for _, law in layer.laws]
        if self.laws.function is not None:
            wanted = "laws by name; for a function of the layer call `net.tabulated(depth)` first"
            raise InputError("weights", str(self.weights), wanted)
        return "O" if all(law.group == "O" for law in (*self.laws.entries, *own)) else "B"

    @property
    def _first(self) -> tuple[WeightEnsemble, ...]:
        """The law of layer 1, if it alone differs."""
        return tuple(filter(None, (self.first_weights,)))

    @cached_property
    def laws(self) -> Laws:
        """The laws of all layers, the first included."""
        given = self.weights
        return given if isinstance(given, Laws) else Laws(self._first, (given,))

    @property
    def width(self) -> int | None:
        """n, the width of the first hidden layer, where the widths are given."""
        return None if self.widths is None else self.widths[1]

    @property
    def depth(self) -> int | None:
        """L if the widths, or all layers, activations or laws, are listed; else None."""
        if self.widths is not None:
            return len(self.widths) - 1
        along = (self.layer, self.activation, self.weights)
        named = (each.depth for each in along if isinstance(each, Along))
        return min((depth for depth in named if depth is not None), default=None)

    def check_inputs(self, n_0: int) -> None:
        """InputError for inputs of another size than n_0, where the widths are given."""
        if self.widths is not None and n_0 != self.widths[0]:
            wanted = f"{self.widths[0]}, the n_0 of the network's widths"
            raise InputError("inputs", f"{n_0} numbers each", wanted)

    @property
    def has_functions(self) -> bool:
        """True if a quantity of its layers is a function or a list: what else it is stays as it is.

        A function may give something else each time, so that nothing is kept by such a network.
        """
        corrections = (each for name in _CORRECTIONS for each in getattr(self, name))
        quantities = (*(getattr(self, name) for name in _PER_LAYER), *corrections)
        along = (self.layer, self.activation, self.weights)
        return any(isinstance(each, Along) and each.function for each in along) or any(
            map(callable, quantities)
        )

    def changes(self, name: str) -> bool:
        """True if "C_b", "lambda_b", "lambda_W" or "width_ratio" may differ between layers."""
        return changes(getattr(self, name))

    def activation_at(self, layer: int, depth: int | None = None) -> Activation:
        """The activation that acts on z of this layer, in a network of this depth.

        Raises InputError if there is none.
        """
        given = self.activation
        if isinstance(given, Activation):
            return given
        return given.at(layer, self._depth(given, layer + 1, depth))

    def weights_at(
        self, layer: int, width: int | None = None, depth: int | None = None
    ) -> WeightEnsemble:
        """The ensemble of the weights that lead into this layer, at n = width with corrections.

        Arguments:
            depth: of the network; needed if its last layers have laws of their own.
        """
        law = self.laws.at(layer, self._depth(self.laws, layer, depth))
        if width is None or not self.C_W_corrections:
            return law
        return replace(law, C_W=law.C_W + self._sum("C_W_corrections", layer, width))

    def _depth(self, given: Along[Any], least: int, depth: int | None) -> int:
        """The depth, or any depth if the result does not depend on it."""
        known = self.depth if depth is None else depth
        if known is None and given.head:
            raise InputError("depth", None, f"the depth of a network with {given}")
        return max(least, len(given.entries)) if known is None else known

    def activations_to(self, depth: int) -> tuple[Activation, ...]:
        """Every σ of a network of this depth, those of its layers' own too, each once."""
        found = (sigma for bound in self.chain(depth) for sigma in bound.activations)
        return tuple(dict.fromkeys(found))

    def one_activation(self, function: str) -> Activation:
        """The activation of all layers; InputError if they differ.

        Arguments:
            function: the name of what needs one.
        """
        if isinstance(self.activation, Activation):
            return self.activation
        wanted = f"one activation for all layers, for {function}"
        raise InputError("activation", str(self.activation), wanted)

    def one_law(self, function: str) -> WeightEnsemble:
        """The law of all layers behind the first; InputError if they differ.

        Arguments:
            function: the name of what needs one.
        """
        given = self.weights
        if isinstance(given, WeightEnsemble):
            return given
        wanted = f"one law for all layers behind the first, for {function}"
        raise InputError("weights", str(given), wanted)

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
        """True if layers 1 … depth all have n neurons."""
        same = self.widths is None and not self.changes("width_ratio")
        layers = range(1, 2 if same else depth + 1)
        return all(self.width_ratio_at(layer) == 1 for layer in layers)

    def _is_square_at(self, layer: int, own: Layer, law: WeightEnsemble) -> bool:
        """True if a layer has the recursions of equal widths: it reads n neurons and has n, or
        fewer where its matrices' rows are those of square ones."""
        before, behind = (self.width_ratio_at(at) for at in (layer - 1, layer))
        matrices = (each.law or law for stage in own.stages for each in stage.matrices)
        cut = all(each.has_rows_of_square for each in matrices)
        return bool(before == 1 and (behind == 1 or (cut and (1 - behind).is_positive)))

    def layer_at(self, layer: int, depth: int) -> Layer:
        """Layer 2, 3, … of a network of this depth; InputError where there is none."""
        return self.layer.at(layer, depth)

    def stages_at(self, layer: int, depth: int) -> tuple[Stage, ...]:
        """The stages of a layer in a network of this depth; layer 1 is z = b + W x."""
        return (STEM,) if layer == 1 else self.layer_at(layer, depth).stages

    def read_at(self, layer: int, depth: int) -> tuple[Stage, ...]:
        """The stages of a layer if measured: those of its readout if it has one, else its own."""
        own = self.layer if layer == 1 else self.layer_at(layer, depth)
        for read in own.readouts:
            return (replace(STEM, taps=read.stages[-1].taps),) if layer == 1 else read.stages
        return self.stages_at(layer, depth)

    def chain(self, depth: int, width: int | None = None) -> tuple[BoundStage, ...]:
        """The stages of layers 1 … depth, with their laws, activations, variances and rates.

        The last stages are those of a readout, if the last layer has one.

        Arguments:
            width: n, for the corrections of C_W and C_b.

        Raises InputError if the depth is too small for the given layers, and as `schemes` does.

        >>> chain = Network("tanh", layer="residual(norm=rms)").chain(2)
        >>> [(bound.layer, len(bound.weights), bound.ends_layer) for bound in chain]
        [(1, 1, True), (2, 0, False), (2, 1, False), (2, 1, True)]
        """
        self.check_skips(depth)
        found = []
        for layer in range(1, depth + 1):
            stages = (self.read_at if layer == depth else self.stages_at)(layer, depth)
            law = self.weights_at(layer, width, depth)
            numbers = self.C_b_at(layer, width), self.lambda_b_at(layer), self.lambda_W_at(layer)
            for number, stage in enumerate(stages, start=1):
                sigmas = tuple(
                    stage.sigma(k, self.activation_at(layer - 1, depth))
                    for k in range(len(stage.arguments))
                )
                laws = tuple(law_of(matrix, law) for matrix in stage.matrices)
                ends = number == len(stages)
                found.append(BoundStage(layer, stage, laws, sigmas, *numbers, ends))
        return tuple(found)

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
        equal, group = self.has_equal_widths(depth), self.tabulated(depth).group

        def scheme(layer: int) -> Scheme:
            own, law = (
                self.layer_at(layer, depth),
                self.weights_at(layer, depth=depth).unit_variance,
            )
            return Scheme(
                law,
                equal or (not self.is_uniform and self._is_square_at(layer, own, law)),
                self.corrections,
                samples == 1,
                own.staged,
                self.activation_at(layer - 1, depth),
                group,
            )

        if self.is_uniform:
            return Schemes((scheme(2),), (0,) * (depth - 1))
        schemes = [scheme(layer) for layer in range(2, max(depth, 2) + 1)]
        numbers = {each: number for number, each in enumerate(dict.fromkeys(schemes))}
        order = tuple(numbers[each] for each in schemes[: depth - 1])
        return Schemes(tuple(numbers), order)

    def pattern(self, samples: int) -> Pattern:
        """The schemes of the first layers, of those that repeat, and of the last ones.

        Raises InputError for layers, activations or laws none of which repeats.
        """
        given = (self.layer, self.activation, self.weights)
        along = [each for each in given if isinstance(each, Along)]
        stem = max(0, *(len(each.stem) + each.first + each.spared - 2 for each in along), 0)
        head = max((len(each.head) for each in along), default=0)
        for each in along:
            if not each.block:
                wanted = f"one that repeats at any depth, such as {each.example!r}"
                raise InputError(each.argument, str(each), wanted)
            if len(each.block) > 1 and len(each.head) < head:
                wanted = f"an entry for each of the {head} last layers, as several repeat"
                raise InputError(each.argument, str(each), wanted)
        behind = stem + lcm(*(len(each.block) for each in along))
        distinct, order = self.schemes(1 + behind + head, samples)
        return Pattern(distinct, order[:stem], order[stem:behind], order[behind:])

    @property
    def is_uniform(self) -> bool:
        """True if layers 2, 3, … differ at most in their variances and rates."""
        kinds = (self.activation, Activation), (self.weights, WeightEnsemble), (self.layer, Layer)
        return all(isinstance(given, kind) for given, kind in kinds)

    def has_dropout(self, depth: int) -> bool:
        """True if a layer of a network of this depth multiplies its neurons by masks."""
        return any(self.layer_at(at, depth).keep for at in range(2, depth + 1))

    def check_skips(self, depth: int) -> None:
        """Raise InputError for a layer that adds z to what has another width."""
        if self.has_equal_widths(depth):
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
        for name in ("layer", "activation", "weights"):
            given = getattr(self, name)
            if isinstance(given, Along):
                changed[name] = given.tabulated(depth)
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
        first = "".join(f", first_weights={law}" for law in self._first)
        rest = "".join(f", {each}" for each in self._changed())
        return f"Network({self.activation}, {self.weights}{first}, C_b={self._shown('C_b')}{rest})"

    def __repr__(self) -> str:
        ratio = self._shown("width_ratio")
        widths = "n at every layer" if ratio == 1 else f"n_ℓ/n = {ratio}"
        if self.widths is not None:
            widths = f"{', '.join(map(str, self.widths))}; n = {self.width}"
        lines = [
            str(self),
            f"  activation      {self._forward()}",
            *self._shown_laws(),
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

    def _forward(self) -> str:
        """The equation of the activation, or the names of several."""
        given = self.activation
        return f"σ(z) = {readable(given.expr)}" if isinstance(given, Activation) else str(given)

    def _shown_laws(self) -> list[str]:
        law = self.weights
        if isinstance(law, Laws):
            return [f"  weights         {law}, E[W_ij²] = C_W/n_in"]
        return [
            f"  weights         {law}, E[W_ij²] = {as_text(law.C_W)}/n_in",
            f"  first layer     {next(iter(self._first), 'the same')}",
        ]

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
        sigma = rf"\sigma \in \text{{{self.activation}}}"
        if isinstance(self.activation, Activation):
            sigma = rf"\sigma(z) = {sympy.latex(readable(self.activation.expr))}"
        laws = self.weights
        rows = [
            rf"{forward},\quad {sigma}",
            laws.latex() if isinstance(laws, WeightEnsemble) else rf"W \in \text{{{laws}}}",
            rf"C_b = {shown('C_b')},\; \lambda_b = {shown('lambda_b')},\; "
            rf"\lambda_W = {shown('lambda_W')},\; n_\ell/n = {shown('width_ratio')}",
        ]
        rows[2:2] = (rf"\text{{layer 1: }} {law.latex()}" for law in self._first)
        return lines_latex(rows)

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"


def _laws(
    given: GivenLaws, first: WeightEnsemble | str | None, C_W: sympy.Expr | float | str | None
) -> tuple[WeightEnsemble | None, WeightEnsemble | Laws]:
    """The law of layer 1 if only it differs, and the others. Laws given by name get C_W."""

    def one(law: object) -> WeightEnsemble:
        return as_weights("weights", law, C_W)

    laws: WeightEnsemble | Laws = Laws.given(given, one)
    if C_W is not None and isinstance(laws, Laws) and laws.function is not None:
        raise InputError("C_W", C_W, "none, where `weights` is a function: its laws have their own")
    entries = laws.entries if isinstance(laws, Laws) else (laws,)
    wrong = [law for law in entries if C_W is not None and as_expression("C_W", C_W, "") != law.C_W]
    if wrong:
        wanted = f"{wrong[0].C_W}, as in weights={wrong[0]}, or weights with this C_W"
        raise InputError("C_W", C_W, wanted)
    if first is None:
        if isinstance(laws, Laws) and laws.has_first_alone:
            return laws.stem[0], laws.block[0]
        return None, laws
    if isinstance(laws, Laws):
        wanted = "none, as in replace(net, weights=…, first_weights=None): `weights` has layer 1"
        raise InputError("first_weights", str(first), wanted)
    return as_weights("first_weights", first, laws.C_W), laws


def dense_network(argument: str, given: object, depth: int | None = None) -> Network:
    """The network with the laws and activations of its dense layers as its own.

    Arguments:
        depth: to which it is needed; without one, no layer may have laws or activations of its own.

    Raises InputError for what is no network, and for layers other than the dense one.
    """
    if not isinstance(given, Network):
        raise InputError(argument, given, "a derive.Network")
    if given.layer.is_dense:
        return given
    opened = depth is not None and not given.corrections
    chain = given.chain(max(depth or 0, 2)) if opened else ()
    if len(chain) != max(depth or 0, 2) or not all(
        bound.stage.has_dense_equation for bound in chain[1:]
    ):
        raise InputError(argument, str(given), "a network of dense layers, here")
    laws = Laws(tuple(bound.weights[0] for bound in chain))
    sigmas = Activations(tuple(bound.activations[0] for bound in chain[1:]))
    return replace(given, activation=sigmas, weights=laws, first_weights=None, layer=dense())


def _checked_widths(given: Sequence[int]) -> tuple[int, ...]:
    wanted = "a list n_0, n_1, …, n_L of two or more widths, integers of 1 or more"
    widths = tuple(
        as_integer("widths", each, 1, wanted=wanted)
        for each in as_sequence("widths", given, wanted)
    )
    if len(widths) < 2:
        raise InputError("widths", given, wanted)
    return widths
