"""The shape of the project: imports point one way, commands start light, the wheel holds what it should."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from candidates.command.launch import COMMANDS
from tests.conftest import ROOT

# What each package may import of ours. Inside mbr, earlier may not import later.
MAY_IMPORT = {
    "candidates": {"candidates"},
    "pear": {"candidates", "pear"},
    "mbr": {"candidates", "pear", "mbr"},
}
MBR_LAYERS = [
    "drawing",
    "notebook",
    "matrix",
    "signature",
    "decide",
    "metrics",
    "utilities",
    "strategies",
    "cache",
    "pool",
    "prefilter",
    "pipeline",
    "api",
    "evaluate",
    "compare",
    "metaeval",
    "estimate",
    "cli",
]


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(file: Path, *, types: bool = True) -> set[str]:
    """The modules that a file imports, with or without those that only type checkers see."""
    found: set[str] = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if not types:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_in_one_direction(package: str) -> None:
    for file in modules(package):
        foreign = {name.split(".")[0] for name in imports(file)} & (MAY_IMPORT.keys() | {"tests", "benchmarks"})
        assert foreign <= MAY_IMPORT[package], f"{file.relative_to(ROOT)} imports {foreign - MAY_IMPORT[package]}"


def layer(module: str) -> int:
    return MBR_LAYERS.index(module.split(".")[1])


def test_layers_of_mbr_import_in_one_direction() -> None:
    for file in modules("mbr"):
        own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if own == "mbr.__init__":
            continue
        for name in imports(file, types=False):
            if name.startswith("mbr."):
                assert layer(name) <= layer(own), f"{own} imports {name}, which comes later"


HEAVY = ("torch", "transformers", "ctranslate2", "comet", "sacrebleu", "huggingface_hub")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command: str) -> None:
    program = (
        "import sys\nfrom candidates.command.launch import start\nsys.argv = ['x', '--help']\n"
        f"try:\n    start({command!r})\nfinally:\n"
        f"    sys.stderr.write(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "quick start:" in result.stdout
    assert "exit codes:" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_answers_within_half_a_second(command: str) -> None:
    script = Path(sys.executable).with_name(command)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([script, "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.5


def test_wheel_holds_the_three_packages_and_nothing_else(tmp_path: Path) -> None:
    for name in ("candidates", "pear", "mbr", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "work"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        "out",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").glob("mbr_decode-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == {"candidates", "pear", "mbr"}
    assert {"candidates/py.typed", "pear/py.typed", "mbr/py.typed"} <= set(names)
    bundled = {f"candidates/bundled/en-de/{name}" for name in ("model.bin", "sentencepiece.model", "README.md")}
    assert bundled <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
