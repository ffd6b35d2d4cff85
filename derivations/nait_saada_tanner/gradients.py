# %% [markdown]
# # Gradients
#
# Going back, $\delta_\ell = \phi'(h_\ell)\circ W^T\delta_{\ell+1}$. If the weights on the way back
# were drawn anew, $\tilde q_\ell = \tilde q_{\ell+1}(N_{\ell+1}/N_\ell)\chi_{\ell+1}$. They are
# not, and whether it matters depends on the loss.

# %%
"""Gradients going back (source 001, §2.2, A.8, Figure 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy
import xarray
from matplotlib.figure import Figure

from derivations.claims import Sampling, Verdict, both, claim, close, equal, misprint, sampled
from derivations.nait_saada_tanner.backward import CrossEntropy, backward, squares
from derivations.nait_saada_tanner.depth import GAMMA, rescaled
from derivations.nait_saada_tanner.maps import IN_SOURCE, alpha, gamma, n
from derivations.pennington.propagation import gradient_growth
from derivations.pictures.panels import one_panel
from derivations.training.data import digits
from derive import (
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    activations,
    haar_moment,
    propagation,
)
from derive.gaussian.brackets import Average
from derive.gaussian.oracle import gaussian_average
from numeric import compare
from numeric.arrays import Array
from numeric.tables import layout
from numeric.tables.drawing import beside

if TYPE_CHECKING:
    from derivations.nait_saada_tanner.backward import Loss

WIDENING = Network(
    activations.tanh,
    LowRankGaussian(2, gamma=GAMMA),
    C_b=sympy.Rational(1, 20),
    width_ratio=lambda layer: layer,
)
"""Widths n, 2n, 3n, …"""


# %% [markdown]
# ## The recursion


# %%
@claim("001", "§2.2", "gradients by layer")
def gradient_recursion() -> Verdict:
    r"""$\tilde q^l = \tilde q^{l+1}(N_{l+1}/N_l)\chi_{l+1}$. For $\delta$ at layer $l + 1$
    independent of the weights, $\sum_j\delta_j^2$ over $N_l$ neurons is $\sum_i\delta_i^2$ times
    the mean of $\sum_j(\partial h_i/\partial h_j)^2$, which the engine's recursion of the
    Jacobian's Gram matrix moves by $\gamma\sigma_\alpha^2\langle\phi'^2\rangle$, at equal widths
    and at unequal ones."""
    chi = gamma * alpha * Average(((1, 1), (1, 1)))
    weights = LowRankGaussian(gamma=gamma)
    factors = [
        gradient_growth(weights, equal_widths=square).subs(IN_SOURCE) for square in (True, False)
    ]
    lengths = propagation.lengths(WIDENING, 0.5, 4)
    chis = [propagation.chi(WIDENING, q) for q in lengths[:-1]]
    widths = range(1, 5)
    printed = [math.prod(chis[layer - 1 :]) * 4 / layer for layer in widths]
    return both(
        equal(factors, [chi, chi]),
        close(propagation.gradients(WIDENING, lengths), printed, 13, "widths n, 2n, 3n, 4n"),
    )


@claim("001", "§2.2 (α)", "gradient of the coefficients")
def coefficient_gradient() -> Verdict:
    r"""$\partial E/\partial\alpha_{ij} = \big(\sum_m\delta_m(C_i)_m\big)\phi(h_j)$, $m$ over all
    $N_l$ entries of the column $C_i$, as A.8 has it; §2.2 prints the sum to $r_l$. The mean square
    of the sum for $\delta$ independent of $C$ is $|\delta|^2/N$, and would be $(r/N)|\delta|^2/N$
    if it ended at $r$."""
    square = haar_moment([1, 1], [1, 1], n)
    rank = gamma * n
    return misprint(
        n * square,
        rank * square,
        "E (Σ_m δ_m C_mi)² = q̃ Σ_m E C_mi² = q̃, which A.8 finds too, only for a sum to N_ℓ",
    )


@claim("001", "§2.2 (W)", "gradients of preactivations and weights")
def chain_rule() -> Verdict:
    r"""$\delta_i^l=(\sum_k\delta_k^{l+1}W_{ki}^{l+1})\phi'(h_i^l)$ and
    $\partial E/\partial W_{ij}^l=\delta_i^l\phi(h_j^{l-1})$, by differentiating any function of
    two last preactivations of two layers with symbols for everything; and
    $\partial E/\partial\alpha_{ij}$ from it by $W=C\alpha$."""
    h, W, top = (
        sympy.Matrix(2, width, sympy.symbols(f"{name}_1:{2 * width + 1}"))
        for name, width in (("h", 1), ("w", 2), ("v", 2))
    )
    phi, E = sympy.Function("phi"), sympy.Function("E")
    z = sympy.Symbol("z")
    middle = W * h.applyfunc(phi)
    last = top * middle.applyfunc(phi)
    places = sympy.symbols("y_1:3")
    error = E(*places)
    deltas = [error.diff(place).subs(dict(zip(places, last, strict=True))) for place in places]
    back = [
        sum(deltas[k] * top[k, i] for k in range(2)) * phi(z).diff(z).subs(z, middle[i])
        for i in range(2)
    ]
    whole = E(*last)
    derived = [whole.diff(W[i, j]).doit() for i in range(2) for j in range(2)]
    printed = [(back[i] * phi(h[j])).doit() for i in range(2) for j in range(2)]
    values = {E: lambda a, b: a**2 * b + b**3, phi: sympy.sin}
    shown = [[sympy.expand(_with(each, values)) for each in side] for side in (derived, printed)]
    return equal(shown[0], shown[1], "E = a²b + b³, φ = sin, symbols for both layers' weights")


def _with(expression: sympy.Expr, values: Mapping[object, object]) -> sympy.Expr:
    """With functions in place of their names."""
    for name, function in values.items():
        expression = expression.replace(name, function)
    return expression.doit()


@claim("001", "A.8 (cross terms)", "the square of a sum over neurons")
def square_of_a_sum() -> Verdict:
    r"""$(\sum_m\delta_mC_m)^2=\sum_m\delta_m^2C_m^2+\sum_{p\ne m}\delta_mC_m\delta_pC_p$; A.8 has
    $\sum_{p,m}\delta_mC_m$ for the second sum. The result is right: $\mathbb E\,C_mC_p=0$ for
    $p\ne m$, and $\mathbb E\,C_m^2=\frac1N$, by the moments of a frame."""
    delta, C = sympy.symbols("delta_1:3"), sympy.symbols("C_1:3")
    terms = [a * b for a, b in zip(delta, C, strict=True)]
    squares = sum(each**2 for each in terms)
    derived = sympy.expand(sum(terms) ** 2 - squares)
    return misprint(
        derived,
        sum(terms),
        "the cross terms of two neurons",
        provided=both(
            equal(derived, 2 * terms[0] * terms[1], "both orders of m and p"),
            equal([haar_moment([1, 2], [1, 1], n), haar_moment([1, 1], [1, 1], n)], [0, 1 / n]),
        ),
        lost="δ_p C_p and the stroke of p ≠ m may have been lost",
    )


@claim("001", "A.8", "length of the gradient of the coefficients")
def gradient_length() -> Verdict:
    r"""$\|\nabla E\|^2$ is a sum over $r_lN_{l-1}$ coefficients, each with the mean square $\tilde
    q^l\langle\phi^2\rangle$: $\gamma N_lN_{l-1}$ times that, as $|C^T\delta|^2|\phi|^2$ has it. A.8
    prints $N_lN_{l+1}$. (It also has $h$ and $q$ of layer $l - 1$ where $\phi'$ of layer $l$
    stands, which does not matter at $q^*$.)"""
    before, width = sympy.symbols("N_before N", positive=True)
    square = haar_moment([1, 1], [1, 1], n).subs(n, width)
    derived = gamma * width * (width * square) * before
    after = sympy.Symbol("N_after", positive=True)
    return misprint(derived, width * after, "E |Cᵀδ|² = r q̃ and |φ|² = N_{ℓ−1}⟨φ²⟩")


@claim("001", "A.8 (widths)", "the ratio of the widths")
def gradient_widths() -> Verdict:
    r"""§2.2 has $\tilde q^l = \tilde q^{l+1}(N_{l+1}/N_l)\chi_{l+1}$. The last line of A.8 has lost
    the ratio, which its line before still holds in $r_{l+1}/N_l = \gamma_{l+1}N_{l+1}/N_l$. With
    widths $n$, $2n$, tanh at $C_W = 2$."""
    lengths = propagation.lengths(WIDENING, 0.5, 2)
    chi = propagation.chi(WIDENING, lengths[0])
    before, _ = propagation.gradients(WIDENING, lengths)
    holds = close(before, 2 * chi, 13)
    sides = sympy.Float(before, 10), sympy.Float(chi, 10)
    return misprint(*sides, "q̃_1/q̃_2 with N_2 = 2N_1", provided=holds)


@claim("001", "§2.2 (ξ_∇)", "depth scale of gradients")
def gradient_scale() -> Verdict:
    r"""$\tilde q^l = \tilde q^Le^{-(L - l)/\xi_\nabla}$ with $\xi_\nabla = -1/\log\chi_\gamma$ at
    the fixed length; both signs. $\chi$ of the ten layers is here an enclosed average."""
    ratios, printed, engine = [], [], []
    for weight in (1, 2):
        net = rescaled(weight, "0.05")
        point = propagation.depth_scales(net)
        slope = gaussian_average(activations.tanh.derivative() ** 2, point.q, 20).value
        ratios.append((weight * slope) ** 10)
        engine.append(propagation.gradients(net, [point.q] * 11)[0])
        printed.append(math.exp(-10 / point.xi_grad))
    return both(
        close(ratios, printed, 12, "the enclosed χ to the tenth power"),
        close(engine, printed, 13, "and the recursion's ten layers"),
    )


# %% [markdown]
# ## Are the weights going back independent of those going forward?
#
# What matters at large width is the overlap $a = h\cdot\delta/N$. It is of order $1/N$ for a loss
# that reads layer $L$ through a few sums with weights of their own, such as the logits of ten
# classes. For §2.2's sum of squares over all of layer $L$, $\delta_L = h_L - y$, it is of order 1,
# and the recursion of `derive.propagation.backward` replaces the printed one.


# %%
def log_gradients(
    net: Network,
    inputs: Array,
    depth: int,
    loss: Loss,
    sizes: Sequence[tuple[int, int]],
    layers: Sequence[int],
    seed: int,
) -> list[xarray.Dataset]:
    """The mean of log q̃_ℓ/q̃_L over networks at these layers, a table for each of `sizes`, pairs
    of width and number of networks, which take the inputs in turn."""
    return at_layers(log_ratios(net, inputs, depth, loss, sizes, seed), layers)


def log_ratios(
    net: Network,
    inputs: Array,
    depth: int,
    loss: Loss,
    sizes: Sequence[tuple[int, int]],
    seed: int,
) -> list[tuple[Mapping[str, int | str], Array]]:
    """log q̃_ℓ/q̃_L of every network and layer, (draws, depth), with what a table says of them."""
    found: list[tuple[Mapping[str, int | str], Array]] = []
    for width, draws in sizes:
        delta = backward(
            net, inputs, width, depth, draws, loss, biases="direction", seed=seed + width
        ).delta
        about: dict[str, int | str] = {"width": width, "network": str(net), "blocks": draws}
        found.append((about, np.log(delta / delta[:, -1:])))
    return found


def at_layers(
    found: Sequence[tuple[Mapping[str, int | str], Array]], layers: Sequence[int]
) -> list[xarray.Dataset]:
    """The means at these layers, a table for each width."""
    places = [layer - 1 for layer in layers]
    return [
        layout.table(layers, about, log_q=layout.averaged(ratio[:, places]))
        for about, ratio in found
    ]


def slope(curve: Array) -> Array:
    """The least squares' slope of (…, layers), times the layers between the first and the last: by
    how much the straight line through all of them rises."""
    layers = np.arange(curve.shape[-1]) - (curve.shape[-1] - 1) / 2
    return np.asarray(curve @ layers / (layers @ layers) * (len(layers) - 1))


def derived_table(
    net: Network, lengths: Sequence[float], layers: Sequence[int], overlap: float
) -> xarray.Dataset:
    """log q̃_ℓ/q̃_L by the backward recursion; a difference of 1 is a factor e in q̃."""
    back = derived_ratios(net, lengths, overlap)
    return layout.table(layers, log_q=back[[layer - 1 for layer in layers]], log_q_size=1)


def derived_ratios(net: Network, lengths: Sequence[float], overlap: float) -> Array:
    """log q̃_ℓ/q̃_L at every layer."""
    back = propagation.gradients(net, lengths, overlap=overlap, biases="direction")
    return np.asarray(np.log(np.array(back)))


@claim("001", "§2.2 (independence)", "where weights going back count as independent", sampled=True)
def independence(sampling: Sampling) -> Verdict:
    r"""tanh, $\gamma = 1/4$, $C_W = 1.5$, $C_b = 0.2$, six layers; $n = 128$, 256, 512 extrapolated
    in $1/n$. With the cross-entropy of three classes $\log\tilde q^l/\tilde q^6$ is $\sum\log\chi$.
    With a sum of squares over layer 6 it is not, by a factor of 3 to 5 in $\tilde q$, but what the
    recursion with the overlap says."""
    net, depth = rescaled("1.5", "0.2"), 6
    inputs = np.sqrt(2) * np.array([[1.0, 0.0], [0.6, 0.8]])
    lengths = propagation.lengths(net, 1.7, depth)
    layers = list(range(1, depth))
    sizes = ((128, 2048), (256, 1024), (512, 1024))
    comparisons = []
    for loss, overlap in ((CrossEntropy((1, 0), 3), 0), (squares, 1)):
        tables = log_gradients(net, inputs, depth, loss, sizes, layers, sampling.seed)
        theory = derived_table(net, lengths, layers, overlap)
        comparisons.append(compare(theory, tables, sampling.false_alarms / 2, degree=1))
    printed, derived = (
        np.array(propagation.gradients(net, lengths, overlap=overlap, biases="direction"))
        for overlap in (0, 1)
    )
    ratios = ", ".join(f"{value:.2f}" for value in derived[:-1] / printed[:-1])
    return sampled(
        comparisons,
        f"derived over printed q̃ for the sum of squares, layers 1 to 5: {ratios}",
        labels=["cross-entropy", "sum of squares"],
    )


@claim("001", "§2.2 (sum of squares)", "one linear layer back from a sum of squares")
def sum_of_squares() -> Verdict:
    r"""$\delta_L = h_L = Wh$: the mean of $|W^TWh|^2/|Wh|^2$ is $1 + 1/\gamma$ at $\chi = 1$ for $W
    = CA$, from the exact fourth moments of the ensemble, not the 1 that independent weights give;
    $1/\gamma$ for equal singular values."""
    net = {
        kind: Network(activations.linear, kind(1, gamma=GAMMA))
        for kind in (LowRankGaussian, LowRankOrthogonal)
    }
    back = [propagation.gradients(each, [1, 1], overlap=1)[0] for each in net.values()]
    exact = []
    for kind in net:
        weights = kind(gamma=gamma)
        # Σ_{ikj} E W_i1 W_ij W_k1 W_kj, of h = e_1: every pairing of rows with every one of columns
        pairings = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
        rows, columns = (0, 0, 1, 1), (0, 1, 0, 1)  # rows i, i, k, k; columns 1, j, 1, j
        total = sympy.S.Zero
        for p in pairings:
            for q in pairings:
                coset = (1, 1) if p == q else (2,)
                weight = weights.coefficient(coset, n, n)
                total += weight * _tied(rows, p, n) * _tied(columns, q, n, fixed=0)
        exact.append(sympy.limit(sympy.simplify(total), n, sympy.oo).subs(gamma, GAMMA))
    found = both(
        close(back, [1 + 1 / GAMMA, 1 / GAMMA], 13),
        equal(exact, [1 + 1 / GAMMA, 1 / GAMMA], "exact fourth moments, N → ∞"),
    )
    detail = "growth of q̃ through one layer at χ = 1, γ = 1/4; exact fourth moments, N → ∞"
    return misprint(1 + 1 / GAMMA, sympy.S.One, detail, provided=found)


def _tied(
    labels: tuple[int, ...],
    pairing: tuple[tuple[int, int], ...],
    size: sympy.Expr,
    fixed: int | None = None,
) -> sympy.Expr:
    """The number of values that labelled indices may take when a pairing identifies them; one label
    may be `fixed`."""
    group = {label: label for label in labels}
    for a, b in pairing:
        old, new = group[labels[a]], group[labels[b]]
        group = {label: new if at == old else at for label, at in group.items()}
    free = set(group.values()) - ({group[fixed]} if fixed is not None else set())
    return size ** len(free)


# %% [markdown]
# ## Two hundred and fifty layers


# %%
SIZES_OF_TWELVE = ((256, 64), (2048, 64))
"""Widths and networks: log q̃ spreads as 1/√n, so that the limit costs least from two widths that
are far apart."""
PRINTED = ((256, 448), (512, 320), (1024, 224))
"""Those of the figure at full size."""


@claim("001", "Figure 12", "gradients through 250 layers, on digits", sampled=True)
def figure_twelve(sampling: Sampling) -> Verdict:
    r"""tanh, $\gamma = 1/4$, $\gamma\sigma_b^2 = 0.05$, $\gamma\sigma_\alpha^2$ from 1.4 to 2.4,
    the cross-entropy of ten classes on eight of scikit-learn's 8×8 digits, scaled to mean square 1.
    The mean of $\log\tilde q^l/\tilde q^{250}$ at five layers (24 at full size) and its slope by
    regression on all of them, over 249 layers; $n = 256$ and 2048 (at full size 256, 512 and 1024)
    extrapolated in $1/n$, against $\sum\log\chi$. A difference is judged by how far apart the
    curves are, which decay, stay and grow: one that lay a fifth of the way to its neighbour would
    have been noticed. Biases of a direction, as in Figure 7. (The caption's weight variances,
    $0.01/\gamma$ to $0.3/\gamma$, are the bias variances of Figure 11's.)"""
    images = digits().taken(slice(8))
    pixels = images.pixels
    inputs = pixels / np.sqrt(np.mean(pixels**2, axis=1, keepdims=True))
    loss = CrossEntropy(tuple(int(label) for label in images.labels), 10)
    depth, layers = 250, list(range(1, 240, sampling.sizes(50, 10)))
    sizes = [(n, sampling.networks(draws)) for n, draws in sampling.sizes(SIZES_OF_TWELVE, PRINTED)]
    weights = ("1.4", "1.75", "2.4")
    nets = [rescaled(weight, "0.05") for weight in weights]
    curves = np.array(
        [
            derived_ratios(net, propagation.lengths(net, float(weight) + 0.05, depth), 0)
            for net, weight in zip(nets, weights, strict=True)
        ]
    )
    apart, slopes = distances(curves), slope(curves)
    between = distances(slopes[:, None])
    places, share = [layer - 1 for layer in layers], sampling.false_alarms / (2 * len(weights))
    comparisons, labels, drawn = [], [], []
    for at, (net, weight) in enumerate(zip(nets, weights, strict=True)):
        found = log_ratios(net, inputs, depth, loss, sizes, sampling.seed)
        tables = at_layers(found, layers)
        theory = layout.table(layers, log_q=curves[at, places], log_q_size=apart[at, places])
        comparisons.append(compare(theory, tables, share, degree=1))
        lines = [
            layout.table([depth], about, slope=layout.averaged(slope(ratio)))
            for about, ratio in found
        ]
        line = layout.table([depth], slope=slopes[at], slope_size=between[at])
        comparisons.append(compare(line, lines, share, degree=1))
        labels += [f"γσ_α² = {weight}", f"γσ_α² = {weight}, slope"]
        drawn.append((labels[-2], theory, tables[-1]))
    return sampled(comparisons, "250 layers", {"gradients": gradient_figure(drawn)}, labels)


def distances(curves: Array) -> Array:
    """How far each curve, (curves, layers), is at each layer from the nearest of the others."""
    apart = np.abs(curves[:, None] - curves)
    apart[np.diag_indices(len(curves))] = np.inf
    return np.asarray(apart.min(axis=1))


def gradient_figure(drawn: Sequence[tuple[str, xarray.Dataset, xarray.Dataset]]) -> Figure:
    """log₁₀ q̃ by layer: derived lines, points sampled at the largest width."""
    figure, panel = one_panel(
        (5.4, 3.8), xlabel="layer", ylabel="log₁₀ of the squared gradient, over the last layer's"
    )
    for number, (label, theory, table) in enumerate(drawn):
        layers = [*theory["layer"].to_numpy(), 250]
        beside(
            panel,
            (layers, [*theory["log_q"].to_numpy() / np.log(10), 0.0]),
            (table["layer"], table["log_q"] / np.log(10), table["log_q_se"] / np.log(10)),
            color=f"C{number}",
            label=label,
        )
    panel.legend()
    return figure
