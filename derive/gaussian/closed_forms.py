"""Closed forms of Gaussian averages ⟨Π σ^{(o)}⟩_K, by integration by parts.

One algorithm serves polynomials, exponentials, sines and error functions in any number of
variables: a term is Π z_i^{k_i} · e^{Q(z)} · Π erf(ℓ(z)) with Q quadratic and ℓ affine. The
exponential makes the Gaussian another Gaussian, Stein's identity

    ⟨z_i F⟩ = m_i ⟨F⟩ + Σ_j S_ij ⟨∂_j F⟩,        z ~ N(m, S),

removes one power after the other (∂erf is again an exponential), and what remains is ⟨1⟩, ⟨erf⟩ or
⟨erf erf⟩, the arcsine law. Pieces between kinks are truncated Gaussian moments, by the same
identity with its boundary terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sympy

from ..arithmetic.hermite import by_parts
from ..errors import InputError
from ..symbols import K11, K12, K22, K, z
from ..work.caches import cache
from .pieces import Pieces

K_PAIR = (K11, K12, K22)
_FIRST, _SECOND = sympy.symbols("z_1 z_2", real=True)


class _Term(NamedTuple):
    """coefficient · Π z_i^{powers_i} · e^{exponent} · Π erf(arguments)."""

    coefficient: sympy.Expr
    powers: tuple[int, ...]
    exponent: sympy.Expr
    erfs: tuple[sympy.Expr, ...]


def average(
    activation: Pieces, orders: Sequence[int], outer: int = 0, at: sympy.Expr = K
) -> sympy.Expr | None:
    """⟨∂_z^outer Π_p σ^{(orders_p)}(z)⟩ at the variance `at`, or None without a closed form.

    Raises InputError as `deltas` does.
    """
    found = single(activation, tuple(sorted(orders)), outer)
    return None if found is None else found.subs(K, at)


def average_two(
    activation: Pieces, order1: int, order2: int, K11: sympy.Expr, K12: sympy.Expr, K22: sympy.Expr
) -> sympy.Expr | None:
    """⟨σ^{(order1)}(z_1) σ^{(order2)}(z_2)⟩ at this covariance, or None without a closed form."""
    found = double(activation, order1, order2)
    if found is None:
        return None
    return found.subs(dict(zip(K_PAIR, (K11, K12, K22), strict=True)), simultaneous=True)


@cache
def single(activation: Pieces, orders: tuple[int, ...], outer: int) -> sympy.Expr | None:
    """K^{−outer/2} ⟨Π_p σ^{(orders_p)}(z) He_outer(z/√K)⟩_K as a function of `K`, or None.

    Raises InputError where a product of distributions at a kink has no limit: see `deltas`.
    """
    if activation.is_odd and (sum(orders) + len(orders) + outer) % 2:
        return sympy.Integer(0)
    weight = by_parts(outer, z, K)
    total = sympy.Integer(0)
    for lower, upper, part in activation.pieces:
        regular = sympy.prod(part.diff(z, order) for order in orders)
        value = _integral(regular * weight, lower, upper)
        if value is None:
            return None
        total += value
    return sympy.simplify(total + on_kinks(activation, orders, outer))


@cache
def double(activation: Pieces, order1: int, order2: int) -> sympy.Expr | None:
    """⟨σ^{(order1)}(z_1) σ^{(order2)}(z_2)⟩ as a function of `K_PAIR`, or None."""
    if activation.is_smooth:
        first, second = (activation.expr.diff(z, order) for order in (order1, order2))
        product = first.xreplace({z: _FIRST}) * second.xreplace({z: _SECOND})
        K11, K12, K22 = K_PAIR
        value = expectation(product, (_FIRST, _SECOND), sympy.Matrix([[K11, K12], [K12, K22]]))
        return None if value is None else sympy.simplify(value)
    if activation.is_scale_invariant and max(order1, order2) <= 2:
        return sympy.simplify(_by_price(activation.slopes, order1, order2, K_PAIR))
    return None


def expectation(
    expr: sympy.Expr, variables: Sequence[sympy.Symbol], covariance: sympy.Matrix
) -> sympy.Expr | None:
    """⟨expr⟩ over a centred Gaussian vector with this covariance, or None where it is not found."""
    total = sympy.Integer(0)
    memo: dict[_Term, sympy.Expr | None] = {}
    for term in _terms(expr, variables):
        value = None if term is None else _moment(term, tuple(variables), covariance, memo)
        if value is None:
            return None
        total += value
    return total


def _terms(expr: sympy.Expr, variables: Sequence[sympy.Symbol]) -> Iterator[_Term | None]:
    """The sum's terms in the algorithm's form; None for one that does not have it."""
    exponentials = expr.replace(
        lambda node: isinstance(node, (sympy.sin, sympy.cos, sympy.sinh, sympy.cosh)),
        lambda node: node.rewrite(sympy.exp),
    )
    for term in sympy.Add.make_args(sympy.expand(exponentials)):
        yield _read(term, variables)


def _read(term: sympy.Expr, variables: Sequence[sympy.Symbol]) -> _Term | None:
    coefficient, exponent = sympy.Integer(1), sympy.Integer(0)
    powers, erfs = [0] * len(variables), []
    for factor in sympy.Mul.make_args(term):
        if not factor.has(*variables):
            coefficient *= factor
            continue
        base, power = factor.as_base_exp()
        if base == sympy.E and power.is_polynomial(*variables):
            exponent += power
        elif not (power.is_Integer and power > 0):
            return None
        elif base in variables:
            powers[variables.index(base)] += int(power)
        elif isinstance(base, sympy.erf) and _degree(base.args[0], variables) == 1:
            erfs += [base.args[0]] * int(power)
        else:
            return None
    if _degree(exponent, variables) > 2:
        return None
    return _Term(coefficient, tuple(powers), sympy.expand(exponent), tuple(erfs))


def _degree(expr: sympy.Expr, variables: Sequence[sympy.Symbol]) -> int:
    """The degree, or 99 for what is not a polynomial."""
    if not expr.is_polynomial(*variables):
        return 99
    return 0 if expr == 0 else int(sympy.Poly(expr, *variables).total_degree())


def _tilted(
    exponent: sympy.Expr, variables: Sequence[sympy.Symbol], covariance: sympy.Matrix
) -> tuple[sympy.Expr, sympy.Matrix, sympy.Matrix] | None:
    """(⟨e^Q⟩, mean, covariance) of the Gaussian that e^Q turns N(0, covariance) into.

    With Q = zᵀAz + bᵀz + c: S' = Σ(1 − 2AΣ)^{-1}, m' = S'b, ⟨e^Q⟩ = det(1−2AΣ)^{-1/2} e^{bᵀm'/2+c}.
    None where A has a positive diagonal, whose average diverges at some K.
    """
    origin = dict.fromkeys(variables, 0)
    A = sympy.hessian(exponent, variables) / 2
    b = sympy.Matrix([exponent.diff(v).xreplace(origin) for v in variables])
    if any(A[k, k].is_negative is not True and A[k, k] != 0 for k in range(len(variables))):
        return None
    ratio = sympy.eye(len(variables)) - 2 * A * covariance
    S = (covariance * ratio.inv()).applyfunc(sympy.cancel)
    mean = (S * b).applyfunc(sympy.expand)
    constant = exponent.xreplace(origin) + sympy.expand((b.T * mean)[0] / 2)
    return sympy.exp(constant) / sympy.sqrt(sympy.factor(ratio.det())), mean, S


def _moment(
    term: _Term,
    variables: tuple[sympy.Symbol, ...],
    covariance: sympy.Matrix,
    memo: dict[_Term, sympy.Expr | None],
) -> sympy.Expr | None:
    key = term._replace(coefficient=sympy.Integer(1))
    if key not in memo:
        memo[key] = _unit_moment(key, variables, covariance, memo)
    return None if memo[key] is None else term.coefficient * memo[key]


def _unit_moment(
    term: _Term,
    variables: tuple[sympy.Symbol, ...],
    covariance: sympy.Matrix,
    memo: dict[_Term, sympy.Expr | None],
) -> sympy.Expr | None:
    tilted = _tilted(term.exponent, variables, covariance)
    if tilted is None:
        return None
    weight, mean, S = tilted
    if not any(term.powers):
        tail = _erf_average(term.erfs, variables, mean, S)
        return None if tail is None else weight * tail
    first = next(k for k, power in enumerate(term.powers) if power)
    rest = _lowered(term, first)
    pieces = [rest._replace(coefficient=mean[first])]
    for j, variable in enumerate(variables):
        if rest.powers[j]:
            pieces.append(_lowered(rest, j)._replace(coefficient=S[first, j] * rest.powers[j]))
        for position, argument in enumerate(rest.erfs):
            slope = argument.diff(variable) * 2 / sympy.sqrt(sympy.pi)
            pieces.append(
                _Term(
                    S[first, j] * slope,
                    rest.powers,
                    sympy.expand(rest.exponent - argument**2),
                    rest.erfs[:position] + rest.erfs[position + 1 :],
                )
            )
    total = sympy.Integer(0)
    for piece in pieces:
        if piece.coefficient != 0:
            value = _moment(piece, variables, covariance, memo)
            if value is None:
                return None
            total += value
    return total


def _lowered(term: _Term, position: int) -> _Term:
    powers = list(term.powers)
    powers[position] -= 1
    return term._replace(powers=tuple(powers))


def _erf_average(
    erfs: tuple[sympy.Expr, ...],
    variables: Sequence[sympy.Symbol],
    mean: sympy.Matrix,
    S: sympy.Matrix,
) -> sympy.Expr | None:
    """⟨Π erf(ℓ)⟩ over N(mean, S) for affine ℓ: one of any mean, or two of mean zero."""
    at_mean = dict(zip(variables, mean, strict=True))
    means = [sympy.expand(argument.xreplace(at_mean)) for argument in erfs]
    slopes = [sympy.Matrix([argument.diff(v) for v in variables]) for argument in erfs]

    def spread(j: int, k: int) -> sympy.Expr:
        return 2 * (slopes[j].T * S * slopes[k])[0]

    if not erfs:
        return sympy.Integer(1)
    if len(erfs) == 1:
        return sympy.erf(means[0] / sympy.sqrt(1 + spread(0, 0)))
    if all(value == 0 for value in means):
        if len(erfs) % 2:
            return sympy.Integer(0)
        if len(erfs) == 2:
            scale = sympy.sqrt(sympy.factor(1 + spread(0, 0)) * sympy.factor(1 + spread(1, 1)))
            return 2 / sympy.pi * sympy.asin(spread(0, 1) / scale)
    return None


def _integral(integrand: sympy.Expr, lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr | None:
    """⟨integrand · 1(lower < z < upper)⟩_K."""
    if lower == -sympy.oo and upper == sympy.oo:
        return expectation(integrand, (z,), sympy.Matrix([[K]]))
    total = sympy.Integer(0)
    for term in _terms(integrand, (z,)):
        tilted = None if term is None else _tilted(term.exponent, (z,), sympy.Matrix([[K]]))
        if term is None or tilted is None or term.erfs or term.exponent.has(sympy.I):
            return None
        weight, mean, S = tilted
        total += (
            term.coefficient * weight * _truncated(term.powers[0], mean[0], S[0, 0], lower, upper)
        )
    return total


def _truncated(
    power: int, mean: sympy.Expr, variance: sympy.Expr, lower: sympy.Expr, upper: sympy.Expr
) -> sympy.Expr:
    """⟨z^power 1(lower < z < upper)⟩ over N(mean, variance)."""

    def density_moment(k: int, at: sympy.Expr) -> sympy.Expr:
        return at**k * _density(at - mean, variance) if at.is_finite else sympy.Integer(0)

    ends = [sympy.erf((end - mean) / sympy.sqrt(2 * variance)) for end in (lower, upper)]
    previous, current = sympy.Integer(0), (ends[1] - ends[0]) / 2
    for k in range(power):
        boundary = density_moment(k, upper) - density_moment(k, lower)
        previous, current = current, mean * current + variance * (k * previous - boundary)
    return current


def _density(at: sympy.Expr, variance: sympy.Expr) -> sympy.Expr:
    return sympy.exp(-(at**2) / (2 * variance)) / sympy.sqrt(2 * sympy.pi * variance)


def on_kinks(activation: Pieces, orders: Sequence[int], outer: int) -> sympy.Expr:
    """The part of `single` from the δ-functions of σ^{(order)} at the kinks, a function of `K`."""
    weight, total = by_parts(outer, z, K), sympy.Integer(0)
    for (kink, m), coefficient in deltas(activation, orders).items():
        total += coefficient * (-1) ** m * (weight * _density(z, K)).diff(z, m).subs(z, kink)
    return total


def deltas(activation: Pieces, orders: Sequence[int]) -> dict[tuple[sympy.Expr, int], sympy.Expr]:
    """The singular part Σ c δ^{(m)}(z − κ) of Π σ^{(order)}(z), as {(κ, m): c}.

    σ^{(n)} has jump_j δ^{(n−1−j)} for every jump of σ^{(j)}, j < n. A product is the limit of the
    products of smooth σ_ε → σ, where all that do have one: with l, r the values left and right,

        δ Π g → δ ∫₀¹ Π (l + τ (r − l)) dτ,
        δ^{(m)} g → Σ_i (−1)^i binom(m, i) ½ (g^{(i)}_l + g^{(i)}_r) δ^{(m−i)},    g in C^{m−1}.

    Raises InputError where there is no limit, as for σ''σ'' of ReLU.
    """
    found: Counter[tuple[sympy.Expr, int]] = Counter()
    for place, order in enumerate(orders):
        others = (*orders[:place], *orders[place + 1 :])
        for j in range(order):
            for kink, jump in activation.jumps(j).items():
                m = order - 1 - j
                for i, value in enumerate(_through(activation, others, kink, m, tuple(orders))):
                    found[kink, m - i] += jump * (-1) ** i * sympy.binomial(m, i) * value
    return {at: c for at, value in found.items() if (c := sympy.simplify(value)) != 0}


def _through(
    activation: Pieces,
    factors: tuple[int, ...],
    kink: sympy.Expr,
    m: int,
    orders: tuple[int, ...],
) -> list[sympy.Expr]:
    """The values of g = Π σ^{(factor)} and its first m derivatives under a δ^{(m)} at a kink."""
    side = activation.kinks.index(kink)
    left, right = (
        [piece.expr.diff(z, factor) for factor in factors]
        for piece in activation.pieces[side : side + 2]
    )
    if any(kink in activation.jumps(j) for factor in factors for j in range(factor)):
        raise _no_limit(activation, orders, kink)
    if m == 0:
        tau = sympy.Dummy("tau")
        ends = [(a.subs(z, kink), b.subs(z, kink)) for a, b in zip(left, right, strict=True)]
        path = sympy.Mul(*(low + tau * (high - low) for low, high in ends))
        return [sympy.integrate(sympy.expand(path), (tau, 0, 1))]
    before, after = (
        [sympy.Mul(*part).diff(z, i).subs(z, kink) for i in range(m + 1)] for part in (left, right)
    )
    if any(sympy.simplify(before[i] - after[i]) != 0 for i in range(m)):
        raise _no_limit(activation, orders, kink)
    return [(low + high) / 2 for low, high in zip(before, after, strict=True)]


def _no_limit(activation: Pieces, orders: tuple[int, ...], kink: sympy.Expr) -> InputError:
    product = " ".join(f"σ^({order})" if order else "σ" for order in orders)
    wanted = f"a product with a limit at the kink {kink} of {activation}, as {product} has not"
    return InputError("orders", orders, f"{wanted} (put derivatives outside: average_outer)")


def _by_price(
    slopes: tuple[sympy.Expr, sympy.Expr],
    order1: int,
    order2: int,
    covariance: tuple[sympy.Expr, sympy.Expr, sympy.Expr],
) -> sympy.Expr:
    """⟨σ^{(o1)}(z_1)σ^{(o2)}(z_2)⟩ of σ = (s z + j|z|)/2 from ∂/∂K12 = ⟨σ^{(o1+1)} σ^{(o2+1)}⟩.

    A factor σ'' = j δ(z) conditions on z = 0, which ends the recursion.
    """
    left, right = slopes
    half_sum, jump = (left + right) / 2, right - left
    K11, K12, K22 = covariance

    def one_point(order: int, variance: sympy.Expr) -> sympy.Expr:
        means = (
            jump * sympy.sqrt(variance / (2 * sympy.pi)),
            half_sum,
            jump * _density(0, variance),
        )
        return means[order]

    if order2 == 2:
        conditional = (K11 * K22 - K12**2) / K22
        return jump * _density(sympy.Integer(0), K22) * one_point(order1, conditional)
    if order1 == 2:
        return _by_price(slopes, order2, order1, (K22, K12, K11))
    t = sympy.Dummy("t", real=True)
    correlation = sympy.Dummy("rho", real=True)
    scale = sympy.sqrt(K11 * K22)
    inner = _by_price(slopes, order1 + 1, order2 + 1, (K11, scale * t, K22))
    grown = sympy.integrate(sympy.simplify(scale * inner), (t, 0, correlation))
    return one_point(order1, K11) * one_point(order2, K22) + grown.subs(correlation, K12 / scale)
