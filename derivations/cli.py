"""The command line: `wickgarten check | derive | haar | kernel | flow | simulate | …`."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from derive.errors import InputError, did_you_mean
from derive.work.caches import constant
from derive.work.defaults import DEPTH, DRAWS, MOST_DRAWS, WIDTH
from derive.work.progress import say, telling
from derive.work.resources import number

from .commands import (
    batchnorm,
    check,
    cite,
    completion,
    deep,
    doctor,
    figure,
    kernel,
    model,
    options,
    plots,
    printed,
    propagation,
    rows,
    spectrum,
    train,
    verify,
)
from .files import make_directory, stdout_shared

if TYPE_CHECKING:
    import sympy
    import xarray
    from numpy.typing import ArrayLike

    from derive import Exchangeable, Network

SAMPLERS = ("lazy", "paths", "probes", "explicit")
DEVICES = ("cpu", "cuda", "cuda:float32")
OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_MOST_ROWS = 200
"""Numbers of a comparison from which on a line for each layer stands for them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns 0; 1 where a claim fails or a comparison disagrees; 2 for bad input, told in one line
    on stderr; 130 after Ctrl-C.
    """
    atexit.register(gc.freeze)  # or leaving takes half a second: sympy is searched for cycles
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # paths and letters it cannot encode
    try:
        arguments = _parser().parse_args(_without_empty(sys.argv[1:] if argv is None else argv))
        run: Callable[[argparse.Namespace], int] = arguments.command
        with stdout_shared():
            plots.check(arguments)
            rows.check(arguments)
            return run(arguments)
    except SystemExit as exit_:  # argparse's --help
        return int(exit_.code or 0)
    except InputError as error:
        print(f"wickgarten: {_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for exit's flush)
        if isinstance(error, BrokenPipeError):
            return OK
        print(f"wickgarten: {_line(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("wickgarten: interrupted", file=sys.stderr)
        return INTERRUPTED


def _line(message: object) -> str:
    """A message on one line, whatever a name in it has."""
    return str(message).replace("\r", "\\r").replace("\n", "\\n")


def _without_empty(argv: Sequence[str]) -> list[str]:
    """The words, or an InputError for an option whose value is `--`: argparse takes it for none."""
    words = list(argv)
    for word in words:
        if found := re.fullmatch(r"(--[^=]+)=--|(-\w)--", word):
            raise InputError(found[1] or found[2], "--", "a value")
        if word == "--":
            break
    return words


# What each command does


def _derive(arguments: argparse.Namespace) -> int:
    from derive import activations, recursion

    if arguments.linear:
        return batchnorm.derive_linear(arguments.points, arguments.weights)
    if not arguments.tensors:
        raise InputError("TENSOR", arguments.tensors, "a tensor, or --linear --points 6")
    weights = options.ensemble(arguments)
    activation = activations.by_name(arguments.activation) if arguments.activation else None
    names = [
        name for text in arguments.tensors for name in options.tensor_names(text, weights.group)
    ]
    found = []
    for name in names:
        made = recursion(name, weights, first_layer=arguments.first_layer, layer=arguments.layer)
        made = made.single_input() if arguments.single else made
        made = made.specialise(activation) if activation else made
        with telling(f"writing {name}"):
            text = made.latex() if arguments.latex else str(made)
        print(text)
        found.append((str(name), text))
    rows.are_written(arguments, ("tensor", "recursion"), found)
    return OK


def _haar(arguments: argparse.Namespace) -> int:
    import sympy

    from derive.groups.moments import parse_moment

    moment = parse_moment(arguments.moment)
    n = _dimension(arguments.n)
    average = moment.average(n, arguments.group)
    if arguments.latex:
        left = moment.latex("P" if arguments.group in ("S", "B") else arguments.group[0])
        print(rf"\mathbb{{E}}\left[{left}\right] = {sympy.latex(average)}")
    else:
        print(average)
    found = (arguments.moment, arguments.group, str(n), str(average))
    rows.are_written(arguments, ("moment", "group", "n", "average"), [found])
    if not arguments.draws:
        return OK
    from derivations.moments import haar

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


def _dimension(text: str) -> sympy.Expr:
    """A whole number, or a symbol of this name."""
    import sympy

    from derive.expressions import is_name, parse_number

    if is_name(text):
        return sympy.Symbol(text)
    if text.isdecimal():
        return parse_number("--n", text)
    raise InputError("--n", text, "a whole number or the name of a symbol")


def _flow(arguments: argparse.Namespace) -> int:
    from numeric import checks, flow, plot

    net = options.network(arguments)
    table = flow(
        net,
        options.network_inputs(arguments, net),
        checks.depth(net, arguments.depth),
        arguments.tensors,
        width=arguments.width,
        precision=arguments.precision,
        positions=arguments.positions,
        draws=arguments.average_draws,
    )
    _show([(net, table, None)], arguments)
    if arguments.plot is not None:
        plots.save(plot(table), arguments.plot)
    return OK


def _simulate(arguments: argparse.Namespace) -> int:
    import numpy as np

    from derive import Exchangeable
    from numeric import Study, checks, compare, flow, plot
    from numeric.flows import batch_of
    from numeric.studies import in_proportion
    from numeric.tables import draws
    from numeric.tables.compare import percent
    from numeric.tables.layout import orbits_apart

    net = options.network(arguments)
    given = options.network_inputs(arguments, net)
    depth, widths = checks.depth(net, arguments.depth), arguments.width
    inputs: Sequence[ArrayLike | Exchangeable] = [given] * len(widths)
    if arguments.compare:
        inputs = in_proportion(net, given, depth, widths, arguments.tensors, "--width")
    if arguments.run is not None:
        make_directory("--run", arguments.run)
    count = DRAWS if arguments.draws is None else arguments.draws
    sampled = _sampled(arguments, net, inputs, count)
    if not arguments.compare:
        _show([(net, each, each.attrs["width"]) for each in sampled], arguments)
        if arguments.plot is not None:
            plots.save(plot(sampled[int(np.argmax(widths))]), arguments.plot)
        return OK
    most = int(np.argmax(widths))
    flowed = flow(
        net,
        inputs[most],
        depth,
        arguments.tensors,
        width=widths[most],
        positions=arguments.positions,
        draws=arguments.average_draws,
    )
    comparison = compare(flowed, sampled)
    batch = batch_of(given, net, depth) if isinstance(given, Exchangeable) else 0
    chosen = count if arguments.draws is not None else draws.enough(comparison, count, batch or 1)
    if chosen > count:
        reached = percent(comparison.resolution)
        say(f"{number(count)} networks resolve {reached}: sampling {number(chosen)} of each width")
        sampled = _sampled(arguments, net, inputs, chosen)
        comparison = compare(flowed, sampled)
    is_long = len(comparison.rows) > _MOST_ROWS and not (arguments.csv or arguments.json)
    if is_long:
        print(f"{net}\n\n{comparison.by_layer}\nevery number of each width: --csv or --json")
    else:
        _show([(net, each, each.attrs["width"]) for each in sampled], arguments)
    print(comparison if arguments.csv or arguments.json else f"\n{comparison}")
    if comparison.weak:
        print(_told_draws(draws.to_resolve(comparison, chosen)))
    if chosen > count:
        print(f"{number(chosen)} networks of each width, so many for this resolution (--draws)")
    if inputs[most] is not given:
        sizes = ", ".join(
            str(np.shape(each)[-1]) for each in inputs if not isinstance(each, Exchangeable)
        )
        print(f"inputs are repeated, to {sizes} numbers: layer 1 depends on how many there are")
    if arguments.plot is not None:
        made = Study(orbits_apart(flowed), tuple(map(orbits_apart, sampled)), comparison)
        plots.save(made.figure(), arguments.plot)
    return OK if comparison.agrees else FAILED


def _told_draws(needed: float) -> str:
    """How many networks would resolve everything."""
    if math.isinf(needed):
        return "no number of networks resolves all of it: that takes wider ones (--width)"
    digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    some = number(digits * math.ceil(needed / digits))
    return f"some {some} networks of each width would resolve all of it (--draws)"


def _sampled(
    arguments: argparse.Namespace,
    net: Network,
    inputs: Sequence[ArrayLike | Exchangeable],
    count: int,
) -> list[xarray.Dataset]:
    """So many networks of each width."""
    from numeric import checks, simulate

    return [
        simulate(
            net,
            each,
            width,
            checks.depth(net, arguments.depth),
            count,
            tensors=arguments.tensors,
            seed=arguments.seed,
            sampler=arguments.sampler,
            device=arguments.device,
            run=arguments.run if arguments.run is None else f"{arguments.run}/width-{width}",
            progress=arguments.progress,
            positions=arguments.positions,
        )
        for each, width in zip(inputs, arguments.width, strict=True)
    ]


# What is shown


def _show(
    tables: Sequence[tuple[Network, xarray.Dataset, int | None]], arguments: argparse.Namespace
) -> None:
    """The tables on stdout, a row per layer; or in files, a row per number."""
    from derive.recursions import wanted

    found = chain.from_iterable(printed.rows(table, width) for _, table, width in tables)
    if rows.are_written(arguments, printed.HEADER, found):
        return
    names, net = wanted(arguments.tensors), tables[0][0]
    print(net)
    if arguments.input is None and arguments.batch is None and net.layer.input_axes:
        print(f"input {options.default_input(net)}, one signal (--input)")
    for _, table, width in tables:
        if len(tables) > 1:
            print(f"\nn = {width}")
        print(printed.text(table, names))


# The arguments


_EXAMPLES = """\
a first session:
  wickgarten derive V --weights orthogonal --single
  wickgarten kernel V --weights orthogonal --activation "expr: z*tanh(z)" -o v.py && python v.py
  wickgarten simulate --weights orthogonal --width 50 100 200 --draws 2000 --compare
  wickgarten check 004

`wickgarten COMMAND --help` tells what a command takes.
"""


_SAME = {"--input": "--inputs", "--inputs": "--input"}
"""Options of one meaning in different commands."""


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, as every command does."""

    def error(self, message: str) -> NoReturn:
        name, near = self.prog.replace(" ", ": ", 1), ""
        if found := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            near = did_you_mean(found[1], re.findall(r"[\w-]+", found[2]))
        self.exit(BAD_INPUT, f"{name}: {_line(message)}{near} (see `{self.prog} --help`)\n")

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """As argparse's; Python's spelling of an option is understood too, as `--first_weights`."""
        action = super().add_argument(*names, **more)
        for name in action.option_strings:
            alike = "--" + name[2:].replace("-", "_")
            self._option_string_actions.setdefault(_SAME.get(name, alike), action)
        return action

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """As argparse's; of a command an unknown option is refused here, with the nearest one."""
        found, extra = super().parse_known_args(*given, **named)
        unknown = [word.partition("=")[0] for word in extra if word.startswith("--")]
        if unknown and not self._subparsers:
            near = did_you_mean(unknown[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(extra)}{near}")
        return found, extra


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"wickgarten {version('wickgarten')}")
        parser.exit()


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults that are values, and examples line by line."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default not in (None, False)
        return super()._get_help_string(action) if shown else action.help


@constant("the commands and their options do not change")
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="wickgarten",
        description="Derive, compile and prove how the statistics of random deep networks change "
        "from layer to layer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and leave")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, run, help_, fill, examples in _commands():
        command = commands.add_parser(
            name,
            help=help_,
            description=help_[0].upper() + help_[1:] + ".",
            epilog="\n".join(["examples:", *(f"  wickgarten {name} {each}" for each in examples)]),
            formatter_class=_Help,
        )
        fill(command)
        command.set_defaults(command=run)
    return parser


Fill: TypeAlias = Callable[[argparse.ArgumentParser], None]
Run: TypeAlias = Callable[[argparse.Namespace], int]


def _commands() -> Iterator[tuple[str, Run, str, Fill, Sequence[str]]]:
    """Each command: its name, its help, its arguments, and examples."""
    yield (
        *("check", check.run, "prove the book and write a report", check.arguments),
        ("004", "--json claims.json"),
    )
    yield (
        *("figure", figure.run, "draw a figure of a source, small or at its printed size"),
        *(figure.arguments, ("", "003:3 --run figure-3")),
    )
    yield (
        *("derive", _derive, "print the recursion of a tensor", _derive_arguments),
        ("V --weights orthogonal --single", "--linear --points 6"),
    )
    yield (
        *("haar", _haar, "average a product of entries of a Haar matrix", _haar_arguments),
        ('"O[1,1]^2*O[1,2]^2"', '"U[1,1]*conj(U[1,1])" --group U --n 5 --draws 1000'),
    )
    yield (
        *("kernel", kernel.run, "write a standalone numba module, or list what there is"),
        *(kernel.arguments, ("V --weights orthogonal --activation tanh -o vkernel.py", "--list")),
    )
    yield (
        *("flow", _flow, "run recursions down the layers", _flow_arguments),
        ("--tensors K,V --activation gelu --C_W 2 --plot flow.svg", "--depth 30 --json"),
    )
    yield (
        *("simulate", _simulate, "sample an ensemble of networks", _simulate_arguments),
        ("--width 50 --draws 2000 --csv", "--width 50 100 200 --compare --plot study.svg"),
    )
    yield (
        *("model", model.run, "read a model of torch, flax, equinox or Keras, and judge it"),
        *(model.arguments, ("mlp.py:net", "mlp.py:net --details --html report.html")),
    )
    yield (
        *("train", train.run, "descent by theory, and networks really trained", train.arguments),
        ("--steps 0 10 100 inf", "--width 32 64 --steps 0 10 --compare --plot train.svg"),
    )
    yield (
        *("verify", verify.run, "try the theory on random networks", verify.arguments),
        ("--examples 25 --seed 1",),
    )
    yield (
        *("spectrum", spectrum.run, "the spectrum of the input-output Jacobian"),
        *(
            spectrum.arguments,
            ("--activation hard_tanh --weights orthogonal --depth 16 --plot spectrum.svg",),
        ),
    )
    yield (
        *("propagation", propagation.run, "fixed lengths, depth scales and kernels"),
        *(propagation.arguments, ("--activation tanh --C_W 2 --C_b 0.1 --depth 5",)),
    )
    yield (
        *("deep", deep.run, "the law of K at a depth in proportion to the width"),
        *(deep.arguments, ("--weights orthogonal --ratio 0.5",)),
    )
    yield (
        *("batchnorm", batchnorm.run, "sample the orthogonality gap of batch normalization"),
        *(batchnorm.arguments, ("--width 1000 --batch 10 --depth 200 --plot gap.svg",)),
    )
    yield (
        *("cite", cite.run, "print BibTeX for the sources", cite.arguments),
        ("", "000", "collins2017 --json"),
    )
    yield (
        *("doctor", doctor.run, "show versions, cache, threads and GPU, and try a kernel"),
        *(doctor.arguments, ("", "--json")),
    )
    yield (
        *("completion", _completion, "print a script that completes commands in your shell"),
        *(completion.arguments, ("bash > wickgarten.bash", "fish > wickgarten.fish")),
    )


def _completion(arguments: argparse.Namespace) -> int:
    print(completion.script(arguments.shell, _parser()), end="")
    return OK


def _derive_arguments(command: argparse.ArgumentParser) -> None:
    options.tensor_arguments(command, "*")
    command.add_argument("--linear", action="store_true", help="the deep linear network, exactly")
    command.add_argument("--points", type=int, default=4, help="points of its correlator, 2m")
    options.ensemble_arguments(command)
    command.add_argument("--activation", metavar="NAME", help="insert an activation, such as tanh")
    command.add_argument("--single", action="store_true", help="one input")
    command.add_argument("--latex", action="store_true", help="print LaTeX")
    command.add_argument("--first-layer", action="store_true", help="layer 1, from the inputs")
    options.one_layer_argument(command)
    rows.arguments(command)


def _haar_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("moment", metavar="MOMENT", help='such as "O[1,1]^2*O[1,2]^2"')
    command.add_argument(
        "--group", choices=("O", "U", "Sp", "S", "B"), default="O", help="the group"
    )
    command.add_argument("--n", default="n", help="the dimension, a number or a symbol")
    command.add_argument("--latex", action="store_true", help="print LaTeX")
    command.add_argument("--draws", type=int, help="check against so many sampled matrices")
    command.add_argument("--seed", type=int, default=0, help="of the samples")
    rows.arguments(command)


def _flow_arguments(command: argparse.ArgumentParser) -> None:
    _network_arguments(command, "K,V")
    command.add_argument("--width", type=int, help="n, where a first layer has n_0 > n inputs")
    command.add_argument("--precision", type=int, help="decimal digits; a float's by default")
    plots.argument(command, "the tensors by layer")


def _simulate_arguments(command: argparse.ArgumentParser) -> None:
    _network_arguments(command, "K,G1,V")
    command.add_argument("--width", type=int, nargs="+", default=[WIDTH], help="one n or several")
    command.add_argument(
        "--draws",
        type=int,
        help=f"networks; {DRAWS} by default, or with --compare up to {MOST_DRAWS}",
    )
    command.add_argument("--seed", type=int, default=0, help="of the ensemble")
    command.add_argument("--sampler", choices=SAMPLERS, default="lazy", help="how")
    command.add_argument("--device", choices=DEVICES, default="cpu", help="where")
    command.add_argument("--run", metavar="DIR", help="keep the sums there, resume and extend them")
    command.add_argument("--progress", action="store_true", help="show a bar")
    command.add_argument("--compare", action="store_true", help="z-scores against the flow")
    plots.argument(command, "the tensors of the widest networks, or with --compare theory and all,")


def _network_arguments(command: argparse.ArgumentParser, tensors: str) -> None:
    command.add_argument(
        "--tensors",
        type=lambda text: re.split(r",(?![^(]*\))", text),  # kappa(z,z|01) has commas of its own
        default=tensors,
        help='names separated by commas; "all" of order 1/n',
    )
    options.network_arguments(command)
    command.add_argument(
        "--depth", type=int, help=f"layers: all that are named, or {DEPTH}, by default"
    )
    command.add_argument(
        "--input",
        metavar="SOURCE",
        help="random:SEED:N[:M], random:SEED:N:P:M for M signals of P positions, numbers such as "
        "1,0.5,0.2 or 1,.5;.2,.8, .csv or .npy; random:0:10 by default, or one signal of 10 "
        "channels at the layer's positions",
    )
    command.add_argument(
        "--batch",
        metavar="M",
        type=int,
        help="M exchangeable inputs of mean square 1 in the place of --input: a table by orbits",
    )
    command.add_argument(
        "--correlation",
        metavar="P",
        help="of any two inputs of --batch, such as 0.3; 0 by default",
    )
    command.add_argument(
        "--positions",
        metavar="P",
        type=_positions,
        help="of signals: the positions that are shown, 0,3 or of images 0,0;4,4 or 4,4;",
    )
    command.add_argument(
        "--average-draws",
        type=int,
        help="of flow: V of many positions, one average in it sampled with so many draws",
    )
    rows.arguments(command)


def _positions(text: str) -> list[int] | list[list[int]]:
    """Positions of signals, or those of images along each axis."""
    try:
        rows = [[int(number) for number in row.split(",")] for row in text.split(";")]
    except ValueError:
        raise InputError("--positions", text, "numbers such as 0,3, or pairs, 0,0;4,4") from None
    return rows if ";" in text else rows[0]


if __name__ == "__main__":
    sys.exit(main())
