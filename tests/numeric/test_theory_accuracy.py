"""What spectra and propagation say of their own errors, against 40 digits proved in balls."""

from __future__ import annotations

from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest
from resolvent import generating_function

from derivations import cli
from derivations.nait_saada_tanner import sampling
from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
)
from derive import propagation as maps
from numeric import compare, flow, propagation, spectra
from numeric.tables import as_text, from_text

DIGITS = 40


def pairs(values, errors, exact):
    """(error, estimate, size) of each number, whose truth is known to 40 digits."""
    rows = []
    with localcontext(prec=2 * DIGITS):
        for value, told, truth in zip(
            np.ravel(values), np.ravel(errors), np.ravel(exact), strict=True
        ):
            if np.isfinite(float(truth)):
                off = abs(Decimal(float(value)) - truth)
                off = max(off - abs(truth) * Decimal(10) ** (1 - DIGITS), Decimal(0))
                rows.append((float(off), float(told), abs(float(truth))))
    return rows


def covered(rows):
    """Every error is below ten estimates."""
    worst = max((off / told if told else (np.inf if off else 0.0)) for off, told, _ in rows)
    assert worst <= 10, worst


def hold(rows):
    """That, and nine in ten estimates are below 1000 errors, or below a float's rounding, where the
    number happens to be a float."""
    covered(rows)
    close = [
        told <= 1000 * off or told <= 2**-53 * size or told < 1e-300 for off, told, size in rows
    ]
    assert np.mean(close) >= 0.9, np.mean(close)


SIGMAS = (
    "linear", "relu", "tanh", "hard_tanh", "erf_unit_slope", "gelu", "leaky_relu(1/10)", "arctan",
)  # fmt: skip


def random_kernel(rng, sigma):
    """Two lengths from 10⁻⁸ to 10⁸ at any correlation; of analytic σ, whose sums over two latent
    variables take minutes where z is broad, equal ones at ±1 from 1/10 on."""
    q = 10.0 ** rng.uniform(-8, 8)
    analytic = sigma in {"tanh", "erf_unit_slope", "gelu", "arctan"}
    if analytic and q > 0.1:
        return q, float(rng.choice([q, -q])), q
    other = q if analytic or rng.random() < 0.5 else q * 10.0 ** rng.uniform(-2, 1)
    c = rng.choice([rng.uniform(-1, 1), 0.0, 1 - 10.0 ** rng.uniform(-12, -1)])
    c = -c if rng.random() < 0.3 else c
    return q, float(c * np.sqrt(q * other)), other


def propagated(count, seed):
    """Numbers of networks drawn at random, with estimates and truths."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        sigma = str(rng.choice(SIGMAS))
        kernel = random_kernel(rng, sigma)
        net = Network(sigma, Gaussian(rng.uniform(0.5, 3)), C_b=rng.choice([0.0, rng.random()]))
        depth = 2
        exact = propagation.kernels(net, kernel, depth, precision=DIGITS)
        truth = exact["K"].to_numpy()
        found = maps.kernels(net, kernel, depth)
        for layer, row in enumerate(found):
            own = [each.error for each in row]
            rows += pairs(row, own, [truth[layer][at] for at in ((0, 0), (0, 1), (1, 1))])
        floats = propagation.kernels(net, kernel, depth)
        for name in ("K", "chi", "chi_parallel", "slope"):
            rows += pairs(floats[name], floats[f"{name}_error"], exact[name])
        for function, name in ((maps.chi, "chi"), (maps.chi_parallel, "chi_parallel")):
            value = function(net, kernel[0])
            rows += pairs(value, value.error, exact[name].to_numpy()[0])
    return rows


def test_kernels_know_their_errors() -> None:
    hold(propagated(3, seed=1))


@pytest.mark.slow
def test_kernels_of_many_networks_know_their_errors() -> None:
    hold(propagated(7, seed=2))


@pytest.mark.parametrize(
    ("sigma", "C_W", "C_b"),
    [
        ("relu", 1, "1/10"),
        ("tanh", "3/2", "1/10"),
        ("tanh", 3, 0),
        ("hard_tanh", "3/2", "1/10"),
        ("tanh", 1 + 1e-6, 0),
        ("relu", 2 - 1e-9, 1),
        ("relu", 1, 1e8),
        ("relu", 1, 1e-8),
    ],
)
def test_fixed_points_know_their_errors(sigma: str, C_W: object, C_b: object) -> None:
    net = Network(sigma, Gaussian(C_W), C_b=C_b)
    floats = propagation.fixed_points(net)
    exact = propagation.fixed_points(net, precision=DIGITS)
    rows = []
    for name in maps.FixedPointErrors._fields:
        rows += pairs(floats[name], floats[f"{name}_error"], exact[name])
        assert (
            (exact[f"{name}_error"] <= abs(exact[name].astype(float)) * 1e-39)
            .where(np.isfinite(exact[name].astype(float)), True)
            .all()
        )
    assert rows
    covered(rows)


def ensembles(rng):
    """A Jacobian's law at random."""
    weights = rng.choice(
        np.array(
            [
                Orthogonal(),
                Gaussian(),
                LowRankOrthogonal(gamma="1/2"),
                LowRankGaussian(gamma="3/4"),
                Truncated(ratio=2),
            ],
            object,
        )
    )
    sigma = str(
        rng.choice(["linear", "relu", "hard_tanh", "leaky_relu(1/10)", "tanh", "erf_unit_slope"])
    )
    return spectra.jacobian(sigma, weights, int(rng.integers(2, 9)), rng.uniform(0.05, 2))


def spectral(count, seed):
    """Densities, edges, atoms and moments of laws drawn at random."""
    rng = np.random.default_rng(seed)
    rows = []
    while count:
        s = ensembles(rng)
        ends = [edge for bulk in s.intervals for edge in (bulk.lower, bulk.upper)]
        if not ends or any(edge and np.isinf(edge.w) for edge in ends):  # atoms alone, or poles
            continue
        count -= 1
        places = rng.choice([1e-5, 0.03, 0.2, 0.5, 0.9, 1 - 1e-4, 1 - 1e-8], 2)
        lam = [low + (high - low) * at for low, high in s.edges for at in places]
        floats, exact = s.table(lam), s.table(lam, precision=DIGITS)
        for name in ("density", "edges", "atoms", "masses", "moments"):
            if name in exact:
                rows += pairs(floats[name], floats[f"{name}_error"], exact[name])
    return rows


def test_spectra_know_their_errors() -> None:
    hold(spectral(5, seed=3))


@pytest.mark.slow
def test_spectra_of_many_laws_know_their_errors() -> None:
    hold(spectral(4, seed=4))


@pytest.mark.parametrize("kind", ["bernoulli", "smooth"])
def test_limits_know_their_errors(kind: str) -> None:
    s = spectra.limit(kind, "1/2")
    lam = [s.edges[0][0] + (s.edges[0][1] - s.edges[0][0]) * at for at in (0.1, 0.5, 1 - 1e-9)]
    floats, exact = s.table(lam), s.table(lam, precision=DIGITS)
    covered(
        [
            row
            for name in ("density", "edges", "moments")
            for row in pairs(floats[name], floats[f"{name}_error"], exact[name])
        ]
    )


def test_digits_of_marchenko_and_pastur() -> None:
    s = spectra.jacobian("linear", Gaussian(), depth=1)
    table = s.table([0.5, 3.9, 5.0], order=3, precision=60)
    with mpmath.workdps(70):
        for at, value, error in zip(
            (0.5, 3.9), table["density"].to_numpy(), table["density_error"].to_numpy(), strict=False
        ):
            lam = mpmath.mpf(at)
            exact = mpmath.sqrt((4 - lam) / lam) / (2 * mpmath.pi)
            off = abs(mpmath.mpf(str(value)) - exact)
            assert off <= error * (1 + 1e-9) <= 1e-58
    assert [str(each) for each in table["density"].to_numpy()[2:]] == ["0"]
    assert [float(each) for each in table["edges"].to_numpy()[0]] == [0, 4]
    assert [float(each) for each in table["moments"].to_numpy()] == [1, 2, 5]
    assert from_text(as_text(table)).identical(table)


def test_digits_meet_the_resolvents_own_road() -> None:
    """M of tanh's Jacobian off the real line by mpmath, and the density that comes of it."""
    s = spectra.jacobian("tanh", Orthogonal(), 3, "1/2")
    values, error = s.generating_function([1 + 1j]), s.generating_function_error([1 + 1j])
    exact = generating_function(s.law, 1 + 1j, 16)
    assert abs(mpmath.mpc(values[0]) - exact) <= 10 * error[0] <= 1e-11


@pytest.mark.parametrize(
    ("sigmas", "layer"), [("tanh", "dense"), ("tanh; sin*", "dense; dense(activations=relu)*")]
)
def test_kernels_are_those_of_flow(sigmas, layer) -> None:
    net = Network(sigmas, Gaussian("3/2"), C_b="1/10", layer=layer)
    x = [[1.0, 0.5], [0.25, -1.0]]
    flowed = flow(net, x, 3, "K", precision=30)
    start = flowed["K"].to_numpy()[0]
    table = propagation.kernels(net, (start[0, 0], start[0, 1], start[1, 1]), 3, precision=30)
    for value, other in zip(flowed["K"].to_numpy().flat, table["K"].to_numpy().flat, strict=True):
        assert abs(float(value - other)) <= 1e-27  # the start was rounded to 30 digits


def test_chi_meets_quadrature() -> None:
    net, q = Network("tanh", Gaussian(2)), 3
    table = propagation.kernels(net, (q, 0, q), 1, precision=30)
    with mpmath.workdps(40):
        exact = 2 * mpmath.quad(
            lambda z: mpmath.sech(z) ** 4 * mpmath.npdf(z, 0, mpmath.sqrt(q)),
            mpmath.linspace(-30, 30, 61),
        )
        value = mpmath.mpf(str(table["chi"].to_numpy()[0]))
        assert abs(value - exact) <= mpmath.mpf(10) ** -29


def test_theory_is_compared_with_its_errors() -> None:
    net = Network("relu", Gaussian(2), C_b="1/10")
    x = np.array([[1.0, 0.5], [0.25, -1.0]])
    start = x @ x.T / 2 * 2 + 0.1
    sampled = sampling.simulate(net, x, width=80, depth=2, draws=60)
    theory = propagation.kernels(net, (start[0, 0], start[0, 1], start[1, 1]), 2)
    scores = compare(theory, sampled, degree=0)
    assert {row.tensor for row in scores.rows} == {"K"}
    assert abs(scores.worst.z) < 8  # a width of 80 has corrections in 1/n


def test_errors_are_large_beside_an_edge_and_infinite_nowhere() -> None:
    s = spectra.jacobian("hard_tanh", Orthogonal(), 16, "1/10")
    high = s.edges[0][1]
    lam = high * (1 - np.array([1e-2, 1e-6, 1e-10]))
    relative = s.density_error(lam) / s.density(lam)
    assert (np.diff(relative) > 0).all()
    assert np.isfinite(relative).all()
    assert s.singular_density_error(np.sqrt(lam)) == pytest.approx(
        2 * np.sqrt(lam) * s.density_error(lam)
    )
    exact = np.concatenate([[1.0], s.moments(2)])
    off = np.abs(s.integrated_moments(2) - exact)
    assert (off <= s.integrated_moments_error(2)).all()


def test_a_cumulative_knows_its_error() -> None:
    s = spectra.jacobian("linear", Gaussian(), depth=1)
    lam = np.array([0.1, 1.0, 3.0])
    with mpmath.workdps(20):
        exact = [
            float(mpmath.quad(lambda t: mpmath.sqrt((4 - t) / t) / (2 * mpmath.pi), [0, at]))
            for at in lam
        ]
    off = np.abs(s.cumulative(lam) - exact)
    assert (off <= 10 * s.cumulative_error(lam)).all()
    assert (s.cumulative_error(lam) < 1e-9).all()


@pytest.mark.parametrize(
    ("activation", "depth"), [("silu", 16), ("tanh", 4), ("erf_unit_slope", 16)]
)
def test_a_cumulative_ends_at_one(activation: str, depth: int) -> None:
    s = spectra.jacobian(activation, Orthogonal(), depth, "1/2")
    beyond = s.edges[-1][1] * 2.0
    assert abs(s.cumulative([beyond])[0] - 1.0) <= s.cumulative_error([beyond])[0] < 1e-5
    below = s.cumulative(np.geomspace(1e-6, beyond, 50))
    assert (np.diff(below) >= -1e-9).all()


def test_fixed_lengths_far_out_and_lines_of_them() -> None:
    (far,) = maps.fixed_points(Network("relu", Gaussian(1), C_b=1e9))
    assert (far.q, far.chi) == (2e9, 0.5)
    near = maps.fixed_points(Network("relu", Gaussian(1), C_b=1e-14))
    assert [point.q for point in near] == [pytest.approx(2e-14, rel=1e-15)]
    (saturated,) = maps.fixed_points(Network("tanh", Gaussian(1e8), C_b=1e-8))[-1:]
    assert saturated.q == pytest.approx(1e8, rel=1e-3)
    (line,) = maps.fixed_points(Network("relu", Gaussian(2)))
    assert line.is_line
    assert (line.chi, line.chi_parallel) == (1, 1)
    (linear,) = maps.fixed_points(Network("linear", Gaussian(1)))
    assert linear.is_line
    assert "every q" in str(linear)
    with pytest.raises(InputError, match="isolated"):
        propagation.fixed_points(Network("relu", Gaussian(2)), precision=30)


def test_what_has_no_enclosure_is_refused() -> None:
    growing = Network(activations.from_expr("exp(z/4)*tanh(z)"))
    with pytest.raises(InputError, match="precision"):
        propagation.kernels(growing, (1, 0, 1), 2, precision=30)
    with pytest.raises(InputError, match="pole"):
        spectra.jacobian("erf_unit_slope", Orthogonal(), 1, "1/2").table(precision=30)
    with pytest.raises(InputError, match="precision"):
        spectra.jacobian("linear", Gaussian(), 1).table(precision=5)


def test_commands_print_digits(capsys) -> None:
    words = ["spectrum", "--activation", "linear", "--weights", "gaussian", "--depth", "1"]
    assert cli.main([*words, "--precision", "30", "--moments", "2"]) == 0
    assert "JJ' 4.00000000000000000000000000000 +- " in capsys.readouterr().out
    words = ["propagation", "--activation", "relu", "--C_b", "1/10", "--depth", "2"]
    assert cli.main([*words, "--precision", "20"]) == 0
    printed = capsys.readouterr().out
    assert "q = 0.20000000000000000000 +- " in printed
    assert "layer 2 q_12 = 0.25915494309189533577 +- " in printed
