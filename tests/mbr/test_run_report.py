"""--report: what a run did, took and cost, as JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from candidates.common.errors import UsageError
from candidates.common.version import __version__
from mbr.cli.decode.command import command
from mbr.cli.decode.report import Clock
from tests.conftest import write_jsonl

pytestmark = pytest.mark.one_world

RECORDS: list[dict[str, Any]] = [
    {
        "id": "a",
        "source": "A dog runs.",
        "candidates": ["Ein Hund rennt.", "Ein Hund läuft.", "Der Hund läuft.", "50 Hunde."],
    },
    {"id": "b", "source": "Hello", "candidates": ["Hallo"]},
    {"id": "c", "source": "No", "candidates": []},
]


def test_the_report_has_counts_flags_times_and_the_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "l.jsonl", RECORDS)
    words = ["--utility", "chrf", "--candidates", "l.jsonl", "-o", "best.txt", "--on-error", "skip", "--quiet"]
    words += [
        "--require",
        "numbers,not-copied",
        "--report",
        "run.json",
        "--price-per-hour",
        "3.6",
        "--route",
        "single",
        "--route-output",
        "r.jsonl",
    ]
    assert command(words) == 1
    report = json.loads(Path("run.json").read_text())
    assert report["command"] == "mbr-decode"
    assert report["versions"]["mbr-decode"] == __version__
    assert {"python", "torch", "numpy"} <= report["versions"].keys()
    assert report["signature"].startswith("MBR|utility:chrf|")
    assert report["recipe"]["utility"] == "chrf"
    assert report["segments"] == {"decided": 2, "failed": 1, "done_before": 0, "routed": 1}
    assert (report["flags"], report["guards"], report["passes"]) == ({"single": 1}, {}, 9)
    assert (report["dropped"], report["dropped_by"]) == (1, {"numbers": 1})
    chosen = Path("best.txt").read_text().splitlines()
    assert report["characters"] == {"source": 18, "chosen": sum(map(len, chosen))}
    seconds = report["seconds"]
    assert list(seconds) == ["total", "input", "terms", "scoring", "writing"]
    assert 0 < sum(seconds.values()) - seconds["total"] <= seconds["total"] + 0.01
    price = report["price"]
    assert price["per_hour"] == 3.6
    assert price["total"] == pytest.approx(seconds["total"] / 1000, rel=0.1, abs=1e-5)
    assert price["per_million_characters"] == pytest.approx(price["total"] / 18 * 1e6, rel=0.2, abs=1)


def test_a_stage_in_another_counts_for_itself() -> None:
    clock = Clock()
    with clock.stage("scoring"), clock.stage("terms"):
        time.sleep(0.02)
    assert list(clock.items("input", [1, 2])) == [1, 2]
    assert clock.seconds["terms"] >= 0.02 > clock.seconds["scoring"] > 0
    assert clock.seconds["input"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--price-per-hour", "1"], "--price-per-hour goes with --report"),
        (["--price-per-hour", "-1", "--report", "r.json"], "is not a price"),
        (["--price-per-hour", "nan", "--report", "r.json"], "is not a price"),
        (["--report", "best.txt", "-o", "best.txt"], "name the same file"),
    ],
)
def test_reports_that_cannot_be_are_refused(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        command(["--utility", "chrf", "--candidates", str(tmp_path / "gone.jsonl"), *words])
