"""The averages of a module of several inputs: copies of `tables`, and what they need of each σ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from derive.activations.functions import Activation, z
from derive.arithmetic import hermite
from derive.gaussian.shapes import Shape
from derive.work.caches import cache

from ..brackets import pieces, quadrature
from ..brackets.shapes import MAX_INPUTS, describe
from ..emit import printer
from ..emit.copies import copies, literal
from ..layers import kinked, several_samples
from . import tables


@cache
def rules(kinds: frozenset[str]) -> str:
    """The source of all that `tables` of σ of these kinds call, and "signals" of positions."""
    nodes = {each.nodes: quadrature.legendre(each.nodes) for each in quadrature.PANELS}
    instead = {
        "cache": "from functools import cache",
        "check_inputs": _CHECK,
        "erfc": _ERFC,
        "legendre": f"legendre = {literal(nodes)}.__getitem__",
    }
    wanted: dict[str, list[Any]] = {
        "smooth": [several_samples.Rule, tables.Smooth],
        "straight": [tables.Straight],
        "kinked": [quadrature.Panels, kinked.Kinked, tables.Panelled],
        "signals": [tables.Reader, tables.check_positions],
    }
    return copies([each for kind in sorted(kinds) for each in wanted[kind]], instead) + "\n"


def kind(activation: Activation) -> str:
    """Analytic σ is "smooth"; with kinks it is "straight" between them, or else "kinked"."""
    if activation.is_smooth:
        return "smooth"
    return "kinked" if pieces.table(activation) is None else "straight"


def source(activation: Activation, shapes: Sequence[Shape]) -> str:
    """`AVERAGES`, whose `tables(K, shapes)` are the brackets of these shapes over all samples."""
    emit = {"smooth": _smooth, "straight": _straight, "kinked": _kinked}[kind(activation)]
    about = [f"# of {activation.name}:", *(f"#     {describe(shape)}" for shape in shapes)]
    return "\n".join(about) + f"\n\n{emit(activation, shapes)}"


def _straight(activation: Activation, _: Sequence[Shape]) -> str:
    return f"AVERAGES = Straight({literal(pieces.table(activation))})\n"


def _smooth(activation: Activation, shapes: Sequence[Shape]) -> str:
    totals = sorted({tuple(sorted(map(sum, zip(*shape, strict=True)))) for shape in shapes})
    rules = {
        total: several_samples.rule(activation, [tuple((order,) for order in total)])
        for total in totals
    }
    return printer.filled(
        _SMOOTH,
        sigma=_sigma(activation, {order for total in totals for order in total}),
        rules=[f"{literal(total)}: {literal(rule)}," for total, rule in rules.items()],
        is_odd=activation.is_odd,
    )


def _kinked(activation: Activation, shapes: Sequence[Shape]) -> str:
    found = kinked.of_sigma(activation, tuple(shapes))
    outer = sorted({form.outer for form in found.reaches})
    outside = "".join(f"{each}: {_hermite(each)}, " for each in outer if any(each))
    functions = {"derivative": "derivative", "outside": f"{{{outside}}}.get"}
    return printer.filled(
        _KINKED,
        sigma=_sigma(activation, {order for form in found.reaches for order in form.orders}),
        fields=[
            f"{functions.get(name) or literal(value)},  # {name}"
            for name, value in found._asdict().items()
        ],
    )


def _hermite(outer: tuple[int, ...]) -> str:
    """The polynomial for these derivatives as a function of u and Q."""
    polynomial, u, Q = hermite.polynomial(outer)
    active = [p for p, count in enumerate(outer) if count]
    names = {symbol: f"u[{p}]" for p, symbol in zip(active, u, strict=True)}
    names |= {symbol: f"Q[{p}, {q}]" for (p, q), symbol in Q.items()}
    return f"lambda u, Q: {printer.expression(polynomial, names)}"


def _sigma(activation: Activation, orders: Iterable[int]) -> str:
    """`derivative(m, z)`: the derivatives that the module needs, chosen by their order."""
    functions, cases = [], []
    for m in sorted(orders):
        doc = f"Derivative {m} of {activation.name}, away from kinks."
        derivative = activation.derivative(m)
        functions.append(
            printer.function(f"sigma_{m}", [z], derivative, decorator="@scalar", doc=doc)
        )
        cases += [f"if m == {m}:", f"    return sigma_{m}(z)"]
    return "\n\n".join([*functions, printer.filled(_SIGMA, cases=cases)])


_SIGMA = '''\
@scalar
def sigma(m, z):
    """The m-th of them."""
    $cases
    return math.nan


@driver
def at_all(m, z, out):
    """Fill out with the m-th at all z."""
    for k in range(len(z)):
        out[k] = sigma(m, z[k])


def derivative(m, z):
    """The m-th at an array of z."""
    out = np.empty(z.size)
    at_all(m, z.ravel(), out)
    return out.reshape(z.shape)
'''

_SMOOTH = '''\
$sigma


def derivatives(orders, z):
    """Those of these orders."""
    return [derivative(order, z) for order in orders]


RULES = {
    $rules
}
AVERAGES = Smooth(derivatives, RULES, $is_odd)
'''

_KINKED = """\
$sigma


AVERAGES = Panelled(Kinked(
    $fields
))
"""

_CHECK = f'''\
def check_inputs(count, alike):
    """Raise NotAveraged if an average has more distinct inputs than there is a rule for."""
    if count > {MAX_INPUTS}:
        raise NotAveraged(
            f"one average over {{count}} inputs, none {{alike}}; the most is {MAX_INPUTS}"
        )'''

_ERFC = '''\
@driver
def erfc_at_all(x, out):
    """Fill out with 1 - erf(x)."""
    for k in range(len(x)):
        out[k] = math.erfc(x[k])


def erfc(x):
    """1 - erf(x)."""
    out = np.empty(x.size)
    erfc_at_all(x.ravel(), out)
    return out.reshape(x.shape)'''
