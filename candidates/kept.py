"""Candidate lists that are generated once: kept in a folder, by generator, settings and sources.

    with open_generator(Settings(nbest=100)) as generator:
        kept = keep_lists(generator, ["A dog runs."], cache_folder() / "lists")
    lists = read_lists(kept.path)

A run that was killed is resumed; the file appears when it is complete. A file beside it holds a checksum: lists that
were damaged since are generated again, and so are those of an interrupted run whose progress cannot be read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.command.journal import partial_path, progress_path
from candidates.command.sink import Sink
from candidates.common.errors import InputError
from candidates.common.text import atomic_output, disk_errors
from candidates.formats import BadRecord, render_failure, render_list
from candidates.generation import Generator

MOST_NOTICES = 20  # kept with the lists


@dataclass(frozen=True)
class Kept:
    """A file of candidate lists in JSONL.

    `reused`: whether an earlier run made it. `seconds`: CPU seconds of generation; None for a run that was resumed.
    `cut_off`: candidates that reached the length limit before their end.
    """

    path: Path
    reused: bool
    seconds: float | None
    cut_off: int = 0


def keep_lists(
    generator: Generator,
    sources: Sequence[str],
    folder: Path,
    *,
    progress: bool = False,
    warn: Callable[[str], None] = lambda message: None,
) -> Kept:
    """The lists that the generator makes of the sources; `warn` receives the generator's notices."""
    path = folder / f"{_digest(generator.described(), sources)}.jsonl"
    if path.is_file():
        description = _read(path.with_suffix(".json"))
        if description.get("checksum") == _checksum(path):
            for notice in description["notices"]:
                warn(notice)
            return Kept(path, True, description["cpu_seconds"], description["cut_off"])
        warn(f"{path}: the kept candidate lists are damaged; they are generated again")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if progress_path(path).exists():
        try:
            return _generate(generator, sources, path, progress=progress, warn=warn, resume=True)
        except InputError as exc:
            warn(f"an interrupted run cannot be continued, so its candidate lists are generated again: {exc}")
    return _generate(generator, sources, path, progress=progress, warn=warn, resume=False)


def _generate(
    generator: Generator,
    sources: Sequence[str],
    path: Path,
    *,
    progress: bool,
    warn: Callable[[str], None],
    resume: bool,
) -> Kept:
    from tqdm import tqdm

    described, about = generator.described(), path.with_suffix(".json")
    began, notices = time.process_time(), list[str]()
    with Sink(path, [], described, resume=resume, force=not resume) as sink:
        sink.begin(b"")
        resumed = sink.done > 0
        bar = tqdm(total=len(sources), initial=sink.done, unit=" lists", desc="candidates", disable=not progress)
        with bar:
            for index, record in enumerate(generator.generate(sink.checked(sources), skip=sink.done), sink.done):
                while generator.notices:
                    notices.append(generator.notices.popleft())
                    warn(notices[-1])
                if isinstance(record, BadRecord):
                    sink.write(render_failure(record, "jsonl", 0), [], segments=1, failed=1)
                else:
                    sink.write(render_list(record, "jsonl", index), [], segments=1, failed=0)
                bar.update()
        seconds = None if resumed else time.process_time() - began

        def describe(failed: int) -> None:
            run = {
                "cpu_seconds": seconds,
                "cut_off": generator.cut_off,
                "notices": notices[:MOST_NOTICES],
                "checksum": _checksum(partial_path(path)),
            }
            with atomic_output(about, force=True) as stream:
                stream.write(json.dumps({**described, **run}).encode() + b"\n")

        sink.finish(describe)
    return Kept(path, False, seconds, generator.cut_off)


def _digest(described: dict[str, Any], sources: Sequence[str]) -> str:
    digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
    for source in sources:
        raw = source.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def _read(about: Path) -> dict[str, Any]:
    """The description beside the lists; empty if that file is gone or damaged."""
    try:
        description = json.loads(about.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    whole = isinstance(description, dict) and {"notices", "cpu_seconds", "cut_off", "checksum"} <= description.keys()
    return description if whole else {}
