"""MBR over the outputs of all systems: each segment's translations are a candidate list, and a utility chooses.

The result is a metric without reference like any other: its score of a translation is the score of the decision. So
people judge what MBR chooses (`choice`), and no neural judge is needed.

    >>> scores = read_folder("mt-metrics-eval-v2/wmt23", "en-de")           # doctest: +SKIP
    >>> rerank_by_utility("chrf", scores).name                               # doctest: +SKIP
    'MBR chrf'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from candidates.common.errors import UsageError
from candidates.lists import CandidateList
from mbr.decide import Decision
from mbr.metaeval.values import SOURCE_ONLY, Floats, Scores, ScoreSet, Texts
from mbr.opening import open_decoder
from mbr.recipe import RUNTIME_OPTIONS, Recipe
from mbr.recipe.plan import plan, with_precision
from mbr.recipe.words import parse_changes
from mbr.utilities import QualityUtility, utility_class, utility_names


def check_utilities(words: list[str]) -> None:
    """Refuse a word that is no utility with options before anything is read."""
    for word in words:
        changes, _ = parse_changes(word)
        if changes.utility not in utility_names():
            raise UsageError(f"{changes.utility!r} is no utility; expected one of {', '.join(utility_names())}")


def rerank_by_utility(
    word: str,
    scores: ScoreSet,
    *,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Scores:
    """What a utility makes of the outputs of every segment that people scored.

    Args:
        word: as in mbr-compare: NAME, NAME=MODEL, or either with `,strategy=...` and other options.
        scores: with texts. Only translations that people scored are candidates.
        options: those of models.
        progress: whether to show a bar on stderr.
        report: receives notes, such as licences.

    Returns:
        Scores by expected utility, or by place in the ranking where the strategy left candidates without a score.
    """
    if scores.texts is None:
        raise UsageError("MBR needs the systems' outputs; there are none beside these scores")
    changes, _ = parse_changes(word)
    lists = list(_lists(scores, scores.texts))
    recipe = plan(changes, base=Recipe(changes.utility or "pear"), lists=[item for _, item in lists])
    settings = dict(options or {})
    if dtype := settings.pop("dtype", None):
        recipe = with_precision(recipe, dtype, required=False)
    values = np.full(scores.gold.shape, np.nan)
    runtime = {name: value for name, value in settings.items() if name in RUNTIME_OPTIONS}
    with open_decoder(recipe, runtime=runtime) as decoder:
        decoder.show_progress(progress)
        for note in decoder.notes():
            report(note)
        decided = (decision for window in decoder.windows(item for _, item in lists) for decision in window)
        for (segment, _), decision in zip(lists, decided, strict=True):
            present = np.flatnonzero(~np.isnan(scores.gold[:, segment]))
            values[present, segment] = _values(decision, len(present))
        identity = str(decoder.signature())
    rates = issubclass(utility_class(recipe.utility), QualityUtility)
    name = f"{'rerank' if rates else 'MBR'} {word}"
    return Scores(name, values, kind="own", reference=SOURCE_ONLY, identity=identity)


def _lists(scores: ScoreSet, texts: Texts) -> Iterator[tuple[int, CandidateList]]:
    """Number and candidates of every segment that people scored."""
    for segment in np.flatnonzero((~np.isnan(scores.gold)).any(axis=0)).tolist():
        present = np.flatnonzero(~np.isnan(scores.gold[:, segment]))
        outputs = [texts.outputs[system][segment] for system in present.tolist()]
        yield segment, CandidateList.of(texts.sources[segment], outputs, id=segment + 1)


def _values(decision: Decision, size: int) -> Floats:
    """[candidates as they were listed]"""
    assert decision.candidates is not None
    scores = np.array(decision.scores, np.float64)
    if not np.isfinite(scores).all():
        places = {index: place for place, index in enumerate(decision.ranking)}
        scores = np.array([-float(places.get(index, len(scores))) for index in range(len(scores))])
    values = np.zeros(size)
    for index, positions in enumerate(decision.candidates.positions):
        values[list(positions)] = scores[index]
    return values
