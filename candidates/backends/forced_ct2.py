"""Forced decoding with CTranslate2: `Translator.score_batch`.

`score_batch` appends the end token itself and returns one log-probability per target token and one for the end. Given
tokens come first in the target and are scored like any other, so theirs are left out here.

With integer weights on a CPU, CTranslate2's numbers depend on the padding of a batch: up to 0.02 per token with the
bundled model. There a batch holds rows of equal lengths only, which gives every row the number it has alone, to the
bit, so a score never depends on the other rows. All candidates of a source have the same target, and few lengths.
1,000 rows of the bundled model take 0.74 s of a CPU instead of 1.08 s one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.backends.ct2_model import (
    check_compute_type,
    ct2_device,
    ct2_error,
    ct2_folder,
    known_positions,
    load_translator,
    position_limit,
    weights_digest,
    worker_count,
)
from candidates.backends.forced import ForcedScorer, Row
from candidates.backends.tokens import open_tokenizer, read_vocabulary, spelled_languages

EQUAL_TOKENS = 512  # per batch of equal shapes: larger ones save nothing and leave workers idle


class Ct2ForcedScorer(ForcedScorer):
    """A CTranslate2 folder as a scorer. Batches run on as many workers as there are threads."""

    backend = "ct2"

    def __init__(
        self,
        model: str,
        *,
        src_lang: str | None,
        tgt_lang: str | None,
        device: str,
        compute_type: str,
        threads: int | None,
        batch_tokens: int,
    ) -> None:
        check_compute_type(compute_type)
        self._folder = ct2_folder(model)
        self._tokenizer = open_tokenizer(self._folder, src_lang, tgt_lang)
        self._prefix = list(self._tokenizer.languages.target_tokens)
        self._languages = (src_lang, tgt_lang)
        self.name = f"{self._folder.name}@{weights_digest(self._folder)}"
        self._positions = known_positions(self._folder)
        place = ct2_device(device)
        self._translator = load_translator(self._folder, place, compute_type, worker_count(place[0], threads))
        self._computed_as: str = self._translator.compute_type
        equal_shapes = place[0] == "cpu" and self._computed_as.startswith("int")
        super().__init__(
            vocabulary=len(read_vocabulary(self._folder)),
            prefix=len(self._prefix),
            batch_tokens=min(batch_tokens, EQUAL_TOKENS) if equal_shapes else batch_tokens,
            equal_shapes=equal_shapes,
        )

    def described(self) -> dict[str, Any]:
        settings = {
            "model": self.name,
            "backend": self.backend,
            "compute": self._computed_as,
            "languages": spelled_languages(*self._languages),
        }
        return {name: value for name, value in settings.items() if value is not None}

    def close(self) -> None:
        self._translator.unload_model()

    def score(self, rows: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """As in the base class. A limit of positions that the folder does not record is in CTranslate2's error."""
        positions = self._positions
        try:
            return super().score(rows)
        except RuntimeError as exc:
            limit = position_limit(exc)
            if limit is None or limit == positions:
                raise ct2_error(self._folder, exc, "lower the number of tokens per batch") from exc
            self._positions = limit
        return self.score(rows)

    def _encode(self, source: str, target: str) -> Row:
        end = self._tokenizer.end
        outputs = [*self._prefix, *self._tokenizer.encode_target(target), end]
        return Row(
            tuple(self._fitted(self._tokenizer.encode(source), end, self._positions)),
            tuple(self._fitted(outputs, end, self._positions)),
        )

    def _sums(self, batches: list[list[Row]]) -> Iterator[Sequence[float]]:
        running = [
            self._translator.score_batch(
                [list(row.source) for row in batch],
                [list(row.target[:-1]) for row in batch],
                max_input_length=0,  # the default cuts silently; `_fitted` has cut and counted
                asynchronous=True,
            )
            for batch in batches
        ]
        for batch, results in zip(batches, running, strict=True):
            yield [
                # From the end: a model without a start token of its own has no score for its first given token.
                math.fsum(result.result().log_probs[self._prefix_length - len(row.target) :])
                for row, result in zip(batch, results, strict=True)
            ]
