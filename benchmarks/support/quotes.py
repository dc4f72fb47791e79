"""Numbers that pages quote from benchmarks, each bound to the value that was measured.

A benchmark run with `--keep` writes its values to benchmarks/results/NAME.json, a number per key, with its command. On
a page a comment names the benchmark and the keys of the numbers right before it, in their order:

    chrF 65.83 (+1.76 [+1.08, +2.40]) <!-- bundled_choice: recipe.chrf recipe.chrf.gain,low,high -->

`recipe.chrf.gain,low,high` is short for three keys that differ in their last part, and `_` stands for a number that
was not measured (a setting). tests/test_docs_numbers.py compares; `python -m benchmarks.transcripts --write` writes
the values into the pages, with as many digits as they show.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.support.places import ROOT
from candidates.common.text import atomic_output

RESULTS = ROOT / "benchmarks" / "results"
SETTING = "_"
NUMBER = re.compile(r"(?<![\w.,])[+-]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e-?\d+)?(?=x?(?![\w.]*\w))")
_MARK = re.compile(r"<!-- (?!prints:)(?P<name>\w+): (?P<keys>[^>]+?) -->")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_COMMAND = re.compile(r"`(python -m benchmarks\.[^`]+)`")


def add_keep_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="write the values that pages quote to benchmarks/results")


def spread_values(key: str, ratios: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of ratios measured in turn, as `key`, `key.low` and `key.high`."""
    return {key: statistics.median(ratios), f"{key}.low": min(ratios), f"{key}.high": max(ratios)}


def slug(name: str) -> str:
    """A name as a part of a key: `low rank (mbrs)` is `low-rank-mbrs`."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")


def keep(name: str, values: Mapping[str, float], variant: str = "") -> None:
    """Write the values of a benchmark, or of a variant of it, with the command line of this process."""
    words = [word for word in sys.argv[1:] if word != "--keep"]
    command = " ".join(["python", "-m", f"benchmarks.{name}", *words])
    rounded = {key: float(f"{value:.6g}") for key, value in values.items()}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{'_'.join(filter(None, (name, variant.replace('-', '_'))))}.json"
    with atomic_output(file, force=True) as stream:
        stream.write((json.dumps({"command": command, "values": rounded}, indent=1) + "\n").encode())
    print(f"wrote benchmarks/results/{file.name}", file=sys.stderr)


@dataclass(frozen=True)
class Quote:
    """Numbers of a page and where their values are; `places` are their spans in the text."""

    benchmark: str
    keys: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    line: str  # the row or line that holds the mark

    @property
    def command(self) -> str | None:
        """The command that the line names."""
        match = _COMMAND.search(self.line)
        return match[1] if match else None


def quotes(text: str) -> list[Quote]:
    """What the marks of a page bind.

    Raises:
        ValueError: a mark has more keys than there are numbers before it on its page.
    """
    found = []
    visible = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    for mark in _MARK.finditer(text):
        keys = tuple(key for words in mark["keys"].split() for key in _expanded(words))
        before = [number.span() for number in NUMBER.finditer(visible, 0, mark.start())]
        if len(before) < len(keys):
            raise ValueError(f"{mark[0]}: {len(keys)} keys for {len(before)} numbers")
        start = text.rfind("\n", 0, mark.start()) + 1
        line = text[start : (text + "\n").index("\n", mark.end())]
        found.append(Quote(mark["name"], keys, tuple(before[len(before) - len(keys) :]), line))
    return found


def _expanded(words: str) -> list[str]:
    """`a.b,c` as `a.b` and `a.c`."""
    first, *others = words.split(",")
    stem, dot, _ = first.rpartition(".")
    return [first, *(f"{stem}{dot}{other}" for other in others)]


def shows(number: str, value: float) -> bool:
    """Whether a number on a page is a value, rounded to the digits that it has."""
    return float(number.replace(",", "")) == float(written(number, value).replace(",", ""))


def written(number: str, value: float) -> str:
    """A value in the form of a number on a page: its digits, its sign, its thousands."""
    mantissa, exponent, _ = number.partition("e")
    digits = len(mantissa.partition(".")[2])
    sign = "+" if number.startswith("+") or (number.startswith("-") and value > 0) else ""
    text = f"{value:{sign}.{digits}e}" if exponent else f"{value:{sign},.{digits}f}"
    return text.replace("0.", ".", 1) if re.match(r"[+-]?\.", number) else text


def values_of(benchmark: str) -> dict[str, float] | None:
    """What a benchmark has measured; None where it has kept nothing yet."""
    file = RESULTS / f"{benchmark}.json"
    if not file.exists():
        return None
    values: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))["values"]
    return values


def command_of(benchmark: str) -> str:
    """The command whose values are kept."""
    return str(json.loads((RESULTS / f"{benchmark}.json").read_text(encoding="utf-8"))["command"])


def wrong(text: str, known: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What a page quotes that was measured otherwise, or not at all; benchmarks without values are left out."""
    messages = []
    for quote in quotes(text):
        values = known.get(quote.benchmark)
        for key, (start, end) in zip(quote.keys, quote.places, strict=True):
            if key == SETTING or values is None:
                continue
            if key not in values:
                messages.append(f"{quote.benchmark} measures no {key}; it has {', '.join(values)}")
            elif not shows(text[start:end], values[key]):
                measured = written(text[start:end], values[key])
                messages.append(f"{quote.benchmark}: {key} is {measured}, the page has {text[start:end]}")
    return messages


def requoted(text: str, known: Mapping[str, Mapping[str, float]]) -> str:
    """The page with the values that were measured."""
    places = {
        place: known[quote.benchmark][key]
        for quote in quotes(text)
        if quote.benchmark in known
        for key, place in zip(quote.keys, quote.places, strict=True)
        if key in known[quote.benchmark]
    }
    for (start, end), value in sorted(places.items(), reverse=True):
        text = text[:start] + written(text[start:end], value) + text[end:]
    return text
