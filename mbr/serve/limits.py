"""What stands before the application, as plain ASGI: keys, and bodies that are too large, too slow or packed.

FastAPI has no limit for bodies. Here a body is read whole, within a size and a time, also when it comes in chunks or
packed with gzip, before the application sees any of it. A JSON body is taken as JSON whatever its content type: curl
sends `-d` as a form.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from candidates.common.errors import InputError, UsageError
from mbr.serve.errors import Problem, body_of, problem_headers
from mbr.serve.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# What anyone may see: the page, whether it is alive, and how to use it.
OPEN_PATHS = ("/", "/page.css", "/page.js", "/health", "/ready", "/languages", "/openapi.json")
KEY_IN_BODY = ("/translate",)


class ApiKeys:
    """The accepted API keys. Without any, every request is accepted."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, file: str | Path) -> ApiKeys:
        """A file with one key per line.

        Raises:
            InputError: it cannot be read, or holds none.
        """
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            raise InputError(f"{file}: the keys cannot be read: {exc}; expected a text file in UTF-8") from exc
        keys = [line.strip() for line in lines if line.strip()]
        if not keys:
            raise InputError(f"{file}: no key; expected one per line; add one, or leave out --api-key-file")
        return cls(keys)

    def __len__(self) -> int:
        return len(self._digests)

    def allow(self, key: str | None) -> bool:
        """Whether this is one of the keys. All are compared, by digests of one length, in constant time."""
        candidate = _digest(key or "")
        matches = False
        for digest in self._digests:
            matches |= hmac.compare_digest(digest, candidate)
        return matches or not self._digests


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def check_address(host: str, keys: ApiKeys, *, insecure: bool) -> None:
    """Refuse an address that others can reach, without a key.

    Raises:
        UsageError: the address is not this machine's own, there is no key, and that was not asked for.
    """
    own = host in ("localhost", "::1") or host.startswith("127.")
    if not own and not len(keys) and not insecure:
        raise UsageError(
            f"--host {host} can be reached by others, and there is no key; give --api-key-file FILE, or "
            "--without-key where something else keeps others out"
        )


class Guard:
    """Lets requests with a key and a reasonable body through to the application."""

    def __init__(self, app: App, settings: Settings, keys: ApiKeys) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            allowed = scope["path"] in OPEN_PATHS or self._keys.allow(_bearer(headers))
            if not allowed and scope["path"] not in KEY_IN_BODY:
                raise _no_entry(_bearer(headers), "`Authorization: Bearer KEY`")
            body = await self._body(headers, receive)
            if not allowed and not self._keys.allow(_key_in(body)):
                key = _key_in(body) or _bearer(headers)
                raise _no_entry(key, "`api_key` in the body or `Authorization: Bearer KEY`")
        except Problem as problem:
            await refuse(send, problem)
            return
        if body is None:
            return  # the client has gone
        await self._app(_as_json(scope, body), _replayed(body, receive), send)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | None:
        most = self._settings.max_body_bytes
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise Problem(413, f"the body has {length:.20} bytes; this service takes {most:,} (--max-body-bytes)")
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                body = await _read(receive, most)
        except TimeoutError as exc:
            seconds = self._settings.body_seconds
            raise Problem(408, f"the body was not complete after {seconds:g} s; send it faster") from exc
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if body is None or encoding == "identity":
            return body
        if encoding != "gzip":
            raise Problem(400, f"content-encoding {encoding[:40]!r} is unknown; expected gzip or none")
        return _unpacked(body, most)


async def refuse(send: Send, problem: Problem) -> None:
    """Answer with an error, without the application. The connection is closed: its body may not have been read."""
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers += [(name.encode(), value.encode()) for name, value in problem_headers(problem).items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body_of(problem)})


async def _read(receive: Receive, most: int) -> bytes | None:
    """The whole body; None where the client has gone before its end."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise Problem(413, f"the body has more than the {most:,} bytes that this service takes (--max-body-bytes)")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _unpacked(body: bytes, most: int) -> bytes:
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = unpack.decompress(body, most + 1)
    except zlib.error as exc:
        raise Problem(400, "the body is not valid gzip; send valid gzip, or no content-encoding") from exc
    if len(content) > most:
        raise Problem(
            413, f"the unpacked body has more than the {most:,} bytes that this service takes (--max-body-bytes)"
        )
    if not unpack.eof or unpack.unused_data:
        raise Problem(400, "the body is not one complete gzip stream; send valid gzip, or no content-encoding")
    return content


def _as_json(scope: Scope, body: bytes) -> Scope:
    """The scope, with the headers of an unpacked body, and as JSON where it looks like it."""
    changed = {b"content-length": str(len(body)).encode()}
    if body.lstrip()[:1] in (b"{", b"["):
        changed[b"content-type"] = b"application/json"
    kept = [(name, value) for name, value in scope["headers"] if name not in (*changed, b"content-encoding")]
    return {**scope, "headers": [*kept, *changed.items()]}


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then what else comes: the client that leaves."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _bearer(headers: dict[str, str]) -> str | None:
    """The key in the headers, as UTF-8 where it can be read as such."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        return key.strip().encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return key.strip()


def _no_entry(key: str | None, where: str) -> Problem:
    if key:
        return Problem(
            401, "the API key is wrong; expected one of the service's --api-key-file; check the key you send"
        )
    return Problem(401, f"this service needs an API key, and the request has none; send it as {where}")


def _key_in(body: bytes | None) -> str | None:
    """The key in a body of the LibreTranslate API, JSON or form."""
    try:
        if (body or b"").lstrip()[:1] == b"{":
            key = json.loads(body or b"").get("api_key")
            return key if isinstance(key, str) else None
        return parse_qs((body or b"").decode()).get("api_key", [None])[0]
    except (ValueError, RecursionError):
        return None
