# %% [markdown]
# # Large depth: tanh
#
# A critical tanh network has $K^* = 0$, so that deep layers are followed by powers of the small
# kernel. The expansions below are of the derived recursion; nothing is fitted.

# %%
"""The vertex of deep critical tanh networks (source 000, eqs. 5.20–5.24)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.day_kahn_roberts.expansions import small_kernel, through
from derive import activations, symbols
from derive.depth.criticality import criticality
from derive.gaussian.small_kernel import small_kernel_average
from derive.network import Network
from derive.recursions import recursion
from derive.symbols import C_W, C_b, K
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from derive.work.caches import cache
from numeric import flow

tanh = activations.tanh
V = symbols.tensor("V")
layer = symbols.ell

INPUT = (0.3, -1.1, 0.8, 0.5)
DEPTH = 20_000


def kernel_step(power: int) -> sympy.Expr:
    """K' of a critical tanh network through K^power."""
    return small_kernel(recursion("K"), tanh, power).subs({C_W: 1, C_b: 0})


def vertex_step(weights: WeightEnsemble, power: int) -> sympy.Expr:
    """V' of a critical tanh network, its brackets through K^power."""
    return small_kernel(recursion("V", weights), tanh, power).subs(C_W, 1)


@claim("000", "5.20", "⟨σ⁴⟩ of tanh at small K")
def fourth_power() -> Verdict:
    """$3K^2 - 20K^3$, term by term from the Taylor series of tanh."""
    return equal(small_kernel_average(tanh, (0,) * 4, 3), 3 * K**2 - 20 * K**3)


@claim("000", "5.21", "⟨σ²⟩² of tanh at small K")
def second_power_squared() -> Verdict:
    r"""The square of $K - 2K^2 + \dots$."""
    return equal(through(small_kernel_average(tanh, (0, 0), 3) ** 2, K, 3), K**2 - 4 * K**3)


@claim("000", "5.22", "χ_∥ of tanh at small K")
def susceptibility() -> Verdict:
    """The derivative of the kernel recursion, $1 - 4K + 17K^2$."""
    derived = criticality(tanh).chi_parallel.series(2).subs(C_W, 1)
    return equal([derived, kernel_step(3).diff(K)], [1 - 4 * K + 17 * K**2] * 2)


@claim("000", "5.23", "recursion of V near K* = 0")
def linearised_recursion() -> Verdict:
    """The derived recursion's coefficient of $V$ through $K^2$, and the rest through $K^3$."""
    step = vertex_step(Orthogonal(), 3)
    derived = V * through(step.coeff(V, 1), K, 2) + through(step.coeff(V, 0), K, 3)
    return equal(derived, V * (1 - 8 * K + 50 * K**2) - 8 * K**3)


# %% [markdown]
# ## The kernel's own decay
#
# The paper takes $\Delta K = 1/(2\ell) + O(1/\ell^2)$. With
# $K' = K - 2K^2 + \tfrac{17}{3}K^3 - \dots$ the next term carries a
# logarithm. It is too small to change (5.24), but not $O(1/\ell^2)$.


# %%
@claim("000", "§5.3 (kernel)", "decay of the critical tanh kernel")
def kernel_decay() -> Verdict:
    r"""$K = \frac1{2\ell} + \frac5{24}\frac{\log\ell}{\ell^2} + O(1/\ell^2)$, so that what is left
    out of $\frac1{2\ell}$ is not $O(1/\ell^2)$.

    With $b\log\ell/\ell^2 + d/\ell^2$ added to $\frac1{2\ell}$, order $1/\ell^3$ of the recursion
    holds for this $b$ alone, whatever $d$. The flow agrees: $1/K(2L) - 1/K(L) - 2L \to -4b\log2$.
    """
    b, d, small, log = sympy.symbols("b d x L")
    ansatz = small / 2 + (b * log + d) * small**2  # at layer 1/x, with L = log(1/x)
    ahead = small / (1 + small)
    moved = ansatz.subs({small: ahead, log: log + sympy.log(1 + small)}, simultaneous=True)
    residue = sympy.series(moved - kernel_step(3).subs(K, ansatz), small, 0, 4).removeO()
    coefficient = sympy.expand(residue).coeff(small, 3)
    (solution,) = sympy.solve(coefficient, b)
    kernel = tanh_flow(None)["K"]
    half = DEPTH // 2
    drift = 1 / kernel[DEPTH - 1] - 1 / kernel[half - 1] - 2 * half
    measured = close(drift, -4 * solution * sympy.log(2), 2)
    return misprint(
        f"K = 1/(2ℓ) + ({solution}) log ℓ/ℓ² + O(1/ℓ²)",
        "K = 1/(2ℓ) + O(1/ℓ²)",
        f"order 1/ℓ³ of the kernel recursion fixes the next term to ({solution}) log ℓ/ℓ²; "
        f"flow: 1/K({DEPTH}) − 1/K({half}) − {2 * half} = {float(drift):.4f}, "
        f"−4b log 2 = {float(-4 * solution * sympy.log(2)):.4f}; (5.24) is unchanged. "
        "The witness is the coefficient of log ℓ/ℓ²",
        provided=measured,
        witness=(0, solution),
    )


@cache
def tanh_flow(first: WeightEnsemble | None) -> dict[str, list[float]]:
    """K, V and G^{1} of layers 1 … DEPTH of a critical orthogonal tanh network with one input."""
    tensors = ("K", "V", "G1")
    net = Network(tanh, Orthogonal(), first_weights=first)
    table = flow(net, INPUT, DEPTH, tensors, seconds=0)
    return {name: table[name].to_numpy().tolist() for name in tensors}


# %% [markdown]
# ## The fixed point −2 (5.24)


# %%
@claim("000", "5.24", "V of deep tanh networks tends to −2 K²")
def tanh_vertex() -> Verdict:
    r"""$c/\ell^2$ in the derived recursion gives the printed $c/\ell^2 - (4c+1)/\ell^3$, so that
    $c = -\frac12$ and $\tilde V = -2$."""
    c = sympy.Symbol("c")
    leading = {K: 1 / (2 * layer), V: c / layer**2}
    right = vertex_step(Orthogonal(), 3).subs(leading, simultaneous=True)
    left = (c / (layer + 1) ** 2).subs(layer, 1 / layer)
    sides = [
        through(sympy.series(side, layer, 0, 4).removeO(), layer, 3)
        for side in (left, right.subs(layer, 1 / layer))
    ]
    (solution,) = sympy.solve((sides[0] - sides[1]).coeff(layer, 3), c)
    printed = [c * layer**2 - 2 * c * layer**3, c * layer**2 - (4 * c + 1) * layer**3]
    return both(
        equal([4 * solution], [-2]),
        equal(sides, printed, "both sides by series in 1/ℓ, c = −1/2"),
    )


@claim("000", "5.24 (approach)", "how Ṽ of tanh approaches −2")
def approach() -> Verdict:
    r"""$\tilde V = -2 + \frac{16}3 K + O(K^2)$: a correction of order $1/\ell$, derived here; it
    matches the flow of orthogonal and of mixed networks at layer 20000, whatever their first
    layer's $V$."""
    a, b = sympy.symbols("a b")
    ansatz = a * K**2 + b * K**3
    after = vertex_step(Orthogonal(), 4).subs(V, ansatz)
    residue = sympy.expand(ansatz.subs(K, kernel_step(4)) - after)
    (found,) = sympy.solve([residue.coeff(K, 3), residue.coeff(K, 4)], [a, b], dict=True)
    derived, flowed = [], []
    for first in (None, Gaussian()):
        tensors = tanh_flow(first)
        kernel, vertex = tensors["K"][-1], tensors["V"][-1]
        derived.append(found[a] + found[b] * kernel)
        flowed.append(vertex / kernel**2)
    return both(
        close(derived, flowed, 6, "Ṽ at layer 20000, series against flow"),
        equal([found[a], found[b]], [-2, sympy.Rational(16, 3)], "Ṽ = −2 + (16/3)K + O(K²)"),
    )
