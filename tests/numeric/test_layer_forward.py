"""Networks side by side, to rounding those of `staged`: layers of several stages on one input, and
convolutions on several samples."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from derive import Gaussian, LowRankGaussian, Network, Orthogonal, activations, layers
from derive.errors import InputError
from derive.recursions import wanted
from derive.weights import Truncated
from numeric.estimators import Plan
from numeric.samplers import ProbeSampler, checked_ensemble, staged_forward, tapped_forward
from numeric.samplers.forward import WIDEST
from numeric.samplers.forward_kernels import LANES
from numeric.simulations import make_sampler, simulate

ONE, PLAN = [[1.0, 0.5, -0.7]], Plan(wanted(["K", "V"]), 1)

LAYERS = {
    "rms": layers.normalized("rms"),
    "layer": layers.normalized("layer", eps=0.1),
    "residual": layers.residual(skip=0.8, norm="layer", ratio=2, C=(1.3, 0.6)),
    "gated": layers.gated(skip=0.5, norm="rms"),
    "carried": layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "g[i] = W2[i,a] z[a]",
        "q = h[a] h[a]/n",
        "f = 1/(1 + q)",
        "k[i] = f W3[i,a] h[a] s(g[a]) + W4[i,a] s(g[a]) h[a] h[a]",
        "p = k[a] k[a]/n",
        "y[i] = k[i]/sqrt(1 + p)",
        "u[i] = 0.5 z[i] + W5[i,a] s(y[a]) s(y[a])",
        "v[i] = W6[i,a] u[a]",
        "r = u[a] u[a]/n",
        "z[i] = u[i]/sqrt(1 + r) + 2 z[i] + b[i] + W7[i,a] s(v[a]) v[a]",
    ),
}
"""The shipped ones, and one with all that can be in an equation."""


def sampler(layer, weights, width=9, depth=4, **others):
    net = Network(activations.tanh, weights, Gaussian(1.2), layer=layer, **{"C_b": 0.1, **others})
    return make_sampler(checked_ensemble(net, ONE, width, depth, 3), PLAN)


WEIGHTS = {
    "gaussian": (Gaussian(1.5), 0),
    "biases in some": (Orthogonal(1.5), lambda layer: layer % 2),
    "low rank": (LowRankGaussian(1.5, gamma="1/2"), 0.1),
}
CASES = [*zip(LAYERS, 2 * [*WEIGHTS], strict=False), ("carried", "gaussian")]
"""One of the weights for each layer, as each pair is compiled; two for the one with all parts."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weights"), CASES)
def test_the_networks_are_those_of_the_stages(name, weights):
    ensemble, C_b = WEIGHTS[weights]
    made = sampler(LAYERS[name], ensemble, width=8, C_b=C_b)
    assert made.side_by_side
    draws = np.arange(LANES + 3)
    one_by_one = ProbeSampler(made.ensemble, PLAN, made.probes)
    np.testing.assert_allclose(
        made.statistics(draws), one_by_one.statistics(draws), rtol=1e-11, atol=1e-14
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rms", "layer"])
def test_lengths_read_off_the_normals_are_those_of_the_neurons(name):
    """No width is a multiple of four, as normals come; some matrices are wider than high."""
    uneven = {"width_ratio": lambda layer: 1 + layer % 3 / 9}
    cases = [
        (Gaussian(1.5), uneven),
        (Orthogonal(1.5), uneven),
        (LowRankGaussian(1.5, gamma="1/3"), {}),
    ]
    draws = np.arange(LANES)
    for weights, widths in cases:
        made = sampler(LAYERS[name], weights, C_b=0, **widths)
        assert made.side_by_side
        one_by_one = ProbeSampler(made.ensemble, PLAN, made.probes)
        np.testing.assert_allclose(
            made.statistics(draws), one_by_one.statistics(draws), rtol=1e-11, atol=1e-14
        )


def test_no_network_depends_on_those_beside_it():
    made, draws = sampler(LAYERS["gated"], Orthogonal(1.5)), np.arange(40)
    together = made.statistics(draws)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(made.statistics(draws[order]), together[order])
    np.testing.assert_array_equal(made.statistics(draws[31:33]), together[31:33])


@pytest.mark.parametrize("name", ["residual", pytest.param("rms", marks=pytest.mark.slow)])
def test_calls_of_compiled_code_are_short_and_leave_no_trace(name, monkeypatch):
    made = sampler(LAYERS[name], Gaussian(1.5), depth=9)
    draws, expected, spans = np.arange(2 * LANES), made.statistics(np.arange(2 * LANES)), []
    tables = staged_forward.tables_of(made.ensemble)
    compiled = staged_forward._kernels(made.ensemble.net.activation, tables.written).forward

    def counted(networks, key, span, *rest):
        spans.append((*span, len(networks)))
        compiled(networks, key, span, *rest)

    monkeypatch.setattr(
        staged_forward, "_kernels", lambda *_: type("", (), {"forward": staticmethod(counted)})
    )
    np.testing.assert_array_equal(made.statistics(draws), expected)
    assert spans == [(1, 9, 2)]
    spans.clear()
    monkeypatch.setattr(staged_forward, "_PIECE", 3 * LANES * int(tables.neurons[-1]))
    np.testing.assert_array_equal(made.statistics(draws), expected)
    assert [groups for *_, groups in spans] == [1] * len(spans)
    assert [span[:2] for span in spans[: len(spans) // 2]] == [(1, 3), (4, 6), (7, 9)]


def test_what_it_does_not_do_is_done_by_stages():
    made = sampler(LAYERS["rms"], Orthogonal(1), width=WIDEST + 1)
    assert not made.side_by_side
    net = Network("tanh", layer=LAYERS["rms"])
    two = make_sampler(checked_ensemble(net, ONE * 2, 8, 3, 0), Plan(wanted(["K"]), 2))
    assert not two.side_by_side
    tower = make_sampler(checked_ensemble(net, ONE, 8, 3, 0), Plan(wanted(["Theta"]), 1))
    assert not tower.side_by_side


def test_skips_between_unequal_widths_are_refused():
    with pytest.raises(InputError, match="around which residual"):
        sampler(LAYERS["residual"], Gaussian(1), width_ratio=lambda layer: layer)


SIGNALS = np.random.default_rng(0).standard_normal((2, 4, 12))
REPEATED = SIGNALS.copy()
REPEATED[1, 2] = 2 * SIGNALS[0, 1]
REPEATED[0, 3] = 0
CONVOLUTIONS = {
    "gaussian": (layers.convolution(3, 4), Gaussian(1.5), {}),
    "biases": (layers.convolution(2, 4, boundary="zero"), Orthogonal(1.5), {"C_b": 0.1}),
    "block": ("dense*2; convolution(3, 4)*", Truncated(1.5, ratio=2), {"C_b": 0}),
    "few neurons": (layers.convolution(3, 4), Orthogonal(1.5), {"width": 5}),
    "uneven": (layers.convolution(3, 4), Gaussian(1.5), {"width_ratio": lambda at: 1 + at % 3 / 9}),
}


def convolution(name, inputs=SIGNALS, tensors=("K", "V"), **others):
    """Networks of ReLU: at width 9 the eight vectors of some networks depend on one another."""
    layer, weights, given = CONVOLUTIONS[name]
    options = {"width": 9, "depth": 4, **given, **others}
    width, depth = options.pop("width"), options.pop("depth")
    net = Network("relu", weights, Gaussian(1.2), layer=layer, **options)
    ensemble = checked_ensemble(net, inputs, width, depth, 3)
    return make_sampler(ensemble, Plan(wanted(list(tensors)), len(ensemble.inputs)))


CHECKED = [
    *((name, SIGNALS, 27) for name in ["gaussian", "biases", "block", "uneven"]),
    *((name, SIGNALS, 9) for name in ["gaussian", "biases", "block"]),
    *((name, REPEATED, 27) for name in ["gaussian", "biases"]),
    ("few neurons", SIGNALS, 5),
]
"""Networks whose vectors are independent; some that are not; repeated or vanishing inputs; and more
vectors than neurons."""


@pytest.mark.parametrize(("name", "inputs", "width"), CHECKED)
def test_convolutions_side_by_side_are_those_of_the_stages(name, inputs, width):
    made, draws = convolution(name, inputs, ["K"], width=width), np.arange(LANES + 3)
    assert made.side_by_side
    one_by_one = replace(made, side_by_side=False)
    np.testing.assert_allclose(
        made.statistics(draws), one_by_one.statistics(draws), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(("name", "followed"), [("gaussian", 0.5), ("few neurons", 1.0)])
def test_networks_that_lose_digits_are_followed_by_stages(name, followed, monkeypatch):
    """Some of width 9, and all that have fewer neurons than vectors."""
    made, draws, count = convolution(name, tensors=["K"]), np.arange(64), []
    passed = ProbeSampler.layers

    def counted(self, draws):
        count.extend([draws.size] * (not self.side_by_side))
        return passed(self, draws)

    monkeypatch.setattr(ProbeSampler, "layers", counted)
    made.statistics(draws)
    assert 0 < sum(count) / draws.size <= followed


def test_no_convolution_depends_on_those_beside_it():
    made, draws = convolution("gaussian"), np.arange(40)
    together = made.statistics(draws)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(made.statistics(draws[order]), together[order])
    np.testing.assert_array_equal(made.statistics(draws[31:33]), together[31:33])


def test_other_convolutions_are_followed_by_stages():
    cases = [
        {"layer": layers.convolution(3, 4, norm="rms")},
        {"layer": layers.convolution(3, 4, readout="mean")},
        {"weights": LowRankGaussian(gamma="1/3")},
    ]
    for given in cases:
        net = Network("tanh", **{"layer": layers.convolution(3, 4)} | given)
        ensemble = checked_ensemble(net, SIGNALS, 9, 3, 0)
        samples = ensemble.data.measured
        assert not make_sampler(ensemble, Plan(wanted(["K"]), samples)).side_by_side
    assert not convolution("gaussian", tensors=["Theta"]).side_by_side


@pytest.mark.parametrize(("name", "width"), [("biases", 27), ("gaussian", 9), ("few neurons", 5)])
def test_calls_for_convolutions_are_short_and_leave_no_trace(name, width, monkeypatch):
    """A layer each, at most, and the same bits: networks lose digits at different layers."""
    made, draws, calls = convolution(name, width=width, depth=6), np.arange(2 * LANES + 3), []
    expected = made.statistics(draws)
    compiled = tapped_forward._kernels(made.ensemble.net.activation).forward

    def counted(networks, key, first, *rest):
        calls.append((first, len(rest[-2])))
        compiled(networks, key, first, *rest)

    monkeypatch.setattr(tapped_forward, "_PIECE", 1)
    monkeypatch.setattr(
        tapped_forward, "_kernels", lambda _: type("", (), {"forward": staticmethod(counted)})
    )
    np.testing.assert_array_equal(made.statistics(draws), expected)
    assert calls == [(layer, 1) for layer in range(6)]


def test_deep_convolutions_need_no_memory_for_all_layers_at_once():
    """Gram matrices of all 200 layers and 512 networks would be 53 MB."""
    net = Network("tanh", "gaussian", layer=layers.convolution(2, 8))
    simulate(net, np.eye(8), 16, 2, 20, tensors="K", positions=[0])
    tracemalloc.start()
    try:
        simulate(net, np.eye(8), 16, 200, 512, tensors="K", positions=[0])
        assert tracemalloc.get_traced_memory()[1] < 3e7
    finally:
        tracemalloc.stop()
