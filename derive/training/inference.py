"""Outputs given data, to order 1/n: the joint law of a network's outputs, conditioned.

With C = K + noise on the training inputs, cumulants κ beyond C change the law of targets y and test
outputs z by differential operators, e^{Σ κ ∂^k/k!} N(y, z; 0, C). Integrated against e^{Jz} by
parts each ∂ is −(C⁻¹y + R J), or two are −C⁻¹, where R z = z_test − K C⁻¹ y is what the data leave
of a test output. So the cumulants of z given y are sums over the ways to let each leg of a κ end at
z, end at C⁻¹y, or be joined with another by −C⁻¹. The noise is in C alone: it has no other κ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import factorial

from ..citations import rests_on
from ..engine.trees import Z
from ..errors import InputError, as_integer
from ..groups.pairings import Blocks, matchings, partitions
from ..work.caches import cache
from .diagrams import Factor, Line, lines_of
from .expressions import Formula, LatexStyle, Style

FREE = {"prediction": 1, "covariance": 2}
"""The cumulants of outputs given data, and how many outputs are in each."""

_CUMULANTS = ((4, 0), (2, 1))
"""Of order 1/n: their legs, and their order relative to the leading one."""

_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Term:
    """Π tensors · Π lines / Π c: labels are summed over but for the first, `free` ones.

    Attributes:
        free: how many labels are outputs' left.
        tensors: of the last layer at initialization.
        inverses: the labels a of a 1/c_a, c the eigenvalues of C.
        lines: of neural indices: each ends at outputs or targets, and a loop is their number.
    """

    free: int
    tensors: tuple[Factor, ...]
    inverses: tuple[int, ...]
    lines: tuple[Line, ...]


@cache
def terms(name: str, order: int, group: str = "O") -> tuple[tuple[Term, Fraction], ...]:
    """The terms of a cumulant of the outputs given data, in the eigenbasis of C, with weights.

    Arguments:
        group: the group that keeps the law of the outputs, "O" or "B".
    """
    free = FREE[name]
    if order == 0:
        own = Term(2, (Factor.of((Z, Z), 0, ((0, 1),), (0, 1)),), (), _ONE_LINE)
        return ((own, Fraction(1)),) if name == "covariance" else ()
    found: dict[Term, Fraction] = {}
    for legs, relative in _CUMULANTS:
        for at_free in permutations(range(legs), free):
            others = [leg for leg in range(legs) if leg not in at_free]
            for joined, single in matchings(others):
                for pairing in partitions(legs, group):
                    each = _term(legs, relative, pairing, at_free, joined, single)
                    weight = Fraction((-1) ** len(joined), factorial(legs))
                    found[each] = found.get(each, Fraction(0)) + weight
    return tuple(sorted(found.items(), key=lambda item: _key(item[0])))


_ONE_LINE = (Line((("free", 0), ("free", 1))),)


def _term(
    legs: int,
    relative: int,
    pairing: Blocks,
    at_free: tuple[int, ...],
    joined: tuple[tuple[int, int], ...],
    single: tuple[int, ...],
) -> Term:
    """With the summed labels named so that equal terms are equal."""
    groups = [*((leg,) for leg in single), *joined]
    named = []
    for order in permutations(range(len(groups))):
        label = {leg: k for k, leg in enumerate(at_free)}
        for group, place in zip(groups, order, strict=True):
            label |= dict.fromkeys(group, len(at_free) + place)
        ends = {leg: ("free", k) for k, leg in enumerate(at_free)}
        ends |= {leg: ("target", label[leg]) for leg in single}
        samples = tuple(label[leg] for leg in range(legs))
        factor = Factor.of((Z,) * legs, relative, pairing, samples)
        inverses = tuple(range(len(at_free), len(at_free) + len(groups)))
        lines = lines_of([*pairing, *joined], list(ends.items()))
        lines = tuple(sorted(Line(tuple(sorted(line.ends))) for line in lines))
        named.append(Term(len(at_free), (factor,), inverses, lines))
    return min(named, key=_key)


def _key(term: Term) -> tuple[object, ...]:
    shown = tuple((each.name.label, each.labels) for each in term.tensors)
    return shown, term.lines


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Formula):
    """A cumulant of a network's outputs given data, at one order in 1/n.

    Labels a, b, … are eigenvectors of C = K + noise on the training inputs, c_a its eigenvalues,
    and repeated ones are summed over; the free ones are what the data leave of a test output,
    z_test − K C⁻¹ y. i, j are outputs, n_out is their number.

    Attributes:
        name: "prediction", the mean, or "covariance".
        order: in 1/n, 0 or 1.
    """

    @property
    def terms(self) -> tuple[tuple[Term, Fraction], ...]:
        """Its terms and their weights; of the mean at order 0, K C⁻¹ y, none."""
        return terms(self.name, self.order)

    @property
    def styles(self) -> tuple[Style, Style]:
        """How it is written as text and in LaTeX."""
        return _Text(), _Latex()

    def rows(self, style: Style) -> list[str]:
        """The terms of the right side."""
        assert isinstance(style, _Text | _Latex)
        if self.name == "prediction" and self.order == 0:
            return [style.leading]
        return [style.term(weight, 0, _parts(each, style)) for each, weight in self.terms]


@rests_on("roberts2022")
def posterior(name: str = "prediction", order: int = 1) -> Posterior:
    """The mean or the covariance of a network's outputs given data, κ_0 + κ_1/n + O(1/n²).

    Derived here: the cumulants of the outputs of networks at initialization, the prior, to order
    1/n, conditioned on targets with independent Gaussian noise, or none.

    Arguments:
        name: "prediction" or "covariance".
        order: in 1/n, 0 or 1.

    Raises InputError for others.

    >>> print(posterior("covariance", order=0))
    Cov[z_i, z_j|y]_ab = δ_ij K_ab
    >>> print(str(posterior())[:67])
    E[z_i|y]_a{1} = y_ib G1_ab c_b^-1 - y_ic V_abbc c_b^-1 c_c^-1 - 1/2
    """
    if name not in FREE:
        raise InputError("name", name, f"one of {', '.join(FREE)}")
    return Posterior(name, as_integer("order", order, 0, 1, "a relative order in 1/n, 0 or 1"))


def _parts(term: Term, style: Style) -> tuple[str, ...]:
    letters = dict(enumerate(_LETTERS))
    lines = style.lines(term.lines, letters)
    shown = [
        style.tensor(each.name.label, [letters[label] for label in each.labels])
        for each in term.tensors
    ]
    inverses = (style.raised(f"c_{letters[k]}", -1) for k in term.inverses)
    return (*lines, *shown, *inverses)


class _Text(Style):
    shown: Mapping[str, str] = {"prediction": "E[z_i|y]_a", "covariance": "Cov[z_i, z_j|y]_ab"}
    leading = "K_ab y_ib/c_b"


class _Latex(LatexStyle):
    shown: Mapping[str, str] = {
        "prediction": r"\mathbb{E}[z_{i;a} | y]",
        "covariance": r"\mathrm{Cov}[z_{i;a}, z_{j;b} | y]",
    }
    leading = r"K_{ab}\, y_{i;b}\, c_b^{-1}"
