"""A chat model as a judge: u(i, j) is by how much it prefers candidate i to candidate j, from -3 to 3.

Every pair is a request to a server, so the strategy bounds the calls: `race` decides a list of 100 candidates with
about 150 requests, where all pairs would take 4,950. Models favour a place (the first translation, more often than
not); `race` shows each candidate as often first as second and some pairs in both orders, which measures the bias.
With `orders=both` every pair is asked in both orders, for twice the calls, and half the difference is its score.

An answer that cannot be read, after two repeats, counts as a tie. A request that fails after its retries leaves the
pair without a score, so that its list fails (`--on-error`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from candidates.chat.questions import Chat, Question
from candidates.chat.reading import Unreadable, json_object
from candidates.chat.template import Message, Template
from candidates.common.errors import InputError, UsageError
from candidates.common.language_names import language_name
from candidates.common.notes import note
from candidates.common.words import counted
from mbr.utilities.base import PairUtility, Triple, Work
from mbr.utilities.order_bias import OrderBias

PROMPT = Path(__file__).with_name("llm.txt")
LARGEST_DEGREE = 3.0
ANSWER_TOKENS = 20  # of an answer, for --dry-run
_TIES = ("tie", "equal", "same", "neither", "none", "c")
_WORD = re.compile(r"\W*(?:translation|candidate|answer|verdict|better)?\W*([abc]|tie|equal)\W*", re.IGNORECASE)


class LanguageModel(PairUtility):
    """A judge behind a server that speaks OpenAI's protocol.

    Args:
        model: the server's base address, such as `http://localhost:8000/v1`; the key is taken from OPENAI_API_KEY.
        server_model: the model's name there (default: its only one).
        prompt: a file with `{source}`, `{a}` and `{b}`, maybe `{src_lang}` and `{tgt_lang}` (default: ours).
        src_lang, tgt_lang: names or codes of the languages, for a prompt that has their places.
        orders: `one` order of each pair that the strategy asks for, or `both`.
        calls, tokens: at most, in this run; then it ends with an error, and a run that is resumed goes on from there.
        concurrency, retries, timeout, cache, temperature, max_tokens, body: as of `candidates.chat.questions.Chat`.
    """

    name = "llm"
    summary = "a chat model compares two candidates: one request per pair"
    needs = "a chat server (--model http://HOST/v1); its key in OPENAI_API_KEY"
    relation = "antisymmetric"
    default_strategy = "race"
    traits = ("referenceless",)
    family = "llm"
    remote = True
    run_options = ("concurrency", "retries", "timeout", "calls", "tokens", "cache")
    # Answers cost money: decide and commit often.
    window_passes = 512

    def __init__(
        self,
        *,
        model: str | None = None,
        server_model: str | None = None,
        prompt: str | None = None,
        src_lang: str = "",
        tgt_lang: str = "",
        orders: Literal["one", "both"] = "one",
        concurrency: int = 8,
        retries: int = 5,
        timeout: float = 120.0,
        calls: int | None = None,
        tokens: int | None = None,
        cache: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        body: str | None = None,
    ) -> None:
        if model is None:
            raise UsageError("utility 'llm' has no server; give its address, --model http://localhost:8000/v1")
        if orders not in ("one", "both"):
            raise UsageError(f"orders={orders!r} is unknown; expected one or both")
        self._template = Template.read(prompt or PROMPT, ("source", "a", "b"), ("src_lang", "tgt_lang"))
        self._languages = _languages(self._template, src_lang, tgt_lang)
        self._both = orders == "both"
        self._chat = Chat(
            model,
            server_model=server_model,
            concurrency=concurrency,
            retries=retries,
            timeout=timeout,
            calls=calls,
            tokens=tokens,
            cache=cache,
            temperature=temperature,
            max_tokens=max_tokens,
            body=body,
            option=_spelled,
        )
        self._errors: dict[Triple, InputError] = {}  # of pairs that the server did not answer
        self.bias = OrderBias()
        self._ties = 0

    def settings(self) -> dict[str, object]:
        languages = {"languages": ">".join(self._languages.values())} if self._languages else {}
        orders = {"orders": "both"} if self._both else {}
        return {**self._chat.described(), "prompt": self._template.digest, **languages, **orders}

    def notes(self) -> list[str]:
        pairs = "two requests" if self._both else "a request"
        return [
            f"each pair is {pairs} to {self._chat.model} at {self._chat.address}; --budget N bounds the pairs per "
            "list, --option calls=N the requests of a run"
        ]

    def score_pairs(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        shown = [pair for triple in triples for pair in self._shown(triple)]
        questions = (Question(self._messages(triple), read_verdict) for triple in shown)
        scores = np.empty(len(shown), np.float32)
        for place, reading in enumerate(self._chat.ask(questions)):
            if reading.error is not None:
                note(f"a pair has no score: {reading.error}")
                scores[place] = np.nan
                self._errors[triples[place // 2 if self._both else place]] = reading.error
                continue
            self._ties += reading.value is None
            scores[place] = 0.0 if reading.value is None else reading.value
            self.bias.add(shown[place], float(scores[place]))
        return np.asarray((scores[0::2] - scores[1::2]) / 2 if self._both else scores, np.float32)

    def why_missing(self, triple: Triple) -> str:
        return str(self._errors.get(triple, ""))

    def report(self) -> list[tuple[str, dict[str, Any]]]:
        usage, bias = self._chat.usage, self.bias
        entries: list[tuple[str, dict[str, Any]]] = [(f"{self._chat.model}: {usage}", usage.record())]
        if self._ties:
            entries.append((f"{counted(self._ties, 'pair')} without an answer that can be read: taken as ties", {}))
        if bias.pairs:
            entries.append((str(bias), bias.record()))
        return entries

    def work(self) -> Work:
        return Work(self._chat.usage.tokens)

    @property
    def on_gpu(self) -> bool:
        """The server computes: CPU time here is not the cost."""
        return True

    def cost(self, triples: Sequence[Triple]) -> dict[str, Any]:
        shown = [pair for triple in triples for pair in self._shown(triple)]
        return {"tokens": round(sum(self._chat.prompt_tokens(self._messages(t)) + ANSWER_TOKENS for t in shown))}

    def close(self) -> None:
        self._chat.close()

    def _shown(self, triple: Triple) -> list[Triple]:
        source, first, second = triple
        return [triple, (source, second, first)] if self._both else [triple]

    def _messages(self, triple: Triple) -> list[Message]:
        source, first, second = triple
        return self._template.messages({"source": source, "a": first, "b": second, **self._languages})


def read_verdict(text: str) -> float:
    """By how much A is better, from -3 to 3, from an answer: JSON, or only `A`, `B`, `tie`, `[[A]]`.

    Raises:
        Unreadable: it is neither.
    """
    if "{" not in text:
        if word := _WORD.fullmatch(text):
            return _signed(word[1], 1.0)
        raise Unreadable(f"neither JSON nor A, B or tie, but {text!r:.60}")
    answer = json_object(text)
    better = answer.get("better")
    if not isinstance(better, str):
        raise Unreadable(f'"better" is {better!r:.40}; expected "A", "B" or "tie"')
    degree = answer.get("degree", 1)
    if isinstance(degree, bool) or not isinstance(degree, (int, float)) or not 0 <= degree <= LARGEST_DEGREE:
        raise Unreadable(f'"degree" is {degree!r:.40}; expected a number from 0 to {LARGEST_DEGREE:.0f}')
    return _signed(better, float(degree))


def _signed(better: str, degree: float) -> float:
    word = better.strip().lower().removeprefix("translation").strip()
    if word in _TIES:
        return 0.0
    if word not in ("a", "b"):
        raise Unreadable(f'"better" is {better!r:.40}; expected "A", "B" or "tie"')
    return degree if word == "a" else -degree


def _spelled(name: str) -> str:
    """An option of this utility in messages: mbr-decode takes `--option NAME=VALUE`, others a word behind a comma."""
    return f"the option {name}" + (f" (mbr-decode --option {name}=NAME)" if name == "server_model" else "")


def _languages(template: Template, src_lang: str, tgt_lang: str) -> dict[str, str]:
    languages = {"src_lang": language_name(src_lang), "tgt_lang": language_name(tgt_lang)}
    for name, value in languages.items():
        if name in template.places and not value:
            raise UsageError(f"the prompt has a place {{{name}}}, but no language was given for it; give {name}=NAME")
    return {name: value for name, value in languages.items() if name in template.places}
