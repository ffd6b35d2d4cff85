"""The lazy samplers on a GPU: the same networks, to rounding, from the same random numbers.

Needs the extra `wickgarten[cuda]` and an NVIDIA GPU; or, to try the kernels slowly without one,
`NUMBA_ENABLE_CUDASIM=1` in the environment.
"""

from __future__ import annotations

from derive.errors import InputError

from ..samplers.base import Sampler
from ..samplers.innovations import InnovationSampler
from ..samplers.paths import PathSampler
from ..samplers.probing import ProbeSampler
from ..samplers.products import ProductSampler
from ..samplers.staged import ExplicitLayerSampler, LayerSampler

__all__ = ["on_device"]


def on_device(sampler: Sampler) -> Sampler:
    """The same sampler on the GPU; probes for paths of several inputs or behind low-rank weights.

    Raises:
        InputError: without a GPU, for the explicit sampler, and for weights without rotations.
    """
    if isinstance(sampler, ProductSampler | InnovationSampler):
        raise InputError("device", f'cuda for the sampler "{sampler.name}"', '"cpu"')
    layered = isinstance(sampler, LayerSampler) and not isinstance(sampler, ExplicitLayerSampler)
    if not layered and not isinstance(sampler, PathSampler | ProbeSampler):
        raise InputError("device", "cuda for the explicit sampler, or these weights", '"cpu"')
    wanted = '"cpu"; or a GPU that the extra wickgarten[cuda] can reach'
    try:
        from numba import cuda  # noqa: PLC0415

        reached = cuda.is_available()
    except Exception as error:  # a driver that is there but broken, an extra of another version
        raise InputError("device", f"cuda ({error})", wanted) from None
    if not reached:
        raise InputError("device", "cuda, but no GPU is found", wanted)
    from .samplers import CudaLayerSampler, CudaPathSampler, CudaProbeSampler  # noqa: PLC0415

    if isinstance(sampler, LayerSampler):
        return CudaLayerSampler(sampler.ensemble, sampler.plan, sampler.probes)
    if isinstance(sampler, ProbeSampler):
        return CudaProbeSampler(sampler.ensemble, sampler.plan, sampler.probes)
    if sampler.plan.samples == 1 and all(len(steps) == 1 for steps in sampler.ensemble.steps):
        return CudaPathSampler(sampler.ensemble, sampler.plan)
    return CudaProbeSampler.of(sampler.ensemble, sampler.plan)
