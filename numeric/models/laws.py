"""The law of a weight matrix, recognized from initializations of it.

Of samples of one matrix are taken the mean and the variance of an entry, its kurtosis and bound,
and the singular values: W Wᵀ = g² 1 is orthogonal, fewer than there could be are low-rank, and
independent entries have E tr (W Wᵀ)² = μ_4 o i + σ⁴ o i (o + i − 2) for a matrix (o, i).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import sympy
from scipy import special

from derive import weights as ensembles
from derive.errors import InputError
from derive.weights import WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from ..random.matrices import weight_matrix
from .initializers import CUT as _CUT
from .initializers import CUT_SCALE as _CUT_SCALE
from .initializers import Measured, named

_BOUND = 5.0
"""Standard errors within which a law's numbers are those that were measured."""

_EXACT = 1e-5
"""Of a number: what single precision leaves of an identity."""

_TOLD = math.log(1e6)
"""The difference of log likelihoods from which on two laws are told apart."""

_SPARSE = 0.01
"""The share of entries that are 0 from which on a matrix is called sparse."""

_ROWS = 128
"""Rows, or columns, of each sample of a large matrix whose independence is tested."""

_SIMPLE = 10**7
"""The largest denominator of a square that is read as a fraction."""

_FEWEST_APART = 0.5
"""Of the variance between the sizes of independent rows, the least that is taken for that."""

_INDEPENDENT = ("gaussian", "uniform", "truncated normal", "signs", "zero")
"""Kinds whose entries are independent."""

_MOST_SPREAD = 0.5
"""Of a matrix's size between initializations, relative, times √n: its part of V is four squares."""

_CUT_KURTOSIS = float(ensembles.TruncatedNormal(2).standard_moment(4)) - 3
_KURTOSES = {"uniform": -1.2, "truncated normal": _CUT_KURTOSIS, "gaussian": 0.0}
_CUT_EDGE = 4 * math.exp(-2) / math.sqrt(2 * math.pi) / (_CUT[0] - _CUT[1])
"""The density of |x|/bound at the bound; 1 of a uniform law."""


@dataclass(frozen=True)
class Law:
    """A law of the entries of a matrix or of biases.

    Attributes:
        kind: "gaussian", "orthogonal", "uniform", "truncated normal", "sparse", "signs", "zero",
            "low-rank gaussian", "low-rank orthogonal" or "unknown".
        shape: of the samples, (out, in).
        C: E[W²] times the fan-in; of biases their variance.
        error: its standard error, 0 where it is exact.
        kurtosis: E[W⁴]/E[W²]² − 3.
        why: what the number C is, or why the law is unknown.
        density: of what is sparse, the chance of an entry that is not 0; of low rank, rank over
            the smaller size.
        rivals: the known initializers that fit, if there are several; C is then the measured
            variance.
        size: the positions of a filter, which a fan-out counts.
        kept: of a filter some of whose taps are always 0, which are not; the shape is without them.
        wanted: the number of entries that would decide which initializer it is, if any; 0 if it is
            decided.
        spread: by how much the size of the whole matrix differs between initializations, relative.
    """

    kind: str
    shape: tuple[int, ...]
    C: sympy.Expr
    error: float = 0.0
    kurtosis: float = 0.0
    why: str = ""
    density: float = 1.0
    rivals: tuple[str, ...] = ()
    size: int = 1
    kept: tuple[bool, ...] = ()
    wanted: int = field(default=0, compare=False)
    spread: float = field(default=0.0, compare=False)

    @property
    def keeps_rotations(self) -> bool:
        """True if the matrix's law is invariant under rotations, so far as is known."""
        return self.kind.removeprefix("low-rank ") in {"gaussian", "orthogonal", "zero"}

    @property
    def has_free_rows(self) -> bool:
        """True if the rows of the matrix are independent, and of one law."""
        return self.kind in {"gaussian", "uniform", "truncated normal", "signs", "sparse", "zero"}

    @property
    def is_drawn(self) -> bool:
        """True if `draw` knows it."""
        return self.has_free_rows or self.kind == "orthogonal"

    def ensemble(self) -> WeightEnsemble | None:
        """The ensemble of `derive.weights` that it is; None where there is none."""
        return _ensemble(self.kind, self.C, self.density)

    def times(self, factor: sympy.Expr) -> Law:
        """The law of the entries times a number."""
        if factor == 1:
            return self
        if factor == 0:
            return Law("zero", self.shape, sympy.Integer(0))
        by = square(factor)
        return replace(self, C=by * self.C, error=float(by) * self.error)

    def of_part(self, shape: tuple[int, ...]) -> Law:
        """The law of some rows and columns of the matrix, (out, in).

        Raises InputError unless the entries are independent, as those of parts then are.
        """
        if self.kind not in _INDEPENDENT or self.kept:
            wanted = "one matrix for each part: parts of such a matrix depend on each other"
            raise InputError("model", f"parts of a matrix, {self}", wanted)
        ratio = sympy.Rational(shape[-1], self.shape[-1]) if len(shape) == 2 else sympy.S.One
        return replace(self, shape=shape, C=self.C * ratio, error=float(ratio) * self.error)

    def fits(self, sample: Array) -> bool:
        """True if one sample, (out, in) or (out,), can be of this law."""
        if self.kept:
            taps, kept = sample.reshape(len(sample), -1, len(self.kept)), np.array(self.kept)
            live = taps[:, :, kept].reshape(len(sample), -1)
            return not taps[:, :, ~kept].any() and replace(self, kept=()).fits(live)
        if self.kind == "zero" or not sample.any():
            return self.kind == "zero" and not sample.any()
        fan_in = sample.shape[1] if sample.ndim == 2 else 1
        variance, error = float((sample**2).mean()) * fan_in, self._error(sample.size)
        near = abs(variance - float(self.C)) <= error + 6 * self.error
        if min(sample.shape) == 1 or sample.ndim < 2:
            return near
        return near and (self.kind == "orthogonal") == (_orthogonal(sample[None]) is not None)

    def _error(self, size: int) -> float:
        """The error of the second moment of so many entries."""
        spread = math.sqrt(max(self.kurtosis, -1.9) / size + 2 / size)
        return float(self.C) * (6 * spread + 1e-3)

    def draw(self, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """A sample of this shape, (out, in), or (out,) of biases."""
        if self.kept:
            found = np.zeros((shape[0], shape[1] // len(self.kept), len(self.kept)))
            live = replace(self, kept=()).draw(self.shape, random)
            found[:, :, np.array(self.kept)] = live.reshape(*found.shape[:2], -1)
            return found.reshape(shape)
        ensemble = self.ensemble()
        if ensemble is None or not self.is_drawn:
            wanted = "a law that can be drawn, or a function that makes it"
            raise InputError("model", str(self), wanted)
        fan_in = shape[1] if len(shape) == 2 else 1
        return weight_matrix(ensemble, (shape[0], fan_in), random).reshape(shape)

    def __str__(self) -> str:
        if self.kind == "zero":
            return "zero"
        name = f"{self.kind}({self.density:.3g})" if self.kind == "sparse" else self.kind
        shown = str(self.C) if self.C.is_Rational and self.C.q <= 10**4 else f"{float(self.C):.4g}"
        error = f" ± {self.error:.1g}" if self.error else ""
        symbol = "C_W" if len(self.shape) == 2 else "C_b"
        told = self.why or " or ".join(self.rivals)
        if self.rivals:
            told = f"{told}, not told apart" if len(self.rivals) > 1 else f"perhaps {told}"
        reason = f" ({told})" if told else ""
        return f"{name}, {symbol} = {shown}{error}{reason}"


@cache
def _ensemble(kind: str, C: sympy.Expr, density: float) -> WeightEnsemble | None:
    match kind:
        case "gaussian" | "zero":
            return ensembles.Gaussian(C)
        case "orthogonal":
            return ensembles.Orthogonal(C)
        case "uniform":
            return ensembles.Uniform(C)
        case "truncated normal":
            return ensembles.TruncatedNormal(2, C)
        case "signs":
            return ensembles.Rademacher(C)
        case "sparse":
            return ensembles.Sparse(_rational(density), C_W=C)
        case "low-rank gaussian":
            return ensembles.LowRankGaussian(C, gamma=_rational(density))
        case "low-rank orthogonal":
            return ensembles.LowRankOrthogonal(C, gamma=_rational(density))
    return None


def of_matrix(samples: Sequence[Array], depths: Sequence[int] = (), size: int = 1) -> Law:
    """The law of a matrix, from independent samples (out, in) of it.

    Arguments:
        depths: numbers L of blocks, for initializers that divide the variance by L or 2L.
        size: the positions of a filter, whose fan-out is out·size.

    By definition of the laws; the numbers that are compared are derived here. `Law.kind` is
    "unknown" for what is none of those, with the reason.

    >>> random = np.random.default_rng(0)
    >>> print(of_matrix([random.uniform(-1, 1, (30, 20)) / 20**0.5 for _ in range(50)]))
    uniform, C_W = 1/3 (1/(3 fan-in), torch's default)
    """
    return replace(_of_matrix(np.array(samples, float), depths, size), size=size)


def _of_matrix(W: Array, depths: Sequence[int], size: int) -> Law:
    _, out, fan_in = W.shape
    shape = (out, fan_in)
    if not W.any():
        return Law("zero", shape, sympy.Integer(0))
    if fault := _fault(W):
        return Law("unknown", shape, _float(W.var() * fan_in), why=fault)
    if (gain := _orthogonal(W)) is not None:
        g2 = _rational(gain)
        C = g2 * sympy.Rational(fan_in, max(shape))
        if min(shape) > 1 and not W.all():
            why = "orthogonal with entries 0, as no Haar matrix has"
            return Law("unknown", shape, C, why=why)
        return Law("orthogonal", shape, C, why=f"gain² {_shown(g2)}")
    if (W == 0).mean() < _SPARSE and (rank := _rank(W)) < min(shape):
        return _of_rank(W, rank)
    kind, density, measured, kurtosis, kinds = _entries(W)
    spread = _spread(W, kurtosis) if kind == "unknown" else 0.0
    if spread:
        kind, kurtosis = _kind_of_sizes(W)
        measured = Measured.of_sizes((W**2).mean(axis=(1, 2)), W.size)
    if kind != "unknown" and (fault := _dependent(W)):
        return Law("unknown", shape, _float(W.var() * fan_in), kurtosis=kurtosis, why=fault)
    if kind == "unknown":
        why = f"entries of kurtosis {kurtosis:.3g}"
        C, error = _float(measured.value * fan_in), measured.error * fan_in
        return Law(kind, shape, C, error, kurtosis, why)
    if kinds:
        C, error, size = _float(measured.value * fan_in), measured.error * fan_in, 2 * W.size
        return Law(kind, shape, C, error, kurtosis, rivals=kinds, wanted=size)
    thinned = _density(W) if kind == "sparse" else sympy.S.One
    known, rivals, wanted = named(kind, measured, (out * size, fan_in), depths)
    share, error = float(thinned), measured.error * fan_in
    wanted = math.ceil(wanted / share)
    if kind == "sparse" and not thinned.is_Rational:
        by_density = measured.value * fan_in * math.sqrt(share * (1 - share) / W.size)
        error = math.hypot(share * error, by_density)
    else:
        by_density, error = 0.0, share * error
    if known is not None:
        C, why = known
        C = C * thinned
        return Law(kind, shape, C, by_density, kurtosis, why, density, wanted=wanted)
    C = _float(measured.value * fan_in * share)
    if spread:
        told = f"of a size that differs by {100 * spread:.2g} % between initializations"
        return Law(kind, shape, C, error, kurtosis, told, density, spread=spread)
    return Law(kind, shape, C, error, kurtosis, "", density, rivals, wanted=wanted)


def of_biases(samples: Sequence[Array], fan_in: int) -> Law:
    """The law of biases, from independent samples (out,) of them; C is their variance.

    Arguments:
        fan_in: of the matrix beside them, of which torch's default has the variance 1/(3 fan_in).

    By definition of the laws: zero, uniform or Gaussian; "unknown" for others.
    """
    b = np.array(samples, float)
    shape = b.shape[1:]
    if not b.any():
        return Law("zero", shape, sympy.Integer(0))
    if fault := _fault(b):
        return Law("unknown", shape, _float(b.var()), why=fault)
    kind, density, measured, kurtosis, kinds = _entries(b)
    variance, error = measured.value, measured.error
    if fault := _repeated(b) or _shared(b):
        return Law("unknown", shape, _float(variance), why=fault)
    if kind == "sparse":
        variance, error = float((b**2).mean()), float((b**2).std()) / math.sqrt(b.size)
    if kind == "uniform" and _reaches(b, math.sqrt(1 / fan_in)):
        default = sympy.Rational(1, 3 * fan_in)
        return Law(kind, shape, default, kurtosis=kurtosis, why="1/(3 fan-in)")
    C = _rational(variance)
    if kind == "unknown":
        return Law(kind, shape, C, kurtosis=kurtosis, why=f"entries of kurtosis {kurtosis:.3g}")
    return Law(kind, shape, C, error, kurtosis, density=density, rivals=kinds)


def _reaches(x: Array, bound: float) -> bool:
    """True if the largest of these can be that of as many uniform numbers up to the bound, of which
    it is below t with the chance (t/bound)^count."""
    largest = float(abs(x).max())
    return largest <= bound * (1 + _EXACT) and x.size * math.log(largest / bound) >= math.log(1e-6)


def _fault(W: Array) -> str | None:
    """Why the entries are not those of a random matrix with mean 0."""
    if not np.isfinite(W).all():
        return "entries that are not finite"
    if len(W) > 1 and (W[0] == W).all():
        return "the same in every initialization"
    if W.size < 8:
        return "too few entries to be told, in one initialization"
    if len(W) > 1 and ((W == 0) == (W[0] == 0)).all() and not W.all():
        return "zeros at the same places in every initialization, as under a mask"
    mean, error = W.mean(), W.std() / math.sqrt(W.size)
    if error == 0 or abs(mean) > _BOUND * error:
        return f"a mean of {mean:.3g}, not 0"
    return None


def _orthogonal(W: Array) -> float | None:
    """g² where all W Wᵀ, or Wᵀ W, are g² 1."""
    if len(W) > 1 and _orthogonal(W[:1]) is None:
        return None
    short = W if W.shape[1] <= W.shape[2] else W.transpose(0, 2, 1)
    grams = short @ short.transpose(0, 2, 1)
    gain = float(np.einsum("kii->ki", grams).mean())
    away = abs(grams - gain * np.eye(grams.shape[1])).max()
    return gain if away <= _EXACT * gain and W.shape[1] * W.shape[2] > 1 else None


def _of_rank(W: Array, rank: int) -> Law:
    """The law of a matrix of less than full rank: a frame, or a frame times a Gaussian matrix.

    Tr (W Wᵀ)² of the latter is σ⁴ r i (r + i + 1); of a product of two Gaussian matrices it is
    more, as the first's Gram matrix G/o with E[GXGX] = X² + (X² + X Tr X)/o is not 1.
    """
    _, o, i = W.shape
    square, density = float((W**2).mean()), rank / min(o, i)
    C, why = _float(square * i), f"rank {rank} of {min(o, i)}"
    if any(rank < each.shape[2] and _is_one_span(each) for each in (W, W.mT)):
        told = f"{why}, its rows or columns orthogonal to the same vectors in all initializations"
        return Law("unknown", (o, i), C, why=told, density=density)
    values = np.linalg.svd(W, compute_uv=False)[:, :rank]
    if np.ptp(values) <= _EXACT * values.max():
        return Law("low-rank orthogonal", (o, i), C, why=why, density=density)
    traces, scale = (values**4).sum(axis=1), square * o / rank
    one = scale**2 * rank * i * (rank + i + 1)
    two = one * (1 + 1 / o) + scale**2 * rank * i * (rank * i + 2) / o
    error = traces.std(ddof=1) / math.sqrt(len(W)) if len(W) > 1 else math.inf
    spread = math.sqrt(2 / (W.size * density)) * float(C)
    if two - one < 12 * error:
        told = f"{why}, too few initializations to tell which law"
    elif abs(traces.mean() - one) <= 6 * error:
        return Law("low-rank gaussian", (o, i), C, spread, 0.0, why, density)
    elif abs(traces.mean() - two) <= 6 * error:
        told = f"{why}, as a product of two Gaussian matrices has"
    else:
        told = f"{why}, with singular values of no law here"
    return Law("unknown", (o, i), C, spread, 0.0, told, density)


def _kind_of_sizes(W: Array) -> tuple[str, float]:
    """The kind and kurtosis of entries over the size of their own matrix."""
    own = (W**4).mean(axis=(1, 2)) / (W**2).mean(axis=(1, 2)) ** 2 - 3
    within = _BOUND * float(own.std(ddof=1)) / math.sqrt(len(W)) + _BOUND / W[0].size
    near = [kind for kind, wanted in _KURTOSES.items() if abs(own.mean() - wanted) <= within]
    return near[0] if len(near) == 1 else "unknown", float(own.mean())


def _spread(W: Array, kurtosis: float) -> float:
    """By how much the size of a matrix differs between initializations, relative, if that is a
    little and more than by chance: as under a spectral norm, where it falls faster than 1/√n.

    By chance it is √((κ + 2)/size)/2 for independent entries of kurtosis κ, up to the error of a
    standard deviation.
    """
    squares, size = (W**2).mean(axis=(1, 2)), W[0].size
    if len(W) < 8 or not squares.all():
        return 0.0
    spread = float(squares.std(ddof=1) / squares.mean()) / 2
    most = _MOST_SPREAD / math.sqrt(max(W.shape[1:]))
    chance = math.sqrt((max(kurtosis, 0.0) + 2) / size) / 2
    least = chance * (1 + 3 / math.sqrt(2 * (len(W) - 1)))
    return spread if least < spread < most else 0.0


def _rank(W: Array) -> int:
    """The rank of the first samples. A QR decomposition, which is faster, sees that it is full."""
    pivots = abs(np.diagonal(np.asarray(np.linalg.qr(W[0], mode="r"))))
    if (pivots > 1e-5 * pivots.max()).all():
        return int(min(W.shape[1:]))
    values = np.linalg.svd(W[:2], compute_uv=False)
    return int((values > 1e-6 * values[:, :1]).sum(axis=1).max())


def _is_one_span(W: Array) -> bool:
    """True if the rows of two samples together have no higher rank than those of one."""
    if len(W) < 2:
        return False
    both = np.linalg.matrix_rank(np.concatenate(W[:2]), tol=1e-6 * abs(W).max())
    return int(both) == _rank(W)


def _density(W: Array) -> sympy.Expr:
    """The share of entries that are not 0: a fraction where it is the same in every column."""
    counts = (W != 0).sum(axis=1)
    if (counts == counts.flat[0]).all():
        return sympy.Rational(int(counts.flat[0]), W.shape[1])
    return sympy.Float(float((W != 0).mean()), 15)


def _entries(W: Array) -> tuple[str, float, Measured, float, tuple[str, ...]]:
    """The kind, the density, the variance of entries that are not 0, the kurtosis, and the kinds
    that are not told apart, if there are several."""
    squares = W * W
    square = float(squares.mean())
    kurtosis = float((squares * squares).mean()) / square**2 - 3
    size, largest = W.size, float(abs(W).max())
    zeros = int((W == 0).sum())
    if zeros >= _SPARSE * size:
        rest = W[W != 0]
        inner = float((rest**4).mean()) / float((rest**2).mean()) ** 2 - 3
        kind = "sparse" if abs(inner) < _BOUND * math.sqrt(24 / rest.size) else "unknown"
        return kind, 1 - zeros / size, Measured.of_square(rest, 0.0), kurtosis, ()
    if np.ptp(abs(W)) <= _EXACT * largest:
        return "signs", 1.0, Measured.of_square(W, -2.0), -2.0, ()
    laws: tuple[tuple[str, float, float], ...] = (
        ("uniform", math.sqrt(3), 1.6),
        ("truncated normal", 2 / _CUT_SCALE, 5.0),
        ("gaussian", math.inf, 24.0),
    )
    near = []
    for kind, bound, spread in laws:
        wanted = _KURTOSES[kind]
        beyond = largest > bound * math.sqrt(square) * (1 + 5 / math.sqrt(size))
        is_near = abs(kurtosis - wanted) <= _BOUND * math.sqrt(spread / size)
        if is_near and not beyond and _fills(kind, W, square, bound):
            near.append((kind, wanted, bound))
    if not near:
        return "unknown", 1.0, Measured.of_square(W, kurtosis), kurtosis, ()
    chances = {kind: size * _log_density(kind, square, largest) for kind, *_ in near}
    kind, wanted, bound = max(near, key=lambda each: chances[each[0]])
    kinds = tuple(each for each in chances if chances[each] > chances[kind] - _TOLD)
    if len(kinds) > 1:
        widest = max(kurtosis for each, kurtosis, _ in near if each in kinds)
        return kind, 1.0, Measured.of_square(W, widest), wanted, kinds
    if kind == "gaussian":
        return kind, 1.0, Measured.of_square(W, wanted), wanted, ()
    edge = 1.0 if kind == "uniform" else _CUT_EDGE
    return kind, 1.0, Measured.of_bound(largest, size, bound**-2, edge), wanted, ()


def _log_density(kind: str, square: float, largest: float) -> float:
    """The mean of log p over entries of this mean square, at the scale where it is largest."""
    if kind == "uniform":
        return -math.log(2 * largest)
    if kind == "gaussian":
        return -math.log(2 * math.pi * square) / 2 - 0.5
    scale = max(largest / 2, math.sqrt(square))  # of the Gaussian that is cut at two of it
    share = math.log(_CUT[0] - _CUT[1])
    return -math.log(2 * math.pi * scale**2) / 2 - share - square / (2 * scale**2)


def _fills(kind: str, W: Array, square: float, bound: float) -> bool:
    """True if the entries are distributed so: by Kolmogorov and Smirnov."""
    scaled = np.sort((W / math.sqrt(square)).ravel()[:20_000])
    if kind == "uniform":
        law = np.clip((scaled / bound + 1) / 2, 0, 1)
    else:
        law = special.ndtr(scaled if kind == "gaussian" else scaled * _CUT_SCALE)
        law = law if kind == "gaussian" else np.clip((law - _CUT[1]) / (_CUT[0] - _CUT[1]), 0, 1)
    count = len(scaled)
    steps = np.arange(count + 1) / count
    distance = max(float((steps[1:] - law).max()), float((law - steps[:-1]).max()))
    return bool(special.kolmogorov(distance * math.sqrt(count)) > 1e-6)


def _dependent(W: Array) -> str | None:
    """Why the entries are not independent: the singular values' second moment is another.

    Of a large matrix it is that of some rows, or columns: enough to see it.
    """
    if fault := _repeated(W):
        return fault
    density = sympy.S.One if W.all() else _density(W)
    if density == 1 and (fault := _alike(W) or _alike(W.mT) or _symmetric(W)):
        return fault
    if density == 1:
        short = W if W.shape[1] <= W.shape[2] else W.transpose(0, 2, 1)
        W = np.ascontiguousarray(short[:, :_ROWS])
    _, o, i = W.shape
    if min(o, i) < 2 or len(W) < 8:
        return None
    grams = W @ W.transpose(0, 2, 1) if o <= i else W.transpose(0, 2, 1) @ W
    traces = (grams**2).sum(axis=(1, 2))
    squares = W * W
    square, fourth = float(squares.mean()), float((squares * squares).mean())
    rows = square**2  # E W_ak² W_bk², of two rows
    if density < 1 and density.is_Rational:  # as many in every column
        kept = int(density * o)
        rows *= (kept - 1) * o / (kept * (o - 1))
    expected = o * i * (fourth + rows * (o - 1) + square**2 * (i - 1))
    error = traces.std(ddof=1) / math.sqrt(len(W))
    if abs(traces.mean() - expected) > 6 * error:
        return "singular values that are not those of independent entries"
    return None


def _repeated(W: Array) -> str | None:
    """Why initializations depend on each other: each entry has a mean of its own, as of weights
    that are loaded, and noise."""
    count, squares = len(W), W * W
    if count < 8:
        return None
    square, fourth = float(squares.mean()), float((squares * squares).mean())
    total = count * float((W.mean(axis=0) ** 2).sum()) / square
    most = beyond(W[0].size) * (1 + max(fourth / square**2 - 3, 0.0) / count)
    return "a part that is the same in every initialization" if total > most else None


def _shared(b: Array) -> str | None:
    """Why the biases of one initialization depend on each other: their sum has another variance."""
    count, out = b.shape
    if count < 8 or out < 2:
        return None
    ratio = float((b.sum(axis=1) ** 2).sum() / (b**2).sum())
    return "biases that depend on each other" if ratio * count > beyond(count) else None


def beyond(count: int) -> float:
    """The bound that a sum of so many squared standard normal numbers exceeds once in 10⁹."""
    return float(special.chdtri(count, 1e-9))


def _alike(W: Array) -> str | None:
    """Why the entries are not independent: the rows of a matrix differ too little in their sizes,
    as copies of one row do whose entries are moved."""
    squares = W * W
    sizes = squares.sum(axis=2)
    free = len(W) * (sizes.shape[1] - 1)
    within = float(((sizes - sizes.mean(axis=1, keepdims=True)) ** 2).sum())
    apart = float(squares.var())
    few = within < _FEWEST_APART * free * W.shape[2] * apart
    is_known = free > 200 and apart > _EXACT * float(squares.mean()) ** 2
    return "rows or columns of one size" if is_known and few else None


def _symmetric(W: Array) -> str | None:
    """Why a square matrix has no independent entries: it is correlated with its transpose."""
    _, out, fan_in = W.shape
    if out != fan_in or out < 2:
        return None
    above = np.triu(W, 1)
    shared = abs(float(np.vdot(above, np.triu(W.mT, 1))))
    bound = 8 * float((W**2).mean()) * math.sqrt(len(W) * out * (out - 1) / 2)
    return "entries that are those of the transpose" if shared > bound else None


def square(factor: sympy.Expr) -> sympy.Expr:
    """The square of a number, as a fraction if it is one with a small denominator to rounding.

    For example, the decimal 1/√n gives 1/n.
    """
    square = factor**2
    if factor.is_Rational and factor.q <= _SIMPLE:
        return square
    near = Fraction(float(square)).limit_denominator(_SIMPLE)
    if abs(float(near) - float(square)) <= 1e-14 * float(square):
        return sympy.Rational(near.numerator, near.denominator)
    return sympy.Float(float(square), 17)


def _rational(value: float) -> sympy.Expr:
    """A fraction with a small denominator where that is the number, else the float's decimal."""
    near = Fraction(value).limit_denominator(100_000)
    if abs(float(near) - value) <= _EXACT * abs(value):
        return sympy.Rational(near.numerator, near.denominator)
    return _float(value)


def _float(value: float) -> sympy.Expr:
    return sympy.Float(f"{value:.6g}", 15)


def _shown(value: sympy.Expr) -> str:
    return str(value) if value.is_Rational else f"{float(value):.4g}"
