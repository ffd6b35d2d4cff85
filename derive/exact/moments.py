"""Joint moments of a network's fields at finite width, for polynomial equations, not truncated.

The engine's steps (`derive.engine.cumulants`) for one stage after another, each exact:

    E[Π φ] = Σ_terms Σ_q [Σ_{p: δ_p(i)=1} C(p,q)] Σ_{partitions of j} n(n−1)… E[Π v^k_j Π φ']

where the forward equations give the terms, each matrix joins its summed neurons as q says, and the
last average is a joint moment of the stage before, at different neurons, some of which may be those
of the left, carried past. At the inputs are left the means K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0.
Everything is a Laurent polynomial in the width with rational coefficients, in these means, in
`Spectrum` (the weights' pairing matrix, not evaluated) and whatever parameters are not rational
numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import prod

import sympy

from ..arithmetic.polynomials import Expansion, add, constant
from ..engine.fields import Placed, Z
from ..engine.trees import STREAM, Field, Kind
from ..errors import InputError
from ..groups.pairings import mobius, set_partitions
from ..network import Network
from .products import Fields
from .stages import Means, Setting, Stage
from .values import multiply

MAX_POINTS = 12
"""Several inputs or positions: a product of more preactivations than this, (2k−1)!! pairings."""
MAX_POINTS_SINGLE = 40
"""One input: its pairings fall into the classes of the partitions of k."""
MAX_PAIRS = 5
"""Products with an NTK or its kin that hold more pairs of weights than this."""


class Moments:
    """E[Π φ] of one layer's fields, for given neural indices and samples.

    Arguments:
        network: with polynomial activations and layers.
        layer: 1, 2, ….
        width: the reference width n; an integer is put in, a symbol stays as powers of 1/n.
        inputs: n_0.
        means: K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0, a number or a symbol for samples in order.

    Raises InputError for equations that are no polynomials, and for skewed weights.
    """

    def __init__(
        self, network: Network, layer: int, width: sympy.Expr, inputs: sympy.Expr, means: Means
    ) -> None:
        self.network, self.layer, self.width = network, layer, width
        setting = Setting(network, layer, width, inputs, means)
        self.n_out, self.matrices = setting.size(layer), setting.matrices
        self.stages: list[Stage] = []
        for bound in network.chain(layer):
            self.stages.append(Stage(setting, bound, self.stages[-1] if self.stages else None))

    def __call__(self, fields: tuple[Placed, ...]) -> Expansion:
        """E[Π φ] where equal neural indices are equal and different ones differ."""
        ends: dict[int, Counter[tuple[Kind, int]]] = defaultdict(Counter)
        links: list[Placed] = []
        for placed in fields:
            if isinstance(placed.field, Field) and placed.field.nodes == 1:
                ends[placed.neurons[0]][placed.field.kind(0), placed.samples[0]] += 1
            else:
                links.append(placed)
        linked = sorted({neuron for placed in links for neuron in placed.neurons})
        number = {neuron: k for k, neuron in enumerate(linked)}
        moved = tuple(
            placed._replace(neurons=tuple(number[j] for j in placed.neurons)) for placed in links
        )
        powers = {j: (STREAM.space, tuple(sorted(found.items()))) for j, found in ends.items()}
        nodes = tuple(powers.pop(j, (STREAM.space, ())) for j in linked)
        return self.stages[-1].moment(Fields(tuple(powers.values()), nodes, moved))

    def read(self, samples: Iterable[int]) -> frozenset[int]:
        """The samples of the inputs that these samples of the layer depend on."""
        found = set(samples)
        for stage in reversed(self.stages):
            found = stage.bound.stage.taps.read_at(found)
        return frozenset(found)

    def check_size(self, fields: tuple[Placed, ...]) -> None:
        """Refuse, before it starts, a joint cumulant whose sums would not finish.

        A node of a stage's fields is at most d nodes of the stage before, for equations of degree
        d.
        """
        degrees = [stage.forward.degree for stage in self.stages[1:]]
        nodes = sum(placed.field.nodes for placed in fields)
        if len(self.read(sample for placed in fields for sample in placed.samples)) > 1:
            self._check(nodes * prod(degrees), MAX_POINTS, "preactivations of several inputs")
        else:
            self._check(nodes * prod(degrees), MAX_POINTS_SINGLE, "preactivations")
        if self.layer > 1 and any(placed.field != Z for placed in fields):
            what = "pairs of weights in a product with NTKs"
            self._check(nodes * prod(degrees[1:]) // 2, MAX_PAIRS, what)

    def _check(self, got: int, most: int, what: str) -> None:
        if got > most:
            wanted = f"a degree and a layer that need at most {most} {what}, not {got}"
            raise InputError("activation", str(self.network.activation), wanted)


def joint_cumulant(moments: Moments, fields: tuple[Placed, ...]) -> Expansion:
    """κ(φ_1, …, φ_r) = Σ_partitions (−1)^{b−1} (b−1)! Π E[Π φ].

    Raises InputError, before it starts, where that is more than finishes.
    """
    moments.check_size(fields)
    total: Expansion = {}
    for partition in set_partitions(fields):
        joined = constant(mobius(len(partition)))
        for block in partition:
            joined = multiply(joined, moments(block)) if joined else {}
        add(total, joined)
    return total
