"""Averages over O(n), U(n) and Sp(n): pairings, Weingarten functions, moments, traces."""

from . import permutations
from .moments import haar_moment, parse_moment
from .pairings import (
    Pairing,
    Partition,
    coset_type,
    double_factorial_pairings,
    even_partitions,
    loops,
    mobius,
    ordered,
    pair_partitions,
    refining_partitions,
    set_partitions,
)
from .weingarten import class_size, elements_of, laurent, series, table, weingarten
from .zonal import partitions, spherical_functions

__all__ = [
    "Pairing",
    "Partition",
    "class_size",
    "coset_type",
    "double_factorial_pairings",
    "elements_of",
    "even_partitions",
    "haar_moment",
    "laurent",
    "loops",
    "mobius",
    "ordered",
    "pair_partitions",
    "parse_moment",
    "partitions",
    "permutations",
    "refining_partitions",
    "series",
    "set_partitions",
    "spherical_functions",
    "table",
    "weingarten",
]
