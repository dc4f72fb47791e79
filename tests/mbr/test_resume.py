"""Kill it, resume it: the bytes are those of an uninterrupted run."""

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

from candidates.command.journal import Journal, publish_as_is
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world

WORDS = [
    "der",
    "die",
    "das",
    "ein",
    "Hund",
    "Katze",
    "Haus",
    "läuft",
    "rennt",
    "schläft",
    "heute",
    "morgen",
    "nicht",
    "immer",
    "oft",
]


def make_lists(path: Path, count: int, candidates: int = 12) -> Path:
    draw = random.Random(4)
    records = [
        {
            "id": k,
            "source": f"source {k}",
            "candidates": [" ".join(draw.choices(WORDS, k=9)) for _ in range(candidates)],
        }
        for k in range(count)
    ]
    records[count // 2]["candidates"] = []
    return write_jsonl(path, records)


def command(folder: Path, output: str, *words: str) -> list[str]:
    program = str(Path(sys.executable).with_name("mbr-decode"))
    fixed = ["--candidates", str(folder / "l.jsonl"), "--format", "jsonl", "--on-error", "skip", "--quiet"]
    return [program, *fixed, "-o", str(folder / output), "--matrix", str(folder / f"{output}.npz"), *words]


def files(folder: Path, output: str) -> list[bytes]:
    configuration = (folder / f"{output}.run.yaml").read_bytes().replace(f"/{output}".encode(), b"/OUT")
    return [(folder / output).read_bytes(), (folder / f"{output}.npz").read_bytes(), configuration]


def kill_until_done(words: list[str], longest: float, kills: int, seed: int) -> int:
    """Start the command over and over with --resume, killing it at random times; returns the kills that hit."""
    draw = random.Random(seed)
    hits = 0
    for _ in range(kills * 3):
        process = subprocess.Popen([*words, "--resume"], stderr=subprocess.PIPE)
        try:
            wait = draw.uniform(min(0.2, longest / 2), longest) if hits < kills else None
            _, told = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            hits += 1
            continue
        assert process.returncode == 1, f"the skipped segment makes the exit code 1; told: {told.decode()}"
        break
    return hits


def test_twenty_kills_and_resumes_give_the_bytes_of_one_run(tmp_path: Path) -> None:
    """Run after run, each killed at four random points, until twenty kills have hit."""
    make_lists(tmp_path / "l.jsonl", 1500)
    began = time.monotonic()
    whole = command(tmp_path, "whole", "--utility", "chrf")
    assert subprocess.run(whole, check=False, capture_output=True).returncode == 1
    longest = (time.monotonic() - began) * 0.8
    hits = attempt = 0
    while hits < 20:
        name = f"killed{attempt}"
        words = command(tmp_path, name, "--utility", "chrf")
        hit = kill_until_done(words, longest, kills=4, seed=attempt)
        assert files(tmp_path, name) == files(tmp_path, "whole")
        if hit < 4:
            longest *= 0.8  # the machine got faster since the first run: aim earlier
        hits, attempt = hits + hit, attempt + 1
    left = sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".partial", ".progress", ".tmp"))
    assert left == []


def test_a_kill_between_the_progress_file_and_the_others_is_an_interruption_like_any(tmp_path: Path) -> None:
    """The settings are written down first; a kill then leaves no partial file."""
    output = tmp_path / "out"
    with Journal([output], {"a": 1}) as journal:
        list(journal.skip_done(["x"]))
        journal.write([b"x\n"], 1)
        journal.commit()
        settings = (tmp_path / "out.progress").read_bytes().split(b"\n")[0] + b"\n"
    for name in ("out.partial", "out.progress"):
        (tmp_path / name).unlink()
    (tmp_path / "out.progress").write_bytes(settings)
    with Journal([output], {"a": 1}, resume=True) as journal:
        assert journal.last.segments == 0
        list(journal.skip_done(["x"]))
        journal.write([b"x\n"], 1)
        journal.finish([publish_as_is])
    assert output.read_bytes() == b"x\n"


def test_pear_scores_are_the_same_to_the_bit_after_a_kill(tmp_path: Path, ours: Path) -> None:
    make_lists(tmp_path / "l.jsonl", 800, candidates=4)
    words = ("--utility", "pear", "--model", str(ours), "--device", "cpu", "--threads", "1")
    began = time.monotonic()
    assert subprocess.run(command(tmp_path, "whole", *words), check=False, capture_output=True).returncode == 1
    longest = time.monotonic() - began
    hits = kill_until_done(command(tmp_path, "killed", *words), longest, kills=4, seed=1)
    assert hits >= 1
    assert files(tmp_path, "killed") == files(tmp_path, "whole")


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A run killed after its first commit."""
    make_lists(tmp_path / "l.jsonl", 8000)
    process = subprocess.Popen(command(tmp_path, "out", "--utility", "chrf"))
    progress = tmp_path / "out.progress"
    while not progress.exists() or progress.read_bytes().count(b"\n") < 2:
        assert process.poll() is None, "it finished before it could be killed"
        time.sleep(0.02)
    process.kill()
    process.wait()
    return tmp_path


def test_an_interrupted_run_guards_its_progress(interrupted: Path, run: Run) -> None:
    assert not (interrupted / "out").exists()
    words = command(interrupted, "out", "--utility", "chrf")[1:]
    again = run("mbr-decode", *words)
    assert again.returncode == 2
    assert "--resume to continue it, or --force to start anew" in again.stderr
    other = run("mbr-decode", *words, "--resume", "--self", "include")
    assert other.returncode == 2
    assert "the interrupted run had signature" in other.stderr


def test_an_input_that_changed_is_noticed(interrupted: Path, run: Run) -> None:
    path = interrupted / "l.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0].replace("source 0", "source zero") + "".join(lines[1:]))
    words = command(interrupted, "out", "--utility", "chrf")[1:]
    changed = run("mbr-decode", *words, "--resume")
    assert changed.returncode == 3
    assert "changed since the interrupted run" in changed.stderr
    path.write_text(lines[0])
    shorter = run("mbr-decode", *words, "--resume")
    assert shorter.returncode == 3
    assert "were done before" in shorter.stderr


def test_a_torn_progress_line_and_a_longer_partial_file_are_cut_back(interrupted: Path) -> None:
    """What a power cut may leave, twice: half a record in the journal, bytes beyond the last commit in the file."""
    for cut in (1, 2):
        with (interrupted / "out.progress").open("ab") as stream:
            stream.write(b'{"segments": 999999, "si')
        process = subprocess.Popen(command(interrupted, "out", "--utility", "chrf", "--resume"))
        while (interrupted / "out.progress").read_bytes().count(b"\n") < 2 + cut:
            assert process.poll() is None, "it finished before it could be killed"
            time.sleep(0.02)
        process.kill()
        process.wait()
    with (interrupted / "out.progress").open("ab") as stream:
        stream.write(b'{"segments": 999999, "si')
    with (interrupted / "out.partial").open("ab") as stream:
        stream.write(b'{"half": "a rec')
    resumed = subprocess.run(command(interrupted, "out", "--utility", "chrf", "--resume"), check=False)
    whole = subprocess.run(command(interrupted, "whole", "--utility", "chrf"), check=False)
    assert (resumed.returncode, whole.returncode) == (1, 1)
    assert files(interrupted, "out") == files(interrupted, "whole")


def test_a_finished_run_has_nothing_to_resume(run: Run, tmp_path: Path) -> None:
    make_lists(tmp_path / "l.jsonl", 10)
    words = command(tmp_path, "out", "--utility", "chrf", "--resume")[1:]
    assert run("mbr-decode", *words).returncode == 1
    before = os.stat(tmp_path / "out").st_mtime_ns
    assert run("mbr-decode", *words).returncode == 1, "it ends as it did"
    assert os.stat(tmp_path / "out").st_mtime_ns == before
    assert json.loads((tmp_path / "out").read_text().splitlines()[0])["id"] == 0


def test_a_finished_run_with_other_options_is_not_taken_for_this_one(run: Run, tmp_path: Path) -> None:
    make_lists(tmp_path / "l.jsonl", 10)
    words = command(tmp_path, "out", "--utility", "chrf", "--resume")[1:]
    assert run("mbr-decode", *words).returncode == 1
    other = run("mbr-decode", *words, "--self", "include")
    assert other.returncode == 2
    assert "--force" in other.stderr


def test_a_kill_between_publishing_and_cleaning_up_is_a_finished_run(run: Run, tmp_path: Path) -> None:
    make_lists(tmp_path / "l.jsonl", 10)
    words = command(tmp_path, "out", "--utility", "chrf", "--resume")[1:]
    assert run("mbr-decode", *words).returncode == 1
    (tmp_path / "out.progress").write_text('{"settings": {}}\n')
    (tmp_path / "out.npz.partial").write_bytes(b"packed")
    assert run("mbr-decode", *words).returncode == 1
    assert sorted(os.listdir(tmp_path)) == ["l.jsonl", "out", "out.npz", "out.run.yaml"]


def test_two_processes_do_not_write_one_output(interrupted: Path, run: Run) -> None:
    words = command(interrupted, "out", "--utility", "chrf", "--resume")
    first = subprocess.Popen(words)
    while (interrupted / "out.progress").read_bytes().count(b"\n") < 3:
        assert first.poll() is None
        time.sleep(0.02)
    second = run("mbr-decode", *words[1:])
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert "another process is writing" in second.stderr


def test_files_of_others_beside_the_output_stay(run: Run, tmp_path: Path) -> None:
    make_lists(tmp_path / "l.jsonl", 10)
    mine = [".out.mine.tmp", f".out.{os.getpid()}.tmp", ".out.txt.1.tmp"]
    for name in mine:
        (tmp_path / name).touch()
    (tmp_path / ".out.999999999.tmp").touch()
    run("mbr-decode", *command(tmp_path, "out", "--utility", "chrf")[1:])
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".tmp")) == sorted(mine)
