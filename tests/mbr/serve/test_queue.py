"""What enters the scheduler and what leaves it: admission, equal requests, new decoders, the end, the cache."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from candidates.common.errors import InputError, ModelError, UsageError
from candidates.lists import CandidateList
from mbr.opening import open_decoder
from mbr.recipe import Recipe, TermSpec
from mbr.serve.cache import ScoreCache
from mbr.serve.jobs import DeadlinePassed, Gone, QueueFull, Request, TooLarge, Unavailable
from mbr.serve.scheduler import Scheduler
from mbr.serve.tokens import list_tokens, translation_tokens
from tests.mbr.serve.conftest import Make
from tests.mbr.serve.made import Faulty, Seen, ask, decoder_for, listed

pytestmark = pytest.mark.one_world


def test_a_full_queue_refuses_and_says_when_to_come_back(make: Make, utility: Faulty, seen: Seen) -> None:
    scheduler = make(max_queue_tokens=1000)
    utility.go.clear()
    futures = [ask(scheduler, listed(f"{k}"), tokens=400) for k in range(2)]
    with pytest.raises(QueueFull) as caught:
        ask(scheduler, listed("third"), tokens=400)
    assert 1 <= caught.value.retry_after <= 60
    utility.go.set()
    for future in futures:
        future.result(20)
    assert ask(scheduler, listed("fourth"), tokens=400).result(20).decision is not None
    assert seen.reasons == ["queue full"]
    assert max(tokens for _, tokens in seen.queues) == 800
    assert seen.queues[-1] == (0, 0)


def test_a_queue_is_bounded_in_seconds_and_a_long_request_counts_as_its_turns(make: Make, utility: Faulty) -> None:
    """Before anything is measured, 20,000 tokens take a second."""
    scheduler = make(max_queue_seconds=1.0)
    utility.go.clear()
    futures = [ask(scheduler, listed("long"), tokens=1_000_000), ask(scheduler, listed("small"), tokens=3000)]
    with pytest.raises(QueueFull, match="would be 1.1 s long"):
        ask(scheduler, listed("one too many"), tokens=3000)
    utility.go.set()
    for future in futures:
        future.result(20)
    assert ask(scheduler, listed("alone"), tokens=1_000_000).result(20).decision is not None


def test_work_on_a_long_request_is_not_taken_for_a_slow_machine(make: Make, utility: Faulty) -> None:
    utility.seconds_per_call = 0.05
    scheduler = make(max_queue_seconds=4.0)
    large = ask(scheduler, listed("large", 100), "half", tokens=30_000)
    while len(utility.calls) < 60:
        time.sleep(0.01)
    assert ask(scheduler, listed("small"), tokens=300).result(20).decision is not None
    assert not large.done()


def test_requests_of_one_call_enter_together_or_not_at_all(make: Make, utility: Faulty) -> None:
    scheduler = make(max_queue_tokens=1000)
    utility.go.clear()
    ask(scheduler, listed("first"), tokens=600)
    with pytest.raises(QueueFull):
        scheduler.submit([Request("race", listed(f"{k}"), tokens=300) for k in range(2)])
    assert scheduler.queue_tokens == 600


def test_what_can_never_fit_is_refused_as_too_large(make: Make, seen: Seen) -> None:
    with pytest.raises(TooLarge, match="up to 2,000 tokens"):
        ask(make(max_queue_tokens=1000), listed("x"), tokens=2000)
    assert seen.reasons == ["too large"]


def test_an_unknown_recipe_is_refused_with_those_there_are(make: Make) -> None:
    with pytest.raises(UsageError, match="expected one of race, half, full"):
        ask(make(), listed("x"), "other")


def test_equal_requests_under_way_are_computed_once(make: Make, utility: Faulty, seen: Seen) -> None:
    scheduler = make()
    utility.go.clear()
    first = ask(scheduler, listed("same"), tokens=10)
    (impatient,) = scheduler.submit([Request("race", listed("same"), tokens=10)])
    third = ask(scheduler, listed("same"), tokens=10)
    other = ask(scheduler, listed("same", tag="other"), tokens=10)
    assert (scheduler.queue_tokens, seen.joins) == (20, 2)
    impatient.cancel()
    utility.go.set()
    assert first.result(20).decision is third.result(20).decision
    assert other.result(20).decision is not first.result().decision
    with pytest.raises(Gone):
        impatient.future.result(20)
    assert ask(scheduler, listed("same")).result(20).decision is not first.result().decision


def test_joined_requests_keep_their_own_deadlines(make: Make, utility: Faulty) -> None:
    scheduler = make()
    utility.go.clear()
    patient = ask(scheduler, listed("same", 40), "half")  # takes several steps
    hasty = ask(scheduler, listed("same", 40), "half", timeout=0.05)
    time.sleep(0.1)
    utility.go.set()
    assert patient.result(20).decision is not None
    with pytest.raises(DeadlinePassed):
        hasty.result(20)


def test_pairs_can_be_scored_without_a_decision(make: Make, utility: Faulty) -> None:
    item = listed("x", 4)
    pairs = np.array([(0, 1), (2, 3), (3, 0)])
    answer = ask(make(), item, pairs=pairs).result(20)
    expected = utility.score_pairs([("x", item.texts[i], item.texts[j]) for i, j in pairs])
    assert answer.decision is None
    np.testing.assert_array_equal(answer.scores, expected.astype(np.float32))


def test_lists_can_be_made_on_the_way(make: Make) -> None:
    scheduler = make()
    (good, bad) = scheduler.submit(
        [
            Request("race", prepare=lambda: listed("made")),
            Request("race", prepare=lambda: CandidateList.of("empty", [])),
        ]
    )
    assert good.future.result(20).decision.candidates.source == "made"  # type: ignore[union-attr]
    with pytest.raises(InputError, match="no candidates"):
        bad.future.result(20)


def test_new_decoders_replace_the_old_ones_without_dropping_a_request(make: Make, utility: Faulty) -> None:
    scheduler = make()
    closed: list[str] = []
    scheduler.replace({"race": decoder_for(utility)}, lambda: closed.append("old"))
    utility.go.clear()
    under_way = ask(scheduler, listed("old"))
    utility.scoring.wait(20)
    newer = Faulty()
    scheduler.replace({"race": decoder_for(newer, budget=3)}, lambda: closed.append("new"))
    assert closed == []
    utility.go.set()
    assert "budget:20N" in under_way.result(20).signature
    answer = ask(scheduler, listed("newer")).result(20)
    assert "budget:3" in answer.signature
    assert newer.calls
    assert closed == ["old"]
    scheduler.close()
    assert closed == ["old", "new"]


def test_draining_finishes_what_is_under_way_and_takes_nothing_new(make: Make, utility: Faulty) -> None:
    scheduler = make()
    utility.go.clear()
    future = ask(scheduler, listed("under way"))
    assert scheduler.drain(0.05) == 1
    with pytest.raises(Unavailable, match="ending"):
        ask(scheduler, listed("new"))
    utility.go.set()
    assert scheduler.drain(20) == 0
    assert future.result(0).decision is not None


def test_what_is_under_way_at_the_end_is_answered(make: Make, utility: Faulty, seen: Seen) -> None:
    scheduler = make(step_tokens=1)
    utility.go.clear()
    futures = [ask(scheduler, listed(f"{k}")) for k in range(3)]
    utility.scoring.wait(20)
    threading.Timer(0.1, utility.go.set).start()
    scheduler.close()
    for future in futures[1:]:
        with pytest.raises(Unavailable):
            future.result(20)
    assert "ending" in seen.reasons


def test_nothing_is_taken_before_decoders_are_there() -> None:
    with Scheduler(max_queue_tokens=1000) as scheduler, pytest.raises(Unavailable, match="loaded"):
        ask(scheduler, listed("x"))


def test_scores_come_from_the_cache_and_it_is_bounded(seen: Seen) -> None:
    cache = ScoreCache(100, seen)
    utility = Faulty()
    recipe = Recipe(strategy="half").complete()
    decoder = open_decoder(recipe, utility=utility, memory_of=cache.of)  # type: ignore[arg-type]
    with Scheduler(max_queue_tokens=10**6, watch=seen) as scheduler:
        scheduler.replace({"half": decoder})
        first = ask(scheduler, listed("x", 8), "half").result(20)
        again = ask(scheduler, listed("x", 8), "half").result(20)
        assert sum(utility.calls) == 28 == seen.hits
        assert first.decision.scores.tobytes() == again.decision.scores.tobytes()  # type: ignore[union-attr]
        for k in range(20):
            ask(scheduler, listed(f"{k}", 8), "half").result(20)
            assert len(cache) <= 100
        with pytest.raises(ModelError):
            ask(scheduler, listed("nan", 8), "half").result(20)
        with pytest.raises(ModelError):
            ask(scheduler, listed("nan", 8), "half").result(20)
    assert seen.hits == 28, "a score that is no number is not kept"


def test_matrices_and_terms_come_from_the_cache(seen: Seen) -> None:
    cache = ScoreCache(1000, seen)
    recipe = Recipe("chrf", terms=(TermSpec("bleu", 0.1),))
    with (
        open_decoder(recipe, memory_of=cache.of) as decoder,  # type: ignore[arg-type]
        Scheduler(max_queue_tokens=10**6, watch=seen) as scheduler,
    ):
        scheduler.replace({"chrf": decoder})
        first, again = (ask(scheduler, listed("x", 8), "chrf").result(20).decision for _ in range(2))
        assert seen.hits == 2
        assert first.scores.tobytes() == again.scores.tobytes()  # type: ignore[union-attr]
    assert len(cache) == 128


def test_tokens_are_estimated_from_lengths() -> None:
    race, chrf = decoder_for(Faulty()), open_decoder(Recipe("chrf"))
    short, long = listed("s" * 40, 20), listed("s" * 400, 20)
    assert list_tokens(race, long) > 3 * list_tokens(race, short) > 10 * list_tokens(chrf, short)
    assert translation_tokens(race, "s" * 40, 40) > 2 * translation_tokens(race, "s" * 40, 20)
    assert translation_tokens(chrf, "s" * 40, 40) < 2000
