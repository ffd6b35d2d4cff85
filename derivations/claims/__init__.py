"""Verdicts, the claims that come to them, and the processes that prove claims."""

from .proving import check, in_order
from .registry import CHAPTERS, FALSE_ALARMS, Claim, Outcome, Sampling, claim, claims, in_module
from .verdicts import (
    WORST_FIRST,
    Kind,
    Picture,
    Verdict,
    both,
    close,
    enclosed,
    equal,
    misprint,
    observed,
    resolving,
    sampled,
)
from .witness import Witness

__all__ = [
    "CHAPTERS",
    "FALSE_ALARMS",
    "WORST_FIRST",
    "Claim",
    "Kind",
    "Outcome",
    "Picture",
    "Sampling",
    "Verdict",
    "Witness",
    "both",
    "check",
    "claim",
    "claims",
    "close",
    "enclosed",
    "equal",
    "in_module",
    "in_order",
    "misprint",
    "observed",
    "resolving",
    "sampled",
]


def __dir__() -> list[str]:
    return sorted(__all__)
