"""Philox against its published vectors, normals against their law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from derive.errors import InputError
from numeric.random import fill_normals, padded, philox, stream_key

WORDS = st.integers(0, 2**32 - 1)


def words(*values):
    return tuple(np.uint64(value) for value in values)


def slow_philox(counter, key):
    """Philox4x32-10 in Python's integers, as Salmon et al. print it."""
    for _ in range(10):
        low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = (
            (high >> 32) ^ counter[1] ^ key[0],
            high % 2**32,
            (low >> 32) ^ counter[3] ^ key[1],
            low % 2**32,
        )
        key = ((key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32)
    return counter


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Random123's kat_vectors, philox4x32 10
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (2**32 - 1,) * 4,
            (2**32 - 1,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter, key, expected):
    assert tuple(map(int, philox.philox(words(*counter), words(*key)))) == expected
    assert slow_philox(counter, key) == expected


@settings(deadline=None)  # the first call compiles
@given(st.tuples(*[WORDS] * 4), st.tuples(*[WORDS] * 2))
def test_equals_the_slow_version(counter, key):
    assert tuple(map(int, philox.philox(words(*counter), words(*key)))) == slow_philox(counter, key)


@settings(deadline=None)
@given(seed=st.integers(0, 2**64 - 1), stream=st.tuples(*[WORDS] * 3), blocks=st.integers(1, 40))
def test_normals_are_box_mullers_transform_of_the_words(seed, stream, blocks):
    out = np.empty(4 * blocks)
    fill_normals(out, stream_key(seed), *map(np.int64, stream))
    key = (seed % 2**32, seed >> 32)
    lanes = np.array([slow_philox((block, *stream), key) for block in range(blocks)], float).T
    for word, angle, x, y in (
        (lanes[0], lanes[1], *out.reshape(4, -1)[:2]),
        (lanes[2], lanes[3], *out.reshape(4, -1)[2:]),
    ):
        radius = np.sqrt(-2 * np.log((word + 0.5) / 2**32))
        np.testing.assert_allclose(np.hypot(x, y), radius, rtol=2e-15, atol=2e-15)
        quarter, within = np.divmod(angle, 2**30)
        turned = (quarter // 2) * np.pi + (quarter % 2) * np.pi / 2
        phase = turned + (within + 0.5) / 2**30 * np.pi / 2 - np.pi / 4
        np.testing.assert_allclose(x, radius * np.cos(phase), rtol=0, atol=1e-14)
        np.testing.assert_allclose(y, radius * np.sin(phase), rtol=0, atol=1e-14)


def test_normals_have_the_normal_law():
    """KS and four moments at z < 5: false alarms below 1e-5 in all."""
    count = 400_000
    x = philox.normals(11, 3, 2, 1, count)
    assert stats.kstest(x, "norm").pvalue > 1e-6
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(x**power) - mean) < 5 * np.sqrt(variance / count)
    assert 4 < np.abs(x).max() < 6.8


@pytest.mark.parametrize("other", [(12, 3, 2, 1), (11, 4, 2, 1), (11, 3, 5, 1), (11, 3, 2, 6)])
def test_streams_are_uncorrelated(other):
    """Correlations of the numbers and of their squares at z < 5."""
    count = 100_000
    x, y = philox.normals(11, 3, 2, 1, count), philox.normals(*other, count)
    assert abs(x @ y) < 5 * np.sqrt(count)
    assert abs((x**2 - 1) @ (y**2 - 1)) < 5 * 2 * np.sqrt(count)


def test_lanes_are_uncorrelated():
    count = 100_000
    lanes = philox.normals(5, 0, 0, 0, 4 * count).reshape(4, count)
    off_diagonal = (lanes @ lanes.T)[np.triu_indices(4, 1)]
    assert np.abs(off_diagonal).max() < 5 * np.sqrt(count)


def test_the_same_stream_gives_the_same_bits():
    assert np.array_equal(philox.normals(1, 2, 3, 4, 101), philox.normals(1, 2, 3, 4, 101))


def test_padding():
    assert [padded(count) for count in (0, 1, 4, 5, 100)] == [0, 4, 4, 8, 100]


def test_keys_tell_seeds_and_labels_apart():
    keys = [tuple(stream_key(*labels)) for labels in ((7,), (8,), (7, 100), (7, 200), (8, 100))]
    assert len(set(keys)) == len(keys)
    assert tuple(stream_key(7 + (9 << 32))) == (7, 9)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0"])
def test_bad_seeds(seed):
    with pytest.raises(InputError, match="seed"):
        stream_key(seed)


@pytest.mark.parametrize("stream", [(-1, 0, 0, 1), (0, 2**32, 0, 1), (0, 0, 0.5, 1), (0, 0, 0, -1)])
def test_bad_streams(stream):
    with pytest.raises(InputError):
        philox.normals(0, *stream)
