"""What a kept result says of its machine and its commit: what it takes to read it, no names; a
processor that peers share; and the option that names another checkout."""

import os

import pytest

MACHINE = {"machine", "system", "python_implementation", "python_version", "cpu"}
CPU = {"arch", "brand_raw", "count"}
COMMIT = {"id", "time", "dirty"}


def pytest_addoption(parser):
    parser.addoption("--against", metavar="CHECKOUT", help="run its flows too (test_flows.py)")


def keep(info, names):
    for name in set(info) - names:
        del info[name]


def pytest_benchmark_update_machine_info(machine_info):
    keep(machine_info, MACHINE)
    keep(machine_info["cpu"], CPU)


def pytest_benchmark_update_commit_info(commit_info):
    keep(commit_info, COMMIT)


@pytest.fixture(scope="module")
def one_processor():
    """Threads that a peer starts share it: XLA has no option that keeps it to one."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_of_them)})
    yield
    os.sched_setaffinity(0, all_of_them)
