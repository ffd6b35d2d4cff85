"""The notation of a layer's equations: text to sums of products, by a whitelist.

    q = z[a] z[a]/n                          a collective variable: summed over a, no index left
    q = z[a:4] z[a:4]/n                      the same of each of 4 groups of neurons by itself
    q = z[a,p] z[a,p]/n                      a mean over the positions of a signal, too
    y[i] = z[i]/sqrt(q + eps)                a variable that is carried, times a function of those
    h[i] = W1[i,a] y[a]                      a matrix, its column summed over
    z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a])
    y[i;s] = z[i;s]/sqrt(mean_s(z[i;s]^2) + eps)         a function of all samples at a neuron
    c[t,s] = q[a,t:4] k[a,s:4]/n             scores of positions t and s, in each of 4 heads
    z[i] = W4[i,a] softmax_s(c[t,s] + B[t,s]) v[a,s]     attention: a sum over positions s

An index ;s for the sample may be left out where there is no mean over samples. Equations may
contain numbers, symbols, + − * / ^ and parentheses, sqrt, exp and log of terms without an index,
s(…) for the network's σ, and activations by name, tanh(h[a]), or by a name that the layer defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import sympy

from ..activations.batches import MEAN
from ..activations.batches import WANTED as BATCH_WANTED
from ..activations.functions import names
from ..engine.scores import OF_ALL
from ..errors import InputError
from ..expressions import MAX_EXPONENT, MAX_LENGTH

WANTED = 'equations such as "h[i] = W1[i,a] z[a]" and "z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a])"'
WIDTH = sympy.Symbol("n", positive=True)
SIGMA = "s"
"""The name of σ."""
MOST_ADDENDS = 64
_FUNCTIONS: dict[str, Callable[[sympy.Expr], sympy.Expr]] = {
    "sqrt": sympy.sqrt,
    "exp": sympy.exp,
    "log": sympy.log,
}


class Weight(NamedTuple):
    """W[i,a]."""

    matrix: str
    row: str
    column: str


class Bias(NamedTuple):
    """b[i], or b1[i] and so on."""

    row: str
    name: str = "b"


PARAMETER = re.compile(r"\b(W\w*|b\d\w*)\s*\[")
"""Matrices, and biases that may have variances of their own."""


class Entry(NamedTuple):
    """v[a]; v[a:sets], a of one of so many groups of neurons; v[a,p], p a position."""

    variable: str
    at: str
    sets: int = 1
    position: str = ""


class Sigma(NamedTuple):
    """σ(…) of terms at one neuron, with the function's name in the text."""

    argument: tuple[Addend, ...]
    at: str
    name: str = SIGMA


class Batch(NamedTuple):
    """v[i;s] = a function of one variable at all samples, in the text of which it is z."""

    name: str
    variable: str
    function: str
    text: str


class Attention(NamedTuple):
    """softmax_s(c[t,s] + B[t,s]), or another function of scores; B is a table, or ""."""

    name: str
    scores: str
    table: str
    position: str


class ScoreTable(NamedTuple):
    """c[t,s] = query[a,t:sets] key[a,s:sets]/n, or over sqrt(n), or normal(…)/sqrt(n)."""

    name: str
    query: str
    key: str
    sets: str
    over: str
    is_normal: bool
    text: str


class Addend(NamedTuple):
    """A product: what has no index, and what has."""

    scale: sympy.Expr
    factors: tuple[Weight | Bias | Entry | Sigma | Attention, ...] = ()


class Statement(NamedTuple):
    """name[index] = a sum, or name = a sum."""

    name: str
    left: str | None
    right: tuple[Addend, ...]
    text: str


_LEFT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[\s*([A-Za-z_]\w*)\s*\])?\s*")
_SAMPLE = re.compile(r"\s*;\s*s\s*\]")
_ENTRY = re.compile(r"([A-Za-z_]\w*)\s*\[\s*([A-Za-z_]\w*)\s*;\s*s\s*\]")
_MEAN = re.compile(rf"\b{MEAN}\s+(\w+(?:\s*(?:\*\*|\^)\s*\d+)?)")
"""A mean of one factor, mean_s z^2, which needs no parentheses."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)"
    r"|(?P<name>[A-Za-z_]\w*)(?:\s*\[(?P<inside>[\w\s,]*)(?::\s*(?P<sets>[1-9]\d{0,5})\s*)?\])?"
    r"|(?P<sign>\*\*|[-+*/^()]))"
)


def scalar(name: str) -> sympy.Symbol:
    """A symbol of the text: a parameter, or a collective variable."""
    return WIDTH if name == "n" else sympy.Symbol(name, real=True)


_NAME = r"([A-Za-z_]\w*)"
_TABLE = re.compile(rf"\s*{_NAME}\s*\[\s*{_NAME}\s*,\s*{_NAME}\s*\]\s*=(.*)", re.DOTALL)
_ATTENTION = re.compile(rf"{_NAME}_([A-Za-z]\w*)")


def parse(text: str, functions: Collection[str] = ()) -> Statement | Batch | ScoreTable:
    """Read one equation; InputError if the text is none.

    Arguments:
        functions: further names of activations that the layer defines.
    """
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise InputError("layer", text, WANTED)
    if MEAN in text:
        return _batch(text)
    if table := _TABLE.fullmatch(text):
        return _scores(text, table)
    left, equals, right = _SAMPLE.sub("]", text).partition("=")
    match = _LEFT.fullmatch(left)
    if match is None or not equals or match[1] in {"n", "s", "b", *_FUNCTIONS}:
        raise InputError("layer", text, WANTED)
    if re.fullmatch(r"W\w*|b\d\w*", match[1]):
        wanted = "a variable on the left: W, W1, … are matrices, and b, b1, … biases"
        raise InputError("layer", text, wanted)
    if match[2] and ":" in right:
        wanted = "groups of neurons in a mean over each, as in q = z[a:4] z[a:4]/n"
        raise InputError("layer", text, wanted)
    found = Statement(match[1], match[2], _Reader(text, right, functions).sum(), text)
    if match[2]:
        _check_positions(found)
    return found


def _check_positions(statement: Statement) -> None:
    """Raise InputError for a position that no attention sums over."""
    for addend in statement.right:
        read = {each.position for each in addend.factors if isinstance(each, Attention)}
        for each in addend.factors:
            if isinstance(each, Entry) and {each.position} - {""} != read:
                count = (
                    f"{each.variable}[{each.at},{min(read)}]"
                    if read
                    else f"one index on {each.variable}"
                )
                raise InputError("layer", statement.text, count)


def _scores(text: str, table: re.Match[str]) -> ScoreTable:
    """Scores of two positions, c[t,s] = q[a,t] k[a,s]/n."""
    name, t, s, right = table.groups()
    pattern = (
        rf"\s*(?P<normal>normal\s*\()?\s*(?P<q>\w+)\s*\[\s*(?P<a>\w+)\s*,\s*{t}\s*(?::\s*(?P<sets>n/\d+|\w+)\s*)?\]\s*\*?"
        rf"\s*(?P<k>\w+)\s*\[\s*(?P=a)\s*,\s*{s}\s*(?::\s*(?P<same>n/\d+|\w+)\s*)?\]"
        rf"\s*(?(normal)\)\s*/\s*(?P<root>sqrt\(\s*n\s*\))|/\s*(?P<over>n|sqrt\(\s*n\s*\)))\s*"
    )
    match = re.fullmatch(pattern, right)
    if match is None or t == s or match["sets"] != match["same"]:
        wanted = "scores of two positions, c[t,s] = q[a,t] k[a,s]/n, or over sqrt(n)"
        raise InputError("layer", text, wanted)
    own = match["q"], match["k"], match["sets"] or "1", match["root"] or match["over"]
    return ScoreTable(name, *own, bool(match["normal"]), text)


def functions_in(statement: Statement | Batch | ScoreTable) -> set[str]:
    """The names of the activations in an equation."""
    if isinstance(statement, ScoreTable):
        return set()
    if isinstance(statement, Batch):
        return {SIGMA} if re.search(r"\bs\s*\(", statement.function) else set()
    factors = [each for addend in statement.right for each in addend.factors]
    scores = {each.name for each in factors if isinstance(each, Attention)} - OF_ALL
    return scores | {each.name for each in factors if isinstance(each, Sigma)}


def _batch(text: str) -> Batch:
    """A function of all samples at a neuron, y[i;s] = z[i;s]/sqrt(mean_s(z[i;s]^2) + eps)."""
    left, equals, right = text.partition("=")
    places = [_ENTRY.fullmatch(left.strip()), *_ENTRY.finditer(right)]
    variables = {match[1] for match in places[1:] if match}
    if not equals or len({match and match[2] for match in places}) > 1 or len(variables) != 1:
        wanted = f"a function of one variable at all samples, y[i;s] = …, {BATCH_WANTED}"
        raise InputError("layer", text, wanted)
    assert places[0] is not None
    function = _MEAN.sub(rf"{MEAN}(\1)", _ENTRY.sub("z", right))
    return Batch(places[0][1], variables.pop(), function.replace("^", "**"), text)


class _Reader:
    """Recursive descent: a sum of products of powers."""

    def __init__(self, text: str, right: str, functions: Collection[str]) -> None:
        self.text, self.functions = text, functions
        self.tokens = list(self._tokens(right.rstrip()))
        self.at = 0

    def _tokens(self, right: str) -> Iterator[re.Match[str]]:
        at = 0
        while at < len(right):
            token = _TOKEN.match(right, at)
            if token is None:
                raise InputError("layer", right[at:], WANTED)
            yield token
            at = token.end()

    def sum(self) -> tuple[Addend, ...]:
        """All of it."""
        found = self.addends()
        if self.at < len(self.tokens):
            raise InputError("layer", self.text, WANTED)
        return found

    def next_sign(self, *signs: str) -> str | None:
        """One of these signs, if it comes next."""
        if self.at < len(self.tokens) and self.tokens[self.at]["sign"] in signs:
            self.at += 1
            return self.tokens[self.at - 1]["sign"]
        return None

    def addends(self) -> tuple[Addend, ...]:
        """Terms with + and − between them."""
        total: tuple[Addend, ...] = ()
        sign: str | None = self.next_sign("+", "-") or "+"
        while sign:
            total += tuple(
                each if sign == "+" else each._replace(scale=-each.scale) for each in self.product()
            )
            sign = self.next_sign("+", "-")
        return total

    def product(self) -> tuple[Addend, ...]:
        """Factors side by side, or with * and / between them."""
        total = self.power()
        while True:
            if self.next_sign("*"):
                total = self.times(total, self.power())
            elif self.next_sign("/"):
                under = self.scalar(self.power())
                if under == 0:
                    raise InputError("layer", self.text, "no division by 0")
                total = tuple(each._replace(scale=each.scale / under) for each in total)
            elif self.at < len(self.tokens) and self.tokens[self.at]["sign"] in {None, "("}:
                total = self.times(total, self.power())
            else:
                return total

    def power(self) -> tuple[Addend, ...]:
        """A factor, or a power of one."""
        base = self.factor()
        if not self.next_sign("^", "**"):
            return base
        exponent = self.scalar(self.factor())
        if not exponent.is_Rational or abs(exponent) > MAX_EXPONENT:
            raise InputError("layer", self.text, f"exponents that are numbers, to {MAX_EXPONENT}")
        if not any(each.factors for each in base):
            return (Addend(self.scalar(base) ** exponent),)
        if not exponent.is_Integer or not 1 <= exponent <= 8:
            raise InputError("layer", self.text, "whole powers, 1 to 8, of what has an index")
        total = base
        for _ in range(int(exponent) - 1):
            total = self.times(total, base)
        return total

    def factor(self) -> tuple[Addend, ...]:
        """A number, a name, what has an index, a function, or parentheses."""
        if self.next_sign("-"):
            return tuple(each._replace(scale=-each.scale) for each in self.factor())
        if self.next_sign("("):
            return self.closed()
        if self.at == len(self.tokens) or self.tokens[self.at]["sign"]:
            raise InputError("layer", self.text, WANTED)
        token = self.tokens[self.at]
        self.at += 1
        if token["number"]:
            return (Addend(sympy.Rational(token["number"])),)
        name, inside = token["name"], token["inside"]
        if inside is not None:
            indices = [index.strip() for index in inside.split(",")]
            return (self.indexed(name, indices, int(token["sets"] or 1)),)
        if (attention := _ATTENTION.fullmatch(name)) and self.is_score(attention[1]):
            return (Addend(sympy.S.One, (self.attention(*attention.groups()),)),)
        if name in {SIGMA, *_FUNCTIONS}:
            if not self.next_sign("("):
                raise InputError("layer", self.text, f"{name}(…)")
            argument = self.closed()
            if name == SIGMA:
                return (self.sigma(argument),)
            return (Addend(_FUNCTIONS[name](self.scalar(argument))),)
        if self.is_function(name) and self.next_sign("("):
            return (self.sigma(self.closed(), name),)
        return (Addend(scalar(name)),)

    def is_function(self, name: str) -> bool:
        """True for the name of an activation, or a name that the layer defines for one."""
        return name in self.functions or name in names()

    def is_score(self, name: str) -> bool:
        """True for the name of a function of scores, before parentheses."""
        called = self.at < len(self.tokens) and self.tokens[self.at]["sign"] == "("
        return called and (name in OF_ALL or self.is_function(name))

    def attention(self, name: str, s: str) -> Attention:
        """(c[t,s]) or (c[t,s] + B[t,s]), behind the function's name."""
        inside = "".join(token[0] for token in self.tokens[self.at :]).partition(")")[0] + ")"
        of = rf"\s*{_NAME}\s*\[\s*{_NAME}\s*,\s*{s}\s*\]"
        rest = rf"(?:\s*\+\s*{_NAME}\s*\[\s*\2\s*,\s*{s}\s*\])?"
        match = re.fullmatch(rf"\s*\({of}{rest}\s*\)", inside)
        if match is None:
            wanted = f"{name}_{s}(c[t,{s}] + B[t,{s}]) of scores c and of a table B, or of c alone"
            raise InputError("layer", self.text, wanted)
        while not self.next_sign(")"):
            self.at += 1
        return Attention(name, match[1], match[3] or "", s)

    def closed(self) -> tuple[Addend, ...]:
        """The terms before a closing parenthesis."""
        found = self.addends()
        if not self.next_sign(")"):
            raise InputError("layer", self.text, "parentheses that are closed")
        return found

    def indexed(self, name: str, indices: list[str], sets: int) -> Addend:
        """W[i,a], b[i], s[a] or v[a]."""
        matrix = re.fullmatch(r"W\w*", name) is not None
        summed = not re.fullmatch(r"b(\d\w*)?|s", name)
        if len(indices) not in {1 + matrix, 1 + (matrix or summed)} or not all(
            index.isidentifier() for index in indices
        ):
            count = "two indices" if matrix else "one index"
            raise InputError("layer", self.text, f"{count} on {name}")
        if matrix:
            return Addend(sympy.S.One, (Weight(name, *indices),))
        if re.fullmatch(r"b(\d\w*)?", name):
            return Addend(sympy.S.One, (Bias(indices[0], name),))
        if name == "s":
            return self.sigma((Addend(sympy.S.One, (Entry("z", indices[0]),)),))
        return Addend(sympy.S.One, (Entry(name, indices[0], sets, *indices[1:]),))

    def sigma(self, argument: tuple[Addend, ...], name: str = SIGMA) -> Addend:
        """σ of a sum, linear in variables at one neuron."""
        indices = set()
        for each in argument:
            if len(each.factors) > 1 or not all(isinstance(f, Entry) for f in each.factors):
                wanted = "s(…) of variables at one neuron, and of collective variables"
                raise InputError("layer", self.text, wanted)
            indices |= {f.at for f in each.factors if isinstance(f, Entry)}
        if len(indices) != 1:
            raise InputError("layer", self.text, "s(…) of variables at one neuron, as in s(h[a])")
        return Addend(sympy.S.One, (Sigma(argument, indices.pop(), name),))

    def scalar(self, addends: tuple[Addend, ...]) -> sympy.Expr:
        """A sum without indices."""
        if any(each.factors for each in addends):
            wanted = "a collective variable, q = z[a] z[a]/n, where one divides or takes a root"
            raise InputError("layer", self.text, wanted)
        return sympy.Add(*(each.scale for each in addends))

    def times(self, a: tuple[Addend, ...], b: tuple[Addend, ...]) -> tuple[Addend, ...]:
        """The product of two sums."""
        if len(a) * len(b) > MOST_ADDENDS:
            raise InputError("layer", self.text, f"at most {MOST_ADDENDS} products")
        return tuple(
            Addend(one.scale * other.scale, one.factors + other.factors) for one in a for other in b
        )
