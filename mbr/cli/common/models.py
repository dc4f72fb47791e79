"""Options of models that judge, the same in mbr-evaluate, mbr-metaeval and mbr-compare; and lists of options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from candidates.common.errors import UsageError

MODEL_OPTIONS = ("cache_dir", "device", "dtype", "batch_tokens", "threads")


def add_model_options(parser: argparse.ArgumentParser, title: str, keeps: str = "judgements") -> None:
    g = parser.add_argument_group(title)
    g.add_argument("--cache-dir", metavar="FOLDER", help="of downloaded models")
    g.add_argument("--offline", action="store_true", help="use the local cache only")
    g.add_argument("--device", help="auto, cpu, cuda, mps, or several: cuda:0,cuda:1 (default: auto)")
    g.add_argument("--dtype", choices=("float32", "bf16", "fp16"), help="of the encoder (default: float32)")
    g.add_argument("--batch-tokens", type=int, metavar="N", help="padded tokens a batch (default: by device and model)")
    g.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all)")
    g.add_argument("--no-cache", action="store_true", help=f"neither use nor keep {keeps} of earlier runs")


def model_options(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of them, for `mbr.metrics`."""
    given = {name: value for name in MODEL_OPTIONS if (value := getattr(options, name)) is not None}
    return {**given, "offline": options.offline}


def check_numbers(options: argparse.Namespace, *, from_zero: Sequence[str], positive: Sequence[str]) -> None:
    """Refuse negative numbers, and zero where it means nothing; None stands for what was not given."""
    for name in (*from_zero, *positive):
        value, option = getattr(options, name), f"--{name.replace('_', '-')}"
        if value is not None and value < 0 and name in from_zero:
            raise UsageError(f"{option} {value} is negative")
        if value is not None and value < 1 and name in positive:
            raise UsageError(f"{option} {value} is not a positive number")


def parse_with_lists(parser: argparse.ArgumentParser, argv: list[str], lists: Sequence[str]) -> argparse.Namespace:
    """The options of file and command line; a list on the command line takes the place of the file's."""
    from candidates.command.config import with_config

    options: argparse.Namespace = parser.parse_args(with_config(parser, argv))
    flags = parser.parse_args(argv)
    for name in lists:
        if getattr(flags, name) is not None:
            setattr(options, name, getattr(flags, name))
    return options
