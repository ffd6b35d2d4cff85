"""A Jacobian as it is multiplied up: as a product of two matrices where its rank is low."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Array


@dataclass(frozen=True, eq=False)
class Jacobian:
    """J = left · right, or `right` alone where there is no left.

    Arguments:
        left: (n, rank) or None.
        right: (rank, n) or (n, n).
    """

    left: Array | None
    right: Array

    def times(self, matrix: Array) -> Array:
        """matrix · J, for a matrix of as many columns as J has rows."""
        first = matrix if self.left is None else matrix @ self.left
        return first @ self.right

    def scaled(self, slopes: Array) -> Jacobian:
        """diag(slopes) · J."""
        if self.left is None:
            return Jacobian(None, slopes[..., None] * self.right)
        return Jacobian(slopes[..., None] * self.left, self.right)

    @property
    def is_finite(self) -> bool:
        """True if all its numbers are."""
        return all(np.isfinite(each).all() for each in (self.left, self.right) if each is not None)

    def square(self) -> float:
        """tr JJᵀ."""
        if self.left is None:
            return float(np.vdot(self.right, self.right))
        return float(np.vdot(self.left.T @ self.left, self.right @ self.right.T))

    def lengths(self) -> Array:
        """|J e|² of the unit vectors e."""
        rows = self.right if self.left is None else (self.left.T @ self.left) @ self.right
        return np.asarray(np.einsum("ij,ij->j", self.right, rows))

    def column(self, number: int) -> Array:
        """J e, e a unit vector."""
        v: Array = self.right[:, number]
        return v if self.left is None else np.asarray(self.left @ v)

    @cached_property
    def small(self) -> Array:
        """A matrix with the same JᵀJ, of as many rows as J has rank, or n."""
        if self.left is None:
            return self.right
        return np.asarray(np.linalg.qr(self.left, mode="r") @ self.right)

    def singular_values(self) -> Array:
        """All n of them, descending; those beyond the rank are 0."""
        values = np.linalg.svd(self.small, compute_uv=False)
        return np.concatenate([values, np.zeros(self.right.shape[1] - len(values))])

    def moments(self, count: int) -> Array:
        """(1/n) tr (JJᵀ)^k, k = 1 … count: of two symmetric powers, the sum of the products of
        their entries."""
        J, n = self.small, self.right.shape[1]
        found = [np.vdot(J, J)]
        if count > 1:
            power = gram = J @ J.T
            found.append(np.vdot(gram, gram))
            while len(found) < count:
                further = power @ gram
                found += [np.vdot(power, further), np.vdot(further, further)]
                power = further
        return np.asarray(np.array(found[:count]) / n)
