"""--route: which decisions go to a person, and conditions that are refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from candidates import CandidateList
from candidates.common.errors import UsageError
from mbr.cli.decode.command import command
from mbr.cli.decode.route import parse_route
from mbr.decide import Certainty, Decision
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

LIST = CandidateList.of("A dog", ["Ein Hund", "Der Hund"])


def decision(
    scores: tuple[float, ...] = (0.5, 0.45), flags: tuple[str, ...] = (), error: str | None = None
) -> Decision:
    values = np.array(scores)
    terms = {"logprob": -values, "length-ratio": values} if scores else {}
    ranking = tuple(range(len(scores)))
    return Decision(
        1, LIST, ranking, values, values, terms, certainty=Certainty(0.02 if scores else None), flags=flags, error=error
    )


@pytest.mark.parametrize(
    ("text", "made", "holds"),
    [
        ("margin<0.1", decision(), True),
        ("margin<0.05", decision((0.5, 0.4)), False),
        ("0.1 > margin", decision(), True),
        ("margin >= .1", decision((1.0, 0.5)), True),
        ("score == 0.5", decision(), True),
        ("score != 0.5", decision(), False),
        ("logprob <= -0.5", decision(), True),
        ("length-ratio<logprob", decision(), False),
        ("estimated_regret>1e-2", decision(), True),
        ("unique==2 and not tie", decision(), True),
        ("tie", decision(flags=("tie",)), True),
        ("tie", decision(), False),
        ("guard", decision(flags=("guard:numbers",)), True),
        ("guard:numbers", decision(flags=("guard:numbers",)), True),
        ("guard:urls", decision(flags=("guard:numbers",)), False),
        ("guard", decision(flags=("tie",)), False),
        ("error", decision((), error="broken"), True),
        ("fallback or margin<0.1 and tie", decision(), False),
        ("(fallback or margin<0.1) and not tie", decision(), True),
        ("not (tie or margin<0.1)", decision(), False),
        # A number that is not there satisfies no comparison.
        ("margin<0.1 or margin>=0.1", decision((0.5,)), False),
        ("margin!=0.1", decision((0.5,)), False),
        ("not margin<0.1", decision((0.5,)), True),
        ("logprob<0 or score<9 or estimated_regret<9", decision((), error="broken"), False),
        ("score<9 or expected_utility<9", decision((float("nan"),), flags=("single",)), False),
    ],
)
def test_conditions_hold_where_they_should(text: str, made: Decision, holds: bool) -> None:
    assert parse_route(text, ["logprob", "length-ratio"]).holds(made) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at its end, expected a number or a name"),
        ("margin", "expected one of < <= > >= == !=, since margin is a number"),
        ("margin<", "at its end, expected a number or a name"),
        ("margin<0.1 or", "at its end"),
        ("margin<0.1 tie", "at 'tie', expected and, or, or the end"),
        ("(margin<0.1", "at its end, expected )"),
        ("margin<0.1)", "at ')', expected and"),
        ("margin=0.1", "'=0.1' is no name"),
        ("margin<0.1x", "'0.1x' is no name"),
        ("quality<0.1", "'quality' is unknown here; expected a name out of margin, "),
        ("__import__('os')", "is no name"),
        ("margin.__class__<1", "'margin.__class__' is unknown"),
        ("tie<1", "tie is true or false and not compared; write tie, or not tie"),
        ("1>guard:urls", "guard:urls is true or false"),
        ("guard:nosuch", "guard 'nosuch' is unknown; expected guard alone, or guard: and one of placeholders, tags"),
        ("guard:", "guard '' is unknown"),
        ("and", "at 'and', expected"),
        ("(" * 100 + "tie" + ")" * 100, "more than 50 parentheses"),
        ("not " * 5000 + "tie", "more than 50 parentheses"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_route(text, ["logprob"])
    assert message in str(error.value)


def test_wrong_conditions_end_the_command_before_it_reads_anything(tmp_path: Path) -> None:
    gone = ["--candidates", str(tmp_path / "gone.jsonl"), "--utility", "chrf"]
    routed = ["--route-output", str(tmp_path / "r.jsonl")]
    for words, message in (
        ([*routed, "--route", "quality<1"], "'quality' is unknown"),
        ([*routed, "--route", "margin<"], "expected a number"),
        (routed, "--route and --route-output go together"),
        (["--route", "tie"], "--route and --route-output go together"),
    ):
        with pytest.raises(UsageError, match=message):
            command([*gone, *words])


def test_a_term_that_the_recipe_does_not_have_is_refused(tmp_path: Path) -> None:
    lists = write_jsonl(tmp_path / "l.jsonl", [{"id": 0, "source": "x", "candidates": ["a", "b"]}])
    words = ["--candidates", str(lists), "--utility", "chrf", "--route-output", str(tmp_path / "r.jsonl")]
    with pytest.raises(UsageError, match="'cometkiwi' is unknown here"):
        command([*words, "--route", "cometkiwi<0.6"])


def test_routed_decisions_go_to_a_file_of_their_own(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(
        tmp_path / "l.jsonl",
        [
            {"id": "sure", "source": "x", "candidates": ["Ein Hund", "Ein Hund!", "Katze"]},
            {"id": "tie", "source": "x", "candidates": ["Hund", "Katze"]},
            {"id": "bad", "source": "x", "candidates": []},
        ],
    )
    words = ["--candidates", "l.jsonl", "--utility", "chrf", "--on-error", "skip", "-o", "best.jsonl"]
    words += ["--format", "jsonl", "--route", "tie or error", "--route-output", "check.jsonl"]
    assert command(words) == 1
    best = [json.loads(line) for line in Path("best.jsonl").read_text().splitlines()]
    routed = [json.loads(line) for line in Path("check.jsonl").read_text().splitlines()]
    assert [record["id"] for record in routed] == ["tie", "bad"]
    assert routed == best[1:]
    assert {"source", "text", "margin", "estimated_regret", "flags"} <= routed[0].keys()
    assert b"2 segments routed to check.jsonl" in capsysbinary.readouterr().err
