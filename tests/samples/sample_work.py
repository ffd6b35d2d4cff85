"""Claims that note that they were proven, wait for ever, or end their process."""

import os
import threading
from pathlib import Path

from derivations.claims.registry import claim
from derivations.claims.verdicts import Verdict
from derive import Network, activations
from numeric import spectra


def note(name):
    with Path(os.environ["WICKGARTEN_TEST_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{name} {os.getpid()}\n")


@claim("000", "1", "first")
def first() -> Verdict:
    """Proven at once."""
    note("first")
    return Verdict("exact", "1", "1")


@claim("000", "2", "second", sampled=True)
def second(sampling) -> Verdict:
    """Proven at once."""
    note("second")
    return Verdict("statistical", str(sampling.seed), z=1.0, bound=5.0, comparisons=1)


@claim("000", "3", "waits")
def waits() -> Verdict:
    """Never proven."""
    note("waits")
    threading.Event().wait()
    return Verdict("exact", "")


@claim("000", "4", "dies")
def dies() -> Verdict:
    """Ends its process."""
    os._exit(3)


@claim("000", "5", "draws", sampled=True)
def draws(sampling) -> Verdict:
    """Of an ensemble of Jacobians."""
    note("draws")
    table = spectra.simulate(Network(activations.tanh), 0.5, 6, 2, 20, seed=sampling.seed)
    return Verdict("statistical", repr(table["m1"].values), z=1.0, bound=5.0, comparisons=1)
