"""Which pairs of a candidate list to score, by name: our strategies, and those of installed plug-ins.

    strategy = get_strategy("race", tolerance=0.05)

A name stands for a factory: a function that takes the strategy's options, all of which have defaults, and returns a
`Strategy`. An option may have a line of help: `budget: Annotated[int, "passes per list"] = 100`. Plug-ins are entry
points of the group `mbr_decode.strategies`; docs/strategies.md shows one.

Names are listed without importing numpy or any strategy, so that commands start fast; summaries and the help of
options import the strategies they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from candidates.common.errors import EnvironmentProblem, UsageError
from candidates.common.plugins import LazyTable, option_names

if TYPE_CHECKING:
    from mbr.strategies.base import Ask, AskAll, AskEach, Conversation, Enough, Outcome, PairScores, Segment, Strategy

STRATEGIES = LazyTable(
    "strategy",
    {
        "full": "mbr.strategies.full:full",
        "both": "mbr.strategies.full:both",
        "half": "mbr.strategies.half:half",
        "balanced": "mbr.strategies.half:balanced",
        "race": "mbr.strategies.race:race",
        "halving": "mbr.strategies.halving:halving",
        "prune": "mbr.strategies.prune:prune",
        "aggregate": "mbr.strategies.each:aggregate",
        "rerank": "mbr.strategies.each:rerank",
    },
    group="mbr_decode.strategies",
)

__all__ = [
    "STRATEGIES",
    "Ask",
    "AskAll",
    "AskEach",
    "Conversation",
    "Enough",
    "Outcome",
    "PairScores",
    "Segment",
    "Strategy",
    "get_strategy",
    "strategies_with",
    "strategy_names",
    "strategy_options",
    "strategy_summary",
]


def get_strategy(name: str, **options: Any) -> Strategy:
    """A strategy by name. Options that are None keep their defaults.

    Raises:
        UsageError: the name or an option is unknown, or an option has a value that makes no sense.
        EnvironmentProblem: the plug-in of this name is broken.
    """
    from mbr.strategies.base import Strategy

    factory = _factory(name)
    accepted = strategy_options(name)
    for option, value in options.items():
        if value is not None and option not in accepted:
            raise UsageError(_no_such_option(name, option, accepted))
    strategy = factory(**{option: value for option, value in options.items() if value is not None})
    if not isinstance(strategy, Strategy) or strategy.name != name:  # a signature must lead back to the strategy
        made = f"a Strategy named {strategy.name!r}" if isinstance(strategy, Strategy) else f"{strategy!r:.80}"
        raise _broken(name, f"returned {made}, expected a Strategy named {name!r}")
    return strategy


def strategy_names() -> list[str]:
    """All names that `get_strategy` knows, ours first."""
    return STRATEGIES.names()


def strategy_options(name: str) -> dict[str, str]:
    """The options that a strategy takes, with a line of help for each; the empty string where there is none."""
    factory = _factory(name)
    try:
        hints = get_type_hints(factory, include_extras=True)
    except NameError:  # a plug-in's annotation that only type checkers can read
        hints = {}
    help_texts = {option: getattr(hint, "__metadata__", ("",))[0] for option, hint in hints.items()}
    return {option: help_texts.get(option, "") for option in option_names(factory)}


def strategy_summary(name: str) -> str:
    """What a strategy does, in a few words, for help texts. Imports this strategy only."""
    return get_strategy(name).summary


def strategies_with(option: str) -> dict[str, str]:
    """Our strategies that take an option, with its help text in each. Imports all of ours."""
    options = {name: strategy_options(name) for name in STRATEGIES.built_in}
    return {name: accepted[option] for name, accepted in options.items() if option in accepted}


def _factory(name: str) -> Callable[..., Strategy]:
    factory = STRATEGIES.load(name)
    if not callable(factory):
        raise _broken(name, f"is {factory!r:.80}, expected a function that returns a Strategy")
    return cast("Callable[..., Strategy]", factory)


def _broken(name: str, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the strategy {name!r} {why}; correct the plug-in as docs/strategies.md describes, or uninstall it"
    )


def _no_such_option(name: str, option: str, accepted: Mapping[str, str]) -> str:
    message = f"strategy {name!r} has no option {option!r} (it takes {', '.join(accepted) or 'none'})"
    others = " or ".join(", ".join(map(repr, strategies_with(option))).rsplit(", ", 1))
    return f"{message}; a {option} goes with strategy {others}" if others else message


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("mbr.strategies.base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
