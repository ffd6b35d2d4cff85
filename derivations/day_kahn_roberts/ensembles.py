# %% [markdown]
# # The ensembles
#
# What was derived, against simulated networks. One input first: Figure 1 of the paper, where the
# scale-invariant networks are compared with what is exact at $n = 100$ and tanh is extrapolated in
# $1/n$. Then four inputs, in every component of $V$: random ones as in the paper's appendix, and
# four images of handwritten digits.

# %%
"""Theory against sampled ensembles (source 000, Figure 1, eq. 3.8 and appendix A.1)."""

from __future__ import annotations

import numpy as np
import sympy
import xarray

from derivations.claims import Sampling, Verdict, both, claim, observed, sampled
from derivations.day_kahn_roberts import figures
from derivations.moments.gaussian import evaluate, wick
from derivations.training import data
from derive import Network, activations
from derive.gaussian.brackets import Component
from derive.recursions import recursion
from derive.symbols import C_W as _C_W
from numeric import compare, flow, simulate
from numeric.arrays import Array
from numeric.tables import layout

WIDE = 10**9
"""A width at which what is exact is the limit, to nine digits."""


@claim("000", "Figure 1", "Ṽ by layer, both panels", sampled=True)
def figure_one(sampling: Sampling) -> Verdict:
    """Networks of width 100, one input uniform on $[0, 1]^{100}$: linear, ReLU and tanh; Gaussian,
    orthogonal and mixed; depths 10 and 100.

    Dashed lines are exact at $n = 100$. tanh is compared at widths 100 and 400 extrapolated in
    $1/n$.
    """
    inputs = np.random.default_rng(sampling.seed).random(100)
    figure, curves = figures.figure_one(inputs, sampling)
    return sampled(
        [curve.comparison for curve in curves],
        "scale-invariant: exact at n = 100; tanh: n = 100, 400 extrapolated",
        {"figure1": figure},
        labels=[curve.label for curve in curves],
    )


# %% [markdown]
# ## Several inputs
#
# Linear networks have a closed theory: their derived step adds the same to $V$ at every layer. A
# mixed tanh network follows the flow.


# %%
def linear_flow(net: Network, inputs: Array, depth: int) -> xarray.Dataset:
    """K and V of a critical linear network, by its derived first layer and step."""
    kernel = sympy.Matrix(4, 4, lambda a, b: Component("K", (min(a, b) + 1, max(a, b) + 1)))
    step = evaluate(
        recursion("V", net.weights_at(2)).expr, activations.linear, kernel, wick(kernel)
    )
    first = recursion("V", net.weights_at(1), first_layer=True).expr
    added = step.subs(_C_W, 1) - Component("V", (1, 2, 3, 4))
    K = inputs @ inputs.T / inputs.shape[1]
    start, gain = (_on_samples(sympy.expand(each.subs(_C_W, 1)), K) for each in (first, added))
    V = start + gain * np.arange(depth).reshape(-1, 1, 1, 1, 1)
    return layout.table(range(1, depth + 1), K=np.broadcast_to(K, (depth, *K.shape)), V=V)


def _on_samples(expression: sympy.Expr, K: Array) -> Array:
    """An expression in K_{ab} with a, b among 1 … 4, for all samples in the four places at once."""
    kernels = sorted(expression.atoms(Component), key=str)
    arrays = []
    for kernel in kernels:
        places = [int(place) - 1 for place in kernel.args[1].args]
        arrays.append(np.expand_dims(K, tuple(set(range(4)) - set(places))))
    names = [sympy.Dummy() for _ in kernels]
    function = sympy.lambdify(names, expression.xreplace(dict(zip(kernels, names, strict=True))))
    return np.asarray(np.broadcast_to(function(*arrays), (len(K),) * 4), float)


@claim("000", "A.1–A.3", "V of four random inputs, every component", sampled=True)
def random_inputs(sampling: Sampling) -> Verdict:
    r"""Four inputs uniform on $[0, 1]^{100}$; linear and tanh networks of the three kinds, ten
    layers, all 256 components of $V$, with the networks of Figures 10–12. Linear ones meet what is
    exact at $n = 100$, which tends to the derived first layer and step; tanh is extrapolated."""
    comparisons, labels, drawn = [], [], {}
    limits, derived = [], []
    for kind in ("linear", "tanh"):
        for start in figures.INITIALISATIONS:
            each = figures.vertices(kind, start, sampling)
            labels.append(f"{kind}, {start}")
            comparisons.append(each.compared(sampling.false_alarms / 6))
            drawn[f"inputs_{kind}_{start}"] = each.figure(labels[-1])
            if kind == "linear":
                wide = figures.exact_linear_flow(each.net, each.inputs, each.depth, WIDE)
                limits += wide["V"].to_numpy().ravel().tolist()
                flowed = linear_flow(each.net, each.inputs, each.depth)
                derived += flowed["V"].to_numpy().ravel().tolist()
    largest = max(map(abs, derived))
    difference = max(abs(a - b) for a, b in zip(limits, derived, strict=True)) / largest
    return both(
        sampled(
            comparisons,
            f"256 components, 10 layers, 6 networks; {figures.EXTRAPOLATED}",
            drawn,
            labels,
        ),
        observed(difference < 1e-6, f"linear at n = 10⁹: within {difference:.0e} of the limit"),
    )


@claim("000", "3.8 (digits)", "V of four digit images, every component", sampled=True)
def digits(sampling: Sampling) -> Verdict:
    """Four images of handwritten digits, 8 by 8 (scikit-learn's), scaled to mean $K = 1$; mixed
    tanh networks of width 64 and 256, extrapolated in $1/n$."""
    pixels = data.digits().pixels[:4]
    inputs = pixels / np.sqrt(np.mean(pixels**2))
    net = figures.critical_network(activations.tanh, "mixed")
    derived = flow(net, inputs, 10, ["K", "V"])
    ensemble = [
        simulate(net, inputs, n, 10, draws, tensors=["K", "V"], seed=sampling.seed)
        for n, draws in ((64, 1200), (256, 3600))
    ]
    comparison = compare(derived, ensemble, sampling.false_alarms)
    figure = figures.many_inputs("digits: V / KK", derived, ensemble)
    return sampled(comparison, "K and V, 10 layers, n = 64, 256", {"digits": figure})
