"""Candidate lists that are made once: kept in a folder, by generator and sources.

    with open_generator(Settings(nbest=100)) as generator:
        kept = keep_lists(generator, ["A dog runs."], cache_folder() / "lists")
    lists = read_lists(kept.path)

A killed run continues; the file appears when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.command.sink import Sink
from candidates.common.text import atomic_output, disk_errors
from candidates.formats import BadRecord, render_failure, render_list
from candidates.generation import Generator

MOST_NOTICES = 20  # kept


@dataclass(frozen=True)
class Kept:
    """A file of lists in JSONL, whether it existed already, and the CPU seconds it took; None where unknown."""

    path: Path
    known: bool
    seconds: float | None
    cut_off: int = 0  # candidates that reached the length limit before their end; 0 where unknown


def keep_lists(
    generator: Generator,
    sources: Sequence[str],
    folder: Path,
    *,
    progress: bool = False,
    tell: Callable[[str], None] = lambda message: None,
) -> Kept:
    """The lists that the generator makes of the sources. `tell` receives its notices."""
    from tqdm import tqdm

    described = generator.described()
    path = folder / f"{_digest(described, sources)}.jsonl"
    about = path.with_suffix(".json")
    if path.is_file():
        facts = _read(about)
        for notice in facts.get("notices", ()):
            tell(notice)
        return Kept(path, True, facts.get("cpu_seconds"), facts.get("cut_off", 0))
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    began, notices = time.process_time(), list[str]()
    with Sink(path, [], described, resume=True, force=False) as sink:
        sink.begin(b"")
        resumed = sink.done > 0
        bar = tqdm(total=len(sources), initial=sink.done, unit=" lists", desc="candidates", disable=not progress)
        with bar:
            for index, record in enumerate(generator.generate(sink.checked(sources), skip=sink.done), sink.done):
                while generator.notices:
                    notices.append(generator.notices.popleft())
                    tell(notices[-1])
                if isinstance(record, BadRecord):
                    sink.write(render_failure(record, "jsonl", 0), [], segments=1, failed=1)
                else:
                    sink.write(render_list(record, "jsonl", index), [], segments=1, failed=0)
                bar.update()
        seconds = None if resumed else time.process_time() - began

        def save_facts(failed: int) -> None:
            with atomic_output(about, force=True) as stream:
                facts = {"cpu_seconds": seconds, "cut_off": generator.cut_off, "notices": notices[:MOST_NOTICES]}
                stream.write(json.dumps({**described, **facts}).encode() + b"\n")

        sink.finish(save_facts)
    return Kept(path, False, seconds, generator.cut_off)


def _digest(described: dict[str, Any], sources: Sequence[str]) -> str:
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
    for source in sources:
        raw = source.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _read(about: Path) -> dict[str, Any]:
    """The facts stored beside the lists; none where that file is gone."""
    try:
        facts: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts
