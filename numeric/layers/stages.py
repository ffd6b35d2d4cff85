"""The recursions through one stage of a layer, as tables over what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.batches import BatchFunction
from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom
from derive.display.labels import POOLED
from derive.engine.atoms import read
from derive.engine.step import Step
from derive.engine.tensors import Name, identify
from derive.engine.through import Response
from derive.gaussian.brackets import Bracket
from derive.symbols import PARAMETERS

from ..arrays import Array
from . import averages as of
from .pooled import Pooled, gathered, over_positions, products_of
from .program import Contractions, Polynomial, Table, Tables
from .resting import Degenerate, UndefinedError, on_kink
from .sampled_batches import of_batch
from .vectors import (
    Estimate,
    Part,
    Parts,
    disturbed,
    given,
    of_tensor,
    relabelled,
    side_by_side,
    stacked,
    with_sizes,
)

Sigma: TypeAlias = Callable[[str], Activation]
"""The activation that is averaged at the kernel of a label."""

Average: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Of the copies of a kernel: values, (copies, averages), and sizes, (averages,)."""


Known: TypeAlias = Callable[[Atom, int], tuple[Array, Sequence[int]]]
"""Of an atom and its exponent: its array, and the label of each axis."""


class Stage:
    """The recursions through one stage.

    Arguments:
        below: the tensors before it.
        steps: of each tensor behind it.
        sigma: the activation at the kernel of each label.
        parameters: the names of the hyperparameters.
        m: inputs.
        apart, distinct, exchangeable: as `averages.of_several` has them.
        batch: the function of all samples at a neuron that is averaged in the place of σ.
        keep: p of dropout. A recursion has the masks of different inputs; where factors of a
            bracket meet at one input, they share a mask, and E[(μ/p)^r] = p^{1−r} has a 1/p for
            each label of a factor that meets another. What ∂ acts by has no mask.
        positions: those that norms are means over, or attention sums over, P: a sample is α·P + p.
        attends: True if there are such sums.

    Attributes:
        steps: as given.
        names: the tensors behind it.
        kernels: which tensors before it are the brackets' kernels.
        groups: their averages, kernel by kernel.
        noises: how many averages the brackets have.
        tables: of the steps.
    """

    def __init__(
        self,
        below: Sequence[Name],
        steps: Sequence[Step | Polynomial],
        sigma: Sigma,
        parameters: Sequence[str],
        m: int,
        *,
        apart: bool = True,
        distinct: bool = False,
        exchangeable: bool = False,
        keep: Value | None = None,
        positions: int = 1,
        attends: bool = False,
        batch: BatchFunction | None = None,
    ) -> None:
        products = set[Pooled]()
        if attends or positions > 1:
            pooled = [gathered(step) for step in steps if isinstance(step, Step)]
            steps = [polynomial for polynomial, _ in pooled]
            products = products.union(*(own for _, own in pooled))
        self._pooled = sorted(products, key=repr)
        self._positions = positions
        self._parameters, self._m, self._below = list(parameters), m, tuple(below)
        self._sigma = sigma
        self._keep, self._batch = keep, batch
        self.steps = tuple(steps)
        self.names = tuple(step.target for step in steps)
        how = {"apart": apart, "distinct": distinct, "exchangeable": exchangeable}
        brackets: dict[str, set[Bracket]] = {}
        for bracket in set().union(*(each.atoms(Bracket) for each in steps)):
            brackets.setdefault(bracket.kernel, set()).add(relabelled(bracket)[0])
        labels = [name.label for name in below]
        self.kernels = [labels.index(kernel) for kernel in sorted(brackets)]
        one = m == 1 and all(len(set(step.samples)) == 1 for step in steps)

        def averaged(kernel: str) -> of.Averages:
            own, wanted = sigma(kernel), sorted(brackets[kernel])
            if batch is not None:
                return of_batch(batch, own, wanted, m)
            if one:
                return of.of_one(own, wanted)
            return of.of_several(own, wanted, m, **how)

        self.groups = [averaged(kernel) for kernel in sorted(brackets)]
        self.noises = sum(group.count for group in self.groups)
        self._lay_out(sorted(brackets), {k: sorted(each) for k, each in brackets.items()}, steps)
        self.tables = (
            Tables(steps, m, self._find, exchangeable=exchangeable)
            if batch is None
            else Contractions(steps, m, self._find)
        )

    def _lay_out(
        self,
        kernels: Sequence[str],
        brackets: dict[str, list[Bracket]],
        steps: Sequence[Step | Polynomial],
    ) -> None:
        """Where everything begins in the vector: 1, hyperparameters, their inverses, tensors,
        numbers, functions of collective variables, brackets."""
        m, end = self._m, 1 + 2 * len(self._parameters)
        self._begins: dict[object, int] = {}
        for name in self._below:
            self._begins[name] = end
            end += m ** (0 if m == 1 else len(name.subscripts))
        occurring = set().union(*(each.atoms(Value) for each in steps))
        numbers = sorted(occurring | ({self._keep} if self._keep else set()), key=str)
        known = [PARAMETERS.get(name, sympy.Symbol(name)) for name in self._parameters]
        self._numbers = numbers
        self._values = sympy.lambdify([known], [number.expr for number in numbers], "math")
        for number in numbers:
            self._begins[number], self._begins[number, True] = end, end + len(numbers)
            end += 1
        end += len(numbers)
        found = set().union(*(each.atoms(Response) for each in steps))
        self._responses = sorted({_canonical(each)[0] for each in found}, key=str)
        self._compiled = [_compiled(each) for each in self._responses]
        for response in self._responses:
            self._begins[response] = end
            end += m ** (0 if m == 1 else len(response.samples))
        for product in self._pooled:
            self._begins[product] = end
            end += m ** (0 if m == 1 else product.rank)
        self._sums, self._met = [], []
        for kernel, group in zip(kernels, self.groups, strict=True):
            places = [group.places[bracket] for bracket in brackets[kernel]]
            for bracket, each in zip(brackets[kernel], places, strict=True):
                self._begins[kernel, bracket] = end
                end += each[0].size
            self._sums.append(side_by_side(places, group.count))
            self._met.append(np.concatenate([_met(each, m) for each in brackets[kernel]]))

    def _find(self, atom: Atom, inverse: bool) -> tuple[int, Sequence[int]]:
        def parameter(own: Parameter) -> tuple[int, Sequence[int]]:
            return 1 + self._parameters.index(own.name) + inverse * len(self._parameters), ()

        def bracket(own: Bracket) -> tuple[int, Sequence[int]]:
            canonical, labels = relabelled(own)
            return self._begins[own.kernel, canonical], labels

        def at(own: tuple[Name | Response, tuple[int, ...]]) -> tuple[int, Sequence[int]]:
            return self._begins[own[0]], own[1]

        return read(
            atom,
            parameter=parameter,
            value=lambda own: (self._begins[(own, True) if inverse else own], ()),
            tensor=lambda own: at(identify(own)),
            bracket=bracket,
            response=lambda own: at(_canonical(own)),
            other=lambda own: (self._begins[own.of], own.samples),
        )

    def averages(self) -> list[Average]:
        """Of the brackets at each kernel, layer after layer."""
        return [group.copies() for group in self.groups]

    def passed(
        self,
        before: Estimate,
        parameters: Array,
        noise: Array,
        average: Sequence[Average],
    ) -> Estimate:
        """The tensors behind the stage, and their sizes.

        Arguments:
            before: those before it: what cancelled in one stage is no size in the next.
            parameters: (copies, parameters).
            noise: what is added to each average, in units of its size: (copies, averages).
            average: as `averages` makes them.

        Raises UndefinedError for the norm of a vector of zeros.
        """
        return self.tables(self._vectors(before, parameters, noise, average))

    def _vectors(
        self,
        before: Estimate,
        parameters: Array,
        noise: Array,
        average: Sequence[Average],
    ) -> Parts:
        """The vectors that the tables multiply, (copies + 1, places)."""
        copies, (tensors, sizes_before) = len(parameters), before
        parts = [given(stacked(with_sizes(parameters)))]
        parts += map(of_tensor, tensors, sizes_before)
        values = np.array(self._values(parameters[0]), float)
        numbers = np.concatenate([values, 1.0 / values])
        parts.append(given(np.broadcast_to(numbers, (copies + 1, len(numbers)))))
        for number in range(len(self._responses)):
            response = with_sizes(self._response(number, tensors))
            parts.append(given(response))
            if not np.isfinite(response).all() and (none := self._norm_of_zero(number, tensors)):
                raise UndefinedError(none)
        if self._pooled:
            whole = {
                name: np.concatenate([each, size[None]])
                for name, each, size in zip(self._below, tensors, sizes_before, strict=False)
            }
            pooled = products_of(self._pooled, whole, self._m, self._positions)
            parts += [given(each.reshape(copies + 1, -1)) for each in pooled]
        begin, p = 0, 1.0 if self._keep is None else values[self._numbers.index(self._keep)]
        for kernel, group, sums, met, own in zip(
            self.kernels, self.groups, self._sums, self._met, average, strict=True
        ):
            found, sizes = own(tensors[kernel])
            part = disturbed(found, sizes, noise[:, begin : begin + group.count], sums)
            parts.append(part if self._keep is None else _scaled(part, p**-met))
            begin += group.count
        return Parts(parts)

    @property
    def is_plain(self) -> bool:
        """True if brackets at one kernel, tensors and numbers are all that is multiplied."""
        known = self._responses or self._pooled or self._keep or self._batch
        return not known and len(self.groups) < 2 and isinstance(self.tables, Tables)

    def of_sets(self, tensors: Sequence[Array], parameters: Array, brackets: Array | None) -> Array:
        """The vectors that tables multiply, of many sets of m samples: (places, copies + 1, sets).

        Arguments:
            tensors: those before the stage, sizes last: (entries, copies + 1, sets) each.
            parameters: (copies, parameters).
            brackets: the averages at the one kernel, and a 0 behind them: (averages + 1, copies +
                1, sets); None where there are none.
        """
        shape = tensors[0].shape[1:]
        values = np.array(self._values(parameters[0]), float)
        numbers = np.concatenate([values, 1.0 / values])
        known = stacked(with_sizes(parameters)).T[:, :, None], numbers[:, None, None]
        first, second = (np.broadcast_to(each, (len(each), *shape)) for each in known)
        parts = [first, *tensors, second]
        for sums in self._sums:
            assert brackets is not None
            parts.append(reduce(np.add, (brackets[part] for part in sums)))
        return np.concatenate(parts)

    def known(self, before: Estimate, parameters: Array) -> Known:
        """Of each atom and its exponent: its array at one copy, and the label of each axis."""
        noise = np.zeros((1, self.noises))
        vectors = self._vectors(before, parameters, noise, self.averages()).whole

        def array(atom: Atom, exponent: int) -> tuple[Array, Sequence[int]]:
            begin, labels = self._find(atom, exponent < 0)
            shape = (self._m,) * len(labels)
            return vectors[0, begin : begin + prod(shape)].reshape(shape), labels

        return array

    def table(self, steps: Sequence[Step | Polynomial]) -> Table:
        """Of some of the steps, at one input."""
        return Table(steps, 1, self._find)

    def degenerate(self, tensors: Sequence[Array]) -> Degenerate | None:
        """The first sample whose z = 0 lies on a kink of σ in the stage; None if there is none."""
        if self._batch is not None:
            return None
        labels = ((self._below[kernel].label, tensors[kernel][0]) for kernel in self.kernels)
        found = (on_kink(self._sigma(label), K) for label, K in labels)
        return next((each for each in found if each), None)

    def _norm_of_zero(self, number: int, tensors: Sequence[Array]) -> Degenerate | None:
        """The first sample whose zero variable makes a function of collective ones infinite."""
        response = self._responses[number]
        values = self._response(number, tensors)[0]
        if np.isfinite(values).all():
            return None
        labels = len(response.samples)
        step = sum(self._m**axis for axis in range(labels)) if self._m > 1 else 1
        limits = [tensors[self._below.index(identify(each)[0])] for _, each in response.limits]
        for sample in np.flatnonzero(~np.isfinite(values[:: max(1, step)])).tolist():
            if any(each[(0, *(sample,) * (each.ndim - 1))] == 0.0 for each in limits):
                return Degenerate(sample, None)
        return None

    def _response(self, number: int, tensors: Sequence[Array]) -> Array:
        """A function of collective variables at its samples, (copies, entries)."""
        response = self._responses[number]
        samples = response.samples
        copies = len(tensors[0])
        arguments = []
        for _, limit in response.limits:
            name, labels = identify(limit)
            values = tensors[self._below.index(name)]
            if self._m > 1:  # the axes of the samples, in the order of the function's
                axes = [1 + samples.index(label % POOLED) for label in labels]
                letters = "".join("zabcdefgh"[axis] for axis in (0, *axes))
                kept = "".join("zabcdefgh"[axis] for axis in (0, *sorted(set(axes))))
                values = np.einsum(f"{letters}->{kept}", values)
                if max(labels) >= POOLED:  # K at one position after another, of one sample
                    values = over_positions(values, 1, self._positions)
                lacking = [k for k in range(len(samples)) if 1 + k not in axes]
                values = np.expand_dims(values, [1 + k for k in lacking])
            arguments.append(values)
        shape = (copies, *((self._m,) * len(samples) if self._m > 1 else ()))
        value = np.broadcast_to(self._compiled[number](*arguments), shape)
        found = np.asarray(value, dtype=float).reshape(copies, -1)
        return np.where(np.isnan(found), np.inf, found)  # no unknown to multiply by 0


def _scaled(part: Part, scale: Array) -> Part:
    """A stretch with each place multiplied by a number."""
    return Part(part.size, lambda at: part.at(at) * scale[at])


def _met(bracket: Bracket, m: int) -> NDArray[np.int64]:
    """For each tuple of m samples, in order, how many labels of factors meet one before them."""
    samples = bracket.samples
    inside = [samples.index(sample) for sample in bracket.inside]
    at = np.indices((m,) * len(samples)).reshape(len(samples), -1)
    at = np.sort(at[inside], axis=0)
    return np.asarray((at[1:] == at[:-1]).sum(axis=0), np.int64)


def _canonical(response: Response) -> tuple[Response, tuple[int, ...]]:
    """The same with its samples called 0, 1, … in their order, and what they were."""
    return response.relabelled(response.samples.index), response.samples


def _compiled(response: Response) -> Callable[..., Array]:
    symbols = [symbol for symbol, _ in response.limits]
    compiled: Callable[..., Array] = sympy.lambdify(symbols, response.value, "numpy")
    return compiled
