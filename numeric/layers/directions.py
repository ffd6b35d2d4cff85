"""Averages over directions: a rule on the sphere, exact up to kinks on planes through 0.

Planes cut space into cones, and each cone into simplicial ones with generators g_1 … g_r. With
u = ρ Σ x_i g_i, Σ x_i = 1,

    ∫_cone f(u) du = |det g| ∫ dx ∫ dρ ρ^{r−1} f(ρ Σ x_i g_i) ,

so that a direction has the weight |det g| |Σ x_i g_i|^{−r} dx over the area of the sphere. On the
simplex of the x stands the conical product of Gauss–Jacobi rules (Stroud, 1971).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy

from derive.work.caches import cache

from ..arrays import Array

_ZERO = 1e-11
"""Sines of angles that are taken for 0."""


_WIDE = math.cos(1.75)
"""The cosine of the largest angle between edges of a cone."""


class Directions(NamedTuple):
    """Unit vectors, (count, r), and their weights, which sum to 1 but for the rule's error."""

    vectors: Array
    weights: Array


def cones(planes: Array) -> list[Array]:
    """Simplicial cones that no plane cuts; in each the generators are columns, of length 1.

    Arguments:
        planes: normals, (planes, r). If they do not span space, others at right angles are added.
    """
    r = planes.shape[1]
    norms = np.linalg.norm(planes, axis=1)
    planes = planes[norms > _ZERO * max(1.0, norms.max(initial=0.0))]
    planes = planes / np.linalg.norm(planes, axis=1, keepdims=True)
    chosen, others = list[Array](), list[Array]()
    for plane in planes:
        (chosen if _distance(plane, chosen) > 1e-6 else others).append(plane)
    *_, axes = np.linalg.svd(np.array(chosen).reshape(-1, r))
    rays = np.linalg.inv(np.concatenate([np.array(chosen).reshape(-1, r), axes[len(chosen) :]]))
    found = [rays * np.array(signs) for signs in product((1.0, -1.0), repeat=r)]
    for plane in others:
        found = [part for each in found for part in _split(each, plane)]
    return [part for each in found for part in _narrow(each / np.linalg.norm(each, axis=0))]


def _narrow(cone: Array) -> Iterator[Array]:
    """The parts of a simplicial cone in which no edges are farther apart than `_WIDE`."""
    cosines = np.triu(cone.T @ cone) + np.tril(np.ones((len(cone),) * 2), -1)
    i, j = np.unravel_index(np.argmin(cosines), cosines.shape)
    if cosines[i, j] > _WIDE:
        yield cone
        return
    middle = cone[:, i] + cone[:, j]
    for place in (i, j):
        part = cone.copy()
        part[:, place] = middle / np.linalg.norm(middle)
        yield from _narrow(part)


def _distance(plane: Array, chosen: list[Array]) -> float:
    """The length of what a unit normal has outside the span of others."""
    if not chosen:
        return 1.0
    basis, _ = np.linalg.qr(np.array(chosen).T)
    return float(np.linalg.norm(plane - basis @ (basis.T @ plane)))


def _split(cone: Array, plane: Array) -> Iterator[Array]:
    """The parts of a simplicial cone on both sides of a plane."""
    cone = cone / np.linalg.norm(cone, axis=0)
    heights = plane @ cone
    above, below = (np.flatnonzero(side * heights > _ZERO) for side in (1.0, -1.0))
    if not above.size or not below.size:
        yield cone
        return
    i, j = int(above[0]), int(below[0])
    cut = cone[:, i] * -heights[j] + cone[:, j] * heights[i]
    for place in (i, j):
        part = cone.copy()
        part[:, place] = cut
        yield from _split(part, plane)


def directions(parts: list[Array], points: int) -> Directions:
    """The rule, with so many points along each edge of a simplex.

    Arguments:
        parts: as `cones` makes them.
    """
    r = len(parts[0])
    x, w = _simplex(r - 1, points)
    area = 2.0 * math.pi ** (r / 2) / math.gamma(r / 2)
    vectors, weights = list[Array](), list[Array]()
    for part in parts:
        rays = x @ part.T
        lengths = np.linalg.norm(rays, axis=1)
        vectors.append(rays / lengths[:, None])
        weights.append(abs(np.linalg.det(part)) / area * w * lengths**-r)
    return Directions(np.concatenate(vectors), np.concatenate(weights))


@cache(entries=64)
def _simplex(dimension: int, points: int) -> tuple[Array, Array]:
    """Points (count, dimension + 1) of coordinates that sum to 1, and weights."""
    left, weights = np.ones(1), np.ones(1)
    columns = list[Array]()
    for k in range(dimension, 0, -1):
        t, w = scipy.special.roots_jacobi(points, k - 1, 0.0)
        t, w = 0.5 * (1.0 + t), w * 0.5**k
        columns = [np.repeat(each, points) for each in columns]
        columns.append((left[:, None] * t).ravel())
        weights = (weights[:, None] * w).ravel()
        left = (left[:, None] * (1.0 - t)).ravel()
    return np.stack([*columns, left], axis=1), weights
