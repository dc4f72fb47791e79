"""The work of the command `pear`, and `main`, which scripts for pear-mt call.

Files are read strictly and written whole: what pear-mt would guess at (cells that are missing, quotes left open, bytes
that are no UTF-8) is an error here.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from candidates.command.console import Console
from candidates.common.errors import InputError, MbrError, ModelError, UsageError
from candidates.common.text import atomic_output, lines
from candidates.common.words import counted
from pear.commands.options import parser
from pear.inference import load_metric, score_pairwise, score_reference_anchored
from pear.mbr import pear_utility_matrix, select_mbr_hypothesis
from pear.models import MetricModel

ROWS_AT_ONCE = 4096
COLUMNS = {"pairwise": ("src", "mt_0", "mt_1"), "reference": ("src", "mt", "ref")}


def main() -> None:
    """Run the command line in `sys.argv`; returns when it is done, and raises SystemExit when it cannot be."""
    try:
        run(parser(Path(sys.argv[0]).name).parse_args())
    except MbrError as exc:
        raise SystemExit(f"pear: error: {exc}") from exc


def run(options: argparse.Namespace) -> None:
    """Do what the options of `pear.commands.options` ask for."""
    if options.checkpoint is not None and options.hf_model is not None:
        raise UsageError("--checkpoint and --hf-model both name a model. Use only one of them")
    if options.command == "score":
        score(options)
    else:
        mbr(options)


def score(options: argparse.Namespace) -> None:
    """TSV -> the same TSV with the column `pear_score`, or `pear_forward` and `pear_reverse`."""
    output = _output(options, ".pear.tsv")
    table = _table(options.input)
    header = next(table)
    places = [_place(header, name, options.input) for name in COLUMNS[options.mode]]
    compare = score_pairwise if options.mode == "pairwise" else score_reference_anchored
    model = _model(options)
    rows_done = 0
    with atomic_output(output, force=True) as out:
        out.write(_row([*header, *(["pear_forward", "pear_reverse"] if options.both else ["pear_score"])]))
        while block := list(islice(table, ROWS_AT_ONCE)):
            columns = [[cells[place] for cells in block] for place in places]
            scores = compare(
                model,
                *columns,
                mode="both" if options.both else "single",
                batch_size=options.batch_size,
                gpus=options.gpus,
            )
            new = list(zip(*(scores.values() if isinstance(scores, dict) else [scores]), strict=True))
            for number, (cells, values) in enumerate(zip(block, new, strict=True), rows_done + 1):
                _check_finite(values, f"row {number}")
                out.write(_row([*cells, *values]))
            rows_done += len(block)
    if not rows_done:
        Console("pear").warn_of_nothing(options.input, "row below the header")


def mbr(options: argparse.Namespace) -> None:
    """JSONL of `src` and `hypotheses` -> the same with `selected_index`, `selected` and `utility`."""
    output = _output(options, ".pear-mbr.jsonl")
    model: MetricModel | None = None
    with atomic_output(output, force=True) as out:
        for number, line in lines(options.input):
            if not line.strip():
                continue
            record = _record(line, f"{options.input}, line {number}")
            model = model or _model(options)
            matrix = pear_utility_matrix(
                model,
                record["src"],
                record["hypotheses"],
                mode=options.utility,
                batch_size=options.batch_size,
                gpus=options.gpus,
            )
            _check_finite(matrix, f"line {number}")
            index, utility = select_mbr_hypothesis(matrix)
            record |= {"selected_index": index, "selected": record["hypotheses"][index], "utility": utility}
            out.write((json.dumps(record, ensure_ascii=False) + "\n").encode())
    if model is None:
        Console("pear").warn_of_nothing(options.input, "record")


def _output(options: argparse.Namespace, suffix: str) -> Path:
    output: Path = options.output or options.input.with_suffix(suffix)
    if os.path.realpath(output) == os.path.realpath(options.input):
        raise UsageError(f"--output {output} is the input; give another name")
    return output


def _model(options: argparse.Namespace) -> MetricModel:
    model = load_metric(
        options.checkpoint or options.hf_model or options.model,
        cache_dir=options.cache_dir,
        local_files_only=options.local_files_only,
        revision=options.revision,
        encoder_revision=options.encoder_revision,
    )
    model.progress = Console("pear").shows_progress
    return model


def _table(path: Path) -> Iterator[list[str]]:
    """The header, then the cells of each row; cells may be quoted, as pear-mt reads them."""
    reader = csv.reader((f"{line}\n" for _, line in lines(path)), delimiter="\t", strict=True)
    header: list[str] | None = None
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as exc:
            raise InputError(
                f"{path}, line {reader.line_num}: {exc}; a cell with a quotation mark must be quoted, and the mark "
                "doubled. pear-score takes cells literally"
            ) from exc
        if cells is None:
            break
        if header is not None and len(cells) != len(header):
            raise InputError(
                f"{path}, line {reader.line_num}: {counted(len(cells), 'cell')}, but the header has "
                f"{len(header)} columns"
            )
        header = header or cells
        yield cells
    if header is None:
        raise InputError(f"{path}: empty; expected a header such as src<TAB>mt_0<TAB>mt_1")


def _place(header: list[str], name: str, path: Path) -> int:
    if header.count(name) != 1:
        raise InputError(
            f"{path}: the header {header!r:.300} has the column {name!r} {header.count(name)} times; expected it once "
            "(--mode pairwise: src, mt_0, mt_1; --mode reference: src, mt, ref)"
        )
    return header.index(name)


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{where}: not valid JSON: {exc}") from exc
    source, texts = (record.get("src"), record.get("hypotheses")) if isinstance(record, dict) else (None, None)
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in [source, *texts]):
        raise InputError(f'{where}: expected {{"src": TEXT, "hypotheses": [TEXT, ...]}} with one hypothesis or more')
    return dict(record)


def _check_finite(values: Any, where: str) -> None:
    if not np.isfinite(values).all():
        raise ModelError(f"the model returned a score that is not a number for {where}; check the checkpoint")


def _row(cells: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


if __name__ == "__main__":
    from candidates.command.launch import pear

    pear()
