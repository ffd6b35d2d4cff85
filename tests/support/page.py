"""`docs/support.md` from the table: which layers, laws and functions work together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from string import ascii_lowercase, ascii_uppercase

import seconds
from combinations import C_W, DEPTH, FUNCTIONS, LAWS, LAYERS, SIGMA, C_b, N
from reasons import NO, REASONS

COLUMNS: dict[str, tuple[str, str]] = {
    "recursion": ("rec", "`recursion` of K and V in layer 3, `recursion(…, first_layer=True)`"),
    "flow: K, Theta": ("K", "`flow` of K and Theta"),
    "flow: G1, V": ("V", "`flow` of G1 and V"),
    "flow: Theta1, A … F": ("A", "`flow` of Theta1, A, B, D and F"),
    "flow: P, Q": ("P", "`flow` of P and Q, tensors of dH"),
    "flow: several inputs": ("K V 2", "`flow` of K and V for two inputs"),
    "flow: draws": ("draws", "`flow` of K and V of several inputs with `draws`"),
    "flow: precision": ("digits", "`flow` of K and V with `precision`"),
    "simulate": ("sim", "`simulate` of K and V"),
    "simulate: several inputs": ("sim 2", "`simulate` of K and V for two inputs"),
    "simulate: explicit": ("expl", '`simulate` with `sampler="explicit"`'),
    "compare": ("comp", "`compare` of the flow and the ensemble"),
    "write_module": ("mod", "`write_module` for one input"),
    "write_c": ("C", "`write_c`"),
    "criticality": ("crit", '`criticality`; "no critical point" is an answer'),
    "asymptotics": ("asym", "`recursion(…).asymptotics` of V at given `C_b`, `C_W`"),
    "deep.law": (
        "deep",
        "`numeric.deep.law` of ReLU at its critical `C_W`, without biases, for a constant signal",
    ),
    "spectra: moments": ("mom", "moments of `derive.spectra.of_network`"),
    "spectra: density": (
        "dens",
        "the density of `numeric.spectra.jacobian` for one layer, or of `of_network`",
    ),
    "training.flow": ("train", "`numeric.training.flow`"),
    "training.simulate": ("t. sim", "`numeric.training.simulate`"),
    "exact": ("exact", "`derive.exact.cumulant` of σ(z) = z²"),
}
"""The heading of each column, and what it stands for."""

HEAD = f"""\
# What works together

These tables show which layers, laws of weights and functions can be combined. There is one table
for each group of laws, with a row for each layer and a column for each function.

| mark | meaning |
|---|---|
| ✓ | The call returns finite numbers. |
| A capital letter | Mathematically impossible. The end of the page says why. |
| A small letter | Not supported yet: the call raises an error. The end of the page says why. |
| ⧗ | The call may take minutes. |
| s | The most [processor seconds](#seconds) of a call in this row; – if none was measured. |

Each call uses {SIGMA}, $C_W = {C_W}$, $C_b = {C_b}$, {DEPTH} layers, {N} neurons and one input,
unless its column says otherwise. Activations with [kinks](limits.md#activations) have further
limits.

This is one of the cells, uniform weights and a gated layer in the column V:

```pycon
>>> from derive import Network
>>> from numeric import flow
>>> net = Network("tanh", "uniform", layer="gated(norm=rms)")
>>> sorted(flow(net, [1.0, 0.5], 3, ["G1", "V"]).data_vars)
['G1', 'G1_error', 'V', 'V_error']
```

A test tries every combination and fails if a table is wrong. This page is written by
`python tests/support/table.py --write`.

"""

PROFILES = (
    (
        "flow: Theta1, A … F",
        "`convolution(2, 2, norm=batch, eps=1/10)`",
        "91 % are averages of products of slopes of four samples, by six rules for each layer.",
    ),
    (
        "flow: Theta1, A … F",
        "`around(convolution(2, 3), norm=rms)`",
        "60 % is the derivation, 40 % are series of functions of pairs of six samples.",
    ),
    (
        "flow: precision",
        "`convolution(2, 3)`",
        "91 % are sums over four of six samples, as products of matrices of balls.",
    ),
    ("training.flow", "`normalized(layer)`", "94 % is the derivation of all tensors of order 1/n."),
    ("training.simulate", "all", "Over 90 % of the cold seconds are compilation."),
)
"""The slow parts of calls over the limits, by profiles of the first 40 s at most."""

WORKS, SLOW = "works", "slow"


def symbols(kinds: Iterable[str]) -> dict[str, str]:
    """What stands for each kind of outcome in the tables."""
    used = set(kinds)
    found = {WORKS: "✓", SLOW: "⧗"}
    capital, small = iter(ascii_uppercase), iter(ascii_lowercase)
    for reason in REASONS:
        if reason.name in used:
            found[reason.name] = next(capital if reason.status == NO else small)
    return found


def table(rows: dict[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    """A table with a row for each group of layers."""
    heads = ["layer", *(COLUMNS[name][0] for name in FUNCTIONS), "s"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{':-:|' * len(FUNCTIONS)}--:|"]
    for layers, marks in rows.items():
        lines.append(f"| {', '.join(f'`{name}`' for name in layers)} | {' | '.join(marks)} |")
    return lines


def grouped(values: dict[str, tuple]) -> dict[tuple[str, ...], tuple]:
    """Names that have the same value, together."""
    groups: dict[tuple, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return {tuple(names): value for value, names in groups.items()}


Key = tuple[str, str, str]
"""A layer, a law and a function."""


def most(found: dict[Key, seconds.Seconds], layers: Iterable[str], laws: Iterable[str]) -> str:
    """The largest cold seconds of calls with these layers and laws; "–" if none was measured."""
    largest = seconds.largest(found, product(layers, laws, FUNCTIONS))
    return "–" if largest is None else f"{largest[0].cold:.1f}"


def times(found: dict[Key, seconds.Seconds], works: Counter[str]) -> list[str]:
    """The section of seconds: the longest call of each function, and those over the limits.

    Arguments:
        works: how many calls work, by law.
    """
    done = Counter(law for _, law, _ in found)
    head = "| column | cold | warm | layer | law |", "|---|--:|--:|---|---|"
    lines = [
        "",
        "## Seconds",
        "",
        f"Processor seconds of {len(found)} of the {works.total()} calls that work, with {DEPTH}",
        f"layers, {seconds.INPUTS} inputs and width {seconds.WIDTH}, or one input where a call",
        "takes no more. *Cold* is a new process with an empty cache of compiled code, after all",
        "imports. *Warm* is a new process after that one. A call should take at most",
        f"{seconds.COLD} s cold and {seconds.WARM} s warm; it was ended at {seconds.LIMIT} s. Up",
        "to eight other processes kept the two cores busy meanwhile, so that these seconds may be",
        "1.3 times those of a quiet machine.",
        "",
        "| law | measured | that work |",
        "|---|--:|--:|",
        *(f"| {law} | {done[law]} | {count} |" for law, count in works.items()),
        "",
        "This is the longest call of each column, as measured by",
        "`python tests/support/seconds.py`:",
        "",
        *head,
    ]
    longest = (seconds.largest(found, product(LAYERS, LAWS, [name])) for name in FUNCTIONS)
    lines += [timed(*each) for each in longest if each is not None]
    if slow := seconds.over(found):
        lines += ["", "These calls take longer than they should:", "", *head]
        lines += [timed(found[key], key) for key in slow]
    lines += ["", "Profiles of such calls show where the time goes:", ""]
    lines += ["| column | layer | where the time goes |", "|---|---|---|"]
    lines += [f"| {COLUMNS[name][0]} | {layer} | {text} |" for name, layer, text in PROFILES]
    return lines


def timed(spent: seconds.Seconds, key: Key) -> str:
    """A row of the tables of seconds."""
    layer, law, function = key
    cold, warm = (f"> {each:.0f}" if each >= seconds.LIMIT else f"{each:.1f}" for each in spent)
    return f"| {COLUMNS[function][0]} | {cold} | {warm} | `{layer}` | {law} |"


def page(kinds: dict[Key, str], messages: dict[str, str], found: dict[Key, seconds.Seconds]) -> str:
    """The page's text.

    Arguments:
        kinds: "works", "slow" or a reason's name, by (layer, law, function).
        messages: one message for each reason.
        found: the seconds of calls.
    """
    marks = symbols(kinds.values())
    by_law = {
        law: tuple(
            tuple(marks[kinds[layer, law, function]] for function in FUNCTIONS) for layer in LAYERS
        )
        for law in LAWS
    }
    lines = ["| column | call |", "|---|---|"]
    lines += [f"| {COLUMNS[name][0]} | {COLUMNS[name][1]} |" for name in FUNCTIONS]
    for laws, rows in grouped(by_law).items():
        lines += ["", f"## {'; '.join(laws)}", ""]
        groups = grouped(dict(zip(LAYERS, rows, strict=True)))
        lines += table({names: (*row, most(found, names, laws)) for names, row in groups.items()})
    working = (law for (_, law, _), kind in kinds.items() if kind in (WORKS, SLOW))
    lines += times(found, Counter(working))
    for title, is_no in (("Not possible", True), ("Not supported yet", False)):
        used = [each for each in REASONS if each.name in marks and (each.status == NO) == is_no]
        if used:
            lines += ["", f"## {title}", "", "| | reason | example of the error |", "|---|---|---|"]
            lines += [f"| {marks[e.name]} | {e.text} | {cited(messages[e.name])} |" for e in used]
    return HEAD + "\n".join(lines) + "\n"


def cited(message: str) -> str:
    """A message as code in a table's cell."""
    return f"``{' '.join(message.split())}``".replace("|", r"\|")
