"""What a request would cost, against what the machine holds: refused before the work starts."""

from __future__ import annotations

import os

from .errors import InputError

_SHARE = 0.5
_UNKNOWN = 8 * 2**30


def memory() -> int:
    """Bytes of memory that one request may take: half of the machine's."""
    try:
        return int(_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # sysconf is POSIX's
        return int(_SHARE * _UNKNOWN)


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
        raise InputError(argument, got, wanted)


def size(count: int) -> str:
    """A number of bytes in words: "1.5 GiB"."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            if count >= 2**70:
                return f"some 2^{count.bit_length() - 1} bytes"
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
