"""`read(model)`: what another framework's model is, as a network here."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike

from derive.engine.taps import ALONE
from derive.errors import InputError
from derive.network import Network

from ..arrays import Array
from .attention import heads
from .drawn import Drawn
from .factors import without
from .frameworks.base import Reading
from .graph import Graph, Linear
from .joined import features
from .joined import law as law_of_sum
from .joined import name as name_of_sum
from .laws import Law, beyond, of_biases, of_matrix
from .networks import (
    Structure,
    attention,
    averages_scores,
    decimal,
    live_taps,
    network,
    readable,
    structure,
    thaw,
)
from .signals import patches
from .tracing import refused

FRAMEWORKS = ("torch", "keras", "flax", "equinox")
_ENTRIES = 200_000
"""The number of entries that is drawn of each matrix to recognize its law."""
_FEW = 1000
"""With fewer entries than this a law is not recognized by the matrix alone."""
_FEWEST, _MOST = 8, 200
"""The least and the most initializations, unless more are needed to decide on an initializer."""
_PARAMETERS = 3e8
"""The most parameters that are drawn in all initializations, which takes some seconds."""
_AT_FIRST = 1e8
"""The most parameters that are drawn before laws are told; more only where these leave them open.
"""
_FEW_PAIRS, _CORRELATED = 20, 8.0
"""Initializations in which two matrices are compared, and beyond how many standard deviations they
are not independent."""


@dataclass(frozen=True, repr=False)
class Description:
    """A model as it was read.

    Attributes:
        framework: "torch", "flax", "equinox" or "keras".
        name: of the model's class.
        network: the model as a `derive.Network`, with its widths. Its rates λ_W = n_in and λ_b = 1,
            times the squares of constant factors, stand for descent on the model's own parameters.
        laws: the laws of its matrices and biases, by their paths, without constant factors.
        remarks: what was passed over, and what is not exact.
        reading: the model in its own framework.
        example: the model's `example_input_array`, as Lightning's models have it, or None.
        output: the one of several that was read, or None.
    """

    framework: str
    name: str
    network: Network
    laws: dict[str, Law]
    remarks: tuple[str, ...]
    structure: Structure = field(compare=False)
    reading: Reading = field(compare=False)
    example: ArrayLike | None = field(default=None, compare=False)
    output: str | int | None = field(default=None, compare=False)

    @property
    def widths(self) -> tuple[int, ...]:
        """n_0, n_1, …, n_L."""
        return tuple(self.network.widths or ())

    @property
    def positions(self) -> tuple[int, ...]:
        """Those of an input, where it is a signal; () of a vector."""
        return self.reading.graph.shapes[0]

    def drawn(self) -> Drawn:
        """The network as it was read, to be drawn in NumPy, beside the model itself: of a sum at
        layer 1 each matrix by itself."""
        pieces = self.structure.pieces
        return Drawn(self.reading.graph if pieces else self.structure.graph, self.laws)

    def samples(self, inputs: ArrayLike) -> Array:
        """Inputs, as the model takes them, as what the network takes: (m, …, n_0).

        A first convolution reads patches, which lie side by side here: z = b + W x at each
        position. Its taps that are 0 are left out.

        Raises InputError for another shape.
        """
        graph, signals = self.reading.graph, self.by_positions(inputs)
        if self.structure.pieces:
            return features(self.structure.pieces, self.laws, signals)
        first = graph.nodes[self.structure.blocks[0].node]
        assert isinstance(first, Linear)
        taps = live_taps(first, self.laws)
        axes = taps.shape_behind(self.positions)
        return patches(signals, taps).reshape(len(signals), *axes, -1)

    def by_positions(self, inputs: ArrayLike) -> Array:
        """Inputs, as the model takes them, as (m, positions, channels), or (m, n_0).

        Raises InputError for another shape.
        """
        X, takes = joined(inputs)[0], self.reading.takes
        if takes is not None:
            check_shape(X, takes)
        X = self.reading.prepare(X)
        check_shape(X, self.reading.axes)
        X = X.reshape(-1, *self.reading.axes)
        X = X if self.reading.channels_last else np.moveaxis(X, 1, -1)
        return X.reshape(len(X), *self.reading.graph.axes(0))

    @property
    def batch(self) -> int:
        """The inputs that a batch normalization takes together; 0 without one."""
        return self.reading.graph.batch

    @property
    def is_of_vectors(self) -> bool:
        """True if it takes vectors one by one: no signals, and no batch."""
        return not self.positions and not self.batch

    @property
    def averages_scores(self) -> bool:
        """True if it has attention with scores over √d, whose averages theory takes."""
        return averages_scores(self.structure)

    @property
    def has_susceptibilities(self) -> bool:
        """True if theory has χ_∥ and χ_⊥ of its layers, and of the model made deeper: for inputs by
        themselves, and not where it averages scores."""
        return not self.batch and not self.averages_scores

    @property
    def first(self) -> int:
        """The first layer that a report has: from there on positions are those of the last."""
        shapes = [self.reading.graph.shapes[block.node] for block in self.structure.blocks]
        others = [at for at, shape in enumerate(shapes, start=1) if shape != shapes[-1]]
        return max(others, default=0) + 1

    @property
    def depth(self) -> int:
        """L."""
        return len(self.structure.blocks)

    @property
    def is_exact(self) -> bool:
        """True if the network has the model's laws to all orders in 1/n that are known here."""
        own = [self.laws[each.weight] for each in self.structure.matrices(self.structure.blocks)]
        return not self.network.keeps_rotations or all(each.keeps_rotations for each in own)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The positions of the last layer; () of a vector."""
        return self.reading.graph.shapes[self.structure.blocks[-1].node]

    @property
    def heading(self) -> str:
        """The name, framework, depth and widths, in a line."""
        runs = [[*alike] for _, alike in groupby(map(str, self.widths))]
        told = ", ".join(
            f"{len(run)} times {run[0]}" if len(run) > 2 else ", ".join(run) for run in runs
        )
        output = "" if self.output is None else f", output {self.output}"
        name = f"{self.name} of {self.framework}{output}"
        return f"{name}: {self.depth} layers of widths {told}."

    def rows(self) -> list[tuple[str, str, str]]:
        """Of each layer: what it is, its widths, its laws."""
        found = []
        for number, block in enumerate(self.structure.blocks, start=1):
            parts = [f"{block.norm} norm"] if block.norm else []
            parts += [readable(str(block.function))] if block.function else []
            parts += ["attention"] if attention(self.structure, number) else []
            parts += ["gate"] if block.gated else []
            parts += [f"skip {block.skip}" if block.skip != 1 else "skip"] if block.skip else []
            linears = self.structure.matrices([block])
            if number == 1 and self.structure.pieces:
                linears = [each.node for each in self.structure.pieces]
            sizes = ", ".join(map(_sizes, linears))
            laws = "; ".join(map(self._told, linears))
            found.append((f"{number}: {', '.join(parts) or 'matrix'}", sizes, laws))
        return found

    def _told(self, node: Linear) -> str:
        """The laws of a matrix and its biases, with their constant factors, as text."""
        found = f"{node.weight}: {self.laws[node.weight]}{_times(node.scale)}"
        if node.bias is None:
            return f"{found}, no bias"
        return f"{found}, {node.bias}: {self.laws[node.bias]}{_times(node.bias_scale)}"

    def __str__(self) -> str:
        lines = [f"{self.name} of {self.framework}, initialized again: {self.reading.how}"]
        lines += [f"  layer {what}, {sizes}\n    {laws}" for what, sizes, laws in self.rows()]
        lines += [f"  {remark}" for remark in self.remarks]
        return "\n".join([*lines, f"  {readable(str(self.network))}"])

    def __repr__(self) -> str:
        return str(self)


def _sizes(node: Linear) -> str:
    """The sizes of a matrix, and what it reads and gives of a signal."""
    told = f"{node.fan_in} → {node.fan_out}"
    if not node.taps.moves:
        return told
    shapes = (" x ".join(map(str, shape)) or "one" for shape in (node.taps.shape, node.taps.into))
    return f"{told} ({node.count} taps, positions {' → '.join(shapes)})"


def _times(factor: sympy.Expr) -> str:
    return "" if factor == 1 else f", times {decimal(factor)}"


def read(
    model: Any,
    inputs: ArrayLike | None = None,
    *,
    draws: int | None = None,
    output: str | int | None = None,
) -> Description:
    """Read a model of another framework: its layers, widths and activation, and the law of its
    weights, as a `derive.Network`.

        z^{(1)} = b + W x,   z^{(ℓ+1)} = F(z^{(ℓ)}; W, b)

    Arguments:
        model: a `torch.nn.Module`, a module of flax (nnx or linen) or of equinox, a Keras model; or
            a function of no arguments that makes one, which is called again for each
            initialization. A function of equinox may take a key, one of flax.nnx `rngs`.
        inputs: (n_0,) or (m, n_0), where the model alone does not tell n_0, as one of linen; by
            default the model's `example_input_array`, if it has one; for
            convolutions one or more signals as the model takes them, which tell their positions;
            of a torch model whose `forward` takes several arguments, a tuple of arrays (m, …).
        draws: initializations that the laws are told from; by default as many as known initializers
            need to be told apart, as far as that takes seconds.
        output: of several outputs, as a policy and its value, the one that is meant: its key or
            place, with a dot between those of parts, as "heads.0". What only others take is left
            out. Of outputs at several tokens "[:, -1]" is that of the last one, of torch.

    A law is what its samples are: variance, kurtosis, bound and singular values agree with one that
    is known here (`laws.of_matrix`), and a variance that one known initializer has is taken for
    that. Else it is the measured one, whose error is in all that `report` says.
    The preactivations are z, and the functions, norms, gates and skips between two are one layer.
    Dropout is off, as in evaluation. Derived here.

    Raises InputError for what cannot be read, with its path in the model and the reason; and for a
    model of another framework.

    >>> read("model")
    Traceback (most recent call last):
    ...
    derive.errors.InputError: model: got 'model'; wanted a model of torch, keras, flax,
    equinox, or a function that makes one
    """
    made, make = _made(model)
    example = getattr(made, "example_input_array", None)
    inputs = example if inputs is None else inputs
    given, arguments = (None, ()) if inputs is None else joined(inputs)
    X = None if given is None else np.atleast_2d(given)
    reading = _reading(made, make, X, None if output is None else str(output), arguments)
    X = None if X is None else reading.prepare(X)
    if X is not None and not reading.graph.shapes[0] and X.shape[-1] != reading.graph.widths[0]:
        wanted = f"{reading.graph.widths[0]}, the columns of the first matrix"
        raise InputError("inputs", f"{X.shape[-1]} numbers each", wanted)
    found, laws, (net, told) = _understood(reading, draws)
    remarks = [*reading.graph.remarks, *map(str, heads(found, laws)), *told]
    held = ", ".join(dict.fromkeys(reading.graph.gains))
    if held:
        remarks.append(
            f"gains and biases outside the matrices ({held}) are what they are at the start, and "
            "held there"
        )
    if reading.graph.frozen:
        remarks.append(f"not trained: {', '.join(reading.graph.frozen)}")
    if reading.graph.thawed:
        remarks.append(
            f"{', '.join(reading.graph.thawed)}: frozen, but Θ is that with these trained, too, as "
            "matrices of one layer have one rate here"
        )
    if output is not None:
        remarks.append(f"the output {output}; what only others take is left out")
    if found.ending:
        remarks.append(f"not read: {found.ending} behind the last layer")
    name = type(made[0] if isinstance(made, tuple) else made).__name__
    description = Description(
        reading.framework, name, net, laws, tuple(remarks), found, reading, example, output
    )
    _check_values(description, made, given)
    return description


def _check_values(description: Description, model: Any, given: Array | None) -> None:
    """Raise InputError if the nodes that were read give other values than the model, in one
    initialization: of all layers in torch, of the last one elsewhere, where each is compiled."""
    reading, blocks = description.reading, description.structure.blocks
    if given is None and reading.takes is not None:
        return
    axes = reading.axes
    X = np.random.default_rng(0).standard_normal((2, *axes)) if given is None else given
    X = X.reshape(-1, *(reading.takes or axes)).astype(float)
    several = blocks if description.framework == "torch" else blocks[-1:]
    try:
        with reading.uncompiled():
            made = reading.initialize([0])
            owns = [reading.propagate(made, 0, X[None], each.node) for each in several]
    except Exception:  # of the user's forward, as on doubles
        return
    drawn, states = Drawn(reading.graph, description.laws), description.by_positions(X)[None]
    values = reading.values(made)
    orders = [values, _by_positions(reading.graph, values)]
    for block, own in zip(several, owns, strict=True):
        width, least = reading.graph.widths[block.node], 1e-3 * float(abs(own).max())
        reads = (
            drawn.propagate(each, 0, states.reshape(1, len(X), -1), block.node) for each in orders
        )  # by the second order only where the first does not agree
        placed = (each.reshape(1, len(X), -1, width) for each in reads)
        both = (each.reshape(own.shape) for one in placed for each in (one, one.mT))
        if not any(np.allclose(own, each, rtol=0, atol=least) for each in both):
            path = reading.graph.origins[block.node]
            raise refused(model, [(str(path), "its values are others than those that were read")])


def _by_positions(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """The matrices, with columns that lie by positions in place of channels where a signal was laid
    flat, as where channels are the last axis."""
    found = dict(values)
    for node in graph.nodes:
        if isinstance(node, Linear) and node.count > node.size == 1 and node.weight in found:
            W = values[node.weight]
            moved = W.reshape(*W.shape[:2], node.count, -1).swapaxes(2, 3)
            found[node.weight] = moved.reshape(W.shape)
    return found


def _understood(
    reading: Reading, draws: int | None
) -> tuple[Structure, dict[str, Law], tuple[Network, tuple[str, ...]]]:
    """The layers, laws and network; without branches that are 0 where they cannot be read."""
    try:
        return _as_it_is(reading, draws)
    except InputError:
        graph = reading.graph
        matrices = [own for own in graph.parameters.values() if np.ndim(own) > 1]
        if all(map(np.any, matrices)):
            raise
        samples = [reading.draw(seed) for seed in range(2)]

        def is_zero(path: str) -> bool:
            return not any(np.any(each[graph.whole(path)]) for each in samples)

        if not without(graph, is_zero):
            raise
    return _as_it_is(reading, draws)


def _as_it_is(
    reading: Reading, draws: int | None
) -> tuple[Structure, dict[str, Law], tuple[Network, tuple[str, ...]]]:
    found = structure(reading.graph)
    thaw(found)
    skips = sum(1 for block in found.blocks if block.skip)
    laws = _laws(reading, draws, (skips,) if skips > 1 else ())
    if found.pieces:
        width = found.blocks[0].width
        laws[name_of_sum(found.pieces)] = law_of_sum(found.pieces, laws, width)
    return found, laws, network(found, laws)


def check_shape(X: Array, wanted: tuple[int, ...]) -> None:
    """Raise InputError unless it is one input of this shape, or several."""
    if X.ndim not in (len(wanted), len(wanted) + 1) or X.shape[-len(wanted) :] != wanted:
        raise InputError("inputs", f"shape {X.shape}", f"{wanted}, or several of these")


def joined(inputs: Any) -> tuple[Array, tuple[tuple[int, ...], ...]]:
    """Inputs as one array, and the shapes of the arguments of which they were made, if several.

    Several arguments are a tuple of arrays (m, …); they lie side by side, (m, numbers of all).

    >>> joined((np.zeros((2, 3)), np.zeros((2, 1))))[1]
    ((3,), (1,))
    """
    try:
        several = isinstance(inputs, tuple) and len(inputs) > 1 and min(map(np.ndim, inputs)) > 1
        arrays = [np.asarray(each, float) for each in (inputs if several else (inputs,))]
    except (TypeError, ValueError):
        raise InputError("inputs", inputs, "(n_0,) or (m, n_0) finite numbers") from None
    if not all(np.isfinite(each).all() for each in arrays):
        raise InputError("inputs", "numbers that are not finite", "(n_0,) or (m, n_0) finite ones")
    if not several:
        return arrays[0], ()
    if len({len(each) for each in arrays}) > 1:
        told = " and ".join(str(len(each)) for each in arrays)
        raise InputError("inputs", f"arguments of {told} rows", "as many rows of each")
    flat = [each.reshape(len(each), -1) for each in arrays]
    return np.concatenate(flat, axis=1), tuple(each.shape[1:] for each in arrays)


_WANTED = f"a model of {', '.join(FRAMEWORKS)}, or a function that makes one"


def _framework(model: Any) -> str | None:
    """The framework that a class of the model's is of, the nearest: Keras on torch has modules of
    both."""
    if isinstance(model, tuple) and model:  # of equinox, with its state
        return "equinox" if _framework(model[0]) == "equinox" else None
    if isinstance(model, type):
        return None
    roots = [each.__module__.partition(".")[0] for each in type(model).__mro__]
    return next((name for name in roots if name in FRAMEWORKS and name in sys.modules), None)


def framework_of(model: Any) -> str | None:
    """The framework of a model, or of what a function makes."""
    return _framework(_made(model)[0])


def _made(model: Any) -> tuple[Any, Callable[[int], Any] | None]:
    """The model, and what makes it again from a seed, where that was given."""
    if _framework(model) is not None:
        return model, None
    if isinstance(model, str) or not callable(model):
        raise InputError("model", model, _WANTED)
    try:
        own = isinstance(model, type)
        named = list(inspect.signature(model.__init__ if own else model).parameters.values())[own:]
    except (TypeError, ValueError):
        named = []
    needed = [each.name for each in named if each.default is each.empty and each.kind in _NAMED]
    if any(name not in _KEYS for name in needed):
        raise InputError("model", model, f"{_WANTED}, which takes nothing, or key, or rngs")

    def make(seed: int) -> Any:
        if not needed:
            return model()
        from .frameworks.jax import keyed  # noqa: PLC0415  (an extra, whose keys these are)

        return model(**{name: keyed(name, seed) for name in needed})

    try:
        found = make(0)
    except Exception as error:  # of the user's function
        told = f"{model!r}, which raises {type(error).__name__}: {error}"
        raise InputError("model", told, _WANTED) from error
    if _framework(found) is None:
        raise InputError("model", found, _WANTED)
    return found, make


_KEYS = ("key", "rngs")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _reading(
    model: Any,
    make: Callable[[int], Any] | None,
    inputs: Array | None,
    output: str | None,
    arguments: Sequence[tuple[int, ...]],
) -> Reading:
    """By the framework's own reader, which imports what is already there."""
    framework = _framework(model)
    if arguments and framework != "torch":
        wanted = "one array: several arguments are read of torch"
        raise InputError("inputs", f"{len(arguments)} arrays", wanted)
    if framework == "torch":
        from .frameworks import torch  # noqa: PLC0415  (an extra, that the model has imported)

        return torch.TorchReading(model, make, inputs, output, arguments)
    if framework in {"flax", "equinox"}:
        from .frameworks import jax  # noqa: PLC0415

        return jax.read(framework, model, make, inputs, output)
    backend = sys.modules["keras"].backend.backend()
    if backend != "tensorflow":  # which the reader imports
        raise InputError("model", f"one of Keras on {backend}", "Keras on tensorflow")
    from .frameworks import keras  # noqa: PLC0415

    return keras.KerasReading(model, make, inputs, output)


def _laws(reading: Reading, draws: int | None, depths: Sequence[int] = ()) -> dict[str, Law]:
    """Of every matrix and bias, and of parts of them."""
    laws = _laws_of_wholes(reading, draws, depths)
    parts = reading.graph.parts
    return laws | {
        name: laws[parts[name].path].of_part(np.shape(parts[name].of(np.empty(parts[name].whole))))
        for name in reading.graph.parameters
        if name in parts
    }


def _whole(graph: Graph, node: Linear) -> Linear:
    """The whole matrix and biases of which a node has parts."""
    if node.weight not in graph.parts:
        return node
    part = graph.parts[node.weight]
    bias = None if node.bias is None else graph.whole(node.bias)
    fan_out, fan_in = part.whole
    return replace(node, weight=part.path, bias=bias, fan_in=fan_in, fan_out=fan_out, taps=ALONE)


def _laws_of_wholes(reading: Reading, draws: int | None, depths: Sequence[int]) -> dict[str, Law]:
    own_nodes = [each for each in reading.graph.nodes if isinstance(each, Linear)]
    used = [each for each in own_nodes if each.weight in reading.graph.parameters]
    matrices = [_whole(reading.graph, each) for each in used]
    least = min((each.fan_in * each.fan_out for each in matrices), default=1)
    given = reading.own()
    if given is not None and not reading.again:
        laws = _of_one(matrices, given, depths)
        _check_apart(matrices, {path: [value] for path, value in given.items()}, laws)
        reading.settle(laws)
        return laws
    size = sum(each.fan_in * each.fan_out for each in matrices)
    most = min(_MOST, max(_FEWEST, int(_AT_FIRST // max(1, size))))
    count = min(max(_ENTRIES // least, _FEWEST), most) if draws is None else draws
    samples: dict[str, list[Array]] = {}
    _draw(reading, samples, range(count), {})
    own = reading.own()
    known: dict[tuple[str, int], Law] = {}
    laws = _of_samples(matrices, samples, depths, known)
    while draws is None and (more := _wanted(reading, laws, count)):
        wanted = {path: law.wanted for path, law in laws.items()}
        _draw(reading, samples, range(count, more), wanted)
        count, laws = more, _of_samples(matrices, samples, depths, known)
    _check_apart(matrices, samples, laws)
    if own is not None and not all(laws[path].fits(value) for path, value in own.items()):
        laws = _of_one(matrices, own, depths)
        reading.settle(laws)
    return laws


def _draw(
    reading: Reading, samples: dict[str, list[Array]], seeds: range, wanted: Mapping[str, int]
) -> None:
    """Add initializations, as many for each matrix as its law needs."""
    for seed in seeds:
        for path, value in reading.draw(seed).items():
            kept = samples.setdefault(path, [])
            entries = max(_ENTRIES, wanted.get(path, 0))
            if len(kept) < _FEWEST or len(kept) * value.size < entries:
                kept.append(value)


def _wanted(reading: Reading, laws: Mapping[str, Law], count: int) -> int:
    """The number of initializations that would decide what is open, within the limits; or 0."""
    size = sum(math.prod(law.shape) for law in laws.values())
    most = int(_PARAMETERS / (reading.overhead + size))
    needed = []
    for law in (each for each in laws.values() if each.wanted):
        draws = -(-law.wanted // math.prod(law.shape))
        near = len(law.rivals) < 2 and draws <= 4 * most  # half as fine is fine enough for one name
        needed.append(min(draws, most) if near else draws)
    return max((each for each in needed if count < each <= most), default=0)


def _check_apart(
    matrices: list[Linear], samples: Mapping[str, list[Array]], laws: Mapping[str, Law]
) -> None:
    """Raise InputError for matrices and biases that are correlated, or transposed ones, as drawn
    with one key.

    Independent ones have Σ A_ij B_ij of variance Σ E[A_ij²] E[B_ij²]. Those without a law are
    refused for that.
    """
    both = [each.weight for each in matrices] + [each.bias for each in matrices if each.bias]
    known = [path for path in dict.fromkeys(both) if laws[path].kind != "unknown"]
    drawn = {path: np.array(samples[path][:_FEW_PAIRS]) for path in known}
    lengths = {path: float(np.linalg.norm(value)) for path, value in drawn.items()}
    found = [pair for pair in combinations(known, 2) if all(lengths[path] for path in pair)]
    for one, other in found:
        A, B = drawn[one], drawn[other]
        alike = [each for each in (B, B.mT) if A.shape == each.shape] if A.ndim == B.ndim else []
        expected = lengths[one] * lengths[other] / np.sqrt(A.size)
        if any(abs(np.vdot(A, each)) > _CORRELATED * expected for each in alike):
            wanted = (
                "matrices and biases drawn independently of each other, each with a key or seed of "
                "its own"
            )
            if any(np.array_equal(A, each) for each in alike):
                wanted += (
                    "; these are equal. A head that is tied to embeddings makes its outputs depend "
                    "on which tokens an input has: untie it, or return what the head takes"
                )
            raise InputError("model", f"{one} and {other}, correlated", wanted)
    for node in matrices:
        bias, path = node.bias, node.weight
        if bias not in drawn or path not in drawn:
            continue
        is_narrow = laws[path].kind.startswith("low-rank")
        if _makes(drawn[path], drawn[bias], is_narrow):
            wanted = "biases that are drawn independently of the matrix, or zero"
            raise InputError("model", f"{bias}, correlated with {path}", wanted)


def _makes(W: Array, b: Array, is_narrow: bool) -> bool:
    """True if biases are correlated with the columns of the matrix beside them.

    Of independent ones |Σ b W|² has the mean |b|² |W|²/out, and is a sum of as many squares as W
    has columns; of few if W has a low rank.
    """
    count = min(len(W), len(b))
    W, b = W[:count], b[:count]
    _, out, columns = W.shape
    products = np.einsum("doi,do->i", W, b)
    expected = float((W**2).sum() * (b**2).sum()) / (count * out)
    free = min(columns, count) if is_narrow else columns
    return bool(expected) and float(products @ products) * free > expected * beyond(free)


def _of_one(
    matrices: list[Linear], given: Mapping[str, Array], depths: Sequence[int]
) -> dict[str, Law]:
    """From one initialization: a small matrix has the law of a larger one, if it can have that."""
    laws: dict[str, Law] = {}
    for each in sorted(matrices, key=lambda node: -node.fan_in * node.fan_out):
        own = given[each.weight]
        known = [law for law in laws.values() if len(law.shape) == 2 and law.fits(own)]
        is_small = own.size < _FEW and known and own.any()
        law = replace(known[0], shape=own.shape) if is_small else _of_filter(each, [own], depths)
        laws[each.weight] = law
    for each in matrices:
        if each.bias is not None:
            laws[each.bias] = _beside(laws[each.weight], given[each.bias], each.fan_in)
    return laws


def _beside(law: Law, bias: Array, fan_in: int) -> Law:
    """The law of biases in one initialization: that which torch and equinox give beside theirs."""
    is_default = law.kind == "uniform" and sympy.Rational(1, 3) == law.C
    if is_default and bias.any() and (bias**2 * fan_in <= 1 + 1e-6).all():
        C = sympy.Rational(1, 3 * fan_in)
        return Law("uniform", bias.shape, C, kurtosis=-1.2, why="1/(3 fan-in)")
    return of_biases([bias], fan_in)


def _of_filter(node: Linear, samples: Sequence[Array], depths: Sequence[int]) -> Law:
    """The law of a matrix; of a filter that of its taps that are not 0 in all samples."""
    taps = [np.asarray(each).reshape(node.fan_out, -1, node.size) for each in samples]
    kept = tuple(bool(each) for each in np.any(taps, axis=(0, 1, 2)))
    if all(kept) or not any(kept):
        return of_matrix(samples, depths, node.size)
    live = [each[:, :, kept].reshape(node.fan_out, -1) for each in taps]
    return replace(of_matrix(live, depths, sum(kept)), kept=kept)


def _of_samples(
    matrices: list[Linear],
    samples: Mapping[str, list[Array]],
    depths: Sequence[int] = (),
    known: dict[tuple[str, int], Law] | None = None,
) -> dict[str, Law]:
    """The laws of all; `known` has those of matrices, by the number of their samples."""
    known, laws = {} if known is None else known, dict[str, Law]()
    for each in matrices:
        key = each.weight, len(samples[each.weight])
        if key not in known:
            known[key] = _of_filter(each, samples[each.weight], depths)
        laws[each.weight] = known[key]
    laws = _together(laws, samples, depths)
    for each in matrices:
        if each.bias is not None:
            laws[each.bias] = of_biases(samples[each.bias], each.fan_in)
    return laws


def _together(
    laws: dict[str, Law], samples: Mapping[str, list[Array]], depths: Sequence[int]
) -> dict[str, Law]:
    """The same with one law for matrices of one shape whose measured laws differ by their errors:
    that of all their samples. What is known, or the same in every sample, stays as it is."""
    errors = {path: law.error for path, law in laws.items()}
    alike: dict[Any, list[str]] = {}
    for path, law in laws.items():
        if errors[path] and not law.kept:
            alike.setdefault((law.kind, law.shape, law.density, law.size), []).append(path)
    found = dict(laws)
    for paths in alike.values():
        if len({laws[path].C for path in paths}) < 2:
            continue
        size = laws[paths[0]].size
        every = of_matrix([one for path in paths for one in samples[path]], depths, size)
        near = all(
            abs(float(laws[one].C - laws[other].C)) <= 5 * np.hypot(errors[one], errors[other])
            for one, other in combinations(paths, 2)
        )
        if near and every.kind == laws[paths[0]].kind:
            found |= dict.fromkeys(paths, every)
    return found
