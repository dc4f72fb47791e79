"""Coverage: does the candidate say all of the source, and nothing else?"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from candidates.common.errors import ModelError
from candidates.lists import CandidateList
from mbr import rerank
from mbr.alignment.table import FLOOR, PROBABILITIES, SAME_WORD, bundled_tables, load_table, table_bytes
from mbr.alignment.training import train, write_table
from mbr.decide import ReferenceWeights
from mbr.terms import get_term
from tests.mbr.alignment.test_training import PAIRS

pytestmark = pytest.mark.one_world

RULES = ReferenceWeights()


def value(name: str, source: str, *texts: str) -> list[float]:
    (values,) = get_term(name).values([CandidateList.of(source, list(texts))], RULES)
    return values.tolist()  # type: ignore[union-attr, no-any-return]


def test_what_is_left_out_lowers_coverage_and_what_is_added_lowers_coverage_back() -> None:
    source = "We had dinner by the lake."
    whole, short, long = (
        "Wir aßen am See zu Abend.",
        "Wir aßen zu Abend.",
        "Wir aßen am See im Garten Fleisch zu Abend.",
    )
    covered = value("coverage", source, whole, short, long)
    back = value("coverage-back", source, whole, short, long)
    assert covered[0] > covered[1] + 0.5
    assert back[0] > back[2] + 0.3
    assert rerank(source, [short, whole, long], "none", add={"coverage": 1, "coverage-back": 1}).text == whole


def test_the_values_are_those_of_the_formula() -> None:
    table = load_table("en-de")
    source, text = ["the", "dog"], ["der", "hund", "der"]
    p_source, p_target = np.zeros((2, 3, 3))  # [NULL and source words, NULL and distinct candidate words]
    for i, word in enumerate(["", *source]):
        number = table.source_words.index(word)
        for j, other in enumerate(["", "der", "hund"]):
            block = slice(table.starts[number], table.starts[number + 1])
            at = np.flatnonzero(table.targets[block] == table.target_words.index(other))
            p_source[i, j] = PROBABILITIES[table.of_source[block][at]].sum()
            p_target[i, j] = PROBABILITIES[table.of_target[block][at]].sum()
    counts = np.array([1, 2, 1])
    covered = np.log(np.maximum(p_source[1:] @ counts / 4, FLOOR)).mean()
    logs = np.log(np.maximum(p_target.sum(axis=0) / 3, FLOOR))
    assert value("coverage", " ".join(source), " ".join(text)) == pytest.approx([covered])
    assert value("coverage-back", " ".join(source), " ".join(text)) == pytest.approx([(2 * logs[1] + logs[2]) / 3])


def test_an_unknown_word_is_its_own_translation_and_a_known_one_is_not() -> None:
    with_name, without = value("coverage", "Qrxz", "qrxz", "Xyzzy")
    assert (with_name, without) == pytest.approx((np.log(SAME_WORD / 2), np.log(FLOOR)))
    same, right = value("coverage", "They die.", "Sie die.", "Sie sterben.")
    assert same < right - 2


@pytest.mark.parametrize("name", ["coverage", "coverage-back"])
def test_texts_without_words_have_finite_values(name: str) -> None:
    for source in ("...", "A dog.", "犬"):
        values = value(name, source, "!", "Ein Hund.", "…", "犬")
        assert np.isfinite(values).all()
    assert value("coverage-back", "A dog.", "!", "Hund")[0] == np.log(FLOOR)


def test_a_table_of_other_languages_is_refused(tmp_path: Path) -> None:
    french = CandidateList.of("Le chien dort sur le canapé depuis ce matin.", ["The dog sleeps on the sofa."], id=1)
    with pytest.raises(
        ModelError, match="the word-translation table en-de@[0-9a-f]{8} does not fit the lists: it knows"
    ):
        get_term("coverage").values([french] * 9, RULES)
    swapped = CandidateList.of("Der Hund schläft seit heute früh auf dem Sofa.", ["The dog sleeps on the sofa."], id=1)
    with pytest.raises(ModelError, match="--add-model coverage-back=FILE"):
        get_term("coverage-back").values([swapped] * 9, RULES)
    assert len(get_term("coverage").values([french], RULES)) == 1  # too few words for a verdict


def test_a_table_is_read_back_as_it_was_and_its_revision_is_in_the_signature(tmp_path: Path) -> None:
    table, path = train(PAIRS, {"languages": "en-de"}), tmp_path / "mine.npz"
    assert write_table(table, path) == path.stat().st_size
    again = load_table(path)
    assert table_bytes(again) == table_bytes(table)
    assert again.header["languages"] == "en-de"
    term = get_term("coverage", model=str(path))
    assert term.settings() == {"model": f"mine.npz@{again.revision}"}
    bundled = get_term("coverage").settings()["model"]
    assert get_term("coverage", model=bundled).settings() == {"model": bundled}
    with pytest.raises(ModelError, match="the bundled table en-de has revision [0-9a-f]{8}, not 00000000"):
        load_table("en-de@00000000")


def _replaced(name: str, change: Callable[[bytes], bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(bundled_tables()["en-de"]) as old, zipfile.ZipFile(stream, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            new.writestr(entry, change(content) if entry == f"{name}.npy" else content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        bundled_tables()["en-de"].read_bytes()[:100_000],
        _replaced("starts", lambda raw: raw[:-4] + b"\xff\xff\xff\x7f"),
        _replaced("targets", lambda raw: raw[:-2] + b"\xff\xff"),
        _replaced("header", lambda raw: raw.replace(b'"version": 1', b'"version": 9')),
        _replaced("header", lambda raw: raw.replace(b"{", b"[")),
        _replaced("source_words", lambda raw: raw[:-3] + b"\xff\xfe\xfd"),
    ],
)
def test_a_damaged_table_is_an_error_of_the_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="bad.npz: not a word-translation table"):
        load_table(path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **{name: np.array([{}], dtype=object) for name in ("header", "source_words")})
    with pytest.raises(ModelError, match="allow_pickle=False"):
        load_table(path)


def test_a_missing_table_is_named() -> None:
    with pytest.raises(ModelError, match="nowhere.npz: no word-translation table can be read there"):
        get_term("coverage", model="nowhere.npz")


def test_the_bundled_table_is_small() -> None:
    assert bundled_tables()["en-de"].stat().st_size < 1_500_000
