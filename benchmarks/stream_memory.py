"""Does memory grow with the input? Proves: candidate lists stream through mbr-decode.

Pipes 10,000 and then 100,000 short lists into `mbr-decode --utility chrf` and prints the peak resident memory of
the process for each. With a file as output, so that the journal is part of what is measured.
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
from pathlib import Path
from typing import IO

WORDS = ("the", "a", "cat", "dog", "house", "runs", "sleeps", "today", "tomorrow", "never", "always", "under")
ALLOWED_GROWTH = 1.1


def feed(stream: IO[bytes], count: int) -> None:
    """Lists of five candidates of five to nine words, written as fast as they are read."""
    draw = random.Random(1)
    with stream:
        for place in range(count):
            candidates = [" ".join(draw.choices(WORDS, k=draw.randint(5, 9))) for _ in range(5)]
            record = {"id": place, "source": f"source {place}", "candidates": candidates}
            stream.write(json.dumps(record).encode() + b"\n")


def peak(count: int) -> tuple[float, float]:
    """Peak resident memory in MiB, and seconds, for so many lists."""
    program = Path(sys.executable).with_name("mbr-decode")
    with tempfile.TemporaryDirectory() as folder:
        words: list[str | Path] = [
            program,
            "--utility",
            "chrf",
            "--candidates",
            "-",
            "--quiet",
            "-o",
            f"{folder}/out.txt",
        ]
        began = time.monotonic()
        process = subprocess.Popen(words, stdin=subprocess.PIPE)
        assert process.stdin is not None
        writer = threading.Thread(target=feed, args=(process.stdin, count))
        writer.start()
        _, status, usage = os.wait4(process.pid, 0)
        writer.join()
        assert status == 0, f"mbr-decode ended with status {status}"
        lines = Path(folder, "out.txt").read_bytes().count(b"\n")
        assert lines == count, f"{lines} lines for {count} lists"
        return usage.ru_maxrss / 1024, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, nargs=2, default=(10_000, 100_000), metavar=("FEW", "MANY"))
    few, many = parser.parse_args().lists
    results = {count: peak(count) for count in (few, many)}
    for count, (memory, seconds) in results.items():
        print(f"{count:>8,} lists  peak memory {memory:6.1f} MiB  {seconds:6.1f} s  {count / seconds:6.0f} lists/s")
    growth = results[many][0] / results[few][0]
    print(f"memory for {many / few:.0f} times the lists: {growth:.2f} times")
    return 0 if growth <= ALLOWED_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
