"""The training of the bundled English-German translation model.

    python -m benchmarks.train_bundled_mt

Makes the files in candidates/bundled/en-de. Goes on from its last checkpoint when started again, and writes the model
to `benchmarks/work/en-de/model` at the end; `benchmarks.candidates --model benchmarks/work/en-de/model` measures it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.support.places import TATOEBA, WORK
from candidates.training.export import write_translator
from candidates.training.loop import Recipe, train
from candidates.training.split import PARTS, read_pairs

RECIPE = Recipe(steps=4300, cool_down=0.42)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("--work", type=Path, default=WORK / "en-de", help="folder of checkpoint, log and model")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for part in PARTS:
        pairs = list(read_pairs(options.data, part))
        print(f"{part}: {len(pairs):,} pairs, {len({source for source, _ in pairs}):,} sources")
    model = train(RECIPE, read_pairs(options.data, "train"), read_pairs(options.data, "dev"), options.work)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters")
    write_translator(model, options.work / "sentencepiece.model", options.work / "model")


if __name__ == "__main__":
    main()
