"""One score per candidate: `rerank` by quality estimation, and `aggregate`, a shortcut through the mean reference.

`aggregate` (DeNero et al. 2009; Vamvas & Sennrich 2024) compares each candidate once with the weighted mean of all
pseudo-references (of their n-gram counts or of their vectors) instead of with each of them: O(N) comparisons for N
candidates, not O(N^2). Its loss cannot be estimated without the whole matrix. `rerank` too is O(N).
"""

from __future__ import annotations

import numpy as np

from mbr.decide import Certainty, rank
from mbr.strategies.base import AskEach, Conversation, Outcome, Segment, Strategy


def aggregate() -> Strategy:
    summary = "each candidate against the mean of all"
    return Strategy("aggregate", summary, aggregate_conversation, lambda size, *_: size, asks="aggregate")


def rerank() -> Strategy:
    return Strategy("rerank", "each candidate by itself", rerank_conversation, lambda size, *_: size, asks="quality")


def aggregate_conversation(segment: Segment) -> Conversation:
    scores = segment.with_terms((yield _ask(segment)).astype(np.float64))
    nothing = np.zeros((segment.size, segment.size))
    unknown = Certainty(estimated_regret=None, contenders=None)
    return Outcome(nothing.astype(np.float32), nothing.astype(np.bool_), scores, rank(scores), unknown)


def rerank_conversation(segment: Segment) -> Conversation:
    qualities = yield _ask(segment)
    values = np.repeat(qualities[:, None], segment.size, axis=1)  # the same for every pseudo-reference
    scores = segment.with_terms(qualities.astype(np.float64))
    return Outcome(values, np.ones(values.shape, np.bool_), scores, rank(scores))


def _ask(segment: Segment) -> AskEach:
    pairs = np.repeat(np.arange(segment.size)[:, None], 2, axis=1)
    return AskEach(pairs, weights=segment.weights, own_weights=segment.own_weights)
