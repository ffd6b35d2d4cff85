"""Models of other frameworks: read as networks, and judged against theory at initialization."""

from .coordinates import CoordinateCheck, coordinate_check
from .description import Description, read
from .html import Report
from .report import report

__all__ = ["CoordinateCheck", "Description", "Report", "coordinate_check", "read", "report"]


def __dir__() -> list[str]:
    return sorted(__all__)
