"""The symbols that results are written in, each declared once.

    from derive import recursion, symbols
    recursion("K").single_input().expr.subs({symbols.C_W: 2})

Each carries what is assumed of it (C_W > 0, …), which makes it another symbol than sympy's
Symbol("C_W"). In `subs` and `evalf(subs=…)` it answers to its name all the same, so "C_W" and
Symbol("C_W") are replaced too. Elsewhere, as in `diff` and `coeff`, sympy compares symbols: take
them from here.
"""

from __future__ import annotations

from typing import Any

import sympy

from .work.faces import public

__all__ = [
    "C_W",
    "K0",
    "K11",
    "K12",
    "K22",
    "PARAMETERS",
    "C_b",
    "K",
    "L",
    "Symbol",
    "batch",
    "constant",
    "ell",
    "gamma",
    "lambda_W",
    "lambda_b",
    "layer",
    "m",
    "n",
    "parameter",
    "q",
    "r_big",
    "r_in",
    "r_out",
    "real",
    "rho",
    "sigma_0",
    "slope_moment",
    "tensor",
    "theta",
    "trace_moment",
    "u",
    "v",
    "weight_coefficient",
    "width",
    "z",
]


class Symbol(sympy.Symbol):
    """A symbol that `subs` finds by its name, whatever was assumed of the one that is asked for.

    >>> Symbol("C_W", positive=True).subs({"C_W": 2})
    2
    """

    __slots__ = ()

    def _eval_subs(self, old: sympy.Basic, new: sympy.Basic) -> Any:
        """Of two of this class with one name, as the width and the batch, each is its own."""
        own = isinstance(old, Symbol)
        return new if not own and is_named(old, self.name) else super()._eval_subs(old, new)


class _Batch(Symbol):
    """A batch's size, n as in source 003, which is no width n."""

    __slots__ = ()

    @classmethod
    def class_key(cls) -> tuple[int, int, str]:
        """Sorted, and so printed, as any other symbol."""
        key: tuple[int, int, str] = sympy.Symbol.class_key()
        return key


def is_named(old: object, name: str) -> bool:
    """By definition: whether `old` is a symbol of this name, and not bound (`sympy.Dummy`).

    Arguments:
        old: anything.
        name: the name, whatever is assumed of the symbol.

    >>> is_named(C_W, "C_W"), is_named(sympy.Symbol("C_W"), "C_W"), is_named(2, "C_W")
    (True, True, False)
    """
    return isinstance(old, sympy.Symbol) and not isinstance(old, sympy.Dummy) and old.name == name


def real(name: str) -> sympy.Symbol:
    """A symbol of which nothing is known but that it is real, by definition.

    >>> real("x").is_real, real("x").is_positive
    (True, None)
    """
    return Symbol(name, real=True)


C_W = Symbol("C_W", positive=True)
"""E[W_ij²] n_in: σ_w² of source 002 and γσ_α² of source 001."""
C_b = Symbol("C_b", nonnegative=True)
"""The biases' variance."""
lambda_W = Symbol("lambda_W", nonnegative=True)
"""The weights' learning rate."""
lambda_b = Symbol("lambda_b", nonnegative=True)
"""The biases' learning rate."""
r_in = Symbol("r_in", positive=True)
"""n_ℓ/n, the width that feeds layer ℓ+1 over the reference width."""
r_out = Symbol("r_out", positive=True)
"""n_{ℓ+1}/n."""
r_big = Symbol("r_big", positive=True)
"""max(n_ℓ, n_{ℓ+1})/n."""
gamma = Symbol("gamma", positive=True)
"""The rank of low-rank weights over their width, where a user leaves it a symbol."""

n = Symbol("n", positive=True, integer=True)
"""The width of a layer."""
batch = _Batch("n", positive=True, integer=True)
"""The batch of batch normalization, written n; it is no width, and not equal to `n`."""
width = Symbol("d", positive=True, integer=True)
"""The width of batch normalization's networks, written d as in source 003."""
theta = Symbol("theta", positive=True)
"""The variable of batch normalization's integrals."""

ell = Symbol("ell", positive=True)
"""The layer ℓ in an expansion at large depth."""
layer = Symbol("l", integer=True, positive=True)
"""The layer ℓ = 1, 2, … that a learning rate depends on."""
L = Symbol("L", positive=True)
"""The number of layers."""

z = Symbol("z", real=True)
"""The preactivation, the one variable of every activation."""
K = Symbol("K", positive=True)
"""The kernel of a single input."""
K0 = Symbol("K0", positive=True)
"""|x|²/n_0, the kernel of the input."""
K11, K12, K22 = (
    Symbol("K11", positive=True),
    Symbol("K12", real=True),
    Symbol("K22", positive=True),
)
"""The kernel of two inputs."""
q = Symbol("q", positive=True)
"""The variance q* of the preactivations, in spectra."""
rho = Symbol("rho", positive=True)
"""The length of z."""
u = Symbol("u", positive=True)
"""The length of a characteristic function's argument."""
v = real("v")
"""V/(n K²), the vertex at width n in units of the variance."""
sigma_0 = Symbol("sigma_0", positive=True)
"""The standard deviation σ_0 of the eigenvalues of JJᵀ (not squared)."""
m = Symbol("m", positive=True, integer=True)
"""Half the number of points of a correlator."""

PARAMETERS = {symbol.name: symbol for symbol in (C_W, C_b, lambda_W, lambda_b, r_in, r_out, r_big)}
"""The hyperparameters of a layer by name."""


def parameter(name: str) -> sympy.Symbol:
    """A layer's hyperparameter: those above, or a real one such as C_W1 of C_W + C_W1/n + …

    Source 000, eq. (5.28).

    >>> parameter("C_W") == C_W, parameter("C_W1").is_positive
    (True, None)
    """
    return PARAMETERS.get(name, real(name))


def tensor(name: str) -> sympy.Symbol:
    """A tensor of a single input: K, K0 and K_y positive, V, G1, … real. Names of source 000.

    >>> tensor("V"), tensor("K").is_positive
    (V, True)
    """
    if name.startswith("K_"):
        return Symbol(name, positive=True)
    return {"K": K, "K0": K0}.get(name, real(name))


def constant(name: str) -> sympy.Symbol:
    """c_T, the free constant of a tensor at large depth, that initial conditions fix. Derived here.

    >>> constant("V")
    c_V
    """
    return real(f"c_{name}")


def trace_moment(j: int) -> sympy.Symbol:
    """m_j = p_j/p_1^j, the trace moments of bi-invariant weights that are not given; by definition.

    p_j = tr (SᵀS)^j/n_in of the singular values S, so that m_1 = 1.

    >>> trace_moment(2)
    m_2
    """
    return Symbol(f"m_{j}", positive=True)


def slope_moment(k: int) -> sympy.Symbol:
    """μ_k = ⟨φ'^{2k}⟩, the moments of D² (source 002, eq. 20).

    >>> slope_moment(2)
    mu_2
    """
    return Symbol(f"mu_{k}", positive=True)


def weight_coefficient(k: int) -> sympy.Symbol:
    """s_k in S_{WᵀW} = (1 + Σ_k s_k w^k)/C_W (source 002, eq. 18).

    >>> weight_coefficient(1)
    s_1
    """
    return real(f"s_{k}")


public(__name__)
