r"""V of a few outputs of many positions: weights go down the layers, in place of V going up.

What K becomes for one network fluctuates around K by n^{-1/2}. To leading order a stage takes the
fluctuation δX of what stands before it, K and means of two variables such as K_y, to
J δX + noise. Here J = ∂X'/∂X, the terms of G1 that are linear in G1. So V' = J V Jᵀ + N, and

    ⟨a ⊗ b, V'⟩ = ⟨Jᵀa ⊗ Jᵀb, V⟩ + ⟨a ⊗ b, N⟩

for weights a, b of pairs of positions: m² numbers for each output in place of m⁴. N has the terms
of V's recursion without V. Those of two positions each are contracted. The one with four is
Cov(q_a, q_b) of the quadratic forms q_a = Σ a_tu σ(z_t) σ(z_u) of one neuron, z ~ N(0, K):

    Cov(q_a, q_b) = 2 tr(H_a K H_b K) + E r_a r_b ,    r_a = q_a − E q_a − (zᵀ H_a z − tr H_a K) ,

with H_a = ∂E q_a/∂K, so that r_a has Hermite degrees of four and more. The mean of r_a r_b alone is
sampled, and its standard error is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import Atom, Expansion, Monomial, atoms_in, of_kind
from derive.engine.atoms import read
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step, closures, through
from derive.engine.step.derived import Kind
from derive.engine.taps import Taps
from derive.engine.tensors import Name, Tensor, identify, named, tensor
from derive.engine.through import Response
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import is_merged
from . import stages
from .accuracy import EPS
from .sigma import derivatives
from .staged import StagedLayers
from .stages import Known
from .steps import parameters_of
from .tapped import matrices
from .vectors import Both

CAUTION = 3.0
"""The error that is told, in standard errors."""

_SEED = 1998
_AT_ONCE = 1 << 22
"""Numbers that are drawn at a time, more or less."""

_NEGATIVE = 1e-8
"""An eigenvalue below 0 that is rounding, relative to the largest."""

Weights: TypeAlias = "dict[Name, Array]"
"""Of each mean of two variables: weights of pairs of samples, (outputs, m, m)."""

_Ends: TypeAlias = "tuple[tuple[Array, Sequence[int]], tuple[Array, Sequence[int]]]"
"""Weights of two pairs of samples, and the labels of each."""

_ROUNDINGS = 64.0
"""What terms are off by, in roundings of their sizes."""

_LETTERS = " abcd"
"""Of the labels 1 … 4."""


class _Part(NamedTuple):
    """The terms that are summed over the same taps, and the axes that each tap moves."""

    blocks: list[list[int]]
    terms: list[tuple[float, Monomial]]


class _Kept(NamedTuple):
    """A polynomial of some of a recursion's terms."""

    target: Name
    samples: tuple[int, ...]
    terms: Expansion

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind."""
        return set(of_kind(atoms_in(self.terms), kind))


class Noise(NamedTuple):
    """⟨a ⊗ b, N⟩ of all outputs, (outputs, outputs): values, squares of standard errors, and the
    sums of the terms' absolute values."""

    values: Array
    variances: Array
    sizes: Array


class Moves:
    """How a stage moves weights of pairs of samples to what its matrices and its skip read.

    Arguments:
        taps: of the stage.
        m: samples before it.
    """

    def __init__(self, taps: Taps, m: int) -> None:
        self._taps: list[sparse.csr_array] = []
        self._free: sparse.csr_array | None = None
        if not taps.moves:
            return
        signals, share = m // taps.positions, taps.count**-0.5
        self._taps = [share * each for each in _of_signals(taps, signals)]
        if taps.past is not None:
            (self._free,) = _of_signals(taps.past, signals)
        elif taps.results != taps.positions:  # what is carried is a constant
            count = signals * taps.results
            zeros = np.zeros(count, int)
            self._free = sparse.csr_array((np.ones(count), (np.arange(count), zeros)), (count, m))

    def together(self, weights: Array) -> Array:
        """Σ_k AᵀwA/s."""
        return np.asarray(np.sum([self._read(A, weights) for A in self._taps], axis=0))

    def past(self, weights: Array) -> Array:
        """Of a pair without a matrix."""
        return weights if self._free is None else self._read(self._free, weights)

    def apart(self, one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
        """For each tap both weights, as two pairs share its matrix."""
        for A in self._taps:
            yield self._read(A, one), self._read(A, other)

    @staticmethod
    def _read(A: sparse.csr_array, weights: Array) -> Array:
        left = A.T @ weights
        return np.asarray((A.T @ left.T).T)


def _of_signals(taps: Taps, signals: int) -> list[sparse.csr_array]:
    """A of each tap, between the samples of so many signals: (results, samples)."""
    every = sparse.eye_array(signals)
    return [sparse.csr_array(sparse.kron(every, each)) for each in matrices(taps)]


class Passage:
    """One stage, passed downwards.

    Arguments:
        below: the means of two variables before it.
        behind: all tensors behind it.
        stage, scheme: through which it leads.
        m: samples before it.

    Raises InputError where V has terms that do not fit the sums here.
    """

    def __init__(
        self,
        below: Sequence[Name],
        behind: Sequence[Name],
        stage: Stage,
        scheme: Scheme,
        m: int,
    ) -> None:
        self._below, self._m, self._stage, self._scheme = below, m, stage, scheme
        self._sigma = partial(stage.sigma_at, default=scheme.sigma)
        self._moves = Moves(stage.taps, m)
        means = [name for name in behind if name.pairs == 1 and not name.order]
        self._means = {name: through(_raised(name), scheme, stage) for name in means}
        noises = [through(name, scheme, stage) for name in behind if name.pairs == 2]
        bent = not all(each.is_smooth for each in stage.sigmas(scheme.sigma))
        if bent and is_merged(stage, [*self._means.values()]):
            raise _refused("σ without kinks where a mean is taken off before it", scheme)
        self._maps = {name: _parts(step, _is_linear) for name, step in self._means.items()}
        self._noises = [(step, _parts(step, _is_noise)) for step in noises]
        self._check()
        self.steps: list[Step] = [*self._means.values(), *noises]

    def _check(self) -> None:
        """Raise InputError for terms of V that do not fit."""
        for step, parts in self._noises:
            fits = len(step.target.pairing) == 2 and self._scheme.group == "O"
            for _, mono in chain(*(part.terms for part in parts)):
                four = [atom for atom, _ in mono if len(_samples(atom)) > 2]
                plain = all(map(_is_plain, four))
                crossed = any(_crosses(_samples(atom)) for atom, _ in mono if atom not in four)
                fits &= len(four) < 2 and plain and not (four and crossed)
            if not fits:
                raise _refused("layers without gates, of laws that rotations keep", self._scheme)

    def bound(self, parameters: Sequence[str]) -> None:
        """Lay out all that the terms multiply; called once, with the names of hyperparameters."""
        parts = [(step, part) for step, of in self._noises for part in of]
        parts += [(each, part) for each, of in self._linear for part in of]
        kept = [_Kept(step.target, step.samples, _without_large(part)) for step, part in parts]
        kernels = {
            each.kernel for _, part in parts for _, mono in part.terms for each in _fours(mono)
        }
        pair = next(name for name in self._below)
        kept += [
            _Kept(pair, (1, 2), {(frozenset([(each, 1)]), 0): 1})  # type: ignore[dict-item]
            for kernel in sorted(kernels)
            for each in _of_pairs(kernel)
        ]
        apart = not self._stage.alone.has_dense_equation
        given = self._below, kept, self._sigma, parameters, self._m
        self._made = stages.Stage(*given, apart=apart, keep=self._stage.keep)

    @property
    def _linear(self) -> list[tuple[Step, list[_Part]]]:
        return [(step, self._maps[name]) for name, step in self._means.items()]

    def __call__(
        self,
        groups: Sequence[Weights],
        before: Both,
        parameters: Array,
        draws: int,
        stream: Sequence[int],
    ) -> tuple[list[Weights], list[Noise]]:
        """The weights before the stage, and what its noise adds to each group of outputs.

        Arguments:
            groups: the weights of each group behind the stage.
            before: the means before the stage.
            parameters: (1, parameters).
            draws: of z.
            stream: of random numbers.
        """
        known = self._made.known(before, parameters)
        kernels = {self._below[k].label: before[0][k][0] for k in self._made.kernels}
        sampled = _Sampled(known, kernels, self._sigma, self._keep(known))
        found = []
        for weights in groups:
            count = len(next(iter(weights.values())))
            entries = [(i, j) for i in range(count) for j in range(i + 1)]
            found.append({each: self._noise(weights, each, known, sampled) for each in entries})
        means = sampled.means(draws, stream)
        noises = [_noise_of(each, means) for each in found]
        return [self._pulled(weights, known) for weights in groups], noises

    def _keep(self, known: Known) -> float:
        """p of dropout."""
        keep = self._stage.keep
        return 1.0 if keep is None else float(known(keep, 1)[0])

    def _pulled(self, weights: Weights, known: Known) -> Weights:
        """Jᵀ of the weights."""
        m, found = self._m, dict[Name, Array]()
        for name, of_outputs in weights.items():
            for part in self._maps[name]:
                move = self._moves.together if part.blocks else self._moves.past
                moved = [move(each) for each in of_outputs]
                for value, mono in part.terms:
                    (mean,) = filter(_is_first, of_kind((each for each, _ in mono), Tensor))
                    below, labels = identify(mean._replace(order=0))
                    rest = [(atom, power) for atom, power in mono if atom != mean]
                    factor = _merged(rest, (1, 2), known, m)
                    total = found.setdefault(below, np.zeros((len(moved), m, m)))
                    for k, each in enumerate(moved):
                        total[k] += value * _placed(each * factor, labels)
        return found

    def _noise(
        self, weights: Weights, outputs: tuple[int, int], known: Known, sampled: _Sampled
    ) -> _Sum:
        """⟨a ⊗ b, N⟩ of two outputs, from all tensors and terms."""
        total = _Sum()
        for step, parts in self._noises:
            (one, first), (other, second) = _pairs(step)
            for part in parts:
                for a, b in self._weights(part, weights, (one, other), outputs):
                    for value, mono in part.terms:
                        ends = (a, first), (b, second)
                        total.add(value, *_contracted(mono, ends, known, sampled, self._m))
        return total

    def _weights(
        self,
        part: _Part,
        weights: Weights,
        names: tuple[Name, Name],
        outputs: tuple[int, int],
    ) -> Iterator[tuple[Array, Array]]:
        """The weights of two pairs at the samples that are read, for each tap that both share."""
        if not all(name in weights for name in names):
            return
        one, other = names
        both = [outputs] if one == other else [outputs, outputs[::-1]]
        tied = [[pair for pair in (0, 1) if 2 * pair in block] for block in part.blocks]
        for i, j in both:
            a, b = weights[one][i], weights[other][j]
            if [0, 1] in tied:
                yield from self._moves.apart(a, b)
                continue
            moves = [
                self._moves.together if [pair] in tied else self._moves.past for pair in (0, 1)
            ]
            yield moves[0](a), moves[1](b)


class _Sum:
    """A sum of exact terms, and of terms that are to be sampled: coefficient, places."""

    def __init__(self) -> None:
        self.value, self.size = 0.0, 0.0
        self.sampled: list[tuple[float, int, int]] = []

    def add(self, coefficient: float, exact: float, sampled: tuple[float, int, int] | None) -> None:
        """Add a term."""
        self.value += coefficient * exact
        self.size += abs(coefficient * exact)
        if sampled is not None:
            share, one, other = sampled
            self.sampled.append((coefficient * share, one, other))


def _noise_of(sums: Mapping[tuple[int, int], _Sum], means: tuple[Array, Array]) -> Noise:
    """Values, variances and sizes of all outputs, with the means that were sampled."""
    count = 1 + max(i for i, _ in sums)
    found = np.zeros((3, count, count))
    for (i, j), each in sums.items():
        values = sum(share * means[0][a, b] for share, a, b in each.sampled)
        errors = sum(abs(share) * means[1][a, b] for share, a, b in each.sampled)
        found[:, i, j] = found[:, j, i] = each.value + values, errors**2, each.size + abs(values)
    return Noise(*found)


class _Sampled:
    """Quadratic forms of σ of Gaussian variables, and their covariances.

    Arguments:
        known: the averages of two.
        kernels: of the variables, by label.
        sigma: the activation at each.
        keep: p of dropout.
    """

    def __init__(
        self,
        known: Known,
        kernels: Mapping[str, Array],
        sigma: Callable[[str], Activation],
        keep: float,
    ) -> None:
        self._known, self._kernels, self._sigma, self._keep = known, kernels, sigma, keep
        self._forms: list[tuple[str, Array, Array]] = []
        self._places: dict[tuple[str, bytes], int] = {}

    def __call__(self, kernel: str, one: Array, other: Array) -> tuple[float, int, int]:
        """The exact part of E q_a q_b, and where the two forms are."""
        a, b = self._place(kernel, one), self._place(kernel, other)
        K, mean = self._kernels[kernel], self._average(kernel, ())
        first, second = self._forms[a][2] @ K, self._forms[b][2] @ K
        means = float((one * mean).sum()) * float((other * mean).sum())
        return means + 2.0 * float((first * second.T).sum()), a, b

    def _average(self, kernel: str, outer: tuple[int, ...]) -> Array:
        return self._known(Bracket(((1, 0), (2, 0)), outer, kernel), 1)[0]

    def _place(self, kernel: str, weights: Array) -> int:
        symmetric = 0.5 * (weights + weights.T)
        key = kernel, symmetric.tobytes()
        if key not in self._places:
            own = 0.5 * symmetric * self._average(kernel, (1, 1))
            own += 0.5 * (symmetric * self._average(kernel, (2, 2))).T
            across = symmetric * self._average(kernel, (1, 2))
            slope = 0.5 * (across + across.T) + np.diag(own.sum(axis=1))
            self._places[key] = len(self._forms)
            self._forms.append((kernel, symmetric, slope))
        return self._places[key]

    def means(self, draws: int, stream: Sequence[int]) -> tuple[Array, Array]:
        """E r_a r_b of all forms, and standard errors; 0 of different kernels."""
        count = len(self._forms)
        values, errors = np.zeros((2, count, count))
        for k, kernel in enumerate(dict.fromkeys(kernel for kernel, *_ in self._forms)):
            rows = [n for n, each in enumerate(self._forms) if each[0] == kernel]
            rng = np.random.default_rng([_SEED, *stream, k])
            first, second = self._summed(kernel, rows, draws, rng)
            at = np.ix_(rows, rows)
            values[at] = first / draws
            errors[at] = np.sqrt(np.maximum(second / draws - values[at] ** 2, 0.0) / draws)
        return values, errors

    def _summed(
        self, kernel: str, rows: Sequence[int], draws: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Σ r_a r_b, and Σ (r_a r_b)², over all draws."""
        K, mean = self._kernels[kernel], self._average(kernel, ())
        root, sigma = _root(K), derivatives(self._sigma(kernel), (0,))
        chosen = [self._forms[k][1:] for k in rows]
        forms = [(a, H, float((a * mean).sum() - (H * K).sum())) for a, H in chosen]
        sums = np.zeros((2, len(rows), len(rows)))
        step = max(1, _AT_ONCE // len(K))
        for begin in range(0, draws, step):
            z = root @ rng.standard_normal((root.shape[1], min(step, draws - begin)))
            (s,) = sigma(z)
            if self._keep < 1.0:
                s = s * (rng.random(s.shape) < self._keep) / self._keep
            r = np.array([_form(a, s) - _form(H, z) - c for a, H, c in forms])
            sums += r @ r.T, (r * r) @ (r * r).T
        return sums[0], sums[1]


def _form(weights: Array, values: Array) -> Array:
    """vᵀ A v of each draw, (draws,), from v (m, draws)."""
    return np.asarray(((weights @ values) * values).sum(axis=0))


def _root(K: Array) -> Array:
    """A matrix B with B Bᵀ = K."""
    values, vectors = np.linalg.eigh(K)
    if values[0] < -_NEGATIVE * abs(values[-1]):
        wanted = f"a kernel that is a covariance; this one has the eigenvalue {values[0]:.2g}"
        raise InputError("inputs", f"{len(K)} samples", wanted)
    live = values > 0.0
    return np.asarray(vectors[:, live] * np.sqrt(values[live]))


def _contracted(
    mono: Monomial,
    ends: _Ends,
    known: Known,
    sampled: _Sampled,
    m: int,
) -> tuple[float, tuple[float, int, int] | None]:
    """A term summed over all samples with the weights: what is exact of it, and what is sampled."""
    four = _fours(mono)
    rest = [(atom, power) for atom, power in mono if atom not in four]
    (a, first), (b, second) = ends
    if four:
        own = [[each for each in rest if _samples(each[0]) <= set(of)] for of in (first, second)]
        own[1] = [each for each in own[1] if each not in own[0]]
        one = a * _merged(own[0], first, known, m)
        other = b * _merged(own[1], second, known, m)
        exact, place, beside = sampled(four[0].kernel, one, other)
        return exact, (1.0, place, beside)
    return _exact(mono, ends, known), None


def _exact(mono: Monomial, ends: _Ends, known: Known) -> float:
    """A term summed over all samples with the weights."""
    arrays, letters = [each for each, _ in ends], [_indices(labels) for _, labels in ends]
    for atom, power in mono:
        array, labels = known(atom, power)
        arrays += [array] * abs(power)
        letters += [_indices(labels)] * abs(power)
    return float(np.einsum(",".join(letters) + "->", *arrays, optimize="greedy"))


def _merged(
    factors: Sequence[tuple[Atom, int]], labels: Sequence[int], known: Known, m: int
) -> Array:
    """The product of factors of two labels, (m, m)."""
    total = np.ones((m, m))
    for atom, power in factors:
        array, own = known(atom, power)
        for _ in range(abs(power)):
            total = total * _spread(array, own, labels)
    return total


def _spread(array: Array, own: Sequence[int], labels: Sequence[int]) -> Array:
    """An array of these labels along axes of others."""
    if not own:
        return array
    if len(set(own)) == 1:
        line = array.diagonal() if array.ndim == 2 else array
        return line[:, None] if own[0] == labels[0] else line[None]
    return array if tuple(own) == tuple(labels) else array.T


def _placed(weights: Array, labels: Sequence[int]) -> Array:
    """Weights of the samples 1 and 2 as those of a mean with these labels."""
    if tuple(labels) == (1, 2):
        return weights
    if tuple(labels) == (2, 1):
        return weights.T
    return np.diag(weights.sum(axis=2 - labels[0]))


def _indices(labels: Sequence[int]) -> str:
    return "".join(_LETTERS[label] for label in labels)


def _parts(step: Step, chosen: Callable[[Monomial], bool]) -> list[_Part]:
    """Some of a step's terms, as they are summed over taps."""
    made = (
        _Part(
            part.blocks, [(float(v), mono) for (mono, _), v in part.terms.items() if chosen(mono)]
        )
        for part in step.parts
    )
    return [part for part in made if part.terms]


def _is_first(atom: Atom) -> bool:
    return read(atom, tensor=lambda own: own.order == 1, other=lambda _: False)


def _is_large(atom: Atom) -> bool:
    """Whether it is no mean of two variables, but of order 1/n."""
    return read(atom, tensor=lambda own: own.order > 0 or own.pairs > 1, other=lambda _: False)


def _is_linear(mono: Monomial) -> bool:
    """Whether it is linear in the 1/n part of a mean, with nothing else of order 1/n."""
    return [atom for atom, _ in mono if _is_large(atom)] == [
        atom for atom, power in mono if _is_first(atom) and power == 1
    ] and any(_is_first(atom) for atom, _ in mono)


def _is_noise(mono: Monomial) -> bool:
    """Whether nothing in it is of order 1/n before the stage."""
    return not any(_is_large(atom) for atom, _ in mono)


def _samples(atom: Atom) -> set[int]:
    """The labels of an atom."""

    def labels(own: Tensor | Bracket | Response) -> set[int]:
        return set(own.samples)

    return read(atom, tensor=labels, bracket=labels, response=labels, other=lambda _: set())


def _is_plain(atom: Atom) -> bool:
    """Whether it is ⟨σ₁σ₂σ₃σ₄⟩."""

    def plain(own: Bracket) -> bool:
        return not own.outer and sorted(own.factors) == [(k, 0) for k in range(1, 5)]

    return read(atom, bracket=plain, other=lambda _: False)


def _crosses(samples: set[int]) -> bool:
    """Whether samples of both pairs occur."""
    return bool(samples & {1, 2}) and bool(samples & {3, 4})


def _fours(mono: Monomial) -> list[Bracket]:
    """The averages over four samples."""
    return [each for each in of_kind((atom for atom, _ in mono), Bracket) if len(each.samples) > 2]


def _without_large(part: _Part) -> Expansion:
    """The terms without what is no array of two samples at most."""
    kept = (
        frozenset((a, power) for a, power in mono if len(_samples(a)) < 3 and not _is_large(a))
        for _, mono in part.terms
    )
    return {(mono, 0): 1 for mono in kept}  # type: ignore[misc]


def _of_pairs(kernel: str) -> list[Bracket]:
    """⟨σσ⟩ and its derivatives by K."""
    outer: list[tuple[int, ...]] = [(), (1, 1), (1, 2), (2, 2)]
    return [Bracket(((1, 0), (2, 0)), each, kernel) for each in outer]


def _raised(name: Name) -> Name:
    """The 1/n part of a mean."""
    return identify(tensor(name.fields, 1, name.pairing, (0, 1)))[0]


def _pairs(step: Step) -> list[tuple[Name, tuple[int, ...]]]:
    """The two means whose covariance it is, and the labels of each."""
    name = step.target
    label = dict(zip(name.subscripts, step.samples, strict=True))
    return [
        identify(tensor((name.fields[s], name.fields[t]), 0, ((0, 1),), (label[s], label[t])))
        for s, t in name.pairing
    ]


def _refused(reason: str, scheme: Scheme) -> InputError:
    return InputError("layer", str(scheme.layer or "dense()"), f"{reason}, where V is sampled")


class Outputs:
    """V of chosen outputs, by weights that go down from each layer that is asked for.

    Arguments:
        schemes: under what the recursions of each distinct layer are derived.
        order: which of them layers 2, 3, … have.
        first: the weights of layer 1.
        samples: in front of each scheme's layer, and behind layer 1.

    Raises InputError for layers with gates, with a readout, and of laws that permutations keep.
    """

    def __init__(
        self,
        schemes: tuple[Scheme, ...],
        order: Sequence[int],
        first: WeightEnsemble,
        samples: tuple[tuple[int, ...], int],
    ) -> None:
        if any(scheme.readouts for scheme in schemes):
            raise _refused("a readout as a layer, such as pooling, behind the others", schemes[0])
        every = closures([named("K"), named("V")], schemes)
        means = tuple(tuple(tuple(_means(behind)) for behind in of) for of in every)
        self._forward = StagedLayers(means, schemes, first, samples).along(order)
        self._order = order
        self._passages = [
            self._made(of, scheme, m)
            for of, scheme, m in zip(every, schemes, samples[0], strict=True)
        ]
        start = schemes[0].first(first)
        self._at_first = through(named("V"), start, start.stages[0])
        if any(len(each.samples) > 2 for each in self._at_first.atoms(Tensor)):
            raise _refused("Gaussian or Haar weights in layer 1", schemes[0])
        steps = [step for of in self._passages for each in of for step in each.steps]
        masks = (p for scheme in schemes for stage in scheme.stages for p in stage.masks)
        self._parameters = parameters_of([*steps, self._at_first], masks)
        for each in chain(*self._passages):
            each.bound(self._parameters)

    @staticmethod
    def _made(names: Sequence[Sequence[Name]], scheme: Scheme, m: int) -> list[Passage]:
        """The stages of a layer."""
        found = []
        below = names[-1]
        for behind, stage in zip(names, scheme.stages, strict=True):
            found.append(Passage([*_means(below)], behind, stage, scheme, m))
            m = stage.taps.behind(m)
            below = behind
        return found

    def __call__(
        self,
        inputs: Array,
        symbols: Mapping[str, Array],
        rows: Sequence[int],
        outputs: tuple[int, Sequence[int]],
        draws: int,
        advance: Callable[[float], None],
    ) -> tuple[Array, Array]:
        """V and its error at these layers, ascending: (rows, p, p, p, p) of p outputs.

        Arguments:
            inputs: their kernel.
            symbols: the hyperparameters by name, an entry for each layer.
            outputs: how many samples these layers have, and the p that are chosen.
            draws: of z at each stage.
            advance: is told of the layers that are done.
        """
        columns, own = (
            np.array([symbols[name] for name in names]).T[:, None]
            for names in (self._forward.parameters, self._parameters)
        )
        within, (m, chosen) = self._climbed(inputs, columns), outputs
        pairs = [(p, q) for p in range(len(chosen)) for q in range(p + 1)]
        groups: list[Weights] = []
        totals = np.zeros((len(rows), 3, len(pairs), len(pairs)))
        for layer in range(rows[-1], 1, -1):
            if layer >= rows[0]:
                groups.append({named("K"): _units(pairs, chosen, m)})
            passages = self._passages[self._order[layer - 2]]
            for k in reversed(range(len(passages))):
                stream = layer, k
                at = within[layer - 2][k]
                groups, noises = passages[k](groups, at, own[layer - 1], draws, stream)
                totals[: len(noises)] += np.array(noises)
            advance(1)
        if rows[0] == 1:
            groups.append({named("K"): _units(pairs, chosen, m)})
        at_first = (self._first(each[named("K")], inputs, own[0, 0]) for each in groups)
        totals += np.array(list(at_first))
        values, variances, sizes = totals[::-1].swapaxes(0, 1)
        errors = CAUTION * np.sqrt(variances) + _ROUNDINGS * EPS * sizes
        return _unfolded(values, len(chosen)), _unfolded(errors, len(chosen))

    def _climbed(self, inputs: Array, columns: Array) -> list[list[Both]]:
        """The means before each stage of layers 2, 3, …"""
        tensors = [each[0] for each in self._forward.first(inputs, columns[0])[0]]
        found = []
        for layer in range(2, len(columns) + 1):
            *before, last = self._forward.within(tensors, columns[layer - 1], layer)
            found.append(before)
            tensors = [each[0] for each in last[0]]
        return found

    def _first(self, weights: Array, inputs: Array, parameters: Array) -> Noise:
        """What V of layer 1 adds."""

        def known(atom: Atom, exponent: int) -> tuple[Array, Sequence[int]]:
            def number(own: Parameter) -> tuple[Array, Sequence[int]]:
                value = parameters[self._parameters.index(own.name)]
                return np.array(1.0 / value if exponent < 0 else value), ()

            return read(atom, parameter=number, tensor=lambda own: (inputs, own.samples))

        count = len(weights)
        found = np.zeros((3, count, count))
        for i, j in product(range(count), repeat=2):
            ends = (weights[i], (1, 2)), (weights[j], (3, 4))
            for (mono, _), value in self._at_first.terms.items():
                exact = float(value) * _exact(mono, ends, known)
                found[0, i, j] += exact
                found[2, i, j] += abs(exact)
        return Noise(*found)


def _means(names: Sequence[Name]) -> Iterator[Name]:
    """The means of two variables."""
    return (name for name in names if name.pairs == 1 and not name.order)


def _units(pairs: Sequence[tuple[int, int]], chosen: Sequence[int], m: int) -> Array:
    """The weights that read each pair of the chosen samples."""
    found = np.zeros((len(pairs), m, m))
    for unit, (p, q) in zip(found, pairs, strict=True):
        unit[chosen[p], chosen[q]] = 1.0
    return found


def _unfolded(values: Array, outputs: int) -> Array:
    """(rows, p, p, p, p) from (rows, pairs, pairs), p ≥ q."""
    p, q = np.indices((outputs, outputs))
    high, low = np.maximum(p, q), np.minimum(p, q)
    at = (high * (high + 1) // 2 + low).ravel()
    found = values[:, at[:, None], at]
    return np.asarray(found.reshape(len(values), *(outputs,) * 4))
