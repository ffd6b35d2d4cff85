"""A model's graph and the laws of its matrices as a `derive.Network`.

A layer's preactivations z are nodes through which every path goes: a matrix's output, or a sum, as
of a skip. What lies between two of them is one layer, written as its equations. With the learning
rates λ_b = 1 and λ_W = n_in the tangent kernel is that of the model's own parameters under descent;
a matrix of another fan-in f in a layer of rate λ_W stands there as √(f/λ_W) W, W of variance
C λ_W/f.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import sympy

from derive import layers, weights
from derive.activations import linear
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.layers import Layer
from derive.network import Network

from .graph import Applied, Graph, Inputs, Linear, Node, Norm, Product, Sum
from .laws import Law


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
        activation: the one σ.
        ending: what is done to the last preactivations, in words.
    """

    graph: Graph
    blocks: tuple[Block, ...]
    activation: Activation
    ending: str | None


def structure(graph: Graph) -> Structure:
    """The layers of a graph. Raises InputError for what is no sequence of layers that are known."""
    cuts = graph.cuts()
    places = [at for at in cuts if _is_place(graph.nodes[at])]
    if not places:
        raise InputError("model", "no matrix on every path", "a matrix behind the inputs")
    first = graph.nodes[places[0]]
    if not isinstance(first, Linear) or not isinstance(graph.nodes[first.source], Inputs):
        wanted = "a first matrix that takes the inputs as they are; cannot read what comes before"
        raise InputError("model", _named(graph, places[0]), wanted)
    blocks = [Block(places[0], (places[0],), first.fan_out, None, sympy.S.Zero, False, None)]
    for before, behind in pairwise(places):
        blocks.append(_block(graph, before, behind))
    used = [graph.nodes[at] for at in cuts if at > places[-1]]
    ending = None
    if used:
        known = [str(each.function) if isinstance(each, Applied) else "a norm" for each in used]
        ending = f"{', '.join(known)} behind the last matrix, which the layers do not have"
    found: dict[Activation, int] = {}
    for number, block in enumerate(blocks, start=1):
        if block.function is not None and block.function != linear:
            found.setdefault(block.function, number)
    if len(found) > 1:
        told = ", ".join(f"{sigma} before layer {number}" for sigma, number in found.items())
        raise InputError("model", told, "one activation for all layers")
    return Structure(graph, tuple(blocks), next(iter(found), linear), ending)


def network(made: Structure, laws: Mapping[str, Law]) -> tuple[Network, tuple[str, ...]]:
    """The network, and remarks on what it leaves out.

    Raises InputError for laws that no network here has.
    """
    graph, blocks = made.graph, made.blocks
    matrices = [_matrix(graph, at) for block in blocks for at in block.matrices]
    unknown = [each for each in matrices if laws[each.weight].kind == "unknown"]
    unknown_biases = [e for e in matrices if e.bias is not None and laws[e.bias].kind == "unknown"]
    if unknown or unknown_biases:
        told = [f"{each.weight}: {laws[each.weight]}" for each in unknown]
        told += [f"{each.bias}: {laws[each.bias]}" for each in unknown_biases if each.bias]
        raise InputError("model", "; ".join(told), "weights and biases whose law is known")
    remarks: list[str] = []
    exact = _exactly(made, laws, matrices)
    if exact is not None:
        head, texts = exact, [layers.dense()] * (len(blocks) - 1)
    else:
        head = _kind(laws, matrices, remarks)
        texts = [_layer(made, number, laws) for number in range(2, len(blocks) + 1)]
    first = laws[matrices[0].weight]
    widths = (matrices[0].fan_in, *(block.width for block in blocks))
    first_weights = head if exact is not None else _first(first, remarks)
    biases = [_bias(made, number, laws, remarks) for number in range(1, len(blocks) + 1)]
    others: dict[str, Any] = {} if len(set(texts)) == 0 else {"layer": _layers(texts)}
    net = Network(
        made.activation,
        head,
        first_weights=replace(first_weights, C_W=first.C),
        C_b=biases if any(biases) else 0,
        lambda_W=list(_rates(made)),
        lambda_b=[int(_is_biased(made, number)) for number in range(1, len(blocks) + 1)],
        widths=widths,
        **others,
    )
    net.check_skips(len(blocks))
    return net, tuple(remarks)


def _is_place(node: Node) -> bool:
    """Whether these are preactivations: a matrix's output, or a sum."""
    return isinstance(node, Linear) or (isinstance(node, Sum) and len(node.terms) > 1)


def _block(graph: Graph, before: int, behind: int) -> Block:
    """What lies between two preactivations."""
    between = graph.between(before, behind)
    nodes = [graph.nodes[at] for at in between]
    functions = list(dict.fromkeys(each.function for each in nodes if isinstance(each, Applied)))
    if len(functions) > 1:
        told = " and ".join(map(str, functions))
        raise InputError("model", f"{told} in {_named(graph, behind)}", "one activation in a layer")
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


def _matrix(graph: Graph, at: int) -> Linear:
    node = graph.nodes[at]
    assert isinstance(node, Linear)
    return node


def _named(graph: Graph, at: int) -> str:
    node = graph.nodes[at]
    return node.weight if isinstance(node, Linear) else str(graph.origins[at])


def _rates(made: Structure) -> list[int]:
    """λ_W of each layer: its width below, that of a dense layer's fan-in."""
    below = [_matrix(made.graph, made.blocks[0].node).fan_in]
    return below + [block.width for block in made.blocks[:-1]]


def _exactly(
    made: Structure, laws: Mapping[str, Law], matrices: list[Linear]
) -> weights.WeightEnsemble | None:
    """The ensemble, where all layers are dense ones with independent entries of one law."""
    own = [laws[each.weight] for each in matrices]
    plain = all(_is_plain(made, number) for number in range(2, len(made.blocks) + 1))
    entries = own[0].kind in {"uniform", "truncated normal", "signs", "sparse"}
    same = len({(each.kind, each.C, each.density) for each in own}) == 1
    return own[0].ensemble() if plain and entries and same else None


def _kind(
    laws: Mapping[str, Law], matrices: list[Linear], remarks: list[str]
) -> weights.WeightEnsemble:
    """The ensemble of layers 2, 3, …, each with a C_W of its own.

    K, V and Θ of independent entries are those of Gaussian ones with their variance.
    """
    own = [laws[each.weight] for each in matrices[1:]] or [laws[matrices[0].weight]]
    live = [each for each in own if each.kind != "zero"]
    kinds = {each.kind if each.keeps_rotations else "gaussian" for each in live}
    if len(kinds) > 1:
        told = ", ".join(f"{each.weight}: {laws[each.weight].kind}" for each in matrices)
        raise InputError("model", told, "one law for the matrices of layers 2, 3, …")
    others = sorted({each.kind for each in live if not each.keeps_rotations})
    if others:
        remarks.append(
            f"{' and '.join(others)} entries: K, V and Θ as of Gaussian ones with their variance, "
            "which is exact at leading order in 1/n; corrections of order 1/n are not those"
        )
    if len({each.density for each in live}) > 1:
        raise InputError("model", "matrices of several ranks", "one rank over width")
    ensemble = next((each.ensemble() for each in live if each.keeps_rotations), None)
    return replace(ensemble or weights.Gaussian(), C_W=sympy.S.One)


def _first(law: Law, remarks: list[str]) -> weights.WeightEnsemble:
    if law.keeps_rotations:
        found = law.ensemble()
        assert found is not None
        return found
    if not remarks:
        remarks.append(f"{law.kind} entries of layer 1, as Gaussian ones with their variance")
    return weights.Gaussian(law.C)


def _bias(made: Structure, number: int, laws: Mapping[str, Law], remarks: list[str]) -> sympy.Expr:
    """C_b of a layer, that of its last matrices' biases.

    Raises InputError where its equations have biases of other variances, unless they are of order
    1/n.
    """
    nodes = [_matrix(made.graph, at) for at in made.blocks[number - 1].matrices]
    biased = [(each.bias, laws[each.bias].C) for each in nodes if each.bias is not None]
    if not biased:
        return sympy.S.Zero
    told = ", ".join(f"{path}: {variance}" for path, variance in biased)
    own = biased[-1][1]
    if len({variance for _, variance in biased}) > 1:
        if max(float(variance) for _, variance in biased) > 1 / made.blocks[0].width:
            raise InputError("model", told, "one variance of the biases within a layer")
        remarks.append(
            f"biases of several variances in layer {number}, {told}: {own} for all; the "
            "difference is of order 1/n"
        )
    return own


def _is_biased(made: Structure, number: int) -> bool:
    nodes = [_matrix(made.graph, at) for at in made.blocks[number - 1].matrices]
    return any(each.bias is not None for each in nodes)


def _layers(texts: list[Layer]) -> Layer | list[Layer]:
    return texts[0] if len(set(texts)) == 1 else texts


def _is_plain(made: Structure, number: int) -> bool:
    """Whether a layer is b + W σ(z), each preactivation with a bias."""
    block = made.blocks[number - 1]
    end = made.graph.nodes[block.node]
    if not isinstance(end, Linear):
        return False
    source = made.graph.nodes[end.source]
    below = made.blocks[number - 2].node
    return isinstance(source, Applied) and source.source == below and source.function != linear


def _layer(made: Structure, number: int, laws: Mapping[str, Law]) -> Layer:
    """The equations of layer 2, 3, …"""
    rate = _rates(made)[number - 1]
    try:
        return _Writer(made, number, laws, rate).layer()
    except InputError as error:
        where = _named(made.graph, made.blocks[number - 1].matrices[-1])
        wanted = error.wanted
        if "taken off one variable only" in wanted:
            wanted = (
                "LayerNorm of one thing, as within a branch (pre-norm), not of a sum with a skip "
                "(post-norm), where RMSNorm is read"
            )
        raise InputError("model", f"{where}, layer {number}: {error.got}", wanted) from None


class _Writer:
    """Writes a layer's equations, one after another."""

    def __init__(self, made: Structure, number: int, laws: Mapping[str, Law], rate: int) -> None:
        self.graph, self.sigma, self.laws = made.graph, made.activation, laws
        self.below, self.block = made.blocks[number - 2].node, made.blocks[number - 1]
        self.rate, self.n = rate, made.blocks[0].width
        self.lines: list[str] = []
        self.names = {self.below: "z"}
        self.C: dict[str, sympy.Expr] = {}
        self.ratio: dict[str, sympy.Expr] = {}
        self.values: dict[str, sympy.Expr] = {}
        self.norms = self.hidden = self.shifts = 0

    def layer(self) -> Layer:
        """All of it."""
        last = self.block.node
        right = self.right(last)
        self.lines.append(f"z[i] = {right}")
        return Layer(*self.lines, C=self.C, ratio=self.ratio, **self.values)

    def right(self, at: int) -> str:
        """The right side of an equation that gives this node."""
        node = self.graph.nodes[at]
        if isinstance(node, Linear):
            return self.matrix(node)
        if isinstance(node, Sum):
            return " + ".join(self.term(factor, source) for factor, source in node.terms)
        return self.entry(at, "i")

    def term(self, factor: sympy.Expr, at: int) -> str:
        """c u, of a sum."""
        node = self.graph.nodes[at]
        known = at in self.names or not isinstance(node, Linear)
        if factor == 1 and not known:
            return self.matrix(_matrix(self.graph, at))
        inside = self.entry(at, "i") if known else ""
        if factor == 1:
            return inside
        shown = self.number("c", factor)
        if known:
            return f"{shown} {inside}"
        linear = _matrix(self.graph, at)
        scaled = f"{shown} {self.matrix(replace(linear, bias=None))}"
        if linear.bias is None:
            return scaled
        self.shifts += 1
        self.lines.append(f"v{self.shifts}[i] = b[i]")
        return f"{shown} v{self.shifts}[i] + {scaled}"

    def matrix(self, node: Linear) -> str:
        """b + c W u."""
        name = f"W{len(self.C) + 1}"
        law = self.laws[node.weight]
        self.C[name] = sympy.S.Zero
        inside = self.entry(node.source, "a")
        ratio = sympy.Rational(node.fan_in, self.rate)
        self.C[name] = law.C / ratio
        shown = "" if ratio == 1 else self.number("r", sympy.sqrt(ratio)) + " "
        bias = "" if node.bias is None else "b[i] + "
        return f"{bias}{shown}{name}[i,a] {inside}"

    def entry(self, at: int, index: str) -> str:
        """A node's entry at an index, where it can stand: written before if need be."""
        if at in self.names:
            return f"{self.names[at]}[{index}]"
        node = self.graph.nodes[at]
        match node:
            case Applied(source, function):
                if function == linear:
                    return self.entry(source, index)
                return f"s({self.name(source)}[{index}])"
            case Product(left, right):
                return f"{self.entry(left, index)} {self.entry(right, index)}"
            case Norm():
                return f"{self.normalized(at, node)}[{index}]"
        return f"{self.name(at)}[{index}]"

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
        right = self.right(at)
        self.hidden += 1
        made = self.names[at] = f"h{self.hidden}"
        self.lines.append(f"{made}[i] = {right}")
        width = self.graph.widths[at]
        if width != self.n:
            self.ratio[made] = sympy.Rational(width, self.n)
        return made

    def normalized(self, at: int, node: Norm) -> str:
        """y of a norm."""
        if at in self.names:
            return self.names[at]
        of = self.name(node.source)
        if self.graph.widths[node.source] != self.graph.widths[self.below]:
            raise InputError("model", _named(self.graph, at), "a norm of z, or of as many neurons")
        self.norms += 1
        q, m, eps = f"q{self.norms}", f"m{self.norms}", self.number("eps", node.eps)
        if node.kind == "layer":
            self.lines.append(f"{m} = {of}[a]/n")
        self.lines.append(f"{q} = {of}[a] {of}[a]/n")
        made = self.names[at] = f"y{self.norms}"
        top = f"({of}[i] - {m})" if node.kind == "layer" else f"{of}[i]"
        spread = f"{q} - {m}^2" if node.kind == "layer" else q
        self.lines.append(f"{made}[i] = {top}/sqrt({spread} + {eps})")
        return made

    def number(self, name: str, value: sympy.Expr) -> str:
        """A number, by itself or as a symbol with that value."""
        if value.is_Rational and value >= 0:
            return f"({value})" if value.q != 1 else str(value)
        made = f"{name}{len(self.values) + 1}"
        self.values[made] = value
        return made
