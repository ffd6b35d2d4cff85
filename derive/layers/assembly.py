"""From a layer's equations to stages, or to the reason for which they are none.

Equations are read one after another; each definition of a variable has a level, one above what it
needs, and a level is a stage. Every matrix's rows may be rotated by themselves, so a variable that
a matrix has made has a rotation group of its own, and one that is carried stays in its group. A law
that is invariant stays so unless σ, or a product, of a variable is summed over while a variable of
its group is carried past: Σ_a σ(z_a)² changes when z is rotated, and with it what is carried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count, product
from math import prod
from typing import NamedTuple, TypeVar

import sympy

from ..activations.batches import MEAN, BatchFunction, parse_batch_function
from ..activations.functions import Activation, as_activation
from ..arithmetic.parameters import C_B, C_W, Value
from ..arithmetic.polynomials import UNIT, Monomial, power
from ..engine.scores import OF_ALL, SHAPED, Scores, Table
from ..engine.stages import (
    HERE,
    LEFT,
    Attended,
    Collective,
    Equation,
    Factor,
    Function,
    Matrix,
    Mean,
    Product,
    Stage,
    Sum,
    Variable,
    linear,
)
from ..engine.taps import ALONE, Taps
from ..engine.trees import ABOVE, STREAM, Kind
from ..errors import InputError, Words
from ..expressions import FUNCTIONS
from ..symbols import n
from ..weights import WeightEnsemble
from .notation import (
    SIGMA,
    WIDTH,
    Addend,
    Attention,
    Batch,
    Bias,
    Entry,
    ScoreTable,
    Sigma,
    Statement,
    Weight,
    scalar,
)

T = TypeVar("T")

NOT_INVARIANT = (
    "{what} of {variable} is summed over while {carried} is carried past: it is no function of "
    "inner products, so that the law behind it is not invariant under rotations, and cumulants of "
    "every order enter V. A matrix before σ makes it one, as in h[i] = W1[i,a] z[a], s(h[a])"
)


@dataclass(frozen=True)
class Line:
    """One product of a definition: carried, entries = (v,), or with a matrix; v by its number.

    `at` is a variable at the neuron that is summed over, and `sigmas` are σ's arguments: a
    variable, the mean taken off it, and the function's name. `attention` are the names of its
    function, of its scores and of a table.
    """

    matrix: str | None
    at: int
    entries: tuple[int, ...]
    sigmas: tuple[tuple[int, sympy.Expr, str], ...]
    scale: sympy.Expr
    attention: tuple[str, str, str] | None = None


@dataclass
class Definition:
    """A variable: its name, its level, its equation."""

    name: str
    level: int
    lines: list[Line] = field(default_factory=list)
    bias: str | None = None


@dataclass(frozen=True)
class Centred:
    """A name in the text: a variable, and the collective variable that is its mean, to take off."""

    variable: int
    centre: sympy.Expr


class MeanOf(NamedTuple):
    """The average that a collective variable is.

    Attributes:
        numbers: the one or two variables, by their numbers.
        sets: of neurons, over each of which alone the mean is.
        pooled: whether it is over the positions of a signal, too.
    """

    numbers: tuple[int, ...]
    sets: int
    pooled: bool


class Given(NamedTuple):
    """The arguments of `Layer`, normalized: meanings of the names in its equations."""

    values: Mapping[str, sympy.Expr]
    C: Mapping[str, sympy.Expr]
    ratio: Mapping[str, sympy.Expr]
    weights: Mapping[str, WeightEnsemble]
    activations: Mapping[str, Activation]
    keep: Mapping[str, sympy.Expr]
    taps: Mapping[str, Taps]
    tables: Mapping[str, Table]


class Assembly:
    """The equations that were read so far."""

    def __init__(
        self,
        statements: Sequence[Statement | Batch | ScoreTable],
        given: Given,
        *,
        opened: bool = False,
    ) -> None:
        """Read equations; `opened` removes each σ that is linear."""
        self.given, self.opens = given, opened
        self.scores: dict[str, tuple[int, int, int | sympy.Expr, str, bool]] = {}  # q, k, heads, …
        self.shape: tuple[int, ...] | None = None  # of the positions, where that is known
        self.definitions = [Definition("z", 0)]
        self.variables: dict[str, Centred] = {"z": Centred(0, sympy.S.Zero)}
        self.collective: dict[str, sympy.Expr] = {}
        self.batches: dict[str, tuple[int, BatchFunction]] = {}  # by their names
        self.composed: dict[str, BatchFunction] = {}  # by the names of lines' functions
        self.means: dict[sympy.Symbol, MeanOf] = {}
        self.text = ""
        self.asymmetries: list[InputError] = []
        self.unused = {*given.values, *given.tables}
        for statement in statements:
            self.text = statement.text
            if isinstance(statement, Batch):
                self.define_batch(statement)
            elif isinstance(statement, ScoreTable):
                self.define_scores(statement)
            elif statement.left is None:
                self.collect(statement)
            else:
                self.define(statement.name, statement.left, statement.right)
        self.text = "; ".join(statement.text for statement in statements)

    def wrong(self, wanted: str) -> InputError:
        """An error about the equation that is read."""
        return InputError("layer", self.text, wanted)

    def check_new(self, name: str) -> None:
        """Raise InputError for the name of something that is defined above."""
        if name in {*self.variables, *self.collective, *self.batches, *self.scores}:
            raise self.wrong(f"another name than {name}, which is taken")

    # collective variables

    def collect(self, statement: Statement) -> None:
        """q = …: means of one variable or of a product of two, and functions of those."""
        if statement.name in self.variables:
            raise self.wrong(f"another name than {statement.name}, which has an index")
        total = sympy.S.Zero
        for each in statement.right:
            scale = self.resolved(each.scale)
            if not each.factors:
                total += scale
                continue
            entries = [factor for factor in each.factors if isinstance(factor, Entry)]
            one_neuron = len({factor[1:] for factor in entries}) == 1
            if len(entries) < len(each.factors) or len(entries) > 2 or not one_neuron:
                wanted = "collective variables that are means of v[a] or of v[a] u[a], over n"
                raise self.wrong(wanted)
            scale *= WIDTH
            if scale.has(WIDTH):
                raise self.wrong("1/n with a sum over neurons, as in q = z[a] z[a]/n")
            terms = (self.entry(factor) for factor in entries)
            for parts in product(*terms):
                numbers = tuple(sorted(v for _, v in parts if v is not None))
                coefficient = sympy.prod([c for c, _ in parts]) * scale
                total += coefficient * (self.mean(numbers, entries[0]) if numbers else 1)
        if total.has(WIDTH):
            raise self.wrong("1/n with a sum over neurons only")
        self.collective[statement.name] = total

    def mean(self, numbers: tuple[int, ...], at: Entry) -> sympy.Symbol:
        """The mean of a product of these variables over what an entry is summed over."""
        even = len(numbers) == 2 and numbers[0] == numbers[1]
        name = f"mean({','.join(f'{self.definitions[v].name}{v}' for v in numbers)})"
        name += f" in {at.sets}" if at.sets > 1 else ""
        name += " over positions" if at.position else ""
        symbol = sympy.Symbol(name, positive=True) if even else sympy.Symbol(name, real=True)
        self.means[symbol] = MeanOf(numbers, at.sets, bool(at.position))
        return symbol

    def resolved(self, scale: sympy.Expr) -> sympy.Expr:
        """With the collective variables and the numbers that are known."""
        known: dict[sympy.Symbol, sympy.Expr] = {}
        for symbol in scale.free_symbols - {WIDTH}:
            if symbol.name in self.variables:
                raise self.wrong(f"an index on {symbol.name}")
            if symbol.name in self.collective:
                known[symbol] = self.collective[symbol.name]
            elif symbol.name in self.given.values:
                known[symbol] = self.given.values[symbol.name]
                self.unused.discard(symbol.name)
            else:
                known[symbol] = sympy.Symbol(symbol.name, positive=True)
        found = scale.subs(known, simultaneous=True)
        if found.has(sympy.nan, sympy.zoo, sympy.oo, sympy.I):
            raise self.wrong("an equation that is finite and real, no division by 0")
        return found

    # functions of all samples

    def define_batch(self, statement: Batch) -> None:
        """y[i;s] = a function of one variable at all samples."""
        name, of = statement.name, self.variables.get(statement.variable)
        if of is None or of.centre:
            raise self.wrong(
                f"a variable that is defined above, without a mean taken off, not "
                f"{statement.variable}"
            )
        self.check_new(name)
        words = set(re.findall(r"[A-Za-z_]\w*", statement.function)) - {"z", "s", MEAN, *FUNCTIONS}
        symbols = {word: sympy.Symbol(word, real=True) for word in words}
        values = {word: self.resolved(symbol) for word, symbol in symbols.items()}
        if any(value.free_symbols & self.means.keys() for value in values.values()):
            raise self.wrong("no mean over neurons in a function of all samples")
        self.batches[name] = of.variable, parse_batch_function(statement.function, values)

    # attention

    def define_scores(self, statement: ScoreTable) -> None:
        """c[t,s] = q[a,t] k[a,s]/n."""
        name = statement.name
        self.check_new(name)
        query, key = (self.made_by_matrix(each) for each in (statement.query, statement.key))
        if statement.is_normal and query == key:
            raise self.wrong(
                "keys other than the queries, for normal scores: tied ones grow like √d"
            )
        own = self.heads(statement.sets), statement.over, statement.is_normal
        self.scores[name] = query, key, *own

    def made_by_matrix(self, name: str) -> int:
        """The number of a variable, without a mean taken off."""
        found = self.variables.get(name)
        if found is None or found.centre or not found.variable:
            raise self.wrong(f"variables defined above by matrices, not {name}")
        return found.variable

    def heads(self, sets: str) -> int | sympy.Expr:
        """The number of heads, in the text a number or a name."""
        if sets.startswith("n/"):  # heads of a fixed size
            return n / sympy.Integer(sets[2:])
        found = sympy.Integer(sets) if sets.isdigit() else self.resolved(scalar(sets))
        if found.is_number and not (found.is_Integer and found > 0):
            raise self.wrong(f"a number of heads, 1 or more, not {found}")
        return int(found) if found.is_Integer else found

    def attended(self, factors: Sequence[object]) -> tuple[str, str, str] | None:
        """The attention in W[i,a] softmax_s(c[t,s]) v[a,s]; InputError for other products."""
        found = [each for each in factors if isinstance(each, Attention)]
        if not found:
            return None
        entries = [each for each in factors if isinstance(each, Entry)]
        if len(found) > 1 or len(entries) != 1 or len(factors) != 3:
            raise self.wrong("W[i,a] softmax_s(c[t,s]) v[a,s], without other factors")
        self.made_by_matrix(entries[0].variable)
        name, scores, table, _ = found[0]
        if scores not in self.scores or (table and table not in self.given.tables):
            missing = table if scores in self.scores else scores
            raise self.wrong(f"scores that are defined above, and tables that are given: {missing}")
        self.unused.discard(table)
        return name, scores, table

    def batch(self, factor: object) -> tuple[int, sympy.Expr, str] | None:
        """As one of a line's functions: y[a], or σ of it, if y is a function of all samples."""
        if isinstance(factor, Entry) and factor.variable in self.batches:
            variable, function = self.batches[factor.variable]
            self.composed[factor.variable] = function
            return variable, sympy.S.Zero, factor.variable
        if not isinstance(factor, Sigma):
            return None
        names = {each.variable for one in factor.argument for each in one.factors}  # type: ignore[union-attr]
        if not names & self.batches.keys():
            return None
        (argument, *more) = factor.argument
        (name, *others) = names
        if more or others or argument.scale != 1:
            raise self.wrong(f"s({name}[a]), of a function of all samples alone")
        variable, function = self.batches[name]
        if factor.name != SIGMA and function.arguments:
            raise self.wrong(f"s(…) of {name}, in which s is taken already")
        made = f"{factor.name}({name})"
        self.composed[made] = function.activated
        return variable, sympy.S.Zero, made

    # variables

    def define(self, name: str, index: str, right: tuple[Addend, ...]) -> int:
        """name[index] = …, and the number of the variable."""
        if name in self.collective:
            raise self.wrong(f"another name than {name}, which has no index")
        made = Definition(name, 0)
        offset = sympy.S.Zero
        for each in self.opened(right):
            scale = self.resolved(each.scale)
            if scale.has(WIDTH):
                raise self.wrong("1/n in collective variables only: weights have theirs already")
            if not scale:
                continue
            weights = [factor for factor in each.factors if isinstance(factor, Weight)]
            if not each.factors:
                offset += scale
            elif weights:
                self.check_weights(each, weights, index)
                made.lines += self.weighted(weights[0], each.factors, scale)
            elif isinstance(each.factors[0], Bias):
                if len(each.factors) > 1 or each.factors[0].row != index or scale != 1 or made.bias:
                    raise self.wrong(f"b[{index}] once, by itself")
                made.bias = each.factors[0].name
            else:
                (carried,) = each.factors if len(each.factors) == 1 else (None,)
                if not isinstance(carried, Entry) or carried.at != index:
                    wanted = f"in each product {index} once, on a matrix, on b, or on a variable"
                    raise self.wrong(wanted)
                for factor, v in self.entry(carried):
                    if v is None:
                        offset += scale * factor
                    else:
                        made.lines.append(Line(None, v, (v,), (), scale * factor))
        made.lines = _collected(made.lines)
        if not made.lines and not made.bias:
            raise self.wrong("a right-hand side that is not 0")
        made.level = 1 + max((self.level(v) for v in self.uses(made.lines)), default=0)
        number = len(self.definitions)
        centre = self.centre(made, offset, number)
        self.definitions.append(made)
        if centre:
            known = [self.means[each] for each in offset.free_symbols & self.means.keys()]
            sets, pooled = max(each.sets for each in known), any(each.pooled for each in known)
            self.means[centre] = MeanOf((number,), sets, pooled)
        self.variables[name] = Centred(number, centre)
        return number

    def opened(self, right: Iterable[Addend]) -> Iterator[Addend]:
        """The sum with each σ that is linear multiplied out."""
        for each in right:
            plain = next((f for f in each.factors if self.is_linear(f)), None)
            if not isinstance(plain, Sigma):
                yield each
                continue
            rest = tuple(f for f in each.factors if f is not plain)
            parts = (Addend(each.scale * v.scale, rest + v.factors) for v in plain.argument)
            yield from self.opened(parts)

    def is_linear(self, factor: object) -> bool:
        """True for σ of variables, if σ is the identity."""
        if not isinstance(factor, Sigma) or not all(each.factors for each in factor.argument):
            return False
        sigma = self.sigma(factor.name) if self.opens else None
        return sigma is not None and sigma.expr == as_activation("linear").expr

    def check_weights(self, each: Addend, weights: list[Weight], index: str) -> None:
        """Raise InputError unless it is W[i,a] times what is at a."""
        rest = [each for each in each.factors if not isinstance(each, Weight | Attention)]
        at = {f.at if isinstance(f, Entry | Sigma) else f.row for f in rest}
        if len(weights) > 1:
            raise self.wrong("one matrix in a product; a second one acts on a variable of its own")
        if weights[0].row != index or at != {weights[0].column} or weights[0].column == index:
            column = weights[0].column
            summed = f"variables and s(…) at {column}, which is summed over"
            raise self.wrong(f"W[{index},{column}] times {summed}")
        if any(isinstance(factor, Bias) for factor in rest):
            raise self.wrong("b by itself")

    def weighted(
        self, weight: Weight, factors: Sequence[object], scale: sympy.Expr
    ) -> Iterator[Line]:
        """W[i,a] Π v[a] Π σ(…), with what is taken off the variables multiplied out."""
        batches = [each for factor in factors if (each := self.batch(factor))]
        if batches:
            if len(factors) > 2:
                raise self.wrong("a function of all samples alone with its matrix")
            yield Line(weight.matrix, batches[0][0], (), tuple(batches), scale)
            return
        attention = self.attended(factors)
        entries = [self.entry(each) for each in factors if isinstance(each, Entry)]
        found = [each for each in factors if isinstance(each, Sigma)]
        sigmas = tuple((*self.argument(each), each.name) for each in found)
        at = next((v for terms in entries for _, v in terms if v is not None), None)
        at = sigmas[0][0] if at is None else at
        for parts in product(*entries):
            numbers = tuple(v for _, v in parts if v is not None)
            whole = scale * sympy.prod([c for c, _ in parts])
            yield Line(weight.matrix, at, numbers, sigmas, whole, attention)

    def entry(self, factor: Entry) -> list[tuple[sympy.Expr, int | None]]:
        """v[a] as (1, v), and (−its mean, None) where that was taken off."""
        if factor.variable in self.batches:
            wanted = (
                "a matrix on what is a function of all samples, as W[i,a] y[a] or W[i,a] s(y[a])"
            )
            raise self.wrong(f"{wanted}: carried on, it leaves z that is not Gaussian")
        if factor.variable not in self.variables:
            known = ", ".join(self.variables)
            raise self.wrong(f"variables that are defined above, {known}, not {factor.variable}")
        found = self.variables[factor.variable]
        whole: list[tuple[sympy.Expr, int | None]] = [(sympy.S.One, found.variable)]
        return [*whole, (-found.centre, None)] if found.centre else whole

    def argument(self, sigma: Sigma) -> tuple[int, sympy.Expr]:
        """The argument of σ: a variable (new, if it is a sum) and the offset that is subtracted."""
        scales: dict[int, sympy.Expr] = {}
        offset = sympy.S.Zero
        for each in sigma.argument:
            scale = self.resolved(each.scale)
            parts = [part for f in each.factors for part in self.entry(f)]  # type: ignore[arg-type]
            for factor, v in parts or [(sympy.S.One, None)]:
                if v is None:
                    offset += scale * factor
                else:
                    scales[v] = scales.get(v, sympy.S.Zero) + scale * factor
        odd = [symbol for symbol in self.means if self.is_odd(symbol)]
        if list(scales.values()) == [1] and offset.subs(dict.fromkeys(odd, 0)) == 0:
            return next(iter(scales)), -offset
        names = {*self.variables, *self.collective}
        fresh = next(name for k in count(1) if (name := f"u{k}") not in names)
        number = self.define(fresh, "i", _at(sigma, "i"))
        return number, self.variables[fresh].centre

    def is_odd(self, mean: sympy.Symbol) -> bool:
        """True if a mean is 0 in the limit."""
        return len(self.means[mean].numbers) == 1

    def centre(self, made: Definition, offset: sympy.Expr, number: int) -> sympy.Expr:
        """The mean that is taken off: none, or that of what is carried."""
        if not offset:
            return sympy.S.Zero
        wanted = (
            "what has no index taken off one variable only, as its mean, y[i] = z[i] - m with "
            "m = z[a]/n, and not beside a matrix or a skip"
        )
        if len(made.lines) != 1 or made.lines[0].matrix or made.bias:
            raise self.wrong(wanted)
        (line,) = made.lines
        own = next((s for s, of in self.means.items() if of.numbers == (line.at,)), None)
        if own is None or sympy.simplify(offset + line.scale * own) != 0:
            raise self.wrong(wanted)
        return sympy.Symbol(f"mean({made.name}{number})", real=True)

    def uses(self, lines: Sequence[Line]) -> set[int]:
        """The variables that are needed, those in means included."""
        found: set[int] = set()
        for line in lines:
            found |= {line.at, *line.entries, *(v for v, *_ in line.sigmas)}
            found |= set(self.scores[line.attention[1]][:2]) if line.attention else set()
            for each in (line.scale, *(offset for _, offset, _ in line.sigmas)):
                for symbol in each.free_symbols & self.means.keys():
                    found |= set(self.means[symbol].numbers)
        return found

    def positions(self) -> int:
        """The positions of a signal before the stage that is made; InputError if unknown."""
        first = next((taps.shape for taps in self.given.taps.values()), None)
        shape = first if self.shape is None else self.shape
        if shape is None:
            wanted = "a convolution, or positions, in a layer with a norm over positions or scores"
            raise self.wrong(f"{wanted}, to say how many")
        return prod(shape)

    def sigma(self, name: str) -> Activation | None:
        """The activation of a function's name; None for the network's."""
        if name in self.composed:
            name = name.partition("(")[0] if "(" in name else SIGMA
        if name in self.given.activations or name == SIGMA:
            return self.given.activations.get(name)
        return as_activation(name)

    def level(self, variable: int) -> int:
        """The stage that makes a variable, from 1; of z, as it comes in, 0."""
        return self.definitions[variable].level

    # stages

    def stages(self) -> tuple[Stage, ...]:
        """The stages; InputError for what is unused, or not invariant, or of unequal widths."""
        last = self.variables["z"]
        if not last.variable:
            raise self.wrong("an equation of z[i], which the layer gives on")
        if last.centre:
            raise self.wrong("no mean taken off z[i] last: in the next layer, before its matrix")
        if self.unused:
            raise InputError("layer", sorted(self.unused), "values of symbols in its equations")
        self.last_use = {last.variable: self.level(last.variable) + 1}
        for made in reversed(self.definitions):
            for v in self.uses(made.lines):
                self.last_use[v] = max(self.last_use.get(v, 0), made.level)
        for number, made in enumerate(self.definitions):
            if number and number not in self.last_use:
                raise self.wrong(f"{made.name} to be used, or left out")
        if self.level(last.variable) != max(made.level for made in self.definitions):
            raise self.wrong("z[i] last")
        self._groups()
        self._spaces()
        self._kinds()
        return tuple(self._stage(level) for level in range(1, self.level(last.variable) + 1))

    def _carried(self, level: int) -> set[int]:
        """The variables that a stage carries past its matrices."""
        explicit = {
            line.at
            for made in self.definitions
            for line in made.lines
            if made.level == level and line.matrix is None
        }
        return explicit | {v for v, last in self.last_use.items() if self.level(v) < level < last}

    def _groups(self) -> None:
        """Which variables rotate together; InputError where a law would not be invariant."""
        joined = _Classes(len(self.definitions))
        matrices: dict[str, int] = {}
        for number, made in enumerate(self.definitions):
            for line in made.lines:
                if line.matrix is None:
                    joined.join(number, line.at)
                elif self.level(matrices.setdefault(line.matrix, number)) != made.level:
                    raise self.wrong(f"{line.matrix} in one place of the layer only")
                else:
                    joined.join(number, matrices[line.matrix])
        self.groups = joined
        for made in self.definitions[1:]:
            carried = self._carried(made.level)
            for line in made.lines:
                if line.matrix is not None:
                    self._check_sum(line, carried)
            self._check_arguments(made.level)
        for symbol, mean in self.means.items():
            if len({joined.of(v) for v in mean.numbers}) > 1:
                raise self.wrong(f"{symbol.name} of one variable: its limit vanishes otherwise")

    def _check_attention(self, line: Line, carried: set[int]) -> None:
        """Raise InputError unless queries, keys and values have rotations of their own."""
        assert line.attention
        query, key, *_ = self.scores[line.attention[1]]
        inside = {self.groups.of(v) for v in (query, key, line.at)}
        past = {self.groups.of(u) for u in carried} | {self.groups.of(0)}
        alone = {query, key, line.at}
        if inside & past or len(inside) < len(alone):
            wanted = "queries, keys and values that matrices of their own have made, and that no "
            raise self.wrong(wanted + "skip carries on")

    def _check_sum(self, line: Line, carried: set[int]) -> None:
        if line.attention:
            self._check_attention(line, carried)
        inside = [*line.entries, *(v for v, *_ in line.sigmas)]
        if len(inside) < 2 and not line.sigmas:
            return
        for v in inside:
            past = [u for u in carried if self.groups.of(u) == self.groups.of(v)]
            if past:
                what = "s(…)" if line.sigmas else "a product"
                names = self.definitions[v].name, self.definitions[past[0]].name
                reason = NOT_INVARIANT.format(what=what, variable=names[0], carried=names[1])
                wanted = f"a layer that is invariant under rotations; here {reason}"
                self.asymmetries = [self.wrong(wanted)]

    def _check_arguments(self, level: int) -> None:
        """σ's of one stage are taken of independent variables, or of one."""
        taken: dict[int, int] = {}
        named: dict[int, str] = {}
        for made in self.definitions:
            for line in made.lines if made.level == level else ():
                for v, _, name in line.sigmas:
                    if taken.setdefault(self.groups.of(v), v) != v:
                        wanted = "s(…) of one variable, or of variables of different matrices"
                        raise self.wrong(f"{wanted}, in one place of the layer")
                    if named.setdefault(v, name) != name:
                        both = f"{named[v]} and {name} of {self.definitions[v].name}"
                        wanted = "one function of each variable between two matrices"
                        raise self.wrong(f"{wanted}, not {both}")

    def _spaces(self) -> None:
        """Which indices run over the same neurons; InputError where their widths differ."""
        same, columns = _Classes(len(self.definitions)), dict[str, int]()
        for number, made in enumerate(self.definitions):
            for line in made.lines:
                if line.matrix is None:
                    same.join(number, line.at)
                else:
                    same.join(columns.setdefault(line.matrix, line.at), line.at)
                for v in (*line.entries, *(v for v, *_ in line.sigmas)):
                    same.join(v, line.at)
                if line.attention:
                    same.join(*self.scores[line.attention[1]][:2])
        self.spaces = same
        last = same.of(self.variables["z"].variable)
        self.names_of_spaces = {last: ABOVE, same.of(0): STREAM.space}
        self.space_ratios: dict[int, sympy.Expr] = {}
        numbers: dict[str, int] = {made.name: v for v, made in enumerate(self.definitions)}
        for name, ratio in self.given.ratio.items():
            if name not in numbers:
                raise InputError("ratio", name, f"a variable of the layer, {', '.join(numbers)}")
            space = same.of(numbers[name])
            if space in self.names_of_spaces and ratio != 1:
                wanted = f"1: {name} is added to z, or stands beside it, and has as many neurons"
                raise InputError("ratio", f"{ratio} of {name}", wanted)
            if self.space_ratios.setdefault(space, ratio) != ratio:
                raise InputError("ratio", name, "one ratio of what is added or multiplied")

    def _kinds(self) -> None:
        """The names of the variables: z at both ends, others as the text has them."""
        self.kinds: dict[int, Kind] = {}
        last = self.variables["z"].variable
        names = [made.name for made in self.definitions]
        for number, made in enumerate(self.definitions):
            if number in {0, last}:
                self.kinds[number] = STREAM
                continue
            sets = self._sets(made)
            taken = {kind.name for kind in self.kinds.values()}
            tries = (made.name, *(f"{made.name}{k}" for k in range(1, len(names) + 2)))
            free = (each for each in tries if each == made.name or each not in names)
            name = next(each for each in free if each not in taken)
            own = self.spaces.of(number)
            space = self.names_of_spaces.get(own, f"{names[own]}{own}")
            group = f"{names[self.groups.of(number)]}{self.groups.of(number)}"
            group = group if self.groups.of(number) else "z"
            self.kinds[number] = Kind(name, space, group, sets)
        self._check_sets()

    def _sets(self, made: Definition) -> int:
        """The number of sets of neurons that a variable without a matrix is normalized in."""
        carried = [line for line in made.lines if line.matrix is None]
        means = {each for line in carried for each in line.scale.free_symbols & self.means.keys()}
        kinds = (self.kinds[line.at] for line in carried)
        return max([1, *(self.means[each].sets for each in means), *(kind.sets for kind in kinds)])

    def _check_sets(self) -> None:
        """Raise InputError where z has neurons in sets, or means are over others than those."""
        last = self.definitions[self.variables["z"].variable]
        if self._sets(last) > 1:
            wanted = "no norm of groups of neurons on what is carried on: one behind which all of "
            wanted += "the variable meets a matrix, so that the law of z does not know the groups"
            raise self.wrong(wanted)
        for mean in self.means.values():
            if not {self.kinds[v].sets for v in mean.numbers} <= {1, mean.sets}:
                raise self.wrong("one number of groups of neurons, where a norm follows another")

    def _stage(self, level: int) -> Stage:
        return _StageMaker(self, level).stage()


class _StageMaker:
    """One stage: its lists of matrices, arguments, means and functions, filled as they are met."""

    def __init__(self, assembly: Assembly, level: int) -> None:
        self.whole, self.level = assembly, level
        self.matrices: dict[str, Matrix] = {}
        self.arguments: dict[tuple[int, sympy.Expr, str], int] = {}
        self.functions: list[sympy.Expr] = []
        self.scores: list[Scores] = []
        self.own = [
            number
            for number, made in enumerate(assembly.definitions)
            if made.level == level and number
        ]
        met = set()
        for number in self.own:
            for line in assembly.definitions[number].lines:
                for each in (line.scale, *(offset for _, offset, _ in line.sigmas)):
                    met |= each.free_symbols & assembly.means.keys()
        self.means = sorted(met, key=lambda symbol: list(assembly.means).index(symbol))
        self.orders = (0,) * len(self.means)

    def stage(self) -> Stage:
        """The stage."""
        whole = self.whole
        equations = [
            (whole.kinds[number], self.equation(number, whole.definitions[number]))
            for number in self.own
        ]
        for v, last in sorted(whole.last_use.items()):
            if whole.level(v) < self.level < last:
                carried = Product((Variable(whole.kinds[v], LEFT),))
                equations.append((whole.kinds[v], Equation((carried,))))
        arguments = tuple(self.argument(v, offset) for v, offset, _ in list(self.arguments))
        sigmas = tuple(whole.sigma(name) for *_, name in self.arguments)
        means = tuple(
            Mean(
                symbol,
                tuple(Variable(whole.kinds[v], HERE) for v in of.numbers),
                whole.kinds[of.numbers[0]].space,
                of.sets,
                whole.positions() if of.pooled else 1,
            )
            for symbol, of in ((symbol, whole.means[symbol]) for symbol in self.means)
        )
        for function in self.functions:
            self.check(function)
        batches = [whole.composed[name] for *_, name in self.arguments if name in whole.composed]
        if batches and (len(self.arguments) > 1 or means):
            wanted = "one function of all samples alone between two matrices"
            raise whole.wrong(wanted)
        if self.scores and (means or batches or len({each.sets for each in self.scores}) > 1):
            wanted = (
                "scores of one number of heads between two matrices, and norms in front of them"
            )
            raise whole.wrong(wanted)
        names = {space for matrix in self.matrices.values() for space in matrix[1:3]}
        names |= {each.query.space for each in self.scores}
        names |= {kind.space for kind, _ in equations} | {mean.space for mean in means}
        ratios = {
            whole.kinds[v].space: Value(ratio)
            for v in whole.kinds
            if (ratio := whole.space_ratios.get(whole.spaces.of(v), sympy.S.One)) != 1
        }
        return Stage(
            tuple(equations),
            tuple(self.matrices.values()),
            arguments,
            means,
            tuple(self.functions),
            tuple(sorted((name, ratio) for name, ratio in ratios.items() if name in names)),
            taps=self.taps([equation for _, equation in equations]),
            masks=self.masks([equation for _, equation in equations]),
            activations=sigmas if any(sigmas) else (),
            batch=next(iter(batches), None),
            scores=tuple(self.scores),
            positions=whole.positions() if self.scores else 1,
        )

    def taps(self, equations: Sequence[Equation]) -> Taps:
        """The positions that all matrices read. InputError if they read different ones, or those
        of another signal than the stage before has, or if a skip past them has none to read."""
        whole = self.whole
        read = _present(whole.given.taps, self.matrices)
        for each in read:
            before = each.shape if whole.shape is None else whole.shape
            if each.shape != before:
                counts = (" x ".join(map(str, at)) for at in sorted((before, each.shape)))
                got = f"convolutions of {' and '.join(counts)} positions"
                raise InputError("positions", Words(got), "those that the block before gives")
        every = (whole.given.taps.get(name, ALONE) for name in self.matrices)
        found = {ALONE if taps.is_identity else taps for taps in every}
        if len(found) > 1:
            wanted = "one kernel size and boundary for all matrices between the same two variables"
            raise InputError("taps", whole.text, wanted)
        taps = next(iter(found), ALONE)
        whole.shape = read[0].into if read else whole.shape
        carried = any(term.weight is None for equation in equations for term in equation.right)
        if carried and not taps.carries:
            wanted = "no skip past a matrix that gives other positions, unless by a stride, a mean"
            raise InputError("layer", whole.text, f"{wanted} or padding that it can follow")
        return taps

    def masks(self, equations: Sequence[Equation]) -> tuple[Value, ...]:
        """p of dropout; InputError unless one matrix is there, and multiplies one σ alone."""
        chances = _present(self.whole.given.keep, self.matrices)
        if not chances:
            return ()
        summed = (term for equation in equations for term in equation.right if term.weight)
        if len(self.matrices) > 1 or not all(
            len(term.factors) == 1 and isinstance(term.factors[0], Function) for term in summed
        ):
            wanted = "dropout where one matrix multiplies σ alone: all σ of a stage share a mask"
            raise InputError("keep", self.whole.text, wanted)
        return (Value(chances[0]),)

    def equation(self, number: int, made: Definition) -> Equation:
        """The right-hand side of a definition."""
        kind = self.whole.kinds[number]
        variance = self.whole.given.C.get(made.bias or "b")
        return Equation(
            tuple(self.product(line, kind) for line in made.lines),
            made.bias is not None,
            C_B if variance is None else Value(variance),
        )

    def product(self, line: Line, kind: Kind) -> Product:
        """One product of it."""
        scaled = self.scaled(line.scale)
        if line.matrix is None:
            return Product((Variable(self.whole.kinds[line.at], LEFT),)) * scaled
        into = self.whole.kinds[line.at].space
        variance = self.whole.given.C.get(line.matrix)
        out = kind.space
        if kind == STREAM:  # behind the layer
            whole = self.whole
            out = whole.names_of_spaces[whole.spaces.of(whole.variables["z"].variable)]
        law = self.whole.given.weights.get(line.matrix)
        matrix = Matrix(C_W if variance is None else Value(variance), into, out, law)
        if self.matrices.setdefault(line.matrix, matrix) != matrix:
            raise self.whole.wrong(f"{line.matrix} between the same two widths everywhere")
        read = 1 if line.attention else 0  # a position that is summed over
        factors: list[Factor] = [Variable(self.whole.kinds[v], 0, read=read) for v in line.entries]
        if line.attention:
            factors.append(Attended(self.attention(*line.attention), (read,)))
        for argument in line.sigmas:
            number = self.arguments.setdefault(argument, len(self.arguments))
            factors.append(Function(number, 0, 0))
        weight = list(self.matrices).index(line.matrix), 0
        return Product(tuple(factors), ((0, into),), (), weight) * scaled

    def attention(self, function: str, scores: str, table: str) -> int:
        """The number of the scores, with their function."""
        whole = self.whole
        query, key, heads, over, is_normal = whole.scores[scores]
        rows = whole.given.tables.get(table, ())
        if rows and len(rows) != whole.positions():
            got = f"a table of {len(rows)} positions for a signal of {whole.positions()}"
            raise InputError("tables", Words(got), "as many as the signal has")
        made = Scores(
            sympy.Symbol(scores, real=True),
            whole.kinds[query],
            whole.kinds[key],
            heads,
            Fraction(1) if over == "n" else Fraction(1, 2),
            None if function in OF_ALL else whole.sigma(function),
            rows,
            is_normal,
            function == SHAPED,
        )
        if made not in self.scores:
            self.scores.append(made)
        return self.scores.index(made)

    def scaled(self, scale: sympy.Expr) -> Product:
        """A number, symbols, and a function of collective variables."""
        constant, function = scale.as_independent(*self.means, as_Add=False)
        factors: tuple[Factor, ...] = ()
        if function != 1:
            if function not in self.functions:
                self.functions.append(function)
            factors = (Collective(self.functions.index(function), self.orders),)
        if constant.is_Rational:
            return Product(factors, coefficient=Fraction(int(constant.p), int(constant.q)))
        parameters: Monomial = UNIT if constant == 1 else power(Value(constant), 1)
        return Product(factors, parameters=parameters)

    def argument(self, variable: int, offset: sympy.Expr) -> Sum:
        """The arguments of σ."""
        whole = linear(self.whole.kinds[variable])
        if not offset:
            return (whole,)
        return (whole, *(self.scaled(-each) for each in sympy.Add.make_args(sympy.expand(offset))))

    def check(self, function: sympy.Expr) -> None:
        """Raise InputError where a function's root or pole may be met in the limit."""
        odd = {symbol: 0 for symbol in self.means if self.whole.is_odd(symbol)}
        for each in function.atoms(sympy.Pow, sympy.log):
            base = each.args[0]
            singular = not (each.is_Pow and each.exp.is_Integer and each.exp > 0)
            if singular and base.has(*self.means) and not base.subs(odd).is_positive:
                wanted = (
                    "collective variables that neither vanish nor are negative in the limit of "
                    f"infinite width, where a root is taken or one divides by them, not {base}"
                )
                raise self.whole.wrong(wanted)


class _Classes:
    """Disjoint classes of the numbers 0, 1, …, each known by its least."""

    def __init__(self, size: int) -> None:
        self.least = list(range(size))

    def of(self, number: int) -> int:
        """The class of a number."""
        while self.least[number] != number:
            number = self.least[number]
        return number

    def join(self, a: int, b: int) -> None:
        """Make two classes one."""
        one, other = sorted((self.of(a), self.of(b)))
        self.least[other] = one


def _present(given: Mapping[str, T], names: Iterable[str]) -> list[T]:
    """The values given for these names, where there are some."""
    return [given[name] for name in names if name in given]


def _at(sigma: Sigma, index: str) -> tuple[Addend, ...]:
    """σ's argument with this index."""
    return tuple(
        each._replace(
            factors=tuple(f._replace(at=index) for f in each.factors if isinstance(f, Entry))
        )
        for each in sigma.argument
    )


def _collected(lines: Sequence[Line]) -> list[Line]:
    """Equal products added up."""
    found: dict[tuple[object, ...], Line] = {}
    for line in lines:
        key = line.matrix, line.at, tuple(sorted(line.entries)), line.sigmas, line.attention
        before = found[key].scale if key in found else sympy.S.Zero
        found[key] = replace(line, scale=before + line.scale)
    return [line for line in found.values() if line.scale != 0]
