"""pear-convert: a PEAR checkpoint from the released layout to ours, or back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.command.console import Console, Parser, add_message_options
from candidates.command.model_options import HUB, add_model_options
from candidates.common.errors import ModelError, UsageError
from candidates.common.text import check_output, disk_errors
from pear.cli.model import open_checkpoint

if TYPE_CHECKING:
    from pear.checkpoint import Checkpoint

QUICK_START = """\
quick start:
  pear-convert old/checkpoints/model.ckpt my-pear --encoder xlmr-folder  # released layout -> our folder
  pear-convert my-pear new --to released  # our folder -> what pear-mt loads
  pear-convert Prosho/pear pear-folder    # from the hub: downloads 2.3 GB

The result is loaded again and must score like the original."""

LAYOUT_HELP = """\
layout to write; released is what pear-mt loads, which has no encoder for a PEAR over two translation models, such as
the bundled en-de"""

PICKLE_HELP = """\
load a checkpoint that holds more than plain tensors. Such a file is a program: loading it can do anything
you can do on this machine. Only for files whose maker you trust that far"""


def parser() -> Parser:
    p = Parser("pear-convert", "Convert a PEAR checkpoint.", QUICK_START)
    p.add_argument("model", help="checkpoint to read: a folder, a .ckpt file, or a hub name")
    p.add_argument("folder", help="folder to write; must not exist")
    p.add_argument("--to", choices=("ours", "released"), default="ours", help=LAYOUT_HELP)
    p.add_argument("--allow-pickle", action="store_true", help=PICKLE_HELP)
    add_model_options(p, "checkpoint", ("revision", "encoder", *HUB))
    add_message_options(p)
    return p


def command(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    console = Console("pear-convert", quiet=options.quiet, log_format=options.log_format)
    if not options.folder:
        raise UsageError("the folder to write has an empty name; give the name of a new folder")
    target = check_output(options.folder, folder=True, inputs=[options.model])
    if target.exists():
        raise UsageError(f"{options.folder} exists; give the name of a new folder")
    checkpoint = open_checkpoint(options, allow_pickle=options.allow_pickle)
    with disk_errors(target):
        difference = _convert(checkpoint, target, options.to)
    console.info(f"wrote {options.folder}; probe scores differ by at most {difference:.1g} from the original")
    return 0


def _convert(checkpoint: Checkpoint, target: Path, layout: str) -> float:
    """Write the folder, whole or not at all; the largest difference of scores."""
    from pear.checkpoint import load_checkpoint, save_checkpoint, save_released

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        written = Path(scratch, target.name)
        if layout == "released":
            save_released(checkpoint, written, final=target)
        else:
            save_checkpoint(checkpoint, written, origin=f"Converted from {checkpoint.name} by pear-convert.")
        difference = _largest_difference(checkpoint, load_checkpoint(written))
        if not difference <= 1e-5:  # so that NaN fails too
            raise ModelError(f"the converted checkpoint scores differently by {difference:.2g}; nothing was written")
        os.rename(written, target)
    return difference


def _largest_difference(before: Checkpoint, after: Checkpoint) -> float:
    import numpy as np

    from pear.engine import Engine
    from pear.runtime.probes import PROBES

    scores = [Engine(c.network, c.tokenizer, device="cpu").score(PROBES) for c in (before, after)]
    return float(np.abs(scores[0] - scores[1]).max())
