"""Does the service stay quick, correct and small under load?

    python -m benchmarks.load_serve
    python -m benchmarks.load_serve --seconds 10 --requests 5000 --only load beside memory

Proves what docs/serve.md promises of mbr-serve with the bundled models.
`start`: seconds until it listens and until it is ready.
`batch`: requests per CPU second against decoding the same lists in a batch.
`load`: requests at half, one and two times the measured capacity, in an open loop; lists of 20 candidates of the
bundled translator, with the bundled PEAR alone (`default`) and with its terms (`translations`). The capacity is that of
8 clients, all of whose requests are answered. Below capacity there is no error; above it there are only 200 and 429
with Retry-After, the queue is bounded, and five seconds later all is as before.
`beside`: 15-pair requests beside one of 4,950 pairs; small ones, with chrF and with `translations`, beside one of 256
candidates with `translations`.
`memory`: many requests (chrF); memory, threads and files of the first tenth against the last.
`slow`: slowhttptest with slow heads, bodies and readers; others are answered meanwhile.
`clients`: litellm in an environment of its own, which is built once.
All traffic goes to 127.0.0.1 and is bounded in number or time. The exit code is 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.support.headlines import headline
from benchmarks.support.places import ROOT
from benchmarks.support.serving import Body, Outcome, Serving, as_fast_as_it_can, at_rate, rotated, send
from candidates.generation import Settings, open_generator
from candidates.lists import Candidate, CandidateList
from mbr.opening import open_decoder
from mbr.recipe import Recipe

CANDIDATES = 20
SMALL = 6  # candidates, so 15 pairs
BACK_TO_NORMAL = 5.0  # seconds after an overload
LARGE = 256  # candidates, as many as the service takes by default
Lists = list[tuple[str, tuple[Any, ...]]]  # sources, and candidates as /v1/decode takes them
Check = Callable[[argparse.Namespace], bool]


def lists_of(size: int, count: int = 100) -> Lists:
    """Lists of the bundled translator for the sample's sentences, with log-probabilities."""
    sources = (ROOT / "benchmarks" / "sample" / "hundred.en.txt").read_text(encoding="utf-8").splitlines()[:count]
    with open_generator(Settings(nbest=size)) as generator:
        records = list(generator.generate(sources))
    lists = [item for item in records if isinstance(item, CandidateList) and len(item) > 1]
    return [
        (item.source, tuple({"text": entry.text, "logprob": entry.logprob} for entry in item.listed()))
        for item in lists
    ]


def start(options: argparse.Namespace) -> bool:
    with Serving() as serving:
        headline(
            f"cold start: listening after {serving.listening_seconds:.1f} s, ready after {serving.start_seconds:.1f} s"
        )
    return True


def batch(options: argparse.Namespace) -> bool:
    """Both on one thread, so that processor time is work and not waiting."""
    lists = lists_of(CANDIDATES)
    count = min(options.requests, 300)
    body = rotated(lists, "default")
    items = [
        CandidateList.of(body(k)["source"], [Candidate(**entry) for entry in body(k)["candidates"]], id=k)
        for k in range(count)
    ]
    runtime = {"threads": 1, "device": "cpu"}
    with open_decoder(Recipe("pear", {"model": "en-de"}, strategy="race"), runtime=runtime) as decoder:
        decoder.decide(items[:2])
        began = time.process_time()
        decided = sum(len(window) for window in decoder.windows(items))
        in_batch = decided / (time.process_time() - began)
    with Serving("--cache-scores", "0", "--threads", "1", "--translator", "none", threads=1) as serving:
        as_fast_as_it_can(serving.port, "/v1/decode", body, 1, 5)
        before = serving.cpu_seconds()
        outcome = as_fast_as_it_can(serving.port, "/v1/decode", body, 8, count)
        served = outcome.statuses[200] / (serving.cpu_seconds() - before)
    print(f"batch: {in_batch:.1f} lists per CPU second; service: {served:.1f}, {outcome}")
    headline(f"requests per CPU second against a batch: {100 * served / in_batch:.0f} % (at least 85 %)")
    return served >= 0.85 * in_batch


def load(options: argparse.Namespace) -> bool:
    lists = lists_of(CANDIDATES)
    held = [_load(rotated(lists, recipe), recipe, options.seconds) for recipe in ("default", "translations")]
    return all(held)


def _load(body: Callable[[int], Body], recipe: str, seconds: float) -> bool:
    with Serving("--cache-scores", "0") as serving:
        as_fast_as_it_can(serving.port, "/v1/decode", body, 1, 5)
        closed = as_fast_as_it_can(serving.port, "/v1/decode", body, 8, max(int(seconds * 5), 40))
        capacity = closed.per_second
        headline(f"{recipe}: capacity {capacity:.1f} requests per second, 8 clients, {dict(closed.statuses)}")
        good = set(closed.statuses) == {200}
        most = _limits(serving)["max_queue_tokens"]
        for factor in (0.5, 1.0, 2.0):
            highest = _Highest(serving)
            with highest:
                outcome = at_rate(serving.port, "/v1/decode", body, factor * capacity, seconds)
            print(f"{factor:3} x capacity: {outcome}; queue at most {highest.tokens:,} tokens", flush=True)
            p99 = f"p99 {1000 * outcome.quantile(0.99):,.0f} ms"
            headline(f"{recipe}, {factor} x capacity: {p99}, {dict(outcome.statuses)}")
            allowed = {200} if factor < 1 else {200, 429}
            good &= set(outcome.statuses) <= allowed and not outcome.without_retry_after and highest.tokens <= most
        after = at_rate(serving.port, "/v1/decode", body, 0.5 * capacity, min(seconds, 10))
        headline(f"after the overload: all answered {outcome.drained:.1f} s after the last request (at most 5 s)")
        headline(f"then at 0.5 x capacity: p99 {1000 * after.quantile(0.99):,.0f} ms, {dict(after.statuses)}")
        good &= outcome.drained <= BACK_TO_NORMAL and set(after.statuses) == {200}
    return good


class _Highest:
    """The largest queue while something runs, looked at ten times per second."""

    def __init__(self, serving: Serving) -> None:
        self.tokens = 0
        self._serving = serving
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._end.wait(0.1):
            self.tokens = max(self.tokens, self._serving.get("/info")["queue"]["tokens"])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *details: object) -> None:
        self._end.set()
        self._thread.join()


def _limits(serving: Serving) -> dict[str, int]:
    limits: dict[str, int] = serving.get("/info")["limits"]
    return limits


def beside(options: argparse.Namespace) -> bool:
    """One large request, again and again, and small ones twice per second."""
    half = "half={utility: pear, options: {model: en-de}, strategy: half}"
    small = [(source, texts[:SMALL]) for source, texts in lists_of(SMALL)]
    good = True
    with Serving("--recipe", half, "--cache-scores", "0", "--translator", "none") as serving:
        large = _numbered(100)
        good &= _beside(serving, rotated(small, "half"), large, "15-pair requests beside 4,950 pairs", options.seconds)
    with Serving("--cache-scores", "0") as serving:
        large = {**_numbered(LARGE), "recipe": "translations"}
        for recipe in ("chrf", "translations"):
            words = f"{recipe}, {SMALL} candidates, beside {LARGE} with translations"
            good &= _beside(serving, rotated(small, recipe), large, words, options.seconds)
    return good


def _numbered(size: int) -> Body:
    """A request of this many candidates, all different: the longest list, again and again, with numbers."""
    source, entries = max(lists_of(100, 20), key=lambda item: len(item[1]))
    repeated = [entries[k % len(entries)] for k in range(size)]
    return {
        "source": source,
        "candidates": [{**entry, "text": f"{entry['text']} {k}"} for k, entry in enumerate(repeated)],
        "timeout_ms": 300_000,
    }


def _beside(serving: Serving, small: Callable[[int], Body], large: Body, words: str, seconds: float) -> bool:
    as_fast_as_it_can(serving.port, "/v1/decode", small, 1, 3)
    alone = as_fast_as_it_can(serving.port, "/v1/decode", small, 1, 20)
    ends = time.monotonic() + seconds
    background = Outcome()

    def keep_busy() -> None:
        while time.monotonic() < ends:
            send(serving.port, "/v1/decode", large, background)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    time.sleep(1)
    outcome = at_rate(serving.port, "/v1/decode", small, 2.0, max(seconds - 2, 1))
    thread.join()
    print(f"{words}\nalone: {alone}\nbeside: {outcome}\nthe large ones: {background}", flush=True)
    slowest = max(outcome.seconds, default=float("inf"))
    headline(f"{words}: slowest {slowest:.2f} s (at most 1 s)")
    return slowest <= 1.0 and set(outcome.statuses) == set(background.statuses) == {200}


def memory(options: argparse.Namespace) -> bool:
    """The first tenth warms everything up, the cache of scores included."""
    texts = [tuple(f"word {k} and {j} more of {k * j % 7}" for j in range(4)) for k in range(97)]

    def body(first: int, number: int) -> dict[str, object]:
        number += first
        return {"source": f"source {number}", "candidates": [f"{text} {number}" for text in texts[number % 97]]}

    tenth = max(options.requests // 10, 1)
    with Serving("--recipe", "c={utility: chrf}", "--translator", "none", "--cache-scores", "20000") as serving:
        rows: list[tuple[float, int, int]] = []
        for part in range(10):
            outcome = as_fast_as_it_can(serving.port, "/v1/decode", partial(body, part * tenth), 4, tenth)
            time.sleep(0.5)  # closed connections are gone by then
            rows.append((serving.memory(), serving.threads(), serving.files()))
            used = f"{rows[-1][0]:.1f} MiB, {rows[-1][1]} threads, {rows[-1][2]} files"
            print(f"{(part + 1) * tenth:>8,} requests: {used}; {outcome}", flush=True)
    growth, threads, files = rows[-1][0] / rows[0][0], rows[-1][1] - rows[0][1], rows[-1][2] - rows[0][2]
    headline(f"{10 * tenth:,} requests (chrF): {growth:.3f} times the memory of the first tenth")
    headline(f"and {threads:+} threads, {files:+} files")
    return growth < 1.02 and threads <= 0 and files <= 2


def slow(options: argparse.Namespace) -> bool:
    program = shutil.which("slowhttptest")
    if program is None:
        print("slow: slowhttptest is not installed (apt-get install slowhttptest); left out")
        return True
    body = rotated([("A dog.", ("Ein Hund.", "Der Hund.", "Hund."))], "c")
    seconds = max(int(min(options.seconds, 20)), 5)
    good = True
    with Serving("--recipe", "c={utility: chrf}", "--translator", "none", "--header-seconds", "3") as serving:
        for name, words in {
            "slow heads": ["-H", "-i", "1"],
            "slow bodies": ["-B", "-i", "1", "-s", "8192"],
            "slow readers": ["-X", "-w", "1", "-y", "2", "-n", "1", "-z", "1", "-k", "1"],
        }.items():
            address = f"{serving.address}/{'page.js' if '-X' in words else 'v1/decode'}"
            command = [program, *words, "-c", "800", "-r", "400", "-l", str(seconds), "-u", address, "-x", "16"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as attack:
                outcome = at_rate(serving.port, "/v1/decode", body, 20.0, seconds - 2)
                attack.wait(60)
            slowest = f"p99 {1000 * outcome.quantile(0.99):,.0f} ms"
            headline(f"{name}, 800 connections: others got {dict(outcome.statuses)}, {slowest}")
            good &= set(outcome.statuses) == {200}
    return good


def clients(options: argparse.Namespace) -> bool:
    from benchmarks.support.peers import ask_litellm

    documents = ["Ein Hund läuft.", "Der Hund läuft.", "Hund.", "Eine Katze schläft."]
    with Serving("--recipe", "c={utility: chrf}", "--translator", "none") as serving:
        request = {"address": serving.address, "key": "none", "model": "c", "query": "A dog.", "documents": documents}
        answers = ask_litellm(request)
    same = len({str(answer["results"]) for answer in answers}) == 1
    headline(f"litellm routes that work unchanged: {', '.join(answer['route'] for answer in answers)}")
    return same and len(answers) == 4


CHECKS: dict[str, Check] = {
    "start": start,
    "batch": batch,
    "load": load,
    "beside": beside,
    "memory": memory,
    "slow": slow,
    "clients": clients,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--requests", type=int, default=100_000, help="of `memory`")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    options = parser.parse_args(argv)
    failed = []
    for name in options.only:
        print(f"\n{name}", flush=True)
        if not CHECKS[name](options):
            failed.append(name)
    if failed:
        headline(f"NOT as promised: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
