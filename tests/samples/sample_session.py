"""A long session of short calls of all kinds, no two of the same arguments.

    python sample_session.py 2000

prints the megabytes that the process holds in the middle and at the end, and the most it held.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import sympy

from derive import (
    Gaussian,
    InputError,
    Network,
    Orthogonal,
    Truncated,
    criticality,
    exact,
    layers,
    linear,
    recursion,
)
from numeric import compare, flow, init, plot, simulate, spectra, training, write_module

ACTIVATIONS = ("tanh", "relu", "gelu", "sin", "silu")
LAYERS = (
    layers.dense(),
    layers.residual(1),
    layers.residual("1/3"),
    layers.normalized("rms"),
    layers.dropout("1/2"),
)
LAWS = (Gaussian, Orthogonal, lambda C_W: Truncated(ratio=2, C_W=C_W))


class Call:
    """The arguments of the call with this number."""

    def __init__(self, number):
        pick = random.Random(number)
        self.number = number
        self.name = pick.choice(["K", "V"])
        self.activation = pick.choice(ACTIVATIONS)
        self.weights = pick.choice(LAWS)(1 + sympy.Rational(number, 10**4))
        self.layer = pick.choice(LAYERS)
        self.C_b = sympy.Rational(pick.randrange(1, 8), 16)
        self.depth = pick.randrange(2, 12)
        self.x = [pick.gauss(0, 1) for _ in range(3)]
        self.net = Network(self.activation, self.weights, C_b=self.C_b, layer=self.layer)
        self.dense = Network(self.activation, self.weights, C_b=self.C_b)
        self.smooth = Network("tanh", self.weights, C_b=self.C_b)

    def recursion(self):
        return recursion(self.name, weights=self.weights, layer=self.layer).single_input()

    def flow(self):
        return flow(self.net, self.x, self.depth, ["K", "V"])

    def precise(self):
        return flow(self.dense, self.x, 2, ["K"], precision=20)

    def simulate(self):
        return simulate(self.dense, self.x, 8 + self.depth, 2, 20, seed=self.number)

    def criticality(self):
        return criticality(self.activation, layer=self.layer)

    def asymptotics(self):
        return recursion("K", weights=self.weights).asymptotics(self.activation)

    def write(self):
        made = recursion(self.name, weights=self.weights, layer=self.layer).single_input()
        return write_module(made, self.activation, Path(tempfile.gettempdir(), "session.py"))

    def spectrum(self):
        q = 0.1 + self.number / 10**4
        return spectra.jacobian(self.activation, self.weights, 2, q).moments(2)

    def train(self):
        inputs = [self.x, self.x[::-1]]
        return training.flow(self.smooth, inputs, [[1.0], [-1.0]], depth=2, eta=0.1, steps=5)

    def rate(self):
        return training.learning_rate(self.dense, [self.x], 2)

    def compare(self):
        theory = flow(self.dense, self.x, 2, ["K", "V"], width=8)
        return compare(theory, [simulate(self.dense, self.x, width, 2, 30) for width in (6, 8)])

    def plot(self):
        plt.close(plot(flow(self.dense, self.x, 4, ["K"])))

    def gain(self):
        return init.gain(self.activation, K=1 + sympy.Rational(self.number, 10**4))

    def correlator(self):
        return linear.correlator(2, [2 + self.number % 50, self.depth, 3])

    def vertex(self):
        return exact.vertex(Network("relu", self.weights), 2, width=5 + self.number % 90)


KINDS = [value for name, value in vars(Call).items() if not name.startswith("_")]


def resident():
    """Megabytes that the process holds, on Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def run(calls):
    """How many of the calls were refused, and the megabytes in the middle and at the end."""
    refused, middle = 0, 0.0
    for number in range(calls):
        if number == calls // 2:
            middle = resident()
        try:
            KINDS[number % len(KINDS)](Call(number))
        except InputError:
            refused += 1
    return refused, middle, resident()


if __name__ == "__main__":
    print(*run(int(sys.argv[1])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)
