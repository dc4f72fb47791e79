"""Candidate lists are made once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from candidates import Settings, open_generator, read_lists
from candidates.formats import Record
from candidates.generation import Generator
from candidates.kept import keep_lists

pytestmark = pytest.mark.one_world

SOURCES = ["Tom is sick.", "", "I have no money.", "Where do you live?"]


class Counting(Generator):
    """A real generator that counts its lists, and may be interrupted."""

    def __init__(self, inner: Generator, stop_after: int | None = None) -> None:
        super().__init__()
        self.inner, self.settings, self.made, self.stop_after = inner, inner.settings, 0, stop_after

    def described(self) -> dict[str, object]:
        return self.inner.described()

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        for record in self.inner.generate(sources, skip=skip):
            if self.made == self.stop_after:
                raise KeyboardInterrupt
            self.made += 1
            yield record


def test_lists_are_made_once_for_all_runs(tmp_path: Path) -> None:
    with open_generator(Settings(nbest=4)) as inner:
        generator = Counting(inner)
        first = keep_lists(generator, SOURCES, tmp_path / "lists")
        again = keep_lists(generator, SOURCES, tmp_path / "lists")
        assert (first.reused, again.reused, generator.made) == (False, True, 4)
        assert first.path == again.path
        assert first.seconds == again.seconds is not None
        assert [len(item) for item in read_lists(first.path)] == [4, 1, 4, 4]
        assert list(read_lists(first.path)) == list(inner.generate(SOURCES))
        assert keep_lists(generator, SOURCES[:2], tmp_path / "lists").path != first.path
    with open_generator(Settings(nbest=3)) as other:
        assert not keep_lists(other, SOURCES, tmp_path / "lists").reused


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    with open_generator(Settings(nbest=4, method="sample")) as inner:
        whole = keep_lists(inner, SOURCES, tmp_path / "whole").path.read_bytes()
        with pytest.raises(KeyboardInterrupt):
            keep_lists(Counting(inner, stop_after=2), SOURCES, tmp_path / "lists")
        assert not list((tmp_path / "lists").glob("*.jsonl"))
        rest = Counting(inner)
        kept = keep_lists(rest, SOURCES, tmp_path / "lists")
    assert kept.path.read_bytes() == whole
    assert rest.made == 2
    assert kept.seconds is None  # it would be the cost of a part


@pytest.mark.parametrize("damage", ["a byte", "cut", "no description", "junk", "a list"])
def test_damaged_lists_are_named_and_made_again(tmp_path: Path, damage: str) -> None:
    warnings: list[str] = []
    with open_generator(Settings(nbest=4)) as inner:
        generator = Counting(inner)
        kept = keep_lists(generator, SOURCES, tmp_path)
        whole, about = kept.path.read_bytes(), kept.path.with_suffix(".json")
        if damage == "a byte":
            kept.path.write_bytes(whole.replace(b"Tom", b"Tim"))
        elif damage == "cut":
            kept.path.write_bytes(whole[:-20])
        elif damage == "no description":
            about.unlink()
        else:
            about.write_text({"junk": "\0", "a list": "[1]"}[damage])
        for _ in range(2):
            assert keep_lists(generator, SOURCES, tmp_path, warn=warnings.append).path.read_bytes() == whole
    assert generator.made == 8
    assert warnings == [f"{kept.path}: the kept candidate lists are damaged; they are generated again"]


@pytest.mark.parametrize("damage", ["junk", "digest", "shorter"])
def test_lists_of_an_interrupted_run_that_cannot_go_on_are_made_again(tmp_path: Path, damage: str) -> None:
    warnings: list[str] = []
    with open_generator(Settings(nbest=4)) as inner:
        whole = keep_lists(inner, SOURCES, tmp_path / "whole").path.read_bytes()
        with pytest.raises(KeyboardInterrupt):
            keep_lists(Counting(inner, stop_after=2), SOURCES, tmp_path / "lists")
        (progress,) = (tmp_path / "lists").glob("*.progress")
        if damage == "junk":
            progress.write_bytes(b"junk\n")
        elif damage == "digest":
            progress.write_text(re.sub(r'("digest": )"\w*', r'\1"00', progress.read_text()))
        else:
            progress.with_suffix(".partial").write_bytes(b"")
        kept = keep_lists(inner, SOURCES, tmp_path / "lists", warn=warnings.append)
    assert kept.path.read_bytes() == whole
    assert len(warnings) == 1
    assert "cannot be continued, so its candidate lists are generated again" in warnings[0]
    assert sorted(path.suffix for path in (tmp_path / "lists").iterdir()) == [".json", ".jsonl"]
