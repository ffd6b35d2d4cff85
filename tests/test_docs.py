"""The documentation is true: its examples run, and its pages build without a network.

Pages are run top down, in an empty directory. In a `pycon` block what follows is the output;
`console` blocks are run by `tests/test_shell_examples.py`. `python` blocks are parsed, no more:
they need a cluster, a GPU, or an older version of something.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OTHERS = {"_build", "paper"}
"""Folders that are no pages of the site."""
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if not OTHERS & set(path.parts))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return [match[2] for match in BLOCK.finditer(text) if match[1] == language]


def all_blocks(page):
    return [match[2] for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("vkernel", None)


NEEDS = {
    "docs/howto/frameworks.md": ("torch", "jax"),
    "numeric.init.initializers": ("jax",),
    "numeric.init.modules": ("torch",),
}
"""Pages and modules whose examples need more than the default environment: the extras."""


def skip_without(name):
    for extra in NEEDS.get(name, ()):
        pytest.importorskip(extra, reason=f"the extra `{extra}` is not installed")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "pycon")], ids=name_of)
@pytest.mark.usefixtures("elsewhere")
def test_examples_run(page):
    skip_without(name_of(page))
    source = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(source, {}, name_of(page), str(page), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)
    assert len(test.examples) > 1


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_other_examples_are_python(page):
    for block in blocks(page, "python"):
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_fits_beside_the_contents(page):
    shown = [line for code in all_blocks(page) for line in code.splitlines()]
    assert max(map(len, shown), default=0) <= 80


def test_every_page_is_reached():
    """By a table of contents, which names the pages of its own folder by their last name."""
    reached = {
        (page.parent / line).resolve()
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
    }
    for page in PAGES:
        assert page.stem == "index" or page.resolve().with_suffix("") in reached, page


BY_THEIR_OWN_NAMES = {
    "derivations.daneshmand.descent",
    "derivations.daneshmand.ensembles",
    "derivations.daneshmand.large_width",
    "derivations.daneshmand.orthogonalization",
    "derivations.daneshmand.moments",
    "derivations.moments.deep_linear",
    "derivations.moments.linear_laws",
    "derivations.nait_saada_tanner.backward",
    "derivations.nait_saada_tanner.given_biases",
    "derivations.nait_saada_tanner.sampling",
    "derivations.pdlt.ratio_limits",
    "derivations.pennington.universality",
    "derivations.training.curves",
    "derivations.moments.haar",
    "derivations.verify",
    "numeric.testing",
}
"""Modules for users that no room hands on."""


def documented():
    """The modules of the public names of every face, and those that the reference shows."""
    names = {"derive", "numeric", *BY_THEIR_OWN_NAMES}
    for room in ("derive", "numeric"):
        package = importlib.import_module(room)
        values = [getattr(package, public) for public in package.__all__]
        for face in [package, *filter(inspect.ismodule, values)]:
            for public in getattr(face, "__all__", ()):
                module = inspect.getmodule(getattr(face, public))
                names |= {module.__name__} if module else set()
    for package in ("derive.spectra", "numeric.spectra"):
        found = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
        names |= {each.name for each in found}
    return sorted(names)


@pytest.mark.parametrize("module", documented())
def test_help_has_examples_that_run(module):
    skip_without(module)
    loaded = importlib.import_module(module)
    outcome = doctest.testmod(loaded, optionflags=FLAGS)
    assert outcome.failed == 0
    assert outcome.attempted or module not in BY_THEIR_OWN_NAMES


def test_help_shows_examples_where_a_session_starts():
    import derive  # noqa: PLC0415
    import numeric  # noqa: PLC0415

    for value in (
        derive.recursion,
        derive.Recursion,
        derive.Network,
        derive.Equation,
        derive.criticality,
        derive.haar_moment,
        derive.weingarten,
        derive.cite,
        numeric.flow,
        numeric.plot,
    ):
        assert ">>> " in inspect.getdoc(value), value


def test_the_site_builds_without_a_warning_or_a_network(tmp_path):
    pytest.importorskip("furo", reason="the extra `docs` is not installed")
    built = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E"]
    guard = tmp_path / "sitecustomize.py"
    guard.write_text(
        "import socket\n"
        "def refuse(self, address):\n"
        "    raise OSError(f'the network was asked for {address}')\n"
        "socket.socket.connect = refuse\n"
    )
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(built)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={"PATH": "", "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = list(built.rglob("*.html"))
    assert {page.relative_to(built).as_posix() for page in pages} >= {
        page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in PAGES
    }
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="([^"]+)"', text
        )
        assert not [address for address in loaded if address.startswith(("http:", "https:", "//"))]
    assert "<math" in (built / "how-it-works.html").read_text(encoding="utf-8")
    listed = built / "reference" / "recursions.html"
    assert "derive.recursion" in listed.read_text(encoding="utf-8")


def readme(draws):
    """The code of the README, block by block, with fewer draws."""
    found = blocks(ROOT / "README.md", "python")
    return [re.sub(r"draws=\d+", f"draws={draws}", block) for block in found]


def test_a_newcomer_needs_ten_lines():
    first = readme(0)[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 10
    for word in ("from_expr", "recursion", "write_module", "compare"):
        assert word in first


@pytest.mark.usefixtures("elsewhere")
def test_the_readme_runs(capsys):
    session: dict[str, object] = {}
    for block in readme(draws=500_000):
        exec(compile(block, "README.md", "exec"), session)
    shown = capsys.readouterr().out
    assert shown.startswith("V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4 - 3*⟨σ²⟩**2 + ⟨σ⁴⟩)\nagrees: ")
    assert Path("vkernel.py").is_file()
