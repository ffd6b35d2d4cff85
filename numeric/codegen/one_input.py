"""The module of one input: scalars, and all brackets in one loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from derive.arithmetic.polynomials import Atom
from derive.engine.tensors import Tensor, identify
from derive.gaussian.shapes import SingleShape

from ..brackets import module as brackets
from ..brackets.shapes import shape_of
from ..emit import modules, printer
from . import usage
from .module import Module


class SingleModule(Module):
    """One input: scalars."""

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
        return printer.filled(
            _MODULE,
            prelude=modules.PRELUDE,
            support=brackets.support_source(self.activation),
            brackets=brackets.single_source(self.activation, self.shapes),
            tensors=self.names,
            parameters=self.parameters,
            names=", ".join(self.names),
            arguments=", ".join(self.arguments),
            entries=", ".join(f"{name}[layer]" for name in self.arguments),
            at_first=", ".join(f"{name}[0]" for name in self.arguments),
            demonstrated=", ".join(usage.columns(self.parameters)),
            starts=[f"{k} = {self.expression(each, at_inputs)}" for k, each in self.first.items()],
            steps=[f"{k}_next = {self.expression(each, known)}" for k, each in self.steps.items()],
            results=", ".join(f"{name}_next" for name in self.names),
            stores=[f"out[layer, {place}] = {name}" for place, name in enumerate(self.names)],
            averages=", ".join(averages),
            rows=len(self.names),
        )


_MODULE = """\
$prelude


$support


$brackets


TENSORS = $tensors
PARAMETERS = $parameters


@scalar
def first_layer(K0, $arguments):
    $starts
    return $names,


@driver
def next_layer($names, $arguments):
    $averages, = brackets(K)
    $steps
    return $results,


@driver
def layers($names, $arguments):
    out = np.empty((C_W.size, $rows))
    for layer in range(C_W.size):
        if layer > 0:
            $names, = next_layer($names, $entries)
        $stores
    return out


@driver
def flow(K0, $arguments):
    $names, = first_layer(K0, $at_first)
    return layers($names, $arguments)


if __name__ == "__main__":
    table = flow(1.0, $demonstrated)
    print("layer" + "".join(f"{name:>24}" for name in TENSORS))
    for layer, row in enumerate(table, start=1):
        print(f"{layer:5d}" + "".join(f"{value:24.16g}" for value in row))
"""
