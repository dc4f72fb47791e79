"""Judgments from a test set of mt-metrics-eval: a folder of line-aligned files.

`<root>/<test set>/sources/<lp>.txt`, `references/<lp>.<name>.txt`, `system-outputs/<lp>/<system>.txt`,
`human-scores/<lp>.<human>.seg.score` (`system<TAB>score|None`, in segment order) and `documents/<lp>.docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from candidates.errors import InputError, UsageError
from candidates.text import lines
from pear.data.record import Judgment, judgment

# Where refA is not the standard reference of the official results.
STANDARD_REFERENCE = {("wmt23", "he-en"): "refB"}


def is_test_set(path: str | Path) -> bool:
    return (Path(path) / "sources").is_dir() and (Path(path) / "human-scores").is_dir()


def read_test_set(
    folder: str | Path, *, lp: str, human: str, reference: str | None, reference_systems: bool
) -> Iterator[Judgment]:
    """The annotated segments of every system; `None` scores are skipped.

    `lp` may be left out where the folder has one language pair. `reference` names the reference to carry along
    (refA where there is one). References that were judged as if systems are skipped unless `reference_systems`.
    """
    folder = Path(folder)
    lp = lp or _only_lp(folder)
    sources = _column(folder / "sources" / f"{lp}.txt")
    references = _references(folder, lp)
    reference = reference or _standard(folder, lp, references)
    if reference is not None and reference not in references:
        raise UsageError(f"{folder}: no reference {reference!r} for {lp}; found {', '.join(references) or 'none'}")
    texts = None if reference is None else _aligned(references[reference], sources)
    documents = _documents(folder / "documents" / f"{lp}.docs", sources)
    outputs: dict[str, list[str]] = {}
    seen: dict[str, int] = {}
    scores = folder / "human-scores" / f"{lp}.{human}.seg.score"
    if not scores.is_file():
        raise InputError(
            f"{folder}: no human scores {scores.name}; found {_humans(folder, lp)}; choose one with human="
        )
    for number, line in lines(scores):
        where = f"{scores}, line {number}"
        system, tab, score = line.rstrip("\r").partition("\t")
        if not tab:
            raise InputError(f"{where}: expected system<TAB>score, found {line!r:.60}")
        index = seen.get(system, 0)
        seen[system] = index + 1
        if score == "None" or (system in references and not reference_systems):
            continue
        if system not in outputs:
            outputs[system] = _aligned(folder / "system-outputs" / lp / f"{system}.txt", sources)
        if index >= len(sources):
            raise InputError(f"{where}: more scores of {system} than the {len(sources)} sources; expected one each")
        yield judgment(
            where,
            sources[index],
            outputs[system][index],
            score,
            lp=lp,
            system=system,
            document=documents[index],
            segment=str(index + 1),
            reference=None if texts is None else texts[index],
        )
    for system, count in seen.items():
        if count != len(sources):
            raise InputError(f"{scores}: {count} scores of {system}, but {len(sources)} sources; was it cut off?")
    if not seen:
        raise InputError(f"{scores}: empty; expected lines system<TAB>score")


def _column(path: Path) -> list[str]:
    return [text.removesuffix("\r") for _, text in lines(path)]


def _aligned(path: Path, sources: list[str]) -> list[str]:
    texts = _column(path)
    if len(texts) != len(sources):
        raise InputError(f"{path}: {len(texts)} lines, but there are {len(sources)} sources; expected one each")
    return texts


def _only_lp(folder: Path) -> str:
    found = sorted(file.stem for file in (folder / "sources").glob("*.txt"))
    if len(found) != 1:
        raise UsageError(f"{folder} has the language pairs {', '.join(found) or 'none'}; choose one with lp=")
    return found[0]


def _references(folder: Path, lp: str) -> dict[str, Path]:
    files = sorted((folder / "references").glob(f"{lp}.*.txt"))
    return {file.name.removeprefix(f"{lp}.").removesuffix(".txt"): file for file in files}


def _standard(folder: Path, lp: str, references: dict[str, Path]) -> str | None:
    preferred = STANDARD_REFERENCE.get((folder.resolve().name, lp), "refA")
    return preferred if preferred in references else next(iter(references), None)


def _documents(path: Path, sources: list[str]) -> list[str]:
    """The last column is the document, the first its domain."""
    if not path.is_file():
        return [""] * len(sources)
    return [line.split("\t")[-1] for line in _aligned(path, sources)]


def _humans(folder: Path, lp: str) -> str:
    files = sorted((folder / "human-scores").glob(f"{lp}.*.seg.score"))
    return ", ".join(file.name.removeprefix(f"{lp}.").removesuffix(".seg.score") for file in files) or "none"
