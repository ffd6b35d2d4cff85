"""Models of other frameworks: read as networks, and judged against theory at initialization."""

from .description import Description, read
from .html import Report
from .report import report

__all__ = ["Description", "Report", "read", "report"]


def __dir__() -> list[str]:
    return sorted(__all__)
