"""Judgments from every format, grouped, split and sampled; official scores as the independent source."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, UsageError
from pear.data import (
    Group,
    Judgment,
    Pair,
    average_raters,
    describe,
    gemba_score,
    group,
    guess_format,
    mqm_weight,
    read_judgments,
    sample_pairs,
    split,
    summary,
)
from pear.data.tables import lp_from_name
from tests.conftest import DATA, write_jsonl

pytestmark = pytest.mark.one_world


@pytest.fixture(scope="session")
def wmt_mqm() -> Path:
    folder = DATA / "wmt-mqm"
    if not folder.is_dir():
        pytest.skip(f"no MQM tables at {folder}; set MBR_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def mlqe() -> Path:
    folder = DATA / "mlqe-pe"
    if not folder.is_dir():
        pytest.skip(f"no MLQE-PE data at {folder}; set MBR_DATA to the folder that holds it")
    return folder


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def write_tsv(path: Path, *rows: str) -> Path:
    """Rows with `|` between their cells."""
    return write(path, "".join(row.replace("|", "\t") + "\n" for row in rows))


def archive(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/").replace("_", "."))
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return path


CSV = 'lp,system,doc,seg_id,rater,src,mt,ref,score\nen_de,S,d,1,r1,"A dog, here.",Ein Hund.,Hund.,-5\n'
MQM_HEADER = "system|doc|seg_id|rater|source|target|category|severity"
DA = "index\toriginal\ttranslation\tscores\tmean\tz_scores\tz_mean\n7\tA dog.\tEin Hund.\t[60, 80]\t70\t[0, 1]\t0.5\n"


def test_a_csv_row_has_all_its_names(tmp_path: Path) -> None:
    (row,) = read_judgments(write(tmp_path / "x.csv", CSV))
    assert row == Judgment("A dog, here.", "Ein Hund.", -5.0, "en-de", "S", "d", "1", "r1", "Hund.")


def test_a_csv_needs_three_columns_only(tmp_path: Path) -> None:
    path = write(tmp_path / "de-en-da.csv", 'src,mt,score,zscore\nEin Hund,"",3,0.25\n')
    assert list(read_judgments(path)) == [Judgment("Ein Hund", "", 3.0, "de-en")]
    assert [row.score for row in read_judgments(path, score="zscore")] == [0.25]
    assert [row.lp for row in read_judgments(path, lp="xx_yy")] == ["xx-yy"]


def test_csv_texts_may_hold_line_breaks_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'src,mt,score\r\n"two\nlines","say ""x""",1\r\n')
    (row,) = read_judgments(path)
    assert (row.source, row.translation) == ("two\nlines", 'say "x"')


def test_mqm_rows_add_up_per_rater_and_lose_their_marks(tmp_path: Path) -> None:
    path = write_tsv(
        tmp_path / "mqm_news_ende.tsv",
        MQM_HEADER,
        "A|d|1|r1|A <v>dog</v>.|Ein Hund.|Accuracy/Omission|Major",
        "B|d|1|r1|A dog.|<v>Katze</v>.|Accuracy/Mistranslation|Minor",
        "A|d|1|r2|A dog.|Ein Hund.|No-error|No-error",
        "A|d|1|r1|A dog.|Ein Hund<v>.</v>|Fluency/Punctuation|Minor",
        "B|d|1|r1|A dog.|<v>Katze.</v>|Non-translation!|Major",
    )
    assert list(read_judgments(path)) == [
        Judgment("A dog.", "Ein Hund.", -5.1, "en-de", "A", "d", "1", "r1"),
        Judgment("A dog.", "Katze.", -26.0, "en-de", "B", "d", "1", "r1"),
        Judgment("A dog.", "Ein Hund.", 0.0, "en-de", "A", "d", "1", "r2"),
    ]


@pytest.mark.parametrize(
    ("severity", "category", "weight"),
    [
        ("Major", "Accuracy/Omission", 5),
        ("minor", "Style/Awkward", 1),
        ("Minor", "Fluency/Punctuation", 0.1),
        ("Major", "Fluency/Punctuation", 5),
        ("Major", "Non-translation!", 25),
        ("Neutral", "Style/Awkward", 0),
        ("No-error", "No-error", 0),
        ("Major", "Source issue", 0),
        ("Minor", "Accuracy/Creative Reinterpretation", 0),
        ("HOTW-test", "Found", 0),
    ],
)
def test_weights_of_errors(severity: str, category: str, weight: float) -> None:
    assert mqm_weight(severity, category) == weight


def test_weights_are_those_of_the_official_scores(wmt23: Path) -> None:
    """19,569 errors and the 5,980 segment scores of WMT23 en-de."""

    def column(name: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in (wmt23 / "human-scores" / f"en-de.mqm.{name}").read_text(encoding="utf-8").splitlines():
            system, value = line.split("\t")
            found.setdefault(system, []).append(value)
        return found

    ratings, scores, checked = column("merged.seg.rating"), column("seg.score"), 0
    for system, values in scores.items():
        for rating, score in zip(ratings[system], values, strict=True):
            if score != "None":
                errors = json.loads(rating)["errors"]
                total = sum(mqm_weight(error["severity"], error["category"]) for error in errors)
                assert total == pytest.approx(-float(score))
                checked += 1
    assert checked == 5980


def test_side_by_side_systems_are_grouped_as_they_were_shown(tmp_path: Path) -> None:
    def rows(system: str, *times: int) -> list[str]:
        times_there = json.dumps({"timing": {"x": {"log": [{"ts": time} for time in times]}}})
        return [f"{system}|d:en-de|1|{rater}|A dog.|{system} Hund.|No-error|No-error|{times_there}" for rater in "rs"]

    path = write_tsv(
        tmp_path / "sxs.tsv",
        "system|doc|globalSegId|rater|source|target|category|severity|metadata|# a remark",
        *rows("A", 1, 3),
        *rows("C", 11, 13),
        *rows("B", 2, 4),
        *rows("D", 12, 14),
    )
    groups = group(read_judgments(path))
    assert [[row.system for row in item.candidates] for item in groups] == [["A", "B"], ["C", "D"]]
    assert {item.lp for item in groups} == {"en-de"}


def test_side_by_side_without_times_is_one_comparison(tmp_path: Path) -> None:
    rows = [f"{system}|d|1|r|A dog.|{system} Hund.|No-error|No-error" for system in "ABC"]
    (item,) = group(read_judgments(write_tsv(tmp_path / "sxs.tsv", MQM_HEADER, *rows)))
    assert len(item.candidates) == 3


@pytest.mark.parametrize("score", [None, "z_mean"])
def test_direct_assessments_plain_gzipped_and_in_an_archive(tmp_path: Path, score: str | None) -> None:
    plain = write(tmp_path / "train.ende.df.short.tsv", DA)
    zipped = tmp_path / "zipped.ende.df.short.tsv.gz"
    zipped.write_bytes(gzip.compress(DA.encode()))
    packed = archive(tmp_path / "packed.tar.gz", x__a_doc="x", x__train_ende_df_short_tsv=DA)
    expected = [Judgment("A dog.", "Ein Hund.", 0.5 if score else 70.0, "en-de", segment="7")]
    for path in (plain, zipped, packed):
        assert guess_format(path) == "da"
        assert list(read_judgments(path, score=score)) == expected


def test_json_lines_hold_translations_and_lists_under_several_names(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "x.jsonl",
        [
            {"src": "A dog.", "hypothesis": "Ein Hund.", "score": 1, "ref": "Hund.", "doc": "d", "seg_id": 3},
            {"source": "A cat.", "mt": "Katze", "score": -1.5, "words": [[0, 1]], "lp": "en_de", "system": None},
            {
                "source": "Hi.",
                "reference": "Hallo.",
                "candidates": [{"text": "", "score": 0}, {"text": "Na du.", "score": 2, "words": [[1, 2], [3, 4]]}],
            },
        ],
    )
    assert list(read_judgments(path, lp="en-fr")) == [
        Judgment("A dog.", "Ein Hund.", 1.0, "en-fr", "", "d", "3", "", "Hund."),
        Judgment("A cat.", "Katze", -1.5, "en-de", words=((0.0, 1.0),)),
        Judgment("Hi.", "", 0.0, "en-fr", reference="Hallo."),
        Judgment("Hi.", "Na du.", 2.0, "en-fr", reference="Hallo.", words=((1.0, 2.0), (3.0, 4.0))),
    ]


@pytest.mark.parametrize(
    ("errors", "score"),
    [
        ([], 0),
        ([{"severity": "major", "category": "accuracy/omission", "span": "x"}, {"severity": "minor"}], -6),
        ({"critical": [], "major": ['accuracy/omission - "x"'], "minor": [{"class": "style"}, "no-error"]}, -6),
        ([{"severity": "critical", "category": "accuracy"}], -25),
        ({"minor": ["non-translation"]}, -25),
        ([{"severity": "minor", "category": "fluency/punctuation"}], -0.1),
        ({"minor": ["style/awkward"] * 9}, -5),
        ({"major": ["style/awkward"] * 5, "critical": ["other"]}, -25),
    ],
)
def test_gemba_errors_become_a_score(tmp_path: Path, errors: Any, score: float) -> None:
    assert gemba_score(errors) == score
    path = write_jsonl(tmp_path / "x.jsonl", [{"src": "A dog.", "mt": "Hund", "lp": "en-de", "errors": errors}])
    assert list(read_judgments(path)) == [Judgment("A dog.", "Hund", score, "en-de")]


@pytest.fixture
def tiny_set(tmp_path: Path) -> Path:
    folder = tmp_path / "wmt99"
    files = {
        "sources/en-de.txt": "A dog.\nA cat.\n",
        "references/en-de.refA.txt": "Ein Hund.\nEine Katze.\n",
        "references/en-de.refB.txt": "Hund.\nKatze.\n",
        "system-outputs/en-de/X.txt": "Hund!\nKatze!\n",
        "system-outputs/en-de/refB.txt": "Hund.\nKatze.\n",
        "documents/en-de.docs": "news\td1\nnews\td2\n",
        "human-scores/en-de.mqm.seg.score": "X\t-1\nrefB\t0\nX\tNone\nrefB\t-0.1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, text)
    return folder


def test_a_test_set_gives_annotated_systems(tiny_set: Path) -> None:
    expected = Judgment("A dog.", "Hund!", -1.0, "en-de", "X", "d1", "1", reference="Ein Hund.")
    assert list(read_judgments(tiny_set)) == [expected]
    rows = list(read_judgments(tiny_set, reference="refB", reference_systems=True))
    assert [(row.system, row.segment, row.reference) for row in rows] == [
        ("X", "1", "Hund."),
        ("refB", "1", "Hund."),
        ("refB", "2", "Katze."),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"human": "esa"}, "no human scores en-de.esa.seg.score; found mqm"),
        ({"reference": "refC"}, "no reference 'refC' for en-de; found refA, refB"),
        ({"lp": "en-fr"}, "no sources/en-fr.txt; found en-de"),
    ],
)
def test_choices_that_a_test_set_does_not_have(tiny_set: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        list(read_judgments(tiny_set, **options))  # type: ignore[arg-type]


def test_a_test_set_must_be_aligned(tiny_set: Path) -> None:
    write(tiny_set / "human-scores" / "en-de.mqm.seg.score", "X\t-1\n")
    with pytest.raises(InputError, match="1 scores of X, but 2 sources"):
        list(read_judgments(tiny_set))
    write(tiny_set / "system-outputs" / "en-de" / "X.txt", "Hund!\n")
    with pytest.raises(InputError, match=r"X\.txt: 1 lines, but there are 2 sources"):
        list(read_judgments(tiny_set))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "", "no rows"),
        ("x.csv", "src,mt,score\n", "no rows"),
        ("x.csv", "src,mt\na,b\n", "line 2: no column score"),
        ("x.csv", "src,mt,score\na,b,nan\n", "line 2: score 'nan' is not finite"),
        ("x.csv", "src,mt,score\na,b,-inf\n", "not finite"),
        ("x.csv", "src,mt,score\na,b,good\n", "line 2: score 'good' is not a number"),
        ("x.csv", "src,mt,score\n ,b,1\n", "line 2: the source is empty"),
        ("x.csv", "src,mt,score\na,b,c,1\n", "line 2: 4 cells, but the header has 3"),
        ("x.csv", 'src,mt,score\na,"b,1\n', "not valid CSV"),
        ("x.csv", b"src,mt,score\na,\xff,1\n", "line 2, byte 3: 0xff is not valid UTF-8"),
        ("x.tsv", "category\tseverity\n", "no rows"),
        ("x.tsv", "category\tseverity\na\tb\n", "line 2: no column source"),
        ("x.tsv", f"{MQM_HEADER}\nA|d|1|r|x|y|c|Grave\n", "line 2: severity 'grave' is unknown"),
        ("x.tsv", f"{MQM_HEADER}\nA|d|1|r|x|y|c|Major\nA|d|1|r|x|z|c|Major\n", "line 3: the text of"),
        ("x.tsv", f"{MQM_HEADER}\nA|d|1|r|x|y|c\n", "line 2: 7 cells, but the header has 8"),
        ("x.jsonl", "\n", "no rows"),
        ("x.jsonl", "{\n", "line 1: not JSON"),
        ("x.jsonl", "[]\n", "expected a JSON object, found list"),
        ("x.jsonl", '{"source": "a", "score": 1}\n', "no translation or mt or hypothesis"),
        ("x.jsonl", '{"source": "a", "mt": "b", "score": NaN}\n', "not finite"),
        ("x.jsonl", '{"source": "a", "mt": "b", "score": true}\n', "not a number"),
        ("x.jsonl", '{"source": "a", "mt": 3, "score": 1}\n', "translation: expected a text, found int"),
        ("x.jsonl", '{"source": "a\\ud800", "mt": "b", "score": 1}\n', "lone surrogate"),
        ("x.jsonl", '{"source": "a", "candidates": []}\n', "at least one"),
        ("x.jsonl", '{"source": "a", "candidates": ["b"]}\n', "candidate 1: expected"),
        ("x.jsonl", '{"source": "a", "mt": "b c", "score": 1, "words": [[1]]}\n', "1 entries, but .* 2 words"),
        ("x.jsonl", '{"source": "a", "mt": "b c", "score": 1, "words": [[1], [1, 2]]}\n', r"entries of \[1, 2\]"),
        ("x.jsonl", '{"source": "a", "mt": "b", "score": 1, "words": 1}\n', "list of lists"),
        ("x.jsonl", '{"source": "a", "mt": "b", "score": 1, "words": [["x"]]}\n', "words 'x' is not a number"),
        ("x.jsonl", '{"source": "a", "mt": "b", "errors": 1}\n', "errors must be a list"),
        ("x.jsonl", '{"source": "a", "mt": "b", "errors": [{"category": "x"}]}\n', "severity '' is unknown"),
        ("x.tar.gz", b"no archive", "not a complete .tar.gz"),
        ("x.jsonl.gz", b"no gzip", "not a complete gzip"),
    ],
)
def test_bad_input_is_named_with_its_place(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(raw.replace(b"|", b"\t") if name == "x.tsv" else raw)
    with pytest.raises(InputError, match=message):
        list(read_judgments(tmp_path / name))


def test_channels_are_the_same_in_a_whole_file(tmp_path: Path) -> None:
    rows = [{"source": "a", "mt": "b", "score": 1, "words": [[0.0] * channels]} for channels in (2, 3)]
    with pytest.raises(InputError, match="line 2: words has 3 channels, but 2 in the rows before"):
        list(read_judgments(write_jsonl(tmp_path / "x.jsonl", rows)))


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", CSV)
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        read_judgments(path, "xml")
    with pytest.raises(UsageError, match="choose inside mt-metrics-eval"):
        read_judgments(path, human="mqm")
    with pytest.raises(UsageError, match="names a column of csv and da"):
        read_judgments(tmp_path / "x.jsonl", "jsonl", score="z")
    with pytest.raises(UsageError, match="neither name nor header"):
        read_judgments(write(tmp_path / "x.tsv", "a\tb\n"))
    with pytest.raises(UsageError, match="a folder without sources/"):
        read_judgments(tmp_path)
    with pytest.raises(InputError, match="0 files end with '.tsv'"):
        read_judgments(archive(tmp_path / "x.tar.gz", a_txt="x"))
    with pytest.raises(InputError, match=r"nowhere\.csv: cannot be read"):
        list(read_judgments(tmp_path / "nowhere.csv"))


@pytest.mark.parametrize(
    ("name", "lp"),
    [
        ("en-de-mqm.2021.csv", "en-de"),
        ("folder/mqm_ted_ende.tsv", "en-de"),
        ("train.ende.df.short.tsv", "en-de"),
        ("post-editing-dev-ru-en-dev.tar.gz", "ru-en"),
        ("mqm_newstest2020_zhen.tsv", "zh-en"),
        ("data.csv", ""),
        ("open-news.csv", ""),
    ],
)
def test_language_pairs_in_names(name: str, lp: str) -> None:
    assert lp_from_name(name) == lp


def test_raters_are_averaged() -> None:
    def row(score: float, rater: str, text: str = "Hund", **rest: Any) -> Judgment:
        return Judgment("A dog.", text, score, "en-de", "S", "d", "1", rater, **rest)

    rows = [row(-1, "a"), row(-4, "b", "Katze"), row(-3, "c", words=((1.0,),)), row(-5, "d", words=((2.0,),))]
    assert average_raters(rows) == [row(-3, "", words=((1.0,),)), row(-4, "", "Katze")]
    other = Judgment("A dog.", "Hund", -9, "en-de", "T", "d", "1", "a")
    assert len(average_raters([*rows, other])) == 3


def judged(source: str, *scores: float, **rest: Any) -> list[Judgment]:
    return [Judgment(source, f"{source} {index}", score, "en-de", **rest) for index, score in enumerate(scores)]


def test_groups_keep_each_text_once_with_its_mean() -> None:
    twice = Judgment("s", "s 0", 3.0, "en-de", system="other", reference="r", words=((1.0,), (2.0,)))
    elsewhere = Judgment("s", "s 0", 9.0, "en-de", document="d")
    first, second = group([*judged("s", 1, 2), twice, elsewhere])
    assert (first.source, first.lp, first.reference) == ("s", "en-de", "r")
    assert [(row.translation, row.score) for row in first.candidates] == [("s 0", 2.0), ("s 1", 2.0)]
    assert first.candidates[0].words == ((1.0,), (2.0,))
    assert second.candidates == (elsewhere,)


def test_a_source_is_never_on_both_sides_and_stays_where_it_was() -> None:
    sources = [f"Sentence {index}" for index in range(2000)]
    groups = group(Judgment(source, "x", 0.0) for source in sources)
    train, dev = split(groups, 0.1, seed=1)
    assert 150 < len(dev) < 250
    assert len(train) + len(dev) == 2000
    shouted = group(Judgment(f" {source.upper()} ", "x", 0.0, "en-ru", document="d") for source in reversed(sources))
    _, dev_shouted = split(shouted, 0.1, seed=1)
    assert {item.source for item in dev_shouted} == {f" {item.source.upper()} " for item in dev}
    _, more = split(groups, 0.2, seed=1)
    assert {item.source for item in dev} < {item.source for item in more}
    assert {item.source for item in split(groups, 0.1, seed=2)[1]} != {item.source for item in dev}
    assert split(groups, 0.0, seed=1) == (groups, [])
    assert split(groups, 1.0, seed=1) == ([], groups)
    with pytest.raises(UsageError, match="dev_share 10"):
        split(groups, 10, seed=1)


def unordered(pairs: list[Pair]) -> set[frozenset[str]]:
    return {frozenset((pair.a, pair.b)) for pair in pairs}


def test_all_pairs_and_their_differences() -> None:
    scores = {"s 0": 0.0, "s 1": -5.0, "s 2": -5.0, "s 3": -1.0}
    pairs = sample_pairs(group(judged("s", *scores.values())), per_source=None, seed=1)
    assert len(pairs) == len(unordered(pairs)) == 6
    assert all(pair.difference == scores[pair.a] - scores[pair.b] for pair in pairs)
    assert sum(pair.difference == 0 for pair in pairs) == 1
    assert {pair.lp for pair in pairs} == {"en-de"}


def test_a_cap_draws_without_repetition_and_both_orders_occur() -> None:
    groups = group([row for index in range(300) for row in judged(f"s{index}", *range(9))])
    pairs = sample_pairs(groups, per_source=5, seed=1)
    assert len(pairs) == 1500
    assert len(unordered(pairs)) == 1500
    assert set(Counter(pair.source for pair in pairs).values()) == {5}
    assert 600 < sum(pair.difference > 0 for pair in pairs) < 900
    drawn = Counter(frozenset((pair.a[-1], pair.b[-1])) for pair in pairs)
    assert len(drawn) == 36  # every pair has its chance
    assert min(drawn.values()) > 15


def test_pairs_hang_on_the_seed_and_the_source_alone() -> None:
    rows = [row for index in range(50) for row in judged(f"s{index}", *range(9))]
    pairs = sample_pairs(group(rows), per_source=3, seed=1)
    assert sorted(pairs, key=repr) == sorted(sample_pairs(group(rows[::-1]), per_source=3, seed=1), key=repr)
    assert pairs[:30] == sample_pairs(group(rows[:90]), per_source=3, seed=1)
    assert pairs != sample_pairs(group(rows), per_source=3, seed=2)


def test_a_reference_can_be_one_more_candidate() -> None:
    groups = group(judged("s", -1, -2, reference="best"))
    pairs = sample_pairs(groups, per_source=9, seed=1, references_as=0.5)
    assert len(pairs) == 3
    best = {
        pair.b if pair.a == "best" else pair.a: abs(pair.difference) for pair in pairs if "best" in (pair.a, pair.b)
    }
    assert best == {"s 0": 1.5, "s 1": 2.5}
    known = group(judged("s", -1, -2, reference="s 1"))
    assert len(sample_pairs(known, per_source=9, seed=1, references_as=0.5)) == 1
    with pytest.raises(UsageError, match="per_source 0"):
        sample_pairs(groups, per_source=0, seed=1)


def test_words_travel_with_their_text() -> None:
    rows = [Judgment("s", "a", 1.0, words=((1.0,),)), Judgment("s", "b", 2.0)]
    (pair,) = sample_pairs(group(rows), per_source=1, seed=1)
    assert {pair.a: pair.words_a, pair.b: pair.words_b} == {"a": ((1.0,),), "b": None}


def test_a_few_pairs_of_long_lists_are_quick() -> None:
    rows = tuple(judged("s", *range(1000)))
    groups = [Group("s", "en-de", str(index), "", None, rows) for index in range(50)]
    began = time.process_time()
    assert len(sample_pairs(groups, per_source=4, seed=1)) == 200
    assert time.process_time() - began < 1  # 25 million pairs there are


def test_the_summary_counts_and_the_description_shows() -> None:
    groups = group([*judged("s", 0, -5, -5), *judged("t", -10)])
    pairs = sample_pairs(groups, seed=1)
    found = summary(groups, pairs)
    counts = {"groups": 2, "judgments": 4, "pairs": 3, "ties": 1}
    assert found["language_pairs"] == {"en-de": counts}
    assert found["total"] == counts
    assert found["scores"]["mean"] == -5.0
    assert found["scores"]["histogram"][0] == [-10.0, -9.0, 1]
    assert found["scores"]["histogram"][-1] == [-1.0, 0.0, 1]
    assert sum(count for *_, count in found["differences"]["histogram"]) == 3
    assert json.loads(json.dumps(found)) == found
    text = describe(groups, pairs)
    assert "language pair  groups  judgments  pairs  ties\nen-de               2          4      3     1\n" in text
    assert text.count("#" * 40) == 2
    assert describe([], []).endswith("total               0          0      0     0\n")


@pytest.mark.parametrize(
    ("name", "lp", "rows", "groups"),
    [
        ("en-de-mqm.2021.csv", "en-de", 6851, 527),
        ("en-de-mqm.2021-ted.csv", "en-de", 7878, 598),
        ("en-de-mqm.2022_dev.csv", "en-de", 1005, 1005),
        ("en-ru-mqm.2021-ted.csv", "en-ru", 8250, 504),
        ("zh-en-mqm.2021-ted.csv", "zh-en", 6877, 529),
    ],
)
def test_the_wmt_tables(wmt_mqm: Path, name: str, lp: str, rows: int, groups: int) -> None:
    found = list(read_judgments(wmt_mqm / name))
    assert len(found) == rows
    assert {row.lp for row in found} == {lp}
    assert len(group(found)) == groups


def test_the_ted_errors_add_up(wmt_mqm: Path) -> None:
    path = wmt_mqm / "mqm_ted_ende.tsv"
    found = list(read_judgments(path))
    assert len(found) == 529 * 14  # segments, systems; one rater each
    assert not any("<v>" in row.source + row.translation for row in found)
    text = path.read_text(encoding="utf-8")
    major, minor, comma = (text.count(part) for part in ("\tMajor\t", "\tMinor\t", "\tFluency/Punctuation\tMinor\t"))
    assert sum(row.score for row in found) == pytest.approx(-(5 * major + minor - 0.9 * comma))


def test_the_side_by_side_ratings(wmt_mqm: Path) -> None:
    found = list(read_judgments(wmt_mqm / "sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv.tar.gz"))
    assert len(found) == 104 * 3 * 10  # segments, raters, systems
    assert {row.lp for row in found} == {"en-de"}
    shown = {tuple(row.document.split(" ", 1)[1].split(" + ")) for row in found}
    assert shown == {
        ("GPT4-5shot_with_ONLINE-W", "ONLINE-W"),
        ("GPT4-5shot_with_refA", "refA"),
        ("Lan-BridgeMT", "NLLB_MBR_BLEU"),
        ("ONLINE-A", "ONLINE-Y"),
        ("ONLINE-G", "ONLINE-M"),
    }
    assert Counter(len(item.candidates) for item in group(found)) == {2: 510, 1: 10}


@pytest.mark.parametrize(("part", "rows"), [("dev", 1000), ("train", 7000)])
def test_the_direct_assessments(mlqe: Path, part: str, rows: int) -> None:
    path = mlqe / f"direct-assessments-{part}-en-de-{part}.tar.gz"
    found = list(read_judgments(path))
    assert len(found) == rows
    assert {row.lp for row in found} == {"en-de"}
    assert all(0 <= row.score <= 100 for row in found)


@pytest.mark.parametrize(("lp", "segments", "reference"), [("en-de", 460, "Polizei"), ("he-en", 820, "Under a")])
def test_the_wmt23_test_set(wmt23: Path, lp: str, segments: int, reference: str) -> None:
    found = list(read_judgments(wmt23, lp=lp))
    assert len({row.system for row in found}) == 12
    assert len(found) == 12 * segments
    assert str(found[0].reference).startswith(reference)  # refA of en-de, refB of he-en
    with pytest.raises(UsageError, match="en-de, he-en; choose one"):
        read_judgments(wmt23, "mt-metrics-eval").__next__()
