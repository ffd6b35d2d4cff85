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
from sklearn.datasets import load_digits

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, sampled
from derivations.day_kahn_roberts import figures
from derivations.gaussian_moments import evaluate, wick
from derivations.section import show
from derive import Network, activations
from derive.gaussian.brackets import Component
from derive.recursions import recursion
from derive.symbols import C_W as _C_W
from numeric import compare, flow, simulate
from numeric.arrays import Array
from numeric.tables import layout


@claim("000", "Figure 1", "Ṽ by layer, both panels", sampled=True)
def figure_one(sampling: Sampling) -> Verdict:
    """1000 networks of width 100, one input uniform on $[0, 1]^{100}$: linear, ReLU and tanh;
    Gaussian, orthogonal and mixed; depths 10 and 100.

    Dashed lines are exact at $n = 100$. tanh is compared at widths 100, 200, 400 extrapolated in
    $1/n$.
    """
    inputs = np.random.default_rng(sampling.seed).random(100)
    ensembles = figures.Ensembles(seed=sampling.seed, false_alarms=sampling.false_alarms)
    figure, curves = figures.figure_one(inputs, ensembles)
    return sampled(
        [curve.comparison for curve in curves],
        "scale-invariant: exact at n = 100; tanh: n = 100, 200, 400 extrapolated",
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
    """Four inputs uniform on $[0, 1]^{100}$; linear and tanh networks of the three kinds, ten
    layers, all 256 components of $V$; widths 100, 200, 400 extrapolated in $1/n$."""
    inputs = np.random.default_rng(sampling.seed).random((4, 100))
    depth, widths, draws = 10, (100, 200, 400), 2000
    comparisons, labels, drawn = [], [], {}
    for activation, start in (
        (activations.linear, "Gaussian"),
        (activations.linear, "orthogonal"),
        (activations.linear, "mixed"),
        (activations.tanh, "Gaussian"),
        (activations.tanh, "orthogonal"),
        (activations.tanh, "mixed"),
    ):
        net = figures.critical_network(activation, start)
        if activation.is_linear:
            derived = linear_flow(net, inputs, depth)
        else:
            derived = flow(net, inputs, depth, ["K", "V"])
        ensemble = [
            simulate(net, inputs, n, depth, draws, tensors=["V"], seed=sampling.seed)
            for n in widths
        ]
        comparisons.append(compare(derived, ensemble, sampling.false_alarms / 6))
        labels.append(f"{activation}, {start}")
        drawn[f"inputs_{activation}_{start}"] = figures.many_inputs(labels[-1], derived, ensemble)
    return sampled(comparisons, "256 components, 10 layers, 6 networks", drawn, labels)


@claim("000", "3.8 (digits)", "V of four digit images, every component", sampled=True)
def digits(sampling: Sampling) -> Verdict:
    """Four images of handwritten digits, 8 by 8 (scikit-learn's), scaled to mean $K = 1$; mixed
    tanh networks of width 64, 128 and 256, extrapolated in $1/n$."""
    pixels = load_digits().data[:4]
    inputs = pixels / np.sqrt(np.mean(pixels**2))
    net = figures.critical_network(activations.tanh, "mixed")
    derived = flow(net, inputs, 10, ["K", "V"])
    ensemble = [
        simulate(net, inputs, n, 10, 4000, tensors=["K", "V"], seed=sampling.seed)
        for n in (64, 128, 256)
    ]
    comparison = compare(derived, ensemble, sampling.false_alarms)
    figure = figures.many_inputs("digits: V / KK", derived, ensemble)
    return sampled(comparison, "K and V, 10 layers, n = 64, 128, 256", {"digits": figure})


# %%
if __name__ == "__main__":
    show()
