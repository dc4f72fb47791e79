"""Lists, settings and judges in, one `Comparison` out. Broken parts are marked where they stand, the rest is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from candidates.common.errors import InputError, UsageError
from candidates.formats import BadRecord, Record
from candidates.lists import CandidateList
from mbr.cache.judgements import Cache
from mbr.cache.scores import ScoreStore
from mbr.compare.agreement import Agreement, agreement
from mbr.compare.deciding import Decided, Rules, Run, Tell
from mbr.compare.rows import first_choices, likeliest_choices, oracle_choices, random_choices
from mbr.compare.settings import Setting
from mbr.compare.study import Study
from mbr.evaluate import Evaluation, JudgeSpec, evaluate, parse_judges
from mbr.evaluate.evaluation import check_judges, exit_code_of, reason_of

Kind = Literal["first", "random", "setting", "quality", "oracle"]
First = Literal["first candidate", "beam best", "most likely"]
RANDOM = "random candidate"
SOME_FAILED = 1  # exit code


@dataclass(frozen=True)
class Row:
    """One way to choose, and what it chose of each segment; or, with an `error`, why it chose nothing."""

    label: str
    kind: Kind
    choices: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    decided: Decided | None = None
    chosen_by: tuple[str, ...] = ()
    error: Exception | None = None
    cost_ratio: float | None = None  # seconds over those of the first setting

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
    """A segment that no row has, and why."""

    id: str | int
    reason: str


@dataclass(frozen=True)
class Comparison:
    lists: tuple[CandidateList, ...]
    references: tuple[tuple[str, ...], ...]  # sets, parallel to the lists
    rows: tuple[Row, ...]
    evaluation: Evaluation
    agreement: Agreement
    studies: tuple[Study, ...]
    left_out: tuple[LeftOut, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)  # where the lists come from
    wanted_baseline: str | None = None  # the one asked for, if it failed

    @property
    def baseline(self) -> str:
        return str(self.evaluation.baseline)

    def row(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)

    def ranks(self, judge: int) -> dict[str, int]:
        """Places by one judge from 1 on, oracle and random included; equal scores share one."""
        found = self.evaluation.judges[judge]
        sign = 1 if found.lower_is_better else -1
        scores = {name: sign * score.score for name, score in found.scores.items()}
        return {name: 1 + sum(other < mine for other in scores.values()) for name, mine in scores.items()}

    def exit_code(self) -> int:
        """0; 1 where segments failed; or that of the first row or judge that failed."""
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
    tell: Tell = lambda message: None,
    tell_failure: Tell = lambda message: None,
) -> Comparison:
    """Decode the lists with every setting and judge what comes out.

    `references` holds sets parallel to the records; without them those that the lists hold are taken. `oracle` names
    the judge that finds the best candidate of each list by the references, `first` what the first row is called and
    how it chooses. `study`: of so many lists all pairs are scored, for heat maps and regret against passes. `scores` is
    a file where scores are kept (`mbr.cache.scores`), `judgements` the judges' cache.
    """
    rules = rules or Rules()
    named = iter(parse_judges([judge for judge in judges if isinstance(judge, str)]))
    specs = [next(named) if isinstance(judge, str) else judge for judge in judges]
    lists, kept_references, left_out = usable(records, references)
    by = check_request(settings, specs, references=bool(kept_references), baseline=baseline, oracle=oracle, first=first)
    planned = [rules.applied_to(setting, lists[0]) for setting in settings]
    with (
        TemporaryDirectory() as folder,
        ScoreStore(scores or Path(folder, "scores.sqlite"), warn=tell_failure) as store,
    ):
        run = Run(lists, rules, store, _spread(len(lists), study), progress, tell, tell_failure)
        decided = run.decide(planned)
    rows = [
        _plain_row(first, "first", likeliest_choices(lists) if first == "most likely" else first_choices(lists), lists),
        _plain_row(RANDOM, "random", random_choices(lists, rules.seed), lists),
        *(_setting_row(one, lists) for one in decided),
    ]
    judging = _Judging(lists, kept_references, rules, tokenize, judgements, progress, tell, tell_failure)
    if by is not None:
        rows.append(judging.oracle_row(by))
    rows = _with_ratios(rows)
    standing = {row.label: row for row in rows if row.error is None}
    return Comparison(
        lists=tuple(lists),
        references=tuple(map(tuple, kept_references)),
        rows=tuple(rows),
        evaluation=judging.evaluation(rows, specs, baseline=baseline, draws=draws, trials=trials),
        agreement=agreement(
            {label: row.choices for label, row in standing.items()},
            {label: row.texts for label, row in standing.items()},
            {label: row.decided.decisions for label, row in standing.items() if row.decided is not None},
        ),
        studies=tuple(run.studies),
        left_out=tuple(left_out),
        origin=dict(origin or {}),
        wanted_baseline=baseline if baseline not in standing else None,
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
    """Refuse what makes no sense, before the work and not after it; returns the judge that finds the oracle's row."""
    if not settings:
        raise UsageError("there is nothing to compare; give at least one utility")
    check_judges(judges, sources=True, references=references)
    by = _oracle_judge(oracle) if references and oracle else None
    labels = [first, RANDOM, *(setting.label for setting in settings), *([] if by is None else [by.label])]
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise UsageError(f"two rows are called {twice[0]!r}; give the setting another label (,label=NAME)")
    if baseline is not None and baseline not in labels:
        raise UsageError(f"the baseline {baseline!r} is no row of the table: {', '.join(labels)}")
    return by


def usable(
    records: Iterable[Record], references: Sequence[Sequence[str]] | None
) -> tuple[list[CandidateList], list[list[str]], list[LeftOut]]:
    """The lists that can be decoded, sets of references parallel to them, and what is left out."""
    lists, places, left_out = [], [], []
    count = 0
    for place, record in enumerate(records):
        count += 1
        if isinstance(record, BadRecord):
            left_out.append(LeftOut(record.id, str(record.error)))
        else:
            lists.append(record)
            places.append(place)
    for number, one in enumerate(references or (), 1):
        if len(one) != count:
            raise InputError(f"reference set {number} has {len(one)} lines, but there are {count} segments")
    if not lists:
        reason = f": {left_out[0].reason}" if left_out else "; the input is empty"
        raise InputError(f"there is no candidate list to compare with{reason}")
    if references is not None:
        return lists, [[one[place] for place in places] for one in references], left_out
    sets = min(len(item.references) for item in lists)
    if not sets and any(item.references for item in lists):
        without = next(item for item in lists if not item.references)
        raise InputError(
            f"segment {without.id!r} has no references, but others have; expected some for all, or for none"
        )
    return lists, [[item.references[number] for item in lists] for number in range(sets)], left_out


def _spread(size: int, count: int) -> list[int]:
    """So many places, evenly."""
    count = min(size, count)
    return [place * size // count for place in range(count)]


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
    if not spec.needs_reference and spec.texts(1) < 3:
        raise UsageError(f"{word} reads no references, so it knows no better than a utility; name another oracle")
    return replace(spec, label=f"oracle ({spec.name})")


@dataclass(frozen=True)
class _Judging:
    """What judging needs, whatever is judged."""

    lists: Sequence[CandidateList]
    references: Sequence[Sequence[str]]
    rules: Rules
    tokenize: str
    cache: Cache | None
    progress: bool
    tell: Tell
    tell_failure: Tell

    def oracle_row(self, spec: JudgeSpec) -> Row:
        """The best candidates by the references."""
        try:
            choices = oracle_choices(
                self.lists,
                self.references,
                spec,
                tokenize=self.tokenize,
                options=self.rules.options,
                cache=self.cache,
                progress=spec.label if self.progress else None,
            )
        except Exception as exc:
            self.tell_failure(f"{spec.label} failed: {reason_of(exc)}")
            return Row(spec.label, "oracle", error=exc)
        return replace(_plain_row(spec.label, "oracle", choices, self.lists), chosen_by=(spec.name,))

    def evaluation(
        self, rows: Sequence[Row], judges: Sequence[JudgeSpec], *, baseline: str | None, draws: int, trials: int
    ) -> Evaluation:
        """All rows that stand, judged; against the first row where the baseline failed."""
        standing = {row.label: row for row in rows if row.error is None}
        if baseline is not None and baseline not in standing:
            self.tell_failure(f"the baseline {baseline} failed; the others are compared with {rows[0].label} instead")
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
            cache=self.cache,
            progress=self.progress,
            report=self.tell,
            warn=self.tell_failure,
        )


def _with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Costs as multiples of the first setting's that has one and failed nowhere."""
    unit = next((row.seconds for row in rows if row.seconds and not row.fallbacks), None)
    return [
        replace(row, cost_ratio=None if unit is None or row.seconds is None else row.seconds / unit) for row in rows
    ]
