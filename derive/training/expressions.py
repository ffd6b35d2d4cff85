"""Training to order 1/n, as formulas.

>>> from derive import training
>>> print(training.prediction(order=0))
E[z_i]_a = y_ia - y_ia m_a^t
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product

import sympy

from ..citations import rests_on
from ..display.labels import component_latex
from ..display.objects import Shown, lines_latex
from ..errors import as_integer
from ..symbols import Symbol, real, tensor
from . import averages
from .averages import Average
from .diagrams import Diagram, Line
from .histories import History, Monomial, Variable
from .sequences import Exponentials, closed, step

eta = Symbol("eta", positive=True)
"""The global learning rate η."""
rate = real("m")
"""m = 1 − ηΘ, by which z − y of one training point is multiplied in a step."""
target = real("y")
"""The target of one training point."""
time = Symbol("tau", nonnegative=True)
"""The time τ = ηt of gradient flow, η → 0."""

_LETTERS = "abcdefgh"


@dataclass(frozen=True, eq=False, repr=False)
class Formula(Shown):
    """A sum of terms, of this name, at one order in 1/n."""

    name: str
    order: int

    @abstractmethod
    def rows(self, style: Style) -> list[str]:
        """The terms of the right side."""

    @property
    def styles(self) -> tuple[Style, Style]:
        """How it is written as text and in LaTeX."""
        return Style(), LatexStyle()

    def __str__(self) -> str:
        style, _ = self.styles
        first, *others = self.rows(style) or ["0"]
        signed = (f" - {each[1:]}" if each.startswith("-") else f" + {each}" for each in others)
        return f"{style.left(self.name, self.order)} = {first}{''.join(signed)}"

    def latex(self) -> str:
        """The formula in LaTeX, a row for each term."""
        _, style = self.styles
        first, *others = self.rows(style) or ["0"]
        signed = [each if each.startswith("-") else f"+{each}" for each in others]
        return lines_latex([f"{style.left(self.name, self.order)} = {first}", *signed])


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Formula):
    """An average over initializations of descended networks, at one order in 1/n.

    In the eigenbasis of Θ on the training set: labels a, b, … are its eigenvectors, m_a = 1 − ηΘ_a,
    and repeated labels are summed over; a free one may also be what descent leaves of a test input,
    where m_a = 1 and y_a = 0. i, j are outputs, n_out is their number.

    Attributes:
        name: "prediction", "covariance" or "ntk".
        order: in 1/n, 0 or 1.
        average: its diagrams.
    """

    average: Average

    def single_input(self) -> sympy.Expr:
        """One training point, one output, at that point: in closed form in t, η, m = 1 − ηΘ.

        The symbols are `symbols.tensor`s, `training.eta`, `training.rate`, `training.step` and
        `training.target`.

        >>> from derive import training
        >>> training.covariance(order=0).single_input()
        K*m**(2*t)
        """
        return self._at_points((rate,), (target,), lambda label, _: tensor(label))[()]

    def gradient_flow(self) -> sympy.Expr:
        """One training point, one output, after a time τ = ηt of gradient flow, η → 0.

        The symbols are `symbols.tensor`s, Θ among them, `training.target` and `training.time`, τ.

        >>> from derive import training
        >>> training.covariance(order=0).gradient_flow()
        K*exp(-2*Theta*tau)
        """
        theta, left = tensor("Theta"), real("f")
        powers = self.single_input().replace(
            lambda each: each.is_Pow and each.base == rate and each.exp.has(step),
            lambda each: left ** each.exp.coeff(step) * rate ** each.exp.subs(step, 0),
        )
        continuous = powers.xreplace({step: time / eta, rate: 1 - eta * theta})
        given = continuous.free_symbols - {eta, time, theta, left}
        parts = sympy.Poly(continuous, *sorted(given, key=str))
        limit = sum(
            sympy.prod([x**k for x, k in zip(parts.gens, powers, strict=True)])
            * sympy.factor(sympy.cancel(coefficient).subs(eta, 0))
            for powers, coefficient in parts.terms()
        )
        return limit.subs(left, sympy.exp(-theta * time))

    def two_inputs(self) -> dict[tuple[int, ...], sympy.Expr]:
        """Two training points, one output: by the free labels, 1 and 2, the eigenvectors of Θ.

        Tensors are symbols such as K[1,2] in that basis; m_k = 1 − ηΘ_k, and y_k are its targets.

        >>> from derive import training
        >>> training.covariance(order=0).two_inputs()[1, 2]
        K[1,2]*m_1**t*m_2**t
        """
        rates, targets = ([real(f"{name}_{k}") for k in (1, 2)] for name in "my")
        return self._at_points(
            rates, targets, lambda label, at: real(f"{label}[{','.join(map(str, at))}]")
        )

    def _at_points(
        self,
        rates: Sequence[sympy.Symbol],
        targets: Sequence[sympy.Symbol],
        symbol: Callable[[str, tuple[int, ...]], sympy.Symbol],
    ) -> dict[tuple[int, ...], sympy.Expr]:
        """By the free labels: the functions of t are added up exactly before they are printed."""
        count = len(rates)
        found: dict[tuple[int, ...], dict[sympy.Expr, Exponentials]] = {}
        for each in self.average.orders[self.order]:
            for at in product(range(count), repeat=each.labels[-1][-1] + 1):
                function = None
                for history, labels in zip(each.histories, each.labels, strict=True):
                    own = closed(history, tuple(at[label] for label in labels), count)
                    function = own if function is None else function * own
                factor = eta**each.edges
                for name, labels in each.tensors:
                    factor *= symbol(name.label, tuple(at[label] + 1 for label in labels))
                for line in each.lines:
                    for kind, number in line.ends:
                        factor *= targets[at[number]] if kind == "target" else 1
                key = tuple(at[label] + 1 for label in each.free) if count > 1 else ()
                sums = found.setdefault(key, {})
                assert function is not None
                sums[factor] = sums.get(factor, Exponentials({})).plus(function, each.weight)
        shifted = self.name == "prediction" and self.order == 0
        return {
            key: sum(factor * sums.expr(rates) for factor, sums in parts.items())
            + (targets[key[0] - 1 if key else 0] if shifted else 0)
            for key, parts in found.items()
        }

    def rows(self, style: Style) -> list[str]:
        """The terms of the right side."""
        found: dict[tuple[int, tuple[str, ...]], Fraction] = {}
        for each in self.average.orders[self.order]:
            key = each.edges, min(_parts(each, letters, style) for letters in _renamings(each))
            found[key] = found.get(key, Fraction(0)) + each.weight
        shifted = self.name == "prediction" and self.order == 0
        terms = (style.term(weight, *key) for key, weight in sorted(found.items()) if weight)
        return [*([style.target(_LETTERS[0], "i")] if shifted else []), *terms]


@rests_on("day2025", "roberts2022")
def prediction(order: int = 1) -> Trained:
    """The mean over initializations of the trained output, E[z_i(t)] = Σ_g n^{−g} prediction_g.

    Derived here, from descent (source 000, eqs. 6.2, 6.3) as a sum over trees; `order`
    is g, 0 or 1. Raises InputError for another.

    >>> print(prediction(order=0))
    E[z_i]_a = y_ia - y_ia m_a^t
    """
    return _trained("prediction", averages.prediction(), order)


@rests_on("day2025", "roberts2022")
def covariance(order: int = 1) -> Trained:
    """The covariance over initializations of two trained outputs, as `prediction`. Derived here.

    Raises InputError for an order that is not 0 or 1.

    >>> print(covariance(order=0))
    Cov[z_i, z_j]_ab = δ_ij K_ab m_a^t m_b^t
    """
    return _trained("covariance", averages.covariance(), order)


@rests_on("day2025", "roberts2022")
def ntk(order: int = 1) -> Trained:
    """The mean over initializations of the tangent kernel after training, as `prediction`.

    Derived here. Raises InputError for an order that is not 0 or 1.

    >>> print(ntk(order=0))
    E[H_ij]_ab = δ_ij Theta_ab
    """
    return _trained("ntk", averages.ntk(), order)


def _trained(name: str, average: Average, order: int) -> Trained:
    order = as_integer("order", order, 0, 1, "a relative order in 1/n, 0 or 1")
    return Trained(name, order, average)


def _renamings(diagram: Diagram) -> Iterable[dict[int, str]]:
    """The letters of the labels: the free ones first, those that are summed over in any order."""
    free = list(diagram.free)
    summed = [a for labels in diagram.labels for a in labels if a not in free]
    first = dict(zip(free, _LETTERS, strict=False))
    for order in permutations(_LETTERS[len(free) : len(free) + len(summed)]):
        yield first | dict(zip(summed, order, strict=True))


def _parts(diagram: Diagram, letters: dict[int, str], style: Style) -> tuple[str, ...]:
    lines, tensors, functions = style.lines(diagram.lines, letters), [], []
    for factor in diagram.tensors:
        at = [letters[label] for label in factor.labels]
        tensors.append(style.tensor(factor.name.label, at))
    for history, labels in zip(diagram.histories, diagram.labels, strict=True):
        own = [letters[label] for label in labels]
        functions.append(style.function(history, own))
    return (*sorted(lines), *sorted(tensors), *(each for each in functions if each))


class Style:
    """How the parts of a term are written: as text."""

    shown: Mapping[str, str] = {
        "prediction": "E[z_i]_a",
        "covariance": "Cov[z_i, z_j]_ab",
        "ntk": "E[H_ij]_ab",
    }
    eta, outputs, delta = "η", "n_out", "δ_ij"
    steps = ("t", "s", "s'", "s''", "s'''")
    order = staticmethod("{{{}}}".format)  # of a formula in 1/n
    raised = staticmethod("{}^{}".format)
    fraction = staticmethod("{}/{} ".format)
    target = staticmethod("y_{1}{0}".format)  # a component of a target, by label and output
    targets = staticmethod("(y·y)_{}{}".format)  # Σ_j y_j y_j
    total = staticmethod("Σ_{{{}<{}}} {}".format)  # over steps, below a step, of what is added
    change = staticmethod("Δ_{1}[{0}]".format)  # what a function of the step gains in one

    def lines(self, lines: Iterable[Line], letters: Mapping[int, str]) -> list[str]:
        """The factors that tie the outputs together: each line's factor, its labels as letters."""
        return [self._line(line, letters) for line in lines]

    def _line(self, line: Line, letters: Mapping[int, str]) -> str:
        kinds, numbers = zip(*line.ends, strict=True) if line.ends else ((), ())
        if not kinds:
            return self.outputs
        if kinds == ("free", "free"):
            return self.delta
        if kinds == ("free", "target"):
            return self.target(letters[numbers[1]], "ij"[numbers[0]])
        return self.targets(*sorted(letters[k] for k in numbers))

    def left(self, name: str, order: int) -> str:
        """The left side of the formula."""
        return self.shown[name] + (self.order(order) if order else "")

    def tensor(self, name: str, labels: Sequence[str]) -> str:
        """A component of a tensor."""
        return f"{name}_{''.join(labels)}"

    def rate(self, label: str, power: str) -> str:
        """m of a label to a power."""
        return self.raised(f"m_{label}", power)

    def term(self, weight: Fraction, edges: int, parts: tuple[str, ...]) -> str:
        """The whole term."""
        size = abs(weight)
        factor = "" if size == 1 else f"{size} "
        if size.denominator > 1:
            factor = self.fraction(size.numerator, size.denominator)
        powers = [self.eta] if edges == 1 else [self.raised(self.eta, edges)] if edges else []
        return ("-" if weight < 0 else "") + factor + " ".join([*powers, *parts])

    def function(self, history: History, letters: Sequence[str]) -> str:
        """The history's function of t, as nested sums."""
        return self._product(history, history.target, letters, 0)

    def _product(
        self, history: History, monomial: Monomial, letters: Sequence[str], depth: int
    ) -> str:
        return " ".join(sorted(self._variable(history, v, letters, depth) for v in monomial))

    def _variable(self, history: History, v: Variable, letters: Sequence[str], depth: int) -> str:
        here, label = self.steps[depth], letters[v.label]
        if v.name == "leading":
            return self.rate(label, here)
        below = self.steps[depth + 1]
        inner = self._product(history, history.updates[v], letters, depth + 1)
        if v.name == "sum":
            return (
                f"({self.total(below, here, inner)})" if depth else self.total(below, here, inner)
            )
        passed = self.rate(label, f"({here}-{below}-1)")
        return self.total(below, here, f"{passed} {self.change(inner, below)}")


class LatexStyle(Style):
    """In LaTeX."""

    shown: Mapping[str, str] = {
        "prediction": r"\mathbb{E}[z_{i;a}]",
        "covariance": r"\mathrm{Cov}[z_{i;a}, z_{j;b}]",
        "ntk": r"\mathbb{E}[\widehat{H}_{ij;ab}]",
    }
    eta, outputs, delta = r"\eta", r"n_{\mathrm{out}}", r"\delta_{ij}"
    order = staticmethod(r"^{{\{{{}\}}}}".format)
    raised = staticmethod("{}^{{{}}}".format)
    fraction = staticmethod(r"\tfrac{{{}}}{{{}}} ".format)
    target = staticmethod("y_{{{1};{0}}}".format)
    targets = staticmethod(r"(y \cdot y)_{{{}{}}}".format)
    total = staticmethod(r"\sum_{{{}<{}}} {}".format)
    change = staticmethod(r"\Delta_{{{1}}}\left[{0}\right]".format)

    def tensor(self, name: str, labels: Sequence[str]) -> str:
        """See `Style`."""
        return f"{component_latex(name, ())}_{{{''.join(labels)}}}"

    def rate(self, label: str, power: str) -> str:
        """See `Style`."""
        return super().rate(label, power.strip("()"))
