"""Predictions after descent, by theory: their mean and covariance to order 1/n.

flow(net, inputs, targets, test, depth=4, eta=0.1, steps=[0, 10, math.inf])["prediction1"]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.engine.orbits import Exchangeable
from derive.engine.tensors import named
from derive.engine.trees import H, Z
from derive.errors import InputError, as_sequence, flag
from derive.network import Network
from derive.training import averages
from derive.work.progress import telling
from derive.work.resources import check_memory

from ..arrays import Array
from ..flows import behind_last
from ..flows import flow as tensors_of
from ..tables import layout as tables
from ..tables.compare import VANISHES
from . import layout
from .arguments import (
    check_branches,
    check_readout,
    checked_network,
    checked_rate,
    checked_steps,
    given,
)
from .averages import Basis, Descended
from .rounding import with_errors


def flow(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    targets: ArrayLike,
    test: ArrayLike | None = None,
    depth: int | None = None,
    eta: float = 0.0,
    steps: float | Iterable[float] = math.inf,
    outputs: int | None = None,
    *,
    half: bool = True,
    width: int | None = None,
    only: Iterable[str] | None = None,
) -> xarray.Dataset:
    """Mean, covariance, tangent kernel and loss of networks trained by full-batch descent.

    Over initializations E[z] = prediction + prediction1/n + O(1/n²), and the covariance, the
    tangent kernel H and the loss alike, after t steps

        θ_μ → θ_μ − η λ_μ ∂L/∂θ_μ,    L = ½ Σ (z − y)² over training inputs and outputs,

    λ_b for biases and λ_W/n_in for weights (source 000, eqs. 6.2, 6.3): the loss is summed, not
    averaged, and half the square unless `half` is False. Derived in `derive.training`, exact in η.
    Time and memory grow as the fourth power of the samples; memory does not grow with depth.

    Arguments:
        net: the network; its λ_b and λ_W are the learning rates, its σ has a third derivative.
        inputs: (N, n_0), the training set, or (n_0,) for one. Of a network of convolutions
            (N, positions, n_0), or (positions, n_0): a sample is then a signal at a position, or,
            with a readout, a signal. Or `derive.Exchangeable(m, q, p)`: the first of the m samples
            have targets, the others are tests; tensors at initialization are those of its orbits.
        targets: y, (N,) for one output, or (N, outputs); a number for one input. With samples that
            are positions (N, positions) or (N, positions, outputs).
        test: (T, n_0) or (n_0,), inputs that nothing is trained on; none by default. As `inputs`.
        depth: layers of preactivations, counted from 1, the last one the output's; all of the
            network's widths by default.
        eta: η; 0 is gradient flow, and `steps` are then times τ = ηt.
        steps: numbers of steps, 0 or more, or times; `math.inf` is the limit.
        outputs: of the network; as many as the targets have by default.
        half: whether L has the ½.
        width: as that of `numeric.flow`.
        only: the averages that are wanted, one or several of "prediction", "covariance" and "ntk";
            all by default. The loss needs the prediction and the covariance. Without the covariance
            a third of the diagrams and 8 of 10 tensors of four samples are computed.

    Returns:
        The axis `step`, and `sample_1`, `sample_2`, those of the training set first, then the
        tests'; with more than one output `output_1`, `output_2` after them. Variables prediction,
        covariance, ntk and loss, and prediction1, …, the coefficients of 1/n. Beside each stands
        `…_error`, what the errors of the tensors at initialization and rounding change in it, and
        `…_size`, which `compare` resolves its differences against.

    Raises:
        InputError: for arguments that cannot be used, and as `numeric.flow` does; for Θ beyond
            10^±90; for σ with kinks, whose ddH does not exist; for dropout; for a skip around one
            matrix behind a norm, or as the last layer, behind which the law of the outputs is not
            invariant under rotations; where descent diverges, η Θ_max ≥ 2, and steps go on forever
            or so far that numbers overflow; and where Θ is singular on the training set, and steps
            go on forever.

    >>> from derive import Network
    >>> table = flow(Network("tanh", C_b=1), [1.0, 0.5], 1.0, depth=2, eta=0.5, steps=[0, math.inf])
    >>> table["prediction"].to_numpy().round(6), table["prediction1"].to_numpy().round(6)
    (array([[0.],
           [1.]]), array([[0.],
           [0.]]))
    """
    deep, group = checked_network(net, depth)
    if bent := next((each for each in net.activations_to(deep) if not each.is_smooth), None):
        wanted = "a smooth one: with kinks, changes of the tangent kernel (ddH) do not exist"
        raise InputError("activation", bent.name, wanted)
    check_branches(net, depth)
    half, asked = flag("half", half), _wanted(only)
    data = given(net, inputs, targets, test, outputs)
    check_readout(net, data.targets.shape[1], depth)
    if isinstance(inputs, Exchangeable):
        for scheme in net.schemes(deep, 2).distinct:
            scheme.check_without_batch(
                "functions of one sample, for exchangeable inputs in training"
            )
    rate = checked_rate(eta) * (1 if half else 2)
    times = checked_steps(steps, continuous=rate == 0)
    what = f"training on {len(data.targets)} inputs"
    with telling(what, data.samples**4 * 1e-4):
        names = tuple({*averages.tensors(group, asked), *map(named, ("K", "Theta"))})
        names = tuple(sorted(names, key=lambda name: name.label))
        rank = sum(len(name.subscripts) == 4 for name in names)
        held = 8 * (3 * rank + _WORK) * data.samples**4
        check_memory("inputs", f"{data.samples} inputs", held, f"training on {data.samples} inputs")
        if isinstance(inputs, Exchangeable):
            table = tensors_of(net, inputs, depth, names, width=width).isel(layer=[-1])
            found_of = {
                name: tuple(tables.spread(table, name, data.samples, end)[0] for end in _TWINS)
                for name in names
            }
        else:
            found_of = behind_last(net, data.X, deep, names, width)
        values, errors = (
            {name.label: np.asarray(both[k]) for name, both in found_of.items()} for k in (0, 1)
        )
        del found_of
        scaled = _Problem(data.targets, rate, times)
        theta = Basis.of(values["Theta"], len(data.targets)).theta[: len(data.targets)]
        _check_sizes(theta, scaled)
        _check_stable(theta, scaled, eta, half)
        with np.errstate(over="ignore", invalid="ignore"):
            found = with_errors(
                values, errors, lambda moved: _averages(moved, scaled, group, asked)
            )
        if not all(np.isfinite(each).all() for each in found.values()):
            if rate * theta.max() >= 2:
                wanted = f"below {_least(theta, half):.6g}, or fewer steps: descent diverges"
                raise InputError("eta", eta, wanted)
            largest = float(abs(data.targets).max())
            raise InputError("targets", largest, "smaller ones: the numbers overflow")
    if not half:
        found |= {name: (2 * x, 2 * e) for name, (x, e) in found.items() if "loss" in name}
    about: dict[str, int | float | str] = {
        "depth": deep,
        "eta": float(eta),
        "loss": "½Σ" if half else "Σ",
        "batch": data.training,
    }
    arrays = {name: x for name, (x, _) in found.items()}
    arrays |= {f"{name}_error": error for name, (_, error) in found.items()}
    arrays |= _sizes({name: x for name, (x, _) in found.items()}, values, data.targets, half)
    return layout.dataset(net, data.X, data.targets, times, arrays, about)


_TWINS = "", "_error"

_WORK = 4
"""Tensors that are made beside those that are held, their errors, and they by labels."""

_POWERS = 1e90
"""Of whose third power, that of Θ in ddH, or its inverse's, products are doubles."""


class _Problem(NamedTuple):
    targets: Array
    eta: float
    steps: tuple[float, ...]


def _least(theta: Array, half: bool) -> float:
    """The least η at which descent diverges, for Θ's eigenvalues, one of which is not 0."""
    return float((2 if half else 1) / theta.max())


def _check_sizes(theta: Array, problem: _Problem) -> None:
    """InputError for numbers whose powers are no doubles."""
    largest = float(theta.max())
    if largest and not 1 / _POWERS < largest < _POWERS:
        got = f"Θ of {largest:.3g} on the training inputs"
        wanted = f"λ and inputs for which it is between {1 / _POWERS:.0e} and {_POWERS:.0e}"
        raise InputError("net", got, wanted)
    far = max((t for t in problem.steps if math.isfinite(t)), default=0.0)
    if not problem.eta and far > _POWERS / (largest or 1.0):
        raise InputError("steps", far, "times below 1e+90/Θ_max, or math.inf, the limit")


def _check_stable(theta: Array, problem: _Problem, eta: float, half: bool) -> None:
    """InputError where there is no limit, and steps are without end."""
    if not any(map(math.isinf, problem.steps)):
        return
    if problem.eta * theta.max() >= 2:
        raise InputError("eta", eta, f"below {_least(theta, half):.6g}, where descent converges")
    if theta.min() <= 0:
        wanted = "finite numbers, as Θ is singular on the training inputs, alike or collinear ones"
        raise InputError("steps", math.inf, wanted)


def _sizes(
    found: Mapping[str, Array], values: Mapping[str, Array], targets: Array, half: bool
) -> dict[str, Array]:
    """`<name>_size`: the average's largest component after as many steps; where it vanishes, as the
    mean does before the first, what it is by dimension: √K, K, Θ and the loss at the start."""
    roots = {
        field: np.sqrt(np.einsum("aa->a", values[name])) for field, name in ((Z, "K"), (H, "Theta"))
    }
    start = (targets**2 + (roots[Z] ** 2)[: len(targets), None]).sum() / (2 if half else 1)
    natural = {"loss": np.array(start)}
    for name, output in averages.OUTPUTS.items():
        nodes = [roots[field] for field in output.fields for _ in range(field.nodes)]
        natural[name] = reduce(np.multiply.outer, nodes)[(..., *[None] * output.indices)]
    sizes = {}
    for name, each in found.items():
        own = natural[name.removesuffix("1")]
        largest = abs(each).max(axis=tuple(range(1, each.ndim)), keepdims=True)
        sizes[f"{name}_size"] = np.where(largest >= VANISHES * own, largest, own) * np.ones_like(
            each
        )
    return sizes


def _wanted(only: Iterable[str] | None) -> tuple[str, ...]:
    """The averages that are asked for, in their own order."""
    every = tuple(averages.OUTPUTS)
    if only is None:
        return every
    wanted = f"some of {', '.join(every)}"
    names = as_sequence("only", [only] if isinstance(only, str) else only, wanted)
    unknown = [name for name in names if name not in every]
    if unknown or not names:
        raise InputError("only", unknown[0] if unknown else only, wanted)
    return tuple(name for name in every if name in names)


def _averages(
    values: Mapping[str, Array], problem: _Problem, group: str, wanted: Sequence[str]
) -> dict[str, Array]:
    made = Descended(values, *problem)
    found = made.averages(
        {
            f"{name}{ending}": (averages.OUTPUTS[name].average(group), order)
            for name in wanted
            for ending, order in (("", 0), ("1", 1))
        }
    )
    if "prediction" not in wanted:
        return found
    training = slice(made.training)
    off = found["prediction"][:, training]
    found["prediction"] = made.leading
    for ending in ("", "1") if "covariance" in wanted else ():
        spread = np.einsum("taaii->t", found[f"covariance{ending}"][:, training, training])
        shift = found[f"prediction{ending}"][:, training] if ending else off / 2
        found[f"loss{ending}"] = spread / 2 + np.einsum("tai,tai->t", off, shift)
    return found
