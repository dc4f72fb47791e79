"""Services that run in this process, in a thread, on a free port of this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from mbr.opening import Models, open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Recipe
from mbr.serve.app import create_app
from mbr.serve.client import Client
from mbr.serve.limits import ApiKeys
from mbr.serve.metrics import Metrics
from mbr.serve.scheduler import Scheduler
from mbr.serve.served import Served
from mbr.serve.server import Server, listen, make_server
from mbr.serve.service import Service
from mbr.serve.settings import Settings
from mbr.serve.translator import Translator
from tests.mbr.serve.made import Faulty, Seen, decoder_for


@dataclass
class Site:
    """A running service and ways to reach it."""

    address: str
    service: Service
    metrics: Metrics
    server: Server
    http: httpx.Client
    log: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client(self.address)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.http.post(path, json=body, **options)

    def number(self, name: str) -> float:
        """The value of one metric, labels included."""
        lines = self.metrics.exposition().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.rsplit(" ", 1)[0] == name)


@contextmanager
def site(
    decoders: Mapping[str, Decoder],
    translator: Translator | None = None,
    keys: ApiKeys | None = None,
    *,
    fallback: bool = False,
    settings: Settings | None = None,
) -> Iterator[Site]:
    """A service for these decoders; the first is the default."""
    errors: list[str] = []
    log: list[dict[str, Any]] = []
    metrics = Metrics(errors.append)
    settings = settings or Settings()
    listener = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Service(settings, fallback=fallback, watch=metrics) as service, httpx.Client(base_url=address) as http:
        name = next(iter(decoders))
        service.start(Served(decoders, name, name, Models()), translator)
        server = make_server(create_app(service, keys=keys, metrics=metrics, log=log.append), settings)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield Site(address, service, metrics, server, http, log, errors)
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def utility() -> Faulty:
    return Faulty()


Open = Callable[..., Site]


@pytest.fixture
def open_site(utility: Faulty) -> Iterator[Open]:
    """Services with the faulty utility as `race` and `half`, chrF, and any settings; closed at the end."""
    with ExitStack() as stack:

        def call(*, keys: ApiKeys | None = None, fallback: bool = False, **settings: Any) -> Site:
            decoders = {name: decoder_for(utility, name) for name in ("race", "half")}
            decoders["chrf"] = open_decoder(Recipe("chrf"))
            return stack.enter_context(site(decoders, None, keys, fallback=fallback, settings=Settings(**settings)))

        yield call
        utility.go.set()


@pytest.fixture
def seen() -> Seen:
    return Seen()


Make = Callable[..., Scheduler]


@pytest.fixture
def make(utility: Faulty, seen: Seen) -> Iterator[Make]:
    """A scheduler with the faulty utility as `race`, `half` and `full`; closed at the end."""
    made: list[Scheduler] = []

    def call(**options: Any) -> Scheduler:
        scheduler = Scheduler(**{"max_queue_tokens": 10**7, "watch": seen, **options})
        made.append(scheduler)
        scheduler.replace({name: decoder_for(utility, name) for name in ("race", "half", "full")})
        return scheduler

    yield call
    utility.go.set()
    for scheduler in made:
        scheduler.close()
