"""The results that `make bench` keeps, as a page: ours beside each peer's, by machine and date.

    python tests/benchmarks/tabulate.py benchmarks docs/benchmarks.md

A test is a peer's where its `extra_info` has a `peer`; it is set against the other test of its
group in the same run, by the seconds of a call, or by `time_variance` where both have it. A test
that has a `wanted` is a first call: `test_cold`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TITLE = "# Seconds, beside those of the peers\n"
TEXT = """
`make bench` writes this page from the results in `benchmarks/`. Each row has the seconds of a
call here, those of a peer in the same run, and their ratio. For ensembles it is seconds times the
variance of the estimate, which does not depend on the number of networks. Measure one group
yourself, without keeping the result:

```text
python -m pytest tests/benchmarks --benchmark-only -k moment
```

## The bound on training

Training 1000 networks of four layers takes 8.3·10¹⁰ operations: three products of 8 points with
each matrix in every step, and two with the first matrix. Register tiles of 512 bits reach 95 to
115·10⁹ operations a second on one thread of the AMD EPYC. So training takes at least 0.8 s there.
OpenBLAS has kernels of 256 bits on this processor: 57 to 60·10⁹ for large products, and 30 to
35·10⁹ for 8 points.

| on the same thread | seconds |
|---|---|
| here | 1.3 (3.6 with OpenBLAS's products, as in the rows of 2026-11-23) |
| JAX, in blocks of 10 networks | 2.7 |
| NumPy, in blocks of 20 networks | 4.1 |

The peers in the table below take all 1000 networks at once, which do not fit into a cache.

No exact rearrangement saves operations. After t steps with m points, a matrix is W_0 plus t terms
of rank m. The product W_t s = W_0 s − η Σ δ (s_u·s), over u < t, needs no update of the matrix.
That saves 2 n² m operations of 6 n² m. But the sum takes 4 t m² n operations forward and as many
back. From t = n/(4m) on, here two steps, that is more than was saved. W_0 s itself stays n² m,
since s is new in every step. Adding the terms to the matrix every few steps costs the same. Only
the first matrix could be spared, 4 % of all. In single precision the bound halves, for the peers
too.

## The bound on simulation

Processor time of `simulate` over that of drawing as many normals in one go. All is on one thread of
the AMD EPYC, at width 100 and 10 layers of tanh. Attention has 8 tokens, 8 heads and width 512,
convolutions 8 positions and filters of 3. The machine was loaded, so each figure is the least of
several. Measure them with `-k against_their_normals`.

| layer | 1000 networks, before | after | 8192 networks, before | after | wanted |
|---|---|---|---|---|---|
| dense | 4.1 | 3.4 | 2.2 | 2.0 | 1.5 |
| normalized(rms) | 5.0 | 4.2 | 3.1 | 2.3 | 2 |
| normalized(layer) | 5.3 | 4.6 | 3.3 | 2.6 | 2 |
| residual(skip=1) | 3.2 | 3.1 | 2.2 | 2.1 | 2 |
| residual(skip=1, norm=rms) | 3.4 | 3.3 | 2.2 | 2.1 | 2 |
| gated(norm=rms) | 2.7 | 2.6 | 1.9 | 1.7 | 2 |
| convolution | | 10 | | 9.6 | 2 |
| attention | | 15 | | 15 | 2 |

"Before" is commit e1b148dc, "after" is where all words of random numbers are drawn before the
normals, and activations run over long arrays.

| 8192 dense networks | nanoseconds of a normal |
|---|---|
| normals | 1.24 |
| tanh | 0.66 |
| lengths and scales | 0.15 |
| calls between these | 0.2 |
| statistics and their sums | 0.14 |
| Python | 0.5 |

A vector of eight numbers takes 22 cycles of tanh, at 256 bits as at 512: its pipes are full. So the
bound at 8192 networks is 1.5 without Python, and only fewer operations can lower it. At 1000
networks Python takes half of the time: tables, and errors of 256 blocks. Convolutions and attention
call NumPy between their kernels. The matrices of convolutions take a sixth of the time.

The speed of two threads is not in the table: other work held both cores.
"""
FIRST_TITLE = "## First calls"
FIRST_TEXT = """
Processor seconds, all threads together, of new processes with an empty cache: of a call after
`import derive, numeric`, here, as wanted, and at commit 387d053, when all of `flow` was compiled.
"""
FIRST_HEAD = ("what", "here", "wanted", "earlier", "date", "machine")
HEAD = ("what", "here", "peer", "its", "times", "date", "machine")


def cost(result: dict[str, Any]) -> tuple[str, float]:
    """What a result is compared by, and its value."""
    found = result["extra_info"].get("time_variance")
    return ("seconds", result["stats"]["median"]) if found is None else ("variance", found)


def machine(run: dict[str, Any]) -> str:
    """Its processor and its Python."""
    info = run["machine_info"]
    processor = info["cpu"].get("brand_raw", info["machine"])
    return f"{processor}, {info['cpu'].get('count', '?')} threads, Python {info['python_version']}"


def rows(run: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each peer's result of a run."""
    ours = {
        (each["group"], cost(each)[0]): cost(each)[1]
        for each in run["benchmarks"]
        if each["group"] and "peer" not in each["extra_info"]
    }
    for each in run["benchmarks"]:
        kind, theirs = cost(each)
        mine = ours.get((each["group"], kind))
        if "peer" in each["extra_info"] and mine is not None:
            numbers = f"{mine:.2e}", f"{theirs:.2e}", f"{theirs / mine:.3g}"
            peer = each["extra_info"]["peer"]
            yield (
                each["group"],
                numbers[0],
                peer,
                *numbers[1:],
                run["datetime"][:10],
                machine(run),
            )


def first_calls(run: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each first call of a run."""
    for each in run["benchmarks"]:
        if (wanted := each["extra_info"].get("wanted")) is not None:
            seconds = each["extra_info"]["processor"], wanted, each["extra_info"]["earlier"]
            numbers = (f"{value:.2g}" for value in seconds)
            yield (each["group"], *numbers, run["datetime"][:10], machine(run))


def table(head: tuple[str, ...], found: list[tuple[str, ...]]) -> str:
    """In Markdown."""
    lines = [head, ("---",) * len(head), *found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(runs: list[dict[str, Any]], text: str = TEXT) -> str:
    """The page: what is compared in order of its name, the newest run of it first."""
    found = [row for run in runs for row in rows(run)]
    found.sort(key=lambda row: row[5], reverse=True)
    found.sort(key=lambda row: (row[0], row[2]))
    first = [row for run in runs for row in first_calls(run)]
    first.sort(key=lambda row: row[4], reverse=True)
    first.sort(key=lambda row: row[0])
    beside = f"{TITLE}\n{text.strip()}\n\n{table(HEAD, found)}"
    return f"{beside}\n{FIRST_TITLE}\n{FIRST_TEXT}\n{table(FIRST_HEAD, first)}" if first else beside


def main(results: str, target: str, text: str = TEXT) -> None:
    """Write the page from every result in a folder, with a text of what is measured."""
    files = sorted(Path(results).rglob("*.json"))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    Path(target).write_text(page(runs, text), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
