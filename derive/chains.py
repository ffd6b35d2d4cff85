"""Activations and laws of weights along the layers of a network.

Each is one for all layers, or a stem, a block and a head as `layers.by_depth` has them, or a
function of ℓ: `activation="tanh; gelu*; linear"`, `weights=[Gaussian(), Orthogonal()]`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .activations.functions import Activation, as_activation
from .layers.along import Along
from .weights import WeightEnsemble, as_weights


class Activations(Along[Activation]):
    """σ of layers 1, …, L − 1: the first acts on z^(1)."""

    argument: ClassVar[str] = "activation"
    spared: ClassVar[int] = 1
    example: ClassVar[str] = "tanh; gelu*; linear"

    @staticmethod
    def one(given: Any) -> Activation:
        """An activation by its name, or as it is."""
        return as_activation(given)

    @staticmethod
    def is_function(given: object) -> bool:
        """True for a Python function; functions of other libraries are refused with their name."""
        return type(given).__name__ == "function" and getattr(given, "__module__", "") not in (
            "numpy",
            "torch.nn.functional",
        )

    @property
    def name(self) -> str:
        """As text."""
        return str(self)


class Laws(Along[WeightEnsemble]):
    """The laws of W^(1), …, W^(L)."""

    argument: ClassVar[str] = "weights"
    example: ClassVar[str] = "gaussian; orthogonal*"

    @staticmethod
    def one(given: Any) -> WeightEnsemble:
        """A law by its name, or as it is."""
        return as_weights("weights", given)

    @staticmethod
    def is_function(given: object) -> bool:
        """True for a function of the layer, not for a class of laws."""
        return callable(given) and not isinstance(given, type)
