"""The table of formats: detection, requests that fit no format, one list in every format, safe output files."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from candidates import BadRecord, CandidateList, read_lists, write_lists
from candidates.common.errors import InputError, UsageError
from candidates.formats import guess_format, render_failure, render_header, render_list
from tests.candidates.formats.examples import COUNTED, LISTS


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "tsv", "sources": "s"}, "a file of sources goes with lines, moses, fairseq; tsv holds its own"),
        ({"format": "moses", "logprobs": "p"}, "a file of log-probabilities goes with lines; moses holds its own"),
        ({"format": "moses"}, "the format moses needs the file of sources"),
        ({"format": "lines", "sources": "s"}, "the format lines needs the number of candidate lines"),
        ({"format": "xml"}, "unknown format 'xml'; expected one of jsonl, tsv, lines, moses, fairseq"),
    ],
)
def test_a_refused_request_names_the_formats_that_fit(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_lists("l", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("-", "jsonl"),
        ("l.jsonl", "jsonl"),
        ("l.json.gz", "jsonl"),
        ("l.tsv", "tsv"),
        ("l.de.txt.gz", "lines"),
        ("l.nbest", "moses"),
        ("l.moses", "moses"),
    ],
)
def test_the_format_follows_from_the_suffix(name: str, format: str) -> None:
    assert guess_format(name) == format


def test_the_module_of_a_format_is_imported_when_it_is_used() -> None:
    program = (
        "import sys, candidates\n"
        "modules = lambda: sorted(name for name in sys.modules if name.startswith('candidates.formats.'))\n"
        "before = modules()\n"
        "candidates.formats.render_header('tsv')\n"
        "print(before, modules())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == (
        "['candidates.formats.records'] ['candidates.formats.records', 'candidates.formats.tsv']"
    )


def test_an_unknown_suffix_asks_for_the_format(tmp_path: Path) -> None:
    (tmp_path / "l.dat").touch()
    with pytest.raises(UsageError, match="--input-format"):
        list(read_lists(tmp_path / "l.dat"))


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
    assert (tmp_path / name).read_bytes() == render_header(format) + b"".join(parts)


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
    assert render_header(format) == before.encode()
    assert render_list(COUNTED, format, 7, lines=3) == rendered.encode()


@pytest.mark.parametrize(("format", "rendered"), [("lines", b"\n\n\n"), ("tsv", b""), ("moses", b"")])
def test_a_failed_segment_leaves_the_others_in_their_places(format: str, rendered: bytes) -> None:
    assert render_failure(BadRecord(4, InputError("too long"), "s"), format, 3) == rendered


def test_fairseq_is_read_and_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fairseq is read and not written.*choose one of jsonl, tsv, lines, moses"):
        write_lists(tmp_path / "l", LISTS, format="fairseq")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", ["fairseq", "xml"])
def test_nothing_is_rendered_in_a_format_that_is_not_written(format: str) -> None:
    for request in (
        lambda: render_header(format),
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
        with pytest.raises(UsageError, match="is a (pipe|device), which is never replaced; expected"):
            write_lists(path, LISTS, force=True)
    with pytest.raises(UsageError, match="/dev/stdout is not a regular file; leave out -o"):
        write_lists("/dev/stdout", LISTS, format="jsonl", force=True)
    assert sorted(os.listdir(tmp_path)) == ["link.jsonl", "pipe.jsonl"]
    assert pipe.is_fifo()


def test_a_missing_file_is_missing_whatever_its_name(tmp_path: Path) -> None:
    for name in ("lists", "lists.xyz", "lists.jsonl"):
        with pytest.raises(InputError, match=f"{name}: cannot be read: No such file"):
            list(read_lists(tmp_path / name))
