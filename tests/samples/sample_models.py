"""A framework of a few lines: perceptrons in NumPy, for what needs no other one."""

from __future__ import annotations

import math

import numpy as np
import sympy

from numeric.models.frameworks.base import Measured, Reading
from numeric.models.tracing import Neurons, Parameter, Tracer


def gaussian(random, out, fan_in):
    return random.standard_normal((out, fan_in)) / math.sqrt(fan_in)


class Perceptron(Reading):
    """Layers W tanh(…) of these widths without biases, or with those that `bias` draws."""

    framework = "numpy"
    how = "made again"

    def __init__(self, widths, draw=gaussian, bias=None):
        self.widths, self._draw, self._bias = widths, draw, bias
        values = self.draw(0)
        tracer, u = Tracer(), Neurons(0)
        for layer in range(1, len(widths)):
            tracer.origin = layer
            own = [Parameter(f"{name}{layer}", values.get(f"{name}{layer}")) for name in "Wb"]
            u = tracer.linear(u, own[0], own[1] if bias else None)
            if layer < len(widths) - 1:
                u = tracer.apply(sympy.tanh, u)
        self.graph = tracer.finish(u)

    def draw(self, seed):
        random = np.random.default_rng(seed)
        pairs = list(enumerate(zip(self.widths, self.widths[1:], strict=False), start=1))
        found = {f"W{k}": self._draw(random, out, fan_in) for k, (fan_in, out) in pairs}
        if self._bias:
            found |= {f"b{k}": self._bias(random, out) for k, (_, out) in pairs}
        return found

    def _forward(self, values, X):
        z, h = [], [X]
        for layer in range(1, len(self.widths)):
            z.append(h[-1] @ values[f"W{layer}"].T + values.get(f"b{layer}", 0))
            h.append(np.tanh(z[-1]))
        return z, h

    def measure(self, seed, X, nodes, tangents):
        values = self.draw(seed)
        z, h = self._forward(values, X)
        places = [self.graph.origins[at] - 1 for at in nodes]
        grams = []
        for place in places if tangents else ():
            back, gram = np.zeros((len(X), self.widths[place + 1])), np.zeros((len(X), len(X)))
            back[:, 0] = 1
            for layer in range(place, -1, -1):
                gram += (back @ back.T) * (h[layer] @ h[layer].T + bool(self._bias))
                back = (back @ values[f"W{layer + 1}"]) * (1 - h[layer] ** 2)
            grams.append(gram)
        return Measured([z[place] for place in places], grams)

    def jacobian(self, seed, x, node, source):
        values = self.draw(seed)
        z, _ = self._forward(values, x[None])
        first = 0 if source == 0 else self.graph.origins[source]
        last = self.graph.origins[node]
        found = np.eye(self.widths[first])
        for layer in range(first + 1, last + 1):
            slope = 1 if layer == 1 else 1 - np.tanh(z[layer - 2][0]) ** 2
            found = values[f"W{layer}"] @ (np.reshape(slope, (-1, 1)) * found)
        return found
