"""Back-ends by name: the table, a plug-in in one file, its options on the commands, and the origin of every list."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from candidates import CandidateList, Generator, Origin, Record, Settings, open_generator, read_lists
from candidates.backends.base import BACKENDS
from candidates.common.errors import EnvironmentProblem, UsageError
from candidates.generation import backend_class, backend_options
from tests.conftest import ROOT, Run
from tests.support.plug_in import write_plug_in

PAGE = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
(ECHO,) = re.findall(r"```python\n(# echo\.py\n.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def echo(tmp_path: Path) -> dict[str, str]:
    """The plug-in of docs/generate.md beside its entry point, and the environment that has it installed."""
    write_plug_in(tmp_path, "echo", ECHO, "mbr_decode.backends", "echo:Echo")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


@pytest.mark.one_world
def test_a_plug_in_in_one_file_makes_lists_for_the_commands(run: Run, echo: dict[str, str], tmp_path: Path) -> None:
    words = ["--nbest", "2", "--translator-backend", "echo", "--translator-option", "times=2"]
    words += ["--translator-option", "upper=true", "--translator-option", 'mark="?"']
    made = run("mbr-generate", *words, "-o", "l.jsonl", stdin="a dog\n\n", env=echo)
    assert made.returncode == 0, made.stderr
    items = [item for item in read_lists(tmp_path / "l.jsonl") if isinstance(item, CandidateList)]
    assert [item.texts for item in items] == [("A DOG??", "A DOG???"), ("",)]
    assert "GENERATE|model:en-de|backend:echo|nbest:2|method:sample|" in made.stderr
    assert "|mark:??|upper:True|" in made.stderr
    again = run("mbr-generate", "--config", "l.jsonl.run.yaml", "-o", "m.jsonl", stdin="a dog\n\n", env=echo)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "m.jsonl").read_bytes() == (tmp_path / "l.jsonl").read_bytes()
    chosen = run("mbr-decode", "--utility", "chrf", *words, stdin="a dog\n\n", env=echo)
    assert (chosen.returncode, chosen.stdout.splitlines()) in ((0, ["A DOG??", ""]), (0, ["A DOG???", ""]))


@pytest.mark.one_world
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["magic"], "invalid choice: 'magic' (choose from"),
        (["echo", "--translator-option", "colour=red"], "'colour'; expected one of its own: mark, times, upper"),
        (["echo", "--concurrency", "3"], "--concurrency does not go with the back-end echo"),
        (["echo", "--translator-option", "times"], "is not KEY=VALUE"),
        (["echo", "--translator-option", "times=[1, 2]"], "is not KEY=VALUE"),
        (["echo", "--translator-option", "times=1", "--translator-option", "times=2"], "given twice"),
    ],
)
def test_options_of_a_back_end_are_checked_on_the_commands(
    run: Run, echo: dict[str, str], words: list[str], message: str
) -> None:
    result = run("mbr-generate", "--nbest", "2", "--backend", *words, stdin="a dog\n", env=echo)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr


def test_a_plug_in_takes_its_options_from_python(
    echo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(BACKENDS) == ["ct2", "hf", "openai", "echo"]
    assert backend_options("echo") == {"mark": False, "times": False, "upper": False}
    with open_generator(Settings(nbest=1), backend="echo", mark=".", times=3, upper=None) as generator:
        (item,) = generator.generate(["a"])
        assert item == generator.listed("a", ["a..."], 0)
    with pytest.raises(UsageError, match="--colour does not go with the back-end echo, which takes --mark, --times"):
        open_generator(Settings(nbest=1), backend="echo", colour="red")


@pytest.mark.parametrize(
    ("code", "target", "message"),
    [
        ("", "nowhere_at_all:X", "back-end plug-in 'broken'.*cannot be loaded"),
        ("class X: pass", "broken:X", "the back-end 'broken' is .*no subclass of Generator"),
    ],
)
def test_a_broken_plug_in_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, target: str, message: str
) -> None:
    write_plug_in(tmp_path, "broken", code, "mbr_decode.backends", target)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=message):
        open_generator(backend="broken")


def test_an_option_that_a_back_end_needs_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from candidates import Generator\nclass Needy(Generator):\n    def __init__(self, a, b, *, key): ..."
    write_plug_in(tmp_path, "needy", code, "mbr_decode.backends", "needy:Needy")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="needy needs key; give --translator-option key=VALUE"):
        open_generator(backend="needy")


@pytest.mark.parametrize("name", BACKENDS.built_in)
def test_every_back_end_of_ours_is_a_generator_of_its_name(name: str) -> None:
    kind = backend_class(name)
    assert (kind.name, issubclass(kind, Generator)) == (name, True)
    assert {"src_lang", "tgt_lang", "split_sentences"} <= backend_options(name).keys()


class Counted(Generator):
    """Lists made in threads; counts how often it is asked to describe itself."""

    name = "counted"

    def __init__(self) -> None:
        super().__init__()
        self.settings, self.descriptions = Settings(nbest=3), 0

    def described(self) -> dict[str, Any]:
        self.descriptions += 1
        return super().described()

    def generate(self, sources: Iterable[str], *, skip: int = 0) -> Iterator[Record]:
        made: dict[int, CandidateList] = {}

        def make(id: int, source: str) -> None:
            made[id] = self.listed(source, ["x"], id) if source else self.blank(source, id)

        threads = [threading.Thread(target=make, args=each) for each in enumerate(sources)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return iter(made[id] for id in sorted(made))


def test_the_origin_of_lists_is_described_once_per_generator() -> None:
    generator = Counted()
    items = list(generator.generate(["a", "", "b"] * 5))
    assert {item.origin for item in items if isinstance(item, CandidateList)} == {Origin.of(generator.described())}
    assert generator.descriptions == 2
    assert [item.counts for item in items[:2] if isinstance(item, CandidateList)] == [(1,), (3,)]


@pytest.mark.parametrize("method", ["beam", "sample", "epsilon"])
def test_lists_of_the_bundled_model_carry_their_origin(method: Any) -> None:
    with open_generator(Settings(nbest=2, method=method, max_length=8), threads=2) as generator:
        items = list(generator.generate(["Where is the station?", ""]))
        expected = generator.described()
    for item in items:
        assert isinstance(item, CandidateList)
        assert item.origin is not None
        assert (item.origin.method, item.origin.translator) == (method, expected["model"])
        assert dict(item.origin.settings) == expected
