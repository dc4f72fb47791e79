"""COMET models that give each text a vector of its own: texts in, sentence vectors out, each distinct one encoded once.

What `mbr.metrics.comet` (with references) and `mbr.metrics.comet_qe` (without) share: the encoder, the pooling of its
tokens, and how many pairs the estimator takes at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

if TYPE_CHECKING:
    import torch

# Numbers that one chunk of pairs may hold at once in the estimator: 16 MB on a CPU, to stay near its cache.
CHUNK_CELLS = {"cpu": 2**22, "cuda": 2**27, "mps": 2**26}


class VectorMetric(NeuralMetric):
    """A regression checkpoint whose estimator reads sentence vectors. Options: `ModelOptions`."""

    family = "comet"
    kind: ClassVar[str]  # class identifier of its checkpoints
    width: ClassVar[int]  # vectors that the estimator reads

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.comet_network import load_comet
        from pear.runtime.runner import Runner, running
        from pear.runtime.token_store import TokenStore

        checkpoint = load_comet(self.name, {self.kind: self.width}, self.default, **options)
        self._pool = str(checkpoint.hparams.get("pool", "avg"))
        if self._pool not in ("avg", "max", "cls"):
            raise ModelError(f"{checkpoint.name}: pool {self._pool!r} is unknown; expected avg, max or cls")
        tokenizer = checkpoint.tokenizer
        self._start, self._end, self._padding = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self._store = TokenStore(tokenizer)
        config: Any = checkpoint.network.encoder.config
        self._hidden = int(config.hidden_size)
        runner = Runner(checkpoint.network, hidden=self._hidden, **running(options))
        # Single texts are cut two tokens shorter than need be, as in the library.
        self._hold(checkpoint.name, checkpoint.files, runner, checkpoint.max_tokens - 2)

    @abstractmethod
    def estimate(self, *vectors: torch.Tensor) -> NDArray[np.float32]:
        """Scores [rows] of vectors [rows, hidden] of each text of the rows, in their order: the plain definition."""

    def score(self, rows: Sequence[Row], *, progress: bool = False) -> NDArray[np.float32]:
        if not rows:
            return np.empty(0, np.float32)
        self.texts_per_row(rows)
        distinct = {text: place for place, text in enumerate(dict.fromkeys(text for row in rows for text in row))}
        vectors = self.embed(list(distinct), progress=progress)
        places = np.array([[distinct[text] for text in row] for row in rows])
        scores = np.empty(len(rows), np.float32)

        from pear.runtime.batches import in_chunks

        def work(left: int, right: int) -> None:
            scores[left:right] = self.estimate(*(vectors[column] for column in places[left:right].T))

        in_chunks(len(rows), self._chunk() // (self.width * self._hidden), work)
        return scores

    def embed(self, texts: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Vectors [texts, hidden], on the first device; each distinct text is encoded once."""
        import torch

        from pear.runtime.runner import padded

        distinct = list(dict.fromkeys(texts))
        numbers = self._store.number(distinct)
        lengths = np.minimum(self._store.lengths[numbers], self._max_tokens - 2)
        vectors = torch.empty(len(distinct), self._hidden, device=self._runner.device)

        def work(network: Any, device: torch.device, rows: NDArray[np.int64]) -> None:
            sequences = []
            for row in rows:
                begin = self._store.offsets[numbers[row]]
                content = self._store.tokens[begin : begin + lengths[row]]
                sequences.append(np.concatenate([[self._start], content, [self._end]]))
            ids, attention = padded(sequences, self._padding, device)
            states, _ = network.encode(ids, attention)
            pooled = _pooled(states, attention, ids != self._padding, self._pool)
            vectors[torch.from_numpy(rows).to(vectors.device)] = pooled.to(vectors)

        self._runner.run(lengths + 2, work, label=self.name.upper() if progress else None)
        places = {text: place for place, text in enumerate(distinct)}
        return vectors[torch.tensor([places[text] for text in texts], dtype=torch.long, device=vectors.device)]

    def truncated(self, rows: Sequence[Row]) -> NDArray[np.bool_]:
        numbers = self._store.number(text for row in rows for text in row)  # first: it replaces the store's arrays
        long = self._store.lengths[numbers] > self._max_tokens - 2
        return np.asarray(long.reshape(len(rows), -1).any(axis=1))

    def tokens(self, rows: Sequence[Row]) -> int:
        numbers = self._store.number(dict.fromkeys(text for row in rows for text in row))
        return int(np.minimum(self._store.lengths[numbers], self._max_tokens - 2).sum()) + 2 * len(numbers)

    def memory_bytes(self) -> int:
        return super().memory_bytes() + 4 * self._chunk()

    def _chunk(self) -> int:
        return CHUNK_CELLS[self._runner.device.type]


def _pooled(states: torch.Tensor, attention: torch.Tensor, content: torch.Tensor, pool: str) -> torch.Tensor:
    """One vector [rows, hidden] of each row's tokens, special ones included.

    As in the library, a text's own word `<pad>` is no content, but counts in its length.
    """
    if pool == "cls":
        return states[:, 0]
    mask = content[:, :, None]
    if pool == "max":
        return states.masked_fill(~mask, -np.inf).max(dim=1).values
    return (states * mask).sum(dim=1) / attention.sum(dim=1, keepdim=True)
