"""Finite width without truncation: what the 1/n expansion must reproduce, where it can be had.

* Polynomial activations: each layer without a norm is a finite polynomial in the one below, so that
  the joint cumulants of z, the NTK and its kin are rational functions of n (`cumulant`,
  `component`), whose expansion in 1/n is exact order by order (`series`). Computed by
  `derive.exact.moments`.
* Scale-invariant activations with one input and no biases, at every layer: rotation invariance and
  homogeneity give, for the 2m-point coefficient G_{2m} (source 000, eq. 4.14),

      G_{2m}^{(ℓ+1)} = C_W^m Σ_q C(p,q) [Σ_{set partitions} n(n−1)… Π ⟨σ^{2|block|}⟩_1] G_{2m}^{(ℓ)}

  (`moment_factor`, `vertex`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import sympy

from .. import symbols
from ..activations.functions import Activation
from ..arithmetic.parameters import R_BIG, R_IN, R_OUT, Parameter
from ..arithmetic.polynomials import Expansion, Monomial, add, constant
from ..arithmetic.polynomials import multiply as truncated_product
from ..citations import rests_on
from ..engine.atoms import read
from ..engine.fields import AnyField, Placed, Z, slots_of
from ..engine.step import checked_fields, step
from ..engine.tensors import Name, spell, tensor
from ..errors import InputError, as_integer, as_sequence, instance
from ..expressions import as_expression, as_width, parse_number
from ..gaussian.brackets import Component
from ..groups.pairings import Blocks, refinements
from ..groups.weingarten import MOST_PAIRS, class_size
from ..groups.zonal import partitions, set_partition_count
from ..network import Network, dense_network
from ..symbols import n
from ..weights import WeightEnsemble
from .matrices import Spectrum
from .moments import Moments, joint_cumulant
from .values import exact_value, multiply, raised

MAX_LAYER = 1000
"""Of an exact moment: its size grows with the layer."""

InputKernel: TypeAlias = (
    Mapping[tuple[int, int], sympy.Expr | float] | Mapping[tuple[int, ...], sympy.Expr | float]
)
"""K0_{αβ} = x_α·x_β/n_0 for each pair of samples, and the means of products of four inputs and more
where layer 1 depends on them."""


def row_sum(weights: WeightEnsemble, k: int, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """Σ_q C(p,q)/C_W^k, the same for every p: 1/[n(n+2)…(n+2k−2)] for square Haar matrices.

    It takes E[z_{i_1} … z_{i_2k}] of one input through the weights (source 000, eqs. 4.13–4.17).

    Arguments:
        weights: a `WeightEnsemble`.
        k: pairs of factors.
        n_in, n_out: the widths that W joins, positive integers or expressions.

    Raises InputError for other arguments.

    >>> from derive import Gaussian, Orthogonal
    >>> row_sum(Orthogonal(), 2, n, n), row_sum(Gaussian(), 2, n, n)
    (1/(n*(n + 2)), n**(-2))
    """
    instance("weights", weights, WeightEnsemble, "a weight ensemble such as Orthogonal()")
    k = as_integer("k", k, 0, MOST_PAIRS, f"a number of pairs, 0 to {MOST_PAIRS}")
    n_in, n_out = as_width("n_in", n_in), as_width("n_out", n_out)
    return sympy.factor(
        sum(class_size(mu) * weights.coefficient(mu, n_in, n_out) for mu in partitions(k))
    )


@rests_on("day2025")
def moment_factor(
    m: int, activation: Activation, weights: WeightEnsemble, width: sympy.Expr = n
) -> sympy.Expr:
    """G_{2m}^{(ℓ+1)}/(C_W^m G_{2m}^{(ℓ)}), scale-invariant with one input and no biases.

    Arguments:
        m: half the number of points, 1 or more.
        activation: a scale-invariant `Activation`, such as activations.relu.
        weights: the ensemble into layer ℓ+1.
        width: n of both layers, a positive integer or an expression.

    Exact in the width. For the linear network: 1 with Haar weights (source 000, eq. 4.16),
    c_{2m}(n) with Gaussian ones (4.24); for others derived here. Raises InputError for an
    activation that is not scale-invariant.

    >>> from derive import Gaussian, activations
    >>> moment_factor(2, activations.linear, Gaussian())
    (n + 2)/n
    >>> moment_factor(2, activations.relu, Gaussian())
    (n + 5)/(4*n)
    """
    instance("activation", activation, Activation, "an activation such as activations.relu")
    width = as_width("width", width)
    if not activation.is_scale_invariant:
        raise InputError("activation", activation.name, "a scale-invariant one, such as relu")
    m = as_integer("m", m, 1, MOST_PAIRS, f"half the number of points, 1 to {MOST_PAIRS}")
    total = sum(
        set_partition_count(mu)
        * sympy.ff(width, len(mu))
        * sympy.prod([activation.average((0,) * (2 * size), 1) for size in mu])
        for mu in partitions(m)
    )
    return sympy.factor(row_sum(weights, m, width, width) * sympy.expand_func(total))


def scale_invariant_moment(
    m: int, network: Network, layer: int, width: sympy.Expr = n, inputs: sympy.Expr | None = None
) -> sympy.Expr:
    """G_{2m}^{(ℓ)}/K0^m with K0 = |x|²/n_0, exact in the width.

    G_{2m} is the coefficient of every δ_p in E[z_{i_1} … z_{i_2m}] of one input (source 000, eq.
    4.14, and 4.24 for the linear network); for other activations derived here.

    Arguments:
        m: half the number of points, 1 or more.
        network: without biases, with a scale-invariant activation.
        layer: 1, 2, …
        width: n of every layer, a positive integer or an expression.
        inputs: n_0, equal to the width where it is left out.

    Raises InputError for biases, or an activation that is not scale-invariant.

    >>> from derive import Gaussian
    >>> scale_invariant_moment(2, Network("relu", Gaussian(C_W=2)), layer=2)
    4*(n + 5)/n
    """
    m = as_integer("m", m, 1, MOST_PAIRS, f"half the number of points, 1 to {MOST_PAIRS}")
    layer = _layer(layer)
    width, network = as_width("width", width), dense_network("network", network, layer)
    if any(network.C_b_at(at) != 0 for at in range(1, layer + 1)):
        raise InputError("C_b", network.C_b, "0: biases break scale invariance")
    n_0 = width if inputs is None else as_width("inputs", inputs)
    first = network.weights_at(1, depth=layer)
    start = (first.C_W * n_0) ** m * row_sum(first, m, n_0, width)
    for at in range(2, layer + 1):
        hidden = network.weights_at(at, depth=layer)
        sigma = network.activation_at(at - 1, layer)
        start = start * hidden.C_W**m * moment_factor(m, sigma, hidden, width)
    return start


def vertex(
    network: Network, layer: int, width: sympy.Expr = n, inputs: sympy.Expr | None = None
) -> sympy.Expr:
    """V^{(ℓ)}/G_2² = width·(G_4/G_2² − 1) of a scale-invariant network, exact in the width.

    Its limit at large width is Ṽ of source 000, eqs. (3.9), (5.19).

    Arguments:
        network: without biases, with a scale-invariant activation; one input.
        layer: 1, 2, …
        width: n of every layer, a positive integer or an expression.
        inputs: n_0, equal to the width where it is left out.

    Raises InputError for other networks.

    >>> from derive import Gaussian
    >>> sympy.factor(vertex(Network("linear", Gaussian()), layer=3))
    4*(n + 1)/n
    """
    four, two = (scale_invariant_moment(m, network, layer, width, inputs) for m in (2, 1))
    return width * (four / two**2 - 1)


def cumulant(
    name: str | Sequence[str | AnyField],
    network: Network,
    layer: int,
    samples: Sequence[int] | None = None,
    width: sympy.Expr = n,
    inputs: sympy.Expr | None = None,
    *,
    pairing: Blocks | None = None,
    kernel: InputKernel | None = None,
) -> sympy.Expr:
    """n^{m−1} × the coefficient of δ_p(i) in the joint cumulant of 2m neural indices, exact in n.

    Arguments:
        name: a tensor, "K", "V", "Theta", "A", …, whose leading order in 1/n gives it its name; or
            a list of fields, ["z", "z", "H"].
        network: with polynomial activations, and layers of polynomials: no norms.
        layer: 1, 2, …; what is feasible falls fast with the layer and the degree.
        samples: the subscripts; one input where they are left out. Of signals with P positions,
            the sample αP + p is the signal α at the position p.
        width: the reference width n, a symbol or an integer of at least m.
        inputs: n_0, equal to the width where it is left out.
        pairing: for a list of fields, the pairing p of their neural indices, or an even set
            partition.
        kernel: K0_{αβ} = x_α·x_β/n_0 for the pairs of samples; a symbol where it is left out. Where
            rotations do not keep the law of layer 1, as that of independent weights, also the
            means K0_{αβγδ} = Σ_j x_{jα} x_{jβ} x_{jγ} x_{jδ}/n_0 of four samples and more.

    Returns a rational function of the width, of the parameters that are symbols, and of K0: the
    symbol `K0`, or Component("K0", (a, b)) with several samples, where it is left as a polynomial
    in them with factored coefficients. The symbols of means of four and more are those of
    `recursion(…, first_layer=True)`, "kappa(z,z,z,z|0123)0". Derived here.

    Raises:
        InputError: an equation that is not a polynomial, more moments of the weights than their
            law has, or more to sum than finishes.

    >>> from derive import Orthogonal
    >>> cumulant("V", Network("linear", Orthogonal()), layer=2)
    -2*K0**2*n/(n + 2)
    >>> cumulant("V", Network("linear", layer="residual(skip=1/2)"), layer=2)
    K0**2*(5*n + 4)/n
    """
    target, labels = _target(name, pairing, samples)
    pairs = target.pairs
    moments = _moments(network, layer, labels, width, inputs, kernel)
    if moments.n_out.is_number and moments.n_out < pairs:
        raise InputError("width", width, f"at least {pairs}, the number of index pairs")
    value = _coefficient_of(moments, target.fields, target.pairing, labels)
    return _rational(multiply(value, constant(1, 1 - pairs)), moments)


def component(
    fields: Sequence[str | AnyField],
    neurons: Sequence[int],
    network: Network,
    layer: int,
    samples: Sequence[int] | None = None,
    width: sympy.Expr = n,
    inputs: sympy.Expr | None = None,
    *,
    kernel: InputKernel | None = None,
) -> sympy.Expr:
    """The joint cumulant κ(φ_1, φ_2, …) at these neural indices, exact at any width. Derived here.

    Arguments:
        fields: z, H, dH, … by name, or as a `Field` or an `Equation`.
        neurons: the neural index of each node of each field in turn; only which are equal counts.
        network, layer: as in `cumulant`.
        samples: the sample of each node; one input where they are left out.
        width, inputs, kernel: as in `cumulant`; here an integer width may be as small as the
            number of different neural indices.

    No power of n is taken out. Raises InputError as `cumulant` does, and for more different indices
    than neurons.

    >>> component(["z", "z", "z", "z"], [1, 1, 2, 2], Network("linear"), layer=2)
    2*K0**2/n
    """
    chosen = checked_fields(fields)
    nodes = sum(field.nodes for field in chosen)
    indices = _labels("neurons", neurons, nodes)
    labels = (1,) * nodes if samples is None else _labels("samples", samples, nodes)
    moments = _moments(network, layer, labels, width, inputs, kernel)
    if moments.n_out.is_number and moments.n_out < len(set(indices)):
        raise InputError("neurons", neurons, f"at most {moments.n_out} different indices")
    return _rational(joint_cumulant(moments, _placed(chosen, indices, labels)), moments)


def series(
    name: str | Sequence[str | AnyField],
    network: Network,
    layer: int,
    order: int,
    samples: Sequence[int] | None = None,
    *,
    inputs_ratio: sympy.Expr | float = 1,
    pairing: Blocks | None = None,
    kernel: InputKernel | None = None,
) -> tuple[sympy.Expr, ...]:
    """`cumulant`'s coefficients of n^0, n^{-1}, … n^{-order}, without summing it first.

    The engine's expansion, to any order, by another road. Derived here.

    Arguments:
        name, network, layer, samples, pairing, kernel: as in `cumulant`.
        order: the last order in 1/n.
        inputs_ratio: n_0/n. This and the network's width ratios are rational numbers.

    Raises InputError as `cumulant` does, and for a ratio that is not rational.

    >>> series("V", Network("linear"), layer=3, order=2)
    (4*K0**2, 4*K0**2, 0)
    """
    order = as_integer("order", order, 0, wanted="a relative order in 1/n, 0 or more")
    target, labels = _target(name, pairing, samples)
    ratio = parse_number("inputs_ratio", inputs_ratio)
    if not ratio.is_Rational:
        raise InputError("inputs_ratio", ratio, "a rational number")
    moments = _moments(network, layer, labels, n, ratio * n, kernel)
    for matrix in moments.matrices:
        for size in (matrix.n_in, matrix.n_out):
            if not sympy.cancel(size / n).is_Rational:
                raise InputError("width_ratio", size / n, "a rational number")
    value = _coefficient_of(moments, target.fields, target.pairing, labels)
    expanded = _expanded(value, moments, target.pairs - 1 + order)
    coefficients = [sympy.Integer(0)] * (order + 1)
    for (mono, at), number in expanded.items():
        relative = at - (target.pairs - 1)
        if relative < 0:
            raise ArithmeticError(f"the cumulant of {name} has a term n^-{at}, too early")
        if relative > order:
            continue
        factors = (_atom(atom, moments) ** exponent for atom, exponent in mono)
        coefficients[relative] += sympy.Mul(
            sympy.Rational(number.numerator, number.denominator), *factors
        )
    return tuple(coefficients)


def _target(
    name: str | Sequence[str | AnyField], pairing: Blocks | None, samples: Sequence[int] | None
) -> tuple[Name, tuple[int, ...]]:
    """The cumulant that is asked for, and the sample of each of its slots."""
    target = step(name, pairing=pairing).target
    if target.order:
        wanted = "the name of a leading order, such as K for G1: the exact value holds every order"
        raise InputError("name", name, wanted)
    count = len(target.subscripts)
    given = (1,) * count if samples is None else _labels("samples", samples, count)
    slots = dict(zip(target.subscripts, given, strict=True))
    return target, tuple(slots[slot] for slot in range(len(slots)))


def _layer(layer: int) -> int:
    return as_integer("layer", layer, 1, MAX_LAYER, f"a layer, 1 to {MAX_LAYER}")


def _labels(argument: str, given: Sequence[int], count: int) -> tuple[int, ...]:
    wanted = f"{count} labels, integers"
    labels = tuple(
        as_integer(argument, each, wanted=wanted) for each in as_sequence(argument, given, wanted)
    )
    if len(labels) != count:
        raise InputError(argument, given, wanted)
    return labels


def _coefficient_of(
    moments: Moments, fields: Sequence[AnyField], blocks: Blocks, labels: Sequence[int]
) -> Expansion:
    """The coefficient of δ_p: the cumulant at the indices of p, less those of what refines p."""
    total: Expansion = {}
    for finer, weight in refinements(blocks):
        placed = _placed(fields, _neurons(finer), labels)
        add(total, joint_cumulant(moments, placed), weight)
    return total


def _neurons(pairing: Blocks) -> tuple[int, ...]:
    """A different neural index for each pair: there δ_p alone is not zero."""
    index = {slot: number for number, pair in enumerate(pairing) for slot in pair}
    return tuple(index[slot] for slot in range(len(index)))


def _placed(
    fields: Sequence[AnyField], neurons: Sequence[int], samples: Sequence[int]
) -> tuple[Placed, ...]:
    return tuple(
        Placed(field, tuple(neurons[s] for s in slots), tuple(samples[s] for s in slots))
        for field, slots in zip(fields, slots_of(fields), strict=True)
    )


def _moments(
    network: Network,
    layer: int,
    labels: Sequence[int],
    width: sympy.Expr,
    inputs: sympy.Expr | None,
    kernel: InputKernel | None,
) -> Moments:
    layer = _layer(layer)
    instance("network", network, Network, "a derive.Network")
    values: dict[tuple[int, ...], sympy.Expr | float] = {}
    if kernel is not None:
        instance("kernel", kernel, Mapping, "a mapping from pairs of samples to numbers")
        values = {tuple(sorted(samples)): value for samples, value in kernel.items()}

    def mean(*samples: int) -> sympy.Expr:
        if kernel is None:
            name = "K0" if len(samples) == 2 else _mean_name(len(samples))
            return symbols.tensor(name) if len(distinct) == 1 else Component(name, samples)
        if samples not in values:
            raise InputError("kernel", kernel, f"a value for the samples {samples}")
        return as_expression("kernel", values[samples], "numbers, or expressions with symbols")

    width = as_width("width", width)
    n_0 = width if inputs is None else as_width("inputs", inputs)
    made = Moments(network, layer, width, n_0, mean)
    distinct = made.read(labels)
    return made


def _mean_name(samples: int) -> str:
    """Of the mean of a product of so many inputs, as `recursion(…, first_layer=True)` has it."""
    block = tuple(range(samples))
    return f"{spell(tensor((Z,) * samples, 0, (block,), block))[0]}0"


def _rational(value: Expansion, moments: Moments) -> sympy.Expr:
    """The polynomial with n put in: for each product of parameters a rational function of n."""
    spectra = {atom for mono, _ in value for atom, _ in mono if isinstance(atom, Spectrum)}
    exprs = [moments.matrices[atom.matrix].value(atom.cosets) for atom in spectra]
    field, elements = sympy.construct_domain([moments.width, *exprs], field=True)
    width, *own = elements
    values = dict(zip(spectra, own, strict=True))
    parts: dict[Monomial, Any] = {}
    for (mono, at), number in value.items():
        spectral, rest = _split(mono)
        term = field.from_sympy(sympy.Rational(number.numerator, number.denominator)) * width**-at
        term *= prod(values[atom] ** exponent for atom, exponent in spectral)
        parts[rest] = parts.get(rest, field.zero) + term
    total = sympy.Integer(0)
    for rest, part in parts.items():
        scale = sympy.Mul(*(_atom(atom, moments) ** exponent for atom, exponent in rest))
        total += scale * sympy.factor(field.to_sympy(part))
    return total if total.has(Component) else sympy.factor(total)


def _split(mono: Monomial) -> tuple[frozenset[tuple[Spectrum, int]], Monomial]:
    """The atoms that stand for the weights' pairing matrices, and the others."""
    spectral = frozenset((atom, e) for atom, e in mono if isinstance(atom, Spectrum))
    return spectral, mono - spectral


def _expanded(value: Expansion, moments: Moments, order: int) -> Expansion:
    """The polynomial through n^{-order}, with the weights' pairing matrices expanded in 1/n."""
    first = min((at for _, at in value), default=0)
    total: Expansion = {}
    grouped: dict[frozenset[tuple[Spectrum, int]], Expansion] = {}
    for (mono, at), number in value.items():
        spectral, rest = _split(mono)
        add(grouped.setdefault(spectral, {}), {(rest, at): number})
    atoms = {atom for spectral in grouped for atom, _ in spectral}
    spectra = {atom: _spectrum_series(atom, moments, order - first) for atom in atoms}
    for spectral, polynomial in grouped.items():
        expanded = polynomial
        for atom, exponent in spectral:
            for _ in range(exponent):
                expanded = truncated_product(expanded, spectra[atom], order)
        add(total, expanded)
    return total


def _spectrum_series(spectrum: Spectrum, moments: Moments, order: int) -> Expansion:
    matrix = moments.matrices[spectrum.matrix]
    r_in, r_out = (sympy.cancel(size / n) for size in (matrix.n_in, matrix.n_out))
    square = r_in == r_out == 1
    ratios = {R_IN: r_in, R_OUT: r_out, R_BIG: max(r_in, r_out)}
    total: Expansion = {}
    for (mono, at), number in matrix.series(spectrum.cosets, order, square).items():
        rest = frozenset((atom, e) for atom, e in mono if atom not in ratios)
        term: Expansion = {(rest, at): number}
        for atom, exponent in mono:
            if atom in ratios:
                term = multiply(term, raised(exact_value(ratios[atom]), exponent))
        add(total, term)
    return total


def _atom(atom: object, moments: Moments) -> sympy.Expr:
    """An atom in sympy: it is one already, or a parameter of the weights."""

    def symbol(parameter: Parameter) -> sympy.Expr:
        found = set().union(*(matrix.weights.free_symbols for matrix in moments.matrices))
        return next(symbol for symbol in found if symbol.name == parameter.name)

    return read(atom, parameter=symbol, other=lambda known: known)
