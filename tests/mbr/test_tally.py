"""The summary of a run has the right numbers in constant memory."""

from __future__ import annotations

import random
from statistics import median

import numpy as np
import pytest

from candidates import CandidateList
from candidates.command.console import Console
from mbr import rerank
from mbr.cli.decode.tally import SAMPLE, Running, Tally
from mbr.decide import Certainty, Decision
from mbr.signature import Signature

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


def summary(certainties: list[Certainty], capsys: pytest.CaptureFixture[str], *, verbose: bool = False) -> list[str]:
    """What a run with such decisions says, without the time and the signature."""
    item = CandidateList.of("s", ["a", "b", "c"])
    numbers = np.zeros(3)
    decisions = [Decision(k, item, (0, 1, 2), numbers, numbers, {}, 4, known) for k, known in enumerate(certainties)]
    tally, console = Tally(), Console("mbr-decode", verbose=verbose)
    tally.add(decisions, console)
    tally.report(console, Signature({"utility": "pear"}))
    *lines, signature = capsys.readouterr().err.splitlines()
    assert signature == "mbr-decode: MBR|utility:pear"
    return [line.removeprefix("mbr-decode: ") for line in lines]


def test_the_summary_is_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    sure, unsure, unknown = Certainty(0.001, 1, 0.1, 0.2), Certainty(0.2, 3, 0.3, 0.1), Certainty(None, None, 0.2)
    cost = "translations chosen from 9 distinct candidates in 0.0 s; 12 pairs scored (1.3 per candidate)"
    loss = "expected loss against scoring every pair"
    assert summary([sure, sure, unsure], capsys) == [f"3 {cost}", f"{loss}: 6.7 % on average; 1 segment above 5 %"]
    assert summary([sure, sure, unknown], capsys)[1:] == [
        f"{loss}: 0.1 % on average; no segment above 5 %; not known for 1 segment"
    ]
    assert summary([unknown] * 3, capsys)[1:] == [f"{loss}: not known for 3 segments"]
    assert summary([Certainty(0.0001)] * 3, capsys)[1:] == [f"{loss}: below 0.1 % on average; no segment above 5 %"]
    assert summary([Certainty()] * 3, capsys) == [f"3 {cost}"], "every pair was scored: nothing to say"


def test_numbers_for_experts_need_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    known = [Certainty(0.001, 1, 0.1, 0.2), Certainty(0.2, 3, 0.3, 0.1)]
    assert not any("rho" in line or "contenders" in line for line in summary(known, capsys))
    assert summary(known, capsys, verbose=True)[-1] == (
        "expected regret 10.05 %, above 5 % in 1 of 2 segments; 2.0 contenders left; rho 0.20; tau 0.16"
    )
