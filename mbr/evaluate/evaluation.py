"""Systems and judges in, one `Evaluation` out: scores with intervals and tests, and checks of the outputs.

Judges work one after another, each loaded when its turn comes and closed before the next, so that the largest one
alone decides how much memory is needed. A judge that fails leaves its reason in place of its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from candidates.common.errors import InputError, MbrError, ResourceError, UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate.checks import Checks, check_outputs
from mbr.evaluate.judges import WITHOUT_REFERENCES, Flags, Floats, Judge, JudgeSpec, parse_judges
from mbr.evaluate.judging import judged_rows
from mbr.evaluate.statistics import bootstrap_scores, compare, interval

LEVEL = 0.05
FEW_SEGMENTS = 30  # below, intervals and tests mean little


@dataclass(frozen=True)
class SystemScore:
    """A system's score by one judge. `difference` is to the baseline; None stands for what was not asked for."""

    score: float
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None
    # Its outputs were chosen by a utility of the judge's family, in one stage or another.
    same_family: bool = False

    @property
    def significant(self) -> bool:
        """p < .05 by randomisation, and by the bootstrap too if it was run; that one alone is too easily passed."""
        if self.p_randomisation is None or self.p_randomisation >= LEVEL:
            return False
        return self.p_bootstrap is None or self.p_bootstrap < LEVEL


@dataclass(frozen=True)
class JudgeResult:
    """What one judge says of all systems; or, with an `error`, why it says nothing."""

    label: str
    name: str
    family: str
    lower_is_better: bool
    identity: str = ""
    scores: Mapping[str, SystemScore] = field(default_factory=dict)
    segments: Mapping[str, Floats] = field(default_factory=dict)  # system -> scores [segments]
    truncated: Mapping[str, Flags] = field(default_factory=dict)  # system -> longer than the judge can take in
    error: Exception | None = None

    @property
    def digits(self) -> int:
        """How many to show: lexical scores go up to 100, most learned ones up to 1."""
        largest = max((abs(score.score) for score in self.scores.values()), default=0.0)
        return 2 if self.family == "lexical" or largest >= 2 else 4


@dataclass(frozen=True)
class Evaluation:
    systems: tuple[str, ...]
    segments: int
    baseline: str | None
    judges: tuple[JudgeResult, ...]
    checks: Mapping[str, Checks]
    draws: int
    trials: int
    seed: int
    chosen_by: Mapping[str, list[str]]  # system -> utility and first stage, where they are known

    def ranking(self) -> list[str]:
        """Systems by the first judge that did not fail, best first; ties as they were given."""
        for judge in self.judges:
            if judge.error is None:
                sign = 1 if judge.lower_is_better else -1
                return sorted(self.systems, key=lambda name: sign * judge.scores[name].score)
        return list(self.systems)

    def exit_code(self) -> int:
        """0, or that of the first judge that failed."""
        for judge in self.judges:
            if judge.error is not None:
                return exit_code_of(judge.error)
        return 0


def evaluate(
    systems: Mapping[str, Sequence[str]],
    judges: Sequence[str | JudgeSpec],
    *,
    sources: Sequence[str] | None = None,
    references: Sequence[Sequence[str]] | None = None,
    baseline: str | None = None,
    draws: int = 1000,
    trials: int = 10_000,
    seed: int = 1,
    chosen_by: Mapping[str, list[str]] | None = None,
    tokenize: str = "13a",
    options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    progress: bool = False,
    tell: Callable[[str], None] = lambda message: None,
    tell_failure: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Judge the outputs of systems, one output per segment.

    `references` holds sets of references, each parallel to the outputs. `chosen_by` names the utility that chose a
    system's outputs, and that of a first stage before it. `options` are those of neural metrics
    (`pear.runtime.options`). `tell` hears notes, `tell_failure` at once what is wrong with a judge.
    """
    given = [list(one) for one in references or []]
    named = iter(parse_judges([judge for judge in judges if isinstance(judge, str)]))
    specs = [next(named) if isinstance(judge, str) else judge for judge in judges]
    segments = _check(systems, specs, sources, given, baseline, draws, trials)
    for spec in specs:
        if len(given) > 1 and not spec.lexical and spec.texts(len(given)) == 3:
            tell(f"{spec.label or spec.name} takes one reference: the first of {len(given)} is used")
    results = []
    told = set()
    for spec in specs:
        blank = JudgeResult(spec.label or spec.name, spec.name, spec.family, spec.lower_is_better)
        try:
            with spec.open(references=len(given), tokenize=tokenize, options=options, cache=cache) as judge:
                scored = _judge_all(judge, systems, sources, given, cache, blank.label if progress else None)
                for note in judge.notes():
                    if note not in told:
                        tell(note)
                    told.add(note)
                results.append(
                    _result(blank, judge, scored, baseline, chosen_by or {}, draws=draws, trials=trials, seed=seed)
                )
        except Exception as exc:  # whatever it is, the other judges' work is not lost for it
            tell_failure(f"{blank.label} failed: {reason_of(exc)}")
            results.append(JudgeResult(**{**vars(blank), "error": exc}))
    return Evaluation(
        systems=tuple(systems),
        segments=segments,
        baseline=baseline,
        judges=tuple(results),
        checks={name: check_outputs(outputs, sources, given) for name, outputs in systems.items()},
        draws=draws,
        trials=trials,
        seed=seed,
        chosen_by=dict(chosen_by or {}),
    )


def reason_of(error: Exception) -> str:
    """An error in one line; a bug is told by its kind too."""
    if isinstance(error, MbrError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "out of memory; use smaller batches (--batch-tokens), a smaller model or a larger machine"
    return " ".join(f"{type(error).__name__}: {error}".split())


def exit_code_of(error: Exception) -> int:
    if isinstance(error, MbrError):
        return error.exit_code
    if isinstance(error, MemoryError):
        return ResourceError.exit_code
    return InputError.exit_code if isinstance(error, OSError) else 70


def same_family(utility: str, judge: JudgeSpec | JudgeResult) -> bool:
    """Whether a utility or term, by the name in a signature, is of the judge's family."""
    from mbr.terms import term_family

    try:
        return judge.family == term_family(utility)
    except MbrError:  # a plug-in that is broken, or a name of another version
        return utility == judge.name


def _judge_all(
    judge: Judge,
    systems: Mapping[str, Sequence[str]],
    sources: Sequence[str] | None,
    references: Sequence[Sequence[str]],
    cache: Cache | None,
    progress: str | None,
) -> dict[str, tuple[Floats, Flags]]:
    """Statistics [segments, k] and truncation [segments] of each system; all rows of all systems go together."""
    rows = [judge.rows(sources, outputs, references) for outputs in systems.values()]
    together = [row for segment in zip(*rows, strict=True) for row in segment]  # segment by segment
    judged = judged_rows(judge, together, cache, progress=progress)
    count = len(rows)
    return {
        name: (np.ascontiguousarray(judged.statistics[place::count]), judged.truncated[place::count])
        for place, name in enumerate(systems)
    }


def _result(
    blank: JudgeResult,
    judge: Judge,
    judged: Mapping[str, tuple[Floats, Flags]],
    baseline: str | None,
    chosen_by: Mapping[str, list[str]],
    *,
    draws: int,
    trials: int,
    seed: int,
) -> JudgeResult:
    statistics = {name: values for name, (values, _) in judged.items()}
    scores = {name: judge.system_score(values) for name, values in statistics.items()}
    resampled = bootstrap_scores(judge.scores, statistics, draws=draws, seed=seed) if draws else {}
    compared = {}
    if baseline is not None:
        compared = compare(judge.scores, statistics, scores, baseline, resampled, trials=trials, seed=seed)
    table = {}
    for name, score in scores.items():
        bounds = vars(interval(resampled[name])) if draws else {}
        against = vars(compared[name]) if compared else {}
        flattered = any(same_family(utility, blank) for utility in chosen_by.get(name, []))
        table[name] = SystemScore(score, **bounds, **against, same_family=flattered)
    return JudgeResult(
        **{
            **vars(blank),
            "identity": judge.identity,
            "scores": table,
            "segments": {name: judge.segment_scores(values) for name, values in statistics.items()},
            "truncated": {name: flags for name, (_, flags) in judged.items()},
        }
    )


def check_judges(judges: Sequence[JudgeSpec], *, sources: bool, references: bool) -> None:
    """Whether the judges have the texts they need, and names to tell them by."""
    if not judges:
        raise UsageError("there is no judge")
    labels = [judge.label or judge.name for judge in judges]
    if len(set(labels)) < len(labels):
        raise UsageError(f"two judges have the same label: {', '.join(labels)}")
    for judge in judges:
        if judge.needs_reference and not references:
            raise UsageError(
                f"{judge.name} needs references (--references FILE); judges that need none: {WITHOUT_REFERENCES}"
            )
        if judge.needs_source and not sources:
            raise UsageError(f"{judge.name} needs the sources (--sources FILE)")


def _check(
    systems: Mapping[str, Sequence[str]],
    judges: Sequence[JudgeSpec],
    sources: Sequence[str] | None,
    references: Sequence[Sequence[str]],
    baseline: str | None,
    draws: int,
    trials: int,
) -> int:
    """The number of segments; an error where the request makes no sense."""
    if not systems:
        raise UsageError("there is no system to judge")
    if draws < 0 or trials < 0:
        raise UsageError("the numbers of draws and trials must not be negative; 0 leaves them out")
    if baseline is not None and baseline not in systems:
        raise UsageError(f"the baseline {baseline!r} is not among the systems: {', '.join(systems)}")
    counts = {f"system {name!r}": len(outputs) for name, outputs in systems.items()}
    counts |= {"sources": len(sources)} if sources is not None else {}
    counts |= {f"reference set {number}": len(one) for number, one in enumerate(references, 1)}
    if len(set(counts.values())) > 1:
        raise InputError(f"the numbers of segments differ: {', '.join(f'{key} {n}' for key, n in counts.items())}")
    check_judges(judges, sources=sources is not None, references=bool(references))
    segments = next(iter(counts.values()))
    if not segments:
        raise InputError("there is no segment to judge: the files are empty")
    return segments
