# %% [markdown]
# # Iterative orthogonalization
#
# Weights built from the batch itself, $W=V'\Sigma^{-1/2}U^\top/\|\Sigma^{1/2}\|_F$, do without
# batch normalization what it does on average.
"""The proposed initialization and its decrease of the gap (source 003, §5.2 and appendix F)."""

from __future__ import annotations

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.daneshmand.inequalities import grid, on_grid


@claim("003", "6", "weights that orthogonalize a batch")
def weights() -> Verdict:
    """Singular values of W H are √(σ_i/Σσ), so |W H| = 1 for any orthogonal V'. The slice of V_ℓ
    (n × d) that is called orthogonal is not, d rows of n > d; used as it is, the spectrum is
    another one. The initializer takes the nearest orthogonal matrix, the slice's polar
    factor."""
    from numeric.batchnorm_init import orthogonalizing_weights  # noqa: PLC0415

    H = np.random.default_rng(0).standard_normal((6, 40)) + 0.5
    U, sigma, Vt = np.linalg.svd(H, full_matrices=False)
    W = orthogonalizing_weights(H, 6)
    found = np.linalg.svd(W @ H, compute_uv=False)
    right = close(found.tolist(), np.sqrt(sigma / sigma.sum()).tolist(), 12)
    if not right.holds:
        return right
    slice_ = Vt.T[:6]
    printed = slice_ / np.sqrt(sigma) @ U.T / np.sqrt(sigma.sum())
    lengths = np.linalg.svd(slice_, compute_uv=False)
    return misprint(
        f"|W H|² = {np.linalg.norm(W @ H) ** 2:.6f}",
        f"|W H|² = {np.linalg.norm(printed @ H) ** 2:.6f}",
        f"n = 40, d = 6: the slice's singular values lie in [{lengths[-1]:.2f}, {lengths[0]:.2f}]; "
        "with an orthogonal V' the spectrum is √(σ/Σσ), to 12 digits",
    )


@claim("003", "26", "gap before and after, in singular values")
def spectra() -> Verdict:
    """Σσ⁴ − 1/n and 1/(Σσ)² − 1/n are V², not V as printed; n = 3 with symbols, Σσ² = 1."""
    a, b = sympy.symbols("a b", positive=True)
    squares = [a, b, 1 - a - b]
    before = sum((value - sympy.Rational(1, 3)) ** 2 for value in squares)
    roots = sympy.symbols("s_1:4", positive=True)
    total = sum(roots)
    after = sum((value / total - sympy.Rational(1, 3)) ** 2 for value in roots)
    derived = both(
        equal(before, sum(value**2 for value in squares) - sympy.Rational(1, 3)),
        equal(sympy.simplify(after - sum(s**2 for s in roots) / total**2), -sympy.Rational(1, 3)),
    )
    if not derived.holds:
        return derived
    return misprint("V² = Σσ_i⁴ − 1/n", "V = Σσ_i⁴ − 1/n", "the norm in (2) is not squared; n = 3")


@claim("003", "25", "the initialization lowers the gap")
def decrease() -> Verdict:
    """Two steps of Cauchy and Schwarz: (Σσ²)⁴ ≤ (Σσ)²(Σσ³)² ≤ (Σσ)²(Σσ²)(Σσ⁴), each Lagrange's
    sum of squares; n = 3 with symbols, and enclosed on the grid. Equality only where all σ > 0
    are equal: rank- deficient ones too. In a linear network log(σ_1/σ_n) halves with every
    layer."""
    s = sympy.symbols("s_1:4", positive=True)

    def power(k: int) -> sympy.Expr:
        return sum(value**k for value in s)

    pairs = [(i, j) for i in range(3) for j in range(i)]
    first = sum(s[i] * s[j] * (s[i] - s[j]) ** 2 for i, j in pairs)
    second = sum((s[i] * s[j] * (s[i] - s[j])) ** 2 for i, j in pairs)
    return both(
        equal(
            [power(1) * power(3) - power(2) ** 2, power(2) * power(4) - power(3) ** 2],
            [first, second],
            "both differences are sums of squares",
        ),
        on_grid("(25)"),
        equal(sympy.Integer(len(list(grid())) > 50), 1),
    )


@claim("003", "25 (networks)", "the gap through ten layers of an initialized network")
def networks() -> Verdict:
    """Linear, tanh and ReLU networks, as wide as there are pixels that vary, on 200 digits: V falls
    at each W_ℓ."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from sklearn.datasets import load_digits  # noqa: PLC0415

    from derive import activations  # noqa: PLC0415
    from numeric.batchnorm_init import orthogonalize  # noqa: PLC0415

    pixels = load_digits().data[:200]
    kept = pixels[:, pixels.std(axis=0) > 0.5]
    made = Figure(figsize=(6, 4), layout="constrained")
    panel = made.subplots()
    falls = []
    floor = np.sqrt(1 / kept.shape[1] - 1 / len(kept))
    for name in ("linear", "tanh", "relu"):
        found = orthogonalize(kept, [kept.shape[1]] * 10, activations.by_name(name))
        falls.append(int(bool((found.after < found.before).all())))
        panel.plot(range(1, 11), found.before - floor, marker="o", label=f"{name}, before W")
        panel.plot(range(1, 11), found.after - floor, marker="x", label=f"{name}, after W")
    panel.set(
        xlabel="layer", ylabel="V − √(1/d − 1/n), its least at rank d < n", yscale="log",
        title="iterative orthogonalization, digits",
    )  # fmt: skip
    panel.legend(fontsize="small")
    verdict = equal(falls, [1, 1, 1], "V after < V before at ten layers, three activations")
    return Verdict(
        "numeric" if verdict.holds else "fails",
        f"{sum(falls)} of 3",
        "3 of 3",
        verdict.detail,
        figures={"orthogonalize": made},
    )
