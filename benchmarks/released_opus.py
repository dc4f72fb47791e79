"""MBR with translation models that other people use: released OPUS-MT checkpoints on Multi30k, English-French.

    python -m benchmarks.released_opus --forward helsinki_en_fr --reverse helsinki_fr_en
    python -m benchmarks.released_opus --forward FOLDER --reverse FOLDER --sources 200

Proves how much better than the beam's best the choices from 100-best lists are, with what costs: MBR with chrF and with
embeddings, and the terms `reverse` and `coverage` with weights that `mbr-tune` learns on the validation part. Models
are CTranslate2 folders, transformers folders or hub names; the latter two are converted once. No parallel text of
English and French is at hand, so the table of `coverage` is trained on the forward model's own beams of the validation
part. Sources are the 1,000 sentences of test 2016, which nothing was fitted on; judged as in
`benchmarks.bundled_choice`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.support.choosing import Chooser, Table
from benchmarks.support.multi30k import SETS, texts
from benchmarks.support.places import WORK
from candidates.backends.convert import convert
from candidates.common.text import atomic_output
from candidates.formats import read_lists, render_list
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from mbr.alignment.training import train, write_table
from mbr.recipe import Recipe, TermSpec, recipe_yaml
from mbr.tune import tune
from mbr.tune.tuning import Work

BLOCK = 100  # sources whose lists are kept together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--forward", required=True, help="English-French: a folder or a hub name")
    parser.add_argument("--reverse", required=True, help="French-English")
    parser.add_argument("--sources", type=int, default=1000, help="of the test set")
    parser.add_argument("--development", type=int, default=1000, help="sources of the validation set, to tune on")
    parser.add_argument("--work", type=Path, default=WORK / "released_opus")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    forward, reverse = (converted(model, options.work) for model in (options.forward, options.reverse))
    counts = {"validation": options.development, "test": options.sources}
    made = {name: made_lists(forward, name, counts[name], options.work, options.threads) for name in SETS}
    golden = {name: [[text] for text in texts(name, "fr", counts[name])] for name in SETS}
    words = options.work / "words.npz"
    with timed("training of the word-translation table"):
        write_table(train(pairs_of(made["validation"])), words, force=True)
    terms = {
        "logprob": TermSpec("logprob"),
        "length": TermSpec("length"),
        "reverse": TermSpec("reverse", options={"model": str(reverse)}),
        "coverage": TermSpec("coverage", options={"model": str(words)}),
        "coverage-back": TermSpec("coverage-back", options={"model": str(words)}),
        "chrf": TermSpec("chrf"),
    }
    with Chooser(options.work / "scores.sqlite", options.threads) as chooser:
        rows = compare(made, golden, terms, options, chooser)
    (options.work / f"test-{len(made['test'])}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def compare(
    made: dict[str, list[CandidateList]],
    golden: dict[str, list[list[str]]],
    terms: dict[str, TermSpec],
    options: argparse.Namespace,
    chooser: Chooser,
) -> list[dict[str, Any]]:
    """The rows of the table: plain MBR, then terms with weights learnt on the validation part."""
    table = Table(made["test"], golden["test"])
    tests = table.lists
    table.row("the beam's best", lambda: np.zeros(len(tests), np.int64))
    table.row("chrF-MBR", partial(chooser.choose, tests, Recipe("chrf", weights="uniform")))
    table.row("embedding-MBR", lambda: np.array([int((own @ own.sum(axis=0)).argmax()) for own in table.vectors]))
    for names in (
        ("logprob", "length"),
        ("logprob", "length", "coverage", "coverage-back"),
        ("logprob", "length", "reverse"),
        ("logprob", "length", "reverse", "coverage", "coverage-back", "chrf"),
    ):
        recipe = Recipe("none", terms=tuple(terms[name] for name in names), weights="uniform")
        with timed(f"tuning of {', '.join(names)}"):
            work = Work(runtime={"threads": options.threads}, scores=options.work / "scores.sqlite")
            tuned = tune(made["validation"], golden["validation"], recipe, "chrf+embedding", work=work)
        (options.work / f"{'-'.join(names)}.yaml").write_text(recipe_yaml(tuned.recipe), encoding="utf-8")
        row = table.row(", ".join(names) + ", tuned", partial(chooser.choose, tests, tuned.recipe))
        print(f"  ({1000 * row.seconds / len(tests):.0f} CPU ms per list)", flush=True)
    table.row("oracle of chrF", lambda: np.array([int(a.chrf.argmax()) for a in table.agreements]))
    return [asdict(row) for row in table.rows]


def converted(model: str, work: Path) -> Path:
    """The model as a CTranslate2 folder."""
    if Path(model, "model.bin").is_file():
        return Path(model)
    folder = work / Path(model).name
    if not folder.exists():
        convert(model, folder)
    return folder


def made_lists(model: Path, name: str, count: int, work: Path, threads: int) -> list[CandidateList]:
    """100-best lists of the first sources of a set, made once; a run that was stopped continues with the next block."""
    sources = texts(name, "en", count)
    lists: list[CandidateList] = []
    with ExitStack() as stack:
        generator = None
        for first in range(0, count, BLOCK):
            file = work / f"{name}-{first:04d}-{min(first + BLOCK, count):04d}.jsonl"
            if not file.exists():
                settings = Settings(nbest=100)
                generator = generator or stack.enter_context(
                    open_generator(settings, model=str(model), device="cpu", threads=threads)
                )
                with timed(f"beams of 100, {file.stem}"), atomic_output(file) as stream:
                    for item in generator.generate(sources[first : first + BLOCK]):
                        if not isinstance(item, CandidateList):
                            raise item.error
                        stream.write(render_list(item, "jsonl", 0))
            lists += [item for item in read_lists(file) if isinstance(item, CandidateList)]
    return lists


def pairs_of(lists: list[CandidateList]) -> Iterator[tuple[str, str]]:
    """Each source with the best ten of its candidates."""
    for item in lists:
        for text in item.texts[:10]:
            yield item.source, text


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.process_time()
    yield
    print(f"{what}: {time.process_time() - began:.1f} CPU s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
