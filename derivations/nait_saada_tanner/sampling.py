"""The low-rank networks of source 001, sampled: lengths and correlations by layer.

A layer of rank r = γ n is z = C (A σ + b), C a uniform frame of r orthonormal columns, A Gaussian
or a frame itself, such that E[W_ij²] = C_W/n. The biases are of one of three kinds, each of which
adds the variance C_b = γ σ_b² to a neuron:

    "neuron"      z = C A σ + b, one b_i for every neuron: the engine's, and `simulate`'s
    "direction"   one b_k ~ N(0, σ_b²) for every kept direction, so that z stays in the range of C
    "layer"       one b ~ N(0, σ_b²) for all directions, as source 001 prints it (A.2)

With the last a layer's length tends to γ (σ_α² ⟨σσ⟩ + b²): r copies of one number do not average
out, so that lengths and correlations stay random at any width.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from derivations.nait_saada_tanner import drawing
from derivations.nait_saada_tanner.drawing import BLOCK
from derive.citations import rests_on
from derive.engine.tensors import named
from derive.errors import InputError
from derive.network import Network
from numeric import checks
from numeric.arrays import Array
from numeric.checks import checked_inputs
from numeric.hyperparameters import hyperparameters
from numeric.runs import chunks
from numeric.samplers.ensemble import Ensemble
from numeric.tables import layout


class Sample(NamedTuple):
    """The observables of every network of an ensemble.

    Attributes:
        K: z zᵀ/n, (draws, depth, m, m).
        b: b_ℓ of the biases "layer", (draws, depth), and None of the others.
    """

    K: Array
    b: Array | None


def sample(
    net: Network,
    inputs: ArrayLike,
    width: int,
    depth: int,
    draws: int,
    *,
    biases: str = "neuron",
    seed: int = 0,
    **running: Unpack[chunks.Running],
) -> Sample:
    """Draw networks, with weights that meet only the vectors they are applied to; exact in law.

    Source 001, appendix A.2, with C_W = γ σ_α² and C_b = γ σ_b²; the sampler is derived here.

    Arguments:
        net: a network of full or low rank, Gaussian or orthogonal.
        inputs: (n_0,) or (m, n_0), m at most the rank; n_0 at least that of orthogonal weights.
        width: n, at which every rank γ n is a whole number.
        depth: layers of preactivations, counted from 1.
        draws: networks.
        biases: one of `BIASES`.
        seed: 0 … 2^64 − 1; draw number d is the same whatever `draws` is.
        executor, window, run, progress: those of `numeric.simulate`: where chunks of networks are
            sampled, how many are under way, a directory that keeps what is finished, resumes and
            extends, and a bar.

    Raises InputError for other ensembles, for a rank that is no whole number, and for a directory
    of another run.

    >>> from derive import LowRankGaussian, activations
    >>> net = Network(activations.tanh, LowRankGaussian(1, gamma=0.5), C_b=0.1)
    >>> K, b = sample(net, [1.0, 0.5], width=20, depth=3, draws=4, biases="layer")
    >>> K.shape, b.shape
    ((4, 3, 1, 1), (4, 3))
    """
    drawing.check_biases(biases)
    options = chunks.options(running)
    ensemble = drawing.low_rank_ensemble(net, inputs, width, depth, seed)
    depth, m, ranks = ensemble.depth, len(ensemble.inputs), drawing.ranks(ensemble)
    if m > min(ranks):
        raise InputError("inputs", f"{m} vectors", f"at most the rank, {min(ranks)}")
    columns = 2 * (m * m + 1) if biases == "layer" else m * m  # K is copied from beside b
    draws, seconds = drawing.checked_draws(ensemble, draws, columns, options.kept)
    columns = m * m + (biases == "layer")
    work = drawing.blocks(_forward, ensemble, biases, str(net), draws, columns)
    rows = chunks.rows(work, options, drawing.what(ensemble, draws), seconds)
    K = rows[..., : m * m].reshape(draws, depth, m, m)
    return Sample(K, rows[..., -1].copy() if biases == "layer" else None)


def _forward(
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
    ensemble: Ensemble,
    biases: str,
    name: str,
) -> Array:
    """K of each layer, m² numbers, and the one bias, of the biases "layer": (draws, depth, …)."""
    ranks, rows = drawing.ranks(ensemble), []
    sigma = np.broadcast_to(ensemble.inputs, (BLOCK, *ensemble.inputs.shape))
    with drawing.silent():
        for layer in range(ensemble.depth):
            z, drawn = drawing.layer(ensemble, layer, ranks[layer], sigma, biases, rng)
            K = z @ z.transpose(0, 2, 1) / z.shape[2]
            own = [drawn[:, None]] if biases == "layer" else []
            rows.append(np.concatenate([K.reshape(BLOCK, -1), *own], axis=1)[: numbers.size])
            sigma = np.ascontiguousarray(z)
            if layer + 1 < ensemble.depth:
                ensemble.activate(sigma, layer + 1)
    found = np.stack(rows, axis=1)
    if not np.isfinite(found).all():
        raise InputError("net", name, drawing.FINITE)
    return found


@rests_on("naitsaada2023", "salmon2011")
def simulate(
    net: Network,
    inputs: ArrayLike,
    width: int,
    depth: int,
    draws: int,
    *,
    biases: str = "neuron",
    seed: int = 0,
    **running: Unpack[chunks.Running],
) -> xarray.Dataset:
    """The mean of K = z·z/n with its standard error, in the layout of `numeric.simulate`.

    Arguments:
        net, inputs, width, depth, biases, seed: those of `sample`, whose networks these are.
        executor, window, run, progress: those of `sample`, too: both can take up one run.
        draws: networks, 2 or more.

    Returns:
        `K` and `K_se` with axes `layer` (1 … depth) and, unless inputs is one vector, `sample_1`,
        `sample_2`; what repeats it in the attributes. At infinite width, and not with the biases
        "layer", K obeys source 001, eqs. (3) and (5).

    Raises InputError as `sample` does.

    >>> from derive import LowRankOrthogonal, activations
    >>> net = Network(activations.linear, LowRankOrthogonal(1, gamma=0.5))
    >>> found = simulate(net, np.ones(20), width=20, depth=2, draws=200)
    >>> found["K"].dims, bool((abs(found["K"] - 1) < 5 * found["K_se"]).all())
    (('layer',), True)
    """
    draws, data = checks.draws(draws, 2), checked_inputs(inputs)
    K, _ = sample(net, data.given, width, depth, draws, biases=biases, seed=seed, **running)
    (mean, error), about_K = layout.averaged(K), layout.described(named("K"))
    arrays = {
        "K": layout.variable(mean, 2, single=data.single, about=about_K),
        "K_se": layout.variable(error, 2, single=data.single),
    }
    about: dict[str, int | str] = {
        "width": int(width),
        "draws": draws,
        "blocks": draws,
        "biases": biases,
        "seed": int(seed),
    }
    return layout.dataset(
        arrays,
        range(1, depth + 1),
        about,
        net=net,
        inputs=data.given,
        symbols=hyperparameters(net, depth, data.X.shape[1], width),
    )
