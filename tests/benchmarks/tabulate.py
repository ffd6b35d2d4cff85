"""The results that `make bench` keeps, as a page: ours beside each peer's.

    python tests/benchmarks/tabulate.py benchmarks docs/benchmarks.md

A test is a peer's where its `extra_info` has a `peer`; it is set against the other test of its
group in the same run, by the seconds of a call, or by `time_variance` where both have it. A test
that has a `wanted` is a first call: `test_cold`. What a run says has `failed` is a row with the
reason. The tables are of the newest run and of others of its commit on its machine; all earlier
runs are apart, at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TITLE = "# Seconds, beside those of the peers\n"
TEXT = """
`make bench` writes this page from the results in `benchmarks/`. Each row has the time of a
call here, that of a peer in the same run, and their ratio, *times*: above 1 the peer is slower.
For ensembles it is seconds times the variance of the estimate, which does not depend on the number
of networks. A peer that does not import or fails has a row with its reason. Measure one group
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

Processor time of `simulate`, of 1000 or 8192 networks, over that of drawing as many normals. All is
on one thread of the AMD EPYC, at width 100 and 10 layers of tanh. Attention has 8 tokens, 8 heads
and width 512, convolutions 8 positions and filters of 3. Measure it with
`-k against_their_normals`.

| layer | 1000, before | after | two threads | 8192, before | after | two threads | wanted |
|---|---|---|---|---|---|---|---|
| dense | 4.1 | 2.4 | 1.4 | 2.2 | 1.8 | 1.5 | 1.5 |
| normalized(rms) | 5.0 | 3.0 | 1.3 | 3.1 | 2.0 | 1.6 | 2 |
| normalized(layer) | 5.3 | 3.2 | 1.2 | 3.3 | 2.1 | 1.7 | 2 |
| residual(skip=1) | 3.2 | 2.5 | 1.4 | 2.2 | 1.8 | 1.8 | 2 |
| residual(skip=1, norm=rms) | 3.4 | 2.5 | 1.4 | 2.2 | 1.7 | 1.7 | 2 |
| gated(norm=rms) | 2.7 | 2.1 | 1.2 | 1.9 | 1.5 | 1.7 | 2 |
| convolution | 7.5 | 1.8 | 1.1 | 8.0 | 1.6 | 1.9 | 2 |
| attention | 11 | 4.4 | 1.4 | 10 | 3.8 | 1.9 | 2 |

"Two threads" is their speed over that of one. It and "after" are of one run of `make bench` on a
quiet machine, commit 82c446e8. The gates' 1.7 at 8192 networks is of another run, for that one gave
1.05. "Before" is the least of several on a busy machine. It is of commit a19b6eaf for convolutions
and attention, and of e1b148dc for the others. A network of attention takes 10628 normals.

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
networks Python takes half of the time: tables, and errors of 256 blocks.

| one head of attention, one layer | nanoseconds |
|---|---|
| 120 normals | 165 |
| 16 lengths of normal vectors | 96 |
| 64 exponentials | 47 |
| products of matrices, and copies | 121 |
| maxima and sums of softmax | 36 |
| all of them in one call, with loads and roots | 535 |
| the stream, in compiled code | 45 |
| norms, skips, Gram matrices, statistics and Python | 230 to 260 |

The count has 136 normals for a head, 196 nanoseconds. A length counts as one of them, but takes a
block of Philox of its own, as four normals do. So without Python and NumPy attention takes 2.7
times its normals, and 1.6 times if products were free. The last two rows were measured at a load of
8, by turns with commit 301fec8b, where the last one was 265 to 300. A first call, from an empty
cache, takes 7.5 to 7.9 s of processor time at a load of 8, where it took 15 to 17 s.

A network of a convolution whose Gram matrix loses digits is followed by the general sampler, which
takes five times as long. With ReLU and eight vectors, a third of 64 networks did at width 9, and
none at width 12 or more.

Two threads were wanted 1.9 times as fast as one. What Python does once in a call, half of the time
at 1000 networks and a sixth at 8192, gains nothing from a second thread.

## The bound on averages of traces

Processor milliseconds of `trace_moment` from empty caches, beside haarpy's Weingarten functions
summed over pairs of permutations. Both ran by turns in one process of a loaded AMD EPYC. The last
column adds `trace_series` through 1/n².

| average | here | haarpy | times | with the series |
|---|---|---|---|---|
| E tr (U A U† B)^2 | 1.8 | 9.2 | 5 | 6.2 |
| E tr (U A U† B)^3 | 2.4 | 57 | 24 | 12 |
| E tr (U A U† B)^4 | 4.3 | 451 | 104 | 32 |
| E tr (U A U† B)^5 | 10 | 6312 | 620 | 62 |
| E tr (U A U† B)^6 | 91 | | | |
| E tr (O A Oᵀ B)^2 | 2.1 | 9.9 | 5 | 10 |
| E tr (O A Oᵀ B)^3 | 4.0 | 54 | 14 | 29 |
| E tr (O A Oᵀ B)^4 | 18 | 684 | 38 | 165 |
| E tr (O A Oᵀ B)^5 | 140 | | | |

At k = 4 with U counting takes 1.0 ms, the coefficients 1.3 ms and sympy's products and sum 1.1 ms.
With O the result has 144 terms, not 25, and these parts take 5.3, 4.6 and 6.0 ms. So below k = 4
both sides mostly build sympy's objects, and the ratio cannot be large. A new process, with imports,
takes 0.65 s for the first call at k = 4, and 1.0 s with haarpy. Importing sympy takes 0.48 s of
these.

## Where a peer is faster

* K at infinite width, convolutions: Cho and Saul's kernel by hand is a formula of ReLU alone.
  `flow` derives the recursion of any layer and activation.
* 1000 points of a density, tanh: freealg fits a curve to 1000 eigenvalues, to some 10⁻³. Here the
  curve is computed from the equations of the law.
* The mean of (tr² M − tr M²)/2: finitefree multiplies two polynomials in numbers. `trace_moment`
  derives a formula for any fixed matrices, and sympy puts the numbers into it.
* What a policy is at initialization: PyTorch measures only. The report also has theory and
  verdicts.

neural-tangents does not import without TensorFlow, which `make bench` does not install for one row.
"""
FIRST_TITLE = "## First calls"
FIRST_TEXT = """
Processor seconds, all threads together, of new processes with an empty cache: of a call after
`import derive, numeric`, here, as wanted, and at commit 387d053, when all of `flow` was compiled.
"""
EARLIER_TITLE = "## Earlier results"
EARLIER_TEXT = """
Of other commits or machines. Do not compare seconds of two rows: compare their ratios. The last
table has processor seconds of first calls: here, as wanted, and at commit 387d053, when all of
`flow` was compiled.
"""
HEAD = ("what", "unit", "here", "peer", "its", "times")
FIRST_HEAD = ("what", "here", "wanted", "earlier")
RUN_HEAD = ("commit", "date", "machine")
UNITS = {1.0: "s", 1e-3: "ms", 1e-6: "µs", 1e-9: "ns"}

Run = dict[str, Any]
Row = tuple[str, ...]


def cost(result: dict[str, Any]) -> tuple[str, float]:
    """What a result is compared by, and its value."""
    found = result["extra_info"].get("time_variance")
    return ("s", result["stats"]["median"]) if found is None else ("s × variance", found)


def machine(run: Run) -> str:
    """Its processor and its Python."""
    info = run["machine_info"]
    processor = info["cpu"].get("brand_raw", info["machine"])
    return f"{processor}, {info['cpu'].get('count', '?')} threads, Python {info['python_version']}"


def of_run(run: Run) -> Row:
    """The commit, in short, the date and the machine."""
    return run.get("commit_info", {}).get("id", "")[:8], run["datetime"][:10], machine(run)


def shown(value: float, unit: str) -> str:
    """A number to three digits, seconds in the unit that makes it short."""
    if unit != "s":
        return f"{value:.2e}"
    size = next((size for size in UNITS if value >= size), 1e-9)
    return f"{value / size:.3g} {UNITS[size]}"


def rows(run: Run) -> Iterator[Row]:
    """A row for each peer's result of a run, and for each peer that failed."""
    results, failed = run["benchmarks"], run.get("failed", [])
    ours = {
        (each["group"], cost(each)[0]): cost(each)[1]
        for each in results
        if each["group"] and "peer" not in each["extra_info"]
    }
    wrong = {(each["group"], each["peer"]) for each in failed}
    for each in results:
        unit, theirs = cost(each)
        group, peer = each["group"], each["extra_info"].get("peer")
        mine = ours.get((group, unit))
        if peer is not None and mine is not None and (group, peer) not in wrong:
            numbers = shown(mine, unit), peer, shown(theirs, unit), f"{theirs / mine:.3g}"
            yield (group, unit, *numbers)
    for each in failed:
        known = [(shown(ours[each["group"], unit], unit), unit) for unit in ("s × variance", "s")
                 if (each["group"], unit) in ours]  # fmt: skip
        mine, unit = known[0] if known else ("", "")
        reason = each["reason"].replace("|", r"\|")
        yield (str(each["group"]), unit, mine, each["peer"], f"failed: {reason}", "")


def first_calls(run: Run) -> Iterator[Row]:
    """A row for each first call of a run."""
    for each in run["benchmarks"]:
        if (wanted := each["extra_info"].get("wanted")) is not None:
            seconds = each["extra_info"]["processor"], wanted, each["extra_info"]["earlier"]
            yield (each["group"], *("–" if v is None else f"{v:.2g}" for v in seconds))


def table(head: Row, found: list[Row]) -> str:
    """In Markdown."""
    lines = [head, ("---",) * len(head), *found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(runs: list[Run], text: str = TEXT) -> str:
    """The page: the newest run's commit and machine, then what is older, the newest first."""
    runs = sorted(runs, key=lambda run: run["datetime"], reverse=True)
    same = (0, 2)  # the commit and the machine
    newest = of_run(runs[0])
    last = [run for run in runs if all(of_run(run)[k] == newest[k] for k in same)]
    commit = f"commit {newest[0]}, " if newest[0] else ""
    lines = [TITLE, text.strip(), f"\n## Beside the peers\n\n{commit}{newest[1]}: {newest[2]}.\n"]
    lines.append(table(HEAD, sorted(row for run in last for row in rows(run))))
    if first := sorted(row for run in last for row in first_calls(run)):
        lines += [FIRST_TITLE, FIRST_TEXT, table(FIRST_HEAD, first)]
    earlier = [run for run in runs if run not in last]
    for head, found in ((HEAD, rows), (FIRST_HEAD, first_calls)):
        older = [(*row, *of_run(run)) for run in earlier for row in found(run)]
        older.sort(key=lambda row: row[0])
        if older:
            lines += [] if EARLIER_TITLE in lines else [EARLIER_TITLE, EARLIER_TEXT]
            lines.append(table((*head, *RUN_HEAD), older))
    return "\n".join(lines)


def main(results: str, target: str, text: str = TEXT) -> None:
    """Write the page from every result in a folder, with a text of what is measured."""
    files = sorted(Path(results).rglob("*.json"))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    Path(target).write_text(page(runs, text), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
