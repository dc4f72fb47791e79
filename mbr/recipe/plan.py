"""From what a user asked for to a recipe: changes to a base, which the lists' origin chooses where none is named.

The same rules hold for mbr-decode, mbr-compare and Python: lists made by the bundled translator get the recipe that
ships with it, whether they were made a second or a year ago; other lists get the plain defaults of the utility. A PEAR
without a model gets one here, by the origin of the lists or else by their languages, and nowhere later: a run that is
resumed, or a worker that begins in the middle, gets the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from candidates.common.errors import UsageError
from candidates.formats import Record
from candidates.lists import CandidateList, Origin
from mbr.recipe.files import recipe_for
from mbr.recipe.value import GuardSpec, Options, PrefilterSpec, Recipe, TermSpec
from mbr.terms import term_options
from mbr.utilities import utility_options
from mbr.weights import SelfRule, Weights
from pear.shipped import DEFAULT, LISTS, RELEASED, Languages, shipped_models

# Options that name a checkpoint: where one is given, the shipped recipe is not meant.
CHECKPOINT_OPTIONS = ("model", "revision", "encoder")
LOOK_AHEAD = LISTS  # records, usable or not, that are read before the first decision at most


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
    # None leaves the guards of the base; an empty tuple takes them out.
    guards: tuple[GuardSpec, ...] | None = None
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
            guards=self._guards(base),
            seed=base.seed if self.seed is None else self.seed,
            budget_total=base.budget_total if self.budget_total is None else self.budget_total,
        )

    def with_glossary(self, file: str) -> Changes:
        """The same with a glossary: for the term or the guard of that name; where neither is there, it is required."""
        required = any(guard.name == "glossary" for guard in self.guards or ())
        terms = {name: dict(options) for name, options in self.term_options.items()}
        if "glossary" in self.terms:
            terms.setdefault("glossary", {})["file"] = file
            if not required:
                return replace(self, term_options=terms)
        others = tuple(guard for guard in self.guards or () if guard.name != "glossary")
        return replace(self, term_options=terms, guards=(*others, GuardSpec("glossary", {"file": file})))

    def _guards(self, base: Recipe) -> tuple[GuardSpec, ...]:
        if self.guards is None:
            return base.guards
        added = {guard.name: guard for guard in self.guards}
        return tuple(({guard.name: guard for guard in base.guards} | added).values()) if added else ()

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
    lists: Sequence[CandidateList] = (),
    shipped: bool = True,
) -> Recipe:
    """The recipe for lists of this origin.

    Args:
        changes: what was asked for.
        base: a recipe that was named; without it the default for the lists is meant.
        origin: of the lists, if it is known.
        lists: some lists to see the languages by, where the origin does not say.
        shipped: whether a model that ships with the package may be meant: not where the utility is made already.

    Raises:
        UsageError: a PEAR was not named, and the lists do not show their languages.
    """
    recipe = changes.applied_to(base or _default(changes, origin, shipped))
    if _leaves_open(recipe, shipped):
        recipe = _with_model(recipe, _model_for(origin, lists), shipped)
    return recipe.complete()


def plan_for(
    changes: Changes, records: Iterable[Record], base: Recipe | None = None, *, shipped: bool = True
) -> tuple[Recipe, Iterator[Record], list[CandidateList]]:
    """The recipe for these lists, by the first of them; returns all the records, too, and the lists looked at."""
    lists, stream = looked_at(records, languages=needs_languages(changes, base, shipped=shipped))
    origin = lists[0].origin if lists else None
    return plan(changes, base=base, origin=origin, lists=lists, shipped=shipped), stream, lists


def needs_languages(changes: Changes, base: Recipe | None = None, *, shipped: bool = True) -> bool:
    """Whether lists without an origin are asked for their languages: a PEAR is meant, but not named."""
    return _leaves_open(changes.applied_to(base or _default(changes, None, shipped)), shipped)


def looked_at(records: Iterable[Record], *, languages: bool) -> tuple[list[CandidateList], Iterator[Record]]:
    """The first usable list, none where there is none among the first records; and all the records.

    Where the `languages` are needed and the first list has no origin, lists follow until they are certain.
    """
    stream = iter(records)
    start: list[Record] = []
    lists: list[CandidateList] = []
    seen = Languages()
    for record in islice(stream, LOOK_AHEAD):
        start.append(record)
        if not isinstance(record, CandidateList):
            continue
        lists.append(record)
        seen.add(record.source, record.texts)
        if not languages or lists[0].origin is not None or seen.suffice:
            break
    return lists, chain(start, stream)


def cautions(recipe: Recipe, origin: Origin | None) -> list[str]:
    """Warnings about a recipe for lists of this origin, one sentence each."""
    bundled = recipe.utility == "pear" and str(recipe.options.get("model")) in shipped_models()
    ships = recipe_for(origin)  # one without the term gives weight to what was drawn often
    wanted = ships is None or any(term.name == "logprob" for term in ships.terms)
    if not bundled or not wanted or any(term.name == "logprob" for term in recipe.terms):
        return []
    return [
        f"the bundled PEAR {recipe.options['model']} decides without log-probabilities; it chooses better together "
        "with them (docs/bundled-pear.md). Give lists with log-probabilities and --recipe en-de, or let mbr-decode "
        "translate the text itself"
    ]


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


def _default(changes: Changes, origin: Origin | None, shipped: bool) -> Recipe:
    utility = changes.utility or "pear"
    plain = Recipe(utility, weights="uniform" if origin is not None and origin.method == "beam" else "count")
    if utility != "pear" or not shipped or any(name in changes.options for name in CHECKPOINT_OPTIONS):
        return plain
    return recipe_for(origin) or plain


def _leaves_open(recipe: Recipe, shipped: bool) -> bool:
    """Whether a PEAR in the recipe, as utility, term or first stage, has no model."""
    return _with_model(recipe, DEFAULT, shipped) != recipe


def _with_model(recipe: Recipe, model: str, shipped: bool) -> Recipe:
    """The recipe with this model for every PEAR that has none; a revision or an encoder is of the released one."""

    def named(name: str, options: Options) -> Options:
        if name != "pear" or options.get("model") is not None:
            return options
        return {**options, "model": RELEASED if any(map(options.get, CHECKPOINT_OPTIONS)) else model}

    first = recipe.prefilter
    return replace(
        recipe,
        options=named(recipe.utility, recipe.options) if shipped else recipe.options,
        terms=tuple(replace(term, options=named(term.name, term.options)) for term in recipe.terms),
        prefilter=first and replace(first, options=named(first.name, first.options)),
    )


def _model_for(origin: Origin | None, lists: Sequence[CandidateList]) -> str:
    """The PEAR for lists of this origin, or of these languages; the bundled one is for the bundled translator."""
    if origin is not None:
        ships = recipe_for(origin)
        return str(ships.options.get("model", RELEASED)) if ships else RELEASED
    languages = Languages()
    for item in islice(lists, LISTS):
        languages.add(item.source, item.texts)
        if languages.suffice:
            break
    return languages.model() if lists else DEFAULT


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


def with_precisions_of(recipe: Recipe, signature: Mapping[str, str]) -> Recipe:
    """The recipe with the precisions of a signature for models that leave theirs open (dtype `auto`)."""

    def same(options: Options, key: str) -> Options:
        dtype = signature.get(key)
        return {**options, "dtype": dtype} if options.get("dtype") == "auto" and dtype else options

    first = recipe.prefilter
    return replace(
        recipe,
        options=same(recipe.options, "dtype"),
        terms=tuple(replace(term, options=same(term.options, f"add.{term.name}.dtype")) for term in recipe.terms),
        prefilter=first and replace(first, options=same(first.options, "prefilter.dtype")),
    )
