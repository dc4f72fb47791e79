from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from candidates.backends.openai import client
from tests.support.chat_server import ChatServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(client, "BACK_OFF", 0.001)
    monkeypatch.delenv(client.KEY_VARIABLE, raising=False)
    with ChatServer() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.005,))
        thread.start()
        yield served
        served.ending.set()
        served.shutdown()
        thread.join()
