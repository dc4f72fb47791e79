"""Does memory grow with the input? Peak resident memory of commands for few lines and for many.

    python -m benchmarks.stream_memory
    python -m benchmarks.stream_memory --lists 1000 5000 --sentences 2000 10000

Proves that lists stream through mbr-decode, and text through mbr-generate. Pipes 10,000 and then 100,000 short lists
into `mbr-decode --utility chrf`, then 5,000 and 50,000 short sentences into `mbr-generate` (two samples each of the
bundled model). With a file as output, so that the journal is part of what is measured.

The smaller number must be beyond the warm-up, and mbr-generate runs with one thread. It samples every 16 sentences
with a translator of its own: with several threads the peak depends on how many of these happen to be loaded at once.
With one thread the peak still rises in a few steps of some MiB, at places that differ between runs: 83 MiB after 10
sentences; 93, 89 and 91 after 2,000 in three runs; 95 and 93 after 10,000, 98 and 93 after 15,000 in the two that went
on. It is the heap of glibc that is cut up by the models that come and go, not something that is kept: with a fixed
limit for its heap (MALLOC_MMAP_THRESHOLD_=131072) the peak was 84 MiB from 1,500 to 7,000 sentences.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from benchmarks.support.headlines import headline

WORDS = ("the", "a", "cat", "dog", "house", "runs", "sleeps", "today", "tomorrow", "never", "always", "under")
ALLOWED_GROWTH = 1.1


def a_list(draw: random.Random, place: int) -> bytes:
    """Five candidates of five to nine words."""
    candidates = [" ".join(draw.choices(WORDS, k=draw.randint(5, 9))) for _ in range(5)]
    return json.dumps({"id": place, "source": f"source {place}", "candidates": candidates}).encode() + b"\n"


def a_sentence(draw: random.Random, place: int) -> bytes:
    return " ".join(draw.choices(WORDS, k=draw.randint(2, 6))).encode() + b".\n"


DECODE = ("mbr-decode", "--utility", "chrf", "--candidates", "-")
GENERATE = (
    "mbr-generate",
    "--nbest",
    "2",
    "--method",
    "sample",
    "--max-length",
    "12",
    "--format",
    "lines",
    "--threads",
    "1",
)


def feed(stream: IO[bytes], count: int, make: Callable[[random.Random, int], bytes]) -> None:
    """Write lines as fast as the command reads them."""
    draw = random.Random(1)
    with stream:
        for place in range(count):
            stream.write(make(draw, place))


def peak(words: Sequence[str], count: int, make: Callable[[random.Random, int], bytes]) -> tuple[float, float]:
    """Peak resident memory in MiB, and seconds, for `count` lines."""
    program = Path(sys.executable).with_name(words[0])
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        command: list[str | Path] = [program, *words[1:], "--quiet", "-o", f"{folder}/out.txt"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        writer = threading.Thread(target=feed, args=(process.stdin, count, make))
        writer.start()
        _, status, usage = os.wait4(process.pid, 0)
        writer.join()
        assert status == 0, f"{words[0]} ended with status {status}"
        lines = Path(folder, "out.txt").read_bytes().count(b"\n")
        assert lines == count * (2 if words is GENERATE else 1), f"{lines} lines for {count}"
        return usage.ru_maxrss / 1024, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, nargs=2, default=(10_000, 100_000), metavar=("FEW", "MANY"))
    parser.add_argument("--sentences", type=int, nargs=2, default=(5_000, 50_000), metavar=("FEW", "MANY"))
    options = parser.parse_args()
    grows = False
    for words, (few, many), make in ((DECODE, options.lists, a_list), (GENERATE, options.sentences, a_sentence)):
        results = {count: peak(words, count, make) for count in (few, many)}
        for count, (memory, seconds) in results.items():
            print(f"{words[0]:12}  {count:>8,} lines  peak memory {memory:6.1f} MiB  {count / seconds:6.0f} lines/s")
        growth = results[many][0] / results[few][0]
        headline(f"{words[0]}: {growth:.2f} times the memory for {many / few:.0f} times the lines")
        grows |= growth > ALLOWED_GROWTH
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
