"""Do we give the numbers of the authors' package? The largest differences of scores and utility matrices.

    python -m benchmarks.parity_pear_mt
    python -m benchmarks.parity_pear_mt --write-golden    # renews the answers in tests/data/pear_mt_golden.json

Proves that with the same weights and texts our scores and matrices are those of pear-mt 1.1.1, within 1e-4. Weights:
random checkpoints in the released layout (XLM-R and XLM-R-XL), and one that was trained here
(`benchmarks.support.trained_pear`). Texts: a few hundred triples with empty strings, texts beyond the 512-token budget
on one, two and three sides, emoji, CJK, Arabic, carriage returns and tabs; candidate lists with duplicates.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from typing import Any

import numpy as np

import pear
from benchmarks.support.headlines import headline
from benchmarks.support.peers import ask_pear_mt
from benchmarks.support.places import ROOT, WORK
from benchmarks.support.quotes import add_keep_option, keep
from benchmarks.support.trained_pear import trained_released
from pear.runtime.probes import PROBES, Triple
from tests.support.random_pear import CORPUS, write_random_released

TOLERANCE = 1e-4
GOLDEN = ROOT / "tests" / "data" / "pear_mt_golden.json"
KINDS = ("xlm-roberta", "xlm-roberta-xl")
TRAINED = "trained"
ODD = [
    "",
    " ",
    "\t",
    "a\rb",
    "tab\there",
    "line\u2028separator",
    "😀👩‍👩‍👧 family",
    "日本語のテキスト。",
    "نص عربي",
    "<s> </s> <pad> <mask>",
]


def long_text(words: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choices(" ".join(CORPUS).split(), k=words))


def triples(count: int = 300) -> list[Triple]:
    """Ordinary triples, unusual ones, and all eight ways in which the three texts may be too long."""
    draw = random.Random(0)
    chosen = [*PROBES, *((draw.choice(ODD), draw.choice(ODD), draw.choice(ODD)) for _ in range(40))]
    for case in range(8):
        far, near = ([many if case >> side & 1 else few for side in range(3)] for few, many in ((6, 900), (170, 210)))
        for lengths, seed in ((far, 3 * case), (near, 50 + 3 * case)):
            source, a, b = (long_text(words, seed + side) for side, words in enumerate(lengths))
            chosen.append((source, a, b))
    while len(chosen) < count:
        chosen.append((draw.choice(CORPUS), draw.choice(CORPUS), long_text(draw.randint(1, 40), len(chosen))))
    return chosen


def lists() -> list[tuple[str, list[str]]]:
    """Two lists, with duplicates and an empty candidate."""
    return [
        (CORPUS[0], [CORPUS[1], CORPUS[2], CORPUS[1], "", CORPUS[4], CORPUS[1]]),
        (CORPUS[-2], [CORPUS[-1], CORPUS[-3], CORPUS[-1].lower(), long_text(12, 7), CORPUS[-1]]),
    ]


def compare(kind: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Largest differences by name, and pear-mt's answers."""
    if kind == TRAINED:
        root = trained_released(layers=3, hidden=256, heads=4)
    else:
        root = WORK / f"parity-{kind}"
        for folder in (root, root.with_name(root.name + "-scratch")):
            shutil.rmtree(folder, ignore_errors=True)
        write_random_released(root, model_type=kind)
    asked, decoded = triples(), lists()
    jobs: list[dict[str, Any]] = [{"kind": "triples", "triples": asked, "batch_size": 8}]
    jobs += [{"kind": "matrix", "mode": mode, "lists": decoded, "batch_size": 8} for mode in ("half", "full")]
    theirs = ask_pear_mt(root, jobs)
    metric = pear.load_metric(root)
    ours = metric.engine(gpus=0).score(asked)
    differences = {f"{len(asked)} triples": float(np.abs(ours - theirs[0]["scores"]).max())}
    for job, answer in zip(jobs[1:], theirs[1:], strict=True):
        worst = 0.0
        for (source, texts), matrix in zip(decoded, answer["matrices"], strict=True):
            mine = pear.pear_utility_matrix(metric, source, texts, mode=job["mode"], gpus=0, progress_bar=False)
            worst = max(worst, float(np.abs(mine - matrix).max()))
        differences[f"{job['mode']} matrices"] = worst
    spread = float(np.std(theirs[0]["scores"]))
    print(f"{kind}: scores have standard deviation {spread:.3f}")
    for name, value in differences.items():
        print(f"  {name:<15} largest difference {value:.1e}  {'ok' if value <= TOLERANCE else 'TOO LARGE'}")
    short = [place for place, triple in enumerate(asked) if sum(map(len, triple)) < 400][:40]
    golden = {
        "triples": [asked[place] for place in short],
        "scores": [theirs[0]["scores"][place] for place in short],
        "lists": decoded,
        **{job["mode"]: answer["matrices"] for job, answer in zip(jobs[1:], theirs[1:], strict=True)},
    }
    return differences, golden


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-golden", action="store_true", help="renew the numbers that the tests pin")
    add_keep_option(parser)
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    results = {kind: compare(kind) for kind in (*KINDS, TRAINED)}
    if options.write_golden:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        content = {kind: golden for kind, (_, golden) in results.items() if kind in KINDS}
        GOLDEN.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    largest = {kind: max(differences.values()) for kind, (differences, _) in results.items()}
    worst = max(largest.values())
    if options.keep:
        keep("parity_pear_mt", {"random": max(largest[kind] for kind in KINDS), "trained": largest[TRAINED]})
    headline(f"largest difference from pear-mt: {worst:.1e}, tolerance {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
