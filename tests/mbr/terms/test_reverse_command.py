"""The term reverse through mbr-decode: choices, refusals, recipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run, write_jsonl
from tests.mbr.terms.reverse_cases import (
    ENGLISH_TO_GERMAN,
    GERMAN_TO_ENGLISH,
    SAYS_NOTHING,
    Folders,
    lists_of,
    reverse,
    values_of,
)

pytestmark = pytest.mark.one_world


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, rows in (("de-en", GERMAN_TO_ENGLISH), ("en-de", ENGLISH_TO_GERMAN)):
        records = [{"source": source, "candidates": texts} for source, texts in rows]
        write_jsonl(tmp_path / f"{name}.jsonl", records)
    return tmp_path


REVERSE = ("--utility", "none", "--add", "reverse=1", "--add-model", "reverse=en-de", "--format", "jsonl")


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
