"""Numbers that pages quote from benchmarks are those that were measured, cell by cell: benchmarks/support/quotes.py."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import strategies, strategies_quality
from benchmarks.bundled_choice import quoted_values
from benchmarks.support import quotes as module
from benchmarks.support.choosing import COLUMNS, Row
from benchmarks.support.quotes import NUMBER, command_of, keep, quotes, requoted, shows, spread_values, values_of, wrong
from tests.conftest import ROOT
from tests.support.pages import PAGES, page

pytestmark = pytest.mark.one_world

QUOTED = sorted({quote.benchmark for file in PAGES for quote in quotes(file.read_text(encoding="utf-8"))})
COMMAND = r"`python -m benchmarks\.(\w+)[^`]*`"


@pytest.mark.parametrize("file", [file for file in PAGES if quotes(page(file.relative_to(ROOT)))], ids=lambda f: f.name)
def test_a_page_quotes_what_was_measured(file: Path) -> None:
    known = {name: values for name in QUOTED if (values := values_of(name)) is not None}
    assert not wrong(file.read_text(encoding="utf-8"), known)


def test_every_benchmark_that_is_quoted_has_kept_values() -> None:
    assert [name for name in QUOTED if values_of(name) is not None] == QUOTED


def _kept_by(benchmark: str) -> dict[str, float]:
    """Keys as a run would keep them."""
    if benchmark == "strategies_quality":
        judged = {"passes": 1.0} | {judge: [1.0] * 4 for judge in strategies_quality.JUDGES}
        names = [f"{name}, logprob {weight}" for name in strategies_quality.STRATEGIES for weight in ("0", "25.4")]
        return strategies_quality.quoted_values(dict.fromkeys(names, judged))
    numbers = dict.fromkeys(["passes", "milliseconds", *strategies.FIELDS.values()], 0.5)
    sets = [
        *("bundled PEAR, test", "bundled PEAR, terms as hints, test", "bundled PEAR with logprob 6, test"),
        *("bundled PEAR with the shipped recipe, test", "bundled PEAR, prefilter chrF:50, test"),
    ]
    return strategies.quoted_values(
        [
            {"set": name, "method": method.name, "budget": budget, **numbers}
            for name in sets
            for method in strategies.METHODS
            for budget in ((None,) if method.own_end else (200, 300, 500, 1000))
        ]
    )


@pytest.mark.parametrize("benchmark", ["strategies", "strategies_quality"])
def test_the_keys_of_the_page_of_strategies_are_those_that_are_kept(benchmark: str) -> None:
    bound = {key for quote in quotes(page("docs/strategies.md")) if quote.benchmark == benchmark for key in quote.keys}
    assert len(bound) > 60
    assert bound <= set(_kept_by(benchmark))


def test_every_cell_of_the_tables_of_strategies_is_bound() -> None:
    rows = [line for line in page("docs/strategies.md").splitlines() if line.startswith("| ") and quotes(line)]
    assert len(rows) == 43
    for row in rows:
        (quote,) = quotes(row)
        cells = re.sub(r"<!--.*?-->", "", row).split("|")[2:]
        assert len(quote.keys) == sum(len(NUMBER.findall(cell)) for cell in cells), row


def test_every_number_of_the_readmes_results_is_bound_to_the_command_of_its_row() -> None:
    rows = [line for line in page("README.md").splitlines() if line.startswith("| ") and re.search(COMMAND, line)]
    assert len(rows) == 5
    for row in rows:
        (quote,) = quotes(row)
        result = re.sub(r"<!--.*?-->", "", row.split("|")[2])
        assert len(NUMBER.findall(result)) == len(quote.keys), result
        assert [quote.benchmark] == re.findall(COMMAND, row)
        assert quote.command == command_of(quote.benchmark)


def test_every_ratio_of_the_table_beside_peers_is_bound() -> None:
    rows = [line for line in page("docs/peers.md").splitlines() if re.match(r"\| \d+ layers", line)]
    assert len(rows) == 4
    for row in rows:
        for cell in row.split("|")[2:4]:
            (quote,) = quotes(cell)
            assert NUMBER.findall(re.sub(r"<!--.*?-->", "", cell)) == [cell[slice(*quote.places[0])]]


def test_one_target_measures_all_that_is_quoted() -> None:
    (target,) = re.findall(r"^headlines:.*?\n\n", page("Makefile"), re.MULTILINE | re.DOTALL)
    commands = re.findall(r"(python -m benchmarks\..*) --keep", target)
    assert sorted(command.split()[2].removeprefix("benchmarks.") for command in commands) == QUOTED
    readme = [quote.command for quote in quotes(page("README.md"))]
    assert set(readme) <= set(commands)


# A section with decimals names what measured them: a benchmark, `mbr-metaeval` on the data, or a test.
MEASURED_BY = re.compile(r"python -m benchmarks\.\w+|benchmarks/\w+\.py|`mbr-metaeval [^`]*--data|`tests/[\w/]+\.py`")
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d*\.\d+(?![\w.]*\w)")
NOT_MEASURED = {
    "CONTRIBUTING.md": {"Contributing": "versions"},
    "README.md": {"Where to go next": "a licence"},
    "docs/bundled-model.md": {"The bundled model, and training your own": "size of files", "The split": "shares"},
    "docs/cluster.md": {"Security": "a version"},
    "docs/generate.md": {"Methods": "settings", "Servers": "settings"},
    "docs/gpu.md": {"Set up": "size of files"},
    "docs/guides/released-pear.md": {"Run the released PEAR on a GPU": "size of files"},
    "docs/llm.md": {
        "The judge": "of the server in the transcript",
        "pear-label": "settings",
        "What happens when the server fails": "settings",
    },
    "docs/mbr-evaluate.md": {"Checks": "settings"},
    "docs/mbr-metaeval.md": {"mbr-metaeval": "of the transcript", "Significance and ranks": "a level"},
    "docs/mbr-tune.md": {"Word-translation tables: `--parallel`": "size of a file"},
    "docs/resume.md": {
        "The weight and the scale": "a setting",
        "A model": "a section of a paper",
        "In evaluation: which weight?": "settings",
    },
    "docs/statistics.md": dict.fromkeys(
        [
            *("Statistics of meta-evaluation", "Which of two translations is better", "Which system is better"),
            *("What is the choice worth", "Is the difference significant"),
        ],
        "the worked example, which tests compute",
    ),
    "docs/strategies.md": {"`race`: until the expected regret is below a tolerance": "settings"},
    "docs/terms.md": {"Terms: evidence on single candidates": "of the transcript"},
    "docs/training.md": {"What is trained": "a setting"},
    "docs/utilities.md": {"Utilities and judges": "licences"},
    "docs/which-model.md": {"Which model for real work": "size of a model"},
}


def _without_source(text: str) -> Iterator[str]:
    """The headings of sections whose text has decimals, but no command that measures."""
    fence = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    prose = fence.sub(lambda block: " ".join(MEASURED_BY.findall(block[0])), text)
    for section in re.split(r"(?m)^(?=#+ )", prose):
        bare = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)", "", section, flags=re.DOTALL)
        if DECIMAL.search(bare) and not MEASURED_BY.search(section):
            yield section.splitlines()[0].lstrip("# ")


@pytest.mark.parametrize("file", [file for file in PAGES if file.name != "CHANGELOG.md"], ids=lambda file: file.name)
def test_a_section_with_measured_numbers_names_what_measured_them(file: Path) -> None:
    known = NOT_MEASURED.get(str(file.relative_to(ROOT)), {})
    assert sorted(_without_source(file.read_text(encoding="utf-8"))) == sorted(known)


def test_a_measured_number_without_a_command_is_found() -> None:
    assert list(_without_source("# A\n\nregret 0.4 %\n\n## B\n\n`python -m benchmarks.x`: 0.5\n")) == ["A"]
    assert list(_without_source("# A\n\n```text\n0.4\n```\n\n`--epsilon 0.1`, Python 3.11.7, step 12\n")) == []


LINE = (
    "| chrF 65.83 (+1.76 [+1.08, +2.40]), 1,234 lists, 9.3x, 7.2e-06, -.004 <!-- b: a.x a.x.gain,low,high _ r e c --> |"
)
VALUES = {"a.x": 65.834, "a.x.gain": 1.757, "a.x.low": 1.08, "a.x.high": 2.396, "r": 9.3411, "e": 7.23e-6, "c": -0.0041}


def test_a_number_that_was_not_measured_is_found() -> None:
    assert wrong(LINE, {"b": VALUES}) == []
    assert wrong(LINE.replace("65.83", "65.93"), {"b": VALUES}) == ["b: a.x is 65.83, the page has 65.93"]
    assert wrong(LINE.replace("7.2e-06", "7.2e-07"), {"b": VALUES}) == ["b: e is 7.2e-06, the page has 7.2e-07"]
    assert wrong(LINE.replace("+2.40", "2.4"), {"b": VALUES}) == []
    assert wrong(LINE, {"b": {"r": 9.3}})[0] == "b measures no a.x; it has r"
    assert wrong(LINE, {}) == []
    with pytest.raises(ValueError, match="2 keys for 1 numbers"):
        quotes("5 <!-- b: x y -->")


def test_values_come_into_a_page_with_its_digits_and_signs() -> None:
    changed = {**VALUES, "a.x": 70.0, "a.x.gain": -0.5, "r": 12.0, "c": 0.01}
    text = requoted(LINE, {"b": changed})
    assert text.startswith("| chrF 70.00 (-0.50 [+1.08, +2.40]), 1,234 lists, 12.0x, 7.2e-06, +.010 <!--")
    assert wrong(text, {"b": changed}) == []
    assert requoted("chrF 18, BLEU 1,167, <!-- b: r a.x -->", {"b": changed}).startswith("chrF 12, BLEU 70, <!--")


@pytest.mark.parametrize(
    ("number", "value", "equal"),
    [("19", 19.3, True), ("19", 19.6, False), ("1,214", 1214.2, True), ("+.0037", 0.00371, True), ("167", 167.4, True)],
)
def test_a_number_is_the_value_rounded_to_its_digits(number: str, value: float, equal: bool) -> None:
    assert shows(number, value) is equal


def test_a_run_keeps_its_values_and_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["x.py", "--lists", "30", "--keep"])
    keep("x", spread_values("whole", [18.1, 20.2, 19.3456789]))
    kept = json.loads((tmp_path / "results" / "x.json").read_text())
    assert kept["command"] == command_of("x") == "python -m benchmarks.x --lists 30"
    assert kept["values"] == values_of("x") == {"whole": 19.3457, "whole.low": 18.1, "whole.high": 20.2}


def test_the_keys_of_choices_are_those_on_the_pages() -> None:
    judges = dict.fromkeys((key for key, _, _ in COLUMNS), (65.0, 1.0, 0.5, 1.5))
    names = ["the beam's best", "recipe `pear + 6 logprob`", "the recipe without PEAR", "`logprob` alone", "chrF-MBR"]
    kept = quoted_values([Row(name, judges, 0.61, 1.2, 3.0) for name in names])
    rows = {key.split(".")[0] for key in kept}
    assert rows == {"beam", "recipe", "without-pear", "logprob-alone", "chrf-mbr"}
    assert kept["recipe.chrf.gain"] == 1.0
    asked = {key for quote in quotes(page("docs/bundled-pear.md")) for key in quote.keys if key.split(".")[0] in rows}
    assert len(asked) > 50
    assert asked <= set(kept)
