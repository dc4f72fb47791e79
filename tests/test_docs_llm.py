"""The transcripts of docs/llm.md are what the commands print with the server of the tests."""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_jsonl
from tests.support.chat_server import ChatServer, Reply, answered, judged, quoted, serving
from tests.support.pages import page

pytestmark = pytest.mark.one_world

SHOWN = "http://localhost:8000/v1"
LEAN = 0.3
MAJOR = {"span": "Katze", "category": "accuracy/mistranslation", "severity": "major"}
MINOR = {"span": "!", "category": "style/awkward", "severity": "minor"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    with serving(monkeypatch) as served:
        yield served


def transcript(command: str) -> tuple[list[str], list[str]]:
    """Words and printed lines of the block that begins with a command."""
    (block,) = re.findall(rf"```text\n\$ ({command} .*?)```", page("docs/llm.md"), re.DOTALL)
    words, *lines = block.splitlines()
    return words.split()[1:], lines


def shown(printed: str, server: ChatServer) -> list[str]:
    """As the page shows it: the address of the page, and dots for seconds."""
    text = printed.replace(server.address, SHOWN)
    return [re.sub(r"in [\d.]+ s", "in ... s", line) for line in text.splitlines()]


def quality(text: str) -> float:
    return 2.0 if text.endswith(" 42") else zlib.crc32(text.encode()) / 2**32


def test_the_judge(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mbr.cli.decode.command import command

    words, lines = transcript("mbr-decode")
    server.script = judged(quality, lean=LEAN)
    write_jsonl(tmp_path / "lists.jsonl", [{"source": "A dog.", "candidates": [f"candidate {k}" for k in range(100)]}])
    assert command([server.address if word == SHOWN else word for word in words]) == 0
    assert shown(capsys.readouterr().err, server) == lines
    assert json.loads((tmp_path / "best.jsonl").read_text())["text"] == "candidate 42"


def test_the_annotator(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cat where there is a dog is a major error, an exclamation mark a minor one; of a bird it returns no JSON."""
    from pear.cli.label import command

    def mark(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
        _, text = quoted(prompt)
        if "Vogel" in text:
            return answered("I cannot help with that.")
        return answered(json.dumps({"errors": [error for error in (MAJOR, MINOR) if error["span"] in text]}))

    words, lines = transcript("pear-label")
    server.script = mark
    server.models = {"data": [{"id": "gpt-4.1-mini"}]}
    with (tmp_path / "da.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["lp", "src", "mt", "score", "system"])
        for system, text in zip("ABCDEF", ("Hund.", "Katze.", "Katze!", "Hund!", "Vogel.", "Vogel!"), strict=True):
            rows.writerow(["en-de", "A dog.", f"Eine {text}", 50, system])
    assert command([server.address if word == SHOWN else word for word in words]) == 0
    assert shown(capsys.readouterr().err, server) == lines
    labels = (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    (example,) = re.findall(r"```json\n(.*?)\n```", page("docs/llm.md"))
    assert example in labels
