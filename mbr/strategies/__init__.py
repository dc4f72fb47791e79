"""Which pairs of a candidate list to score. `get_strategy("balanced")` finds one by name."""

from collections.abc import Callable

from candidates.common.errors import UsageError
from mbr.strategies.base import Ask, AskEach, Conversation, Enough, Outcome, Segment, Strategy
from mbr.strategies.each import AGGREGATE, RERANK
from mbr.strategies.full import BOTH, FULL
from mbr.strategies.half import BALANCED, HALF
from mbr.strategies.halving import halving
from mbr.strategies.prune import pruning
from mbr.strategies.race import racing

__all__ = ["STRATEGIES", "Ask", "AskEach", "Conversation", "Enough", "Outcome", "Segment", "Strategy", "get_strategy"]

_ADAPTIVE: dict[str, Callable[..., Strategy]] = {"race": racing, "prune": pruning}

STRATEGIES = {
    strategy.name: strategy
    for strategy in (FULL, BOTH, HALF, BALANCED, halving(), *(make() for make in _ADAPTIVE.values()), AGGREGATE, RERANK)
}


def get_strategy(name: str, *, budget: int | None = None, tolerance: float | None = None) -> Strategy:
    """A strategy by name. `budget` (passes per list) is for race, halving and prune, `tolerance` for race and prune."""
    if name not in STRATEGIES:
        raise UsageError(f"strategy {name!r} is unknown; expected one of {', '.join(STRATEGIES)}")
    if tolerance is not None and name not in _ADAPTIVE:
        raise UsageError(
            f"a tolerance goes with strategy 'race' or 'prune'; {name!r} scores the same pairs whatever comes out"
        )
    if name in _ADAPTIVE:
        return _ADAPTIVE[name](tolerance=tolerance, budget=budget)
    if budget is None:
        return STRATEGIES[name]
    if name != "halving":
        raise UsageError(
            f"a budget of passes goes with strategy 'race', 'halving' or 'prune'; {name!r} has a number of its own"
        )
    return halving(budget)
