"""The page on the architecture: its walk is the one taken, its files exist, its layers are those of the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.conftest import ROOT
from tests.support.pages import blocks, page
from tests.test_architecture import LAYERS


def test_the_layers_of_the_architecture_page_are_those_that_are_tested() -> None:
    shown = blocks(page("docs/architecture.md"), "text")[-1]
    rooms = [f"{package}: " + " <- ".join(", ".join(layer) for layer in layers) for package, layers in LAYERS.items()]
    wrapped = (textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in rooms)
    assert shown == "\n".join(wrapped) + "\n"


# Not the logic of a package: what all stand on, what commands share, values, and methods of objects opened before.
NO_BORDER = (
    "candidates/common/",
    "candidates/command/",
    "candidates/lists.py",
    "candidates/backends/",
    "pear/shipped.py",
    "pear/engine.py",
)
RECORD_BORDERS = """
import sys, threading
from candidates.command.launch import start

root, borders = sys.argv.pop(1), []

def file_of(frame):
    name = frame.f_code.co_filename
    inside = name.removeprefix(root + "/")
    return inside if inside.startswith(("candidates/", "mbr/", "pear/")) else None

def note(frame, event, _):
    own = file_of(frame)
    if event != "call" or own is None or frame.f_code.co_name == "<module>":
        return
    if own == "mbr/pipeline.py" and frame.f_code.co_name == "windows":
        sys.setprofile(None)
        print("\\n".join(dict.fromkeys(borders)), file=sys.stderr)
        return
    caller = frame.f_back
    while caller is not None and file_of(caller) is None:
        caller = caller.f_back
    if caller is not None and caller.f_code.co_name != "<module>":
        if file_of(caller).split("/")[0] != own.split("/")[0]:
            borders.append(f"BORDER {own} {frame.f_code.co_name}")

sys.setprofile(note)
start("mbr-decode")
"""


def test_the_walk_crosses_the_borders_that_the_architecture_page_lists(tmp_path: Path) -> None:
    """The command of the page is run, and every call from one package into another is noted down."""
    walk = page("docs/architecture.md").partition("## The walk of one sentence")[2].partition("\n## ")[0]
    steps = re.findall(r"\*\*border \d\*\*, \w+ to \w+\. (.*?)(?=\n\d+\. |\n\n)", walk, re.DOTALL)
    listed = [re.findall(r"`((?:candidates|mbr|pear)/[\w/]+\.py)`", step) for step in steps]
    assert len(steps) <= 4
    result = subprocess.run(
        [sys.executable, "-c", RECORD_BORDERS, str(ROOT), "--nbest", "5"],
        input="Tom told me that he wanted to meet my parents.\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    entered = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("BORDER ")]
    crossed = list(dict.fromkeys(file for file in entered if not file.startswith(NO_BORDER)))
    assert len(crossed) == len(listed), crossed
    assert all(file in step for file, step in zip(crossed, listed, strict=True)), crossed


def test_the_files_that_the_architecture_page_names_exist() -> None:
    named = re.findall(
        r"`((?:candidates|mbr|pear|tests|benchmarks)/[\w/.-]+\.(?:py|yaml))`", page("docs/architecture.md")
    )
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists() and "NAME" not in name] == []
