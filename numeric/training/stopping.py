"""Early stopping: a network whose loss on inputs apart no longer falls is trained no further.

It is taken back to the step at which that loss was least. Networks side by side stop each by
itself; those that have go on being descended, to no effect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array
from .losses import per_input
from .networks import Networks


class Patience(NamedTuple):
    """When a network stops.

    Attributes:
        targets: of the inputs behind the training set's, (validation, outputs).
        steps: in which its loss on them has not fallen.
    """

    targets: Array
    steps: int


class Stopping:
    """Which networks have stopped, and what the others would be taken back to.

    Arguments:
        networks: at initialization, which is where the loss is least so far.
    """

    def __init__(self, networks: Networks, patience: Patience) -> None:
        self.networks, (self.targets, self.patience) = networks, patience
        self.best, self.least = networks.parameters.copy(), self._losses()
        self.waited = np.zeros(len(self.least), np.int64)

    @property
    def stopped(self) -> Array:
        """1 for a network that has, (networks, 1)."""
        return np.asarray(self.waited >= self.patience, float)[:, None]

    def descend(self, steps: int) -> None:
        """So many steps of the networks that have not."""
        for _ in range(steps):
            going = self.waited < self.patience
            if not going.any():
                return
            self.networks.descend(1)
            losses = self._losses()
            better = going & (losses < self.least)  # not so where it has diverged
            self.least[better] = losses[better]
            self.best[better] = self.networks.parameters[better]
            self.waited = np.where(better, 0, self.waited + 1)
            done = self.waited >= self.patience
            self.networks.parameters[done] = self.best[done]

    def _losses(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.networks.outputs(self.networks.tests)
            return np.asarray(per_input(z, self.targets, self.networks.work.loss).sum(axis=1))
