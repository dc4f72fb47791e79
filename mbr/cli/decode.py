"""mbr-decode: source text or candidate lists in, the best translation of each out."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from candidates.console import Console, Parser, add_message_options
from candidates.errors import InputError, UsageError
from candidates.files import FORMATS
from candidates.options import add_generation_options, generator_of, given_options, method_of, settings_of

if TYPE_CHECKING:
    from candidates.generation import Generator
    from candidates.journal import Publisher
    from candidates.sink import Sink
    from mbr.decide import Decision
    from mbr.pipeline import Decoder
    from mbr.signature import Signature

QUICK_START = """\
quick start:
  echo "Tom told me that he wanted to meet my parents." | mbr-decode --nbest 100
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

# The bundled PEAR is too small to know better than the bundled translator by itself, but it knows other things: this
# weight did best on 150 development lists (docs/bundled-pear.md).
BUNDLED_PRIOR = 6.0

# Of these, the ones that speak of every model there is, and so of RESUME too.
MODEL_OPTIONS = ("cache_dir", "offline", "device", "dtype", "backend", "compute_type", "batch_tokens", "threads")


def parser() -> Parser:
    p = Parser(
        "mbr-decode",
        "Choose the best of many translations by minimum Bayes risk: of each candidate list, or of what a translation "
        "model makes of each line of text.",
        QUICK_START,
    )

    g = p.add_argument_group("input")
    g.add_argument(
        "--candidates", metavar="FILE", help="candidate lists; - is standard input; without it, text is translated"
    )
    g.add_argument("--input-format", choices=FORMATS, help="default: by the file's name")
    g.add_argument(
        "--sources",
        metavar="FILE",
        help="the text to translate (default: standard input); or the sources of lists in lines, moses or fairseq",
    )
    g.add_argument("--logprobs", metavar="FILE", help="a log-probability per line of a lines file, as mbrs writes them")
    g.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="candidates per source: to make of a text (default: 100); lines per source (lines), else the first N of "
        "each list (default: all)",
    )

    g = p.add_argument_group("decision")
    g.add_argument(
        "--utility",
        metavar="NAME",
        help="what compares candidates; see --list-utilities (default: pear)",
    )
    g.add_argument(
        "--strategy",
        choices=("full", "both", "half", "balanced", "halving"),
        help="pairs to score (default: the utility's own)",
    )
    g.add_argument(
        "--budget",
        type=int,
        metavar="PASSES",
        help="pairs to score per list with --strategy halving (default: 10 per candidate)",
    )
    g.add_argument(
        "--prior",
        type=float,
        metavar="W",
        help="add W times the log-probability per word that the candidates come with (default: 0; with both bundled "
        f"models and a beam: {BUNDLED_PRIOR:g})",
    )
    g.add_argument(
        "--weights",
        choices=("count", "uniform", "logprob"),
        help="of a candidate as pseudo-reference (default: uniform for a beam made here, else count)",
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
    g.add_argument("--save-candidates", metavar="FILE", help="also keep the candidate lists made of a text")
    g.add_argument("--force", action="store_true", help="overwrite existing files, forget an interrupted run")
    g.add_argument("--resume", action="store_true", help="go on with an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip", "fallback"),
        default="stop",
        help="a segment that cannot be decided: stop; skip (empty line, error in JSONL); fallback (first candidate)",
    )

    add_generation_options(p, short_names=False)

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
    g.add_argument("--add-resume", metavar="MODEL", help="add RESUME to the utility: a checkpoint of kind resume")
    g.add_argument(
        "--resume-weight",
        type=float,
        metavar="W",
        help="times RESUME, from -1 to 1, is added (default: 0.2, for utilities from 0 to 1; 20 for chrf and bleu)",
    )

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
    records = None if options.candidates is None else _read(options)
    if options.utility == "pear" and options.model is None:
        options.model, records = _default_pear(options, records)
    if options.prior is None:
        options.prior = BUNDLED_PRIOR if _both_bundled(options) else 0.0
    if options.resume and not options.force:
        code = _code_of_finished_run(options, console)
        if code is not None:
            return code
    with ExitStack() as stack:
        decoder = _decoder(options, stack)
        decoder.utility.progress = console.shows_progress
        for note in decoder.utility.notes():
            console.info(note)
        if options.dry_run:
            return _dry_run(decoder, records, options)
        generator = stack.enter_context(generator_of(options)) if records is None else None
        return _decode(decoder, records, generator, options, console)


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
    for name, path in _output_files(options).items():
        if path == "":
            raise UsageError(f"--{name} needs the name of a file")
    paths = [Path(path).resolve() for path in _output_files(options).values()]
    if len(set(paths)) < len(paths):
        raise UsageError(f"{', '.join(f'--{name}' for name in _output_files(options))} name the same file")
    if options.matrix and options.matrix.endswith(".gz"):
        raise UsageError("an .npz file is compressed already; leave out .gz")
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
    if [options.candidates, options.sources, options.logprobs].count("-") > 1:
        raise UsageError("only one of --candidates, --sources and --logprobs can be standard input")
    if options.candidates is None:
        _check_text_in(options, console)
    else:
        given = [*given_options(options), *(["--save-candidates"] if options.save_candidates is not None else [])]
        if given:
            raise UsageError(f"{', '.join(given)} go with text; --candidates holds lists that exist already")
    options.weights = options.weights or ("uniform" if options.candidates is None and _beam(options) else "count")
    options.utility = options.utility or "pear"
    _check_resume_model(options)


def _check_resume_model(options: argparse.Namespace) -> None:
    from pear.resume import check_weight

    if options.add_resume is None:
        if options.resume_weight is not None:
            raise UsageError("--resume-weight goes with --add-resume, which names the model")
        return
    if options.resume_weight is None:
        options.resume_weight = 0.2
    check_weight(options.resume_weight)


def _check_text_in(options: argparse.Namespace, console: Console) -> None:
    for name in ("input_format", "logprobs"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --candidates; text is read line by line")
    if options.save_candidates and not options.save_candidates.removesuffix(".gz").endswith(".jsonl"):
        raise UsageError(
            f"--save-candidates {options.save_candidates}: expected a name that ends in .jsonl, which holds any text; "
            "mbr-generate writes the other formats"
        )
    settings_of(options)  # what makes no sense is said before a model is loaded
    if options.dry_run:
        raise UsageError(
            "--dry-run counts the pairs of lists that exist; make them first (mbr-generate), then give --candidates"
        )
    if options.sources is None:
        options.sources = "-"
        if sys.stdin is not None and sys.stdin.isatty():
            console.info("reading text from the terminal, one sentence a line; Ctrl-D ends it")


def _beam(options: argparse.Namespace) -> bool:
    return method_of(options) == "beam"


def _output_files(options: argparse.Namespace) -> dict[str, str]:
    """The files a run writes, by option."""
    names = ("output", "matrix", "save_candidates")
    return {name.replace("_", "-"): path for name in names if (path := getattr(options, name)) is not None}


def _code_of_finished_run(options: argparse.Namespace, console: Console) -> int | None:
    """A finished run with the same options, asked to resume, ends as it did; nothing is loaded for it."""
    from candidates.config import finished_with

    output, *others = map(Path, _output_files(options).values())
    failed = finished_with(output, options, others)
    if failed is None:
        return None
    console.info(f"{output} is complete; nothing to resume")
    return 1 if failed else 0


def _decoder(options: argparse.Namespace, stack: ExitStack) -> Decoder:
    from mbr.cli.records import unfit
    from mbr.pipeline import Decoder
    from mbr.strategies import get_strategy
    from mbr.utilities import get_utility, utility_class, utility_options
    from mbr.utilities.resume import WithResume

    given = {name: getattr(options, name) for name in UTILITY_OPTIONS if _given(getattr(options, name))}
    for_resume = {name: given[name] for name in MODEL_OPTIONS if name in given}
    kind = utility_class(options.utility)
    # Options that are another model's as well need not be the utility's: with text in, these two are the translator's.
    shared = {"device", "threads"} if options.candidates is None else set()
    called = options.utility
    if options.add_resume is not None:
        shared |= set(for_resume)
        kind, called = WithResume, f"{called}+resume"
    for name in shared - set(utility_options(options.utility)):
        given.pop(name, None)
    strategy = get_strategy(options.strategy or kind.default_strategy, budget=options.budget)
    strategy.check_fit(called, kind.relation)  # before a model is loaded
    utility = stack.enter_context(get_utility(options.utility, **given))
    if options.add_resume is not None:
        utility = WithResume(utility, options.add_resume, options.resume_weight, **for_resume)
        stack.enter_context(utility)
    return Decoder(
        utility,
        strategy,
        weights=options.weights,
        self_rule=options.self_rule,
        seed=options.seed,
        on_error=options.on_error,
        keep_matrix=options.matrix is not None,
        prior=options.prior,
        check=lambda item: unfit(item, options.format),
    )


def _given(value: object) -> bool:
    return value is not None and value is not False


def _read(options: argparse.Namespace) -> Iterator[Any]:
    from candidates.files import read_lists

    return read_lists(
        options.candidates,
        format=options.input_format,
        sources=options.sources,
        nbest=options.nbest,
        logprobs=options.logprobs,
    )


def _default_pear(options: argparse.Namespace, records: Iterator[Any] | None) -> tuple[str | None, Any]:
    """No name, which is the bundled PEAR, where translator or first list fit its languages; else the released one."""
    from itertools import chain, islice

    from candidates.generation import DEFAULT_MODEL
    from candidates.lists import CandidateList
    from pear.shipped import DEFAULT, fits

    if records is None:
        return (None if options.translator in (None, DEFAULT_MODEL) else "pear"), None
    first = list(islice(records, 1))
    fit = all(fits(DEFAULT, item.source, item.texts) for item in first if isinstance(item, CandidateList))
    return (None if fit else "pear"), chain(first, records)


def _both_bundled(options: argparse.Namespace) -> bool:
    """Whether a beam of the bundled translator is compared by the bundled PEAR."""
    from candidates.generation import DEFAULT_MODEL

    released = options.model is not None or options.revision is not None or options.encoder is not None
    translated = options.candidates is None and options.translator in (None, DEFAULT_MODEL) and _beam(options)
    return translated and options.utility == "pear" and not released


def _dry_run(decoder: Decoder, records: Any, options: argparse.Namespace) -> int:
    from mbr.estimate import estimate

    print(estimate(decoder, records))
    print(f"signature   {decoder.signature(options.nbest)}")
    return 0


def _decode(
    decoder: Decoder, lists: Any, generator: Generator | None, options: argparse.Namespace, console: Console
) -> int:
    from tqdm import tqdm

    from candidates.cli import read_sources, show_cut_off, show_notices
    from candidates.config import save_config
    from mbr.cli.records import header, render

    signature = _signature(decoder, generator, options)
    output = Path(options.output) if options.output else None
    files = _Companions(options)
    tally = _Tally()
    with ExitStack() as stack:
        sink = stack.enter_context(_sink(output, files, signature, options))
        bar = stack.enter_context(tqdm(unit=" segments", disable=not console.shows_progress, leave=False))
        sink.begin(header(options.format), *(b"" for _ in files.publishers))
        if generator is None:
            records = sink.remaining(lists)
        else:
            records = generator.generate(sink.checked(read_sources(options.sources)), skip=sink.done)
        for window in decoder.windows(records):
            if generator is not None:
                show_notices(generator, console)
            lines = b"".join(render(decision, options.format, options.top) for decision in window)
            failed = sum(decision.error is not None for decision in window)
            sink.write(lines, files.chunks(window), segments=len(window), failed=failed)
            tally.add(window, console)
            bar.update(len(window))
        sink.finish(lambda count: save_config(cast(Path, output), options, str(signature), count))
    if generator is not None:
        show_cut_off(generator, console)
    tally.report(console, signature)
    return 1 if tally.failed or sink.failed_before else 0


def _signature(decoder: Decoder, generator: Generator | None, options: argparse.Namespace) -> Signature:
    """The decoder's, and everything that made the candidates."""
    from mbr.signature import Signature

    if generator is None:
        return decoder.signature(options.nbest)
    made = generator.described()
    known = dict(decoder.signature(made.pop("nbest")))
    version = known.pop("version")
    return Signature({**known, "translator": made.pop("model"), **made, "version": version})


def _sink(output: Path | None, files: _Companions, signature: Signature, options: argparse.Namespace) -> Sink:
    from candidates.sink import Sink

    settings = {"signature": str(signature), "format": options.format, "top": options.top, "on-error": options.on_error}
    # These change no decision, but perhaps the last digit of a score.
    settings |= {name: getattr(options, name) for name in ("batch_tokens", "device", "threads", "backend")}
    return Sink(output, files.publishers, settings, resume=options.resume, force=options.force)


class _Companions:
    """The files beside the output: matrices, and the candidate lists that were made."""

    def __init__(self, options: argparse.Namespace) -> None:
        from candidates.journal import publish_as_is
        from mbr.matrix import publish_matrices

        self._matrix = options.matrix is not None
        self._lists = options.save_candidates is not None
        self.publishers: list[tuple[Path, Publisher]] = []
        if options.matrix:
            self.publishers.append((Path(options.matrix), publish_matrices))
        if options.save_candidates:
            self.publishers.append((Path(options.save_candidates), publish_as_is))

    def chunks(self, window: Sequence[Decision]) -> list[bytes]:
        """What a window adds to each file."""
        chunks = []
        if self._matrix:
            chunks.append(b"".join(decision.matrix.pack() for decision in window if decision.matrix))
        if self._lists:
            chunks.append(b"".join(_list_of(decision) for decision in window))
        return chunks


def _list_of(decision: Decision) -> bytes:
    """The candidates behind a decision, as JSONL."""
    from candidates.files import BadRecord
    from candidates.writing import render_failure, render_list

    if decision.candidates is not None:
        return render_list(decision.candidates, "jsonl", 0)
    return render_failure(BadRecord(decision.id, InputError(decision.error or ""), decision.source), "jsonl", 0)


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
