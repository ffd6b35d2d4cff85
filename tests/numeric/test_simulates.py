"""Every `simulate` in chunks: the same bits killed, resumed, extended and computed elsewhere."""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import xarray
from keyword_groups import parameters

import numeric
from derivations.daneshmand import ensembles as batchnorm
from derivations.nait_saada_tanner import sampling
from derive import Gaussian, LowRankGaussian, Network, Orthogonal, activations
from derive.errors import InputError
from derive.recursions import wanted
from numeric import simulations, spectra, training
from numeric.runs import chunks, totals
from numeric.runs import directory as rundir
from numeric.samplers import checked_ensemble

FORK = multiprocessing.get_context("fork")
DRAWS = 2 * 1024 + 100
"""Two whole chunks and a part of one."""

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def gap(draws=DRAWS, *, seed=1, **options):
    return batchnorm.simulate(8, 3, 2, draws, seed=seed, activation=activations.tanh, **options)


def each_gram(draws=DRAWS, *, seed=1, **options):
    return batchnorm.grams(8, 3, 2, draws, seed=seed, centered=True, **options)


def lengths(draws=DRAWS, *, seed=1, **options):
    net = Network(activations.tanh, LowRankGaussian(1, gamma=0.25), C_b=lambda layer: 0.1 * layer)
    return sampling.simulate(net, np.eye(2), 16, 2, draws, seed=seed, **options)


def each_length(draws=DRAWS, *, seed=1, **options):
    net = Network(activations.tanh, Gaussian(1), C_b=0.5)
    return sampling.sample(net, [1.0, 2.0], 6, 2, draws, biases="layer", seed=seed, **options)


def jacobians(draws=DRAWS, *, seed=1, **options):
    net = Network(activations.erf_unit_slope, Orthogonal(1.3), C_b=0.1)
    return spectra.simulate(net, 0.5, 4, 2, draws, layers=[1, 2], seed=seed, **options)


CASES = [gap, each_gram, lengths, each_length, jacobians]
each_case = pytest.mark.parametrize("case", CASES)


def same(one, other):
    if isinstance(one, xarray.Dataset):
        return one.identical(other)
    parts = (one, other) if isinstance(one, tuple) else ([one], [other])
    return all(np.array_equal(*pair) for pair in zip(*parts, strict=True))


def names(path):
    return sorted(each.name for each in path.iterdir())


def chunks_kept(path):
    with np.load(path / "sums.npz") as stored:
        return int(stored["chunks"])


def killed_while_writing(case, path, number):
    """For a child process: the run, killed in the middle of a file that it writes."""
    write, count = rundir.write, itertools.count()

    def writing(content, target):
        if next(count) == number:
            (target.parent / f".{target.name}.abc").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        write(content, target)

    rundir.write = writing
    chunks._SAVE_EVERY, chunks._SAVE_SHARE = 0.0, 0
    case(run=path)


@each_case
def test_a_killed_run_resumes_with_the_same_bits(tmp_path, case):
    """Killed at the manifest, at the empty total, at the first chunk, and at the second."""
    kept = []
    for number in (0, 1, 1, 1):
        child = FORK.Process(target=killed_while_writing, args=(case, tmp_path, number))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        kept.append(chunks_kept(tmp_path) if (tmp_path / "sums.npz").exists() else None)
    assert kept == [None, None, 0, 1]
    expected = case()
    assert same(case(run=tmp_path), expected)
    assert names(tmp_path) == ["lock", "manifest.json", "sums.npz"]
    assert chunks_kept(tmp_path) == 2
    assert same(case(run=tmp_path), expected)


@each_case
def test_more_draws_extend_a_run_and_fewer_are_refused(tmp_path, case):
    assert same(case(1100, run=tmp_path), case(1100))
    assert chunks_kept(tmp_path) == 1
    assert same(case(run=tmp_path), case())
    with pytest.raises(InputError, match=r"^draws: got 1500; wanted 2048 draws, which .* has"):
        case(1500, run=tmp_path)


@each_case
def test_any_executor_gives_the_same_bits(tmp_path, case):
    expected = case()
    with ThreadPoolExecutor(2) as executor:
        assert same(case(executor=executor, window=1), expected)
    with ProcessPoolExecutor(2, FORK) as executor:
        assert same(case(executor=executor), expected)
        assert same(case(executor=executor, run=tmp_path), expected)
    assert chunks_kept(tmp_path) == 2


@each_case
def test_a_run_of_something_else_is_refused(tmp_path, case):
    case(10, run=tmp_path)
    with pytest.raises(InputError, match=r"^run: got .*: its seed is 1 and not 2"):
        case(10, run=tmp_path, seed=2)
    with pytest.raises(
        InputError, match=r"^run: got .*: its sampler is '.*' and not 'ProbeSampler side by side'"
    ):
        numeric.simulate(Network(activations.tanh), [1.0], 8, 2, 50, run=tmp_path)
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"it holds thesis\.tex"):
        case(10, run=tmp_path)


def test_sample_takes_up_a_run_of_simulate(tmp_path):
    """The same networks, of which the one wants each and the other the mean."""
    net = Network(activations.tanh, Gaussian(1))
    table = sampling.simulate(net, [1.0, 2.0], 6, 2, 1024, run=tmp_path)
    each = sampling.sample(net, [1.0, 2.0], 6, 2, DRAWS, run=tmp_path)
    assert np.array_equal(each.K[:1024].mean(axis=0).ravel(), table["K"])
    assert chunks_kept(tmp_path) == 2


@each_case
def test_a_total_of_another_shape_is_damaged(tmp_path, case):
    """Whole by its hash, and none of this ensemble: refused before it is used."""
    case(1100, run=tmp_path)
    directory = rundir.Directory(tmp_path, {})
    directory._reference = np.empty(0)
    directory.save(totals.Sums(np.ones((3, 3))), 1)
    with pytest.raises(InputError, match=r"^run: got .*sums\.npz.* undamaged"):
        case(run=tmp_path)


@pytest.mark.parametrize(
    "simulate",
    [numeric.simulate, batchnorm.simulate, sampling.simulate, spectra.simulate],
    ids=lambda simulate: simulate.__module__,
)
def test_every_simulate_takes_the_same_arguments_in_one_order(simulate):
    named = parameters(simulate)
    sizes = [name for name in named if name in {"width", "depth", "draws"}]
    assert sizes == ["width", "depth", "draws"]
    tail = ("executor", "window", "run", "progress")
    assert {name: named[name] for name in ("seed", *tail)} == {
        **{"seed": 0, "executor": None, "window": None, "run": None, "progress": False}
    }
    for name in tail:
        given = inspect.signature(simulate).parameters.get(name)
        assert given is None or given.kind is inspect.Parameter.KEYWORD_ONLY
    assert [name for name in named if name in tail] == list(tail)


def test_an_argument_of_another_name_is_named():
    """Of a group of keyword arguments, too: `**running`."""
    for simulate, given, name in (
        (numeric.simulate, ([1.0],), "progres"),
        (spectra.simulate, (1.0,), "importence"),
        (training.simulate, ([1.0], [1.0], None, 4, 2), "optimiser"),
    ):
        with pytest.raises(InputError, match=f"^{name}: .* did you mean"):
            simulate(Network("tanh"), *given, **{name: True})


@each_case
@pytest.mark.parametrize(
    "wrong",
    [{"executor": 2}, {"window": 4}, {"run": ""}, {"run": 3}, {"progress": 1}],
    ids=" ".join,
)
def test_odd_options_are_refused(case, wrong):
    (argument,) = wrong
    with pytest.raises(InputError) as refusal:
        case(10, **wrong)
    assert refusal.value.argument == argument


def test_a_window_is_one_or_more():
    with ThreadPoolExecutor(1) as executor:
        for window in (0, -1, 1.5, "2", True):
            with pytest.raises(InputError, match=r"^window: got"):
                lengths(10, executor=executor, window=window)


class Counting(ThreadPoolExecutor):
    """Notes how many chunks it was given before the first was waited for."""

    submitted = 0

    def submit(self, fn, /, *args):
        self.submitted += 1
        return super().submit(fn, *args)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_window_is_how_many_chunks_are_under_way(window):
    with Counting(1) as executor:
        sitting = chunks._Sitting(None, None, chunks.Chunks(1, 6), None)
        source = chunks._in_order(sitting, range(6), lambda *_: executor.submit(int), window)
        assert [next(source)[0], executor.submitted] == [0, window]
        assert [number for number, _ in source] == [1, 2, 3, 4, 5]
        assert executor.submitted == 6


def test_a_run_stays_about_the_reference_that_it_began_with(tmp_path):
    """What a resuming sampler's own draw 0 would be does not matter."""
    net, options = Network(activations.tanh, Orthogonal(1)), chunks.Options(run=tmp_path)
    plan = simulations.Plan(wanted("V"), 1)
    first, again = (
        simulations.make_sampler(checked_ensemble(net, [1.0, 0.5], 6, 2, 1), plan) for _ in range(2)
    )
    expected = simulations.record(first, DRAWS, chunks.Options())
    simulations.record(first, 1024, options)
    vars(again)["reference"] = first.reference + 1
    found = simulations.record(again, DRAWS, options)
    assert np.array_equal(found.reference, first.reference)
    assert np.array_equal(found.sums, expected.sums)


def test_rows_are_joined_and_an_older_total_keeps_its_own():
    none = totals.Rows(np.empty((5, 2)))
    first = none.plus(np.ones((2, 2)))
    both = first.plus(np.zeros((3, 2)))
    assert first.rows.tolist() == [[1, 1], [1, 1]]
    assert both.rows.sum() == 4
    assert len(both.rows) == 5
    assert none.restored(first.arrays(), 2).rows.tolist() == first.rows.tolist()
    assert none.restored(first.arrays(), 3) is None
