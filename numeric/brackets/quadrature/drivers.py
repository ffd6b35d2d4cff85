"""The rules as source: what a written module calls for the nodes and weights of its brackets."""

from __future__ import annotations

from derive.activations.functions import Activation

from ...emit import printer
from .integrands import strips
from .panels import PANELS, legendre, smooth_width
from .trapezoid import FINEST


def support_source(activation: Activation) -> str:
    """The constants and rules that brackets of this activation use, for the top of a module."""
    if activation.is_smooth:
        heights = printer.constant("STRIPS", strips(activation))
        return "\n\n".join([heights + FINEST_SOURCE, TRAPEZOID_SOURCE])
    tables = [
        printer.constant(f"{label}_{nodes}", values, array=True)
        for nodes in dict.fromkeys(rule.nodes for rule in PANELS)
        for label, values in zip(("NODES", "WEIGHTS"), legendre(nodes), strict=True)
    ]
    kinks = printer.constant("KINKS", [float(kink) for kink in activation.kinks])
    width = f"SMOOTH = {printer.literal(smooth_width(activation))}  # the widest panel in z\n"
    return "\n\n".join([FINEST_SOURCE + kinks + width + "".join(tables), PANELS_SOURCE])


def rule_source() -> str:
    """`rule(rank)`: the panels' nodes and weights on (-1, 1), reach and width."""
    *cases, last = (
        f"return NODES_{nodes}, WEIGHTS_{nodes}, {reach!r}, {width!r}"
        for nodes, reach, width in PANELS
    )
    lines = [f"if rank <= {rank}:\n    {case}" for rank, case in enumerate(cases, start=1)]
    return "\n".join(
        [
            "@scalar",
            "def rule(rank):",
            '    """Nodes, weights, reach and widest panel for this many latent variables."""',
            *printer.indented([*lines, last]),
            "",
        ]
    )


FINEST_SOURCE = f"FINEST = {FINEST!r}  # the smallest step in x that is tried\n"

TRAPEZOID_SOURCE = '''\
@driver
def step(scale, strips, growth, accuracy, widest, degree=0):
    """The largest step h in x that keeps the trapezoid rule for F(scale x) within 2 exp(-accuracy).

    2 pi a/h = accuracy + a^2/2 + growth[j] bounds the error for every a <= strips[j]/scale, with
    degree/2 log(1 + a^2) added for a Hermite polynomial of that degree in x beside F. The widest
    step is for small scales, where growth overrates what F contributes. A scale that would need a
    step below FINEST gives nan, and so does its bracket.
    """
    largest = 0.0
    for j in range(len(strips)):
        needed = accuracy + growth[j]
        a = min(strips[j] / scale, math.sqrt(2.0 * needed))
        needed += 0.5 * degree * math.log(1.0 + a * a)
        largest = max(largest, 2.0 * math.pi * a / (needed + 0.5 * a * a))
    return min(largest, widest) if largest > FINEST else math.nan


@driver
def trapezoid(level, B, strips, growth, accuracy, reach):
    """Nodes and normal weights of one latent variable; a single node where no position has it."""
    scale = 0.0
    for k in range(level, B.shape[0]):
        scale = max(scale, abs(B[k, level]))
    if scale == 0.0:
        return np.zeros(1), np.ones(1)
    h = step(scale, strips, growth, accuracy, 3.0 / math.sqrt(accuracy))
    if math.isnan(h):
        return np.zeros(1), np.full(1, math.nan)
    count = int(math.ceil(reach / h))
    y = np.empty(2 * count + 1)
    w = np.empty(2 * count + 1)
    for k in range(-count, count + 1):
        y[count + k] = h * k
        w[count + k] = h / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * (h * k) ** 2)
    return y, w
'''
"""The trapezoid rule of emitted modules."""

PANELS_SOURCE = '''\
@driver
def split(points, count, reach, width):
    """Edges of panels from -reach to reach that end at points[:count], none wider than width."""
    ends = np.empty(count + 2)
    ends[0], filled = -reach, 1
    for j in range(count):
        if not -reach < points[j] < reach:
            continue
        place = filled
        while ends[place - 1] > points[j]:
            ends[place] = ends[place - 1]
            place -= 1
        ends[place] = points[j]
        filled += 1
    ends[filled] = reach
    total = 1
    for j in range(filled):
        total += int(math.ceil((ends[j + 1] - ends[j]) / width))
    edges = np.empty(total)
    edges[0], total = -reach, 1
    for j in range(filled):
        parts = int(math.ceil((ends[j + 1] - ends[j]) / width))
        for part in range(1, parts):
            edges[total] = ends[j] + (ends[j + 1] - ends[j]) * (part / parts)
            total += 1
        if parts > 0:
            edges[total] = ends[j + 1]  # to the last digit: a kink may be near 0
            total += 1
    return edges


@driver
def legendre(edges, nodes, weights):
    """Nodes and normal weights of Gauss and Legendre's rule on every panel."""
    size = len(nodes)
    y = np.empty((len(edges) - 1) * size)
    w = np.empty_like(y)
    for j in range(len(edges) - 1):
        centre, half = 0.5 * (edges[j + 1] + edges[j]), 0.5 * (edges[j + 1] - edges[j])
        for i in range(size):
            x = centre + half * nodes[i]
            y[j * size + i] = x
            w[j * size + i] = half * weights[i] * math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return y, w
'''
"""Panels of emitted modules that integrate over kinks."""

LATENT_PANELS_SOURCE = '''\
@driver
def panels(level, rank, B, latent, kinks, smooth, reach, width, nodes, weights):
    """Nodes and weights of latent variable `level`, given those before it, within a ball.

    Panels end where a position crosses a kink. Where it only does so on average, with a spread of
    less than 1, they resolve that spread; and likewise for the sharpest combination of two.
    """
    if level >= rank:
        return np.zeros(1), np.ones(1)
    left = reach * reach
    for j in range(level):
        left -= latent[j] * latent[j]
    if left <= 0.0:
        return np.zeros(0), np.zeros(0)
    d = B.shape[0]
    mean = np.zeros(d)
    points = np.empty(5 * d * d * len(kinks) * len(kinks))
    count, steepest = 0, 0.0
    for k in range(level, d):
        steepest = max(steepest, abs(B[k, level]))
        for j in range(level):
            mean[k] += B[k, j] * latent[j]
        for m in range(min(level + 1, k), k + 1):
            c, s = 1.0, 0.0
            if m < k:
                kk, mm, km = 0.0, 0.0, 0.0
                for j in range(level + 1, rank):
                    kk += B[k, j] * B[k, j]
                    mm += B[m, j] * B[m, j]
                    km += B[k, j] * B[m, j]
                angle = 0.5 * math.atan2(-2.0 * km, mm - kk)
                c, s = math.cos(angle), math.sin(angle)
            slope = c * B[k, level] + s * B[m, level]
            rest = 0.0
            for j in range(level + 1, rank):
                combined = c * B[k, j] + s * B[m, j]
                rest += combined * combined
            spread = math.sqrt(rest) / abs(slope)
            if not (spread < 1.0 and abs(slope) > 1e-12 * (abs(B[k, level]) + abs(B[m, level]))):
                continue
            for first in range(len(kinks)):
                for second in range(len(kinks)):
                    if m == k and first != second:
                        continue
                    away = c * (kinks[first] - mean[k]) + s * (kinks[second] - mean[m])
                    for side in range(-2, 3):
                        if side == 0 or spread > 0.0:
                            points[count] = away / slope + 0.5 * side * reach * spread
                            count += 1
    edges = split(points, count, math.sqrt(left), min(width, smooth / steepest))
    return legendre(edges, nodes, weights)
'''
"""Panels of one latent variable among several."""
