"""The demonstration behind `make demo`: sentences translated by the bundled model, the best of 100 chosen by PEAR.

    python -m benchmarks.demo

Proves that a clean clone translates and chooses with the models it ships, with no model hub. Where the choice differs
from the beam's best, it shows why: by how much each part of the recipe prefers it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.support.places import ROOT
from mbr.recipe import Recipe, read_recipe


def main() -> int:
    words = ["mbr-decode", "--utility", "pear", "--nbest", "100", "--sources", "benchmarks/sample/en.txt"]
    print("$ " + " ".join(words), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        lists = Path(scratch) / "lists.jsonl"
        options = [*words[1:], "--format", "jsonl", "--top", "100", "--save-candidates", str(lists)]
        began = time.monotonic()
        program = Path(sys.executable).with_name(words[0])
        result = subprocess.run([program, *options], stdout=subprocess.PIPE, encoding="utf-8", cwd=ROOT, check=False)
        seconds = time.monotonic() - began
        if result.returncode:
            return result.returncode
    recipe = read_recipe("en-de")
    decided = [json.loads(line) for line in result.stdout.splitlines()]
    for record in decided:
        beam = next(entry for entry in record["top"] if entry["position"] == 0)
        same = record["position"] == 0
        print(f"\n  source      {record['source']}")
        print(f"  beam best   {beam['text']}")
        print(f"  MBR choice  {record['text']}{' (the same)' if same else ''}")
        if not same:
            print(f"  why         {reasons(record, beam, recipe)}")
    changed = sum(record["position"] != 0 for record in decided)
    print(f"\n{len(decided)} sentences in {seconds:.1f} seconds, loading included; {changed} not the beam's best")
    return 0


def reasons(chosen: dict[str, Any], beam: dict[str, Any], recipe: Recipe) -> str:
    """By how much each part of the score prefers the choice to the beam's best, largest first."""
    parts = {"PEAR": recipe.weight * (chosen["expected_utility"] - beam["expected_utility"])}
    parts |= {term.name: term.weight * (chosen["terms"][term.name] - beam["terms"][term.name]) for term in recipe.terms}
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    total = chosen["score"] - beam["score"]
    return ", ".join(f"{name} {value:+.2f}" for name, value in ordered) + f"; in all {total:+.2f}"


if __name__ == "__main__":
    sys.exit(main())
