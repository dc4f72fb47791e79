"""What is served: recipes by name with their decoders, which share their models, and a few utilities without a model.

Without a recipe the bundled models are served: `default` for lists that come with a request, `translations` for lists
that the bundled translator makes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from candidates.common.closing import Closing
from candidates.common.errors import ModelError, UsageError
from candidates.lists import Candidate, CandidateList, Origin
from mbr.opening import Models, Runtime, open_decoder
from mbr.pipeline import Decoder
from mbr.recipe import Changes, Recipe, plan, read_recipe
from mbr.serve.cache import ScoreCache
from mbr.serve.tokens import list_tokens

DEFAULT, TRANSLATIONS = "default", "translations"
# They need no model, so that any request may name them.
LEXICAL = ("chrf", "chrf++", "bleu")
SUBJECTS = ("Ein Hund", "Der Hund", "Dieser Hund", "Ein großer Hund")
VERBS = ("läuft", "rennt", "geht", "springt", "lief")
QUICK = 0.5  # seconds; a model that takes longer for a list is not timed on the next, which is longer


def warm_up_list(place: str, size: int) -> CandidateList:
    """A list of the kind that the bundled models are for; another place gives other texts, which no cache has."""
    texts = [f"{subject} {verb} in {place}." for verb in VERBS for subject in SUBJECTS]
    entries = [Candidate(text, -1.0 - 0.1 * number) for number, text in enumerate(texts[:size])]
    return CandidateList.of(f"A dog runs in {place}.", entries, id="warm-up")


@dataclass(frozen=True)
class Words:
    """What was asked for: recipes as words of the command line, by name."""

    recipes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Sequence[str]) -> Words:
        """`name=FILE`, or a file or name that is its own name; {utility: chrf} is `default`.

        Raises:
            UsageError: a name is there twice, or is that of a utility.
        """
        recipes: dict[str, str] = {}
        for word in words:
            match = re.match(r"([A-Za-z0-9][\w.-]*)=(.+)", word, re.DOTALL)
            inline = word.lstrip().startswith("{")
            name, recipe = (match[1], match[2]) if match else (DEFAULT if inline else _stem(word), word)
            if name in recipes:
                raise UsageError(f"the recipe {name!r} is there twice; give them names (--recipe NAME=FILE)")
            if name in LEXICAL:
                raise UsageError(f"the name {name!r} is that of a utility; choose another (--recipe NAME=FILE)")
            recipes[name] = recipe
        return cls(recipes)


class Served(Closing):
    """Loaded decoders by name; `default` decides lists, `translations` what the translator makes.

    `speeds` by name: estimated tokens of a list (`mbr.serve.tokens`), and the seconds that it took.
    """

    def __init__(
        self,
        decoders: Mapping[str, Decoder],
        default: str,
        translations: str,
        models: Models,
        speeds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.decoders = dict(decoders)
        self.default = default
        self.translations = translations
        self.speeds = dict(speeds or {})
        self._models = models

    def close(self) -> None:
        self._models.close()


def load(
    words: Words,
    runtime: Runtime,
    cache: ScoreCache,
    origin: Origin | None,
    changed: Callable[[Recipe], Recipe] = lambda recipe: recipe,
) -> Served:
    """Load all models and decide short lists with each decoder: the first request is as quick as the others, and the
    speed of each is measured.

    Args:
        origin: of the lists that the translator makes; None where there is none.
        changed: applied to every recipe, such as a precision for all models.

    Raises:
        UsageError: a recipe does not fit together, or not into a service.
        ModelError: a model cannot be loaded, or cannot decide.
    """
    recipes = {name: read_recipe(word) for name, word in words.recipes.items()}
    if recipes:
        default = translations = next(iter(recipes))
    else:
        default = translations = DEFAULT
        recipes[DEFAULT] = plan(Changes())
        if origin is not None:
            translations = TRANSLATIONS
            recipes[TRANSLATIONS] = plan(Changes(), origin=origin)
    recipes |= {name: Recipe(name) for name in LEXICAL}
    with ExitStack() as stack:
        models = stack.enter_context(Models(runtime))
        decoders, speeds = {}, {}
        for name, recipe in recipes.items():
            if recipe.budget_total is not None:
                raise UsageError(
                    f"recipe {name!r} has a budget for all lists together (budget-total), which a service cannot keep; "
                    "leave it out"
                )
            decoders[name] = open_decoder(changed(recipe), models=models, memory_of=cache.of)
            speeds[name] = warm_up(name, decoders[name])
        stack.pop_all()
    return Served(decoders, default, translations, models, speeds)


def warm_up(name: str, decoder: Decoder) -> tuple[float, float]:
    """Decide short lists; returns the estimated tokens of the last one and the seconds that it took.

    Raises:
        ModelError: the recipe cannot decide it.
    """
    (decision,) = decoder.decide([warm_up_list("Rom", 3)])
    if not decision.text:
        raise ModelError(f"recipe {name!r} cannot decide a list of three short sentences; try it with mbr-decode")
    for place, size in (("Paris", 3), ("London", 8), ("Berlin", len(SUBJECTS) * len(VERBS))):
        item = warm_up_list(place, size)
        began = time.perf_counter()
        decoder.decide([item])
        seconds = time.perf_counter() - began
        if seconds > QUICK:
            break
    return float(list_tokens(decoder, item)), seconds


def _stem(word: str) -> str:
    return re.sub(r"\.ya?ml$", "", word.rstrip("/").rpartition("/")[2]) or DEFAULT
