"""Does a metric score a post-edit above the translation that it corrects? (RESUME, Noh et al. 2024, section 6.2)

The machine translation serves as the reference. A metric that only compares with the reference can hardly score the
post-edit above the machine translation itself; the post-edit rate is how often it does, among items that were changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from candidates.common.errors import InputError
from candidates.common.text import lines
from candidates.common.words import counted
from mbr.metaeval.values import Floats
from pear.data.tables import is_archive, member, table_lines

# (sources, references, candidates) -> scores
Metric = Callable[[Sequence[str], Sequence[str], Sequence[str]], Any]


@dataclass(frozen=True)
class PostEdits:
    sources: list[str]
    before: list[str]  # machine translations
    after: list[str]  # post-edits

    def changed(self) -> PostEdits:
        rows = [row for row in zip(self.sources, self.before, self.after, strict=True) if row[1] != row[2]]
        return PostEdits(*(list(column) for column in zip(*rows, strict=True))) if rows else PostEdits([], [], [])


@dataclass(frozen=True)
class PostEditRate:
    metric: str
    rate: float  # of changed items whose post-edit scores higher
    ties: float  # of those for which both score the same
    items: int  # that were changed
    unchanged: int

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def read_post_edits(path: str | Path | None = None, files: Sequence[str | Path] = ()) -> PostEdits:
    """From an archive of MLQE-PE (`*.src`, `*.mt`, `*.pe`), or from three files of lines in this order."""
    columns = []
    if path is not None:
        if not is_archive(path):
            raise InputError(f"{path}: expected a .tar.gz of MLQE-PE; give plain files with --sources --before --after")
        for suffix in (".src", ".mt", ".pe"):
            member(Path(path), suffix)  # raises where it is missing
            columns.append([text.removesuffix("\r") for _, text in table_lines(path, suffix)])
        names = [f"{path} ({suffix})" for suffix in (".src", ".mt", ".pe")]
    else:
        columns = [[text.removesuffix("\r") for _, text in lines(file)] for file in files]
        names = [str(file) for file in files]
    for name, column in zip(names[1:], columns[1:], strict=True):
        if len(column) != len(columns[0]):
            raise InputError(
                f"{name} has {counted(len(column), 'line')}, but {names[0]} has {len(columns[0])}; expected the same"
            )
    if not columns or not columns[0]:
        raise InputError(f"{', '.join(names) or 'post-edits'}: no lines; expected sources, translations, post-edits")
    return PostEdits(*columns)


def post_edit_rate(name: str, metric: Metric, edits: PostEdits) -> PostEditRate:
    """`metric` scores (sources, references, candidates); one that needs no reference may ignore it."""
    after, before = scored_edits(name, metric, edits)
    unchanged = len(edits.sources) - len(after)
    return PostEditRate(name, float((after > before).mean()), float((after == before).mean()), len(after), unchanged)


def scored_edits(name: str, metric: Metric, edits: PostEdits) -> tuple[Floats, Floats]:
    """Scores of post-edits and of the translations they correct, of items that were changed."""
    changed = edits.changed()
    if not changed.sources:
        raise InputError("no item was changed by its post-edit; expected at least one that differs")
    both = metric([*changed.sources] * 2, [*changed.before] * 2, [*changed.after, *changed.before])
    after, before = np.split(np.asarray(both, np.float64), 2)
    if not (np.isfinite(after).all() and np.isfinite(before).all()):
        raise InputError(f"{name} returned a score that is not a number; try --dtype float32")
    return after, before
