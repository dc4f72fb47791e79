"""pear-label: translations in, errors that a chat model marks in them out, as JSON lines that pear-train reads."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.command.config import finished_with, save_config, with_config
from candidates.command.console import Console, Parser, add_message_options, going_on
from candidates.common.errors import UsageError

if TYPE_CHECKING:
    from candidates.chat.questions import Chat
    from candidates.chat.template import Template
    from pear.labelling.translations import Translation

QUICK_START = """\
quick start:
  pear-label --server http://localhost:8000/v1 --data da.csv --lp en-de -o labels.jsonl
  pear-label --server http://localhost:8000/v1 --candidates lists.jsonl --lp en-de --calls 5000 -o listed.jsonl

The key of the server is taken from OPENAI_API_KEY. Labels are judgments
like any other: pear-train --data labels.jsonl"""

OPTIONS = ("server_model", "concurrency", "retries", "timeout", "calls", "tokens", "cache", "max_tokens", "body")


def parser() -> Parser:
    p = Parser(
        "pear-label",
        "Mark the errors of translations (MQM) with a model on a chat server that speaks OpenAI's protocol.",
        QUICK_START,
        file_option=lambda name: "--data",
        failed="the requests of some translations failed (--on-error skip)",
    )
    _add_input(p)
    _add_output(p)
    g = p.add_argument_group("server")
    g.add_argument("--server", metavar="ADDRESS", help="base address, such as http://localhost:8000/v1")
    g.add_argument("--server-model", metavar="NAME", help="the model's name on the server (default: its only model)")
    g.add_argument("--concurrency", type=int, default=8, metavar="N", help="requests at once")
    g.add_argument("--retries", type=int, default=5, metavar="N", help="of a request that fails")
    g.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="of a request")
    g.add_argument("--cache", metavar="FILE", help="answers of earlier runs; none for none (default: in ~/.cache)")
    g = p.add_argument_group("budget (of this run; what is in the cache costs nothing)")
    g.add_argument("--calls", type=int, metavar="N", help="send at most N requests, retries included, then stop")
    g.add_argument("--tokens", type=int, metavar="N", help="stop before N tokens are used, prompts included")
    g = p.add_argument_group("question")
    g.add_argument("--prompt", metavar="FILE", help="with {source} and {translation}, see docs/llm.md (default: ours)")
    g.add_argument("--judgments", type=int, default=1, metavar="N", help="of each translation, as if by N raters")
    g.add_argument(
        "--temperature", type=float, metavar="T", help="of the answers (default: 0; with several --judgments 0.7)"
    )
    g.add_argument("--max-tokens", type=int, default=1024, metavar="N", help="of an answer")
    g.add_argument("--body", metavar="JSON", help="more fields of a request; null takes one out")
    g.add_argument("--seed", type=int, default=1, help="of the judgments")
    g = p.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags override it")
    add_message_options(p)
    return p


def _add_input(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("input (one of --data and --candidates)")
    g.add_argument(
        "--data", metavar="FILE", help="translations in a format of pear-train; scores are ignored, and may be missing"
    )
    g.add_argument(
        "--data-format", metavar="NAME", help="csv, mqm, sxs, mt-metrics-eval, da, jsonl, gemba (default: guessed)"
    )
    g.add_argument("--human", help="human scores of an mt-metrics-eval folder, which name its systems (mqm)")
    g.add_argument("--candidates", metavar="FILE", help="candidate lists, as mbr-generate writes them")
    g.add_argument("--input-format", metavar="NAME", help="of the lists: jsonl, tsv, lines, moses, fairseq")
    g.add_argument("--sources", metavar="FILE", help="sources of lists in lines, moses or fairseq")
    g.add_argument("--nbest", type=int, metavar="N", help="lines per source (lines), else the first N of each list")
    g.add_argument("--lp", default="", help="language pair, where the input has none (en-de)")


def _add_output(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("output")
    g.add_argument("-o", "--output", metavar="FILE", help="default: standard output; it appears when complete")
    g.add_argument(
        "--invalid", metavar="FILE", help="answers that could not be read (default: OUTPUT.invalid.jsonl with -o)"
    )
    g.add_argument("--force", action="store_true", help="overwrite existing files, discard an interrupted run")
    g.add_argument("--resume", action="store_true", help="continue an interrupted run (needs -o)")
    g.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="a translation whose requests fail after all retries: stop, or leave it out",
    )


def command(argv: Sequence[str] | None = None) -> int:
    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    console = Console("pear-label", quiet=options.quiet, verbose=options.verbose, log_format=options.log_format)
    _check(options)
    output = Path(options.output) if options.output else None
    invalid = _invalid_path(options)
    if options.resume and not options.force and output is not None:
        failed = finished_with(output, options, [] if invalid is None else [invalid])
        if failed is not None:
            console.info(f"{output} is complete; nothing to resume")
            return 1 if failed else 0
    from candidates.chat.questions import Chat

    template = _template(options)
    temperature = options.temperature if options.temperature is not None else 0.0 if options.judgments == 1 else 0.7
    settings = {name: getattr(options, name) for name in OPTIONS}
    with Chat(options.server, temperature=temperature, **settings) as chat:
        return _label(chat, template, options, output, invalid, console)


def _check(options: argparse.Namespace) -> None:
    from candidates.command.outputs import check_outputs

    if (options.data is None) == (options.candidates is None):
        raise UsageError("nothing to label; give --data FILE or --candidates FILE, one of them")
    if options.server is None:
        raise UsageError("--server is needed: the address of a chat server, such as http://localhost:8000/v1")
    for name in ("input_format", "sources", "nbest") if options.data is not None else ("data_format", "human"):
        if getattr(options, name) is not None:
            other = "--candidates" if options.data is not None else "--data"
            raise UsageError(f"--{name.replace('_', '-')} goes with {other}; leave it out")
    if not 1 <= options.judgments <= 1000:
        raise UsageError(f"--judgments {options.judgments} is out of range; expected a number from 1 to 1000")
    if options.resume and not options.output:
        raise UsageError("--resume needs an output file (-o FILE)")
    invalid = _invalid_path(options)
    check_outputs(
        {"output": options.output, "invalid": None if invalid is None else str(invalid)},
        inputs=[options.data, options.candidates, options.sources, options.prompt],
        config=options.config,
        force=options.force,
        journaled=True,
        resume=options.resume,
    )


def _invalid_path(options: argparse.Namespace) -> Path | None:
    if options.invalid is not None:
        return Path(options.invalid)
    return None if options.output is None else Path(f"{options.output}.invalid.jsonl")


def _template(options: argparse.Namespace) -> Template:
    from candidates.chat.template import Template
    from pear.labelling.labels import NEEDS, PROMPT, TAKES

    return Template.read(options.prompt or PROMPT, NEEDS, TAKES)


def _translations(options: argparse.Namespace) -> Iterator[Translation]:
    from pear.labelling.translations import from_judgments, from_lists

    if options.candidates is None:
        where = {} if options.human is None else {"human": options.human}
        return from_judgments(options.data, options.data_format, options.lp, where)
    from candidates.formats import read_lists

    lists = read_lists(options.candidates, format=options.input_format, sources=options.sources, nbest=options.nbest)
    return from_lists(lists, options.lp)


def _label(
    chat: Chat,
    template: Template,
    options: argparse.Namespace,
    output: Path | None,
    invalid: Path | None,
    console: Console,
) -> int:
    from candidates.command.journal import publish_as_is
    from candidates.command.progress import segment_bar
    from candidates.command.sink import Sink
    from pear.labelling.labels import Labeller

    described = {**chat.described(), "prompt": template.digest, "judgments": options.judgments, "seed": options.seed}
    labeller = Labeller(chat, template, judgments=options.judgments, seed=options.seed, skip=options.on_error == "skip")
    began = time.monotonic()
    failed = 0
    with ExitStack() as stack:
        others = [] if invalid is None else [(invalid, publish_as_is)]
        sink = Sink(output, others, described, resume=options.resume, force=options.force)
        stack.enter_context(going_on(sink.way_on))
        stack.enter_context(sink)
        one_per_line = options.data if (options.data or "").endswith(".jsonl") else None
        bar = stack.enter_context(segment_bar(console, one_per_line, done=sink.done))
        sink.begin(b"", *([b""] * len(others)))
        for labels in labeller.label(sink.remaining(_translations(options))):
            sink.write(labels.lines, [labels.invalid] * len(others), segments=1, failed=labels.failed)
            failed += labels.failed
            bar.update()
        sink.finish(lambda count: save_config(_path(output), options, _signature(described), count))
    if not sink.written:
        console.warn_of_nothing(options.data or options.candidates, "translation")
    _report(chat, labeller.tally, sink.before, time.monotonic() - began, invalid, console)
    console.info(_signature(described))
    return 1 if failed or sink.failed_before else 0


def _report(chat: Chat, tally: Any, before: int, seconds: float, invalid: Path | None, console: Console) -> None:
    from candidates.common.words import counted

    console.info(
        f"{tally} in {seconds:.1f} s" + (f"; {counted(before, 'translation')} done before" if before else ""),
        translations=tally.translations,
        labels=tally.labels,
        without_label=tally.invalid,
        severities=dict(tally.severities),
        seconds=round(seconds, 3),
    )
    console.info(str(chat.usage), **chat.usage.record())
    if chat.usage.invalid:
        where = f"; they are in {invalid}" if invalid is not None else "; --invalid FILE keeps them"
        console.warn(f"{counted(chat.usage.invalid, 'answer')} could not be read{where}")


def _path(output: Path | None) -> Path:
    assert output is not None  # there is a configuration only beside a file
    return output


def _signature(settings: dict[str, object]) -> str:
    from candidates.common.version import __version__

    parts = {**settings, "version": __version__}
    return "|".join(["LABEL", *(f"{name}:{value}" for name, value in parts.items())])
