"""Shards of a run and mbr-merge: together they give the bytes of one run, and nothing else passes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, MbrError, UsageError
from mbr import pipeline
from mbr.cli.common import shards
from mbr.cli.decode.command import command as decode
from mbr.cli.merge import command as merge
from tests.conftest import write_jsonl
from tests.mbr.test_resume import make_lists

pytestmark = pytest.mark.one_world

COUNT = 30
CHRF = ("--utility", "chrf", "--on-error", "skip", "--quiet")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "WINDOW_LISTS", 4)
    make_lists(tmp_path / "l.jsonl", COUNT, candidates=4)
    return tmp_path


def decode_shards(total: int, suffix: str, *words: str, only: tuple[int, ...] = ()) -> list[str]:
    names = []
    for number in only or range(1, total + 1):
        names.append(f"s{number}{suffix}")
        decode([*CHRF, "--candidates", "l.jsonl", "--shard", f"{number}/{total}", "-o", names[-1], *words])
    return names


@pytest.mark.parametrize("total", [1, 2, 3, 20])
@pytest.mark.parametrize(
    ("suffix", "words"),
    [(".txt", ()), (".jsonl", ("--format", "jsonl", "--top", "2")), (".tsv", ("--format", "tsv")), (".txt.gz", ())],
    ids=["text", "jsonl", "tsv", "gz"],
)
def test_merged_shards_are_one_run_byte_for_byte(total: int, suffix: str, words: tuple[str, ...], here: Path) -> None:
    assert decode([*CHRF, "--candidates", "l.jsonl", "-o", f"whole{suffix}", *words]) == 1
    names = decode_shards(total, suffix, *words)
    assert merge([*reversed(names), "-o", f"merged{suffix}", "--quiet"]) == 1
    assert Path(f"merged{suffix}").read_bytes() == Path(f"whole{suffix}").read_bytes()


def test_scores_of_a_model_are_those_of_one_run(ours: Path, here: Path) -> None:
    words = ["--utility", "pear", "--model", str(ours), "--candidates", "l.jsonl", "--format", "jsonl"]
    words += ["--on-error", "skip", "--quiet"]
    decode([*words, "-o", "whole.jsonl"])
    for number in (1, 2, 3):
        decode([*words, "-o", f"s{number}.jsonl", "--shard", f"{number}/3"])
    merge(["s1.jsonl", "s2.jsonl", "s3.jsonl", "-o", "merged.jsonl"])
    assert Path("merged.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_text_is_cut_by_lines(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shards, __import__("mbr.cli.decode.run", fromlist=["run"])):
        monkeypatch.setattr(module, "LINES", 16)
    Path("text.txt").write_text("".join(f"I have {number} dogs.\n" for number in range(40)))
    words = ["--utility", "chrf", "--sources", "text.txt", "--nbest", "2", "--format", "jsonl", "--quiet"]
    decode([*words, "-o", "whole.jsonl"])
    for number in (1, 2, 3):
        decode([*words, "-o", f"s{number}.jsonl", "--shard", f"{number}/3"])
    assert [len(Path(f"s{number}.jsonl").read_text().splitlines()) for number in (1, 2, 3)] == [16, 16, 8]
    merge(["s1.jsonl", "s2.jsonl", "s3.jsonl", "-o", "merged.jsonl"])
    assert Path("merged.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


@pytest.mark.parametrize("stop", [1, 9, 20])
def test_an_interrupted_shard_goes_on_where_it_was(stop: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBR_COMMIT_SECONDS", "0")
    (name,) = decode_shards(3, ".jsonl", "--format", "jsonl", only=(2,))
    expected = [Path(name + suffix).read_bytes() for suffix in ("", ".shard")]
    for suffix in ("", ".shard", ".run.yaml"):
        Path(name + suffix).unlink()
    tally = __import__("mbr.cli.decode.tally", fromlist=["Tally"]).Tally
    add, windows = tally.add, iter(range(100))

    def interrupted(self: Any, window: Any, console: Any) -> None:
        if next(windows) == stop // 4:
            raise KeyboardInterrupt
        add(self, window, console)

    monkeypatch.setattr(tally, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode_shards(3, ".jsonl", "--format", "jsonl", only=(2,))
    monkeypatch.setattr(tally, "add", add)
    assert Path(name + ".progress").exists()
    with pytest.raises(InputError, match="its run has not ended"):
        merge([name])
    decode_shards(3, ".jsonl", "--format", "jsonl", "--resume", only=(2,))
    assert [Path(name + suffix).read_bytes() for suffix in ("", ".shard")] == expected


def refused(*names: str) -> str:
    with pytest.raises(MbrError) as error:
        merge([*names, "-o", "merged.txt"])
    assert not Path("merged.txt").exists()
    return str(error.value)


def test_what_is_not_all_of_one_run_is_refused_by_name(here: Path) -> None:
    s1, s2, s3 = decode_shards(3, ".txt")
    assert "shard 2/3 is missing" in refused(s1, s3)
    for suffix in ("", ".shard"):
        shutil.copy(s1 + suffix, f"copy.txt{suffix}")
    assert "s1.txt and copy.txt are both shard 1/3" in refused(s1, s2, s3, "copy.txt")
    Path("other.txt").write_text("x\n")
    assert "other.txt: there is no other.txt.shard beside it" in refused(s1, s2, "other.txt")
    decode([*CHRF, "--candidates", "l.jsonl", "--shard", "3/3", "-o", "foreign.txt", "--weights", "uniform"])
    assert "foreign.txt was made with signature 'MBR|" in refused(s1, s2, "foreign.txt")
    decode([*CHRF, "--candidates", "l.jsonl", "--shard", "3/4", "-o", "fourth.txt"])
    assert "fourth.txt is shard 3/4, and s1.txt is 1/3" in refused(s1, s2, "fourth.txt")
    records = [json.loads(line) for line in Path("l.jsonl").read_text().splitlines()]
    write_jsonl(Path("m.jsonl"), [*records[:-1], {**records[-1], "source": "changed"}])
    decode([*CHRF, "--candidates", "m.jsonl", "--shard", "3/3", "-o", "changed.txt"])
    assert "changed.txt was made of another input than s1.txt" in refused(s1, s2, "changed.txt")


def test_a_damaged_shard_is_refused_by_name(here: Path) -> None:
    names = decode_shards(2, ".txt")
    good = Path("s2.txt").read_bytes()
    Path("s2.txt").write_bytes(good[:-1])
    assert "s2.txt is shorter than its shard was" in refused(*names)
    Path("s2.txt").write_bytes(good + b"x")
    assert "s2.txt is longer than its shard was" in refused(*names)
    Path("s2.txt").write_bytes(good[:2] + b"?" + good[3:])
    assert "s2.txt is damaged: segments 4 to 7" in refused(*names)
    Path("s2.txt").write_bytes(good)
    pieces = Path("s2.txt.shard").read_bytes().splitlines(keepends=True)
    Path("s2.txt.shard").write_bytes(b"".join([*pieces[:1], *pieces[2:]]))
    assert "segment 4 is in no shard" in refused(*names)
    Path("s2.txt.shard").write_bytes(b"".join([*pieces[:2], pieces[1], *pieces[2:]]))
    assert "segment 4 is in two shards, s2.txt among them" in refused(*names)
    Path("s2.txt.shard").write_bytes(b"{}")
    assert "s2.txt.shard: not what mbr-decode --shard writes" in refused(*names)


def test_a_damaged_compressed_shard_is_refused_by_name(here: Path) -> None:
    names = decode_shards(2, ".txt.gz")
    content = bytearray(Path("s2.txt.gz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    Path("s2.txt.gz").write_bytes(content)
    assert "s2.txt.gz" in refused(*names)


def test_merging_goes_to_standard_output_as_well(here: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    names = decode_shards(2, ".txt")
    merge([*names, "--quiet"])
    assert capsysbinary.readouterr().out.count(b"\n") == COUNT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "0/3", "-o", "x"], "--shard '0/3' is not I/N"),
        (["--shard", "4/3", "-o", "x"], "is not I/N"),
        (["--shard", "1", "-o", "x"], "is not I/N"),
        (["--shard", "1/3"], "--shard needs an output file"),
        (["--shard", "1/3", "-o", "x", "--ray"], "leave out --ray"),
        (["--shard", "1/3", "-o", "x", "--budget-total", "9"], "leave out --budget-total"),
    ],
)
def test_shards_that_cannot_be_are_refused(words: list[str], message: str, here: Path) -> None:
    with pytest.raises(UsageError, match=message):
        decode([*CHRF, "--candidates", "gone.jsonl", *words])
