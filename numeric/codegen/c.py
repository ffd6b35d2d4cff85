"""A single-input recursion in C99: a source that needs libm alone, and its header.

    write_c(recursion("V", weights=Orthogonal()).single_input(), activations.tanh, "vkernel.c")

The same right-hand sides, integrands and rules as in `codegen` and `bracket_single`, printed by
sympy's C printer, so that the two agree to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sympy
from sympy.printing.c import C99CodePrinter

from derive.activations.functions import Activation
from derive.arithmetic.polynomials import Atom
from derive.engine.step import Step
from derive.errors import InputError
from derive.gaussian.shapes import SingleShape, is_even
from derive.layers.chain import GivenActivations
from derive.recursions import Recursion
from derive.weights import WeightEnsemble

from ..brackets import one_input, quadrature
from ..emit import outputs, printer
from ..emit.naming import Apart
from ..emit.stable import stable
from . import c_templates, python, usage
from .module import right_side
from .one_input import SingleModule


class _Printer(C99CodePrinter):
    """Prints what `stable` brings in; refuses what C does not have."""

    def _print_SechSquared(self, expr: sympy.Expr) -> str:
        return f"pow(cosh({self._print(expr.args[0])}), -2)"

    def _print_Sigmoid(self, expr: sympy.Expr) -> str:
        return f"(1.0/(1.0 + exp(-({self._print(expr.args[0])}))))"

    def _print_ErrorTail(self, expr: sympy.Expr) -> str:
        return f"erfc({self._print(expr.args[0])})"

    def _print_Softplus(self, expr: sympy.Expr) -> str:
        u = self._print(expr.args[0])
        return f"(fmax({u}, 0.0) + log1p(exp(-fabs({u}))))"

    def _print_NumberSymbol(self, expr: sympy.NumberSymbol) -> str:
        return repr(float(expr))


_PRINTER = _Printer({"strict": True, "math_macros": {}})


def write_c(
    made: Recursion | Sequence[Recursion],
    activation: GivenActivations | None = None,
    path: str | os.PathLike[str] = "kernel.c",
    first_weights: WeightEnsemble | None = None,
) -> tuple[Path, Path]:
    """Write a C source and, beside it, its header; returns both paths.

    Arguments:
        made: from `derive.recursion`, of one input.
        activation: as for `write_module`.
        path: of the source, <stem>.c.
        first_weights: the ensemble of layer 1, where it is another than the recursion's.

    The functions are <stem>_first_layer, <stem>_next_layer (or <stem>_next_layer_1, …, if layers
    differ) and <stem>_flow; the header says what they compute. The first and the last take K0 and,
    if layer 1 depends on them, M4, …, as in a module of `write_module`; means that no input has
    give NAN. The equations are derived here, from source 000, eqs. (3.1)–(3.8).

    Raises InputError as `write_module` does, for several inputs, and for a name C cannot use.

    >>> import tempfile
    >>> from derive import activations, recursion
    >>> made = recursion("V").single_input()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_c(made, activations.tanh, f"{folder}/vkernel.c")]
    ['vkernel.c', 'vkernel.h']
    """
    outputs.check_file(path)
    target = Path(path)
    if target.suffix != ".c" or not (target.stem.isidentifier() and target.stem.isascii()):
        raise InputError("path", str(path), "a name for C functions, such as vkernel.c")
    planned = python.planned(made, activation, first_weights)
    if not isinstance(planned, SingleModule):
        raise InputError("made", made, "recursions of one input for C: made.single_input()")
    header, source = _header(planned, target.stem), _source(planned, target.stem)
    return outputs.write(source, target), outputs.write(header, target.with_suffix(".h"))


def _signatures(planned: SingleModule, stem: str) -> tuple[str, list[str], str]:
    numbers = ", ".join(f"double {name}" for name in planned.arguments)
    columns = ", ".join(f"const double *{name}" for name in planned.arguments)
    means = ", ".join(f"double {name}" for name in planned.means)
    return (
        f"void {stem}_first_layer({means}, {numbers}, double *out)",
        [
            f"void {stem}_{name}(const double *at, {numbers}, double *out)"
            for name, *_ in planned.layers
        ],
        f"void {stem}_flow({means}, long depth, {columns}, double *out)",
    )


def _header(planned: SingleModule, stem: str) -> str:
    first, steps, flow = _signatures(planned, stem)
    tensors, guard = ", ".join(planned.names), f"{stem.upper()}_H"
    weights, at_first = planned.pattern.distinct[0].weights, planned.first_weights
    about = f"{tensors} of a network with {planned.sigma_names}, layer by layer."
    ensembles = f"weights: {type(weights).__name__}; first layer: {type(at_first).__name__}"
    shown = "".join(f"\n   {line}" for line in planned.shown).replace("*/", "* /")
    following = "\n".join(f"{step};" for step in steps)
    parts = [*planned.stages, planned.first]
    equations = "\n".join(line for part in parts for line in planned.equations(part))
    depth, few = max(4, planned.least), ""
    if planned.least > 1:
        few = f"\n   NAN for depths below {planned.least}, where first and last layers would meet."
    inputs, wrong = usage.means(planned.means.values()), " or ".join(planned.impossible)
    unknown = f"; NAN, here and in the flow, where {wrong}" if wrong else ""
    lines = usage.c_program(stem, planned.names, planned.arguments, inputs, depth)
    program = "\n".join(f"       {line}".rstrip() for line in lines)
    return f"""\
/* {about}
   {ensembles}{shown}

{equations.replace("*/", "* /")}

   C_W and C_b are variances; {", ".join(planned.defined)}. Generated by wickgarten.

   A program main.c for `cc main.c {stem}.c -lm`, which prints layer {depth}:

{program} */
#ifndef {guard}
#define {guard}

/* {tensors} at layer 1{unknown}. */
{first};

/* The same at the next layer; `out` may be `at`. */
{following}

/* At layers 1 ... depth, row by row: depth * {len(planned.names)} numbers. Each parameter is an
   array of depth numbers, entry l that of layer l + 1.{few} */
{flow};

#endif
"""


def _source(planned: SingleModule, stem: str) -> str:
    first, steps, flow = _signatures(planned, stem)
    count, arguments = len(planned.names), planned.arguments
    starts = [_named(each, planned.at_inputs()) for each in planned.first.values()]
    none = f"{{ for (long k = 0; k < {count}; k++) out[k] = NAN; return; }}"
    refused = [f"if ({condition}) {none}" for condition in planned.impossible]
    unused = [f"(void){name};" for name in arguments]
    at_first = ", ".join([*planned.means, *(f"{name}[0]" for name in arguments)])
    entries = ", ".join(f"{name}[layer]" for name in arguments)
    rules = [
        Apart(_rules(sigma, shapes), planned.suffixes[sigma]).source
        for sigma, shapes in planned.shapes.items()
    ]
    calls = [
        f"{stem}_{name}(out + (layer - 1) * {count}, {entries}, out + layer * {count});"
        for name, *_ in planned.layers
    ]
    cases = (f"case {k}: {call} break;" for k, call in enumerate(calls))
    layers = [(step, span) for step, (*_, span) in zip(steps, planned.layers, strict=True)]
    stages = [
        _function(
            step if len(span) == 1 else _stage_signature(planned, stage),
            [
                _named(each, planned.atoms(stage, lambda group, k: f"average{group}[{k}]"))
                for each in planned.stages[stage].values()
            ],
            before=[*_before(planned, stage), *unused],
        )
        for step, span in layers
        for stage in span
    ]
    parts = [
        f'/* See {stem}.h. */\n#include "{stem}.h"\n\n#include <math.h>\n',
        *rules,
        _function(first, starts, before=[*unused, *refused]),
        *stages,
        *(_in_turn(planned, step, span) for step, span in layers if len(span) > 1),
        *([] if len(layers) == 1 else [_kind(planned)]),
        c_templates.FLOW.format(
            flow=flow,
            start=f"{stem}_first_layer({at_first}, out)",
            refused=" || ".join([f"depth < {planned.least}", *planned.impossible]),
            count=count,
            step=calls[0]
            if len(layers) == 1
            else "\n        ".join(["switch (kind_of(layer, depth)) {", *cases, "}"]),
        ),
    ]
    return "\n".join(parts)


def _stage_signature(planned: SingleModule, stage: int) -> str:
    numbers = ", ".join(f"double {name}" for name in planned.arguments)
    return f"static void stage_{1 + stage}(const double *at, {numbers}, double *out)"


def _before(planned: SingleModule, stage: int) -> Iterator[str]:
    """The tensors before a stage, by their names, and its averages."""
    for k, name in enumerate(planned.tensors_before(stage)):
        yield f"const double {name} = at[{k}];"
        yield f"(void){name};"
    for number, group in enumerate(planned.groups):
        if group.stage == stage:
            yield f"double average{number}[{len(planned.shapes[group.sigma])}];"
            suffix = planned.suffixes[group.sigma]
            yield f"brackets{suffix}({group.kernel}, average{number});"


def _kind(planned: SingleModule) -> str:
    """The number of the layer behind this one, as in a Python module."""
    stem, head = len(planned.pattern.stem), len(planned.pattern.head)
    first, last, block = planned.place
    return f"""\
static int kind_of(long layer, long depth) {{
    static const int order[] = {{{", ".join(map(str, planned.order))}}};
    if (layer <= {stem}) return order[{first}];
    if (depth - layer <= {head}) return order[{last}];
    return order[{block}];
}}
"""


def _in_turn(planned: SingleModule, signature: str, span: range) -> str:
    """A layer, stage by stage."""
    lines, before = [], "at"
    for stage in span:
        behind = "out" if stage == span[-1] else f"behind_{1 + stage}"
        if behind != "out":
            lines.append(f"double {behind}[{len(planned.stages[stage])}];")
        passed = ", ".join([before, *planned.arguments, behind])
        lines.append(f"stage_{1 + stage}({passed});")
        before = behind
    return "\n".join([f"{signature} {{", *printer.indented(lines), "}"]) + "\n"


def _named(made: Step, names: dict[Atom, str]) -> sympy.Expr:
    symbols = {atom: sympy.Symbol(name, real=True) for atom, name in names.items()}
    return right_side(made, symbols)


def _function(signature: str, results: Sequence[sympy.Expr], before: Sequence[str] = ()) -> str:
    """A C function that stores the results in `out`, its common subexpressions computed once."""
    bodies = [stable(sympy.sympify(body)) for body in results]
    shared, bodies = sympy.cse(bodies, symbols=sympy.numbered_symbols("t_", real=True))
    try:
        lines = [f"const double {symbol} = {_PRINTER.doprint(body)};" for symbol, body in shared]
        lines += [f"out[{k}] = {_PRINTER.doprint(body)};" for k, body in enumerate(bodies)]
    except NotImplementedError as error:
        raise InputError("activation", str(error), "functions that C has") from None
    return "\n".join([f"{signature} {{", *printer.indented([*before, *lines]), "}"]) + "\n"


def _array(name: str, values: Iterable[float], kind: str = "double") -> str:
    printed = ", ".join(repr(v if kind == "int" else float(v)) for v in values)
    return f"static const {kind} {name}[] = {{{printed}}};\n"


def _rules(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets` for one activation."""
    return (_smooth if activation.is_smooth else _kinked)(activation, shapes)


def _smooth(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets` for an analytic activation: the trapezoid rule of `bracket_single`."""
    odd = activation.is_odd  # what is odd in z sums to zero, and sets no step
    sums = one_input.smooth_sums(activation, shapes)
    kept = [shape for shape in shapes if not odd or is_even(*shape)]
    steps = one_input.smooth_sums(activation, kept)
    results, derivatives = one_input.leibniz_integrands(activation, sums.integrands)
    integrands = [result.xreplace(dict(derivatives)) for result in results]
    strips = quadrature.strips(activation)
    far = [part or (place, 0) for place, part in enumerate(sums.far)]
    return "\n".join(
        [
            _array("STRIPS", strips),
            _array("GROWTH", steps.growth),
            _array("FAR", [index for index, _ in far], kind="int"),
            _array("DEGREE", [degree for _, degree in far], kind="int"),
            _function("static void integrands(double z, double *out)", integrands, ["(void)z;"]),
            c_templates.TRAPEZOID.format(
                count=sums.near,
                integrands=len(integrands),
                strips=len(strips),
                degree=sums.degree,
                accuracy=quadrature.ACCURACY[0],
                stretched=quadrature.STRETCHED,
                reach=quadrature.NEAR_REACH,
                stretch=steps.stretch,
                stretched_step=steps.stretched_step,
            ),
        ]
    )


def _kinked(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets` for a piecewise analytic one: panels between kinks, and what sits on them."""
    scale = sympy.Symbol("scale", positive=True)
    pieces = one_input.kinked_pieces(activation, shapes, scale)
    panels, rate = quadrature.PANELS[0], quadrature.rate(activation)
    factors = max(len(shape.orders) for shape in shapes)
    reach = (
        f"fmin({panels.reach!r} + {factors * rate!r}*scale, 38.0)" if rate else repr(panels.reach)
    )
    nodes, weights = quadrature.legendre(panels.nodes)
    smooth = quadrature.smooth_width(activation)
    width = (
        repr(panels.width)
        if smooth == float("inf")
        else f"fmin({panels.width!r}, {smooth!r}/scale)"
    )
    return "\n".join(
        [
            _array("KINKS", [float(kink) for kink in activation.kinks]),
            _array("NODES", nodes),
            _array("WEIGHTS", weights),
            _array("LIMITS", pieces.limits).replace("inf", "INFINITY"),
            _function(
                "static void integrands(double z, double *out)", pieces.integrands, ["(void)z;"]
            ),
            _function(
                "static void at_kinks(double scale, double *out)", pieces.at_kinks, ["(void)scale;"]
            ),
            c_templates.PANELS.format(
                count=len(pieces.limits),
                kinks=len(activation.kinks),
                nodes=panels.nodes,
                reach=reach,
                width=width,
            ),
        ]
    )
