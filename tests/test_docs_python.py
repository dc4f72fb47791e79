"""The Python of every page runs: the blocks of a page one after another, in a folder with the files that they name.

A block that begins with the name of a file (`# overlap.py`) is a plug-in, which tests/test_docs_plug_ins.py installs.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from candidates import CandidateList, Settings, open_generator
from candidates.formats import render_list
from tests.conftest import ROOT
from tests.support.pages import PAGES, SAMPLE, blocks
from tests.support.tiny import tiny_model

# Pages whose Python needs more than this machine, with what runs it instead.
ELSEWHERE = {
    "docs/serve.md": "a running service: tests/mbr/serve/test_serve_page.py",
    "docs/llm.md": "a chat server: tests/mbr/utilities/test_llm.py",
}
# What a block says, and what takes seconds instead of hours.
SMALLER = {
    "Recipe(steps=4000)": "Recipe(steps=2, vocabulary=400, width=64, encoder_layers=1, decoder_layers=1)",
}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def code_of(file: Path) -> str:
    """The Python of a page, but for plug-ins."""
    found = blocks(file.read_text(encoding="utf-8"), "python")
    code = "\n".join(block for block in found if not re.match(r"# \w+\.py\n", block))
    for shown, smaller in SMALLER.items():
        code = code.replace(shown, smaller)
    return code


WITH_PYTHON = [file for file in PAGES if code_of(file)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, ours: Path) -> Path:
    """The files that pages name."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(SAMPLE, folder / "lists.jsonl")
    shutil.copytree(ours, folder / "pear-folder")
    for kind, name in (("resume", "resume"), ("single", "single"), ("sentinel-cand", "sentinel")):
        tiny_model(folder / "made", kind).rename(folder / f"{name}-folder")
    english, german = (
        (SAMPLE.parent / f"hundred.{language}.txt").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    with open_generator(Settings(nbest=6)) as generator:
        made = [item for item in generator.generate(english[:24]) if isinstance(item, CandidateList)]
    lists = [replace(item, references=(text,)) for item, text in zip(made, german, strict=False)]
    (folder / "dev.jsonl").write_bytes(b"".join(render_list(item, "jsonl", 0) for item in lists))
    pairs = "".join(f"{n}: {a}\t{n}: {b}\n" for n in range(6) for a, b in zip(english, german, strict=True))
    (folder / "pairs.tsv").write_text(pairs, encoding="utf-8")
    with gzip.open(folder / "deu-eng.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write(pairs)
    return folder


@pytest.mark.parametrize("file", [file for file in WITH_PYTHON if name_of(file) not in ELSEWHERE], ids=name_of)
def test_the_python_of_a_page_runs(file: Path, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    done = subprocess.run([sys.executable, "-c", code_of(file)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pages_whose_python_runs_elsewhere_still_have_some() -> None:
    assert set(ELSEWHERE) <= {name_of(file) for file in WITH_PYTHON}


def test_every_block_that_is_made_smaller_is_on_a_page() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in PAGES)
    assert all(shown in text for shown in SMALLER)
