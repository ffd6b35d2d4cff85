"""Is a model's training the same at all widths? Sizes of layers against width, step by step.

    python docs/examples/coordinate_check.py coordinates.svg

A perceptron of the standard parametrisation is checked with SGD and Adam. At step 0 theory has a
line and bars for every layer, from K and V; after steps of SGD for the outputs, from Θ.
The check fails: with one rate for all widths, training moves wider models further. `mup.py`
shows a model that passes.
"""

from __future__ import annotations

import argparse

import matplotlib as mpl
import numpy as np
import torch
from mup import standard

from numeric import models

mpl.use("svg")


def main() -> None:
    """Print the check, and draw it."""
    parser = argparse.ArgumentParser(description="Sizes of layers against width.")
    parser.add_argument("picture", nargs="?", help="the SVG file to write")
    picture = parser.parse_args().picture
    torch.set_num_threads(1)  # on a busy machine several threads wait for one another
    inputs = np.random.default_rng(0).standard_normal((4, 8))
    found = models.coordinate_check(standard, [64, 128, 256, 512], inputs)
    print(found)
    if picture is not None:
        found.plot().savefig(picture)


if __name__ == "__main__":
    main()
