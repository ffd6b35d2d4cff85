"""A run's directory: what is sampled, and the sums of the chunks that are done.

    manifest.json     what is sampled: network, inputs, sizes, seed, tensors, versions; its hash
    sums.npz          X⁰, the sum of chunks 0 … k−1, and k; with the hash of all that
    chunk-<i>.npz     finished chunks that wait for one before them
    lock              held by the process that writes

Every file is written aside, then renamed. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from dataclasses import dataclass, field
from errno import EACCES, EAGAIN
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.equations import Equation
from derive.errors import InputError

from . import moments
from .modules import write
from .sampling import Sampler
from .weights import Array

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 2
_MANIFEST, _SUMS, _LOCK = "manifest.json", "sums.npz", "lock"
_OWN = re.compile(r"manifest\.json|sums\.npz|chunk-\d+\.npz|lock")
_ASIDE = re.compile(rf"\.({_OWN.pattern})\.\w+")  # what a kill leaves of a file that is written
_NOTED = ("hash", "made_with")  # not compared


def manifest(sampler: Sampler) -> dict[str, Any]:
    """What tells the runs of one ensemble from those of others."""
    ensemble = sampler.ensemble
    net, layers = ensemble.net, range(1, ensemble.depth + 1)
    weights = [repr(net.weights_at(layer)) for layer in layers]
    return {
        "format": FORMAT,
        "version": version("wickgarten"),
        "made_with": {name: version(name) for name in ("numpy", "numba")},
        "activation": sympy.srepr(net.activation.expr),
        "first_weights": weights[0],
        "weights": weights[-1],
        "C_W": ensemble.C_W.tolist(),
        "C_b": ensemble.C_b.tolist(),
        "lambda_W": ensemble.lambda_W.tolist(),
        "lambda_b": ensemble.lambda_b.tolist(),
        "inputs": f"{ensemble.inputs.shape} {_digest(ensemble.inputs)}",
        "width": ensemble.width,
        "widths": list(ensemble.widths),
        "depth": ensemble.depth,
        "seed": ensemble.seed,
        "tensors": [target.name for target in sampler.plan.targets],
        "equations": sorted(
            repr(field) for field in sampler.plan.fields if isinstance(field, Equation)
        ),
        "parameters": {name: list(values) for name, values in ensemble.own},
        "sampler": type(sampler).__name__,
        "chunk": sampler.chunk,
        "blocks": moments.BLOCKS,
    }


@dataclass
class Directory:
    """A run's directory, opened for one ensemble.

    Arguments:
        path: the directory, made if it is not there.
        content: its manifest; a directory of anything else is refused.
    """

    path: Path
    content: dict[str, Any]
    waiting: set[int] = field(default_factory=set, init=False)
    _reference: Array = field(init=False)
    _lock: IO[bytes] = field(init=False)

    def __str__(self) -> str:
        return str(self.path)

    def __enter__(self) -> Directory:
        wanted = "a new directory, or that of a run of the same ensemble"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if foreign := [each.name for each in self.path.iterdir() if not _is_own(each.name)]:
                raise InputError("run", f"{self.path}, which holds {foreign[0]}", wanted)
            self._lock = _locked(self.path / _LOCK)
        except OSError as error:
            raise InputError("run", f"{self.path} ({error})", wanted) from None
        try:
            self._open(wanted)
        except BaseException as error:
            self._lock.close()
            if isinstance(error, OSError):
                raise InputError("run", f"{self.path} ({error})", wanted) from None
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()

    def _open(self, wanted: str) -> None:
        for each in self.path.iterdir():
            if _ASIDE.fullmatch(each.name):
                each.unlink(missing_ok=True)
        found = self.path / _MANIFEST
        names = [path.name for path in self.path.glob("*.npz")]
        if found.exists():
            self._compare(found, wanted)
        elif names:
            raise InputError("run", f"{self.path}, with {names[0]} but no {_MANIFEST}", wanted)
        else:
            text = json.dumps(self.content | {"hash": _hash(self.content)}, indent=1)
            write(text + "\n", found)
        self.waiting = {int(path.stem[6:]) for path in self.path.glob("chunk-*.npz")}

    def _compare(self, path: Path, wanted: str) -> None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            intact = found["hash"] == _hash(found)
        except (ValueError, TypeError, KeyError):
            intact = False
        if not intact:
            raise InputError("run", f"{path}, which is damaged or no manifest of a run", wanted)
        own = json.loads(json.dumps(self.content))
        for key in sorted((own.keys() | found.keys()) - set(_NOTED)):
            if own.get(key) != found.get(key):
                got = f"{self.path}, whose {key} is {found.get(key)!r} and not {own.get(key)!r}"
                raise InputError("run", got, wanted)

    def begin(self, reference: Array, sums: Array) -> None:
        """Keep X⁰, and no draws yet."""
        self._reference = reference
        self.save(sums, 0)

    def sums(self, shape: tuple[int, ...]) -> tuple[Array, int, Array] | None:
        """The sum of the first chunks, how many they are, and X⁰; None if nothing is kept."""
        if not (self.path / _SUMS).exists():
            return None
        stored = self._load(self.path / _SUMS, shape)
        self._reference = stored["reference"]
        return stored["sums"], int(stored["chunks"]), self._reference

    def save(self, sums: Array, chunks: int) -> None:
        """Keep the sum of the first chunks; what waited for them is of no more use."""
        self._store(self.path / _SUMS, sums, chunks)
        for number in sorted(self.waiting):
            if number < chunks:
                self._chunk(number).unlink(missing_ok=True)
                self.waiting.discard(number)

    def keep(self, number: int, sums: Array) -> None:
        """Keep a chunk that waits for an earlier one."""
        self._store(self._chunk(number), sums, 1)
        self.waiting.add(number)

    def kept(self, number: int, shape: tuple[int, ...]) -> Array:
        """A chunk that waited."""
        stored = self._load(self._chunk(number), shape)
        if not np.array_equal(stored["reference"], self._reference):
            wanted = "chunks with the draw 0 of this run; remove it to sample its draws again"
            raise InputError("run", str(self._chunk(number)), wanted)
        return stored["sums"]

    def _chunk(self, number: int) -> Path:
        return self.path / f"chunk-{number}.npz"

    def _store(self, path: Path, sums: Array, chunks: int) -> None:
        arrays = {"sums": sums, "chunks": np.array(chunks), "reference": self._reference}
        stream = io.BytesIO()
        np.savez(stream, digest=_digest_of(arrays), **arrays)  # type: ignore[arg-type]
        write(stream.getvalue(), path)

    def _load(self, path: Path, shape: tuple[int, ...]) -> dict[str, Array]:
        wanted = "a file as this run wrote it; remove it to sample its draws again"
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ("sums", "chunks", "reference")}
                intact = str(stored["digest"]) == str(_digest_of(arrays))
        except Exception as error:  # zip, zlib and NumPy each raise their own
            raise InputError("run", f"{path}, which is damaged ({error})", wanted) from None
        if not intact or arrays["sums"].shape != shape:
            raise InputError("run", f"{path}, which is damaged", wanted)
        return arrays


def _is_own(name: str) -> bool:
    return bool(_OWN.fullmatch(name) or _ASIDE.fullmatch(name))


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps({key: content[key] for key in content if key != "hash"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _digest_of(arrays: dict[str, NDArray[Any]]) -> str:
    return _hash({name: [array.shape, _digest(array)] for name, array in arrays.items()})


def _locked(path: Path) -> IO[bytes]:
    """The file, locked until it is closed or its process dies.

    Raises:
        InputError: if another process has locked it.
    """
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {EACCES, EAGAIN}:
            file.close()
            wanted = "a directory that no other process is writing to"
            raise InputError("run", f"{path.parent}, which is in use", wanted) from None
        # a file system without locks: nothing to hold
    return file
