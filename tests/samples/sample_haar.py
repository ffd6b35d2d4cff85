"""Drawn orthogonal matrices against the exact moments of Haar's law, by z-scores."""

from __future__ import annotations

import numpy as np
import sympy

from derive import trace_moment

DTYPES = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""The spacing of numbers above 1."""

WORDS = ((1,), (1, 1), (2,), (1, 2), (1, 1, 1, 1), (4,), (2, 2))
"""Products of traces of powers."""

BOUND = 5.2
"""For all z-scores of the tests that use these: fewer than 100, a false alarm in 50 000 runs."""


def trace_scores(matrices):
    """z of E Π_k tr O^k, matrices (draws, n, n); without QR's sign fix E tr O is not 0."""
    draws, n, _ = matrices.shape
    powers, power = {}, np.asarray(matrices, float)
    for k in range(1, 5):
        powers[k] = np.trace(power, axis1=1, axis2=2)
        power = power @ matrices
    haar = sympy.MatrixSymbol("O", n, n)
    found = {}
    for word in WORDS:
        exact = float(trace_moment([haar**k for k in word], haar))
        values = np.prod([powers[k] for k in word], axis=0)
        found[word] = (values.mean() - exact) / (values.std(ddof=1) / np.sqrt(draws))
    return found


def entry_scores(matrices, law, n_in, n_out):
    """z of E[W_11²], E[W_11⁴] and E[W_11 W_12 W_21 W_22] for matrices (draws, n_out, n_in) of a law
    of `derive.weights`, whose exact coefficients are the expected side."""
    W = np.asarray(matrices, float)
    one, two = (
        {c: float(law.C_W) ** len(c) * float(law.coefficient(c, n_in, n_out)) for c in each}
        for each in ([(1,)], [(1, 1), (2,)])
    )
    exact = {
        "W11^2": (W[:, 0, 0] ** 2, one[1,]),
        "W11^4": (W[:, 0, 0] ** 4, 3 * two[1, 1] + 6 * two[2,]),
        "W11 W12 W21 W22": (W[:, 0, 0] * W[:, 0, 1] * W[:, 1, 0] * W[:, 1, 1], two[2,]),
    }
    return {
        name: (values.mean() - expected) / (values.std(ddof=1) / np.sqrt(len(values)))
        for name, (values, expected) in exact.items()
    }
