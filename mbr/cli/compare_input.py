"""Where the lists of mbr-compare come from: a file, or a generator that makes them once and keeps them."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from candidates.cache import cache_folder
from candidates.cli import read_sources, show_cut_off
from candidates.console import Console
from candidates.errors import InputError, UsageError
from candidates.files import Record, read_lists
from candidates.generation import DEFAULT_MODEL
from candidates.kept import keep_lists
from candidates.lists import CandidateList
from candidates.options import generator_of, given_options, method_of
from mbr.cli.systems import read_texts

First = Literal["first candidate", "beam best", "most likely"]


@dataclass(frozen=True)
class Given:
    """Lists, references (sets, parallel to them) where there are files of them, and what is known of their making."""

    records: list[Record]
    references: list[list[str]] | None
    first: First
    origin: dict[str, Any]
    beam: bool = False
    by_bundled_beam: bool = False

    @property
    def bundled_pear_fits(self) -> bool:
        from pear.shipped import DEFAULT, fits

        first = next((record for record in self.records if isinstance(record, CandidateList)), None)
        return first is None or fits(DEFAULT, first.source, first.texts)


def read_input(options: argparse.Namespace, stack: ExitStack, console: Console) -> Given:
    references = [read_texts(path).texts for path in options.references] if options.references else None
    given = _lists(options) if options.candidates is not None else _made(options, stack, console)
    for number, one in enumerate(references or (), 1):
        if len(one) != len(given.records):
            raise InputError(
                f"{options.references[number - 1]} has {len(one)} lines, but there are {len(given.records)} segments; "
                "expected one reference a line for each"
            )
    return Given(**{**vars(given), "references": references})


def _lists(options: argparse.Namespace) -> Given:
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
    return Given(records, None, "first candidate", {"lists": Path(options.candidates).name})


def _made(options: argparse.Namespace, stack: ExitStack, console: Console) -> Given:
    for name in ("input_format", "logprobs"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --candidates; text is read line by line")
    sources = list(read_sources(options.sources))
    if not sources:
        raise InputError(f"{options.sources}: no sentence to translate")
    folder = Path(stack.enter_context(TemporaryDirectory())) if options.no_cache else cache_folder() / "lists"
    with generator_of(options) as generator:
        kept = keep_lists(generator, sources, folder, progress=console.shows_progress, tell=console.warn)
        show_cut_off(generator, console)
        described = generator.described()
    if kept.known:
        console.info(f"the {len(sources)} candidate lists are known from an earlier run")
    beam = method_of(options) == "beam"
    return Given(
        records=list(read_lists(kept.path)),
        references=None,
        first="beam best" if beam else "most likely",
        origin={**described, "cpu_seconds": kept.seconds},
        beam=beam,
        by_bundled_beam=beam and options.translator in (None, DEFAULT_MODEL),
    )
