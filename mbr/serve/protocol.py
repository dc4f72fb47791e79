"""uvicorn's HTTP protocol with limits for slow and silent connections, which it does not have.

A connection has some seconds to send the head of a request, from its beginning and whatever it trickles, and as many
to take each part of an answer. When there are too many connections, the one that has been waiting for its client for
longest is closed; one whose request is complete never is.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mbr.serve.errors import Problem, body_of


class PatientProtocol(H11Protocol):
    """Patient, but not without end. The limits are set by `limited`."""

    header_seconds: float = 10.0
    max_connections: int = 500
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.waits_since: float | None = self.loop.time()  # for its client; None while a request is answered
        self._wait_for_head()
        if len(self.connections) > self.max_connections:
            others = [
                connection
                for connection in self.connections
                if isinstance(connection, PatientProtocol) and connection is not self
            ]
            waiting = [connection for connection in others if connection.waits_since is not None]
            oldest = min(waiting, key=lambda connection: connection.waits_since or 0.0, default=None)
            if oldest is not None:
                oldest.waits_since = None  # it is gone only in the next turn of the loop
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        self._forget_stall()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # a whole head has arrived
            self._forget_timer()
        elif self._timer is None and self._between_requests and not self.transport.is_closing():
            self._wait_for_head()  # the first bytes of another request on the same connection
        if self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete):
            self.waits_since = None

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        super().on_response_complete()

    @property
    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(self.header_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stall()
        super().resume_writing()

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self.header_seconds, self._too_slow)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        """A head that has begun gets 408; a connection that never sent a byte is just closed."""
        self._timer = None
        if self.transport.is_closing() or not self._between_requests:
            return
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            body = body_of(
                Problem(
                    408, f"the head of the request was not complete after {self.header_seconds:g} s; send it faster"
                )
            )
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
        self.transport.close()


def limited(header_seconds: float, max_connections: int) -> type[PatientProtocol]:
    """The protocol with these limits."""
    limits = {"header_seconds": header_seconds, "max_connections": max_connections}
    return type("LimitedProtocol", (PatientProtocol,), limits)
