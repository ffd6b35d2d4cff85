# %% [markdown]
# # Before training
#
# §7.3 and appendix B train networks, which the book does not. What they say of epoch 0 needs no
# training: the tangent kernel within a class and between two outputs, gradients that vanish or
# explode away from $C_W = 1$, and the learning rates of ReLU networks.

# %%
"""Networks at initialization in the training experiments of source 000 (Figures 8, 9, 15
to 17)."""

from __future__ import annotations

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, both, claim, enclosed, equal, observed, sampled
from derivations.day_kahn_roberts.measurements import extrapolated, network
from derivations.day_kahn_roberts.tower_figures import Measured, measure, tower_figure
from derivations.pennington.propagation import gradient_growth
from derivations.training.data import digits
from derive import Gaussian, Network, Orthogonal, activations, propagation
from derive.gaussian.brackets import Average
from derive.gaussian.oracle import gaussian_average
from derive.recursions import recursion
from derive.symbols import C_W
from numeric.arrays import Array

WIDTH, LAYERS, CLASS = 30, 6, 6
STARTS = (("Gaussian", Gaussian(1)), ("orthogonal", Orthogonal(1)))


def images() -> Array:
    """The first two sixes of scikit-learn's digits, 8 by 8, each of mean square 1."""
    pixels = digits().of_class(CLASS).pixels[:2]
    return np.asarray(pixels / np.sqrt((pixels**2).mean(axis=1, keepdims=True)))


def _measured(
    inputs: Array, tensor: str, draws: dict[int, int], sampling: Sampling
) -> list[Measured]:
    """One tensor of both networks, n_0/n kept."""
    return [
        measure(label, network(weights), inputs, LAYERS, [tensor], WIDTH, draws, sampling)
        for label, weights in STARTS
    ]


@claim(
    "000", "Figure 8 (initial)", "the NTK between two inputs of a class, untrained", sampled=True
)
def within_a_class(sampling: Sampling) -> Verdict:
    r"""$\hat H_{ii;\alpha\beta}$ at epoch 0, tanh networks of five hidden layers and $n = 30$ with
    the learning rates (6.17), two digits of class 6 (scikit-learn's, for MNIST): its mean is
    $\Theta_{\alpha\beta}$, the same for Gaussian and orthogonal weights; sampled at $n = 30$, 60
    and 120 and extrapolated in $1/n$ in all six layers."""
    measured = _measured(images(), "Theta", {1: 400, 2: 400, 4: 400}, sampling)
    limits = [each.flowed["Theta"].to_numpy() for each in measured]
    ks = (1, 2, 4)
    return both(
        sampled(
            [extrapolated(each, ks, sampling.false_alarms / 2, ["Theta"]) for each in measured],
            "n = 30, 60, 120 extrapolated",
            labels=[each.label for each in measured],
        ),
        observed(
            abs(limits[0] / limits[1] - 1).max() < 1e-12,
            f"Θ of both networks is the same; at layer 6 {limits[0][-1, 0, 1]:.4g}",
        ),
    )


@claim("000", "Figure 9 (initial)", "the NTK between two outputs, untrained", sampled=True)
def between_outputs(sampling: Sampling) -> Verdict:
    r"""$\hat H_{ij;\alpha\alpha}$, $i \ne j$, at epoch 0 is a finite-width effect: by (6.7) its
    mean vanishes and its variance is $B_{\alpha\alpha\alpha\alpha}/n$, which only the pairing
    $(13)(24)$ gives. $B$ of the networks of Figure 8 with one digit, at $n = 30$, 60 and 240,
    extrapolated."""
    measured = _measured(images()[0], "B", {1: 4000, 2: 4000, 8: 6000}, sampling)
    ks = (1, 2, 8)
    sizes = ", ".join(
        f"{each.label} {float(each.flowed['B'][-1] / WIDTH) ** 0.5:.3g}" for each in measured
    )
    return sampled(
        [extrapolated(each, ks, sampling.false_alarms / 2, ["B"]) for each in measured],
        f"√(B/n) at layer 6, n = 30: {sizes}",
        {"figure9-initial": tower_figure(measured, [WIDTH, 8 * WIDTH])},
        [each.label for each in measured],
    )


WEIGHTS = ("0.8", "0.95", "1.05", "1.5", "4")
"""C_W on both sides of 1; the text does not give the figures' own."""


@claim("000", "Figures 15, 16 (initial)", "gradients vanish below C_W = 1 and explode above it")
def gradients() -> Verdict:
    r"""Going back a layer, squared gradients are multiplied by $\chi_\perp = C_W\langle\sigma'^2
    \rangle_K$, the same for Gaussian and orthogonal weights by the engine's recursion of the
    Jacobian's Gram matrix. For tanh without biases $K$ falls to 0 where $C_W \le 1$, and
    $\chi_\perp = C_W$ there: $C_W^L$ vanishes. Above 1 it comes to rest at a $K^* > 0$, where
    $\chi_\perp > 1$, by enclosed averages at three $C_W$."""
    slope = activations.tanh.derivative()
    ordered, chaotic = [], []
    for weight in WEIGHTS:
        point = propagation.depth_scales(Network(activations.tanh, Gaussian(weight)))
        if point.q:
            found = gaussian_average(slope**2, point.q, 20)
            chaotic.append(float(weight) * (found.value - found.radius) > 1)
        else:
            ordered.append(sympy.Rational(weight) * slope.subs(activations.z, 0) ** 2)
    low = [sympy.Rational(weight) for weight in WEIGHTS if float(weight) < 1]
    return both(
        equal(
            [gradient_growth(weights) for _, weights in STARTS],
            [C_W * Average(((1, 1), (1, 1)))] * 2,
            "χ_⊥ of both ensembles",
        ),
        equal(ordered, low, "χ_⊥ at K* = 0, for each C_W below 1"),
        enclosed(chaotic, "χ_⊥ > 1 at K*", "C_W above 1"),
    )


@claim("000", "Figure 17 (initial)", "learning rates over L for ReLU")
def equal_contributions() -> Verdict:
    r"""At $C_W = 2$ a layer takes $\Theta$ of a ReLU network to $\Theta + \lambda_b +
    \lambda_WK/2$ and leaves $K$ as it is: every layer contributes alike with rates that do not
    depend on depth, and $\Theta$ of the last does not grow with it where they are over $L$."""
    lambda_b, lambda_W, theta, K, depth = sympy.symbols(
        "lambda_b lambda_W Theta K L", positive=True
    )
    relu = activations.relu
    found: list[sympy.Expr] = []
    kernels: list[sympy.Expr] = []
    for _, weights in STARTS:
        for name, to in (("Theta", found), ("K", kernels)):
            step = recursion(name, weights).single_input().specialise(relu).expr
            known = {symbol: symbol.name for symbol in step.free_symbols}
            values = {"lambda_b": lambda_b, "lambda_W": lambda_W, "Theta": theta, "K": K}
            given = {**values, "C_W": 2, "C_b": 0}
            to.append(step.subs({symbol: given[called] for symbol, called in known.items()}))
    added = [each - theta for each in found]
    whole = depth * added[0].subs({lambda_b: lambda_b / depth, lambda_W: lambda_W / depth})
    share = lambda_b + lambda_W * K / 2
    return both(
        equal(added, [share, share], "what a layer adds to Θ, both ensembles"),
        equal(kernels, [K, K], "K at C_W = 2"),
        equal(sympy.diff(whole, depth), 0, "Θ of L such layers, with rates over L"),
    )
