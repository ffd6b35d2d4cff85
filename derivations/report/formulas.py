"""LaTeX as MathML, kept from one report to the next."""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

from latex2mathml.converter import convert_to_element
from markupsafe import Markup

from derive.work.caches import cache
from numeric.emit import modules

LONG = 24
"""Characters of a formula that fit on a phone."""

MOST = 20_000
"""Formulas that are kept."""

_ATTRIBUTES = {
    "accent",
    "columnalign",
    "columnspacing",
    "display",
    "displaystyle",
    "form",
    "linethickness",
    "lspace",
    "mathvariant",
    "maxsize",
    "minsize",
    "rowspacing",
    "rspace",
    "separator",
    "stretchy",
    "width",
}
"""Those of MathML that only change how a formula looks; `href`, `style`, `class` are not kept."""

_TAGS = {
    "math",
    "menclose",
    "mfrac",
    "mi",
    "mn",
    "mo",
    "mover",
    "mpadded",
    "mphantom",
    "mroot",
    "mrow",
    "mspace",
    "msqrt",
    "mstyle",
    "msub",
    "msubsup",
    "msup",
    "mtable",
    "mtd",
    "mtext",
    "mtr",
    "munder",
    "munderover",
}
"""Those of MathML that formulas have."""

_known: ContextVar[dict[str, str] | None] = ContextVar("known", default=None)


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Read this block's formulas from a file, and keep there those that are not, as text by their
    LaTeX: a book's are seconds to make, and the same from one check to the next.

    What the file has of another version, or what is no formula, is left, and LaTeX that has none is
    not kept; where the file cannot be read or written all are made anew.
    """
    before = _read(path)
    known = dict(before)
    token = _known.set(known)
    try:
        yield
    finally:
        _known.reset(token)
        if known != before:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                record = {"version": _version(), "formulas": dict([*known.items()][-MOST:])}
                modules.write(json.dumps(record, ensure_ascii=False), path)


def _read(path: Path) -> dict[str, str]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["version"] != _version():
            return {}
        found = dict(record["formulas"])
        return {
            latex: made for latex, made in found.items() if _is_text(latex) and _is_formula(made)
        }
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def _is_text(latex: str) -> bool:
    """True if it can be written: JSON has halves of letters."""
    return latex.isascii() or not any("\ud800" <= each <= "\udfff" for each in latex)


def _is_formula(made: object) -> bool:
    """True if it is an element of MathML as this module writes it, with tags and attributes that
    only change how it looks."""
    if not isinstance(made, str) or "<!" in made:
        return False
    try:
        root = fromstring(made)
        written = tostring(root, encoding="unicode")
    except (ParseError, RecursionError, ValueError):
        return False
    return (
        root.tag == "math"
        and written == made
        and all(each.tag in _TAGS and _ATTRIBUTES.issuperset(each.attrib) for each in root.iter())
    )


@cache
def _version() -> str:
    """The version of a formula, besides its LaTeX."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return f"{version('latex2mathml')} {own}"


@cache
def mathml(latex: str, display: bool = False, boxed: bool = False) -> Markup:
    """A formula; the LaTeX if it has no MathML. If it is long it scrolls in a box of its own,
    unless it stands in one, `boxed`."""
    known, key = _known.get(), f"{'block' if display else 'inline'} {latex}"
    written = None if known is None else known.get(key)
    if written is None:
        written = _converted(latex, display)
        if known is not None and written:
            known[key] = written
    if not written:
        return Markup('<code class="tex">{}</code>').format(latex)
    made = Markup(written)
    if boxed or len(html.unescape(re.sub("<[^<>]*>", "", written))) <= LONG:
        return Markup('<div class="formula">{}</div>').format(made) if display else made
    tag = "div" if display else "span"
    kind = "formula scroll" if display else "scroll"
    return Markup(
        '<{tag} class="{kind}" tabindex="0" role="group" aria-label="formula">{made}</{tag}>'
    ).format(tag=tag, kind=kind, made=made)


def _converted(latex: str, display: bool) -> str:
    """The formula's MathML; empty if it has none."""
    try:
        element = convert_to_element(latex, display="block" if display else "inline")
    except Exception:  # its parser raises IndexError, TypeError … besides its own errors
        return ""
    if any("\\" in (each.text or "") for each in element.iter()):
        return ""
    for each in element.iter():
        _clean(each)
    _unwrap(element)
    return tostring(element, encoding="unicode")


def _clean(element: Element) -> None:
    """Text that is escaped when it is written, attributes that are harmless, letters in Unicode."""
    element.text = html.unescape(element.text or "")
    variant = element.get("mathvariant")
    for name in set(element.attrib) - _ATTRIBUTES:
        del element.attrib[name]
    if element.get("stretchy") == "true" and element.text in _FENCES:
        del element.attrib["stretchy"]  # they do of themselves
    if element.tag == "mi" and element.text == "~":  # latex2mathml's \sim
        element.tag, element.text = "mo", "∼"
    if variant in _ALPHABETS:
        del element.attrib["mathvariant"]
        element.text = "".join(_letter(each, _ALPHABETS[variant]) for each in element.text)


_FENCES = set("()[]{}⟨⟩|")


def _unwrap(element: Element) -> None:
    """Rows of one thing give way to it: half of a long formula's markup is such rows."""
    for place, child in enumerate(element):
        _unwrap(child)
        if child.tag == "mrow" and len(child) == 1 and not child.attrib:
            element[place] = child[0]


_ALPHABETS = {
    "bold": ("BOLD",),
    "script": ("SCRIPT",),
    "double-struck": ("DOUBLE-STRUCK",),
    "fraktur": ("FRAKTUR", "BLACK-LETTER"),
    "bold-italic": ("BOLD ITALIC",),
}
"""Browsers draw these alphabets from Unicode, and not for an attribute."""


def _letter(letter: str, alphabets: Sequence[str]) -> str:
    case = "CAPITAL" if letter.isupper() else "SMALL"
    kind = f"{case} {unicodedata.name(letter, '').rpartition(' ')[2]}"
    kind = f"DIGIT {unicodedata.name(letter)[6:]}" if letter.isdigit() else kind
    for name in alphabets:
        for prefix in ("MATHEMATICAL ", ""):
            try:
                return unicodedata.lookup(f"{prefix}{name} {kind}")
            except KeyError:
                continue
    return letter
