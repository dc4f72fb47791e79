"""The documentation site as a reader's browser shows it: on a telephone, in the dark, and searched.

mkdocs is in the light environment only. The site is built as `make docs` does, and opened from the disk.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from tests.conftest import ROOT
from tests.support.browser import Browser, Page, chromium

pytest.importorskip("mkdocs", reason="the site needs mkdocs (pip install '.[docs]'), installed in the light world only")

TELEPHONE = 375
SHOWN = """({
    address: location.href,
    width: document.documentElement.scrollWidth,
    broken: [...document.images].filter(image => !image.complete || !image.naturalWidth).map(image => image.src),
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no chromium to look at the site with")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def pages(site: Path) -> list[Path]:
    return sorted(file for file in site.rglob("*.html") if file.name != "404.html")


def html(site: Path, name: str) -> str:
    return (site / name).read_text(encoding="utf-8")


def test_links_show_titles_instead_of_names_of_files(site: Path) -> None:
    named = {file.name: re.findall(r">[\w/-]+\.md</a>", file.read_text(encoding="utf-8")) for file in pages(site)}
    assert len(named) > 50
    assert not {name: links for name, links in named.items() if links}


def test_the_menu_has_every_command_and_leads_to_headings(site: Path) -> None:
    menu = {
        title.strip(): address
        for address, title in re.findall(
            r'<a href="([^"]+)" class="md-nav__link">\s*<span class="md-ellipsis">([^<]+)', html(site, "glossary.html")
        )
    }
    for command in COMMANDS:
        page, _, anchor = menu[command].partition("#")
        assert not anchor or f'id="{anchor}"' in html(site, page), command


def test_pages_with_tables_made_from_the_code_have_them(site: Path) -> None:
    options, endpoints = html(site, "reference/options.html"), html(site, "reference/http.html")
    assert "make docs" not in options + endpoints
    assert "--candidates FILE" in re.sub(r"<[^>]+>", "", options)
    assert 'id="post-v1decode"' in endpoints


def test_no_page_is_wider_than_a_telephone_and_every_picture_is_there(site: Path, browser: Browser) -> None:
    wrong = {}
    page = browser.open(site / "index.html", width=TELEPHONE)
    for file in pages(site):
        page.visit(file)
        shown = page.run(SHOWN)
        assert shown["address"] == file.as_uri()
        if shown["width"] > TELEPHONE or shown["broken"]:
            wrong[file.name] = shown
    assert not wrong


@pytest.mark.parametrize("name", ["bundled-pear", "peers", "strategies", "utilities", "reference/options"])
def test_wide_tables_have_room_on_a_desk(name: str, site: Path, browser: Browser) -> None:
    page = browser.open(site / f"{name}.html", width=1280)
    page.wait_for("document.querySelector('.md-typeset__scrollwrap') !== null")
    assert page.run(
        "[...document.querySelectorAll('.md-typeset__scrollwrap')].every("
        "wrap => wrap.querySelector('table').offsetWidth <= wrap.parentElement.clientWidth)"
    )


def test_search_finds_regret(site: Path, browser: Browser) -> None:
    """From a file, where browsers allow no workers."""
    page = browser.open(site / "index.html")
    page.run("document.querySelector('[data-md-toggle=search]').click()")
    page.run("document.querySelector('[data-md-component=search-query]').value = 'regret'")
    # The key counts once the index has been read.
    page.wait_for(
        "document.querySelector('[data-md-component=search-query]').dispatchEvent(new Event('keyup')) && "
        "document.querySelectorAll('.md-search-result__item').length > 3"
    )
    found = page.run("[...document.querySelectorAll('.md-search-result__item a')].map(link => link.href)")
    assert any("strategies.html" in address for address in found)


def scheme(page: Page) -> str:
    page.wait_for("document.body.hasAttribute('data-md-color-scheme')")
    return str(page.run("document.body.getAttribute('data-md-color-scheme')"))


def test_dark_mode_is_that_of_the_system_also_after_a_first_visit(site: Path, browser: Browser) -> None:
    assert [scheme(browser.open(site / "mbr.html", dark=dark)) for dark in (False, True, False)] == [
        "default",
        "slate",
        "default",
    ]


def test_pictures_follow_the_mode_that_the_reader_switches_to(site: Path, browser: Browser) -> None:
    page = browser.open(site / "mbr.html", dark=False)
    page.wait_for("document.querySelector('[data-md-component=palette] label:not([hidden])') !== null")
    for _ in range(2):  # from the system's to light, then to dark
        page.run("document.querySelector('[data-md-component=palette] label:not([hidden])').click()")
    page.wait_for("document.body.getAttribute('data-md-color-scheme') === 'slate'")
    assert page.run("getComputedStyle(document.querySelector('article img')).colorScheme") == "dark"
