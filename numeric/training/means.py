"""Means of networks at initialization, E H(0) and E K, less what chance adds in each layer.

Given their forward paths networks are averaged exactly (`samplers.paths`), and of what is left H(0)
and K are, to first order, what the averages of σσ and of σ'σ' over the neurons of each layer are
off. With a fixed Gram matrix R Rᵀ in the place of a network's own, from the very normals w and b
that drew its path,

    c = (1/n) Σ_i f_a f_b(u_i) − ⟨f_a f_b⟩ ,    u = R w + √C_b b ,    f = σ, σ',

is such an average of mean 0 at every width, whatever R is. Behind a Haar matrix w are the normals
that its frame was made from, and w wᵀ/N − 1 is a control beside. What they leave is of order 1/n,
where H(0) fluctuates by n^{−1/2}; of two layers nothing. The slopes leave out the network that they
are applied to (`estimators.controls`): no mean is changed. Derived here, as `verify.innovated` for
K and V.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape
from derive.recursions import wanted

from ..arrays import Array
from ..brackets.module import evaluate
from ..estimators.controls import adjusted
from ..estimators.observables import Plan, components, expanded, plan_of
from ..random.lazy import BIAS, COLUMN, HAAR
from ..random.philox import whole_blocks
from ..samplers.ensemble import Ensemble, checked_ensemble
from ..samplers.paths import MOST_EDGES, PathSampler, kernels
from ..simulations import make_sampler, simulate

BATCHES = 16
"""The parts that means are sampled in."""
_NAMES = "Theta", "K"
_PER_CONTROL = 5
"""Networks of a part for each control, at least."""
_FIT = 4096
"""Networks that are fitted together, at most, where so many are enough."""
_SINGULAR = 1e-10
"""Of the largest variance: what a reference has in every direction at least."""


class Known(NamedTuple):
    """Independent estimates of means, (batches, samples, samples).

    Attributes:
        tangent: of H(0) of an output.
        kernel: of the covariance of an output.
    """

    tangent: Array
    kernel: Array


def known(ensemble: Ensemble, draws: int) -> Known:
    """From so many networks, a few more at most but for those that slopes need."""
    if ensemble.net.layer.positions is not None:
        return _sampled(ensemble, draws)
    m = len(ensemble.inputs)
    seeds = np.random.SeedSequence([ensemble.seed, BATCHES]).generate_state(1 + m**2, np.uint64)
    totals, counts = np.zeros((len(_NAMES), BATCHES, m, m)), np.zeros((m, m))
    for group, seed in zip(_groups(m), seeds, strict=False):
        own = checked_ensemble(
            ensemble.net, ensemble.inputs[group], ensemble.width, ensemble.depth, int(seed)
        )
        sampler = _sampler(own)
        if sampler is None:
            return _sampled(ensemble, draws)
        rows, columns = np.ix_(group, group)
        counts[rows, columns] += 1
        totals[:, :, rows, columns] += _estimates(sampler, draws)
    return Known(*totals / counts)


def _groups(m: int) -> list[list[int]]:
    """Inputs that go down the layers together: every pair of all is in some."""
    most = max(MOST_EDGES)
    if m <= most:
        return [list(range(m))]
    half = most // 2
    parts = [list(range(k, min(k + half, m))) for k in range(0, m, half)]
    return [one + other for one, other in combinations(parts, 2)]


def _sampler(ensemble: Ensemble) -> PathSampler | None:
    """What averages over all but forward paths, if each weight matrix is one factor."""
    plan = plan_of(wanted(_NAMES, ensemble.net, ensemble.depth), ensemble.data.measured)
    sampler = make_sampler(ensemble, plan)
    single = all(len(steps) == 1 for steps in ensemble.steps)
    return sampler if isinstance(sampler, PathSampler) and single else None


def _sampled(ensemble: Ensemble, draws: int) -> Known:
    """Of other networks, without controls."""
    each = max(2, -(-draws // BATCHES))
    seeds = np.random.SeedSequence([ensemble.seed, BATCHES]).generate_state(BATCHES, np.uint64)
    tables = [
        simulate(
            ensemble.net, ensemble.data.given, ensemble.width, ensemble.depth, each,
            tensors=_NAMES, seed=int(seed),
        )
        for seed in seeds
    ]  # fmt: skip
    return Known(*(np.array([table[name].to_numpy()[-1] for table in tables]) for name in _NAMES))


def _estimates(sampler: PathSampler, draws: int) -> Array:
    """Of these samples, (names, batches, samples, samples)."""
    m = sampler.plan.samples
    columns = _places(sampler.plan)
    references = _references(sampler.ensemble)
    controls = innovations(sampler, np.arange(2), references).shape[1]
    each = max(2, -(-draws // BATCHES), _PER_CONTROL * controls)
    fits = -(-each // max(_FIT, _PER_CONTROL * controls))
    found = []
    for batch in np.array_split(np.arange(BATCHES * each), BATCHES):
        parts = [
            _controlled(sampler, part, references, columns) for part in np.array_split(batch, fits)
        ]
        found.append(np.average(parts, axis=0, weights=[1.0] * fits))
    return np.moveaxis(np.reshape(found, (BATCHES, len(_NAMES), m, m)), 1, 0)


def _controlled(
    sampler: PathSampler,
    draws: NDArray[np.int64],
    references: Sequence[_Reference],
    columns: NDArray[np.intp],
) -> Array:
    """The averages of these statistics of the last layer, with controls."""
    values, controls = [], []
    for k in range(0, draws.size, sampler.batch):
        part = draws[k : k + sampler.batch]
        values.append(sampler.statistics(part)[:, -1])
        controls.append(innovations(sampler, part, references))
    both = np.concatenate(values), np.concatenate(controls)
    averages = (adjusted(*both) if both[1].shape[1] else both[0]).mean(axis=0)
    return np.asarray(averages[columns])


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
    """A hidden layer of infinite width: R, (samples, samples), and ⟨σσ⟩, ⟨σ'σ'⟩ of R Rᵀ + C_b."""

    root: Array
    averages: Array


def _references(ensemble: Ensemble) -> list[_Reference]:
    """Of layers 1, …, one behind the other."""
    X, found = ensemble.inputs, []
    gram = X @ X.T / X.shape[1]
    for layer in range(ensemble.depth - 1):
        own = ensemble.C_W[layer] * gram
        least = _SINGULAR * np.trace(own) * np.eye(len(own))
        root = np.linalg.cholesky(own + least)
        averages = _averages(ensemble.net.activation, root @ root.T + ensemble.C_b[layer])
        found.append(_Reference(root, averages))
        gram = averages[0]
    return found


def _averages(activation: Activation, K: Array) -> Array:
    """⟨σ_a σ_b⟩ and ⟨σ'_a σ'_b⟩ at this covariance."""
    return _of_bytes(activation, len(K), K.tobytes())


@lru_cache(maxsize=256)
def _of_bytes(activation: Activation, m: int, K: bytes) -> Array:
    covariance, found = np.frombuffer(K).reshape(m, m), np.empty((2, m, m))
    for order, averages in enumerate(found):
        shape = Shape((order, order), (0, 0))
        for a in range(m):
            for b in range(a + 1):
                pair = covariance[np.ix_((a, b), (a, b))]
                averages[a, b] = averages[b, a] = evaluate(activation, shape, pair)
    return found


def innovations(
    sampler: PathSampler, draws: NDArray[np.int64], references: Sequence[_Reference]
) -> Array:
    """The controls of these networks, (draws, controls)."""
    ensemble, m, draw = sampler.ensemble, sampler.plan.samples, kernels().draw
    pairs, found = np.triu_indices(m), [np.empty((draws.size, 0))]
    for layer, reference in enumerate(references):
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
        ensemble.activation(2).differentiate(u, values)
        for own, average in zip(values.swapaxes(0, 1), reference.averages, strict=True):
            found.append((own @ own.swapaxes(1, 2) / n - average)[:, *pairs])
    return np.concatenate(found, axis=1)
