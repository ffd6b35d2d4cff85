"""The commands `wickgarten batchnorm` and `wickgarten derive --linear`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from derive.errors import InputError

from ..files import make_directory
from . import plots, rows

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from derive.activations.functions import Activation

_MOST = 10**7
"""Networks that may be drawn, which have errors of 0.03 % of the spread."""

_COLUMNS = ("gap", "gap_se", "gap_sq", "gap_sq_se")


def arguments(command: argparse.ArgumentParser) -> None:
    """The options of `wickgarten batchnorm`."""
    command.add_argument("--width", type=int, default=1000, help="d")
    command.add_argument("--batch", type=int, default=10, help="n")
    command.add_argument("--depth", type=int, default=200, help="layers")
    command.add_argument("--draws", type=int, default=200, help="networks")
    command.add_argument("--seed", type=int, default=0, help="of the ensemble")
    command.add_argument("--activation", metavar="NAME", default="linear", help="σ")
    command.add_argument("--centered", action="store_true", help="take away each row's mean")
    command.add_argument("--vanilla", action="store_true", help="without normalization")
    command.add_argument(
        "--run", metavar="DIR", help="keep the means there, resume and extend them"
    )
    command.add_argument("--progress", action="store_true", help="show a bar")
    rows.arguments(command)
    plots.argument(command, "the gap by layer")


def run(options: argparse.Namespace) -> int:
    """Sample the gap layer by layer, and print it beside the stationary law."""
    from derivations.daneshmand import ensembles
    from derive import activations

    activation = activations.by_name(options.activation)
    if options.draws > _MOST:
        raise InputError("--draws", options.draws, f"at most {_MOST}")
    if options.run is not None:
        make_directory("--run", options.run)
    found = ensembles.simulate(
        options.width,
        options.batch,
        options.depth,
        options.draws,
        seed=options.seed,
        activation=activation,
        centered=options.centered,
        normalised=not options.vanilla,
        run=options.run,
        progress=options.progress,
    )
    if not rows.are_written(options, ("layer", *_COLUMNS), _rows(found)):
        _print(found, sys.stdout)
    law = (
        None
        if options.vanilla
        else stationary(activation, options.batch, options.width, options.centered)
    )
    if law is not None:
        print(f"stationary: E V² = {law[0]:.6g}, {law[1]}")
    if options.plot is not None:
        plots.save(figure(found, None if law is None else law[0]), options.plot)
    return 0


def stationary(
    activation: Activation, batch: int, width: int, centered: bool
) -> tuple[float, str] | None:
    """E V² of the stationary state with where it comes from, where a law of it is derived."""
    from derivations.daneshmand import large_width
    from derive import batchnorm

    if activation.is_linear:
        size = batch - 1 if centered else batch
        if size < 2:
            return None
        law = batchnorm.stationary_gap().subs({batchnorm.n: size, batchnorm.d: width})
        # centered rows live in n − 1 dimensions, where |C − 1/(n−1)| is the gap
        return float(law) + 1 / size - 1 / batch, "through order 1/d²"
    if centered:
        if batch < 3:
            return None
        # rows without a mean are even in n − 1 dimensions, for every σ: E V² = E L² + V_fixed²
        law = large_width.deviation(activation.name, batch, True) / width
        return law + 1 / (batch - 1) - 1 / batch, "at order 1/d"
    try:
        odd = large_width.odd_law(activation, batch)
    except InputError:
        return None
    return odd.gap_sq / width, "at order 1/d"


def figure(table: xarray.Dataset, law: float | None) -> Figure:
    """E V by layer with its error, and the stationary root of E V²."""
    from numeric.tables.drawing import points

    from ..pictures.panels import one_panel

    made, panel = one_panel()
    layers = table["layer"].to_numpy()
    for name, values, errors in (
        ("E V", table["gap"].to_numpy(), table["gap_se"].to_numpy()),
        (
            "√(E V²)",
            table["gap_sq"].to_numpy() ** 0.5,
            table["gap_sq_se"].to_numpy() / (2 * table["gap_sq"].to_numpy() ** 0.5),
        ),
    ):
        points(panel, layers, values, errors, label=name, marker=".")
    if law is not None:
        panel.axhline(law**0.5, color="black", linewidth=1, label="√(E V²), stationary, derived")
    width, batch = table.attrs["width"], table.attrs["batch"]
    panel.set(
        xlabel="layer",
        ylabel="orthogonality gap",
        yscale="log",
        title=f"{table.attrs['activation']}, d = {width}, n = {batch}, "
        f"{table.attrs['draws']} networks",
    )
    panel.legend()
    return made


def derive_linear(points: int, weights: str = "gaussian") -> int:
    """Print the correlators of a deep linear network with up to so many points."""
    import sympy

    from derive import Gaussian, Orthogonal, linear

    kinds = {"gaussian": Gaussian(), "orthogonal": Orthogonal()}
    if weights not in kinds:
        raise InputError("--weights", weights, "gaussian or orthogonal")
    if points < 2 or points % 2:
        raise InputError("--points", points, "an even number of points, 2 or more")
    n, depth = sympy.symbols("n L", positive=True, integer=True)
    for m in range(1, points // 2 + 1):
        layer = linear.correlator(m, [n], kinds[weights])
        step = sympy.cancel(linear.correlator(m, [n, n], kinds[weights]) / layer)
        census = ", ".join(
            f"{count} of n^{loops}" for loops, count in linear.loop_census(m).items()
        )
        print(f"G_{2 * m}(L)/G_2(L)^{m} = {layer * sympy.factor(step) ** (depth - 1)}")
        print(f"    c_{2 * m}(n) = {linear.contraction_factor(m, n)}; contractions: {census}")
    return 0


def _print(table: xarray.Dataset, out: Any) -> None:
    out.write(f"{'layer':>6}  {'E V':>12}  {'se':>10}  {'E V²':>12}  {'se':>10}\n")
    for row in _rows(table):
        out.write("{:6d}  {:12.6g}  {:10.3g}  {:12.6g}  {:10.3g}\n".format(*row))


def _rows(table: xarray.Dataset) -> list[tuple[int, float, float, float, float]]:
    columns = [table[name].to_numpy() for name in _COLUMNS]
    return [
        (int(layer), *(float(column[place]) for column in columns))  # type: ignore[misc]
        for place, layer in enumerate(table["layer"].to_numpy())
    ]
