"""Gaussian brackets as source of kernels, by quadrature or in closed form."""

from .module import (
    SingleShape,
    bracket_name,
    check_finite,
    evaluate,
    module_source,
    multi_source,
    single_source,
    support_source,
)

__all__ = [
    "SingleShape",
    "bracket_name",
    "check_finite",
    "evaluate",
    "module_source",
    "multi_source",
    "single_source",
    "support_source",
]


def __dir__() -> list[str]:
    return sorted(__all__)
