"""`wickgarten figure`: small, at a share of its printed size, killed and taken up again."""

import io
import json
import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import derive
from derivations import claims, cli
from derivations.claims import CHAPTERS, Claim, Sampling, Verdict, kept, sampled
from derivations.commands import figure as command
from derivations.daneshmand import convolutions
from derivations.daneshmand import ensembles as batchnorm
from derivations.ledger import figures
from derivations.pictures.panels import one_panel
from derivations.training import descents
from numeric import compare
from numeric.runs import Directory, chunks

ROOT = Path(derive.__file__).parents[1]
SIZES = ((40, 3000), (80, 2000))


def _files(directory):
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in directory.iterdir()
        if path.is_file() and path.name != command.RECORD
    }


def test_a_small_figure_is_that_of_the_book(tmp_path, capsys):
    directory = tmp_path / "six"
    assert cli.main(["figure", "001:6", "--run", str(directory)]) == 0
    out = capsys.readouterr().out
    assert "Figure 6" in out
    assert "correlation maps of tanh" in out
    (claim,) = figures.figure("001:6").claims
    picture = claim.prove().figures
    assert {f"{stem}.svg" for stem in picture} <= set(_files(directory))
    record = json.loads((directory / command.RECORD).read_text(encoding="utf-8"))
    assert (record["source"], record["figure"], record["full"]) == ("001", 6, None)
    assert record["claims"][0]["verdict"] == "numeric"
    assert set(record["files"]) == set(_files(directory))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("009:1", "the source one of 000, 001, 002, 003"),
        ("000:99", "000:1, 000:2"),
        ("004:1", "004 has none"),
        ("3", "SOURCE:NUMBER"),
        ("003:", "SOURCE:NUMBER"),
    ],
)
def test_what_is_no_figure_is_told_with_what_there_is(name, wanted, capsys):
    assert cli.main(["figure", name]) == cli.BAD_INPUT
    err = capsys.readouterr().err
    assert wanted in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--share", "0.5"], "--share"),
        (["--full", "--share", "0"], "--share"),
        (["--full", "--share", "nan"], "--share"),
        (["--full", "--seed", "-1"], "seed"),
        (["--run", "no/such"], "--run"),
        (["--run", ""], "--run"),
        (["--ensembles", "no/such"], "--ensembles"),
        (["--ensembles", ""], "--ensembles"),
        (["--ensembles", "."], "--ensembles"),
        (["--run", "new", "--ensembles", "new"], "--ensembles"),
        (["--run", "new", "--ensembles", "new/a/b"], "--ensembles"),
        (["--data", "mnist:"], "--data"),
    ],
)
def test_odd_options_are_refused(words, argument, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["figure", "003:8", *words]) == cli.BAD_INPUT
    assert argument in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_images_of_a_figure_are_those_that_are_given(tmp_path, capsys, monkeypatch):
    """Of a folder that is not one nothing begins; a directory belongs to one set of images."""
    assert cli.main(["figure", "001:6", "--data", "digits"]) == cli.BAD_INPUT
    assert "trains no networks" in capsys.readouterr().err
    words = ["figure", "000:5", "--run", str(tmp_path / "five")]
    assert cli.main([*words, "--data", f"cifar10:{tmp_path / 'no'}"]) == cli.BAD_INPUT
    assert "cs.toronto.edu" in capsys.readouterr().err
    assert not (tmp_path / "five").exists()
    seen = []

    def experiment(sampling):
        seen.append(sampling.data)
        return Verdict("reduced size", "")

    claim = Claim("000", "Figure 5", "an experiment", experiment, True, True)
    made = figures.SourceFigure("000", 5, (claim,), ())
    monkeypatch.setattr(figures, "figure", lambda name: made)
    assert cli.main(words) == 0
    assert cli.main([*words, "--data", "digits"]) == 0
    rows = np.zeros((10, 3073), np.uint8)
    rows[:, 0] = range(10)
    for name in (f"data_batch_{k}.bin" for k in range(1, 6)):
        (tmp_path / name).write_bytes(rows.tobytes())
    assert cli.main([*words, "--data", f"cifar10:{tmp_path}"]) == cli.BAD_INPUT
    assert "it has data digits" in capsys.readouterr().err
    words[-1] += "-others"
    assert cli.main([*words, "--data", f"cifar10:{tmp_path}"]) == 0
    assert seen == ["digits", "digits", f"cifar10:{tmp_path}"]


def test_figures_share_the_ensembles_of_a_directory(tmp_path, monkeypatch, capsys):
    """What one has drawn another reads back, and neither keeps it in its own directory."""
    drawn = []

    def experiment(sampling):
        table = batchnorm.simulate(4, 3, 2, 10, sampling.seed)
        drawn.append(table["gap_sq"].to_numpy())
        return Verdict("statistical", "")

    own = figures.SourceFigure
    made = {f"000:{k}": own("000", k, (Claim("000", f"Figure {k}", "", experiment, True),), ())
            for k in (5, 6)}  # fmt: skip
    monkeypatch.setattr(figures, "figure", made.__getitem__)
    shared = tmp_path / "networks"
    for name in made:
        where = ["--run", str(tmp_path / name[-1]), "--ensembles", str(shared)]
        assert cli.main(["figure", name, *where]) == 0
        assert [path.name for path in (tmp_path / name[-1]).iterdir()] == [command.RECORD]
        assert len(list(shared.iterdir())) == 1
    capsys.readouterr()
    np.testing.assert_array_equal(*drawn)


@pytest.fixture
def one(monkeypatch):
    """A figure of one small ensemble."""

    def experiment(sampling):
        batchnorm.simulate(4, 3, 2, 10, sampling.seed)
        return Verdict("statistical", "")

    claim = Claim("000", "Figure 5", "an ensemble", experiment, True)
    made = figures.SourceFigure("000", 5, (claim,), ())
    monkeypatch.setattr(figures, "figure", lambda name: made)
    return ["figure", "000:5"]


def test_ensembles_may_be_in_a_new_directory_of_the_figure(one, tmp_path):
    words = [*one, "--run", str(tmp_path / "five"), "--ensembles", str(tmp_path / "five" / "own")]
    for _ in range(2):
        assert cli.main(words) == 0
        assert len(list((tmp_path / "five" / "own").iterdir())) == 1


@pytest.mark.parametrize("kind", ["a file", "a folder", "a link", "no folder"])
def test_ensembles_are_put_beside_ensembles_alone(one, kind, tmp_path, capsys):
    """In a directory of anything else no folder is strewn, and --run is not made."""
    shared, own = tmp_path / "networks", tmp_path / "five"
    words = [*one, "--run", str(own), "--ensembles", str(shared)]
    if kind == "a link":
        shared.symlink_to(tmp_path / "nothing")
    elif kind == "no folder":
        shared.write_text("mine", encoding="utf-8")
    else:
        assert cli.main([*one, "--run", str(tmp_path / "before"), *words[4:]]) == 0
        (shared / "work").mkdir()
        thesis = shared / ("thesis.tex" if kind == "a file" else "work/thesis.tex")
        thesis.write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert cli.main(words) == cli.BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith("wickgarten: --ensembles")
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def _told(words):
    """Of another process: a command's status, and what it tells of an error."""
    with redirect_stderr(io.StringIO()) as err:
        return cli.main(words), err.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="the other process is a fork")
def test_an_ensemble_that_another_process_draws_ends_the_command(one, tmp_path):
    """The claim is not refuted by it, and nothing is recorded."""
    shared, own = tmp_path / "networks", tmp_path / "five"
    words = [*one, "--ensembles", str(shared), "--run"]
    assert cli.main([*words, str(tmp_path / "before")]) == 0
    (path,) = shared.iterdir()
    content = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    fork = multiprocessing.get_context("fork")
    with Directory(path, content), ProcessPoolExecutor(1, fork) as other:
        status, err = other.submit(_told, [*words, str(own)]).result()
    assert status == cli.BAD_INPUT
    assert "in use" in err
    assert len(err.splitlines()) == 1
    assert "claims" not in json.loads((own / command.RECORD).read_text(encoding="utf-8"))
    assert cli.main([*words, str(own)]) == 0


def test_a_directory_of_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    assert cli.main(["figure", "003:8", "--run", str(tmp_path)]) == cli.BAD_INPUT
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    directory = tmp_path / "figure"
    directory.mkdir()
    command._open(directory, {"source": "003", "figure": 8, "full": 1.0, "seed": 0})
    words = ["figure", "003:8", "--run", str(directory)]
    assert cli.main(words) == cli.BAD_INPUT
    assert "it has full 1.0" in capsys.readouterr().err
    (directory / command.RECORD).write_text("[", encoding="utf-8")
    assert cli.main(words) == cli.BAD_INPUT


def test_every_figure_of_the_ledger_is_listed_or_open(capsys):
    assert cli.main(["figure"]) == 0
    out = capsys.readouterr().out
    numbers = {source: figures.figures(source) for source in CHAPTERS}
    assert {source: len(each) for source, each in numbers.items()} == {
        "000": 20, "001": 12, "002": 4, "003": 10, "004": 0, "layers": 0,
        "attention": 0, "deep": 0, "training": 0,
    }  # fmt: skip
    for each in (each for known in numbers.values() for each in known.values()):
        assert each.claims or each.open
        assert bool(re.search(rf"^{each.name} ", out, re.MULTILINE)) == bool(each.claims)
    drawing = {claim for each in figures.drawn() for claim in each.claims}
    others = [
        claim.equation
        for source in CHAPTERS
        for claim in claims.claims([source])
        if claim.equation.startswith("Figure") and claim not in drawing
    ]
    assert not others


def test_the_printed_size_is_a_share_of_networks():
    book, full, part = (Sampling(0, 1e-3, share) for share in (None, 1.0, 0.1))
    assert [each.networks(400, 40) for each in (book, full, part)] == [400, 40, 4]
    assert [each.networks(400) for each in (book, full, part)] == [400, 400, 40]
    assert [each.networks(20) for each in (book, full, part)] == [20, 20, 4]
    assert [each.sizes("book", "print") for each in (book, full, part)] == ["book"] + ["print"] * 2


def test_ensembles_at_the_printed_size_are_counted(one, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("WICKGARTEN_QUIET", raising=False)
    for words, number in ((["--full"], 1), ([], 0)):
        assert cli.main([*one, *words, "--run", str(tmp_path / f"run{number}")]) == 0
        err = capsys.readouterr().err
        assert re.findall(r": ensemble (\d+)$", err, re.MULTILINE) == ["1"] * number


# Killed and taken up again


def _gaps(sampling):
    """A figure of two ensembles of several chunks."""
    tables = []
    for width, draws in SIZES:
        tables.append(batchnorm.simulate(width, 3, 4, sampling.networks(draws), sampling.seed))
    picture, panel = one_panel()
    for table in tables:
        panel.plot(table["layer"], table["gap_sq"])
    theory = tables[0].drop_vars(["gap_se", "gap_sq_se"])
    return sampled(compare(theory, tables[0]), figures={"gaps": picture})


@pytest.fixture
def tiny(monkeypatch):
    made = figures.SourceFigure(
        "003", 99, (Claim("003", "Figure 99", "two ensembles", _gaps, True),), ()
    )
    monkeypatch.setattr(figures, "figure", lambda name: made)
    return ["figure", "003:99", "--full", "--share", "0.9"]


def _bits(directory):
    found = {}
    for path in (directory / command.ENSEMBLES).glob("*/sums.npz"):
        with np.load(path) as stored:
            found[path.parent.name] = {name: stored[name].tobytes() for name in stored.files}
    return found


class _Told(chunks.telling):
    """Counts the draws that are told of, and is interrupted at so many."""

    seen: ClassVar[list[float]] = []
    most = float("inf")

    def advance(self, steps=1):
        super().advance(steps)
        _Told.seen.append(steps)
        if sum(_Told.seen) >= _Told.most:
            raise KeyboardInterrupt


@pytest.mark.parametrize("most", [1000, 3500])
def test_what_was_interrupted_goes_on_with_the_same_bits(tiny, most, tmp_path, capsys, monkeypatch):
    """In the first ensemble of two, and in the second."""
    monkeypatch.delenv("WICKGARTEN_QUIET", raising=False)
    monkeypatch.setattr(chunks, "telling", _Told)
    monkeypatch.setattr(_Told, "seen", [])
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert cli.main([*tiny, "--run", str(whole)]) == 0
    draws = [0.9 * count for _, count in SIZES]
    assert sum(_Told.seen) == sum(draws)
    assert "ensemble 2" in capsys.readouterr().err
    monkeypatch.setattr(_Told, "seen", [])
    monkeypatch.setattr(_Told, "most", most)
    assert cli.main([*tiny, "--run", str(resumed)]) == cli.INTERRUPTED
    assert set(_files(resumed)) == set()  # nothing half done
    kept = _bits(resumed)
    assert len(kept) == 1 + (most > draws[0])
    monkeypatch.setattr(_Told, "seen", [])
    monkeypatch.setattr(_Told, "most", float("inf"))
    assert cli.main([*tiny, "--run", str(resumed)]) == 0
    assert _Told.seen[0] >= 1024  # read back, told of at once
    assert _files(resumed) == _files(whole)
    assert _bits(resumed) == _bits(whole)
    again = _bits(resumed)
    assert cli.main([*tiny, "--run", str(resumed)]) == 0
    assert _bits(resumed) == again


def test_a_training_figure_goes_on_with_the_same_bits(tmp_path, capsys, monkeypatch):
    """Interrupted among the networks of the second kind of four; what was trained is read back."""
    size = descents.Size((5, 4), (2, 3), (30, 30, 60), (6, 4), (5, 4), (5, 3), (2, 3))
    monkeypatch.setattr(descents, "LARGER", size)
    monkeypatch.setattr(chunks, "telling", _Told)
    monkeypatch.setattr(_Told, "seen", [])
    words = ["figure", "000:5", "--full", "--seed", "5", "--run"]

    def run(name, most):
        descents.trained.cache_clear()  # as in a new process
        _Told.seen.clear()
        monkeypatch.setattr(_Told, "most", most)
        return cli.main([*words, str(tmp_path / name)])

    assert run("whole", float("inf")) == 0
    assert sum(_Told.seen) == 18
    assert run("resumed", 6) == cli.INTERRUPTED
    assert set(_files(tmp_path / "resumed")) == set()
    assert len(_bits(tmp_path / "resumed")) == 2
    assert run("resumed", float("inf")) == 0
    assert _Told.seen[0] == 5  # read back at once
    assert _files(tmp_path / "resumed") == _files(tmp_path / "whole")
    assert _bits(tmp_path / "resumed") == _bits(tmp_path / "whole")
    out = capsys.readouterr().out
    assert "30 digits" in out
    assert "L = 2, 3, 5, 4 networks each" in out
    assert "fails" not in out


def test_a_run_of_convolutions_has_the_same_bits_by_chunks(monkeypatch):
    """Each network has its own stream and its own batch."""
    monkeypatch.setattr(convolutions, "CHANNELS", 4)
    monkeypatch.setattr(convolutions, "LAYERS", 3)
    work = convolutions.stacks(4, True, 3, 7)
    whole = work.sums(0, 3, work.reference)
    parts = [work.sums(at, at + 1, work.reference) for at in range(3)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(whole[0], whole[1])
    assert work.manifest() != convolutions.stacks(8, True, 3, 7).manifest()


def test_stacks_are_kept_by_the_source_of_their_room(monkeypatch):
    monkeypatch.setattr(kept, "source_hash", lambda *rooms: " ".join(rooms))
    work = convolutions.stacks(4, True, 3, 7)
    assert "derive numeric derivations" in kept._key(work, 3)
    assert kept._is_told(work)
    monkeypatch.setattr(convolutions._stack, "__module__", "a_notebook.of_a_user")
    assert not kept._is_told(work)
