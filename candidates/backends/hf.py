"""Candidates from a transformers sequence-to-sequence model, for models that CTranslate2 cannot run.

Every source is one call of `generate` with a seed of its own, so candidates do not depend on what else is in a batch.
Log-probabilities come from a second pass over the finished hypotheses: the model's own, at temperature one and
before any cut-off, whatever the method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from candidates.backends.sentences import join_candidates, split_sentences
from candidates.backends.tokens import load_transformers_tokenizer, transformers_tokenizer
from candidates.common.errors import ModelError, ResourceError, UsageError
from candidates.formats import Record
from candidates.generation import DEFAULT_EPSILON, Generator, Settings, blank, bundled_models
from candidates.lists import Candidate, CandidateList, check_text

DTYPES = ("float32", "float16", "bfloat16")


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
        split_sentences: bool = False,
    ) -> None:
        import torch

        super().__init__()
        if settings.patience is not None:
            raise UsageError("--patience goes with the back-end ct2; transformers has no such setting")
        if compute_type not in DTYPES:
            raise UsageError(f"--compute-type {compute_type} is unknown to hf; expected one of {', '.join(DTYPES)}")
        self.settings = settings
        self._name = model
        self._split = split_sentences
        self._languages = (src_lang, tgt_lang)
        self._dtype = compute_type
        inner = load_transformers_tokenizer(model)
        self._tokenizer = transformers_tokenizer(inner, src_lang, tgt_lang)
        self._ids = inner.convert_tokens_to_ids
        self._pieces = inner.convert_ids_to_tokens
        self._device = _torch_device(device)
        if threads is not None:
            torch.set_num_threads(threads)
        self._model = _load(model, getattr(torch, compute_type), self._device)
        config = self._model.config
        self._positions = None if hasattr(config, "relative_attention_num_buckets") else _positions(config)

    def described(self) -> dict[str, Any]:
        known = {
            "model": f"{self._name}@{getattr(self._model.config, '_commit_hash', None) or 'local'}",
            **super().described(),
            "compute": self._dtype,
            "split": self._split or None,
            "languages": ">".join(name or "" for name in self._languages) if any(self._languages) else None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        for id, source in enumerate(sources):
            if id < skip:
                continue
            check_text(source, f"segment {id}")
            if self._tokenizer.is_blank(source, self._tokenizer.encode(source)):
                yield blank(source, id, self.settings.nbest)
            else:
                yield CandidateList.of(source, self._candidates(source, id), id=id)

    def _candidates(self, source: str, id: int) -> list[Candidate]:
        import torch

        sentences = split_sentences(source) if self._split else [source]
        try:
            with torch.inference_mode():
                return join_candidates([self._translate(sentence, id, part) for part, sentence in enumerate(sentences)])
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
        known: dict[str, Any] = {
            "num_return_sequences": settings.nbest,
            "max_new_tokens": min(settings.max_length + len(prefix), self._positions or 10**9),
            "forced_eos_token_id": None,  # some models end what they cut off, which would hide that they did
        }
        if prefix:
            known["forced_bos_token_id"] = self._ids(prefix[0])
        if settings.method == "beam":
            penalty = 1.0 if settings.length_penalty is None else settings.length_penalty
            known |= {"do_sample": False, "num_beams": settings.beams, "length_penalty": penalty}
            return known | {"early_stopping": True}  # as many ended hypotheses as beams end it, as in CTranslate2
        # transformers keeps the top 50 unless told otherwise.
        known |= {"do_sample": True, "num_beams": 1, "temperature": settings.temperature or 1.0}
        known |= {"top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
        if settings.method == "epsilon":
            known["epsilon_cutoff"] = settings.epsilon or DEFAULT_EPSILON
        return known

    def _scores(self, source: Any, sequences: Any) -> tuple[list[float], list[bool]]:
        """Log-probability of each hypothesis up to and with its end token; and whether it has one."""
        import torch

        config = self._model.generation_config
        ends = torch.tensor(config.eos_token_id, device=sequences.device).reshape(-1)
        # A first token that is forced is given, not predicted.
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


def _load(model: str, dtype: Any, device: str) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    with suppress(AttributeError):
        transformers.logging.disable_progress_bar()
    try:
        network = transformers.AutoModelForSeq2SeqLM.from_pretrained(model, torch_dtype=dtype)
    except (OSError, ValueError, RuntimeError, KeyError) as exc:
        raise ModelError(
            f"{model}: transformers cannot load it as a translation model: {exc}. Expected a folder or a hub name of "
            f"a sequence-to-sequence model, or a bundled model ({', '.join(bundled_models())})"
        ) from exc
    try:
        return network.to(device).eval()
    except (RuntimeError, AssertionError) as exc:
        raise UsageError(f"device {device!r} cannot be used: {exc}") from exc


def _positions(config: Any) -> int | None:
    known = getattr(config, "max_position_embeddings", None)
    return int(known) if known else None


def _torch_device(name: str) -> str:
    import torch

    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
