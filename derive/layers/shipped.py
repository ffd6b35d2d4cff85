"""The layers with names, by their text too: dense, with a norm, residual, gated, convolutions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, cast

import sympy

from ..errors import InputError, as_sequence, did_you_mean, flag
from ..expressions import MAX_LENGTH, as_expression, parse_number, parts
from . import composed
from .along import Along
from .attention import Laws, Sharing, Sigmas, attention, beside, shown_table
from .convolutions import convolution, flattening, pooling
from .layer import Layer, variances_of
from .norms import WANTED, Norm, named_text, over_samples, shown_as

_DENSE = "z[i] = b[i] + W[i,a] s(z[a])"


def dense(weights: Laws = None, activations: Sigmas = None) -> Layer:
    """z' = b + W σ(z), the layer of source 000, eq. (3.1), and of a network that says nothing else.

    Arguments:
        weights, activations: as of `layers.Layer`; by default the network's.

    >>> dense().is_dense
    True
    """
    label = f"dense({', '.join(_own(weights, activations))})"
    return Layer(_DENSE, weights=weights, activations=activations, label=label)


def dropout(keep: object) -> Layer:
    """z' = b + W (μ ∘ σ(z))/p, averaged over masks: μ is 1 with chance p = `keep` and 0 otherwise.

    Each neuron has a μ of its own, and so has each input. In an average r factors σ, or derivatives
    of it, of one neuron and one input bring E[(μ/p)^r] = p^{1−r}: K' = C_W ⟨σσ⟩/p + C_b of an input
    with itself, and of two different inputs C_W ⟨σ₁σ₂⟩ + C_b. With several inputs a recursion is
    that of different ones; where k samples of a bracket are one input, flows and written modules
    multiply it by p^{1−k}.

    Arguments:
        keep: the chance p to keep a neuron, in (0, 1], or a symbol. PyTorch's argument is 1 − p.

    Derived here. Raises InputError for a chance outside.

    >>> print(dropout("1/2"))
    dropout(1/2)
    """
    wanted = "a chance to keep a neuron, in (0, 1], or a symbol"
    value = as_expression("keep", keep, wanted)
    if isinstance(keep, float):
        value = parse_number("keep", keep)
    if value.is_number and not 0 < value <= 1:
        raise InputError("keep", keep, wanted)
    unsigned = {s: sympy.Symbol(s.name, positive=True) for s in value.free_symbols}
    value = value.subs(unsigned)
    if value == 1:
        return dense()
    return Layer(_DENSE, label=f"dropout({value})", keep={"W": value})


def sequence(*blocks: Layer | str) -> Layer:
    """Several layers one after another, as one layer.

    A network counts it as one layer: all of its parts have the C_b and the learning rates of that
    layer. All widths between its parts are n.

    Arguments:
        blocks: layers, or their texts.

    By definition. Raises InputError if there are no blocks, for convolutions of other positions
    than the block before gives, and for a readout that is not the last block's.

    >>> sequence("residual(norm=rms)", "gated(norm=rms)")
    sequence(residual(skip=1, norm=rms), gated(norm=rms))
    """
    if not blocks:
        raise InputError("blocks", blocks, "one or more layers")
    return composed.joined([as_layer(each) for each in blocks])


def around(
    block: Layer | str,
    skip: object = 1,
    norm: str | None = None,
    eps: object = 0,
    label: str | None = None,
    projected: bool = False,
) -> Layer:
    """z' = γ z + block(y), y = z or the normalized z: a skip around any block.

    Arguments:
        block: a layer, or its text.
        skip: γ, a number or a symbol; 0 means no skip.
        norm, eps: as in `layers.normalized`; None means no norm.
        label: the text that `str` shows.
        projected: whether the skip has a matrix of its own, z' = γ W_s z + block(y), of the
            network's law and variance C_W: a 1×1 convolution, where z is a signal.

    Where the block gives other positions, the skip reads those of its strides, and the means of its
    windows (`layers.convolution`, `layers.pooling`). By definition. Raises InputError as
    `layers.sequence` does, and where a skip has no positions to read.

    >>> print("; ".join(around("dense", skip="1/2").lines))
    z[i] = gamma z[i] + b[i] + W[i,a] s(z[a])
    >>> around("sequence(gated, dense)", skip="1/2", norm="rms")
    around(sequence(gated(), dense()), skip=1/2, norm=rms)
    """
    flag("projected", projected)
    return composed.around(as_layer(block), skip, norm, eps, label, projected=projected)


def normalized(
    norm: str, eps: object = 0, weights: Laws = None, activations: Sigmas = None
) -> Layer:
    """z' = b + W σ(y), y the normalized z.

    Arguments:
        norm: "rms", y = z/√(q + ε) with q = Σ z²/n; or "layer", y = (z − m)/√(q − m² + ε) with
            m = Σ z/n; or "group(G)", the same in each of G groups of n/G neurons, as in Y. Wu and
            K. He, "Group normalization", ECCV 2018; or "rms(G)". In a block of signals " over
            positions" behind it makes the means those over positions, too. Or "batch", over all
            samples at each neuron, of signals over the positions, too (`batchnorm`).
        eps: ε, 0 or more, or a symbol.
        weights, activations: as of `layers.Layer`; by default the network's.

    Derived here. Raises InputError for another norm, and for ε < 0.

    >>> print(normalized("rms"))
    normalized(rms)
    """
    if norm is None:
        raise InputError("norm", norm, WANTED)
    shown = [*Norm(norm, eps).shown(""), *_own(weights, activations)]
    block = Layer(_DENSE, weights=weights, activations=activations)
    return around(block, 0, norm, eps, f"normalized({', '.join(shown)})")


def batchnorm(
    eps: object = 0,
    center: bool = True,
    affine: Sequence[object] | None = None,
    behind: bool = False,
    weights: Laws = None,
    activations: Sigmas = None,
) -> Layer:
    """z' = b + W σ(y), y the batch-normalized z: a norm over the samples, at each neuron by itself.

    y_s = (z_s − m)/√(v + ε), with m and v the mean and the variance of z over all given samples.
    The samples are the batch, as in training mode.

    Arguments:
        eps: ε, 0 or more, or a symbol.
        center: whether m is taken off; without it m = 0, and v is the mean of z².
        affine: (gain, shift) of y; by default (1, 0).
        behind: whether the norm stands behind σ: z' = b + W y, y the normalized σ(z).
        weights, activations: as of `layers.Layer`; by default the network's.

    Derived here. Raises InputError for ε < 0.

    >>> print("; ".join(batchnorm(center=False).lines))
    y[i;s] = z[i;s]/sqrt(mean_s((z[i;s])^2) + eps); z[i] = b[i] + W[i,a] s(y[a])
    """
    center, behind = flag("center", center), flag("behind", behind)
    norm = Norm("rms", eps)
    pair = None if affine is None else as_sequence("affine", affine, "(gain, shift)")
    if pair is not None and len(pair) != 2:
        raise InputError("affine", affine, "(gain, shift)")
    line = over_samples("s(z[i;s])" if behind else "z[i;s]", center=center)
    values = dict(norm.values)
    if pair:
        line, values = f"gain*{line} + shift", values | {"gain": pair[0], "shift": pair[1]}
    shown = [*norm.shown("")[1:], *([] if center else ["center=False"])]
    shown += [*shown_as(affine=pair), *(["behind=True"] if behind else [])]
    return Layer(
        f"y[i;s] = {line}",
        f"z[i] = b[i] + W[i,a] {'y[a]' if behind else 's(y[a])'}",
        weights=weights,
        activations=activations,
        label=f"batchnorm({', '.join([*shown, *_own(weights, activations)])})",
        **values,
    )


def residual(
    skip: object = 1,
    norm: str | None = None,
    eps: object = 0,
    ratio: object = 1,
    C: Sequence[object] | None = None,
    weights: Laws = None,
    activations: Sigmas = None,
) -> Layer:
    """z' = γ z + b + W₂ σ(W₁ y), y = z or the normalized z: a skip around two matrices.

    Arguments:
        skip: γ, a number or a symbol.
        norm, eps: as those of `normalized`; None is none.
        ratio: the width of the hidden layer over n.
        C: (C₁, C₂), the variances of W₁ and W₂ times their fan-ins; by default the network's C_W.
        weights, activations: as of `layers.Layer`; by default the network's.

    Derived here. Raises InputError for another norm, for ε < 0, and for a width that is not
    positive.

    >>> residual(skip=1, norm="rms")
    residual(skip=1, norm=rms)
    """
    wanted = "a width of the hidden layer over n, above 0"
    width = as_expression("ratio", ratio, wanted)
    if width.is_nonpositive:
        raise InputError("ratio", ratio, wanted)
    block = Layer(
        "h[i] = W1[i,a] z[a]",
        "z[i] = b[i] + W2[i,a] s(h[a])",
        C=variances_of(C, ("W1", "W2"), "the variances of 2 matrices"),
        ratio={"h": width} if width != 1 else None,
        weights=weights,
        activations=activations,
    )
    gamma = as_expression("skip", skip, _NUMBER)
    shape = shown_as(ratio=None if width == 1 else width, C=C)
    shown = [f"skip={gamma}", *Norm(norm, eps).shown("norm="), *shape]
    shown += _own(weights, activations)
    return around(block, gamma, norm, eps, f"residual({', '.join(shown)})")


def gated(
    skip: object = 0,
    norm: str | None = None,
    eps: object = 0,
    C: Sequence[object] | None = None,
    weights: Laws = None,
    activations: Sigmas = None,
) -> Layer:
    """z' = γ z + b + W₃[(W₁ y) ∘ σ(W₂ y)]: GLU, SwiGLU, GEGLU by σ = sigmoid, silu, gelu.

    Arguments:
        skip: γ, a number or a symbol.
        norm, eps: as those of `normalized`; None is none.
        C: (C₁, C₂, C₃), the variances of the matrices; by default the network's C_W.
        weights, activations: as of `layers.Layer`; by default the network's.

    Derived here. Raises InputError for another norm and for ε < 0.

    >>> gated(norm="rms")
    gated(norm=rms)
    """
    block = Layer(
        "h[i] = W1[i,a] z[a]",
        "g[i] = W2[i,a] z[a]",
        "z[i] = b[i] + W3[i,a] h[a] s(g[a])",
        C=variances_of(C, ("W1", "W2", "W3"), "the variances of 3 matrices"),
        weights=weights,
        activations=activations,
    )
    gamma = as_expression("skip", skip, _NUMBER)
    shown = [f"skip={gamma}"] if gamma != 0 else []
    shown += [*Norm(norm, eps).shown("norm="), *shown_as(C=C), *_own(weights, activations)]
    return around(block, gamma, norm, eps, f"gated({', '.join(shown)})")


def transformer(
    heads: int | str | sympy.Expr,
    positions: int | Sequence[int],
    ratio: object = 4,
    norm: str | None = "rms",
    eps: object = 0,
    skip: object = 1,
    activations: Sigmas = None,
    weights: Laws = None,
    parallel: bool = False,
    **given: Any,
) -> Layer:
    """A block of a transformer: `attention` and then `residual`, with norms before both.

    Arguments:
        heads, positions: as of `attention`.
        ratio: the width of the hidden layer over n.
        norm, eps, skip: of both halves.
        activations: σ of the second half; by default the network's.
        weights: the law of all matrices; by default the network's.
        parallel: whether both halves read the same normalized z, and are added to it together.
        given: the other arguments of `attention`.

    By definition. Raises InputError as `attention` and `residual` do.

    >>> transformer(4, 8)
    transformer(4, 8, norm=rms)
    """
    flag("parallel", parallel)
    shown = [str(heads), str(positions), *shown_as(ratio=None if ratio == 4 else ratio)]
    shown += [*Norm(norm, eps).shown("norm="), *shown_as(skip=None if skip == 1 else skip)]
    shown += [*_own(weights, activations), *(["parallel=True"] if parallel else [])]
    shown += shown_as(**{name: shown_table(each) for name, each in given.items()})
    label = f"transformer({', '.join(shown)})"
    if parallel:
        block = attention(heads, positions, skip=0, weights=weights, **given)
        return around(beside(block, ratio, activations), skip, norm, eps, label)
    halves = (
        attention(heads, positions, skip=skip, norm=norm, eps=eps, weights=weights, **given),
        residual(skip, norm, eps, ratio, weights=weights, activations=activations),
    )
    return composed.joined(halves, label)


def skip(
    gamma: object,
    norm: str | None = None,
    eps: object = 0,
    weights: Laws = None,
    activations: Sigmas = None,
) -> Layer:
    """z' = γ z + b + W σ(y), y = z or the normalized z: a skip around one matrix.

    Arguments:
        gamma: γ, a number other than 0, or a symbol.
        norm, eps: as those of `normalized`; None is none.
        weights, activations: as of `layers.Layer`; by default the network's.

    Only permutations of the neurons keep its law: cumulants of z_i² with every power of z_j enter
    V. `recursion` and `flow` close G1, V, Θ1, D, F, A and B on sequences, behind a norm too
    (`engine.skip_closure`); `flow` also P … U without a norm. K and Θ are as those of other layers.
    Derived here. Raises InputError for ε < 0 and for γ = 0.

    >>> skip("1/2")
    skip(1/2)
    """
    value = as_expression("gamma", gamma, _NUMBER)
    if value.is_zero:
        raise InputError("gamma", gamma, "a number other than 0; without a skip it is dense()")
    shown = [str(value), *Norm(norm, eps).shown("norm="), *_own(weights, activations)]
    block = Layer(_DENSE, weights=weights, activations=activations)
    return around(block, value, norm, eps, f"skip({', '.join(shown)})")


_NUMBER = "a finite real number, or a symbol"


def _own(weights: Laws, activations: Sigmas) -> list[str]:
    """The layer's own laws and activations, as its text shows them."""
    return shown_as(weights=named_text(weights), activations=named_text(activations))


_SHIPPED: dict[str, Callable[..., Layer]] = {
    make.__name__: make
    for make in (
        dense, dropout, normalized, batchnorm, residual, gated, skip, convolution, attention,
        transformer, around, pooling, flattening,
    )
}  # fmt: skip
_NOT_TEXT = {"label", "bias"}
"""Arguments that a layer's text does not give."""
_OWN = {"weights", "activations", "law"}

_EXAMPLES = {
    "dropout": "dropout(0.9)",
    "normalized": "normalized(rms)",
    "skip": "skip(1/2)",
    "around": "around(gated, norm=rms)",
    "attention": "attention(4, 8)",
    "transformer": "transformer(4, 8)",
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
    wanted = f"one of {', '.join(_SHIPPED)}, sequence, such as residual(skip=1, norm=rms)"
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise InputError("layer", text, wanted)
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if match is not None and match[1] == "sequence":
        return sequence(*(part.strip() for part in parts(match[2] or "")))
    if match is None or match[1] not in _SHIPPED:
        wanted += did_you_mean(match[1] if match else text, [*_SHIPPED, "sequence"])
        raise InputError("layer", text, wanted)
    make = _SHIPPED[match[1]]
    needed = _arguments(make)
    known, given = list(needed), dict[str, Any]()
    for place, part in enumerate(parts(match[2] or "")):
        pair = re.fullmatch(r"\s*(\w+)\s*=(.*)", part, re.DOTALL)
        default = known[place] if place < len(known) else part.strip()
        name, value = pair.groups() if pair else (default, part)
        if name not in known or name in given:
            options = ", ".join(known) or "no arguments"
            raise InputError("layer", part.strip(), f"one of {options}, once, in {match[1]}")
        given[name] = _named(value.strip()) if name in _OWN else _value(value.strip())
    least = [name for name in known if needed[name]]
    if not given.keys() >= {*least}:
        wanted = f"{match[1]} with {' and '.join(least)}, as in {_EXAMPLES[match[1]]}"
        raise InputError("layer", text, wanted)
    return make(**given)


def _arguments(make: Callable[..., Layer]) -> dict[str, bool]:
    """The arguments that a layer's text may give, in order, and whether it has to."""
    found: dict[str, bool] = {}
    for name, each in signature(make).parameters.items():
        if each.kind is each.VAR_KEYWORD:  # those of an attention
            more = Sharing.__annotations__ if make is attention else _arguments(attention)
            found |= {other: False for other in more if other not in found}
        elif name not in _NOT_TEXT:
            found[name] = each.default is each.empty
    return found


def as_layer(given: Layer | str | Sequence[Layer | str]) -> Layer:
    """A layer as it is, or a shipped one by its text. By definition.

    A list of layers, text with ; between them, or `by_depth(block=…)` is one period of a network's
    layers and becomes one layer (`layers.sequence`). Raises InputError for anything else.

    >>> as_layer("dense").is_dense
    True
    >>> as_layer("residual(skip=1/2); dense")
    sequence(residual(skip=1/2), dense())
    """
    if isinstance(given, Layer):
        return given
    if isinstance(given, list | tuple):
        return sequence(*given)
    if isinstance(given, Along):
        if given.block == given.entries:
            return sequence(*given.block)
        wanted = "one layer: that of one depth, `net.layer_at(3, depth)`, or what is repeated, "
        raise InputError("layer", str(given), f"{wanted}`layers.as_period(…)`")
    text = cast(str, given)
    several = parts(text, ";") if isinstance(given, str) else [text]
    return read(text) if len(several) < 2 else sequence(*several)


def _value(text: str) -> object:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] in {"(", "["} and text[-1:] in {")", "]"}:
        return tuple(_value(part.strip()) for part in parts(text[1:-1]))
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text


def _named(text: str) -> object:
    """A name of a law or an activation, or several as in (W1: …, W2: …)."""
    if not (text.startswith("(") and text.endswith(")")):
        return None if text == "None" else text
    pairs = (part.partition(":") for part in parts(text[1:-1]))
    return {name.strip(): value.strip() for name, _, value in pairs}


_WORDS = {"None": None, "True": True, "False": False}
_SYMBOLS = {
    name: sympy.Symbol(name, positive=True)
    for name in ("gamma", "eps", "ratio", "C1", "C2", "C3", "p")
}
