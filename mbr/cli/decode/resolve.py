"""The options of mbr-decode resolved: what makes no sense is refused, what was left out gets its value.

`check` needs the options alone. `choose_models` comes after it: which PEAR is the default may depend on the first list.
The options then say all there is to say of a run, and are saved beside its output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from candidates.command.console import Console
from candidates.common.errors import UsageError
from candidates.generation import DEFAULT_MODEL
from candidates.options import given_options, method_of, settings_of

# The bundled PEAR is too small to know better than the bundled translator by itself, but it knows other things: this
# weight did best on 150 development lists (docs/bundled-pear.md).
BUNDLED_PRIOR = 6.0


def check(options: argparse.Namespace, console: Console) -> None:
    """Refuse what does not fit together and fill in what needs no look at the input; nothing is read or loaded yet."""
    for name, path in output_files(options).items():
        if path == "":
            raise UsageError(f"--{name} needs the name of a file")
    paths = [Path(path).resolve() for path in output_files(options).values()]
    if len(set(paths)) < len(paths):
        raise UsageError(f"{', '.join(f'--{name}' for name in output_files(options))} name the same file")
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
    _check_prefilter(options)
    _check_resume_model(options)
    _check_ensemble(options)


def _check_ensemble(options: argparse.Namespace) -> None:
    from mbr.utilities import is_ensemble
    from mbr.utilities.ensemble import parse_ensemble

    members = parse_ensemble(options.utility) if is_ensemble(options.utility) else {}
    for given in options.member_model or ():
        name, equals, model = given.partition("=")
        if not (equals and name and model):
            raise UsageError(f"--member-model {given!r}: expected NAME=MODEL")
        if name not in members:
            raise UsageError(f"--member-model {given!r}: {name!r} is no member of --utility {options.utility}")
    named = [given.partition("=")[0] for given in options.member_model or ()]
    if len(set(named)) < len(named):
        raise UsageError("--member-model names a member twice")
    if members and options.add_resume is not None:
        raise UsageError("--add-resume goes with one utility, not with an ensemble")
    if members and options.model is not None:
        raise UsageError("an ensemble has no model of its own; name its members' (--member-model NAME=MODEL)")


def _check_prefilter(options: argparse.Namespace) -> None:
    from mbr.prefilter import parse_prefilter

    if (options.filter is None) != (options.keep is None):
        raise UsageError("--filter and --keep go together: --filter cometkiwi --keep 30")
    if options.filter is not None:
        if options.prefilter is not None:
            raise UsageError("--prefilter NAME:K and --filter NAME --keep K say the same; give one of them")
        options.prefilter = f"{options.filter}:{options.keep}"
        options.filter = options.keep = None
    if options.prefilter is not None:
        parse_prefilter(options.prefilter)
    elif options.prefilter_model is not None:
        raise UsageError("--prefilter-model goes with --prefilter or --filter, which name the utility")


def choose_models(options: argparse.Namespace, records: Iterator[Any] | None) -> Iterator[Any] | None:
    """Fill in the utility's model and the prior that goes with it. Returns all records, the one looked at included."""
    if options.utility == "pear" and options.model is None:
        options.model, records = _default_pear(options, records)
    if options.prior is None:
        options.prior = BUNDLED_PRIOR if _both_bundled(options) else 0.0
    return records


def output_files(options: argparse.Namespace) -> dict[str, str]:
    """The files a run writes, by option."""
    names = ("output", "matrix", "save_candidates")
    return {name.replace("_", "-"): path for name in names if (path := getattr(options, name)) is not None}


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


def _check_resume_model(options: argparse.Namespace) -> None:
    from pear.resume_metric import check_weight

    if options.add_resume is None:
        if options.resume_weight is not None:
            raise UsageError("--resume-weight goes with --add-resume, which names the model")
        return
    if options.resume_weight is None:
        options.resume_weight = 0.2
    check_weight(options.resume_weight)


def _default_pear(options: argparse.Namespace, records: Iterator[Any] | None) -> tuple[str | None, Any]:
    """No name, which is the bundled PEAR, where translator or first list fit its languages; else the released one."""
    from candidates.lists import CandidateList
    from pear.shipped import DEFAULT, fits

    if records is None:
        return (None if options.translator in (None, DEFAULT_MODEL) else "pear"), None
    first = list(islice(records, 1))
    fit = all(fits(DEFAULT, item.source, item.texts) for item in first if isinstance(item, CandidateList))
    return (None if fit else "pear"), chain(first, records)


def _both_bundled(options: argparse.Namespace) -> bool:
    """Whether a beam of the bundled translator is compared by the bundled PEAR."""
    released = options.model is not None or options.revision is not None or options.encoder is not None
    translated = options.candidates is None and options.translator in (None, DEFAULT_MODEL) and _beam(options)
    return translated and options.utility == "pear" and not released


def _beam(options: argparse.Namespace) -> bool:
    return method_of(options) == "beam"
