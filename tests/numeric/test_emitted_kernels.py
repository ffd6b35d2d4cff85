"""Modules that hold copies of this package's kernels: the same numbers, and all that they call."""

from __future__ import annotations

import dis
import inspect
import sys
from collections import Counter

import numpy as np
import pytest
from numba.core import event

from numeric.emit import jit, kernels, pipelines, tiles, vectors
from numeric.estimators import moments, polynomials
from numeric.random import lazy, philox
from numeric.samplers import jet_kernels, path_kernels, stage_kernels, wishart_kernels
from numeric.samplers.forward_kernels import LANES


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path))
    return tmp_path


def test_a_copy_gives_the_bits_of_its_kernel():
    module = kernels.load_kernels("copies", "Normals and frames.", [philox.fill_normals])
    copied, drawn = np.empty(40), np.empty(40)
    key = philox.stream_key(7)
    module.fill_normals(copied, key, 1, 2, 3)
    philox.fill_normals(drawn, key, 1, 2, 3)
    assert np.array_equal(copied, drawn)


@jit.driver
def combine(line, rows, factor, place, out, room, sums, roots):
    for k in range(out.shape[0]):
        value = vectors.all_lanes(factor) * vectors.load_row(rows, k)
        moved = vectors.load_eight(line, place + k) - vectors.load_row(rows, k + 1)
        vectors.store_row(out, k, value + moved)
        ratio = vectors.load_row(rows, k) / vectors.load_row(rows, k + 1)
        vectors.store_row(roots, k, vectors.root(ratio * ratio))
        sums[k] = vectors.sum_of_lanes(moved)
    vectors.store_eight(room, place, vectors.load_eight(rows, place))


def test_vectors_act_lane_by_lane_at_any_place():
    rng = np.random.default_rng(0)
    line, rows = rng.standard_normal(13), rng.standard_normal((4, vectors.LANES))
    out, room, sums = np.empty((3, vectors.LANES)), np.zeros(14), np.empty(3)
    roots = np.empty_like(out)
    combine(line, rows, 3.0, np.uint64(3), out, room, sums, roots)
    np.testing.assert_allclose(roots, abs(rows[:3] / rows[1:]), rtol=1e-15)
    moved = np.lib.stride_tricks.sliding_window_view(line, vectors.LANES)[3:]
    np.testing.assert_allclose(out, 3.0 * rows[:3] - rows[1:] + moved, rtol=0, atol=1e-14)
    np.testing.assert_allclose(sums, (moved - rows[1:]).sum(axis=1), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(room[3:11], rows.ravel()[3:11])
    assert not room[:3].any()
    assert not room[11:].any()


def test_kernels_are_compiled_anew_where_what_all_of_them_import_is_another(monkeypatch):
    def name():
        kernels._text.cache_clear()
        return kernels.load_kernels("anew", "Frames.", [lazy.orthonormalise]).__name__

    read, before = inspect.getsource, name()
    assert name() == before
    for module in (jit, pipelines, tiles, vectors):
        with monkeypatch.context() as patched:
            patched.setattr(inspect, "getsource", lambda of, m=module: read(of) + "#" * (of is m))
            assert name() != before
    assert name() == before


def test_entries_alone_can_be_called_from_python_and_are_kept(cache):
    module = kernels.load_kernels("frames", "Frames.", [lazy.orthonormalise])
    rows = np.random.default_rng(0).standard_normal((2, 9))
    module.orthonormalise(rows, 9)
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-15)
    assert len(list(cache.glob("__pycache__/frames_*.orthonormalise-*.nbi"))) == 1
    assert not list(cache.glob("__pycache__/*.dot-*"))


def test_what_kernels_call_is_optimised_in_its_caller_alone():
    """Code that LLVM has optimised keeps no numbers of this kind in memory."""
    module = kernels.load_kernels("once", "Frames.", [lazy.orthonormalise])
    module.orthonormalise(np.random.default_rng(0).standard_normal((2, 9)), 9)
    ((called,), (entry,)) = (
        each.overloads.values() for each in (module.dot, module.orthonormalise)
    )
    assert "alloca double" in called.library.get_llvm_str()
    assert "alloca double" not in entry.library.get_llvm_str()


def test_numbers_are_copied_to_the_last_bit():
    module = kernels.load_kernels("numbers", "Streams.", [philox.fill_normals])
    mine = vars(module)
    names = [name for name in mine if name.startswith("_") and name in vars(philox)]
    numbers = [name for name in names if isinstance(mine[name], float | int | np.generic)]
    assert len(numbers) > 20
    for name in numbers:
        copied, own = mine[name], getattr(philox, name)
        assert type(copied) is type(own), name
        assert copied == own, name


def test_a_module_is_its_text_so_that_what_is_kept_is_never_stale():
    """A kernel below the entry, or a number below that, makes another module."""
    text = kernels._text("Frames.", (lazy.orthonormalise,), "", ())
    assert text.count("@entry") == 1
    for called in ("def dot(", "def add_multiple(", "def put_multiple("):
        assert called in text


def test_parts_are_compiled_once_for_the_modules_that_call_them():
    source = "@entry\ndef total(X, out):\n    add_columns(X, 5, out)\n    return {} * out[0]\n"
    parts = (stage_kernels.add_columns,)
    modules = [
        kernels.load_kernels("calls", "One.", (), source.format(k), (), parts) for k in (1, 2)
    ]
    assert modules[0].add_columns is modules[1].add_columns
    for k, module in enumerate(modules, start=1):
        assert module.total(np.ones((5, LANES)), np.zeros(LANES)) == 5.0 * k
    assert len(modules[0].add_columns.signatures) == 1


def test_kernels_are_compiled_once_for_all_literals_and_without_text():
    """Infinite keys, which are queries too: √d L, row after row, of a kernel L Lᵀ."""
    m, size = 3, 5
    module = kernels.load_kernels("heads", "A head.", [wishart_kernels.draw_head])
    L = np.random.default_rng(0).standard_normal((m * m, LANES))
    query, key, value = np.empty((3, m * m, LANES))
    words = np.empty((4, wishart_kernels.TILE * LANES), np.uint64)
    rooms = np.zeros((m * m, LANES)), np.empty((m * m + 4, LANES)), np.empty((m, LANES)), words
    networks, seed = np.arange(LANES, dtype=np.uint64), philox.stream_key(1)
    given = (L, L, L), (query, key, value), (m, size, m), (True, True), networks, (seed, 0, 0)
    with event.install_recorder("numba:compile") as recorder:
        module.draw_head(*given, rooms)
    np.testing.assert_allclose(key, np.sqrt(size) * L, rtol=1e-15)
    assert np.array_equal(query, key)
    compiled = [each.data["dispatcher"].py_func for _, each in recorder.buffer if each.is_start]
    own = Counter(each.__name__ for each in compiled if each.__module__ == module.__name__)
    assert own["put_product"] == own["fill_normals"] == own["put_pairs"] == 1
    assert "numba.cpython.unicode" not in {each.__module__ for each in compiled}


def test_two_kernels_of_one_name_are_refused():
    assert lazy.orthonormalise is not path_kernels.orthonormalise
    with pytest.raises(ValueError, match="orthonormalise"):
        kernels._text("Both.", (lazy.apply, path_kernels.orthonormalise), "", ())


def test_the_same_number_from_two_modules_is_no_clash():
    """`_ROUND` is one of philox and of fastmath."""
    source = "@entry\ndef tanh_of(z):\n    return fastmath.tanh(z)\n"
    module = kernels.load_kernels("both", "Both.", [philox.fill_normals], source)
    assert module.tanh_of(0.5) == pytest.approx(np.tanh(0.5), rel=1e-15)


EVERY = [
    polynomials.evaluate,
    moments.accumulate,
    lazy.apply,
    lazy.add_bias,
    lazy.grams,
    jet_kernels.vary,
    jet_kernels.chain,
    path_kernels.draw,
    path_kernels.advance,
    path_kernels.sum_over_neurons,
]


@pytest.mark.parametrize("kernel", EVERY, ids=lambda kernel: kernel.py_func.__qualname__)
def test_nothing_that_a_kernel_reads_is_missing(kernel):
    """Every global of every function in the module is in the module, or one of Python's."""
    text = kernels._text("One.", (kernel,), "", ())
    name = kernel.py_func.__name__
    module = kernels.modules.load(text, "complete")
    functions = [value for value in vars(module).values() if hasattr(value, "py_func")]
    assert name in {each.py_func.__name__ for each in functions}
    known = vars(module) | vars(sys.modules["builtins"])
    for each in functions:
        code = each.py_func.__code__
        loaded = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
        assert loaded <= known.keys(), each.py_func.__name__


@jit.driver
def double(x):
    jit.wide_vectors()
    for i in range(x.size):
        x[i] *= 2.0


def test_wide_vectors_are_asked_of_the_compiler():
    x = np.arange(100.0)
    double(x)
    assert np.array_equal(x, 2.0 * np.arange(100.0))
    (compiled,) = double.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in compiled
