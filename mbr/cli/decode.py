"""mbr-decode: candidate lists in, the best translation of each out."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.console import Console, Parser, add_message_options
from candidates.errors import UsageError

if TYPE_CHECKING:
    from mbr.decide import Decision
    from mbr.pipeline import Decoder
    from mbr.signature import Signature

QUICK_START = """\
quick start:
  mbr-decode --utility chrf --candidates lists.jsonl
  mbr-decode --utility pear --model FOLDER --candidates lists.jsonl -o best.txt
  mbr-decode --utility pear --candidates nbest.txt --sources source.txt --nbest 100 --format jsonl"""

# Options that go to the utility, if given.
UTILITY_OPTIONS = (
    "model",
    "revision",
    "encoder",
    "cache_dir",
    "offline",
    "device",
    "dtype",
    "backend",
    "compute_type",
    "batch_tokens",
    "threads",
    "tokenize",
)


def parser() -> Parser:
    p = Parser(
        "mbr-decode",
        "Choose the best translation from each candidate list by minimum Bayes risk.",
        QUICK_START,
    )

    g = p.add_argument_group("input")
    g.add_argument("--candidates", metavar="FILE", help="candidate lists; - is standard input, .gz is unpacked")
    g.add_argument("--input-format", choices=("jsonl", "tsv", "lines", "moses"), help="default: by the file's name")
    g.add_argument("--sources", metavar="FILE", help="source sentences, for the formats lines and moses")
    g.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="candidates per source: lines per source (lines), else the first N of each list; default: all",
    )

    g = p.add_argument_group("decision")
    g.add_argument("--utility", default="pear", metavar="NAME", help="what compares candidates; see --list-utilities")
    g.add_argument(
        "--strategy",
        choices=("full", "both", "half", "balanced"),
        help="pairs to score (default: the utility's own)",
    )
    g.add_argument(
        "--weights",
        choices=("count", "uniform", "logprob"),
        default="count",
        help="of a candidate as pseudo-reference",
    )
    g.add_argument(
        "--self",
        dest="self_rule",
        choices=("exclude", "include"),
        default="exclude",
        help="whether a candidate counts as its own pseudo-reference",
    )
    g.add_argument("--seed", type=int, default=1, help="of everything random")

    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; written whole or not at all")
    g.add_argument("--format", choices=("text", "tsv", "jsonl"), default="text", help="of the output")
    g.add_argument("--top", type=int, default=1, metavar="K", help="best K candidates per source")
    g.add_argument("--matrix", metavar="FILE.npz", help="also keep the utility matrices")
    g.add_argument("--force", action="store_true", help="overwrite existing files, forget an interrupted run")
    g.add_argument("--resume", action="store_true", help="go on with an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip", "fallback"),
        default="stop",
        help="a segment that cannot be decided: stop; skip (empty line, error in JSONL); fallback (first candidate)",
    )

    g = p.add_argument_group("utility")
    g.add_argument("--model", help="checkpoint: a folder, a .ckpt file, or a hub name")
    g.add_argument("--revision", help="hub revision of the model")
    g.add_argument("--encoder", metavar="FOLDER", help="configuration and tokenizer of a released checkpoint's encoder")
    g.add_argument("--cache-dir", metavar="FOLDER", help="of downloaded models")
    g.add_argument("--offline", action="store_true", help="use the local cache only")
    g.add_argument("--device", help="auto, cpu, cuda, mps, or several: cuda:0,cuda:1 (default: auto)")
    g.add_argument("--dtype", choices=("float32", "bf16", "fp16"), help="of the encoder (default: float32)")
    g.add_argument("--backend", choices=("torch", "ct2"), help="torch, or CTranslate2 on the CPU (default: torch)")
    g.add_argument("--compute-type", choices=("float32", "int8"), help="of the ct2 back-end (default: int8)")
    g.add_argument("--batch-tokens", type=int, metavar="N", help="padded tokens a batch (default: by device and model)")
    g.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all)")
    g.add_argument("--tokenize", metavar="NAME", help="sacrebleu tokenizer for bleu (default: 13a)")

    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags are stronger")
    g.add_argument("--dry-run", action="store_true", help="print pairs, tokens, time, memory and signature, then stop")
    g.add_argument("--list-utilities", action="store_true", help="print what --utility takes, then stop")
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("mbr-decode", quiet=options.quiet, log_format=options.log_format)
    if options.list_utilities:
        return list_utilities()
    _check(options, console)
    if options.resume and not options.force:
        code = _code_of_finished_run(options, console)
        if code is not None:
            return code
    with ExitStack() as stack:
        decoder = _decoder(options, stack)
        decoder.utility.progress = console.shows_progress
        for note in decoder.utility.notes():
            console.info(note)
        signature = decoder.signature(options.nbest)
        if options.dry_run:
            return _dry_run(decoder, options, signature)
        return _decode(decoder, options, signature, console)


def list_utilities() -> int:
    from candidates.errors import EnvironmentProblem
    from mbr.utilities import utility_class, utility_names

    rows = [("name", "what it is", "can", "needs")]
    for name in utility_names():
        try:
            found = utility_class(name)
        except EnvironmentProblem as exc:
            rows.append((name, "a broken plug-in", "nothing", str(exc)))
            continue
        rows.append((name, found.summary, ", ".join(found.capabilities()), found.needs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _check(options: argparse.Namespace, console: Console) -> None:
    if options.candidates is None:
        raise UsageError("no candidate lists; give --candidates FILE (or - for standard input)")
    if options.output == "" or options.matrix == "":
        raise UsageError("an output file needs a name")
    if options.matrix and options.matrix.endswith(".gz"):
        raise UsageError("an .npz file is compressed already; leave out .gz")
    if options.output and options.matrix and Path(options.output).resolve() == Path(options.matrix).resolve():
        raise UsageError("--output and --matrix name the same file")
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads {options.threads} is not a positive number")
    if options.top < 1:
        raise UsageError(f"--top {options.top} is not a positive number")
    if options.resume and not options.output:
        raise UsageError("--resume needs an output file (-o FILE)")
    if options.nbest == 1:
        console.warn(
            "--nbest 1 keeps one candidate per source, so there is nothing to choose; mbrs's --nbest is --top here"
        )
    if options.candidates == "-" and options.sources == "-":
        raise UsageError("--candidates and --sources cannot both be standard input")


def _code_of_finished_run(options: argparse.Namespace, console: Console) -> int | None:
    """A finished run with the same options, asked to resume, ends as it did; nothing is loaded for it."""
    from candidates.config import finished_with
    from candidates.journal import was_interrupted

    output = Path(options.output)
    if was_interrupted([output, *([Path(options.matrix)] if options.matrix else [])]):
        return None
    failed = finished_with(output, options)
    if failed is None:
        return None
    console.info(f"{output} is complete; nothing to resume")
    return 1 if failed else 0


def _decoder(options: argparse.Namespace, stack: ExitStack) -> Decoder:
    from mbr.cli.records import unfit
    from mbr.pipeline import Decoder
    from mbr.strategies import get_strategy
    from mbr.utilities import get_utility, utility_class

    given = {name: getattr(options, name) for name in UTILITY_OPTIONS if _given(getattr(options, name))}
    kind = utility_class(options.utility)
    strategy = get_strategy(options.strategy or kind.default_strategy)
    strategy.check_fit(kind.name, kind.relation)  # before a model is loaded
    utility = stack.enter_context(get_utility(options.utility, **given))
    return Decoder(
        utility,
        strategy,
        weights=options.weights,
        self_rule=options.self_rule,
        seed=options.seed,
        on_error=options.on_error,
        keep_matrix=options.matrix is not None,
        check=lambda item: unfit(item, options.format),
    )


def _given(value: object) -> bool:
    return value is not None and value is not False


def _records(options: argparse.Namespace) -> Iterator[Any]:
    from candidates.files import read_lists

    return read_lists(options.candidates, format=options.input_format, sources=options.sources, nbest=options.nbest)


def _dry_run(decoder: Decoder, options: argparse.Namespace, signature: Signature) -> int:
    from mbr.estimate import estimate

    print(estimate(decoder, _records(options)))
    print(f"signature   {signature}")
    return 0


def _decode(decoder: Decoder, options: argparse.Namespace, signature: Signature, console: Console) -> int:
    from tqdm import tqdm

    from mbr.cli.records import header, render
    from mbr.cli.sink import Sink

    tally = _Tally()
    with ExitStack() as stack:
        sink = stack.enter_context(Sink(options, signature))
        bar = stack.enter_context(tqdm(unit=" segments", disable=not console.shows_progress, leave=False))
        sink.begin(header(options.format))
        for window in decoder.windows(sink.records(_records(options))):
            lines = b"".join(render(decision, options.format, options.top) for decision in window)
            sink.write(lines, window)
            tally.add(window, console)
            bar.update(len(window))
        sink.finish()
    tally.report(console, signature)
    return 1 if tally.failed or sink.failed_before else 0


class _Tally:
    """What happened, for the closing message."""

    def __init__(self) -> None:
        self.segments = self.passes = self.failed = 0
        self.flags: Counter[str] = Counter()
        self._began = time.monotonic()

    def add(self, window: Sequence[Decision], console: Console) -> None:
        for decision in window:
            self.segments += 1
            self.passes += decision.passes
            self.flags.update(decision.flags)
            if decision.error:
                self.failed += 1
                console.warn(decision.error)

    def report(self, console: Console, signature: Signature) -> None:
        seconds = time.monotonic() - self._began
        flags = "".join(f", {count} {flag}" for flag, count in sorted(self.flags.items()))
        failed = f", {self.failed} failed" if self.failed else ""
        console.info(
            f"{self.segments} segments, {self.passes} pairs scored in {seconds:.1f} s{flags}{failed}",
            segments=self.segments,
            passes=self.passes,
            seconds=round(seconds, 3),
            failed=self.failed,
            flags=dict(self.flags),
        )
        console.info(str(signature))
