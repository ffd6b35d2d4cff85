"""Why combinations are refused: how a message is recognised, and what the page says of it.

A reason is "no" if mathematics forbids the combination, or "not yet" if it is missing work. A
refusal that matches no reason fails the test: judge it, and add a reason here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive import InputError

NO, NOT_YET = "no", "not yet"


@dataclass(frozen=True)
class Reason:
    """A kind of refusal.

    Attributes:
        name: in the table.
        status: "no", for mathematics, or "not yet".
        argument: of the InputError, or several with | between.
        phrase: a regular expression that what was wanted contains.
        text: what the page says.
    """

    name: str
    status: str
    argument: str
    phrase: str
    text: str

    def matches(self, error: InputError) -> bool:
        """True if the error is of this kind."""
        known = self.argument.split("|")
        return error.argument in known and re.search(self.phrase, error.wanted) is not None


REASONS = (
    Reason(
        "moments alone",
        NO,
        "law",
        "one with a density or atoms",
        "Two moments of the singular values define these weights, and do not determine a density.",
    ),
    Reason(
        "exact behind norms",
        NO,
        "layer",
        "averages over the weights of one over a random number",
        "At finite width, averages over the weights of one over a random number, or over its root, "
        "are no rational functions of n: norms with ε > 0, norms of several inputs, and norms "
        "behind weights whose law rotations do not keep.",
    ),
    Reason(
        "exact of groups",
        NOT_YET,
        "layer",
        "sums over groups of neurons or over positions",
        "Norms of groups of neurons, and norms over positions, have no exact moments at finite "
        "width here.",
    ),
    Reason(
        "exact of more moments",
        NO,
        "moments",
        "at least [0-9]+ trace moments",
        "Two moments of the singular values define these weights, and do not determine averages of "
        "six weights.",
    ),
    Reason(
        "exact of functions",
        NO,
        "activation",
        "^a polynomial$",
        "At finite width, averages of activations that are not polynomials, such as this layer's "
        "own GELU, are no rational functions of n.",
    ),
    Reason(
        "deep behind norms",
        NO,
        "net",
        "layers with K' = fK, and not a norm",
        "Behind a norm K has no log-normal law at depth in proportion to width. It is the same at "
        "every layer, rests at K* > 0, or grows linearly, and its fluctuations stay of order "
        "1/√n at any depth.",
    ),
    Reason(
        "deep gates",
        NO,
        "net",
        "doubly exponentially",
        "Behind a gate without a norm K' is a power of K. K grows or falls doubly exponentially "
        "with depth, so that it has no limit at L/n fixed.",
    ),
    Reason(
        "deep functions",
        NO,
        "activation",
        "at K\\* = 0 K falls to 0",
        "An activation without σ(cz) = cσ(z), such as this layer's own GELU, has no log-normal "
        "law: K rests at K* > 0 up to O(1/√n), or falls to 0 and nK has the law of "
        "`numeric.deep.falling`.",
    ),
    Reason(
        "spectra of gates",
        NOT_YET,
        "layer",
        "gates of two Gaussian or two orthogonal matrices of one variable",
        "Spectra of gates are derived only for two Gaussian or two orthogonal matrices.",
    ),
    Reason(
        "written sequences",
        NOT_YET,
        "tensors",
        "this one closes on sequences",
        "Behind a skip around one matrix, V depends on sequences of tensors. Written modules do "
        "not support these.",
    ),
    Reason(
        "asymptotics of sequences",
        NOT_YET,
        "layer",
        "another layer for asymptotics",
        "Behind a skip around one matrix, V depends on sequences of tensors. Their asymptotics are "
        "not derived.",
    ),
    Reason(
        "tower behind norms",
        NOT_YET,
        "tensors",
        "among K, G1, V, .* behind a skip around one matrix with a norm",
        "Behind a skip around one matrix with a norm, the tensors P … U have no closed recursion.",
    ),
    Reason(
        "digits of sequences",
        NOT_YET,
        "precision",
        "none, for what closes on sequences of several inputs",
        "Behind a skip around one matrix, V depends on sequences of tensors. With `precision`, "
        "`flow` has these of one input, but not of a signal of several positions.",
    ),
    Reason(
        "signals that are the same everywhere",
        NO,
        "layer",
        "several samples: a boundary of zeros leaves no signal the same everywhere",
        "A signal that is the same everywhere, whose fixed points these are, does not stay so.",
    ),
    Reason(
        "spectra of signals",
        NOT_YET,
        "layer",
        "one whose taps permute the positions",
        "Spectra are derived for constant signals, if each tap only permutes the positions, as in "
        "a circular convolution without strides, pooling, dropout or readout.",
    ),
    Reason(
        "spectra of unequal widths",
        NOT_YET,
        "layer",
        "one with as many neurons in all its variables",
        "Spectra are derived only for layers whose variables all have n neurons.",
    ),
    Reason(
        "tensors of scores",
        NOT_YET,
        "tensors",
        "^K and V; simulate estimates others$",
        "With attention scores over the root of the size of a head, K and V are averages over "
        "scores. Other tensors need more of these averages. Use `simulate`.",
    ),
    Reason(
        "laws of scores",
        NOT_YET,
        "weights",
        "independent entries, for scores over the root of d",
        "With attention scores over the root of the size of a head, V is derived for independent "
        "entries. With other laws heads depend on each other at order 1/n. K has any law.",
    ),
    Reason(
        "draws of attention",
        NOT_YET,
        "layer",
        "norms of each position by itself, and no attention, for draws",
        "`draws=` follows a signal back from an output. The way back through attention, or through "
        "a norm over positions, is not derived.",
    ),
    Reason(
        "digits of attention",
        NOT_YET,
        "precision",
        "^none, for attention$",
        "Weights of attention, and averages over its scores, have no ball arithmetic.",
    ),
    Reason(
        "one input of a batch",
        NO,
        "layer",
        "^several samples, a batch$",
        "These functions take one input, and one input is no batch.",
    ),
    Reason(
        "functions of one sample",
        NOT_YET,
        "layer",
        "functions of one sample",
        "Spectra, `criticality`, `training.simulate`, exact moments and averages with `draws=` "
        "support layers that treat each sample by itself. Behind batch normalization use `flow`, "
        "`simulate`, `training.flow` and `propagation.fixed_points`.",
    ),
    Reason(
        "digits of batches",
        NOT_YET,
        "precision",
        "none, for a function of all samples",
        "Averages of a function of all samples have no ball arithmetic.",
    ),
    Reason(
        "past a batch",
        NOT_YET,
        "layer|tensors",
        "a skip past the samples of a batch normalization|cumulants with every power of z enter",
        "A skip that carries z past a function of z has K and Theta alone. For other tensors put a "
        "matrix before batch normalization.",
    ),
    Reason(
        "trained outputs behind a skip",
        NOT_YET,
        "layer",
        "as the last one a layer such as the dense one, ",
        "Training theory needs a last layer with a rotation-invariant law, such as the dense one.",
    ),
    Reason(
        "trained dropout",
        NOT_YET,
        "layer",
        "none with dropout, whose masks are random numbers",
        "Training theory does not support dropout. Use `training.simulate`.",
    ),
)

BY_NAME = {each.name: each for each in REASONS}


def reason_of(error: InputError) -> Reason | None:
    """The reason that recognises this error, or None."""
    return next((each for each in REASONS if each.matches(error)), None)
