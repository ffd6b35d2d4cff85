"""Means of networks at initialization, E H(0) and E K, less what chance adds in each layer.

Given their forward paths networks are averaged exactly (`samplers.paths`), and of what is left H(0)
and K are, to first order, what the averages of σσ and of σ'σ' over the neurons of each layer are
off. With a fixed Gram matrix R Rᵀ in the place of a network's own, from the very normals w and b
that drew its path,

    c = (1/n) Σ_i f_a f_b(u_i) − ⟨f_a f_b⟩ ,    u = R w + √C_b b ,    f = σ, σ',

is such an average of mean 0 at every width, whatever R is. Behind a Haar matrix w are the normals
that its frame was made from, and w wᵀ/N − 1 is a control beside. What they leave is of order 1/n,
where H(0) fluctuates by n^{−1/2}; of two layers nothing. The slopes leave out the network that they
are applied to (`estimators.controls`): no mean is changed. Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape
from derive.recursions import wanted
from derive.work.caches import cache

from ..arrays import Array
from ..estimators.controls import adjusted
from ..estimators.observables import Plan, components, expanded, plan_of
from ..layers import positions
from ..random.lazy import BIAS, COLUMN, HAAR
from ..random.philox import whole_blocks
from ..samplers.base import Sampler
from ..samplers.ensemble import Ensemble
from ..samplers.paths import PathSampler, kernels
from ..simulations import make_sampler

BATCHES = 256
"""The parts that means are sampled in, at most: their errors have so many degrees of freedom."""
_NAMES = "Theta", "K"
_PER_CONTROL = 5
"""Networks that are fitted together for each control, at least."""
_FIT = 4096
"""Networks that are fitted together, at most, where so many are enough."""
_SINGULAR = 1e-10
"""Of the largest variance: what a reference has in every direction at least."""
_SECONDS, _ENTRY_SECONDS = 2e-5, 1e-8
"""Of a network, and of each of its neurons for each pair of samples and each layer."""
_WHOLE_SECONDS = 2.5e-8
"""Of each pair of neurons where matrices are built."""


class Known(NamedTuple):
    """Independent estimates of means, (batches, samples, samples).

    Attributes:
        tangent: of H(0) of an output.
        kernel: of the covariance of an output.
    """

    tangent: Array
    kernel: Array


def known(ensemble: Ensemble, draws: int) -> Known:
    """From so many networks, 2 or more, or a few more: in as many parts, or `BATCHES`."""
    batches = min(BATCHES, max(2, draws))
    (seed,) = np.random.SeedSequence([ensemble.seed, BATCHES]).generate_state(1, np.uint64)
    others = replace(ensemble, seed=int(seed))
    return Known(*_estimates(_sampler(others), batches, -(-draws // batches)))


def seconds(ensemble: Ensemble) -> float:
    """Of a network, roughly."""
    pairs = ensemble.data.measured**2 * ensemble.depth
    whole = _sampler(ensemble).label == "explicit"
    per_neuron = _WHOLE_SECONDS * ensemble.width if whole else _ENTRY_SECONDS
    return _SECONDS + per_neuron * ensemble.width * pairs


def _sampler(ensemble: Ensemble) -> Sampler:
    """The sampler of H(0) and K."""
    plan = plan_of(wanted(_NAMES, ensemble.net, ensemble.depth), ensemble.data.measured)
    return make_sampler(ensemble, plan)


def _bears(sampler: Sampler) -> TypeGuard[PathSampler]:
    """True if innovations are known: it averages over all but forward paths, and each weight matrix
    is one factor."""
    single = all(len(steps) == 1 for steps in sampler.ensemble.steps)
    return isinstance(sampler, PathSampler) and single


def _estimates(sampler: Sampler, batches: int, each: int) -> Array:
    """Of these samples, (names, batches, samples, samples)."""
    m, count, columns = sampler.plan.samples, batches * each, _places(sampler.plan)
    references = _borne(sampler, count) if _bears(sampler) else []
    controls = sum(reference.controls for reference in references)
    totals = np.zeros((batches, len(sampler.plan.statistics)))
    fits = max(1, count // max(_FIT, _PER_CONTROL * controls))
    for part in np.array_split(np.arange(count), fits):
        np.add.at(totals, part // each, _controlled(sampler, part, references))
    return np.moveaxis((totals / each)[:, columns], 0, 1).reshape(len(_NAMES), batches, m, m)


def _borne(sampler: PathSampler, draws: int) -> list[_Reference]:
    """The last hidden layers, as many as so many networks bear the controls of."""
    found, controls = [], 0
    for reference in reversed(_references(sampler.ensemble)):
        controls += reference.controls
        if _PER_CONTROL * controls > draws:
            break
        found.append(reference)
    return found


def _controlled(
    sampler: Sampler, draws: NDArray[np.int64], references: Sequence[_Reference]
) -> Array:
    """The statistics of the last layer of each network, less what controls say of them."""
    values, controls = [], []
    for k in range(0, draws.size, sampler.batch):
        part = draws[k : k + sampler.batch]
        values.append(sampler.statistics(part)[:, -1])
        if references:
            assert isinstance(sampler, PathSampler)
            controls.append(innovations(sampler, part, references))
    all_values = np.concatenate(values)
    return adjusted(all_values, np.concatenate(controls)) if controls else all_values


def _places(plan: Plan) -> NDArray[np.intp]:
    """The statistic of each entry, (names, samples, samples)."""
    own = {target.label: target for target in plan.targets}
    found = np.empty((len(_NAMES), plan.samples, plan.samples), np.intp)
    for name, columns in zip(_NAMES, found, strict=True):
        for component, places in components(own[name], plan.samples).items():
            ((_, (statistic,)),) = expanded(component)
            for place in places:
                columns[place] = plan.position[statistic]
    return found


class _Reference(NamedTuple):
    """A hidden layer, from 0, of infinite width: R, (samples, samples), ⟨σσ⟩ and ⟨σ'σ'⟩ of
    R Rᵀ + C_b, and how many controls it has."""

    layer: int
    root: Array
    averages: Array
    controls: int


def _references(ensemble: Ensemble) -> list[_Reference]:
    """Of layers 1, …, one behind the other."""
    X, found = ensemble.inputs, []
    gram = X @ X.T / X.shape[1]
    for layer in range(ensemble.depth - 1):
        own = ensemble.C_W[layer] * gram
        least = _SINGULAR * np.trace(own) * np.eye(len(own))
        root = np.linalg.cholesky(own + least) if own.any() else own
        averages = _averages(ensemble.activation_at(layer + 1), root @ root.T + ensemble.C_b[layer])
        pairs = len(own) * (len(own) + 1) // 2
        kinds = 3 if ensemble.steps[layer][0].kind == HAAR else 2
        found.append(_Reference(layer, root, averages, kinds * pairs))
        gram = averages[0]
    return found


def _averages(activation: Activation, K: Array) -> Array:
    """⟨σ_a σ_b⟩ and ⟨σ'_a σ'_b⟩ at this covariance."""
    return _of_bytes(activation, len(K), K.tobytes())


@cache(entries=256)
def _of_bytes(activation: Activation, m: int, K: bytes) -> Array:
    covariance, found = np.frombuffer(K).reshape(m, m), np.empty((2, m, m))
    a, b = np.tril_indices(m)
    at = np.stack([a, b], axis=1)
    pairs = covariance[at[:, :, None], at[:, None, :]]
    for averages, order in zip(found, (0, 1), strict=True):
        shape = Shape((order, order), (0, 0))
        (averages[a, b],) = (averages[b, a],) = positions.averages(activation, [shape], pairs)
    return found


def innovations(
    sampler: PathSampler, draws: NDArray[np.int64], references: Sequence[_Reference]
) -> Array:
    """The controls of these networks, (draws, controls)."""
    ensemble, m, draw = sampler.ensemble, sampler.plan.samples, kernels().draw
    pairs, found = np.triu_indices(m), [np.empty((draws.size, 0))]
    for reference in references:
        layer = reference.layer
        (step,), n = ensemble.steps[layer], ensemble.widths[layer + 1]
        count = step.big if step.kind == HAAR else step.size
        w = np.empty((draws.size, m, whole_blocks(count)))
        draw(w, ensemble.key, draws, COLUMN + np.arange(m), layer + 1)
        w = w[:, :, :count]
        if step.kind == HAAR:
            found.append((w @ w.swapaxes(1, 2) / count - np.eye(m))[:, *pairs])
        u = reference.root @ w[:, :, :n]
        if ensemble.C_b[layer] > 0.0:
            b = np.empty((draws.size, 1, whole_blocks(n)))
            draw(b, ensemble.key, draws, np.array([BIAS]), layer + 1)
            u += np.sqrt(ensemble.C_b[layer]) * b[:, :, :n]
        values = np.empty((draws.size, 2, m, n))
        ensemble.activation(layer + 1, 2).differentiate(u, values)
        for own, average in zip(values.swapaxes(0, 1), reference.averages, strict=True):
            found.append((own @ own.swapaxes(1, 2) / n - average)[:, *pairs])
    return np.concatenate(found, axis=1)
