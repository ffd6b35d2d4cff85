"""The combinations of a layer, a law of weights and a function, and how each one is tried.

`try_one(layer, law, function)` calls the function at a small size and checks the numbers that it
gives: they are finite and not all zero. It lets an InputError through, which is a refusal.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numba
import numpy as np
import sympy
import xarray

from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    RegularSparse,
    Uniform,
    WeightEnsemble,
    activations,
    criticality,
    exact,
    layers,
    recursion,
    spectra,
)
from numeric import compare, flow, simulate, training, write_c, write_module
from numeric import deep as as_deep
from numeric import spectra as densities

SIGMA = "tanh"
N = 8
"""The width, and the size of the inputs."""
DEPTH = 3
C_W, C_b = sympy.Rational(6, 5), sympy.Rational(1, 10)


def vectors(size: int) -> np.ndarray:
    """Three inputs of so many components."""
    grid = np.arange(size)
    return np.stack([np.linspace(-1.0, 1.5, size), np.cos(grid), np.sin(grid + 0.5)])


INPUTS = vectors(N)


@cache
def own_layer() -> layers.Layer:
    """A layer by its equations: a norm behind a matrix, a second branch, unequal widths."""
    return layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "q = h[a] h[a]/n",
        "k[i] = h[i]/sqrt(q + eps)",
        "z[i] = gamma z[i] + b[i] + W2[i,a] s(k[a])",
        gamma="1/2",
        eps="1/10",
        ratio={"h": 2},
    )


OWN = "residual(skip=1/2, activations=gelu, weights=(W1: orthogonal))"
"""A layer with a function and a law of its own."""

GRAPH = "mix(a path of 3 nodes, normalization=symmetric)"
BENT = "dense, tanh; gelu*"
"""Dense layers whose activations differ."""

IMAGE = "dense*; convolution(2, (2, 3), boundary=zero, stride=2)"
"""A convolution of images that changes the positions."""

LAYERS: dict[str, Callable[[], object]] = {
    name: lambda name=name: layers.read(name)
    for name in (
        "dense",
        "normalized(rms)",
        "normalized(layer)",
        "normalized(group(2))",
        "batchnorm(eps=1/10)",
        "residual(skip=1/2)",
        "residual(skip=1, norm=rms)",
        OWN,
        "gated",
        "gated(skip=1/2, norm=rms)",
        "skip(1/2)",
        "skip(1/2, norm=rms)",
        "dropout(3/4)",
        "convolution(2, 3)",
        "convolution(2, 3, readout=mean)",
        "around(convolution(2, 3), norm=rms)",
        "around(sequence(convolution(2, 3, activations=linear), convolution(2, 3)), skip=1/2)",
        "around(sequence(batchnorm(eps=1), batchnorm(eps=1)))",
        "convolution(2, 2, norm=batch, eps=1/10)",
        "attention(2, 2, skip=1/2, norm=rms)",
        "attention(n/2, 2, scores=1/sqrt(d), skip=1/2, norm=rms)",
        "transformer(2, 2, ratio=1)",
    )
} | {
    "residual(norm=rms)*; dense": lambda: layers.by_depth(block="residual(norm=rms)", head="dense"),
    "(residual(skip=1/2); dense)*": lambda: layers.by_depth(block=["residual(skip=1/2)", "dense"]),
    "pooling(4, 2); dense*": lambda: layers.by_depth(stem="pooling(4, 2)", block="dense"),
    IMAGE: lambda: layers.by_depth(block="dense", head=IMAGE.split("; ")[1]),
    GRAPH: lambda: layers.mix(np.eye(3, k=1) + np.eye(3, k=-1), normalization="symmetric"),
    BENT: layers.dense,
    "Layer(…)": own_layer,
}
"""The rows of the table."""


@dataclass(frozen=True)
class Law:
    """The ensemble of the weights, and of layer 1 where that is another one."""

    weights: Callable[[], WeightEnsemble]
    first: Callable[[], WeightEnsemble] | None = None


LAWS: dict[str, Law] = {
    "Gaussian": Law(lambda: Gaussian(C_W)),
    "Orthogonal": Law(lambda: Orthogonal(C_W)),
    "LowRankOrthogonal": Law(lambda: LowRankOrthogonal(C_W, gamma="1/2")),
    "BiInvariant": Law(lambda: BiInvariant(C_W, moments=(1, 2))),
    "Uniform": Law(lambda: Uniform(C_W)),
    "Uniform, layer 1 Gaussian": Law(lambda: Uniform(C_W), lambda: Gaussian(C_W)),
    "RegularSparse": Law(lambda: RegularSparse("1/2", C_W=C_W)),
    "Orthogonal, layer 1 Gaussian": Law(lambda: Orthogonal(C_W), lambda: Gaussian(C_W)),
    "Gaussian, layer 1 Uniform": Law(lambda: Gaussian(C_W), lambda: Uniform(C_W)),
}
"""The tables of the page."""


@dataclass(frozen=True)
class Case:
    """A layer and a law by their names, the width, and the least number of inputs of a call."""

    layer_name: str
    law_name: str
    width: int = N
    least: int = 1

    @cached_property
    def layer(self) -> Any:
        """The layer, or the sequence of layers."""
        return LAYERS[self.layer_name]()

    @cached_property
    def weights(self) -> WeightEnsemble:
        """The ensemble of layers 2, 3, …"""
        return LAWS[self.law_name].weights()

    @cached_property
    def first(self) -> WeightEnsemble | None:
        """The ensemble of layer 1 where that is another one."""
        make = LAWS[self.law_name].first
        return None if make is None else make()

    @property
    def sigma(self) -> str:
        """The activation, or the activations of all layers."""
        return "tanh; gelu*" if self.layer_name == BENT else SIGMA

    def net(self, activation: object = None, **others: object) -> Network:
        """The network."""
        given = {"C_b": C_b, "layer": self.layer} | others
        return Network(
            self.sigma if activation is None else activation, self.weights, self.first, **given
        )

    @property
    def is_batched(self) -> bool:
        """True if a batch of two vectors, or of a signal's positions, is the least."""
        return "batch" in self.layer_name

    def inputs(self, count: int) -> np.ndarray:
        """One input or several: vectors, or signals of a convolution."""
        axes, vs = self.layer.input_axes, vectors(self.width)
        count = max(count, self.least, 2 if self.is_batched and not axes else 1)
        if not axes:
            return vs[0] if count == 1 else vs[:count]
        rolled = np.stack([np.roll(vs, k, axis=1) for k in range(3)]).reshape(-1, self.width)
        signals = [np.roll(rolled[: math.prod(axes)], k, axis=1) for k in range(count)]
        found = np.stack(signals).reshape(count, *axes, self.width)
        return found[0] if count == 1 else found


def finite(values: object) -> None:
    """Fail unless all numbers are finite and one is not 0."""
    numbers = np.asarray(values, dtype=float)
    assert numbers.size, "no numbers"
    assert np.isfinite(numbers).all(), "numbers that are not finite"
    assert np.any(numbers != 0), "zeros alone"


def finite_table(table: xarray.Dataset, *names: str) -> None:
    """`finite` of these tensors; errors beside them may be infinite or missing nowhere."""
    for name in names:
        finite(table[name].to_numpy())
        for twin in (f"{name}_error", f"{name}_se"):
            if twin in table:
                assert not np.isnan(table[twin].to_numpy().astype(float)).any(), twin


def flowed(case: Case, tensors: tuple[str, ...], count: int = 1, **others: Any) -> xarray.Dataset:
    """The table of `flow`, each tensor of it checked."""
    table = flow(case.net(), case.inputs(count), DEPTH, tensors, width=case.width, **others)
    finite_table(table, *tensors)
    return table


def sampled(case: Case, count: int, **others: Any) -> xarray.Dataset:
    """The table of `simulate`, K and V of it checked."""
    given = {"draws": 40, "tensors": ["K", "V"], "seed": 1} | others
    table = simulate(case.net(), case.inputs(count), case.width, DEPTH, **given)
    finite_table(table, "K", "V")
    return table


@cache
def simulated(case: Case) -> xarray.Dataset:
    """The table of `simulate` for one input, which `compare` takes too."""
    return sampled(case, 1)


def derived(case: Case, layer: Any = None) -> list[Any]:
    """The recursions of K and V for one input, of this layer or the case's."""
    layer = layer or case.layer
    return [recursion(name, case.weights, layer=layer).single_input() for name in ("K", "V")]


def recursions(case: Case) -> None:
    """`recursion`, of layer 1 and of the last one."""
    own = case.net().layer_at(DEPTH, DEPTH)
    if all(taps.is_full for _, taps in own.tapped) and not case.is_batched:
        assert derived(case, own)[1].expr != 0
    else:  # no signal stays the same everywhere, or samples are not alone
        assert recursion("V", case.weights, layer=own).expr != 0
    first = case.weights if case.first is None else case.first
    assert recursion("V", first, first_layer=True).name == "V"


@contextmanager
def interpreted() -> Iterator[None]:
    """Functions that numba would compile run as they are."""
    before = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = True
    try:
        yield
    finally:
        numba.config.DISABLE_JIT = before


def columns(names: tuple[str, ...]) -> list[np.ndarray]:
    """The hyperparameters of a written module, by layer."""
    numbers = {"C_W": float(C_W), "C_b": float(C_b)}
    return [np.full(DEPTH, numbers.get(name, 1.0)) for name in names]


def modules(case: Case) -> None:
    """`write_module`, and what the module computes, uncompiled."""
    case.net()
    with tempfile.TemporaryDirectory() as folder, interpreted():
        path = write_module(derived(case), case.sigma, f"{folder}/kernel.py", case.first)
        spec = importlib.util.spec_from_file_location("kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        finite(module.flow(*module.means(INPUTS[0]), *columns(module.PARAMETERS)))


COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def sources(case: Case) -> None:
    """`write_c`, and what the compiled source computes where there is a compiler."""
    case.net()
    made = derived(case)
    with tempfile.TemporaryDirectory() as folder:
        source, header = write_c(made, case.sigma, f"{folder}/kernel.c", case.first)
        assert header.read_text(encoding="utf-8")
        if COMPILER is None:
            return
        library = source.with_suffix(".so")
        command = [COMPILER, "-std=c99", "-O0", "-fPIC", "-shared", "-o", library, source, "-lm"]
        subprocess.run([str(each) for each in command], check=True, capture_output=True)
        finite(ran(library, header.read_text(encoding="utf-8")))


def ran(library: Path, header: str) -> np.ndarray:
    """What the compiled source's `kernel_flow` computes."""
    signature = re.search(r"void kernel_flow\(([^)]*)\)", header)
    size = re.search(r"depth \* (\d+) numbers", header)
    assert signature is not None, header
    assert size is not None, header
    means = len(re.findall(r"double [KM]\d", signature[1]))
    inputs = (ctypes.c_double(np.mean(INPUTS[0] ** (2 * k))) for k in range(1, 1 + means))
    names = tuple(re.findall(r"const double \*(\w+)", signature[1]))
    out = np.zeros(DEPTH * int(size[1]))
    pointer = ctypes.POINTER(ctypes.c_double)
    given = [column.ctypes.data_as(pointer) for column in (*columns(names), out)]
    run = ctypes.CDLL(str(library)).kernel_flow
    run.restype = None
    run(*inputs, ctypes.c_long(DEPTH), *given)
    return out


def critical(case: Case) -> None:
    """`criticality`: the class that it finds, "none" among them."""
    values = {each.name: getattr(case.weights, each.name) for each in fields(case.weights)}
    law = type(case.weights)(**{name: value for name, value in values.items() if name != "C_W"})
    found = criticality(case.sigma, weights=law, layer=case.layer)
    assert "universality class" in str(found)


def deep(case: Case) -> None:
    """`asymptotics` of V at a given C_b and C_W."""
    case.net()
    made = recursion("V", case.weights, layer=case.layer).single_input()
    found = made.asymptotics(case.sigma, 1, C_b=C_b, C_W=C_W)
    assert found.expr != 0


def moments(case: Case) -> None:
    """`derive.spectra.of_network`: two moments."""
    law = spectra.of_network(case.net(), 0.7, DEPTH)
    finite([float(law.moment(k)) for k in (1, 2)])


def density(case: Case) -> None:
    """`numeric.spectra`: the density of one layer, or of all that differ, near its mean."""
    net = case.net()
    if not net.is_uniform:
        mean = float(spectra.of_network(net, 0.7, DEPTH).moment(1))
        finite(densities.of_network(net, 0.7, DEPTH).density([0.9 * mean]))
        return
    given = (SIGMA, case.weights, 1, sympy.Rational(7, 10))
    plain = case.layer_name == "dense"  # where q_star is the variance, biases included
    others = {"critical": False, "layer": case.layer, "C_b": None if plain else C_b}
    mean = float(spectra.jacobian(*given, **others).moment(1))
    finite(densities.jacobian(*given, **others).density([0.9 * mean]))


ETA, TARGET = 0.05, 0.3


def targets(case: Case) -> Any:
    """A number for each of several inputs, and for each position of what is not read out."""
    several = case.inputs(1).shape[: case.inputs(1).ndim - 1 - len(case.layer.input_axes)]
    return np.full((*several, *case.layer.output_axes), TARGET)


def trained(case: Case) -> None:
    """`training.flow`."""
    table = training.flow(
        case.net(),
        case.inputs(1),
        targets(case),
        depth=DEPTH,
        eta=ETA,
        steps=[0, 5],
        width=case.width,
    )
    finite_table(table, "prediction", "covariance", "covariance1")


def trained_ensembles(case: Case) -> None:
    """`training.simulate`."""
    table = training.simulate(
        case.net(),
        case.inputs(1),
        targets(case),
        width=case.width,
        depth=DEPTH,
        eta=ETA,
        steps=[2],
        draws=4,
    )
    finite_table(table, "prediction", "loss")


def exactly(case: Case) -> None:
    """`exact.cumulant` of σ(z) = z²."""
    net = case.net(activations.polynomial([0, 0, 1]))
    x = np.concatenate([INPUTS, -INPUTS])  # one input, or two signals of three positions
    means = {
        samples: float(np.prod(x[list(samples)], axis=0).mean())
        for size in (2, 4, 6)
        for samples in combinations_with_replacement(range(len(x)), size)
    }
    finite(float(exact.cumulant("K", net, 2, width=case.width, inputs=N, kernel=means)))


def compared(case: Case) -> None:
    """`compare`, of a flow and an ensemble."""
    table = simulated(case)
    found = compare(flowed(case, ("K", "V")), table)
    assert found.rows
    finite([row.z for row in found.rows])


def proportional(case: Case) -> None:
    """`numeric.deep.law` of ReLU at its critical C_W, of a vector or a constant signal."""
    value = C_W
    with suppress(InputError):  # every C_W is critical, or none
        _, value = criticality("relu", layer=case.layer).critical
    laws = [each and replace(each, C_W=value) for each in (case.weights, case.first)]
    sigma = "linear; relu*" if case.layer_name == BENT else "relu"
    net = Network(sigma, *laws, layer=case.layer)
    one = replace(case, least=1).inputs(1)
    found = as_deep.law(net, np.broadcast_to(one.reshape(-1, case.width)[0], one.shape), 1)
    finite([found.log_variance, found.quantile(0.5)])


TANGENT = ("Theta1", "A", "B", "D", "F")
TOWER = ("P", "Q")

FUNCTIONS: dict[str, Callable[[Case], object]] = {
    "recursion": recursions,
    "flow: K, Theta": lambda case: flowed(case, ("K", "Theta")),
    "flow: G1, V": lambda case: flowed(case, ("G1", "V")),
    "flow: Theta1, A … F": lambda case: flowed(case, TANGENT),
    "flow: P, Q": lambda case: flowed(case, TOWER),
    "flow: several inputs": lambda case: flowed(case, ("K", "V"), 2),
    "flow: draws": lambda case: flowed(case, ("K", "V"), 2, draws=10),
    "flow: precision": lambda case: flowed(case, ("K", "V"), precision=16),
    "simulate": simulated,
    "simulate: several inputs": lambda case: sampled(case, 2),
    "simulate: explicit": lambda case: sampled(case, 1, sampler="explicit"),
    "compare": compared,
    "write_module": modules,
    "write_c": sources,
    "criticality": critical,
    "asymptotics": deep,
    "deep.law": proportional,
    "spectra: moments": moments,
    "spectra: density": density,
    "training.flow": trained,
    "training.simulate": trained_ensembles,
    "exact": exactly,
}
"""The columns of the table."""


def try_one(layer: str, law: str, function: str, width: int = N, least: int = 1) -> None:
    """Call the function with this layer and law, at this width and with at least so many inputs.

    Raises:
        InputError: where the combination is refused.
        AssertionError: for numbers that are not finite, or that are all zero.
    """
    FUNCTIONS[function](Case(layer, law, width, least))
