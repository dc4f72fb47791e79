"""The how-to guides, followed word for word: every block of commands runs, in order, in a folder with the named files.

A block with a title (`needs a hub and a GPU`) is not run here; its options are checked by tests/test_docs.py. What a
guide shows right below a block is what the block prints. `pip install` is checked against pyproject.toml, not run.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import DATA, ROOT
from tests.support.pages import SAMPLE

pytestmark = pytest.mark.one_world

GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
START = ROOT / "docs" / "index.md"
_BLOCK = re.compile(
    r"^```sh(?P<title>[^\n]*)\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```)?", re.M | re.S
)
DEVELOPMENT = 40  # sentences


class Block(NamedTuple):
    commands: str
    printed: str | None
    runs: bool


def blocks_of(guide: Path) -> list[Block]:
    found = _BLOCK.finditer(guide.read_text(encoding="utf-8"))
    return [Block(match["commands"], match["printed"], not match["title"].strip()) for match in found]


def installed(commands: str) -> list[str]:
    """What the lines with `pip install` install."""
    return re.findall(r"^pip install '?([^'\n]+)'?$", commands, re.M)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that guides presuppose."""
    for language in ("en", "de"):
        lines = (ROOT / f"benchmarks/sample/hundred.{language}.txt").read_text(encoding="utf-8").splitlines(True)
        (tmp_path / f"dev.{language}.txt").write_text("".join(lines[:DEVELOPMENT]), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("guide", [START, *GUIDES], ids=lambda guide: guide.stem)
def test_a_guide_can_be_followed_word_for_word(guide: Path, folder: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    if "--data mt-metrics-eval-v2" in text:
        if not (DATA / "mt-metrics-eval-v2").is_dir():
            pytest.skip(f"no mt-metrics-eval-v2 at {DATA}; set MBR_DATA to the folder that holds it")
        (folder / "mt-metrics-eval-v2").symlink_to(DATA / "mt-metrics-eval-v2")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    blocks = [block for block in blocks_of(guide) if block.runs]
    assert blocks, f"{guide.name} has no commands that can be run here"
    for block in blocks:
        commands = re.sub(r"^pip install .*\n", "", block.commands, flags=re.M)
        commands = commands.replace("8080", str(_free_port()))
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{block.commands}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        if block.printed is not None:
            assert result.stdout == block.printed


def test_what_guides_install_is_what_the_package_offers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for guide in GUIDES:
        for block in blocks_of(guide):
            for name in installed(block.commands):
                package, _, extras = name.rstrip("]").partition("[")
                assert package == project["name"], f"{guide.name}: {name}"
                assert set(filter(None, extras.split(","))) <= set(project["optional-dependencies"]), name


def test_blocks_and_what_they_print_are_read_off_a_guide(tmp_path: Path) -> None:
    text = "```sh\na\n```\n\n```text\nprinted\n```\n\n"
    text += "```sh title=\"needs a GPU\"\nb\n```\n\n```sh\npip install 'x[y]'\nc\n```\n"
    (tmp_path / "guide.md").write_text(text)
    first, second, third = blocks_of(tmp_path / "guide.md")
    assert first == Block("a\n", "printed\n", True)
    assert second == Block("b\n", None, False)
    assert installed(third.commands) == ["x[y]"]


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """Those below `Use it`, but for the one that downloads the released PEAR."""
    (block,) = re.findall(r"## Use it\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    shutil.copy(SAMPLE, tmp_path / "lists.jsonl")
    *commands, released = block.splitlines()
    assert "--model pear" in released
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert len((tmp_path / "best.txt").read_text(encoding="utf-8").splitlines()) == len(SAMPLE.read_text().splitlines())


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
