"""Terms in settings: the choices of mbr-decode, paid for once, with failures and models of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from candidates import Settings, open_generator
from candidates.common.errors import MbrError
from candidates.lists import CandidateList
from mbr import Term, decode
from mbr.cache.scores import ScoreStore
from mbr.compare import Comparison, compare, parse_settings
from mbr.compare.page.data import page_data
from mbr.compare.study import titles
from mbr.compare.summary import summary
from mbr.decide import ReferenceWeights
from mbr.terms import TERMS, Values
from tests.mbr.compare.made import Counting, Longer, Overlap, lists, references
from tests.support.shipped_recipe import LOGPROB

pytestmark = pytest.mark.one_world

ITEMS = lists(12)
REFERENCES = references(ITEMS)
FAST: dict[str, Any] = {"references": REFERENCES, "draws": 20, "trials": 20, "study": 0}


class Rated(Term):
    """A term that keeps its scores, as those with a model do, and counts the candidates that it scored."""

    name = "rated"
    scored: ClassVar[int] = 0

    def values(self, lists: Sequence[CandidateList], references: ReferenceWeights) -> list[Values | MbrError]:
        rows = [(item.source, text) for item in lists for text in item.texts]
        assert self.memory is not None
        scores = self.memory.score(rows, self._score)
        return list(np.split(np.asarray(scores, np.float64), np.cumsum([len(item) for item in lists])[:-1]))

    def _score(self, rows: Sequence[tuple[str, ...]]) -> Any:
        type(self).scored += len(rows)
        return np.array([text.count("e") for _, text in rows], np.float32)


def run(words: list[str], records: Any = None, **more: Any) -> Comparison:
    return compare(ITEMS if records is None else records, parse_settings(words), ["chrf"], **{**FAST, **more})


@pytest.mark.parametrize(
    ("word", "utility", "terms"),
    [
        ("chrf,add=logprob:2", "chrf", {"logprob": 2}),
        ("chrf,add=length:50", "chrf", {"length": 50}),
        ("chrf,add=length:-1,add=logprob:0.5", "chrf", {"length": -1, "logprob": 0.5}),
        ("counting,strategy=half,add=overlap:0.5", "counting", {"overlap": 0.5}),
        ("overlap,add=longer:0.01,add=counting:0.2", "overlap", {"longer": 0.01, "counting": 0.2}),
        ("none,add=logprob:1", "none", {"logprob": 1}),
    ],
)
def test_choices_and_values_are_those_of_decode(word: str, utility: str, terms: dict[str, float]) -> None:
    done = run([f"{word},label=it", "chrf,label=plain"])
    row = done.row("it")
    strategy = "half" if utility == "counting" else None
    expected = list(decode(ITEMS, utility, strategy=strategy, add=terms))
    assert row.texts == tuple(decision.text for decision in expected)
    assert row.decided is not None
    for decision, other in zip(row.decided.decisions, expected, strict=True):
        assert list(decision.terms) == list(terms)
        for name in terms:
            np.testing.assert_allclose(decision.terms[name], other.terms[name], rtol=1e-5)
    assert all(f"add.{name}:{float(weight)}" in str(row.signature) for name, weight in terms.items())
    assert row.texts != done.row("plain").texts


def test_values_of_terms_are_computed_once_for_all_settings_and_runs(tmp_path: Path) -> None:
    words = ["overlap,add=counting:1,label=pairs", "overlap,add=longer:0.1,label=each", "chrf,add=overlap:1"]
    first = run(words, scores=tmp_path / "scores.sqlite")
    counts = Counting.scored, Overlap.matrices, Longer.rated
    assert counts == (sum(len(item) ** 2 for item in ITEMS), len(ITEMS), sum(map(len, ITEMS)))
    second = run([*words, "counting,strategy=both", "longer"], scores=tmp_path / "scores.sqlite", study=3)
    assert (Counting.scored, Overlap.matrices, Longer.rated) == counts
    assert [second.row(row.label).texts for row in first.rows] == [row.texts for row in first.rows]


def test_a_first_stage_by_a_term_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TERMS.built_in, "rated", f"{__name__}:Rated")
    monkeypatch.setattr(Rated, "scored", 0)
    for _ in range(2):
        done = run(["overlap,prefilter=rated:3"], scores=tmp_path / "scores.sqlite")
        assert done.row("overlap").error is None
        assert Rated.scored == sum(map(len, ITEMS))


class Scorer:
    """Stands for a translation model of the other direction: sources are probable, candidates are not."""

    name = "scorer"

    def __init__(self, model: str, **options: Any) -> None:
        self.scored: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
        self.scored += pairs
        return np.array([-len(given) / (10 if target.startswith("source") else 1) for given, target in pairs])

    def described(self) -> dict[str, str]:
        return {"model": self.name}

    def close(self) -> None: ...


def test_reverse_runs_its_model_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the check of its direction."""
    scorers: list[Scorer] = []

    def open_scorer(model: str, **options: Any) -> Scorer:
        scorers.append(Scorer(model))
        return scorers[-1]

    monkeypatch.setattr("candidates.backends.forced.open_forced_scorer", open_scorer)
    items = [replace(item, source=f"source of three words {k}") for k, item in enumerate(ITEMS)]
    word = "overlap,add=reverse:1,add-model=reverse:model"
    texts = [run([word], items, scores=tmp_path / "scores.sqlite").row("overlap").texts for _ in range(2)]
    assert len(scorers[0].scored) == len(set(scorers[0].scored)) > sum(map(len, items))
    assert scorers[1].scored == []
    plain = decode(items, "overlap", add={"reverse": 1}, add_model={"reverse": "model"})
    assert texts[0] == texts[1] == tuple(decision.text for decision in plain)


def test_a_term_is_paid_for_by_its_setting_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        monkeypatch.setattr(Counting, "burns", 0.3)
        done = run(["overlap", "overlap,add=counting:1,label=with"], scores=tmp_path / "scores.sqlite")
        plain, with_term = (done.row(label).seconds for label in ("overlap", "with"))
        assert plain is not None
        assert with_term is not None
        assert plain < 0.3 < with_term


def test_a_utility_and_the_same_utility_as_a_term_share_the_model() -> None:
    run(["counting", "counting,add=counting:0.5,label=twice"])
    assert Counting.loaded == 1


def test_a_term_that_fails_costs_its_setting_or_its_segments() -> None:
    bare = [CandidateList.of(item.source, item.texts, id=item.id) for item in ITEMS]
    done = run(["overlap,add=logprob:1,label=all", "overlap"], bare)
    assert "logprob needs the log-probability" in str(done.row("all").error)
    assert done.row("overlap").error is None
    some = run(["overlap,add=logprob:1"], [*bare[:2], *ITEMS[2:]])
    assert sorted(some.row("overlap").fallbacks) == [0, 1]
    assert some.exit_code() == 1


def test_the_model_of_a_term_that_is_missing_fails_its_setting() -> None:
    messages: list[str] = []
    words = ["overlap,add=counting:1,add-model=counting:missing,label=missing", "overlap"]
    done = run(words, warn=messages.append)
    assert "no such folder" in str(done.row("missing").error)
    assert messages == ["missing failed: models/missing: no such folder"]
    assert done.row("overlap").error is None


def test_a_judge_of_a_terms_family_is_marked() -> None:
    done = run(["overlap,add=bleu:0.1", "overlap,add=longer:0.1,label=other"])
    (chrf,) = done.evaluation.judges
    assert done.row("overlap").chosen_by == ("overlap", "bleu")
    assert chrf.scores["overlap"].same_family
    assert not chrf.scores["other"].same_family


def test_studies_include_terms() -> None:
    done = run(["counting", "counting,add=longer:0.1,label=long", "counting,strategy=half,add=longer:0.1"], study=3)
    plain, long = done.studies
    assert titles(done.studies) == ["counting", "counting, longer 0.1"]
    for without, portrait in zip(plain.portraits, long.portraits, strict=True):
        lengths = [len(text) for text in portrait.item.texts]
        np.testing.assert_allclose(portrait.scores - without.scores, np.multiply(0.1, lengths), rtol=1e-5)
    assert {point.strategy: point.regret for point in long.points}["both"] == 0


def test_strategies_with_the_same_terms_are_compared_by_their_passes() -> None:
    words = ["counting,strategy=half,add=longer:0.1", "counting,strategy=both,add=longer:0.1", "counting,label=plain"]
    sentences = [line for line in summary(run(words)) if "fewer passes" in line]
    assert len(sentences) == 1
    assert "with 2 times fewer passes" in sentences[0]


def test_lists_of_the_bundled_translator_get_the_recipe_that_ships_with_it() -> None:
    """As in mbr-decode: the recipe follows from the origin that the lists carry."""
    sources = ["Tom is sick.", "It's too cold to go swimming today.", "I have no money."]
    with open_generator(Settings(nbest=12)) as generator:
        items = [item for item in generator.generate(sources) if isinstance(item, CandidateList)]
    golden = [["Tom ist krank.", "Heute ist es zu kalt zum Schwimmen.", "Ich habe kein Geld."]]
    done = run(["pear", "pear,add=logprob:0", "chrf"], items, references=golden)
    shipped, without = done.row("pear race"), done.row("pear race logprob 0")
    assert f"|weights:uniform|add.logprob:{LOGPROB}" in str(shipped.signature)
    assert "logprob" not in str(without.signature)
    assert "weights:uniform" in str(done.row("chrf").signature)
    assert shipped.texts == tuple(decision.text for decision in decode(items))
    assert without.texts == tuple(decision.text for decision in decode(items, add={"logprob": 0}))


def test_a_store_that_cannot_be_opened_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    messages: list[str] = []
    done = run(["overlap,add=counting:1"], scores=tmp_path / "file" / "scores.sqlite", warn=messages.append)
    assert done.row("overlap").error is None
    assert any(ScoreStore.kept in message for message in messages)


def test_the_matrices_of_the_page_come_with_the_terms() -> None:
    done = run(["overlap,add=length:0.5"], study=2)
    (study,) = page_data(done)["studies"]
    for segment in study["segments"]:
        lengths = [max(len(text.split()), len(text) / 6) for text in segment["texts"]]
        assert segment["terms"] == {"length": pytest.approx(lengths, rel=1e-4)}
        assert segment["scores"] == sorted(segment["scores"], reverse=True)
