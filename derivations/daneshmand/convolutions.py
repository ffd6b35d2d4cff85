# %% [markdown]
# # Convolutions
#
# A convolution is a matrix that acts on all $k\times k$ patches of the channels below at once. With
# Gaussian filters batch normalization orthogonalizes the samples of a batch here as well, while
# without it they align; what differs from a multilayer perceptron is that patches overlap, so that
# samples and positions share the normalisation.

# %%
"""Convolutional networks: (30), and the second panel of Figure 6 (source 003, appendices G, I)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special

from derivations.claims import Sampling, Verdict, both, claim, close, misprint, observed
from derivations.daneshmand.modules import (
    RELU,
    batch_norm,
    convolution,
    fold,
    outputs,
    unfold,
)
from derivations.daneshmand.orthogonalization import orthogonality_gap, orthogonalizing_weights
from derivations.moments.blocks import Blocks
from derivations.pictures.panels import one_panel
from derivations.training.data import digits
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.tables.drawing import points


@claim("003", "30", "a convolution as a product of matrices, and its shape")
def product() -> Verdict:
    """$\\operatorname{conv2d}(W,H)=\\operatorname{fold}(W\\operatorname{unfold}(H))$ against sums
    over shifted images, filter by filter: three channels of 5 × 5, two samples, four 3 × 3 filters.
    The patches have $dk^2$ entries, from all channels below, so W is $d\\times dk^2$, not the
    printed $d\\times k^2$. From the patches' singular vectors the weights of (6) have
    $|W\\,\\mathrm{unfold}(H)|=1$ and spectrum $\\sqrt{\\sigma/\\sum\\sigma}$, as for matrices."""
    channels, image, samples, filters, size = 3, 5, 2, 4, 3
    rng = np.random.default_rng(0)
    H = rng.standard_normal((samples, channels, image, image))
    kernels = rng.standard_normal((filters, channels, size, size))
    W = kernels.reshape(filters, -1)
    direct = np.zeros((samples, filters, image, image))
    for a in range(filters):
        for c in range(channels):
            for s in range(samples):
                direct[s, a] += signal.correlate2d(H[s, c], kernels[a, c], mode="same")
    patches = unfold(H, size)
    made = orthogonalizing_weights(patches, len(patches))
    sigma = np.linalg.svd(patches, compute_uv=False)
    spectrum = np.linalg.svd(made @ patches, compute_uv=False)
    right = both(
        close(fold(W @ patches, H).ravel().tolist(), direct.ravel().tolist(), 12, "(30)"),
        close(spectrum.tolist(), np.sqrt(sigma / sigma.sum()).tolist(), 10, "(6) on patches"),
    )
    return misprint(
        f"W_ℓ ∈ ℝ^(d × {len(patches) // size**2}·k²)",
        "W_ℓ ∈ ℝ^(d × k²)",
        f"unfold(H) of {channels} channels and k = {size} has {len(patches)} rows; with that many "
        "columns of W (30) holds to 12 digits; the witness is their number",
        provided=right,
        witness=(size**2, len(patches)),
    )


# %% [markdown]
# ## Random convolutional networks (Figure 6)

# %%
CHANNELS, LAYERS, NETWORKS, BATCH = 100, 30, 32, 8


def stacks(pixels: int, normalised: bool, draws: int, seed: int) -> Blocks:
    """V of every network and layer, each network on its own batch of digits: (draws, layers).

    Arguments:
        pixels: along a side of the images, of scikit-learn's 8 averaged.
        normalised: with batch normalization, or vanilla.
        draws, seed: networks; those of 16 pixels take a tenth of a second.
    """
    given = {"pixels": pixels, "normalised": normalised, "channels": CHANNELS, "layers": LAYERS}
    return Blocks(_stack, given, (LAYERS,), draws, seed, together=max(1, 64 // pixels**2))


def _stack(
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
    pixels: int,
    normalised: bool,
    channels: int,
    layers: int,
) -> Array:
    """V layer by layer of one ReLU network; BN over samples and positions, channel by channel."""
    images = digits().coarser(8 // pixels).pixels.reshape(-1, 1, pixels, pixels)
    H = images[rng.choice(len(images), BATCH, replace=False)] / 16
    found = np.empty((1, layers))
    for layer in range(layers):
        fan_in = 9 * H.shape[1]
        W = np.sqrt(2 / fan_in) * rng.standard_normal((channels, fan_in))
        *_, Z, H = outputs([convolution(W), *([batch_norm(0.0)] * normalised), RELU], H)
        found[0, layer] = orthogonality_gap(Z.reshape(len(Z), -1).T)
    return found


@claim("003", "Figure 6 (ConvNet)", "convolutional networks with and without BN", sampled=True)
def figure_six(sampling: Sampling) -> Verdict:
    """32 ReLU networks of 100 channels, 3 × 3 kernels and 30 layers, each on its own batch of 8
    digits (4 × 4 pixels, for the paper's CIFAR10; 50 networks and all 8 × 8 pixels at full size).
    With batch normalization V falls and then levels off: from layer 20 to 30 it changes by less
    than a fifth, where the paper has a term constant in depth. (On 8 × 8 pixels it has its least
    value at layer 18 and then rises, slowly, by 8 % to layer 30.) Without it V rises with depth,
    towards $\\sqrt{(n-1)/n}$."""
    pixels, networks = sampling.sizes(4, 8), sampling.networks(NETWORKS, 50)
    made, panel = one_panel(xlabel="layer", ylabel="V", title="ReLU, 100 channels, n = 8, digits")
    layers = np.arange(1, LAYERS + 1)
    runs = {}
    for number, (label, normalised) in enumerate((("batch norm", True), ("vanilla", False))):
        work = stacks(pixels, normalised, networks, sampling.seed)
        found = runs[label] = chunks.rows(work, chunks.Options(), "sampling convolutions")
        mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1)
        points(panel, layers, mean, spread, color=f"C{number}", label=label)
    aligned = np.sqrt((BATCH - 1) / BATCH)
    panel.axhline(aligned, color="black", linewidth=1, linestyle="--", label="√((n−1)/n)")
    panel.legend()
    change = runs["batch norm"][:, 29] - runs["batch norm"][:, 19]
    fifth = runs["batch norm"][:, 19].mean() / 5
    moves = {
        "from layer 20 to 30 V rises by less than a fifth": fifth - change,
        "and falls by less": fifth + change,
        "with BN layer 10 lies below layer 1": runs["batch norm"][:, 0] - runs["batch norm"][:, 9],
        "without it layer 10 lies above layer 1": runs["vanilla"][:, 9] - runs["vanilla"][:, 0],
        "and layer 30 above layer 10": runs["vanilla"][:, 29] - runs["vanilla"][:, 9],
    }
    seen = {
        name: float(each.mean() / each.std(ddof=1) * np.sqrt(networks))
        for name, each in moves.items()
    }
    told = ", ".join(f"{name} by {z:.1f} standard errors" for name, z in seen.items())
    bound = -float(special.stdtrit(networks - 1, sampling.false_alarms / len(seen)))
    told += f" (Student's bound {bound:.1f}); from layer 20 to 30 by {change.mean():.2g}"
    verdict = observed([each > bound for each in seen.values()], told)
    return replace(verdict, figures={"batchnorm6-convolutional": made})
