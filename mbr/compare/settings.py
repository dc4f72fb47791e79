"""Settings to compare: which utility, with which model, strategy and rules of decision.

A setting is a word: `pear`, `pear=FOLDER`, `pear,strategy=half,prior=0,label=PEAR alone`. Strategies given apart go
with every utility that does not name its own and that they fit: `race`, `halving:500`, `race:0.05`.

    >>> [setting.label for setting in parse_settings(["pear", "chrf"], ["half", "race"])]
    ['pear half', 'pear race', 'chrf']
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from candidates.common.errors import UsageError
from candidates.common.text import printable
from mbr.decide import WEIGHTS, Weights
from mbr.prefilter import parse_prefilter
from mbr.strategies import STRATEGIES, Strategy, get_strategy
from mbr.utilities import MatrixUtility, utility_class, utility_options
from mbr.utilities.ensemble import Ensemble

LONGEST_LABEL = 60
NUMBERS = ("batch_tokens", "threads")  # of a utility's options; all others are words, or true and false


@dataclass(frozen=True)
class Setting:
    """One way to choose. None is the default: of the utility (strategy), of the comparison (weights, prior)."""

    utility: str
    strategy: str | None = None
    budget: int | None = None
    tolerance: float | None = None
    prior: float | None = None
    weights: Weights | None = None
    prefilter: str | None = None
    prefilter_model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def make_strategy(self) -> Strategy:
        name = self.strategy or utility_class(self.utility).default_strategy
        return get_strategy(name, budget=self.budget, tolerance=self.tolerance)

    @property
    def rates(self) -> bool:
        """Whether it reranks by quality estimation, without comparing candidates."""
        return self.make_strategy().asks == "quality"

    def check(self) -> None:
        """Refuse what does not fit together, before a model is loaded."""
        strategy, kind = self.make_strategy(), utility_class(self.utility)
        if kind is not Ensemble or not strategy.needs_antisymmetry:
            strategy.check_fit(self.utility, kind)
        known = utility_options(self.utility)
        for name in self.options:
            if name not in known:
                raise UsageError(
                    f"utility {self.utility!r} has no option {name!r}; in a setting it takes "
                    f"{', '.join([*_OWN, *known])}"
                )
        if self.prefilter is not None:
            parse_prefilter(self.prefilter)
        elif self.prefilter_model is not None:
            raise UsageError("prefilter-model goes with prefilter, which names the utility")

    def chosen_by(self) -> list[str]:
        """The utilities that had a say."""
        first_stage = [] if self.prefilter is None else [parse_prefilter(self.prefilter)[0]]
        return [self.utility, *first_stage]


def parse_settings(utilities: Sequence[str], strategies: Sequence[str] = ()) -> list[Setting]:
    """The settings that words stand for, with labels that tell them apart; each fits together."""
    given = [_parse_strategy(word) for word in strategies]
    settings: list[Setting] = []
    for word in utilities:
        setting = _parse_setting(word)
        named = any(value is not None for value in (setting.strategy, setting.budget, setting.tolerance))
        fitting = [] if named else [one for one in given if _fits(setting, one)]
        several = bool(setting.label) and len(fitting) > 1
        settings += [
            replace(setting, **one, label=f"{setting.label} {one['strategy']}" if several else setting.label)
            for one in fitting
        ] or [setting]
    for setting in settings:
        setting.check()
    return _labelled(settings)


def _parse_setting(word: str) -> Setting:
    head, *pairs = word.split(",")
    name, equals, model = head.partition("=")
    options: dict[str, Any] = {"model": model} if equals else {}
    known: dict[str, Any] = {}
    if not name.strip() or (equals and not model):
        raise UsageError(f"--utility {word!r}: expected NAME, NAME=MODEL, or either with ,key=value ...")
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or key in known or key in options:
            raise UsageError(f"--utility {word!r}: {pair!r} is not a key=value of its own")
        if key in _OWN:
            known[key] = _converted(word, key, value, _OWN[key])
        elif key in NUMBERS:
            options[key] = _converted(word, key, value, _whole)
        else:
            options[key] = {"true": True, "false": False}.get(value.lower(), value)
    if known.get("strategy"):
        strategy = _parse_strategy(known.pop("strategy"))
        if overlap := strategy.keys() & known.keys():
            raise UsageError(f"--utility {word!r}: the strategy and {overlap.pop()} say the same twice")
        known |= strategy
    return Setting(name.strip(), options=options, **known)


def _converted(word: str, key: str, value: str, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(value)
    except ValueError as exc:
        raise UsageError(f"--utility {word!r}: {key}={value!r} {exc}") from exc


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError("is not a number from 0 on")
    return number


def _whole(value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise ValueError("is not a positive whole number")
    return int(value)


def _weights(value: str) -> Weights:
    if value not in WEIGHTS:
        raise ValueError(f"is unknown; expected one of {', '.join(WEIGHTS)}")
    return value


def _label(value: str) -> str:
    if not value.strip() or not printable(value) or len(value) > LONGEST_LABEL:
        raise ValueError(f"is no label: 1 to {LONGEST_LABEL} characters, no line breaks")
    return value.strip()


_OWN: dict[str, Callable[[str], Any]] = {
    "strategy": str,
    "budget": _whole,
    "tolerance": _number,
    "prior": _number,
    "weights": _weights,
    "prefilter": str,
    "prefilter_model": str,
    "label": _label,
}


def _parse_strategy(word: str) -> dict[str, Any]:
    """`race:0.05` -> the strategy with its number: a tolerance, or a budget of passes for halving."""
    name, colon, number = word.strip().partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"strategy {name!r} is unknown; expected one of {', '.join(STRATEGIES)}")
    if not colon:
        return {"strategy": name}
    key = "budget" if name == "halving" else "tolerance"
    try:
        found: dict[str, Any] = {key: _OWN[key](number)}
    except ValueError as exc:
        raise UsageError(f"strategy {word!r}: {number!r} {exc}") from exc
    get_strategy(name, **found)
    return {"strategy": name, **found}


def _fits(setting: Setting, strategy: Mapping[str, Any]) -> bool:
    """Whether a strategy goes with a utility, and saves something: matrices cost the same however little is asked."""
    if issubclass(utility_class(setting.utility), MatrixUtility) and strategy["strategy"] not in ("full", "aggregate"):
        return False
    try:
        replace(setting, **strategy).check()
    except UsageError:
        setting.check()  # what is wrong without the strategy too is told
        return False
    return True


def _labelled(settings: list[Setting]) -> list[Setting]:
    """Names as short as they can be: what tells two settings apart is added until all differ."""
    several = Counter(setting.utility for setting in settings if not setting.label)
    for tell in (_short, _model, _numbers, _rules):
        labels = [setting.label or setting.utility for setting in settings]
        counts = Counter(labels)
        settings = [
            replace(setting, label=tell(setting, label, several[setting.utility]))
            if counts[label] > 1 or tell is _short
            else setting
            for setting, label in zip(settings, labels, strict=True)
        ]
    twice = [label for label, count in Counter(one.label for one in settings).items() if count > 1]
    if twice:
        raise UsageError(f"two settings are called {twice[0]!r}; give them different labels (,label=NAME)")
    return settings


def _short(setting: Setting, label: str, several: int) -> str:
    if setting.label:
        return setting.label
    name = setting.make_strategy().name
    plain = name == "rerank" or (name == "full" and several == 1)
    return setting.utility if plain else f"{setting.utility} {name}"


def _model(setting: Setting, label: str, several: int) -> str:
    model = setting.options.get("model")
    return f"{label} {Path(str(model)).name}" if model else label


def _numbers(setting: Setting, label: str, several: int) -> str:
    found = [f"{value:g}" for value in (setting.budget, setting.tolerance) if value is not None]
    return " ".join([label, *found])


def _rules(setting: Setting, label: str, several: int) -> str:
    prior = None if setting.prior is None else f"{setting.prior:g}"
    found = {"prior": prior, "weights": setting.weights, "after": setting.prefilter}
    return " ".join([label, *(f"{key} {value}" for key, value in found.items() if value is not None)])
