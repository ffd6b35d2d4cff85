"""The tower of the tangent kernel behind functions of all samples: exact cases, and ensembles."""

import numpy as np
import pytest

from derive import Exchangeable, Gaussian, InputError, Network, Orthogonal, layers, recursion
from numeric import compare, flow, simulate, training

BATCH = np.random.default_rng(0).standard_normal((4, 6))
TOWER = ["Theta1", "D", "F", "A", "B"]
HIGHER = ["P", "Q", "R", "S", "T", "U"]
ONE_SAMPLE = layers.Layer(
    "y[i;s] = z[i;s] + eps*mean_s(z[i;s]^2)", "z[i;s] = b[i] + W[i,a] s(y[a;s])", eps=0
)
CENTRED = layers.Layer("y[i;s] = z[i;s] - mean_s(z[i;s])", "z[i;s] = b[i] + W[i,a] s(y[a;s])")


def projection(m):
    return np.eye(m) - 1.0 / m


def agree(found, known, names, first=0):
    for name in names:
        values, expected = (each[name].to_numpy()[first:] for each in (found, known))
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11 * abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "names"),
    [("tanh", [*TOWER, *HIGHER]), ("relu", TOWER[1:])],
    ids=["tanh", "relu"],
)
def test_a_function_of_one_sample_has_the_dense_tower(activation, names):
    found, known = (
        flow(
            Network(activation, Orthogonal(1.5), C_b=0.1, layer=layer), BATCH[:2], 3, names, width=8
        )
        for layer in (ONE_SAMPLE, layers.dense())
    )
    agree(found, known, names)


@pytest.mark.slow
def test_centred_samples_have_the_tower_of_centred_inputs():
    """σ(P z) with z = W x is σ(W P x): all derivatives are between different samples."""
    given = {"C_b": 0, "lambda_b": 0, "lambda_W": 1.3}
    net = Network("tanh", Orthogonal(1.5), layer=CENTRED, **given)
    found = flow(net, BATCH[:2], 2, [*TOWER, *HIGHER])
    dense = flow(
        Network("tanh", Orthogonal(1.5), **given), projection(2) @ BATCH[:2], 2, [*TOWER, *HIGHER]
    )
    agree(found, dense, [*TOWER, *HIGHER], first=1)


@pytest.mark.slow
def test_a_mean_that_is_taken_off_is_a_mixing_of_samples():
    """With linear σ in the middle, and fluctuations of layers below and above."""
    found, known = (
        flow(
            Network(
                ["tanh", "linear", "tanh"],
                Gaussian(1.5),
                C_b=0.1,
                layer=layers.by_depth(layers.dense(), middle, layers.dense()),
            ),
            inputs,
            4,
            TOWER,
        )
        for middle, inputs in ((CENTRED, BATCH[:3]), (layers.mix(projection(3)), BATCH[None, :3]))
    )
    agree(found, known, TOWER, first=2)


@pytest.mark.parametrize("name", ["D", "F", "A", "B"])
def test_what_a_norm_fixes_has_no_gradient(name):
    """Σ_s y_s = 0 at every neuron, so no sum over samples of H has a gradient by the weights."""
    net = Network("linear", Gaussian(1.5), layer=layers.batchnorm("1/10"), lambda_b=0)
    values = flow(net, BATCH[:2], 3, [name])[name].to_numpy()[1:]
    assert np.abs(values).max() > 0.1
    for axis in range(1, 5):
        np.testing.assert_allclose(values.sum(axis), 0.0, atol=1e-12)


def test_equal_terms_are_added_up():
    shown = str(recursion("Theta1", layer=ONE_SAMPLE))
    assert "⟨∂_p∂_q∂_r∂_u(∂_xσ₁ ∂_yσ₂)⟩*Theta[x,y]*V[p,q,r,u]/8" in shown
    assert "⟨∂_p∂_q(∂_xσ₁ ∂_yσ₂)⟩*F[p,x,q,y]" in shown


def test_second_derivatives_of_a_kink_are_refused():
    net = Network("relu", layer=layers.batchnorm("1/10"))
    with pytest.raises(InputError, match="without kinks"):
        flow(net, BATCH[:2], 2, ["P"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "activation", "layer"),
    [
        (2, "tanh", "batchnorm(eps=1/10)"),
        (2, "relu", "batchnorm(eps=1/10, center=False)"),
        (3, "tanh", "batchnorm(eps=1/10)"),
    ],
)
def test_alike_samples_have_the_tower_of_a_general_batch(m, activation, layer):
    net, names = Network(activation, Orthogonal(1.5), C_b=0.1, layer=layer), TOWER[1:]
    lengths, axes = np.linalg.eigh(np.where(np.eye(m, dtype=bool), 1.3, 0.4))
    table = flow(net, Exchangeable(m, "1.3", "0.4", m), 3, names)
    known = flow(net, (axes * np.sqrt(m * lengths)) @ axes.T, 3, names)
    for name in names:
        for orbit, values in table[name].dropna("orbit").groupby("orbit"):
            at = [int(digit) - 1 for digit in orbit if digit.isdigit()]
            entries = known[name].to_numpy()[(slice(None), *at)]
            np.testing.assert_allclose(values.to_numpy().ravel(), entries, rtol=1e-10, atol=1e-11)


@pytest.mark.slow
def test_an_ensemble_has_the_tower():
    """354 comparisons; errors of 8 % of D, which fluctuates most, and of 5 % of F and B."""
    net = Network("tanh", Gaussian(1.5), C_b=0.1, layer=layers.batchnorm("1/5"))
    names = ["K", "Theta", "D", "F", "A", "B"]
    theory = flow(net, BATCH[:3], 3, names)
    tables = [simulate(net, BATCH[:3], n, 3, draws=1900, tensors=names, seed=1) for n in (48, 96)]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4.5
    shares = {n: float((tables[-1][f"{n}_se"] / abs(theory[n]).max())[-1].max()) for n in names}
    assert shares["D"] < 0.08
    assert max(shares["F"], shares["B"]) < 0.05


def linear_B(B, theta, C_W, by):
    """B behind linear σ of P z, where each pair moves with these derivatives, (a, b, s, t)."""
    terms = B + np.einsum("xv,yu->xyvu", theta, theta)
    return C_W**2 * np.einsum("abxy,cdvu,xyvu->abcd", by, by, terms)


@pytest.mark.slow
def test_an_ensemble_tells_derivatives_by_named_samples_alone_apart_in_B():
    net = Network("linear", Gaussian(1.5), C_b=0.1, layer=CENTRED)
    table = simulate(net, BATCH[:3], 256, 3, draws=600, tensors=["B"], seed=3)
    theory, P = flow(net, BATCH[:3], 3, ["B", "Theta"]), projection(3)
    B, theta = (theory[name].sel(layer=2).to_numpy() for name in ("B", "Theta"))
    every = np.einsum("as,bt->abst", P, P)
    named = np.array(
        [
            [[[s in (a, b) and t in (a, b) for t in range(3)] for s in range(3)] for b in range(3)]
            for a in range(3)
        ]
    )
    above = table.sel(layer=3)
    right, wrong = (linear_B(B, theta, 1.5, each) for each in (every, every * named))
    np.testing.assert_allclose(theory.B.sel(layer=3), right, rtol=1e-11, atol=1e-12)
    errors = above.B_se.to_numpy()
    assert np.abs((above.B.to_numpy() - right) / errors).max() < 4.5
    assert np.abs((above.B.to_numpy() - wrong) / errors).max() > 10


def equal_tables(found, known):
    for name in set(found.data_vars) - {"inputs"}:
        values, expected = found[name].to_numpy(), known[name].to_numpy()
        if not name.endswith("_error") and values.dtype.kind == "f":
            np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_training_of_a_function_of_one_sample():
    nets = [Network("tanh", Gaussian(1.5), C_b=0.1, layer=each) for each in (ONE_SAMPLE, "dense")]
    equal_tables(*(training.learning_rate(net, BATCH[:2], 3, width=10) for net in nets))
    given = {"depth": 3, "eta": 0.05, "steps": [0, 3], "width": 10}
    equal_tables(*(training.flow(net, BATCH[:1], [1.0], BATCH[1:2], **given) for net in nets))


@pytest.mark.slow
def test_training_of_centred_samples_is_that_of_centred_inputs():
    """The batch holds the test inputs, too."""
    common, given = {"C_b": 0, "lambda_b": 0}, {"depth": 2, "eta": 0.05, "steps": [0, 3]}
    centred, dense = (Network("tanh", Gaussian(1.5), layer=x, **common) for x in (CENTRED, "dense"))
    X = projection(2) @ BATCH[:2]
    found = training.flow(centred, BATCH[:1], [1.0], BATCH[1:2], **given)
    equal_tables(found, training.flow(dense, X[:1], [1.0], X[1:], **given))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda net, x: training.learning_rate(net, x, 3), "all eigenvalues of Θ but one"),
        (lambda net, x: training.flow(net, x, [1.0], depth=3), "for exchangeable inputs"),
        (
            lambda net, _: training.simulate(net, BATCH[:2], [1.0, 0.0], width=8, depth=3),
            "in training",
        ),
    ],
)
def test_refusals_of_training(call, reason):
    with pytest.raises(InputError, match=reason):
        call(Network("tanh", layer=layers.batchnorm("1/10")), Exchangeable(6, 1, "1/3"))


@pytest.mark.slow
def test_an_ensemble_has_an_orthogonal_first_layer_below_a_batch():
    """An isometry of 8 numbers has one law of V at every width. Of 64 numbers V depends on the
    width, which `flow` has to be given: at 32 neurons V of layer 2 is another."""
    net = Network("tanh", Orthogonal(1.5), C_b=0.1, layer=layers.batchnorm())
    narrow, wide = (Exchangeable(8, 1, "1/2", n_0) for n_0 in (8, 64))
    theory = flow(net, narrow, 3, ["K", "V"])
    tables = [
        simulate(net, narrow, n, 3, draws=1000, tensors=["K", "V"], seed=1) for n in (32, 64, 128)
    ]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4
    at = [float(flow(net, wide, 2, ["V"], width=n).V[-1, 0]) for n in (32, 64, 128)]
    assert at[1] == pytest.approx(at[2])
    assert at[0] > 0.92 * at[1] > at[1]
