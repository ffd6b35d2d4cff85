r"""The parts of a gate's Jacobian: M = D₁ W₁ + D₂ W₂, D₁ = σ(g), D₂ = h σ'(g).

For h = W₁ y and g = W₂ y the diagonals are free of the matrices as these grow, and h ~ N(0, K_h),
g ~ N(0, K_g) are independent. Of Gaussian matrices M is, in law, a Gaussian one behind the root of
C₁ σ(g)² + C₂ h² σ'(g)². Of Haar matrices √C₁ U₁, √C₂ U₂, with letters U_i U_j* in turn and the
diagonals D_j D_i between U_j* and U_i,

    E tr (M Mᵀ)^k/n = Σ_π κ_π Σ_c Π_{V ∈ K(π)} ⟨Π_{r ∈ V} D_{j_r} D_{i_{r+1}}⟩,
    κ_{2m} = (−1)^{m−1} Cat_{m−1},

over the non-crossing partitions π of the 2k letters whose blocks have U and U* in turn, a colour c
for each block, and K(π) Kreweras's complement (Nica and Speicher, *Lectures on the Combinatorics of
Free Probability* (2006), theorem 14.4 and proposition 15.1). Derived here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import comb

import sympy

from ..activations.functions import Activation
from ..errors import InputError
from ..gaussian.brackets import GaussianAverage, average
from ..symbols import z
from ..work.caches import cache
from .laws import Law

MOST = 7
"""Moments of Haar gates: the eighth has 43 263 partitions."""

Averages = tuple[tuple[int, int], ...]
"""A product of averages ⟨D₁^a D₂^b⟩, sorted."""

Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, repr=False)
class _Gate(Law):
    """M's diagonals.

    Attributes:
        activation: σ.
        K_h, K_g: the variances of h and g.
        C_1, C_2: those of W₁ and W₂.
    """

    activation: Activation
    K_h: sympy.Expr
    K_g: sympy.Expr
    C_1: sympy.Expr
    C_2: sympy.Expr

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """0, with the chance that σ(g) vanishes on an interval of g."""
        mass = sympy.S.Zero
        ends = (-sympy.oo, *self.activation.kinks, sympy.oo)
        for piece, (lower, upper) in zip(self.activation.pieces, pairwise(ends), strict=True):
            if piece.expr == 0:
                root = sympy.sqrt(2 * self.K_g)
                mass += (sympy.erf(upper / root) - sympy.erf(lower / root)) / 2
        return {sympy.S.Zero: mass} if mass != 0 else {}

    def _average(self, a: int, b: int) -> sympy.Expr:
        """⟨σ(g)^a h^b σ'(g)^b⟩, kept as an average where it has no closed form."""
        if b % 2:
            return sympy.S.Zero
        orders = (0,) * a + (1,) * b
        if a + b <= 4:
            found = average(self.activation, orders, at=self.K_g)
        else:
            integrand = sympy.prod([self.activation.derivative(order) for order in orders])
            found = GaussianAverage(integrand, (z,), (self.K_g,))
        return sympy.factorial2(b - 1) * self.K_h ** (b // 2) * found


@dataclass(frozen=True, repr=False)
class Gates(_Gate):
    """The law of C₁ σ(g)² + C₂ h² σ'(g)².

    By the binomial theorem m_k = Σ_j binom(k, j) C₁^{k−j} (C₂ K_h)^j (2j−1)!! ⟨σ^{2k−2j} σ'^{2j}⟩.
    """

    def moment(self, k: int) -> sympy.Expr:
        """m_k, its averages kept where they have no closed form."""
        total = sympy.S.Zero
        for j in range(k + 1):
            times = comb(k, j) * self.C_1 ** (k - j) * self.C_2**j
            total += times * self._average(2 * (k - j), 2 * j)
        return total

    def __str__(self) -> str:
        return (
            f"{self.C_1} σ(g)² + {self.C_2} h² σ'(g)² of {self.activation}, "
            f"h ~ N(0, {self.K_h}), g ~ N(0, {self.K_g})"
        )

    def latex(self) -> str:
        """The square of a gate's slope in LaTeX."""
        first, second = sympy.latex(self.C_1), sympy.latex(self.C_2)
        return rf"{first}\,\sigma(g)^2 + {second}\,h^2 \sigma'(g)^2"


@dataclass(frozen=True, repr=False)
class HaarGates(_Gate):
    """The law of |√C₁ σ(g) U₁ + √C₂ h σ'(g) U₂|², U₁ and U₂ Haar matrices.

    >>> from derive import activations
    >>> one = sympy.Integer(1)
    >>> HaarGates(activations.linear, one, one, one, one).moment(2)
    10
    """

    def moment(self, k: int) -> sympy.Expr:
        """m_k for k up to 7, its averages kept where they have no closed form; InputError above."""
        if k > MOST:
            raise InputError("k", k, f"{MOST} at most, for gates of orthogonal weights")
        known: dict[tuple[int, int], sympy.Expr] = {}
        total = sympy.S.Zero
        for averages, coefficient in words(k).items():
            value = sympy.Integer(coefficient)
            for a, b in averages:
                if (a, b) not in known:
                    scale = self.C_1 ** sympy.Rational(a, 2) * self.C_2 ** sympy.Rational(b, 2)
                    known[a, b] = scale * self._average(a, b)
                value *= known[a, b]
            total += value
        return total

    def __str__(self) -> str:
        return (
            f"|√{self.C_1} σ(g) U₁ + √{self.C_2} h σ'(g) U₂|² of {self.activation}, "
            f"h ~ N(0, {self.K_h}), g ~ N(0, {self.K_g})"
        )

    def latex(self) -> str:
        """The square in LaTeX, U Haar matrices."""
        first, second = (rf"\sqrt{{{sympy.latex(C)}}}" for C in (self.C_1, self.C_2))
        return rf"\left|{first}\,\sigma(g)\,U_1 + {second}\,h\,\sigma'(g)\,U_2\right|^2"


@cache(entries=MOST)
def words(k: int) -> Counter[Averages]:
    """E tr (M Mᵀ)^k/n as a polynomial in the averages ⟨D₁^a D₂^b⟩ with b even.

    >>> sorted(words(1).items())
    [(((0, 2),), 1), (((2, 0),), 1)]
    """
    found: Counter[Averages] = Counter()
    for blocks in alternating(tuple(range(2 * k))):
        weight = 1
        for block in blocks:
            m = len(block) // 2
            weight *= (-1) ** (m - 1) * comb(2 * m - 2, m - 1) // m
        own = {letter: number for number, block in enumerate(blocks) for letter in block}
        # behind U*, letter 2r + 1, stands D_j D_i, i of letter 2r + 2
        gaps = [[letter for letter in gap if letter % 2] for gap in complement(blocks, 2 * k)]
        for colours in product((0, 1), repeat=len(blocks)):
            averages = []
            for gap in gaps:
                second = sum(
                    colours[own[letter]] + colours[own[(letter + 1) % (2 * k)]] for letter in gap
                )
                averages.append((2 * len(gap) - second, second))
            if all(b % 2 == 0 for _, b in averages):
                found[tuple(sorted(each for each in averages if each != (0, 0)))] += weight
    return found


def alternating(letters: tuple[int, ...]) -> Iterator[Blocks]:
    """Non-crossing partitions whose blocks have odd and even letters in turn, evenly many."""
    if not letters:
        yield ()
        return

    def grown(block: tuple[int, ...], rest: tuple[int, ...]) -> Iterator[Blocks]:
        if len(block) % 2 == 0:
            for others in alternating(rest):
                yield (block, *others)
        for at, letter in enumerate(rest):
            if (letter - block[-1]) % 2 and at % 2 == 0:
                for inside in alternating(rest[:at]):
                    for whole in grown((*block, letter), rest[at + 1 :]):
                        yield (*whole, *inside)

    yield from grown(letters[:1], letters[1:])


def complement(blocks: Blocks, size: int) -> list[list[int]]:
    """Kreweras's complement, of the gaps behind the letters: the cycles of π⁻¹ after one step."""
    back = {}
    for block in blocks:
        for before, letter in zip((block[-1], *block), block, strict=False):
            back[letter] = before
    found, seen = [], set[int]()
    for start in range(size):
        cycle, at = [], start
        while at not in seen:
            seen.add(at)
            cycle.append(at)
            at = back[(at + 1) % size]
        if cycle:
            found.append(cycle)
    return found
