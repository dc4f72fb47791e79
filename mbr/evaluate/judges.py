"""Judges by name: what each needs, its family and its licence, before it is loaded; `JudgeSpec.open` loads it.

spec, = parse_judges(["bleu"])
with spec.open(references=1) as judge:
    judged = judge.judge(judge.rows(None, ["Ein Hund."], [["Der Hund."]]))
    judge.system_score(judged.statistics)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.common.errors import UsageError
from mbr.evaluate.base import Judge

if TYPE_CHECKING:
    from mbr.cache.judgements import Cache

LEXICAL = {
    "chrf": "character n-gram F-score, sacrebleu's chrF2",
    "chrf++": "chrF2 with word n-grams of order 2",
    "bleu": "n-gram precision with brevity penalty",
    "ter": "translation edit rate: edits per word of the reference",
}
WITHOUT_REFERENCES = "cometkiwi, metricx-qe, xcomet-qe, embedding-qe"
# These score with or without a reference; under the name with -qe without, even where there is one.
WITH_AND_WITHOUT = ("xcomet", "metricx", "embedding")
WITHOUT_SOURCE = ("bleurt", "embedding")
QE = "-qe"


@dataclass(frozen=True)
class JudgeSpec:
    """A judge by name, not loaded yet. `label` distinguishes it from the others of a table."""

    name: str
    model: str | None = None
    label: str = ""

    @property
    def lexical(self) -> bool:
        return self.name in LEXICAL

    @property
    def summary(self) -> str:
        return LEXICAL[self.name] if self.lexical else str(_metric_class(self.name).summary)

    @property
    def family(self) -> str:
        """Judges of one family make similar errors, and overrate what a utility of that family chose."""
        return "lexical" if self.lexical else str(_metric_class(self.name).family)

    @property
    def licence(self) -> str:
        """Of the released weights."""
        if self.lexical:
            return "Apache-2.0"
        from mbr.metrics.released import RELEASES

        metric = self.name.removesuffix(QE)
        return ", ".join(dict.fromkeys(r.licence for r in RELEASES.values() if r.metric == metric)) or "of the model"

    @property
    def lower_is_better(self) -> bool:
        return self.name == "ter" if self.lexical else bool(_metric_class(self.name).lower_is_better)

    @property
    def needs_reference(self) -> bool:
        return self.lexical or self.name in WITHOUT_SOURCE or 2 not in _metric_class(self.name).takes

    @property
    def needs_source(self) -> bool:
        return not self.lexical and self.name not in WITHOUT_SOURCE

    def texts(self, references: int) -> int:
        """Texts in a row of a neural judge: 3 with a reference, where there is one and the judge can use it."""
        takes = _metric_class(self.name).takes
        return 3 if 3 in takes and references and not self.name.endswith(QE) else 2

    def open(
        self,
        *,
        references: int,
        tokenize: str = "13a",
        options: Mapping[str, Any] | None = None,
        cache: Cache | None = None,
    ) -> Judge:
        """The judge for this number of reference sets. `options` are those of `mbr.metrics`, for neural judges.

        A neural judge whose identity the cache holds is loaded when there is a row to score, not before.
        """
        if self.lexical:
            from mbr.evaluate.lexical import open_lexical

            return open_lexical(self.name, references=references, tokenize=tokenize)
        from mbr.evaluate.neural import NeuralJudge

        loading = {**(options or {}), **({} if self.model is None else {"model": self.model})}
        return NeuralJudge(self.name, texts=self.texts(references), options=loading, cache=cache)


def judge_names() -> list[str]:
    """All names that `parse_judges` accepts."""
    from mbr.metrics import metric_names

    neural = ([name, name + QE] if name in WITH_AND_WITHOUT else [name] for name in metric_names())
    return [*LEXICAL, *(name for names in neural for name in names)]


def judge_specs(judges: Sequence[str | JudgeSpec]) -> list[JudgeSpec]:
    """The same judges in their order, with names parsed."""
    parsed = iter(parse_judges([judge for judge in judges if isinstance(judge, str)]))
    return [next(parsed) if isinstance(judge, str) else judge for judge in judges]


def parse_judges(words: Sequence[str]) -> list[JudgeSpec]:
    """Judges from words such as `chrf` and `xcomet=FOLDER`, with distinct labels."""
    specs = []
    for word in words:
        name, equals, model = word.partition("=")
        name = name.strip().lower()
        if name not in judge_names():
            raise UsageError(f"judge {name!r} is unknown; expected one of {', '.join(judge_names())}")
        if equals and (name in LEXICAL or not model):
            what = "takes no model" if name in LEXICAL else "has no model behind the `=`"
            raise UsageError(f"judge {word!r} {what}; expected NAME, or NAME=MODEL for a neural judge")
        specs.append(JudgeSpec(name, model or None))
    for label in (_short_label, _long_label):
        taken = Counter(spec.label or spec.name for spec in specs)
        specs = [
            replace(spec, label=label(spec) if taken[spec.label or spec.name] > 1 else spec.label or spec.name)
            for spec in specs
        ]
    twice = [label for label, count in Counter(spec.label for spec in specs).items() if count > 1]
    if twice:
        raise UsageError(f"judge {twice[0]!r} is named twice; expected different judges, or different models")
    return specs


def _short_label(spec: JudgeSpec) -> str:
    return spec.name if spec.model is None else f"{spec.name}={Path(spec.model).name}"


def _long_label(spec: JudgeSpec) -> str:
    return spec.name if spec.model is None else f"{spec.name}={spec.model}"


def _metric_class(name: str) -> Any:
    from mbr.metrics import metric_class

    return metric_class(name.removesuffix(QE))
