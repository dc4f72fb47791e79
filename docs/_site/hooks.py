"""What mkdocs does beside rendering docs/: tables made from the code, and pages of files that lie elsewhere.

`reference/options.md` gets every option of every command, from the parsers (`options`). `reference/http.md` gets the
endpoints of mbr-serve, from its OpenAPI schema (`endpoints`). Files outside docs/ (`OUTSIDE`) and the notebook become
pages, and links to them lead there; links to other files of the repository become the names of these files. A link
whose text is the name of a page's file, as on GitHub, shows the title that the menu (`nav` in mkdocs.yml) has for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from endpoints import endpoint_tables
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation, Section
from notebook import notebook_page
from options import PAGES, option_tables

from candidates.command.launch import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/RESULTS.md": "project/results.md",
    "candidates/bundled/en-de/README.md": "project/model-en-de.md",
    "candidates/bundled/de-en/README.md": "project/model-de-en.md",
    "mbr/bundled/en-de/README.md": "project/model-words.md",
    "pear/bundled/en-de/README.md": "project/model-pear.md",
}
NOTEBOOKS = {"docs/tour.ipynb": "tour.md"}
MADE = {"reference/options.md": option_tables, "reference/http.md": endpoint_tables}
# Said on GitHub only, where the tables are not.
_WITHOUT_TABLES = re.compile(r"`make docs` adds the tables to this page[^;.]*[;.]\s*(\w)")
_FILE_NAME = re.compile(r"`?(?:[\w-]+/)*[\w-]+\.md`?")
_LINK = re.compile(r"(!?)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
_CODE_IN_TABLE = re.compile(r"(?<=[ (])`[^`\n]*\\\|[^`\n]*`")
_TABLE = re.compile(r"<table>\n<thead>\n<tr>\n(?:<th[^\n]*\n){3,}.*?</table>", re.DOTALL)  # of three columns or more
_CODE = re.compile(r"<code>([^<\n]+)</code>")
_HYPHENATED = re.compile(r"(?<![^\s\[(|])(?=\S*-)[^\s|]{1,30}(?![^\s\])|])")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    for name, page in OUTSIDE.items():
        text = _FRONT_MATTER.sub("", (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=relinked(text, ROOT / name, page, titles(config.nav))))
    for name, page in NOTEBOOKS.items():
        files.append(File.generated(config, page, content=notebook_page(ROOT / name)))
    return files


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """Add the commands that have a part of a page to the menu of commands, in its order."""
    (commands,) = (item for item in nav.items if isinstance(item, Section) and item.title == "Commands")
    present = {item.title for item in commands.children}
    for name in COMMANDS:
        if name not in present:
            page, _, anchor = PAGES[name].partition("#")
            link = Link(name, f"{page.removesuffix('.md')}.html#{anchor}")
            link.parent = commands
            commands.children.append(link)
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A page of docs/ as the site has it.

    Links out of docs/ lead to the pages made of their targets; | in the code of tables loses the \\ that GitHub needs;
    tables made from the code follow.
    """
    if not page.file.generated_by:
        markdown = relinked(markdown, ROOT / "docs" / page.file.src_uri, page.file.src_uri, titles(config.nav))
    markdown = _CODE_IN_TABLE.sub(lambda code: code[0].replace(r"\|", "|"), markdown)
    made = MADE.get(page.file.src_uri)
    if not made:
        return markdown
    return f"{_WITHOUT_TABLES.sub(lambda rest: rest[1].upper(), markdown)}\n{made()}"


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """The page with classes for site.css: options, which it keeps on one line, and wide tables made from the code."""
    html = _CODE.sub(_unbroken, html)
    return _TABLE.sub(r'<div class="made">\g<0></div>', html) if page.file.src_uri in MADE else html


def _unbroken(code: re.Match[str]) -> str:
    """Code that is one word, or each word with a hyphen in a longer one, with the class `word`."""
    if len(code[1]) <= 30 and " " not in code[1]:
        return f'<code class="word">{code[1]}</code>'
    whole = _HYPHENATED.sub(r'<span class="word">\g<0></span>', code[1]).replace("|", "|<wbr>")
    return f"<code>{whole}</code>"


def titles(menu: list[Any]) -> dict[str, str]:
    """The title of each page, by its file."""
    return {
        page: title
        for section in menu
        for pages in section.values()
        for entry in pages
        for title, page in entry.items()
    }


def relinked(markdown: str, file: Path, page: str, titles: dict[str, str]) -> str:
    """Links relative to a file of the repository, as links relative to a page of the site.

    Args:
        markdown: the text of the file.
        file: where the links start from.
        page: where the text is on the site, such as `project/results.md`.
        titles: what is shown for a link whose text is the name of its file, by the page it leads to.
    """
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        picture, words, address = match.groups()
        name, mark, anchor = address.partition("#")
        target = (file.parent / name).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return match[0]  # left for the strict build to find
        inside = target.relative_to(ROOT).as_posix()
        pages = OUTSIDE | NOTEBOOKS
        inside = f"docs/{pages[inside]}" if inside in pages else inside
        if inside.startswith("docs/"):
            inside = inside.removeprefix("docs/")
            words = titles[inside] if _FILE_NAME.fullmatch(words) else words
            return f"{picture}[{words}]({up}{inside}{mark}{anchor})"
        plain = words.replace("`", "")
        return f"`{inside}`" if plain in (inside, Path(inside).name) else f"{words} (`{inside}`)"

    return _LINK.sub(link, markdown)
