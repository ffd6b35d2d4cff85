"""Recursions in the papers' form ⟨σσ(zz − K)⟩K⁻¹K⁻¹.

Integrating by parts against z ~ N(0, K) k times (Stein's identity) gives

    ⟨∂_a ∂_b … F⟩ = ⟨F :z^a z^b …:⟩ = Σ_{β,γ,… ∈ D} K^{aβ} K^{bγ} … ⟨F :z_β z_γ …:⟩ ,

K^{ab} the inverse kernel on any data set D that holds the samples of F, z^a = Σ_β K^{aβ} z_β, and
:…: the Wick-ordered product, Hermite's polynomial: :z_a z_b: = z_a z_b − K_ab (source 000,
eq. 5.16). On the right σ is multiplied, never differentiated, so a kink does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, Protocol, cast

import sympy

from .. import symbols
from ..arithmetic.hermite import hermite
from ..display.labels import component_latex
from ..errors import InputError
from ..symbols import K, z
from .brackets import (
    Average,
    Bracket,
    Component,
    GaussianAverage,
    normal_form,
    product_latex,
    product_text,
    specialise,
    unspecified,
)
from .pieces import Pieces

__all__ = ["HermiteAverage", "InverseKernel", "kernel_form", "outward"]

Entry = Callable[[int, int], sympy.Expr]


class HermiteAverage(sympy.Expr):
    """⟨Π_p σ^{(order_p)}(z_{sample_p}) :z z …:⟩_K with one z for each of `indices`.

    With `raised` indices, z^a = Σ_β K^{aβ} z_β, it is the bracket ⟨∂_a … Πσ⟩; with lowered ones it
    is what the papers print. `kernel` is the label of K.
    """

    is_commutative = True
    is_real = True

    def __new__(
        cls, factors: Any, indices: Any, raised: Any = True, kernel: Any = "K"
    ) -> HermiteAverage:
        """From factors (sample, order), the samples of the z and the label of K."""
        pairs = sympy.Tuple(*(sympy.Tuple(*factor) for factor in factors))
        labels, marked = sympy.Tuple(*sorted(indices, key=int)), sympy.sympify(bool(raised))
        made: HermiteAverage = super().__new__(cls, pairs, labels, marked, _label(kernel))
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
        """True if the indices are raised with the inverse kernel."""
        return bool(self.args[2])

    @property
    def kernel(self) -> str:
        """The label of K."""
        return str(self.args[3])

    @property
    def samples(self) -> tuple[int, ...]:
        """The samples that σ is taken at."""
        return tuple(sorted({sample for sample, _ in self.factors}))

    @property
    def _is_single(self) -> bool:
        return not self.raised and len({*self.samples, *self.indices}) == 1

    def _sympystr(self, printer: Any) -> str:
        body, own = product_text(self.factors), self.kernel
        if self._is_single:
            inner = sympy.sstr(hermite(len(self.indices), z, _variance(own)), order="grlex")
        else:
            marks = "⁰¹²³⁴⁵⁶⁷⁸⁹" if self.raised else "₀₁₂₃₄₅₆₇₈₉"
            digits = [str(a).translate(str.maketrans("0123456789", marks)) for a in self.indices]
            inner = _ordered_product([f"z{a}" for a in digits], f"{own}{''.join(digits)}")
        return f"⟨{body} {_parenthesised(inner)}⟩{own.removeprefix('K')}"

    def _latex(self, printer: Any) -> str:
        own = component_latex(self.kernel, ())
        if self._is_single:
            hermites = hermite(len(self.indices), z, _variance(self.kernel))
            inner = sympy.latex(hermites, order="grlex")
        else:
            mark = "^" if self.raised else "_"
            labels = [rf"\alpha_{{{a}}}" for a in self.indices]
            inner = _ordered_product(
                [f"z{mark}{{{a}}}" for a in labels], _marked(own, mark, "".join(labels))
            )
        body = product_latex(self.factors)
        return rf"\left\langle {body} {_parenthesised(inner)}\right\rangle_{{{own}}}"


class InverseKernel(sympy.Expr):
    """K^{ab}, an entry of the inverse of the kernel on a data set; `kernel` is the label of K."""

    is_commutative = True
    is_real = True

    def __new__(cls, data: Any, pair: Any, kernel: Any = "K") -> InverseKernel:
        """From the samples of the data set, two of them and the label of K."""
        samples, ends = (sympy.Tuple(*sorted(each, key=int)) for each in (data, pair))
        made: InverseKernel = super().__new__(cls, samples, ends, _label(kernel))
        return made

    def explicit(self) -> sympy.Expr:
        """The entry as a rational function of the kernel's."""
        data, (a, b) = list(self.args[0]), self.args[1]
        entry = _entries(str(self.args[2]))
        kernel = sympy.Matrix(len(data), len(data), lambda i, j: entry(data[i], data[j]))
        row, column = data.index(a), data.index(b)
        return kernel.cofactor(column, row) / kernel.det(method="berkowitz")

    def _sympystr(self, printer: Any) -> str:
        marks = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
        indices = (str(sample).translate(marks) for sample in self.args[1])
        return str(self.args[2]) + "".join(indices)

    def _latex(self, printer: Any) -> str:
        labels = "".join(rf"\alpha_{{{sample}}}" for sample in self.args[1])
        return _marked(component_latex(str(self.args[2]), ()), "^", labels)


class Derived(Protocol):
    """A recursion: its right-hand side, and the activation that is inserted in it, if any."""

    @property
    def activation(self) -> Pieces | None:
        """The activation, or None for the unspecified σ."""

    @property
    def expr(self) -> sympy.Expr:
        """The right-hand side."""

    @property
    def kernels(self) -> Mapping[str, sympy.Expr]:
        """The kernels of the brackets by their labels, where they differ from K."""


def kernel_form(
    given: Derived | Bracket | sympy.Expr, data: Sequence[int] | None = None
) -> sympy.Expr:
    """Every outer derivative as a factor :z z …:, by integration by parts.

    Arguments:
        given: a recursion, a bracket, or an expression with `Average`s. With one sample the result
            is in ⟨σσ(z² − K)⟩/K² and its like; with several, in averages with raised indices
            z^a = Σ_β K^{aβ} z_β. A recursion of a given activation is evaluated as `specialise`
            does, but its integrals keep σ undifferentiated. Brackets at another variance, K_y,
            have that for K; a recursion's `kernels` say what it is.
        data: with several samples, write each raised index as the sum over this data set.

    Raises:
        InputError: a data set without a sample that σ is taken at; a kinked activation where the
            recursion asks for a product of distributions, such as ReLU's (σ'')².
    """
    if isinstance(given, sympy.Expr):
        return _kernel_form(given, data)
    if isinstance(given, Bracket):
        return _kernel_form(unspecified(given), data)
    if given.activation is None:
        return _kernel_form(given.expr, data)
    general = replace(cast(Any, given), activation=None)
    return _inserted(_specialised(general.expr, given.activation, data), general.kernels)


def outward(average: Average) -> sympy.Expr:
    """The bracket with derivatives of σ beyond the first moved outside, by `normal_form`:

        σ'' σ'^q σ^p G = [∂(σ'^{q+1} σ^p G) − p σ'^{q+2} σ^{p−1} G]/(q+1) ,

    at each sample on its own, G of the other samples. For a kinked σ this is the limit of every
    smoothing of the kink; (σ'')² and the like have none.

    Raises InputError where two factors of one sample are distributions.
    """
    moved = normal_form(average.bracket, least=2)
    if any(order > 1 for bracket in moved for _, order in bracket.factors):
        raise InputError("bracket", average, "at most one factor of a sample with a kink's δ")
    return sympy.Add(*(value * unspecified(each) for each, value in moved.items()))


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
        factors, outer, kernel = average.bracket
        if not outer:
            return average
        if data is None and single:
            lowered = HermiteAverage(factors, outer, False, kernel)
            return lowered / _variance(kernel) ** len(outer)
        raised = HermiteAverage(factors, outer, True, kernel)
        return raised if data is None else _over_data(raised, data)

    return _replaced(expression, Average, hermites)


def _over_data(average: HermiteAverage, data: Sequence[int]) -> sympy.Expr:
    """A raised average as a sum of lowered ones over the data set."""
    if not set(average.samples) <= set(data):
        raise InputError("data", data, f"a data set with the samples {average.samples}")
    return sympy.Add(
        *(
            prod(
                (
                    InverseKernel(data, ends, average.kernel)
                    for ends in zip(average.indices, lower, strict=True)
                ),
                start=sympy.S.One,
            )
            * HermiteAverage(average.factors, lower, False, average.kernel)
            for lower in product(sorted(set(data)), repeat=len(average.indices))
        )
    )


def _specialised(
    expression: sympy.Expr, activation: Pieces, data: Sequence[int] | None
) -> sympy.Expr:
    """The kernel form with a given σ: closed where a closed form is found."""

    def value(average: Average) -> sympy.Expr:
        closed = specialise(average.bracket, activation)
        if closed.has(*_OPEN):
            return _integrals(average, activation, data)
        return _renamed(closed, average.bracket.kernel)

    if not activation.is_smooth:
        expression = _replaced(expression, Average, outward)
    return _replaced(expression, Average, value)


def _integrals(average: Average, activation: Pieces, data: Sequence[int] | None) -> sympy.Expr:
    """One bracket as inverse kernels times integrals of σ's and monomials of z."""
    samples = list(average.bracket.samples)
    single = len(samples) == 1 and data is None
    used = samples if data is None else sorted(set(data))
    names = {a: z if single else symbols.real(f"z_{a}") for a in used}
    own = average.bracket.kernel
    entry: Entry = (lambda a, b: _variance(own)) if single else _entries(own)
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
        return integral(HermiteAverage(average.bracket.factors, (), True, own))
    form = _kernel_form(average, None if single else used)
    return _replaced(form, HermiteAverage, integral)


_OPEN = (Average, GaussianAverage)
"""A bracket that `specialise` leaves, as it knows no closed form."""


def _label(kernel: Any) -> sympy.Symbol:
    return sympy.Symbol(str(kernel))


def _variance(kernel: str) -> sympy.Symbol:
    """K of one sample, by its label."""
    return symbols.tensor(kernel)


def _entries(kernel: str) -> Entry:
    """K's components, by its label."""
    return lambda a, b: Component(kernel, tuple(sorted((int(a), int(b)))))


def _renamed(closed: sympy.Expr, kernel: str) -> sympy.Expr:
    """A closed form, with this label for K's."""
    if kernel == "K":
        return closed
    of_pairs = {
        each: _entries(kernel)(*each.args[1])
        for each in closed.atoms(Component)
        if str(each.args[0]) == "K"
    }
    return closed.xreplace({K: _variance(kernel), **of_pairs})


def _inserted(expression: sympy.Expr, kernels: Mapping[str, sympy.Expr]) -> sympy.Expr:
    """With what the labelled kernels are: of several samples, given for the pair (1, 2)."""
    values = {_variance(label): value for label, value in kernels.items()}
    for each in expression.atoms(Component):
        label, ends = str(each.args[0]), each.args[1]
        if label in kernels:
            at = dict(zip((1, 2), map(int, ends), strict=True))
            values[each] = kernels[label].xreplace(
                {
                    part: _entries(str(part.args[0]))(*(at[int(k)] for k in part.args[1]))
                    for part in kernels[label].atoms(Component)
                }
            )
    return expression.xreplace(values)


def _replaced(
    expression: sympy.Expr, kind: type[sympy.Expr], image: Callable[[Any], sympy.Expr]
) -> sympy.Expr:
    images: Mapping[sympy.Expr, sympy.Expr] = {atom: image(atom) for atom in expression.atoms(kind)}
    return expression.xreplace(images)


def _marked(name: str, mark: str, indices: str) -> str:
    """A kernel with its indices in LaTeX."""
    return f"{name if len(name) == 1 else f'{{{name}}}'}{mark}{{{indices}}}"


def _ordered_product(names: list[str], contraction: str) -> str:
    """One z, or z z − K, or :z z z …: for the longer ones."""
    if len(names) <= 2:
        return "".join(names) + (f" - {contraction}" if len(names) == 2 else "")
    return f":{''.join(names)}:"


def _parenthesised(text: str) -> str:
    return f"({text})" if " " in text else text
