"""A comparison in sentences: the best setting, whether that may be chance, costs, and how much is left to gain."""

from __future__ import annotations

from itertools import combinations

from mbr.compare.comparison import Comparison, Row
from mbr.evaluate import JudgeResult, SystemScore
from mbr.evaluate.evaluation import FEW_SEGMENTS, reason_of
from mbr.utilities import MatrixUtility, utility_class

MOST_NAMED = 5  # segments named in one sentence


def summary(done: Comparison) -> list[str]:
    """Sentences, the most important first."""
    settings = [row for row in done.rows if row.kind in ("setting", "quality") and row.error is None]
    judges = [judge for judge in done.evaluation.judges if judge.error is None]
    sentences = [_verdict(done, settings, judges)] if settings and judges else []
    if not done.evaluation.judges:
        sentences += _without_judges(done, settings)
    elif len(done.lists) < FEW_SEGMENTS:
        sentences.append(f"Only {_segments(len(done.lists))}: intervals and tests mean little.")
    sentences += [_best(done, settings, judge) for judge in judges if settings]
    if done.wanted_baseline is not None:
        sentences.append(f"{done.wanted_baseline} failed, so all rows are compared with {done.baseline} instead.")
    sentences += _costs(settings)
    sentences += _same_utility(done, settings)
    sentences += _left_to_gain(done, settings, judges)
    return sentences + _failures(done)


def _without_judges(done: Comparison, settings: list[Row]) -> list[str]:
    sentences = [
        "No judge scored the choices, so agreement and costs are compared, not quality; for that give references "
        "(--references FILE), or a judge that needs none (--judge cometkiwi=MODEL)."
    ]
    for row in settings:
        if row.label != done.baseline:
            same = 100 * same_as_baseline(done, row.label)
            sentences.append(f"{row.label} makes the same choice as {done.baseline} in {same:.0f} % of the segments.")
    return sentences


def same_as_baseline(done: Comparison, label: str) -> float:
    """The share of segments in which a row that did not fail makes the choice of the baseline."""
    names = done.agreement.rows
    return float(done.agreement.same[names.index(label), names.index(done.baseline)])


def _verdict(done: Comparison, settings: list[Row], judges: list[JudgeResult]) -> str:
    """Settings that differ from the baseline, by judges that are not of the family of either."""
    better, worse = {}, {}
    for row in settings:
        if row.label == done.baseline:
            continue
        independent = [
            judge
            for judge in judges
            if not (judge.scores[row.label].same_family or judge.scores[done.baseline].same_family)
        ]
        significant = [judge for judge in independent if judge.scores[row.label].significant]
        gains = {judge.label: gain(judge, judge.scores[row.label]) for judge in significant}
        if won := [name for name, value in gains.items() if value > 0]:
            better[row.label] = (won, len(independent))
        if lost := [name for name, value in gains.items() if value < 0]:
            worse[row.label] = lost
    if not done.evaluation.trials:
        return f"Differences from {done.baseline} were not tested (no trials)."
    if not better:
        verdict = f"No setting beats {done.baseline} beyond chance by a judge of another family."
    else:
        named = [f"{label} ({len(won)} of {count}: {', '.join(won)})" for label, (won, count) in better.items()]
        verdict = f"Better than {done.baseline} beyond chance, by judges of other families: {'; '.join(named)}."
    if worse:
        named = [f"{label} ({', '.join(lost)})" for label, lost in worse.items()]
        verdict += f" Worse beyond chance: {'; '.join(named)}."
    return verdict


def _best(done: Comparison, settings: list[Row], judge: JudgeResult) -> str:
    sign = -1 if judge.lower_is_better else 1
    ordered = sorted(settings, key=lambda row: -sign * judge.scores[row.label].score)
    best = ordered[0]
    score = judge.scores[best.label]
    if best.label == done.baseline:
        sentence = f"By {judge.label}, {best.label} is the best setting: {_shown(judge, score)}"
    elif round(gain(judge, score), judge.digits) > 0:
        sentence = f"By {judge.label}, {best.label} is the best setting: {_shown(judge, score)}, "
        sentence += difference(done, judge, score)
    else:
        sentence = f"By {judge.label}, no setting improves on {done.baseline}; the best, {best.label}, is "
        sentence += f"{difference(done, judge, score)}: {_shown(judge, score)}"
    if score.same_family:
        sentence += "; this judge is of the family of the utility and overrates its choices"
        others = [row for row in ordered if not judge.scores[row.label].same_family]
        if others:
            other = judge.scores[others[0].label]
            sentence += f"; of the other settings {others[0].label} is the best ({_shown(judge, other)}"
            sentence += ")" if others[0].label == done.baseline else f", {difference(done, judge, other)})"
    return sentence + "."


def _shown(judge: JudgeResult, score: SystemScore) -> str:
    digits = judge.digits
    if score.low is None or score.high is None:
        return f"{score.score:.{digits}f}"
    return f"{score.score:.{digits}f} [{score.low:.{digits}f}, {score.high:.{digits}f}]"


def gain(judge: JudgeResult, score: SystemScore) -> float:
    """The improvement over the baseline: positive is better, also where a lower score is."""
    return (score.difference or 0.0) * (-1 if judge.lower_is_better else 1)


def difference(done: Comparison, judge: JudgeResult, score: SystemScore) -> str:
    """The improvement or loss against the baseline in words, with the p-value of the randomisation test."""
    value = gain(judge, score)
    if round(value, judge.digits) == 0:
        return f"equal to {done.baseline}"
    words = f"{abs(value):.{judge.digits}f} {'better' if value > 0 else 'worse'} than {done.baseline}"
    if score.p_randomisation is None:
        return words
    chance = "beyond chance" if score.significant else "which may be chance"
    return f"{words}, {chance} (p = {score.p_randomisation:.2g})"


def _costs(settings: list[Row]) -> list[str]:
    complete = (row for row in settings if row.seconds and not row.fallbacks)
    ordered = sorted(complete, key=lambda row: row.seconds or 0.0)
    if len(ordered) < 2:
        return []
    cheapest, costliest = ordered[0], ordered[-1]
    assert cheapest.seconds is not None
    assert costliest.seconds is not None
    return [
        f"{cheapest.label} is the cheapest ({duration(cheapest.seconds)}), {costliest.label} the most expensive "
        f"({duration(costliest.seconds)}, {_times(costliest.seconds / cheapest.seconds)} as much)."
    ]


def _same_utility(done: Comparison, settings: list[Row]) -> list[str]:
    """Of two strategies with the same utility: how many passes the cheaper saves, and how often it chooses the same."""
    sentences = []
    names = done.agreement.rows
    for pair in combinations(settings, 2):
        cheap, costly = sorted(pair, key=lambda row: row.passes or 0)
        if _model(cheap) != _model(costly) or not cheap.passes or not costly.passes or cheap.passes == costly.passes:
            continue
        if issubclass(utility_class(cheap.chosen_by[0]), MatrixUtility):  # fewer pairs save nothing
            continue
        same = done.agreement.same[names.index(cheap.label), names.index(costly.label)]
        sentences.append(
            f"{cheap.label} makes the same choice as {costly.label} in {100 * same:.0f} % of the segments, with "
            f"{_times(costly.passes / cheap.passes)} fewer passes."
        )
    return sentences


def _model(row: Row) -> object:
    assert row.decided is not None
    recipe = row.decided.setting.recipe
    return recipe.utility, recipe.options, recipe.terms, recipe.prefilter, recipe.weights


def _left_to_gain(done: Comparison, settings: list[Row], judges: list[JudgeResult]) -> list[str]:
    oracle = next((row for row in done.rows if row.kind == "oracle" and row.error is None), None)
    judge = next((judge for judge in judges if oracle is not None and judge.name in oracle.chosen_by), None)
    if oracle is None or judge is None or not settings:
        return []
    sign = -1 if judge.lower_is_better else 1
    best = max(sign * judge.scores[row.label].score for row in settings)
    gap = sign * judge.scores[oracle.label].score - best
    reached = (
        f"The best candidates by the references reach {_shown(judge, judge.scores[oracle.label])} by {judge.label}: "
    )
    if round(gap, judge.digits) <= 0:
        return [reached + "no better than the best setting, so these lists leave nothing to gain."]
    return [reached + f"{gap:.{judge.digits}f} better than the best setting, which is what these lists leave to gain."]


def _failures(done: Comparison) -> list[str]:
    sentences = []
    for row in done.rows:
        if row.error is not None:
            sentences.append(f"{row.label} failed: {reason_of(row.error)}.")
        elif row.fallbacks:
            reason = next(iter(row.fallbacks.values()))
            failed = _segments(len(row.fallbacks))
            sentences.append(f"{row.label}: the first candidate stands in for {failed} ({reason}).")
    for judge in done.evaluation.judges:
        if judge.error is not None:
            sentences.append(f"The judge {judge.label} failed: {reason_of(judge.error)}.")
    if done.left_out:
        ids = [str(segment.id) for segment in done.left_out[:MOST_NAMED]]
        ids += ["..."] if len(done.left_out) > MOST_NAMED else []
        count, reason = _segments(len(done.left_out)), done.left_out[0].reason
        sentences.append(f"Left out for all rows: {count} ({', '.join(ids)}): {reason}.")
    return sentences


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def _segments(number: int) -> str:
    return f"{number} segment{'' if number == 1 else 's'}"
