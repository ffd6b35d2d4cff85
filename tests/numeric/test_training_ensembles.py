"""Ensembles of networks that are really trained: against theory, and against what they must be."""

import math
from dataclasses import replace

import numpy as np
import pytest

from derive import LowRankGaussian, LowRankOrthogonal, Network, Rademacher, Truncated, layers
from derive.errors import InputError
from numeric import compare
from numeric import flow as tensors_of
from numeric.samplers import checked_ensemble
from numeric.training import control, flow, means, simulate
from numeric.training.ensembles import Start, Training
from numeric.training.multilevel import Levels
from numeric.training.optimizers import Optimizer
from numeric.training.parts import first_rows, readout

RNG = np.random.default_rng(22)
INPUTS, TARGETS = RNG.standard_normal((3, 5)), 2 * RNG.standard_normal((3, 2))
TESTS = RNG.standard_normal((1, 5))
NET = Network("tanh", "orthogonal", C_b=0.1, lambda_b=0.3)
SIGNAL = np.array([[1.0, -0.4], [0.5, 0.7], [-0.3, 0.2]])
NONE = 1e9
"""Clipping that clips nothing: networks are then measured as they are, not by a line."""


def test_a_single_layer_descends_as_a_line():
    """z = b + W x has a tangent kernel that stays: z − y shrinks by 1 − ηΘ in every network."""
    eta, steps = 0.1, [0, 1, 7]
    made = simulate(NET, INPUTS, TARGETS, TESTS, 5, 1, eta, steps, draws=200, clip=NONE)
    theory = flow(NET, INPUTS, TARGETS, TESTS, 1, eta, steps)
    assert made["ntk"].to_numpy() == pytest.approx(theory["ntk"].to_numpy(), abs=1e-12)
    assert made["ntk_se"].to_numpy() == pytest.approx(0, abs=1e-12)
    theta = theory["ntk"].to_numpy()[0, :3, :3, 0, 0]
    shrink = np.linalg.matrix_power(np.eye(3) - eta * theta, 7)
    start = made["prediction"].to_numpy()[0, :3] - TARGETS
    assert made["prediction"].to_numpy()[2, :3] - TARGETS == pytest.approx(shrink @ start)


def test_a_small_step_moves_outputs_by_the_tangent_kernel():
    """To first order in η, z(1) − z(0) = −η H (z(0) − y), by λ of the network."""
    eta = 1e-6
    made = simulate(NET, INPUTS, TARGETS, TESTS, 7, 3, eta, [0, 1], draws=2, seed=5, clip=NONE)
    one = simulate(NET, INPUTS, 0 * TARGETS, TESTS, 7, 3, eta, [0, 1], draws=2, seed=5, clip=NONE)
    moved = (
        made["prediction"].diff("step").to_numpy()[0] - one["prediction"].diff("step").to_numpy()[0]
    )
    H = made["ntk"].sel(step=0).to_numpy()[:, :3]
    assert moved == pytest.approx(eta * np.einsum("abij,bj->ai", H, TARGETS), rel=1e-4)


def test_trained_ensembles_agree_with_theory():
    """Seen would be 8 % of the mean and of the kernel, and a third of its coefficient of 1/n."""
    net = Network("tanh", "gaussian", C_b=0.1, lambda_b=0.3)
    x, y, steps = INPUTS[:2], TARGETS[:2, :1] / 2, [0, 1, 4]  # at 0 the mean is 0 to rounding
    theory = flow(net, x, y, TESTS, 3, 0.2, steps)
    made = [simulate(net, x, y, TESTS, n, 3, 0.2, steps, 3000, seed=3) for n in (16, 32, 64)]
    scores = compare(theory, made, degree=1)
    assert scores.agrees, scores.table
    last = {row.tensor: row.share for row in scores.rows if row.layer == 4}
    assert max(last["prediction"], last["ntk"]) < 0.08
    assert last["ntk1"] < 0.35


@pytest.mark.slow
def test_trained_ensembles_resolve_the_coefficients():
    """Of small targets, at half the largest stable η; elsewhere the next order in 1/n is seen at
    these widths."""
    net = Network.critical("tanh", "orthogonal")
    x, y, test = INPUTS[:2], TARGETS[:2] / 4, TESTS
    theta = tensors_of(net, x, 3, "Theta")["Theta"].to_numpy()[-1]
    eta, steps = 1 / np.linalg.eigvalsh(theta)[-1], [1, 5, 20]
    theory = flow(net, x, y, test, 3, eta, steps)
    made = [simulate(net, x, y, test, n, 3, eta, steps, 400, seed=4) for n in (24, 48, 96)]
    scores = compare(theory, made, degree=2)
    assert scores.agrees, scores.table


@pytest.mark.slow
def test_trained_ensembles_see_the_kurtosis_of_the_weights():
    """22 comparisons at 4.5 standard errors, extrapolated in 1/n; the normal law is off by 5."""
    layer, given, draws = (
        "convolution(2, 3, readout=mean)",
        ([SIGNAL], [[0.5]], -SIGNAL[::-1]),
        1500,
    )
    normal, sparse = (
        Network("tanh", law, "gaussian(C_W=3/2)", C_b=0.1, layer=layer)
        for law in ("gaussian(C_W=3/2)", "sparse(1/8, C_W=3/2)")
    )
    wrong, right = (flow(net, *given, 2, 0.15, [1, 3]) for net in (normal, sparse))
    made = [simulate(sparse, *given, n, 2, 0.15, [1, 3], draws, seed=n) for n in (48, 96)]
    scores = {"right": [], "wrong": []}
    for name in ("prediction", "covariance", "ntk", "loss"):
        one, two = (
            n * (table[name] - right[name]) for n, table in zip((48, 96), made, strict=True)
        )
        se = np.hypot(48 * made[0][f"{name}_se"], 192 * made[1][f"{name}_se"])
        for theory, called in ((right, "right"), (wrong, "wrong")):
            scores[called].append(float(abs((2 * two - one - theory[f"{name}1"]) / se).max()))
    assert max(scores["right"]) < 4.5, scores
    assert max(scores["wrong"]) > 5, scores


def test_a_layer_by_its_equation_trains_as_the_dense_one():
    """With independent entries too, whose blocks pass through its stages."""
    given = INPUTS[:2], TARGETS[:2] / 4, TESTS, 3, 0.2, [0, 3, math.inf]
    layer = layers.Layer("z[i] = b[i] + W[i,a] s(z[a])")
    one, other = (
        flow(Network("tanh", Rademacher(C_W=2), C_b=0.1, lambda_b=0.3, layer=each), *given)
        for each in ("dense", layer)
    )
    for name in ("prediction1", "covariance1", "ntk1"):
        assert np.allclose(one[name], other[name], rtol=1e-9, atol=1e-10), name


def test_a_run_that_is_taken_up_again_has_the_same_bits(tmp_path):
    given = NET, INPUTS, TARGETS, TESTS, 6, 2, 0.2, [0, 3]
    whole = simulate(*given, draws=600, batch=2)
    simulate(*given, draws=300, batch=2, run=tmp_path / "run")
    resumed = simulate(*given, draws=600, batch=2, run=tmp_path / "run")
    assert whole.equals(resumed)


def test_batches_go_through_the_whole_set():
    """With a batch of one and a tiny η, three steps move outputs as one step of the whole does."""
    eta = 1e-7
    parts = simulate(NET, INPUTS, TARGETS, None, 6, 2, eta, [0, 3], draws=3, batch=1)
    whole = simulate(NET, INPUTS, TARGETS, None, 6, 2, eta, [0, 1], draws=3, clip=NONE)
    moved, at_once = (each["prediction"].diff("step").to_numpy() for each in (parts, whole))
    assert parts["prediction"].sel(step=0).equals(whole["prediction"].sel(step=0))
    assert moved == pytest.approx(at_once, rel=1e-4)


def test_the_first_step_of_adam_is_eta_long():
    """z = b + W x, one output: every parameter moves by η against its gradient's sign."""
    x, eta = np.array([1.0, -2.0, 0.5]), 1e-3
    made = simulate(Network("tanh"), x, 9.0, None, 4, 1, eta, [0, 1], draws=50, optimizer="adam")
    moved = np.diff(made["prediction"].to_numpy()[:, 0])
    assert moved == pytest.approx(eta * (1 + np.abs(x).sum()), rel=1e-5)


def test_momentum_is_a_recursion_of_two_terms():
    x, y, eta = np.array([1.0, 0.5]), 0.3, 0.05
    net = Network("linear")
    made = simulate(net, x, y, None, 3, 1, eta, [0, 1, 2, 3], draws=2, optimizer="momentum")
    z = made["prediction"].to_numpy()[:, 0]
    theta = 1 + x @ x  # ordinary rates
    for t in (1, 2):
        assert z[t + 1] - z[t] == pytest.approx(0.9 * (z[t] - z[t - 1]) - eta * theta * (z[t] - y))


def test_clipping_bounds_a_step():
    x, y = np.array([3.0, 0.0]), 100.0
    made = simulate(
        Network("linear"), x, y, None, 3, 1, 1.0, [0, 1], draws=400, optimizer="ordinary", clip=0.01
    )
    bias = 100.0 - made["prediction"].to_numpy()[0, 0]  # is not clipped
    moved = np.diff(made["prediction"].to_numpy()[:, 0])[0]
    assert abs(moved - bias) < 3 * 0.01 * 5  # clip · |W| · |x|


def test_cross_entropy_is_learned():
    made = simulate(
        NET, INPUTS, np.eye(3), None, 12, 2, 0.3, [0, 300], draws=20, loss="cross-entropy"
    )
    start, end = made["loss"].to_numpy()
    assert start == pytest.approx(3 * math.log(3), rel=0.25)
    assert end < 0.05


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"eta": 0}, "eta"),
        ({"eta": 1e6}, "eta"),
        ({"half": "no"}, "half"),
        ({"eta": 1e80, "steps": 1}, "eta"),  # outputs are finite, their squares are not
        ({"steps": [math.inf]}, "steps"),
        ({"draws": 1}, "draws"),
        ({"optimizer": "magic"}, "optimizer"),
        ({"loss": "hinge"}, "loss"),
        ({"loss": "cross-entropy"}, "targets"),
        ({"batch": 4}, "batch"),
        ({"clip": -1}, "clip"),
        ({"targets": [1.0]}, "targets"),
        ({"targets": 1e307 * TARGETS, "eta": 0.1, "steps": 1}, "targets"),
        ({"targets": 1e100 * TARGETS, "eta": 0.1, "steps": 1}, "targets"),
        ({"width": None}, "width, depth"),
        ({"net": Network("tanh", layer="dropout(p)")}, "layer"),
    ],
)
def test_bad_arguments_are_named(changed, argument):
    given = {"net": NET, "inputs": INPUTS, "targets": TARGETS, "width": 5, "depth": 2, "steps": 50}
    with np.errstate(all="ignore"), pytest.raises(InputError, match=f"^{argument}: "):
        simulate(**(given | {"draws": 5} | changed))


def work_of(targets, **options):
    """Networks that are trained, as `simulate` has them."""
    ensemble = checked_ensemble(NET, INPUTS, 9, 3, 6)
    rule = Optimizer("tensorial", 0.1)
    return Training(ensemble, targets, rule, "squared", 3, (0, 4), True, 8, origin=True, **options)


def test_a_network_and_its_negative_readout_are_mirror_images():
    """Where targets are 0, z → −z is a symmetry of descent: outputs change their signs, H and the
    loss stay. With targets it is one of them with −y, and the first sign is what it was alone."""
    work = work_of(0 * TARGETS, antithetic=True)
    course = work.course(work.sums(0, 8, np.empty(0)))
    one, other = course.of_sign(0), course.of_sign(1)
    assert other.outputs == pytest.approx(-one.outputs, abs=1e-12)
    assert other.tangent == pytest.approx(one.tangent, abs=1e-12)
    assert other.loss == pytest.approx(one.loss, abs=1e-12)
    both, opposite, alone = (
        work.course(work.sums(0, 8, np.empty(0)))
        for work in (
            work_of(TARGETS, antithetic=True),
            work_of(-TARGETS, antithetic=True),
            work_of(TARGETS),
        )
    )
    assert both.of_sign(1).outputs == pytest.approx(-opposite.of_sign(0).outputs, abs=1e-12)
    assert np.array_equal(both.of_sign(0).outputs, alone.of_sign(0).outputs)


def test_antithetic_means_of_a_single_layer_are_exact():
    """z − y = (1 − ηΘ)^t (z(0) − y): the mean over a readout and its negative has no z(0)."""
    steps = [0, 1, 7]
    made = simulate(NET, INPUTS, TARGETS, TESTS, 5, 1, 0.1, steps, draws=4)
    theory = flow(NET, INPUTS, TARGETS, TESTS, 1, 0.1, steps)
    assert made["prediction"].to_numpy() == pytest.approx(
        theory["prediction"].to_numpy(), abs=1e-12
    )
    assert made["prediction_se"].to_numpy() == pytest.approx(0, abs=1e-12)
    plain = simulate(NET, INPUTS, TARGETS, TESTS, 5, 1, 0.1, steps, draws=4, clip=NONE)
    assert plain["prediction_se"].min() > 0.01


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", LowRankOrthogonal(gamma=1)])
def test_readouts_on_the_same_layers_are_of_the_ensemble(weights):
    """z of each has the covariance that the layers below give it, within 5 of its errors."""
    net = Network("tanh", weights, first_weights="gaussian", C_b=0.1)
    work = replace(work_of(TARGETS), ensemble=checked_ensemble(net, INPUTS, 9, 2, 6), steps=())
    work = replace(work, readouts=400)
    start = work.start(work.sums(0, 8, np.empty(0)))
    assert np.ptp(start.kernel, axis=1).max() == 0
    z = start.outputs[:, 1:]
    products = np.einsum("drai,drbj->drijab", z, z)
    for i in range(2):
        products[:, :, i, i] -= start.kernel[:, 1:]
    flat = products.reshape(8, 399, -1)
    scores = flat.mean(axis=1) / (flat.std(axis=1) / np.sqrt(399))
    assert np.abs(scores).max() < 5
    assert np.abs(z.mean(axis=1) / (z.std(axis=1) / np.sqrt(399))).max() < 5


@pytest.mark.parametrize("drawn", [first_rows, readout])
@pytest.mark.parametrize(
    ("weights", "shape", "rows", "fourth"),
    [
        ("orthogonal", (2, 4), 8, 2**2 * 3 / (8 * 10)),
        ("orthogonal", (2, 8), 4, 3 / (8 * 10)),
        (LowRankOrthogonal(gamma="1/2"), (1, 8), 8, 2**2 * 3 / (8 * 10) * (4 * 6) / (8 * 10)),
    ],
)
def test_few_rows_are_those_of_the_whole_matrix(drawn, weights, shape, rows, fourth):
    """E W⁴ by the moments of uniform frames, of a network with fewer outputs than neurons; within
    5 of its error."""
    law, rng = Network("tanh", weights).weights, np.random.default_rng(8)
    made = np.array([drawn(law, shape, rng, rows) for _ in range(6000)])
    assert made.shape[1:] == shape
    means = (made**4).mean(axis=(1, 2))
    assert abs(means.mean() - fourth) < 5 * means.std() / np.sqrt(len(means))


def test_one_output_of_low_rank_weights():
    """Its rank is that of all neurons: half of one output would be none."""
    net = Network("tanh", LowRankOrthogonal(gamma="1/2"), first_weights="gaussian")
    table = simulate(net, INPUTS, TARGETS[:, :1], None, 8, 2, 0.1, [0, 1], 20)
    assert np.isfinite(table["prediction"]).all()


@pytest.mark.parametrize(
    ("weights", "outputs", "named"),
    [
        (LowRankOrthogonal(gamma="1/2"), 3, "gamma: got 1/2"),
        (LowRankOrthogonal(gamma="1/2"), 6, "gamma: got 1/2"),  # rank 3 of 2 neurons
        (LowRankGaussian(gamma="1/2"), 3, "gamma: got 1/2"),
        (Truncated(ratio="3/2"), 3, "ratio: got 3/2"),
    ],
)
def test_more_outputs_than_neurons_have_a_whole_rank(weights, outputs, named):
    """A rank is a part of all rows: of so many outputs, where the last layer has two neurons."""
    net = Network("tanh", weights, first_weights="gaussian")
    with pytest.raises(InputError, match=f"^targets: got {outputs} outputs; .*{named}"):
        simulate(net, INPUTS, np.ones((3, outputs)), None, 2, 2, 0.1, 1, 4)
    made = simulate(net, INPUTS, np.ones((3, 4)), None, 2, 2, 0.1, 1, 4)
    assert np.isfinite(made["prediction"]).all()


@pytest.mark.parametrize("drawn", [first_rows, readout])
def test_ranks_of_more_outputs_than_neurons_are_of_the_outputs(drawn):
    """Two of four: C_W/γ times a projector."""
    made = drawn(LowRankOrthogonal(gamma="1/2"), (4, 3), np.random.default_rng(1), 2)
    assert np.linalg.eigvalsh(made @ made.T) == pytest.approx([0, 0, 2, 2])


def test_controls_change_no_mean_but_its_noise():
    """With and without them the same networks say the same."""
    given = NET, INPUTS, TARGETS, TESTS, 24, 2, 0.2, [0, 6]
    plain = simulate(*given, draws=800, clip=NONE)
    controlled = simulate(*given, draws=800)
    for name, part in (("prediction", 0.6), ("covariance", 0.75), ("ntk", 0.9), ("loss", 0.75)):
        errors = np.hypot(plain[f"{name}_se"], controlled[f"{name}_se"])
        gap = np.abs((plain[name] - controlled[name]) / errors.where(errors > 0, 1))
        assert gap.max() < 5
        noise, before = (each[f"{name}_se"].sel(step=6).sum() for each in (controlled, plain))
        assert noise < part * before, name


@pytest.mark.slow
def test_standard_errors_are_what_replicas_differ_by():
    """40 ensembles: their variance over the mean of se², its own error some 0.22 a number, and
    numbers that are correlated."""
    net = Network("tanh", C_b=0.1)
    tables = [
        simulate(net, INPUTS[:2], TARGETS[:2, :1], None, 12, 3, 0.2, [1, 8], 120, seed)
        for seed in range(40)
    ]
    for name in ("prediction", "covariance", "ntk", "loss"):
        values = np.array([table[name].to_numpy() for table in tables])
        errors = np.array([table[f"{name}_se"].to_numpy() for table in tables])
        ratio = (values.var(axis=0, ddof=1) / (errors**2).mean(axis=0)).mean()
        assert 0.4 < ratio < 2, (name, ratio)


def start_of(draws):
    """Networks of one sample and output whose H is 1 + z/10, with z of variance 1."""
    z = np.random.default_rng(5).standard_normal(draws)
    tangent = 1 + z / 10
    shape = draws, 1, 1, 1
    return Start(z.reshape(shape), tangent.reshape(*shape, 1, 1), np.ones(shape))


def test_descent_by_a_networks_own_kernel():
    start, eta = start_of(50), 0.3
    z, H = start.outputs[:, 0, 0, 0], start.tangent[:, 0, 0, 0, 0, 0]
    found = control.linear(start, np.array([[2.0]]), eta, [0, 1, 9])[:, 0, :, 0, 0]
    for step, values in zip((0, 1, 9), found.T, strict=True):
        assert values == pytest.approx(2 + (1 - eta * H) ** step * (z - 2))
    wild = control.linear(start, np.array([[2.0]]), 5.0, [1000])
    assert np.abs(wild).max() < 100  # an η too large for H is no infinity


def test_modes_that_are_too_fast_change_their_signs_alone():
    """1 − ηλ is −1 where ηλ is above 2, on the training set; other modes are as they are."""
    values, eta, y = np.array([30.0, 0.5]), 0.2, np.array([[1.0], [2.0]])
    U = np.array([[0.6, -0.8], [0.8, 0.6]])
    H, z = (U * values @ U.T)[None, None, :, :, None, None], np.array([[[[3.0], [-1.0]]]])
    found = control.linear(Start(z, H, H[..., 0, 0]), y, eta, [0, 1, 4])[0, 0, :, :, 0]
    off = U.T @ (z[0, 0] - y)[:, 0]
    for step, row in zip((0, 1, 4), found, strict=True):
        assert row - y[:, 0] == pytest.approx(U @ (np.array([-1.0, 0.9]) ** step * off))


def test_features_take_out_what_they_explain():
    """A value that is its mean, and features of mean 0, is left with the mean alone."""
    rng = np.random.default_rng(6)
    features = [rng.standard_normal((200, 2)), rng.standard_normal((200, 3))]
    exact = 3 + features[0] @ [1.0, -2.0] + features[1] @ [0.5, 0.0, 4.0]
    left, slopes = control.regressed(exact, features)
    assert left == pytest.approx(3)
    assert np.concatenate(slopes)[:, 0] == pytest.approx([1.0, -2.0, 0.5, 0.0, 4.0])
    few, kept = control.regressed(exact[:60], [each[:60] for each in features])
    assert len(kept) == 1
    assert few.std() > 1  # 60 networks bear two features, not five


def test_slopes_of_the_other_networks_do_not_move_the_mean():
    """Were the slopes those of the networks themselves, z³ with few of them would be off: here the
    average over many small ensembles is 0, within 5 of its errors."""
    rng = np.random.default_rng(7)
    means = []
    for _ in range(400):
        z = rng.standard_normal((40, 1))
        means.append(control.regressed((z**2 - 1)[:, 0], [z]).left.mean())
    assert abs(np.mean(means)) < 5 * np.std(means) / 20


def test_time_counts_what_is_not_trained():
    """The estimate has all three levels; errors rest on as many parts as the table says."""
    work = replace(work_of(TARGETS), origin=False, draws=2000, patience=None)
    levels = Levels.of(work, antithetic=True)
    trained, others = levels.trained, levels.untrained
    both = trained.draws * trained.seconds + others.draws * others.seconds
    assert levels.seconds == pytest.approx(both + levels.lazy * means.seconds(work.ensemble))
    assert levels.lazy >= 2000
    assert levels.blocks == means.BATCHES
    plain = Levels.of(replace(work, rule=Optimizer("adam", 0.1)), antithetic=True)
    assert (plain.lazy, plain.untrained.draws, plain.blocks) == (0, 0, 2000)


def test_a_run_goes_on_past_the_draws_that_bear_another_control(tmp_path):
    given = Network("tanh", C_b=0.1), [1.0], [0.7], None, 4, 2, 0.1, [0, 2]
    few, many = 10, 200  # one feature takes 20 networks
    whole = simulate(*given, many)
    simulate(*given, few, run=tmp_path / "run")
    assert whole.equals(simulate(*given, many, run=tmp_path / "run"))
    assert whole.equals(simulate(*given, many, run=tmp_path / "run"))


def test_the_arguments_that_differ_from_a_run_are_named(tmp_path):
    given = Network("tanh"), [1.0], [0.7], None, 4, 2
    simulate(*given, 0.1, [0, 2], 5, run=tmp_path)
    with pytest.raises(InputError, match=r"its eta is 0\.1 and not 0\.2, its steps is \[0, 2\]"):
        simulate(*given, 0.2, [0, 3], 5, run=tmp_path)
    with pytest.raises(InputError, match=r"its optimizer is 'tensorial' and not 'adam'$"):
        simulate(*given, 0.1, [0, 2], 5, optimizer="adam", run=tmp_path)
    with pytest.raises(InputError, match="its antithetic is True and not False"):
        simulate(*given, 0.1, [0, 2], 5, antithetic=False, run=tmp_path)


def test_the_readout_of_given_widths_has_as_many_outputs_as_the_targets():
    net = Network("tanh", widths=[5, 10, 20, 1])
    with pytest.raises(InputError, match=r"^targets: got 2 outputs; wanted 1, the n_L"):
        simulate(net, INPUTS, TARGETS, steps=1, draws=2)
    assert simulate(net, INPUTS, TARGETS[:, 0], steps=1, draws=2).attrs["outputs"] == 1
