"""Run configurations: a file of options is weaker than flags, and a saved one is read back as it was."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from candidates.command.config import config_path, finished_with, save_config, with_config, with_run_file
from candidates.command.console import Parser
from candidates.common.errors import InputError, UsageError


def parser() -> Parser:
    made = Parser("mbr-test", "A command with one option of every kind.", "quick start:")
    made.add_argument("--config")
    made.add_argument("-o", "--output")
    made.add_argument("--utility", default="pear")
    made.add_argument("--batch-tokens", "--tokens", dest="budget", type=int)
    made.add_argument("--prior", type=float)
    made.add_argument("--offline", action="store_true")
    made.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True)
    made.add_argument("--add", action="append")
    made.add_argument("--systems", nargs="+", action="extend")
    made.add_argument("--judge", nargs="+")
    made.add_argument("--force", action="store_true")
    made.add_argument("--resume", action="store_true")
    made.add_argument("--quiet", action="store_true")
    return made


def parse(folder: Path, content: str | bytes, *words: str) -> argparse.Namespace:
    file = folder / "run.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    options: argparse.Namespace = parser().parse_args(with_config(parser(), ["--config", str(file), *words]))
    return options


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", {"utility": "pear"}),
        ("# only a comment\n", {"utility": "pear"}),
        ("utility: chrf\n", {"utility": "chrf"}),
        ("utility: null\n", {"utility": "pear"}),
        ("batch-tokens: 10\n", {"budget": 10}),
        ("batch_tokens: 10\n", {"budget": 10}),
        ("tokens: 10\n", {"budget": 10}),
        ("budget: 10\n", {"budget": 10}),
        ("prior: -0.5\n", {"prior": -0.5}),
        ("prior: 1e-3\n", {"prior": 0.001}),
        ("output: out.txt\n", {"output": "out.txt"}),
        ("output: --odd name\n", {"output": "--odd name"}),
        ("utility: 'a=b c'\n", {"utility": "a=b c"}),
        ("offline: true\n", {"offline": True}),
        ("offline: false\n", {"offline": False}),
        ("shuffle: true\n", {"shuffle": True}),
        ("shuffle: false\n", {"shuffle": False}),
        ("add: [a=1, b=2]\n", {"add": ["a=1", "b=2"]}),
        ("add: a=1\n", {"add": ["a=1"]}),
        ("systems:\n- a.txt\n- b c.txt\n", {"systems": ["a.txt", "b c.txt"]}),
        ("systems: a.txt\n", {"systems": ["a.txt"]}),
        ("judge: [chrf, bleu]\n", {"judge": ["chrf", "bleu"]}),
        ("judge: chrf\n", {"judge": ["chrf"]}),
    ],
)
def test_a_file_gives_what_flags_would_give(tmp_path: Path, content: str, expected: dict[str, Any]) -> None:
    options = parse(tmp_path, content)
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("content", "words", "expected"),
    [
        ("utility: chrf\n", ("--utility", "bleu"), {"utility": "bleu"}),
        ("batch-tokens: 10\n", ("--batch_tokens=20",), {"budget": 20}),
        ("shuffle: false\n", ("--shuffle",), {"shuffle": True}),
        ("shuffle: true\n", ("--no-shuffle",), {"shuffle": False}),
        ("judge: [a, b]\n", ("--judge", "c"), {"judge": ["c"]}),
        ("systems: [a, b]\n", ("--systems", "c", "--systems", "d"), {"systems": ["c", "d"]}),
        ("add: [a=1]\n", ("--add=b=2",), {"add": ["b=2"]}),
        ("add: [a=1]\nsystems: [x]\n", ("--systems", "y"), {"add": ["a=1"], "systems": ["y"]}),
        ("utility: chrf\nprior: 2\n", ("--prior", "3"), {"utility": "chrf", "prior": 3.0}),
    ],
)
def test_flags_are_stronger_than_the_file(
    tmp_path: Path, content: str, words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    options = parse(tmp_path, content, *words)
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("speed: 9\n", UsageError, "unknown option 'speed'; expected names as in mbr-test --help"),
        ("true: 9\n", UsageError, "unknown option True"),
        ("'': 9\n", UsageError, "unknown option ''"),
        ("config: other.yaml\n", UsageError, "unknown option 'config'"),
        ("help: true\n", UsageError, "unknown option 'help'"),
        ("offline: 1\n", UsageError, "offline is true or false, found 1"),
        ("offline: 'yes'\n", UsageError, "offline is true or false, found 'yes'"),
        ("shuffle: maybe\n", UsageError, "shuffle is true or false, found 'maybe'"),
        ("utility: [a, b]\n", UsageError, r"utility takes one value, found \['a', 'b'\]"),
        ("utility: {a: b}\n", UsageError, "utility takes one value, found {'a': 'b'}"),
        ("judge: {a: b}\n", UsageError, "judge takes one value, found {'a': 'b'}"),
        ("batch-tokens: many\n", UsageError, "invalid int value: 'many'"),
        ("- utility\n", InputError, "expected lines like `utility: pear`"),
        ("just words\n", InputError, "expected lines like `utility: pear`"),
        ("a: [\n", InputError, "not plain YAML"),
        ("a: !!python/object:os.system x\n", InputError, "not plain YAML"),
        (b"utility: \xff\n", InputError, "not plain YAML"),
        ("utility: \x00\n", InputError, "not plain YAML"),
        ("[" * 5000, InputError, "not plain YAML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    tmp_path: Path, content: str | bytes, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        parse(tmp_path, content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.yaml: cannot be read: No such file"):
        with_config(parser(), ["--config", str(tmp_path / "none.yaml")])
    with pytest.raises(UsageError, match="--config"):
        with_config(parser(), ["--config"])


def test_without_a_file_the_words_stay_as_they_are() -> None:
    words = ["--utility", "chrf", "--conf", "x"]
    assert with_config(parser(), words) == words
    assert with_run_file(parser(), words, None) == words


def test_a_run_file_is_read_as_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("utility: chrf\n")
    words = with_run_file(parser(), ["--prior", "2"], str(tmp_path / "run.yaml"))
    assert words == ["--utility=chrf", "--prior", "2"]


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), min_size=1)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "utility": TEXTS,
        "budget": st.integers(),
        "prior": st.floats(allow_nan=False, allow_infinity=False),
        "offline": st.booleans(),
        "add": st.lists(TEXTS, min_size=1),
        "systems": st.lists(TEXTS, min_size=1),
    },
)


@settings(deadline=None, max_examples=60)
@given(values=SETTINGS)
def test_a_saved_configuration_is_read_back(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    output = tmp_path_factory.mktemp("run") / "out"
    options = parser().parse_args([])
    vars(options).update(values)
    save_config(output, options, "MBR|utility:x", 3)
    back = parser().parse_args(with_config(parser(), ["--config", str(config_path(output))]))
    assert vars(back) | {"config": None} == vars(options)


def test_a_saved_configuration_says_what_and_not_how(tmp_path: Path) -> None:
    options = parser().parse_args(["--utility", "chrf", "--force", "--resume", "--quiet", "--offline"])
    save_config(tmp_path / "out.txt", options, "MBR|utility:chrf", 2)
    assert config_path(tmp_path / "out.txt").name == "out.txt.run.yaml"
    assert config_path(tmp_path / "out.txt").read_text() == (
        "# MBR|utility:chrf\n# 2 segments failed\noffline: true\nshuffle: true\nutility: chrf\n"
    )


def test_a_finished_run_is_recognised_by_its_options(tmp_path: Path) -> None:
    output, other = tmp_path / "out", tmp_path / "more"
    options = parser().parse_args(["--utility", "chrf"])
    assert finished_with(output, options, []) is None
    save_config(output, options, "MBR|utility:chrf", 2)
    assert finished_with(output, options, []) is None, "a configuration without its output"
    output.touch()
    assert finished_with(output, options, []) == 2
    assert finished_with(output, parser().parse_args(["--utility", "chrf", "--quiet"]), []) == 2
    assert finished_with(output, parser().parse_args(["--utility", "bleu"]), []) is None
    assert finished_with(output, options, [other]) is None
    other.touch()
    assert finished_with(output, options, [other]) == 2
    (tmp_path / "out.progress").touch()
    (tmp_path / "out.partial").touch()
    assert finished_with(output, options, [other]) is None, "a later run was interrupted"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\n",
        b"\xff\xff",
        b"shuffle: true\nutility: chrf\n",
        b"# a\n# some segments failed\nshuffle: true\nutility: chrf\n",
    ],
)
def test_a_configuration_that_is_not_ours_is_no_finished_run(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "out").touch()
    config_path(tmp_path / "out").write_bytes(damage)
    assert finished_with(tmp_path / "out", parser().parse_args(["--utility", "chrf"]), []) is None
