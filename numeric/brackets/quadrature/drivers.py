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
'''
"""The step of the trapezoid rule of emitted modules."""

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
