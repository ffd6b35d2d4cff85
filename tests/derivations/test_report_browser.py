"""The report in a real browser, headless: at a phone's and a desk's width, dark and light.

The pages are those of the sample chapter, whose claims are proven and whose text is nasty, and of
the whole book's prose, code and ledger, with one cheap claim of each chapter proven.
"""

import importlib
import io
import shutil
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from derivations import claims, report
from derivations.claims.registry import CHAPTERS, Outcome
from derivations.claims.verdicts import Verdict
from derivations.ledger import Entry
from derivations.pictures.svg import compact
from derivations.report import Book
from derivations.report.mathematics import CELL

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE, DESK = 360, 1280

pytestmark = [
    pytest.mark.slow,  # every one of them: what they share, the pages and a browser, costs most
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH"),
]


def cheap(source):
    """A chapter's first claim that does not sample, proven; the others with nothing to show."""
    chosen = claims.claims([source])
    first = [each for each in chosen if not each.sampled][:1]
    proven = {each.claim: each for each in claims.check(first)}
    return [proven.get(each, Outcome(each, Verdict("exact", ""), 0.0)) for each in chosen]


def statements(source):
    return [Entry(source, each.equation, "shown", (each,)) for each in claims.claims([source])]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pages of the sample chapter, nasty/, and of the book, book/."""
    directory = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "samples")
        importlib.import_module("sample_chapter")
        sample = [each for each in claims.in_module("sample_chapter") if each.source == "000"]
        ledger = [
            Entry("000", "1.1", "shown", tuple(sample)),
            Entry("000", "A long item's name, (1.1)–(99.99)", "not a statement", note="$a<b$ <i>"),
        ]
        nasty = Book(list(claims.check(sample)), {"000": ledger})
        outcomes = [outcome for source in CHAPTERS for outcome in cheap(source)]
        book = Book(outcomes, {source: statements(source) for source in CHAPTERS})
        report.write_directory(nasty, directory / "nasty")
        report.write_directory(book, directory / "book")
        yield sorted(directory.glob("*/*.html"))


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


class Opened:
    """A page with everything unfolded; what it asked for, and what it complained of."""

    def __init__(self, context, file, width, scheme):
        self.file, self.width, self.scheme = file, width, scheme
        self.page = context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))
        self.page.goto(file.as_uri())
        self("document.querySelectorAll('details').forEach(d => d.open = true)")

    def __call__(self, script):
        return self.page.evaluate(script)


def window(browser, width, scheme):
    return browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)


@pytest.fixture(scope="module")
def opened(browser, files):
    """Every page at both widths, dark on the phone; the sample chapter's the other way too.

    Those of one width and scheme share a context: each has processes of its own.
    """
    views = [(file, *view) for file in files for view in ((PHONE, "dark"), (DESK, "light"))]
    for file in files:
        if "nasty" in file.parts:
            views += [(file, PHONE, "light"), (file, DESK, "dark")]
    contexts = {view[1:]: window(browser, *view[1:]) for view in views}
    yield [Opened(contexts[view[1:]], *view) for view in views]
    for context in contexts.values():
        context.close()


def chapter(opened, kind, width):
    """The first page 000 of one of the reports at a width."""
    return next(
        each
        for each in opened
        if kind in each.file.parts and each.file.name == "000.html" and each.width == width
    )


def test_nothing_overflows(opened):
    for each in opened:
        assert each("document.documentElement.scrollWidth") <= each.width, each.file
        assert each(BEYOND) == [], each.file


BEYOND = """() => {
  const scrolls = ['auto', 'scroll', 'hidden'];
  const boxed = e => { for (; e; e = e.parentElement)
    if (scrolls.includes(getComputedStyle(e).overflowX)) return true; };
  return [...document.querySelectorAll('body *:not(.skip)')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !boxed(e))
    .map(e => e.outerHTML.slice(0, 120));
}"""


def test_what_scrolls_can_be_reached_and_has_a_name(opened):
    for each in opened:
        assert each(SCROLLS) == [], each.file


SCROLLS = """() => [...document.body.querySelectorAll('*')]
  .filter(e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
    && e.scrollWidth > e.clientWidth + 1)
  .filter(e => { e.focus(); return document.activeElement !== e || e.tabIndex !== 0
    || !e.getAttribute('role') || !e.getAttribute('aria-label'); })
  .map(e => e.outerHTML.slice(0, 120))"""


def test_every_image_loads_and_no_request_leaves_the_report(opened):
    loaded = []
    for each in opened:
        loaded += each(IMAGES)
        assert each.complaints == [], each.file
        folder = each.file.parent
        page = {each.file.as_uri(), (folder / "style.css").as_uri()}
        figures = {path.as_uri() for path in folder.glob("*.svg")}
        asked = {url for url in each.requests if not url.startswith("data:")}
        assert page <= asked <= page | figures, each.file
    assert loaded
    assert all(loaded)


IMAGES = """async () => {
  for (const image of document.images) { image.loading = 'eager'; await image.decode(); }
  return [...document.images].map(i => i.naturalWidth > 0 && i.alt.length > 0);
}"""


def test_every_link_and_fragment_resolves(opened):
    anchors, links = {}, set()
    for each in opened:
        anchors[each.file] = set(each("[...document.querySelectorAll('[id]')].map(e => e.id)"))
        links |= {(each.file, url) for url in each("[...document.links].map(a => a.href)")}
    assert len(links) > 100
    for file, url in links:
        parts = urlsplit(url)
        path = Path(unquote(parts.path))
        assert (parts.scheme, path.parent) == ("file", file.parent)
        assert path.is_file()
        assert not parts.fragment or unquote(parts.fragment) in anchors[path], url


def test_the_structure_is_a_document_s(opened):
    for each in opened:
        levels = each("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(below <= level + 1 for level, below in pairwise(levels)), each.file
        assert each("document.querySelectorAll('main').length") == 1
        assert each("document.documentElement.lang") == "en"
        assert each("document.title").strip()
        assert each("[...document.querySelectorAll('nav')].every(n => n.ariaLabel)")
        assert each(
            "[...document.querySelectorAll('table')].every(t => t.caption || t.closest"
            "('[aria-label]'))"
        )
        assert each("[...document.querySelectorAll('th')].every(t => t.scope)")
        ids = each("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        assert each("document.scripts.length") == 0


def test_text_stands_out_from_its_background(opened):
    for each in opened:
        assert each(FAINT) == [], (each.file, each.scheme)


FAINT = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if ((c[3] ?? 1) === 1) return c; } };
  const found = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim()) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(ratio.toFixed(2) + ' ' + e.outerHTML.slice(0, 100));
  }
  return [...found];
}"""


def test_dark_is_dark_and_figures_stay_on_white(opened):
    seen = {}
    for each in opened:
        if "nasty" in each.file.parts and each.file.name == "000.html":
            ground = each("getComputedStyle(document.documentElement).backgroundColor")
            seen.setdefault(each.scheme, set()).add(ground)
            panel = each("getComputedStyle(document.querySelector('.panel')).backgroundColor")
            assert panel == "rgb(255, 255, 255)"
    assert seen == {"light": {"rgb(253, 252, 249)"}, "dark": {"rgb(21, 23, 27)"}}


def test_the_keyboard_reaches_everything(opened):
    phone = chapter(opened, "nasty", PHONE)
    wanted = phone(
        "[...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility()).map((e, k) => (e.dataset.k = k) + '')"
    )
    phone("document.activeElement.blur(); document.querySelector('.skip').focus()")
    reached = ["0"]
    for _ in wanted[1:]:
        phone.page.keyboard.press("Tab")
        reached.append(phone("document.activeElement.dataset.k"))
        assert phone("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached == wanted


def test_the_contents_are_folded_on_a_phone_and_open_on_a_desk(browser, files):
    file = next(each for each in files if each.name == "000.html" and "book" in each.parts)
    for width, folded in ((PHONE, True), (DESK, False)):
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.goto(file.as_uri())
        links = page.evaluate(
            "[...document.querySelectorAll('nav.side li a')]"
            ".filter(e => e.checkVisibility()).length"
        )
        shown = len(claims.CHAPTERS["000"])
        assert links == (0 if folded else shown + 1)
        if folded:
            assert page.evaluate("document.querySelector('h1').getBoundingClientRect().top") < 300
            page.evaluate("document.querySelector('nav.side details').open = true")
            assert page.evaluate("document.querySelector('.narrow li a').checkVisibility()")
        context.close()


def test_no_room_is_left_before_a_full_stop(browser, tmp_path):
    """What MathML leaves behind a formula that ends in an index is taken back."""
    style = (Path(report.__file__).parent / "templates" / "style.css").read_text()
    text = "".join(f"<p>{CELL.renderInline(each)}" for each in ("$n$.", "$nC_W$.", "$x^{(p,q)}$."))
    file = tmp_path / "formulas.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{text}")
    page = browser.new_page()
    page.goto(file.as_uri())
    margins = page.evaluate(
        "[...document.querySelectorAll('math')].map(e => getComputedStyle(e).marginRight)"
    )
    assert [float(each.removesuffix("px")) < 0 for each in margins] == [False, True, True]
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()


def test_the_first_link_skips_to_the_text(browser, files):
    context = window(browser, DESK, "light")
    page = Opened(context, files[0], DESK, "light")
    page.page.keyboard.press("Tab")
    assert page("document.activeElement.className") == "skip"
    assert page("document.activeElement.getBoundingClientRect().left") >= 0
    page.page.keyboard.press("Enter")
    assert page("location.hash") == "#main"
    assert page("document.activeElement.id") == "main"
    context.close()


def test_without_scripts_it_looks_the_same(browser, files):
    for file in files[-2:]:
        pictures = []
        for enabled in (True, False):
            context = browser.new_context(java_script_enabled=enabled)
            page = context.new_page()
            page.goto(file.as_uri())
            pictures.append(page.screenshot())
            context.close()
        assert pictures[0] == pictures[1]


def test_a_compact_figure_looks_as_it_did(browser, tmp_path):
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    left.errorbar([1, 2, 3], [1, 4, 9], [0.5, 1, 2], fmt="o", label="$x^2$")
    left.plot(np.linspace(1, 3), np.linspace(1, 3) ** 2, "--")
    left.legend()
    right.imshow(np.arange(9).reshape(3, 3))
    right.hist([1, 1, 2], histtype="step")
    raw = io.StringIO()
    figure.savefig(raw, format="svg")
    seen = []
    for text in (raw.getvalue(), compact(raw.getvalue())):
        (tmp_path / "figure.svg").write_text(text, encoding="utf-8")
        page = browser.new_page()
        page.goto((tmp_path / "figure.svg").as_uri())
        seen.append(np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"), float))
        page.close()
    assert seen[0].std() > 10
    assert np.abs(seen[0] - seen[1]).max() < 40  # the edges of what moved by 1/200 of a point
    assert len(compact(raw.getvalue())) < 0.7 * len(raw.getvalue())


def test_formulas_are_drawn(opened):
    for each in opened:
        sizes = each(
            "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect())"
            ".map(r => [r.width, r.height])"
        )
        assert all(width > 0 and height > 0 for width, height in sizes), each.file
        if "book" in each.file.parts:
            assert each("[...document.querySelectorAll('code.tex')].map(e => e.outerHTML)") == []
    assert len(chapter(opened, "book", DESK)("[...document.querySelectorAll('math')]")) > 50
