"""`wickgarten train`: theory printed, networks trained, the two compared."""

import csv

import numpy as np
import pytest

from derivations import cli
from derivations.commands import train
from derive.errors import InputError


def test_theory_of_digits_is_printed(capsys):
    assert (
        cli.main(["train", "--train", "2", "--test", "1", "--depth", "2", "--steps", "0", "inf"])
        == 0
    )
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("Network(tanh, Gaussian(C_W=1), C_b=0), 2 layers, η = ")
    assert [line.split()[:3] for line in out[2:5]] == [
        ["0", "train", "1"],
        ["0", "train", "2"],
        ["0", "test", "1"],
    ]
    end = [line.split() for line in out if line.split()[0] == "inf"]
    assert all(abs(float(row[3])) == pytest.approx(1) for row in end[:2])  # even or odd is met
    assert end[-1][1:] == ["loss", "0", "0"] or float(end[-1][2]) < 1e-9


def test_trained_networks_are_compared(capsys, tmp_path):
    command = ["train", "--train", "2", "--test", "1", "--weights", "orthogonal", "--depth", "2"]
    command += ["--steps", "2", "--width", "16", "32", "--draws", "300", "--compare"]
    assert (
        cli.main([*command, "--csv", str(tmp_path / "t.csv"), "--run", str(tmp_path / "run")]) == 0
    )
    assert capsys.readouterr().out.splitlines()[1].startswith(("agrees: ", "weak: "))  # exit 0
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert {row["width"] for row in rows} == {"", "16", "32"}
    assert sum(row["variable"] == "prediction" for row in rows) == 9
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["width-16", "width-32"]


def test_data_of_a_file(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "d.npy", rng.standard_normal((5, 6)))
    command = ["train", "--data", str(tmp_path / "d.npy"), "--outputs", "2", "--depth", "2"]
    assert cli.main([*command, "--train", "3", "--test", "2", "--steps", "1", "--eta", "0.1"]) == 0
    assert "output 1 of 2" in capsys.readouterr().out


def test_convolutions_read_equal_parts_of_an_input(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "d.npy", rng.standard_normal((4, 7)))
    command = ["train", "--data", str(tmp_path / "d.npy"), "--train", "2", "--test", "1"]
    command += ["--depth", "2", "--steps", "1", "--eta", "0.1", "--activation", "linear", "--layer"]
    assert cli.main([*command, "convolution(2, 3, readout=mean)"]) == 0
    assert "train 2" in capsys.readouterr().out
    for layer, reason in (
        ("convolution(2, 3)", "readout"),
        ("convolution(2, 4, readout=mean)", "divide"),
    ):
        assert cli.main([*command, layer]) == 2
        assert reason in capsys.readouterr().err


def test_positions_have_all_channels():
    X = np.arange(2 * 3 * 4).reshape(2, 12)  # three channels of four pixels
    signals = train._signals(X, (2,), 3)
    assert signals[0].tolist() == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]
    images = train._signals(X, (2, 2), 3)
    assert images[0].tolist() == [[[0, 4, 8], [1, 5, 9]], [[2, 6, 10], [3, 7, 11]]]
    with pytest.raises(InputError, match="4 positions"):
        train._signals(X, (2, 1), 3)


def test_images_of_a_folder_are_averaged(capsys, tmp_path):
    """CIFAR-10's binary files: 3 × 4 × 4 numbers an image, targets by the parity of the label."""
    rng = np.random.default_rng(1)
    rows = [[label, *rng.integers(256, size=3072)] for label in range(10)]
    (tmp_path / "test_batch.bin").write_bytes(bytes(np.array(rows, np.uint8)))
    for k in range(1, 6):
        (tmp_path / f"data_batch_{k}.bin").write_bytes(bytes(np.array(rows, np.uint8)))
    data = train._images(f"cifar10:{tmp_path}", 1)
    assert data[0].shape == (50, 48)
    block = np.array(rows)[0, 1:1025].reshape(32, 32)[:8, :8].mean() / 255
    assert data[0][0, 0] == pytest.approx(block)
    assert data[1][:2, 0].tolist() == [1, -1]
    command = ["train", "--data", f"cifar10:{tmp_path}", "--train", "2", "--test", "1"]
    assert cli.main([*command, "--depth", "2", "--steps", "1", "--eta", "0.1"]) == 0
    assert "2 training inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (["--train", "0"], "--train"),
        (["--train", "1700", "--test", "98"], "--train"),
        (["--outputs", "11"], "--outputs"),
        (["--data", "mnist"], "--data"),
        (["--data", "mnist:nowhere"], "--data"),
        (["--data", "missing.csv"], "--data"),
        (["--compare"], "--compare"),
        (["--width", "8", "--steps", "inf"], "--steps"),
        (["--eta", "-1"], "eta"),
        (["--activation", "relu"], "activation"),
    ],
)
def test_bad_options_are_named(options, argument, capsys):
    assert cli.main(["train", "--depth", "2", *options]) == 2
    assert capsys.readouterr().err.startswith(f"wickgarten: {argument}: ")
