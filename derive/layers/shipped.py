"""The layers with names, by their text too: dense, with a norm, residual, gated, convolutions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import sympy

from ..errors import InputError, listed
from ..expressions import MAX_LENGTH, as_expression, parse_number
from .convolutions import convolution, flattening, pooling
from .layer import Layer
from .norms import NORMS, Norm, shown_as


@cache
def dense() -> Layer:
    """z' = b + W σ(z), the layer of source 000, eq. (3.1), and of a network that says nothing else.

    >>> dense().is_dense
    True
    """
    return Layer("z[i] = b[i] + W[i,a] s(z[a])", label="dense()")


def dropout(p: object) -> Layer:
    """z' = b + W (μ ∘ σ(z))/p, averaged over masks: μ is 1 with chance p and 0 otherwise.

    Each neuron has a μ of its own, and so has each input. In an average r factors σ, or derivatives
    of it, of one neuron and one input bring E[(μ/p)^r] = p^{1−r}: K' = C_W ⟨σσ⟩/p + C_b of an input
    with itself, and of two different inputs C_W ⟨σ₁σ₂⟩ + C_b. With several inputs a recursion is
    that of different ones; where k samples of a bracket are one input, flows and written modules
    multiply it by p^{1−k}.

    Arguments:
        p: the chance to keep a neuron, in (0, 1], or a symbol.

    Derived here. Raises InputError for a chance outside.

    >>> print(dropout("1/2"))
    dropout(1/2)
    """
    wanted = "a chance to keep a neuron, in (0, 1], or a symbol"
    value = as_expression("p", p, wanted)
    if isinstance(p, float):
        value = parse_number("p", p)
    if value.is_number and not 0 < value <= 1:
        raise InputError("p", p, wanted)
    unsigned = {s: sympy.Symbol(s.name, positive=True) for s in value.free_symbols}
    value = value.subs(unsigned)
    if value == 1:
        return dense()
    return Layer("z[i] = b[i] + W[i,a] s(z[a])", label=f"dropout({value})", keep=value)


def normalized(norm: str, eps: object = 0) -> Layer:
    """z' = b + W σ(y), y the normalized z.

    Arguments:
        norm: "rms", y = z/√(q + ε) with q = Σ z²/n; or "layer", y = (z − m)/√(q − m² + ε) with
            m = Σ z/n.
        eps: ε, 0 or more, or a symbol.

    Derived here. Raises InputError for another norm, and for ε < 0.

    >>> print(normalized("rms"))
    normalized(rms)
    """
    given = Norm(norm, eps)
    if norm is None:
        raise InputError("norm", norm, '"rms" or "layer"')
    label = f"normalized({', '.join([*given.shown('')])})"
    return Layer(*given.lines, "z[i] = b[i] + W[i,a] s(y[a])", label=label, **given.values)


def residual(
    skip: object = 1,
    norm: str | None = None,
    eps: object = 0,
    ratio: object = 1,
    C: Sequence[object] | None = None,
) -> Layer:
    """z' = γ z + b + W₂ σ(W₁ y), y = z or the normalized z: a skip around two matrices.

    Arguments:
        skip: γ, a number or a symbol.
        norm, eps: as those of `normalized`; None is none.
        ratio: the width of the hidden layer over n.
        C: (C₁, C₂), the variances of W₁ and W₂ times their fan-ins; by default the network's C_W.

    Derived here. Raises InputError for another norm, for ε < 0, and for a width that is not
    positive.

    >>> residual(skip=1, norm="rms")
    residual(skip=1, norm=rms)
    """
    given = Norm(norm, eps)
    gamma = as_expression("skip", skip, _NUMBER)
    variances = _variances(C, 2)
    wanted = "a width of the hidden layer over n, above 0"
    width = as_expression("ratio", ratio, wanted)
    if width.is_nonpositive:
        raise InputError("ratio", ratio, wanted)
    shape = shown_as(ratio=None if width == 1 else width, C=C)
    parts = [f"skip={gamma}", *given.shown("norm="), *shape]
    return Layer(
        *given.lines,
        f"h[i] = W1[i,a] {given.name}[a]",
        "z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a])",
        label=f"residual({', '.join(parts)})",
        C=variances,
        ratio={"h": width} if width != 1 else None,
        gamma=gamma,
        **given.values,
    )


def gated(
    skip: object = 0,
    norm: str | None = None,
    eps: object = 0,
    C: Sequence[object] | None = None,
) -> Layer:
    """z' = γ z + b + W₃[(W₁ y) ∘ σ(W₂ y)]: GLU, SwiGLU, GEGLU by σ = sigmoid, silu, gelu.

    Arguments:
        skip: γ, a number or a symbol.
        norm, eps: as those of `normalized`; None is none.
        C: (C₁, C₂, C₃), the variances of the matrices; by default the network's C_W.

    Derived here. Raises InputError for another norm and for ε < 0.

    >>> gated(norm="rms")
    gated(norm=rms)
    """
    given = Norm(norm, eps)
    gamma = as_expression("skip", skip, _NUMBER)
    shown = [f"skip={gamma}"] if gamma != 0 else []
    parts = [*shown, *given.shown("norm="), *shown_as(C=C)]
    return Layer(
        *given.lines,
        f"h[i] = W1[i,a] {given.name}[a]",
        f"g[i] = W2[i,a] {given.name}[a]",
        "z[i] = gamma z[i] + b[i] + W3[i,a] h[a] s(g[a])",
        label=f"gated({', '.join(parts)})",
        C=_variances(C, 3),
        gamma=gamma,
        **given.values,
    )


def skip(gamma: object, norm: str | None = None, eps: object = 0) -> Layer:
    """z' = γ z + b + W σ(y), y = z or the normalized z: a skip around one matrix.

    Arguments:
        gamma: γ, a number other than 0, or a symbol.
        norm, eps: as those of `normalized`; None is none.

    Only permutations of the neurons keep its law: cumulants of z_i² with every power of z_j enter
    V. `recursion` and `flow` close G1, V, Θ1, D, F, A and B on sequences, behind a norm too
    (`engine.tangents`); K and Θ are as those of other layers, and tensors beyond are refused.
    Derived here. Raises InputError for ε < 0 and for γ = 0.

    >>> skip("1/2")
    skip(1/2)
    """
    given = Norm(norm, eps)
    value = as_expression("gamma", gamma, _NUMBER)
    if value.is_zero:
        raise InputError("gamma", gamma, "a number other than 0; without a skip it is dense()")
    return Layer(
        *given.lines,
        f"z[i] = gamma z[i] + b[i] + W[i,a] s({given.name}[a])",
        label=f"skip({', '.join([str(value), *given.shown('norm=')])})",
        gamma=value,
        **given.values,
    )


_NUMBER = "a finite real number, or a symbol"


def _variances(C: Sequence[object] | None, count: int) -> dict[str, object]:
    if C is None:
        return {}
    wanted = f"the variances of {count} matrices"
    values = listed("C", C, wanted)
    if len(values) != count:
        raise InputError("C", C, wanted)
    return {f"W{k}": value for k, value in enumerate(values, start=1)}


_SHIPPED: dict[str, tuple[Callable[..., Layer], tuple[str, ...]]] = {
    "dense": (dense, ()),
    "dropout": (dropout, ("p",)),
    "normalized": (normalized, ("norm", "eps")),
    "residual": (residual, ("skip", "norm", "eps", "ratio", "C")),
    "gated": (gated, ("skip", "norm", "eps", "C")),
    "skip": (skip, ("gamma", "norm", "eps")),
    "convolution": (
        convolution,
        ("size", "positions", "weights", "boundary", "readout", "norm", "eps"),
    ),
    "pooling": (pooling, ("positions",)),
    "flattening": (flattening, ("positions",)),
}


_NEEDED = {
    "dropout": ("p",),
    "normalized": ("norm",),
    "skip": ("gamma",),
    "convolution": ("size", "positions"),
    "pooling": ("positions",),
    "flattening": ("positions",),
}

_EXAMPLES = {
    "dropout": "dropout(0.9)",
    "normalized": "normalized(rms)",
    "skip": "skip(1/2)",
    "convolution": "convolution(3, 8)",
    "pooling": "pooling(8)",
    "flattening": "flattening(8)",
}


def read(text: str) -> Layer:
    """A shipped layer by its text, such as "residual(skip=1, norm=rms)", as `str` gives it.

    By definition the inverse of `str`, by a whitelist. Raises InputError for anything else.

    >>> read("gated(norm=layer, C=(1, 1, 2))")
    gated(norm=layer, C=(1, 1, 2))
    """
    wanted = f"one of {', '.join(_SHIPPED)}, such as residual(skip=1, norm=rms)"
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise InputError("layer", text, wanted)
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if match is None or match[1] not in _SHIPPED:
        raise InputError("layer", text, wanted)
    make, known = _SHIPPED[match[1]]
    given: dict[str, Any] = {}
    for place, part in enumerate(_parts(match[2] or "")):
        name, equals, value = part.partition("=")
        if not equals:
            name, value = (known[place] if place < len(known) else part), part
        name = name.strip()
        if name not in known or name in given:
            options = ", ".join(known) or "no arguments"
            raise InputError("layer", part.strip(), f"one of {options}, once, in {match[1]}")
        given[name] = _value(value.strip())
    for name in _NEEDED.get(match[1], ()):
        if name not in given:
            wanted = (
                f"{match[1]} with {' and '.join(_NEEDED[match[1]])}, as in {_EXAMPLES[match[1]]}"
            )
            raise InputError("layer", text, wanted)
    return make(**given)


def as_layer(given: Layer | str) -> Layer:
    """A layer as it is, or a shipped one by its text. By definition.

    Raises InputError for anything else.

    >>> as_layer("dense").is_dense
    True
    """
    return given if isinstance(given, Layer) else read(given)


def _parts(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [part for part in found if part.strip()]


def _value(text: str) -> object:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if text in NORMS or text == "None":
        return None if text == "None" else text
    if text[:1] in {"(", "["} and text[-1:] in {")", "]"}:
        return tuple(_value(part.strip()) for part in _parts(text[1:-1]))
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text


_SYMBOLS = {
    name: sympy.Symbol(name, positive=True)
    for name in ("gamma", "eps", "ratio", "C1", "C2", "C3", "p")
}
