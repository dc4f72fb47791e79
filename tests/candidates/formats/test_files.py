from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from candidates import BadRecord, Candidate, CandidateList, read_lists, write_lists
from candidates.common.errors import InputError, UsageError
from candidates.formats.writing import header, render_failure, render_list

# Characters that Python's universal newlines or str.splitlines would split at, and others that break parsers.
ODD = "a\rb\u2028c\x0cd\x85e\x0bf"


def texts(item: object) -> tuple[str, ...]:
    assert isinstance(item, CandidateList), item
    return item.texts


def one(path: Path, **options: object) -> CandidateList:
    (item,) = read_lists(path, **options)  # type: ignore[arg-type]
    assert isinstance(item, CandidateList), item
    return item


def test_canonical_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"id": "a", "source": "s", "candidates": ["x", {"text": "y", "logprob": -1.5, "count": 2}, "x"], '
        '"references": ["r"]}\n'
    )
    item = one(path)
    assert (item.id, item.source, item.texts, item.counts) == ("a", "s", ("x", "y"), (2, 2))
    assert item.logprobs == (None, -1.5)
    assert item.references == ("r",)


@pytest.mark.parametrize(("source", "candidates"), [("src", "hypotheses"), ("source", "translations")])
def test_aliases_of_pear_mt_and_others(tmp_path: Path, source: str, candidates: str) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(f'{{"{source}": "s", "{candidates}": ["x"]}}\n')
    assert one(path).texts == ("x",)


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


def test_a_byte_order_mark_is_accepted_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_bytes(b"\xef\xbb\xbfsource\tcandidate\ns\tx\n")
    assert one(path).texts == ("x",)


def test_long_tsv_groups_rows_of_one_source(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text('src\tmt\tlogprob\n"s\ta\t-1\n"s\tb\t\nt\tc\t-3\n')
    first, second = read_lists(path)
    assert texts(first) == ("a", "b")
    assert isinstance(first, CandidateList)
    assert (first.source, first.logprobs) == ('"s', (-1.0, None))
    assert texts(second) == ("c",)


def test_tsv_ids_separate_equal_sources(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("id\tsource\tcandidate\n7\ts\ta\n8\ts\tb\n")
    assert [(item.id, texts(item)) for item in read_lists(path)] == [("7", ("a",)), ("8", ("b",))]


def test_wide_tsv_has_one_source_a_row(tmp_path: Path) -> None:
    path = tmp_path / "l.tsv"
    path.write_text("source\tcandidate_1\tcandidate_2\ns\ta\tb\nt\tc\tc\n")
    assert [texts(item) for item in read_lists(path)] == [("a", "b"), ("c",)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("source\tx\ns\ta\n", "no column candidate"),
        ("source\tcandidate\ns\n", "line 2: 1 cells, but the header has 2"),
        ("source\tcandidate\tcount\ns\ta\t-1\n", "line 2: count '-1'"),
        ("source\tcandidate\tcount\ns\ta\t" + "9" * 5000, "line 2: count"),
        ("source\tcandidate\tlogprob\ns\ta\tx\n", "line 2: logprob 'x' is not a number"),
        ("id\tsource\tcandidate\n1\ts\ta\n1\tt\tb\n", "line 3: id '1' has two different sources"),
    ],
)
def test_a_tsv_that_does_not_fit_stops_at_the_first_bad_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "l.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        list(read_lists(path))


def test_a_bad_list_in_a_tsv_or_moses_file_is_one_bad_record(tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_text("source\tcandidate\tlogprob\ns\ta\tnan\nt\tb\t-1\n")
    bad, good = read_lists(tmp_path / "l.tsv")
    assert isinstance(bad, BadRecord)
    assert "l.tsv, lines 2 to 2: segment 0" in str(bad.error)
    assert texts(good) == ("b",)
    (tmp_path / "s").write_text("s\nt\n")
    (tmp_path / "l.nbest").write_text("0 ||| a ||| ||| nan\n1 ||| b ||| ||| -1\n")
    bad, good = read_lists(tmp_path / "l.nbest", sources=tmp_path / "s")
    assert isinstance(bad, BadRecord)
    assert texts(good) == ("b",)


def test_parallel_lines(tmp_path: Path) -> None:
    sources, candidates = tmp_path / "s.txt", tmp_path / "c.txt"
    sources.write_bytes(f"s{ODD}\nt\n".encode())
    candidates.write_bytes(f"a{ODD}\nb\n\nc".encode())
    items = list(read_lists(candidates, sources=sources, nbest=2))
    assert [texts(item) for item in items] == [(f"a{ODD}", "b"), ("", "c")]
    assert items[0].source == f"s{ODD}"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (3, "ends at line 3, but source line 2 .* needs lines 3 to 4"),
        (5, "line 5: more lines than the 2 sources"),
        (0, "ends at line 0, but source line 1"),
    ],
)
def test_counts_that_do_not_fit_name_the_first_bad_line(tmp_path: Path, lines: int, words: str) -> None:
    sources, candidates = tmp_path / "s.txt", tmp_path / "c.txt"
    sources.write_text("s\nt\n")
    candidates.write_text("x\n" * lines)
    with pytest.raises(InputError, match=words):
        list(read_lists(candidates, sources=sources, nbest=2))


def with_logprobs(folder: Path, content: str) -> list[CandidateList | BadRecord]:
    (folder / "s.txt").write_text("s\nt\n")
    (folder / "c.txt").write_text("a\nb\nc\nc\n")
    (folder / "p.txt").write_text(content)
    return list(read_lists(folder / "c.txt", sources=folder / "s.txt", nbest=2, logprobs=folder / "p.txt"))


def test_log_probabilities_of_mbrs_stand_beside_the_candidate_lines(tmp_path: Path) -> None:
    first, second = with_logprobs(tmp_path, "-1.5\n -2\r\n-3e0\n-0.25")
    assert isinstance(first, CandidateList)
    assert isinstance(second, CandidateList)
    assert (first.texts, first.logprobs) == (("a", "b"), (-1.5, -2.0))
    assert (second.texts, second.counts, second.logprobs) == (("c",), (2,), (-0.25,))


@pytest.mark.parametrize("value", ["", "low", "nan", "-inf", "1e400", "1e300", "-1 -2"])
def test_a_bad_log_probability_is_one_bad_record_that_names_its_line(tmp_path: Path, value: str) -> None:
    bad, item = with_logprobs(tmp_path, f"-1\n{value}\n-3\n-4\n")
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (0, "s")
    with pytest.raises(InputError, match=f"p.txt, line 2: logprob '{value}' is not a (finite )?number"):
        raise bad.error
    assert texts(item) == ("c",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (0, "p.txt ends at line 0, but .*c.txt has a candidate on line 1"),
        (3, "p.txt ends at line 3, but .*c.txt has a candidate on line 4"),
        (5, "p.txt, line 5: more lines than the 4 candidates of .*c.txt"),
    ],
)
def test_log_probabilities_that_do_not_fit_in_number_name_the_first_bad_line(
    tmp_path: Path, lines: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        with_logprobs(tmp_path, "-1\n" * lines)


def test_moses_lists_with_a_source_that_got_none(tmp_path: Path) -> None:
    sources, nbest = tmp_path / "s.txt", tmp_path / "out.nbest"
    sources.write_text("s\nt\nu\n")
    nbest.write_text("0 ||| a b ||| LM= -3 ||| -1.5\n0 |||  ||| ||| -2\n2 ||| c\n")
    first, bad, last = read_lists(nbest, sources=sources)
    assert isinstance(first, CandidateList)
    assert (first.texts, first.logprobs) == (("a b", ""), (-1.5, -2.0))
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == (1, "t")
    assert texts(last) == ("c",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("3 ||| a\n", "id 3 has no source line"),
        ("1 ||| a\n0 ||| b\n", "line 2: id 0 after 1"),
        ("x ||| a\n", "line 1: id 'x'"),
        ("no bars\n", "line 1: expected `id"),
    ],
)
def test_broken_moses_lists(tmp_path: Path, content: str, words: str) -> None:
    sources, nbest = tmp_path / "s.txt", tmp_path / "out.nbest"
    sources.write_text("s\nt\n")
    nbest.write_text(content)
    with pytest.raises(InputError, match=words):
        list(read_lists(nbest, sources=sources))


def test_nbest_keeps_the_first_so_many(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"source": "s", "candidates": ["x", "y", "z"]}\n')
    assert one(path, nbest=2).texts == ("x", "y")


@pytest.mark.parametrize(
    "options",
    [
        {"nbest": 0},
        {"format": "xml"},
        {"format": "lines"},
        {"format": "lines", "sources": "s"},
        {"sources": "s"},
        {"logprobs": "p"},
        {"format": "tsv", "logprobs": "p"},
        {"format": "moses", "sources": "s", "logprobs": "p"},
        {"format": "fairseq", "logprobs": "p"},
        {"format": "fairseq", "nbest": 0},
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        list(read_lists(tmp_path / "l.jsonl", **options))  # type: ignore[arg-type]


def test_an_unknown_suffix_asks_for_the_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--input-format"):
        list(read_lists(tmp_path / "l.dat"))


LISTS = [
    CandidateList.of(f"s{ODD}", [Candidate("a", -1.25), Candidate(f"b{ODD}", -2.0), Candidate("a", -1.25)], id=0),
    CandidateList.of('"t"', [Candidate("c", -0.5), Candidate("", -3.0), Candidate("d", -4.0)], id=1),
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("name", ["l.jsonl", "l.tsv", "l.txt", "l.nbest"])
def test_every_format_gives_back_what_was_written(tmp_path: Path, name: str, suffix: str) -> None:
    path, sources = tmp_path / (name + suffix), tmp_path / "sources"
    needs_sources = name in ("l.txt", "l.nbest")
    write_lists(path, LISTS, sources=sources if needs_sources else None)
    again = list(read_lists(path, sources=sources if needs_sources else None, nbest=3))
    for before, after in zip(LISTS, again, strict=True):
        assert isinstance(after, CandidateList)
        assert (after.source, after.texts, after.counts, after.positions) == (
            before.source,
            before.texts,
            before.counts,
            before.positions,
        )
        if name != "l.txt":
            assert after.logprobs == before.logprobs


def test_a_text_the_format_cannot_hold_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    for name, text in (("l.txt", "a\nb"), ("l.tsv", "a\tb"), ("l.nbest", "a ||| b")):
        with pytest.raises(InputError, match="holds"):
            write_lists(tmp_path / name, [CandidateList.of("s", [text])], sources=tmp_path / "s")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["l.jsonl", "l.tsv", "l.txt", "l.nbest"])
def test_a_file_is_its_header_and_its_lists_one_by_one(tmp_path: Path, name: str) -> None:
    format = {"l.txt": "lines", "l.nbest": "moses"}.get(name, name.removeprefix("l."))
    write_lists(tmp_path / name, LISTS, sources=tmp_path / "sources")
    parts = [render_list(item, format, index) for index, item in enumerate(LISTS)]
    assert (tmp_path / name).read_bytes() == header(format) + b"".join(parts)


COUNTED = CandidateList.of("s", [Candidate("a", -1.5, 2), "b"], id="x", references=["r"])


@pytest.mark.parametrize(
    ("format", "before", "rendered"),
    [
        (
            "jsonl",
            "",
            '{"id": "x", "source": "s", "candidates": [{"text": "a", "logprob": -1.5, "count": 2}, "b"], '
            '"references": ["r"]}\n',
        ),
        ("tsv", "id\tsource\tcandidate\tlogprob\tcount\n", "x\ts\ta\t-1.5\t2\nx\ts\tb\t\t1\n"),
        ("lines", "", "a\na\nb\n"),
        ("moses", "", "7 ||| a |||  ||| -1.5\n7 ||| a |||  ||| -1.5\n7 ||| b |||  ||| \n"),
    ],
)
def test_one_list_in_every_format(format: str, before: str, rendered: str) -> None:
    assert header(format) == before.encode()
    assert render_list(COUNTED, format, 7, lines=3) == rendered.encode()


@pytest.mark.parametrize("lines", [2, 4])
def test_a_list_of_another_length_does_not_fit_parallel_lines(lines: int) -> None:
    with pytest.raises(InputError, match=f"segment 'x' has 3 candidates, .* needs exactly {lines} .*jsonl"):
        render_list(COUNTED, "lines", 0, lines=lines)
    for format in ("jsonl", "tsv", "moses"):
        assert render_list(COUNTED, format, 0, lines=lines) == render_list(COUNTED, format, 0)


@pytest.mark.parametrize(("format", "rendered"), [("lines", b"\n\n\n"), ("tsv", b""), ("moses", b"")])
def test_a_failed_segment_leaves_the_others_in_their_places(format: str, rendered: bytes) -> None:
    assert render_failure(BadRecord(4, InputError("too long"), "s"), format, 3) == rendered


def test_a_failed_segment_in_jsonl_tells_why_and_reads_as_a_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    failure = render_failure(BadRecord("x", InputError("\udcff.txt: too long"), "ü\n"), "jsonl", 3)
    assert json.loads(failure) == {"id": "x", "source": "ü\n", "candidates": [], "error": "\\udcff.txt: too long"}
    path.write_bytes(failure + render_list(COUNTED, "jsonl", 1))
    bad, item = read_lists(path)
    assert isinstance(bad, BadRecord)
    assert (bad.id, bad.source) == ("x", "ü\n")
    assert item == COUNTED


def test_fairseq_is_read_and_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fairseq is a format to read.*choose one of jsonl, tsv, lines, moses"):
        write_lists(tmp_path / "l", LISTS, format="fairseq")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", ["fairseq", "xml"])
def test_nothing_is_rendered_in_a_format_that_is_not_written(format: str) -> None:
    for request in (
        lambda: header(format),
        lambda: render_list(COUNTED, format, 0),
        lambda: render_failure(BadRecord(0, InputError("x")), format, 1),
    ):
        with pytest.raises(UsageError, match="one of jsonl, tsv, lines, moses"):
            request()


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        write_lists(path, LISTS)
    assert path.read_text() == "precious"


def test_a_cut_off_gzip_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"source": "s", "candidates": ["x"]}\n' * 100)[:40])
    with pytest.raises(InputError, match="not a complete gzip file"):
        list(read_lists(path))


def test_missing_and_unreadable_files_are_input_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            list(read_lists(path, format="jsonl"))
    memory = Path("/proc/self/mem")  # opens, but cannot be read at its beginning
    if memory.exists():
        with pytest.raises(InputError, match="cannot be read"):
            list(read_lists(memory, format="jsonl"))


def test_an_output_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, existing in (("old.jsonl.gz", True), ("new.jsonl.gz", False)):
        link, target = tmp_path / name, tmp_path / "folder" / f"{name}.data"
        link.symlink_to(target)
        if existing:
            target.write_text("precious")
            with pytest.raises(UsageError, match="--force"):
                write_lists(link, LISTS)
        write_lists(link, LISTS, force=existing)
        assert link.is_symlink()
        assert gzip.decompress(target.read_bytes())  # by the name that was given
    assert sorted(os.listdir(tmp_path / "folder")) == ["new.jsonl.gz.data", "old.jsonl.gz.data"]


def test_a_pipe_or_a_device_is_no_output(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    (tmp_path / "link.jsonl").symlink_to(pipe)
    for path in (pipe, tmp_path / "link.jsonl"):
        with pytest.raises(InputError, match="is a pipe or a device; expected the name of a regular file"):
            write_lists(path, LISTS, force=True)
    with pytest.raises(InputError, match="/dev/stdout is not a regular file; leave out -o"):
        write_lists("/dev/stdout", LISTS, format="jsonl", force=True)
    assert sorted(os.listdir(tmp_path)) == ["link.jsonl", "pipe.jsonl"]
    assert pipe.is_fifo()
