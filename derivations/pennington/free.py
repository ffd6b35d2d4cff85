# %% [markdown]
# # Free probability
#
# A law of eigenvalues is known by its moments, and so by the transforms $G$, $M$ and $S$. For free
# matrices $S$-transforms multiply. Freeness is often taken for granted; here the products are
# averaged over Haar matrices and over networks, exactly, and what comes out is compared with what
# the $S$-transforms say.

# %%
"""Transforms, free products and the master equation (source 002, eqs. 7–16, S2–S12)."""

from __future__ import annotations

import mpmath
import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.pennington.propagation import GRAM, explicit
from derive import (
    Gaussian,
    LowRankGaussian,
    Orthogonal,
    WeightEnsemble,
    activations,
    spectra,
    symbols,
    trace_moment,
    trace_series,
)
from derive.arithmetic import powerseries
from derive.gaussian.brackets import Average
from derive.recursions import Recursion, recursion
from derive.spectra import moments
from derive.spectra.laws import w, z
from derive.symbols import C_W
from numeric import spectra as compiled

n = symbols.n

# %% [markdown]
# ## The transforms of one law


# %%
@claim("002", "7, 9, 11, S2, S4, S6", "Stieltjes, moments and S, from atoms")
def definitions() -> Verdict:
    r"""$G$, $M$ and $S$ of $p\,\delta_1 + (1 - p)\,\delta_0$, each from its definition; the series
    of $M$ has the moments of the law, and $M(M^{-1}(w)) = w$."""
    p = sympy.Symbol("p", positive=True)
    law = spectra.Atomic({1: p, 0: 1 - p})
    G = p / (z - 1) + (1 - p) / z
    inverse = law.M_inverse(w)
    expansion = sympy.series(law.M(1 / w), w, 0, 5).removeO()
    return equal(
        [law.G(z), law.M(z), law.M(inverse), law.S(w), expansion],
        [
            G,
            z * G - 1,
            w,
            (1 + w) / (w * inverse),
            sum(law.moment(k) * w**k for k in range(1, 5)),
        ],
    )


@claim("002", "8, S3", "a density from its Stieltjes transform")
def inversion() -> Verdict:
    r"""$\rho(\lambda) = -\frac1\pi \lim_{\epsilon\to0} \mathrm{Im}\,G(\lambda + i\epsilon)$. An
    atom of mass $p$ at $a$ becomes a Lorentzian that keeps $p$ within any $\delta$ of $a$. For
    $JJ^T$ of four orthogonal layers of a leaky ReLU, $-\mathrm{Im}\,G/\pi$ just above the real axis
    integrates to 1 and to the moments $m_1$, $m_2$, $m_3$ that the series of $G$ at infinity
    has."""
    p, a, delta, epsilon = sympy.symbols("p a delta epsilon", positive=True)
    x = sympy.Symbol("x", real=True)
    G = p * spectra.Atomic({a: 1}).G(z)
    height = -sympy.im(G.subs(z, a + x + sympy.I * epsilon)) / sympy.pi
    kept = sympy.integrate(sympy.simplify(height.expand(complex=True)), (x, -delta, delta))
    law = spectra.jacobian(activations.by_name("leaky_relu(1/2)"), Orthogonal(), 4)
    spectrum = compiled.Spectrum(law)
    ((low, high),) = spectrum.edges
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angle = np.pi * (1 + nodes) / 2
    heights = (np.log(low * high) - np.log(high / low) * np.cos(angle)) / 2
    measure = weights * np.pi * np.log(high / low) / 4 * np.sin(angle)
    mass = measure * spectrum.log_density(heights)
    found = [float(mass @ np.exp(k * heights)) for k in range(4)]
    return both(
        close(found, [1, *(law.moment(k) for k in (1, 2, 3))], 9, "moments of the density"),
        equal(sympy.limit(kept, epsilon, 0), p, "an atom"),
    )


@claim("002", "10, S5", "moments are averaged traces")
def averaged_traces() -> Verdict:
    r"""$m_k = \int \lambda^k\rho = \frac1N\langle\mathrm{tr} X^k\rangle$ for $X = W^TW$, $W$
    Gaussian: the traces averaged by Wick's theorem at finite $N$, whose limits are the moments of
    the density $\sqrt{(4 - \lambda)/\lambda}/2\pi$, integrated with $\lambda = 4\sin^2 t$."""
    W = sympy.MatrixSymbol("W", n, n)
    t = sympy.Symbol("t", positive=True)
    lam = 4 * sympy.sin(t) ** 2
    measure = sympy.cot(t) / (2 * sympy.pi) * lam.diff(t)
    traces, integrals = [], []
    for k in range(1, 5):
        trace = trace_moment((W.T * W) ** k, W, "Ginibre") / n ** (k + 1)
        traces.append(trace_series(trace, n, 0))
        integrand = sympy.trigsimp(lam**k * measure)
        integrals.append(sympy.integrate(integrand, (t, 0, sympy.pi / 2)))
    law = spectra.weight_law(Gaussian())
    return equal([*traces, *traces], [*integrals, *(law.moment(k) for k in range(1, 5))])


# %% [markdown]
# ## Free products


# %%
@claim("002", "12, S7", "S-transforms of free matrices multiply")
def free_product() -> Verdict:
    r"""$S_{AB} = S_A S_B$: the first three moments of $A\,OBO^T$, with $O$ a Haar matrix and $A$,
    $B$ any, averaged with Weingarten functions to leading order in $1/n$, against Lagrange's
    inversion of the product of the two series."""
    Haar, A, B = (sympy.MatrixSymbol(name, n, n) for name in "OAB")
    a, b = sympy.symbols("a_1:4", positive=True), sympy.symbols("b_1:4", positive=True)
    limits = {
        sympy.Symbol(f"τ({name if k == 1 else f'{name}**{k}'})"): value
        for name, values in (("A", a), ("B", b))
        for k, value in enumerate(values, start=1)
    }
    averaged = [
        trace_series(trace_moment((Haar * A * Haar.T * B) ** k, Haar) / n, n, 0).subs(limits)
        for k in range(1, 4)
    ]
    product = spectra.Moments(a) * spectra.Moments(b)
    return equal(averaged, [sympy.expand(product.moment(k)) for k in range(1, 4)])


@claim("002", "S8", "traces of powers are cyclic")
def cyclic_traces() -> Verdict:
    r"""$\mathrm{tr}(A^1A^2A^3)^k = \mathrm{tr}(A^2A^3A^1)^k$ for three 2 × 2 matrices of symbols
    and $k = 1, 2$."""
    A, B, C = (sympy.Matrix(2, 2, sympy.symbols(f"{name}_1:5")) for name in "abc")
    first, turned = A * B * C, B * C * A
    return equal(
        [(first**k).trace() for k in (1, 2)], [sympy.expand((turned**k).trace()) for k in (1, 2)]
    )


@claim("002", "S9", "a D that is missing in the cyclic permutation")
def cyclic_jacobian() -> Verdict:
    r"""$\tilde Q^L = [(D^LW^L)^TD^LW^L]\,Q^{L-1}$ has the traces of powers of $Q^L = JJ^T$, but the
    first line of (S9) prints $Q^{L-1}$ without its $D^{L-1}$. Three layers of 2 × 2 matrices."""
    network = explicit((2, 2, 2, 2))
    outer = network.slopes[2] * network.weights[2]
    inner = network.product(2)
    Q = network.product(3) * network.product(3).T
    turned = outer.T * outer * (inner * inner.T)
    without = network.weights[1] * network.product(1)
    printed = outer.T * outer * (without * without.T)
    holds = equal([(turned**k).trace() for k in (1, 2)], [(Q**k).trace() for k in (1, 2)])
    wrong = misprint(turned.trace(), printed.trace(), "tr Q̃³ with and without D²; rational weights")
    return wrong if holds.holds else holds


@claim("002", "13, S10", "the S-transform of JJᵀ, with freeness not assumed")
def jacobian_product() -> Verdict:
    r"""$S_{JJ^T} = \prod_l S_{(D^l)^2} S_{(W^l)^TW^l}$. That $D^l$ is free from the very $W^l$ it
    depends on is not obvious. Here the engine averages over networks instead: with $J_{ik}$ the
    Gram matrix of the Jacobian of the preactivations, and $\kappa_r$ the coefficient of the cyclic
    pairing in the joint cumulant of $r$ of them,

    $$m_1 = \kappa_1, \qquad m_2 = \kappa_1^2 + \kappa_2, \qquad
    m_3 = \kappa_1^3 + 3\kappa_1\kappa_2 + \kappa_3,$$

    and the recursions of $\kappa_r$, for any $\phi$, take the moments of the free product with $L$
    factors $W^TW$ and $L - 1$ factors $D^2$ into those with one more of each."""
    mu_2, mu_3 = (symbols.slope_moment(order) for order in (2, 3))
    gamma = sympy.Symbol("gamma", positive=True)
    # The scale is (5)'s: C_W = μ_1 = 1 here.
    slopes = {
        Average(((1, 1),) * (2 * k)): value for k, value in enumerate((1, mu_2, mu_3), start=1)
    } | {C_W: 1}
    D = spectra.Moments((1, mu_2, mu_3))
    derived, printed = [], []
    for weights in (Gaussian(), Orthogonal(), LowRankGaussian(gamma=gamma)):
        law = spectra.weight_law(weights)
        below, above = (
            _cyclic(D ** (layers - 1) * law**layers) for layers in (symbols.L, symbols.L + 1)
        )
        steps = [_cumulant(order, weights) for order in (1, 2, 3)]
        values = {
            symbols.tensor(step.name): value for step, value in zip(steps, below, strict=True)
        }
        derived += [_cumulant(k, weights, first_layer=True).expr.subs(C_W, 1) for k in (1, 2, 3)]
        derived += [sympy.expand(step.expr.subs(slopes).subs(values)) for step in steps]
        printed += _cyclic(law) + [sympy.expand(value) for value in above]
    return equal(derived, printed, "three ensembles, symbolic in L, μ_2, μ_3 and γ")


def _cumulant(order: int, weights: WeightEnsemble, first_layer: bool = False) -> Recursion:
    """κ_r of Gram matrices whose indices a ring of pairs identifies."""
    pairing = tuple((2 * k + 1, (2 * k + 2) % (2 * order)) for k in range(order))
    gram = recursion([GRAM] * order, weights, pairing=pairing, first_layer=first_layer)
    return gram.single_input()


def _cyclic(law: spectra.Law) -> list[sympy.Expr]:
    """κ_1, κ_2, κ_3 from the moments."""
    m_1, m_2, m_3 = (law.moment(k) for k in (1, 2, 3))
    pair = m_2 - m_1**2
    return [m_1, pair, m_3 - m_1**3 - 3 * m_1 * pair]


# %% [markdown]
# ## The master equation


# %%
@claim("002", "14, 16, S11", "master equation for any depth")
def master_equation() -> Verdict:
    r"""$M_{JJ^T}(z) = M_{D^2}\big(z^{1/L} F(M_{JJ^T}(z))\big)$ with $F(x) = S_{W^TW}(x)\,((1 +
    x)/x)^{1 - 1/L}$: both sides as series in $1/z$ through $z^{-6}$, with the moments of $JJ^T$
    that Lagrange's inversion of (13) gives, for $L = 2$, 3 and 7 at rational $\mu_k$, $s_k$ and
    $\sigma_w^2$; and for every $L$ by the algebra of the supplement's §3."""
    order = 6
    C = sympy.Rational(6, 5)
    mu = [sympy.Rational(k + 2, k + 4) for k in range(1, order + 1)]
    s = [sympy.Rational(-1, k + 2) for k in range(1, order)]
    left, right = [], []
    for layers in (2, 3, 7):
        m = moments.jacobian_moments(order, depth=layers, weight_variance=C, slopes=mu, weights=s)
        M = [sympy.S.Zero, *m]
        powers = [[sympy.S.One] + [sympy.S.Zero] * order]
        for _ in range(order):
            powers.append(powerseries.multiply(powers[-1], M))
        S = [sum(a * p[k] for a, p in zip([1, *s], powers, strict=False)) for k in range(order + 1)]
        one_plus = [1 + M[0], *M[1:]]
        part = sympy.Rational(1, layers)
        # 1/x = z^{−1/L}/F(M), with M = m_1/z (1 + …) and m_1 = χ^L.
        inverse = powerseries.multiply(
            powerseries.power([each / m[0] for each in m], 1 - part),
            powerseries.multiply(powerseries.power(S, -1), powerseries.power(one_plus, part - 1))[
                :order
            ],
        )
        y = [sympy.S.Zero, *(C * (C * mu[0]) ** (layers - 1) * each for each in inverse)]
        total, power = [sympy.S.Zero] * (order + 1), [sympy.S.One] + [sympy.S.Zero] * order
        for value in mu:
            power = powerseries.multiply(power, y)
            total = [a + value * b for a, b in zip(total, power, strict=True)]
        left += M[1:]
        right += total[1:]
    return both(_for_every_depth(), equal(left, right, "z^-1 … z^-6"))


def _for_every_depth() -> Verdict:
    """M_D²⁻¹(M) = z^{1/L} F(M) for every L, M and S_W: from (13), S_JJ = S_D²^L S_W^L, and
    M⁻¹ = (1 + M)/(M S) of JJᵀ, whose M⁻¹ is z, and of D²."""
    M, x, S_W, L = sympy.symbols("M z S_W L", positive=True)
    S_JJ = (1 + M) / (M * x)
    S_D = S_JJ ** (1 / L) / S_W
    F = S_W * ((1 + M) / M) ** (1 - 1 / L)
    ratio = sympy.expand_log(sympy.log((1 + M) / (M * S_D) / (x ** (1 / L) * F)), force=True)
    return equal(sympy.expand(ratio), 0, "for every L, from (13)")


@claim("002", "15, S12", "the master equation for G")
def resolvent_equation() -> Verdict:
    r"""$zG - 1 = M_{D^2}\big(z^{1/L} F(zG - 1)\big)$ is (14) for $M = zG - 1$, which holds
    eigenvalue by eigenvalue. And at a point of the upper half plane, for three layers of hard tanh
    with orthogonal weights and of a leaky ReLU with Gaussian ones; $G$ is followed down from
    infinity, where it is $1/z$."""
    z, lam = sympy.symbols("z lambda")
    same = equal(sympy.together(z / (z - lam) - 1), lam / (z - lam), "zG − 1 = M, for any law")
    depth, variance = 3, sympy.Rational(1, 2)
    derived, printed = [], []
    with mpmath.workdps(30):
        for activation, kind, point in (
            (activations.hard_tanh, Orthogonal, mpmath.mpc(3, 2)),
            (activations.by_name("leaky_relu(1/2)"), Gaussian, mpmath.mpc(0.5, 1)),
        ):
            slopes = spectra.slope_law(activation, variance)
            weights = spectra.weight_law(kind(1 / slopes.mean))
            law = spectra.jacobian(activation, kind(), depth, variance)
            (known,) = compiled.Spectrum(law).generating_function([complex(point)])
            M = mpmath.mpc(known)
            S = mpmath.mpmathify(sympy.N(weights.S(w).subs(w, sympy.sympify(M)), 30))
            F = S * ((1 + M) / M) ** (1 - mpmath.mpf(1) / depth)
            right = slopes.M_at(mpmath.root(point, depth) * F)
            derived += [M.real, M.imag]
            printed += [right.real, right.imag]
    return both(same, close(derived, printed, 14, "at two points"))
