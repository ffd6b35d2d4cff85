"""Gaussian expectations ⟨…⟩_K as symbols.

The one bracket of every recursion is

    ⟨ ∂^{outer} Π_p σ^{(order_p)}(z_{sample_p}) ⟩_K ,        z ~ N(0, K),

kept with its derivatives outside: by Price's theorem they are derivatives by K of the inner
average, so they exist for kinked activations, where σ'' does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import sympy

from ..arithmetic.hermite import by_parts
from ..display.labels import SUMMED, component_latex, sample_latex, sample_text
from ..errors import InputError
from ..symbols import K, is_named, real, z
from . import closed_forms
from .oracle import gaussian_average
from .pieces import Pieces
from .shapes import SingleShape, differentiated

_LABELS = 1 << 20
"""More than all labels of samples."""


def by_samples(samples: Iterable[int]) -> int:
    """The order of a factor that is differentiated by these samples; 0 for none."""
    ranks = enumerate(sorted(samples))
    return -sum((1 + sample) * int(_LABELS**rank) for rank, sample in ranks)


def slopes_of(order: int) -> tuple[int, ...]:
    """The samples that a factor of this order is differentiated by, ascending: of `by_samples`."""
    found, left = [], -order
    while left > 0:
        left, digit = divmod(left, _LABELS)
        found.append(digit - 1)
    return tuple(found)


class Bracket(NamedTuple):
    """⟨∂^outer Π σ^{(order)}(z_sample)⟩_K with sorted `factors` (sample, order) and sorted `outer`.

    `outer` lists the samples that are differentiated, with repetition; each occurs among the
    factors, and ∂ acts on every factor of that sample. If σ of a sample is a function of all
    samples at the neuron, any sample may stand in `outer`, and a factor that is differentiated by
    samples has `by_samples` of them for its order. `kernel` is the label of K.
    """

    factors: tuple[tuple[int, int], ...]
    outer: tuple[int, ...] = ()
    kernel: str = "K"

    @property
    def samples(self) -> tuple[int, ...]:
        """Those that occur, ascending."""
        own = {sample for sample, _ in self.factors}
        own |= {each for _, order in self.factors for each in slopes_of(order)}
        return tuple(sorted(own.union(self.outer)))

    @property
    def inside(self) -> tuple[int, ...]:
        """The samples that σ is taken of, ascending."""
        return tuple(sorted({sample for sample, _ in self.factors}))

    @property
    def line(self) -> SingleShape:
        """The orders of its factors and how often it is differentiated, with all samples one."""
        return SingleShape(tuple(order for _, order in self.factors), len(self.outer))

    @property
    def is_single(self) -> bool:
        """True if only one sample occurs."""
        return len(self.samples) == 1

    def relabelled(self, label: Callable[[int], int]) -> Bracket:
        """With other labels of its samples, which keep their order."""
        factors = tuple(
            (label(sample), order if order >= 0 else by_samples(map(label, slopes_of(order))))
            for sample, order in self.factors
        )
        return self._replace(factors=factors, outer=tuple(map(label, self.outer)))


def normal_form(bracket: Bracket, least: int = 1) -> dict[Bracket, Fraction]:
    """The bracket by total derivatives of products in which no σ^{(k)} of highest order is alone.

    Of one sample, p + 1 factors being of order k − 1 and A of lower ones,

        σ^{(k)} (σ^{(k−1)})^p A = (∂[(σ^{(k−1)})^{p+1} A] − (σ^{(k−1)})^{p+1} ∂A) / (p + 1),

    as σσ'' = ½∂²(σσ) − σ'σ': what is left exists for kinked activations wherever the sum does.

    Arguments:
        least: the lowest order k of a derivative that is moved.
    """
    for sample in bracket.samples:
        orders = sorted(order for at, order in bracket.factors if at == sample)
        top = orders.pop()
        if top < least or top in orders:
            continue
        others = [factor for factor in bracket.factors if factor[0] != sample]
        own = [(sample, order) for order in (*orders, top - 1)]
        share = Fraction(1, orders.count(top - 1) + 1)
        outer = tuple(sorted((*bracket.outer, sample)))
        whole = Bracket(tuple(sorted(others + own)), outer, bracket.kernel)
        parts = [(whole, share)]
        for k, order in enumerate(orders):
            if order < top - 1:
                raised = [*own[:k], (sample, order + 1), *own[k + 1 :]]
                parts.append(
                    (
                        whole._replace(factors=tuple(sorted(others + raised)), outer=bracket.outer),
                        -share,
                    )
                )
        found: dict[Bracket, Fraction] = {}
        for part, coefficient in parts:
            for each, value in normal_form(part, least).items():
                found[each] = found.get(each, Fraction(0)) + coefficient * value
        return {each: value for each, value in found.items() if value}
    return {bracket: Fraction(1)}


def inside(bracket: Bracket, kept: Container[int]) -> Counter[tuple[tuple[int, int], ...]]:
    """The products of σ^{(order)}, each with its count, once the derivatives outside are taken
    inside, but those of the samples that are kept."""
    products = Counter({bracket.factors: 1})
    for sample in bracket.outer:
        if sample not in kept:
            products = differentiated(products, sample)
    return products


class Average(sympy.Expr):
    """A bracket of the unspecified σ, as a sympy expression that prints itself."""

    is_commutative = True
    is_real = True
    _names_sample = False

    def __new__(cls, factors: Any, outer: Any = (), kernel: Any = None) -> Average:
        """From factors (sample, order), the differentiated samples, and a kernel other than K."""
        pairs = sympy.Tuple(*(sympy.Tuple(*factor) for factor in factors))
        named = () if kernel is None else (sympy.Symbol(str(kernel)),)
        made: Average = super().__new__(cls, pairs, sympy.Tuple(*outer), *named)
        return made

    @property
    def bracket(self) -> Bracket:
        """The bracket this stands for."""
        factors, outer, *kernel = self.args
        return Bracket(
            tuple((int(sample), int(order)) for sample, order in factors.args),
            tuple(int(sample) for sample in outer.args),
            str(kernel[0]) if kernel else "K",
        )

    def _eval_subs(self, old: Any, new: Any) -> Any:
        """It depends on K, but says how only for a given activation."""
        if old == K or is_named(old, K.name):
            raise InputError("subs", "K", "an activation first, by `specialise`")
        return self

    @property
    def _is_plain(self) -> bool:
        """True if the average is printed without its sample."""
        return self.bracket.is_single and not self._names_sample

    def _sympystr(self, printer: Any) -> str:
        bracket, single = self.bracket, self._is_plain
        body, outer = product_text(bracket.factors, single), bracket.outer
        at = bracket.kernel.removeprefix("K")
        if not outer:
            return f"⟨{body}⟩{at}"
        if single:
            return f"⟨({body}){_primes(len(outer))}⟩{at}"
        return f"⟨{''.join('∂' + _subscript(sample) for sample in outer)}({body})⟩{at}"

    def _latex(self, printer: Any) -> str:
        bracket, single = self.bracket, self._is_plain
        inner, outer = product_latex(bracket.factors, single), bracket.outer
        at = component_latex(bracket.kernel, ())
        if not outer:
            return rf"\left\langle {inner}\right\rangle_{{{at}}}"
        if single:
            primes = "'" * len(outer) if len(outer) < 4 else f"^{{({len(outer)})}}"
            return rf"\left\langle \left({inner}\right){primes}\right\rangle_{{{at}}}"
        signs = "".join(rf"\partial_{{{sample_latex(sample)}}}" for sample in outer)
        return rf"\left\langle {signs}\left({inner}\right)\right\rangle_{{{at}}}"


class _Sampled(Average):
    """An average over one sample that is printed with its sample, ⟨σ₂²⟩ for ⟨σ²⟩."""

    _names_sample = True


def with_samples(expr: sympy.Expr) -> sympy.Expr:
    """The expression with the sample of every average printed, for use with several samples."""
    plain = [each for each in expr.atoms(Average) if each.bracket.is_single]
    return expr.xreplace({each: _Sampled(*each.args) for each in plain})


def unspecified(bracket: Bracket) -> Average:
    """The bracket of the unspecified σ."""
    kernel = None if bracket.kernel == "K" else bracket.kernel
    return Average(bracket.factors, bracket.outer, kernel)


def product_text(factors: Sequence[tuple[int, int]], single: bool | None = None) -> str:
    """Π σ^{(order)}(z_sample), samples as subscripts unless `single`; by default if several."""
    single = Bracket(tuple(factors)).is_single if single is None else single
    return " ".join(
        _slope(order)
        + ("σ" + _primes(order) + ("" if single else _subscript(sample)) + _superscript(count))
        for (sample, order), count in Counter(factors).items()
    )


def product_latex(factors: Sequence[tuple[int, int]], single: bool | None = None) -> str:
    """The same in LaTeX."""
    single = Bracket(tuple(factors)).is_single if single is None else single
    parts = []
    for (sample, order), count in Counter(factors).items():
        marks = "'" * order if order < 4 else f"^{{({order})}}"
        label = "" if single else rf"_{{\alpha_{sample}}}"
        slope = "".join(rf"\partial_{{{sample_latex(each)}}}" for each in slopes_of(order))
        body = rf"{slope}\sigma{marks}{label}"
        parts.append(
            body
            if count == 1
            else rf"\left({body}\right)^{{{count}}}"
            if order
            else (rf"\sigma{label}^{{{count}}}")
        )
    return "".join(parts)


def _slope(order: int) -> str:
    """∂ by samples, in front of a function of all samples."""
    return "".join(f"∂{_subscript(each)}" for each in slopes_of(order))


def _primes(order: int) -> str:
    return "'" * order if order < 4 else f"⁽{_superscript(order)}⁾"


def _subscript(value: int) -> str:
    if value >= SUMMED:
        return f"_{sample_text(value)}"
    return str(value).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _superscript(value: int) -> str:
    if value == 1:
        return ""
    return str(value).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


class GaussianAverage(sympy.Expr):
    """⟨f(z_1, …, z_k)⟩ for z ~ N(0, K) without a closed form, with k = 1 evaluated on demand.

    Arguments: f, its variables, and the entries K_{ab}, a ≤ b, row by row.
    """

    is_commutative = True
    is_real = True

    def __new__(cls, integrand: Any, variables: Any, covariance: Any) -> GaussianAverage:
        """From f, its variables and the entries of K."""
        made: GaussianAverage = super().__new__(
            cls, sympy.sympify(integrand), sympy.Tuple(*variables), sympy.Tuple(*covariance)
        )
        return made

    @property
    def free_symbols(self) -> set[sympy.Basic]:
        """The symbols of the covariance and the integrand's parameters, not the variables."""
        integrand, variables, covariance = self.args
        own: set[sympy.Basic] = integrand.free_symbols - set(variables.args)
        own |= covariance.free_symbols
        return own

    def _eval_subs(self, old: Any, new: Any) -> Any:
        integrand, variables, covariance = self.args
        if not any(is_named(old, each.name) for each in variables.args):
            if new.free_symbols & set(variables.args):
                raise InputError("subs", new, f"an expression without {variables}, averaged over")
            integrand = integrand._subs(old, new)
        return self.func(integrand, variables, covariance._subs(old, new))

    def _eval_evalf(self, prec: int) -> sympy.Expr | None:
        integrand, variables, covariance = self.args
        if len(variables.args) != 1 or not covariance.args[0].is_number:
            return None
        digits = max(15, int(prec * 0.30103) + 1)
        value = gaussian_average(integrand, covariance.args[0].evalf(digits + 5), digits)[0]
        return sympy.Float(value, digits)

    @property
    def _is_at_kernel(self) -> bool:
        """True if the covariance is K of the layer below, as it is but in layers with stages."""
        names = (
            each.args[0] if isinstance(each, Component) else each for each in self.args[2].args
        )
        return all(str(name) == "K" for name in names)

    def _sympystr(self, printer: Any) -> str:
        kernel = ", ".join(map(printer.doprint, self.args[2].args))
        at = "" if self._is_at_kernel else f"_({kernel})"
        return f"⟨{printer.doprint(self.args[0])}⟩{at}"

    def _latex(self, printer: Any) -> str:
        kernel = ", ".join(map(printer.doprint, self.args[2].args))
        at = "K" if self._is_at_kernel else kernel
        return rf"\left\langle {printer.doprint(self.args[0])}\right\rangle_{{{at}}}"


class Component(sympy.Expr):
    """A component T_{α_1 α_2 …} of a tensor of the layer below."""

    is_commutative = True
    is_real = True

    def __new__(cls, name: Any, samples: Any) -> Component:
        """From the tensor's name and its samples."""
        symbol = sympy.Symbol(name) if isinstance(name, str) else name
        made: Component = super().__new__(cls, symbol, sympy.Tuple(*samples))
        return made

    def _eval_subs(self, old: Any, new: Any) -> Any:
        """A component answers to its text, "K[1,2]"; its tensor's name alone is none."""
        if is_named(old, str(self)):
            return new
        if is_named(old, str(self.args[0])):
            raise InputError("subs", str(old), f"a component, such as {self}")
        return self

    def _sympystr(self, printer: Any) -> str:
        name, samples = self.args
        return f"{name}[{','.join(sample_text(int(sample)) for sample in samples.args)}]"

    def _latex(self, printer: Any) -> str:
        name, samples = self.args
        return component_latex(str(name), tuple(int(sample) for sample in samples.args))


def average(
    activation: Pieces, orders: Sequence[int], outer: int = 0, at: sympy.Expr = K
) -> sympy.Expr:
    """⟨∂_z^outer Π_p σ^{(orders_p)}(z)⟩ at the variance `at`, without a closed form by an average
    that `evalf` evaluates: no kink is differentiated in it, its δ-functions are integrated.

    Raises InputError where a product of distributions at a kink has no limit.
    """
    closed = closed_forms.average(activation, orders, outer, at)
    if closed is not None:
        return closed
    product = sympy.prod([activation.derivative(order) for order in orders])
    if activation.is_smooth:
        return GaussianAverage(sympy.diff(product, z, outer), (z,), (at,))
    regular = GaussianAverage(product * by_parts(outer, z, at), (z,), (at,))
    return regular + closed_forms.on_kinks(activation, orders, outer).subs(K, at)


def specialise(bracket: Bracket, activation: Pieces) -> sympy.Expr:
    """The bracket of a given activation: closed where a closed form is found.

    With one sample the kernel is the symbol `K`; with several it is Component("K", (a, b)).
    """
    if bracket.is_single:
        return average(activation, *bracket.line)
    samples = bracket.samples
    kernel = {(a, b): Component("K", (a, b)) for i, a in enumerate(samples) for b in samples[i:]}
    closed = _specialise_pair(bracket, activation, samples, kernel)
    if closed is not None:
        return closed
    if not activation.is_smooth:
        return unspecified(bracket)
    variables = {sample: real(f"z_{sample}") for sample in samples}
    product = sympy.prod(
        [
            activation.derivative(order).subs(z, variables[sample])
            for sample, order in bracket.factors
        ]
    )
    for sample in bracket.outer:
        product = sympy.diff(product, variables[sample])
    return GaussianAverage(product, variables.values(), kernel.values())


def _specialise_pair(
    bracket: Bracket,
    activation: Pieces,
    samples: Sequence[int],
    kernel: dict[tuple[int, int], sympy.Expr],
) -> sympy.Expr | None:
    """Two samples with one factor each: Price's theorem turns outer derivatives into ∂/∂K."""
    if len(samples) != 2 or len(bracket.factors) != 2 or len(bracket.outer) % 2:
        return None
    a, b = samples
    K_aa, K_ab, K_bb = (
        sympy.Dummy(positive=True),
        sympy.Dummy(real=True),
        sympy.Dummy(positive=True),
    )
    (_, first), (_, second) = bracket.factors
    value = closed_forms.average_two(activation, first, second, K_aa, K_ab, K_bb)
    if value is None:
        return None
    count = Counter(bracket.outer)
    mixed = min(count[a], count[b])
    value = sympy.diff(value, K_ab, mixed)
    for sample, variance in ((a, K_aa), (b, K_bb)):
        half = (count[sample] - mixed) // 2
        value = sympy.diff(value, variance, half) * 2**half
    names = {K_aa: kernel[a, a], K_ab: kernel[a, b], K_bb: kernel[b, b]}
    return sympy.simplify(value).xreplace(names)
