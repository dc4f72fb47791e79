"""How good each candidate is, by judges with references: what weights are tuned to, and what gains are reported in.

An objective is a mix of judges: `chrf+embedding`, `chrf:0.5+bleu`. Judges have scales of their own, so the scores of
each are divided by their standard deviation within lists. Of several references the nearest counts.

    >>> [(spec.name, weight) for spec, weight in parse_objective("chrf:0.5+bleu")]
    [('chrf', 0.5), ('bleu', 1.0)]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.lists import CandidateList
from mbr.cache.judgements import Cache
from mbr.evaluate.base import Judge
from mbr.evaluate.judges import JudgeSpec, parse_judges
from mbr.evaluate.judging import judged_rows
from mbr.tune.listwise import Floats, Ints, standardised

Objective = list[tuple[JudgeSpec, float]]

# Between judges; the name chrf++ holds two that are no such mark, and RESUME is added to a judge by one.
_PLUS = re.compile(r"(?<!\+)\+(?!\+|$|resume-metric=)|(?<=\+\+)\+(?!resume-metric=)")


def parse_objective(text: str) -> Objective:
    """Judges with weights, joined by `+`: NAME or NAME=MODEL, either with :WEIGHT.

    Raises:
        UsageError: a judge is unknown or named twice, or a weight is not above 0.
    """
    words, weights = [], []
    for part in _PLUS.split(text):
        word, weight = part.strip(), 1.0
        if match := re.fullmatch(r"(.+):([^:/=]*)", word):
            word, weight = match[1], _weight(match[2], text)
        if not word:
            raise UsageError(f"objective {text!r}: a judge is missing; expected judges joined by +, as chrf+embedding")
        words.append(word)
        weights.append(weight)
    specs = parse_judges(words)
    check_baselines(specs)
    return list(zip(specs, weights, strict=True))


def check_baselines(specs: Sequence[JudgeSpec]) -> None:
    """Raises UsageError where a judge compares with a baseline, which candidates do not have."""
    for spec in specs:
        if spec.needs_baseline:
            raise UsageError(
                f"{spec.title} compares systems with a baseline, and candidates have none; give pear-ref, which "
                "compares them with the reference"
            )


def _weight(text: str, objective: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = np.nan
    if not 0 < weight < np.inf:
        raise UsageError(f"objective {objective!r}: the weight {text!r} is not a number above 0; expected NAME:WEIGHT")
    return weight


@dataclass(frozen=True)
class JudgedLists:
    """One judge's scores of every candidate: of each list, scores [N] (higher is better) and statistics [N, k].

    `system` turns summed statistics [draws, k] into scores of a system, in the judge's own sign.
    """

    spec: JudgeSpec
    identity: str
    scores: list[Floats]
    statistics: list[Floats]
    system: Any

    def chosen(self, choices: Ints) -> Floats:
        """Statistics [lists, k] of choices [lists]."""
        return np.stack([values[choice] for values, choice in zip(self.statistics, choices, strict=True)])


def judge_lists(
    spec: JudgeSpec,
    lists: Sequence[CandidateList],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str = "13a",
    options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    progress: bool = False,
) -> JudgedLists:
    """Judge every candidate against every reference of its list; the nearest reference counts."""
    uses = spec.needs_reference or spec.texts(1) == 3
    chosen = spec.for_texts((item.source, item.texts) for item in lists)
    with chosen.open(references=1 if uses else 0, tokenize=tokenize, options=options, cache=cache) as judge:
        rows = _rows(judge, lists, references if uses else [[""]] * len(lists), uses)
        judged = judged_rows(judge, rows, cache, progress=spec.label if progress else None)
        scores = judge.segment_scores(judged.statistics) * (-1 if spec.lower_is_better else 1)
        near, statistics = [], []
        place = 0
        for item, texts in zip(lists, references, strict=True):
            shape = (len(texts) if uses else 1, len(item))
            rows_of_list = slice(place, place + shape[0] * shape[1])
            table = scores[rows_of_list].reshape(shape)  # [references, N]
            best = table.argmax(axis=0)
            counted = judged.statistics[rows_of_list].reshape(*shape, -1)
            near.append(table[best, np.arange(len(item))])
            statistics.append(counted[best, np.arange(len(item))])
            place = rows_of_list.stop
        return JudgedLists(spec, judge.identity, near, statistics, judge.scores)


def _rows(
    judge: Judge, lists: Sequence[CandidateList], references: Sequence[Sequence[str]], uses: bool
) -> list[tuple[str, ...]]:
    """All candidates of a list with its first reference, then with its second, and so on."""
    rows = []
    for item, texts in zip(lists, references, strict=True):
        for text in texts:
            sets = [[text] * len(item)] if uses else []
            rows += judge.rows([item.source] * len(item), item.texts, sets)
    return rows


def mixed(judged: Sequence[JudgedLists], weights: Sequence[float]) -> list[Floats]:
    """The objective of every candidate [N] of each list: weighted scores in standard deviations within lists.

    Raises:
        InputError: a judge gives all candidates of a list the same score, in every list.
    """
    total = [np.zeros(len(values)) for values in judged[0].scores]
    for judge, weight in zip(judged, weights, strict=True):
        _, deviation = standardised([values[:, None] for values in judge.scores])
        if not deviation[0] > 0:
            raise InputError(
                f"the judge {judge.spec.label} gives all candidates of a list the same score, in every list; there is "
                "nothing to learn from. Are the references those of the lists?"
            )
        total = [sums + weight / deviation[0] * values for sums, values in zip(total, judge.scores, strict=True)]
    return total
