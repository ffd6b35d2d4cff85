"""Some 200 flows over all kinds of layer, law, activation and tensor, and what they came to.

    python tests/snapshots/flows.py             # compares each flow with flows.json
    python tests/snapshots/flows.py --record    # adds new cases; refuses to change a number
    python tests/snapshots/flows.py --record --replace

A redesign has to give the recorded numbers: each entry to 1e-13 of its tensor's largest entry in
that layer or, where this is larger, to `SLACK` times the error that `flow` gave when the number was
recorded. Cases use public names alone, so that they outlive what is behind them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import numpy as np
import sympy

from derive import (
    BiInvariant,
    Equation,
    Gaussian,
    Independent,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Permuted,
    Rademacher,
    RegularSparse,
    Sparse,
    StudentT,
    Truncated,
    TruncatedNormal,
    Uniform,
    activations,
    layers,
    recursion,
    symbols,
)
from numeric import flow

FILE = Path(__file__).with_suffix(".json")
ACCURACY = 1e-13
SLACK = 4
WORST = 1e-5
"""An error, as a part of the tensor, above which a recorded number would hold nothing."""

X = np.array(
    [
        [1.0, -0.5, 0.75, 0.25, 1.25, -1.0],
        [0.5, 1.0, -0.25, 0.75, 0.3, 0.6],
        [-0.2, 0.4, 1.1, -0.9, 0.8, 0.1],
        [0.9, 0.2, -0.6, 0.5, -0.4, 1.3],
    ]
)
PLAIN = ("K", "Theta", "G1", "V")
TANGENT = ("K", "Theta", "V", "G1", "Theta1", "D", "F", "A", "B")
TOWER = ("P", "Q", "R", "S", "T", "U")


@dataclass(frozen=True)
class Case:
    """A flow: its network, made when it runs, its inputs, depth and tensors."""

    name: str
    net: Callable[[], Network]
    inputs: int = 1
    tensors: Any = PLAIN
    depth: int = 4
    others: dict[str, Any] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """Each tensor's entries by layer, and by layer the largest error of one."""
        net = self.net()
        wanted = self.tensors() if callable(self.tensors) else self.tensors
        table = flow(net, self._inputs(net), self.depth, wanted, **self.others)
        return {
            name: {"values": _plain(table[name].values), "errors": _errors(table, name)}
            for name in table.wickgarten.tensors
        }

    def _inputs(self, net: Network) -> np.ndarray:
        if "convolution" in str(net.layer) or "pooling" in str(net.layer):
            signals = np.stack([np.roll(X[:3], k, axis=1) for k in range(self.inputs)])
            return signals[0] if self.inputs == 1 else signals
        return X[0] if self.inputs == 1 else X[: self.inputs]


def _plain(values: np.ndarray) -> Any:
    """Nested lists of floats, or of the digits of decimals."""
    return values.tolist() if values.dtype != object else np.vectorize(str)(values).tolist()


def _errors(table: Any, name: str) -> list[float]:
    errors = table[f"{name}_error"].values.astype(float)
    return [float(f"{each:.1e}") for each in errors.reshape(len(errors), -1).max(axis=1)]


n = sympy.Symbol("n")
QUARTERS = sympy.Rational(5, 4)


def columns() -> Permuted:
    """Columns of two scales, c² = 1/2 and 3/2, shuffled."""
    apart = (n - QUARTERS) / (n - 1) / n**2
    return Permuted(
        1.2, fourth=3 * QUARTERS / n**2, row=apart, column=QUARTERS / n**2, apart=apart, around=0
    )


LAWS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: Gaussian(1.2),
    "orthogonal": lambda: Orthogonal(1.2),
    "low rank gaussian": lambda: LowRankGaussian(1.2, gamma="1/2"),
    "low rank orthogonal": lambda: LowRankOrthogonal(1.2, gamma="1/2"),
    "truncated": lambda: Truncated(1.2, ratio="3/2"),
    "bi-invariant": lambda: BiInvariant(1.2, moments=(1, "3/2")),
}
ENTRIES: dict[str, Callable[[], Any]] = {
    "uniform": lambda: Uniform(1.2),
    "rademacher": lambda: Rademacher(1.2),
    "student": lambda: StudentT(9, C_W=1.2),
    "truncated normal": lambda: TruncatedNormal(2, C_W=1.2),
    "sparse": lambda: Sparse("1/2", C_W=1.2),
    "sparse uniform": lambda: Sparse("1/2", of=Uniform(), C_W=1.2),
    "cumulants": lambda: Independent({4: 0.25}, C_W=1.2),
    "skewed": lambda: Independent({3: 1.5, 4: 0.25}, C_W=1.2),
    "permuted": columns,
    "regular sparse": lambda: RegularSparse("1/2", C_W=1.2),
}
SIGMAS: dict[str, Callable[[], Any]] = {
    "tanh": lambda: activations.tanh,
    "gelu": lambda: activations.gelu,
    "relu": lambda: activations.relu,
    "erf(z)": lambda: activations.from_expr("erf(z)"),
    "linear": lambda: activations.linear,
    "leaky": lambda: activations.leaky_relu(0.25),
    "hard_tanh": lambda: activations.hard_tanh,
    "sin": lambda: activations.sin,
    "sigmoid": lambda: activations.sigmoid,
    "softplus": lambda: activations.softplus,
    "silu": lambda: activations.by_name("silu"),
    "polynomial": lambda: activations.polynomial([0, 1, "1/4", "-1/6"]),
}
SMOOTH = ("tanh", "gelu", "erf(z)", "linear", "sin", "sigmoid", "softplus", "silu", "polynomial")


def own() -> layers.Layer:
    """Norm behind a matrix, two branches, a hidden layer of another width."""
    return layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "q = h[a] h[a]/n",
        "k[i] = h[i]/sqrt(q + eps)",
        "z[i] = gamma z[i] + b[i] + W2[i,a] s(k[a])",
        "g[i] = W3[i,a] z[a]",
        "z[i] = z[i] + W4[i,a] s(g[a])",
        gamma="sqrt(1/2)",
        eps=0.1,
        C={"W2": 2},
        ratio={"h": 2},
    )


def own_gate() -> layers.Layer:
    """A gate of its own, twice the activation, without a norm."""
    return layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "g[i] = W2[i,a] z[a]",
        "z[i] = b[i] + W3[i,a] s(h[a]) s(g[a])",
    )


LAYERS: dict[str, Callable[[], Any]] = {
    text: lambda text=text: text
    for text in (
        "normalized(rms)",
        "normalized(layer)",
        "normalized(rms, eps=1/10)",
        "residual(skip=1/2)",
        "residual(skip=1, norm=rms)",
        "residual(skip=1/2, norm=layer, eps=1/10)",
        "residual(skip=1/2, ratio=2)",
        "residual(skip=1, C=(1/2, 2))",
        "gated",
        "gated(skip=1/2)",
        "gated(norm=rms)",
        "gated(skip=1/2, norm=layer, C=(1, 1, 1/4))",
        "dropout(3/4)",
        "residual(norm=rms)*; dense",
        "dense; (gated(norm=rms); residual(norm=rms))*; normalized(layer)",
    )
} | {"own": own, "own gate": own_gate}
SKIPS = (
    "skip(1/2)",
    "skip(1)",
    "skip(1/2, norm=rms)",
    "skip(3/4, norm=layer, eps=1/10)",
    "skip(1/2)*; dense",
)
CONVOLUTIONS = (
    "convolution(2, 3)",
    "convolution(3, 3, weights=delta)",
    "convolution(2, 3, boundary=zero)",
    "convolution(2, 3, norm=rms)",
    "convolution(2, 3, readout=mean)",
    "convolution(3, 3, readout=flatten)",
    "convolution(2, 3, boundary=zero, readout=flatten)",
)
CHANGED = (
    "convolution(2, 3, boundary=zero)*; pooling(3, 2, stride=1)",
    "around(convolution(2, 3, stride=2), norm=rms, projected=True); dense",
    "around(convolution(2, 3), skip=1/2)*; pooling(3)",
)
"""Layers that change the positions of signals."""


def _net(sigma: str = "tanh", law: str = "gaussian", **others: Any) -> Callable[[], Network]:
    def made() -> Network:
        given = {"C_b": 0.1, "lambda_b": 0.7, "lambda_W": 1.3} | others
        first = given.pop("first", None)
        layer = given.pop("layer", None)
        if layer is not None:
            given["layer"] = layer() if callable(layer) else layer
        weights = (LAWS | ENTRIES)[law]()
        return Network(
            SIGMAS[sigma](), weights, None if first is None else (LAWS | ENTRIES)[first](), **given
        )

    return made


WIDTH = {"width": 6}


def _dense() -> Iterator[Case]:
    for sigma in SIGMAS:
        tensors = (*TANGENT, *TOWER) if sigma in SMOOTH else PLAIN
        yield Case(f"dense {sigma}", _net(sigma), tensors=tensors)
        yield Case(f"dense {sigma} 2 inputs", _net(sigma, "orthogonal"), 2, depth=3)
    for sigma in ("tanh", "gelu", "relu"):
        yield Case(f"dense {sigma} 3 inputs", _net(sigma, "orthogonal"), 3, depth=3)
    yield Case("dense tanh 4 inputs", _net("tanh", C_b=0), 4, ("K", "Theta", "G1"), 3)
    yield Case("dense relu 4 inputs", _net("relu", C_b=0), 4, ("K", "Theta", "G1"), 3)
    yield Case("dense tanh 40 layers", _net("tanh", "orthogonal"), depth=40)
    yield Case("dense relu scale-invariant", _net("relu", C_b=0), tensors=("K", "G1", "V"))
    for law in LAWS:
        yield Case(f"dense {law}", _net(law=law), 1, TANGENT, others=WIDTH)
        yield Case(f"dense {law} tower", _net("gelu", law), 1, TOWER, 3, WIDTH)
        yield Case(f"dense {law} 2 inputs", _net("gelu", law), 2, TANGENT, 3, WIDTH)
    fourth = "kappa(z,z,z,z|0123)"
    for law in ENTRIES:
        first = "gaussian" if law in ("skewed", "cumulants", "permuted") else None
        tensors = (*PLAIN, "Theta1") if law == "regular sparse" else PLAIN
        yield Case(f"dense {law}", _net(law=law, first=first), 1, tensors, others=WIDTH)
    for law in ("uniform", "sparse", "regular sparse"):
        made = _net("gelu", law, first="gaussian")
        yield Case(f"dense {law} behind gaussian 2 inputs", made, 2, (*PLAIN, fourth), 3, WIDTH)
    yield Case("dense uniform tangent", _net("tanh", "uniform"), 1, TANGENT, 3, WIDTH)
    for law, first in (
        ("orthogonal", "gaussian"),
        ("gaussian", "orthogonal"),
        ("low rank orthogonal", "orthogonal"),
        ("uniform", "gaussian"),
        ("uniform", "rademacher"),
    ):
        made = _net(law=law, first=first)
        yield Case(f"dense {law} behind {first}", made, 1, TANGENT, 3, WIDTH)


def _layers() -> Iterator[Case]:
    laws = cycle(LAWS)
    sigmas = cycle(("gelu", "relu", "sin", "erf(z)", "silu"))
    for text, layer in LAYERS.items():
        law, sigma = next(laws), next(sigmas)
        yield Case(f"{text} {law}", _net("tanh", law, layer=layer), 1, TANGENT, 4, WIDTH)
        yield Case(f"{text} orthogonal {sigma}", _net(sigma, "orthogonal", layer=layer), depth=3)
        made = _net("tanh", "orthogonal", layer=layer)
        yield Case(f"{text} orthogonal 2 inputs", made, 2, PLAIN, 3)
        tower = TOWER if text in ("normalized(rms)", "gated", "dropout(3/4)") else TOWER[:2]
        yield Case(f"{text} gaussian tower", _net("tanh", layer=layer), 1, tower, 3)
    for text in ("normalized(rms)", "residual(skip=1/2)", "gated(norm=rms)"):
        made = _net("gelu", "orthogonal", layer=text)
        yield Case(f"{text} 3 inputs", made, 3, ("K", "Theta", "G1"), 3)
        yield Case(f"{text} 2 inputs tangent", made, 2, TANGENT, 3)
    for text in SKIPS:
        yield Case(f"{text}", _net("tanh", layer=text), 1, TANGENT)
        yield Case(f"{text} relu", _net("relu", layer=text), 1, ("K", "V"), 3)
        yield Case(f"{text} 2 inputs", _net("tanh", "orthogonal", layer=text), 2, PLAIN, 3)
    for law in ("low rank orthogonal", "bi-invariant"):
        made = _net("tanh", law, layer="skip(1/2)")
        yield Case(f"skip(1/2) {law}", made, 1, PLAIN, 3, WIDTH)
    yield Case("skip(1/2) tower", _net("tanh", layer="skip(1/2)"), 1, TOWER, 3)
    for text in CONVOLUTIONS:
        yield Case(f"{text}", _net("tanh", layer=text), 1, ("K", "Theta", "V"), 3)
    for text in CONVOLUTIONS[::4]:
        made = _net("relu", "orthogonal", layer=text)
        yield Case(f"{text} relu orthogonal", made, 1, ("K", "Theta", "G1"), 3)
    for text in CHANGED:
        yield Case(f"{text}", _net("tanh", layer=text), 1, ("K", "Theta", "V"), 3)
    made = _net("tanh", "orthogonal", layer="convolution(2, 3, readout=mean)")
    yield Case("convolution(2, 3, readout=mean) 2 inputs", made, 2, PLAIN, 3)
    yield Case("dropout(3/4) relu 2 inputs", _net("relu", layer="dropout(3/4)"), 2, PLAIN, 3)


def _widths() -> Iterator[Case]:
    widths = {"widths": (6, 12, 8, 24, 10)}
    for law in ("gaussian", "orthogonal", "low rank orthogonal", "uniform"):
        yield Case(f"widths {law}", _net("tanh", law, **widths), 1, TANGENT)
    for text in ("normalized(rms)", "gated", "dropout(3/4)"):
        yield Case(f"widths {text}", _net("tanh", "orthogonal", layer=text, **widths), 1, TANGENT)
    ratio = {"width_ratio": [1, 2, "1/2", 1]}
    made = _net("gelu", "orthogonal", **ratio)
    yield Case("width_ratio list", made, 2, PLAIN, 4, {"width": 12})
    ratio = {"width_ratio": 2}
    made = _net("tanh", "orthogonal", layer="residual(norm=rms)", **ratio)
    yield Case("width_ratio 2 residual", made, 1, TANGENT, 3, {"width": 6})


def _rates() -> Iterator[Case]:
    corrected = {"C_W_corrections": (0.5,), "C_b_corrections": (-0.25,)}
    yield Case("corrections", _net("tanh", "orthogonal", **corrected), 1, TANGENT)
    yield Case("corrections relu", _net("relu", **corrected), 2, PLAIN, 3)
    for text in ("normalized(rms)", "residual(skip=1/2)"):
        yield Case(f"corrections {text}", _net("tanh", layer=text, **corrected), 1, TANGENT, 3)
    by_layer = {
        "C_b": [0.1, 0.2, 0.0, 0.3],
        "lambda_b": 1 / symbols.ell,
        "lambda_W": [1, 2, 3, 4],
    }
    yield Case("by layer", _net("tanh", "orthogonal", **by_layer), 1, (*TANGENT, *TOWER))
    yield Case("by layer 2 inputs", _net("gelu", **by_layer), 2, PLAIN)
    for text in ("residual(norm=rms)", "gated(skip=1/2)", "skip(1/2)"):
        yield Case(f"by layer {text}", _net("tanh", layer=text, **by_layer), 1, TANGENT)


def _digits() -> Iterator[Case]:
    for digits, sigma, law in (
        (16, "tanh", "gaussian"),
        (25, "gelu", "orthogonal"),
        (30, "relu", "low rank orthogonal"),
        (20, "erf(z)", "bi-invariant"),
    ):
        others = {"precision": digits, **WIDTH}
        yield Case(f"precision {digits} {sigma} {law}", _net(sigma, law), 1, PLAIN, 3, others)
    for text in ("normalized(rms)", "residual(skip=1/2)", "gated(norm=rms)", "residual*; dense"):
        others = {"precision": 18}
        made = _net("tanh", "orthogonal", layer=text)
        yield Case(f"precision 18 {text}", made, 1, PLAIN, 3, others)
    yield Case("precision 16 2 inputs", _net("tanh"), 2, ("K", "V"), 2, {"precision": 16})
    yield Case("precision 20 tower", _net("tanh"), 1, TOWER, 3, {"precision": 20})


def _jacobian() -> Equation:
    return Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")


def _orders() -> Iterator[Case]:
    yield Case("next order", _net("tanh"), 1, ("G2", "V2", "U6"), 4)
    yield Case("next order orthogonal", _net("gelu", "orthogonal"), 1, ("G2", "V2", "U6"), 3)
    yield Case("next order residual", _net("tanh", layer="residual(norm=rms)"), 1, ("U6",), 3)
    yield Case("U6 2 inputs", _net("relu"), 2, ("U6",), 3)
    yield Case("Theta2", _net("tanh"), 1, ("Theta2",), 3)
    kappa = ("kappa(z,z,H,H|01 23 45)", "kappa(z,z,H|01 23)")
    yield Case("cumulants by name", _net("tanh", "orthogonal"), 1, kappa, 3)

    def own_fields() -> list[Any]:
        J = _jacobian()
        return [
            recursion([J], pairing="01"),
            recursion([J, "z", "z"], pairing="01 23"),
            recursion([J, J], pairing="02 13"),
        ]

    for law in ("gaussian", "bi-invariant"):

        def under(law: str = law) -> list[Any]:
            weights = LAWS[law]()
            J = _jacobian()
            return [recursion([J, J], weights, pairing=each) for each in ("01 23", "02 13")]

        made = _net("tanh", law)
        yield Case(f"own field {law}", made, 1, under, 3, WIDTH)
    yield Case("own field joint", _net("tanh"), 2, own_fields, 3, WIDTH)


@cache
def cases() -> tuple[Case, ...]:
    """All of them; names are unique."""
    groups: Iterable[Iterator[Case]] = (
        _dense(),
        _layers(),
        _widths(),
        _rates(),
        _digits(),
        _orders(),
    )
    every = tuple(chain(*groups))
    names = [each.name for each in every]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return every


@cache
def recorded() -> dict[str, Any]:
    """What each case came to when it was recorded, by its name."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def moved(name: str, found: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """A line for each entry that is not the recorded one, the largest difference first."""
    lines: list[tuple[float, str]] = []
    if list(found) != list(known):
        return [f"{name}: tensors {', '.join(found)}; recorded {', '.join(known)}"]
    for tensor, entries in known.items():
        before = np.array(entries["values"])
        now = np.array(found[tensor]["values"])
        if before.shape != now.shape:
            return [f"{name}: {tensor} has shape {now.shape}; recorded {before.shape}"]
        decimal = before.dtype.kind == "U"
        if decimal:
            before, now = (np.vectorize(Decimal, otypes=[object])(each) for each in (before, now))
        allowed = tolerances(before.astype(float), entries["errors"], exact=decimal)
        difference = np.abs(now - before).astype(float)
        for index in np.argwhere(~(difference <= allowed)):
            place = tuple(map(int, index))
            labels = ", ".join(map(str, (place[0] + 1, *place[1:])))
            ratio = float(difference[place] / allowed[place]) if allowed[place] else np.inf
            text = (
                f"{name}: {tensor}[layer {labels}] is {now[place]}; recorded {before[place]}; "
                f"off by {difference[place]:.1e}, allowed {allowed[place]:.1e}"
            )
            lines.append((ratio, text))
    return [text for _, text in sorted(lines, reverse=True)]


def tolerances(values: np.ndarray, errors: list[float], *, exact: bool = False) -> np.ndarray:
    """What each entry may be off by.

    Arguments:
        values: (depth, …), a tensor's entries.
        errors: by layer, those of `flow`.
        exact: whether they are bounds of digits, beside which nothing is allowed.
    """
    sizes = np.abs(values).reshape(len(values), -1).max(axis=1)
    sizes = np.where(sizes > 0, sizes, sizes.max())
    by_layer = SLACK * np.array(errors)
    if not exact:
        by_layer = np.maximum(by_layer, ACCURACY * sizes)
    return np.broadcast_to(by_layer.reshape(-1, *[1] * (values.ndim - 1)), values.shape)


def checked(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """The same, or an error where an entry is no number or its error leaves nothing of it."""
    for tensor, entries in found.items():
        values = np.array(entries["values"]).astype(float)
        errors = np.array(entries["errors"])
        largest = max(np.abs(values).max(), WORST)
        if not np.isfinite(values).all() or not np.all(errors <= WORST * largest):
            raise SystemExit(f"{name}: {tensor} {values.tolist()} with errors {errors.tolist()}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Compare or record; the number of cases that moved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="add cases that are not recorded")
    parser.add_argument("--replace", action="store_true", help="change recorded numbers too")
    given = parser.parse_args(arguments)
    if given.replace and not given.record:
        parser.error("--replace is an option of --record")
    known, kept, wrong = recorded(), {}, 0
    for case in cases():
        try:
            found = checked(case.name, case.table())
        except InputError as refused:
            print(f"{case.name}: refused: {refused}")
            wrong += 1
            continue
        before = known.get(case.name)
        lines = [] if before is None else moved(case.name, found, before)
        print(*lines, sep="\n", end="\n" if lines else "")
        if before is None and not given.record:
            print(f"{case.name}: not recorded")
        replaced = given.replace or before is None
        wrong += bool(lines) and not replaced
        kept[case.name] = found if before is None or (lines and replaced) else before
    gone = sorted(known.keys() - {case.name for case in cases()})
    for name in gone:
        print(f"{name}: recorded, and no case")
    if given.record:
        if wrong or (gone and not given.replace):
            print("nothing was written: --replace changes what is recorded")
            return 1
        rows = (f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v)}" for k, v in kept.items())
        FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        print(f"{len(kept)} cases in {FILE.name}, {FILE.stat().st_size / 1e3:.0f} kB")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
