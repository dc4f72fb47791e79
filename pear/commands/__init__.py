"""pear: the command of pear-mt 1.1.1, with its subcommands `score` and `mbr`."""

from __future__ import annotations

from collections.abc import Sequence

from pear.commands.options import parser


def command(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from pear.commands.main import run  # loads torch

    run(options)
    return 0
