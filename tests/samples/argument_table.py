"""Each argument of each public function with a second value, for `tests/test_arguments.py`.

A row is (the arguments of a call, {argument: another value}). What a row's call returns is seen
through `VIEWS`. A value may be `With(value, …)`, both calls having these arguments beside it;
`Same(value)`, of an argument that must not change the result; or `Apart("why")`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import sympy

import derive
import numeric
from derivations.training.data.images import Images, Split
from derive import (
    Gaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Rademacher,
    Uniform,
    activations,
    layers,
    recursion,
    spectra,
)

TANH = activations.tanh
HALF, N = sympy.Rational(1, 2), sympy.Symbol("n", positive=True)
_M = sympy.Symbol("m")
_O, _A, _B = (sympy.MatrixSymbol(name, N, N) for name in "OAB")
X, PAIR = [1.0, 0.5], [[1.0, 0.5], [0.2, -0.7]]


CARRIED = "J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]"


class With:
    """Another value of an argument, in calls that have these arguments beside it."""

    def __init__(self, value: Any, **beside: Any) -> None:
        self.value, self.beside = value, beside


@dataclass(frozen=True)
class Same:
    """A value that must not change the result."""

    value: Any


@dataclass(frozen=True)
class Apart:
    """An argument that is not tried here, and why."""

    why: str


@dataclass(frozen=True)
class Own:
    """A value that is made for each call."""

    made: Any


def through(network: Network, depth: int = 3, inputs: Any = PAIR) -> Any:
    return numeric.flow(network, inputs, depth, ["K", "Theta", "V"])


def of_layer(layer: Any) -> Any:
    axes = getattr(layer, "input_axes", ())
    x = np.arange(1, 2 * np.prod(axes, dtype=int) + 1).reshape(*axes, 2) / 7 if axes else X
    own = len(getattr(layer, "stages", ())) > 1 and not axes
    names = ["K", "Theta", *(["V", "G1"] if own else [])]
    changes = bool(axes) and not layer.readouts and layer.output_axes != axes
    return numeric.flow(Network("relu", layer=layer), x, 2 if changes else 3, names)


def of_weights(law: Any) -> Any:
    return numeric.flow(Network("tanh", law, "gaussian"), PAIR, 3, ["K", "V", "G1"], width=12)


@cache
def tables() -> dict[str, Any]:
    net = Network("tanh")
    simulated = [
        numeric.simulate(net, X, n, 2, 100, tensors=["K", "V"], seed=n) for n in (6, 9, 14)
    ]
    return {
        "flowed": numeric.flow(net, X, 2, ["K", "V"]),
        "other": numeric.flow(net, X, 2, ["K"]),
        "simulated": simulated,
        "fewer": simulated[1:],
    }


def split(seed: int) -> Split:
    rng = np.random.default_rng(seed)
    return Split(*(Images(rng.random((6, 4)), np.arange(6) % 2, 2, "drawn") for _ in range(3)))


@cache
def spectrum(depth: int) -> Any:
    return numeric.spectra.jacobian("tanh", "orthogonal", depth, 1)


def linear(depth: int) -> Own:
    return Own(lambda _: spectra.jacobian("linear", "gaussian", depth))


def derived(name: str) -> Own:
    return Own(lambda _: recursion(name))


def deep(law: str) -> Own:
    return Own(lambda _: numeric.deep.law(Network("relu", law, C_W=2), X, 1))


@cache
def diffusion(law: str, shape: str) -> Any:
    return recursion(["z", "z"], law).diffusion(shape)


def shaped(law: str = "gaussian", shape: str = "sqrt(n)*tanh(z/sqrt(n))") -> Own:
    return Own(lambda _: diffusion(law, shape))


def sampled(width: int) -> Own:
    return Own(lambda _: numeric.deep.simulate(RELU, X, 1, width, 8))


RELU = Network("relu", C_W=2)
KERNEL, VERTEX = (Own(lambda _, name=name: recursion(name).single_input()) for name in "KV")
SPECTRUM, OTHER = (Own(lambda _, depth=depth: spectrum(depth)) for depth in (2, 3))
POOL = ThreadPoolExecutor(2)
RUNS = {
    "executor": Same(POOL),
    "window": With(Same(1), executor=POOL),
    "run": Same(Own(lambda place: place / "run")),
    "progress": Same(True),
}
"""Arguments of every sampler that change no bit of its result."""
NET = Network("tanh")
CHAIN = {"width": 8, "batch": 3, "depth": 2, "draws": 4}
CHAINS = {
    "width": 9,
    "batch": 4,
    "depth": 3,
    "draws": 5,
    "seed": 1,
    "activation": activations.relu,
    "centered": True,
    "normalised": False,
    "inputs": np.eye(3, 5) + 0.1,
    **RUNS,
}
TRAIN = {"net": Network("tanh"), "inputs": PAIR, "targets": [0.3, -0.2], "test": [[0.4, 0.1]]}
SIZED = [[1.0, 0.5, 0.2], [0.2, -0.7, 0.4]]
"""More inputs than neurons of an orthogonal first layer, where n enters layer 1."""
NARROW = {"net": Network("tanh", "orthogonal"), "inputs": SIZED, "test": SIZED[:1], "width": 2}
STOPPED = {"test_targets": [-2], "patience": 1, "steps": [20], "eta": 0.5}
TRAINS = {
    "net": Network("erf"),
    "inputs": [[1.0, 0.5], [0.3, -0.7]],
    "targets": [0.3, -0.1],
    "test": [[0.4, 0.4]],
    "depth": 3,
}
EXACT = {"name": "V", "network": Network("linear", C_b=1), "layer": 2}
EXACTS = {
    "name": "K",
    "network": Network("linear", Orthogonal()),
    "layer": 1,
    "samples": (1, 1, 2, 2),
    "width": With(5, network=Network("linear", Orthogonal())),
    "pairing": With(
        ((0, 2), (1, 3)), name=["z", "z", "z", "z"], samples=(1, 1, 2, 2), pairing=((0, 1), (2, 3))
    ),
    "kernel": {(1, 1): 2},
}
LINEAR = {"m": 2, "widths": (4, 5, 6)}
LINEARS = {"m": 3, "widths": (4, 7, 6), "weights": Orthogonal(), "inputs": 7}

OFFSET = layers.Layer("h[i] = b[i] + W1[i,a] z[a]", "z[i] = W2[i,a] s(h[a])")
JACOBIAN = {"activation": "tanh", "weights": Orthogonal(), "depth": 3, "q_star": 0.3}
JACOBIANS = {
    "activation": "hard_tanh",
    "weights": Orthogonal(C_W=2),
    "depth": 4,
    "q_star": 0.4,
    "critical": False,
    "layer": "residual(skip=1)",
    "C_b": With(1, layer=OFFSET),
}
PARTS = {"weights": Orthogonal(2), "activations": "tanh"}
RESIDUAL = {"skip": HALF, "norm": "rms", "eps": With(HALF, norm="rms"), "C": (2, HALF), **PARTS}
C_WS = {"C_W": 2}


TABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # derive
    "derive.Activation": (
        {"name": "own", "expr": sympy.tanh(derive.symbols.z)},
        {"name": Apart("what it is called"), "expr": sympy.sin(derive.symbols.z)},
    ),
    "derive.BiInvariant": ({"moments": (1, 2, 5)}, {"C_W": 2, "moments": (1, 3, 12)}),
    "derive.Equation": (
        {"text": CARRIED},
        {
            "text": "J[i,k] = 2 W[i,a] W[k,b] s'[a] s'[b] J[a,b]",
            "at_inputs": "identity",
            "using": With(
                (derive.Equation("Q[i] = 2 W[i,a] s[a]"),),
                text="J[i] = W[i,a] s'[a] Q[a]",
                using=(derive.Equation("Q[i] = W[i,a] s[a]"),),
            ),
        },
    ),
    "derive.Gaussian": ({}, C_WS),
    "derive.Independent": ({"distribution": {4: 1}}, {"distribution": {4: 2}, **C_WS}),
    "derive.LowRankGaussian": ({"gamma": HALF}, {"gamma": 1, **C_WS}),
    "derive.LowRankOrthogonal": ({"gamma": HALF}, {"gamma": 1, **C_WS}),
    "derive.Network": (
        {"activation": "tanh", "C_b": HALF},
        {
            "activation": "erf",
            "weights": Orthogonal(),
            "first_weights": Gaussian(2),
            "C_b": 1,
            "lambda_b": 2,
            "lambda_W": 2,
            "width_ratio": lambda layer: layer,
            "C_W_corrections": (1,),
            "C_b_corrections": (1,),
            "widths": (2, 4, 8, 4),
            "layer": "residual(skip=1)",
            "C_W": 2,
        },
    ),
    "derive.Orthogonal": ({}, C_WS),
    "derive.Permuted": (
        {"fourth": 3 / N**2, "row": 1 / N**2, "column": 1 / N**2, "apart": 1 / N**2, "around": 0},
        {
            "fourth": 4 / N**2,
            "row": (1 + 1 / N) / N**2,
            "column": 2 / N**2,
            "apart": (1 + 1 / N) / N**2,
            "around": 1 / N**3,
            "matrix": Apart("how samples are drawn; tests/numeric/test_permuted.py"),
            **C_WS,
        },
    ),
    "derive.Rademacher": ({}, C_WS),
    "derive.RegularSparse": ({"p": HALF}, {"p": sympy.Rational(1, 3), "of": Rademacher(), **C_WS}),
    "derive.Sparse": ({"p": HALF}, {"p": sympy.Rational(1, 3), "of": Uniform(), **C_WS}),
    "derive.StudentT": ({"nu": 9}, {"nu": 7, **C_WS}),
    "derive.Truncated": ({"ratio": 2}, {"ratio": 3, **C_WS}),
    "derive.TruncatedNormal": ({}, {"cut": 1, **C_WS}),
    "derive.Uniform": ({}, C_WS),
    "derive.clear_caches": ({}, {}),
    "derive.cite": ({"which": ("day2025",)}, {"which": ("xiao2018",)}),
    "derive.coset_type": (
        {"p": ((0, 1), (2, 3)), "q": ((0, 1), (2, 3))},
        {"p": ((0, 2), (1, 3)), "q": ((0, 2), (1, 3))},
    ),
    "derive.criticality": (
        {"activation": "gelu"},
        {
            "activation": "tanh",
            "digits": 40,
            "weights": Gaussian(C_W=2),
            "layer": "residual(skip=1/2)",
        },
    ),
    "derive.haar_moment": (
        {"rows": [1, 1, 1, 1], "cols": [1, 1, 2, 2], "n": 5},
        {
            "rows": [1, 1, 2, 2],
            "cols": [1, 1, 1, 1],
            "n": 6,
            "group": With("Sp", rows=[1, 1], cols=[1, 1], n=4),
            "conj_rows": With([2], group="U", rows=[1], cols=[1], conj_rows=[1], conj_cols=[1]),
            "conj_cols": With([2], group="U", rows=[1], cols=[1], conj_rows=[1], conj_cols=[1]),
            "distinct": With(True, rows=sympy.symbols("i i j j"), cols=[1, 1, 1, 1]),
        },
    ),
    "derive.pair_partitions": ({"points": 4}, {"points": 6}),
    "derive.recursion": (
        {"tensor_name": "V"},
        {
            "tensor_name": "K",
            "weights": "orthogonal",
            "pairing": With("02 13", tensor_name=["z", "z", "H"], pairing="01 23"),
            "order": With(1, tensor_name=["z", "z"]),
            "activation": "relu",
            "first_layer": True,
            "equal_widths": False,
            "corrections": With(1, tensor_name="G1"),
            "layer": "residual(skip=1)",
            "square": False,
        },
    ),
    "derive.trace_moment": (
        {"words": _O * _A * _O.T * _B, "random": _O},
        {"words": _O * _A * _O * _B, "random": _A, "law": "Ginibre"},
    ),
    "derive.trace_series": (
        {"expression": 1 / (N + 1), "n": N, "order": 2},
        {
            "expression": 1 / (N + 2),
            "n": With(_M, expression=1 / (_M + 2)),
            "order": 3,
        },
    ),
    "derive.weingarten": (
        {"partition": (2, 1), "n": 7},
        {"partition": (3,), "n": 8, "group": "U"},
    ),
    # derive.activations
    "derive.activations.as_activation": (
        {"value": "tanh"},
        {"value": "erf", "argument": Apart("the name in an error")},
    ),
    "derive.activations.by_name": ({"text": "tanh"}, {"text": "relu"}),
    "derive.activations.erf_scaled": ({"scale": 1}, {"scale": 2}),
    "derive.activations.from_expr": ({"expr": "tanh(z)"}, {"expr": "sin(z)", "name": "own"}),
    "derive.activations.leaky_relu": ({"slope": HALF}, {"slope": 2}),
    "derive.activations.monomial": ({"power": 1}, {"power": 2}),
    "derive.activations.names": ({}, {}),
    "derive.activations.elu": ({}, {"alpha": 2}),
    "derive.activations.sine": ({"frequency": 1}, {"frequency": 2}),
    "derive.activations.polynomial": ({"coefficients": (0, 1)}, {"coefficients": (0, 2)}),
    # derive.batchnorm
    "derive.batchnorm.contraction_rate": ({}, {}),
    "derive.batchnorm.stationary_gap": ({}, {"moment": 1, "terms": 1}),
    # derive.exact
    "derive.exact.component": (
        {"fields": ["z"] * 4, "neurons": [1, 1, 2, 2], "network": Network("linear"), "layer": 2},
        {
            "fields": ["z", "dH"],
            "neurons": [1, 1, 1, 1],
            "network": Network("linear", Gaussian(2)),
            "layer": 3,
            "samples": (1, 1, 2, 2),
            "width": 5,
            "inputs": With(7, network=Network("linear", Orthogonal()), width=5),
            "kernel": {(1, 1): 2},
        },
    ),
    "derive.exact.cumulant": (
        EXACT,
        {**EXACTS, "inputs": With(7, network=Network("linear", Orthogonal()), width=5)},
    ),
    "derive.exact.moment_factor": (
        {"m": 2, "activation": activations.relu, "weights": Gaussian()},
        {"m": 1, "activation": activations.linear, "weights": Orthogonal(), "width": 5},
    ),
    "derive.exact.row_sum": (
        {"weights": Gaussian(), "k": 2, "n_in": 5, "n_out": 5},
        {"weights": Orthogonal(), "k": 1, "n_in": 6, "n_out": With(7, weights=Orthogonal())},
    ),
    "derive.exact.scale_invariant_moment": (
        {"m": 2, "network": Network("relu"), "layer": 2},
        {
            "m": 1,
            "network": Network("linear"),
            "layer": 3,
            "width": 5,
            "inputs": With(7, network=Network("relu", Orthogonal()), width=5),
        },
    ),
    "derive.exact.series": (
        {**EXACT, "order": 1},
        {
            **{key: value for key, value in EXACTS.items() if key not in {"width", "inputs"}},
            "order": 2,
            "inputs_ratio": With(2, network=Network("linear", Orthogonal())),
        },
    ),
    "derive.exact.vertex": (
        {"network": Network("relu"), "layer": 2},
        {
            "network": Network("linear"),
            "layer": 3,
            "width": 5,
            "inputs": With(7, network=Network("relu", Orthogonal()), width=5),
        },
    ),
    # derive.layers
    "derive.layers.Layer": (
        {"lines": ("h[i] = W1[i,a] z[a]", "z[i] = g z[i] + W2[i,a] s(h[a])"), "g": HALF},
        {
            "lines": ("h[i] = W1[i,a] z[a]", "z[i] = g z[i] + 2 W2[i,a] s(h[a])"),
            "C": {"W1": 2},
            "ratio": {"h": 2},
            "label": Apart("what it is called"),
            "taps": Apart("what `convolution` gives it"),
            "readout": Apart("what `convolution` gives it"),
            "keep": Apart("what `dropout` gives it"),
            "tables": Apart("what `attention` gives it; tests/derive/test_attention.py"),
            "positions": Apart("of layers with attention; tests/derive/test_attention.py"),
            "values": Apart("g among them, and tests/derive/test_layers.py"),
            **PARTS,
        },
    ),
    "derive.layers.attention": (
        {"heads": 4, "positions": 3},
        {
            "heads": 2,
            "positions": 4,
            "scores": "1/sqrt(d)",
            "score": "sigmoid",
            "mask": "causal",
            "bias": np.arange(9.0).reshape(3, 3),
            "skip": HALF,
            "norm": "rms",
            "eps": With(HALF, norm="rms"),
            "C": (1, 2, 3, 4),
            "keys": 2,
            "tied": True,
            "key_norm": True,
            "weights": {"Q": "orthogonal"},
        },
    ),
    "derive.layers.transformer": (
        {"heads": 4, "positions": 3},
        {
            "heads": 2,
            "positions": 4,
            "ratio": 2,
            "norm": "layer",
            "eps": HALF,
            "skip": HALF,
            "activations": "relu",
            "weights": "orthogonal",
            "parallel": True,
            "given": Apart("those of `attention`"),
        },
    ),
    "derive.layers.around": (
        {"block": "gated"},
        {
            "block": "normalized(rms)",
            "skip": HALF,
            "norm": "rms",
            "eps": With(HALF, norm="rms"),
            "label": Apart("what it is called"),
            "projected": True,
        },
    ),
    "derive.layers.as_layer": ({"given": "dense"}, {"given": "normalized(rms)"}),
    "derive.layers.as_period": ({"given": "dense; gated*"}, {"given": "normalized(rms)"}),
    "derive.layers.by_depth": (
        {"block": "dense", "stem": "normalized(rms)"},
        {"block": "gated", "stem": "gated", "head": "gated"},
    ),
    "derive.layers.convolution": (
        {"size": 3, "positions": 4},
        {
            "size": 2,
            "positions": 5,
            "weights": With("orthogonal", size=4),
            "boundary": "zero",
            "readout": "pooling",
            "norm": "rms",
            "eps": With(HALF, norm="rms"),
            "law": Orthogonal(2),
            "activations": "tanh",
            "stride": 2,
            "padding": 0,
            "dilation": With(2, boundary="zero"),
        },
    ),
    "derive.layers.dense": ({}, PARTS),
    "derive.layers.batchnorm": (
        {},
        {"eps": HALF, "center": False, "affine": (2, 1), "behind": True, **PARTS},
    ),
    "derive.layers.dropout": ({"keep": HALF}, {"keep": sympy.Rational(1, 3)}),
    "derive.layers.flattening": ({"positions": 4}, {"positions": 5}),
    "derive.layers.gated": ({}, {**RESIDUAL, "C": (1, 2, HALF)}),
    "derive.layers.mix": (
        {"A": ([[1, 2], [0, 1]],)},
        {
            "A": ([[1, 2], [1, 1]],),
            "normalization": "mean",
            "law": Orthogonal(2),
            "activations": "tanh",
        },
    ),
    "derive.layers.normalized": ({"norm": "rms"}, {"norm": "layer", "eps": HALF, **PARTS}),
    "derive.layers.pooling": (
        {"positions": 4},
        {"positions": 5, "size": 2, "stride": With(1, size=2)},
    ),
    "derive.layers.read": ({"text": "gated"}, {"text": "normalized(rms)"}),
    "derive.layers.residual": ({}, {**RESIDUAL, "ratio": 2}),
    "derive.layers.sequence": (
        {"blocks": ("gated", "dense")},
        {"blocks": ("gated", "residual(norm=rms)")},
    ),
    "derive.layers.skip": (
        {"gamma": HALF},
        {"gamma": 1, "norm": "rms", "eps": With(HALF, norm="rms"), **PARTS},
    ),
    # derive.linear
    "derive.linear.chain": (
        {"widths": (4, 5), "weights": Gaussian(), "inputs": None},
        {"widths": (4, 6), "weights": Orthogonal(), "inputs": 3},
    ),
    "derive.linear.connected": (LINEAR, {**LINEARS, "inputs": With(7, weights=Orthogonal())}),
    "derive.linear.contraction_factor": ({"m": 2, "n": 5}, {"m": 3, "n": 6}),
    "derive.linear.correlator": (LINEAR, {**LINEARS, "inputs": With(7, weights=Orthogonal())}),
    "derive.linear.cumulants": ({"moments": [1, 3]}, {"moments": [1, 4]}),
    "derive.linear.loop_census": ({"m": 2}, {"m": 3}),
    "derive.linear.row_sum": (
        {"weights": Gaussian(), "m": 2, "n_in": 5, "n_out": 5},
        {"weights": Orthogonal(), "m": 1, "n_in": 6, "n_out": With(7, weights=Orthogonal())},
    ),
    # derive.deep
    "derive.deep.diffusion": (
        {"made": Own(lambda _: recursion(["z", "z"])), "shape": "z*(1 + 1/n)"},
        {
            "made": Own(lambda _: recursion(["z", "z"], "orthogonal")),
            "shape": "sqrt(n)*tanh(z/sqrt(n))",
            "variance": "1 + 1/n",
        },
    ),
    "derive.deep.growth": (
        {"activation": "relu"},
        {"activation": "tanh", "weights": "orthogonal", "layer": "dropout(1/2)"},
    ),
    "derive.deep.walk": ({"net": RELU}, {"net": Network("linear")}),
    # derive.propagation
    "derive.propagation.chi": (
        {"net": NET, "q": 1},
        {
            "net": Network("erf"),
            "q": 2,
            "layer": With(1, net=Network("tanh", first_weights=Gaussian(2))),
        },
    ),
    "derive.propagation.chi_parallel": (
        {"net": NET, "q": 1},
        {
            "net": Network("erf"),
            "q": 2,
            "layer": With(1, net=Network("tanh", first_weights=Gaussian(2))),
        },
    ),
    "derive.propagation.correlation_map": (
        {"net": NET, "c": HALF, "q": 1},
        {"net": Network("erf"), "c": 0.3, "q": 2},
    ),
    "derive.propagation.correlation_slope": (
        {"net": NET, "c": HALF, "q": 1},
        {"net": Network("erf"), "c": 0.3, "q": 2},
    ),
    "derive.propagation.covariance_map": (
        {"net": NET, "kernel": (1, 0.5, 1)},
        {
            "net": Network("erf"),
            "kernel": (1, 0.4, 1),
            "layer": With(1, net=Network("tanh", first_weights=Gaussian(2))),
        },
    ),
    "derive.propagation.depth_scales": (
        {"net": Network("tanh", Gaussian(2))},
        {"net": Network("tanh", Gaussian(3))},
    ),
    "derive.propagation.edge_of_chaos": (
        {"activation": "erf", "points": 3},
        {
            "activation": "tanh",
            "gamma": HALF,
            "lengths": With([0, 1], points=None),
            "points": With(4, lengths=[0, 1], points=None),
        },
    ),
    "derive.propagation.equations": ({}, {"weights": Same(LowRankOrthogonal(gamma=HALF))}),
    "derive.propagation.fixed_points": (
        {"net": Network("tanh", Gaussian(2))},
        {"net": Network("tanh", Gaussian(3))},
    ),
    "derive.propagation.gradients": (
        {"net": Network("relu", LowRankOrthogonal(gamma=HALF), C_b=1), "lengths": [1, 0.5]},
        {
            "net": Network("erf"),
            "lengths": With([0.8, 0.5], net=Network("tanh")),
            "gamma": [HALF, 1],
            "overlap": 1,
            "biases": With("direction", overlap=1),
        },
    ),
    "derive.propagation.kernels": (
        {"net": NET, "kernel": (1, 0.5, 1), "depth": 3},
        {
            "net": Network("erf"),
            "kernel": (1, 0.4, 1),
            "depth": 4,
            "gamma": With([1, HALF, HALF], net=Network("tanh", LowRankOrthogonal(gamma=1))),
        },
    ),
    "derive.propagation.length_map": (
        {"net": NET, "q": 1},
        {
            "net": Network("erf"),
            "q": 2,
            "layer": With(1, net=Network("tanh", first_weights=Gaussian(2))),
        },
    ),
    "derive.propagation.lengths": (
        {"net": NET, "q": 1, "depth": 3},
        {
            "net": Network("erf"),
            "q": 2,
            "depth": 4,
            "gamma": With([1, HALF, HALF], net=Network("tanh", LowRankOrthogonal(gamma=1))),
        },
    ),
    "derive.propagation.network": (
        {"activation": "tanh", "sigma_alpha_sq": 1},
        {"activation": "erf", "sigma_alpha_sq": 2, "sigma_b_sq": 1, "gamma": HALF},
    ),
    # derive.spectra
    "derive.spectra.jacobian": (JACOBIAN, JACOBIANS),
    "derive.spectra.jacobian_moments": (
        {"order": 2},
        {
            "order": 3,
            "depth": 4,
            "weight_variance": 2,
            "slopes": (1, 2),
            "weights": (-1,),
        },
    ),
    "derive.spectra.jacobian_variance": ({}, {"depth": 4, "weight_variance": 2}),
    "derive.spectra.layered": (
        {"layers": [("relu", Orthogonal(), None)]},
        {"layers": [("relu", Orthogonal(2), None)]},
    ),
    "derive.spectra.limit": (
        {"kind": "leaky", "ratio": HALF},
        {"kind": With("smooth", kind="bernoulli", ratio=None), "sigma": HALF, "ratio": 2},
    ),
    "derive.spectra.of_network": (
        {"net": NET, "q_first": 1, "depth": 3},
        {"net": Network("erf"), "q_first": 2, "depth": 4},
    ),
    "derive.spectra.slope_law": (
        {"activation": "tanh", "variance": 1},
        {"activation": "erf", "variance": 2, "argument": Apart("the name in an error")},
    ),
    "derive.spectra.weight_law": ({"weights": Gaussian()}, {"weights": Gaussian(2)}),
    "derive.spectra.zero_padded": (
        {"activation": "tanh", "gamma": HALF, "depth": 3, "q_star": 1},
        {"activation": "erf", "gamma": 1, "depth": 4, "q_star": 2},
    ),
    # derive.symbols
    **{
        f"derive.symbols.{name}": ({argument: one}, {argument: other})
        for name, argument, one, other in (
            ("constant", "name", "K", "V"),
            ("parameter", "name", "K", "V"),
            ("real", "name", "K", "V"),
            ("slope_moment", "k", 1, 2),
            ("tensor", "name", "K", "V"),
            ("trace_moment", "j", 1, 2),
            ("weight_coefficient", "k", 1, 2),
        )
    },
    # derive.training
    "derive.training.covariance": ({}, {"order": 0}),
    "derive.training.ntk": ({}, {"order": 0}),
    "derive.training.posterior": ({}, {"name": "covariance", "order": 0}),
    "derive.training.prediction": ({}, {"order": 0}),
    # numeric
    "numeric.compare": (
        {"flowed": "flowed", "simulated": "simulated"},
        {
            "flowed": "other",
            "simulated": "fewer",
            "false_alarms": 1e-3,
            "degree": 1,
        },
    ),
    "numeric.flow": (
        {"net": NET, "inputs": PAIR, "depth": 3, "tensors": ["K", "V"]},
        {
            "net": Network("erf"),
            "inputs": X,
            "depth": 4,
            "tensors": ["K"],
            "width": With(4, net=Network("tanh", "orthogonal"), inputs=SIZED, width=2),
            "parameters": With(
                {"a": 2},
                tensors=Own(lambda _: [recursion(["z", derive.Equation("J[i] = a W[i,j] s[j]")])]),
                inputs=X,
                parameters={"a": 1},
            ),
            "precision": With(20, inputs=X, tensors=["K"]),
            "seconds": Apart("a budget; tests/numeric/test_cancelling.py"),
            "positions": With([1], net=Network("tanh", layer="convolution(2, 2)")),
            "draws": 10,
        },
    ),
    "numeric.normalise": ({"table": "flowed"}, {"table": "other"}),
    "numeric.plot": ({"table": "flowed"}, {"table": "other", "tensors": "K"}),
    "numeric.simulate": (
        {"net": NET, "inputs": X, "width": 8, "depth": 2, "draws": 10, "tensors": ["K", "V"]},
        {
            "net": Network("erf"),
            "inputs": [1.0, 0.4],
            "width": 9,
            "depth": 3,
            "draws": 12,
            "tensors": ["K"],
            "seed": 1,
            "device": Apart("a GPU; tests/numeric/test_cuda.py"),
            "sampler": "explicit",
            "parameters": Apart("tests/numeric/test_equation_ensembles.py"),
            "positions": With([1], net=Network("tanh", layer="convolution(2, 2)"), inputs=PAIR),
            **RUNS,
        },
    ),
    "numeric.study": (
        {"net": NET, "inputs": X, "depth": 2, "widths": (6, 9), "draws": 10, "tensors": ["K"]},
        {
            "net": Network("erf"),
            "inputs": [1.0, 0.4],
            "depth": 3,
            "widths": (6, 12),
            "draws": 12,
            "tensors": ["V"],
            "seed": 1,
            **RUNS,
        },
    ),
    "numeric.write_c": (
        {"made": KERNEL, "activation": "tanh", "path": Own(lambda place: place / "k.c")},
        {
            "made": VERTEX,
            "activation": "erf",
            "path": Own(lambda place: place / "other.c"),
            "first_weights": With(Orthogonal(), made=VERTEX),
        },
    ),
    "numeric.write_module": (
        {"made": derived("K"), "activation": "tanh", "path": Own(lambda place: place / "k.py")},
        {
            "made": derived("V"),
            "activation": "erf",
            "path": Own(lambda place: place / "other.py"),
            "first_weights": With(Orthogonal(), made=derived("V")),
        },
    ),
    # derivations.daneshmand.ensembles
    "derivations.ensembles.grams": (CHAIN, CHAINS),
    "derivations.ensembles.simulate": (CHAIN, CHAINS),
    "derivations.batchnorm.train": (
        {
            "images": np.eye(6),
            "labels": np.arange(6) % 3,
            "width": 8,
            "depth": 2,
            "batch": 3,
            "epochs": 2,
            "draws": 2,
        },
        {
            "images": np.eye(6) + 0.1,
            "labels": np.arange(6) % 2,
            "width": 9,
            "depth": 3,
            "kind": Apart(
                "its images have another shape; tests/derivations/test_batchnorm_training.py"
            ),
            "start": "orthogonal",
            "normalised": True,
            "clip": 1e-3,
            "eta": 0.02,
            "batch": 6,
            "epochs": 3,
            "draws": 3,
            "seed": 1,
            "run": RUNS["run"],
            "progress": RUNS["progress"],
        },
    ),
    # numeric.deep
    "numeric.deep.compare": (
        {"law": deep("gaussian"), "samples": sampled(4)},
        {"law": deep("orthogonal"), "samples": sampled(5), "alarm": 0.5},
    ),
    "numeric.deep.law": (
        {"net": RELU, "inputs": X, "ratio": 1},
        {"net": Network("linear"), "inputs": [1.0, 0.4], "ratio": 2},
    ),
    "numeric.deep.falling": (
        {"net": Network("tanh"), "ratio": 1},
        {"net": Network("sin"), "ratio": 2},
    ),
    "numeric.deep.half_dead": (
        {"net": RELU, "width": 4},
        {"net": Network("linear"), "width": 5},
    ),
    "numeric.deep.resum": (
        {"coefficients": [1, 1], "ratio": 0.1},
        {"coefficients": [1, 2], "ratio": 0.2},
    ),
    "numeric.deep.moments": (
        {"diffusion": shaped(shape="z*(1 + 1/n)"), "kernel": np.eye(2), "ratio": 1},
        {
            "diffusion": shaped("orthogonal", "z*(1 + 1/n)"),
            "kernel": np.eye(2) + 0.1,
            "ratio": 2,
            "order": 1,
        },
    ),
    "numeric.deep.paths": (
        {"diffusion": shaped(), "kernel": np.eye(2), "ratio": 1, "draws": 2, "steps": 4},
        {
            "diffusion": shaped("orthogonal"),
            "kernel": np.eye(2) + 0.1,
            "ratio": 2,
            "draws": 3,
            "steps": 6,
            "seed": 1,
        },
    ),
    "numeric.deep.simulate": (
        {"net": RELU, "inputs": X, "ratio": 1, "width": 4, "draws": 2},
        {
            "net": Network("tanh"),
            "inputs": [1.0, 0.4],
            "ratio": 2,
            "width": 5,
            "draws": 3,
            "depth": 3,
            "seed": 1,
        },
    ),
    # numeric.init
    "numeric.init.gain": (
        {"activation": "tanh"},
        {
            "activation": "erf",
            "layer": "residual(skip=1/2)",
            "C_W": With(2, layer="residual(skip=1, norm=rms)"),
            "K": With(2, activation="gelu"),
        },
    ),
    "numeric.init.jax_initializer": ({}, Apart("a framework; tests/init/test_jax.py")),
    "numeric.init.torch_": ({}, Apart("a framework; tests/init/test_torch.py")),
    "numeric.models.coordinate_check": (
        {},
        Apart("a framework; tests/numeric/test_models_coordinates.py"),
    ),
    "numeric.models.read": ({}, Apart("a framework; tests/numeric/test_models.py")),
    "numeric.models.report": ({}, Apart("a framework; tests/numeric/test_models.py")),
    # numeric.spectra
    "numeric.spectra.jacobian": (JACOBIAN, JACOBIANS),
    "numeric.spectra.layered": (
        {"layers": [("relu", Orthogonal(), None)]},
        {"layers": [("relu", Orthogonal(2), None)]},
    ),
    "numeric.spectra.limit": (
        {"kind": "leaky", "sigma0": 0.4, "ratio": HALF},
        {"kind": With("smooth", kind="bernoulli", ratio=None), "sigma0": HALF, "ratio": 2},
    ),
    "numeric.spectra.of_network": (
        {"net": NET, "q_first": 1, "depth": 3},
        {"net": Network("erf"), "q_first": 2, "depth": 4},
    ),
    "numeric.spectra.simulate": (
        {"net": NET, "q_first": 1, "width": 8, "depth": 2, "draws": 3},
        {
            "net": Network("erf"),
            "q_first": 2,
            "width": 9,
            "depth": 3,
            "draws": 4,
            "layers": [1, 2],
            "moments": 3,
            "singular_values": False,
            "zero_padded": With(True, net=Network("tanh", LowRankOrthogonal(gamma=HALF))),
            "importance": True,
            "innovations": True,
            "seed": 1,
            **RUNS,
        },
    ),
    "numeric.spectra.weight_matrix": (
        {"weights": LowRankOrthogonal(gamma=HALF), "n": 4, "rng": Own(lambda place: rng(0))},
        {
            "weights": LowRankOrthogonal(2, gamma=HALF),
            "n": 6,
            "rng": Own(lambda place: rng(1)),
            "zero_padded": True,
        },
    ),
    "numeric.spectra.zero_padded": (
        {"activation": "tanh", "gamma": HALF, "depth": 3, "q_star": 1},
        {"activation": "erf", "gamma": 1, "depth": 4, "q_star": 2},
    ),
    # the book
    "derivations.training.curves": (
        {"net": NET, "split": split(0), "width": 4, "depth": 2, "eta": 0.1, "epochs": [0, 2]},
        {
            "net": Network("erf"),
            "split": split(1),
            "width": 5,
            "depth": 3,
            "eta": 0.2,
            "epochs": [0, 3],
            "draws": 9,
            "seed": 1,
            "optimizer": "adam",
            "loss": "cross-entropy",
            "batch": 3,
            "clip": 1e-3,
            "probe": 2,
            "executor": RUNS["executor"],
            "run": RUNS["run"],
            "progress": RUNS["progress"],
        },
    ),
    # numeric.training
    "numeric.training.flow": (
        {**TRAIN, "depth": 2, "eta": 0.1, "steps": [3]},
        {
            **TRAINS,
            "eta": 0.2,
            "steps": [4],
            "outputs": With(2, targets=[[0.3], [-0.2]]),
            "half": False,
            "only": ["ntk"],
            "width": With(4, **NARROW),
        },
    ),
    "numeric.training.learning_rate": (
        {"net": NET, "inputs": PAIR, "depth": 2},
        {
            "net": Network("erf"),
            "inputs": X,
            "depth": 3,
            "width": With(4, net=Network("tanh", "orthogonal"), inputs=SIZED, width=2),
            "seconds": Apart("a budget, as that of flow"),
        },
    ),
    "numeric.training.posterior": (
        {**TRAIN, "depth": 2},
        {
            **TRAINS,
            "noise": 0.1,
            "outputs": With(2, targets=[[0.3], [-0.2]]),
            "width": With(4, **NARROW),
        },
    ),
    "numeric.training.simulate": (
        {**TRAIN, "width": 6, "depth": 2, "steps": [3], "draws": 4},
        {
            **TRAINS,
            "width": 7,
            "eta": 0.2,
            "steps": [4],
            "draws": 6,
            "seed": 1,
            "outputs": 2,
            "optimizer": "adam",
            "loss": With("cross-entropy", targets=[[1, 0], [0, 1]], outputs=2),
            "batch": With(1, optimizer="adam"),
            "clip": With(1e-3, optimizer="adam"),
            "patience": With(3, **STOPPED),
            "test_targets": With([3], **STOPPED),
            "half": False,
            "ntk": False,
            "antithetic": False,
            **RUNS,
        },
    ),
    # methods
    "Network.critical": (
        {"activation": "tanh"},
        {
            "activation": "relu",
            "weights": "orthogonal",
            "first_weights": "orthogonal",
            "others": Apart("those of Network"),
        },
    ),
    "Recursion.asymptotics": (
        {"made": derived("Theta"), "activation": TANH, "terms": 1},
        {
            "made": derived("K"),
            "activation": activations.relu,
            "terms": 2,
            "lambda_b": With(2, made=derived("Theta"), activation=activations.relu),
            "lambda_W": 2,
            "C_b": With(HALF, C_b=0.1, C_W=1.2),
            "C_W": With(1.3, C_b=0.1, C_W=1.2),
            "point": With(
                Own(lambda _: derive.criticality("gelu").points[1]), activation=activations.gelu
            ),
            "stem": Apart("that of the recursion"),
            "head": Apart("that of the recursion"),
        },
    ),
    "Recursion.kernel_form": ({"self": VERTEX}, {"self": KERNEL, "data": (1, 2)}),
    "Recursion.latex": (
        {"self": derived("V")},
        {"self": derived("K"), "expr": derive.symbols.K, "width": None},
    ),
    "Recursion.specialise": (
        {"self": KERNEL, "activation": "tanh"},
        {"self": VERTEX, "activation": "erf"},
    ),
    "Spectrum.cumulative": (
        {"self": SPECTRUM, "eigenvalues": [0.5, 1]},
        {"self": OTHER, "eigenvalues": [0.6, 1], "points": 100},
    ),
    "Spectrum.curve": ({"self": SPECTRUM, "points": 9}, {"self": OTHER, "points": 10}),
    "Spectrum.density": (
        {"self": SPECTRUM, "eigenvalues": [0.5, 1]},
        {"self": OTHER, "eigenvalues": [0.6, 1]},
    ),
    "Spectrum.moments": ({"self": SPECTRUM, "order": 2}, {"self": OTHER, "order": 3}),
    "Spectrum.table": (
        {"self": SPECTRUM, "eigenvalues": [0.5]},
        {"self": OTHER, "eigenvalues": [0.6], "order": 3, "precision": 20},
    ),
}


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def figures(figure: Any) -> Any:
    return [
        [np.asarray(line.get_data()) for line in axes.get_lines()] for axes in figure.get_axes()
    ]


VIEWS = {
    "derive.Activation": lambda made: made.expr,
    **{
        f"derive.{name}": of_weights
        for name in (
            *("BiInvariant", "Gaussian", "LowRankGaussian", "LowRankOrthogonal", "Orthogonal"),
            *("Permuted", "Rademacher", "RegularSparse", "Sparse", "StudentT", "Truncated"),
            *("TruncatedNormal", "Uniform", "Independent"),
        )
    },
    "derive.Network": through,
    "derive.recursion": lambda made: made.expr,
    **{
        f"derive.layers.{name}": of_layer
        for name in (
            *("Layer", "around", "as_layer", "as_period", "convolution", "dense", "dropout"),
            *("gated", "normalized", "read", "residual", "sequence", "skip", "by_depth"),
        )
    },
    "derive.deep.diffusion": lambda found: [found.drift, found.noise],
    "derive.deep.walk": lambda found: [found.factor, found.drift, found.spread],
    "derive.spectra.jacobian": lambda law: [law.moment(k) for k in (1, 2)],
    "derive.criticality": lambda found: [(each.C_W, each.C_b, str(each)) for each in found.points],
    "numeric.deep.compare": lambda found: [*found.table.to_array().to_numpy().flat, found.alarm],
    "numeric.deep.falling": lambda law: law.inverse_moment(),
    "numeric.deep.law": lambda law: [law.start, law.log_mean, law.log_variance],
    "numeric.deep.paths": lambda found: found.values,
    "numeric.deep.resum": lambda found: [found.value, found.error],
    "numeric.deep.simulate": lambda made: made.values,
    "numeric.plot": figures,
    "numeric.write_c": lambda paths: [(each.name, each.read_text("utf-8")) for each in paths],
    "numeric.write_module": lambda path: (path.name, path.read_text("utf-8")),
}

SLOW = {
    *(("Spectrum.table", each) for each in ("self", "eigenvalues", "order", "precision")),
    ("Spectrum.cumulative", "self"),
    *(("numeric.deep.compare", each) for each in ("law", "samples", "alarm")),
    ("numeric.training.flow", "net"),
}
"""Calls of some processor seconds."""
