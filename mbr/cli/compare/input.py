"""The lists of mbr-compare: from a file, or from a generator, whose lists are kept for later runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from candidates.cli import read_sources
from candidates.command.console import Console
from candidates.common.cache import cache_folder
from candidates.common.errors import InputError, ResourceError, UsageError
from candidates.common.text import shown
from candidates.common.words import agreeing, counted
from candidates.formats import BadRecord, Record, read_lists
from candidates.kept import Kept, keep_lists
from candidates.options import generator_of, given_options, method_of
from mbr.cli.common.texts import read_texts
from mbr.cli.compare.settings import DEFAULT_JUDGES, EMBEDDING, judges_of
from mbr.compare.comparison import First, check_request, usable
from mbr.compare.settings import Setting
from mbr.evaluate.judges import JudgeSpec


@dataclass(frozen=True)
class Input:
    """Lists, sets of references from files (parallel to the lists), the first row, the report's origin, judges."""

    records: list[Record]
    references: list[list[str]] | None
    first: First
    origin: dict[str, Any]
    judges: Sequence[JudgeSpec] = ()


def read_input(
    options: argparse.Namespace,
    settings: Sequence[Setting],
    oracle: str | None,
    stack: ExitStack,
    console: Console,
) -> Input:
    """Read or make the lists. A comparison that cannot be made is refused before lists are made."""

    def check(first: First, *, has_references: bool) -> list[JudgeSpec]:
        judges = _judges(options, console, references=has_references)
        request = {"baseline": options.baseline, "oracle": oracle, "first": first}
        check_request(settings, judges, references=has_references, **request)
        return judges

    references = [read_texts(path).texts for path in options.references] if options.references else None
    if options.candidates is not None:
        lists = _lists(options, references)
        _check_lengths(options, references, len(lists.records), _unusable(options.candidates, lists.records))
        _, sets, _ = usable(lists.records, references)
        return replace(lists, judges=check(lists.first, has_references=bool(sets)))
    for name in ("input_format", "logprobs"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --candidates; text is read line by line")
    sources = list(read_sources(options.sources))
    if not sources:
        raise InputError(f"{options.sources}: no sentence to translate; expected one per line")
    _check_lengths(options, references, len(sources))
    first: First = "beam best" if method_of(options) == "beam" else "most likely"
    judges = check(first, has_references=bool(references))
    return replace(_made(options, sources, references, first, stack, console), judges=judges)


def _judges(options: argparse.Namespace, console: Console, *, references: bool) -> list[JudgeSpec]:
    """The judges, with a note where there are no references for the usual ones."""
    judges = judges_of(options, references=references)
    if not references and not options.judge and options.preset is None:
        used = ", ".join(judge.label for judge in judges)
        if used == EMBEDDING:
            used += ", the similarity of sources and choices, which finds gross errors only"
        console.warn(
            f"no references: {', '.join(DEFAULT_JUDGES)} need them (--references FILE). "
            + (f"The judge is {used}. " if judges else "Only agreement and costs of the settings are compared. ")
            + "Judges that need none: --judge cometkiwi=MODEL, metricx-qe=MODEL or xcomet-qe=MODEL"
        )
    return judges


def _check_lengths(
    options: argparse.Namespace, references: list[list[str]] | None, segments: int, unusable: str = ""
) -> None:
    for path, texts in zip(options.references or (), references or (), strict=True):
        if len(texts) != segments:
            raise InputError(
                f"{path} has {counted(len(texts), 'line')}, but the number of segments is {segments}{unusable}; "
                "expected a line for each"
            )


def _unusable(path: str, records: Sequence[Record]) -> str:
    """The lists that cannot be used, in words; where that is all of them, nothing else is to blame for the trouble."""
    errors = [record.error for record in records if isinstance(record, BadRecord)]
    if not errors:
        return ""
    if len(errors) == len(records):
        raise InputError(f"{shown(path)}: none of {len(records)} candidate lists can be used; the first: {errors[0]}")
    return f" ({len(errors)} of them not usable, the first: {errors[0]})"


def _lists(options: argparse.Namespace, references: list[list[str]] | None) -> Input:
    if generation := given_options(options):
        raise UsageError(f"{agreeing(generation, 'goes', 'go')} with text; --candidates holds lists that exist already")
    records = list(
        read_lists(
            options.candidates,
            format=options.input_format,
            sources=options.sources,
            nbest=options.nbest,
            logprobs=options.logprobs,
        )
    )
    return Input(records, references, "first candidate", {"lists": Path(options.candidates).name})


def _made(
    options: argparse.Namespace,
    sources: Sequence[str],
    references: list[list[str]] | None,
    first: First,
    stack: ExitStack,
    console: Console,
) -> Input:
    def keep(folder: Path) -> Kept:
        return keep_lists(generator, sources, folder, progress=console.shows_progress, warn=console.warn)

    with generator_of(options) as generator:
        temporary = Path(stack.enter_context(TemporaryDirectory()))
        if options.no_cache:
            kept = keep(temporary)
        else:
            try:
                kept = keep(cache_folder() / "lists")
            except (UsageError, ResourceError) as exc:  # no place to write, or another process is writing
                console.warn(f"the candidate lists are not kept: {exc}")
                kept = keep(temporary)
        described = generator.described()
    if kept.reused:
        console.info(f"the {len(sources)} candidate lists of an earlier run are used again")
    if kept.cut_off:
        console.warn(
            f"{counted(kept.cut_off, 'candidate was', 'candidates were')} cut off before the end, at "
            "--max-length or the model's own limit"
        )
    origin = {**described, "cpu_seconds": kept.seconds}
    return Input(list(read_lists(kept.path)), references, first, origin)
