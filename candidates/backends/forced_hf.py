"""Forced decoding with transformers: one forward pass over source and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from candidates.backends.forced import ForcedScorer, Row
from candidates.backends.hf_model import check_dtype, load_model, model_positions, revision, torch_device
from candidates.backends.models import check_reachable
from candidates.backends.tokens import (
    load_transformers_tokenizer,
    spelled_languages,
    target_ids,
    transformers_tokenizer,
)
from candidates.common.errors import ModelError, ResourceError
from candidates.common.threads import check_threads


class HfForcedScorer(ForcedScorer):
    """A transformers folder or hub name as a scorer."""

    backend = "hf"

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
        self._dtype = "float32" if compute_type == "default" else compute_type
        check_dtype(self._dtype)
        check_reachable(model)
        import torch

        self._inner = load_transformers_tokenizer(model)
        self._tokenizer = transformers_tokenizer(self._inner, src_lang, tgt_lang)
        self._languages = (src_lang, tgt_lang)
        self._prefix: list[int] = self._inner.convert_tokens_to_ids(list(self._tokenizer.languages.target_tokens))
        self._device = torch_device(device)
        if threads is not None:
            torch.set_num_threads(check_threads(threads))
        self._network = load_model(model, self._dtype, self._device)
        config = self._network.config
        vocabulary = getattr(config, "decoder_vocab_size", None) or config.vocab_size
        super().__init__(vocabulary=vocabulary, prefix=len(self._prefix), batch_tokens=batch_tokens)
        self._positions = model_positions(config)
        self._start = config.decoder_start_token_id
        self._pad = config.pad_token_id
        # transformers adds a padding token to Marian's vocabulary. It is no possible output, and generation forbids it.
        self._impossible = [self._pad] if config.model_type == "marian" else []
        self.name = f"{model}@{revision(self._network)}"

    def described(self) -> dict[str, Any]:
        settings = {
            "model": self.name,
            "backend": self.backend,
            "compute": self._dtype,
            "languages": spelled_languages(*self._languages),
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _encode(self, source: str, target: str) -> Row:
        end = self._inner.eos_token_id
        tokens = self._fitted(self._tokenizer.encode(source), self._tokenizer.end, self._positions)
        outputs = [*self._prefix, *target_ids(self._inner, target), end]
        return Row(tuple(self._inner.convert_tokens_to_ids(tokens)), tuple(self._fitted(outputs, end, self._positions)))

    def _sums(self, batches: list[list[Row]]) -> Iterator[Sequence[float]]:
        import torch

        for batch in batches:
            try:
                with torch.inference_mode():
                    yield self._batch_sums(batch)
            except torch.OutOfMemoryError as exc:
                raise ResourceError(f"{self.name}: out of memory; lower the number of tokens per batch") from exc
            except (RuntimeError, ValueError, IndexError) as exc:
                raise ModelError(f"{self.name}: transformers failed in forced decoding: {exc}") from exc

    def _batch_sums(self, batch: list[Row]) -> list[float]:
        sources, read = self._padded([row.source for row in batch])
        targets, scored = self._padded([row.target for row in batch])
        inputs, _ = self._padded([(self._start, *row.target[:-1]) for row in batch])
        scored[:, : self._prefix_length] = False
        logits = self._network(input_ids=sources, attention_mask=read.long(), decoder_input_ids=inputs).logits.float()
        logits[:, :, self._impossible] = float("-inf")  # [rows, target tokens, vocabulary]
        chosen = logits.gather(2, targets[:, :, None])[:, :, 0] - logits.logsumexp(2)
        sums: list[float] = chosen.double().masked_fill(~scored, 0).sum(1).tolist()
        return sums

    def _padded(self, sequences: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Ids, filled up to the longest, and a mask of the ids that are real: [rows, tokens] both."""
        import torch

        longest = max(map(len, sequences))
        ids = [[*sequence, *[self._pad] * (longest - len(sequence))] for sequence in sequences]
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        return torch.tensor(ids, device=self._device), mask.to(self._device)
