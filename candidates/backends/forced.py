"""Forced decoding: how likely a translation model finds a target text that it is given.

A score is the log-probability of the target per target token, the end token included in sum and count. Tokens that
the model is given rather than asked for (the target language of M2M100 and NLLB) are in neither. Every distinct row
is scored once, in batches of similar lengths within a budget of tokens, so a score does not depend on the order of
the rows beyond rounding. A reverse model scores (candidate, source): the noisy channel of Brown et al. (1993), and
Ng et al. (2019) for reranking.

    with open_forced_scorer("opus-de-en") as scorer:
        scorer.score([("Ein Hund.", "A dog."), ("Ein Tisch.", "A dog.")])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from candidates.backends.models import guess_backend
from candidates.backends.tokens import Token, fit
from candidates.common.closing import Closing
from candidates.common.errors import ModelError, UsageError
from candidates.common.plugins import LazyTable
from candidates.lists import check_text

SCORERS = LazyTable(
    "back-end of forced decoding",
    {
        "ct2": "candidates.backends.forced_ct2:Ct2ForcedScorer",
        "hf": "candidates.backends.forced_hf:HfForcedScorer",
    },
)
_LOGITS = 2**27  # about how many logits a batch may compute: 512 MB in float32


class Row(NamedTuple):
    """One text pair in the model's tokens; `target` holds the given tokens first and the end token last."""

    source: tuple[Any, ...]
    target: tuple[Any, ...]


class ForcedScorer(Closing):
    """A loaded model that scores (source text, target text) rows. Open it with `open_forced_scorer`.

    A subclass encodes one row and scores one batch of rows; order, duplicates and batches are handled here.
    """

    backend: str
    name: str  # the model with its revision, as in the signature of a generator
    cut_texts: int  # sources and targets that were longer than the model's positions

    def __init__(self, *, vocabulary: int, prefix: int, batch_tokens: int, equal_shapes: bool = False) -> None:
        self.cut_texts = 0
        self._prefix_length = prefix
        self._batch_tokens = batch_tokens
        self._equal_shapes = equal_shapes
        self._target_tokens = max(1, min(batch_tokens, _LOGITS // vocabulary))

    def described(self) -> dict[str, Any]:
        """Everything that may change a score, for signatures and journals."""
        raise NotImplementedError

    def score(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Log-probability per target token of each (source text, target text).

        Raises:
            InputError: a text that UTF-8 cannot hold.
            ModelError: the model fails, or returns a score that is not a finite number.
        """
        encoded = {row: self._checked(*row) for row in dict.fromkeys(rows)}
        scores: dict[tuple[str, str], float] = {}
        order = _by_length(encoded)
        batches = list(self._batches([encoded[row] for row in order]))
        sums = [value for values in self._sums(batches) for value in values]
        for row, value in zip(order, sums, strict=True):
            if not np.isfinite(value):
                raise ModelError(f"{self.name}: the log-probability of a text is {value}; expected a finite number")
            scores[row] = value / (len(encoded[row].target) - self._prefix_length)
        return np.array([scores[row] for row in rows], np.float64)

    def batches(self, rows: Sequence[tuple[str, str]]) -> list[list[int]]:
        """The places of the rows in each batch that `score` makes of them: scored alone, a batch has the same bits."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row, []).append(place)
        encoded = {row: self._checked(*row) for row in places}
        order = _by_length(encoded)
        sizes = [len(batch) for batch in self._batches([encoded[row] for row in order])]
        remaining = iter(order)
        return [[place for row in islice(remaining, size) for place in places[row]] for size in sizes]

    def _encode(self, source: str, target: str) -> Row:
        raise NotImplementedError

    def _sums(self, batches: list[list[Row]]) -> Iterator[Sequence[float]]:
        """For each batch, in order, the log-probabilities of the rows' targets without the given tokens."""
        raise NotImplementedError

    def _checked(self, source: str, target: str) -> Row:
        for text, part in ((source, "source"), (target, "target")):
            check_text(text, f"{part} of forced decoding")
        return self._encode(source, target)

    def _fitted(self, tokens: list[Token], end: Token, positions: int | None) -> list[Token]:
        """Tokens cut as a generator cuts them, and counted."""
        cut = fit(tokens, end, positions)
        self.cut_texts += len(cut) < len(tokens)
        return cut

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        """Consecutive rows whose padded sources and targets are within the budget; at least one row each.

        With `equal_shapes` the rows of a batch have the same number of source tokens and of target tokens.
        """
        batch: list[Row] = []
        longest_source = longest_target = 0
        for row in rows:
            source = max(longest_source, len(row.source), 1)
            target = max(longest_target, len(row.target))
            count = len(batch) + 1
            full = count * max(source, target) > self._batch_tokens or count * target > self._target_tokens
            if batch and (full or (self._equal_shapes and _shape(row) != _shape(batch[0]))):
                yield batch
                batch, source, target = [], len(row.source), len(row.target)
            batch.append(row)
            longest_source, longest_target = source, target
        if batch:
            yield batch


def _by_length(encoded: Mapping[tuple[str, str], Row]) -> list[tuple[str, str]]:
    return sorted(encoded, key=lambda row: (len(encoded[row].target), len(encoded[row].source), row))


def _shape(row: Row) -> tuple[int, int]:
    return len(row.source), len(row.target)


def open_forced_scorer(
    model: str,
    *,
    backend: str | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    device: str = "auto",
    compute_type: str = "default",
    threads: int | None = None,
    batch_tokens: int = 8192,
) -> ForcedScorer:
    """Load a translation model for forced decoding.

    Args:
        model: a CTranslate2 folder, a bundled model's name, or a transformers folder or hub name.
        backend: `ct2` or `hf`; the default follows from the model.
        src_lang: the language of the source texts, where the model has several.
        tgt_lang: the language of the target texts, where the model has several.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        compute_type: a number type of the back-end; `default` is the type of the ct2 folder, float32 for hf.
        threads: CPU threads. Default: all.
        batch_tokens: padded tokens per batch.

    Raises:
        UsageError: the model has no forced decoding, or an option does not fit it.
        ModelError: the model cannot be loaded.
    """
    if batch_tokens < 1:
        raise UsageError(f"batch_tokens {batch_tokens} is out of range; expected a positive number")
    backend = backend or guess_backend(model)
    if backend not in SCORERS:
        raise UsageError(
            f"{model}: the back-end {backend} has no forced decoding; expected {' or '.join(SCORERS)}; give a "
            "CTranslate2 folder, or a transformers folder or hub name"
        )
    scorer: ForcedScorer = SCORERS.load(backend)(
        model,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        device=device,
        compute_type=compute_type,
        threads=threads,
        batch_tokens=batch_tokens,
    )
    return scorer
