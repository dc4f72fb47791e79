"""The training of the bundled translation models: English-German, and German-English for the reverse term.

    python -m benchmarks.train_bundled_mt en-de
    nice -n 19 python -m benchmarks.train_bundled_mt de-en --threads 1      # begins with the first stage of en-de
    python -m benchmarks.train_bundled_mt en-de --continue 1000             # from the bundled model, 1,000 more steps

Makes the files in candidates/bundled, in stages (`STAGES`), each of which begins with the weights of the one before.
Every stage is kept in a folder of its own under benchmarks/work, with its log of losses and its model: when started
again, the run continues from its last checkpoint. `benchmarks.candidates --model benchmarks/work/en-de-2/model`
measures a model. Both directions are split by the English sentence, so that what is held out of one is held out of the
other.
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

# Later stages learn at half the rate that a new model learns with.
CONTINUED: dict[str, Any] = {
    "batch_tokens": 3072,
    "precision": "bf16",
    "dropout": 0.15,
    "cool_down": 0.5,
    "matrix_rate": 2e-3,
    "other_rate": 2e-3,
}
STAGES = {
    "en-de-1": Recipe(steps=4_300, cool_down=0.42),
    "en-de-2": Recipe(**CONTINUED, steps=2_300, encoder_layers=6),
    "de-en-1": Recipe(steps=1_100, batch_tokens=3072, precision="bf16", cool_down=0.25),
    "de-en-2": Recipe(**CONTINUED, steps=1_300),
}
# Stages by direction; one vocabulary serves both, so de-en begins with the weights of en-de.
DIRECTIONS = {"en-de": ("en-de-1", "en-de-2"), "de-en": ("en-de-1", "de-en-1", "de-en-2")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("direction", choices=DIRECTIONS)
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the stages")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--continue", dest="more", type=int, metavar="STEPS", help="from the bundled model instead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    stages = {name: STAGES[name] for name in DIRECTIONS[options.direction]}
    start = ""
    if options.more:
        stages = {f"{options.direction}-more": replace(STAGES[f"{options.direction}-2"], steps=options.more)}
        start = str(BUNDLED / options.direction)
    for part in PARTS:
        counted = list(directed_pairs(options.data, options.direction, part))
        print(f"{part}: {len(counted):,} pairs, {len({source for source, _ in counted}):,} sources", flush=True)
    for name, recipe in stages.items():
        work = options.work / name
        pairs = partial(directed_pairs, options.data, name[:5])
        model = train(replace(recipe, start=start), pairs("train"), pairs("dev"), work)
        print(f"{name}: {sum(weight.numel() for weight in model.parameters()):,} parameters", flush=True)
        write_translator(model, work / "sentencepiece.model", work / "model")
        start = str(work / "model")


def directed_pairs(data: Path, direction: str, part: Part) -> Iterator[tuple[str, str]]:
    """The pairs of a part, which the English sentence decides, as (source, target)."""
    for english, german in read_pairs(data, part):
        yield (english, german) if direction == "en-de" else (german, english)


if __name__ == "__main__":
    main()
