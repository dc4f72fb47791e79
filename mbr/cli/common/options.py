"""Options that mbr-evaluate, mbr-metaeval and mbr-compare share."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from candidates.command.console import Console
from candidates.command.model_options import HUB, RUNNING, add_model_options, model_options

if TYPE_CHECKING:
    from mbr.cache.judgements import Cache


def add_judge_model_options(parser: argparse.ArgumentParser, title: str, kept: str = "judgements") -> None:
    """Options of all models that judge; `kept` names what stays in the cache between runs."""
    g = add_model_options(parser, title, (*HUB, *RUNNING))
    g.add_argument("--no-cache", action="store_true", help=f"neither use nor keep {kept} of earlier runs")


def judge_model_options(options: argparse.Namespace) -> dict[str, Any]:
    """Those of them that were given, for `mbr.metrics`."""
    return model_options(options, (*HUB, *RUNNING))


def add_significance_options(group: argparse._ArgumentGroup) -> None:
    """--bootstrap and --trials: how much intervals and tests of scores are sampled."""
    group.add_argument(
        "--bootstrap", type=int, default=1000, metavar="N", help="draws for intervals and the paired bootstrap; 0: none"
    )
    group.add_argument(
        "--trials", type=int, default=10_000, metavar="N", help="trials of the approximate randomisation test; 0: none"
    )


def add_config_option(parser: argparse.ArgumentParser) -> None:
    g = parser.add_argument_group("run")
    g.add_argument("--config", metavar="FILE.yaml", help="options from a file; flags override it")


def open_judgements(options: argparse.Namespace, console: Console, stack: ExitStack) -> Cache | None:
    """The cache of judgements, closed with the stack; None with --no-cache."""
    if options.no_cache:
        return None
    from mbr.cache.judgements import Cache

    return stack.enter_context(Cache(warn=console.warn))
