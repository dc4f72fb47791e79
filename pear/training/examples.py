"""Judged translations -> rows of texts with targets: what each kind of model learns from.

| kind | texts | target |
| --- | --- | --- |
| pear | source, a, b | score of a minus score of b |
| single | source, candidate | score |
| resume | source, reference, candidate; and source, candidate, reference | score - 1; and 1 - score (0 to 1) |
| sentinel-cand, -src, -ref | nothing, and the candidate, the source or the reference | score |

A sentinel sees one text only, in the place of the candidate beside an empty source; otherwise it is the single model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import InputError
from pear.data import Group, sample_pairs
from pear.data.record import Words
from pear.training.recipe import Kind, Recipe


@dataclass(frozen=True, slots=True)
class Example:
    """One row: texts in the order of the network's spans, the target, and numbers for the words of each text."""

    texts: tuple[str, ...]
    target: float
    words: tuple[Words | None, ...] = ()


def examples(recipe: Recipe, groups: Sequence[Group], epoch: int) -> list[list[Example]]:
    """The examples of an epoch, in one list per number of texts. Pairs are drawn anew each epoch."""
    seed = recipe.seed + 1_000_003 * epoch
    if recipe.kind != "pear":
        return [list(_absolute(recipe.kind, groups))]
    pairs = sample_pairs(groups, per_source=recipe.pairs_per_source, seed=seed, references_as=recipe.references_as)
    lists = [[Example((p.source, p.a, p.b), p.difference, (None, p.words_a, p.words_b)) for p in pairs]]
    if recipe.absolute_share > 0:
        singles = list(_absolute("single", groups))
        wanted = min(len(singles), int(recipe.absolute_share * len(pairs)))
        draw = np.random.default_rng(seed)
        lists.append([singles[k] for k in draw.choice(len(singles), wanted, replace=False)])
    return [rows for rows in lists if rows]


def check_scores(kind: Kind, groups: Iterable[Group]) -> None:
    """Raises InputError unless the data suit the kind.

    RESUME takes scores from 0 to 1, where 1 is as good as the reference; it and one sentinel need references.
    """
    for group in groups:
        if kind in ("resume", "sentinel-ref") and group.reference is None:
            raise InputError(f"kind {kind} needs references; {group.source!r} has none")
        if kind == "resume":
            for candidate in group.candidates:
                if not 0 <= candidate.score <= 1:
                    raise InputError(
                        f"kind resume needs scores from 0 to 1, and found {candidate.score}; rescale them "
                        "(--score-range WORST BEST)"
                    )


def check_examples(recipe: Recipe, groups: Sequence[Group]) -> None:
    """Raises InputError where there is nothing to learn from, or the data lack what the recipe asks for."""
    check_scores(recipe.kind, groups)
    if not any(len(group.candidates) > (recipe.kind == "pear" and recipe.references_as is None) for group in groups):
        raise InputError("nothing to learn from: no source has two judged translations")
    if recipe.word_weight > 0 and not word_channels(groups):
        raise InputError("word_weight is set, but no judgment has numbers for its words")


def word_channels(groups: Iterable[Group]) -> int:
    """Numbers that come with each word; 0 where there are none."""
    counts = {len(item.words[0]) for group in groups for item in group.candidates if item.words}
    if len(counts) > 1:
        raise InputError(
            f"words come with {sorted(counts)} numbers in different files; expected the same number everywhere"
        )
    return counts.pop() if counts else 0


def _absolute(kind: Kind, groups: Iterable[Group]) -> Iterator[Example]:
    for group in groups:
        for item in group.candidates:
            if kind == "resume":
                reference = group.reference or ""
                yield Example((group.source, reference, item.translation), item.score - 1)
                yield Example((group.source, item.translation, reference), 1 - item.score)
            elif kind == "sentinel-src":
                yield Example(("", group.source), item.score)
            elif kind == "sentinel-ref":
                yield Example(("", group.reference or ""), item.score)
            else:
                source = "" if kind == "sentinel-cand" else group.source
                yield Example((source, item.translation), item.score, (None, item.words))


def inputs(kind: Kind, group: Group, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of texts with which a model of this kind scores translations of a group: singly, or all ordered pairs."""
    if kind == "pear":
        return [(group.source, a, b) for a in texts for b in texts]
    if kind == "resume":
        return [(group.source, group.reference or "", text) for text in texts]
    seen = {"sentinel-src": group.source, "sentinel-ref": group.reference or ""}.get(kind)
    source = group.source if kind == "single" else ""
    return [(source, text if seen is None else seen) for text in texts]


def as_prediction(kind: Kind, scores: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Scores of `inputs` as one prediction per translation [n], or the antisymmetric part of all pairs [n, n]."""
    if kind != "pear":
        return scores
    square = scores.reshape(count, count)
    return (square - square.T) / 2
