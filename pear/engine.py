"""Many rows of texts -> scores, fast, in the order asked.

A row of PEAR is (source, a, b); models of other kinds take rows of two or three texts. Every distinct text is
tokenised once and every distinct row scored once. Rows of all segments are pooled, sorted by their true length and
cut into batches by padded tokens, so that hardly any padding is computed. Several devices take batches from one
queue. When memory runs out the batch is put back and the budget halved.

    with Engine(network, tokenizer) as engine:
        engine.score([("A dog.", "Ein Hund.", "Eine Katze.")])      # -> array([1.7], dtype=float32)
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.errors import ResourceError, UsageError
from pear.agreement import PROBES, Agreement
from pear.backends import (
    Backend,
    CTranslate2Backend,
    TorchBackend,
    is_out_of_memory,
    release_memory,
    resolve_devices,
    torch_backends,
)
from pear.model import PearNetwork
from pear.serialize import Ints, Layout, TokenStore, lay_out, share_budget

Row = tuple[str, ...]

# Hidden-size vectors alive per token in the widest layer: inputs, queries, keys, values, a 4x feed-forward, outputs.
ACTIVATIONS_PER_TOKEN = 12


class Engine:
    """A loaded model ready to score. Holds the weights, the token store and the batch budget."""

    def __init__(
        self,
        network: PearNetwork,
        tokenizer: Any,
        *,
        device: str = "auto",
        dtype: str = "float32",
        backend: str = "torch",
        compute_type: str | None = None,
        batch_tokens: int | None = None,
        threads: int = 0,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise UsageError(f"batch_tokens {batch_tokens} is not a positive number")
        if backend == "ct2" and (device not in ("auto", "cpu") or dtype != "float32"):
            raise UsageError(
                "the ct2 back-end runs on the CPU with a compute type of its own; leave out device and dtype"
            )
        if backend != "ct2" and compute_type is not None:
            raise UsageError("a compute type belongs to the ct2 back-end; torch takes a dtype")
        compute_type = compute_type or "int8"
        self.layout = Layout.of(tokenizer, network.encoder.config)
        self.store = TokenStore(tokenizer)
        self.kind = network.kind
        self.agreement: Agreement | None = None
        devices = ["cpu"] if backend == "ct2" else resolve_devices(device)
        on_cpu = all(name.startswith("cpu") for name in devices)
        self.batch_tokens = batch_tokens or default_batch_tokens(network.encoder.config.hidden_size, on_cpu=on_cpu)
        self._hidden = int(network.encoder.config.hidden_size)
        width = 2 if dtype in ("bf16", "fp16") else 4
        self._parameter_bytes = int(sum(weight.numel() for weight in network.parameters())) * width
        self.backends: list[Backend]
        if backend == "torch":
            self.backends = torch_backends(network, devices, dtype)
        elif backend == "ct2":
            fast = CTranslate2Backend(network, tokenizer, compute_type, threads)
            self.backends = [fast]
            self.agreement = self._check_agreement(TorchBackend(network), fast, compute_type)
        else:
            raise UsageError(f"back-end {backend!r} is unknown; expected torch or ct2")

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the weights."""
        self.backends = []

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        """Scores [rows]; of PEAR positive where a is better than b. All rows hold the same number of texts."""
        if not self.backends:
            raise UsageError("the engine is closed")
        if not rows:
            return np.empty(0, np.float32)
        unique, inverse = self._number(rows)
        granted = self._granted(unique)
        queue = _Queue(granted.sum(axis=1) + self.layout.specials(unique.shape[1]), self.batch_tokens)
        scores = np.empty(len(unique), np.float32)
        with _progress(int(queue.lengths.sum()), self.kind.upper(), progress) as bar:

            def work(backend: Backend) -> None:
                while (some := queue.take()) is not None:
                    try:
                        scores[some] = backend.score(lay_out(self.layout, self.store, unique[some], granted[some]))
                    except (RuntimeError, MemoryError) as exc:
                        if not is_out_of_memory(exc):
                            raise
                        queue.put_back(some, exc)
                    else:
                        queue.done()
                        bar.update(int(queue.lengths[some].sum()))
                        continue
                    release_memory()  # only now has the failed batch let go of its tensors

            _run_on_all(self.backends, work, queue)
        self.batch_tokens = queue.lasting_budget
        return scores[inverse]

    def tokens(self, rows: Sequence[Row]) -> int:
        """Encoder tokens that scoring these rows would cost, before padding."""
        if not rows:
            return 0
        unique, _ = self._number(rows)
        return int(self._granted(unique).sum()) + len(unique) * self.layout.specials(unique.shape[1])

    def memory_bytes(self) -> int:
        """Estimate of what scoring holds at once: the weights, and the activations of one batch."""
        activations = self.batch_tokens * self._hidden * ACTIVATIONS_PER_TOKEN * 4
        return (self._parameter_bytes + activations) * len(self.backends)

    def truncates(self, source: str, texts: Sequence[str], *, at_once: int = 2) -> bool:
        """Whether some of these candidates, so many at once, do not fit beside the source."""
        numbers = self.store.number([source, *texts])
        lengths = self.store.lengths[numbers]
        return bool(lengths[0] + np.sort(lengths[1:])[-at_once:].sum() > self.layout.budget(1 + at_once))

    def _granted(self, unique: Ints) -> Ints:
        """How many tokens of each text of [rows, texts] the encoder takes."""
        return share_budget(self.store.lengths[unique], self.layout.budget(unique.shape[1]))

    def _number(self, rows: Sequence[Row]) -> tuple[Ints, Ints]:
        """Rows as text numbers [distinct, texts], and where each asked-for row is among them."""
        sizes = {len(row) for row in rows}
        if len(sizes) > 1 or 0 in sizes:
            raise UsageError(f"rows of {sorted(sizes)} texts; expected the same number in all, and at least one")
        numbers = self.store.number(text for row in rows for text in row).reshape(len(rows), -1)
        base = len(self.store.lengths)
        keys = numbers[:, 0]
        for column in numbers.T[1:]:
            keys = keys * base + column
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        # Order of first mention, not of text numbers: those depend on what the store saw before, and the same
        # request must fall into the same batches whatever went before it.
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return numbers[first[order]], rank[inverse.reshape(-1)]

    def _check_agreement(self, plain: Backend, fast: Backend, compute_type: str) -> Agreement:
        fast_backends = self.backends
        self.backends = [plain]
        exact = self._preferences()
        self.backends = fast_backends
        agreement = Agreement.between(exact, self._preferences(), compute_type)
        agreement.check()
        return agreement

    def _preferences(self) -> NDArray[np.float32]:
        """By how much a is better than b in each probe pair; scored singly by models that see one candidate."""
        if self.kind in ("pear", "resume"):
            return self.score(PROBES)
        first, second = ([(triple[0], triple[place]) for triple in PROBES] for place in (1, 2))
        return self.score(first) - self.score(second)


def default_batch_tokens(hidden: int, *, on_cpu: bool) -> int:
    """Padded tokens a batch: on a CPU as many as keep a layer's activations in its cache."""
    return min(max(2**19 // hidden, 512), 4096) if on_cpu else 16384


class _Queue:
    """Rows waiting to be scored, longest first; hands out batches that fit the budget of padded tokens."""

    def __init__(self, lengths: Ints, budget: int) -> None:
        self.lengths = lengths
        self.budget = budget
        self.lasting_budget = budget
        self._order = np.argsort(-lengths, kind="stable")
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
                    f"out of memory for a single pair of {self.lengths[rows[0]]} tokens ({cause}); use a smaller "
                    "model, dtype bf16, or a larger machine"
                ) from cause
            used = int(self.lengths[rows].max()) * len(rows)
            if 2 * used > self.budget:  # a full batch, not a tail: later requests had better be smaller too
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
        """Rows come longest first, so the first one sets the padded length."""
        return min(max(self.budget // int(self.lengths[rows[0]]), 1), len(rows))


def _run_on_all(backends: Sequence[Backend], work: Any, queue: _Queue) -> None:
    if len(backends) == 1:
        work(backends[0])
        return
    errors: list[BaseException] = []

    def guarded(backend: Backend) -> None:
        try:
            work(backend)
        except BaseException as exc:
            errors.append(exc)
            queue.fail()

    threads = [threading.Thread(target=guarded, args=(backend,), daemon=True) for backend in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _progress(total: int, name: str, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit="tok", unit_scale=True, disable=not shown, leave=False, desc=name)
