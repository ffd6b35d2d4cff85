"""Tensors at large depth: T^{(ℓ)} = Σ c_{a,b} ℓ^{−a} (log ℓ)^b at criticality, order by order.

    asymptotics(recursion("F", Orthogonal()), activations.tanh, terms=3)

Nothing is fitted: a term either follows from the recursions (`deep` solves them), and is universal,
or carries the free constant of a homogeneous solution, c_T ℓ^{−p} in T, which only the inputs and
the first layers know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy

from .. import symbols
from ..activations.functions import Activation, as_activation
from ..arithmetic.logseries import LogSeries
from ..citations import rests_on
from ..engine.scheme import Scheme
from ..engine.step import Step, closures, step, through
from ..errors import InputError, as_integer
from ..expressions import as_expression
from ..layers.per_layer import PerLayer, normal, value_at
from ..symbols import ell
from ..weights import Gaussian, WeightEnsemble
from .expansions import MOST_TERMS, Asymptotics, Term
from .layer_functions import functions
from .log_decay import FallingSystem
from .logarithmic import falling_point
from .points import CriticalPoint
from .staged import StagedSystem
from .systems import Solution, System, closed_set, quotient

__all__ = ["Asymptotics", "Term", "asymptotics", "counterterm", "ell", "together"]


@rests_on("day2025")
def asymptotics(
    made: Step,
    activation: Activation,
    terms: int = 2,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
    C_b: sympy.Expr | float | None = None,
    C_W: sympy.Expr | float | None = None,
    point: CriticalPoint | None = None,
    stem: Sequence[Scheme] = (),
    head: Sequence[Scheme] = (),
) -> Asymptotics:
    """Solve a derived recursion, with all that it needs, at large depth and a fixed point of K.

    At criticality K* = 0 and where every K is fixed the terms are exact; around K* > 0 they are
    numbers, each with its `error` (`derive.depth.fixed_points`), and `.error(layer)` says
    what is left out of all of them at a layer. Where σ is linear up to a kink, as hard_tanh, K
    falls like 1/log ℓ, and the terms are c K^q ℓ^p in K of that layer (`derive.depth.log_decay`).

    Arguments:
        made: from `recursion`. Its single-input form is solved, at the activation's critical C_W
            and C_b. A first layer of another ensemble changes the free constants alone.
        activation: scale-invariant, of the class K* = 0, or half-stable; any, where C_b and C_W
            are given.
        terms: how many terms ℓ^{−a} log^b ℓ, the largest first.
        lambda_b, lambda_W: learning rates: numbers, symbols, or functions of the layer made of
            powers and logarithms. The default is source 000, eq. (6.17).
        C_b, C_W: the variances of a network that is not critical. Give both, or C_b alone if C of
            the layer fixes the variances of all its weights. The result is then the limits of the
            tensors at the one K* > 0 that attracts, up to exponentially small terms. A layer with a
            norm and a skip of 1, whose K grows linearly, takes any values. With a norm and a skip
            below 1, C_W alone implies the critical C_b.
        point: another of `criticality(activation).points` than the class's own.
        stem, head: of the first and of the last layers, where these are others than the
            recursion's. The first ones change the free constants alone; the last ones are steps of
            the series, and ℓ is the depth of the network with them.

    Raises:
        InputError: for an activation without a critical point, where none is given; where depth
            does not act by powers of ℓ, or of ℓ and K; where no
            K* > 0 attracts at C_b and C_W, or several, or a tensor grows exponentially there.

    >>> from derive import recursion
    >>> print(recursion("V").asymptotics("tanh", C_b=0.1, C_W=1.2))  # doctest: +ELLIPSIS
    V = 0.095096566 + O(0.47456542**ℓ)
      tanh at K* = 0.37450355 (C_W = 1.2, C_b = 0.1), gaussian weights, λ_b = 1/ℓ, λ_W = 1
      universal: 0.095096566

    Derived here; source 000, §5.3–5.4, has the first terms of K, V and G1 for tanh.
    """
    terms = as_integer("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    layer = made.layer if isinstance(made, Step) else None
    if layer is not None and not functions(as_activation(activation), layer)[0].has_C_W:
        if C_W is not None:
            wanted = f"None: C of {layer} fixes the variances of its weights"
            raise InputError("C_W", C_W, wanted)
        C_W = None if C_b is None else 1
    given = _variances(C_b, C_W, layer is not None)
    ends = tuple(stem), tuple(head)
    system = _system(made, activation, lambda_b, lambda_W, given, point, *ends)
    if made.corrections:
        raise InputError("corrections", made.corrections, "0: variances without 1/n parts")
    made.weights.scaled_to(system.given[1])  # refuses another C_W, which would have no use
    return _expansion(made.name, system, terms)


def _expansion(name: str, system: System, terms: int) -> Asymptotics:
    """A tensor's asymptotics, behind the last layers."""
    tensor = symbols.tensor(name)
    return _solved(Asymptotics(tensor, system, terms, lambda solved: solved.last[name]))


def _solved(found: Asymptotics) -> Asymptotics:
    """The asymptotics, solved at once, so that the call fails if there is no solution."""
    _ = found.series
    return found


def together(
    recursions: Sequence[Step],
    activation: Activation,
    terms: int = 2,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
) -> dict[str, Asymptotics]:
    """`asymptotics` of each of these recursions by name, at criticality, solved as one system.

    What they share is solved once, and the free constants that `matched` finds are the same for all
    of them.

    Raises InputError as `asymptotics`, and for recursions of different weights.
    """
    terms = as_integer("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    systems = [_system(made, activation, lambda_b, lambda_W) for made in recursions]
    if len({system.weights for system in systems}) != 1:
        raise InputError("recursions", list(map(str, recursions)), "some, all of the same weights")
    system = replace(systems[0], recursions=closed_set(*recursions), _solved={})
    return {made.name: _expansion(made.name, system, terms) for made in recursions}


def counterterm(
    activation: Activation, weights: WeightEnsemble | None = None, terms: int = 2
) -> Asymptotics:
    """c_W^{1} of layer ℓ, C_W + c_W^{1}/n, that keeps the two-point function K: G^{1} = 0.

    From the derived recursion of G^{1} with a correction of C_W (source 000, eq. 5.28), and
    c_b^{1} = 0.
    """
    terms = as_integer("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    made = step("G1", Gaussian() if weights is None else weights, corrections=1)
    system = _system(made, activation, sympy.Integer(1), sympy.Integer(1))

    def tuned(solution: Solution) -> LogSeries:
        step = solution.steps["G1"]
        below = quotient(-step[""], step["C_W1"], sympy.Integer(1))
        return below.shifted(below.order, by=-1)

    return _solved(Asymptotics(symbols.parameter("C_W1"), system, terms, tuned))


def _system(
    made: Step,
    activation: Activation,
    lambda_b: PerLayer,
    lambda_W: PerLayer,
    variances: tuple[sympy.Expr | None, sympy.Expr] | None = None,
    point: CriticalPoint | None = None,
    stem: tuple[Scheme, ...] = (),
    head: tuple[Scheme, ...] = (),
) -> System:
    wanted = "a derived one between hidden layers of equal width"
    if not isinstance(made, Step) or not made.equal_widths:
        raise InputError("recursion", made, wanted)
    made.check_repeats("recursion", made, wanted)
    activation = as_activation(activation)
    rates = (_rate("lambda_b", lambda_b), _rate("lambda_W", lambda_W))
    if made.layer is not None and point is not None:
        raise InputError("point", point, "none, with a layer")
    if point is not None and (variances or not isinstance(point, CriticalPoint)):
        wanted = "a point of criticality(activation).points, and no C_b and C_W beside it"
        raise InputError("point", point, wanted)
    if made.layer is None and variances is None and point is None and falling_point(activation):
        if head:
            wanted = "no other last layers, where K falls like 1/log ℓ"
            raise InputError("layer", str(head[-1].layer or "dense()"), wanted)
        return FallingSystem(closed_set(made), activation, *rates)
    scheme = Scheme(made.weights, layer=made.layer, single=True, group=made.group)
    names = closures([made.target], [scheme, *head])[0][-1] if head else ()
    recursions = closed_set(made, *(through(name, scheme) for name in names))
    return StagedSystem(recursions, activation, *rates, variances, point, stem=stem, head=head)


def _variances(
    C_b: object, C_W: object, line: bool = False
) -> tuple[sympy.Expr | None, sympy.Expr] | None:
    """C_b and C_W; on a layer's critical line C_W alone."""
    if C_b is None and C_W is None:
        return None
    wanted = "both, numbers of 0 or more, or neither"
    if line and C_b is None:
        return None, as_expression("C_W", C_W, "a number of 0 or more")
    if C_b is None or C_W is None:
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    values = (as_expression("C_b", C_b, wanted), as_expression("C_W", C_W, wanted))
    if not all(value.is_number and value.is_nonnegative for value in values):
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    return values


def _rate(name: str, given: PerLayer) -> sympy.Expr:
    wanted = "0 or more at every layer: a number, a symbol or a function of the layer"
    got = value_at(name, normal(name, given), ell, wanted)
    value = sympy.expand(sympy.nsimplify(got, rational=True))
    if any(value.subs(ell, layer).is_negative for layer in (1, 2, 10**6)):
        raise InputError(name, got, wanted)
    return value
