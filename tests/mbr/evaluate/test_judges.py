"""Lexical judges are sacrebleu to the last bit; neural ones are means of a metric's scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from candidates.common.errors import ModelError, UsageError
from mbr.evaluate.judges import WITH_AND_WITHOUT, WITHOUT_REFERENCES, JudgeSpec, judge_names, parse_judges
from mbr.evaluate.lexical import unspaced
from tests.mbr.evaluate.made import REFERENCES, SOURCES, SYSTEMS, Count, read

pytestmark = pytest.mark.one_world

THEIRS = {
    "bleu": (BLEU(), BLEU(effective_order=True)),
    "chrf": (CHRF(), CHRF()),
    "chrf++": (CHRF(word_order=2), CHRF(word_order=2)),
    "ter": (TER(), TER()),
}
ODD = ["", " ", "a", "A b.", "Ein Hund läuft.", "1,000 € – 'ja'!", "你好。", "x y z w v", "the the the the"]


@pytest.mark.parametrize("name", THEIRS)
def test_system_scores_on_real_outputs_are_sacrebleus(name: str, wmt23: Path) -> None:
    reference, other = (read(wmt23 / f"references/en-de.{kind}.txt") for kind in ("refA", "synthetic_ref"))
    # TER takes the third power of the length, and these segments are paragraphs.
    kept = [place for place, text in enumerate(reference) if len(text) < (90 if name == "ter" else 10_000)]
    for system, sets, end in (
        ("ONLINE-B", [reference], 200 if name == "chrf++" else 557),
        ("GPT4-5shot", [reference, other], 100),
    ):
        outputs = read(wmt23 / f"system-outputs/en-de/{system}.txt")
        kept = [place for place in kept if place < end]
        outputs, sets = [outputs[place] for place in kept], [[one[place] for place in kept] for one in sets]
        with JudgeSpec(name).open(references=len(sets)) as judge:
            statistics = judge.judge(judge.rows(None, outputs, sets)).statistics
            corpus, sentence = THEIRS[name]
            expected = corpus.corpus_score(outputs, sets)
            assert judge.system_score(statistics) == expected.score
            assert judge.identity == f"{expected.name}|{corpus.get_signature()}"
            assert judge.scores(statistics.sum(axis=0)[None])[0] == pytest.approx(expected.score, rel=1e-12)
            first = [sentence.sentence_score(outputs[i], [one[i] for one in sets]).score for i in range(9)]
            assert judge.segment_scores(statistics)[:9].tolist() == first


@pytest.mark.parametrize("block", [1, 40, 10**6])
@pytest.mark.parametrize("references", [1, 2, 3])
@pytest.mark.parametrize("name", THEIRS)
def test_statistics_are_sacrebleus_however_many_texts_are_counted_at_once(
    name: str, references: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbr.evaluate.lexical.BLOCK_CHARACTERS", block)
    sets = [[ODD[(3 * place + slot) % len(ODD)] for slot in range(references)] for place in range(len(ODD))]
    rows = [
        (output, *segment) for segment in sets for output in (*ODD[::2], "the the cat (sat) on the mat.", *ODD[1:3])
    ]
    metric = THEIRS[name][0]
    expected = [
        metric._compute_segment_statistics(
            metric._preprocess_segment(output),
            metric._extract_reference_info([metric._preprocess_segment(text) for text in segment]),
        )
        for output, *segment in rows
    ]
    with JudgeSpec(name).open(references=references) as judge:
        assert judge.judge(rows).statistics.tolist() == expected


@pytest.mark.parametrize("name", THEIRS)
def test_odd_segments_score_as_in_sacrebleu(name: str) -> None:
    pairs = [(output, reference) for output in ODD for reference in ODD]
    with JudgeSpec(name).open(references=1) as judge:
        statistics = judge.judge(pairs).statistics
        corpus, sentence = THEIRS[name]
        expected = [sentence.sentence_score(output, [reference]).score for output, reference in pairs]
        assert judge.segment_scores(statistics).tolist() == expected
        alone = [corpus.corpus_score([output], [[reference]]).score for output, reference in pairs]
        assert judge.scores(statistics) == pytest.approx(alone, rel=1e-12)


def test_formulas_agree_with_sacrebleu_on_sums_of_few_segments() -> None:
    random = np.random.default_rng(1)
    for name, (corpus, _) in THEIRS.items():
        with JudgeSpec(name).open(references=1) as judge:
            rows = [(str(random.choice(ODD)), str(random.choice(ODD))) for _ in range(40)]
            statistics = judge.judge(rows).statistics
            sums = random.integers(0, 2, (200, 40)) @ statistics
            expected = [corpus._compute_score_from_stats(row).score for row in sums.tolist()]
            assert judge.scores(sums) == pytest.approx(expected, rel=1e-12), name


def test_words_on_the_command_line_become_judges_with_labels() -> None:
    words = ["chrf", "xcomet=/models/xl", "xcomet=/models/xxl", "metricx-qe", "comet=a/model", "comet=b/model"]
    assert [(spec.name, spec.model, spec.label) for spec in parse_judges(words)] == [
        ("chrf", None, "chrf"),
        ("xcomet", "/models/xl", "xcomet=xl"),
        ("xcomet", "/models/xxl", "xcomet=xxl"),
        ("metricx-qe", None, "metricx-qe"),
        ("comet", "a/model", "comet=a/model"),
        ("comet", "b/model", "comet=b/model"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["blue"], "judge 'blue' is unknown; expected one of chrf, chrf"),
        (["bleurt-qe"], "judge 'bleurt-qe' is unknown"),
        (["bleu=x"], "takes no model"),
        (["comet="], "no model behind"),
        (["chrf", "chrf"], "named twice"),
    ],
)
def test_a_word_that_is_no_judge_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_judges(words)


def test_the_registry_agrees_with_the_metrics() -> None:
    for name in judge_names():
        spec = JudgeSpec(name)
        assert spec.family
        assert spec.licence
        assert spec.summary
    assert not any(JudgeSpec(name).needs_reference for name in WITHOUT_REFERENCES.split(", "))
    assert JudgeSpec("ter").lower_is_better
    assert JudgeSpec("metricx").lower_is_better
    for name in WITH_AND_WITHOUT:
        assert (JudgeSpec(name).texts(1), JudgeSpec(name).texts(0), JudgeSpec(name + "-qe").texts(1)) == (3, 2, 2)


def test_a_tokenizer_is_part_of_the_identity_and_an_unknown_one_is_refused() -> None:
    assert "tok:zh" in JudgeSpec("bleu").open(references=1, tokenize="zh").identity
    with pytest.raises(UsageError, match="tokenizer 'klingon' is unknown"):
        JudgeSpec("bleu").open(references=1, tokenize="klingon")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ein Hund läuft.", None),
        ("狗在公园里跑。", ("Chinese", "zh")),
        ("犬は公園で走っています。", ("Japanese", "ja-mecab")),
    ],
)
def test_texts_without_spaces_have_a_language_and_a_tokenizer(text: str, expected: tuple[str, str] | None) -> None:
    assert unspaced([text] * 5) == expected


def test_a_neural_judge_is_a_mean_and_takes_a_reference_where_there_is_one(counting: type[Count]) -> None:
    outputs = SYSTEMS["good"]
    for references, last in (([REFERENCES, SOURCES], REFERENCES), ([], SOURCES)):
        with JudgeSpec("count").open(references=len(references)) as judge:
            rows = judge.rows(SOURCES, outputs, references)
            judged = judge.judge(rows)
            expected = counting().score([(s, o, r) for s, o, r in zip(SOURCES, outputs, last, strict=True)])
            assert judge.segment_scores(judged.statistics) == pytest.approx(expected)
            assert judge.system_score(judged.statistics) == pytest.approx(expected.mean())
            assert judge.scores(judged.statistics.sum(axis=0)[None])[0] == pytest.approx(expected.mean())
            assert f"input:source+hypothesis{'+reference' if references else ''}" in judge.identity


def test_a_score_that_is_not_a_number_is_an_error(counting: type[Count]) -> None:
    judge = JudgeSpec("count", "nan").open(references=0)
    with pytest.raises(ModelError, match="not a number"):
        judge.judge([("a", "b")])
