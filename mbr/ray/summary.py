"""What each node of a cluster did: windows, passes, CPU seconds; workers that joined and were lost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from candidates.common.words import counted
from mbr.ray.worker import Decided, Failure


@dataclass
class NodeTotals:
    windows: int = 0
    segments: int = 0
    passes: int = 0
    cpu_seconds: float = 0.0
    workers: int = 0
    lost_workers: int = 0
    lost_windows: int = 0


class Summary:
    """Totals by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeTotals] = {}
        self._began = time.monotonic()

    def joined(self, node: str) -> None:
        self._of(node).workers += 1

    def lost(self, node: str | None, windows: int) -> None:
        totals = self._of(node or "not placed")
        totals.lost_workers += 1
        totals.lost_windows += windows

    def decided(self, node: str, result: Decided | Failure) -> None:
        if isinstance(result, Failure):
            return
        totals = self._of(node)
        totals.windows += 1
        totals.segments += len(result.decisions)
        totals.passes += sum(decision.passes for decision in result.decisions)
        totals.cpu_seconds += result.cpu_seconds

    def rates(self) -> str:
        """Segments per second by node, for a progress bar."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        return ", ".join(f"{node} {totals.segments / seconds:.1f}/s" for node, totals in sorted(self.nodes.items()))

    def lines(self) -> list[str]:
        """One sentence per node."""
        return [
            f"node {node}: {counted(totals.segments, 'segment')} in {counted(totals.windows, 'window')}, "
            f"{counted(totals.passes, 'pair')} scored, {totals.cpu_seconds:.1f} CPU s; workers started "
            f"{totals.workers}, lost {totals.lost_workers} (with {counted(totals.lost_windows, 'window')} to decide "
            "again)"
            for node, totals in sorted(self.nodes.items())
        ]

    def _of(self, node: str) -> NodeTotals:
        return self.nodes.setdefault(node, NodeTotals())
