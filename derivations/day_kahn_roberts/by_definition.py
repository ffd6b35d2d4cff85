"""A small network with polynomial σ, its fields by their definition: sums over the parameters θ.

    H = Σ_μ λ_μ ∂_μ z ∂_μ z,     dH = Σ_{μν} λ_μ λ_ν ∂_μ∂_ν z ∂_μ z ∂_ν z,     …

at given rational parameters, exact. Neither forward equations nor averages enter: z is a polynomial
in θ, and is differentiated. That takes (number of parameters)^edges terms, so it is for a check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import sympy

from derive.activations.functions import Activation, z
from derive.engine.fields import Field

Index = tuple[int, int]
"""A neuron and a sample, from 0."""


@dataclass(frozen=True)
class SmallNetwork:
    """z^{(1)} = b + W x, z^{(ℓ+1)} = b + W σ(z^{(ℓ)}), learning rates λ_b and λ_W/n_in.

    Attributes:
        activation: a polynomial.
        weights, biases: W and b of each layer, rational.
        inputs: x of each sample.
        lambda_W, lambda_b: the learning rates.
    """

    activation: Activation
    weights: tuple[sympy.ImmutableMatrix, ...]
    biases: tuple[tuple[sympy.Rational, ...], ...]
    inputs: tuple[tuple[sympy.Rational, ...], ...]
    lambda_W: sympy.Rational
    lambda_b: sympy.Rational

    @cached_property
    def _ring(self) -> Any:
        names = [
            f"{kind}{layer}_{number}"
            for layer, W in enumerate(self.weights, start=1)
            for kind, size in (("W", W.rows * W.cols), ("b", W.rows))
            for number in range(size)
        ]
        return sympy.ring(names, sympy.QQ)[0]

    @cached_property
    def parameters(self) -> tuple[sympy.Rational, ...]:
        """θ, layer by layer: W row by row, then b."""
        return tuple(
            value
            for W, b in zip(self.weights, self.biases, strict=True)
            for value in (*W.flat(), *b)
        )

    def moved(self, step: Sequence[sympy.Rational]) -> SmallNetwork:
        """The network at θ + step."""
        values = iter([a + b for a, b in zip(self.parameters, step, strict=True)])
        weights, biases = [], []
        for W in self.weights:
            entries = [next(values) for _ in range(W.rows * W.cols)]
            weights.append(sympy.ImmutableMatrix(W.rows, W.cols, entries))
            biases.append(tuple(next(values) for _ in range(W.rows)))
        return replace(self, weights=tuple(weights), biases=tuple(biases))

    @cached_property
    def rates(self) -> tuple[sympy.Rational, ...]:
        """λ_μ of each parameter (source 000, eq. 6.3)."""
        return tuple(
            value
            for W in self.weights
            for value in (*[self.lambda_W / W.cols] * (W.rows * W.cols), *[self.lambda_b] * W.rows)
        )

    @cached_property
    def preactivations(self) -> tuple[tuple[tuple[Any, ...], ...], ...]:
        """z as a polynomial in θ, by layer, sample and neuron."""
        ring = self._ring
        generators = iter(ring.gens)
        sigma = list(map(sympy.QQ.from_sympy, sympy.Poly(self.activation.expr, z).all_coeffs()))
        active = [[ring(sympy.QQ.from_sympy(value)) for value in x] for x in self.inputs]
        layers = []
        for W in self.weights:
            rows = [[next(generators) for _ in range(W.cols)] for _ in range(W.rows)]
            b = [next(generators) for _ in range(W.rows)]
            layer = tuple(
                tuple(
                    sum((w * a for w, a in zip(row, x, strict=True)), start)
                    for row, start in zip(rows, b, strict=True)
                )
                for x in active
            )
            layers.append(layer)
            active = [[_horner(sigma, value, ring.zero) for value in sample] for sample in layer]
        return tuple(layers)

    def derivative(self, layer: int, at: Index, by: Sequence[int]) -> sympy.Rational:
        """∂_μ ∂_ν … z_{i;α}^{(layer)} at the given θ, layers from 1."""
        return sympy.QQ.to_sympy(self._value(layer, at, tuple(sorted(by))))

    def field(self, field: Field, layer: int, at: Sequence[Index]) -> sympy.Rational:
        """The field with a neuron and a sample at each node."""
        touching = [
            [number for number, edge in enumerate(field.edges) if node in edge]
            for node in range(field.nodes)
        ]
        rates = [sympy.QQ.from_sympy(rate) for rate in self.rates]
        total = sympy.QQ.zero
        for chosen in product(range(len(rates)), repeat=len(field.edges)):
            term = prod((rates[mu] for mu in chosen), start=sympy.QQ.one)
            for node, edges in enumerate(touching):
                term *= self._value(layer, at[node], tuple(sorted(chosen[e] for e in edges)))
                if not term:
                    break
            total += term
        return sympy.QQ.to_sympy(total)

    def _value(self, layer: int, at: Index, by: tuple[int, ...]) -> Any:
        key = (layer, at, by)
        if key not in self._values:
            polynomial = self._polynomial(layer, at, by)
            values = map(sympy.QQ.from_sympy, self.parameters)
            self._values[key] = (
                polynomial.evaluate(list(zip(self._ring.gens, values, strict=True)))
                if polynomial
                else sympy.QQ.zero
            )
        return self._values[key]

    def _polynomial(self, layer: int, at: Index, by: tuple[int, ...]) -> Any:
        key = (layer, at, by)
        if not by:
            neuron, sample = at
            return self.preactivations[layer - 1][sample][neuron]
        if key not in self._polynomials:
            below = self._polynomial(layer, at, by[:-1])
            self._polynomials[key] = below.diff(self._ring.gens[by[-1]])
        return self._polynomials[key]

    @cached_property
    def _values(self) -> dict[tuple[int, Index, tuple[int, ...]], Any]:
        return {}

    @cached_property
    def _polynomials(self) -> dict[tuple[int, Index, tuple[int, ...]], Any]:
        return {}


def _horner(coefficients: Sequence[Any], value: Any, zero: Any) -> Any:
    result = zero
    for coefficient in coefficients:
        result = result * value + coefficient
    return result
