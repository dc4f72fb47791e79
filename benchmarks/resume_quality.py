"""RESUME at small scale: trained on MQM rows, judged on post-edits and on WMT23.

    python -m benchmarks.resume_quality

Trains with the command a user would take (pear-train --kind resume), from the encoder of the bundled translation
model, on WMT21 news and TED (English-German, MQM; test sets are not among them). Then, for chrF, for the similarity of
sentence embeddings, and for both with RESUME added:

- post-edit rate on MLQE-PE en-de test20: how often the post-edit scores above the machine translation it corrects, when
  the machine translation is the reference. A metric that only compares with the reference can hardly say so.
- WMT23 en-de with its reference: Kendall tau-like over pairs of one segment, and pairwise accuracy of systems.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch

from benchmarks.held_out import Judged, wmt23_lists
from benchmarks.peers import ROOT, TATOEBA, WORK
from benchmarks.teacher import Embedder
from pear.resume import Resume, with_resume
from pear.training.statistics import Pairs

DATA = TATOEBA.parent.parent
ROWS = [DATA / "wmt-mqm" / name for name in ("en-de-mqm.2021.csv", "en-de-mqm.2021-ted.csv")]
POST_EDITS = DATA / "mlqe-pe" / "post-editing-test-en-de-test.tar.gz"
WEIGHT = 0.2
Metric = Callable[[Sequence[str], Sequence[str], Sequence[str]], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=WORK / "quality")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = options.work / f"resume-{options.steps}"
    if not model.exists():
        learn(model, options.steps, options.threads)
    embed = Embedder()
    results: dict[str, Any] = {}
    with Resume.load(str(model), device="cpu") as resume:
        metrics: dict[str, Metric] = {"chrF": chrf, "embedding": lambda s, r, c: cosine(embed, r, c)}
        metrics |= {
            f"{name} + {WEIGHT} RESUME": with_resume(metric, resume, WEIGHT) for name, metric in metrics.items()
        }
        edits, segments = post_edits(), wmt23_lists()
        for name, metric in metrics.items():
            results[name] = {**post_edit_rate(metric, edits), **agreement_with_people(metric, segments)}
            print(f"{name:24} " + "  ".join(f"{key} {value:.3f}" for key, value in results[name].items()), flush=True)
    (options.work / "resume_quality.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def learn(model: Path, steps: int, threads: int) -> None:
    words = ["--kind", "resume", "--data", *map(str, ROWS), "--score-range", "-25", "0", "-o", str(model)]
    words += ["--from-translator", str(ROOT / "candidates" / "bundled" / "en-de"), "--hidden-sizes", "512", "128"]
    words += ["--encoder-rate", "3e-4", "--head-rate", "1e-3", "--freeze-encoder", "0.1", "--batch-tokens", "3072"]
    words += ["--steps", str(steps), "--every", str(max(steps // 3, 1)), "--select", "pdp", "--dev-lists", "60"]
    program = Path(sys.executable).with_name("pear-train")
    subprocess.run([program, *words, "--threads", str(threads)], check=True, cwd=ROOT)


def post_edits() -> list[tuple[str, str, str]]:
    """(source, machine translation, post-edit) of MLQE-PE's English-German test set."""
    with tarfile.open(POST_EDITS) as archive:
        columns = []
        for suffix in ("src", "mt", "pe"):
            stream = archive.extractfile(f"en-de-test20/test20.{suffix}")
            assert stream is not None
            columns.append(io.TextIOWrapper(stream, "utf-8").read().rstrip("\n").split("\n"))
    return list(zip(*columns, strict=True))


def post_edit_rate(metric: Metric, edits: Sequence[tuple[str, str, str]]) -> dict[str, float]:
    changed = [row for row in edits if row[1] != row[2]]
    sources, before, after = (list(column) for column in zip(*changed, strict=True))
    won = np.asarray(metric(sources, before, after)) > np.asarray(metric(sources, before, before))
    return {"post-edit rate": float(won.mean()), "of": float(len(changed))}


def agreement_with_people(metric: Metric, segments: Sequence[Judged]) -> dict[str, float]:
    rows = [(item.source, item.reference, text) for item in segments for text in item.texts]
    sources, references, texts = (list(column) for column in zip(*rows, strict=True))
    scores = np.asarray(metric(sources, references, texts), np.float64)
    parts = np.split(scores, np.cumsum([len(item.texts) for item in segments])[:-1])
    pairs = Pairs.of(parts, [item.scores.tolist() for item in segments])
    decided = pairs.judged != 0
    agree = np.sign(pairs.predicted[decided]) * np.sign(pairs.judged[decided])
    by_system: dict[str, list[tuple[float, float]]] = {}
    for item, part in zip(segments, parts, strict=True):
        for system, score, gold in zip(item.systems or [], part, item.scores, strict=True):
            by_system.setdefault(system, []).append((float(score), float(gold)))
    means = np.array([np.mean(values, axis=0) for values in by_system.values()])
    i, j = np.triu_indices(len(means), k=1)
    right = (means[i] - means[j]).prod(axis=1) > 0
    return {"Kendall tau-like": float(agree.mean()), "system accuracy": float(right.mean())}


def chrf(sources: Sequence[str], references: Sequence[str], candidates: Sequence[str]) -> Any:
    """From 0 to 1, as the weight of RESUME supposes."""
    metric = sacrebleu.CHRF()
    pairs = zip(candidates, references, strict=True)
    return np.array([metric.sentence_score(text, [reference]).score / 100 for text, reference in pairs])


def cosine(embed: Embedder, references: Sequence[str], candidates: Sequence[str]) -> Any:
    return (embed(references) * embed(candidates)).sum(axis=1)


if __name__ == "__main__":
    main()
