"""Verdicts kept while a book is being checked, so that a check that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from derivations.claims import kept
from derivations.claims.registry import Claim, Outcome, Sampling
from derivations.claims.verdicts import Kind, Verdict
from derivations.claims.witness import Witness
from derivations.files import make_directory, write_text
from derivations.pictures.drawn import Drawn, drawn
from derive.errors import InputError
from derive.work.caches import cache

PACKAGES = (
    "matplotlib",
    "mpmath",
    "numba",
    "numpy",
    "python-flint",
    "scikit-learn",
    "scipy",
    "sympy",
    "xarray",
)
"""Files that a verdict depends on, besides this project's own source."""


class Kept:
    """A directory with a file for each outcome.

    A file's name holds the claim, this project's source, the versions it runs on and, for a claim
    that samples, the seed and the number of sampled claims: any other outcome is not found.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def read(self, claim: Claim, sampling: Sampling) -> Outcome | None:
        """The claim's outcome, if it is kept and whole."""
        try:
            text = self._path(claim, sampling).read_text(encoding="utf-8")
            record = json.loads(text)
            ensembles = kept.Tally(**record["ensembles"])
            seconds, processor = float(record["seconds"]), record["processor"]
            processor = None if processor is None else float(processor)
            return Outcome(claim, _verdict(record["verdict"]), seconds, ensembles, processor)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, outcome: Outcome, sampling: Sampling) -> None:
        """Keep it, whole or not at all. A failure is not kept: it is to be tried again."""
        if not outcome.verdict.holds:
            return
        figures = {stem: drawn(made) for stem, made in outcome.verdict.figures.items()}
        verdict = {
            name: value for name, value in vars(outcome.verdict).items() if name != "figures"
        }
        verdict["figures"] = {stem: asdict(made) for stem, made in figures.items()}
        verdict["witness"] = None if verdict["witness"] is None else asdict(verdict["witness"])
        record = {
            "seconds": outcome.seconds,
            "processor": outcome.processor,
            "ensembles": asdict(outcome.ensembles),
            "verdict": verdict,
        }
        text = json.dumps(record, ensure_ascii=False)
        make_directory("report", self.directory)
        write_text(text, self._path(outcome.claim, sampling), "report")

    @property
    def count(self) -> int:
        """How many outcomes are there, of any source and version."""
        return len(self._files())

    def clear(self) -> None:
        """Remove what was kept, and nothing else."""
        for path in self._files():
            path.unlink(missing_ok=True)
        if self.directory.is_dir() and not any(self.directory.iterdir()):
            self.directory.rmdir()

    def check(self) -> None:
        """InputError unless outcomes can be kept there."""
        if self.directory.exists() and not (
            self.directory.is_dir() and set(self._files()) == set(self.directory.iterdir())
        ):
            raise InputError("report", str(self.directory), "nothing there, or an earlier check's")

    def _files(self) -> list[Path]:
        return list(self.directory.glob(f"*{_SUFFIX}"))

    def _path(self, claim: Claim, sampling: Sampling) -> Path:
        key = [claim.source, claim.name, claim.equation, claim.title, source_hash(), *versions()]
        key += [repr(sampling)] if claim.sampled else []
        digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
        return self.directory / f"{claim.source}-{claim.name}-{digest[:16]}{_SUFFIX}"


_SUFFIX = ".verdict.json"


def source_hash() -> str:
    """Of every module of the three rooms."""
    return kept.source_hash("derive", "numeric", "derivations")


@cache
def versions() -> tuple[str, ...]:
    """Of Python and `PACKAGES`."""
    return (sys.version, *(f"{name} {version(name)}" for name in PACKAGES))


def _verdict(record: Mapping[str, Any]) -> Verdict:
    """A verdict as it was written; ValueError, TypeError or KeyError for anything else."""
    fields = dict(record)
    for name in ("digits", "z", "bound"):
        fields[name] = None if fields[name] is None else float(fields[name])
    fields["comparisons"], fields["points"] = int(fields["comparisons"]), int(fields["points"])
    for name in ("resolutions", "noticed"):
        fields[name] = tuple(map(float, fields[name]))
    if fields["witness"] is not None:
        error = float(fields["witness"].pop("error"))
        fields["witness"] = Witness(**_texts(fields["witness"]), error=error)
    fields["figures"] = {stem: Drawn(**_texts(made)) for stem, made in fields["figures"].items()}
    fields["sides"] = tuple((str(left), str(right)) for left, right in fields["sides"])
    _texts({name: fields[name] for name in ("kind", "derived", "printed", "detail", "table")})
    if fields["kind"] not in get_args(Kind):
        raise ValueError(fields["kind"])
    return Verdict(**fields)


def _texts(record: Mapping[str, Any]) -> Mapping[str, str]:
    if not all(isinstance(value, str) for value in record.values()):
        raise ValueError(record)
    return record
