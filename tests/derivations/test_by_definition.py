"""Fields summed over the parameters of a small network."""

from __future__ import annotations

import sympy
from sympy import Rational

from derivations.day_kahn_roberts.by_definition import SmallNetwork
from derive import activations
from derive.engine import DH, Field, H

INPUTS = ((Rational(1), Rational(2)), (Rational(-1), Rational(3)))
LAYER = sympy.ImmutableMatrix([[1, 2], [Rational(1, 2), -1]])
SHALLOW = SmallNetwork(
    activations.linear,
    (LAYER,),
    ((Rational(1), Rational(0)),),
    INPUTS,
    lambda_W=Rational(3),
    lambda_b=Rational(1, 2),
)


def test_the_first_layer():
    """H = δ(λ_b + λ_W x·x'/n_0), and no second derivative."""
    product = INPUTS[0][0] * INPUTS[1][0] + INPUTS[0][1] * INPUTS[1][1]
    assert SHALLOW.field(H, 1, [(0, 0), (0, 1)]) == Rational(1, 2) + Rational(3, 2) * product
    assert SHALLOW.field(H, 1, [(0, 0), (1, 1)]) == 0
    assert SHALLOW.field(DH, 1, [(0, 0), (0, 1), (0, 0)]) == 0
    assert SHALLOW.field(Field(1), 1, [(1, 0)]) == Rational(1, 2) * 1 - 2


def test_two_linear_layers_by_hand():
    """z = V W x without biases' rates: dH_{abc} from ∂V∂W z = δ·x alone, for one neuron each."""
    w, v, x, rate = Rational(3), Rational(2), Rational(5), Rational(7)
    net = SmallNetwork(
        activations.linear,
        (sympy.ImmutableMatrix([[w]]), sympy.ImmutableMatrix([[v]])),
        ((Rational(0),), (Rational(0),)),
        ((x,),),
        lambda_W=rate,
        lambda_b=Rational(0),
    )
    at = (0, 0)
    assert net.field(H, 2, [at, at]) == rate * ((v * x) ** 2 + (w * x) ** 2)
    assert net.field(DH, 2, [at] * 3) == 2 * rate**2 * x * (v * x) * (w * x)
    assert net.parameters == (w, 0, v, 0)
    assert (
        net.moved([Rational(1), 0, Rational(-1), 0]).field(Field(1), 2, [at])
        == (w + 1) * (v - 1) * x
    )
