r"""One stage, passed downwards: weights of means of two variables, and what its neurons add.

Weights w of the means K' behind a stage give, with the hat for a mean over neurons before it,

    Σ w δK' = Σ w̃ (Ê − E)[φ_x φ_y] + Σ w (∂K'/∂K) δK + Σ w (∂K'/∂m) m,    w̃ = C Σ_k Aᵀ w A/s.

The first term is a sum over independent neurons, and m = Ê y, an odd mean, another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import product
from math import prod

import numpy as np
from scipy import sparse

from derive.arithmetic.parameters import Value
from derive.arithmetic.polynomials import Atom, Monomial, of_kind
from derive.engine.atoms import read
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step
from derive.engine.taps import Taps
from derive.engine.tensors import Name, Tensor
from derive.engine.trees import ABOVE, STREAM, Kind

from ..arrays import Array
from . import stages
from .fluctuations import Fluctuations, Pair, Slope, Term, Terms, kinds_of, without_tensors
from .lanes import Forms, Group, Lanes, Move, Reading, Source, Values, Weights, put, root
from .sigma import derivatives
from .tapped import Reader
from .vectors import Estimate

_LETTERS = " abcd"
"""Of the labels 1 … 4."""


class Moves:
    """How a stage moves weights of pairs of samples to what its matrices and its skip read.

    Arguments:
        taps: of the stage.
        m: samples before it.
    """

    def __init__(self, taps: Taps, m: int) -> None:
        self.past: sparse.csr_array | None = None
        signals, share = m // taps.positions, taps.count**-0.5
        self._taps = [share * each for each in Reader(taps, signals).matrices]
        if taps.past is not None:
            (self.past,) = Reader(taps.past, signals).matrices

    def together(self, weights: Array) -> Array:
        """Σ_k AᵀwA/s of each output."""
        return np.array([sum(_read(A, each) for A in self._taps) for each in weights])

    def free(self, weights: Array) -> Array:
        """The same of a pair without a matrix."""
        past = self.past
        return weights if past is None else np.array([_read(past, each) for each in weights])

    def carried(self, means: Array) -> Array:
        """Means of what a skip reads."""
        return means if self.past is None else _read(sparse.csr_array(self.past.T), means)

    def apart(
        self,
        terms: Terms,
        ends: tuple[Array, Array],
        mean: Callable[[int, int], Array],
        values: Mapping[str, float],
    ) -> Array:
        """`contracted` with the weights of all outputs, for each tap: pairs share its matrix."""
        found = [
            sum(contracted(terms, (_read(A, a), _read(A, b)), mean, values) for A in self._taps)
            for a, b in product(*ends)
        ]
        return np.reshape(found, (len(ends[0]), len(ends[1])))


def _read(A: sparse.csr_array, weights: Array) -> Array:
    left = A.T @ weights
    return np.asarray((A.T @ left.T).T)


class Passage:
    """One stage, passed downwards.

    Arguments:
        below: the means of two variables before it.
        stage, scheme: through which it leads.
        m: samples before it.
        ends: whether it is the last stage of a layer.

    Raises InputError as `Fluctuations`.
    """

    def __init__(
        self, below: Sequence[Name], stage: Stage, scheme: Scheme, m: int, *, ends: bool
    ) -> None:
        self._below, self._stage, self._scheme, self._m = below, stage, scheme, m
        self._moves, self._ends = Moves(stage.taps, m), ends
        self._of = Fluctuations(below, stage, scheme)
        self._spaces: dict[str, list[Kind]] = {}
        self._new: set[str] = set()
        for kind, equation in stage.equations:
            self._spaces.setdefault(kind.space, []).append(kind)
            if equation.bias or any(term.weight for term in equation.right):
                self._new.add(kind.space)

    @property
    def steps(self) -> list[Step]:
        """The recursions whose hyperparameters are needed."""
        return self._of.steps

    def bound(self, parameters: Sequence[str]) -> None:
        """Lay out all that the terms multiply; called once, with the names of hyperparameters."""
        self._parameters, self._made = parameters, self._of.laid_out(parameters, self._m)

    def __call__(
        self,
        groups: Sequence[Group],
        lanes: Lanes,
        states: tuple[Estimate, Estimate],
        parameters: Array,
        sampling: tuple[int, Sequence[int]],
    ) -> Lanes:
        """Take groups and lanes down; the lanes before the stage.

        Arguments:
            groups: of outputs, which are changed.
            lanes: behind the stage.
            states: the means before the stage and behind it.
            parameters: (1, parameters).
            sampling: draws, and the stream of random numbers.
        """
        values = dict(zip(self._parameters, parameters[0].tolist(), strict=True))
        names = self._below, self._of.behind
        before, behind = (
            dict(zip(of, map(_square, state[0]), strict=True))
            for of, state in zip(names, states, strict=True)
        )
        at = _At(self._made, before, states[0], parameters, values)
        for group in groups:
            self._add_laws(group, at)
        below = self._passed(groups, lanes, (at, behind), *sampling)
        readings: dict[str, dict[int, Forms]] = {}
        for group in groups:
            weights, carried = self._pulled(group, at)
            for space, forms in self._read(group, at, weights).items():
                readings.setdefault(space, {})[group.number] = forms
            group.weights, group.carried = weights, carried
        keep = 1.0 if self._stage.keep is None else number(self._stage.keep, at.values)
        scales = {
            key: [term.value * at.line(term.factors) for term in terms]
            for key, terms in self._of.bodies.items()
        }
        for space, found in readings.items():
            put(below, space, [Reading(partial(self._evaluated, keep, scales), found)])
        return below

    def _passed(
        self,
        groups: Sequence[Group],
        lanes: Lanes,
        means: tuple[_At, Mapping[Name, Array]],
        draws: int,
        stream: Sequence[int],
    ) -> Lanes:
        """The lanes before the stage; those that begin behind it are sampled."""
        at, behind = means
        below: Lanes = {}
        for number, (space, kinds) in enumerate(self._spaces.items()):
            ratio = self._ratio(space, at)
            if space in self._new:
                add_squares(groups, blocks(kinds, behind), kinds, ratio)
            if space not in lanes:
                continue
            carried = {kind: self._sources(kind, at) for kind in kinds}
            new = root(self._covariance(kinds, at, behind)) if space in self._new else None
            lanes[space].events.append(Move(carried, new))
            sources = {each.kind.space for of in carried.values() for each in of}
            if sources:
                put(below, sources.pop(), lanes[space].events)
            else:
                lanes[space].add_to(groups, ratio, draws, (*stream, number))
        return below

    def _sources(self, kind: Kind, at: _At) -> list[Source]:
        return [
            Source(term.variables[0], term.value * at.line(term.factors), self._moves.past)
            for term in self._of.sources[kind]
        ]

    def _covariance(self, kinds: Sequence[Kind], at: _At, behind: Mapping[Name, Array]) -> Array:
        """K of the part of variables that is new behind the stage."""
        own = dict(behind)
        for pair in self._of.carried:
            own[pair.name] = own[pair.name] - self._moves.carried(at.total(pair.terms))
        return blocks(kinds, own)

    def _ratio(self, space: str, at: _At) -> float:
        """The neurons of a space behind the stage, over n."""
        own = dict(self._stage.ratios)
        if space in own:
            return number(own[space], at.values)
        if space not in (STREAM.space, ABOVE):
            return 1.0
        return at.values["r_out" if self._ends or space == ABOVE else "r_in"]

    def _pulled(self, group: Group, at: _At) -> tuple[Weights, Weights]:
        """The weights by what is carried, and those that are carried since a matrix."""
        weights, carried = Weights(), Weights()
        for pair in self._of.carried:
            since = group.weights if pair.kinds[0].space in self._new else group.carried
            slopes = [*pair.slopes, *pair.others]
            for given, found, own in (
                (group.weights, weights, slopes),
                (since, carried, pair.slopes),
            ):
                if pair.name in given:
                    at.add(found, self._moves.free(given[pair.name]), own)
        return weights, carried

    def _read(self, group: Group, at: _At, weights: Weights) -> dict[str, Forms]:
        """The sums of the neurons that matrices read, by their space; the weights are added to."""
        found: dict[str, Forms] = {}
        for k, pairs in enumerate(self._of.read):
            space, variance = self._stage.matrices[k].into, self._stage.matrices[k].variance
            for pair in pairs:
                if pair.name not in group.weights:
                    continue
                moved, own = self._moves.together(group.weights[pair.name]), Weights()
                at.add(own, moved, pair.slopes)
                at.add(weights, moved, pair.others)
                forms = found.setdefault(space, Forms.of(len(moved)))
                forms.lines.extend(_lines(pair, moved, at))
                if not self._of.is_quadratic(k, pair):
                    one, other = ((k, kind) for kind in pair.kinds)
                    forms.products.append((one, other, number(variance, at.values) * moved))
                    forms.constant += _sum(moved, at.total(pair.terms))
                    for name, each in own.items():
                        forms.products.append((*kinds_of(name), -each))
                        forms.constant -= _sum(each, at.before[name])
                for name, each in own.items():
                    weights[name] = weights.get(name, 0.0) + each
        return {space: forms for space, forms in found.items() if forms.lines or forms.products}

    def _evaluated(
        self,
        keep: float,
        scales: Mapping[tuple[int, Kind], Sequence[Array]],
        values: Values,
        rng: np.random.Generator,
    ) -> Values:
        """The variables of a neuron, and what matrices read of them."""
        found, mask = dict(values), None
        if keep < 1.0:
            mask = (rng.random(next(iter(values.values())).shape) < keep) / keep
        for key, terms in self._of.bodies.items():
            if all(each.kinds <= values.keys() for each in terms):
                of_terms = zip(terms, scales[key], strict=True)
                parts = [self._body(each, scale, values, mask) for each, scale in of_terms]
                found[key] = np.sum(parts, axis=0)
        return found

    def _body(self, term: Term, scale: Array, values: Values, mask: Array | None) -> Array:
        factors = [values[kind] for kind in term.variables]
        for kind, _ in term.functions:
            factors += derivatives(self._of.activation(kind), (0,))(values[kind])
            factors += [] if mask is None else [mask]
        return np.asarray(reduce(np.multiply, factors, scale[:, None]))

    def _add_laws(self, group: Group, at: _At) -> None:
        """Add what each matrix has in V beyond a Gaussian one."""
        for terms, pairs in zip(self._of.corrections, self._of.read, strict=True):
            live = [pair for pair in pairs if terms and pair.name in group.weights]
            means = {pair.kinds: at.total(pair.terms) for pair in live}
            means |= {kinds[::-1]: each.T for kinds, each in means.items()}
            for one, other in product(live, live):
                kinds = (*one.kinds, *other.kinds)

                def mean(s: int, t: int, kinds: Sequence[Kind] = kinds) -> Array:
                    return means[kinds[s - 1], kinds[t - 1]]  # noqa: B023

                ends = group.weights[one.name], group.weights[other.name]
                group.add(self._moves.apart(terms, ends, mean, at.values))


def _lines(pair: Pair, moved: Array, at: _At) -> Iterator[tuple[Kind, Array]]:
    """The weights of the means that are taken off, at their variables."""
    for label, kind, terms in pair.odd:
        line = (moved * at.total(terms)).sum(axis=3 - label)
        if line.any():
            yield kind, line


def add_squares(groups: Sequence[Group], K: Array, kinds: Sequence[Kind], ratio: float) -> None:
    """Add what Gaussian variables of this covariance have of second degree.

    Arguments:
        ratio: the number of their neurons over n.
    """
    for group in groups:
        if group.carried is not group.weights:
            for weights, sign in ((group.weights, 2.0), (group.carried, -2.0)):
                own = {
                    name: each for name, each in weights.items() if set(kinds_of(name)) <= {*kinds}
                }
                if own:
                    moved = _form(kinds, own) @ K
                    group.add(sign / ratio * np.einsum("aij,bji->ab", moved, moved, optimize=True))


def blocks(kinds: Sequence[Kind], of: Mapping[Name, Array]) -> Array:
    """The arrays of means of these variables, in one matrix."""
    none = np.zeros_like(next(iter(of.values())))
    found = [[none] * len(kinds) for _ in kinds]
    for name, each in of.items():
        if set(kinds_of(name)) <= {*kinds}:
            i, j = map(kinds.index, kinds_of(name))
            found[i][j], found[j][i] = each, each.swapaxes(-1, -2)
    return np.block(found)


def _form(kinds: Sequence[Kind], weights: Weights) -> Array:
    """The symmetric matrices of the forms Σ w x y, (outputs, variables·m, variables·m)."""
    halves = {name: 0.5 * each for name, each in weights.items()}
    for name, each in halves.items():
        if len(set(kinds_of(name))) == 1:
            halves[name] = each + each.swapaxes(-1, -2)
    return blocks(kinds, halves)


def _sum(weights: Array, means: Array) -> Array:
    return np.asarray(np.einsum("aij,ij->a", weights, means))


class _At:
    """Means and all other atoms, before a stage.

    Arguments:
        made: the atoms that are laid out.
        before: the means.
        state: the same, as they are known.
        parameters: (1, parameters).
        values: the same by name.
    """

    def __init__(
        self,
        made: stages.Stage,
        before: Mapping[Name, Array],
        state: Estimate,
        parameters: Array,
        values: Mapping[str, float],
    ) -> None:
        self.before, self.values = before, values
        self._known = made.known(state, parameters)
        self._m = len(next(iter(before.values())))

    def product(self, factors: Monomial) -> Array:
        """The product of factors of the labels 1 and 2, (m, m)."""
        total = np.ones((self._m, self._m))
        for atom, exponent in factors:
            array, labels = self._known(atom, exponent)
            for _ in range(abs(exponent)):
                total = total * _spread(array, labels)
        return total

    def line(self, factors: Monomial) -> Array:
        """The product of factors of the label 1, (m,)."""
        return self.product(factors)[:, 0].copy()

    def total(self, terms: Terms) -> Array:
        """The sum of terms of the labels 1 and 2, (m, m)."""
        none = np.zeros((self._m, self._m))
        return sum((value * self.product(mono) for value, mono in terms), none)

    def add(self, found: Weights, weights: Array, slopes: Sequence[Slope]) -> None:
        """Add the weights that these of a mean behind the stage give to means before it."""
        for value, factors, below, labels in slopes:
            own = _placed(weights * (value * self.product(factors)), labels)
            found[below] = found.get(below, 0.0) + own


def number(of: Atom, values: Mapping[str, float]) -> float:
    """The value of a hyperparameter, given all by name."""

    def value(own: Value) -> float:
        return float(own.expr.subs({s: values[s.name] for s in own.expr.free_symbols}))

    return read(of, parameter=lambda own: values[own.name], value=value)


def contracted(
    terms: Terms,
    ends: tuple[Array, Array],
    mean: Callable[[int, int], Array],
    values: Mapping[str, float],
) -> float:
    """Terms in K of the labels 1 … 4, with the weights of two pairs summed over all samples.

    Arguments:
        mean: in the place of K, by its labels.
        values: of hyperparameters.
    """
    total = 0.0
    for value, mono in terms:
        labels = [each.samples for each in of_kind((atom for atom, _ in mono), Tensor)]
        letters = ["ab", "cd", *(_LETTERS[s] + _LETTERS[t] for s, t in labels)]
        scale = prod(number(each, values) ** e for each, e in without_tensors(mono))
        arrays = [*ends, *(mean(*each) for each in labels)]
        summed = np.einsum(",".join(letters) + "->", *arrays, optimize="greedy")
        total += value * scale * float(summed)
    return total


def _square(values: Array) -> Array:
    """The first copy of a mean, (m, m)."""
    m = round(values[0].size ** 0.5)
    return np.asarray(values[0].reshape(m, m))


def _spread(array: Array, labels: Sequence[int]) -> Array:
    """An array of these labels along the axes of 1 and 2."""
    if not labels:
        return array
    if len(set(labels)) == 1:
        line = array.diagonal() if array.ndim == 2 else array
        return line[:, None] if labels[0] == 1 else line[None]
    return array if tuple(labels) == (1, 2) else array.T


def _placed(weights: Array, labels: Sequence[int]) -> Array:
    """Weights of the samples 1 and 2 as those of a mean with these labels."""
    if tuple(labels) == (1, 2):
        return weights
    if tuple(labels) == (2, 1):
        return weights.swapaxes(-1, -2)
    return np.asarray(weights.sum(axis=3 - labels[0])[..., None] * np.eye(weights.shape[-1]))
