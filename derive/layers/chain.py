"""The stages of a network in order, with their activations and laws of weights.

Activations and laws are the same for all layers, or a stem, a block and a head as in
`layers.by_depth`, or a function of ℓ: `activation="tanh; gelu*; linear"`,
`weights=[Gaussian(), Orthogonal()]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import sympy

from ..activations.functions import Activation, as_activation
from ..engine.atoms import read
from ..engine.stages import Matrix, Stage
from ..errors import InputError
from ..weights import WeightEnsemble, as_weights
from ..work.caches import cache
from .along import Along

GivenActivations: TypeAlias = (
    "Activation | str | Sequence[Activation | str] "
    "| Callable[[int], Activation | str] | Activations"
)
GivenLaws: TypeAlias = (
    "WeightEnsemble | str | Sequence[WeightEnsemble | str] "
    "| Callable[[int], WeightEnsemble | str] | Laws"
)
"""One for all layers, or one for each: a sequence, text, or a function of ℓ = 1, 2, …"""


class Activations(Along[Activation]):
    """The activations of layers 1, …, L − 1: the first acts on z^(1)."""

    argument: ClassVar[str] = "activation"
    spared: ClassVar[int] = 1
    example: ClassVar[str] = "tanh; gelu*; linear"

    @staticmethod
    def one(given: Any) -> Activation:
        """The activation, read from its name if necessary."""
        return as_activation(given)

    @staticmethod
    def is_function(given: object) -> bool:
        """True for a Python function; functions of other libraries are refused with their name."""
        return type(given).__name__ == "function" and getattr(given, "__module__", "") not in (
            "numpy",
            "torch.nn.functional",
        )

    @classmethod
    def given(cls, given: Any, one: Callable[[Any], Activation] | None = None) -> Any:
        """See `Along`. A function of z, which gives no activation at layer 1, is refused."""
        if cls.is_function(given):
            try:
                cls.one(given(cls.first))
            except Exception:  # of a function of the user's
                return cls.one(given)
        return super().given(given, one)

    @classmethod
    def repeated(cls, given: GivenActivations) -> Activation:
        """The activation that a deep network repeats: gelu of "tanh; gelu*".

        Raises InputError if it repeats none, or several in turn.
        """
        made = cls.given(given)
        if isinstance(made, Activation):
            return made
        if len(made.block) != 1:
            wanted = 'one that is repeated, as in "tanh; gelu*"; several are those of a period of '
            wanted += 'layers, layer="dense(activations=tanh); dense(activations=gelu)"'
            raise InputError("activation", str(made), wanted)
        sigma: Activation = made.block[0]
        return sigma

    @property
    def name(self) -> str:
        """The activations as text."""
        return str(self)


class Laws(Along[WeightEnsemble]):
    """The laws of W^(1), …, W^(L)."""

    argument: ClassVar[str] = "weights"
    example: ClassVar[str] = "gaussian; orthogonal*"

    @staticmethod
    def one(given: Any) -> WeightEnsemble:
        """The law, read from its name if necessary."""
        return as_weights("weights", given)

    @staticmethod
    def is_function(given: object) -> bool:
        """True for a function of the layer, not for a class of laws."""
        return callable(given) and not isinstance(given, type)


@dataclass(frozen=True)
class BoundStage:
    """One stage of a network, with all that its equations need.

    Attributes:
        layer: ℓ, the layer that it belongs to; 1 is z = b + W x.
        stage: the equations (`engine.stages`), with its masks and taps.
        weights: the law of each of its matrices, C_W included.
        activations: σ of each of the stage's arguments.
        C_b: the variance of its biases, if it has any.
        lambda_b, lambda_W: the learning rates of its biases and matrices.
        ends_layer: True for the last stage of a layer.
    """

    layer: int
    stage: Stage
    weights: tuple[WeightEnsemble, ...]
    activations: tuple[Activation, ...]
    C_b: sympy.Expr
    lambda_b: sympy.Expr
    lambda_W: sympy.Expr
    ends_layer: bool = True


def law_of(matrix: Matrix, default: WeightEnsemble) -> WeightEnsemble:
    """The law of a matrix: its own or the default, with the matrix's own variance if any."""
    variance = read(matrix.variance, value=lambda own: own.expr, parameter=lambda _: default.C_W)
    return _scaled(matrix.law or default, variance)


@cache(entries=256)  # asked for at every matrix of every layer
def _scaled(law: WeightEnsemble, C_W: sympy.Expr) -> WeightEnsemble:
    return law if law.C_W == C_W else replace(law, C_W=C_W)
