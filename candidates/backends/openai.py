"""Candidates from a chat server that speaks OpenAI's protocol (vLLM, SGLang, llama.cpp, hosted ones): samples only.

Every source becomes a conversation of one message, made from a prompt template; the server's choices become its
candidates. A request is decided by the settings, the segment and its place, never by how many requests run at a time,
so a server that honours seeds gives the same candidates again. Servers that give fewer choices than they are asked for
are asked again for the rest. Servers fail in many ways, so requests are tried again with growing waits; what stays
without an answer is one bad record among the lists, and only a wrong key, address or model ends the run.

    settings = Settings(nbest=16, method="sample", temperature=0.8)
    with ServerGenerator("http://localhost:8000/v1", settings, src_lang="English", tgt_lang="German") as generator:
        for item in generator.generate(["A dog runs."]):
            print(item)
"""

from __future__ import annotations

import hashlib
import http.client
import json
import math
import os
import random
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import SplitResult, urlsplit

from candidates.backends.sentences import join_candidates, split_sentences
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.common.text import lines
from candidates.formats import BadRecord, Record
from candidates.generation import Generator, Settings, blank
from candidates.lists import LARGEST, Candidate, CandidateList, check_text

PROMPT = (
    "Translate the following text from {src_lang} to {tgt_lang}. Answer with the translation only: "
    "no quotation marks around it, no notes, no explanations.\n\n{source}"
)
KEY_VARIABLE = "OPENAI_API_KEY"
BACK_OFF = 0.5  # seconds before the first new try; doubled with every further one
LONGEST_BACK_OFF = 30.0
LONGEST_RETRY_AFTER = 300.0  # a server may ask for a wait, but not for a night

_CHOICES = 128  # the most that OpenAI gives at once; it also keeps one answer's size within reason
_LOOK_AHEAD = 4  # sources in flight per request that may run, so that one slow answer does not stop the others
_CONNECT = 10.0  # seconds; an address that does not answer at all is known sooner than a slow translation
_LARGEST_ANSWER = 64 * 2**20  # bytes
_SHOWN = 200  # characters of a server's own message
_AGAIN = (408, 409, 429)  # and everything from 500
_PLACE = re.compile(r"\{([^\W\d]\w*)\}")


class ServerGenerator(Generator):
    """A chat server as a generator. `model` is its base address, such as `http://localhost:8000/v1`.

    `server_model` is the model's name there; a server that has only one need not be told. `prompt` is a template with
    `{source}`, `{src_lang}` and `{tgt_lang}`, or `@` and the name of a file that holds one. The key is taken from the
    environment variable OPENAI_API_KEY.
    """

    name = "openai"

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
            raise UsageError(f"a chat server draws samples, it has no method {settings.method}; give --method sample")
        if not 1 <= concurrency <= 1000:
            raise UsageError(f"--concurrency {concurrency} is out of range; expected a number from 1 to 1000")
        self.settings = settings
        languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        self._template = _read_template(PROMPT if prompt is None else prompt, languages)
        self._languages = {name: value or "" for name, value in languages.items() if f"{{{name}}}" in self._template}
        self._split = split_sentences
        self._look_ahead = _LOOK_AHEAD * concurrency
        self._server = _Server(model, retries=retries, timeout=timeout)
        self._server_model = server_model or _only_model(self._server)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="openai")

    def described(self) -> dict[str, Any]:
        known = {
            "model": self._server_model,
            **super().described(),
            # What is not asked for is the server's choice: vLLM may take it from a generation_config.json.
            "top-k": self.settings.top_k or "server",
            "top-p": self.settings.top_p or "server",
            "prompt": hashlib.blake2b(self._template.encode(), digest_size=4).hexdigest(),
            "split": self._split or None,
            "languages": ">".join(self._languages.get(name, "") for name in ("src_lang", "tgt_lang"))
            if self._languages
            else None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def close(self) -> None:
        """Requests under way are broken off, so that nobody waits for what nobody will read."""
        self._server.close()
        self._pool.shutdown(cancel_futures=True)

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        waiting: deque[Future[Record]] = deque()
        try:
            for id, source in enumerate(sources):
                if id >= skip:
                    waiting.append(self._pool.submit(self._record, id, source))
                while waiting and (len(waiting) >= self._look_ahead or waiting[0].done()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except CancelledError as exc:
            raise UsageError("the generator was closed while candidates were still on their way") from exc
        finally:
            for future in waiting:
                future.cancel()

    def _record(self, id: int, source: str) -> Record:
        try:
            return self._list(id, source) if source.strip() else blank(source, id, self.settings.nbest)
        except InputError as exc:
            return BadRecord(id, exc, source)

    def _list(self, id: int, source: str) -> CandidateList:
        check_text(source, f"segment {id}")
        sentences = split_sentences(source) if self._split else [source]
        lists = [self._candidates(id, part, sentence) for part, sentence in enumerate(sentences)]
        return CandidateList.of(source, join_candidates(lists), id=id)

    def _candidates(self, id: int, part: int, text: str) -> list[Candidate]:
        """The samples of one sentence: as many as were asked for, unless the server stops giving."""
        wanted = self.settings.nbest
        found: list[Candidate] = []
        reason = "asked for the rest, the server gave no further text"
        for attempt in count():
            number = min(wanted - len(found), _CHOICES)
            body = self._body(text, number, _seed(self.settings.seed, id, part, attempt))
            try:
                choices = self._server.ask("/chat/completions", "choices", body)
            except InputError as exc:
                if not found:
                    raise InputError(f"segment {id}: {exc}") from exc
                reason = str(exc)
                break
            new = [candidate for choice in choices[:number] if (candidate := self._candidate(choice)) is not None]
            found += new
            if len(found) == wanted or not new:
                break
        sentence = f" for sentence {part + 1}" if self._split else ""
        if not found:
            raise InputError(
                f"segment {id}: none of {wanted} candidates{sentence}: the server's choices hold no text; expected "
                "some in message.content; try the prompt by hand, or raise --max-length for a model that thinks first"
            )
        if len(found) < wanted:
            self.notices.append(f"segment {id}: {len(found)} of {wanted} candidates{sentence}; {reason}")
        return found

    def _body(self, text: str, number: int, seed: int) -> dict[str, Any]:
        values = {"source": text, **self._languages}
        message = _PLACE.sub(lambda place: values[place[1]], self._template)
        body = {
            "model": self._server_model,
            "messages": [{"role": "user", "content": message}],
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
        text = _text(choice)
        if text is None:
            return None
        if choice.get("finish_reason") == "length":
            self.count_cut_off(1)
        return Candidate(text, _logprob(choice.get("logprobs")))


class _Failure(Exception):
    """One request without a usable answer. `wait` is how long the server asks to be left alone."""

    def __init__(self, story: str, *, again: bool = True, wait: float = 0.0) -> None:
        super().__init__(story)
        self.again = again
        self.wait = wait


class _Server:
    """An address with patience: `ask` tries again where that may help, until `close`."""

    def __init__(self, address: str, *, retries: int, timeout: float) -> None:
        if not 0 <= retries <= 100:
            raise UsageError(f"--retries {retries} is out of range; expected a number from 0 to 100")
        if not 0 < timeout <= 86_400:
            raise UsageError(f"--timeout {timeout} is out of range; expected seconds above 0, up to 86400")
        self._parts = _split_address(address)
        self.address = address.rstrip("/")
        self._retries = retries
        self._timeout = timeout
        self._key = _key()
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def ask(self, path: str, field: str, body: dict[str, Any] | None = None) -> list[Any]:
        """The list that an answer holds under the name `field`. With a body it is posted.

        What does not concern this one request (key, address, model) is a ModelError, all else an InputError.
        """
        tried = 0
        while True:
            tried += 1
            try:
                return self._ask_once(path, field, body)
            except _Failure as exc:
                if self._closing.is_set():
                    raise CancelledError from exc
                if not exc.again:
                    raise InputError(
                        f"{self.address} refused the request: {exc}; check the source's length, the prompt, "
                        "--max-length and --nbest against what this server allows"
                    ) from exc
                if tried > self._retries:
                    raise InputError(
                        f"no answer from {self.address} in {tried} tries, the last one: {exc}; check that the server "
                        "is up and its log, or lower --concurrency, or raise --timeout or --retries"
                    ) from exc
                # The one draw without a seed: it decides when something is asked, not what.
                back_off = min(BACK_OFF * 2 ** (tried - 1), LONGEST_BACK_OFF) * random.uniform(0.5, 1)
                wait = exc.wait + back_off
            if self._closing.wait(wait):
                raise CancelledError

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            for each in self._sockets:
                with suppress(OSError):  # it may have ended by itself
                    socket.socket.shutdown(each, socket.SHUT_RDWR)

    def _ask_once(self, path: str, field: str, body: dict[str, Any] | None) -> list[Any]:
        try:
            status, headers, content = self._exchange(path, body)
        except ssl.SSLCertVerificationError as exc:
            raise ModelError(
                f"{self.address}: its certificate is not trusted ({exc.verify_message}); check the address, or name "
                "the certificate of your authority in the environment variable SSL_CERT_FILE"
            ) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise _Failure(self._shown(str(exc)) or type(exc).__name__) from exc
        if status >= 300:
            raise self._error(status, headers, content)
        try:
            entries = json.loads(content)[field]
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            raise _Failure(f"an answer without {field!r}: {self._said(content)}") from exc
        if not isinstance(entries, list):
            raise _Failure(f"an answer whose {field!r} is no list: {self._said(content)}")
        return entries

    def _error(self, status: int, headers: http.client.HTTPMessage, content: bytes) -> _Failure | ModelError:
        """What a status means: the end of the run, of this request, or of this try."""
        story = f"HTTP {status}: {self._said(content)}"
        if status < 400:
            target = self._shown(headers.get("Location", "nowhere"))
            return ModelError(
                f"{self.address}: the server sends us on to {target} (HTTP {status}); expected an answer, redirects "
                "are not followed; give the final address"
            )
        if status in (401, 403):
            known = "is set" if self._key else "is not set"
            return ModelError(
                f"{self.address}: the server does not let us in: {story}; expected a key it accepts; check the "
                f"environment variable {KEY_VARIABLE}, which {known}"
            )
        if status == 404:
            return ModelError(
                f"{self.address}: no such thing there: {story}; check the address, which usually ends in /v1, and the "
                "model's name (--server-model)"
            )
        again = status >= 500 or status in _AGAIN
        return _Failure(story, again=again, wait=_retry_after(headers.get("Retry-After", "")))

    def _exchange(self, path: str, body: dict[str, Any] | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request on a connection of its own, which cannot have gone stale."""
        headers = {"Accept": "application/json", "Connection": "close", "User-Agent": "mbr-decode"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        with self._connected() as connection:
            deadline = time.monotonic() + self._timeout
            connection.request("GET" if body is None else "POST", self._parts.path + path, content, headers)
            with connection.getresponse() as response:
                return response.status, response.headers, _read(response, deadline)

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        """A connection whose socket `close` can find."""
        host, port, patience = self._parts.hostname or "", self._parts.port, min(self._timeout, _CONNECT)
        connection = (
            http.client.HTTPSConnection(host, port, timeout=patience, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(host, port, timeout=patience)
        )
        try:
            connection.connect()
            opened = connection.sock
            opened.settimeout(self._timeout)
            with self._lock:
                if self._closing.is_set():
                    raise CancelledError
                self._sockets.add(opened)
            try:
                yield connection
            finally:
                with self._lock:
                    self._sockets.remove(opened)
        finally:
            connection.close()

    def _said(self, content: bytes) -> str:
        return self._shown(_message(content)) or "nothing"

    def _shown(self, text: str) -> str:
        """The beginning of what a server said, on one line. Some repeat the key they were sent; we do not."""
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 10 * _SHOWN]).split())
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _read_template(prompt: str, languages: Mapping[str, str | None]) -> str:
    """The template, its places checked. Braces around anything but a single word are text."""
    template = "\n".join(line for _, line in lines(prompt[1:])) if prompt.startswith("@") else prompt
    check_text(template, "the prompt")
    places = set(_PLACE.findall(template))
    unknown = sorted(places - {"source", *languages})
    if unknown:
        raise UsageError(
            f"the prompt has a place {{{unknown[0]}}}; expected {{source}}, {{src_lang}} and {{tgt_lang}} only; "
            "correct it, or put a space inside braces that are meant as text"
        )
    if "source" not in places:
        raise UsageError(f"the prompt {template!r:.80} has no {{source}}; put it where the text to translate goes")
    for name, value in languages.items():
        if name in places and not value:
            raise UsageError(
                f"the prompt asks for {{{name}}}, which is not known; give --{name.replace('_', '-')} (a name such as "
                "German does well), or a --prompt without it"
            )
    return template


def _only_model(server: _Server) -> str:
    """The name of the one model that a server has."""
    try:
        entries = server.ask("/models", "data")
    except InputError as exc:
        raise ModelError(f"cannot learn the model's name: {exc}; or name it with --server-model") from exc
    names = [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    if not names:
        raise ModelError(f"{server.address}: the server lists no model; name one with --server-model")
    if len(names) > 1:
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise UsageError(f"{server.address} has {len(names)} models; choose one with --server-model: {shown}")
    return str(names[0])


def _split_address(address: str) -> SplitResult:
    """The parts of a base address. What may be a secret in it is not repeated."""
    expected = "expected a base address such as http://localhost:8000/v1"
    if not (address.isascii() and address.isprintable()) or " " in address:
        raise UsageError(f"the server's address has a space or a letter outside ASCII; {expected}")
    try:
        parts = urlsplit(address.rstrip("/"))
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError as exc:
        raise UsageError(f"the server's address has a host or a port that cannot be; {expected}") from exc
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"the server's address holds a user, a query or a fragment; {expected}, and the key in {KEY_VARIABLE}"
        )
    if not known:
        raise UsageError(f"{address!r:.80} is no server's address; {expected}")
    return parts


def _key() -> str:
    """The key from the environment, or nothing. One that a header cannot hold is refused here, without showing it."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {KEY_VARIABLE} has letters that no key has; set it again")
    return key


def _seed(*parts: int) -> int:
    """31 bits that follow from the run's seed, the segment, the sentence in it and the attempt."""
    digest = hashlib.blake2b(" ".join(map(str, parts)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _text(choice: Any) -> str | None:
    """A choice's text, or None where it has none that could be written down."""
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str):
        return None
    try:
        check_text(text, "choice")
    except InputError:  # half a surrogate pair, where the length limit cut a character
        return None
    return text.strip() or None


def _logprob(logprobs: Any) -> float | None:
    """The sum over a choice's tokens, or None where a server gives no numbers, or such as are none."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values: list[Any] = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    if not all(type(value) in (int, float) and abs(value) < LARGEST for value in values):
        return None
    total = math.fsum(values)
    return total if abs(total) < LARGEST else None


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    expected = response.length  # counted here, since Python 3.11's `read1` does not stop at it
    body = bytearray()
    while (expected is None or len(body) < expected) and (block := response.read1(1 << 16)):
        body += block
        if len(body) > _LARGEST_ANSWER:
            raise _Failure(f"an answer of more than {_LARGEST_ANSWER >> 20} MB", again=False)
        if time.monotonic() > deadline:  # the socket's own limit starts anew with every byte
            raise TimeoutError("timed out while the answer was still coming")
    return bytes(body)


def _message(content: bytes) -> str:
    """What a server says about an error: the message in its JSON, in one of the usual places, or all of it."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")
    for name in ("error", "message", "detail"):
        if isinstance(answer, dict) and answer.get(name):
            answer = answer[name]
    return answer if isinstance(answer, str) else json.dumps(answer)


def _retry_after(value: str) -> float:
    """Seconds that a server asks us to wait; a date counts as nothing asked."""
    return min(float(value), LONGEST_RETRY_AFTER) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value.strip()) else 0.0
