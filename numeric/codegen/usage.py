"""The docstring of an emitted module: its use from Python, from compiled code, on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

_PYTHON = "From Python, with this file as kernel.py, {} layers:"


def numbers(parameters: Sequence[str]) -> list[str]:
    """Arguments for a demonstration: C_W = 1 and no biases."""
    return ["0.0" if name == "C_b" else "1.0" for name in parameters]


def means(orders: Iterable[int]) -> str:
    """Means of an input for a demonstration: of normal numbers."""
    return ", ".join(f"{prod(range(1, order, 2))}.0" for order in orders)


def columns(parameters: Sequence[str], depth: int = 10) -> list[str]:
    """The same for so many layers."""
    return [f"np.full({depth}, {number})" for number in numbers(parameters)]


def single(
    tensors: Sequence[str],
    parameters: Sequence[str],
    step: str,
    inputs: str,
    *,
    on_device: bool,
) -> list[str]:
    """One input: the loop over layers; a step in a compiled loop; a step per thread."""
    names, given = ", ".join(tensors), ", ".join(numbers(parameters))
    entries = ", ".join(f"{name}[i]" for name in tensors)
    lines = [
        _PYTHON.format(50),
        "    import numpy as np, kernel",
        f"    table = kernel.flow({inputs}, {', '.join(columns(parameters, 50))})",
        "From code that numba compiles:",
        "    import numba, kernel",
        "    @numba.njit",
        f"    def last({names}, depth):",
        "        for _ in range(depth):",
        f"            {names}, = kernel.{step}({names}, {given})",
        f"        return {names},",
    ]
    if not on_device:
        return [*lines, "Not tried on a GPU, as σ has kinks."]
    return [
        *lines,
        "From a CUDA kernel, for which numba-cuda compiles it:",
        "    from numba import cuda",
        "    import kernel",
        "    @cuda.jit",
        f"    def step({names}):",
        "        i = cuda.grid(1)",
        f"        if i < {tensors[0]}.size:",
        f"            {entries}, = kernel.{step}({entries}, {given})",
    ]


def c_program(
    stem: str, tensors: Sequence[str], parameters: Sequence[str], inputs: str, depth: int
) -> list[str]:
    """A C program that calls the flow of <stem>.c, with so many layers, C_W = 1 and no biases."""
    arrays = ", ".join(f"{name}[{depth}]" for name in parameters)
    filled = " ".join(
        f"{name}[l] = {number};"
        for name, number in zip(parameters, numbers(parameters), strict=True)
    )
    entries = ", ".join(f"out[{depth - 1}][{place}]" for place in range(len(tensors)))
    return [
        "#include <stdio.h>",
        "",
        f'#include "{stem}.h"',
        "",
        "int main(void) {",
        f"    double {arrays}, out[{depth}][{len(tensors)}];",
        f"    for (int l = 0; l < {depth}; l++) {{",
        f"        {filled}",
        "    }",
        f"    {stem}_flow({inputs}, {depth}, {', '.join(parameters)}, out[0]);",
        f'    printf("{", ".join(f"{name} = %.6f" for name in tensors)}\\n", {entries});',
        "    return 0;",
        "}",
    ]


def multi(tensors: Sequence[str], parameters: Sequence[str], samples: int, depth: int) -> list[str]:
    """So many inputs: the loop over layers."""
    names, given = ", ".join(tensors), ", ".join(columns(parameters, depth))
    return [
        _PYTHON.format(depth),
        "    import numpy as np, kernel",
        f"    inputs = kernel.means(1.0 - 2.0 * np.eye({samples}, {max(8, samples)}))",
        f"    {names}, = kernel.flow(*inputs, {given})",
        "These functions call compiled ones, and run from Python alone.",
    ]
