# %% [markdown]
# # Large depth, solved: the whole tower
#
# Every recursion of the tower is linear in its own tensor, with coefficients that are power series
# in the kernel. At criticality the kernel falls as $1/\ell$, so each tensor is a double series in
# $1/\ell$ and $\log\ell$, found order by order: nothing below is fitted. What the input and the
# first layers decide enters through one constant per tensor, the coefficient of its homogeneous
# solution; all else is universal.

# %%
"""Deep critical networks, tensor by tensor (source 000, sections 5.3, 5.4 and 6.2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import sympy
from sympy import log

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.day_kahn_roberts.breakdown import aspect_ratio, breakdown, optimal_aspect_ratio
from derivations.day_kahn_roberts.tower_figures import deep_figure
from derive import activations, recursion, symbols
from derive.activations.functions import Activation
from derive.depth.asymptotics import (
    Asymptotics,
    Term,
    asymptotics,
    counterterm,
    ell,
    together,
)
from derive.depth.information import mutual_information, v
from derive.engine.tensors import FIRST_ORDER, named
from derive.network import Network
from derive.symbols import K
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from derive.work.caches import cache
from numeric import flow

if TYPE_CHECKING:
    import xarray

R = sympy.Rational
tanh = activations.tanh
TOWER = tuple(name for name in FIRST_ORDER if name not in {"K", "Theta"})
MEASURED = tuple("VDFABPQRSTU")
"""The correlators of the paper's figures 2 and 3."""
INPUT = (0.3, -1.1, 0.8, 0.5)
ODD = (tanh, activations.sin, activations.erf_unit_slope, activations.arctan)


@cache
def deep(
    name: str, weights: WeightEnsemble, activation: Activation = tanh, terms: int = 3
) -> Asymptotics:
    """A tensor with the paper's learning rates (6.17)."""
    return asymptotics(recursion(name, weights), activation, terms)


def normalised(name: str, weights: WeightEnsemble, terms: int = 2) -> Asymptotics:
    """The paper's dimensionless tensor."""
    return deep(name, weights, tanh, terms).normalised


# %% [markdown]
# ## The vertex and the metric, to the next terms


# %%
@claim("000", "5.24 (series)", "Ṽ of deep orthogonal networks, next term")
def vertex() -> Verdict:
    r"""$\tilde V = -2 + \frac8{3\ell} + O(\log\ell/\ell^2)$ for tanh, sin, arctan and
    $\mathrm{erf}(\sqrt\pi z/2)$ alike. No logarithm at order $1/\ell$, and no memory of the input
    either."""
    found = [deep("V", Orthogonal(), each, 2).normalised.expr for each in ODD]
    return equal(found, [-2 + R(8, 3) / ell] * len(ODD), "tanh, sin, erf, arctan")


@claim("000", "5.27 (series)", "G^{1}/K of deep orthogonal tanh networks, next term")
def metric() -> Verdict:
    r"""$G^{\{1\}}/K = 2 - \frac{11}2\frac{\log\ell}\ell + O(1/\ell)$: here $a_0$ and $a_1$ of
    section 6.2 are both universal."""
    return equal(normalised("G1", Orthogonal()).expr, 2 - R(11, 2) * log(ell) / ell)


@claim("000", "5.28 (series)", "counterterms that keep the two-point function")
def counterterms() -> Verdict:
    r"""With $c_b^{\{1\}} = 0$, $G^{\{1\}}$ stays 0 for $c_W^{\{1\}} = \frac23 - \frac{89}{36\ell} +
    \dots$ with Gaussian weights, and for $-\frac2\ell - \dots$ with orthogonal ones: none is left
    at $\ell \to \infty$, where they leave $G^{\{1\}} = 2K$ alone."""
    found = [counterterm(tanh, weights, 2).expr for weights in (Gaussian(), Orthogonal())]
    printed = [R(2, 3) - R(89, 36) / ell, -2 / ell - R(5, 6) * log(ell) / ell**2]
    return equal(found, printed, "the derived recursion of G^{1} with a correction of C_W")


# %% [markdown]
# ## The tower with Gaussian weights


# %%
@claim("000", "§6.1 (Gaussian)", "all Gaussian correlators grow like ℓ but Ũ ~ 1/ℓ")
def gaussian_growth() -> Verdict:
    r"""The leading power of each of the eleven measured correlators for tanh with Gaussian weights:
    $\pm\ell$ for ten of them, and $\tilde U = \frac1{2\ell}$."""
    leading = {name: normalised(name, Gaussian(), 1).terms[0] for name in MEASURED}
    powers = [-leading[name].exponent for name in MEASURED]
    logs = [leading[name].log for name in MEASURED]
    return both(
        equal(
            [*powers, *logs],
            [-1 if name == "U" else 1 for name in MEASURED] + [0] * len(MEASURED),
            ", ".join(f"{name}~ {leading[name].expr}" for name in MEASURED),
        ),
        equal(leading["U"].expr, 1 / (2 * ell)),
    )


# %% [markdown]
# ## The tower with orthogonal weights
#
# The paper measures correlators that level off and reads them as $a_0 + a_1\log\ell/\ell$.


# %%
def form(solved: Asymptotics) -> str:
    """The powers of the two largest terms, such as "1 + log(ell)/ell"."""
    bare = [ell**-t.exponent * log(ell) ** t.log for t in solved.terms[:2]]
    return " + ".join(str(each) for each in bare)


@claim("000", "§6.2 (conjecture)", "orthogonal correlators as a₀ + a₁ log ℓ/ℓ")
def conjecture() -> Verdict:
    r"""Tensor by tensor for tanh with all layers orthogonal, $\lambda_b = 1/\ell$, $\lambda_W = 1$.
    All are bounded, as the paper found. $\tilde S$ and $G^{\{1\}}/K$ alone have the conjectured
    form; $\tilde A$, $\tilde B$, $\tilde D$ and $\tilde U$ have $a_0 = 0$ and fall as $1/\ell$;
    $\tilde V$ has no logarithm at order $1/\ell$; $\tilde F$, $\tilde P$, $\tilde Q$, $\tilde R$
    and $\tilde T$ come with $\log^2\ell/\ell$, brought in by $\Theta = \frac32 -
    \frac5{24}\frac{\log^2\ell}\ell + \dots$."""
    found = {name: normalised(name, Orthogonal(), 2) for name in TOWER}
    leading = {name: found[name].terms[0] for name in MEASURED}
    next_orders = {name: (t.exponent, t.log) for name in found for t in found[name].terms[1:2]}
    bounded = [name for name in MEASURED if not leading[name].exponent]
    limits = [-2, -16 / (9 * ell), R(-2, 3), 64 / (27 * ell), 2 / ell, R(-1, 3), R(-2, 27)]
    limits += [R(-7, 27), R(1, 9), R(8, 243), 1 / (2 * ell)]
    described = both(
        equal([each.expr for each in leading.values()], limits, "leading terms"),
        equal(
            [power for name in ("G1", *bounded) for power in next_orders[name]],
            [1, 1, 1, 0, *[1, 2] * 4, 1, 1, 1, 2],
            f"powers of 1/ℓ and log ℓ in the next term of G1, {', '.join(bounded)}",
        ),
    )
    verdict = misprint(
        "; ".join(f"{name}: {form(each)}" for name, each in found.items()),
        "a_0 + a_1 log(ell)/ell",
        f"order by order in the derived recursions; each confronted with its flow below. "
        f"{described.detail}; the witness is the power of log ℓ that stands over ℓ in F̃",
        provided=described,
        witness=(1, next_orders["F"][1]),
    )
    tends = [
        {
            name: float((each.expr * ell**power).subs(ell, 1))
            for name, each in leading.items()
            if each.exponent == power
        }
        for power in (0, 1)
    ]
    table = "\n".join(f"{each.label} = {each.expr}" for each in found.values())
    figure = deep_figure(tower_table(Orthogonal()), tends)
    return replace(verdict, table=table, figures={"tower_deep": figure})


@claim("000", "§6.2 (mixed)", "the first layer changes no universal term")
def confronted() -> Verdict:
    """Eight terms of every tensor of the tower against the flow at layer 10000 of networks with
    all layers orthogonal, with a Gaussian first layer (mixed), and all Gaussian. The constants are
    those of the flow's layer 500, and the only difference between orthogonal and mixed."""
    derived, flowed = [], []
    for weights, first in ((Orthogonal(), None), (Orthogonal(), Gaussian()), (Gaussian(), None)):
        tensors = tower_flow(weights, first)
        tower = solved_tower(weights)
        at_500 = {name: values[500 - 1] for name, values in tensors.items()}
        constants = tower["V"].matched(at_500, 500, 5)
        for name in TOWER:
            derived.append(tower[name].evaluate(10_000, constants) / tensors[name][10_000 - 1])
            flowed.append(1)
    return close(derived, flowed, 4, "the ratio to the flow, 13 tensors, three ensembles")


@cache
def solved_tower(weights: WeightEnsemble) -> dict[str, Asymptotics]:
    """Eight terms of every tensor of the tower, from one system."""
    return together([recursion(name, weights) for name in TOWER], tanh, 8)


def tower_flow(
    weights: WeightEnsemble, first: WeightEnsemble | None = None, depth: int = 10_000
) -> dict[str, list[float]]:
    """The tower of a critical tanh network with one input, layers 1 … depth, as numbers."""
    table = tower_table(weights, first, depth)
    return {name: table[name].to_numpy().tolist() for name in FIRST_ORDER}


@cache
def tower_table(
    weights: WeightEnsemble, first: WeightEnsemble | None = None, depth: int = 10_000
) -> xarray.Dataset:
    """The tower of a critical tanh network with one input, layers 1 … depth: floats, of which
    thousands of layers leave seven digits."""
    net = Network(tanh, weights, first_weights=first, lambda_b=lambda layer: 1 / layer)
    return flow(net, INPUT, depth, FIRST_ORDER, seconds=0)


@claim("000", "§6.2 (saturation)", "saturation at a depth of about 20")
def saturation() -> Verdict:
    r"""The approach to a constant is by $\log^2\ell/\ell$, with no scale in it. Of the seven
    bounded tensors of the all-orthogonal network $\tilde V$, $\tilde F$, $\tilde P$ and $\tilde T$
    are within a tenth of their limits at layer 20; $\tilde Q$ and $\tilde R$ exceed them by 11 and
    13 %, and $\tilde S$ by a quarter. $\tilde A$, $\tilde B$ and $\tilde D$ are past their largest
    value and on their way to 0."""
    tensors = tower_flow(Orthogonal(), depth=30)

    def at(name: str, layer: int) -> float:
        kernel, tangent = (tensors[each][layer - 1] for each in ("K", "Theta"))
        scale = {"V": kernel**2, "F": kernel * tangent, "D": kernel * tangent}
        scale |= dict.fromkeys("RST", tangent**3 / kernel)
        return tensors[name][layer - 1] / scale.get(name, tangent**2)

    share = {
        name: at(name, 20) / float(normalised(name, Orthogonal(), 1).expr) for name in "VFPTQRS"
    }
    peaks = [max(range(1, 31), key=lambda layer: abs(at(name, layer))) for name in ("A", "B", "D")]
    shares = ", ".join(f"{name} {value:.3f}" for name, value in share.items())
    return misprint(
        "V, F, P and T are within a tenth of their limits at layer 20; Q, R and S are not",
        "the orthogonal correlators saturate at a depth of about 20",
        f"flow and limits; the share of its limit that each has at layer 20: {shares}; "
        "the witness is that of S, which saturated is 1 within a tenth",
        provided=both(
            observed([abs(share[name] - 1) < 0.1 for name in "VFPT"], "V, F, P and T within 10 %"),
            observed([abs(share[name] - 1) > 0.1 for name in "QRS"], "Q, R and S not"),
            observed([1 < peak < 20 for peak in peaks], f"Ã, B̃, D̃ are largest at {peaks}"),
        ),
        witness=(1, share["S"], 0.1),
    )


@claim("000", "§6.2 (noise)", "are A and D smaller than B and F at all depths?")
def noise() -> Verdict:
    r"""The paper finds them "consistently smaller". $\tilde D/\tilde F$ does go to zero, and up to
    layer 100 the flow has both ratios below 1; but $\tilde A/\tilde B \to \frac{32}{27}$ in the
    end, and is above 1 from about layer 600 on."""
    limits = [
        (normalised(noisy, Orthogonal(), 1).expr / normalised(other, Orthogonal(), 1).expr).limit(
            ell, sympy.oo
        )
        for noisy, other in ("DF", "AB")
    ]
    tensors = tower_flow(Orthogonal(), depth=2000)
    D, A = (
        [abs(a / b) for a, b in zip(tensors[noisy], tensors[other], strict=True) if b]
        for noisy, other in ("DF", "AB")
    )
    crossing = next(layer for layer, ratio in enumerate(A, start=2) if ratio > 1)
    provided = both(
        equal(limits, [0, R(32, 27)], "D/F and A/B at ℓ → ∞"),
        observed(max(*D, *A[:99]) < 1, "both below 1 up to layer 100, in the flow"),
    )
    return misprint(
        f"|D/F| < 1, and |A/B| < 1 up to layer {crossing - 1}",
        "A and D are consistently smaller than B and F at all depths",
        f"{provided.detail}; A > B from layer {crossing} on; the witness is A/B at ℓ → ∞, as "
        "printed 1 at most",
        provided=provided,
        witness=(1, R(32, 27)),
    )


# %% [markdown]
# ## When the expansion in $1/n$ breaks down
#
# The same engine gives each tensor's next order. With Gaussian weights it grows by one more power
# of $\ell/n$, so that depth and width stay tied together. With orthogonal weights it does not.


# %%
@cache
def following(name: str) -> Term:
    """The leading term of a tensor's next order in 1/n, orthogonal tanh networks, dimensionless."""
    target = named(name)
    made = recursion(
        list(target.fields), Orthogonal(), pairing=target.pairing, order=target.order + 1
    )
    return asymptotics(made, tanh, 1).normalised.terms[0]


@claim("000", "§6.2 (cutoff)", "orthogonal networks have no L/n cutoff, in six tensors")
def cutoff() -> Verdict:
    r"""At the next order in $1/n$ too six dimensionless tensors of the orthogonal tanh network,
    $G^{\{1\}}$, $V$, $\Theta$, $F$, $D$ and $B$, stay bounded at any depth: $V_2/K^2 \to -4$, and
    so on. ($\tilde B$ and $\tilde D$ themselves fall as $1/\ell$ while their next order does not,
    so that there $1/n$ corrections win from $L/n = \frac92$ and $\frac43$ on: small against
    $\Theta^2$ and $K\Theta$ all the same.) With Gaussian weights the next order of $V$ is as large
    as $V$ at $L/n = \frac{15}7$."""
    next_order = {name: following(name) for name in ("G1", "V", "Theta", "F", "D", "B")}
    ratios = [aspect_ratio(breakdown(name, tanh, weights)) for name, weights in (
        ("V", Orthogonal()), ("F", Orthogonal()), ("B", Orthogonal()), ("D", Orthogonal()),
        ("V", Gaussian()), ("K", Gaussian()),
    )]  # fmt: skip
    return both(
        equal([ratio for ratio in ratios if ratio != sympy.oo], [R(9, 2), R(4, 3), R(15, 7), 3]),
        equal(int(ratios[:2] != [sympy.oo, sympy.oo]), 0, "V and F: no L/n at all"),
        equal(
            [int(bool(term.exponent < 0)) for term in next_order.values()],
            [0] * len(next_order),
            ", ".join(f"{name}: {term.expr}" for name, term in next_order.items()),
        ),
    )


@claim("000", "§6.2 (widths)", "about the same asymptotic values at n = 20 and n = 50")
def two_widths() -> Verdict:
    r"""The limits themselves know no width; the next order in 1/n moves $\tilde V$ to
    $-2-\frac4n$ and $\tilde F$ to $-\frac23-\frac4{9n}$. So between the widths of Figures 3 and 2
    the values differ by less than a tenth, and from the limit by less than a fifth."""
    apart, off, told = [], [], []
    for name in ("V", "F"):
        limit, further = normalised(name, Orthogonal(), 1).expr, following(name)
        at_20, at_50 = (limit + further.expr / width for width in (20, 50))
        apart.append(abs(at_20 / at_50 - 1) < R(1, 10))
        off.append(abs(at_20 / limit - 1) < R(1, 5) and not further.exponent and not further.log)
        told.append(f"{name} {limit} + ({further.expr})/n")
    return equal([int(bool(each)) for each in (*apart, *off)], [1] * 4, "; ".join(told))


@claim("000", "§5.3 (deviations)", "deviations of order ℓ²/n², largest for ReLU")
def deviations() -> Verdict:
    r"""$V_2$, by which $V/n$ is off at order $1/n^2$, for linear, ReLU and tanh, over $K^2$. Under
    Gaussian weights all go like $\ell^2$, with coefficients $2$, $\frac{25}2$ and $\frac{14}{45}$;
    under orthogonal ones ReLU's alone, with $\frac92$, and the other two are bounded. ReLU's is
    the largest in either ensemble."""
    growth = []
    for weights, each in product(
        (Gaussian(), Orthogonal()), (activations.linear, activations.relu, tanh)
    ):
        solved = asymptotics(recursion("V2", weights), each, 1)
        whole = solved.normalised.expr if each is tanh else solved.at_inputs() / K**2
        growth.append(sympy.limit(whole / ell**2, ell, sympy.oo))
    return equal(growth, [2, R(25, 2), R(-14, 45), 0, R(9, 2), 0], "V_2/(ℓK)² as ℓ → ∞")


# %% [markdown]
# ## Scale-invariant networks: exact at every layer


# %%
@claim("000", "5.19 (every layer)", "deep ReLU networks, exactly in ℓ")
def scale_invariant() -> Verdict:
    r"""Where the kernel does not move the solution is a polynomial in $\ell$:
    $\tilde V = 3\ell - 5$, with a Gaussian first layer $3\ell - 3$; the six-point vertex and the
    next order of $V$ go like $\ell^2$."""
    solved = deep("V", Orthogonal(), activations.relu)
    six = deep("U6", Orthogonal(), activations.relu).at_inputs()
    further = deep("V2", Orthogonal(), activations.relu).at_inputs()
    return equal(
        [
            solved.at_inputs() / K**2,
            solved.at_inputs(Gaussian()) / K**2,
            six / K**3,
            further / K**2,
        ],
        [3 * ell - 5, 3 * ell - 3, 27 * ell**2 - 117 * ell + 106, (9 * ell**2 - 51 * ell + 50) / 2],
    )


# %% [markdown]
# ## The depth with the most information (§5.5, §7.2)
#
# Neurons of a layer share the fluctuation of its length. To order $v^3$ in $v = V/(nK^2)$ the
# information between two groups of them is $\frac{N_1N_2}{8}(v^2 - \frac{3N+20}{6}v^3)$, largest
# at $v = 4/(3N+20)$; Gaussian weights reach it at a depth proportional to the width, orthogonal
# ones at none.


# %%
@claim("000", "§7.2 (depth)", "the optimal aspect ratio with ten outputs")
def optimal_depth() -> Verdict:
    """Depths 3.6 at width 30 and 12 at width 100, and none under orthogonal weights."""
    ratio = optimal_aspect_ratio(tanh, Gaussian(), outputs=10)
    without = optimal_aspect_ratio(tanh, Orthogonal(), outputs=10) is None
    depths = [sympy.nan if ratio is None else width * ratio for width in (30, 100)]
    return equal([*depths, int(without)], [R(18, 5), 12, 1])


@claim("000", "§5.5 (synergy)", "V < 0: information is stored synergistically")
def synergy() -> Verdict:
    r"""The information that three groups of neurons of a layer have in common, $I(A;B) + I(A;C) -
    I(A;BC)$, is $\frac{N_1N_2N_3}8v^3$ at leading order in $v = V/(nK^2)$: redundant for $V > 0$,
    synergistic for $V < 0$, as it is in deep orthogonal tanh networks. Under Gaussian weights it
    becomes positive: $V$ is 0 at the first layer and positive afterwards."""
    a, b, c = sympy.symbols("N_1:4", positive=True)
    common = mutual_information(a, b) + mutual_information(a, c) - mutual_information(a, b + c)
    signs = []
    for weights in (Gaussian(), Orthogonal()):
        deep_sign = sympy.sign(sympy.limit(normalised("V", weights, 1).expr, ell, sympy.oo))
        first = recursion("V", weights, first_layer=True).single_input().expr
        signs += [deep_sign, sympy.sign(first.subs({symbols.K0: 1, symbols.C_W: 1}))]
    return both(
        equal(common, a * b * c * v**3 / 8, "three groups, any sizes"),
        equal(signs, [1, 0, -1, -1], "sign of V at depth and at layer 1, Gaussian and orthogonal"),
    )
