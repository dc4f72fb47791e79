"""Rows that no utility chooses, to compare with: the first candidate, a random one, the best by the references."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from candidates.lists import CandidateList
from mbr.cache.judgements import Cache
from mbr.evaluate.judges import JudgeSpec
from mbr.evaluate.judging import judged_rows


def first_choices(lists: Sequence[CandidateList]) -> list[int]:
    return [0] * len(lists)


def likeliest_choices(lists: Sequence[CandidateList]) -> list[int]:
    """The candidate with the highest log-probability; the first candidate of a list without log-probabilities."""
    return [
        0 if item.logprobs is None else int(np.argmax([-np.inf if value is None else value for value in item.logprobs]))
        for item in lists
    ]


def random_choices(lists: Sequence[CandidateList], seed: int) -> list[int]:
    """A random entry of each list, duplicates counted; it depends on the seed and the list's own texts alone."""
    chosen = []
    for item in lists:
        digest = hashlib.blake2b("\0".join([str(seed), item.source, *item.texts]).encode(), digest_size=8).digest()
        entry = int.from_bytes(digest, "big") % sum(item.counts)
        chosen.append(int(np.searchsorted(np.cumsum(item.counts), entry, side="right")))
    return chosen


def oracle_choices(
    lists: Sequence[CandidateList],
    references: Sequence[Sequence[str]],
    spec: JudgeSpec,
    *,
    tokenize: str = "13a",
    options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    progress: str | None = None,
) -> list[int]:
    """The candidate of each list with the best score by a judge, given the references; ties go to the earlier one."""
    chosen = spec.for_texts((item.source, item.texts) for item in lists)
    with chosen.open(references=len(references), tokenize=tokenize, options=options, cache=cache) as judge:
        sources = [item.source for item in lists for _ in item.texts]
        outputs = [text for item in lists for text in item.texts]
        copies = [[text for text, item in zip(texts, lists, strict=True) for _ in item.texts] for texts in references]
        judged = judged_rows(judge, judge.rows(sources, outputs, copies), cache, progress=progress)
        scores = judge.segment_scores(judged.statistics)
    if spec.lower_is_better:
        scores = -scores
    ends = np.cumsum([len(item) for item in lists])[:-1]
    return [int(np.argmax(part)) for part in np.split(scores, ends)]
