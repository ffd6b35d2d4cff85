r"""Attention with scores over √d and heads of a fixed size d, of which there are H = n/d.

Given the tokens, heads are independent. With S the kernel of the values, B = A S Aᵀ for the A of
one head, and z = γ x + W_O (A v), the kernel of z given x is γ² x x + C_O R, where

    E R_tu = E B_tu,    n Cov(R_tu, R_vw | S) = d Cov(B_tu, B_vw) + E(B_tv B_uw + B_tw B_uv),

so K and V follow from three averages over scores: E B, its slopes ∂E B/∂S, through which
fluctuations of S pass, and that covariance. With H fixed R itself would not tend to its mean.
Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.polynomials import UNIT, Atom, Expansion, Monomial, add, monomial, power, times
from ..display.labels import POOLED, relabelled
from ..errors import InputError, Words
from ..groups.pairings import Blocks
from ..weights import Gaussian, IndependentEntries, WeightEnsemble
from .fields import AnyField, Field
from .scores import Scores
from .stages import LEFT, Attended, Equation, Matrix, Stage, Variable
from .tensors import Tensor, kernel_of, tensor
from .trees import Kind

MEAN, SLOPE, SOURCE, SHARED = "mean", "slope", "source", "shared"

FIXED_HEADS = (
    'heads of a fixed size, such as heads="n/64", an expansion in 1/H = 64/n: with a fixed number '
    "H of heads and scores over the root of their size, K of the next layer is random at order "
    'one. scores="normal" is the limit of large heads, simulate draws networks of H heads exactly, '
    'and scores="1/d" has an expansion in 1/n'
)

OTHERS = Words("queries, keys and values of other variables, factors or biases")
_OTHERS_DRAWN = "for scores over the root of d; simulate draws others"
COMMON = (
    "those of one variable and factor, such as q, k and v of y, and biases of one C_b beside "
    f"matrices of one C_W, {_OTHERS_DRAWN}"
)


class ScoreAverage(NamedTuple):
    """An average over the scores of one head at these samples.

    Attributes:
        what: E B_tu, ∂E B_tu/∂S_ab, or n Cov(R_tu, R_vw | S), of one set of heads or of two that
            share keys and values.
        samples: t, u; and a, b, or v, w. Of a and b they are summed over all samples.
        other: the scores of the other set of heads.
    """

    scores: Scores
    what: str
    value: Kind
    samples: tuple[int, ...]
    other: Scores | None = None

    @property
    def label(self) -> str:
        """Its name, such as slope_c."""
        return f"{self.what}_{self.scores.symbol}"

    @property
    def limits(self) -> tuple[Tensor, ...]:
        """K of the queries, of the keys and of the values; and of the other set's queries."""
        others = () if self.other is None else (self.other.query,)
        kinds = self.scores.query, self.scores.key, self.value, *others
        return tuple(kernel_of(kind, kind, self.samples[:1] * 2) for kind in kinds)

    def relabelled(self, label: Callable[[int], int]) -> ScoreAverage:
        """With other labels of its samples."""
        return self._replace(samples=relabelled(self.samples, label))


class _Addend(NamedTuple):
    """c·v, or, with scores, c·W_O Σ_s A v: a product of numbers, and a variable."""

    numbers: Monomial
    coefficient: Fraction
    kind: Kind
    scores: Scores | None = None
    matrix: Matrix | None = None


def is_averaged(stage: Stage) -> bool:
    """True if the stage has scores over the root of the size of its heads.

    Raises InputError for scores over the size itself and heads of a fixed size.
    """
    if any(each.power == 1 and each.size for each in stage.scores):
        wanted = 'a number of heads, or a symbol, for scores="1/d"; scores="1/sqrt(d)" for these'
        raise InputError("heads", Words("heads of a fixed size"), wanted)
    return any(each.power != 1 for each in stage.scores)


def averaged(
    stage: Stage,
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    order: int,
    laws: Sequence[WeightEnsemble],
) -> Expansion:
    """K, or V, of variables behind a stage with scores over √d, {(monomial, 0): coefficient}.

    K is that of Gaussian weights for any law, as queries and keys of a head are d of n neurons. So
    is V if the rows of the matrices are independent: higher moments enter a head at order 1/n.

    Raises InputError for V of other laws, for a fixed number of heads, for other tensors, and for
    queries, keys and values that are not rows of n neurons.
    """
    _check(stage, fields, pairing, order, laws)
    kinds = [each.kind(0) for each in fields]
    made = [(stage.equation(kind), [*_addends(stage, stage.equation(kind))]) for kind in kinds]
    if len(kinds) == 2:
        return _kernels(made, samples)
    found: Expansion = {}
    share = dict(stage.ratios).get(stage.scores[0].query.space)
    for chosen in product(*(addends for _, addends in made)):
        _add_product(found, chosen, samples, pairing, share)
    return found


def check_common(before: Stage, stage: Stage) -> None:
    """Raise InputError unless queries, keys and values are matrices times one variable.

    Kernels of different variables may be proportional and fluctuate each by itself.
    """
    known = dict(before.equations)
    sources = {_source(before, known.get(kind.everywhere)) for kind in stage.attends_to}
    if len(sources) > 1:
        raise InputError("layer", OTHERS, COMMON)


def _source(before: Stage, equation: Equation | None) -> Hashable:
    """The sum that a matrix makes a variable of; with a bias, the variances of both too."""
    matrices = {term.weight and term.weight[0] for term in equation.right} if equation else set()
    (matrix,) = matrices if len(matrices) == 1 else (None,)
    if equation is None or matrix is None:
        return equation
    source = tuple(term._replace(weight=None) for term in equation.right)
    return (
        (source, equation.variance, before.matrices[matrix].variance) if equation.bias else source
    )


def _check(
    stage: Stage,
    fields: tuple[AnyField, ...],
    pairing: Blocks,
    order: int,
    laws: Sequence[WeightEnsemble],
) -> None:
    if any(each.size is None for each in stage.scores):
        raise InputError("heads", Words("a fixed number of heads"), FIXED_HEADS)
    plain = all(isinstance(each, Field) and each.nodes == 1 for each in fields)
    if not plain or order or len(pairing) > 2 or any(len(block) > 2 for block in pairing):
        got = f"kappa({', '.join(map(str, fields))}) behind scores over the root of d"
        raise InputError("tensors", Words(got), "K and V; simulate estimates others")
    if any(each.shaped for each in stage.scores):
        raise InputError("score", "shaped", 'softmax, or scores="1/d", which vanish as n grows')
    independent = Gaussian, IndependentEntries
    other = [str(law) for law in laws if not isinstance(law, independent)]
    if other and len(fields) > 2:
        raise InputError("weights", other[0], "independent entries, for scores over the root of d")
    known = {each._replace(symbol=stage.scores[0].symbol, query=each.key) for each in stage.scores}
    several = len(known) > 1 or (
        len(stage.scores) > 1 and any(each.is_tied for each in stage.scores)
    )
    if several or any(each.query.sets != 1 for each in stage.scores):
        got = "heads of several keys, or normalized in each head"
        wanted = "one key for recursions with scores over the root of d; simulate draws others"
        raise InputError("layer", Words(got), wanted)


def _addends(stage: Stage, equation: Equation) -> Iterator[_Addend]:
    widths = dict(stage.ratios)
    for term in equation.right:
        numbers, factors = term.parameters, term.factors
        variables = [each for each in factors if isinstance(each, Variable)]
        attended = [each for each in factors if isinstance(each, Attended)]
        if len(variables) != 1 or len(factors) != 1 + len(attended):
            got = Words("a function or product of neurons beside attention")
            raise InputError("layer", got, f"variables, or attention to them, {_OTHERS_DRAWN}")
        (variable,) = variables
        if term.weight is None and variable.at == LEFT and not attended:
            yield _Addend(numbers, term.coefficient, variable.kind)
        elif term.weight and attended:
            scores, matrix = stage.scores[attended[0].scores], stage.matrices[term.weight[0]]
            if widths.get(matrix.into) != widths.get(scores.query.space):
                got = Words("values of other widths than the queries")
                raise InputError("layer", got, "as many, for scores over the root of d")
            if variable.kind.group in (scores.query.group, scores.key.group):
                got = Words("values that are queries or keys")
                raise InputError("layer", got, f"values of their own matrix, {_OTHERS_DRAWN}")
            yield _Addend(numbers, term.coefficient, variable.kind, scores, matrix)
        else:
            got = Words(f"a matrix times {variable.kind.name} beside attention")
            wanted = f"no matrix that attention does not read, {_OTHERS_DRAWN}"
            raise InputError("layer", got, wanted)


def _kernels(made: list[tuple[Equation, list[_Addend]]], samples: tuple[int, ...]) -> Expansion:
    (one, first), (other, second) = made
    found: Expansion = {}
    if one is other and one.bias:
        add(found, {(monomial([one.variance]), 0): Fraction(1)})
    for a, b in product(first, second):
        known = _paired(a, b, samples)
        if known is not None:
            numbers = times(times(a.numbers, b.numbers), known)
            add(found, {(numbers, 0): a.coefficient * b.coefficient})
    return found


def _paired(a: _Addend, b: _Addend, samples: tuple[int, ...]) -> Monomial | None:
    """The mean of two terms at one neuron; None if it is 0."""
    if a.matrix is None and b.matrix is None:
        return monomial([kernel_of(a.kind, b.kind, samples)])
    if (own := _shared_matrix(a, b)) is None:
        return None
    scores, matrix = own
    return monomial([matrix.variance, ScoreAverage(scores, MEAN, a.kind, samples)])


def _shared_matrix(a: _Addend, b: _Addend) -> tuple[Scores, Matrix] | None:
    """The scores and the matrix of two terms; None if they have no matrix in common."""
    if a.matrix is None or a.matrix is not b.matrix or a.scores is None:
        return None
    if (a.scores, a.kind) != (b.scores, b.kind):
        got = Words("a matrix that reads several attentions")
        raise InputError("layer", got, f"a matrix for each, {_OTHERS_DRAWN}")
    return a.scores, a.matrix


def _add_product(
    found: Expansion,
    chosen: tuple[_Addend, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    share: Parameter | Value | None,
) -> None:
    """Add n times the covariance of two products of two terms, each pair at one neuron; n over the
    neurons that are read, of which there are n times a share."""
    numbers, coefficient = UNIT, Fraction(1)
    for each in chosen:
        numbers, coefficient = times(numbers, each.numbers), coefficient * each.coefficient
    pairs = [[(chosen[slot], samples[slot]) for slot in block] for block in pairing]
    known = [_moved(pair, number) for number, pair in enumerate(pairs)]
    moved = [each for each in known if each is not None]
    if len(moved) < len(known):
        return
    passed = numbers
    for move in moved:
        passed = times(passed, move.numbers)
    kinds = [kind for each in moved for kind in each.kinds]
    fields = tuple(Field(1, (), (kind,)) for kind in kinds)
    labels = tuple(label for each in moved for label in each.labels)
    below = monomial([tensor(fields, 0, ((0, 1), (2, 3)), labels)])
    add(found, {(times(passed, below), 0): coefficient})
    if all(each.attends for each in moved):
        first, other = (pair[0][0] for pair in pairs)
        if first.kind != other.kind:
            got = Words("values of several matrices, for V")
            raise InputError("layer", got, f"one variable of values, {_OTHERS_DRAWN}")
        alike = first.scores == other.scores
        at = tuple(sample for pair in pairs for _, sample in pair)
        atoms: list[Atom] = [pair[0][0].matrix.variance for pair in pairs]  # type: ignore[union-attr]
        what, shared = (SOURCE, None) if alike else (SHARED, other.scores)
        atoms.append(ScoreAverage(first.scores, what, first.kind, at, shared))  # type: ignore[arg-type]
        own = times(numbers, monomial(atoms))
        add(found, {(own if share is None else times(own, power(share, -1)), 0): coefficient})


class _Moved(NamedTuple):
    """The response of a pair: numbers and slopes, the variables below, and their samples."""

    numbers: Monomial
    kinds: tuple[Kind, Kind]
    labels: tuple[int, int]
    attends: bool = False


def _moved(pair: list[tuple[_Addend, int]], number: int) -> _Moved | None:
    """How a product of two terms at one neuron follows the layer below; None if its mean is 0."""
    (a, s), (b, t) = pair
    kinds = a.kind, b.kind
    if a.matrix is None and b.matrix is None:
        return _Moved(UNIT, kinds, (s, t))
    if (own := _shared_matrix(a, b)) is None:
        return None
    scores, matrix = own
    labels = s + POOLED * (1 + 2 * number), s + POOLED * (2 + 2 * number)
    slope = ScoreAverage(scores, SLOPE, a.kind, (s, t, *labels))
    return _Moved(monomial([matrix.variance, slope]), kinds, labels, attends=True)
