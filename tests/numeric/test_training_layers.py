"""Trained networks of layers other than dense: gradients, tangent kernels, and theory."""

from dataclasses import replace

import numpy as np
import pytest
import sympy

from derive import Network, layers
from derive.errors import InputError
from numeric import compare
from numeric import flow as tensors_of
from numeric import simulate as simulate_start
from numeric.samplers import checked_ensemble
from numeric.training import ensembles, flow, optimizers, simulate
from numeric.training import losses as loss_functions
from numeric.training import networks as descending

RNG = np.random.default_rng(7)
INPUTS, TARGETS = RNG.standard_normal((3, 5)), RNG.standard_normal((3, 2))
TESTS = RNG.standard_normal((1, 5))
PROBABILITIES = np.array([[0.9, 0.1], [0.1, 0.9], [0.3, 0.7]])
OWN = layers.Layer(
    "q = z[a] z[a]/n",
    "y[i] = z[i]/sqrt(q + eps)",
    "h[i] = W1[i,a] y[a]",
    "g[i] = b[i] + W3[i,a] y[a]",
    "z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a]) g[a]",
    gamma=0.7,
    eps="1e-2",
    C={"W1": 2},
    ratio={"h": 2},
)
LAYERS = {
    "residual": layers.residual(1, norm="rms", C=(1, 2), ratio=2),
    "gated": layers.gated(1, norm="layer", eps="1e-3"),
    "normalized": layers.normalized("layer"),
    "skip": layers.skip("1/2"),
    "own": OWN,
    "twice": layers.Layer("h[i] = b[i] + W1[i,a] s(z[a])", "z[i] = b[i] + W2[i,a] s(h[a])"),
}


def training(layer, rule="tensorial", loss="squared", draws=2, clip=None, width=6, depth=3):
    """Work of so many networks."""
    net = Network("tanh", "orthogonal", C_b=0.1, lambda_b=0.3, lambda_W=1.3, layer=layer)
    ensemble = checked_ensemble(net, np.concatenate([INPUTS, TESTS]), width, depth, 1)
    y = TARGETS if loss == "squared" else PROBABILITIES
    rule = optimizers.Optimizer(rule, 0.05, clip)
    return ensembles.Training(ensemble, y, rule, loss, 3, (), True, draws)


@pytest.mark.parametrize("loss", loss_functions.LOSSES)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_step_is_down_the_gradient(layer, loss):
    """A step of descent over its rates, along a direction, is what the loss changes by."""
    work = training(LAYERS[layer], "ordinary", loss)
    networks = descending.Networks(work, np.arange(2))
    start = networks.parameters.copy()
    along, small = RNG.standard_normal(start.shape), 1e-6

    def losses(parameters):
        networks.parameters[:] = parameters
        return loss_functions.per_input(networks.outputs(INPUTS), work.targets, loss).sum(axis=1)

    slopes = (losses(start + small * along) - losses(start - small * along)) / (2 * small)
    networks.begin(start)
    networks.descend(1)
    step = (start - networks.parameters) / 0.05
    assert (step * along).sum(axis=1) == pytest.approx(slopes, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_tangent_kernel_is_that_of_all_parameters(layer):
    """H = Σ_μ λ_μ ∂z ∂z, by differences of every parameter, a network for each."""
    work = training(LAYERS[layer], width=4, depth=2)
    one = descending.Networks(work, np.arange(1))
    start, size, small = one.parameters[0].copy(), one.parameters.shape[1], 1e-5
    many = descending.Networks(work, np.arange(size))
    X, moved = work.ensemble.inputs, []
    for sign in (1, -1):
        many.parameters[:] = start + sign * small * np.eye(size)
        moved.append(many.outputs(X))
    jacobian = (moved[0] - moved[1]) / (2 * small)
    rates = np.empty(size)
    for part in one.parts:
        fan_in = part.shape[0] if part.law is not None else None
        rates[one.slices[part.key]] = 0.3 if fan_in is None else 1.3 / fan_in
    H = np.einsum("p,pai,pbj->abij", rates, jacobian, jacobian)
    found = one.observed()[0, X.shape[0] * 2 : -1].reshape(H.shape)
    assert found == pytest.approx(H, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("rule", optimizers.KINDS)
def test_dense_networks_descend_as_the_compiled_ones(rule, clip):
    """The same networks by two programs: parameters agree after some steps of every rule."""
    work = training(layers.dense(), rule, clip=clip)
    staged, compiled = (
        descending.Networks(work, np.arange(2)),
        descending.CompiledNetworks(work, np.arange(2)),
    )
    staged.begin(compiled.parameters)
    assert staged.observed() == pytest.approx(compiled.observed(), rel=1e-12)
    for networks in (staged, compiled):
        networks.descend(7)
    assert staged.parameters == pytest.approx(compiled.parameters, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("layer", [*LAYERS, "dropout(1/2)"])
@pytest.mark.parametrize(("rule", "batch"), [("tensorial", 3), ("ordinary", 1), ("adam", 2)])
def test_steps_do_not_depend_on_blocks(layer, rule, batch, monkeypatch):
    """To the bit: networks all at once, or three at a time and step by step."""
    work = replace(training(LAYERS.get(layer, layer), rule, draws=7), batch=batch)
    at_once, few = descending.Networks(work, np.arange(7)), descending.Networks(work, np.arange(7))
    at_once.descend(4)
    monkeypatch.setattr(few, "_at_once", 3)
    for _ in range(4):
        few.descend(1)
    assert np.array_equal(at_once.parameters, few.parameters)
    assert np.array_equal(at_once.observed(), few.observed())


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_done_again_is_what_is_done_anew(layer):
    """Kernels and outputs of moved parameters and of another readout, on a tape of before."""
    work = training(LAYERS[layer])
    again, anew = descending.Networks(work, np.arange(2)), descending.Networks(work, np.arange(2))
    second = again.started(2)[:, again.started().shape[1] :]
    again.descend(2)
    anew.begin(again.parameters)
    assert np.array_equal(again.observed(), anew.observed())
    redrawn = descending.Networks(work, np.arange(2))
    redrawn.started(2)
    anew.begin(redrawn.parameters)
    assert np.array_equal(second, anew.started())


@pytest.mark.parametrize("layer", ["residual", "normalized", "skip"])
def test_networks_start_with_the_kernels_of_their_ensemble(layer):
    """H(0) and the covariance of outputs are Θ and K of the same width: 20 numbers, |z| < 5."""
    net = Network("tanh", "gaussian", C_b=0.1, lambda_b=0.3, layer=LAYERS[layer])
    made = simulate(net, INPUTS, TARGETS, TESTS, 8, 3, 0.1, 0, draws=4000, clip=1e9)
    table = simulate_start(
        net, np.concatenate([INPUTS, TESTS]), 8, 3, 20000, tensors=("K", "Theta"), seed=5
    )
    for name, tensor in (("covariance", "K"), ("ntk", "Theta")):
        for k in range(2):
            own, error = (made[each].to_numpy()[0, ..., k, k] for each in (name, f"{name}_se"))
            theirs, other = (table[each].to_numpy()[-1] for each in (tensor, f"{tensor}_se"))
            assert abs((own - theirs) / np.hypot(error, other)).max() < 5


def _compared(layer, weights, widths, draws, eta):
    net = Network("tanh", weights, C_b=0.1, lambda_b=0.3, layer=layer)
    x, y, steps = INPUTS[:2], TARGETS[:2, :1], [0, 1, 5]
    theta = tensors_of(net, x, 3, "Theta")["Theta"].to_numpy()[-1]
    eta /= np.linalg.eigvalsh(theta)[-1]
    theory = flow(net, x, y, TESTS, 3, eta, steps)
    made = [simulate(net, x, y, TESTS, n, 3, eta, steps, draws, seed=3) for n in widths]
    return compare(theory, made, degree=1)


@pytest.mark.slow
def test_gates_agree_with_theory():
    """At a small η: products of matrices have large coefficients of 1/n²."""
    scores = _compared(OWN, "gaussian", (32, 64), 400, 0.2)
    assert scores.agrees, scores.table
    shares = [row.share for row in scores.rows if row.tensor == "ntk" and row.layer == 5]
    assert max(shares) < 0.25


def test_mirrored_readouts_change_no_mean():
    """Of a layer whose outputs are odd in its last matrix; behind a skip there is no mirror."""
    net = Network("tanh", layer=LAYERS["normalized"])
    given = net, INPUTS, TARGETS, TESTS, 8, 2, 0.05, [0, 3], 2000
    both, one = (simulate(*given, antithetic=a) for a in (True, False))
    assert (both.attrs["antithetic"], one.attrs["antithetic"]) == (1, 0)
    for name in ("prediction", "covariance", "ntk", "loss"):
        off = both[name] - one[name]
        error = np.hypot(both[f"{name}_se"], one[f"{name}_se"])
        assert (abs(off) <= 5.5 * error + 1e-12).all()
    behind = Network("tanh", layer=LAYERS["residual"])
    assert simulate(behind, *given[1:6], 0.05, 1, 20).attrs["antithetic"] == 0


def test_outputs_that_do_not_rotate_have_no_mirror():
    """Behind skips around one matrix the mean of GELU is no 0, and no network's negative is of the
    ensemble: 9 means at n = 4 are those of plain networks, |z| < 5, where mirrors are 7 off."""
    net = Network("gelu", C_b=0.1, layer=layers.skip(1))
    given = net, INPUTS[:2], TARGETS[:2, :1], TESTS, 4, 3, 0.03, [0, 1, 3], 3000
    made, plain = simulate(*given, seed=1), simulate(*given, seed=2, clip=1e9)
    error = np.hypot(made["prediction_se"], plain["prediction_se"])
    assert abs((made["prediction"] - plain["prediction"]) / error).max() < 5
    assert made["prediction_se"].max() < plain["prediction_se"].max() / 3


def test_early_stopping_and_runs_of_layers(tmp_path):
    """Networks of any layer stop as dense ones do, and a run resumes to the same bits."""
    net = Network("tanh", layer=LAYERS["residual"])
    given = net, INPUTS, TARGETS, TESTS, 8, 2, 0.3, [0, 40], 40
    stopped = simulate(*given, patience=1, test_targets=[[5.0, 5.0]])["stopped"].to_numpy()
    assert 0 < stopped[1] <= 1
    whole = simulate(*given[:6], 0.05, [0, 4], 64)
    simulate(*given[:6], 0.05, [0, 4], 40, run=tmp_path)
    assert whole.equals(simulate(*given[:6], 0.05, [0, 4], 64, run=tmp_path))


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (layers.dropout(sympy.Symbol("p")), "number"),
        (layers.residual(skip=sympy.Symbol("g")), "number"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_the_reason(layer, reason):
    with pytest.raises(InputError, match=reason):
        simulate(Network("tanh", layer=layer), INPUTS, TARGETS, None, 8, 2, 0.1, 1, 10)


def test_theory_with_dropout_is_refused_with_the_reason():
    net = Network("tanh", layer=layers.by_depth("dense", "dropout(1/2)"))
    with pytest.raises(InputError, match="masks are random numbers beside the parameters"):
        flow(net, INPUTS, TARGETS, None, 3, 0.1, 1)


def test_dropout_has_other_masks_in_each_step_and_none_in_between():
    """A step is down the gradient of the masked network, that of the masks by hand."""
    work = training(layers.dropout("4/5"), "ordinary")
    networks = descending.Networks(work, np.arange(2))
    start, y = networks.parameters.copy(), TARGETS
    streams = networks.work.ensemble.generators(np.arange(2), 1)
    masks = [[(rng.random((3, 6)) < 0.8) / 0.8 for _ in range(2)] for rng in streams]

    def losses(parameters, masks):
        networks.parameters[:] = parameters
        W, b = [], []
        for key, value in networks.of.items():
            (W if isinstance(key[2], int) else b).append(value)
        found = []
        for d in range(2):
            z = INPUTS @ W[0][d] + b[0][d]
            for layer in (1, 2):
                z = (masks[d][layer - 1] * np.tanh(z)) @ W[layer][d] + b[layer][d]
            found.append(((z - y) ** 2).sum() / 2)
        return np.array(found)

    along, small = RNG.standard_normal(start.shape), 1e-6
    up, down = (losses(start + sign * small * along, masks) for sign in (1, -1))
    networks.begin(start)
    networks.descend(1)
    step = (start - networks.parameters) / 0.05
    assert (step * along).sum(axis=1) == pytest.approx((up - down) / (2 * small), rel=1e-6)
    after = networks.parameters.copy()
    plain = losses(after, [[1.0, 1.0], [1.0, 1.0]])
    assert networks.observed()[:, -1] == pytest.approx(plain, rel=1e-12)
    networks.begin(start)
    networks.descend(1)  # with the next masks
    assert (networks.parameters != after).any(axis=1).all()


def test_masks_do_not_depend_on_when_networks_are_looked_at():
    """Nor on which others are beside them, with batches drawn as well."""
    work = replace(training(layers.dropout("1/2")), batch=2)
    both, one = descending.Networks(work, np.arange(2)), descending.Networks(work, np.arange(1, 2))
    both.descend(5)
    for steps in (2, 3):
        one.descend(steps)
        one.observed()
    assert one.parameters[0] == pytest.approx(both.parameters[1], rel=1e-13)


def test_a_skip_has_no_more_outputs_than_neurons():
    net = Network("tanh", layer=LAYERS["residual"])
    with pytest.raises(InputError, match="outputs"):
        simulate(net, INPUTS, np.ones((3, 9)), None, 8, 2, 0.1, 1, 10)


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("layer", ["normalized", "gated"])
def test_a_norm_that_divides_by_0_is_named_with_the_width(layer, clip):
    """Of a single neuron every difference from the mean is 0; an eps, if there is one, is left."""
    given = layers.gated(norm="layer") if layer == "gated" else LAYERS[layer]
    message = r"^width: got 1; .* an eps above 0: .*\(.*layer\) divides by the deviation"
    rest = INPUTS, TARGETS[:, :1], None, 1, 2, 0.05, [0, 2], 20
    with pytest.raises(InputError, match=message):
        simulate(Network("tanh", layer=given), *rest, clip=clip)
    safe = Network("tanh", layer=layers.gated(norm="layer", eps="1e-3"))
    assert np.isfinite(simulate(safe, *rest, clip=clip)["prediction"]).all()


@pytest.mark.slow
def test_tangent_kernels_of_gates_bend_as_theory_says():
    """What a step adds to H at η² y² is half of H's second derivative along ∂z at the start, of a
    single input: at width 128, of 200 networks, |z| < 5, where half of it would be seen."""
    net = Network("tanh", "orthogonal", C_b=0.1, lambda_b=0.3, layer=layers.gated())
    x, n, etas = INPUTS[:1], 128, np.array([0.01, 0.02])

    def bent(y):
        """The coefficient of η² of ntk1 after a step."""
        tables = [flow(net, x, [y], None, 3, eta, [0, 1]) for eta in etas]
        moved = [np.diff(table["ntk1"].to_numpy().ravel())[0] for table in tables]
        return np.linalg.solve(etas[:, None] ** [1, 2], moved)[1]

    theory = bent(1.0) - bent(0.0)
    ensemble, rule = checked_ensemble(net, x, n, 3, 2), optimizers.Optimizer("tensorial", 1.0, None)
    work = ensembles.Training(ensemble, np.zeros((1, 1)), rule, "squared", 1, (), True, 200)
    bends, small = [], 1e-3
    for draws in np.split(np.arange(200), 20):
        networks = descending.Networks(work, draws)
        start, z = networks.parameters.copy(), networks.outputs(x).reshape(-1, 1)
        networks.descend(1)
        along, H = (start - networks.parameters) / z, []
        for k in (-1, 0, 1):
            networks.parameters[:] = start + k * small * along
            H.append(networks.observed()[:, 1])
        bends.append(n * (H[0] - 2 * H[1] + H[2]) / (2 * small**2))
    values = np.concatenate(bends)
    error = values.std(ddof=1) / np.sqrt(values.size)
    assert 5 * error < 0.5 * abs(theory)
    assert abs(values.mean() - theory) < 5 * error


@pytest.mark.parametrize(("layer", "outputs"), [("residual", 2), ("skip", 1)])
def test_controls_change_no_mean_of_a_layer(layer, outputs):
    """Controlled and plain means of other networks at n = 8, |z| < 5.5 of some 150 numbers."""
    given = layers.residual(1, norm="rms") if layer == "residual" else LAYERS[layer]
    net = Network("tanh", C_b=0.1, lambda_b=0.3, layer=given)
    x, y, steps = INPUTS[:2], TARGETS[:2, :outputs], [0, 1, 5]
    both = [
        simulate(net, x, y, TESTS, 8, 3, 0.05, steps, 4000, seed=seed, **other)
        for seed, other in ((1, {}), (2, {"clip": 1e9}))
    ]
    for name in ("prediction", "covariance", "ntk", "loss"):
        off = both[0][name] - both[1][name]
        error = np.hypot(both[0][f"{name}_se"], both[1][f"{name}_se"])
        assert (abs(off) <= 5.5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("layer", "reads"),
    [
        ("dense", True),
        ("gated", True),
        (layers.convolution(2, 4, readout="mean"), True),
        (layers.convolution(2, 4), True),
        ("skip(1/2)*; dense", True),
        ("skip(1/2)", False),
        ("residual", False),
    ],
    ids=str,
)
def test_outputs_are_as_many_as_the_last_layer_reads_out(layer, reads):
    """Fewer may be trained where the last layer carries z, more never."""
    widths = (2, 16, 16, 16) if "skip" in str(layer) or layer == "residual" else (2, 16, 16, 3)
    net = Network("tanh", layer=layer, widths=widths)
    positions = next(iter(net.layer.input_axes), None)
    inputs = np.ones((1, 2) if positions is None else (1, positions, 2))
    places = net.layer.output_axes
    for outputs in (1, widths[-1] - 1, widths[-1], widths[-1] + 1):
        targets = np.zeros((1, *places, outputs))
        if outputs == widths[-1] or (outputs < widths[-1] and not reads):
            simulate(net, inputs, targets, None, steps=1, draws=2, ntk=False)
            continue
        for made in (flow, simulate) if reads else (simulate,):
            with pytest.raises(InputError, match=rf"^targets: .*{widths[-1]}, the n_L"):
                made(net, inputs, targets, steps=1)


def test_outputs_are_of_the_layers_that_are_computed():
    net = Network("tanh", widths=(2, 16, 5, 1))
    with pytest.raises(InputError, match=r"^targets: .*; wanted 5, the n_L"):
        flow(net, np.ones((1, 2)), np.zeros((1, 1)), depth=2, steps=1)
