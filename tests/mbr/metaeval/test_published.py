"""Published digits, from the data they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mbr.metaeval import ScoreSet, human_parity, meta_evaluate, read_folder, read_study
from mbr.metaeval.oracle import Oracle, oracle_study, read_mqm_errors, read_ratings, spearman_table
from mbr.metaeval.parity import common_segments
from mbr.metaeval.raters import beside_metrics, read_evaluators
from mbr.metaeval.spa import spa_range
from pear.data import read_judgments
from pear.data.folders import EvalFolder
from tests.conftest import DATA

pytestmark = pytest.mark.one_world


def data(*parts: str) -> Path:
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {path}; set MBR_DATA to the folder that holds it")
    return path


@pytest.fixture(scope="module")
def en_de() -> ScoreSet:
    return read_folder(data("mt-metrics-eval-v2", "wmt23"), "en-de", "mqm")


# DiIanni and Deutsch 2025, table 5: segment-wise Pearson, global Pearson, acc_eq, PDP. Its "cBLEU" is eBLEU; the two
# rounds of re-annotation are not in the data.
TABLE_5 = """
MetricX-23-QE .511 .626 .596 .501
XCOMET-Ensemble .538 .695 .604 .488
MetricX-23 .507 .585 .603 .474
XCOMET-QE-Ensemble .507 .679 .588 .463
COMET .508 .432 .574 .449
docWMT22CometDA .484 .394 .559 .446
cometoid22-wmt22 .499 .441 .578 .401
GEMBA-MQM .482 .502 .572 .399
BLEURT-20 .492 .484 .572 .389
Calibri-COMET22 .477 .413 .522 .380
YiSi-1 .404 .366 .542 .372
sescoreX .459 .519 .563 .359
mbr-metricx-qe .543 .571 .584 .345
CometKiwi .463 .475 .569 .341
KG-BERTScore .456 .451 .556 .339
BERTscore .355 .325 .528 .336
docWMT22CometKiwiDA .426 .444 .547 .334
MaTESe .330 .554 .528 .324
XLsim .372 .239 .527 .320
Calibri-COMET22-QE .432 .441 .483 .318
MS-COMET-QE-22 .400 .310 .546 .306
tokengram_F .340 .227 .520 .301
chrF .336 .232 .519 .300
f200spBLEU .343 .237 .526 .274
embed_llama .242 .250 .483 .254
MEE4 .360 .202 .529 .250
BLEU .310 .192 .520 .242
mre-score-labse-regular .376 .111 .530 .208
prismRef .349 .516 .518 .121
Random-sysname .124 .064 .409 .114
eBLEU .317 -.011 .512 .094
prismSrc .102 .425 .426 -.139
"""


def test_table_5_of_the_pdp_paper(en_de: ScoreSet) -> None:
    assert (len(en_de.systems), en_de.annotated) == (12, 460)
    table = meta_evaluate([en_de], ("segment_pearson", "global_pearson", "acc_eq", "pdp"))
    lines = TABLE_5.strip().splitlines()
    assert len(lines) == 32
    for line in lines:
        name, *printed = line.split()
        found = [table.row(name).values[key] for key in table.statistics]
        assert [f"{value:.3f}" for value in found if value is not None] == [f"{float(one):.3f}" for one in printed], (
            name
        )


def test_length_does_well_because_three_systems_drop_text(en_de: ScoreSet) -> None:
    table = meta_evaluate([en_de], ("acc_eq", "pdp", "segment_pearson", "pairwise_accuracy"))
    (length,) = [row for row in table.rows if row.metric == "length"]
    found = {name: round(length.values[name] or 0, 3) for name in table.statistics}
    assert found == {"acc_eq": 0.469, "pdp": 0.409, "segment_pearson": 0.140, "pairwise_accuracy": 0.758}
    without = en_de.choose(without=["NLLB_Greedy", "NLLB_MBR_BLEU", "AIRC"])
    (length,) = [row for row in meta_evaluate([without], ("pdp",)).rows if row.metric == "length"]
    assert length.values["pdp"] == pytest.approx(-0.090, abs=5e-4)


@pytest.mark.parametrize(
    ("file", "left_out", "segments", "rows"),
    [
        (
            "wmt20.en-de.tsv",
            ["ref"],
            681,
            {
                "mqm-col2": (96.45, 58.86),
                "mqm-col3": (90.39, 56.84),
                "psqm-col1": (95.59, 49.41),
                "psqm-col2": (85.87, 46.97),
                "psqm-col3": (84.61, 49.38),
                "BLEURT-20": (85.52, 51.68),
            },
        ),
        (
            "wmt23.en-de.tsv",
            ["refA", "synthetic_ref"],
            145,
            {
                "mqm-col2": (93.15, 57.71),
                "mqm-col3": (93.51, 58.42),
                "MetricX-23-XXL": (92.57, 61.82),
                "MetricX-23-QE-XXL": (92.12, 62.53),
            },
        ),
    ],
)
def test_rows_of_the_human_parity_paper(
    file: str, left_out: list[str], segments: int, rows: dict[str, tuple[float, float]]
) -> None:
    """acc_eq* to the printed digit; SPA in the range that order and rounding leave, and in our order near it."""
    people = [name for name in rows if "col" in name]
    scores = read_study(data("human-parity", file), "mqm-col1", metrics=list(rows)).choose(without=left_out)
    table = human_parity(scores, people, significance=False)
    assert table.segments == (segments,)
    assert {row.metric for row in table.rows if row.kind == "human"} == set(people)
    common = common_segments(scores, people)
    for name, (spa, accuracy) in rows.items():
        found = table.row(name).values
        assert f"{100 * (found['acc_eq'] or 0):.2f}" == f"{accuracy:.2f}", name
        low, high = spa_range(common.human, common.metric(name))
        assert 100 * low <= spa <= 100 * high, name
        assert 100 * (found["spa"] or 0) == pytest.approx(spa, abs=0.18 if name.startswith("psqm") else 0.015), name


# Proietti et al. 2025, tables 10 to 12: SPA and acc_eq* with MQM-2023-1, -2 and -3 as the gold, 376 segments.
GOLDS = {
    "1": {
        "2": (95.20, 60.04),
        "3": (97.09, 56.62),
        "MetricX-23-XXL": (94.93, 61.65),
        "MetricX-23-QE-XXL": (94.52, 61.14),
    },
    "2": {
        "1": (95.20, 60.03),
        "3": (95.50, 59.25),
        "MetricX-23-XXL": (96.51, 64.61),
        "MetricX-23-QE-XXL": (94.99, 63.51),
    },
    "3": {
        "1": (97.09, 56.46),
        "2": (95.50, 59.25),
        "MetricX-23-XXL": (96.86, 61.26),
        "MetricX-23-QE-XXL": (96.47, 60.55),
    },
}


def test_every_gold_of_appendix_f() -> None:
    """One reading, each of the people as the gold in turn, on the same segments."""
    columns = {number: f"mqm-col{number}_more_data" for number in GOLDS}
    metrics = [*columns.values(), "MetricX-23-XXL", "MetricX-23-QE-XXL"]
    scores = read_study(data("human-parity", "wmt23.en-de.tsv"), columns["1"], metrics=metrics[1:])
    scores = scores.choose(without=["refA"])
    people = [columns["2"], columns["3"]]
    for gold, rows in GOLDS.items():
        table = human_parity(scores, people, gold=columns[gold], significance=False)
        assert (table.human, table.segments) == (columns[gold], (376,))
        for name, (spa, accuracy) in rows.items():
            found = table.row(columns.get(name, name))
            assert found.kind == ("human" if name in columns else "metric")
            assert f"{100 * (found.values['acc_eq'] or 0):.2f}" == f"{accuracy:.2f}", (gold, name)
            assert 100 * (found.values["spa"] or 0) == pytest.approx(spa, abs=0.05), (gold, name)


# Table 2 of the PDP paper: importance, count, weight, acc_eq, PDP; its "1.109" is .109.
TABLE_2 = """
925 249 3.715 .451 .310
0 770 0 .429 0
156 32 4.875 .433 .105
12749 3805 3.351 .646 .600
767 187 4.102 .450 .320
1690 438 3.858 .464 .218
2088 1052 1.985 .513 .265
369 137 2.693 .442 .109
262 1884 .139 .526 .038
1491 415 3.593 .461 .271
978 658 1.486 .478 .123
192 108 1.778 .437 .031
2 2 1.000 .429 .007
7 3 2.333 .430 .017
8 8 1.000 .430 .018
975 39 25.000 .431 .459
267 87 3.069 .437 .070
0 1791 0 .429 0
42 14 3.000 .430 .011
521 173 3.012 .450 .197
3620 1996 1.814 .558 .201
1021 349 2.926 .460 .156
23 19 1.211 .431 -.004
"""


def test_rank_correlations_of_the_printed_oracles() -> None:
    cells = [[float(cell) for cell in line.split()] for line in TABLE_2.strip().splitlines()]
    found = spearman_table([Oracle("", row[0], int(row[1]), row[2], row[3], row[4]) for row in cells])
    rounded = {name: [round(value or 0, 3) for value in row.values()] for name, row in found.items()}
    assert rounded == {"importance": [0.889, 0.875], "weight": [0.289, 0.738], "count": [0.677, 0.395]}


def test_oracles_of_ted_talks() -> None:
    study = oracle_study(read_mqm_errors(data("wmt-mqm", "mqm_ted_ende.tsv")))
    assert (len(study.systems), study.segments) == (14, 529)
    first = study.oracles[0]
    assert (first.category, first.importance, first.count) == ("accuracy/mistranslation", 4910, 1158)
    assert (round(first.acc_eq, 3), round(first.pdp, 3)) == (0.634, 0.634)


def test_errors_beside_wmt23_add_up_to_its_scores(en_de: ScoreSet) -> None:
    from mbr.metaeval.oracle import gold_of

    files = EvalFolder.open(data("mt-metrics-eval-v2", "wmt23"), "en-de")
    made = gold_of(read_ratings(files, "mqm.merged"), without=["refA", "synthetic_ref"])
    annotated = [str(number) for number in np.flatnonzero(~np.isnan(en_de.gold).any(axis=0)) + 1]
    assert (made.systems, list(made.segments)) == (en_de.systems, annotated)
    np.testing.assert_allclose(made.gold, en_de.annotated_only().gold, atol=1e-9)


def test_he_en_has_its_own_reference() -> None:
    scores = read_folder(data("mt-metrics-eval-v2", "wmt23"), "he-en", "mqm")
    assert (scores.reference, len(scores.systems), scores.annotated) == ("refB", 12, 820)
    assert {one.reference for one in scores.metrics} == {"src", "refB"}


def test_raters_of_a_real_campaign_are_kept_apart() -> None:
    """Ten raters, three for each of 104 segments: found by the solver."""
    rows = list(read_judgments(data("wmt-mqm", "sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv.tar.gz"), "mqm"))
    scores = read_evaluators(rows, 3)
    assert (len(scores.systems), len(scores.segments), len(scores.metrics)) == (10, 86, 2)
    assert not np.isnan(scores.gold).any()
    beside = beside_metrics(scores, read_folder(data("mt-metrics-eval-v2", "wmt23"), "en-de", metrics=["COMET"]))
    assert (len(beside.systems), len(beside.segments)) == (7, 86)
    assert [one.name for one in beside.metrics] == ["raters-2", "raters-3", "COMET"]
    table = human_parity(beside, significance=False)
    assert {row.metric: row.kind for row in table.rows if row.kind != "sanity"} == {
        "raters-2": "human",
        "raters-3": "human",
        "COMET": "metric",
    }
    place = scores.systems.index("ONLINE-A"), beside.systems.index("ONLINE-A")
    np.testing.assert_array_equal(scores.gold[place[0]], beside.gold[place[1]])
