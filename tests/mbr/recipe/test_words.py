"""Words of the command line as changes to a recipe."""

from __future__ import annotations

from typing import Any

import pytest

from candidates.common.errors import UsageError
from mbr.recipe.words import option_pairs, parse_changes, parse_strategy, parse_terms, scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("False", False), ("no", "no"), ("on", "on"), ("", ""), ("a: b", "a: b"),
     ("[1]", "[1]"), ("null", "null"), ("deu_Latn", "deu_Latn"), ("?", "?"), ("*", "*")],
)  # fmt: skip
def test_numbers_true_and_false_are_values_and_all_else_is_text(text: str, value: Any) -> None:
    """Also `no`, which YAML takes for false and translation models for Norwegian."""
    assert (scalar(text), type(scalar(text))) == (value, type(value))


@pytest.mark.parametrize(
    ("word", "parsed"),
    [
        ("race", ("race", {})),
        ("race:0.05", ("race", {"tolerance": 0.05})),
        ("halving:500", ("halving", {"budget": 500})),
        ("race:tolerance=0.05:budget=500", ("race", {"tolerance": 0.05, "budget": 500})),
        ("race:0.05:budget=500", ("race", {"tolerance": 0.05, "budget": 500})),
    ],
)
def test_a_strategy_is_a_name_with_options(word: str, parsed: tuple[str, dict[str, Any]]) -> None:
    assert parse_strategy(word) == parsed


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("clever", "strategy 'clever' is unknown"),
        ("full:3", "strategy 'full:3': full takes no number"),
        ("race:x", "strategy 'race:x': tolerance='x' is not a number from 0 on"),
        ("race:", "tolerance='' is not a number from 0 on"),
        ("race:budget=2.5", "budget='2.5' is not a positive whole number"),
        ("race:0.1:tolerance=0.2", "'tolerance=0.2' is not a KEY=VALUE of its own"),
        ("race:=3", "'=3' is not a KEY=VALUE of its own"),
        ("race:colour=red", "'race' has no option 'colour' .it takes tolerance, budget"),
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_strategy(word)


def test_terms_take_options_after_their_weight_and_models_apart() -> None:
    weights, options = parse_terms(["reverse=1,src-lang=no,tgt_lang=en", "logprob=-6"], ["reverse=en-de"])
    assert weights == {"reverse": 1.0, "logprob": -6.0}
    assert options == {"reverse": {"src_lang": "no", "tgt_lang": "en", "model": "en-de"}}
    assert option_pairs(["fold=true", "dash-ed=2"], "--option") == {"fold": True, "dash_ed": 2}


def test_a_word_gives_terms_their_options_too() -> None:
    changes, _ = parse_changes(
        "chrf,add=reverse:1,add-model=reverse:/a:b,add-option=reverse:src-lang:no,add-option=reverse:threads:2"
    )
    assert changes.terms == {"reverse": 1.0}
    assert changes.term_options == {"reverse": {"model": "/a:b", "src_lang": "no", "threads": 2}}
    for word in ("reverse", "reverse:key", ":key:value", "reverse::value", "reverse:model:again"):
        with pytest.raises(UsageError, match="is not a NAME:KEY:VALUE of its own"):
            parse_changes(f"chrf,add=reverse:1,add-model=reverse:en-de,add-option={word}")
