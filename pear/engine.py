"""Many rows of texts -> scores, fast, in the order asked.

A row of PEAR is (source, a, b); models of other kinds take rows of two or three texts. Every distinct text is
tokenised once and every distinct row scored once. Rows of all segments are pooled, sorted by their true length and
cut into batches by padded tokens, so that hardly any padding is computed. Several devices take batches from one
queue. When memory runs out the batch is put back and the budget halved.

    with Engine(network, tokenizer) as engine:
        engine.score([("A dog.", "Ein Hund.", "Eine Katze.")])      # -> array([1.7], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.closing import Closing
from candidates.common.errors import UsageError
from pear.agreement import PROBES, Agreement
from pear.backends import (
    Backend,
    CTranslate2Backend,
    TorchBackend,
    replicas,
    resolve_devices,
)
from pear.model import PearNetwork
from pear.runtime.batches import ACTIVATIONS_PER_TOKEN, default_batch_tokens, run_batches
from pear.serialize import Ints, Layout, TokenStore, lay_out, share_budget

Row = tuple[str, ...]


class Engine(Closing):
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
        self.on_gpu = not all(name.startswith("cpu") for name in devices)
        self._hidden = int(network.encoder.config.hidden_size)
        self.batch_tokens = batch_tokens or default_batch_tokens(self._hidden, on_cpu=not self.on_gpu)
        width = 2 if dtype in ("bf16", "fp16") else 4
        self._parameter_bytes = int(sum(weight.numel() for weight in network.parameters())) * width
        self.backends: list[Backend]
        if backend == "torch":
            self.backends = list(replicas(network, devices, dtype, TorchBackend))
        elif backend == "ct2":
            fast = CTranslate2Backend(network, tokenizer, compute_type, threads)
            self.backends = [fast]
            self.agreement = self._check_agreement(TorchBackend(network), fast, compute_type)
        else:
            raise UsageError(f"back-end {backend!r} is unknown; expected torch or ct2")

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
        lengths = granted.sum(axis=1) + self.layout.specials(unique.shape[1])
        scores = np.empty(len(unique), np.float32)

        def work(backend: Backend, some: Ints) -> None:
            scores[some] = backend.score(lay_out(self.layout, self.store, unique[some], granted[some]))

        label = self.kind.upper() if progress else None
        self.batch_tokens = run_batches(lengths, self.batch_tokens, self.backends, work, label=label)
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
