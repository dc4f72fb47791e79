"""Changes to a recipe as words: `pear=FOLDER,strategy=half,add=logprob:6`, terms as `reverse=1,model=FOLDER`.

>>> changes, _ = parse_changes("pear,strategy=race:0.05,add=logprob:6")
>>> changes.terms
{'logprob': 6.0}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from candidates.common.errors import UsageError
from mbr.recipe.plan import Changes
from mbr.recipe.value import GuardSpec, PrefilterSpec, parse_guards
from mbr.strategies import get_strategy, strategy_options
from mbr.weights import WEIGHTS, Weights

REPEATED = ("add", "add_model", "add_option")


def parse_changes(word: str, own: Mapping[str, Callable[[str], Any]] | None = None) -> tuple[Changes, dict[str, Any]]:
    """NAME, NAME=MODEL, or either with ,key=value. Keys in `own`, with what converts them, are returned apart."""
    utility, options, settings = _split(word, own or {})
    added: dict[str, float] = {}
    term_options: dict[str, dict[str, Any]] = {}
    for pair in settings.pop("add", []):
        name, colon, weight = pair.rpartition(":")
        if not colon or name in added:
            raise UsageError(f"--utility {word!r}: add={pair!r} is not NAME:WEIGHT of its own, such as add=logprob:6")
        added[name] = number(weight, f"--utility {word!r}: add={pair!r}")
    for pair in settings.pop("add_model", []):
        name, colon, model = pair.partition(":")
        if not (name and colon and model):
            raise UsageError(f"--utility {word!r}: add-model={pair!r} is not NAME:MODEL")
        term_options.setdefault(name, {})["model"] = model
    for triple in settings.pop("add_option", []):
        name, _, pair = triple.partition(":")
        key, colon, value = pair.partition(":")
        key = key.replace("-", "_")
        if not (name and key and colon) or key in term_options.get(name, {}):
            raise UsageError(f"--utility {word!r}: add-option={triple!r} is not a NAME:KEY:VALUE of its own")
        term_options.setdefault(name, {})[key] = scalar(value)
    strategy, strategy_numbers = parse_strategy(settings.pop("strategy")) if settings.get("strategy") else (None, {})
    for key in ("budget", "tolerance"):
        if key in settings:
            if key in strategy_numbers:
                raise UsageError(f"--utility {word!r}: the strategy and {key} say the same twice")
            strategy_numbers[key] = settings.pop(key)
    prefilter, model = settings.pop("prefilter", None), settings.pop("prefilter_model", None)
    if prefilter is None and model is not None:
        raise UsageError(f"--utility {word!r}: prefilter-model goes with prefilter, which names the utility")
    changes = Changes(
        utility=utility,
        options=options,
        strategy=strategy,
        strategy_options=strategy_numbers,
        terms=added,
        term_options=term_options,
        weights=settings.pop("weights", None),
        prefilter=None if prefilter is None else PrefilterSpec.parse(prefilter, {"model": model} if model else {}),
        guards=settings.pop("require", None),
    )
    return changes, settings


def _split(word: str, own: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The utility, its options, and the keys that are no options of it."""
    keys = {**_KEYS, **own}
    head, *pairs = word.split(",")
    name, equals, model = head.partition("=")
    options: dict[str, Any] = {"model": model} if equals else {}
    settings: dict[str, Any] = {}
    if not name.strip() or (equals and not model):
        raise UsageError(f"--utility {word!r}: expected NAME, NAME=MODEL, or either with ,key=value ...")
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or (key in {*settings, *options} and key not in REPEATED):
            raise UsageError(f"--utility {word!r}: {pair!r} is not a key=value of its own")
        if key in REPEATED:
            settings.setdefault(key, []).append(value)
        elif key in keys:
            settings[key] = _converted(f"--utility {word!r}", key, value, keys[key])
        else:
            options[key] = scalar(value)
    return name.strip(), options, settings


def parse_strategy(word: str) -> tuple[str, dict[str, Any]]:
    """The strategy with its options: `race:0.05`, `race:tolerance=0.05:budget=500`.

    A bare number is a tolerance, or a budget of passes where the strategy takes no tolerance.
    """
    name, *parts = word.strip().split(":")
    taken = strategy_options(name)
    bare = next((key for key in ("tolerance", "budget") if key in taken), None)
    options: dict[str, Any] = {}
    for part in parts:
        named, equals, text = part.partition("=")
        key = named.strip().replace("-", "_") if equals else bare
        if key is None:
            raise UsageError(f"strategy {word!r}: {name} takes no number")
        if not key or key in options:
            raise UsageError(f"strategy {word!r}: {part!r} is not a KEY=VALUE of its own")
        value = text if equals else part
        options[key] = _converted(f"strategy {word!r}", key, value, _KEYS[key]) if key in _KEYS else scalar(value)
    get_strategy(name, **options)
    return name, options


def parse_terms(words: Iterable[str], models: Iterable[str]) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Weights and options of terms: `logprob=6`, `reverse=1,model=FOLDER`; models as NAME=MODEL."""
    weights: dict[str, float] = {}
    options: dict[str, dict[str, Any]] = {}
    for word in words:
        name, weight, own = parse_term(word, f"--add {word!r}")
        if name in weights:
            raise UsageError(f"--add names {name!r} twice")
        weights[name] = weight
        options |= {name: own} if own else {}
    for word in models:
        name, equals, model = word.partition("=")
        if not (name and equals and model):
            raise UsageError(f"--add-model {word!r}: expected NAME=MODEL, such as reverse=FOLDER")
        options.setdefault(name, {})["model"] = model
    return weights, options


def parse_term(word: str, where: str) -> tuple[str, float, dict[str, Any]]:
    """Name, weight and options of a term; `where` is what messages call it."""
    head, *pairs = word.split(",")
    name, equals, weight = head.partition("=")
    if not (name and equals):
        raise UsageError(f"{where}: expected NAME=WEIGHT, such as logprob=6")
    return name, number(weight, where), option_pairs(pairs, where)


def option_pairs(pairs: Iterable[str], where: str) -> dict[str, Any]:
    """key=value words as options; numbers, true and false are read as such."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not (key and equals) or key in options:
            raise UsageError(f"{where}: {pair!r} is not a KEY=VALUE of its own")
        options[key] = scalar(value)
    return options


def scalar(text: str) -> Any:
    """A number, true or false where the text is one, else the text."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, bool):  # YAML's yes, no, on and off are texts here: `no` is Norwegian
        return value if text.strip().lower() in ("true", "false") else text
    return value if isinstance(value, (int, float)) else text


def number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{where}: {text!r} is not a number")
    return value


def _converted(where: str, key: str, value: str, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(value)
    except ValueError as exc:
        raise UsageError(f"{where}: {key}={value!r} {exc}") from exc


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError("is not a number from 0 on")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError("is not a positive whole number")
    return int(text)


def _weights(text: str) -> Weights:
    if text not in WEIGHTS:
        raise ValueError(f"is unknown; expected one of {', '.join(WEIGHTS)}")
    return text


def required(text: str) -> tuple[GuardSpec, ...]:
    """Guards of a word: `placeholders+numbers`, or with commas where the word stands alone."""
    words = [word for word in text.replace(",", "+").split("+") if word.strip()]
    if not words:
        raise UsageError(f"--require {text!r:.40} names no guard; expected names such as numbers,tags, or `none`")
    return parse_guards(words)


_KEYS: dict[str, Callable[[str], Any]] = {
    "strategy": str,
    "budget": _whole,
    "tolerance": _positive,
    "weights": _weights,
    "prefilter": str,
    "prefilter_model": str,
    "require": required,
}
