"""Models of other frameworks: read as networks, and judged against theory at initialization."""

from derive.work.faces import public

from .coordinates import CoordinateCheck, coordinate_check
from .description import Description, read
from .html import Report
from .report import report

__all__ = ["CoordinateCheck", "Description", "Report", "coordinate_check", "read", "report"]

public(__name__)
