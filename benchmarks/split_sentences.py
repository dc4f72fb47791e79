"""What splitting a line into sentences gains with the bundled translation model, and what it costs lines of one.

    python -m benchmarks.split_sentences
    python -m benchmarks.split_sentences --lines 300 --lists 40

Proves that lines of several sentences lose most of their text when translated as a whole, and lines of one sentence
are translated as before. Sources are Tatoeba's test part, alone and joined in twos and threes with their references,
and the paragraphs of WMT23 en-de. First the best of a beam of 5, whole and split. Then lists of 100 and the choice of
the default recipe, with the candidates of a line built in three ways: the most likely combinations (the default), the
places of the sentences' lists one by one, and, as a bound, each sentence decided by itself and the choices joined.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import sacrebleu

from benchmarks.support.places import TATOEBA, WMT23, WORK
from benchmarks.support.tatoeba import parts, references
from candidates.backends.sentences import join_candidates, split_sentences
from candidates.generation import Settings, open_generator
from candidates.lists import Candidate, CandidateList
from mbr import decode

HUNDRED = Settings(nbest=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=500, help="lines of each set, for the beam of 5")
    parser.add_argument("--lists", type=int, default=60, help="lines of each set, for the lists of 100")
    options = parser.parse_args()
    rows = []
    lines = sets(options.lines)
    for name, (sources, targets) in lines.items():
        rows.append(beams(name, sources, targets))
        print(json.dumps(rows[-1]), flush=True)
    for name, (sources, targets) in list(lines.items())[1:]:
        rows.append(choices(name, sources[: options.lists], targets[: options.lists]))
        print(json.dumps(rows[-1]), flush=True)
    WORK.mkdir(exist_ok=True)
    (WORK / "split_sentences.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def sets(lines: int) -> dict[str, tuple[list[str], list[str]]]:
    """Sources and their first references."""
    golden = references(TATOEBA, "test")
    single = [source for source in parts(TATOEBA)["test"] if len(split_sentences(source)) == 1]
    made = {}
    for size, name in enumerate(("one sentence", "two sentences", "three sentences"), 1):
        groups = [single[place : place + size] for place in range(0, size * lines, size)]
        made[f"Tatoeba, {name}"] = (
            [" ".join(group) for group in groups],
            [" ".join(golden[source][0] for source in group) for group in groups],
        )
    files = (WMT23 / "sources" / "en-de.txt", WMT23 / "references" / "en-de.refA.txt")
    if all(file.is_file() for file in files):
        sources, targets = (file.read_text(encoding="utf-8").split("\n")[:lines] for file in files)
        made["WMT23 en-de, paragraphs"] = (sources, targets)
    return made


def beams(name: str, sources: list[str], targets: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"set": name, "lines": len(sources), "of": "beam of 5"}
    row["several sentences"] = sum(len(split_sentences(source)) > 1 for source in sources)
    first = {}
    for split in (False, True):
        lists = generate(sources, Settings(nbest=1, beam_size=5), split)
        first[split] = [item.texts[0] for item in lists]
        row["split" if split else "whole"] = scores(first[split], targets)
    return row | {"changed": sum(whole != split for whole, split in zip(first[False], first[True], strict=True))}


def choices(name: str, sources: list[str], targets: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"set": name, "lines": len(sources), "of": "choice from 100"}
    row["whole"] = scores(chosen(generate(sources, HUNDRED, False)), targets)
    lists = generate(sources, HUNDRED, True)
    row["combinations"] = scores(chosen(lists), targets)
    sentences = [split_sentences(source) for source in sources]
    single = iter(generate([sentence for line in sentences for sentence in line], HUNDRED, False))
    groups = [[next(single) for _ in line] for line in sentences]
    by_place = [
        CandidateList.of(item.source, join_candidates(listed(group), Settings(method="sample")), origin=item.origin)
        for item, group in zip(lists, groups, strict=True)
    ]
    row["place by place"] = scores(chosen(by_place), targets)
    texts = iter(chosen([item for group in groups for item in group]))
    row["each sentence"] = scores([" ".join(next(texts) for _ in group) for group in groups], targets)
    return row


def generate(sources: Sequence[str], settings: Settings, split: bool) -> list[CandidateList]:
    # One source per batch: in int8 a beam depends a little on the others of its batch, which is not the question here.
    with open_generator(settings, device="cpu", batch_tokens=1, split_sentences=split) as generator:
        return [item for item in generator.generate(sources) if isinstance(item, CandidateList)]


def listed(group: Sequence[CandidateList]) -> list[list[Candidate]]:
    return [list(item.listed()) for item in group]


def chosen(lists: Sequence[CandidateList]) -> list[str]:
    return [decision.text or "" for decision in decode(lists)]


def scores(texts: list[str], targets: list[str]) -> dict[str, float]:
    bleu, chrf = (metric(texts, [targets]) for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf))
    ratio = bleu.sys_len / bleu.ref_len
    return {"BLEU": round(bleu.score, 1), "chrF": round(chrf.score, 1), "length ratio": round(ratio, 2)}


if __name__ == "__main__":
    main()
