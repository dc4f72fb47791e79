"""From what a user asked for to a recipe: changes to a base, which the lists' origin chooses where none is named.

The same rules hold for mbr-decode, mbr-compare and Python: lists made by the bundled translator get the recipe that
ships with it, whether they were made a second or a year ago; other lists get the plain defaults of the utility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from candidates.common.errors import UsageError
from candidates.formats import Record
from candidates.lists import CandidateList, Origin
from mbr.recipe.files import recipe_for
from mbr.recipe.value import Options, PrefilterSpec, Recipe, TermSpec
from mbr.terms import term_options
from mbr.utilities import utility_options
from mbr.weights import SelfRule, Weights
from pear.shipped import DEFAULT, fits

# Options that name a checkpoint: where one is given, the shipped recipe is not meant.
CHECKPOINT_OPTIONS = ("model", "revision", "encoder")
LOOK_AHEAD = 100  # records that may be unusable before the first list


@dataclass(frozen=True)
class Changes:
    """What was asked for; None and empty stand for what was left open. A term of weight 0 is taken out."""

    utility: str | None = None
    options: Options = field(default_factory=dict)
    strategy: str | None = None
    strategy_options: Options = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    term_options: Mapping[str, Options] = field(default_factory=dict)
    weights: Weights | None = None
    self_rule: SelfRule | None = None
    prefilter: PrefilterSpec | None = None
    seed: int | None = None
    budget_total: int | None = None

    def applied_to(self, base: Recipe) -> Recipe:
        """The base with these changes. Another utility leaves the old one's options and strategy behind."""
        utility = self.utility or base.utility
        same = utility == base.utility
        options = {**(base.options if same else {}), **self.options}
        if "model" in self.options and same:  # revision and encoder were those of another model
            options = {k: v for k, v in options.items() if k in self.options or k not in CHECKPOINT_OPTIONS}
        strategy = self.strategy or (base.strategy if same else None)
        kept = base.strategy_options if same and self.strategy in (None, base.strategy) else {}
        return replace(
            base,
            utility=utility,
            options=options,
            strategy=strategy,
            strategy_options={**kept, **self.strategy_options},
            terms=self._terms(base),
            weights=self.weights or base.weights,
            self_rule=self.self_rule or base.self_rule,
            prefilter=self.prefilter or base.prefilter,
            seed=base.seed if self.seed is None else self.seed,
            budget_total=base.budget_total if self.budget_total is None else self.budget_total,
        )

    def _terms(self, base: Recipe) -> tuple[TermSpec, ...]:
        terms = {term.name: term for term in base.terms}
        for name, weight in self.terms.items():
            terms[name] = replace(terms.get(name, TermSpec(name)), weight=weight)
        for name, options in self.term_options.items():
            if name not in terms:
                raise UsageError(f"a model or option was given for the term {name!r}, which is not added (--add)")
            terms[name] = replace(terms[name], options={**terms[name].options, **options})
        return tuple(term for term in terms.values() if term.weight != 0)


def plan(
    changes: Changes,
    *,
    base: Recipe | None = None,
    origin: Origin | None = None,
    first: CandidateList | None = None,
    shipped: bool = True,
) -> Recipe:
    """The recipe for lists of this origin.

    Args:
        changes: what was asked for.
        base: a recipe that was named; without it the default for the lists is meant.
        origin: of the lists, if it is known.
        first: a list to see the languages by, where the origin does not say.
        shipped: whether a recipe that ships with a bundled model may be meant.
    """
    if base is None:
        base = _default(changes, origin, first, shipped)
    return changes.applied_to(base).complete()


def plan_for(
    changes: Changes, records: Iterable[Record], base: Recipe | None = None, *, shipped: bool = True
) -> tuple[Recipe, Iterator[Record]]:
    """The recipe for these lists, by the first of them; returns all the records, too."""
    first, stream = looked_at(records)
    origin = first.origin if first else None
    return plan(changes, base=base, origin=origin, first=first, shipped=shipped), stream


def looked_at(records: Iterable[Record]) -> tuple[CandidateList | None, Iterator[Record]]:
    """The first usable list, or None where there is none among the first records; and all the records."""
    stream = iter(records)
    start: list[Record] = []
    for record in islice(stream, LOOK_AHEAD):
        start.append(record)
        if isinstance(record, CandidateList):
            return record, chain(start, stream)
    return None, chain(start, stream)


def of_one_origin(records: Iterable[Record], origin: Origin | None, warn: Callable[[str], None]) -> Iterator[Record]:
    """The records; the first list of another origin than that of the recipe is pointed out."""
    warned = False
    for record in records:
        if not warned and isinstance(record, CandidateList) and record.origin != origin:
            warned = True
            warn(
                f"segment {record.id!r} comes from another translation model or method than the first list, by which "
                "the recipe was chosen; decode them apart, or name a recipe for all (--recipe)"
            )
        yield record


def _default(changes: Changes, origin: Origin | None, first: CandidateList | None, shipped: bool) -> Recipe:
    utility = changes.utility or "pear"
    plain = Recipe(utility, weights="uniform" if origin is not None and origin.method == "beam" else "count")
    if utility != "pear" or not shipped or any(name in changes.options for name in CHECKPOINT_OPTIONS):
        return plain
    if recipe := recipe_for(origin):
        return recipe
    # The bundled PEAR is for the bundled translator's lists; others get it only where no origin is known.
    bundled = origin is None and (first is None or fits(DEFAULT, first.source, first.texts))
    return replace(plain, options={"model": DEFAULT if bundled else "pear"})


def with_precision(recipe: Recipe, dtype: str, *, required: bool = True) -> Recipe:
    """The recipe with a precision for every model that takes one and has none of its own.

    Raises:
        UsageError: no model takes one, and it is `required` that one does.
    """
    takers: list[str] = []

    def chosen(name: str, options: Options, taken: Iterable[str]) -> dict[str, Any]:
        if "dtype" not in taken:
            return dict(options)
        takers.append(name)
        return {"dtype": dtype, **options}

    first = recipe.prefilter
    changed = replace(
        recipe,
        options=chosen(recipe.utility, recipe.options, utility_options(recipe.utility)),
        terms=tuple(
            replace(term, options=chosen(term.name, term.options, term_options(term.name))) for term in recipe.terms
        ),
        prefilter=first and replace(first, options=chosen(first.name, first.options, term_options(first.name))),
    )
    if required and not takers:
        raise UsageError(f"utility {recipe.utility!r} has no option 'dtype', and neither has anything else here")
    return changed
