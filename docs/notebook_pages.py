"""Notebooks as pages of the manual: their text, code and stored outputs, without running them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser


class NotebookParser(MystParser):
    """Reads a notebook as the Markdown that `as_markdown` makes of it."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Called by Sphinx."""
        super().parse(as_markdown(json.loads(inputstring)), document)


def as_markdown(notebook: Mapping[str, Any]) -> str:
    """The cells of a notebook in their order, with outputs below code."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _cell(cell)) + "\n"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield _fence("python", text)
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            png = "".join("".join(data["image/png"]).split())
            yield f"![the figure of this cell](data:image/png;base64,{png})"
        elif shown := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
            yield _fence("text", shown)


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
