"""From translations to labels: each is judged a number of times, and each judgment is a line that `pear-train` reads.

A line holds the marked errors; `pear.data.mqm.gemba_score` makes an MQM score of them when it is read (it stands beside
them as `mqm`, for people). Several judgments of a translation are lines of several raters, whose scores `pear-train`
averages (Junczys-Dowmunt 2025, GEMBA V2: ten judgments are better than one).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any

from candidates.chat.questions import Chat, Question, Reading
from candidates.chat.template import Template
from candidates.common.errors import InputError
from candidates.common.words import counted
from pear.data.mqm import gemba_score
from pear.labelling.errors import read_errors
from pear.labelling.translations import Translation

PROMPT = Path(__file__).with_name("mqm.txt")
NEEDS = ("source", "translation")
TAKES = ("src_lang", "tgt_lang", "reference")

Errors = list[dict[str, Any]]


@dataclass(frozen=True)
class Labels:
    """What became of one translation: its lines, those of answers that could not be read, whether a request failed."""

    lines: bytes
    invalid: bytes
    failed: bool


@dataclass
class LabelTally:
    """Counts of a run for its summary."""

    translations: int = 0
    labels: int = 0
    flawless: int = 0
    invalid: int = 0
    severities: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        errors = ", ".join(f"{count:,} {name}" for name, count in sorted(self.severities.items()))
        return (
            f"{counted(self.labels, 'label')} of {counted(self.translations, 'translation')}: {errors or 'no'} errors; "
            f"{self.flawless:,} without any"
            + (f"; {counted(self.invalid, 'judgment')} without a label" if self.invalid else "")
        )


class Labeller:
    """Labels translations by a chat model. It does not close the chat.

    Args:
        chat: the model.
        template: the prompt, with the places `NEEDS` and maybe `TAKES`.
        judgments: of each translation.
        seed: of the judgments.
        skip: whether a translation whose requests fail is left without a label; else its error is raised.
    """

    def __init__(
        self, chat: Chat, template: Template, *, judgments: int = 1, seed: int = 1, skip: bool = False
    ) -> None:
        self._chat = chat
        self._template = template
        self._judgments = judgments
        self._seed = seed
        self._skip = skip
        self.tally = LabelTally()

    def label(self, translations: Iterable[Translation]) -> Iterator[Labels]:
        """The labels of each translation, in order.

        Raises:
            InputError: the requests of a translation failed, and `skip` is not set.
            BudgetSpent, ModelError: as `Chat.ask` raises them.
        """
        ahead, behind = tee(translations)
        readings = self._chat.ask(question for item in ahead for question in self._questions(item))
        for item in behind:
            yield self._labels(item, [next(readings) for _ in range(self._judgments)])

    def _questions(self, item: Translation) -> Iterator[Question[Errors]]:
        messages = self._template.messages(item.places())
        read = partial(read_errors, translation=item.translation)
        for judgment in range(self._judgments):
            yield Question(messages, read, seed=1000 * self._seed + judgment)

    def _labels(self, item: Translation, readings: list[Reading[Errors]]) -> Labels:
        lines, invalid = [], []
        failed = False
        self.tally.translations += 1
        for number, reading in enumerate(readings, 1):
            rater = self._chat.model if self._judgments == 1 else f"{self._chat.model} #{number}"
            if reading.error is not None and not self._skip:
                raise InputError(f"a translation of {item.source!r:.60} has no label: {reading.error}")
            if reading.value is not None:
                lines.append(_line(item, rater, {"errors": reading.value, "mqm": gemba_score(reading.value)}))
                self.tally.labels += 1
                self.tally.flawless += not reading.value
                self.tally.severities.update(error["severity"] for error in reading.value)
            else:
                failed |= reading.error is not None
                self.tally.invalid += 1
            if reading.value is None or reading.rejected:
                answers = [{"text": answer.text, "reason": answer.reason} for answer in reading.rejected]
                error = {} if reading.error is None else {"error": str(reading.error)}
                invalid.append(_line(item, rater, {"labelled": reading.value is not None, "answers": answers, **error}))
        return Labels(b"".join(lines), b"".join(invalid), failed)


def _line(item: Translation, rater: str, content: dict[str, Any]) -> bytes:
    record = {"source": item.source, "translation": item.translation, **content, **item.names(), "rater": rater}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
