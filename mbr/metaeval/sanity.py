"""Sanity rows beside every table: scores without knowledge of translation, above which every real metric should be.

`constant` is always 0 (its acc_eq* is the share of ties), `random` is noise, `length` counts the characters of a
translation, `source-only` those of the source, the same for all translations of a segment. Where such a row does well,
the test set is too easy: on WMT23 en-de three systems drop text, and length alone has a PDP of .409; without them it
has -.090.
"""

from __future__ import annotations

import numpy as np

from mbr.metaeval.values import Floats, Scores, ScoreSet, Texts


def sanity_rows(scores: ScoreSet, seed: int = 1) -> list[Scores]:
    """The sanity rows of a score set; `length` and `source-only` only where it has texts."""
    shape = scores.gold.shape
    rows = [
        Scores("constant", np.zeros(shape), kind="sanity"),
        Scores("random", np.random.default_rng(seed).normal(size=shape), kind="sanity"),
    ]
    if scores.texts is not None:
        sources = np.array([float(len(text)) for text in scores.texts.sources])
        rows.append(Scores("length", lengths(scores.texts), kind="sanity"))
        rows.append(Scores("source-only", np.tile(sources, (shape[0], 1)), kind="sanity"))
    return rows


def lengths(texts: Texts) -> Floats:
    """[systems, segments]: the number of characters of every output."""
    return np.array([[float(len(text)) for text in outputs] for outputs in texts.outputs])
