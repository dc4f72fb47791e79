"""The weights of the bundled recipe: `mbr-tune` on development lists of the bundled translation model.

    python -m benchmarks.train_recipe                     # prints the gains by cross-validation, writes recipe.yaml
    python -m benchmarks.train_recipe --pear FOLDER       # with another PEAR

Makes the weights in pear/bundled/en-de/recipe.yaml. Lists are 100-best beams for the 600 development sources of the
part `unseen`, with their references; the expected utility of a candidate is estimated from `--budget` pairs per list.
What was computed is kept, so a run that was stopped continues.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import candidate_lists, parts, references
from candidates.formats import render_list
from candidates.generation import Settings
from pear.shipped import DEFAULT

TERMS = ("logprob", "coverage,model=en-de", "coverage-back,model=en-de", "reverse,model=de-en", "chrf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pear", default=DEFAULT, help="a folder, or the name of a bundled model")
    parser.add_argument("--budget", type=int, default=150, help="pairs of each list")
    parser.add_argument("--add", nargs="+", default=TERMS, help="the terms")
    parser.add_argument("--work", type=Path, default=WORK / "recipe")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    lists = options.work / "development.jsonl"
    write_lists(lists)
    command = [
        *(Path(sys.executable).with_name("mbr-tune"), "--candidates", lists, "--utility", "pear"),
        *("--model", options.pear, "--strategy", f"race:tolerance=0:budget={options.budget}", "--add", *options.add),
        *("--objective", "chrf+embedding", "--judge", "bleu", "--baseline", "none", "--threads", options.threads),
        *("-o", options.work / "recipe.yaml", "--report", options.work / "report.json", "--force"),
    ]
    cache = {"MBR_CACHE": str(options.work / "cache")}
    return subprocess.run([str(word) for word in command], env={**os.environ, **cache}, check=False).returncode


def write_lists(file: Path) -> None:
    """The development lists with their references."""
    golden = references(TATOEBA, "unseen")
    made = candidate_lists(file, parts(TATOEBA)["development"], Settings(nbest=100))
    rendered = (render_list(replace(item, references=tuple(golden[item.source])), "jsonl", 0) for item in made)
    file.write_bytes(b"".join(rendered))


if __name__ == "__main__":
    sys.exit(main())
