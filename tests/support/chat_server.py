"""A real chat server in the test's process; its answers are what the test's script returns."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from candidates import BadRecord, CandidateList, Record
from candidates.backends.openai.generator import ServerGenerator
from candidates.chat import client
from candidates.common.errors import InputError
from candidates.generation import Settings


@dataclass
class Reply:
    """An answer; a body that is not bytes is sent as JSON. With `close` or `hang` nothing is sent."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False
    hang: bool = False


Script = Callable[[str, int, dict[str, Any]], Reply]


def choice(text: Any, *, logprobs: list[Any] | None = None, finish: str = "stop") -> dict[str, Any]:
    content = None if logprobs is None else {"content": [{"token": "t", "logprob": value} for value in logprobs]}
    return {"message": {"role": "assistant", "content": text}, "logprobs": content, "finish_reason": finish}


def good(source: str, asked: int, body: dict[str, Any]) -> Reply:
    """As many choices as were requested; texts follow from the seed, as on a server that honours it."""
    texts = [f"{source} {body['seed']} {place}" for place in range(body["n"])]
    return Reply({"choices": [choice(text, logprobs=[-0.5, -0.25]) for text in texts]})


class ChatServer(ThreadingHTTPServer):
    """Answers with `script(source, earlier requests of this source, body)`, and keeps the requests."""

    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        self.script: Script = good
        self.models: Any = {"data": [{"id": "only-model"}]}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.ending = threading.Event()

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/v1"

    def generator(self, nbest: int = 2, seed: int = 1, **options: Any) -> ServerGenerator:
        settings = Settings(nbest=nbest, method="sample", seed=seed, max_length=50)
        return ServerGenerator(self.address, settings, **{"server_model": "m", "prompt": "{source}"} | options)

    def records(self, sources: list[str], **options: Any) -> list[Record]:
        with self.generator(**options) as generator:
            return list(generator.generate(sources))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: some tests close the connection."""


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A running server, without a key and with hardly any waits between retries."""
    monkeypatch.setattr(client, "BACK_OFF", 0.001)
    monkeypatch.delenv(client.KEY_VARIABLE, raising=False)
    with ChatServer() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.005,))
        thread.start()
        try:
            yield served
        finally:
            served.ending.set()
            served.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        assert self.path == "/v1/models"
        models = self.server.models
        self.reply(models if isinstance(models, Reply) else Reply(models))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        source = body["messages"][-1]["content"]
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.headers.append(dict(self.headers))
            asked = self.server.asked[source]
            self.server.asked[source] += 1
        assert self.path == "/v1/chat/completions"
        self.reply(self.server.script(source, asked, body))

    def reply(self, reply: Reply) -> None:
        if reply.hang:
            self.server.ending.wait(5)
        if reply.hang or reply.close:
            self.close_connection = True
            return
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in ({"Content-Length": str(len(content))} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: Any) -> None:
        pass


def lists(records: list[Record]) -> list[CandidateList]:
    assert all(isinstance(record, CandidateList) for record in records), records
    return [record for record in records if isinstance(record, CandidateList)]


def bad(record: Record) -> BadRecord:
    assert isinstance(record, BadRecord), record
    assert isinstance(record.error, InputError)
    return record


def first(*replies: Reply) -> Script:
    """These replies in turn, then good ones."""
    return lambda source, asked, body: replies[asked] if asked < len(replies) else good(source, asked, body)


def answered(text: str, tokens: int | None = 100, finish: str = "stop") -> Reply:
    """One choice with this text, and the tokens it took."""
    usage = {} if tokens is None else {"usage": {"total_tokens": tokens}}
    return Reply({"choices": [choice(text, finish=finish)], **usage})


def quoted(prompt: str) -> list[str]:
    """The texts that our prompts put between triple quotes: source, then translations."""
    return re.findall(r'"""(.*?)"""', prompt, re.DOTALL)


def judged(quality: Callable[[str], float], lean: float = 0.0) -> Script:
    """Judges by the qualities of the two texts; `lean` is what the first place adds."""

    def script(prompt: str, asked: int, body: dict[str, Any]) -> Reply:
        _, first, second = quoted(prompt)
        difference = quality(first) - quality(second) + lean
        better = "tie" if abs(difference) < 0.05 else "A" if difference > 0 else "B"
        return answered(json.dumps({"better": better, "degree": min(3, round(abs(difference), 2))}))

    return script
