"""Ensembles that are trained, level by level: which controls apply, and what all networks come to.

Where controls apply (`applied`) there are networks that are trained, more that are not, and more
yet of which no matrix is built (`control`); elsewhere those that are trained alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from derive.work.progress import quiet, telling
from derive.work.resources import check_memory, check_time, number

from ..arrays import Array
from ..runs import chunks
from ..samplers.ensemble import MASKS
from . import control, means
from .arguments import skips
from .ensembles import Training
from .networks import reads_alone

_ELSEWHERE = 1 << 60
"""The number of the first network that is not trained."""


class Applied(NamedTuple):
    """Which controls apply.

    Attributes:
        linear: networks are measured by what differs from descent by their own H(0).
        mirrored: a network has the law of the one whose outputs are its negative.
        antithetic: networks are trained from both signs of the readout.
    """

    linear: bool
    mirrored: bool
    antithetic: bool


def applied(work: Training, *, antithetic: bool) -> Applied:
    """Which apply to these networks, where both signs of the readout are wanted or not."""
    ensemble, rule = work.ensemble, work.rule
    net, depth = ensemble.net, ensemble.depth
    alone, rotates = reads_alone(ensemble), net.keeps_rotations
    places = math.prod(net.layer.output_axes)
    plain = rule.kind == "tensorial" and rule.clip is None and work.loss == "squared"
    whole = work.batch * places == len(work.targets) and work.patience is None
    masked = MASKS in ensemble.layers.needs
    linear = plain and whole and (alone or rotates) and not masked
    signs = antithetic and linear and alone and rotates
    mirrored = rotates and (alone or not skips(net, depth))
    return Applied(linear, mirrored, signs)


@dataclass(frozen=True)
class Levels:
    """The networks of each level.

    Arguments:
        trained: what is trained, with what its controls need.
    """

    trained: Training
    controls: Applied

    @classmethod
    def of(cls, work: Training, *, antithetic: bool) -> Levels:
        """Those of networks that are to be trained so."""
        own = applied(work, antithetic=antithetic)
        linear, signs = own.linear, own.antithetic
        return cls(replace(work, origin=linear, antithetic=signs), own)

    @cached_property
    def untrained(self) -> Training:
        """Networks that are not trained."""
        one = replace(
            self.trained, steps=(), first=_ELSEWHERE, readouts=control.READOUTS, antithetic=False
        )  # fmt: skip
        more = control.more(self.trained.seconds / one.seconds) if self.controls.linear else 0
        return replace(one, draws=more * self.trained.draws)

    @cached_property
    def _lazy_seconds(self) -> float:
        """Of a network of which no matrix is built."""
        work, ensemble = self.trained, self.trained.ensemble
        stages = 1 if work.compiled else max(1, len(work.parts) / ensemble.depth)
        return stages * means.seconds(ensemble)

    @cached_property
    def lazy(self) -> int:
        """Networks of which no matrix is built."""
        work = self.trained
        if not self.controls.linear:
            return 0
        return control.lazy(work.seconds / self._lazy_seconds) * work.draws

    @property
    def seconds(self) -> float:
        """Of all networks, roughly."""
        found = sum(work.draws * work.seconds for work in (self.trained, self.untrained))
        return found + (self.lazy * self._lazy_seconds if self.lazy else 0.0)

    @property
    def blocks(self) -> int:
        """Independent parts that every standard error rests on, at least."""
        draws = self.trained.draws
        return min(draws, means.BATCHES) if self.controls.linear else draws

    def check(self, *, kept: bool) -> None:
        """InputError for what takes too much memory or, unless it is kept, too much time."""
        work, others = self.trained, self.untrained
        own = control.numbers(work.samples * work.targets.shape[1], len(work.steps))
        held = 8 * (work.draws * work.row + others.draws * (others.row + own))
        check_memory("draws", work.draws, held, self._what)
        if not kept:
            check_time("draws, steps", (work.draws, max(work.steps)), self.seconds, self._what)

    @property
    def _what(self) -> str:
        return f"training {_networks(self.trained)}"

    def measured(self, options: chunks.Options) -> dict[str, Array]:
        """Means over networks, covariances, and standard errors."""
        work, own = self.trained, self.controls
        with np.errstate(over="ignore", invalid="ignore"):
            rows = chunks.rows(work, options, self._what, work.draws * work.seconds)
            if not own.linear:
                return control.plain(work.course(rows))
            others, elsewhere = self.untrained, replace(options, run=None)
            starts = chunks.rows(
                others, elsewhere, f"drawing {_networks(others)}", others.draws * others.seconds
            )
            return control.controlled(
                work.course(rows), work.start(rows), others.start(starts),
                self._known(options), work.targets, work.rule.eta, work.steps,
                mirrored=own.mirrored,
            )  # fmt: skip

    def _known(self, options: chunks.Options) -> means.Known:
        """Of networks of which no matrix is built."""
        what = f"averaging {number(self.lazy)} networks of width {self.trained.ensemble.width}"
        with quiet() if options.progress else telling(what, self.lazy * self._lazy_seconds):
            return means.known(self.trained.ensemble, self.lazy)


def _networks(work: Training) -> str:
    return f"{number(work.draws)} networks of width {number(work.ensemble.width)}"
