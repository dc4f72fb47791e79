"""Candidate lists are made once."""

from __future__ import annotations

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
