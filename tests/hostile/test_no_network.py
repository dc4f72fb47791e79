"""A person without a network and with a wrong model name: a sentence that helps, within three seconds."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from candidates.common import hub
from candidates.common.errors import ModelError
from tests.conftest import Run, write_jsonl

SECONDS = 3.0
CLOSED = "http://127.0.0.1:9"  # refuses connections at once, as a machine without a network does

LISTS = ("--candidates", "lists.jsonl")
REFERENCES = ("--references", "a.txt")
EVALUATE = ("mbr-evaluate", "--systems", "a.txt", "--sources", "a.txt", *REFERENCES, "--no-cache")
COMPARE = ("mbr-compare", *LISTS, *REFERENCES, "--utility", "pear=nosuch", "--oracle", "none", "-o", "report")
TRAIN = ("pear-train", "--data", "judgments.csv", "-o", "trained")
# A command with a name that is no folder, and what must be in its answer.
WRONG = [
    (("mbr-decode", *LISTS, "--model", "nosuch"), "--utility chrf"),
    (("mbr-decode", *LISTS, "--utility", "comet"), "--utility chrf"),
    (("mbr-decode", *LISTS, "--utility", "chrf", "--add", "reverse=1", "--add-model", "reverse=no/such"), "bundled"),
    (("mbr-decode", "--sources", "a.txt", "--translator", "nosuch"), "--translator"),
    (("mbr-decode", "--candidates", "french.jsonl"), "--utility chrf"),
    (("mbr-generate", "--sources", "a.txt", "--translator", "nosuch"), "--translator"),
    (("mbr-generate", "--convert", "no/such", "-o", "folder"), "--translator"),
    (("mbr-compare", "--sources", "a.txt", *REFERENCES, "--translator", "nosuch", "-o", "report"), "--translator"),
    (("pear-score", "pairs.tsv", "--model", "nosuch"), "--model en-de"),
    (("pear-score", "pairs.tsv", "--model", "pear"), "--model en-de"),
    (("pear-convert", "nosuch", "folder"), "--model en-de"),
    ((*TRAIN, "--from", "nosuch"), "--model en-de"),
    ((*TRAIN, "--from-encoder", "no/such"), "--model en-de"),
    (("pear", "score", "--input", "pairs.tsv"), "--model en-de"),
    (("pear", "mbr", "--input", "lists.jsonl", "--model", "nosuch"), "--model en-de"),
]


def limit() -> float:
    """Three seconds, and more where others use the machine too."""
    return SECONDS * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1)


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "lists.jsonl", [{"source": "The dog is here.", "candidates": ["Der Hund ist hier.", "Da."]}])
    french = ["Le chien est dans la maison.", "Un chien est dans une maison."]
    write_jsonl(tmp_path / "french.jsonl", [{"source": "The dog is in the house.", "candidates": french}])
    (tmp_path / "a.txt").write_text("A dog.\n")
    (tmp_path / "pairs.tsv").write_text("src\tmt_0\tmt_1\nA dog.\tEin Hund.\tDer Hund.\n")
    (tmp_path / "judgments.csv").write_text("lp,src,mt,score\nen-de,A dog.,Ein Hund.,1\n")


@pytest.mark.parametrize(
    ("words", "helps"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_wrong_name_is_answered_at_once(words: tuple[str, ...], helps: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ModelError) as caught:
        import_module(COMMANDS[words[0]]).command(list(words[1:]))
    assert time.perf_counter() - began < limit()
    answer = str(caught.value)
    assert "no such folder" in answer or "a released model on the hub" in answer
    assert "not in the local cache" in answer
    assert helps in answer.partition("without a network this works: ")[2]
    assert "\n" not in answer


@pytest.mark.parametrize(
    "words",
    [
        ("mbr-decode", *LISTS, "--model", "nosuch"),
        ("mbr-generate", "--sources", "a.txt", "--translator", "nosuch"),
        (*EVALUATE, "--judge", "comet"),
        COMPARE,
        ("pear-score", "pairs.tsv", "--model", "pear"),
    ],
    ids=lambda words: words[0],
)
def test_a_process_without_a_network_ends_within_three_seconds(words: tuple[str, ...], run: Run) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": CLOSED}
    began = time.perf_counter()
    result = run(*words, env=environment)
    seconds = time.perf_counter() - began
    assert result.returncode == 4, result.stderr
    assert seconds < limit()
    assert f"the hub cannot be reached ({CLOSED} does not answer)" in result.stderr
    assert "Retrying" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A port that takes no further connection and refuses none: what a firewall that drops packets looks like."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for client in waiting:
        client.setblocking(False)
        client.connect_ex(server.getsockname())
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    for opened in (*waiting, server):
        opened.close()


def test_a_hub_that_is_silent_costs_two_seconds_once(silent_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", silent_address)
    monkeypatch.delenv("HF_HUB_ETAG_TIMEOUT", raising=False)
    began = time.perf_counter()
    assert not any(hub.hub_answers() for _ in range(5))
    assert time.perf_counter() - began < hub.SECONDS + 0.5


def test_a_proxy_is_asked_in_place_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
        monkeypatch.setenv("no_proxy", "")
        assert not hub.hub_answers()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        assert hub.hub_answers()
