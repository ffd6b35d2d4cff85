"""What the command line is told of a network: activation, ensembles, learning rates, inputs."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from derive.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import sympy
    from numpy.typing import NDArray

    from derive import Activation, Network, WeightEnsemble
    from derive.tensors import Name

WEIGHTS = (
    "gaussian",
    "orthogonal",
    "low-rank-gaussian",
    "low-rank-orthogonal",
    "truncated",
    "bi-invariant",
)

_MOST_DIGITS = 100
OWNERS = {
    "gamma": ("low-rank-gaussian", "low-rank-orthogonal"),
    "ratio": ("truncated",),
    "moments": ("bi-invariant",),
}
"""Which ensembles have each parameter."""


def tensor_arguments(command: argparse.ArgumentParser, count: str = "+") -> None:
    """TENSOR …"""
    command.add_argument(
        "tensors",
        nargs=count,
        metavar="TENSOR",
        help='K, G1, V, …; "all" of order 1/n; or fields, "z z H"',
    )


def ensemble_arguments(command: argparse.ArgumentParser) -> None:
    """--weights and the parameters of its ensembles."""
    command.add_argument("--weights", choices=WEIGHTS, default="gaussian", help="the ensemble")
    command.add_argument(
        "--gamma", help="rank over width of low-rank weights; a symbol if left out"
    )
    command.add_argument("--ratio", help="size of the Haar matrix over that of truncated weights")
    command.add_argument(
        "--moments",
        type=lambda text: text.split(","),
        help="tr (SᵀS)^j/n of bi-invariant weights for j = 1, 2, …, separated by commas",
    )


def network_arguments(command: argparse.ArgumentParser) -> None:
    """All of a network but its size."""
    command.add_argument("--activation", metavar="NAME", default="tanh", help="σ")
    ensemble_arguments(command)
    command.add_argument("--first-weights", choices=WEIGHTS[:2], help="of layer 1, if another")
    command.add_argument("--C_W", metavar="C_W", help="weight variance; critical if left out")
    command.add_argument("--C_b", metavar="C_b", help="bias variance; critical, or 0 with --C_W")
    command.add_argument("--lambda_W", default="1", help="weights' learning rate, such as 1 or 2/l")
    command.add_argument("--lambda_b", default="1", help="biases' learning rate, such as 1/l")


def ensemble(
    arguments: argparse.Namespace, C_W: sympy.Expr | int = 1, names: Iterable[str] = ()
) -> WeightEnsemble:
    """The ensemble of --weights; its parameters are symbols where they are left out.

    Arguments:
        names: the parameters that the command has; all if not given.
    """
    import sympy  # noqa: PLC0415

    import derive  # noqa: PLC0415
    from derive.expressions import parse_number  # noqa: PLC0415

    def parameter(name: str) -> sympy.Expr:
        value: str | None = getattr(arguments, name)
        if value is None:
            return sympy.Symbol(name, positive=True)
        return parse_number(f"--{name}", value)

    check_parameters(arguments, names)
    match arguments.weights:
        case "low-rank-gaussian":
            return derive.LowRankGaussian(C_W, gamma=parameter("gamma"))
        case "low-rank-orthogonal":
            return derive.LowRankOrthogonal(C_W, gamma=parameter("gamma"))
        case "truncated":
            return derive.Truncated(C_W, ratio=parameter("ratio"))
        case "bi-invariant":
            return derive.BiInvariant(C_W, moments=tuple(arguments.moments or ()))
    return _plain(arguments.weights, C_W)


def tensor_names(text: str) -> list[Name]:
    """A tensor's name; "all" of order 1/n; or fields, "z z H", for every pairing of them."""
    from derive.tensors import FIRST_ORDER, fields_by_name, named, pairing_classes, target  # noqa: PLC0415

    if text == "all":
        return [named(name) for name in FIRST_ORDER]
    words = text.split()
    if len(words) < 2 or "(" in text:
        return [named(text)]
    fields = fields_by_name(words)
    return [target(fields, pairing, 0) for pairing in pairing_classes(fields)]


def check_parameters(arguments: argparse.Namespace, names: Iterable[str] = ()) -> None:
    """Raise InputError for a parameter that the ensemble of --weights does not have."""
    for name in names or OWNERS:
        given, owners = getattr(arguments, name), OWNERS[name]
        if given is not None and arguments.weights not in owners:
            wanted = f"with --weights {' or '.join(owners)} alone, not {arguments.weights}"
            raise InputError(f"--{name}", given, wanted)


def _plain(name: str, C_W: sympy.Expr | int) -> WeightEnsemble:
    from derive import Gaussian, Orthogonal  # noqa: PLC0415

    return {"gaussian": Gaussian, "orthogonal": Orthogonal}[name](C_W)


def first_ensemble(
    arguments: argparse.Namespace, C_W: sympy.Expr | int = 1
) -> WeightEnsemble | None:
    """The ensemble of --first-weights."""
    return _plain(arguments.first_weights, C_W) if arguments.first_weights else None


def activation(name: str) -> Activation:
    """An activation by its name, or by an expression in z."""
    from derive.activations import by_name  # noqa: PLC0415

    return by_name(name)


def network(arguments: argparse.Namespace) -> Network:
    """The network of --weights …; C_W is critical if left out, or 1 where nothing is."""
    from derive import Network, criticality  # noqa: PLC0415

    sigma = activation(arguments.activation)
    bias, weight = _number("--C_b", arguments.C_b), _number("--C_W", arguments.C_W)
    if weight is None:
        found = criticality(sigma)
        critical = (0, 1) if found.universality_class == "none" else found.critical
        weight = critical[1]
        bias = critical[0] if bias is None else bias
    return Network(
        sigma,
        ensemble(arguments, weight),
        first_ensemble(arguments, weight),
        C_b=0 if bias is None else bias,
        lambda_b=_of_layer("--lambda_b", arguments.lambda_b),
        lambda_W=_of_layer("--lambda_W", arguments.lambda_W),
    )


def _number(argument: str, text: str | None) -> sympy.Expr | None:
    from derive.expressions import parse_number  # noqa: PLC0415

    return None if text is None else parse_number(argument, text)


def _of_layer(argument: str, text: str) -> Callable[[int], sympy.Expr]:
    from derive.expressions import layer, parse_layer_expression  # noqa: PLC0415

    expression = parse_layer_expression(argument, text)
    return lambda at: expression.subs(layer, at)


def inputs(source: str) -> NDArray[np.float64]:
    """random:SEED:N or random:SEED:N:M, uniform on [0, 1]; or a .csv or .npy file."""
    import numpy as np  # noqa: PLC0415

    head, *rest = source.split(":")
    counts = all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in rest)
    if head == "random" and len(rest) in {2, 3} and counts:
        seed, *shape = map(int, rest)
        if 0 not in shape and np.prod(shape, dtype=object) <= 10**8:
            return np.random.default_rng(seed).random(tuple(reversed(shape)))
    wanted = "random:SEED:N, random:SEED:N:M for M inputs, or a .csv or .npy file of numbers"
    if head == "random" or not source.endswith((".csv", ".npy")):
        raise InputError("--input", source, wanted)
    if os.path.exists(source) and not os.path.isfile(source):
        raise InputError("--input", source, f"{wanted}; this is no file")
    try:
        if source.endswith(".npy"):
            return np.asarray(np.load(source, allow_pickle=False))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a file without numbers
            return np.loadtxt(source, delimiter=",", ndmin=1)
    except OSError as error:
        raise InputError("--input", source, f"{wanted} ({error.strerror})") from None
    except (ValueError, EOFError, MemoryError, UserWarning) as error:
        reason = "" if source.endswith(".npy") else f" ({error})"
        raise InputError("--input", source, f"{wanted}{reason}") from None
