# %% [markdown]
# # The two-point function beyond leading order
#
# $G^{\{1\}}$ is the $1/n$ correction of the two-point function. Its recursion is the same for both
# ensembles: all that orthogonal weights change enters through $V$.
"""The next-to-leading-order metric of deep tanh networks (source 000, eqs. 5.26–5.28)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal
from derivations.day_kahn_roberts.depth import DEPTH, V, tanh_flow, vertex_step
from derivations.expansions import small_kernel, through
from derive import activations
from derive.brackets import K
from derive.recursion import recursion
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

G1 = sympy.Symbol("G1", real=True)
C_W = sympy.Symbol("C_W", positive=True)
layer = sympy.Symbol("l", positive=True)


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
    """G^{1}' = G^{1}[1 − 4K + …] + V[−2 + …], the same for both ensembles of weights."""
    step = metric_step(1)
    derived = G1 * through(step.coeff(G1, 1), K, 1) + V * through(step.coeff(V, 1), K, 0)
    both_ensembles = [recursion("G1", weights).expr for weights in (Orthogonal(), Gaussian())]
    return both(
        equal(derived, G1 * (1 - 4 * K) - 2 * V),
        equal(both_ensembles[0], both_ensembles[1], "any σ and inputs: the same recursion"),
    )


@claim("000", "5.27", "G^{1} of deep orthogonal tanh networks is 2K")
def metric_solution() -> Verdict:
    """V = −1/(2ℓ²) and G^{1} = 1/ℓ solve the derived recursions, so K + G^{1}/n = (1 + 2/n)/(2ℓ);
    Gaussian weights keep G^{1} constant, at −1/6. The flow's G^{1}/K tends to 2."""
    tensors = tanh_flow(Orthogonal(), ["K", "G1"])
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


@claim("000", "5.28", "tuning of C_W at order 1/n")
def renormalised_hyperparameters() -> Verdict:
    """Keeping G^{1} = 0 at Gaussian weights takes c_W^{1} K = 2V, so c_W^{1} = 2/3 as printed; with
    orthogonal weights the same condition gives a c_W^{1} that decays as 1/ℓ: no tuning is left."""
    tuned = []
    for weights, decay in ((Gaussian(), 1), (Orthogonal(), 2)):
        v, _ = powers(weights, decay)
        tuned.append(sympy.limit(2 * v / layer**decay / (1 / (2 * layer)), layer, sympy.oo))
    return equal(tuned, [sympy.Rational(2, 3), 0])
