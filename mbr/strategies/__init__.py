"""Which pairs of a candidate list to score. `get_strategy("balanced")` finds one by name."""

from candidates.errors import UsageError
from mbr.strategies.base import Conversation, Outcome, Segment, Strategy
from mbr.strategies.full import BOTH, FULL
from mbr.strategies.half import BALANCED, HALF

STRATEGIES = {strategy.name: strategy for strategy in (FULL, BOTH, HALF, BALANCED)}

__all__ = ["STRATEGIES", "Conversation", "Outcome", "Segment", "Strategy", "get_strategy"]


def get_strategy(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise UsageError(f"strategy {name!r} is unknown; expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
