"""An HTTP client for chat servers that fail in many ways: requests are repeated with growing waits.

A connection belongs to one request, so it cannot have gone stale, and `close` interrupts it. A wrong key, address or
certificate is a ModelError at once; everything else is retried where that may help, and then an InputError of the
one request.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from candidates.chat.answers import error_message, model_names
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.common.words import counted

KEY_VARIABLE = "OPENAI_API_KEY"
BACK_OFF = 0.5  # seconds before the first retry; doubled with every further one
LONGEST_BACK_OFF = 30.0
LONGEST_RETRY_AFTER = 300.0  # seconds; a server may ask for a longer wait, in vain
LARGEST_ANSWER = 64 * 2**20  # bytes

_CONNECT = 10.0  # seconds; an address that does not answer at all is found out sooner than a slow translation
_SHOWN = 200  # characters of a server's own message
_RETRIED = (408, 409, 429)  # and everything from 500


class _Failure(Exception):
    """One request without a usable answer. `wait` is the number of seconds the server asks for."""

    def __init__(self, message: str, *, again: bool = True, wait: float = 0.0) -> None:
        super().__init__(message)
        self.again = again
        self.wait = wait


class Refused(InputError):
    """The server refuses this request (HTTP 400, 413, 422, ...): the same request will be refused again."""


def flag(name: str) -> str:
    """An option as commands spell it: `--server-model`."""
    return f"--{name.replace('_', '-')}"


class Server:
    """A server's address. `ask` retries where that may help, until `close`; it may be called from many threads.

    `option` spells the name of an option in messages.
    """

    def __init__(self, address: str, *, retries: int, timeout: float, option: Callable[[str], str] = flag) -> None:
        if not 0 <= retries <= 100:
            raise UsageError(f"{option('retries')} {retries} is out of range; expected a number from 0 to 100")
        if not 0 < timeout <= 86_400:
            raise UsageError(f"{option('timeout')} {timeout} is out of range; expected seconds above 0, up to 86400")
        self.option = option
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
        """The list that an answer holds under the name `field`. With a body it is posted; errors as of `answer`."""
        entries: list[Any] = self.answer(path, field, body)[field]
        return entries

    def answer(
        self,
        path: str,
        field: str,
        body: dict[str, Any] | None = None,
        sending: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """The whole answer, which holds a list under the name `field`.

        Args:
            path: below the server's address.
            field: the name of the list.
            body: is posted; without one the request is a GET.
            sending: called before each attempt; an error that it raises ends the request.

        Raises:
            ModelError: the key, the address or the model is wrong, so every request will fail.
            Refused: the server does not take this request.
            InputError: this request failed, whatever its retries.
            CancelledError: `close` was called.
        """
        attempts = 0
        while True:
            attempts += 1
            sending()
            try:
                return self._ask_once(path, field, body)
            except _Failure as exc:
                if self._closing.is_set():
                    raise CancelledError from exc
                if not exc.again:
                    raise Refused(
                        f"{self.address} refused the request: {exc}; check the length of the texts, the prompt, and "
                        "the requested numbers of tokens and choices against the server's limits"
                    ) from exc
                if attempts > self._retries:
                    raise InputError(
                        f"no answer from {self.address} in {counted(attempts, 'attempt')}, the last error: {exc}; "
                        f"check that the server is up and its log, or lower {self.option('concurrency')}, or raise "
                        f"{self.option('timeout')} or {self.option('retries')}"
                    ) from exc
                # The one draw without a seed: it decides when a request is sent, not which.
                back_off = min(BACK_OFF * 2 ** (attempts - 1), LONGEST_BACK_OFF) * random.uniform(0.5, 1)
                wait = exc.wait + back_off
            if self._closing.wait(wait):
                raise CancelledError

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            for connected in self._sockets:
                with suppress(OSError):  # it may have ended by itself
                    socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def _ask_once(self, path: str, field: str, body: dict[str, Any] | None) -> dict[str, Any]:
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
            answer: dict[str, Any] = json.loads(content)
            entries = answer[field]
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            raise _Failure(f"an answer without {field!r}: {self._message(content)}") from exc
        if not isinstance(entries, list):
            raise _Failure(f"an answer whose {field!r} is no list: {self._message(content)}")
        return answer

    def _error(self, status: int, headers: http.client.HTTPMessage, content: bytes) -> _Failure | ModelError:
        """The failure a status stands for: of the run (ModelError), of this request, or of this attempt."""
        message = f"HTTP {status}: {self._message(content)}"
        if status < 400:
            target = self._shown(headers.get("Location", "nowhere"))
            return ModelError(
                f"{self.address}: the server redirects to {target} (HTTP {status}); expected an answer; give the "
                "final address, redirects are not followed"
            )
        if status in (401, 403):
            state = "is set" if self._key else "is not set"
            return ModelError(
                f"{self.address}: the server refuses access: {message}; expected a key it accepts; check the "
                f"environment variable {KEY_VARIABLE}, which {state}"
            )
        if status == 404:
            return ModelError(
                f"{self.address}: not found: {message}; check the address, which usually ends in /v1, and the "
                f"model's name ({self.option('server_model')})"
            )
        again = status >= 500 or status in _RETRIED
        return _Failure(message, again=again, wait=_retry_after(headers.get("Retry-After", "")))

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
        host, port, timeout = self._parts.hostname or "", self._parts.port, min(self._timeout, _CONNECT)
        connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(host, port, timeout=timeout)
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

    def _message(self, content: bytes) -> str:
        return self._shown(error_message(content)) or "nothing"

    def _shown(self, text: str) -> str:
        """The beginning of a server's text, on one line, without the key, which some servers repeat."""
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 10 * _SHOWN]).split())
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def only_model(server: Server) -> str:
    """The name of the one model that a server has."""
    option = server.option("server_model")
    try:
        entries = server.ask("/models", "data")
    except InputError as exc:
        raise ModelError(f"the model's name is unknown: {exc}; or name it with {option}") from exc
    names = model_names(entries)
    if not names:
        raise ModelError(f"{server.address}: the server lists no model; name one with {option}")
    if len(names) > 1:
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise UsageError(f"{server.address} has {len(names)} models; choose one with {option}: {shown}")
    return names[0]


def _split_address(address: str) -> SplitResult:
    """The parts of a base address. What may be a secret in it is not repeated."""
    expected = "expected a base address such as http://localhost:8000/v1"
    if not (address.isascii() and address.isprintable()) or " " in address:
        raise UsageError(f"the server's address has a space or a character outside ASCII; {expected}")
    try:
        parts = urlsplit(address.rstrip("/"))
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError as exc:
        raise UsageError(f"the server's address has an impossible host or port; {expected}") from exc
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"the server's address holds a user, a query or a fragment; {expected}; put the key into {KEY_VARIABLE}"
        )
    if not complete:
        raise UsageError(f"{address!r:.80} is not a server's address; {expected}")
    return parts


def _key() -> str:
    """The key from the environment, or an empty text. One that a header cannot hold is refused without showing it."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {KEY_VARIABLE} has characters that no key has; set it again")
    return key


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    length = response.length  # counted here, since Python 3.11's `read1` does not stop at it
    body = bytearray()
    while (length is None or len(body) < length) and (block := response.read1(1 << 16)):
        body += block
        if len(body) > LARGEST_ANSWER:
            raise _Failure(f"an answer of more than {LARGEST_ANSWER >> 20} MB", again=False)
        if time.monotonic() > deadline:  # the socket's own limit starts anew with every byte
            raise TimeoutError("timed out while the answer was still coming")
    return bytes(body)


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for; 0 for a date."""
    return min(float(value), LONGEST_RETRY_AFTER) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value.strip()) else 0.0
