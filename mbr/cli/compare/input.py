"""Where the lists of mbr-compare come from: a file, or a generator that makes them once and keeps them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from candidates.cli import read_sources
from candidates.command.console import Console
from candidates.common.cache import cache_folder
from candidates.common.errors import InputError, ResourceError, UsageError
from candidates.formats import Record, read_lists
from candidates.kept import Kept, keep_lists
from candidates.options import generator_of, given_options, method_of
from mbr.cli.evaluate.systems import read_texts
from mbr.compare.comparison import First, check_request, usable
from mbr.compare.settings import Setting
from mbr.evaluate.judges import JudgeSpec


@dataclass(frozen=True)
class Given:
    """Lists, references (sets, parallel to them) where there are files of them, and what is known of their making."""

    records: list[Record]
    references: list[list[str]] | None
    first: First
    origin: dict[str, Any]


def read_input(
    options: argparse.Namespace,
    settings: Sequence[Setting],
    judges: Sequence[JudgeSpec],
    oracle: str | None,
    stack: ExitStack,
    console: Console,
) -> Given:
    """The lists; before any are made, what would be refused in the end is refused."""
    references = [read_texts(path).texts for path in options.references] if options.references else None
    if options.candidates is not None:
        given = _lists(options, references)
        _check_lengths(options, references, len(given.records))
        _, sets, _ = usable(given.records, references)
        request = {"baseline": options.baseline, "oracle": oracle, "first": given.first}
        check_request(settings, judges, references=bool(sets), **request)
        return given
    for name in ("input_format", "logprobs"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --candidates; text is read line by line")
    sources = list(read_sources(options.sources))
    if not sources:
        raise InputError(f"{options.sources}: no sentence to translate")
    _check_lengths(options, references, len(sources))
    first: First = "beam best" if method_of(options) == "beam" else "most likely"
    request = {"baseline": options.baseline, "oracle": oracle, "first": first}
    check_request(settings, judges, references=bool(references), **request)
    return _made(options, sources, references, first, stack, console)


def _check_lengths(options: argparse.Namespace, references: list[list[str]] | None, segments: int) -> None:
    for path, one in zip(options.references or (), references or (), strict=True):
        if len(one) != segments:
            raise InputError(
                f"{path} has {len(one)} lines, but there are {segments} segments; expected a line for each"
            )


def _lists(options: argparse.Namespace, references: list[list[str]] | None) -> Given:
    if made_of_text := given_options(options):
        raise UsageError(f"{', '.join(made_of_text)} go with text; --candidates holds lists that exist already")
    records = list(
        read_lists(
            options.candidates,
            format=options.input_format,
            sources=options.sources,
            nbest=options.nbest,
            logprobs=options.logprobs,
        )
    )
    return Given(records, references, "first candidate", {"lists": Path(options.candidates).name})


def _made(
    options: argparse.Namespace,
    sources: Sequence[str],
    references: list[list[str]] | None,
    first: First,
    stack: ExitStack,
    console: Console,
) -> Given:
    def keep(folder: Path) -> Kept:
        return keep_lists(generator, sources, folder, progress=console.shows_progress, tell=console.warn)

    with generator_of(options) as generator:
        temporary = Path(stack.enter_context(TemporaryDirectory()))
        if options.no_cache:
            kept = keep(temporary)
        else:
            try:
                kept = keep(cache_folder() / "lists")
            except (UsageError, ResourceError) as exc:  # no place to write, or another process is at it
                console.warn(f"the candidate lists are not kept: {exc}")
                kept = keep(temporary)
        described = generator.described()
    if kept.known:
        console.info(f"the {len(sources)} candidate lists are known from an earlier run")
    if kept.cut_off:
        console.warn(
            f"{kept.cut_off} candidates were cut off before their end, at --max-length or the model's own limit"
        )
    origin = {**described, "cpu_seconds": kept.seconds}
    return Given(list(read_lists(kept.path)), references, first, origin)
