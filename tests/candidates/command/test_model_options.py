"""Model options: written once, passed on only where the user gave them."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from candidates.command.model_options import (
    CHECKPOINT,
    HUB,
    OPTIONS,
    RUNNING,
    add_model_options,
    model_options,
)
from candidates.command.numbers import check_numbers
from candidates.common.errors import UsageError
from pear.runtime.options import LibraryOptions


def parse(*words: str, which: tuple[str, ...] = tuple(OPTIONS)) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_model_options(parser, "model", which)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--offline"], {"offline": True}),
        (["--model", "a", "--threads", "2"], {"model": "a", "threads": 2}),
        (["--batch-tokens", "64", "--dtype", "int8"], {"dtype": "int8", "batch_tokens": 64}),
        (
            ["--cache-dir", "x", "--dtype", "bf16", "--device", "cpu"],
            {"cache_dir": "x", "device": "cpu", "dtype": "bf16"},
        ),
    ],
)
def test_only_options_that_were_given_are_passed_on(words: list[str], options: dict[str, Any]) -> None:
    assert model_options(parse(*words)) == options


def test_a_command_passes_on_only_its_own_options() -> None:
    options = parse("--model", "a", "--device", "cpu", which=("model", "device"))
    assert model_options(options, RUNNING) == {"device": "cpu"}
    assert not hasattr(parse(which=HUB), "encoder")


def test_groups_cover_all_options_and_those_of_every_metric() -> None:
    assert {*CHECKPOINT, *HUB, *RUNNING, "backend"} == set(OPTIONS) == set(LibraryOptions.__annotations__)


@pytest.mark.parametrize("option", ["--threads", "--batch-tokens"])
def test_numbers_of_a_model_are_positive(option: str) -> None:
    with pytest.raises(UsageError, match=f"^{option} 0 is not a positive number$"):
        model_options(parse(option, "0"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trials": -1}, "--trials -1 is negative"),
        ({"nbest": 0}, "--nbest 0 is not a positive number"),
    ],
)
def test_numbers_out_of_range_are_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}$"):
        check_numbers(argparse.Namespace(**values), positive=["nbest"], not_negative=["trials"])


@pytest.mark.parametrize("values", [{"trials": 0, "nbest": 1}, {"trials": None, "nbest": None}, {}])
def test_numbers_in_range_and_options_left_out_pass(values: dict[str, int | None]) -> None:
    check_numbers(argparse.Namespace(**values), positive=["nbest"], not_negative=["trials"])
