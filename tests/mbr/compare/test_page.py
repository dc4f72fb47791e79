"""The page: what users wrote stays text, nothing is fetched, failures are on it; and a browser agrees."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mbr
from candidates.common.errors import InputError
from candidates.formats import BadRecord
from candidates.lists import CandidateList
from mbr.compare import Comparison, compare, parse_settings
from mbr.compare.document import as_json
from mbr.compare.page import page
from mbr.compare.page.charts import regret_chart, scatter
from mbr.compare.page.data import packed, script_json
from tests.mbr.compare.conftest import register
from tests.mbr.compare.made import Counting, Overlap, lists, references
from tests.support.browser import Browser, Page, chromium

pytestmark = pytest.mark.one_world

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LABEL = '<i>mine</i> & "yours"'


@pytest.fixture(scope="module")
def done() -> Iterator[Comparison]:
    """A comparison with everything on it: texts that would be markup, a setting, a judge and a segment that fail."""
    items = lists(30, size=10)
    items[1] = CandidateList.of("中文", ["今天天气真好，我们去。", "今天天气很好，我们去吧。", "مرحبا"], id="zh")
    items[0] = CandidateList.of(EVIL, [EVIL, f"{EVIL} zwei", "ein Hund läuft", "der Hund"], id="<b>id</b>")
    golden = references(items)
    golden[0][0] = EVIL
    records = [*items, BadRecord("empty", InputError(f"segment has no candidates {EVIL}"), "")]
    golden[0].append("")
    words = [
        "counting",
        f"overlap,label={LABEL}",
        "counting,strategy=half",
        "longer",
        "counting=broken,label=broken one",
    ]
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        yield compare(
            records,
            parse_settings(words),
            ["chrf", "ter"],
            references=golden,
            study=5,
            draws=50,
            trials=50,
            origin={"lists": f"{EVIL}.jsonl"},
        )


class Reader(HTMLParser):
    """Collects tags and attributes, and complains of tags that are not closed."""

    VOID = ("meta", "img", "br", "input", "link", "hr")
    SELF = ("circle", "line", "polygon", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def test_texts_of_users_are_no_markup(done: Comparison) -> None:
    text = page(done, EVIL)
    reader = read(text)
    assert not reader.open
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == 2
    assert not {"img", "i", "link", "iframe"} & set(tags)
    assert "onerror=" not in re.sub(r"<script.*?</script>", "", text, flags=re.S).replace("onerror=&quot;", "")
    assert all(not name.startswith("on") for _, given in reader.tags for name in given)


def test_nothing_is_fetched(done: Comparison) -> None:
    text = page(done)
    reader = read(text)
    assert not [given for _, given in reader.tags if {"src", "href", "action"} & given.keys()]
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text


def test_ids_are_there_once(done: Comparison) -> None:
    ids = [given["id"] for _, given in read(page(done)).tags if given.get("id")]
    assert len(set(ids)) == len(ids)
    sections = [name for name in ids if name and f"{name}-title" in ids]
    assert sections == ["summary", "table", "cost", "disagreements", "matrix", "agreement", "regret", "made"]


def test_failures_are_on_it(done: Comparison) -> None:
    text = page(done)
    assert "Something failed" in text
    assert "broken one: RuntimeError: the model &lt;b&gt;fell&lt;/b&gt; over" in text
    assert "segment empty is left out" in text
    assert text.count("<td colspan") == 1


def test_without_studies_and_references_the_rest_is_there() -> None:
    done = compare(lists(4), parse_settings(["overlap"]), ["chrf"], references=references(lists(4)), study=0, trials=0)
    text = page(done)
    assert "Something failed" not in text
    assert 'id="matrix"' not in text
    assert "were not tested" in text


def test_json_cannot_leave_its_script() -> None:
    text = script_json({"a": [EVIL, "\u2028", float("nan"), np.float32(1.5), np.arange(2)]})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"a": [EVIL, "\u2028", None, 1.5, [0, 1]]}


def test_matrices_come_back_to_four_digits() -> None:
    values = np.random.default_rng(1).normal(size=(7, 7)) * 3 + 40
    matrix = packed(values)
    steps = np.frombuffer(base64.b64decode(matrix["numbers"]), "<i2").reshape(7, 7)
    np.testing.assert_allclose(matrix["middle"] + matrix["scale"] * steps, values, atol=2e-4)
    assert packed(np.zeros((1, 1)))["numbers"] == base64.b64encode(b"\0\0").decode()


def test_charts_say_in_words_what_they_show(done: Comparison) -> None:
    for judge in done.evaluation.judges:
        chart = scatter(done, judge)
        assert chart.count("<circle") + chart.count("<polygon") == 4
        assert f"{judge.label} against cost: counting race" in chart
    assert "regret against passes: half" in regret_chart(done.studies[0])


def test_the_document_holds_it_all(done: Comparison) -> None:
    document = as_json(done)
    json.dumps(document, allow_nan=False)
    assert document["segments"] == 30
    rows = {row["label"]: row for row in document["rows"]}
    assert rows["broken one"]["error"] == "RuntimeError: the model <b>fell</b> over"
    assert rows["counting race"]["signature"].startswith("MBR|utility:counting|")
    assert set(rows["counting half"]["scores"]) == {"chrf", "ter"}
    assert document["left_out"][0]["id"] == "empty"
    assert document["choices"][0]["chosen"]["first candidate"] == EVIL
    assert {point["strategy"] for point in document["regret_against_passes"][0]["points"]} >= {"race", "half", "both"}


def test_notebooks_show_decisions_and_matrices() -> None:
    texts = [EVIL, "ein Hund läuft", "der Hund läuft"]
    decision = mbr.rerank(EVIL, texts, utility=Overlap(), keep_matrix=True)
    assert decision.matrix is not None
    for shown in (decision._repr_html_(), decision.matrix._repr_html_()):
        reader = read(shown)
        assert not reader.open
        assert not {"script", "img"} & {tag for tag, _ in reader.tags}
    assert decision._repr_html_().index("Hund") > 0
    assert decision.matrix._repr_html_().count("background:rgba(0,114,178") == 2  # the two that have words in common
    partly = mbr.utility_matrix("s", [f"word {k}" for k in range(12)], Counting(), strategy="halving", budget=15)
    assert 0 < partly._repr_html_().count("background:rgba") <= 2 * partly.scored.sum() < 12 * 11
    single = mbr.rerank("A dog.", ["Ein Hund."], utility=Overlap())
    assert "Ein Hund." in single._repr_html_()
    informed = mbr.rerank(EVIL, texts, Overlap(), add={"length": 0.5})
    assert [word in informed._repr_html_() for word in (">score<", ">expected utility<", ">length<")] == [True] * 3


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here; `make browser` installs Debian's, as root")
    with Browser(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def shown(browser: Browser, done: Comparison, tmp_path: Path) -> Page:
    file = tmp_path / "report.html"
    file.write_text(page(done), encoding="utf-8")
    return browser.open(file)


def cards(shown: Page) -> list[str]:
    texts: list[str] = shown.run("[...document.querySelectorAll('.card')].map(card => card.textContent)")
    return texts


def test_the_browser_would_hear_of_a_complaint(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text("<title>t</title><script>fetch('file:///nowhere'); missing()</script>", encoding="utf-8")
    shown = browser.open(file)
    assert any(event["method"] == "Runtime.exceptionThrown" for event in shown.errors)
    assert len(shown.requests) == 2


def test_the_page_opens_from_a_file_without_a_complaint(shown: Page) -> None:
    assert shown.run("document.title") == "Utilities compared"
    assert shown.errors == []
    assert len(shown.requests) == 1
    assert shown.requests[0].startswith("file://")
    assert shown.run("document.querySelectorAll('#scores tbody tr').length") == 8


def test_filters_work(shown: Page, done: Comparison) -> None:
    labels = [row.label for row in done.rows if row.error is None]
    one, other = labels.index("counting race"), labels.index(LABEL)
    shown.choose("a", one)
    shown.choose("b", other)
    regrets = done.agreement.regrets
    settings = done.agreement.settings
    margins = np.fmax(regrets[other, settings.index("counting race")], regrets[one, settings.index(LABEL)])
    different = np.array([a != b for a, b in zip(done.row("counting race").texts, done.row(LABEL).texts, strict=True)])
    for least in (0, 50, 120):
        shown.choose("margin", least)
        wanted = int((different & ((margins >= least / 100) | (least == 0))).sum())
        assert f"{wanted} of {different.sum()} segments" in shown.run("document.getElementById('matches').textContent")
        assert len(cards(shown)) == min(wanted, 20)
    shown.choose("margin", 0)
    shown.choose("order", -1)
    first = int(np.flatnonzero(different)[0])
    assert f"segment {done.lists[first].id}" in cards(shown)[0]
    shown.choose("search", "SOURCE 1")
    wanted_ids = [k for k in np.flatnonzero(different) if "source 1" in done.lists[k].source]
    assert len(cards(shown)) == len(wanted_ids) > 0
    shown.choose("search", "no such words")
    assert cards(shown) == []
    shown.choose("search", "")
    shown.choose("b", one)
    assert cards(shown) == []
    assert "same row" in shown.run("document.getElementById('matches').textContent")
    assert shown.errors == []


def test_a_script_in_a_candidate_stays_text(shown: Page, done: Comparison) -> None:
    labels = [row.label for row in done.rows if row.error is None]
    shown.choose("a", labels.index("first candidate"))
    shown.choose("b", labels.index("longer"))
    shown.choose("search", "owned")
    assert EVIL in cards(shown)[0]
    assert shown.run("document.title") == "Utilities compared"
    assert shown.run("document.querySelectorAll('img').length") == 0
    assert shown.run("document.querySelectorAll('.card mark').length") > 0
    shown.choose("portrait", 1)
    shown.choose("portrait", 0)
    assert shown.run("document.getElementById('portrait-source').textContent") == EVIL
    assert shown.errors == []


def test_differences_are_marked_and_texts_whole(shown: Page, done: Comparison) -> None:
    labels = [row.label for row in done.rows if row.error is None]
    shown.choose("a", labels.index("counting race"))
    shown.choose("b", labels.index("random candidate"))
    shown.choose("order", -1)
    sides: Any = shown.run(
        "[...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('.side p:first-of-type')]"
        ".map(line => [line.textContent, [...line.querySelectorAll('mark')].map(mark => mark.textContent).join(' ')]))"
    )
    pairs = [
        (a, b)
        for a, b in zip(done.row("counting race").texts, done.row("random candidate").texts, strict=True)
        if a != b
    ]
    assert [(one[0], other[0]) for one, other in sides] == pairs[:20]
    for (one, marks), (other, _) in sides:
        new = [word for word in one.split() if word not in other.split()]
        assert all(word in marks for word in new)


def test_scripts_without_spaces_are_compared_sign_by_sign(shown: Page, done: Comparison) -> None:
    labels = [row.label for row in done.rows if row.error is None]
    shown.choose("a", labels.index("first candidate"))
    shown.choose("b", labels.index("longer"))
    shown.choose("search", "中文")
    marks = shown.run("[...document.querySelectorAll('.card mark')].map(mark => mark.textContent)")
    assert marks == ["真", "很", "吧"]
    assert shown.run("document.querySelector('.card .source').dir") == "auto"


def test_everything_can_be_done_with_keys(shown: Page) -> None:
    """Tab reaches the head of the table, the controls, the matrices; arrow keys walk over cells."""
    reached = []
    for _ in range(60):
        shown.press("Tab", 9)
        reached.append(shown.run("document.activeElement.id || document.activeElement.textContent.slice(0, 20)"))
    for name in ("theme", "chrf", "a", "b", "margin", "search", "order", "study", "portrait", "utility-map"):
        assert name in reached, (name, reached)
    shown.run("document.getElementById('utility-map').focus()")
    shown.press("ArrowDown", 40)
    assert shown.run("document.getElementById('cell').textContent").startswith("u(2, 2)")
    shown.press("ArrowRight", 39)
    assert shown.run("document.getElementById('cell').textContent").startswith("u(2, 3)")
    shown.run("document.getElementById('margin').focus()")
    shown.press("ArrowRight", 39)
    assert shown.run("document.getElementById('margin-value').textContent") == "5 %"


def test_the_table_is_sorted_by_its_heads(shown: Page, done: Comparison) -> None:
    rows = "[...document.querySelectorAll('#scores tbody th')].map(cell => cell.textContent.trim())"
    own = shown.run(rows)
    heads = "document.querySelectorAll('#scores thead button')[1]"
    shown.run(f"{heads}.focus()")
    shown.press("Enter", 13, "\r")
    scores = done.evaluation.judges[0].scores
    best = max(scores, key=lambda label: scores[label].score)
    assert shown.run(rows)[0].startswith(best)
    assert shown.run(rows)[-1] == "broken one"
    shown.press("Enter", 13, "\r")
    shown.press("Enter", 13, "\r")
    assert shown.run(rows) == own


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_all_of_it(dark: bool, browser: Browser, done: Comparison, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(done), encoding="utf-8")
    shown = browser.open(file, width=375, height=700, dark=dark)
    assert shown.run("document.documentElement.scrollWidth") <= 375
    paper = shown.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 25, 31)" if dark else "rgb(255, 255, 255)")
    shown.run("document.getElementById('theme').click()")
    assert shown.run("getComputedStyle(document.body).backgroundColor") != paper
    assert shown.errors == []
