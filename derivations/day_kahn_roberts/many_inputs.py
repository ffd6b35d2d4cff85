# %% [markdown]
# # Several inputs: the normalised vertices
#
# With several inputs there is more than one product of two kernels to divide $V$ by. The paper's
# choices average over the distinct ways to share out the sample indices.

# %%
"""The normalised multi-input vertices (source 000, appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.day_kahn_roberts.expansions import through
from derivations.day_kahn_roberts.normalisation import divides
from derivations.moments.gaussian import variables, wick
from derive import activations, symbols
from derive.gaussian.brackets import Average, Component
from derive.network import Network
from derive.recursions import recursion
from derive.symbols import C_W, C_b
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from derive.work.caches import cache
from numeric import flow

Kernel = Callable[[int, int], sympy.Expr]
Scale = Callable[[Kernel], sympy.Expr]
Pattern = tuple[int, int, int, int]
a, b, c, d = range(4)


def two_pairs(K: Kernel) -> sympy.Expr:
    """(A.1), the scale of V_(αα)(ββ), as printed."""
    return (K(a, a) * K(b, b) + K(a, b) ** 2) / 2


def three_and_one(K: Kernel) -> sympy.Expr:
    """(A.1), the scale of V_(αα)(αβ), as printed."""
    return K(a, a) * K(a, b)


def three_inputs(K: Kernel) -> sympy.Expr:
    """(A.2), the scale of V_(αβ)(γα), as printed."""
    return (K(a, b) * K(a, c) + K(a, a) * K(b, c)) / 2


def four_inputs(K: Kernel) -> sympy.Expr:
    """(A.3), the scale of V_(αβ)(γδ), as printed."""
    return (K(a, b) * K(c, d) + K(a, c) * K(b, d) + K(a, d) * K(b, c)) / 3


def as_normalise(
    pattern: tuple[int, int, int, int], printed: Callable[[Kernel], object]
) -> Verdict:
    """`normalise` divides this component of V by the printed scale, at a generic kernel."""
    generic = np.array(
        [[1.3, 0.4, -0.2, 0.5], [0, 0.9, 0.3, 0.1], [0, 0, 1.7, -0.6], [0, 0, 0, 0.8]]
    )
    K = generic + np.triu(generic, 1).T
    scale = printed(lambda i, j: K[i, j])
    found = divides("V", {"K": K}, pattern)
    return close([found], [scale], 13, "normalise() at a generic kernel")


def linear(pattern: Pattern, printed: Scale) -> sympy.Expr:
    """Ṽ of a component for linear orthogonal networks, at every layer (5.17), C_W = 1."""
    first = recursion("V", Orthogonal(), first_layer=True).expr.subs(symbols.C_W, 1)

    def kernel(i: int, j: int) -> sympy.Expr:
        return sympy.Symbol("K_{}{}".format(*sorted(("αβγδ"[i], "αβγδ"[j]))), real=True)

    names = {
        Component("K0", (i + 1, j + 1)): kernel(pattern[i], pattern[j])
        for i in range(4)
        for j in range(i, 4)
    }
    return sympy.factor(first.xreplace(names) / printed(kernel))


@claim("000", "A.1", "normalised V of two inputs")
def two_input_vertex() -> Verdict:
    r"""The printed scales are those of `normalise`. Linear orthogonal networks have
    $\tilde V_{(\alpha\alpha)(\alpha\beta)} = -2$, while $\tilde V_{(\alpha\alpha)(\beta\beta)} =
    -4K_{\alpha\beta}^2/(K_{\alpha\alpha}K_{\beta\beta} + K_{\alpha\beta}^2)$ depends on the inputs,
    though not on depth."""
    K = {pair: sympy.Symbol(f"K_{pair}", real=True) for pair in ("αα", "αβ", "ββ")}
    return both(
        equal(
            [linear((a, a, a, b), three_and_one), linear((a, a, b, b), two_pairs)],
            [-2, -4 * K["αβ"] ** 2 / (K["αα"] * K["ββ"] + K["αβ"] ** 2)],
            "linear orthogonal networks",
        ),
        as_normalise((a, a, b, b), two_pairs),
        as_normalise((a, a, a, b), three_and_one),
    )


@claim("000", "A.2", "normalised V of three inputs")
def three_input_vertex() -> Verdict:
    r"""The printed scale is that of `normalise`; linear orthogonal networks have $\tilde V = -2$
    exactly."""
    return both(
        equal(linear((a, b, c, a), three_inputs), -2, "linear orthogonal networks"),
        as_normalise((a, b, c, a), three_inputs),
    )


@claim("000", "A.3", "normalised V of four inputs")
def four_input_vertex() -> Verdict:
    r"""The printed scale is that of `normalise`; with four equal inputs $\tilde V = -2$, as with
    one."""
    linear_value = linear((a, b, c, d), four_inputs)
    equal_inputs = linear_value.subs(dict.fromkeys(linear_value.free_symbols, sympy.Symbol("K")))
    return both(
        equal(equal_inputs, -2, "linear orthogonal networks, equal inputs"),
        as_normalise((a, b, c, d), four_inputs),
    )


# %% [markdown]
# ## Are random inputs nearly orthogonal?
#
# The paper lays the scatter of its figures 10–12 to $K_{\alpha\beta}$ being "typically quite small
# since random high-dimensional vectors are approximately orthogonal". Its inputs are uniform on
# $[0, 1]$, and so not centred.


# %%
@claim("000", "§A.1 (inputs)", "random inputs on [0, 1] are not nearly orthogonal")
def not_orthogonal() -> Verdict:
    r"""$E[xy] = \frac14$ against $E[x^2] = \frac13$ for entries uniform on $[0, 1]$, so that
    $K_{\alpha\beta}/K_{\alpha\alpha} \to \frac34$."""
    x, y = sympy.symbols("x y")
    across = sympy.integrate(x * y, (x, 0, 1), (y, 0, 1))
    along = sympy.integrate(x**2, (x, 0, 1))
    X = np.random.default_rng(0).random((2, 100))
    cosine = X[0] @ X[1] / np.sqrt((X[0] @ X[0]) * (X[1] @ X[1]))
    return misprint(
        across / along,
        sympy.Integer(0),
        'K_αβ/K_αα at large n_0, which the paper takes for "typically quite small"; '
        f"E[xy] = {across}, E[x²] = {along} for entries uniform on [0, 1]; two inputs of size 100 "
        f"have K_αβ/√(K_αα K_ββ) = {cosine:.3f}",
    )


# %% [markdown]
# ## The whole tensor at large depth (§5.5)
#
# At small $K$ the derived recursions of $K$ and $V$ are polynomials in their components. To the
# order that decides the limit, $V_{(\alpha_1\alpha_2)(\alpha_3\alpha_4)}$ of tanh is that of a
# linear network, and stays it: the correlations of the inputs freeze, and $\tilde V$ with them.
# What differs from it at the first layer is forgotten where a pair is of one input with itself, and
# kept where both pairs are of different inputs.

# %%
CUBE = activations.polynomial([0, 1, 0, -sympy.Rational(1, 3)])
"""tanh through the order that counts."""
small = sympy.Symbol("t", positive=True)
Pair = tuple[int, int]


def kernel_of(pair: Pair) -> sympy.Expr:
    """K of two of four inputs, of the size of `small`."""
    return small * sympy.Symbol("K_{}{}".format(*sorted(pair)), real=True)


def linear_vertex(K: Callable[[Pair], sympy.Expr], samples: Pattern) -> sympy.Expr:
    """(5.17), as printed."""
    i, j, k, m = samples
    return -(K((i, k)) * K((j, m)) + K((i, m)) * K((j, k)))


@cache
def derived_step(name: str) -> sympy.Expr:
    """The next layer's K_12, or V_(12)(34) of orthogonal weights, of a critical network of `CUBE`,
    in the components below, those of K of the size of `small`; its brackets through K^3."""
    made = recursion(name, Orthogonal()).expr
    values: dict[sympy.Basic, sympy.Expr] = {C_W: sympy.S.One, C_b: sympy.S.Zero}
    return made.xreplace(values | {each: _averaged(each) for each in made.atoms(Average)})


def _averaged(average: Average) -> sympy.Expr:
    """A bracket of `CUBE` by Wick's theorem, without the moments that do not count: K^3 in all,
    K^2 beside another bracket and K beside V."""
    factors, outer = average.bracket.factors, average.bracket.outer
    z = dict(zip((sample for sample, _ in factors), variables(len(factors)), strict=True))
    function = sympy.prod(
        CUBE.expr.diff(activations.z, order).subs(activations.z, z[sample])
        for sample, order in factors
    )
    for sample in outer:
        function = function.diff(z[sample])
    most = len(factors) + 2 - len(outer)
    terms = sympy.Poly(function, *z.values()).terms()
    kept = [
        value * sympy.prod(map(pow, z.values(), powers))
        for powers, value in terms
        if sum(powers) <= most
    ]
    K = sympy.Matrix(len(z), len(z), lambda a, b: kernel_of((list(z)[a], list(z)[b])))
    return wick(K)(sympy.Add(*kept))


@claim("000", "§5.5 (four inputs)", "the whole of Ṽ of tanh is depth-independent")
def whole_vertex() -> Verdict:
    r"""(5.17) solves the derived recursion of four inputs through $K^3$, where $K_{ab}' =
    K_{ab}(1-K_{aa}-K_{bb})$: so with $K_{aa}\to\frac1{2\ell}$ every $K_{ab}$ goes like $1/\ell$,
    their ratios freeze, and $\tilde V$ is that of a linear network with those, for any four inputs.
    A pair's tensor that differs from it falls like $1/\ell^2$ on (αα) and like $1/\ell$ on (αβ), as
    K does: so $V_{(\alpha\beta)(\gamma\delta)}$ is depth-independent with any first layer, but
    remembers it. In the flow of two inputs no component of $\tilde V$ moves by more than 2 % from
    layer 60 to 120."""
    step = through(derived_step("K"), small, 2)

    def next_kernel(pair: Pair) -> sympy.Expr:
        ours = {each: (pair[each[0] - 1], pair[each[1] - 1]) for each in ((1, 1), (1, 2), (2, 2))}
        return step.xreplace({kernel_of(k) / small: kernel_of(v) / small for k, v in ours.items()})

    after = derived_step("V")
    vertices = {}
    for each in after.atoms(Component):
        i, j, k, m = map(int, each.args[1].args)
        vertices[each] = linear_vertex(kernel_of, (i, j, k, m))
    residue = linear_vertex(next_kernel, (1, 2, 3, 4)) - after.xreplace(vertices)
    K = [kernel_of(pair) for pair in ((1, 1), (1, 2), (2, 2))]
    moves = [
        np.abs(np.array(tilde[-1]) / np.array(tilde[len(tilde) // 2 - 1]) - 1).max()
        for tilde in (normalised_flow(None), normalised_flow(Gaussian()))
    ]
    return both(
        equal(through(residue, small, 3), 0, "(5.17) with K', less the derived V', through K³"),
        equal(sympy.expand(step - K[1] * (1 - K[0] - K[2])), 0, "K_12' through K²"),
        observed(
            [move < 0.02 for move in moves],
            "two inputs, all orthogonal and mixed, layers 60 and 120",
        ),
    )


@cache
def normalised_flow(first: WeightEnsemble | None) -> list[list[float]]:
    """By layer, V_(11)(11), V_(11)(12), V_(11)(22), V_(12)(12) over what (5.17) has in their place,
    of a critical orthogonal tanh network with two inputs."""
    net = Network(activations.tanh, Orthogonal(), first_weights=first)
    table = flow(net, np.array(TWO_INPUTS), 120, ["K", "V"])
    K, V = (table[name].to_numpy() for name in ("K", "V"))
    patterns = ((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1))
    return [
        [float(vertex[at] / linear_vertex(kernel.__getitem__, at)) for at in patterns]
        for kernel, vertex in zip(K, V, strict=True)
    ]


TWO_INPUTS = ((0.3, -1.1, 0.8, 0.5), (1.2, 0.3, -0.4, 0.2))


@claim("000", "§7.1 (first layer)", "does the first layer's ensemble change the asymptotics?")
def first_layer() -> Verdict:
    r"""It "simply affects the initial conditions … and not the large-depth asymptotics": true of
    one input, and of pairs (αα). $V_{(\alpha\beta)(\alpha\beta)}$ of a mixed network keeps the
    memory: over the value that an all-orthogonal one has it tends to a number below $\frac1{10}$
    for these two inputs, and would to 1."""
    last = normalised_flow(None)[-1], normalised_flow(Gaussian())[-1]
    single, pair = (each[1][k] / each[0][k] for each, k in ((last, 0), (last, 3)))
    return misprint(
        "V_(αα)(ββ) forgets the first layer; V_(αβ)(αβ) does not",
        "the first layer does not affect the large-depth asymptotics",
        f"layer 120, mixed over orthogonal: {single:.4f} for one input, {pair:.4f} for "
        "V_(12)(12), which is the witness",
        provided=observed(
            [abs(single - 1) < 1e-3, abs(pair - normalised_ratio(60)) < 1e-2],
            "one input forgets; two do not, from layer 60 to 120",
        ),
        witness=(1, pair, 0.1),
    )


def normalised_ratio(layer: int) -> float:
    """V_(12)(12) of the mixed over that of the orthogonal network at a layer."""
    mixed, orthogonal = (normalised_flow(each)[layer - 1][3] for each in (Gaussian(), None))
    return mixed / orthogonal
