"""How long does a line in a pipe wait for its answer, and what does answering lines cost when they come fast?

    python -m benchmarks.stream_latency
    python -m benchmarks.stream_latency --lines 20 --repeats 1

Proves two things of `mbr-decode` with the bundled models. A line every 200 ms into a pipe: each answer comes within a
second of its line, after the first, which waits for the models. As many lines as the pipe takes: the throughput is at
least 90 % of that with the same lines in a file. Both for text, which is translated (`--nbest`), and for lists as
JSONL (`--candidates -`). Choices must be the same from pipe and file. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.headlines import headline
from benchmarks.support.places import ROOT

SAMPLE = ROOT / "benchmarks" / "sample" / "hundred.en.txt"
INTERVAL = 0.2
MOST_SECONDS = 1.0
LEAST_SHARE = 0.9


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def latencies(words: Sequence[str], lines: Sequence[bytes]) -> tuple[list[float], list[bytes]]:
    """Seconds from each line to its answer, a line every `INTERVAL`; the first, before the others, is left out."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    sent: list[float] = []
    answered: list[float] = []
    answers: list[bytes] = []
    warm = threading.Event()

    def write() -> None:
        assert process.stdin is not None
        for line in lines:
            sent.append(time.monotonic())
            process.stdin.write(line)
            process.stdin.flush()
            warm.wait()
            time.sleep(INTERVAL)
        process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    for answer in process.stdout:
        answered.append(time.monotonic())
        answers.append(answer)
        warm.set()
    warm.set()
    writer.join()
    if process.wait() or len(answers) != len(lines):
        raise SystemExit(f"{' '.join(words)}: {len(answers)} answers to {len(lines)} lines, code {process.returncode}")
    return [after - before for before, after in zip(sent, answered, strict=True)][1:], answers


def seconds(words: Sequence[str], lines: Sequence[bytes], *, piped: bool) -> tuple[float, list[bytes]]:
    """Seconds of a whole run, and the answers."""
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(lines))
        file.seek(0)
        feeder = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) if piped else None
        began = time.monotonic()
        done = subprocess.run(
            words,
            stdin=feeder.stdout if feeder else file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        taken = time.monotonic() - began
        if feeder:
            feeder.wait()
    return taken, done.stdout.splitlines(keepends=True)


def start_up(words: Sequence[str], line: bytes) -> float:
    """Seconds for a single line: loading, mostly."""
    return min(seconds(words, [line], piped=False)[0] for _ in range(2))


def measure(name: str, words: Sequence[str], lines: Sequence[bytes], slow: int, repeats: int) -> bool:
    waits, answers = latencies(words, lines[:slow])
    start = start_up(words, lines[0])
    runs = {kind: [seconds(words, lines, piped=kind) for _ in range(repeats)] for kind in (False, True)}
    file, pipe = (statistics.median(taken - start for taken, _ in runs[kind]) for kind in (False, True))
    same = runs[True][0][1] == runs[False][0][1] and answers == runs[False][0][1][:slow]
    print(
        f"{name:<6} latency: median {statistics.median(waits):.2f} s, longest {max(waits):.2f} s ({len(waits)} lines); "
        f"throughput: {len(lines) / file:.1f} lines/s from a file, {len(lines) / pipe:.1f} from a pipe; "
        f"choices {'the same' if same else 'DIFFER'}"
    )
    headline(f"{name}: longest wait for an answer {max(waits):.2f} s, median {statistics.median(waits):.2f} s")
    headline(f"{name}: throughput of a pipe {100 * file / pipe:.0f} % of that of a file")
    return max(waits) <= MOST_SECONDS and file / pipe >= LEAST_SHARE and same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100, help="lines for the throughput")
    parser.add_argument("--slow", type=int, default=30, help="lines for the latency")
    parser.add_argument("--nbest", type=int, default=20, help="candidates per line")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of the commands (default: theirs); 1 on a busy machine")
    options = parser.parse_args()
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    lines = [lines[place % len(lines)] for place in range(options.lines)]
    nbest = ["--nbest", str(options.nbest)]
    lists = subprocess.run(
        [program("mbr-generate"), *nbest], input=b"".join(lines), stdout=subprocess.PIPE, check=True
    ).stdout.splitlines(keepends=True)
    threads = [] if options.threads is None else ["--threads", str(options.threads)]
    decode = [program("mbr-decode"), "--quiet", *threads]
    os.environ["HF_HUB_OFFLINE"] = "1"
    good = [
        measure("text", [*decode, *nbest], lines, options.slow, options.repeats),
        measure("lists", [*decode, "--candidates", "-"], lists, options.slow, options.repeats),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
