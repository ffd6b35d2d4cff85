"""Losses on each input: of outputs z and targets y, both (…, inputs, outputs)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array

LOSSES = ("squared", "cross-entropy", "sigmoid cross-entropy")
"""½ Σ (z − y)²; −Σ y log p with p the softmax of z; the same with p ∝ 1/(1 + e^{−z}), which is what
Keras makes of sigmoid outputs."""


def per_input(z: Array, targets: Array, loss: str) -> Array:
    """Each input's loss, (…, inputs).

    >>> per_input(np.zeros((1, 10)), np.eye(10)[:1], "cross-entropy").round(4)  # log 10
    array([2.3026])
    """
    if loss == "squared":
        return np.asarray(((z - targets) ** 2).sum(axis=-1) / 2)
    logs = z if loss == "cross-entropy" else -np.logaddexp(0, -z)
    return np.asarray(-(targets * log_softmax(logs)).sum(axis=-1))


def slope(z: Array, targets: Array, loss: str) -> Array:
    """The losses' derivatives by the outputs, (…, inputs, outputs), of targets that add to 1 where
    they are probabilities.

    >>> slope(np.zeros((1, 4)), np.eye(4)[:1], "cross-entropy")
    array([[-0.75,  0.25,  0.25,  0.25]])
    """
    if loss == "squared":
        return np.asarray(z - targets)
    logs = z if loss == "cross-entropy" else -np.logaddexp(0, -z)
    off = np.exp(log_softmax(logs)) - targets
    return np.asarray(off if loss == "cross-entropy" else off * np.exp(-np.logaddexp(0, z)))


def log_softmax(z: Array) -> Array:
    """log(e^{z_i} / Σ_j e^{z_j}), over the last axis."""
    from_most = z - z.max(axis=-1, keepdims=True)
    return np.asarray(from_most - np.log(np.exp(from_most).sum(axis=-1, keepdims=True)))
