"""The demonstration behind `make demo`: sentences translated by the bundled model, the best of 100 chosen by PEAR.

    python -m benchmarks.demo

Proves that a clean clone translates and chooses with the models it ships, with no model hub.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.places import ROOT


def main() -> int:
    words = ["mbr-decode", "--utility", "pear", "--nbest", "100", "--sources", "benchmarks/sample/en.txt"]
    print("$ " + " ".join(words), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        lists = Path(scratch) / "lists.jsonl"
        options = [*words[1:], "--format", "jsonl", "--save-candidates", str(lists)]
        began = time.monotonic()
        program = Path(sys.executable).with_name(words[0])
        result = subprocess.run([program, *options], stdout=subprocess.PIPE, encoding="utf-8", cwd=ROOT, check=False)
        seconds = time.monotonic() - began
        if result.returncode:
            return result.returncode
        first = [json.loads(line)["candidates"][0]["text"] for line in lists.read_text(encoding="utf-8").splitlines()]
    decided = [json.loads(line) for line in result.stdout.splitlines()]
    for record, text in zip(decided, first, strict=True):
        print(f"\n  source      {record['source']}")
        print(f"  beam best   {text}")
        print(f"  MBR choice  {record['text']}{' (the same)' if record['text'] == text else ''}")
        print(
            f"              score {record['score']:.2f}, {record['margin']:.2f} above the second of {record['unique']}"
            f" (PEAR {record['expected_utility']:+.2f}"
            + "".join(f", {name} {value:.2f}" for name, value in record["terms"].items())
            + ")"
        )
    print(f"\n{len(decided)} sentences in {seconds:.1f} seconds, loading included")
    return 0


if __name__ == "__main__":
    sys.exit(main())
