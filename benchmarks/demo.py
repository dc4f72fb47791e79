"""The demonstration behind `make demo`: decode a shipped sample list and show what was chosen over what.

For now the utility is chrF; the bundled translation model and the bundled PEAR will take over as they arrive.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import ROOT

SAMPLE = ROOT / "benchmarks" / "sample" / "en-de.jsonl"


def main() -> int:
    lists = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    words = ["mbr-decode", "--utility", "chrf", "--candidates", str(SAMPLE.relative_to(ROOT)), "--format", "jsonl"]
    print("$ " + " ".join(words), flush=True)
    program = Path(sys.executable).with_name(words[0])
    result = subprocess.run([program, *words[1:]], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    for record in map(json.loads, result.stdout.splitlines()):
        item = next(item for item in lists if item["id"] == record["id"])
        print(f"\n  source      {record['source']}")
        print(f"  first       {item['candidates'][0]}")
        print(f"  MBR choice  {record['text']}")
        print(
            f"              expected chrF {record['expected_utility']:.1f}, {record['margin']:.1f} above the second of "
            f"{record['unique']} distinct candidates"
        )
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
