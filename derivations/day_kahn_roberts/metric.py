# %% [markdown]
# # The two-point function beyond leading order
#
# $G^{\{1\}}$ is the $1/n$ correction of the two-point function. Its recursion is the same for both
# ensembles: all that orthogonal weights change enters through $V$.

# %%
"""The next-to-leading-order metric of deep tanh networks (source 000, eqs. 5.26–5.28)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal
from derivations.day_kahn_roberts.depth import DEPTH, V, tanh_flow, vertex_step
from derivations.day_kahn_roberts.expansions import small_kernel, through
from derive import activations, symbols
from derive.recursions import recursion
from derive.symbols import C_W, K
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

G1 = symbols.tensor("G1")
layer = symbols.ell


def metric_step(power: int) -> sympy.Expr:
    """G^{1}' of a critical tanh network, its brackets through K^power."""
    return small_kernel(recursion("G1", Orthogonal()), activations.tanh, power).subs(C_W, 1)


def powers(weights: WeightEnsemble, decay: int) -> tuple[sympy.Expr, sympy.Expr]:
    """(v, g) of V = v/ℓ^decay and G^{1} = g/ℓ^{decay−1}: the derived recursions at K = 1/(2ℓ)."""
    v, g, small = sympy.symbols("v g x")
    ahead = small / (1 + small)
    ansatz = {K: small / 2, V: v * small**decay, G1: g * small ** (decay - 1)}

    def condition(step: sympy.Expr, unknown: sympy.Symbol, order: int) -> sympy.Expr:
        moved = ansatz[unknown].subs(small, ahead)
        residue = sympy.series(moved - step.subs(ansatz), small, 0, order + 2).removeO()
        return sympy.expand(residue).coeff(small, order + 1)

    found = sympy.solve(
        [condition(vertex_step(weights, 3), V, decay), condition(metric_step(1), G1, decay - 1)],
        [v, g],
        dict=True,
    )
    return next((each[v], each[g]) for each in found if each[v] != 0)


@claim("000", "5.26", "recursion of the NLO metric of tanh")
def metric_recursion() -> Verdict:
    r"""$G^{\{1\}\prime} = G^{\{1\}}[1 - 4K + \dots] + V[-2 + \dots]$, the same for both ensembles
    of weights."""
    step = metric_step(1)
    derived = G1 * through(step.coeff(G1, 1), K, 1) + V * through(step.coeff(V, 1), K, 0)
    both_ensembles = [recursion("G1", weights).expr for weights in (Orthogonal(), Gaussian())]
    return both(
        equal(derived, G1 * (1 - 4 * K) - 2 * V),
        equal(both_ensembles[0], both_ensembles[1], "any σ and inputs: the same recursion"),
    )


@claim("000", "5.27", "G^{1} of deep orthogonal tanh networks is 2K")
def metric_solution() -> Verdict:
    r"""$V = -1/(2\ell^2)$ and $G^{\{1\}} = 1/\ell$ solve the derived recursions, so that
    $K + G^{\{1\}}/n = \frac1{2\ell}(1 + 2/n)$; Gaussian weights keep $G^{\{1\}}$ constant, at
    $-\frac16$. The flow's $G^{\{1\}}/K$ tends to 2."""
    tensors = tanh_flow(None)
    near, far = ((tensors["G1"][at] / tensors["K"][at]) for at in (DEPTH // 2 - 1, DEPTH - 1))
    return both(
        equal(
            [*powers(Orthogonal(), 2), *powers(Gaussian(), 1)],
            [
                sympy.Rational(-1, 2),
                1,
                sympy.Rational(1, 6),
                sympy.Rational(-1, 6),
            ],
        ),
        close(
            2 * far - near,
            2,
            3,
            f"flow: 2 G/K at layer {DEPTH} less that at {DEPTH // 2}",
        ),
    )


# %% [markdown]
# ## Hyperparameters with a correction of order $1/n$
#
# Let $C_b = c_b^{\{1\}}/n$ and $C_W = 1 + c_W^{\{1\}}/n$. The corrections could be chosen to hold
# the two-point function at $K$, which is $G^{\{1\}} = 0$.


# %%
@claim("000", "5.28", "tuning of C_W at order 1/n")
def renormalised_hyperparameters() -> Verdict:
    r"""The derived recursion with corrections of $C_b$ and $C_W$ is the printed one. Keeping
    $G^{\{1\}} = 0$ takes $c_W^{\{1\}} = 2/3$ at Gaussian weights, and at orthogonal ones none that
    is left at $\ell \to \infty$; constants added to $G^{\{1\}} = 1/\ell$ must be zero."""
    c_b, c_W = map(symbols.parameter, ("C_b1", "C_W1"))
    step = small_kernel(recursion("G1", Orthogonal(), corrections=1), activations.tanh, 2)
    step = step.subs(C_W, 1)
    derived = (
        c_b * step.coeff(c_b)
        + c_W * through(step.coeff(c_W), K, 2)
        + G1 * through(step.coeff(G1), K, 1)
        + V * through(step.coeff(V), K, 0)
    )
    printed = c_b + c_W * (K - 2 * K**2) + G1 * (1 - 4 * K) - 2 * V
    small = sympy.Symbol("x", positive=True)
    tuned = []
    for weights, decay in ((Gaussian(), 1), (Orthogonal(), 2)):
        v, _ = powers(weights, decay)
        held = printed.subs({c_b: 0, G1: 0, V: v * small**decay, K: small / 2})
        (correction,) = sympy.solve(held, c_W)
        tuned.append(sympy.limit(correction, small, 0))
    v, g = powers(Orthogonal(), 2)
    moved = printed.subs({G1: g * small, V: v * small**2, K: small / 2}) - g * small / (1 + small)
    residue = sympy.series(moved, small, 0, 3).removeO()
    constant = sympy.solve([residue.coeff(small, power) for power in (0, 1)], [c_b, c_W])
    return both(
        equal(derived, printed, "tanh at C_W = 1"),
        equal(tuned, [sympy.Rational(2, 3), 0], "c_W at large depth, Gaussian and orthogonal"),
        equal([constant[c_b], constant[c_W]], [0, 0], "constants at orders 1 and 1/ℓ"),
        equal(residue.coeff(small, 2).subs(constant), 0, "which leaves nothing at order 1/ℓ²"),
    )
