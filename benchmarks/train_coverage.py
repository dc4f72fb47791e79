"""The training of the bundled word-translation table, English-German: half a minute on one core.

    python -m benchmarks.train_coverage

Makes mbr/bundled/en-de/words.npz from the part of Tatoeba that the bundled translation models learn from, so that
their held-out sentences are also its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.support.places import TATOEBA
from candidates.training.split import read_pairs
from mbr.alignment.table import BUNDLED, FILE
from mbr.alignment.training import train, write_table

DATA = "Tatoeba by way of manythings.org/anki, 2018-05-13, part train; CC BY 2.0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=TATOEBA, help="English-German pairs, tab-separated")
    parser.add_argument("-o", "--output", type=Path, default=BUNDLED / "en-de" / FILE)
    options = parser.parse_args()
    table = train(read_pairs(options.data, "train"), {"languages": "en-de", "data": DATA})
    size = write_table(table, options.output, force=True)
    print(
        f"{options.output}: {table.header['pairs']:,} pairs, {len(table.source_words):,} and "
        f"{len(table.target_words):,} words, {len(table.targets):,} entries, {size / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
