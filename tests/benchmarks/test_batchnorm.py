"""Batch norm's chain against explicit matrices: width 1000, batch 10, 100 layers, 4 networks.

The peers draw every 1000 × 1000 matrix, as the paper's code does, and normalise the rows of W H.
Set OMP_NUM_THREADS and NUMBA_NUM_THREADS to 1: compare `median`, seconds for the same 4 networks.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derivations.daneshmand import ensembles as batchnorm
from derive import batchnorm as derived
from derive import clear_caches, linear

WIDTH, BATCH, DEPTH, DRAWS = 1000, 10, 100, 4
START = np.diag([10.0] + [1.0] * (BATCH - 1))

CHAIN = f"orthogonality gaps of batch normalization, {DRAWS} networks"


def stationary():
    law = derived.stationary_gap(1).subs({derived.n: BATCH, derived.d: WIDTH})
    return float(law.evalf())


def test_gram_chain(benchmark):
    benchmark.group = CHAIN
    arguments = (WIDTH, BATCH, DEPTH, DRAWS)
    options = {"inputs": START}
    table = benchmark.pedantic(
        batchnorm.simulate, arguments, options, rounds=10, iterations=1, warmup_rounds=1
    )
    assert abs(table["gap"][50:].mean().item() / stationary() - 1) < 0.1


def numpy_chain():
    rng, gaps = np.random.default_rng(0), []
    for _ in range(DRAWS):
        H = np.zeros((WIDTH, BATCH))
        H[:BATCH] = START
        for _ in range(DEPTH):
            Q = rng.standard_normal((WIDTH, WIDTH)) @ H
            H = Q / np.sqrt((Q**2).sum(axis=1, keepdims=True) * WIDTH)
            gaps.append(np.linalg.norm(H.T @ H - np.eye(BATCH) / BATCH))
    return gaps


def torch_chain():
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    gaps = []
    for _ in range(DRAWS):
        H = torch.zeros(WIDTH, BATCH)
        H[:BATCH] = torch.tensor(START)
        for _ in range(DEPTH):
            Q = torch.randn(WIDTH, WIDTH) @ H
            H = Q / torch.sqrt((Q**2).sum(dim=1, keepdim=True) * WIDTH)
            gaps.append(torch.linalg.norm(H.T @ H - torch.eye(BATCH) / BATCH).item())
    return gaps


PEERS = {"numpy": numpy_chain, "torch": torch_chain}


@pytest.mark.parametrize("peer", PEERS)
def test_explicit_matrices(benchmark, peer):
    benchmark.group, benchmark.extra_info["peer"] = CHAIN, peer
    gaps = benchmark.pedantic(PEERS[peer], rounds=1, iterations=1)
    late = np.reshape(gaps, (DRAWS, DEPTH))[:, 50:]
    assert abs(late.mean() / stationary() - 1) < 0.1


def test_linear_correlator(benchmark):
    """m = 8, six layers of symbolic widths, from nothing cached."""
    widths = sympy.symbols("n_1:7", positive=True, integer=True)
    found = benchmark.pedantic(linear.correlator, (8, widths), setup=clear_caches, rounds=5)
    assert found.free_symbols == set(widths[:5])


def test_stationary_gap(benchmark):
    """The next order of E V², from nothing cached."""

    def fresh():
        clear_caches()
        return derived.stationary_gap()

    found = benchmark.pedantic(fresh, rounds=3, iterations=1)
    assert found.free_symbols == {derived.n, derived.d}
