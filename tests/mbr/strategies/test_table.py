"""Strategies by name: ours, those of plug-ins, their options and summaries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.support.replay import replay, segment_of, structured
from candidates.common import plugins
from candidates.common.errors import EnvironmentProblem, UsageError
from mbr import rerank
from mbr.strategies import (
    STRATEGIES,
    Strategy,
    get_strategy,
    strategies_with,
    strategy_names,
    strategy_options,
    strategy_summary,
)
from tests.conftest import ROOT
from tests.mbr.made import Better
from tests.support.plug_in import write_plug_in

OPTIONS = {
    "full": [],
    "both": [],
    "half": [],
    "balanced": [],
    "race": ["tolerance", "budget"],
    "halving": ["budget"],
    "prune": ["tolerance", "budget"],
    "aggregate": [],
    "rerank": [],
}
BROKEN = """
from mbr.strategies import Strategy

def other_name(unreadable: "Missing" = None):
    return Strategy("another", "", lambda segment: None, lambda *_: 0)

def no_strategy():
    return "anchors"

constant = 7
"""


def documented_plug_in() -> str:
    """The file anchors.py of docs/strategies.md."""
    page = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(# anchors\.py\n.*?)```", page, re.DOTALL)
    return str(code)


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Installs the plug-in `anchors` of the documentation, or the broken one that the parameter names."""
    target = getattr(request, "param", "anchors")
    code = documented_plug_in() + BROKEN
    write_plug_in(tmp_path, "anchors", code, "mbr_decode.strategies", f"anchors:{target}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "anchors", raising=False)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_name_has_a_strategy_of_that_name_with_options_and_a_summary(name: str) -> None:
    strategy = get_strategy(name)
    assert isinstance(strategy, Strategy)
    assert strategy.name == name
    assert list(strategy_options(name)) == OPTIONS[name]
    assert all(strategy_options(name).values())
    assert strategy_summary(name) == strategy.summary != ""


def test_the_names_are_these() -> None:
    assert list(STRATEGIES.built_in) == list(OPTIONS)
    assert strategy_names()[: len(OPTIONS)] == list(OPTIONS)
    assert list(strategies_with("budget")) == ["race", "halving", "prune"]


def test_the_help_of_an_option_names_the_default_of_each_strategy() -> None:
    assert strategies_with("tolerance") == {
        "race": "stop when the expected regret is below this share of best minus mean (default: 0.01)",
        "prune": "drop candidates with at most this probability of being the best (default: 0.01)",
    }
    assert strategies_with("budget")["halving"] == "passes per list, exactly (default: 10 per candidate)"
    assert strategies_with("nothing") == {}


def test_options_that_are_none_keep_their_defaults() -> None:
    assert get_strategy("race", tolerance=None, budget=None).settings == {"tol": 0.01, "budget": "20N"}
    assert get_strategy("full", tolerance=None, budget=None, references=None).name == "full"
    assert get_strategy("race", tolerance=0.0, budget=7).settings == {"tol": 0.0, "budget": 7}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clever", {}, "strategy 'clever' is unknown; expected one of full, both, half, balanced, race"),
        ("full", {"budget": 3}, "'full' has no option 'budget' .it takes none.; a budget goes with strategy 'race', "),
        ("halving", {"tolerance": 0.1}, "it takes budget.; a tolerance goes with strategy 'race' or 'prune'$"),
        ("race", {"references": 3}, "'race' has no option 'references' .it takes tolerance, budget.$"),
    ],
)
def test_unknown_names_and_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        get_strategy(name, **options)


def test_names_and_one_strategy_import_nothing_of_the_others() -> None:
    program = (
        "import sys\nfrom mbr.strategies import get_strategy, strategy_names\nstrategy_names()\n"
        "ours = {f'mbr.strategies.{name}' for name in ('race', 'halving', 'prune', 'half', 'full', 'each')}\n"
        "loaded = lambda: sorted(({'numpy'} | ours) & sys.modules.keys())\n"
        "print(loaded())\nget_strategy('full')\nprint(loaded())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[]", "['mbr.strategies.full', 'numpy']"]


def test_our_names_search_no_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(group: str) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(plugins, "entry_points", search)
    for name in OPTIONS:
        assert get_strategy(name, budget=None).name == name


@pytest.mark.usefixtures("plug_in")
def test_the_plug_in_of_the_documentation_decides_by_name() -> None:
    assert strategy_names()[-1] == "anchors"
    assert strategy_options("anchors") == {"references": "references per list (default: 10)"}
    assert strategy_summary("anchors") == "every candidate against the same few references"
    assert get_strategy("anchors", references=2, budget=None).settings == {"references": 2}
    texts = [f"candidate {k}" for k in range(40)]
    decision = rerank("s", texts, Better(), strategy="anchors", keep_matrix=True)
    assert decision.passes == 10 * 39
    assert decision.matrix is not None
    exact = rerank("s", texts, Better(), strategy="full")
    assert decision.text in [texts[place] for place in exact.ranking[:5]]
    few = [f"candidate {k}" for k in range(7)]
    assert rerank("s", few, Better(), strategy="anchors").ranking == rerank("s", few, Better(), strategy="full").ranking
    with pytest.raises(UsageError, match="'anchors' has no option 'budget' .it takes references.; a budget goes with"):
        get_strategy("anchors", budget=3)


@pytest.mark.usefixtures("plug_in")
def test_the_plug_in_of_the_documentation_adds_the_terms() -> None:
    values = structured(1, 30)
    terms = np.random.default_rng(1).normal(size=30)
    plain, with_terms = (
        replay(values, get_strategy("anchors"), segment_of(values, 1, terms=one)).outcome for one in (None, terms)
    )
    assert plain.expected is not None
    assert with_terms.expected is not None
    np.testing.assert_allclose(with_terms.expected, plain.expected + terms, atol=1e-12)


@pytest.mark.parametrize(
    ("plug_in", "message"),
    [
        ("other_name", "'anchors' returned a Strategy named 'another', expected a Strategy named 'anchors'; correct"),
        ("no_strategy", "'anchors' returned 'anchors', expected a Strategy named 'anchors'; correct"),
        ("constant", "'anchors' is 7, expected a function that returns a Strategy; correct"),
        ("missing", "strategy plug-in 'anchors' .anchors:missing. cannot be loaded"),
    ],
    indirect=["plug_in"],
)
@pytest.mark.usefixtures("plug_in")
def test_a_broken_plug_in_is_named(message: str) -> None:
    with pytest.raises(EnvironmentProblem, match=message):
        get_strategy("anchors")


@pytest.mark.parametrize("plug_in", ["other_name"], indirect=True)
@pytest.mark.usefixtures("plug_in")
def test_an_annotation_that_cannot_be_read_has_no_help() -> None:
    assert strategy_options("anchors") == {"unreadable": ""}
