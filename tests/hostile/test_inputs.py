"""Bad files, bad models and bad numbers for mbr-decode, mbr-generate, pear, pear-score, pear-train, pear-convert,
mbr-doctor: every input of a table in every way of another table, and random ones (see `tests.hostile.harness`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.harness import ANY_FILE, NUMBERS, RECORDS, TABLES, Case, numeric_options, outcome, parsers_of

pytestmark = pytest.mark.one_world

GERMAN = ("Ein Hund rennt.", "Der Hund läuft.", "Ein Hund läuft.", "Hunde laufen.")
SOURCE = b"A dog runs.\nThat is a cat.\n"
LISTS = b"".join(
    json.dumps({"id": number, "source": "A dog runs.", "candidates": list(GERMAN)}).encode() + b"\n"
    for number in (1, 2)
)
TARGET = "".join(f"{text}\n" for text in GERMAN).encode()
SCORES = b"-0.1\n-0.2\n-0.1\n-0.2\n"
MOSES = "".join(f"{place // 2} ||| {text} ||| F= -1 ||| -0.1\n" for place, text in enumerate(GERMAN)).encode()
FAIRSEQ = b"S-0\tA dog.\nH-0\t-0.1\tEin Hund.\nD-0\t-0.1\tEin Hund.\nP-0\t-0.1\n"
TSV = b"id\tsource\tcandidate\tlogprob\n0\ta b\tEin Hund.\t-0.1\n0\ta b\tHunde.\t-0.2\n1\tc d\tJa.\t-0.1\n"
PAIRS = b"src\tmt_0\tmt_1\nA dog.\tEin Hund rennt.\tHunde laufen.\nA cat.\tEine Katze.\tKatzen.\n"
HYPOTHESES = b"".join(json.dumps({"src": "A dog.", "hypotheses": list(GERMAN[:n])}).encode() + b"\n" for n in (2, 4))
JUDGMENTS = "src,mt,score\n" + "".join(f"source {n},{t},0.{p + 1}\n" for n in range(6) for p, t in enumerate(GERMAN))

RATED = b"".join(b'{"src": "s %d", "mt": "t %d", "score": 0.%d}\n' % (n % 4, n, n) for n in range(1, 9))

CHRF = ("mbr-decode", "--utility", "chrf", "-o", "{out}")
ONE_STEP = ("--steps", "1", "--batch-tokens", "64", "--dev-lists", "1")
CASES = {
    "jsonl": Case((*CHRF, "--candidates", "{lists}"), {"lists.jsonl": LISTS}),
    "jsonl skipped": Case((*CHRF, "--candidates", "{lists}", "--on-error", "skip"), {"lists.jsonl": LISTS}),
    "tsv": Case((*CHRF, "--candidates", "{lists}"), {"lists.tsv": TSV}),
    "lines": Case(
        (*CHRF, "--candidates", "{lists}", "--sources", "{source}", "--nbest", "2", "--logprobs", "{scores}"),
        {"lists.txt": TARGET, "source.txt": SOURCE, "scores.txt": SCORES},
    ),
    "moses": Case(
        (*CHRF, "--candidates", "{lists}", "--input-format", "moses", "--sources", "{source}"),
        {"source.txt": SOURCE, "lists.txt": MOSES},
    ),
    "fairseq": Case((*CHRF, "--candidates", "{lists}", "--input-format", "fairseq"), {"lists.txt": FAIRSEQ}),
    "config": Case(
        (*CHRF, "--candidates", "{lists}", "--config", "{run}"), {"lists.jsonl": LISTS, "run.yaml": b"top: 2\n"}
    ),
    "recipe": Case(
        ("mbr-decode", "-o", "{out}", "--candidates", "{lists}", "--recipe", "{recipe}"),
        {"lists.jsonl": LISTS, "recipe.yaml": b"utility: chrf\n"},
    ),
    "generate": Case(
        ("mbr-generate", "--sources", "{source}", "--nbest", "2", "--max-length", "3", "--threads", "1", "-o", "{out}"),
        {"source.txt": SOURCE},
    ),
    "pear-score": Case(("pear-score", "{pairs}", "--model", "PEAR", "-o", "{out}"), {"pairs.tsv": PAIRS}),
    "pear score": Case(
        ("pear", "score", "--input", "{pairs}", "--model", "PEAR", "--output", "{out}"), {"pairs.tsv": PAIRS}
    ),
    "pear mbr": Case(
        ("pear", "mbr", "--input", "{nbest}", "--model", "PEAR", "--output", "{out}"), {"nbest.jsonl": HYPOTHESES}
    ),
    "pear-train": Case(
        ("pear-train", "--data", "{judgments}", "--from", "PEAR", *ONE_STEP, "-o", "{out}"),
        {"judgments.csv": JUDGMENTS.encode()},
    ),
    "statistics": Case(
        ("pear-train", "--data", "{judgments}", "--statistics-only"), {"judgments.csv": JUDGMENTS.encode()}, None
    ),
    "jsonl statistics": Case(
        ("pear-train", "--data", "{judgments}", "--statistics-only"), {"judgments.jsonl": RATED}, None
    ),
}
MORE = {
    "jsonl": RECORDS,
    "tsv": TABLES,
    "pear-score": TABLES,
    "pear score": TABLES,
    "statistics": TABLES,
    "jsonl statistics": {
        "deep": RECORDS["deep"],
        **{name: RECORDS[name] for name in RECORDS if name.startswith("line ")},
    },
    "pear mbr": {
        name: RECORDS[name] for name in ("no id", "deep", "a long number", "line 3", "line null", "line []", "line {}")
    },
}
# Where a number is large, and the run is as long as it asks for.
LONG_RUNS = {("pear-train", option) for option in ("--steps", "--epochs", "--accumulate")}
REFUSED = {
    ("jsonl", "--top=1000000000"): "--top 1000000000 is out of range",
    ("pear-train", "--seed=-1"): "seed -1 is out of range",
    ("pear-train", "--references-as=nan"): "references_as nan is not a finite number",
}
ELSEWHERE = {"--threads"}  # large ones: see the tests of threads


def bad_files() -> Iterator[Any]:
    for name, case in CASES.items():
        ways = {**ANY_FILE, **MORE.get(name, {})}
        if name in ("pear-train", "generate"):  # these load a model first: what `statistics` and `lines` read alike
            ways = {way: ways[way] for way in ("empty", "bad UTF-8", "NUL", "a huge line", "many dots", "folder")}
        for file in case.files:
            if len(case.files) > 1 and file == "lists.jsonl":
                continue
            for way in ways:
                yield pytest.param(name, file, way, id=f"{name}-{file}-{way}")


def case_of(name: str, pear: Path) -> Case:
    case = CASES[name]
    return Case(tuple(str(pear) if word == "PEAR" else word for word in case.words), case.files, case.output)


@pytest.mark.parametrize("name", CASES)
def test_the_good_inputs_are_good(name: str, ours: Path, tmp_path: Path) -> None:
    assert case_of(name, ours).run(tmp_path).code == 0


@pytest.mark.parametrize(("name", "file", "way"), list(bad_files()))
def test_a_bad_file(name: str, file: str, way: str, ours: Path, tmp_path: Path) -> None:
    case = case_of(name, ours)
    change = {**ANY_FILE, **RECORDS, **TABLES}[way]
    case.run(tmp_path, {file: change(case.files[file])})


@pytest.mark.parametrize("name", ["jsonl", "pear-score", "pear mbr", "statistics"])
def test_a_missing_file_is_named(name: str, ours: Path, tmp_path: Path) -> None:
    case = case_of(name, ours)
    (file,) = case.files
    words = tuple(
        word.format(**{file.partition(".")[0]: f"gone.{file}", "out": tmp_path / "out"}) for word in case.words
    )
    result = Case(words, output=None).run(tmp_path)
    assert result.code == 3
    assert "gone" in result.message


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08\0\0\0\0\0", b"\x1f\x8b" + bytes(range(200))])
def test_a_gzip_file_that_is_none_is_an_input_error(content: bytes, tmp_path: Path) -> None:
    case = Case((*CHRF, "--candidates", "{lists}", "--input-format", "jsonl"), {"lists.jsonl.gz": content})
    assert case.run(tmp_path).code == (0 if content == b"" else 3)


def bad_numbers() -> Iterator[Any]:
    for name, command, more in (
        ("jsonl", "mbr-decode", ()),
        ("pear-score", "pear-score", ()),
        ("pear score", "pear", ("score",)),
        ("pear mbr", "pear", ("mbr",)),
        ("pear-train", "pear-train", ()),
    ):
        for option, count in numeric_options(parsers_of(command)[more]).items():
            for number in NUMBERS:
                if name == "pear-train" and number in ("0x10", "1,5", "٣", "inf"):
                    continue  # as above: what is no number is no number for every command
                if len(number) > 4 and (option in ELSEWHERE or (command, option) in LONG_RUNS):
                    continue
                words = (f"{option}={number}",) if count == 1 else (option, *[number] * count)
                yield pytest.param(name, words, id=f"{command} {' '.join(words)}")


@pytest.mark.parametrize(("name", "words"), list(bad_numbers()))
def test_a_bad_number(name: str, words: tuple[str, ...], ours: Path, tmp_path: Path) -> None:
    result = case_of(name, ours).run(tmp_path, more=words)
    option, _, number = words[0].partition("=")
    if refusal := REFUSED.get((name, words[0])):
        assert (result.code, refusal in result.message) == (2, True), result.message
    if number in ("", "0x10", "1,5"):
        assert result.code == 2
        assert option in result.message


@pytest.mark.parametrize(
    "words",
    [
        ("--add", "logprob=nan"),
        ("--add", "length=1e400"),
        ("--add", "length="),
        ("--add", "=1"),
        ("--utility", ""),
        ("--recipe", ""),
        ("--strategy", ""),
        ("--input-format", ""),
        ("--config", ""),
        ("--matrix", ""),
        ("--sources", ""),
        ("--weights", "nan"),
        ("--translator", ""),
        ("surplus",),
        ("--unknown",),
        ("-o",),
    ],
)
def test_bad_words_of_mbr_decode_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert CASES["jsonl"].run(tmp_path, more=words).code in (2, 3, 4)


@pytest.mark.parametrize("words", [("surplus",), ("--unknown",), ("--log-format", ""), ("--log-format", "xml")])
@pytest.mark.parametrize("command", ["mbr-decode", "mbr-generate", "mbr-doctor", "pear", "pear-score", "pear-train"])
def test_words_that_no_command_has_are_refused(command: str, words: tuple[str, ...]) -> None:
    if (command, words) == ("pear-score", ("surplus",)):
        words = ("one", "two")
    assert outcome([command, *words]).code in (2, 3)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("layout", ["ours", "released"])
@pytest.mark.parametrize(
    "way", ["empty", "one byte", "cut in half", "bad UTF-8", "only NULs", "brackets", "folder", "gone"]
)
def test_a_bad_file_of_a_model(layout: str, way: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Each file of a checkpoint in turn; what cannot be loaded is a model error, and nothing is written."""
    good: Path = request.getfixturevalue(layout)
    good = good.parent if layout == "released" and good.is_file() else good
    for number, name in enumerate(files_of(good)):
        folder = tmp_path / str(number)
        shutil.copytree(good, folder / "model")
        content = (good / name).read_bytes()
        (folder / "model" / name).unlink()
        changed = ANY_FILE[way](content) if way in ANY_FILE else b""
        if changed is None:
            (folder / "model" / name).mkdir()
        elif way != "gone":
            (folder / "model" / name).write_bytes(changed)
        result = outcome(["pear-convert", str(folder / "model"), str(folder / "out")])
        assert result.code in (0, 2, 3, 4), f"{name}: {result.message}"
        assert (folder / "out").is_dir() == (result.code == 0), f"{name}: {result.message}"
        assert "Traceback" not in result.message


# Random ones

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = {
    "id": VALUES,
    "source": VALUES,
    "candidates": VALUES | st.lists(VALUES),
    "origin": VALUES,
    "references": VALUES,
}
RECORD = st.fixed_dictionaries({}, optional=FIELDS)
CANDIDATE = st.fixed_dictionaries({}, optional={"text": VALUES | st.text(), "logprob": VALUES, "count": VALUES})
NEARLY = st.fixed_dictionaries(
    {"source": st.text(), "candidates": st.lists(CANDIDATE, max_size=4)}, optional={"id": VALUES}
)


@QUICK
@given(st.lists(RECORD | NEARLY | VALUES, max_size=3), st.sampled_from(["jsonl", "jsonl skipped"]))
def test_random_records(records: list[Any], name: str) -> None:
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    with TemporaryDirectory() as folder:
        CASES[name].run(Path(folder), {"lists.jsonl": content})


READERS = ("jsonl skipped", "tsv", "moses", "fairseq", "config", "recipe", "statistics", "pear-score", "pear mbr")
PIECES = st.sampled_from(
    [b"\t", b"\n", b"\r", b"|||", b"S-0", b"H-0", b'{"', b'"', b":", b"[", b"-0.1", b"\0", b"\xef\xbb\xbf"]
)


@QUICK
@given(
    st.sampled_from(READERS),
    st.binary(max_size=60) | st.lists(PIECES | st.binary(max_size=3)).map(b"".join),
    st.booleans(),
)
def test_random_bytes(ours: Path, name: str, content: bytes, inside: bool) -> None:
    """Alone, or in the middle of a good file."""
    case = case_of(name, ours)
    file = list(case.files)[-1]
    good = case.files[file]
    with TemporaryDirectory() as folder:
        case.run(Path(folder), {file: good[: len(good) // 2] + content + good[len(good) // 2 :] if inside else content})
