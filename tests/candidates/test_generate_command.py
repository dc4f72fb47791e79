"""mbr-generate as a user runs it, and mbr-decode on plain text; with the bundled model and real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from candidates.formats import read_lists
from candidates.lists import CandidateList
from tests.conftest import Run
from tests.support.shipped_recipe import LOGPROB

pytestmark = pytest.mark.one_world

TEXT = "Where is the station?\n\nI have never seen such a beautiful sunset.\n"


def test_text_in_lists_out(run: Run) -> None:
    result = run("mbr-generate", "--nbest", "5", stdin=TEXT)
    assert result.returncode == 0
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["id"] for record in records] == [0, 1, 2]
    assert [record["source"] for record in records] == TEXT.split("\n")[:3]
    assert [len(record["candidates"]) for record in records] == [5, 1, 5]
    assert "mbr-generate: 15 candidates (11 distinct) for 3 sources in " in result.stderr
    assert "GENERATE|model:en-de@" in result.stderr


@pytest.mark.parametrize("format", ["jsonl", "tsv", "lines", "moses"])
def test_every_format_is_read_back_by_ours(run: Run, tmp_path: Path, format: str) -> None:
    (tmp_path / "source.txt").write_text(TEXT, encoding="utf-8")
    words = [
        "--sources",
        "source.txt",
        "--nbest",
        "4",
        "--method",
        "sample",
        "--format",
        format,
        "-o",
        "out",
        "--quiet",
    ]
    assert run("mbr-generate", *words).returncode == 0
    sources = tmp_path / "source.txt" if format in ("lines", "moses") else None
    nbest = 4 if format == "lines" else None
    items = list(read_lists(tmp_path / "out", format=format, sources=sources, nbest=nbest))
    assert [sum(item.counts) for item in items if isinstance(item, CandidateList)] == [4, 4, 4]


def test_the_command_of_the_readme_prints_one_translation_a_line(run: Run) -> None:
    result = run("mbr-decode", "--utility", "pear", "--nbest", "100", stdin=TEXT)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    assert len(lines) == 4
    assert lines[0]
    assert lines[1] == ""
    assert "bundled en-de PEAR" in result.stderr
    assert f"weights:uniform|add.logprob:{LOGPROB}|" in result.stderr


def test_decoding_text_is_decoding_the_lists_made_of_it(run: Run, tmp_path: Path) -> None:
    words = ["--nbest", "12", "--method", "epsilon", "--seed", "5"]
    decode = ["mbr-decode", "--utility", "chrf", "--format", "jsonl", "--quiet"]
    kept = ["-o", "best", "--save-candidates", "kept.jsonl", "--matrix", "kept.npz"]
    direct = run(*decode, *words, *kept, stdin=TEXT)
    assert direct.returncode == 0, direct.stderr
    assert run("mbr-generate", *words, "-o", "made.jsonl", "--quiet", stdin=TEXT).returncode == 0
    assert (tmp_path / "made.jsonl").read_bytes() == (tmp_path / "kept.jsonl").read_bytes()
    again = run(*decode, "--candidates", "made.jsonl")
    assert again.stdout == (tmp_path / "best").read_text(encoding="utf-8")


def test_weights_are_uniform_for_beams_and_counts_for_samples(run: Run) -> None:
    for words, weights in ((["--method", "beam"], "uniform"), (["--method", "sample"], "count")):
        result = run("mbr-decode", "--utility", "chrf", "--nbest", "4", *words, stdin="A dog.\n")
        assert f"|weights:{weights}|" in result.stderr
    result = run("mbr-decode", "--utility", "chrf", "--nbest", "4", "--weights", "logprob", stdin="A dog.\n")
    assert (result.returncode, "|weights:logprob|" in result.stderr) == (0, True)


TROUBLE: list[tuple[str, list[str], bytes, int, str]] = [
    ("bad UTF-8", ["mbr-generate"], b"ok\n\xff\n", 3, "line 2, byte 1"),
    ("a missing file", ["mbr-generate", "--sources", "none.txt"], b"", 3, "none.txt"),
    ("a missing folder", ["mbr-generate", "--model", "./none"], b"a\n", 4, "no such folder"),
    ("resume without a file", ["mbr-generate", "--resume"], b"a\n", 2, "--resume needs"),
    ("a beam too small", ["mbr-generate", "--nbest", "9", "--beam-size", "3"], b"a\n", 2, "--beam-size 3"),
    ("an option of another method", ["mbr-generate", "--top-p", "0.9"], b"a\n", 2, "--top-p goes with"),
    ("an option of another back-end", ["mbr-generate", "--concurrency", "2"], b"a\n", 2, "does not go with"),
    (
        "beams of a server",
        ["mbr-generate", "--model", "http://127.0.0.1:9/v1", "--method", "beam"],
        b"a\n",
        2,
        "sample",
    ),
    ("no folder to convert to", ["mbr-generate", "--convert", "x"], b"", 2, "-o FOLDER"),
    ("no threads", ["mbr-generate", "--threads", "0"], b"a\n", 2, "--threads 0"),
    ("a type that is none", ["mbr-generate", "--compute-type", "int3"], b"a\n", 2, "int3"),
    ("a dry run on text", ["mbr-decode", "--dry-run"], b"a\n", 2, "make them first"),
    ("a translator for lists", ["mbr-decode", "--candidates", "x", "--translator", "en-de"], b"", 2, "goes with text"),
    ("a method for lists", ["mbr-decode", "--candidates", "x", "--method", "beam"], b"", 2, "goes with text"),
    ("a language for a model with one", ["mbr-generate", "--tgt-lang", "fr"], b"a\n", 2, "has no languages"),
    (
        "a folder that is no model",
        ["mbr-generate", "--convert", "x", "-o", ".", "--force"],
        b"",
        2,
        "not a converted model",
    ),
    ("a format for text", ["mbr-decode", "--input-format", "tsv"], b"a\n", 2, "goes with --candidates"),
    ("lists in a format without sources", ["mbr-decode", "--save-candidates", "x.txt"], b"a\n", 2, "ends in .jsonl"),
]


@pytest.mark.parametrize(("what", "words", "stdin", "code", "message"), TROUBLE, ids=[row[0] for row in TROUBLE])
def test_trouble_has_a_message_and_an_exit_code(
    tmp_path: Path, what: str, words: list[str], stdin: bytes, code: int, message: str
) -> None:
    program = str(Path(sys.executable).with_name(words[0]))
    result = subprocess.run([program, *words[1:]], input=stdin, capture_output=True, cwd=tmp_path, check=False)
    assert result.returncode == code, result.stderr
    assert message in result.stderr.decode()
    assert b"Traceback" not in result.stderr
    assert not list(tmp_path.glob("out*"))


def test_a_model_that_is_none_is_not_converted(warm: Run, tmp_path: Path) -> None:
    result = warm("mbr-generate", "--convert", ".", "-o", "out")
    assert result.returncode == 4, result.stderr
    assert "cannot be converted" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("out*"))


def test_nothing_in_is_nothing_out(warm: Run) -> None:
    for command in ("mbr-generate", "mbr-decode"):
        result = warm(command, stdin="")
        assert (result.returncode, result.stdout) == (0, "")


def test_cut_off_candidates_are_reported(run: Run) -> None:
    result = run("mbr-generate", "--nbest", "3", "--max-length", "2", stdin="Where is the station, my friend?\n")
    assert "3 candidates were cut off before the end, at --max-length 2" in result.stderr


def test_lines_of_several_sentences_are_split_and_counted(warm: Run, tmp_path: Path) -> None:
    text = "Where is Tom?\nTom is here. He is tired. The dog is big.\nMr. Smith is here.\n\nCome in! Sit down.\n"
    split = warm("mbr-generate", "--nbest", "3", "--format", "lines", stdin=text)
    assert [line.count(".") for line in split.stdout.splitlines()[3:6]] == [3, 3, 3]
    assert "2 lines hold several sentences (the first: line 2); each sentence was translated by itself" in split.stderr
    assert "|split:True|" in split.stderr
    whole = warm("mbr-generate", "--nbest", "3", "--no-split-sentences", "-o", "whole.txt", stdin=text)
    assert "several sentences" not in whole.stderr
    assert "split" not in whole.stderr.splitlines()[-1]
    assert (tmp_path / "whole.txt").read_text() != split.stdout
    again = warm("mbr-generate", "--config", "whole.txt.run.yaml", "-o", "again.txt", stdin=text)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    refused = warm("mbr-decode", "--candidates", "-", "--no-split-sentences", stdin="")
    assert (refused.returncode, "--split-sentences goes with text" in refused.stderr) == (2, True), refused.stderr


def test_an_unreachable_server_is_a_failed_segment(run: Run) -> None:
    words = ["--model", "http://127.0.0.1:9/v1", "--server-model", "x", "--retries", "0", "--tgt-lang", "German"]
    words += ["--src-lang", "English", "--nbest", "2"]
    result = run("mbr-generate", *words, stdin="a\n")
    assert (result.returncode, result.stdout) == (3, "")
    skipped = run("mbr-generate", *words, "--on-error", "skip", stdin="a\n\n")
    assert skipped.returncode == 1
    records = [json.loads(line) for line in skipped.stdout.splitlines()]
    assert records[0]["candidates"] == []
    assert "no answer from" in records[0]["error"]
    assert len(records[1]["candidates"]) == 1


def many_sources(path: Path, count: int) -> Path:
    draw = random.Random(3)
    words = ["the", "a", "dog", "cat", "woman", "house", "runs", "sees", "likes", "big", "red", "every", "day", "not"]
    lines = [" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(count)]
    path.write_text("".join(line + ".\n" for line in lines), encoding="utf-8")
    return path


def kill_after(words: list[str], progress: Path, commits: int) -> bool:
    """Start a run and kill it when its progress file holds so many commits; False if it came to its end first."""
    process = subprocess.Popen(words, env={**os.environ, "MBR_COMMIT_SECONDS": "0"})
    while process.poll() is None:
        if progress.exists() and progress.read_bytes().count(b"\n") > commits:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.002)
    return process.returncode != 0


@pytest.mark.parametrize(
    ("command", "method"),
    [("mbr-generate", "beam"), ("mbr-generate", "sample"), ("mbr-generate", "epsilon"), ("mbr-decode", "sample")],
)
def test_a_killed_and_resumed_run_has_the_bytes_of_a_whole_one(tmp_path: Path, command: str, method: str) -> None:
    """Killed twice, in the middle of a chunk as like as not."""
    source = many_sources(tmp_path / "source.txt", 40)  # chunks of 16: there is one to come when two threads are done
    words = [str(Path(sys.executable).with_name(command)), "--sources", str(source), "--quiet"]
    words += ["--nbest", "8" if method == "epsilon" else "40", "--method", method, "--max-length", "12"]
    more = ["--utility", "chrf"] if command == "mbr-decode" else []
    files = ["-o", "{}.jsonl", *(["--save-candidates", "{}.lists.jsonl", "--matrix", "{}.npz"] if more else [])]
    whole = [*words, *more, *(word.format(tmp_path / "whole") for word in files)]
    killed = [*words, *more, *(word.format(tmp_path / "killed") for word in files), "--resume"]
    subprocess.run(whole, check=True)
    for commits in (1, 2):
        assert kill_after(killed, tmp_path / "killed.jsonl.progress", commits)
    subprocess.run(killed, check=True)
    for suffix in (".jsonl", *((".lists.jsonl", ".npz") if more else ())):
        assert (tmp_path / f"killed{suffix}").read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_a_run_killed_while_it_publishes_can_be_resumed(tmp_path: Path) -> None:
    """One file has its final name already, the first one does not."""
    from candidates.command.journal import Journal, publish_as_is

    files = [tmp_path / "best", tmp_path / "lists"]

    class Killed(Exception):
        pass

    def kill(partial: Path, final: Path) -> None:
        raise Killed

    with Journal(files, {}) as journal:
        list(journal.checked(["a", "b"]))
        journal.write([b"1", b"22"], 2)
        with pytest.raises(Killed):
            journal.finish([kill, publish_as_is])
    assert (tmp_path / "lists").exists()
    with Journal(files, {}, resume=True) as journal:
        assert list(journal.skip_done(["a", "b"])) == []
        journal.finish([publish_as_is, publish_as_is])
    assert [path.read_bytes() for path in files] == [b"1", b"22"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "lists"]


def test_a_resumed_run_must_have_the_same_settings_and_sources(tmp_path: Path, run: Run) -> None:
    source = many_sources(tmp_path / "source.txt", 40)
    out = tmp_path / "out"
    words = ["mbr-generate", "--sources", source, "--method", "sample", "--nbest", "40", "-o", out, "--quiet"]
    program = str(Path(sys.executable).with_name("mbr-generate"))
    assert kill_after([program, *map(str, words[1:])], tmp_path / "out.progress", 2)
    assert "had seed 1" in run(*words, "--resume", "--seed", "2").stderr
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    source.write_text("".join(["changed\n", *lines[1:]]), encoding="utf-8")
    changed = run(*words, "--resume")
    assert (changed.returncode, "changed since the interrupted run" in changed.stderr) == (3, True)
    source.write_text("".join(lines), encoding="utf-8")
    assert run(*words, "--resume", "--threads", "1").returncode == 0, "threads change nothing and may change"


def test_a_finished_run_asked_to_resume_does_nothing(tmp_path: Path, run: Run) -> None:
    words = ["mbr-generate", "--nbest", "2", "-o", "out.jsonl"]
    assert run(*words, stdin=TEXT).returncode == 0
    before = (tmp_path / "out.jsonl").stat().st_mtime_ns
    result = run(*words, "--resume", stdin=TEXT)
    assert (result.returncode, "nothing to resume" in result.stderr) == (0, True)
    assert (tmp_path / "out.jsonl").stat().st_mtime_ns == before
    assert run(*words, stdin=TEXT).returncode == 2
