# %% [markdown]
# # The recursions of layers
#
# A layer is written down as its forward equations, and the engine derives everything else. Here its
# recursions are printed, and held against what is known by another way: two dense layers in a row,
# and a norm's length, which is no random variable any more.

# %%
"""Derived recursions of the shipped layers, and identities between them."""

from __future__ import annotations

from dataclasses import replace

import sympy

from derivations.claims import Verdict, both, claim, equal
from derive import Gaussian, Orthogonal, WeightEnsemble, layers, recursion
from derive.gaussian.brackets import Average, unspecified
from derive.symbols import C_W, C_b, K, lambda_b, n, tensor
from derive.work.caches import cache

GAMMA = sympy.Symbol("gamma", positive=True)
EPS = sympy.Symbol("eps", positive=True)
WEIGHTS: tuple[WeightEnsemble, ...] = (Gaussian(), Orthogonal())
SHIPPED = (
    layers.normalized("rms", eps=EPS),
    layers.residual(GAMMA),
    layers.residual(GAMMA, norm="rms"),
    layers.residual(GAMMA, norm="layer"),
    layers.gated(GAMMA),
    layers.gated(GAMMA, norm="rms"),
)
PRINTED = ("K", "Theta", "V", "G1")
V, G1 = tensor("V"), tensor("G1")
_KINDS = {Gaussian: "Gaussian", Orthogonal: "orthogonal"}


@cache
def derived(name: str, layer: layers.Layer, weights: WeightEnsemble) -> sympy.Expr:
    """T at layer ℓ+1, with one input."""
    return recursion(name, weights, layer=layer).single_input().expr


def average(text: str, kernel: str) -> sympy.Expr:
    """A bracket with no outer derivatives by its orders, "00" for ⟨σσ⟩."""
    return Average(tuple((1, int(order)) for order in text), (), kernel)


# %%
@claim("layers", "1", "the recursions of every shipped layer")
def printed() -> Verdict:
    r"""$K$, $\Theta$, $V$ and $G^{\{1\}}$ of norms, residual blocks and gates with the symbols
    $\gamma$ and $\epsilon$, for Gaussian and orthogonal weights. Where the vectors that meet a
    Gaussian matrix have a fixed length, its outputs are independent Gaussian variables at every
    width, and $\mathbb E z^2$ has no $1/n$ term of its own: $G^{\{1\}\prime} = \gamma^2
    G^{\{1\}}$."""
    table = "\n".join(
        f"{layer}, {_KINDS[type(weights)]}: {recursion(name, weights, layer=layer).single_input()}"
        for layer in SHIPPED
        for weights in WEIGHTS
        for name in PRINTED
    )
    fixed = [SHIPPED[2], SHIPPED[3], SHIPPED[5]]
    found = [derived("G1", layer, Gaussian()) for layer in fixed]
    return replace(equal(found, [GAMMA**2 * G1] * 3, "Gaussian weights behind a norm"), table=table)


@claim("layers", "2", "a residual block without its skip is two dense layers")
def two_layers() -> Verdict:
    r"""$z' = b + W_2\sigma(W_1z)$ derived as one layer is the derived dense layer after the derived
    linear one without a bias, in $K$, $\Theta$, $V$, $G^{\{1\}}$, $\Theta^{\{1\}}$, $F$, $D$, $A$
    and $B$, with either weights."""
    block = layers.residual(0)
    names = ("K", "Theta", "V", "G1", "Theta1", "F", "D", "A", "B")
    found, expected = [], []
    for weights in WEIGHTS:
        inner = {
            tensor(name): recursion(name, weights)
            .single_input()
            .specialise("linear")
            .expr.xreplace({C_b: sympy.S.Zero, lambda_b: sympy.S.Zero})
            for name in names
        }
        inner[K] = inner.pop(tensor("K"), inner.get(K))
        for name in names:
            outer = recursion(name, weights).single_input().expr
            moved = {
                each: unspecified(each.bracket._replace(kernel="K_h"))
                for each in outer.atoms(Average)
            }
            found.append(derived(name, block, weights))
            expected.append(outer.xreplace(inner | moved))
    return equal(found, expected)


def exact_step(
    mean: sympy.Expr, square: sympy.Expr, one: sympy.Expr, two: sympy.Expr, haar: bool
) -> tuple[sympy.Expr, sympy.Expr]:
    r"""E q' and E q'² of z' = γz + W₂u at width n, where u is independent of q = |z|²/n.

    `one` and `two` are E|u|²/n and E(|u|²/n)². z·W₂u has the variance |z|²|W₂u|²/n, and |W₂u|² is
    C_W|u|², times a chi-squared variable over n for Gaussian weights.
    """
    branch = C_W**2 * two * (1 if haar else 1 + 2 / n)
    cross = (2 + 4 / n) * GAMMA**2 * C_W * mean * one
    return GAMMA**2 * mean + C_W * one, GAMMA**4 * square + cross + branch


@claim("layers", "3", "V of a pre-norm residual block, at every width by hand")
def by_hand() -> Verdict:
    r"""$z' = \gamma z + W_2\sigma(h)$, $h = W_1y$ with $|y|^2 = n$: with Gaussian $W_1$ the $h_i$
    are independent, so that $\mathbb E q'$ and $\mathbb E q'^2$ of $q = |z|^2/n$ close at every
    $n$, and $V = n(\frac n{n+2}\mathbb E q^2 - (\mathbb E q)^2)$. Its limit is the derived
    recursion, for every $\sigma$. So it is for linear gates and blocks with orthogonal weights,
    where $|h|^2 = C_Wn$."""
    one, two = average("00", "K_h"), average("0000", "K_h")
    mean = K
    square = (K**2 + V / n) * (1 + 2 / n)
    spread = one**2 + (two - one**2) / n
    cases = [(one, spread, False, None), (C_W, C_W**2, True, "linear")]
    found, expected = [], []
    for first, second, haar, sigma in cases:
        up, squared = exact_step(mean, square, first, second, haar)
        finite = n * (n / (n + 2) * squared - up**2)
        expected.append(sympy.limit(sympy.expand(finite.xreplace(_PLAIN)), n, sympy.oo))
        made = recursion("V", Orthogonal() if haar else Gaussian(), layer=SHIPPED[2])
        made = made.single_input()
        own = made.expr if sigma is None else made.specialise(sigma).expr
        found.append(own.xreplace({C_b: sympy.S.Zero}).xreplace(_PLAIN))
    return both(equal(found, expected, "any σ with Gaussian weights; linear with orthogonal ones"))


_PLAIN = {
    average("00", "K_h"): sympy.Symbol("s", positive=True),
    average("0000", "K_h"): sympy.Symbol("f", positive=True),
}
