from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chat_server import ChatServer, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with serving(monkeypatch) as served:
        yield served
