"""The notebooks of docs/notebooks run, and print what they show.

    python tests/test_notebooks.py [NAME …]     # runs them anew and keeps their outputs

Cells are executed in order in one namespace, as a kernel would: what is printed, then the last
expression. A notebook is JSON, so that this needs no kernel, and no package beside the library's.
Figures are drawn but not compared.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def executed(source, namespace):
    """What a cell prints, and the value of its last expression or None."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        value = (
            eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace) if last else None
        )
    return printed.getvalue(), value


def outputs(source, namespace, count):
    """A cell's outputs as a notebook keeps them."""
    printed, value = executed(source, namespace)
    found = []
    if printed:
        lines = printed.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {}
        if isinstance(value, Figure):
            buffer = io.BytesIO()
            value.savefig(buffer, format="png", dpi=72, metadata={"Software": None})
            data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
            text = "<Figure>"
        else:
            text = repr(value)
        data["text/plain"] = text.splitlines(keepends=True)
        result = {"data": data, "execution_count": count, "metadata": {}}
        found.append(result | {"output_type": "execute_result"})
    return found


def run(notebook):
    """The notebook with the outputs that its cells have now."""
    namespace, count = {"__name__": "__main__"}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = outputs("".join(cell["source"]), namespace, count)
    return notebook


def shown(notebook):
    """What its code cells show, as text."""
    return [
        "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        for output in cell["outputs"]
    ]


def needed(notebook):
    """The frameworks that its cells import."""
    source = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    return re.findall(r"^(?:import|from) (torch|jax|keras)\b", source, re.MULTILINE)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kept = read(path)
    for name in needed(kept):
        pytest.importorskip(name, reason=f"needs wickgarten[{name}], make test-models")
    assert shown(run(read(path))) == shown(kept)
    assert any("image/png" in str(cell.get("outputs")) for cell in kept["cells"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_of_the_format(path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbformat.validate(nbformat.read(path, as_version=4))


def test_the_page_has_every_notebook():
    page = (NOTEBOOKS[0].parents[1] / "notebooks.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4
    assert all(f"notebooks/{path.name}" in page for path in NOTEBOOKS)


def test_a_changed_number_would_be_seen():
    cell = {"cell_type": "code", "source": ["print(1)\n", "1 + 1"], "outputs": []}
    assert shown(run({"cells": [cell]})) == ["1\n", "2"]


if __name__ == "__main__":
    mpl.use("agg")
    for each in NOTEBOOKS:
        if sys.argv[1:] and each.stem not in sys.argv[1:]:
            continue
        text = json.dumps(run(read(each)), indent=1, ensure_ascii=False)
        each.write_text(text + "\n", encoding="utf-8")
