"""The command `wickgarten deep`: the law of K at a depth in proportion to the width."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from derive.work.defaults import DRAWS

from . import options, plots, rows

if TYPE_CHECKING:
    from numeric.deep import Agreement, Law

_PARTS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""The fractions of networks whose quantiles are printed."""
_OTHERS = {
    "C_b": None,
    "first_weights": None,
    "gamma": None,
    "lambda_W": "1",
    "lambda_b": "1",
    "moments": None,
}
"""The other arguments that `options.network` reads."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "--activation", metavar="NAME", default="relu", help="σ with σ(cz) = cσ(z)"
    )
    command.add_argument(
        "--weights",
        type=options.weights_name,
        default="gaussian",
        metavar="NAME",
        help="the ensemble, as of `wickgarten flow`, without parameters of its own",
    )
    command.add_argument("--C_W", default="critical", help="weight variance")
    options.layer_argument(command)
    command.add_argument("--ratio", default="1", help="r = (L - 1)/n, depth over width")
    command.add_argument("--input", metavar="SOURCE", help="one input, as of `wickgarten flow`")
    command.add_argument(
        "--width", type=int, nargs="+", default=[64, 128], help="of --compare: one n or several"
    )
    command.add_argument("--draws", type=int, default=DRAWS, help="of --compare: networks")
    command.add_argument("--seed", type=int, default=0, help="of the ensembles")
    command.add_argument("--compare", action="store_true", help="test the law by ensembles")
    plots.argument(command, "the density and the ensembles")
    rows.arguments(command)


def run(given: argparse.Namespace) -> int:
    """Print the law, its quantiles and the tests; 0, or 1 where samples reject the law."""
    from numeric import deep

    net = options.network(argparse.Namespace(**_OTHERS | vars(given) | {"ratio": None}))
    inputs = options.inputs(given.input or options.default_input(net))
    law = deep.law(net, inputs, given.ratio)
    print(f"{net}\n{law}")
    found = [("quantile", part, float(law.quantile(part))) for part in _PARTS]
    for _, part, value in found:
        print(f"{part:.0%} of networks have K below {value:.6g}")
    samples = []
    if given.compare:
        samples = [
            deep.simulate(net, inputs, given.ratio, n, given.draws, seed=given.seed + at)
            for at, n in enumerate(given.width)
        ]
    agreement = deep.compare(law, samples) if samples else None
    if agreement is not None:
        print(agreement)
    rows.are_written(given, ("quantity", "at", "value"), _rows(law, agreement, found))
    if given.plot is not None:
        from numeric.deep.pictures import picture

        plots.save(picture(law, samples), given.plot)
    return int(agreement is not None and not agreement.agrees)


def _rows(
    law: Law, agreement: Agreement | None, found: list[tuple[str, float, float]]
) -> list[tuple[rows.Cell, ...]]:
    """The law's numbers, its quantiles, and of each test its width and value."""
    known: list[tuple[rows.Cell, ...]] = [
        ("log_mean", "", float(law.log_mean)),
        ("log_variance", "", float(law.log_variance)),
        *found,
    ]
    if agreement is not None:
        for name in ("ks", "ks_own", "ks_p", "ad", "ad_p"):
            column = agreement.table[name]
            widths = map(int, agreement.table["width"])
            known += [(name, n, float(x)) for n, x in zip(widths, column, strict=True)]
    return known
