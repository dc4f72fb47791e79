"""Human and metric scores from a test set of mt-metrics-eval.

Beside the texts and human scores that `pear.data.folders` reads, such a folder has
`metric-scores/<lp>/<metric>-<reference or src>.seg.score` and `.sys.score`. Which systems and metrics count follows the
official results (`pear.data.test_sets`): all systems but the references (unless the results score them, or on request)
and listed outliers, if people scored them; metrics that compare with the standard reference or with none, if they
scored all of these systems. Where a test set is not listed, what was assumed is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os.path import lexists
from pathlib import Path

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines
from mbr.metaeval.values import SOURCE_ONLY, Floats, Scores, ScoreSet, Texts, check_metric, score_of
from pear.data.folders import EvalFolder, is_test_set
from pear.data.test_sets import Official, is_known, official

SEGMENTS, SYSTEMS, DOCUMENTS = ".seg.score", ".sys.score", ".doc.score"
DEFAULT_GOLD = "mqm"


def find_test_set(data: str | Path, test_set: str | None) -> Path:
    """The folder of a test set: `data` itself, or the one of this name below it."""
    root = Path(data)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; expected mt-metrics-eval's data, or one test set of it")
    names = sorted(folder.name for folder in root.iterdir() if is_test_set(folder))
    if test_set is None:
        if is_test_set(root):
            return root
        if len(names) == 1:
            return root / names[0]
        raise UsageError(f"{root} has the test sets {', '.join(names) or 'none'}; choose one with --test-set")
    for folder in (root / test_set, root):
        if is_test_set(folder) and test_set in (folder.name, folder.resolve().name):
            return folder
    raise InputError(f"{root}: no test set {test_set!r}; found {', '.join(names) or 'none'}")


def read_folder(
    folder: str | Path,
    lp: str = "",
    human: str | None = None,
    *,
    reference: str | None = None,
    human_systems: bool | None = None,
    outliers: bool = False,
    metrics: Sequence[str] | None = None,
    evaluators: Sequence[str] = (),
) -> ScoreSet:
    """One language pair of a test set. Systems are sorted by name.

    Args:
        folder: of the test set.
        lp: may be left out where there is one.
        human: the gold; by default the official one, or mqm.
        reference: what metrics compare with; by default the official one, else the one that most metrics compare with.
        human_systems: whether the other references count as systems; by default as in the official results.
        outliers: whether systems that the official results leave out count.
        metrics: only these, by name with or without what they compare with.
        evaluators: other human scores, which become metrics of the kind "human".

    Raises:
        InputError: a metric that was named lacks a score, or people scored no system. Other metrics that lack a score
            are left out with a note.
    """
    files = EvalFolder.open(folder, lp)
    listed = official(files.name, files.lp)
    chosen = [name for name, value in (("reference", reference), ("gold", human)) if value]
    human = human or (listed.gold if listed is not None else None) or DEFAULT_GOLD
    standard = files.reference(reference) if reference else _most_used(files)
    keeps_humans = human_systems if human_systems is not None else listed is not None and listed.human_systems
    gold = _segment_scores(files, files.human_file(human))
    dropped = {standard} if keeps_humans else {*files.references, standard}
    if not outliers and listed is not None:
        dropped |= set(listed.outliers)
    systems = tuple(sorted(name for name in gold if name not in dropped and not np.isnan(gold[name]).all()))
    if not systems:
        raise InputError(f"{files.human_file(human)}: people scored no system but references")
    whole = _whole(files.path / "human-scores" / f"{files.lp}.{human}{SYSTEMS}", systems)
    people = Scores(human, np.array([gold[name] for name in systems]), whole, kind="human")
    scored, left_out_notes = _metrics(files, systems, standard, metrics, people)
    return ScoreSet(
        name=files.name,
        lp=files.lp,
        human=people,
        systems=systems,
        segments=tuple(str(number) for number in range(1, len(files.sources) + 1)),
        metrics=(*(_evaluator(files, name, systems) for name in evaluators), *scored),
        texts=_texts(files, systems, standard),
        reference=standard,
        dropped=tuple(sorted({*gold, *files.references} - set(systems))),
        notes=(*_excluded(gold, systems, listed is not None), *left_out_notes),
        domains=_known(domain for domain, _ in files.document_lines()),
        documents=_known(document for document in files.documents()),
        listed=tuple(gold),
        official=_is_official(listed, (standard, human, keeps_humans), outliers),
        assumed=_assumed(files, listed, standard, human, chosen),
    )


def _is_official(listed: Official | None, setup: tuple[str | None, str, bool], outliers: bool) -> bool:
    """Whether reference, gold and human systems are the official ones, and no outlier counts."""
    if listed is None or (outliers and listed.outliers):
        return False
    return setup == (listed.reference, listed.gold, listed.human_systems)


def _assumed(
    files: EvalFolder, listed: Official | None, standard: str | None, human: str, chosen: Sequence[str]
) -> tuple[str, ...]:
    """What was taken without an official source for it, in sentences; `chosen` is what the user named."""
    where = files.name if listed is None and not is_known(files.name) else f"{files.name} {files.lp}"
    if listed is None:
        reference = f"reference {standard}" if standard else "no reference"
        return (
            f"{where} is not a known test set; assumed: {reference} (--reference), gold {human} (--human), no outliers "
            "(--exclude-systems)",
        )
    sentences = []
    if standard != listed.reference and "reference" not in chosen:
        sentences.append(
            f"the official reference {listed.reference} of {where} is not there; taken: {standard or 'none'}"
        )
    if listed.gold is None and "gold" not in chosen:
        sentences.append(f"the official gold of {where} is not listed here; taken: {human} (--human)")
    return tuple(sentences)


def _known(names: Iterable[str]) -> tuple[str, ...]:
    """The names, or nothing where all are empty."""
    values = tuple(names)
    return values if any(values) else ()


def _most_used(files: EvalFolder) -> str | None:
    """The standard reference; where it is not listed, the one that most metrics compare with."""
    standard = files.reference()
    used: dict[str, int] = {}
    for file in (files.path / "metric-scores" / files.lp).glob(f"*{SEGMENTS}"):
        _, compared = _split(file.name.removesuffix(SEGMENTS))
        used[compared] = used.get(compared, 0) + 1
    listed = official(files.name, files.lp)
    if standard is None or used.get(standard, 0) > 0 or (listed is not None and listed.reference == standard):
        return standard
    return max((name for name in used if name in files.references), key=lambda name: used[name], default=standard)


def _metrics(
    files: EvalFolder, systems: tuple[str, ...], standard: str | None, named: Sequence[str] | None, human: Scores
) -> tuple[list[Scores], list[str]]:
    folder = files.path / "metric-scores" / files.lp
    names = sorted({file.name.removesuffix(end) for end in (SEGMENTS, SYSTEMS) for file in folder.glob(f"*{end}")})
    fitting = {name: _split(name) for name in names if _split(name)[1] in (SOURCE_ONLY, standard)}
    bases = [base for base, _ in fitting.values()]
    # BLEU-refA is BLEU in every language pair, whatever the reference. BLEU-src keeps its suffix in all of them where
    # one of them has both, so that each is averaged with itself.
    compared_in_any = _with_reference(files)
    shown = {
        name: name if compared == SOURCE_ONLY and base in compared_in_any else base
        for name, (base, compared) in fitting.items()
    }
    if named is not None:
        unknown = [word for word in named if word not in names and word not in bases]
        if unknown:
            raise UsageError(f"{folder}: no metric {unknown[0]!r}; found {', '.join(shown.values()) or 'none'}")
        # A full name may have another reference than the standard one.
        chosen = [name for name in names if name in named or (name in fitting and fitting[name][0] in named)]
        fitting = {name: _split(name) for name in chosen}
    metrics, notes = [], []
    for name, (_, compared) in fitting.items():
        try:
            metrics.append(_metric(files, folder / name, systems, shown.get(name, name), compared, human))
        except InputError as exc:
            if named is not None:
                raise
            label = shown.get(name, name)
            notes.append(f"{label} is left out: {str(exc).removeprefix(f'{label}: ')}")
    return metrics, notes


def _with_reference(files: EvalFolder) -> set[str]:
    """Metrics that compare with a reference in any language pair of the test set."""
    folder = files.path / "metric-scores"
    names = [file.name.removesuffix(end) for end in (SEGMENTS, SYSTEMS) for file in folder.glob(f"*/*{end}")]
    return {base for base, compared in map(_split, names) if compared != SOURCE_ONLY}


def _metric(files: EvalFolder, stem: Path, systems: tuple[str, ...], name: str, compared: str, human: Scores) -> Scores:
    by_segment, by_system = (stem.with_name(stem.name + end) for end in (SEGMENTS, SYSTEMS))
    segments = None
    if lexists(by_segment):
        scores = _segment_scores(files, by_segment)
        segments = np.array([scores[system] for system in _all_of(systems, scores, by_segment)])
    metric = Scores(
        name,
        segments,
        _whole(by_system, systems),
        reference=compared,
    )
    assert human.segments is not None
    check_metric(metric, human.segments)
    return metric


def _evaluator(files: EvalFolder, name: str, systems: tuple[str, ...]) -> Scores:
    """Other people's scores; they may lack some, which a study of human parity takes into account."""
    path = files.human_file(name)
    scores = _segment_scores(files, path)
    return Scores(name, np.array([scores[system] for system in _all_of(systems, scores, path)]), kind="human")


def _segment_scores(files: EvalFolder, path: Path) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    for number, system, _, score in files.entries(path):
        scores.setdefault(system, []).append(score_of(score, f"{path}, line {number}", "score"))
    return scores


def _whole(path: Path, systems: tuple[str, ...]) -> Floats | None:
    """Scores [systems] from a file of `system<TAB>score` lines, one for each system; None where there is no file."""
    if not lexists(path):
        return None
    scores: dict[str, float] = {}
    for number, line in lines(path):
        where = f"{path}, line {number}"
        system, tab, score = line.rstrip("\r").partition("\t")
        if not tab:
            raise InputError(f"{where}: expected system<TAB>score, found {line!r:.60}")
        value = score_of(score, where, "score")
        if not np.isnan(value):
            scores[system] = value
    return np.array([scores[system] for system in _all_of(systems, scores, path)])


def _all_of(systems: tuple[str, ...], scores: Mapping[str, object], path: Path) -> tuple[str, ...]:
    missing = [system for system in systems if system not in scores]
    if missing:
        raise InputError(f"{path}: no score of {', '.join(missing)}; expected one of every system that people scored")
    return systems


def _split(name: str) -> tuple[str, str]:
    """BLEU-refA -> BLEU and refA; a metric that compares with several references has them all there."""
    base, _, compared = name.rpartition("-")
    return base, compared


def _excluded(gold: dict[str, list[float]], systems: tuple[str, ...], listed: bool) -> list[str]:
    scored = [name for name, values in gold.items() if name not in systems and not np.isnan(values).all()]
    why = ", as in the official results" if listed else " (references)"
    return [f"not among the systems{why}: {', '.join(sorted(scored))}"] if scored else []


def _texts(files: EvalFolder, systems: tuple[str, ...], standard: str | None) -> Texts | None:
    folder = files.path / "system-outputs" / files.lp
    if not all((folder / f"{system}.txt").is_file() for system in systems):
        return None
    reference = None if standard is None else files.reference_texts(standard)
    # WMT's published scores count a byte order mark (AIRC of WMT23), and so does mbr-evaluate.
    return Texts(files.sources, [files.outputs(system, keep_bom=True) for system in systems], reference)


def document_scores(folder: str | Path, scores: ScoreSet) -> tuple[Floats | None, dict[str, Floats]]:
    """Scores of whole documents from `.doc.score` files: of people, and of metrics by name, where there are any.

    All are [systems, documents], for the documents of `scores` in order of their first segment.
    """
    files = EvalFolder.open(folder, scores.lp)
    every = list(dict.fromkeys(files.documents()))
    kept = [every.index(name) for name in dict.fromkeys(scores.documents)]

    def read(path: Path) -> Floats | None:
        if not lexists(path):
            return None
        rows: dict[str, list[float]] = {}
        for number, system, _, score in files.entries(path, len(every), "document"):
            rows.setdefault(system, []).append(score_of(score, f"{path}, line {number}", "score"))
        return np.array([rows[system] for system in _all_of(scores.systems, rows, path)])[:, kept]

    human = read(files.path / "human-scores" / f"{files.lp}.{scores.human.name}{DOCUMENTS}")
    metrics = {}
    for metric in scores.metrics:
        compared = metric.reference or SOURCE_ONLY
        stem = metric.name if metric.name.endswith(f"-{compared}") else f"{metric.name}-{compared}"
        values = read(files.path / "metric-scores" / files.lp / f"{stem}{DOCUMENTS}")
        if values is not None and metric.kind == "metric":
            metrics[metric.name] = values
    return human, metrics
