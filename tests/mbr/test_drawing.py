"""Charts of points, and colours that follow light and dark mode."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from benchmarks.support import cost_figure, regret_figure
from candidates.common.pictures import DARK, picture_head
from mbr.drawing import Cloud, cloud_panels, log_ticks, stacked

pytestmark = pytest.mark.one_world


def texts_of(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([25, 400], [20, 50, 100, 200, 500]),
        ([0.01, 100], [0.01, 0.1, 1, 10, 100]),
        ([3.0], [2, 5]),
        ([10.0], [5, 20]),
        ([0.0007, 4], [0.0001, 0.001, 0.01, 0.1, 1, 10]),
    ],
)
def test_a_logarithmic_axis_has_round_levels_around_its_values(values: list[float], levels: list[float]) -> None:
    assert log_ticks(values) == pytest.approx(levels)


def test_a_chart_of_points_has_its_names_levels_and_bars() -> None:
    panel = Cloud("a <b>", {"one": [(10, 1.0), (100, 2.0)], "two": [(50, 1.5)]}, {"beam": 1.2}, {"two": (1.4, 1.6)})
    for log_y in ("", " %"):
        picture = cloud_panels("title", [panel, panel], "x", "y", log_y=log_y)
        assert {"title", "a <b>", "one", "two", "beam 1.2", "100"} <= set(texts_of(picture))
        assert picture.count("<polyline") == 2  # one line per panel


def test_the_picture_of_regret_joins_the_tolerances_of_a_method() -> None:
    rows: list[dict[str, Any]] = [
        {"set": "rho 2", "method": f"race, tolerance {x}", "passes": 100 / x, "regret": x / 100} for x in (1, 2, 5)
    ]
    rows += [{"set": "rho 2", "method": "low rank, tuned", "passes": 200, "regret": 0.3}]
    rows += [{"set": "rho 2", "method": "half", "passes": 4950, "regret": 0.0}]
    texts = texts_of(regret_figure.draw(rows, ["rho 2"]))
    assert {"race", "low rank, tuned", "half", "synthetic matrices, rho 2", "0.01 %"} <= set(texts)


def test_the_picture_of_cost_has_a_panel_per_judge_and_the_baseline() -> None:
    def row(label: str, seconds: float | None, score: float) -> dict[str, Any]:
        scores = {"chrf": {"score": score, "low": score - 1, "high": score + 1}}
        return {"label": label, "seconds": seconds, "error": None, "scores": scores}

    rows = [row("beam best", None, 64.07), row("pear race", 20.0, 65.8), row("chrf", 1.0, 63.1)]
    report = {"rows": rows, "choices": [{}] * 200, "baseline": "beam best", "candidates": 99.6}
    texts = texts_of(cost_figure.draw(report))
    assert {"chrF", "pear race", "chrf", "beam best 64.1"} <= set(texts)
    assert texts[0] == "Quality against cost: 200 sentences, 100 candidates each"
    assert "BLEU" not in texts


def test_every_picture_replaces_its_colours_in_dark_mode() -> None:
    head = picture_head(10, 20)
    assert 'viewBox="0 0 10 20"' in head
    for light, dark in DARK.items():
        assert f'.picture [fill="{light}"]{{fill:{dark}}}' in head
    chart = cloud_panels("t", [Cloud("c", {"a": [(1, 2), (2, 3)]})], "x", "y")
    assert ET.fromstring(stacked([chart, chart])).attrib["class"] == "picture"
