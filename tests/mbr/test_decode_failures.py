"""mbr-decode in trouble: bad input, broken models, full disks, signals; messages and exit codes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, write_jsonl
from tests.mbr.test_decode_command import CHRF, RECORDS

pytestmark = pytest.mark.one_world


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "l.jsonl", RECORDS)


def test_a_failed_segment_is_reported_and_changes_the_exit_code(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", [*RECORDS[:1], {"id": "empty", "source": "x", "candidates": []}, *RECORDS[2:]])
    stopped = run("mbr-decode", *CHRF)
    assert (stopped.returncode, stopped.stdout) == (3, "")
    assert "segment 'empty' has no candidates" in stopped.stderr
    for policy in ("skip", "fallback"):
        went_on = run("mbr-decode", *CHRF, "--on-error", policy)
        assert (went_on.returncode, went_on.stdout) == (1, "Ein Hund läuft.\n\nGuten Morgen!\n")
    record = json.loads(run("mbr-decode", *CHRF, "--on-error", "skip", "--format", "jsonl").stdout.splitlines()[1])
    assert (record["id"], record["text"], record["source"]) == ("empty", None, "x")
    assert "no candidates" in record["error"]


def line(candidates: str) -> bytes:
    return f'{{"source": "s", "candidates": {candidates}}}\n'.encode()


# What is wrong, the input file, more words for the command, the exit code, what the message says.
TROUBLE: list[tuple[str, bytes | None, tuple[str, ...], int, str]] = [
    ("zero candidates", line("[]"), (), 3, "segment 0 has no candidates"),
    ("invalid UTF-8", b'{"source": "\xff", "candidates": ["a"]}\n', (), 3, "line 1, byte 13: 0xff"),
    ("lone surrogate", line('["\\ud800", "b"]'), (), 3, "lone surrogate"),
    ("broken JSON", b"{\n", (), 3, "line 1: not valid JSON"),
    ("NaN log-probability", line('[{"text": "a", "logprob": NaN}]'), (), 3, "NaN"),
    ("missing file", None, (), 3, "l.jsonl: cannot be read: No such file"),
    ("line break in text output", line('["a\\nb", "c"]'), (), 3, "use --format jsonl"),
    ("no log-probabilities", line('["a", "b"]'), ("--weights", "logprob"), 3, "no log-probability"),
    ("unknown utility", line('["a"]'), ("--utility", "rouge"), 2, "expected one of pear, comet, "),
    ("unknown option", line('["a"]'), ("--speed", "9"), 2, "unrecognized arguments"),
    ("option of another utility", line('["a"]'), ("--model", "x"), 2, "'chrf' has no option 'model'"),
    (
        "strategy that does not fit",
        line('["a"]'),
        ("--strategy", "half"),
        2,
        "needs an antisymmetric utility",
    ),
    ("resume without a file", line('["a"]'), ("--resume",), 2, "--resume needs an output file"),
    ("output is a folder", line('["a"]'), ("-o", "."), 2, "is a folder"),
    ("output folder missing", line('["a"]'), ("-o", "no/where.txt"), 2, "cannot write"),
    (
        "no model",
        line('["a", "b"]'),
        ("--utility", "pear", "--model", "./none"),
        4,
        "is not a PEAR checkpoint",
    ),
    (
        "wrong folder",
        line('["a", "b"]'),
        ("--utility", "pear", "--model", "."),
        4,
        "is not a PEAR checkpoint",
    ),
    (
        "hub model while offline",
        line('["a", "b"]'),
        ("--utility", "pear", "--model", "pear"),
        4,
        "not in the local cache",
    ),
    (
        "no such device",
        line('["a", "b"]'),
        ("--utility", "pear", "--model", "OURS", "--device", "cuda:9"),
        6,
        "cuda:9",
    ),
    ("python in the configuration", line('["a"]'), ("--config", "evil.yaml"), 3, "not plain YAML"),
    ("a huge count", line('[{"text": "a", "count": 1' + "0" * 400 + "}]"), (), 3, "reasonable size"),
    ("a huge log-probability", line('[{"text": "a", "logprob": 1' + "0" * 400 + "}]"), (), 3, "not a finite number"),
    ("a number for a source", b'{"source": 5, "candidates": ["a"]}\n', (), 3, "expected a text, found int"),
    ("no threads", line('["a"]'), ("--threads", "0"), 2, "--threads 0"),
    ("an output without a name", line('["a"]'), ("-o", ""), 2, "-o is empty; expected a value"),
    ("one file for two outputs", line('["a"]'), ("-o", "x.npz", "--matrix", "x.npz"), 2, "the same file"),
    (
        "batches of nothing",
        line('["a"]'),
        ("--utility", "pear", "--model", "OURS", "--batch-tokens", "0"),
        2,
        "--batch-tokens 0",
    ),
    ("a tokenizer that is not here", line('["a"]'), ("--utility", "bleu", "--tokenize", "ja-mecab"), 6, "ja-mecab"),
    ("a configuration with a bad date", line('["a"]'), ("--config", "date.yaml"), 3, "not plain YAML"),
    ("a configuration without a name", line('["a"]'), ("--config",), 2, "expected one argument"),
    ("unknown configuration key", line('["a"]'), ("--config", "odd.yaml"), 2, "unknown option 'speed'"),
]


@pytest.mark.parametrize(("what", "content", "words", "code", "message"), TROUBLE, ids=[row[0] for row in TROUBLE])
def test_trouble_has_a_message_and_an_exit_code(
    run: Run,
    tmp_path: Path,
    ours: Path,
    what: str,
    content: bytes | None,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    if content is not None:
        (tmp_path / "l.jsonl").write_bytes(content)
    (tmp_path / "evil.yaml").write_text("utility: !!python/object/apply:os.system ['touch pwned']\n")
    (tmp_path / "odd.yaml").write_text("speed: 9\n")
    (tmp_path / "date.yaml").write_text("seed: 2020-13-45\n")
    words = tuple(str(ours) if word == "OURS" else word for word in words)
    result = run("mbr-decode", *CHRF, *words)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "pwned").exists()


def test_a_malicious_checkpoint_ends_the_command_with_the_model_code(
    run: Run, lists: Path, released: Path, tmp_path: Path
) -> None:
    import shutil

    import torch

    class Evil:
        def __reduce__(self) -> Any:
            return (os.system, (f"touch {tmp_path}/pwned",))

    shutil.copytree(released, tmp_path / "evil")
    torch.save({"state_dict": {}, "x": Evil()}, tmp_path / "evil" / "checkpoints" / "model.ckpt")
    result = run("mbr-decode", "--model", tmp_path / "evil", "--candidates", "l.jsonl")
    assert result.returncode == 4
    assert "pear-convert --allow-pickle" in result.stderr
    assert not (tmp_path / "pwned").exists()


def test_nan_from_a_utility(run: Run, tmp_path: Path, lists: Path) -> None:
    (tmp_path / "nanny.py").write_text(
        "import numpy as np\nfrom mbr import MatrixUtility\n"
        "class Nanny(MatrixUtility):\n    name = 'nanny'\n"
        "    def matrix(self, s, h, r):\n        return np.full((len(h), len(r)), np.nan, np.float32)\n"
    )
    info = tmp_path / "nanny-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nanny\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mbr_decode.utilities]\nnanny = nanny:Nanny\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = ("mbr-decode", "--utility", "nanny", "--candidates", "l.jsonl")
    stopped = run(*words, env=environment)
    assert stopped.returncode == 4
    assert "the utility returned nan" in stopped.stderr
    went_on = run(*words, "--on-error", "fallback", env=environment)
    assert (went_on.returncode, went_on.stdout) == (1, "Ein Hund rennt.\nHallo\nGuten Morgen\n")


def test_an_existing_output_is_kept(run: Run, lists: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("precious")
    result = run("mbr-decode", *CHRF, "-o", "out.txt")
    assert result.returncode == 2
    assert "--force" in result.stderr
    assert (tmp_path / "out.txt").read_text() == "precious"
    assert run("mbr-decode", *CHRF, "-o", "out.txt", "--force").returncode == 0


def test_a_closed_pipe_ends_quietly(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", RECORDS * 2000)
    program = Path(sys.executable).with_name("mbr-decode")
    command = f"{program} {' '.join(CHRF)} --quiet | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.stdout == f"Ein Hund läuft.\n{128 + signal.SIGPIPE}\n"
    assert result.stderr == ""


def test_a_full_disk_under_stdout_is_a_resource_error(lists: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [Path(sys.executable).with_name("mbr-decode"), *CHRF]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=lists.parent, check=False)
    assert result.returncode == 5
    assert "No space left" in result.stderr


def test_a_full_disk_leaves_no_half_file(run: Run, tmp_path: Path) -> None:
    """A limit on file sizes stands in for the full disk: the same errors come from the same calls."""
    write_jsonl(tmp_path / "l.jsonl", RECORDS * 3000)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    result = run("mbr-decode", *CHRF, "-o", "out.txt", preexec_fn=limit)
    assert result.returncode == 5, result.stderr
    assert "no space left" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.txt").exists()
    partial = tmp_path / "out.txt.partial"
    assert not partial.exists() or partial.read_bytes().endswith(b"\n")
    again = run("mbr-decode", *CHRF, "-o", "out.txt", "--resume")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out.txt").read_text() == "Ein Hund läuft.\nHallo\nGuten Morgen!\n" * 3000
    assert sorted(os.listdir(tmp_path)) == ["l.jsonl", "out.txt", "out.txt.run.yaml"]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_have_their_exit_codes(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    write_jsonl(tmp_path / "l.jsonl", RECORDS * 20_000)
    command = [Path(sys.executable).with_name("mbr-decode"), *CHRF]

    def listen() -> None:  # a shell starts background jobs deaf to SIGINT, and tests may run in one
        signal.signal(sent, signal.SIG_DFL)

    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=tmp_path, preexec_fn=listen)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(sent)
    _, errors = process.communicate()
    assert process.returncode == code
    assert b"Traceback" not in errors
    assert b"--resume" not in errors  # nothing was kept


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", RECORDS * 20_000)
    command = [Path(sys.executable).with_name("mbr-decode"), *CHRF, "-o", "out.txt"]
    environment = {**os.environ, "MBR_COMMIT_SECONDS": "0"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, env=environment)
    while not (tmp_path / "out.txt.partial").exists() or not (tmp_path / "out.txt.partial").stat().st_size:
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 143
    pattern = rb"error: terminated; run the same command with --resume to continue \([\d,]+ segments done\)\n"
    assert re.search(pattern, errors)


def test_nbest_one_reminds_mbrs_users_of_top(run: Run, lists: Path) -> None:
    assert "mbrs's --nbest is --top here" in run("mbr-decode", *CHRF, "--nbest", "1").stderr


def test_a_fallback_stays_on_its_line(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", [{"id": "x\ty\nz", "source": "s", "candidates": ["a\nb\tc", "d"]}])
    text = run("mbr-decode", *CHRF, "--on-error", "fallback")
    assert (text.returncode, text.stdout) == (1, "a b\tc\n")
    tsv = run("mbr-decode", *CHRF, "--on-error", "fallback", "--format", "tsv")
    assert tsv.stdout.splitlines()[1] == "x y z\t1\ta b c\t\t\t0\tfallback,error"


def test_seed_zero_is_a_seed(run: Run, lists: Path, ours: Path, tmp_path: Path) -> None:
    words = ("mbr-decode", "--model", ours, "--device", "cpu", "--candidates", "l.jsonl", "-o", "out.txt", "--seed")
    assert "|seed:0|" in run(*words, "0").stderr
    assert "seed: 0\n" in (tmp_path / "out.txt.run.yaml").read_text()
    assert run(*words, str(10**30), "--force").returncode == 0


def test_closed_streams_do_not_crash_it(lists: Path) -> None:
    program = Path(sys.executable).with_name("mbr-decode")
    for closed, code in ((">&-", 2), ("2>&-", 0), ("<&-", 0)):
        command = ["bash", "-c", f"{program} {' '.join(CHRF)} {closed}"]
        result = subprocess.run(command, capture_output=True, text=True, cwd=lists.parent, check=False)
        assert result.returncode == code, (closed, result.stderr)
        assert "Traceback" not in result.stderr


def test_a_run_that_keeps_only_matrices_leaves_nothing_behind_when_it_fails(run: Run, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "l.jsonl", [*RECORDS * 200, {"source": "s", "candidates": []}])
    assert run("mbr-decode", *CHRF, "--matrix", "m.npz").returncode == 3
    assert os.listdir(tmp_path) == ["l.jsonl"]
    assert run("mbr-decode", *CHRF, "--matrix", "m.npz", "--on-error", "skip").returncode == 1
    assert sorted(os.listdir(tmp_path)) == ["l.jsonl", "m.npz"]


def test_trouble_while_publishing_keeps_its_own_story(run: Run, tmp_path: Path) -> None:
    """The matrices fit as they grow, but not as the file they end up in."""
    write_jsonl(tmp_path / "l.jsonl", RECORDS * 20)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = run("mbr-decode", *CHRF, "--matrix", "m.npz", "-o", "out.txt", preexec_fn=limit)
    assert result.returncode == 5, result.stderr
    assert "no space left" in result.stderr
    assert not (tmp_path / "out.txt").exists()
    assert run("mbr-decode", *CHRF, "--matrix", "m.npz", "-o", "out.txt", "--resume").returncode == 0
