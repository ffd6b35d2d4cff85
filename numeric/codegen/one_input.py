"""The module of one input: scalars, and all brackets in one loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from derive.activations.functions import Activation
from derive.arithmetic.polynomials import Atom
from derive.engine.tensors import Tensor, identify
from derive.gaussian.shapes import SingleShape
from derive.weights import WeightEnsemble

from .. import brackets
from ..emit import modules, printer
from . import usage
from .module import Module, Recursions, function_source, shape_of


class SingleModule(Module):
    """One input: scalars."""

    def __init__(
        self,
        steps: Recursions,
        first: Recursions,
        activation: Activation,
        ensembles: tuple[WeightEnsemble, WeightEnsemble],
    ) -> None:
        super().__init__(
            {name: each.single_input() for name, each in steps.items()},
            {name: each.single_input() for name, each in first.items()},
            activation,
            ensembles,
        )

    @cached_property
    def shapes(self) -> tuple[SingleShape, ...]:
        """Of the brackets, in their order."""
        return tuple(shape_of(each) for each in self.brackets)

    def atoms(self, averages: Sequence[str]) -> tuple[dict[Atom, str], dict[Atom, str]]:
        """What each atom of the steps, and of the first layer, is called."""
        parameters = self._atoms()
        components: dict[Atom, str] = {
            atom: identify(atom)[0].identifier
            for each in self.steps.values()
            for atom in each.atoms(Tensor)
        }
        inputs: dict[Atom, str] = {
            atom: "K0" for each in self.first.values() for atom in each.atoms(Tensor)
        }
        called: dict[Atom, str] = dict(zip(self.brackets, averages, strict=True))
        return {**called, **parameters, **components}, {**parameters, **inputs}

    def usage(self) -> list[str]:
        """How to call the module."""
        tensors, parameters = ", ".join(self.names), ", ".join(self.arguments)
        return [
            f"first_layer(K0, {parameters}) -> ({tensors}) at layer 1, of one input",
            f"next_layer({tensors}, {parameters}) -> ({tensors}) at the next layer",
            f"flow(K0, {parameters}) -> array (depth, {len(self.names)}); each parameter an array",
            "    (depth,), its entry l that of layer l + 1",
            f"layers({tensors}, {parameters}) -> the same from the tensors at layer 1",
        ]

    def examples(self) -> list[str]:
        """See `usage.single`."""
        return usage.single(self.names, self.parameters, on_device=self.activation.is_smooth)

    def source(self) -> str:
        """The module after its docstring."""
        averages = [f"average_{place}" for place in range(len(self.brackets))]
        known, at_inputs = self.atoms(averages)
        names = ", ".join(self.names)
        arguments = ", ".join(self.arguments)
        entries = ", ".join(f"{name}[layer]" for name in self.arguments)
        at_first = ", ".join(f"{name}[0]" for name in self.arguments)
        steps = [
            f"{name}_next = {self.expression(each, known)}" for name, each in self.steps.items()
        ]
        starts = [
            f"{name} = {self.expression(each, at_inputs)}" for name, each in self.first.items()
        ]
        sizes = [f"size_{place}" for place in range(len(averages))]
        found = ", ".join([*averages, *sizes])
        disturbed = printer.listing(
            f"{average} + noise[layer, {place}] * {size}"
            for place, (average, size) in enumerate(zip(averages, sizes, strict=True))
        )
        unpack = "".join(f"{name}, " for name in averages).rstrip()
        return "\n\n".join(
            [
                modules.PRELUDE,
                brackets.support_source(self.activation),
                brackets.single_source(self.activation, self.shapes),
                f"TENSORS = {self.names!r}\nPARAMETERS = {self.parameters!r}\n"
                f"BRACKETS = {len(averages)}\n",
                function_source(
                    "scalar", f"first_layer(K0, {arguments})", [*starts, f"return {names},"]
                ),
                function_source(
                    "driver",
                    f"above(averages, {names}, {arguments})",
                    [
                        f"{unpack} = averages",
                        *steps,
                        f"return {', '.join(f'{name}_next' for name in self.names)},",
                    ],
                ),
                function_source(
                    "driver",
                    f"next_layer({names}, {arguments})",
                    [f"return above(brackets(K), {names}, {arguments})"],
                ),
                function_source(
                    "driver",
                    f"disturbed_layers({names}, {arguments}, noise)",
                    [
                        '"""`layers` with noise[layer, k] times its size added to average k."""',
                        f"out = np.empty((C_W.size, {len(self.names)}))",
                        "for layer in range(C_W.size):",
                        "    if layer > 0:",
                        f"        {found}, = sized_brackets(K)",
                        f"        averages = {disturbed}",
                        f"        {names}, = above(averages, {names}, {entries})",
                        *(
                            f"    out[layer, {place}] = {name}"
                            for place, name in enumerate(self.names)
                        ),
                        "return out",
                    ],
                ),
                function_source(
                    "driver",
                    f"layers({names}, {arguments})",
                    [
                        f"noise = np.zeros((C_W.size, {len(averages)}))",
                        f"return disturbed_layers({names}, {arguments}, noise)",
                    ],
                ),
                function_source(
                    "driver",
                    f"flow(K0, {arguments})",
                    [
                        f"{names}, = first_layer(K0, {at_first})",
                        f"return layers({names}, {arguments})",
                    ],
                ),
                _MAIN_SINGLE.format(
                    arguments=", ".join(usage.columns(self.parameters)),
                ),
            ]
        )


_MAIN_SINGLE = """\
if __name__ == "__main__":
    table = flow(1.0, {arguments})
    print("layer" + "".join(f"{{name:>24}}" for name in TENSORS))
    for layer, row in enumerate(table, start=1):
        print(f"{{layer:5d}}" + "".join(f"{{value:24.16g}}" for value in row))
"""
