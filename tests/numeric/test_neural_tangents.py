"""K and Θ of convolutional networks as neural-tangents computes them, recorded.

R. Novak et al., "Neural Tangents: Fast and easy infinite neural networks in Python", ICLR 2020;
`tests/samples/neural_tangents_kernels.py` has its networks and made the file.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from derive import Gaussian, Network
from numeric import flow

NETWORKS = json.loads(Path(__file__).with_name("neural_tangents.json").read_text())["networks"]
SIGMA = {"erf": "expr: erf(z)"}  # `erf` by its name is erf(√π z/2)


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_are_those_of_neural_tangents(name):
    """With λ_W = C_W and λ_b = C_b, the parametrization in which every parameter is normal."""
    given = NETWORKS[name]
    C_W, C_b = given["C_W"], given["C_b"]
    sigma = SIGMA.get(given["activation"], given["activation"])
    net = Network(sigma, Gaussian(C_W), C_b=C_b, lambda_W=C_W, lambda_b=C_b, layer=given["layer"])
    table = flow(net, np.array(given["inputs"]), net.depth, ["K", "Theta"]).isel(layer=-1)
    for tensor in ("K", "Theta"):
        np.testing.assert_allclose(table[tensor], given[tensor], rtol=1e-12)
