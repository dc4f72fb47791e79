"""Candidate lists that are made once: kept in a folder, by what made them and of which sources.

    with open_generator(Settings(nbest=100)) as generator:
        kept = keep_lists(generator, ["A dog runs."], cache_folder() / "lists")
    lists = read_lists(kept.path)

A run that is killed goes on where it was; the file appears when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.files import BadRecord
from candidates.generation import Generator
from candidates.sink import Sink
from candidates.text import atomic_output, disk_errors
from candidates.writing import render_failure, render_list


@dataclass(frozen=True)
class Kept:
    """A file of lists in JSONL, whether it was there already, and the CPU seconds it took, where they are known."""

    path: Path
    known: bool
    seconds: float | None


def keep_lists(
    generator: Generator,
    sources: Sequence[str],
    folder: Path,
    *,
    progress: bool = False,
    tell: Callable[[str], None] = lambda message: None,
) -> Kept:
    """The lists that the generator makes of the sources. `tell` hears its notices."""
    from tqdm import tqdm

    described = generator.described()
    path = folder / f"{_digest(described, sources)}.jsonl"
    about = path.with_suffix(".json")
    if path.is_file():
        return Kept(path, True, _seconds(about))
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    with Sink(path, [], described, resume=True, force=False) as sink:
        sink.begin(b"")
        resumed = sink.done > 0
        bar = tqdm(total=len(sources), initial=sink.done, unit=" lists", desc="candidates", disable=not progress)
        with bar:
            for index, record in enumerate(generator.generate(sink.checked(sources), skip=sink.done), sink.done):
                while generator.notices:
                    tell(generator.notices.popleft())
                if isinstance(record, BadRecord):
                    sink.write(render_failure(record, "jsonl", 0), [], segments=1, failed=1)
                else:
                    sink.write(render_list(record, "jsonl", index), [], segments=1, failed=0)
                bar.update()
        seconds = None if resumed else time.process_time() - began

        def note_down(failed: int) -> None:
            with atomic_output(about, force=True) as stream:
                stream.write(json.dumps({**described, "cpu_seconds": seconds}).encode() + b"\n")

        sink.finish(note_down)
    return Kept(path, False, seconds)


def _digest(described: dict[str, Any], sources: Sequence[str]) -> str:
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
    for source in sources:
        raw = source.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _seconds(about: Path) -> float | None:
    try:
        found = json.loads(about.read_text(encoding="utf-8")).get("cpu_seconds")
    except (OSError, ValueError, AttributeError):
        return None
    return float(found) if isinstance(found, (int, float)) else None
