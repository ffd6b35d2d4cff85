# %% [markdown]
# # Deep networks, trained on one point
#
# Source 000 leaves open "whether orthogonal networks exhibit reduced variance" once they are
# trained. With one training point all is in closed form: descent multiplies what is left of
# $y - z$ by $f = e^{-\Theta\tau}$, and at order $1/n$ its mean, its spread and the tangent kernel
# follow from $A$ … $U$, whose growth with depth is known exactly.

# %%
"""The kernel's change and the spread of the residual, Gaussian and orthogonal, at large depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, claim, equal, observed
from derive import Gaussian, Network, Orthogonal, WeightEnsemble, recursion, training
from derive.activations.functions import as_activation
from derive.symbols import K, Symbol, ell, tensor
from derive.work.caches import cache
from numeric import flow as tensors_of
from numeric.training import flow, simulate

R = sympy.Rational
THETA = tensor("Theta")
LEFT = Symbol("f", positive=True)
"""The remaining factor of y − z at infinite width, e^{−Θτ}."""
RATIO = Symbol("r", positive=True)
"""y²/K, the square of the target over the variance at initialization."""
TANH = as_activation("tanh")
WEIGHTS = Gaussian(1), Orthogonal(1)
DEPTHS = (8, 16, 32)
NARROW, NETWORKS = 8, {2: 1200, 4: 1000, 8: 300}
"""A width, and how many networks are trained at each depth."""
FAR = 100.0
"""A target far from what networks begin with."""
SIZES: Mapping[str, sympy.Expr] = {
    **dict.fromkeys("ABPQ", THETA**2),
    **dict.fromkeys("DF", K * THETA),
    **dict.fromkeys("RSTU", THETA**3 / K),
    "G1": K,
    "Theta1": THETA,
}
"""The factor that makes each tensor dimensionless."""


@cache
def leading(name: str, weights: WeightEnsemble, bias: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Coefficients of ℓ and of 1 of a dimensionless tensor of critical tanh networks."""
    found = recursion(name, weights).asymptotics(
        "tanh", 1, lambda_b=bias, lambda_W=sympy.Integer(1)
    )
    term = found.normalised.terms[0]
    powers = {-1: 0, 0: 1}
    parts = [sympy.S.Zero, sympy.S.Zero]
    if term.exponent in powers and not term.log:
        parts[powers[term.exponent]] = term.coefficient
    return parts[0], parts[1]


def at_depth(
    formula: sympy.Expr, weights: WeightEnsemble, bias: sympy.Expr = 1 / ell
) -> tuple[sympy.Expr, sympy.Expr]:
    """A formula of a single training point in units of K, Θ: its coefficients of ℓ and of 1.

    A coefficient of 1 is right where there is none of ℓ.
    """
    found = []
    for place in range(2):
        given = {
            tensor(name): leading(name, weights, bias)[place] * size for name, size in SIZES.items()
        }
        value = formula.xreplace(given).subs(training.target, sympy.sqrt(RATIO * K))
        left = value.subs(training.time, -sympy.log(LEFT) / THETA)
        found.append(sympy.simplify(sympy.expand(left)))
    return found[0], found[1]


def change(
    weights: WeightEnsemble, bias: sympy.Expr | int, rate: int | Callable[[int], float], depth: int
) -> float:
    """n (H(∞) − H(0))/Θ over y²/K of a tanh network at its last layer, y² ≫ K."""
    net = Network(TANH, weights, lambda_b=bias, lambda_W=rate)
    table = flow(net, [1.0, 0.5], FAR, None, depth, 0, steps=[0, math.inf])
    start, stop = (table.sel(step=step) for step in (0, math.inf))
    size = FAR**2 * start["ntk"].item() / start["covariance"].item()
    return float((stop["ntk1"] - start["ntk1"]).item() / size)


def end(weights: WeightEnsemble, depth: int) -> tuple[float, float]:
    """The coefficients of 1/n of mean and variance at an unseen input, trained to the end."""
    net = Network(TANH, weights, lambda_b=1 / ell)
    inputs, targets = [[1.0, 0.5], [-0.5, 1.0]], [0.7, -0.2]
    table = flow(net, inputs, targets, [0.3, 0.3], depth, 0, steps=math.inf).isel(step=-1)
    return float(table["prediction1"][-1]), float(table["covariance1"][-1, -1])


def moved(bias: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """n (H(∞) − H(0))/Θ: its coefficient of ℓ for Gaussian weights, those of ℓ and 1 for orthogonal
    ones."""
    change = (training.ntk().gradient_flow() - tensor("Theta1")) / THETA
    end = [at_depth(change, weights, bias) for weights in (Gaussian(1), Orthogonal(1))]
    (grows, _), (none, stays) = ([each.subs(LEFT, 0) for each in pair] for pair in end)
    return sympy.expand(grows), none, sympy.expand(stays)


# %% [markdown]
# ## How far features move


# %%
@claim("training", "1", "the tangent kernel's change grows with depth for Gaussian weights alone")
def kernel_moves() -> Verdict:
    r"""Critical tanh networks, $\lambda_b = 1/\ell$, $\lambda_W = 1$ (000, 6.17), trained to the
    end: $(H(\infty) - H(0))/\Theta \to \frac1n\left[\frac13 - \frac18\left(1 +
    \frac{y^2}K\right)\right]\ell$ with Gaussian weights, and $\frac1n\left[\frac{26}{27} -
    \frac{119}{243}\left(1 + \frac{y^2}K\right)\right]$, of every depth, with orthogonal ones."""
    grows, none, stays = moved(1 / ell)
    return equal(
        [grows, none, stays],
        [R(1, 3) - (1 + RATIO) / 8, 0, R(26, 27) - R(119, 243) * (1 + RATIO)],
        "from A … U of both ensembles",
    )


# %% [markdown]
# ## How far networks differ while they are trained


# %%
@claim("training", "2", "orthogonal networks' trained outputs differ by 1/n at every depth")
def spread() -> Verdict:
    r"""Of $y^2 \gg K$: the variance at order $1/n$ of the output, over $y^2$, when $f$ is left of
    $y - z$. With $x = -\log f$ it is $f^2\ell\left[\frac{178}{243}x^2 - \frac23(f + x - 1) +
    \frac38(2x - 3 + 4f - f^2)\right]$ for Gaussian weights, and $f^2\left[-\frac{52}{27}(f + x - 1)
    + \frac{119}{81}(2x - 3 + 4f - f^2)\right]$, of every depth, for orthogonal ones, to which
    what $\Theta$'s own fluctuations add falls as $1/\ell$: they have reduced variance, by the
    factor $\ell$."""
    variance = training.covariance().gradient_flow() / (RATIO * K)
    grows, _ = at_depth(variance, Gaussian(1))
    none, stays = at_depth(variance, Orthogonal(1))
    x = -sympy.log(LEFT)
    one, other = LEFT + x - 1, 2 * x - 3 + 4 * LEFT - LEFT**2
    slope = R(178, 243) * x**2 - R(2, 3) * one + R(3, 8) * other
    level = -R(52, 27) * one + R(119, 81) * other
    limits = [sympy.limit(each, RATIO, sympy.oo) for each in (grows, none, stays)]
    return equal(
        [sympy.expand(each) for each in limits],
        [sympy.expand(LEFT**2 * slope), 0, sympy.expand(LEFT**2 * level)],
        "from A … U of both ensembles",
    )


# %% [markdown]
# ## Ordinary descent
#
# Source 000 finds it better than the tensorial one for deep orthogonal networks (appendix B), and
# guesses that features move further. Ordinary descent is the tensorial one with other rates:
# $\lambda_b$ is $1/n$ in place of $1/\ell$, and $\lambda_W$ of the first layer is $n_0/n$.


# %%
@claim("training", "3", "without the biases' rate: the same growth, smaller numbers")
def without_biases() -> Verdict:
    r"""Of $\lambda_b = 0$ the kernel's change is $\frac1{12}\left(1 - \frac{y^2}K\right)\ell$ with
    Gaussian weights and $\frac13\left(1 - \frac{y^2}K\right)$ with orthogonal ones: what
    orthogonality does is not of one way to descend, and features move less than by the tensorial
    one, not more."""
    grows, none, stays = moved(sympy.S.Zero)
    return equal([grows, none, stays], [(1 - RATIO) / 12, 0, (1 - RATIO) / 3])


@claim("training", "4", "ordinary descent at 000's widths: the first layer moves features further")
def first_layer() -> Verdict:
    r"""At $n_0 = 784$ and $n = 30$ the first layer's rate is 26 times the others'. Then the change
    of an orthogonal network's kernel, over $\Theta y^2/K$, is 5.0 times that of tensorial descent
    at 8 layers, 2.9 at 32, and falls with depth to that of claim 3: as far as the tower tells,
    features do move further, by the data's size rather than by the way to descend."""
    first = 784 / 30
    ways = ((1 / ell, 1), (0, lambda layer: first if layer == 1 else 1))
    changes = [[change(WEIGHTS[1], bias, rate, depth) for depth in DEPTHS] for bias, rate in ways]
    ratios = [b / a for a, b in zip(*changes, strict=True)]
    falls = [b < a for a, b in pairwise(ratios)]
    told = ", ".join(f"{x:.1f} at {depth} layers" for x, depth in zip(ratios, DEPTHS, strict=True))
    near = [abs(ratios[0] - 5.0) < 0.05, abs(ratios[-1] - 2.9) < 0.05]
    return observed([*falls, *near], f"times as far: {told}")


# %% [markdown]
# ## An input that nothing is trained on


# %%
@claim("training", "5", "predictions of trained networks: bias and variance by depth")
def unseen() -> Verdict:
    r"""Two training points, gradient flow to its end, an unseen input: what the limit of infinite
    width lacks at 16 and 32 layers. The variance's coefficient of $1/n$ is with orthogonal
    weights below a twentieth of what it is with Gaussian ones, and the mean's is smaller by a
    factor that grows with depth."""
    found = {weights: [end(weights, depth) for depth in (16, 32)] for weights in WEIGHTS}
    (gaussian, orthogonal) = (np.array(found[weights]) for weights in WEIGHTS)
    means, variances = abs(gaussian / orthogonal).T
    told = f"Gaussian over orthogonal: means {means.round(1)}, variances {variances.round()}"
    return observed([*(x > 20 for x in variances), *(b > a for a, b in pairwise(means))], told)


# %% [markdown]
# ## Where order 1/n ends


# %%
@claim(
    "training",
    "10",
    "order 1/n fails between L/n = ¼ and ½ for the kernel, later for the mean",
    sampled=True,
)
def ends(sampling: Sampling) -> Verdict:
    r"""Networks of $n = 8$, tanh with (6.17), one training point, 10 steps at $\eta = 0.3/\Theta$:
    by how much of the limit theory to order $1/n$ is off, within 5 standard errors. The trained
    tangent kernel, of either weights: by less than 8 % at $L/n = \frac14$, by more at $\frac12$. At
    $L = n$ it is off by more than a third of it with Gaussian weights, by less than two thirds with
    orthogonal ones; and there the mean output is off by more than 5 % with Gaussian weights, with
    orthogonal ones by less."""
    (gaussian, orthogonal) = (missed(weights, sampling) for weights in WEIGHTS)
    (early, late, last), (calm, grown, end) = (
        [each["ntk"] for each in found] for found in (gaussian, orthogonal)
    )
    mean, steady = (found[-1]["prediction"] for found in (gaussian, orthogonal))
    holds = [
        *(sum(each) < 0.08 for each in (early, calm)),
        *(low - error > 0.08 for low, error in (late, grown)),
        last[0] - last[1] > 1 / 3,
        sum(end) < 2 / 3,
        mean[0] - mean[1] > 0.05,
        sum(steady) < 0.05,
    ]
    told = [
        f"{weights}: {name} {', '.join(f'{each[name][0]:.3f}' for each in found)}"
        for weights, found in (("Gaussian", gaussian), ("orthogonal", orthogonal))
        for name in ("ntk", "prediction")
    ]
    return observed(holds, f"off by, at L/n = 1/4, 1/2, 1: {'; '.join(told)}")


def missed(weights: WeightEnsemble, sampling: Sampling) -> list[dict[str, tuple[float, float]]]:
    """By depth, what theory to order 1/n lacks of kernel and mean in units of their limits, and 5
    standard errors."""
    found = []
    for depth, draws in NETWORKS.items():
        net = Network(TANH, weights, lambda_b=1 / ell)
        given = net, [1.0, 0.5], 1.0, None
        theta = tensors_of(net, [1.0, 0.5], depth, "Theta")["Theta"].to_numpy()[-1]
        theory = flow(*given, depth, 0.3 / theta, 10).isel(step=0)
        many, seed = sampling.networks(draws), sampling.seed
        made = simulate(*given, NARROW, depth, 0.3 / theta, 10, many, seed=seed).isel(step=0)
        each = {}
        for name in ("ntk", "prediction"):
            limit = theory[name].item()
            off = made[name].item() - limit - theory[f"{name}1"].item() / NARROW
            each[name] = abs(off / limit), 5 * made[f"{name}_se"].item() / abs(limit)
        found.append(each)
    return found
