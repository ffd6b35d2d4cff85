"""The log-normal law of K at a depth in proportion to the width.

    log(K_L/K_1) ~ N(growth + (g − s/2) r, s r),      L − 1 = r n

`derive.deep.walks` derives g and s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import sympy
from numpy.typing import ArrayLike
from scipy import special

from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.deep.walks import Walk, walk
from derive.engine.taps import matrices
from derive.errors import InputError, as_integer
from derive.expressions import parse_number
from derive.layers import dense
from derive.network import Network, dense_network

from ..arrays import Array
from ..checks import checked_inputs
from ..flows import flow

_RATIO = "layers of weights behind layer 1 over the width, (L − 1)/n: a number of 0 or more"


@dataclass(frozen=True)
class Law:
    """The law of K at L − 1 = ratio · n layers of weights behind the first, in the limit n → ∞.

    Attributes:
        start: K of layer 1.
        ratio: r = (L − 1)/n.
        walk: g and s, from the recursions.

    A ratio that is no float has exact `log_mean` and `log_variance`.
    """

    start: float
    ratio: sympy.Expr
    walk: Walk

    @property
    def log_mean(self) -> sympy.Expr:
        """The mean of log(K_L/K_1)."""
        steps = self.walk
        return steps.offset + steps.growth + steps.deep.log_mean * self.ratio

    @property
    def log_variance(self) -> sympy.Expr:
        """The variance of log(K_L/K_1)."""
        return self.walk.deep.spread * self.ratio

    @property
    def is_certain(self) -> bool:
        """True if K does not fluctuate in this limit."""
        return bool(self.log_variance == 0)

    def at(self, ratio: sympy.Expr | float | str) -> Law:
        """The law of the same network at another ratio."""
        return replace(self, ratio=checked_ratio(ratio))

    def quantile(self, p: ArrayLike) -> Array:
        """The K below which the fraction p of networks is.

        Raises InputError for a p outside [0, 1].
        """
        part = _reals("p", p)
        if not np.all((part >= 0) & (part <= 1)):
            raise InputError("p", p, "fractions of 0 … 1")
        return self._value(0 * part if self.is_certain else special.ndtri(part))

    def density(self, q: ArrayLike) -> Array:
        """The density of K at q; 0 where q is not positive.

        Raises InputError where K does not fluctuate, and for what is no real number.
        """
        if self.is_certain:
            raise InputError("q", q, f"no density, because K is {self._value(0.0):.6g} exactly")
        at = _reals("q", q)
        with np.errstate(divide="ignore"):
            score = self._score(at)
        found = np.exp(-(score**2) / 2) / np.sqrt(2 * np.pi) / self._spread
        return np.asarray(np.divide(found, at, out=np.zeros_like(at), where=at > 0))

    def below(self, q: ArrayLike) -> Array:
        """The fraction of networks with K below q: of vanishing signals and gradients.

        The same for the squared Jacobian in a fixed direction, over its value at layer 1; not
        behind a skip around one matrix.
        """
        at = _reals("q", q)
        if self.is_certain:
            return np.where(at > self._value(0.0), 1.0, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(special.ndtr(self._score(at)))

    def above(self, q: ArrayLike) -> Array:
        """The fraction of networks with K above q: of exploding signals and gradients."""
        at = _reals("q", q)
        if self.is_certain:
            return np.where(at < self._value(0.0), 1.0, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(special.ndtr(-self._score(at)))

    def half_below(self, factor: sympy.Expr | float | str) -> sympy.Expr:
        """The ratio at which half of the networks have K_L < factor · K_1: depth over width.

        Raises InputError for no factor between 0 and 1, and where the median does not fall.
        """
        wanted = "a factor between 0 and 1"
        level = parse_number("factor", factor)
        if not 0 < level < 1:
            raise InputError("factor", factor, wanted)
        fall = self.walk.deep.log_mean
        if self.walk.growth != 0 or not fall.is_negative:
            raise InputError("factor", factor, "a network whose median of K falls with depth")
        return sympy.log(level) / fall

    @property
    def _spread(self) -> float:
        return float(sympy.sqrt(self.log_variance))

    def _value(self, score: ArrayLike) -> Array:
        return np.asarray(
            self.start * np.exp(float(self.log_mean) + self._spread * np.asarray(score))
        )

    def __str__(self) -> str:
        lines = [
            f"log(K_L/K_1) at (L - 1)/n = {self.ratio} is normal: mean {self.log_mean}, "
            f"variance {self.log_variance}",
            f"K_1 = {self.start:.6g}, and the median of K_L is {float(self.quantile(0.5)):.6g}",
        ]
        return "\n".join(lines)

    def _score(self, q: Array) -> Array:
        """The standard score of log q; −∞ for q ≤ 0."""
        logs = np.log(np.maximum(q, 0.0) / self.start)
        return np.asarray((logs - float(self.log_mean)) / self._spread)


def _reals(argument: str, given: ArrayLike) -> Array:
    """An array of real numbers, infinite ones among them; InputError for NaN and anything else."""
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError):
        found = np.asarray(np.nan)
    if np.isnan(found).any():
        raise InputError(argument, given, "real numbers")
    return found


@rests_on("hanin2020", "roberts2022")
def law(net: Network, inputs: ArrayLike, ratio: sympy.Expr | float | str) -> Law:
    """The law of K of one input at depth and width in proportion, derived from the recursions.

    Arguments:
        net: scale-invariant activations, no biases, layers with K' = K at infinite width; or whose
            variances have the symbol `derive.symbols.L` and K' = (1 + c/L) K.
        inputs: (n_0,); (positions, n_0), which differ only between positions that all layers mix
            as circular convolutions do. Then all positions become alike.
        ratio: (L − 1)/n, the layers of weights behind layer 1 over the width.

    Derived here; for ReLU and Gaussian weights it is the law of B. Hanin and M. Nica (2019).

    Raises InputError for several inputs, and as `derive.deep.walks.walk` does; and where K grows
    or falls exponentially with depth.

    >>> found = law(Network("relu", C_W=2), [1.0, 1.0], "1/2")
    >>> found.log_mean, found.log_variance, float(found.quantile(0.5)).__round__(4)
    (-5/4, 5/2, 0.573)
    """
    steps = walk(net)
    if not steps.deep.spread.is_number:
        raise InputError("net", str(net), "numbers for its symbols")
    if not steps.growth.is_finite:
        raise InputError("net", str(net), _exponential(steps))
    found = first_kernel(net, inputs)
    if not found.size or (np.ptp(found) > 1e-12 * np.max(found) and not _settles(net)):
        wanted = "one input, the same at all positions unless each layer averages over them behind "
        wanted += "a σ with two slopes: otherwise K is a matrix (see numeric.deep.paths)"
        raise InputError("inputs", f"an array of shape {np.shape(inputs)}", wanted)
    start = float(np.diagonal(found, axis1=-2, axis2=-1).mean())
    if not start > 0:
        raise InputError("inputs", inputs, "an input that is not 0")
    return Law(start, checked_ratio(ratio), steps)


def first_kernel(net: Network, inputs: ArrayLike) -> Array:
    """K of layer 1; at each position of a signal that of a dense layer, whose mean over the
    positions any layer 1 has."""
    depth, plain = 1 + len(net.pattern(1).once), replace(net, layer=dense())
    if net.layer.input_axes:
        rows = checked_inputs(inputs, net.layer, depth).X
        table = flow(plain, rows, 1, ["K"], width=_WIDE)
    else:
        known = plain if net.layer.free_symbols else net
        table = flow(known, inputs, depth, ["K"], width=_WIDE)
    return np.atleast_2d(table["K"].sel(layer=1).to_numpy())


def _settles(net: Network) -> bool:
    """True if K becomes the same at all positions, its mean over them kept by every layer.

    Differences of lengths fall geometrically, angles as 1/ℓ if σ has two slopes.
    """
    pattern = net.pattern(1)
    stages = [stage for scheme in pattern.distinct for stage in scheme.stages]
    sigmas = [each for s in pattern.distinct for g in s.stages for each in g.sigmas(s.sigma)]
    if not all(each.taps.permutes for each in stages) or not _bent(sigmas):
        return False
    shares = (matrices(each.taps).mean(axis=0) for each in stages)
    sizes = np.sort(np.abs(np.linalg.eigvals(reduce(np.matmul, shares))))
    return len(sizes) > 1 and bool(sizes[-2] < 1 - _ROUNDING)


def _bent(sigmas: Sequence[Activation]) -> bool:
    return bool(sigmas) and all(each.slopes[0] != each.slopes[1] for each in sigmas)


def half_dead(net: Network, width: int) -> float:
    """The depth at which half of the networks are dead: in some layer σ(z) = 0 at all neurons.

    Given that it lives, a layer behind Gaussian or orthogonal weights dies with the chance p^n,
    where p = 1/2 for σ that vanishes on one side of 0. This is far deeper than the depth at which K
    is small in half of the networks (`Law.half_below`).

    Arguments:
        net: dense layers, σ(cz) = cσ(z), no biases, weights that rotations keep.
        width: n.

    Derived here. Raises InputError for other networks, and for σ that vanishes on no side of 0.

    >>> half_dead(Network("relu"), 8).__round__(1)
    178.1
    """
    n = as_integer("width", width, 1)
    if n > _WIDEST:
        raise InputError("width", width, f"{_WIDEST} or less: beyond, the depth is no double")
    sigma = dense_network("net", net).one_activation("this depth")
    biased = net.changes("C_b") or net.C_b_at(1) != 0 or net.C_b_corrections
    if not sigma.is_scale_invariant or net.group != "O" or biased:
        wanted = "σ(cz) = cσ(z), no biases, and weights that rotations keep"
        raise InputError("net", str(net), wanted)
    if not net.has_equal_widths(net.depth or 1) or net.width not in (None, n):
        raise InputError("net", str(net), f"a network with {n} neurons in every layer")
    if sum(slope == 0 for slope in sigma.slopes) != 1:
        raise InputError("net", str(net), "σ that is 0 on one side of 0: of others no layer dies")
    return 1 + math.log(0.5) / math.log1p(-(0.5**n))


_ROUNDING = 1e-9
_WIDEST = 1000
_WIDE = 2**20
"""A width above any number of inputs, so that rows of orthogonal matrices fit."""


def _exponential(steps: Walk) -> str:
    factor = sympy.N(steps.factor, 6)
    return (
        f"a critical one: K is multiplied by {factor} every {steps.period} layers, so that it has "
        "no limit at L = r n; C_W of Network.critical(…), or branches of variance c/L, as in "
        "layers.residual(C=(c/symbols.L, 1)), give it one"
    )


def checked_ratio(given: sympy.Expr | float | str) -> sympy.Expr:
    """A finite number of 0 or more; InputError for another."""
    value = parse_number("ratio", given)
    if not (value.is_number and value.is_real and value.is_finite and value >= 0):
        raise InputError("ratio", given, _RATIO)
    return value
