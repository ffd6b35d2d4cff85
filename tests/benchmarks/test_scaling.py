"""The cost of a network by its width, from 10² to 10⁵ neurons a layer, at fixed draws.

    python tests/benchmarks/test_scaling.py docs/figures

writes cost_by_width.csv, seconds of one thread for a network and layer, and the figure of it.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from derivations.pictures.svg import svg
from derive import activations
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Orthogonal
from numeric.estimators import observables
from numeric.samplers import Sampler, checked_ensemble
from numeric.simulations import make_sampler

DEPTH, DRAWS = 5, 64
WIDTHS = [10**2, 3 * 10**2, 10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5]
CASES = {
    "V, one input": (1, ["V"]),
    "V, three inputs": (3, ["V"]),
    "A, B, D, F, one input": (1, list("ABDF")),
    "A, B, D, F, two inputs": (2, list("ABDF")),
}


def made(case: str, width: int) -> Sampler:
    """What samples orthogonal tanh networks of this width."""
    samples, tensors = CASES[case]
    inputs = np.random.default_rng(0).standard_normal((samples, 50))
    ensemble = checked_ensemble(Network(activations.tanh, Orthogonal(1)), inputs, width, DEPTH, 0)
    sampler = make_sampler(ensemble, observables.Plan(wanted(tensors), samples))
    _ = sampler.reference
    return sampler


@pytest.mark.parametrize("width", [10**2, 10**3, 10**4])
@pytest.mark.parametrize("case", CASES)
def test_cost(benchmark, case, width):
    sampler = made(case, width)
    benchmark.pedantic(sampler.sums, (0, DRAWS, sampler.reference), rounds=3, warmup_rounds=1)
    benchmark.extra_info["per_neuron"] = benchmark.stats["min"] / (DRAWS * DEPTH * width)


def seconds(sampler: Sampler, rounds: int) -> float:
    """The least time of one thread for a network and layer."""
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        sampler.sums(0, DRAWS, sampler.reference)
        found.append(time.thread_time() - start)
    return min(found) / (DRAWS * DEPTH)


def main(folder: Path) -> None:
    """Measure, and write the numbers and the figure."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    rows = {
        case: [seconds(made(case, width), 20 if width <= 10**4 else 5) for width in WIDTHS]
        for case in CASES
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "cost_by_width.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["width", *(f"{case}: seconds per network and layer" for case in rows)])
        writer.writerows(
            zip(WIDTHS, *([f"{t:.3e}" for t in row] for row in rows.values()), strict=True)
        )
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for marker, (case, row) in zip("osD^", rows.items(), strict=True):
        axes.loglog(WIDTHS, row, marker=marker, label=case)
    anchor = rows["V, one input"][-1] / WIDTHS[-1]
    axes.loglog(WIDTHS, [anchor * n for n in WIDTHS], "k:", label="linear in n")
    axes.set(xlabel="width n", ylabel="seconds per network and layer, one thread")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    (folder / "cost_by_width.svg").write_text(svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
