"""The verdicts as lines on a terminal, as JSON, and as pages to read in a browser."""

from .book import Book, count, ledgers
from .pages import INDEX, check_directory, write_directory
from .record import as_json, seconds_before, write_json
from .terminal import last, ledger_lines, line, measure, summary

__all__ = [
    "INDEX",
    "Book",
    "as_json",
    "check_directory",
    "count",
    "last",
    "ledger_lines",
    "ledgers",
    "line",
    "measure",
    "seconds_before",
    "summary",
    "write_directory",
    "write_json",
]
