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
from ..heads import ROWS, TOKENS, Heads, as_matrix, attended, causal, permuted, reshaped
from ..outputs import chosen, named
from ..parts import part
from ..signals import everywhere, windows
from ..tracing import Neurons, Parameter, Tracer, UnreadableError, Value, beside, refused
from .base import Reading, unit_vectors

Values = Mapping[str, Any]


class KerasReading(Reading):
    """A `keras.Model` whose layers are known here, to the output of this name.

    Raises InputError for what cannot be read, by its layer's name.
    """

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
        sums = (e for e in _layers(model) if isinstance(e, keras.layers.EinsumDense) and e.built)
        self._orders = {each.kernel.path: _order(each) for each in sums}
        count = 0 if inputs is None or inputs.ndim == len(own) else len(inputs)
        self.graph = self._read(tuple(given), count)
        if any(isinstance(each, keras.layers.Embedding) for each in self._function.layers):
            self.takes = tuple(given)
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._weights = {each.path: each for each in model.weights}
        self.graph.frozen += [path for path in self._paths if not self._weights[path].trainable]
        self._programs: dict[Any, Any] = {}
        self.how = "made again" if make else "each layer's initializers"

    def draw(self, seed: int) -> Mapping[str, Array]:
        """See `Reading`."""
        self._initialize(seed)
        found = {path: np.asarray(self._weights[path].value, float) for path in self._paths}
        return {path: self.matrix(path, value) for path, value in found.items()}

    def initialize(self, seeds: Sequence[int]) -> Any:
        """See `Reading`: the variables' values, stacked."""
        found: dict[str, list[Array]] = {path: [] for path in self._paths}
        for seed in seeds:
            self._initialize(seed)
            for path, several in found.items():
                several.append(np.array(self._weights[path].value))
        return {path: np.stack(several) for path, several in found.items()}

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Reading`."""
        start, end = (self.graph.origins[at] for at in (source, node))
        x = np.zeros((states.shape[1], *self.axes), np.float32)
        if source == 0:
            states = np.array([self.prepare(each) for each in states])
        if self.graph.shapes[0]:
            states = states.reshape(*states.shape[:2], *self._shape(start))

        def one(rows: Any) -> Any:
            given = {} if start is None else {start: rows}
            return self._run(rows if start is None else x, [end], given=given)[0]

        found = self._each(("propagate", start, end), one, made, states)
        return np.array([each.reshape(states.shape[1], -1) for each in found])

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`."""
        origins, X = tuple(self.graph.origins[at] for at in nodes), self.prepare(X)

        def one(rows: Any) -> Any:
            with tensorflow.GradientTape(persistent=True) as tape:
                for path in self._trained:
                    tape.watch(self._weights[path].value)
                outputs = self._run(rows, origins)
                firsts = [[each[a, ..., 0] for a in range(len(X))] for each in outputs]
            return tensorflow.stack([self._gram(tape, place) for place in firsts])

        return np.array(self._each(("tangents", *origins), one, made, X[None]))

    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """See `Reading`."""
        end, start = (self.graph.origins[at] for at in (node, source))
        x = self.prepare(x)

        def one(row: Any) -> Any:
            with tensorflow.GradientTape() as tape:
                tape.watch(row)
                if start is None:
                    (output,), below = self._run(row, [end]), row
                else:
                    output, below = self._run(row, [end, start], tape.watch)
            slopes = tape.jacobian(output, below, experimental_use_pfor=False)
            return tensorflow.reshape(slopes, (output.shape[-1], -1))

        return np.array(self._each(("jacobian", start, end), one, made, x[None, None]))

    def prepare(self, X: Array) -> Array:
        """See `Reading`: of tokens their unit vectors."""
        return X if self.takes is None else unit_vectors(X, self.graph.widths[0])

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
    def _trained(self) -> list[str]:
        return [path for path in self._paths if path not in self.graph.frozen]

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
        weights, total = [self._weights[path].value for path in self._trained], 0.0
        gradients = [tape.gradient(row, weights) for row in rows]
        for each in zip(*gradients, strict=True):
            if each[0] is not None:
                flat = tensorflow.stack([tensorflow.reshape(one, (-1,)) for one in each])
                total += tensorflow.matmul(flat, flat, transpose_b=True)
        return total

    def _each(
        self, key: tuple[Any, ...], one: Callable[[Any], Any], made: Any, given: Array
    ) -> list[Array]:
        """A function of the variables and of rows, of one initialization after another, with rows
        of its own or the same for all: compiled for rows of this shape once."""
        shape = given.shape[1:]
        if (*key, shape) not in self._programs:

            def program(values: Sequence[Any], rows: Any) -> Any:
                for path, value in zip(self._paths, values, strict=True):
                    self._weights[path].assign(value)
                return one(rows)

            self._programs[*key, shape] = tensorflow.function(program, autograph=False)
        run, found = self._programs[*key, shape], []
        each = [*zip(*made.values(), strict=True)]
        for values, rows in zip(each, np.broadcast_to(given, (len(each), *shape)), strict=True):
            tensors = [tensorflow.constant(value, "float32") for value in values]
            found.append(np.asarray(run(tensors, tensorflow.constant(rows, "float32")), float))
        return found

    def layout(self, path: str, axes: int) -> tuple[tuple[int, ...], int]:
        """See `Reading`: of a kernel (*size, in, out), or of an `EinsumDense` by its equation."""
        last = axes - 1
        return self._orders.get(path, ((last, last - 1, *range(last - 1)), 1))

    def _initialize(self, seed: int) -> None:
        if self._make is not None:
            keras.utils.set_random_seed(seed)
            self._model.set_weights(self._make(seed).get_weights())
            return
        for layer in _layers(self._model):
            for name in ("kernel", "bias", "embeddings"):
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
                if isinstance(op, keras.layers.Embedding):
                    return kept((op.name, False), X @ op.embeddings)
                if _is_of_batches(op):
                    return kept((op.name, False), _normalized(op, args[0], self.graph.batch))
                if not isinstance(op, _WITH_ACTIVATION):
                    return kept((op.name, False), op(*args, **kwargs))
                activation, op.activation = op.activation, keras.activations.linear
                try:
                    z = kept((op.name, True), op(*args))
                finally:
                    op.activation = activation
                return activation(z)

            return done

        given_ids = tensorflow.argmax(X, -1) if self.takes else X
        self._function._run_through_graph(given_ids, operation)
        return [found[each] for each in origins]

    def _read(self, shape: tuple[int, ...], count: int) -> Graph:
        tracer, faults = Tracer(), list[tuple[str, str]]()
        tracer.channels_last, tracer.given = True, (shape[-1], *shape[:-1])
        tracer.count = count
        for layer in self._function.layers:
            kind = type(layer).__name__
            if kind not in _LAYERS and kind != "InputLayer":
                reason = _REASONS.get(kind.rstrip("123D"))
                why = f"no layer here is a {kind}" + (f": {reason}" if reason else "")
                faults.append((layer.name, why))
        if faults:
            raise refused(self._model, faults)

        def operation(op: Any) -> Callable[..., Any]:
            def done(*args: Any, **kwargs: Any) -> Value:
                tracer.where, tracer.origin = op.name, (op.name, isinstance(op, _WITH_ACTIVATION))
                kind = type(op).__name__
                if kind not in _LAYERS:
                    raise UnreadableError(f"the operation {kind}")
                options = {name: kwargs[name] for name in _OPTIONS.get(kind, ()) if name in kwargs}
                found: Value = _LAYERS[kind](tracer, op, *args, **options)
                return found

            return done

        try:
            result = self._function._run_through_graph(Neurons(0), operation)
            found = result[0] if isinstance(result, list | tuple) else result
            if isinstance(found, Heads):
                raise UnreadableError("an output whose neurons are several axes: reshape it to one")
            return tracer.finish(found)
        except UnreadableError as error:
            raise refused(self._model, [(tracer.where, str(error))]) from None


def _to(function: Any, output: str | None) -> Any:
    """A functional model to the output of this name: a key, or what the layer is called."""
    returned = function._outputs_struct
    if isinstance(returned, list | tuple) and len(returned) > 1:
        returned = dict(zip(function.output_names, returned, strict=True))
    found = chosen(returned, output)
    return function if len(named(returned)) == 1 else keras.Model(function.inputs, found)


def _layers(model: Any) -> Iterator[Any]:
    """All layers, those inside others too."""
    yield from model._flatten_layers(include_self=False)


def _summed(layer: Any) -> tuple[int, ...]:
    """The axes of the kernel of an `EinsumDense` that are summed over, as what it is applied to has
    them; what stays of that must come first, and the others of the kernel last."""
    terms, into = layer.equation.replace("...", "").split("->")
    of_u, of_W = terms.split(",")
    inner = [each for each in of_u if each in of_W]
    outer = [each for each in of_W if each not in inner]
    is_last = of_u.endswith("".join(inner)) and into == of_u[: -len(inner)] + "".join(outer)
    if not inner or not is_last:
        raise UnreadableError(
            f"an EinsumDense of {layer.equation}: read are sums over the last axes, as ab,bc->ac"
        )
    return tuple(of_W.index(each) for each in inner)


def _order(layer: Any) -> tuple[tuple[int, ...], int]:
    """The axes of the kernel that are out, then those that are in, and how many are out."""
    try:
        inner = _summed(layer)
    except UnreadableError:  # which is refused where it is read
        inner = ()
    outer = [axis for axis in range(layer.kernel.ndim) if axis not in inner]
    return (*outer, *inner), len(outer)


def _is_of_batches(layer: Any) -> bool:
    """True for batch normalization as `fit` computes it: over the inputs of a batch."""
    return isinstance(layer, keras.layers.BatchNormalization) and layer.trainable


def _normalized(layer: Any, rows: Any, m: int) -> Any:
    """Batch normalization of rows that are several batches of m inputs."""
    batches = tensorflow.reshape(rows, (-1, m, *rows.shape[1:]))
    axes = [*range(1, len(batches.shape) - 1)]
    mean, variance = tensorflow.nn.moments(batches, axes, keepdims=True)
    found = (batches - mean) / tensorflow.sqrt(variance + layer.epsilon)
    found = found if layer.gamma is None else found * layer.gamma
    found = found if layer.beta is None else found + layer.beta
    return tensorflow.reshape(found, tensorflow.shape(rows))


def _parameter(variable: Any) -> Parameter:
    return Parameter(variable.path, np.asarray(variable.value, float))


def _dense(tracer: Tracer, layer: Any, u: Value) -> Value:
    bias = None if layer.bias is None else _parameter(layer.bias)
    kernel = _parameter(layer.kernel)
    z = tracer.linear(u, replace(kernel, value=kernel.value.T), bias)
    return _activated(tracer, layer.activation, z)


def _einsum(tracer: Tracer, layer: Any, u: Any) -> Any:
    """A matrix of several axes, whose biases have all that are out."""
    inner = _summed(layer)
    if len(inner) != (len(u.sizes) if isinstance(u, Heads) else 1):
        raise UnreadableError(f"an EinsumDense of {layer.equation} of what has other axes")
    matrix, sizes = as_matrix(_parameter(layer.kernel), inner)
    bias = None if layer.bias is None else _parameter(layer.bias)
    if bias is not None:
        bias = replace(bias, value=bias.value.ravel())
    z = tracer.linear(u.u if isinstance(u, Heads) else u, matrix, bias)
    found = _activated(tracer, layer.activation, z)
    if len(sizes) < 2:
        return found
    if not isinstance(found, Neurons):
        raise UnreadableError("neurons along several axes of what is no layer")
    places = (TOKENS,) * len(tracer.graph.shapes[found.node])
    return Heads(found, sizes, (ROWS, *places, *range(len(sizes))))


def _attended(
    tracer: Tracer,
    layer: Any,
    query: Any,
    value: Any,
    key: Any = None,
    attention_mask: Any = None,
    use_causal_mask: bool = False,
    return_attention_scores: bool = False,
) -> Any:
    if value != query or key not in (None, query):
        raise UnreadableError("attention between two values: self attention is read")
    if return_attention_scores or getattr(layer, "_use_gate", False):
        raise UnreadableError("attention with a gate, or whose weights are returned")
    if getattr(layer, "_sliding_window", None) is not None:
        raise UnreadableError("attention with a sliding window: give it as attention_mask")
    if isinstance(query, Neurons) and query.node == 0:
        raise UnreadableError("attention before the inputs meet a matrix: put a Dense in front")
    q, k, v = (
        permuted(tracer, _einsum(tracer, each, query), (0, 2, 1, 3))
        for each in (layer.query_dense, layer.key_dense, layer.value_dense)
    )
    tracer.dropped(query, layer.dropout)
    masks = [causal(tracer, q)] if use_causal_mask and isinstance(q, Heads) else []
    if attention_mask is not None:
        try:
            table = np.asarray(attention_mask).astype(bool)
        except (TypeError, ValueError):
            raise UnreadableError("a mask that is made from the inputs") from None
        if table.ndim > 2 and any(size != 1 for size in table.shape[:-2]):
            raise UnreadableError("an attention_mask of its own for each input or head")
        masks.append(~table)
    found = attended(tracer, q, k, v, None, masks)
    joined = permuted(tracer, found, (0, 2, 1, 3)) if isinstance(found, Heads) else found
    return _einsum(tracer, layer.output_dense, joined)


def _embedded(tracer: Tracer, layer: Any, u: Value) -> Value:
    """The rows of a table at the numbers of tokens: a matrix of their unit vectors."""
    count = layer.input_dim
    if u != Neurons(0) or tracer.graph.widths[0] not in (0, count):
        raise UnreadableError("an Embedding of other numbers than the inputs, or of another size")
    if layer.mask_zero:
        raise UnreadableError("mask_zero: give inputs without padding, and leave it out")
    if len(tracer.given) != 1:
        raise UnreadableError("an Embedding of inputs with several axes: tokens are one axis")
    tracer.place_inputs(count, tracer.given)
    return tracer.linear(Neurons(0), _parameter(layer.embeddings).T, None)


def _batch_normalized(tracer: Tracer, layer: Any, u: Value) -> Value:
    """As `fit` computes it, or, if the layer is not trainable, as in evaluation."""
    if layer.axis not in (-1, len(layer.input.shape) - 1):
        raise UnreadableError("batch normalization of another axis than the last")
    gains = [None if each is None else _parameter(each) for each in (layer.gamma, layer.beta)]
    statistics = layer.moving_mean.value, layer.moving_variance.value
    running = None if layer.trainable else (np.asarray(statistics[0]), np.asarray(statistics[1]))
    return tracer.batch_norm(u, layer.epsilon, gains, running)


def _reshape(tracer: Tracer, layer: Any, u: Any) -> Any:
    if not isinstance(u, Heads) and (u.node == 0 or len(tracer.graph.shapes[u.node]) != 1):
        raise UnreadableError("Reshape, but of the neurons of tokens: Flatten is read")
    return reshaped(tracer, u, [0, *layer.output.shape[1:]])


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
    getattr(keras.layers, name) for name in ("Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D")
)
_REASONS = {
    "MaxPooling": "the largest of several positions is no function of one",
    "GlobalMaxPooling": "the largest of several positions is no function of one",
    "GroupNormalization": "GroupNorm is read of torch; LayerNormalization is read here",
    "Normalization": "do it to the inputs before the model, and give these",
    "ZeroPadding": "use padding='same' of the convolution",
    "Softmax": "a softmax is no function of one neuron: end the model before it",
    **dict.fromkeys(
        ("GroupQueryAttention", "Attention", "AdditiveAttention"),
        "self attention is read as MultiHeadAttention",
    ),
}
_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    name: functions.TORCH[functions.plain(name)][0]
    for name in (
        *("relu", "tanh", "sigmoid", "silu", "gelu", "softplus", "elu", "selu", "mish"),
        *("softsign", "relu6", "hard_tanh", "hard_sigmoid", "tanh_shrink"),
    )
} | {"swish": functions.silu, "leaky_relu": lambda u: functions.relu(u, 0.2)}
_OPTIONS = {
    "MultiHeadAttention": (
        *("key", "attention_mask", "use_causal_mask", "return_attention_scores", "value", "query"),
    ),
}
_LAYERS: dict[str, Callable[..., Any]] = {
    "Dense": _dense,
    "EinsumDense": _einsum,
    "MultiHeadAttention": _attended,
    "Embedding": _embedded,
    "BatchNormalization": _batch_normalized,
    "Reshape": _reshape,
    "Permute": lambda tracer, layer, u: permuted(tracer, u, (0, *layer.dims)),
    "GetItem": lambda tracer, layer, u, key: part(tracer, u, key),
    "Activation": lambda tracer, layer, u: _activated(tracer, layer.activation, u),
    "ReLU": lambda tracer, layer, u: tracer.apply(
        functions.relu, u, layer.negative_slope, layer.max_value, layer.threshold
    ),
    "LeakyReLU": lambda tracer, layer, u: tracer.apply(functions.relu, u, layer.negative_slope),
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
