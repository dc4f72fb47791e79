"""mbr-decode between two pipes: a line is answered while the pipe stays open, with the choice that a file gives."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path

import pytest

from candidates import CandidateList
from candidates.common.arrivals import PAUSE
from candidates.common.errors import UsageError
from mbr.cli.decode.command import command
from mbr.opening import open_decoder
from mbr.recipe import Recipe

pytestmark = pytest.mark.one_world

SECONDS = 100
RECORDS = [
    {"id": number, "source": "A dog", "candidates": [f"Ein Hund {number}", f"Ein Hund {number}!", f"Der Hund {number}"]}
    for number in range(5)
]
LISTS = "".join(json.dumps(record) + "\n" for record in RECORDS)
MADE = [CandidateList.of("A dog", ["Ein Hund", "Der Hund", f"Hund {number}"], id=number) for number in range(4)]
TEXT = "Good day.\nGood morning.\nI am tired.\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("mbr-decode", "--utility", "chrf", "--candidates", "-", "--format", "jsonl"), LISTS),
        (("mbr-decode", "--utility", "chrf", "--nbest", "3"), TEXT),
        (("mbr-generate", "--nbest", "2"), TEXT),
    ],
    ids=["lists", "text", "generate"],
)
def test_each_line_is_answered_while_the_pipe_stays_open(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text(text)
    program = str(Path(sys.executable).with_name(words[0]))
    with file.open("rb") as stream:
        whole = subprocess.run(
            [program, *words[1:]], stdin=stream, capture_output=True, check=True, cwd=tmp_path
        ).stdout
    process = subprocess.Popen(
        [program, *words[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    try:
        for line in text.splitlines(keepends=True):
            process.stdin.write(line.encode())
            ready, _, _ = select.select([process.stdout], [], [], SECONDS)
            assert ready, f"no answer to {line}"
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.wait(timeout=SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()
    assert b"".join(answers) == whole


def test_windows_close_at_pauses_and_never_empty() -> None:
    with open_decoder(Recipe("chrf")) as decoder:
        windows = list(decoder.cut([PAUSE, MADE[0], PAUSE, PAUSE, MADE[1], MADE[2], PAUSE, MADE[3]]))
    assert windows == [MADE[:1], MADE[1:3], MADE[3:]]


def test_a_budget_for_all_lists_waits_for_all() -> None:
    with open_decoder(Recipe("chrf", strategy="prune", budget_total=100)) as decoder:
        assert list(decoder.cut([MADE[0], PAUSE, MADE[1], PAUSE])) == [MADE[:2]]


def test_answering_lines_does_not_go_with_a_cluster_or_a_shard() -> None:
    for words in (["--ray"], ["--shard", "1/2", "-o", "x"]):
        with pytest.raises(UsageError, match="--line-buffered answers lines"):
            command(["--candidates", "-", "--line-buffered", *words])
