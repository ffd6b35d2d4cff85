"""Recursions in the papers' form ⟨σσ(zz − K)⟩K⁻¹K⁻¹, and back to outer derivatives.

Integrating by parts against z ~ N(0, K) k times (Stein's identity) gives

    ⟨∂_a ∂_b … F⟩ = ⟨F :z^a z^b …:⟩ = Σ_{β,γ,… ∈ D} K^{aβ} K^{bγ} … ⟨F :z_β z_γ …:⟩ ,

K^{ab} the inverse kernel on any data set D that holds the samples of F, z^a = Σ_β K^{aβ} z_β, and
:…: the Wick-ordered product, Hermite's polynomial: :z_a z_b: = z_a z_b − K_ab (source 000,
eq. 5.16). On the right σ is multiplied, never differentiated, so a kink does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, Protocol, cast

import sympy

from .. import symbols
from ..activations.functions import Activation
from ..arithmetic.hermite import hermite
from ..errors import InputError
from ..symbols import K, z
from .brackets import (
    Average,
    Bracket,
    Component,
    GaussianAverage,
    product_latex,
    product_text,
    specialise,
)

__all__ = ["HermiteAverage", "InverseKernel", "derivative_form", "kernel_form", "outward"]

Entry = Callable[[int, int], sympy.Expr]


class HermiteAverage(sympy.Expr):
    """⟨Π_p σ^{(order_p)}(z_{sample_p}) :z z …:⟩_K with one z for each of `indices`.

    With `raised` indices, z^a = Σ_β K^{aβ} z_β, it is the bracket ⟨∂_a … Πσ⟩; with lowered ones it
    is what the papers print.
    """

    is_commutative = True
    is_real = True

    def __new__(cls, factors: Any, indices: Any, raised: Any = True) -> HermiteAverage:
        """From factors (sample, order) and the samples of the z."""
        pairs = sympy.Tuple(*(sympy.Tuple(*factor) for factor in factors))
        labels = sympy.Tuple(*sorted(indices, key=int))
        made: HermiteAverage = super().__new__(cls, pairs, labels, sympy.sympify(bool(raised)))
        return made

    @property
    def factors(self) -> tuple[tuple[int, int], ...]:
        """(sample, order) of each factor σ^{(order)}(z_sample)."""
        return tuple((int(sample), int(order)) for sample, order in self.args[0].args)

    @property
    def indices(self) -> tuple[int, ...]:
        """The samples of the z, ascending."""
        return tuple(int(sample) for sample in self.args[1].args)

    @property
    def raised(self) -> bool:
        """Whether the indices are raised with the inverse kernel."""
        return bool(self.args[2])

    @property
    def samples(self) -> tuple[int, ...]:
        """The samples that σ is taken at."""
        return tuple(sorted({sample for sample, _ in self.factors}))

    @property
    def _is_single(self) -> bool:
        return not self.raised and len({*self.samples, *self.indices}) == 1

    def _sympystr(self, printer: Any) -> str:
        body = product_text(self.factors)
        if self._is_single:
            inner = sympy.sstr(hermite(len(self.indices), z, K), order="grlex")
        else:
            marks = "⁰¹²³⁴⁵⁶⁷⁸⁹" if self.raised else "₀₁₂₃₄₅₆₇₈₉"
            digits = [str(a).translate(str.maketrans("0123456789", marks)) for a in self.indices]
            inner = _ordered_product([f"z{a}" for a in digits], f"K{''.join(digits)}")
        return f"⟨{body} {_parenthesised(inner)}⟩"

    def _latex(self, printer: Any) -> str:
        if self._is_single:
            inner = sympy.latex(hermite(len(self.indices), z, K), order="grlex")
        else:
            mark = "^" if self.raised else "_"
            labels = [rf"\alpha_{{{a}}}" for a in self.indices]
            inner = _ordered_product(
                [f"z{mark}{{{a}}}" for a in labels], f"K{mark}{{{''.join(labels)}}}"
            )
        body = product_latex(self.factors)
        return rf"\left\langle {body} {_parenthesised(inner)}\right\rangle_{{K}}"


class InverseKernel(sympy.Expr):
    """K^{ab}, an entry of the inverse of the kernel on a data set."""

    is_commutative = True
    is_real = True

    def __new__(cls, data: Any, pair: Any) -> InverseKernel:
        """From the samples of the data set, and two of them."""
        samples, ends = sorted(data, key=int), sorted(pair, key=int)
        made: InverseKernel = super().__new__(cls, sympy.Tuple(*samples), sympy.Tuple(*ends))
        return made

    def explicit(self) -> sympy.Expr:
        """The entry as a rational function of the kernel's."""
        data, (a, b) = list(self.args[0]), self.args[1]
        kernel = sympy.Matrix(len(data), len(data), lambda i, j: _kernel(data[i], data[j]))
        row, column = data.index(a), data.index(b)
        return kernel.cofactor(column, row) / kernel.det(method="berkowitz")

    def _sympystr(self, printer: Any) -> str:
        marks = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
        return "K" + "".join(str(sample).translate(marks) for sample in self.args[1])

    def _latex(self, printer: Any) -> str:
        return "K^{" + "".join(rf"\alpha_{{{sample}}}" for sample in self.args[1]) + "}"


class Derived(Protocol):
    """A recursion: its right-hand side, and the activation that is inserted in it, if any."""

    @property
    def activation(self) -> Activation | None:
        """The activation, or None for the unspecified σ."""

    @property
    def expr(self) -> sympy.Expr:
        """The right-hand side."""


def kernel_form(
    given: Derived | Bracket | sympy.Expr, data: Sequence[int] | None = None
) -> sympy.Expr:
    """Every outer derivative as a factor :z z …:, by integration by parts.

    Arguments:
        given: a recursion, a bracket, or an expression with `Average`s. With one sample the result
            is in ⟨σσ(z² − K)⟩/K² and its like; with several, in averages with raised indices
            z^a = Σ_β K^{aβ} z_β. A recursion of a given activation is evaluated as `specialise`
            does, but its integrals keep σ undifferentiated.
        data: with several samples, write each raised index as the sum over this data set.

    Raises:
        InputError: a data set without a sample that σ is taken at; a kinked activation where the
            recursion asks for a product of distributions, such as ReLU's (σ'')².
    """
    if isinstance(given, sympy.Expr):
        return _kernel_form(given, data)
    if isinstance(given, Bracket):
        return _kernel_form(Average(given.factors, given.outer), data)
    if given.activation is None:
        return _kernel_form(given.expr, data)
    return _specialised(replace(cast(Any, given), activation=None).expr, given.activation, data)


def derivative_form(expression: sympy.Expr) -> sympy.Expr:
    """Every factor :z z …: as outer derivatives: the inverse of `kernel_form`.

    A lowered z_β comes back as Σ_a K_βa ∂_a over the samples a of its σ.
    """

    def derivatives(average: HermiteAverage) -> sympy.Expr:
        if average.raised:
            return _differentiated(average.factors, average.indices)
        if average._is_single:
            power = len(average.indices)
            return K**power * Average(average.factors, average.indices)
        return sympy.Add(
            *(
                prod(map(_kernel, average.indices, ends), start=sympy.S.One)
                * _differentiated(average.factors, ends)
                for ends in product(average.samples, repeat=len(average.indices))
            )
        )

    return _replaced(expression, HermiteAverage, derivatives)


def outward(average: Average) -> sympy.Expr:
    """The bracket with derivatives of σ beyond the first moved outside, by the product rule:

        σ'' σ'^q σ^p G = [∂(σ'^{q+1} σ^p G) − p σ'^{q+2} σ^{p−1} G]/(q+1) ,

    at each sample on its own, G of the other samples. For a kinked σ this is the limit of every
    smoothing of the kink; (σ'')² and the like have none.

    Raises InputError where two factors of one sample are distributions.
    """
    factors, outer, _ = average.bracket
    sample, highest = max(factors, key=lambda factor: factor[1], default=(0, 0))
    if highest < 2:
        return average
    here = [order for at, order in factors if at == sample]
    others = [factor for factor in factors if factor[0] != sample]
    p, q = here.count(0), here.count(1)
    if len(here) != p + q + 1 or (highest > 2 and q):
        raise InputError("bracket", average, "at most one factor of a sample with a kink's δ")

    def with_orders(orders: Iterable[int], derivatives: int) -> sympy.Expr:
        pairs = sorted([*others, *((sample, order) for order in orders)])
        return outward(Average(pairs, sorted([*outer, *[sample] * derivatives])))

    lower = [0] * p + [1] * q + [highest - 1]
    whole = with_orders(lower, 1)
    if p:
        whole -= p * with_orders([0] * (p - 1) + [1] * (q + 1) + [highest - 1], 0)
    return whole / (q + 1)


def wick_ordered(
    indices: tuple[int, ...], contraction: Entry
) -> Iterator[tuple[tuple[int, ...], sympy.Expr]]:
    """:z_a z_b …: as (the z that remain, Π −contraction of those paired)."""
    if not indices:
        yield (), sympy.S.One
        return
    first, rest = indices[0], indices[1:]
    for remaining, value in wick_ordered(rest, contraction):
        yield (first, *remaining), value
    for position, partner in enumerate(rest):
        others = rest[:position] + rest[position + 1 :]
        for remaining, value in wick_ordered(others, contraction):
            yield remaining, -contraction(first, partner) * value


def _kernel_form(expression: sympy.Expr, data: Sequence[int] | None) -> sympy.Expr:
    brackets = [average.bracket for average in expression.atoms(Average)]
    single = len({sample for bracket in brackets for sample, _ in bracket.factors}) == 1

    def hermites(average: Average) -> sympy.Expr:
        factors, outer, _ = average.bracket
        if not outer:
            return average
        if data is None and single:
            return HermiteAverage(factors, outer, raised=False) / K ** len(outer)
        raised = HermiteAverage(factors, outer)
        return raised if data is None else _over_data(raised, data)

    return _replaced(expression, Average, hermites)


def _over_data(average: HermiteAverage, data: Sequence[int]) -> sympy.Expr:
    """A raised average as a sum of lowered ones over the data set."""
    if not set(average.samples) <= set(data):
        raise InputError("data", data, f"a data set with the samples {average.samples}")
    return sympy.Add(
        *(
            prod(
                (InverseKernel(data, ends) for ends in zip(average.indices, lower, strict=True)),
                start=sympy.S.One,
            )
            * HermiteAverage(average.factors, lower, raised=False)
            for lower in product(sorted(set(data)), repeat=len(average.indices))
        )
    )


def _specialised(
    expression: sympy.Expr, activation: Activation, data: Sequence[int] | None
) -> sympy.Expr:
    """The kernel form with a given σ: closed where a closed form is found."""

    def value(average: Average) -> sympy.Expr:
        closed = specialise(average.bracket, activation)
        return _integrals(average, activation, data) if closed.has(*_OPEN) else closed

    if not activation.is_smooth:
        expression = _replaced(expression, Average, outward)
    return _replaced(expression, Average, value)


def _integrals(average: Average, activation: Activation, data: Sequence[int] | None) -> sympy.Expr:
    """One bracket as inverse kernels times integrals of σ's and monomials of z."""
    samples = sorted({sample for sample, _ in average.bracket.factors})
    single = len(samples) == 1 and data is None
    used = samples if data is None else sorted(set(data))
    names = {a: z if single else symbols.real(f"z_{a}") for a in used}
    entry: Entry = (lambda a, b: K) if single else _kernel
    covariance = [entry(a, b) for i, a in enumerate(used) for b in used[i:]]

    def integral(lowered: HermiteAverage) -> sympy.Expr:
        function = prod(
            (activation.derivative(order).subs(z, names[a]) for a, order in lowered.factors),
            start=sympy.S.One,
        )
        return sympy.Add(
            *(
                coefficient
                * GaussianAverage(
                    function * prod((names[a] for a in left), start=sympy.S.One),
                    names.values(),
                    covariance,
                )
                for left, coefficient in wick_ordered(lowered.indices, entry)
            )
        )

    if not average.bracket.outer:
        return integral(HermiteAverage(average.bracket.factors, ()))
    form = _kernel_form(average, None if single else used)
    return _replaced(form, HermiteAverage, integral)


_OPEN = (Average, GaussianAverage)
"""What `specialise` leaves where it knows no closed form."""


def _differentiated(factors: Sequence[tuple[int, int]], outer: Sequence[int]) -> sympy.Expr:
    if not set(outer) <= {sample for sample, _ in factors}:
        return sympy.S.Zero
    return Average(factors, sorted(outer))


def _kernel(a: Any, b: Any) -> Component:
    return Component("K", tuple(sorted((int(a), int(b)))))


def _replaced(
    expression: sympy.Expr, kind: type[sympy.Expr], image: Callable[[Any], sympy.Expr]
) -> sympy.Expr:
    images: Mapping[sympy.Expr, sympy.Expr] = {atom: image(atom) for atom in expression.atoms(kind)}
    return expression.xreplace(images)


def _ordered_product(names: list[str], contraction: str) -> str:
    """One z, or z z − K, or :z z z …: for the longer ones."""
    if len(names) <= 2:
        return "".join(names) + (f" - {contraction}" if len(names) == 2 else "")
    return f":{''.join(names)}:"


def _parenthesised(text: str) -> str:
    return f"({text})" if " " in text else text
