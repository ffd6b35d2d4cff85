"""What a kept result says of its machine and its commit: what it takes to read it, no names; peers
that fail; a processor that peers share; and the option that names another checkout.

    @pytest.mark.peer("JAX", "jax")

names the peer that a test measures, and the modules that it needs. A peer that does not import, or
whose test fails, is a row of the table with its reason and no failure of the run: `failed`.
"""

import os
import re
from importlib import import_module

import pytest

MACHINE = {"machine", "system", "python_implementation", "python_version", "cpu"}
CPU = {"arch", "brand_raw", "count"}
COMMIT = {"id", "time", "dirty"}


BENCHMARK, FAILED = pytest.StashKey(), pytest.StashKey()


def pytest_configure(config):
    config.addinivalue_line("markers", "peer(name, *modules): what is measured, and what it needs")


@pytest.fixture(autouse=True)
def _peer(request):
    if "benchmark" not in request.fixturenames:
        return
    request.node.stash[BENCHMARK] = benchmark = request.getfixturevalue("benchmark")
    mark = request.node.get_closest_marker("peer")
    if mark is not None:
        benchmark.extra_info["peer"], *modules = mark.args
        for module in modules:
            import_module(module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    benchmark = item.stash.get(BENCHMARK, None)
    if call.excinfo is not None and benchmark is not None and "peer" in benchmark.extra_info:
        error = call.excinfo.value
        said = re.sub(r"\s*\(?(?:/[\w.+-]+){2,}\)?", "", str(error)).strip()  # paths
        reason = f"{type(error).__name__}: {said.partition(chr(10))[0]}"
        failed = {"group": benchmark.group, "peer": benchmark.extra_info["peer"], "reason": reason}
        item.config.stash.setdefault(FAILED, []).append(failed)
        if not report.skipped:
            report.outcome, report.wasxfail = "skipped", f"reason: {reason}"
    return report


def pytest_benchmark_update_json(config, output_json):
    output_json["failed"] = config.stash.get(FAILED, [])


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
