"""Models of Keras, by their layers."""

from __future__ import annotations

import os

import pytest

from derive import InputError
from numeric import models

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
reason = "needs keras on tensorflow: wickgarten[keras], make test-models"
pytest.importorskip("tensorflow", reason=reason)
keras = pytest.importorskip("keras", reason=reason)
Dense = keras.layers.Dense

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def sequential():
    he = keras.initializers.HeNormal
    return keras.Sequential([
        keras.Input((6,)), Dense(24, activation="relu", kernel_initializer=he()),
        Dense(24, activation="relu", kernel_initializer=he()), Dense(3),
    ])  # fmt: skip


def functional():
    x = keras.Input((6,))
    z = Dense(24)(x)
    y = Dense(24, activation="silu")(keras.layers.LayerNormalization()(z))
    return keras.Model(x, Dense(2)(keras.layers.Add()([z, Dense(24)(y)])))


def test_a_sequential_model():
    made = models.read(sequential())
    assert made.widths == (6, 24, 24, 3)
    kernels = [each for path, each in made.laws.items() if path.endswith("kernel")]
    assert [(each.kind, each.C) for each in kernels[:2]] == [("truncated normal", 2)] * 2
    assert kernels[2].kind == "uniform"


def test_a_functional_model():
    made = models.read(functional())
    (block,) = [each for each in made.structure.blocks if each.norm]
    assert (block.norm, block.skip, str(block.function)) == ("layer", 1, "silu")


def test_what_cannot_be_read_is_named():
    model = keras.Sequential([keras.Input((4,)), Dense(4), keras.layers.BatchNormalization()])
    with pytest.raises(InputError, match="no layer here is a BatchNormalization"):
        models.read(model)


@pytest.mark.slow
@pytest.mark.parametrize("make", [sequential, functional])
def test_measured_tensors_agree_with_theory(make):
    found = models.report(make(), draws=100)
    assert found.agrees, str(found)
