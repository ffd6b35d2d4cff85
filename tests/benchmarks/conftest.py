"""What a kept result says of its machine and its commit: what it takes to read it, no names."""

MACHINE = {"machine", "system", "python_implementation", "python_version", "cpu"}
CPU = {"arch", "brand_raw", "count"}
COMMIT = {"id", "time", "dirty"}


def keep(info, names):
    for name in set(info) - names:
        del info[name]


def pytest_benchmark_update_machine_info(machine_info):
    keep(machine_info, MACHINE)
    keep(machine_info["cpu"], CPU)


def pytest_benchmark_update_commit_info(commit_info):
    keep(commit_info, COMMIT)
