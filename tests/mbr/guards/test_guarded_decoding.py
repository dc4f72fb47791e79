"""Guards in the pipeline: who leaves, who stays where all break a rule, what a decision and a run say of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from candidates import CandidateList
from candidates.common.errors import ModelError, UsageError
from mbr import Recipe, decode, open_decoder, rerank
from mbr.compare.settings import parse_settings
from mbr.guards import PRODUCTION, Guard, Guards, ListTexts, get_guard
from mbr.recipe import GuardSpec, parse_guards, recipe_from, recipe_mapping
from mbr.recipe.words import required
from mbr.utilities import PairUtility
from tests.conftest import Run, write_jsonl

pytestmark = pytest.mark.one_world

SOURCE = "Hello {name}, you have %d new files."
RIGHT = "Hallo {name}, du hast %d neue Dateien."
LOST = ["Hallo, du hast neue Dateien.", "Hallo, du hast neue Daten.", "Hallo, du hast mehr neue Dateien."]


class Counting(PairUtility):
    """Counts what it scores."""

    name = "counting"
    relation = "none"

    def __init__(self) -> None:
        self.scored: list[str] = []

    def score_pairs(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        self.scored += [text for _, text, _ in triples]
        return np.array([len(set(a) & set(b)) for _, a, b in triples], np.float32)


def test_a_candidate_that_loses_a_placeholder_is_not_chosen() -> None:
    assert rerank(SOURCE, [*LOST, RIGHT], "chrf").text in LOST
    decision = rerank(SOURCE, [*LOST, RIGHT], "chrf", require=["placeholders"])
    assert (decision.text, decision.ranking, decision.passes) == (RIGHT, (3,), 0)
    assert decision.flags == ("single",)
    record = decision.record()
    assert (record["dropped"], record["dropped_by"], record["position"]) == (3, {"placeholders": 3}, 3)
    assert record["dropped_candidates"] == [
        {"text": text, "position": place, "guards": ["placeholders"]} for place, text in enumerate(LOST)
    ]


def test_where_all_break_a_rule_the_fewest_and_lightest_faults_stay_with_flags() -> None:
    half = "Hallo {name}, du hast neue Dateien."
    decision = rerank(SOURCE, [*LOST, half, "Hallo {name}, https://example.org"], "chrf", require=["production"])
    assert (decision.text, decision.flags) == (half, ("single", "guard:placeholders"))
    assert decision.dropped_by == {"placeholders": 4, "urls": 1}


def test_candidates_that_guards_drop_are_never_scored_and_passes_fall() -> None:
    right = [RIGHT, RIGHT.replace("Hallo", "Hi"), RIGHT.replace("du hast", "Sie haben")]
    free, guarded = Counting(), Counting()
    before = rerank(SOURCE, [*LOST, *right], free, strategy="full")
    after = rerank(SOURCE, [*LOST, *right], guarded, strategy="full", require=["placeholders"])
    assert (before.passes, after.passes) == (6 * 5, 3 * 2)
    assert set(guarded.scored) == set(right)
    assert after.ranking[0] in (3, 4, 5)
    assert np.isnan(after.expected[:3]).all()
    assert np.isfinite(after.expected[3:]).all()


def test_the_decision_is_that_of_the_list_without_the_dropped_candidates() -> None:
    right = [RIGHT, RIGHT.replace("Hallo", "Hi"), RIGHT.replace("neue", "neuere"), RIGHT]
    settings: dict[str, Any] = {"add": {"length": 0.5}, "prefilter": "bleu:2"}
    guarded = rerank(SOURCE, [*LOST, *right], "chrf", require=["placeholders"], **settings)
    alone = rerank(SOURCE, right, "chrf", **settings)
    assert guarded.text == alone.text
    assert [place - 3 for place in guarded.ranking] == list(alone.ranking)
    assert np.array_equal(guarded.scores[3:], alone.scores, equal_nan=True)
    assert (
        guarded.terms["length"][list(guarded.ranking)].tolist() == alone.terms["length"][list(alone.ranking)].tolist()
    )


def test_a_fallback_is_the_first_candidate_that_keeps_the_rules() -> None:
    with open_decoder(
        Recipe("chrf", guards=(GuardSpec("placeholders"),), weights="logprob"), on_error="fallback"
    ) as decoder:
        (decision,) = decoder.decide([CandidateList.of(SOURCE, [*LOST, RIGHT, RIGHT + " "])])
    assert (decision.text, decision.flags) == (RIGHT, ("fallback",))
    assert "no log-probability" in str(decision.error)


PIECES = st.sampled_from(
    ["{name}", "%d", "Hallo", "du hast", "12", "elf", "<b>x</b>", "<b>", "https://example.org", ""]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=4).map(" ".join)
RULES = st.lists(st.sampled_from(PRODUCTION), min_size=1, max_size=3, unique=True)


@settings(deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=6), RULES)
def test_the_chosen_candidate_never_breaks_a_rule_if_any_candidate_keeps_them_all(
    source: str, texts: list[str], rules: list[str]
) -> None:
    decision = rerank(source, texts, "chrf", require=rules)
    unique = list(dict.fromkeys(texts))
    severities = {rule: list(get_guard(rule).faults(ListTexts(source, unique))) for rule in rules}
    faults = [[rule for rule in rules if severities[rule][place]] for place in range(len(unique))]
    chosen = faults[decision.ranking[0]]
    assert len(chosen) == min(map(len, faults))
    assert [flag for flag in decision.flags if flag.startswith("guard:")] == [f"guard:{rule}" for rule in chosen]
    assert decision.dropped == len(unique) - len(decision.ranking)
    if not any(faults):
        assert decision.record() == rerank(source, texts, "chrf").record()


class Broken(Guard):
    name = "broken"

    def faults(self, listed: ListTexts) -> list[float]:
        return [1.0]


def test_a_guard_without_a_severity_for_every_candidate_is_an_error() -> None:
    with pytest.raises(ModelError, match="guard 'broken' returned 1 severities for 2 candidates"):
        Guards({"broken": Broken()}).judge("a", ["b", "c"])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["placeholders", "numbers"], ["placeholders", "numbers"]),
        (["production"], list(PRODUCTION)),
        (["language:to=de", "production"], [*PRODUCTION[:4], "language:to=de", *PRODUCTION[5:]]),
        (["production", "language:to=de"], [*PRODUCTION[:4], "language:to=de", *PRODUCTION[5:]]),
        (["glossary:file=/a:b/c.tsv"], ["glossary:file=/a:b/c.tsv"]),
        (["none"], []),
    ],
)
def test_guards_are_read_from_words(words: list[str], names: list[str]) -> None:
    assert [str(guard) for guard in parse_guards(words)] == names


def test_guards_of_a_recipe_are_added_to_and_taken_out(tmp_path: Path) -> None:
    base = recipe_from({"utility": "chrf", "guards": ["placeholders", {"name": "language", "to": "de"}]}, "test")
    assert recipe_mapping(base)["guards"] == ["placeholders", {"name": "language", "to": "de"}]
    texts = [*LOST, RIGHT]
    assert rerank(SOURCE, texts, base, require=["numbers"]).text == RIGHT
    assert rerank(SOURCE, texts, base, require=["none"]).text in LOST
    with pytest.raises(UsageError, match="expected a list of guards"):
        rerank(SOURCE, texts, "chrf", require="numbers")
    with pytest.raises(UsageError, match="guard 'figures' is unknown; expected one of placeholders, tags"):
        rerank(SOURCE, texts, "chrf", require=["figures"])
    with pytest.raises(UsageError, match="to 'xx' is unknown"):
        rerank(SOURCE, texts, "chrf", require=["language:to=xx"])
    for word in (",", "", " + "):
        with pytest.raises(UsageError, match="names no guard; expected names such as numbers,tags, or `none`"):
            required(word)
    with pytest.raises(UsageError, match="guards is 'numbers'; expected a list"):
        recipe_from({"guards": "numbers"}, "test")


def test_a_signature_of_a_guarded_run_opens_again(tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("file\tDatei\tstem\n", encoding="utf-8")
    recipe = Recipe("chrf", guards=parse_guards(["numbers", "language:to=de", f"glossary:file={glossary}"]))
    with open_decoder(recipe) as decoder:
        text = str(decoder.signature())
    assert "|guards:numbers+language+glossary|guards.language.to:de|" in text
    assert f"|guards.glossary.file:{glossary}|" in text
    assert "|guards.glossary.digest:" in text
    with open_decoder(Recipe.from_signature(text)) as decoder:
        assert str(decoder.signature()) == text


def test_a_setting_of_mbr_compare_may_have_guards() -> None:
    plain, guarded = parse_settings(["chrf", "chrf,require=placeholders+language:to=de"])
    assert plain.recipe.guards == ()
    assert guarded.recipe.guards == (GuardSpec("placeholders"), GuardSpec("language", {"to": "de"}))
    assert guarded.label == "chrf full require placeholders+language:to=de"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    rows = [
        {"source": SOURCE, "candidates": [*LOST, RIGHT]},
        {"source": SOURCE, "candidates": LOST},
        {"source": "A dog.", "candidates": ["Ein Hund.", "Der Hund.", "Ein Hund"]},
    ]
    return write_jsonl(tmp_path / "lists.jsonl", rows)


@pytest.mark.usefixtures("lists")
def test_the_command_reports_what_guards_did(run: Run) -> None:
    words = ["--candidates", "lists.jsonl", "--utility", "chrf", "--format", "jsonl"]
    free = run("mbr-decode", *words)
    guarded = run("mbr-decode", *words, "--require", "placeholders,numbers")
    assert (free.returncode, guarded.returncode) == (0, 0), guarded.stderr
    records = [json.loads(line) for line in guarded.stdout.splitlines()]
    assert records[0]["text"] == RIGHT
    assert records[1]["flags"] == ["guard:placeholders"]
    assert free.stdout.splitlines()[2] == guarded.stdout.splitlines()[2]
    assert "3 candidates dropped by guards (placeholders 3)" in guarded.stderr
    assert "in 1 list no candidate keeps all rules, and the chosen one breaks placeholders" in guarded.stderr
    assert "|guards:placeholders+numbers|" in guarded.stderr
    wrong = run("mbr-decode", *words, "--require", "figures")
    assert wrong.returncode == 2
    assert "guard 'figures' is unknown" in wrong.stderr


def test_lists_that_keep_the_rules_are_decided_as_without_guards() -> None:
    rows = [("A dog runs.", ["Ein Hund läuft.", "Ein Hund rennt.", "Der Hund läuft."])] * 3
    free = [json.dumps(decision.record(3)) for decision in decode(rows, "chrf")]
    assert [json.dumps(decision.record(3)) for decision in decode(rows, "chrf", require=["production"])] == free
