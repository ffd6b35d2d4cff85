"""The one decorator for caches: each has a bound, and `clear_caches` empties them all.

    @cache
    def pair_partitions(points): …

    @cache(entries=64, most_bytes=2**27)  # the values are large arrays
    def nodes(rule, precision): …

    @constant("two symbols of one number would be different symbols")
    def variance(number): …

A value that was dropped is computed again and is equal to the one before. A value that must exist
once is a `constant`: its function has few arguments, its cache has no bound and is never emptied.

Methods have no cache, because it would hold every object. They use a `cached_property`, or a
cached function of what they need.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import is_dataclass
from functools import lru_cache, update_wrapper
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakSet

from .resources import give_back

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

Value = TypeVar("Value")

ENTRIES = 1024
"""The number of values that a cache holds by default."""

_caches: WeakSet[_lru_cache_wrapper[Any]] = WeakSet()


@overload
def cache(function: Callable[..., Value], /) -> _lru_cache_wrapper[Value]: ...
@overload
def cache(
    *, entries: int = ..., most_bytes: int | None = ...
) -> Callable[[Callable[..., Value]], _lru_cache_wrapper[Value]]: ...
def cache(
    function: Callable[..., Value] | None = None,
    /,
    *,
    entries: int = ENTRIES,
    most_bytes: int | None = None,
) -> Any:
    """Keep the values that a function of hashable arguments returned last.

    This is `functools.lru_cache`, as fast and with the same attributes, in the list of caches
    that `clear_caches` empties.

    Arguments:
        entries: the largest number of values.
        most_bytes: the most that the arrays among the values may take. A value that would exceed
            it replaces all others.
    """

    def decorated(function: Callable[..., Value]) -> _lru_cache_wrapper[Value]:
        if most_bytes is None:
            kept = lru_cache(entries)(function)
        else:
            kept = _bounded_by_bytes(function, entries, most_bytes)
        _caches.add(kept)
        return kept

    return decorated if function is None else decorated(function)


def constant(reason: str) -> Callable[[Callable[..., Value]], _lru_cache_wrapper[Value]]:
    """Keep every value of a function of few arguments for as long as the process runs.

    Arguments:
        reason: why a second value could not replace the first.
    """
    if not reason:
        raise ValueError("a constant needs a reason")
    return lru_cache(None)


def clear_caches() -> None:
    """Free the memory of caches: this library's own and sympy's.

    Later calls compute what they need again, with the same results.

    >>> import derive
    >>> derive.clear_caches()
    """
    from sympy.core.cache import clear_cache  # noqa: PLC0415  (sympy takes a second to import)

    for each in list(_caches):
        each.cache_clear()
    clear_cache()
    gc.collect()
    give_back()


def _bounded_by_bytes(
    function: Callable[..., Value], entries: int, most_bytes: int
) -> _lru_cache_wrapper[Value]:
    """A cache that counts the bytes of the values that it computes; a hit costs nothing."""
    lock, held = Lock(), 0

    def computed(*args: Hashable, **options: Hashable) -> Value:
        nonlocal held
        value = function(*args, **options)
        with lock:
            held = held if kept.cache_info().currsize else 0
            held += bytes_of(value)
            if held > most_bytes:
                kept.cache_clear()
                held = bytes_of(value)
        return value

    kept = lru_cache(entries)(computed)
    update_wrapper(kept, function)
    return kept


def bytes_of(value: object) -> int:
    """The bytes of the arrays in a value, which may be nested in containers."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(bytes_of, value.values()))
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        return sum(map(bytes_of, value))
    return bytes_of(vars(value)) if is_dataclass(value) else 0
