"""Attention over the positions of a signal.

Tokens are positions and sequences are samples, as of convolutions: norms at each position, residual
blocks and readouts apply as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np
import sympy
from numpy.typing import ArrayLike

from ..activations.functions import Activation
from ..engine.scores import as_score
from ..engine.taps import each_alone
from ..errors import InputError, Words, as_integer, check_names, flag
from ..expressions import as_expression
from ..symbols import C_W, n
from ..weights import WeightEnsemble
from .composed import around
from .layer import Layer, as_sigma, variances_of
from .norms import Norm, named_text, shown_as

Laws: TypeAlias = "Mapping[str, WeightEnsemble | str] | WeightEnsemble | str | None"
Sigmas: TypeAlias = "Mapping[str, Activation | str] | Activation | str | None"
"""Laws of a layer's matrices and activations of its own, as `layers.Layer` takes them."""

_MATRICES = ("Q", "K", "V", "O")
_VARIANCES = "the variances of W_Q, W_K, W_V and W_O"
_OVER = {"1/d": "{}/n", "1/sqrt(d)": "{}/sqrt(n)", "normal": "normal({})/sqrt(n)"}


class Sharing(TypedDict, total=False):
    """The keyword arguments of `attention` about its keys."""

    keys: int | str | None
    tied: bool
    key_norm: bool


def attention(
    heads: int | str | sympy.Expr,
    positions: int | Sequence[int],
    scores: str = "1/d",
    score: str | Activation = "softmax",
    mask: str | int | ArrayLike | None = None,
    bias: ArrayLike | None = None,
    skip: object = 1,
    norm: str | None = None,
    eps: object = 0,
    C: Sequence[object] | None = None,
    weights: Laws = None,
    **sharing: Unpack[Sharing],
) -> Layer:
    """z'_t = γ z_t + b + Σ_h W_O^h Σ_s A^h_ts v^h_s, with A^h_ts = softmax_s(c^h_ts + B_ts).

    Each of H heads has d = n/H components of q = W_Q y, k = W_K y and v = W_V y, y = z or the
    normalized z, and the scores c^h_ts = q^h_t·k^h_s/d, or over √d.

    Arguments:
        heads: H, a number, a symbol such as "H", or "n/16" for heads of 16 neurons.
        positions: T, of a signal, or (T_1, T_2), of an image; inputs are (m, T, n_0), or one of m.
        scores: "1/d", as in muP; "1/sqrt(d)"; or "normal", the limit of the latter for queries and
            keys of infinitely many neurons, with values of d.
        score: "softmax", or an activation f or its name, A_ts = f(c_ts + B_ts); or "shaped",
            1 + softmax(c + B) − softmax(B).
        mask: None; "causal", s ≤ t; a number w, the sliding window t − w < s ≤ t; or a table (T, T)
            that is True where t reads s.
        bias: B, a table (T, T), such as that of ALiBi; by default 0.
        skip, norm, eps: as of `layers.residual`.
        C: (C_Q, C_K, C_V, C_O), the variances of the matrices; by default the network's C_W.
        weights: the law of all matrices, or a mapping from "Q", "K", "V" and "O".
        keys: how many heads of keys and values there are, by default H, a number or "n/64". Heads
            share them in groups of H/keys (grouped queries).
        tied: whether the keys are the queries, W_K = W_Q.
        key_norm: whether queries and keys are divided by their root mean square in each head.

    Derived here. Raises InputError for sizes, texts and tables that are none of these.

    >>> attention(4, 8, mask="causal")
    attention(4, 8, skip=1, mask=causal)
    """
    keys, tied, key_norm = _sharing(sharing)
    H, T = _heads(heads, key_norm), each_alone(positions).positions
    if scores not in _OVER:
        raise InputError("scores", scores, " or ".join(f'"{each}"' for each in _OVER))
    if scores == "normal" and (tied or key_norm):
        raise InputError("scores", scores, '"1/sqrt(d)", for keys that are queries or normalized')
    function, given = as_score(score), Norm(norm, 0 if norm is None and key_norm else eps)
    plain = isinstance(score, str) and score.isidentifier()
    table, groups = _table(T, mask, bias), _groups(H, keys, tied)
    own = H if H.has(n) else H / groups  # n of a set of queries is its own number of neurons
    weight = f"{score if plain else 'phi'}_s({{}}[t,s]{'' if table is None else ' + B[t,s]'})"
    lines, rows = _equations(groups, _OVER[scores], weight, tied, key_norm, own)
    values: dict[str, Any] = {"eps_k": eps} if key_norm else {}
    block = Layer(
        *lines,
        C=_named(variances_of(C, _MATRICES, _VARIANCES), groups, tied),
        weights=_laws(weights, groups, tied),
        activations={} if plain or function is None else {"phi": function},
        ratio=dict.fromkeys(rows, sympy.Rational(1, groups)) if groups > 1 else {},
        tables={} if table is None else {"B": table},
        positions=positions,
        **values,
    )
    shown = shown_as(
        scores=None if scores == "1/d" else scores,
        score=None if score == "softmax" else score,
        skip=skip,
    )
    shown += [*given.shown("norm="), *shown_as(mask=shown_table(mask), bias=shown_table(bias))]
    shown += shown_as(C=C, keys=keys, tied=tied or None, key_norm=key_norm or None)
    shown += shown_as(weights=named_text(weights))
    label = f"attention({', '.join([str(H), str(positions), *shown])})"
    return around(block, skip, norm, given.eps, label)


def _sharing(given: Sharing) -> tuple[int | str | None, bool, bool]:
    """Keys, tied and key_norm."""
    check_names(given, Sharing.__annotations__)
    tied, key_norm = (flag(each, given.get(each, False)) for each in ("tied", "key_norm"))
    return given.get("keys"), tied, key_norm


def _heads(given: int | str | sympy.Expr, key_norm: bool) -> sympy.Expr:
    """H, a symbol, a number, or n over the size of a head."""
    wanted = 'a number of heads, 1 or more, a symbol, or "n/16" for heads of 16 neurons'
    named = isinstance(given, str) and given.isidentifier()
    size = re.fullmatch(r"n/([1-9]\d*)", given) if isinstance(given, str) else None
    if size and int(size[1]) > 1:
        if key_norm:
            wanted = "False, for heads of a fixed size: the norm of so few neurons has no limit"
            raise InputError("key_norm", key_norm, f"{wanted}. simulate draws a number of heads")
        return n / sympy.Integer(size[1])
    H = as_expression("heads", sympy.Symbol(str(given)) if named else given, wanted)
    if H.is_Symbol and key_norm:
        raise InputError("heads", given, "a number, for a norm in each head")
    if not (H.is_Symbol or (H.is_Integer and H > 0)):
        raise InputError("heads", given, wanted)
    return H


def beside(block: Layer, ratio: object, activations: Sigmas) -> Layer:
    """The attention with an MLP that reads the same z, and is added to it."""
    *lines, last = block.lines
    own = block.given
    given: dict[str, Any] = own._asdict() | {
        "C": {**dict.fromkeys(own.weights, C_W), **own.C},
        "activations": {**own.activations, **as_sigma(activations)},
        "ratio": {**own.ratio, "h": ratio},
    }
    values = given.pop("values")
    return Layer(*lines, "h[i] = W1[i,a] z[a]", f"{last} + W2[i,a] s(h[a])", **given, **values)


def _equations(
    groups: int, over: str, weight: str, tied: bool, normed: bool, H: sympy.Expr
) -> tuple[list[str], list[str]]:
    """The equations, and the variables whose widths are n over the number of groups."""
    names = _numbers(groups)
    made = [f"q{k}[i] = WQ{k}[i,a] z[a]" for k in names]
    made += [*([] if tied else ["k[i] = WK[i,a] z[a]"]), "v[i] = WV[i,a] z[a]"]
    rows = [*(f"q{k}" for k in names), *([] if tied else ["k"]), "v"]
    normalized = [*rows[:-1]] if normed else []
    for name in normalized:
        made += [
            f"m{name} = {name}[a:{H}] {name}[a:{H}]/n",
            f"r{name}[i] = {name}[i]/sqrt(m{name} + eps_k)",
        ]
    mark = "r" if normed else ""
    addends = []
    for k in names:
        key = f"{mark}{'q' if tied else 'k'}"
        product = f"{mark}q{k}[a,t:{H}] {key}[a,s:{H}]"
        made.append(f"c{k}[t,s] = {over.format(product)}")
        share = "" if groups == 1 else f"/sqrt({groups})"
        addends.append(f"WO{k}[i,a] {weight.format(f'c{k}')} v[a,s]{share}")
    return [*made, f"z[i] = b[i] + {' + '.join(addends)}"], rows


def _groups(heads: sympy.Expr, keys: int | str | None, tied: bool) -> int:
    """How many heads share keys and values."""
    if keys is None:
        return 1
    sized = heads.has(n) and isinstance(keys, str)
    count = _heads(keys, False) if sized else as_integer("keys", keys, 1)
    groups = sympy.nsimplify(heads / count)
    if not groups.is_Integer:
        wanted = f'a number that divides the heads, {heads}, a number too; "n/64" of sized heads'
        raise InputError("keys", keys, wanted)
    if tied and groups > 1:
        raise InputError("tied", tied, "False, where heads share keys")
    return int(groups)


def _laws(weights: Laws, groups: int, tied: bool) -> Any:
    """The laws by the names of the matrices."""
    if not isinstance(weights, Mapping):
        return weights
    if unknown := sorted(set(weights) - {*_MATRICES}):
        raise InputError("weights", unknown, "laws by Q, K, V and O")
    return _named(weights, groups, tied)


def _named(given: Mapping[str, Any], groups: int, tied: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if not (tied and name == "K"):
            numbers = _numbers(groups if name in ("Q", "O") else 1)
            found |= {f"W{name}{k}": value for k in numbers}
    return found


def _numbers(groups: int) -> list[str]:
    """The numbers of heads that share keys, as names have them; none of one alone."""
    return [""] if groups == 1 else [str(k) for k in range(1, groups + 1)]


def _table(T: int, mask: Any, bias: ArrayLike | None) -> Any:
    """B with −inf where a position is masked; None for 0 everywhere."""
    if mask is None and bias is None:
        return None
    wanted = f"a table ({T}, {T})"
    try:
        found = np.zeros((T, T)) if bias is None else np.array(bias, float)
    except (TypeError, ValueError):
        raise InputError("bias", bias, wanted) from None
    if found.shape != (T, T):
        raise InputError("bias", Words(f"shape {found.shape}"), wanted)
    return found if mask is None else np.where(_open(T, mask), found, -np.inf)


def _open(T: int, mask: Any) -> Any:
    """True where position t reads s."""
    t, s = np.indices((T, T))
    if isinstance(mask, str):
        if mask != "causal":
            raise InputError("mask", mask, '"causal", a window, or a table')
        return s <= t
    if isinstance(mask, int | np.integer) and not isinstance(mask, bool):
        return (s <= t) & (s > t - as_integer("mask", mask, 1))
    wanted = f"a table ({T}, {T}) of booleans"
    try:
        found = np.asarray(mask)
    except ValueError:
        raise InputError("mask", mask, wanted) from None
    if found.shape != (T, T) or found.dtype != bool:
        raise InputError("mask", Words(f"shape {found.shape}"), wanted)
    return found


def shown_table(given: Any) -> Any:
    """Itself where a text can show it, else that it is a table."""
    plain = given is None or isinstance(given, str | int | float | sympy.Expr)
    return given if plain or isinstance(given, tuple) else "table"
