"""Brackets with each position at its own z_p, z ~ N(0, K), as source: a function for each shape.

Piecewise linear σ has closed forms: `kinks`. For the others the positions are z = B y, K = B Bᵀ,
with as many normal y as K has rank, four at most, and nested loops sum over y, each factor computed
at the first level that fixes its z.

Analytic σ: derivatives go inside, and every level is a trapezoid rule. Piecewise analytic σ: every
level has panels, ending at the kinks. A derivative goes inside where σ has no jump; the others stay
outside, ⟨∂^k F⟩ = ⟨F H_k(G z, G)⟩ with G = K⁻¹. A singular K says nothing about derivatives across
its range: there *all* stay outside, with any G for which K G K = K; their contractions with tensors
in the range of K are right, and a recursion asks for no others. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from derive.activations.functions import Activation, z
from derive.arithmetic import hermite
from derive.gaussian.shapes import Shape, is_even
from derive.work.caches import cache

from ..emit import printer
from . import kinks, pieces, quadrature
from .shapes import MAX_INPUTS, describe


def bracket_name(shape: Shape) -> str:
    """The name of the bracket's function: orders, then derivatives, as in bracket_0_1_by_1_1."""
    return "bracket" + _suffix(shape.orders, shape.outer)


def smooth_source(activation: Activation, shapes: Sequence[Shape]) -> str:
    """The functions for an analytic activation; what is odd in z is zero and not summed."""
    totals = {shape: tuple(map(sum, zip(*shape, strict=True))) for shape in shapes}
    summed = {t for t in totals.values() if is_even(t) or not activation.is_odd}
    parts = []
    if summed:
        parts += [_sigma(activation, {m for t in summed for m in t}), quadrature.FACTORISE_SOURCE]
    rate = quadrature.rate(activation)
    for d in sorted({len(t) for t in summed}):
        powers = (sum(quadrature.degree(activation, m) for m in t) for t in summed if len(t) == d)
        parts.append(_nested_smooth(d, activation.is_odd, rate, max(powers)))
    for orders in sorted({tuple(sorted(t)) for t in summed}):
        columns = zip(*(_factor_growth(activation, m) for m in orders), strict=True)
        table = [min(quadrature.UNBOUNDED, sum(column)) for column in columns]
        parts.append(printer.constant("GROWTH" + _suffix(orders), table))
    for shape, t in totals.items():
        value = f"nested_{len(t)}(K, {_arguments(t)})" if t in summed else "0.0  # odd in z"
        parts.append(_bracket_function(activation, shape, [f"return {value}"]))
    return "\n\n".join(parts)


def kernel(activation: Activation, shape: Shape) -> tuple[str, str]:
    """The emitted function of K that computes this shape, and the function's further arguments.

    Shapes of an analytic or a piecewise linear activation share one function, compiled once.
    """
    total = tuple(map(sum, zip(*shape, strict=True)))
    if activation.is_smooth and (is_even(total) or not activation.is_odd):
        return f"nested_{len(total)}", _arguments(total)
    if pieces.table(activation) is not None:
        return f"average_{len(total)}", _both(shape)
    return bracket_name(shape), ""


def _arguments(orders: tuple[int, ...]) -> str:
    return f"{printer.listing(map(str, orders))}, GROWTH{_suffix(sorted(orders))}"


@cache
def _factor_growth(activation: Activation, order: int) -> tuple[float, ...]:
    return quadrature.growth(activation, [{(order,): 1}])


def _sigma(activation: Activation, orders: Iterable[int]) -> str:
    """`sigma(m, z)`: the derivatives that the module needs, chosen by their order."""
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
'''


class _Level(NamedTuple):
    """Lines around the loop over one latent variable y_j, whose value is called v_j."""

    rule: Sequence[str] = ()
    start: str = ""
    before: Sequence[str] = ()
    after: Sequence[str] = ()


def _loops(d: int, levels: Sequence[_Level], summand: str) -> list[str]:
    """Nested loops over the latent variables; what a variable fixes is computed on its level.

    Row k of B gives the position z_k = Σ_j B_kj y_j of d; p_j is the product of the weights and
    factors so far. The last variable fixes all positions that are left.
    """
    deepest = len(levels) - 1
    lines = [f"B{k}{j} = B[{k}, {j}]" for k in range(d) for j in range(min(k, deepest) + 1)]
    lines += [f"m{k} = orders[order[{k}]]" for k in range(d)] + ["total = 0.0"]
    for j, level in enumerate(levels):
        mean = f"z{j}_{j - 1} + " if j else ""
        product = f"p{j - 1} * " if j else ""
        body = [
            f"v{j} = y{j}[i{j}]",
            *level.before,
            f"p{j} = {product}w{j}[i{j}] * sigma(m{j}, {mean}B{j}{j} * v{j})",
            *level.after,
        ]
        if j < deepest:
            body += [f"if p{j} == 0.0:", "    continue"]
        for k in range(j + 1, d):
            body.append(f"z{k}_{j} = {f'z{k}_{j - 1} + ' if j else ''}B{k}{j} * v{j}")
        if j == deepest:
            body += [f"p{j} *= sigma(m{k}, z{k}_{j})" for k in range(j + 1, d)]
            body += [f"total += {summand}"]
        loop = [*level.rule, f"for i{j} in range({level.start}len(y{j})):", *printer.indented(body)]
        lines += printer.indented(loop, j)
    return lines


def _nested_smooth(d: int, odd: bool, rate: float, powers: float) -> str:
    levels, most = [], min(d, MAX_INPUTS)
    for j in range(most):
        squares = " + ".join(f"v{k} * v{k}" for k in range(j + 1))
        levels.append(
            _Level(before=[f"if {squares} > reach * reach:", "    continue"] if j > 1 else [])
        )
    if odd:
        levels[0] = _Level(start="len(y0) // 2, ", after=["p0 *= 1.0 if v0 == 0.0 else 2.0"])
    allowed = (quadrature.ACCURACY[0], *quadrature.ACCURACY[:d])
    rule = "B, STRIPS, growth, accuracy, reach"
    return printer.filled(
        _SMOOTH,
        d=d,
        most=most,
        accuracies=printer.listing(map(repr, allowed)),
        reaches=printer.listing(repr(quadrature.reach(rank, powers)) for rank in range(most + 1)),
        farther=_farther(rate, d),
        rules=[f"y{j}, w{j} = trapezoid({j}, {rule})" for j in range(most)],
        loops=_loops(d, levels, f"p{most - 1}"),
    )


_SMOOTH = '''\
@quadrature
def nested_$d(K, orders, growth):
    """The average of $d derivatives of σ, of these orders, over z ~ N(0, K)."""
    order, B, rank = factorise(K)
    if not 0 <= rank <= $most:
        return math.nan
    accuracy = $accuracies[rank]
    reach = $reaches[rank]
    $farther
    $rules
    $loops
    return total
'''


def linear_source(activation: Activation, shapes: Sequence[Shape]) -> str:
    """The functions for a piecewise linear activation."""
    ranks = sorted({len(shape.orders) for shape in shapes})
    own = "".join(f"average_{d} = average\n" for d in ranks)
    parts = [kinks.source(activation), own]
    for shape in shapes:
        doc = _doc(activation, shape)
        lines = [doc, f"return average(K, {_both(shape)})"]
        parts.append(_function("", f"{bracket_name(shape)}(K)", lines))
    return "\n\n".join(parts)


def _both(shape: Shape) -> str:
    rows = printer.listing(printer.listing(map(str, part)) for part in shape)
    return f"np.array({rows}), PIECES"


def kinked_source(activation: Activation, shapes: Sequence[Shape]) -> str:
    """The functions for any piecewise analytic activation."""
    both = {shape: pieces.forms(activation, shape) for shape in shapes}
    used = [
        form
        for regular, singular in both.values()
        for form in (singular, *([regular] if len(regular.orders) <= MAX_INPUTS else []))
        if form is not None
    ]
    parts = [
        _sigma(activation, {m for form in used for m in form.orders}),
        quadrature.FACTORISE_SOURCE,
        quadrature.INVERSE_SOURCE,
        quadrature.LATENT_PANELS_SOURCE,
        quadrature.rule_source(),
    ]
    rate = quadrature.rate(activation)
    for outer in dict.fromkeys(form.outer for form in used):
        most = max(pieces.powers(activation, form) for form in used if form.outer == outer)
        parts.append(_nested_kinked(outer, rate, most))
    for shape, (regular, singular) in both.items():
        d = len(shape.orders)
        outside = "return math.nan"
        most = min(d, MAX_INPUTS)
        lines = ["order, B, rank = factorise(K)", f"if not 0 <= rank <= {most}:", f"    {outside}"]
        if d == most:
            lines += [f"if rank == {d}:", f"    return {_call(regular)}"]
        for p in range(d):
            if singular is not None and 0 in activation.jumps(singular.orders[p]):
                lines += [f"if K[{p}, {p}] == 0.0:", f"    {outside}"]
        lines.append(outside if singular is None else f"return {_call(singular)}")
        parts.append(_bracket_function(activation, shape, lines))
    return "\n\n".join(parts)


def _call(form: Shape) -> str:
    return f"{_nested_name(form.outer)}(order, B, rank, {printer.listing(map(str, form.orders))})"


def _nested_name(outer: tuple[int, ...]) -> str:
    return f"nested_{len(outer)}{_suffix((), outer)}"


def _nested_kinked(outer: tuple[int, ...], rate: float, powers: float) -> str:
    d = len(outer)
    active = [p for p, count in enumerate(outer) if count]
    levels, most = [], min(d, MAX_INPUTS)
    for j in range(most):
        after = [f"latent[{j}] = v{j}"] if j < most - 1 else []
        after += [f"u{p}_{j} = {f'u{p}_{j - 1} + ' if j else ''}M{p}{j} * v{j}" for p in active]
        rule = f"panels({j}, rank, B, latent, KINKS, SMOOTH, reach, width, nodes, weights)"
        levels.append(_Level(rule=[f"y{j}, w{j} = {rule}"], after=after))
    source, derivatives, summand = "", list[str](), f"p{most - 1}"
    if active:
        polynomial, u, Q = hermite.polynomial(outer)
        name = "hermite" + _suffix((), outer)
        doc = "Hermite's polynomial of u = M y and Q = M Mᵀ for the derivatives outside."
        source = printer.function(name, [*u, *Q.values()], polynomial, decorator="@scalar", doc=doc)
        derivatives.append("M = inverse(order, B, rank)")
        derivatives += [f"M{p}{j} = M[{p}, {j}]" for p in active for j in range(most)]
        for (p, q), symbol in Q.items():
            products = " + ".join(f"M{p}{j} * M{q}{j}" for j in range(most))
            derivatives.append(f"{symbol} = {products}")
        arguments = ", ".join([*(f"u{p}_{most - 1}" for p in active), *map(str, Q.values())])
        summand += f" * {name}({arguments})"
    nested = printer.filled(
        _KINKED,
        name=_nested_name(outer),
        d=d,
        outer=outer,
        farther=[*_beyond(most, powers), *_farther(rate, d)],
        derivatives=derivatives,
        loops=_loops(d, levels, summand),
    )
    return f"{source}\n\n{nested}" if source else nested


_KINKED = '''\
@quadrature
def $name(order, B, rank, orders):
    """The average of $d derivatives of σ, of these orders, over z = B y, y ~ N(0, 1),
    with $outer derivatives outside.
    """
    nodes, weights, reach, width = rule(rank)
    $farther
    latent = np.zeros($d)
    $derivatives
    $loops
    return total
'''


def _beyond(most: int, powers: float) -> list[str]:
    """The reach of integrands that grow too fast for that of the rule."""
    reaches = [quadrature.panel_reach(rank, powers) for rank in range(most + 1)]
    usual = [quadrature.PANELS[max(rank, 1) - 1].reach for rank in range(most + 1)]
    return [f"reach = {printer.listing(map(repr, reaches))}[rank]"] if reaches != usual else []


def _farther(rate: float, d: int) -> list[str]:
    """e^{rate Σ|z|} moves the Gaussian's weight by at most rate Σ|B|."""
    sizes = " + ".join(f"abs(B[{k}, {j}])" for k in range(d) for j in range(k + 1))
    return [f"reach = min(reach + {rate!r} * ({sizes}), 38.0)"] if rate else []


def _bracket_function(activation: Activation, shape: Shape, lines: Sequence[str]) -> str:
    return _function("@driver", f"{bracket_name(shape)}(K)", [_doc(activation, shape), *lines])


def _doc(activation: Activation, shape: Shape) -> str:
    return f'"""{describe(shape)}_K of {activation.name}, K the covariance of the positions."""'


def _function(decorator: str, signature: str, lines: Sequence[str]) -> str:
    head = [decorator] if decorator else []
    return "\n".join([*head, f"def {signature}:", *printer.indented(lines)]) + "\n"


def _suffix(orders: Sequence[int], outer: Sequence[int] = ()) -> str:
    by = "_by_" + "_".join(map(str, outer)) if any(outer) else ""
    return "".join(f"_{order}" for order in orders) + by
