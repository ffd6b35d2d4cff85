"""Models of Keras, sequential and functional, by their layers; on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from zlib import crc32

import keras
import numpy as np
import sympy
import tensorflow

from derive.engine.taps import Taps
from derive.errors import InputError

from ...arrays import Array
from .. import functions
from ..graph import Graph
from ..outputs import chosen, named
from ..signals import everywhere, windows
from ..tracing import Neurons, Parameter, Tracer, UnreadableError, Value, beside, refused
from .base import Reading

Values = Mapping[str, Any]


class KerasReading(Reading):
    """A `keras.Model` whose layers are known here."""

    framework = "keras"
    precision = 1e-5
    overhead = 800_000
    channels_last = True

    def __init__(
        self,
        model: Any,
        make: Callable[[int], Any] | None,
        inputs: Array | None = None,
        output: str | None = None,
    ) -> None:
        self._make, self._model = make, model
        self._function = getattr(model, "_functional", None) or model
        if not hasattr(self._function, "_run_through_graph") or not self._function.inputs:
            wanted = "a sequential model with its inputs' shape, or a functional one"
            raise InputError("model", type(model).__name__, wanted)
        self._function = _to(self._function, output)
        own = self._function.inputs[0].shape[1:]
        given = own if None not in own or inputs is None else inputs.shape[-len(own) :]
        self.graph = self._read(tuple(given))
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._weights = {each.path: each for each in model.trainable_variables}
        self._programs: dict[Any, Any] = {}
        self.how = "made again" if make else "each layer's initializers"

    def draw(self, seed: int) -> Mapping[str, Array]:
        """See `Reading`."""
        self._initialize(seed)
        return self._values()

    def own(self) -> Mapping[str, Array] | None:
        """See `Reading`: what the model has when it comes."""
        return None

    def initialize(self, seeds: Sequence[int]) -> Any:
        """See `Reading`: the variables' values of each."""
        made = []
        for seed in seeds:
            self._initialize(seed)
            made.append([np.array(self._weights[path].value) for path in self._paths])
        return made

    def values(self, made: Any) -> Mapping[str, Array]:
        """See `Reading`."""
        columns = zip(self._paths, zip(*made, strict=True), strict=True)
        stacked = {path: np.array(each, float) for path, each in columns}
        own = {path: np.array([*map(_matrix, values)]) for path, values in stacked.items()}
        return self.graph.with_parts(own)

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Reading`."""
        start, end = (self.graph.origins[at] for at in (source, node))
        x = np.zeros((states.shape[1], *self.axes), np.float32)
        if self.graph.shapes[0]:
            states = states.reshape(*states.shape[:2], *self._shape(start))

        def one(rows: Any) -> Any:
            given = {} if start is None else {start: rows}
            return self._run(rows if start is None else x, [end], given=given)[0]

        every = list(states) if len(states) == len(made) else [states[0]] * len(made)
        found = self._each(("propagate", start, end), one, made, every)
        return np.array([each.reshape(states.shape[1], -1) for each in found])

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`."""
        origins = tuple(self.graph.origins[at] for at in nodes)

        def one(rows: Any) -> Any:
            with tensorflow.GradientTape(persistent=True) as tape:
                outputs = self._run(rows, origins)
                firsts = [[each[a, ..., 0] for a in range(len(X))] for each in outputs]
            return tensorflow.stack([self._gram(tape, place) for place in firsts])

        return np.array(self._each(("tangents", *origins), one, made, [X] * len(made)))

    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """See `Reading`."""
        end, start = (self.graph.origins[at] for at in (node, source))

        def one(row: Any) -> Any:
            with tensorflow.GradientTape() as tape:
                tape.watch(row)
                if start is None:
                    (output,), below = self._run(row, [end]), row
                else:
                    output, below = self._run(row, [end, start], tape.watch)
            slopes = tape.jacobian(output, below, experimental_use_pfor=False)
            return tensorflow.reshape(slopes, (output.shape[-1], -1))

        return np.array(self._each(("jacobian", start, end), one, made, [x[None]] * len(made)))

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """See `Reading`."""
        before = tensorflow.config.functions_run_eagerly()
        tensorflow.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tensorflow.config.run_functions_eagerly(before)

    @property
    def _variables(self) -> list[Any]:
        return [self._weights[path] for path in self._paths]

    def _shape(self, origin: Any) -> tuple[int, ...]:
        """The shape of a value, without the axis of the inputs."""
        if origin is None:
            return self.axes
        if origin not in self._shapes:
            (found,) = self._run(np.zeros((1, *self.axes), np.float32), [origin])
            self._shapes[origin] = tuple(found.shape[1:])
        return self._shapes[origin]

    def _gram(self, tape: Any, rows: Sequence[Any]) -> Any:
        """Σ_μ ∂_μ z_a ∂_μ z_b of these numbers, (m, m)."""
        weights, total = [each.value for each in self._variables], 0.0
        gradients = [tape.gradient(row, weights) for row in rows]
        for each in zip(*gradients, strict=True):
            if each[0] is not None:
                flat = tensorflow.stack([tensorflow.reshape(one, (-1,)) for one in each])
                total += tensorflow.matmul(flat, flat, transpose_b=True)
        return total

    def _each(
        self, key: tuple[Any, ...], one: Callable[[Any], Any], made: Any, given: Sequence[Array]
    ) -> list[Array]:
        """A function of the variables and of rows, of one initialization after another: compiled
        for rows of this shape once."""
        shape = np.shape(given[0])
        if (*key, shape) not in self._programs:

            def program(values: Sequence[Any], rows: Any) -> Any:
                for variable, value in zip(self._variables, values, strict=True):
                    variable.assign(value)
                return one(rows)

            self._programs[*key, shape] = tensorflow.function(program, autograph=False)
        run, found = self._programs[*key, shape], []
        for values, rows in zip(made, given, strict=True):
            tensors = [tensorflow.constant(value, "float32") for value in values]
            found.append(np.asarray(run(tensors, tensorflow.constant(rows, "float32")), float))
        return found

    def _values(self) -> dict[str, Array]:
        found = {path: np.asarray(self._weights[path].value, float) for path in self._paths}
        return {path: _matrix(value) for path, value in found.items()}

    def _initialize(self, seed: int) -> None:
        if self._make is not None:
            keras.utils.set_random_seed(seed)
            self._model.set_weights(self._make(seed).get_weights())
            return
        for layer in self._model.layers:
            for name in ("kernel", "bias"):
                variable, given = (
                    getattr(layer, name, None),
                    getattr(layer, f"{name}_initializer", None),
                )
                if variable is None or given is None:
                    continue
                config = given.get_config()
                if "seed" in config:
                    config["seed"] = crc32(f"{seed} {variable.path}".encode())
                variable.assign(type(given).from_config(config)(variable.shape, variable.dtype))

    def _run(
        self,
        X: Any,
        origins: Sequence[Any],
        watch: Any = None,
        given: Mapping[Any, Any] = MappingProxyType({}),
    ) -> list[Any]:
        """The values of these places, (operation's name, whether before its activation), with those
        that are given instead of their own."""
        found: dict[Any, Any] = {}

        def kept(place: Any, value: Any) -> Any:
            value = given.get(place, value)
            if place in origins:
                if watch is not None:
                    watch(value)
                found[place] = value
            return value

        def operation(op: Any) -> Callable[..., Any]:
            def done(*args: Any, **kwargs: Any) -> Any:
                kwargs.pop("training", None)
                if not isinstance(op, _WITH_ACTIVATION):
                    return kept((op.name, False), op(*args, **kwargs))
                activation, op.activation = op.activation, keras.activations.linear
                try:
                    z = kept((op.name, True), op(*args))
                finally:
                    op.activation = activation
                return activation(z)

            return done

        self._function._run_through_graph(X, operation)
        return [found[each] for each in origins]

    def _read(self, shape: tuple[int, ...]) -> Graph:
        tracer, faults = Tracer(), list[tuple[str, str]]()
        tracer.channels_last, tracer.given = True, (shape[-1], *shape[:-1])
        tracer.rows_of_inputs = True
        for layer in self._function.layers:
            kind = type(layer).__name__
            if kind not in _LAYERS and kind != "InputLayer":
                reason = _REASONS.get(kind.rstrip("123D"))
                why = f"no layer here is a {kind}" + (f": {reason}" if reason else "")
                faults.append((layer.name, why))
        if faults:
            raise refused(self._model, faults)

        def operation(op: Any) -> Callable[..., Any]:
            def done(*args: Any, **_: Any) -> Value:
                tracer.where, tracer.origin = op.name, (op.name, isinstance(op, _WITH_ACTIVATION))
                kind = type(op).__name__
                if kind not in _LAYERS:
                    raise UnreadableError(f"the operation {kind}")
                found: Value = _LAYERS[kind](tracer, op, *args)
                return found

            return done

        try:
            result = self._function._run_through_graph(Neurons(0), operation)
            found = result[0] if isinstance(result, list | tuple) else result
            return tracer.finish(found)
        except UnreadableError as error:
            raise refused(self._model, [(tracer.where, str(error))]) from None


def read(
    model: Any, make: Callable[[int], Any] | None, inputs: Array | None, output: str | None = None
) -> KerasReading:
    """The model as nodes, to the output of this name.

    Raises InputError for what cannot be read, by its layer's name.
    """
    return KerasReading(model, make, inputs, output)


def _to(function: Any, output: str | None) -> Any:
    """A functional model to the output of this name: a key, or what the layer is called."""
    returned = function._outputs_struct
    if isinstance(returned, list | tuple) and len(returned) > 1:
        returned = dict(zip(function.output_names, returned, strict=True))
    found = chosen(returned, output)
    return function if len(named(returned)) == 1 else keras.Model(function.inputs, found)


def _matrix(value: Array) -> Array:
    """A kernel (*size, in, out) as a matrix (out, in·size); biases as they are."""
    if value.ndim < 2:
        return value
    moved = value.transpose(value.ndim - 1, value.ndim - 2, *range(value.ndim - 2))
    return moved.reshape(len(moved), -1)


def _parameter(variable: Any) -> Parameter:
    return Parameter(variable.path, np.asarray(variable.value, float))


def _dense(tracer: Tracer, layer: Any, u: Value) -> Value:
    bias = None if layer.bias is None else _parameter(layer.bias)
    kernel = _parameter(layer.kernel)
    z = tracer.linear(u, replace(kernel, value=kernel.value.T), bias)
    return _activated(tracer, layer.activation, z)


def _convolved(tracer: Tracer, layer: Any, u: Value) -> Value:
    _check_last(layer)
    if layer.padding not in {"same", "valid"}:
        raise UnreadableError(f"padding {layer.padding}")
    kernel = np.asarray(layer.kernel.value, float)
    axes = kernel.ndim - 2
    _, shape = tracer.signal(u, axes)
    pads = [
        _padding(P, *window) if layer.padding == "same" else (0, 0)
        for P, *window in zip(
            shape, layer.kernel_size, layer.strides, layer.dilation_rate, strict=True
        )
    ]
    own = Parameter(layer.kernel.path, kernel.transpose(axes + 1, axes, *range(axes)))
    bias = None if layer.bias is None else _parameter(layer.bias)
    window = {"stride": layer.strides, "padding": pads, "dilation": layer.dilation_rate}
    found = tracer.filtered(u, own, bias, layer.groups, **window)
    return _activated(tracer, layer.activation, found)


def _padding(P: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
    """Of "same": ⌈P/stride⌉ results, an odd one more behind."""
    total = max((-(-P // stride) - 1) * stride + dilation * (size - 1) + 1 - P, 0)
    return total // 2, total - total // 2


def _check_last(layer: Any) -> None:
    if layer.data_format != "channels_last":
        raise UnreadableError("channels that are not the last axis")


def _averaged(tracer: Tracer, layer: Any, u: Value) -> Value:
    _check_last(layer)

    def taps(shape: tuple[int, ...]) -> Taps:
        partial = any(P % size for P, size in zip(shape, layer.pool_size, strict=True))
        if layer.padding == "same" and partial:
            raise UnreadableError("average pooling with padding")
        return windows(shape, layer.pool_size, layer.strides)

    return tracer.pooled(u, taps, len(layer.pool_size))


def _averaged_whole(tracer: Tracer, layer: Any, u: Value) -> Value:
    _check_last(layer)
    mean = (lambda shape: windows(shape, shape, shape)) if layer.keepdims else everywhere
    return tracer.pooled(u, mean, len(layer.input.shape) - 2)


def _flat(tracer: Tracer, layer: Any, u: Value) -> Value:
    tracer.as_given(u)
    is_signal = isinstance(u, Neurons) and tracer.graph.shapes[u.node]
    return replace(u, form="flat") if is_signal and isinstance(u, Neurons) else u


def _activated(tracer: Tracer, activation: Any, u: Value) -> Value:
    name = getattr(activation, "__name__", type(activation).__name__)
    if name == "linear":
        return u
    if name not in _FUNCTIONS:
        raise UnreadableError(f"the activation {name}")
    return tracer.apply(_FUNCTIONS[name], u)


def _norm(kind: str) -> Callable[..., Value]:
    def done(tracer: Tracer, layer: Any, u: Value) -> Value:
        if getattr(layer, "rms_scaling", False):
            raise UnreadableError("a norm with rms_scaling, which takes no mean off")
        gains = {each.path: np.asarray(each.value) for each in layer.trainable_variables}
        named = {path.replace("beta", "bias"): value for path, value in gains.items()}
        renamed = {path.replace("/", "."): value for path, value in named.items()}
        return tracer.norm(u, kind, layer.epsilon, renamed)

    return done


def _merged(name: str) -> Callable[..., Value]:
    def done(tracer: Tracer, layer: Any, *given: Any) -> Value:
        parts = list(given[0]) if len(given) == 1 else list(given)
        total = parts[0]
        for each in parts[1:]:
            other = functions.exact(each) if isinstance(each, int | float) else each
            total = getattr(tracer, name)(total, other)
        return total

    return done


def _concatenated(tracer: Tracer, layer: Any, given: Any) -> Value:
    """Neurons side by side; a layer's own values may be used by several."""
    if layer.axis not in (-1, len(layer.output.shape) - 1):
        raise UnreadableError("values side by side that are no neurons")
    return beside(given)


def _rescaled(tracer: Tracer, u: Value, scale: Any, offset: Any) -> Value:
    if np.ndim(scale) or np.ndim(offset):
        raise UnreadableError("factors or offsets of their own for each neuron")
    scaled = tracer.multiply(u, functions.exact(scale))
    return scaled if offset == 0 else tracer.add(scaled, functions.exact(offset))


_WITH_ACTIVATION = tuple(
    getattr(keras.layers, name) for name in ("Dense", "Conv1D", "Conv2D", "Conv3D")
)
_REASONS = {
    "MaxPooling": "the largest of several positions is no function of one",
    "GlobalMaxPooling": "the largest of several positions is no function of one",
    "BatchNormalization": "it makes the inputs of a batch depend on each other in training, and in "
    "evaluation normalizes nothing at the start: leave it out, or read the model in torch",
    "MultiHeadAttention": "attention is read of torch, as nn.MultiheadAttention or q @ k.mT",
    "GroupNormalization": "GroupNorm is read of torch; LayerNormalization is read here",
    "Normalization": "do it to the inputs before the model, and give these",
    "Embedding": "embeddings are read of torch; or give unit vectors, and a Dense without biases",
    "ZeroPadding": "use padding='same' of the convolution",
    "EinsumDense": "write it as Dense",
    "Softmax": "a softmax is no function of one neuron: end the model before it",
    "Reshape": "only Flatten is read",
}
_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    "relu": functions.relu,
    "tanh": sympy.tanh,
    "sigmoid": functions.sigmoid,
    "silu": functions.silu,
    "swish": functions.silu,
    "gelu": functions.gelu,
    "softplus": functions.softplus,
    "elu": functions.elu,
    "selu": functions.selu,
    "mish": functions.mish,
    "softsign": functions.softsign,
    "leaky_relu": lambda u: functions.leaky_relu(u, 0.2),
    "relu6": lambda u: functions.hard_tanh(u, 0, 6),
    "hard_tanh": functions.hard_tanh,
    "hard_sigmoid": functions.hard_sigmoid,
    "tanh_shrink": lambda u: u - sympy.tanh(u),
}
_LAYERS: dict[str, Callable[..., Value]] = {
    "Dense": _dense,
    "Activation": lambda tracer, layer, u: _activated(tracer, layer.activation, u),
    "ReLU": lambda tracer, layer, u: tracer.apply(
        functions.relu, u, layer.negative_slope, layer.max_value, layer.threshold
    ),
    "LeakyReLU": lambda tracer, layer, u: tracer.apply(
        functions.leaky_relu, u, layer.negative_slope
    ),
    "ELU": lambda tracer, layer, u: tracer.apply(functions.elu, u, layer.alpha),
    "Dropout": lambda tracer, layer, u: tracer.dropped(u, layer.rate),
    "Flatten": _flat,
    **{f"Conv{axes}D": _convolved for axes in (1, 2, 3)},
    **{f"AveragePooling{axes}D": _averaged for axes in (1, 2, 3)},
    **{f"GlobalAveragePooling{axes}D": _averaged_whole for axes in (1, 2, 3)},
    "Rescaling": lambda tracer, layer, u: _rescaled(tracer, u, layer.scale, layer.offset),
    "Identity": lambda tracer, layer, u: u,
    "LayerNormalization": _norm("layer"),
    "RMSNormalization": _norm("rms"),
    "Add": _merged("add"),
    "Concatenate": _concatenated,
    "Multiply": _merged("multiply"),
}
