"""The law of JJᵀ for J = Π_l D^l W^l: a free product over the layers (source 002, eqs. 13–16).

    S_JJᵀ(w) = Π_k S_k(s_k w)^{n_k},

with n_k equal factors of a law, D² or WᵀW, that lives on a corner of trace 1/s_k (s_k = 1 but for
the weights that are not free from D, `zero_padded`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import sympy

from ..activations.functions import Activation, as_activation
from ..citations import rests_on
from ..errors import InputError, as_integer, as_sequence, flag, instance
from ..expressions import as_expression, parse_number
from ..layers import Layer, as_layer
from ..network import Network
from ..weights import WeightEnsemble, as_weights
from .ensembles import projected, weight_law
from .laws import Factor, Law, Product, Rational, rescaled
from .slopes import check_variance, slope_law
from .through import layer_factors

MAX_LAYERS = 1000
"""Layers with laws of their own."""
_SAME = 1e-12
"""The relative difference up to which a given C_W counts as the critical one."""


class Jacobian(Product):
    """The law of the eigenvalues of JJᵀ, as wide as can be: factors D² and WᵀW."""


@rests_on("pennington2018")
def jacobian(
    activation: Activation | str | Law,
    weights: WeightEnsemble | str | Law,
    depth: sympy.Expr | int,
    q_star: sympy.Expr | float | None = None,
    *,
    critical: bool | None = None,
    layer: Layer | str | None = None,
    C_b: sympy.Expr | float | None = None,
) -> Jacobian:
    """The law of JJᵀ for `depth` identical layers (source 002, eqs. 13–16).

    Eigenvalues are those of J Jᵀ, squared singular values, at infinite width.

    Arguments:
        activation: φ or its name, or the law of D² itself.
        weights: the ensemble of the weights, or the law of WᵀW.
        depth: L, a number or a symbol: the number of factors D W, or ∂z'/∂z, of J. `of_network`
            counts the layers of preactivations instead.
        q_star: the variance of the preactivations; not needed where φ'(h)² does not depend on it.
            `criticality(activation).K_star` is that of a critical network, where it has one, and
            `propagation.depth_scales(net).q` that of any other.
        critical: True scales the weights so that χ = C_W ⟨φ'²⟩ = 1. False keeps their C_W. The
            default is True for ensembles without a C_W, such as `Orthogonal()` and "orthogonal",
            and False for ensembles with a C_W and for laws.
        layer: another than the dense one (`derive.layers`), at z of variance q_star, or its text.
            It has the weights' own C_W.
        C_b: of such a layer's biases, 0 by default.

    Of a layer J = ∂z'/∂z: a skip and free branches (`through.layer_factors`, derived there).

    Raises InputError if depth is no whole number, if the variance is missing or not positive, if
    the activation is constant, and for layers whose branches are not free. It also raises
    InputError for arguments that contradict each other or are not used: critical=True with another
    C_W or another layer, C_b with the dense layer, q_star with a law of D².

    >>> from derive import Orthogonal
    >>> jacobian("relu", "orthogonal", sympy.Symbol("L")).moment(2)
    L + 1
    >>> jacobian("relu", "orthogonal", 2).atoms
    {0: 1/2}
    >>> jacobian("linear", "gaussian", 1, 1, layer="residual(skip=1)").moment(2)
    8
    >>> [jacobian("relu", weights, 2).moment(1) for weights in (Orthogonal(), Orthogonal(C_W=4))]
    [1, 4]
    """
    layers = _depth(depth)
    scaled = None if critical is None else flag("critical", critical)
    other = None if layer is None else as_layer(layer).staged
    if other is not None:
        if scaled:
            wanted = "None: in layers other than the dense one the weights keep their C_W"
            raise InputError("critical", critical, wanted)
        variance = check_variance("q_star", 1 if q_star is None else q_star)
        bias = parse_number("C_b", 0 if C_b is None else C_b)
        laws, _ = layer_factors(other, *_named(activation, weights), variance, bias)
        return Jacobian(tuple(Factor(law, n * layers) for law, n in Counter(laws).items()))
    if C_b is not None and parse_number("C_b", C_b) != 0:
        wanted = "none for dense layers, whose q_star includes the variance of the biases"
        raise InputError("C_b", C_b, wanted)
    slopes, ensemble = _layer(activation, weights, q_star)
    given = not isinstance(weights, Law) and as_weights("weights", weights).is_scaled
    if scaled is None:
        scaled = not given and not isinstance(weights, Law)
    if scaled:
        factor = 1 / (slopes.mean * ensemble.mean)
        if given and abs(sympy.N(factor - 1)) > _SAME:
            wanted = (
                f"critical=False, or weights without C_W: {weights} is given, and the critical "
                f"C_W is {sympy.N(ensemble.mean * factor, 8)}"
            )
            raise InputError("critical", critical, wanted)
        ensemble = rescaled(ensemble, factor)
    return Jacobian((Factor(slopes, layers), Factor(ensemble, layers)))


@rests_on("pennington2018")
def layered(
    layers: Iterable[
        tuple[Activation | str | Law, WeightEnsemble | str | Law, sympy.Expr | float | None]
    ],
) -> Jacobian:
    """The law of JJᵀ for layers that differ, each (activation, weights, variance q); 002, eq. 13.

    An entry is what `jacobian` takes; C_W is each ensemble's own, and q may be None where φ'² does
    not depend on it. Raises InputError for no layers, and as `jacobian` does.

    >>> from derive import Orthogonal
    >>> layered([("relu", Orthogonal(C_W=2), None), ("linear", "gaussian", None)]).moment(2)
    3
    """
    wanted = "layers, each (activation, weights, variance)"
    counts: Counter[Law] = Counter()
    for each in as_sequence("layers", layers, wanted):
        layer = as_sequence("layers", each, wanted)
        if len(layer) != 3:
            raise InputError("layers", each, wanted)
        counts.update(_layer(*layer))
    if not counts:
        raise InputError("layers", layers, "one layer or more")
    return Jacobian(tuple(Factor(law, sympy.Integer(n)) for law, n in counts.items()))


@rests_on("pennington2018")
def of_network(net: Network, q_first: sympy.Expr | float, depth: int) -> Jacobian:
    """The law of JJᵀ, J = ∂z^L/∂z^1, computed layer by layer from the variance q^1 of z^1.

    q^{l+1} = C_b + C_W ⟨φ²⟩_{q^l} (3); source 002 keeps q^l at its fixed point. In layers other
    than the dense one q^l is the variance of z^l (`through`). J has L − 1 factors, W^{l+1} D^l or
    ∂z^{l+1}/∂z^l.

    Arguments:
        net: the network, with numbers for its variances.
        q_first: q^1, above 0.
        depth: L, 2 to 1001: layers of preactivations, as in `numeric.flow`; z^L is the last one.

    Raises InputError for another depth or variance.

    >>> from derive import Orthogonal
    >>> of_network(Network("relu", Orthogonal(C_W=2)), q_first=1, depth=4).moment(2)
    4
    """
    instance("net", net, Network, "a derive.Network")
    depth = as_integer("depth", depth, 2, MAX_LAYERS + 1)
    if not net.has_equal_widths(depth):
        raise InputError("net", str(net), "layers of equal width")
    q = check_variance("q_first", q_first)
    counts: Counter[Law] = Counter()
    for at in range(2, depth + 1):
        layer, sigma = net.layer_at(at, depth), net.activation_at(at - 1, depth)
        weights, C_b = net.weights_at(at, depth=depth), net.C_b_at(at)
        laws, behind = layer_factors(layer, sigma, weights, q, C_b)
        counts.update(laws)
        q = _exact(behind)
    return Jacobian(tuple(Factor(law, sympy.Integer(n)) for law, n in counts.items()))


def _exact(value: object) -> sympy.Expr:
    if hasattr(value, "as_integer_ratio"):
        return sympy.Rational(*value.as_integer_ratio())
    return sympy.N(value, 20)


@rests_on("naitsaada2023", "pennington2018")
def zero_padded(
    activation: Activation | str | Law,
    gamma: sympy.Expr | float,
    depth: sympy.Expr | int,
    q_star: sympy.Expr | float | None = None,
) -> Jacobian:
    """JJᵀ for W = σ_α [U, 0], U a uniform frame of γN columns, at χ = γσ_α²⟨φ'²⟩ = 1.

    Source 001, §3.2. This W is not invariant under rotations on the right, and not free from D: of
    each D but the last, only the γN entries that the zero columns leave are seen, always the same.
    On their corner J is D U times L − 1 factors D T, T the γN × γN block of a Haar matrix, so

        S_JJᵀ = [(1 + w)/(γ + w)]^L S_{D²}(w) S_{D²}(w/γ)^{L−1} / σ_α^{2L},

    where free layers W = σ_α U Vᵀ (`LowRankOrthogonal`) have S_{D²}(w) L times. Derived here.

    Arguments:
        activation, depth, q_star: as for `jacobian`; `depth` counts the factors D W.
        gamma: rank over width, in (0, 1], or a symbol.

    Raises InputError for a γ outside (0, 1], and as `jacobian` does.

    >>> from derive import LowRankOrthogonal
    >>> zero_padded("relu", "1/2", 2).moment(2)
    6
    >>> jacobian("relu", LowRankOrthogonal(gamma="1/2"), 2).moment(2)
    5
    """
    trace = parse_number("gamma", gamma)
    if trace.is_number and not 0 < trace <= 1:
        raise InputError("gamma", gamma, "a ratio of rank to width in (0, 1]")
    layers = _depth(depth)
    slopes, _ = _layer(activation, Rational(sympy.S.One), q_star)
    frames = projected(Rational(1 / (trace * slopes.mean)), trace)
    inner = Factor(slopes, layers - 1, 1 / trace)
    return Jacobian(
        (Factor(slopes, sympy.S.One), *((inner,) if layers != 1 else ()), Factor(frames, layers))
    )


def _named(
    activation: Activation | str | Law, weights: WeightEnsemble | str | Law
) -> tuple[Activation, WeightEnsemble]:
    """As a layer's equations need them."""
    if isinstance(activation, Law) or isinstance(weights, Law):
        given = activation if isinstance(activation, Law) else weights
        raise InputError("layer", str(given), "an activation and an ensemble, in such a layer")
    return as_activation(activation), as_weights("weights", weights)


def _layer(
    activation: Activation | str | Law,
    weights: WeightEnsemble | str | Law,
    variance: sympy.Expr | float | None,
) -> Sequence[Law]:
    if isinstance(activation, Law):
        if variance is not None:
            raise InputError("q_star", variance, "None, because the law of D² is given")
        return activation, weight_law(weights)
    activation = as_activation(activation)
    if variance is None:
        if not activation.is_scale_invariant:
            wanted = (
                f"the preactivations' variance, for {activation}: criticality(activation).K_star "
                "of a critical network, or a small number where that is 0; that of "
                "derive.propagation.depth_scales(net).q; or call of_network(net, q_first, depth), "
                "which finds the variance of each layer"
            )
            raise InputError("q_star", variance, wanted)
        variance = 1
    return slope_law(activation, variance, "q_star"), weight_law(weights)


def _depth(depth: sympy.Expr | int) -> sympy.Expr:
    layers = as_expression("depth", depth, "a whole number of layers, or a symbol")
    if layers.is_number and not (layers.is_integer and layers >= 1):
        raise InputError("depth", depth, "a whole number of layers, 1 or more")
    return layers
