"""Costs of a request: refused before the work starts if the machine cannot hold them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ..errors import InputError, Words

_SHARE = 0.5
_UNKNOWN = 8 * 2**30


def memory() -> int:
    """Bytes of memory that one request may take: half of the machine's."""
    try:
        return int(_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # sysconf is POSIX's
        return int(_SHARE * _UNKNOWN)


def _trim() -> Callable[[], object] | None:
    """glibc's `malloc_trim(0)`, where it is."""
    with suppress(AttributeError, OSError, TypeError):
        return partial(ctypes.CDLL(None).malloc_trim, 0)
    return None


_trimmed = _trim()


def give_back() -> None:
    """Return freed memory to the system: glibc keeps what lies between blocks that are in use."""
    if _trimmed is not None:
        _trimmed()


def check_memory(argument: str, got: object, needed: int, what: str) -> None:
    """Refuse what would take more memory than the machine holds.

    Arguments:
        argument, got: whose value asks for it, as in `InputError`.
        needed: bytes, by a count made beforehand.
        what: what the bytes hold, "100 000 layers of 4 inputs".

    Raises:
        InputError: naming the argument, the bytes it would take and those there are.
    """
    if needed > (held := memory()):
        wanted = f"less: {what} would take {size(needed)}, of {size(held)} at most"
        raise InputError(argument, _described(got), wanted)


DAY = 86_400
"""Seconds: what would take longer is refused."""


def check_time(argument: str, got: object, seconds: float, what: str, limit: float = DAY) -> None:
    """Refuse what would take longer than this, a day by default.

    Arguments:
        argument, got: whose value asks for it, as in `InputError`.
        seconds: by a count made beforehand; an integer may be of any size.
        what: what the time would go into, "10^9 layers".
        limit: in seconds.

    Raises:
        InputError: naming the argument and the time it would take.
    """
    if seconds > limit:
        wanted = f"less: {what} would take {duration(seconds)}"
        raise InputError(argument, _described(got), wanted)


def _described(got: object) -> object:
    """Text that lists several values is shown without quotes; it is not a user's text."""
    return Words(got) if isinstance(got, str) else got


def duration(seconds: float) -> str:
    """A time in words: "40 s", "12 min", "3 h", "5 days"."""
    for unit, name in ((365.25 * DAY, "years"), (DAY, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            count = int(seconds) // int(unit)
            return f"{number(count)} {name}"
    return f"{seconds:.0f} s"


def number(count: int) -> str:
    """A whole number in words: "1 000 000", "10^30"."""
    if count < 10**9:
        return f"{count:,}".replace(",", " ")
    digits = int((count.bit_length() - 1) * 0.30103)
    return f"10^{digits + (count >= 10 ** (digits + 1))}"


def size(count: int) -> str:
    """A number of bytes in words: "1.5 GiB"."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            if count >= 2**70:
                return f"some 2^{count.bit_length() - 1} bytes"
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
