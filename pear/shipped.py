"""The PEAR that ships with the package, and which texts it is for.

It is small and knows one language pair: everyday English sentences and their German translations. `fits` looks at a
list before it is used without being asked for: function words tell languages apart well enough for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

SHIPPED = Path(__file__).parent / "bundled"
DEFAULT = "en-de"
NOTE = (
    "comparing with the bundled en-de PEAR, a small model for everyday sentences (pear/bundled/en-de/README.md); "
    "--model pear is the released one"
)

_WORDS = {
    "en": "the a an of to and in is was are that it for on with he she they you we his her not have has this I my",
    "de": "der die das ein eine und zu in ist war sind dass es für auf mit er sie du wir ich nicht hat haben den dem",
    "fr": "le la les un une des et de à est était que il elle nous vous je ne pas pour avec dans son sa qui du",
    "es": "el la los las un una y de a es era que él ella nosotros no para con en su yo por se lo del",
    "it": "il lo la gli un una e di a è era che lui lei noi non per con in suo io si del della",
    "nl": "de het een en van is was dat hij zij wij niet voor met op zijn ik je heeft hebben te",
    "pt": "o a os as um uma e de é era que ele ela nós não para com em seu eu por se do da",
}
_FUNCTION_WORDS = {language: frozenset(words.casefold().split()) for language, words in _WORDS.items()}


def shipped_default() -> Path:
    """The folder of the bundled model: a path, because a folder of the user may have its name."""
    return SHIPPED / DEFAULT


def shipped_models() -> dict[str, Path]:
    """Bundled checkpoints by language pair."""
    return {folder.name: folder for folder in sorted(SHIPPED.glob("*-*")) if (folder / "config.json").is_file()}


def fits(pair: str, source: str, candidates: Iterable[str]) -> bool:
    """Whether a source and its candidates look like this language pair; texts without evidence do."""
    from_language, to_language = pair.split("-")
    return _is(from_language, [source]) and _is(to_language, candidates)


def _is(language: str, texts: Iterable[str]) -> bool:
    joined = " ".join(texts)
    words = re.findall(r"[^\W\d_]+", joined.casefold())
    letters = [sign for sign in joined if sign.isalpha()]
    if sum(sign > "\u024f" for sign in letters) > len(letters) / 2:  # not a Latin script
        return False
    counts = {name: sum(word in function_words for word in words) for name, function_words in _FUNCTION_WORDS.items()}
    present = counts[language] > 0 or len(words) < 8  # eight words of a language hold one of its function words
    return present and counts[language] >= max(counts.values())
