"""The command `wickgarten doctor`: what this installation has, and whether it works."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from . import rows

_OPTIONAL = ("torch", "jax", "flax", "equinox", "keras", "numba-cuda", "mpi4py", "dask")


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    rows.arguments(command)


def run(given: argparse.Namespace) -> int:
    """Print versions, the cache, threads and the GPU; 1 where a small simulation fails."""
    found = [*_versions(), *_machine(), ("cache", _cache()), ("GPU", _gpu())]
    fault = _fault()
    found.append(("a try", fault or "a network of orthogonal matrices keeps K, as it should"))
    if not rows.are_written(given, ("name", "value"), found):
        size = max(len(name) for name, _ in found)
        print("\n".join(f"{name:<{size}}  {value}" for name, value in found))
    return 1 if fault else 0


def _versions() -> Iterator[tuple[str, str]]:
    """Of this package, of Python, and of what it needs or can use."""
    yield "wickgarten", version("wickgarten")
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    needed = [each for each in requires("wickgarten") or () if ";" not in each]
    for text in needed:
        name = text.split("[")[0].rstrip("<>=!~ .0123456789,")
        yield name, _version(name) or "missing, and needed: pip install wickgarten"
    for name in _OPTIONAL:
        yield name, _version(name) or "not installed, and optional"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[tuple[str, str]]:
    import numba

    yield "processors", f"{os.cpu_count()}, of which this process may use {len(_own())}"
    yield "threads", f"{numba.get_num_threads()} of numba (NUMBA_NUM_THREADS)"


def _own() -> set[int] | range:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _cache() -> str:
    """Where compiled modules are kept, with how much is there."""
    from numeric.emit.modules import cache_directory

    path = cache_directory()
    size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK):
        return f"{path}, which can't be written: each session compiles anew"
    return f"{path}, {size / 2**20:.0f} MB, {shutil.disk_usage(place).free / 2**30:.0f} GB free"


def _gpu() -> str:
    try:
        from numba import cuda

        if cuda.is_available():
            return str(cuda.get_current_device().name)
    except Exception as error:  # a driver that is there but broken
        return f"none that works: {error}"
    return 'none; device="cuda" is refused'


def _fault() -> str | None:
    """The reason why the compiled sampler gives no K, or a wrong one."""
    from derive import Network, Orthogonal, activations
    from numeric import simulate

    net = Network(activations.linear, Orthogonal())
    try:
        K = simulate(net, [1.0] * 4, 4, 3, 2, tensors=["K"])["K"].max().item()
    except (ArithmeticError, ImportError, OSError, RuntimeError, ValueError) as error:
        return f"fails: {error}"
    return None if abs(K - 1.0) < 1e-12 else f"gives K = {K} for 1"
