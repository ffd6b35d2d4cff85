"""All commands alike: files for other programs, pictures, examples, suggestions, completion."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess

import pytest
from keyword_groups import parameters

import numeric
from derivations import cli
from derivations.commands import completion
from derivations.verify import verify
from derive import InputError, activations, recursion

COMMANDS = {name: examples for name, *_, examples in cli._commands()}


def run(capsys, text):
    status = cli.main(shlex.split(text))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"completion"}))
def test_every_command_writes_rows_for_other_programs(capsys, name):
    status, out, _ = run(capsys, f"{name} --help")
    assert status == 0
    assert {"--csv", "--json"} <= {word.strip("[],") for word in out.split()}


def test_examples_in_the_help_can_be_typed(capsys):
    parser = cli._parser()
    for name, examples in COMMANDS.items():
        _, out, _ = run(capsys, f"{name} --help")
        for each in examples:
            assert f"wickgarten {name} {each}" in out
            words = shlex.split(each, comments=True)
            end = words.index(">") if ">" in words else None
            parser.parse_args([name, *words[:end]])
            assert "~" not in each  # they are run as tests, and may write where they run alone


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("flwo", "flow"),
        ("flow --activaton tanh", "--activation"),
        ("haar O[1,1]^2 --grup U", "--group"),
        ("simulate --sampler lasy", "lazy"),
        ("flow --activation tahn", "tanh"),
        ("flow --tensors NTK", "Theta"),
        ("flow --weights ortogonal", "orthogonal"),
        ("flow --layer residul", "residual"),
    ],
)
def test_a_wrong_name_brings_the_nearest(capsys, text, near):
    status, _, err = run(capsys, text)
    assert status == 2
    assert f'did you mean "{near}"?' in err


def test_several_tensors_are_a_list():
    with pytest.raises(InputError, match=r"several are a list, \['K', 'V'\]$"):
        recursion("K,V")


SAME = {"flow": numeric.flow, "simulate": numeric.simulate, "verify": verify}


def test_options_have_the_names_and_defaults_of_python():
    parser = cli._parser()
    for command, function in SAME.items():
        named = vars(parser.parse_args([command]))
        for name, default in parameters(function).items():
            if name in named and named[name] is not None and name not in {"tensors", "jobs"}:
                given = named[name][0] if isinstance(named[name], list) else named[name]
                assert default is None or given == default, (command, name)
    for text in (
        "simulate --first_weights gaussian --average_draws 8",
        "spectrum --q_star 1",
        "flow --inputs 1,2",
        "model mlp.py:net --input x.npy",
    ):
        assert parser.parse_args(text.split()), text
    assert parser.parse_args(["flow", "--inputs", "1,2"]).input == "1,2"


def test_small_commands_have_rows(capsys, tmp_path):
    _, out, _ = run(capsys, "cite 000 --json")
    assert [each["key"] for each in json.loads(out)] == ["wickgarten", "day2025"]
    _, out, _ = run(capsys, "cite 000 --csv")
    assert [row["key"] for row in csv.DictReader(out.splitlines())] == ["wickgarten", "day2025"]
    module = tmp_path / "k.py"
    _, out, _ = run(capsys, f"kernel K --activation linear -o {module} --json")
    assert json.loads(out) == [{"file": str(module), "tensor": "K"}]
    assert module.is_file()
    _, out, _ = run(capsys, "kernel --list --csv")
    assert out.splitlines()[0] == "line"


@pytest.mark.slow
def test_figures_are_listed_as_rows(capsys):
    _, out, _ = run(capsys, "figure --csv")
    assert {"figure": "000:1"}.items() <= next(csv.DictReader(out.splitlines())).items()


@pytest.mark.slow
def test_examples_are_verified_as_rows(capsys):
    status, out, _ = run(capsys, "verify --examples 1 --draws 500 --width 6 12 --csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert status in {0, 1}
    assert set(rows[0]) == {"example", "tensor", "layer", "theory", "sample", "se", "z"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "flow --depth 2",
        "simulate --depth 2 --draws 8 --width 4 6",
        "simulate --depth 2 --draws 8 --width 4 6 --compare",
        "train --train 1 --test 0 --depth 2 --activation linear --steps 0 1",
        "train --train 1 --test 0 --depth 2 --activation linear --steps 0 1 --width 4 --draws 4 "
        "--compare",
    ],
)
def test_tables_are_drawn(capsys, tmp_path, text):
    path = tmp_path / "figure.svg"
    status, out, err = run(capsys, f"{text} --plot {path}")
    assert status in {0, 1}, err
    assert out.splitlines()[-1] == str(path)
    assert "<svg" in path.read_text(encoding="utf-8")
    assert run(capsys, f"{text} --plot figure.gif")[0] == 2


def test_bash_completes_commands_options_and_values(tmp_path):
    script = tmp_path / "wickgarten.bash"
    script.write_text(completion.script("bash", cli._parser()), encoding="utf-8")
    for words, expected in (
        (["fl"], "flow"),
        (["flow", "--weig"], "--weights"),
        (["flow", "--weights", "ortho"], "orthogonal"),
        (["simulate", "--activation", "gel"], "gelu"),
        (["completion", "fi"], "fish"),
    ):
        line = " ".join(["wickgarten", *words])
        code = (
            f'source "{script}"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _wickgarten; '
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_other_shells_know_every_command():
    parser = cli._parser()
    assert completion.script("zsh", parser).startswith("autoload")
    lines = completion.script("fish", parser).splitlines()
    for name in COMMANDS:
        assert any(f"__fish_seen_subcommand_from {name}'" in line for line in lines)
    assert any("gelu" in line for line in lines if "-l activation" in line)
    assert "gelu" in activations.names()
