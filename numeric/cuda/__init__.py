"""The lazy samplers on a GPU: the same networks, to rounding, from the same random numbers.

Needs the extra `wickgarten[cuda]` and an NVIDIA GPU; or, to try the kernels slowly without one,
`NUMBA_ENABLE_CUDASIM=1` in the environment.
"""

from __future__ import annotations

from derive.errors import InputError

from ..samplers.base import Sampler
from ..samplers.ensemble import BATCHES
from ..samplers.innovations import InnovationSampler
from ..samplers.kernels import KernelSampler
from ..samplers.paths import PathSampler
from ..samplers.products import ProductSampler
from ..samplers.staged import ProbeSampler

__all__ = ["on_device"]


def on_device(sampler: Sampler, precision: str = "f8") -> Sampler:
    """The same sampler on the GPU; probes for the kernels of attention, and for paths of several
    inputs or behind low-rank weights.

    With the precision "f4" what has a number for each neuron is of single precision.

    Raises:
        InputError: without a GPU, for the explicit sampler, for weights without rotations, and for
            functions of all samples.
    """
    if isinstance(sampler, ProductSampler | InnovationSampler):
        raise InputError("device", f'cuda for the sampler "{sampler.name}"', '"cpu"')
    if BATCHES in sampler.ensemble.layers.needs:
        raise InputError("device", "cuda for a function of all samples", '"cpu"')
    if isinstance(sampler, KernelSampler):
        sampler = ProbeSampler.of(sampler.ensemble, sampler.plan)
    probes = isinstance(sampler, ProbeSampler) and not sampler.whole
    if not probes and not isinstance(sampler, PathSampler):
        raise InputError("device", "cuda for the explicit sampler, or these weights", '"cpu"')
    wanted = '"cpu"; or a GPU that the extra wickgarten[cuda] can reach'
    try:
        from numba import cuda  # noqa: PLC0415

        reached = cuda.is_available()
    except Exception as error:  # a driver that is there but broken, an extra of another version
        raise InputError("device", f"cuda ({error})", wanted) from None
    if not reached:
        raise InputError("device", "cuda, but no GPU is found", wanted)
    from .samplers import CudaSampler  # noqa: PLC0415

    single = all(len(steps) == 1 for steps in sampler.ensemble.steps)
    if isinstance(sampler, PathSampler) and (sampler.plan.samples > 1 or not single):
        sampler = ProbeSampler.of(sampler.ensemble, sampler.plan)
    return CudaSampler(sampler.ensemble, sampler.plan, sampler, precision)
