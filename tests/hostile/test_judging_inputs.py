"""Spoiled inputs of mbr-compare, mbr-evaluate and mbr-metaeval: a table of mutations, and random ones.

Whatever the input: no exception but ours, a documented exit code, nothing written where it failed, whole files where
it did not, and inputs as they were.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from candidates.command.launch import COMMANDS
from candidates.common.errors import MbrError
from tests.conftest import write_jsonl
from tests.mbr.metaeval.made import write_ratings, write_set
from tests.mbr.metaeval.test_studies import ERRORS

pytestmark = pytest.mark.one_world

GERMAN = ("Ein Hund rennt.", "Der Hund läuft.", "Ein Hund läuft.", "Hunde laufen.")
DRAWS = ("--bootstrap", "10", "--trials", "10", "--no-cache")
COMPARE = ("mbr-compare", "--utility", "chrf", "--judge", "chrf", "--study", "1", *DRAWS)
EVALUATE = ("mbr-evaluate", "--judge", "chrf", "--format", "json", *DRAWS)
METAEVAL = ("--format", "json", "--draws", "5")
DATA = ("mbr-metaeval", "--data", "data", "--test-set", "wmt99", "--lp", "en-de", *METAEVAL)
SET = "data/wmt99"

# The input that is spoiled, and the command that reads it.
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "compare lists": ("lists.jsonl", (*COMPARE, "--candidates", "lists.jsonl", "--references", "good.txt")),
    "compare own references": ("lists.jsonl", (*COMPARE, "--candidates", "lists.jsonl")),
    "compare references": ("good.txt", (*COMPARE, "--candidates", "lists.jsonl", "--references", "good.txt")),
    "compare lines": (
        "nbest.txt",
        (*COMPARE, "--candidates", "nbest.txt", "--sources", "source.txt", "--nbest", "2", "--references", "good.txt"),
    ),
    "compare logprobs": (
        "logprobs.txt",
        (*COMPARE, "--candidates", "nbest.txt", "--sources", "source.txt", "--nbest", "2", "--logprobs", "logprobs.txt",
         "--references", "good.txt"),
    ),
    "compare config": ("run.yaml", (*COMPARE, "--candidates", "lists.jsonl", "--config", "run.yaml")),
    "evaluate system": ("good.txt", (*EVALUATE, "--systems", "good.txt", "--references", "other.txt")),
    "evaluate decisions": ("best.jsonl", (*EVALUATE, "--systems", "best.jsonl", "--references", "other.txt")),
    "evaluate references": ("good.txt", (*EVALUATE, "--systems", "other.txt", "--references", "good.txt")),
    "evaluate sources": (
        "source.txt",
        (*EVALUATE, "--systems", "other.txt", "--references", "good.txt", "--sources", "source.txt"),
    ),
    "evaluate run file": ("best.jsonl.run.yaml", (*EVALUATE, "--systems", "best.jsonl", "--references", "other.txt")),
    "table": ("scores.tsv", ("mbr-metaeval", "--table", "scores.tsv", "--human", "mqm", *METAEVAL)),
    "table of records": ("scores.jsonl", ("mbr-metaeval", "--table", "scores.jsonl", "--human", "mqm", *METAEVAL)),
    "noise": ("scores.tsv", ("mbr-metaeval", "noise", "--table", "scores.tsv", "--human", "mqm", "--format", "json")),
    "correlation": (
        "scores.tsv", ("mbr-metaeval", "correlation", "--table", "scores.tsv", "--human", "mqm", "--format", "json"),
    ),
    "own": ("mine.tsv", (*DATA, "--own", "mine=mine.tsv")),
    "own table": ("mine.jsonl", (*DATA, "--own", "mine=mine.jsonl")),
    "folder sources": (f"{SET}/sources/en-de.txt", DATA),
    "folder human": (f"{SET}/human-scores/en-de.mqm.seg.score", DATA),
    "folder metric": (f"{SET}/metric-scores/en-de/close-refA.seg.score", (*DATA, "--significance")),
    "folder system scores": (f"{SET}/metric-scores/en-de/whole-refA.sys.score", DATA),
    "folder output": (f"{SET}/system-outputs/en-de/mid.txt", (*DATA, "--score", "chrf", "--no-cache")),
    "folder reference": (f"{SET}/references/en-de.refA.txt", (*DATA, "--score", "chrf", "--no-cache")),
    "errors": ("mqm_ende.tsv", ("mbr-metaeval", "oracle", "--errors", "mqm_ende.tsv", "--format", "json")),
    "ratings": ("rated_mqm.tsv", ("mbr-metaeval", "parity", "--ratings", "rated_mqm.tsv", "--groups", "2", *METAEVAL)),
    "post-edits": (
        "good.txt",
        ("mbr-metaeval", "post-edits", "--sources", "good.txt", "--before", "other.txt", "--after", "good.txt",
         "--no-cache", "--format", "json"),
    ),
    "archive": (
        "pe.tar.gz", ("mbr-metaeval", "post-edits", "--data", "pe.tar.gz", "--no-cache", "--format", "json"),
    ),
}  # fmt: skip


def in_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda content: b"\n".join(change(content.split(b"\n")))


def number(text: bytes) -> Callable[[bytes], bytes]:
    """Every number becomes this one."""
    return lambda content: re.sub(rb"-?\d+\.\d+|(?<=[\t ])-?\d+", text, content)


MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "one line end": lambda content: b"\n",
    "blank": lambda content: b" \n \t\n",
    "cut in half": lambda content: content[: len(content) // 2],
    "last byte gone": lambda content: content[:-2],
    "first line only": in_lines(lambda rows: rows[:1]),
    "first line gone": in_lines(lambda rows: rows[1:]),
    "a line more": in_lines(lambda rows: [*rows[:-1], rows[-2] if len(rows) > 1 else b"", b""]),
    "all lines twice": lambda content: content + content,
    "bad UTF-8": lambda content: content[:5] + b"\xff\xfe\xc3\x28" + content[5:],
    "UTF-16": lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    "NUL": lambda content: content.replace(b" ", b"\x00", 1) + b"\x00\n",
    "Windows": lambda content: content.replace(b"\n", b"\r\n"),
    "byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "no tabs": lambda content: content.replace(b"\t", b" "),
    "tabs more": lambda content: content.replace(b"\n", b"\tx\n"),
    "tabs": lambda content: b"\t\t\t\n" * 4,
    "NaN": number(b"nan"),
    "infinity": number(b"-inf"),
    "beyond floats": number(b"1e400"),
    "large": number(b"1e300"),
    "no number": number(b"one"),
    "many digits": number(b"9" * 5000),
    "huge line": lambda content: content + b"word " * 50_000 + b"\n",
    "binary": lambda content: bytes(range(256)) * 20,
    "gzip": gzip.compress,
    "number as JSON": lambda content: b"12\n" * content.count(b"\n"),
    "null": lambda content: b"null\n" * content.count(b"\n"),
    "list": lambda content: b"[]\n" * content.count(b"\n"),
    "object": lambda content: b"{}\n" * content.count(b"\n"),
    "deep": lambda content: (b"[" * 20_000 + b"\n") * content.count(b"\n"),
    "deep value": lambda content: content.replace(b'["', b"[" * 5_000 + b'["', 1),
    "texts are numbers": lambda content: content.replace(b'"Ein Hund rennt."', b"1e999"),
    "texts are objects": lambda content: content.replace(b'"Ein Hund rennt."', b'{"text": {}}'),
    "keys gone": lambda content: content.replace(b'"candidates"', b'"c"').replace(b'"system"', b'"s"'),
    "values of the wrong type": lambda content: content.replace(b'": "', b'": ["').replace(b'", "', b'"], "'),
    "surrogate": lambda content: content.replace(b"Hund", b"\\ud800"),
}
OUTCOMES = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    records = [
        {"id": number, "source": "A dog runs.", "candidates": list(GERMAN), "references": [GERMAN[number]]}
        for number in range(4)
    ]
    write_jsonl(folder / "lists.jsonl", records)
    write_jsonl(folder / "best.jsonl", [{"id": n, "text": text} for n, text in enumerate(GERMAN)])
    (folder / "best.jsonl.run.yaml").write_text("# MBR|utility:chrf|strategy:full|version:0.1.0\nutility: chrf\n")
    (folder / "run.yaml").write_text("utility: [chrf]\nseed: 2\n")
    (folder / "good.txt").write_text("".join(text + "\n" for text in GERMAN))
    (folder / "other.txt").write_text("".join(text + "\n" for text in GERMAN[::-1]))
    (folder / "source.txt").write_text("A dog runs.\n" * 4)
    (folder / "nbest.txt").write_text("".join(text + "\n" for text in GERMAN * 2))
    (folder / "logprobs.txt").write_text("-1.5\n" * 8)
    write_set(folder / "data")
    scores = [("a", 0.5), ("b", -1.25), ("c", 3.0), ("d", 2.5)]
    rows = [(name, n, x * n, x * x - n, n - x) for name, x in scores for n in range(1, 5)]
    head = ("system", "segment", "mqm", "metric", "length")
    (folder / "scores.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in (head, *rows)))
    write_jsonl(folder / "scores.jsonl", [dict(zip(head, row, strict=True)) for row in rows])
    own = [
        (system, n, n - len(system) + 0.5) for system in ("good", "mid", "poor", "refA", "refB") for n in range(1, 5)
    ]
    (folder / "mine.tsv").write_text("".join(f"{system}\t{x}\n" for system, _, x in own))
    write_jsonl(folder / "mine.jsonl", [{"system": s, "segment": n, "score": x} for s, n, x in own])
    (folder / "mqm_ende.tsv").write_text(ERRORS)
    write_ratings(folder / "rated_mqm.tsv")
    with tarfile.open(folder / "pe.tar.gz", "w:gz") as archive:
        for suffix, text in (("src", "a\nb\n"), ("mt", "x y\nz\n"), ("pe", "x\nz\n")):
            entry = tarfile.TarInfo(f"set/test.{suffix}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command on the files of a folder; its exit code, if it behaved."""
    monkeypatch.chdir(folder)
    before = contents(folder)
    words = CASES[case][1]
    try:
        code: int = import_module(COMMANDS[words[0]]).command([*words[1:], "-o", "out", "--quiet"])
        message = ""
    except MbrError as exc:
        code, message = exc.exit_code, str(exc)
    after = contents(folder)
    written = {name: after.pop(name) for name in sorted(set(after) - set(before))}
    assert after == before, "an input was changed"
    assert code in OUTCOMES, message
    assert len(message) < 2000, "a message, not the file"
    if message:
        assert not written, message
    else:
        names = ("out/report.json",) if words[0] == "mbr-compare" else ("out",)
        for name in names:
            json.loads(written[name], parse_constant=lambda word: pytest.fail(f"{word} in the output"))
    for name in written:
        (folder / name).unlink()
    return code


def copied(good: Path, folder: Path, spoiled: str, content: bytes) -> None:
    """Links to the good files, and one spoiled file; a folder of links where it lies deep."""
    for name in contents(good):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name == spoiled:
            target.write_bytes(content)
        else:
            target.symlink_to(good / name)


@pytest.mark.parametrize("case", CASES)
def test_good_inputs_are_good(
    case: str, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = CASES[case][0]
    copied(good, tmp_path, name, (good / name).read_bytes())
    assert check(case, tmp_path, monkeypatch) == 0


@pytest.mark.parametrize("case", CASES)
def test_spoiled_inputs(
    case: str, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = CASES[case][0]
    content = (good / name).read_bytes()
    copied(good, tmp_path, name, content)
    for mutation, change in MUTATIONS.items():
        (tmp_path / name).write_bytes(change(content))
        try:
            check(case, tmp_path, monkeypatch)
        except Exception as exc:
            raise AssertionError(f"{case}, {mutation}: {type(exc).__name__}: {exc}") from exc


@pytest.mark.parametrize("case", CASES)
def test_a_folder_or_nothing_in_place_of_an_input(
    case: str, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = CASES[case][0]
    copied(good, tmp_path, name, b"")
    (tmp_path / name).unlink()
    missing = check(case, tmp_path, monkeypatch)
    (tmp_path / name).mkdir()
    folder = check(case, tmp_path, monkeypatch)
    optional = ("evaluate run file", "folder system scores", "folder metric")
    assert (missing, folder) == (3, 3) or case in optional or "folder" in case


@pytest.mark.parametrize("case", ["compare lists", "evaluate decisions", "table", "own", "errors", "folder human"])
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 20), st.binary(max_size=6)), min_size=1, max_size=4)
)
def test_random_edits(
    case: str, edits: list[tuple[int, int, bytes]], good: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = CASES[case][0]
    content = (good / name).read_bytes()
    for place, length, new in edits:
        place %= len(content) + 1
        content = content[:place] + new + content[place + length :]
    folder = tmp_path_factory.mktemp("edited")
    copied(good, folder, name, content)
    with pytest.MonkeyPatch.context() as patch:
        check(case, folder, patch)
