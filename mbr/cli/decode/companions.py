"""The files beside the output of mbr-decode that grow with it: matrices, lists, routed decisions, a shard's pieces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from candidates.command.journal import Publisher, publish_as_is
from candidates.common.errors import InputError
from candidates.formats import BadRecord, render_failure, render_list
from mbr.cli.common.shards import Piece, Shard, end_line, head_line, piece_line, shard_path
from mbr.cli.decode.records import render
from mbr.cli.decode.route import parse_route
from mbr.decide import Decision
from mbr.matrix import publish_matrices


class Companions:
    """Which files there are, in one order: their publishers, their first bytes, and the bytes that a window adds.

    Args:
        options: of the command.
        settings: of the run, as all shards of it have them.
        header: the first bytes of the output itself.
        terms: names of the terms of the recipe.
    """

    def __init__(
        self, options: argparse.Namespace, settings: dict[str, Any], header: bytes, terms: Sequence[str]
    ) -> None:
        self.publishers: list[tuple[Path, Publisher]] = []
        self.heads: list[bytes] = []
        self.routed = 0
        self._chunks: list[Callable[[Sequence[Decision], Piece], bytes]] = []
        self._end: list[Callable[[int, int, str], bytes]] = []
        self._top = options.top
        if options.matrix:
            self._add(Path(options.matrix), _matrices, publish_matrices)
        if options.save_candidates:
            self._add(Path(options.save_candidates), _lists)
        if options.route:
            self._route = parse_route(options.route, terms)
            self._add(Path(options.route_output), self._routed)
        if options.shard:
            shared = {name: settings[name] for name in ("signature", "format", "top", "on-error")}
            head = head_line(Shard.parse(options.shard), shared, len(header))
            self._add(shard_path(Path(options.output)), _piece, head=head, end=end_line)

    def chunks(self, window: Sequence[Decision], piece: Piece) -> list[bytes]:
        """The bytes that a window adds to each file; `piece`: its place in the input, its bytes in the output."""
        return [chunk(window, piece) for chunk in self._chunks]

    def ends(self, segments: int, failed: int, digest: str) -> list[bytes]:
        """The last bytes of each file."""
        return [end(segments, failed, digest) for end in self._end]

    def _add(
        self,
        path: Path,
        chunk: Callable[[Sequence[Decision], Piece], bytes],
        publisher: Publisher = publish_as_is,
        *,
        head: bytes = b"",
        end: Callable[[int, int, str], bytes] = lambda segments, failed, digest: b"",
    ) -> None:
        self.publishers.append((path, publisher))
        self._chunks.append(chunk)
        self.heads.append(head)
        self._end.append(end)

    def _routed(self, window: Sequence[Decision], piece: Piece) -> bytes:
        chosen = [decision for decision in window if self._route.holds(decision)]
        self.routed += len(chosen)
        return b"".join(render(decision, "jsonl", self._top) for decision in chosen)


def _matrices(window: Sequence[Decision], piece: Piece) -> bytes:
    return b"".join(decision.matrix.pack() for decision in window if decision.matrix)


def _lists(window: Sequence[Decision], piece: Piece) -> bytes:
    """The candidates behind each decision, as JSONL."""
    return b"".join(_list_of(decision) for decision in window)


def _list_of(decision: Decision) -> bytes:
    if decision.candidates is not None:
        return render_list(decision.candidates, "jsonl", 0)
    return render_failure(BadRecord(decision.id, InputError(decision.error or ""), decision.source), "jsonl", 0)


def _piece(window: Sequence[Decision], piece: Piece) -> bytes:
    return piece_line(piece) if window else b""
