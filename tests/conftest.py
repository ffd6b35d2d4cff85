"""What all tests share: no deadline for an example, on a machine that others use as well; which
are slow by `long.txt`, beside those that say so themselves; which worker runs what; and how much
memory each took, in the last lines of the run.

`pytest --seconds FILE` adds a line to FILE for each test: the processor seconds that it took, its
fixtures' and its processes' among them, and whether it is slow. `python tests/long.py FILE` makes
of it the list of long tests, and the order of modules.
"""

import gc
import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

os.environ.setdefault("WICKGARTEN_QUIET", "1")  # stderr must not depend on the machine's load
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a job in the background: its processes
    signal.signal(signal.SIGINT, signal.default_int_handler)  # would never hear Ctrl-C
gc.disable()  # what is imported stays: a third of the time that it takes

LONG = Path(__file__).with_name("long.txt")
MEMORY, WORKERS = pytest.StashKey(), pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--seconds", help="a file to which each test's processor seconds are added")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    listed = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        from longest_first import arrange  # noqa: PLC0415  (pytest-xdist, which not all have)

        arrange(items, config.option.markexpr)


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()
    from worker_memory import Memory  # noqa: PLC0415  (pytest sets the path after this file is read)

    session.config.stash[MEMORY] = Memory()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.option.dist == "loadscope":
        from longest_first import Units  # noqa: PLC0415

        config.option.loadscopereorder = False
        return Units(config, log)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.config.stash[MEMORY].after(item, nextitem)
        if file := item.config.getoption("seconds"):
            slow = item.get_closest_marker("slow") is not None
            row = [item.nodeid, round(sum(os.times()[:4]) - before, 3), slow]
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput") and MEMORY in session.config.stash:
        session.config.workeroutput["memory"] = str(session.config.stash[MEMORY])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    if text := getattr(node, "workeroutput", {}).get("memory"):
        node.config.stash.setdefault(WORKERS, []).append(f"{node.gateway.id}: {text}")


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash.get(WORKERS, None) or [str(config.stash.get(MEMORY, ""))]
    for line in filter(None, lines):
        terminalreporter.write_line(line)
