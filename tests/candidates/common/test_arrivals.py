"""Lines that arrive over time: each is there when it is whole, and a pause is seen where no further one follows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from candidates.common.arrivals import PAUSE, Arrivals, with_pauses, without_pauses
from candidates.generation import Settings, open_generator

LINES = ["Good morning.", "", "A dog runs.", "He said no. She said yes.", "I am tired."]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_lines_keep_their_ends_and_the_last_may_have_none(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"one\ntwo\r\n\nthr")
    os.write(pipe[1], b"ee\nfour")
    os.close(pipe[1])
    assert list(Arrivals(pipe[0])) == [b"one\n", b"two\r\n", b"\n", b"three\n", b"four"]


def test_an_open_pipe_without_a_whole_line_is_idle_and_an_ended_one_is_not(pipe: tuple[int, int]) -> None:
    arrivals = Arrivals(pipe[0], delay=0.01)
    assert arrivals.idle()
    os.write(pipe[1], b"one\ntw")
    assert not arrivals.idle()
    assert next(arrivals) == b"one\n"
    assert arrivals.idle()
    os.write(pipe[1], b"o\n")
    assert not arrivals.idle()
    assert next(arrivals) == b"two\n"
    os.close(pipe[1])
    assert not arrivals.idle()
    assert list(arrivals) == []


def test_waiting_is_bounded_however_the_lines_come(pipe: tuple[int, int]) -> None:
    """Lines that each come just before the delay is over do not put off the answer for ever."""
    arrivals = Arrivals(pipe[0], delay=0.3)
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.05):
            os.write(pipe[1], b"line\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        taken = 0
        began = time.monotonic()
        while not arrivals.idle() and time.monotonic() - began < 30:
            next(arrivals)
            taken += 1
        assert taken < 30
    finally:
        stop.set()
        writer.join()


def test_pauses_are_put_in_and_taken_out() -> None:
    idle = iter([False, True, True])
    marked = list(with_pauses([1, 2, 3], lambda: next(idle)))
    assert marked == [1, 2, PAUSE, 3, PAUSE]
    assert list(without_pauses(marked)) == [1, 2, 3]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(nbest=8),
        Settings(nbest=66, method="sample", max_length=20),
        Settings(nbest=4, method="epsilon", max_length=20),
    ],
    ids=["beam", "sample", "epsilon"],
)
def test_candidates_do_not_depend_on_when_the_lines_came(settings: Settings) -> None:
    with open_generator(settings, threads=1) as generator:
        whole = list(generator.generate(LINES))
        for pauses in ("11111", "01001", "00000"):
            idle = (mark == "1" for mark in pauses)
            records = list(generator.generate_arriving(LINES, lambda idle=idle: next(idle)))
            assert list(without_pauses(records)) == whole
            assert records.count(PAUSE) == pauses.count("1")
            assert records[-1] is PAUSE or pauses[-1] == "0"


def test_what_was_done_before_is_left_out() -> None:
    settings = Settings(nbest=66, method="sample", max_length=12)
    with open_generator(settings, threads=1) as generator:
        whole = list(generator.generate(LINES))
        records = list(generator.generate_arriving(LINES, lambda: True, skip=3))
    assert list(without_pauses(records)) == whole[3:]


def test_few_samples_depend_on_the_place_of_a_line_alone() -> None:
    """They are other ones than those of a file, where several lines are drawn for together."""
    with open_generator(Settings(nbest=3, method="sample", max_length=12), threads=1) as generator:
        one_by_one = list(without_pauses(generator.generate_arriving(LINES, lambda: True)))
        at_once = list(without_pauses(generator.generate_arriving(LINES, lambda: False)))
    assert one_by_one == at_once
