"""Run derived recursions down the layers of a network.

flow(net, inputs, depth=30, tensors=["K", "V"])["V"]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from time import monotonic
from types import ModuleType

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.activations import Activation
from derive.errors import InputError, whole
from derive.fields import Field
from derive.network import Network
from derive.parameters import Parameter
from derive.progress import telling
from derive.recursion import Wanted, closure, recursion, wanted
from derive.resources import check_memory, check_time, number
from derive.tensors import Name, Tensor, identify, named, tensor
from derive.weights import WeightEnsemble

from . import codegen, modules, table
from .bracket_shapes import MAX_POSITIONS
from .ensemble import checked_inputs
from .hyperparameters import Given, hyperparameters, own_parameters
from .weights import Array

_BREATH = 0.3
"""Seconds of compiled work between two looks at what Python has to tell, such as Ctrl-C."""

_RATE = 5000
"""Layers in a second: to look the hyperparameters up, most of the time of one input."""

_K, _THETA = named("K"), named("Theta")


def flow(
    net: Network,
    inputs: ArrayLike,
    depth: int | None = None,
    tensors: Wanted | Iterable[Wanted] = ("K", "V"),
    *,
    width: int | None = None,
    parameters: Given = None,
) -> xarray.Dataset:
    """Evaluate the recursions of these tensors, layer by layer, at leading order each.

    Arguments:
        net: the network; its ensembles and variances are numbers.
        inputs: (n_0,) for one sample or (m, n_0) for m; they may repeat, be collinear or zero.
            Zero, without biases and on a kink of σ, is the limit of small inputs.
        depth: layers of preactivations, counted from 1; all of the network's widths by default.
        tensors: names that `recursion` knows, "K", "G1", "V", "kappa(z,z,H|01 23)", …; "all" of the
            literature's at order 1/n; or `derive.tensors.Name`s or recursions, such as
            recursion(["z", "z", my_field]), for the tensor on their left. A recursion that was
            derived for other weights, activation, widths or corrections is refused.
        width: n, needed where layer 1 depends on n_0/n: with an orthogonal first layer that has
            more inputs than neurons, with low-rank, truncated or bi-invariant ones, and for fields
            that are the identity at the inputs. By default the network's own, or else n = n_0
            (r_1 n, with unequal widths).
        parameters: the symbols of a user's equations, {"a": 0.5}: numbers, or functions of the
            layer.

    Returns:
        A variable per tensor with axes `layer` (1 … depth) and, unless inputs is one vector,
        `sample_1`, `sample_2`, …: the coefficients of source 000, eqs. (3.7), (3.8), (5.25), so V
        is n times the connected four-point function. Beside V stands `V_floor`, by layer: what
        rounding may change in it, from its dimension in powers of K and Θ, the size of the terms
        that may cancel. `numeric.table` has the layout, the coordinates and the attributes.

    Raises:
        InputError: for an argument that can't be used, and where a tensor is not finite.

    >>> from derive import activations
    >>> table = flow(Network(activations.relu, C_b=1), [2.0], depth=3, tensors="K")
    >>> table["K"].to_numpy()
    array([5.  , 3.5 , 2.75])
    """
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    given_depth = net.depth if depth is None else depth
    if given_depth is None:
        raise InputError("depth", None, "a depth, or a network with widths")
    depth = whole("depth", given_depth, 1)
    X = checked_inputs(inputs)
    net.check_inputs(X.shape[1])
    names = wanted(tensors, net, depth)
    _check_size(X.shape[0], depth, names)
    width = net.width if width is None else whole("width", width, 1)
    what = f"running {number(depth)} layers of {', '.join(map(str, names))}"
    with telling(what, depth / _RATE):
        return _flow(net, X, depth, names, width, parameters, vector=np.ndim(inputs) == 1)


def _flow(
    net: Network,
    X: Array,
    depth: int,
    names: tuple[Name, ...],
    width: int | None,
    parameters: Given,
    *,
    vector: bool,
) -> xarray.Dataset:
    """`flow`, its arguments checked; of a `vector` the table has no axes of samples."""
    values = hyperparameters(net, depth, X.shape[1], width)
    fields = {field for name in names for field in name.fields}
    own = own_parameters(parameters, fields, values, depth)
    values |= own
    square = net.has_equal_widths(depth)
    single = X.shape[0] == 1
    weights = net.weights_at(2)
    corrections = net.corrections
    most = None if single else MAX_POSITIONS
    needed = closure(["K", *names], weights, corrections, single=single, most_factors=most)
    module = _module(
        needed, net.activation, weights, single=single, square=square, corrections=corrections
    )
    unknown = [name for name in module.PARAMETERS if name not in values]
    if unknown:
        raise InputError("weights", str(weights), f"a number for {', '.join(unknown)}")
    running = telling("running through the layers", total=depth)
    with np.errstate(over="ignore", invalid="ignore"), running as progress:
        kernel = (X @ X.T) / X.shape[1]
        first = [
            _first_layer(name, net.weights_at(1), kernel, values, corrections) for name in needed
        ]
        given = [values[name] for name in module.PARAMETERS]
        out = _layers(module, first, given, single=single, progress=progress)
    computed = dict(zip(needed, out, strict=True))
    for name, found in computed.items():
        _check_finite(name.label, found, net)
    arrays: dict[str, xarray.Variable | xarray.DataArray] = {}
    for name in names:
        ordered = np.ascontiguousarray(_axes(computed, name))
        tensor_ = table.variable(ordered, rank=len(name.subscripts), single=vector)
        arrays[name.label] = tensor_.assign_attrs(table.described(name))
        arrays[f"{name.label}_floor"] = table.floor(_size(computed, name))
    return table.dataset(
        arrays,
        range(1, depth + 1),
        {} if width is None else {"width": int(width)},
        net=net,
        inputs=X[0] if vector else X,
        symbols=values,
        own=own,
    )


def _layers(
    module: ModuleType, first: list[Array], given: list[Array], *, single: bool, progress: telling
) -> list[Array]:
    """Each tensor at every layer, from those of layer 1: a breath at a time, so that Ctrl-C comes
    in between."""
    rows = [each.reshape(1) if single else each[None] for each in first]
    parts, done, step, depth = [rows], 1, 1, given[0].size
    while done < depth:
        began = monotonic()
        end = min(done + step, depth)
        start = (each[-1].item() if single else each[-1] for each in rows)
        out = module.layers(*start, *(column[done - 1 : end] for column in given))
        rows = [each[1:] for each in (out.T if single else out)]
        parts.append(rows)
        progress.advance(end - done)
        done, step = end, 2 * step if monotonic() - began < _BREATH / 2 else max(1, step // 2)
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _check_size(samples: int, depth: int, names: Sequence[Name]) -> None:
    """Refuse what takes more time or memory than there is: 2 kB and 0.2 ms, or more, a layer."""
    what = f"{number(depth)} layers of {number(samples)} inputs"
    ranks = [len(name.subscripts) for name in names]
    held = depth * (2000 + sum(16 * samples**rank for rank in ranks if samples > 1))
    check_memory("inputs, depth", f"{samples} inputs, {depth}", held, what)
    check_time("depth", depth, depth // _RATE, what)
    if samples > 1:
        table = 32 * max(ranks) * samples ** max(2, *ranks)  # the tuples of a bracket's samples
        check_memory("inputs", f"{samples} inputs", table, f"brackets of {number(samples)} inputs")


def _axes(computed: dict[Name, Array], name: Name) -> Array:
    """The tensor with its axes in the order of this name's subscripts."""
    own, samples = identify(tensor(name.fields, name.order, name.pairing, _slots(name)))
    values = computed[own]
    if values.ndim == 1:
        return values
    place = {slot: axis for axis, slot in enumerate(samples)}
    return np.transpose(values, (0, *(1 + place[slot] for slot in name.subscripts)))


def _size(computed: dict[Name, Array], name: Name) -> Array:
    """K^{nodes/2} (Θ/K)^{edges} at each layer, the dimension of its fields: how large the terms are
    that may cancel in the tensor. A user's field has its mean's size, 0 if it has none."""

    def largest(each: Name) -> Array:
        """Of a tensor's entries at each layer."""
        layers = len(computed[_K])
        entries = computed.get(each, np.zeros(layers))
        return np.asarray(np.abs(entries).reshape(layers, -1).max(axis=1))

    kernel, tangent = largest(_K), largest(_THETA)
    trees = [each for each in name.fields if isinstance(each, Field)]
    edges, nodes = sum(len(tree.edges) for tree in trees), sum(tree.nodes for tree in trees)
    live = kernel > 0
    size = np.zeros_like(kernel)
    size[live] = kernel[live] ** (nodes / 2) * (tangent[live] / kernel[live]) ** edges
    for own in name.fields:
        if not isinstance(own, Field):
            means = [each for each in computed if each.fields == (own,) and each.order == 0]
            size = size * sum((largest(each) for each in means), np.zeros_like(size))
    return size


def _slots(name: Name) -> tuple[int, ...]:
    return tuple(range(len(name.subscripts)))


@cache
def _module(
    names: tuple[Name, ...],
    activation: Activation,
    weights: WeightEnsemble,
    *,
    single: bool,
    square: bool,
    corrections: int,
) -> ModuleType:
    with telling(f"compiling {len(names)} tensors and the brackets of {activation}"):
        source = codegen.module_source(
            names, activation, weights, single=single, square=square, corrections=corrections
        )
        return modules.load(source, "flow")


def _first_layer(
    name: Name,
    weights: WeightEnsemble,
    kernel: Array,
    parameters: dict[str, Array],
    corrections: int,
) -> Array:
    """A tensor at layer 1, a polynomial in the inputs' kernel xᵀx/n_0."""
    made = recursion(name, weights, first_layer=True, square=False, corrections=corrections)
    made = made.single_input() if len(kernel) == 1 else made
    index = np.indices((kernel.shape[0],) * len(made.samples), sparse=True)
    total = np.zeros((kernel.shape[0],) * len(made.samples))
    for (mono, _), coefficient in made.terms.items():
        term: Array = np.array(float(coefficient))
        for atom, exponent in mono:
            if isinstance(atom, Parameter):
                factor = parameters[atom.name][0]
            else:
                assert isinstance(atom, Tensor)
                factor = kernel[tuple(index[label - 1] for label in atom.samples)]
            term = term * factor**exponent
        total = total + term
    return total


def _check_finite(name: str, tensor: Array, net: Network) -> None:
    finite = np.isfinite(tensor.reshape(tensor.shape[0], -1)).all(axis=1)
    if not finite.all():
        layer = int(np.argmin(finite)) + 1
        wanted = "inputs and variances for which every tensor is finite"
        raise InputError("net", f"{net}, whose {name} is not finite at layer {layer}", wanted)
