"""pear-label against a real server: labels that pear-train reads, resumed after a kill, with a budget and faults."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, ResourceError, UsageError
from pear.cli.label import command
from pear.data import group, read_judgments
from tests.conftest import write_jsonl
from tests.support.chat_server import ChatServer, Reply, answered, quoted, serving

pytestmark = pytest.mark.one_world

MAJOR = {"span": "Katze", "category": "accuracy/mistranslation", "severity": "major"}
MINOR = {"span": "!", "category": "style/awkward", "severity": "minor"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with serving(monkeypatch) as served:
        served.script = mark
        yield served


def mark(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
    """A cat where there is a dog is a major error, an exclamation mark a minor one."""
    _, translation = quoted(prompt)
    return answered(json.dumps({"errors": [error for error in (MAJOR, MINOR) if error["span"] in translation]}))


def data(folder: Path, count: int = 3) -> Path:
    texts = ["Ein Hund.", "Eine Katze.", "Eine Katze!"]
    rows = [
        {"source": f"A dog, {k // 3}.", "mt": f"{texts[k % 3]} {k // 3}", "system": "ABC"[k % 3], "seg_id": k // 3}
        for k in range(count)
    ]
    return write_jsonl(folder / "data.jsonl", rows)


def label(server: ChatServer, *words: Any) -> int:
    return command(["--server", server.address, *map(str, words)])


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_labels_are_judgments_that_pear_train_reads(server: ChatServer, tmp_path: Path) -> None:
    out = tmp_path / "labels.jsonl"
    assert label(server, "--data", data(tmp_path, 6), "--lp", "en-de", "-o", out) == 0
    first = records(out)[1]
    assert first["errors"] == [{**MAJOR, "start": 5, "end": 10}]
    assert (first["mqm"], first["lp"], first["system"], first["rater"]) == (-5, "en-de", "B", "only-model")
    groups = group(read_judgments(out))
    assert [[row.score for row in item.candidates] for item in groups] == [[0, -5, -6]] * 2
    assert [item.segment for item in groups] == ["0", "1"]
    prompt = server.bodies[0]["messages"][-1]["content"]
    assert prompt.startswith('English source:\n"""A dog, 0."""\nGerman translation:')
    assert (tmp_path / "labels.jsonl.invalid.jsonl").read_bytes() == b""


def test_candidate_lists_and_tables_are_labelled_too(server: ChatServer, tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "l.jsonl", [{"id": 7, "source": "A dog.", "candidates": ["Hund", "Katze", "Hund"]}])
    assert label(server, "--candidates", lists, "-o", tmp_path / "a.jsonl") == 0
    assert [(row["segment"], row["mqm"]) for row in records(tmp_path / "a.jsonl")] == [("7", 0), ("7", -5)]
    (tmp_path / "da.csv").write_text("src,mt,score,lp\nA dog.,Eine Katze!,83,en-de\n")
    assert label(server, "--data", tmp_path / "da.csv", "-o", tmp_path / "b.jsonl") == 0
    assert [row["mqm"] for row in records(tmp_path / "b.jsonl")] == [-6]


def test_several_judgments_are_raters_whose_mean_is_learned(server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda prompt, asked, body: answered(json.dumps({"errors": [MAJOR] * (body["seed"] % 2)}))
    out = tmp_path / "labels.jsonl"
    assert label(server, "--data", data(tmp_path, 1), "--judgments", 4, "-o", out) == 0
    assert [row["rater"] for row in records(out)] == [f"only-model #{k}" for k in (1, 2, 3, 4)]
    assert {body["temperature"] for body in server.bodies} == {0.7}
    (item,) = group(read_judgments(out))
    assert item.candidates[0].score == -2.5


def test_the_prompt_can_be_replaced_and_plain_headings_are_read(server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("### system\nBe strict.\n### user\n{src_lang}: {source}\n{tgt_lang}: {translation}")
    server.script = lambda prompt, asked, body: answered(
        'Critical:\nno-error\nMajor:\naccuracy/mistranslation - "Hund"\nMinor:\nfluency/punctuation - "."'
    )
    out = tmp_path / "l.jsonl"
    words = ["--data", data(tmp_path, 1), "--lp", "is-xx", "--prompt", tmp_path / "p.txt", "-o", out]
    assert label(server, *words) == 0
    assert server.bodies[0]["messages"][1]["content"] == "Icelandic: A dog, 0.\nxx: Ein Hund. 0"
    assert [(error["severity"], error["span"]) for error in records(out)[0]["errors"]] == [
        ("major", "Hund"),
        ("minor", "."),
    ]
    (tmp_path / "p.txt").write_text("{source}")
    with pytest.raises(UsageError, match=r"no \{translation\}"):
        label(server, *words, "--force")


FAULTS = {
    "429": Reply(status=429, headers={"Retry-After": "0"}),
    "500": Reply(status=500),
    "garbage": answered("Sure, here is a poem."),
    "refusal": answered("I'm sorry, but I can't help with that."),
    "truncated": answered('{"errors": [{"span": "Ka', finish="length"),
    "unknown severity": answered('{"errors": [{"span": "x", "category": "y", "severity": "awful"}]}'),
    "other JSON": answered('{"score": 3}'),
    "half a body": Reply(b'{"choices": [', headers={"Content-Length": "500", "Connection": "close"}),
    "closed": Reply(close=True),
}


def test_faults_on_the_way_change_no_label(server: ChatServer, tmp_path: Path) -> None:
    """Every first answer is a fault, in turn; the labels are those of a server without faults."""
    label(server, "--data", data(tmp_path, 30), "--cache", tmp_path / "a", "-o", tmp_path / "clean.jsonl")
    server.asked.clear()
    faults = list(FAULTS.values())

    def faulty(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
        return faults[sum(map(ord, prompt)) % len(faults)] if not asked else mark(prompt, asked, body)

    server.script = faulty
    words = ["--data", tmp_path / "data.jsonl", "--cache", tmp_path / "b", "--timeout", 5]
    assert label(server, *words, "-o", tmp_path / "faulty.jsonl") == 0
    assert (tmp_path / "faulty.jsonl").read_bytes() == (tmp_path / "clean.jsonl").read_bytes()
    kept = records(tmp_path / "faulty.jsonl.invalid.jsonl")
    assert kept
    assert all(row["labelled"] and row["answers"][0]["reason"] for row in kept)


def test_what_stays_unreadable_is_counted_and_kept(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = lambda prompt, asked, body: (
        answered("I can't.") if "Katze." in quoted(prompt)[1] else mark(prompt, asked, body)
    )
    out = tmp_path / "l.jsonl"
    assert label(server, "--data", data(tmp_path, 6), "-o", out, "--invalid", tmp_path / "bad.jsonl") == 0
    assert len(records(out)) == 4
    bad = records(tmp_path / "bad.jsonl")
    assert [row["translation"] for row in bad] == ["Eine Katze. 0", "Eine Katze. 1"]
    assert [answer["text"] for answer in bad[0]["answers"]] == ["I can't."] * 3
    messages = capsys.readouterr().err
    assert "4 labels of 6 translations: 2 major, 2 minor errors; 2 without any; 2 judgments without a label" in messages
    assert "10 calls, 1,000 tokens; 0 answers from the cache; 6 answers could not be read" in messages
    assert f"6 answers could not be read; they are in {tmp_path / 'bad.jsonl'}" in messages


def test_a_server_that_fails_stops_the_run_or_skips(server: ChatServer, tmp_path: Path) -> None:
    server.script = lambda prompt, asked, body: (
        Reply(status=500) if "Katze." in quoted(prompt)[1] else mark(prompt, asked, body)
    )
    words = ["--data", data(tmp_path, 3), "--retries", 1, "-o", tmp_path / "l.jsonl"]
    with pytest.raises(InputError, match="has no label: no answer from .* in 2 attempts, the last error: HTTP 500"):
        label(server, *words)
    assert label(server, *words, "--force", "--on-error", "skip") == 1
    assert len(records(tmp_path / "l.jsonl")) == 2
    assert "HTTP 500" in records(tmp_path / "l.jsonl.invalid.jsonl")[0]["error"]


def test_a_budget_ends_the_run_and_resume_gives_the_same_bytes(server: ChatServer, tmp_path: Path) -> None:
    label(server, "--data", data(tmp_path, 30), "--cache", "none", "-o", tmp_path / "whole.jsonl")
    server.bodies.clear()
    words = ["--data", tmp_path / "data.jsonl", "--cache", tmp_path / "c", "-o", tmp_path / "parts.jsonl"]
    with pytest.raises(ResourceError, match="12 calls does not suffice.*--resume"):
        label(server, *words, "--calls", 12)
    assert len(server.bodies) == 12
    assert not (tmp_path / "parts.jsonl").exists()
    with pytest.raises(UsageError, match="--resume"):
        label(server, *words)
    assert label(server, *words, "--calls", 18, "--resume") == 0
    assert len(server.bodies) == 30
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert label(server, *words, "--calls", 18, "--resume") == 0  # complete
    assert len(server.bodies) == 30


def test_a_killed_run_is_resumed_with_the_same_bytes(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.02)
        return mark(prompt, asked, body)

    label(server, "--data", data(tmp_path, 60), "--cache", "none", "-o", tmp_path / "whole.jsonl")
    server.bodies.clear()
    server.script = slow
    monkeypatch.setenv("MBR_COMMIT_SECONDS", "0.05")
    out = tmp_path / "killed.jsonl"
    words = ["--data", tmp_path / "data.jsonl", "--cache", tmp_path / "c", "--concurrency", "2", "-o", out]
    launch = "from candidates.command.launch import pear_label; pear_label()"
    process = subprocess.Popen([sys.executable, "-c", launch, "--server", server.address, *map(str, words)])
    patience = time.monotonic() + 60
    while len(server.bodies) < 25 and time.monotonic() < patience:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    asked = len(server.bodies)
    assert 25 <= asked < 60
    assert label(server, *words, "--resume") == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(server.bodies) <= 60 + 2  # what was in flight is asked again


def test_the_key_is_never_shown(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    assert label(server, "--data", data(tmp_path), "-o", tmp_path / "l.jsonl", "--verbose") == 0
    assert server.headers[-1]["Authorization"] == "Bearer sk-secret-123"
    written = "".join(file.read_text(errors="replace") for file in tmp_path.iterdir() if file.is_file())
    assert "sk-secret" not in written + capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to label"),
        (("--data", "a", "--candidates", "b"), "one of them"),
        (("--data", "a", "--nbest", "3"), "--nbest goes with --candidates"),
        (("--candidates", "a", "--human", "mqm"), "--human goes with --data"),
        (("--data", "a", "--judgments", "0"), "--judgments 0"),
        (("--data", "a", "--resume"), "--resume needs an output file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command(["--server", "http://localhost:1/v1", *words])
    with pytest.raises(UsageError, match="--server is needed"):
        command(["--data", "a"])
