"""Why combinations are refused: how a message is recognised, and what the page says of it.

A reason is mathematical ("no"), where what is asked for does not exist or no theory of this kind
has it; or it is missing work ("not yet"). A refusal that no reason recognises fails the test: it
has to be judged, and to get a reason here.
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
        "dense layer alone",
        NOT_YET,
        "weights",
        r"rotation-invariant weights in the layer .*: others need the dense layer",
        "Laws that only permutations of the neurons keep are supported in the dense layer alone.",
    ),
    Reason(
        "layer 1 of entries",
        NOT_YET,
        "first_weights",
        "weights whose law rotations keep, where those of the other layers' is kept",
        "A first layer of independent entries is not supported in front of rotation-invariant "
        "weights.",
    ),
    Reason(
        "layer 1 beyond K0",
        NOT_YET,
        "first_weights|fields",
        "depend on the inputs through xᵀx",
        "Layer 1 of such weights depends on the inputs through more than xᵀx, which is all that "
        'these functions are given. Give `first_weights="gaussian"`.',
    ),
    Reason(
        "spectra of entries",
        NOT_YET,
        "weights",
        "an ensemble of derive.weights, or a Law",
        "The law of WᵀW is not derived for weights that only permutations keep.",
    ),
    Reason(
        "training of entries",
        NOT_YET,
        "weights",
        "pairings of neurons alone are averaged",
        "Training theory averages over pairings of neurons, not over blocks of four equal ones.",
    ),
    Reason(
        "digits of entries",
        NOT_YET,
        "precision",
        "none, with the weights",
        "Balls do not have weights that only permutations keep.",
    ),
    Reason(
        "moments alone",
        NO,
        "law",
        "one with a density or atoms",
        "The weights are given by two moments of their singular values, which do not determine a "
        "density.",
    ),
    Reason(
        "exact beyond dense",
        NOT_YET,
        "network",
        "a network of dense layers, here",
        "`derive.exact` has the dense layer alone.",
    ),
    Reason(
        "spectra of gates",
        NOT_YET,
        "layer",
        "gates of two Gaussian or two orthogonal matrices of one variable",
        "Spectra of gates are derived for two Gaussian or two orthogonal matrices.",
    ),
    Reason(
        "digits of sequences",
        NOT_YET,
        "precision",
        "none, for what closes on sequences",
        "Behind a skip around one matrix V closes on sequences, which balls do not have.",
    ),
    Reason(
        "written sequences",
        NOT_YET,
        "tensors",
        "this one closes on sequences",
        "Behind a skip around one matrix V closes on sequences, which modules do not have.",
    ),
    Reason(
        "asymptotics of sequences",
        NOT_YET,
        "layer",
        "another layer for asymptotics",
        "Behind a skip around one matrix V closes on sequences, which have no asymptotics.",
    ),
    Reason(
        "tower behind norms",
        NOT_YET,
        "tensors",
        "among K, G1, V, .* behind a skip around one matrix with a norm",
        "Behind `skip(γ, norm=…)` the tensors P … U are not closed.",
    ),
    Reason(
        "digits of signals",
        NOT_YET,
        "precision",
        "none, with the layer convolution",
        "Balls do not have convolutions.",
    ),
    Reason(
        "one step of signals",
        NOT_YET,
        "layer",
        "one of `parts`: a convolution has several",
        "Modules and asymptotics do not have convolutions, of which a recursion is a sum of parts.",
    ),
    Reason(
        "spectra of signals",
        NOT_YET,
        "layer",
        "one without positions, for the spectra of Jacobians",
        "Spectra are not derived for convolutions.",
    ),
    Reason(
        "one layer",
        NOT_YET,
        "layer",
        "one of dense, dropout, normalized, residual",
        "These functions take one layer that is repeated, not a sequence.",
    ),
    Reason(
        "spectra of unequal widths",
        NOT_YET,
        "layer",
        "one with as many neurons in all its variables",
        "Spectra are derived for layers whose variables all have n neurons.",
    ),
    Reason(
        "trained outputs behind a skip",
        NOT_YET,
        "layer",
        "as the last one a layer such as the dense one, ",
        "Training theory needs a last layer behind which rotations keep the law of the outputs, "
        "such as the dense one.",
    ),
    Reason(
        "trained dropout",
        NOT_YET,
        "layer",
        "none with dropout, whose masks are random numbers",
        "Training theory has no masks that are drawn anew in each step. Use `training.simulate`.",
    ),
)

BY_NAME = {each.name: each for each in REASONS}


def reason_of(error: InputError) -> Reason | None:
    """The reason that recognises this error, or None."""
    return next((each for each in REASONS if each.matches(error)), None)
