"""Ways of choosing from candidate lists, judged against references and compared with the first candidate.

Each candidate is judged by chrF and by the cosine of sentence embeddings, against the first and against the nearest
reference; the choices together by BLEU, against the first and against all references. Differences from the first
candidate (the beam's best) come with 95 % intervals of a paired bootstrap over sources, the same draws for every row.

    table = Table(lists, references)
    table.row("chrF-MBR", lambda: chooser.choose(lists, Recipe("chrf")))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.teacher import Agreement, Embedder
from candidates.common.closing import Closing
from candidates.lists import CandidateList
from mbr.cache.scores import Ledger, ScoreStore
from mbr.evaluate.lexical import open_lexical
from mbr.opening import Models, open_decoder
from mbr.recipe import Recipe
from mbr.utilities.chrf import ChrF

Choice = NDArray[np.int64]
Floats = NDArray[np.float64]
DRAWS = 2000
BEAM = "the beam's best"
# Column, decimals, its heading.
COLUMNS = (
    ("chrf", 2, "chrF, nearest"),
    ("chrf-first", 2, "chrF, first"),
    ("embedding", 4, "embedding, nearest"),
    ("embedding-first", 4, "embedding, first"),
    ("bleu", 2, "BLEU, all"),
    ("bleu-first", 2, "BLEU, first"),
)


class Chooser(Closing):
    """Chooses by recipes; models are loaded once, and scores are kept, so that rows which share parts share their cost.

    A row's CPU seconds are then those of what earlier rows had not computed.
    """

    def __init__(self, scores: Path, threads: int) -> None:
        self._stack = ExitStack()
        self._store = self._stack.enter_context(ScoreStore(scores, warn=print))
        self._models = self._stack.enter_context(Models({"threads": threads}))

    def choose(self, lists: Sequence[CandidateList], recipe: Recipe) -> Choice:
        """The places of the chosen candidates."""
        with ExitStack() as stack:
            decoder = open_decoder(
                recipe.complete(),
                models=self._models,
                memory_of=lambda part: stack.enter_context(Ledger(self._store, part)),
            )
            return np.array([decision.ranking[0] for window in decoder.windows(lists) for decision in window])

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True)
class Row:
    """How good the choices are: value, difference from the first candidates, and its interval, by column."""

    name: str
    values: dict[str, tuple[float, float, float, float]]
    same: float  # share of sources whose choice is the first candidate
    regret: float  # mean distance from the best candidate in the teacher's score
    seconds: float

    def line(self) -> str:
        cells = [
            f"{value:.{digits}f} ({difference:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}])"
            for (key, digits, _) in COLUMNS
            for value, difference, low, high in [self.values[key]]
        ]
        return f"| {self.name} | {' | '.join(cells)} | {self.same:.0%} | {self.regret:.3f} | {self.seconds:.1f} |"


class Table:
    """Lists with references, judged once; `row` adds a way of choosing and prints it."""

    def __init__(self, lists: Sequence[CandidateList], references: Sequence[Sequence[str]]) -> None:
        self.lists = lists
        embed = Embedder()
        self.vectors = [embed(item.texts) for item in lists]
        self.agreements: list[Agreement] = []
        self._first: list[dict[str, Floats]] = []
        for item, own, golden in zip(lists, self.vectors, references, strict=True):
            chrf, cosine = ChrF().matrix("", item.texts, golden), own @ embed(golden).T
            self.agreements.append(Agreement(chrf.max(axis=1), cosine.max(axis=1)))
            first = {"chrf-first": chrf[:, 0], "embedding-first": cosine[:, 0]}
            self._first.append({key: values.astype(np.float64) for key, values in first.items()})
        most = max(map(len, references))  # BLEU takes the same number for all; a repeated one changes nothing
        self._references = [(*golden, *[golden[0]] * (most - len(golden))) for golden in references]
        self._bleu = open_lexical("bleu", references=1)
        rng = np.random.default_rng(1)
        self._draws = rng.multinomial(len(lists), np.full(len(lists), 1 / len(lists)), DRAWS).astype(np.float64)
        self._drawn = {BEAM: self._values(np.zeros(len(lists), np.int64))}
        self.rows: list[Row] = []
        self.picks: dict[str, Choice] = {}
        print(f"{len(lists)} sources, {np.mean([len(item) for item in lists]):.1f} distinct candidates each")
        print("| chosen by | " + " | ".join(title for _, _, title in COLUMNS) + " | same as first | regret | CPU s |")
        print("|" + " --- |" * (len(COLUMNS) + 4))

    def row(self, name: str, choose: Callable[[], Choice]) -> Row:
        began = time.process_time()
        picks = self.picks[name] = choose()
        seconds = time.process_time() - began
        self._drawn[name] = self._values(picks)
        values = {key: (self._drawn[name][key][0], *gain) for key, gain in self.gains(name, BEAM).items()}
        scores = [(float(a.score.max()), float(a.score[k])) for a, k in zip(self.agreements, picks, strict=True)]
        row = Row(name, values, float((picks == 0).mean()), float(np.mean([b - s for b, s in scores])), seconds)
        self.rows.append(row)
        print(row.line(), flush=True)
        return row

    def gains(self, name: str, other: str) -> dict[str, tuple[float, float, float]]:
        """By how much one way of choosing is better than another, and the interval, by column."""
        gains = {}
        for key, (value, draws) in self._drawn[name].items():
            base, base_draws = self._drawn[other][key]
            low, high = np.quantile(draws - base_draws, [0.025, 0.975])
            gains[key] = (value - base, float(low), float(high))
        return gains

    def _values(self, picks: Choice) -> dict[str, tuple[float, Floats]]:
        """Column -> the value of these choices, and that of every draw."""
        chosen = {
            "chrf": np.array([a.chrf[k] for a, k in zip(self.agreements, picks, strict=True)], np.float64),
            "embedding": np.array([a.cosine[k] for a, k in zip(self.agreements, picks, strict=True)], np.float64),
        }
        for key in self._first[0]:
            chosen[key] = np.array([values[key][k] for values, k in zip(self._first, picks, strict=True)])
        values = {key: (float(of.mean()), self._draws @ of / len(of)) for key, of in chosen.items()}
        texts = [item.texts[k] for item, k in zip(self.lists, picks, strict=True)]
        for key, count in (("bleu", None), ("bleu-first", 1)):
            rows = [(text, *golden[:count]) for text, golden in zip(texts, self._references, strict=True)]
            statistics = self._bleu.judge(rows).statistics
            total = self._bleu.scores(statistics.sum(axis=0, keepdims=True))
            values[key] = (float(total[0]), self._bleu.scores(self._draws @ statistics))
        return values


def interval(differences: Floats) -> tuple[float, float, float]:
    """Mean, and the 95 % interval of the bootstrap."""
    rng = np.random.default_rng(1)
    means = [differences[rng.integers(0, len(differences), len(differences))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)
