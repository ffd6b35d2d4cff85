"""What all tests share: no deadline for an example, on a machine that others use as well; and which
are slow by `long.txt`, beside those that say so themselves.

`pytest --seconds FILE` adds a line to FILE for each test, with the processor seconds that it took,
its fixtures' and its processes' among them. `python tests/long.py FILE` makes the list of it.
"""

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

os.environ.setdefault("WICKGARTEN_QUIET", "1")  # stderr must not depend on the machine's load

LONG = Path(__file__).with_name("long.txt")


def pytest_addoption(parser):
    parser.addoption("--seconds", help="a file to which each test's processor seconds are added")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    listed = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        if file := item.config.getoption("seconds"):
            row = [item.nodeid, round(sum(os.times()[:4]) - before, 3)]
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
