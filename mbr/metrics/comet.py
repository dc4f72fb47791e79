"""COMET with references (`regression_metric`): COMET-22 and all that are built like it.

Each text has a vector of its own: the score of (source, hypothesis, reference) is a feed-forward estimate from
[h; r; h*r; |h-r|; h*s; |h-s|]. So N candidates need N + 1 encoder passes, and all N x N pairs only the estimator. Its
first layer splits exactly: the parts of h and s are computed once per hypothesis, that of r once per reference, and of
the two parts left, which are the same for (h, r) and (r, h), each unordered pair is computed once.

    with Comet(model="comet-folder") as comet:
        comet.score([("A dog.", "Ein Hund.", "Der Hund.")])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.metrics.base import NeuralMetric, Row
from pear.runtime.options import ModelOptions

if TYPE_CHECKING:
    import torch


# Numbers that one chunk of pairs may hold at once in the estimator: 16 MB on a CPU, to stay near its cache.
CHUNK_CELLS = {"cpu": 2**22, "cuda": 2**27, "mps": 2**26}


class Comet(NeuralMetric):
    """A regression checkpoint. Options: `ModelOptions`."""

    name = "comet"
    default = "wmt22-comet-da"
    summary = "COMET: learned, from vectors of source, hypothesis and reference"
    family = "comet"
    needs = "a checkpoint (--model); else Unbabel/wmt22-comet-da from the hub"

    def __init__(self, **options: Unpack[ModelOptions]) -> None:
        from mbr.metrics.comet_network import load_comet
        from pear.runtime.runner import Runner, running
        from pear.runtime.token_store import TokenStore

        checkpoint = load_comet(self.name, {"regression_metric": 6}, self.default, **options)
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
            source, mt, reference = (vectors[column] for column in places[left:right].T)
            scores[left:right] = self.estimate(source, mt, reference)

        in_chunks(len(rows), self._chunk() // (6 * self._hidden), work)
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

    def estimate(self, source: torch.Tensor, mt: torch.Tensor, reference: torch.Tensor) -> NDArray[np.float32]:
        """Scores [rows] of vectors [rows, hidden], row by row: the plain definition."""
        import torch

        with torch.inference_mode():
            features = torch.cat(
                (mt, reference, mt * reference, (mt - reference).abs(), mt * source, (mt - source).abs()), dim=1
            )
            scores: NDArray[np.float32] = self._runner.network.estimator(features).cpu().numpy()
        return scores

    def all_pairs(
        self, source: torch.Tensor, hypotheses: torch.Tensor, references: torch.Tensor | None = None
    ) -> NDArray[np.float32]:
        """Scores [hypotheses, references] of all pairs of vectors; without references, of the hypotheses themselves."""
        import torch

        from pear.runtime.batches import in_chunks

        with torch.inference_mode():
            first, *rest = self._runner.network.estimator.ff
            w_mt, w_ref, w_product, w_difference, w_source, w_distance = first.weight.T.split(
                self._hidden
            )  # [hidden, .]
            of_mt = hypotheses @ w_mt + (hypotheses * source) @ w_source + (hypotheses - source).abs() @ w_distance
            of_mt += first.bias
            same = references is None
            others = hypotheses if references is None else references
            of_reference = others @ w_ref
            of_pair = torch.cat([w_product, w_difference])
            row, column = _pairs(len(hypotheses), len(others), same, hypotheses.device)
            scores = torch.empty(len(hypotheses), len(others), device=hypotheses.device)

            def work(left: int, right: int) -> None:
                i, j = row[left:right], column[left:right]
                h, r = hypotheses[i], others[j]
                shared = torch.cat([h * r, (h - r).abs()], dim=1) @ of_pair
                scores[i, j] = _through(rest, shared + of_mt[i] + of_reference[j])
                if same:
                    scores[j, i] = _through(rest, shared.add_(of_mt[j]).add_(of_reference[i]))

            in_chunks(len(row), self._chunk() // (2 * self._hidden + 2 * first.out_features), work)
            result: NDArray[np.float32] = scores.cpu().numpy()
        return result

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


def _pairs(hypotheses: int, references: int, same: bool, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Which pairs to compute: all, or each unordered one once."""
    import torch

    if same:
        row, column = torch.triu_indices(hypotheses, hypotheses, device=device)
        return row, column
    row = torch.arange(hypotheses, device=device).repeat_interleave(references)
    return row, torch.arange(references, device=device).repeat(hypotheses)


def _through(layers: Sequence[Any], values: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        values = layer(values)
    return values.squeeze(-1)
