"""What the scheduler reports while it works; `mbr.serve.metrics` turns it into numbers for Prometheus."""

from __future__ import annotations


class Watch:
    """Receives what happens, from several threads; this one ignores all of it."""

    def queue(self, jobs: int, tokens: int) -> None:
        """Requests under way, and their estimated tokens."""

    def joined(self) -> None:
        """A request waits for the answer of an equal one."""

    def dropped(self, reason: str) -> None:
        """A request has no answer: `queue full`, `too large`, `deadline`, `client gone`, `ending`, `failed`."""

    def began(self, seconds: float) -> None:
        """A request waited this long."""

    def step(self, pairs: int, tokens: int, padding: int, seconds: float) -> None:
        """One call of the utility: pairs scored, the model's tokens and padding."""

    def ended(self, recipe: str, seconds: float, passes: int) -> None:
        """A decision was made, this long after its request began."""

    def partial(self) -> None:
        """A decision was made at its deadline, with the scores so far."""

    def fallback(self) -> None:
        """The first candidate stands in for a decision."""

    def cache(self, hits: int, misses: int) -> None:
        """Scores that were in the cache, and scores that were computed."""

    def error(self, what: str) -> None:
        """A failure that is not the caller's, described without texts."""
