"""A comparison in plain words: what is best, is it luck, what does it cost, how much is left to gain."""

from __future__ import annotations

from itertools import combinations

from mbr.compare.comparison import Comparison, Row
from mbr.evaluate import JudgeResult, SystemScore
from mbr.evaluate.evaluation import FEW_SEGMENTS, reason_of
from mbr.utilities import MatrixUtility, utility_class


def summary(done: Comparison) -> list[str]:
    """Sentences, the most important first."""
    settings = [row for row in done.rows if row.kind in ("setting", "quality") and row.error is None]
    judges = [judge for judge in done.evaluation.judges if judge.error is None]
    said = [_verdict(done, settings, judges)] if settings and judges else []
    if len(done.lists) < FEW_SEGMENTS:
        said.append(f"Only {_segments(len(done.lists))}: intervals and tests mean little.")
    said += [_best(done, settings, judge) for judge in judges if settings]
    if done.wanted_baseline is not None:
        said.append(f"{done.wanted_baseline} failed, so all are compared with {done.baseline} instead.")
    said += _costs(settings)
    said += _same_utility(done, settings)
    said += _left_to_gain(done, settings, judges)
    for row in done.rows:
        if row.error is not None:
            said.append(f"{row.label} failed: {reason_of(row.error)}.")
        elif row.fallbacks:
            first = next(iter(row.fallbacks.values()))
            said.append(f"{row.label}: the first candidate stands in for {_segments(len(row.fallbacks))} ({first}).")
    said += [
        f"The judge {j.label} failed: {reason_of(j.error)}." for j in done.evaluation.judges if j.error is not None
    ]
    if done.left_out:
        named = ", ".join(str(one.id) for one in done.left_out[:5]) + (", ..." if len(done.left_out) > 5 else "")
        said.append(f"Left out for all rows: {_segments(len(done.left_out))} ({named}): {done.left_out[0].reason}.")
    return said


def _verdict(done: Comparison, settings: list[Row], judges: list[JudgeResult]) -> str:
    """Who is better than the baseline by judges that are not of its own family."""
    better, worse = {}, {}
    for row in settings:
        if row.label == done.baseline:
            continue
        independent = [
            judge
            for judge in judges
            if not (judge.scores[row.label].same_family or judge.scores[done.baseline].same_family)
        ]
        signs = {judge.label: _gain(judge, judge.scores[row.label]) for judge in independent}
        sure = {judge.label for judge in independent if judge.scores[row.label].significant}
        if won := [name for name, gain in signs.items() if gain > 0 and name in sure]:
            better[row.label] = (won, len(independent))
        if lost := [name for name, gain in signs.items() if gain < 0 and name in sure]:
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
    sentence = f"By {judge.label}, {best.label} is the best setting: {_shown(judge, score)}"
    if best.label != done.baseline:
        sentence += f", {_against(done, judge, score)}"
    if score.same_family:
        sentence += "; but that judge is of the family of its utility and flatters it"
        others = [row for row in ordered if not judge.scores[row.label].same_family]
        if others:
            other = judge.scores[others[0].label]
            sentence += f"; of the others {others[0].label} is the best ({_shown(judge, other)})"
    return sentence + "."


def _shown(judge: JudgeResult, score: SystemScore) -> str:
    digits = judge.digits
    if score.low is None or score.high is None:
        return f"{score.score:.{digits}f}"
    return f"{score.score:.{digits}f} [{score.low:.{digits}f}, {score.high:.{digits}f}]"


def _against(done: Comparison, judge: JudgeResult, score: SystemScore) -> str:
    base = judge.scores[done.baseline].score
    words = f"{score.score - base:+.{judge.digits}f} against {done.baseline}"
    if score.p_randomisation is None:
        return words
    return (
        f"{words}, {'beyond chance' if score.significant else 'which may be chance'} (p = {score.p_randomisation:.2g})"
    )


def _gain(judge: JudgeResult, score: SystemScore) -> float:
    return (score.difference or 0.0) * (-1 if judge.lower_is_better else 1)


def _costs(settings: list[Row]) -> list[str]:
    whole = (row for row in settings if row.seconds and not row.fallbacks)
    known = sorted(whole, key=lambda row: row.seconds or 0.0)
    if len(known) < 2:
        return []
    cheap, dear = known[0], known[-1]
    assert cheap.seconds is not None
    assert dear.seconds is not None
    return [
        f"{cheap.label} is the cheapest ({duration(cheap.seconds)}), {dear.label} the dearest "
        f"({duration(dear.seconds)}, {_times(dear.seconds / cheap.seconds)} as much)."
    ]


def _same_utility(done: Comparison, settings: list[Row]) -> list[str]:
    """What the cheaper of two strategies of one utility saves, and how often it chooses the same."""
    said = []
    names = done.agreement.rows
    for one, other in combinations(settings, 2):
        if _model(one) != _model(other) or not one.passes or not other.passes or one.passes == other.passes:
            continue
        if issubclass(utility_class(one.chosen_by[0]), MatrixUtility):  # fewer pairs save nothing
            continue
        cheap, dear = sorted((one, other), key=lambda row: row.passes or 0)
        same = done.agreement.same[names.index(cheap.label), names.index(dear.label)]
        said.append(
            f"{cheap.label} makes the choice of {dear.label} in {100 * same:.0f} % of the segments, with "
            f"{_times((dear.passes or 0) / (cheap.passes or 1))} fewer passes."
        )
    return said


def _model(row: Row) -> object:
    assert row.decided is not None
    recipe = row.decided.setting.recipe
    return recipe.utility, recipe.options, recipe.terms, recipe.prefilter, recipe.weights


def _left_to_gain(done: Comparison, settings: list[Row], judges: list[JudgeResult]) -> list[str]:
    oracle = next((row for row in done.rows if row.kind == "oracle" and row.error is None), None)
    by = next((judge for judge in judges if oracle is not None and judge.name in oracle.chosen_by), None)
    if oracle is None or by is None or not settings:
        return []
    sign = -1 if by.lower_is_better else 1
    best = max(sign * by.scores[row.label].score for row in settings)
    gap = sign * by.scores[oracle.label].score - best
    return [
        f"The best candidates there are reach {_shown(by, by.scores[oracle.label])} by {by.label}, "
        f"{gap:.{by.digits}f} better than the best setting: so much these lists still hold."
    ]


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def _segments(number: int) -> str:
    return f"{number} segment{'' if number == 1 else 's'}"
