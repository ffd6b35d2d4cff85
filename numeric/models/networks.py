"""A model's graph and the laws of its matrices as a `derive.Network`.

A layer's preactivations z are nodes through which every path goes: a matrix's output, or a sum, as
of a skip. What lies between two of them is one layer, written as its equations. With the learning
rates λ_b = 1 and λ_W = n_in the tangent kernel is that of the model's own parameters under descent;
a matrix of another fan-in f in a layer of rate λ_W stands there as √(f/λ_W) W, W of variance
C λ_W/f.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import sympy

from derive import layers, weights
from derive.activations import linear
from derive.activations.functions import Activation
from derive.engine.taps import ALONE, Taps
from derive.errors import InputError
from derive.layers import Layer
from derive.layers.chain import Laws
from derive.layers.notation import SIGMA
from derive.network import Network

from . import joined
from .graph import Applied, Attention, Graph, Inputs, Linear, Norm, Pooled, Product, Sum
from .laws import Law, square
from .signals import chosen

_MOST_PRODUCTS = 8
"""Products of functions that a matrix takes together. A gated layer that carries its inputs doubles
them."""
_BIAS = re.compile(r"b\d*\[i\]")
_SHORT = 10**9
"""The largest denominator of a number that is written in an equation."""


_HEADS = (
    "scores over √d: theory is for many heads of this size, and takes the matrices of attention as "
    "Gaussian ones with their variance, which K does not tell apart"
)


class Block(NamedTuple):
    """One layer of a model.

    Attributes:
        node: of its preactivations.
        matrices: the nodes of its matrices.
        width: how many preactivations.
        norm: "rms" or "layer", where it has one.
        skip: the factor of what is carried past it; 0 for none.
        gated: whether two branches are multiplied.
        function: σ, or None where it has none.
    """

    node: int
    matrices: tuple[int, ...]
    width: int
    norm: str | None
    skip: sympy.Expr
    gated: bool
    function: Activation | None


@dataclass(frozen=True)
class Structure:
    """The layers of a graph, before the laws are known.

    Attributes:
        blocks: layer 1, 2, …
        activation: σ, or σ of layers 1, 2, …
        ending: what is done to the last preactivations, which no layer has, in words.
        pieces: the matrices of layer 1, if it is a sum of several.
    """

    graph: Graph
    blocks: tuple[Block, ...]
    activation: Activation | tuple[Activation, ...]
    ending: str | None
    pieces: tuple[joined.Piece, ...] = ()

    def matrices(self, blocks: Iterable[Block]) -> list[Linear]:
        """The matrices of these layers."""
        places = [at for block in blocks for at in block.matrices]
        return [_matrix(self.graph, at) for at in places]


def structure(graph: Graph) -> Structure:
    """The layers of a graph. Raises InputError for what is no sequence of layers that are known."""
    cuts = graph.cuts()
    places = [at for at in cuts if _is_sum_of_layers(graph, at)]
    if not places:
        raise InputError("model", "no matrix on every path", "a matrix behind the inputs")
    sums = ((at, joined.pieces(graph, at)) for at in reversed(places))
    last, pieces = next((each for each in sums if each[1]), (0, ()))
    if len(pieces) > 1:
        joined.check_frozen(graph, pieces)
        graph = joined.joined(graph, last, pieces)
        places = places[places.index(last) :]
    else:
        pieces = ()
    first = graph.nodes[places[0]]
    if not isinstance(first, Linear) or not isinstance(graph.nodes[first.source], Inputs):
        wanted = "a first matrix that takes the inputs as they are; cannot read what comes before"
        users = [at for at in graph.between(0, places[0]) if 0 in graph.nodes[at].sources]
        if len(users) > 1:
            told = ", ".join(_named(graph, at) for at in users)
            wanted = (
                f"inputs that one matrix takes; here {told} take them, one behind another or each "
                "in a branch: read the part before the second, or each branch, by itself"
            )
        raise InputError("model", _named(graph, places[0]), wanted)
    above = graph.between(places[0] if pieces else 0, places[-1])
    live = [at for at in above if isinstance(graph.nodes[at], Pooled)]
    if live:
        wanted = "means over positions next to a matrix, not of a sum, or before a function or norm"
        raise InputError("model", str(graph.origins[live[0]]), wanted)
    blocks = [Block(places[0], (places[0],), first.fan_out, None, sympy.S.Zero, False, None)]
    for before, behind in pairwise(places):
        blocks.append(_block(graph, before, behind))
    unread = [_part(graph, at) for at in graph.between(places[-1], graph.output)]
    ending = ", ".join(dict.fromkeys(unread)) or None
    sigmas = tuple(block.function or linear for block in blocks[1:])
    bent = dict.fromkeys(sigma for sigma in sigmas if sigma != linear)
    activation = sigmas if len(bent) > 1 else next(iter(bent), linear)
    return Structure(graph, tuple(blocks), activation, ending, pieces)


def network(made: Structure, laws: Mapping[str, Law]) -> tuple[Network, tuple[str, ...]]:
    """The network, and remarks on what it leaves out.

    Raises InputError for laws that no network here has.
    """
    blocks, matrices = made.blocks, made.matrices(made.blocks)
    unknown = [each for each in matrices if laws[each.weight].kind == "unknown"]
    unknown_biases = [e for e in matrices if e.bias is not None and laws[e.bias].kind == "unknown"]
    if unknown or unknown_biases:
        told = [f"{each.weight}: {laws[each.weight]}" for each in unknown]
        told += [f"{each.bias}: {laws[each.bias]}" for each in unknown_biases if each.bias]
        raise InputError("model", "; ".join(told), "weights and biases whose law is known")
    for each in matrices[1:]:
        _check_taps(each, laws[each.weight])
    remarks: list[str] = []
    if made.pieces and not averages_scores(made) and not joined.is_of_one_size(made.pieces, laws):
        wanted = (
            "entries of one variance and one factor, also of biases, for matrices that layer 1 "
            "adds, as descent changes each by its own size; put them in one matrix"
        )
        raise InputError("model", joined.name(made.pieces), wanted)
    dead = [each.weight for each in matrices if laws[each.weight].kept]
    if dead:
        remarks.append(f"taps of {', '.join(dead)} that are 0 at the start, held there")
    if averages_scores(made):
        remarks.append(_HEADS)
    numbers, own = range(2, len(blocks) + 1), [law_of_weights(each, laws) for each in matrices]
    plain = all(_is_plain(made, number) for number in numbers)
    if plain:
        texts = [_dense(live_taps(each, laws)) for each in matrices[1:]]
        given = [_ensemble(law, remarks) for law in own]
    else:
        first, *rest = (_ensemble(law, remarks) for law in own)
        main = Counter(law.unit_variance for law in rest).most_common(1)[0][0]
        texts = [_layer(made, number, laws, main) for number in numbers]
        given = [first, *[main] * len(numbers)]
    widths = (live_fan_in(matrices[0], laws), *(block.width for block in blocks))
    every = range(1, len(blocks) + 1)
    biases, bias_rates = zip(*(_biases(made, number, laws) for number in every), strict=True)
    layer = texts[0] if len(set(texts)) == 1 else texts
    others: dict[str, Any] = {"layer": layer} if texts else {}
    net = Network(
        made.activation,
        Laws.by_depth(given[:1], given[-1]) if len(set(given[1:])) < 2 else given,
        C_b=list(biases) if any(biases) else 0,
        lambda_W=[_rate(made, number, laws) for number in every],
        lambda_b=list(bias_rates),
        widths=widths,
        **others,
    )
    net.check_skips(len(blocks))
    return net, tuple(remarks)


def _dense(taps: Taps) -> Layer:
    """b + W σ(z), of a signal at the positions that taps read."""
    if taps == ALONE:
        return layers.dense()
    return Layer("z[i] = b[i] + W[i,a] s(z[a])", taps={"W": taps})


def live_taps(node: Linear, laws: Mapping[str, Law]) -> Taps:
    """The positions that a matrix reads, by those of its taps that are not 0."""
    kept = laws[node.weight].kept
    return chosen(node.taps, kept) if kept else node.taps


def live_fan_in(node: Linear, laws: Mapping[str, Law]) -> int:
    """The columns of a matrix, of those of its taps that are not 0."""
    return laws[node.weight].shape[1] if laws[node.weight].kept else node.fan_in


def _check_taps(node: Linear, law: Law) -> None:
    """Raise InputError for a law of which the taps of a filter are no independent matrices.

    Such is an orthogonal matrix of all of them, as torch's `orthogonal_` makes it.
    """
    several = sum(law.kept) if law.kept else node.count
    if several > 1 and not law.has_free_rows and law.kind != "zero":
        wanted = (
            f"{node.weight} with independent entries, or delta-orthogonal, all taps 0 but one: the "
            "taps of an orthogonal filter of all of them are no independent matrices"
        )
        raise InputError("model", f"{law.kind} over {several} taps together", wanted)


def _is_sum_of_layers(graph: Graph, at: int) -> bool:
    """True for preactivations: a matrix's output, or a sum of which no term is a function of
    others, entry by entry."""
    node = graph.nodes[at]
    bent = (isinstance(graph.nodes[e], Applied | Product | Attention) for e in node.sources)
    is_sum = isinstance(node, Sum) and len(node.terms) > 1
    return isinstance(node, Linear) or (is_sum and not any(bent))


def _block(graph: Graph, before: int, behind: int) -> Block:
    """The block between two preactivations."""
    between = graph.between(before, behind)
    nodes = [graph.nodes[at] for at in between]
    applied = (each.function for each in nodes if isinstance(each, Applied))
    functions = sorted(dict.fromkeys(applied), key=linear.__eq__)  # the linear one last
    norms = list(dict.fromkeys(each.kind for each in nodes if isinstance(each, Norm)))
    end = graph.nodes[behind]
    skip = sympy.S.Zero
    if isinstance(end, Sum):
        skip = sum((factor for factor, source in end.terms if source == before), sympy.S.Zero)
    return Block(
        behind,
        tuple(at for at in between if isinstance(graph.nodes[at], Linear)),
        graph.widths[behind],
        " and ".join(norms) or None,
        skip,
        any(isinstance(each, Product) for each in nodes),
        functions[0] if functions else None,
    )


def _part(graph: Graph, at: int) -> str:
    """A short description of a node's operation."""
    match graph.nodes[at]:
        case Linear(_, weight):
            return weight
        case Applied(_, function):
            return str(function).removeprefix("expr: ")
        case Norm(_, kind, _, sets, over):
            groups = f" in {sets} groups" if sets > 1 else ""
            return f"{kind} norm{groups}{' over positions' if over else ''}"
        case Pooled():
            return "means over positions"
        case Attention():
            return "attention"
        case Sum(((factor, _),)):
            return f"a factor {decimal(factor)}"
        case Sum():
            return "a sum"
    return "a product"


def decimal(number: sympy.Expr) -> str:
    """A number to six digits."""
    return str(number) if number.is_Integer else f"{float(number):.6g}"


def readable(text: str) -> str:
    """Text whose fractions of long integers and long decimals are given to six digits.

    >>> readable("tanh(1767766952966369*z/5000000000000000), 17/40, 1.0507009873554805")
    'tanh(0.353553*z), 17/40, 1.0507'
    """
    text = _FRACTION.sub(lambda at: f"{int(at[1]) / int(at[3]):.6g}{at[2]}", text)
    return _DECIMAL.sub(lambda at: f"{float(at[0]):.6g}", text)


_FRACTION = re.compile(r"(?<![\w.])(\d{7,})((?:\*[^\W\d]\w*)?)/(\d+)(?![\w.])")
_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d{7,}")


def law_of_weights(node: Linear, laws: Mapping[str, Law]) -> Law:
    """The law of the matrix that multiplies u in a node c W u, c W."""
    return laws[node.weight].times(node.scale)


def law_of_biases(node: Linear, laws: Mapping[str, Law]) -> Law | None:
    """The law of a node's biases times their factor; None without biases."""
    return None if node.bias is None else laws[node.bias].times(node.bias_scale)


def _matrix(graph: Graph, at: int) -> Linear:
    node = graph.nodes[at]
    assert isinstance(node, Linear)
    return node


def _named(graph: Graph, at: int) -> str:
    node, line = graph.nodes[at], graph.lines.get(graph.origins[at], "")
    return f"{node.weight if isinstance(node, Linear) else graph.origins[at]}{line}"


def _below(made: Structure, number: int) -> int:
    """The width below a layer, which is λ_W of a layer written as equations."""
    if number == 1:
        return _matrix(made.graph, made.blocks[0].node).fan_in
    return made.blocks[number - 2].width


def _rate(made: Structure, number: int, laws: Mapping[str, Law]) -> sympy.Expr:
    """λ_W of a layer: its fan-in, times c² for a dense layer c W σ(z).

    The factor is there because z changes by c δW σ(z). Other layers have such factors in their
    equations.
    """
    if number > 1 and not _is_plain(made, number):
        return sympy.Integer(_below(made, number))
    node = _matrix(made.graph, made.blocks[number - 1].node)
    if made.graph.whole(node.weight) in made.graph.frozen:
        return sympy.S.Zero
    return live_fan_in(node, laws) * square(node.scale)


def _biases(made: Structure, number: int, laws: Mapping[str, Law]) -> tuple[sympy.Expr, sympy.Expr]:
    """C_b of a layer, the variance of its b[i], and λ_b: d² if its equations contain d b; 0 without
    biases that are trained."""
    node = _matrix(made.graph, _main(made, number, laws))
    law = law_of_biases(node, laws)
    if node.bias is None or law is None:
        return sympy.S.Zero, sympy.S.Zero
    is_held = made.graph.whole(node.bias) in made.graph.frozen
    return law.C, sympy.S.Zero if is_held else square(node.bias_scale)


def thaw(made: Structure) -> None:
    """Take as trained what is frozen in layers whose matrices have one rate."""
    graph, mixed = made.graph, set[str]()
    for number, block in enumerate(made.blocks, start=1):
        if number > 1 and not _is_plain(made, number):
            for node in made.matrices([block]):
                mixed |= {graph.whole(each) for each in (node.weight, node.bias) if each}
    graph.thawed += [path for path in graph.frozen if path in mixed]
    graph.frozen[:] = [path for path in graph.frozen if path not in mixed]


def _main(made: Structure, number: int, laws: Mapping[str, Law]) -> int:
    """The node whose biases are the layer's b[i]: of those with biases other than 0 the last with
    the factor that most of them have, as q, k and v do; else the last with biases."""
    places = made.blocks[number - 1].matrices
    biases = {at: law_of_biases(_matrix(made.graph, at), laws) for at in reversed(places)}
    factors = {at: abs(_matrix(made.graph, at).bias_scale) for at in biases}
    biased = [at for at in biases if factors[at] != 0 and biases[at]]
    live = [at for at, law in biases.items() if law is not None and law.C]
    shared = Counter(factors[at] for at in live)
    live.sort(key=lambda at: -shared[factors[at]])
    return [*live, *biased, places[-1]][0]


def _ensemble(law: Law, remarks: list[str]) -> weights.WeightEnsemble:
    """The ensemble of a matrix's law; a Gaussian one of its variance where there is none."""
    found = law.ensemble()
    if found is not None:
        return found
    told = (
        f"{law.kind} entries: K, V and Θ as of Gaussian ones with their variance, "
        "which is exact at leading order in 1/n; corrections of order 1/n are not those"
    )
    if told not in remarks:
        remarks.append(told)
    return weights.Gaussian(law.C)


def _is_plain(made: Structure, number: int) -> bool:
    """True if a layer is b + W σ(z), each preactivation with a bias."""
    block = made.blocks[number - 1]
    end = made.graph.nodes[block.node]
    if not isinstance(end, Linear):
        return False
    source = made.graph.nodes[end.source]
    below = made.blocks[number - 2].node
    return isinstance(source, Applied) and source.source == below and source.function != linear


def _layer(
    made: Structure, number: int, laws: Mapping[str, Law], main: weights.WeightEnsemble
) -> Layer:
    """The equations of layer 2, 3, …, in a network of this standard law."""
    try:
        return _Writer(made, number, laws, main).layer()
    except InputError as error:
        where = _named(made.graph, made.blocks[number - 1].matrices[-1])
        ways = (way for part, way in _WAYS.items() if part in error.wanted)
        wanted = next(ways, error.wanted)
        raise InputError("model", f"{where}, layer {number}: {error.got}", wanted) from None


_WAYS = {
    "taken off one variable only": "LayerNorm inside the branch, x + f(norm(x)) (pre-norm): "
    "LayerNorm of a sum with a skip, norm(x + f(x)) (post-norm), is not read; RMSNorm is, at both "
    "places",
    "one function of each variable": "one function of a layer's neurons: branches with functions "
    "of their own, as tanh and relu of one layer, are not read; give them one, or read each by "
    "itself",
    "in each product i once": "sums of preactivations: a function of neurons is added to them "
    "without a matrix, as in relu(y + x) or x + relu(W x), so they are no longer Gaussian; put a "
    "matrix behind the function, and none behind the sum: x + W relu(x) (pre-activation)",
}
"""What a user can do, by a part of what `derive.layers` wanted."""


def averages_scores(made: Structure, *numbers: int) -> bool:
    """True if one of these layers, or any, has attention with scores over √d: theory takes their
    averages, and the layer's matrices as Gaussian."""
    layers = numbers or range(2, len(made.blocks) + 1)
    return any(each.over != "n" for number in layers for each in attention(made, number))


def attention(made: Structure, number: int) -> list[Attention]:
    """The attention of a layer."""
    below = made.blocks[number - 2].node if number > 1 else 0
    places = made.graph.between(below, made.blocks[number - 1].node)
    nodes = (made.graph.nodes[at] for at in places)
    return [each for each in nodes if isinstance(each, Attention)]


class _Writer:
    """Writes a layer's equations, one after another."""

    def __init__(
        self,
        made: Structure,
        number: int,
        laws: Mapping[str, Law],
        law: weights.WeightEnsemble,
    ) -> None:
        self.graph, self.laws = made.graph, laws
        self.law, self.own = law, dict[str, weights.WeightEnsemble]()
        self.functions: dict[Activation, str] = {}
        self.main, self.is_plain = _main(made, number, laws), _is_plain(made, number)
        self.users = Counter(
            source
            for at in made.graph.between(0, made.graph.output)
            for source in made.graph.nodes[at].sources
        )
        self.below, self.block = made.blocks[number - 2].node, made.blocks[number - 1]
        self.rate, self.n = _below(made, number), made.blocks[0].width
        if self.is_plain:
            self.rate = live_fan_in(_matrix(self.graph, self.block.node), laws)
        self.lines: list[str] = []
        self.names = {self.below: "z"}
        self.taps: dict[str, Taps] = {}
        self.reads: dict[int, Taps] = {}
        self.C: dict[str, sympy.Expr] = {}
        self.ratio: dict[str, sympy.Expr] = {}
        self.values: dict[str, sympy.Expr] = {}
        self.tables: dict[str, Any] = {}
        self.positions: tuple[int, ...] | None = None
        self.has_scores = averages_scores(made, number)
        self.norms = self.hidden = self.shifts = self.matrices = self.scores = 0

    def layer(self) -> Layer:
        """All of it."""
        last = self.block.node
        self.project(last)
        right = self.right(last)
        self.lines.append(f"z[i] = {right}")
        functions = {name: sigma for sigma, name in self.functions.items() if name != SIGMA}
        return Layer(
            *self.lines,
            C=self.C,
            ratio=self.ratio,
            weights=self.own,
            activations=functions,
            taps=self.taps,
            tables=self.tables,
            positions=self.positions,
            **self.values,
        )

    def project(self, last: int) -> None:
        """Write the matrices of a skip, as 1×1 convolutions have them, before those of the branch.

        They act at all positions, and where the branch reads others the skip follows it there.
        """
        node, nodes = self.graph.nodes[last], self.graph.nodes
        terms = node.terms if isinstance(node, Sum) else ()
        ends = [at for _, at in terms if at != self.below]
        lengths = {at: len(self.matrices_to(at)) for at in ends if isinstance(nodes[at], Linear)}
        if len(lengths) < 2 or all(_matrix(self.graph, at).taps == ALONE for at in lengths):
            return
        main = max(lengths, key=lengths.__getitem__)
        sides = [at for at in lengths if at != main and _matrix(self.graph, at).count == 1]
        for at in sides:
            side = _matrix(self.graph, at)
            if not side.taps.is_identity:
                self.reads |= {
                    each: side.taps
                    for each in self.matrices_to(main)
                    if (taps := _matrix(self.graph, each).taps) != ALONE
                    and (taps.shape, taps.into) == (side.taps.shape, side.taps.into)
                }
            self.hidden += 1
            self.lines.append(f"h{self.hidden}[i] = {self.matrix(replace(side, taps=ALONE), at)}")
            self.names[at] = f"h{self.hidden}"
        if sides:
            self.lines.append("y0[i] = z[i]")
            self.names[self.below] = "y0"

    def matrices_to(self, at: int) -> list[int]:
        """The matrices between the layer below and a node."""
        between = self.graph.between(self.below, at)
        return [each for each in between if isinstance(self.graph.nodes[each], Linear)]

    def right(self, at: int) -> str:
        """The right side of an equation that gives this node."""
        node = self.graph.nodes[at]
        if isinstance(node, Linear):
            return self.matrix(node, at) or "0 z[i]"
        if isinstance(node, Sum):
            terms = filter(None, (self.term(factor, source) for factor, source in node.terms))
            return " + ".join(self.with_one_bias(terms)) or "0 z[i]"
        return self.entry(at, "i")

    def with_one_bias(self, terms: Iterable[str]) -> Iterator[str]:
        """Terms of an equation, which has biases once: further ones are variables of their own."""
        has_bias = False
        for term in terms:
            bias, plus, rest = term.partition(" + ")
            is_bias = _BIAS.fullmatch(bias) is not None
            own = self.of_biases(bias) if is_bias and has_bias else bias
            has_bias = has_bias or is_bias
            yield f"{own}{plus}{rest}"

    def of_biases(self, bias: str) -> str:
        """A new variable that is these biases."""
        self.hidden += 1
        self.lines.append(f"h{self.hidden}[i] = {bias}")
        return f"h{self.hidden}[i]"

    def term(self, factor: sympy.Expr, at: int) -> str:
        """The term c u of a sum; empty if it is 0."""
        if factor == 0:
            return ""
        node = self.graph.nodes[at]
        if isinstance(node, Linear) and at not in self.names and self.users[at] == 1:
            return self.matrix(node.times(factor), at)
        inside = self.entry(at, "i")
        return inside if factor == 1 else f"{self.number('c', factor)} {inside}"

    def matrix(self, node: Linear, at: int) -> str:
        """The terms d b + c W u, without those that are 0."""
        shift = self.biases(node, at)
        if node.scale == 0 and not self.is_plain:
            return shift
        self.matrices += 1
        name = f"W{self.matrices}"
        law = self.laws[node.weight]
        inside = self.products(node.source)
        if len(inside) > _MOST_PRODUCTS:
            wanted = f"{_MOST_PRODUCTS} at most: fewer layers of gates that carry their own inputs"
            raise InputError("model", f"{len(inside)} products of gates at one matrix", wanted)
        ratio = sympy.Rational(live_fan_in(node, self.laws), self.rate)
        scale = abs(node.scale)
        if self.is_plain:  # where λ_W has the factor
            law, scale = law.times(scale), sympy.S.One
        self.C[name] = law.C / ratio
        own = weights.Gaussian() if self.has_scores else _ensemble(law, []).unit_variance
        if own != self.law and law.C != 0:
            self.own[name] = own
        self.taps[name] = replace(live_taps(node, self.laws), past=self.reads.get(at))
        factor = scale * sympy.sqrt(ratio)
        terms = []
        for part, (own, entries) in enumerate(inside):
            if part and isinstance(self.graph.nodes[node.source], Attention):
                name = self.another(name)
            shown = "" if factor * own == 1 else self.number("r", factor * own) + " "
            terms.append(f"{shown}{name}[i,a] {' '.join(entries)}")
        return " + ".join(filter(None, (shift, *terms)))

    def another(self, name: str) -> str:
        """The name of one more matrix like this."""
        self.matrices += 1
        made = f"W{self.matrices}"
        self.C[made] = self.C[name]
        if name in self.own:
            self.own[made] = self.own[name]
        self.taps[made] = self.taps[name]
        return made

    def products(self, at: int) -> list[tuple[sympy.Expr, list[str]]]:
        """The factor behind a matrix, as a sum of products of functions, at the index a."""
        node, nodes = self.graph.nodes[at], self.graph.nodes
        if at in self.names or isinstance(node, Linear | Norm):
            return [(sympy.S.One, [self.entry(at, "a")])]
        if isinstance(node, Product):
            pairs = product(self.products(node.left), self.products(node.right))
            return [(a * b, [*one, *other]) for (a, one), (b, other) in pairs]
        if isinstance(node, Attention):
            found, share = self.weights(node), 1 / sympy.sqrt(node.groups)
            return [(share, [each, f"{self.name(node.value)}[a,s]"]) for each in found]
        if isinstance(node, Sum) and any(
            isinstance(nodes[e], Applied | Product) for e in node.sources
        ):
            return [
                (factor * own, entries)
                for factor, source in node.terms
                for own, entries in self.products(source)
            ]
        return [(sympy.S.One, [self.entry(at, "a")])]

    def biases(self, node: Linear, at: int) -> str:
        """Biases times their factor over that of b[i] (λ_b has its square); empty if it is 0."""
        if node.bias is None or node.bias_scale == 0:
            return ""
        main = _matrix(self.graph, self.main)
        assert main.bias is not None
        own, other = (self.laws[each].times(main.bias_scale).C for each in (node.bias, main.bias))
        factor, name = abs(node.bias_scale / main.bias_scale), "b"
        if own != other:
            self.shifts += 1
            name = f"b{self.shifts}"
            self.C[name] = own
        if factor == 1:
            return f"{name}[i]"
        return f"{self.number('c', factor)} {self.of_biases(f'{name}[i]')}"

    def entry(self, at: int, index: str) -> str:
        """A node's entry at an index, where it can stand: written before if need be."""
        if at in self.names:
            return f"{self.names[at]}[{index}]"
        node = self.graph.nodes[at]
        match node:
            case Applied(source, function):
                if function == linear:
                    return self.entry(source, index)
                return f"{self.function(function)}({self.name(source)}[{index}])"
            case Product(left, right):
                return f"{self.entry(left, index)} {self.entry(right, index)}"
            case Norm():
                return f"{self.normalized(at, node)}[{index}]"
            case Attention(groups=1):
                (weights,) = self.weights(node)
                return f"{weights} {self.name(node.value)}[{index},s]"
            case Attention():
                wanted = "a matrix behind attention whose heads share keys"
                raise InputError("model", "attention with shared keys, not before a matrix", wanted)
        return f"{self.name(at)}[{index}]"

    def weights(self, node: Attention) -> list[str]:
        """The softmax of scores, written before, of heads of a fixed size if these are over √d; for
        each of the heads that share keys."""
        queries, key = self.queries(node), self.name(node.key)
        self.positions = self.graph.shapes[node.query]
        width = self.graph.widths[node.query]
        if node.over != "n" and width != self.n:
            wanted = f"{self.n}, the width of layer 1, for scores over √d"
            raise InputError("model", f"heads of {width} neurons together", wanted)
        size = width // node.heads
        heads = str(node.heads // node.groups) if node.over == "n" else f"n/{size}"
        B, found = f"B{self.scores + 1}", list[str]()
        if node.table:
            self.tables[B] = node.table
        for query in queries:
            self.scores += 1
            c = f"c{self.scores}"
            self.lines.append(f"{c}[t,s] = {query}[a,t:{heads}] {key}[a,s:{heads}]/{node.over}")
            found.append(f"softmax_s({c}[t,s]{f' + {B}[t,s]' if node.table else ''})")
        return found

    def queries(self, node: Attention) -> list[str]:
        """The variables of queries: of heads that share keys, those of the first of each group, of
        the second, and so on, each with a matrix of its own."""
        inner, width = self.graph.nodes[node.query], self.graph.widths[node.query]
        if node.groups == 1:
            return [self.name(node.query)]
        if not isinstance(inner, Linear) or self.users[node.query] > 1:
            wanted = "queries that are a matrix's, where heads share keys"
            raise InputError("model", "queries that something is done to", wanted)
        rights = (self.matrix(inner, node.query) for _ in range(node.groups))
        return [self.written(each, width // node.groups) for each in rights]

    def function(self, sigma: Activation) -> str:
        """The name of an activation in the equations: s of the layer's first."""
        if sigma == self.block.function:
            return SIGMA
        return self.functions.setdefault(sigma, f"f{len(self.functions) + 1}")

    def name(self, at: int) -> str:
        """The variable that has a node's entries."""
        node = self.graph.nodes[at]
        if at in self.names:
            return self.names[at]
        if isinstance(node, Norm):
            return self.normalized(at, node)
        if isinstance(node, Sum) and len(node.terms) == 1 and node.terms[0][1] in self.names:
            ((factor, source),) = node.terms
            return f"{self.number('c', factor)} {self.names[source]}"
        self.names[at] = self.written(self.right(at), self.graph.widths[at])
        return self.names[at]

    def written(self, right: str, width: int) -> str:
        """A new variable with this right side, of so many neurons."""
        self.hidden += 1
        made = f"h{self.hidden}"
        self.lines.append(f"{made}[i] = {right}")
        if width != self.n:
            self.ratio[made] = sympy.Rational(width, self.n)
        return made

    def normalized(self, at: int, node: Norm) -> str:
        """y of a norm."""
        if at in self.names:
            return self.names[at]
        of = self.name(node.source)
        self.norms += 1
        if node.kind == "batch":
            made = self.names[at] = f"y{self.norms}"
            top = f"({of}[i;s] - mean_s({of}[i;s]))"
            spread = f"mean_s({top}^2) + {self.number('eps', node.eps)}"
            self.lines.append(f"{made}[i;s] = {top}/sqrt({spread})")
            return made
        q, m, eps = f"q{self.norms}", f"m{self.norms}", self.number("eps", node.eps)
        summed = f"{of}[{node.summed}]"
        if node.kind == "layer":
            self.lines.append(f"{m} = {summed}/n")
        self.lines.append(f"{q} = {summed} {summed}/n")
        made = self.names[at] = f"y{self.norms}"
        top = f"({of}[i] - {m})" if node.kind == "layer" else f"{of}[i]"
        spread = f"{q} - {m}^2" if node.kind == "layer" else q
        self.lines.append(f"{made}[i] = {top}/sqrt({spread} + {eps})")
        return made

    def number(self, name: str, value: sympy.Expr) -> str:
        """A number, by itself or as a symbol with that value."""
        if value.is_Rational and value >= 0 and value.q <= _SHORT:
            return f"({value})" if value.q != 1 else str(value)
        made = f"{name}{len(self.values) + 1}"
        self.values[made] = value
        return made
