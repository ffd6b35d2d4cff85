# %% [markdown]
# # Traps & <tags>, `code`
#
# An inequality that starts a line,
# > 3, with *emphasis* and $\mathcal W[2] \sim -1/n^3$; W[2](n) is no link and costs $5 or $6.
#
# $$\mathbb{E}\left[W_{i_1 j_1} \cdots W_{i_{2k} j_{2k}}\right] = \sum_{p,q} \delta_p(i) C(p,q)
# \delta_q(j) \qquad\text{for a < b & all } k \in \{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12\}$$
#
# | a | table | that_is_too_wide_for_a_phone | and_has_one_more_column |
# |---|---|---|---|
# | 1 | $x^2$ | that_is_too_wide_for_a_phone | and_has_one_more_column |
#
#     code = "that is too wide for a phone", "which only scrolls in a box of its own"

# %%
"""A chapter that the tests of the report read: every kind of verdict, and nasty text."""

from __future__ import annotations

import sys

import numpy as np
import sympy
from matplotlib.figure import Figure

from derivations.claims.registry import claim
from derivations.claims.verdicts import Verdict, close, equal, misprint

x, n = sympy.symbols("x n", positive=True)


@claim("000", "1.1", "a square, $(x+1)^2$")
def square() -> Verdict:
    """By $x \\to x + 1$, where K* is 2*x*y and `code` is code.

    A second paragraph.

        code = "that is too wide for a phone", "which only scrolls in a box of its own"
    """
    return equal([(x + 1) ** 2, x], [x**2 + 2 * x + 1, x], "expanded & <compared>")


# %% [markdown]
# ## A part of another chapter's


# %%
@claim("001", "7", "another chapter's claim")
def foreign() -> Verdict:
    """Not in chapter 000."""
    return equal(x, x)


# %% [markdown]
# ## Nasty <script>alert("heading")</script>
#
# Text without a claim of another chapter.


# %%
@claim("000", "S1.2 (limit)", "digits")
def digits() -> Verdict:
    """π, rigorously."""
    return close(sympy.pi, 355 / 113, 6)


@claim("000", "Theorem 2", "a misprint")
def wrong() -> Verdict:
    """It has a factor."""
    long = sum((n + k) * x**k for k in range(1, 24))
    return misprint(long, 2 * long, "at x = 1, n = 0 it is 276")


@claim("000", "Figure 1", "sampled, with figures", sampled=True)
def pictures(sampling) -> Verdict:
    """A wide figure and a wide table."""
    rng = np.random.default_rng(sampling.seed)
    figure = Figure(figsize=(15, 3))
    for number, panel in enumerate(figure.subplots(1, 5)):
        points = rng.normal(size=20)
        panel.errorbar(range(20), points, np.abs(points) / 5, fmt="o", label="a < b & c")
        panel.set(xlabel="layer", ylabel="V", title=f"panel {number}")
    return Verdict(
        "statistical",
        "V at layer 3: 0.5",
        "0.6 ± 0.1",
        z=1.5,
        bound=5.25,
        comparisons=100,
        figures={"wide/0.5 L%": figure},
        table=" ".join(f"column{k}" for k in range(40)) + "\n" + "1 " * 160,
    )


@claim("000", "<b>9</b> & 10", 'fails: "quotes" & <script>alert(1)</script>')
def nasty() -> Verdict:
    """<script>alert(1)</script> & <img src=x onerror=alert(2)>, $\\text{<script>alert(3)}$,
    $\\href{javascript:alert(4)}{x}$, $\\style{color:red}{x}$ $unbalanced, $\\frac{$ and |z| < 5."""
    return Verdict(
        "fails",
        "<script>alert(5)</script>" + "a" * 500 + "&",
        "Donaudampfschifffahrtsgesellschaftskapitän" * 12,
        "$5 < 6$ | <b>bold</b> & " + "long" * 60,
    )


@claim("000", "11", "raises")
def raises() -> Verdict:
    """Divides by zero."""
    return equal(1 // (sys.maxsize - sys.maxsize), 1)
