"""Settings to compare: recipes with labels, from words.

A setting is a word: `pear`, `pear=FOLDER`, `pear,strategy=half,add=logprob:6,label=PEAR with logprob`. Strategies in a
list of their own (`race`, `halving:500`, `race:0.05`) go with every utility that names none and that they fit.

    >>> [setting.label for setting in parse_settings(["pear", "chrf"], ["half", "race"])]
    ['pear half', 'pear race', 'chrf']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from candidates.common.errors import UsageError
from candidates.common.text import printable
from candidates.lists import CandidateList
from mbr.recipe import Changes, Recipe, plan
from mbr.recipe.words import parse_changes, parse_strategy
from mbr.utilities import MatrixUtility, utility_class

LONGEST_LABEL = 60


@dataclass(frozen=True)
class Setting:
    """One way to choose: the changes that were asked for, and the recipe that follows from them.

    The recipe may depend on the origin of the lists: `for_lists` plans it for them.
    """

    changes: Changes
    recipe: Recipe
    label: str = ""

    @classmethod
    def of(cls, changes: Changes, label: str = "") -> Setting:
        """A setting, planned without lists. Raises UsageError if its parts do not fit together."""
        recipe = plan(changes)
        recipe.check()
        return cls(changes, recipe, label)

    def for_lists(self, lists: Sequence[CandidateList], common: Changes) -> Setting:
        """The same for these lists; `common` applies where this setting leaves something open."""
        changes = replace(
            self.changes,
            weights=self.changes.weights or common.weights,
            self_rule=self.changes.self_rule or common.self_rule,
            seed=common.seed if self.changes.seed is None else self.changes.seed,
        )
        recipe = plan(changes, origin=lists[0].origin, lists=lists)
        recipe.check()
        return replace(self, changes=changes, recipe=recipe)

    def chosen_by(self) -> list[str]:
        """Names of the utility, the terms and the first stage that make the choice."""
        first_stage = [] if self.recipe.prefilter is None else [self.recipe.prefilter.name]
        return [self.recipe.utility, *(term.name for term in self.recipe.terms), *first_stage]


def parse_settings(utilities: Sequence[str], strategies: Sequence[str] = ()) -> list[Setting]:
    """Settings from words, with distinct labels.

    Args:
        utilities: words such as `chrf` and `pear=FOLDER,strategy=half`.
        strategies: words such as `race` and `halving:500`, for the utilities that name no strategy.

    Raises:
        UsageError: a word cannot be read, its parts do not fit together, or two settings have the same label.
    """
    shared = [parse_strategy(word) for word in strategies]
    settings: list[Setting] = []
    for word in utilities:
        changes, own = parse_changes(word, {"label": _label})
        label = own.get("label", "")
        names_strategy = changes.strategy is not None or changes.strategy_options
        fitting = [] if names_strategy else [strategy for strategy in shared if _fits(changes, *strategy)]
        if not fitting:
            settings.append(Setting.of(changes, label))
        for name, numbers in fitting:
            distinct = f"{label} {name}" if label and len(fitting) > 1 else label
            settings.append(Setting.of(replace(changes, strategy=name, strategy_options=numbers), distinct))
    return _labelled(settings)


def _label(value: str) -> str:
    if not value.strip() or not printable(value) or len(value) > LONGEST_LABEL:
        raise ValueError(f"is no label; expected 1 to {LONGEST_LABEL} characters without line breaks")
    return value.strip()


def _fits(changes: Changes, strategy: str, numbers: Mapping[str, Any]) -> bool:
    """Whether a strategy fits a utility and saves something: a utility that computes whole matrices saves nothing."""
    if issubclass(utility_class(changes.utility or ""), MatrixUtility) and strategy not in ("full", "aggregate"):
        return False
    try:
        Setting.of(replace(changes, strategy=strategy, strategy_options=numbers))
    except UsageError:
        Setting.of(changes)  # raises if the setting is wrong without the strategy, too
        return False
    return True


def _labelled(settings: list[Setting]) -> list[Setting]:
    """Labels as short as possible: strategy, model, numbers and rules are added until all labels differ."""
    several = Counter(setting.recipe.utility for setting in settings if not setting.label)
    for describe in (_short, _model, _numbers, _rules):
        labels = [setting.label or setting.recipe.utility for setting in settings]
        counts = Counter(labels)
        settings = [
            replace(setting, label=describe(setting, label, several[setting.recipe.utility]))
            if counts[label] > 1 or describe is _short
            else setting
            for setting, label in zip(settings, labels, strict=True)
        ]
    twice = [label for label, count in Counter(setting.label for setting in settings).items() if count > 1]
    if twice:
        raise UsageError(f"two settings are called {twice[0]!r}; give them different labels (,label=NAME)")
    return settings


def _short(setting: Setting, label: str, several: int) -> str:
    if setting.label:
        return setting.label
    utility, name = setting.recipe.utility, setting.recipe.make_strategy().name
    plain = name == "rerank" or (name == "full" and several == 1)
    return utility if plain else f"{utility} {name}"


def _model(setting: Setting, label: str, several: int) -> str:
    model = setting.changes.options.get("model")
    return f"{label} {Path(str(model)).name}" if model else label


def _numbers(setting: Setting, label: str, several: int) -> str:
    numbers = [f"{value:g}" for value in setting.changes.strategy_options.values() if isinstance(value, (int, float))]
    return " ".join([label, *numbers])


def _rules(setting: Setting, label: str, several: int) -> str:
    changes = setting.changes
    terms = [f"{name} {weight:g}" for name, weight in changes.terms.items()]
    guards = None if changes.guards is None else "+".join(map(str, changes.guards)) or "none"
    rules = {"weights": changes.weights, "after": changes.prefilter, "require": guards}
    return " ".join([label, *terms, *(f"{key} {value}" for key, value in rules.items() if value is not None)])
