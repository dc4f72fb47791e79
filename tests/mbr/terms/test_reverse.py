"""The term reverse: log p(source | candidate) by forced decoding, batched over lists, in the right direction only."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from candidates.lists import CandidateList
from mbr import rerank
from mbr.cache.scores import Ledger, ScoreStore
from mbr.decide import ReferenceWeights
from mbr.opening import open_decoder
from mbr.recipe import Recipe, TermSpec
from mbr.terms import get_term
from mbr.terms.reverse import Reverse
from tests.conftest import Run, write_jsonl

FAMILIES = ("marian", "m2m100", "nllb")
# Candidates are German, sources English: the reverse model translates from German into English.
LANGUAGES: dict[str, dict[str, str]] = {
    "marian": {},
    "m2m100": {"src_lang": "de", "tgt_lang": "en"},
    "nllb": {"src_lang": "deu_Latn", "tgt_lang": "eng_Latn"},
}
LISTS = [
    CandidateList.of(
        "A dog runs.", ["Ein Hund rennt.", "Ein Hund läuft schnell.", "Der Hund.", "Ein Hund rennt."], id=0
    ),
    CandidateList.of("She bought some bread.", ["Sie kaufte Brot.", "Brot", "Sie hat etwas Brot gekauft."], id=1),
    CandidateList.of("Where is the station?", ["Wo ist der Bahnhof?", "日本語"], id=2),
]
# What the bundled model translates, and a list of the other direction.
GERMAN_TO_ENGLISH = [
    ("Tom ist heute sehr krank.", ["Tom is very sick today.", "Tom is sick.", "The table is green and quite old."]),
    ("Wo ist der Bahnhof?", ["The sky is blue in summer.", "Where is the station?", "Where is the train?"]),
    ("Ich habe kein Geld mehr.", ["I have no money left.", "I have no more time to lose.", "You are right."]),
]
ENGLISH_TO_GERMAN = [
    ("Tom is very sick today.", ["Tom ist heute sehr krank.", "Tom ist heute krank.", "Tom ist krank."]),
    ("Where is the station?", ["Wo ist der Bahnhof?", "Wo befindet sich der Bahnhof?", "Wo ist hier der Bahnhof?"]),
    ("I have no money left.", ["Ich habe kein Geld mehr.", "Ich habe kein Geld übrig.", "Ich hab kein Geld mehr."]),
]
# Names, numbers and single words say nothing about the direction.
SAYS_NOTHING = [
    ("Tom", ["Tom.", "Tom!", "Der Tom"]),
    ("Tom Smith, New York", ["Tom Smith, New York.", "Tom Smith in New York", "Tom Smith, New Yorker"]),
    ("12:30", ["12.30 Uhr", "12:30 Uhr", "halb eins"]),
    ("Hello!", ["Hallo!", "Hi!", "Guten Tag!"]),
]
RULES = ReferenceWeights()
Folders = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The transformers folder of a family and its float32 conversion, each made once."""
    from candidates.backends.convert import convert
    from tests.support.random_mt import write_random_translator

    root = tmp_path_factory.mktemp("translators")

    @cache
    def get(family: str) -> tuple[Path, Path]:
        theirs, ours = root / family, root / f"{family}-ct2"
        write_random_translator(family, theirs, positions=64)
        convert(str(theirs), ours, quantization="float32")
        return theirs, ours

    return get


def lists_of(rows: Sequence[tuple[str, list[str]]]) -> list[CandidateList]:
    return [CandidateList.of(source, texts, id=id) for id, (source, texts) in enumerate(rows)]


def reverse(model: Path | str, family: str = "marian", **options: Any) -> Reverse:
    term = get_term("reverse", **{"model": str(model), "device": "cpu", "threads": 1, **LANGUAGES[family]} | options)
    assert isinstance(term, Reverse)
    return term


def values_of(term: Reverse, lists: Sequence[CandidateList]) -> list[list[float]]:
    return [np.asarray(values, float).tolist() for values in term.values(lists, RULES)]


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


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, rows in (("de-en", GERMAN_TO_ENGLISH), ("en-de", ENGLISH_TO_GERMAN)):
        records = [{"source": source, "candidates": texts} for source, texts in rows]
        write_jsonl(tmp_path / f"{name}.jsonl", records)
    return tmp_path


REVERSE = ("--utility", "none", "--add", "reverse=1", "--add-model", "reverse=en-de", "--format", "jsonl")


@pytest.mark.one_world
@pytest.mark.usefixtures("files")
def test_mbr_decode_reranks_by_the_reverse_model(warm: Run) -> None:
    result = warm("mbr-decode", "--candidates", "de-en.jsonl", *REVERSE)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["text"] for record in records] == [
        "Tom is very sick today.", "Where is the station?", "I have no money left.",
    ]  # fmt: skip
    with reverse("en-de") as term:
        best = [max(values) for values in values_of(term, lists_of(GERMAN_TO_ENGLISH))]
    assert [record["terms"]["reverse"] for record in records] == pytest.approx(best, abs=2e-6)
    assert [record["score"] for record in records] == [record["terms"]["reverse"] for record in records]
    assert "|add.reverse:1.0|add.reverse.model:en-de@" in result.stderr


@pytest.mark.one_world
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["en-de.jsonl", *REVERSE], 4, "mbr-decode: error: the direction of en-de@"),
        (["en-de.jsonl", *REVERSE, "--on-error", "skip"], 4, "does not fit the term reverse"),
        (["de-en.jsonl", "--utility", "chrf", "--add", "reverse=1"], 2, "needs a translation model of the other"),
        (["de-en.jsonl", *REVERSE[:4], "--add-model", "reverse=./nowhere"], 4, "./nowhere: no such folder"),
        (["de-en.jsonl", *REVERSE, "--add-model", "logprob=en-de"], 2, "for the term 'logprob', which is not added"),
        (["de-en.jsonl", *REVERSE[:3], "reverse=1,model=en-de,src_lang=de"], 2, "no languages to choose from"),
        (["de-en.jsonl", *REVERSE[:3], "reverse=1,model=http://localhost:1/v1"], 2, "no forced decoding"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_a_code(warm: Run, words: list[str], code: int, message: str) -> None:
    result = warm("mbr-decode", "--candidates", *words)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.one_world
def test_a_recipe_file_holds_the_options_of_the_model(warm: Run, folders: Folders, files: Path) -> None:
    _, ours = folders("nllb")
    options = f"{{weight: 2, model: {ours}, src_lang: eng_Latn, tgt-lang: deu_Latn, compute_type: float32}}"
    (files / "mine.yaml").write_text(f"utility: chrf\nterms:\n  reverse: {options}\n", encoding="utf-8")
    words = ["mbr-decode", "--candidates", "de-en.jsonl", "--recipe", "mine.yaml", "--device", "cpu"]
    result = warm(*words, "--format", "jsonl")
    assert result.returncode == 0, result.stderr
    languages = {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"}
    with reverse(ours, "nllb", **languages) as term:
        values = values_of(term, lists_of(GERMAN_TO_ENGLISH))
    for line, row, (_, texts) in zip(result.stdout.splitlines(), values, GERMAN_TO_ENGLISH, strict=True):
        record = json.loads(line)
        value = row[texts.index(record["text"])]
        assert record["terms"]["reverse"] == pytest.approx(value, abs=2e-6)
        assert record["score"] == pytest.approx(record["expected_utility"] + 2 * value, abs=1e-5)
    assert "|add.reverse.languages:eng_Latn>deu_Latn|" in result.stderr
    printed = warm(*words, "--print-recipe")
    (files / "printed.yaml").write_text(printed.stdout, encoding="utf-8")
    again = warm(*words[:3], "--recipe", "printed.yaml", "--device", "cpu", "--format", "jsonl")
    assert again.stdout == result.stdout


@pytest.mark.one_world
def test_a_run_resumed_among_lists_that_say_nothing_goes_on(warm: Run, tmp_path: Path) -> None:
    """A run of right direction; the resumed part begins with names and single words."""
    rows = [*GERMAN_TO_ENGLISH * 100, *((source, texts) for source, texts in SAYS_NOTHING * 20)]
    write_jsonl(tmp_path / "l.jsonl", [{"source": source, "candidates": texts} for source, texts in rows])
    whole = warm("mbr-decode", "--candidates", "l.jsonl", *REVERSE)
    assert whole.returncode == 0, whole.stderr
    write_jsonl(tmp_path / "end.jsonl", [{"source": source, "candidates": texts} for source, texts in rows[300:]])
    end = warm("mbr-decode", "--candidates", "end.jsonl", *REVERSE)
    assert end.returncode == 0, end.stderr
    first, second = ([json.loads(line)["score"] for line in run.stdout.splitlines()] for run in (whole, end))
    assert first[300:] == second
