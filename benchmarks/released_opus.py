"""MBR with translation models that other people use: released OPUS-MT checkpoints on Multi30k, English-French.

    python -m benchmarks.released_opus --forward helsinki_en_fr --reverse helsinki_fr_en
    python -m benchmarks.released_opus --forward FOLDER --reverse FOLDER --sources 200

Proves how much better than the beam's best the choices from 100-best lists are, with what costs: MBR with chrF and with
embeddings, and the terms `reverse` and `coverage` with weights that `mbr-tune` learns on the validation part. Models
are CTranslate2 folders, transformers folders or hub names; the latter two are converted once. No parallel text of
English and French is at hand beside the sets, so the table of `coverage` is trained on the forward model's own
translations of training captions, of which no reference is used. Sources are the 1,000 sentences of test 2016, which
nothing was fitted on; judged as in `benchmarks.bundled_choice`. CPU seconds of each stage are kept with the table, in
the folder of the work, one for each pair of models; a run that was stopped continues.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
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

from benchmarks.support.choosing import BEAM, Chooser, Table
from benchmarks.support.multi30k import texts
from benchmarks.support.places import WORK
from candidates.backends.convert import convert
from candidates.common.text import atomic_output
from candidates.formats import read_lists, render_list
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from mbr.alignment.training import train, write_table
from mbr.cache.judgements import Cache
from mbr.recipe import Recipe, TermSpec, recipe_yaml
from mbr.tune import tune
from mbr.tune.tuning import Work

BLOCK = 100  # sources whose lists are kept together
PARALLEL = 6000  # captions to train the word-translation table on


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
    forward, reverse = (converted(model, options.work / "models") for model in (options.forward, options.reverse))
    work = options.work / f"{digest_of(forward)}-{digest_of(reverse)}"
    work.mkdir(parents=True, exist_ok=True)
    stages = Stages(work / "seconds.json")
    counts = {"validation": options.development, "test": options.sources}
    made = {
        name: made_lists(forward, name, count, Settings(nbest=100), work, options.threads, stages)
        for name, count in counts.items()
    }
    golden = {name: [[text] for text in texts(name, "fr", counts[name])] for name in counts}
    words = work / "words.npz"
    if not words.exists():
        own = made_lists(forward, "train", PARALLEL, Settings(nbest=1, beam_size=5), work, options.threads, stages)
        with stages.timed("training of the word-translation table"):
            write_table(train((item.source, item.texts[0]) for item in own), words, force=True)
    terms = {
        "logprob": TermSpec("logprob"),
        "length": TermSpec("length"),
        "reverse": TermSpec("reverse", options={"model": str(reverse)}),
        "coverage": TermSpec("coverage", options={"model": str(words)}),
        "coverage-back": TermSpec("coverage-back", options={"model": str(words)}),
        "chrf": TermSpec("chrf"),
    }
    with Chooser(work / "scores.sqlite", options.threads) as chooser:
        rows = compare(made, golden, terms, work, stages, chooser)
    record = {"rows": rows, "cpu seconds": stages.seconds}
    (work / f"test-{len(made['test'])}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def compare(
    made: dict[str, list[CandidateList]],
    golden: dict[str, list[list[str]]],
    terms: dict[str, TermSpec],
    work: Path,
    stages: Stages,
    chooser: Chooser,
) -> list[dict[str, Any]]:
    """The rows of the table: plain MBR, then terms with weights learnt on the validation part."""
    table = Table(made["test"], golden["test"])
    tests = table.lists
    table.row(BEAM, lambda: np.zeros(len(tests), np.int64))
    table.row("chrF-MBR", partial(chooser.choose, tests, Recipe("chrf", weights="uniform")))
    table.row("embedding-MBR", lambda: np.array([int((own @ own.sum(axis=0)).argmax()) for own in table.vectors]))
    for names in (
        ("logprob", "length"),
        ("logprob", "length", "coverage", "coverage-back"),
        ("logprob", "length", "reverse"),
        ("logprob", "length", "reverse", "coverage", "coverage-back", "chrf"),
    ):
        recipe = Recipe("none", terms=tuple(terms[name] for name in names), weights="uniform")
        with stages.timed(f"tuning of {', '.join(names)}"), Cache(work / "judgements.sqlite") as judgements:
            how = Work(runtime={"threads": 1}, scores=work / "tuning.sqlite", judgements=judgements)
            tuned = tune(made["validation"], golden["validation"], recipe, "chrf+embedding", work=how)
        (work / f"{'-'.join(names)}.yaml").write_text(recipe_yaml(tuned.recipe), encoding="utf-8")
        row = table.row(", ".join(names) + ", tuned", partial(chooser.choose, tests, tuned.recipe))
        print(f"  ({1000 * row.seconds / len(tests):.0f} CPU ms per list)", flush=True)
    table.row("oracle of chrF", lambda: np.array([int(a.chrf.argmax()) for a in table.agreements]))
    return [asdict(row) for row in table.rows]


class Stages:
    """CPU seconds of this process in each stage, kept in a file, so that a run that continues has those of all."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - began
        self._file.write_text(json.dumps(self.seconds, indent=1), encoding="utf-8")
        print(f"{stage}: {self.seconds[stage]:.1f} CPU s", file=sys.stderr, flush=True)


def converted(model: str, work: Path) -> Path:
    """The model as a CTranslate2 folder."""
    if Path(model, "model.bin").is_file():
        return Path(model)
    folder = work / re.sub(r"\W+", "-", model).strip("-")
    if not folder.exists():
        convert(model, folder)
    return folder


def digest_of(model: Path) -> str:
    return hashlib.blake2b((model / "model.bin").read_bytes(), digest_size=4).hexdigest()


def made_lists(
    model: Path, name: str, count: int, settings: Settings, work: Path, threads: int, stages: Stages
) -> list[CandidateList]:
    """Candidates for the first sources of a set, made once; a run that was stopped continues with the next block."""
    sources = texts(name, "en", count)
    lists: list[CandidateList] = []
    with ExitStack() as stack:
        generator = None
        for first in range(0, count, BLOCK):
            file = work / f"{name}-{settings.nbest}-{first:04d}-{min(first + BLOCK, count):04d}.jsonl"
            if not file.exists():
                generator = generator or stack.enter_context(
                    open_generator(settings, model=str(model), device="cpu", threads=threads)
                )
                stage = f"{settings.nbest} candidates of {count} sources, {name}"
                with stages.timed(stage), atomic_output(file) as stream:
                    for item in generator.generate(sources[first : first + BLOCK]):
                        if not isinstance(item, CandidateList):
                            raise item.error
                        stream.write(render_list(item, "jsonl", 0))
            lists += [item for item in read_lists(file) if isinstance(item, CandidateList)]
    return lists


if __name__ == "__main__":
    main()
