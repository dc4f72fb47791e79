"""Every output of every command, led to every kind of place: one table of outcomes.

Commands run in this process, where their libraries are loaded once; those that need standard streams or permissions of
their own run in processes (`warm`). Whatever the outcome: what was there is still what it was, inputs are unchanged,
and nothing temporary is left.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import MbrError
from tests.conftest import Run, write_jsonl
from tests.mbr.metaeval.made import write_set
from tests.mbr.tune.made import made_records
from tests.support.limits import largest_file
from tests.support.random_mt import write_random_translator

GERMAN = ("Ein Hund rennt.", "Der Hund läuft.", "Ein Hund läuft.", "Hunde laufen.")


@dataclass(frozen=True)
class Output:
    """One output of a command; `{}` in its words is the folder of inputs."""

    words: tuple[str, ...]  # without the option that names the output
    option: str = "-o"  # empty: a word of its own
    source: str = ""  # an input that the output could name by mistake
    name: str = "out.txt"
    folder: bool = False
    takes_force: bool = True
    leaves: tuple[str, ...] = ()  # documented traces of a run that a full disk ended; `*` is the output
    room: int = 10  # bytes per file on a disk that is called full

    def command(self, inputs: str, output: str, *more: str) -> list[str]:
        words = [word.format(inputs) for word in self.words]
        return [*words, *([self.option] if self.option else []), output, *more]


CHRF = ("mbr-decode", "--utility", "chrf")
LISTS = (*CHRF, "--candidates", "{}/lists.jsonl")
TEXT = (*CHRF, "--sources", "{}/source.txt", "--nbest", "2")
EVALUATE = ("mbr-evaluate", "--systems", "{}/good.txt", "--references", "{}/good.txt", "--judge", "chrf", "--no-cache")
DRAWS = ("--bootstrap", "0", "--trials", "0")
CORRELATION = ("mbr-metaeval", "correlation", "--data", "{}/data", "--test-set", "wmt99", "--lp", "en-de")
COMPARE = ("mbr-compare", "--candidates", "{}/lists.jsonl", "--references", "{}/good.txt", "--utility", "chrf")
TUNE = ("mbr-tune", "--candidates", "{}/development.jsonl", "--utility", "none", "--add", "logprob", "length")
TRAIN = ("pear-train", "--data", "{}/judgments.csv", "--from", "{}/pear", "--steps", "2", "--batch-tokens", "64")

OUTPUTS = {
    "mbr-decode -o": Output(LISTS, source="lists.jsonl"),
    "mbr-decode --matrix": Output(LISTS, "--matrix", "lists.jsonl", "out.npz"),
    "mbr-decode --save-candidates": Output(TEXT, "--save-candidates", "source.txt", "out.jsonl"),
    "mbr-generate -o": Output(("mbr-generate", "--sources", "{}/source.txt", "--nbest", "2"), source="source.txt"),
    "mbr-generate --convert -o": Output(
        ("mbr-generate", "--convert", "{}/translator"), source="translator", name="out", folder=True
    ),
    "mbr-compare -o": Output(
        (*COMPARE, "--judge", "chrf", "--study", "0", "--no-cache", *DRAWS), name="out", folder=True, leaves=("*",)
    ),
    "mbr-evaluate -o": Output((*EVALUATE, *DRAWS), source="good.txt"),
    "mbr-evaluate --segments": Output((*EVALUATE, *DRAWS), "--segments", "good.txt"),
    "mbr-metaeval -o": Output(CORRELATION, source="data/wmt99/sources/en-de.txt"),
    "mbr-metaeval --plot": Output(CORRELATION, "--plot", "data/wmt99/sources/en-de.txt", "out.svg"),
    "mbr-tune -o": Output((*TUNE, "--bootstrap", "10", "--no-cache"), source="development.jsonl"),
    "mbr-tune --report": Output((*TUNE, "--bootstrap", "10", "--no-cache"), "--report", "development.jsonl"),
    "mbr-tune --parallel -o": Output(("mbr-tune", "--parallel", "{}/pairs.tsv"), source="pairs.tsv", name="out.npz"),
    "pear-score -o": Output(("pear-score", "{}/pairs.tsv", "--model", "{}/pear"), source="pairs.tsv"),
    "pear-convert": Output(
        ("pear-convert", "{}/pear"), "", "pear", "out", folder=True, takes_force=False, room=2000
    ),
    "pear-train -o": Output(
        TRAIN,
        source="judgments.csv", name="out", folder=True, takes_force=False, leaves=("*.training",), room=100,
    ),
}  # fmt: skip

# Kinds of place, and the exit code that each must have.
OUTCOMES = {
    "new": 0,
    "existing": 2,
    "forced": 0,
    "link": 0,
    "dangling link": 0,
    "loop": 2,
    "device": 2,
    "pipe": 2,
    "socket": 2,
    "link to a device": 2,
    "wrong kind": 2,
    "missing folder": 2,
    "file as folder": 2,
    "input": 2,
    "link to an input": 2,
    "full": 5,
}
REFUSED_UNREAD = (
    *("existing", "loop", "device", "pipe", "socket", "link to a device"),
    *("wrong kind", "missing folder", "file as folder"),
)
OTHERWISE = {
    ("pear-convert", "link"): 2,  # a link to a folder: it exists
    ("mbr-generate --convert -o", "link"): 2,
}
LEFT_OUT = {
    ("mbr-compare -o", "input"): "its three files have names of their own; see below",
    ("mbr-compare -o", "link to an input"): "its three files have names of their own; see below",
}


def cases() -> Iterator[Any]:
    for output, row in OUTPUTS.items():
        for kind, code in OUTCOMES.items():
            if row.folder and (kind == "missing folder" or (kind == "forced" and not row.takes_force)):
                continue  # folders are made; there is no --force
            if (output, kind) not in LEFT_OUT:
                yield pytest.param(row, kind, OTHERWISE.get((output, kind), code), id=f"{output}-{kind}")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, ours: Path) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    records = [{"id": number, "source": "A dog runs.", "candidates": list(GERMAN)} for number in range(4)]
    write_jsonl(folder / "lists.jsonl", records)
    write_jsonl(folder / "development.jsonl", made_records(20))
    (folder / "source.txt").write_text("A dog runs.\n")
    (folder / "good.txt").write_text("".join(text + "\n" for text in GERMAN))
    (folder / "pairs.tsv").write_text("src\tmt_0\tmt_1\nA dog runs.\tEin Hund rennt.\tHunde laufen.\n")
    rows = [f"source {number},{text},0.{place}" for number in range(12) for place, text in enumerate(GERMAN)]
    (folder / "judgments.csv").write_text("\n".join(["src,mt,score", *rows]) + "\n")
    write_set(folder / "data")
    write_random_translator("marian", folder / "translator")
    shutil.copytree(ours, folder / "pear")
    return folder


def outcome(words: Sequence[str]) -> tuple[int, str]:
    """Exit code and message; an exception that is none of ours is a bug and passes through."""
    try:
        return import_module(COMMANDS[words[0]]).command(list(words[1:])), ""
    except MbrError as exc:
        return exc.exit_code, str(exc)


def contents(folder: Path) -> dict[str, Any]:
    """Everything below a folder: kinds, targets of links, bytes of files."""
    tree: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        what: Any = os.readlink(path) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
        tree[str(path.relative_to(folder))] = (stat.S_IFMT(mode), what)
    return tree


def make_place(kind: str, path: Path, row: Output, inputs: Path) -> Path:
    """What the name of the output leads to; the file or folder that is to be written."""
    real = path.with_name("real") / path.name
    if kind in ("link", "dangling link"):
        real.parent.mkdir()
        path.symlink_to(real)
        if kind == "link":
            real.mkdir() if row.folder else real.write_text("old")
        return real
    if kind == "loop":
        path.symlink_to("round")
        path.with_name("round").symlink_to(path.name)
    elif kind in ("device", "link to a device"):
        node = path if kind == "device" else path.with_name("node")
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
        if node != path:
            path.symlink_to(node.name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))  # a long name does not fit
    elif kind in ("existing", "forced", "wrong kind"):
        if row.folder != (kind == "wrong kind"):
            path.mkdir()
            for name in ("report.html", "ct2.json", "mbr.json"):
                (path / name).write_text("{}")
        else:
            path.write_text("old")
    elif kind == "file as folder":
        path.parent.write_text("old")
    elif kind == "link to an input":
        path.symlink_to(inputs / row.source)
    return path


@pytest.mark.parametrize(("row", "kind", "code"), list(cases()))
def test_outputs(
    row: Output, kind: str, code: int, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    below = {"missing folder": "nowhere", "file as folder": "file"}.get(kind)
    path = tmp_path / below / row.name if below else tmp_path / row.name
    name = str(inputs / row.source) if kind == "input" else str(path.relative_to(tmp_path))
    real = make_place(kind, path, row, inputs)
    if kind == "forced" and row.folder:
        outcome(row.command(str(inputs), name)) if row.words[1] != "--convert" else make_converted(path)
    before, unread = contents(tmp_path), contents(inputs)
    # What is refused is refused before anything is read: with inputs that do not exist.
    where = str(tmp_path / "gone") if kind in REFUSED_UNREAD else str(inputs)
    more = ("--force",) if row.takes_force and kind not in ("new", "existing", "dangling link", "full") else ()
    with largest_file(row.room) if kind == "full" else nullcontext():
        got, message = outcome(row.command(where, name, *more))
    after = contents(tmp_path)
    assert got == code, message
    assert contents(inputs) == unread
    assert not [name for name in after if name.endswith((".tmp", ".partial", ".progress"))]
    if code == 0:
        assert real.is_dir() if row.folder else real.read_bytes() not in (b"", b"old")
        assert path.is_symlink() == ("link" in kind)
    elif code == 5:
        assert f"no space left while writing {'' if name in message else tmp_path}" in message
        assert path.name in message
        left = [other.replace("*", path.name) for other in row.leaves]
        assert [name for name in after if not name.startswith(tuple(left))] == []
        assert not path.is_file()
    else:
        assert after == before
        assert Path(name).name in message


def make_converted(folder: Path) -> None:
    """What --convert may replace."""
    from candidates.backends.ct2_model import SIDECAR

    (folder / SIDECAR).write_text("{}")


@pytest.mark.parametrize("name", ["report.json", "report.tsv"])
def test_a_report_does_not_overwrite_its_input(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    shutil.copy(inputs / "lists.jsonl", tmp_path / "out" / name)
    words = ("mbr-compare", "--candidates", f"out/{name}", "--input-format", "jsonl", "-o", "out", "--force")
    before = contents(tmp_path)
    code, message = outcome(words)
    assert (code, contents(tmp_path)) == (2, before)
    assert f"the input out/{name}, which would be overwritten" in message


def test_files_beside_an_output_do_not_overwrite_an_input_or_a_device(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in (".partial", ".progress", ".run.yaml"):
        shutil.copy(inputs / "lists.jsonl", tmp_path / f"in{suffix}")
        os.mkfifo(tmp_path / f"pipe{suffix}")
        before = contents(tmp_path)
        for candidates, output in ((f"in{suffix}", "in"), (str(inputs / "lists.jsonl"), "pipe")):
            words = (*CHRF, "--candidates", candidates, "--input-format", "jsonl", "-o", output, "--force")
            code, message = outcome(words)
            assert (code, contents(tmp_path)) == (2, before), message
        (tmp_path / f"pipe{suffix}").unlink()
        (tmp_path / f"in{suffix}").unlink()


@pytest.mark.parametrize(
    "words",
    [
        ("pear-convert", "{}/pear", "out"),
        ("pear-convert", "{}/pear", "out", "--to", "released"),
        ("mbr-generate", "--convert", "{}/translator", "-o", "out"),
        (*TRAIN, "-o", "out"),
        (*LISTS, "-o", "out", "--matrix", "out.npz"),
    ],
    ids=" ".join,
)
def test_a_disk_may_be_full_at_any_file(
    words: tuple[str, ...], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the first file, for the first two, and so on; only what a resumed run goes on with is left."""
    monkeypatch.chdir(tmp_path)
    room, code, messages = 4, 5, set()
    while code:
        room *= 2
        with largest_file(room):
            code, message = outcome([word.format(inputs) for word in words])
        assert code in (0, 5), message
        if code:
            messages.add(message)
            left = set(os.listdir(tmp_path))
            assert left in (set(), {"out.training"}) or "out.progress" in left
            assert not [name for name in left if name in ("out", "out.npz") or name.startswith(".")]
            for name in left:
                shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink()
    assert messages
    assert all("no space left while writing" in message and "out" in message for message in messages)
    assert (tmp_path / "out").exists()


# Standard streams and permissions


def streaming(inputs: Path) -> dict[str, list[str]]:
    """The commands that write to standard output."""
    rows = ("mbr-decode -o", "mbr-generate -o", "mbr-evaluate -o", "mbr-metaeval -o", "pear-score -o")
    words = {row: [word.format(inputs) for word in OUTPUTS[row].words] for row in rows}
    words["mbr-compare"] = OUTPUTS["mbr-compare -o"].command(str(inputs), "out")
    words["mbr-doctor"] = ["mbr-doctor"]
    words["pear-train"] = ["pear-train", "--data", f"{inputs}/judgments.csv", "--statistics-only"]
    words["a list"] = ["mbr-decode", "--list-utilities"]
    words["help"] = ["pear-convert", "--help"]
    return words


STREAMING = tuple(streaming(Path()))


@pytest.mark.parametrize("command", STREAMING)
def test_a_closed_standard_output_is_an_error_before_any_work(
    command: str, inputs: Path, warm: Run, tmp_path: Path
) -> None:
    result = warm(*streaming(inputs)[command], conditions=["closed"])
    assert result.returncode == 2, result.stderr
    assert "standard output is closed; expected a place for the results" in result.stderr
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["mbr-evaluate -o", "pear-score -o", "mbr-doctor"])
def test_a_full_disk_under_standard_output_is_named(command: str, inputs: Path, warm: Run) -> None:
    result = warm(*streaming(inputs)[command], conditions=["full"])
    assert result.returncode == 5, result.stderr
    assert "no space left while writing standard output: No space left on device" in result.stderr


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_folder_without_permission_is_refused_before_any_work(output: str, warm: Run, tmp_path: Path) -> None:
    row = OUTPUTS[output]
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    result = warm(*row.command("gone", f"locked/{row.name}"), conditions=["bound"])
    assert result.returncode == 2, result.stderr
    assert f"cannot write locked/{row.name}: Permission denied; check the folder" in result.stderr
    assert list(locked.iterdir()) == []


ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}


@pytest.mark.parametrize("locale", [ASCII, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_texts_are_utf8_in_every_locale(locale: dict[str, str], run: Run, inputs: Path) -> None:
    words = [word.format(inputs) for word in (*LISTS, "--format", "jsonl")]
    result = run(*words, env={**os.environ, **locale})
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert {json.loads(line)["text"] for line in result.stdout.splitlines()} == {"Ein Hund läuft."}
    table = run(*(word.format(inputs) for word in EVALUATE), env={**os.environ, **locale})
    assert (table.returncode, "±" in table.stdout) == (0, True), table.stderr


def test_messages_survive_an_ascii_terminal(run: Run, tmp_path: Path) -> None:
    words = ("mbr-evaluate", "--systems", "öde.txt", "--references", "öde.txt")
    plain = run(*words, env={**os.environ, **ASCII})
    assert (plain.returncode, plain.stderr.isascii()) == (3, True)
    assert plain.stderr.startswith("mbr-evaluate: error: \\xf6de.txt: cannot be read")
    record = json.loads(run(*words, "--log-format", "json", env={**os.environ, **ASCII}).stderr)
    assert record["message"].startswith("öde.txt: cannot be read")
