"""Runs: the same bits from any executor, after any interruption; what is refused."""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numba
import numpy as np
import pytest
import xarray

from derivations.commands import options as reading
from derive import activations
from derive.errors import InputError
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Gaussian, Orthogonal
from numeric import simulations
from numeric.estimators import observables
from numeric.runs import chunks
from numeric.runs import directory as rundir
from numeric.samplers import checked_ensemble
from numeric.simulations import make_sampler, simulate

ROOT = Path(__file__).parents[2]
FORK = multiprocessing.get_context("fork")
DRAWS = 5 * 1024 + 300

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def new_sampler(seed=1, width=6, tensors=("V", "Theta"), activation=activations.tanh, **network):
    net = Network(activation, Orthogonal(1), lambda_b=lambda layer: 1 / layer, **network)
    ensemble = checked_ensemble(net, [[1.0, 0.5], [0.0, 2.0]], width, 3, seed)
    found = make_sampler(ensemble, observables.Plan(wanted(tensors), 2))
    assert found.chunk == 1024
    return found


def record(sampler=None, draws=DRAWS, **options):
    return simulations.record(sampler or new_sampler(), draws, chunks.Options(**options))


@pytest.fixture(scope="module")
def expected():
    """The sums of an uninterrupted run here."""
    return record().sums


def chunks_kept(path):
    with np.load(path / "sums.npz") as stored:
        return int(stored["chunks"])


def names(path):
    return sorted(each.name for each in path.iterdir())


class StopError(Exception):
    """What interrupts the runs of these tests."""


def stopping(sampler, first, last=10**9):
    """The sampler, but raising on the chunks from number `first` to `last`."""
    whole = sampler.sums

    def sums(start, stop, *others, **options):
        if first <= start // sampler.chunk <= last:
            raise StopError
        return whole(start, stop, *others, **options)

    object.__setattr__(sampler, "sums", sums)
    return sampler


@pytest.mark.parametrize("stop", range(6))
def test_an_interrupted_run_resumes_with_the_same_bits(tmp_path, expected, stop):
    with pytest.raises(StopError):
        record(stopping(new_sampler(), stop), run=tmp_path)
    assert chunks_kept(tmp_path) == stop
    resumed = record(run=tmp_path)
    assert np.array_equal(resumed.sums, expected)
    assert names(tmp_path) == ["lock", "manifest.json", "sums.npz"]
    assert chunks_kept(tmp_path) == 5


def test_more_draws_extend_a_finished_run(tmp_path, expected):
    record(draws=700, run=tmp_path)
    assert chunks_kept(tmp_path) == 0
    record(draws=2048, run=tmp_path)
    record(draws=2500, run=tmp_path)
    assert chunks_kept(tmp_path) == 2
    found = record(stopping(new_sampler(), 0, 1), run=tmp_path)
    assert np.array_equal(found.sums, expected)
    assert found.draws == DRAWS
    again = record(stopping(new_sampler(), 0, 4), run=tmp_path)
    assert np.array_equal(again.sums, expected)
    with pytest.raises(InputError, match=r"^draws: got 4096; wanted 5120 draws, which .* has"):
        record(draws=4096, run=tmp_path)


def killed_while_writing(path, number, moment):
    """For a child process: the run, killed at a file that it writes."""
    write, count = rundir.write, itertools.count()

    def writing(content, target):
        doomed = next(count) == number
        if doomed and moment == "half":
            (target.parent / f".{target.name}.abc").write_bytes(b"half")
        elif not doomed or moment == "after":
            write(content, target)
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    rundir.write = writing
    chunks._SAVE_EVERY, chunks._SAVE_SHARE = 0.0, 0
    record(run=path)


@pytest.mark.parametrize("moment", ["before", "half", "after"])
def test_a_run_killed_at_any_file_resumes_with_the_same_bits(tmp_path, expected, moment):
    """Every call is killed: at the manifest, the empty sums, the sums of the first chunk, …"""
    for number in (0, 1, 1, 1):
        child = FORK.Process(target=killed_while_writing, args=(tmp_path, number, moment))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    assert np.array_equal(record(run=tmp_path).sums, expected)
    assert names(tmp_path) == ["lock", "manifest.json", "sums.npz"]


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_leaves_a_chunk_at_the_next_batch_and_keeps_the_finished_ones(
    tmp_path, expected, threads
):
    sampler, whole, calls = new_sampler(width=400), new_sampler(width=400), [0, 0]

    def counting(sampler, place):
        layers = sampler.layers

        def counted(draws):
            if draws[0] >= 2048:
                calls[place] += 1
                if place and calls[place] == 1:
                    os.kill(os.getpid(), signal.SIGINT)
            return layers(draws)

        object.__setattr__(sampler, "layers", counted)

    counting(whole, 0)
    counting(sampler, 1)
    expected = record(whole).sums
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        with pytest.raises(KeyboardInterrupt):
            record(sampler, run=tmp_path)
    finally:
        numba.set_num_threads(before)
    assert calls[1] < calls[0]  # how soon a signal is heard is the machine's affair
    waiting = len(list(tmp_path.glob("chunk-*.npz")))
    assert chunks_kept(tmp_path) + waiting >= 3 - threads  # another may be under way
    assert np.array_equal(record(new_sampler(width=400), run=tmp_path).sums, expected)


def test_ctrl_c_while_a_chunk_is_counted_keeps_it(tmp_path, expected, monkeypatch):
    total, counted = type(new_sampler().total()), itertools.count()
    plus = total.plus

    def interrupted(self, found):
        if next(counted) == 2:
            raise KeyboardInterrupt
        return plus(self, found)

    monkeypatch.setattr(total, "plus", interrupted)
    with ThreadPoolExecutor(1) as executor, pytest.raises(KeyboardInterrupt):
        record(run=tmp_path, executor=executor)
    assert chunks_kept(tmp_path) == 2
    assert (tmp_path / "chunk-2.npz").exists()
    assert np.array_equal(record(run=tmp_path).sums, expected)


def test_ctrl_c_on_the_command_line(tmp_path):
    """Status 130, and what was finished is there to go on from."""
    sizes = ["--width", "20", "--depth", "3", "--draws", str(10**9), "--input", "random:0:3"]
    command = [sys.executable, "-m", "derivations.cli", "simulate", *sizes, "--seed", "5"]
    command += ["--tensors", "K", "--C_W", "1", "--run", str(tmp_path), "--progress"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        shown = ""
        while not re.search(r"\b[1-9]\d*/10{9}", shown):
            read = process.stderr.read(1)
            assert read, shown
            shown += read
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=600) == 130
    assert rest.endswith("wickgarten: interrupted\n")
    with np.load(tmp_path / "width-20" / "sums.npz") as stored:
        draws = 1024 * int(stored["chunks"])
    assert draws
    net, x = Network(activations.tanh, Gaussian(1)), reading.inputs("random:0:3")
    options = {"width": 20, "depth": 3, "draws": draws + 1024, "tensors": "K", "seed": 5}
    resumed = simulate(net, x, run=tmp_path / "width-20", **options)
    assert np.array_equal(resumed["K"], simulate(net, x, **options)["K"])


def test_the_bar_tells_rate_and_time_left(tmp_path, capsys):
    with pytest.raises(StopError):
        record(stopping(new_sampler(), 3), run=tmp_path)
    record(run=tmp_path, progress=True)
    first, *_, last = capsys.readouterr().err.split("\r")[1:]
    assert f"{3 * 1024}/{DRAWS}" in first
    assert f"{DRAWS}/{DRAWS}" in last
    assert "net/s" in last
    assert "<" in last


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"seed": 2}, "seed is 1 and not 2"),
        ({"width": 8}, "width is 6 and not 8"),
        ({"tensors": ["Theta"]}, "tensors is"),
        ({"activation": activations.sin}, "activation is"),
        ({"C_b": 1}, r"C_b is \[0.0, 0.0, 0.0\] and not \[1.0, 1.0, 1.0\]"),
        ({"lambda_W": 2}, "lambda_W is"),
        ({"first_weights": Gaussian(1)}, "weights is"),
    ],
)
def test_a_run_of_another_ensemble_is_refused(tmp_path, change, key):
    record(draws=10, run=tmp_path)
    with pytest.raises(InputError, match=f"^run: got .*: its {key}"):
        record(new_sampler(**change), 10, run=tmp_path)


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut", "a bit"])
@pytest.mark.parametrize("name", ["manifest.json", "sums.npz", "chunk-3.npz"])
def test_a_damaged_run_is_refused(tmp_path, expected, name, how):
    record(draws=1024, run=tmp_path)
    sampler = new_sampler()
    with rundir.Directory(tmp_path, rundir.manifest(sampler)) as directory:
        *_, reference = directory.kept()
        directory.keep_chunk(3, sampler.sums(3072, 4096, reference))
    damage(tmp_path / name, how)
    with pytest.raises(InputError, match=rf"^run: got .*{name}.* (un)?damaged"):
        record(run=tmp_path)
    (tmp_path / name).unlink()
    if name != "manifest.json":
        assert np.array_equal(record(run=tmp_path).sums, expected)


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"it holds thesis\.tex"):
        record(run=tmp_path)
    assert names(tmp_path) == ["thesis.tex"]
    with pytest.raises(InputError, match=r"^run: got .*thesis\.tex"):
        record(run=tmp_path / "thesis.tex")


def test_a_manifest_of_something_else_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(["a", "b"]))
    with pytest.raises(InputError, match="damaged or no manifest"):
        record(run=tmp_path)
    (tmp_path / "manifest.json").unlink()
    np.savez(tmp_path / "sums.npz", sums=0)
    with pytest.raises(InputError, match=r"it has sums.npz but no manifest.json"):
        record(run=tmp_path)


def test_a_directory_in_use_is_refused(tmp_path):
    with rundir.Directory(tmp_path, {"format": 1}), ProcessPoolExecutor(1, FORK) as other:
        error = other.submit(record, None, 10, run=tmp_path).exception()
    assert isinstance(error, InputError)
    assert "in use" in str(error)


@pytest.mark.parametrize("name", ["sums.npz", "manifest.json", "lock", "chunk-3.npz"])
@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a link"])
def test_what_cannot_be_read_to_an_end_is_refused_at_once(tmp_path, name, kind):
    record(draws=10, run=tmp_path / "run")
    path = tmp_path / "run" / name
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=rf"^run: got .*: its {re.escape(name)} is no file"):
        record(draws=10, run=tmp_path / "run")


def test_a_manifest_that_is_nested_without_end_is_damaged(tmp_path):
    record(draws=10, run=tmp_path)
    (tmp_path / "manifest.json").write_text("[" * 10**5)
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        record(draws=10, run=tmp_path)


def test_a_damaged_file_brings_no_advice_to_trust_it(tmp_path):
    record(draws=10, run=tmp_path)
    (tmp_path / "sums.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match="undamaged") as caught:
        record(draws=10, run=tmp_path)
    assert "pickle" not in str(caught.value)


FAULTS = (errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


def unwritable(monkeypatch, fault, allowed=0):
    """Every file but the first few cannot be written."""
    count, mkstemp = itertools.count(), tempfile.mkstemp

    def failing(*arguments, **options):
        if next(count) >= allowed:
            raise OSError(fault, os.strerror(fault))
        return mkstemp(*arguments, **options)

    monkeypatch.setattr("numeric.emit.modules.tempfile.mkstemp", failing)


@pytest.mark.parametrize("fault", FAULTS, ids=os.strerror)
@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch, expected, fault, allowed):
    """At the manifest, the empty sums, and the sums of some chunks; what is there is kept."""
    with monkeypatch.context() as patch:
        unwritable(patch, fault, allowed)
        with pytest.raises(InputError, match=os.strerror(fault)) as caught:
            record(run=tmp_path)
    assert caught.value.argument == "run"
    assert caught.value.got == str(tmp_path)
    assert np.array_equal(record(run=tmp_path).sums, expected)


def test_a_limit_of_file_sizes_is_told_in_one_line(tmp_path, expected):
    """EFBIG from the system itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(InputError, match=r"^run: got .*File too large"):
            record(run=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert np.array_equal(record(run=tmp_path).sums, expected)


def test_a_finished_run_is_read_where_nothing_can_be_written(tmp_path, monkeypatch, expected):
    record(run=tmp_path)

    def locked(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(rundir, "_locked", locked)
    unwritable(monkeypatch, errno.EROFS)
    before = names(tmp_path)
    assert np.array_equal(record(stopping(new_sampler(), 0, 4), run=tmp_path).sums, expected)
    with pytest.raises(InputError, match=r"^run: got .*can be written \(Read-only file system\)"):
        record(draws=6 * 1024, run=tmp_path)
    assert names(tmp_path) == before
    with pytest.raises(InputError, match="Read-only file system"):
        record(run=tmp_path / "new")


def test_only_the_last_directory_is_made(tmp_path):
    with pytest.raises(InputError, match=r"^run: got .*directory that exists"):
        record(draws=10, run=tmp_path / "typing error" / "run")
    assert names(tmp_path) == []
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="a link to nothing"):
        record(draws=10, run=tmp_path / "link")


@pytest.mark.parametrize("run", ["", "a\0b", b"run", 1.5, ["run"], "\ud800"])
def test_a_run_is_the_path_of_a_directory(run):
    with pytest.raises(InputError, match=r"^run: got .*path"):
        simulate(Network(activations.tanh), [1.0], 4, 2, 50, run=run)


def test_the_same_draws_are_asked_for_again(tmp_path):
    """Whole chunks are kept; the rest is sampled again, with the same bits."""
    draws, net = 3 * 1024 + 500, Network(activations.tanh, Orthogonal(1))
    first, again = (simulate(net, [1.0, 2.0], 6, 2, draws, run=tmp_path) for _ in range(2))
    xarray.testing.assert_identical(first, again)
    assert chunks_kept(tmp_path) == 3
    with pytest.raises(InputError, match=r"^draws: got 3071; wanted 3072 draws"):
        simulate(net, [1.0, 2.0], 6, 2, 3071, run=tmp_path)


class Reversed(Executor):
    """Computes what it was sent only when it is full, the last first."""

    def __init__(self, size):
        self.size, self.held = size, []

    def submit(self, fn, /, *args):
        self.held.append((Future(), fn, args))
        future = self.held[-1][0]
        if len(self.held) == self.size:
            for waiting, function, arguments in reversed(self.held):
                waiting.set_result(function(*arguments))
            self.held = []
        return future


def test_any_executor_gives_the_same_bits(expected):
    with ThreadPoolExecutor(2) as executor:
        assert np.array_equal(record(executor=executor).sums, expected)
    with ProcessPoolExecutor(2, FORK) as executor:
        assert np.array_equal(record(executor=executor).sums, expected)
    assert np.array_equal(record(executor=Reversed(3)).sums, expected)


def test_simulate_runs_anywhere_and_goes_on(tmp_path):
    """A network with functions of the layer, which only a table of their values can be sent."""
    net = Network(
        activations.tanh,
        Gaussian(1),
        C_b=lambda layer: 0.1 * layer,
        lambda_b=lambda layer: 1 / layer,
        width_ratio=lambda layer: layer,
    )

    def table(draws, **options):
        return simulate(net, [1.0, 2.0], 4, 3, draws, tensors=["V", "Theta", "D"], **options)

    expected = table(2500)
    with ProcessPoolExecutor(2, FORK) as executor:
        xarray.testing.assert_identical(table(2500, executor=executor), expected)
        table(1100, executor=executor, run=tmp_path)
    xarray.testing.assert_identical(table(2500, run=tmp_path), expected)
    with pytest.raises(InputError, match=r"^run: got .*: its seed is 0 and not 1"):
        table(2500, run=tmp_path, seed=1)
    with pytest.raises(InputError, match=r"^run: got .*: its sampler is 'PathSampler' and not"):
        table(2500, run=tmp_path, sampler="explicit")


class Failing(Executor):
    """Fails at one chunk; those after it are done before it is asked for."""

    def __init__(self, chunk):
        self.chunk = chunk

    def submit(self, fn, /, task, start, stop):
        future = Future()
        if start // 1024 == self.chunk:
            future.set_exception(StopError())
        else:
            future.set_result(fn(task, start, stop))
        return future


def test_chunks_that_wait_for_another_are_kept(tmp_path, expected):
    for chunk in (1, 5):
        with pytest.raises(StopError):
            record(run=tmp_path, executor=Failing(chunk))
        waiting = {1: ["chunk-2.npz", "chunk-3.npz", "chunk-4.npz"], 5: []}[chunk]
        assert names(tmp_path) == [*waiting, "lock", "manifest.json", "sums.npz"]
        assert chunks_kept(tmp_path) == chunk
    found = record(stopping(new_sampler(), 0, 4), run=tmp_path)
    assert np.array_equal(found.sums, expected)


def test_a_worker_that_dies_leaves_a_run_that_goes_on(tmp_path, expected):
    with ProcessPoolExecutor(1, FORK) as executor:
        executor.submit(os.getpid).result()
        executor.submit(os._exit, 1)
        with pytest.raises(BrokenProcessPool):
            record(run=tmp_path, executor=executor)
    assert np.array_equal(record(run=tmp_path).sums, expected)


def test_what_cannot_be_sent_is_refused():
    sampler = new_sampler()
    object.__setattr__(sampler, "reference", sampler.reference)
    vars(sampler)["hook"] = lambda: None
    with pytest.raises(InputError, match=r"^executor: got .*cannot be pickled"):
        record(sampler, executor=Reversed(1))


class Deadly(Executor):
    """Passes calls on, and kills a worker of the cluster after some of them."""

    def __init__(self, executor, calls, kill):
        self.executor, self.calls, self.kill = executor, calls, kill

    def submit(self, fn, /, *args):
        future = self.executor.submit(fn, *args)
        self.calls -= 1
        if self.calls == 0:
            self.kill()
        return future


def test_dask_makes_up_for_a_worker_that_is_killed(expected):
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        first, second = sorted(client.run(os.getpid).values())
        executor = Deadly(client.get_executor(), 4, lambda: os.kill(first, signal.SIGKILL))
        assert np.array_equal(record(executor=executor).sums, expected)
        assert first not in client.run(os.getpid).values()
        assert second in client.run(os.getpid).values()


PAGE = (ROOT / "docs/howto/cluster.md").read_text(encoding="utf-8")


def printed(tmp_path, title, launcher, **environment):
    """What the script of a section of the page writes, run in a directory of its own."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [*launcher, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        check=True,
        timeout=500,
    )
    assert chunks_kept(tmp_path / "tanh-run") == 10**5 // 1024
    return xarray.load_dataset(tmp_path / "tanh.nc")


@pytest.fixture(scope="module")
def alone():
    """What the page's scripts compute, by this process alone."""
    return simulate(Network("tanh"), [1.0, 0.5], 100, 30, 10**5)


@pytest.mark.slow
def test_the_page_on_processes_runs_as_printed(tmp_path, alone):
    found = printed(tmp_path, "Processes of this machine", [sys.executable])
    assert all(np.array_equal(found[name], alone[name]) for name in alone)


@pytest.mark.slow
def test_the_page_on_dask_runs_as_printed(tmp_path, alone):
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        found = printed(tmp_path, "Dask", [sys.executable], DASK_SCHEDULER_ADDRESS=address)
    assert all(np.array_equal(found[name], alone[name]) for name in alone)


@pytest.mark.slow
def test_the_page_on_mpi_runs_as_printed(tmp_path, alone):
    pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    mpiexec = shutil.which("mpiexec", path=own)
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    launcher = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    found = printed(tmp_path, "MPI", launcher)
    assert all(np.array_equal(found[name], alone[name]) for name in alone)


PLANNED = [
    (Network("tanh"), 1, 100, 30, ["K", "V"]),
    (Network("tanh"), 1, 100, 30, ["A", "B", "D", "F"]),
    (Network("tanh"), 1, 1000, 30, ["A", "B", "D", "F"]),
    (Network("tanh"), 4, 1000, 30, ["Theta", "D", "F"]),
    (Network("tanh", layer="attention(heads=4, positions=8)"), 8, 64, 8, ["K"]),
]


@pytest.mark.parametrize("row", range(len(PLANNED)))
def test_the_blocks_of_the_plan_have_these_sizes(row):
    """Networks and bytes back exactly, bytes out to a quarter, and the totals of a million."""
    net, samples, width, depth, tensors = PLANNED[row]
    inputs = np.random.default_rng(0).standard_normal((samples, 64 if samples == 8 else 10))
    ensemble = checked_ensemble(net, inputs, width, depth, 0)
    found = make_sampler(
        ensemble, observables.Plan(wanted(tensors), ensemble.data.measured), "lazy"
    )
    plan = PAGE.split("\n## Plan a million networks\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in plan.splitlines() if line.startswith("| `")]
    block, total = ([each for each in lines if len(each) == columns][row] for columns in (5, 6))
    networks, seconds, out, back = (float(each) for each in block[1:])
    assert found.chunk == networks
    assert 8 * np.prod(found.shape(found.chunk)) == back
    task = len(pickle.dumps((found, found.reference)))
    assert task == pytest.approx(out, rel=0.25)
    blocks = -(-(10**6) // found.chunk)
    assert int(total[1]) == blocks
    assert float(total[3].split()[0]) * 1e9 == pytest.approx(blocks * (back + out), rel=0.03)
    unit = {"s": 1, "min": 60}
    work, by_line = (
        float(value) * unit[name] for value, name in (total[k].split() for k in (2, 4))
    )
    assert work == pytest.approx(blocks * seconds, rel=0.05)
    assert by_line == pytest.approx(blocks * (back + out) / 125e6, rel=0.05)
