"""chrF, chrF++, BLEU and TER: all pairs of a list have the numbers of sacrebleu."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from candidates.common.errors import EnvironmentProblem, UsageError
from mbr.utilities import edits, ngrams, ter
from mbr.utilities.bleu import Bleu
from mbr.utilities.chrf import ChrF, split_words
from tests.mbr.utilities.lexical import NGRAMS, UTILITIES, assert_all_pairs_are_those_of_sacrebleu, texts

pytestmark = pytest.mark.one_world


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
