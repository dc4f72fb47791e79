"""Which pairs of a candidate list to score. `get_strategy("balanced")` finds one by name."""

from candidates.errors import UsageError
from mbr.strategies.base import Conversation, Outcome, Segment, Strategy
from mbr.strategies.full import BOTH, FULL
from mbr.strategies.half import BALANCED, HALF
from mbr.strategies.halving import HALVING, with_budget

STRATEGIES = {strategy.name: strategy for strategy in (FULL, BOTH, HALF, BALANCED, HALVING)}

__all__ = ["STRATEGIES", "Conversation", "Outcome", "Segment", "Strategy", "get_strategy"]


def get_strategy(name: str, *, budget: int | None = None) -> Strategy:
    """A strategy by name. `budget`: passes per list, for `halving`."""
    if name not in STRATEGIES:
        raise UsageError(f"strategy {name!r} is unknown; expected one of {', '.join(STRATEGIES)}")
    if budget is None:
        return STRATEGIES[name]
    if name != HALVING.name:
        raise UsageError(f"a budget of passes goes with strategy 'halving'; {name!r} has a number of its own")
    return with_budget(budget)
