"""The module of one input: scalars, and all brackets in one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from derive.activations.functions import Activation
from derive.arithmetic.polynomials import Atom
from derive.engine.tensors import identify
from derive.gaussian.shapes import SingleShape

from ..brackets import one_input
from ..brackets.shapes import shape_of
from ..emit import printer
from . import usage
from .module import Module, tensors_of


class SingleModule(Module):
    """One input: scalars."""

    decorator = "@driver\n"

    @cached_property
    def shapes(self) -> dict[Activation, tuple[SingleShape, ...]]:
        """Of each σ's brackets, in their order; those at any kernel are computed at each."""
        found: dict[Activation, dict[SingleShape, None]] = {}
        for group in self.groups:
            found.setdefault(group.sigma, {}).update(dict.fromkeys(map(shape_of, group.brackets)))
        return {sigma: tuple(shapes) for sigma, shapes in found.items()}

    def averages_of(self, sigma: Activation) -> str:
        """`brackets`, which computes all averages of one activation at a kernel."""
        return one_input.source(sigma, self.shapes[sigma]) if self.shapes else ""

    def atoms(self, stage: int, average: Callable[[int, int], str]) -> dict[Atom, str]:
        """The name of each atom of a stage's steps, given the name of a shape's average."""
        called: dict[Atom, str] = {
            bracket: average(number, self.shapes[group.sigma].index(shape_of(bracket)))
            for number, group in enumerate(self.groups)
            if group.stage == stage
            for bracket in group.brackets
        }
        components: dict[Atom, str] = {
            atom: self.before(stage, identify(atom)[0].identifier)
            for each in self.stages[stage].values()
            for atom in tensors_of(each)
        }
        return {**called, **self._atoms(), **components}

    def lines(self, stage: int) -> Iterator[str]:
        """See `Module`."""

        def average(number: int, place: int) -> str:
            return f"average_{place}" if len(self.groups) == 1 else f"average_{number}_{place}"

        for number, group in enumerate(self.groups):
            if group.stage == stage:
                places = range(len(self.shapes[group.sigma]))
                averages = (average(number, place) for place in places)
                called = f"brackets{self.suffixes[group.sigma]}"
                yield f"{', '.join(averages)}, = {called}({group.kernel})"
        known = self.atoms(stage, average)
        for name, each in self.stages[stage].items():
            yield f"{self.behind(stage, name)} = {self.expression(each, known)}"

    def usage(self) -> list[str]:
        """How to call the module."""
        tensors, parameters = ", ".join(self.names), ", ".join(self.arguments)
        means, count = ", ".join(self.means), len(self.names)
        return [
            f"first_layer({means}, {parameters}) -> ({tensors}) at layer 1, of one input",
            *(
                f"{name}({tensors}, {parameters}) -> ({tensors}) at the next layer"
                for name, *_ in self.layers
            ),
            f"flow({means}, {parameters}) -> array (depth, {count}); each parameter an array",
            "    (depth,), its entry l that of layer l + 1",
            f"layers({tensors}, {parameters}) -> the same from the tensors at layer 1",
            f"means(x) -> ({means},) of an input x (n_0,), so that flow(*means(x), ...)",
        ]

    def examples(self) -> list[str]:
        """See `usage.single`."""
        step = self.layers[self.pattern.block[0]][0]
        device = all(sigma.is_smooth for sigma in self.sigmas)
        inputs = usage.means(self.means.values())
        return usage.single(self.names, self.parameters, step, inputs, on_device=device)

    def source(self) -> str:
        """The module after its docstring."""
        at_inputs, names = self.at_inputs(), ", ".join(self.names)
        entries = ", ".join([names, *(f"{name}[layer]" for name in self.arguments)])
        steps = [f"{names}, = {step}({entries})" for step, *_ in self.layers]
        several = (f"{'el' * (k > 0)}if kind == {k}:\n    {step}" for k, step in enumerate(steps))
        return printer.filled(
            _MODULE,
            **self.drawn,
            refusals=[
                f'if {condition}:\n    raise ValueError("no input has means with {condition}")'
                for condition in self.impossible
            ],
            given=usage.means(self.means.values()),
            starts=[f"{k} = {self.expression(each, at_inputs)}" for k, each in self.first.items()],
            step=steps if len(steps) == 1 else ["kind = kind_of(layer, C_W.size)", *several],
            stores=[f"out[layer, {place}] = {name}" for place, name in enumerate(self.names)],
            rows=len(self.names),
        )


_MODULE = """\
$prelude


$averages


TENSORS = $tensors
PARAMETERS = $parameters


def means(x):
    x = np.asarray(x, dtype=float)
    return tuple(float(np.mean(x**order)) for order in $orders)


@scalar
def first_layer($means, $arguments):
    $refusals
    $starts
    return $names,


$steps

$kind

@driver
def layers($names, $arguments):
    $check
    out = np.empty((C_W.size, $rows))
    for layer in range(C_W.size):
        if layer > 0:
            $step
        $stores
    return out


@driver
def flow($means, $arguments):
    $names, = first_layer($at_first)
    return layers($names, $arguments)


if __name__ == "__main__":
    table = flow($given, $demonstrated)
    print("layer" + "".join(f"{name:>24}" for name in TENSORS))
    for layer, row in enumerate(table, start=1):
        print(f"{layer:5d}" + "".join(f"{value:24.16g}" for value in row))
"""
