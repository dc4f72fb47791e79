"""Around every request, as plain ASGI: an id, times in headers, one line of log without texts, numbers, a span.

Endpoints leave what they know in `scope["state"]["mbr"]`, a dict.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from mbr.serve.errors import a_bug
from mbr.serve.limits import App, Message, Receive, Scope, Send, refuse
from mbr.serve.metrics import Metrics
from mbr.serve.tracing import Spans
from mbr.serve.work import described

PROBES = ("/health", "/ready", "/metrics")  # asked every few seconds: counted, not logged
ID_FORMAT = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class Observed:
    """Watches what the application does. `log` receives one dict per request."""

    def __init__(
        self, app: App, metrics: Metrics, routes: Callable[[], set[str]], log: Callable[[dict[str, Any]], None]
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes
        self._log = log
        self._spans = Spans()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        about: dict[str, Any] = {}
        scope = {**scope, "state": {**scope.get("state", {}), "mbr": about}}
        id = headers.get("x-request-id", "")
        about["id"] = id if ID_FORMAT.fullmatch(id) else uuid.uuid4().hex
        route = scope["path"] if scope["path"] in self._routes() else "other"
        began = time.perf_counter()
        status = 499  # of a client that has gone before an answer

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_headers(about)]}
            await send(message)

        with self._spans.span(f"{scope['method']} {route}", headers) as span:
            try:
                await self._app(scope, receive, watched)
            except Exception as exc:
                self._metrics.error(described(exc))
                if status == 499:
                    await refuse(watched, a_bug())
            finally:
                self._metrics.request(route, status)
                facts = {"method": scope["method"], "route": route, "status": status}
                facts |= {key: value for key, value in about.items() if value is not None}
                span({f"mbr.{key}": value for key, value in facts.items()})
                if route not in PROBES:
                    self._log({**facts, "ms": round(1000 * (time.perf_counter() - began), 1)})


def _headers(about: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    """The id, the times in milliseconds, and the flags of a decision."""
    names = {"id": "X-Request-Id", "queue_ms": "X-Queue-Time", "inference_ms": "X-Inference-Time", "flags": "X-Flags"}
    return [
        (name.lower().encode(), str(about[key]).encode()) for key, name in names.items() if about.get(key) is not None
    ]
