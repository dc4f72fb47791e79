"""Inputs of every command that are not quite what they should be: Windows line ends, no content, junk.

Commands run in this process, where their libraries are loaded once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import InputError
from tests.conftest import write_jsonl
from tests.support.random_pear import write_random_released

Captured = pytest.CaptureFixture[str]
Command = Callable[..., tuple[str, str]]

CHRF = ("mbr-decode", "--utility", "chrf", "--candidates")
DRAWS = ("--bootstrap", "0", "--trials", "0")
FILES = {
    "lists.jsonl": '{"source": "s", "candidates": ["ein Hund", "ein Hut", "Hund"]}\n'
    '{"source": "t", "candidates": ["a"]}\n',
    "long.tsv": "source\tcandidate\ns\tein Hund\ns\tein Hut\ns\tHund\nt\ta\n",
    "wide.tsv": "source\tcandidate_1\tcandidate_2\tcandidate_3\ns\tein Hund\tein Hut\tHund\nt\ta\t\t\n",
    "lines.txt": "ein Hund\nein Hut\nHund\na\na\na\n",
    "lists.nbest": "0 ||| ein Hund ||| \n0 ||| ein Hut ||| \n0 ||| Hund ||| \n1 ||| a ||| \n",
    "fairseq.out": "S-0\ts\nH-0\t-1\tein Hund\nH-0\t-2\tein Hut\nH-0\t-3\tHund\nS-1\tt\nH-1\t-1\ta\n",
    "source.txt": "s\nt\n",
    "text.txt": "Good day.\nGood morning.\n",
    "out.txt": "ein Hut\na\n",
    "ref.txt": "ein Hund\na\n",
    "pairs.tsv": "src\tmt_0\tmt_1\ns\tein Hund\tein Hut\nt\ta\tb\n",
    "nbest.jsonl": '{"src": "s", "hypotheses": ["ein Hund", "ein Hut"]}\n',
    "judgments.csv": "lp,src,mt,score\nen-de,s,ein Hund,1\nen-de,s,ein Hut,0\n",
    "mqm.tsv": "",
    "table.tsv": "system\tsegment\thuman\tm\n"
    + "".join(f"{s}\t{n}\t{n % 3}\t{n % 2}\n" for s in "AB" for n in range(6)),
}
COMMANDS_AND_INPUTS = {
    "jsonl": ((*CHRF, "lists.jsonl"), ("lists.jsonl",)),
    "long tsv": ((*CHRF, "long.tsv"), ("long.tsv",)),
    "wide tsv": ((*CHRF, "wide.tsv"), ("wide.tsv",)),
    "lines": ((*CHRF, "lines.txt", "--sources", "source.txt", "--nbest", "3"), ("lines.txt", "source.txt")),
    "moses": ((*CHRF, "lists.nbest", "--sources", "source.txt"), ("lists.nbest", "source.txt")),
    "fairseq": ((*CHRF, "fairseq.out", "--input-format", "fairseq"), ("fairseq.out",)),
    "text": (("mbr-decode", "--utility", "chrf", "--sources", "text.txt", "--nbest", "3"), ("text.txt",)),
    "generate": (("mbr-generate", "--sources", "text.txt", "--nbest", "2"), ("text.txt",)),
    "evaluate": (
        ("mbr-evaluate", "--systems", "out.txt", "--references", "ref.txt", "--judge", "chrf", "--no-cache", *DRAWS),
        ("out.txt", "ref.txt"),
    ),
    "metaeval": (("mbr-metaeval", "correlation", "--table", "table.tsv", "--human", "human"), ("table.tsv",)),
    "pear-score": (("pear-score", "pairs.tsv", "--model", "{pear}"), ("pairs.tsv",)),
    "pear-train": (("pear-train", "--data", "judgments.csv", "--statistics-only"), ("judgments.csv",)),
}


@pytest.fixture(scope="module")
def pear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pear") / "xlm-roberta"
    write_random_released(folder)
    return folder


@pytest.fixture
def command(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, pear: Path) -> Command:
    """Run a command among the files; its output and its messages."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")

    def call(*words: str) -> tuple[str, str]:
        capsys.readouterr()
        import_module(COMMANDS[words[0]]).command([word.format(pear=pear) for word in words[1:]])
        captured = capsys.readouterr()
        return captured.out, captured.err

    return call


@pytest.mark.parametrize("case", COMMANDS_AND_INPUTS)
def test_windows_files_give_the_same_results_and_one_note_each(case: str, command: Command) -> None:
    words, files = COMMANDS_AND_INPUTS[case]
    expected, before = command(*words)
    assert "CR LF" not in before
    for name in files:
        Path(name).write_bytes(FILES[name].replace("\n", "\r\n").encode())
    output, messages = command(*words)
    assert output == expected
    for name in files:
        assert messages.count(f"{words[0]}: {name}: lines end with CR LF, as on Windows") == 1


@pytest.mark.parametrize(
    ("words", "empty", "content", "expected"),
    [
        ((*CHRF, "lists.jsonl"), "lists.jsonl", "\n", "list"),
        ((*CHRF, "lists.jsonl", "--dry-run"), "lists.jsonl", "", "list"),
        ((*CHRF, "long.tsv"), "long.tsv", "source\tcandidate\n", "list"),
        (("mbr-decode", "--utility", "chrf", "--sources", "text.txt", "--nbest", "3"), "text.txt", "", "line of text"),
        (("mbr-generate", "--sources", "text.txt"), "text.txt", "", "line of text"),
        (("pear-score", "pairs.tsv", "--model", "{pear}"), "pairs.tsv", "src\tmt_0\tmt_1\n", "row below the header"),
        (
            ("pear", "score", "--input", "pairs.tsv", "--model", "{pear}"),
            "pairs.tsv",
            "src\tmt_0\tmt_1\n",
            "row below the",
        ),
        (("pear", "mbr", "--input", "nbest.jsonl", "--model", "{pear}"), "nbest.jsonl", "", "record"),
    ],
)
def test_an_input_without_content_is_warned_of(
    words: tuple[str, ...], empty: str, content: str, expected: str, command: Command
) -> None:
    Path(empty).write_text(content)
    _, messages = command(*words)
    assert f"{words[0]}: warning: {empty} holds no {expected}" in messages


@pytest.mark.parametrize(
    ("words", "empty"),
    [
        (("mbr-compare", "--candidates", "lists.jsonl", "--utility", "chrf", "--references", "ref.txt"), "lists.jsonl"),
        (("mbr-evaluate", "--systems", "out.txt", "--references", "out.txt"), "out.txt"),
        (("mbr-metaeval", "correlation", "--table", "table.tsv", "--human", "human"), "table.tsv"),
        (("pear-score", "pairs.tsv", "--model", "{pear}"), "pairs.tsv"),
        (("pear-train", "--data", "judgments.csv", "--statistics-only"), "judgments.csv"),
        (("pear-train", "--data", "mqm.tsv", "--statistics-only"), "mqm.tsv"),
    ],
)
def test_where_nothing_can_be_made_of_nothing_it_is_an_error(
    words: tuple[str, ...], empty: str, command: Command
) -> None:
    Path(empty).write_text("")
    with pytest.raises(InputError):
        command(*words)


def test_junk_in_place_of_candidate_lists_is_not_blamed_on_the_references(command: Command) -> None:
    words = ("mbr-compare", "--candidates", "lists.jsonl", "--utility", "chrf", "--references", "ref.txt")
    Path("lists.jsonl").write_text("junk\nmore junk\n" * 3)
    with pytest.raises(InputError, match=r"^lists.jsonl: none of 6 candidate lists can be used; the first: .*line 1"):
        command(*words)
    write_jsonl(Path("lists.jsonl"), [{"source": "s", "candidates": ["a", "b"]}, 1, 2])
    with pytest.raises(
        InputError, match=r"segments is 3 \(2 of them not usable, the first: lists.jsonl, line 2: expected"
    ):
        command(*words)
