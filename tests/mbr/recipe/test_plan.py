"""Which recipe is meant: what was asked for, on the default that the lists' origin calls for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from candidates.backends.ct2 import Ct2Generator
from candidates.common.errors import UsageError
from candidates.generation import Settings
from candidates.lists import CandidateList, Origin
from mbr.api import decode
from mbr.recipe import Changes, PrefilterSpec, Recipe, TermSpec, plan, plan_for, read_recipe, shipped_recipes
from mbr.recipe.plan import cautions, looked_at, with_precision
from mbr.recipe.words import parse_changes, parse_strategy, parse_terms
from mbr.utilities import get_utility
from tests.support.close_languages import ENGLISH, GERMAN, SENTENCES

pytestmark = pytest.mark.one_world

ENGLISH_GERMAN = CandidateList.of("The dog is in the house.", ["Der Hund ist im Haus.", "Ein Hund ist in dem Haus."])
FRENCH = CandidateList.of("Le chien est dans la maison et il dort.", ["The dog is in the house.", "A dog is in it."])


def bundled(method: str) -> Origin:
    generator = Ct2Generator("en-de", Settings(method=method, nbest=5))  # type: ignore[arg-type]
    try:
        return generator.origin
    finally:
        generator.close()


@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
def test_lists_of_the_bundled_translator_get_the_recipe_that_ships_with_it(method: str) -> None:
    recipe = plan(Changes(), origin=bundled(method), lists=[FRENCH])  # the origin is stronger than a look at the texts
    assert recipe == read_recipe("en-de" if method == "beam" else "en-de-sampling").complete()
    assert plan(Changes(utility="pear"), origin=bundled(method)) == recipe


def test_every_shipped_recipe_fits_together() -> None:
    assert set(shipped_recipes()) >= {"en-de", "en-de-sampling"}
    for name in shipped_recipes():
        read_recipe(name).check()


@pytest.mark.parametrize(
    ("changes", "origin", "first", "expected"),
    [
        (Changes(), None, ENGLISH_GERMAN, Recipe("pear", {"model": "en-de"})),
        (Changes(), None, FRENCH, Recipe("pear", {"model": "pear"})),
        (Changes(utility="chrf"), Origin.of({"method": "beam"}), FRENCH, Recipe("chrf", weights="uniform")),
        (Changes(utility="chrf"), Origin.of({"method": "sample"}), FRENCH, Recipe("chrf")),
        (
            Changes(),
            Origin.of({"model": "x@1", "method": "beam"}),
            ENGLISH_GERMAN,
            Recipe("pear", {"model": "pear"}, weights="uniform"),
        ),
        (
            Changes(utility="pear", options={"model": "mine"}),
            Origin.of({"model": "x@1", "method": "beam"}),
            ENGLISH_GERMAN,
            Recipe("pear", {"model": "mine"}, weights="uniform"),
        ),
    ],
)
def test_other_lists_get_the_defaults_of_the_utility(
    changes: Changes, origin: Origin | None, first: CandidateList, expected: Recipe
) -> None:
    assert plan(changes, origin=origin, lists=[first]) == expected.complete()


def test_changes_are_stronger_than_the_recipe_they_are_applied_to() -> None:
    base = replace(read_recipe("en-de"), terms=(TermSpec("logprob", 6.0),))
    changed = Changes(terms={"logprob": 0.0, "length": 2.0}, strategy="half", weights="count", seed=7).applied_to(base)
    assert changed.terms == (TermSpec("length", 2.0),)
    assert (changed.strategy, changed.weights, changed.seed) == ("half", "count", 7)
    assert changed.options == {"model": "en-de"}
    other = Changes(utility="chrf").applied_to(base)
    assert (other.utility, other.options, other.strategy) == ("chrf", {}, None)
    assert other.terms == base.terms
    old = Recipe("pear", {"model": "old", "revision": "1", "dtype": "bf16"})
    assert Changes(options={"model": "new"}).applied_to(old).options == {"model": "new", "dtype": "bf16"}
    budgeted = Recipe("pear", strategy="race", strategy_options={"budget": 9})
    kept = Changes(strategy_options={"tolerance": 0.1}).applied_to(budgeted)
    assert kept.strategy_options == {"tolerance": 0.1, "budget": 9}


def test_an_option_for_a_term_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="term 'reverse', which is not added"):
        Changes(term_options={"reverse": {"model": "x"}}).applied_to(Recipe("chrf"))


def test_a_precision_goes_to_every_model_that_takes_one() -> None:
    recipe = Recipe(
        "chrf", terms=(TermSpec("cometkiwi"), TermSpec("single", 1.0, {"dtype": "fp16"}), TermSpec("length"))
    )
    changed = with_precision(recipe, "bf16")
    assert [dict(term.options) for term in changed.terms] == [{"dtype": "bf16"}, {"dtype": "fp16"}, {}]
    assert with_precision(Recipe("pear"), "bf16").options == {"dtype": "bf16"}
    with pytest.raises(UsageError, match="utility 'chrf' has no option 'dtype'"):
        with_precision(Recipe("chrf"), "bf16")


def test_planning_by_lists_loses_none_of_them() -> None:
    recipe, records, _ = plan_for(Changes(), iter([ENGLISH_GERMAN, ENGLISH_GERMAN]))
    assert list(records) == [ENGLISH_GERMAN, ENGLISH_GERMAN]
    assert recipe.options == {"model": "en-de"}
    recipe, records, _ = plan_for(Changes(utility="chrf"), [])
    assert (list(records), recipe.utility) == ([], "chrf")


def lists_of(sources: list[str], targets: list[str]) -> list[CandidateList]:
    return [CandidateList.of(s, [t, f"{t}!"], id=n) for n, (s, t) in enumerate(zip(sources, targets, strict=True))]


@pytest.mark.parametrize("language", SENTENCES)
def test_lists_in_other_languages_never_get_the_bundled_pear(language: str) -> None:
    lists = [CandidateList.of("Thanks!", ["Merci !", "Tak!"]), *lists_of(ENGLISH, SENTENCES[language])]
    assert plan_for(Changes(), lists)[0].options == {"model": "pear"}


@pytest.mark.parametrize("first", ["Be nice.", "Thanks!", "OK.", "Go."])
def test_a_first_list_that_says_nothing_decides_nothing(first: str) -> None:
    lists = [CandidateList.of(first, ["Sei lieb.", "Danke!", "OK."]), *lists_of(ENGLISH, GERMAN)]
    recipe, records, _ = plan_for(Changes(), iter(lists))
    assert recipe.options == {"model": "en-de"}
    assert list(records) == lists


def test_without_evidence_the_error_says_what_to_pass() -> None:
    with pytest.raises(
        UsageError, match=r"from 1 list \(sources: 1 word;.*candidates: 2 words;.*: en-de .*pear .*such as chrf"
    ):
        plan_for(Changes(), [CandidateList.of("OK.", ["OK.", "Okay."])])
    assert plan_for(Changes(utility="chrf"), [CandidateList.of("OK.", ["OK."])])[0].utility == "chrf"
    assert plan_for(Changes(options={"model": "en-de"}), [CandidateList.of("OK.", ["OK."])])[0].options["model"]


def test_looking_ahead_ends_as_soon_as_the_languages_are_certain() -> None:
    def stream() -> Iterator[CandidateList]:
        for number, item in enumerate(lists_of(ENGLISH * 100, GERMAN * 100)):
            read.append(number)
            yield item

    read: list[int] = []
    plan_for(Changes(), stream())
    assert 1 < len(read) < 10
    read.clear()
    plan_for(Changes(utility="chrf"), stream())
    assert len(read) == 1
    read.clear()
    lists = [CandidateList.of("OK.", ["OK."], id=n) for n in range(1000)]
    _, records = looked_at(iter(lists), languages=True)
    assert list(records) == lists


def test_every_pear_of_a_recipe_is_named_when_it_is_planned() -> None:
    lists = lists_of(ENGLISH, GERMAN)
    base = Recipe("pear", terms=(TermSpec("pear", 0.5),), prefilter=PrefilterSpec("pear", 5))
    recipe, *_ = plan_for(Changes(), lists, base)
    assert recipe.prefilter is not None
    assert [dict(part.options) for part in (recipe, *recipe.terms, recipe.prefilter)] == [{"model": "en-de"}] * 3
    released, *_ = plan_for(Changes(options={"revision": "main"}), lists)
    assert released.options == {"model": "pear", "revision": "main"}


def test_a_pear_without_a_model_is_refused_rather_than_guessed() -> None:
    with pytest.raises(UsageError, match="model='en-de'.*model='pear'"):
        get_utility("pear")


def test_a_later_window_in_other_words_is_scored_as_planned() -> None:
    """A resumed run and a worker of a cluster begin in the middle: only the plan looks at languages."""
    with get_utility("pear", model="en-de", device="cpu") as utility:
        assert utility.score_pairs([("Thanks!", "Merci !", "Merci beaucoup !")]).shape == (1,)  # type: ignore[attr-defined]


def test_the_bundled_pear_without_log_probabilities_is_warned_about() -> None:
    lists = lists_of(ENGLISH, GERMAN)
    alone, _, looked_at = plan_for(Changes(), lists)
    origin = looked_at[0].origin
    assert len(cautions(alone, origin)) == 1
    assert "without log-probabilities" in cautions(alone, origin)[0]
    assert cautions(plan_for(Changes(terms={"logprob": 6}), lists)[0], None) == []
    assert cautions(plan_for(Changes(utility="chrf"), lists)[0], None) == []
    for method in ("beam", "epsilon"):
        made = bundled(method)
        assert cautions(plan(Changes(), origin=made), made) == []
    beams = bundled("beam")
    assert len(cautions(plan(Changes(terms={"logprob": 0}), origin=beams), beams)) == 1


def test_python_warns_once_about_the_bundled_pear_without_log_probabilities() -> None:
    with pytest.warns(UserWarning, match="decides without log-probabilities") as warned:
        decisions = list(decode(lists_of(ENGLISH, GERMAN), device="cpu"))
    assert (len(decisions), len(warned)) == (len(GERMAN), 1)


def test_words_become_changes() -> None:
    changes, own = parse_changes(
        "bleu,tokenize=zh,strategy=halving:500,add=logprob:6,add=reverse:0.5,add-model=reverse:de-en,weights=uniform,"
        "prefilter=chrf:30,label=X",
        {"label": str},
    )
    assert own == {"label": "X"}
    assert changes == Changes(
        utility="bleu",
        options={"tokenize": "zh"},
        strategy="halving",
        strategy_options={"budget": 500},
        terms={"logprob": 6.0, "reverse": 0.5},
        term_options={"reverse": {"model": "de-en"}},
        weights="uniform",
        prefilter=PrefilterSpec("chrf", 30),
    )
    assert parse_strategy("race:0.05") == ("race", {"tolerance": 0.05})
    assert parse_terms(["logprob=6", "reverse=1,src-lang=de"], ["reverse=FOLDER"]) == (
        {"logprob": 6.0, "reverse": 1.0},
        {"reverse": {"src_lang": "de", "model": "FOLDER"}},
    )


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("", "expected NAME"),
        ("chrf=", "expected NAME"),
        ("chrf,strategy", "not a key=value"),
        ("chrf,budget=0", "not a positive whole number"),
        ("chrf,weights=most", "is unknown"),
        ("chrf,add=logprob", "not NAME:WEIGHT"),
        ("chrf,add=logprob:much", "is not a number"),
        ("chrf,add=logprob:1,add=logprob:2", "of its own"),
        ("chrf,add-model=reverse", "not NAME:MODEL"),
        ("chrf,strategy=full:3", "takes no number"),
        ("chrf,strategy=halving:3,budget=4", "twice"),
        ("chrf,prefilter-model=x", "goes with prefilter"),
        ("chrf,strategy=nothing", "strategy 'nothing' is unknown"),
    ],
)
def test_a_word_that_says_nothing_sensible_is_refused(word: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_changes(word)


@pytest.mark.parametrize(
    ("terms", "models", "complaint"),
    [
        (["logprob"], [], "expected NAME=WEIGHT"),
        (["logprob=x"], [], "is not a number"),
        (["logprob=nan"], [], "is not a number"),
        (["logprob=1", "logprob=2"], [], "twice"),
        ([], ["reverse"], "expected NAME=MODEL"),
    ],
)
def test_a_term_that_says_nothing_sensible_is_refused(terms: list[str], models: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_terms(terms, models)
