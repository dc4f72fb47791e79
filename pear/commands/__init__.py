"""pear: the command of pear-mt 1.1.1, with its subcommands `score` and `mbr`."""

from __future__ import annotations

from collections.abc import Sequence

from pear.commands.options import parser


def command(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.checkpoint is None and options.input.exists():
        from pear.runtime.hub import check_found

        where = {"cache_dir": options.cache_dir, "local_files_only": options.local_files_only}
        check_found(options.hf_model or options.model, revision=options.revision, **where)
    from pear.commands.main import run  # loads torch

    run(options)
    return 0
