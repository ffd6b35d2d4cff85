"""The inequalities of source 003 at a given spectrum, in interval arithmetic.

A spectrum is the eigenvalues λ_j = σ_j² of HᵀH, positive rationals with sum 1. Each inequality has
its printed constant and the sharp one, derived here:

    Lemma 4   V ≤ 2n V̂;                          √(n(n−1)), attained with λ_2 = … = λ_n
    Lemma 6   d E|C' − EC'|² = 1 − Σ p_i² ≤ 1;    1 − 1/n, attained with all λ equal
    Lemma 8   1/n − p_n ≤ (1 − ⅔ λ_n) V̂;         2n/(n+2) for ⅔, attained as V̂ → 0
    Lemma 2   Σ(σ_i − 1/√n)² ≤ 2n V;              n V² on the way, attained as λ_n → 0 at large n

Enclosures are python-flint's: a comparison that comes out true is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb, fmpq

from derive.arithmetic import balls
from derive.errors import InputError

Spectrum = tuple[fmpq, ...]


@dataclass(frozen=True)
class Bound:
    """left ≤ right, as enclosures of both sides."""

    left: arb
    right: arb

    @property
    def proven(self) -> bool:
        """True if every number in the one enclosure is at most every number in the other."""
        return bool(self.left <= self.right)

    @property
    def refuted(self) -> bool:
        """True if it is certainly false."""
        return bool(self.left > self.right)


def spectrum(values: Sequence[Fraction | int]) -> Spectrum:
    """Positive rationals, descending, divided by their sum."""
    if len(values) < 2 or any(not value > 0 for value in values):
        raise InputError("values", values, "two or more positive rationals")
    total = sum(map(Fraction, values), Fraction(0))
    parts = sorted((Fraction(value) / total for value in values), reverse=True)
    return tuple(fmpq(part.numerator, part.denominator) for part in parts)


def gap(eigenvalues: Spectrum) -> arb:
    """V, eq. (2)."""
    n = len(eigenvalues)
    return arb(sum(((value - fmpq(1, n)) ** 2 for value in eigenvalues), fmpq(0))).sqrt()


def gap_hat(eigenvalues: Spectrum) -> fmpq:
    """V̂ = 1/n − σ_n², eq. (11)."""
    return fmpq(1, len(eigenvalues)) - eigenvalues[-1]


def mean_spectrum(eigenvalues: Spectrum) -> tuple[arb, ...]:
    """p_1 … p_n of eq. (16), enclosed.

    With s² = 1/(1 + 2θλ_1) and r = λ/λ_1, p_i = r_i ∫_0^1 s^{n−1} Π_j q_j^{−1/2}/q_i ds,
    q = s² + r(1 − s²).
    """
    ratios = [value / eigenvalues[0] for value in eigenvalues]
    found = {ratio: _integral(ratio, ratios) for ratio in set(ratios)}
    return tuple(found[ratio] for ratio in ratios)


def _integral(ratio: fmpq, ratios: Sequence[fmpq]) -> arb:
    counts = {each: ratios.count(each) for each in set(ratios)}

    def integrand(s: acb, analytic: bool) -> acb:
        square = s * s
        value = s ** (len(ratios) - 1) * ratio / _mixed(ratio, square)
        for each, count in counts.items():
            base = _mixed(each, square)
            value /= base ** (count // 2)
            if count % 2:
                value /= base.sqrt(analytic=analytic)
        return value

    return balls.integral(integrand, 0, 1).real


def _mixed(ratio: fmpq, square: acb) -> acb:
    return square + (1 - square) * ratio


def mean_of_smallest(size: int, least: arb) -> arb:
    """p_n at λ_n = least with the other eigenvalues equal."""
    other = (1 - least) / (size - 1)
    series = acb(1 - other / least).hypgeom_2f1(1, fmpq(size - 1, 2), fmpq(size, 2) + 1)
    return series.real / size


def lemma_2(eigenvalues: Spectrum) -> Bound:
    """Σ(σ_i − 1/√n)² ≤ n V², the last step but one of its proof, which gives 2n V with V ≤ 1."""
    return Bound(distance(eigenvalues), len(eigenvalues) * gap(eigenvalues) ** 2)


def lemma_2_printed(eigenvalues: Spectrum) -> Bound:
    """Σ(σ_i − 1/√n)² ≤ 2n V."""
    return Bound(distance(eigenvalues), 2 * len(eigenvalues) * gap(eigenvalues))


def distance(eigenvalues: Spectrum) -> arb:
    """Σ(σ_i − 1/√n)²: given H the squared distance is just that, as the covariances commute."""
    root = 1 / arb(len(eigenvalues)).sqrt()
    return sum(((arb(value).sqrt() - root) ** 2 for value in eigenvalues), arb(0))


def lemma_4(eigenvalues: Spectrum, sharp: bool = True) -> Bound:
    """0 ≤ c² V̂² − V², exact: c = √(n(n−1)), or the printed 2n."""
    n = len(eigenvalues)
    squared = sum((value**2 for value in eigenvalues), fmpq(0)) - fmpq(1, n)
    constant = n * (n - 1) if sharp else 4 * n**2
    return Bound(arb(0), arb(constant * gap_hat(eigenvalues) ** 2 - squared))


def lemma_6(eigenvalues: Spectrum, sharp: bool = True) -> Bound:
    """d E|C' − EC'|² = 1 − Σ p_i², at most 1 − 1/n, or the printed 1."""
    total = sum((p**2 for p in mean_spectrum(eigenvalues)), arb(0))
    return Bound(1 - total, arb(1 - fmpq(1, len(eigenvalues))) if sharp else arb(1))


def lemma_8(eigenvalues: Spectrum, sharp: bool = True) -> Bound:
    """1/n − p_n ≤ (1 − c λ_n) V̂ with c = 2n/(n+2), or the printed 2/3."""
    n = len(eigenvalues)
    constant = fmpq(2 * n, n + 2) if sharp else fmpq(2, 3)
    left = fmpq(1, n) - mean_spectrum(eigenvalues)[-1]
    return Bound(left, arb((1 - constant * eigenvalues[-1]) * gap_hat(eigenvalues)))


def initialization(eigenvalues: Spectrum) -> Bound:
    """(25): V after W of eq. (6), whose spectrum is σ_i/Σσ_j, is at most V before."""
    n = len(eigenvalues)
    total = sum((arb(value).sqrt() for value in eigenvalues), arb(0))
    return Bound((1 / total**2 - fmpq(1, n)).sqrt(), gap(eigenvalues))


INEQUALITIES: dict[str, Callable[[Spectrum], Bound]] = {
    "Lemma 2, n V²": lemma_2,
    "Lemma 2": lemma_2_printed,
    "Lemma 4, sharp": lemma_4,
    "Lemma 4": lambda eigenvalues: lemma_4(eigenvalues, sharp=False),
    "Lemma 6, sharp": lemma_6,
    "Lemma 6": lambda eigenvalues: lemma_6(eigenvalues, sharp=False),
    "Lemma 8, sharp": lemma_8,
    "Lemma 8": lambda eigenvalues: lemma_8(eigenvalues, sharp=False),
    "(25)": initialization,
}
"""Every inequality that holds spectrum by spectrum, printed and sharp."""
