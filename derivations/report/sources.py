"""The sources of the chapters, and the words and signs of the verdicts."""

from __future__ import annotations

from collections.abc import Mapping

SOURCES: Mapping[str, tuple[str, str]] = {
    "000": (
        "Feature learning and generalization in deep networks with orthogonal weights",
        "H. Day, Y. Kahn and D. A. Roberts (2025)",
    ),
    "001": (
        "On the initialisation of wide low-rank feedforward neural networks",
        "T. Naït Saada and J. Tanner (2023)",
    ),
    "002": (
        "The emergence of spectral universality in deep networks",
        "J. Pennington, S. S. Schoenholz and S. Ganguli (2018)",
    ),
    "003": (
        "Batch normalization orthogonalizes representations in deep random networks",
        "H. Daneshmand, A. Joudaki and F. Bach (2021)",
    ),
    "004": (
        "Effective theory of deep linear networks at initialization",
        "D. A. Roberts, S. Yaida and B. Hanin, The Principles of Deep Learning Theory, "
        "chapter 3 (2022)",
    ),
    "layers": (
        "Layers with norms, skips and gates",
        "derived here; at infinite width D. Doshi, T. He and A. Gromov (2021), "
        "G. Yang and S. S. Schoenholz (2017)",
    ),
    "attention": (
        "Attention",
        "derived here; J. Hron et al. (2020), S. Sakai et al., A. Cowsik et al. (2024), "
        "B. Bordelon et al. (2024)",
    ),
    "deep": (
        "Depth in proportion to width",
        "derived here; B. Hanin and M. Nica (2020), M. B. Li, M. Nica and D. M. Roy (2022)",
    ),
    "training": ("Trained networks at order 1/n", "derived here; the questions are source 000's"),
}
"""Titles and authors."""

VERDICTS: Mapping[str, tuple[str, str]] = {
    "exact": ("✓", "proven with symbols or rational numbers"),
    "enclosed": ("∈", "proven by interval arithmetic at the points stated, and at no others"),
    "numeric": ("≈", "floats agree, to the digits stated where two numbers are compared"),
    "statistical": (
        "σ",
        "every sampled number lies within its bound, in standard errors, and would have shown a "
        "theory that is wrong by 20 %",
    ),
    "reproduced": (
        "↻",
        "an experiment with training, run at the printed size, bears out what is said of it, by "
        "tests over seeds",
    ),
    "reduced size": (
        "↺",
        "reproduced at reduced size: the experiment bears out what is said of it at the size "
        "stated, and nothing is claimed of another",
    ),
    "not reproduced": (
        "⊘",
        "at the size stated the experiment does not bear out all that is said of it",
    ),
    "weak": (
        "~",
        "every sampled number lies within its bound, but a theory that is wrong by more than 20 % "
        "would have passed too",
    ),
    "misprint": (
        "✎",
        "what is printed is wrong; the derivation says what is true, and a number bears witness",
    ),
    "doubtful": (
        "?",
        "what is printed is wrong in the text at hand, which may have lost the characters that "
        "would make it right",
    ),
    "fails": ("✗", "derivation and print differ, and nothing proves which is wrong"),
    "not a statement": ("≔", "a definition, which says nothing that could be false"),
    "open": ("○", "an experiment with training, which the book does not repeat"),
    "not checked": ("–", "its claims were not run"),
}
"""The sign before a verdict's word, and its meaning."""
