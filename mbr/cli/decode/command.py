"""mbr-decode: source text or candidate lists in, the best translation of each out.

The steps: parse (`arguments.py`), check (`checks.py`), plan the recipe and open the decoder (`mbr.recipe`,
`mbr.opening`), run (`run.py`). This module holds their order, and the options that end a run early.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console
from candidates.common.errors import ResourceError
from candidates.options import generator_of
from mbr.cli.decode.arguments import parser

if TYPE_CHECKING:
    from candidates.generation import Generator
    from mbr.recipe import Recipe


def command(argv: Sequence[str] | None = None) -> int:
    from candidates.command.config import with_config

    p = parser()
    options = p.parse_args(with_config(p, sys.argv[1:] if argv is None else argv))
    from mbr.cli.decode.checks import check  # not needed for --help

    console = Console("mbr-decode", quiet=options.quiet, verbose=options.verbose, log_format=options.log_format)
    if options.list_utilities:
        return _list_utilities()
    check(options, console)
    _planned(options, None).check()  # raises where options do not go together, before anything is read or loaded
    if options.resume and not options.force:
        code = _code_of_finished_run(options, console)
        if code is not None:
            return code
    with ExitStack() as stack:
        generator = stack.enter_context(generator_of(options)) if options.candidates is None else None
        recipe, records, first = _recipe_and_records(options, generator, console)
        if options.print_recipe:
            return _print_recipe(recipe)
        return _run(options, _as_begun(options, recipe), records, first, generator, stack, console)


def _planned(options: argparse.Namespace, origin: Any, lists: Sequence[Any] = ()) -> Recipe:
    """The recipe for lists of this origin; --dtype goes to every model that takes it."""
    from mbr.cli.decode.checks import changes_of
    from mbr.recipe import plan, read_recipe
    from mbr.recipe.plan import with_precision

    base = None if options.recipe is None else read_recipe(options.recipe)
    recipe = plan(changes_of(options), base=base, origin=origin, lists=lists)
    return recipe if options.dtype is None else with_precision(recipe, options.dtype)


def _recipe_and_records(
    options: argparse.Namespace, generator: Generator | None, console: Console
) -> tuple[Recipe, Iterator[Any] | None, Any]:
    """The recipe for the lists, by the generator that will make them or by the first lists of the file.

    Returns the recipe, the records of the file, and the first list in it.
    """
    from mbr.cli.decode.checks import changes_of
    from mbr.recipe import read_recipe
    from mbr.recipe.plan import cautions, looked_at, needs_languages, of_one_origin

    records: Iterator[Any] | None = None
    lists: Sequence[Any] = ()
    if generator is not None:
        origin: Any = generator.origin
        recipe = _planned(options, origin)
    else:
        base = None if options.recipe is None else read_recipe(options.recipe)
        lists, records = looked_at(_read(options), languages=needs_languages(changes_of(options), base))
        origin = lists[0].origin if lists else None
        recipe = _planned(options, origin, lists)
        if options.recipe is None:
            records = of_one_origin(records, origin, console.warn)
    for caution in () if options.print_recipe else cautions(recipe, origin):
        console.warn(caution)
    return recipe, records, lists[0] if lists else None


def _as_begun(options: argparse.Namespace, recipe: Recipe) -> Recipe:
    """The recipe with the precisions that an interrupted run chose, where this one continues it."""
    from candidates.command.journal import recorded_settings
    from mbr.recipe.plan import with_precisions_of
    from mbr.signature import Signature

    begun = recorded_settings(Path(options.output)) if options.resume and not options.force else None
    if begun is None or "signature" not in begun:
        return recipe
    return with_precisions_of(recipe, Signature.parse(begun["signature"]))


def _run(
    options: argparse.Namespace,
    recipe: Recipe,
    records: Iterator[Any] | None,
    first: Any,
    generator: Generator | None,
    stack: ExitStack,
    console: Console,
) -> int:
    from candidates.command.streams import is_typed
    from mbr.cli.decode.cluster import decoder_plan, on_cluster
    from mbr.cli.decode.route import parse_route
    from mbr.cli.decode.run import decode_into_sink

    if options.route is not None:
        parse_route(options.route, [term.name for term in recipe.terms])  # before any model is loaded
    plan_of_decoder = decoder_plan(options, recipe)
    decoder = stack.enter_context(plan_of_decoder.open(first))
    plan_of_decoder = replace(plan_of_decoder, recipe=decoder.recipe)  # workers of a cluster take its precisions
    decoder.show_progress(console.shows_progress and not is_typed(options.candidates or options.sources))
    for note in decoder.notes():
        console.info(note)
    if options.dry_run:
        from mbr.estimate import estimate

        expected = estimate(decoder, records or ())
        if not expected.segments:
            console.warn_of_nothing(options.candidates, "list")
        print(expected)
        print(f"signature   {decoder.signature(options.nbest)}")
        return 0
    if options.explain is not None:
        return _explain(decoder, records, generator, options)
    try:
        with on_cluster(plan_of_decoder, options, console) as cluster:
            return decode_into_sink(decoder, records, generator, options, console, cluster)
    except MemoryError as exc:
        raise ResourceError(f"out of memory; {_memory_advice(decoder.recipe)}") from exc


def _explain(decoder: Any, records: Iterator[Any] | None, generator: Generator | None, options: Any) -> int:
    from candidates.cli import read_sources
    from candidates.command.colour import wants_colour
    from mbr.cli.decode.explain import explained

    lists = records if generator is None else generator.generate(read_sources(options.sources))
    sys.stdout.write(explained(decoder, lists or (), options.explain, options.top, colour=wants_colour(sys.stdout)))
    return 0


def _memory_advice(recipe: Recipe) -> str:
    """What needs less memory with this utility: only models compute in batches of tokens."""
    from mbr.utilities import utility_options

    steps = ["compare fewer candidates (--nbest N, --prefilter chrf:30)"]
    if "batch_tokens" in utility_options(recipe.utility):
        steps += ["use smaller batches (--batch-tokens N)", "use a smaller model"]
    return f"{', '.join(steps)}, or take a larger machine"


def _print_recipe(recipe: Recipe) -> int:
    from mbr.recipe import recipe_yaml

    print(f"# {recipe.signature()}\n{recipe_yaml(recipe)}", end="")
    return 0


def _list_utilities() -> int:
    from candidates.common.errors import EnvironmentProblem
    from mbr.terms import TERMS, Term
    from mbr.utilities import utility_class, utility_names

    rows = [("name", "what it is", "can", "needs")]
    for name in utility_names():
        try:
            kind = utility_class(name)
        except EnvironmentProblem as exc:
            rows.append((name, "a broken plug-in", "nothing", str(exc)))
            continue
        rows.append((name, kind.summary, ", ".join(kind.capabilities()), kind.needs))
    for name in TERMS:
        try:
            term = TERMS.load(name, Term)
        except EnvironmentProblem as exc:
            rows.append((name, "a broken plug-in", "nothing", str(exc)))
            continue
        rows.append((name, term.summary, "term (--add)", term.needs))
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
    """The exit code of a finished run with the same options; None where there is none. No model is loaded."""
    from candidates.command.config import finished_with
    from mbr.cli.decode.checks import output_files

    output, *others = map(Path, output_files(options).values())
    failed = finished_with(output, options, others)
    if failed is None:
        return None
    console.info(f"{output} is complete; nothing to resume")
    return 1 if failed else 0
