"""What a Ray cluster gives and costs: two workers against one, the driver's share, and a run whose workers are killed.

    python -m benchmarks.cluster
    python -m benchmarks.cluster --lists 60 --many 5000 --kills 3

Proves that two workers decide at least 1.7 times as many lists per second as one where two cores are free, that the
driver's memory does not grow with the number of lists, what CPU time it needs per list (how many workers one driver
feeds), and that a run whose workers are killed at random gives the bytes of one process. On a local cluster with one
CPU per worker; speed with the default recipe and 100 candidates, driver and kills with chrF and short lists. Needs the
extra `ray`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.headlines import headline
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.tatoeba import candidate_lists, parts
from candidates.generation import Settings
from candidates.lists import CandidateList
from mbr.cli.decode.records import render
from mbr.decide import Decision
from mbr.opening import DecoderPlan
from mbr.ray.runner import ClusterRun
from mbr.ray.session import ClusterOptions, Session
from mbr.recipe import Recipe, read_recipe

WANTED_SPEED_UP = 1.7
ALLOWED_GROWTH = 1.1
WORDS = ("the", "a", "cat", "dog", "house", "runs", "sleeps", "today", "tomorrow", "never", "always", "under")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, default=300, help="100-best lists for the speed-up")
    parser.add_argument(
        "--many", type=int, default=100_000, help="short lists for the driver; half as many for the kills"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=WORK / "cluster")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sources = parts(TATOEBA)["held-out"][: options.lists]
    lists = candidate_lists(options.work / f"lists-{options.lists}.jsonl", sources, Settings(nbest=100))
    plan = DecoderPlan(read_recipe("en-de").complete(), {"threads": 1})
    fast = speed_up(plan, lists, options.repeats)
    flat = driver(options.many)
    same = kills(list(short_lists(options.many // 2)), options.kills)
    return int(not (fast and flat and same))


def speed_up(plan: DecoderPlan, lists: list[CandidateList], repeats: int) -> bool:
    """Lists per second of one worker and of two, in turn, after the first window."""
    ratios = []
    for _ in range(repeats):
        rates = {count: rate(plan, lists, count) for count in (1, 2)}
        ratios.append(rates[2] / rates[1])
        print(f"one worker {rates[1]:.2f} lists per second, two {rates[2]:.2f}: {ratios[-1]:.2f} times", flush=True)
    best, worst = max(ratios), min(ratios)
    middle = sorted(ratios)[len(ratios) // 2]
    headline(f"two workers against one: {middle:.2f} times the lists per second ({worst:.2f} to {best:.2f})")
    return middle >= WANTED_SPEED_UP


def rate(plan: DecoderPlan, lists: list[CandidateList], workers: int) -> float:
    with Session(ClusterOptions(workers=workers)) as session, plan.open() as decoder:
        decoder.utility.window_passes //= 8  # so few lists make too few windows otherwise
        began, done = None, 0
        for window in ClusterRun(session, plan).windows(decoder, lists):
            if began is None:
                began = time.monotonic()
            else:
                done += len(window)
        assert began is not None
        return done / (time.monotonic() - began)


def driver(count: int) -> bool:
    """The driver's CPU time and memory for many short lists, the first tenth against the whole."""
    plan = DecoderPlan(Recipe("chrf").complete(), {"threads": 1})
    with Session(ClusterOptions(workers=1)) as session, plan.open() as decoder:
        began, early, done = time.process_time(), 0.0, 0
        for window in ClusterRun(session, plan).windows(decoder, short_lists(count)):
            for decision in window:
                render(decision, "jsonl", 1)
            done += len(window)
            if not early and done >= count / 10:
                early = peak()
        milliseconds = 1000 * (time.process_time() - began) / count
        growth = peak() / early
    headline(f"the driver: {milliseconds:.2f} ms of CPU per list, {growth:.2f} times the memory for 10 times the lists")
    return growth <= ALLOWED_GROWTH


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def short_lists(count: int) -> Iterator[CandidateList]:
    draw = random.Random(1)
    for place in range(count):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 9))) for _ in range(5)]
        yield CandidateList.of(f"source {place}", texts, id=place)


def kills(lists: list[CandidateList], count: int) -> bool:
    """Kill workers at random moments, `count` times in all; the bytes must be those of one process."""
    plan = DecoderPlan(Recipe("chrf").complete(), {"threads": 1})
    with plan.open() as decoder:
        expected = digest(decoder.windows(lists))
    killed: list[int] = []
    began, runs, lost = time.monotonic(), 0, 0
    with Session(ClusterOptions(workers=2)) as session, plan.open() as decoder:
        while len(killed) < count:  # again and again, until there were enough
            run = ClusterRun(session, plan)
            stop = threading.Event()
            thread = threading.Thread(target=kill_now_and_then, args=(run, stop, killed, count))
            thread.start()
            assert digest(run.windows(decoder, lists)) == expected, "another result than that of one process"
            stop.set()
            thread.join()
            runs += 1
            lost += sum(node.lost_windows for node in run.summary.nodes.values())
    seconds = time.monotonic() - began
    headline(
        f"{len(killed)} workers killed in {seconds:.0f} s, {runs} runs of {len(lists):,} lists, {lost} windows decided "
        "again: the bytes of one process each time"
    )
    return True


def kill_now_and_then(run: ClusterRun, stop: threading.Event, killed: list[int], most: int) -> None:
    draw = random.Random(len(killed))
    while len(killed) < most and not stop.wait(draw.uniform(2, 6)):
        if processes := run.processes():
            process = draw.choice(processes)
            os.kill(process, signal.SIGKILL)
            killed.append(process)


def digest(windows: Iterator[list[Decision]]) -> str:
    """Of the bytes that mbr-decode would write."""
    content = hashlib.blake2b()
    for window in windows:
        for decision in window:
            content.update(render(decision, "jsonl", 1))
    return content.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
