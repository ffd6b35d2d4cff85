"""Fields of one's own, by their forward equation: an invariant polynomial in a layer's weights.

    J = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
    recursion([J, "z", "z"], pairing=((0, 1), (2, 3)))

is the Gram matrix of the input-output Jacobian, J_{ik} = Σ_x ∂z_i/∂x ∂z_k/∂x. On the left stand the
neural indices of layer ℓ+1, each with a sample of its own; on the right sums of products of

    W[i,a]        a weight; a is a neuron of layer ℓ, summed over
    b[i]          the bias;           delta[i,k]    Kronecker's δ of two indices of the left
    s[a:i]        σ(z_a) for the sample of index i; s', s'', … its derivatives
    J[a:i,b:k]    a field of layer ℓ: this one, z, H, dH, ddI, ddII, or one of `using`
    1/n           one over the width of layer ℓ;   numbers, 2 or 1/2, and symbols, such as lambda_W

":i" may be left out where W[i,a] has tied a to the one index i.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations

import sympy

from ..arithmetic.parameters import Parameter
from ..arithmetic.polynomials import UNIT, Monomial, power, times
from ..errors import InputError
from ..groups.pairings import ordered
from ..work.caches import cache
from .through import Summand
from .trees import FIELD_NAMES, STREAM, AnyField, Edge, InputValue, Kind, Placed

_RESERVED = {"n", "W", "b", "s", "delta", "K", "K0", "z", "H", "dH", "ddI", "ddII"}

WANTED = "an equation such as \"J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]\""

NO_SKIP = (
    "fields of layer ℓ at neurons that are summed over, as in W[i,a] z[a]: one that is carried "
    "past the weights, as a skip connection carries z[i], is not covered"
)


@dataclass(frozen=True)
class Equation:
    """A field given by its forward equation.

    Arguments:
        text: the equation, in the notation above.
        at_inputs: the field at layer 0: "zero", or "identity", δ of its two indices.
        using: other fields that the equation names.

    Raises InputError where the text is not such an equation, or not invariant under rotations of
    the neurons: every index of the left must stand once in each product.

    >>> Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity").nodes
    2
    """

    text: str
    at_inputs: InputValue = "zero"
    using: tuple[Equation, ...] = ()
    name: str = field(init=False, compare=False)
    nodes: int = field(init=False, compare=False)
    terms: tuple[Summand, ...] = field(init=False, compare=False)
    """The products on the right, over the places of the left."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError("text", self.text, WANTED)
        if not isinstance(self.using, tuple | list) or not all(
            isinstance(each, Equation) for each in self.using
        ):
            raise InputError("using", self.using, "a sequence of Equations")
        object.__setattr__(self, "using", tuple(self.using))
        if len({each.name for each in self.using}) < len(self.using):
            raise InputError("using", [each.name for each in self.using], "names that differ")
        for each in self.using:
            if not re.search(rf"\b{re.escape(each.name)}\b", self.text):
                raise InputError("using", each.name, "only fields that occur in the equation")
        known: dict[str, AnyField] = {name: tree for tree, name in FIELD_NAMES.items()}
        known |= {equation.name: equation for equation in self.using}
        name, indices, right = _parse(self.text, known)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "nodes", len(indices))
        places = {index: place for place, index in enumerate(indices)}
        products = (_Product(part, sign, self, places, known) for sign, part in _split(right))
        object.__setattr__(self, "terms", tuple(each.term() for each in products))
        given, values = self.at_inputs, ["zero", *["identity"] * (self.nodes == 2)]
        if not isinstance(given, str) or given not in values:
            wanted = '"zero", or "identity" for a field with two indices'
            raise InputError("at_inputs", given, wanted)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in ("at_inputs", "using"))
        changed = (f", {name}={each!r}" for name, each in given if each != getattr(Equation, name))
        return f"Equation({self.text!r}{''.join(changed)})"

    def latex(self) -> str:
        """The forward equation in LaTeX."""
        text = _FACTOR.sub(_factor_latex, " ".join(self.text.split()))
        return text.replace("*", " ")

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    @property
    def rank(self) -> tuple[int, str, tuple[Edge, ...]]:
        """Behind the trees with as many nodes, by name."""
        return self.nodes, self.name, ()

    def kind(self, node: int) -> Kind:
        """Its indices are those of z."""
        return STREAM

    def symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The permutations of the indices that keep the equation, and so the field."""
        return _symmetries(self)

    def forward(self, slots: tuple[int, ...], samples: tuple[int, ...]) -> tuple[Summand, ...]:
        """The right-hand side for these neural indices and samples."""
        return tuple(_placed(term, slots, samples) for term in self.terms)


_FACTOR = re.compile(r"([A-Za-z_]\w*)('*)(?:\[([^\]]*)\])?")
_LETTERS = {"s": r"\sigma", "delta": r"\delta"}


def _factor_latex(match: re.Match[str]) -> str:
    name, primes, inside = match.groups()
    if inside is None:
        return name if len(name) == 1 else str(sympy.latex(sympy.Symbol(name)))
    head = _LETTERS.get(name) or (name if len(name) == 1 else rf"\mathrm{{{name}}}")
    indices = ",".join(index.partition(":")[0].strip() for index in inside.split(","))
    return f"{head}{primes}_{{{indices}}}"


def _placed(term: Summand, slots: tuple[int, ...], samples: tuple[int, ...]) -> Summand:
    return term._replace(
        deltas=tuple((slots[a], slots[b]) for a, b in term.deltas),
        biases=tuple((slots[a], kind) for a, kind in term.biases),
        weights=tuple((matrix, slots[a], j) for matrix, a, j in term.weights),
        factors=tuple((j, samples[place], order, of) for j, place, order, of in term.factors),
        fields=tuple(
            placed._replace(samples=tuple(samples[place] for place in placed.samples))
            for placed in term.fields
        ),
    )


@cache
def _symmetries(equation: Equation) -> tuple[tuple[int, ...], ...]:
    places = tuple(range(equation.nodes))
    found = []
    for order in permutations(places):
        turns = _powers(order)
        forms = [
            sorted(_normal_form(term, equation, turns) for term in equation.forward(slots, slots))
            for slots in (places, order)
        ]
        if forms[0] == forms[1]:
            found.append(order)
    return tuple(found)


def _powers(order: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The cyclic group of a permutation: if it keeps the field at layer ℓ, so do these."""
    group = [tuple(range(len(order)))]
    while (turned := tuple(order[k] for k in group[-1])) != group[0]:
        group.append(turned)
    return group


def _normal_form(
    term: Summand, owner: Equation, turns: list[tuple[int, ...]]
) -> tuple[object, ...]:
    """The least spelling of a term over the names of its summed neurons."""

    def placed(each: Placed, number: tuple[int, ...]) -> tuple[object, ...]:
        nodes = [(number[j], at) for j, at in zip(each.neurons, each.samples, strict=True)]
        alike = turns if each.field == owner else each.field.symmetries()
        return str(each.field), min(tuple(nodes[k] for k in turn) for turn in alike)

    return min(
        (
            term.coefficient,
            sorted(term.parameters),
            term.means,
            sorted(ordered(a, b) for a, b in term.deltas),
            sorted(term.biases),
            sorted((slot, number[j]) for _, slot, j in term.weights),
            sorted((number[j], sample, order) for j, sample, order, _ in term.factors),
            sorted(placed(each, number) for each in term.fields),
        )
        for number in permutations(range(len(term.neurons)))
    )


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:/\d+)?)(?P<width>/n\b)?|(?P<slash>/\s*n\b)"
    r"|(?P<name>[A-Za-z_]\w*)(?P<primes>'*)(?:\[(?P<inside>[\w\s,:]*)\])?|(?P<sign>[+-]|\*(?!\*)))"
)


def _parse(text: str, known: Mapping[str, AnyField]) -> tuple[str, list[str], str]:
    """The name on the left, its indices, and the right-hand side."""
    left, equals, right = text.partition("=")
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*\[([\w\s,]+)\]\s*", left)
    if not equals or match is None:
        raise InputError("text", text, WANTED)
    name, indices = match[1], [index.strip() for index in match[2].split(",")]
    _refuse_skips(right, indices)
    if name in {*known, "W", "b", "s", "delta", "n"} or len(set(indices)) < len(indices):
        wanted = f"a new name on the left, other than {', '.join(known)}, and distinct indices"
        raise InputError("text", left.strip(), wanted)
    return name, indices, right


def _refuse_skips(right: str, indices: list[str]) -> None:
    """Raise InputError for a field whose neuron is one of layer ℓ+1."""
    for match in _FACTOR.finditer(right):
        name, _, inside = match.groups()
        if inside is None or name in {"W", "b", "delta"}:
            continue
        neurons = {index.partition(":")[0].strip() for index in inside.split(",")}
        if neurons & set(indices):
            raise InputError("text", match[0], NO_SKIP)


def _split(right: str) -> Iterator[tuple[int, list[re.Match[str]]]]:
    """The signed products of a sum, as tokens."""
    sign, product, at, after_sign = 1, list[re.Match[str]](), 0, False
    right = right.rstrip()
    while at < len(right):
        token = _TOKEN.match(right, at)
        if token is None:
            raise InputError("text", right[at:], WANTED)
        at = token.end()
        if token["sign"] and after_sign:
            raise InputError("text", right, WANTED)
        if token["sign"] in {"+", "-"}:
            if product:
                yield sign, product
            sign, product = (1 if token["sign"] == "+" else -1), []
        elif token["sign"] and not product:
            raise InputError("text", right, WANTED)
        elif not token["sign"]:
            product.append(token)
        after_sign = bool(token["sign"])
    if not product or after_sign:
        raise InputError("text", right, WANTED)
    yield sign, product


class _Product:
    """One product of the right-hand side, read factor by factor."""

    def __init__(
        self,
        tokens: list[re.Match[str]],
        sign: int,
        owner: Equation,
        places: Mapping[str, int],
        known: Mapping[str, AnyField],
    ) -> None:
        self.tokens, self.places, self.known = tokens, places, {owner.name: owner, **known}
        self.coefficient, self.fan_in = Fraction(sign), 0
        self.parameters: Monomial = UNIT
        self.neuron: dict[str, int] = {}
        self.tied: dict[str, set[int]] = {}
        for token in tokens:
            if token["name"] == "W" and token["inside"] is not None:
                row, column = self.indices(token, 2)
                self.tied.setdefault(column, set()).add(self.place(row))

    def term(self) -> Summand:
        """The product; raises InputError where it is not invariant."""
        deltas, biases, weights = [], [], []
        factors: list[tuple[int, int, int, Kind]] = []
        fields: list[Placed] = []
        for token in self.tokens:
            kind = token["name"]
            if token["primes"] and (kind != "s" or token["inside"] is None):
                raise InputError("text", token[0].strip(), "primes on s[…] alone")
            if token["inside"] is None:
                self.scale(token)
            elif kind == "W":
                row, column = self.indices(token, 2)
                weights.append((0, self.place(row), self.number(column)))
            elif kind == "b":
                biases.append((self.place(*self.indices(token, 1)), STREAM))
            elif kind == "delta":
                a, b = self.indices(token, 2)
                deltas.append((self.place(a), self.place(b)))
            elif kind == "s":
                (node,) = self.nodes(token, 1)
                factors.append((*node, len(token["primes"]), STREAM))
            elif kind in self.known:
                field = self.known[kind]
                neurons, samples = zip(*self.nodes(token, field.nodes), strict=True)
                fields.append(Placed(field, neurons, samples))
            else:
                raise InputError(
                    "text",
                    token[0].strip(),
                    f"W, b, delta, s, or one of {', '.join(self.known)}",
                )
        self.check(deltas, biases, weights)
        return Summand(
            self.parameters,
            (STREAM.space,) * self.fan_in,
            tuple(deltas),
            tuple(biases),
            tuple(weights),
            tuple(factors),
            tuple(fields),
            neurons=(STREAM.space,) * len(self.neuron),
            coefficient=self.coefficient,
        )

    def check(
        self,
        deltas: list[tuple[int, int]],
        biases: list[tuple[int, Kind]],
        weights: list[tuple[int, int, int]],
    ) -> None:
        """Every index of the left once, and a sum over every neuron through the weights or 1/n."""
        seen = [place for pair in deltas for place in pair]
        seen += [*(place for place, _ in biases), *(place for _, place, _ in weights)]
        if sorted(seen) != sorted(self.places.values()):
            wanted = f"each of {', '.join(self.places)} once, in W, b or delta, in every product"
            raise InputError("text", " ".join(token[0].strip() for token in self.tokens), wanted)

    def scale(self, token: re.Match[str]) -> None:
        """A number, 1/n or a symbol."""
        if token["slash"] or token["width"]:
            self.fan_in += 1
        if token["number"]:
            if re.fullmatch(r"\d+/0+", token["number"]):
                raise InputError("text", token["number"], "a finite number")
            self.coefficient *= Fraction(token["number"])
        if token["name"]:
            if token["name"] in _RESERVED or keyword.iskeyword(token["name"]):
                raise InputError("text", token["name"], "a symbol other than those of the notation")
            self.parameters = times(self.parameters, power(Parameter(token["name"]), 1))

    def indices(self, token: re.Match[str], count: int) -> list[str]:
        """The comma-separated indices of a factor."""
        found = [index.strip() for index in token["inside"].split(",")]
        if len(found) != count or not all(found):
            raise InputError("text", token[0].strip(), f"{count} indices")
        return found

    def place(self, index: str) -> int:
        """Where an index stands on the left."""
        if index not in self.places:
            raise InputError("text", index, f"one of the left's indices, {', '.join(self.places)}")
        return self.places[index]

    def number(self, neuron: str) -> int:
        """The number of a summed neuron."""
        if neuron in self.places or not neuron.isidentifier():
            raise InputError("text", neuron, "a neuron to sum over, none of the left's indices")
        return self.neuron.setdefault(neuron, len(self.neuron))

    def nodes(self, token: re.Match[str], count: int) -> list[tuple[int, int]]:
        """The (neuron, place of the sample) of each index, as in "a:i" or plain "a"."""
        found = []
        for index in self.indices(token, count):
            neuron, colon, sample = (part.strip() for part in index.partition(":"))
            tied = {self.place(sample)} if colon else self.tied.get(neuron, set())
            if len(tied) != 1:
                raise InputError(
                    "text", token[0].strip(), f"a sample for {neuron}, as in {neuron}:i"
                )
            found.append((self.number(neuron), tied.pop() if colon else min(tied)))
        return found
