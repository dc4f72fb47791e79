"""Scores by a judge or utility of this package, under its name.

A judge (`chrf`, `xcomet=FOLDER`, see mbr-evaluate --list-judges) scores every output, against the reference if it needs
one. A utility whose scores are differences (`pear`) is a pairwise metric: every pair of outputs of a segment that
people annotated is scored in both orders, and on request every output against the reference. Other utilities score
outputs as a judge does. RESUME is added to any of them (`mbr.evaluate.residual`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from candidates.common.errors import MbrError, ModelError, UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate import JudgeSpec, evaluate, judge_names, parse_judges
from mbr.evaluate.residual import NAME as RESUME_METRIC
from mbr.evaluate.residual import Residual, split_residual
from mbr.metaeval.values import SOURCE_ONLY, Floats, Scores, ScoreSet, Texts
from mbr.utilities import (
    MatrixUtility,
    PairUtility,
    QualityUtility,
    Utility,
    get_utility,
    utility_class,
    utility_names,
)
from mbr.utilities import utility_options as options_of
from mbr.utilities.base import Triple


def check_names(words: Sequence[str]) -> None:
    """Refuse an unknown name before anything is read."""
    for word in words:
        name = _name_of(split_residual(word)[0])
        if name not in judge_names() and name not in utility_names():
            choices = dict.fromkeys([*judge_names(), *utility_names()])
            raise UsageError(f"{name!r} is no judge or utility; expected one of {', '.join(choices)}")


def score_by_name(
    word: str,
    scores: ScoreSet,
    *,
    anchored: bool = False,
    options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    progress: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Scores:
    """The scores of `NAME` or `NAME=MODEL` for the outputs of a score set, with RESUME added where the word names it.

    Args:
        word: a judge or utility, with a model after `=`; maybe with `+resume-metric=WEIGHT,model=MODEL`.
        scores: with texts.
        anchored: whether a pairwise metric also compares each output with the reference.
        options: those of models; a utility gets the ones it takes.
        cache: judgements of earlier runs, for judges.
        progress: whether to show a bar on stderr.
        report: receives notes, such as licences.
    """
    if scores.texts is None:
        raise UsageError("scoring needs the systems' outputs; there are none beside these scores")
    base, residual = split_residual(word)
    name = _name_of(base)
    if residual is not None:
        running: dict[str, Any] = {"options": options, "cache": cache, "progress": progress, "report": report}
        return with_resume(
            score_by_name(base, scores, anchored=anchored, **running),
            resume_scores(residual, scores, **running),
            residual,
            family_of(base),
        )
    if name in judge_names() and not JudgeSpec(name).needs_baseline:
        (judge,) = parse_judges([word])
        return _judged(judge, scores, scores.texts, options=options, cache=cache, progress=progress, report=report)
    model = word.partition("=")[2]
    accepted = {key: value for key, value in (options or {}).items() if key in options_of(name)}
    with get_utility(name, **accepted, **({"model": model} if model else {})) as utility:
        utility.progress = progress
        for note in utility.notes():
            report(note)
        if isinstance(utility, PairUtility) and utility.relation == "antisymmetric":
            return _pairwise(name, utility, scores, scores.texts, anchored)
        return Scores(
            name,
            _singly(utility, scores.texts),
            kind="own",
            reference=_compared(utility, scores),
            identity=_identity(utility),
        )


def resume_scores(residual: Residual, scores: ScoreSet, *, options: Mapping[str, Any] | None, **running: Any) -> Scores:
    """The scores of RESUME alone."""
    if scores.texts is None:
        raise UsageError("scoring needs the systems' outputs; there are none beside these scores")
    judge = JudgeSpec(RESUME_METRIC, residual.model, RESUME_METRIC)
    return _judged(judge, scores, scores.texts, options={**(options or {}), **residual.options}, **running)


def with_resume(base: Scores, added: Scores, residual: Residual, family: str) -> Scores:
    """The scores of a metric of this family plus weight * RESUME; with weight 0 exactly those of the metric."""
    factor = residual.factor(family)
    assert added.segments is not None
    differences, to_reference = base.differences, base.to_reference
    if differences is not None:
        differences = differences + factor * (added.segments[:, None] - added.segments[None])
    return replace(
        base,
        name=base.name + residual.suffix,
        segments=None if base.segments is None else base.segments + factor * added.segments,
        systems=None if base.systems is None else base.systems + factor * added.system_scores(),
        differences=differences,
        to_reference=None if to_reference is None else to_reference + factor * added.segments,
        reference=added.reference if base.reference in (None, SOURCE_ONLY) else base.reference,
        identity=f"{base.identity}|{factor:+g}|{added.identity}",
    )


def family_of(word: str) -> str:
    """The family of a judge or utility by name, which determines its scale."""
    name = _name_of(word)
    return JudgeSpec(name).family if name in judge_names() else utility_class(name).family


def _name_of(word: str) -> str:
    return re.split("[=,]", word, maxsplit=1)[0].strip().lower()


def _judged(
    judge: JudgeSpec,
    scores: ScoreSet,
    texts: Texts,
    *,
    options: Mapping[str, Any] | None,
    cache: Cache | None,
    progress: bool,
    report: Callable[[str], None],
) -> Scores:
    evaluation = evaluate(
        dict(zip(scores.systems, texts.outputs, strict=True)),
        [judge],
        sources=texts.sources,
        references=None if texts.reference is None else [texts.reference],
        draws=0,
        trials=0,
        options=options,
        cache=cache,
        progress=progress,
        report=report,
    )
    (result,) = evaluation.judges
    if result.error is not None:
        if isinstance(result.error, (MbrError, MemoryError, OSError)):
            raise result.error
        raise ModelError(f"{result.label} failed: {result.error}") from result.error
    sign = -1.0 if result.lower_is_better else 1.0
    return Scores(
        result.label,
        sign * np.array([result.segments[name] for name in scores.systems]),
        sign * np.array([result.scores[name].score for name in scores.systems]),
        kind="own",
        reference=scores.reference if texts.reference is not None and judge.uses_reference else SOURCE_ONLY,
        identity=result.identity,
    )


def _pairwise(name: str, utility: PairUtility, scores: ScoreSet, texts: Texts, with_reference: bool) -> Scores:
    systems, segments = scores.gold.shape
    annotated = ~np.isnan(scores.gold)
    cells: list[tuple[int, int, int]] = []
    triples: list[Triple] = []
    anchored: list[tuple[int, int]] = []
    against: list[Triple] = []
    for segment in range(segments):
        present = np.flatnonzero(annotated[:, segment]).tolist()
        source = texts.sources[segment]
        for i in present:
            for j in present:
                if i != j:
                    cells.append((i, j, segment))
                    triples.append((source, texts.outputs[i][segment], texts.outputs[j][segment]))
            if with_reference and texts.reference is not None:
                pair = (texts.outputs[i][segment], texts.reference[segment])
                anchored.append((i, segment))
                against += [(source, *pair), (source, pair[1], pair[0])]
    values = utility.score_pairs([*triples, *against]).astype(np.float64)
    if missing := np.flatnonzero(~np.isfinite(values)).tolist():
        reason = utility.why_missing([*triples, *against][missing[0]])
        raise ModelError(f"{name}: {reason or 'a score is not a number; try --dtype float32'}")
    differences = np.full((systems, systems, segments), np.nan)
    if cells:
        differences[tuple(np.array(cells).T)] = values[: len(cells)]
    to_reference: Floats | None = None
    if anchored:
        to_reference = np.full((systems, segments), np.nan)
        both = values[len(cells) :].reshape(-1, 2)
        to_reference[tuple(np.array(anchored).T)] = (both[:, 0] - both[:, 1]) / 2
    pairwise = Scores.pairwise(name, differences, to_reference)
    return replace(pairwise, reference=SOURCE_ONLY, identity=_identity(utility))


def metric_by_name(
    word: str,
    *,
    options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    progress: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Callable[[Sequence[str], Sequence[str], Sequence[str]], Floats]:
    """A judge or utility as a function of (sources, references, candidates), for texts outside a test set."""

    def metric(sources: Sequence[str], references: Sequence[str], candidates: Sequence[str]) -> Floats:
        human = Scores("", np.zeros((1, len(sources))))
        texts = Texts(sources, [candidates], references)
        items = ScoreSet("", "", human, ("candidates",), tuple(map(str, range(len(sources)))), texts=texts)
        scores = score_by_name(
            word, items, anchored=True, options=options, cache=cache, progress=progress, report=report
        )
        if scores.to_reference is not None:
            return np.asarray(scores.to_reference[0])
        assert scores.segments is not None
        return np.asarray(scores.segments[0])

    return metric


def _singly(utility: Utility, texts: Texts) -> Floats:
    """[systems, segments]"""
    if isinstance(utility, QualityUtility):
        rows = [(s, text) for outputs in texts.outputs for s, text in zip(texts.sources, outputs, strict=True)]
        return utility.score_each(rows).astype(np.float64).reshape(len(texts.outputs), -1)
    if texts.reference is None:
        raise UsageError(f"{utility.name} needs references, and there are none; give scores with a reference")
    if isinstance(utility, PairUtility):
        triples = [
            (source, text, reference)
            for outputs in texts.outputs
            for source, text, reference in zip(texts.sources, outputs, texts.reference, strict=True)
        ]
        return utility.score_pairs(triples).astype(np.float64).reshape(len(texts.outputs), -1)
    assert isinstance(utility, MatrixUtility)
    columns = []
    for index, (source, reference) in enumerate(zip(texts.sources, texts.reference, strict=True)):
        columns.append(utility.matrix(source, [outputs[index] for outputs in texts.outputs], [reference])[:, 0])
    return np.array(columns, np.float64).T


def _compared(utility: Utility, scores: ScoreSet) -> str | None:
    return SOURCE_ONLY if isinstance(utility, QualityUtility) else scores.reference


def _identity(utility: Utility) -> str:
    return "|".join([utility.name, *(f"{key}:{value}" for key, value in utility.settings().items())])
