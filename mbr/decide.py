"""From a utility matrix to a decision: weights, expected utility, the self rule, ties.

Expected utility of hypothesis i: the weighted mean of u(i, j) over the pseudo-references j. Everything is
stated for the list with its duplicates written out, and computed on unique texts: a text of weight w seen c times
stands for c entries of weight w / c. Under the self rule `exclude` a hypothesis does not count as its own
pseudo-reference, so one of its c entries is left out; under `include` all count.

    >>> expected_utility(np.array([[0.0, 2.0], [-2.0, 0.0]]), np.ones(2), np.ones(2))
    array([ 2., -2.])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError
from candidates.lists import CandidateList
from mbr.matrix import UtilityMatrix

Weights = Literal["count", "uniform", "logprob"]
SelfRule = Literal["exclude", "include"]
WEIGHTS: tuple[Weights, ...] = ("count", "uniform", "logprob")
SELF_RULES: tuple[SelfRule, ...] = ("exclude", "include")


@dataclass(frozen=True)
class Certainty:
    """How sure a decision is; None where that is not known.

    `estimated_regret` is what the choice is expected to lose for pairs that were not scored, as a share of the best
    expected utility minus the mean (0 where all were); `contenders`, how many candidates may still be the best. `rho`
    is the size of what no difference of qualities explains in the utility, `tau` that of its order bias, both as shares
    of the differences in quality (root mean squares).
    """

    estimated_regret: float | None = 0.0
    contenders: int | None = 1
    rho: float | None = None
    tau: float | None = None


@dataclass(frozen=True)
class Decision:
    """The choice for one candidate list.

    `ranking` holds indices into `candidates.texts`, best first; `expected` their expected utilities
    by index (empty where nothing was scored).
    Flags: `tie` (the second is exactly as good), `single` (one distinct candidate, nothing scored), `truncated`
    (texts longer than the model can take), `unseen` (a budget too small to compare all; those left out are not in the
    ranking, their expected utility is NaN), `fallback` (no decision could be made; the first candidate stands in).
    What a prefilter dropped is not in the ranking either.
    """

    id: str | int
    candidates: CandidateList | None
    ranking: tuple[int, ...]
    expected: NDArray[np.float64]
    passes: int = 0
    certainty: Certainty = field(default_factory=Certainty)
    flags: tuple[str, ...] = ()
    matrix: UtilityMatrix | None = None
    error: str | None = None
    source: str = ""  # of a segment that has no candidate list; else the list holds it

    @property
    def text(self) -> str:
        """The chosen translation; empty where there is none."""
        return self.candidates.texts[self.ranking[0]] if self.candidates and self.ranking else ""

    @property
    def estimated_regret(self) -> float | None:
        return self.certainty.estimated_regret

    @property
    def margin(self) -> float | None:
        """By how much the best beats the second; None where there is no second."""
        if len(self.ranking) < 2 or not len(self.expected):
            return None
        return float(self.expected[self.ranking[0]] - self.expected[self.ranking[1]])

    def _repr_html_(self) -> str:
        from mbr.notebook import decision_html

        return decision_html(self)


def list_weights(item: CandidateList, kind: Weights) -> NDArray[np.float64]:
    """Weights [N] of the unique texts.

    `count`: as often as listed or drawn, so that the result is that of the list with duplicates written out;
    `uniform`: every distinct text once; `logprob`: the model's probabilities, normalised over the list.
    """
    if kind == "count":
        return np.array(item.counts, np.float64)
    if kind == "uniform":
        return np.ones(len(item))
    if item.logprobs is None or None in item.logprobs:
        raise InputError(f"segment {item.id!r}: --weights logprob, but a candidate has no log-probability")
    logprobs = np.array(item.logprobs, np.float64)
    # A floor far below any real probability keeps the rest of the list comparable where one candidate has it all.
    weights = np.exp(np.maximum(logprobs - logprobs.max(), -600.0))
    return np.asarray(weights / weights.sum())


def list_prior(item: CandidateList, prior: float) -> NDArray[np.float64] | None:
    """What the generator's own opinion adds to each candidate [N]: `prior` times log-probability per word.

    A word is what stands between spaces, but at most six signs long on the average, which does for languages without
    spaces; two more count for the end. Added to every utility as prior_i - prior_j, it leaves an antisymmetric utility
    antisymmetric, so that every strategy takes it in.
    """
    if not prior:
        return None
    if item.logprobs is None or None in item.logprobs:
        raise InputError(
            f"segment {item.id!r}: a prior needs the log-probability of every candidate; give lists that have them, or "
            "--prior 0"
        )
    words = np.array([max(len(text.split()), len(text) / 6) + 2 for text in item.texts])
    return np.asarray(prior * np.maximum(np.array(item.logprobs, np.float64), -1e6) / words)


def own_weights(
    weights: NDArray[np.float64], copies: NDArray[np.float64], self_rule: SelfRule = "exclude"
) -> NDArray[np.float64]:
    """What of each weight [N] counts where a candidate is its own pseudo-reference."""
    if self_rule == "include" or (len(weights) == 1 and copies[0] == 1):
        return weights
    return np.asarray(weights * (1 - 1 / copies))


def expected_utility(
    values: NDArray[np.floating],
    weights: NDArray[np.float64],
    copies: NDArray[np.float64],
    self_rule: SelfRule = "exclude",
) -> NDArray[np.float64]:
    """E_i [N] from values [N, N], weights [N] and the number of listed copies [N] behind each weight."""
    shares = np.tile(weights, (len(weights), 1))  # [hypotheses, pseudo-references]
    np.fill_diagonal(shares, own_weights(weights, copies, self_rule))
    return np.asarray((values * shares).sum(axis=1) / shares.sum(axis=1))


def rank(expected: NDArray[np.float64]) -> tuple[int, ...]:
    """Best first; ties to the earlier candidate."""
    return tuple(np.argsort(-expected, kind="stable").tolist())
