"""From utilities and terms to a decision: weights of pseudo-references, expected utility, the self rule, ties.

The score of candidate i is w_u E_j[u(i, j)] + sum over terms of w_t t(i). Expected utility of hypothesis i: the
weighted mean of u(i, j) over the pseudo-references j. Everything is stated for the list with its duplicates written
out, and computed on unique texts: a text of weight w seen c times stands for c entries of weight w / c. Under the self
rule `exclude` a hypothesis does not count as its own pseudo-reference, so one of its c entries is left out; under
`include` all count.

    >>> expected_utility(np.array([[0.0, 2.0], [-2.0, 0.0]]), np.ones(2), np.ones(2))
    array([ 2., -2.])
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError, UsageError
from candidates.lists import CandidateList
from mbr.matrix import UtilityMatrix, row_blocks
from mbr.weights import SELF_RULES, WEIGHTS, SelfRule, Weights

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Certainty:
    """How sure a decision is; None where that is not known.

    `estimated_regret` is what the choice is expected to lose for pairs that were not scored, as a share of the best
    score minus the mean (0 where all were); `contenders`, how many candidates may still be the best. `rho` is the size
    of what no difference of qualities explains in the utility, `tau` that of its order bias, both as shares of the
    differences in quality (root mean squares).
    """

    estimated_regret: float | None = 0.0
    contenders: int | None = 1
    rho: float | None = None
    tau: float | None = None


@dataclass(frozen=True)
class Decision:
    """The choice for one candidate list.

    `ranking` holds indices into `candidates.texts`, best first. By index: `expected`, the expected utilities;
    `terms`, the value of every term; `scores`, what they add up to and what ranks (all empty without a decision).
    Flags: `tie` (the second is exactly as good), `single` (one distinct candidate, nothing scored: NaN), `truncated`
    (texts longer than the model can take), `unseen` (a budget too small to compare all; candidates left out are not in
    the ranking, their expected utility is NaN), `fallback` (no decision could be made; the first candidate stands in).
    `guard:NAME` (no candidate keeps all rules, and the chosen one breaks this). Candidates that guards or a prefilter
    dropped are not in the ranking either; `dropped_candidates` has the rules that those of guards break, by index.
    """

    id: str | int
    candidates: CandidateList | None
    ranking: tuple[int, ...]
    expected: Floats
    scores: Floats
    terms: Mapping[str, Floats] = field(default_factory=dict)
    passes: int = 0
    certainty: Certainty = field(default_factory=Certainty)
    flags: tuple[str, ...] = ()
    matrix: UtilityMatrix | None = None
    error: str | None = None
    dropped_candidates: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""  # of a segment that has no candidate list; else the list holds it

    @property
    def text(self) -> str:
        """The chosen translation; empty where there is none."""
        return self.candidates.texts[self.ranking[0]] if self.candidates and self.ranking else ""

    @property
    def dropped(self) -> int:
        """The number of candidates that guards dropped."""
        return len(self.dropped_candidates)

    @property
    def dropped_by(self) -> dict[str, int]:
        """How many of the dropped candidates break each rule."""
        return dict(Counter(chain.from_iterable(self.dropped_candidates.values())))

    @property
    def estimated_regret(self) -> float | None:
        return self.certainty.estimated_regret

    @property
    def margin(self) -> float | None:
        """By how much the best beats the second; None where there is no second."""
        if len(self.ranking) < 2 or not len(self.scores):
            return None
        return float(self.scores[self.ranking[0]] - self.scores[self.ranking[1]])

    def entries(self, top: int) -> list[dict[str, Any]]:
        """The best `top` candidates for JSON: text, score, expected utility, terms, place and count in the list."""
        if self.candidates is None:
            return []
        return [
            {
                "text": self.candidates.texts[index],
                **self._numbers(index),
                "position": self.candidates.positions[index][0],
                "count": self.candidates.counts[index],
            }
            for index in self.ranking[:top]
        ]

    def record(self, top: int = 1) -> dict[str, Any]:
        """The decision as a JSON object; with `top` above 1 also the next best candidates."""
        candidates, entries = self.candidates, self.entries(top)
        best = entries[0] if entries else {"text": None, "score": None, "expected_utility": None, "position": None}
        record: dict[str, Any] = {
            "id": self.id,
            "source": candidates.source if candidates else self.source,
            **{key: value for key, value in best.items() if key != "count"},
            "margin": rounded(self.margin),
            "candidates": sum(candidates.counts) if candidates else 0,
            "unique": len(candidates) if candidates else 0,
            "passes": self.passes,
            "estimated_regret": rounded(self.certainty.estimated_regret),
            "contenders": self.certainty.contenders,
            "rho": rounded(self.certainty.rho),
            "tau": rounded(self.certainty.tau),
            "flags": list(self.flags),
        }
        if self.dropped:
            record |= self.dropped_record()
        if self.error:
            record["error"] = self.error
        if top > 1:
            record["top"] = entries
        return record

    def dropped_record(self) -> dict[str, Any]:
        """What guards dropped, for JSON: the number, the number by rule, each candidate with the rules it breaks."""
        assert self.candidates is not None
        return {
            "dropped": self.dropped,
            "dropped_by": self.dropped_by,
            "dropped_candidates": [
                {
                    "text": self.candidates.texts[index],
                    "position": self.candidates.positions[index][0],
                    "guards": [*names],
                }
                for index, names in self.dropped_candidates.items()
            ],
        }

    def _numbers(self, index: int) -> dict[str, Any]:
        if not len(self.scores):
            return {"score": None, "expected_utility": None, "terms": {}}
        return {
            "score": rounded(float(self.scores[index])),
            "expected_utility": rounded(float(self.expected[index])),
            "terms": {name: rounded(float(values[index])) for name, values in self.terms.items()},
        }

    def _repr_html_(self) -> str:
        from mbr.notebook import decision_html

        return decision_html(self)


def rounded(value: float | None) -> float | None:
    """For output: six decimals; None where it is not a finite number."""
    return None if value is None or not math.isfinite(value) else round(value, 6)


@dataclass(frozen=True)
class ReferenceWeights:
    """What candidates count as pseudo-references.

    `kind`: `count`, as often as listed or drawn, so that the result is that of the list with duplicates written out;
    `uniform`, every distinct text once; `logprob`, the model's probabilities, normalised over the list.
    """

    kind: Weights = "count"
    self_rule: SelfRule = "exclude"

    def __post_init__(self) -> None:
        for name, value, allowed in (("weights", self.kind, WEIGHTS), ("self", self.self_rule, SELF_RULES)):
            if value not in allowed:
                raise UsageError(f"{name} {value!r} is unknown; expected one of {', '.join(allowed)}")

    def of(self, item: CandidateList) -> Floats:
        """Weights [N] of the unique texts."""
        if self.kind == "count":
            return np.array(item.counts, np.float64)
        if self.kind == "uniform":
            return np.ones(len(item))
        if item.logprobs is None or None in item.logprobs:
            raise InputError(f"segment {item.id!r}: --weights logprob, but a candidate has no log-probability")
        logprobs = np.array(item.logprobs, np.float64)
        # A floor far below any real probability keeps the rest of the list comparable where one candidate has it all.
        weights = np.exp(np.maximum(logprobs - logprobs.max(), -600.0))
        return np.asarray(weights / weights.sum())

    def copies(self, item: CandidateList) -> Floats:
        """How many listed entries stand behind each weight, [N]."""
        return np.array(item.counts, np.float64) if self.kind == "count" else np.ones(len(item))

    def own(self, item: CandidateList) -> Floats:
        """What of each weight [N] counts where a candidate is its own pseudo-reference."""
        return own_weights(self.of(item), self.copies(item), self.self_rule)

    def expected(self, values: NDArray[np.floating], item: CandidateList) -> Floats:
        """Expected utilities [N] of a list from its utilities [N, N]."""
        return expected_utility(values, self.of(item), self.copies(item), self.self_rule)


def own_weights(weights: Floats, copies: Floats, self_rule: SelfRule = "exclude") -> Floats:
    """What of each weight [N] counts where a candidate is its own pseudo-reference."""
    if self_rule == "include" or (len(weights) == 1 and copies[0] == 1):
        return weights
    return np.asarray(weights * (1 - 1 / copies))


def expected_utility(
    values: NDArray[np.floating], weights: Floats, copies: Floats, self_rule: SelfRule = "exclude"
) -> Floats:
    """E_i [N] from values [N, N], weights [N] and the number of listed copies [N] behind each weight."""
    own = own_weights(weights, copies, self_rule)
    expected = np.empty(len(weights))
    for rows in row_blocks(len(weights), len(weights)):
        shares = np.tile(weights, (rows.stop - rows.start, 1))  # [hypotheses, pseudo-references]
        np.fill_diagonal(shares[:, rows], own[rows])
        expected[rows] = (values[rows] * shares).sum(axis=1) / shares.sum(axis=1)
    return expected


def rank(scores: Floats) -> tuple[int, ...]:
    """Best first; ties to the earlier candidate."""
    return tuple(np.argsort(-scores, kind="stable").tolist())
