"""The command `wickgarten propagation`: fixed lengths, depth scales, and kernels layer by layer."""

from __future__ import annotations

import argparse
import math
from decimal import Decimal
from typing import Any

from derive.errors import InputError, as_integer

from . import rows

_NUMBERS = ("q", "chi", "chi_parallel", "c", "slope", "xi_q", "xi_c", "xi_grad")


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("--activation", metavar="NAME", default="tanh", help="σ")
    command.add_argument("--C_W", metavar="C_W", default="1", help="weight variance")
    command.add_argument("--C_b", metavar="C_b", default="0", help="bias variance")
    command.add_argument("--depth", type=int, default=0, help="print so many layers of --kernel")
    command.add_argument(
        "--kernel", metavar="Q,Q12,Q", default="1,0,1", help="q_11, q_12, q_22 of layer 1"
    )
    command.add_argument("--precision", type=int, help="decimal digits; a float's by default")
    rows.arguments(command)


def run(given: argparse.Namespace) -> int:
    """Print every fixed length with its depth scales, then the layers; 0."""
    from derive import Gaussian, Network, activations
    from derive.expressions import parse_number
    from numeric import propagation

    depth = as_integer("--depth", given.depth, 0)
    C_W, C_b = parse_number("--C_W", given.C_W), parse_number("--C_b", given.C_b)
    net = Network(activations.by_name(given.activation), Gaussian(C_W), C_b=C_b)
    found = propagation.fixed_points(net, precision=given.precision)
    print(f"{net}: {found.sizes.get('point', 0)} fixed lengths")
    numbers: list[tuple[str, int, Any, float]] = []
    for point in range(found.sizes.get("point", 0)):
        for name in _NUMBERS:
            value, error = (found[each].to_numpy()[point] for each in (name, f"{name}_error"))
            print(f"{name:>12} = {_shown(value, error)}")
            numbers.append((name, point + 1, value, error))
    if depth:
        kernel = tuple(parse_number("--kernel", each) for each in given.kernel.split(","))
        if len(kernel) != 3:
            raise InputError("--kernel", given.kernel, "three numbers q_11,q_12,q_22")
        table = propagation.kernels(net, kernel, depth, precision=given.precision)
        for layer in range(depth):
            for name, at in (("q_11", (0, 0)), ("q_12", (0, 1)), ("q_22", (1, 1))):
                value, error = (table[each].to_numpy()[(layer, *at)] for each in ("K", "K_error"))
                print(f"layer {layer + 1} {name} = {_shown(value, error)}")
                numbers.append((name, layer + 1, value, error))
    rows.are_written(given, ("name", "number", "value", "error"), map(_row, numbers))
    return 0


def _row(number: tuple[str, int, Any, float]) -> tuple[rows.Cell, ...]:
    """Of a fixed length, or of a layer; a value to many digits is text."""
    name, at, value, error = number
    return name, at, str(value) if isinstance(value, Decimal) else float(value), float(error)


def _shown(value: Any, error: float) -> str:
    if math.isfinite(value):
        return f"{value} +- {error:.1e}"
    return "undefined" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
