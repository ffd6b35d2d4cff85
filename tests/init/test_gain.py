"""`numeric.init.gain`, and what needs no framework."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sympy

from derive import Gaussian, InputError, LowRankGaussian, Uniform, criticality, layers
from numeric import init
from numeric.init import Initialized, Setting
from numeric.init.gains import ensemble
from numeric.init.settings import LEFT


@pytest.mark.parametrize("sigma", ["relu", "tanh", "gelu", "linear"])
def test_it_is_that_of_the_critical_point(sigma):
    found, point = init.gain(sigma), criticality(sigma)
    assert (found.C_b, found.C_W) == point.critical
    assert float(found) ** 2 == pytest.approx(float(point.critical[1]), rel=1e-15)


def test_of_a_convolution_it_is_the_dense_layers():
    """Every position has the dense layer's K; so has a delta-orthogonal filter."""
    for filters in ("gaussian", "delta"):
        layer = layers.convolution(3, 8, weights=filters)
        assert float(init.gain("gelu", layer)) == pytest.approx(float(init.gain("gelu")), rel=1e-15)


def test_of_a_layer_that_every_gain_makes_critical():
    assert float(init.gain("relu", "normalized(rms)", C_W=3)) == pytest.approx(np.sqrt(3))
    assert float(init.gain("gelu", "residual(skip=1, norm=layer)")) == 1
    assert init.gain("tanh", "normalized(rms)").std_b > 0


@pytest.mark.parametrize(
    ("arguments", "named", "argument"),
    [
        (("swish2",), {}, "activation"),
        (("sigmoid",), {}, "activation"),
        (("relu", "no layer"), {}, "layer"),
        (("relu", "residual(skip=1, norm=rms, C=(1, 2))"), {}, "layer"),
        (("relu",), {"C_W": 2}, "C_W"),
        (("relu", "normalized(rms)"), {"C_W": -1}, "C_W"),
        (("relu", "normalized(rms)"), {"K": 1}, "layer"),
        (("relu",), {"C_W": 2, "K": 1}, "C_W, K"),
        (("sigmoid", "normalized(rms)"), {}, "C_W"),
    ],
)
def test_bad_input_is_named(arguments, named, argument):
    with pytest.raises(InputError) as caught:
        init.gain(*arguments, **named)
    assert caught.value.argument == argument


def test_a_law_with_another_variance():
    assert ensemble("uniform", init.gain("relu").C_W) == Uniform(2)
    assert ensemble(LowRankGaussian(gamma=0.5), 2) == LowRankGaussian(2, gamma=0.5)
    with pytest.raises(InputError, match="weights without C_W, which is 2"):
        ensemble(LowRankGaussian(7, gamma=0.5), 2)
    with pytest.raises(InputError, match="weights"):
        ensemble("no law", 2)
    with pytest.raises(InputError, match="numbers for its parameters"):
        ensemble(LowRankGaussian(gamma=sympy.Symbol("g")), 2)


def test_a_report_has_each_reason_once():
    made = Initialized(
        (
            Setting("a.weight", (2, 3), "Gaussian(C_W=2)", "behind relu"),
            Setting("a.bias", (2,), "0", "behind relu"),
            Setting("b", (1,), LEFT, "no gain"),
        )
    )
    assert str(made).splitlines() == [
        "a.weight  (2, 3)  Gaussian(C_W=2)  [1]",
        "a.bias    (2,)    0                [1]",
        "b         (1,)    left as it was   [2]",
        "[1] behind relu",
        "[2] no gain",
    ]
    assert made.left == ("b",)
    assert made["a.bias"].law == "0"
    assert len(made) == len(list(made)) == 3


@pytest.mark.parametrize(
    ("call", "extra"),
    [(lambda: init.torch_(None), "torch"), (lambda: init.jax_initializer("relu"), "jax")],
)
def test_without_the_framework_the_extra_is_named(call, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(InputError, match=rf"{extra} installed.*wickgarten\[{extra}\]"):
        call()


def test_an_ensemble_of_weights_is_not_mistaken():
    with pytest.raises(InputError, match="weights"):
        ensemble(Gaussian, 2)
