# %% [markdown]
# # Before training
#
# What the experiments say of a network at initialization needs no training: the gap of a vanilla
# ReLU network grows with depth, orthogonal weights align as Gaussian ones do, and the table of
# convolutional networks can be counted.

# %%
"""Statements on networks at initialization in §§3 and 5 and appendices A, H and I (source 003)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import sympy
from sympy.matrices.exceptions import NonInvertibleMatrixError

from derivations.claims import Sampling, Verdict, both, claim, equal, misprint, sampled
from derivations.daneshmand import ensembles
from derivations.pictures.panels import one_panel
from derive import activations
from derive.network import Network
from derive.weights import Gaussian, Orthogonal
from numeric import compare, deep, flow
from numeric.arrays import Array
from numeric.tables import layout
from numeric.tables.drawing import beside


def kernels(inputs: Array, depth: int) -> Array:
    """K of a ReLU network at layers 1 … depth, as `numeric.flow` derives it: (depth, n, n)."""
    net = Network(activations.relu, Gaussian(2))
    return np.asarray(flow(net, inputs, depth=depth, tensors="K")["K"].to_numpy())


@claim("003", "Figure 4 (initial)", "gap of vanilla ReLU networks by depth", sampled=True)
def initial_gap(sampling: Sampling) -> Verdict:
    """The red curve of Figure 4a: V of the last layer at initialization, depth 15 to 75, vanilla
    ReLU networks. At infinite width it is that of the derived kernel, whose correlations go to 1;
    sampled at d = 400, 800 (the paper's) and 1600 from four orthogonal inputs, and extrapolated in
    1/d."""
    depths, size, widths = [15, 30, 45, 60, 75], 4, (400, 800, 1600)
    K = kernels(np.eye(size), depths[-1])[np.array(depths) - 1]
    theory = ensembles.gap_squared(K)
    tables = []
    draws = sampling.networks(60)
    for width in widths:
        C = ensembles.grams(
            width, size, depths[-1], draws, sampling.seed, activations.relu, normalised=False,
            inputs=np.eye(size),
        )  # fmt: skip
        squares = ensembles.gap_squared(C[:, np.array(depths) - 1])
        tables.append(ensembles.means(width, depths, gap_sq=squares))
    made, panel = one_panel(xlabel="depth", ylabel="V²", title="ReLU, d = 800, n = 4, untrained")
    paper = tables[1]
    beside(
        panel,
        (depths, theory),
        (depths, paper["gap_sq"].to_numpy(), paper["gap_sq_se"].to_numpy()),
        color="C3",
        label="d = 800, and d → ∞",
    )
    panel.axhline((size - 1) / size, color="black", linewidth=1, linestyle="--", label="(n−1)/n")
    panel.legend()
    return sampled(
        compare(layout.table(depths, gap_sq=theory), tables, sampling.false_alarms, degree=1),
        "V² by depth, d → ∞",
        {"batchnorm4-initial": made},
    )


@claim("003", "Figure 8 (initial)", "orthogonal weights align, too", sampled=True)
def orthogonal_alignment(sampling: Sampling) -> Verdict:
    """ReLU networks with orthogonal weights are "prone to the alignment of representations in deep
    layers": the cosine of two preactivations from orthogonal inputs at layers 5, 10, 20, at widths
    100, 200, 400, extrapolated in 1/d to the kernel that Gaussian weights have."""
    layers, widths, draws = [5, 10, 20], (100, 200, 400), sampling.networks(300)
    net = Network(activations.relu, Orthogonal(2))
    theory = cosine(kernels(np.eye(2), layers[-1])[np.array(layers) - 1])
    tables = []
    for width in widths:
        cosines = [
            cosine(deep.simulate(net, np.eye(2), 1, width, draws, depth=layer, seed=seed).values)
            for seed, layer in enumerate(layers, sampling.seed)
        ]
        tables.append(ensembles.means(width, layers, cosine=np.array(cosines).T))
    return sampled(
        compare(layout.table(layers, cosine=theory), tables, sampling.false_alarms, degree=1),
        f"cosine {theory[0]:.3g}, {theory[1]:.3g}, {theory[2]:.3g} at layers 5, 10, 20",
    )


def cosine(K: Array) -> Array:
    """Of the two inputs of each kernel, (…, 2, 2)."""
    return np.asarray(K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1]))


@claim("003", "§3.2 (inverse)", "M⁻¹ in place of diag(M)⁻¹ makes samples orthogonal")
def whitening() -> Verdict:
    """$M=W_\\ell H_\\ell H_\\ell^\\top W_\\ell^\\top$ is d × d of rank n: for d > n, the paper's
    case, it has no inverse. With the inverse on its range, $M^+$, the statement holds:
    $(WH)^\\top M^+WH=1$, for a rational WH of 3 rows and 2 columns."""
    WH = sympy.Matrix([[1, 2], [0, 1], [3, -1]])
    M = WH * WH.T
    try:
        M.inv()
    except NonInvertibleMatrixError:
        singular = 1
    else:
        singular = 0
    whitened = (WH.T * M.pinv() * WH).applyfunc(sympy.simplify)
    stands = both(
        equal(list(whitened), list(sympy.eye(2)), "(WH)ᵀ M⁺ WH = 1"),
        equal(singular, 1, "M has no inverse"),
    )
    return misprint(
        "M⁺, the inverse on the range of M",
        "M⁻¹",
        "d = 3, n = 2; the witness is the rank of M, and the d that an inverse needs",
        provided=stands,
        witness=(M.rows, M.rank()),
    )


# %% [markdown]
# ## Tables 2 and 3

# %%
CONVOLUTIONS = {
    20: [(3, 64), (64, 192), (192, 256), (256, 256), *[(256, 256)] * 16],
    80: [(3, 64), (64, 192), (192, 256), (256, 256), *[(256, 256)] * 76],
}
"""Table 3: channels in and out of each convolution, by the number of layers."""
POOLINGS, IMAGE, LINEAR = 3, 32, 1024
"""Max-poolings by two, pixels along a side of CIFAR10, inputs of the first linear layer."""


@claim("003", "Table 3", "the convolutional networks, counted")
def architectures() -> Verdict:
    """Both columns have as many convolutions as their heads say, and each has as many channels in
    as the one before has out. Three poolings by two leave 4 × 4 of 32 × 32 pixels, that is 4096
    numbers in 256 channels for the first linear layer, where 1024 are printed: right if the first
    convolution has stride 2, which the table does not say."""
    counts = [len(each) for each in CONVOLUTIONS.values()]
    joints = [
        after[0] - before[1] for each in CONVOLUTIONS.values() for before, after in pairwise(each)
    ]
    channels = CONVOLUTIONS[20][-1][1]
    side = sympy.Rational(IMAGE, 2**POOLINGS)
    stands = both(
        equal(counts, list(CONVOLUTIONS), "convolutions"),
        equal(joints, [0] * len(joints), "channels out and in"),
        equal(channels * (side / 2) ** 2, LINEAR, "with stride 2 once more"),
    )
    return misprint(
        channels * side**2,
        sympy.Integer(LINEAR),
        "numbers that reach Linear(1024, 4096): 256 channels of 4 × 4 pixels, as printed, with "
        "kernels of 3, three poolings by 2 and no stride",
        provided=stands,
    )


@claim("003", "Table 2", "where the notation is defined")
def notation() -> Verdict:
    """Table 2 finds the chain $H_\\ell$ and BN in Eq. (4). That bounds a distance, one number; the
    chain, d × n numbers with rows of length $1/\\sqrt d$ each, is Eq. (1)."""
    d, n = 3, 2
    rows = sympy.Matrix(d, n, sympy.symbols(f"m_1:{d * n + 1}", real=True))
    layer = sympy.Matrix.vstack(*(rows.row(i) / rows.row(i).norm() for i in range(d)))
    size = sympy.simplify((layer * layer.T).trace() / d)
    return misprint(
        "H_ℓ and BN: Eq. (1)",
        "H_ℓ and BN: Eq. (4)",
        "the witness is how many numbers either equation is about, d = 3, n = 2",
        provided=equal(size, 1, "|BN(M)|² = d, before the factor 1/√d of (1)"),
        witness=(1, len(layer)),
    )
