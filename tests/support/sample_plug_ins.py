"""A utility, a strategy, a term, a guard and a back-end as others would write them: the text of one file each."""

from __future__ import annotations

from tests.support.pages import blocks, page

UTILITY = '''
import numpy as np

from mbr import PairUtility


class Letters(PairUtility):
    """How often a letter is in the hypothesis, and a little for every pair that was compared."""

    name = "letters"
    summary = "counts a letter"

    def __init__(self, *, letter: str = "e", fold: bool = False) -> None:
        self._letter = letter
        self._fold = fold

    def score_pairs(self, triples):
        texts = [text.lower() if self._fold else text for _, text, _ in triples]
        return np.array([text.count(self._letter) for text in texts], np.float32)

    def settings(self):
        return {"letter": self._letter, "fold": self._fold}
'''

STRATEGY = '''
from typing import Annotated

import numpy as np

from mbr.strategies import Ask, Outcome, PairScores, Strategy


def window(of: Annotated[int, "candidates compared"] = 2, end: Annotated[str, "which end of the list"] = "first"):
    """Compare only the first or last few candidates; the others are never chosen."""

    def converse(segment):
        places = np.arange(segment.size)
        places = places[:of] if end == "first" else places[-of:]
        pairs = np.array([(i, j) for i in places for j in places if i != j])
        scores = PairScores(segment)
        scores.write(pairs, (yield Ask(pairs)))
        expected = np.full(segment.size, np.nan)
        for i in places:
            expected[i] = scores.values[i][scores.scored[i]].mean()
        expected = segment.with_terms(expected)
        ranking = tuple(sorted(places.tolist(), key=lambda i: -expected[i]))
        return Outcome(scores.values, scores.scored, expected, ranking)

    return Strategy(
        "window",
        "only one end of the list",
        converse,
        lambda size, diagonal, relation: min(of, size) * (min(of, size) - 1),
        settings={"of": of, "end": end},
    )
'''

TERM = '''
import numpy as np

from mbr import Term


class Marks(Term):
    """How often a mark is in the candidate."""

    name = "marks"
    summary = "counts a mark"

    def __init__(self, *, mark: str = "!") -> None:
        self._mark = mark

    def values(self, lists, references):
        return [np.array([float(text.count(self._mark)) for text in item.texts]) for item in lists]

    def settings(self):
        return {"mark": self._mark}
'''

BACKEND = '''
from candidates import Generator


class Turned(Generator):
    """The source and its words turned around, each with an ending."""

    name = "turned"

    def __init__(self, model, settings, *, ending: str = ".", times: int = 1) -> None:
        super().__init__()
        self.model, self.settings, self.ending, self.times = model, settings, ending, times

    def described(self):
        return {"model": self.model, **super().described(), "ending": self.ending, "times": self.times}

    def generate(self, sources, *, skip=0):
        for id, source in enumerate(sources):
            if id >= skip:
                words = source.split()
                tail = self.ending * self.times
                yield self.listed(source, [" ".join(words) + tail, " ".join(words[::-1]) + tail], id)
'''

GUARD = blocks(page("docs/guards.md"), "python")[0]

# Name -> text of the file, group of the entry point, target.
PLUG_INS = {
    "letters": (UTILITY, "mbr_decode.utilities", "letters:Letters"),
    "window": (STRATEGY, "mbr_decode.strategies", "window:window"),
    "marks": (TERM, "mbr_decode.terms", "marks:Marks"),
    "questions": (GUARD, "mbr_decode.guards", "questions:Questions"),
    "turned": (BACKEND, "mbr_decode.backends", "turned:Turned"),
}
