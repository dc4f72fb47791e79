"""Reading of judgments: bad input is named with its place, raters are averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import InputError, UsageError
from pear.data import (
    Judgment,
    average_raters,
    read_judgments,
)
from tests.pear.data.files import CSV, MQM_HEADER, archive, write

pytestmark = pytest.mark.one_world


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "", "no rows"),
        ("x.csv", "src,mt,score\n", "no rows"),
        ("x.csv", "src,mt\na,b\n", "line 2: no column score"),
        ("x.csv", "src,mt,score\na,b,nan\n", "line 2: score 'nan' is not finite"),
        (
            "x.csv",
            "src,mt,score\na,b,1\nc,d,1e300\n",
            "line 3: score .1e300. is too large to learn from; expected a number from",
        ),
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


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", CSV)
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        read_judgments(path, "xml")
    with pytest.raises(UsageError, match="choose inside mt-metrics-eval"):
        read_judgments(path, human="mqm")
    with pytest.raises(UsageError, match="names a column of csv and da"):
        read_judgments(tmp_path / "x.jsonl", "jsonl", score="z")
    with pytest.raises(InputError, match="neither name nor header"):
        read_judgments(write(tmp_path / "x.tsv", "a\tb\n"))
    with pytest.raises(InputError, match="a folder without sources/"):
        read_judgments(tmp_path)
    with pytest.raises(InputError, match="0 files end with '.tsv'"):
        read_judgments(archive(tmp_path / "x.tar.gz", a_txt="x"))
    with pytest.raises(InputError, match=r"nowhere\.csv: cannot be read"):
        list(read_judgments(tmp_path / "nowhere.csv"))


def test_raters_are_averaged() -> None:
    def row(score: float, rater: str, text: str = "Hund", **rest: Any) -> Judgment:
        return Judgment("A dog.", text, score, "en-de", "S", "d", "1", rater, **rest)

    rows = [row(-1, "a"), row(-4, "b", "Katze"), row(-3, "c", words=((1.0,),)), row(-5, "d", words=((2.0,),))]
    assert average_raters(rows) == [row(-3, "", words=((1.0,),)), row(-4, "", "Katze")]
    other = Judgment("A dog.", "Hund", -9, "en-de", "T", "d", "1", "a")
    assert len(average_raters([*rows, other])) == 3
