"""One value that describes how a choice is made: utility, strategy, terms with weights, pseudo-references, first stage.

A recipe comes from flags, a word (`pear=FOLDER,strategy=half,add=logprob:6`), a YAML file, a name, Python or an HTTP
request; `open_decoder` makes a decoder of it. It prints as YAML and as a signature, and is read back from either.

    >>> recipe = Recipe("chrf", terms=(TermSpec("logprob", 2.0),))
    >>> str(recipe.signature())
    'MBR|utility:chrf|strategy:full|self:exclude|weights:count|add.logprob:2.0'
    >>> Recipe.from_signature(str(recipe.signature())) == recipe.complete()
    True
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from candidates.common.errors import InputError, UsageError
from mbr.decide import ReferenceWeights
from mbr.guards import PRODUCTION, check_guard_options, guard_options
from mbr.signature import Signature
from mbr.strategies import Strategy, get_strategy, strategy_options
from mbr.terms import check_term_options, term_options
from mbr.utilities import UTILITIES, Utility, check_utility_options, utility_class, utility_options
from mbr.weights import SelfRule, Weights
from pear.shipped import shipped_models

# How a model runs, not what it computes: these are no part of a recipe.
RUNTIME_OPTIONS = ("cache_dir", "offline", "device", "batch_tokens", "threads")
# Keys of a signature that are no options of the utility.
_RESERVED = ("utility", "utility-weight", "strategy", "self", "weights", "prefilter", "guards", "budget-total", "seed")
_STRATEGY_KEYS = {"tol": "tolerance"}

PRESET = "production"  # the guards that are right nearly always
NO_GUARDS = "none"

Options = Mapping[str, Any]


@dataclass(frozen=True)
class TermSpec:
    """A term by name, its weight and its options."""

    name: str
    weight: float = 1.0
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class PrefilterSpec:
    """A first stage: the best `keep` of each list by a utility or term, with its options."""

    name: str
    keep: int
    options: Options = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, options: Options | None = None) -> PrefilterSpec:
        """`chrf:30` -> the name and how many candidates to keep."""
        name, _, keep = text.rpartition(":")
        if not name or not keep.isdecimal() or int(keep) < 2:
            raise UsageError(f"prefilter {text!r}: expected NAME:K with K from 2 on, such as chrf:30")
        return cls(name, int(keep), dict(options or {}))

    def __str__(self) -> str:
        return f"{self.name}:{self.keep}"


@dataclass(frozen=True)
class GuardSpec:
    """A rule that a candidate must keep, by name, and its options."""

    name: str
    options: Options = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GuardSpec:
        """`language:to=de` -> the name and its options."""
        name, *pairs = re.split(r":(?=[\w-]+=)", text.strip())
        options = {key.replace("-", "_"): _unword(value) for key, _, value in (pair.partition("=") for pair in pairs)}
        if not name or len(options) < len(pairs):
            raise UsageError(f"guard {text!r:.60}: expected NAME or NAME:KEY=VALUE, such as language:to=de")
        return cls(name, options)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.options.items())])


def parse_guards(words: Iterable[str | GuardSpec]) -> tuple[GuardSpec, ...]:
    """Guards from words such as `numbers`, `language:to=de` and `production`; each once, with the last options."""
    guards: dict[str, GuardSpec] = {}
    for word in words:
        if word == PRESET:
            guards = {name: GuardSpec(name) for name in PRODUCTION} | guards
        elif word != NO_GUARDS:
            guard = GuardSpec.parse(word) if isinstance(word, str) else word
            guards[guard.name] = guard if guard.options else guards.get(guard.name, guard)
        elif guards:
            raise UsageError(
                f"{NO_GUARDS!r} takes all guards out and stands alone; found it beside {', '.join(guards)}"
            )
    return tuple(guards.values())


@dataclass(frozen=True)
class Recipe:
    """How a choice is made: score(i) = weight * E_j[u(i, j)] + sum over terms of w_t t(i).

    Args:
        utility: name of what compares candidates.
        options: of the utility, such as its model; how it runs (device, threads) is no part of a recipe.
        weight: of the expected utility beside the terms.
        strategy: which pairs are scored; None is the utility's default.
        strategy_options: such as budget and tolerance.
        terms: evidence on single candidates, with weights.
        weights: of candidates as pseudo-references.
        self_rule: whether a candidate counts as its own pseudo-reference.
        prefilter: a cheap first stage.
        guards: rules that a candidate must keep.
        seed: of everything random.
        budget_total: passes for all lists together.
    """

    utility: str = "pear"
    options: Options = field(default_factory=dict)
    weight: float = 1.0
    strategy: str | None = None
    strategy_options: Options = field(default_factory=dict)
    terms: tuple[TermSpec, ...] = ()
    weights: Weights = "count"
    self_rule: SelfRule = "exclude"
    prefilter: PrefilterSpec | None = None
    guards: tuple[GuardSpec, ...] = ()
    seed: int = 1
    budget_total: int | None = None

    def __post_init__(self) -> None:
        ReferenceWeights(self.weights, self.self_rule)
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise UsageError(f"the weight of the utility is {self.weight}; expected a number above 0")
        names = [term.name for term in self.terms]
        for term in self.terms:
            if not math.isfinite(term.weight):
                raise UsageError(f"the weight of the term {term.name} is {term.weight}; expected a finite number")
            if names.count(term.name) > 1:
                raise UsageError(f"the term {term.name} is there twice; expected each once")
        rules = [guard.name for guard in self.guards]
        if twice := next((name for name in rules if rules.count(name) > 1), None):
            raise UsageError(f"the guard {twice} is there twice; expected each once")

    @property
    def references(self) -> ReferenceWeights:
        """What candidates count as pseudo-references."""
        return ReferenceWeights(self.weights, self.self_rule)

    def make_strategy(self) -> Strategy:
        name = self.strategy or utility_class(self.utility).default_strategy
        return get_strategy(name, **self.strategy_options)

    @property
    def rates(self) -> bool:
        """Whether it reranks by quality estimation, without comparing candidates."""
        return self.make_strategy().asks == "quality"

    def complete(self) -> Recipe:
        """The same with the strategy and its options spelled out; a seed that decides nothing is 1."""
        strategy = self.make_strategy()
        seed = self.seed if self._uses_seed(strategy) else 1
        options = {name: value for name, value in self.strategy_options.items() if value is not None}
        return replace(self, strategy=strategy.name, strategy_options={**options, **_options_of(strategy)}, seed=seed)

    def check(self, utility: Utility | None = None) -> None:
        """Refuse what does not fit together, before a model is loaded. `utility`: the one meant, if it is made."""
        strategy = self.make_strategy()
        strategy.check_total(self.budget_total)
        strategy.check_fit(self.utility, utility or utility_class(self.utility))
        self._refuse_runtime_options()
        if utility is None:
            check_utility_options(self.utility, self.options, RUNTIME_OPTIONS)
        for term in self.terms:
            check_term_options(term.name, term.options, RUNTIME_OPTIONS)
        if self.prefilter is not None:
            check_term_options(self.prefilter.name, self.prefilter.options, RUNTIME_OPTIONS, "prefilter")
        self._refuse_remote_parts()
        if self.utility == "none" and not self.terms:
            raise UsageError(
                "utility 'none' compares nothing, and there is no term to choose by; add one (--add logprob=1, see "
                "mbr-decode --list-utilities), or take a utility such as chrf"
            )
        for guard in self.guards:
            check_guard_options(guard.name, guard.options)

    def _refuse_remote_parts(self) -> None:
        """Terms and first stages score all pairs of a list, which is no way to use a server that charges for each."""
        names = [term.name for term in self.terms] + ([self.prefilter.name] if self.prefilter else [])
        for name in names:
            if name in UTILITIES and utility_class(name).remote:
                raise UsageError(
                    f"{name!r} sends a request for each pair, and as a term or first stage it would have to score all "
                    f"pairs; use it as the utility (--utility {name}), other terms and a first stage beside it"
                )

    def _refuse_runtime_options(self) -> None:
        parts = [("utility", self.utility, self.options), *(("term", term.name, term.options) for term in self.terms)]
        if self.prefilter is not None:
            parts.append(("prefilter", self.prefilter.name, self.prefilter.options))
        for kind, name, options in parts:
            for option in RUNTIME_OPTIONS:
                if option in options:
                    raise UsageError(
                        f"{kind} {name!r}: {option} is about how to run, not what to compute, so it is no part of a "
                        f"recipe; give it to the whole run (--{option.replace('_', '-')})"
                    )

    def signature(self) -> Signature:
        """Everything in the recipe, defaults spelled out; it parses back with `from_signature`."""
        term_settings = {term.name: term.options for term in self.terms}
        first_stage = self.prefilter.options if self.prefilter else {}
        rules = {guard.name: guard.options for guard in self.guards}
        return Signature(self.fields(self.options, self.make_strategy(), term_settings, first_stage, rules))

    def fields(
        self,
        utility: Options,
        strategy: Strategy,
        terms: Mapping[str, Options],
        prefilter: Options,
        guards: Mapping[str, Options],
        nbest: int | str | None = None,
    ) -> dict[str, object]:
        """The fields of a signature; the settings of the parts are as given here or as they were loaded."""
        added: dict[str, object] = {}
        for term in self.terms:
            key = f"add.{_quoted(term.name)}"
            added[key] = term.weight
            added |= {f"{key}.{_quoted(name)}": word for name, word in _words(terms[term.name])}
        reserved = {*_RESERVED, *strategy.settings, "nbest", "version"}
        return {
            "utility": self.utility,
            "utility-weight": None if self.weight == 1 else self.weight,
            **{f"utility-{name}" if name in reserved else name: word for name, word in _words(utility)},
            "strategy": strategy.name,
            **dict(_words(strategy.settings)),
            "self": self.self_rule,
            "nbest": nbest,
            "weights": self.weights,
            **added,
            "prefilter": None if self.prefilter is None else str(self.prefilter),
            **{f"prefilter.{_quoted(name)}": word for name, word in _words(prefilter)},
            "guards": "+".join(_quoted(guard.name) for guard in self.guards) or None,
            **{f"guards.{_quoted(name)}.{_quoted(key)}": word for name in guards for key, word in _words(guards[name])},
            "budget-total": self.budget_total,
            "seed": self.seed if self._uses_seed(strategy) else None,
        }

    def _uses_seed(self, strategy: Strategy) -> bool:
        stages = [strategy]
        if self.prefilter is not None and self.prefilter.name in UTILITIES:
            stages.append(get_strategy(utility_class(self.prefilter.name).default_strategy))
        return any(stage.uses_seed for stage in stages)

    @classmethod
    def from_signature(cls, text: str) -> Recipe:
        """The recipe that a signature describes, without what was only known after loading (nbest, version)."""
        entries = dict(Signature.parse(text))
        utility = entries.pop("utility", "")
        if not utility:
            raise InputError(f"the signature {text!r:.100} names no utility")
        strategy = entries.pop("strategy", None)
        options: dict[str, Any] = {}
        strategy_settings: dict[str, Any] = {}
        terms: dict[str, TermSpec] = {}
        first_stage: dict[str, Any] = {}
        rules: dict[str, dict[str, Any]] = {}
        taken = strategy_options(strategy) if strategy else []
        default = get_strategy(strategy or utility_class(utility).default_strategy)
        for key, value in entries.items():
            name = key.removeprefix("utility-") if key not in _RESERVED else ""
            if key.startswith("add."):
                _read_term(terms, key, value)
            elif key.startswith("guards."):
                _read_guard(rules, key, value)
            elif key.startswith("prefilter."):
                first_stage[unquote(key.partition(".")[2])] = _unword(value)
            elif (option := _STRATEGY_KEYS.get(key, key)) in taken:
                if (setting := _unword(value)) != default.settings.get(key):
                    strategy_settings[option] = setting
            elif name and name in utility_options(utility):
                options[name] = _unword(value)
        if str(options.get("model")).partition("@")[0] in shipped_models():  # a run prints its revision, too
            options["model"] = str(options["model"]).partition("@")[0]
        return cls(
            utility=utility,
            options=options,
            weight=float(entries.get("utility-weight", 1.0)),
            strategy=strategy,
            strategy_options=strategy_settings,
            terms=tuple(terms.values()),
            weights=entries.get("weights", "count"),  # type: ignore[arg-type]  # checked when it is made
            self_rule=entries.get("self", "exclude"),  # type: ignore[arg-type]
            prefilter=_read_prefilter(entries["prefilter"], first_stage) if "prefilter" in entries else None,
            guards=tuple(
                GuardSpec(name, rules.get(name, {}))
                for name in map(unquote, filter(None, entries.get("guards", "").split("+")))
            ),
            seed=int(entries.get("seed", 1)),
            budget_total=int(entries["budget-total"]) if "budget-total" in entries else None,
        ).complete()


def _options_of(strategy: Strategy) -> dict[str, Any]:
    """The options that give this strategy again; a default that is a text (20N) is left to it."""
    taken = strategy_options(strategy.name)
    default = get_strategy(strategy.name).settings
    return {
        option: value
        for key, value in strategy.settings.items()
        if (option := _STRATEGY_KEYS.get(key, key)) in taken
        and value is not None
        and not (isinstance(value, str) and value == default.get(key))
    }


def _read_term(terms: dict[str, TermSpec], key: str, value: str) -> None:
    _, quoted, *option = key.split(".")
    name = unquote(quoted)
    term = terms.get(name, TermSpec(name))
    if option:
        if (key := unquote(option[0])) in term_options(name):  # others were only entries after loading
            terms[name] = replace(term, options={**term.options, key: _unword(value)})
    else:
        terms[name] = replace(term, weight=float(value))


def _read_guard(rules: dict[str, dict[str, Any]], key: str, value: str) -> None:
    _, name, option = map(unquote, key.split("."))
    if option in guard_options(name):  # others were only entries after loading
        rules.setdefault(name, {})[option] = _unword(value)


def _read_prefilter(text: str, settings: Options) -> PrefilterSpec:
    prefilter = PrefilterSpec.parse(text)
    taken = term_options(prefilter.name)
    return replace(prefilter, options={name: value for name, value in settings.items() if name in taken})


def _quoted(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


def _words(settings: Options) -> Iterator[tuple[str, str]]:
    """Settings as words; None stands for what does not apply and is left out."""
    return ((name, _word(value)) for name, value in settings.items() if value is not None)


def _word(value: Any) -> str:
    """A value as a word that `_unword` reads back as the same value."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False) if value.strip() != value or _unword(value) != value else value


def _unword(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
