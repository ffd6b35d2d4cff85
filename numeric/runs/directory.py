"""A run's directory: what is sampled, and what the chunks that are done come to.

    manifest.json     what is sampled: network, inputs, sizes, seed, tensors, versions; its hash
    sums.npz          what chunks 0 … k−1 come to, k, and the reference; with the hash of all that
    chunk-<i>.npz     finished chunks that wait for one before them
    lock              held by the process that writes

Every file is written aside, then renamed. Nothing is unpickled. What is finished can be read where
nothing can be written, without the lock.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from dataclasses import dataclass, field
from errno import EACCES, EAGAIN, EPERM, EROFS
from importlib.metadata import version
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from derive.errors import InputError

from .. import checks
from ..arrays import Array
from ..emit import outputs
from ..emit.modules import write
from .totals import Total
from .work import Work

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 2
_MANIFEST, _SUMS, _LOCK = "manifest.json", "sums.npz", "lock"
_OWN = re.compile(r"manifest\.json|sums\.npz|chunk-\d+\.npz|lock")
_ASIDE = re.compile(rf"\.({_OWN.pattern})\.\w+")  # what a kill leaves of a file that is written
_NOTED = ("hash", "made_with")  # not compared
_FIRST = ("format", "version", "sampler")  # where one of these differs, it says most
_LAST = ("antithetic", "chunk", "first", "origin", "readouts")
"""Settings that may follow from others: reported only where no other differs."""


def manifest(work: Work) -> dict[str, Any]:
    """The data that tell the runs of one ensemble from those of others."""
    return {
        "format": FORMAT,
        "version": version("wickgarten"),
        "made_with": {name: version(name) for name in ("numpy", "numba")},
        **work.manifest(),
    }


@dataclass
class Directory:
    """A run's directory, opened for one ensemble.

    Arguments:
        path: the directory, made if it is not there; its parent is not.
        content: its manifest; a directory of anything else is refused.

    Raises:
        InputError: for a directory of another run, in use or damaged; from every method that
            writes, where that cannot be, on a full disk for one.
    """

    path: Path
    content: dict[str, Any]
    waiting: set[int] = field(default_factory=set, init=False)
    _reference: Array = field(init=False)
    _lock: IO[bytes] | None = field(default=None, init=False)
    _read_only: OSError | None = field(default=None, init=False)
    _saved: int = field(default=-1, init=False)

    def __str__(self) -> str:
        return str(self.path)

    def __enter__(self) -> Directory:
        try:
            outputs.make_directory(self.path, "run")
            self._check_files()
            self._take_lock()
            self._open()
        except OSError as error:
            self._close()
            raise self._refused(error.strerror or str(error)) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _refused(self, reason: str) -> InputError:
        wanted = f"a new directory, or that of a run of the same ensemble: {reason}"
        return InputError("run", str(self.path), wanted)

    def _check_files(self) -> None:
        """Refuse what is not a run's, and what could not be read to an end."""
        for each in sorted(self.path.iterdir()):
            if not _is_own(each.name):
                raise self._refused(f"it holds {each.name}")
            if not _ASIDE.fullmatch(each.name) and not S_ISREG(each.lstat().st_mode):
                raise self._refused(f"its {each.name} is no file")

    def _take_lock(self) -> None:
        try:
            self._lock = _locked(self.path / _LOCK)
        except OSError as error:
            if error.errno not in {EACCES, EPERM, EROFS} or not (self.path / _SUMS).exists():
                raise
            self._read_only = error

    def check_writable(self) -> None:
        """InputError where what is kept can be read alone."""
        if self._read_only is not None:
            raise self._unwritten(self._read_only)

    def _unwritten(self, error: OSError) -> InputError:
        wanted = (
            f"a directory that can be written ({error.strerror}); what it keeps is whole, and "
            "the same call goes on from there"
        )
        return InputError("run", str(self.path), wanted)

    def _open(self) -> None:
        if self._read_only is None:
            for each in self.path.iterdir():
                if _ASIDE.fullmatch(each.name):
                    each.unlink(missing_ok=True)
        found = self.path / _MANIFEST
        names = [path.name for path in self.path.glob("*.npz")]
        if found.exists():
            self._compare(found)
        elif names:
            raise self._refused(f"it has {names[0]} but no {_MANIFEST}")
        else:
            text = json.dumps(self.content | {"hash": _hash(self.content)}, indent=1)
            self._write(text + "\n", found)
        self.waiting = {int(path.stem[6:]) for path in self.path.glob("chunk-*.npz")}

    def _compare(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            intact = found["hash"] == _hash(found)
        except (ValueError, TypeError, KeyError, RecursionError):
            intact = False
        if not intact:
            raise self._refused(f"its {path.name} is damaged or no manifest of a run")
        own = json.loads(json.dumps(self.content))
        keys = (own.keys() | found.keys()) - set(_NOTED)
        differing = sorted(key for key in keys if own.get(key) != found.get(key))
        for group in (_FIRST, keys - set(_LAST), _LAST):
            if told := [key for key in differing if key in group]:
                said = (f"{k} is {_short(found.get(k))} and not {_short(own.get(k))}" for k in told)
                raise self._refused(f"its {', its '.join(said)}")

    def begin(self, reference: Array, total: Total) -> None:
        """Keep the reference, and no draws yet."""
        self._reference = reference
        self.save(total, 0)

    def kept(self) -> tuple[dict[str, Array], int, Array] | None:
        """The total of the first chunks, their number, and the reference; None if nothing."""
        if not (self.path / _SUMS).exists():
            return None
        stored = self._load(self.path / _SUMS)
        self._reference, self._saved = stored.pop("reference"), int(stored.pop("chunks"))
        return stored, self._saved, self._reference

    def damaged(self, path: Path | None = None) -> InputError:
        """The error for a file, or for what `kept` brings, that is not as it was written."""
        wanted = "an undamaged file of this run; remove it to sample its draws again"
        return InputError("run", str(path or self.path / _SUMS), wanted)

    def save(self, total: Total, chunks: int) -> None:
        """Keep what the first chunks come to; what waited for them is of no more use."""
        if self._read_only is not None:
            return
        if chunks != self._saved:
            self._store(self.path / _SUMS, total.arrays(), chunks)
            self._saved = chunks
        for number in sorted(self.waiting):
            if number < chunks:
                self._chunk(number).unlink(missing_ok=True)
                self.waiting.discard(number)

    def keep_chunk(self, number: int, found: Array) -> None:
        """Keep a chunk that waits for an earlier one."""
        self._store(self._chunk(number), {"sums": found}, 1)
        self.waiting.add(number)

    def chunk(self, number: int, shape: tuple[int, ...]) -> Array:
        """A chunk that waited."""
        stored = self._load(self._chunk(number))
        if "sums" not in stored or stored["sums"].shape != shape:
            raise self.damaged(self._chunk(number))
        if not np.array_equal(stored["reference"], self._reference):
            wanted = "chunks with the draw 0 of this run; remove it to sample its draws again"
            raise InputError("run", str(self._chunk(number)), wanted)
        return stored["sums"]

    def _write(self, content: str | bytes, path: Path) -> None:
        try:
            write(content, path)
        except OSError as error:
            raise self._unwritten(error) from None

    def _chunk(self, number: int) -> Path:
        return self.path / f"chunk-{number}.npz"

    def _store(self, path: Path, found: dict[str, Array], chunks: int) -> None:
        arrays = {**found, "chunks": np.array(chunks), "reference": self._reference}
        self._write(pack(arrays), path)

    def _load(self, path: Path) -> dict[str, Array]:
        try:
            arrays = unpack(path.read_bytes())
        except OSError as error:
            wanted = f"a file that can be read ({error.strerror})"
            raise InputError("run", str(path), wanted) from None
        if arrays is None or not {"chunks", "reference"} <= set(arrays):
            raise self.damaged(path)
        return arrays


def check_path(path: object) -> Path:
    """The path of a run's directory, or an InputError."""
    return Path(checks.path("run", path))


def is_run(path: Path) -> bool:
    """True if a directory is a run's: it holds files of one, or nothing yet, and no others."""
    return path.is_dir() and all(_is_own(each.name) for each in path.iterdir())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:60]} … {text[-30:]}"


def _is_own(name: str) -> bool:
    return bool(_OWN.fullmatch(name) or _ASIDE.fullmatch(name))


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps({key: content[key] for key in content if key != "hash"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digest(array: NDArray[Any]) -> str:
    """A hash of an array's bytes, by which a manifest tells it from others."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as the content of a file, with a hash of them all; no array is of objects."""
    stream = io.BytesIO()
    np.savez(stream, digest=_digest_of(arrays), **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def unpack(content: bytes) -> dict[str, Array] | None:
    """The arrays that were packed; None if they are not as they were."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files if name != "digest"}
            return arrays if str(stored["digest"]) == str(_digest_of(arrays)) else None
    except Exception:  # zip, zlib and NumPy each raise their own
        return None


def _digest_of(arrays: dict[str, NDArray[Any]]) -> str:
    return _hash({name: [array.shape, digest(array)] for name, array in arrays.items()})


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
            wanted = "a directory that is not in use by another process"
            raise InputError("run", str(path.parent), wanted) from None
        # a file system without locks: nothing to hold
    return file
