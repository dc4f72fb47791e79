"""Everyday sentences with their references, and candidate lists for them by the bundled translation model, made once.

`parts` assigns sources to their use: the bundled PEAR learned from some, the benchmarks measure on others.

    sources = parts(TATOEBA)["test"][:30]
    items = candidate_lists(WORK / "test-30.jsonl", sources, Settings(nbest=100))
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from candidates.backends.models import BUNDLED
from candidates.common.text import atomic_output
from candidates.formats import read_lists, render_list
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from candidates.training.split import Part, read_pairs

# Of the unseen sources, in an order of their own: lists to develop with, lists to learn from; the rest is held out.
DEVELOPMENT, HONEST = 600, 11_424
TRANSLATOR, REVERSE = BUNDLED / "en-de", BUNDLED / "de-en"


def parts(data: Path) -> dict[str, list[str]]:
    """The sources of each purpose, fixed by the split and the seed of the shuffle."""
    unseen = shuffled(data, "unseen")
    return {
        "development": unseen[:DEVELOPMENT],
        "honest": unseen[DEVELOPMENT : DEVELOPMENT + HONEST],
        "held-out": unseen[DEVELOPMENT + HONEST :],
        "test": shuffled(data, "test"),
    }


def shuffled(data: Path, part: Part) -> list[str]:
    sources = list(references(data, part))
    random.Random(f"lists {part}").shuffle(sources)
    return sources


def references(data: Path, part: Part) -> dict[str, list[str]]:
    """All translations of each source of a part."""
    translations: dict[str, list[str]] = {}
    for source, target in read_pairs(data, part):
        translations.setdefault(source, []).append(target)
    return translations


def candidate_lists(file: Path, sources: list[str], settings: Settings) -> list[CandidateList]:
    """Candidate lists of the bundled translation model, made once; they are kept with its revision."""
    with open_generator(settings, model=TRANSLATOR.name, device="cpu") as generator:
        revised = file.with_suffix(f".{generator.origin.translator.partition('@')[2]}{file.suffix}")
        if not revised.exists():
            with atomic_output(revised) as stream:
                for item in generator.generate(sources):
                    if not isinstance(item, CandidateList):
                        raise item.error
                    stream.write(render_list(item, "jsonl", 0))
    return [item for item in read_lists(revised) if isinstance(item, CandidateList)]


def once(file: Path, make: Callable[[], Iterator[dict[str, Any]]]) -> str:
    """Write rows to a file unless it exists; it appears whole or not at all."""
    if not file.exists():
        with atomic_output(file) as stream:
            for row in make():
                stream.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
    return str(file)


def read(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
