"""The functions of the package: lists in, decisions out.

>>> from mbr import rerank
>>> rerank("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund"], "chrf").text
'Ein Hund.'
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from os import PathLike
from typing import Any, cast

from candidates.common.errors import InputError, UsageError
from candidates.common.words import agreeing
from candidates.formats import BadRecord, Record
from candidates.lists import Candidate, CandidateList
from mbr.decide import Decision
from mbr.matrix import UtilityMatrix
from mbr.opening import open_decoder
from mbr.pipeline import Decoder, OnError
from mbr.prefilter import Prefilter
from mbr.recipe import RUNTIME_OPTIONS, Changes, GuardSpec, PrefilterSpec, Recipe, parse_guards, plan_for
from mbr.recipe.plan import cautions
from mbr.strategies import Strategy
from mbr.utilities import Utility
from mbr.weights import SelfRule, Weights

Lists = CandidateList | tuple[str, Sequence[str | Candidate]]


def decode(
    lists: Iterable[Lists],
    utility: str | Utility | Recipe | None = None,
    *,
    strategy: str | Strategy | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    budget_total: int | None = None,
    add: Mapping[str, float] | None = None,
    add_model: Mapping[str, str] | None = None,
    prefilter: str | Prefilter | None = None,
    require: Sequence[str | GuardSpec] | None = None,
    glossary: str | None = None,
    weights: Weights | None = None,
    self_rule: SelfRule | None = None,
    seed: int | None = None,
    on_error: OnError = "stop",
    keep_matrix: bool = False,
    **options: Any,
) -> Iterator[Decision]:
    """Decode candidate lists (or `(source, candidates)` pairs), streaming, in order.

    Args:
        utility: a name, a ready utility, or a whole `Recipe`; without one, the default for the lists, as in mbr-decode:
            lists made by the bundled translator get the recipe that ships with it.
        strategy: a name or a ready one; with `budget` passes per list at most, and `tolerance`, a share of regret.
        budget_total: passes for all lists together, which are then all read first.
        add: terms with their weights, `{"logprob": 6, "chrf": 0.1}`, 0 takes one out; `add_model`: their models.
        prefilter: a first stage such as "chrf:30", or a ready one.
        require: rules that a candidate must keep, as `["placeholders", "language:to=de"]`; `glossary`: the file of one.
        weights: what candidates count as pseudo-references; `self_rule`: whether they count as their own.
        on_error: a segment that cannot be decided: stop, skip, or fallback to its first candidate; one that has none
            becomes a decision without text, whose `error` has the reason.
        options: of the utility, and how models run: `decode(lists, "pear", model="Prosho/pear", device="cuda")`.
    """
    runtime = {name: options.pop(name) for name in RUNTIME_OPTIONS if name in options}
    ready = utility if isinstance(utility, Utility) else None
    numbers = {name: n for name, n in (("budget", budget), ("tolerance", tolerance)) if n is not None}
    _check_ready(ready, {**options, **runtime}, strategy, numbers)
    changes = Changes(
        utility=ready.name if ready is not None else utility if isinstance(utility, str) else None,
        options=options,
        strategy=strategy if isinstance(strategy, str) else ready.default_strategy if ready is not None else None,
        strategy_options=numbers,
        terms=dict(add or {}),
        term_options={name: {"model": model} for name, model in (add_model or {}).items()},
        weights=weights,
        self_rule=self_rule,
        prefilter=PrefilterSpec.parse(prefilter) if isinstance(prefilter, str) else None,
        guards=_required(require),
        seed=seed,
        budget_total=budget_total,
    )
    changes = changes if glossary is None else changes.with_glossary(str(glossary))
    base = utility if isinstance(utility, Recipe) else None
    recipe, records, looked = plan_for(changes, _as_records(_checked(lists)), base, shipped=ready is None)
    for caution in cautions(recipe, looked[0].origin if looked else None) if ready is None else ():
        warnings.warn(caution, stacklevel=2)
    parts: Any = {"utility": ready, "on_error": on_error, "keep_matrix": keep_matrix, **_ready(strategy, prefilter)}
    return _decisions(open_decoder(recipe, runtime=runtime, first=next(iter(looked), None), **parts), records)


def _ready(strategy: object, prefilter: object) -> dict[str, Any]:
    """The parts that are made already."""
    parts = {"strategy": (strategy, Strategy), "prefilter": (prefilter, Prefilter)}
    return {name: part for name, (part, kind) in parts.items() if isinstance(part, kind)}


def _required(require: Sequence[str | GuardSpec] | None) -> tuple[GuardSpec, ...] | None:
    if isinstance(require, str):
        raise UsageError(f"require is {require!r:.60}; expected a list of guards such as ['placeholders', 'numbers']")
    return None if require is None else parse_guards(require)


def _check_ready(
    utility: Utility | None, options: Mapping[str, Any], strategy: object, numbers: Mapping[str, float]
) -> None:
    """Options make a thing that is named; one that is made already takes none."""
    if utility is not None and options:
        raise UsageError(f"{agreeing(options, 'goes', 'go')} with a utility's name; this utility is already made")
    if isinstance(strategy, Strategy) and numbers:
        raise UsageError(f"{agreeing(numbers, 'goes', 'go')} with a strategy's name; this strategy is already made")


def _decisions(decoder: Decoder, records: Iterator[Record]) -> Iterator[Decision]:
    with decoder:
        yield from chain.from_iterable(decoder.windows(records))


def rerank(
    source: str,
    candidates: Sequence[str | Candidate],
    utility: str | Utility | Recipe | None = None,
    **settings: Any,
) -> Decision:
    """The decision for one source. `settings` as for `decode`."""
    (decision,) = decode([(source, candidates)], utility, **settings)
    return decision


def utility_matrix(
    source: str,
    candidates: Sequence[str],
    utility: str | Utility | Recipe | None = None,
    **settings: Any,
) -> UtilityMatrix:
    """The utility matrix of one list, over its distinct texts (`matrix.texts`)."""
    decision = rerank(source, candidates, utility, keep_matrix=True, **settings)
    return cast(UtilityMatrix, decision.matrix)


def _checked(lists: Iterable[Lists]) -> Iterable[Lists]:
    """Refuse what is no collection of lists, such as the name of a file."""
    if isinstance(lists, (str, bytes, PathLike)):
        raise UsageError(
            f"expected candidate lists, found {lists!r:.80}; a file is read with candidates.read_lists: "
            "decode(read_lists(path), ...)"
        )
    if isinstance(lists, CandidateList) or not isinstance(lists, Iterable):
        raise UsageError(f"expected a sequence of candidate lists, found one {type(lists).__name__}; put it in [ ]")
    return lists


def _as_records(lists: Iterable[Lists]) -> Iterator[Record]:
    for index, item in enumerate(lists):
        if isinstance(item, (CandidateList, BadRecord)):
            yield item
        elif not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
            raise UsageError(f"list {index}: expected a CandidateList or (source, candidates), found {item!r:.80}")
        else:
            source, candidates = item
            try:
                yield CandidateList.of(source, candidates, id=index)
            except InputError as exc:
                yield BadRecord(index, exc, source if isinstance(source, str) else "")
