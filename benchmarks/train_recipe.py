"""The weights of the bundled recipe: `mbr-tune` on development lists of the bundled translation model.

    python -m benchmarks.train_recipe                     # prints the gains by cross-validation, writes recipe.yaml
    python -m benchmarks.train_recipe --pear FOLDER       # with another PEAR
    python -m benchmarks.train_recipe --utility none      # without one

Makes pear/bundled/en-de/recipe.yaml: the weights that `mbr-tune` gives, scaled so that PEAR has weight 1, with two
digits. Lists are 100-best beams for the 600 development sources of the part `unseen`, with their references; the
expected utility of a candidate is estimated from `--budget` pairs per list. What was computed is kept, so a run that
was stopped continues.
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
from candidates.lists import Origin
from mbr.recipe import Recipe, read_recipe
from pear.shipped import DEFAULT

TERMS = ("logprob", "coverage,model=en-de", "coverage-back,model=en-de", "reverse,model=de-en")
HEAD = """\
# How mbr-decode chooses among beams of the bundled translation model: PEAR, the translation model's log-probability,
# whether the source is there in full (coverage, and the bundled German-English model as reverse) and nothing else
# (coverage-back). The weights, beside a PEAR of weight 1, are those of mbr-tune on 600 development lists
# (benchmarks/train_recipe.py, docs/bundled-pear.md).
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--utility", choices=("pear", "none"), default="pear")
    parser.add_argument("--pear", default=DEFAULT, help="a folder, or the name of a bundled model")
    parser.add_argument("--budget", type=int, default=150, help="pairs of each list")
    parser.add_argument("--add", nargs="+", default=TERMS, help="the terms")
    parser.add_argument("--objective", default="chrf+embedding")
    parser.add_argument("--work", type=Path, default=WORK / "recipe")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    lists = options.work / "development.jsonl"
    origin = write_lists(lists)
    tuned = options.work / "tuned.yaml"
    command = ["mbr-tune", "--candidates", lists, "--utility", options.utility, "--add", *options.add]
    if options.utility == "pear":
        command += ["--model", options.pear, "--strategy", f"race:tolerance=0:budget={options.budget}"]
    command += ["--objective", options.objective, "--judge", "bleu", "--baseline", "none"]
    command += ["--threads", options.threads, "-o", tuned, "--report", options.work / "report.json", "--force"]
    program, *words = map(str, command)
    cache = {"MBR_CACHE": str(options.work / "cache")}
    code = subprocess.run([Path(sys.executable).with_name(program), *words], env={**os.environ, **cache}, check=False)
    if code.returncode:
        return code.returncode
    (options.work / "recipe.yaml").write_text(shipped(read_recipe(tuned), origin), encoding="utf-8")
    return 0


def write_lists(file: Path) -> Origin:
    """The development lists with their references; returns what made them."""
    golden = references(TATOEBA, "unseen")
    made = candidate_lists(file, parts(TATOEBA)["development"], Settings(nbest=100))
    rendered = (render_list(replace(item, references=tuple(golden[item.source])), "jsonl", 0) for item in made)
    file.write_bytes(b"".join(rendered))
    assert made[0].origin is not None
    return made[0].origin


def shipped(recipe: Recipe, origin: Origin) -> str:
    """The recipe as it ships: for lists of this origin, with the bundled PEAR."""
    scale = 1.0 if recipe.utility == "none" or not recipe.weight else recipe.weight
    lines = ["fits:", f"  translator: [{origin.translator}]", f"  method: [{origin.method}]"]
    if recipe.utility == "none":
        lines += ["utility: none", "terms:"]
    else:
        lines += ["utility: pear", f"options: {{model: {DEFAULT}}}", "strategy: race", "terms:"]
    for term in recipe.terms:
        weight = f"{float(f'{term.weight / scale:.2g}'):g}"
        model = term.options.get("model")
        lines.append(f"  {term.name}: {f'{{weight: {weight}, model: {model}}}' if model else weight}")
    return HEAD + "\n".join([*lines, "weights: uniform", ""])


if __name__ == "__main__":
    sys.exit(main())
