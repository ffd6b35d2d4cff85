"""G1 of independent weights behind norms, in residual blocks and gates, beside their networks.

    python tests/samples/blocks_matrix.py

For each kind of block, law and activation it prints the theory of two such layers behind a Gaussian
layer 1; the limit of networks of three widths, with its standard error; z; and by how many standard
errors networks exclude the theory of Gaussian weights. All are shares of K. It takes minutes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from mixtures import Block, Mixture, limits, sampled

from derive import Gaussian, Rademacher, Sparse, Uniform

LAWS = (Uniform(), Rademacher(), Sparse("1/4"))
SIGMAS = ("tanh", "gelu")
PILOT = 4000
"""Networks of each width."""
BLOCKS = {
    "norm": (1, Fraction(), "rms"),
    "residual": (2, Fraction(1, 2), "rms"),
    "gate": (3, Fraction(1, 2), "rms"),
}


def mixture(block: str, law: object, sigma: str) -> Mixture:
    """Two such layers."""
    matrices, skip, norm = BLOCKS[block]
    return Mixture(Gaussian(), (Block((law,) * matrices, sigma, skip, norm),) * 2)


def estimate(made: Mixture, K: float, far: float, seed: int) -> tuple[float, float, int]:
    """G1/K of networks, its standard error, and how many there are of each width.

    There are as many as a pilot asks for: the error is to be 0.03 at most, and a sixth of `far`.
    """
    target, pilot = min(0.03, far / 6), sampled(made, PILOT, 1000 + seed)
    short = limits(pilot, K).errors[1] / K / target
    draws = max(PILOT, math.ceil(1.2 * PILOT * short**2))
    values, errors = limits(sampled(made, draws, seed), K)
    return values[1] / K, errors[1] / K, draws


def main() -> None:
    """Print a row for each case."""
    print("| block | law | σ | theory | networks | z | Gaussian | excluded by | draws |")
    print("|---|---|---|---|---|---|---|---|---|")
    for seed, (block, law, sigma) in enumerate(product(BLOCKS, LAWS, SIGMAS)):
        made = mixture(block, law, sigma)
        K, G1, _ = made.theory()
        theory, other = G1 / K, mixture(block, Gaussian(), sigma).theory()[1] / K
        found, se, draws = estimate(made, K, abs(theory - other), seed)
        cells = [block, str(law), sigma, f"{theory:.4f}", f"{found:.4f} ± {se:.4f}"]
        cells += [f"{(found - theory) / se:.1f}", f"{other:.4f}", f"{abs(found - other) / se:.1f}"]
        print(f"| {' | '.join(cells)} | {draws} |", flush=True)


if __name__ == "__main__":
    main()
