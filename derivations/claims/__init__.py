"""Verdicts, the claims that come to them, and the processes that prove claims."""

from .proving import check, in_order
from .registry import CHAPTERS, FALSE_ALARMS, Claim, Outcome, Sampling, claim, claims, in_module
from .verdicts import WORST_FIRST, Kind, Picture, Verdict, both, close, equal, misprint, sampled

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
    "both",
    "check",
    "claim",
    "claims",
    "close",
    "equal",
    "in_module",
    "in_order",
    "misprint",
    "sampled",
]


def __dir__() -> list[str]:
    return sorted(__all__)
