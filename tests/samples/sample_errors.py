"""Random flows, and how far their errors are from the estimates beside them.

    python -m tests.samples.sample_errors 0 1000 --keep exact      # as many as there is time for

A number says its configuration: activation, ensemble, inputs, depth, tensors. The truth is `flow`
with a precision; with --keep it is kept in a folder, from where a run that was stopped goes on.
What is printed are quantiles of error/estimate and of estimate/error, and the worst.
"""

from __future__ import annotations

import argparse
import json
import signal
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from derive import Gaussian, Network, Orthogonal
from derive.activations.functions import by_name
from derive.errors import InputError
from derive.weights import LowRankGaussian, LowRankOrthogonal
from numeric import flow, flows

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
UNIT_ROUNDING = float(np.finfo(float).eps) / 2.0


class Configuration(NamedTuple):
    """The arguments of a flow."""

    net: Network
    inputs: np.ndarray
    depth: int
    tensors: tuple[str, ...]
    width: int | None

    def flow(self, precision=None):
        """The table."""
        return flow(
            self.net, self.inputs, self.depth, self.tensors, width=self.width, precision=precision
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
    def lost(self):
        """The largest error relative to the tensor's largest entry."""
        with np.errstate(over="ignore"):
            return float(self.errors.max() / max(np.abs(self.values).max(), 5e-324))


def _ratio(a, b):
    """a/b; 0/0 is 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where((a == 0.0) & (b == 0.0), 1.0, a / b)


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


def kept_truth(number, chosen, precision, folder, seconds):
    """The same from a folder; a text where there is none."""
    file = folder / f"{number}.json" if folder else None
    if file and file.exists():
        kept = json.loads(file.read_text())
        if isinstance(kept, dict):
            return {name: [Decimal(each) for each in values] for name, values in kept.items()}
        return kept
    signal.alarm(seconds)
    try:
        found = truth(chosen, precision)
        kept = {name: [str(each) for each in values] for name, values in found.items()}
    except (InputError, TimeoutError, SystemError) as error:
        found = kept = str(error) if isinstance(error, InputError) else "too slow"
    finally:
        signal.alarm(0)
    if file:
        file.write_text(json.dumps(kept))
    return found


def refused(chosen):
    """The table that was refused for its digits."""
    with mock.patch.object(flows, "_check_digits"):
        return chosen.flow()


def _stop(number, frame):
    raise TimeoutError


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--precision", type=int, default=60)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--kept", action="store_true", help="only those that are kept")
    chosen = parser.parse_args()
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, _stop)
    over, under, skipped, lost = [], [], [], []
    for number in range(chosen.first, chosen.end):
        each = configuration(number)
        file = chosen.keep / f"{number}.json" if chosen.keep else None
        if chosen.kept and not (file and file.exists()):
            continue
        exact = kept_truth(number, each, chosen.precision, chosen.keep, chosen.seconds)
        if isinstance(exact, str):
            skipped.append(exact)
            continue
        is_refused = ""
        try:
            table = each.flow()
        except InputError as error:
            is_refused = str(error)[-120:]
            try:
                table = refused(each)
            except InputError as other:
                lost.append(f"{number}: {str(other)[-150:]}")
                continue
        except Exception as error:  # noqa: BLE001
            print("crashed", number, each, repr(error)[:200], flush=True)
            continue
        for name, found in compared(table, exact).items():
            note = f"{number} {name}: {found.over:.3g} {np.median([1.0, *found.under]):.3g} {found.lost:.2g}"
            if is_refused:
                print("refused", note, is_refused, flush=True)
            else:
                over.append((found.over, note))
                under.append(found.under)
    over.sort(reverse=True)
    for value, note in over[:25]:
        print("over" if value > 10 else "    ", note)
    for each in lost:
        print("not finite", each)
    each = np.concatenate(under)
    print(
        f"{len(over)} tensors, {len(each)} numbers; {len(skipped)} too slow, {len(lost)} not finite"
    )
    shares = (0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0)
    print("error/estimate", dict(zip(shares, np.quantile([x for x, _ in over], shares).round(4))))
    print("estimate/error", dict(zip(shares, np.quantile(each, shares).round(1))))
    print(
        "below 1000:",
        float((each < 1000).mean()),
        "by tensor:",
        float(np.mean([np.median(x) < 1000 for x in under if len(x)])),
    )


if __name__ == "__main__":
    main()
