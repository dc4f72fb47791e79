"""Rows, their numbers, and what is left when something fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from scipy.stats import spearmanr

from candidates.common.errors import InputError, UsageError
from candidates.formats import BadRecord, Record
from candidates.lists import CandidateList
from mbr.compare import Comparison, compare, parse_settings
from mbr.compare.deciding import Rules
from mbr.compare.summary import summary
from mbr.decide import Decision
from mbr.evaluate.judges import JudgeSpec
from mbr.recipe import Changes
from tests.mbr.compare.made import Counting, Longer, Overlap, lists, references

pytestmark = pytest.mark.one_world

ITEMS = lists(24)
REFERENCES = references(ITEMS)
FAST: dict[str, Any] = {"draws": 60, "trials": 60, "study": 0}


def run(words: list[str], records: Any = None, judges: Any = ("chrf", "bleu"), **more: Any) -> Comparison:
    given = {"references": REFERENCES} if records is None else {}
    return compare(ITEMS if records is None else records, parse_settings(words), judges, **{**FAST, **given, **more})


def test_all_rows_are_there_with_what_they_chose() -> None:
    done = run(["counting", "overlap", "longer"])
    kinds = {row.label: row.kind for row in done.rows}
    assert kinds == {
        "first candidate": "first",
        "random candidate": "random",
        "counting race": "setting",
        "overlap": "setting",
        "longer": "quality",
        "oracle (chrf)": "oracle",
    }
    assert done.baseline == "first candidate"
    for row in done.rows:
        assert row.texts == tuple(item.texts[choice] for item, choice in zip(ITEMS, row.choices, strict=True))
        assert (row.passes is None) == (row.kind in ("first", "random", "oracle"))
    assert done.row("longer").texts == tuple(max(item.texts, key=len) for item in ITEMS)
    assert done.row("counting race").cost_ratio == 1.0
    assert done.exit_code() == 0


def test_choices_and_passes_are_those_of_decode() -> None:
    from mbr import decode

    done = run(["counting,strategy=balanced,weights=uniform", "overlap"])
    plain = list(decode(ITEMS, Counting(), strategy="balanced", weights="uniform"))
    assert done.row("counting balanced").texts == tuple(decision.text for decision in plain)
    assert done.row("counting balanced").passes == sum(decision.passes for decision in plain)
    assert done.row("overlap").texts == tuple(decision.text for decision in decode(ITEMS, Overlap()))


def test_the_oracle_is_the_best_candidate_of_each_list() -> None:
    done = run(["overlap"], oracle="ter")
    scores = [
        [sacrebleu.sentence_ter(text, [reference]).score for text in item.texts]
        for item, reference in zip(ITEMS, REFERENCES[0], strict=True)
    ]
    assert done.row("oracle (ter)").choices == tuple(int(np.argmin(one)) for one in scores)


def test_random_candidates_depend_on_the_seed_and_the_list_alone() -> None:
    first, second = (run(["overlap"], rules=Rules(Changes(seed=seed))) for seed in (1, 2))
    assert first.row("random candidate").choices != second.row("random candidate").choices
    backwards = compare(ITEMS[::-1], parse_settings(["overlap"]), ["chrf"], references=[REFERENCES[0][::-1]], **FAST)
    assert backwards.row("random candidate").choices[::-1] == first.row("random candidate").choices


def test_scores_intervals_and_tests_are_those_of_a_plain_computation() -> None:
    """Corpus chrF of every resample and every swap by sacrebleu itself, in plain loops over the same draws."""
    done = run(["overlap", "counting"], judges=["chrf"])
    (judge,) = done.evaluation.judges
    score = sacrebleu.CHRF().corpus_score
    count, golden = len(ITEMS), REFERENCES[0]
    places = np.random.default_rng(1).choice(count, size=(60, count), replace=True)
    swaps = np.random.default_rng(1).integers(2, size=(60, count), dtype=np.bool_)
    base = done.row(done.baseline).texts
    for row in done.rows:
        result = judge.scores[row.label]
        assert result.score == score(list(row.texts), [golden]).score
        resampled = sorted(score([row.texts[k] for k in one], [[golden[k] for k in one]]).score for one in places)
        assert (result.low, result.high) == (pytest.approx(resampled[1]), pytest.approx(resampled[-2]))
        reached = 0
        difference = abs(result.score - score(list(base), [golden]).score)
        for one in swaps:
            pairs = [(b, a) if swap else (a, b) for a, b, swap in zip(row.texts, base, one, strict=True)]
            two = [score([pair[side] for pair in pairs], [golden]).score for side in (0, 1)]
            reached += abs(two[0] - two[1]) >= difference - 1e-9
        assert result.p_randomisation == pytest.approx((reached + 1) / 61)


def test_a_row_is_never_different_from_itself() -> None:
    done = run(["overlap", "overlap,label=again", "counting"], baseline="overlap", judges=["chrf", "bleu", "ter"])
    for judge in done.evaluation.judges:
        for label in ("overlap", "again"):
            score = judge.scores[label]
            assert (score.difference, score.significant) == (0, False)
            assert score.p_randomisation == score.p_bootstrap == 1.0
    assert any(score.significant for judge in done.evaluation.judges for score in judge.scores.values())


def test_another_setting_changes_no_other_row() -> None:
    few, many = run(["counting", "overlap"]), run(["longer", "counting", "bleu", "overlap", "counting,strategy=half"])
    for row in few.rows:
        other = many.row(row.label)
        assert (row.texts, row.passes) == (other.texts, other.passes)
        for one, two in zip(few.evaluation.judges, many.evaluation.judges, strict=True):
            assert one.scores[row.label] == two.scores[row.label]


def test_a_second_run_computes_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    kept = {"scores": tmp_path / "scores.sqlite"}
    first = run(["counting", "overlap"], **kept)
    scored, matrices = Counting.scored, Overlap.matrices
    assert scored > 0
    assert matrices == len(ITEMS)
    second = run(["counting", "overlap", "longer"], **kept)
    assert (Counting.scored, Overlap.matrices) == (scored, matrices)
    assert Longer.rated == sum(map(len, ITEMS))
    for row in first.rows:
        assert second.row(row.label).texts == row.texts
    third = run(["counting,strategy=both", "counting"], **kept)  # all pairs, less those that are known
    assert Counting.scored == sum(len(item) * (len(item) - 1) for item in ITEMS)
    assert third.row("counting race").texts == first.row("counting race").texts


def test_what_was_known_is_counted_at_its_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "burns", 0.3)
    costs = [run(["counting"], scores=tmp_path / "scores.sqlite").row("counting race").seconds for _ in range(2)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert min(costs) > 0.3
    assert costs[1] == pytest.approx(costs[0], rel=0.5)


def test_a_first_stage_is_paid_for_and_remembered(tmp_path: Path) -> None:
    """Of the same utility too: what one stage has computed the other knows in the next run."""
    words = ["counting,strategy=full,prefilter=counting:4", "overlap,prefilter=longer:3"]
    first = run(words, scores=tmp_path / "scores.sqlite")
    scored = Counting.scored
    second = run(words, scores=tmp_path / "scores.sqlite")
    assert Counting.scored == scored
    assert [row.texts for row in first.rows] == [row.texts for row in second.rows]
    assert first.row("overlap").chosen_by == ("overlap", "longer")


def test_models_are_loaded_once_for_all_their_settings() -> None:
    run(["counting", "overlap", "counting,strategy=half", "counting=other"])
    assert Counting.loaded == 2


def test_agreement_is_that_of_plain_loops() -> None:
    done = run(["counting", "overlap", "longer", "counting,strategy=halving:9"])
    agreement = done.agreement
    decided = {row.label: row.decided.decisions for row in done.rows if row.decided is not None}
    assert agreement.settings == tuple(decided)
    for i, one in enumerate(agreement.rows):
        texts = done.row(one).texts
        for j, other in enumerate(agreement.rows):
            assert agreement.same[i, j] == np.mean([a == b for a, b in zip(texts, done.row(other).texts, strict=True)])
        for j, other in enumerate(agreement.settings):
            regrets = [plain_regret(d, c) for d, c in zip(decided[other], done.row(one).choices, strict=True)]
            assert agreement.regret[i, j] == pytest.approx(np.nanmean(regrets))
    for i, one in enumerate(agreement.settings):
        assert agreement.regret[agreement.rows.index(one), i] == 0
        for j, other in enumerate(agreement.settings):
            ranks = [
                spearmanr(a.expected, b.expected).statistic for a, b in zip(decided[one], decided[other], strict=True)
            ]
            if "halving" not in one + other:  # which has not looked at all candidates
                assert agreement.correlation[i, j] == pytest.approx(np.nanmean(ranks), abs=0.02)


def plain_regret(decision: Decision, choice: int) -> float:
    own, mean = decision.expected[decision.ranking[0]], np.nanmean(decision.expected)
    return max(float((own - decision.expected[choice]) / (own - mean)), 0.0)


def test_studies_hold_all_pairs_in_both_orders() -> None:
    done = run(["counting", "counting,strategy=half", "overlap"], study=3)
    pairwise, overlap = done.studies
    assert [len(study.portraits) for study in done.studies] == [3, 3]
    for portrait in pairwise.portraits:
        texts = portrait.item.texts
        assert portrait.values.shape == (len(texts), len(texts))
        off = ~np.eye(len(texts), dtype=bool)
        assert (portrait.values[off] != 0).all()
        assert portrait.asymmetry == pytest.approx(0, abs=1e-6)
        assert portrait.scores.argmax() == np.argsort(-portrait.values.mean(axis=1))[0]
    points = {(point.strategy, point.number): point for point in pairwise.points}
    assert points["both", ""].regret == 0
    assert points["both", ""].passes == np.mean([len(p.item) * (len(p.item) - 1) for p in pairwise.portraits])
    assert points["half", ""].passes == points["both", ""].passes / 2
    assert {point.strategy for point in pairwise.points} == {"half", "balanced", "both", "race", "halving"}
    assert overlap.points == ()
    assert run(["longer"]).studies == ()
    assert run(["overlap"], study=0).studies == ()


def test_a_setting_that_fails_leaves_its_reason() -> None:
    messages: list[str] = []
    words = ["counting=missing", "overlap", "counting=broken", "counting=broken,strategy=half"]
    done = run(words, warn=messages.append, baseline="counting race missing")
    failed = {row.label: row.error for row in done.rows if row.error is not None}
    assert list(failed) == ["counting race missing", "counting race broken", "counting half"]
    assert "no such folder" in str(failed["counting race missing"])
    assert done.baseline == "first candidate"  # in place of the one that failed
    assert set(done.evaluation.systems) == {"first candidate", "random candidate", "overlap", "oracle (chrf)"}
    assert done.exit_code() == 4
    assert len(messages) == 4
    assert "compared with first candidate instead" in messages[3]
    assert any("so all rows are compared with first candidate" in line for line in summary(done))
    assert any("counting race missing failed: models/missing: no such folder" in line for line in summary(done))


def test_a_score_that_is_no_number_costs_one_segment() -> None:
    items = [*ITEMS[:3], CandidateList.of("bad", ["ein NAN", "zwei", "drei"], id="x"), *ITEMS[3:6]]
    done = run(["counting", "overlap"], items, references=references(items))
    row = done.row("counting race")
    assert row.error is None
    assert list(row.fallbacks) == [3]
    assert row.texts[3] == "ein NAN"
    assert not done.row("overlap").fallbacks
    assert done.exit_code() == 1
    assert any("stands in for 1 segment" in line for line in summary(done))


def test_a_setting_that_can_decide_nothing_has_failed() -> None:
    items = [CandidateList.of(f"s{k}", [f"a {k}", f"b {k}", "c"], id=k) for k in range(4)]
    done = run(["overlap,weights=logprob", "counting"], items, references=references(items))
    row = done.row("overlap")
    assert row.error is not None
    assert "no log-probability" in str(row.error)
    assert done.row("counting race").cost_ratio == 1.0


def test_an_empty_list_is_left_out_of_all_rows() -> None:
    bad = BadRecord("gone", InputError("segment 'gone' has no candidates; expected at least one"), "A dog.")
    records: list[Record] = [*ITEMS[:4], bad, *ITEMS[4:8]]
    golden = [[*REFERENCES[0][:4], "missing", *REFERENCES[0][4:8]]]
    done = run(["overlap"], records, references=golden)
    assert [one.id for one in done.left_out] == ["gone"]
    assert done.references == (tuple(REFERENCES[0][:8]),)
    assert len(done.lists) == 8
    assert done.exit_code() == 1
    whole = run(["overlap"], ITEMS[:8], references=[REFERENCES[0][:8]])
    assert whole.evaluation.judges[0].scores == done.evaluation.judges[0].scores
    with pytest.raises(InputError, match="no candidates"):
        run(["overlap"], [bad], references=[["x"]])
    with pytest.raises(InputError, match="the input is empty"):
        run(["overlap"], [], references=[[]])


@pytest.mark.usefixtures("counting")
def test_a_judge_that_fails_half_way_leaves_the_others() -> None:
    judges = [JudgeSpec("count", "broken", "bad"), JudgeSpec("chrf"), JudgeSpec("count")]
    done = run(["overlap"], judges=judges)
    assert [judge.error is not None for judge in done.evaluation.judges] == [True, False, False]
    assert done.exit_code() == 5
    assert set(done.ranks(1)) == {row.label for row in done.rows}


def test_references_may_come_with_the_lists() -> None:
    from dataclasses import replace

    items = [replace(item, references=(one,)) for item, one in zip(ITEMS, REFERENCES[0], strict=True)]
    with_file, with_lists = run(["overlap"]), run(["overlap"], items)
    assert with_file.evaluation.judges[0].scores == with_lists.evaluation.judges[0].scores
    with pytest.raises(InputError, match="segment 's23' has no references"):
        run(["overlap"], [*items[:-1], ITEMS[-1]])
    without = run(["overlap"], ITEMS, judges=[JudgeSpec("chrf")], references=REFERENCES, oracle=None)
    assert [row.kind for row in without.rows] == ["first", "random", "setting"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"references": None}, "needs references"),
        ({"baseline": "missing"}, "no row of the table"),
        ({"oracle": "nothing"}, "is unknown"),
        ({"oracle": "cometkiwi"}, "reads no references"),
        ({"references": [["one"]]}, "but the number of segments is 24"),
        ({"words": ["overlap,label=random candidate"]}, "two rows are called"),
        ({"words": []}, "nothing to compare"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_work(given: dict[str, Any], message: str) -> None:
    words = given.pop("words", ["overlap"])
    with pytest.raises((UsageError, InputError), match=message):
        run(words, ITEMS, **{"references": REFERENCES, **given})
    assert Overlap.matrices == 0


def test_ranks_and_marks() -> None:
    done = run(["chrf", "overlap"], judges=["chrf", "ter"])
    chrf, ter = done.evaluation.judges
    assert chrf.scores["chrf"].same_family
    assert ter.scores["chrf"].same_family
    assert not chrf.scores["overlap"].same_family
    assert chrf.scores["oracle (chrf)"].same_family
    assert done.ranks(0)["oracle (chrf)"] == 1
    best = min(ter.scores, key=lambda label: ter.scores[label].score)
    assert done.ranks(1)[best] == 1


@pytest.mark.parametrize(
    ("first", "word", "judge", "sentence"),
    [
        # The first candidate is wrong or right in every segment; the setting chooses the longest or the shortest.
        ("ein", "longer", "ter", "longer is the best setting: 0.00 [0.00, 0.00], 66.67 better than first candidate"),
        ("ein", "longer", "chrf", "longer is the best setting: 100.00 [100.00, 100.00], "),
        ("ein Hund läuft", "longer,add=longer:-2", "ter", "longer, is 66.67 worse than first candidate, beyond chance"),
        ("ein Hund läuft", "longer,add=longer:-2", "chrf", "no setting improves on first candidate; the best, longer,"),
        ("ein Hund läuft", "longer", "ter", "longer, is equal to first candidate: 0.00"),
    ],
)
def test_the_best_setting_is_better_or_worse_in_words(first: str, word: str, judge: str, sentence: str) -> None:
    texts = [first, *({"ein", "ein Hund läuft"} - {first})]
    items = [CandidateList.of(f"s{k}", texts, id=k) for k in range(12)]
    done = run([word], items, judges=[judge], references=[["ein Hund läuft"] * 12])
    (line,) = [line for line in summary(done) if line.startswith(f"By {judge}, ")]
    assert sentence in line
    assert "+" not in line


def test_a_setting_that_is_best_among_others_is_compared_with_the_baseline_too() -> None:
    texts = ["ein Hund läuft", "ein"]
    items = [CandidateList.of(f"s{k}", texts, id=k) for k in range(12)]
    done = run(["chrf", "longer,add=longer:-2"], items, judges=["ter"], references=[["ein Hund läuft"] * 12])
    (line,) = [line for line in summary(done) if line.startswith("By ter, ")]
    assert "of the other settings longer is the best (66.67 [66.67, 66.67], 66.67 worse than first candidate" in line


def test_lists_that_leave_nothing_to_gain() -> None:
    items = [CandidateList.of(f"s{k}", ["ein Hund läuft", "ein"], id=k) for k in range(12)]
    done = run(["longer"], items, judges=["chrf"], references=[["ein Hund läuft"] * 12])
    assert any(
        "no better than the best setting, so these lists leave nothing to gain" in line for line in summary(done)
    )


def test_two_models_of_a_judge_are_told_apart() -> None:
    from mbr.evaluate.judges import parse_judges

    labels = [spec.label for spec in parse_judges(["comet=a/x", "comet=b/y"])]
    done = run(["overlap"], judges=["comet=a/x", "comet=b/y", "chrf"])
    assert [judge.label for judge in done.evaluation.judges] == [*labels, "chrf"]
    assert [judge.error is None for judge in done.evaluation.judges] == [False, False, True]
