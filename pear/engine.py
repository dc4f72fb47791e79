"""Many rows of texts -> scores, fast, in the order asked.

A row of PEAR is (source, a, b); models of other kinds take rows of two or three texts. Every distinct text is
tokenised once and every distinct row scored once. Rows of all segments are pooled; `pear.runtime.runner` sorts them by
length, cuts them into batches and runs these on the devices.

    with Engine(network, tokenizer) as engine:
        engine.score([("A dog.", "Ein Hund.", "Eine Katze.")])      # -> array([1.7], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from candidates.common.closing import Closing
from candidates.common.errors import UsageError
from pear.model import PearNetwork, encoder_inputs
from pear.runtime.batches import BatchQueue
from pear.runtime.encoders import fingerprint
from pear.runtime.precision import AUTO
from pear.runtime.probes import Triple
from pear.runtime.reader import Texts, TranslationReader
from pear.runtime.runner import Runner, on_device
from pear.runtime.token_store import Ints, TokenStore
from pear.serialize import Batch, Layout, lay_out, share_budget

Row = tuple[str, ...]
# Of encoders that read each text of a batch once: candidates along a tile of pairs, and padded tokens of a batch.
TILE, SHARED_TOKENS = 8, 8192


class Engine(Closing):
    """A loaded model ready to score: a token store, and a runner that holds the weights.

    Args:
        device, dtype, batch_tokens, threads: as in `pear.runtime.runner.Runner`.
        name: tells checkpoints apart where dtype is `auto`; by default a fingerprint of the weights.

    Raises:
        UsageError: settings that are unknown, or that this machine cannot meet.
    """

    def __init__(
        self,
        network: PearNetwork,
        tokenizer: Any,
        *,
        device: str = "auto",
        dtype: str = "float32",
        batch_tokens: int | None = None,
        threads: int = 0,
        name: str | None = None,
    ) -> None:
        self.layout = Layout.of(tokenizer, network.encoder.config)
        self.store = TokenStore(tokenizer)
        self.kind = network.kind
        self._architecture = network.config.architecture
        self._shares = isinstance(network.encoder, TranslationReader)
        if batch_tokens is None and self._shares:
            batch_tokens = SHARED_TOKENS
        hidden = int(network.encoder.config.hidden_size)
        checkpoint = name or (fingerprint(network, tokenizer) if dtype == AUTO else "")
        self.runner = Runner(
            network, hidden=hidden, device=device, dtype=dtype, batch_tokens=batch_tokens, threads=threads
        )
        if self.runner.choice is not None:
            self.runner.choice.decide(checkpoint, self._preferences)

    @property
    def precision(self) -> str:
        """What the encoder computes in; with dtype `auto`, what was chosen."""
        return self.runner.precision

    @property
    def batch_tokens(self) -> int:
        """Padded tokens per batch; smaller once memory has run out."""
        return self.runner.batch_tokens

    @property
    def on_gpu(self) -> bool:
        return self.runner.on_gpu

    def close(self) -> None:
        """Release the weights."""
        self.runner.close()

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        """Scores [rows]; with PEAR positive where a is better than b. All rows hold the same number of texts."""
        if not rows:
            return np.empty(0, np.float32)
        unique, inverse = self._number(rows)
        granted = self._granted(unique)
        lengths = granted.sum(axis=1) + self.layout.specials(unique.shape[1])
        computed: list[tuple[Ints, Tensor]] = []
        layout = self.layout

        def work(network: Any, device: torch.device, some: Ints) -> None:
            batch = lay_out(layout, self.store, unique[some], granted[some])
            spans = on_device(batch.spans, device)
            hidden = network.encode(*self._inputs(batch, spans, device), **self._found_texts(batch, network, device))
            computed.append((some, network.score(hidden, spans)))

        order = self._order(unique, lengths)
        self.runner.run(lengths, work, order=order, label=self.kind.upper() if progress else None)
        scores = np.empty(len(unique), np.float32)
        for some, values in computed:  # only now: reading a score would have a GPU wait for each batch
            scores[some] = values.cpu().numpy()
        return scores[inverse]

    def batches(self, rows: Sequence[Row]) -> list[Ints]:
        """The places of the rows in each batch that `score` would compute, in its order: scored alone, a batch has the
        same bits."""
        if not rows:
            return []
        unique, inverse = self._number(rows)
        places: list[list[int]] = [[] for _ in unique]
        for place, number in enumerate(inverse.tolist()):
            places[number].append(place)
        lengths = self._granted(unique).sum(axis=1) + self.layout.specials(unique.shape[1])
        queue = BatchQueue(lengths, self.batch_tokens, self._order(unique, lengths))
        batches = []
        while (some := queue.take()) is not None:
            batches.append(np.array([place for number in some.tolist() for place in places[number]], np.int64))
            queue.done()
        return batches

    def tokens(self, rows: Sequence[Row]) -> int:
        """Encoder tokens that scoring these rows would cost, before padding."""
        if not rows:
            return 0
        unique, _ = self._number(rows)
        return int(self._granted(unique).sum()) + len(unique) * self.layout.specials(unique.shape[1])

    def memory_bytes(self) -> int:
        """Estimate of what scoring holds at once: the weights, and the activations of one batch."""
        return self.runner.memory_bytes()

    def truncates(self, source: str, texts: Sequence[str], *, at_once: int = 2) -> bool:
        """Whether some `at_once` of these candidates do not fit beside the source."""
        numbers = self.store.number([source, *texts])
        lengths = self.store.lengths[numbers]
        return bool(lengths[0] + np.sort(lengths[1:])[-at_once:].sum() > self.layout.budget(1 + at_once))

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        """Which rows [rows] are longer than the encoder's input, and so are cut off."""
        if not rows:
            return np.zeros(0, np.bool_)
        unique, inverse = self._number(rows)
        cut: NDArray[np.bool_] = self.store.lengths[unique].sum(axis=1) > self.layout.budget(unique.shape[1])
        return cut[inverse]

    def _granted(self, unique: Ints) -> Ints:
        """Tokens of each text of [rows, texts] that the encoder takes."""
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

    def _order(self, unique: Ints, lengths: Ints) -> Ints | None:
        """In which order rows are taken; None for the longest first."""
        return shared_first(unique, lengths) if self._shares else None

    def _inputs(self, batch: Batch, spans: Tensor, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Token ids and attention for the encoder; no attention where a batch laid out together has no padding.

        A GPU computes attention faster without a mask, and would have to finish all work before it can see that a mask
        leaves nothing out.
        """
        ids = on_device(batch.ids, device)
        if self._architecture == "unified" and batch.attention.all():
            return ids, None
        attention = on_device(batch.attention, device).long()
        return encoder_inputs(self._architecture, ids, attention, spans, self.layout.padding)

    def _found_texts(self, batch: Batch, network: PearNetwork, device: torch.device) -> dict[str, Texts]:
        """What some encoders would find in the batch by themselves, found before it goes to the device."""
        if not self._shares:
            return {}
        ids, present = torch.from_numpy(batch.ids), torch.from_numpy(batch.attention)
        texts = Texts.of(ids, present, network.encoder.config)
        return {"texts": texts.moved(lambda tensor: on_device(tensor.numpy(), device))}

    def _preferences(self, pairs: Sequence[Triple]) -> NDArray[np.float32]:
        """By how much a is better than b in each (source, a, b); scored singly by models that see one candidate."""
        if self.kind in ("pear", "resume"):
            return self.score(pairs)
        first, second = ([(triple[0], triple[place]) for triple in pairs] for place in (1, 2))
        return self.score(first) - self.score(second)


def shared_first(numbers: Ints, lengths: Ints) -> Ints:
    """An order of rows [rows] in which rows that share texts stand together, for encoders that read each text once.

    Sources come by their longest row; the rows of a source go by tiles of eight by eight candidates, which sixteen
    texts fill. Only the order of first mention counts, not the numbers of texts.
    """
    source = _first_mention(numbers[:, 0])
    longest = np.zeros(source.max() + 1, np.int64)
    np.maximum.at(longest, source, lengths)
    candidates = _first_mention(numbers[:, 1:].reshape(-1)).reshape(len(numbers), -1)
    first = np.full(source.max() + 1, candidates.max() + 1)
    np.minimum.at(first, source, candidates.min(axis=1))
    tiles = (candidates - first[source][:, None]) // TILE
    return np.lexsort((*candidates.T[::-1], *tiles.T[::-1], source, -longest[source]))


def _first_mention(numbers: Ints) -> Ints:
    """Each number's place among the distinct ones, in the order in which they appear."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]
