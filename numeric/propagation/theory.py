"""Lengths, correlations and what deviates from them, as tables whose numbers know their errors.

The maps of `derive.propagation` in balls, layer by layer, and their fixed points, each a zero that
is proved; with guard digits until every number has its own. Without a precision the same balls to
20 digits, rounded to floats. With z ~ N(0, K) of two inputs

    q' = C_b + C_W ⟨σσ⟩_q,   q_12' = C_b + C_W ⟨σ_1 σ_2⟩,
    χ = C_W ⟨σ'σ'⟩_q,   χ_∥ = C_W ⟨(σσ)''⟩_q/2,   slope = C_W ⟨σ'_1 σ'_2⟩ .
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
import xarray
from flint import acb, arb, ctx, fmpq

from derive import propagation
from derive.activations.functions import Activation
from derive.arithmetic.balls import ball
from derive.citations import rests_on
from derive.engine.orbits import Exchangeable
from derive.engine.stages import DENSE
from derive.engine.trees import STREAM
from derive.errors import InputError, as_integer, as_sequence, instance
from derive.expressions import as_expression
from derive.network import Network, dense_network
from derive.propagation.steps import MAX_DEPTH, check_chi, kernel_of
from derive.work.caches import cache
from derive.work.progress import telling
from derive.work.resources import check_time

from ..layers.precise import dependence, geometry
from ..layers.precise.averages import Averages
from ..layers.precise.geometry import Rows
from ..layers.precise.recursions import Average
from ..layers.precise.run import decimal_of
from ..layers.precise.tables import LEAST, MOST
from ..spectra.precise import Vector, solve
from ..tables import layout
from .batches import fixed_batch, fixed_tokens

FLOATS = 20
"""Digits of balls that are rounded to floats."""

_GUARD, _LIMIT = 12, 400
"""Digits beyond those at first, and at most."""

Kernel: TypeAlias = "tuple[arb, arb, arb]"
"""(q_11, q_12, q_22)."""

INDEPENDENT: Rows = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))
"""Of two inputs whose correlation is not ±1."""

ALONE: Rows = ((Fraction(1),),)
"""Of one input."""

Columns = dict[str, list[arb | None]]
"""Balls by name; None for a number that is infinite."""


@rests_on("naitsaada2023")
def kernels(
    net: Network,
    kernel: Sequence[float],
    depth: int,
    *,
    precision: int | None = None,
) -> xarray.Dataset:
    """K by layer, given that of layer 1, with χ, χ_∥ and the correlation (001, eqs. 3, 5, 8, 9).

    Arguments:
        net: the network, with numbers for its variances.
        kernel: (q_11, q_12, q_22) of layer 1; floats are taken as they are.
        depth: layers of preactivations, counted from 1, at most 10⁴.
        precision: how many decimal digits every number has, 16 … 1000, in place of a float's.

    Returns:
        `K` by layer and samples, as `flow` has it; `correlation` q_12/√(q_11 q_22), unless a length
            is 0; and at the kernel of each layer, of the one after it, `chi`, `chi_parallel` of the
            first input and `slope` ∂q_12'/∂q_12. Beside each stands `<name>_error`. With a
            precision the numbers are `decimal.Decimal`s, and the errors bounds.

    Raises InputError for another kernel or depth, and for σ whose averages have no enclosure:
    `derive.propagation.kernels` has estimates for those.

    >>> from derive import Gaussian
    >>> table = kernels(Network("relu", Gaussian(2)), (1, 0, 1), depth=2, precision=20)
    >>> print(table["correlation"].to_numpy()[-1])  # 1/π
    0.31830988618379067154
    """
    depth = as_integer("depth", depth, 1, MAX_DEPTH)
    net = dense_network("net", net, depth + 1)
    for sigma in {net.activation_at(layer, depth + 1) for layer in range(1, depth + 1)}:
        check_chi(sigma)
    digits = FLOATS if precision is None else as_integer("precision", precision, LEAST, MOST)
    exact = [_exact(each) for each in as_sequence("kernel", kernel, "three numbers")]
    kernel_of([sympy.Rational(each.numerator, each.denominator) for each in exact])

    def run() -> Columns:
        return _layers(net, exact, depth)

    columns = _known(run, digits, f"following a kernel through {depth} layers")
    lengths = zip(columns.pop("q11"), columns.pop("q12"), columns.pop("q22"), strict=True)
    K = [each for q11, q12, q22 in lengths for each in (q11, q12, q12, q22)]
    columns = {"K": K, **columns}
    arrays: dict[str, xarray.Variable] = {}
    for name, values in columns.items():
        shape = (depth, 2, 2) if name == "K" else (depth,)
        axes = layout.axes(len(shape) - 1, single=False)
        arrays |= _variables(name, values, shape, axes, precision)
    about = {} if precision is None else {"precision": precision}
    return layout.dataset(arrays, range(1, depth + 1), about, net=net)


def _layers(net: Network, kernel: Sequence[Fraction], depth: int) -> Columns:
    """All numbers at every layer."""
    q11, q12, q22 = (arb(fmpq(each.numerator, each.denominator)) for each in kernel)
    rows = _first_rows(kernel)
    lengths = any(each == 0 for each in (kernel[0], kernel[2]))
    found: Columns = {name: [] for name in ("q11", "q12", "q22")}
    found |= {name: [] for name in ("correlation", "chi", "chi_parallel", "slope")}
    for layer in range(2, depth + 2):
        maps = _maps(net, layer, depth + 1)
        alone = [
            maps.on_line(q, zero=not any(row)) for q, row in zip((q11, q22), rows, strict=True)
        ]
        moved, slope = maps.on_plane((q11, q12, q22), rows)
        for name, value in (("q11", q11), ("q12", q12), ("q22", q22), ("slope", slope)):
            found[name].append(value)
        found["chi"].append(alone[0].chi)
        found["chi_parallel"].append(alone[0].chi_parallel)
        lengths = lengths or not all(map(any, rows))
        if not lengths:
            found["correlation"].append(_correlation((q11, q12, q22), rows))
        given = DENSE, {STREAM: rows}, maps.activation
        live = bool(net.C_b_at(layer) != 0)
        rows = dependence.behind(*given, biases=live, weights=True)[STREAM]
        ratio = geometry.proportional(rows, 0, 1)
        q11, q12, q22 = alone[0].length, moved, alone[1].length
        if ratio is not None:
            q12, q22 = ball(ratio) * q11, ball(ratio) ** 2 * q11
    if lengths:
        del found["correlation"]
    return found


def _correlation(kernel: Kernel, rows: Rows) -> arb:
    ratio = geometry.proportional(rows, 0, 1)
    if ratio is not None:
        return arb(1 if ratio > 0 else -1)
    q11, q12, q22 = kernel
    return q12 / (q11 * q22).sqrt()


def _first_rows(kernel: Sequence[Fraction]) -> Rows:
    """How the inputs depend on each other."""
    q11, q12, q22 = kernel
    one, none = Fraction(1), Fraction(0)
    if q12**2 < q11 * q22:
        return INDEPENDENT
    if q12**2 > q11 * q22:
        raise InputError("kernel", tuple(map(float, kernel)), "a positive semidefinite kernel")
    if not q11:
        return ((none,), (one,) if q22 else (none,))
    return ((one,), (q12 / q11,))


def _maps(net: Network, layer: int, depth: int) -> Maps:
    return Maps(
        net.activation_at(layer - 1, depth),
        ball(sympy.sympify(net.weights_at(layer, depth=depth).C_W)),
        ball(sympy.sympify(net.C_b_at(layer))),
    )


@rests_on("naitsaada2023")
def fixed_points(
    net: Network, inputs: Exchangeable | None = None, *, precision: int | None = None
) -> xarray.Dataset:
    """Every fixed length with what is linear around it, by `point`, ascending (001, §2).

    Arguments:
        net: the network, alike at every layer.
        inputs: a batch, for the fixed point (q*, p*) that it flows to, in any layer, such as
            `layers.batchnorm` or `layers.transformer`. Its q and p are where the flow begins; with
            a function of all samples its size counts.
        precision: how many decimal digits every number has, 16 … 1000, in place of a float's.

    Returns:
        `q`, `chi`, `chi_parallel`, `c`, `slope`, `xi_q`, `xi_c` and `xi_grad`, those of
        `derive.propagation.FixedPoint`, which finds them; not a number where c* moves at no
        exponential rate, at q* = 0. Beside each stands `<name>_error`. With a precision the
        numbers are `decimal.Decimal`s of balls in which one zero is proved to lie, and the
        errors bounds.
        With a batch, `K` with an axis `orbit`: q* at "(11)" and p* at "(12)". `kernel_rate` are the
        eigenvalues of the Jacobian of (q, p) ↦ (q', p') there, the largest first. `gradient_rate`
        are those of the map of Θ: the mean square of a gradient grows by the largest in each layer.
        `V_rate` is the largest eigenvalue of the map of V. `G1` and `V` are their limits; they are
        left out where a rate of 1 or more lets them grow forever.
        With the tokens of one sequence, in layers of attention, `K` and `kernel_rate`; with
        scores over d and q* > p* also `V_rate` and `V`. Where tokens become equal, p* = q*, and
        `difference_rate` is the factor by which q − p falls in a layer.

    Raises InputError with a precision where every q is fixed, for χ = 1 that is not exact, and for
    σ whose averages have no enclosure; with a batch for a precision, for layers that differ, and
    where K comes to no rest, at q* > p* but for tokens.

    >>> from derive import Exchangeable, Gaussian
    >>> table = fixed_points(Network("relu", Gaussian(C_W=1), C_b="1/10"), precision=20)
    >>> print(table["q"].to_numpy()[0], table["xi_q"].to_numpy()[0])
    0.20000000000000000000 1.4426950408889634074
    >>> table = fixed_points(Network("linear", layer="batchnorm"), Exchangeable(8, 1, 0.5))
    >>> table["gradient_rate"].to_numpy()[0].round(9)  # 6/5
    np.float64(1.2)
    """
    if inputs is not None:
        if precision is not None:
            raise InputError("precision", precision, "None, for a batch")
        instance("net", net, Network, "a derive.Network")
        instance("inputs", inputs, Exchangeable, "a derive.Exchangeable")
        return fixed_tokens(net, inputs) if net.layer.input_axes else fixed_batch(net, inputs)
    found = propagation.fixed_points(net)
    if precision is None:
        return _points(
            {
                name: (
                    np.array([_number(getattr(point, name)) for point in found]),
                    np.array([getattr(point.errors, name) for point in found]),
                )
                for name in propagation.FixedPointErrors._fields
            },
            {},
        )
    digits = as_integer("precision", precision, LEAST, MOST)
    if any(point.is_line for point in found):
        raise InputError("net", str(net), "isolated fixed lengths, with a precision")

    def run() -> Columns:
        rows = [_described(net, point) for point in found]
        return {name: [row[name] for row in rows] for name in propagation.FixedPointErrors._fields}

    columns = _known(run, digits, "fixed lengths") if found else {}
    return _points(
        {name: _decimals(values, digits) for name, values in columns.items()},
        {"precision": digits},
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _described(net: Network, point: propagation.FixedPoint) -> dict[str, arb | None]:
    """The numbers of one fixed point, in balls; nan for what it has not."""
    maps, none = _maps(dense_network("net", net, 2), 2, 2), arb("nan")
    if point.q == 0:
        around = maps.on_line(arb(0), zero=True)
        grows = _scale(around.chi)
        return {
            "q": arb(0), "chi": around.chi, "chi_parallel": around.chi_parallel, "c": none,
            "slope": none, "xi_q": _scale(around.chi_parallel), "xi_c": None, "xi_grad": grows,
        }  # fmt: skip

    def excess(q: arb) -> tuple[arb, arb]:
        on_line = maps.on_line(q)
        return on_line.length - q, on_line.chi_parallel - 1

    q = root(excess, arb(float(point.q)), str(net))
    around = maps.on_line(q)
    c, slope = _attracting(maps, q, around.chi, point)
    return {
        "q": q, "chi": around.chi, "chi_parallel": around.chi_parallel, "c": c, "slope": slope,
        "xi_q": _scale(around.chi_parallel), "xi_c": _scale(slope), "xi_grad": _scale(around.chi),
    }  # fmt: skip


def _attracting(maps: Maps, q: arb, chi: arb, point: propagation.FixedPoint) -> tuple[arb, arb]:
    """c* and the slope there: 1 and χ unless χ > 1."""
    if not chi > 1:
        if not chi <= 1:
            raise InputError("net", "χ = 1 to all digits", "a χ off 1, with a precision")
        return arb(1), chi
    if maps.activation.is_odd and maps.C_b.is_zero():
        return arb(0), maps.on_plane((q, arb(0), q), INDEPENDENT)[1]

    def excess(c: arb) -> tuple[arb, arb]:
        moved, slope = maps.on_plane((q, c * q, q), INDEPENDENT)
        return moved / q - c, slope - 1

    c = root(excess, arb(_number(point.c)), f"c* near {point.c}")
    if not c < 1:
        raise InputError("net", f"c* near {point.c}", "a c* off 1, with a precision")
    return c, maps.on_plane((q, c * q, q), INDEPENDENT)[1]


def _scale(factor: arb) -> arb | None:
    """−1/log|factor|; None for ∞."""
    if factor.is_zero():
        return arb(0)
    if abs(factor) == 1:
        return None
    return -1 / abs(factor).log()


def _known(run: Callable[[], Columns], digits: int, what: str) -> Columns:
    """The balls, with guard digits until each has its own, or is zero to twenty more."""
    guard = _GUARD
    while guard <= _LIMIT:
        working = digits + guard
        with (
            ctx.workprec(math.ceil(working * math.log2(10.0)) + 32),
            telling(f"{what} with {working} digits"),
        ):
            found = run()
        missing = max(
            (_missing(value, digits) for each in found.values() for value in each), default=0.0
        )
        if missing <= 0:
            return found
        guard += math.ceil(missing) + 2 if math.isfinite(missing) else guard
    raise InputError("precision", digits, "numbers that do not lose all of their digits")


def _missing(value: arb | None, digits: int) -> float:
    """How many digits of a ball are not there."""
    if value is None or value.is_zero() or value.is_nan():
        return 0.0
    if not value.is_finite():
        return math.inf
    size = abs(value).lower()
    if value.rad() <= arb(10) ** -(digits + 20) or value.rad().is_zero():
        return 0.0
    if not size > 0:
        return math.inf
    return float((value.rad() / size).log() / arb(10).log()) + digits + 1


def _decimals(values: Sequence[arb | None], digits: int) -> tuple[Any, Any]:
    """Rounded, with bounds of how far that is from all in the balls."""
    rows: list[tuple[Decimal, float]] = []
    for value in values:
        if value is None:
            rows.append((Decimal("Infinity"), 0.0))
        elif value.is_nan():
            rows.append((Decimal("NaN"), 0.0))
        else:
            with ctx.workprec(math.ceil((digits + _LIMIT) * 3.33)):
                rows.append(decimal_of(value, digits))
    return np.array([row[0] for row in rows], object), np.array([row[1] for row in rows])


def _floats(values: Sequence[arb | None]) -> tuple[Any, Any]:
    """The nearest floats, and how far those are from all in the balls."""
    found, errors = [], []
    for value in values:
        number = math.inf if value is None else float(value.mid())
        off = arb(0) if value is None or not math.isfinite(number) else abs(value - arb(number))
        found.append(number)
        errors.append(float(off.upper()))
    return np.array(found), np.array(errors)


def _variables(
    name: str,
    values: Sequence[arb | None],
    shape: tuple[int, ...],
    axes: Sequence[str],
    precision: int | None,
) -> dict[str, xarray.Variable]:
    found, errors = _floats(values) if precision is None else _decimals(values, precision)
    about = {"long_name": _MEANINGS[name]}
    return {
        name: xarray.Variable(axes, found.reshape(shape), about),
        f"{name}_error": xarray.Variable(axes, errors.reshape(shape)),
    }


_MEANINGS: Mapping[str, str] = {
    "K": "covariance of the preactivations",
    "q": "fixed length q*",
    "c": "correlation c* that attracts",
    "correlation": "correlation of the preactivations",
    "chi": "χ, by which a layer multiplies squared gradients",
    "chi_parallel": "χ_∥, derivative of the length map",
    "slope": "derivative of the covariance map",
    "xi_q": "depth scale of lengths",
    "xi_c": "depth scale of correlations",
    "xi_grad": "depth scale of gradients",
}


def _points(pairs: Mapping[str, tuple[Any, Any]], about: dict[str, Any]) -> xarray.Dataset:
    arrays: dict[str, xarray.Variable] = {}
    for name, (values, errors) in pairs.items():
        arrays[name] = xarray.Variable("point", values, {"long_name": _MEANINGS[name]})
        arrays[f"{name}_error"] = xarray.Variable("point", errors)
    return xarray.Dataset(arrays, attrs=about)


def _exact(value: object) -> Fraction:
    """A number of the kernel as a fraction."""
    if isinstance(value, Decimal) and value.is_finite():
        return Fraction(value)
    number = as_expression("kernel", value, "a rational number")
    if not (number.is_Rational or number.is_Float):
        raise InputError("kernel", value, "rational numbers")
    exact = sympy.Rational(number)
    return Fraction(int(exact.p), int(exact.q))


class OnLine(NamedTuple):
    """q', χ and χ_∥ at a length."""

    length: arb
    chi: arb
    chi_parallel: arb


class Maps(NamedTuple):
    """One layer's maps.

    Attributes:
        activation: σ.
        C_W, C_b: the variances.
    """

    activation: Activation
    C_W: arb
    C_b: arb

    def on_line(self, q: arb, *, zero: bool = False) -> OnLine:
        """At the length q, which is known to be zero or not.

        Raises InputError for σ whose averages have no enclosure.
        """
        rows: Rows = ((Fraction(0),),) if zero else ALONE
        values = _one(self.activation)([[q]], rows, _goal(), _affordable)
        square, slopes, bends = values
        bent = bends / 2 if not self.activation.is_smooth else bends + slopes
        return OnLine(self.C_b + self.C_W * square, self.C_W * slopes, self.C_W * bent)

    def on_plane(self, kernel: Kernel, rows: Rows) -> tuple[arb, arb]:
        """q_12' and the slope at a kernel, whose inputs depend on each other as the rows do.

        Raises InputError as `on_line` does.
        """
        q11, q12, q22 = kernel
        if q12.is_zero() and self.activation.is_odd:  # the product of two averages of σ
            _, slopes = _two(self.activation)([[q11, q12], [q12, q22]], rows, _goal(), _affordable)
            return self.C_b, self.C_W * slopes
        averages = _two(self.activation)
        product, slopes = averages([[q11, q12], [q12, q22]], rows, _goal(), _affordable)
        return self.C_b + self.C_W * product, self.C_W * slopes


@cache
def _one(activation: Activation) -> Averages:
    """⟨σσ⟩, ⟨σ'σ'⟩, and ⟨σσ''⟩ or, with kinks, ⟨(σσ)''⟩."""
    bent = ((0, 2), 0) if activation.is_smooth else ((0, 0), 2)
    groups = (((0, 0), 0), ((1, 1), 0), bent)
    return Averages(activation, [((0, group),) for group in groups])


@cache
def _two(activation: Activation) -> Averages:
    wanted: list[Average] = [((0, ((n,), 0)), (1, ((n,), 0))) for n in (0, 1)]
    return Averages(activation, wanted)


def _goal() -> float:
    return ctx.prec * math.log(2.0)


def _affordable(seconds: float) -> None:
    """Refuse an average that takes longer than a day."""
    check_time("precision", ctx.prec, seconds, "a Gaussian average of two inputs")


def root(function: Callable[[arb], tuple[arb, arb]], near: arb, what: str) -> arb:
    """A ball that is proved to hold exactly one zero next to `near`.

    Arguments:
        function: of a ball, its values and its derivatives there.

    Raises InputError where there is no proof.
    """

    def system(at: Vector) -> tuple[Vector, list[Vector]]:
        value, slope = function(at[0].real)
        return [acb(value)], [[acb(slope)]]

    found = solve(system, [acb(near)], real=True)
    if found is None:
        raise InputError("net", what, "fixed points that are simple zeros, with a precision")
    return found[0].real
