"""Epsilon sampling from a model that only continues prefixes: exact draws, few calls.

All draws of a source share one tree of prefixes. At a node, one multinomial distributes its draws over the next tokens
without those below epsilon (Hewitt et al., 2022), which is equivalent to drawing one by one. A call for a prefix also
returns the model's greedy continuation with the distributions along it, so draws that follow it need no further call;
only draws that leave it start a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Path:
    """The greedy continuation of a prefix: tokens, and the logits of which each is the largest."""

    tokens: list[int]
    logits: NDArray[np.float32]  # [len(tokens), vocabulary]


@dataclass(frozen=True)
class Draw:
    """A sequence without its end token, its log-probability at temperature one, and its number of draws."""

    tokens: Prefix
    logprob: float
    count: int
    finished: bool


Continue = Callable[[list[Prefix]], list[Path]]


def sample(
    paths: Continue,
    *,
    draws: int,
    epsilon: float,
    temperature: float,
    max_length: int,
    end: int,
    random: np.random.Generator,
) -> list[Draw]:
    """Draw sequences; every path of `paths` must hold at least one token."""
    draws_made: list[Draw] = []
    waiting: dict[Prefix, tuple[int, float]] = {(): (draws, 0.0)}
    while waiting:
        leaving: dict[Prefix, tuple[int, float]] = {}
        for prefix, path in zip(waiting, paths(list(waiting)), strict=True):
            count, logprob = waiting[prefix]
            here = prefix
            for greedy, logits in zip(path.tokens, path.logits, strict=True):
                tokens, shares = truncated(logits, epsilon, temperature)
                logprobs = _log_softmax(logits)
                following = 0
                for token, times in zip(tokens.tolist(), random.multinomial(count, shares).tolist(), strict=True):
                    reached = logprob + float(logprobs[token])
                    if not times:
                        continue
                    if token == end:
                        draws_made.append(Draw(here, reached, times, finished=True))
                    elif len(here) + 1 == max_length:
                        draws_made.append(Draw((*here, token), reached, times, finished=False))
                    elif token == greedy:
                        following = times
                    else:
                        leaving[(*here, token)] = times, reached
                count = following
                if not count:
                    break
                here, logprob = (*here, greedy), logprob + float(logprobs[greedy])
            if count:  # the path ended before its draws did
                leaving[here] = count, logprob
        waiting = leaving
    return draws_made


def truncated(
    logits: NDArray[np.float32], epsilon: float, temperature: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Tokens with at least the probability epsilon, and their shares; the most likely token if none reaches it."""
    probabilities = np.exp(_log_softmax(logits / temperature))
    tokens = np.flatnonzero(probabilities >= epsilon)
    if not len(tokens):
        tokens = np.array([probabilities.argmax()])
    kept = probabilities[tokens]
    return tokens, kept / kept.sum()


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted: NDArray[np.float64] = logits.astype(np.float64) - logits.max()
    return shifted - float(np.log(np.exp(shifted).sum()))
