"""Candidates from a chat server that speaks OpenAI's protocol (vLLM, SGLang, llama.cpp, hosted ones): samples only.

Every source becomes a conversation of one message, made from a prompt template; the server's choices become its
candidates. A request follows from the settings, the segment and its place, never from the number of concurrent
requests, so a server that honours seeds returns the same candidates again. A server that returns fewer choices than
requested is asked again for the rest. A segment whose request fails after all retries becomes a `BadRecord` among the
lists; only a wrong key, address or model ends the run.

    settings = Settings(nbest=16, method="sample", temperature=0.8)
    with ServerGenerator("http://localhost:8000/v1", settings, src_lang="English", tgt_lang="German") as generator:
        for item in generator.generate(["A dog runs."]):
            print(item)
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import count
from typing import Any, ClassVar

from candidates.backends.base import Generator
from candidates.backends.openai.prompt import Prompt
from candidates.chat.answers import choice_logprob, choice_text
from candidates.chat.client import Server, only_model
from candidates.common.arrivals import PAUSE, Pause, without_pauses
from candidates.common.errors import InputError, UsageError
from candidates.formats import BadRecord, Record
from candidates.lists import Candidate, CandidateList, check_text
from candidates.settings import Method, Settings

_CHOICES = 128  # the most that OpenAI returns at once; it also bounds the size of one answer
_LOOK_AHEAD = 4  # sources in flight per concurrent request, so that one slow answer does not stop the others


class ServerGenerator(Generator):
    """A chat server as a generator. `model` is its base address, such as `http://localhost:8000/v1`.

    `server_model` is the model's name there; it may be left out for a server that has only one. `prompt` is a template
    with `{source}`, `{src_lang}` and `{tgt_lang}`, or `@` and the name of a file that holds one. The key is taken from
    the environment variable OPENAI_API_KEY.
    """

    name = "openai"
    default_method: ClassVar[Method] = "sample"

    def __init__(
        self,
        model: str,
        settings: Settings,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        server_model: str | None = None,
        prompt: str | None = None,
        concurrency: int = 8,
        retries: int = 5,
        timeout: float = 120.0,
        split_sentences: bool = False,
    ) -> None:
        super().__init__()
        if settings.method != "sample":
            raise UsageError(f"a chat server has no method {settings.method}; give --method sample")
        if not 1 <= concurrency <= 1000:
            raise UsageError(f"--concurrency {concurrency} is out of range; expected a number from 1 to 1000")
        self.settings = settings
        self._prompt = Prompt(prompt, src_lang=src_lang, tgt_lang=tgt_lang)
        self.splits = split_sentences
        self._look_ahead = _LOOK_AHEAD * concurrency
        self._server = Server(model, retries=retries, timeout=timeout)
        self._server_model = server_model or only_model(self._server)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="openai")

    def described(self) -> dict[str, Any]:
        settings = {
            "model": self._server_model,
            **super().described(),
            # A setting that is not sent is the server's choice: vLLM may take it from a generation_config.json.
            "top-k": self.settings.top_k or "server",
            "top-p": self.settings.top_p or "server",
            "prompt": self._prompt.digest,
            "split": self.splits or None,
            "languages": self._prompt.languages,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def close(self) -> None:
        """Interrupt the requests that are running, and end the threads."""
        self._server.close()
        self._pool.shutdown(cancel_futures=True)

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        return without_pauses(self.generate_arriving(sources, lambda: False, skip=skip))

    def generate_arriving(
        self, sources: Iterable[str], idle: Callable[[], bool], *, skip: int = 0
    ) -> Iterator[Record | Pause]:
        waiting: deque[Future[Record]] = deque()
        try:
            for id, source in enumerate(sources):
                if id >= skip:
                    waiting.append(self._pool.submit(self._record, id, source))
                pause = idle()
                while waiting and (pause or len(waiting) >= self._look_ahead or waiting[0].done()):
                    yield waiting.popleft().result()
                if pause:
                    yield PAUSE
            while waiting:
                yield waiting.popleft().result()
        except CancelledError as exc:
            raise UsageError("the generator was closed while candidates were being made; keep it open") from exc
        finally:
            for future in waiting:
                future.cancel()

    def _record(self, id: int, source: str) -> Record:
        try:
            return self._list(id, source) if source.strip() else self.blank(source, id)
        except InputError as exc:
            return BadRecord(id, exc, source)

    def _list(self, id: int, source: str) -> CandidateList:
        check_text(source, f"segment {id}")
        lists = [self._candidates(id, part, sentence) for part, sentence in enumerate(self.sentences(source))]
        return self.joined(source, lists, id)

    def _candidates(self, id: int, part: int, text: str) -> list[Candidate]:
        """The samples of one sentence: `nbest` of them, unless the server stops returning any."""
        wanted = self.settings.nbest
        candidates: list[Candidate] = []
        reason = "asked for the rest, the server returned no further text"
        for attempt in count():
            number = min(wanted - len(candidates), _CHOICES)
            body = self._body(text, number, _seed(self.settings.seed, id, part, attempt))
            try:
                choices = self._server.ask("/chat/completions", "choices", body)
            except InputError as exc:
                if not candidates:
                    raise InputError(f"segment {id}: {exc}") from exc
                reason = str(exc)
                break
            new = [candidate for choice in choices[:number] if (candidate := self._candidate(choice)) is not None]
            candidates += new
            if len(candidates) == wanted or not new:
                break
        sentence = f" for sentence {part + 1}" if self.splits else ""
        if not candidates:
            raise InputError(
                f"segment {id}: none of {wanted} candidates{sentence}: the server's choices hold no text; expected "
                "some in message.content; try the prompt by hand, or raise --max-length for a reasoning model"
            )
        if len(candidates) < wanted:
            self.notices.append(f"segment {id}: {len(candidates)} of {wanted} candidates{sentence}; {reason}")
        return candidates

    def _body(self, text: str, number: int, seed: int) -> dict[str, Any]:
        body = {
            "model": self._server_model,
            "messages": [{"role": "user", "content": self._prompt.filled(text)}],
            "n": number,
            "temperature": self.settings.temperature or 1.0,
            "top_p": self.settings.top_p,
            "top_k": self.settings.top_k,
            "seed": seed,
            "logprobs": True,
            "max_tokens": self.settings.max_length,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _candidate(self, choice: Any) -> Candidate | None:
        text = choice_text(choice)
        if text is None:
            return None
        if choice.get("finish_reason") == "length":
            self.count_cut_off(1)
        return Candidate(text, choice_logprob(choice))


def _seed(*parts: int) -> int:
    """31 bits that follow from the run's seed, the segment, the sentence in it and the attempt."""
    digest = hashlib.blake2b(" ".join(map(str, parts)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
