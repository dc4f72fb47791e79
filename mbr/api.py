"""The functions of the package: lists in, decisions out.

>>> from mbr import rerank
>>> rerank("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund"], utility="chrf").text
'Ein Hund.'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from candidates.common.errors import InputError, MbrError, ModelError, UsageError
from candidates.formats import BadRecord, Record
from candidates.lists import Candidate, CandidateList
from mbr.cache.scores import Memory
from mbr.decide import Decision, SelfRule, Weights, list_prior
from mbr.matrix import UtilityMatrix
from mbr.pipeline import Decoder, OnError
from mbr.prefilter import Prefilter, Scores, parse_prefilter
from mbr.strategies import get_strategy
from mbr.utilities import QualityUtility, Utility, get_utility


def decode(
    lists: Iterable[CandidateList | tuple[str, Sequence[str]]],
    utility: str | Utility = "pear",
    *,
    strategy: str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    budget_total: int | None = None,
    prefilter: str | Prefilter | None = None,
    weights: Weights = "count",
    self_rule: SelfRule = "exclude",
    seed: int = 1,
    on_error: OnError = "stop",
    keep_matrix: bool = False,
    prior: float = 0.0,
    **options: Any,
) -> Iterator[Decision]:
    """Decode candidate lists (or `(source, candidates)` pairs), streaming, in order.

    `budget`: passes per list at most; `tolerance`: the regret to accept (strategies: docs/strategies.md);
    `budget_total`: passes for all lists together, which are then all read first. `prefilter`: a first stage such as
    "chrf:30". `prior`: weight of the generator's own log-probability per word beside the utility. `options` go to the
    utility: `decode(lists, "pear", model="Prosho/pear", device="cuda")`.
    """
    ready = get_utility(utility, **options) if isinstance(utility, str) else utility
    if options and not isinstance(utility, str):
        raise UsageError(f"options {', '.join(options)} go with a utility's name; this utility is already made")
    decoder = Decoder(
        ready,
        get_strategy(strategy or ready.default_strategy, budget=budget, tolerance=tolerance),
        weights=weights,
        self_rule=self_rule,
        seed=seed,
        on_error=on_error,
        keep_matrix=keep_matrix,
        prior=prior,
        prefilter=(
            get_prefilter(prefilter, weights=weights, self_rule=self_rule, seed=seed)
            if isinstance(prefilter, str)
            else prefilter
        ),
        budget_total=budget_total,
    )
    return chain.from_iterable(decoder.windows(_as_records(lists)))


def rerank(
    source: str,
    candidates: Sequence[str | Candidate],
    utility: str | Utility = "pear",
    **settings: Any,
) -> Decision:
    """The decision for one source. `settings` as for `decode`."""
    return next(decode([CandidateList.of(source, candidates)], utility, **settings))


def utility_matrix(
    source: str,
    candidates: Sequence[str],
    utility: str | Utility = "pear",
    **settings: Any,
) -> UtilityMatrix:
    """The utility matrix of one list, over its distinct texts (`matrix.texts`)."""
    decision = rerank(source, candidates, utility, keep_matrix=True, **settings)
    return cast(UtilityMatrix, decision.matrix)


def get_prefilter(
    text: str,
    utility: Utility | None = None,
    *,
    weights: Weights = "count",
    self_rule: SelfRule = "exclude",
    seed: int = 1,
    memory: Memory | None = None,
) -> Prefilter:
    """`chrf:30`: keep the 30 best of each list by chrF-MBR; `logprob:50`: by log-probability per word.

    Any utility will do, with its own strategy; `utility` is the one named, if it is made already. The rules are those
    of the decision that follows. `memory` knows scores of before (`mbr.cache.scores`).
    """
    name, keep = parse_prefilter(text)
    if name == "logprob" and utility is None:
        return Prefilter(text, keep, _by_log_probability)
    ready = utility or get_utility(name)
    strategy = get_strategy(ready.default_strategy)
    rules: dict[str, Any] = {"weights": weights, "self_rule": self_rule, "seed": seed}
    decoder = Decoder(ready, strategy, **rules, on_error="skip", memory=memory)

    def score(items: Sequence[CandidateList]) -> list[Scores | MbrError]:
        return [_scores(decision) for decision in chain.from_iterable(decoder.windows(items))]

    settings = {**ready.settings(), "strategy": strategy.name, **strategy.settings}

    def cost(items: Sequence[CandidateList]) -> dict[str, Any]:
        if not isinstance(ready, QualityUtility):
            return {}
        return ready.cost([(item.source, one) for item in items for one in item.texts])

    return Prefilter(text, keep, score, settings, tuple(ready.notes()), cost)


def _scores(decision: Decision) -> Scores | MbrError:
    """Expected utilities; candidates that were not looked at come last."""
    if decision.error is not None:
        return ModelError(decision.error)
    return np.nan_to_num(decision.expected, nan=float(np.nanmin(decision.expected)))


def _by_log_probability(items: Sequence[CandidateList]) -> list[Scores | MbrError]:
    found: list[Scores | MbrError] = []
    for item in items:
        try:
            found.append(np.asarray(list_prior(item, 1.0)))
        except InputError:
            found.append(
                InputError(f"segment {item.id!r}: --prefilter logprob needs a log-probability of every candidate")
            )
    return found


def _as_records(lists: Iterable[CandidateList | tuple[str, Sequence[str]]]) -> Iterator[Record]:
    for index, item in enumerate(lists):
        if isinstance(item, (CandidateList, BadRecord)):
            yield item
        else:
            yield CandidateList.of(item[0], item[1], id=index)
