"""Tables of names: ours, those of plug-ins, and what is said of a broken one."""

from __future__ import annotations

import argparse
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pytest

from candidates.common import plugins
from candidates.common.errors import EnvironmentProblem, UsageError
from candidates.common.plugins import LazyTable, check_options, option_names
from tests.support.plug_in import write_plug_in

GROUP = "mbr_decode.test_shapes"
TABLE = LazyTable("shape", {"counter": "collections:Counter", "ordered": "collections:OrderedDict"}, GROUP)


def test_a_name_stands_for_what_the_table_says() -> None:
    assert TABLE.names() == list(TABLE) == ["counter", "ordered"]
    assert TABLE.load("counter") is Counter
    assert TABLE.load("ordered", dict) is OrderedDict


def test_built_in_names_search_no_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(group: str) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(plugins, "entry_points", search)
    assert "counter" in TABLE
    assert TABLE.load("counter") is Counter
    with pytest.raises(AssertionError, match="searched"):
        TABLE.load("other")


def test_an_unknown_name_is_a_usage_error_with_all_names() -> None:
    with pytest.raises(UsageError, match="shape 'round' is unknown; expected one of counter, ordered$"):
        TABLE.load("round")


def test_a_plug_in_comes_after_ours_and_never_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("round", "counter"):
        write_plug_in(tmp_path, name, "", GROUP, "fractions:Fraction")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert TABLE.names() == ["counter", "ordered", "round"]
    assert TABLE.load("round").__name__ == "Fraction"
    assert TABLE.load("counter") is Counter


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere_at_all:X", r"shape plug-in 'round' \(nowhere_at_all:X\) cannot be loaded: No module"),
        ("round:missing", "cannot be loaded: .*missing"),
        ("round", "cannot be loaded|no subclass of dict or list"),
        ("fractions:Fraction", "the shape 'round' is .*Fraction.*, no subclass of dict or list; .*docs/plug-ins.md"),
    ],
)
def test_a_broken_plug_in_is_a_problem_of_the_environment_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    write_plug_in(tmp_path, "round", "import sys\n", GROUP, target)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=message):
        TABLE.load("round", dict, list)


def test_a_plug_in_that_fails_while_it_is_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plug_in(tmp_path, "falling", "1 / 0\n", GROUP, "falling:X")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="'falling'.*division by zero"):
        TABLE.load("falling")


def test_a_table_serves_as_choices_of_an_option() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--shape", choices=TABLE)
    assert parser.parse_args(["--shape", "ordered"]).shape == "ordered"
    assert "{counter,ordered}" in parser.format_help()
    with pytest.raises(argparse.ArgumentError, match="'counter'|counter, ordered"):
        parser.parse_args(["--shape", "round"])


def test_the_options_of_an_entry_are_its_arguments() -> None:
    class Table(TypedDict, total=False):
        depth: int

    def function(model: str, *, width: int = 1, **options: Unpack[Table]) -> None: ...

    function.__annotations__["options"] = Unpack[Table]
    assert option_names(function) == ["model", "width", "depth"]
    assert option_names(lambda a, *, b=1: None) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["depth"], "shape 'round' has no option 'depth' .it takes model, width, device."),
        ([], "shape 'round' needs the option 'model', which has no default; give it .model=VALUE."),
    ],
)
def test_options_are_those_an_entry_takes_and_all_it_needs(options: list[str], message: str) -> None:
    def function(model: str, *, width: int = 1, device: str, **more: int) -> None: ...

    with pytest.raises(UsageError, match=message):
        check_options("shape 'round'", function, options, elsewhere=["device"])
    check_options("shape 'round'", function, ["model"], elsewhere=["device"])
    with pytest.raises(UsageError, match="needs the option 'device'"):
        check_options("shape 'round'", function, ["model", "width"])
