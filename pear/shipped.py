"""The PEARs that ship with the package, and which texts they are for.

Each is small and knows one language pair (`en-de`: everyday English sentences and their German translations). Where no
model is named, `Languages` chooses one by the texts: a bundled one where both languages are seen, the released one
where others are. Too little evidence is an error that names what to pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from candidates.common.errors import UsageError
from candidates.common.languages import Evidence
from candidates.common.words import counted

SHIPPED = Path(__file__).parent / "bundled"
DEFAULT = "en-de"
RELEASED = "pear"
LISTS = 100  # lists or rows that are looked at, at most
NOTE = (
    "comparing with the bundled en-de PEAR, a small model for everyday sentences (pear/bundled/en-de/README.md); "
    "the released one is the model `pear`"
)


def shipped_models() -> dict[str, Path]:
    """Bundled checkpoints by language pair."""
    return {folder.name: folder for folder in sorted(SHIPPED.glob("*-*")) if (folder / "config.json").is_file()}


class Languages:
    """What the texts say about their languages, and the PEAR that follows from it.

    >>> languages = Languages()
    >>> languages.add("The dog is in the house.", ["Der Hund ist im Haus.", "Ein Hund ist in dem Haus."])
    >>> languages.model()
    'en-de'
    """

    def __init__(self) -> None:
        self._source, self._target = Evidence(), Evidence()
        self._lists = 0

    def add(self, source: str, candidates: Iterable[str]) -> None:
        """Look at one source and its candidates."""
        self._source.add([source])
        self._target.add(candidates)
        self._lists += 1

    @property
    def suffice(self) -> bool:
        """Whether more lists of the same kind would not change the model, or enough of them were looked at."""
        pairs = [[(side.speaks(name), side.certain(name)) for side, name in self._sides(p)] for p in shipped_models()]
        seen = any(all(side == (True, True) for side in sides) for sides in pairs)
        return seen or all((False, True) in sides for sides in pairs) or self._lists >= LISTS

    def fit(self, pair: str) -> bool | None:
        """Whether the texts are of this language pair; None where the evidence is too weak to say."""
        answers = [side.speaks(language) for side, language in self._sides(pair)]
        return False if False in answers else None if None in answers else True

    def model(self) -> str:
        """The bundled PEAR for these languages, or the released one where they are others.

        Raises:
            UsageError: there is too little evidence to tell.
        """
        fitting = {pair: self.fit(pair) for pair in shipped_models()}
        for pair, fits in fitting.items():
            if fits:
                return pair
        if None not in fitting.values():
            return RELEASED
        raise UsageError(
            f"no model was named, and the languages cannot be seen from {counted(self._lists, 'list')} (sources: "
            f"{self._source}; candidates: {self._target}); expected evidence for one of {', '.join(fitting)}, "
            "for which a PEAR is bundled, or for other languages. "
            f"Name the model: {DEFAULT} (bundled), {RELEASED} (released, from the hub) or a folder; or take a utility "
            "that needs none, such as chrf"
        )

    def _sides(self, pair: str) -> list[tuple[Evidence, str]]:
        source, target = pair.split("-")
        return [(self._source, source), (self._target, target)]
