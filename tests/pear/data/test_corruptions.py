"""Damaged translations: each kind does what it says, and the diagnosis counts who notices."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from candidates.common.errors import InputError, ModelError, UsageError
from pear.data import GRADES, KINDS, corrupt, corrupted, diagnose

pytestmark = pytest.mark.one_world

SOURCE = "On Monday, 12 old men bought a car, and the dealer was very happy about three checks."
TEXT = "Am Montag kauften 12 alte Männer ein Auto, und der Händler war sehr glücklich über drei Schecks."
POOL = [
    "Die Sonne scheint heute besonders hell über unserem kleinen Dorf.",
    "Gestern spielten zwei Kinder im Garten hinter dem Haus Verstecken.",
    "Niemand weiß genau, wann der nächste Zug nach Hamburg fahren wird.",
]


def damage(text: str, kind: str, grade: int, seed: int = 1, lp: str = "en-de", source: str = SOURCE) -> str | None:
    return corrupt(text, kind, grade, source=source, pool=POOL, rng=random.Random(seed), lp=lp)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grade", GRADES)
def test_every_kind_applies_to_an_ordinary_sentence_and_changes_it(kind: str, grade: int) -> None:
    if (kind, grade) == ("negation", 3):
        assert damage(TEXT, kind, grade) is None  # it has two clauses
        return
    found = {damage(TEXT, kind, grade, seed) for seed in range(20)}
    assert None not in found
    assert all(text and text.split() != TEXT.split() for text in found)


@pytest.mark.parametrize("seed", range(10))
def test_word_counts_follow_the_grades(seed: int) -> None:
    words = Counter(TEXT.split())
    for grade, size in zip(GRADES, (1, 3, 7), strict=True):
        missing = words - Counter(str(damage(TEXT, "omission", grade, seed)).split())
        assert size <= missing.total() <= size + 1  # the word that takes over a full stop counts
        assert len(str(damage(TEXT, "repetition", grade, seed)).split()) == words.total() + size
    for grade, size in zip(GRADES, (1, 3, 5), strict=True):
        changed = str(damage(TEXT, "word", grade, seed)).split()
        assert sum(old != new for old, new in zip(TEXT.split(), changed, strict=True)) == size
    for grade, size in zip(GRADES, (3, 8, 13), strict=True):
        kept = str(damage(TEXT, "truncation", grade, seed)).split()
        assert kept == TEXT.split()[:-size]


@pytest.mark.parametrize("seed", range(10))
def test_swaps_keep_the_words_and_the_punctuation(seed: int) -> None:
    def letters(text: str) -> Counter[str]:
        return Counter(text.replace(",", "").replace(".", "").split())

    for grade in GRADES:
        text = str(damage(TEXT, "swap", grade, seed))
        assert letters(text) == letters(TEXT)
        assert [word[-1] in ",." for word in text.split()] == [word[-1] in ",." for word in TEXT.split()]


@pytest.mark.parametrize(
    ("kind", "grade", "expected"),
    [
        ("source", 3, SOURCE),
        ("source", 2, "Am Montag kauften 12 alte Männer ein Auto, und the dealer was very happy about three checks."),
        ("truncation", 3, "Am Montag kauften 12"),
    ],
)
def test_parts_of_the_source_and_of_the_text(kind: str, grade: int, expected: str) -> None:
    assert damage(TEXT, kind, grade) == expected


def test_a_wrong_sentence_comes_from_the_pool() -> None:
    assert damage(TEXT, "sentence", 3) in POOL
    half = str(damage(TEXT, "sentence", 2))
    assert half.startswith("Am Montag kauften 12 alte Männer ein Auto,")
    assert half.split()[-1] in {text.split()[-1] for text in POOL}


@pytest.mark.parametrize(
    ("text", "lp", "grade", "expected"),
    [
        ("Es sind 5.", "en-de", 1, {"Es sind 4.", "Es sind 6."}),
        ("Es sind 10.", "en-de", 1, {"Es sind 11."}),
        ("Es sind 1999.", "en-de", 1, {"Es sind 1998."}),
        ("Zwei Hunde.", "en-de", 1, {"Eins Hunde.", "Drei Hunde."}),
        ("Ein Hund, zweimal.", "en-de", 1, {None}),
        ("It took twelve days.", "de-en", 1, {"It took eleven days."}),
        ("Es sind 5.", "en-de", 3, {None}),
        ("Deux chiens.", "en-fr", 1, {None}),
        ("Il y a 9 chiens.", "en-fr", 1, {"Il y a 8 chiens."}),
    ],
)
def test_numbers(text: str, lp: str, grade: int, expected: set[str | None]) -> None:
    assert {damage(text, "number", grade, seed, lp) for seed in range(20)} == expected


@pytest.mark.parametrize("seed", range(20))
def test_larger_number_grades_leave_no_digit_and_no_number(seed: int) -> None:
    new = str(damage("Im Jahr 2024 war es.", "number", 2, seed)).split()[2]
    assert len(new) == 4
    assert new[0] != "0"
    assert not any(one == two for one, two in zip(new, "2024", strict=True))
    _, first, _, second = str(damage("Mit 17 oder acht", "number", 3, seed)).split()
    assert first != "17"
    assert second != "acht"


@pytest.mark.parametrize(
    ("lp", "text", "expected"),
    [
        ("en-de", "Das ist ein Hund.", "Das ist kein Hund."),
        ("en-de", "Keine Katze schläft.", "Eine Katze schläft."),
        ("en-de", "Er kommt nicht.", "Er kommt."),
        ("en-de", "Nicht alle kommen.", "Alle kommen."),
        ("en-de", "Sie hat das Buch gelesen.", "Sie hat das Buch nicht gelesen."),
        ("en-de", "Wir sind müde.", "Wir sind nicht müde."),
        ("en-de", "Ist er da?", "Ist er nicht da?"),
        ("en-de", "Wann soll ich kommen?", "Wann soll ich nicht kommen?"),
        ("en-de", "Er schläft.", "Er schläft nicht."),
        ("en-de", "Er gab das Buch zurück.", "Er gab das Buch nicht zurück."),
        ("en-de", "Er schlief ein.", "Er schlief nicht ein."),
        ("en-de", "Sie lügt nie!", "Sie lügt immer!"),
        ("de-en", "He is here.", "He is not here."),
        ("de-en", "He's here.", "He's not here."),
        ("de-en", "Is he here?", "Is he not here?"),
        ("de-en", "When will you come?", "When will you not come?"),
        ("de-en", "I don’t know, sorry.", "I do know, sorry."),
        ("de-en", "We won't come.", "We will come."),
        ("de-en", "I cannot come.", "I can come."),
        ("de-en", "They always sing.", "They never sing."),
        ("de-en", "She reads books.", "She never reads books."),
        ("de-en", "Stop.", None),
        ("en-ru", "Это не собака.", None),
    ],
)
def test_negations(lp: str, text: str, expected: str | None) -> None:
    assert damage(text, "negation", 1, lp=lp) == expected


@pytest.mark.parametrize("kind", ["omission", "repetition", "swap", "truncation"])
def test_something_always_stays_intact(kind: str) -> None:
    assert [damage("Ja.", kind, grade) for grade in GRADES] == [None] * 3
    assert damage("", kind, 1) is None


def test_languages_without_spaces_are_damaged_by_character() -> None:
    text = "他昨天在北京买了三本书。"
    assert damage(text, "truncation", 2, lp="en-zh") == "他昨天在北京"
    assert len(str(damage(text, "omission", 2, lp="en-zh"))) == len(text) - 2
    assert (
        damage(text, "source", 1, lp="en-zh", source="Yesterday he bought three books.")
        == "他昨天在北京买了three books."
    )


def test_a_copied_source_that_is_the_translation_is_no_damage() -> None:
    assert damage("Tom Sawyer", "source", 3, source="Tom  Sawyer") is None


def test_kinds_and_grades_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="no corruption 'typo' of grade 1"):
        damage(TEXT, "typo", 1)
    with pytest.raises(UsageError, match="of grade 4"):
        damage(TEXT, "word", 4)


def test_all_corruptions_of_a_reference_are_distinct_graded_and_repeatable() -> None:
    found = corrupted(SOURCE, TEXT, POOL, seed=1)
    assert found == corrupted(SOURCE, TEXT, POOL, seed=1)
    assert found != corrupted(SOURCE, TEXT, POOL, seed=2)
    assert {item.kind for item in found} == set(KINDS)
    assert len({item.text for item in found}) == len(found) == 26
    assert all(0 < item.penalty <= 1 for item in found)
    for kind in KINDS:
        penalties = [item.penalty for item in found if item.kind == kind]
        assert penalties == sorted(penalties)
    assert max(found, key=lambda item: item.penalty).kind in ("sentence", "source")
    assert corrupted("Yes.", "Ja.", [], seed=1)  # little applies, but a copied source does


ITEMS = [(f"{SOURCE} {index}", f"{TEXT} {index}") for index in range(40)]


def test_a_perfect_a_blind_and_a_wrong_metric_are_told_apart() -> None:
    intact = dict(ITEMS)

    def perfect(triples: Sequence[tuple[str, str, str]]) -> list[float]:
        return [float((a == intact[source]) - (b == intact[source])) for source, a, b in triples]

    report = diagnose(perfect, ITEMS, seed=1)
    assert list(report) == [*KINDS, "overall"]
    assert all(report[kind] == {"count": 40, "below": 1.0} for kind in KINDS)
    assert report["overall"]["count"] == 360
    blind = diagnose(lambda triples: [0.3] * len(triples), ITEMS, seed=1)
    assert all(row["below"] == 0 for row in blind.values())
    longer = diagnose(lambda triples: [float(len(a) - len(b)) for _, a, b in triples], ITEMS, seed=1)
    assert (longer["omission"]["below"], longer["repetition"]["below"]) == (1.0, 0.0)


def test_both_orders_are_averaged() -> None:
    """A metric that likes whatever comes first sees nothing."""

    def biased(triples: Sequence[tuple[str, str, str]]) -> list[float]:
        return [5.0 + 0.01 * (len(a) - len(b)) for _, a, b in triples]

    report = diagnose(biased, ITEMS, seed=1)
    assert report["truncation"]["below"] == 1.0
    assert report["repetition"]["below"] == 0.0


def test_metrics_and_items_that_are_of_no_use() -> None:
    with pytest.raises(ModelError, match="gave 1 scores for"):
        diagnose(lambda triples: [1.0], ITEMS, seed=1)
    with pytest.raises(ModelError, match="no number"):
        diagnose(lambda triples: [float("nan")] * len(triples), ITEMS, seed=1)
    with pytest.raises(InputError, match="none of the 0 items"):
        diagnose(lambda triples: [], [], seed=1)


def test_a_diagnosis_takes_milliseconds_per_sentence_at_most() -> None:
    began = time.process_time()
    diagnose(lambda triples: [0.0] * len(triples), ITEMS * 10, seed=1)
    assert time.process_time() - began < 0.002 * 400
