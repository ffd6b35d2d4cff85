# %% [markdown]
# # The NTK and its descendants: recursions
#
# Section 6 of the paper measures the correlators of the neural tangent kernel $\widehat H$, of the
# dNTK and of the two ddNTKs, and leaves their recursions with orthogonal weights to future work.
# Here they are derived, all by the same five steps that give $V$: a field is a tree of derivatives,
# its forward equation follows by differentiating $z = b + W\sigma(z)$, and one layer's weights
# are averaged with their pairing matrix.
#
# The result is short. Three tensors of the fifteen feel the ensemble: $V$, $F$ and $B$, each
# by what pairing the columns another way than the rows adds, $-1/n^3$ times $n^2$ pairs of neurons.
# For every other tensor that other pairing would join the two ends of an NTK to different
# neurons, and its mean is diagonal. The rest of the tower changes through $V$, $F$ and $B$ alone.

# %%
"""The NTK's tower of tensors for any invariant weights (source 000, section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import sympy

from derivations.claims import Verdict, both, claim, equal
from derivations.day_kahn_roberts.by_definition import SmallNetwork
from derivations.day_kahn_roberts.expansions import follow, small_kernel
from derivations.day_kahn_roberts.weights import ENSEMBLES, g, p_1, p_2, ratio
from derivations.pictures.diagrams import draw
from derive import activations, recursion, symbols
from derive.engine.fields import DDH_I, DDH_II, DH, Field, H
from derive.gaussian.brackets import Average, Component
from derive.gaussian.kernel_form import kernel_form
from derive.groups.pairings import loops
from derive.symbols import C_W, C_b, K, lambda_b, lambda_W
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

TOWER = ("K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U")
HALF = sympy.Rational(1, 2)

# %% [markdown]
# ## Frozen NTK
#
# Two weights average alike in every ensemble, so that the leading NTK does.


# %%
@claim("000", "6.5", "the frozen NTK is the same for all weights")
def frozen() -> Verdict:
    r"""$\Theta' = \lambda_b + \lambda_W\langle\sigma\sigma\rangle +
    C_W\langle\sigma'\sigma'\rangle\Theta$, for six ensembles of weights."""
    sigma, slope = Average(((1, 0), (2, 0))), Average(((1, 1), (2, 1)))
    printed = lambda_b + lambda_W * sigma + C_W * slope * Component("Theta", (1, 2))
    frozen = [recursion("Theta", weights).expr for weights in ENSEMBLES]
    return equal(frozen, [printed] * len(frozen), "six ensembles")


@claim("000", "6.17", "learning rates that keep the NTK of deep tanh networks finite")
def balanced_rates() -> Verdict:
    r"""With $\lambda_b = 1/\ell$, $\lambda_W = 1$ and $K = \frac1{2\ell}$ the derived recursion of
    a critical tanh network is solved by $\Theta \to \frac32$. Layer $\ell$ brings in
    $\frac3{2\ell}$, of which the slopes $1 - 1/k$ of the later layers leave
    $\frac3{2\ell}\frac\ell L$: of every layer the same."""
    small, limit = sympy.symbols("x Theta_limit", real=True)
    below = symbols.tensor("Theta")
    step = small_kernel(recursion("Theta"), activations.tanh, 1)
    values = {C_W: 1, lambda_W: 1, lambda_b: small / (1 + small), K: small / 2}
    slope, source = (
        sympy.series(step.coeff(below, power).subs(values), small, 0, 2).removeO()
        for power in (1, 0)
    )
    first_order = sympy.expand(slope * limit + source - limit).coeff(small, 1)
    return both(
        equal(sympy.solve(first_order, limit), [sympy.Rational(3, 2)], "order 1/ℓ"),
        equal(
            [slope, source],
            [1 - small, sympy.Rational(3, 2) * small],
            "slope and source: every layer's share is 3/(2L)",
        ),
    )


# %% [markdown]
# ## Which tensors the ensemble reaches


# %%
def s_one(weights: WeightEnsemble) -> sympy.Expr:
    """s_1 of S(x) = (1 + s_1 x + …)/C_W, the S-transform of WᵀW at large width.

    With moments m_k: ψ(x) = Σ m_k x^k, χ = ψ^{-1}, S(x) = χ(x)(1 + x)/x. m_2 is E tr(WᵀW)²/n, rows
    paired (01)(23) and columns (03)(12) by the trace.
    """
    n, x, m_1, m_2 = sympy.symbols("n x m_1 m_2", positive=True)
    pairings = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    around = sum(
        weights.coefficient((1, 1) if p == q else (2,), n, n)
        * n ** (loops(p, pairings[0]) + loops(q, pairings[2]))
        for p, q in product(pairings, repeat=2)
    )
    second = sympy.limit(sympy.cancel(around / n), n, sympy.oo)
    inverse = series_inverse([m_1, m_2], x)
    transform = sympy.expand(m_1 * inverse * (1 + x) / x)
    return sympy.expand(transform.coeff(x, 1).subs({m_1: 1, m_2: second}))


def series_inverse(moments: Sequence[sympy.Expr], x: sympy.Symbol) -> sympy.Expr:
    """χ(x) through x² with ψ(χ(x)) = x, ψ(x) = m_1 x + m_2 x² + …"""
    first, second = sympy.symbols("first second")
    composed = sympy.expand(
        sum(m * (first * x + second * x**2) ** k for k, m in enumerate(moments, start=1)) - x
    )
    (found,) = sympy.solve([composed.coeff(x, 1), composed.coeff(x, 2)], [first, second], dict=True)
    return found[first] * x + found[second] * x**2


def theta(*samples: int) -> Component:
    """Θ of the layer below."""
    return Component("Theta", samples)


def pair(a: int, b: int, order: int = 0) -> Average:
    """⟨σ_a σ_b⟩, or of their derivatives."""
    return Average(((a, order), (b, order)))


CROSSED: dict[str, sympy.Expr] = {
    "V": -(C_W**2) * (pair(1, 3) * pair(2, 4) + pair(1, 4) * pair(2, 3)),
    "F": -(C_W**2) * pair(1, 3) * pair(2, 4, 1) * theta(2, 4),
    "B": -(C_W**2) * pair(1, 3, 1) * pair(2, 4, 1) * theta(1, 3) * theta(2, 4),
}
"""The terms of crossed columns for orthogonal weights: V_{(12)(34)}, F_{1234}, B_{1234}."""


@claim("000", "6.7–6.14 (orthogonal)", "orthogonal weights change V, F and B, and no other")
def orthogonal_minus_gaussian() -> Verdict:
    r"""$\Delta F_{1234} = -C_W^2\langle13\rangle\langle2'4'\rangle\Theta_{24}$ and $\Delta B_{1234}
    = -C_W^2\langle1'3'\rangle\langle2'4'\rangle\Theta_{13}\Theta_{24}$, beside $\Delta V$ of
    (5.15); none for the other twelve, at any inputs and σ."""
    derived = [
        sympy.expand(recursion(name, Orthogonal()).expr - recursion(name, Gaussian()).expr)
        for name in TOWER
    ]
    verdict = equal(derived, [CROSSED.get(name, sympy.S.Zero) for name in TOWER])
    lines = [f"Δ{name} = {value}" for name, value in zip(TOWER, derived, strict=True)]
    return replace(verdict, table="\n".join(lines))


@claim("000", "5.16 (s_1)", "the spectrum enters through s_1 alone, and affinely")
def affine() -> Verdict:
    r"""$S(x) = (1 + s_1 x + \dots)/C_W$ with $s_1 = 1 - m_2/m_1^2$: $-1$ for Gaussian weights, 0
    for orthogonal ones, as 002 defines it. The inhomogeneous term of $V$ is
    $C_W^2[\langle\sigma^4\rangle - (3 + 2s_1)\langle\sigma^2\rangle^2]$, and every recursion of the
    tower is the Gaussian one plus $1 + s_1$ times the orthogonal extra."""
    slopes = [s_one(weights) for weights in ENSEMBLES]
    V = symbols.tensor("V")
    sources = [recursion("V", weights).single_input().expr.subs(V, 0) for weights in ENSEMBLES]
    fourth, second = Average(((1, 0),) * 4), Average(((1, 0),) * 2)
    whole = [
        recursion(name, weights).expr - recursion(name, Gaussian()).expr
        for weights in ENSEMBLES
        for name in TOWER
    ]
    extra = [(1 + slope) * CROSSED.get(name, 0) for slope in slopes for name in TOWER]
    known = [sympy.S.NegativeOne, sympy.S.Zero, -1 / g, 1 - 1 / g, 1 / ratio - 1, 1 - p_2 / p_1**2]
    return both(
        equal(
            [sympy.expand(source) for source in sources],
            [C_W**2 * (fourth - (3 + 2 * slope) * second**2) for slope in slopes],
            "V with one input",
        ),
        equal(slopes, known, "s_1 of six ensembles from E tr(WᵀW)²"),
        equal(whole, extra, "fifteen tensors, any inputs, six ensembles"),
    )


# %% [markdown]
# ## The recursions, term by term
#
# For each tensor: its decomposition over the pairings of the neural indices, then its recursion as
# the engine prints it, with a diagram for every way in which terms arise (orthogonal weights). In
# a diagram the arcs on top pair the rows; the nodes of $\widehat H$, $\widehat{dH}$ … hang together
# by thick lines, dashed where the derivative is by a parameter of the new layer; the forks below
# pair the columns; full dots are distinct neurons with the $\sigma$'s averaged there; blobs are the
# tensors of the layer below. Two dots that nothing joins are worth $n(n-1)$, and only the $-n$
# survives in a connected correlator; crossed forks are what orthogonal weights add.


# %%
def alike(fields: Sequence[str], parts: Mapping[str, str]) -> Verdict:
    """The coefficient of each pairing, such as "13 24", is the tensor at subscripts, such as
    "V1324", for Gaussian and for orthogonal weights, the samples being those of the slots.

    The first pairing is the one that the tensor is named by, so there it is so by definition; that
    the other pairings have it too is what is shown. Its values meet ensembles in Figures 2 and 3.
    """
    left, right = [], []
    for weights in (Gaussian(), Orthogonal()):
        for pairing, part in parts.items():
            pairs = tuple((int(pair[0]) - 1, int(pair[1]) - 1) for pair in pairing.split())
            samples = tuple(map(int, part[1:]))
            left.append(recursion(fields, weights, pairing=pairs).expr)
            right.append(replace(recursion(part[0], weights), samples=samples).expr)
    named = ", ".join(dict.fromkeys(part[0] for part in parts.values()))
    detail = f"each pairing of the neural indices, both ensembles; {named} on its own by definition"
    return equal(left, right, detail)


def drawn(verdict: Verdict, *names: str) -> Verdict:
    """The verdict with each recursion typeset and its diagrams, which must add up to it."""
    made = {name: recursion(name, Orthogonal()) for name in names}
    pictures = {name: draw(each) for name, each in made.items()}
    sums = [sympy.Add(*(panel.single_input for panel in pictures[name].panels)) for name in names]
    adds_up = equal(
        sums,
        [made[name].single_input().expr for name in names],
        "the diagrams add up to the recursion",
    )
    whole = both(verdict, adds_up)
    typeset = "\n\n".join(f"$${each.latex(width=None)}$$" for each in made.values())
    text = [
        "\n".join(
            [
                f"{name} by diagrams",
                *(panel.words for panel in pictures[name].panels),
                f"{name} with factors of z for outer derivatives: "
                f"{kernel_form(each.single_input())}",
            ]
        )
        for name, each in made.items()
    ]
    return replace(
        whole,
        derived="; ".join(str(each.single_input()) for each in made.values()),
        printed="",
        detail=f"{whole.detail}\n\n{typeset}",
        figures={f"tower_{name}": picture for name, picture in pictures.items()},
        table="\n\n".join(text),
    )


@claim("000", "3.8 (diagrams)", "V, and the NLO metric and NTK")
def vertex() -> Verdict:
    r"""$V$ with its diagrams; $G^{\{1\}}$ and $\Theta^{\{1\}}$, which $V$, $D$ and $F$ drive."""
    parts = {"12 34": "V1234", "13 24": "V1324", "14 23": "V1423"}
    return drawn(alike(["z"] * 4, parts), "V", "G1", "Theta", "Theta1")


@claim("000", "6.7", "variance of the NTK: A and B")
def ntk_variance() -> Verdict:
    r"""$E[\widehat{\Delta H}_{12}\widehat{\Delta H}_{34}]$ has $A_{1234}$ on $(12)(34)$, $B_{1324}$
    on $(13)(24)$, $B_{1423}$ on $(14)(23)$."""
    parts = {"12 34": "A1234", "13 24": "B1324", "14 23": "B1423"}
    return drawn(alike(["H", "H"], parts), "A", "B")


@claim("000", "6.8", "covariance of preactivations and NTK: D and F")
def mixed_variance() -> Verdict:
    r"""$E[z_1 z_2 \widehat{\Delta H}_{34}]$ has $D_{1234}$ on $(12)(34)$, $F_{1324}$ on $(13)(24)$,
    $F_{1423}$ on $(14)(23)$."""
    parts = {"12 34": "D1234", "13 24": "F1324", "14 23": "F1423"}
    return drawn(alike(["z", "z", "H"], parts), "D", "F")


@claim("000", "6.12", "covariance of the dNTK with preactivations: P and Q")
def differential() -> Verdict:
    r"""$E[\widehat{dH}_{012} z_3]$ has $P_{0123}$ on $(03)(12)$, $Q_{0123}$ on $(01)(23)$,
    $Q_{0213}$ on $(02)(13)$, counted from 1 here. The sample of $z_3$ is printed $\delta_3$, and is
    the $\alpha_3$ of $P$ and $Q$."""
    parts = {"14 23": "P1234", "12 34": "Q1234", "13 24": "Q1324"}
    return drawn(alike(["dH", "z"], parts), "P", "Q")


@claim("000", "6.13", "mean of the first ddNTK: R")
def first_second_differential() -> Verdict:
    r"""$E[\widehat{dd_I H}_{1234}]$ has $R_{1234}$ on $(12)(34)$, $R_{1324}$ on $(13)(24)$,
    $R_{1423}$ on $(14)(23)$."""
    parts = {"12 34": "R1234", "13 24": "R1324", "14 23": "R1423"}
    return drawn(alike(["ddI"], parts), "R")


@claim("000", "6.14", "mean of the second ddNTK: S, T and U")
def second_second_differential() -> Verdict:
    r"""$E[\widehat{dd_{II} H}_{1234}]$ has $S_{1234}$ on $(12)(34)$, $T_{1324}$ on $(13)(24)$,
    $U_{1423}$ on $(14)(23)$."""
    parts = {"12 34": "S1234", "13 24": "T1324", "14 23": "U1423"}
    return drawn(alike(["ddII"], parts), "S", "T", "U")


# %% [markdown]
# ## Linear orthogonal networks, at any width
#
# With $\sigma(z) = z$, orthogonal $W$ and no biases the fields themselves are known:
#
# $$ \widehat H_{12} = \ell\,\lambda_W K_0\,\delta_{12}, \qquad
#    \widehat{dH}_{123} = \tfrac{\lambda_W^2 K_0}{n}\tbinom{\ell}{2}
#       (\delta_{12} z_3 + \delta_{13} z_2), \qquad
#    \widehat{dd_I H}_{1234} = \tfrac{2\lambda_W^3 K_0}{n^2}\tbinom{\ell}{3}
#       (\delta_{12} z_3 z_4 + \delta_{13} z_2 z_4 + \delta_{14} z_2 z_3), $$
# $$ \widehat{dd_{II}H}_{1234} = \tfrac{\lambda_W^3}{n} \sum_{k=1}^{\ell} \Big[
#       (k-1)^2 K_0^2\,\delta_{12}\delta_{34} + (\ell-k)^2 K_0^2\,\delta_{13}\delta_{24}
#       + \tfrac{(k-1)(\ell-k)}{n} K_0 (\delta_{24} z_1 z_3 + \delta_{13} z_2 z_4) \Big]. $$
#
# So the NTK does not fluctuate, $Q = \lambda_W^2 K_0^2\binom{\ell}{2}$,
# $S = T = \lambda_W^3 K_0^2\,(\ell-1)\ell(2\ell-1)/6$, and all else vanishes but $V = -2K_0^2$.


# %%
def linear_fields(
    layers: int, at: Sequence[int], z: Sequence[sympy.Expr], norm: sympy.Expr, rate: sympy.Expr
) -> dict[Field, sympy.Expr]:
    """The closed forms for neural indices `at`, norm = |x|², rate = λ_W/n, C_W = 1."""  # fmt: skip

    def delta(a: int, b: int) -> int:
        return int(at[a] == at[b])

    first = sympy.binomial(layers, 2) * (delta(0, 1) * z[at[2]] + delta(0, 2) * z[at[1]])
    third = sum(delta(0, a) * z[at[b]] * z[at[c]] for a, b, c in ((1, 2, 3), (2, 1, 3), (3, 1, 2)))
    inner = sum(
        (k - 1) ** 2 * norm**2 * delta(0, 1) * delta(2, 3)
        + (layers - k) ** 2 * norm**2 * delta(0, 2) * delta(1, 3)
        + (k - 1) * (layers - k) * norm
        * (delta(1, 3) * z[at[0]] * z[at[2]] + delta(0, 2) * z[at[1]] * z[at[3]])
        for k in range(1, layers + 1)
    )  # fmt: skip
    return {
        H: layers * rate * norm * delta(0, 1),
        DH: rate**2 * norm * first,
        DDH_I: 2 * sympy.binomial(layers, 3) * rate**3 * norm * third,
        DDH_II: rate**3 * inner,
    }


@claim("000", "6.7–6.14 (linear)", "the tower of linear orthogonal networks, in closed form")
def linear_tower() -> Verdict:
    """The closed forms hold for the fields of an orthogonal network with given weights, summed
    over its parameters; their averages at large n solve the recursions of all fifteen tensors."""
    rotation = sympy.ImmutableMatrix([[3, -4], [4, 3]]) / 5
    flip = sympy.ImmutableMatrix([[5, 12], [12, -5]]) / 13
    zero = (sympy.S.Zero,) * 2
    network = SmallNetwork(
        activations.linear,
        (rotation, flip, rotation),
        (zero, zero, zero),
        ((sympy.S.One, sympy.Integer(2)),),
        lambda_W=sympy.S.One,
        lambda_b=sympy.S.Zero,
    )
    z = [network.derivative(3, (i, 0), ()) for i in range(2)]
    choices = list(product(range(2), repeat=4))
    closed = [linear_fields(3, at, z, sympy.Integer(5), HALF) for at in choices]
    fields = (H, DH, DDH_I, DDH_II)
    summed = [
        network.field(field, 3, [(i, 0) for i in at[: field.nodes]])
        for at in choices
        for field in fields
    ]
    K0 = symbols.K0
    depth = 6
    expected = []
    for layer in range(1, depth + 1):
        squares = sympy.Integer(layer * (layer - 1) * (2 * layer - 1)) / 6
        known = {
            "K": K0,
            "V": -2 * K0**2,
            "Theta": layer * lambda_W * K0,
            "Q": lambda_W**2 * K0**2 * sympy.binomial(layer, 2),
            "S": lambda_W**3 * K0**2 * squares,
            "T": lambda_W**3 * K0**2 * squares,
        }
        expected += [known.get(name, sympy.S.Zero) for name in TOWER]
    layers = follow(activations.linear, Orthogonal(), depth, TOWER, {C_W: 1, C_b: 0, lambda_b: 0})
    found = [layer[name] for layer in layers for name in TOWER]
    return both(
        equal(found, expected, f"fifteen tensors, layers 1 to {depth}"),
        equal(
            summed,
            [each[field] for each in closed for field in fields],
            "fields of a rational orthogonal network of width 2 and depth 3, summed over θ",
        ),
    )
