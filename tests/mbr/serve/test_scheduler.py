"""The scheduler without a web library: many callers, one thread with the models, and what may go wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, MbrError, ModelError, ResourceError, UsageError
from candidates.lists import CandidateList
from mbr.opening import open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Recipe
from mbr.serve.cache import ScoreCache
from mbr.serve.jobs import Answer, DeadlinePassed, Gone, QueueFull, Request, TooLarge, Unavailable
from mbr.serve.scheduler import Scheduler
from mbr.serve.tokens import list_tokens, translation_tokens
from mbr.serve.watch import Watch
from tests.mbr.serve.made import SENTENCES, Faulty, decoder_for, listed

pytestmark = pytest.mark.one_world


class Seen(Watch):
    """Keeps what the scheduler reports."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.fallbacks = self.partials = self.joins = self.hits = 0
        self.errors: list[str] = []
        self.queues: list[tuple[int, int]] = []

    def dropped(self, reason: str) -> None:
        self.reasons.append(reason)

    def fallback(self) -> None:
        self.fallbacks += 1

    def partial(self) -> None:
        self.partials += 1

    def joined(self) -> None:
        self.joins += 1

    def error(self, what: str) -> None:
        self.errors.append(what)

    def cache(self, hits: int, misses: int) -> None:
        self.hits += hits

    def queue(self, jobs: int, tokens: int) -> None:
        self.queues.append((jobs, tokens))


@pytest.fixture
def utility() -> Faulty:
    return Faulty()


@pytest.fixture
def seen() -> Seen:
    return Seen()


Make = Callable[..., Scheduler]


@pytest.fixture
def make(utility: Faulty, seen: Seen) -> Iterator[Make]:
    """A scheduler with the faulty utility as `race`, `half` and `full`; closed at the end."""
    made: list[Scheduler] = []

    def call(**options: Any) -> Scheduler:
        scheduler = Scheduler(**{"max_queue_tokens": 10**7, "watch": seen, **options})
        made.append(scheduler)
        scheduler.replace({name: decoder_for(utility, name) for name in ("race", "half", "full")})
        return scheduler

    yield call
    utility.go.set()
    for scheduler in made:
        scheduler.close()


def ask(scheduler: Scheduler, item: CandidateList, recipe: str = "race", **options: Any) -> Future[Answer]:
    (ticket,) = scheduler.submit([Request(recipe, item, **options)])
    return ticket.future


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
    assert large.result(20).decision.passes == 4950  # type: ignore[union-attr]


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
    patient = ask(scheduler, listed("same"))
    hasty = ask(scheduler, listed("same"), timeout=0.05)
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
    from mbr.recipe import TermSpec

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
