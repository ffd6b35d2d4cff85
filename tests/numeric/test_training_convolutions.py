"""Trained networks of convolutions: gradients, tangent kernels, what they are by hand, theory."""

from dataclasses import replace

import numpy as np
import pytest

from derive import Network, layers
from derive.errors import InputError
from numeric import compare
from numeric import flow as tensors_of
from numeric import simulate as simulate_start
from numeric.samplers import checked_ensemble
from numeric.training import ensembles, flow, learning_rate, optimizers, simulate
from numeric.training import losses as loss_functions
from numeric.training import networks as descending

RNG = np.random.default_rng(11)
SIGNALS, TESTS = RNG.standard_normal((3, 4, 5)), RNG.standard_normal((1, 4, 5))
LAYERS = {
    "circular": layers.convolution(3, 4),
    "zero": layers.convolution(2, 4, boundary="zero"),
    "delta": layers.convolution(3, 4, weights="delta"),
    "normed": layers.convolution(3, 4, norm="rms"),
    "mean": layers.convolution(2, 4, readout="mean"),
    "flatten": layers.convolution(3, 4, boundary="zero", readout="flatten"),
    "mixed": layers.by_depth(layers.convolution(3, 4), "gated"),
}


def network(layer, weights="orthogonal"):
    return Network("tanh", weights, C_b=0.1, lambda_b=0.3, lambda_W=1.3, layer=layer)


def targets_of(layer, outputs=2):
    """For three signals, of two outputs probabilities."""
    places = () if LAYERS[layer].readouts else (4,)
    found = np.random.default_rng(3).random((3, *places, outputs))
    return found / found.sum(axis=-1, keepdims=True)


def training(layer, rule="tensorial", loss="squared", width=5, depth=3, batch=3):
    """Work of two networks."""
    X = np.concatenate([SIGNALS, TESTS])
    ensemble = checked_ensemble(network(LAYERS[layer]), X, width, depth, 1)
    y = targets_of(layer).reshape(-1, 2)
    return ensembles.Training(
        ensemble, y, optimizers.Optimizer(rule, 0.05), loss, batch, (), True, 2
    )


@pytest.mark.parametrize("loss", loss_functions.LOSSES)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_step_is_down_the_gradient(layer, loss):
    """A step of descent over its rate, along a direction, is what the loss changes by."""
    work = training(layer, "ordinary", loss)
    networks = descending.Networks(work, np.arange(2))
    start = networks.parameters.copy()
    along, small = RNG.standard_normal(start.shape), 1e-6

    def losses(parameters):
        networks.parameters[:] = parameters
        z = networks.outputs(SIGNALS.reshape(12, 5))
        return loss_functions.per_input(z, work.targets, loss).sum(axis=1)

    slopes = (losses(start + small * along) - losses(start - small * along)) / (2 * small)
    networks.begin(start)
    networks.descend(1)
    step = (start - networks.parameters) / 0.05
    assert (step * along).sum(axis=1) == pytest.approx(slopes, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_tangent_kernel_is_that_of_all_parameters(layer):
    """H = Σ_μ λ_μ ∂z ∂z, by differences of every parameter, a network for each."""
    work = training(layer, width=3, depth=3)
    one = descending.Networks(work, np.arange(1))
    start, size, small = one.parameters[0].copy(), one.parameters.shape[1], 2e-6
    many = descending.Networks(work, np.arange(size))
    X, moved = work.ensemble.inputs, []
    for sign in (1, -1):
        many.parameters[:] = start + sign * small * np.eye(size)
        moved.append(many.outputs(X))
    jacobian = (moved[0] - moved[1]) / (2 * small)
    layer_taps = {1: 1, 2: _taps(LAYERS[layer], 2), 3: _taps(LAYERS[layer], 3)}
    rates = np.empty(size)
    for part in one.parts:
        fan_in = part.shape[0] * layer_taps[part.key[0]]
        rates[one.slices[part.key]] = 0.3 if part.law is None else 1.3 / fan_in
    H = np.einsum("p,pai,pbj->abij", rates, jacobian, jacobian)
    found = one.observed()[0, work.samples * 2 : -1].reshape(H.shape)
    assert found == pytest.approx(H, rel=1e-6, abs=1e-8)


def _taps(layer, at):
    """Matrices of a filter."""
    own = layer.at(at, 3)
    if at == 3 and own.readouts:
        return {"pooling(4)": 1, "flattening(4)": 4}[str(own.readouts[0])]
    return int(str(own)[12]) if own.input_axes and "delta" not in str(own) else 1


@pytest.mark.parametrize("layer", ["circular", "zero", "mean", "flatten"])
def test_what_comes_out_is_a_sum_over_positions(layer):
    """Position by position, with the filters as they are, no s^{-1/2} beside them."""
    work = training(layer)
    networks = descending.Networks(work, np.arange(2))
    size, boundary = {
        "circular": (3, "c"),
        "zero": (2, "z"),
        "mean": (2, "c"),
        "flatten": (3, "z"),
    }[layer]

    def convolved(s, at):
        """Of (positions, n)."""
        z = []
        for p in range(4):
            reads = [p + k - (size - 1) // 2 for k in range(size)]
            inside = [(k, r % 4) for k, r in enumerate(reads) if boundary == "c" or 0 <= r < 4]
            z.append(sum(s[r] @ networks.of[at, 0, k][d] for k, r in inside))
        return np.array(z)

    def biases(at):
        return next(
            networks.of[key][d]
            for key in networks.of
            if key[0] == at and not isinstance(key[2], int)
        )

    found = networks.outputs(SIGNALS.reshape(12, 5))
    for d in range(2):
        for alpha, x in enumerate(SIGNALS):
            z = x @ networks.of[1, 0, 0][d] + biases(1)
            z = convolved(np.tanh(z), 2) + biases(2)
            s = np.tanh(z)
            if layer == "mean":
                z = s.mean(axis=0, keepdims=True) @ networks.of[3, 0, 0][d] + biases(3)
            elif layer == "flatten":
                z = sum(s[p : p + 1] @ networks.of[3, 0, p][d] for p in range(4)) + biases(3)
            else:
                z = convolved(s, 3) + biases(3)
            assert found[d].reshape(3, -1, 2)[alpha] == pytest.approx(z, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("layer", ["circular", "mean"])
def test_a_batch_is_of_whole_signals(layer):
    """A step with one signal is a step on that signal alone."""
    work = training(layer, batch=1)
    networks, same = (descending.Networks(work, np.arange(2)) for _ in range(2))
    start = networks.parameters.copy()
    orders = [rng.permutation(3) for rng in same.streams]
    networks.descend(1)
    for d, order in enumerate(orders):
        first = order[:1]
        alone = ensembles.Training(
            checked_ensemble(network(LAYERS[layer]), SIGNALS[first], 5, 3, 1),
            targets_of(layer)[first].reshape(-1, 2), work.rule, "squared", 1, (), True, 2,
        )  # fmt: skip
        other = descending.Networks(alone, np.arange(2))
        other.begin(start)
        other.descend(1)
        assert networks.parameters[d] == pytest.approx(other.parameters[d], rel=1e-12)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("rule", "batch"), [("tensorial", 3), ("ordinary", 1), ("adam", 2)])
def test_steps_do_not_depend_on_blocks(layer, rule, batch, monkeypatch):
    """To the bit: networks all at once, or three at a time, step by step, and looked at between."""
    work = replace(training(layer, rule, batch=batch), draws=7)
    at_once, few = descending.Networks(work, np.arange(7)), descending.Networks(work, np.arange(7))
    at_once.descend(4)
    monkeypatch.setattr(few, "_at_once", 3)
    for _ in range(4):
        few.descend(1)
        again = few.observed()
    assert np.array_equal(at_once.parameters, few.parameters)
    assert np.array_equal(at_once.observed(), again)


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_done_again_is_what_is_done_anew(layer):
    """Kernels and outputs of moved parameters and of another readout, on a tape of before."""
    work = training(layer)
    again = descending.Networks(work, np.arange(2))
    both = again.started(2)
    anew = descending.Networks(work, np.arange(2))
    anew.begin(again.parameters)
    assert np.array_equal(both[:, both.shape[1] // 2 :], anew.started())
    again.descend(2)
    anew.begin(again.parameters)
    assert np.array_equal(again.observed(), anew.observed())


@pytest.mark.parametrize("weights", ["gaussian", "rademacher"])
@pytest.mark.parametrize("layer", ["convolution(2, 2)", "convolution(2, 2, readout=mean)"])
def test_theory_begins_with_the_network_and_ends_with_the_targets(layer, weights):
    """One signal of two positions: K, G1, Θ and Θ1 of `numeric.flow`, and z = y."""
    net = Network("linear", weights, C_b=0.1, lambda_b=0.3, layer=layer)
    x, read = SIGNALS[0, :2], bool(net.layer.readouts)
    y = np.array(0.5 if read else [1.0, -1.0])
    theory = flow(net, x, y, None, 2, 0.05, [0, np.inf])
    at_start = tensors_of(net, x[None], 2, ["K", "G1", "Theta", "Theta1"])
    for name, tensor in (
        ("covariance", "K"),
        ("covariance1", "G1"),
        ("ntk", "Theta"),
        ("ntk1", "Theta1"),
    ):
        expected = at_start[tensor].to_numpy()[-1]
        assert theory[name].to_numpy()[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert theory["prediction"].to_numpy()[1] == pytest.approx(y.ravel(), rel=1e-9)
    assert abs(theory["prediction1"].to_numpy()[1]).max() < 1e-9


def test_a_filter_with_one_matrix_is_the_dense_layer():
    """Theory, rates and descent with positions as inputs; a layer of its own."""
    X, T = SIGNALS[:1], TESTS
    y = RNG.standard_normal((1, 4))
    delta, dense = (network(layer) for layer in (LAYERS["delta"], layers.dense()))
    flat = X.reshape(4, 5), y.reshape(4), T.reshape(4, 5)
    own, other = (
        flow(net, *given[:2], None, 2, 0.05, [0, 3])
        for net, given in ((delta, (X, y)), (dense, flat))
    )
    for name in own.data_vars:
        assert (own[name].to_numpy() == other[name].to_numpy()).all()
    own, other = learning_rate(delta, X, 2), learning_rate(dense, flat[0], 2)
    assert (own["stable1"].to_numpy() == other["stable1"].to_numpy()).all()
    made = []
    for net, (x, targets, tests) in ((delta, (X, y, T)), (dense, flat)):
        ensemble = checked_ensemble(net, np.concatenate([x, tests]), 6, 3, 1)
        work = ensembles.Training(
            ensemble, targets.reshape(-1, 1), optimizers.Optimizer("adam", 0.05), "squared",
            len(x), (), True, 2,
        )  # fmt: skip
        networks = descending.Networks(work, np.arange(2))
        networks.descend(5)
        made.append(networks.observed())
    assert made[0] == pytest.approx(made[1], rel=1e-12)


def test_networks_start_with_the_kernels_of_their_ensemble():
    """H(0) and the covariance of outputs are Θ and K of the same width, |z| < 5.5."""
    net, y = network(LAYERS["flatten"]), targets_of("flatten", 1)[..., 0]
    made = simulate(net, SIGNALS, y, None, 8, 3, 0.1, 0, draws=1500, clip=1e9)
    table = simulate_start(net, SIGNALS, 8, 3, 6000, tensors=("K", "Theta"), seed=5)
    for name, tensor in (("covariance", "K"), ("ntk", "Theta")):
        own, error = (made[each].to_numpy()[0] for each in (name, f"{name}_se"))
        theirs, other = (table[each].to_numpy()[-1] for each in (tensor, f"{tensor}_se"))
        assert own.shape == theirs.shape
        assert abs((own - theirs) / np.hypot(error, other)).max() < 5.5


@pytest.mark.parametrize("layer", ["zero", "mean"])
def test_controls_change_no_mean(layer):
    """Controlled and plain means of other networks at n = 8, |z| < 5.5 of some 200 numbers."""
    net, y = network(LAYERS[layer], "gaussian"), targets_of(layer, 1)[:1]
    both = [
        simulate(net, SIGNALS[:1], y, TESTS, 8, 2, 0.02, [0, 1, 5], 1500, seed=seed, **other)
        for seed, other in ((1, {}), (2, {"clip": 1e9}))
    ]
    assert both[0].attrs["antithetic"] == 1
    for name in ("prediction", "covariance", "ntk", "loss"):
        off = both[0][name] - both[1][name]
        error = np.hypot(both[0][f"{name}_se"], both[1][f"{name}_se"])
        assert (abs(off) <= 5.5 * error + 1e-12).all()


@pytest.mark.slow
def test_trained_ensembles_agree_with_theory():
    """Seen would be two fifths of a coefficient of 1/n after 20 steps, at targets of ±1."""
    net, x, y = network(LAYERS["mean"], "orthogonal"), SIGNALS[:2], np.array([1.0, -1.0])
    theta = tensors_of(net, x, 3, "Theta")["Theta"].to_numpy()[-1]
    eta, steps = 0.5 / np.linalg.eigvalsh(theta)[-1], [0, 1, 20]
    theory = flow(net, x, y, TESTS, 3, eta, steps)
    made = [simulate(net, x, y, TESTS, n, 3, eta, steps, 150, seed=3) for n in (32, 64)]
    scores = compare(theory, made, degree=1)
    assert scores.agrees, scores.table
    names = "prediction1", "covariance1", "ntk1"
    shares = [row.share for row in scores.rows if row.tensor in names and row.layer == 20]
    assert min(shares) < 0.4


@pytest.mark.parametrize("places", [(4,)])
def test_targets_have_the_shape_of_what_comes_out(places):
    net = network(LAYERS["circular" if places else "mean"])
    one, two = (
        flow(net, SIGNALS[0], np.ones(shape), None, 2, 0.1, 1) for shape in (places, (*places, 2))
    )
    count = 4 if places else 1
    assert one["covariance"].shape == (1, count, count)
    assert two["prediction"].shape == (1, count, 2)
    assert one["inputs"].dims == ("signal", "position", "input")
    several = flow(net, SIGNALS[:2], np.ones((2, *places)), TESTS[0], 2, 0.1, 1)
    assert several["prediction"].shape == (1, 3 * count)
    assert several.attrs["training"] == 2 * count
    for bad in ((3, *places), (2, *places, 1, 1), (2, 5, 1) if places else (2, 4, 1)):
        with pytest.raises(InputError, match=r"^targets"):
            flow(net, SIGNALS[:2], np.ones(bad), None, 2, 0.1, 1)
    with pytest.raises(InputError, match=r"^test: .*4"):
        flow(net, SIGNALS[:2], np.ones((2, *places)), TESTS[:, :3], 2, 0.1, 1)
    with pytest.raises(InputError, match=r"^inputs: .*4"):
        simulate(net, SIGNALS[:, :3], np.ones((3, *places)), None, 8, 2, 0.1, 1, 10)


@pytest.mark.parametrize("layer", ["circular", "mean"])
def test_early_stopping_and_runs_of_signals(layer, tmp_path):
    net, y = network(LAYERS[layer]), targets_of(layer)
    given = net, SIGNALS, y, TESTS, 6, 2
    far = 5 * np.ones((1, *y.shape[1:]))
    stopped = simulate(*given, 0.3, [0, 30], 20, patience=1, test_targets=far)["stopped"].to_numpy()
    assert 0 < stopped[1] <= 1
    whole = simulate(*given, 0.05, [0, 3], 300, batch=2)
    simulate(*given, 0.05, [0, 3], 256, batch=2, run=tmp_path)
    assert whole.equals(simulate(*given, 0.05, [0, 3], 300, batch=2, run=tmp_path))


def test_kernels_do_not_depend_on_how_many_are_held(monkeypatch):
    def made():
        net, X = Network("tanh", layer="convolution(2, 3)"), np.arange(6.0).reshape(2, 3, 1) / 3
        return simulate(net, X, np.ones((2, 3)), None, 5, 2, 0.01, [0, 1], draws=40)

    whole = made()
    monkeypatch.setattr(descending, "_HELD", 1)
    assert whole.identical(made())
