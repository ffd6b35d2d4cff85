"""The first lines of a report: five questions, each with its answer and the numbers in it.

A change is found by making it: the variances of the model's matrices are scaled, the
network is read anew, and its theory computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import sympy
import xarray

from derive.errors import InputError

from ..arrays import Array
from ..tables.compare import Comparison, percent
from .attention import heads
from .blocks import ALIKE, repeated_blocks
from .description import Description
from .measurement import Sample
from .networks import network
from .resolution import fluctuations
from .sequential import one_in
from .theory import FLUCTUATES, Depth, Rates, Theory, propagation

_STABLE = 10.0
"""The factor over all hidden layers up to which signals and gradients count as stable."""
_NEAR = 0.02
"""A relative change of a gain that is not worth while."""
_UNLIKE = 0.05
"""A difference of log χ⊥ between a layer and their mean that is worth a word."""
_GROWTH = math.e
"""The factor by which K may grow over all residual blocks when a branch is scaled."""
_MOST = 0.8
"""The share of a change that is most of it."""
_EFFECT = 0.1
"""The least change of all layers' gradients together, in units of that of one matrix."""
_LEAST_SCORES = 0.01
"""The variance of scores below which weights of attention differ by some 10 % at most."""
ZERO = 1e-9
"""The |V|/(nK²) below which it is 0 but for rounding and the eps of a norm."""
_ROUNDING = 1e-12
"""Of a number: an error of less is none."""
_TRIES, _EXACT, _LARGEST = 10, 1e-3, 1e4
"""Networks that are tried, the accuracy of log f, and the largest factor f of a variance."""


class Finding(NamedTuple):
    """An answer of the report.

    Attributes:
        question: what it answers.
        answer: in words.
        values: the numbers in it, by names.
        more: further lines.
    """

    question: str
    answer: str
    values: Mapping[str, Any] = {}
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  ".join([f"{self.question} {self.answer}", *self.more])


def short(value: float, error: float = 0.0) -> str:
    """A number to four digits; with an error of two digits, to as many as that.

    An error that is rounding alone is left out.

    >>> short(0.123456), short(1.23456, 0.0123), short(17000.4, 260), short(math.nan)
    ('0.1235', '1.235 ± 0.012', '17000 ± 260', '–')
    >>> short(14.5, 2.4e-15)
    '14.5'
    """
    if math.isnan(value):
        return "–"
    if not math.isfinite(error) or error <= _ROUNDING * abs(value):
        return f"{value:.4g}"
    places = 1 - math.floor(math.log10(error))
    rounded = f"{round(value, places):.{max(places, 0)}f}"
    if places > 5 or abs(value) >= 1e6:
        return f"{value:.4g} ± {error:.2g}"
    return f"{rounded} ± {round(error, places):.{max(places, 0)}f}"


def is_read_right(
    comparisons: Sequence[Comparison], derived: Theory, draws: int, alarms: float
) -> Finding:
    """By the model's own draws: what agrees, and the error that would have been seen."""
    question, told, values = "Is the model read right?", [], dict[str, Any]()
    wrong = [each for each in comparisons if not each.agrees]
    by_name = dict[str, list[Comparison]]()
    for each in comparisons:
        by_name.setdefault(", ".join(each.tensors), []).append(each)
    for name, parts in by_name.items():  # several where layers differ in their positions
        each = max(parts, key=lambda part: part.resolution)
        if name == "V":
            n = int(each.widths[0])
            _, off_by = fluctuations(each, derived.second, n)
            told.append(f"V/(nK²) to {off_by:.1g}" if off_by < 1 else "V is not resolved")
        elif name != "spread":
            told.append(f"{name.replace('Theta', 'Θ')} {_resolved(each, len(derived.variances))}")
        agrees = all(part.agrees for part in parts)
        values[name] = {"agrees": agrees, "resolution": each.resolution}
    rate = f"false alarms: {one_in(alarms)}"
    values |= {"agrees": not wrong, "initializations": draws, "false_alarms": alarms}
    if not wrong:
        return Finding(
            question,
            f"Yes: {draws} initializations agree with theory, {', '.join(told)} ({rate}).",
            values,
        )
    row = max((each.worst for each in wrong), key=lambda row: abs(row.z))
    said = (
        f"NO: {row.place} is {short(row.theory)} by theory and {short(row.sample)} in {draws} "
        f"initializations, which is {abs(row.z):.2g} standard errors apart ({rate})."
    )
    return Finding(question, said, values)


def _resolved(comparison: Comparison, depth: int) -> str:
    """To what K and Θ are known: of few outputs K is known less well than of hidden layers."""
    hidden, outputs = (
        max((row.share for row in comparison.rows if (row.layer == depth) == is_last), default=0.0)
        for is_last in (False, True)
    )
    if outputs <= 2 * hidden or not hidden:
        return f"to {_share(max(hidden, outputs))}"
    return f"of hidden layers to {_share(hidden)}, of outputs to {_share(outputs)}"


def _share(resolution: float) -> str:
    return percent(resolution) if resolution <= 1 else f"a factor of {1 + resolution:.2g}"


def on_tokens(description: Description, derived: Theory) -> Finding | None:
    """The effect of attention on tokens, layer by layer; None without attention."""
    own, K, tokens = {}, derived.variances, derived.tokens
    for each in heads(description.structure, description.laws):
        own[each.layer] = each.variance(float(K[each.layer - 2]))
    if not own or tokens is None:
        return None
    last = max((at for at in range(len(K)) if not math.isnan(tokens[at])), default=0)
    answer = (
        f"Their correlation goes from {tokens[0]:.3f} to {tokens[last]:.3f} (layer {last + 1})."
    )
    V = derived.fluctuations
    more = [
        f"Layer {layer}: scores have variance β² = {short(beta)}; K {short(K[layer - 2])} to "
        f"{short(K[layer - 1])}, correlation {tokens[layer - 2]:.3f} to {tokens[layer - 1]:.3f}"
        + ("." if V is None else f", V/(nK²) of a token {short(V[layer - 1])}.")
        for layer, beta in own.items()
    ]
    values = {"beta2": own, "correlation": [None if math.isnan(e) else float(e) for e in tokens]}
    return Finding("What does attention do to tokens?", answer, values, tuple(more))


def is_stable(description: Description, derived: Theory) -> Finding:
    """By what factor a hidden layer changes signals and gradients."""
    question = "Are signals and gradients stable with depth?"
    if description.depth < 3:
        return Finding(question, "There is one hidden layer, so nothing is repeated.")
    signals, gradients = _factors(derived)
    count = description.depth - 2
    values = {"signals": signals, "gradients": gradients, "layers": count}
    if math.isnan(gradients):
        return Finding(question, "Not known for such layers.", values)
    faults, jumps = _faults(derived)
    answer = f"No: {' and '.join(faults)}." if faults else "Yes, at this depth."
    told = (
        f"From one hidden layer to the next the variance K of signals is multiplied by "
        f"{short(signals)}, the square of gradients by {short(gradients)} (χ⊥){_tenfold(gradients)}"
    )
    return Finding(question, ". ".join([f"{answer} {told}", *jumps]) + ".", values)


def _faults(derived: Theory) -> tuple[list[str], list[str]]:
    """The signals or gradients that explode or vanish with depth; and those that change at one
    layer alone, as behind a first matrix of another size, which no depth repeats."""
    K, faults, jumps = derived.variances, list[str](), list[str]()
    with np.errstate(all="ignore"):
        both = {"signals": K[1:-1] / K[:-2], "gradients": derived.perpendicular[1:-1]}
        for name, factors in both.items():
            total, changes = float(factors.prod()), abs(np.log(factors))
            if math.isnan(total) or 1 / _STABLE <= total <= _STABLE:
                continue
            at = int(np.argmax(changes))
            if len(changes) > 1 and changes[at] > _MOST * changes.sum():
                jumps.append(f"At layer {at + 2} alone {name} change by {short(factors[at])}")
            else:
                faults.append(f"{name} {'explode' if total > 1 else 'vanish'}")
    return faults, jumps


def _tenfold(factor: float) -> str:
    change = abs(math.log(factor)) if 0 < factor < math.inf else 0.0
    if change < 0.01:
        return ""
    return f": a factor of 10 in {math.log(10) / change:.2g} layers"


def _factors(derived: Theory) -> tuple[float, float]:
    """Of K and of gradients, per hidden layer: geometric means, without the first layer and the
    head."""
    return _per_layer(derived.variances, derived.perpendicular)


def _per_layer(K: Array, chi: Array) -> tuple[float, float]:
    count = len(K) - 2
    if count < 1:
        return math.nan, math.nan
    with np.errstate(all="ignore"):
        signals = float((K[-2] / K[0]) ** (1 / count))
        return signals, float(np.exp(np.log(chi[1:-1]).mean()))


def is_wide(description: Description, derived: Theory, sampled: Sample | None = None) -> Finding:
    """V/(nK²): how much initializations differ; as measured where theory does not have it."""
    question, n = "How far is it from its infinite-width limit?", description.widths[1]
    ratios, error = ratios_of(description, derived, sampled)
    if not np.isfinite(ratios).any():
        why = derived.missing.get("V", "it takes longer: use --more, or more=True")
        return Finding(question, f"V is not known here ({why}).")
    at = int(np.nanargmax(abs(ratios)))
    ratio = float(ratios[at]) if abs(ratios[at]) > ZERO else 0.0
    spread = percent(math.sqrt(abs(ratio)))
    told = f"{short(ratio, error)} as measured" if error else f"{ratio:.2g} at most"
    said = f"V/(nK²) is {told} (layer {at + 1})"
    if ratio < 0:
        said += ": initializations differ less than with independent weights"
    else:
        said += f": between initializations the variance of a layer's neurons differs by {spread}"
    judged = (
        "Close: infinite-width theory describes each network."
        if abs(ratio) < FLUCTUATES
        else "Far: initializations differ visibly."
        if abs(ratio) < 1
        else "Beyond it: each network is unlike the others."
    )
    return Finding(question, f"{judged} {said}.", {"ratio": ratio, "layer": at + 1, "n": n})


def ratios_of(
    description: Description, derived: Theory, sampled: Sample | None = None
) -> tuple[Array, float]:
    """V/(nK²) at the first input by layer, NaN where it is not known; as measured, with its largest
    standard error, where theory does not have it. Behind attention it is that of a token."""
    of_tokens = derived.fluctuations
    if "V" in derived.second or of_tokens is not None:
        found = np.full(description.depth, np.nan)
        if "V" in derived.second:
            found = by_layer(description, derived, derived.second["V"])
        if of_tokens is not None:
            found[: len(of_tokens)] = of_tokens
        return found, 0.0
    if sampled is None or sampled.second is None:
        return np.full(description.depth, np.nan), 0.0
    found, errors = (by_layer(description, derived, sampled.second[at]) for at in ("V", "V_se"))
    return found, float(np.nanmax(errors))


def by_layer(description: Description, derived: Theory, V: xarray.DataArray) -> Array:
    """V of the first input over nK²."""
    found, rows = np.full(description.depth, np.nan), V["layer"].to_numpy() - 1
    with np.errstate(all="ignore"):
        own = V.to_numpy().reshape(len(V), -1)[:, 0] / derived.variances[rows] ** 2
    found[rows] = own / description.widths[1]
    return found


def is_learning(rates: Rates, held: Sequence[str]) -> Finding:
    """The largest stable learning rate."""
    question = "What is the largest stable learning rate?"
    values = {"stable": rates.stable, "fastest": rates.fastest, "spread": rates.spread}
    if math.isnan(rates.stable):
        return Finding(question, f"Not known: {rates.why}.", values)
    spread = 0.0 if math.isnan(rates.spread) else rates.spread
    told = f"{short(rates.stable, spread)}"
    told += " (standard deviation over initializations)" if spread else ""
    told += f", fastest at {short(rates.fastest)}"
    if rates.error:
        told += f", both ± {percent(rates.error)} by the measured variances"
    said = f"{told}: gradient descent on ½ Σ (z − y)² over all these inputs"
    said += f", with {', '.join(held)} not trained" if held else ""
    return Finding(question, f"{said}.", values)


# what to change


def to_change(
    description: Description,
    derived: Theory,
    scales: Sequence[Finding],
    as_it_is: Depth | None,
    sampled: Sample | None = None,
) -> Finding:
    """Gain or residual scale, as `scaled` has them, width and depth, each with the number that it
    gives."""
    question, lines, values = "What should be changed?", list[str](), dict[str, Any]()
    if description.averages_scores:
        return _of_scores(question, description, derived, scales)
    unstable = bool(_faults(derived)[0])
    lines += [found.answer for found in scales]
    values |= _values(scales)
    ratios, _ = ratios_of(description, derived, sampled)
    wide = True
    if np.isfinite(ratios).any():
        ratio, n = float(np.nanmax(abs(ratios))), description.widths[1]
        width = math.ceil(n * ratio / FLUCTUATES)
        values["width"] = width
        wide = ratio < FLUCTUATES
        if width > 1:
            told = "may be as small as" if wide else "has to be"
            lines.append(
                f"Width: layer 1 {told} {width} (now {n}, the others in proportion) for "
                f"|V|/(nK²) = {FLUCTUATES}."
            )
    if as_it_is is not None and not as_it_is.why:
        values["depth"] = as_it_is.tenth
        told = f"reaches {FLUCTUATES} at depth {as_it_is.tenth}"
        if as_it_is.tenth is None:
            told = f"is below {FLUCTUATES} to depth {as_it_is.reached}"
            if as_it_is.settled is not None:
                told = f"settles at {abs(as_it_is.settled):.2g}"
        lines.append(f"Depth: if the last hidden layer is repeated, |V|/(nK²) {told}.")
    needed = ["another gain"] if unstable and values.get("gain", 1.0) != 1 else []
    needed += ["smaller residual branches"] if unstable and "branch_scale" in values else []
    needed += ["another layer, as with a norm"] if unstable and not needed else []
    needed += ["fewer blocks"] if _has_too_many(values) else []
    if needed:
        then = "" if wide else "; check the width again then"
        answer = f"It needs {' and '.join(needed)}{then}."
    else:
        answer = "Nothing has to be." if wide else "It needs more width."
    return Finding(question, answer, values, tuple(lines))


def _of_scores(
    question: str, description: Description, derived: Theory, scales: Sequence[Finding]
) -> Finding:
    """The gain of queries and keys at which scores have variance 1, where a softmax of T tokens
    sees one of them (β² > 2 log T, from where on the largest weight is of order 1) or all alike."""
    lines, gains = list[str](), dict[int, float]()
    nodes: list[Any] = description.structure.graph.nodes
    most = 2 * math.log(max(math.prod(description.positions), 2))
    for each in heads(description.structure, description.laws):
        beta2 = each.variance(float(derived.variances[each.layer - 2]))
        told = f"QK gain of layer {each.layer}: "
        if _LEAST_SCORES <= beta2 <= most or not 0 < beta2 < math.inf:
            lines.append(f"{told}as it should be, scores have variance {short(beta2)}.")
            continue
        gains[each.layer] = beta2**-0.25
        names = ", ".join(nodes[at].weight for at in (each.node.query, each.node.key))
        effect = "the softmax sees one token alone" if beta2 > most else "all tokens weigh alike"
        lines.append(
            f"{told}times {short(gains[each.layer])} for queries and for keys ({names}): their "
            f"scores have variance 1 (now {short(beta2)}: {effect})."
        )
    lines += [found.answer for found in scales]
    values = {"qk_gains": gains, **_values(scales)}
    needed = ["another QK gain"] if gains else []
    needed += ["fewer blocks"] if _has_too_many(values) else []
    answer = f"It needs {' and '.join(needed)}." if needed else "Nothing has to be."
    more = "Gradients are not known: theory has none for scores over √d."
    return Finding(question, answer, values, (*lines, more))


def _values(findings: Sequence[Finding]) -> dict[str, Any]:
    return {name: value for each in findings for name, value in each.values.items()}


def _has_too_many(values: Mapping[str, Any]) -> bool:
    """True if the model has more blocks than it may have."""
    return bool(values.get("blocks", math.inf) < values.get("blocks_now", 0))


def _of_blocks(description: Description, X: Array) -> list[Finding]:
    """How deep it may be if the last block of attention is repeated, and why no deeper."""
    found = repeated_blocks(description, X)
    if found is None:
        return []
    most, alike = found.most, f"tokens' correlation is {short(found.correlation)}"
    ratio = "" if math.isnan(found.ratio) else f"V/(nK²) of a token is {found.ratio:.2g}"
    also = f" ({ratio})" if ratio else " (V is not known)"
    if found.fluctuates:
        told = f"at layer {found.fluctuates} V/(nK²) of a token reaches {FLUCTUATES} ({alike})"
    elif found.alike:
        told = f"at layer {found.alike} tokens' correlation passes {ALIKE}, so they are alike{also}"
    else:
        told = f"to layer {found.reached} nothing stops it: {alike}{also}"
    is_limit = bool(found.fluctuates or found.alike)
    layers = " to ".join(map(str, dict.fromkeys([found.start, found.end])))
    said = (
        f"Depth: {most} block{'s' * (most != 1)} {'at most' if is_limit else 'or more'} "
        f"(now {found.now}), if the last one (layer {layers}) is repeated: {told}."
    )
    values = {"blocks_now": found.now, **({"blocks": most} if is_limit else {})}
    return [Finding("blocks", said, values)]


def scaled(description: Description, X: Array, derived: Theory) -> list[Finding]:
    """By what the hidden matrices, or the branches beside skips, should be multiplied; of attention
    how many blocks there may be."""
    factors = _factors(derived)
    if not description.is_of_vectors:
        return _of_blocks(description, X)
    if not 0 < min(factors) < math.inf:
        return []
    has_skips = any(block.skip for block in description.structure.blocks)
    found = (_of_branches if has_skips else _of_gain)(description, X, derived)
    return [] if found is None else [found]


def _of_gain(description: Description, X: Array, derived: Theory) -> Finding | None:
    """The gain at which gradients neither grow nor fall from one hidden layer to the next."""
    made = description.structure
    paths = list(dict.fromkeys(each.weight for each in made.matrices(made.blocks[1:-1])))

    def change(factor: float) -> float:
        return math.log(_changed(description, X, paths, factor)[1])

    factor = _root(change, 0.0, math.log(_factors(derived)[1]))
    if factor is None:
        return None
    gain = math.sqrt(factor)
    if abs(gain - 1) < _NEAR:
        told = f"Gain: as it should be, gradients keep their size{_unlike(derived.perpendicular)}."
        return Finding("gain", told, {"gain": 1.0})
    K, chi = _profile(description, X, paths, factor)
    signals, gradients = _per_layer(K, chi)
    moved = derived.perpendicular > 0  # not behind a head of zeros, nor at layer 1
    if abs(np.log(chi[moved] / derived.perpendicular[moved]).sum()) < _EFFECT * abs(
        math.log(factor)
    ):
        return None  # a norm behind each matrix takes its size away
    told = (
        f"Gain: times {short(gain)} for the hidden matrices{_gains(description, paths, gain)}: "
        f"gradients × {short(gradients)} a layer{_unlike(chi)}, K × {short(signals)}."
    )
    return Finding("gain", told, {"gain": gain, "gradients": gradients, "signals": signals})


def _unlike(chi: Array) -> str:
    """χ⊥ of the last hidden layer, where the mean over layers hides how deeper ones would go on."""
    last, mean = chi[-2], np.exp(np.log(chi[1:-1]).mean())
    is_like = abs(math.log(last / mean)) < _UNLIKE
    return "" if is_like else f" on average, × {short(last)} at the last hidden one"


def _gains(description: Description, paths: Sequence[str], gain: float) -> str:
    """The new standard deviation over 1/√fan-in, where it is one number."""
    variances = {description.laws[path].C for path in paths}
    if len(variances) > 1:
        return ""
    return f", to {short(gain * math.sqrt(float(variances.pop())))}/√fan-in"


def _of_branches(description: Description, X: Array, derived: Theory) -> Finding | None:
    """The factor of all residual branches at which K grows by e over the blocks."""
    made = description.structure
    blocks = [block for block in made.blocks[1:-1] if block.skip]
    paths = [made.matrices([block])[-1].weight for block in blocks]
    count = description.depth - 2
    signals = _factors(derived)[0]
    if not paths or signals**count <= _GROWTH * (1 + _NEAR):
        return None

    def change(factor: float) -> float:
        found = _changed(description, X, paths, factor)[0]
        return count * math.log(found) - math.log(_GROWTH)

    factor = _root(change, math.log(1 / count), change(1 / count))
    if factor is None:
        return None
    scale = math.sqrt(factor)
    own, gradients = _changed(description, X, paths, factor)
    told = (
        f"Residual branches: times {short(scale)} for the last matrix of each ({_named(paths)}): "
        f"K grows × {short(own**count)} over all blocks "
        f"(now × {short(signals**count)}), gradients × {short(gradients)} a layer."
    )
    return Finding("branches", told, {"branch_scale": scale})


def _named(paths: Sequence[str]) -> str:
    """The first and the last of them."""
    return " to ".join(dict.fromkeys([paths[0], paths[-1]]))


def _root(change: Callable[[float], float], start: float, value: float) -> float | None:
    """The factor f of a variance where a function of it is 0, by secants in log f from a known
    point; None where there is none, or it is out of reach."""
    if not math.isfinite(value):
        return None
    here, there = start, start - value
    most = math.log(_LARGEST)
    for _ in range(_TRIES):
        if abs(there - here) < _EXACT:
            return math.exp(there)
        if abs(there) > most:
            return None
        try:
            found = change(math.exp(there))
        except (InputError, ValueError):
            return None
        if not math.isfinite(found) or found == value:
            return None
        here, there, value = there, there - found * (there - here) / (found - value), found
    return None


def _changed(
    description: Description, X: Array, paths: Sequence[str], factor: float
) -> tuple[float, float]:
    """`_factors` with the variances of these matrices times a factor."""
    return _per_layer(*_profile(description, X, paths, factor))


def _profile(
    description: Description, X: Array, paths: Sequence[str], factor: float
) -> tuple[Array, Array]:
    """K and χ⊥ by layer with the variances of these matrices times a factor."""
    made, by = description.structure, sympy.Float(factor, 15)
    laws = {
        path: replace(law, C=by * law.C, error=0.0) if path in paths else law
        for path, law in description.laws.items()
    }
    net, _ = network(made, laws)
    return propagation(net, description.samples(X[:1])[0], description.depth)
