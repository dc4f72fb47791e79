"""Systems and judges in, one `Evaluation` out: scores with intervals and tests, and checks of the outputs.

Judges work one after another, each loaded when its turn comes and closed before the next, so that the largest one
alone decides how much memory is needed. A judge that fails leaves an error in place of its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from candidates.common.errors import OUT_OF_MEMORY, InputError, MbrError, ResourceError, UsageError
from mbr.cache.judgements import Cache
from mbr.evaluate.base import Flags, Floats, Judge
from mbr.evaluate.checks import Checks, check_outputs
from mbr.evaluate.judges import WITHOUT_REFERENCES, JudgeSpec, judge_specs
from mbr.evaluate.judging import judged_rows
from mbr.evaluate.neural import NeuralJudge
from mbr.evaluate.statistics import bootstrap_scores, compare, interval
from mbr.metrics.xcomet import Span

LEVEL = 0.05
FEW_SEGMENTS = 30  # below, intervals and tests mean little


@dataclass(frozen=True)
class SystemScore:
    """A system's score by one judge. `difference` is system minus baseline; what was not requested is None."""

    score: float
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None
    same_family: bool = False  # the outputs were chosen by a utility of the judge's family, in any stage

    @property
    def significant(self) -> bool:
        """p < .05 by randomisation, and by the bootstrap too if it was run; the bootstrap alone is too lenient."""
        if self.p_randomisation is None or self.p_randomisation >= LEVEL:
            return False
        return self.p_bootstrap is None or self.p_bootstrap < LEVEL

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "significant": self.significant}


@dataclass(frozen=True)
class JudgeResult:
    """The scores of all systems by one judge; or, where it failed, the `error`."""

    label: str
    name: str
    family: str
    lower_is_better: bool
    # Of a pairwise judge: what scores are differences to, the baseline by name or "the reference".
    better_than: str | None = None
    identity: str = ""
    scores: Mapping[str, SystemScore] = field(default_factory=dict)
    segments: Mapping[str, Floats] = field(default_factory=dict)  # system -> scores [segments]
    truncated: Mapping[str, Flags] = field(default_factory=dict)  # system -> longer than the judge's input [segments]
    # system -> errors of each segment's output, where they were asked for and the judge finds them
    spans: Mapping[str, Sequence[Sequence[Span]]] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def digits(self) -> int:
        """Decimals to print: lexical scores go up to 100, most learned ones up to 1."""
        largest = max((abs(score.score) for score in self.scores.values()), default=0.0)
        return 2 if self.family == "lexical" or largest >= 2 else 4

    def description(self) -> dict[str, Any]:
        """For JSON: the judge without its scores."""
        return {
            "name": self.label,
            "identity": self.identity,
            "family": self.family,
            "lower_is_better": self.lower_is_better,
            "better_than": self.better_than,
            "error": None if self.error is None else reason_of(self.error),
        }

    def record(self) -> dict[str, Any]:
        """For JSON: the judge with the score of every system."""
        return {**self.description(), "scores": {name: score.record() for name, score in self.scores.items()}}


@dataclass(frozen=True)
class Evaluation:
    """Systems, judges' results, checks of the outputs, and the settings of intervals and tests."""

    systems: tuple[str, ...]
    segments: int
    baseline: str | None
    judges: tuple[JudgeResult, ...]
    checks: Mapping[str, Checks]
    draws: int
    trials: int
    seed: int
    chosen_by: Mapping[str, list[str]]  # system -> utility and that of a first stage, where they are on record

    def ranking(self) -> list[str]:
        """Systems by the first judge that did not fail, best first; ties in the order of `systems`."""
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

    def record(self) -> dict[str, Any]:
        """For JSON: everything but the scores of segments."""
        return {
            "systems": list(self.systems),
            "segments": self.segments,
            "baseline": self.baseline,
            "bootstrap": self.draws,
            "trials": self.trials,
            "seed": self.seed,
            "judges": [judge.record() for judge in self.judges],
            "checks": {
                name: {
                    **checks.record(),
                    "truncated": {
                        judge.label: [int(index) + 1 for index in judge.truncated[name].nonzero()[0]]
                        for judge in self.judges
                        if judge.error is None
                    },
                }
                for name, checks in self.checks.items()
            },
            "chosen_by": dict(self.chosen_by),
        }

    def segment_records(self) -> Iterator[dict[str, Any]]:
        """For JSON lines: one record per segment and system with all scores and flags."""
        judges = [judge for judge in self.judges if judge.error is None]
        for index in range(self.segments):
            for name in self.systems:
                yield {
                    "segment": index + 1,
                    "system": name,
                    "scores": {judge.label: float(judge.segments[name][index]) for judge in judges},
                    "flags": [
                        *self.checks[name].flags[index],
                        *(f"truncated:{judge.label}" for judge in judges if judge.truncated[name][index]),
                    ],
                }


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
    spans: bool = False,
    cache: Cache | None = None,
    progress: bool = False,
    report: Callable[[str], None] = lambda message: None,
    warn: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Judge the outputs of systems (by name), one output per segment.

    Args:
        judges: names such as `chrf` and `xcomet=FOLDER`, or parsed ones; without any, outputs are checked only.
        references: sets of references, each parallel to the outputs.
        baseline: the system that the others are tested against, and that the judge `pear` compares them with.
        draws: bootstrap resamples; 0 for no intervals.
        trials: of the randomisation test; 0 for none.
        chosen_by: by system, the utility that chose its outputs, and that of a first stage before it.
        tokenize: sacrebleu's tokenizer for BLEU.
        options: those of neural metrics (`pear.runtime.options`).
        spans: also return the errors that judges find (XCOMET).
        cache: judgements of earlier runs.
        report: receives notes, such as licences.
        warn: receives the reason at once when a judge fails.

    Raises:
        UsageError, InputError: judges lack the texts they need, the baseline is no system, or lengths differ.
    """
    golden = [list(texts) for texts in references or []]
    task = _Task(systems, sources, golden, baseline, dict(chosen_by or {}), draws, trials, seed, spans)
    specs = judge_specs(judges)
    segments = _check(task, specs)
    results = _judge_all(task, specs, options, tokenize, cache, progress, report, warn)
    return Evaluation(
        systems=tuple(systems),
        segments=segments,
        baseline=baseline,
        judges=tuple(results),
        checks={name: check_outputs(outputs, sources, task.references) for name, outputs in systems.items()},
        draws=draws,
        trials=trials,
        seed=seed,
        chosen_by=task.chosen_by,
    )


@dataclass(frozen=True)
class _Task:
    """The texts and the settings of tests, the same for all judges."""

    systems: Mapping[str, Sequence[str]]
    sources: Sequence[str] | None
    references: Sequence[Sequence[str]]
    baseline: str | None
    chosen_by: Mapping[str, list[str]]
    draws: int
    trials: int
    seed: int
    spans: bool


def reason_of(error: Exception) -> str:
    """An error in one line; of a bug, with its type."""
    if isinstance(error, MbrError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
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
        return term_family(utility) in judge.family.split("+")
    except MbrError:  # a broken plug-in, or a name of another version
        return utility == judge.name


def _judge_all(
    task: _Task,
    specs: Sequence[JudgeSpec],
    options: Mapping[str, Any] | None,
    tokenize: str,
    cache: Cache | None,
    progress: bool,
    report: Callable[[str], None],
    warn: Callable[[str], None],
) -> list[JudgeResult]:
    """One judge after another, each closed before the next is loaded."""
    references = len(task.references)
    for spec in specs:
        if references > 1 and spec.takes_one_reference:
            which = "RESUME in " if spec.residual else ""
            report(f"{which}{spec.label or spec.title} takes one reference: the first of {references} is used")
    results = []
    reported = set()
    for spec in specs:
        than = {"baseline": task.baseline, "reference": "the reference"}.get(spec.compares_with or "")
        blank = JudgeResult(spec.label or spec.title, spec.title, spec.family, spec.lower_is_better, than)
        try:
            chosen = spec.for_texts(zip(task.sources or (), zip(*task.systems.values(), strict=True), strict=False))
            how: dict[str, Any] = {"tokenize": tokenize, "options": options, "cache": cache, "spans": task.spans}
            with chosen.open(references=references, **how) as judge:
                anchors = [task.systems[str(task.baseline)]] if spec.needs_baseline else task.references
                judged = _statistics(task, judge, anchors, cache, blank.label if progress else None)
                for note in judge.notes():
                    if note not in reported:
                        report(note)
                    reported.add(note)
                results.append(_result(task, blank, judge, judged))
        except Exception as exc:  # of any kind: the other judges' results are kept
            warn(f"{blank.label} failed: {reason_of(exc)}")
            results.append(JudgeResult(**{**vars(blank), "error": exc}))
    return results


def _statistics(
    task: _Task, judge: Judge, references: Sequence[Sequence[str]], cache: Cache | None, progress: str | None
) -> dict[str, tuple[Floats, Flags]]:
    """Statistics [segments, k] and truncation [segments] of each system."""
    rows = [judge.rows(task.sources, outputs, references) for outputs in task.systems.values()]
    if judge.by_system:
        apart = [judged_rows(judge, own, cache, progress=progress) for own in rows]
        return {name: (each.statistics, each.truncated) for name, each in zip(task.systems, apart, strict=True)}
    together = [row for segment in zip(*rows, strict=True) for row in segment]  # segment by segment
    judged = judged_rows(judge, together, cache, progress=progress)
    count = len(rows)
    return {
        name: (np.ascontiguousarray(judged.statistics[index::count]), judged.truncated[index::count])
        for index, name in enumerate(task.systems)
    }


def _result(task: _Task, blank: JudgeResult, judge: Judge, judged: Mapping[str, tuple[Floats, Flags]]) -> JudgeResult:
    statistics = {name: values for name, (values, _) in judged.items()}
    scores = {name: judge.system_score(values) for name, values in statistics.items()}
    draws, baseline, seed = task.draws, task.baseline, task.seed
    resampled = bootstrap_scores(judge.scores, statistics, draws=draws, seed=seed) if draws else {}
    compared = {}
    if baseline is not None:
        compared = compare(judge.scores, statistics, scores, baseline, resampled, trials=task.trials, seed=seed)
    table = {}
    for name, score in scores.items():
        bounds = vars(interval(resampled[name])) if draws else {}
        against = vars(compared[name]) if compared else {}
        flattered = any(same_family(utility, blank) for utility in task.chosen_by.get(name, []))
        table[name] = SystemScore(score, **bounds, **against, same_family=flattered)
    return JudgeResult(
        **{
            **vars(blank),
            "identity": judge.identity,
            "scores": table,
            "segments": {name: judge.segment_scores(values) for name, values in statistics.items()},
            "truncated": {name: flags for name, (_, flags) in judged.items()},
            "spans": _spans(task, judge) if task.spans else {},
        }
    )


def _spans(task: _Task, judge: Judge) -> dict[str, list[list[Span]]]:
    """The errors of each system's outputs, where the judge finds them."""
    if not isinstance(judge, NeuralJudge) or not judge.finds_spans:
        return {}
    rows = {name: judge.rows(task.sources, outputs, task.references) for name, outputs in task.systems.items()}
    return {name: judge.spans(own) for name, own in rows.items()}


def check_judges(judges: Sequence[JudgeSpec], *, sources: bool, references: bool, baseline: bool = True) -> None:
    """Refuse judges without the texts they need, and labels that occur twice."""
    labels = [judge.label or judge.title for judge in judges]
    if len(set(labels)) < len(labels):
        raise UsageError(f"two judges have the same label: {', '.join(labels)}")
    for judge in judges:
        if judge.needs_reference and not references:
            raise UsageError(
                f"{judge.title} needs references (--references FILE); judges that need none: {WITHOUT_REFERENCES}, "
                "and pear with --baseline"
            )
        if judge.needs_source and not sources:
            raise UsageError(f"{judge.title} needs the sources (--sources FILE)")
        if judge.needs_baseline and not baseline:
            raise UsageError(
                f"{judge.title} compares every system with a baseline; name one (--baseline SYSTEM), or compare with "
                "the reference (--judge pear-ref)"
            )


def _check(task: _Task, judges: Sequence[JudgeSpec]) -> int:
    """The number of segments. Refuses texts that do not fit together."""
    systems = task.systems
    if not systems:
        raise UsageError("no systems to judge; give the outputs of at least one")
    if task.draws < 0 or task.trials < 0:
        raise UsageError("the numbers of draws and trials must not be negative; 0 leaves them out")
    if task.baseline is not None and task.baseline not in systems:
        raise UsageError(f"the baseline {task.baseline!r} is not among the systems: {', '.join(systems)}")
    counts = {f"system {name!r}": len(outputs) for name, outputs in systems.items()}
    counts |= {"sources": len(task.sources)} if task.sources is not None else {}
    counts |= {f"reference set {number}": len(texts) for number, texts in enumerate(task.references, 1)}
    if len(set(counts.values())) > 1:
        raise InputError(f"the numbers of segments differ: {', '.join(f'{key} {n}' for key, n in counts.items())}")
    texts = {"sources": task.sources is not None, "references": bool(task.references)}
    check_judges(judges, **texts, baseline=task.baseline is not None)
    if task.spans and not any(judge.finds_spans for judge in judges):
        raise UsageError("no judge here finds errors and their places (--spans); add --judge xcomet or xcomet-qe")
    segments = next(iter(counts.values()))
    if not segments:
        raise InputError("no segments to judge: the files are empty; expected a line per segment")
    return segments
