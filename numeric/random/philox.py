"""Counter-based random numbers: Philox4x32-10 and the normals made from it.

Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (SC11). A block of four
words is a function of a 64-bit key, the seed, and of a counter (block, network, layer, use): no
state, so that a number depends neither on threads nor on the order in which it is asked for.

Normals come from Box and Muller's transform of 32-bit uniforms (w + ½)/2^32, in double precision:
they reach to 6.8 standard deviations, and their variance is short of 1 by ln 2/2^33 = 8e-11.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from derive.errors import as_integer

from .. import checks
from ..emit.jit import driver, scalar

Counter = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

_TWO_52 = np.uint64(0x4330000000000000)  # the bits of 2^52: or-ing a word in adds it
_UNIT = 2.0**-32
_QUADRANT = np.uint64(0x3FFFFFFF)
_TO_ANGLE = math.pi / 2.0**31
_SIGN_SHIFT, _TOP, _TURN = np.uint64(63), np.uint64(31), np.uint64(30)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_BITS = int(np.float64(_SQRT_HALF).view(np.int64))
_ROUND, _ROUND_BITS = 1.5 * 2.0**52, 0x4338000000000000
_LN2 = math.log(2.0)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = (2.0 / (2 * k + 1) for k in range(9))
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7 = ((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8))
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7 = ((-1.0) ** k / math.factorial(2 * k) for k in range(8))


@scalar
def philox(counter: Counter, key: tuple[np.uint64, np.uint64]) -> Counter:
    """Philox4x32-10: four 32-bit words, each held in 64 bits, from a counter and a key of such."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product_0, product_1 = _MULTIPLY_0 * c0, _MULTIPLY_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> _HALF) ^ c1 ^ k0,
            product_1 & _LOW,
            (product_0 >> _HALF) ^ c3 ^ k1,
            product_0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@driver
def fill_normals(
    out: NDArray[np.float64],
    key: NDArray[np.uint64],
    network: int,
    layer: int,
    use: int,
) -> None:
    """Fill `out`, whose length is a multiple of 4, with N(0, 1) of stream (network, layer, use).

    Number j is lane ⌊j/b⌋ of block j mod b, b a quarter of the length: lanes are stored apart so
    that the loop vectorises.
    """
    blocks = out.size // 4
    words = (key[0], key[1])
    c1, c2, c3 = np.uint64(network), np.uint64(layer), np.uint64(use)
    for block in range(blocks):
        w0, w1, w2, w3 = philox((np.uint64(block), c1, c2, c3), words)
        radius = math.sqrt(twice_minus_log(w0))
        x, y = circle(w1)
        out[block] = radius * x
        out[block + blocks] = radius * y
        radius = math.sqrt(twice_minus_log(w2))
        x, y = circle(w3)
        out[block + 2 * blocks] = radius * x
        out[block + 3 * blocks] = radius * y


@driver
def fill_signs(
    out: NDArray[np.float64],
    key: NDArray[np.uint64],
    network: int,
    layer: int,
    use: int,
) -> None:
    """Fill `out`, whose length is a multiple of 128, with ±1 of stream (network, layer, use)."""
    words = (key[0], key[1])
    c1, c2, c3 = np.uint64(network), np.uint64(layer), np.uint64(use)
    one = np.float64(1.0).view(np.uint64)
    for block in range(out.size // 128):
        for lane, word in enumerate(philox((np.uint64(block), c1, c2, c3), words)):
            at = 128 * block + 32 * lane
            for bit in range(32):
                sign = (word >> np.uint64(bit)) << _SIGN_SHIFT
                out[at + bit] = np.uint64(one | sign).view(np.float64)


@scalar
def _centred(word: np.uint64) -> float:
    """word + ½, exactly; through the bits, because AVX2 cannot convert 64-bit integers."""
    return np.uint64(word | _TWO_52).view(np.float64) - (2.0**52 - 0.5)


@scalar
def twice_minus_log(word: np.uint64) -> float:
    """−2 ln u for u = (word + ½)/2^32 = 2^e m, √½ ≤ m < √2: ln m = 2 artanh((m − 1)/(m + 1))."""
    bits = np.float64(_centred(word) * _UNIT).view(np.int64)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    m = np.int64(bits - (exponent << 52)).view(np.float64)
    e = np.int64(exponent + _ROUND_BITS).view(np.float64) - _ROUND
    s = (m - 1.0) / (m + 1.0)
    y = s * s
    high = _L4 + y * (_L5 + y * (_L6 + y * (_L7 + y * _L8)))
    series = _L0 + y * (_L1 + y * (_L2 + y * (_L3 + y * high)))
    return -2.0 * (e * _LN2 + s * series)


@scalar
def circle(word: np.uint64) -> tuple[float, float]:
    """A point of the unit circle: a quadrant from the top two bits, an angle from the others."""
    x = _centred(word & _QUADRANT) * _TO_ANGLE - math.pi / 4
    y = x * x
    sine_high = _S4 + y * (_S5 + y * (_S6 + y * _S7))
    sine = x * (_S0 + y * (_S1 + y * (_S2 + y * (_S3 + y * sine_high))))
    cosine_high = _C4 + y * (_C5 + y * (_C6 + y * _C7))
    cosine = _C0 + y * (_C1 + y * (_C2 + y * (_C3 + y * cosine_high)))
    quarter_turn = (word >> _TURN) & np.uint64(1)
    sign = (word >> _TOP) << _SIGN_SHIFT
    a = np.float64(-sine if quarter_turn else cosine)
    b = np.float64(cosine if quarter_turn else sine)
    return (
        np.uint64(a.view(np.uint64) ^ sign).view(np.float64),
        np.uint64(b.view(np.uint64) ^ sign).view(np.float64),
    )


def stream_key(seed: int, *labels: int) -> NDArray[np.uint64]:
    """The Philox key of a family of streams: the seed, hashed with labels such as the width.

    Families with different labels are independent, which a comparison across widths needs.

    Raises:
        InputError: unless the seed is an integer in 0 … 2^64 − 1.
    """
    key = checks.seed(seed)
    if labels:
        text = " ".join(str(int(number)) for number in (key, *labels))
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    return np.array([key & 0xFFFFFFFF, key >> 32], np.uint64)


@scalar
def padded(count: int) -> int:
    """The smallest multiple of 4, a whole number of Philox blocks, that is at least count."""
    return count + -count % 4


def whole_blocks(count: int) -> int:
    """`padded`, from Python: with nothing to compile."""
    return count + -count % 4


def normals(seed: int, network: int, layer: int, use: int, count: int) -> NDArray[np.float64]:
    """`count` standard normals of stream (network, layer, use), as the kernels draw them.

    Raises:
        InputError: unless all are integers, 0 or more, and the stream's below 2^32.
    """
    given = {"network": network, "layer": layer, "use": use, "count": count}
    network, layer, use, count = (
        as_integer(name, value, 0, 2**32 - 1) for name, value in given.items()
    )
    out = np.empty(whole_blocks(count))
    fill_normals(out, stream_key(seed), network, layer, use)
    return out[:count]
