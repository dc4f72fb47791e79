"""Where a command writes its result: standard output or a file, with the resolved options beside the file."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from candidates.common.errors import UsageError
from mbr.cli.common.layout import WIDTH


def check_output_files(options: argparse.Namespace, second: str) -> None:
    """Refuse files that cannot be written, before any work.

    Args:
        options: with `output`, `force` and the option `second`, each None where it was left out.
        second: name of the option for a second file.
    """
    from candidates.command.config import config_path
    from candidates.common.text import refuse_overwrite, regular_target

    files = [path for name in ("output", second) if (path := getattr(options, name, None)) is not None]
    if "" in files or "-" in files:
        raise UsageError(
            f"--output and --{second} need the name of a file; without -o the output goes to standard output"
        )
    targets = [regular_target(Path(path)) for path in files]
    if len(set(targets)) < len(targets):
        raise UsageError(f"--output and --{second} name the same file")
    if options.output is not None and regular_target(config_path(Path(options.output))) in targets:
        raise UsageError(f"--{second} names the file beside --output that holds the options; give another name")
    for path in files:
        refuse_overwrite(Path(path), force=options.force)


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
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with atomic_output(options.output, force=options.force) as stream:
        stream.write(text.encode())
    save_config(Path(options.output), options, signature, failed)
