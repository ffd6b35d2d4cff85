"""Ctrl-C ends every long command soon, compiled loops included, in one line."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import derive

ROOT = Path(derive.__file__).parents[1]

COMMANDS = {
    "batchnorm": "batchnorm --width 3000000 --batch 4 --depth 1000 --draws 10",
    "batchnorm of many layers": "batchnorm --width 10 --batch 4 --depth 5000000 --draws 2",
    "flow": "flow --activation tanh --depth 3000000 --C_W 1",
    "derive": "derive 'kappa(z,z,z,z,z,z,z,z|01 23 45 67)'",
    "verify": "verify --examples 4 --jobs 2",
    "simulate": "simulate --C_W 1 --width 100 --depth 10000 --draws 100000 --tensors K",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_is_heard_within_seconds(name):
    """What is at work says so before it is stopped; `timeout` guards against one that hangs."""
    words = shlex.split(COMMANDS[name])
    code = "from derivations.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    environment = {key: value for key, value in os.environ.items() if key != "WICKGARTEN_QUIET"}
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        said = process.stderr.readline()
        while not said.startswith(("sampling", "running", "deriving", "simulating", "verifying")):
            assert said, process.communicate()
            said = process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 130
    assert not out
    assert err.splitlines()[-1] == "wickgarten: interrupted"
    assert "Traceback" not in err
