"""Text files: strict UTF-8, lines that end at `\\n` only, outputs that appear whole or not at all."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from candidates.common.text import (
    atomic_output,
    check_output,
    disk_errors,
    lines,
    printable,
    raw_lines,
    refuse_overwrite,
    regular_target,
    remove_debris,
)
from tests.support.limits import largest_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Reading


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\nb\r\nc\n", ["a", "b\r", "c"]),
        ("a\rb\u2028c\u2029d\x0be\x0cf\x1cg\x85h\n".encode(), ["a\rb\u2028c\u2029d\x0be\x0cf\x1cg\x85h"]),
        (b"a\0b\n", ["a\0b"]),
        (b"\n\n", ["", ""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", [""]),
    ],
)
def test_lines_end_at_newlines_only_and_the_first_may_begin_with_a_mark(
    tmp_path: Path, content: bytes, texts: list[str]
) -> None:
    for name, raw in (("in.txt", content), ("in.txt.gz", gzip.compress(content, mtime=0))):
        (tmp_path / name).write_bytes(raw)
        assert list(lines(tmp_path / name)) == list(enumerate(texts, 1))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\r\n\r\n", ["", ""]),
        (b"\xef\xbb\xbfa\r\n", ["a"]),
        (b"a\r\r\nb\rc\r\n", ["a\r", "b\rc"]),  # one CR is the line's end
        (b"a\r\nb\nc\r\n", ["a", "b", "c"]),  # the first line decides
        (b"a\r\nb\r", ["a", "b\r"]),  # no end of a line
    ],
)
def test_a_file_that_begins_with_a_windows_line_end_is_read_as_one_and_a_note_says_so(
    tmp_path: Path, content: bytes, texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mbr_decode")
    (tmp_path / "in.txt").write_bytes(content)
    assert list(lines(tmp_path / "in.txt")) == list(enumerate(texts, 1))
    assert caplog.messages == [
        f"{tmp_path / 'in.txt'}: lines end with CR LF, as on Windows; the CR is not taken as text"
    ]


def test_a_byte_order_mark_is_kept_on_request(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbfa\n")
    assert list(lines(tmp_path / "in", keep_bom=True)) == [(1, "\ufeffa")]
    assert list(raw_lines(tmp_path / "in", keep_bom=True)) == [(1, b"\xef\xbb\xbfa")]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a\nb\xffc\n", "line 2, byte 2: 0xff"),
        (b"\x80", "line 1, byte 1: 0x80"),
        ("ä\n".encode() + b"\xc3\n", "line 2, byte 1: 0xc3"),
        (b"ok \xed\xa0\x80\n", "line 1, byte 4: 0xed"),  # a surrogate
        (b"ok \xc0\xaf\n", "line 1, byte 4: 0xc0"),  # a slash spelled too long
        ("ä".encode("latin-1"), "line 1, byte 1: 0xe4"),
    ],
)
def test_bad_bytes_are_named_by_file_line_and_byte(tmp_path: Path, content: bytes, place: str) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(lines(path))
    assert str(error.value).startswith(f"{path}, {place} is not valid UTF-8; convert the file")


def test_lines_before_a_bad_byte_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"good\n\xff\n")
    reader = lines(tmp_path / "in")
    assert next(reader) == (1, "good")
    with pytest.raises(InputError):
        next(reader)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip at all", "not a complete gzip file"),
        (gzip.compress(b"a line\n" * 100, mtime=0)[:-9], "was it cut off"),
        (gzip.compress(b"a line\n" * 100, mtime=0)[:20] + b"\0" * 30, "not a complete gzip file"),
        (gzip.compress(b"a line\n", mtime=0) + b"more", "not a complete gzip file"),
    ],
)
def test_a_damaged_gzip_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        list(lines(path))
    assert str(path) in str(error.value)


def test_gzip_goes_by_the_name_not_by_the_content(tmp_path: Path) -> None:
    raw = gzip.compress(b"x\n", mtime=0)
    (tmp_path / "in.txt").write_bytes(raw)
    assert b"\n".join(line for _, line in raw_lines(tmp_path / "in.txt")) == raw.removesuffix(b"\n")


def test_what_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=f"{path}: cannot be read: {reason}"):
            list(lines(path))


def test_a_hyphen_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_bytes(b"one\r\ntwo")
    with (tmp_path / "in").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert list(lines("-")) == [(1, "one"), (2, "two")]
        stream.fileno()  # still open: it is not ours
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed; name a file"):
        list(lines("-"))


# Writing


@settings(deadline=None)
@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.booleans())
def test_what_is_written_is_read_back(texts: list[str], compressed: bool) -> None:
    assume(not texts or not texts[0].endswith("\r"))  # then CR LF ends the lines
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "out.gz" if compressed else "out")
        with atomic_output(path) as stream:
            stream.write("".join(text + "\n" for text in texts).encode())
        assert [text for _, text in lines(path, keep_bom=True)] == texts


def test_the_same_content_gives_the_same_compressed_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with atomic_output(tmp_path / name) as stream:
            stream.write(b"content\n")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert b"a.gz" not in (tmp_path / "a.gz").read_bytes()


@pytest.mark.parametrize("name", ["out.txt", "out.gz"])
@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), InputError("x")])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str, error: BaseException) -> None:
    (tmp_path / name).write_bytes(b"old")

    def write() -> None:
        with atomic_output(tmp_path / name, force=True) as stream:
            stream.write(b"half of the new one")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"old"


def test_nothing_is_under_the_name_before_the_end(tmp_path: Path) -> None:
    with atomic_output(tmp_path / "out") as stream:
        stream.write(b"x" * 100_000)
        stream.flush()
        assert names(tmp_path) == [f".out.{os.getpid()}.tmp"]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["out.txt", "out.gz"])
def test_a_full_disk_is_a_resource_error_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ResourceError, match=f"no space left while writing .*{name}: .*; free some space"),
        largest_file(2000),
        atomic_output(tmp_path / name) as stream,
    ):
        stream.write(os.urandom(100_000))
    assert names(tmp_path) == []


def test_an_existing_file_needs_force_and_a_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(UsageError, match="out exists; give --force to overwrite it"), atomic_output(tmp_path / "out"):
        pytest.fail("it was opened")
    with atomic_output(tmp_path / "out", force=True) as stream:
        stream.write(b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    with pytest.raises(UsageError, match="is a folder; expected the name of a file"):
        refuse_overwrite(tmp_path, force=True)


@pytest.mark.parametrize("place", ["nowhere/out", "file/out", "file/deeper/out"])
def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=f"cannot write .*{place}.*; check the folder"),
        atomic_output(tmp_path / place),
    ):
        pytest.fail("it was opened")
    assert names(tmp_path) == ["file"]


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/behind")
    (tmp_path / "chain").symlink_to("link")
    for content, force in ((b"first", False), (b"second", True)):
        with atomic_output(tmp_path / "chain", force=force) as stream:
            stream.write(content)
        assert (tmp_path / "folder" / "behind").read_bytes() == content
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "chain").is_symlink()
    assert names(tmp_path / "folder") == ["behind"]


def test_pipes_devices_and_streams_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/null"), Path("/dev/full")):
        with pytest.raises(UsageError, match="is a (pipe|device), which is never"), atomic_output(path, force=True):
            pytest.fail("it was opened")
    for name in ("/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2"):
        with pytest.raises(UsageError, match="leave out -o to write to standard output"):
            regular_target(Path(name))
    assert (tmp_path / "pipe").is_fifo()


def test_a_loop_of_links_and_names_that_the_system_refuses_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("there")
    (tmp_path / "there").symlink_to("here")
    for path, message in (
        (tmp_path / "here", "is a symbolic link that leads back to itself; give another name"),
        (tmp_path / "here" / "out", "leads back to itself"),
        (tmp_path / ("x" * 250), "File name too long"),  # it would fit, but not what is written beside it
        (tmp_path / ("x" * 300), "File name too long"),
        ("a\0b", "is no name of a file: embedded null byte; give another name"),
    ):
        with pytest.raises(UsageError, match=message):
            check_output(path, force=True)
    assert names(tmp_path) == ["here", "there"]


def test_inputs_are_no_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "in").write_bytes(b"x")
    (tmp_path / "link").symlink_to("folder/in")
    (tmp_path / "hard").hardlink_to(tmp_path / "folder" / "in")
    monkeypatch.chdir(tmp_path)
    inputs = ["-", None, "folder/in", "missing"]
    for name in ("folder/in", "link", "hard", "folder/../folder/in"):
        with pytest.raises(UsageError, match=f"{name} is .* the input folder/in, which would be overwritten; give"):
            check_output(name, force=True, inputs=inputs)
    with pytest.raises(UsageError, match="the input folder, which would be overwritten"):
        check_output("folder/in", force=True, inputs=["folder"])
    with open("folder/in") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UsageError, match="standard input, which would be overwritten"):
            check_output("link", force=True, inputs=inputs[:1])
    for name in ("new", "folder/new", "missing"):
        assert check_output(name, inputs=[*inputs, "folder"]) == (tmp_path / name).resolve()


def test_an_output_folder_is_new_or_a_folder_that_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "model").mkdir()
    assert check_output(tmp_path / "model", folder=True) == tmp_path / "model"
    assert check_output(tmp_path / "new" / "deep" / "folder", folder=True) == tmp_path / "new" / "deep" / "folder"
    for path, inputs, message in (
        (tmp_path / "file", [], "is a file; expected the name of a folder"),
        (tmp_path / "file" / "new", [], "cannot write .*: Not a directory; check the folder"),
        (tmp_path / "model", [tmp_path / "model"], "would be overwritten"),
        (tmp_path, [tmp_path / "model"], "would be overwritten"),
    ):
        with pytest.raises(UsageError, match=message):
            check_output(path, folder=True, inputs=inputs)
    assert names(tmp_path) == ["file", "model"]


def test_errors_of_other_files_are_not_blamed_on_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_output(tmp_path / "out"):
        (tmp_path / "missing").read_bytes()
    with (
        pytest.raises(ResourceError, match="no space left while writing .*first:"),
        largest_file(20_000),
        atomic_output(tmp_path / "first") as first,
        atomic_output(tmp_path / "second"),
    ):
        first.write(b"x" * 30_000)
    assert names(tmp_path) == []


def test_errors_of_libraries_in_rust_carry_the_number_of_the_system() -> None:
    with pytest.raises(ResourceError, match="no space left while writing out: No space"), disk_errors("out"):
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    with pytest.raises(RuntimeError, match="something else"), disk_errors("out"):
        raise RuntimeError("something else")


def test_only_the_debris_of_dead_processes_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        dead = process.pid
    kept = ["out", ".out.mine.tmp", f".out.{os.getpid()}.tmp", f".out.txt.{dead}.tmp", f"out.{dead}.tmp"]
    for name in [*kept, f".out.{dead}.tmp"]:
        (tmp_path / name).touch()
    remove_debris(tmp_path / "out")
    assert names(tmp_path) == sorted(kept)
    (tmp_path / f".out.{dead}.tmp").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to("../out")
    remove_debris(tmp_path / "elsewhere" / "link")
    assert not (tmp_path / f".out.{dead}.tmp").exists(), "debris is beside the file, not beside the link"
    remove_debris(tmp_path / "nowhere" / "out")


@pytest.mark.parametrize(
    ("number", "kind"),
    [("ENOSPC", ResourceError), ("EDQUOT", ResourceError), ("EFBIG", ResourceError), ("ENOENT", UsageError),
     ("EACCES", UsageError), ("EROFS", UsageError), ("ENOTDIR", UsageError), ("EPERM", UsageError),
     ("EIO", OSError), ("EPIPE", BrokenPipeError)],
)  # fmt: skip
def test_errors_of_the_disk_have_their_types_and_keep_their_cause(number: str, kind: type[Exception]) -> None:
    code = getattr(errno, number)
    with pytest.raises(kind) as error, disk_errors(Path("out")):
        raise OSError(code, os.strerror(code))
    if isinstance(error.value, MbrError):
        assert os.strerror(code) in str(error.value)
        assert isinstance(error.value.__cause__, OSError)
    else:
        assert error.value.errno == code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "fits"),
    [("a b-ä語😀", True), ("", True), ("a\tb", False), ("a\nb", False), ("\x1b[1m", False), ("\udcff", False),
     ("\u2028", False), ("\u00a0", True)],
)  # fmt: skip
def test_names_for_tables_hold_no_control_character(name: str, fits: bool) -> None:
    assert printable(name) is fits


def test_lines_are_streamed(tmp_path: Path) -> None:
    """A pipe that stays open gives its first line at once."""
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDWR)
    with io.FileIO(descriptor, "w") as writer:
        writer.write(b"first\n" + b"x" * io.DEFAULT_BUFFER_SIZE)
        assert next(lines(tmp_path / "pipe")) == (1, "first")
