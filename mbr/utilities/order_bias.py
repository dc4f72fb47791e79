"""How much a judge's scores depend on the order in which it sees two texts: tau, over all pairs of a run.

For a pair that was scored in both orders, d = (u(a, b) - u(b, a)) / 2 is the difference of the two texts, and
b = (u(a, b) + u(b, a)) / 2 what the places added to it: without a position bias, b = 0. tau is the root mean square of
b over that of d: 0 for a judge that ignores places, 1 where place and quality weigh the same, and infinite for one that
sees nothing but places.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from candidates.common.words import counted

MOST_WAITING = 1_000_000  # pairs scored in one order that are remembered


class OrderBias:
    """Gathers scores; of pairs seen in both orders only sums are kept."""

    def __init__(self) -> None:
        self.pairs = 0
        self.changed = 0  # pairs in which the same place won twice, or only one order had a winner
        self._bias = self._bias_squares = self._difference_squares = 0.0
        self._waiting: dict[bytes, float] = {}

    def add(self, triple: tuple[str, str, str], score: float) -> None:
        """The score of (source, first, second)."""
        source, first, second = triple
        if first == second:
            return
        other = self._waiting.pop(_key(source, second, first), None)
        if other is None:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.clear()
            self._waiting[_key(source, first, second)] = score
            return
        self.pairs += 1
        self.changed += (score > 0) != (other < 0) or (score < 0) != (other > 0)
        self._bias += (score + other) / 2
        self._bias_squares += ((score + other) / 2) ** 2
        self._difference_squares += ((score - other) / 2) ** 2

    @property
    def tau(self) -> float | None:
        """None where no pair was seen in both orders, or all were ties."""
        if not self.pairs or not (self._bias_squares or self._difference_squares):
            return None
        return math.sqrt(self._bias_squares / self._difference_squares) if self._difference_squares else math.inf

    @property
    def lean(self) -> float:
        """The mean of what the first place adds; negative where the second is favoured."""
        return self._bias / self.pairs if self.pairs else 0.0

    def record(self) -> dict[str, Any]:
        tau = self.tau
        return {
            "pairs_in_both_orders": self.pairs,
            "verdicts_changed": self.changed,
            "position_tau": None if tau is None or math.isinf(tau) else round(tau, 6),
            "first_place_adds": round(self.lean, 6),
        }

    def __str__(self) -> str:
        tau = "not known" if self.tau is None else f"{self.tau:.2f}"
        return (
            f"position bias: tau {tau} over {counted(self.pairs, 'pair')} in both orders; the verdict changed in "
            f"{self.changed:,}; the first place adds {self.lean:+.2f}"
        )


def _key(*texts: str) -> bytes:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
