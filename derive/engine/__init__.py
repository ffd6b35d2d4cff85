"""From forward equations to recursions: fields, tensors, cumulants, one step."""

from . import cumulants, functionals, skip_closure, step
from .equations import Equation
from .fields import DDH_I, DDH_II, DH, Field, H, Z, forward, slots_of
from .scheme import Scheme
from .skip_closure import BRANCHES, MEMBERS, recursion_of
from .stages import DENSE, LEFT, Function, Product, Stage, Variable
from .step import closure, closures
from .taps import ALONE, Moved, Taps
from .tensors import (
    FIRST_ORDER,
    NAMES,
    Name,
    Tensor,
    canonical,
    identify,
    named,
    pairing_classes,
    spell,
    target,
    tensor,
)
from .trees import STREAM, Kind

__all__ = [
    "ALONE",
    "BRANCHES",
    "DDH_I",
    "DDH_II",
    "DENSE",
    "DH",
    "FIRST_ORDER",
    "LEFT",
    "MEMBERS",
    "NAMES",
    "STREAM",
    "Equation",
    "Field",
    "Function",
    "H",
    "Kind",
    "Moved",
    "Name",
    "Product",
    "Scheme",
    "Stage",
    "Taps",
    "Tensor",
    "Variable",
    "Z",
    "canonical",
    "closure",
    "closures",
    "cumulants",
    "forward",
    "functionals",
    "identify",
    "named",
    "pairing_classes",
    "recursion_of",
    "skip_closure",
    "slots_of",
    "spell",
    "step",
    "target",
    "tensor",
]
