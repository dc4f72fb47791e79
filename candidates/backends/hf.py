"""Candidates from a transformers sequence-to-sequence model, for models that CTranslate2 cannot run.

Every source is one call of `generate` with a seed of its own, so candidates do not depend on the other sources.
Log-probabilities come from a second pass over the finished hypotheses: the model's own, at temperature one and
before any cut-off, whatever the method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from candidates.backends.base import Generator
from candidates.backends.hf_model import check_dtype, load_model, model_positions, revision, torch_device
from candidates.backends.models import check_reachable
from candidates.backends.tokens import load_transformers_tokenizer, spelled_languages, transformers_tokenizer
from candidates.common.arrivals import Pause, with_pauses
from candidates.common.errors import ModelError, ResourceError, UsageError
from candidates.common.threads import check_threads
from candidates.formats import Record
from candidates.lists import Candidate, check_text
from candidates.settings import DEFAULT_EPSILON, Settings


class HfGenerator(Generator):
    """A transformers folder or hub name as a generator."""

    name = "hf"

    def __init__(
        self,
        model: str,
        settings: Settings,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        device: str = "auto",
        compute_type: str = "float32",
        threads: int | None = None,
        split_sentences: bool = True,
    ) -> None:
        super().__init__()
        if settings.patience is not None:
            raise UsageError("--patience goes with the back-end ct2; transformers has no such setting")
        check_dtype(compute_type)
        check_reachable(model)
        import torch

        self.settings = settings
        self._name = model
        self.splits = split_sentences
        self._languages = (src_lang, tgt_lang)
        self._dtype = compute_type
        inner = load_transformers_tokenizer(model)
        self._tokenizer = transformers_tokenizer(inner, src_lang, tgt_lang)
        self._ids = inner.convert_tokens_to_ids
        self._pieces = inner.convert_ids_to_tokens
        self._device = torch_device(device)
        if threads is not None:
            torch.set_num_threads(check_threads(threads))
        self._model = load_model(model, compute_type, self._device)
        self._positions = model_positions(self._model.config)

    def described(self) -> dict[str, Any]:
        settings = {
            "model": f"{self._name}@{revision(self._model)}",
            **super().described(),
            "compute": self._dtype,
            "split": self.splits or None,
            "languages": spelled_languages(*self._languages),
        }
        return {name: value for name, value in settings.items() if value is not None}

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        for id, source in enumerate(sources):
            if id < skip:
                continue
            check_text(source, f"segment {id}")
            if self._tokenizer.is_blank(source, self._tokenizer.encode(source)):
                yield self.blank(source, id)
            else:
                yield self.joined(source, self._candidates(source, id), id)

    def generate_arriving(
        self, sources: Iterable[str], idle: Callable[[], bool], *, skip: int = 0
    ) -> Iterator[Record | Pause]:
        return with_pauses(self.generate(sources, skip=skip), idle)

    def _candidates(self, source: str, id: int) -> list[list[Candidate]]:
        """The candidates of each sentence."""
        import torch

        try:
            with torch.inference_mode():
                return [self._translate(sentence, id, part) for part, sentence in enumerate(self.sentences(source))]
        except torch.OutOfMemoryError as exc:
            raise ResourceError(f"out of memory while translating segment {id}; lower --nbest or --max-length") from exc
        except (RuntimeError, ValueError, IndexError) as exc:
            raise ModelError(f"{self._name}: transformers failed on segment {id}: {exc}") from exc

    def _translate(self, text: str, id: int, part: int) -> list[Candidate]:
        import torch

        tokens = self.fitted(self._tokenizer.encode(text), self._tokenizer.end, self._positions, id)
        source = torch.tensor([self._ids(tokens)], device=self._device)
        digest = hashlib.blake2b(f"{self.settings.seed} {id} {part}".encode(), digest_size=7).digest()
        torch.manual_seed(int.from_bytes(digest, "big"))
        sequences = self._model.generate(
            input_ids=source, attention_mask=torch.ones_like(source), **self._options()
        )  # [nbest, tokens], the decoder's start token first
        logprobs, finished = self._scores(source, sequences)
        self.count_cut_off(finished.count(False))
        return [
            Candidate(self._tokenizer.decode(self._pieces(sequence[1:].tolist())), logprob)
            for sequence, logprob in zip(sequences, logprobs, strict=True)
        ]

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        prefix = self._tokenizer.languages.target_tokens
        options: dict[str, Any] = {
            "num_return_sequences": settings.nbest,
            "max_new_tokens": min(settings.max_length + len(prefix), self._positions or 10**9),
            "forced_eos_token_id": None,  # some models end what they cut off, which would hide the cut
        }
        if prefix:
            options["forced_bos_token_id"] = self._ids(prefix[0])
        if settings.method == "beam":
            penalty = 1.0 if settings.length_penalty is None else settings.length_penalty
            options |= {"do_sample": False, "num_beams": settings.beams, "length_penalty": penalty}
            # As in CTranslate2: the search ends when as many hypotheses as beams have ended.
            return options | {"early_stopping": True}
        # transformers keeps the top 50 unless top_k is set.
        options |= {"do_sample": True, "num_beams": 1, "temperature": settings.temperature or 1.0}
        options |= {"top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
        if settings.method == "epsilon":
            options["epsilon_cutoff"] = settings.epsilon or DEFAULT_EPSILON
        return options

    def _scores(self, source: Any, sequences: Any) -> tuple[list[float], list[bool]]:
        """Log-probability of each hypothesis up to and with its end token; and whether it has one."""
        import torch

        config = self._model.generation_config
        ends = torch.tensor(config.eos_token_id, device=sequences.device).reshape(-1)
        # A forced first token is given, not predicted.
        first = 1 + len(self._tokenizer.languages.target_tokens)
        target = sequences[:, first:]
        ended = torch.isin(target, ends)
        counted = ended.int().cumsum(1) - ended.int() == 0  # up to the first end token
        encoded = self._model.get_encoder()(input_ids=source)
        logprobs = []
        for begin in range(0, len(sequences), 16):
            rows = sequences[begin : begin + 16]
            memory = encoded.last_hidden_state.expand(len(rows), -1, -1)
            logits = self._model(encoder_outputs=(memory,), decoder_input_ids=rows[:, :-1]).logits[:, first - 1 :]
            chosen = logits.float().log_softmax(-1).gather(2, target[begin : begin + 16, :, None])[:, :, 0]
            logprobs += chosen.masked_fill(~counted[begin : begin + 16], 0).sum(1).tolist()
        return logprobs, ended.any(1).tolist()
