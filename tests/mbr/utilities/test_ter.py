"""TER: edits, shifts, the beam and the limits of sacrebleu, and the two tables of edit distances."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics import TER

from mbr.utilities import edits, shifts, ter
from mbr.utilities.edits import BeamRows, BitRows, Swaps, positions
from mbr.utilities.ngrams import word_ids
from mbr.utilities.ter import Ter, edit_counts, paired_edit_counts
from tests.mbr.utilities.lexical import assert_all_pairs_are_those_of_sacrebleu

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize(
    ("hypothesis", "reference", "rate"),
    [
        ("the cat sat", "The cat sat", 0.0),
        ("sat the cat", "the cat sat", 100 / 3),  # one shift
        ("a b c d e f", "d e f a b c", 100 / 6),
        ("the cat", "the cat sat .", 50.0),
        ("x y", "the cat sat .", 100.0),
        ("a b c d", "a", 300.0),  # more edits than words
        ("", "the cat", 100.0),
        ("the cat", "", 100.0),
        ("", " ", 0.0),
    ],
)
def test_ter_counts_edits_and_shifts_per_reference_word(hypothesis: str, reference: str, rate: float) -> None:
    assert TER().sentence_score(hypothesis, [reference]).score == pytest.approx(rate)
    assert Ter().matrix("", [hypothesis], [reference])[0, 0] == pytest.approx(-rate, rel=1e-6)


def shuffled(draw: random.Random, base: Sequence[str], vocabulary: int, changes: int) -> list[str]:
    """The words with spans moved, dropped and put in."""
    words = list(base)
    for _ in range(changes):
        place, length, kind = draw.randint(0, len(words)), draw.randint(1, 12), draw.random()
        span = words[place : place + length]
        if kind < 0.8:
            del words[place : place + length]
        if kind < 0.6:
            target = draw.randint(0, len(words))
            words[target:target] = span
        if kind >= 0.8:
            words[place:place] = [f"w{draw.randrange(vocabulary)}" for _ in range(length)]
    return words


@pytest.mark.parametrize(
    ("seed", "vocabulary", "length", "count"),
    [(0, 2, 8, 10), (1, 4, 12, 10), (2, 10, 20, 7), (3, 40, 24, 4), (4, 200, 50, 2), (5, 30, 50, 2)],
)
def test_ter_finds_the_shifts_of_sacrebleu(seed: int, vocabulary: int, length: int, count: int) -> None:
    draw = random.Random(seed)
    base = [f"w{draw.randrange(vocabulary)}" for _ in range(length)]
    sample = [" ".join(shuffled(draw, base, vocabulary, draw.randint(0, 6))) for _ in range(count)]
    assert_all_pairs_are_those_of_sacrebleu("ter", sample, sample)


@pytest.mark.parametrize("cells", [1, 3000, 2_000_000])
def test_edits_of_pairs_are_those_of_the_table_of_all(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of 0 to 90 words, some paths of which leave the beam; words are numbered anew for each reference."""
    draw = random.Random(5)
    texts = [[f"w{draw.randrange(30)}" for _ in range(length)] for length in (0, 1, 9, 30, 70, 90)]
    sample = [[shuffled(draw, text, 30, draw.randint(0, 6)) for _ in range(4)] for text in texts]
    words = [word_ids([text, *others, texts[1], texts[4]]) for text, others in zip(texts, sample, strict=True)]
    expected = np.concatenate([edit_counts(others, [reference])[:, 0] for reference, *others in words])
    monkeypatch.setattr(ter, "BLOCK_CELLS", cells)
    order = draw.sample(range(len(expected)), len(expected))
    hypotheses = [others for _, *group in words for others in group]
    numbers = np.repeat(np.arange(len(words)), 6)
    found = paired_edit_counts([hypotheses[place] for place in order], [group[0] for group in words], numbers[order])
    assert found.tolist() == expected[order].tolist()


def test_ter_keeps_to_the_beam_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Best paths that run far from the diagonal, texts of very different length, and where it shows."""
    draw = random.Random(7)
    base = [f"w{place}" for place in range(50)]
    new = [f"v{draw.randrange(300)}" for _ in range(40)]
    sample = [" ".join(words) for words in (base + new, new[:30] + base, base[:20] + new + base[20:], ["w1"], base)]
    assert_all_pairs_are_those_of_sacrebleu("ter", sample[-2:], sample[:3])
    assert_all_pairs_are_those_of_sacrebleu("ter", sample[:1], sample[-2:])
    expected = Ter().matrix("", sample, sample)
    monkeypatch.setattr(edits, "BEAM", 1000)
    assert (Ter().matrix("", sample, sample) > expected + 1).any()


@pytest.mark.parametrize(("seed", "length"), [(41, 28), (3, 32)])
def test_ter_gives_up_where_sacrebleu_does(seed: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand shifts tried, the last round's shift is not made."""
    draw = random.Random(seed)
    hypothesis, reference = (" ".join(draw.choices("abc", k=length)) for _ in range(2))
    assert_all_pairs_are_those_of_sacrebleu("ter", [hypothesis], [reference])
    expected = Ter().matrix("", [hypothesis], [reference])
    monkeypatch.setattr(shifts, "MOST_TRIED", 1_000_000)
    assert Ter().matrix("", [hypothesis], [reference]) > expected


@pytest.mark.parametrize("length", [12, 63, 64, 65, 140])
def test_bits_and_beam_fill_the_same_tables(length: int) -> None:
    draw = np.random.default_rng(length)
    words = draw.integers(0, 5 + length // 6, (20, length)).astype(np.int32)
    for row in words[10:]:  # like the first ones, so that no path leaves the beam
        row[:] = words[0]
        row[draw.integers(0, length, 4)] = draw.integers(0, 5, 4)
    hypotheses, references = words[10:], np.roll(words[10:], 1, axis=0)
    rows = np.sort(draw.integers(length - 5, length + 1, 10))[::-1]
    columns = draw.integers(length - 5, length + 1, 10)
    hypotheses[np.arange(length) >= rows[:, None]] = -1
    references[np.arange(length) >= columns[:, None]] = -2
    table = positions(references, int(words.max()) + 1)  # [words + 1, parts, references]
    bits = BitRows(table[hypotheses, :, np.arange(10)[:, None]].transpose(1, 2, 0), rows, columns)
    beam = BeamRows(hypotheses, references, rows, columns)
    assert np.array_equal(bits.distance, beam.distance)
    first, forward, back = draw.integers(0, (length - 9, 3, 3), (50, 3)).T
    swaps = Swaps(draw.integers(0, 10, 50), first, first + forward, first + forward + back)
    assert np.array_equal(bits.swapped(swaps), beam.swapped(swaps))
    for ours, theirs in zip(bits.alignment(), beam.alignment(), strict=True):
        width = theirs.shape[1]
        inside = np.arange(width) < (rows if theirs is beam.alignment().hypothesis_right else columns)[:, None]
        assert np.array_equal(ours[:, :width] * inside, theirs * inside)
