"""Lists, settings and judges in, one `Comparison` out. Settings and judges that fail are marked; the rest goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from candidates.common.errors import InputError, UsageError
from candidates.common.words import counted
from candidates.formats import BadRecord, Record
from candidates.lists import CandidateList
from mbr.cache.judgements import Cache
from mbr.compare.agreement import Agreement, agreement
from mbr.compare.deciding import Decided, Report, Rules, by_model, decide_all, silent
from mbr.compare.rows import first_choices, likeliest_choices, oracle_choices, random_choices
from mbr.compare.settings import Setting
from mbr.compare.stages import JUDGES, Stages, planned_stages
from mbr.compare.study import Study
from mbr.evaluate import Evaluation, JudgeSpec, evaluate, parse_judges
from mbr.evaluate.evaluation import check_judges, exit_code_of, reason_of
from mbr.evaluate.judges import judge_specs
from mbr.recipe.plan import cautions

Kind = Literal["first", "random", "setting", "quality", "oracle"]
First = Literal["first candidate", "beam best", "most likely"]
RANDOM = "random candidate"
SOME_FAILED = 1  # exit code


@dataclass(frozen=True)
class Row:
    """One way to choose, with its choice for each segment; or, with an `error`, why there are none.

    `chosen_by` names the utilities, terms or judge behind the choices; `cost_ratio` is seconds over those of the first
    setting.
    """

    label: str
    kind: Kind
    choices: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    decided: Decided | None = None
    chosen_by: tuple[str, ...] = ()
    error: Exception | None = None
    cost_ratio: float | None = None

    @property
    def passes(self) -> int | None:
        return None if self.decided is None or self.error is not None else self.decided.passes

    @property
    def seconds(self) -> float | None:
        return None if self.decided is None else self.decided.seconds

    @property
    def on_gpu(self) -> bool:
        return self.decided is not None and self.decided.on_gpu

    @property
    def device(self) -> str | None:
        return None if self.seconds is None else "gpu" if self.on_gpu else "cpu"

    @property
    def fallbacks(self) -> dict[int, str]:
        return {} if self.decided is None else self.decided.fallbacks

    @property
    def signature(self) -> str | None:
        return None if self.decided is None or self.decided.signature is None else str(self.decided.signature)


@dataclass(frozen=True)
class LeftOut:
    """A segment that is left out of every row, and why."""

    id: str | int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Rows with their scores, costs and agreement.

    `references` holds sets, parallel to the lists; `origin` describes how the lists were made; `wanted_baseline` is the
    baseline that was asked for, if it failed.
    """

    lists: tuple[CandidateList, ...]
    references: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    evaluation: Evaluation
    agreement: Agreement
    studies: tuple[Study, ...]
    left_out: tuple[LeftOut, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    wanted_baseline: str | None = None

    @property
    def baseline(self) -> str:
        return str(self.evaluation.baseline)

    def row(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)

    def ranks(self, judge: int) -> dict[str, int]:
        """Ranks by one judge, the best is 1, oracle and random candidate included; equal scores share a rank."""
        result = self.evaluation.judges[judge]
        sign = 1 if result.lower_is_better else -1
        scores = {name: sign * score.score for name, score in result.scores.items()}
        return {name: 1 + sum(other < score for other in scores.values()) for name, score in scores.items()}

    def exit_code(self) -> int:
        """0, or 1 if segments failed, or the code of the first row or judge that failed."""
        for row in self.rows:
            if row.error is not None:
                return exit_code_of(row.error)
        if code := self.evaluation.exit_code():
            return code
        return SOME_FAILED if self.left_out or any(row.fallbacks for row in self.rows) else 0


def compare(
    records: Iterable[Record],
    settings: Sequence[Setting],
    judges: Sequence[str | JudgeSpec],
    *,
    references: Sequence[Sequence[str]] | None = None,
    rules: Rules | None = None,
    baseline: str | None = None,
    oracle: str | None = "chrf",
    first: First = "first candidate",
    study: int = 6,
    draws: int = 1000,
    trials: int = 10_000,
    tokenize: str = "13a",
    scores: Path | None = None,
    judgements: Cache | None = None,
    origin: Mapping[str, Any] | None = None,
    progress: bool = False,
    report: Report = silent,
    warn: Report = silent,
) -> Comparison:
    """Decode the lists with every setting and judge the choices.

    Args:
        references: sets parallel to the records (default: those in the lists).
        baseline: label of the row that the others are tested against (default: the first row).
        oracle: judge that finds the best candidate of each list by the references; None for no such row.
        first: what the first row is called and how it chooses.
        study: how many lists to score in full, for heat maps and regret against passes.
        draws, trials, tokenize: as in `mbr.evaluate.evaluate`.
        scores, judgements: what keeps scores of utilities and of judges between runs.
        report, warn: receive notes of models, and failures as they happen.
    """
    specs = judge_specs(judges)
    lists, reference_sets, left_out = usable(records, references)
    oracle_spec = check_request(
        settings, specs, references=bool(reference_sets), baseline=baseline, oracle=oracle, first=first
    )
    work = _Work(lists, reference_sets, rules or Rules(), tokenize, scores, judgements, progress, report, warn)
    planned = [work.rules.applied_to(setting, lists) for setting in settings]
    studied = _spread(len(lists), study)
    some = [lists[place] for place in studied]
    stages = planned_stages(lists, list(by_model(planned)), some, oracle_spec, specs, report)
    stages.announce()
    decided, studies = work.decide(planned, studied, stages)
    rows = [*_plain_rows(lists, first, work.rules.seed), *(_setting_row(result, lists) for result in decided)]
    rows = _with_ratios([*rows, *([] if oracle_spec is None else [work.oracle_row(oracle_spec, stages)])])
    stages.begin(JUDGES)
    evaluation = work.evaluation(rows, specs, baseline=baseline, draws=draws, trials=trials)
    return Comparison(
        lists=tuple(lists),
        references=tuple(map(tuple, reference_sets)),
        rows=tuple(rows),
        evaluation=evaluation,
        agreement=_agreement(rows),
        studies=tuple(studies),
        left_out=tuple(left_out),
        origin=dict(origin or {}),
        wanted_baseline=None if baseline in (None, evaluation.baseline) else baseline,
    )


def check_request(
    settings: Sequence[Setting],
    judges: Sequence[JudgeSpec],
    *,
    references: bool,
    baseline: str | None,
    oracle: str | None,
    first: str,
) -> JudgeSpec | None:
    """Refuse a comparison that cannot be made, before any work.

    Returns:
        The judge that finds the row of the oracle, if there is to be one.

    Raises:
        UsageError: no setting, judges without the texts they need, labels that are not unique, an unknown baseline.
    """
    if not settings:
        raise UsageError("there is nothing to compare; give at least one utility")
    check_judges(judges, sources=True, references=references)
    spec = _oracle_judge(oracle) if references and oracle else None
    labels = [first, RANDOM, *(setting.label for setting in settings), *([] if spec is None else [spec.label])]
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise UsageError(f"two rows are called {twice[0]!r}; give the setting another label (,label=NAME)")
    if baseline is not None and baseline not in labels:
        raise UsageError(f"the baseline {baseline!r} is no row of the table: {', '.join(labels)}")
    return spec


def usable(
    records: Iterable[Record], references: Sequence[Sequence[str]] | None
) -> tuple[list[CandidateList], list[list[str]], list[LeftOut]]:
    """The lists that can be decoded, sets of references parallel to them, and the segments left out."""
    lists, places, left_out = [], [], []
    count = 0
    for place, record in enumerate(records):
        count += 1
        if isinstance(record, BadRecord):
            left_out.append(LeftOut(record.id, str(record.error)))
        else:
            lists.append(record)
            places.append(place)
    for number, texts in enumerate(references or (), 1):
        if len(texts) != count:
            raise InputError(
                f"reference set {number} has {counted(len(texts), 'line')}, but the number of segments is "
                f"{count}; expected one for each"
            )
    if not lists:
        reason = f": {left_out[0].reason}" if left_out else "; the input is empty"
        raise InputError(f"there is no candidate list to compare settings on{reason}")
    if references is not None:
        return lists, [[texts[place] for place in places] for texts in references], left_out
    sets = min(len(item.references) for item in lists)
    if not sets and any(item.references for item in lists):
        without = next(item for item in lists if not item.references)
        raise InputError(
            f"segment {without.id!r} has no references, but others have; expected some for all, or for none"
        )
    return lists, [[item.references[number] for item in lists] for number in range(sets)], left_out


def _spread(size: int, count: int) -> list[int]:
    """Places of `count` lists, evenly spaced."""
    count = min(size, count)
    return [place * size // count for place in range(count)]


def _plain_rows(lists: Sequence[CandidateList], first: First, seed: int) -> list[Row]:
    """The rows that need neither utility nor references."""
    choices = likeliest_choices(lists) if first == "most likely" else first_choices(lists)
    return [
        _plain_row(first, "first", choices, lists),
        _plain_row(RANDOM, "random", random_choices(lists, seed), lists),
    ]


def _plain_row(label: str, kind: Kind, choices: Sequence[int], lists: Sequence[CandidateList]) -> Row:
    texts = tuple(item.texts[choice] for choice, item in zip(choices, lists, strict=True))
    return Row(label, kind, tuple(choices), texts)


def _setting_row(decided: Decided, lists: Sequence[CandidateList]) -> Row:
    setting = decided.setting
    kind: Kind = "quality" if setting.recipe.rates else "setting"
    if decided.error is not None:
        return Row(setting.label, kind, decided=decided, chosen_by=tuple(setting.chosen_by()), error=decided.error)
    plain = _plain_row(setting.label, kind, [decision.ranking[0] for decision in decided.decisions], lists)
    return replace(plain, decided=decided, chosen_by=tuple(setting.chosen_by()))


def _oracle_judge(word: str) -> JudgeSpec:
    (spec,) = parse_judges([word])
    if spec.needs_baseline or (not spec.needs_reference and spec.texts(1) < 3):
        raise UsageError(
            f"{word} reads no references, so it cannot be the oracle; name a judge that does, such as chrf"
        )
    return replace(spec, label=f"oracle ({spec.title})")


@dataclass(frozen=True)
class _Work:
    """The lists and references, and what decoding and judging them need."""

    lists: Sequence[CandidateList]
    references: Sequence[Sequence[str]]
    rules: Rules
    tokenize: str
    scores: Path | None
    judgements: Cache | None
    progress: bool
    report: Report
    warn: Report

    def decide(
        self, settings: Sequence[Setting], studied: Sequence[int], stages: Stages
    ) -> tuple[list[Decided], list[Study]]:
        """The decisions of every setting, and studies of some lists."""
        for caution in dict.fromkeys(c for item in settings for c in cautions(item.recipe, self.lists[0].origin)):
            self.warn(caution)
        return decide_all(
            self.lists,
            settings,
            self.rules,
            scores=self.scores,
            studied=studied,
            progress=self.progress,
            report=self.report,
            warn=self.warn,
            begin=stages.begin,
        )

    def oracle_row(self, spec: JudgeSpec, stages: Stages) -> Row:
        """The best candidates by the references."""
        stages.begin(spec.label or spec.title)
        try:
            choices = oracle_choices(
                self.lists,
                self.references,
                spec,
                tokenize=self.tokenize,
                options=self.rules.options,
                cache=self.judgements,
                progress=spec.label if self.progress else None,
            )
        except Exception as exc:  # of any kind: the other rows are kept
            self.warn(f"{spec.label} failed: {reason_of(exc)}")
            return Row(spec.label, "oracle", error=exc)
        return replace(_plain_row(spec.label, "oracle", choices, self.lists), chosen_by=(spec.title,))

    def evaluation(
        self, rows: Sequence[Row], judges: Sequence[JudgeSpec], *, baseline: str | None, draws: int, trials: int
    ) -> Evaluation:
        """The rows that did not fail, judged; against the first row if the baseline failed."""
        standing = {row.label: row for row in rows if row.error is None}
        if baseline is not None and baseline not in standing:
            self.warn(f"the baseline {baseline} failed; the others are compared with {rows[0].label} instead")
        return evaluate(
            {label: row.texts for label, row in standing.items()},
            judges,
            sources=[item.source for item in self.lists],
            references=self.references,
            baseline=baseline if baseline in standing else rows[0].label,
            draws=draws,
            trials=trials,
            seed=self.rules.seed,
            chosen_by={label: list(row.chosen_by) for label, row in standing.items() if row.chosen_by},
            tokenize=self.tokenize,
            options=self.rules.options,
            cache=self.judgements,
            progress=self.progress,
            report=self.report,
            warn=self.warn,
        )


def _with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Costs as multiples of the cost of the first setting without failed segments."""
    unit = next((row.seconds for row in rows if row.seconds and not row.fallbacks), None)
    return [
        replace(row, cost_ratio=None if unit is None or row.seconds is None else row.seconds / unit) for row in rows
    ]


def _agreement(rows: Sequence[Row]) -> Agreement:
    standing = {row.label: row for row in rows if row.error is None}
    return agreement(
        {label: row.choices for label, row in standing.items()},
        {label: row.texts for label, row in standing.items()},
        {label: row.decided.decisions for label, row in standing.items() if row.decided is not None},
    )
