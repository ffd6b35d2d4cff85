"""K and Θ of some networks by neural-tangents, kept as tests/init/kernels_of_neural_tangents.json.

    pip install "neural-tangents==0.6.5" "jax==0.4.30" "jaxlib==0.4.30" "numpy<2.4" "scipy<1.14"
    python tests/init/kernels_of_neural_tangents.py

Version 0.6.5 is its last (the repository is archived) and does not import under newer JAX.
"""

from __future__ import annotations

import json
from pathlib import Path

KEPT = Path(__file__).with_suffix(".json")
INPUTS = [[1.0, -0.5, 0.25], [0.3, 0.8, -1.2], [-0.7, 0.1, 0.9]]
C_W, C_b = 1.69, 0.04


def made(stax):
    """The networks by name, their last layer a matrix as all others."""

    def dense():
        return stax.Dense(1, W_std=C_W**0.5, b_std=C_b**0.5)

    def plain(sigma, depth):
        pairs = [each for _ in range(depth - 1) for each in (sigma(), dense())]
        return stax.serial(dense(), *pairs)

    def residual():
        inner = stax.serial(stax.Dense(1, W_std=C_W**0.5, b_std=None), stax.Relu(), dense())
        return stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), inner), stax.FanInSum())

    return {
        "erf": plain(stax.Erf, 5),
        "relu": plain(stax.Relu, 8),
        "leaky relu": plain(lambda: stax.LeakyRelu(0.2), 4),
        "sin": plain(stax.Sin, 4),
        "gelu": plain(stax.Gelu, 3),
        "residual relu": stax.serial(dense(), residual(), residual()),
    }


def kernels(stax):
    """{name: {"nngp": K, "ntk": Θ}} of the last layer, in double precision."""
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    x = jax.numpy.array(INPUTS)
    found = {}
    for name, (_, _, kernel) in made(stax).items():
        values = kernel(x, None, ("nngp", "ntk"))
        found[name] = {"nngp": values.nngp.tolist(), "ntk": values.ntk.tolist()}
    return found


if __name__ == "__main__":
    from neural_tangents import stax

    KEPT.write_text(json.dumps(kernels(stax), indent=1) + "\n")
