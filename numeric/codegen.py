"""From derived recursions to a standalone numba module.

    write_module(recursion("V", weights=Orthogonal()), activations.tanh, "vkernel.py")

The module needs numpy and numba alone. It holds the activation's Gaussian brackets, one step of
each recursion, the first layer, and a loop over layers; run as a script it prints a table.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path

import sympy

from derive.activations import Activation, z
from derive.algebra import Atom, Monomial
from derive.brackets import Bracket
from derive.errors import InputError
from derive.parameters import Parameter
from derive.recursion import Recursion, closure, recursion
from derive.shapes import Shape
from derive.tensors import Name, Tensor, identify
from derive.weights import WeightEnsemble

from . import bracket_multi, brackets, modules, printer
from .bracket_shapes import SingleShape

_LETTERS = "abcdefghijkl"

Recursions = dict[str, Recursion]
"""By the tensor's identifier."""


def write_module(
    made: Recursion | Sequence[Recursion],
    activation: Activation | None = None,
    path: str | os.PathLike[str] = "kernel.py",
    first_weights: WeightEnsemble | None = None,
) -> Path:
    """Write a standalone numba module that runs these recursions, and all they depend on.

    Arguments:
        made: from `derive.recursion`; single-input ones give scalar kernels, multi-input ones
            arrays T[a, b, …] over samples.
        activation: σ, where the recursion is not specialised already.
        path: the file, written whole or not at all.
        first_weights: the ensemble of layer 1, where it is another than the recursion's.

    The module has `first_layer`, `next_layer`, `layers`, `flow` and `PARAMETERS`, and says in its
    docstring how to call them. Raises InputError for recursions that do not go together, and for an
    activation with no kernel.
    """
    recursions = [made] if isinstance(made, Recursion) else list(made)
    if not recursions or not all(isinstance(each, Recursion) for each in recursions):
        raise InputError("made", made, "a Recursion, or several")
    head = recursions[0]
    sigma = activation or head.activation
    if not isinstance(sigma, Activation):
        raise InputError("activation", activation, "an activation of derive.activations")
    for each in recursions:
        if (each.weights, each.square, each.is_single_input) != (
            head.weights,
            head.square,
            head.is_single_input,
        ) or each.first_layer:
            wanted = "recursions of hidden layers with the same weights, inputs and widths"
            raise InputError("made", str(each), wanted)
    source = module_source(
        [each.target for each in recursions],
        sigma,
        head.weights,
        first_weights,
        single=head.is_single_input,
        square=head.square,
        corrections=max(each.corrections for each in recursions),
    )
    return modules.write(source, path)


def module_source(
    targets: Sequence[str | Name],
    activation: Activation,
    weights: WeightEnsemble,
    first_weights: WeightEnsemble | None = None,
    *,
    single: bool,
    square: bool = True,
    corrections: int = 0,
) -> str:
    """The module's text. Everything in it is derived: see `write_module`."""
    if activation.expr.free_symbols - {z}:
        raise InputError("activation", activation.name, "numbers for all of its parameters")
    first = first_weights or weights
    tensors = closure(["K", *targets], weights, corrections)
    emit = _SingleModule if single else _MultiModule

    def made(ensemble: WeightEnsemble, *, first_layer: bool, square: bool) -> Recursions:
        return {
            name.identifier: recursion(
                name, ensemble, first_layer=first_layer, square=square, corrections=corrections
            )
            for name in tensors
        }

    steps = made(weights, first_layer=False, square=square)
    for name, step in steps.items():
        shapes = [_shape(each) for each in step.single_input().atoms(Bracket)]
        brackets.check_finite(name, activation, shapes)
    module = emit(
        steps,
        made(first, first_layer=True, square=False),
        activation,
    )
    body = module.source()
    header = module.header(weights, first, hashlib.sha256(body.encode()).hexdigest()[:16])
    return f'"""{header}"""\n\n{body}'


class _Module:
    """What the modules of one and of several inputs share."""

    def __init__(self, steps: Recursions, first: Recursions, activation: Activation) -> None:
        self.steps, self.first, self.activation = steps, first, activation

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors, in the order of every tuple of them."""
        return tuple(self.steps)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The hyperparameters that occur, in the order in which they are passed."""
        found = {
            atom.name
            for each in (*self.steps.values(), *self.first.values())
            for atom in each.atoms(Parameter)
        }
        return tuple(sorted({"C_W", "C_b", *found}))

    @cached_property
    def brackets(self) -> tuple[Bracket, ...]:
        """The brackets of all steps."""
        found = {atom for each in self.steps.values() for atom in each.atoms(Bracket)}
        return tuple(sorted(found))

    def expression(self, made: Recursion, names: dict[Atom, str]) -> str:
        """The right-hand side as Python source, each atom printed as `names` says."""
        in_order = sorted(names, key=lambda atom: names[atom])  # not by hashes: the text is a key
        symbols = {atom: sympy.Dummy(real=True) for atom in in_order}
        total = sympy.Add(
            *(
                sympy.Rational(value.numerator, value.denominator) * _product(mono, symbols)
                for (mono, _), value in made.terms.items()
            )
        )
        printed = {symbol: names[atom] for atom, symbol in symbols.items()}
        return printer.expression(sympy.factor_terms(total), printed)

    def header(self, weights: WeightEnsemble, first: WeightEnsemble, digest: str) -> str:
        """The docstring: what is computed, from which network, and how to call it."""
        lines = [
            f"{', '.join(self.names)} of a network with {self.activation.name}, layer by layer.",
            "",
            f"weights: {type(weights).__name__}; first layer: {type(first).__name__};",
            f"activation: {self.activation.expr}",
            "",
            *self.usage(),
            "",
            "At layer l+1, in terms of layer l:",
            *self.equations(self.steps),
            "At layer 1, in terms of the inputs' K0 = x.x/n_0:",
            *self.equations(self.first),
            "",
            "V is n times the connected four-point function; K + G1/n is the metric at width n.",
            "C_W and C_b are variances: E[W_ij^2] = C_W/n_in, E[b_i^2] = C_b.",
            "r_in = n_in/n; r_big = max(n_in, n_out)/n is 1 in the first layer if n_0 <= n.",
            "",
            f"Generated by wickgarten {version('wickgarten')}; content {digest}.",
        ]
        return "\n".join(lines).replace("\\", "\\\\") + "\n"

    def equations(self, recursions: Recursions) -> list[str]:
        """The recursions as the engine prints them, one a paragraph."""
        return [
            line
            for each in recursions.values()
            for line in textwrap.wrap(
                str(each), 96, initial_indent="    ", subsequent_indent=" " * 8
            )
        ]

    def usage(self) -> list[str]:
        """How to call the module."""
        raise NotImplementedError


def _shape(bracket: Bracket) -> SingleShape:
    return SingleShape(tuple(order for _, order in bracket.factors), len(bracket.outer))


def _product(mono: Monomial, symbols: dict[Atom, sympy.Symbol]) -> sympy.Expr:
    return sympy.prod([symbols[atom] ** exponent for atom, exponent in mono])


class _SingleModule(_Module):
    """One input: scalars."""

    def __init__(self, steps: Recursions, first: Recursions, activation: Activation) -> None:
        super().__init__(
            {name: each.single_input() for name, each in steps.items()},
            {name: each.single_input() for name, each in first.items()},
            activation,
        )

    def usage(self) -> list[str]:
        """How to call the module."""
        tensors, parameters = ", ".join(self.names), ", ".join(self.parameters)
        return [
            f"first_layer(K0, {parameters}) -> ({tensors}) at layer 1, of one input",
            f"next_layer({tensors}, {parameters}) -> ({tensors}) at the next layer",
            f"flow(K0, {parameters}) -> array (depth, {len(self.names)}); each parameter an array",
            "    (depth,), its entry l that of layer l + 1",
            f"layers({tensors}, {parameters}) -> the same from the tensors at layer 1",
        ]

    def source(self) -> str:
        """The module after its docstring."""
        shapes = [_shape(each) for each in self.brackets]
        averages: dict[Atom, str] = {
            each: f"average_{place}" for place, each in enumerate(self.brackets)
        }
        parameters: dict[Atom, str] = {Parameter(name): name for name in self.parameters}
        components: dict[Atom, str] = {
            atom: identify(atom)[0].identifier
            for each in self.steps.values()
            for atom in each.atoms(Tensor)
        }
        inputs: dict[Atom, str] = {
            atom: "K0" for each in self.first.values() for atom in each.atoms(Tensor)
        }
        names = ", ".join(self.names)
        arguments = ", ".join(self.parameters)
        entries = ", ".join(f"{name}[layer]" for name in self.parameters)
        at_first = ", ".join(f"{name}[0]" for name in self.parameters)
        known = {**averages, **parameters, **components}
        at_inputs = {**parameters, **inputs}
        steps = [
            f"{name}_next = {self.expression(each, known)}" for name, each in self.steps.items()
        ]
        starts = [
            f"{name} = {self.expression(each, at_inputs)}" for name, each in self.first.items()
        ]
        unpack = "".join(f"{name}, " for name in averages.values()).rstrip()
        return "\n\n".join(
            [
                modules.PRELUDE,
                brackets.support_source(self.activation),
                brackets.single_source(self.activation, shapes),
                f"TENSORS = {self.names!r}\nPARAMETERS = {self.parameters!r}\n",
                _function("scalar", f"first_layer(K0, {arguments})", [*starts, f"return {names},"]),
                _function(
                    "driver",
                    f"next_layer({names}, {arguments})",
                    [
                        f"{unpack} = brackets(K)",
                        *steps,
                        f"return {', '.join(f'{name}_next' for name in self.names)},",
                    ],
                ),
                _function(
                    "driver",
                    f"layers({names}, {arguments})",
                    [
                        f"out = np.empty((C_W.size, {len(self.names)}))",
                        "for layer in range(C_W.size):",
                        "    if layer > 0:",
                        f"        {names}, = next_layer({names}, {entries})",
                        *(
                            f"    out[layer, {place}] = {name}"
                            for place, name in enumerate(self.names)
                        ),
                        "return out",
                    ],
                ),
                _function(
                    "driver",
                    f"flow(K0, {arguments})",
                    [
                        f"{names}, = first_layer(K0, {at_first})",
                        f"return layers({names}, {arguments})",
                    ],
                ),
                _MAIN_SINGLE.format(
                    arguments=", ".join(_defaults(self.parameters)),
                ),
            ]
        )


class _MultiModule(_Module):
    """Several inputs: arrays over samples, brackets tabulated once for each set of samples."""

    def usage(self) -> list[str]:
        """How to call the module."""
        tensors, parameters = ", ".join(self.names), ", ".join(self.parameters)
        return [
            f"first_layer(K0, {parameters}) -> ({tensors}) at layer 1; K0 (m, m) = x.x/n_0",
            f"next_layer({tensors}, {parameters}) -> ({tensors}) at the next layer",
            f"flow(K0, {parameters}) -> tuple of arrays, such as K (depth, m, m);",
            "    each parameter an array (depth,), its entry l that of layer l + 1",
            f"layers({tensors}, {parameters}) -> the same from the tensors at layer 1",
        ]

    @cached_property
    def tables(self) -> dict[Bracket, tuple[tuple[Shape, tuple[int, ...]], ...]]:
        """Each bracket as a sum of table entries: (shape, the sample label of each position)."""
        return {each: tuple(_positions(each)) for each in self.brackets}

    def source(self) -> str:
        """The module after its docstring."""
        shapes = sorted({shape for entries in self.tables.values() for shape, _ in entries})
        table = {shape: f"table_{place}" for place, shape in enumerate(shapes)}
        parameters: dict[Atom, str] = {Parameter(name): name for name in self.parameters}
        names, arguments = ", ".join(self.names), ", ".join(self.parameters)
        used = ", ".join(table.values())
        entries = ", ".join(f"{name}[layer]" for name in self.parameters)
        at_first = ", ".join(f"{name}[0]" for name in self.parameters)
        kernels = {shape: bracket_multi.kernel(self.activation, shape) for shape in shapes}
        values = [
            _values(kernel, rank, extra=more)
            for kernel, rank, more in sorted(
                {(name, len(shape.orders), bool(given)) for shape, (name, given) in kernels.items()}
            )
        ]
        fill = [_fill(name, shape, *kernels[shape]) for shape, name in table.items()]
        steps = [
            self._kernel(f"next_{name}", each, f"{names}, {used}, {arguments}", parameters, table)
            for name, each in self.steps.items()
        ]
        firsts = [
            self._kernel(f"first_{name}", each, f"K0, {arguments}", parameters, table)
            for name, each in self.first.items()
        ]
        return "\n\n".join(
            [
                modules.PRELUDE,
                brackets.support_source(self.activation),
                brackets.multi_source(self.activation, shapes),
                f"TENSORS = {self.names!r}\nPARAMETERS = {self.parameters!r}\n",
                _TABULATE,
                *values,
                *fill,
                *firsts,
                *steps,
                _function(
                    "",
                    f"first_layer(K0, {arguments})",
                    [
                        "return (",
                        *(f"    first_{name}(K0, {arguments})," for name in self.names),
                        ")",
                    ],
                ),
                _function(
                    "",
                    f"next_layer({names}, {arguments})",
                    [
                        *(f"{name} = fill_{name}(K)" for name in table.values()),
                        "return (",
                        *(f"    next_{name}({names}, {used}, {arguments})," for name in self.names),
                        ")",
                    ],
                ),
                _function(
                    "",
                    f"layers({names}, {arguments})",
                    [
                        f"rows = [({names},)]",
                        "for layer in range(1, C_W.size):",
                        f"    rows.append(next_layer(*rows[-1], {entries}))",
                        "return tuple(np.stack(tensor) for tensor in zip(*rows))",
                    ],
                ),
                _function(
                    "",
                    f"flow(K0, {arguments})",
                    [f"return layers(*first_layer(K0, {at_first}), {arguments})"],
                ),
                _MAIN_MULTI.format(arguments=", ".join(_defaults(self.parameters))),
            ]
        )

    def _kernel(
        self,
        name: str,
        made: Recursion,
        arguments: str,
        parameters: dict[Atom, str],
        table: dict[Shape, str],
    ) -> str:
        """A loop over the samples of one tensor; what is symmetric is computed all the same."""
        rank = len(made.samples)
        index = dict(zip(made.samples, _LETTERS, strict=False))
        known: dict[Atom, str] = {**parameters}
        for mono, _ in made.terms:
            for atom, _ in mono:
                if isinstance(atom, Bracket):
                    parts = [
                        f"{table[shape]}[{', '.join(index[label] for label in labels)}]"
                        for shape, labels in self.tables[atom]
                    ]
                    known[atom] = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
                elif isinstance(atom, Tensor):
                    tensor, labels = identify(atom)
                    array = "K0" if made.first_layer else tensor.identifier
                    known[atom] = f"{array}[{', '.join(index[label] for label in labels)}]"
        letters = [index[label] for label in made.samples]
        samples = arguments.split(",", maxsplit=1)[0]
        lines = [f"m = {samples}.shape[0]", f"out = np.empty(({'m, ' * rank}))"]
        lines += [f"{'    ' * k}for {letter} in range(m):" for k, letter in enumerate(letters)]
        lines += [f"{'    ' * rank}out[{', '.join(letters)}] = {self.expression(made, known)}"]
        return _function("driver", f"{name}({arguments})", [*lines, "return out"])


def _positions(bracket: Bracket) -> Iterable[tuple[Shape, tuple[int, ...]]]:
    """The bracket over positions that carry one factor each: ∂_sample = Σ of its positions' ∂."""
    places: dict[int, list[int]] = {}
    for place, (sample, _) in enumerate(bracket.factors):
        places.setdefault(sample, []).append(place)
    orders = tuple(order for _, order in bracket.factors)
    labels = tuple(sample for sample, _ in bracket.factors)
    for chosen in product(*(places[sample] for sample in bracket.outer)):
        outer = tuple(chosen.count(place) for place in range(len(orders)))
        ranked = sorted(range(len(orders)), key=lambda p: (orders[p], -outer[p]))
        shape = Shape(tuple(orders[p] for p in ranked), tuple(outer[p] for p in ranked))
        yield shape, tuple(labels[p] for p in ranked)


def _values(kernel: str, rank: int, *, extra: bool) -> str:
    """The loop over tuples of samples around one kernel."""
    arguments = ", orders, growth" if extra else ""
    return _function(
        "parallel" if rank > 2 else "driver",  # a parallel loop costs seconds to compile
        f"values_{kernel}(K, tuples{arguments})",
        [
            "out = np.empty(tuples.shape[0])",
            f"for t in {'numba.prange' if rank > 2 else 'range'}(tuples.shape[0]):",
            f"    block = np.empty(({rank}, {rank}))",
            f"    for p in range({rank}):",
            f"        for q in range({rank}):",
            "            block[p, q] = K[tuples[t, p], tuples[t, q]]",
            f"    out[t] = {kernel}(block{arguments})",
            "return out",
        ],
    )


def _fill(name: str, shape: Shape, kernel: str, arguments: str) -> str:
    """The function that tabulates one bracket over all tuples of samples."""
    kinds = list(zip(shape.orders, shape.outer, strict=True))
    blocks = tuple(kinds.index(kind) for kind in kinds)
    more = f", {arguments}" if arguments else ""
    return _function(
        "", f"fill_{name}(K)", [f"return tabulate(values_{kernel}, K, {blocks!r}{more})"]
    )


_TABULATE = '''\
def tabulate(values, K, blocks, *arguments):
    """A bracket for every tuple of samples; positions of one block are alike, so each set of
    samples is computed once."""
    m, rank = K.shape[0], len(blocks)
    grids = np.indices((m,) * rank).reshape(rank, -1).T
    ordered = grids.copy()
    for block in set(blocks):
        places = [place for place in range(rank) if blocks[place] == block]
        ordered[:, places] = np.sort(grids[:, places], axis=1)
    tuples, inverse = np.unique(ordered, axis=0, return_inverse=True)
    found = values(np.ascontiguousarray(K), tuples, *arguments)
    return found[inverse.reshape(-1)].reshape((m,) * rank)
'''

_MAIN_SINGLE = """\
if __name__ == "__main__":
    table = flow(1.0, {arguments})
    print("layer" + "".join(f"{{name:>24}}" for name in TENSORS))
    for layer, row in enumerate(table, start=1):
        print(f"{{layer:5d}}" + "".join(f"{{value:24.16g}}" for value in row))
"""

_MAIN_MULTI = """\
if __name__ == "__main__":
    tensors = flow(np.array([[1.0, 0.5], [0.5, 1.0]]), {arguments})
    for name, values in zip(TENSORS, tensors):
        print(name)
        for layer, value in enumerate(values, start=1):
            print(f"{{layer:5d}}", " ".join(f"{{entry:.12g}}" for entry in value.ravel()))
"""


def _defaults(parameters: Sequence[str]) -> list[str]:
    """Arguments for the module's own demonstration: ten layers with C_W = 1 and no biases."""
    return [f"np.full(10, {0.0 if name == 'C_b' else 1.0})" for name in parameters]


def _function(decorator: str, signature: str, lines: Sequence[str]) -> str:
    head = [f"@{decorator}"] if decorator else []
    return "\n".join([*head, f"def {signature}:", *printer.indented(lines)]) + "\n"
