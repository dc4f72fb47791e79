"""RESUME at small scale: trained on MQM rows, judged on post-edits and on WMT23.

    python -m benchmarks.resume_quality
    python -m benchmarks.resume_quality --steps 150 --sweep docs/resume-weights.svg

Proves that a RESUME of this size leaves agreement with people as it was, and has not yet learned to see that a
post-edit is better than its reference. Trains with the command of a user (pear-train --kind resume), from the encoder
of the bundled translation model, on WMT21 news and TED (English-German, MQM; test sets are not among them). Then, for
chrF, for the similarity of sentence embeddings, and for both with RESUME added:

- post-edit rate on MLQE-PE en-de test20: how often the post-edit scores above the machine translation it corrects, when
  the machine translation is the reference. A metric that only compares with the reference hardly can.
- WMT23 en-de with its reference: Kendall tau-like over pairs of one segment, and pairwise accuracy of systems.

`--sweep` tries nine weights instead, with the command of a user (mbr-metaeval resume-metric): the weight is chosen on
one half of the WMT23 segments and measured on the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch

from benchmarks.support.places import DATA, ROOT, WMT23, WORK
from benchmarks.support.teacher import Embedder
from mbr.metaeval import Gold, Scores, ScoreSet, measure, read_folder
from mbr.metaeval.postedits import Metric, post_edit_rate, read_post_edits
from pear.resume_metric import ResumeMetric, with_resume_metric

ROWS = [DATA / "wmt-mqm" / name for name in ("en-de-mqm.2021.csv", "en-de-mqm.2021-ted.csv")]
POST_EDITS = DATA / "mlqe-pe" / "post-editing-test-en-de-test.tar.gz"
WEIGHT = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=WORK / "quality")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sweep", type=Path, metavar="FILE.svg", help="try several weights, and draw them here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = options.work / f"resume-{options.steps}"
    if not model.exists():
        learn(model, options.steps, options.threads)
    if options.sweep is not None:
        sweep(model, options.sweep, options.threads)
        return
    embed = Embedder()
    results: dict[str, Any] = {}
    with ResumeMetric.load(str(model), device="cpu") as resume:
        metrics: dict[str, Metric] = {"chrF": chrf, "embedding": lambda s, r, c: cosine(embed, r, c)}
        metrics |= {
            f"{name} + {WEIGHT} RESUME": with_resume_metric(metric, resume, WEIGHT) for name, metric in metrics.items()
        }
        edits = read_post_edits(POST_EDITS)
        score_set = read_folder(WMT23, "en-de", "mqm", metrics=[]).annotated_only()
        for name, metric in metrics.items():
            rate = post_edit_rate(name, metric, edits)
            results[name] = {"post-edit rate": rate.rate, "of": rate.items, **agreement_with_people(metric, score_set)}
            print(f"{name:24} " + "  ".join(f"{key} {value:.3f}" for key, value in results[name].items()), flush=True)
    (options.work / "resume_quality.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def learn(model: Path, steps: int, threads: int) -> None:
    words = ["--kind", "resume", "--data", *map(str, ROWS), "--score-range", "-25", "0", "-o", str(model)]
    words += ["--from-translator", str(ROOT / "candidates" / "bundled" / "en-de"), "--hidden-sizes", "512", "128"]
    words += ["--encoder-rate", "3e-4", "--head-rate", "1e-3", "--freeze-encoder", "0.1", "--batch-tokens", "3072"]
    words += ["--steps", str(steps), "--every", str(max(steps // 3, 1)), "--select", "pdp", "--dev-lists", "60"]
    program = Path(sys.executable).with_name("pear-train")
    subprocess.run([program, *words, "--threads", str(threads)], check=True, cwd=ROOT)


def sweep(model: Path, plot: Path, threads: int) -> None:
    words = ["resume-metric", "--data", str(WMT23), "--lp", "en-de", "--score", "chrf", "embedding"]
    words += ["--model", str(model), "--post-edits", str(POST_EDITS), "--plot", str(plot.resolve()), "--force"]
    program = Path(sys.executable).with_name("mbr-metaeval")
    subprocess.run([program, *words, "--threads", str(threads)], check=True, cwd=ROOT)


def agreement_with_people(metric: Metric, score_set: ScoreSet) -> dict[str, float | None]:
    assert score_set.texts is not None
    assert score_set.texts.reference is not None
    outputs = [text for texts in score_set.texts.outputs for text in texts]
    count = len(score_set.systems)
    scores = metric([*score_set.texts.sources] * count, [*score_set.texts.reference] * count, outputs)
    metric_scores = Scores("metric", np.asarray(scores, np.float64).reshape(count, -1))
    values = measure(Gold(score_set.gold), metric_scores, ["kendall", "pairwise_accuracy"])
    return {"Kendall tau-like": values["kendall"], "system accuracy": values["pairwise_accuracy"]}


def chrf(sources: Sequence[str], references: Sequence[str], candidates: Sequence[str]) -> Any:
    """From 0 to 1, as the weight of RESUME supposes."""
    metric = sacrebleu.CHRF()
    pairs = zip(candidates, references, strict=True)
    return np.array([metric.sentence_score(text, [reference]).score / 100 for text, reference in pairs])


def cosine(embed: Embedder, references: Sequence[str], candidates: Sequence[str]) -> Any:
    return (embed(references) * embed(candidates)).sum(axis=1)


if __name__ == "__main__":
    main()
