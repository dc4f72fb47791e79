"""The training of the bundled translation models: English-German, and German-English for the reverse term.

    python -m benchmarks.train_bundled_mt en-de
    nice -n 19 python -m benchmarks.train_bundled_mt de-en --threads 1

Makes the files in candidates/bundled. Continues from its last checkpoint when started again, and writes the model to
`benchmarks/work/en-de/model` at the end; `benchmarks.candidates --model benchmarks/work/en-de/model` measures it. Both
directions are split by the English sentence, so that what is held out of one is held out of the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.support.places import TATOEBA, WORK
from candidates.backends.models import BUNDLED
from candidates.training.export import write_translator
from candidates.training.loop import Recipe, train
from candidates.training.split import PARTS, Part, read_pairs

# Both continue the bundled models, which have one vocabulary, at half the rate that a new model learns with.
COMMON: dict[str, Any] = {
    "batch_tokens": 3072,
    "precision": "bf16",
    "dropout": 0.15,
    "cool_down": 0.5,
    "matrix_rate": 2e-3,
    "other_rate": 2e-3,
}
RECIPES = {
    "en-de": Recipe(**COMMON, steps=2_300, encoder_layers=6, start=str(BUNDLED / "en-de")),
    "de-en": Recipe(**COMMON, steps=1_300, start=str(BUNDLED / "de-en")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("direction", choices=RECIPES)
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("--work", type=Path, help="folder of checkpoint, log and model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="steps instead of the recipe's; fixed once the rate falls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    work = options.work or WORK / options.direction
    recipe = RECIPES[options.direction]
    recipe = replace(recipe, steps=options.steps or recipe.steps)
    pairs = partial(directed_pairs, options.data, options.direction)
    for part in PARTS:
        counted = list(pairs(part))
        print(f"{part}: {len(counted):,} pairs, {len({source for source, _ in counted}):,} sources", flush=True)
    model = train(recipe, pairs("train"), pairs("dev"), work)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters")
    write_translator(model, work / "sentencepiece.model", work / "model")


def directed_pairs(data: Path, direction: str, part: Part) -> Iterator[tuple[str, str]]:
    """The pairs of a part, which the English sentence decides, as (source, target)."""
    for english, german in read_pairs(data, part):
        yield (english, german) if direction == "en-de" else (german, english)


if __name__ == "__main__":
    main()
