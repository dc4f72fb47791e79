"""mbr-decode: source text or candidate lists in, the best translation of each out.

The steps are modules of their own: parse (`arguments.py`), resolve (`resolve.py`), build the decoder (`build.py`), run
(`run.py`). Here is what happens in which order, and the ways to end early.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console
from candidates.options import generator_of
from mbr.cli.decode.arguments import parser
from mbr.cli.decode.resolve import check, choose_models, output_files

if TYPE_CHECKING:
    from mbr.pipeline import Decoder


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-decode", quiet=options.quiet, log_format=options.log_format)
    if options.list_utilities:
        return _list_utilities()
    check(options, console)
    records = choose_models(options, None if options.candidates is None else _read(options))
    if options.resume and not options.force:
        code = _code_of_finished_run(options, console)
        if code is not None:
            return code
    return _run(options, records, console)


def _run(options: argparse.Namespace, records: Iterator[Any] | None, console: Console) -> int:
    from mbr.cli.decode.build import build_decoder
    from mbr.cli.decode.run import decode_into_sink

    with ExitStack() as stack:
        decoder = build_decoder(options, stack)
        decoder.utility.progress = console.shows_progress
        first_stage = decoder.prefilter.notes if decoder.prefilter else ()
        for note in (*first_stage, *decoder.utility.notes()):
            console.info(note)
        if options.dry_run:
            return _dry_run(decoder, records, options)
        generator = stack.enter_context(generator_of(options)) if records is None else None
        return decode_into_sink(decoder, records, generator, options, console)


def _list_utilities() -> int:
    from candidates.common.errors import EnvironmentProblem
    from mbr.utilities import utility_class, utility_names

    rows = [("name", "what it is", "can", "needs")]
    for name in utility_names():
        try:
            found = utility_class(name)
        except EnvironmentProblem as exc:
            rows.append((name, "a broken plug-in", "nothing", str(exc)))
            continue
        rows.append((name, found.summary, ", ".join(found.capabilities()), found.needs))
    rows.append(("A:1+B:2", "weighted sum of standardised utilities", "ensemble", "what its members need"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _read(options: argparse.Namespace) -> Iterator[Any]:
    from candidates.formats import read_lists

    return read_lists(
        options.candidates,
        format=options.input_format,
        sources=options.sources,
        nbest=options.nbest,
        logprobs=options.logprobs,
    )


def _code_of_finished_run(options: argparse.Namespace, console: Console) -> int | None:
    """A finished run with the same options, asked to resume, ends as it did; nothing is loaded for it."""
    from candidates.command.config import finished_with

    output, *others = map(Path, output_files(options).values())
    failed = finished_with(output, options, others)
    if failed is None:
        return None
    console.info(f"{output} is complete; nothing to resume")
    return 1 if failed else 0


def _dry_run(decoder: Decoder, records: Any, options: argparse.Namespace) -> int:
    from mbr.estimate import estimate

    print(estimate(decoder, records))
    print(f"signature   {decoder.signature(options.nbest)}")
    return 0
