"""Ensembles read back from the cache: the same bits, and nothing that was drawn otherwise."""

import os
import time

import numpy as np
import pytest
import xarray

from derivations.claims import kept
from derivations.claims.kept import Shelf, Tally, keeping
from derivations.daneshmand import ensembles
from derivations.nait_saada_tanner import sampling
from derivations.nait_saada_tanner.backward import backward, squares
from derive import Gaussian, LowRankOrthogonal, Network, activations
from numeric import simulate, spectra

NET = Network(activations.tanh, Gaussian(1.5), C_b=0.1)
LOW = Network(activations.tanh, LowRankOrthogonal(1.5, gamma="1/2"), C_b=0.1)
X = [1.0, 0.5, -0.3]


def networks(**changed):
    given = {"width": 8, "depth": 2, "draws": 130, "tensors": "V", "seed": 1, **changed}
    return simulate(NET, given.pop("inputs", X), **given)


DRAWN = {
    "networks": networks,
    "jacobians": lambda: spectra.simulate(NET, 1.0, 6, 2, 3),
    "chain": lambda: ensembles.simulate(20, 3, 4, 70, seed=2),
    "grams": lambda: ensembles.grams(20, 3, 4, 7, seed=2),
    "lengths": lambda: sampling.sample(LOW, np.ones(6), 6, 2, 40, biases="layer"),
    "back": lambda: backward(LOW, np.ones(6), 6, 2, 40, squares),
}


def parts(found):
    return found if isinstance(found, tuple) else (found,)


def tallied(shelf, draw):
    with keeping(shelf) as tally:
        return draw(), (tally.drawn, tally.read)


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_read_back_has_the_same_bits(tmp_path, name):
    draw, shelf = DRAWN[name], Shelf(tmp_path / "ensembles")
    alone = draw()
    first, drawn = tallied(shelf, draw)
    again, read = tallied(shelf, draw)
    assert (drawn, read) == ((1, 0), (0, 1))
    for other in (first, again):
        if isinstance(alone, xarray.Dataset):
            assert alone.identical(other)
        else:
            pairs = zip(parts(alone), parts(other), strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2}, {"draws": 131}, {"width": 9}, {"depth": 3}, {"tensors": ["K", "V"]},
        {"inputs": [1.0, 0.5, -0.3000000000000001]}, {"sampler": "explicit"},
    ],
)  # fmt: skip
def test_another_argument_draws_again(tmp_path, changed):
    shelf = Shelf(tmp_path)
    tallied(shelf, networks)
    assert tallied(shelf, lambda: networks(**changed))[1] == (1, 0)
    assert tallied(shelf, networks)[1] == (0, 1)


@pytest.mark.parametrize(
    ("name", "changed"),
    [("source_hash", "another"), ("version", "99"), ("THREADS", ("WICKGARTEN_TEST_THREADS",))],
)
def test_another_source_package_or_setting_draws_again(tmp_path, monkeypatch, name, changed):
    shelf = Shelf(tmp_path)
    tallied(shelf, networks)
    kept._setting.cache_clear()
    value = changed if isinstance(changed, tuple) else lambda *_: changed
    monkeypatch.setattr(kept, name, value)
    try:
        assert tallied(shelf, networks)[1] == (1, 0)
    finally:
        kept._setting.cache_clear()


def test_the_source_of_both_rooms_counts():
    both = kept.source_hash("derive", "numeric")
    assert len({both, kept.source_hash("derive"), kept.source_hash("numeric")}) == 3


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("spoil", [cut, flipped, lambda _: b"", lambda _: b"\x80\x04N."])
def test_a_file_that_is_not_whole_is_drawn_again_and_put_right(tmp_path, spoil):
    shelf = Shelf(tmp_path)
    tallied(shelf, networks)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    path.write_bytes(spoil(content))
    assert tallied(shelf, networks)[1] == (1, 0)
    assert tallied(shelf, networks)[1] == (0, 1)


def test_a_file_of_another_ensemble_is_not_taken_for_this_one(tmp_path):
    shelf = Shelf(tmp_path)
    tallied(shelf, networks)
    (path,) = tmp_path.iterdir()
    tallied(shelf, lambda: networks(seed=2))
    (other,) = set(tmp_path.iterdir()) - {path}
    path.write_bytes(other.read_bytes())
    assert tallied(shelf, networks)[1] == (1, 0)


def test_what_was_drawn_before_a_fresh_check_is_drawn_again(tmp_path, monkeypatch):
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path))
    tallied(kept.shelf(), networks)
    fresh = kept.shelf(fresh=True)
    assert [tallied(fresh, networks)[1] for _ in range(2)] == [(1, 0), (0, 1)]
    assert [each.name for each in tmp_path.iterdir() if each.name == "ensembles"]


def test_nothing_is_kept_of_a_user_s_own_call_nor_of_a_user_s_own_loss(tmp_path, monkeypatch):
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path))
    networks()
    assert not (tmp_path / "ensembles").exists()
    shelf = Shelf(tmp_path / "ensembles")

    def own():
        return backward(LOW, np.ones(6), 6, 2, 40, lambda last, inputs, rng: last.z)

    assert [tallied(shelf, own)[1] for _ in range(2)] == [(1, 0), (1, 0)]
    assert not (tmp_path / "ensembles").exists()


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    shelf = Shelf(tmp_path / "file")
    assert [tallied(shelf, networks)[1] for _ in range(2)] == [(1, 0), (1, 0)]
    assert "will not be kept" in caplog.text


def test_what_nobody_reads_goes(tmp_path, monkeypatch):
    shelf, now = Shelf(tmp_path), time.time()
    names = ["unread.npz", "old.npz", "new.npz", ".left.npz.aside", "other.txt"]
    for name, days in zip(names, (31, 2, 1, 40, 99), strict=True):
        (tmp_path / name).write_bytes(b"12345678")
        os.utime(tmp_path / name, (now, now - 86400 * days))
    shelf.trim()
    assert {each.name for each in tmp_path.iterdir()} == {"old.npz", "new.npz", "other.txt"}
    monkeypatch.setattr(kept, "MOST", 8)
    shelf.trim()
    assert {each.name for each in tmp_path.iterdir()} == {"new.npz", "other.txt"}
    Shelf(tmp_path / "nowhere").trim()


def test_reading_counts_as_use(tmp_path):
    shelf = Shelf(tmp_path)
    tallied(shelf, networks)
    (path,) = tmp_path.iterdir()
    os.utime(path, (0, 0))
    tallied(shelf, networks)
    shelf.trim()
    assert path.exists()


def test_tallies_add_up():
    assert Tally(1, 2, 5.0) + Tally(3, 4, 2.0) + Tally() == Tally(4, 6, 2.0)
    assert (Tally(1) + Tally(2)).oldest is None
