"""The stages of a comparison are named before they begin, with their share of the work."""

from __future__ import annotations

from typing import Any

from candidates.lists import CandidateList
from mbr.compare import compare
from mbr.compare.settings import Setting
from mbr.compare.stages import planned_stages
from mbr.evaluate.judges import parse_judges
from mbr.recipe import Changes

LISTS = [
    CandidateList.of("A dog runs.", [f"Ein Hund {k}." for k in range(10)], id=name, references=["Ein Hund rennt."])
    for name in ("a", "b")
]


def setting(utility: str, label: str, **changes: Any) -> Setting:
    return Setting.of(Changes(utility=utility, **changes), label)


def test_every_stage_is_counted_and_named_in_its_order() -> None:
    lines: list[str] = []
    settings = [setting("chrf", "one"), setting("bleu", "two", strategy="halving")]
    compare(LISTS, settings, ["ter"], study=1, draws=0, trials=10, report=lines.append)
    assert lines == [
        "6 stages, with their share of the time as far as passes tell: one 32 %, study of one 16 %, two 32 %, "
        "study of two 16 %, oracle (chrf) 4 %, judging 2 %",
        "stage 1 of 6: one",
        "stage 2 of 6: study of one",
        "stage 3 of 6: two",
        "stage 4 of 6: study of two",
        "stage 5 of 6: oracle (chrf)",
        "stage 6 of 6: judging",
    ]


def test_a_pass_of_a_model_counts_more_and_a_race_is_short() -> None:
    race = setting("pear", "race")
    half = setting("pear", "half", strategy="half")
    chrf = setting("chrf", "chrf")
    stages = planned_stages(LISTS, [[race, half], [chrf]], [], None, parse_judges(["chrf"]), lambda line: None)
    assert stages.passes == {"race": 60, "half": 90, "chrf": 1.8, "judging": 0.1}
