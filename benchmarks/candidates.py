"""How good the bundled translation model is: quality of its best translation and of its lists, and their cost.

    python -m benchmarks.candidates
    python -m benchmarks.candidates --lists 1000

Proves that its lists of 100 hold much better translations than its beam's best: there is something to choose. Sources
are those of the split's `test` part, which the training never saw (`candidates.training.split`). For each: the first
candidate of a beam of 5, then lists of 100 by each method: the first candidate, the choice by chrF-MBR, the oracle (the
candidate nearest to the references by sentence chrF), distinct texts, and CPU time per source with one thread. Scores
are sacrebleu's, once against the first German translation in the file and once against all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sacrebleu
import sacrebleu.metrics

from benchmarks.support.places import TATOEBA, WORK
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from candidates.training.split import read_pairs
from mbr import decode

METHODS: list[dict[str, Any]] = [
    {"method": "beam"},
    {"method": "epsilon"},
    {"method": "sample"},
    {"method": "sample", "temperature": 0.7},
    {"method": "sample", "top_p": 0.9, "top_k": 50},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=TATOEBA, help="Tatoeba's pairs, tab-separated")
    parser.add_argument("--model", default="en-de")
    parser.add_argument("--sources", type=int, help="sources of the test part, for the beam of 5 (default: all)")
    parser.add_argument("--lists", type=int, default=300, help="sources for the lists of 100")
    options = parser.parse_args()
    references: dict[str, list[str]] = {}
    for source, target in read_pairs(options.data, "test"):
        references.setdefault(source, []).append(target)
    sources = spread(list(references), options.sources or len(references))
    rows = [beam_of_five(options.model, sources, references)]
    print(show(rows[0]), flush=True)
    few = spread(sources, options.lists)
    for method in METHODS:
        rows.append(lists_of_hundred(options.model, few, references, method))
        print(show(rows[-1]), flush=True)
    WORK.mkdir(exist_ok=True)
    (WORK / "candidates.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def spread(sources: Sequence[str], count: int) -> list[str]:
    """`count` sources, evenly spaced: the file goes from short to long."""
    count = min(count, len(sources))
    return [sources[place * len(sources) // count] for place in range(count)]


def beam_of_five(model: str, sources: Sequence[str], references: dict[str, list[str]]) -> dict[str, Any]:
    lists, milliseconds = generate(model, sources, Settings(nbest=1, beam_size=5))
    row = {"method": "beam of 5", "sources": len(sources), "ms": milliseconds}
    return row | scores("first", [item.texts[0] for item in lists], sources, references)


def lists_of_hundred(
    model: str, sources: Sequence[str], references: dict[str, list[str]], method: dict[str, Any]
) -> dict[str, Any]:
    lists, milliseconds = generate(model, sources, Settings(nbest=100, **method))
    name = " ".join(str(value) if key == "method" else f"{key} {value}" for key, value in method.items())
    weights: Any = "uniform" if method["method"] == "beam" else "count"
    chosen = [decision.text or "" for decision in decode(lists, "chrf", weights=weights)]
    best = [oracle(item, references[item.source]) for item in lists]
    unique = statistics.mean(len(item) for item in lists)
    row = {"method": f"100, {name}", "sources": len(sources), "ms": milliseconds, "unique": round(unique, 1)}
    row |= scores("first", [item.texts[0] for item in lists], sources, references)
    row |= scores("chrf-mbr", chosen, sources, references)
    return row | scores("oracle", best, sources, references)


def generate(model: str, sources: Sequence[str], settings: Settings) -> tuple[list[CandidateList], float]:
    """The lists, and CPU milliseconds per source with one thread."""
    with open_generator(settings, model=model, threads=1, device="cpu") as generator:
        began = time.process_time()
        lists = [item for item in generator.generate(sources) if isinstance(item, CandidateList)]
        spent = time.process_time() - began
    return lists, round(1000 * spent / len(sources), 1)


def oracle(item: CandidateList, references: list[str]) -> str:
    metric = sacrebleu.metrics.CHRF()
    return max(item.texts, key=lambda text: metric.sentence_score(text, references).score)


def scores(name: str, outputs: list[str], sources: Sequence[str], references: dict[str, list[str]]) -> dict[str, Any]:
    """BLEU and chrF against the first translation, and against all of them."""
    most = max(len(references[source]) for source in sources)
    streams: list[list[str | None]] = [
        [references[source][place] if place < len(references[source]) else None for source in sources]
        for place in range(most)
    ]
    results: dict[str, Any] = {}
    for kind, metric in (("bleu", sacrebleu.metrics.BLEU()), ("chrf", sacrebleu.metrics.CHRF())):
        results[f"{name} {kind}"] = round(metric.corpus_score(outputs, streams[:1]).score, 2)
        results[f"{kind} signature"] = str(metric.get_signature())
        results[f"{name} {kind}, all references"] = round(metric.corpus_score(outputs, streams).score, 2)
        results[f"{kind} signature, all references"] = str(metric.get_signature())
    return results


def show(row: dict[str, Any]) -> str:
    lines = [f"{row['method']}: {row['sources']} sources, {row['ms']} CPU ms per source"]
    if "unique" in row:
        lines[0] += f", {row['unique']} of 100 distinct"
    for name in ("first", "chrf-mbr", "oracle"):
        if f"{name} bleu" in row:
            every = f"{row[f'{name} bleu, all references']:.1f} / {row[f'{name} chrf, all references']:.1f}"
            first = f"{row[f'{name} bleu']:.1f} / {row[f'{name} chrf']:.1f}"
            lines.append(f"  {name:9} BLEU / chrF {first} (all references: {every})")
    if "unique" not in row:
        lines += [
            f"  {row[f'{kind} signature{refs}']}" for refs in ("", ", all references") for kind in ("bleu", "chrf")
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
