"""Fixed points of a batch, and what is linear around them: closed forms, and the flow itself."""

import numpy as np
import pytest

from derive import Exchangeable, InputError, Network, criticality, propagation, recursion
from numeric import flow
from numeric.propagation import fixed_points


def at(table, name):
    return table[name].dropna("orbit").to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("m", [4, 8, 256])
def test_a_linear_batch(m):
    """K is the projection that takes the mean off, over its trace. A direction on the sphere in
    m − 1 dimensions has E y⁴ = 3 m²/(m² − 1) (1 − 1/m)², and traceless squares shrink by
    (m − 1)/(m + 1); gradients grow by (m − 2)/(m − 3)."""
    table = fixed_points(Network("linear", layer="batchnorm"), Exchangeable(m, 1, "1/2"))
    np.testing.assert_allclose(at(table, "K"), [1, -1 / (m - 1)], rtol=1e-12)
    np.testing.assert_allclose(table.gradient_rate, [(m - 2) / (m - 3), 0], atol=1e-10)
    np.testing.assert_allclose(table.kernel_rate, 0, atol=1e-11)
    np.testing.assert_allclose(table.V_rate, ((m - 1) / (m + 1)) ** 2, rtol=1e-10)
    rest = 3 * (m - 1) / (m + 1) - 1
    limit = rest / (1 - ((m - 1) / (m + 1)) ** 2)
    np.testing.assert_allclose(table.V.sel(orbit="(11)(11)"), limit, rtol=1e-9)
    assert (abs(at(table, "G1")) <= at(table, "G1_error") + 1e-11).all()


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 64])
def test_samples_of_a_dense_layer_are_two_inputs(m):
    net = Network("tanh", "orthogonal(C_W=2)", C_b="1/10")
    (*_, known) = propagation.fixed_points(net)
    table = fixed_points(net, Exchangeable(m, 1, "1/2"))
    q, p = at(table, "K")
    np.testing.assert_allclose([q, p], [known.q, known.q * known.c], rtol=1e-11)
    np.testing.assert_allclose(table.gradient_rate, [known.chi, known.slope], rtol=1e-11)
    np.testing.assert_allclose(table.kernel_rate, [known.slope, known.chi_parallel], rtol=1e-11)


@pytest.mark.slow
def test_no_fixed_point():
    with pytest.raises(InputError, match="q > p"):
        fixed_points(Network("tanh"), Exchangeable(4, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "depth"),
    [
        (Network("tanh", "gaussian(C_W=2)", layer="normalized(rms)"), 400),
        (Network("relu", "orthogonal(C_W=1.5)", C_b=0.1, layer="batchnorm"), 60),
    ],
)
def test_the_flow_ends_there(net, depth):
    inputs = Exchangeable(6, 1, "1/2")
    table, ends = fixed_points(net, inputs), flow(net, inputs, depth, ["K", "G1", "V", "Theta"])
    for name in ("K", "G1", "V"):
        last = ends[name][-1].dropna("orbit").to_numpy()
        np.testing.assert_allclose(at(table, name), last, rtol=1e-9, atol=1e-9)
    theta = ends["Theta"].to_numpy()[:, 0]
    growth = (theta[-1] - theta[-2]) / (theta[-2] - theta[-3])
    np.testing.assert_allclose(growth, table.gradient_rate[0], rtol=1e-7)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda net: fixed_points(net, Exchangeable(1, 1, 1)), "two samples"),
        (lambda net: fixed_points(net, Exchangeable(4, 1, 0), precision=20), "None, for a batch"),
        (lambda _: fixed_points(Network("tanh; relu*; tanh"), Exchangeable(4, 1, 0)), "repeats"),
        (criticality, "a network has its C_W"),
        (lambda net: criticality("relu", layer=net.layer), "numeric.propagation.fixed_points"),
        (lambda net: recursion("V", layer=net.layer).asymptotics("relu"), "of a batch"),
    ],
)
def test_refusals(call, reason):
    with pytest.raises(InputError, match=reason):
        call(Network("relu", layer="batchnorm"))
