"""The report's pages: what they say of each claim, safely, and the same each time; whole or not."""

import csv
import importlib
import inspect
import io
import json
import re
import tokenize
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from derivations import claims, report
from derivations.claims import reference
from derivations.claims.registry import Outcome
from derivations.claims.verdicts import Verdict
from derivations.ledger import Entry
from derivations.report import Book
from derivations.report.chapters import Proof, cited, duration, sections
from derivations.report.code import marked, source
from derivations.report.mathematics import mathml, phrase, prose
from derivations.report.pages import pages
from derivations.report.terminal import last, ledger_lines, line, measure, summary
from derive import InputError

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture(scope="module")
def sample():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SAMPLES)
        yield importlib.import_module("sample_chapter")


@pytest.fixture(scope="module")
def book(sample):
    chosen = [each for each in claims.in_module("sample_chapter") if each.source == "000"]
    outcomes = [
        Outcome(each.claim, each.verdict, 65.0 if each.claim.sampled else 0.31)
        for each in claims.check(chosen)
    ]
    by_name = {each.prove.__name__: each for each in chosen}
    ledger = [
        Entry("000", "1.1", "shown", (by_name["square"],)),
        Entry("000", "1.2", "shown", (by_name["digits"], by_name["wrong"])),
        Entry("000", "Figure 1", "shown", (by_name["pictures"],)),
        Entry("000", "2", "not a statement", note="$K$ & <b>"),
        Entry("000", "Figure 9", "open", note="training"),
        Entry("000", "10", "shown", (by_name["nasty"],)),
    ]
    return Book(outcomes, {"000": ledger}, seed=7)


class Reader(HTMLParser):
    """What a page holds: (tag, attributes) in order, and whether its tags are balanced."""

    EMPTY = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, *names):
        return [attributes for tag, attributes in self.tags if tag in names]


def test_a_chapter_is_read_in_order(book):
    (section,) = sections(book.outcomes)
    shown = [
        part.outcome.claim.prove.__name__ if isinstance(part, Proof) else "prose"
        for part in section.parts
    ]
    assert shown == [
        "prose", "square", "prose", "digits", "wrong", "pictures", "nasty", "raises",
    ]  # fmt: skip
    assert [part.level for part in section.parts if isinstance(part, Proof)] == [3, 4, 4, 4, 4, 4]
    assert section.title == "Traps &amp; &lt;tags&gt;, <code>code</code>"
    text = "".join(part for part in section.parts if not isinstance(part, Proof))
    assert "another chapter" in text  # "Text without a claim of another chapter"
    assert "A part of another" not in text
    assert "<em>emphasis</em>" in text
    assert "W[2](n) is no link and costs $5 or $6." in text
    assert "blockquote" not in text


def test_nothing_that_a_claim_says_is_markup(book):
    made = pages(book)
    for name in ("000.html", "index.html"):
        read = Reader(made[name])
        tags = {tag for tag, _ in read.tags}
        assert not tags & {"script", "iframe", "object", "b-9", "style", "form"}
        assert all(not attribute.startswith("on") for _, each in read.tags for attribute in each)
        assert all("style" not in each for _, each in read.tags)
        for each in read.all("a", "img", "link", "mrow"):
            assert not re.match(r"javascript:|//|https?:", each.get("href", each.get("src", "")))
    assert "&lt;script&gt;alert(5)" in made["000.html"]


def test_every_link_of_the_pages_resolves(book):
    made = pages(book)
    anchors = {
        name: {each["id"] for _, each in Reader(text).tags if "id" in each}
        for name, text in made.items()
        if name.endswith(".html")
    }
    for name, found in anchors.items():
        ids = [each["id"] for _, each in Reader(made[name]).tags if "id" in each]
        assert len(ids) == len(found)
        for each in Reader(made[name]).all("a", "img", "link"):
            target = each.get("href", each.get("src"))
            if target != "data:,":
                page, _, anchor = target.partition("#")
                assert (page or name) in {*made, "claims.json"}
                assert not anchor or anchor in anchors[page or name]


def test_a_verdict_is_said_in_words(book):
    text = pages(book)["000.html"]
    said = re.findall(r'<p class="status"><span class="verdict \S+">.*?</span> (\w+)</span>', text)
    assert said == ["exact", "numeric", "misprint", "statistical", "fails", "fails"]
    assert "|z| 1.50 &lt; 5.25 of 100" in text
    assert "7 digits" in text
    assert "1 min 5 s" in text
    assert "ZeroDivisionError" in text
    assert "beyond the source" in text  # `raises` is in no ledger


def test_sides_are_mathematics_and_what_is_long_is_folded(book):
    text = pages(book)["000.html"]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td></tr>", text, re.DOTALL)
    sides = [row for row in rows if all("<math" in side for side in row)]
    assert len(sides) >= 3
    assert "all 526 characters, derived" in text


def test_the_ledger_says_what_shows_each_statement(book):
    text = pages(book)["000.html"].partition('id="ledger"')[2]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>.*?</span> ([\w ]+)</span>', text)
    assert rows == [
        ("(1.1)", "exact"),
        ("(1.2)", "misprint"),
        ("Figure 1", "statistical"),
        ("(2)", "not a statement"),
        ("Figure 9", "open"),
        ("(10)", "fails"),
    ]
    assert '<a href="#sample_chapter.digits">digits</a>; <a href="#sample_chapter.wrong">' in text
    assert ledger_lines(book) == [
        "000: 6 numbered statements: 1 exact, 1 statistical, 1 misprint, 1 fails, "
        "1 by definition, 1 open"
    ]


def test_what_was_not_run_is_not_called_shown(book):
    bare = Book([], book.ledger)
    assert [bare.verdict(entry) for entry in bare.ledger["000"]] == [
        "not checked", "not checked", "not checked", "not a statement", "open", "not checked",
    ]  # fmt: skip
    assert "not checked" in pages(bare)["000.html"]


def test_figures_come_with_their_numbers_and_words(book):
    made = pages(book)
    stem = "000-sample_chapter.pictures-wide_0.5_L_"
    assert made[f"{stem}.svg"].startswith("<svg ")
    rows = list(csv.DictReader(made[f"{stem}.csv"].splitlines()))
    assert len(rows) == 100
    first = rows[0]
    assert (first["panel"], first["series"], first["kind"]) == ("1 panel 0", "a < b & c", "points")
    assert float(first["lower"]) < float(first["y"]) < float(first["upper"])
    (image,) = Reader(made["000.html"]).all("img")
    assert image["src"] == f"{stem}.svg"
    assert image["alt"].startswith("panel 1: panel 0: V against layer: a < b & c; panel 2")


def test_the_pages_depend_on_the_outcomes_alone(book, sample):
    again = Book(
        [
            Outcome(each.claim, new.verdict, each.seconds)
            for each, new in zip(
                book.outcomes, claims.check([each.claim for each in book.outcomes]), strict=True
            )
        ],
        book.ledger,
        seed=7,
    )
    assert pages(again) == pages(book)


def test_pages_need_nothing_from_elsewhere(book):
    for name, text in pages(book).items():
        if name.endswith(".html"):
            assert "<script" not in text
            assert not re.search(r'(?:src|href|action)="(?:\w+:)?//', text)
        if name.endswith(".css"):
            assert "url(" not in text
            assert "@import" not in text


@pytest.mark.parametrize(
    ("equation", "wanted"),
    [
        ("5.18", "(5.18)"),
        ("S12", "(S12)"),
        ("A.1", "(A.1)"),
        ("5.17 (mixed)", "(5.17), mixed"),
        ("Figure 2", "Figure 2"),
        ("Lemma 4 (sharp)", "Lemma 4, sharp"),
        ("§3.2", "§3.2"),
    ],
)
def test_citations(equation, wanted):
    assert cited(equation) == wanted


def test_durations():
    assert [duration(each) for each in (0.01, 0.31, 59.7, 125)] == [
        "< 0.1 s", "0.3 s", "1 min 0 s", "2 min 5 s",
    ]  # fmt: skip


def test_formulas_become_mathml_or_stay_what_they_are():
    assert mathml(r"\mathcal W") == '<math display="inline"><mi>𝒲</mi></math>'
    assert "ℬ" in mathml(r"\mathcal{B}")
    assert "𝔼" in mathml(r"\mathbb{E}")
    assert "<mo>∼</mo>" in mathml(r"a \sim b")
    assert mathml(r"\frac{") == r'<code class="tex">\frac{</code>'
    assert mathml(r"\nosuch{<b>}") == r'<code class="tex">\nosuch{&lt;b&gt;}</code>'
    assert "&lt;script&gt;" in mathml(r"\text{<script>}")
    assert "javascript" not in mathml(r"\href{javascript:alert(1)}{x}")
    assert 'tabindex="0"' in mathml("a+" * 20 + "b")
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in mathml(r"{x}^{2}")
    assert '<mo form="prefix">(</mo><mfrac>' in mathml(r"\left(\frac{a}{b}\right)")


def test_text_is_not_taken_for_markdown():
    assert phrase("a*b*c and C_W_b <b>") == "a*b*c and C_W_b &lt;b&gt;"
    assert prose("- 3K\n> 2\n1. x") == "<p>- 3K\n&gt; 2\n1. x</p>\n"
    assert "<math" in phrase("so $x$ is")


def test_code_is_coloured_and_escaped():
    shown = marked('if a < b:  # <i>\n    return "&"\n')
    assert '<i class="k">if</i> a &lt; b' in shown
    assert '<i class="c"># &lt;i&gt;</i>' in shown
    assert '<i class="s">&#34;&amp;&#34;</i>' in shown


def test_code_is_marked_as_python_reads_it():
    shown = marked('x1 = f(2.5e-3, r"""a\n# b""")  # c"\nnotin = 0x1F if x else None\n')
    found = re.findall('<i class="(.)">(.*?)</i>', shown, re.DOTALL)
    assert found == [
        ("n", "2.5e-3"), ("s", "r&#34;&#34;&#34;a\n# b&#34;&#34;&#34;"), ("c", "# c&#34;"),
        ("n", "0x1F"), ("k", "if"), ("k", "else"), ("k", "None"),
    ]  # fmt: skip


def test_numbers_and_prefixes_are_marked_whole():
    code = "a = [1E5, 0XFF, 0o17, 0B1_0, 1e1_0, 1J, .5, 1., 1_0.5e-3j, x1, x.e1, u'b', Rb'c', 7]\n"
    found = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type in {tokenize.NUMBER, tokenize.STRING}
    ]
    assert len(found) == 12
    assert [unescape(each) for each in re.findall('<i class=".">(.*?)</i>', marked(code))] == found


def test_a_claims_source_is_all_of_its_function():
    claim = next(each for each in claims.claims(["004"]) if each.sampled)
    assert source(claim.prove).startswith("@claim(")
    assert source(claim.prove).endswith(inspect.getsource(claim.prove).splitlines()[-1])
    assert source(print) == ""


# On the terminal and as JSON


def test_records_say_how_sure_they_are(book):
    read = json.loads(report.as_json(book))
    assert (read["holds"], read["seed"]) == (False, 7)
    assert [each["verdict"] for each in read["claims"]] == [
        "exact", "numeric", "misprint", "statistical", "fails", "fails",
    ]  # fmt: skip
    assert [each["exact"] for each in read["claims"]] == [True, False, True, False, False, False]
    assert read["claims"][1]["digits"] == 7.1
    assert (read["claims"][3]["z"], read["claims"][3]["comparisons"]) == (1.5, 100)
    assert read["claims"][0]["name"] == "sample_chapter.square"
    assert read["ledger"][1] == {
        "source": "000",
        "item": "1.2",
        "verdict": "misprint",
        "claims": ["sample_chapter.digits", "sample_chapter.wrong"],
    }
    assert "100 sampled numbers" in summary(book)
    assert [measure(each.verdict) for each in book.outcomes] == [
        "proven", "7 digits", "proven", "|z| 1.50 < 5.25 of 100", "differs", "differs",
    ]  # fmt: skip
    assert "statistical    |z| 1.50" in line(book.outcomes[3])


def test_what_would_have_been_noticed_is_said_beside_each_verdict(book):
    fine = Verdict("statistical", "d", "p", z=1, bound=5, comparisons=3, resolutions=(0.01,) * 3)
    coarse = Verdict(
        "weak", "d", "p", "V is coarse", z=1, bound=5, comparisons=2,
        resolutions=(0.04, float("inf")),
    )  # fmt: skip
    wrong = claims.misprint("a", "b", "proof", witness=(1.5, 2), lost="a point")
    enclosed = claims.enclosed([True] * 3, "a ≤ b", "spectra")
    verdicts = zip(book.outcomes, (fine, coarse, wrong, enclosed), strict=False)
    made = Book([replace(outcome, verdict=each) for outcome, each in verdicts])
    assert [measure(each.verdict) for each in made.outcomes] == [
        "|z| 1.00 < 5.00 of 3, resolves 1 %", "|z| 1.00 < 5.00 of 2, resolves nothing", "proven",
        "at 3 points",
    ]  # fmt: skip
    assert (made.holds, made.weak) == (True, [made.outcomes[1]])
    assert (made.median_resolution, made.fine) == (0.01, 0.8)
    assert last(made) == "4 claims: none fails, 1 weak (resolving worse than 20 %)"
    told = summary(made)
    assert "half of the sampled numbers resolve 1 % or better, 80 % of them resolve 5 %" in told
    assert "witness: printed 1.5, derived 2.0" in told
    assert f"weak (000, {made.outcomes[1].claim.equation})" in told
    read = json.loads(report.as_json(made), parse_constant=pytest.fail)
    assert (read["weak"], read["resolution"]["share"]) == (1, 0.8)
    assert [each.get("resolution", "none") for each in read["claims"]] == [
        0.01, None, "none", "none",
    ]  # fmt: skip
    assert read["claims"][2]["witness"]["printed"] == "1.5"
    assert read["claims"][3]["points"] == 3
    shown = pages(made)
    for words in ("What would have agreed with too much", "Doubtful misprints", "80 % of them"):
        assert words in shown["index.html"]
    assert "resolves nothing" in shown["000.html"]
    assert "witness: printed 1.5" in shown["000.html"]


# The directory


def test_processor_seconds_are_told_in_reference_loops(book):
    outcomes = [replace(outcome, processor=30.0) for outcome in book.outcomes[:3]]
    made = Book([*outcomes, *book.outcomes[3:]], reference=0.009)
    told = "90 processor seconds, 10,000 times the 9.0 ms of the reference loop"
    assert told in summary(made)
    assert told in pages(made)["index.html"]
    assert json.loads(report.as_json(made))["processor"] == {"seconds": 90.0, "reference": 0.009}
    assert "reference loop" not in summary(book)


def test_the_reference_loop_is_measured_now_and_then(monkeypatch):
    measured = reference.Reference()
    assert measured.seconds is None
    clock = iter([0.0, 0.0, 1.0, 6.0, 6.0])  # two readings of a measurement, one of none
    work = iter([0.0, 0.2, 1.0, 1.4])
    clocks = SimpleNamespace(monotonic=clock.__next__, process_time=work.__next__)
    monkeypatch.setattr(reference, "time", clocks)
    for wanted in (0.2, 0.2, 0.3):
        measured.measure()
        assert measured.seconds == pytest.approx(wanted)
    assert (next(clock, None), next(work, None)) == (None, None)


def test_the_report_replaces_only_an_earlier_report(book, tmp_path):
    target = tmp_path / "report"
    for _ in range(2):
        report.write_directory(book, target)
    assert {path.name for path in target.iterdir()} == {*pages(book), "claims.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert report.seconds_before(target)["000 sample_chapter.pictures"] == 65.0
    assert report.seconds_before(tmp_path / "nowhere") == {}
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match="earlier report"):
        report.write_directory(book, kept)
    assert (kept / "thesis.txt").exists()


def test_a_report_that_cannot_be_finished_leaves_the_former_one(book, tmp_path, monkeypatch):
    target = report.write_directory(book, tmp_path / "report")
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report.pages, "write_json", stop)
    with pytest.raises(KeyboardInterrupt):
        report.write_directory(Book([]), target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("below", ["", "/deep/report"])
def test_a_path_that_is_a_file_is_refused(book, tmp_path, below):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="report"):
        report.write_directory(book, f"{tmp_path}/file{below}")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_number_stays_with_its_power_of_ten(book):
    assert book.compared
    assert " in 5.7\u00a0×\u00a010<sup>-7</sup> of runs" in pages(book)["index.html"]


def test_an_empty_verdict_has_a_page():
    def prove():
        return Verdict("exact", "")

    claim = claims.Claim("000", "1", "nothing", prove, False)
    text = pages(Book([Outcome(claim, prove(), 0.0)]))["000.html"]
    assert "nothing" in text
    assert "Every statement" not in text
