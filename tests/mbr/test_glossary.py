"""A glossary: how its terms are found, what is wrong with a file, and how it decides as a guard and as a term."""

from __future__ import annotations

from pathlib import Path

import pytest

from candidates.common.errors import InputError, UsageError
from mbr import rerank
from mbr.glossary import read_glossary
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world


def glossary(folder: Path, *rows: str) -> Path:
    file = folder / "terms.tsv"
    file.write_text("# source\ttarget\n\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("row", "source", "text", "missing"),
    [
        ("hard drive\tFestplatte", "My hard drive is full.", "Meine Festplatte ist voll.", 0),
        ("hard drive\tFestplatte", "My hard drive is full.", "Mein Laufwerk ist voll.", 1),
        ("hard drive\tFestplatte", "Two hard drives", "Zwei Laufwerke", 0),
        ("hard drive\tFestplatte", "My hard drive is full.", "Meine Festplatten sind voll.", 1),
        ("hard drive\tFestplatte\tstem", "Two hard drives", "Zwei Festplatten", 0),
        ("hard drive\tFestplatte\tstem", "Two hard drives", "Zwei Laufwerke", 1),
        ("hard drive\tFestplatte\tstem", "a hard drive error", "ein Festplattenfehler", 0),
        ("apple\tApfel\tstem", "two apples", "zwei Äpfel", 0),
        ("invoice\tRechnung|Faktura\tstem", "the invoice", "der Faktura", 0),
        ("due date\tFälligkeits(datum|termin)\tregex", "the due date", "der Fälligkeitstermin", 0),
        ("due date\tFälligkeits(datum|termin)\tregex", "the due dates", "die Frist", 1),
        ("Windows\tWindows\texact\tmatch", "Open the windows.", "Öffne die Fenster.", 0),
        ("Windows\tWindows\texact\tmatch", "Start Windows.", "Starte windows.", 1),
        ("art\tKunst", "The party starts.", "Das Fest beginnt.", 0),
        ("硬盘\thard drive", "我的硬盘满了。", "My hard drive is full.", 0),
        ("hard drive\t硬盘", "My hard drive is full.", "我的硬盘满了。", 0),
        ("hard drive\tжёсткий диск\tstem", "two hard drives", "два жёстких диска", 0),
    ],
)
def test_terms_are_found(tmp_path: Path, row: str, source: str, text: str, missing: int) -> None:
    assert read_glossary(glossary(tmp_path, row)).missing(source, [text])[0] == [missing]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("hard drive", "line 3: found 1 columns in 'hard drive'; expected source term, tab, target term"),
        ("a\tb\tc\td\te", "line 3: found 5 columns"),
        ("\tFestplatte", "line 3: found 2 columns"),
        ("a\tb\tfuzzy", "line 3: the tolerance 'fuzzy' is unknown; expected one of exact, stem, regex"),
        ("a\tb\texact\tupper", "line 3: the case 'upper' is unknown; expected one of match, ignore"),
        ("a\tb||c", "line 3: an empty target term"),
        ("a\t(b\tregex", "line 3: '(b' is not a regular expression"),
        ("# nothing", "holds no term"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, row: str, complaint: str) -> None:
    file = glossary(tmp_path, row)
    with pytest.raises(InputError) as caught:
        read_glossary(file)
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"glossary .*none.tsv: cannot be read"):
        read_glossary(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"a\t\xe4\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_glossary(tmp_path / "latin.tsv")


SOURCE = "My hard drive is full."
TEXTS = [
    "Mein Laufwerk ist voll.",
    "Mein Laufwerk ist ganz voll.",
    "Mein Laufwerk, das ist voll.",
    "Meine Festplatte ist voll.",
]


def test_a_glossary_is_required_or_preferred(tmp_path: Path) -> None:
    file = str(glossary(tmp_path, "hard drive\tFestplatte\tstem"))
    assert rerank(SOURCE, TEXTS, "chrf").text in TEXTS[:3]
    required = rerank(SOURCE, TEXTS, "chrf", glossary=file)
    assert (required.text, required.dropped_by) == (TEXTS[3], {"glossary": 3})
    assert rerank(SOURCE, TEXTS, "chrf", require=["glossary", "numbers"], glossary=file).text == TEXTS[3]
    preferred = rerank(SOURCE, TEXTS, "chrf", add={"glossary": 100}, glossary=file)
    assert (preferred.text, preferred.dropped) == (TEXTS[3], 0)
    assert preferred.terms["glossary"].tolist() == [-1, -1, -1, 0]
    assert rerank(SOURCE, TEXTS, "chrf", add={"glossary": 0.01}, glossary=file).text in TEXTS[:3]
    unmet = rerank(SOURCE, TEXTS[:3], "chrf", glossary=file)
    assert (unmet.dropped, "guard:glossary" in unmet.flags) == (0, True)
    with pytest.raises(UsageError, match="guard 'glossary' needs the option 'file'"):
        rerank(SOURCE, TEXTS, "chrf", require=["glossary"])


def test_the_command_takes_a_glossary_and_signs_its_content(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "lists.jsonl", [{"source": SOURCE, "candidates": TEXTS}])
    file = glossary(tmp_path, "hard drive\tFestplatte\tstem")
    words = ["--candidates", "lists.jsonl", "--utility", "chrf"]
    required = run("mbr-decode", *words, "--glossary", "terms.tsv")
    preferred = run("mbr-decode", *words, "--glossary", "terms.tsv", "--add", "glossary=100")
    assert required.stdout == preferred.stdout == TEXTS[3] + "\n"
    digest = read_glossary(file).digest
    assert f"|guards:glossary|guards.glossary.digest:{digest}|guards.glossary.file:terms.tsv|" in required.stderr
    assert f"|add.glossary:100.0|add.glossary.digest:{digest}|add.glossary.file:terms.tsv|" in preferred.stderr
    glossary(tmp_path, "hard drive\tFestplatte", "a line without a tab")
    wrong = run("mbr-decode", *words, "--glossary", "terms.tsv")
    assert wrong.returncode == 3
    assert "glossary terms.tsv, line 4: found 1 columns" in wrong.stderr
