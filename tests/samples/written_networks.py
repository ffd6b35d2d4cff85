"""Networks of a few neurons written out: polynomials in each of their random numbers, in fractions.

They share nothing with the engine but `haar_moment`: no forward equation, no pairing of neural
indices, no 1/n. The NTK and its kin are sums over all parameters of derivatives of z (source 000,
eqs. 6.1, 6.3, 6.11; the ddNTKs of Roberts, Yaida and Hanin, ch. ∞); averages are taken monomial by
monomial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations_with_replacement, product
from math import factorial, prod
from typing import Any

import sympy
from flint import Ordering, fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from derive import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
    haar_moment,
)
from derive.groups import set_partitions
from derive.weights import IndependentEntries, WeightEnsemble

Entries = tuple[tuple[int, int], ...]
EDGES = {
    "z": (),
    "H": ((0, 1),),
    "dH": ((0, 1), (0, 2)),
    "ddI": ((0, 1), (0, 2), (0, 3)),
    "ddII": ((0, 1), (0, 2), (1, 3)),
}
"""Which two preactivations each pair of derivatives by the parameters acts on."""


def rational(value: object) -> Fraction:
    return Fraction(str(sympy.nsimplify(value)))


def gaussian_entries(entries: Entries, variance: Fraction) -> Fraction:
    powers = Counter(entries).values()
    if any(power % 2 for power in powers):
        return Fraction(0)
    wick = prod(factorial(p) // (2 ** (p // 2) * factorial(p // 2)) for p in powers)
    return wick * variance ** (len(entries) // 2)


def haar_entries(rows: Sequence[int], cols: Sequence[int], size: int) -> Fraction:
    return haar_sorted(tuple(sorted(zip(rows, cols, strict=True))), size)


@cache
def haar_sorted(entries: Entries, size: int) -> Fraction:
    return rational(haar_moment([i + 1 for i, _ in entries], [j + 1 for _, j in entries], size))


def entries_moment(weights: WeightEnsemble, entries: Entries, n_in: int, n_out: int) -> Fraction:
    """E[Π W_ij] from what each ensemble is made of."""
    C_W, half = rational(weights.C_W), len(entries) // 2
    rows, cols = [i for i, _ in entries], [j for _, j in entries]
    if len(entries) % 2:
        return Fraction(0)
    if isinstance(weights, Gaussian):
        return gaussian_entries(entries, C_W / n_in)
    if isinstance(weights, IndependentEntries):
        moments = (rational(weights.standard_moment(m)) for m in Counter(entries).values())
        return prod(moments, start=(C_W / n_in) ** half)
    if isinstance(weights, Orthogonal | Truncated):
        ratio = rational(getattr(weights, "ratio", 1))
        size = ratio * max(n_in, n_out)
        return (C_W * size / n_in) ** half * haar_entries(rows, cols, int(size))
    if isinstance(weights, LowRankGaussian | LowRankOrthogonal):
        gamma = rational(weights.gamma)
        total = Fraction(0)
        for inner in product(range(int(gamma * n_out)), repeat=len(entries)):
            frame = haar_entries(rows, inner, n_out)
            if frame and isinstance(weights, LowRankGaussian):
                pairs = tuple(zip(inner, cols, strict=True))
                total += frame * gaussian_entries(pairs, C_W / (gamma * n_in))
            elif frame:
                total += frame * (C_W / gamma) ** half * haar_entries(cols, inner, n_in)
        return total
    assert isinstance(weights, BiInvariant)
    assert n_in == n_out == len(SINGULAR_VALUES)
    scale = C_W * n_in / sum(s**2 for s in SINGULAR_VALUES)
    total = Fraction(0)
    for inner in product(range(n_in), repeat=len(entries)):
        left = haar_entries(rows, inner, n_out)
        if left:
            right = haar_entries(inner, cols, n_in)
            total += left * right * prod(SINGULAR_VALUES[a] for a in inner)
    return scale**half * total


SINGULAR_VALUES = (Fraction(1), Fraction(3))
BI_INVARIANT = BiInvariant(
    sympy.Rational(3, 2),
    moments=tuple(sympy.Rational(1 + 9**j, 2) for j in range(1, 9)),
)
"""The trace moments of these singular values, at width 2."""


@dataclass(frozen=True)
class Source:
    """A matrix, biases or a mask of one layer: its random numbers."""

    layer: int
    name: str
    rows: int
    columns: int | None = None
    law: Any = None
    """Of a matrix; of a mask the chance p."""
    rate: Fraction = Fraction(0)


Signal = list[list[fmpq_mpoly]]
"""By position and neuron."""


@dataclass(frozen=True)
class Written:
    """How a layer is written out.

    Arguments:
        matrices: by name, the sizes of its columns and rows over n, and the number of taps.
        forward: what it makes of a signal, by σ, its parameters by name, and the number of the
            sample.
        mask: p of dropout.
    """

    matrices: dict[str, tuple[int, int, int]]
    forward: Callable[[Signal, Callable[[Any], Any], dict[str, Any], int], Signal]
    mask: Fraction | None = None


def times(W: list[list[Any]], v: Sequence[Any]) -> list[Any]:
    """W v."""
    return [sum(w * x for w, x in zip(row, v, strict=True)) for row in W]


def plus(*parts: Sequence[Any]) -> list[Any]:
    """The sum of vectors."""
    return [sum(each) for each in zip(*parts, strict=True)]


def _dense(z: Signal, s: Callable[[Any], Any], of: dict[str, Any], sample: int) -> Signal:
    return [plus(of["b"], times(of["W"], [s(x) for x in at])) for at in z]


DENSE = Written({"W": (1, 1, 1)}, _dense)


@dataclass(frozen=True)
class Explicit:
    """A network of given widths (n_0, n_1, …) on given inputs, as polynomials in its parameters.

    `written` is what layers 2, 3, … are, or each of them; an input is a vector, or one for each
    position.
    """

    network: Network
    widths: tuple[int, ...]
    inputs: tuple[Any, ...]
    written: Written | tuple[Written, ...] = DENSE

    def written_at(self, layer: int) -> Written:
        """How a layer is written out; layer 1 is z = b + W x at each position."""
        if layer == 1:
            return DENSE
        return self.written if isinstance(self.written, Written) else self.written[layer - 2]

    @property
    def depth(self) -> int:
        return len(self.widths) - 1

    @cached_property
    def signals(self) -> list[list[list[Fraction]]]:
        """The inputs as signals."""
        return [x if isinstance(x[0], list | tuple) else [x] for x in self.inputs]

    @cached_property
    def sources(self) -> list[Source]:
        """What is random in each layer."""
        found = []
        for layer in range(1, self.depth + 1):
            n_in, n_out = self.widths[layer - 1 : layer + 1]
            given = self.written_at(layer)
            law = self.network.weights_at(layer)
            rate = rational(self.network.lambda_W_at(layer))
            for name, (into, out, taps) in given.matrices.items():
                sizes = n_out * out, n_in * into
                own = replace(law, C_W=law.C_W / taps)
                for tap in range(taps):
                    label = f"{name}{tap}" if taps > 1 else name
                    found.append(Source(layer, label, *sizes, own, rate / taps / sizes[1]))
            variance = self.network.C_b_at(layer)
            bias = rational(self.network.lambda_b_at(layer))
            found.append(Source(layer, "b", n_out, None, variance, bias))
            if given.mask is not None:
                for k in range(len(self.inputs)):
                    found.append(Source(layer, f"mask{k}", n_in, None, given.mask))
        return found

    @cached_property
    def parameters(self) -> list[tuple[Source, int, int | None]]:
        """(source, i, j) for W_ij, and (source, i, None) for b_i and masks."""
        return [
            (source, i, j)
            for source in self.sources
            for i in range(source.rows)
            for j in ((None,) if source.columns is None else range(source.columns))
        ]

    @cached_property
    def ring(self) -> fmpq_mpoly_ctx:
        names = [f"t{k}" for k in range(len(self.parameters))]
        return fmpq_mpoly_ctx.get(names, Ordering.lex)

    @cached_property
    def rates(self) -> list[fmpq]:
        """λ_b^{(ℓ)} and λ_W^{(ℓ)}/n_{ℓ−1}; 0 of masks."""
        values = [source.rate for source, *_ in self.parameters]
        return [fmpq(value.numerator, value.denominator) for value in values]

    @cached_property
    def arrays(self) -> dict[tuple[int, str], Any]:
        """The matrices and vectors of parameters by layer and name."""
        variable = dict(zip(self.parameters, self.ring.gens(), strict=True))
        found: dict[tuple[int, str], Any] = {}
        for source in self.sources:
            if source.columns is None:
                made = [variable[source, i, None] for i in range(source.rows)]
                if not source.law and source.name == "b" and not source.rate:
                    made = [self.ring.constant(0)] * source.rows
            else:
                made = [
                    [variable[source, i, j] for j in range(source.columns)]
                    for i in range(source.rows)
                ]
            found[source.layer, source.name] = made
        return found

    @cached_property
    def preactivations(self) -> dict[tuple[int, int], fmpq_mpoly]:
        """z_{i;α} of the last layer, the sample αp being αP + p."""
        found = {}
        for alpha, x in enumerate(self.signals):
            signal = [
                [self.ring.constant(fmpq(v.numerator, v.denominator)) for v in map(Fraction, at)]
                for at in x
            ]
            for layer in range(1, self.depth + 1):
                of = {name: made for (own, name), made in self.arrays.items() if own == layer}
                sigma = self.sigma(layer) if layer > 1 else lambda value: value
                signal = self.written_at(layer).forward(signal, sigma, of, alpha)
            for p, at in enumerate(signal):
                found |= {(i, alpha * len(signal) + p): value for i, value in enumerate(at)}
        return found

    def sigma(self, layer: int) -> Callable[[fmpq_mpoly], fmpq_mpoly]:
        """The activation that the matrices of a layer act on."""
        expr = self.network.activation_at(layer - 1).expr
        coefficients = [
            fmpq(int(c.p), int(c.q)) for c in sympy.Poly(expr, activations.z).all_coeffs()
        ]

        def horner(value: fmpq_mpoly) -> fmpq_mpoly:
            total = self.ring.constant(0)
            for coefficient in coefficients:
                total = total * value + coefficient
            return total

        return horner

    @cached_property
    def known_derivatives(self) -> dict[tuple[int, int, tuple[int, ...]], fmpq_mpoly]:
        return {}

    def derivative(self, i: int, alpha: int, by: tuple[int, ...]) -> fmpq_mpoly:
        """∂_{θ_μ} ∂_{θ_ν} … z_{i;α}, with biases of variance 0 put to 0 at the end."""
        key = (i, alpha, tuple(sorted(by)))
        if key not in self.known_derivatives:
            value = self.preactivations[i, alpha]
            for mu in by:
                value = value.derivative(mu)
            at_zero = {
                f"t{mu}": 0
                for mu, (source, *_) in enumerate(self.parameters)
                if source.name == "b" and source.law == 0
            }
            self.known_derivatives[key] = value.subs(at_zero)
        return self.known_derivatives[key]

    def field(self, name: str, neurons: Sequence[int], samples: Sequence[int]) -> fmpq_mpoly:
        """Σ over one parameter for each edge of Π λ Π_nodes ∂ … ∂ z."""
        edges, total = EDGES[name], self.ring.constant(0)
        trained = [mu for mu, rate in enumerate(self.rates) if rate]
        for chosen in product(trained, repeat=len(edges)):
            summand = self.ring.constant(prod((self.rates[mu] for mu in chosen), start=fmpq(1)))
            for node, (i, alpha) in enumerate(zip(neurons, samples, strict=True)):
                by = tuple(mu for mu, edge in zip(chosen, edges, strict=True) if node in edge)
                factor = self.derivative(i, alpha, by)
                if not factor:
                    break
                summand *= factor
            else:
                total += summand
        return total

    def average(self, polynomial: fmpq_mpoly) -> Fraction:
        """E, monomial by monomial, over the last source first."""
        totals: dict[tuple[int, ...], Fraction] = {
            powers: Fraction(int(c.p), int(c.q)) for powers, c in polynomial.to_dict().items()
        }
        for source in reversed(self.sources):
            count = source.rows * (source.columns or 1)
            averaged: dict[tuple[int, ...], Fraction] = {}
            for powers, value in totals.items():
                rest, own = powers[:-count], powers[-count:]
                if (source, own) not in self.known_moments:
                    self.known_moments[source, own] = self.moment(source, own)
                moment = self.known_moments[source, own]
                if moment:
                    averaged[rest] = averaged.get(rest, Fraction(0)) + moment * value
            totals = averaged
        return totals.get((), Fraction(0))

    @cached_property
    def known_moments(self) -> dict[tuple[Source, tuple[int, ...]], Fraction]:
        return {}

    def moment(self, source: Source, powers: tuple[int, ...]) -> Fraction:
        """E[Π W], E[Π b], or E[Π μ/p]."""
        if source.name.startswith("mask"):
            return prod((source.law ** (1 - int(m)) for m in powers if m), start=Fraction(1))
        if source.columns is None:
            biases = tuple((i, 0) for i, power in enumerate(powers) for _ in range(power))
            return gaussian_entries(biases, rational(source.law))
        places = product(range(source.rows), range(source.columns))
        entries = [place for place, power in zip(places, powers, strict=True) for _ in range(power)]
        return entries_moment(source.law, tuple(entries), source.columns, source.rows)

    def cumulant(
        self, fields: Sequence[str], neurons: Sequence[int], samples: Sequence[int]
    ) -> Fraction:
        """κ(φ_1, φ_2, …) at these neural indices."""
        polynomials = []
        for part in parts(fields):
            places = neurons[part.start : part.stop], samples[part.start : part.stop]
            polynomials.append(self.field(fields[part.number], *places))
        total = Fraction(0)
        for partition in set_partitions(tuple(range(len(fields)))):
            sign = (-1) ** (len(partition) - 1) * factorial(len(partition) - 1)
            averages = []
            for block in partition:
                whole = prod((polynomials[f] for f in block), start=self.ring.constant(1))
                averages.append(self.average(whole))
            total += sign * prod(averages)
        return total

    @property
    def kernel(self) -> dict[tuple[int, ...], sympy.Rational]:
        """K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0, of two samples, four, six and eight."""
        vectors = dict(enumerate(at for signal in self.signals for at in signal))
        return {
            samples: sympy.Rational(
                str(
                    sum(
                        prod(map(Fraction, xs))
                        for xs in zip(*map(vectors.get, samples), strict=True)
                    )
                )
            )
            / self.widths[0]
            for size in (2, 4, 6, 8)
            for samples in combinations_with_replacement(vectors, size)
        }


@dataclass(frozen=True)
class Part:
    number: int
    start: int
    stop: int


def parts(fields: Sequence[str]) -> Iterator[Part]:
    start = 0
    for number, field in enumerate(fields):
        stop = start + len(EDGES[field]) + 1
        yield Part(number, start, stop)
        start = stop
