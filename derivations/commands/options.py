"""The options of a network: activation, ensembles, learning rates, inputs."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from derive.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import sympy
    from numpy.typing import NDArray

    from derivations.training.data import Images, Source
    from derive import Exchangeable, Network, WeightEnsemble
    from derive.engine.tensors import Name

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
    command.add_argument(
        "--weights",
        type=weights_name,
        default="gaussian",
        metavar="NAME",
        help=f"the ensemble: {', '.join(WEIGHTS)}; or independent entries, uniform, rademacher, "
        "truncated-normal, sparse(0.1), student(5); or regular-sparse(0.1); a network also takes "
        'one for each layer, "gaussian; orthogonal*"',
    )
    command.add_argument(
        "--gamma", help="rank over width of low-rank weights; a symbol if left out"
    )
    command.add_argument("--ratio", help="size of the Haar matrix over that of truncated weights")
    command.add_argument(
        "--moments",
        type=lambda text: text.split(","),
        help="tr (SᵀS)^j/n of bi-invariant weights for j = 1, 2, …, separated by commas",
    )


def weights_name(text: str) -> str:
    """The name of an ensemble, as it is; argparse's error for what is none."""
    from derive.layers.chain import Laws

    if text not in WEIGHTS:
        try:
            Laws.given(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(
                f"got {text!r}; wanted {error.wanted}, or one of {', '.join(WEIGHTS[2:])}"
            ) from None
    return text


def network_arguments(command: argparse.ArgumentParser) -> None:
    """All of a network but its size."""
    command.add_argument(
        "--activation",
        metavar="NAME",
        default="tanh",
        help='σ; or one for each layer, with * behind the repeated one: "tanh; gelu*; linear"',
    )
    ensemble_arguments(command)
    command.add_argument("--first-weights", choices=WEIGHTS[:2], help="of layer 1, if another")
    command.add_argument("--C_W", metavar="C_W", help="weight variance, 1 by default; or critical")
    command.add_argument(
        "--C_b", metavar="C_b", help="bias variance, 0 by default, or with --C_W critical its own"
    )
    command.add_argument("--lambda_W", default="1", help="weights' learning rate, such as 1 or 2/l")
    command.add_argument("--lambda_b", default="1", help="biases' learning rate, such as 1/l")
    layer_argument(command)


def layer_argument(command: argparse.ArgumentParser) -> None:
    """--layer."""
    command.add_argument(
        "--layer",
        metavar="LAYER",
        default="dense",
        help='layers 2, 3, …: dense, "normalized(rms)", "residual(skip=1, norm=layer, ratio=4)", '
        '"gated(norm=rms)", "convolution(3, 8)", …; or several, one behind another, with * behind '
        'what is repeated: "dense; residual(norm=rms)*; normalized(rms)"',
    )


def one_layer_argument(command: argparse.ArgumentParser) -> None:
    """--layer of what a network repeats."""
    command.add_argument(
        "--layer",
        metavar="LAYER",
        default="dense",
        help='what the network repeats: dense, "normalized(rms)", "residual(skip=1, norm=rms)", …',
    )


def ensemble(
    arguments: argparse.Namespace, C_W: sympy.Expr | None = None, names: Iterable[str] = ()
) -> WeightEnsemble:
    """The ensemble of --weights; its parameters are symbols where they are left out.

    Arguments:
        C_W: of the ensemble, which is built without one if that is None.
        names: the parameters that the command has; all if not given.
    """
    import derive
    from derive.expressions import parse_number
    from derive.symbols import Symbol

    def parameter(name: str) -> sympy.Expr:
        value: str | None = getattr(arguments, name)
        if value is None:
            return Symbol(name, positive=True)
        return parse_number(f"--{name}", value)

    check_parameters(arguments, names)
    law: WeightEnsemble
    match arguments.weights:
        case "low-rank-gaussian":
            law = derive.LowRankGaussian(gamma=parameter("gamma"))
        case "low-rank-orthogonal":
            law = derive.LowRankOrthogonal(gamma=parameter("gamma"))
        case "truncated":
            law = derive.Truncated(ratio=parameter("ratio"))
        case "bi-invariant":
            law = derive.BiInvariant(moments=tuple(arguments.moments or ()))
        case name:
            return _plain(name, C_W)
    return law if C_W is None else law.scaled_to(C_W)


def tensor_names(text: str, group: str = "O") -> list[Name]:
    """A tensor's name; "all" of order 1/n; or fields, "z z H", for every pairing of them, and of
    weights with the group "B" every even set partition."""
    from derive.engine.tensors import FIRST_ORDER, fields_by_name, named, pairing_classes, target

    if text == "all":
        return [named(name) for name in FIRST_ORDER]
    words = text.split()
    if len(words) < 2 or "(" in text:
        return [named(text)]
    fields = fields_by_name(words)
    return [target(fields, pairing, 0) for pairing in pairing_classes(fields, group)]


def check_parameters(arguments: argparse.Namespace, names: Iterable[str] = ()) -> None:
    """Raise InputError for a parameter that the ensemble of --weights does not have."""
    for name in names or OWNERS:
        given, owners = getattr(arguments, name), OWNERS[name]
        if given is not None and arguments.weights not in owners:
            wanted = f"with --weights {' or '.join(owners)} alone, not {arguments.weights}"
            raise InputError(f"--{name}", given, wanted)


def _plain(name: str, C_W: sympy.Expr | None) -> WeightEnsemble:
    from derive.weights import as_weights

    law = as_weights("--weights", name)
    return law if C_W is None else law.scaled_to(C_W)


def first_ensemble(
    arguments: argparse.Namespace, C_W: sympy.Expr | None = None
) -> WeightEnsemble | None:
    """The ensemble of --first-weights."""
    return _plain(arguments.first_weights, C_W) if arguments.first_weights else None


def network(arguments: argparse.Namespace) -> Network:
    """The network of --weights …, with the defaults of `derive.Network`."""
    from derive import Network
    from derive.expressions import parse_layer_expression, parse_number

    critical = arguments.C_W == "critical"
    given = not critical and arguments.C_W is not None
    weight = parse_number("--C_W", arguments.C_W) if given else None
    build = Network.critical if critical else Network
    others: dict[str, Any] = {
        "lambda_b": parse_layer_expression("--lambda_b", arguments.lambda_b),
        "lambda_W": parse_layer_expression("--lambda_W", arguments.lambda_W),
        "layer": arguments.layer,
    }
    if arguments.C_b is not None:
        others["C_b"] = parse_number("--C_b", arguments.C_b)
    first = first_ensemble(arguments, weight)
    if not set(arguments.weights) & set(";*"):  # one law for all layers
        return build(arguments.activation, ensemble(arguments, weight), first, **others)
    check_parameters(arguments)
    if weight is not None:
        others["C_W"] = weight
    return build(arguments.activation, arguments.weights, first, **others)


def network_inputs(
    arguments: argparse.Namespace, net: Network
) -> NDArray[np.float64] | Exchangeable:
    """The inputs of --input or --batch, or one by default, a signal of the network's positions."""
    from derive import Exchangeable

    given: str | None = arguments.input
    if arguments.batch is not None:
        if given is not None:
            raise InputError("--input", given, "no input beside --batch")
        correlation = 0 if arguments.correlation is None else arguments.correlation
        return Exchangeable(arguments.batch, 1, correlation)
    if arguments.correlation is not None:
        raise InputError("--correlation", arguments.correlation, "--batch, of how many inputs")
    return inputs(default_input(net) if given is None else given)


def default_input(net: Network) -> str:
    """The source of one input, with few numbers: orthogonal layers of greater widths extrapolate.

    >>> from derive import Network
    >>> default_input(Network("relu")), default_input(Network("relu", layer="pooling((2, 3))"))
    ('random:0:10', 'random:0:10:3:2')
    """
    return ":".join(map(str, ["random:0:10", *reversed(net.layer.input_axes)]))


def inputs(source: str) -> NDArray[np.float64]:
    """random:SEED:N, random:SEED:N:M or random:SEED:N:P:M, uniform on [0, 1]; numbers,
    those of several inputs with semicolons between; or a .csv or .npy file."""
    import numpy as np

    from derive.expressions import parse_number

    head, *rest = source.split(":")
    counts = all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in rest)
    if head == "random" and len(rest) in {2, 3, 4, 5} and counts:
        seed, *shape = map(int, rest)
        if 0 not in shape and np.prod(shape, dtype=object) <= 10**8:
            return np.random.default_rng(seed).random(tuple(reversed(shape)))
    if source and not set(source) - set("0123456789.,;+-eE/ "):
        rows = [
            [float(parse_number("--input", text)) for text in row.split(",")]
            for row in source.split(";")
        ]
        if len({len(row) for row in rows}) > 1:
            raise InputError("--input", source, "as many numbers in every input")
        return np.array(rows if len(rows) > 1 else rows[0])
    wanted = (
        "random:SEED:N, random:SEED:N:M for M inputs, random:SEED:N:P:M for M signals of P "
        "positions, random:SEED:N:P2:P1:M for M images, numbers such as 1,0.5,0.2 "
        'or "1,.5;.2,.8", or a .csv or .npy file of numbers'
    )
    if head == "random" or not source.endswith((".csv", ".npy")):
        raise InputError("--input", source, wanted)
    return numbers("--input", source, wanted)


def loaded(source: Source) -> Images:
    """The images of --data; where they are not, an error says where they come from."""
    try:
        return source.images()
    except InputError as error:
        raise InputError(
            "--data", f"{source} ({error.argument}: {error.got})", error.wanted
        ) from None


def numbers(option: str, source: str, wanted: str) -> NDArray[np.float64]:
    """The numbers in a .csv or .npy file; or InputError, that names the option."""
    import numpy as np

    if os.path.exists(source) and not os.path.isfile(source):
        raise InputError(option, source, f"{wanted}; this is no file")
    try:
        if source.endswith(".npy"):
            return np.asarray(np.load(source, allow_pickle=False))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a file without numbers
            return np.loadtxt(source, delimiter=",", ndmin=1)
    except OSError as error:
        raise InputError(option, source, f"{wanted} ({error.strerror})") from None
    except (ValueError, EOFError, MemoryError, UserWarning) as error:
        reason = "" if source.endswith(".npy") else f" ({error})"
        raise InputError(option, source, f"{wanted}{reason}") from None
