"""Ensembles with their innovations taken out: unbiased at every width, and of smaller error."""

from __future__ import annotations

from functools import cache

import innovated as module
import numpy as np
import pytest
from innovated import Innovated, Places, innovated, lowered
from staged_innovations import (
    Fresh,
    Noted,
    Piece,
    bodies,
    own_squares,
    reduced,
)

from derivations.layers.by_moments import PreNorm
from derive import Gaussian, InputError, LowRankGaussian, Network, Orthogonal, layers
from numeric import simulate

PAIR = np.array([[1.0, 0.5, -0.7], [0.3, 1.0, 0.6]])
SIGNALS = np.array([[1.0, 0.5, -0.7], [0.3, 1.0, 0.6], [-0.5, 0.2, 0.9]])
LAYERS = (
    "normalized(layer)",
    "residual(skip=1/2)",
    "gated(skip=1/2, norm=rms)",
    "residual(skip=1, norm=layer)",
    "convolution(2, 3)",
    # σ(y) z, y and z one variable's multiples, and σ(y) v, which are independent
    layers.Layer("q = z[a] z[a]/n", "y[i] = z[i]/sqrt(q)", "z[i] = b[i] + W[i,a] s(y[a]) z[a]"),
    layers.Layer(
        "u[i] = W1[i,a] s(z[a])",
        "v[i] = W2[i,a] s(z[a])",
        "q = u[a] u[a]/n",
        "y[i] = u[i]/sqrt(q)",
        "z[i] = b[i] + W[i,a] s(y[a]) v[a]",
    ),
)


def network(
    layer: str | layers.Layer, weights=None, activation: str = "tanh", C_b: float = 0.2
) -> Network:
    return Network(activation, weights or Gaussian(1.5), Gaussian(1), C_b=C_b, layer=layer)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 2048)
    monkeypatch.setattr(module, "LEARNED", 1024)


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
@pytest.mark.parametrize(
    ("layer", "kind", "skip"),
    [
        ("normalized(rms)", "normalized", 0.0),
        ("residual(skip=1/2, norm=rms)", "residual", 0.5),
        ("gated(norm=rms)", "gated", 0.0),
    ],
)
@pytest.mark.usefixtures("few")
def test_what_is_exact_at_finite_width(layer: str, kind: str, skip: float, weights) -> None:
    """One input behind a norm, n = 12, layers 2 to 4: z-scores of 36 numbers in all."""
    n, x = 12, PAIR[0]
    haar = isinstance(weights, Orthogonal)
    found = innovated(network(layer, weights), x, n, 4, seed=2)
    table = found.table([found.part(0), found.part(1)])
    K = 0.2 + float(np.mean(x**2))
    square = K**2 * (1 + 2 / n)
    means, vertices = PreNorm(np.tanh, haar, kind, skip, 1.5, 0.2).run((K, square), n, 4)
    for name, exact in (("K", means), ("V", vertices)):
        values, errors = table[name].values[1:], table[f"{name}_se"].values[1:]
        assert (np.abs(values - exact[1:]) < 5 * errors + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "weights"),
    [*zip(LAYERS, 4 * [Gaussian(1.5), Orthogonal(1.5)], strict=False)],
    ids=str,
)
@pytest.mark.usefixtures("few")
def test_innovations_have_mean_zero(layer: str | layers.Layer, weights) -> None:
    """Each c, c c' − Σ f f'/n² and c times what is off, 12 000 networks: a bias of 5.9 % of a
    deviation is seen. z-scores of some 5 000 numbers in all: a bound of 6.5 has a rate of false
    alarms of 4·10⁻⁷."""
    x = SIGNALS if str(layer).startswith("convolution") else PAIR
    found = innovated(network(layer, weights, "gelu"), x, 8, 3, seed=3)
    count, total, squares = 12_000, 0.0, 0.0
    for k in range(0, count, 1500):
        columns = _columns(found, np.arange(k, k + 1500))
        total, squares = total + columns.sum(axis=0), squares + (columns**2).sum(axis=0)
    mean = total / count
    error = np.sqrt((squares / count - mean**2) / count)
    assert (np.abs(mean) < 6.5 * error + 1e-12).all()


def _columns(found: Innovated, draws: np.ndarray) -> np.ndarray:
    *_, (_, groups, crossed) = found.sampler.followed(draws, found.means)
    return np.concatenate([reduced(groups), *map(own_squares, groups), *crossed], axis=1)


@pytest.mark.parametrize("sigma", ["gelu", "tanh"])
def test_the_means_of_responses_are_exact(sigma: str) -> None:
    """Of σ(y) v, with y and v at all nodes of a Gauss–Hermite rule in four variables, which is
    good to 2·10⁻⁵: a bias of a thousandth of a deviation is seen."""
    net = network(LAYERS[-1], activation=sigma)
    sampler = innovated(net, PAIR, 8, 2).sampler
    (term,) = sampler.ensemble.stages_at(2)[-1].equations[0][1].right
    factors = [each for each in term.factors if each.at == term.weight[1]]
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    at = np.stack([each.ravel() for each in np.meshgrid(*[nodes] * 4, indexing="ij")])
    weight = np.prod(np.meshgrid(*[weights / weights.sum()] * 4, indexing="ij"), axis=0).ravel()
    met = []
    for k, covariance in enumerate(([[1.3, 0.4], [0.4, 0.8]], [[0.5, -0.2], [-0.2, 0.9]])):
        rows = np.linalg.cholesky(covariance) @ at[2 * k : 2 * k + 2]
        met.append((factors[k], Fresh(rows[None], np.array(covariance), 0, frozenset({k}))))
    body = np.ones(())
    for factor, each in met:
        body = body * bodies.factor_of(sampler.ensemble, factor, each.rows, each.covariance)[0]
    for j, (_, own) in enumerate(met):
        piece = Piece(own.rows, own.covariance, None)
        given = sampler.ensemble, met, j
        for made in (bodies.shifts(*given, body), bodies.responses(*given, piece, body)):
            assert np.abs(made @ weight).max() < 2e-5
            assert (made**2 @ weight).min() > 1e-3


@pytest.mark.parametrize(
    ("layer", "gain"), [("normalized(layer)", 2.0), ("residual(skip=1/2)", 2.0)]
)
@pytest.mark.usefixtures("few")
def test_errors_are_smaller(layer: str, gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 512)  # controls, which take less memory
    net, n = network(layer, Orthogonal(1.5)), 96
    found = innovated(net, PAIR, n, 4)
    table = found.table([found.part(0)])
    plain = simulate(net, PAIR, n, 4, 2048, tensors=["K", "V"])
    for name, least in (("K", gain), ("V", 1.5)):
        ratio = plain[f"{name}_se"].values[1:] / table[f"{name}_se"].values[1:]
        assert ratio.min() > least


@cache
def with_all(sigma: str) -> float:
    """The error of G1 at n = 512 by that at 64, the worst of layers 2 to 4: as n^{-1/2} it would be
    0.35."""
    errors = []
    for n in (64, 512):
        found = innovated(network("normalized(layer)", Gaussian(1.2), sigma, 0.1), PAIR[0], n, 4)
        errors.append(found.table([found.part(0)])["G1_se"].values[1:].max())
    return errors[1] / errors[0]


@pytest.mark.parametrize(
    ("what", "sigma", "least"),
    [
        ("shifts", "tanh", 0.9),
        ("responses", "gelu", 0.5),
        ("cross", "gelu", 0.5),
        ("own_squares", "gelu", 0.9),
    ],
)
@pytest.mark.usefixtures("few")
def test_without_a_control_it_stays(
    what: str, sigma: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one kind of controls the error of G1 levels off, or does not fall at all."""
    assert with_all(sigma) < 0.42
    if what == "own_squares":
        monkeypatch.setattr(module, what, lambda group: np.zeros((len(group.functions[0]), 0)))
    elif what == "cross":
        monkeypatch.setattr(Noted, what, lambda *_: None)
    else:
        monkeypatch.setattr(bodies, what, lambda *given: given[-1][:, :0])
    assert with_all.__wrapped__(sigma) > least


@pytest.mark.usefixtures("few")
def test_controls_are_of_one_unit_for_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches change nothing: a scale of each batch's own would."""
    found = innovated(network("residual(skip=1/2)"), PAIR, 8, 3)
    whole = found.part(0)
    monkeypatch.setattr(module, "_HELD", 700)
    parted = found.part(0)
    np.testing.assert_allclose(parted.values, whole.values, rtol=1e-6, atol=1e-12)


@pytest.mark.usefixtures("few")
def test_what_controls_explain_exactly_is_known_to_rounding() -> None:
    """Behind an rms norm with Gaussian weights K_11 at layer 2 is an average of a control's."""
    net = network("residual(skip=1, norm=rms)", Gaussian(1.2), "gelu", 0.1)
    found = innovated(net, PAIR, 64, 2)
    table = found.table([found.part(0)])
    value, error = (float(table[name].values[1, 0, 0]) for name in ("G1", "G1_se"))
    assert abs(value) < 5 * error < 1e-9


def test_V_is_unbiased_and_its_error_has_that_of_both_means() -> None:
    """A variance, and a covariance, from 32 draws of means of −2 and 1: z-scores of two numbers, of
    20 000 repetitions. v − k k' without C is wrong by 3 %, δv alone 3 times too large."""
    rng, draws, repeats = np.random.default_rng(4), 32, 20_000
    spread = np.array([[1.0, 0.0], [0.6, 0.8]])
    x = rng.standard_normal((repeats, draws, 2)) @ spread.T + [-2.0, 1.0]
    columns = np.concatenate([x, x[..., :1] ** 2, x[..., :1] * x[..., 1:]], axis=2)
    values = columns.mean(axis=1)
    centred = columns - values[:, None]
    covariances = centred.swapaxes(1, 2) @ centred / (draws * (draws - 1))
    places = Places(((0, 0), (0, 1)), (0, 1), ((2, 0, 0), (3, 0, 1)), ())
    found, errors = lowered(places, values, covariances)
    z = (found.mean(axis=0) - [1.0, 0.6]) / (found.std(axis=0) / np.sqrt(repeats))
    assert np.abs(z).max() < 5
    ratio = np.sqrt((errors**2).mean(axis=0)) / found.std(axis=0)
    assert ratio == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(
    ("given", "inputs", "width", "message"),
    [
        ({}, [PAIR[0], 2 * PAIR[0]], 8, "^inputs: .* linearly independent"),
        ({}, [PAIR[0], 0 * PAIR[0]], 8, "^inputs: .* linearly independent"),
        ({}, PAIR, 1, "^width: got '1, where vectors of a network are linearly dependent"),
        ({"weights": Gaussian(0)}, PAIR, 8, r"^weights: got 'Gaussian\(C_W=0\)'; wanted C_W above"),
        ({"layer": "skip(1/2)"}, PAIR, 8, "^layer: got 'skip.* z is carried past"),
        (
            {"layer": "gated(C=(1, 0, 1))"},
            PAIR,
            8,
            r"^layer: got 'gated\(C=.* matrices of C above 0",
        ),
        (
            {"layer": "convolution(3, 3, boundary=zero)"},
            SIGNALS,
            8,
            r"^layer: got 'convolution\(3.* matrices that meet no zeros",
        ),
        (
            {"layer": "normalized(rms)", "weights": LowRankGaussian(gamma="1/2")},
            PAIR,
            8,
            "^weights: .* orthogonal",
        ),
    ],
)
def test_what_is_refused(given, inputs, width: int, message: str) -> None:
    """Other weights, and what innovations cannot tell apart, by the argument that makes it so."""
    with pytest.raises(InputError, match=message):
        innovated(network(**{"layer": "residual(skip=1/2)"} | given), inputs, width, 3)
