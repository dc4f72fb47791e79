"""First stage and terms in the service: in portions, beside other requests, with deadlines, and part of admission."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np
import pytest

from candidates.common.errors import MbrError, ModelError
from candidates.lists import Candidate, CandidateList
from mbr.decide import ReferenceWeights
from mbr.evidence import WeightedTerm
from mbr.opening import Models, open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import PrefilterSpec, Recipe, TermSpec, read_recipe
from mbr.serve.jobs import DeadlinePassed, Gone, QueueFull, Request
from mbr.serve.scheduler import Scheduler
from mbr.serve.served import warm_up
from mbr.serve.tokens import list_tokens, translation_tokens
from mbr.terms import Term, Values
from tests.mbr.serve.made import Faulty, ask, decoder_for, listed

pytestmark = pytest.mark.one_world

SOURCE = "Where is the old station, please?"
TEXTS = [f"Wo ist {'der alte ' * (k % 5)}Bahnhof Nummer {k}, {'bitte' if k % 2 else 'Tom'}?" for k in range(40)]
ITEM = CandidateList.of(SOURCE, [Candidate(text, -1.0 - 0.1 * k) for k, text in enumerate(TEXTS)], id="request")


class SlowTerm(Term):
    """A pass per candidate, with a pause after each portion; sources that say so fail."""

    name = "slow"

    def __init__(self) -> None:
        self.done: list[int] = []
        self.working = threading.Event()

    def values(self, lists: list[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:  # type: ignore[override]
        return [np.arange(len(item), dtype=np.float64) for item in lists]

    def in_portions(
        self, item: CandidateList, references: ReferenceWeights, most: int
    ) -> Generator[int, None, Values | MbrError]:
        for _ in range(0, len(item), most):
            self.working.set()
            if "bug" in item.source:
                raise KeyError("a bug in a term")
            time.sleep(0.02)
            self.done.append(most)
            yield most
        (values,) = self.values([item], references)
        return values

    def passes(self, size: int) -> int:
        return size


def with_term(term: Term, utility: Faulty | None = None) -> Decoder:
    """The faulty utility with a term."""
    decoder = decoder_for(utility or Faulty(), "half")
    spec = TermSpec("length", 1.0)
    return replace(decoder, recipe=replace(decoder.recipe, terms=(spec,)), terms=(WeightedTerm(term, 1.0),))


@pytest.fixture
def term() -> SlowTerm:
    return SlowTerm()


@pytest.fixture
def scheduler(term: SlowTerm) -> Iterator[Scheduler]:
    """`slow` has a term that takes 20 ms for 8 candidates; `half` has none."""
    with Scheduler(max_queue_tokens=10**7, portion=8) as scheduler:
        scheduler.replace({"slow": with_term(term), "half": decoder_for(Faulty(), "half")})
        yield scheduler


@pytest.mark.parametrize("spec", [TermSpec("reverse", 1.0, {"model": "de-en"}), *map(TermSpec, ("coverage", "chrf"))])
def test_a_term_in_portions_has_the_bits_of_a_term_at_once(spec: TermSpec) -> None:
    with Models({"device": "cpu", "threads": 1}) as models:
        term = models.term(spec.name, spec.options)
        (whole,) = term.values([ITEM], ReferenceWeights())
        passes: list[int] = []
        values: list[Values | MbrError] = []

        def portions() -> Generator[int, None, None]:
            values.append((yield from term.in_portions(ITEM, ReferenceWeights(), 8)))

        passes.extend(portions())
        assert values[0].tobytes() == whole.tobytes()  # type: ignore[union-attr]
        assert sum(passes) == term.passes(len(ITEM))
        assert len(passes) > 1 or spec.name != "reverse"


@pytest.mark.parametrize("recipe", ["en-de", "prefilter"])
def test_alone_a_request_with_terms_has_the_bits_of_the_library(recipe: str) -> None:
    first_stage = Recipe("pear", {"model": "en-de"}, strategy="race", prefilter=PrefilterSpec("chrf", 12))
    chosen = read_recipe(recipe) if recipe == "en-de" else first_stage
    assert chosen.terms or chosen.prefilter
    with open_decoder(chosen, runtime={"device": "cpu", "threads": 1}) as decoder:
        (expected,) = decoder.decide([ITEM])
        with Scheduler(max_queue_tokens=10**7, portion=8) as scheduler:
            scheduler.replace({"default": decoder})
            answer = ask(scheduler, ITEM, "default").result(60)
    assert answer.decision is not None
    assert answer.decision.ranking == expected.ranking
    assert answer.decision.scores.tobytes() == expected.scores.tobytes()
    for name, values in expected.terms.items():
        assert answer.decision.terms[name].tobytes() == values.tobytes()


def test_small_requests_overtake_one_whose_terms_take_long(scheduler: Scheduler, term: SlowTerm) -> None:
    large = ask(scheduler, listed("large", 1000), "slow")  # 2.5 s of terms
    assert term.working.wait(20)
    for k in range(3):
        began = time.monotonic()
        ask(scheduler, listed(f"small {k}"), "half").result(20)
        ask(scheduler, listed(f"small {k}"), "slow").result(20)
        assert time.monotonic() - began < 0.8
    assert not large.done()


def test_a_deadline_is_kept_while_terms_are_computed(scheduler: Scheduler, term: SlowTerm) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlinePassed, match="its terms were being computed"):
        ask(scheduler, listed("large", 1000), "slow", timeout=0.2).result(20)
    assert time.monotonic() - began < 1.0
    done = len(term.done)
    assert ask(scheduler, listed("next"), "half").result(20).decision is not None
    assert len(term.done) <= done + 1


def test_a_caller_who_has_gone_ends_the_terms(scheduler: Scheduler, term: SlowTerm) -> None:
    (ticket,) = scheduler.submit([Request("slow", listed("large", 1000))])
    assert term.working.wait(20)
    ticket.cancel()
    with pytest.raises(Gone):
        ticket.future.result(20)
    assert len(term.done) < 60
    assert scheduler.drain(5) == 0


def test_a_bug_in_a_term_fails_its_request_alone(scheduler: Scheduler) -> None:
    bad, good = ask(scheduler, listed("bug"), "slow"), ask(scheduler, listed("good"), "slow")
    assert good.result(20).decision is not None
    with pytest.raises(ModelError, match="KeyError"):
        bad.result(20)


def test_terms_and_first_stage_are_part_of_the_estimate(term: SlowTerm) -> None:
    item = listed("s" * 40, 20)
    plain, heavy = decoder_for(Faulty(), "half"), with_term(term)
    assert list_tokens(heavy, item) - list_tokens(plain, item) == 20 * (12 + 2)
    assert translation_tokens(heavy, "s" * 40, 20) - translation_tokens(plain, "s" * 40, 20) == 20 * 24
    chrf = open_decoder(Recipe("chrf", terms=(TermSpec("bleu", 1.0),)))
    assert list_tokens(chrf, item) > list_tokens(open_decoder(Recipe("chrf")), item)


def test_seconds_of_terms_count_in_the_speed_of_their_recipe(term: SlowTerm) -> None:
    """About 480 tokens take 160 ms or more: 3,000 per second at most, where 20,000 are assumed."""
    chrf = open_decoder(Recipe("chrf"))
    slow = replace(chrf, recipe=replace(chrf.recipe, terms=(TermSpec("length", 1.0),)), terms=(WeightedTerm(term, 1),))
    with Scheduler(max_queue_tokens=10**7, portion=8, max_queue_seconds=2) as scheduler:
        scheduler.replace({"slow": slow, "chrf": chrf})
        for k in range(30):
            item = listed(f"list {k}", 60)
            ask(scheduler, item, "slow", tokens=list_tokens(slow, item)).result(20)
        future = ask(scheduler, listed("first", 60), "slow", tokens=500)
        with pytest.raises(QueueFull, match="try again later"):
            ask(scheduler, listed("second", 60), "slow", tokens=12_000)
        assert ask(scheduler, listed("other"), "chrf", tokens=12_000).result(20).decision is not None
        assert future.result(20).decision is not None


def test_the_first_speed_is_that_of_the_warm_up(term: SlowTerm) -> None:
    utility = Faulty()
    utility.seconds_per_call = 0.02
    decoder = with_term(term, utility)
    tokens, seconds = warm_up("slow", decoder)
    assert 0.02 <= seconds < 5
    with Scheduler(max_queue_tokens=10**7) as scheduler:
        scheduler.replace({"slow": decoder}, speeds={"slow": (100.0, 1.0)})
        utility.go.clear()
        first = ask(scheduler, listed("first"), "slow", tokens=400)
        with pytest.raises(QueueFull, match="would be 8.0 s long"):
            ask(scheduler, listed("second"), "slow", tokens=400)
        utility.go.set()
        assert first.result(20).decision is not None
    assert tokens > 1000
