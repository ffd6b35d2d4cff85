"""What a call costs beside its arithmetic: a layer the same in any number of them, and no memory
that stays.

Counted are calls of functions and bytes, not seconds: they do not depend on the machine.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest

from derive import activations
from derive.network import Network
from derive.weights import Orthogonal
from numeric.flows import flow
from numeric.simulations import simulate

NET = Network(activations.tanh, Orthogonal(1))
ONE, TWO = [1.0, 0.5], [[1.0, 0.5, -0.2], [0.3, -1.0, 0.7]]


def flowed(inputs, tensors):
    return lambda depth: flow(NET, inputs, depth, tensors)


def sampled(inputs, tensors, sampler="lazy"):
    return lambda depth: simulate(NET, inputs, 8, depth, 40, tensors=tensors, sampler=sampler)


QUANTITIES = {
    "flow of V": (flowed(ONE, ["V"]), 120),
    "flow of the tower": (flowed(ONE, list("VABDF")), 120),
    "flow of V, two inputs": (flowed(TWO, ["V"]), 1100),
    "an ensemble's V": (sampled(ONE, ["V"]), 1),
    "an ensemble's V, two inputs": (sampled(TWO, ["V"]), 55),
    "an ensemble's D": (sampled(ONE, ["D"]), 120),
    "an ensemble's D along probes": (sampled(ONE, ["D"], "probes"), 72),
}


def calls(work):
    """How many functions are called, in Python and from it."""
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_layer_costs_the_same_for_any_number_of_layers(quantity):
    """Calls are a constant and so many a layer, few of them: loops over samples, neurons and
    networks are compiled."""
    work, most = QUANTITIES[quantity]
    counts = []
    for depth in (8, 16, 32):
        work(depth)  # what is prepared once for this depth
        counts.append(calls(lambda depth=depth: work(depth)))
    few, many = (counts[1] - counts[0]) / 8, (counts[2] - counts[1]) / 16
    assert abs(many) <= 1.1 * abs(few) + 1
    assert max(few, many) <= most


@pytest.mark.parametrize("number", [60, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("quantity", ["flow of V", "an ensemble's V", "an ensemble's D"])
def test_memory_is_flat(quantity, number):
    """A tenth of a table per call at most: NumPy keeps some blocks of each size, once."""
    work, _ = QUANTITIES[quantity]
    size = work(20).nbytes
    for _ in range(20):
        work(20)
    gc.collect()
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        for _ in range(number):
            work(20)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < number * size / 10 + 20_000
    assert len(gc.get_objects()) - objects < number / 10
