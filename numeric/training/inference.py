"""A network's outputs given data, by theory: Bayesian inference with finite networks, to order 1/n.

posterior(net, inputs, targets, test, depth=4, noise=0.01)["prediction1"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.citations import rests_on
from derive.engine.tensors import named
from derive.errors import InputError
from derive.network import Network
from derive.training import inference
from derive.work.progress import telling

from ..arrays import Array
from ..checks import real
from ..flows import flow as tensors_of
from . import layout
from .arguments import checked_network, given
from .averages import SINGULAR, contracted, joined, labelled
from .rounding import with_errors


@rests_on("roberts2022")
def posterior(
    net: Network,
    inputs: ArrayLike,
    targets: ArrayLike,
    test: ArrayLike | None = None,
    depth: int | None = None,
    noise: float = 0.0,
    outputs: int | None = None,
    *,
    width: int | None = None,
) -> xarray.Dataset:
    """Mean and covariance of a network's outputs given targets, over networks at initialization.

    Networks are drawn as at initialization, and y = z + √noise·(normal) is seen at the training
    inputs, so that the law of z is p(z|y) ∝ p(z) e^{−Σ(y − z)²/(2 noise)}; without noise z = y
    there. As n → ∞ it is that of a Gaussian process of covariance K. At order 1/n the cumulants G1
    and V of the outputs enter, and tie several outputs together, unlike those of the process.
    Derived in `derive.training.posterior`.

    Arguments:
        net: the network; of any σ.
        inputs: (N, n_0), where targets are seen, or (n_0,) for one; of a network of convolutions
            as those of `flow`.
        targets: y, (N,) for one output, or (N, outputs); a number for one input; as `flow`'s.
        test: (T, n_0) or (n_0,), other inputs; none by default.
        depth: layers of preactivations, counted from 1, the last one the output's; all of the
            network's widths by default.
        noise: the variance of the noise, 0 or more.
        outputs: of the network; as many as the targets have by default.
        width: as that of `numeric.flow`.

    Returns:
        `prediction`, the mean given the data, and `covariance`, of z without its noise, on the axes
        `sample_1`, `sample_2`, those of the training set first, then the tests'; with more than one
        output `output_1`, `output_2` after them. prediction1 and covariance1 are the coefficients
        of 1/n. Beside each stands `…_error`, what the errors of the tensors and rounding change.

    Raises:
        InputError: for arguments that cannot be used, and as `numeric.flow` does; for dropout; for
            a skip around one matrix as the last layer; where K is singular on the training inputs,
            and there is no noise; for targets so large that numbers overflow.

    >>> from derive import Network
    >>> table = posterior(Network("tanh", C_b=1), [1.0, 0.5], 1.0, [0.0, 0.5], depth=2)
    >>> table["prediction"].to_numpy().round(4), table["prediction1"].to_numpy().round(4)
    (array([1.    , 0.9174]), array([0.    , 0.0038]))
    """
    _, group = checked_network(net, depth)
    data = given(net, inputs, targets, test, outputs)
    variance = _checked_noise(noise)
    names = {"K": named("K")} | {
        factor.name.label: factor.name
        for each in inference.FREE
        for term, _ in inference.terms(each, 1, group)
        for factor in term.tensors
    }
    with telling(f"inference from {len(data.targets)} samples", data.samples**4 * 1e-5):
        table = tensors_of(net, data.X, depth, list(names.values()), width=width)
        last = int(table["layer"][-1])
        values, errors = layout.tensors_at(table, last, names, data.samples)
        basis = _Basis.of(values["K"], len(data.targets), variance)
        if basis.values.min() <= SINGULAR * basis.values.max():
            wanted = "above 0, as K is singular on the training inputs, alike or collinear ones"
            raise InputError("noise", noise, wanted)
        with np.errstate(over="ignore", invalid="ignore"):
            found = with_errors(
                values, errors, lambda moved: _moments(moved, data.targets, variance, group)
            )
        if not all(np.isfinite(each).all() for pair in found.values() for each in pair):
            largest = float(abs(data.targets).max())
            raise InputError("targets", largest, "smaller ones: the numbers overflow")
    about = {"depth": last, "noise": variance}
    arrays = {name: x for name, (x, _) in found.items()}
    arrays |= {f"{name}_error": error for name, (_, error) in found.items()}
    return layout.dataset(net, data.X, data.targets, None, arrays, about)


def _checked_noise(noise: object) -> float:
    wanted = "a finite variance, 0 or more"
    variance = real("noise", noise, wanted)
    if variance < 0:
        raise InputError("noise", noise, wanted)
    return variance


class _Basis(NamedTuple):
    """Labels: the eigenvectors of C = K + noise on the training set, then what is left of each
    sample, z − K C⁻¹ y, in whose K the noise is too.

    Attributes:
        values: c, of the eigenvectors.
        into: (labels, samples), which takes samples to labels.
        pulls: (samples, eigenvectors), K C⁻¹.
    """

    values: Array
    into: Array
    pulls: Array

    @classmethod
    def of(cls, K: Array, training: int, noise: float) -> _Basis:
        """From K of all samples, those of the training set first."""
        values, U = np.linalg.eigh(K[:training, :training] + noise * np.eye(training))
        with np.errstate(divide="ignore", invalid="ignore"):
            pulls = K[:, :training] @ U / values
        left = np.eye(len(K))
        left[:, :training] -= pulls @ U.T
        if not noise:
            left[:training] = 0.0
        eigenvectors = np.zeros((training, len(K)))
        eigenvectors[:, :training] = U.T
        return cls(values, np.concatenate([eigenvectors, left]), pulls)


def _moments(
    tensors: Mapping[str, Array], targets: Array, noise: float, group: str
) -> dict[str, Array]:
    training = len(targets)
    basis = _Basis.of(tensors["K"], training, noise)
    y = basis.into[:training, :training] @ targets
    moved = {name: labelled(each, basis.into) for name, each in tensors.items()}
    moved["K"][training:, training:] += noise * basis.pulls @ basis.pulls.T
    found = {"prediction": basis.pulls @ y}
    for name, order, called in (
        ("prediction", 1, "prediction1"),
        ("covariance", 0, "covariance"),
        ("covariance", 1, "covariance1"),
    ):
        found[called] = sum(
            (
                float(weight) * _term(term, moved, y, basis.values)
                for term, weight in inference.terms(name, order, group)
            ),
            np.zeros(()),
        )
    if not noise:
        found["prediction"][:training] = targets
    return found


def _term(term: inference.Term, tensors: Mapping[str, Array], y: Array, c: Array) -> Array:
    """One term, (samples …, outputs …) of the free labels."""
    training, outputs = y.shape
    first = term.free + len(term.inverses)
    operands = [(1 / c, [label]) for label in term.inverses]
    for factor in term.tensors:
        cut = tuple(
            slice(training, None) if a < term.free else slice(training) for a in factor.labels
        )
        operands.append((tensors[factor.name.label][cut], list(factor.labels)))
    of_lines, loops = joined(term.lines, first, outputs, lambda _: y)
    operands += of_lines
    result = [*range(term.free), *(first + k for k in range(term.free))]
    return np.asarray(loops * contracted(operands, result))
