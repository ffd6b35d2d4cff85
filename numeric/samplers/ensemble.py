"""The checked description of an ensemble of networks, for samplers.

The activation is compiled here, once for each: the one kernel that differs between ensembles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from derive.activations import Activation
from derive.arithmetic.parameters import Value
from derive.engine.atoms import read
from derive.engine.stages import DENSE, STEM, Equation, Matrix, Stage
from derive.engine.trees import ABOVE, STREAM
from derive.errors import InputError, as_integer
from derive.layers.chain import law_of
from derive.network import Network
from derive.weights import WeightEnsemble
from derive.work.caches import cache
from derive.work.resources import check_memory, number

from .. import checks
from ..arrays import Array
from ..checks import Inputs, checked_inputs
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from ..estimators.sums import Sum
from ..hyperparameters import hyperparameters
from ..random import lazy, philox
from ..runs.directory import digest

_ACTIVATION = '''\
{sigma}

@entry
def activate(Z):
    """Z ← σ(Z), in place, for Z (draws, m, n)."""
    for s in range(Z.shape[0]):
        flat = Z[s].reshape(-1)
        for i in range(flat.size):
            flat[i] = sigma(flat[i])[0]


@entry
def differentiate(Z, out):
    """The derivatives of σ at the first rows of Z (draws, rows, n): out (draws, orders, m, n)."""
    for s in range(out.shape[0]):
        for a in range(out.shape[2]):
            for i in range(out.shape[3]):
                values = sigma(Z[s, a, i])
{stores}
'''


STAGES, MASKS, PERMUTATIONS, BATCHES = "stages", "masks", "permutations", "batches"
"""Features that samplers may support: layers of any stages; dropout; laws that permutations alone
keep; functions of all samples at a neuron."""


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of a network at these widths: the same for all inputs and all seeds.

    Arguments:
        net: the network, its functions of the layer tabulated.
        width: n, the reference width.
        widths: n_0, n_1, …, n_depth.
    """

    net: Network
    width: int
    widths: tuple[int, ...]

    @cached_property
    def depth(self) -> int:
        """The number of layers of preactivations."""
        return len(self.widths) - 1

    def weights_at(self, layer: int) -> WeightEnsemble:
        """The ensemble of this layer's weights at this width, corrections of C_W included."""
        return self.net.weights_at(layer, self.width, self.depth)

    @cached_property
    def C_W(self) -> Array:
        """The weight variance of layers 1 … depth."""
        return self._numbers("C_W", lambda layer: self.weights_at(layer).C_W)

    @cached_property
    def C_b(self) -> Array:
        """The bias variance of layers 1 … depth."""
        return self._numbers("C_b", lambda layer: self.net.C_b_at(layer, self.width))

    @cached_property
    def lambda_b(self) -> Array:
        """The biases' learning rate at layers 1 … depth."""
        return self._numbers("lambda_b", self.net.lambda_b_at)

    @cached_property
    def lambda_W(self) -> Array:
        """The weights' learning rate at layers 1 … depth."""
        return self._numbers("lambda_W", self.net.lambda_W_at)

    @cached_property
    def symbols(self) -> dict[str, Array]:
        """The values of the engine's symbols at layers 1 … depth."""
        return hyperparameters(self.net, self.depth, self.widths[0], self.width)

    @cached_property
    def steps(self) -> tuple[tuple[lazy.Step, ...], ...]:
        """The factors of the weight matrices of layers 1 … depth."""
        sizes = zip(self.widths, self.widths[1:], strict=False)
        return tuple(
            tuple(lazy.steps(self.weights_at(layer), n_in, n_out))
            for layer, (n_in, n_out) in enumerate(sizes, 1)
        )

    @cached_property
    def stages(self) -> frozenset[Stage]:
        """All that layers are made of, each once, but for a readout."""
        distinct = self.net.schemes(self.depth, 1).distinct
        return frozenset(stage for scheme in distinct for stage in scheme.stages)

    @cached_property
    def needs(self) -> dict[str, str]:
        """The features that a sampler must support, and where the network has them: all but one
        matrix of a law that rotations keep, between two activations."""
        stages = self.stages.union(self.net.read_at(self.depth, self.depth))
        own = f"the layer {self.net.layer}"
        features = (
            (STAGES, own, any(replace(stage, masks=()) not in (DENSE, STEM) for stage in stages)),
            (MASKS, "layers with dropout", any(stage.masks for stage in stages)),
            (BATCHES, own, any(stage.batch for stage in stages)),
            (PERMUTATIONS, f"the weights {self.net.weights}", self.net.group != "O"),
        )
        return {need: where for need, where, has_it in features if has_it}

    def _numbers(self, name: str, value: Callable[[int], sympy.Expr]) -> Array:
        try:
            return np.array([float(value(layer)) for layer in range(1, self.depth + 1)])
        except TypeError:
            raise InputError(name, str(value(1)), "a number at every layer, not a symbol") from None


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of given widths on given inputs: what a sampler needs, all of it checked.

    Arguments:
        layers: the network's, its functions of the layer tabulated, so that it can be pickled.
        data: the inputs, that know whether they were one vector.
        seed: the seed of all streams.
        own: the symbols of the user's equations, each with its values at layers 1 … depth.
    """

    layers: Layers
    data: Inputs
    seed: int
    own: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def net(self) -> Network:
        """The network."""
        return self.layers.net

    @property
    def width(self) -> int:
        """n, the reference width."""
        return self.layers.width

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n_0, n_1, …, n_depth."""
        return self.layers.widths

    @property
    def inputs(self) -> Array:
        """(m, n_0)."""
        return self.data.X

    @cached_property
    def depth(self) -> int:
        """The number of layers of preactivations."""
        return len(self.widths) - 1

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """The key of the random numbers: ensembles of different width are independent."""
        return philox.stream_key(self.seed, self.width)

    def weights_at(self, layer: int) -> WeightEnsemble:
        """The ensemble of this layer's weights at this width, corrections of C_W included."""
        return self.layers.weights_at(layer)

    def biases_of(self, layer: int, equation: Equation) -> tuple[float, float] | None:
        """The variance and the learning rate of an equation's biases; None if it has none."""
        if not equation.bias:
            return None
        C_b, own = float(self.C_b[layer - 1]), equation.variance
        return number_at({"C_b": C_b}, own), float(self.lambda_b[layer - 1])

    def generators(self, draws: NDArray[np.int64], stream: int = 0) -> list[np.random.Generator]:
        """The generator of random numbers of each network, for one of several streams."""
        k0, k1 = (int(word) for word in self.key)
        counters = ((draw << 128) + (stream << 64) for draw in draws.tolist())
        made = (np.random.Philox(key=k0 + (k1 << 32), counter=each) for each in counters)
        return list(map(np.random.Generator, made))

    def masked(self, sigma: Array, layer: int, streams: Sequence[np.random.Generator]) -> None:
        """σ ← μσ/p in place, σ (draws, …, m, n), where dropout stands before this layer's weights.

        Raises InputError for a p that is a symbol.
        """
        keep = self.net.layer_at(layer, self.depth).stages[-1].keep if layer > 1 else None
        if keep is not None:
            masked(sigma, keep, streams)

    @property
    def C_W(self) -> Array:
        """The weight variance of layers 1 … depth."""
        return self.layers.C_W

    @property
    def C_b(self) -> Array:
        """The bias variance of layers 1 … depth."""
        return self.layers.C_b

    @property
    def lambda_b(self) -> Array:
        """The biases' learning rate at layers 1 … depth."""
        return self.layers.lambda_b

    @property
    def lambda_W(self) -> Array:
        """The weights' learning rate at layers 1 … depth."""
        return self.layers.lambda_W

    @property
    def symbols(self) -> dict[str, Array]:
        """The values of all symbols of forward equations at layers 1 … depth."""
        return self.layers.symbols | {name: np.array(values) for name, values in self.own}

    def symbols_at(self, layer: int) -> dict[str, float]:
        """The same at one layer."""
        return {name: float(column[layer - 1]) for name, column in self.symbols.items()}

    @property
    def steps(self) -> tuple[tuple[lazy.Step, ...], ...]:
        """The factors of the weight matrices of layers 1 … depth."""
        return self.layers.steps

    def stages_at(self, layer: int) -> tuple[Stage, ...]:
        """The stages of a layer: the first is a stem, then come the network's layers."""
        return self.net.stages_at(layer, self.depth)

    def read_at(self, layer: int) -> tuple[Stage, ...]:
        """The stages of a layer if measured: those of its readout if it has one, else its own."""
        return self.net.read_at(layer, self.depth)

    def neurons(self, layer: int, stage: Stage, space: str) -> int:
        """How many indices a space has after this layer's matrices.

        Raises InputError for a ratio that gives no whole number.
        """
        if space in {STREAM.space, ABOVE}:
            return self.widths[layer - (space == STREAM.space)]
        ratio = dict(stage.ratios).get(space, Value(sympy.Integer(1)))
        n = number_of(ratio) * self.width
        if not math.isclose(n, round(n), rel_tol=1e-12) or round(n) < 1:
            raise InputError("ratio", ratio.expr, f"a whole part of the width {self.width}")
        return round(n)

    def ensemble_of(self, layer: int, matrix: Matrix) -> WeightEnsemble:
        """The ensemble of a matrix: the network's, with the matrix's own variance, if any."""
        return law_of(matrix, self.weights_at(layer))

    def sum_of(
        self,
        layer: int,
        stage: Stage,
        n_in: Mapping[int, int],
        *,
        carried: bool,
        biases: tuple[float, float] | None,
    ) -> Sum:
        """The terms that z of a layer is the sum of: matrices, on so many neurons each."""
        return Sum(
            self.widths[layer],
            tuple((self.ensemble_of(layer, stage.matrix(k)), n) for k, n in n_in.items()),
            carried,
            biases,
            float(self.lambda_W[layer - 1]),
            self.net.group,
        )

    def manifest(self) -> dict[str, Any]:
        """The data that identify an ensemble: numbers, texts and lists."""
        weights = [repr(self.weights_at(layer)) for layer in range(1, self.depth + 1)]
        return {
            "activation": [sympy.srepr(each.expr) for each in self.activations],
            "weights": weights,
            "C_W": self.C_W.tolist(),
            "C_b": self.C_b.tolist(),
            "lambda_W": self.lambda_W.tolist(),
            "lambda_b": self.lambda_b.tolist(),
            "inputs": f"{self.inputs.shape} {digest(self.inputs)}",
            "width": self.width,
            "widths": list(self.widths),
            "depth": self.depth,
            "seed": self.seed,
            "parameters": {name: list(values) for name, values in self.own},
            "layer": repr(self.net.layer),
            "layers": self._layers_written(),
        }

    def _layers_written(self) -> list[str]:
        """Layers 2, 3, … as text: two may have one name."""
        layers = [self.net.layer_at(layer, self.depth) for layer in range(2, self.depth + 1)]
        return [f"{each.identity} * {len(list(same))}" for each, same in groupby(layers)]

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """The activations of layers 1 … depth − 1."""
        net, depth = self.net, self.depth
        return tuple(net.activation_at(at, depth) for at in range(1, depth))

    def activation_at(self, layer: int) -> Activation:
        """The activation that acts on z of this layer."""
        return self.activations[layer - 1]

    def sigma_of(self, layer: int, stage: Stage, argument: int) -> Activation:
        """The activation of one argument of a stage on the way to this layer."""
        return stage.sigma(argument, self.activation_at(layer - 1))

    def activation(self, layer: int, orders: int = 1) -> ModuleType:
        """Compiled `activate` and `differentiate` for σ of this layer and its derivatives below
        this order."""
        return compiled_activation(self.activation_at(layer), orders)

    def at_inputs(self, orders: int) -> Array:
        """The derivatives of σ at layer 0, (orders, m, n_0): it is the identity there."""
        found = np.zeros((orders, *self.inputs.shape))
        found[0] = self.inputs
        found[1:2] = 1.0
        return found

    def activate(self, Z: Array, layer: int) -> None:
        """Apply σ to Z of this layer in place."""
        compiled_activation(self.activation_at(layer)).activate(Z)


def masked(sigma: Array, keep: Value, streams: Sequence[np.random.Generator]) -> None:
    """σ ← μσ/p in place, σ (draws, …, m, n); an InputError for a p that is a symbol."""
    p = number_of(keep)
    for draw, rng in enumerate(streams):
        sigma[draw] *= (rng.random(sigma.shape[-2:]) < p) / p


@cache(entries=256)
def number_of(value: Value) -> float:
    """A layer's number; an InputError for a symbol."""
    try:
        return float(value.expr)
    except TypeError:
        raise InputError("layer", value.expr, "a number, not a symbol, to be sampled") from None


def number_at(symbols: Mapping[str, float], atom: object) -> float:
    """A number of the layer's own, or one of the network's symbols."""
    return read(atom, value=number_of, parameter=lambda own: symbols[own.name])


def checked_ensemble(
    net: Network, inputs: ArrayLike | Inputs, width: int, depth: int, seed: int
) -> Ensemble:
    """The ensemble that `simulate` samples, or an InputError."""
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    width, depth = as_integer("width", width, 1), as_integer("depth", depth, 1)
    check_memory("depth", depth, 2000 * depth, f"{number(depth)} layers")
    seed = checks.seed(seed)
    data = inputs if isinstance(inputs, Inputs) else checked_inputs(inputs, net.layer, depth)
    X = data.X
    net.check_inputs(X.shape[1])
    held = 8 * 4 * max(data.samples) * max(width, X.shape[1])
    check_memory("width", width, held, f"layers of {number(width)} neurons")
    layers = _checked_layers(net.tabulated(depth), X.shape[1], width, depth)
    if BATCHES in layers.needs and len(X) == 1:
        raise InputError("inputs", "one sample", f"several samples, a batch, for {net.layer}")
    return Ensemble(layers, data, seed)


@cache(entries=64)
def _checked_layers(net: Network, n_0: int, width: int, depth: int) -> Layers:
    """The layers of a network without functions of the layer, or an InputError."""
    widths = [n_0]
    for layer in range(1, depth + 1):
        n = net.width_ratio_at(layer) * width
        if not n.is_number or not math.isclose(float(n), round(float(n)), rel_tol=1e-12):
            raise InputError("width", width, f"whole n_ℓ = r_ℓ n; at layer {layer} it is {n}")
        widths.append(round(float(n)))
    net.check_skips(depth)
    layers = Layers(net, width, tuple(widths))
    for checked in ("steps", "C_b", "lambda_b", "lambda_W"):
        getattr(layers, checked)  # computed once, and an InputError where it cannot be
    if 1 in widths[1:-1]:
        _check_norms(net, widths)
    return layers


def _check_norms(net: Network, widths: Sequence[int]) -> None:
    """Raise InputError if a norm divides by the deviation of one neuron from its own mean: 0."""
    for layer in range(2, len(widths)):
        own = net.layer_at(layer, len(widths) - 1)
        for stage in own.stages if widths[layer - 1] == 1 else ():
            means = {mean.symbol: sympy.Integer(2) ** len(mean.factors) for mean in stage.means}
            if any(each.subs(means).is_infinite for each in stage.functions):
                wanted = f"two neurons or more, or an eps above 0: {own} divides by the deviation "
                wanted += "from the mean, which is 0 for one neuron"
                raise InputError("width", 1, wanted)


@cache
def compiled_activation(activation: Activation, orders: int = 1) -> ModuleType:
    """`activate` and `differentiate` of this activation and its derivatives below this order."""
    stores = "\n".join(f"{' ' * 16}out[s, {k}, a, i] = values[{k}]" for k in range(orders))
    source = _ACTIVATION.format(sigma=sigma_source(activation, orders), stores=stores)
    doc = f"An activation and its derivatives: {activation.name}."
    return load_kernels("activation", doc, (), source)
