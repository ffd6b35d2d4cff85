"""Labels of tensors: spelled, read back, and set in LaTeX.

A label is the literature's, such as V, or spells a joint cumulant, the pairing of its slots and its
relative order in 1/n: kappa(z,z,H|01 23;1). Of laws that permutations alone keep, a set partition
stands for the pairing, kappa(z,z,z,z|0123). A symbol or a table carries it as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_BLOCK = r"(?:\d\d+|\d+(?:-\d+)+)"
_SPELLED = re.compile(rf"kappa\((.+)\|({_BLOCK}(?: {_BLOCK})*)(?:;(\d+))?\)")


POOLED = 10**6
"""label + POOLED·k, k > 0, stands for a position of this sample's signal that is averaged over."""


class Label(NamedTuple):
    """The cumulant of the fields of these names, a partition of its slots, and its order."""

    fields: tuple[str, ...]
    pairing: tuple[tuple[int, ...], ...]
    order: int = 0

    @classmethod
    def read(cls, text: str) -> Label | None:
        """Read the text that `str` wrote; None for any other text."""
        match = _SPELLED.fullmatch(text)
        if match is None:
            return None
        return cls(tuple(match[1].split(",")), read_pairing(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        joint = "" if sum(map(len, self.pairing)) <= 10 else "-"
        pairs = " ".join(joint.join(map(str, block)) for block in self.pairing)
        order = f";{self.order}" if self.order else ""
        return f"kappa({','.join(self.fields)}|{pairs}{order})"


def read_pairing(text: str) -> tuple[tuple[int, ...], ...]:
    """ "01 23", or "0-1 2-3", as ((0, 1), (2, 3)); "0123" as one block, ((0, 1, 2, 3),)."""
    blocks = [block.split("-") if "-" in block else list(block) for block in text.split()]
    return tuple(tuple(int(slot) for slot in block) for block in blocks)


SUMMED = 1 << 16
"""Labels of samples from this one on are summed over the batch."""
MOST_SUMMED = 32
"""Of them in one moment, at most."""
SLOPES = SUMMED + 32 * MOST_SUMMED
"""Of these, those that a function of all samples itself is differentiated by."""


def relabelled(samples: Iterable[int], label: Callable[[int], int]) -> tuple[int, ...]:
    """With other labels of the samples; a position stays the same one of its sample's signal."""
    return tuple(label(each % POOLED) + each // POOLED * POOLED for each in samples)


def later(sample: int, by: int) -> int:
    """A label of a sum over the batch, behind `by` others of its moment; other labels stay."""
    return sample + by if SUMMED <= sample < SLOPES else sample


def sample_text(sample: int) -> str:
    """A sample's label: its number; p3, p'3, … for positions of signal 3 that are averaged over;
    or p, q, … if it is summed over."""
    place, signal = divmod(sample, POOLED)
    if place:
        return f"p{(place - 1) * chr(39)}{signal}"
    if sample < SUMMED:
        return str(sample)
    letters, k = ("xyv", sample - SLOPES) if sample >= SLOPES else ("pqruvw", sample - SUMMED)
    return letters[k] if k < len(letters) else f"{letters[0]}{k}"


def sample_latex(sample: int) -> str:
    """The same in LaTeX: α_1, or p."""
    summed = SUMMED <= sample < POOLED
    return sample_text(sample) if summed else rf"\alpha_{{{sample_text(sample)}}}"


def component_latex(name: str, samples: tuple[int, ...], layer: str = "") -> str:
    """T^{(layer)}_{α_1 α_2 …}; V and its kin, symmetric in pairs, with the pairs in parentheses."""
    labels = list(map(sample_latex, samples))
    if name in {"V", "V2", "U6"}:
        labels = [f"({a}{b})" for a, b in zip(labels[::2], labels[1::2], strict=True)]
    head, upper = TENSOR_LATEX.get(name) or _cumulant_latex(name)
    upper += f"({layer})" if layer else ""
    lower = f"_{{{''.join(labels)}}}" if labels else ""
    return head + (f"^{{{upper}}}" if upper else "") + lower


def _cumulant_latex(name: str) -> tuple[str, str]:
    """κ[z,z,H]^{(12)(34)} of the label kappa(z,z,H|01 23), its slots counted from 1.

    With a 0 after the label it is the first layer's.
    """
    first = name.endswith(")0")
    label = Label.read(name[:-1] if first else name)
    plain, of, kind = name.partition("_")
    if label is None and of and plain in TENSOR_LATEX:
        head, upper = TENSOR_LATEX[plain]
        return rf"{head}_{{{kind}}}", upper
    if label is None:
        return rf"\mathrm{{{name}}}", ""
    fields = ",".join(map(_field_latex, label.fields))
    blocks = (r"\,".join(str(slot + 1) for slot in block) for block in label.pairing)
    upper = "".join(f"({block})" for block in blocks)
    upper += rf"\{{{label.order}\}}" if label.order else ""
    return rf"\kappa[{fields}]", upper + ("(0)" if first else "")


def _field_latex(name: str) -> str:
    """A field of the literature, a layer's variable such as y, or a word."""
    return FIELD_LATEX.get(name) or (name if len(name) == 1 else rf"\mathrm{{{name}}}")


FIELD_LATEX = {
    "z": "z",
    "H": r"\widehat{H}",
    "dH": r"\widehat{dH}",
    "ddI": r"\widehat{dd_{I}H}",
    "ddII": r"\widehat{dd_{II}H}",
}

TENSOR_LATEX = {
    "K": ("K", ""),
    "K0": ("K", "(0)"),
    "G1": ("G", r"\{1\}"),
    "G2": ("G", r"\{2\}"),
    "V": ("V", ""),
    "V2": ("V", r"\{2\}"),
    "U6": ("U", ""),
    "Theta": (r"\Theta", ""),
    "Theta1": (r"\Theta", r"\{1\}"),
    "Theta2": (r"\Theta", r"\{2\}"),
} | {name: (name, "") for name in "DFABPQRSTU"}
