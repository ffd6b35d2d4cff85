"""Random flows, and how far their errors are from the estimates beside them.

    python tests/samples/sample_errors.py 0 1000 --keep exact

A number says its configuration: activation, ensemble, inputs, depth, tensors. The truth is `flow`
with a precision, nine digits more than a float has, each of them proved by a ball's radius: an
error of a float is known to as many. It is kept in a folder, from where a run that was stopped goes
on. What is printed are quantiles of error/estimate and of estimate/error, and the worst.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from derive import Gaussian, Network, Orthogonal
from derive.activations import by_name
from derive.errors import InputError
from derive.weights import LowRankGaussian, LowRankOrthogonal
from numeric import flow

SMOOTH = (
    "tanh", "erf", "sin", "arctan", "gelu", "silu", "sigmoid", "softplus", "erf_unit_cubic",
    "polynomial(0,1,0,-1/6)", "monomial(2)", "expr: z/sqrt(1+z**2)", "expr: z*exp(-z**2/2)",
    "expr: z+tanh(z)", "expr: z+sin(z)", "expr: log(1+exp(z))-log(2)", "expr: 1/(1+z**2)",
    "expr: tanh(z)+1/2", "expr: erf(2*z)-z/3",
)  # fmt: skip
KINKED = (
    "relu", "hard_tanh", "shifted_relu", "leaky_relu(1/10)", "expr: Max(0,z)**2/2",
    "expr: Abs(z)-1",
)  # fmt: skip
STRAIGHT = ("linear", "polynomial(1/2,1,1/4)", "erf", "tanh")
FIRST = ("G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U")
SECOND = ("U6", "G2", "V2")
SHARES = (0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0)
EVERY = 50
"""Numbers from one report to the next."""
UNIT_ROUNDING = float(np.finfo(float).eps) / 2.0


class Configuration(NamedTuple):
    """The arguments of a flow."""

    net: Network
    inputs: np.ndarray
    depth: int
    tensors: tuple[str, ...]
    width: int | None

    def flow(self, precision=None):
        """The table; of floats, with what they lose."""
        return flow(
            self.net,
            self.inputs,
            self.depth,
            self.tensors,
            width=self.width,
            precision=precision,
            seconds=0,
        )


def configuration(number):
    """The one of this number."""
    rng = np.random.default_rng([17, number])
    m = int(rng.choice([1, 2, 3], p=[0.65, 0.29, 0.06]))
    kinked = m < 3 and rng.random() < 0.2
    names = KINKED if kinked else SMOOTH if m < 3 else STRAIGHT
    activation = by_name(str(rng.choice(names)))
    K = 10.0 ** rng.uniform(-8.0, 8.0)
    inputs = _inputs(rng, m, K)
    depth = int(rng.integers(2, 31 if m == 1 else 6 if m == 2 else 4))
    if m == 1 and not kinked and rng.random() < 0.02:
        depth = 1000
    tensors = ["K", *rng.choice(FIRST[: 6 if kinked else None], 1 if m > 1 else 3, replace=False)]
    if rng.random() < (0.2 if m < 3 else 0.0) and not kinked:
        tensors.append(str(rng.choice(SECOND)))
    net = Network(activation, **_weights(rng), C_b=_C_b(rng))
    return Configuration(net, inputs, depth, tuple(map(str, tensors)), inputs.shape[-1])


def _inputs(rng, m, K):
    """Of the first K is this; to the first, the others have any correlation."""
    size = 4
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    rows = [basis[0]]
    for k in range(1, m):
        kind = rng.random()
        gap = 10.0 ** rng.uniform(-12.0, 0.0) if kind < 0.6 else rng.uniform(0.0, 1.0)
        gap = 0.0 if kind > 0.95 else gap
        row = (1.0 - gap) * basis[0] + np.sqrt(gap * (2.0 - gap)) * basis[k]
        rows.append(rng.choice([-1.0, 1.0]) * row * 10.0 ** rng.uniform(-1.0, 1.0))
    inputs = np.sqrt(size * K) * np.array(rows)
    return inputs[0] if m == 1 else inputs


def _weights(rng):
    C_W = float(np.round(rng.choice([1.0, rng.uniform(0.5, 2.5)]), 3))
    half = float(rng.choice([0.25, 0.5]))
    kinds = {
        "gaussian": {"weights": Gaussian(C_W)},
        "orthogonal": {"weights": Orthogonal(C_W)},
        "mixed": {"weights": Orthogonal(C_W), "first_weights": Gaussian(C_W)},
        "low rank": {"weights": LowRankGaussian(C_W, gamma=half), "first_weights": Gaussian(C_W)},
        "frames": {"weights": LowRankOrthogonal(C_W, gamma=half), "first_weights": Gaussian(C_W)},
    }
    return kinds[str(rng.choice(list(kinds), p=[0.3, 0.35, 0.15, 0.1, 0.1]))]


def _C_b(rng):
    return float(rng.choice([0.0, np.round(10.0 ** rng.uniform(-6.0, 1.0), 8)], p=[0.6, 0.4]))


class Compared(NamedTuple):
    """Of one tensor, entries in a row: errors, estimates, and exact values."""

    errors: np.ndarray
    estimates: np.ndarray
    values: np.ndarray

    @property
    def over(self):
        """Error in units of the estimate, at its worst."""
        return float(np.max(_ratio(self.errors, self.estimates)))

    @property
    def under(self):
        """Estimates in units of the error, of numbers that are not exactly 0; no float is nearer
        than half its last bit."""
        floor = np.maximum(self.errors, UNIT_ROUNDING * np.abs(self.values))
        return _ratio(self.estimates, floor)[(self.values != 0.0) | (self.errors > 0.0)]

    @property
    def widest(self):
        """The median of those."""
        return float(np.median(self.under)) if self.under.size else 0.0

    @property
    def lost(self):
        """The largest error relative to the tensor's largest entry."""
        with np.errstate(over="ignore"):
            return float(self.errors.max() / max(np.abs(self.values).max(), 5e-324))


def _ratio(a, b):
    """a/b; 0/0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(a == 0.0, 0.0, a / b)


def compared(table, exact):
    """Each tensor of a flow beside what it is."""
    found = {}
    for name, values in exact.items():
        floats = [Decimal(float(each)) for each in table[name].to_numpy().ravel()]
        errors = [abs(a - b) for a, b in zip(floats, values, strict=True)]
        found[name] = Compared(
            np.array(errors, float),
            table[f"{name}_error"].to_numpy().ravel(),
            np.array(values, float),
        )
    return found


def truth(chosen, precision):
    """The values of each tensor in a row."""
    table = chosen.flow(precision)
    names = [str(name) for name in table if not str(name).endswith("_error")]
    return {name: table[name].to_numpy().ravel().tolist() for name in names}


def kept_truth(number, precision, folder, seconds):
    """The same from a folder; a text where there is none.

    It is computed in a process of its own, which is ended when its processor time is over: what
    an interrupted computation leaves in caches is worth nothing. What the flow in floats derived
    before it is there already.
    """
    file = folder / f"{number}.json"
    if not file.exists():
        process = multiprocessing.get_context("fork").Process(
            target=_keep, args=(number, precision, file, seconds)
        )
        process.start()
        process.join()
        if not file.exists():
            file.write_text(json.dumps("too slow"))
    kept = json.loads(file.read_text())
    if isinstance(kept, str):
        return kept
    return {name: [Decimal(each) for each in values] for name, values in kept.items()}


def _keep(number, precision, file, seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        found = truth(configuration(number), precision)
        kept = {name: [str(each) for each in values] for name, values in found.items()}
    except InputError as error:
        kept = str(error)
    file.write_text(json.dumps(kept))


class Seen(NamedTuple):
    """What there is of all numbers so far: error/estimate of each tensor with a note,
    estimate/error of each entry, truths that are not there, and flows that are refused."""

    over: list[tuple[float, str]]
    under: list[np.ndarray]
    skipped: list[str]
    refused: list[str]

    def add(self, number, precision, folder, seconds):
        """One more."""
        try:
            table = configuration(number).flow()
        except InputError as error:
            self.refused.append(f"{number}: {str(error)[-150:]}")
            return
        exact = kept_truth(number, precision, folder, seconds)
        if isinstance(exact, str):
            self.skipped.append(f"{number}: {exact[-150:]}")
            return
        every = compared(table, exact)
        for name, found in every.items():
            self.over.append((found.over, f"{number} {name}, {found.lost:.2g} of it is lost"))
            self.under.append(found.under)
        worst = max(found.over for found in every.values())
        wide = {name: found.widest for name, found in every.items() if found.widest > 1000.0}
        wide = ", ".join(f"{name} {value:.2g}" for name, value in wide.items())
        print(
            f"{number}: error/estimate {worst:.3g}; estimate/error {wide or 'below 1000'}",
            flush=True,
        )

    def report(self):
        """Print quantiles, and the worst."""
        for value, note in sorted(self.over, reverse=True)[:10]:
            print(f"error/estimate {value:.3g}: {note}")
        for what, notes in (("refused", self.refused), ("no truth", self.skipped)):
            print(*(f"{what} {each}" for each in notes), sep="\n")
        each = np.concatenate([np.zeros(0), *self.under])
        print(f"{len(self.over)} tensors, {len(each)} numbers; {len(self.skipped)} without a truth")
        if not len(each):
            return
        worst = np.array([value for value, _ in self.over])
        for what, values in (("error/estimate", worst), ("estimate/error", each)):
            print(what, *(f"{share:.0%}: {np.quantile(values, share):.3g}" for share in SHARES))
        print(f"estimates below 1000 errors: {(each < 1000.0).mean():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--precision", type=int, default=25)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=60, help="of one truth, on a processor")
    chosen = parser.parse_args()
    chosen.keep.mkdir(parents=True, exist_ok=True)
    seen = Seen([], [], [], [])
    for number in range(chosen.first, chosen.end):
        seen.add(number, chosen.precision, chosen.keep, chosen.seconds)
        if (number + 1) % EVERY == 0 or number + 1 == chosen.end:
            seen.report()


if __name__ == "__main__":
    main()
