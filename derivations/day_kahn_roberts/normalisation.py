# %% [markdown]
# # Dimensionless tensors
#
# The forward equation lets $z$ and $\widehat H$ carry a dimension each: measure the inputs in other
# units, or the learning rates, and every tensor is multiplied by powers of the two units. Divided
# by as many powers of $K$ and $\Theta$ a tensor is a pure number, whose growth with depth means
# something. In those units $\sigma^{(k)}$ is a $z^{1-k}$, $\lambda_b$ an $\widehat H$ and
# $\lambda_W$ an $\widehat H/z^2$, and every term of a recursion must be what its left-hand side is.

# %%
"""The normalised tensors (source 000, eqs. 3.9, 6.9, 6.10, 6.15, 6.16, A.4, A.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal
from derive import recursion
from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import Monomial
from derive.engine.fields import DDH_I, DDH_II, DH, AnyField, H, Z
from derive.engine.tensors import Tensor
from derive.gaussian.brackets import Bracket
from derive.weights import Orthogonal
from numeric import normalise
from numeric.arrays import Array
from numeric.tables import layout

K, Theta = sympy.symbols("K Theta", positive=True)
z, ntk = sympy.symbols("z H", positive=True)
TwoPoint = Callable[[int, int], Any]
Scale = Callable[[TwoPoint, TwoPoint], Any]
"""A scale of four inputs, from K_{ab} and Θ_{ab}."""

PRINTED: Mapping[str, sympy.Expr] = (
    {"V": K**2}
    | dict.fromkeys("AB", Theta**2)
    | dict.fromkeys("DF", K * Theta)
    | dict.fromkeys("PQ", Theta**2)
    | dict.fromkeys("RSTU", Theta**3 / K)
)
"""The divisor of each tensor, as printed: (3.9), (6.9), (6.10), (6.15), (6.16)."""

# %% [markdown]
# ## One input

# %%
_PARAMETERS = {"C_W": (0, 0), "C_b": (2, 0), "lambda_W": (-2, 1), "lambda_b": (0, 1)}
_FIELDS: dict[AnyField, tuple[int, int]] = {
    Z: (1, 0),
    H: (0, 1),
    DH: (-1, 2),
    DDH_I: (-2, 3),
    DDH_II: (-2, 3),
}
"""Powers of z and of H: each further λ∂∂ brings one H more and takes one z away."""


def dimension(mono: Monomial) -> tuple[int, int]:
    """The powers of z and H of a term."""
    total = [0, 0]
    for atom, exponent in mono:
        if isinstance(atom, Parameter):
            powers = [_PARAMETERS[atom.name]]
        elif isinstance(atom, Tensor):
            powers = [_FIELDS[field] for field in atom.fields]
        else:
            assert isinstance(atom, Bracket)
            powers = [(1 - order, 0) for _, order in atom.factors] + [(-1, 0)] * len(atom.outer)
        for axis in (0, 1):
            total[axis] += exponent * sum(power[axis] for power in powers)
    return total[0], total[1]


def homogeneous(names: str) -> Verdict:
    """Every term of these recursions against the dimension of the printed scale."""
    found, expected = [], []
    for name in names:
        for powers in sorted({dimension(mono) for mono, _ in recursion(name, Orthogonal()).terms}):
            found.append(z ** powers[0] * ntk ** powers[1])
            expected.append(PRINTED[name].subs({K: z**2, Theta: ntk}))
    return equal(found, expected, "every term of the recursions, in powers of z and H")


def divides(name: str, values: Mapping[str, Array], at: tuple[int, ...]) -> float:
    """The divisor of this component of a tensor in `normalise`, K and Θ having these values."""
    inputs = len(values["K"])
    single = inputs == 1
    tensors = {each: value.reshape(1) if single else value[None] for each, value in values.items()}
    tensors[name] = np.ones(1 if single else (1, *(inputs,) * 4))
    tilde = normalise(layout.table([1], **tensors))[f"{name}_tilde"].to_numpy()
    return float(1 / tilde[(0, *at)])


def dimensionless(names: str) -> Verdict:
    """The printed scale has the tensors' dimension, and is what `normalise` divides by."""
    values = {"K": np.array([[0.7]]), "Theta": np.array([[1.9]])}
    printed = {each: PRINTED[each].subs({K: 0.7, Theta: 1.9}) for each in names}
    return both(
        homogeneous(names),
        close(
            [divides(each, values, ()) for each in names],
            list(printed.values()),
            13,
            "normalise() divides by the printed scale",
        ),
    )


@claim("000", "3.9", "normalised V")
def normalised_vertex() -> Verdict:
    """$V$ has four powers of $z$, as $K^2$ has: every term of its recursion is a $z^4$."""
    return dimensionless("V")


@claim("000", "6.9", "normalised A and B")
def normalised_ntk() -> Verdict:
    r"""$A$ and $B$ have the dimension of $\Theta^2$, term by term."""
    return dimensionless("AB")


@claim("000", "6.10", "normalised D and F")
def normalised_mixed() -> Verdict:
    r"""$D$ and $F$ have the dimension of $K\Theta$, term by term."""
    return dimensionless("DF")


@claim("000", "6.15", "normalised P and Q")
def normalised_differential() -> Verdict:
    r"""$P$ and $Q$ have the dimension of $\Theta^2$, term by term."""
    return dimensionless("PQ")


@claim("000", "6.16", "normalised R, S, T and U")
def normalised_second_differential() -> Verdict:
    r"""$R$, $S$, $T$ and $U$ have the dimension of $\Theta^3/K$, term by term."""
    return dimensionless("RSTU")


# %% [markdown]
# ## Four inputs
#
# With four different inputs there are three ways to share them out over $\Theta\Theta$ and six over
# $\Theta K$. The paper takes the mean of the ways, so that equal inputs give the scale of one.

# %%
a, b, c, d = range(4)


def ntk_scale(_: TwoPoint, T: TwoPoint) -> Any:
    """(A.4) as printed."""
    return (T(a, b) * T(c, d) + T(a, c) * T(b, d) + T(a, d) * T(b, c)) / 3


def mixed_scale(K: TwoPoint, T: TwoPoint) -> Any:
    """(A.5) as printed."""
    first = T(a, b) * K(c, d) + T(a, c) * K(b, d) + T(a, d) * K(b, c)
    return (first + T(c, d) * K(a, b) + T(b, d) * K(a, c) + T(b, c) * K(a, d)) / 6


def of_four_inputs(names: str, scale: Scale) -> Verdict:
    """The printed scale is that of one input where all are equal, and that of `normalise`."""
    generic = np.random.default_rng(0).standard_normal((2, 4, 4))
    values = {each: matrix + matrix.T for each, matrix in zip(("K", "Theta"), generic, strict=True)}
    printed = scale(lambda a, b: values["K"][a, b], lambda a, b: values["Theta"][a, b])
    return both(
        equal(
            [scale(lambda *_: K, lambda *_: Theta)] * len(names),
            [PRINTED[each] for each in names],
            "four equal inputs",
        ),
        close(
            [divides(each, values, (a, b, c, d)) for each in names],
            [printed] * len(names),
            13,
            "normalise() at generic K and Θ",
        ),
    )


@claim("000", "A.4", "normalised A and B of four inputs")
def four_input_ntk() -> Verdict:
    """The printed scale is (6.9)'s where the inputs are equal, and that of `normalise`."""
    return of_four_inputs("AB", ntk_scale)


@claim("000", "A.5", "normalised D and F of four inputs")
def four_input_mixed() -> Verdict:
    """The printed scale is (6.10)'s where the inputs are equal, and that of `normalise`."""
    return of_four_inputs("DF", mixed_scale)
