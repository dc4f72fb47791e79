"""Many conversations, one model: they join, are scored together, in portions if wanted, and leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.support.replay import structured
from candidates import CandidateList
from candidates.common.errors import ModelError, UsageError
from mbr import Decision, Decoder
from mbr.opening import open_decoder
from mbr.pipeline import ListConversation
from mbr.pool import OpenConversation, Pool, until_all_end
from mbr.recipe import Recipe, TermSpec
from mbr.strategies import Ask, Enough, Outcome, Segment, Strategy, get_strategy
from tests.mbr.made import Better, Similar, Tables

pytestmark = pytest.mark.one_world

SIZES = (40, 7, 2, 25, 31)
MATRICES = {f"list {k}": structured(k, size, rho=1) for k, size in enumerate(SIZES)}
SENTENCES = [
    (
        "Where is the station?",
        ["Wo ist der Bahnhof?", "Wo ist die Station?", "Wo ist Bahnhof?", "Wo liegt der Bahnhof?"],
    ),
    (
        "I have no money.",
        ["Ich habe kein Geld.", "Ich hab kein Geld.", "Kein Geld.", "Ich habe Geld.", "Geld habe ich."],
    ),
    ("Tom is sick.", ["Tom ist krank.", "Tom ist übel.", "Der Tom ist krank.", "Tom war krank."]),
    ("It is cold today.", ["Es ist heute kalt.", "Heute ist es kalt.", "Es ist kalt.", "Kalt ist es heute."]),
]
LISTS = [CandidateList.of(source, texts, id=id) for id, (source, texts) in enumerate(SENTENCES)]


def added(decoder: Decoder, pool: Pool[Any], lists: Sequence[CandidateList], keys: Sequence[Hashable] = ()) -> None:
    for place, started in enumerate(decoder.start(lists)):
        assert isinstance(started, ListConversation)
        pool.add(keys[place] if keys else lists[place].id, started)


def finished(decoder: Decoder, pool: Pool[Any], portion: int | None = None) -> dict[Any, Decision]:
    """Step until the pool is empty."""
    decisions: dict[Any, Decision] = {}
    while len(pool):
        for key, conversation in pool.step(portion=portion):
            assert isinstance(conversation, ListConversation)
            decisions[key] = decoder.finish(conversation)
    return decisions


def alone(decoder: Decoder, lists: Sequence[CandidateList]) -> dict[Any, Decision]:
    """Each list decided without the others."""
    return {item.id: decision for item in lists for decision in decoder.decide([item])}


def assert_same(found: Decision, expected: Decision, tolerance: float = 0.0) -> None:
    assert (found.ranking, found.passes, found.flags) == (expected.ranking, expected.passes, expected.flags)
    assert (found.error, found.text) == (expected.error, expected.text)
    np.testing.assert_allclose(found.scores, expected.scores, atol=tolerance, rtol=0)
    np.testing.assert_allclose(found.expected, expected.expected, atol=tolerance, rtol=0)


RECIPES = {
    "chrf": (Recipe("chrf"), 0.0),
    "chrf with terms": (Recipe("chrf", strategy="prune", terms=(TermSpec("length", 2.0),)), 0.0),
    "pear race": (Recipe("pear", {"model": "en-de"}, strategy="race"), 1e-6),
    "pear half": (Recipe("pear", {"model": "en-de"}, strategy="half"), 1e-6),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_conversation_added_while_another_is_scored_gives_the_numbers_it_has_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread steps and is held up in the model's first call until the other thread has added the rest."""
    recipe, tolerance = RECIPES[name]
    with open_decoder(recipe, runtime={"device": "cpu", "threads": 1}) as decoder:
        expected = alone(decoder, LISTS)
        scoring, others_added = threading.Event(), threading.Event()
        called = "matrix" if name.startswith("chrf") else "score_pairs"
        compute = getattr(decoder.utility, called)

        def held_up(*request: Any) -> Any:
            scoring.set()
            assert others_added.wait(30)
            return compute(*request)

        monkeypatch.setattr(decoder.utility, called, held_up)
        pool = Pool[Any](decoder.utility)
        added(decoder, pool, LISTS[:1])
        decisions: dict[Any, Decision] = {}
        steps: list[int] = []

        def step() -> None:
            while len(decisions) < len(LISTS):
                steps.append(len(pool))
                decisions.update((key, decoder.finish(one)) for key, one in pool.step())  # type: ignore[arg-type]

        thread = threading.Thread(target=step)
        thread.start()
        assert scoring.wait(30)
        assert len(pool) == 1
        added(decoder, pool, LISTS[1:])
        others_added.set()
        thread.join(60)
        assert not thread.is_alive()
    assert steps[0] == 1
    assert steps[1] >= len(LISTS) - 1, "the others joined while the first was scored"
    assert set(decisions) == set(expected)
    for key, decision in decisions.items():
        assert_same(decision, expected[key], tolerance)


def test_many_threads_may_add_while_one_steps() -> None:
    lists = [CandidateList.of(f"s {k}", [f"{k} {i}" for i in range(5 + k % 20)], id=k) for k in range(60)]
    decoder = open_decoder(Recipe("pear", strategy="race"), utility=Better())
    expected = alone(decoder, lists)
    pool = Pool[Any](decoder.utility)
    threads = [threading.Thread(target=added, args=(decoder, pool, lists[first::6])) for first in range(6)]
    for thread in threads:
        thread.start()
    decisions: dict[Any, Decision] = {}
    while len(decisions) < len(lists) and (len(pool) or any(thread.is_alive() for thread in threads)):
        decisions.update((key, decoder.finish(one)) for key, one in pool.step())  # type: ignore[arg-type]
    for thread in threads:
        thread.join(30)
    decisions.update(finished(decoder, pool))
    assert sorted(decisions) == list(range(60))
    for key, decision in decisions.items():
        assert_same(decision, expected[key])


@pytest.mark.parametrize("portion", [1, 7, 64, 10_000])
@pytest.mark.parametrize("strategy", ["race", "halving", "prune", "full", "balanced"])
def test_portions_give_the_decisions_of_whole_requests(strategy: str, portion: int) -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy=strategy), utility=utility)
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists())
    whole = finished(decoder, pool)
    utility.calls.clear()
    added(decoder, pool, utility.lists())
    parts = finished(decoder, pool, portion)
    assert max(utility.calls) <= portion * len(SIZES)
    for key, decision in parts.items():
        assert_same(decision, whole[key])


def test_a_short_request_does_not_wait_for_a_long_one_that_comes_in_portions() -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy="full"), utility=utility)
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists())
    order = [key for _ in iter(lambda: len(pool), 0) for key, _ in pool.step(portion=64)]
    assert set(order[:2]) == {"list 1", "list 2"}, "both fit in the first portion"
    assert order[2:] == ["list 3", "list 4", "list 0"]


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_an_anytime_strategy_that_is_stopped_decides_with_the_scores_so_far(answers: int) -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(
        Recipe("pear", strategy="race", strategy_options={"tolerance": 0.0, "budget": 700}), utility=utility
    )
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists()[:1])
    for _ in range(answers):
        assert pool.step() == []
    spent = sum(utility.calls)
    pool.stop("list 0")
    ((key, conversation),) = pool.step()
    assert isinstance(conversation, ListConversation)
    decision = decoder.finish(conversation)
    assert (key, decision.error, len(pool)) == ("list 0", None, 0)
    assert decision.passes == sum(utility.calls) == spent, "stopping scores nothing more"
    assert np.isfinite(decision.scores[list(decision.ranking)]).all()
    regret = decision.certainty.estimated_regret
    assert regret is None or regret > 0


def test_stopping_one_leaves_the_others_as_they_are() -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy="race"), utility=utility)
    expected = alone(decoder, utility.lists())
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists())
    early = dict(pool.step())
    pool.stop("list 0")
    pool.stop("list 0")
    pool.stop("never there")
    stopped = dict(pool.step())
    assert "list 0" in stopped
    decisions = {key: decoder.finish(one) for key, one in {**early, **stopped}.items()}  # type: ignore[arg-type]
    decisions |= finished(decoder, pool)
    assert set(decisions) == set(MATRICES)
    assert decisions["list 0"].passes < expected["list 0"].passes
    for key in set(MATRICES) - {"list 0"}:
        assert_same(decisions[key], expected[key])


@pytest.mark.parametrize(("strategy", "steps"), [("race", 0), ("full", 0), ("full", 2), ("balanced", 3), ("prune", 0)])
def test_stopped_without_an_answer_or_a_way_to_decide_is_an_error_that_says_so(strategy: str, steps: int) -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy=strategy), utility=utility)
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists()[:1])
    for _ in range(steps):
        pool.step(portion=5)
    pool.stop("list 0")
    ((_, conversation),) = pool.step()
    assert isinstance(conversation.error, ModelError)
    assert "segment 'list 0': ended before enough pairs were scored; give it more time" in str(conversation.error)
    assert isinstance(conversation, ListConversation)
    with pytest.raises(ModelError, match="ended before"):
        decoder.finish(conversation)
    skipped = replace(decoder, on_error="fallback").finish(conversation)
    assert (skipped.text, skipped.flags) == ("0", ("fallback",))


def test_a_key_is_there_once_and_free_again_after_the_end() -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy="full"), utility=utility)
    pool = Pool[Any](utility)
    first, second = utility.lists()[:2]
    added(decoder, pool, [first], ["key"])
    with pytest.raises(UsageError, match="a conversation with the key 'key' is open already"):
        added(decoder, pool, [second], ["key"])
    assert [one.candidates for _, one in pool.open()] == [first]
    assert finished(decoder, pool)["key"].id == first.id
    pool.stop("key")  # too late, and nothing is remembered
    added(decoder, pool, [second], ["key"])
    assert finished(decoder, pool)["key"].error is None


def test_an_empty_pool_has_nothing_to_do() -> None:
    pool = Pool[int](Better())
    assert (pool.step(), pool.open(), len(pool), list(until_all_end(pool)), list(until_all_end(pool, 5))) == (
        [], [], 0, [], [],
    )  # fmt: skip


@pytest.mark.parametrize("portion", [None, 16])
@pytest.mark.parametrize("trouble", ["raises", "wrong shape"])
def test_a_utility_that_fails_leaves_the_pool_usable(
    trouble: str, portion: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy="race"), utility=utility)
    expected = alone(decoder, utility.lists())
    compute = utility.score_pairs
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists())
    decisions = {key: decoder.finish(one) for key, one in pool.step(portion=portion)}  # type: ignore[arg-type]
    before = [key for key, _ in pool.open()]

    def fail(triples: Any) -> Any:
        if trouble == "raises":
            raise RuntimeError("the device was lost")
        return compute(triples)[:-1]

    monkeypatch.setattr(utility, "score_pairs", fail)
    for _ in range(2):
        with pytest.raises((RuntimeError, ModelError), match="the device was lost|returned scores"):
            pool.step(portion=portion)
    assert [key for key, _ in pool.open()] == before
    monkeypatch.setattr(utility, "score_pairs", compute)
    decisions |= finished(decoder, pool, portion)
    assert set(decisions) == set(expected)
    for key, decision in decisions.items():
        assert_same(decision, expected[key])


def test_scores_that_are_not_numbers_end_their_own_list_only() -> None:
    utility = Tables({**MATRICES, "list 2": np.full((2, 2), np.nan)})
    decoder = open_decoder(Recipe("pear", strategy="full"), utility=utility, on_error="skip")
    pool = Pool[Any](utility)
    added(decoder, pool, utility.lists())
    decisions = finished(decoder, pool)
    assert [key for key, decision in decisions.items() if decision.error] == ["list 2"]
    assert "segment 'list 2': the utility returned nan for candidates 1 and 2" in str(decisions["list 2"].error)


Requests = Generator[Ask, Any, Any]
PAIRS = np.array([(0, 1), (1, 0)])


def breaks(segment: Segment) -> Requests:
    yield Ask(PAIRS)
    raise ZeroDivisionError("of a strategy")


def returns_nothing(segment: Segment) -> Requests:
    yield Ask(PAIRS)


def goes_on(segment: Segment) -> Requests:
    while True:
        with suppress(Enough):
            yield Ask(PAIRS)


def asks_nothing(segment: Segment) -> Requests:
    values = np.zeros((segment.size, segment.size), np.float32)
    return Outcome(values, values > 0, np.arange(segment.size, dtype=float), tuple(range(segment.size))[::-1])
    yield


def own_strategy(converse: Callable[[Segment], Requests]) -> Strategy:
    return replace(get_strategy("full"), converse=converse)


@pytest.mark.parametrize(
    ("converse", "message"),
    [
        (breaks, "segment 0: the strategy failed: of a strategy"),
        (returns_nothing, "segment 0: the strategy returned None, expected an Outcome; correct the strategy"),
        (goes_on, "segment 0: the strategy went on asking when it should decide"),
    ],
)
def test_a_broken_strategy_ends_its_conversation_and_no_other(
    converse: Callable[[Segment], Requests], message: str
) -> None:
    utility = Similar()
    pool = Pool[str](utility)
    item = CandidateList.of("s", ["a", "b", "c"], id=0)
    decoder = open_decoder(Recipe("chrf", strategy="full"), utility=utility)
    (good,) = decoder.start([item])
    assert isinstance(good, OpenConversation)
    (bad,) = replace(decoder, strategy=own_strategy(converse)).start([item])
    assert isinstance(bad, OpenConversation)
    pool.add("bad", bad)
    pool.add("good", good)
    ended: dict[str, OpenConversation] = {}
    try:
        ended |= dict(pool.step())
    except ZeroDivisionError:
        assert converse is breaks, "an error of the strategy's own is raised once"
    pool.stop("bad")
    ended |= dict(until_all_end(pool))
    assert message in str(ended["bad"].error)
    assert ended["good"].outcome is not None


def test_a_strategy_may_decide_without_a_request() -> None:
    utility = Tables(MATRICES)
    decoder = open_decoder(Recipe("pear", strategy="full"), utility=utility, strategy=own_strategy(asks_nothing))
    decisions = decoder.decide(utility.lists())
    assert utility.calls == []
    assert [(decision.text, decision.passes) for decision in decisions] == [(str(size - 1), 0) for size in SIZES]
