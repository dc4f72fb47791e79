"""Candidates from a CTranslate2 model: n-best beams, samples, and exact epsilon samples.

Sources are translated in chunks of a fixed size, whatever the number of threads: the candidates of a source depend on
its chunk only, so a resumed run gives the same candidates as an uninterrupted one. CTranslate2 cannot seed the random
numbers of an existing translator again, and two workers share one stream; therefore every chunk of samples has a new
translator with one worker and a seed of its own. Each worker computes with one thread, since results may differ in the
last digit between numbers of threads.

Where lines arrive slowly, a chunk is translated in parts. Beams and epsilon samples of a source do not depend on what
is translated with it, apart from rounding; samples are then drawn source by source from the chunk's stream of random
numbers, which gives those of `generate` where it draws so as well: for lists of more than 64 candidates.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from candidates.backends import epsilon
from candidates.backends.base import Generator
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
from candidates.backends.tokens import open_tokenizer, read_vocabulary, spelled_languages
from candidates.common.arrivals import PAUSE, Pause, without_pauses
from candidates.common.errors import MbrError, UsageError
from candidates.formats import Record
from candidates.lists import Candidate, check_text
from candidates.settings import DEFAULT_EPSILON, Settings

CHUNK = 16

_ROWS = 128  # samples drawn in one call; fixed, since it decides which random number goes where
_LOOK_AHEAD = 16  # greedy steps that an epsilon call takes beyond its prefix
_LOGITS = 2**25  # about how many numbers an epsilon call may return
_BATCH_TOKENS = 8192  # source tokens of a batch of beams, times the beam size
_WIDE = 50  # beams from which on batches are smaller on a CPU, where one step's probabilities should stay in its cache
_BATCH_WORDS = 2**26  # of these, tokens of a batch times the vocabulary
_NEVER = -1e30
_seeding = threading.Lock()


@dataclass(frozen=True)
class Unit:
    """A source, or one sentence of it: what is translated in one piece."""

    tokens: list[str]
    id: int


@dataclass
class Chunk:
    """Sources from a place that is a multiple of `CHUNK`, and what was drawn for the parts of it that are done.

    `in_parts`: it may be translated in several, whose candidates must not depend on where one ends.
    """

    start: int
    in_parts: bool
    units: int = 0
    translator: Any = None
    shuffle: Any = None


class Ct2Generator(Generator):
    """A CTranslate2 translator folder (Marian, OPUS-MT, NLLB, M2M100, T5, MADLAD, ours) as a generator."""

    name = "ct2"

    def __init__(
        self,
        model: str,
        settings: Settings,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        device: str = "auto",
        compute_type: str = "default",
        threads: int | None = None,
        batch_tokens: int | None = None,
        split_sentences: bool = True,
    ) -> None:
        super().__init__()
        check_compute_type(compute_type)
        self.settings = settings
        self._folder = ct2_folder(model)
        self._tokenizer = open_tokenizer(self._folder, src_lang, tgt_lang)
        self._prefix = list(self._tokenizer.languages.target_tokens)
        self._positions = known_positions(self._folder)
        self._device = ct2_device(device)
        self._compute_type = compute_type
        self._workers = worker_count(self._device[0], threads)
        self.splits = split_sentences
        self._languages = (src_lang, tgt_lang)
        self._vocabulary = read_vocabulary(self._folder)
        self._given_batch_tokens = batch_tokens
        if settings.method == "epsilon":
            self._ids = {token: id for id, token in enumerate(self._vocabulary)}
        self._closing = threading.Event()
        self._translator = self._load(self._workers)
        self._computed_as: str = self._translator.compute_type
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="ct2")

    def described(self) -> dict[str, Any]:
        settings = {
            "model": f"{self._folder.name}@{self._digest}",
            **super().described(),
            "compute": self._computed_as,
            "split": self.splits or None,
            "languages": spelled_languages(*self._languages),
        }
        if self.settings.method == "beam":
            settings["batch-tokens"] = self._batch_tokens  # int8 beams differ a little between batches
        return {name: value for name, value in settings.items() if value is not None}

    @property
    def _batch_tokens(self) -> int:
        if self._given_batch_tokens is not None:
            return self._given_batch_tokens
        if self._device[0] != "cpu" or self.settings.beams < _WIDE:
            return _BATCH_TOKENS
        return min(_BATCH_TOKENS, max(1, _BATCH_WORDS // len(self._vocabulary)))

    @cached_property
    def _digest(self) -> str:
        return weights_digest(self._folder)

    def close(self) -> None:
        self._closing.set()  # a running chunk may need minutes more
        self._pool.shutdown(cancel_futures=True)
        self._translator.unload_model()

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        return without_pauses(self._generate(sources, None, skip))

    def generate_arriving(
        self, sources: Iterable[str], idle: Callable[[], bool], *, skip: int = 0
    ) -> Iterator[Record | Pause]:
        return self._generate(sources, idle, skip)

    def _generate(self, sources: Iterable[str], idle: Callable[[], bool] | None, skip: int) -> Iterator[Record | Pause]:
        """Chunk by chunk; parts of one are translated one after another, since a pause waits for what came before."""
        waiting: deque[tuple[int, Future[list[Record]]]] = deque()
        chunk = Chunk(0, idle is not None)
        part: list[str] = []

        def submit() -> None:
            start = place + 1 - len(part)
            # Of samples the whole chunk is drawn again.
            if place >= skip or (self.settings.method == "sample" and chunk.start + CHUNK > skip):
                waiting.append((start, self._pool.submit(self._translate, chunk, start, part)))

        try:
            for place, source in enumerate(sources):
                part.append(source)
                pause = idle is not None and idle()
                full = (place + 1) % CHUNK == 0
                if full or pause:
                    submit()
                    part = []
                chunk = Chunk(place + 1, idle is not None) if full else chunk
                while waiting and (pause or len(waiting) > self._workers):
                    yield from _wanted(*waiting.popleft(), skip)
                if pause:
                    yield PAUSE
            if part:
                submit()
            while waiting:
                yield from _wanted(*waiting.popleft(), skip)
        except CancelledError as exc:
            raise UsageError("the generator was closed while candidates were being made; keep it open") from exc
        finally:
            for _, future in waiting:
                future.cancel()

    def _translate(self, chunk: Chunk, start: int, sources: list[str]) -> list[Record]:
        """The candidate lists of a chunk, or of the next part of it: the sources from the place `start`.

        A limit of positions that the folder does not record is in the error.
        """
        positions = self._positions
        try:
            return self._lists(chunk, start, sources)
        except MbrError:
            raise
        except (ValueError, RuntimeError) as exc:
            limit = position_limit(exc)
            if limit is not None and limit != positions:
                self._positions = limit
                return self._translate(Chunk(chunk.start, chunk.in_parts, chunk.units), start, sources)
            raise ct2_error(self._folder, exc, "lower --batch-tokens or --nbest") from exc

    def _lists(self, chunk: Chunk, start: int, sources: list[str]) -> list[Record]:
        units = [unit for id, source in enumerate(sources, start) for unit in self._units(source, id)]
        method = {"beam": self._beams, "sample": self._samples, "epsilon": self._epsilon_samples}[self.settings.method]
        lists: dict[int, list[list[Candidate]]] = {}
        for unit, candidates in zip(units, method(chunk, units) if units else [], strict=True):
            lists.setdefault(unit.id, []).append(candidates)
        chunk.units += len(units)
        return [
            self.joined(source, lists[id], id) if id in lists else self.blank(source, id)
            for id, source in enumerate(sources, start)
        ]

    def _units(self, source: str, id: int) -> list[Unit]:
        """The parts of a source to translate: none in a blank one, or in one of invisible characters."""
        check_text(source, f"segment {id}")
        encode, end = self._tokenizer.encode, self._tokenizer.end
        parts = [(part, encode(part)) for part in self.sentences(source)]
        return [
            Unit(self.fitted(tokens, end, self._positions, id), id)
            for part, tokens in parts
            if not self._tokenizer.is_blank(part, tokens)
        ]

    def _options(self, *, max_length: int | None = None) -> dict[str, Any]:
        length = max_length or self.settings.max_length + len(self._prefix)
        return {
            "max_decoding_length": min(length, self._positions or length),
            "min_decoding_length": 0,  # the default takes the end's share from the first step's probabilities
            "max_input_length": 0,  # the default cuts silently; `fitted` has cut with a notice
            "return_scores": True,
            "return_end_token": True,
        }

    def _beams(self, chunk: Chunk, units: Sequence[Unit]) -> list[list[Candidate]]:
        settings = self.settings
        penalty = 1.0 if settings.length_penalty is None else settings.length_penalty
        results = self._translator.translate_batch(
            [unit.tokens for unit in units],
            target_prefix=[self._prefix] * len(units) if self._prefix else None,
            max_batch_size=max(1, self._batch_tokens // settings.beams),
            batch_type="tokens",
            beam_size=settings.beams,
            patience=settings.patience or 1,
            num_hypotheses=settings.nbest,
            length_penalty=penalty,
            **self._options(),
        )
        return [self._candidates(result, penalty) for result in results]

    def _samples(self, chunk: Chunk, units: Sequence[Unit]) -> list[list[Candidate]]:
        settings = self.settings
        if chunk.translator is None:
            chunk.translator = self._seeded_translator(chunk.start, max((unit.tokens for unit in units), key=len))
            chunk.shuffle = np.random.default_rng([settings.seed, chunk.start])
        several = 1 if chunk.in_parts else max(1, _ROWS // settings.nbest)
        lists = []
        for begin in range(0, len(units), several):
            self._stop_if_closing()
            batch = [unit.tokens for unit in units[begin : begin + several]]
            results = chunk.translator.translate_batch(
                batch,
                target_prefix=[self._prefix] * len(batch) if self._prefix else None,
                beam_size=1,
                num_hypotheses=settings.nbest,
                sampling_topk=settings.top_k or 0,  # zero is all; CTranslate2's own default is one, which is greedy
                sampling_topp=settings.top_p or 1,
                sampling_temperature=settings.temperature or 1,
                length_penalty=0,  # so that scores are log-probabilities
                **self._options(),
            )
            for result in results:
                candidates = self._candidates(result, 0)
                # They are sorted by score: the first few would not be a sample.
                lists.append([candidates[place] for place in chunk.shuffle.permutation(len(candidates))])
        return lists

    def _seeded_translator(self, start: int, tokens: list[str]) -> Any:
        """A new translator whose stream of random numbers belongs to this chunk."""
        import ctranslate2

        digest = hashlib.blake2b(f"{self.settings.seed} {start}".encode(), digest_size=4).digest()
        with _seeding:  # the seed is global, and taken when a worker first draws
            ctranslate2.set_random_seed(int.from_bytes(digest, "big"))
            translator = self._load(1)
            translator.translate_batch([tokens], sampling_topk=0, beam_size=1, max_decoding_length=1)
        return translator

    def _epsilon_samples(self, chunk: Chunk, units: Sequence[Unit]) -> list[list[Candidate]]:
        settings = self.settings
        lists = []
        for part, unit in enumerate(units, chunk.units):
            random = np.random.default_rng([settings.seed, chunk.start, part])
            draws = epsilon.sample(
                partial(self._paths, unit.tokens),
                draws=settings.nbest,
                epsilon=settings.epsilon or DEFAULT_EPSILON,
                temperature=settings.temperature or 1,
                max_length=min(settings.max_length, (self._positions or 10**9) - len(self._prefix)),
                end=self._ids[self._tokenizer.end],
                random=random,
            )
            self.count_cut_off(sum(draw.count for draw in draws if not draw.finished))
            candidates = [
                Candidate(self._tokenizer.decode([self._vocabulary[id] for id in draw.tokens]), draw.logprob)
                for draw in draws
                for _ in range(draw.count)
            ]
            lists.append([candidates[place] for place in random.permutation(len(candidates))])
        return lists

    def _paths(self, source: list[str], prefixes: list[epsilon.Prefix]) -> list[epsilon.Path]:
        """Greedy continuations with their logits. The batches of a source are always the same."""
        longest = max(map(len, prefixes)) + len(self._prefix) + _LOOK_AHEAD
        rows = max(1, _LOGITS // (len(self._vocabulary) * longest))
        paths = []
        for begin in range(0, len(prefixes), rows):
            self._stop_if_closing()
            part = prefixes[begin : begin + rows]
            prefixed = [self._prefix + [self._vocabulary[id] for id in prefix] for prefix in part]
            results = self._translator.translate_batch(
                [source] * len(part),
                target_prefix=prefixed,
                beam_size=1,
                return_logits_vocab=True,
                **self._options(max_length=longest),
            )
            for prefix, result in zip(prefixed, results, strict=True):
                tokens = [self._ids[token] for token in result.hypotheses[0][len(prefix) :]]
                logits = result.logits[0][len(prefix) : len(prefix) + len(tokens)]
                paths.append(epsilon.Path(tokens, np.stack([_numpy(row) for row in logits])))
        return paths

    def _stop_if_closing(self) -> None:
        if self._closing.is_set():
            raise CancelledError

    def _candidates(self, result: Any, penalty: float) -> list[Candidate]:
        """Hypotheses as candidates, their scores without the normalisation by length."""
        self.count_cut_off(sum(tokens[-1:] != [self._tokenizer.end] for tokens in result.hypotheses))
        return [
            Candidate(self._tokenizer.decode(tokens), score * len(tokens) ** penalty)
            for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            if score > _NEVER  # what fills a beam that has run out of hypotheses
        ]

    def _load(self, workers: int) -> Any:
        return load_translator(self._folder, self._device, self._compute_type, workers)


def _wanted(start: int, future: Future[list[Record]], skip: int) -> list[Record]:
    return future.result()[max(0, skip - start) :]


def _numpy(row: Any) -> Any:
    import ctranslate2

    return np.array(row if row.device == "cpu" else row.to_device(ctranslate2.Device.cpu))
