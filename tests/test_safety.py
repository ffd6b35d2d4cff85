"""What is typed is read by whitelists: whatever it is, it is understood or refused, and soon.

Nothing in the package evaluates text or unpickles a file.
"""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import sympy
import xarray
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import derive
from derivations import claims, report
from derivations.claims import registry
from derivations.cli import BAD_INPUT, OK, main
from derivations.daneshmand import ensembles as sampled_batchnorm
from derivations.daneshmand import moments
from derivations.day_kahn_roberts.breakdown import breakdown
from derivations.moments import haar
from derivations.verify import verify
from derive import (
    BiInvariant,
    Equation,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
    batchnorm,
    coset_type,
    criticality,
    exact,
    haar_moment,
    linear,
    pair_partitions,
    propagation,
    recursion,
    spectra,
    weingarten,
)
from derive.engine import named
from derive.expressions import parse_layer_expression, parse_number
from derive.groups import parse_moment
from numeric import compare, flow, normalise, plot, simulate, write_module
from numeric.emit import modules
from numeric.random import stream_key

ROOT = Path(derive.__file__).parents[1]

PARSERS = {
    "an activation": activations.by_name,
    "an expression": activations.from_expr,
    "a parameter": lambda text: activations.by_name(f"leaky_relu({text})"),
    "coefficients": lambda text: activations.by_name(f"polynomial({text})"),
    "a power": lambda text: activations.by_name(f"monomial({text})"),
    "a learning rate": lambda text: parse_layer_expression("--lambda_b", text),
    "a number": lambda text: parse_number("--C_W", text),
    "a variance": Gaussian,
    "moments": lambda text: BiInvariant(moments=tuple(text.split(","))),
    "an equation": Equation,
    "an equation's product": lambda text: Equation(f"J[i] = W[i,a] s[a] {text}"),
    "an equation's index": lambda text: Equation(f"J[i] = W[i,{text}] s[a]"),
    "a tensor": named,
    "a cumulant's fields": lambda text: named(f"kappa({text}|01)"),
    "a cumulant's pairing": lambda text: named(f"kappa(z,z|{text})"),
    "a pairing": lambda text: recursion(["z"] * 4, pairing=text),
    "a moment": parse_moment,
    "a moment's power": lambda text: parse_moment(f"O[1,1]^{text}"),
}

NASTY = (
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "z.__class__",
    "z.subs",
    "lambda: z",
    "[z for z in z]",
    "(z := 1)",
    "f'{z}'",
    "z if z else 1",
    "tanh(z=1)",
    "tanh(*z)",
    "9**9**9**9",
    "((9**64)**64)**64",
    "((z**64)**64)**64",
    "exp(exp(exp(exp(9))))",
    "exp(exp(exp(z)))",
    "1e999999999",
    "9" * 400,
    "1/" + "9" * 400,
    "(" * 200 + "z" + ")" * 200,
    "[" * 400,
    "-" * 400 + "z",
    "sqrt(" * 80 + "z" + ")" * 80,
    "Max(" * 60 + "z" + ",1)" * 60,
    "*".join(f"tanh({k}*z)" for k in range(1, 40)),
    "*".join(f"(z+{k})**64" for k in range(20)),
    "sign(erfc(64))*z",
    "sin(1/z)",
    "sin(exp(z**2))",
    "log(-1)*z",
    "z**z",
    "(-1)**z",
    "1/0",
    "nan",
    "oo",
    "1j*z",
    "𝓏",
    "١",
    "z\u200b",
    "\0",
    "",
    "z" * 100_000,
)


def refused_or_read(parse, text):
    """Anything but an InputError is the test's failure."""
    try:
        parse(text)
    except InputError as refusal:
        error = refusal
    else:
        return
    assert error.argument
    assert error.wanted
    assert len(str(error)) < 3000


def read_all():
    """Every parser on every nasty text."""
    for parse in PARSERS.values():
        for text in NASTY:
            refused_or_read(parse, text)


def test_nasty_text_ends_soon():
    """In a process of its own, which a power that never ends could be stopped in."""
    code = (
        "import importlib.util as util\n"
        f"spec = util.spec_from_file_location('safety', {str(Path(__file__))!r})\n"
        "safety = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(safety)\n"
        "safety.read_all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=ROOT)


SIGNS = st.sampled_from([*"+-*/()[]{}.,:;=<>!@#%^&|~`'\"\\ \t\n_?$", "**", "//", "__", "->"])
WORDS = st.sampled_from(
    ["z", "l", "pi", "tanh", "exp", "Max", "W", "s'", "J", "i", "a", "kappa", "H", "O", "1/n", "é"]
)
PIECES = st.one_of(SIGNS, WORDS, st.integers(0, 10**6).map(str), st.text(max_size=3))
TEXTS = st.lists(PIECES, max_size=12).map("".join)
UNHURRIED = settings(
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("kind", PARSERS)
@UNHURRIED
@given(text=TEXTS)
@example(text="z")
def test_any_text_is_read_or_refused(kind, text):
    refused_or_read(PARSERS[kind], text)


LEAVES = st.sampled_from(["z", "1", "2", "0.5", "pi", "-1", "1/3", "64"])


def deeper(inner):
    binary = st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})")
    power = inner.map(lambda text: f"({text})**2")
    call = st.tuples(
        st.sampled_from(["tanh", "erf", "sin", "exp", "Abs", "sign", "sqrt", "log"]), inner
    ).map(lambda t: f"{t[0]}({t[1]})")
    return st.one_of(binary, power, call)


@UNHURRIED
@given(text=st.recursive(LEAVES, deeper, max_leaves=5))
def test_any_expression_is_read_or_refused(text):
    refused_or_read(activations.from_expr, text)
    refused_or_read(PARSERS["a learning rate"], text.replace("z", "l"))


WRONG = (None, 1j, True, float("nan"), float("inf"), b"x", object(), {}, np.ones((2, 2)), Gaussian)
TANH = activations.tanh
NET = Network(TANH)
TABLE = flow(Network(activations.linear), [1.0, 2.0], 2, "K")
X = np.ones(3)


def no_function(value):
    return None if callable(value) else value


CALLS = {
    "Gaussian.C_W": Gaussian,
    "Orthogonal.C_W": Orthogonal,
    "LowRankGaussian.gamma": lambda value: LowRankGaussian(gamma=value),
    "LowRankOrthogonal.gamma": lambda value: LowRankOrthogonal(gamma=value),
    "Truncated.ratio": lambda value: Truncated(ratio=value),
    "BiInvariant.moments": lambda value: BiInvariant(moments=(1, value)),
    "Network.activation": Network,
    "Network.weights": lambda value: Network(TANH, value),
    "Network.C_b": lambda value: Network(TANH, C_b=no_function(value)),
    "Network.lambda_b": lambda value: Network(TANH, lambda_b=no_function(value)),
    "Network.width_ratio": lambda value: Network(TANH, width_ratio=no_function(value)),
    "Network.C_W_corrections": lambda value: Network(TANH, C_W_corrections=(value,)),
    "leaky_relu": activations.leaky_relu,
    "monomial": activations.monomial,
    "polynomial": activations.polynomial,
    "from_expr": activations.from_expr,
    "by_name": activations.by_name,
    "average": lambda value: activations.erf_unit_slope.average((0, 0), value),
    "recursion": recursion,
    "recursion.fields": lambda value: recursion([value, value]),
    "recursion.pairing": lambda value: recursion(["z"] * 4, pairing=0 if value is None else value),
    "recursion.order": lambda value: recursion(["z"] * 2, order=value),
    "recursion.corrections": lambda value: recursion(
        "K", corrections=-1 if value is None else value
    ),
    "specialise": recursion("K").specialise,
    "asymptotics.activation": lambda value: recursion("K").asymptotics(value),
    "asymptotics.terms": lambda value: recursion("K").asymptotics(TANH, terms=value),
    "asymptotics.lambda_b": lambda value: recursion("Theta").asymptotics(
        TANH, lambda_b=no_function(value)
    ),
    "breakdown": lambda value: breakdown(value, TANH),
    "criticality": criticality,
    "criticality.digits": lambda value: criticality(TANH, value),
    "Equation": Equation,
    "weingarten": lambda value: weingarten([value], 5),
    "weingarten.n": lambda value: weingarten((2, 1), value),
    "weingarten.group": lambda value: weingarten((2, 1), 5, value),
    "haar_moment": lambda value: haar_moment([value], [1], 5),
    "haar_moment.n": lambda value: haar_moment([1, 1], [1, 1], value),
    "coset_type": lambda value: coset_type([value], [value]),
    "correlator.m": lambda value: linear.correlator(value, [4, 4]),
    "correlator.widths": lambda value: linear.correlator(2, [value]),
    "mean_spectrum": lambda value: moments.mean_spectrum([value]),
    "edge_of_chaos": propagation.edge_of_chaos,
    "length_map": lambda value: propagation.length_map(NET, value),
    "spectra.depth": lambda value: spectra.jacobian(TANH, Orthogonal(), value, 0.1),
    "spectra.weights": lambda value: spectra.jacobian(TANH, value, 3, 0.1),
    "spectra.limit": lambda value: spectra.limit(value, 0.5),
    "flow.net": lambda value: flow(value, X, 3),
    "flow.inputs": lambda value: flow(NET, [["x" if value is True else value]], 3),
    "flow.depth": lambda value: flow(NET, X, value, "K"),
    "flow.tensors": lambda value: flow(NET, X, 3, value),
    "simulate.net": lambda value: simulate(value, X, 4, 2, 50),
    "simulate.width": lambda value: simulate(NET, X, 0 if value is None else value, 2, 50),
    "simulate.draws": lambda value: simulate(NET, X, 4, 2, value),
    "simulate.tensors": lambda value: simulate(NET, X, 4, 2, 50, tensors=value),
    "simulate.seed": lambda value: simulate(NET, X, 4, 2, 50, seed=value),
    "simulate.device": lambda value: simulate(NET, X, 4, 2, 50, device=value),
    "simulate.sampler": lambda value: simulate(NET, X, 4, 2, 50, sampler=value),
    "simulate.run": lambda value: simulate(NET, X, 4, 2, 50, run=0 if value is None else value),
    "simulate.executor": lambda value: simulate(
        NET, X, 4, 2, 50, executor=0 if value is None else value
    ),
    "compare": lambda value: compare(value, value),
    "normalise": normalise,
    "plot": plot,
    "write_module": write_module,
    "write_module.path": lambda value: write_module(
        recursion("K").single_input(), TANH, value if not isinstance(value, bytes) else None
    ),
    "load": lambda value: modules.load("x = 1", str(value) + "-"),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_types_are_input_errors(call):
    for value in WRONG:
        with pytest.raises(InputError) as caught:
            CALLS[call](value)
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Truncated, "ratio: got None"),
        (LowRankGaussian, "gamma: got None"),
        (lambda: Gaussian("1/"), "C_W: got '1/'"),
        (lambda: BiInvariant(moments=(2, 1)), "p_2 ≥ p_1²"),
        (lambda: BiInvariant(moments=(1, 2, 3)), "moments"),
        (lambda: recursion(["z"] * 4, pairing="01 22"), 'such as "01 23"'),
        (lambda: recursion("Theta").asymptotics(TANH, lambda_b=-1), "0 or more at every layer"),
        (
            lambda: recursion("Theta").asymptotics(TANH, lambda_b=lambda layer: 1 / layer - 1),
            "lambda_b",
        ),
        (lambda: Network(TANH, lambda_W=lambda layer: 1 - layer).lambda_W_at(2), "at layer 2"),
    ],
)
def test_errors_say_what_to_do(make, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        make()


def test_text_pairings_are_pairings():
    fields = ["z", "z", "z", "z"]
    spelled = recursion(fields, pairing="01 23")
    assert spelled == recursion(fields, pairing=((0, 1), (2, 3)))
    assert spelled.expr == recursion("V").expr


def test_a_long_value_is_shown_in_part():
    error = InputError("text", "x" * 10**6, "less")
    assert len(str(error)) < 300
    assert error.got == "x" * 10**6


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64, sympy.Integer])
def test_all_integers_are_alike(kind):
    """NumPy's and sympy's are taken wherever an int is, with the same answer."""
    five, three, two, one = map(kind, (5, 3, 2, 1))
    assert pair_partitions(kind(4)) == pair_partitions(4)
    assert weingarten((two, one), 5) == weingarten((2, 1), 5)
    assert linear.correlator(two, [4, 4]) == linear.correlator(2, [4, 4])
    assert TANH.derivative(two) == TANH.derivative(2)
    assert activations.monomial(three) == activations.monomial(3)
    assert recursion(["z"] * 2, order=kind(0)) == recursion(["z"] * 2, order=0)
    assert recursion("K", corrections=one) == recursion("K", corrections=1)
    assert exact.series("K", Network(activations.linear), two, one) == exact.series(
        "K", Network(activations.linear), 2, 1
    )
    table = simulate(NET, X, five, two, kind(20), tensors="K", seed=three)
    xarray.testing.assert_identical(table, simulate(NET, X, 5, 2, 20, tensors="K", seed=3))
    assert flow(NET, X, two, "K", width=five).equals(flow(NET, X, 2, "K", width=5))
    rows, cols = [one, one], [one, one]
    assert haar.check(rows, cols, kind(3), draws=five, seed=two) == haar.check(
        [1, 1], [1, 1], 3, draws=5, seed=2
    )


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, -1])
@pytest.mark.parametrize(
    "call",
    [
        pair_partitions,
        lambda value: weingarten((2, value), 5),
        TANH.derivative,
        lambda value: exact.series("K", Network(activations.linear), value, 1),
        lambda value: simulate(NET, X, 4, 2, 20, seed=value),
        lambda value: haar.check([1, 1], [1, 1], 3, draws=5, seed=value),
        lambda value: haar.check([1, 1], [1, 1], value, draws=5),
        lambda value: verify(1, value),
        lambda value: claims.check([], value),
        lambda value: claims.check([], 0, value),
        stream_key,
    ],
)
def test_nothing_else_is_an_integer(call, value):
    with pytest.raises(InputError):
        list(call(value))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: flow(NET, X, 2, np.array(3.0)), "tensors"),
        (lambda: activations.polynomial(np.array(3.0)), "coefficients"),
        (lambda: recursion(np.array(3.0)), "tensor_name"),
        (lambda: linear.correlator(2, np.array(3.0)), "widths"),
        (lambda: write_module(np.array(3.0), TANH), "made"),
        (lambda: flow(NET, np.ma.masked_array([1.0, 2.0], [True, False]), 2, "K"), "a masked"),
        (lambda: simulate(NET, np.ma.masked_array([1.0, 2.0]), 4, 2, 20), "a masked"),
        (lambda: simulate(NET, X, 4, 2, 20, progress=np.array([])), "progress"),
        (lambda: simulate(NET, X, 4, 2, 20, progress=float("nan")), "progress"),
        (lambda: exact.cumulant("K", None, 2), "network"),
        (lambda: exact.component(["z", "z"], (0, 0.5), Network(activations.linear), 2), "neurons"),
        (lambda: exact.row_sum(None, 1, 4, 4), "weights"),
        (lambda: linear.cumulants(["a", None]), "moments"),
        (lambda: compare(TABLE, TABLE, false_alarms="0.1"), "false_alarms"),
        (lambda: recursion("K", order=np.zeros(2)), "order"),
        (lambda: haar_moment([1, 1], [1, 1], 5, distinct=np.zeros(2)), "distinct"),
        (lambda: weingarten((2, 1), int), "n: got"),
        (lambda: simulate(Network(TANH, BiInvariant()), X, 4, 2, 20), "moments"),
        (lambda: pair_partitions(10**30), "points"),
        (lambda: pair_partitions(18), "less: the pairings"),
        (lambda: pair_partitions(3), "even"),
        (lambda: write_module(recursion("K").single_input(), TANH, "no/kernel.py"), "exists"),
        (lambda: write_module(recursion("K").single_input(), TANH, "a\0.py"), "path"),
        (lambda: write_module(recursion("K").single_input(), TANH, "/dev/null"), "device"),
        (lambda: haar_moment(["nan", "nan"], [1, 1], 5), "rows"),
    ],
)
def test_what_looks_like_an_argument_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("name", ["k.csv", "no ending", "import.py", "1.py", "a b.py", "numpy.py"])
def test_a_module_has_a_name_that_can_be_imported(name, tmp_path):
    with pytest.raises(InputError, match=r"^path: got .*kernel\.py"):
        write_module(recursion("K").single_input(), TANH, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["9z", "2or z", "0x1or z", "1if z else z", "1_z"])
def test_no_warning_leaks_from_what_is_typed(text):
    """Warnings are errors here, but for those that were shown already in this place."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with pytest.raises(InputError):
            activations.from_expr(text)
    assert not shown


@pytest.mark.parametrize(
    "words",
    [
        "haar O[1,1]^2 --n nan",
        "haar O[1,1]^2 --n inf",
        "haar O[1,1]^2 --n True",
        "haar O[1,1]^2 --n pi",
        "haar O[nan,1]^2",
        "haar O[True,1]*O[True,1]",
        "haar O[1,1]^2 --n " + "9" * 5000,
        "flow --depth=--",
        "kernel K -o--",
        "flow --depth x",
        "flow --input empty.csv",
        "flow --input pickled.npy",
        "flow --input pipe.npy",
        "flow --nothing",
        "nothing",
        "",
        "simulate --run missing/run --tensors K --draws 20",
        "flow --csv missing/table.csv",
        "batchnorm --plot missing/gap.svg",
        "batchnorm --run missing/run",
        "batchnorm --csv=",
        "spectrum --plot missing/density.svg",
        "check 004 --json missing/verdicts.json",
        "check 004 --report missing/report",
        "kernel K -o missing/kernel.py",
        "kernel K -o kernel.csv",
        "kernel K -o class.py",
        "kernel K --target c -o missing/kernel.c",
        "derive V --weights orthogonal --gamma 0.5",
        "derive V --weights gaussian --moments 1,2",
        "derive V --weights low-rank-gaussian --ratio 2",
        "derive V --weights bi-invariant --moments 2,1",
        "derive V --weights low-rank-gaussian --gamma __import__('os')",
        "flow --lambda_b 9**9**9**9",
        "flow --activation expr:z.__class__",
        "flow --C_W exp(exp(exp(exp(9))))",
        "spectrum --weights orthogonal --gamma 0.5",
        "spectrum --limit smooth --sigma0 0.5 --ratio 2",
    ],
)
def test_the_command_line_refuses_in_one_line(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("")
    np.save("pickled.npy", np.array([None, "a"]), allow_pickle=True)
    os.mkfifo("pipe.npy")
    before = set(tmp_path.iterdir())
    assert main(words.split()) == BAD_INPUT
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("wickgarten: ")
    assert err.count("\n") == 1
    assert "pickle=" not in err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS])
@pytest.mark.parametrize(
    "words",
    [
        "flow --activation linear --tensors K --depth 2 --csv",
        "simulate --activation linear --tensors K --depth 2 --width 100 --draws 20 --csv",
        "simulate --activation linear --tensors K --depth 2 --width 100 --draws 20 --run",
        "batchnorm --width 6 --batch 3 --depth 2 --draws 4 --csv",
        "batchnorm --width 6 --batch 3 --depth 2 --draws 4 --plot",
        "batchnorm --width 6 --batch 3 --depth 2 --draws 4 --run",
        "spectrum --activation linear --depth 2 --plot",
        "kernel K --activation linear -o",
        "kernel K --activation linear --target c -o",
    ],
)
def test_a_full_disk_is_one_line(words, fault, capsys, tmp_path, monkeypatch):
    *_, option = words.split()
    names = {"--csv": "t.csv", "--plot": "t.svg", "--run": "run"}
    name = names.get(option, "k.c" if "--target" in words else "k.py")

    def full(*_, **__):
        raise OSError(fault, os.strerror(fault))

    monkeypatch.chdir(tmp_path)
    assert main(words.split()[:-1]) == OK  # what it compiles is written before the disk is full
    capsys.readouterr()
    monkeypatch.setattr("numeric.emit.outputs.modules.write", full)
    monkeypatch.setattr("numeric.runs.directory.write", full)
    assert main([*words.split(), str(tmp_path / name)]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert not out.startswith("wickgarten")
    assert err.count("\n") == 1
    argument = {"--run": "run", "-o": "path", "c": "path"}.get(option, option)
    assert err.startswith(f"wickgarten: {argument}: got ")
    assert os.strerror(fault) in err


def test_a_report_on_a_full_disk_is_one_line(capsys, tmp_path, monkeypatch):
    for place in (claims, registry):
        monkeypatch.setattr(place, "CHAPTERS", {"000": ()})
    monkeypatch.setattr(report, "ledgers", lambda _: ({}, []))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place in (
        "derivations.report.pages.tempfile.mkdtemp",
        "numeric.emit.outputs.modules.write",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, full)
            words = ["check", "--jobs", "1", "--report", str(tmp_path / "report")]
            assert main(words) == BAD_INPUT
        _, err = capsys.readouterr()
        assert (err.startswith("wickgarten: report: got"), err.count("\n")) == (True, 1)
        assert "No space left" in err
        assert not list(tmp_path.iterdir())


def test_a_full_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "derivations.cli", "cite"],
            check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == BAD_INPUT
    assert done.stderr == "wickgarten: [Errno 28] No space left on device\n"


def test_a_directory_of_runs_is_made_but_none_above_it(tmp_path):
    words = "simulate --activation linear --tensors K --depth 2 --draws 20 --width 100 --run"
    assert main([*words.split(), str(tmp_path / "runs")]) == 0
    assert (tmp_path / "runs" / "width-100" / "sums.npz").is_file()


@pytest.mark.parametrize("sampler", ["lazy", "paths", "probes", "explicit"])
def test_the_command_line_has_every_sampler(sampler, capsys):
    words = "simulate --tensors D --depth 2 --draws 20 --width 100 --C_W 1 --sampler"
    assert main([*words.split(), sampler]) == 0


# What runs text at all, and why it may.
ALLOWED = {
    ("numeric/runs/chunks.py", "pickle"): "a sampler on its way to this call's own executor",
    (
        "numeric/emit/modules.py",
        "exec_module",
    ): "a file that was just written, under the hash of it",
    (
        "derivations/commands/model.py",
        "exec_module",
    ): "the file that a user names to be imported, as `python FILE.py` would",
}
FORBIDDEN = {"eval", "exec", "compile", "__import__", "execfile", "parse_expr"}
UNPICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}


def findings(path):
    """(what, line) of every call and import that could run text or unpickle."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if isinstance(called, ast.Name) and name in FORBIDDEN:
                yield name, node.lineno
            if name == "exec_module":
                yield name, node.lineno
            if name == "sympify" and not any(word.arg == "strict" for word in node.keywords):
                yield "sympify", node.lineno
            if name in {"load", "loadtxt"} and any(
                word.arg == "allow_pickle" and getattr(word.value, "value", None) is not False
                for word in node.keywords
            ):
                yield "allow_pickle", node.lineno
        elif isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names if each.name in UNPICKLING)
        elif isinstance(node, ast.ImportFrom) and node.module in UNPICKLING:
            yield node.module, node.lineno


@pytest.mark.parametrize("room", ["derive", "numeric", "derivations", "wickgarten"])
def test_nothing_is_evaluated_or_unpickled(room):
    found = {
        (path.relative_to(ROOT).as_posix(), what)
        for path in sorted((ROOT / room).rglob("*.py"))
        for what, _ in findings(path)
    }
    assert {each for each in found if each[1] != "sympify"} <= set(ALLOWED)


def test_emitted_modules_are_checked_before_use(tmp_path, monkeypatch):
    """A file in the cache that is not what its name says is written anew."""
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path))
    source = "VALUE = 41 + 1\n"
    planted = tmp_path / f"{modules.module_name(source, 'planted')}.py"
    planted.write_text("raise SystemExit('planted')\n")
    assert modules.load(source, "planted").VALUE == 42
    assert planted.read_text() == source


SIZES = {
    "batchnorm width": lambda size: sampled_batchnorm.simulate(size, 4, 3, 10),
    "batchnorm batch": lambda size: sampled_batchnorm.simulate(10, size, 3, 10),
    "batchnorm moment": batchnorm.stationary_gap,
    "batchnorm depth": lambda size: sampled_batchnorm.simulate(10, 4, size, 10),
    "flow depth": lambda size: flow(NET, X, size),
    "simulate width": lambda size: simulate(NET, X, size, 2, 50),
    "simulate depth": lambda size: simulate(NET, X, 4, size, 50),
    "simulate draws": lambda size: simulate(NET, X, 4, 2, size),
    "monomial": activations.monomial,
    "correlator": lambda size: linear.correlator(size, [4, 4]),
    "asymptotics": lambda size: recursion("K").asymptotics(TANH, terms=size),
    "weingarten": lambda size: weingarten((size,), 5),
    "pair_partitions": derive.pair_partitions,
    "order": lambda size: recursion(["z"] * 2, order=size),
    "corrections": lambda size: recursion("K", corrections=size),
}


@pytest.mark.parametrize("size", [10**12, 10**30, 10**400], ids=["10^12", "10^30", "10^400"])
@pytest.mark.parametrize("call", SIZES)
def test_sizes_beyond_a_machine_are_refused(call, size):
    with pytest.raises(InputError) as caught:
        SIZES[call](size)
    assert len(str(caught.value)) < 2000


def test_too_many_inputs_are_refused():
    with pytest.raises(InputError, match="inputs"):
        flow(NET, np.ones((10**5, 3)), 3)


@pytest.mark.parametrize(
    "text", ["(" * 30 + "z+1" + ")**2" * 30, "(" * 30 + "z" + ")**2+1" * 30, "tanh((z**9)**9)"]
)
def test_powers_multiply_through_nesting(text):
    with pytest.raises(InputError, match="64 or less"):
        activations.from_expr(text)
    assert len(activations.polynomial([1] * 65).expr.args) == 65
    with pytest.raises(InputError, match="65 at most"):
        activations.polynomial([1] * 200)
