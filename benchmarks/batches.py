"""How many tokens should a batch of beams have?

    python -m benchmarks.batches
    python -m benchmarks.batches --model FOLDER --sources 16      # a CTranslate2 folder, as of benchmarks.released_opus

Makes the table behind the default of `--batch-tokens`: CPU seconds per sentence, beams of 100, one thread, for several
sizes of a batch in turn; median of the repeats. A step of the search computes a probability for every word of the
vocabulary and every beam: where those of a batch do not fit into the processor's cache, larger batches take longer.
"""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.support.headlines import headline, spread
from benchmarks.support.multi30k import texts
from candidates.generation import Settings, open_generator

SIZES = (1, 1024, 2048, 4096, 8192, 16384)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="en-de", help="bundled, or a CTranslate2 folder that translates English")
    parser.add_argument("--sources", type=int, default=64, help="captions of Multi30k's test part")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    sources = texts("test", "en", options.sources)
    seconds: dict[int | None, list[float]] = {}
    for _ in range(options.repeats):
        for size in (None, *SIZES):
            seconds.setdefault(size, []).append(per_sentence(options.model, sources, size))
    for size, values in seconds.items():
        print(f"{size or 'default':>8}  {1000 * statistics.median(values):7.1f} ms per sentence")
    ratios = [large / own for large, own in zip(seconds[8192], seconds[None], strict=True)]
    headline(f"beams of 100: batches of 8,192 over the default {spread(ratios)}")


def per_sentence(model: str, sources: list[str], size: int | None) -> float:
    """CPU seconds, without loading the model."""
    with open_generator(Settings(nbest=100), model=model, device="cpu", threads=1, batch_tokens=size) as generator:
        list(generator.generate(sources[:1]))
        began = time.process_time()
        made = sum(1 for _ in generator.generate(sources))
        return (time.process_time() - began) / made


if __name__ == "__main__":
    main()
