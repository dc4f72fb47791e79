"""Rows of many lengths -> batches that fit, on one device or several, and again in smaller ones when memory runs out.

Rows are taken longest first, or in an order of the caller's, and cut into batches by padded tokens. Several
workers (replicas of a network) take batches from one queue. A batch that does not fit in memory is put back and the
budget halved.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from candidates.common.errors import ResourceError
from pear.runtime.devices import is_out_of_memory, release_memory
from pear.runtime.token_store import Ints

Worker = TypeVar("Worker")

# Hidden-size vectors alive per token in the widest layer: inputs, queries, keys, values, a 4x feed-forward, outputs.
ACTIVATIONS_PER_TOKEN = 12


def run_batches(
    lengths: Ints,
    budget: int,
    workers: Sequence[Worker],
    work: Callable[[Worker, Ints], None],
    *,
    order: Ints | None = None,
    label: str | None = None,
) -> int:
    """Call `work(worker, rows)` until all rows of these lengths are done, in batches of at most `budget` padded tokens.

    `order` is in which order rows are taken; by default the longest come first, so that hardly any padding is computed.
    Returns the budget to use next time, which is smaller if memory ran out. With a `label` a progress bar is shown.
    """
    queue = BatchQueue(lengths, budget, order)
    with _progress(int(lengths.sum()), label) as bar:

        def take_and_work(worker: Worker) -> None:
            while (rows := queue.take()) is not None:
                try:
                    work(worker, rows)
                except (RuntimeError, MemoryError) as exc:
                    if not is_out_of_memory(exc):
                        raise
                    queue.put_back(rows, exc)
                else:
                    queue.done()
                    bar.update(int(lengths[rows].sum()))
                    continue
                release_memory()  # only now has the failed batch let go of its tensors

        _run_on_all(workers, take_and_work, queue)
    return queue.lasting_budget


def in_chunks(count: int, width: int, work: Callable[[int, int], None]) -> None:
    """Call `work(left, right)` until all `count` items are done, `width` items per call, fewer when memory runs out."""
    left, width = 0, max(width, 1)
    while left < count:
        try:
            work(left, min(left + width, count))
        except (RuntimeError, MemoryError) as exc:
            if not is_out_of_memory(exc):
                raise
            if width == 1:
                raise ResourceError(f"out of memory: {exc}; use a smaller model or a larger machine") from exc
            width //= 2
        else:
            left += width
            continue
        release_memory()  # only now has the failed chunk let go of its tensors


def default_batch_tokens(hidden: int, *, on_cpu: bool, free_bytes: int | None = None) -> int:
    """Padded tokens per batch: on a CPU as many as keep the activations of a layer in its cache.

    On a GPU a power of two whose activations in float32 take an eighth of its free memory at most, if that is known:
    the same on every run that finds about as much, so that results have the same bits.
    """
    if on_cpu:
        return min(max(2**19 // hidden, 512), 4096)
    if free_bytes is None:
        return 16384
    fitting = max(free_bytes // 8 // (4 * ACTIVATIONS_PER_TOKEN * hidden), 1)
    return int(min(max(2 ** (fitting.bit_length() - 1), 1024), 65536))


class BatchQueue:
    """Rows waiting to be scored, by default longest first; hands out batches that fit the budget of padded tokens."""

    def __init__(self, lengths: Ints, budget: int, order: Ints | None = None) -> None:
        self.lengths = lengths
        self.budget = budget
        self.lasting_budget = budget
        self._order = np.argsort(-lengths, kind="stable") if order is None else order
        self._next = 0
        self._returned: list[Ints] = []
        self._in_flight = 0
        self._failed = False
        self._ready = threading.Condition()

    def take(self) -> Ints | None:
        """The next batch; waits while another worker may still put one back; None at the end."""
        with self._ready:
            while not self._failed:
                rows = self._cut()
                if rows is not None:
                    self._in_flight += 1
                    return rows
                if not self._in_flight:
                    break
                self._ready.wait()
            return None

    def put_back(self, rows: Ints, cause: BaseException) -> None:
        """This batch did not fit in memory: halve the budget and queue its rows again."""
        with self._ready:
            if len(rows) == 1:
                raise ResourceError(
                    f"out of memory for a single row of {self.lengths[rows[0]]} tokens ({cause}); use a smaller "
                    "model, dtype bf16, or a larger machine"
                ) from cause
            used = int(self.lengths[rows].max()) * len(rows)
            if 2 * used > self.budget:  # a full batch, not a tail: later requests get the smaller budget too
                self.lasting_budget = min(self.lasting_budget, max(used // 2, 1))
            self.budget = min(self.budget, max(used // 2, 1))
            self._returned.append(rows)
            self._in_flight -= 1
            self._ready.notify_all()

    def done(self) -> None:
        with self._ready:
            self._in_flight -= 1
            self._ready.notify_all()

    def fail(self) -> None:
        with self._ready:
            self._failed = True
            self._ready.notify_all()

    def _cut(self) -> Ints | None:
        if self._returned:
            rows = self._returned.pop()
            size = self._fitting(rows)
            if size < len(rows):
                self._returned.append(rows[size:])
            return rows[:size]
        if self._next == len(self._order):
            return None
        rows = self._order[self._next :]
        rows = rows[: self._fitting(rows)]
        self._next += len(rows)
        return rows

    def _fitting(self, rows: Ints) -> int:
        """How many of the next rows fit: the longest of them sets the padded length."""
        most = max(self.budget // int(self.lengths[rows[0]]), 1)  # more do not fit beside the first
        lengths = np.maximum.accumulate(self.lengths[rows[:most]])
        return max(int((lengths * np.arange(1, len(lengths) + 1) <= self.budget).sum()), 1)


def _run_on_all(workers: Sequence[Worker], work: Callable[[Worker], None], queue: BatchQueue) -> None:
    if len(workers) == 1:
        work(workers[0])
        return
    errors: list[BaseException] = []

    def guarded(worker: Worker) -> None:
        try:
            work(worker)
        except BaseException as exc:
            errors.append(exc)
            queue.fail()

    threads = [threading.Thread(target=guarded, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _progress(total: int, label: str | None) -> Any:
    if label is None:
        return _NoBar()
    from tqdm import tqdm

    return tqdm(total=total, unit="tok", unit_scale=True, leave=False, desc=label)


class _NoBar(contextlib.nullcontext[Any]):
    """In the place of a progress bar: shows nothing."""

    def __enter__(self) -> _NoBar:
        return self

    def update(self, count: int) -> None: ...
