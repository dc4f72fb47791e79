"""Small judgments, and files of them in the formats of annotation campaigns."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

from pear.data import (
    Judgment,
)

CSV = 'lp,system,doc,seg_id,rater,src,mt,ref,score\nen_de,S,d,1,r1,"A dog, here.",Ein Hund.,Hund.,-5\n'
MQM_HEADER = "system|doc|seg_id|rater|source|target|category|severity"
DA = "index\toriginal\ttranslation\tscores\tmean\tz_scores\tz_mean\n7\tA dog.\tEin Hund.\t[60, 80]\t70\t[0, 1]\t0.5\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def write_tsv(path: Path, *rows: str) -> Path:
    """Rows with `|` between their cells."""
    return write(path, "".join(row.replace("|", "\t") + "\n" for row in rows))


def archive(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/").replace("_", "."))
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return path


def judged(source: str, *scores: float, **rest: Any) -> list[Judgment]:
    return [Judgment(source, f"{source} {index}", score, "en-de", **rest) for index, score in enumerate(scores)]
