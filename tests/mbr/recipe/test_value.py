"""A recipe prints as a signature and as YAML, and is read back from either; what does not fit together is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from candidates.common.errors import InputError, UsageError
from mbr.opening import open_decoder
from mbr.recipe import GuardSpec, PrefilterSpec, Recipe, TermSpec, read_recipe, recipe_from, recipe_mapping, recipe_yaml
from mbr.signature import Signature

pytestmark = pytest.mark.one_world

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
FINITE = st.floats(-1e6, 1e6, allow_nan=False).filter(bool)
# Of each utility: options that it takes, with values of every kind.
UTILITIES: dict[str, dict[str, Any]] = {
    "pear": {"model": WORDS, "revision": WORDS, "dtype": st.sampled_from(["float32", "bf16"])},
    "chrf": {},
    "bleu": {"tokenize": st.sampled_from(["13a", "zh", "char"]) | WORDS},
    "cometkiwi": {"model": WORDS, "encoder": WORDS},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "race": {"tolerance": st.floats(0, 0.99), "budget": st.integers(1, 10_000)},
    "halving": {"budget": st.integers(1, 10_000)},
    "prune": {"tolerance": st.floats(0, 0.99)},
    "half": {},
    "full": {},
}
TERMS: dict[str, dict[str, Any]] = {
    "logprob": {},
    "length": {},
    "chrf": {},
    "reverse": {"model": WORDS, "src_lang": WORDS},
    "bleu": {"tokenize": WORDS},
    "single": {"model": WORDS},
}


GUARDS: dict[str, dict[str, Any]] = {
    "placeholders": {},
    "not-copied": {},
    "language": {"to": st.sampled_from(["de", "no", "zh"]) | WORDS},
    "glossary": {"file": WORDS},
}


@st.composite
def recipes(draw: Any) -> Recipe:
    utility = draw(st.sampled_from(sorted(UTILITIES)))
    fitting = {"pear": sorted(STRATEGIES), "cometkiwi": ["rerank"]}.get(utility, ["full", "halving", "prune"])
    strategy = draw(st.none() | st.sampled_from(fitting))
    names = draw(st.lists(st.sampled_from(sorted(TERMS)), unique=True, max_size=3))
    options = st.fixed_dictionaries({}, optional=TERMS["bleu"])
    first_stage = st.builds(PrefilterSpec, st.just("bleu"), st.integers(2, 99), options)
    return Recipe(
        utility,
        draw(st.fixed_dictionaries({}, optional=UTILITIES[utility])),
        weight=draw(st.floats(0.001, 1000)),
        strategy=strategy,
        strategy_options=draw(st.fixed_dictionaries({}, optional=STRATEGIES.get(strategy or "", {}))),
        terms=tuple(
            TermSpec(name, draw(FINITE), draw(st.fixed_dictionaries({}, optional=TERMS[name]))) for name in names
        ),
        weights=draw(st.sampled_from(["count", "uniform", "logprob"])),
        self_rule=draw(st.sampled_from(["exclude", "include"])),
        prefilter=draw(st.none() | first_stage),
        guards=tuple(
            GuardSpec(name, draw(st.fixed_dictionaries({}, optional=GUARDS[name])))
            for name in draw(st.lists(st.sampled_from(sorted(GUARDS)), unique=True, max_size=4))
        ),
        seed=draw(st.integers(0, 2**31)),
        budget_total=draw(st.none() | st.integers(1, 10**6)) if strategy in ("race", "prune") else None,
    )


@given(recipes())
def test_a_signature_parses_back_into_an_equal_recipe(recipe: Recipe) -> None:
    assert Recipe.from_signature(str(recipe.signature())) == recipe.complete()
    assert recipe.complete().signature() == recipe.signature()


@given(recipes())
def test_yaml_reads_back_as_an_equal_recipe_with_the_same_signature(recipe: Recipe) -> None:
    again = recipe_from(yaml.safe_load(recipe_yaml(recipe)), "test")
    assert again == recipe.complete()
    assert again.signature() == recipe.signature()
    assert recipe_from(json.loads(json.dumps(recipe_mapping(recipe))), "test") == again


@given(st.dictionaries(st.text("abc.-", min_size=1, max_size=5), WORDS))
def test_any_value_survives_a_signature(settings: dict[str, str]) -> None:
    signature = Signature(settings)
    assert "\n" not in str(signature)
    assert {k: v.strip() for k, v in Signature.parse(str(signature)).items()} == {
        k: v.strip() for k, v in settings.items()
    }


def test_a_printed_signature_of_a_run_gives_the_recipe_without_what_loading_found() -> None:
    text = "MBR|utility:chrf|strategy:full|self:exclude|weights:uniform|add.logprob:2.0|nbest:100|version:9.9"
    assert Recipe.from_signature(text) == Recipe(
        "chrf", weights="uniform", strategy="full", terms=(TermSpec("logprob", 2.0),)
    )


def test_the_signature_of_a_run_with_a_bundled_model_opens_again() -> None:
    with open_decoder(read_recipe("en-de")) as decoder:
        text = str(decoder.signature(nbest=5))
    assert "|model:en-de@" in text
    again = Recipe.from_signature(text)
    assert again.options == {"model": "en-de", "dtype": "float32"}
    with open_decoder(again) as decoder:
        assert str(decoder.signature(nbest=5)) == text


def test_the_signature_of_a_run_with_a_first_stage_opens_again() -> None:
    recipe = Recipe("chrf", prefilter=PrefilterSpec("bleu", 5), terms=(TermSpec("length", 0.5),))
    with open_decoder(recipe) as decoder:
        text = str(decoder.signature())
    assert "|prefilter.strategy:full|" in text
    with open_decoder(Recipe.from_signature(text)) as decoder:
        assert str(decoder.signature()) == text


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        (Recipe("chrf", strategy="race"), "needs an antisymmetric utility"),
        (Recipe("chrf", {"model": "x"}), "utility 'chrf' has no option 'model'"),
        (Recipe("nothing"), "utility 'nothing' is unknown"),
        (Recipe("chrf", terms=(TermSpec("nothing"),)), "term 'nothing' is unknown"),
        (Recipe("chrf", terms=(TermSpec("logprob", 1, {"model": "x"}),)), "term 'logprob' has no option 'model'"),
        (Recipe("chrf", prefilter=PrefilterSpec("nothing", 3)), "term 'nothing' is unknown"),
        (Recipe("chrf", budget_total=5), "a budget for all lists"),
        (Recipe("chrf", guards=(GuardSpec("figures"),)), "guard 'figures' is unknown; expected one of placeholders"),
        (Recipe("chrf", guards=(GuardSpec("numbers", {"to": "de"}),)), "guard 'numbers' has no option 'to'"),
        (Recipe("chrf", guards=(GuardSpec("glossary"),)), "guard 'glossary' needs the option 'file'"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_loaded(recipe: Recipe, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        recipe.check()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"weight": 0.0}, "weight of the utility"),
        ({"weight": float("nan")}, "weight of the utility"),
        ({"terms": (TermSpec("chrf", float("inf")),)}, "weight of the term chrf"),
        ({"terms": (TermSpec("chrf"), TermSpec("chrf"))}, "is there twice"),
        ({"weights": "most"}, "weights 'most' is unknown"),
        ({"self_rule": "never"}, "self 'never' is unknown"),
    ],
)
def test_a_recipe_that_makes_no_sense_cannot_be_made(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Recipe("chrf", **values)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("utillity: chrf", "'utillity' is unknown"),
        ("terms: [logprob]", "terms is"),
        ("terms: {logprob: much}", "could not convert"),
        ("prefilter: chrf", "expected NAME:K"),
        ("weights: most", "weights 'most' is unknown"),
        ("seed: x", "invalid literal"),
        ("- chrf", "not a recipe"),
        ("a: [", "not plain YAML"),
        ("!!python/object/apply:os.system [ls]", "not plain YAML"),
    ],
)
def test_a_file_that_is_no_recipe_is_named_with_the_reason(tmp_path: Any, content: str, complaint: str) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises((UsageError, InputError), match=complaint) as caught:
        read_recipe(file)
    assert str(file) in str(caught.value)


def test_recipes_are_found_by_file_by_name_and_written_out(tmp_path: Any) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("utility: chrf\nterms: {logprob: 2}\n", encoding="utf-8")
    assert read_recipe(file).terms == (TermSpec("logprob", 2.0),)
    assert read_recipe("{utility: chrf, terms: {logprob: 2}}") == read_recipe(file)
    assert read_recipe("en-de").utility == "pear"
    with pytest.raises(UsageError, match="recipe 'no-such' is unknown; expected a YAML file or one of en-de"):
        read_recipe("no-such")
    with pytest.raises(InputError, match="cannot be read"):
        read_recipe(tmp_path / "missing.yaml")
