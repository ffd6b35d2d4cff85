"""Trained networks by what they differ in from a line: less noise from the same networks.

At infinite width z descends by Θ alone, so that z(t) ≈ z°(t) = y + A_t (z(0) − y) in every network,
A_t known, and H(t) ≈ H(0). What is measured is the difference, smaller by n^{-1/2} or more;
the mean of the rest is that of networks at initialization, which cost little: E z(0) is 0 exactly,
and E z(0)z(0) and E H(0) are sampled. Whatever A_t is, no mean is changed by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derive.network import Network

from ..arrays import Array
from ..flows import flow
from ..simulations import simulate
from .averages import Basis

MORE = 4
"""So many networks at initialization for each that is trained."""


@dataclass(frozen=True, eq=False)
class Line:
    """What Θ alone makes of z − y, and the means at initialization.

    Attributes:
        maps: A_t, (steps, samples, samples).
        fixed: what z tends to by Θ alone from z(0) = 0 at each step, (steps, samples, outputs).
        kernel, tangent: E z(0)z(0) and E H(0) of an output, (samples, samples).
        kernel_se, tangent_se: their standard errors.
    """

    maps: Array
    fixed: Array
    kernel: Array
    kernel_se: Array
    tangent: Array
    tangent_se: Array

    @property
    def covariance(self) -> tuple[Array, Array]:
        """Of z°, (steps, samples, samples), and its standard error, at most."""
        size = abs(self.maps)
        moved = self.maps @ self.kernel @ self.maps.transpose(0, 2, 1)
        return moved, size @ self.kernel_se @ size.transpose(0, 2, 1)


def line(
    net: Network,
    X: Array,
    targets: Array,
    eta: float,
    steps: Sequence[int],
    width: int,
    depth: int,
    draws: int,
    seed: int,
) -> Line:
    """The line of these networks, the training inputs first in X."""
    training = len(targets)
    theta = flow(net, X, depth, "Theta", width=width)["Theta"].to_numpy()[-1]
    basis = Basis.of(theta, training)
    rates = 1 - eta * basis.theta
    y = np.zeros((len(X), targets.shape[1]))
    y[:training] = basis.into[:training, :training] @ targets
    powers = [(rates**step)[:, None] for step in steps]
    start = simulate(
        net, X, width, depth, draws=MORE * draws, tensors=["K", "Theta"], seed=seed
    ).isel(layer=-1)
    kernel, kernel_se, tangent, tangent_se = (
        start[name].to_numpy() for name in ("K", "K_se", "Theta", "Theta_se")
    )
    return Line(
        np.array([basis.back @ (power * basis.into) for power in powers]),
        np.array([basis.back @ (y - power * y) for power in powers]),
        kernel,
        kernel_se,
        tangent,
        tangent_se,
    )
