"""A model of flax.nnx, flax.linen or equinox: read by its jaxpr, drawn again, run by its nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval

from derive.errors import InputError

from ....arrays import Array
from ...graph import Graph, Rows
from ...outputs import chosen
from ...tracing import refused
from ..base import BY_LAWS, Reading, unit_vectors
from .jaxprs import Layouts, Place, traced, walk

_OTHER_GRADIENTS = (
    "its gradients are not those of what it computes, as with a jax.custom_jvp or custom_vjp of "
    "its own: write the function without it"
)
_ROUNDING = 1e-4
"""Of single precision, compiled and not."""
_OUTPUT = "output"
"""The place of what the model gives."""


class JaxReading(Reading):
    """A model as a pure function of its parameters and one input."""

    precision = 1e-5
    overhead = 200_000

    def __init__(
        self,
        framework: str,
        model: Any,
        given: Callable[[Any], tuple[Any, Callable[[Any, Any], Any]]],
        make: Callable[[int], Any] | None,
        inputs: Array | None,
        output: str | None = None,
    ) -> None:
        self.framework, self._split, self._make = framework, given, make
        self._output = output
        self._leaves, self._structure, apply = self._parts(model)
        self._names = [path for path, _ in self._leaves]
        self._flat = [leaf for _, leaf in self._leaves]
        self._values = {
            path: np.asarray(leaf, float)
            for path, leaf in self._leaves
            if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
        }
        self.channels_last, self._tokens = framework != "equinox", 0
        self._jaxpr, self.graph, self._layouts, self.channels_last = self._read(
            model, apply, inputs
        )
        self._check_gradients(model)
        self.graph.remarks += _dropped(model)
        self._programs: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._together: bool | None = None
        self.how = "made again" if make else BY_LAWS
        if make:
            self.check_held(model, self._values, dict(self._drawn(1)))

    def _check_gradients(self, model: Any) -> None:
        """Raise InputError where a derivative of the user's own, `jax.custom_jvp` or `custom_vjp`,
        is another than that of what is computed."""
        if "custom_" not in str(self._jaxpr):
            return
        flat = [leaf for _, leaf in self._leaves]
        trained = [at for at, (name, _) in enumerate(self._leaves) if name in self._values]
        x = jax.random.normal(jax.random.PRNGKey(0), self._shape)
        x = x.argmax(-1) if self.takes else x

        def gradients(run: Callable[[list[Any]], Any]) -> list[Array]:
            def total(own: list[Any]) -> Any:
                output = run([*_replaced(flat, trained, own), x])[0].ravel()
                return output @ jax.numpy.cos(1.0 + jax.numpy.arange(output.size))

            return [np.asarray(each) for each in jax.grad(total)([flat[at] for at in trained])]

        def inside(given: list[Any]) -> Any:
            return walk(self._jaxpr.jaxpr, self._jaxpr.consts, given, _computed)

        own, read = (
            gradients(lambda given: core.jaxpr_as_fun(self._jaxpr)(*given)),
            gradients(inside),
        )
        scale = 1e-3 * max((float(abs(each).max()) for each in own), default=0.0)
        if any(abs(a - b).max() > scale for a, b in zip(own, read, strict=True)):
            raise refused(model, [("model", _OTHER_GRADIENTS)])

    def _parts(self, model: Any) -> tuple[list[tuple[str, Any]], Any, Callable[[Any, Any], Any]]:
        """The parameters by their paths, how they are put together, and the function of them."""
        tree, apply = self._split(model)
        found, structure = jax.tree_util.tree_flatten_with_path(tree)
        return [(_path(path), leaf) for path, leaf in found], structure, apply

    def _has_statistics(self, model: Any) -> bool:
        """True if it has batch normalizations."""
        if isinstance(model, tuple):
            return not isinstance(model[1], dict) or "batch_stats" in model[1]
        nnx = sys.modules.get("flax.nnx")
        if nnx is None or not isinstance(model, nnx.Module):
            return False
        return any(isinstance(each, nnx.BatchNorm) for _, each in nnx.iter_modules(model))

    def _read(
        self, model: Any, apply: Callable[[Any, Any], Any], inputs: Array | None
    ) -> tuple[Any, Graph, Layouts, bool]:
        sizes = [inputs.shape[-1]] if inputs is not None else _sizes(self._values)
        shapes = [shape for n_0 in sizes for shape in ((n_0,), (1, n_0))]
        if inputs is not None and inputs.ndim > 2:
            several, one = inputs.shape[1:], inputs.shape
            shapes = [(1, *several)] if self.channels_last else [several, one]

        def function(leaves: list[Any], x: Any) -> Any:
            returned = apply(jax.tree_util.tree_unflatten(self._structure, leaves), x)
            return chosen(returned, self._output)

        if self._has_statistics(model):  # which are of batches
            batches = [] if inputs is None else [inputs.shape]
            shapes = [*batches, *(shape for shape in shapes if shape[0] == 1)]
        tried: list[tuple[tuple[int, ...], Any]] = [(shape, float) for shape in shapes]
        if inputs is not None and inputs.ndim == 2 and np.all(inputs == np.rint(inputs)):
            tried += [(shape, int) for shape in shapes[:: -1 if self.channels_last else 1]]
        errors = []
        for shape, kind in tried:
            try:
                closed = jax.make_jaxpr(function)(self._flat, jax.numpy.ones(shape, kind))
            except InputError:
                raise
            except Exception as error:  # of the user's model, of the wrong size for one
                errors.append(error)
                continue
            needed, _ = partial_eval.dce_jaxpr(closed.jaxpr, True, instantiate=True)
            closed = closed.replace(jaxpr=needed)
            has_rows = len(shape) == (2 if inputs is None else inputs.ndim)
            is_batch = self._has_statistics(model) and has_rows and shape[0] > 1
            given = self._names, self._values, self.channels_last, has_rows
            found = traced(model, closed, *given, shape[0] if is_batch else 0)
            if is_batch and not found[0].batch:
                continue  # by running means: each input by itself
            self._shape = shape
            if kind is int and inputs is not None:
                self.takes = inputs.shape[1:]
                self._shape = (*shape, found[0].widths[0])
            return (closed, *found)
        told = f"it takes no input of {sizes} numbers: {errors[0] if errors else 'no matrix'}"
        raise refused(model, [("model", " ".join(told.split())[:300])])

    def prepare(self, X: Array) -> Array:
        """See `Reading`: of tokens their unit vectors."""
        return X if self.takes is None else unit_vectors(X, self._shape[-1])

    def draw(self, seed: int) -> Mapping[str, Array]:
        """See `Reading`."""
        found = {path: np.asarray(leaf, float) for path, leaf in self._drawn(seed)}
        return {path: self.matrix(path, found[path]) for path in self._paths}

    def own(self) -> Mapping[str, Array] | None:
        """See `Reading`."""
        if self._make is not None:
            return None
        return {path: self.matrix(path, self._values[path]) for path in self._paths}

    @property
    def again(self) -> bool:
        """See `Reading`."""
        return self._make is not None

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """See `Reading`: one model is made as it is."""
        kept, self._together = self._together, False
        try:
            yield
        finally:
            self._together = kept

    def initialize(self, seeds: Sequence[int]) -> Any:
        """See `Reading`: the leaves of each, stacked."""
        if self._together is None:
            self._together = self._make is not None and self._compiles(seeds)
        if self._together:
            return self._programs["draw", ()](jax.numpy.asarray(seeds))
        return self._one_by_one(seeds)

    def first(self, made: Any, count: int) -> Any:
        """See `Reading`."""
        return [leaf[:count] for leaf in made]

    def values(self, made: Any) -> Mapping[str, Array]:
        """See `Reading`."""
        return super().values(dict(zip(self._names, made, strict=True)))

    def _one_by_one(self, seeds: Sequence[int]) -> list[Any]:
        several = [[leaf for _, leaf in self._drawn(seed)] for seed in seeds]
        return [jax.numpy.stack(each) for each in zip(*several, strict=True)]

    def _compiles(self, seeds: Sequence[int]) -> bool:
        """True if what makes the model is a function of the key that JAX can compile: it gives what
        it gives one by one."""

        def drawn(seed: Any) -> list[Any]:
            return [leaf for _, leaf in self._drawn(seed)]

        program = self._programs["draw", ()] = jax.jit(jax.vmap(drawn))
        try:
            found = program(jax.numpy.asarray(seeds))
        except Exception:  # of the user's function, on what is traced
            return False
        first = self._one_by_one(seeds[:2])
        return all(_is_same(a[:2], b) for a, b in zip(found, first, strict=True))

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Reading`."""
        start, end = (self.graph.origins[at] for at in (source, node))
        if source == 0:
            states = np.array([self.prepare(each) for each in states])

        def one(leaves: list[Any], state: Any) -> Any:
            if start is None:
                return self._run(leaves, state.reshape(self._shape), [end])[0]
            x = jax.numpy.zeros(self._shape)
            return self._run(leaves, x, [end], {start: lambda own: state.reshape(own.shape)})[0]

        def rows(leaves: list[Any], states: Any) -> Any:
            batches = states.reshape(-1, (self.graph.batch or 1) * states.shape[-1])
            return jax.vmap(one, in_axes=(None, 0))(leaves, batches)

        states = np.reshape(states, (*states.shape[:2], -1))
        given = jax.numpy.asarray(states if len(states) > 1 else states[0])
        program = self._compiled("propagate", (source, node), rows, own=given.ndim == 3)
        found = np.asarray(program(made, given), float)
        return found.reshape(len(found), states.shape[1], -1)

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`."""
        places, X = [self.graph.origins[at] for at in nodes], self.prepare(X)
        chosen = [self._names.index(path) for path in self._paths]

        def grams(leaves: list[Any], X: Any) -> Any:
            def firsts(own: list[Any]) -> list[Any]:
                all_ = _replaced(leaves, chosen, own)
                one = jax.vmap(lambda x: self._run(all_, x.reshape(self._shape), places))
                found = one(X[None] if self.graph.batch else X)
                return [each.reshape(len(X), -1)[:, 0] for each in found]

            gradients = jax.jacrev(firsts)([leaves[at] for at in chosen])
            flat = [[each.reshape(len(X), -1) for each in of_place] for of_place in gradients]
            return jax.numpy.stack([sum(each @ each.T for each in of_place) for of_place in flat])

        program = self._compiled("tangents", tuple(nodes), grams)
        return np.asarray(program(made, jax.numpy.asarray(X)), float)

    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """See `Reading`: by a shift of the source, which is differentiated by."""
        start, end = (self.graph.origins[at] for at in (source, node))
        x = self.prepare(x)

        def between(leaves: list[Any], x: Any) -> Any:
            x = x.reshape(self._shape)
            size = x.size if start is None else self._run(leaves, x, [start])[0].size

            def moved(shift: Any) -> Any:
                if start is None:
                    return self._run(leaves, x + shift.reshape(x.shape), [end])[0].ravel()
                moves = {start: lambda own: own + shift.reshape(own.shape)}
                return self._run(leaves, x, [end], moves)[0].ravel()

            return jax.jacrev(moved)(jax.numpy.zeros(size))

        program = self._compiled("jacobian", (source, node), between)
        return np.asarray(program(made, jax.numpy.asarray(x)), float)

    def _compiled(
        self, name: str, nodes: tuple[int, ...], function: Callable[..., Any], own: bool = False
    ) -> Any:
        """A function of one initialization's leaves, for all of them, with an argument of its own
        for each, or the same."""
        key = (f"{name}, own" if own else name, nodes)
        if key not in self._programs:
            self._programs[key] = jax.jit(jax.vmap(function, (0, 0 if own else None)))
        return self._programs[key]

    def parameters(self, made: Any) -> dict[str, Any]:
        """Those of the first initialization that gradients reach, by their paths."""
        own = dict(zip(self._names, made, strict=True))
        return {path: own[path][0] for path in self._values}

    def of_parameters(self, own: Mapping[str, Any]) -> Any:
        """These parameters as `initialize` gives them."""
        return [
            jax.numpy.asarray(own.get(path, leaf))[None]
            for path, leaf in zip(self._names, self._flat, strict=True)
        ]

    def outputs(self, own: Mapping[str, Any], X: Any) -> Any:
        """The model's outputs of inputs (m, …)."""
        leaves = [own.get(p, leaf) for p, leaf in zip(self._names, self._flat, strict=True)]
        rows = X if self.takes is None else jax.nn.one_hot(X.astype(int), self._shape[-1])
        rows = rows.reshape(-1, *self._shape)
        return jax.vmap(lambda x: self._run(leaves, x, [_OUTPUT])[0])(rows)

    def _run(
        self,
        leaves: list[Any],
        x: Any,
        places: Sequence[Any],
        moves: Mapping[Any, Callable[[Any], Any]] | None = None,
    ) -> list[Any]:
        """The values at these places, where those at others are moved."""
        found: dict[Any, Any] = {}

        def handle(equation: Any, given: list[Any], place: Place) -> Any:
            if place in self._layouts.tables:  # of unit vectors, which are differentiated by
                shape = equation.outvars[0].aval.shape
                return moved([(x @ given[0]).reshape(shape)], place)
            return moved(_computed(equation, given, place), place)

        def moved(outs: list[Any], place: Place) -> list[Any]:
            for at, move in (moves or {}).items():
                if _whole(at) == place:
                    outs[0] = _with(outs[0], at, move(_some(outs[0], at)))
            found.update({at: _some(outs[0], at) for at in places if _whole(at) == place})
            return outs

        given = x.argmax(-1) if self.takes else x
        (found[_OUTPUT],) = walk(self._jaxpr.jaxpr, self._jaxpr.consts, [*leaves, given], handle)
        return [found[each] for each in places]

    def _drawn(self, seed: int) -> list[tuple[str, Any]]:
        if self._make is not None:
            return self._parts(self._make(seed))[0]
        changed = dict(self._leaves)
        for path, values in self.by_laws(seed, changed):
            changed[path] = jax.numpy.asarray(values, changed[path].dtype)
        return list(changed.items())

    def layout(self, path: str, axes: int) -> tuple[tuple[int, ...], int]:
        """See `Reading`."""
        known = {} if path in self.graph.turned else self._layouts.orders
        return known.get(path, super().layout(path, axes))


def _computed(equation: Any, given: list[Any], place: Place) -> list[Any]:
    """The results of a primitive."""
    done = equation.primitive.bind(*given, **equation.params)
    return list(done) if equation.primitive.multiple_results else [done]


def _replaced(leaves: Sequence[Any], places: Sequence[int], own: Sequence[Any]) -> list[Any]:
    """The leaves with others at these places."""
    found = list(leaves)
    for at, leaf in zip(places, own, strict=True):
        found[at] = leaf
    return found


def read(
    framework: str,
    model: Any,
    make: Callable[[int], Any] | None,
    inputs: Array | None,
    output: str | None = None,
) -> JaxReading:
    """The model as nodes, to the output of this name.

    Raises InputError for what cannot be read, by where it is in the jaxpr.
    """
    if framework == "equinox":
        return JaxReading(framework, model, _of_equinox, make, inputs, output)
    linen = sys.modules.get("flax.linen")
    if linen is not None and isinstance(model, linen.Module):
        if inputs is None:
            raise InputError("inputs", None, "inputs, which a model of flax.linen does not tell")
        x = jax.numpy.ones((1, *(inputs.shape[1:] if inputs.ndim > 2 else inputs.shape[-1:])))

        def again(seed: int) -> Any:
            return model, model.init(jax.random.PRNGKey(seed), x)

        try:
            try:
                made = again(0)
            except ValueError:  # as of a table, which takes whole numbers
                if np.any(inputs != np.rint(inputs)):
                    raise
                x = x.astype(int)
                made = again(0)
        except Exception as error:  # of the user's model
            lines = str(error).splitlines() or [""]
            wanted = f"inputs that the model takes: {type(error).__name__}: {lines[0]}"
            raise InputError("inputs", f"{inputs.shape[-1]} numbers each", wanted) from error
        return JaxReading(framework, made, _of_linen, again, inputs, output)
    return JaxReading(framework, model, _of_nnx, make, inputs, output)


def _whole(place: Any) -> Any:
    """The place of the value of which these are some neurons, or itself."""
    return place.origin if isinstance(place, Rows) else place


def _some(value: Any, place: Any) -> Any:
    """The neurons that are meant."""
    return value[..., place.low : place.high] if isinstance(place, Rows) else value


def _with(value: Any, place: Any, moved: Any) -> Any:
    """A value with other numbers in place of these neurons."""
    if not isinstance(place, Rows):
        return moved
    return value.at[..., place.low : place.high].set(moved)


def _is_same(a: Any, b: Any) -> bool:
    """True if two leaves agree but for rounding, of a part of their size."""
    rms = float(np.sqrt(np.mean(np.square(b)))) if np.size(b) else 0.0
    return np.allclose(a, b, rtol=0, atol=_ROUNDING * rms)


def keyed(name: str, seed: int) -> Any:
    """The argument of a function that makes a model: a key, or flax's `rngs`."""
    return sys.modules["flax.nnx"].Rngs(seed) if name == "rngs" else jax.random.PRNGKey(seed)


def _of_equinox(model: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The model in evaluation, but for batch normalizations that are in training. One with a state
    takes a batch."""
    equinox = sys.modules["equinox"]
    own, state = model if isinstance(model, tuple) else (model, None)

    def norms(tree: Any) -> list[Any]:
        leaves = jax.tree_util.tree_leaves(tree, is_leaf=lambda u: isinstance(u, kind))
        return [each for each in leaves if isinstance(each, kind)]

    kind = equinox.nn.BatchNorm
    modes = [each.inference for each in norms(own)]
    own = equinox.nn.inference_mode(own)
    if not all(modes):
        own = equinox.tree_at(lambda tree: [each.inference for each in norms(tree)], own, modes)
    parameters, rest = equinox.partition(own, equinox.is_array)
    if state is None:
        return parameters, lambda tree, x: equinox.combine(tree, rest)(x)
    (name,) = {each.axis_name for each in norms(own)} or {"batch"}

    def apply(tree: Any, x: Any) -> Any:
        fresh = jax.tree_util.tree_map(lambda leaf: leaf, state)
        run = jax.vmap(equinox.combine(tree, rest), (0, None), (0, None), axis_name=name)
        return run(x, fresh)[0]

    return parameters, apply


def _of_nnx(model: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The model in evaluation, but for batch normalizations that are in training."""
    nnx = sys.modules["flax.nnx"]
    model = nnx.clone(model)
    norms = [each for _, each in nnx.iter_modules(model) if isinstance(each, nnx.BatchNorm)]
    modes = [each.use_running_average for each in norms]
    model.eval()
    for norm, mode in zip(norms, modes, strict=True):
        norm.use_running_average = mode
    graph, parameters, statistics, rest = nnx.split(model, nnx.Param, nnx.BatchStat, ...)
    if all(modes):
        _check_statistics(model, statistics)

    def apply(tree: Any, x: Any) -> Any:  # which makes statistics anew, that it changes
        fresh = jax.tree_util.tree_map(lambda leaf: leaf, statistics)
        return nnx.merge(graph, tree, fresh, rest)(x)

    return parameters, apply


def _dropped(model: Any) -> list[str]:
    """Modules of dropout, which are off, in words."""
    found: list[tuple[str, float]] = []
    nnx, equinox = (sys.modules.get(name) for name in ("flax.nnx", "equinox"))
    if nnx is not None and isinstance(model, nnx.Module):
        modules = ((path, each) for path, each in nnx.iter_modules(model))
        found = [
            (_path(path), each.rate) for path, each in modules if isinstance(each, nnx.Dropout)
        ]
    elif equinox is not None and isinstance(model, equinox.Module):
        kind = equinox.nn.Dropout
        leaves = jax.tree_util.tree_flatten_with_path(model, is_leaf=lambda u: isinstance(u, kind))
        found = [(_path(path), each.p) for path, each in leaves[0] if isinstance(each, kind)]
    return [f"{path}: dropout {rate}, off as in evaluation" for path, rate in found if rate]


def _of_linen(given: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
    model, variables = given
    statistics = {name: each for name, each in variables.items() if name == "batch_stats"}
    if not statistics:
        return variables, model.apply

    def apply(tree: Any, x: Any) -> Any:
        return model.apply(tree | statistics, x, mutable=["batch_stats"])[0]

    return {name: each for name, each in variables.items() if name not in statistics}, apply


def _check_statistics(model: Any, statistics: Any) -> None:
    """Raise InputError for running statistics that are not those of all neurons at the start."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(statistics)[0]:
        values, place = np.asarray(leaf), _path(path)
        if np.any(values != (0 if place.endswith("mean") else values.flat[0])):
            told = "running statistics that are not those of all neurons at the start"
            raise refused(model, [(place, told)])


def _path(path: Any) -> str:
    names = [
        getattr(each, "key", getattr(each, "name", getattr(each, "idx", each))) for each in path
    ]
    is_wrapped = names[1:] and isinstance(path[-1], jax.tree_util.GetAttrKey)
    return ".".join(map(str, names[:-1] if is_wrapped and names[-1] == "value" else names))


def _sizes(values: Mapping[str, Array]) -> list[int]:
    """The sizes that the inputs may have, those of matrices, in their order."""
    return list(dict.fromkeys(n for each in values.values() if each.ndim == 2 for n in each.shape))
