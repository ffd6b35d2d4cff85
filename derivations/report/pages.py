"""The report as pages: an index, one for each chapter, the style, and figures with numbers; and
their directory, which appears whole or not at all."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from derivations.claims.registry import FALSE_ALARMS
from derivations.files import check_parent, write_text
from derive.errors import InputError

from .book import ORDER, Book, count
from .chapters import Proof, chapter, cited, duration
from .code import marked, source
from .mathematics import phrase, prose
from .record import NAME, write_json
from .sources import VERDICTS
from .terminal import COUNTED, ensembles, measure, resolved, spent

INDEX = "index.html"
MARK = "<!-- a report of wickgarten check -->"
"""By which a report is known as one."""


def pages(book: Book) -> dict[str, str]:
    """The report's files by name, the same for the same outcomes."""
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.tests["claim"] = lambda part: isinstance(part, Proof)
    templates.filters |= {
        "cited": cited,
        "code": lambda function: marked(source(function)),
        "duration": duration,
        "measure": measure,
        "phrase": phrase,
        "prose": lambda text: prose(inspect.cleandoc(text)),
    }
    mantissa, _, exponent = f"{FALSE_ALARMS:.1e}".partition("e")
    chapters = [chapter(book, each) for each in book.chapters]
    shared = {
        "mark": Markup(MARK),
        "book": book,
        "chapters": chapters,
        "order": ORDER,
        "icons": {kind: icon for kind, (icon, _) in VERDICTS.items()},
        "meanings": {kind: meaning for kind, (_, meaning) in VERDICTS.items()},
        "counted_as": COUNTED,
        "ensembles": ensembles(book),
        "spent": spent(book),
        "resolved": resolved(book).capitalize() if book.resolutions else "",
        "claimed": count(outcome.verdict.kind for outcome in book.outcomes),
        "false_alarms": Markup("{}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10<sup>{}</sup>").format(
            mantissa, int(exponent)
        ),
    }
    found = {
        INDEX: templates.get_template(INDEX).render(**shared),
        "style.css": (files(__package__) / "templates" / "style.css").read_text("utf-8"),
    }
    page = templates.get_template("chapter.html")
    for number, each in enumerate(chapters):
        around = chapters[max(0, number - 1) : number], chapters[number + 1 : number + 2]
        found[each.page] = page.render(**shared, chapter=each, around=around)
        for picture in (picture for claim in each.claims for picture in claim.pictures):
            found[picture.svg], found[picture.numbers] = picture.made.svg, picture.made.numbers
    return found


def check_directory(directory: str | os.PathLike[str]) -> None:
    """InputError unless a report can go there: it is new, empty, or holds an earlier report."""
    target = Path(directory)
    wanted = "a new directory, or one with an earlier report"
    try:
        if target.exists() and not target.is_dir():
            raise InputError("report", str(directory), wanted)
        if target.is_dir() and any(target.iterdir()):
            index = target / INDEX
            if not (index.is_file() and MARK in index.read_text("utf-8", "replace")):
                raise InputError("report", str(directory), wanted)
    except OSError as error:
        raise InputError("report", str(directory), f"{wanted} ({error.strerror})") from None
    check_parent("report", directory)


def write_directory(book: Book, directory: str | os.PathLike[str]) -> Path:
    """Pages, figures with their numbers, and JSON; the directory of an earlier report is replaced.

    Raises:
        InputError: where the directory is not a report's, or can't be written.
    """
    check_directory(directory)
    target = Path(directory).resolve()
    try:
        return _replace(book, target)
    except OSError as error:
        wanted = f"a directory that can be written ({error.strerror})"
        raise InputError("report", str(directory), wanted) from None


def _replace(book: Book, target: Path) -> Path:
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    former = aside.with_name(aside.name + ".old")
    try:
        for name, text in pages(book).items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(text, aside / name, "report")
        write_json(book, aside / NAME)
        aside.chmod(0o755)
        if target.exists():
            target.rename(former)
        aside.rename(target)
    finally:
        if former.exists() and not target.exists():
            former.rename(target)
        for leftover in (aside, former):
            shutil.rmtree(leftover, ignore_errors=True)
    return target
