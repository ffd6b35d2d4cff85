"""MNIST and CIFAR-10 from a folder of their original files, whose checksums are verified.

Nothing is unpickled: of CIFAR-10 the binary version is read, a label and 3072 pixels a record.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from derive.errors import InputError

from .images import CLASSES, Images

Bytes = NDArray[np.uint8]

MNIST = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""MD5 of the files uncompressed: as .gz they differ from place to place."""
MNIST_FROM = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/ (first http://yann.lecun.com/exdb/mnist/)"
)

CIFAR = {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
"""MD5 of the archive, as its page has it: of the files in it none is published."""
CIFAR_FROM = 'https://www.cs.toronto.edu/~kriz/cifar.html, "CIFAR-10 binary version"'
BATCHES = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
_CIFAR_SHAPE = (3, 32, 32)

_UBYTE = 0x08
"""The type of idx files of bytes."""


def mnist(folder: str | os.PathLike[str], part: str = "train") -> Images:
    """MNIST's digits, 28 × 28 pixels, 0 … 255, from its idx files, as they are or as .gz.

    Arguments:
        folder: where they are.
        part: "train", 60000 images, or "test", 10000.

    Raises:
        InputError: for a file that is not there, that cannot be read, or whose MD5 is another.
    """
    stem = {"train": "train", "test": "t10k"}.get(part)
    if stem is None:
        raise InputError("part", part, "train or test")
    pixels = _idx(_folder(folder), f"{stem}-images-idx3-ubyte", 3)
    labels = _idx(_folder(folder), f"{stem}-labels-idx1-ubyte", 1)
    shape = pixels.shape[1], pixels.shape[2]
    flat = pixels.reshape(len(pixels), -1).astype(float)
    return Images(flat, labels.astype(np.int64), shape, f"MNIST {part}")


def cifar10(folder: str | os.PathLike[str], part: str = "train") -> Images:
    """CIFAR-10's images, 3 × 32 × 32 pixels, 0 … 255, of its binary version.

    From the archive `cifar-10-binary.tar.gz`, whose MD5 is verified, or, where that is not
    there, from the `.bin` files that were in it, in the folder or in `cifar-10-batches-bin`; of
    these no checksums are published, and what is verified is the number of images of each class.

    Arguments:
        folder: where they are.
        part: "train", 50000 images, or "test", 10000.

    Raises:
        InputError: for what is not there, cannot be read, or is not what it should be.
    """
    if part not in BATCHES:
        raise InputError("part", part, "train or test")
    where = _folder(folder)
    records = np.concatenate([_records(each) for each in _batches(where, BATCHES[part])])
    labels = records[:, 0].astype(np.int64)
    counts = np.bincount(labels, minlength=CLASSES)
    if len(counts) != CLASSES or len(set(counts.tolist())) != 1:
        raise InputError("folder", str(where), f"as many images of each class; from {CIFAR_FROM}")
    return Images(records[:, 1:].astype(float), labels, _CIFAR_SHAPE, f"CIFAR-10 {part}")


def _md5(content: bytes = b"") -> hashlib._Hash:
    return hashlib.md5(content, usedforsecurity=False)  # no secret: what is published


def _folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    if not path.is_dir():
        wanted = f"a folder, with the files of MNIST from {MNIST_FROM} or of CIFAR-10 from "
        raise InputError("folder", str(folder), wanted + CIFAR_FROM)
    return path


def _idx(folder: Path, name: str, rank: int) -> Bytes:
    """An idx file: two zeros, the type, the rank, the sizes as big-endian words, then bytes."""
    plain, packed = folder / name, folder / f"{name}.gz"
    if plain.is_file():
        content = plain.read_bytes()
    elif packed.is_file():
        try:
            content = gzip.decompress(packed.read_bytes())
        except (OSError, EOFError, zlib.error) as problem:
            raise InputError("folder", f"{packed} ({problem})", f"MNIST's; {MNIST_FROM}") from None
    else:
        raise InputError("folder", str(folder), f"{name} or {name}.gz in it; from {MNIST_FROM}")
    found = _md5(content).hexdigest()
    if found != MNIST[name]:
        wanted = f"MD5 {MNIST[name]} when uncompressed; from {MNIST_FROM}"
        raise InputError("folder", f"{folder / name} of MD5 {found}", wanted)
    return idx(content, rank, name)


def idx(content: bytes, rank: int, name: str = "idx file") -> Bytes:
    """The array of an idx file of unsigned bytes.

    Raises:
        InputError: for anything else.
    """
    head = 4 * (1 + rank)
    if len(content) < head or content[:4] != bytes([0, 0, _UBYTE, rank]):
        raise InputError(name, content[:4].hex(), f"an idx file of bytes, of rank {rank}")
    sizes = np.frombuffer(content[4:head], ">u4").astype(int)
    if len(content) != head + sizes.prod():
        raise InputError(name, f"{len(content)} bytes", f"{head + sizes.prod()}, by its sizes")
    return np.frombuffer(content[head:], np.uint8).reshape(sizes)


def _batches(folder: Path, names: list[str]) -> list[bytes]:
    """The batches, from the archive or from files beside it."""
    ((archive, wanted),) = CIFAR.items()
    path = folder / archive
    if path.is_file():
        with path.open("rb") as opened:
            found = hashlib.file_digest(opened, _md5).hexdigest()
        if found != wanted:
            told = f"MD5 {wanted}; from {CIFAR_FROM}"
            raise InputError("folder", f"{path} of MD5 {found}", told)
        with tarfile.open(path) as packed:
            return [_member(packed, name) for name in names]
    for place in (folder, folder / "cifar-10-batches-bin"):
        if all((place / name).is_file() for name in names):
            return [(place / name).read_bytes() for name in names]
    if (folder / "data_batch_1").exists() or (folder / "cifar-10-batches-py").exists():
        told = f"the binary version: the Python version is a pickle; from {CIFAR_FROM}"
        raise InputError("folder", str(folder), told)
    told = f"{archive}, or {', '.join(names)} in it; from {CIFAR_FROM}"
    raise InputError("folder", str(folder), told)


def _member(packed: tarfile.TarFile, name: str) -> bytes:
    opened = packed.extractfile(f"cifar-10-batches-bin/{name}")
    assert opened is not None
    return opened.read()


def _records(content: bytes) -> Bytes:
    """(images, 1 + 3072) bytes."""
    size = 1 + int(np.prod(_CIFAR_SHAPE))
    if not content or len(content) % size:
        raise InputError("CIFAR-10", f"{len(content)} bytes", f"records of {size} bytes")
    return np.frombuffer(content, np.uint8).reshape(-1, size)
