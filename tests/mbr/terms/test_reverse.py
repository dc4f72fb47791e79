"""The term reverse: log p(source | candidate) by forced decoding, batched over lists, in the right direction only."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from candidates.lists import CandidateList
from mbr import rerank
from mbr.cache.scores import Ledger, ScoreStore
from mbr.opening import open_decoder
from mbr.recipe import Recipe, TermSpec
from mbr.terms import get_term
from tests.mbr.terms.reverse_cases import (
    ENGLISH_TO_GERMAN,
    FAMILIES,
    GERMAN_TO_ENGLISH,
    LANGUAGES,
    RULES,
    SAYS_NOTHING,
    Folders,
    lists_of,
    reverse,
    values_of,
)

LISTS = [
    CandidateList.of(
        "A dog runs.", ["Ein Hund rennt.", "Ein Hund läuft schnell.", "Der Hund.", "Ein Hund rennt."], id=0
    ),
    CandidateList.of("She bought some bread.", ["Sie kaufte Brot.", "Brot", "Sie hat etwas Brot gekauft."], id=1),
    CandidateList.of("Where is the station?", ["Wo ist der Bahnhof?", "日本語"], id=2),
]


def reference(folder: Path, family: str, candidate: str, source: str) -> float:
    """transformers' own log-probability of the source given the candidate, per token of the source."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if LANGUAGES[family]:
        tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[family].values()
    inputs = tokenizer(candidate, text_target=source, return_tensors="pt")
    labels = inputs.pop("labels")
    with torch.no_grad():
        logits = network(**inputs, labels=labels).logits[0]
    if family == "marian":
        logits[:, network.config.pad_token_id] = -torch.inf  # generation never returns it
    losses = torch.nn.functional.cross_entropy(logits, labels[0], reduction="none")
    return -float((losses[1:] if LANGUAGES[family] else losses).mean())  # the first is the given language


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", ["ct2", "hf"])
def test_values_are_transformers_log_probabilities_of_the_source(folders: Folders, family: str, backend: str) -> None:
    theirs, ours = folders(family)
    expected = [[reference(theirs, family, text, item.source) for text in item.texts] for item in LISTS]
    with reverse(ours if backend == "ct2" else theirs, family) as term:
        values = values_of(term, LISTS)
        assert term.settings()["backend"] == backend
    assert [len(row) for row in values] == [3, 3, 2], "copies of a text have one value"
    for row, own in zip(values, expected, strict=True):
        assert row == pytest.approx(own, abs=1e-3)
    assert len({round(value, 3) for row in expected for value in row}) == 8, "values must differ for this to mean much"


def test_lists_are_scored_in_one_call_and_equal_rows_once(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    from candidates.backends.forced_hf import HfForcedScorer

    with reverse(folders("marian")[0]) as term:
        values_of(term, LISTS)  # the check of the direction has been made
        batches: list[list[Any]] = []
        calls: list[int] = []
        score, batch_sums = term._scorer.score, HfForcedScorer._batch_sums

        def counted(rows: Any) -> Any:
            calls.append(len(rows))
            return score(rows)

        def recorded(self: HfForcedScorer, batch: list[Any]) -> list[float]:
            batches.append(batch)
            return batch_sums(self, batch)

        monkeypatch.setattr(term._scorer, "score", counted)
        monkeypatch.setattr(HfForcedScorer, "_batch_sums", recorded)
        values_of(term, [*LISTS, *LISTS])
    assert calls == [16]
    assert sum(map(len, batches)) == 8, "each distinct pair once"
    assert len(batches) < len(LISTS), "lists share batches"


@pytest.mark.parametrize("backend", ["ct2", "hf"])
def test_the_order_of_lists_and_candidates_changes_nothing(folders: Folders, backend: str) -> None:
    draw = random.Random(2)
    with reverse(folders("nllb")[backend == "ct2"], "nllb") as term:
        plain = {
            (item.source, text): value
            for item, row in zip(LISTS, values_of(term, LISTS), strict=True)
            for text, value in zip(item.texts, row, strict=True)
        }
        for _ in range(3):
            mixed = [
                CandidateList.of(item.source, draw.sample(item.texts, len(item)))
                for item in draw.sample(LISTS, len(LISTS))
            ]
            for item, row in zip(mixed, values_of(term, mixed), strict=True):
                assert row == pytest.approx([plain[item.source, text] for text in item.texts], abs=1e-5)
        for item in LISTS:
            assert values_of(term, [item])[0] == pytest.approx([plain[item.source, t] for t in item.texts], abs=1e-5)


def test_an_int8_model_gives_the_same_bits_whatever_the_other_lists_are() -> None:
    lists = lists_of(GERMAN_TO_ENGLISH)
    with reverse("en-de") as term:
        together = values_of(term, lists)
        assert [values_of(term, [item])[0] for item in lists] == together
        assert values_of(term, lists[::-1]) == together[::-1]


def test_memory_does_not_grow_with_the_number_of_windows() -> None:
    words = ["dog", "house", "runs", "blue", "today", "never", "table", "small"]
    draw = random.Random(1)

    def window() -> list[CandidateList]:
        sentences = [" ".join(draw.choices(words, k=6)) for _ in range(40)]
        return lists_of([(f"Ein Satz {draw.random()}", sentences)])

    with reverse("en-de") as term:
        for _ in range(3):
            term.values(window(), RULES)
        tracemalloc.start()
        try:
            term.values(window(), RULES)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(12):
                term.values(window(), RULES)
            gc.collect()
            growth = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert growth < 20_000, "12 windows of 40 candidates are about 150,000 bytes"


def test_no_lists_have_no_values(folders: Folders) -> None:
    with reverse("en-de") as term:
        assert term.values([], RULES) == []
    recipe = Recipe("chrf", terms=(TermSpec("reverse", 1.0, {"model": "en-de"}),))
    with open_decoder(recipe) as decoder:
        ((decision,),) = decoder.windows([CandidateList.of("Hallo", ["Hello"])])
    assert decision.text == "Hello"


def test_a_model_of_the_other_direction_prefers_translations() -> None:
    lists = lists_of(GERMAN_TO_ENGLISH)
    with reverse("en-de") as term:
        first, second, third = values_of(term, lists)
    assert first[0] > first[1] > first[2]
    assert second[1] > max(second[0], second[2])
    assert third[0] > max(third[1:])


def test_a_model_of_the_same_direction_is_refused_each_time() -> None:
    with reverse("en-de") as term:
        for lists in (ENGLISH_TO_GERMAN, ENGLISH_TO_GERMAN[:1], SAYS_NOTHING):
            with pytest.raises(
                ModelError, match=r"direction of en-de@\w+ does not fit the term reverse: it translates"
            ):
                term.values(lists_of(lists), RULES)


def test_lists_that_say_nothing_pass_in_either_direction() -> None:
    """Such a window may come first in a run that goes on where another has stopped."""
    swapped = [(text, [source]) for source, texts in SAYS_NOTHING for text in texts]
    for rows in (SAYS_NOTHING, swapped):
        with reverse("en-de") as term:
            assert len(values_of(term, lists_of(rows))) == len(rows)


@pytest.mark.parametrize(
    "texts", [["Tom ist heute sehr krank."], ["Tom ist heute sehr krank.", "Tom ist krank heute."]]
)
def test_fewer_than_three_pairs_are_no_reason_to_refuse(texts: list[str]) -> None:
    with reverse("en-de") as term:
        values_of(term, lists_of([("Tom is very sick today.", texts)]))
        with pytest.raises(ModelError, match="does not fit"):  # with the pairs of the next lists there are enough
            values_of(term, lists_of([("Where is the station?", ENGLISH_TO_GERMAN[1][1])]))


def test_a_model_that_has_passed_is_never_refused_later() -> None:
    """The first lists decide, so no window of a long run ends it for a few odd lists."""
    with reverse("en-de") as term:
        values_of(term, lists_of(GERMAN_TO_ENGLISH))
        values_of(term, lists_of(ENGLISH_TO_GERMAN))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_finds_both_directions_alike_passes(folders: Folders, family: str) -> None:
    with reverse(folders(family)[0], family) as term:
        values_of(term, lists_of(GERMAN_TO_ENGLISH))
        assert term._probed is None, "there was a verdict"


def test_scores_of_earlier_runs_are_used_and_belong_to_the_model(folders: Folders, tmp_path: Path) -> None:
    with ScoreStore(tmp_path / "scores.sqlite") as store:
        for _ in range(2):
            with reverse("en-de") as term, Ledger(store, term) as ledger:
                term.memory = ledger
                kept = values_of(term, lists_of(GERMAN_TO_ENGLISH))
        with reverse("en-de", compute_type="float32") as other, Ledger(store, other) as ledger:
            other.memory = ledger
            fresh = values_of(other, lists_of(GERMAN_TO_ENGLISH))
        assert "compute" in other.settings()
    with reverse("en-de") as term:
        plain = values_of(term, lists_of(GERMAN_TO_ENGLISH))
    for stored, computed, float32 in zip(kept, plain, fresh, strict=True):
        assert stored == pytest.approx(computed, abs=1e-5)
        assert stored != pytest.approx(float32, abs=1e-5), "another number type has scores of its own"


@pytest.mark.parametrize("family", ["m2m100", "nllb"])
@pytest.mark.parametrize("backend", ["ct2", "hf"])
def test_a_model_of_many_languages_asks_for_both(folders: Folders, family: str, backend: str) -> None:
    model = str(folders(family)[backend == "ct2"])
    tgt_lang = {"tgt_lang": LANGUAGES[family]["tgt_lang"]}
    for options, missing in (({}, "into several languages; give tgt_lang"), (tgt_lang, "give src_lang")):
        with pytest.raises(UsageError) as caught:
            get_term("reverse", model=model, **options)
        assert missing in str(caught.value)
        assert "--add reverse=WEIGHT,src_lang=CODE,tgt_lang=CODE" in str(caught.value)
        assert "--tgt-lang" not in str(caught.value), "that option is the generator's"


@pytest.mark.parametrize("device", ["mps", "cpu,cpu"])
def test_a_device_meant_for_the_utility_does_not_stop_ctranslate2(device: str) -> None:
    with reverse("en-de", device=device) as term:
        assert len(values_of(term, lists_of(GERMAN_TO_ENGLISH))) == 3


def test_race_with_pear_adds_the_exact_values() -> None:
    source, texts = GERMAN_TO_ENGLISH[0]
    with reverse("en-de") as term:
        (values,) = values_of(term, lists_of([(source, texts)]))
    scores = {
        weight: rerank(
            source, texts, "pear", model="en-de", strategy="race", threads=1,
            add={"reverse": weight}, add_model={"reverse": "en-de"},
        )
        for weight in (0.0, 1.0, 1000.0)
    }  # fmt: skip
    assert scores[0.0].terms == {}
    assert scores[1.0].terms["reverse"].tolist() == pytest.approx(values, abs=1e-6)
    np.testing.assert_allclose(scores[1.0].scores, scores[1.0].expected + np.array(values), atol=1e-5)
    assert scores[1000.0].ranking == tuple(np.argsort(values)[::-1].tolist())
