"""Skips around one matrix with one input: G1, V, Θ1, D, F, A, B and the sequences that close them.

`derive.engine.tangents` derives what moves: the tensors, and functionals X(f) of functions of the z
of one neuron, Two(:zz:, f), One(f), Own(f), Apart(f), Across(z, f) and Square(1, f). They are kept
as X(he_b), b ≤ N, he_b being the normalised Hermite polynomials of z/√K, so that X(σσ), X(σσ') and
X(σ'σ') are sums over the coefficients of these (`hermite`), and

    X(P f^{(k)}) = K'^{−k/2} √(b!/(b−k)!) (γ√(K/K'))^{b−k} X(he_{b−k})    for f = he_b(z'/√K') .

What N leaves out is bounded as in `exchangeable`: of a functional beyond N, by the lengths of what
is brought there, times the length of the function beyond N by Parseval's theorem; the bound is part
of a tensor's error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Expansion
from derive.engine.neurons import Local
from derive.engine.scheme import Scheme
from derive.engine.step import closures
from derive.engine.tangents import (
    CLOSED,
    MEMBERS,
    closes,
    functional_in,
    functional_of,
    norm_of,
    recursion_of,
)
from derive.engine.tensors import Name, Tensor, identify, named
from derive.engine.through import Response
from derive.engine.trees import STREAM
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble

from ...arrays import Array
from .. import averages as of
from ..accuracy import CAUTION
from ..run import Layers
from ..staged import StagedLayers
from ..vectors import Both, begun, disturbed, put, relabelled, side_by_side
from .hermite import Products, basis

_K, _THETA, _G1, _V = map(named, ("K", "Theta", "G1", "V"))
DEGREE = 256
"""N."""


class _Term(NamedTuple):
    """A coefficient, atoms with their powers, and what is of the function on the left."""

    value: float
    atoms: tuple[tuple[Any, int], ...]
    test: tuple[str, Local] | None


class _Derived(NamedTuple):
    """What is derived of one layer: the terms of tensors, and of functionals; γ; f of a norm."""

    tensors: dict[Name, list[_Term]]
    functionals: dict[str, list[_Term]]
    gamma: list[_Term]
    scale: Response | None


def _needs(terms: Sequence[_Term]) -> tuple[set[Name], set[str]]:
    """The tensors and functionals in terms."""
    names, kinds = set(), set()
    for term in terms:
        found = [functional_in(atom) for atom, _ in term.atoms]
        kinds |= {each[0] for each in (*found, term.test) if each and each[0] != "Mean"}
        names |= {identify(atom)[0] for atom, _ in term.atoms if isinstance(atom, Tensor)}
    return names & set(CLOSED), kinds


def _derived(names: Sequence[Name], scheme: Scheme) -> _Derived:
    """Of a layer; InputError for one that is neither dense nor a skip around one matrix."""
    scheme.check_numbers()
    stages, weights = scheme.stages, scheme.weights
    if not closes(stages):
        wanted = "skips around one matrix, or dense layers, for what is not K or Θ"
        raise InputError("layer", str(scheme.layer), wanted)
    if not scheme.square or scheme.corrections:
        wanted = "equal widths and variances without corrections, beyond K and Θ, under such a skip"
        raise InputError("layer", str(scheme.layer), wanted)
    norm = norm_of(stages)
    if norm is not None and set(names) - {_G1, _V}:
        wanted = "no norm before a skip around one matrix, for tensors other than K, Θ, G1 and V"
        raise InputError("layer", str(scheme.layer), wanted)
    tensors: dict[Name, list[_Term]] = {}
    functionals: dict[str, list[_Term]] = {}
    wanted_names, wanted_kinds = set(names), set[str]()
    while wanted_names - tensors.keys() or wanted_kinds - functionals.keys():
        for name in sorted(wanted_names - tensors.keys()):
            samples = (1,) * len(name.subscripts)
            tensors[name] = _listed(recursion_of(name, stages, weights, samples))
        for kind in sorted(wanted_kinds - functionals.keys()):
            functionals[kind] = _listed(functional_of(kind, stages, weights))
            wanted_names.add(MEMBERS[kind][0])
        for terms in (*tensors.values(), *functionals.values()):
            own, kinds = _needs(terms)
            wanted_names |= own
            wanted_kinds |= kinds
    right = stages[-1].equation(STREAM).right
    gamma = {(each.parameters, 0): each.coefficient for each in right if each.weight is None}
    scale = None if norm is None else norm.scale
    return _Derived(tensors, functionals, _listed(gamma), scale)


def _listed(terms: Expansion) -> list[_Term]:
    """In an order that is the same in every process: sums are rounded."""
    found = []
    for (mono, _), value in terms.items():
        atoms, test = [], None
        for atom, exponent in sorted(mono, key=str):
            functional = functional_in(atom)
            if functional is not None and functional[1].tested is not None:
                assert test is None
                test = functional
            else:
                atoms.append((atom, exponent))
        found.append(_Term(float(value), tuple(atoms), test))
    return sorted(found, key=str)


class TangentLayers:
    """Tensors of one input under layers that are skips around one matrix, or dense; and K and Θ.

    Arguments:
        names: those that are wanted.
        activation: σ.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        order: which of the layers are layers 2, 3, …

    Attributes: as of `run.Layers`.

    Raises InputError for layers of other kinds among them, and tensors other than these.
    """

    orders = (2,)
    """Of the inputs' means that layer 1 depends on: their kernel alone."""

    def __init__(
        self,
        names: tuple[Name, ...],
        activation: Activation,
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        order: Sequence[int],
    ) -> None:
        own = [name for name in names if name in CLOSED]
        self._layers = [_derived(own, scheme) for scheme in schemes]
        self.own = tuple(each for each in CLOSED if any(each in d.tensors for d in self._layers))
        self.kinds = tuple(k for k in MEMBERS if any(k in d.functionals for d in self._layers))
        others = [_K, *(name for name in names if name not in CLOSED)]
        if set(self.own) - {_V, _G1}:
            others.append(_THETA)
        needed = closures(tuple(dict.fromkeys(others)), schemes)
        self._plain = StagedLayers(needed, activation, schemes, first, 1).along(order)
        self.names = (*self._plain.names, *self.own)
        start = Scheme(schemes[0].weights, schemes[0].square, schemes[0].corrections, single=True)
        at_first = tuple(dict.fromkeys([*closures((_K, *self.own), (start,))[0][-1]]))
        self._start = Layers(at_first, activation, start, first, 1)
        self._order = order
        self.parameters = sorted({*self._plain.parameters, *self._start.parameters})
        every = [
            terms
            for each in self._layers
            for terms in (*each.tensors.values(), *each.functionals.values())
        ]
        atoms = {atom for terms in every for term in terms for atom, _ in term.atoms}
        atoms_of_tests = [term.test for terms in every for term in terms if term.test]
        self.brackets = sorted({relabelled(a)[0] for a in atoms if isinstance(a, Bracket)})
        found = {(kind, local.factors) for kind, local in filter(None, map(functional_in, atoms))}
        self.responses = sorted(found)
        factors = {local for _, local in self.responses}
        factors |= {local.factors for kind, local in atoms_of_tests if local.factors}
        self.products = {
            each: Products(activation, tuple(order for _, order in each))
            for each in sorted(factors)
        }
        self.checks = {
            each: Bracket(tuple((0, order) for _, order in each))
            for each in self.products
            if min(order for _, order in each) >= 0
        }
        self.brackets = sorted({*self.brackets, *self.checks.values()})
        self._averages = of.of_one(activation, self.brackets)
        self._sums = side_by_side(
            [self._averages.places[each] for each in self.brackets], self._averages.count
        )
        self.noises = self._plain.noises + self._averages.count + len(self.responses)

    def averages(self, K: Array) -> tuple[Array, Array]:
        """Of the brackets at a kernel."""
        return self._averages(K)

    def first(self, kernel: Array, parameters: Array) -> Both:
        """The tensors at layer 1, and their sizes; as `run.Layers.first`."""
        values, sizes = self._plain.first(
            kernel, _columns(parameters, self.parameters, self._plain.parameters)
        )
        found = self._start.first(
            kernel, _columns(parameters, self.parameters, self._start.parameters)
        )
        places = [self._start.names.index(each) for each in self.own]
        own, of_own = ([part[place] for place in places] for part in found)
        return [*values, *own], [*sizes, *of_own]

    def descend(
        self,
        start: Both,
        parameters: Array,
        noise: Array,
        rounding: Array,
        advance: Callable[[float], None],
    ) -> Both:
        """The tensors at every layer, and their sizes; as `run.Layers.descend`."""
        known, count = len(self._plain.names), self._plain.noises
        columns = _columns(parameters, self.parameters, self._plain.parameters)
        head = start[0][:known], start[1][:known]
        plain, of_plain = self._plain.descend(
            head, columns, noise[:, :count], rounding[:, :known], lambda layers: None
        )
        own, of_own = begun((start[0][known:], start[1][known:]), len(parameters))
        below = dict(zip(self._plain.names, plain, strict=True))
        state = self._begin(below[_K][0], dict(zip(self.own, own, strict=True)))
        for layer in range(1, len(parameters)):
            tensors = {name: each[layer - 1] for name, each in below.items()}
            tensors |= {name: each[layer - 1] for name, each in zip(self.own, own, strict=True)}
            given = dict(zip(self.parameters, parameters[layer].T, strict=True))
            found = _Pass(
                self,
                self._layers[self._order[layer - 1]],
                state,
                tensors,
                given,
                noise[:, count:],
            )
            put((own, of_own), layer, found.tensors(), rounding[:, known:])
            members = {name: each[layer] for name, each in zip(self.own, own, strict=True)}
            state = found.after(float(below[_K][layer, 0]), members)
            advance(1)
        return [*plain, *own], [*of_plain, *of_own]

    def bracketed(self, K: Array, noise: Array) -> dict[Bracket, Array]:
        """The brackets at a kernel, those of the copies and their sizes, (copies + 1,)."""
        values, sizes = self._averages(K)
        found = disturbed(values.T, sizes[:, 0], noise[:, : self._averages.count], self._sums)
        return dict(zip(self.brackets, found.T, strict=True))

    def _begin(self, K: Array, own: Mapping[Name, Array]) -> _State:
        """At layer 1 rotations keep the law, and H is no random number."""
        at = {name: each[0] for name, each in own.items()}
        values = {kind: np.zeros((len(K), DEGREE + 1)) for kind in self.kinds}
        state = _State(values, dict.fromkeys(values, 0.0)).with_members(float(K[0]), at)
        if "One" in values:  # E :zzzz: = 3V/n
            values["One"][:, 4] = 3.0 * at[_V] / (math.sqrt(24.0) * float(K[0]) ** 2)
        return state


class _State(NamedTuple):
    """Behind a layer: X(he_b) for each functional, (copies, N + 1), and its length beyond N."""

    values: dict[str, Array]
    beyond: dict[str, float]

    def with_members(self, K: float, tensors: Mapping[Name, Array]) -> _State:
        """With the members that are tensors."""
        for kind, values in self.values.items():
            name, degree = MEMBERS[kind]
            scale = math.sqrt(math.factorial(degree) * K**degree)
            values[:, degree] = tensors[name] / scale if scale else 0.0
        return self


class _Pass:
    """One layer: what stands for each atom below it, and what is above."""

    def __init__(
        self,
        layers: TangentLayers,
        derived: _Derived,
        state: _State,
        tensors: Mapping[Name, Array],
        parameters: Mapping[str, Array],
        noise: Array,
    ) -> None:
        self._layers, self._derived, self._state = layers, derived, state
        self._tensors, self._parameters = tensors, parameters
        self._K = tensors[_K]
        self._copies = len(self._K)
        scale = 1.0 if derived.scale is None else self._response(derived.scale)
        kernel = self._K * scale**2
        self._brackets = layers.bracketed(kernel, noise)
        own = basis(kernel[:1, None], (0, 0), DEGREE)
        self._functions = {each: made(own) for each, made in layers.products.items()}
        self._responses = self._all_responses(noise[:, -len(layers.responses) :])

    def _all_responses(self, noise: Array) -> dict[tuple[str, Any], Array]:
        """X(f) for each functional and product, (copies + 1,), with what is left out of them."""
        signs = np.array([0.0, *(1.0 if k % 2 else -1.0 for k in range(1, self._copies))])
        found = {}
        for place, (kind, factors) in enumerate(self._layers.responses):
            if kind not in self._state.values:
                continue
            values, (f, f_beyond) = self._state.values[kind], self._functions[factors]
            size = float(np.linalg.norm(f) * np.linalg.norm(values[0]))
            left = self._state.beyond[kind] * f_beyond
            if factors in self._layers.checks:
                known = float(self._brackets[self._layers.checks[factors]][0])
                left += abs(known - float(f[0])) * float(np.linalg.norm(values[0]))
            each = values @ f + noise[:, place] * size + signs * left / CAUTION
            found[kind, factors] = np.append(each, size)
        return found

    def tensors(self) -> Both:
        """The tensors above, and their sizes."""
        values, sizes = [], []
        for name in self._layers.own:
            total = sum(
                (self._scalar(term, sizes=True) for term in self._derived.tensors[name]),
                start=np.zeros(self._copies + 1),
            )
            values.append(total[:-1])
            sizes.append(np.asarray(total[-1]))
        return values, sizes

    def after(self, K: float, tensors: Mapping[Name, Array]) -> _State:
        """The state above, where K is this, with the tensors there."""
        gamma = float(sum(self._scalar(term)[0] for term in self._derived.gamma))
        own = float(self._K[0])
        lift = gamma * math.sqrt(own / K) if K > 0 else 0.0
        values, beyond = {}, {}
        for kind in self._layers.kinds:
            total, grown = np.zeros((self._copies, DEGREE + 1)), 0.0
            for term in self._derived.functionals.get(kind, ()):
                factor = self._scalar(term)
                assert term.test is not None
                source, length = self._source(*term.test)
                k = term.test[1].tested or 0
                total += factor[:-1, None] * _lifted(source, k, K, lift)
                tail = math.hypot(length, float(np.linalg.norm(source[0, DEGREE + 1 - k :])))
                if tail:
                    grown += abs(float(factor[0])) * tail * _growth(k, K, lift)
            values[kind], beyond[kind] = total, grown
        return _State(values, beyond).with_members(K, tensors)

    def _source(self, kind: str, of: Local) -> tuple[Array, float]:
        """X(he_b) below, and its length beyond N."""
        if kind != "Mean":
            return self._state.values[kind], self._state.beyond[kind]
        if not of.factors:
            one = np.zeros((1, DEGREE + 1))
            one[0, 0] = 1.0
            return one, 0.0
        coefficients, length = self._functions[of.factors]
        return coefficients[None], length

    def _scalar(self, term: _Term, *, sizes: bool = False) -> Array:
        """A term without what is of the function on the left, (copies + 1,), its size last."""
        total = np.full(self._copies + 1, term.value)
        for atom, exponent in term.atoms:
            total = total * self._lookup(atom) ** exponent
        if sizes:
            total[-1] = abs(total[-1])
        return total

    def _lookup(self, atom: object) -> Array:
        if isinstance(atom, Bracket):
            return self._brackets[relabelled(atom)[0]]
        functional = functional_in(atom)
        if functional is not None:
            kind, local = functional
            return self._responses[kind, local.factors]
        if isinstance(atom, Tensor):
            values = self._tensors[identify(atom)[0]]
        elif isinstance(atom, Response):
            values = self._response(atom)
        elif isinstance(atom, Parameter):
            values = self._parameters[atom.name]
        else:
            assert isinstance(atom, Value)
            known = {
                PARAMETERS.get(name, sympy.Symbol(name)): each[0]
                for name, each in self._parameters.items()
            }
            number = atom.expr if atom.expr.is_number else atom.expr.subs(known)
            values = np.full(self._copies, float(number))
        return np.append(values, abs(float(values[0])))

    def _response(self, atom: Response) -> Array:
        """A function of K."""
        symbols = [symbol for symbol, _ in atom.limits]
        found = _compiled(atom.value, tuple(symbols))(*[self._K for _ in symbols])
        return np.broadcast_to(np.asarray(found, float), (self._copies,))


@cache
def _compiled(value: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Callable[..., Any]:
    return sympy.lambdify(symbols, value, "numpy")  # type: ignore[no-any-return]


def _lifted(values: Array, k: int, K: float, lift: float) -> Array:
    """X(P f^{(k)}) for f = he_b, from X(he_b), (copies, N + 1)."""
    found = np.zeros_like(values)
    b = np.arange(k, DEGREE + 1)
    scale = np.ones(len(b))
    for step in range(k):
        scale = scale * np.sqrt((b - step) / K) if K > 0 else 0.0 * scale
    found[:, k:] = values[:, : DEGREE + 1 - k] * scale * lift ** (b - k)
    return found


def _growth(k: int, K: float, lift: float) -> float:
    """A bound on what is multiplied beyond N."""
    if lift == 0.0 or K == 0.0:
        return 0.0
    lift = abs(lift)
    peak = k / (-2.0 * math.log(lift)) if lift < 1.0 else math.inf
    b = max(DEGREE + 1.0, peak)
    if math.isinf(b):
        return math.inf
    return float((b / K) ** (k / 2) * lift ** (b - k))


def _columns(values: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """The parameters of these names, along the last axis."""
    return values[..., [list(names).index(name) for name in wanted]]
