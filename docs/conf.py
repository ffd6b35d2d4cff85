"""The site: `make docs`. No page asks the network for anything."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.scrapers import figure_rst

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import as_rst
from notebook_pages import NotebookParser

project = "Wickgarten"
author = "The Wickgarten developers"
copyright = author
version = release = version_of("wickgarten")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
sphinx_gallery_conf = {
    "examples_dirs": "gallery",  # scripts, which are run
    "gallery_dirs": "examples_gallery",  # and the pages that are made of them
    "show_memory": False,
    "min_reported_time": 1e6,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "copyfile_regex": "",
    "image_scrapers": ("matplotlib", "conf.returned_figures"),
}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "paper", "gallery", "examples_gallery/*.ipynb"]

html_theme = "furo"
html_title = f"Wickgarten {version}"
html_static_path: list[str] = []
html_show_copyright = False
html_math_renderer = "mathml"
html_copy_source = False
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # an attribute of that name in several classes


def mathml(self: HTML5Translator, node: nodes.Element) -> None:
    """A formula as MathML, which needs no script."""
    block = isinstance(node, nodes.math_block)
    display = "block" if block else "inline"
    formula = latex2mathml.converter.convert(node.astext().strip(), display=display)
    self.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def returned_figures(
    block: object, names: dict[str, Any], settings: dict[str, Any], **_: object
) -> str:
    """The picture of a script of the gallery whose figure comes from this library, not pyplot."""
    figure = names["example_globals"].get("figure")
    if not isinstance(figure, Figure) or figure.canvas.manager:
        return ""
    path = names["image_path_iterator"].next()
    figure.savefig(path, dpi=100)
    return str(figure_rst([path], settings["src_dir"]))


def docstring(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Docstrings here are text with mathematics, which Sphinx takes for reStructuredText."""
    lines[:] = as_rst(lines)


def signature(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    shown: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Without the addresses of default values."""
    return (re.sub(r"<([\w. ]+) at 0x[0-9a-f]+>", r"<\1>", shown) if shown else shown), returned


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", signature)
