"""A word-translation table: which words of one language stand for which of the other, in one small file.

The file is an npz archive without pickled objects: the words of both languages, the pairs that are translations of each
other with the probabilities of both directions (a byte each, 0.05 nats apart), and a header with what it was
trained on. The digest of the file is its revision.

    table = load_table("en-de")
    table.coverage("A dog runs.", ["Ein Hund läuft.", "Ein Hund."])
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates.common.errors import ModelError
from mbr.alignment.words import words

NULL = 0  # the number of the word that stands for none
VERSION = 1
STEP = 0.05  # nats between two codes
NONE = 255  # the code of no translation
FLOOR = 1e-5  # probability of what no word accounts for: far below a rare translation, far above 0
SAME_WORD = 0.5  # a word that the table does not know is its own translation: names, numbers
MOST_BYTES = 2**30  # of an unpacked file
ARRAYS = ("header", "source_words", "target_words", "starts", "targets", "of_source", "of_target")

BUNDLED = Path(__file__).parent.parent / "bundled"
FILE = "words.npz"

Floats = NDArray[np.float64]
# exp(-0.05 * code), and 0 for the last code
PROBABILITIES = np.append(np.exp(-STEP * np.arange(NONE)), 0.0)


@dataclass(frozen=True)
class WordTable:
    """Translations by source word: those of word i are `targets[starts[i] : starts[i + 1]]`. Word 0 is NULL.

    Args:
        of_source: codes of p(source word | target word), one per entry.
        of_target: codes of p(target word | source word), one per entry.
        header: `languages`, `data`, `pairs`: what it was trained on.
        revision: digest of its file, for signatures.
    """

    source_words: Sequence[str]
    target_words: Sequence[str]
    starts: NDArray[np.int64]
    targets: NDArray[np.int64]
    of_source: NDArray[np.uint8]
    of_target: NDArray[np.uint8]
    header: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""

    def coverage(self, source: str, texts: Sequence[str]) -> Floats:
        """Mean over the source's words of log p(word | words of the candidate, or none) [N]: is all of it said?"""
        looked_up = self._look_up(source, texts)
        sums = looked_up.counts @ looked_up.of_source.T + looked_up.null_of_source  # [N, source words]
        places = looked_up.counts.sum(axis=1, keepdims=True) + 1
        logs = np.log(np.maximum(sums / places, FLOOR))
        return np.asarray(logs.mean(axis=1)) if logs.shape[1] else np.zeros(len(texts))

    def coverage_back(self, source: str, texts: Sequence[str]) -> Floats:
        """Mean over the candidate's words of log p(word | words of the source, or none) [N]: is nothing else said?"""
        looked_up = self._look_up(source, texts)
        sums = looked_up.of_target.sum(axis=0) + looked_up.null_of_target  # [candidate words]
        logs = np.log(np.maximum(sums / (len(looked_up.of_target) + 1), FLOOR))
        lengths = looked_up.counts.sum(axis=1)
        # A candidate without words covers nothing of the source.
        return np.asarray(np.where(lengths > 0, looked_up.counts @ logs / np.maximum(lengths, 1), np.log(FLOOR)))

    def known(self, source: str, texts: Sequence[str]) -> tuple[int, int, int, int]:
        """Words of the source that are known, all of them, and the same of the candidates."""
        ours = [word in self._source_numbers for word in words(source)]
        theirs = [word in self._target_numbers for text in texts for word in words(text)]
        return sum(ours), len(ours), sum(theirs), len(theirs)

    @cached_property
    def _source_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.source_words)}

    @cached_property
    def _target_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.target_words)}

    def _look_up(self, source: str, texts: Sequence[str]) -> _LookedUp:
        tokens = words(source)
        counted = [Counter(words(text)) for text in texts]
        kinds = list(dict.fromkeys(word for counts in counted for word in counts))
        place = {word: column for column, word in enumerate(kinds)}
        counts = np.zeros((len(texts), len(kinds)))
        for row, counter in enumerate(counted):
            counts[row, [place[word] for word in counter]] = list(counter.values())
        columns = np.full(len(self.target_words), -1)  # of the candidates' words, by number
        numbers = np.array([self._target_numbers.get(word, NULL) for word in kinds], np.int64)
        columns[numbers[numbers != NULL]] = np.flatnonzero(numbers != NULL)
        of_source, of_target = np.zeros((2, len(tokens), len(kinds)))
        null_of_source, null_of_target = np.zeros(len(tokens)), np.zeros(len(kinds))
        for row, word in enumerate(tokens):
            number = self._source_numbers.get(word, NULL)
            if number != NULL:
                targets, ours, theirs = self._entries(number)
                null_of_source[row] = ours[targets == NULL].sum()
                there = columns[targets] >= 0
                of_source[row, columns[targets[there]]] = ours[there]
                of_target[row, columns[targets[there]]] = theirs[there]
            column = place.get(word)
            if column is not None and NULL in (number, numbers[column]):
                of_source[row, column] = of_target[row, column] = SAME_WORD
        targets, _, theirs = self._entries(NULL)
        there = columns[targets] >= 0
        null_of_target[columns[targets[there]]] = theirs[there]
        return _LookedUp(counts, of_source, of_target, null_of_source, null_of_target)

    def _entries(self, number: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Target words of a source word, and both probabilities."""
        block = slice(self.starts[number], self.starts[number + 1])
        return self.targets[block], PROBABILITIES[self.of_source[block]], PROBABILITIES[self.of_target[block]]


@dataclass(frozen=True)
class _LookedUp:
    """What the table holds on one list."""

    counts: Floats  # [candidates, candidate words]
    of_source: Floats  # [source tokens, candidate words]
    of_target: Floats  # [source tokens, candidate words]
    null_of_source: Floats  # [source tokens]
    null_of_target: Floats  # [candidate words]


def encode(probabilities: Floats) -> NDArray[np.uint8]:
    """Codes of probabilities; what is too small is none."""
    with np.errstate(divide="ignore"):
        codes = np.round(-np.log(probabilities) / STEP)
    return np.asarray(np.clip(codes, 0, NONE).astype(np.uint8))


def table_bytes(table: WordTable) -> bytes:
    """The file of a table; the same table gives the same bytes."""
    stream = io.BytesIO()
    small = np.uint16 if len(table.target_words) < 2**16 else np.uint32
    np.savez_compressed(
        stream,
        header=_text(json.dumps({"version": VERSION, **table.header}, ensure_ascii=False)),
        source_words=_text("\n".join(table.source_words)),
        target_words=_text("\n".join(table.target_words)),
        starts=table.starts.astype(np.uint32),
        targets=table.targets.astype(small),
        of_source=table.of_source,
        of_target=table.of_target,
    )
    return stream.getvalue()


def bundled_tables() -> dict[str, Path]:
    """The tables that ship with the package, by language pair."""
    return {file.parent.name: file for file in sorted(BUNDLED.glob(f"*/{FILE}"))}


def load_table(model: str | Path) -> WordTable:
    """A table by file or bundled name; `en-de@1a2b3c4d` also names the revision.

    Raises:
        ModelError: there is none, it cannot be read, or its revision is another.
    """
    name, _, wanted = str(model).partition("@")
    bundled = bundled_tables()
    path = bundled[name] if name in bundled else Path(model).expanduser()
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise ModelError(
            f"{model}: no word-translation table can be read there ({exc.strerror}); expected a file that "
            f"`mbr-tune --parallel` wrote, or one of {', '.join(bundled)}"
        ) from exc
    revision = hashlib.sha256(raw).hexdigest()[:8]
    if name in bundled and wanted not in ("", revision):
        raise ModelError(f"{model}: the bundled table {name} has revision {revision}, not {wanted}; name that one")
    try:
        return _parsed(raw, revision)
    except (ValueError, KeyError, IndexError, TypeError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as exc:
        raise ModelError(
            f"{path}: not a word-translation table ({exc}); expected a file that `mbr-tune --parallel` wrote. Train it "
            "again if it is damaged."
        ) from exc


def _parsed(raw: bytes, revision: str) -> WordTable:
    if sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(raw)).infolist()) > MOST_BYTES:
        raise ValueError(f"over {MOST_BYTES >> 20} MB unpacked")
    with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in ARRAYS}
    header = json.loads(arrays["header"].tobytes())
    if header.get("version") != VERSION:
        raise ValueError(f"version {header.get('version')!r} of the format; this release reads {VERSION}")
    source_words, target_words = (arrays[name].tobytes().decode().split("\n") for name in ARRAYS[1:3])
    starts, targets = arrays["starts"].astype(np.int64), arrays["targets"].astype(np.int64)
    of_source, of_target = (arrays[name].astype(np.uint8, casting="equiv") for name in ARRAYS[5:])
    if len(starts) != len(source_words) + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError("blocks that do not fit the words")
    if not starts[-1] == len(targets) == len(of_source) == len(of_target) or targets.max(initial=0) >= len(
        target_words
    ):
        raise ValueError("entries that do not fit the words")
    return WordTable(source_words, target_words, starts, targets, of_source, of_target, header, revision)


def _text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)
