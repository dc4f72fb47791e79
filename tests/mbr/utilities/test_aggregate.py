"""chrF, chrF++ and BLEU against the mean of a list: what dictionaries of mean counts give, without a matrix."""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sacrebleu
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

from mbr.utilities import ngrams
from mbr.utilities.bleu import Bleu
from mbr.utilities.chrf import ChrF
from tests.mbr.utilities.lexical import NGRAMS, UTILITIES, texts

pytestmark = pytest.mark.one_world


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
