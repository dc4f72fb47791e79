"""Judges by name: what each needs, its family and its licence, before it is loaded; `JudgeSpec.open` loads it.

As words: `chrf`, `xcomet=FOLDER`, `pear=FOLDER,mode=single`, and any of them with RESUME added:
`chrf+resume-metric=0.2,model=FOLDER`.

spec, = parse_judges(["bleu"])
with spec.open(references=1) as judge:
    judged = judge.judge(judge.rows(None, ["Ein Hund."], [["Der Hund."]]))
    judge.system_score(judged.statistics)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from candidates.common.errors import UsageError
from mbr.evaluate.base import Judge
from mbr.evaluate.residual import NAME as RESUME_METRIC
from mbr.evaluate.residual import Residual, split_residual
from mbr.metrics import QE, metric_behind
from mbr.recipe.words import option_pairs, scalar

if TYPE_CHECKING:
    from mbr.cache.judgements import Cache

LEXICAL = {
    "chrf": "character n-gram F-score, sacrebleu's chrF2",
    "chrf++": "chrF2 with word n-grams of order 2",
    "bleu": "n-gram precision with brevity penalty",
    "ter": "translation edit rate: edits per word of the reference",
}
WITHOUT_REFERENCES = "cometkiwi, comet-qe, unite-qe, xcomet-qe, metricx-qe, metricx-23-qe, embedding-qe"
# These score with or without a reference; under the name with -qe without, even where there is one.
WITH_AND_WITHOUT = ("unite", "xcomet", "metricx", "embedding")
# Pairwise judges, and what they compare an output with.
PAIRWISE = {"pear": "baseline", "pear-ref": "reference"}
REF = "-ref"


@dataclass(frozen=True)
class JudgeSpec:
    """A judge by name, not loaded yet. `label` distinguishes it from the others of a table.

    `options` are those of its word (`mode=single`), `residual` is the RESUME that is added to it.
    """

    name: str
    model: str | None = None
    label: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    residual: Residual | None = None

    @property
    def title(self) -> str:
        """Its name, with the RESUME that is added."""
        return self.name + (self.residual.suffix if self.residual else "")

    @property
    def lexical(self) -> bool:
        """Whether it only counts what output and references have in common."""
        return self.name in LEXICAL and self.residual is None

    @property
    def compares_with(self) -> str | None:
        """What a pairwise judge compares outputs with: `baseline` or `reference`; None for all others."""
        return PAIRWISE.get(self.name)

    @property
    def summary(self) -> str:
        if self.name in LEXICAL:
            return LEXICAL[self.name]
        than = f", the {self.compares_with}" if self.compares_with else ""
        return f"{_metric_class(self.name).summary}{than}"

    @property
    def family(self) -> str:
        """Judges of one family make similar errors, and overrate what a utility of that family chose.

        With RESUME it is two: `lexical+pear`.
        """
        added = f"+{_metric_class(RESUME_METRIC).family}" if self.residual else ""
        return self._base_family + added

    @property
    def _base_family(self) -> str:
        return "lexical" if self.name in LEXICAL else str(_metric_class(self.name).family)

    @property
    def licence(self) -> str:
        """Of the released weights."""
        if self.name in LEXICAL:
            return "Apache-2.0"
        from mbr.metrics.released import RELEASES

        metric = metric_of(self.name)
        return ", ".join(dict.fromkeys(r.licence for r in RELEASES.values() if r.metric == metric)) or "of the model"

    @property
    def lower_is_better(self) -> bool:
        return self.name == "ter" if self.name in LEXICAL else bool(_metric_class(self.name).lower_is_better)

    @property
    def needs_reference(self) -> bool:
        if self.residual is not None or self.lexical or not self.needs_source:
            return True
        return self.compares_with != "baseline" and 2 not in _metric_class(self.name).takes

    @property
    def uses_reference(self) -> bool:
        """Whether it compares with a reference where there is one."""
        if self.needs_baseline:
            return False
        return self.needs_reference or self.texts(1) == 3

    @property
    def needs_baseline(self) -> bool:
        """Whether it compares outputs with those of another system."""
        return self.compares_with == "baseline"

    @property
    def needs_source(self) -> bool:
        if self.residual is not None:
            return True
        if self.lexical:
            return False
        return bool(_metric_class(self.name).reads_source) or self._without_reference

    @property
    def finds_spans(self) -> bool:
        """Whether it also finds the errors of an output and their places."""
        return self.residual is None and not self.lexical and hasattr(_metric_class(self.name), "spans")

    @property
    def takes_one_reference(self) -> bool:
        """Whether it uses the first reference only, where there are several."""
        if self.residual is not None:
            return True
        return not (self.lexical or self.needs_baseline) and self.texts(1) == 3

    def texts(self, references: int) -> int:
        """Texts in a row of a neural judge: 3 with a reference, where there is one and the judge can use it.

        A pairwise judge has 3 always: what it compares with takes the place of the reference.
        """
        if self.compares_with is not None:
            return 3
        takes = _metric_class(self.name).takes
        return 3 if 3 in takes and references and not self._without_reference else 2

    @property
    def _without_reference(self) -> bool:
        """Whether a metric that can use a reference is to judge without."""
        return metric_behind(self.name) != self.name

    def for_texts(self, lists: Iterable[tuple[str, Iterable[str]]]) -> JudgeSpec:
        """The same with a model: where a PEAR has none, the one for the languages of sources and outputs.

        Raises:
            UsageError: the languages cannot be seen.
        """
        if metric_of(self.name) != "pear" or self.model is not None:
            return self
        from pear.shipped import LISTS, Languages

        languages = Languages()
        for source, outputs in islice(lists, LISTS):
            languages.add(source, outputs)
            if languages.suffice:
                break
        try:
            return replace(self, model=languages.model())
        except UsageError as exc:
            raise UsageError(
                f"{self.name}: no model was named, and the languages cannot be seen from the texts; name one: "
                f"{self.name}=en-de (bundled), {self.name}=pear (released, from the hub) or {self.name}=FOLDER"
            ) from exc

    def open(
        self,
        *,
        references: int,
        tokenize: str = "13a",
        options: Mapping[str, Any] | None = None,
        cache: Cache | None = None,
        spans: bool = False,
    ) -> Judge:
        """The judge for this number of reference sets. `options` are those of `mbr.metrics`, for neural judges.

        A neural judge whose identity the cache holds is loaded when there is a row to score, not before. With `spans`,
        one that finds errors (`finds_spans`) keeps them.
        """
        if self.residual is not None:
            return self._open_with_resume(references, tokenize, options or {}, cache)
        if self.lexical:
            from mbr.evaluate.lexical import open_lexical

            return open_lexical(self.name, references=references, tokenize=tokenize)
        from mbr.evaluate.neural import NeuralJudge

        loading = {**(options or {}), **self.options, **({} if self.model is None else {"model": self.model})}
        if self.compares_with is None:
            spans = spans and self.finds_spans
            return NeuralJudge(self.name, texts=self.texts(references), options=loading, cache=cache, spans=spans)
        from mbr.evaluate.pairwise import PairwiseJudge

        metric = NeuralJudge(metric_of(self.name), texts=3, options=loading, cache=cache, compared="anchor")
        symmetric = self.options.get("mode", "both") == "both"
        return PairwiseJudge(metric, against=self.compares_with, symmetric=symmetric)

    def _open_with_resume(
        self, references: int, tokenize: str, options: Mapping[str, Any], cache: Cache | None
    ) -> Judge:
        from mbr.evaluate.residual import WithResume

        assert self.residual is not None
        added = JudgeSpec(RESUME_METRIC, self.residual.model, options=self.residual.options)
        factor = self.residual.factor(self._base_family, lower_is_better=self.lower_is_better)
        settings: dict[str, Any] = {"references": references, "tokenize": tokenize, "cache": cache, "options": options}
        base = replace(self, residual=None).open(**settings)
        try:
            return WithResume(base, added.open(**settings), factor)
        except BaseException:
            base.close()
            raise


def metric_of(name: str) -> str:
    """The metric behind a judge's name, of `mbr.metrics`: `xcomet` of `xcomet-qe`, `pear` of `pear-ref`."""
    return name.removesuffix(REF) if name in PAIRWISE else metric_behind(name)


def judge_names() -> list[str]:
    """All names that `parse_judges` accepts."""
    from mbr.metrics import metric_names

    others = {**{name: name + QE for name in WITH_AND_WITHOUT}, "pear": "pear" + REF}
    neural = ([name, others[name]] if name in others else [name] for name in metric_names())
    return [*LEXICAL, *(name for names in neural for name in names)]


def judge_specs(judges: Sequence[str | JudgeSpec]) -> list[JudgeSpec]:
    """The same judges in their order, with names parsed."""
    parsed = iter(parse_judges([judge for judge in judges if isinstance(judge, str)]))
    return [next(parsed) if isinstance(judge, str) else judge for judge in judges]


def parse_judges(words: Sequence[str], resume_model: str | None = None) -> list[JudgeSpec]:
    """Judges from words such as `chrf`, `xcomet=FOLDER` and `chrf+resume-metric=0.2,model=FOLDER`.

    Their labels are distinct. `resume_model` is that of a RESUME whose word names none.
    """
    specs = [_parsed(word, resume_model) for word in words]
    for label in (_short_label, _long_label):
        taken = Counter(spec.label or spec.title for spec in specs)
        specs = [
            replace(spec, label=label(spec) if taken[spec.label or spec.title] > 1 else spec.label or spec.title)
            for spec in specs
        ]
    twice = [label for label, count in Counter(spec.label for spec in specs).items() if count > 1]
    if twice:
        raise UsageError(f"judge {twice[0]!r} is named twice; expected different judges, or different models")
    return specs


def _parsed(word: str, resume_model: str | None) -> JudgeSpec:
    base, residual = split_residual(word, resume_model)
    head, *pairs = _OPTION.split(base)
    name, equals, model = head.partition("=")
    name = name.strip().lower()
    if name not in judge_names():
        raise UsageError(f"judge {name!r} is unknown; expected one of {', '.join(judge_names())}")
    if equals and (name in LEXICAL or not model):
        what = "takes no model" if name in LEXICAL else "has no model behind the `=`"
        raise UsageError(f"judge {word!r} {what}; expected NAME, or NAME=MODEL for a neural judge")
    options = option_pairs(pairs, f"judge {word!r}")
    for key, value in options.items():
        if name not in PAIRWISE or (key, value) not in _MODES:
            raise UsageError(
                f"judge {word!r}: {key}={value} is no option of {name}; pear and pear-ref have mode=single"
            )
    if residual is not None and name in ("pear", RESUME_METRIC):
        hint = "pear-ref does" if name == "pear" else "give another judge before the +"
        raise UsageError(f"judge {word!r}: RESUME is added to a judge that compares with a reference; {hint}")
    return JudgeSpec(name, model or None, options=options, residual=residual)


# Between the options of a judge; a folder may hold a comma.
_OPTION = re.compile(r",(?=[a-z-]+=)")
_MODES = (("mode", "both"), ("mode", "single"))


def with_options(specs: Sequence[JudgeSpec], words: Sequence[str]) -> list[JudgeSpec]:
    """The same judges with options of their own, from words such as `bertscore:layer=9`.

    Raises:
        UsageError: no judge has this name or label, or it takes no such option.
    """
    chosen: dict[str, dict[str, Any]] = {}
    labels = [spec.label or spec.name for spec in specs]
    for word in words:
        # A label may hold a model's name, and with it a colon.
        named = max((label for label in labels if word.startswith(f"{label}:")), key=len, default=None)
        label, _, pair = (named, "", word[len(named) + 1 :]) if named else word.partition(":")
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"--judge-option {word!r} is not a NAME:KEY=VALUE, such as bertscore:layer=9")
        if not named:
            raise UsageError(f"--judge-option {word!r}: no judge {label!r} was given; judges: {', '.join(labels)}")
        chosen.setdefault(label, {})[key.strip().replace("-", "_")] = scalar(value)
    changed = []
    for spec in specs:
        own = chosen.get(spec.label or spec.name, {})
        if own:
            _check_options(spec, own)
        changed.append(replace(spec, options={**spec.options, **own}))
    return changed


def _check_options(spec: JudgeSpec, options: Mapping[str, Any]) -> None:
    from candidates.common.plugins import option_names
    from mbr.metrics import LIBRARIES

    if spec.lexical:
        raise UsageError(f"judge {spec.name} takes no options of its own")
    taken = [*option_names(_metric_class(spec.name)), *(["backend"] if metric_of(spec.name) in LIBRARIES else [])]
    for name in options:
        if name not in taken or name == "model":
            raise UsageError(f"judge {spec.name} has no option {name!r} (it takes {', '.join(taken)})")


def _short_label(spec: JudgeSpec) -> str:
    return _with_models(spec, lambda model: Path(model).name)


def _long_label(spec: JudgeSpec) -> str:
    return _with_models(spec, lambda model: model)


def _with_models(spec: JudgeSpec, shown: Callable[[str], str]) -> str:
    """The title with the models and options that tell it from others."""
    name = spec.name if spec.model is None else f"{spec.name}={shown(spec.model)}"
    name += "".join(f",{key}={value}" for key, value in spec.options.items())
    if spec.residual is None:
        return name
    return name + spec.residual.suffix + (f"={shown(spec.residual.model)}" if spec.residual.model else "")


def _metric_class(name: str) -> Any:
    from mbr.metrics import metric_class

    return metric_class(metric_of(name))
