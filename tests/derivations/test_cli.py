"""The command line, called in this process: what it prints, writes, refuses and returns."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from derivations import claims, cli, report
from derivations.claims import workers
from derivations.claims.registry import Claim
from derivations.claims.verdicts import Verdict
from derivations.commands import check
from derivations.commands import options as reading
from derive import Gaussian, Network, Orthogonal
from derive.errors import InputError

ORTHOGONAL = ("--weights", "orthogonal")


def run(capsys, *arguments):
    status = cli.main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_derive_prints_recursions(capsys):
    status, out, _ = run(capsys, "derive", "K", "V", "--weights", "orthogonal", "--single")
    assert status == 0
    assert out.splitlines() == [
        "K(ℓ+1) = C_W*⟨σ²⟩ + C_b",
        "V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4 - 3*⟨σ²⟩**2 + ⟨σ⁴⟩)",
    ]


def test_derive_specialises_and_prints_latex(capsys):
    _, out, _ = run(
        capsys, "derive", "V", "--activation", "relu", "--single", "--weights", "orthogonal"
    )
    assert out == "V(ℓ+1) = C_W**2*(3*K**2 + V)/4\n"
    _, out, _ = run(capsys, "derive", "V", "--latex", "--first-layer", "--weights", "orthogonal")
    assert out.startswith("V^{(1)}_{")


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_command_line_has_the_defaults_of_python(capsys, activation):
    """The same words mean the same network, critical or not."""
    flow = ("flow", "--depth", "2", "--activation", activation)
    for options, net in {
        (): Network(activation),
        ("--weights", "orthogonal"): Network(activation, Orthogonal()),
        ("--weights", "orthogonal(C_W=2)"): Network(activation, Orthogonal(2)),
        ("--C_W", "1/2"): Network(activation, Gaussian("1/2")),
        ("--C_W", "critical"): Network.critical(activation),
        ("--C_W", "critical", "--C_b", "1/3", "--weights", "orthogonal"): Network.critical(
            activation, Orthogonal(), C_b="1/3"
        ),
    }.items():
        _, out, _ = run(capsys, *flow, *options)
        assert out.splitlines()[0] == str(net)
    assert Network.critical("relu") == Network("relu", Gaussian(2))


def test_one_variance_of_the_weights(capsys):
    words = ("flow", "--depth", "2", "--weights", "orthogonal(C_W=2)", "--C_W", "3")
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "got Orthogonal(C_W=2)" in err.replace("'", "")
    assert "without C_W" in err


def test_what_has_no_critical_point_is_not_guessed(capsys):
    status, _, err = run(capsys, "flow", "--activation", "sigmoid", "--C_W", "critical")
    assert (status, "no solution" in err) == (2, True)


def test_flow_writes_a_table(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.full(10, 2.0))
    target = tmp_path / "out.csv"
    status, out, _ = run(
        capsys, "flow", "--activation", "linear", "--weights", "orthogonal", "--depth", "2",
        "--input", str(tmp_path / "x.npy"), "--csv", str(target),
    )  # fmt: skip
    assert (status, out.strip()) == (0, str(target))
    with target.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["tensor"], row["layer"]): float(row["value"]) for row in rows}
    wanted = {("K", "1"): 4.0, ("K", "2"): 4.0, ("V", "1"): -32.0, ("V", "2"): -32.0}
    assert found == pytest.approx(wanted, rel=1e-12)


FLOW = ("flow", "--activation", "linear", "--depth", "2", "--tensors", "K", "--input", "1,1")
ROWS = ["width,tensor,layer,samples,value,se", ",K,1,,1.0,", ",K,2,,1.0,"]


def test_a_file_of_the_name_of_a_dash_is_stdout(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, *FLOW, "--csv", "-") == (0, "\n".join([*ROWS, ""]), "")
    assert run(capsys, *FLOW)[:2] != (0, "")  # stdout is given back
    status, out, err = run(
        capsys, "simulate", *FLOW[1:], "--draws", "20", "--width", "4", "8", "--compare", "--csv=-"
    )
    assert (status, out.splitlines()[0]) == (0, ROWS[0])
    assert all(line.count(",") == 5 for line in out.splitlines())
    assert "2 comparisons at n = 4, 8" in err
    status, out, _ = run(capsys, "batchnorm", "--width", "6", "--batch", "3", "--draws", "4",
                         "--depth", "2", "--csv", "-")  # fmt: skip
    assert (status, out.splitlines()[0]) == (0, "layer,gap,gap_se,gap_sq,gap_sq_se")
    assert len(out.splitlines()) == 3
    status, out, _ = run(capsys, "kernel", "K", "--activation", "linear", "-o", "-")
    assert (status, "def next_layer(" in out) == (0, True)
    compile(out, "kernel.py", "exec")
    status, _, err = run(capsys, "kernel", "K", "--target", "c", "-o", "-")
    assert (status, "two" in err) == (2, True)
    assert not list(tmp_path.iterdir())


JSON = {
    "derive": "derive K --single",
    "haar": "haar O[1,1]^2",
    "flow": " ".join(FLOW),
    "simulate": f"simulate {' '.join(FLOW[1:])} --draws 4 --width 4",
    "batchnorm": "batchnorm --width 6 --batch 3 --draws 4 --depth 2",
    "propagation": "propagation --activation tanh --C_W 2 --depth 1",
    "spectrum": "spectrum --depth 2 --points 2",
    "train": "train --data digits --train 1 --test 0 --depth 2 --activation linear --steps 0 inf",
    "doctor": "doctor",
}


@pytest.mark.parametrize("name", JSON)
def test_json_has_the_rows_of_the_csv(capsys, tmp_path, name):
    words = [*JSON[name].split(), "--csv", str(tmp_path / "rows.csv"), "--json"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    found = json.loads(out)
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kept = [{key: cell for key, cell in row.items() if cell} for row in rows]
    assert [{key: str(cell) for key, cell in row.items()} for row in found] == kept
    assert found


def test_a_doctor_tells_what_does_not_work(capsys, monkeypatch):
    status, out, _ = run(capsys, "doctor")
    assert (status, "as it should" in out) == (0, True)
    monkeypatch.setattr("numeric.simulate", lambda *_, **__: {"K": np.array(2.0)})
    status, out, _ = run(capsys, "doctor")
    assert (status, "gives K = 2.0 for 1" in out) == (1, True)


def test_stdout_by_its_path_is_written_through(tmp_path):
    """Also where it was sent to a file: nothing is put in the file's place."""
    command = [sys.executable, "-m", "derivations", *FLOW, "--csv", "/dev/stdout"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines() == ROWS
    with (tmp_path / "out.csv").open("w", encoding="utf-8") as file:
        subprocess.run(command, check=True, stdout=file)
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == ROWS


def test_a_pipe_is_written_through(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        opened = os.open(tmp_path / "pipe", os.O_WRONLY)  # waits for the reader
        status, out, _ = run(capsys, *FLOW, "--csv", str(tmp_path / "pipe"))
        os.close(opened)
        assert (status, out) == (0, f"{tmp_path / 'pipe'}\n")
        assert reader.communicate()[0].splitlines() == ROWS


@pytest.mark.parametrize("name", ["pipe", "/dev/full"])
def test_a_stream_that_takes_nothing_is_one_line(capsys, tmp_path, name):
    """A pipe that nobody reads is no reason to wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    status, out, err = run(capsys, *FLOW, "--csv", str(tmp_path / name))
    assert (status, out) == (2, "")
    assert err.startswith("wickgarten: --csv: got ")
    assert err.count("\n") == 1
    assert run(capsys, *FLOW, "--csv", "/dev/null")[:2] == (0, "/dev/null\n")


def test_csv_input_has_a_row_per_sample(tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n4,5,6\n", encoding="utf-8")
    np.testing.assert_array_equal(reading.inputs(str(tmp_path / "x.csv")), [[1, 2, 3], [4, 5, 6]])
    assert reading.inputs("random:7:5").shape == (5,)
    assert reading.inputs("random:7:5:2").shape == (2, 5)
    np.testing.assert_array_equal(reading.inputs("1,0.5, -1/4,2e-1"), [1, 0.5, -0.25, 0.2])


def test_simulate_takes_a_layer(capsys):
    words = ["--layer", "gated(norm=rms)", "--depth", "3", "--width", "8", "--draws", "200"]
    status, out, _ = run(capsys, "simulate", *words, "--tensors", "K,V")
    assert status == 0
    assert "layer=gated(norm=rms)" in out.splitlines()[0]
    status, _, err = run(capsys, "simulate", *words[2:], "--layer", "recurrent")
    assert status == 2
    assert "residual" in err


def test_simulate_compares_with_the_flow(capsys):
    status, out, _ = run(
        capsys, "simulate", "--activation", "linear", "--weights", "orthogonal", "--depth", "3",
        "--width", "40", "80", "--draws", "64", "--tensors", "V", "--input", "random:1:40",
        "--compare",
    )  # fmt: skip
    assert status == 0
    assert "agrees: 3 comparisons at n = 40, 80" in out


def test_an_ensemble_resolves_what_it_can_by_default(capsys):
    """And the default input is a signal of the layer's positions."""
    words = ["--activation", "linear", "--layer", "convolution((1, 2), (1, 2))", "--depth", "2"]
    words += ["--tensors", "K,V", "--width", "6", "12", "24", "--compare"]
    status, out, _ = run(capsys, "simulate", *words)
    assert status == 0
    assert out.splitlines()[1] == "input random:0:10:2:1, one signal (--input)"
    assert "\nagrees:" in out
    assert "networks of each width, so many for this resolution (--draws)" in out
    _, as_asked, _ = run(capsys, "simulate", *words, "--draws", "1000")
    assert "\nweak:" in as_asked


def test_the_same_seed_prints_the_same(capsys):
    arguments = (
        "simulate",
        "--activation",
        "relu",
        "--depth",
        "2",
        "--draws",
        "50",
        "--width",
        "20",
    )
    _, first, _ = run(capsys, *arguments, "--seed", "5")
    _, again, _ = run(capsys, *arguments, "--seed", "5")
    _, other, _ = run(capsys, *arguments, "--seed", "6")
    assert first == again != other


def test_kernel_writes_a_module(capsys, tmp_path):
    target = tmp_path / "vkernel.py"
    status, out, _ = run(capsys, "kernel", "V", "--weights", "orthogonal", "-o", str(target))
    assert (status, out.strip()) == (0, str(target))
    assert "def next_layer" in target.read_text(encoding="utf-8")


def test_spectra_through_other_layers(capsys):
    """Behind a norm and around a skip all of it; through gates moments and atoms."""
    words = ["spectrum", "--activation", "relu", "--depth", "2", "--moments", "1", "--layer"]
    status, out, _ = run(capsys, *words, "normalized(rms)", "--q-star", "2")
    assert status == 0
    assert "\nm_1 = 0.0625\n" in out  # (C_W/2K)² at K = 2
    assert "density of JJ' on 0 ... " in out
    words += ["residual(skip=1)", "--q-star", "2"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    _, density, moment, check = out.splitlines()
    assert density.startswith("density of JJ' on 0.01")
    assert moment == "m_1 = 2.25"  # (1 + C_W²/2)²
    assert "total mass 1 " in check
    words[-3] = "gated(skip=1)"
    words[words.index("relu")] = "tanh"
    status, out, _ = run(capsys, *words, "--weights", "gaussian")
    assert (status, [line[:3] for line in out.splitlines()[1:]]) == (0, ["den", "m_1", "che"])
    status, _, err = run(capsys, "spectrum", "--C_b", "1")
    assert status == 2
    assert err.startswith("wickgarten: --C_b: got '1'")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (["--limit", "smooth", "--sigma0", "1/2", option, value], option)
        for option, value in (
            ("--activation", "tanh"),
            ("--weights", "gaussian"),
            ("--depth", "3"),
            ("--layer", "gated"),
            ("--C_b", "0"),
            ("--q-star", "1"),
            ("--C_W", "1"),
            ("--ratio", "2"),
        )
    ]
    + [(["--sigma0", "1/4", "--q-star", "1/10"], "--q-star")],
)
def test_options_of_spectra_without_a_use_are_refused(capsys, given, option):
    status, _, err = run(capsys, "spectrum", *given)
    assert status == 2
    assert err.startswith(f"wickgarten: {option}: got ")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--q-star", "1e400"), ("--q-star", "1e-320")]
    + [("--C_W", value) for value in ("1e308", "1e400", "1e-320")],
)
def test_spectra_beyond_floats_are_refused(capsys, option, value):
    status, out, err = run(capsys, "spectrum", option, value)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("wickgarten: ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("derive", "W"), "tensor"),
        (("flow", "--activation", "tan"), "activation"),
        (("flow", "--activation", "expr: __import__('os')"), ""),
        (("flow", "--C_W", "-1"), "C_W"),
        (("flow", "--C_W", "open('x')"), "C_W"),
        (("flow", "--depth", "0"), "depth"),
        (("flow", "--input", "random:0"), "--input"),
        (("flow", "--input", "random:0:0"), "--input"),
        (("flow", "--input", "/nowhere/x.npy"), "--input"),
        (("flow", "--input", "1,,2"), "--input"),
        (("flow", "--input", "x.pickle"), "--input"),
        (("simulate", "--width", "1"), "width"),
        (("simulate", "--seed", "-1"), "seed"),
        (("check", "999"), "chapter"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, arguments, named):
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert err.startswith("wickgarten: ")
    assert err.count("\n") == 1
    assert named in err


def test_objects_in_npy_files_are_refused(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    status, _, err = run(capsys, "flow", "--input", str(tmp_path / "x.npy"))
    assert (status, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("weights", "size"), [("orthogonal", 40), ("uniform", 20), ("rademacher; gaussian*", 20)]
)
def test_inputs_are_repeated_where_layer_1_depends_on_their_size(capsys, weights, size):
    """n_0/n is the same at both widths: 2 or 1. Without that G1 at layer 2 would be wrong."""
    words = ["simulate", "--weights", weights, "--input", f"random:0:{size}", "--draws", "300"]
    words += ["--depth", "2", "--compare", "--width"]
    status, out, _ = run(capsys, *words, "20", "40")
    assert (status, f"to {size}, {2 * size} numbers" in out) == (0, True)
    assert "at n = 20, 40, extrapolated" in out
    status, _, err = run(capsys, *words, "20", "30")
    assert status == 2
    assert "wanted multiples of 20" in err


@pytest.mark.parametrize("command", ["check", "derive", "kernel", "flow", "simulate"])
def test_each_command_has_help(capsys, command):
    status, out, _ = run(capsys, command, "--help")
    assert status == 0
    assert f"usage: wickgarten {command}" in out


def check_with(monkeypatch, *verdicts):
    def claim(verdict):
        def prove():
            """Prose."""
            if isinstance(verdict, BaseException):
                raise verdict
            return verdict

        return Claim("000", "1.1", "a title", prove, False)

    monkeypatch.setattr(claims, "claims", lambda _: [claim(verdict) for verdict in verdicts])
    monkeypatch.setattr(report, "ledgers", lambda _: ({}, []))


def test_check_writes_its_verdicts(capsys, monkeypatch, tmp_path):
    check_with(monkeypatch, Verdict("exact", "d", "p"), Verdict("misprint", "d", "p", "proof"))
    target = tmp_path / "out.json"
    status, out, _ = run(
        capsys, "check", "--jobs", "1", "--json", str(target), "--report", str(tmp_path / "report")
    )
    assert status == 0
    assert "2 claims: 1 exact, 1 misprint" in out
    assert [each["verdict"] for each in json.loads(target.read_text())["claims"]] == [
        "exact", "misprint",
    ]  # fmt: skip
    assert (tmp_path / "report" / "index.html").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "report"}


def test_check_fails_where_a_claim_does(capsys, monkeypatch, tmp_path):
    check_with(monkeypatch, Verdict("exact", "d", "p"), Verdict("fails", "d", "p"))
    assert run(capsys, "check", "--jobs", "1", "--report", str(tmp_path / "report"))[0] == 1


def test_a_weak_claim_is_told_and_is_no_success_where_strict(capsys, monkeypatch, tmp_path):
    coarse = Verdict("weak", "d", "p", z=1, bound=5, comparisons=1, resolutions=(0.5,))
    check_with(monkeypatch, Verdict("exact", "d", "p"), coarse)
    command = ["check", "--jobs", "1", "--report", str(tmp_path / "report")]
    status, out, _ = run(capsys, *command)
    assert status == 0
    assert out.splitlines()[-1] == "2 claims: none fails, 1 weak (resolving worse than 20 %)"
    assert run(capsys, *command, "--strict")[0] == 1


def test_progress_is_shown_on_a_terminal_and_seldom_in_a_log(capsys, monkeypatch):
    claim = Claim("000", "5.18", "a title that is longer than " + "the line " * 20, print, False)
    now = workers.Progress(3, 7, (claim,), 130.0)
    shown = check._Line()
    for _ in range(2):
        shown.progress(now)
    assert capsys.readouterr().err == "3/7 claims  0:00, about 2 min left\n"
    shown.told -= check.SELDOM + 1
    shown.progress(replace(now, left=1.0))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = check._Line()
    shown.progress(now)
    err = capsys.readouterr().err
    assert err.startswith("\r\033[K3/7 claims  0:00, about 2 min left  5.18 a title")
    assert len(err) < 90
    shown.clear()
    assert capsys.readouterr().err == "\r\033[K"


def test_a_ledger_that_cannot_be_read_fails(capsys, monkeypatch, tmp_path):
    check_with(monkeypatch, Verdict("exact", "d", "p"))
    monkeypatch.setattr(report, "ledgers", lambda _: ({}, ["ledger of 000: 5.18 names nothing"]))
    status, out, _ = run(capsys, "check", "--jobs", "1", "--report", str(tmp_path / "report"))
    assert (status, "5.18 names nothing" in out) == (1, True)


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_check_refuses_what_it_could_not_write(capsys, monkeypatch, tmp_path, option):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(claims, "check", lambda *_, **__: pytest.fail("it was proven first"))
    status, _, err = run(capsys, "check", option, str(tmp_path / "file" / "below"))
    assert (status, err.count("\n")) == (2, 1)
    assert option.strip("-") in err
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_interruption_leaves_nothing_behind(capsys, monkeypatch, tmp_path):
    check_with(monkeypatch, KeyboardInterrupt())
    status, _, err = run(capsys, "check", "--jobs", "1", "--report", str(tmp_path / "report"))
    assert (status, err.strip()) == (130, "wickgarten: interrupted")
    assert not list(tmp_path.iterdir())


def test_haar(capsys):
    assert cli.main(["haar", "O[1,1]^2*O[1,2]^2"]) == 0
    assert capsys.readouterr().out.strip() == "1/(n*(n + 2))"
    assert cli.main(["haar", "|U[1,1]|^4", "--group", "U", "--n", "3", "--draws", "2000"]) == 0
    assert capsys.readouterr().out.startswith("1/6")
    assert cli.main(["haar", "O[1,1]^2", "--latex"]) == 0
    assert "mathbb{E}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["O[1,1"], ["O[1,1]", "--n", "n+1"], ["O[5,1]^2", "--n", "3"]]
)
def test_haar_refuses_in_one_line(arguments, capsys):
    assert cli.main(["haar", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_numbers_of_several_inputs_have_semicolons_between() -> None:
    np.testing.assert_array_equal(reading.inputs("1,.5;.2,.8"), [[1.0, 0.5], [0.2, 0.8]])
    np.testing.assert_array_equal(reading.inputs("1,.5"), [1.0, 0.5])
    for odd in ("1,.5;.2", "1;;2", ";"):
        with pytest.raises(InputError, match="--input"):
            reading.inputs(odd)


def test_deep_prints_a_law_its_quantiles_and_tests(capsys, tmp_path):
    words = ("deep", "--weights", "orthogonal", "--ratio", "1/2", "--width", "16", "24")
    path = tmp_path / "law.svg"
    status, out, _ = run(capsys, *words, "--compare", "--draws", "50", "--plot", str(path))
    assert status == 0
    assert "mean -3/4, variance 3/2" in out
    assert "4 tests" in out
    assert path.stat().st_size > 1000
    status, out, err = run(capsys, "deep", "--json", "--ratio", "1")
    assert status == 0
    found = {(row["quantity"], row.get("at")): row["value"] for row in json.loads(out)}
    assert found["log_mean", None] == -2.5
    assert "variance 5" in err
    status, _, err = run(capsys, "deep", "--activation", "tanh")
    assert (status, "power of 1/ℓ" in err) == (2, True)
