"""The summary of a run has the right numbers in constant memory."""

from __future__ import annotations

import random
from statistics import median

import numpy as np
import pytest

from mbr import rerank
from mbr.cli.decode.tally import SAMPLE, Running

pytestmark = pytest.mark.one_world


def test_running_statistics_are_those_of_all_numbers() -> None:
    numbers = [random.Random(3).random() for _ in range(10)] + [0.01, 0.5]
    running = Running()
    for number in numbers:
        running.add(number)
    assert running.mean == pytest.approx(np.mean(numbers))
    assert running.median == median(numbers)
    assert running.root_mean_square == pytest.approx(np.sqrt(np.mean(np.square(numbers))))
    assert running.above == sum(number > 0.05 for number in numbers)


def test_a_long_run_keeps_a_sample_of_its_numbers() -> None:
    running, draw = Running(), random.Random(5)
    numbers = [draw.gauss(10, 3) for _ in range(30_000)]
    for number in numbers:
        running.add(number)
    assert len(running._sample) == SAMPLE
    assert running.median == pytest.approx(median(numbers), abs=0.2)
    assert running.mean == pytest.approx(np.mean(numbers))


def test_a_list_of_one_text_has_numbers_for_it() -> None:
    decision = rerank("s", ["a", "a"], "chrf")
    assert np.isnan(decision.expected[decision.ranking[0]])
    assert (decision.record()["score"], decision.record()["expected_utility"], decision.margin) == (None, None, None)
