"""The command line: `wickgarten check | derive | haar | kernel | flow | simulate | …`."""

from __future__ import annotations

import argparse
import atexit
import csv
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from derive.errors import InputError
from derive.progress import telling

from . import (
    batchnorm_command,
    check_command,
    cite_command,
    kernel_command,
    reading,
    spectrum_command,
    verify_command,
)
from .files import write_text

if TYPE_CHECKING:
    import xarray

    from derive import Network

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns 0; 1 where a claim fails or a comparison disagrees; 2 for bad input, told in one line
    on stderr; 130 after Ctrl-C.
    """
    atexit.register(gc.freeze)  # or leaving takes half a second: sympy is searched for cycles
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as exit_:  # argparse's own --help and errors
        return int(exit_.code or 0)
    run: Callable[[argparse.Namespace], int] = arguments.command
    try:
        status = run(arguments)
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"wickgarten: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for exit's flush)
        return OK
    except KeyboardInterrupt:
        print("wickgarten: interrupted", file=sys.stderr)
        return INTERRUPTED


# What each command does


def _derive(arguments: argparse.Namespace) -> int:
    from derive import recursion  # noqa: PLC0415

    if arguments.linear:
        return batchnorm_command.derive_linear(arguments.points, arguments.weights)
    if not arguments.tensors:
        raise InputError("TENSOR", arguments.tensors, "a tensor, or --linear --points 6")
    weights = reading.ensemble(arguments)
    activation = reading.activation(arguments.activation) if arguments.activation else None
    names = [name for text in arguments.tensors for name in reading.tensor_names(text)]
    for name in names:
        made = recursion(name, weights, first_layer=arguments.first_layer)
        made = made.single_input() if arguments.single else made
        made = made.specialise(activation) if activation else made
        with telling(f"writing {name}"):
            text = made.latex() if arguments.latex else str(made)
        print(text)
    return OK


def _haar(arguments: argparse.Namespace) -> int:
    import sympy  # noqa: PLC0415

    from derive.haar import parse_moment  # noqa: PLC0415

    moment = parse_moment(arguments.moment)
    if not (arguments.n.isdecimal() or arguments.n.isidentifier()):
        raise InputError("--n", arguments.n, "a whole number or the name of a symbol")
    n = int(arguments.n) if arguments.n.isdecimal() else sympy.Symbol(arguments.n)
    average = moment.average(n, arguments.group)
    if arguments.latex:
        left = moment.latex(arguments.group[0])
        print(rf"\mathbb{{E}}\left[{left}\right] = {sympy.latex(average)}")
    else:
        print(average)
    if not arguments.draws:
        return OK
    from numeric import haar  # noqa: PLC0415

    checked = haar.check(
        moment.rows,
        moment.cols,
        n,
        arguments.group,
        conj_rows=moment.conj_rows,
        conj_cols=moment.conj_cols,
        draws=arguments.draws,
        seed=arguments.seed,
    )
    print(checked)
    return OK if abs(checked.z) <= 5 else FAILED


def _flow(arguments: argparse.Namespace) -> int:
    from numeric import flow  # noqa: PLC0415

    net, inputs = reading.network(arguments), reading.inputs(arguments.input)
    table = flow(net, inputs, arguments.depth, arguments.tensors, width=arguments.width)
    _show([(net, table, None)], arguments.csv)
    return OK


def _simulate(arguments: argparse.Namespace) -> int:
    from numeric import compare, flow, simulate  # noqa: PLC0415

    net, inputs = reading.network(arguments), reading.inputs(arguments.input)
    if arguments.compare:
        _check_extrapolation(net, inputs.shape[-1], arguments.width, arguments.tensors)
    sampled = [
        simulate(
            net,
            inputs,
            width,
            arguments.depth,
            arguments.draws,
            tensors=arguments.tensors,
            seed=arguments.seed,
            sampler=arguments.sampler,
            device=arguments.device,
            run=arguments.run and os.path.join(arguments.run, f"width-{width}"),
            progress=arguments.progress,
        )
        for width in arguments.width
    ]
    _show([(net, each, each.attrs["width"]) for each in sampled], arguments.csv)
    if not arguments.compare:
        return OK
    flowed = flow(net, inputs, arguments.depth, arguments.tensors, width=max(arguments.width))
    comparison = compare(flowed, sampled)
    print(comparison)
    return OK if comparison.agrees else FAILED


def _check_extrapolation(
    net: Network, n_0: int, widths: Sequence[int], tensors: Sequence[str]
) -> None:
    """A first layer that depends on n_0/n is no series in 1/n."""
    from derive.parameters import R_BIG, R_IN, Parameter  # noqa: PLC0415
    from derive.recursion import closure, recursion, wanted  # noqa: PLC0415

    first = net.weights_at(1)
    found = {
        atom
        for name in closure(wanted(tensors), net.weights_at(2))
        for atom in recursion(name, first, first_layer=True, square=False).atoms(Parameter)
    }
    if len(set(widths)) > 1 and (R_IN in found or (R_BIG in found and min(widths) < n_0)):
        other = "" if R_IN in found else f"{n_0} or more each, the inputs' size, or "
        raise InputError(
            "--width",
            widths,
            f"{other}--first-weights gaussian, to extrapolate: layer 1 of these weights depends "
            "on the inputs' size over the width",
        )


# What is shown


def _show(tables: Sequence[tuple[Network, xarray.Dataset, int | None]], path: str | None) -> None:
    """The tables on stdout, a row per layer and component; or as CSV in a file."""
    rows = [row for _, table, width in tables for row in _rows(table, width)]
    header = ("width", "tensor", "layer", "samples", "value", "se")
    if path is not None:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        write_text(text.getvalue(), path)
        print(path)
        return
    print(tables[0][0])
    _print_table(header, rows, sys.stdout)


def _rows(table: xarray.Dataset, width: int | None) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in (str(name) for name in table.data_vars if not str(name).endswith("_se")):
        values = table[name].to_numpy()
        errors = table[f"{name}_se"].to_numpy() if f"{name}_se" in table else None
        for place in _components(values.shape):
            found.append(
                (
                    "" if width is None else str(width),
                    name,
                    str(int(table["layer"].to_numpy()[place[0]])),
                    "".join(str(sample + 1) for sample in place[1:])
                    if max(values.shape[1:], default=0) < 10
                    else " ".join(str(sample + 1) for sample in place[1:]),
                    repr(float(values[place])),
                    "" if errors is None else repr(float(errors[place])),
                )
            )
    return found


def _components(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    import numpy as np  # noqa: PLC0415

    return list(np.ndindex(*shape))


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    """Aligned columns, those that are empty throughout left out, numbers to six digits."""
    kept = [column for column in range(len(header)) if any(row[column] for row in rows)]
    shown = [[_short(row[column]) for column in kept] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(kept))]
    for row in shown:
        out.write(
            "  ".join(text.rjust(size) for text, size in zip(row, widths, strict=True)) + "\n"
        )


def _short(text: str) -> str:
    return f"{float(text):.6g}" if "." in text or "e-" in text else text


# The arguments


_EXAMPLES = """\
a first session:
  wickgarten derive V --weights orthogonal --single
  wickgarten kernel V --weights orthogonal --activation "expr: z*tanh(z)" -o v.py && python v.py
  wickgarten simulate --weights orthogonal --width 50 100 200 --draws 2000 --compare
  wickgarten check 004

`wickgarten COMMAND --help` tells what a command takes.
"""


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"wickgarten {version('wickgarten')}")
        parser.exit()


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that are values."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default not in (None, False)
        return super()._get_help_string(action) if shown else action.help


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wickgarten",
        description="Derive, compile and prove how the statistics of random deep networks change "
        "from layer to layer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and leave")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, run, help_, fill in (
        (
            "check",
            check_command.run,
            "prove the book and write a report",
            check_command.arguments,
        ),
        ("derive", _derive, "print the recursion of a tensor", _derive_arguments),
        ("haar", _haar, "average a product of entries of a Haar matrix", _haar_arguments),
        (
            "kernel",
            kernel_command.run,
            "write a standalone numba module, or list what there is",
            kernel_command.arguments,
        ),
        ("flow", _flow, "run recursions down the layers", _flow_arguments),
        ("simulate", _simulate, "sample an ensemble of networks", _simulate_arguments),
        (
            "verify",
            verify_command.run,
            "try the theory on random networks",
            verify_command.arguments,
        ),
        (
            "spectrum",
            spectrum_command.run,
            "the spectrum of the input-output Jacobian",
            spectrum_command.arguments,
        ),
        (
            "batchnorm",
            batchnorm_command.run,
            "sample the orthogonality gap of batch normalization",
            batchnorm_command.arguments,
        ),
        ("cite", cite_command.run, "print BibTeX for the sources", cite_command.arguments),
    ):
        command = commands.add_parser(
            name,
            help=help_,
            description=help_[0].upper() + help_[1:] + ".",
            formatter_class=_Help,
        )
        fill(command)
        command.set_defaults(command=run)
    return parser


def _derive_arguments(command: argparse.ArgumentParser) -> None:
    reading.tensor_arguments(command, "*")
    command.add_argument("--linear", action="store_true", help="the deep linear network, exactly")
    command.add_argument("--points", type=int, default=4, help="points of its correlator, 2m")
    reading.ensemble_arguments(command)
    command.add_argument("--activation", metavar="NAME", help="insert an activation, such as tanh")
    command.add_argument("--single", action="store_true", help="one input")
    command.add_argument("--latex", action="store_true", help="print LaTeX")
    command.add_argument("--first-layer", action="store_true", help="layer 1, from the inputs")


def _haar_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("moment", metavar="MOMENT", help='such as "O[1,1]^2*O[1,2]^2"')
    command.add_argument("--group", choices=("O", "U", "Sp"), default="O", help="the group")
    command.add_argument("--n", default="n", help="the dimension, a number or a symbol")
    command.add_argument("--latex", action="store_true", help="print LaTeX")
    command.add_argument("--draws", type=int, help="check against so many sampled matrices")
    command.add_argument("--seed", type=int, default=0, help="of the samples")


def _flow_arguments(command: argparse.ArgumentParser) -> None:
    _network_arguments(command, "K,V")
    command.add_argument("--width", type=int, help="n, where a first layer has n_0 > n inputs")


def _simulate_arguments(command: argparse.ArgumentParser) -> None:
    _network_arguments(command, "K,G1,V")
    command.add_argument("--width", type=int, nargs="+", default=[100], help="one n or several")
    command.add_argument("--draws", type=int, default=1000, help="networks")
    command.add_argument("--seed", type=int, default=0, help="of the ensemble")
    command.add_argument("--sampler", choices=("lazy", "explicit"), default="lazy", help="how")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where")
    command.add_argument("--run", metavar="DIR", help="keep the sums there, resume and extend them")
    command.add_argument("--progress", action="store_true", help="show a bar")
    command.add_argument("--compare", action="store_true", help="z-scores against the flow")


def _network_arguments(command: argparse.ArgumentParser, tensors: str) -> None:
    command.add_argument(
        "--tensors",
        type=lambda text: re.split(r",(?![^(]*\))", text),  # kappa(z,z|01) has commas of its own
        default=tensors,
        help='names separated by commas; "all" of order 1/n',
    )
    reading.network_arguments(command)
    command.add_argument("--depth", type=int, default=10, help="layers")
    command.add_argument(
        "--input", metavar="SOURCE", default="random:0:100", help="random:SEED:N[:M], .csv or .npy"
    )
    command.add_argument("--csv", metavar="FILE", help="write the table there")


if __name__ == "__main__":
    sys.exit(main())
