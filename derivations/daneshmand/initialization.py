# %% [markdown]
# # Iterative orthogonalization
#
# Weights built from the batch itself, $W=V'\Sigma^{-1/2}U^\top/\|\Sigma^{1/2}\|_F$, do without
# batch normalization what it does on average: they take singular values $\sigma_i$ to
# $\sqrt{\sigma_i/\sum\sigma}$, which are nearer to each other, so the gap falls in every layer.

# %%
"""The proposed initialization and its decrease of the gap (source 003, §5.2 and appendix F)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.daneshmand import bounds as batchnorm_bounds
from derivations.daneshmand.inequalities import grid, on_grid
from derivations.daneshmand.orthogonalization import orthogonalize, orthogonalizing_weights
from derivations.pictures.panels import one_panel
from derivations.training.data import digits
from derive import activations


@claim("003", "6", "weights that orthogonalize a batch")
def weights() -> Verdict:
    """Singular values of $WH$ are $\\sqrt{\\sigma_i/\\sum\\sigma}$, so $|WH|=1$ for any orthogonal
    $V'$. The slice of $V_\\ell$ (n × d) that is called orthogonal is not, d rows of n > d; used as
    it is, the spectrum is another one. The initializer takes the nearest orthogonal matrix, the
    slice's polar factor."""
    H = np.random.default_rng(0).standard_normal((6, 40)) + 0.5
    U, sigma, Vt = np.linalg.svd(H, full_matrices=False)
    W = orthogonalizing_weights(H, 6)
    found = np.linalg.svd(W @ H, compute_uv=False)
    right = close(found.tolist(), np.sqrt(sigma / sigma.sum()).tolist(), 12)
    slice_ = Vt.T[:6]
    printed = slice_ / np.sqrt(sigma) @ U.T / np.sqrt(sigma.sum())
    lengths = np.linalg.svd(slice_, compute_uv=False)
    return misprint(
        f"|W H|² = {np.linalg.norm(W @ H) ** 2:.6f}",
        f"|W H|² = {np.linalg.norm(printed @ H) ** 2:.6f}",
        f"n = 40, d = 6: the slice's singular values lie in [{lengths[-1]:.2f}, {lengths[0]:.2f}]; "
        "with an orthogonal V' the spectrum is √(σ/Σσ), to 12 digits",
        provided=right,
        witness=[np.linalg.norm(each @ H) ** 2 for each in (printed, W)],
    )


@claim("003", "26", "gap before and after, in singular values")
def spectra() -> Verdict:
    """$\\sum\\sigma^4-1/n$ and $1/(\\sum\\sigma)^2-1/n$ are $V^2$, not V as printed; n = 3 with
    symbols, $\\sum\\sigma^2=1$."""
    a, b = sympy.symbols("a b", positive=True)
    squares = [a, b, 1 - a - b]
    before = sum((value - sympy.Rational(1, 3)) ** 2 for value in squares)
    roots = sympy.symbols("s_1:4", positive=True)
    total = sum(roots)
    after = sum((value / total - sympy.Rational(1, 3)) ** 2 for value in roots)
    printed = sum(value**2 for value in squares) - sympy.Rational(1, 3)
    derived = both(
        equal(before, printed),
        equal(sympy.simplify(after - sum(s**2 for s in roots) / total**2), -sympy.Rational(1, 3)),
    )
    return misprint(
        sympy.sqrt(sympy.expand(before)),
        sympy.expand(printed),
        "V at σ² = (a, b, 1 − a − b), by (2), whose norm is not squared, and as printed",
        provided=derived,
    )


@claim("003", "25", "the initialization lowers the gap")
def decrease() -> Verdict:
    """Two steps of Cauchy and Schwarz:
    $(\\sum\\sigma^2)^4\\le(\\sum\\sigma)^2(\\sum\\sigma^3)^2\\le
    (\\sum\\sigma)^2(\\sum\\sigma^2)(\\sum\\sigma^4)$, each Lagrange's sum of squares; n = 3 with
    symbols, and enclosed on the grid. Equality only where all σ > 0 are equal, rank-deficient
    matrices among them. In a linear network $\\log(\\sigma_1/\\sigma_n)$ halves with every
    layer."""
    s = sympy.symbols("s_1:4", positive=True)

    def power(k: int) -> sympy.Expr:
        return sum(value**k for value in s)

    bounds = [batchnorm_bounds.initialization(spectrum) for spectrum in grid()]
    strict = [int(bool(each.left < each.right)) for each in bounds]
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
        equal(strict, [1] * len(strict), "V falls wherever the singular values are not all equal"),
    )


@claim("003", "25 (networks)", "the gap through ten layers of an initialized network")
def networks() -> Verdict:
    """Linear, tanh and ReLU networks, as wide as there are pixels that vary, on 200 digits: V falls
    at each $W_\\ell$, down to its least at rank d < n."""
    pixels = digits().pixels[:200]
    kept = pixels[:, pixels.std(axis=0) > 0.5]
    made, panel = one_panel(
        xlabel="layer",
        ylabel="V − √(1/d − 1/n), its least at rank d < n",
        yscale="log",
        title="iterative orthogonalization, digits",
    )
    ratios = []
    floor = np.sqrt(1 / kept.shape[1] - 1 / len(kept))
    for name in ("linear", "tanh", "relu"):
        found = orthogonalize(kept, [kept.shape[1]] * 10, activations.by_name(name))
        ratios.append(float((found.after / found.before).max()))
        panel.plot(range(1, 11), found.before - floor, marker="o", label=f"{name}, before W")
        panel.plot(range(1, 11), found.after - floor, marker="x", label=f"{name}, after W")
    panel.legend(fontsize="small")
    told = "V after/V before in ten layers of linear, tanh and ReLU networks at most: "
    verdict = observed([r < 1 for r in ratios], told + ", ".join(f"{r:.6f}" for r in ratios))
    return replace(verdict, figures={"orthogonalize": made})
