"""Fingerprints of files are remembered as long as the files are the same, and only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from candidates.common.cache import cache_folder
from pear.checkpoint import load_checkpoint
from pear.runtime import encoders, stamps
from pear.runtime.stamps import MOST_FILES, Stamp, remembered


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file in a folder of its own, and an empty cache that trusts new files."""
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stamps, "RECENT", -1.0)
    weights = tmp_path / "model" / "checkpoints" / "model.ckpt"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"first")
    return tmp_path / "model"


class Counted:
    """Returns a word, and counts how often it was asked."""

    def __init__(self, word: str) -> None:
        self.word, self.calls = word, 0

    def __call__(self) -> str:
        self.calls += 1
        return self.word


def name_of(model: Path, word: str = "abc", key: bytes = b"key") -> tuple[str, int]:
    compute = Counted(word)
    return remembered(Stamp.of(model), key, compute), compute.calls


def test_a_word_is_computed_once_for_the_same_files_and_key(model: Path) -> None:
    assert name_of(model) == ("abc", 1)
    assert name_of(model, "other") == ("abc", 0)
    assert name_of(model, "other", b"another key") == ("other", 1)


def test_a_file_of_the_same_size_with_other_content_is_another(model: Path) -> None:
    file = model / "checkpoints" / "model.ckpt"
    before = file.stat()
    assert name_of(model) == ("abc", 1)
    file.write_bytes(b"other")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert name_of(model, "def") == ("def", 1)
    file.write_bytes(b"third")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # set back: the time of the change remains
    assert name_of(model, "ghi") == ("ghi", 1)
    shutil.copytree(model, model.parent / "copy")
    assert name_of(model.parent / "copy", "jkl") == ("jkl", 1)


def test_files_that_change_while_they_are_read_or_changed_just_now_are_not_remembered(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = Stamp.of(model)
    (model / "checkpoints" / "model.ckpt").write_bytes(b"while it is read")
    for word in ("one", "two"):
        assert remembered(stamp, b"key", Counted(word)) == word
    monkeypatch.setattr(stamps, "RECENT", 1000.0)
    assert [name_of(model, word) for word in ("one", "two")] == [("one", 1), ("two", 1)]
    assert not (cache_folder() / "fingerprints").exists()


def test_a_damaged_note_is_made_again(model: Path) -> None:
    name_of(model)
    (note,) = (cache_folder() / "fingerprints").iterdir()
    whole = note.read_bytes()
    for damage in (b"", b"\xff\xfe", b"abc", whole.replace(b"abc", b"abd"), whole[:-3], whole + b"x"):
        note.write_bytes(damage)
        assert name_of(model) == ("abc", 1)
        assert note.read_bytes() == whole
    other = note.with_name("0" * len(note.name))  # the note of other files
    note.rename(other)
    shutil.copy(other, note)
    assert name_of(model) == ("abc", 0)
    other_model, _ = name_of(model, "def", b"another key")
    assert other_model == "def"


def test_a_cache_that_cannot_be_used_changes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "blocked"))
    assert [name_of(model) for _ in range(2)] == [("abc", 1)] * 2

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(stamps, "cache_folder", homeless)
    assert name_of(model) == ("abc", 1)


def test_folders_of_many_files_and_missing_ones_have_no_stamp(model: Path, tmp_path: Path) -> None:
    for number in range(MOST_FILES):
        (model / f"{number}.txt").touch()
    for root in (model, tmp_path / "nothing"):
        assert Stamp.of(root).text is None
        assert name_of(root) == ("abc", 1)


def test_a_local_checkpoint_is_digested_once(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stamps, "RECENT", -1.0)
    folder = tmp_path / "model"
    shutil.copytree(ours, folder)
    few = load_checkpoint(folder).name
    assert not (tmp_path / "cache").exists()  # few weights are digested at once
    monkeypatch.setattr(encoders, "FEW_WEIGHTS", 0)
    assert load_checkpoint(folder).name == few
    digested: list[str] = []

    def counted(stamp: Stamp, key: bytes, compute: Callable[[], str]) -> str:
        return remembered(stamp, key, lambda: digested.append("once more") or compute())  # type: ignore[func-returns-value]

    monkeypatch.setattr(encoders, "remembered", counted)
    assert load_checkpoint(folder).name == few
    assert not digested
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-4] ^= 1
    weights.write_bytes(content)
    changed = load_checkpoint(folder).name
    assert changed != few
    assert len(digested) == 1
    shutil.rmtree(tmp_path / "cache")
    assert load_checkpoint(folder).name == changed
