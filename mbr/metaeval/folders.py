"""Human and metric scores from a test set of mt-metrics-eval.

Beside the texts and human scores that `pear.data.folders` reads, such a folder has
`metric-scores/<lp>/<metric>-<reference or src>.seg.score` and `.sys.score`. Which systems and metrics count follows the
official results: all systems but the references (human translations are systems only on request) and listed
outliers, if people scored them; metrics that compare with the standard reference or with none, if they scored all of
these systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os.path import lexists
from pathlib import Path

import numpy as np

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines
from mbr.metaeval.values import Floats, Scores, ScoreSet, Texts, check_metric, score_of
from pear.data.folders import EvalFolder, is_test_set

# Test sets whose references and outliers are listed here and in `pear.data.folders`.
KNOWN_SETS = ("wmt19", "wmt20", "wmt21.news", "wmt21.tedtalks", "wmt21.flores", "wmt22", "wmt23")
SEGMENTS, SYSTEMS = ".seg.score", ".sys.score"
SOURCE_ONLY = "src"

# Systems that the official results leave out.
OUTLIERS = {
    ("wmt20", "cs-en"): ("zlabs-nlp.1149", "CUNI-DocTransformer.1457"),
    ("wmt20", "de-en"): ("yolo.1052", "zlabs-nlp.1153", "WMTBiomedBaseline.387"),
    ("wmt20", "en-cs"): ("zlabs-nlp.1151", "Online-G.1555"),
    ("wmt20", "en-de"): ("zlabs-nlp.179", "WMTBiomedBaseline.388", "Online-G.1556"),
    ("wmt20", "en-iu"): ("UEDIN.1281", "OPPO.722", "UQAM_TanLe.521"),
    ("wmt20", "en-ja"): ("Online-G.1557", "SJTU-NICT.370"),
    ("wmt20", "en-pl"): ("Online-Z.1634", "zlabs-nlp.180", "Online-A.1576"),
    ("wmt20", "en-ta"): ("TALP_UPC.1049", "SJTU-NICT.386", "Online-G.1561"),
    ("wmt20", "iu-en"): ("NiuTrans.1206", "Facebook_AI.729"),
    ("wmt20", "ja-en"): ("Online-G.1564", "zlabs-nlp.66", "Online-Z.1640"),
    ("wmt20", "pl-en"): ("zlabs-nlp.1162",),
    ("wmt20", "ru-en"): ("zlabs-nlp.1164",),
    ("wmt20", "ta-en"): ("Online-G.1568", "TALP_UPC.192"),
    ("wmt20", "zh-en"): ("WMTBiomedBaseline.183",),
    ("wmt22", "en-de"): ("M2M100_1.2B-B4",),
    ("wmt23", "en-de"): ("synthetic_ref",),
    ("wmt23", "zh-en"): ("synthetic_ref",),
}


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
    human: str = "mqm",
    *,
    reference: str | None = None,
    human_systems: bool = False,
    outliers: bool = False,
    metrics: Sequence[str] | None = None,
    evaluators: Sequence[str] = (),
) -> ScoreSet:
    """One language pair of a test set. Systems are sorted by name.

    `metrics` chooses some, by name with or without what they compare with; `evaluators` are other human scores, which
    become metrics of the kind "human". A metric that lacks a score is left out with a note.

    Raises:
        InputError: a metric that was named lacks a score, or people scored no system.
    """
    files = EvalFolder.open(folder, lp)
    standard = files.reference(reference) if reference else _most_used(files)
    gold = _segment_scores(files, files.human_file(human))
    left_out = set(files.references) - ({standard} if standard else set())
    dropped = {standard} if human_systems else {*left_out, standard}
    if not outliers:
        dropped |= set(OUTLIERS.get((files.name, files.lp), ()))
    systems = tuple(sorted(name for name in gold if name not in dropped and not np.isnan(gold[name]).all()))
    if not systems:
        raise InputError(f"{files.human_file(human)}: people scored no system but references")
    notes = _excluded(gold, systems)
    if files.name not in KNOWN_SETS:
        notes.append(
            f"the official reference and outliers of {files.name} are not known here: metrics that compare with "
            f"{standard or 'no reference'} are taken (--reference), and no system is an outlier (--exclude-systems)"
        )
    people = Scores(human, np.array([gold[name] for name in systems]), kind="human")
    official = files.path / "human-scores" / f"{files.lp}.{human}{SYSTEMS}"
    people = replace(people, systems=_whole(official, systems) if lexists(official) else None)
    scored, left_out_notes = _metrics(files, systems, standard, metrics, people)
    others = [_evaluator(files, name, systems) for name in evaluators]
    return ScoreSet(
        name=files.name,
        lp=files.lp,
        human=people,
        systems=systems,
        segments=tuple(str(number) for number in range(1, len(files.sources) + 1)),
        metrics=(*others, *scored),
        texts=_texts(files, systems, standard),
        reference=standard,
        dropped=tuple(sorted({*gold, *files.references} - set(systems))),
        notes=(*notes, *left_out_notes),
    )


def _most_used(files: EvalFolder) -> str | None:
    """The standard reference; where it is not listed, the one that most metrics compare with."""
    standard = files.reference()
    used: dict[str, int] = {}
    for file in (files.path / "metric-scores" / files.lp).glob(f"*{SEGMENTS}"):
        _, compared = _split(file.name.removesuffix(SEGMENTS))
        used[compared] = used.get(compared, 0) + 1
    if standard is None or used.get(standard, 0) > 0:
        return standard
    return max((name for name in used if name in files.references), key=lambda name: used[name], default=standard)


def _metrics(
    files: EvalFolder, systems: tuple[str, ...], standard: str | None, named: Sequence[str] | None, human: Scores
) -> tuple[list[Scores], list[str]]:
    folder = files.path / "metric-scores" / files.lp
    names = sorted({file.name.removesuffix(end) for end in (SEGMENTS, SYSTEMS) for file in folder.glob(f"*{end}")})
    fitting = {name: _split(name) for name in names if _split(name)[1] in (SOURCE_ONLY, standard)}
    bases = [base for base, _ in fitting.values()]
    # BLEU-refA is BLEU, unless there are BLEU-refA and BLEU-src.
    shown = {name: base if bases.count(base) == 1 else name for name, (base, _) in fitting.items()}
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


def _metric(files: EvalFolder, stem: Path, systems: tuple[str, ...], name: str, compared: str, human: Scores) -> Scores:
    by_segment, by_system = (stem.with_name(stem.name + end) for end in (SEGMENTS, SYSTEMS))
    segments = None
    if lexists(by_segment):
        scores = _segment_scores(files, by_segment)
        segments = np.array([scores[system] for system in _all_of(systems, scores, by_segment)])
    metric = Scores(
        name,
        segments,
        _whole(by_system, systems) if lexists(by_system) else None,
        reference=None if compared == SOURCE_ONLY else compared,
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


def _whole(path: Path, systems: tuple[str, ...]) -> Floats:
    """Scores [systems] from a file of `system<TAB>score` lines, one for each system."""
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


def _excluded(gold: dict[str, list[float]], systems: tuple[str, ...]) -> list[str]:
    scored = [name for name, values in gold.items() if name not in systems and not np.isnan(values).all()]
    return [f"not among the systems, as in the official results: {', '.join(sorted(scored))}"] if scored else []


def _texts(files: EvalFolder, systems: tuple[str, ...], standard: str | None) -> Texts | None:
    folder = files.path / "system-outputs" / files.lp
    if not all((folder / f"{system}.txt").is_file() for system in systems):
        return None
    reference = None if standard is None else files.reference_texts(standard)
    # WMT's published scores count a byte order mark (AIRC of WMT23), and so does mbr-evaluate.
    return Texts(files.sources, [files.outputs(system, keep_bom=True) for system in systems], reference)
