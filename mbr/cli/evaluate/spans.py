"""Errors that a judge found in the outputs: as JSON lines for programs, and as marked text for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mbr.evaluate import Evaluation
    from mbr.metrics.xcomet import Span

INLINE = "-"  # the value of --spans without a file: in the output itself
COLOURS = {"minor": "\x1b[30;43m", "major": "\x1b[37;41m", "critical": "\x1b[37;45m"}
PLAIN = "\x1b[0m"


def span_records(evaluation: Evaluation, outputs: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """One record per judge, segment and system, also where no error was found."""
    for judge in evaluation.judges:
        for index in range(evaluation.segments if judge.spans else 0):
            for name in evaluation.systems:
                yield {
                    "segment": index + 1,
                    "system": name,
                    "judge": judge.label,
                    "output": outputs[name][index],
                    "score": float(judge.segments[name][index]),
                    "spans": [vars(span) for span in judge.spans[name][index]],
                }


def render_spans(evaluation: Evaluation, outputs: Mapping[str, Sequence[str]], *, lines: bool, colour: bool) -> str:
    """JSON lines, or marked text; `colour` is for a terminal."""
    if lines:
        records = span_records(evaluation, outputs)
        return "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
    return "\n".join(_blocks(evaluation, outputs, colour))


def in_colour(output: str | None) -> bool:
    """Whether the result goes to a terminal that shows colours."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def marked(text: str, spans: Sequence[Span], *, colour: bool = False) -> str:
    """A text with its errors as `[words](severity)`, or in colour."""
    parts, place = [], 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        begin, end = max(span.start, place), max(span.end, place)
        words = text[begin:end]
        begin += len(words) - len(words.lstrip())  # the space before a word belongs to its first token
        parts.append(_shown(text[place:begin]))
        words = _shown(text[begin:end])
        parts.append(f"{COLOURS[span.severity]}{words}{PLAIN}" if colour else f"[{words}]({span.severity})")
        place = end
    return "".join([*parts, _shown(text[place:])])


def _blocks(evaluation: Evaluation, outputs: Mapping[str, Sequence[str]], colour: bool) -> Iterator[str]:
    if colour:
        yield "errors: " + " ".join(f"{start}{severity}{PLAIN}" for severity, start in COLOURS.items()) + "\n"
    for judge in evaluation.judges:
        for name in evaluation.ranking() if judge.spans else []:
            wrong = [number for number, spans in enumerate(judge.spans[name]) if spans]
            head = f"errors by {judge.label} in {name}: {len(wrong)} of {evaluation.segments} segments"
            width = len(str(evaluation.segments))
            lines = [
                f"{number + 1:>{width}}  {marked(outputs[name][number], judge.spans[name][number], colour=colour)}"
                for number in wrong
            ]
            yield "".join(f"{line}\n" for line in [head, *lines])


def _shown(text: str) -> str:
    """Without characters that would change the terminal or the lines."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
