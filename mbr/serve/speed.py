"""The speed of each recipe, in estimated tokens (`mbr.serve.tokens`) per second of computing, for admission.

Recipes differ by a factor of hundreds, and the estimate is an upper bound that adaptive strategies rarely need: so the
speed is measured for each recipe by itself, in the warm-up and from then on, and the distant past is forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mbr.serve.jobs import Job

FORGET = 0.98  # weight of the past per measurement
FIRST_GUESS = (20_000.0, 1.0)  # estimated tokens, and the seconds they take, where nothing was measured


class Speeds:
    """Estimated tokens and the seconds that they took, by recipe."""

    def __init__(self) -> None:
        self._measured: dict[str, tuple[float, float]] = {}

    def update(self, speeds: Mapping[str, tuple[float, float]]) -> None:
        """Speeds of recipes that were loaded now."""
        self._measured.update(speeds)

    def add(self, recipe: str, tokens: float, seconds: float) -> None:
        past_tokens, past_seconds = self._measured.get(recipe, FIRST_GUESS)
        self._measured[recipe] = (FORGET * past_tokens + tokens, FORGET * past_seconds + seconds)

    def seconds(self, recipe: str, tokens: float) -> float:
        """The seconds that these tokens take with a recipe."""
        done, spent = self._measured.get(recipe, FIRST_GUESS)
        return tokens * spent / max(done, 1.0)


class Done:
    """Work since the last report, by recipe."""

    def __init__(self) -> None:
        self._tokens: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    def credit(self, job: Job, tokens: int) -> None:
        """Count some of a job's estimated tokens as done."""
        tokens = max(min(tokens, job.request.tokens - job.credited), 0)
        job.credited += tokens
        self._tokens[job.request.recipe] += tokens

    def spend(self, job: Job, seconds: float) -> None:
        recipe = job.request.recipe
        self._seconds[recipe] = self._seconds.get(recipe, 0.0) + seconds

    def take(self) -> list[tuple[str, int, float]]:
        """Recipe, tokens and seconds of each recipe that took time; they are reported once."""
        reports = [(recipe, self._tokens.pop(recipe, 0), seconds) for recipe, seconds in self._seconds.items()]
        self._seconds.clear()
        return reports
