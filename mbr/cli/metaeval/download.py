"""--download: the official data of a test set into the folder of --data."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from candidates.command.console import Console, Parser
from candidates.common.errors import UsageError

FOLDER = "mt-metrics-eval-v2"


def add_download_options(parser: Parser) -> None:
    g = parser.add_argument_group("download")
    g.add_argument(
        "--download", metavar="SET", help=f"fetch the official data of a test set into --data (default: {FOLDER})"
    )
    g.add_argument("--url", help="of the archive (default: $MBR_METAEVAL_URL, else the official address)")
    g.add_argument(
        "--checksum", metavar="SHA256", help="of the archive, or `none` to skip the check ($MBR_METAEVAL_SHA256)"
    )


def download(options: argparse.Namespace, console: Console) -> int:
    """Fetch, and print the folder of the test set."""
    from mbr.metaeval.download import fetch_test_set

    for name in ("lp", "table", "test_set", "human", "own", "score", "metrics", "output"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with --download, which only fetches data")

    def bar(pieces: Iterable[int], begin: int, size: int | None) -> Iterable[int]:
        from tqdm import tqdm

        with tqdm(total=size, initial=begin, desc=f"fetching {options.download}", unit="B", unit_scale=True) as shown:
            for piece in pieces:
                shown.update(piece)
                yield piece

    folder = fetch_test_set(
        options.download,
        options.data or FOLDER,
        url=options.url,
        checksum=options.checksum,
        report=console.info,
        **({"progress": bar} if console.shows_progress else {}),
    )
    print(folder)
    return 0
