"""A small client for `mbr-serve`, without libraries beyond Python's own.

    client = Client("http://127.0.0.1:8080")
    print(client.translate("A dog runs.").text)
    print(client.decode("A dog runs.", ["Ein Hund läuft.", "Der Hund läuft."], utility="chrf").text)

An answer that is an error raises `ServiceError`; one with `retry_after` may be sent again after that many seconds.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from candidates.common.errors import MbrError
from candidates.lists import Candidate


class ServiceError(MbrError):
    """The service answered with an error, or not at all (status 0)."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True)
class Entry:
    """A candidate of the ranking."""

    text: str
    position: int
    score: float | None
    expected_utility: float | None
    terms: Mapping[str, float | None] = field(default_factory=dict)
    count: int = 1
    system: str | None = None


@dataclass(frozen=True)
class Choice:
    """A decision of the service; `raw` is the whole body."""

    id: str | int | None
    text: str
    position: int
    score: float | None
    expected_utility: float | None
    terms: Mapping[str, float | None]
    ranking: tuple[Entry, ...]
    partial: bool
    flags: tuple[str, ...]
    passes: int
    signature: str
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Choice:
        names = ("id", "text", "position", "score", "expected_utility", "terms", "partial", "signature")
        return cls(
            **{name: body[name] for name in names},
            ranking=tuple(Entry(**entry) for entry in body["ranking"]),
            flags=tuple(body["flags"]),
            passes=body["usage"]["passes"],
            raw=body,
        )


class Client:
    """Calls one service. `timeout` is the time for an answer to begin, in seconds."""

    def __init__(self, address: str, *, api_key: str | None = None, timeout: float = 60.0) -> None:
        self.address = address.rstrip("/")
        self.timeout = timeout
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def decode(self, source: str, candidates: Sequence[str | Candidate], **options: Any) -> Choice:
        """The best of some candidates. `options` as in the body of /v1/decode: recipe, utility, top, timeout_ms, ..."""
        listed = [entry if isinstance(entry, str) else _entry(entry) for entry in candidates]
        return Choice.of(self.post("/v1/decode", {"source": source, "candidates": listed, **options}))

    def translate(self, text: str, **options: Any) -> Choice:
        """A translation. `options` as in the body of /v1/translate: nbest, recipe, top, return_candidates, ..."""
        return Choice.of(self.post("/v1/translate", {"text": text, **options}))

    def translate_all(self, texts: Sequence[str], **options: Any) -> list[Choice]:
        """Translations of several texts, in order."""
        return [Choice.of(body) for body in self.post("/v1/translate", {"texts": list(texts), **options})["results"]]

    def ready(self) -> bool:
        """Whether the service takes requests."""
        try:
            return bool(self.get("/ready")["status"] == "ready")
        except ServiceError:
            return False

    def info(self) -> dict[str, Any]:
        """What is served, and within which limits."""
        return dict(self.get("/info"))

    def get(self, path: str) -> Any:
        return self._call(urllib.request.Request(self.address + path, headers=self._headers))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {**self._headers, "Content-Type": "application/json"}
        return self._call(urllib.request.Request(self.address + path, json.dumps(body).encode(), headers))

    def _call(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                content = answer.read()
        except urllib.error.HTTPError as exc:
            with exc:
                retry = exc.headers.get("Retry-After")
                raise ServiceError(exc.code, _message(exc.read()), int(retry) if retry else None) from exc
        except OSError as exc:
            raise ServiceError(
                0, f"{self.address} does not answer: {exc}; check the address and that mbr-serve is running"
            ) from exc
        return json.loads(content)


def _entry(candidate: Candidate) -> dict[str, Any]:
    fields = {"text": candidate.text, "logprob": candidate.logprob, "count": candidate.count}
    return {key: value for key, value in fields.items() if value is not None}


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError):
        return body.decode("utf-8", "replace")[:200]
