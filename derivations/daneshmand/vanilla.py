# %% [markdown]
# # Without normalization
#
# A product of Gaussian matrices stretches its largest direction faster than the next one, by
# digamma differences, so the batch collapses on one direction and $V\to\sqrt{(n-1)/n}$.
"""Vanilla linear networks: limit and rate of the gap (source 003, appendix D and Figure 1)."""

from __future__ import annotations

import numpy as np
import sympy
import xarray

from derivations.claims import Sampling, Verdict, both, claim, equal, misprint, sampled
from derive.linear_laws import law, lyapunov_exponents

d = sympy.Symbol("d", positive=True, integer=True)
n = sympy.Symbol("n", positive=True, integer=True)


@claim("003", "19", "Lyapunov exponents of Gaussian products")
def exponents() -> Verdict:
    """log|z|² of one input grows by log(2/d) + ψ(d/2) a layer, by the exact law of |z|² (weights
    of variance 1/d), and log σ_1 by half of that. Unit variance: lim (1/ℓ) log σ_i = ½(log 2 +
    ψ((d−i+1)/2)). The printed line has log σ_i² on the left."""
    one = law([d, d, d]).log_cumulant(1) - law([d, d]).log_cumulant(1)
    first = lyapunov_exponents(d, 1)[0]
    unit = first + sympy.log(d) / 2
    printed = (sympy.log(2) + sympy.digamma(d / 2)) / 2
    same = equal(
        [sympy.expand_log(one, force=True), sympy.expand_log(unit, force=True)],
        [sympy.expand_log(2 * first, force=True), sympy.expand_log(printed, force=True)],
    )
    if not same.holds:
        return same
    return misprint(
        "lim (1/ℓ) log σ_i(ℓ) = ½(log 2 + ψ((d−i+1)/2))",
        "lim (1/ℓ) log σ_i(ℓ)² = ½(log 2 + ψ((d−i+1)/2))",
        "E log|Wx|² = log 2 + ψ(d/2) at unit variance, by the exact law of one layer",
    )


@claim("003", "Lemma 11", "limit and rate of the vanilla gap, (18)–(24)")
def limit() -> Verdict:
    """With λ_2/λ_1 = x → 0 and the others smaller still, V = √((n−1)/n)(1 − n x/(n−1) + …): so
    (1/ℓ) log|V − √((n−1)/n)| → −δ with δ of (20), δ = ψ(d/2) − ψ((d−1)/2) after (19) is put
    right. (18) halves it: with 1/(2ℓ) the limit is −δ/2, which is −δ for the δ that (19) as
    printed gives. In (22) the first step has 1/(2ℓ) on the left and 1/ℓ on the right, of a
    negative logarithm: false."""
    x = sympy.Symbol("x", positive=True)
    gap = sympy.sqrt((1 + x**2) / (1 + x) ** 2 - 1 / n)
    slope = sympy.simplify(sympy.diff(gap, x).subs(x, 0) / gap.subs(x, 0))
    first, second = lyapunov_exponents(d, 2)
    delta = sympy.digamma(d / 2) - sympy.digamma((d - 1) / 2)
    return both(
        equal(sympy.simplify(gap.subs(x, 0) - sympy.sqrt((n - 1) / n)), 0, "limit √((n−1)/n)"),
        equal(sympy.simplify(slope), -n / (n - 1), "first order in λ_2/λ_1"),
        equal(2 * (first - second), delta, "rate of log λ_2/λ_1"),
    )


@claim("003", "20 (ensemble)", "exponents of sampled products", sampled=True)
def sampled_exponents(sampling: Sampling) -> Verdict:
    """QR of 4 columns through 20 000 Gaussian layers of width 16: the mean of log R_ii² is 2λ_i at
    every depth, as W Q is as Gaussian as W; and log R_11² − log R_22² gives δ of (20)."""
    from numeric import compare  # noqa: PLC0415

    width, count, depth = 16, 4, 20_000
    rng = np.random.default_rng(sampling.seed)
    Q, logs = np.eye(width, count), np.empty((depth, count))
    for layer in range(depth):
        Q, R = np.linalg.qr(rng.standard_normal((width, width)) @ Q / np.sqrt(width))
        logs[layer] = 2 * np.log(np.abs(np.diag(R)))
    observed = np.column_stack([logs, logs[:, 0] - logs[:, 1]])
    exponents_ = [2 * float(each.evalf()) for each in lyapunov_exponents(width, count)]
    delta = sympy.digamma(8) - sympy.digamma(sympy.Rational(15, 2))
    names = [*(f"log R{i}^2" for i in range(1, count + 1)), "delta"]
    theory = dict(zip(names, [*exponents_, float(delta.evalf())], strict=True))
    means, errors = observed.mean(axis=0), observed.std(axis=0, ddof=1) / np.sqrt(depth)
    table = {name: ("layer", [value]) for name, value in zip(names, means, strict=True)}
    table |= {f"{name}_se": ("layer", [se]) for name, se in zip(names, errors, strict=True)}
    found = xarray.Dataset(table, {"layer": [depth]}, {"width": width, "blocks": depth})
    flowed = xarray.Dataset(
        {name: ("layer", [value]) for name, value in theory.items()}, {"layer": [depth]}
    )
    return sampled(compare(flowed, found, sampling.false_alarms), "d = 16, four exponents and δ")


@claim("003", "Figure 1", "cosine of two samples, normalised and vanilla", sampled=True)
def figure_one(sampling: Sampling) -> Verdict:
    """20 networks of width 32, two samples: from nearly aligned ones batch norm makes them
    orthogonal, to E cos² = E V² of the stationary law at n = 2; from orthogonal ones a vanilla
    network aligns."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    from derive import batchnorm  # noqa: PLC0415
    from numeric import batchnorm as ensembles  # noqa: PLC0415
    from numeric import compare  # noqa: PLC0415

    width, depth = 32, 60
    starts = {
        "batch norm, from cos 0.99": (True, [[1.0, 0.0], [0.99, np.sqrt(1 - 0.99**2)]]),
        "vanilla, from cos 0": (False, [[1.0, 0.0], [0.0, 1.0]]),
    }
    made = Figure(figsize=(6, 4), layout="constrained")
    panel = made.subplots()
    squared = np.empty(0)
    for label, (normalised, inputs) in starts.items():
        C = ensembles.grams(
            width, 2, depth, 2000, sampling.seed, normalised=normalised, inputs=inputs
        )
        cosine = np.abs(C[..., 0, 1]) / np.sqrt(C[..., 0, 0] * C[..., 1, 1])
        shown = cosine[:20]
        half = 1.96 * shown.std(axis=0, ddof=1) / np.sqrt(20)
        layers = np.arange(1, depth + 1)
        panel.errorbar(layers, shown.mean(axis=0), half, fmt=".", markersize=3, label=label)
        if normalised:
            squared = ((C[:, -1] / 2 - np.eye(2) / 2) ** 2).sum(axis=(1, 2))
    law_ = float(batchnorm.stationary_gap().subs({batchnorm.n: 2, batchnorm.d: width}))
    # V² = 2C_12² + ½(C_11 − C_22)², shared evenly, and cos = 2C_12: E|cos| of a normal number
    panel.axhline(np.sqrt(2 * law_ / np.pi), color="black", linewidth=1)
    panel.set(xlabel="layer", ylabel="|cosine|", title="d = 32, 20 networks")
    panel.legend()
    found = xarray.Dataset(
        {
            "gap_sq": ("layer", [squared.mean()]),
            "gap_sq_se": ("layer", [squared.std(ddof=1) / np.sqrt(squared.size)]),
        },
        {"layer": [depth]},
        {"width": width, "blocks": squared.size},
    )
    flowed = xarray.Dataset({"gap_sq": ("layer", [law_])}, {"layer": [depth]})
    return sampled(
        compare(flowed, found, sampling.false_alarms),
        "E V² of two samples at layer 60, 2000 networks, d = 32",
        {"batchnorm1": made},
    )
