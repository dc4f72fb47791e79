"""One score of each candidate: `rerank` by quality estimation, and `aggregate`, a shortcut through the mean reference.

`aggregate` (DeNero et al. 2009; Vamvas & Sennrich 2024) compares each candidate once with the weighted mean of all
pseudo-references, of their n-gram counts or of their vectors, instead of with each of them: N comparisons for N
candidates, not N^2. What it loses by that is not known without the whole matrix.
"""

from __future__ import annotations

import numpy as np

from mbr.decide import Certainty, rank
from mbr.strategies.base import AskEach, Conversation, Outcome, Segment, Strategy


def _ask(segment: Segment) -> AskEach:
    pairs = np.repeat(np.arange(segment.size)[:, None], 2, axis=1)
    return AskEach(pairs, weights=segment.weights, own_weights=segment.own_weights)


def talk_rerank(segment: Segment) -> Conversation:
    scores = yield _ask(segment)
    values = np.repeat(scores[:, None], segment.size, axis=1)  # whoever is the reference
    expected = scores.astype(np.float64)
    return Outcome(values, np.ones(values.shape, np.bool_), expected, rank(expected))


def talk_aggregate(segment: Segment) -> Conversation:
    expected = (yield _ask(segment)).astype(np.float64)
    nothing = np.zeros((segment.size, segment.size))
    unknown = Certainty(estimated_regret=None, contenders=None)
    return Outcome(nothing.astype(np.float32), nothing.astype(np.bool_), expected, rank(expected), unknown)


RERANK = Strategy("rerank", "each candidate by itself", talk_rerank, lambda size, *_: size, asks="quality")
AGGREGATE = Strategy(
    "aggregate", "each candidate against the mean of all", talk_aggregate, lambda size, *_: size, asks="aggregate"
)
