"""pear-score: a TSV of sources and translations in, the same TSV with the scores of PEAR, or of its relatives, out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.model_options import add_model_options
from candidates.command.numbers import check_numbers
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.common.words import counted
from pear.cli.model import kind_of, open_engine
from pear.shipped import DEFAULT, LISTS, NOTE, RELEASED, Languages, shipped_models

if TYPE_CHECKING:
    from pear.engine import Engine

QUICK_START = """\
quick start:
  pear-score pairs.tsv --model en-de -o scored.tsv  # columns src, mt_0, mt_1: is mt_0 better than mt_1?
  pear-score refs.tsv --model en-de --both          # columns src, mt, ref: mt against its reference
  pear-score outputs.tsv --model en-de --systems A B C --anchor ref  # several systems: means per system
  pear-score refs.tsv --model my-resume             # columns src, ref, mt: is mt better than its reference?
  pear-score refs.tsv --model my-single             # columns src, mt: the quality of mt on its own
  pear-score pairs.tsv --model pear                 # the released PEAR: downloads 2.3 GB

A positive score means the first translation is better. Without --model, rows that look like the language pair of a
bundled PEAR (en-de) are scored by it, others by the released one (--model pear, from the hub). Cells are taken
literally: no quoting, no escapes."""

ROWS_AT_ONCE = 4096

# Columns that models of other kinds are shown, in the order of their texts; "" is an empty text.
COLUMNS = {
    "single": ("src", "mt"),
    "sentinel-cand": ("", "mt"),
    "sentinel-src": ("", "src"),
    "sentinel-ref": ("", "ref"),
    "resume": ("src", "ref", "mt"),
}


@dataclass(frozen=True)
class Comparison:
    """The columns whose texts make a row of the model (None: an empty text), and what the new column is called."""

    system: str
    texts: tuple[int | None, ...]
    column: str

    def row(self, cells: list[str]) -> tuple[str, ...]:
        return tuple("" if place is None else cells[place] for place in self.texts)


def parser() -> Parser:
    p = Parser("pear-score", "Score translations with PEAR, or with a model of another kind.", QUICK_START)
    g = p.add_argument_group("input and output")
    g.add_argument("input", nargs="?", default="-", help="TSV with a header; - is standard input, .gz is unpacked")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--force", action="store_true", help="overwrite an existing file")
    g = p.add_argument_group("what to compare")
    g.add_argument("--both", action="store_true", help="score both orders and combine them: half their difference")
    g.add_argument("--systems", nargs="+", metavar="COLUMN", help="columns of systems to score against the anchor")
    g.add_argument("--anchor", metavar="COLUMN", help="column the systems are compared with (default: ref)")
    g.add_argument("--means", action="store_true", help="print only the mean score per system")
    add_model_options(p, "model")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.outputs import check_outputs, input_models
    from candidates.common.text import atomic_output, lines

    options = parser().parse_args(argv)
    console = Console("pear-score", quiet=options.quiet, log_format=options.log_format)
    check_numbers(options, positive=("batch_tokens",), not_negative=("threads",))
    inputs = [options.input, *input_models(options.model, options.encoder)]
    check_outputs({"output": options.output}, inputs=inputs, force=options.force)
    rows = lines(options.input)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{options.input}: empty; expected a header such as src<TAB>mt_0<TAB>mt_1")
    header = first[1].split("\t")
    kind = "pear" if options.model is None else kind_of(options)
    comparisons = _comparisons(header, options) if kind == "pear" else _others(header, options, kind)
    added_names = _new_columns(comparisons, options)
    for name in added_names:
        if name in header or added_names.count(name) > 1:
            raise UsageError(f"the column {name!r} would stand twice in the output; rename it or name each system once")
    table = _cells(rows, header, options.input)
    if options.model is None:
        options.model, table = _model_for(table, comparisons, options)
    if options.model in shipped_models():
        console.info(NOTE)
    totals = [0.0] * len(comparisons)
    segments = 0
    with ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        if options.output:
            out = stack.enter_context(atomic_output(options.output, force=options.force))
        engine = stack.enter_context(open_engine(options, console, kind))
        if not options.means:
            _write(out, [*header, *added_names])
        while block := list(islice(table, ROWS_AT_ONCE)):
            added: list[list[float]] = [[] for _ in block]
            for k, comparison in enumerate(comparisons):
                forward, reverse = _score(engine, block, comparison, options.both, segments, console)
                for row, (f, r) in enumerate(zip(forward, reverse, strict=True)):
                    combined = (f - r) / 2 if options.both else f
                    totals[k] += combined
                    added[row] += [f, r, combined] if options.both and not options.systems else [combined]
            segments += len(block)
            if not options.means:
                for cells, scores in zip(block, added, strict=True):
                    _write(out, [*cells, *(f"{score:.6f}" for score in scores)])
        means = _means(comparisons, totals, segments)
        if options.means:
            _write(out, ["system", "mean", "segments"])
            for system, mean in means:
                _write(out, [system, f"{mean:.6f}", str(segments)])
    if not segments:
        console.warn_of_nothing(options.input, "row below the header")
    for system, mean in means:
        console.info(
            f"mean {mean:+.4f}  {system}  ({counted(segments, 'segment')})", system=system, mean=mean, segments=segments
        )
    return 0


def _model_for(
    table: Iterator[list[str]], comparisons: list[Comparison], options: argparse.Namespace
) -> tuple[str, Iterator[list[str]]]:
    """The PEAR that the languages of the first rows call for; and all the rows."""
    if options.revision is not None or options.encoder is not None:
        return RELEASED, table
    languages = Languages()
    start: list[list[str]] = []
    for cells in islice(table, LISTS):
        start.append(cells)
        sources, *sides = zip(*(comparison.row(cells) for comparison in comparisons), strict=True)
        languages.add(sources[0], dict.fromkeys(text for side in sides for text in side))
        if languages.suffice:
            break
    return languages.model() if start else DEFAULT, chain(start, table)


def _comparisons(header: list[str], options: argparse.Namespace) -> list[Comparison]:
    def compared(name: str, first: str, second: str, new: str) -> Comparison:
        places = [_column(header, column, options.input) for column in (first, second, "src")]
        return Comparison(name, (places[2], places[0], places[1]), new)

    if options.systems:
        return [compared(name, name, options.anchor or "ref", f"pear_{name}") for name in options.systems]
    if options.anchor:
        raise UsageError("--anchor goes with --systems, which names the columns to compare with it")
    if "mt_0" in header or "mt_1" in header:
        return [compared("mt_0 against mt_1", "mt_0", "mt_1", "pear_score")]
    if "mt" in header:
        return [compared("mt against ref", "mt", "ref", "pear_score")]
    raise InputError(
        f"{options.input}: the header {header} has neither mt_0 and mt_1 nor mt and ref; name the columns with "
        "--systems and --anchor"
    )


def _others(header: list[str], options: argparse.Namespace, kind: str) -> list[Comparison]:
    """What a model of another kind than PEAR scores: one score per row and system."""
    if kind not in COLUMNS:
        raise ModelError(
            f"{options.model} is a model of kind {kind!r}, which pear-score does not know; update mbr-decode"
        )
    columns = COLUMNS[kind]
    wants = f"{options.model} is a model of kind {kind}, which wants {', '.join(filter(None, columns))}"
    if options.both:
        raise UsageError(f"--both goes with PEAR; {wants} in one order")
    if options.systems and "mt" not in columns:
        raise UsageError(f"--systems goes with models that read translations; {wants}")
    if options.anchor and not (options.systems and kind == "resume"):
        raise UsageError(f"--anchor goes with --systems, and with models that compare; {wants}")

    def shown(system: str, new: str) -> Comparison:
        actual = {"mt": system, "ref": options.anchor or "ref"}
        names = [actual.get(name, name) for name in columns]
        places = tuple(_column(header, name, options.input, wants) if name else None for name in names)
        return Comparison(f"{system} against {names[1]}" if kind == "resume" else names[-1], places, new)

    prefix = kind.split("-")[0]
    if options.systems:
        return [shown(name, f"{prefix}_{name}") for name in options.systems]
    return [shown("mt", f"{prefix}_score")]


def _new_columns(comparisons: list[Comparison], options: argparse.Namespace) -> list[str]:
    if options.both and not options.systems:
        return ["pear_forward", "pear_reverse", "pear_score"]
    return [comparison.column for comparison in comparisons]


def _cells(rows: Iterator[tuple[int, str]], header: list[str], path: str) -> Iterator[list[str]]:
    for number, row in rows:
        cells = row.split("\t")
        if len(cells) != len(header):
            raise InputError(
                f"{path}, line {number}: {counted(len(cells), 'cell')}, but the header has {len(header)} columns"
            )
        yield cells


def _score(
    engine: Engine,
    block: list[list[str]],
    comparison: Comparison,
    both: bool,
    first_row: int,
    console: Console,
) -> tuple[list[float], list[float]]:
    """Scores in the order asked, and (with both) in the swapped order, else zeros."""
    import numpy as np

    forward = [comparison.row(cells) for cells in block]
    reverse: list[tuple[str, ...]] = [(s, b, a) for s, a, b in forward] if both else []
    scores = engine.score(forward + reverse, progress=console.shows_progress)
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0]) % len(block)
        raise ModelError(f"the model returned a score that is not a number for row {first_row + row + 1}")
    values = scores.tolist()
    return values[: len(block)], values[len(block) :] or [0.0] * len(block)


def _means(comparisons: list[Comparison], totals: list[float], segments: int) -> list[tuple[str, float]]:
    """Best system first."""
    if not segments:
        return []
    means = [(c.system, total / segments) for c, total in zip(comparisons, totals, strict=True)]
    return sorted(means, key=lambda item: -item[1])


def _column(header: list[str], name: str, path: str, wants: str = "") -> int:
    if header.count(name) > 1:
        raise InputError(f"{path}: the header has the column {name!r} twice")
    if name not in header:
        raise UsageError(f"{path}: no column {name!r}; the header has {header!r:.300}{wants and '; ' + wants}")
    return header.index(name)


def _write(out: IO[bytes], cells: list[str]) -> None:
    out.write(("\t".join(cells) + "\n").encode())
