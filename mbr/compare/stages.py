"""The stages of a comparison in their order, and the share of the work that each is expected to take.

Settings that share a model decide one after another, then a study of it follows; then come the oracle and the judges.
Shares are counts of passes: what a strategy asks for (of `race` and `prune`, which stop early, three per
candidate), both orders of every pair in a study, a row per candidate for the oracle, a row per segment and table row
for each judge. A pass of what needs no checkpoint counts a hundredth. Scores of earlier runs make a stage shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from candidates.lists import CandidateList
from mbr.compare.settings import Setting
from mbr.evaluate.judges import JudgeSpec
from mbr.utilities import utility_class, utility_options

LIGHT = 0.01  # a pass without a checkpoint, in passes of a model
EARLY = 3  # passes per candidate of a strategy that stops early
JUDGES = "judging"


def study_of(setting: Setting) -> str:
    """The name of the stage."""
    return f"study of {setting.label}"


@dataclass
class Stages:
    """Names and passes of the stages; `report` receives a line before the first, and one as each begins."""

    report: Callable[[str], None]
    passes: dict[str, float] = field(default_factory=dict)

    def announce(self) -> None:
        """One line with all stages and their shares."""
        total = sum(self.passes.values())
        if len(self.passes) < 2 or not total:
            return
        shares = (f"{name} {_percent(passes / total)}" for name, passes in self.passes.items())
        self.report(
            f"{len(self.passes)} stages, with their share of the time as far as passes tell: {', '.join(shares)}"
        )

    def begin(self, name: str) -> None:
        """One line as a stage begins; nothing for what was not planned."""
        if name in self.passes and len(self.passes) > 1:
            self.report(f"stage {list(self.passes).index(name) + 1} of {len(self.passes)}: {name}")


def planned_stages(
    lists: Sequence[CandidateList],
    settings: Sequence[Sequence[Setting]],
    studied: Sequence[CandidateList],
    oracle: JudgeSpec | None,
    judges: Sequence[JudgeSpec],
    report: Callable[[str], None],
) -> Stages:
    """The stages of a comparison; `settings` that share a model stand together."""
    stages = Stages(report)
    rows = 2 + sum(map(len, settings)) + (oracle is not None)
    for group in settings:
        for setting in group:
            stages.passes[setting.label] = _cost(setting) * sum(_passes(setting, len(item)) for item in lists)
        if studied and any(not setting.recipe.rates and setting.recipe.prefilter is None for setting in group):
            pairs = sum(len(item) * (len(item) - 1) for item in studied)
            stages.passes[study_of(group[0])] = _cost(group[0]) * pairs
    if oracle is not None:
        stages.passes[oracle.label or oracle.title] = (LIGHT if oracle.lexical else 1) * sum(map(len, lists))
    stages.passes[JUDGES] = sum(LIGHT if judge.lexical else 1 for judge in judges) * rows * len(lists)
    return stages


def _passes(setting: Setting, size: int) -> float:
    recipe = setting.recipe
    if size < 2:
        return 0.0
    kept = size if recipe.prefilter is None else min(size, recipe.prefilter.keep)
    strategy = recipe.make_strategy()
    most = strategy.passes(kept, 0, utility_class(recipe.utility).relation)
    return float(min(most, EARLY * kept) if strategy.adaptive else most)


def _cost(setting: Setting) -> float:
    return 1.0 if "model" in utility_options(setting.recipe.utility) else LIGHT


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "below 1 %"
