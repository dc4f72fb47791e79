"""IBM model 1: vectorised EM against a plain one, and what cannot be learnt from."""

from __future__ import annotations

import gzip
import itertools
import math
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma

from candidates.common.errors import InputError
from mbr.alignment import training
from mbr.alignment.table import PROBABILITIES, table_bytes
from mbr.alignment.training import PRIOR, ROUNDS, number_words, read_parallel, train
from mbr.alignment.words import words

pytestmark = pytest.mark.one_world

PAIRS = [
    ("the dog runs", "der hund läuft"),
    ("the cat runs", "die katze läuft"),
    ("a dog", "ein hund"),
    ("a cat sleeps", "eine katze schläft"),
    ("the dog sleeps", "der hund schläft"),
]


def plain(pairs: list[tuple[list[str], list[str]]]) -> dict[tuple[str, str], float]:
    """p(source word | target word), as the textbook has it."""
    seen = {(s, t) for source, target in pairs for s in source for t in ["", *target]}
    p = dict.fromkeys(seen, 1.0)
    for _ in range(ROUNDS):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        for source, target in pairs:
            for s in source:
                total = sum(p[s, t] for t in ["", *target])
                for t in ["", *target]:
                    counts[s, t] += p[s, t] / total
        for t in {t for _, t in seen}:
            kinds = [s for s, other in seen if other == t]
            total = sum(counts[s, t] for s in kinds)
            for s in kinds:
                p[s, t] = max(math.exp(digamma(counts[s, t] + PRIOR) - digamma(total + PRIOR * len(kinds))), 1e-30)
    return p


def test_the_vectorised_rounds_agree_with_plain_ones() -> None:
    pairs = [*PAIRS, ("dog dog the", "hund der"), ("runs", "läuft läuft ja")]
    table = train(pairs)
    split = [(source.split(), target.split()) for source, target in pairs]
    forward, backward = plain(split), plain([(target, source) for source, target in split])
    for (i, source), (j, target) in itertools.product(enumerate(table.source_words), enumerate(table.target_words)):
        block = slice(table.starts[i], table.starts[i + 1])
        at = np.flatnonzero(table.targets[block] == j)
        for codes, expected in (
            (table.of_source, forward.get((source, target), 0.0)),
            (table.of_target, backward.get((target, source), 0.0)),
        ):
            found = PROBABILITIES[codes[block][at]].sum()
            if expected >= training.LEAST_PROBABILITY:
                assert found == pytest.approx(expected, rel=0.026)  # half a step
            else:
                assert found < training.LEAST_PROBABILITY * 1.03


def test_links_in_pieces_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = PAIRS * 3
    whole = table_bytes(train(pairs))
    for size in (1, 30, 45):
        monkeypatch.setattr(training, "PIECE_LINKS", size)
        assert table_bytes(train(pairs)) == whole


def test_translations_are_found() -> None:
    table = train(PAIRS)
    number = table.source_words.index("dog")
    block = slice(table.starts[number], table.starts[number + 1])
    best = table.targets[block][np.argmin(table.of_target[block])]
    assert table.target_words[best] == "hund"
    assert table.header == {"pairs": 5, "of_pairs": 5}


def test_too_many_links_thin_the_pairs_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MOST_LINKS", 200)
    pairs = [(f"a{k} b", f"c{k} d") for k in range(100)]  # 9 links each
    numbered = number_words(pairs)
    kept = [word for word in numbered.sides[0].numbers if word]
    assert numbered.read == 100
    assert numbered.used * 9 <= 200
    assert len(kept) == 2 * numbered.used
    assert numbered.used >= 11


def test_the_order_of_words_within_sentences_changes_nothing() -> None:
    shuffled = [(" ".join(random.Random(1).sample(s.split(), len(s.split()))), t) for s, t in PAIRS]
    first, second = train(PAIRS), train(shuffled)
    one, two = (dict(zip(t.source_words, np.diff(t.starts), strict=True)) for t in (first, second))
    assert one == two


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "0 sentence pairs, none with words on both sides"),
        ([("Hallo", "")] * 3, "3 sentence pairs, none with words on both sides"),
        ([("...", "!")], "1 sentence pairs, none with words"),
        ([("a", "b"), *[("a", "")] * 9], "9 of 10 sentence pairs have no word on one side"),
    ],
)
def test_pairs_without_two_sides_are_refused(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(pairs)


def test_a_file_of_pairs_is_read_with_its_lines_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv.gz"
    file.write_bytes(gzip.compress(b"A dog.\tEin Hund.\tCC-BY\nA cat.\tEine Katze.\n"))
    assert list(read_parallel(file)) == [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]
    broken = tmp_path / "pairs.tsv"
    broken.write_text("A dog.\tEin Hund.\nA cat. Eine Katze.\n")
    with pytest.raises(InputError, match=r"line 2: no tab in 'A cat. Eine Katze.'; expected a source sentence"):
        list(read_parallel(broken))
    broken.write_bytes(b"A dog.\tEin H\xffnd.\n")
    with pytest.raises(InputError, match="line 1, byte 13: 0xff is not valid UTF-8"):
        list(read_parallel(broken))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_parallel(tmp_path / "none.tsv"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom's dog isn’t OLD!", ["tom's", "dog", "isn't", "old"]),
        ("7.5 oder 1,000? Um 12:30.", ["7.5", "oder", "1,000", "um", "12:30"]),
        ("Straße -- STRASSE", ["strasse", "strasse"]),
        ("私は犬が好き。OK?", ["私", "は", "犬", "が", "好", "き", "ok"]),
        ("... !?", []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected
