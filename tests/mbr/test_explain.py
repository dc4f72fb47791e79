"""`mbr-decode --explain`: the numbers of one decision, its scored pairs and its reasons, as text for people."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates import CandidateList
from candidates.command.colour import ESCAPE
from candidates.common.errors import InputError, UsageError
from mbr.cli.decode.command import command
from mbr.cli.decode.explain import contributions, explanation, wrapped
from mbr.decide import Certainty, Decision
from mbr.matrix import UtilityMatrix
from mbr.recipe import Recipe, TermSpec
from tests.candidates.command.test_help import Terminal
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

RECORDS = [
    {
        "id": "a",
        "source": "A dog runs.",
        "candidates": [
            {"text": text, "logprob": logprob}
            for text, logprob in [("Ein Hund rennt.", -1), ("Ein Hund läuft.", -1.5), ("Der Hund läuft.", -2.5)]
        ],
    },
    {"id": "b", "source": "Hello", "candidates": [{"text": "Hallo", "logprob": -1}]},
    {"id": "2", "source": "Two", "candidates": [{"text": "Zwei", "logprob": -1}, {"text": "Zwo", "logprob": -2}]},
]


@pytest.fixture
def lists(tmp_path: Path) -> str:
    return str(write_jsonl(tmp_path / "l.jsonl", RECORDS))


def explain(lists: str, *words: str) -> int:
    return command(["--utility", "chrf", "--add", "logprob=3", "--candidates", lists, "--quiet", *words])


def made(**changes: Any) -> Decision:
    """Four candidates, the third chosen by its log-probability; two pairs were not scored."""
    values = np.array([[0, 1, 2, 0], [0, 0, 0, 0], [0, 0, 0, -4], [0, 0.5, 0, 0]], np.float32)
    texts = ("first", "second", "chosen", "fourth")
    scored = values != 0
    item = CandidateList.of("source", texts, id="x")
    fields: dict[str, Any] = {
        "id": "x",
        "candidates": item,
        "ranking": (2, 0, 3, 1),
        "expected": np.array([1.0, -1.0, 0.5, 0.2]),
        "scores": np.array([2.0, -2.0, 3.0, 0.4]),
        "terms": {"logprob": np.array([0.0, 0.0, 1.0, 0.0])},
        "passes": int(scored.sum()),
        "certainty": Certainty(0.05, 2),
        "matrix": UtilityMatrix(values, scored, "pear", "antisymmetric", int(scored.sum()), "x", texts),
    }
    return Decision(**fields | changes)


RECIPE = Recipe("pear", terms=(TermSpec("logprob", 2.0),), weight=2.0)


def test_contributions_add_up_to_the_difference_of_the_scores() -> None:
    parts = contributions(made(), RECIPE, 2, 0)
    assert parts == {"pear": -1.0, "logprob": 2.0}
    assert sum(parts.values()) == 3.0 - 2.0


def test_the_table_the_grid_and_the_reasons() -> None:
    assert explanation(made(), RECIPE, 10, 110, colour=False).split("\n") == [
        "source      source",
        "chosen      chosen",
        "candidates  4 distinct candidates of 4; 4 of 6 pairs scored by pear",
        "",
        "rank  score  pear  logprob  place  count  candidate",
        "weight          2        2",
        "   1      3   0.5        1      3      1  chosen",
        "   2      2     1        0      1      1  first",
        "   3    0.4   0.2        0      4      1  fourth",
        "   4     -2    -1        0      2      1  second",
        "",
        "pairs  by rank: how much better the row is than the column, from -- (much worse) to ++ (much better); ~ was",
        "       not scored but estimated from the expected utilities",
        "      1   2   3   4",
        "  1      -  --  ~+",
        "  2  +      ~=   =",
        "  3 ++  ~=       =",
        "  4 ~-   =   =",
        "",
        "why",
        "  Against the runner-up (place 1) the choice is ahead by 1: logprob +2, pear -1.",
        "  Without logprob it would have been the other way round.",
        "  Pairs that were not scored are expected to cost 5.0 % of what the best gains on the mean; 2 contenders"
        " left.",
        "",
    ]


def test_a_score_is_the_sum_of_its_row_times_the_weights_in_the_table() -> None:
    lines = explanation(made(), RECIPE, 10, 110, colour=False).split("\n")
    weights = [float(word) for word in lines[5].split()[1:]]
    for row in lines[6:10]:
        _, score, *values = (float(word) for word in row.split()[: 2 + len(weights)])
        assert score == pytest.approx(sum(weight * value for weight, value in zip(weights, values, strict=True)))


def test_few_columns_and_few_candidates_are_kept_to() -> None:
    text = explanation(made(), RECIPE, 2, 60, colour=False)
    assert "and 2 more (--top N shows N)" in text
    assert max(map(len, text.split("\n"))) <= 60
    assert "   1      3   0.5        1      3      1\n      chosen\n" in text
    assert "second" not in text


def test_colour_changes_no_text() -> None:
    coloured = explanation(made(), RECIPE, 10, 110, colour=True)
    lines = [line.rstrip() for line in ESCAPE.sub("", coloured).split("\n")]  # the last cell of a row is shaded
    assert lines == explanation(made(), RECIPE, 10, 110, colour=False).split("\n")
    assert "\x1b[30;48;5;203m-- " in coloured
    assert "\x1b[2m~+ \x1b[0m" in coloured  # estimated: no shade


def test_pairs_that_nothing_estimates_stay_empty() -> None:
    unseen = explanation(made(expected=np.array([1.0, np.nan, 0.5, 0.2])), RECIPE, 10, 110, colour=False)
    assert "  1      -  --   ·\n" in unseen
    matrix = made().matrix
    assert matrix is not None
    lexical = explanation(made(matrix=replace(matrix, relation="none")), RECIPE, 10, 110, colour=False)
    assert "(highest); · was not scored\n" in lexical
    assert "~" not in lexical


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": np.array([3.0, -2.0, 3.0, 0.4])}, "it is an exact tie (logprob +2, pear -1); the earlier"),
        ({"certainty": Certainty(None, None)}, "Expected regret is unknown: too few pairs were scored to estimate it."),
        (
            {"ranking": (2, 3)},
            "Against the first candidate of the list (place 1): a guard, the prefilter or the budget",
        ),
        ({"ranking": (2, 3)}, "Against the runner-up (place 4) the choice is ahead by 2.6: logprob +2, pear +0.6."),
        ({"ranking": (2, 3)}, "Most of it is logprob; without any one part the choice would still be ahead."),
        ({"ranking": (0, 3), "terms": {}}, "The choice is also the first candidate of the list."),
    ],
)
def test_reasons_in_other_cases(changes: dict[str, Any], words: str) -> None:
    assert words in explanation(made(**changes), RECIPE, 10, 200, colour=False)


def test_the_command_explains_the_first_list_or_another(lists: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(lists, "--explain") == 0
    first = capsys.readouterr()
    assert first.out.startswith("source      A dog runs.\nchosen      Ein Hund läuft.\n")
    assert "Against the first candidate of the list (place 1)" in first.out
    assert first.err == ""
    assert explain(lists, "--explain", "b") == 0
    assert "There was one candidate to choose from" in capsys.readouterr().out
    assert explain(lists, "--explain", "3") == 0
    assert capsys.readouterr().out.startswith("source      Two\n")
    assert explain(lists, "--explain", "2") == 0  # an id is stronger than a number
    assert capsys.readouterr().out.startswith("source      Two\n")
    with pytest.raises(InputError, match="no list z: the input has 3 lists"):
        explain(lists, "--explain", "z")


def test_the_command_colours_a_terminal_only(lists: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", stream := Terminal())
    assert explain(lists, "--explain") == 0
    assert "\x1b[1msource" in stream.getvalue()


@pytest.mark.parametrize(
    "words", [("-o", "x.txt"), ("--matrix", "m.npz"), ("--dry-run",), ("--format", "jsonl"), ("--shard", "1/2")]
)
def test_options_of_results_are_refused(lists: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--explain prints"):
        explain(lists, "--explain", *words)


def test_sentences_are_wrapped_without_counting_escapes() -> None:
    assert wrapped("  one two three", 9) == "  one two\n  three"
    assert wrapped("  \x1b[1mone\x1b[0m two three", 9) == "  \x1b[1mone\x1b[0m two\n  three"
    assert wrapped("unbreakable-word next", 5) == "unbreakable-word\n  next"
