"""Words that agree with numbers."""

from __future__ import annotations

from candidates.common.words import agreeing, counted


def test_nouns_and_verbs_agree_with_numbers() -> None:
    assert [counted(number, "line") for number in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
    assert [counted(number, "weight is", "weights are") for number in (1, 2)] == ["1 weight is", "2 weights are"]
    assert agreeing(["--temperature"], "goes", "go") == "--temperature goes"
    assert agreeing({"--temperature": 1, "--top-k": 2}, "goes", "go") == "--temperature, --top-k go"
