"""A framework of a few lines: perceptrons in NumPy, for what needs no other one."""

from __future__ import annotations

import math

import numpy as np
import sympy

from numeric import models
from numeric.models import description, networks
from numeric.models.frameworks.base import Reading
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

    def initialize(self, seeds):
        return [self.draw(seed) for seed in seeds]

    def first(self, made, count):
        return made[:count]

    def values(self, made):
        return {path: np.array([each[path] for each in made]) for path in made[0]}

    def propagate(self, made, source, states, node):
        first, last = (self._place(at) for at in (source, node))
        every = np.broadcast_to(states, (len(made), *states.shape[1:]))
        return np.array(
            [
                self._forward(values, h, first, last)[0][-1]
                for values, h in zip(made, every, strict=True)
            ]
        )

    def tangents(self, made, X, nodes):
        return np.array(
            [[self._gram(values, X, self._place(at)) for at in nodes] for values in made]
        )

    def jacobian(self, made, x, node, source):
        first, last = (self._place(at) for at in (source, node))
        return np.array([self._slopes(values, x, first, last) for values in made])

    def _place(self, node):
        return self.graph.origins[node] if node else 0

    def _forward(self, values, X, first=0, last=None):
        """z of the layers behind the first, to the last, and what each takes."""
        z, h = [], [X if first == 0 else np.tanh(X)]
        for layer in range(first + 1, (last or len(self.widths) - 1) + 1):
            z.append(h[-1] @ values[f"W{layer}"].T + values.get(f"b{layer}", 0))
            h.append(np.tanh(z[-1]))
        return z, h

    def _gram(self, values, X, last):
        _, h = self._forward(values, X)
        back, gram = np.zeros((len(X), self.widths[last])), np.zeros((len(X), len(X)))
        back[:, 0] = 1
        for layer in range(last, 0, -1):
            gram += (back @ back.T) * (h[layer - 1] @ h[layer - 1].T + bool(self._bias))
            back = (back @ values[f"W{layer}"]) * (1 - h[layer - 1] ** 2)
        return gram

    def _slopes(self, values, x, first, last):
        z, _ = self._forward(values, x[None])
        found = np.eye(self.widths[first])
        for layer in range(first + 1, last + 1):
            slope = 1 if layer == 1 else 1 - np.tanh(z[layer - 2][0]) ** 2
            found = values[f"W{layer}"] @ (np.reshape(slope, (-1, 1)) * found)
        return found


def traced(build, n=5):
    """The graph of what `build` does with a tracer."""
    tracer = Tracer()
    tracer.graph.widths[0] = 3

    def W(name, out, fan_in):
        return Parameter(name, np.ones((out, fan_in)))

    return tracer.finish(build(tracer, W, Neurons(0)))


def norm_by_hand(t, u):
    mean = t.mean(u)
    centred = t.add(u, mean, -1)
    variance = t.mean(t.power(centred, 2))
    root = t.apply(sympy.sqrt, t.add(variance, sympy.Rational("0.001")))
    return t.divide(centred, root)


def described(reading):
    """As `read` describes a model."""
    made = networks.structure(reading.graph)
    told = description._laws(reading, None)
    net, remarks = networks.network(made, told)
    return models.Description("numpy", "Perceptron", net, told, remarks, made, reading)
