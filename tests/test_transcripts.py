"""What the documentation shows is what its commands print, and how-to guides can be followed word for word."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.support.processors import other_processor
from benchmarks.transcripts import (
    ELSEWHERE,
    PAGES,
    Step,
    fingerprints,
    is_guide,
    missing,
    outdated,
    prepare,
    renewed,
    run,
    same,
    steps,
)
from candidates.common.words import counted
from tests.conftest import ROOT
from tests.support.pages import page

pytestmark = pytest.mark.one_world

SHOWING = [file for file in PAGES if is_guide(file) or steps(file.read_text(encoding="utf-8"))]


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", [file for file in SHOWING if _name(file) not in ELSEWHERE], ids=_name)
def test_a_page_shows_what_its_commands_print(file: Path, tmp_path: Path) -> None:
    """`python -m benchmarks.transcripts --write` writes what they print now."""
    text = file.read_text(encoding="utf-8")
    if lacking := missing(text):
        pytest.skip(lacking)
    prepare(tmp_path)
    found = steps(text, whole=is_guide(file))
    assert found, f"{file.name} has no commands that can be run here"
    different = []
    for step in found:
        printed = run(step, tmp_path)
        if step.shown is not None and not same(step, printed):
            different.append(f"{step.commands}\n{step.shown}\n{printed}")
    if different and other_processor():
        pytest.skip(f"{counted(len(different), 'transcript')} of {_name(file)} differ: {other_processor()}")
    assert not different, different[0]


def test_pages_whose_transcripts_are_run_elsewhere_still_have_some() -> None:
    assert set(ELSEWHERE) <= {_name(file) for file in SHOWING}


def test_fingerprints_on_pages_are_those_of_the_bundled_models() -> None:
    current = fingerprints()
    assert len(current) == 3
    wrong = {_name(file): outdated(file.read_text(encoding="utf-8"), current) for file in PAGES}
    assert not {name: old for name, old in wrong.items() if old}


def test_what_pages_install_is_what_the_package_offers() -> None:
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    commands = [line for file in PAGES for line in re.findall(r"pip install ('?\.[^\s`]*)", page(_name(file)))]
    assert len(commands) >= 6
    for target in commands:
        named = re.fullmatch(r"'?\.(?:\[([a-z,-]+)\])?'?", target)
        assert named, target
        assert set(filter(None, (named[1] or "").split(","))) <= set(extras), target


def test_commands_run_as_on_a_processor_without_vnni_unless_they_take_the_variable_out(tmp_path: Path) -> None:
    assert run(Step("echo ${ONEDNN_MAX_CPU_ISA:-none}"), tmp_path) == "AVX2\n"
    assert run(Step("env -u ONEDNN_MAX_CPU_ISA bash -c 'echo ${ONEDNN_MAX_CPU_ISA:-none}'"), tmp_path) == "none\n"


PAGE = """\
```sh
a
```

```text
printed
```

```sh title="needs a GPU"
b
```

```text
not a transcript
```

```text
$ c \\
  d
one
...
last 5
```

<!-- prints: e | head -1 -->
```json
{"id": 1}
```

```sh
f
```
"""


def test_transcripts_are_read_off_a_page() -> None:
    shown = [(step.commands, step.kind, step.shown) for step in steps(PAGE)]
    assert shown == [
        ("a\n", "text", "printed\n"),
        ("c \\\n  d\n", "text", "one\n...\nlast 5\n"),
        ("e | head -1", "json", '{"id": 1}\n'),
    ]
    assert [step.commands for step in steps(PAGE, whole=True)] == ["a\n", "c \\\n  d\n", "e | head -1", "f\n"]
    for step in steps(PAGE):
        assert PAGE[slice(*step.span)] == step.shown


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a 1.00\n", "a 1.01\n", True),
        ("a 1.00\n", "a 1.2\n", False),
        ("44 of 435 pairs\n", "11 of 435 pairs\n", False),
        ("done in 5 s\n", "done in 77.2 s\n", True),
        ("a   b\n", "a b\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\nc\n...\nz\n", "a\nb\nc\nd\nz\n", True),
        ("a\n...\nz\n", "a\nb\nz\nq\n", False),
        ("a\n...\n", "a\nb\n", True),
        ("en-de@12345678\n", "en-de@12345679\n", False),
    ],
)
def test_words_must_be_equal_and_numbers_close(shown: str, printed: str, equal: bool) -> None:
    assert same(Step("", "text", shown), printed) is equal


def test_a_renewed_block_keeps_its_elisions_and_its_record() -> None:
    step = Step("", "text", "old 1\n...\nwhy\n  this\n...\nend 3\n")
    printed = "new 1\nx\nwhy\n  that\ny\nend 4\nafter\n"
    assert renewed(step, printed) == "new 1\n...\nwhy\n  that\n...\nend 4\nafter\n"
    assert same(Step("", "text", renewed(step, printed)), printed)
    record = renewed(Step("", "json", '{"id": 2, "x": 1}'), '{"id": 1}\n{"id": 2, "x": 3}\n')
    assert record == '{"id": 2, "x": 3}\n'
