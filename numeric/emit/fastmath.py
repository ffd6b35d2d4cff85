"""Functions without branches or calls, so that LLVM vectorises the loop around them.

Arguments are reduced by Cody and Waite's method, x = k ln 2 + r with |r| ≤ ln 2/2 for e^x. What
falls off like e^{−2t} comes from T = tanh r and p = 2^{−k}, t = k ln 2/2 + r:

    e^{−2t} = p (1 − T)/(1 + T),     tanh t = ((1 − p) + T (1 + p))/((1 + p) + T (1 − p)),

so that 1 − tanh², 1 ± tanh and log(1 + e^{−2t}) take one division each and keep their digits far
out. erfc is Shepherd and Laframboise's: e^{x²} erfc x times x + 4, a polynomial in (x − 4)/(x + 4).
Polynomials interpolate at Chebyshev's nodes, to 5e-17 of the value.

Accurate to 1e-15 relative (erfc 2e-15) wherever the result is a normal number, which may be 0 where
it is none; ±∞ and NaN as in libm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import mpmath
import numpy as np

from .jit import scalar

__all__ = [
    "atan", "erf", "erfc", "exp", "sech_squared", "sigmoid", "softplus", "tanh", "vectorised",
]  # fmt: skip


def interpolated(
    function: Callable[[mpmath.mpf], mpmath.mpf], low: float, high: float, degree: int
) -> list[float]:
    """The coefficients, from the constant up, of the polynomial that meets the function at
    `degree` + 1 Chebyshev nodes of (low, high), computed to 40 digits.

    With b = high − low and d = degree it is off by at most 2 (b/4)^{d+1} max |f^{(d+1)}|/(d + 1)!,
    and by no more than 2/π log(d + 1) + 2 times what the best polynomial is off.
    """
    with mpmath.workdps(40):
        return [float(c) for c in reversed(mpmath.chebyfit(function, [low, high], degree + 1))]


_PER_LN2 = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits, so that k·_LN2_HIGH is exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # ln 2 − _LN2_HIGH
_TWICE_PER_LN2, _HALF_HIGH, _HALF_LOW = 2.0 * _PER_LN2, 0.5 * _LN2_HIGH, 0.5 * _LN2_LOW
_ROUND = 1.5 * 2.0**52  # adding it leaves the rounded integer in the last bits
_BIAS, _MANTISSA, _ONE = np.uint64(1023), np.uint64(52), np.uint64(1)  # of a double's bits
_FAR = 354.6  # e^{−2t} is no normal number: k is 1023, and p is 0
_E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11 = interpolated(
    lambda r: (mpmath.expm1(r) - r) / r**2, -0.3467, 0.3467, 9
)
_T1, _T2, _T3, _T4, _T5, _T6 = interpolated(
    lambda w: (mpmath.tanh(mpmath.sqrt(w)) / mpmath.sqrt(w) - 1) / w, 0.0, 0.17329**2, 5
)
_Y1, _Y2, _Y3, _Y4, _Y5, _Y6, _Y7, _Y8, _Y9, _Y10 = interpolated(
    lambda w: 2 * (mpmath.atanh(mpmath.sqrt(w)) / mpmath.sqrt(w) - 1) / w, 0.0, 1.0 / 9.0, 9
)
_EIGHTH = math.tan(math.pi / 8.0)
_PER_EIGHTH = 1.0 / _EIGHTH
_A1, _A2, _A3, _A4, _A5, _A6, _A7, _A8, _A9, _A10, _A11 = interpolated(
    lambda w: (mpmath.atan(mpmath.sqrt(w)) / mpmath.sqrt(w) - 1) / w, 0.0, _EIGHTH**2, 10
)
_QUARTER, _QUARTER_LOW = 0.5 * math.pi, math.cos(0.5 * math.pi)  # π/2, and what that is short of
_NEAR = 0.65  # up to which erf is a polynomial, and 1 − erfc loses no digit beyond it
_F0, _F1, _F2, _F3, _F4, _F5, _F6, _F7, _F8, _F9 = interpolated(
    lambda w: mpmath.erf(mpmath.sqrt(w)) / mpmath.sqrt(w), 0.0, _NEAR**2, 9
)
_GONE = 27.3  # erfc of it is 0
_HIGH_BITS = -(1 << 27)  # of a double: its first 26
(
    _Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7, _Q8, _Q9, _Q10,
    _Q11, _Q12, _Q13, _Q14, _Q15, _Q16, _Q17, _Q18, _Q19, _Q20,
) = interpolated(
    lambda t: (
        mpmath.exp((4 * (1 + t) / (1 - t)) ** 2) * mpmath.erfc(4 * (1 + t) / (1 - t)) * 8 / (1 - t)
    ),
    (_NEAR - 4.0) / (_NEAR + 4.0),
    (_GONE - 4.0) / (_GONE + 4.0),
    20,
)  # fmt: skip


@scalar
def exp(x: float) -> float:
    """e^x."""
    x = 710.0 if x > 710.0 else x
    x = -746.0 if x < -746.0 else x
    shifted = np.float64(x * _PER_LN2 + _ROUND)  # k beside high bits that shift out
    k = shifted - _ROUND
    return _scaled(1.0, shifted.view(np.uint64), (x - k * _LN2_HIGH) - k * _LN2_LOW)


@scalar
def _scaled(value: float, k: np.uint64, r: np.float64) -> float:
    """value·2^k e^r, in two steps: neither a subnormal result nor one near the largest is lost."""
    high = _E6 + r * (_E7 + r * (_E8 + r * (_E9 + r * (_E10 + r * _E11))))
    low = _E2 + r * (_E3 + r * (_E4 + r * (_E5 + r * high)))
    half = k >> _ONE
    return value * (1.0 + (r + r * r * low)) * _power_of_two(half) * _power_of_two(k - half)


@scalar
def _power_of_two(k: np.uint64) -> np.float64:
    return np.uint64((k + _BIAS) << _MANTISSA).view(np.float64)


@scalar
def _halved(t: float) -> tuple[np.float64, np.float64]:
    """(p, T) of t ≥ 0."""
    t = _FAR if t > _FAR else t
    shifted = np.float64(t * _TWICE_PER_LN2 + _ROUND)
    k = shifted - _ROUND
    r = (t - k * _HALF_HIGH) - k * _HALF_LOW
    w = r * r
    series = (_T1 + w * _T2) + (w * w) * ((_T3 + w * _T4) + (w * w) * (_T5 + w * _T6))
    fallen = np.uint64((_BIAS - shifted.view(np.uint64)) << _MANTISSA).view(np.float64)
    return fallen, r + (r * w) * series


@scalar
def tanh(z: float) -> float:
    """tanh z."""
    p, T = _halved(abs(z))
    low, high = 1.0 - p, 1.0 + p
    return math.copysign((low + T * high) / (high + T * low), z)


@scalar
def sech_squared(z: float) -> float:
    """1 − tanh² z."""
    p, T = _halved(abs(z))
    below = (1.0 + p) + T * (1.0 - p)
    return 4.0 * p * (1.0 - T * T) / (below * below)


@scalar
def sigmoid(u: float) -> float:
    """1/(1 + e^{−u})."""
    p, T = _halved(0.5 * abs(u))
    above = 1.0 + T if u > 0.0 else p * (1.0 - T)
    return above / ((1.0 + p) + T * (1.0 - p))


@scalar
def softplus(u: float) -> float:
    """log(1 + e^u) = max(u, 0) + 2 artanh s, s = e^{−|u|}/(2 + e^{−|u|})."""
    p, T = _halved(0.5 * abs(u))
    fallen = p * (1.0 - T)
    s = fallen / (2.0 * (1.0 + T) + fallen)
    w = s * s
    high = _Y6 + w * (_Y7 + w * (_Y8 + w * (_Y9 + w * _Y10)))
    series = _Y1 + w * (_Y2 + w * (_Y3 + w * (_Y4 + w * (_Y5 + w * high))))
    return (u if u > 0.0 else 0.0) + (2.0 * s + (s * w) * series)


@scalar
def atan(x: float) -> float:
    """arctan x = arctan 1 + arctan (x − 1)/(x + 1) = arctan ∞ − arctan 1/x."""
    a = abs(x)
    far, middle = a > _PER_EIGHTH, a > _EIGHTH
    s = (-1.0 if far else (a - 1.0 if middle else a)) / (a if far else (a + 1.0 if middle else 1.0))
    w = s * s
    high = _A6 + w * (_A7 + w * (_A8 + w * (_A9 + w * (_A10 + w * _A11))))
    series = _A1 + w * (_A2 + w * (_A3 + w * (_A4 + w * (_A5 + w * high))))
    turned = 1.0 if far else (0.5 if middle else 0.0)
    return math.copysign(turned * _QUARTER + (turned * _QUARTER_LOW + (s + (s * w) * series)), x)


@scalar
def _erf_near(a: float) -> float:
    """erf a for 0 ≤ a ≤ _NEAR."""
    w = a * a
    high = _F5 + w * (_F6 + w * (_F7 + w * (_F8 + w * _F9)))
    return a * (_F0 + w * (_F1 + w * (_F2 + w * (_F3 + w * (_F4 + w * high)))))


@scalar
def _erfc_far(a: float) -> float:
    """erfc a for a ≥ _NEAR; −a² is −h² − (a − h)(a + h), where h has few bits."""
    a = _GONE if a > _GONE else a
    v = 1.0 / (a + 4.0)
    t = (a - 4.0) * v
    y = t * t
    even = _Q10 + y * (_Q12 + y * (_Q14 + y * (_Q16 + y * (_Q18 + y * _Q20))))
    odd = _Q9 + y * (_Q11 + y * (_Q13 + y * (_Q15 + y * (_Q17 + y * _Q19))))
    even = _Q0 + y * (_Q2 + y * (_Q4 + y * (_Q6 + y * (_Q8 + y * even))))
    odd = _Q1 + y * (_Q3 + y * (_Q5 + y * (_Q7 + y * odd)))
    h = np.int64(np.float64(a).view(np.int64) & _HIGH_BITS).view(np.float64)
    shifted = np.float64(h * h * -_PER_LN2 + _ROUND)
    k = shifted - _ROUND
    r = ((-(h * h) - k * _LN2_HIGH) - k * _LN2_LOW) - (a - h) * (a + h)
    return _scaled((even + t * odd) * v, shifted.view(np.uint64), r)


@scalar
def erfc(x: float) -> float:
    """1 − erf x."""
    a = abs(x)
    near, far = math.copysign(_erf_near(a), x), _erfc_far(a)
    return 1.0 - near if a < _NEAR else (far if x > 0.0 else 2.0 - far)


@scalar
def erf(x: float) -> float:
    """2/√π ∫_0^x e^{−t²} dt."""
    a = abs(x)
    return math.copysign(_erf_near(a) if a < _NEAR else 1.0 - _erfc_far(a), x)


def vectorised(source: str) -> str:
    """Printed source with calls of `math` replaced by the functions of this module."""
    return re.sub(r"\bmath\.(atan|erf|erfc|exp|tanh)\(", r"fastmath.\1(", source)
