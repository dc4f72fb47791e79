"""Tuning from lists to a recipe: known weights come back, noise is called noise, gains are those of held-out lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from candidates.common.errors import InputError, UsageError
from candidates.lists import Candidate, CandidateList
from mbr.evaluate.judges import parse_judges
from mbr.recipe import Recipe, TermSpec
from mbr.strategies import get_strategy
from mbr.terms import TERMS
from mbr.tune import Tuned, tune
from mbr.tune.caveats import caveats
from mbr.tune.gains import OBJECTIVE
from mbr.tune.objective import judge_lists, mixed, parse_objective
from mbr.utilities import UTILITIES
from tests.mbr.tune import made

pytestmark = pytest.mark.one_world


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in made.TERMS.items():
        monkeypatch.setitem(TERMS.built_in, name, target)
    for name, target in made.UTILITIES.items():
        monkeypatch.setitem(UTILITIES.built_in, name, target)


def tuned_on(count: int, weights: list[float], *, noise: float, objective: str = "chrf", **options: Any) -> Tuned:
    lists, references = made.made_lists(count, weights, noise=noise)
    terms = tuple(TermSpec(f"planted-{place}") for place in range(len(weights)))
    return tune(lists, references, Recipe("none", terms=terms), objective, draws=200, **options)


def test_known_weights_are_recovered_and_the_gain_is_clear() -> None:
    tuned = tuned_on(120, [1.0, 0.5, 0.0], noise=0.3)
    weights = {weight.name: weight.standard for weight in tuned.weights}
    assert weights["planted-0"] == 1.0
    assert weights["planted-1"] == pytest.approx(0.5, abs=0.1)
    assert weights["planted-2"] == pytest.approx(0.0, abs=0.1)
    assert tuned.gain.low > 1
    first, second, third = (weight.worth for weight in tuned.weights)
    assert first.low > second.difference > second.low > 0
    assert third.low <= 0.02
    assert tuned.recipe.terms[0].name == "planted-0"
    assert not any("within chance" in message for message in caveats(tuned))


def test_noise_is_called_noise() -> None:
    tuned = tuned_on(60, [0.0] * 4, noise=1.0)
    assert tuned.gain.low <= 0 <= tuned.gain.high
    messages = list(caveats(tuned))
    assert any("60 lists are few" in message for message in messages)
    assert any("the gain over the first candidate is within chance" in message for message in messages)


def test_the_gain_is_not_the_one_on_the_lists_that_were_tuned_on() -> None:
    lists, references = made.made_lists(40, [0.0] * 4, noise=1.0, seed=3)
    recipe = Recipe("none", terms=tuple(TermSpec(f"planted-{place}") for place in range(4)))
    tuned = tune(lists, references, recipe, "chrf", draws=200)
    (spec,) = parse_judges(["chrf"])
    qualities = mixed([judge_lists(spec, lists, references)], [1.0])
    weights = np.array(
        [{term.name: term.weight for term in tuned.recipe.terms}.get(f"planted-{k}", 0.0) for k in range(4)]
    )
    on_own = [
        float(values[np.argmax([made.FEATURES[item.source, text] @ weights for text in item.texts])] - values[0])
        for item, values in zip(lists, qualities, strict=True)
    ]
    assert tuned.gain.difference < np.mean(on_own) - 0.05
    assert np.mean(on_own) not in [gain.difference for row in tuned.rows for gain in row.gains.values()]


def test_a_mix_weighs_judges_in_their_own_deviations() -> None:
    lists, references = made.made_lists(30, [1.0], noise=0.2)
    chrf, ter = (judge_lists(spec, lists, references) for spec in parse_judges(["chrf", "ter"]))
    (one,), (two,) = (mixed([judge], [1.0])[:1] for judge in (chrf, ter))
    np.testing.assert_allclose(mixed([chrf, ter], [1.0, 0.5])[0], one + 0.5 * two)
    assert np.corrcoef(one, two)[0, 1] > 0.9  # lower is better for ter, which is turned round
    assert np.std([value - values.mean() for values in mixed([ter], [1.0]) for value in values]) == pytest.approx(1)


def test_of_several_references_the_nearest_counts() -> None:
    item = CandidateList.of("A dog.", ["Ein Hund.", "Der Hund.", "Katze"])
    (spec,) = parse_judges(["chrf"])
    judged = judge_lists(spec, [item], [["Der Hund.", "Ein Hund."]])
    assert judged.scores[0][:2].tolist() == [100.0, 100.0]
    assert judged.system(judged.statistics[0][:2].sum(axis=0, keepdims=True))[0] == pytest.approx(100.0)


@pytest.mark.parametrize("weight", [0.5, -0.5])
def test_a_utility_is_weighed_beside_terms_and_never_negatively(weight: float) -> None:
    lists, references = made.made_lists(60, [1.0, weight], noise=0.3)
    tuned = tune(lists, references, Recipe("planted", terms=(TermSpec("planted-0"),)), "chrf", draws=50)
    assert [weight.name for weight in tuned.weights] == ["planted", "planted-0"]
    (term,) = tuned.recipe.terms
    if weight < 0:
        assert (tuned.recipe.utility, tuned.weights[0].weight) == ("none", 0.0)
        assert "planted earned no weight and is left out of the recipe" in list(caveats(tuned))
        return
    assert (tuned.recipe.utility, tuned.recipe.weight) == ("planted", tuned.weights[0].weight)
    assert tuned.recipe.weight / term.weight == pytest.approx(0.5, abs=0.1)
    assert "MBR|utility:planted|utility-weight:" in tuned.signature


def test_a_judge_of_the_family_of_a_term_is_pointed_out() -> None:
    lists, references = made.made_lists(30, [1.0], noise=0.3)
    recipe = Recipe("none", terms=(TermSpec("chrf"), TermSpec("planted-0")))
    tuned = tune(lists, references, recipe, "bleu", draws=50)
    assert any("the judge bleu is of the same family as chrf (lexical)" in message for message in caveats(tuned))


def test_the_recipe_before_stands_beside_it() -> None:
    lists, references = made.made_lists(60, [1.0, 0.5], noise=0.3)
    recipe = Recipe("none", terms=(TermSpec("planted-0"), TermSpec("planted-1")))
    before = Recipe("none", terms=(TermSpec("planted-1"),))
    tuned = tune(lists, references, recipe, "chrf", baseline=before, judges=parse_judges(["bleu"]), draws=100)
    labels = [row.label for row in tuned.rows]
    assert labels == ["first candidate", "recipe before", "tuned recipe", "without planted-0", "without planted-1",
                      "oracle (objective)"]  # fmt: skip
    scores = {row.label: row.scores for row in tuned.rows}
    assert scores["oracle (objective)"]["chrf"] > scores["tuned recipe"]["chrf"] > scores["recipe before"]["chrf"]
    assert list(tuned.over_baseline) == [OBJECTIVE, "chrf", "bleu"]
    assert tuned.over_baseline["chrf"].low > 0
    expected = scores["tuned recipe"]["chrf"] - scores["recipe before"]["chrf"]
    assert tuned.over_baseline["chrf"].difference == pytest.approx(expected)
    assert "|add.planted-0:" in tuned.signature


def test_the_same_lists_and_seed_give_the_same_result() -> None:
    assert tuned_on(30, [1.0, 0.2], noise=0.5) == tuned_on(30, [1.0, 0.2], noise=0.5)


def test_what_leaves_nothing_to_learn_from_is_refused() -> None:
    lists, references = made.made_lists(25, [1.0, 1.0], noise=0.5)
    recipe = Recipe("none", terms=(TermSpec("planted-0"), TermSpec("planted-1")))
    with pytest.raises(InputError, match="segment 3 has no reference; expected one or more"):
        tune(lists, [*references[:3], ("",), *references[4:]], recipe, "chrf")
    with pytest.raises(InputError, match="5 lists are too few to tune on; expected 20"):
        tune(lists[:5], references[:5], recipe, "chrf")
    with pytest.raises(InputError, match="every list has one distinct candidate"):
        tune([item.take([0]) for item in lists], references, recipe, "chrf")
    equal = [CandidateList.of(f"s {k}", ["aa bb", "aa cc", "dd ee"]) for k in range(25)]
    with pytest.raises(InputError, match="length is the same for all candidates of a list"):
        tune(equal, [("aa bb",)] * 25, Recipe("chrf", terms=(TermSpec("length"),)), "chrf")
    with pytest.raises(InputError, match="the judge chrf gives all candidates of a list the same score"):
        tune(lists, [("é",)] * 25, recipe, "chrf")
    bare = Recipe("none", terms=(TermSpec("logprob"), TermSpec("planted-0")))
    with pytest.raises(InputError, match="logprob needs the log-probability of every candidate"):
        tune(lists, references, bare, "chrf")
    for wrong in (Recipe("chrf"), Recipe("none"), Recipe("none", terms=(TermSpec("length"),))):
        with pytest.raises(UsageError, match="to weigh; expected a utility and terms, or two terms"):
            tune(lists, references, wrong, "chrf")
    with pytest.raises(UsageError, match="chrf is both the utility and a term"):
        tune(lists, references, Recipe("chrf", terms=(TermSpec("chrf"),)), "chrf")


def test_a_strategy_that_leaves_candidates_out_is_refused() -> None:
    lists, references = made.made_lists(25, [1.0], noise=0.5, size=40)
    recipe = Recipe("chrf", terms=(TermSpec("planted-0"),))
    with pytest.raises(UsageError, match="halving leaves candidates of segment 0 without an expected utility"):
        tune(lists, references, recipe, "chrf", strategy=get_strategy("halving", budget=30))


def test_lists_of_one_candidate_among_others_count_with_no_gain() -> None:
    lists, references = made.made_lists(40, [1.0, 0.5], noise=0.3)
    recipe = Recipe("none", terms=(TermSpec("planted-0"), TermSpec("planted-1")))
    single = [CandidateList.of(f"x {k}", [Candidate("eins zwei")], id=f"x{k}") for k in range(10)]
    tuned = tune([*lists, *single], [*references, *[("eins",)] * 10], recipe, "chrf", draws=50)
    assert (tuned.lists, tuned.candidates) == (50, 40 * 12 + 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("chrf", [("chrf", 1.0)]),
        ("chrf+bleu", [("chrf", 1.0), ("bleu", 1.0)]),
        ("chrf:0.5+ter", [("chrf", 0.5), ("ter", 1.0)]),
        ("chrf+++embedding", [("chrf++", 1.0), ("embedding", 1.0)]),
        ("bleu+chrf++:2", [("bleu", 1.0), ("chrf++", 2.0)]),
    ],
)
def test_objectives(text: str, expected: list[tuple[str, float]]) -> None:
    assert [(spec.name, weight) for spec, weight in parse_objective(text)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a judge is missing"),
        ("chrf+", "judge 'chrf\\+' is unknown"),
        ("chrf:0", "the weight '0' is not a number above 0"),
        ("chrf:much", "the weight 'much' is not a number above 0"),
        ("chrf+nothing", "judge 'nothing' is unknown"),
        ("chrf+chrf", "judge 'chrf' is named twice"),
    ],
)
def test_wrong_objectives(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_objective(text)
