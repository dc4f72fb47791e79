"""What the tests of chrF, BLEU and TER share: texts of many kinds, and the numbers of sacrebleu for them."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import numpy as np
import sacrebleu
from sacrebleu.metrics import TER

from mbr.utilities.bleu import Bleu
from mbr.utilities.chrf import ChrF, ChrFpp
from mbr.utilities.ter import Ter
from tests.support.random_pear import CORPUS

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
