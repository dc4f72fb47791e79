"""How certain are a score and a difference? Bootstrap intervals, paired bootstrap, paired approximate randomisation.

Everything works on the statistics [segments, k] of a judge: a draw is a row of counts, its score the judge's score of
`counts @ statistics`. So BLEU, chrF and TER of a resample are sacrebleu's. Draws depend on the seed and the number of
segments only, so another system in the table changes no number, and they are the draws that sacrebleu makes with the
same seed (SACREBLEU_SEED). Time is draws x segments x k per system, memory a block of that.

Both tests have the statistic |difference|. p counts the trials that reach the observed difference, plus one for the
observation itself: (reached + 1) / (trials + 1). sacrebleu counts trials that exceed it, which makes a system
significantly different from itself; apart from such ties the numbers are the same. Only the randomisation test keeps
its nominal level: the bootstrap's p is too small (see `bootstrap_p`), so it is no evidence by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]

BLOCK_CELLS = 2**21  # draws x segments held at once, 16 MB
TIE = 1e-10  # sums in another order differ in the last digits; such values are ties


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline. `difference` is system minus baseline; p is None where the test was not run."""

    difference: float
    p_bootstrap: float | None
    p_randomisation: float | None


def bootstrap_scores(score: Score, statistics: Mapping[str, Floats], *, draws: int, seed: int) -> dict[str, Floats]:
    """Scores [draws] of each system on resamples of its segments, the same segments for all systems."""
    scores = {name: np.empty(draws) for name in statistics}
    begin = 0
    for counts in _resamples(_segments(statistics), draws, seed):
        for name, values in statistics.items():
            scores[name][begin : begin + len(counts)] = score(counts @ values)
        begin += len(counts)
    return scores


def interval(scores: Floats) -> Interval:
    """The middle 95 % of bootstrap scores [draws]; the bounds are draws, as in sacrebleu."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[len(ordered) - cut - 1]))


def bootstrap_p(system: Floats, baseline: Floats, difference: float) -> float:
    """p of the paired bootstrap (Koehn 2004) in sacrebleu's form, of both systems' scores [draws] on the same draws.

    The share of draws whose |difference| exceeds its mean over all draws by at least the observed |difference|. This p
    is too small: of pairs that do not differ, about 12 % have p < .05 (a test simulates it). Draws as far below the
    mean are not counted, so for a clear difference it is about half of a two-sided p.
    """
    shifts = np.abs(system - baseline)
    return _share(shifts - shifts.mean(), difference, system, baseline)


def randomisation_ps(
    score: Score,
    statistics: Mapping[str, Floats],
    baseline: str,
    differences: Mapping[str, float],
    *,
    trials: int,
    seed: int,
) -> dict[str, float]:
    """p of the paired approximate randomisation (Noreen 1989; Riezler and Maxwell 2005) of each system.

    In each trial the outputs of every segment are swapped with probability 1/2; p is the share of trials whose
    |difference| is at least the observed one.
    """
    base = statistics[baseline]
    total = base.sum(axis=0)
    scores = {name: (np.empty(trials), np.empty(trials)) for name in statistics}
    begin = 0
    for swaps in _swaps(len(base), trials, seed):
        part = slice(begin, begin + len(swaps))
        for name, values in statistics.items():
            moved = swaps @ (base - values)  # [block, k]
            scores[name][0][part] = score(values.sum(axis=0) + moved)
            scores[name][1][part] = score(total - moved)
        begin += len(swaps)
    return {
        name: _share(np.abs(system - other), differences[name], system, other)
        for name, (system, other) in scores.items()
    }


def compare(
    score: Score,
    statistics: Mapping[str, Floats],
    scores: Mapping[str, float],
    baseline: str,
    resampled: Mapping[str, Floats],
    *,
    trials: int,
    seed: int,
) -> dict[str, Comparison]:
    """Each system against the baseline, from the systems' scores and their bootstrap scores (empty: no such test)."""
    differences = {name: scores[name] - scores[baseline] for name in statistics}
    randomised = randomisation_ps(score, statistics, baseline, differences, trials=trials, seed=seed) if trials else {}
    return {
        name: Comparison(
            difference,
            bootstrap_p(resampled[name], resampled[baseline], difference) if resampled else None,
            randomised.get(name),
        )
        for name, difference in differences.items()
    }


def _share(trials: Floats, difference: float, *scores: Floats) -> float:
    slack = TIE * max(float(np.abs(values).max()) for values in scores)
    return float((np.sum(trials >= abs(difference) - slack) + 1) / (len(trials) + 1))


def _resamples(segments: int, draws: int, seed: int) -> Iterator[Floats]:
    """Blocks [draws, segments]: how often each segment was drawn."""
    random = np.random.default_rng(seed)
    for size in _blocks(segments, draws):
        places = random.choice(segments, size=(size, segments), replace=True)
        places += segments * np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=size * segments)
        yield counts.reshape(size, segments).astype(np.float64)


def _swaps(segments: int, trials: int, seed: int) -> Iterator[Floats]:
    """Blocks [trials, segments]: 1 where the outputs of a segment are swapped, else 0."""
    random = np.random.default_rng(seed)
    for size in _blocks(segments, trials):
        yield random.integers(2, size=(size, segments), dtype=np.bool_).astype(np.float64)


def _blocks(segments: int, draws: int) -> Iterator[int]:
    """Sizes of blocks: multiples of 32, as numpy draws 32 bits at once, so that blocks change no draw."""
    size = max(BLOCK_CELLS // segments // 32 * 32, 32)
    for begin in range(0, draws, size):
        yield min(size, draws - begin)


def _segments(statistics: Mapping[str, Floats]) -> int:
    return len(next(iter(statistics.values())))
