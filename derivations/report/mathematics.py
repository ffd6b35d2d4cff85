"""Markdown as HTML, with its formulas as MathML, so that a page needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin

from .formulas import mathml


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
