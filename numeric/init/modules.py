"""`torch_(module)`: a module of PyTorch initialized in place, as `torch.nn.init` does tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from derive.activations.functions import Activation, as_activation
from derive.citations import rests_on
from derive.errors import check_installed
from derive.layers import Layer, as_layer
from derive.weights import WeightEnsemble, as_weights

from .settings import Initialized

if TYPE_CHECKING:
    import torch


@rests_on("day2025", "xiao2018")
def torch_(
    module: torch.nn.Module,
    activation: Activation | str | None = None,
    weights: WeightEnsemble | str = "orthogonal",
    *,
    layer: Layer | str | None = None,
    C_W: sympy.Expr | float | None = None,
    K: sympy.Expr | float | None = None,
    filters: str | None = None,
    generator: torch.Generator | None = None,
) -> Initialized:
    """Fill the weights and biases of a module with those that make it critical, and say why.

    Arguments:
        module: whose `Linear` and `Conv1d` … `Conv3d` are filled, whose norms are set to 1 and 0,
            and whose other parameters are left as they are, and named.
        activation: σ of the module; by default what stands before each matrix is read from the
            graph that `torch.fx` traces.
        weights: the law, "orthogonal", "gaussian", …, or an ensemble without a C_W.
        layer: what the module repeats, for one with skips or gates: "residual(skip=1, norm=rms)".
            All matrices then have that layer's gain, so a stem and a head are initialized apart.
        C_W, K: those of `gain`.
        filters: those of `jax_initializer`: "delta" (delta-orthogonal) or "all".
        generator: torch's, its default one if None, so that `torch.manual_seed` decides.

    Without a `layer`, a matrix behind σ has the gain of σ, in the layer "normalized(…)" where an
    RMSNorm or LayerNorm is right before σ, and biases N(0, C_b); one behind the inputs, a norm or
    another matrix has gain 1 and no biases. Haar matrices are by QR with R's diagonal positive, in
    float64, rounded to the parameter's dtype; rectangular ones are blocks of the larger Haar
    matrix, E[W_ij²] = C_W/n_in (`torch.nn.init.orthogonal_` has gain²/max(n_in, n_out)). Grouped
    convolutions have a matrix for each group.

    Returns an `Initialized`, whose `str` has a line for each parameter with the reason. Raises
    InputError as `gain` does; without PyTorch, naming the extra; for what is no module; for a sum
    or a product without a `layer` that says what it is ("dense" where they are of σ); for an
    unknown function before a matrix without an `activation`; for matrices that share a parameter
    and want different gains; for parameters without numbers (lazy, or on "meta"). Nothing is
    changed then.

    >>> from torch import nn
    >>> torch_(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)))
    0.weight  (8, 4)  Orthogonal(C_W=1)  [1]
    0.bias    (8,)    0                  [1]
    2.weight  (8, 8)  Orthogonal(C_W=2)  [2]
    2.bias    (8,)    0                  [2]
    [1] fed by the inputs, no σ before it: gain 1 keeps their mean square
    [2] behind relu: gain 1.41421 = sqrt(2) (C_b = 0): χ_∥ = χ_⊥ = 1 at every K, ...
    """
    check_installed("torch_", "torch", "torch")
    from .for_torch import Wanted, initialize  # noqa: PLC0415  (torch takes seconds to import)

    wanted = Wanted(
        activation=None if activation is None else as_activation(activation),
        weights=as_weights("weights", weights),
        layer=None if layer is None else as_layer(layer),
        C_W=C_W,
        K=K,
        filters=filters,
    )
    return initialize(module, wanted, generator)
