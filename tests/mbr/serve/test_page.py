"""The page in Chromium: opens, translates, shows why; texts stay texts; keys, phones, dark and light."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from candidates.generation import Settings as Search
from candidates.generation import open_generator
from mbr.opening import open_decoder
from mbr.recipe import Recipe, TermSpec
from mbr.serve.limits import ApiKeys
from mbr.serve.settings import Settings
from mbr.serve.translator import Translator
from tests.mbr.serve.conftest import Site, site
from tests.support.browser import Browser, Page, chromium

pytestmark = pytest.mark.one_world

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> 'quoted'"
PICTURES = os.environ.get("MBR_PICTURES")  # a folder for screenshots, to look at them


@pytest.fixture(scope="module")
def where() -> Iterator[Site]:
    terms = (TermSpec("logprob", 2.0), TermSpec("chrf", 0.02))
    pear = Recipe("pear", {"model": "en-de"}, strategy="race", terms=terms)
    decoders = {
        "translations": open_decoder(pear, runtime={"device": "cpu", "threads": 1}),
        "chrf": open_decoder(Recipe("chrf")),
    }
    with (
        Translator(open_generator(Search(nbest=12), threads=1)) as translator,
        site(decoders, translator, settings=Settings(nbest=12)) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here; `make browser` installs Debian's, as root")
    with Browser(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def submit(page: Page) -> None:
    page.run("document.getElementById('result').hidden = true; document.getElementById('form').requestSubmit()")
    page.wait_for("!document.getElementById('go').disabled")


def text(page: Page, id: str) -> str:
    words: str = page.run(f"document.getElementById({json.dumps(id)}).textContent")
    return words


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.picture(Path(PICTURES) / f"{name}.png")


def paste(page: Page, source: str, candidates: list[str], recipe: str = "chrf") -> None:
    page.wait_for("document.getElementById('recipe').options.length > 1")
    page.run("document.getElementById('pasted').click()")
    page.choose("source", source)
    page.choose("candidates", "\n".join(candidates))
    page.choose("recipe", recipe)
    submit(page)


def test_a_sentence_is_translated_and_the_reasons_are_shown(where: Site, browser: Browser) -> None:
    page = browser.open(where.address)
    page.wait_for("document.getElementById('recipe').options.length > 1")
    submit(page)
    expected = where.client.translate("Tom told me that he wanted to meet my parents.", top=99)
    assert text(page, "choice") == expected.text
    assert page.run("document.querySelectorAll('#ranking tbody tr').length") == len(expected.ranking)
    heads = page.run("[...document.querySelectorAll('#ranking th')].map(cell => cell.textContent)")
    assert heads == ["", "candidate", "score", "expected utility", "logprob", "chrf"]
    assert page.run("document.querySelectorAll('#ranking .bar').length") == 4 * len(expected.ranking)
    assert page.run("document.querySelectorAll('#choice mark').length") > 0
    facts = text(page, "facts")
    for words in ("estimated regret", f"passes{expected.passes} of", "signature", "MBR|utility:pear"):
        assert words in facts
    assert page.errors == []
    assert {address.partition("?")[0].removeprefix(where.address) for address in page.requests} <= {
        "/", "/page.css", "/page.js", "/info", "/v1/translate", "data:,",
    }  # fmt: skip
    picture(page, "translated")


def test_the_curl_line_does_the_same(where: Site, browser: Browser) -> None:
    page = browser.open(where.address)
    paste(page, "It's a dog.", ["Es ist ein Hund's.", EVIL, "Das ist ein Hund."])
    words = shlex.split(text(page, "curl"))
    assert words[0] == "curl"
    done = subprocess.run([*words[:1], "-s", *words[1:]], capture_output=True, check=True)
    assert json.loads(done.stdout)["text"] == text(page, "choice")


def test_a_script_in_a_candidate_stays_text(where: Site, browser: Browser) -> None:
    page = browser.open(where.address)
    paste(page, EVIL, [EVIL, f"{EVIL} zwei", "etwas anderes"])
    assert EVIL in text(page, "ranking")
    assert page.run("document.title") == "mbr-serve"
    assert page.run("document.querySelectorAll('main img, main script').length") == 0
    page.run("document.getElementById('map').focus()")
    page.press("ArrowDown", 40)
    assert EVIL in text(page, "cell")
    assert page.errors == []


def test_everything_can_be_done_with_keys(where: Site, browser: Browser) -> None:
    page = browser.open(where.address)
    paste(page, "A dog.", ["Ein Hund.", "Der Hund.", "Hund."])
    page.run("document.body.focus(); document.activeElement.blur()")
    reached = []
    for _ in range(14):
        page.press("Tab", 9)
        reached.append(page.run("document.activeElement.id || document.activeElement.className"))
    for name in ("theme", "source", "candidates", "recipe", "go", "wide", "map", "curl", "copy"):
        assert name in reached, (name, reached)
    page.run("document.getElementById('map').focus()")
    page.press("ArrowDown", 40)
    assert text(page, "cell").startswith("u(2, 2)")
    page.press("ArrowRight", 39)
    assert text(page, "cell").startswith("u(2, 3)")
    page.choose("source", "Another dog.")
    page.run("document.getElementById('go').focus()")
    page.press("Enter", 13, "\r")
    page.wait_for("document.getElementById('curl').textContent.includes('Another dog')")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_all_of_it(dark: bool, where: Site, browser: Browser) -> None:
    page = browser.open(where.address, width=375, height=700, dark=dark)
    page.wait_for("document.getElementById('recipe').options.length > 1")
    submit(page)
    page.wait_for("!document.getElementById('result').hidden")
    assert page.run("document.documentElement.scrollWidth") <= 375
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 25, 31)" if dark else "rgb(255, 255, 255)")
    picture(page, f"phone-{'dark' if dark else 'light'}")
    page.run("document.getElementById('theme').click()")
    assert page.run("getComputedStyle(document.body).backgroundColor") != paper
    assert page.errors == []


def test_errors_of_the_service_are_shown(where: Site, browser: Browser) -> None:
    page = browser.open(where.address)
    paste(page, "A dog.", ["x"] * 257)
    assert "257 candidates" in text(page, "problem")
    assert not page.run("document.getElementById('problem').hidden")
    paste(page, "A dog.", ["Ein Hund."])
    assert page.run("document.getElementById('problem').hidden")
    assert "single" in text(page, "facts")


def test_the_page_becomes_usable_once_the_service_is_ready(browser: Browser) -> None:
    with site({"default": open_decoder(Recipe("chrf"))}) as where:
        where.service.state = "starting"
        page = browser.open(where.address)
        page.wait_for("document.getElementById('status').textContent.includes('is starting')")
        assert page.run("document.getElementById('go').disabled")
        where.service.state = "ready"
        paste(page, "A dog.", ["Ein Hund.", "Der Hund."], recipe="default")
        assert text(page, "choice") == "Ein Hund."
        names = page.run("[...document.getElementById('recipe').options].map(option => option.textContent)")
        assert names == ["automatic", "default"]


def test_a_key_is_asked_for_where_one_is_needed(browser: Browser) -> None:
    with site({"chrf": open_decoder(Recipe("chrf"))}, keys=ApiKeys(["the-key"])) as where:
        page = browser.open(where.address)
        page.wait_for("!document.getElementById('key-field').hidden")
        page.run("document.getElementById('key').value = 'the-key'")
        page.run("document.getElementById('key').dispatchEvent(new Event('change'))")
        paste(page, "A dog.", ["Ein Hund.", "Der Hund."])
        assert text(page, "choice") == "Ein Hund."
        assert "the-key" not in text(page, "curl")
        assert page.run("document.getElementById('made').disabled"), "there is no translator"
