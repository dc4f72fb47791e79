"""A test set of mt-metrics-eval: a folder of line-aligned files, and the judgments in it.

`<root>/<test set>/sources/<lp>.txt`, `references/<lp>.<name>.txt`, `system-outputs/<lp>/<system>.txt`,
`human-scores/<lp>.<human>.seg.score` (`system<TAB>score|None`, in segment order) and `documents/<lp>.docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from candidates.common.errors import InputError, UsageError
from candidates.common.text import lines
from candidates.common.words import counted
from pear.data.record import Judgment, judgment
from pear.data.test_sets import official

USUAL_REFERENCES = ("refA", "ref")


def is_test_set(path: str | Path) -> bool:
    return (Path(path) / "sources").is_dir() and (Path(path) / "human-scores").is_dir()


@dataclass(frozen=True)
class EvalFolder:
    """The files of one language pair of a test set. Texts are read when they are asked for."""

    path: Path
    lp: str

    @classmethod
    def open(cls, path: str | Path, lp: str = "") -> EvalFolder:
        """`lp` may be left out where the folder has one language pair."""
        pairs = sorted(file.stem for file in (Path(path) / "sources").glob("*.txt"))
        if not lp and len(pairs) != 1:
            raise UsageError(f"{path} has the language pairs {', '.join(pairs) or 'none'}; choose one (--lp)")
        if lp and lp not in pairs:
            raise InputError(f"{path}: no sources/{lp}.txt; found {', '.join(pairs) or 'no language pair'}")
        return cls(Path(path), lp or pairs[0])

    @property
    def name(self) -> str:
        """That of the test set, such as wmt23."""
        return self.path.resolve().name

    @cached_property
    def sources(self) -> list[str]:
        return _column(self.path / "sources" / f"{self.lp}.txt")

    @cached_property
    def references(self) -> dict[str, Path]:
        files = sorted((self.path / "references").glob(f"{self.lp}.*.txt"))
        return {file.name.removeprefix(f"{self.lp}.").removesuffix(".txt"): file for file in files}

    def reference(self, name: str | None = None) -> str | None:
        """The name of a reference: this one, which must be there, or the one that the official results use."""
        if name is not None:
            if name not in self.references:
                available = ", ".join(self.references) or "none"
                raise UsageError(f"{self.path}: no reference {name!r} for {self.lp}; found {available}")
            return name
        listed = official(self.name, self.lp)
        preferred = (*([] if listed is None else [listed.reference]), *USUAL_REFERENCES)
        return next((name for name in preferred if name in self.references), next(iter(self.references), None))

    def reference_texts(self, name: str) -> list[str]:
        return self._aligned(self.references[name])

    def outputs(self, system: str, *, keep_bom: bool = False) -> list[str]:
        """A byte order mark is no content, unless scores shall be those of tools that count it."""
        return self._aligned(self.path / "system-outputs" / self.lp / f"{system}.txt", keep_bom=keep_bom)

    def documents(self) -> list[str]:
        """The document of each segment, empty where that is not known."""
        return [document for _, document in self.document_lines()]

    def document_lines(self) -> list[tuple[str, str]]:
        """The domain and the document of each segment: first and last column of `documents/<lp>.docs`."""
        path = self.path / "documents" / f"{self.lp}.docs"
        if not path.is_file():
            return [("", "")] * len(self.sources)
        columns = [line.split("\t") if "\t" in line else line.split() or [""] for line in self._aligned(path)]
        return [(cells[0] if len(cells) > 1 else "", cells[-1]) for cells in columns]

    def human_file(self, human: str, suffix: str = ".seg.score") -> Path:
        """The file of these human judgments; an error that names those there are."""
        path = self.path / "human-scores" / f"{self.lp}.{human}{suffix}"
        if not path.is_file():
            files = sorted((self.path / "human-scores").glob(f"{self.lp}.*{suffix}"))
            names = [file.name.removeprefix(f"{self.lp}.").removesuffix(suffix) for file in files]
            raise InputError(
                f"{self.path}: no human scores {path.name}; found {', '.join(names) or 'none'}; choose one (--human)"
            )
        return path

    def entries(
        self, path: Path, count: int | None = None, what: str = "source"
    ) -> Iterator[tuple[int, str, int, str]]:
        """(line number, system, segment from 0, score) of a file with a line for each system and segment.

        The score is text, `None` where there is none. A file with too few or too many lines is an error. Scores of
        documents are read alike, with their number as `count`.
        """
        seen: dict[str, int] = {}
        count = len(self.sources) if count is None else count
        for number, line in lines(path):
            system, tab, score = line.rstrip("\r").partition("\t")
            if not tab:
                raise InputError(f"{path}, line {number}: expected system<TAB>score, found {line!r:.60}")
            segment = seen.get(system, 0)
            seen[system] = segment + 1
            if segment >= count:
                raise InputError(
                    f"{path}, line {number}: more scores of {system} than the {count} {what}s; expected one each"
                )
            yield number, system, segment, score
        for system, scores in seen.items():
            if scores != count:
                raise InputError(
                    f"{path}: {counted(scores, 'score')} of {system}, but {counted(count, what)}; was it cut off?"
                )
        if not seen:
            raise InputError(f"{path}: empty; expected lines system<TAB>score")

    def _aligned(self, path: Path, *, keep_bom: bool = False) -> list[str]:
        texts = _column(path, keep_bom=keep_bom)
        if len(texts) != len(self.sources):
            raise InputError(
                f"{path}: {counted(len(texts), 'line')}, but the number of sources is {len(self.sources)}; expected "
                "one each"
            )
        return texts


def read_test_set(
    folder: str | Path, *, lp: str, human: str, reference: str | None, reference_systems: bool
) -> Iterator[Judgment]:
    """The annotated segments of every system; `None` scores are skipped.

    `lp` may be left out where the folder has one language pair. `reference` names the reference to carry along
    (the official one where it is not given). References that were judged as if systems are skipped unless
    `reference_systems`.
    """
    files = EvalFolder.open(folder, lp)
    reference = files.reference(reference)
    texts = None if reference is None else files.reference_texts(reference)
    documents = files.documents()
    outputs: dict[str, list[str]] = {}
    scores = files.human_file(human)
    for number, system, segment, score in files.entries(scores):
        if score == "None" or (system in files.references and not reference_systems):
            continue
        if system not in outputs:
            outputs[system] = files.outputs(system)
        yield judgment(
            f"{scores}, line {number}",
            files.sources[segment],
            outputs[system][segment],
            score,
            lp=files.lp,
            system=system,
            document=documents[segment],
            segment=str(segment + 1),
            reference=None if texts is None else texts[segment],
        )


def _column(path: Path, *, keep_bom: bool = False) -> list[str]:
    return [text.removesuffix("\r") for _, text in lines(path, keep_bom=keep_bom)]
