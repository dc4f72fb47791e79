"""JSONL: every field, every way a line can be wrong, and lists that come back bit for bit."""

from __future__ import annotations

import gc
import json
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from candidates import BadRecord, Candidate, CandidateList, Origin, read_lists, write_lists
from candidates.common.errors import InputError
from candidates.formats import render_failure, render_list
from tests.candidates.formats.examples import COUNTED, only_list, texts


def test_canonical_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"id": "a", "source": "s", "candidates": ["x", {"text": "y", "logprob": -1.5, "count": 2}, "x"], '
        '"references": ["r"]}\n'
    )
    item = only_list(path)
    assert (item.id, item.source, item.texts, item.counts) == ("a", "s", ("x", "y"), (2, 2))
    assert item.logprobs == (None, -1.5)
    assert item.references == ("r",)


@pytest.mark.parametrize(("source", "candidates"), [("src", "hypotheses"), ("source", "translations")])
def test_aliases_of_pear_mt_and_others(tmp_path: Path, source: str, candidates: str) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(f'{{"{source}": "s", "{candidates}": ["x"]}}\n')
    assert only_list(path).texts == ("x",)


def test_ids_count_from_zero_and_blank_lines_do_not(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"source": "s", "candidates": ["x"]}\n\n{"source": "t", "candidates": ["y"]}')
    assert [item.id for item in read_lists(path)] == [0, 1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"source": "s", "candidates": []}', "no candidates"),
        ('{"source": "s"}', "no 'candidates'"),
        ('{"candidates": ["x"]}', "no 'source'"),
        ("[1, 2]", "expected an object"),
        ("{", "not valid JSON"),
        ('{"source": "s", "candidates": "x"}', "must be arrays"),
        ('{"source": "s", "candidates": [1]}', "a candidate is a text"),
        ('{"source": "s", "candidates": [{"text": "x", "logprob": NaN}]}', "NaN is not a JSON number"),
        ('{"source": "s", "candidates": [{"text": "x", "logprob": "low"}]}', "not a finite number"),
        ('{"source": "s", "candidates": [{"text": "x", "count": 1.5}]}', "positive whole number"),
        ('{"source": "s", "candidates": ["\\ud83d"]}', "lone surrogate"),
        ('{"source": 3.5, "candidates": ["x"]}', "expected a text"),
        ('{"id": null, "source": "s", "candidates": ["x"]}', "id must be"),
        ("[" * 100_000, "nested too deeply|not valid JSON"),
    ],
)
def test_a_bad_json_line_is_one_bad_record_that_names_its_line(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"source": "s", "candidates": ["x"]}\n' + line + '\n{"source": "s", "candidates": ["z"]}\n')
    first, bad, last = read_lists(path)
    assert isinstance(bad, BadRecord)
    assert bad.id == 1
    with pytest.raises(InputError, match=f"line 2.*({words})"):
        raise bad.error
    assert texts(first) == ("x",)
    assert texts(last) == ("z",)


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"source": "s", "candidates": ["x"]}\n{"source": "\xff"}\n')
    _, bad = read_lists(path)
    assert isinstance(bad, BadRecord)
    assert str(bad.error).startswith(f"{path}, line 2, byte 13: 0xff is not valid UTF-8")


def test_nbest_keeps_the_first_candidates(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"source": "s", "candidates": ["x", "y", "z"]}\n')
    assert only_list(path, nbest=2).texts == ("x", "y")


def test_a_failed_segment_in_jsonl_holds_the_error_and_reads_as_a_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    failure = render_failure(BadRecord("x", InputError("\udcff.txt: too long"), "ü\n"), "jsonl", 3)
    assert json.loads(failure) == {"id": "x", "source": "ü\n", "candidates": [], "error": "\\udcff.txt: too long"}
    path.write_bytes(failure + render_list(COUNTED, "jsonl", 1))
    bad, item = read_lists(path)
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == ("x", "ü\n")
    assert item == COUNTED


def read_origins(path: Path, *values: str) -> list[Origin | None]:
    path.write_text("".join(f'{{"source": "s", "candidates": ["x"], "origin": {value}}}\n' for value in values))
    items = list(read_lists(path))
    assert all(isinstance(item, CandidateList) for item in items), items
    return [item.origin for item in items if isinstance(item, CandidateList)]


def test_a_list_remembers_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    (origin,) = read_origins(path, '{"model": "en-de@1a2b", "method": "beam", "nbest": 4, "top-p": 0.9, "full": true}')
    assert origin is not None
    assert (origin.translator, origin.method) == ("en-de@1a2b", "beam")
    assert origin == Origin.of({"model": "en-de@1a2b", "method": "beam", "nbest": 4, "top-p": 0.9, "full": True})


def test_a_list_without_an_origin_has_none_and_an_empty_one_stays(tmp_path: Path) -> None:
    assert read_origins(tmp_path / "l.jsonl", "null", "{}") == [None, Origin(())]
    (tmp_path / "l.jsonl").write_text('{"source": "s", "candidates": ["x"]}\n')
    assert only_list(tmp_path / "l.jsonl").origin is None


def test_origin_is_written_where_there_is_one() -> None:
    origin = Origin.of({"model": "m", "nbest": 2})
    with_origin = CandidateList.of("s", ["a"], id="x", origin=origin)
    line = b'{"id": "x", "source": "s", "candidates": ["a"]'
    assert render_list(with_origin, "jsonl", 0) == line + b', "origin": {"model": "m", "nbest": 2}}\n'
    assert render_list(CandidateList.of("s", ["a"], id="x"), "jsonl", 0) == line + b"}\n"


def test_origin_stays_when_a_list_is_cut(tmp_path: Path) -> None:
    origin = Origin.of({"model": "m"})
    item = CandidateList.of("s", ["a", "b", "c"], origin=origin)
    assert item.take([2, 0]).origin == origin
    write_lists(tmp_path / "l.jsonl", [item])
    cut = only_list(tmp_path / "l.jsonl", nbest=2)
    assert (cut.texts, cut.origin) == (("a", "b"), origin)


def test_lists_of_one_origin_share_one_object(tmp_path: Path) -> None:
    first, second = '{"model": "a", "nbest": 100}', '{"model": "b", "nbest": 100}'
    origins = read_origins(tmp_path / "l.jsonl", first, first, second, first)
    assert origins[0] is origins[1] is origins[3]
    assert origins[2] is not origins[0]


def test_origins_that_are_all_different_do_not_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    read_origins(path, *(f'{{"unique-in-this-test": {number}}}' for number in range(1000)))
    kept = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, Origin) and "unique-in-this-test" in dict(thing.settings)
    ]
    assert len(kept) < 50


def test_settings_that_python_takes_for_equal_stay_apart(tmp_path: Path) -> None:
    origins = read_origins(
        tmp_path / "l.jsonl", '{"a": 1}', '{"a": 1.0}', '{"a": true}', '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'
    )
    assert [repr(origin and origin.settings) for origin in origins] == [
        "(('a', 1),)",
        "(('a', 1.0),)",
        "(('a', True),)",
        "(('a', 1), ('b', 2))",
        "(('b', 2), ('a', 1))",
    ]


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ('"en-de"', "found str; expected an object of texts, .* correct it or remove it"),
        ("[1]", "found list; expected an object of texts"),
        ("false", "found bool; expected an object of texts"),
        ('{"a": null}', "'a' is None; expected texts, numbers"),
        ('{"a": [1]}', r"'a' is \[1\]; expected texts, numbers"),
        ('{"a": {"b": 1}}', "'a' is {'b': 1}; expected texts, numbers"),
        ('{"a": 1e400}', "expected an object of texts, finite numbers"),
        ('{"a": "\\ud83d"}', "lone surrogate"),
        ('{"\\ud83d": 1}', "lone surrogate"),
        ('{"a": ' + "[" * 400 + "]" * 400 + "}", r"'a' is \[\["),
    ],
)
def test_an_origin_of_another_kind_is_an_error_that_names_file_and_line(
    tmp_path: Path, origin: str, words: str
) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"source": "s", "candidates": ["x"]}\n'
        f'{{"id": "b", "source": "t", "candidates": ["y"], "origin": {origin}}}\n'
        '{"source": "u", "candidates": ["z"]}\n'
    )
    first, bad, last = read_lists(path)
    assert (texts(first), texts(last)) == (("x",), ("z",))
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == ("b", "t")
    with pytest.raises(InputError, match=f"l.jsonl, line 2: origin: .*{words}"):
        raise bad.error


@pytest.mark.parametrize(
    "item",
    [
        CandidateList.of("s", ["a"], id="\ud83d"),
        CandidateList.of("s", ["a"], id="x", origin=Origin((("rate", float("nan")),))),
        CandidateList.of("s", ["a"], id="x", origin=Origin((("rate", float("inf")),))),
        CandidateList.of("s", ["a"], id="x", origin=Origin((("model", "\ud83d"),))),
        CandidateList.of("s", ["a"], id="x", origin=Origin((("model", Path("m")),))),  # type: ignore[arg-type]
    ],
)
def test_a_list_that_json_cannot_hold_is_an_error_and_leaves_nothing(tmp_path: Path, item: CandidateList) -> None:
    with pytest.raises(InputError, match="segment '.*' cannot be written as JSON .* correct its id or its origin"):
        write_lists(tmp_path / "l.jsonl", [item])
    assert list(tmp_path.iterdir()) == []


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXTS = ANY_TEXT | st.sampled_from(["a", "b", "a\nb", "\u2028", ""])
LOGPROBS = st.none() | st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True) | st.integers(-1000, 0)
ENTRIES = st.builds(Candidate, TEXTS, LOGPROBS, st.integers(1, 2**40))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SETTINGS = st.dictionaries(TEXTS, TEXTS | st.booleans() | NUMBERS)
ITEMS = st.builds(
    CandidateList.of,
    TEXTS,
    st.lists(ENTRIES, min_size=1, max_size=6),
    id=TEXTS | st.integers(),
    references=st.lists(TEXTS, max_size=2),
    origin=st.none() | SETTINGS.map(Origin.of),
)
NEXT_TO_ZERO = CandidateList.of("s", [Candidate("a", -0.0), Candidate("b", 5e-324), Candidate("c", -0.1 - 0.2)])


def bits(logprob: float | None) -> bytes:
    return b"" if logprob is None else struct.pack("d", logprob)


@given(st.lists(ITEMS, max_size=3))
@example([NEXT_TO_ZERO])
def test_lists_read_back_equal_the_lists_written_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, items: list[CandidateList]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    path.write_bytes(b"".join(render_list(item, "jsonl", index) for index, item in enumerate(items)))
    again = list(read_lists(path))
    assert again == items
    for before, after in zip(items, again, strict=True):
        assert isinstance(after, CandidateList)
        assert [*map(bits, after.logprobs or ())] == [*map(bits, before.logprobs or ())]
        assert repr(after.origin) == repr(before.origin)  # 1, 1.0 and True are equal, and other settings
