"""Generation with the bundled model: settings, methods, order, seeds, notices."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from candidates.backends.models import BUNDLED, bundled_models
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.generation import Settings, open_generator
from candidates.lists import CandidateList
from candidates.settings import Method

SOURCES = [
    "Tom told me that he wanted to meet my parents.",
    "Where is the station?",
    "",
    "I have never seen such a beautiful sunset.",
    "He is not as young as he looks.",
] * 4  # more than one chunk of 16
METHODS: list[dict[str, Any]] = [
    {"method": "beam"},
    {"method": "sample"},
    {"method": "sample", "top_k": 20, "top_p": 0.9, "temperature": 0.8},
    {"method": "sample", "top_p": 0.7},
    {"method": "epsilon"},
]


def lists(
    sources: list[str] = SOURCES, *, skip: int = 0, threads: int = 2, compute_type: str = "default", **settings: Any
) -> list[CandidateList]:
    with open_generator(Settings(**{"nbest": 8, **settings}), threads=threads, compute_type=compute_type) as generator:
        return list(generator.generate(sources, skip=skip))  # type: ignore[arg-type]


@cache
def plain(number: int) -> list[CandidateList]:
    """What METHODS[number] makes of SOURCES, for the tests that look at it or compare with it."""
    return lists(**METHODS[number], seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nbest": 0}, "--nbest 0 is out of range"),
        ({"method": "magic"}, "'magic' is unknown"),
        ({"nbest": 20, "beam_size": 10}, "more than --beam-size 10"),
        ({"beam_size": 10, "nbest": 10, "top_k": 3}, "--top-k goes with --method sample"),
        ({"method": "sample", "beam_size": 4}, "--beam-size goes with --method beam"),
        ({"method": "sample", "epsilon": 0.1}, "--epsilon goes with --method epsilon"),
        ({"method": "epsilon", "epsilon": 1.0}, "--epsilon 1.0 is out of range"),
        ({"method": "sample", "temperature": 0.0}, "--temperature 0.0 is out of range"),
        ({"method": "sample", "top_p": float("nan")}, "--top-p nan is out of range"),
        ({"max_length": 0}, "--max-length 0"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings(**settings)


def test_patience_lets_more_candidates_than_beams_come_out() -> None:
    made = lists([SOURCES[0]], nbest=12, beam_size=6, patience=2)
    assert sum(made[0].counts) == 12


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_every_source_has_its_list_in_order(number: int) -> None:
    made = plain(number)
    assert [item.id for item in made] == list(range(len(SOURCES)))
    assert [item.source for item in made] == SOURCES
    assert all(sum(item.counts) == 8 for item in made)
    assert all(item.texts == ("",) for item in made if not item.source)
    assert all(logprob is not None and logprob <= 0 for item in made for logprob in item.logprobs or (None,))


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_threads_resuming_and_repeating_change_nothing(number: int) -> None:
    made = plain(number)
    for threads in (1, 3):
        assert lists(**METHODS[number], threads=threads) == made
    for skip in (5, 16, len(SOURCES)):
        assert lists(**METHODS[number], skip=skip) == made[skip:]


@pytest.mark.parametrize("number", range(1, len(METHODS)))
def test_samples_follow_the_seed_and_nothing_else(number: int) -> None:
    first = plain(number)
    assert [item.texts for item in lists(**METHODS[number], seed=2)] != [item.texts for item in first]
    with open_generator(Settings(nbest=8, **METHODS[number]), batch_tokens=64, threads=2) as generator:
        assert list(generator.generate(SOURCES)) == first


@pytest.mark.parametrize("settings", METHODS[1:], ids=str)
def test_the_order_of_samples_is_not_the_order_of_their_scores(settings: dict[str, Any]) -> None:
    made = lists([SOURCES[0]] * 16, nbest=12, **settings)
    sorted_lists = 0
    for item in made:
        logprobs = [candidate.logprob or 0.0 for candidate in item.listed()]
        sorted_lists += logprobs == sorted(logprobs, reverse=True)
    assert sorted_lists < 4


def test_log_probabilities_are_those_of_the_beam_whatever_the_method() -> None:
    """A text may be spelled in several token sequences; the beam lists its best one, a sample any of them."""
    searched = lists([SOURCES[0]], nbest=100, compute_type="float32")[0]
    known = dict(zip(searched.texts, searched.logprobs or (), strict=True))
    for settings in METHODS[1:]:
        drawn = lists([SOURCES[0]], nbest=100, compute_type="float32", **settings)[0]
        shared = [
            (logprob, known[text])
            for text, logprob in zip(drawn.texts, drawn.logprobs or (), strict=True)
            if text in known and logprob is not None
        ]
        assert len(shared) >= 3
        assert all(a <= b + 1e-3 for a, b in shared if b is not None)
        assert sum(abs(a - b) < 1e-3 for a, b in shared if b is not None) >= len(shared) * 0.7


def test_no_token_of_an_epsilon_sample_is_less_likely_than_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens as drawn, scored again one by one by CTranslate2."""
    import ctranslate2
    import sentencepiece

    from candidates.backends import epsilon

    drawn: list[epsilon.Draw] = []
    sample = epsilon.sample

    def recorded(*words: Any, **settings: Any) -> list[epsilon.Draw]:
        drawn.extend(sample(*words, **settings))
        return drawn

    monkeypatch.setattr(epsilon, "sample", recorded)
    settings = Settings(nbest=60, method="epsilon", epsilon=0.05)
    with open_generator(settings, threads=1, compute_type="float32") as generator:
        list(generator.generate([SOURCES[3]]))
    folder = BUNDLED / "en-de"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder), intra_threads=1, compute_type="float32")
    targets = [[pieces.id_to_piece(id) for id in draw.tokens] for draw in drawn]
    assert len(targets) > 5
    source = pieces.encode(SOURCES[3], out_type=str)
    for draw, result in zip(drawn, translator.score_batch([source] * len(targets), targets), strict=True):
        assert math.exp(min(result.log_probs)) >= 0.05 - 1e-5
        assert draw.logprob == pytest.approx(sum(result.log_probs), abs=1e-3)


def test_beams_hold_better_texts_first() -> None:
    for item in lists(nbest=10, length_penalty=0):
        logprobs = [logprob or 0.0 for logprob in item.logprobs or ()]
        assert logprobs == sorted(logprobs, reverse=True)


def test_sources_are_read_as_they_are_needed() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        for number in count():
            taken += 1
            yield f"I have {number} cats."

    with open_generator(Settings(nbest=2, method="sample", max_length=20), threads=2) as generator:
        assert len(list(islice(generator.generate(endless()), 3))) == 3
    assert taken <= 16 * 4


def test_candidates_cut_off_at_the_limit_are_counted() -> None:
    with open_generator(Settings(nbest=4, max_length=3), threads=1) as generator:
        made = list(generator.generate([SOURCES[0]]))
        assert generator.cut_off == 4
    assert all(len(text) < 30 for text in made[0].texts)  # type: ignore[union-attr]


def test_a_long_source_is_cut_with_a_notice_or_split() -> None:
    text = " ".join(["I have never seen such a beautiful sunset."] * 60)
    with open_generator(Settings(nbest=2), threads=1, split_sentences=False) as generator:
        list(generator.generate([text]))
        assert "untranslated (--split-sentences" in generator.notices[0]
    with open_generator(Settings(nbest=2), threads=1) as generator:
        (item,) = generator.generate([text])
        assert not generator.notices
        assert (generator.split_sources, generator.first_split) == (1, 0)
    assert isinstance(item, CandidateList)
    assert len(item) == 2
    assert item.texts[0].count(".") == 60


@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
def test_lines_of_one_sentence_are_translated_as_without_splitting(method: Method) -> None:
    sources = [*SOURCES, "Mr. Smith is here. ", "  no full stop"]
    made = []
    for split in (False, True):
        with open_generator(Settings(nbest=3, method=method), threads=1, split_sentences=split) as generator:
            made.append([replace(item, origin=None) for item in generator.generate(sources)])  # type: ignore[type-var]
            assert generator.split_sources == 0
            assert generator.described().get("split") == (True if split else None)
    assert made[0] == made[1]


def test_a_line_of_several_sentences_holds_the_best_of_each() -> None:
    texts = ["Tom is here.", "I have never seen such a big dog before."]
    settings = Settings(nbest=20)
    with open_generator(settings, threads=1, batch_tokens=1) as generator:
        first, second, line = generator.generate([*texts, " ".join(texts)])
    assert isinstance(line, CandidateList)
    bests = [next(item.listed()) for item in (first, second) if isinstance(item, CandidateList)]
    best = next(line.listed())
    assert best.text == f"{bests[0].text} {bests[1].text}"
    assert best.logprob == pytest.approx(sum(entry.logprob or 0 for entry in bests))
    assert sum(line.counts) == 20
    assert len({text.split(".")[0] for text in line.texts}) > 1, "combinations vary both sentences"


@pytest.mark.parametrize(
    "source", ["🙂🙃", "日本語のテキスト", "a" * 400, "\u200b", "tab\there", "x\ry", "x\u2028y", "\0", "}{\\"]
)
def test_any_text_is_translated_to_something(source: str) -> None:
    for settings in (METHODS[0], METHODS[1], METHODS[4]):
        (item,) = lists([source], nbest=2, max_length=12, **settings)
        assert item.source == source
        assert sum(item.counts) == 2


def test_a_source_that_utf8_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match="segment 0: lone surrogate"):
        lists(["\ud800"])


def test_unknown_models_and_options_are_refused(tmp_path: Path) -> None:
    assert bundled_models() == ["de-en", "en-de"]
    for model, backend, error, message in (
        (str(tmp_path / "none"), None, ModelError, "no such folder"),
        ("en-de", "magic", UsageError, "unknown"),
        (str(tmp_path), "ct2", ModelError, "no model.bin"),
        (str(tmp_path), "hf", ModelError, "cannot load"),
    ):
        with pytest.raises(error, match=message):
            open_generator(model=model, backend=backend)
    with pytest.raises(UsageError, match="--concurrency does not go with"):
        open_generator(concurrency=3)
    with pytest.raises(UsageError, match="unknown to CTranslate2"):
        open_generator(device="tpu")
    (tmp_path / "model.bin").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no tokenizer"):
        open_generator(model=str(tmp_path))
    (tmp_path / "sentencepiece.model").write_bytes((BUNDLED / "en-de" / "sentencepiece.model").read_bytes())
    (tmp_path / "shared_vocabulary.json").write_text('["<unk>", "</s>"]')
    with pytest.raises(ModelError, match="cannot load it"):
        open_generator(model=str(tmp_path))


def test_a_generator_makes_lists_of_another_size_with_the_same_model() -> None:
    with open_generator(Settings(nbest=4)) as generator:
        other = generator.with_nbest(6)
        (few,), (more,) = (list(made.generate(["A dog runs."])) for made in (generator, other))
    with open_generator(Settings(nbest=6)) as six:
        (expected,) = six.generate(["A dog runs."])
    assert isinstance(few, CandidateList)
    assert sum(few.counts) == 4
    assert more == expected


@pytest.mark.parametrize(
    ("nbest", "words", "given", "tokens"),
    [(50, 2**26, None, 8192), (50, 600_000, None, 100), (50, 1, None, 1), (50, 600_000, 64, 64), (49, 1, None, 8192)],
)
def test_wide_beams_over_a_large_vocabulary_have_small_batches_on_a_cpu(
    nbest: int, words: int, given: int | None, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled vocabulary has 6,000 words; what one step computes for a batch should stay in the cache."""
    monkeypatch.setattr("candidates.backends.ct2._BATCH_WORDS", words)
    with open_generator(Settings(nbest=2), device="cpu", batch_tokens=given) as generator:
        assert generator.with_nbest(nbest).described()["batch-tokens"] == tokens
