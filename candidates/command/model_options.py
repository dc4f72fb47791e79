"""The options of models that score texts, written once: where a model's files are, and how it runs.

Every command that loads such a model takes some of them, under the same names and with the same help. An option that is
left out is None (`--offline`: False), so that `model_options` passes on only what the user gave, and the model's own
defaults apply to the rest.

    >>> parser = argparse.ArgumentParser()
    >>> group = add_model_options(parser, "model", which=(*CHECKPOINT, *HUB))
    >>> model_options(parser.parse_args(["--revision", "main", "--offline"]))
    {'revision': 'main', 'offline': True}
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from candidates.command.numbers import check_numbers
from candidates.common.threads import thread_option

OPTIONS: dict[str, dict[str, Any]] = {
    "model": {"help": "checkpoint: a folder, a .ckpt file, or a hub name"},
    "revision": {"help": "hub revision of the model (default: the pinned one of a released model)"},
    "encoder": {"metavar": "FOLDER", "help": "configuration and tokenizer of a released checkpoint's encoder"},
    "cache_dir": {"metavar": "FOLDER", "help": "of downloaded models"},
    "offline": {"action": "store_true", "help": "use the local cache only"},
    "device": {"help": "auto, cpu, cuda, mps, or several: cuda:0,cuda:1 (default: auto)"},
    "dtype": {
        "choices": ("auto", "float32", "bf16", "fp16", "int8"),
        "help": "of the encoder; auto: the fastest that agrees with float32 (default: float32)",
    },
    "backend": {
        "choices": ("torch", "library"),
        "help": "torch; COMET and BLEURT: library, their own (default: torch)",
    },
    "batch_tokens": {
        "type": int,
        "metavar": "N",
        "help": "padded tokens per batch (default: by device and model)",
    },
    "threads": {"type": thread_option, "metavar": "N", "help": "CPU threads (default: all)"},
}

CHECKPOINT = ("model", "revision", "encoder")  # which model
HUB = ("cache_dir", "offline")  # where downloaded files are
RUNNING = ("device", "dtype", "batch_tokens", "threads")  # how any neural metric runs


def add_model_options(
    parser: argparse.ArgumentParser, title: str, which: Sequence[str] = tuple(OPTIONS)
) -> argparse._ArgumentGroup:
    """Add a group of model options to a parser.

    Args:
        parser: gets the group.
        title: of the group in --help.
        which: names from `OPTIONS`, in the order of --help.

    Returns:
        The group, for options that belong beside these.
    """
    group = parser.add_argument_group(title)
    for name in which:
        group.add_argument(f"--{name.replace('_', '-')}", **OPTIONS[name])
    return group


def model_options(options: argparse.Namespace, which: Sequence[str] = tuple(OPTIONS)) -> dict[str, Any]:
    """The model options that were given, by the names of `pear.runtime.options.ModelOptions`.

    Args:
        options: a parser's result; one without some of the options will do.
        which: names from `OPTIONS`, in the order of the result.

    Raises:
        UsageError: --threads or --batch-tokens is not a positive number.
    """
    check_numbers(options, positive=[name for name in ("threads", "batch_tokens") if name in which])
    values = {name: getattr(options, name, None) for name in which}
    return {name: value for name, value in values.items() if value is not None and value is not False}
