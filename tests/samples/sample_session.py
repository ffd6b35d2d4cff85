"""A long session of calls of all kinds, no two of the same arguments.

    python sample_session.py 2000

makes calls of the combinations that work, by `tests/support/table.json`, in a random order and
each with its own variance of weights; one call in `EVERY` is of another function. Left out are the
combinations that are slow or costly there (training theory behind norms, densities of gates), and
all but one in `SHARE` of the combinations of functions that take over 0.2 s.

It prints how many calls were refused, the megabytes that the process holds in the middle and at
the end, and the most it held.
"""

from __future__ import annotations

import random
import re
import sys
from itertools import cycle
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import combinations
import matplotlib.pyplot as plt
import sympy
import table
from combinations import INPUTS, Case

from derive import InputError, Network, Orthogonal, exact, linear
from numeric import flow, init, plot, training

ACTIVATIONS = ("tanh", "sin", "tanh", "tanh", "sin", "tanh", "tanh", "gelu")
EVERY = 10
SHARE = 5


def plotted(number: int) -> None:
    """`plot`, of a flow."""
    net = Network(combinations.SIGMA, Orthogonal(combinations.C_W))
    plt.close(plot(flow(net, INPUTS[0], 4 + number % 7, ["K"])))


def rate(number: int) -> None:
    """`training.learning_rate`."""
    training.learning_rate(Network("tanh", Orthogonal(combinations.C_W)), INPUTS[:2], 2)


def gain(number: int) -> None:
    """`init.gain`."""
    init.gain(combinations.SIGMA, K=1 + sympy.Rational(number, 10**4))


def correlator(number: int) -> None:
    """`linear.correlator`."""
    linear.correlator(2, [2 + number % 50, 2 + number % 11, 3])


def vertex(number: int) -> None:
    """`exact.vertex`."""
    exact.vertex(Network("relu", Orthogonal(combinations.C_W)), 2, width=5 + number % 90)


OTHERS = (plotted, rate, gain, correlator, vertex)


def megabytes(name: str) -> float:
    """What the process holds, "VmRSS", or held at most, "VmHWM", on Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = re.findall(rf"{name}:\s*(\d+) kB", status)
    return int(kilobytes) / 2**10


def cells() -> list[table.Cell]:
    """What works, in a random order that is always the same."""
    kinds = table.recorded()
    found = [each for each in kinds if kinds[each] == table.WORKS and not each.is_costly]
    random.Random(39).shuffle(found)
    long = [each for each in found if each.function in table.LONG]
    return [each for each in found if each not in set(long[len(long) // SHARE :])]


def run(calls: int) -> tuple[int, float, float]:
    """How many of the calls were refused, and the megabytes in the middle and at the end."""
    refused, middle = 0, 0.0
    for number, cell in zip(range(calls), cycle(cells())):
        if number == calls // 2:
            middle = megabytes("VmRSS")
        combinations.SIGMA = ACTIVATIONS[number % len(ACTIVATIONS)]
        combinations.C_W = sympy.Rational(6, 5) + sympy.Rational(number, 10**5)
        combinations.simulated.cache_clear()
        try:
            if number % EVERY:
                combinations.FUNCTIONS[cell.function](Case(cell.layer, cell.law))
            else:
                OTHERS[number // EVERY % len(OTHERS)](number)
        except (InputError, ArithmeticError):  # other activations than the table's
            refused += 1
    return refused, middle, megabytes("VmRSS")


if __name__ == "__main__":
    print(*run(int(sys.argv[1])), megabytes("VmHWM"))
