"""The report as pages: an index, one for each chapter, the style, and figures with numbers."""

from __future__ import annotations

import inspect
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from derivations.claims.registry import FALSE_ALARMS

from .book import ORDER, Book, count
from .chapters import Proof
from .code import marked, source
from .mathematics import phrase, prose
from .sources import VERDICTS
from .terminal import COUNTED, ensembles, measure, resolved, spent
from .views import chapter, cited, duration

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
        "index.html": templates.get_template("index.html").render(**shared),
        "style.css": (files(__package__) / "templates" / "style.css").read_text("utf-8"),
    }
    page = templates.get_template("chapter.html")
    for number, each in enumerate(chapters):
        around = chapters[max(0, number - 1) : number], chapters[number + 1 : number + 2]
        found[each.page] = page.render(**shared, chapter=each, around=around)
        for picture in (picture for claim in each.claims for picture in claim.pictures):
            found[picture.svg], found[picture.numbers] = picture.made.svg, picture.made.numbers
    return found
