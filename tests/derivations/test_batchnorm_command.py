from __future__ import annotations

import argparse

import pytest

from derivations.commands import batchnorm
from derive import activations
from derive.errors import InputError


def parsed(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    batchnorm.arguments(parser)
    return parser.parse_args(text.split())


SMALL = "--width 60 --batch 3 --depth 4 --draws 5"


@pytest.mark.slow
def test_table_with_the_derived_law(capsys) -> None:
    assert batchnorm.run(parsed(SMALL)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["layer", "1", "2", "3", "4", "stationary:"]
    # (n−1)(n+2)²/(4n(n+1)d) = 50/2880 at n = 3, d = 60, and 6 per cent of next order
    assert 50 / 2880 < float(lines[-1].split("=")[1].split(",")[0]) < 1.1 * 50 / 2880


def test_csv_and_figure(tmp_path, capsys) -> None:
    table, figure = tmp_path / "gap.csv", tmp_path / "gap.svg"
    options = f"{SMALL} --activation tanh --csv {table} --plot {figure}"
    assert batchnorm.run(parsed(options)) == 0
    rows = table.read_text().splitlines()
    assert rows[0] == "layer,gap,gap_se,gap_sq,gap_sq_se"
    assert len(rows) == 5
    assert figure.read_text().lstrip().startswith("<?xml")
    assert "order 1/d" in capsys.readouterr().out


@pytest.mark.parametrize("options", ["--vanilla", "--activation relu"])
def test_without_a_law_there_is_no_line(options: str, capsys) -> None:
    assert batchnorm.run(parsed(f"{SMALL} {options}")) == 0
    assert "stationary" not in capsys.readouterr().out


def test_same_seed_same_output(capsys) -> None:
    batchnorm.run(parsed(SMALL))
    first = capsys.readouterr().out
    batchnorm.run(parsed(SMALL))
    assert capsys.readouterr().out == first


def test_a_run_is_kept_and_extended(tmp_path, capsys) -> None:
    longer = SMALL.replace("--draws 5", "--draws 1500")
    assert batchnorm.run(parsed(longer)) == 0
    expected = capsys.readouterr().out
    fewer = SMALL.replace("--draws 5", "--draws 1100")
    assert batchnorm.run(parsed(f"{fewer} --run {tmp_path}")) == 0
    capsys.readouterr()
    assert batchnorm.run(parsed(f"{longer} --run {tmp_path} --progress")) == 0
    found = capsys.readouterr()
    assert found.out == expected
    assert "1024/1500" in found.err
    with pytest.raises(InputError, match=r"^run: got .*: its batch is 3 and not 4"):
        batchnorm.run(parsed(f"{longer} --run {tmp_path}".replace("--batch 3", "--batch 4")))


@pytest.mark.parametrize(("name", "start"), [("gap.PDF", b"%PDF"), ("gap.png", b"\x89PNG")])
def test_a_figure_is_what_its_name_ends_in(name, start, tmp_path, capsys) -> None:
    assert batchnorm.run(parsed(f"{SMALL} --plot {tmp_path / name}")) == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / name)


def test_other_figures_are_refused() -> None:
    with pytest.raises(InputError, match=r"ends in \.svg, \.pdf, \.png"):
        batchnorm.run(parsed(f"{SMALL} --plot gap.txt"))


def test_linear_correlators(capsys) -> None:
    assert batchnorm.derive_linear(6) == 0
    out = capsys.readouterr().out
    assert "G_6(L)/G_2(L)^3 = ((n + 2)*(n + 4)/n**2)**(L - 1)" in out
    assert "1 of n^3, 6 of n^2, 8 of n^1" in out
    assert batchnorm.derive_linear(4, "orthogonal") == 0
    assert "G_4(L)/G_2(L)^2 = n/(n + 2)" in capsys.readouterr().out


@pytest.mark.parametrize(("points", "weights"), [(3, "gaussian"), (0, "gaussian"), (4, "other")])
def test_bad_input(points: int, weights: str) -> None:
    with pytest.raises(InputError):
        batchnorm.derive_linear(points, weights)


def test_any_activation_has_a_law_without_the_mean():
    """V = √(1/(n−1) − 1/n) at large width, n = 3."""
    assert batchnorm.stationary(activations.relu, 3, 10**12, centered=True)[0] == pytest.approx(
        1 / 6
    )
