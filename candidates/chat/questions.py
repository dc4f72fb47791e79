"""Questions to a chat model whose answers have a form: asked in parallel, cached, repeated where they cannot be read.

A question holds its messages and a function that reads the answer, or raises `Unreadable`. An unreadable answer
(garbage, a refusal, JSON that was cut off) is asked for again with another seed and some temperature; the answers that
could not be read are returned with the reading. Requests never depend on the number of threads, and results come in the
order of the questions, so a run that is repeated from the cache gives the same results.

    with Chat("http://localhost:8000/v1", calls=200) as chat:
        for reading in chat.ask(Question(messages, read) for messages in ...):
            print(reading.value)
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from candidates.chat.answer_store import AnswerStore, request_key
from candidates.chat.answers import choice_text
from candidates.chat.budget import Budget, BudgetSpent, Usage, prompt_tokens, tokens_of
from candidates.chat.client import Refused, Server, flag, only_model
from candidates.chat.reading import Unreadable
from candidates.chat.template import Message
from candidates.common.closing import Closing
from candidates.common.errors import InputError, ModelError, UsageError

Value = TypeVar("Value")

NO_CACHE = "none"
REPEATS = 2  # of a question whose answer cannot be read
REPEAT_TEMPERATURE = 0.7  # at least: at 0 most servers return the same answer again
FIRST_ANSWERS = 20  # where none of them can be read, the prompt does not fit the model
_LOOK_AHEAD = 4  # questions in flight per concurrent request, so that one slow answer does not stop the others


@dataclass(frozen=True)
class Question(Generic[Value]):
    """What to ask, how to read the answer, and the seed of this question among equal ones."""

    messages: list[Message]
    read: Callable[[str], Value]
    seed: int = 0


@dataclass(frozen=True)
class Rejected:
    """An answer that could not be read; `text` is None where the server refused or returned no text."""

    text: str | None
    reason: str


@dataclass(frozen=True)
class Reading(Generic[Value]):
    """What became of a question: a value, or the answers that could not be read, or the error of its requests."""

    value: Value | None
    rejected: tuple[Rejected, ...] = ()
    error: InputError | None = None


class Chat(Closing):
    """A model on a chat server, with a budget and a cache.

    Args:
        address: the server's base address, such as `http://localhost:8000/v1`; the key is taken from OPENAI_API_KEY.
        server_model: the model's name there; may be left out for a server that has only one.
        concurrency: requests at once, at most.
        retries, timeout: of a request (`candidates.chat.client`).
        calls, tokens: the budget; None is no limit.
        cache: the file of answers (default: in the cache folder), or `none`.
        temperature, max_tokens: of every request.
        body: more fields of the request, as a mapping or JSON; null takes a field out.
        option: spells the name of an option in messages.
    """

    def __init__(
        self,
        address: str,
        *,
        server_model: str | None = None,
        concurrency: int = 8,
        retries: int = 5,
        timeout: float = 120.0,
        calls: int | None = None,
        tokens: int | None = None,
        cache: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        body: str | dict[str, Any] | None = None,
        option: Callable[[str], str] = flag,
    ) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= 1000:
            raise UsageError(f"concurrency {concurrency!r} is out of range; expected a number from 1 to 1000")
        if not 0 <= temperature <= 2:
            raise UsageError(f"temperature {temperature!r} is out of range; expected a number from 0 to 2")
        if not 1 <= max_tokens <= 1_000_000:
            raise UsageError(f"max-tokens {max_tokens!r} is out of range; expected a number from 1 to 1000000")
        self._fields = {"temperature": temperature, "max_tokens": max_tokens}
        self._more = _fields(body)
        self._budget = Budget(calls, tokens, kept=cache != NO_CACHE)
        self._server = Server(address, retries=retries, timeout=timeout, option=option)
        self.model = server_model or only_model(self._server)
        self._store = None if cache == NO_CACHE else AnswerStore(cache)
        self._concurrency = concurrency
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="chat")
        self._lock = threading.Lock()
        self._readable = self._unreadable = self._unanswered = 0

    @property
    def usage(self) -> Usage:
        return self._budget.usage

    @property
    def address(self) -> str:
        return self._server.address

    def described(self) -> dict[str, object]:
        """What the answers depend on, beside the messages, for signatures."""
        more = {} if not self._more else {"body": json.dumps(self._more, sort_keys=True)}
        return {"server": self.address, "model": self.model, **self._fields, **more}

    def close(self) -> None:
        self._server.close()
        self._pool.shutdown(cancel_futures=True)
        if self._store is not None:
            self._store.close()

    def prompt_tokens(self, messages: list[Message]) -> float:
        """About how many tokens a prompt has."""
        return prompt_tokens({"messages": messages})

    def ask(self, questions: Iterable[Question[Value]]) -> Iterator[Reading[Value]]:
        """The readings of the questions, in their order; a few questions are asked ahead.

        Raises:
            BudgetSpent: the budget does not suffice for the next question.
            ModelError: the key, the address or the model is wrong, the server does not answer any more, or none of
                the first answers can be read.
        """
        waiting: deque[Future[Reading[Value]]] = deque()
        try:
            for question in questions:
                waiting.append(self._pool.submit(self._ask, question))
                while waiting and (len(waiting) >= _LOOK_AHEAD * self._concurrency or waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BudgetSpent:
            for future in waiting:
                future.cancel()
            wait(waiting)  # answers on their way belong to the budget: they are kept
            raise
        except CancelledError as exc:
            raise UsageError("the chat was closed while questions were being asked; keep it open") from exc
        finally:
            for future in waiting:
                future.cancel()

    def _ask(self, question: Question[Value]) -> Reading[Value]:
        rejected: list[Rejected] = []
        for attempt in range(REPEATS + 1):
            try:
                text, finish = self._answer(self._body(question, attempt))
            except Refused as exc:
                self._budget.count("invalid")
                rejected.append(Rejected(None, str(exc)))
                break
            except InputError as exc:
                return self._unanswered_question(exc, rejected)
            try:
                if text is None:
                    raise Unreadable(f"no text (finish_reason {finish!r})")
                value = question.read(text)
            except Unreadable as exc:
                cut = "; it was cut off at the limit of tokens" if finish == "length" else ""
                rejected.append(Rejected(text, f"{exc}{cut}"))
                self._budget.count("invalid")
                continue
            with self._lock:
                self._readable += 1
            return Reading(value, tuple(rejected))
        self._check_readable(rejected)
        return Reading(None, tuple(rejected))

    def _body(self, question: Question[Value], attempt: int) -> dict[str, Any]:
        body = {"model": self.model, "messages": question.messages, **self._fields, "seed": question.seed}
        if attempt:
            body["temperature"] = max(self._fields["temperature"], REPEAT_TEMPERATURE)
            body["seed"] = question.seed + 1_000_003 * attempt
        return {name: value for name, value in (body | self._more).items() if value is not None}

    def _answer(self, body: dict[str, Any]) -> tuple[str | None, str]:
        """The text of an answer and why it ended, from the cache or from the server."""
        key = request_key(self.address, body)
        kept = None if self._store is None else self._store.get(key)
        if kept is not None:
            self._budget.count("cached")
            return kept.get("text"), str(kept.get("finish"))
        taken: list[float] = []

        def sending() -> None:
            while taken:  # an attempt before has failed
                self._budget.give_up(taken.pop())
            taken.append(self._budget.spend(prompt_tokens(body)))

        try:
            answer = self._server.answer("/chat/completions", "choices", body, sending)
        except BaseException:
            while taken:
                self._budget.give_up(taken.pop())
            raise
        choice = answer["choices"][0] if answer["choices"] else {}
        text = choice_text(choice)
        finish = str(choice.get("finish_reason")) if isinstance(choice, dict) else "None"
        tokens, estimated = tokens_of(body, answer, text)
        self._budget.settle(taken.pop(), tokens, estimated=estimated)
        with self._lock:
            self._unanswered = 0
        if self._store is not None:
            self._store.put(key, {"text": text, "finish": finish, "tokens": tokens})
        return text, finish

    def _unanswered_question(self, error: InputError, rejected: list[Rejected]) -> Reading[Value]:
        """A question that fails; where all fail, the server is down, and the others would take hours to find out."""
        self._budget.count("failed")
        with self._lock:
            self._unanswered += 1
            down = self._unanswered >= 2 * self._concurrency
        if down:
            raise ModelError(f"the server answers no question any more: {error}") from error
        return Reading(None, tuple(rejected), error)

    def _check_readable(self, rejected: list[Rejected]) -> None:
        with self._lock:
            self._unreadable += 1
            hopeless = not self._readable and self._unreadable >= FIRST_ANSWERS
        if hopeless:
            last = rejected[-1]
            raise ModelError(
                f"none of the first {FIRST_ANSWERS} questions has an answer that can be read, the last: {last.reason}: "
                f"{last.text!r:.200}; check the prompt and the model by hand, or raise the limit of tokens"
            )


def _fields(body: str | dict[str, Any] | None) -> dict[str, Any]:
    """More fields of a request, from a mapping or its JSON."""
    try:
        fields = json.loads(body) if isinstance(body, str) else body
    except ValueError as exc:
        raise UsageError(f'body {body!r:.80} is not JSON: {exc}; expected an object such as {{"top_p": 0.9}}') from exc
    if fields is not None and not isinstance(fields, dict):
        raise UsageError(f'body {body!r:.80} is no JSON object; expected one such as {{"top_p": 0.9}}')
    reserved = sorted({"model", "messages", "n", "stream"} & set(fields or {}))
    if reserved:
        raise UsageError(f"body: {reserved[0]!r} is set by this program; leave it out")
    return dict(fields or {})
