"""Arithmetic for the equations of a layer on a GPU: `samplers.arithmetic` there.

Numbers without neurons, the collective variables, are few: functions of them are the host's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from derive.activations import Activation
from derive.arithmetic.parameters import Value
from derive.engine.scores import Scores
from derive.engine.stages import Stage
from derive.engine.taps import Taps

from ..arrays import Array
from ..estimators.polynomials import Structure
from ..estimators.probes import Probes
from ..layers.tapped import Reader
from ..random.lazy import COLUMN, DIAGONAL, FACTOR, HAAR, Step
from ..random.philox import padded
from ..samplers import jets
from ..samplers.arithmetic import Arithmetic, heads_of
from ..samplers.ensemble import Ensemble
from . import jet_kernels, kernels, statistics
from .activations import activation_kernels
from .device import THREADS, Rooms, blocks, sent


class CudaArithmetic(Arithmetic):
    """On a GPU; arguments as of `Arithmetic`.

    Attributes:
        room: what one layer's matrices need and the next one's can have.
    """

    def __init__(
        self, ensemble: Ensemble, probes: Probes, draws: NDArray[np.int64], room: Rooms
    ) -> None:
        super().__init__(ensemble, probes, draws)
        self.room = room
        self._grid = blocks(draws.size), THREADS
        self._networks, self._key = sent(draws), sent(ensemble.key)
        self._splits, self._rule = sent(jets.splits(probes)), sent(probes.chain_rule)
        self._raising = sent(probes.raising)

    def _new(self, *shape: int, precision: str | None = None) -> Array:
        whole = self.draws.size, *shape
        made: Array = cuda.device_array(whole, precision or self.room.precision)
        return made

    def constant(self, x: Array) -> Array:
        """See `Arithmetic`."""
        whole = np.broadcast_to(x, (self.draws.size, *x.shape))
        made: Array = sent(jets.constant(self.probes, whole))
        return made

    def added(self, terms: Sequence[Array]) -> Array:
        """See `Arithmetic`."""
        total, *others = terms
        for each in others:
            shape = np.broadcast_shapes(total.shape, each.shape)
            out = self._new(*shape[1:])
            jet_kernels.add[self._grid](total, each, out)
            total = out
        return total

    def scaled(self, x: Array, factor: float) -> Array:
        """See `Arithmetic`."""
        return x if factor == 1.0 else self._filled(x, factor, x.shape[3])

    def divided(self, x: Array, n: int) -> Array:
        """See `Arithmetic`."""
        return self._filled(x, 1.0 / n, x.shape[3])

    def spread(self, x: Array, n: int) -> Array:
        """See `Arithmetic`."""
        return self._filled(x, 1.0, n)

    def _filled(self, x: Array, factor: float, n: int) -> Array:
        out = self._new(*x.shape[1:3], n)
        jet_kernels.fill[self._grid](x, factor, out)
        return out

    def times(self, x: Array, y: Array) -> Array:
        """See `Arithmetic`."""
        out = self._new(*y.shape[1:])
        jet_kernels.multiply[self._grid](x, y, self._splits, out)
        return out

    def total(self, x: Array) -> Array:
        """See `Arithmetic`."""
        out = self._new(*x.shape[1:3], 1)
        jet_kernels.total[self._grid](x, out)
        return out

    def summed(self, x: Array, y: Array) -> Array:
        """See `Arithmetic`."""
        out = self._new(*y.shape[1:3], 1)
        jet_kernels.contract[self._grid](x, y, self._splits, out)
        return out

    def activated(self, Z: Array, order: int, sigma: Activation, *, kept: bool) -> Array:
        """See `Arithmetic`."""
        if kept:
            Z = self._filled(Z, 1.0, Z.shape[3])
        count, m, n = Z.shape[1:]
        orders = self.probes.order + order + 1
        rows, derivatives = Z.reshape(Z.shape[0], count * m, n), self._new(orders, m, n)
        activation_kernels(sigma, orders).differentiate[self._grid](rows, derivatives)
        kernels.chain[self._grid](rows, derivatives[:, order:], self._rule)
        return Z

    def attended(self, parts: Sequence[Array], scores: Scores, positions: int) -> Array:
        """See `Arithmetic`: A itself, a few numbers of each network, is the host's."""
        query, key, value = parts
        heads, (_, count, samples, n) = heads_of(parts, scores), query.shape
        products: Any = self._new(count, samples, positions, heads, precision="f8")
        scale = float(n // heads) ** -float(scores.power)
        jet_kernels.score[self._grid](query, key, self._splits, scale, products)
        here = products.copy_to_host()
        weights = [*self.weight_jets(here, scores, samples // positions)]
        out = self._new(*value.shape[1:])
        jet_kernels.attend[self._grid](sent(np.stack(weights, 3)), value, self._splits, out)
        return out

    def masked(self, body: Array, keep: Value, stream: int) -> Array:
        """See `Arithmetic`."""
        here: Any = body
        made: Array = sent(super().masked(here.copy_to_host(), keep, stream))
        return made

    def in_sets(self, x: Array, sets: int) -> Array:
        """See `Arithmetic`."""
        here: Any = x
        found: Array = sent(super().in_sets(here.copy_to_host(), sets))
        return found

    def function(
        self, stage: Stage, number: int, orders: tuple[int, ...], means: Sequence[Array]
    ) -> Array:
        """See `Arithmetic`."""
        here: list[Any] = [mean.copy_to_host() for mean in means]  # type: ignore[attr-defined]
        found: Array = sent(super().function(stage, number, orders, here))
        return found

    def zeros(self, count: int) -> Array:
        """See `Arithmetic`."""
        found: Array = sent(super().zeros(count))
        return found

    def read(self, taps: Taps, body: Array) -> list[Array]:
        """See `Arithmetic`."""
        m = body.shape[2]
        reader = Reader(taps, m // taps.positions)
        return [self._mixed(body, reader.read(k, np.eye(m), axis=0)) for k in range(reader.count)]

    def joined(self, parts: Sequence[Array]) -> Array:
        """See `Arithmetic`."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([x.shape[2] for x in parts])
        places = np.split(np.eye(ends[-1]), ends[:-1], axis=1)
        return self.added([self._mixed(*each) for each in zip(parts, places, strict=True)])

    def parted(self, x: Array, count: int) -> list[Array]:
        """See `Arithmetic`."""
        if count == 1:
            return [x]
        return [self._mixed(x, places) for places in np.split(np.eye(x.shape[2]), count)]

    def _mixed(self, x: Array, mixture: Array) -> Array:
        out = self._new(x.shape[1], len(mixture), x.shape[3])
        jet_kernels.mix[self._grid](x, sent(mixture), out)
        return out

    def rows(self, x: Array) -> Array:
        """See `Arithmetic`."""
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3])

    def gram(self, rows: Array) -> Array:
        """See `Arithmetic`."""
        S = self._new(rows.shape[1], rows.shape[1], precision="f8")
        kernels.gram[self._grid](rows, S)
        return S

    def applied(
        self,
        steps: Sequence[Step],
        gram: Array,
        rows: Array,
        n: int,
        stream: int,
        out: Array | None = None,
    ) -> Array:
        """See `Arithmetic`; into `out`, (networks, vectors, n), if given."""
        (count, vectors, _), room = rows.shape, self.room
        out = self._new(vectors, n) if out is None else out
        X, S = rows, gram
        for t, step in enumerate(steps):
            last = t == len(steps) - 1
            Z = out if last else room.neurons(f"step{t}", (count, vectors, step.size))
            if step.kind == DIAGONAL:
                roots = cuda.to_device(np.sqrt(step.values))
                kernels.multiply_rows[self._grid](X, Z, roots, step.scale)
            else:
                n_in, drawn = X.shape[2], drawn_of(step)
                kernels.apply[self._grid](
                    S,
                    X,
                    Z,
                    room.neurons("G", (count, vectors, padded(drawn))),
                    room("matrices", (count, 3, vectors, vectors)),
                    room("spare", (count, 2, vectors, n_in)),
                    room("squares", (count, 2, vectors)),
                    self._key,
                    self._networks,
                    (step.kind, drawn, stream, COLUMN + FACTOR * t),
                    float(step.scale * np.sqrt(n_in)),
                )
            X = Z
            if not last:
                S = room("inner", S.shape)
                kernels.gram[self._grid](X, S)
        return X

    def vary(
        self,
        gram: Array,
        rows: Array,
        Z: Array,
        rates: tuple[float, float],
        samples: int,
        stream: int,
    ) -> None:
        """See `Arithmetic`."""
        (count, vectors, n_in), room = rows.shape, self.room
        kernels.vary[self._grid](
            gram,
            rows,
            Z,
            room("T", (count, vectors, vectors)),
            room("factors", (count, 2, vectors + 1, vectors)),
            room("spare", (count, 2, vectors, n_in)),
            room("squares", (count, 2, vectors)),
            room("words", (count, vectors + 1, 4 * -(-Z.shape[2] // 128)), "u8"),
            self._key,
            self._networks,
            stream,
            rates,
            self._raising,
            samples,
        )

    def evaluated(self, polynomials: tuple[Structure, Array], grams: Sequence[Array]) -> Array:
        """See `Arithmetic`."""
        structure, coefficients = polynomials
        sizes = [x.shape[1] * x.shape[2] for x in grams]
        factors = self._new(sum(sizes), precision="f8")
        values = self._new(len(structure[2]) - 1, precision="f8")
        for x, size, end in zip(grams, sizes, np.cumsum(sizes), strict=True):
            statistics.put[self._grid](x.reshape(self.draws.size, size), factors, end - size)
        statistics.evaluate[self._grid](
            factors, sent(structure), sent(coefficients[None]), 0, values
        )
        return values


def drawn_of(step: Step) -> int:
    """Normals of a column."""
    return step.big if step.kind == HAAR else step.size
