"""LaTeX as MathML, and Markdown as HTML with such formulas, so that a page needs no script."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin

from derive.work.caches import cache

LONG = 24
"""Characters of a formula that fit on a phone."""

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


@cache
def mathml(latex: str, display: bool = False, boxed: bool = False) -> Markup:
    """A formula; the LaTeX if it has no MathML. If it is long it scrolls in a box of its own,
    unless it stands in one, `boxed`."""
    written = _converted(latex, display)
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


def _renderer(md: MarkdownIt) -> MarkdownIt:
    md.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    md.add_render_rule("math_inline", _inline)
    md.add_render_rule("math_inline_double", _block)
    md.add_render_rule("math_block", _block)
    md.add_render_rule("math_block_label", _block)
    md.add_render_rule("code_block", _code)
    md.add_render_rule("fence", _code)
    md.add_render_rule("table_open", lambda *_: f"{_box('table')}<table>\n")
    md.add_render_rule("table_close", lambda *_: "</table></div>\n")
    md.add_render_rule("th_open", lambda *_: '<th scope="col">')
    return md


def _box(name: str) -> str:
    """A formula that is too wide for a phone scrolls in a box that the keyboard reaches."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{name}">'


def _inline(_: Any, tokens: Sequence[Any], place: int, *__: Any) -> str:
    return str(mathml(" ".join(tokens[place].content.split())))


def _block(_: Any, tokens: Sequence[Any], place: int, *__: Any) -> str:
    return str(mathml(" ".join(tokens[place].content.split()), display=True))


def _code(_: Any, tokens: Sequence[Any], place: int, *__: Any) -> str:
    pre = '<pre tabindex="0" role="group" aria-label="code"><code>{}</code></pre>\n'
    return str(Markup(pre).format(tokens[place].content))


CELL = _renderer(
    MarkdownIt("commonmark", {"html": False})
    .enable("table")
    .disable(["blockquote", "link", "image", "autolink", "reference", "html_inline", "html_block"])
)
"""Of a notebook's cell: W[2](n) is no link, and a line that starts with > is an inequality."""

PLAIN = _renderer(MarkdownIt("zero").enable(["code", "fence", "backticks"]))
"""Of a docstring or a line of text: mathematics, code and paragraphs, where * and _ are letters."""


def prose(text: str) -> Markup:
    """A docstring as paragraphs."""
    return Markup(PLAIN.render(text))


def phrase(text: str) -> Markup:
    """A line of text."""
    return Markup(PLAIN.renderInline(text))
