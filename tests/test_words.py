"""Prose in the code uses the words of the field: a table of old phrases and what to write.

Prose is every docstring, comment, help text and message of the Python files: all strings and comments, as the reader
sees them, so a phrase is found across line breaks and across the parts of an f-string. So is the documentation, but
for its code, and so are model cards, YAML files, the notebook's text, the words of pictures, web pages with their
scripts, and RESULTS.md.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.support.imports import python_files
from tests.support.pages import PAGES

pytestmark = pytest.mark.one_world

PACKAGES = ("candidates", "pear", "mbr", "benchmarks")
UNIT = r"(list|segment|source|candidate|pair|step|round|iteration|sentence|token|row|line|request|batch)"


class Rule(NamedTuple):
    pattern: str
    better: str
    example: str


RULES = (
    Rule(r"dear(er|est|ly)?", "expensive, most expensive", "before a dearer stage"),
    Rule(
        rf"(?<!')(passes|seconds|milliseconds|ms|s|pairs|tokens|lists|MB|MiB) an? {UNIT}",
        "per: passes per list, seconds per segment",
        "4950 passes a list",
    ),
    Rule(rf"\d+ an? {UNIT}", "per: 20 per candidate", "at most (default: 20 a candidate)"),
    Rule(r"whoever|whomever", "the noun: the caller, the first slot", "whoever comes first"),
    Rule(r"who (may|is|was|comes|asks|asked|has)", "the noun: contenders, the caller", "those who may be the best"),
    Rule(r"nobody|everybody|somebody|anybody", "the noun: no process, all settings", "nobody else writes"),
    Rule(r"so many(?! \w+ that)|so-manieth", "the number itself, or the noun", "for so many lists"),
    Rule(r"those that", "the noun: candidates that, the ones that", "those that score highest"),
    Rule(r"what is (not )?known of", "the noun itself", "what is not known of a list"),
    Rule(r"(?<!Tom )told(?! apart)", "receives, is refused, prints", "it is told of the lists"),
    Rule(r"hears?|heard", "receives, logs", "`warn` hears the notices"),
    Rule(r"(is|are|was|were|be|been) said", "prints, logs, returns", "and that is said"),
    Rule(r"complain(s|ed|t|ts)?", "raises an error", "the caller will complain"),
    Rule(r"shrugs?", "raises UsageError", "an error, not a shrug"),
    Rule(r"heed(s|ed|ing)?", "uses, follows", "the seed is heeded"),
    Rule(r"(pay|pays|paid) for", "computed, scored", "scores that were paid for"),
    Rule(r"(go|goes|went) on (with|where|without|behind)|to go on", "continue", "a killed run goes on where it was"),
    Rule(r"says", "has, states, describes, prints; a person says", "a note says so"),
    Rule(r"tells(?! [^.;:]{0,60}apart)", "shows, returns, determines", "the flag tells whether it ended"),
    Rule(r"(metric|utility|judge|model|term|it) (dis)?likes", "scores highest, prefers", "what the metric likes best"),
    Rule(r"the answer may be another", "results may differ; run `mbr-compare`", "the answer may be another: ask"),
)

# Files that may hold such a phrase, each with its reason.
EXCEPTIONS = {
    "pear/data/negation.py": "the English words that a corruption exchanges are data",
}


class Hit(NamedTuple):
    line: int
    phrase: str
    better: str


def hits(source: str) -> list[Hit]:
    """Old phrases in the prose of a Python file, in the order of their lines."""
    lines = source.splitlines()
    return sorted(
        Hit(_line_of(lines, first, last, match.group()), match.group(), rule.better)
        for first, last, text in prose(source)
        for rule in RULES
        for match in re.finditer(rf"\b({rule.pattern})\b", text, re.IGNORECASE)
    )


def prose(source: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and text of every string and comment; comments on neighbouring lines are one text."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, node.end_lineno or node.lineno, _squeezed("".join(map(str, values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.end_lineno or node.lineno, _squeezed(node.value)
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, int, str]]:
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and (token.start[0], token.start[1]) != (block[-1].start[0] + 1, block[-1].start[1]):
            yield _comment_text(block)
            block = []
        block.append(token)
    if block:
        yield _comment_text(block)


def _comment_text(block: list[tokenize.TokenInfo]) -> tuple[int, int, str]:
    return block[0].start[0], block[-1].start[0], _squeezed(" ".join(token.string.lstrip("#") for token in block))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _line_of(lines: list[str], first: int, last: int, phrase: str) -> int:
    """The line in which a phrase begins; between its words there may be quotes, prefixes of strings and #."""
    pattern = r"[\s\"'#fr]+".join(map(re.escape, phrase.split()))
    text = "\n".join(lines[first - 1 : last])
    match = re.search(rf"(?<!\w){pattern}(?!\w)", text)
    return first + text[: match.start()].count("\n") if match else first


def page_hits(text: str) -> list[Hit]:
    """Old phrases in a page of documentation, in the order of their lines; code is left out."""
    # Code becomes a word of its own, with as many line ends, so that lines keep their numbers.
    text = re.sub(r"^```.*?^```$", lambda code: "\n" * code.group().count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "{}", text)
    return sorted(
        Hit(text[: match.start()].count("\n") + 1, match.group(), rule.better)
        for rule in RULES
        for match in re.finditer(rf"\b({rule.pattern})\b", text.replace("\n", " "), re.IGNORECASE)
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.example)
def test_every_rule_finds_its_example(rule: Rule) -> None:
    assert [hit.better for hit in hits(f"# {rule.example}\n")] == [rule.better]


@pytest.mark.parametrize(
    "sentence",
    [
        "Tom told me that he wanted to meet my parents.",
        "the two cannot be told apart",
        "passes per list, 20 per candidate",
        "so many lists that memory is short",
        "the model's a list of layers",
        "goes on PYTHONPATH",
        "a name that tells checkpoints apart",
        "what people like best",
    ],
)
def test_good_sentences_pass(sentence: str) -> None:
    assert hits(f'"""{sentence}"""\n') == []


def test_phrases_are_found_across_lines_and_in_parts_of_messages() -> None:
    source = '''"""One line.

The scores that a utility is
told of are kept.
"""
x = 1
# for so
# many lists
raise ValueError(
    f"{x} passes a "
    f"list against {x}"
)
parser.add_argument(help="default: 20 a candidate")
'''
    assert [(hit.line, hit.phrase) for hit in hits(source)] == [
        (4, "told"),
        (7, "so many"),
        (10, "passes a list"),
        (13, "20 a candidate"),
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_prose_of_the_code_uses_the_words_of_the_field(package: str) -> None:
    messages = [
        f"{file.relative_to(ROOT)}:{hit.line}: {hit.phrase!r}; write {hit.better}"
        for file in python_files(ROOT, package)
        if not str(file.relative_to(ROOT)).startswith(tuple(EXCEPTIONS))
        for hit in hits(file.read_text(encoding="utf-8"))
    ]
    assert not messages, "\n".join(["words of the old style:", *messages])


VAGUE = ("known", "found", "one", "told", "said", "given")


@pytest.mark.parametrize("package", ["candidates", "pear", "mbr"])
def test_variables_are_named_by_nouns_of_the_domain(package: str) -> None:
    vague = []
    for file in python_files(ROOT, package):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            stored = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
            name = node.arg if isinstance(node, ast.arg) else stored
            if name in VAGUE:
                vague.append(f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}")
    assert not vague, "\n".join(["names that could be anything; write the noun of the domain:", *vague])


def test_phrases_are_found_in_pages_across_lines_and_not_in_code() -> None:
    text = "# Title\n\n```sh\ntold\n```\n\nfor so\nmany lists, `heard`\n"
    assert [(hit.line, hit.phrase) for hit in page_hits(text)] == [(7, "so many")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_documentation_uses_the_words_of_the_field(page: Path) -> None:
    messages = [
        f"{page.name}:{hit.line}: {hit.phrase!r}; write {hit.better}"
        for hit in page_hits(page.read_text(encoding="utf-8"))
    ]
    assert not messages, "\n".join(["words of the old style:", *messages])


def other_texts(file: Path) -> str:
    """The prose of a file that is neither code nor a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".svg":
        return "\n".join(re.findall(r">([^<>]+)</text>", text))
    if file.suffix == ".ipynb":
        return "\n\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    if file.suffix == ".js":
        return text.replace("`", '"')  # strings of JavaScript, not code in Markdown
    return text


OTHERS = [
    *(ROOT / "docs").glob("*.svg"),
    *(ROOT / "docs").glob("*.ipynb"),
    *ROOT.glob("*/bundled/*/*.md"),
    *ROOT.glob("*/bundled/*/*.yaml"),
    *ROOT.glob("*.y*ml"),
    *ROOT.glob(".*.y*ml"),
    *ROOT.glob(".github/workflows/*.y*ml"),
    *ROOT.glob("mbr/*/page/*.html"),
    *ROOT.glob("mbr/*/page/*.js"),
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "Makefile",
]


@pytest.mark.parametrize("file", sorted(OTHERS), ids=lambda file: file.relative_to(ROOT).as_posix())
def test_cards_settings_and_pictures_use_the_words_of_the_field(file: Path) -> None:
    messages = [f"{file.name}: {hit.phrase!r}; write {hit.better}" for hit in page_hits(other_texts(file))]
    assert not messages, "\n".join(["words of the old style:", *messages])


def test_the_words_of_pictures_notebooks_and_scripts_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text('<svg><text x="1">for so many lists</text></svg>')
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["so ", "many"]}]}))
    (tmp_path / "a.js").write_text("const words = `for so many lists`;")
    for name in ("a.svg", "a.ipynb", "a.js"):
        assert [hit.phrase for hit in page_hits(other_texts(tmp_path / name))] == ["so many"]


@pytest.mark.parametrize("path", EXCEPTIONS)
def test_every_exception_is_still_needed(path: str) -> None:
    files = [file for package in PACKAGES for file in python_files(ROOT, package)]
    excepted = [file for file in files if str(file.relative_to(ROOT)).startswith(path)]
    assert any(hits(file.read_text(encoding="utf-8")) for file in excepted), f"{path} is clean: remove its exception"
