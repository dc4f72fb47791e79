"""The scheduler without a web library: many callers, one thread with the models, and what may go wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, MbrError, ModelError, ResourceError
from candidates.lists import CandidateList
from mbr.evidence import WeightedTerm
from mbr.guards import Guard, Guards, ListTexts, get_guard
from mbr.opening import open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Recipe, TermSpec
from mbr.serve.jobs import DeadlinePassed, Gone, Request
from mbr.serve.scheduler import Scheduler
from mbr.terms.of_utility import OfUtility
from tests.mbr.serve.conftest import Make
from tests.mbr.serve.made import SENTENCES, Faulty, Seen, ask, decoder_for, listed

pytestmark = pytest.mark.one_world


def test_a_request_gets_the_decision_of_the_library(make: Make, utility: Faulty) -> None:
    scheduler = make()
    item = listed("a list", 20)
    answer = ask(scheduler, item).result(20)
    (expected,) = decoder_for(utility).decide([item])
    assert answer.decision is not None
    assert (answer.decision.ranking, answer.decision.passes) == (expected.ranking, expected.passes)
    assert answer.decision.scores.tobytes() == expected.scores.tobytes()
    assert answer.signature.startswith("MBR|utility:pear|strategy:race")
    assert answer.inference_seconds > 0


@pytest.fixture(scope="module")
def pear() -> Iterator[Decoder]:
    recipe = Recipe("pear", {"model": "en-de"}, strategy="full")
    with open_decoder(recipe, runtime={"device": "cpu", "threads": 1}) as decoder:
        yield decoder


def long_list(size: int = 24) -> CandidateList:
    """Texts of many lengths, so that the model's batches differ from the order of the pairs."""
    texts = [f"Wo ist {'der alte ' * (k % 5)}Bahnhof Nummer {k}, {'bitte' if k % 2 else 'Tom'}?" for k in range(size)]
    return CandidateList.of("Where is the old station, please?", texts, id="request")


def test_alone_a_long_request_has_the_bits_of_the_library_though_it_is_scored_in_portions(pear: Decoder) -> None:
    item = long_list()
    (expected,) = pear.decide([item])
    with Scheduler(max_queue_tokens=10**7, portion=32) as scheduler:
        scheduler.replace({"pear": pear})
        answer = ask(scheduler, item, "pear").result(60)
    assert answer.decision is not None
    assert answer.decision.passes == 552
    assert answer.decision.scores.tobytes() == expected.scores.tobytes()
    assert answer.decision.expected.tobytes() == expected.expected.tobytes()
    assert (
        answer.tokens
        == pear.utility.cost(  # type: ignore[attr-defined]
            [(item.source, a, b) for a in item.texts for b in item.texts if a != b]
        )["tokens"]
    )


def test_mixed_requests_get_the_same_choices_and_numbers_within_a_millionth(pear: Decoder) -> None:
    items = [CandidateList.of(source, texts, id="request") for source, texts in SENTENCES.items()] + [long_list(14)]
    with Scheduler(max_queue_tokens=10**7, portion=16, step_tokens=1024) as scheduler:
        scheduler.replace({"pear": pear})
        tickets = scheduler.submit([Request("pear", item) for item in items])
        answers = [ticket.future.result(60) for ticket in tickets]
    for item, answer in zip(items, answers, strict=True):
        (expected,) = pear.decide([item])
        assert answer.decision is not None
        assert answer.decision.ranking == expected.ranking
        np.testing.assert_allclose(answer.decision.scores, expected.scores, atol=1e-6, rtol=0)


def test_small_requests_overtake_a_large_one(make: Make, utility: Faulty) -> None:
    """Beside 4,950 pairs in slow portions, small requests end after a few steps, and the large one goes on."""
    utility.seconds_per_call = 0.01
    scheduler = make()
    large = ask(scheduler, listed("large", 100), "half")
    while len(utility.calls) < 8:
        time.sleep(0.005)
    calls = len(utility.calls)
    small = [ask(scheduler, listed(f"small {k}", 6), "half") for k in range(3)]
    for future in small:
        future.result(20)
    assert len(utility.calls) - calls <= 4
    assert not large.done()
    assert large.result(20).decision.passes == 5049  # type: ignore[union-attr]  # with 2 % in both orders


def test_two_large_requests_take_turns(make: Make, utility: Faulty) -> None:
    scheduler = make()
    utility.go.clear()
    futures = [ask(scheduler, listed(f"large {k}", 60), "half") for k in range(2)]
    utility.go.set()
    for future in futures:
        future.result(20)
    finished = [future.result().inference_seconds + future.result().queue_seconds for future in futures]
    assert max(finished) < 2.5 * min(finished)


@pytest.mark.parametrize(("word", "error"), [("nan", ModelError), ("bug", ModelError)])
def test_only_the_request_that_fails_fails(
    word: str, error: type[MbrError], make: Make, utility: Faulty, seen: Seen
) -> None:
    scheduler = make()
    utility.go.clear()
    first = ask(scheduler, listed("first"))
    futures = [ask(scheduler, listed(f"good {k}")) for k in range(3)]
    bad = ask(scheduler, listed(f"this one is {word}"))
    utility.go.set()
    for future in [first, *futures]:
        assert future.result(20).decision is not None
    with pytest.raises(error) as caught:
        bad.result(20)
    assert "a bug in one request" not in str(caught.value)
    assert seen.reasons == ["failed"]
    assert not any("a bug in" in line for line in seen.errors), "messages of exceptions may hold texts"
    assert bool(seen.errors) == (word == "bug")


def test_memory_that_runs_out_once_costs_nothing(make: Make) -> None:
    assert ask(make(), listed("memory")).result(20).decision is not None


def test_memory_that_runs_out_again_is_a_resource_error(make: Make, utility: Faulty, monkeypatch: Any) -> None:
    monkeypatch.setattr(utility, "once", frozenset())
    monkeypatch.setattr(Faulty, "score_pairs", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(ResourceError):
        ask(make(), listed("memory")).result(20)


@pytest.mark.parametrize("word", ["nan", "bug"])
def test_with_fallback_the_first_candidate_stands_in(word: str, make: Make, seen: Seen) -> None:
    answer = ask(make(fallback=True), listed(word)).result(20)
    assert answer.decision is not None
    assert (answer.decision.text, answer.decision.flags) == ("t 0", ("fallback",))
    assert seen.fallbacks == 1


class BrokenGuard(Guard):
    name = "broken"

    def faults(self, listed: ListTexts) -> list[float]:
        raise KeyError("a bug in a guard")


@pytest.mark.parametrize("when", ["scoring", "deadline", "terms"])
def test_a_fallback_keeps_the_guards(when: str, utility: Faulty) -> None:
    guards = Guards({"placeholders": get_guard("placeholders")})
    decoder = replace(decoder_for(utility, "half"), guards=guards)
    if when == "terms":
        spec = TermSpec("logprob", 1.0)
        broken = WeightedTerm(OfUtility(utility), 1.0)
        decoder = replace(decoder, recipe=replace(decoder.recipe, terms=(spec,)), terms=(broken,))
    texts = ["Hallo", "Na", *(f"Hallo {{name}} {k}" for k in range(60))]
    item = CandidateList.of("Hi {name}" + ("" if when == "deadline" else " nan"), texts, id="request")
    utility.seconds_per_call = 0.05 if when == "deadline" else 0.0
    with Scheduler(max_queue_tokens=10**7, fallback=True, portion=16) as scheduler:
        scheduler.replace({"half": decoder})
        late = {"timeout": 0.2, "on_deadline": "best"} if when == "deadline" else {}
        answer = ask(scheduler, item, "half", **late).result(20)
    assert answer.decision is not None
    assert (answer.decision.text, answer.decision.flags) == ("Hallo {name} 0", ("fallback",))


def test_guards_that_fail_leave_no_fallback_and_the_service_goes_on(utility: Faulty) -> None:
    broken = replace(decoder_for(utility), guards=Guards({"broken": BrokenGuard()}))
    with Scheduler(max_queue_tokens=10**7, fallback=True) as scheduler:
        scheduler.replace({"broken": broken, "race": decoder_for(utility)})
        with pytest.raises(ModelError, match="KeyError"):
            ask(scheduler, listed("x"), "broken").result(20)
        assert ask(scheduler, listed("y")).result(20).decision is not None


def test_a_wrong_request_is_an_error_even_with_fallback(seen: Seen) -> None:
    decoder = open_decoder(Recipe("chrf", weights="logprob"))
    with Scheduler(max_queue_tokens=10**6, fallback=True, watch=seen) as scheduler:
        scheduler.replace({"chrf": decoder})
        with pytest.raises(InputError, match="no log-probability"):
            ask(scheduler, listed("x"), "chrf").result(20)
    assert seen.fallbacks == 0


def test_a_caller_who_has_gone_while_waiting_costs_nothing(make: Make, utility: Faulty, seen: Seen) -> None:
    scheduler = make(step_tokens=1)  # one conversation at a time
    utility.go.clear()
    first = ask(scheduler, listed("first"))
    (ticket,) = scheduler.submit([Request("race", listed("gone"))])
    utility.scoring.wait(20)
    ticket.cancel()
    utility.go.set()
    first.result(20)
    with pytest.raises(Gone):
        ticket.future.result(20)
    assert seen.reasons == ["client gone"]
    assert scheduler.drain(5) == 0


def test_a_caller_who_has_gone_in_the_middle_is_taken_out(make: Make, utility: Faulty) -> None:
    utility.seconds_per_call = 0.01
    scheduler = make()
    (ticket,) = scheduler.submit([Request("half", listed("large", 100))])
    while len(utility.calls) < 3:
        time.sleep(0.005)
    ticket.cancel()
    with pytest.raises(Gone):
        ticket.future.result(20)
    assert sum(utility.calls) < 2000
    assert ask(scheduler, listed("next")).result(20).decision is not None


def test_a_deadline_before_the_first_scores_is_an_error(make: Make, utility: Faulty, seen: Seen) -> None:
    scheduler = make()
    utility.go.clear()
    first = ask(scheduler, listed("first"))
    assert utility.scoring.wait(20)
    futures = [
        ask(scheduler, listed(f"late {how}"), timeout=0.05, on_deadline=how)  # type: ignore[arg-type]
        for how in ("error", "best")
    ]
    time.sleep(0.1)
    utility.go.set()
    first.result(20)
    for future in futures:
        with pytest.raises(DeadlinePassed, match="waiting"):
            future.result(20)
    assert seen.reasons == ["deadline", "deadline"]


def test_a_deadline_while_idle_is_kept(make: Make) -> None:
    """The list is still being made, and nothing else wakes the scheduler up."""
    scheduler = make()
    hold = threading.Event()
    (ticket,) = scheduler.submit([Request("race", prepare=lambda: hold.wait(20) and listed("x"), timeout=0.05)])  # type: ignore[arg-type,return-value]
    with pytest.raises(DeadlinePassed, match="still being made"):
        ticket.future.result(20)
    hold.set()


def test_at_its_deadline_a_request_may_have_the_best_so_far(make: Make, utility: Faulty, seen: Seen) -> None:
    utility.seconds_per_call = 0.05
    scheduler = make(portion=16)
    future = ask(scheduler, listed("large", 60), timeout=0.5, on_deadline="best", keep_matrix=True)
    answer = future.result(20)
    assert answer.partial
    assert answer.decision is not None
    assert answer.decision.matrix is not None
    assert 0 < answer.decision.passes < 1200
    assert seen.partials == 1


def test_a_strategy_that_cannot_decide_early_has_no_best_so_far(make: Make, utility: Faulty) -> None:
    utility.seconds_per_call = 0.05
    future = ask(make(portion=16), listed("large", 60), "half", timeout=0.2, on_deadline="best")
    with pytest.raises(DeadlinePassed, match="'half' cannot decide before its end"):
        future.result(20)


def test_with_fallback_no_sentence_is_lost_at_a_deadline(make: Make, utility: Faulty) -> None:
    utility.seconds_per_call = 0.05
    scheduler = make(portion=16, fallback=True)
    answer = ask(scheduler, listed("large", 60), "half", timeout=0.2, on_deadline="best").result(20)
    assert answer.partial
    assert answer.decision is not None
    assert answer.decision.flags == ("fallback",)
    with pytest.raises(DeadlinePassed):
        ask(scheduler, listed("large", 60), "half", timeout=0.2).result(20)
