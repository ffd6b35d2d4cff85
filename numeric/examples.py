"""Networks to try the theory on: drawn at random, and made simpler while they still show a fault.

All choices are among finite lists, the simplest first, by a function `choose`: a random number
generator's here, hypothesis's in `testing`. What is drawn can be typed on the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import sympy

from derive import activations, layers
from derive.activations.functions import Activation
from derive.errors import as_integer
from derive.expressions import parse_layer_expression
from derive.layers.layer import Layer
from derive.layers.per_layer import PerLayer
from derive.network import Network
from derive.recursions import Wanted
from derive.symbols import layer
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)

from .arrays import Array
from .checks import checked_inputs
from .checks import seed as checked_seed

T = TypeVar("T")


class Choose(Protocol):
    """Takes one of some options."""

    def __call__(self, options: Sequence[T], /) -> T:
        """One of them."""


@dataclass(frozen=True)
class OfLayer:
    """A function of the layer by its text, such as 1/l: one that can be printed and sent."""

    text: str

    def __call__(self, at: int) -> sympy.Expr:
        """The value at this layer."""
        return parse_layer_expression("text", self.text).subs(layer, at)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Example:
    """A network, what goes in and what is looked at.

    Arguments:
        net: the network, with numbers for all its parameters.
        inputs: (n_0,) for one sample or (m, n_0) for m; as in `flow`, of a network of convolutions.
        depth: layers.
        tensors: names, or recursions of a user's own fields.
        seed: of the ensembles.
    """

    net: Network
    inputs: Array = field(repr=False)
    depth: int
    tensors: tuple[Wanted, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", checked_inputs(self.inputs, self.net.layer).given)

    @property
    def samples(self) -> int:
        """How many vectors go in, those at the positions of signals each by itself."""
        return int(self.inputs.size // self.inputs.shape[-1])

    def __str__(self) -> str:
        net = self.net
        n_0, samples = self.inputs.shape[-1], self.samples
        rates = f"λ_W={net.lambda_W}, λ_b={net.lambda_b}"
        names = ", ".join(map(str, self.tensors))
        count = f"{samples} input" + "s" * (samples > 1)
        return f"{net}, {rates}; {count} of size {n_0}, depth {self.depth}: {names}"


SMOOTH = ("linear", "tanh", "sin", "erf", "gelu", "sigmoid", "softplus", "polynomial(0,1,1/4)")
KINKED = ("relu", "leaky_relu(1/10)", "hard_tanh")
FORMS = (
    "expr: {a}*tanh({b}*z)",
    "expr: sin({b}*z + {a})",
    "expr: z/2 + {a}*erf({b}*z)",
    "expr: {a}*tanh(z) + {b}*z**2/4",
)
COEFFICIENTS = ("1", "1/2", "3/2", "3/4")
"""Activations by name, and random ones by their expression."""

DENSE = ("dense()",)
NORMS = ("normalized(rms)", "normalized(layer)", "normalized(rms, eps=1/10)")
BLOCKS = (
    "residual(skip=1/2)",
    "residual(skip=1, norm=rms)",
    "residual(skip=1/2, norm=layer, ratio=2)",
    "gated(norm=rms)",
    "gated(skip=1/2, norm=rms, C=(1, 3/2, 1))",
)
"""Layers, most of them dense."""

WEIGHT_VARIANCES = ("1", "1/2", "3/2")
BIAS_VARIANCES = ("0", "1/10", "1/2")
WEIGHT_RATES: tuple[PerLayer, ...] = (1, sympy.Rational(1, 2), OfLayer("2/(l + 1)"))
BIAS_RATES: tuple[PerLayer, ...] = (1, 0, OfLayer("1/l"))
SIZES = (2, 3, 5, 8)
DEPTHS = (2, 3, 4)

Names = tuple[str, ...]
FIRST_DERIVATIVES: tuple[Names, ...] = (
    ("K", "V"),
    ("G1", "V"),
    ("Theta", "D", "F", "A", "B"),
    ("Theta1",),
)
"""Tensors that an activation with kinks has; few sets, so that little is compiled."""
ALL_DERIVATIVES: tuple[Names, ...] = (*FIRST_DERIVATIVES, ("P", "Q"), ("R", "S", "T", "U"))
OF_LAYERS: tuple[Names, ...] = (("K", "V"), ("K", "V"), ("G1", "V"), ("Theta", "D", "F", "A", "B"))
"""Of other layers than the dense one, whose tower costs more: they are followed by probes."""
OF_TWO_INPUTS: tuple[Names, ...] = (("K", "V"),)
WITH_TWO_INPUTS = ("linear", "relu", "tanh")
"""Tensors of two inputs, and the networks that have them."""

LARGEST_SEED = 2**31 - 1
_MANY = 8  # one network in so many has two inputs


def draw_activation(choose: Choose) -> Activation:
    """A smooth activation, one with kinks, or a random smooth expression."""
    names = choose((SMOOTH, SMOOTH, KINKED, FORMS))
    name = choose(names)
    if names is FORMS:
        name = name.format(a=choose(COEFFICIENTS), b=choose(COEFFICIENTS))
    return activations.by_name(name)


ANY_WIDTH, SIXTHS = (1,), (6,)
"""Widths at which ranks are checked: integer ranks there are integers at every multiple."""


def draw_ensemble(choose: Choose, widths: Sequence[int] = SIXTHS) -> WeightEnsemble:
    """An ensemble with integer ranks at these widths; half are Gaussian or orthogonal."""
    C_W = sympy.Rational(choose(WEIGHT_VARIANCES))
    half, third = sympy.Rational(1, 2), sympy.Rational(1, 3)
    plain = (Gaussian(C_W), Orthogonal(C_W))
    rare = (
        Truncated(C_W, ratio=2),
        LowRankGaussian(C_W, gamma=half),
        LowRankOrthogonal(C_W, gamma=2 * third),
        BiInvariant(C_W, moments=(2, 5, 14)),
    )
    fitting: tuple[WeightEnsemble, ...] = tuple(
        each for each in rare if all(_allows(each, n) for n in widths)
    )
    if len(fitting) == 1:  # would take fewer choices than the plainest
        fitting += plain
    return choose(choose((plain, fitting)))


def _allows(weights: WeightEnsemble, width: int) -> bool:
    """True if square matrices of this width have a whole rank, and moments that divide it."""
    if isinstance(weights, LowRankGaussian | LowRankOrthogonal):
        return bool(sympy.sympify(weights.gamma) * width % 1 == 0)
    return not isinstance(weights, BiInvariant) or width % len(weights.moments) == 0


def draw_layer(choose: Choose, *, centred: bool = True) -> Layer:
    """The dense layer, or one with a norm, a skip or a gate; without LayerNorm if not `centred`."""
    names = choose((DENSE, DENSE, DENSE, NORMS, BLOCKS))
    return layers.read(choose(tuple(name for name in names if centred or "layer" not in name)))


def draw_network(
    choose: Choose,
    activation: Activation | None = None,
    weights: WeightEnsemble | None = None,
    layer: Layer | None = None,
    widths: Sequence[int] = SIXTHS,
) -> Network:
    """A network of these widths. Low-rank and bi-invariant layers are dense and follow a Gaussian
    first one, as they have to be square. LayerNorm comes without kinks, which several inputs do not
    have behind it."""
    sigma = draw_activation(choose) if activation is None else activation
    hidden = draw_ensemble(choose, widths) if weights is None else weights
    gaussian = Gaussian(hidden.C_W)
    first = choose((None, gaussian))
    if not isinstance(hidden, Gaussian | Orthogonal | Truncated):
        first = gaussian
    C_b, rates = choose(BIAS_VARIANCES), (choose(BIAS_RATES), choose(WEIGHT_RATES))
    if layer is None:  # drawn for all, so that no network has fewer choices than the plainest
        any_layer = draw_layer(choose, centred=sigma.is_smooth)
        plain = isinstance(hidden, Gaussian | Orthogonal | Truncated)
        layer = any_layer if plain else layers.dense()
    return Network(
        sigma,
        hidden,
        None if first == hidden else first,
        C_b=sympy.Rational(C_b),
        lambda_b=rates[0],
        lambda_W=rates[1],
        layer=layer,
    )


def draw_example(
    choose: Choose,
    seed: int,
    net: Network | None = None,
    tensors: tuple[Wanted, ...] | None = None,
    widths: Sequence[int] = SIXTHS,
) -> Example:
    """An example, or one of a given network; inputs uniform on [0, 1], by the seed."""
    samples = choose((1,) * (_MANY - 1) + (2,))
    if net is None and samples == 1:
        net = draw_network(choose, widths=widths)
    elif net is None:
        sigma = activations.by_name(choose(WITH_TWO_INPUTS))
        net = draw_network(choose, sigma, choose((Gaussian(), Orthogonal())))
    if tensors is None:
        sets = ALL_DERIVATIVES if net.one_activation("examples").is_smooth else FIRST_DERIVATIVES
        if samples > 1:
            sets = OF_TWO_INPUTS
        elif not net.layer.is_dense:
            sets = OF_LAYERS
        elif isinstance(
            net.one_law("examples"), BiInvariant
        ):  # R … U need more moments than are given
            sets = tuple(names for names in sets if "R" not in names)
        tensors = choose(sets)
    shape = (choose(SIZES),) if samples == 1 else (samples, choose(SIZES))
    return Example(net, np.random.default_rng(seed).random(shape), choose(DEPTHS), tensors, seed)


def drawn(
    number: int, seed: int, net: Network | None = None, tensors: tuple[Wanted, ...] | None = None
) -> Example:
    """Example `number` of a seed, whatever others are drawn."""
    rng = np.random.default_rng([checked_seed(seed), as_integer("number", number, 1)])

    def choose(options: Sequence[T], /) -> T:
        return options[int(rng.integers(len(options)))]

    return draw_example(choose, int(rng.integers(LARGEST_SEED + 1)), net, tensors)


def simpler(example: Example) -> Iterator[Example]:
    """Examples that are simpler in one respect, the largest steps first.

    Every step lowers a count or takes a parameter to its plainest value, so that they come to an
    end. One that makes no sense (a network that refuses the change) is for the caller to skip.
    """
    if len(example.tensors) > 1:
        for each in example.tensors:
            yield replace(example, tensors=(each,))
    for depth in range(1, example.depth):
        yield replace(example, depth=depth)
    if example.inputs.ndim == 2 + len(example.net.layer.input_axes):
        yield replace(example, inputs=example.inputs[0])
    for net in _simpler_networks(example.net):
        yield replace(example, net=net)
    if example.inputs.ndim == 1:  # what is left are the first numbers of the same seed
        for size in range(1, example.inputs.size):
            yield replace(example, inputs=example.inputs[:size])


def _simpler_networks(net: Network) -> Iterator[Network]:
    for plain in (layers.dense(), layers.normalized("rms"), layers.residual(norm="rms")):
        if net.layer == plain:
            break
        yield replace(net, layer=plain)
    plain_activations = (activations.linear, activations.tanh)
    for sigma in plain_activations:
        if net.activation == sigma:
            break
        yield replace(net, activation=sigma)
    law, at_first = net.one_law("examples"), net.first_weights
    C_W = law.C_W
    for weights in (Gaussian(C_W), Orthogonal(C_W)):
        if law == weights:
            break
        first = None if at_first == weights else at_first
        yield replace(net, weights=weights, first_weights=first)
    if at_first is not None:
        yield replace(net, weights=law, first_weights=None)
    if C_W != 1:
        first = at_first and replace(at_first, C_W=sympy.Integer(1))
        yield replace(net, weights=replace(law, C_W=sympy.Integer(1)), first_weights=first)
    plainest: dict[str, Any] = {"C_b": 0, "lambda_W": 1, "lambda_b": 1, "width_ratio": 1}
    plainest |= {"C_W_corrections": (), "C_b_corrections": ()}
    for name, value in plainest.items():
        if getattr(net, name) != value:
            yield replace(net, **{name: value})
