"""The module of several inputs: arrays over samples, and tables of brackets over sets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Value
from derive.engine.step import Step
from derive.engine.taps import Taps, matrices
from derive.engine.tensors import identify
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.gaussian.shapes import Shape

from ..brackets.shapes import positions_of
from ..emit import printer
from ..emit.copies import literal
from . import positions, usage
from .module import ROUNDING, Module, tensors_of
from .tables import Reader, check_positions

_LETTERS = "abcdefghijkl"

_LONG = 100
"""Terms that take minutes to compile as one loop over samples; arrays are added up instead."""

_MASKS = (
    "",
    "Each input has masks of its own. The equations below are those of different inputs: a bracket",
    "is multiplied by 1/p for each of its samples that is the input of one before it.",
)


_SIGNALS = ("    of signals, where a sample is a signal at a position, one signal after another",)


class MultiModule(Module):
    """Several inputs: arrays over samples, brackets tabulated once for each set of samples."""

    def usage(self) -> list[str]:
        """How to call the module."""
        tensors, parameters = ", ".join(self.names), ", ".join(self.arguments)
        means = ", ".join(self.means)
        shapes = ", ".join(f"{name} ({', '.join('m' * r)})" for name, r in self.means.items())
        return [
            f"first_layer({means}, {parameters}) -> ({tensors}) at layer 1; {shapes}",
            *(_SIGNALS if self._taps else ()),
            *(
                f"{name}({tensors}, {parameters}) -> ({tensors}) at the next layer"
                for name, *_ in self.layers
            ),
            f"flow({means}, {parameters}) -> tuple of arrays, such as K {self._shape};",
            "    each parameter an array (depth,), its entry l that of layer l + 1",
            f"layers({tensors}, {parameters}) -> the same from the tensors at layer 1;",
            "    both raise NotAveraged where an entry is nan",
            f"means(x) -> ({means},) of inputs x (m, n_0), so that flow(*means(x), ...)",
            *(_MASKS if any(map(self._keep, range(len(self.stages)))) else ()),
        ]

    def examples(self) -> list[str]:
        """See `usage.multi`."""
        return usage.multi(self.names, self.parameters, self._samples, self._depth(50))

    @cached_property
    def _taps(self) -> list[Taps]:
        """The taps that its matrices read by."""
        found = (next(iter(steps.values())).through.taps for steps in self.stages)
        return list(dict.fromkeys(taps for taps in found if taps.moves))

    @cached_property
    def _read(self) -> list[tuple[int, int]]:
        """Of each distinct layer the positions that it reads and gives; (0, 0) for any."""
        found = []
        for span in self.spans:
            stages = (next(iter(self.stages[stage].values())).through.taps for stage in span)
            taps = [each for each in stages if each.moves]
            found.append((taps[0].positions, taps[-1].results) if taps else (0, 0))
        return found

    def _at_depth(self, depth: int) -> list[tuple[int, int]]:
        """The same of layers 2, 3, … of a network of this depth."""
        stem, block, head = self.pattern.stem, self.pattern.block, self.pattern.head
        middle = (block[k % len(block)] for k in range(depth - self.least))
        return [self._read[number] for number in (*stem, *middle, *head)]

    def _depth(self, wanted: int) -> int:
        """This depth, or another where positions that change leave no layers to repeat."""
        for depth in (max(wanted, self.least), self.least + 1, self.least):
            try:
                check_positions(self._at_depth(depth), self._samples)
            except ValueError:
                continue
            return depth
        got = "; ".join(str(scheme.layer) for scheme in self.pattern.distinct)
        raise InputError("made", got, "layers that read as many positions as those before give")

    @property
    def demonstrated(self) -> int:
        """See `Module`."""
        return self._depth(super().demonstrated)

    @property
    def _is_read(self) -> bool:
        """True if layers change the positions: those of the last layer may be others."""
        return any(positions != results for positions, results in self._read)

    @property
    def _shape(self) -> str:
        """Of a kernel in the table."""
        return "at the last layer, over its positions" if self._is_read else "(depth, m, m)"

    @property
    def _samples(self) -> int:
        """A number of samples that a demonstration can have: more than one, in whole signals."""
        order = (self._read[number] for number in self.order)
        positions = next((read for read, _ in order if read), 1)
        return max(2, positions)

    def _functions(self, stage: int, name: str) -> list[tuple[str, Step]]:
        """The functions that lead through a stage, one for each of a recursion's parts."""
        parts, called = self.stages[stage][name].parts, f"next_{self.behind(stage, name)}"
        several = len(parts) > 1
        return [(f"{called}_{k}" if several else called, part) for k, part in enumerate(parts)]

    def _over_taps(self, part: Step, value: str) -> str:
        """A part, summed over the taps of its stage."""
        if part.ties is None:
            return value
        return f"TAPS_{self._taps.index(part.through.taps)}.over_taps({value}, {part.blocks})"

    @cached_property
    def tables(self) -> dict[Bracket, tuple[tuple[Shape, tuple[int, ...]], ...]]:
        """Each bracket as a sum of table entries: (shape, the sample label of each position)."""
        found = (each for group in self.groups for each in group.brackets)
        return {each: tuple(positions_of(each)) for each in found}

    @cached_property
    def called(self) -> list[dict[Shape, str]]:
        """The names of the tables of each group."""
        found: list[dict[Shape, str]] = []
        for number, group in enumerate(self.groups):
            shapes = sorted({shape for each in group.brackets for shape, _ in self.tables[each]})
            before = "table" if len(self.groups) == 1 else f"table_{number}"
            found.append({shape: f"{before}_{place}" for place, shape in enumerate(shapes)})
        return found

    @cached_property
    def shapes(self) -> dict[Activation, list[Shape]]:
        """Of each σ's brackets."""
        found: dict[Activation, set[Shape]] = {}
        for group, tables in zip(self.groups, self.called, strict=True):
            found.setdefault(group.sigma, set()).update(tables)
        return {sigma: sorted(shapes) for sigma, shapes in found.items()}

    def averages_of(self, sigma: Activation) -> str:
        """A function for all averages of one activation."""
        return positions.source(sigma, self.shapes[sigma]) if self.shapes else ""

    def _passed(self, stage: int) -> str:
        """The arguments of the kernels of a stage: tensors, tables, hyperparameters."""
        tables = [
            name
            for group, tables in zip(self.groups, self.called, strict=True)
            if group.stage == stage
            for name in tables.values()
        ]
        return ", ".join([*self.tensors_before(stage), *tables, *self.arguments])

    def lines(self, stage: int) -> Iterator[str]:
        """See `Module`."""
        for group, tables in zip(self.groups, self.called, strict=True):
            if group.stage == stage:
                shapes = [f"        ({shape.orders}, {shape.outer})," for shape in tables]
                called = self.averages[group.sigma]("AVERAGES")
                yield f"{', '.join(tables.values())}, = {called}.tables({group.kernel}, ("
                yield from [*shapes, "    ))"]
        for name in self.stages[stage]:
            calls = (
                self._over_taps(part, f"{function}({self._passed(stage)})")
                for function, part in self._functions(stage, name)
            )
            yield f"{self.behind(stage, name)} = {' + '.join(calls)}"

    def source(self) -> str:
        """The module after its docstring."""
        arguments, means = ", ".join(self.arguments), ", ".join(self.means)
        steps = [name for name, *_ in self.layers]
        functions = [
            *(
                self._kernel(f"first_{name}", each, f"{means}, {arguments}", -1)
                for name, each in self.first.items()
            ),
            *(
                self._kernel(function, part, self._passed(stage), stage)
                for stage, steps in enumerate(self.stages)
                for name in steps
                for function, part in self._functions(stage, name)
            ),
            *(f"TAPS_{k} = {literal(_reader(each))}" for k, each in enumerate(self._taps)),
        ]
        return printer.filled(
            _MODULE,
            **self.drawn,
            functions="\n\n".join(functions),
            rules=positions.rules(
                frozenset([*map(positions.kind, self.shapes), *(["signals"] if self._taps else [])])
            ),
            entries=", ".join(f"{name}[layer]" for name in self.arguments),
            check_means=[printer.filled(_CHECK_MEANS, rounding=ROUNDING)]
            if len(self.means) > 1
            else [],
            checks=[f"check_means({means})"] if len(self.means) > 1 else [],
            starts=[f"first_{name}({means}, {arguments})," for name in self.names],
            step=steps[0] if len(steps) == 1 else f"({', '.join(steps)})[{_NUMBER}]",
            check_positions=printer.filled(
                _CHECK_POSITIONS,
                read=self._read,
                number=_NUMBER if len(steps) > 1 else 0,
                samples=self.names[0],
            )
            if self._taps
            else [],
            table="rows[-1]" if self._is_read else _TABLE,
            shown=f"[values], start={self.demonstrated}" if self._is_read else "values, start=1",
            count=self._samples,
        )

    def _kernel(self, name: str, made: Step, arguments: str, stage: int) -> str:
        """A loop over the samples of one tensor, or a sum of arrays over all of them at once; what
        is symmetric is computed all the same."""
        tables = {
            bracket: names
            for group, names in zip(self.groups, self.called, strict=True)
            if group.stage == stage
            for bracket in group.brackets
        }
        rank = len(made.samples)
        index = dict(zip(made.samples, _LETTERS, strict=False))
        known = self.at_inputs() if stage < 0 else self._atoms()
        for atom in made.atoms(Bracket):
            parts = [
                f"{tables[atom][shape]}[{', '.join(index[label] for label in labels)}]"
                for shape, labels in self.tables[atom]
            ]
            known[atom] = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
            shared = self._shared(stage, [index[label] for label in atom.samples])
            known[atom] = f"({known[atom]}{shared})" if shared else known[atom]
        for component in tensors_of(made):
            tensor, labels = identify(component)
            array = known[component] if stage < 0 else self.before(stage, tensor.identifier)
            known[component] = f"{array}[{', '.join(index[label] for label in labels)}]"
        letters = [index[label] for label in made.samples]
        samples = arguments.split(",", maxsplit=1)[0]
        if len(made.terms) > _LONG:
            factor, terms = self.terms(made, known)
            return printer.filled(
                _LONG_KERNEL,
                name=name,
                arguments=arguments,
                samples=samples,
                letters=", ".join(letters),
                rank=rank,
                terms=[f"total += {term}" for term in terms],
                factor=factor,
            ).replace("math.", "np.")
        loops = [f"{'    ' * k}for {letter} in range(m):" for k, letter in enumerate(letters)]
        loops += [f"{'    ' * rank}out[{', '.join(letters)}] = {self.expression(made, known)}"]
        return printer.filled(
            _KERNEL,
            name=name,
            arguments=arguments,
            samples=samples,
            shape="m, " * rank,
            loops=loops,
        )

    def _keep(self, stage: int) -> Value | None:
        """p of dropout."""
        return None if stage < 0 else next(iter(self.stages[stage].values())).through.keep

    def _shared(self, stage: int, labels: Sequence[str]) -> str:
        """With dropout a factor 1/p for each of a bracket's samples that is one before it: their
        factors share a mask."""
        keep = self._keep(stage)
        if keep is None:
            return ""
        met = (
            " | ".join(f"({label} == {other})" for other in labels[:place])
            for place, label in enumerate(labels[1:], start=1)
        )
        more = f"(1.0 / {float(keep.expr)!r} - 1.0)"
        return "".join(f" * (1.0 + {more} * ({each}))" for each in met)


def _reader(taps: Taps) -> Reader:
    """The same matrices as numbers. A constant is read at the first position."""
    if taps.past is not None:
        (past,) = matrices(taps.past)
    elif taps.changes:
        past = np.tile(np.eye(1, taps.positions), (taps.results, 1))
    else:
        past = np.eye(taps.positions)
    return Reader(taps.count**-0.5 * matrices(taps), past)


_MODULE = '''\
from __future__ import annotations

$prelude


$rules


$averages


TENSORS = $tensors
PARAMETERS = $parameters


class NotAveraged(ValueError):
    """An average that is infinite, or that this module has no rule for."""


def checked(tensors, layer):
    """The tensors of a layer. Raises NotAveraged where an entry is nan."""
    for name, values in zip(TENSORS, tensors):
        if np.isnan(values).any():
            at = ", ".join(str(place) for place in np.argwhere(np.isnan(values))[0])
            raise NotAveraged(
                f"{name}[{at}] at layer {layer} is nan: "
                "K is no covariance, or an average is infinite there"
            )
    return tensors


def means(x):
    x = np.asarray(x, dtype=float)
    products = ([part for axis in range(r) for part in (x, [axis, r])] for r in $orders)
    return tuple(np.einsum(*each, [*range(len(each) // 2)]) / x.shape[1] for each in products)


$check_means
$functions


def first_layer($means, $arguments):
    $checks
    return (
        $starts
    )


$steps

$kind

def layers($names, $arguments):
    $check
    $check_positions
    rows = [checked(($names,), 1)]
    for layer in range(1, C_W.size):
        rows.append(checked($step(*rows[-1], $entries), layer + 1))
    return $table


def flow($means, $arguments):
    return layers(*first_layer($at_first), $arguments)


if __name__ == "__main__":
    tensors = flow(*means(1.0 - 2.0 * np.eye($count, max(8, $count))), $demonstrated)
    for name, values in zip(TENSORS, tensors):
        print(name)
        for layer, value in enumerate($shown):
            print(f"{layer:5d}", " ".join(f"{entry:.12g}" for entry in value.ravel()))
'''

_CHECK_MEANS = '''\
def check_means(*means):
    """Raises ValueError for means that no inputs have.

    Those of r entries are symmetric. With those of r - 2 and r - 4 they make up the Gram matrix of
    all products of r/2 and of r/2 - 2 entries, whose eigenvalues are at least 0.
    """
    m = len(means[0])
    scale, found = np.trace(means[0]) / m or 1.0, [np.ones(())]
    for power, values in enumerate(means, start=1):
        order = 2 * power
        if values.shape != (m,) * order:
            raise ValueError(f"means of {order} entries: shape {values.shape}, not {(m,) * order}")
        values = values / scale**power
        turned = [np.moveaxis(values, 0, axis) for axis in range(1, order)]
        if not all(np.allclose(values, each, rtol=$rounding, atol=$rounding) for each in turned):
            raise ValueError(f"means of {order} entries: not symmetric, or not finite")
        found.append(values)
    for power in range(2, len(found)):
        few, many = m ** (power - 2), m**power
        middle = found[power - 1].reshape(few, many)
        below, above = found[power - 2].reshape(few, few), found[power].reshape(many, many)
        gram = np.block([[below, middle], [middle.T, above]])
        if np.linalg.eigvalsh(gram)[0] < -$rounding * np.trace(gram):
            raise ValueError(f"means of {2 * power} entries: no inputs have these")


'''
"""The beginning of `first_layer` where it needs more than K0."""

_TABLE = "tuple(np.stack(tensor) for tensor in zip(*rows))"

_NUMBER = "kind_of(layer, C_W.size)"

_CHECK_POSITIONS = """\
read = $read
check_positions([read[$number] for layer in range(1, C_W.size)], len($samples))
"""

_KERNEL = """\
@driver
def $name($arguments):
    m = $samples.shape[0]
    out = np.empty(($shape))
    $loops
    return out
"""

_LONG_KERNEL = """\
def $name($arguments):
    m = $samples.shape[0]
    $letters = np.indices((m,) * $rank, sparse=True)
    total = np.zeros((m,) * $rank)
    $terms
    return $factor * total
"""
