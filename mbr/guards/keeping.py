"""Which candidates of a list stay: all that break no rule; else the ones with the fewest and lightest faults.

>>> from mbr.guards.placeholders import Placeholders
>>> verdict = Guards({"placeholders": Placeholders()}).judge("Hi {name}", ["Hallo", "Hallo {name}", "Na {name}"])
>>> verdict.places, verdict.dropped
((1, 2), {0: ('placeholders',)})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from candidates.common.errors import ModelError
from mbr.guards.base import Guard, ListTexts


@dataclass(frozen=True)
class Verdict:
    """The places of the candidates that stay, and why the others left.

    `dropped`: the rules that each dropped candidate breaks, by place; `broken`: the rules that candidates break which
    stay all the same, by place.
    """

    places: tuple[int, ...]
    dropped: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    broken: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def flags(self, place: int) -> tuple[str, ...]:
        """The flags of a decision for the candidate at this place."""
        return tuple(f"guard:{name}" for name in self.broken.get(place, ()))


@dataclass(frozen=True)
class Guards:
    """Loaded guards by name."""

    guards: Mapping[str, Guard] = field(default_factory=dict)

    def judge(self, source: str, texts: Sequence[str]) -> Verdict:
        """Which of the texts stay. A list is never emptied."""
        everyone = tuple(range(len(texts)))
        if not self.guards:
            return Verdict(everyone)
        listed = ListTexts(source, texts)
        severities = {name: values for name, guard in self.guards.items() if any(values := guard.faults(listed))}
        for name, values in severities.items():
            if len(values) != len(texts) or not all(value >= 0 for value in values):
                raise ModelError(
                    f"guard {name!r} returned {len(values)} severities for {len(texts)} candidates, or a negative one; "
                    "expected a number from 0 for each; correct the guard"
                )
        if not severities:
            return Verdict(everyone)
        faults = [tuple(name for name in severities if severities[name][place]) for place in everyone]
        fewest = min(map(len, faults))
        lightest = [(len(faults[place]), sum(values[place] for values in severities.values())) for place in everyone]
        best = min(lightest) if fewest else (0, 0.0)
        places = tuple(place for place in everyone if lightest[place] == best)
        return Verdict(
            places=places,
            dropped={place: faults[place] for place in sorted(set(everyone).difference(places))},
            broken={place: faults[place] for place in places if faults[place]},
        )
