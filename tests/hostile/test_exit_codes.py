"""One exit code per kind of trouble, in all commands: a table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from candidates.command.launch import COMMANDS
from candidates.common.errors import MbrError
from tests.conftest import write_jsonl
from tests.mbr.metaeval.made import write_set

pytestmark = pytest.mark.one_world

GERMAN = ("Ein Hund rennt.", "Der Hund läuft.", "Ein Hund läuft.", "Hunde laufen.")
DATA = ("--data", "data", "--test-set", "wmt99", "--lp", "en-de")

# Commands that end well; INPUT is the file that is spoiled, of the format behind the colon, MODEL the model.
READERS = {
    "mbr-decode --candidates": ("mbr-decode", "--utility", "chrf", "--candidates", "INPUT:jsonl"),
    "mbr-decode --sources": ("mbr-decode", "--utility", "chrf", "--nbest", "2", "--sources", "INPUT:txt"),
    "mbr-decode --config": ("mbr-decode", "--utility", "chrf", "--candidates", "lists.jsonl", "--config", "INPUT:yaml"),
    "mbr-decode --recipe": ("mbr-decode", "--candidates", "lists.jsonl", "--recipe", "INPUT:yaml"),
    "mbr-generate": ("mbr-generate", "--nbest", "2", "--sources", "INPUT:txt"),
    "mbr-compare --candidates": (
        *("mbr-compare", "--utility", "chrf", "--candidates", "INPUT:jsonl"),
        *("--study", "0", "--trials", "0", "--bootstrap", "0", "--no-cache"),
    ),
    "mbr-compare --references": (
        *("mbr-compare", "--utility", "chrf", "--judge", "chrf", "--candidates", "lists.jsonl"),
        *("--references", "INPUT:txt", "--study", "0", "--trials", "0", "--bootstrap", "0", "--no-cache"),
    ),
    "mbr-evaluate --systems": ("mbr-evaluate", "--systems", "INPUT:txt", "--references", "good.txt"),
    "mbr-evaluate --systems jsonl": ("mbr-evaluate", "--systems", "INPUT:jsonl", "--references", "good.txt"),
    "mbr-evaluate --references": ("mbr-evaluate", "--systems", "good.txt", "--references", "INPUT:txt"),
    "mbr-metaeval --table": ("mbr-metaeval", "--table", "INPUT:tsv", "--human", "mqm"),
    "mbr-metaeval --table jsonl": ("mbr-metaeval", "--table", "INPUT:jsonl", "--human", "mqm"),
    "mbr-metaeval --own": ("mbr-metaeval", *DATA, "--own", "mine=INPUT:tsv"),
    "mbr-metaeval oracle": ("mbr-metaeval", "oracle", "--errors", "INPUT:tsv"),
    "mbr-metaeval parity": ("mbr-metaeval", "parity", "--ratings", "INPUT:tsv"),
    "mbr-metaeval post-edits": (
        *("mbr-metaeval", "post-edits", "--sources", "INPUT:txt", "--before", "good.txt", "--after", "good.txt"),
    ),
    "mbr-metaeval post-edits --data": ("mbr-metaeval", "post-edits", "--data", "INPUT:tar.gz"),
    "pear score": ("pear", "score", "--model", "pear-folder", "--input", "INPUT:tsv"),
    "pear mbr": ("pear", "mbr", "--model", "pear-folder", "--input", "INPUT:jsonl"),
    "pear-score": ("pear-score", "INPUT:tsv", "--model", "pear-folder"),
    "pear-train": ("pear-train", "--data", "INPUT:csv", "--from", "pear-folder", "-o", "trained"),
    "pear-train jsonl": ("pear-train", "--data", "INPUT:jsonl", "--from", "pear-folder", "-o", "trained"),
    "pear-train --config": ("pear-train", "INPUT:yaml", "--data", "judgments.csv", "-o", "trained"),
}
LOADERS = {
    "mbr-decode --model": ("mbr-decode", "--utility", "pear", "--model", "MODEL", "--candidates", "lists.jsonl"),
    "mbr-decode --add": (
        *("mbr-decode", "--utility", "chrf", "--add", "cometkiwi=1,model=MODEL", "--candidates", "lists.jsonl"),
    ),
    "mbr-decode --translator": ("mbr-decode", "--utility", "chrf", "--sources", "good.txt", "--translator", "MODEL"),
    "mbr-generate": ("mbr-generate", "--sources", "good.txt", "--model", "MODEL"),
    "mbr-generate --convert": ("mbr-generate", "--convert", "MODEL", "-o", "converted"),
    "mbr-compare": (
        *("mbr-compare", "--utility", "chrf", "pear=MODEL", "--judge", "chrf", "--candidates", "lists.jsonl"),
        *("--references", "good.txt", "--study", "0", "--trials", "0", "--bootstrap", "0", "--no-cache"),
    ),
    "mbr-compare --judge": (
        *("mbr-compare", "--utility", "chrf", "--judge", "comet=MODEL", "--candidates", "lists.jsonl"),
        *("--references", "good.txt", "--study", "0", "--trials", "0", "--bootstrap", "0", "--no-cache"),
    ),
    "mbr-evaluate": (
        *("mbr-evaluate", "--systems", "good.txt", "--references", "good.txt", "--sources", "good.txt"),
        *("--judge", "comet=MODEL", "--no-cache"),
    ),
    "mbr-metaeval --score": ("mbr-metaeval", *DATA, "--score", "pear=MODEL", "--no-cache"),
    "mbr-metaeval --add": (
        *("mbr-metaeval", "post-edits", "--sources", "good.txt", "--before", "good.txt", "--after", "other.txt"),
        *("--add", "resume-metric=1,model=MODEL", "--no-cache"),
    ),
    "pear score": ("pear", "score", "--model", "MODEL", "--input", "pairs.tsv"),
    "pear mbr": ("pear", "mbr", "--model", "MODEL", "--input", "nbest.jsonl"),
    "pear-score": ("pear-score", "pairs.tsv", "--model", "MODEL"),
    "pear-train --from": ("pear-train", "--data", "judgments.csv", "--from", "MODEL", "-o", "trained"),
    "pear-train --from-encoder": ("pear-train", "--data", "judgments.csv", "--from-encoder", "MODEL", "-o", "trained"),
    "pear-convert": ("pear-convert", "MODEL", "converted"),
}
NAMES = {
    "mbr-decode --utility": ("mbr-decode", "--utility", "UNKNOWN", "--candidates", "lists.jsonl"),
    "mbr-decode --strategy": (
        "mbr-decode",
        "--utility",
        "chrf",
        "--strategy",
        "UNKNOWN",
        "--candidates",
        "lists.jsonl",
    ),
    "mbr-decode --recipe": ("mbr-decode", "--recipe", "UNKNOWN", "--candidates", "lists.jsonl"),
    "mbr-generate --method": ("mbr-generate", "--method", "UNKNOWN", "--sources", "good.txt"),
    "mbr-compare --utility": ("mbr-compare", "--utility", "UNKNOWN", "--candidates", "lists.jsonl"),
    "mbr-compare --strategy": (
        "mbr-compare",
        "--utility",
        "chrf",
        "--strategy",
        "UNKNOWN",
        "--candidates",
        "lists.jsonl",
    ),
    "mbr-compare --judge": ("mbr-compare", "--judge", "UNKNOWN", "--candidates", "lists.jsonl"),
    "mbr-compare --preset": ("mbr-compare", "--preset", "UNKNOWN", "--candidates", "lists.jsonl"),
    "mbr-evaluate --judge": ("mbr-evaluate", "--judge", "UNKNOWN", "--systems", "good.txt", "--references", "good.txt"),
    "mbr-evaluate --baseline": (
        *("mbr-evaluate", "--baseline", "UNKNOWN", "--systems", "good.txt", "--references", "good.txt"),
    ),
    "mbr-metaeval task": ("mbr-metaeval", "UNKNOWN"),
    "mbr-metaeval --statistics": ("mbr-metaeval", *DATA, "--statistics", "UNKNOWN"),
    "mbr-metaeval --score": ("mbr-metaeval", *DATA, "--score", "UNKNOWN"),
    "mbr-metaeval --add": (
        *("mbr-metaeval", "post-edits", "--sources", "good.txt", "--before", "good.txt", "--after", "other.txt"),
        *("--add", "UNKNOWN=1"),
    ),
    "pear score --mode": ("pear", "score", "--mode", "UNKNOWN", "--input", "pairs.tsv"),
    "pear-train --kind": ("pear-train", "--data", "judgments.csv", "--kind", "UNKNOWN", "-o", "trained"),
    "pear-train --data-format": ("pear-train", "--data", "judgments.csv", "--data-format", "UNKNOWN", "-o", "trained"),
    "pear-convert --to": ("pear-convert", "pear-folder", "converted", "--to", "UNKNOWN"),
}
SPOILED = {
    "missing": None,
    "folder": "folder",
    "bad UTF-8": b"good\nbad \xff\xfe\tline\n",
    "bad JSON": b'{"source": "A dog.", "candidates": [\n',
    "no gzip": b"this is no gzip file\n",
}


def reader_cases() -> Iterator[Any]:
    for name, words in READERS.items():
        kind = next(word for word in words if "INPUT:" in word).partition("INPUT:")[2]
        for trouble in SPOILED:
            if trouble == "bad JSON" and kind not in ("jsonl", "yaml"):
                continue
            if trouble == "no gzip" and kind == "yaml":
                continue
            yield pytest.param(words, kind, trouble, id=f"{name}-{trouble}")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, ours: Path) -> Path:
    folder = tmp_path_factory.mktemp("files")
    records = [{"id": number, "source": "A dog runs.", "candidates": list(GERMAN)} for number in range(4)]
    write_jsonl(folder / "lists.jsonl", records)
    write_jsonl(folder / "nbest.jsonl", [{"src": "A dog runs.", "hypotheses": list(GERMAN)}])
    (folder / "good.txt").write_text("".join(text + "\n" for text in GERMAN))
    (folder / "other.txt").write_text("a\nb\nc\nd\n")
    (folder / "pairs.tsv").write_text("src\tmt_0\tmt_1\nA dog runs.\tEin Hund rennt.\tHunde laufen.\n")
    rows = [f"source {number},{text},0.{place}" for number in range(12) for place, text in enumerate(GERMAN)]
    (folder / "judgments.csv").write_text("\n".join(["src,mt,score", *rows]) + "\n")
    write_set(folder / "data")
    shutil.copytree(ours, folder / "pear-folder")
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for item in files.iterdir():
        (tmp_path / item.name).symlink_to(item)
    return tmp_path


def outcome(words: tuple[str, ...] | list[str]) -> tuple[int, str]:
    """Exit code and message; an exception that is none of ours is a bug and passes through."""
    try:
        return import_module(COMMANDS[words[0]]).command(list(words[1:])), ""
    except MbrError as exc:
        return exc.exit_code, str(exc)


@pytest.mark.parametrize(("words", "kind", "trouble"), list(reader_cases()))
def test_an_input_that_cannot_be_read_ends_with_3(words: tuple[str, ...], kind: str, trouble: str, here: Path) -> None:
    name = f"input.{kind}" if trouble != "no gzip" else f"input.{kind.removesuffix('.gz')}.gz"
    content = SPOILED[trouble]
    if content == "folder":
        (here / name).mkdir()
    elif isinstance(content, bytes):
        (here / name).write_bytes(content)
    before = sorted(here.iterdir())
    code, message = outcome([word.replace(f"INPUT:{kind}", name) for word in words])
    assert code == 3, message
    assert "input" in message
    left = [path for path in here.iterdir() if path not in before and path.suffix not in (".partial", ".progress")]
    assert not left


@pytest.mark.parametrize("trouble", ["missing", "empty folder", "damaged"])
@pytest.mark.parametrize("words", LOADERS.values(), ids=LOADERS)
def test_a_model_that_cannot_be_loaded_ends_with_4(words: tuple[str, ...], trouble: str, here: Path) -> None:
    if trouble != "missing":
        (here / "model").mkdir()
    if trouble == "damaged":
        for name in ("config.json", "model.safetensors", "hparams.yaml", "model.bin"):
            (here / "model" / name).write_bytes(b'{"model_type": "xlm-roberta", \x00 cut off')
    code, message = outcome([word.replace("MODEL", "./model") for word in words])
    assert code == 4, message


@pytest.mark.parametrize("words", NAMES.values(), ids=NAMES)
def test_an_unknown_name_ends_with_2(words: tuple[str, ...], here: Path) -> None:
    code, message = outcome([word.replace("UNKNOWN", "nonesuch") for word in words])
    assert code == 2, message
    assert "nonesuch" in message


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_ends_with_2(command: str, here: Path) -> None:
    task = (
        ["score", "--input", "pairs.tsv"] if command == "pear" else ["pear-folder", "x"] * (command == "pear-convert")
    ) + ["x"] * (command == "mbr-merge")
    code, message = outcome([command, *task, "--nonesuch"])
    assert code == 2, message
    assert "--nonesuch" in message
