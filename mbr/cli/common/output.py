"""Where a command writes its result: standard output or a file, with the resolved options beside the file."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from candidates.command.colour import print_table
from mbr.cli.common.layout import WIDTH


def table_width(options: argparse.Namespace) -> int:
    """Columns of a table: those of the terminal (or $COLUMNS), a fixed number in a file."""
    return WIDTH if options.output is not None else shutil.get_terminal_size((WIDTH, 0)).columns


def write_output(text: str, options: argparse.Namespace, signature: str, failed: int = 0) -> None:
    """Write to --output, whole or not at all, with the options and the signature in a file beside it; else to stdout.

    Args:
        text: the result.
        options: with `output` and `force`.
        signature: of the result; goes into the saved options.
        failed: segments that failed.
    """
    from candidates.command.config import save_config
    from candidates.common.text import atomic_output

    if options.output is None:
        print_table(text)
        return
    with atomic_output(options.output, force=options.force) as stream:
        stream.write(text.encode())
    save_config(Path(options.output), options, signature, failed)
