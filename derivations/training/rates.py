# %% [markdown]
# # Learning rates by depth
#
# Source 000 asks for a "theoretically-optimal global learning rate", and how it is related to the
# $\eta = O(1/L)$ and the training time $\tau = O(\sqrt L)$ of its reference [20]. Descent starts
# as $z - y \to (1 - \eta H)(z - y)$: it is stable below $2/\lambda_{\max}$ of the tangent kernel on
# the training set. At infinite width $\lambda_{\max}$ is that of $\Theta$, the same for both
# weights; how much it differs from network to network is $A$ and $B$.

# %%
"""The stable learning rate by depth, its spread over networks, and the time that descent takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, observed
from derivations.pennington.figures import critical_network
from derivations.training import descents
from derivations.training.deep import TANH, WEIGHTS, leading
from derive import Network, Orthogonal, activations, recursion
from derive.symbols import K, Symbol, ell
from numeric import flow
from numeric.training import learning_rate

R = sympy.Rational
SEED, DEPTHS = 0, (16, 64, 256)
DEEP = 400
INPUTS, SIZE = 3, 6
ETA, IMAGES = 10, 6
"""Source 000's η, and the digits that stand for its training set."""


@claim("training", "6", "η ~ 1/L where the kernel stays; with (6.17) the same η at every depth")
def stable() -> Verdict:
    r"""One training point: descent is stable below $2/\Theta$. At criticality of tanh with (6.17)
    $\Theta \to \frac32$, so that $\eta < \frac43$ in networks of any large depth. Where $K$ stays,
    as it does for ReLU, $\Theta = \left(\lambda_b + \frac K2\lambda_W\right)\ell + \dots$ and so
    $\eta$ falls as $1/\ell$, the prescription of [20]."""
    rate = Symbol("lambda_b", positive=True)
    weight = Symbol("lambda_W", positive=True)
    settles = recursion("Theta").asymptotics(TANH, 1, lambda_b=1 / ell, lambda_W=1).terms[0]
    grows = recursion("Theta").asymptotics("relu", 1, lambda_b=rate, lambda_W=weight).terms[0]
    return equal(
        [settles.exponent, settles.coefficient, grows.exponent, grows.coefficient],
        [0, R(3, 2), -1, rate + weight * K / 2],
        "powers of 1/ℓ, and coefficients",
    )


@claim("training", "7", "Gaussian networks differ in their stable rate by L/n, orthogonal do not")
def spread() -> Verdict:
    r"""Tanh with (6.17), one training point: $n$ times the relative variance of the stable rate is
    $(A + 2B)/\Theta^2 \to \frac{178}{243}\ell$ with Gaussian weights; with orthogonal ones it has
    no such term and falls as $1/\ell$. `learning_rate` at 400 layers is that, to what falls off."""
    coefficients, numbers = [], []
    for weights in WEIGHTS:
        parts = zip(leading("A", weights, 1 / ell), leading("B", weights, 1 / ell), strict=True)
        coefficients += [a + 2 * b for a, b in parts]
        net = Network(TANH, weights, lambda_b=1 / ell)
        table = learning_rate(net, [1.0, 0.5], DEEP)
        numbers.append((table["stable_variance"] / table["stable"] ** 2).to_numpy())
    gaussian, orthogonal = numbers
    half = DEEP // 2
    slope = 2 * (gaussian[DEEP - 1] - gaussian[half - 1]) / DEEP
    falls = orthogonal[DEEP - 1] / orthogonal[half - 1]
    return both(
        equal(coefficients, [R(178, 243), 0, 0, 0], "A + 2B over Θ²: coefficients of ℓ and of 1"),
        close([slope, falls], [178 / 243, 0.5], 1, "the slope, and the ratio from 200 to 400"),
    )


@claim("training", "8", "τ ~ √L is not in the tangent kernel's condition number")
def shrinking() -> Verdict:
    r"""At the fastest rate the slowest direction shrinks by e in $1/\log\frac{\kappa + 1}{\kappa -
    1}$ steps, $\kappa$ the condition number of $\Theta$ on the training set, the same for both
    weights. Three random inputs, tanh with (6.17), $\mathrm{erf}(\sqrt\pi z/2)$ at
    $q^* = \frac1{10}$ as in [20], and ReLU: from 16 to 256 layers the time changes as $L^a$ with
    $a < \frac18$ for each, and falls for the last two. So the $\sqrt L$ of [20] is not of the
    kernel at initialization."""
    inputs = np.random.default_rng(SEED).standard_normal((INPUTS, SIZE))
    nets = {
        "tanh": Network(TANH, Orthogonal(1), lambda_b=1 / ell),
        "erf": critical_network(activations.erf_unit_slope, Orthogonal(), R(1, 10)),
        "ReLU": Network(activations.relu, Orthogonal(2)),
    }
    powers, told = [], []
    for name, net in nets.items():
        times = slowest(net, inputs, DEPTHS)
        powers.append(math.log(times[-1] / times[0]) / math.log(DEPTHS[-1] / DEPTHS[0]))
        told.append(f"{name} {', '.join(f'{each:.2f}' for each in times)}: L^{powers[-1]:.2f}")
    detail = f"steps at {', '.join(map(str, DEPTHS))} layers: {'; '.join(told)}"
    return observed(
        [*(each < 1 / 8 for each in powers), *(each < 0 for each in powers[1:])], detail
    )


def slowest(net: Network, inputs: np.ndarray, depths: Sequence[int]) -> list[float]:
    """Steps in which the slowest direction shrinks by e at the fastest rate, by depth."""
    theta = flow(net, inputs, max(depths), "Theta")["Theta"].to_numpy()
    found = []
    for depth in depths:
        values = np.linalg.eigvalsh(theta[depth - 1])
        found.append(1 / math.log((values[-1] + values[0]) / (values[-1] - values[0])))
    return found


@claim("training", "9", "000's η = 10 is at the edge of stability, at every depth")
def edge() -> Verdict:
    r"""Source 000 takes $\eta = 10$ for a loss that is a mean over images and outputs, "small
    enough to prevent divergences", and sees the oscillations of the "edge of stability". Of 6
    standardised digits in place of its images, tanh with (6.17): the largest stable rate at
    infinite width is between 6.6 and 7.8 at depths 2 to 40, so that $\eta = 10$ is beyond it, by
    less than a factor of 1.6. ($\lambda_{\max}$ is about the sum of a row of $\Theta$, so that this
    depends on the kind of images more than on their number.)"""
    images = descents.split("digits", (IMAGES, 1, 0), 0).training
    net = Network(TANH, Orthogonal(1), lambda_b=1 / ell)
    depths, outputs = (2, 5, 10, 20, 40), images.targets.shape[1]
    theta = flow(net, images.pixels, max(depths), "Theta")["Theta"].to_numpy()
    rates = [IMAGES * outputs / np.linalg.eigvalsh(theta[depth - 1])[-1] for depth in depths]
    told = ", ".join(f"{rate:.2f} at {depth}" for rate, depth in zip(rates, depths, strict=True))
    return observed(
        [6.6 < rate < 7.8 and 1.6 * rate > ETA for rate in rates],
        f"largest stable η: {told} layers",
    )
