"""The files of mbr-evaluate: outputs of systems, sources and references, all of one length.

A system is a file of lines, mbr-decode's JSONL, or standard input; a folder is one system for each of its `*.txt`, as
in mt-metrics-eval. Beside a file that mbr-decode wrote lies its `.run.yaml`, which names the utilities that chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from candidates.command.config import config_path
from candidates.common.errors import InputError, MbrError, UsageError
from candidates.common.text import printable
from candidates.common.words import counted
from mbr.cli.common.texts import Texts, read_texts

SUFFIXES = (".gz", ".txt", ".jsonl")


def read_systems(words: Sequence[str], references: Sequence[Texts]) -> tuple[dict[str, Texts], list[str]]:
    """Systems by name, from words such as `NAME=FILE`, `FILE` and `FOLDER`; and the names that were left out.

    A file of a folder that equals a reference is left out: mt-metrics-eval puts references there too.
    """
    systems: dict[str, Texts] = {}
    left_out = []
    for word in words:
        for name, path, listed in _named_files(word):
            if not printable(name):
                raise UsageError(f"the name {name!r} of a system holds a control character; give NAME=FILE without one")
            if name in systems:
                raise UsageError(f"two systems are called {name!r}: {systems[name].path} and {path}; give NAME=FILE")
            outputs = read_texts(path)
            if listed and any(outputs.texts == reference.texts for reference in references):
                left_out.append(name)
            else:
                systems[name] = outputs
    if not systems:
        raise InputError(f"no system in {', '.join(words)}: all files there hold references")
    return systems, left_out


def files_of(words: Sequence[str]) -> list[str]:
    """The files that such words stand for, before any is read."""
    return [path for word in words for _, path, _ in _named_files(word)]


def check_lengths(systems: dict[str, Texts], others: Sequence[Texts]) -> None:
    """Refuse files of different lengths; the first of the others (or of the systems) sets the number of lines."""
    first, *rest = [*others, *systems.values()]
    for file in rest:
        if len(file.texts) != len(first.texts):
            short, long = sorted((file, first), key=lambda candidate: len(candidate.texts))
            raise InputError(
                f"{short.path} has {counted(len(short.texts), 'line')}, but {long.path} has {len(long.texts)}: line "
                f"{len(short.texts) + 1} is the first that is missing; expected a line for each segment in every file"
            )


def choosing_utilities(path: str) -> list[str]:
    """The utility that chose these outputs and that of its first stage, if mbr-decode wrote them here."""
    from urllib.parse import unquote

    from mbr.signature import Signature

    try:
        head = config_path(Path(path)).read_text(encoding="utf-8").partition("\n")[0]
        signature = Signature.parse(head.removeprefix("# "))
        first_stage = [signature["prefilter"].rpartition(":")[0]] if "prefilter" in signature else []
        terms = [
            unquote(key.removeprefix("add.")) for key in signature if key.count(".") == 1 and key.startswith("add.")
        ]
        return [signature["utility"], *terms, *first_stage]
    except (OSError, ValueError, KeyError, MbrError):  # no such file, or not one of mbr-decode's
        return []


def _named_files(word: str) -> list[tuple[str, str, bool]]:
    """(name, path, whether it is from a folder) of the systems that a word stands for."""
    name, equals, path = word.partition("=")
    if not equals or Path(word).exists():
        name, path = "", word
    elif not name or not path:
        raise UsageError(f"--systems {word}: expected NAME=FILE, a file or a folder")
    if path == "-":
        return [(name or "stdin", path, False)]
    if Path(path).is_dir():
        if name:
            raise UsageError(
                f"--systems {word}: {path} is a folder, whose files have names of their own; leave out NAME="
            )
        files = sorted(str(file) for file in Path(path).glob("*.txt"))
        if not files:
            raise InputError(f"{path}: no *.txt in this folder; expected one file for each system")
        return [(_stem(file), file, True) for file in files]
    return [(name or _stem(path), path, False)]


def _stem(path: str) -> str:
    name = Path(path).name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name or Path(path).name
