"""A service in a process of its own, what that process uses, and clients that send at a fixed rate.

Everything goes to 127.0.0.1, and every run has a number of requests or seconds.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any, Self

from benchmarks.support.places import ROOT

LAUNCH = "from candidates.command.launch import mbr_serve; mbr_serve()"
MOST_AT_ONCE = 512  # requests that a client has open
Body = dict[str, Any]


class Serving:
    """mbr-serve with some options; use it with `with`. `start_seconds` is the time until it was ready."""

    def __init__(self, *options: str, threads: int | None = None) -> None:
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until the end of the process
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if threads:
            environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        began = time.monotonic()
        command = [sys.executable, "-c", LAUNCH, "--port", "0", "--no-access-log", *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=self._messages, env=environment)
        self.port = int(self._wait_for(rb"listening on http://127\.0\.0\.1:(\d+)")[1])
        self.listening_seconds = time.monotonic() - began
        self._wait_for(rb"ready: ")
        self.start_seconds = time.monotonic() - began

    def _wait_for(self, pattern: bytes) -> re.Match[bytes]:
        while True:
            text = os.pread(self._messages.fileno(), 100_000, 0)
            if match := re.search(pattern, text):
                return match
            if self.process.poll() is not None:
                raise RuntimeError(f"mbr-serve ended:\n{text.decode()}")
            time.sleep(0.02)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def memory(self) -> float:
        """Resident memory in MiB."""
        return self._status("VmRSS") / 1024

    def threads(self) -> int:
        return self._status("Threads")

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self) -> float:
        """Processor time so far, of all threads."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stream:
            fields = stream.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        content = connection.getresponse().read()
        connection.close()
        return json.loads(content)

    def _status(self, name: str) -> int:
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith(f"{name}:"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self._messages.close()


@dataclass
class Outcome:
    """Answers by status, the seconds of answers with 200, and what was wrong with the others."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    without_retry_after: int = 0
    lasted: float = 0.0  # from the first request to the last answer
    drained: float = 0.0  # from the last request of an open loop to the last answer
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, status: int, seconds: float, retry_after: str | None) -> None:
        with self._lock:
            self.statuses[status] += 1
            if status == 200:
                self.seconds.append(seconds)
            self.without_retry_after += status == 429 and retry_after is None

    @property
    def per_second(self) -> float:
        return self.statuses[200] / self.lasted if self.lasted else 0.0

    def quantile(self, share: float) -> float:
        """Seconds that this share of the answers stayed below."""
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} x {status or 'no answer'}" for status, count in sorted(self.statuses.items()))
        middle = statistics.median(self.seconds) if self.seconds else float("nan")
        times = f"median {1000 * middle:,.0f} ms, p95 {1000 * self.quantile(0.95):,.0f} ms"
        return f"{counts}; {times}, p99 {1000 * self.quantile(0.99):,.0f} ms, {self.per_second:.1f} per second"


def send(
    port: int, path: str, body: Body, outcome: Outcome, connection: http.client.HTTPConnection | None = None
) -> None:
    """One request; a connection of its own, unless one is given."""
    own = connection is None
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    began = time.perf_counter()
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        outcome.add(answer.status, time.perf_counter() - began, answer.headers.get("Retry-After"))
    except OSError:
        outcome.add(0, time.perf_counter() - began, None)
    finally:
        if own:
            connection.close()


def at_rate(port: int, path: str, bodies: Callable[[int], Body], rate: float, seconds: float) -> Outcome:
    """An open loop: requests leave at a fixed rate, whatever comes back."""
    outcome = Outcome()
    began = time.monotonic()
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        for number in range(int(rate * seconds)):
            pause = began + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            pool.submit(send, port, path, bodies(number), outcome)
        sent = time.monotonic()
    outcome.lasted, outcome.drained = time.monotonic() - began, time.monotonic() - sent
    return outcome


def as_fast_as_it_can(port: int, path: str, bodies: Callable[[int], Body], clients: int, count: int) -> Outcome:
    """A closed loop: clients with one connection each, the next request after the last answer."""
    outcome = Outcome()
    numbers = iter(range(count))
    lock = threading.Lock()

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            send(port, path, bodies(number), outcome, connection)
        connection.close()

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome.lasted = time.monotonic() - began
    return outcome


def rotated(lists: Sequence[tuple[str, Sequence[Any]]], recipe: str) -> Callable[[int], Body]:
    """Bodies for /v1/decode, all different: the lists in turn, their candidates rotated, so that none are joined."""

    def body(number: int) -> Body:
        source, texts = lists[number % len(lists)]
        shift = (number // len(lists)) % len(texts)
        return {"source": source, "candidates": [*texts[shift:], *texts[:shift]], "recipe": recipe}

    return body
