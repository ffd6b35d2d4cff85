# %% [markdown]
# # What theory says of the training experiments
#
# At epoch 0 the expected loss follows from $K$ and $G^{\{1\}}$; on few images also what descent
# makes of it, and how far networks differ, to order $1/n$. Where $L/n \ll 1$ networks are held
# against it.

# %%
"""Lines of theory in the figures of source 000's experiments, and the networks that meet them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray
from matplotlib.axes import Axes
from numpy.polynomial import chebyshev

from derivations.claims import Sampling, Verdict, claim, sampled
from derivations.pictures.panels import panel_grid
from derivations.training import descents
from derivations.training.data import Images, Split
from derivations.training.descents import STARTS, Descent
from derivations.training.statements import Statement, expected
from derive import Network
from derive.work.caches import cache
from numeric import compare, flow, training
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.samplers.ensemble import checked_ensemble
from numeric.tables import layout
from numeric.training.ensembles import Training
from numeric.training.optimizers import Optimizer

UNTRAINED = 200
"""Networks whose loss at epoch 0 is held against theory."""
NODES = 8
"""Lengths of images at which theory is evaluated; between them it is a polynomial."""


@cache
def _by_length(net: Network, inputs: int, depth: int, low: float, high: float) -> tuple[Array, ...]:
    """Chebyshev coefficients of K and G1 of an input of mean square r², low ≤ r ≤ high."""
    values = []
    for node in chebyshev.chebpts1(NODES):
        r = (low + high + node * (high - low)) / 2
        last = flow(net, np.full(inputs, r), depth, ["K", "G1"]).isel(layer=-1)
        values.append([last["K"].item(), last["G1"].item()])
    fitted = chebyshev.chebfit(chebyshev.chebpts1(NODES), np.array(values), NODES - 1)
    return tuple(fitted.T)


def kernels(net: Network, images: Images, depth: int) -> tuple[Array, Array]:
    """K and G1 of each image, (images,): by weights that rotations keep they depend on its length
    alone."""
    pixels = images.pixels
    r = np.sqrt((pixels**2).mean(axis=1))
    low, high = float(r.min()), float(r.max())
    if low == high:
        low, high = 0.9 * low, 1.1 * high
    fitted = _by_length(net, pixels.shape[1], depth, low, high)
    at = (2 * r - low - high) / (high - low)
    K, G1 = (np.asarray(chebyshev.chebval(at, own)) for own in fitted)
    return K, G1


def untrained_loss(net: Network, images: Images, depth: int, width: int) -> float:
    """The expected loss (z − y)² at epoch 0, averaged over images and outputs, to order 1/n."""
    K, G1 = kernels(net, images, depth)
    return float((images.targets**2).mean() + (K + G1 / width).mean())


def mark(panel: Axes, networks: Sequence[tuple[Network, int]], images: Images, width: int) -> None:
    """Draw the expected loss at epoch 0 of each network, of a depth, in the colours of
    `descents.draw`."""
    for number, (net, depth) in enumerate(networks):
        loss = untrained_loss(net, images, depth, width)
        label = "theory at epoch 0, order 1/n" if not number else None
        panel.plot([1.0, 1.8], [loss, loss], color=f"C{number}", linestyle=":", label=label)
    panel.legend(fontsize="x-small")


def beginnings(how: Descent, depth: int, sampling: Sampling) -> list[Statement]:
    """Networks of either weights, before they are trained, have the loss that theory
    gives."""
    of = descents.size(sampling)
    width, images = of.widths[0], descents.split(of.data, of.images, 0).validation
    found = []
    for start in STARTS:
        begin = descents.trained(how, start, width, depth, sampling, 0, draws=UNTRAINED)
        marked = untrained_loss(how.network(start, depth), images, depth, width)
        text = f"{start} networks of L = {depth} begin where theory has it"
        found.append(expected(text, begin["validation"].to_numpy()[:, 0], marked))
    return found


# %% [markdown]
# ## The first epochs

# %%
TINY = 4
"""Training images of the networks that are held against theory, and one more."""
STEPS = (0, 1, 2, 4)
ETA, DEPTH, OUTPUTS = 1.0, 4, 10
WIDTHS, DRAWS = (32, 64), 1600
SHOWN, FEW = 16, 300
"""The width that is drawn, and its networks."""
NAMES = ("loss", "spread")
"""The training loss, and the variance over initializations of outputs, all inputs and outputs
averaged."""


@claim("000", "Figure 4 (theory)", "the first epochs by theory", sampled=True, images=True)
def first_epochs(sampling: Sampling) -> Verdict:
    r"""Where $L/n \ll 1$ theory has a say: by $K$, $\Theta$ and the tensors of order $1/n$,
    `numeric.training.flow` gives the expected training loss at epochs 0, 1, 2, 4 and the variance
    of the outputs over initializations, of Gaussian and orthogonal networks with $L = 4$ on 4
    images and one that is not trained on, $\eta = 1$. Networks of $n = 32$ and 64 meet it,
    extrapolated in $1/n$; drawn are those of $n = 16$. At epoch 0 the loss falls by
    $\eta'\sum_{\alpha\beta}\Theta_{\alpha\beta} \langle(z - y)_\alpha\cdot(z -
    y)_\beta\rangle$ an epoch, $\eta' = 2\eta/(10N)$."""
    data = descents.split(sampling.data, (TINY, 1, 0), 0)
    figure, panels = panel_grid(2, 2, (4.5, 3.2), sharex=True, sharey="row")
    comparisons = []
    for column, start in zip(panels.T, STARTS, strict=True):
        net = Descent().network(start, DEPTH)
        X, Y = data.training.pixels, data.training.targets
        theory = training.flow(
            net, X, Y, data.validation.pixels, DEPTH, ETA * SCALE, STEPS, OUTPUTS
        )
        limits = {name: of_theory(theory, name, None) for name in NAMES}
        tables = [networks(net, data, width, DRAWS, sampling.seed) for width in WIDTHS]
        comparisons.append(
            compare(layout.table(LAYERS, **limits), tables, sampling.false_alarms / 2, degree=1)
        )
        few = networks(net, data, SHOWN, FEW, sampling.seed)
        for panel, name in zip(column, NAMES, strict=True):
            panel.plot(STEPS, limits[name], "--", color="grey", label="n → ∞")
            line = of_theory(theory, name, SHOWN)
            panel.plot(STEPS, line, color="C1", label=f"order 1/n, n = {SHOWN}")
            values, errors = (few[each].to_numpy() for each in (name, f"{name}_se"))
            panel.errorbar(
                STEPS, values, errors, fmt="o", color="C0", markersize=3, label="networks"
            )
        slope, begin = SCALE * early_slope(theory), limits["loss"][0]
        until = min(1.0, -begin / slope)
        ends = [begin, begin + until * slope]
        column[0].plot([0, until], ends, ":", color="C3", label="slope at 0, by Θ")
        column[0].set(title=start, ylabel="training loss")
        column[1].set(xlabel="epoch", ylabel="variance of outputs")
        for panel in column:
            panel.legend(fontsize="x-small")
    told = "training loss, variance of outputs at epochs 0, 1, 2, 4 (as layers 1, 2, 3, 5)"
    return sampled(comparisons, told, {"training4-theory": figure}, labels=list(STARTS))


SCALE = 2 / (TINY * OUTPUTS)
"""Of ½ Σ (z − y)² to the mean over inputs and outputs."""
LAYERS = [step + 1 for step in STEPS]


def networks(net: Network, data: Split, width: int, draws: int, seed: int) -> xarray.Dataset:
    """Loss and spread of trained networks at each step, with their errors."""
    inputs = np.concatenate([data.training.pixels, data.validation.pixels])
    work = Training(
        checked_ensemble(net, inputs, width, DEPTH, seed + width), data.training.targets,
        Optimizer("tensorial", ETA * SCALE), "squared", TINY, STEPS, False, draws,
    )  # fmt: skip
    what = f"training {draws} networks of width {width}"
    course = work.course(chunks.rows(work, chunks.Options(), what)).of_sign(0)
    off = course.outputs - course.outputs.mean(axis=0)
    spread = (off**2).mean(axis=(2, 3)) * draws / (draws - 1)
    about: dict[str, int | float | str] = {"width": width, "draws": draws}
    found = {"loss": layout.averaged(SCALE * course.loss), "spread": layout.averaged(spread)}
    return layout.table(LAYERS, about, **found)


def of_theory(theory: xarray.Dataset, name: str, width: int | None) -> Array:
    """The loss or the spread by step, at infinite width or to order 1/n."""
    found = []
    for ending in ("", "1"):
        if name == "loss":
            found.append(SCALE * theory[f"loss{ending}"].to_numpy())
        else:
            every = theory[f"covariance{ending}"].to_numpy()
            found.append(np.einsum("taaii->t", every) / (every.shape[1] * every.shape[3]))
    return np.asarray(found[0] if width is None else found[0] + found[1] / width)


def early_slope(theory: xarray.Dataset) -> float:
    """dL/dt of ½ Σ (z − y)² at the first step of a table of `numeric.training.flow`, t in steps:
    −η Σ Θ_αβ ⟨(z − y)_α·(z − y)_β⟩ over training inputs, at infinite width."""
    count, eta = theory.attrs["training"], theory.attrs["eta"]
    first = theory.isel(step=0, sample_1=slice(count), sample_2=slice(count))
    theta = first["ntk"].isel(output_1=0, output_2=0).to_numpy()
    K = first["covariance"].isel(output_1=0, output_2=0).to_numpy()
    y = theory["targets"].to_numpy()
    return float(-eta * (theta * (y.shape[1] * K + y @ y.T)).sum())
