"""`--explain`: one decision for people. Candidates with their numbers, the pairs as a grid, the reasons.

Few strategies score all pairs. Where a utility is a difference of qualities (antisymmetric), the expected utilities
predict the others: u(i, j) is about E(i) - E(j). The grid marks such cells; for other utilities they stay empty.

The reasons are differences: a score is the weighted expected utility plus the weighted terms, so by how much the choice
is ahead of another candidate is the sum of what each part adds. A part without which the other one would be
ahead has made the difference.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from candidates.command.colour import BOLD, CYAN, DIM, ESCAPE, GREEN, RED, painted
from candidates.common.errors import InputError, UsageError
from candidates.common.words import counted
from candidates.formats import BadRecord, Record
from mbr.cli.common.layout import WIDTH, display_width
from mbr.decide import Decision
from mbr.matrix import UtilityMatrix
from mbr.pipeline import Decoder
from mbr.recipe import Recipe

SHOWN = 10  # candidates, without --top
LEAST_TEXT = 40  # columns for the text of a candidate beside its numbers
FIRST = ""  # of --explain without an ID
# Backgrounds of cells from much worse to much better (256 colours), and what stands for them without colour.
SHADES = ("48;5;203", "48;5;217", "48;5;254", "48;5;151", "48;5;71")
UNSCORED, ESTIMATED = "·", "~"


def check_explain(options: argparse.Namespace) -> None:
    """Refuse options that --explain, which writes no results, has no use for."""
    if options.explain is None:
        return
    for name in ("output", "matrix", "route", "report", "save_candidates", "shard", "ray", "budget_total", "dry_run"):
        if getattr(options, name):
            raise UsageError(f"--explain prints one decision for people; leave out --{name.replace('_', '-')}")
    if options.format != "text":
        raise UsageError(f"--explain prints text for people; leave out --format {options.format}")


def explained(decoder: Decoder, records: Iterable[Record], segment: str, top: int, *, colour: bool) -> str:
    """Decide one list and explain the decision.

    Args:
        decoder: makes the decision.
        records: the input; it is read up to the list.
        segment: the id of the list, or its number from 1; `FIRST` for the first.
        top: how many candidates to show; 1 is the usual number.
        colour: whether a terminal shows colours.

    Raises:
        InputError: there is no such list, or it has no decision.
    """
    record = _wanted(records, segment)
    if isinstance(record, BadRecord):
        raise record.error
    (decision,) = replace(decoder, keep_matrix=True, on_error="stop").decide([record])
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    return explanation(decision, decoder.recipe, SHOWN if top == 1 else top, width, colour=colour)


def explanation(decision: Decision, recipe: Recipe, shown: int, width: int, *, colour: bool) -> str:
    """The text for one decision; `shown` candidates at most, in lines of `width` columns."""
    parts = [
        "\n".join(wrapped(line, width, indent=12) for line in _summary(decision, recipe, colour)),
        "\n".join(_table(decision, recipe, shown, width, colour)),
        "\n".join(_grid(decision, shown, width, colour)),
        "\n".join(wrapped(sentence, width) for sentence in _reasons(decision, recipe, colour)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def contributions(decision: Decision, recipe: Recipe, best: int, other: int) -> dict[str, float]:
    """What each part adds to the score of candidate `best` beyond that of `other`; their sum is the difference."""
    parts = {}
    if recipe.utility != "none":
        parts[recipe.utility] = recipe.weight * float(decision.expected[best] - decision.expected[other])
    for term in recipe.terms:
        values = decision.terms.get(term.name)
        if values is not None:
            name = term.name if term.name != recipe.utility else f"term {term.name}"
            parts[name] = term.weight * float(values[best] - values[other])
    return parts


def wrapped(text: str, width: int, indent: int = 2) -> str:
    """A sentence in lines of at most `width` columns; escapes of colours have none."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] or len(lines) == 1 else word
        if display_width(ESCAPE.sub("", joined)) - 1 > width and lines[-1].strip():
            lines.append(" " * indent + word)
        else:
            lines[-1] = joined
    return "\n".join([lines[0][1:], *lines[1:]])


def _wanted(records: Iterable[Record], segment: str) -> Record:
    """The record with this id; a number also counts from 1."""
    numbered = int(segment) if segment.isdecimal() else 1 if segment == FIRST else None
    by_number: Record | None = None
    count = 0
    for count, record in enumerate(records, 1):
        if segment != FIRST and str(record.id) == segment:
            return record
        if count == numbered:
            if segment == FIRST:
                return record
            by_number = record
    if by_number is not None:
        return by_number
    raise InputError(
        f"no list {segment or 'to explain'}: the input has {counted(count, 'list')}; expected an id, or a number from 1"
    )


def _summary(decision: Decision, recipe: Recipe, colour: bool) -> Iterator[str]:
    item = decision.candidates
    assert item is not None
    matrix = decision.matrix
    compared = len(matrix.texts) if matrix is not None else len(item)
    listed = sum(item.counts)
    words = [f"{counted(len(item), 'distinct candidate')} of {listed:,}"]
    if decision.dropped:
        rules = ", ".join(f"{name} {count:,}" for name, count in decision.dropped_by.items())
        words.append(f"{decision.dropped:,} dropped by guards ({rules})")
    if compared + decision.dropped < len(item):
        words.append(f"{compared:,} kept by the prefilter {recipe.prefilter}")
    if decision.passes:
        antisymmetric = matrix is not None and matrix.relation == "antisymmetric"
        possible = f" of {compared * (compared - 1) // 2:,}" if antisymmetric else ""
        words.append(f"{decision.passes:,}{possible} pairs scored by {recipe.utility}")
    yield f"{painted('source    ', BOLD, colour=colour)}  {item.source}"
    yield f"{painted('chosen    ', BOLD, colour=colour)}  {decision.text}"
    yield f"{painted('candidates', BOLD, colour=colour)}  {'; '.join(words)}"


def _table(decision: Decision, recipe: Recipe, shown: int, width: int, colour: bool) -> Iterator[str]:
    """The best candidates, and the first of the list where it is not among them."""
    item = decision.candidates
    assert item is not None
    ranked = list(decision.ranking[:shown])
    first = _first(decision)
    if first not in ranked:
        ranked.append(first)
    ranks = {index: rank for rank, index in enumerate(decision.ranking, 1)}
    head = ["rank", "score", *([recipe.utility] if recipe.utility != "none" else []), *decision.terms, "place", "count"]
    rows = [
        [
            str(ranks.get(index, "-")),
            _number(decision.scores, index),
            *([_number(decision.expected, index)] if recipe.utility != "none" else []),
            *(_number(values, index) for values in decision.terms.values()),
            str(item.positions[index][0] + 1),
            str(item.counts[index]),
        ]
        for index in ranked
    ]
    weights = [*([recipe.weight] if recipe.utility != "none" else []), *_weights(decision, recipe)]
    factors = ["", "", *(f"{weight:g}" for weight in weights), "", ""]
    widths = [max(map(len, column)) for column in zip(head, factors, *rows, strict=True)]
    room = width - sum(widths) - 2 * len(widths)
    below = room < LEAST_TEXT  # then each text has a line of its own

    def numbers(cells: Sequence[str]) -> str:
        return "  ".join(cell.rjust(wide) for cell, wide in zip(cells, widths, strict=True))

    def line(cells: Sequence[str], text: str) -> str:
        return f"{numbers(cells)}\n      {_cut(text, width - 6)}" if below else f"{numbers(cells)}  {_cut(text, room)}"

    heads = numbers(head) if below else line(head, "candidate")
    yield painted(heads, BOLD, colour=colour)
    yield painted(f"weight{numbers(factors)[6:].rstrip()}", DIM, colour=colour)
    if below:
        yield painted("      candidate", BOLD, colour=colour)
    for place, (index, cells) in enumerate(zip(ranked, rows, strict=True)):
        yield painted(line(cells, item.texts[index]), GREEN, colour=colour and not place)
    if len(decision.ranking) > shown:
        yield painted(f"and {len(decision.ranking) - shown:,} more (--top N shows N)", DIM, colour=colour)


def _weights(decision: Decision, recipe: Recipe) -> list[float]:
    """What the values of each term are multiplied by before they are added to the score."""
    by_name = {term.name: term.weight for term in recipe.terms}
    return [by_name[name] for name in decision.terms]


def _grid(decision: Decision, shown: int, width: int, colour: bool) -> Iterator[str]:
    """The pairs of the best candidates, rows and columns by rank: scored, estimated, or neither."""
    matrix, item = decision.matrix, decision.candidates
    if matrix is None or item is None or len(matrix.texts) < 2 or not matrix.scored.any():
        return
    place = {text: number for number, text in enumerate(matrix.texts)}
    indices = [index for index in decision.ranking if item.texts[index] in place]
    indices = indices[: max(min(shown, (width - 4) // 4), 2)]
    scores = _cells(matrix, [place[item.texts[index]] for index in indices])
    signed = matrix.relation == "antisymmetric"
    values = np.where(np.isnan(scores), _estimates(decision, indices), scores) if signed else scores
    empty, estimated = np.isnan(values), np.isnan(scores) & np.isfinite(values)
    np.fill_diagonal(empty, val=False)
    ranks = [f"{rank:>3}" for rank in range(1, len(indices) + 1)]
    meaning = "how much better the row is than the column" if signed else "utility of the row against the column"
    marks = [f"{ESTIMATED} was not scored but estimated from the expected utilities"] if estimated.any() else []
    marks += [f"{UNSCORED} was not scored"] if empty.any() else []
    legend = "; ".join([f"by rank: {meaning}, from {_ends(signed)}", *marks])
    yield wrapped(f"{painted('pairs', BOLD, colour=colour)}  {legend}", width, indent=7)
    yield painted("    " + " ".join(ranks), DIM, colour=colour)
    levels = _levels(values, signed=signed)
    for number, (rank, row) in enumerate(zip(ranks, levels, strict=True)):
        cells = [
            _cell(level, signed, colour, estimated=guess) for level, guess in zip(row, estimated[number], strict=True)
        ]
        cells[number] = "   "  # of a candidate against itself
        yield (painted(rank, DIM, colour=colour) + " " + " ".join(cells)).rstrip()


def _estimates(decision: Decision, indices: list[int]) -> Any:
    """What the expected utilities predict of each pair, [shown, shown]; NaN on the diagonal and without one."""
    expected = decision.expected[indices].astype(np.float64)
    estimates = expected[:, None] - expected[None, :]
    np.fill_diagonal(estimates, np.nan)
    return estimates


def _cells(matrix: UtilityMatrix, places: list[int]) -> Any:
    """Values [shown, shown] of some candidates; NaN where neither order was scored."""
    square = np.ix_(places, places)
    values, scored = matrix.values[square].astype(np.float64), matrix.scored[square]
    if matrix.relation == "none":
        cells = np.where(scored, values, np.nan)
    else:
        sign = -1.0 if matrix.relation == "antisymmetric" else 1.0
        both = (np.where(scored, values, 0) + sign * np.where(scored.T, values.T, 0)) / np.maximum(
            scored.astype(int) + scored.T, 1
        )
        cells = np.where(scored | scored.T, both, np.nan)
    np.fill_diagonal(cells, np.nan)
    return cells


def _levels(values: Any, *, signed: bool) -> list[list[int | None]]:
    """Each cell as a number: -2 to 2 where values have a sign, else 0 to 9; None where there is none."""
    finite = values[np.isfinite(values)]
    if signed:
        largest = float(np.abs(finite).max()) if len(finite) else 0.0
        scaled = np.zeros_like(values) if not largest else np.rint(values / largest * 2)
    else:
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        scaled = np.zeros_like(values) if high <= low else np.floor((values - low) / (high - low) * 9.999)
    return [
        [int(level) if math.isfinite(value) else None for value, level in zip(row, levels, strict=True)]
        for row, levels in zip(values, scaled, strict=True)
    ]


def _cell(level: int | None, signed: bool, colour: bool, *, estimated: bool) -> str:
    if level is None:
        return painted(f" {UNSCORED} ", DIM, colour=colour)
    word = ("--", "-", "=", "+", "++")[level + 2] if signed else str(level)
    if estimated:
        return painted(f"{ESTIMATED}{word:<2}", DIM, colour=colour)
    shade = SHADES[level + 2] if signed else SHADES[min(level // 2, 4)]
    return painted(f"{word:^3}", "30", shade, colour=colour)


def _ends(signed: bool) -> str:
    return "-- (much worse) to ++ (much better)" if signed else "0 (lowest) to 9 (highest)"


def _reasons(decision: Decision, recipe: Recipe, colour: bool) -> Iterator[str]:
    ranking = decision.ranking
    yield painted("why", BOLD, colour=colour)
    if "single" in decision.flags:
        yield "  There was one candidate to choose from, so nothing was scored."
        return
    first = _first(decision)
    if len(ranking) > 1:
        yield from _against(decision, recipe, ranking[1], "the runner-up", colour)
    if ranking[0] == first:
        yield "  The choice is also the first candidate of the list."
    elif len(ranking) < 2 or ranking[1] != first:
        yield from _against(decision, recipe, first, "the first candidate of the list", colour)
    certainty = decision.certainty
    if certainty.estimated_regret:
        rivals = "" if certainty.contenders is None else f"; {counted(certainty.contenders, 'contender')} left"
        yield (
            f"  Pairs that were not scored are expected to cost {100 * certainty.estimated_regret:.1f} % of what the "
            f"best gains on the mean{rivals}."
        )
    elif certainty.estimated_regret is None:
        yield "  Expected regret is unknown: too few pairs were scored to estimate it."


def _against(decision: Decision, recipe: Recipe, other: int, role: str, colour: bool) -> Iterator[str]:
    """Sentences on the difference between the choice and another candidate."""
    item = decision.candidates
    assert item is not None
    called = f"{role} (place {item.positions[other][0] + 1})"
    best = decision.ranking[0]
    margin = float(decision.scores[best] - decision.scores[other])
    if other not in decision.ranking or not math.isfinite(margin):
        yield f"  Against {called}: a guard, the prefilter or the budget left it out before it was compared."
        return
    parts = contributions(decision, recipe, best, other)
    listed = ", ".join(
        f"{name} {painted(f'{value:+.4g}', GREEN if value > 0 else RED, colour=colour and value != 0)}"
        for name, value in sorted(parts.items(), key=lambda part: -abs(part[1]))
    )
    if margin == 0:
        yield f"  Against {called} it is an exact tie ({listed}); the earlier candidate wins."
        return
    yield f"  Against {called} the choice is ahead by {margin:.4g}: {listed}."
    decisive = [name for name, value in parts.items() if margin - value < 0]
    opposed = [name for name, value in parts.items() if value < 0]
    if len(parts) > 1:
        if decisive:
            names = " or ".join(painted(name, CYAN, colour=colour) for name in decisive)
            yield f"  Without {names} it would have been the other way round."
        elif opposed:
            yield f"  {' and '.join(opposed)} would prefer the other one, but the rest outweighs that."
        else:
            largest = max(parts, key=lambda name: parts[name])
            yield f"  Most of it is {largest}; without any one part the choice would still be ahead."


def _first(decision: Decision) -> int:
    """The candidate at the first place of the list, which the translator thinks the best of a beam."""
    item = decision.candidates
    assert item is not None
    return min(range(len(item)), key=lambda index: item.positions[index][0])


def _number(values: Any, index: int) -> str:
    value = float(values[index]) if len(values) else math.nan
    return f"{value:.4g}" if math.isfinite(value) else "-"


def _cut(text: str, room: int) -> str:
    """The beginning of a text on one line."""
    text = " ".join(text.split())
    if display_width(text) <= room:
        return text
    while display_width(text) > room - 1:
        text = text[:-1]
    return text + "…"
