"""chrF, chrF++, BLEU and TER: the numbers of sacrebleu for all pairs, and scores against the mean of a list."""

from __future__ import annotations

import random
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu.metrics import TER
from sacrebleu.metrics.chrf import CHRF

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.utilities import edits, ngrams, shifts, ter
from mbr.utilities.bleu import Bleu
from mbr.utilities.chrf import ChrF, ChrFpp, split_words
from mbr.utilities.edits import BeamRows, BitRows, Swaps, positions
from mbr.utilities.ter import Ter
from tests.support.random_pear import CORPUS

pytestmark = pytest.mark.one_world

UTILITIES: dict[str, Any] = {"chrf": ChrF(), "chrf++": ChrFpp(), "bleu": Bleu(), "ter": Ter()}
NGRAMS = ["chrf", "chrf++", "bleu"]


def plain(name: str, hypothesis: str, reference: str) -> float:
    """The number of sacrebleu for one pair."""
    if name == "ter":
        return -float(TER().sentence_score(hypothesis, [reference]).score)
    if name == "bleu":
        return float(sacrebleu.sentence_bleu(hypothesis, [reference]).score)
    return float(sacrebleu.sentence_chrf(hypothesis, [reference], word_order=2 * (name == "chrf++")).score)


def assert_all_pairs_are_those_of_sacrebleu(name: str, hypotheses: list[str], references: list[str]) -> None:
    expected = [[plain(name, h, r) for r in references] for h in hypotheses]
    np.testing.assert_allclose(UTILITIES[name].matrix("", hypotheses, references), expected, rtol=1e-6)


def texts() -> list[str]:
    draw = random.Random(1)
    words = ["the", "a", "cat", "dog", "sat", "on", "mat", ".", ",", "1,000", "don't", "(The)", "DOG"]
    made = [" ".join(draw.choices(words, k=draw.randint(1, 25))) for _ in range(12)]
    odd = [
        "",
        " ",
        "\t\n \u3000",
        "a",
        "ab",
        "é",
        unicodedata.normalize("NFD", "Café Zoë"),
        "Café Zoë",
        "aaaa aaaa aaaa",
        "Hello hello hello.",
        "😀😀 x 👩‍👩‍👧 🇩🇪",
        "日本語 テキスト",
        "我不知道他什么时候来。",
        "نص حكيم له سر قاطع",
        "a\u2028b\tc\rd\u00a0e",
        "... (!) -- 'x' ?",
        "İstanbul ISTANBUL ß SS",
    ]
    return odd + CORPUS[::2] + made


@pytest.mark.parametrize("name", UTILITIES)
def test_matrix_has_the_sentence_scores_of_sacrebleu(name: str) -> None:
    sample = texts()
    assert_all_pairs_are_those_of_sacrebleu(name, sample, sample)


@pytest.mark.parametrize("name", NGRAMS)
def test_long_texts_have_the_sentence_scores_of_sacrebleu(name: str) -> None:
    draw = random.Random(2)
    words = [f"w{draw.randrange(500)}" for _ in range(2000)]
    turned = words[700:] + words[:700]
    sample = [" ".join(words), " ".join(turned), "very long " * 1000]
    assert_all_pairs_are_those_of_sacrebleu(name, sample, sample)


def test_thousands_of_distinct_characters_are_counted_exactly() -> None:
    draw = random.Random(2)
    han = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
    sample = ["".join(draw.choices(han, k=900)) for _ in range(3)]
    sample.append(sample[0][:500] + sample[1][500:])
    assert_all_pairs_are_those_of_sacrebleu("chrf", sample, sample)


SCRAPS = st.text(alphabet="ab.,! \tÀ\u0301語😀\u200d\u2028\ud800", max_size=12)
SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "A", "a.", "d e", "語"]), max_size=12).map(" ".join)


@pytest.mark.parametrize("name", UTILITIES)
@settings(max_examples=40, deadline=None)
@given(hypotheses=st.lists(SCRAPS | SENTENCES, min_size=1, max_size=4), references=st.lists(SENTENCES, min_size=1))
def test_any_texts_have_the_sentence_scores_of_sacrebleu(
    name: str, hypotheses: list[str], references: list[str]
) -> None:
    assert_all_pairs_are_those_of_sacrebleu(name, hypotheses, references[:4])


@pytest.mark.parametrize("name", UTILITIES)
def test_hypotheses_and_references_may_be_different_texts(name: str) -> None:
    sample = texts()
    utility = UTILITIES[name]
    assert np.array_equal(utility.matrix("", sample[:7], sample[3:20]), utility.matrix("", sample, sample)[:7, 3:20])


@pytest.mark.parametrize("name", UTILITIES)
def test_small_blocks_and_renumbered_ngrams_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = texts()[::2]
    utility = UTILITIES[name]
    expected = utility.matrix("", sample, sample)
    monkeypatch.setattr(ngrams, "BLOCK_CELLS", 100)
    monkeypatch.setattr(ngrams, "LARGEST_KEY", 10_000)
    monkeypatch.setattr(ter, "BLOCK_CELLS", 5_000)
    monkeypatch.setattr(edits, "TOGETHER", 3)
    np.testing.assert_allclose(utility.matrix("", sample, sample), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(hi)", ["(hi", ")"]),
        ("'tis", ["'", "tis"]),
        ("... !", ["..", ".", "!"]),
        ("don't „so“ 語。", ["don't", "„so“", "語。"]),
        ("  ", []),
    ],
)
def test_chrfpp_takes_one_mark_off_a_word(text: str, words: list[str]) -> None:
    assert split_words(text) == words == CHRF()._remove_punctuation(text)


def test_bleu_takes_the_tokenizers_of_sacrebleu() -> None:
    pair = ["我不知道他什么时候来。", "我不知道他来不来。"]
    matrix = Bleu(tokenize="zh").matrix("", pair, pair)
    assert matrix[0, 1] == pytest.approx(sacrebleu.sentence_bleu(pair[0], [pair[1]], tokenize="zh").score, rel=1e-6)
    with pytest.raises(UsageError, match="tokenizer 'x'"):
        Bleu(tokenize="x")


def test_a_tokenizer_that_lacks_its_library_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(EnvironmentProblem, match=r"'ja-mecab' cannot be used here: .*pip install sacrebleu\[ja\]$"):
        Bleu(tokenize="ja-mecab")


def test_chrf_of_real_system_outputs_is_that_of_the_wmt23_metrics_task(wmt23: Path) -> None:
    """The organisers' segment scores of chrF on WMT23 en-de, recomputed from the texts."""
    references = (wmt23 / "references" / "en-de.refA.txt").read_text(encoding="utf-8").split("\n")[:-1]
    published: dict[str, list[float]] = {}
    for line in (wmt23 / "metric-scores" / "en-de" / "chrF-refA.seg.score").read_text().splitlines():
        system, score = line.split("\t")
        published.setdefault(system, []).append(float(score))
    for system in ("ONLINE-W", "NLLB_Greedy"):
        outputs = (wmt23 / "system-outputs" / "en-de" / f"{system}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        sample = range(0, len(outputs), 10)
        mine = [ChrF().matrix("", [outputs[i]], [references[i]])[0, 0] for i in sample]
        np.testing.assert_allclose(mine, [published[system][i] for i in sample], rtol=1e-4, atol=1e-3)


# TER


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


# Against the mean of a list


def grams(name: str, text: str) -> list[Counter[Any]]:
    """N-gram counts of each order, character orders first."""
    if name == "bleu":
        words = sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a()(text).split()
        return [ngram_counts(words, order) for order in range(1, 5)]
    orders = [ngram_counts("".join(text.split()), order) for order in range(1, 7)]
    if name == "chrf++":
        orders += [ngram_counts(CHRF()._remove_punctuation(text), order) for order in (1, 2)]
    return orders


def ngram_counts(tokens: Sequence[str], order: int) -> Counter[Any]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def by_hand(name: str, sample: Sequence[str], weights: Sequence[float], own_weights: Sequence[float]) -> list[float]:
    """Scores against mean counts, with dictionaries."""
    counted = [grams(name, text) for text in sample]
    scores = []
    for i, mine in enumerate(counted):
        shares = [own_weights[i] if j == i else weight for j, weight in enumerate(weights)]
        means = []
        for order in range(len(mine)):
            mean: Counter[Any] = Counter()
            for share, other in zip(shares, counted, strict=True):
                for gram, count in other[order].items():
                    mean[gram] += share * count / sum(shares)  # type: ignore[assignment]
            means.append(mean)
        both = zip(mine, means, strict=True)
        matches = [sum(min(float(count), mean[gram]) for gram, count in own.items()) for own, mean in both]
        found, expected = [own.total() for own in mine], [float(mean.total()) for mean in means]
        scores.append((bleu_by_hand if name == "bleu" else chrf_by_hand)(matches, found, expected))
    return scores


def chrf_by_hand(matches: list[float], found: list[int], expected: list[float]) -> float:
    both = [(m / f, m / e) for m, f, e in zip(matches, found, expected, strict=True) if f and e]
    precision, recall = (sum(values) / len(both) for values in zip(*both, strict=True)) if both else (0.0, 0.0)
    return 100 * 5 * precision * recall / (4 * precision + recall) if precision else 0.0


def bleu_by_hand(matches: list[float], found: list[int], expected: list[float]) -> float:
    if not any(matches):
        return 0.0
    score, smoothing = 1.0, 1.0
    orders = [(m, f) for m, f in zip(matches, found, strict=True) if f]
    for match, total in orders:
        if match < smoothing / 2:
            match = smoothing = smoothing / 2
        score *= match / total
    brevity = np.exp(min(0.0, 1 - expected[0] / found[0]))
    return float(100 * brevity * score ** (1 / len(orders)))


LIST = ["Der Hund rennt schnell.", "Der Hund läuft schnell.", "Ein Hund rennt.", "Hund Hund Hund", "der", ""]


@pytest.mark.parametrize("name", NGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_aggregate_is_what_dictionaries_of_mean_counts_give(name: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    sample = LIST if seed == 0 else [text for text in texts() if len(text) < 200]
    weights = draw.random(len(sample)) * (draw.random(len(sample)) < 0.8)
    own = weights * draw.random(len(sample)) * (seed % 2)
    found = UTILITIES[name].aggregate("", sample, weights, own)
    np.testing.assert_allclose(found, by_hand(name, sample, weights.tolist(), own.tolist()), rtol=1e-5, atol=1e-5)
    assert (found.shape, found.dtype) == ((len(sample),), np.float32)


def test_aggregate_chrf_is_that_of_fastchrf() -> None:
    """Numbers of fastchrf 0.2.1, the package of Vamvas & Sennrich 2024: each text against all, and against the rest."""
    sample, ones = LIST[:4], np.ones(4)
    np.testing.assert_allclose(
        ChrF().aggregate("", sample, ones, ones), [63.6299186, 56.4584610, 40.8176714, 28.9212106], rtol=1e-7
    )
    np.testing.assert_allclose(
        ChrF().aggregate("", sample, ones, 0 * ones), [47.7455619, 37.4340826, 26.1728405, 13.1301441], rtol=1e-7
    )


@pytest.mark.parametrize("name", NGRAMS)
def test_aggregate_with_all_weight_on_another_text_is_the_pairwise_score(name: str) -> None:
    sample = texts()
    matrix = UTILITIES[name].matrix("", sample, sample)
    for j in range(0, len(sample), 7):
        weights = np.zeros(len(sample))
        weights[j] = 0.3
        found = UTILITIES[name].aggregate("", sample, weights, np.zeros(len(sample)))
        others = np.arange(len(sample)) != j
        np.testing.assert_allclose(found[others], matrix[others, j], rtol=1e-6)
        # Nothing is left to compare it with but itself.
        assert found[j] == matrix[j, j]


@pytest.mark.parametrize("name", NGRAMS)
def test_aggregate_leaves_a_text_out_however_heavy_it_is(name: str) -> None:
    """Weights of log-probabilities may differ by hundreds of orders of magnitude."""
    weights = np.array([1, 1e-250, 3e-250, 1e-260, 1e-250, 0])
    found = UTILITIES[name].aggregate("", LIST, weights, np.zeros(6))
    expected = UTILITIES[name].aggregate("", LIST, np.array([0, 1, 3, 1e-10, 1, 0]), np.zeros(6))
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    matrix = UTILITIES[name].matrix("", LIST, LIST)
    np.testing.assert_allclose(found[1:], matrix[1:, 0], rtol=1e-6)


@pytest.mark.parametrize("name", NGRAMS)
def test_aggregate_of_duplicates_is_that_of_weights(name: str) -> None:
    """A text listed twice is a weight of two, of which one counts for itself."""
    twice = UTILITIES[name].aggregate("", [LIST[0], *LIST], np.ones(7), np.zeros(7))
    once = UTILITIES[name].aggregate("", LIST, np.array([2.0, 1, 1, 1, 1, 1]), np.array([1.0, 0, 0, 0, 0, 0]))
    np.testing.assert_allclose(twice[1:], once, rtol=1e-6)
    assert twice[0] == pytest.approx(once[0], rel=1e-6)


@pytest.mark.parametrize("name", NGRAMS)
def test_aggregate_of_one_text_is_its_score_against_itself(name: str) -> None:
    for own in (np.zeros(1), np.ones(1)):
        assert UTILITIES[name].aggregate("", [LIST[0]], np.ones(1), own) == pytest.approx(100)


def test_aggregate_bleu_never_takes_a_rare_match_for_worse_than_none() -> None:
    """One in a hundred has the same four words: that must not count less than the smoothing of no match at all."""
    text, rest = "a b c d", [f"a x{i} y{i} z{i}" for i in range(99)]

    def score(sample: list[str]) -> float:
        return float(Bleu().aggregate("", sample, np.ones(len(sample)), np.zeros(len(sample)))[0])

    assert score([text, *rest, "a b c d e"]) > score([text, *rest, "a e e e e"])


@pytest.mark.parametrize("name", NGRAMS)
def test_aggregate_of_thousands_takes_no_matrix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    sample = [" ".join(draw.choices(string.ascii_letters, k=20)) for _ in range(3000)]

    def refuse(*_: Any) -> NDArray[np.float32]:
        raise AssertionError("all pairs")

    monkeypatch.setattr(ngrams, "_matches", refuse)
    found = UTILITIES[name].aggregate("", sample, np.ones(3000), np.zeros(3000))
    assert np.isfinite(found).all()
