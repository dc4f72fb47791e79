"""Forced decoding: both back-ends give the log-probabilities of transformers' own forward pass."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.backends.forced import ForcedScorer, open_forced_scorer
from candidates.common.errors import InputError, ModelError, UsageError
from candidates.generation import Settings, open_generator

FAMILIES = ("marian", "m2m100", "nllb")
LANGUAGES: dict[str, dict[str, str]] = {
    "marian": {},
    "m2m100": {"src_lang": "en", "tgt_lang": "de"},
    "nllb": {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"},
}
GIVEN = {"m2m100": "__de__", "nllb": "deu_Latn"}
ROWS = [
    ("Tom told me that he wanted to meet my parents.", "Tom hat mir gesagt, dass er meine Eltern treffen wolle."),
    ("The quick brown fox.", "Der schnelle braune Fuchs."),
    ("The quick brown fox.", ""),
    ("", "Ein Hund."),
    ("", ""),
    ("She bought some bread.", "日本語 🙂"),
    ("She bought some bread, two eggs and a bottle of milk.", "Brot"),
]
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


def reference(folder: Path, family: str, source: str, target: str) -> float:
    """Minus transformers' own loss of the target as labels, written out here without our code."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if family in GIVEN:
        tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[family].values()
    inputs = tokenizer(source, text_target=target, return_tensors="pt")
    labels = inputs.pop("labels")
    with torch.no_grad():
        logits = network(**inputs, labels=labels).logits[0]
    if family == "marian":
        logits[:, network.config.pad_token_id] = -torch.inf  # generation never returns it
    losses = torch.nn.functional.cross_entropy(logits, labels[0], reduction="none")
    if family in GIVEN:
        assert tokenizer.convert_ids_to_tokens(labels[0, 0].item()) == GIVEN[family]
        losses = losses[1:]
    return -float(losses.mean())


def open_scorer(folder: Path, family: str = "marian", **options: Any) -> ForcedScorer:
    return open_forced_scorer(str(folder), **{"device": "cpu", "threads": 1, **LANGUAGES[family]} | options)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", ["ct2", "hf"])
def test_scores_are_transformers_log_probabilities_per_target_token(
    folders: Folders, family: str, backend: str
) -> None:
    theirs, ours = folders(family)
    expected = [reference(theirs, family, *row) for row in ROWS]
    with open_scorer(ours if backend == "ct2" else theirs, family) as scorer:
        scores = scorer.score(ROWS)
        assert scorer.backend == backend
    assert scores.dtype == np.float64
    assert scores == pytest.approx(expected, abs=1e-3)
    assert len({round(value, 3) for value in expected}) == len(ROWS), "rows must differ for this to mean much"


@pytest.mark.parametrize("backend", ["ct2", "hf"])
def test_neither_order_nor_batches_nor_copies_nor_threads_change_a_score(folders: Folders, backend: str) -> None:
    model = folders("nllb")[backend == "ct2"]
    draw = random.Random(3)
    words = ["Tom", "hat", "mir", "gesagt", "dass", "er", "meine", "Eltern", "treffen", "wolle", "Brot", "und", "Milch"]
    rows = [tuple(" ".join(draw.choices(words, k=draw.randint(0, 12))) for _ in range(2)) for _ in range(60)]
    rows += rows[:10]
    with open_scorer(model, "nllb") as scorer:
        scores = scorer.score(rows)  # type: ignore[arg-type]
        order = draw.sample(range(len(rows)), len(rows))
        shuffled = scorer.score([rows[place] for place in order])  # type: ignore[misc]
        alone = [float(scorer.score([row])[0]) for row in rows[:15]]  # type: ignore[list-item]
    assert scores[:10].tolist() == scores[60:].tolist()
    assert shuffled.tolist() == scores[order].tolist()
    assert alone == pytest.approx(scores[:15].tolist(), abs=1e-5)
    for options in ({"batch_tokens": 1}, {"batch_tokens": 50}, {"threads": 2}):
        with open_scorer(model, "nllb", **options) as scorer:
            assert scorer.score(rows) == pytest.approx(scores, abs=1e-5)  # type: ignore[arg-type]


def test_every_distinct_row_is_scored_once_in_batches_within_the_budget(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from candidates.backends.forced_hf import HfForcedScorer

    batches: list[list[Any]] = []
    inner = HfForcedScorer._batch_sums

    def recorded(self: HfForcedScorer, batch: list[Any]) -> list[float]:
        batches.append(batch)
        return inner(self, batch)

    monkeypatch.setattr(HfForcedScorer, "_batch_sums", recorded)
    rows = [(f"Tom hat {number} Brote." + " Milch" * (number % 7), "Tom " * (number % 5)) for number in range(40)]
    with open_scorer(folders("marian")[0], batch_tokens=64) as scorer:
        scorer.score(rows * 2)
        assert scorer.score([]).shape == (0,)
    assert sum(map(len, batches)) == 40
    assert len(batches) < 30
    for batch in batches:
        padded = len(batch) * max(max(len(row.source), len(row.target)) for row in batch)
        assert padded <= 64 or len(batch) == 1


@pytest.mark.parametrize(("backend", "recorded"), [("ct2", True), ("ct2", False), ("hf", True)])
def test_texts_beyond_the_positions_are_cut_and_counted(folders: Folders, backend: str, recorded: bool) -> None:
    """Also where a CTranslate2 folder does not record the positions: its error names them."""
    theirs, ours = folders("marian")
    model = ours if backend == "ct2" else theirs
    sidecar = ours / "mbr-generate.json"
    content = sidecar.read_text(encoding="utf-8")
    long, longer = " ".join(["Tom"] * 90), " ".join(["Tom"] * 99)
    try:
        if not recorded:
            sidecar.write_text("{}", encoding="utf-8")
        with open_scorer(model) as scorer:
            long_sources, long_targets = [(long, "Tom"), (longer, "Tom")], [("Tom", long), ("Tom", longer)]
            scores = scorer.score([("Tom hat Brot.", "Tom"), *long_sources, *long_targets])
    finally:
        sidecar.write_text(content, encoding="utf-8")
    assert json.loads(content)["positions"] == 64
    assert scorer.cut_texts == 4
    assert scores[1] == pytest.approx(scores[2], abs=1e-5)
    assert scores[3] == pytest.approx(scores[4], abs=1e-5)
    assert scores[0] == pytest.approx(reference(theirs, "marian", "Tom hat Brot.", "Tom"), abs=1e-3)


def test_the_bundled_model_agrees_with_its_own_beam() -> None:
    """Log-probabilities of the search, divided by the tokens that CTranslate2 counted."""
    import sentencepiece

    from candidates.backends.models import BUNDLED

    source = "Where is the station?"
    with open_generator(Settings(nbest=1), compute_type="float32", threads=1) as generator:
        (item,) = generator.generate([source])
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(BUNDLED / "en-de" / "sentencepiece.model"))
    with open_forced_scorer("en-de", compute_type="float32", threads=1) as scorer:
        scores = scorer.score([(source, item.texts[0]), (source, "Ein Tisch."), ("", item.texts[0])])  # type: ignore[union-attr]
        assert scorer.name == generator.described()["model"]
        assert scorer.described() == {"model": scorer.name, "backend": "ct2", "compute": "float32"}
    tokens = len(pieces.encode(item.texts[0])) + 1  # type: ignore[union-attr]
    assert scores[0] == pytest.approx(item.logprobs[0] / tokens, abs=1e-3)  # type: ignore[union-attr, index]
    assert scores[0] > max(scores[1:]) + 1


def test_scores_of_an_int8_model_do_not_depend_on_the_other_rows() -> None:
    """To the bit, although rows of equal lengths share batches."""
    sizes: list[int] = []
    rows = [(f"I have {number} cats.", "Ich habe" + " große" * (number % 4) + " Katzen.") for number in range(30)]
    with open_forced_scorer("en-de", threads=2) as scorer:
        assert scorer.described()["compute"].startswith("int8")
        inner = scorer._sums
        scorer._sums = lambda batches: (sizes.extend(map(len, batches)), inner(batches))[1]  # type: ignore[method-assign, func-returns-value]
        whole = scorer.score(rows)
        assert [float(scorer.score([row])[0]) for row in rows] == whole.tolist()
        half = scorer.score(rows[::2])
        assert half.tolist() == whole[::2].tolist()
    assert max(sizes) > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_equal_lengths_share_int8_batches_without_changing_a_bit(
    folders: Folders, family: str, tmp_path: Path
) -> None:
    from candidates.backends.convert import convert

    convert(str(folders(family)[0]), tmp_path / "int8", quantization="int8")
    draw = random.Random(4)
    words = ["Tom", "hat", "mir", "Brot", "und", "Milch"]
    rows = [tuple(" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(2)) for _ in range(150)]
    results = []
    for tokens in (8192, 40, 1):
        with open_scorer(tmp_path / "int8", family, batch_tokens=tokens) as scorer:
            batches = list(scorer._batches(sorted((scorer._encode(*row) for row in set(rows)), key=_lengths)))  # type: ignore[arg-type]
            assert all(_lengths(row) == _lengths(batch[0]) for batch in batches for row in batch)
            assert (max(map(len, batches)) > 1) == (tokens > 1)
            results.append(scorer.score(rows).tolist())  # type: ignore[arg-type]
    assert results[0] == results[1] == results[2]


def _lengths(row: Any) -> tuple[int, int]:
    return len(row.target), len(row.source)


def test_the_description_names_model_compute_type_and_languages(folders: Folders) -> None:
    theirs, _ = folders("m2m100")
    with open_scorer(theirs, "m2m100") as scorer:
        assert scorer.described() == {
            "model": f"{theirs}@local",
            "backend": "hf",
            "compute": "float32",
            "languages": "en>de",
        }


def test_what_cannot_be_scored_is_refused(folders: Folders, tmp_path: Path) -> None:
    theirs, ours = folders("nllb")
    for model, options, error, message in (
        ("http://localhost:8000/v1", {}, UsageError, "openai has no forced decoding; expected ct2 or hf"),
        (str(ours), {}, UsageError, "give --tgt-lang"),
        (str(theirs), {"backend": "ct2"}, ModelError, "mbr-generate --convert"),
        (str(tmp_path), {"backend": "hf"}, ModelError, "cannot load"),
        (str(theirs), {"compute_type": "int8", **LANGUAGES["nllb"]}, UsageError, "unknown to hf"),
        (str(ours), {"batch_tokens": 0, **LANGUAGES["nllb"]}, UsageError, "batch_tokens 0 is out of range"),
    ):
        with pytest.raises(error, match=message):
            open_forced_scorer(model, **options)
    with open_scorer(ours, "nllb") as scorer, pytest.raises(InputError, match="target.*lone surrogate"):
        scorer.score([("Tom", "\ud800")])
