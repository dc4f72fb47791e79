"""What happens when pear-mt or mbr is installed over us: a clear sentence, not a riddle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def installation(folder: Path, rival: str | None = None) -> Path:
    """Our packages as an installer would lay them out, and a rival's record that claims one of the modules."""
    for name in ("candidates", "pear", "mbr"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if rival:
        info = folder / f"{rival.replace('-', '_')}-1.1.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {rival}\nVersion: 1.1.1\n")
    return folder


def python(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


LAUNCH = "from candidates.command.launch import start; import sys; start(sys.argv.pop(1))"


def test_alone_all_is_well(tmp_path: Path) -> None:
    folder = installation(tmp_path)
    assert python(folder, "import pear, mbr; print(mbr.rerank)").returncode == 0


@pytest.mark.parametrize(("rival", "module"), [("pear-mt", "pear"), ("mbr", "mbr")])
@pytest.mark.parametrize("imported", ["pear", "mbr"])
def test_a_second_owner_is_an_import_error_with_the_repair(
    tmp_path: Path, rival: str, module: str, imported: str
) -> None:
    result = python(installation(tmp_path, rival), f"import {imported}")
    assert result.returncode == 1
    assert f"the module '{module}' at {tmp_path / module} has two owners, mbr-decode and {rival}" in result.stderr
    assert f"pip uninstall -y {rival} && pip install --force-reinstall --no-deps mbr-decode" in result.stderr


@pytest.mark.parametrize("command", ["mbr-decode", "pear-score", "pear-convert"])
def test_commands_end_with_the_environment_code_and_no_traceback(tmp_path: Path, command: str) -> None:
    result = python(installation(tmp_path, "pear-mt"), LAUNCH, command, "--help")
    assert result.returncode == 6
    assert result.stderr.startswith(f"{command}: error: the module 'pear'")
    assert "Traceback" not in result.stderr


def test_a_module_that_is_wholly_foreign_is_noticed(tmp_path: Path) -> None:
    folder = installation(tmp_path)
    shutil.rmtree(folder / "pear")
    (folder / "pear").mkdir()
    (folder / "pear" / "__init__.py").write_text("raise RuntimeError('the other pear was imported')")
    result = python(folder, LAUNCH, "mbr-decode", "--help")
    assert result.returncode == 6
    assert "is not the one of mbr-decode but another's" in result.stderr


def test_the_doctor_still_runs_and_tells(tmp_path: Path) -> None:
    result = python(installation(tmp_path, "pear-mt"), LAUNCH, "mbr-doctor")
    assert result.returncode == 6, result.stderr
    assert "PROBLEM: the module 'pear'" in result.stdout
    assert "1 problem(s) found" in result.stdout


def test_a_rival_elsewhere_on_the_path_that_we_shadow_is_no_problem(tmp_path: Path) -> None:
    folder = installation(tmp_path / "ours")
    other = tmp_path / "other"
    (other / "pear").mkdir(parents=True)
    (other / "pear_mt-1.1.1.dist-info").mkdir()
    (other / "pear_mt-1.1.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pear-mt\nVersion: 1.1.1\n"
    )
    result = python(folder, f"import sys; sys.path.append({str(other)!r}); import mbr")
    assert result.returncode == 0, result.stderr
