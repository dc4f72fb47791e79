"""The process: listens at once, loads in the background, drains at SIGTERM, reloads at SIGHUP.

uvicorn closes its listener at SIGTERM and raises the signal again. Here signals are ours: the listener stays open while
work under way is finished, so that new requests get 503 rather than a refused connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from candidates.command.console import Console
from candidates.common.errors import InputError, MbrError
from candidates.common.words import counted
from mbr.serve.limits import App
from mbr.serve.protocol import limited
from mbr.serve.served import Served
from mbr.serve.service import Service
from mbr.serve.settings import Settings
from mbr.serve.translator import Translator
from mbr.serve.work import described

AFTER_ANSWERS = 2.0  # seconds that connections have to take their last answers


@dataclass(frozen=True)
class Loading:
    """How models are loaded: the translator once, what is served also at every reload."""

    translator: Callable[[], Translator | None]
    served: Callable[[Translator | None], Served]


class Server(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(app: App, settings: Settings) -> Server:
    """A server for the application, with the limits of slow connections."""
    return Server(
        uvicorn.Config(
            app,
            http=limited(settings.header_seconds, settings.max_connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # it takes fractions
            timeout_graceful_shutdown=AFTER_ANSWERS,  # type: ignore[arg-type]
            backlog=2048,
        )
    )


class Running:
    """One run of the service, from the listener to the exit code."""

    def __init__(self, service: Service, app: App, listener: socket.socket, loading: Loading, console: Console) -> None:
        self._service = service
        self._listener = listener
        self._loading = loading
        self._console = console
        self._error: MbrError | None = None
        self._loading_lock = threading.Lock()
        self._is_loading = True
        self._reload_again = False  # SIGHUP came while models were being loaded
        self._code = 0
        self._server = make_server(app, service.settings)

    def run(self) -> int:
        """Serve until a signal; returns the exit code.

        Raises:
            MbrError: nothing could be loaded.
        """
        _log_through(self._console)
        try:
            asyncio.run(self._run())
        finally:
            self._service.close()
        if self._error is not None:
            raise self._error
        return self._code

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, 0)
        loop.add_signal_handler(signal.SIGINT, self._end, 128 + signal.SIGINT)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        _in_background(self._start)
        await self._server.serve(sockets=[self._listener])

    def _start(self) -> None:
        """Load everything. Without models there is nothing to serve: the process ends with the reason."""
        try:
            translator = self._loading.translator()
            self._service.start(self._loading.served(translator), translator)
        except Exception as exc:
            self._error = exc if isinstance(exc, MbrError) else MbrError(_not_loaded(exc))
            self._server.should_exit = True
            return
        info = self._service.info()
        self._console.info(f"ready: {', '.join(info['recipes'])}", recipes=info["recipes"])
        if not self._ends_loading():
            self._load_again()

    def _reload(self) -> None:
        """Load the recipes again; the old ones are served until the new ones have decided a list."""
        with self._loading_lock:
            if self._is_loading:
                self._reload_again = True
                return
            self._is_loading = True
        _in_background(self._load_again)

    def _load_again(self) -> None:
        while True:
            try:
                self._service.reload(self._loading.served(self._service.translator))
                self._console.info(f"reloaded: {', '.join(self._service.info()['recipes'])}")
            except Exception as exc:
                reason = str(exc) if isinstance(exc, MbrError) else described(exc)
                self._console.error(f"not reloaded, the recipes are the old ones: {reason}")
            if self._ends_loading():
                return

    def _ends_loading(self) -> bool:
        """Whether no signal asks to load once more. One lock for both, so that none is lost in between."""
        with self._loading_lock:
            self._is_loading, self._reload_again = self._reload_again, False
            return not self._is_loading

    def _end(self, code: int) -> None:
        """The first signal: finish what is under way. A second one: end at once."""
        if self._service.state == "ending":
            self._server.should_exit = self._server.force_exit = True
            return
        self._code = code
        self._service.state = "ending"
        under_way, seconds = self._service.scheduler.jobs, self._service.settings.drain_seconds
        self._console.info(
            f"ending: up to {seconds:g} s for {counted(under_way, 'request')} under way", requests=under_way
        )
        threading.Thread(target=self._drain, name="mbr-serve-drain", daemon=True).start()

    def _drain(self) -> None:
        left = self._service.drain(self._service.settings.drain_seconds)
        if left:
            self._console.warn(f"ended with {counted(left, 'request')} unfinished, answered with 503", requests=left)
        self._service.scheduler.close()  # requests that are left get their answer now
        self._server.should_exit = True


def _not_loaded(exc: Exception) -> str:
    return f"the models cannot be loaded: {described(exc)}; check this installation with mbr-doctor"


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="mbr-serve-loader", daemon=True).start()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one.

    Raises:
        InputError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once (TCP_NODELAY); without it they wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as exc:
        listener.close()
        raise InputError(
            f"{host}:{port} cannot be used: {exc.strerror or exc}; choose another --host or --port"
        ) from exc
    return listener


def leave(code: int) -> None:
    """End the process without waiting for threads that may be stuck in a model."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _log_through(console: Console) -> None:
    """uvicorn's warnings as our messages; exceptions without their messages, which may hold texts."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error: Any = record.exc_info[1] if record.exc_info else None
            console.warn(record.getMessage() if error is None else f"{record.msg.strip()}: {described(error)}")

    logger = logging.getLogger("uvicorn")
    logger.handlers = [Handler(logging.WARNING)]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
