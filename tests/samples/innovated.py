"""Ensembles of any layer with little chance left: K, G1 and V less what innovations explain.

    innovated(net, inputs, width=48, depth=6)

Pilot networks tell the mean Gram matrices, and by least squares the slopes β of each K_ab in the
innovations c below it (`staged_innovations`). The others then have controls of mean zero:
c, what responds to Gram matrices that are off, c c' of frames, norms and means that are taken off,
and ĝ ĝ − D of every two components, for ĝ = β·c and D = Σ h h/n². They are all that K has to second
order, if `MOST` leaves them all in: what is left of it is of order n^{-3/2}, where K fluctuates by
n^{-1/2}, so that G1 = n(E K − K) has an error that falls with n; of V ~ n ĝ ĝ what is left is
smaller by the root of L/n. Seen at 64 and 512 neurons in layers 2 to 4 behind the layers of the
tests, with biases. Skips around one matrix, whose σ is taken of what is carried, are refused. The
fit leaves out the draw that it is applied to (`estimators.controls`), so that averages are unbiased
at every width; of the product of two in V their covariance is taken off. Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray
from staged_innovations import (
    Group,
    InnovatingSampler,
    Means,
    own_squares,
    reduced,
    spread,
)

from derive.errors import InputError
from derive.network import Network
from derive.recursions import wanted
from numeric.arrays import Array
from numeric.estimators import Plan, Probes, adjusted, components, expanded, plan_of
from numeric.flows import flow
from numeric.samplers import Ensemble, checked_ensemble
from numeric.samplers.base import keep_memory
from numeric.tables import layout

PILOT = 512
"""Networks that tell the mean Gram matrices."""
LEARNED = 4096
"""And the slopes."""
CHUNK = 8192
"""Networks whose averages are taken together."""
MOST = 2048
"""Controls of one layer; of the products those of the latest stages."""
_OFFSET = 1 << 40
"""Networks of the pilot have numbers from here on: none of the others is among them."""
_REPEATS = 1e-8
"""Of the largest singular value: slopes in less are 0."""
_DIGITS = 1e-12
"""Of K: what the means of controls, which may explain all of it, are rounded to."""
_HELD = 1 << 19
"""Numbers of one layer that are held at a time."""


@dataclass(frozen=True)
class Places:
    """Which statistics K and V are made of.

    Attributes:
        pairs: of inputs.
        K: the statistic of each pair.
        V: of each component the statistic of four z, and which pairs it joins.
        members: the components that are equal by symmetry.
    """

    pairs: tuple[tuple[int, int], ...]
    K: tuple[int, ...]
    V: tuple[tuple[int, int, int], ...]
    members: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class Part:
    """What some networks come to: averages of K_ab − K and V's components, with their covariances.

    Attributes:
        draws: networks.
        values: (depth, pairs of inputs + components of V), the theory's K taken off.
        covariances: of one layer's averages, (depth, averages, averages).
    """

    draws: int
    values: Array
    covariances: Array


@dataclass(frozen=True)
class Innovated:
    """An ensemble at one width, its pilot drawn.

    Attributes:
        ensemble: the networks.
        sampler: what follows them.
        K: the theory's, (depth, pairs).
        means: the mean Gram matrices.
        slopes: β of each layer's K_ab in the innovations, (pairs, functions).
    """

    ensemble: Ensemble
    sampler: InnovatingSampler
    places: Places
    K: Array
    means: Means
    slopes: list[Array]

    @property
    def _batch(self) -> int:
        return max(1, _HELD // self.sampler.numbers)

    def part(self, number: int) -> Part:
        """The networks of this chunk, from 0, `CHUNK` of them."""
        depth, count = self.K.shape
        four, first, second = np.array(self.places.V).T
        both = np.triu_indices(count)
        y: list[list[Array]] = [[] for _ in range(depth)]
        c: list[list[Array]] = [[] for _ in range(depth)]
        draws = np.arange(number * CHUNK, (number + 1) * CHUNK)
        for batch in _batches(draws, self._batch):
            chance = _Chance(both)
            for layer, (values, groups, crossed) in enumerate(
                self.sampler.followed(batch, self.means)
            ):
                K, off = self.K[layer], values[:, self.places.K] - self.K[layer]
                # M − K_ab K_cd, less (K_ab − K) K_cd + K_ab (K_cd − K)
                v = values[:, four] - K[first] * K[second]
                v -= K[first] * off[:, second] + off[:, first] * K[second]
                y[layer].append(np.concatenate([off, v], axis=1))
                if groups:
                    c[layer].append(chance.columns(groups, crossed, self.slopes[layer]))
        found = [_average(*each) for each in zip(y, c, strict=True)]
        values, covariances = (np.array(each) for each in zip(*found, strict=True))
        return Part(len(draws), values, covariances)

    def table(self, parts: Sequence[Part]) -> xarray.Dataset:
        """What parts come to, as `simulate` has it.

        Controls may explain all of K, to rounding: its errors are 10^{-12} of the layer's largest K
        at least, those of G1 n times that, of V n times 10^{-12} of its square.
        """
        draws = sum(each.draws for each in parts)
        share = [each.draws / draws for each in parts]
        values = sum(s * each.values for s, each in zip(share, parts, strict=True))
        own = sum(s**2 * each.covariances for s, each in zip(share, parts, strict=True))
        return self._table(np.asarray(values), np.asarray(own), draws)

    def _table(self, values: Array, covariances: Array, draws: int) -> xarray.Dataset:
        ensemble, places, n = self.ensemble, self.places, float(self.ensemble.width)
        depth, count = self.K.shape
        m, single = self.sampler.plan.samples, ensemble.data.single
        off, errors = values[:, :count], _deviations(covariances[:, :count, :count])
        digits = _DIGITS * self.K.max(axis=1, keepdims=True)
        errors = np.hypot(errors, digits)
        pairs = tuple((pair, pair[::-1]) for pair in places.pairs)
        V, V_errors = lowered(places, values, covariances)
        V_errors = np.hypot(V_errors, digits * self.K.max(axis=1, keepdims=True))
        numbers: dict[str, tuple[tuple[tuple[tuple[int, ...], ...], ...], Array, Array]] = {
            "K": (pairs, off + self.K, errors),
            "G1": (pairs, n * off, n * errors),
            "V": (places.members, n * V, n * V_errors),
        }
        arrays = {}
        for name, (members, value, error) in numbers.items():
            dims = layout.axes(len(members[0][0]), single=single)
            for suffix, each in (("", value), ("_se", error)):
                whole = np.zeros((depth, *[m] * len(members[0][0])))
                for k, places_of in enumerate(members):
                    for place in places_of:
                        at: tuple[slice | int, ...] = (slice(None), *place)
                        whole[at] = each[:, k]
                arrays[name + suffix] = xarray.Variable(
                    dims, whole.reshape(whole.shape[: len(dims)])
                )
        about: dict[str, int | float | str] = {
            "width": ensemble.width,
            "draws": draws,
            "seed": ensemble.seed,
        }
        about |= {"blocks": draws // 64, "sampler": self.sampler.name}
        return layout.dataset(
            arrays,
            range(1, depth + 1),
            about,
            net=ensemble.net,
            inputs=ensemble.data.given,
            symbols=ensemble.symbols,
        )


def innovated(
    net: Network, inputs: ArrayLike, width: int, depth: int, *, seed: int = 0
) -> Innovated:
    """K, G1 and V of an ensemble at one width, with what innovations explain taken out.

    Arguments:
        net: of any layer that is invariant under rotations, as a skip around one matrix is not,
            under Gaussian or orthogonal weights.
        inputs: as in `simulate`; linearly independent ones.
        width, depth, seed: as in `simulate`.

    Its `part(k)` draws networks 8192 k to 8192 (k + 1) − 1, with a fit of their own, and `table`
    makes of several parts a table as that of `simulate`, K, G1 and V for layers 1 … depth.

    Raises InputError for other layers and weights, where vectors of a network are linearly
    dependent, and as `simulate` does. Derived here.

    >>> from derive import Gaussian
    >>> net = Network("tanh", Gaussian(1), layer="normalized(rms)")
    >>> ensemble = innovated(net, [1.0, 0.5], 24, 2)
    >>> table = ensemble.table([ensemble.part(0)])
    >>> table.attrs["draws"], bool(table["V_se"][1] < 0.01 * table["V"][1])
    (8192, True)
    """
    ensemble = checked_ensemble(net, inputs, width, depth, seed)
    for layer in {net.layer_at(at, depth) for at in range(2, depth + 1)}:
        if not layer.is_rotation_invariant:
            raise InputError("layer", str(layer), layer.why_not)
    plan = plan_of(wanted(("K", "V"), net, depth), ensemble.data.measured)
    sampler = InnovatingSampler(ensemble, plan, Probes())
    places = _places(plan)
    a, b = np.array(places.pairs).T
    K = flow(net, inputs, depth, ["K"])["K"].values.reshape(depth, plan.samples, plan.samples)
    keep_memory()
    means = sampler.mean_grams(np.arange(_OFFSET, _OFFSET + PILOT))
    unlearned = Innovated(ensemble, sampler, places, K[:, a, b], means, [])
    return replace(unlearned, slopes=_slopes(unlearned))


def lowered(places: Places, values: Array, covariances: Array) -> tuple[Array, Array]:
    """V/n = v − k k' for averages k, k' of K's deviations, and its errors, (depth, components).

    C the averages' covariance, v − k k' + C_kk' is unbiased; to first order in the averages' errors
    it moves by δv − k' δk − k δk'. Arguments as `Part` has them. Derived here.
    """
    _, first, second = np.array(places.V).T
    count = np.arange(len(first))
    one, two = values[:, first], values[:, second]
    own = values[:, len(places.pairs) :] - one * two + covariances[:, first, second]
    slopes = np.zeros((len(values), len(first), values.shape[1]))
    slopes[:, count, len(places.pairs) + count] = 1.0
    slopes[:, count, first] -= two
    slopes[:, count, second] -= one
    return own, _deviations(slopes @ covariances @ slopes.swapaxes(1, 2))


def _deviations(covariances: Array) -> Array:
    """The roots of the diagonals, which rounding may leave below 0."""
    return np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))


def _places(plan: Plan) -> Places:
    K, V = plan.targets
    of_pair: dict[tuple[int, ...], int] = {}
    for component, places in components(K, plan.samples).items():
        ((_, (statistic,)),) = expanded(component)
        of_pair |= dict.fromkeys(places, plan.position[statistic])
    pairs = tuple(combinations_with_replacement(range(plan.samples), 2))
    own = tuple(of_pair[pair] for pair in pairs)
    rows, members = [], []
    for component, places in components(V, plan.samples).items():
        factors = {len(each): each for _, each in expanded(component)}
        (four,), (one, two) = factors[1], factors[2]
        at = own.index(plan.position[one]), own.index(plan.position[two])
        rows.append((plan.position[four], *at))
        members.append(tuple(places))
    return Places(pairs, own, tuple(rows), tuple(members))


def _slopes(given: Innovated) -> list[Array]:
    targets: list[list[Array]] = [[] for _ in given.K]
    below: list[list[Array]] = [[] for _ in given.K]
    draws = np.arange(_OFFSET + PILOT, _OFFSET + PILOT + LEARNED)
    for batch in _batches(draws, given._batch):
        for layer, (values, groups, _) in enumerate(given.sampler.followed(batch, given.means)):
            targets[layer].append(values[:, given.places.K])
            if groups:
                below[layer].append(reduced(groups))
    found = []
    for y, c in zip(map(np.concatenate, targets), below, strict=True):
        if not c:
            found.append(np.zeros((y.shape[1], 0)))
            continue
        X = np.concatenate(c)
        scale = np.maximum(X.std(axis=0), np.finfo(float).tiny)
        solved = np.linalg.lstsq(X / scale, y - y.mean(axis=0), rcond=_REPEATS)[0]
        found.append((solved / scale[:, None]).T)
    return found


class _Chance:
    """The controls of some networks, layer by layer."""

    def __init__(self, both: tuple[NDArray[np.intp], NDArray[np.intp]]) -> None:
        self._both = both
        self._products: list[Array] = []
        self._groups = self._crossed = 0

    def columns(self, groups: list[Group], crossed: list[Array], slopes: Array) -> Array:
        """All of mean zero that is known below this layer."""
        c, (moved, spent) = reduced(groups), spread(groups, slopes)
        a, b = self._both
        self._products += map(own_squares, groups[self._groups :])
        self._products += crossed[self._crossed :]
        self._products.append(moved[:, a] * moved[:, b] - spent[:, a, b])
        self._groups, self._crossed = len(groups), len(crossed)
        room = MOST - c.shape[1]
        kept = [c]
        for each in reversed(self._products):
            if each.shape[1] <= room:
                kept.append(each)
                room -= each.shape[1]
        return np.concatenate(kept, axis=1)


def _average(y: list[Array], c: list[Array]) -> tuple[Array, Array]:
    """Averages, and their covariance."""
    Y = np.concatenate(y)
    if c:
        controls = np.concatenate(c)
        scale = controls.std(axis=0)  # of all draws: one for each batch would have a mean
        Y = adjusted(Y, controls / np.where(scale > 0.0, scale, 1.0))
    return Y.mean(axis=0), np.atleast_2d(np.cov(Y, rowvar=False)) / len(Y)


def _batches(draws: NDArray[np.int64], batch: int) -> list[NDArray[np.int64]]:
    return [draws[k : k + batch] for k in range(0, draws.size, batch)]
